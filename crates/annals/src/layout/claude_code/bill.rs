//! The shallowest depth: who spent how much. A ledger reads all of a history, so this reads little of a line.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::json::{Flag, Raw, Text, fast, object};
use crate::layout::field::{self, timestamp};
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
        "usage" => usage: Raw<'a>,
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
    let spent = field::spending(bill.message.usage);
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
