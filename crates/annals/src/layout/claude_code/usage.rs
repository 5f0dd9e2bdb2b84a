//! Usage outlines. A ledger reads the whole history, so this parses as little of a line as
//! possible.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::json::template::Template;
use crate::json::{Flag, Raw, Text, object, scanner};
use crate::layout::usage_fields::{self, COUNT_FIELDS, RawUsage};
use crate::layout::{Decoded, Decoder as _, Needle, Record, ReplyDelta};
use crate::model::{Fact, FlawKind, Outline, OutlineKind, Reply, SYNTHETIC};

use super::line::LineDecoder;

/// Matches `"assistant"`, which every reply contains unless one of its letters is escaped; so it
/// also matches escaped letters.
pub(super) const NEEDLE: Needle = Needle {
    find: find_assistant,
    max_len: ASSISTANT.len(),
};

const ASSISTANT: &str = "\"assistant\"";
/// Prefix of escaped ASCII characters; for lower-case letters a 6 or 7 follows.
const ESCAPE: &str = "\\u00";

fn find_assistant(bytes: &[u8]) -> Option<usize> {
    static PLAIN: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(ASSISTANT));
    let plain = PLAIN.find(bytes);
    let before = bytes.get(..plain.unwrap_or(bytes.len()))?;
    escaped_letter(before).or(plain)
}

/// Returns the offset of the first escaped letter. Other escapes are frequent, so whole blocks are
/// tested instead of each escape.
fn escaped_letter(bytes: &[u8]) -> Option<usize> {
    static ESCAPED: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(ESCAPE));
    let search = |bytes: &[u8]| {
        let is_letter = |at: &usize| matches!(bytes.get(at + ESCAPE.len()), Some(b'6' | b'7'));
        ESCAPED.find_iter(bytes).find(is_letter)
    };
    let mut at = 0;
    while let Some(block) = bytes.get(at..)?.first_chunk() {
        if may_escape(block)
            && let Some(found) = search(block)
        {
            return Some(at + found);
        }
        at += BLOCK;
    }
    search(bytes.get(at..)?).map(|found| at + found)
}

const BLOCK: usize = 128;

/// Returns whether a block may contain an escaped letter. Written so that compilers vectorize it.
fn may_escape(block: &[u8; BLOCK + ESCAPE.len()]) -> bool {
    let (first, last) = (block.iter(), block.iter().skip(ESCAPE.len()));
    first.zip(last).fold(false, |found, (first, last)| {
        found | ((*first == b'\\') & (last | 1 == b'7'))
    })
}

object! {
    /// The members of a line that a ledger needs, and those that differ from line to line.
    struct UsageLine<'a> {
        "type" => kind: Text<'a>,
        "parentUuid" => parent: Raw<'a>,
        "uuid" => uuid: Raw<'a>,
        "timestamp" => timestamp: Raw<'a>,
        "isSidechain" => sidechain: Flag,
        "agentId" => agent: Text<'a>,
        "sessionId" => session: Text<'a>,
        "cwd" => cwd: Text<'a>,
        "gitBranch" => git_branch: Text<'a>,
        "forkedFrom" => forked_from: Raw<'a>,
        "requestId" => request: Raw<'a>,
        "model" => model: Text<'a>,
        "costUSD" => cost: Raw<'a>,
        "message" => message: UsageMessage<'a>,
    }
}

object! {
    struct UsageMessage<'a> {
        "id" => id: Raw<'a>,
        "model" => model: Text<'a>,
        "content" => content: Raw<'a>,
        "stop_reason" => stop_reason: Raw<'a>,
        "usage" => usage: RawUsage<'a>,
    }
}

/// A value that differs from line to line.
#[derive(Clone, Copy, Debug)]
enum VariableValue {
    Unread,
    Time,
    Message,
    Request,
    /// The original of a copied line.
    Original,
    /// A token count, by its index.
    Tokens(usize),
}

