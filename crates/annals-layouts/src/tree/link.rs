//! Parent links: every entry of the tree gets at most one parent, which exists and is not a
//! descendant.
//!
//! In layouts without links, several messages may have the same id (`Fact::RepeatedId`). All of
//! them count, and a link to that id means the nearest one before it (`IdIndex`).

use std::collections::{HashMap, HashSet};

use crate::model::{EntryKey, Fact, Flaw, FlawKind, KeyMap, Link, Outline};

use super::Scope;

/// The validated parent links of one log.
#[derive(Debug)]
pub(super) struct ParentLinks {
    /// Role of each outline in the tree.
    places: Vec<NodeKind>,
    ids: IdIndex,
    /// Entries of the main tree, parents before children.
    pub(super) order: Vec<usize>,
    sidechains: Vec<Vec<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeKind {
    /// Outside of the tree: it has no id, or a later entry replaces it.
    OutsideTree,
    /// In the main tree.
    Node { parent: Option<usize> },
    /// In a sub-agent's sidechain.
    Sidechain,
}

impl ParentLinks {
    pub(crate) fn parent(&self, entry: usize) -> Option<usize> {
        match self.places.get(entry) {
            Some(NodeKind::Node { parent }) => *parent,
            _ => None,
        }
    }

    pub(super) fn find(&self, key: EntryKey) -> Option<usize> {
        let at = self.ids.last(key)?;
        matches!(self.places.get(at), Some(NodeKind::Node { .. })).then_some(at)
    }

    /// Returns for each entry whether it is `entry` or descends from it by parent links. The entry
    /// that a compaction continues is not its parent.
    pub(super) fn descendants(&self, outlines: &[Outline], entry: usize) -> Vec<bool> {
        let mut below = vec![false; self.places.len()];
        if let Some(mark) = below.get_mut(entry) {
            *mark = true;
        }
        for &at in &self.order {
            let by_parent = outlines
                .get(at)
                .is_some_and(|outline| !matches!(outline.link, Link::Continues(_)));
            let parent = self.parent(at).filter(|_| by_parent);
            let inherits = parent.and_then(|parent| below.get(parent).copied());
            if inherits == Some(true)
                && let Some(mark) = below.get_mut(at)
            {
                *mark = true;
            }
        }
        below
    }

    pub(super) fn last_in_file(&self, counts: impl Fn(usize) -> bool) -> Option<usize> {
        self.order.iter().copied().filter(|&at| counts(at)).max()
    }

    pub(super) fn sidechains(&self) -> &[Vec<usize>] {
        &self.sidechains
    }
}

pub(crate) fn resolve(outlines: &[Outline], scope: Scope, flaws: &mut Vec<Flaw>) -> ParentLinks {
    let ids = IdIndex::from_outlines(outlines);
    let counts = counted_entries(outlines, &ids, flaws);
    let mut parents: Vec<Option<usize>> = (0..outlines.len())
        .map(|at| ids.parent(outlines, at))
        .collect();
    let in_tree = |at: usize| counts.get(at) == Some(&true);
    let cut = cut_cycles(outlines, &mut parents, &in_tree, flaws);
    let order = parents_first(&parents, &in_tree);
    let mut links = ParentLinks {
        places: vec![NodeKind::OutsideTree; outlines.len()],
        ids,
        order,
        sidechains: Vec::new(),
    };
    assign_places(outlines, scope, &parents, &mut links);
    for &at in &links.order {
        let Some(outline) = outlines.get(at) else {
            continue;
        };
        let has_parent = parents.get(at).copied().flatten().is_some();
        if outline.link != Link::None && !has_parent && !cut.contains(&at) {
            let detail = "its parent is not in this file";
            flaw(flaws, FlawKind::Orphan, outline, detail);
        }
    }
    links
        .order
        .retain(|&at| matches!(links.places.get(at), Some(NodeKind::Node { .. })));
    links
}

/// Index of the entries of a log by id.
#[derive(Debug)]
pub struct IdIndex {
    /// The last entry of each id.
    last: KeyMap<usize>,
    /// Each entry with the id of an earlier one, and that earlier one, in file order.
    duplicates: Vec<(usize, usize)>,
    /// All entries of the ids marked with [`Fact::RepeatedId`], in file order.
    repeated: KeyMap<Vec<usize>>,
}

impl IdIndex {
    /// Indexes the ids of a log's outlines.
    pub fn from_outlines(outlines: &[Outline]) -> Self {
        let mut ids = IdIndex {
            last: KeyMap::with_capacity_and_hasher(outlines.len(), Default::default()),
            duplicates: Vec::new(),
            repeated: KeyMap::default(),
        };
        for (at, outline) in outlines.iter().enumerate() {
            let Some(key) = outline.key else { continue };
            let Some(earlier) = ids.last.insert(key, at) else {
                continue;
            };
            ids.duplicates.push((at, earlier));
            if outline.facts.contains(&Fact::RepeatedId) {
                let all = ids.repeated.entry(key).or_insert_with(|| vec![earlier]);
                all.push(at);
            }
        }
        ids
    }

    /// Returns the last entry of an id.
    pub(crate) fn last(&self, key: EntryKey) -> Option<usize> {
        self.last.get(&key).copied()
    }

    /// Returns whether a later entry with the same id replaces this one.
    pub fn is_replaced(&self, outlines: &[Outline], at: usize) -> bool {
        let key = outlines.get(at).and_then(|outline| outline.key);
        key.is_some_and(|key| self.last(key) != Some(at) && !self.repeated.contains_key(&key))
    }

