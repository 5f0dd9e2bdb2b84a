//! Trees: the conversations of a log, their branches and titles, and where they would be resumed.
//!
//! A tree is built from outlines alone, in linear time and without recursion, whatever the links
//! are. Three steps, one file each:
//!
//! 1. `link`: every entry gets at most one parent that exists; cycles are cut.
//! 2. `turn`: entries that belong together become one *turn*: the lines of one response with the
//!    results of its tool calls, or a prompt with what the program attached to it. Parallel tool
//!    calls are a graph of lines but one turn, so they are not branches.
//! 3. this file: turns form a tree; each path from a root to a leaf is a [`Conversation`].
//!
//! `Tree::resume_entry` is the entry at which the real client would continue. The rule was found by
//! experiment (tools/resume-oracle), and tests compare it with recorded results. `Tree::resume` is
//! the conversation that contains that entry, at its end or before it.

mod link;
mod title;
mod turn;

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;

use crate::model::{AgentId, EntryKey, Fact, Flaw, Outline, OutlineKind};

pub use link::IdIndex;
pub use title::one_line;
pub use title::{Title, Titles, shorten};
use turn::Turns;

/// Owner of the log that the outlines come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The main agent: sidechains in the log belong to sub-agents.
    Main,
    /// A sub-agent: everything in the log is its own.
    Agent,
}

/// Tree of the entries of one log. Entries are identified by their index in the outlines.
#[derive(Debug)]
pub struct Tree {
    /// Every root-to-leaf path, in file order of the leaves.
    pub conversations: Vec<Conversation>,
    /// Sub-agents with entries in this log.
    pub sidechains: Vec<Sidechain>,
    /// Index of the conversation that the agent program would resume.
    pub resume: Option<usize>,
    /// The entry at which it would resume. It may be inside the conversation: the entries after it
    /// are then left out.
    pub resume_entry: Option<usize>,
    /// Damage in the links.
    pub flaws: Vec<Flaw>,
    turns: Turns,
}

/// One path from a root to a leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// The last message of the path; its id names the conversation.
    pub leaf: usize,
    /// The last entry of the path, and the parent of the next one.
    pub tip: usize,
    /// Number of messages on the path.
    pub messages: usize,
    /// Start time.
    pub started: Option<Timestamp>,
    /// Time of the newest entry in the last turn.
    pub updated: Option<Timestamp>,
    /// First prompt after the last branch point on the path.
    pub branch: Option<usize>,
    turn: usize,
}

/// A sub-agent's entries within another agent's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Sidechain {
    /// Agent id, if the entries record it.
    pub agent: Option<AgentId>,
    /// Its entries, in file order.
    pub entries: Vec<usize>,
    /// The tool call that spawned it.
    pub call: Option<EntryKey>,
}

impl Tree {
    /// Builds the tree of one log.
    pub fn build(outlines: &[Outline], scope: Scope) -> Self {
        Tree::build_with_parents(outlines, scope).0
    }

    /// Same as [`build`](Self::build), with the parent of each entry of the main tree.
    pub fn build_with_parents(outlines: &[Outline], scope: Scope) -> (Self, Vec<Option<usize>>) {
        let mut flaws = Vec::new();
        let links = link::resolve(outlines, scope, &mut flaws);
        let turns = turn::group(outlines, &links);
        let conversations = conversations(&turns);
        let resume_entry = resume_entry(outlines, scope, &links);
        let resume = resume_entry.and_then(|tip| {
            let turn = turns.leaf_turn(turns.turn_at(tip)?);
            conversations
                .iter()
                .position(|conversation| conversation.turn == turn)
        });
        let strands = find_sidechains(outlines, &links);
        let parents = (0..outlines.len()).map(|at| links.parent(at)).collect();
        let tree = Tree {
            conversations,
            sidechains: strands,
            resume,
            resume_entry,
            flaws,
            turns,
        };
        (tree, parents)
    }

