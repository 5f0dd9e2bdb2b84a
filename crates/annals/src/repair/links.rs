//! Repairs broken links, cycles and duplicate ids.
//!
//! The new parent of an entry whose parent is lost, by the first rule that applies:
//!
//! 1. The summary after a compaction starts a conversation: it replaces everything before it.
//! 2. The parent of the lost entry, if the remains of its line contain it.
//! 3. If an earlier entry had the same lost parent, that entry's new parent, so that the two stay
//!    alternatives. Not for tool results and further lines of one response.
//! 4. The nearest earlier entry of the same chain (the main agent's, or one sub-agent's) that the
//!    layout's own program accepts as a parent; or the parent in the remains of a line between the
//!    two. Writers append, so the lost parent was there.
//! 5. Otherwise the entry starts a conversation.
//!
//! In a cycle, the link that the tree ignores is replaced, by the same rules without 2 and 3.

use std::collections::HashMap;

use crate::error::Result;
use crate::store::{link_to_previous, scope};
use annals_layouts::layout::{Decoded, Record};
use annals_layouts::model::{AgentId, Body, Entry, EntryKey, FlawKind, Link, Outline, OutlineKind};
use annals_layouts::tree::Tree;

use super::plan::{Action, ReadSpan, RepairReader, Unrepaired};

