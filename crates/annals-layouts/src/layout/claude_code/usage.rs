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
    fn add_template(&mut self, text: &str, bill: &UsageLine<'_>) {
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
        true => lines.replies.add_template(text, &bill),
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