    /// Returns whether the conversation continues after the turn that contains `entry`.
    pub fn continues_after(&self, entry: usize) -> bool {
        let turn = self.turns.turn_at(entry);
        turn.is_some_and(|turn| self.turns.has_children(turn))
    }

    /// Returns the entries from the root to the end of the turn at which the agent program would
    /// resume.
    pub fn resumed_path(&self) -> Option<Vec<usize>> {
        Some(self.turns.path(self.turns.turn_at(self.resume_entry?)?))
    }

    /// Returns the entries after [`Tree::resume_entry`] in the conversation that would be resumed.
    pub fn after_resume(&self, parents: &[Option<usize>]) -> Vec<usize> {
        let resumed = self.resume.and_then(|at| self.conversations.get(at));
        let (Some(conversation), Some(entry)) = (resumed, self.resume_entry) else {
            return Vec::new();
        };
        let turn = self.turns.turn_at(entry);
        let before = turn.map_or(0, |turn| self.turns.path(turn).len());
        let mut below: HashSet<usize> = HashSet::from([entry]);
        let mut after = Vec::new();
        for (place, at) in self.path(conversation).into_iter().enumerate() {
            let parent = parents.get(at).copied().flatten();
            let follows = parent.is_some_and(|parent| below.contains(&parent)) && below.insert(at);
            if place >= before || follows {
                after.push(at);
            }
        }
        after
    }

    /// Returns the first entries of all conversations, in file order.
    pub fn first_entries(&self) -> BTreeSet<usize> {
        let firsts: Vec<Option<usize>> = self.turns.inherit(|entries, above| match above {
            Some(Some(first)) => Some(*first),
            _ => entries.first().copied(),
        });
        let first = |one: &Conversation| firsts.get(one.turn).copied().flatten();
        self.conversations.iter().filter_map(first).collect()
    }

    /// Returns the entries of a conversation, from its root to its leaf.
    pub fn path(&self, conversation: &Conversation) -> Vec<usize> {
        self.turns.path(conversation.turn)
    }

    /// Returns the index of the sidechain that contains an entry.
    pub fn sidechain_of(&self, entry: usize) -> Option<usize> {
        let mut strands = self.sidechains.iter();
        strands.position(|strand| strand.entries.contains(&entry))
    }

    /// Returns the entries from the root up to `entry`, in reading order. `None` if the entry is
    /// outside of the tree.
    pub fn path_to(&self, entry: usize) -> Option<Vec<usize>> {
        let turn = self.turns.turn_at(entry)?;
        let mut path = self.turns.path(turn);
        let end = path.iter().rposition(|&at| at == entry)?;
        path.truncate(end + 1);
        Some(path)
    }

    /// Returns the messages before a compaction that the agent program sends after its summary.
    pub fn kept_messages(&self, outlines: &[Outline], compaction: usize) -> Vec<usize> {
        let outline = outlines.get(compaction);
        let kept = outline.and_then(|outline| {
            outline.facts.iter().find_map(|fact| match fact {
                Fact::KeptFrom(key) => Some(*key),
                _ => None,
            })
        });
        let path = kept.and_then(|kept| {
            let mut path = self.path_to(compaction)?;
            path.pop();
            let has_key = |at: &usize| outlines.get(*at).is_some_and(|it| it.key == Some(kept));
            let first = path.iter().position(has_key)?;
            Some(path.split_off(first))
        });
        let mut path = path.unwrap_or_default();
        path.retain(|&at| outlines.get(at).is_some_and(|it| it.kind.is_message()));
        path
    }

    /// Returns the conversation that ends at `entry`, or the only one through it.
    pub fn conversation_at(&self, entry: usize) -> Option<usize> {
        let ends =
            |conversation: &Conversation| conversation.leaf == entry || conversation.tip == entry;
        if let Some(found) = self.conversations.iter().position(ends) {
            return Some(found);
        }
        let below = self.turns.descendants(self.turns.turn_at(entry)?);
        let mut through = self
            .conversations
            .iter()
            .enumerate()
            .filter(|(_, conversation)| below.get(conversation.turn) == Some(&true));
        match (through.next(), through.next()) {
            (Some((only, _)), None) => Some(only),
            _ => None,
        }
    }

