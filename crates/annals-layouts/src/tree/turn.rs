//! Turns: groups of entries that belong together. What remains of the graph is a tree of branches.

use jiff::Timestamp;

use crate::model::{KeyMap, Outline, OutlineKind, ResponseKey};

use super::link::ParentLinks;
use super::{Conversation, Segment};

/// The turns of one log, as a tree.
#[derive(Debug, Default)]
pub(super) struct Turns {
    turns: Vec<Turn>,
    /// The turn of each outline.
    turn_of: Vec<Option<usize>>,
}

#[derive(Debug)]
struct Turn {
    parent: Option<usize>,
    /// In reading order.
    entries: Vec<usize>,
    children: usize,
    response: Option<ResponseKey>,
    /// The last entry in file order.
    tip: Option<usize>,
    /// It contains or leads to a prompt, a reply or a compaction.
    has_content: bool,
    path_info: PathInfo,
}

/// Summary of the path from the root to a turn.
#[derive(Clone, Debug, Default)]
pub(super) struct PathInfo {
    pub(super) leaf: Option<usize>,
    pub(super) messages: usize,
    pub(super) started: Option<Timestamp>,
    /// The newest time of the last turn that has one.
    pub(super) updated: Option<Timestamp>,
    pub(super) branch: Option<usize>,
    /// Number of messages in the first turn.
    pub(super) first_turn_messages: usize,
    /// The first prompt of the path.
    pub(super) prompt: Option<usize>,
}

pub(super) fn group(outlines: &[Outline], links: &ParentLinks) -> Turns {
    let mut turns = Turns {
        turns: Vec::new(),
        turn_of: vec![None; outlines.len()],
    };
    let mut calls: KeyMap<usize> = KeyMap::default();
    let asked = branched_replies(outlines, links);
    for &at in &links.order {
        let Some(outline) = outlines.get(at) else {
            continue;
        };
        let parent = links.parent(at);
        let above = parent.and_then(|parent| turns.turn_at(parent));
        let joins =
            above
                .and_then(|above| turns.turns.get(above))
                .is_some_and(|turn| match outline.kind {
                    OutlineKind::System | OutlineKind::Other => true,
                    OutlineKind::Assistant => {
                        let response = outline.reply.as_ref().and_then(|reply| reply.response);
                        let broken = parent.and_then(|parent| asked.get(parent)) == Some(&true);
                        let fits = response
                            .zip(turn.response)
                            .is_some_and(|(one, other)| one.matches(&other));
                        fits && !broken
                    }
                    OutlineKind::User => outline
                        .results
                        .iter()
                        .any(|call| calls.get(call).copied() == above),
                    OutlineKind::Compaction => false,
                });
        let turn = match above.filter(|_| joins) {
            Some(turn) => turn,
            None => turns.begin(above, outline),
        };
        for call in outline.calls() {
            calls.insert(*call, turn);
        }
        turns.join(turn, at);
    }
    turns.merge_empty_turns(outlines);
    turns.sort_entries(outlines, links);
    turns.fill_path_info(outlines);
    turns
}

/// Returns for each entry whether it is a line of a reply after which a person asked something
/// else: the rest of the reply is another branch.
fn branched_replies(outlines: &[Outline], links: &ParentLinks) -> Vec<bool> {
    let human = |at: &&usize| outlines.get(**at).is_some_and(|outline| outline.human);
    let parents = links
        .order
        .iter()
        .filter(human)
        .filter_map(|&at| links.parent(at));
    let answers = |at: &usize| {
        outlines
            .get(*at)
            .is_some_and(|outline| outline.kind == OutlineKind::Assistant)
    };
    let mut asked = vec![false; outlines.len()];
    for parent in parents.filter(answers) {
        if let Some(asked) = asked.get_mut(parent) {
            *asked = true;
        }
    }
    asked
}

impl Turns {
    pub(super) fn turn_at(&self, entry: usize) -> Option<usize> {
        self.turn_of.get(entry).copied().flatten()
    }

    pub(super) fn path_info(&self, turn: usize) -> PathInfo {
        self.turns
            .get(turn)
            .map(|turn| turn.path_info.clone())
            .unwrap_or_default()
    }

    /// Returns the turns without children that have entries.
    pub(super) fn leaves(&self) -> impl Iterator<Item = usize> {
        let leaf = |(_, turn): &(usize, &Turn)| turn.children == 0 && !turn.entries.is_empty();
        self.turns.iter().enumerate().filter(leaf).map(|(at, _)| at)
    }

    /// Returns whether a turn has children.
    pub(super) fn has_children(&self, turn: usize) -> bool {
        self.turns.get(turn).is_some_and(|turn| turn.children > 0)
    }

