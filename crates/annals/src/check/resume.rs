//! What the agent's own program would leave out if it resumed a session.
//!
//! It goes from the last message to its parent and so on, and ends where a parent is not there or
//! stands in a line that it cannot read: everything before is silently lost. Newer versions bridge a
//! gap if the record before is at most five seconds older, older ones never do. They end at types that
//! they do not know as well; those may be a newer client's, so that is no damage. A log in which no
//! record has a time they do not find at all. (All found by experiment: tools/resume-oracle.)

use std::collections::{BTreeSet, HashSet};

use crate::model::{Fact, Flaw, FlawKind, Link, Outline};
use crate::store::LogScan;
use crate::tree::Tree;

use super::count;
use super::read::Place;

/// What would be left out of a log, if anything.
pub(super) fn dropped(scan: &LogScan, tree: &Tree, parents: &[Option<usize>]) -> Option<Flaw> {
    let outlines = &scan.outlines;
    let first = outlines.iter().find(|outline| outline.kind.is_message())?;
    if outlines.iter().all(|outline| outline.time.is_none()) {
        let detail = "no record has a time, so that the client finds no conversation";
        return Some(Place::of(first).flaw(FlawKind::Unresumable, detail));
    }
    let reader = Reader::of(scan, tree)?;
    let conversation = tree.conversations.get(tree.resume?)?;
    let path = tree.path(conversation);
    // From the end to where the client gets no further.
    let mut at = conversation.tip;
    let mut reached = None;
    let kind = loop {
        let outline = outlines.get(at)?;
        match reader.stops_at(outline) {
            None => reached = Some(at),
            Some(kind) if reached.is_some() => break kind,
            Some(_) => {}
        }
        match parents.get(at).copied().flatten() {
            Some(parent) => at = parent,
            None if matches!(outline.link, Link::Parent(_)) => break FlawKind::Dropped,
            None => return None,
        }
    };
    let reached = reached?;
    let goes_on = outlines.get(reached)?;
    let says = |at: &&usize| outlines.get(**at).is_some_and(|one| one.kind.is_message());
    let start = path.iter().position(|&one| one == reached)?;
    let (before, after) = path.split_at_checked(start)?;
    let kept = after.iter().filter(says).count();
    let mut lost = before.iter().filter(says).count();
    // A lost parent was all that tied the beginning of the path to what stands before it.
    let begins = path.first().and_then(|&at| Some((at, outlines.get(at)?)));
    if let Some((at, first)) = begins
        && matches!(first.link, Link::Parent(_))
    {
        lost += earlier(outlines, &path, at);
    }
    let detail = format!(
        "a client that resumes here reads {} and may leave out {lost} before: it cannot read what this hangs from",
        count(kept, "message"),
    );
    (lost > 0).then(|| Place::of(goes_on).flaw(kind, detail))
}

/// The messages of the main agent that stand before an entry and are not on its path.
fn earlier(outlines: &[Outline], path: &[usize], entry: usize) -> usize {
    let path: HashSet<usize> = path.iter().copied().collect();
    let before = outlines.iter().enumerate().take(entry);
    let lost = before.filter(|(at, one)| {
        one.kind.is_message() && !one.sidechain && one.key.is_some() && !path.contains(at)
    });
    lost.count()
}

/// Which entries the client can read.
struct Reader {
    /// Lines that are damaged as a whole, though we can salvage records from them.
    damaged: BTreeSet<(u16, u64)>,
}

impl Reader {
    /// `None` if nothing is wrong with the log.
    fn of(scan: &LogScan, tree: &Tree) -> Option<Self> {
        let hides = |flaw: &&Flaw| flaw.kind.hides_record();
        let damaged = scan.flaws.iter().filter(hides);
        let damaged: BTreeSet<(u16, u64)> =
            damaged.map(|flaw| (flaw.volume, flaw.span.line)).collect();
        let strange = || {
            let mut outlines = scan.outlines.iter();
            outlines.any(|outline| outline.facts.contains(&Fact::Stranger))
        };
        let orphans = tree.flaws.iter().any(|flaw| flaw.kind == FlawKind::Orphan);
        (orphans || !damaged.is_empty() || strange()).then_some(Reader { damaged })
    }

    /// What keeps the client from reading an entry, if anything does.
    fn stops_at(&self, outline: &Outline) -> Option<FlawKind> {
        if self.damaged.contains(&(outline.volume, outline.span.line)) {
            return Some(FlawKind::Dropped);
        }
        let strange = outline.facts.contains(&Fact::Stranger);
        strange.then_some(FlawKind::Unresumable)
    }
}
