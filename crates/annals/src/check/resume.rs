//! What the agent's own program would leave out if it resumed a session.
//!
//! It goes on from [`Tree::resume_entry`] and leaves out what follows that. From there it goes to the parent
//! and so on, and ends where a parent is not there or stands in a line that it cannot read: everything
//! before is silently lost. Newer versions bridge a gap if the record before is at most five seconds older,
//! older ones never do. They end at types that they do not know as well; those may be a newer client's, so
//! that is no damage. A log whose last message has no time they do not find at all. (All found by
//! experiment: tools/resume-oracle.)
//!
//! Client 2.0.77 differs in three ways: it goes on from the newest entry whatever `last-prompt` names, it ends
//! at records of progress, and of parallel calls it reads those on one chain of parents only.

use std::collections::{BTreeSet, HashSet};

use crate::model::{Fact, Flaw, FlawKind, KeyMap, Link, Outline, OutlineKind};
use crate::store::LogScan;
use crate::tree::Tree;

use super::line::RecordLocation;
use super::pluralize;

/// What clients would leave out of a log.
pub(super) fn unresumable(scan: &LogScan, tree: &Tree, parents: &[Option<usize>]) -> Vec<Flaw> {
    let outlines = &scan.outlines;
    if let Some(flaw) = untimed(outlines) {
        return vec![flaw];
    }
    let mut flaws = Vec::new();
    flaws.extend(omitted_before(scan, tree, parents));
    flaws.extend(omitted_after(outlines, tree, parents));
    if flaws.is_empty() {
        flaws.extend(omitted_by_older_client(outlines, tree, parents));
    }
    flaws
}

/// A log in which clients find no conversation, because its last message has no time.
fn untimed(outlines: &[Outline]) -> Option<Flaw> {
    let first = outlines.iter().find(|outline| outline.kind.is_message())?;
    if outlines.iter().all(|outline| outline.time.is_none()) {
        let detail = "no record has a time, so that the client finds no conversation";
        return Some(RecordLocation::new(first).flaw(FlawKind::Unresumable, detail));
    }
    let last = outlines
        .iter()
        .rfind(|one| is_prompt_or_reply(one) && !one.sidechain);
    let last = last.filter(|last| last.key.is_some() && last.time.is_none())?;
    let detail = "the last message has no time, so that newer clients find no conversation";
    Some(RecordLocation::new(last).flaw(FlawKind::Unresumable, detail))
}

/// A prompt, a reply or a result: what a client sends. It skips those without an id, which is reported as that.
fn is_prompt_or_reply(outline: &Outline) -> bool {
    matches!(outline.kind, OutlineKind::User | OutlineKind::Assistant) && !outline.lacks_id()
}

/// What follows the entry from which clients go on.
fn omitted_after(outlines: &[Outline], tree: &Tree, parents: &[Option<usize>]) -> Option<Flaw> {
    let start = tree.resume_entry?;
    let after = tree.after_resume(parents);
    let lost = after.iter().filter_map(|&at| outlines.get(at));
    let lost = lost.filter(|outline| is_prompt_or_reply(outline)).count();
    let detail = format!(
        "a client that resumes goes on from here and leaves out {} after it",
        pluralize(lost, "message"),
    );
    let start = outlines.get(start).filter(|_| lost > 0)?;
    Some(RecordLocation::new(start).flaw(FlawKind::Unresumable, detail))
}

/// What client 2.0.77 would leave out of what newer clients send.
fn omitted_by_older_client(
    outlines: &[Outline],
    tree: &Tree,
    parents: &[Option<usize>],
) -> Option<Flaw> {
    let path = tree.resumed_path()?;
    let is_compaction = |at: &usize| {
        outlines
            .get(*at)
            .is_some_and(|one| one.kind == OutlineKind::Compaction)
    };
    let from = path.iter().rposition(is_compaction).unwrap_or(0);
    let sent = path.get(from..)?.iter();
    let sent: Vec<usize> = sent
        .copied()
        .filter(|&at| outlines.get(at).is_some_and(is_prompt_or_reply))
        .collect();
    let start = newest_entry(outlines)?;
    let (chain, ends) = parent_chain(outlines, parents, start);
    let lost: Vec<usize> = sent.into_iter().filter(|at| !chain.contains(at)).collect();
    let first = lost.first()?;
    let elsewhere = !path.contains(&start);
    let (at, why) = match ends {
        _ if elsewhere => (start, "it goes on from the newest entry, which is this one"),
        Some(at) if lost.iter().any(|lost| *lost < at) => {
            (at, "it does not read what this hangs from")
        }
        _ if tree.continues_after(start) => {
            (start, "it goes on from the newest entry, which is this one")
        }
        _ => (*first, "of parallel calls it reads one chain"),
    };
    let detail = format!(
        "client 2.0.77 leaves out {} that newer clients send: {why}",
        pluralize(lost.len(), "message"),
    );
    Some(RecordLocation::new(outlines.get(at)?).flaw(FlawKind::OlderClient, detail))
}