pub(super) fn repair_links(reading: &mut RepairReader<'_>, read: ReadSpan<'_>) -> Result<()> {
    if reading.rules.last_duplicate_wins() {
        separate_duplicates(reading, read)?;
    }
    link_to_previous(&mut reading.outlines);
    let flaws = Tree::build(&reading.outlines, scope(reading.artifact)).flaws;
    let by_offset: HashMap<u64, usize> = (reading.outlines.iter().enumerate())
        .filter(|(at, outline)| outline.key.is_some() && is_own_entry(&reading.outlines, *at))
        .map(|(at, outline)| (outline.span.offset, at))
        .collect();
    let mut wrong: Vec<(usize, FlawKind)> = Vec::new();
    for flaw in flaws {
        let Some(&at) = by_offset.get(&flaw.span.offset) else {
            continue;
        };
        let link = reading.outlines.get(at).map(|outline| outline.link);
        match (flaw.kind, link) {
            (FlawKind::Cycle, _) => wrong.push((at, FlawKind::Cycle)),
            // The entries before a compaction may have been left out of the file.
            (FlawKind::Orphan, Some(Link::Parent(key)))
                if !reading.unreadable_ids.contains(&key) =>
            {
                wrong.push((at, FlawKind::Orphan));
            }
            _ => {}
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    wrong.sort_unstable();
    wrong.dedup();
    if reading.has_unidentified {
        for (at, kind) in wrong {
            leave_unrepaired(
                reading,
                at,
                kind,
                "its parent may be a line that cannot be read",
            );
        }
        return Ok(());
    }
    let mut forest = ParentMap::new(&reading.outlines, &wrong);
    let chains = Chains::new(&reading.outlines);
    // Parents of lost entries.
    let remains = reading.salvaged_links.iter().filter_map(|(_, remains)| {
        let (id, parent) = (remains.id.as_deref()?, remains.parent.as_deref()?);
        Some((EntryKey::from_text(id), EntryKey::from_text(parent)))
    });
    let remains: HashMap<EntryKey, EntryKey> = remains.collect();
    // New parent of the first entry of each lost parent.
    let mut new_parents: HashMap<EntryKey, Option<usize>> = HashMap::new();
    for (at, kind) in wrong {
        let new_parent = match kind {
            _ if reading
                .rules
                .starts_conversation(&reading.record_bytes(at, read)?) =>
            {
                None
            }
            FlawKind::Cycle => nearest_parent(reading, at, &mut forest, &chains, read)?,
            _ => find_parent(
                reading,
                at,
                &mut forest,
                &chains,
                (&remains, &mut new_parents),
                read,
            )?,
        };
        set_parent(reading, at, kind, new_parent, read)?;
        if let Some(new_parent) = new_parent {
            forest.set_parent(at, new_parent);
        }
    }
    Ok(())
}

/// Returns whether an entry has the id and the parent of its record. Further entries of the record
/// have ids that are derived from it.
fn is_own_entry(outlines: &[Outline], at: usize) -> bool {
    let offset = |at: usize| outlines.get(at).map(|outline| outline.span.offset);
    at.checked_sub(1)
        .is_none_or(|before| offset(before) != offset(at))
}

fn leave_unrepaired(reading: &mut RepairReader<'_>, at: usize, kind: FlawKind, why: &str) {
    if let Some(outline) = reading.outlines.get(at) {
        reading.result.unrepaired.push(Unrepaired {
            line: outline.span.line,
            offset: outline.span.offset,
            kind,
            detail: why.to_owned(),
        });
    }
}

/// Sets the new parent of an entry.
fn set_parent(
    reading: &mut RepairReader<'_>,
    at: usize,
    kind: FlawKind,
    new_parent: Option<usize>,
    read: ReadSpan<'_>,
) -> Result<()> {
    let parent = new_parent.and_then(|new_parent| reading.outlines.get(new_parent));
    let line = parent.map(|parent| parent.span.line);
    let parent = parent.and_then(Outline::id);
    let id = parent.as_ref().map(|id| id.as_str());
    if !reading.change(at, read, |rules, old| rules.set_parent(old, id))? {
        leave_unrepaired(reading, at, kind, "the record cannot be edited");
        return Ok(());
    }
    reading
        .new_parents
        .extend(parent.as_ref().map(|id| id.key()));
    let Some(outline) = reading.outlines.get_mut(at) else {
        return Ok(());
    };
    let span = outline.span;
    outline.link = parent
        .as_ref()
        .map_or(Link::None, |id| Link::Parent(id.key()));
    let (action, was) = match kind {
        FlawKind::Cycle => (Action::CutCycle, "it is its own ancestor"),
        _ => (Action::Relink, "its parent is lost"),
    };
    let detail = match line {
        Some(line) => format!("{was}; its parent is now line {line}"),
        None => format!("{was}; it now starts a conversation"),
    };
    reading.step(span, action, detail);
    Ok(())
}

/// Finds the new parent of an entry whose parent is lost.
fn find_parent(
    reading: &RepairReader<'_>,
    at: usize,
    forest: &mut ParentMap,
    chains: &Chains,
    (remains, new_parents): (
        &HashMap<EntryKey, EntryKey>,
        &mut HashMap<EntryKey, Option<usize>>,
    ),
    read: ReadSpan<'_>,
) -> Result<Option<usize>> {
    let Some(outline) = reading.outlines.get(at) else {
        return Ok(None);
    };
    let Some(lost) = outline.link.key() else {
        return Ok(None);
    };
    if let Some(parent) = salvaged_parent(remains, lost, forest, at) {
        return Ok(Some(parent));
    }
    let goes_on = !outline.results.is_empty() || chains.continues_response(at);
    let beside = new_parents.get(&lost).copied().filter(|_| !goes_on);
    if let Some(beside) = beside
        && beside.is_none_or(|beside| forest.root(beside) != at)
    {
        return Ok(beside);
    }
    let new_parent = nearest_parent(reading, at, forest, chains, read)?;
    new_parents.entry(lost).or_insert(new_parent);
    Ok(new_parent)
}

/// Finds the nearest existing ancestor of a lost entry from the remains of lines.
fn salvaged_parent(
    remains: &HashMap<EntryKey, EntryKey>,
    lost: EntryKey,
    forest: &mut ParentMap,
    at: usize,
) -> Option<usize> {
    const MOST: usize = 1_000;
    let mut key = lost;
    for _ in 0..MOST {
        key = *remains.get(&key)?;
        if let Some(found) = forest.find(key) {
            return (forest.root(found) != at).then_some(found);
        }
    }
    None
}

/// Number of preceding entries of any kind that are tried as a parent; beyond them, only messages.
const NEAR: usize = 32;

/// Number of messages that are tried.
const FAR: usize = 4_096;

/// Returns the nearest earlier entry of the same chain that may be a parent.
fn nearest_parent(
    reading: &RepairReader<'_>,
    at: usize,
    forest: &mut ParentMap,
    chains: &Chains,
    read: ReadSpan<'_>,
) -> Result<Option<usize>> {
    let Some(outline) = reading.outlines.get(at) else {
        return Ok(None);
    };
    let before = outline.span.offset;
    // The last unreadable line before it, if its remains have a parent but no id.
    let lost = reading
        .salvaged_links
        .partition_point(|(offset, _)| *offset < before);
    let lost = reading.salvaged_links.get(..lost).and_then(<[_]>::last);
    let lost = lost.filter(|(_, remains)| remains.id.is_none());
    let lost = lost.and_then(|(offset, remains)| {
        let parent = forest.find(EntryKey::from_text(remains.parent.as_deref()?))?;
        let same = chains.is_same_chain(parent, at) && forest.root(parent) != at;
        same.then_some((*offset, parent))
    });
    let near = (at.saturating_sub(NEAR)..at).rev();
    let far = chains.messages_before(at).take(FAR);
    let far = far.filter(|candidate| *candidate < at.saturating_sub(NEAR));
    for candidate in near.chain(far) {
        let Some(found) = reading.outlines.get(candidate) else {
            continue;
        };
        let counts = found
            .key
            .is_some_and(|key| forest.find(key) == Some(candidate));
        let is_named = counts && !found.lacks_id() && is_own_entry(&reading.outlines, candidate);
        if !is_named || !chains.is_same_chain(candidate, at) {
            continue;
        }
        if let Some((offset, parent)) = lost
            && offset > found.span.offset
        {
            return Ok(Some(parent));
        }
        if forest.root(candidate) == at {
            continue;
        }
        if is_message_or_compaction(found)
            || reading
                .rules
                .can_have_children(&reading.record_bytes(candidate, read)?)
        {
            return Ok(Some(candidate));
        }
    }
    Ok(lost.map(|(_, parent)| parent))
}

fn is_message_or_compaction(outline: &Outline) -> bool {
    outline.kind.is_message() || outline.kind == OutlineKind::Compaction
}

/// Chains of entries: the main agent's, and one for each sub-agent.
struct Chains {
    /// The chain of each entry.
    chain: Vec<usize>,
    /// The last message of its chain before each entry.
    before: Vec<Option<usize>>,
    /// Whether an earlier entry belongs to the same response, for each entry.
    continues_response: Vec<bool>,
}

impl Chains {
    fn new(outlines: &[Outline]) -> Self {
        let mut chains = Chains {
            chain: Vec::with_capacity(outlines.len()),
            before: Vec::with_capacity(outlines.len()),
            continues_response: Vec::with_capacity(outlines.len()),
        };
        let mut known: HashMap<(bool, Option<AgentId>), usize> = HashMap::new();
        let mut last: Vec<Option<usize>> = Vec::new();
        let mut responses = std::collections::HashSet::new();
        for (at, outline) in outlines.iter().enumerate() {
            let next = known.len();
            let own = (outline.sidechain, outline.agent.clone());
            let chain = *known.entry(own).or_insert(next);
            last.resize(known.len(), None);
            chains.chain.push(chain);
            chains.before.push(last.get(chain).copied().flatten());
            if is_message_or_compaction(outline)
                && let Some(last) = last.get_mut(chain)
            {
                *last = Some(at);
            }
            let response = outline.reply.as_ref().and_then(|reply| reply.response);
            let again = response.is_some_and(|response| !responses.insert(response));
            chains.continues_response.push(again);
        }
        chains
    }

    fn is_same_chain(&self, one: usize, other: usize) -> bool {
        self.chain.get(one) == self.chain.get(other)
    }

    fn continues_response(&self, at: usize) -> bool {
        self.continues_response.get(at) == Some(&true)
    }

    fn messages_before(&self, at: usize) -> impl Iterator<Item = usize> {
        let before = |at: &usize| self.before.get(*at).copied().flatten();
        std::iter::successors(before(&at), before)
    }
}

/// Parents of entries, without broken links.
struct ParentMap {
    by_key: HashMap<EntryKey, usize>,
    /// An ancestor of each entry; paths are shortened when a root is found.
    above: Vec<usize>,
}

impl ParentMap {
    fn new(outlines: &[Outline], cut: &[(usize, FlawKind)]) -> Self {
        let keys = outlines.iter().enumerate();
        let by_key: HashMap<EntryKey, usize> = keys
            .filter_map(|(at, outline)| Some((outline.key?, at)))
            .collect();
        let above = outlines.iter().enumerate().map(|(at, outline)| {
            let parent = outline.link.key().and_then(|key| by_key.get(&key).copied());
            let counts = outline.key.is_some_and(|key| by_key.get(&key) == Some(&at));
            let cut = cut.binary_search_by_key(&at, |(at, _)| *at).is_ok();
            parent.filter(|_| counts && !cut).unwrap_or(at)
        });
        ParentMap {
            above: above.collect(),
            by_key,
        }
    }

    /// Returns the last entry with this key.
    fn find(&self, key: EntryKey) -> Option<usize> {
        self.by_key.get(&key).copied()
    }

    /// Returns the root of an entry.
    fn root(&mut self, entry: usize) -> usize {
        let mut at = entry;
        while let Some(&up) = self.above.get(at)
            && up != at
        {
            // Path halving: skip every second entry the next time.
            let over = self.above.get(up).copied().unwrap_or(up);
            if let Some(slot) = self.above.get_mut(at) {
                *slot = over;
            }
            at = over;
        }
        at
    }

    fn set_parent(&mut self, entry: usize, parent: usize) {
        if let Some(slot) = self.above.get_mut(entry) {
            *slot = parent;
        }
    }
}

/// Gives a new id to entries that a later one with the same id but different content hides.
///
/// Links to the id between the two, and of the later entry itself, refer to the earlier one.
fn separate_duplicates(reading: &mut RepairReader<'_>, read: ReadSpan<'_>) -> Result<()> {
    let mut last: HashMap<EntryKey, usize> = HashMap::new();
    // Each entry whose id is repeated, and the next entry with that id.
    let mut twins: Vec<(usize, usize)> = Vec::new();
    for (at, outline) in reading.outlines.iter().enumerate() {
        if let Some(key) = outline.key
            && let Some(earlier) = last.insert(key, at)
        {
            twins.push((earlier, at));
        }
    }
    for (earlier, later) in twins {
        let Some(key) = reading.outlines.get(earlier).and_then(|one| one.key) else {
            continue;
        };
        let newest = last.get(&key).copied().unwrap_or(later);
        if has_same_content(reading, earlier, newest, read)? {
            continue;
        }
        let Some(span) = reading.outlines.get(earlier).map(|one| one.span) else {
            continue;
        };
        let fresh = fresh_id(key, span.offset);
        if !reading.change(earlier, read, |rules, old| rules.set_id(old, &fresh))? {
            leave_unrepaired(
                reading,
                earlier,
                FlawKind::DuplicateId,
                "the record cannot be edited",
            );
            continue;
        }
        let line = reading.outlines.get(newest).map_or(0, |one| one.span.line);
        let detail =
            format!("line {line} has the same id but different content; its id is now {fresh}");
        reading.step(span, Action::NewId, detail);
        if let Some(outline) = reading.outlines.get_mut(earlier) {
            outline.key = Some(EntryKey::from_text(&fresh));
            outline
                .facts
                .retain(|fact| !matches!(fact, annals_layouts::model::Fact::Id(_)));
        }
        for at in earlier + 1..=later {
            let Some(outline) = reading.outlines.get(at) else {
                continue;
            };
            if outline.link != Link::Parent(key) {
                continue;
            }
            let span = outline.span;
            if reading.change(at, read, |rules, old| rules.set_parent(old, Some(&fresh)))? {
                let detail = "its parent has a new id".to_owned();
                reading.step(span, Action::Relink, detail);
                if let Some(outline) = reading.outlines.get_mut(at) {
                    outline.link = Link::Parent(EntryKey::from_text(&fresh));
                }
            }
        }
    }
    Ok(())
}

/// Returns whether two entries have the same content: one is a copy or a later state of the other.
fn has_same_content(
    reading: &mut RepairReader<'_>,
    one: usize,
    other: usize,
    read: ReadSpan<'_>,
) -> Result<bool> {
    let (a, b) = (
        reading.record_bytes(one, read)?,
        reading.record_bytes(other, read)?,
    );
    if a == b {
        return Ok(true);
    }
    let mut decode = |bytes: &[u8]| -> Option<Entry> {
        let record = Record {
            span: annals_layouts::model::Span::default(),
            bytes,
            terminated: true,
            oversize: false,
        };
        let mut sink = Decoded::default();
        reading.decoder.decode(&record, &mut sink);
        sink.items.into_iter().next()
    };
    let (Some(a), Some(b)) = (decode(&a), decode(&b)) else {
        return Ok(true);
    };
    Ok(match (a.body, b.body) {
        (Body::Message(a), Body::Message(b)) => a.role == b.role && a.blocks == b.blocks,
        (a, b) => a == b,
    })
}

/// Derives an id from the old one and the position alone, so that plan and repair agree.
fn fresh_id(key: EntryKey, offset: u64) -> String {
    let seed = EntryKey::from_text(&format!("annals repair {} {offset}", key.to_uuid()));
    seed.derived_uuid()
}
