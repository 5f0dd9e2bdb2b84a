//! The shallowest depth: who spent how much. A ledger reads all of a history, so this reads little of a line.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::json::{Flag, Raw, Text, fast, object};
use crate::layout::field::{self, Spending, timestamp};
use crate::layout::{Decoder as _, Mark, Record, Sink};
use crate::model::{Fact, FlawKind, Kind, Outline, Reply};

use super::line::Lines;

/// A line of a model says so; it can do that without these letters only if it escapes one of them.
pub(super) const MARK: Mark = Mark {
    find,
    longest: ASSISTANT.len(),
};

const ASSISTANT: &str = "\"assistant\"";
/// What escapes of ASCII characters begin with; letters go on with 6 or 7.
const ESCAPE: &str = "\\u00";

fn find(bytes: &[u8]) -> Option<usize> {
    static PLAIN: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(ASSISTANT));
    static ESCAPED: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(ESCAPE));
    let plain = PLAIN.find(bytes);
    let before = bytes.get(..plain.unwrap_or(bytes.len()))?;
    let is_letter = |at: &usize| matches!(before.get(at + ESCAPE.len()), Some(b'6' | b'7'));
    ESCAPED.find_iter(before).find(is_letter).or(plain)
}

object! {
    /// Of a line, what a ledger wants to know.
    struct Bill<'a> {
        "type" => kind: Text<'a>,
        "timestamp" => timestamp: Raw<'a>,
        "isSidechain" => sidechain: Flag,
        "agentId" => agent: Text<'a>,
        "sessionId" => session: Text<'a>,
        "cwd" => cwd: Text<'a>,
        "gitBranch" => git_branch: Text<'a>,
        "forkedFrom" => forked_from: Raw<'a>,
        "requestId" => request: Text<'a>,
        "costUSD" => cost: Raw<'a>,
        "message" => message: Billed<'a>,
    }
}

object! {
    struct Billed<'a> {
        "id" => id: Text<'a>,
        "model" => model: Text<'a>,
        "usage" => usage: Spending,
    }
}

/// Outlines a line of a model. What is odd or damaged is left to the full outline.
pub(super) fn outline(lines: &mut Lines, record: &Record<'_>, out: &mut Sink<Outline>) {
    let text = simdutf8::basic::from_utf8(record.bytes).ok();
    let text = text.filter(|_| !record.oversize);
    let Some(bill) = text.and_then(fast::read::<Bill<'_>>) else {
        return lines.outline(record, out);
    };
    if bill.kind.get() != Some("assistant") {
        return;
    }
    let mut outline = Outline::at(record.span);
    outline.kind = Kind::Assistant;
    outline.time = timestamp(bill.timestamp);
    outline.agent = lines.agent(&bill.agent, bill.sidechain);
    outline.sidechain = bill.sidechain.0;
    let session = lines.session.changed(&bill.session);
    outline.facts.extend(session.map(Fact::Session));
    let cwd = lines.cwd.changed(&bill.cwd);
    outline.facts.extend(cwd.map(Fact::Cwd));
    let git_branch = lines.git_branch.changed_to(&bill.git_branch);
    outline.facts.extend(git_branch.map(Fact::GitBranch));
    let spent = bill.message.usage;
    let (recorded, fault) = field::recorded("costUSD", bill.cost);
    if let Some(detail) = spent.fault.or(fault) {
        out.flaw(FlawKind::BadUsage, record.span, detail);
    }
    let model = bill.message.model.filled();
    outline.reply = Some(Box::new(Reply {
        response: lines.response(&bill.message.id, &bill.request),
        model: model.map(|model| lines.shared_model(model)),
        usage: spent.usage,
        terms: spent.terms,
        recorded,
        copied: bill.forked_from.is_some(),
        ..Reply::default()
    }));
    out.found.push(outline);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Sheet;
    use crate::model::{Artifact, ArtifactKind, Flaw, Span};

    /// The charges and flaws of lines, at one depth.
    fn read(
        lines: &[String],
        depth: fn(&mut Lines, &Record<'_>, &mut Sink<Outline>),
    ) -> (String, Vec<Flaw>) {
        let mut decoder = Lines::of(&Artifact::of(ArtifactKind::SessionLog));
        let mut sheet = Sheet::default();
        let mut sink = Sink::default();
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
            depth(&mut decoder, &record, &mut sink);
            sink.found.drain(..).for_each(|outline| sheet.add(&outline));
        }
        (format!("{:?}", sheet.charges), sink.flaws)
    }

    /// Whatever stands in a line, and in whichever order, a bill says what the full outline says.
    #[test]
    fn a_bill_says_no_more_and_no_less_than_the_outline() {
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
                    format!(r#"{{"message":{{{message},"usage":{usage}}},{rest},"type":"user"}}"#),
                    format!(r#"{{"message":{{{message},"usage":{usage}}},{rest}"#),
                ]);
            }
        }
        let bill = read(&lines, outline);
        let full = read(&lines, |lines, record, out| lines.outline(record, out));
        assert_eq!(bill, full);
        assert!(bill.0.contains("output: 20") && !bill.0.contains("output: 999"));
    }

    #[test]
    fn a_line_that_spells_its_kind_with_escapes_is_found() {
        let text = br#"xx \u001b "type":"a\u0073sistant" "assistant""#;
        assert_eq!(find(text), Some(19));
        assert_eq!(find(br#"\u001b "assistant""#), Some(7));
        assert_eq!(find(br#"\u001b \u0056"#), None);
    }
}