    /// Returns the number of a conversation's messages after its first turn.
    ///
    /// The first turn in a window on a log may be incomplete; later turns are complete.
    pub fn messages_after_first_turn(&self, conversation: &Conversation) -> usize {
        let about = self.turns.path_info(conversation.turn);
        conversation
            .messages
            .saturating_sub(about.first_turn_messages)
    }

    /// Returns the entries of a conversation's last turn.
    pub fn last_turn(&self, conversation: &Conversation) -> &[usize] {
        self.turns.entries(conversation.turn)
    }

    /// Returns the shape of the tree for drawing: runs of turns between branch points.
    pub fn segments(&self) -> Vec<Segment> {
        self.turns.segments(&self.conversations)
    }
}

/// A part of a tree without branches.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Index of the segment that it branches off; segments come after their parents.
    pub parent: Option<usize>,
    /// Its entries in order.
    pub entries: Vec<usize>,
    /// Index of the conversation that ends here, if any.
    pub conversation: Option<usize>,
}

fn conversations(turns: &Turns) -> Vec<Conversation> {
    let mut found: Vec<Conversation> = turns
        .leaves()
        .filter_map(|turn| {
            let about = turns.path_info(turn);
            Some(Conversation {
                leaf: about.leaf?,
                tip: turns.last_entry(turn)?,
                messages: about.messages,
                started: about.started,
                updated: about.updated,
                branch: about.branch,
                turn,
            })
        })
        .collect();
    found.sort_by_key(|conversation| conversation.tip);
    found
}

/// Returns the entry at which the agent program resumes, by the rule of client 2.1.325
/// (tools/verify/README.md).
///
/// The search starts at the last prompt or reply in file order and takes the newest of it and its
/// descendants; in layouts whose program resumes at the end of the log, the last entry is marked so. If the log names a leaf and that entry does not descend from it, the named leaf is
/// returned. Sidechains count only if there is nothing else.
fn resume_entry(outlines: &[Outline], scope: Scope, links: &link::ParentLinks) -> Option<usize> {
    let outline = |at: usize| outlines.get(at);
    let main =
        |at: usize| outline(at).is_some_and(|outline| scope == Scope::Agent || !outline.sidechain);
    let is_message = |at: usize| {
        outline(at).is_some_and(|outline| {
            matches!(outline.kind, OutlineKind::User | OutlineKind::Assistant)
                && !outline.lacks_id()
        })
    };
    let has_content =
        |at: usize| outline(at).is_some_and(|outline| outline.kind != OutlineKind::Other);
    let is_marked =
        |at: usize| outline(at).is_some_and(|outline| outline.facts.contains(&Fact::ResumesHere));
    let start = links
        .last_in_file(|at| main(at) && (is_message(at) || is_marked(at)))
        .or_else(|| links.last_in_file(|at| main(at) && has_content(at)))
        .or_else(|| links.last_in_file(has_content))
        .or_else(|| links.last_in_file(|_| true))?;
    if is_marked(start) {
        return Some(start);
    }
    let time = |at: usize| outline(at).and_then(|outline| outline.time);
    let mut newest = start;
    let below = links.descendants(outlines, start);
    for at in (0..outlines.len()).filter(|at| below.get(*at) == Some(&true) && *at != start) {
        let known = outline(at).is_some_and(|outline| !is_skipped(outline));
        if known && main(at) && time(at).is_some() && time(at) >= time(newest) {
            newest = at;
        }
    }
    let named = named_leaf(outlines).and_then(|leaf| links.find(leaf));
    let named = named.filter(|&at| {
        outline(at).is_some_and(|one| !is_skipped(one) && one.kind != OutlineKind::Compaction)
    });
    match named {
        Some(named) if links.descendants(outlines, named).get(newest) != Some(&true) => Some(named),
        _ => Some(newest),
    }
}