    /// Returns the parent of an entry: the last entry with the id that its link names or, if the id
    /// is repeated, the nearest one before the entry.
    pub fn parent(&self, outlines: &[Outline], at: usize) -> Option<usize> {
        let key = outlines.get(at)?.link.key()?;
        let nearest = self.repeated.get(&key).and_then(|all| {
            let before = all.partition_point(|one| *one < at);
            all.get(before.checked_sub(1)?).copied()
        });
        nearest.or_else(|| self.last(key))
    }
}

/// Returns which entries count: the last of each id, or all if the id is repeated.
fn counted_entries(outlines: &[Outline], ids: &IdIndex, flaws: &mut Vec<Flaw>) -> Vec<bool> {
    let mut counts: Vec<bool> = outlines.iter().map(|one| one.key.is_some()).collect();
    for &(at, earlier) in &ids.duplicates {
        let (Some(outline), Some(before)) = (outlines.get(at), outlines.get(earlier)) else {
            continue;
        };
        if let Some(counts) = counts.get_mut(earlier) {
            *counts = !ids.is_replaced(outlines, earlier);
        }
        let detail = format!("line {} has the same id", before.span.line);
        flaw(flaws, FlawKind::DuplicateId, outline, &detail);
    }
    counts
}

/// Removes one link from each cycle: the link to its newest entry. Returns the entries whose links
/// were removed.
fn cut_cycles(
    outlines: &[Outline],
    parents: &mut [Option<usize>],
    in_tree: &impl Fn(usize) -> bool,
    flaws: &mut Vec<Flaw>,
) -> HashSet<usize> {
    let mut cut = HashSet::new();
    // 0: not visited. Otherwise the number of the walk that visited it.
    let mut seen = vec![0u32; parents.len()];
    for start in 0..parents.len() {
        let walk = start as u32 + 1;
        let mut at = start;
        let met = loop {
            match seen.get_mut(at) {
                Some(mark @ 0) if in_tree(at) => *mark = walk,
                Some(&mut mark) if mark == walk => break Some(at),
                _ => break None,
            }
            match parents.get(at).copied().flatten() {
                Some(parent) => at = parent,
                None => break None,
            }
        };
        let Some(met) = met else { continue };
        let mut child = met;
        let mut newest = (met, met);
        let mut length = 0;
        while let Some(parent) = parents.get(child).copied().flatten() {
            length += 1;
            if parent >= newest.0 {
                newest = (parent, child);
            }
            child = parent;
            if child == met {
                break;
            }
        }
        if let Some(link) = parents.get_mut(newest.1) {
            *link = None;
        }
        cut.insert(newest.1);
        if let Some(outline) = outlines.get(newest.1) {
            let detail = format!("cycle of length {length}; this parent link is ignored");
            flaw(flaws, FlawKind::Cycle, outline, &detail);
        }
    }
    cut
}

/// Returns all entries of the tree, parents before children, otherwise in file order.
fn parents_first(parents: &[Option<usize>], in_tree: &impl Fn(usize) -> bool) -> Vec<usize> {
    let mut order = Vec::with_capacity(parents.len());
    let mut done = vec![false; parents.len()];
    let mut pending = Vec::new();
    for start in 0..parents.len() {
        let mut next = Some(start);
        while let Some(at) = next.filter(|&at| in_tree(at) && done.get(at) == Some(&false)) {
            pending.push(at);
            if let Some(done) = done.get_mut(at) {
                *done = true;
            }
            next = parents.get(at).copied().flatten();
        }
        order.extend(pending.drain(..).rev());
    }
    order
}

/// Separates the main tree from the sidechains of sub-agents.
fn assign_places(
    outlines: &[Outline],
    scope: Scope,
    parents: &[Option<usize>],
    links: &mut ParentLinks,
) {
    let mut strand_of: HashMap<usize, usize> = HashMap::new();
    let mut by_agent: HashMap<&str, usize> = HashMap::new();
    for &at in &links.order {
        let Some(outline) = outlines.get(at) else {
            continue;
        };
        let parent = parents.get(at).copied().flatten();
        let inherited = parent.and_then(|parent| strand_of.get(&parent).copied());
        // A sidechain belongs to a sub-agent if it names the agent or has its own root; one that is
        // attached to the main tree is a branch.
        let strand = match (scope, outline.sidechain, &outline.agent) {
            (Scope::Agent, _, _) | (_, false, _) => None,
            (Scope::Main, true, Some(agent)) => {
                let next = links.sidechains.len();
                Some(*by_agent.entry(agent.as_str()).or_insert(next))
            }
            (Scope::Main, true, None) => match (inherited, parent) {
                (Some(strand), _) => Some(strand),
                (None, Some(_)) => None,
                (None, None) => Some(links.sidechains.len()),
            },
        };
        let place = match strand {
            Some(strand) => {
                if strand == links.sidechains.len() {
                    links.sidechains.push(Vec::new());
                }
                if let Some(entries) = links.sidechains.get_mut(strand) {
                    entries.push(at);
                }
                strand_of.insert(at, strand);
                NodeKind::Sidechain
            }
            // The parent of an entry of the main tree is never in a sidechain.
            None => NodeKind::Node {
                parent: parent.filter(|parent| !strand_of.contains_key(parent)),
            },
        };
        if let Some(slot) = links.places.get_mut(at) {
            *slot = place;
        }
    }
    for entries in &mut links.sidechains {
        entries.sort_unstable();
    }
}

fn flaw(flaws: &mut Vec<Flaw>, kind: FlawKind, outline: &Outline, detail: &str) {
    flaws.push(Flaw {
        kind,
        span: outline.span,
        volume: outline.volume,
        detail: detail.to_owned(),
    });
}