    /// Returns the last entry of a turn in file order.
    pub(super) fn last_entry(&self, turn: usize) -> Option<usize> {
        self.turns.get(turn)?.tip
    }

    /// Returns the entries of a turn, in reading order.
    pub(super) fn entries(&self, turn: usize) -> &[usize] {
        self.turns.get(turn).map_or(&[], |turn| &turn.entries)
    }

    pub(super) fn path(&self, turn: usize) -> Vec<usize> {
        let mut turns = Vec::new();
        let mut at = Some(turn);
        while let Some(turn) = at.and_then(|at| self.turns.get(at)) {
            turns.push(turn);
            at = turn.parent;
        }
        turns
            .into_iter()
            .rev()
            .flat_map(|turn| turn.entries.iter().copied())
            .collect()
    }

    /// Returns for each turn whether it is `turn` or a descendant.
    pub(super) fn descendants(&self, turn: usize) -> Vec<bool> {
        let mut below: Vec<bool> = Vec::with_capacity(self.turns.len());
        // Children have larger indexes than their parents.
        for (at, this) in self.turns.iter().enumerate() {
            let inherited = this.parent.and_then(|parent| below.get(parent).copied());
            below.push(at == turn || inherited == Some(true));
        }
        below
    }

    /// Returns the leaf reached from `turn`: itself, or the leaf below it that ends last in the
    /// file.
    pub(super) fn leaf_turn(&self, turn: usize) -> usize {
        if self.turns.get(turn).is_none_or(|turn| turn.children == 0) {
            return turn;
        }
        let mut best: Vec<Option<usize>> = vec![None; self.turns.len()];
        // Children have larger indexes than their parents.
        for at in (0..self.turns.len()).rev() {
            let Some(this) = self.turns.get(at) else {
                continue;
            };
            let reached = match best.get(at).copied().flatten() {
                Some(leaf) => leaf,
                None if this.children == 0 && !this.entries.is_empty() => at,
                None => continue,
            };
            let Some(slot) = this.parent.and_then(|parent| best.get_mut(parent)) else {
                continue;
            };
            if slot.is_none_or(|other| self.last_entry(other) < self.last_entry(reached)) {
                *slot = Some(reached);
            }
        }
        best.get(turn).copied().flatten().unwrap_or(turn)
    }

    /// Computes a value for each turn from its entries and the value of its parent, parents first.
    pub(super) fn inherit<T: Clone>(
        &self,
        mut own: impl FnMut(&[usize], Option<&T>) -> T,
    ) -> Vec<T> {
        let mut values: Vec<T> = Vec::with_capacity(self.turns.len());
        for turn in &self.turns {
            let value = own(
                &turn.entries,
                turn.parent.and_then(|parent| values.get(parent)),
            );
            values.push(value);
        }
        values
    }

    pub(super) fn segments(&self, conversations: &[Conversation]) -> Vec<Segment> {
        // The conversation that ends with each turn.
        let mut ends: Vec<Option<usize>> = vec![None; self.turns.len()];
        for (at, conversation) in conversations.iter().enumerate() {
            if let Some(end) = ends.get_mut(conversation.turn) {
                *end = Some(at);
            }
        }
        let mut segments: Vec<Segment> = Vec::new();
        let mut segment_of: Vec<usize> = Vec::with_capacity(self.turns.len());
        for (at, turn) in self.turns.iter().enumerate() {
            let parent = turn.parent;
            let alone = parent
                .and_then(|parent| self.turns.get(parent))
                .is_some_and(|turn| turn.children == 1);
            let segment = match parent.and_then(|parent| segment_of.get(parent).copied()) {
                Some(segment) if alone => segment,
                grown => {
                    segments.push(Segment {
                        parent: grown,
                        entries: Vec::new(),
                        conversation: None,
                    });
                    segments.len() - 1
                }
            };
            segment_of.push(segment);
            if let Some(segment) = segments.get_mut(segment) {
                segment.entries.extend(&turn.entries);
                segment.conversation = segment.conversation.or(ends.get(at).copied().flatten());
            }
        }
        segments
    }

    fn begin(&mut self, parent: Option<usize>, outline: &Outline) -> usize {
        let response = outline.reply.as_ref().and_then(|reply| reply.response);
        self.turns.push(Turn {
            parent,
            entries: Vec::new(),
            children: 0,
            response,
            tip: None,
            has_content: false,
            path_info: PathInfo::default(),
        });
        self.turns.len() - 1
    }

