//! The shallowest depth: who spent how much. A ledger reads all of a history, so this reads little of a line.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::json::template::Template;
use crate::json::{Flag, Raw, Text, object, scanner};
use crate::layout::usage_fields::{self, COUNT_FIELDS, RawUsage};
use crate::layout::{Decoded, Decoder as _, Needle, Record, ReplyDelta};
use crate::model::{Fact, FlawKind, Outline, OutlineKind, Reply, SYNTHETIC};

use super::line::LineDecoder;

/// A line of a model says so; it can do that without these letters only if it escapes one of them.
pub(super) const NEEDLE: Needle = Needle {
    find: find_assistant,
    max_len: ASSISTANT.len(),
};

const ASSISTANT: &str = "\"assistant\"";
/// What escapes of ASCII characters begin with; letters go on with 6 or 7.
const ESCAPE: &str = "\\u00";

fn find_assistant(bytes: &[u8]) -> Option<usize> {
    static PLAIN: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(ASSISTANT));
    let plain = PLAIN.find(bytes);
    let before = bytes.get(..plain.unwrap_or(bytes.len()))?;
    escaped_letter(before).or(plain)
}

/// Where the first escape of a letter is. Other escapes are frequent, so blocks are gone through as a
/// whole instead of from one to the next.
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

/// Whether a letter may be escaped in a block. Written so that compilers make vector instructions of it.
fn may_escape(block: &[u8; BLOCK + ESCAPE.len()]) -> bool {
    let (first, last) = (block.iter(), block.iter().skip(ESCAPE.len()));
    first.zip(last).fold(false, |found, (first, last)| {
        found | ((*first == b'\\') & (last | 1 == b'7'))
    })
}

object! {
    /// Of a line, what a ledger wants to know, and what differs from line to line.
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
    /// What the line is a copy of.
    Original,
    /// By its place among the counts.
    Tokens(usize),
}

/// How a log spells replies, as its last one shows.
#[derive(Debug, Default)]
pub(super) struct ReplyTemplate {
    last: Option<Template<VariableValue>>,
    /// The last one was a copy.
    copied: bool,
    /// How many lines are let pass before one is learned from.
    pause: u32,
    /// How many times in a row nothing was like the line that was learned from.
    failures: u32,
}

impl ReplyTemplate {
    /// Learns from a line. Where lines differ in more than a few values that is in vain, so it is
    /// done less and less often.
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

/// A line of a model that differs from the last in its content, its ids, its time and its counts, and in nothing else.
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

/// Outlines a line of a model. What is odd or damaged is left to the full outline.
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
    // A reply as most are.
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

    /// How one depth reads a line, and whether by the line before.
    type Depth = fn(&mut LineDecoder, &Record<'_>, &mut Decoded<Outline>) -> Option<ReplyDelta>;

    /// The charges and flaws of lines, at one depth, and how many were read by the line before.
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

    /// Whatever stands in a line, and in whichever order, a bill says what the full outline says.
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
        // What looks like tokens but is text, or another's.
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
                    // Once more, then with its members the other way round.
                    format!(r#"{{"message":{{{message},"usage":{usage}}},{rest}}}"#),
                    format!(r#"{{{rest},"message":{{"usage":{usage},{message}}}}}"#),
                    // The last of two counts, and an escaped name is a name.
                    format!(r#"{{"message":{{"usage":{{}},{message},"usage":{usage}}},{rest}}}"#),
                    format!(r#"{{"message":{{{message},"\u0075sage":{usage}}},{rest}}}"#),
                    format!(r#"{{"message":{{{message},"usage":{usage}}},"message":{{{message}}},{rest}}}"#),
                    format!(r#"{{"usage":{usage},"message":{{{message}}},{rest}}}"#),
                    // A model beside the message, and content.
                    format!(r#"{{"message":{{{message},"usage":{usage}}},"model":"n",{rest}}}"#),
                    format!(r#"{{"message":{{"id":"n{number}","usage":{usage}}},"model":"n",{rest}}}"#),
                    format!(r#"{{"message":{{"model":"","usage":{usage}}},"model":"n{number}",{rest}}}"#),
                    format!(r#"{{"model":"n","content":{content},{rest}}}"#),
                    format!(r#"{{"message":{{{message},"usage":{usage}}},{rest},"type":"user"}}"#),
                    format!(r#"{{"message":{{{message},"usage":{usage}}},{rest}"#),
                ]);
            }
        }
        // Each in its place, then each after several others.
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

    /// A reply of a session, with one of its members spelled otherwise.
    fn reply(number: usize, from: &str, to: &str) -> String {
        let line = format!(
            r#"{{"parentUuid":"p{number}","isSidechain":true,"agentId":"a1","cwd":"/w","sessionId":"s1","gitBranch":"main","version":"2","message":{{"model":"m1","id":"i{number}","type":"message","role":"assistant","content":[{{"type":"text","text":"said\n{number}"}}],"stop_reason":null,"usage":{{"input_tokens":{number},"cache_creation_input_tokens":9,"cache_read_input_tokens":8,"cache_creation":{{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4}},"output_tokens":7,"service_tier":"standard"}}}},"requestId":"r{number}","type":"assistant","uuid":"u{number}","timestamp":"2026-03-02T09:00:{number:02}.5Z"}}"#
        );
        assert!(line.contains(from), "{from}");
        line.replacen(from, to, 1)
    }

    /// Most replies are read by the one before, and whatever changes in between is seen.
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
                // One alone, several in a row, and every other one.
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

    /// Wherever it stands in a block or across two, and whatever escapes stand before it.
    #[test]
    fn escaped_letter_is_found_at_any_offset() {
        for at in 0..3 * BLOCK {
            for before in ["x", "\\n6", "\\u001b", "\\u0031"] {
                let before: String = before.chars().cycle().take(at).collect();
                // What is cut off may be no escape, or one of another character.
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
