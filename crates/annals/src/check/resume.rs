//! Finds messages that the agent's own program would omit when it resumes a session.
//!
//! A client starts at [`Tree::resume_entry`] and omits everything after it. From there it follows
//! the parents and stops at a parent that is missing or in an unreadable line: everything before is
//! silently lost. Newer clients bridge a gap if the previous record is at most five seconds older;
//! older ones never do. Clients also stop at unknown types; those may be from a newer client, so
//! that is no damage. They do not find a log whose last message has no time. (Found by experiment:
//! tools/resume-oracle.)
//!
//! An older client of Claude Code (2.0.77) differs in three ways: it starts at the newest entry, whatever `last-prompt`
//! names; it stops at progress records; and of parallel calls it reads only those on one chain of
//! parents.

use std::collections::{BTreeSet, HashSet};

use crate::store::LogScan;
use annals_layouts::model::{Fact, Flaw, FlawKind, KeyMap, Link, Outline, OutlineKind};
use annals_layouts::tree::Tree;

use super::line::RecordLocation;
use super::pluralize;

/// Returns the flaws that make clients omit messages of a log.
pub(super) fn unresumable(
    scan: &LogScan,
    tree: &Tree,
    parents: &[Option<usize>],
    older_client: Option<&str>,
) -> Vec<Flaw> {
    let outlines = &scan.outlines;
    if let Some(flaw) = untimed(outlines) {
        return vec![flaw];
    }
    let mut flaws = Vec::new();
    flaws.extend(omitted_before(scan, tree, parents));
    flaws.extend(omitted_after(outlines, tree, parents));
    if let (true, Some(version)) = (flaws.is_empty(), older_client) {
        flaws.extend(omitted_by_older_client(outlines, tree, parents, version));
    }
    flaws
}

/// Reports a log in which clients find no conversation, because its last message has no time.
fn untimed(outlines: &[Outline]) -> Option<Flaw> {
    let first = outlines.iter().find(|outline| outline.kind.is_message())?;
    if outlines.iter().all(|outline| outline.time.is_none()) {
        let detail = "no record has a time, so the client finds no conversation";
        return Some(RecordLocation::new(first).flaw(FlawKind::Unresumable, detail));
    }
    let last = outlines
        .iter()
        .rfind(|one| is_prompt_or_reply(one) && !one.sidechain);
    let last = last.filter(|last| last.key.is_some() && last.time.is_none())?;
    let detail = "the last message has no time, so newer clients find no conversation";
    Some(RecordLocation::new(last).flaw(FlawKind::Unresumable, detail))
}

/// Returns whether the entry is a prompt, a reply or a result, which clients send. Clients skip
/// entries without an id, which is reported separately.
fn is_prompt_or_reply(outline: &Outline) -> bool {
    matches!(outline.kind, OutlineKind::User | OutlineKind::Assistant) && !outline.lacks_id()
}

/// Reports messages after the entry at which clients resume.
fn omitted_after(outlines: &[Outline], tree: &Tree, parents: &[Option<usize>]) -> Option<Flaw> {
    let start = tree.resume_entry?;
    let after = tree.after_resume(parents);
    let lost = after.iter().filter_map(|&at| outlines.get(at));
    let lost = lost.filter(|outline| is_prompt_or_reply(outline)).count();
    let detail = format!(
        "a client that resumes continues from here and omits {} after it",
        pluralize(lost, "message"),
    );
    let start = outlines.get(start).filter(|_| lost > 0)?;
    Some(RecordLocation::new(start).flaw(FlawKind::Unresumable, detail))
}

/// Reports messages that newer clients send but an older one omits.
fn omitted_by_older_client(
    outlines: &[Outline],
    tree: &Tree,
    parents: &[Option<usize>],
    version: &str,
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
        _ if elsewhere => (
            start,
            "it continues from the newest entry, which is this one",
        ),
        Some(at) if lost.iter().any(|lost| *lost < at) => {
            (at, "it does not read the parent of this entry")
        }
        _ if tree.continues_after(start) => (
            start,
            "it continues from the newest entry, which is this one",
        ),
        _ => (*first, "it reads only one chain of parallel calls"),
    };
    let detail = format!(
        "client {version} omits {} that newer clients send: {why}",
        pluralize(lost.len(), "message"),
    );
    Some(RecordLocation::new(outlines.get(at)?).flaw(FlawKind::OlderClient, detail))
}

/// Returns the entry at which the older client resumes: the first with the newest time. Of entries
/// with the same id, only the last counts.
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

/// Returns whether client 2.0.77 does not know the type of an entry.
fn is_unknown(outline: &Outline) -> bool {
    let unknown =
        |fact: &Fact| matches!(fact, Fact::UnlinkedType | Fact::Untyped | Fact::NewerType);
    outline.facts.iter().any(unknown)
}

/// Returns the entries from `start` up to where client 2.0.77 stops, and the last of them if it
/// stops because the parent has an unknown type.
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

/// Reports messages before the entry at which clients stop.
fn omitted_before(scan: &LogScan, tree: &Tree, parents: &[Option<usize>]) -> Option<Flaw> {
    let outlines = &scan.outlines;
    let reader = ClientReader::new(scan, tree)?;
    let conversation = tree.conversations.get(tree.resume?)?;
    let path = tree.path(conversation);
    // Walk from the end to where the client stops.
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
    // The lost parent was the only link from the start of the path to the messages before it.
    let begins = path.first().and_then(|&at| Some((at, outlines.get(at)?)));
    if let Some((at, first)) = begins
        && matches!(first.link, Link::Parent(_))
    {
        lost += earlier_messages(outlines, &path, at);
    }
    let detail = format!(
        "a client that resumes here reads {} and may omit {lost} before: it cannot read the parent of this entry",
        pluralize(kept, "message"),
    );
    (lost > 0).then(|| RecordLocation::new(goes_on).flaw(kind, detail))
}

/// Counts the messages of the main agent before an entry that are not on its path.
fn earlier_messages(outlines: &[Outline], path: &[usize], entry: usize) -> usize {
    let path: HashSet<usize> = path.iter().copied().collect();
    let before = outlines.iter().enumerate().take(entry);
    let lost = before.filter(|(at, one)| {
        let is_linked = one.key.is_some() && !one.lacks_id();
        one.kind.is_message() && !one.sidechain && is_linked && !path.contains(at)
    });
    lost.count()
}

/// Decides which entries the client can read.
struct ClientReader {
    /// Lines that the client cannot read, though annals can salvage records from them.
    damaged: BTreeSet<(u16, u64)>,
}

impl ClientReader {
    /// Returns `None` if nothing is wrong with the log.
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

    /// Returns why the client cannot read an entry, if it cannot.
    fn unreadable_reason(&self, outline: &Outline) -> Option<FlawKind> {
        if self.damaged.contains(&(outline.volume, outline.span.line)) {
            return Some(FlawKind::Dropped);
        }
        let strange = outline.facts.contains(&Fact::UnlinkedType);
        strange.then_some(FlawKind::Unresumable)
    }
}