    fn join(&mut self, turn: usize, entry: usize) {
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.entries.push(entry);
        }
        if let Some(slot) = self.turn_of.get_mut(entry) {
            *slot = Some(turn);
        }
    }

    /// Merges turns that lead to no prompt, reply or compaction into their parents: they are not
    /// branches.
    fn merge_empty_turns(&mut self, outlines: &[Outline]) {
        let counts = |&entry: &usize| {
            outlines.get(entry).is_some_and(|outline| {
                outline.human
                    || matches!(
                        outline.kind,
                        OutlineKind::Assistant | OutlineKind::Compaction
                    )
            })
        };
        for at in (0..self.turns.len()).rev() {
            let Some(turn) = self.turns.get_mut(at) else {
                continue;
            };
            turn.has_content |= turn.entries.iter().any(counts);
            let (real, parent) = (turn.has_content, turn.parent);
            if let Some(parent) = parent.and_then(|parent| self.turns.get_mut(parent))
                && real
            {
                parent.has_content = true;
                parent.children += 1;
            }
        }
        // The turn that finally gets the entries of each turn, because many may be merged in a row.
        let mut home: Vec<usize> = Vec::with_capacity(self.turns.len());
        for at in 0..self.turns.len() {
            let Some(turn) = self.turns.get_mut(at) else {
                continue;
            };
            let folded = turn.parent.filter(|_| !turn.has_content);
            let Some(into) = folded.and_then(|parent| home.get(parent).copied()) else {
                home.push(at);
                continue;
            };
            home.push(into);
            for entry in std::mem::take(&mut turn.entries) {
                self.join(into, entry);
            }
        }
    }

    /// Sorts the entries of each turn in reading order: replies before results and what the program
    /// added to those, parents before children, otherwise in file order.
    fn sort_entries(&mut self, outlines: &[Outline], links: &ParentLinks) {
        // A child before its parent in the file is read directly after its parent.
        let mut place: Vec<(usize, usize)> = (0..outlines.len()).map(|at| (at, 0)).collect();
        let mut late = vec![false; outlines.len()];
        for &at in &links.order {
            let above = links
                .parent(at)
                .filter(|&parent| self.turn_at(parent) == self.turn_at(at));
            let is_late = match outlines.get(at).map(|outline| outline.kind) {
                Some(OutlineKind::User) => true,
                Some(OutlineKind::System | OutlineKind::Other) => {
                    above.is_some_and(|above| late.get(above) == Some(&true))
                }
                _ => false,
            };
            if let Some(slot) = late.get_mut(at) {
                *slot = is_late;
            }
            let Some(&(line, depth)) = above.and_then(|above| place.get(above)) else {
                continue;
            };
            if line >= at
                && let Some(slot) = place.get_mut(at)
            {
                *slot = (line, depth + 1);
            }
        }
        for turn in &mut self.turns {
            let answers = turn.response.is_some();
            turn.entries.sort_by_key(|&at| {
                let is_late = answers && late.get(at) == Some(&true);
                (is_late, place.get(at).copied())
            });
            turn.tip = turn.entries.iter().copied().max();
        }
    }

    fn fill_path_info(&mut self, outlines: &[Outline]) {
        for at in 0..self.turns.len() {
            let Some(turn) = self.turns.get(at) else {
                continue;
            };
            let above = turn.parent.and_then(|parent| self.turns.get(parent));
            let mut about = above
                .map(|above| above.path_info.clone())
                .unwrap_or_default();
            let parts = above.is_some_and(|above| above.children > 1);
            let entries = || {
                turn.entries
                    .iter()
                    .filter_map(|&entry| Some((entry, outlines.get(entry)?)))
            };
            let prompt = entries()
                .find(|(_, outline)| outline.human)
                .map(|(entry, _)| entry);
            let first = entries()
                .find(|(_, outline)| outline.kind.is_message())
                .map(|(entry, _)| entry);
            if parts {
                about.branch = prompt.or(first);
            }
            about.prompt = about.prompt.or(prompt);
            about.messages += entries()
                .filter(|(_, outline)| outline.kind.is_message())
                .count();
            let last = entries().rfind(|(_, outline)| outline.kind.is_message());
            if turn.parent.is_none() {
                about.first_turn_messages = about.messages;
            }
            // A last turn without a time takes the time of the one before it.
            let newest = entries().filter_map(|(_, outline)| outline.time).max();
            about.updated = newest.or(about.updated);
            about.leaf = last.map(|(entry, _)| entry).or(about.leaf);
            about.started = about
                .started
                .or_else(|| entries().filter_map(|(_, outline)| outline.time).min());
            if let Some(turn) = self.turns.get_mut(at) {
                turn.path_info = about;
            }
        }
    }
}
