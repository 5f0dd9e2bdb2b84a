//! Parent links of the entries of a log, limited to what a target can represent.

use std::collections::HashSet;

use annals_layouts::model::{Entry, EntryId, EntryKey, Fact, Money, Outline, OutlineKind};
use annals_layouts::tree::IdIndex;

/// The entries of one log, each with its nearest ancestor that is a message or a compaction.
pub(super) struct Links<'a> {
    outlines: &'a [Outline],
    above: Vec<Option<usize>>,
    ids: IdIndex,
}

impl<'a> Links<'a> {
    pub(super) fn new(outlines: &'a [Outline]) -> Self {
        let ids = IdIndex::from_outlines(outlines);
        let parent = |at: usize| ids.parent(outlines, at);
        let says = |at: usize| {
            outlines.get(at).is_some_and(|outline| {
                outline.kind.is_message() || outline.kind == OutlineKind::Compaction
            })
        };
        // Each chain of other entries is walked once: all of them have the same ancestor.
        let mut above: Vec<Option<Option<usize>>> = vec![None; outlines.len()];
        let mut walked = Vec::new();
        for start in 0..outlines.len() {
            let mut at = start;
            let found = loop {
                if let Some(known) = above.get(at).copied().flatten() {
                    break known;
                }
                walked.push(at);
                match parent(at) {
                    Some(next) if says(next) => break Some(next),
                    // A cycle has no such ancestor.
                    Some(next) if walked.contains(&next) && walked.len() < 64 => break None,
                    Some(next) if walked.len() <= outlines.len() => at = next,
                    _ => break None,
                }
            };
            for at in walked.drain(..) {
                if let Some(slot) = above.get_mut(at) {
                    *slot = Some(found);
                }
            }
        }
        Links {
            outlines,
            above: above.into_iter().map(Option::flatten).collect(),
            ids,
        }
    }

    /// Returns the outline index of an entry: of several in one record, the one with its id.
    pub(super) fn outline_index(&self, volume: usize, entry: &Entry) -> Option<usize> {
        let wanted = (volume, entry.span.offset);
        let place = |outline: &Outline| (usize::from(outline.volume), outline.span.offset);
        let first = self.outlines.partition_point(|one| place(one) < wanted);
        let same = self.outlines.iter().skip(first);
        let mut same = same.take_while(|one| place(one) == wanted).peekable();
        same.peek()?;
        let key = entry.id.as_ref().map(EntryId::key);
        Some(first + same.position(|one| one.key == key).unwrap_or(0))
    }

    /// Returns the cost that the program recorded for a reply.
    pub(super) fn recorded_cost(&self, at: usize) -> Option<Money> {
        self.outlines.get(at)?.reply.as_ref()?.recorded
    }

    /// Returns whether a later entry with the same id replaces this one.
    pub(super) fn is_replaced(&self, at: usize) -> bool {
        self.ids.is_replaced(self.outlines, at)
    }

    /// Returns the id of an entry, made unique if an earlier entry in the log has the same id: a
    /// target may show only one entry per id.
    pub(super) fn unique_id(&self, at: usize, id: EntryId) -> EntryId {
        let facts = self.outlines.get(at).map(|outline| &outline.facts);
        match facts.is_some_and(|facts| facts.contains(&Fact::RepeatedId)) {
            true => EntryId::new(&format!("{id}-{at}")),
            false => id,
        }
    }

    /// Returns the parent of an entry in the target: its nearest ancestor that the target can
    /// represent.
    pub(super) fn parent(&self, at: usize, refused: &HashSet<EntryKey>) -> Option<EntryId> {
        let (at, above) = self.above(at, refused)?;
        Some(self.unique_id(at, above.id()?))
    }

    /// Returns the outline index of the nearest ancestor.
    pub(super) fn parent_index(&self, at: usize) -> Option<usize> {
        self.above.get(at).copied().flatten()
    }

    /// Returns the entry that a compaction continues, if the parent of this entry is a compaction.
    pub(super) fn continued_entry(
        &self,
        at: usize,
        refused: &HashSet<EntryKey>,
    ) -> Option<EntryId> {
        let (mut at, mut above) = self.above(at, refused)?;
        if above.kind != OutlineKind::Compaction {
            return None;
        }
        for _ in 0..self.outlines.len() {
            if above.kind != OutlineKind::Compaction {
                return Some(self.unique_id(at, above.id()?));
            }
            (at, above) = self.above(at, refused)?;
        }
        None
    }

    fn above(&self, at: usize, refused: &HashSet<EntryKey>) -> Option<(usize, &'a Outline)> {
        let mut at = at;
        for _ in 0..=refused.len() {
            at = self.above.get(at).copied().flatten()?;
            let outline = self.outlines.get(at)?;
            if outline.key.is_some_and(|key| !refused.contains(&key)) {
                return Some((at, outline));
            }
        }
        None
    }
}