/// Template of replies, derived from the last one.
#[derive(Debug, Default)]
pub(super) struct ReplyTemplate {
    last: Option<Template<VariableValue>>,
    /// The last one was a copy.
    copied: bool,
    /// Number of lines to skip before building the next template.
    pause: u32,
    /// Number of consecutive templates that matched nothing.
    failures: u32,
}

impl ReplyTemplate {
    /// Builds a template from a line. Where lines differ in more than a few values templates never
    /// match, so the attempts become less and less frequent.
    fn learn(&mut self, text: &str, bill: &UsageLine<'_>) {
        if self.last.take().is_some() {
            self.failures = (self.failures + 1).min(6);
            self.pause = (1 << self.failures) - 2;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        self.copied = bill.forked_from.is_some();
        let message = &bill.message;
        let mut values = vec![
            (VariableValue::Unread, bill.parent),
            (VariableValue::Unread, bill.uuid),
            (VariableValue::Time, bill.timestamp),
            (VariableValue::Original, bill.forked_from),
            (VariableValue::Request, bill.request),
            (VariableValue::Message, message.id),
            (VariableValue::Unread, message.content),
            (VariableValue::Unread, message.stop_reason),
        ];
        let counts = message.usage.counts().into_iter().enumerate();
        values.extend(counts.map(|(at, count)| (VariableValue::Tokens(at), count)));
        self.last = Template::new(text, &values);
    }
}

/// Decodes a reply that differs from the last in content, ids, time and counts only.
pub(super) fn reply_delta(lines: &mut LineDecoder, record: &Record<'_>) -> Option<ReplyDelta> {
    let replies = &mut lines.replies;
    let mould = replies.last.as_ref().filter(|_| !record.oversize)?;
    let text = simdutf8::basic::from_utf8(record.bytes).ok()?;
    let (mut time, mut message, mut request) = (None, Text::default(), Text::default());
    let mut counts = [None; COUNT_FIELDS];
    mould.extract(text, |value, raw| {
        match value {
            VariableValue::Unread => {}
            VariableValue::Time => time = lines.time_parser.parse(raw),
            VariableValue::Message => message = Text(raw.text()),
            VariableValue::Request => request = Text(raw.text()),
            VariableValue::Original => (raw.is_some() == replies.copied).then_some(())?,
            VariableValue::Tokens(at) => *counts.get_mut(at)? = usage_fields::decode_count(raw)?,
        }
        Some(())
    })?;
    let usage = usage_fields::usage_from_array(counts)?;
    replies.failures = 0;
    Some(ReplyDelta {
        response: lines.response(&message, &request),
        time,
        usage,
    })
}

/// Outlines a reply. Unusual or damaged lines are left to the full outline.
pub(super) fn outline(lines: &mut LineDecoder, record: &Record<'_>, out: &mut Decoded<Outline>) {
    let text = simdutf8::basic::from_utf8(record.bytes).ok();
    let text = text.filter(|_| !record.oversize);
    let read = text.and_then(|text| Some((text, scanner::parse::<UsageLine<'_>>(text)?)));
    let Some((text, bill)) = read else {
        lines.replies = ReplyTemplate::default();
        return lines.outline(record, out);
    };
    if bill.kind.get() != Some("assistant") {
        return;
    }
    let mut outline = Outline::new(record.span);
    outline.kind = OutlineKind::Assistant;
    outline.time = lines.time_parser.parse(bill.timestamp);
    outline.agent = lines.agent(&bill.session, &bill.agent, bill.sidechain);
    outline.sidechain = bill.sidechain.0;
    let session = lines.session.changed(&bill.session);
    outline.facts.extend(session.map(Fact::Session));
    let cwd = lines.cwd.changed(&bill.cwd);
    outline.facts.extend(cwd.map(Fact::Cwd));
    let git_branch = lines.git_branch.changed_to(&bill.git_branch);
    outline.facts.extend(git_branch.map(Fact::GitBranch));
    let spent = bill.message.usage.decode();
    let (recorded, fault) = usage_fields::recorded_cost("costUSD", bill.cost);
    let fault = spent.fault.or(fault);
    let model = bill.message.model.non_empty().or(bill.model.non_empty());
    let copied = bill.forked_from.is_some();
    // Only typical replies become templates.
    let plain = fault.is_none() && spent.usage.is_some() && recorded.is_none();
    match plain && model != Some(SYNTHETIC) {
        true => lines.replies.learn(text, &bill),
        false => lines.replies = ReplyTemplate::default(),
    }
    if let Some(detail) = fault {
        out.add_flaw(FlawKind::BadUsage, record.span, detail);
    }
    outline.reply = Some(Box::new(Reply {
        response: lines.response(&Text(bill.message.id.text()), &Text(bill.request.text())),
        model: model.map(|model| lines.shared_model(model)),
        usage: spent.usage,
        terms: spent.terms,
        recorded,
        copied,
        ..Reply::default()
    }));
    out.items.push(outline);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::LogCharges;
    use crate::model::{Artifact, ArtifactKind, Flaw, Span};

    /// Reads a line at one depth; returns the delta if the line matched the template.
    type Depth = fn(&mut LineDecoder, &Record<'_>, &mut Decoded<Outline>) -> Option<ReplyDelta>;

    /// Returns the charges and flaws of lines, and how many lines matched the template.
    fn read(lines: &[String], depth: Depth) -> (String, Vec<Flaw>, usize) {
        let mut decoder = LineDecoder::new(&Artifact::new(ArtifactKind::SessionLog));
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
            if let Some(again) = depth(&mut decoder, &record, &mut sink) {
                sheet.add_delta(&again);
                repeated += 1;
            }
            sink.items.drain(..).for_each(|outline| sheet.add(&outline));
        }
        let found = (&sheet.charges, sheet.directories(), sheet.latest);
        (format!("{found:?}"), sink.flaws, repeated)
    }

    fn decode_by_template(
        lines: &mut LineDecoder,
        record: &Record<'_>,
        out: &mut Decoded<Outline>,
    ) -> Option<ReplyDelta> {
        let again = reply_delta(lines, record);
        if again.is_none() {
            outline(lines, record, out);
        }
        again
    }

    fn decode_fully(
        lines: &mut LineDecoder,
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
                let message = format!(
                    r#""id":"m{number}","model":"m","role":"assistant","content":{content}"#
                );
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
                    format!(r#"{{"message":{{{message},"usage":{usage}}},"message":{{{message}}},{rest}}}"#),
                    format!(r#"{{"usage":{usage},"message":{{{message}}},{rest}}}"#),
                    // Model and content outside the message.
                    format!(r#"{{"message":{{{message},"usage":{usage}}},"model":"n",{rest}}}"#),
                    format!(r#"{{"message":{{"id":"n{number}","usage":{usage}}},"model":"n",{rest}}}"#),
                    format!(r#"{{"message":{{"model":"","usage":{usage}}},"model":"n{number}",{rest}}}"#),
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
                let other =
                    number == 9 || (20..30).contains(&number) || number > 40 && number % 2 == 0;
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

    /// At any position in a block or across two, after any other escapes.
    #[test]
    fn escaped_letter_is_found_at_any_offset() {
        for at in 0..3 * BLOCK {
            for before in ["x", "\\n6", "\\u001b", "\\u0031"] {
                let before: String = before.chars().cycle().take(at).collect();
                // `before` may be cut within an escape.
                let text = format!("{before}+\\u0073{}", "\\\\y".repeat(90));
                assert_eq!(escaped_letter(text.as_bytes()), Some(at + 1), "{text}");
                let none = text.replace("\\u0073", "\\u0053");
                assert_eq!(escaped_letter(none.as_bytes()), None, "{none}");
                assert_eq!(escaped_letter(&text.as_bytes()[..at + 5]), None);
            }
        }
    }

    #[test]
    fn needle_finds_line_type_written_with_escapes() {
        let text = br#"xx \u001b "type":"a\u0073sistant" "assistant""#;
        assert_eq!(find_assistant(text), Some(19));
        assert_eq!(find_assistant(br#"\u001b "assistant""#), Some(7));
        assert_eq!(find_assistant(br#"\u001b \u0056"#), None);
    }
}
