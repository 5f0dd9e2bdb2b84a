//! The places where a conversation branches, for surfaces that show one branch at a time.

use std::collections::{HashMap, HashSet};

use annals_layouts::tree::{Segment, Tree};

use super::OpenSession;

/// A place of a conversation after which other conversations go on differently.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForkPoint {
    /// Index of the last entry that all branches share; `None` if they share none.
    pub after: Option<usize>,
    /// The id of a message by which each branch is named: the leaf of the conversation that would be
    /// resumed, else of its newest one. In the order of the log.
    pub branches: Vec<String>,
    /// Position of the shown branch.
    pub current: usize,
}

impl OpenSession {
    /// Returns the places where the path to an entry of the main log branches, oldest first.
    pub fn fork_points(&self, path: &[usize]) -> Vec<ForkPoint> {
        let Some((_, scan, tree)) = self.session.main_log() else {
            return Vec::new();
        };
        let segments = tree.segments();
        let leaves = preferred_leaves(tree, &segments);
        let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        for (at, segment) in segments.iter().enumerate() {
            if leaves.contains_key(&at) {
                children.entry(segment.parent).or_default().push(at);
            }
        }
        let shown: HashSet<usize> = path.iter().copied().collect();
        let is_shown = |at: usize| {
            let segment = segments.get(at);
            segment.is_some_and(|it| it.entries.iter().any(|entry| shown.contains(entry)))
        };
        let leaf_id = |at: &usize| {
            let conversation = tree.conversations.get(*leaves.get(at)?)?;
            Some(scan.outlines.get(conversation.leaf)?.id()?.to_string())
        };
        let points = children.iter().filter_map(|(parent, branches)| {
            let current = branches.iter().position(|at| is_shown(*at))?;
            let named: Option<Vec<String>> = branches.iter().map(leaf_id).collect();
            let parent = parent.and_then(|parent| segments.get(parent));
            let point = ForkPoint {
                after: parent.and_then(|parent| parent.entries.last().copied()),
                branches: named?,
                current,
            };
            (branches.len() > 1).then_some(point)
        });
        let mut points: Vec<ForkPoint> = points.collect();
        let place = |point: &ForkPoint| {
            let after = point.after;
            after.and_then(|after| path.iter().position(|at| *at == after))
        };
        points.sort_by_key(place);
        points
    }
}

/// Returns the conversation that stands for each segment that leads to one: the one that would be
/// resumed, else the newest.
fn preferred_leaves(tree: &Tree, segments: &[Segment]) -> HashMap<usize, usize> {
    let mut leaves: HashMap<usize, usize> = HashMap::new();
    // Segments come after their parents, so this walks from the leaves up.
    for (at, segment) in segments.iter().enumerate().rev() {
        if let Some(own) = segment.conversation {
            let known = leaves.get(&at).copied();
            leaves.insert(at, preferred(tree, known, own));
        }
        if let (Some(leaf), Some(parent)) = (leaves.get(&at).copied(), segment.parent) {
            let known = leaves.get(&parent).copied();
            leaves.insert(parent, preferred(tree, known, leaf));
        }
    }
    leaves
}

fn preferred(tree: &Tree, known: Option<usize>, other: usize) -> usize {
    match known {
        Some(known) if tree.resume == Some(known) => known,
        _ if tree.resume == Some(other) => other,
        Some(known) => known.max(other),
        None => other,
    }
}