/// The entry from which client 2.0.77 goes on: the first of those with the newest time. Of entries with one
/// id, the last counts.
fn newest_entry(outlines: &[Outline]) -> Option<usize> {
    let keys = outlines.iter().enumerate();
    let last: KeyMap<usize> = keys.filter_map(|(at, one)| Some((one.key?, at))).collect();
    let mut newest: Option<(i64, usize)> = None;
    for (at, outline) in outlines.iter().enumerate() {
        let counts = outline.key.is_some_and(|key| last.get(&key) == Some(&at));
        let counts = counts && !outline.sidechain && !outline.lacks_id() && !is_unknown(outline);
        let time = outline
            .time
            .filter(|_| counts)
            .map(|time| time.as_millisecond());
        if let Some(time) = time.filter(|time| newest.is_none_or(|(best, _)| *time > best)) {
            newest = Some((time, at));
        }
    }
    newest.map(|(_, at)| at)
}

/// Whether client 2.0.77 does not know the type of an entry.
fn is_unknown(outline: &Outline) -> bool {
    let unknown =
        |fact: &Fact| matches!(fact, Fact::UnlinkedType | Fact::Untyped | Fact::NewerType);
    outline.facts.iter().any(unknown)
}

/// The entries from one up to where client 2.0.77 stops, and the last of them if what that hangs from is
/// of a type that it does not know.
fn parent_chain(
    outlines: &[Outline],
    parents: &[Option<usize>],
    start: usize,
) -> (HashSet<usize>, Option<usize>) {
    let mut chain = HashSet::new();
    let mut at = start;
    loop {
        let outline = outlines.get(at);
        let Some(outline) = outline.filter(|_| chain.insert(at)) else {
            return (chain, None);
        };
        if outline.kind == OutlineKind::Compaction {
            return (chain, None);
        }
        match parents.get(at).copied().flatten() {
            None => return (chain, None),
            Some(parent) if outlines.get(parent).is_some_and(is_unknown) => {
                return (chain, Some(at));
            }
            Some(parent) => at = parent,
        }
    }
}

/// What would be left out of a log before the entry at which clients get no further.
fn omitted_before(scan: &LogScan, tree: &Tree, parents: &[Option<usize>]) -> Option<Flaw> {
    let outlines = &scan.outlines;
    let reader = ClientReader::new(scan, tree)?;
    let conversation = tree.conversations.get(tree.resume?)?;
    let path = tree.path(conversation);
    // From the end to where the client gets no further.
    let mut at = conversation.tip;
    let mut reached = None;
    let kind = loop {
        let outline = outlines.get(at)?;
        match reader.unreadable_reason(outline) {
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
        lost += earlier_messages(outlines, &path, at);
    }
    let detail = format!(
        "a client that resumes here reads {} and may leave out {lost} before: it cannot read what this hangs from",
        pluralize(kept, "message"),
    );
    (lost > 0).then(|| RecordLocation::new(goes_on).flaw(kind, detail))
}

/// The messages of the main agent that stand before an entry and are not on its path.
fn earlier_messages(outlines: &[Outline], path: &[usize], entry: usize) -> usize {
    let path: HashSet<usize> = path.iter().copied().collect();
    let before = outlines.iter().enumerate().take(entry);
    let lost = before.filter(|(at, one)| {
        let is_linked = one.key.is_some() && !one.lacks_id();
        one.kind.is_message() && !one.sidechain && is_linked && !path.contains(at)
    });
    lost.count()
}

/// Which entries the client can read.
struct ClientReader {
    /// Lines that are damaged as a whole, though we can salvage records from them.
    damaged: BTreeSet<(u16, u64)>,
}

impl ClientReader {
    /// `None` if nothing is wrong with the log.
    fn new(scan: &LogScan, tree: &Tree) -> Option<Self> {
        let hides = |flaw: &&Flaw| flaw.kind.hides_record();
        let damaged = scan.flaws.iter().filter(hides);
        let damaged: BTreeSet<(u16, u64)> =
            damaged.map(|flaw| (flaw.volume, flaw.span.line)).collect();
        let strange = || {
            let mut outlines = scan.outlines.iter();
            outlines.any(|outline| outline.facts.contains(&Fact::UnlinkedType))
        };
        let orphans = tree.flaws.iter().any(|flaw| flaw.kind == FlawKind::Orphan);
        (orphans || !damaged.is_empty() || strange()).then_some(ClientReader { damaged })
    }

    /// What keeps the client from reading an entry, if anything does.
    fn unreadable_reason(&self, outline: &Outline) -> Option<FlawKind> {
        if self.damaged.contains(&(outline.volume, outline.span.line)) {
            return Some(FlawKind::Dropped);
        }
        let strange = outline.facts.contains(&Fact::UnlinkedType);
        strange.then_some(FlawKind::Unresumable)
    }
}