/// Returns the leaf that the log names last. A compaction cancels the ones named before it.
pub fn named_leaf(outlines: &[Outline]) -> Option<EntryKey> {
    let after = outlines.iter().rev();
    let mut after = after.take_while(|outline| outline.kind != OutlineKind::Compaction);
    after.find_map(|outline| {
        outline.facts.iter().find_map(|fact| match fact {
            Fact::Resume(leaf) => Some(*leaf),
            _ => None,
        })
    })
}

/// Returns whether the agent program never resumes at such an entry.
fn is_skipped(outline: &Outline) -> bool {
    let skips = |fact: &Fact| {
        matches!(
            fact,
            Fact::UnlinkedType | Fact::Untyped | Fact::NewerType | Fact::NoId
        )
    };
    outline.facts.iter().any(skips)
}

fn find_sidechains(outlines: &[Outline], links: &link::ParentLinks) -> Vec<Sidechain> {
    let mut strands: Vec<Sidechain> = Vec::new();
    for entries in links.sidechains() {
        let agent = entries
            .iter()
            .find_map(|&at| outlines.get(at)?.agent.clone());
        strands.push(Sidechain {
            agent,
            entries: entries.clone(),
            call: None,
        });
    }
    // Few logs have sidechains; the rest is only for them.
    if strands.is_empty() {
        return strands;
    }
    let mut delegations = std::collections::HashMap::new();
    for fact in outlines.iter().flat_map(|outline| &outline.facts) {
        if let Fact::Delegation(made) = fact
            && let Some(prompt) = made.prompt
        {
            delegations
                .entry(prompt)
                .or_insert_with(std::collections::VecDeque::new)
                .push_back(made.call);
        }
    }
    for strand in &mut strands {
        let facts = strand
            .entries
            .first()
            .and_then(|&at| outlines.get(at))
            .map(|first| &first.facts);
        let asked = facts.into_iter().flatten().find_map(|fact| match fact {
            Fact::AgentPrompt(prompt) => Some(*prompt),
            _ => None,
        });
        // If two calls have the same prompt, the first agent belongs to the first call.
        strand.call = asked.and_then(|prompt| delegations.get_mut(&prompt)?.pop_front());
    }
    strands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Link, OutlineKind, Reply, ResponseKey, Span};

    fn outline(
        number: u64,
        parent: Option<u64>,
        kind: OutlineKind,
        response: Option<&str>,
    ) -> Outline {
        let mut outline = Outline::new(Span {
            offset: number * 100,
            len: 100,
            line: number,
        });
        let key = |number: u64| EntryKey::from_text(&format!("entry {number}"));
        outline.kind = kind;
        outline.human = kind == OutlineKind::User;
        outline.key = Some(key(number));
        outline.link = parent.map_or(Link::None, |parent| Link::Parent(key(parent)));
        outline.reply = response.map(|response| {
            Box::new(Reply {
                response: Some(ResponseKey::new(response, "")),
                ..Reply::default()
            })
        });
        outline
    }

    #[test]
    fn prompt_within_a_reply_splits_the_reply_into_branches() {
        let log = [
            outline(1, None, OutlineKind::User, None),
            outline(2, Some(1), OutlineKind::Assistant, Some("reply")),
            outline(3, Some(2), OutlineKind::Assistant, Some("reply")),
            outline(4, Some(2), OutlineKind::User, None),
            outline(5, Some(4), OutlineKind::Assistant, Some("other")),
        ];
        let tree = Tree::build(&log, Scope::Main);
        let paths: Vec<Vec<usize>> = tree
            .conversations
            .iter()
            .map(|one| tree.path(one))
            .collect();
        assert_eq!(paths, [vec![0, 1, 2], vec![0, 1, 3, 4]]);
    }
}
