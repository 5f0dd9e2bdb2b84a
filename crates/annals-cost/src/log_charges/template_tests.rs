//! Usage read by template equals usage read record by record, whatever the lines contain.

use annals_layouts::layout::{ClaudeCode, Decoded, Decoder, Layout as _, Record, ReplyDelta};
use annals_layouts::model::{Artifact, ArtifactKind, Flaw, Outline, Span};

use super::*;

/// Reads a line at one depth; returns the delta if the line matched the template.
type Depth = fn(&mut dyn Decoder, &Record<'_>, &mut Decoded<Outline>) -> Option<ReplyDelta>;

/// Returns the charges and flaws of lines, and how many lines matched the template.
fn read(lines: &[String], depth: Depth) -> (String, Vec<Flaw>, usize) {
    let mut decoder = ClaudeCode.decoder(&Artifact::new(ArtifactKind::SessionLog));
    let mut sheet = LogCharges::default();
    let mut sink = Decoded::default();
    let mut repeated = 0;
    for (number, line) in lines.iter().enumerate() {
        let record = Record {
            span: Span {
                offset: number as u64 * 1000,
                len: line.len() as u64,
                line: 0,
            },
            bytes: line.as_bytes(),
            terminated: true,
            oversize: false,
        };
        if let Some(again) = depth(&mut *decoder, &record, &mut sink) {
            sheet.add_delta(&again);
            repeated += 1;
        }
        sink.items.drain(..).for_each(|outline| sheet.add(&outline));
    }
    let found = (&sheet.charges, sheet.directories(), sheet.latest);
    (format!("{found:?}"), sink.flaws, repeated)
}

fn decode_by_template(
    lines: &mut dyn Decoder,
    record: &Record<'_>,
    out: &mut Decoded<Outline>,
) -> Option<ReplyDelta> {
    let again = lines.reply_delta(record);
    if again.is_none() {
        lines.outline_usage(record, out);
    }
    again
}

fn decode_fully(
    lines: &mut dyn Decoder,
    record: &Record<'_>,
    out: &mut Decoded<Outline>,
) -> Option<ReplyDelta> {
    lines.outline(record, out);
    None
}

/// Whatever the content and order of a line, the usage outline agrees with the full outline.
#[test]
fn usage_outline_agrees_with_full_outline() {
    let usages = [
        r#"{"input_tokens":1,"output_tokens":20,"cache_creation":{"ephemeral_1h_input_tokens":3}}"#,
        r#"{"output_tokens":21,"service_tier":"batch"}"#,
        r#"{"output_tokens":-1}"#,
        r#"{"output_tokens":15.0,"output_tokens":1e1}"#,
        r#"{"output\u005ftokens":4}"#,
        r#""none""#,
        "null",
        "{}",
    ];
    // Text, or members of other objects, that look like usage.
    let contents = [
        "[]",
        r#"[{"type":"text","text":"\"usage\":{\"output_tokens\":999}}"}]"#,
        r#"[{"type":"tool_use","input":{"usage":{"output_tokens":999},"type":"assistant","id":"x"}}]"#,
        r#"[{"type":"text","text":"\ud800 \u0022usage\u0022"}]"#,
        r#"[{"type":"text","text":"a bad \escape"}]"#,
    ];
    let mut lines = Vec::new();
    for (number, usage) in usages.iter().enumerate() {
        for content in contents {
            let message =
                format!(r#""id":"m{number}","model":"m","role":"assistant","content":{content}"#);
            let rest = format!(
                r#""requestId":"r{number}","timestamp":"2026-03-02T09:00:{number:02}Z","type":"assistant""#
            );
            lines.extend([
                format!(r#"{{"message":{{{message},"usage":{usage}}},{rest}}}"#),
                // Repeated, then with its members in the opposite order.
                format!(r#"{{"message":{{{message},"usage":{usage}}},{rest}}}"#),
                format!(r#"{{{rest},"message":{{"usage":{usage},{message}}}}}"#),
                // Duplicate members, of which the last counts, and escaped names.
                format!(r#"{{"message":{{"usage":{{}},{message},"usage":{usage}}},{rest}}}"#),
                format!(r#"{{"message":{{{message},"\u0075sage":{usage}}},{rest}}}"#),
                format!(
                    r#"{{"message":{{{message},"usage":{usage}}},"message":{{{message}}},{rest}}}"#
                ),
                format!(r#"{{"usage":{usage},"message":{{{message}}},{rest}}}"#),
                // Model and content outside the message.
                format!(r#"{{"message":{{{message},"usage":{usage}}},"model":"n",{rest}}}"#),
                format!(r#"{{"message":{{"id":"n{number}","usage":{usage}}},"model":"n",{rest}}}"#),
                format!(
                    r#"{{"message":{{"model":"","usage":{usage}}},"model":"n{number}",{rest}}}"#
                ),
                format!(r#"{{"model":"n","content":{content},{rest}}}"#),
                format!(r#"{{"message":{{{message},"usage":{usage}}},{rest},"type":"user"}}"#),
                format!(r#"{{"message":{{{message},"usage":{usage}}},{rest}"#),
            ]);
        }
    }
    // Each line in sequence, then each after several others.
    let others = lines.iter().flat_map(|line| {
        let some = lines.iter().step_by(17);
        some.flat_map(move |other| [other, line])
    });
    let others: Vec<String> = others.cloned().collect();
    for lines in [lines, others] {
        let (charges, flaws, repeated) = read(&lines, decode_by_template);
        let (expected, faults, _) = read(&lines, decode_fully);
        assert_eq!(charges, expected);
        assert_eq!(flaws, faults);
        assert!(charges.contains("output: 20") && !charges.contains("output: 999"));
        assert!(repeated > 0);
    }
}

/// Returns a reply of a session with one member changed.
fn reply(number: usize, from: &str, to: &str) -> String {
    let line = format!(
        r#"{{"parentUuid":"p{number}","isSidechain":true,"agentId":"a1","cwd":"/w","sessionId":"s1","gitBranch":"main","version":"2","message":{{"model":"m1","id":"i{number}","type":"message","role":"assistant","content":[{{"type":"text","text":"said\n{number}"}}],"stop_reason":null,"usage":{{"input_tokens":{number},"cache_creation_input_tokens":9,"cache_read_input_tokens":8,"cache_creation":{{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4}},"output_tokens":7,"service_tier":"standard"}}}},"requestId":"r{number}","type":"assistant","uuid":"u{number}","timestamp":"2026-03-02T09:00:{number:02}.5Z"}}"#
    );
    assert!(line.contains(from), "{from}");
    line.replacen(from, to, 1)
}

/// Most replies match the template, and every change in between is detected.
#[test]
fn reply_read_by_template_equals_reply_read_alone() {
    let changes = [
        ("", ""),
        ("m1", "m2"),
        ("m1", "<synthetic>"),
        ("/w", "/x"),
        ("s1", "s2"),
        ("main", ""),
        ("a1", "a2"),
        ("true", "false"),
        ("standard", "batch"),
        ("\"output_tokens\":7", "\"output_tokens\":-7"),
        ("\"output_tokens\":7", "\"output_tokens\":7e3"),
        ("\"output_tokens\":7", "\"output_tokens\":null"),
        ("\"assistant\",\"uuid", "\"user\",\"uuid"),
        ("2026-03", "2026-13"),
        ("said", "\u{7}"),
        ("said", "\\u0061"),
        ("{", "{\"forkedFrom\":null,"),
        ("{", "{\"forkedFrom\":{},"),
        ("{", "{\"costUSD\":0.5,"),
        ("}", ""),
    ];
    let mut lines = Vec::new();
    for (from, to) in changes {
        for number in 0..60 {
            // One line, several in a row, and every second line.
            let other = number == 9 || (20..30).contains(&number) || number > 40 && number % 2 == 0;
            let (from, to) = if other { (from, to) } else { ("", "") };
            lines.push(reply(number, from, to));
        }
    }
    let (charges, flaws, repeated) = read(&lines, decode_by_template);
    let (expected, faults, _) = read(&lines, decode_fully);
    assert_eq!(charges, expected);
    assert_eq!(flaws, faults);
    assert!(repeated > lines.len() / 2, "{repeated} of {}", lines.len());
}
