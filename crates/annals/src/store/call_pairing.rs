//! Pairs tool results with their calls.
//!
//! [`results_under_calls`] orders entries for people: each result below its call.
//!
//! In some layouts, calls and results have no id: both name the tool, and the order determines
//! which call a result answers. A result that names no tool answers the oldest call without a
//! result. A decoder sees one record at a time, so it marks such calls and
//! results ([`Fact::UnnamedCall`], [`Fact::UnnamedAnswer`]) and derives the call's id from its
//! record ([`unnamed_call_id`]). Code that reads a log in order sets this id in the result.

use std::collections::{BTreeSet, HashMap, HashSet};

use annals_layouts::layout::{UNNAMED_CALL_PREFIX, unnamed_call_id};
use annals_layouts::model::{
    AgentId, Block, Body, Entry, EntryId, EntryKey, Fact, KeyMap, Outline, OutlineKind,
};

/// Unanswered calls without an id, in order.
#[derive(Debug)]
pub(crate) struct CallPairing<T> {
    /// The calls and their tools, by number.
    open: HashMap<usize, (EntryKey, T)>,
    /// The numbers of an agent's calls of each tool, and of all its calls under [`any_tool`].
    by_tool: HashMap<AgentTool, BTreeSet<usize>>,
    /// The number of the next call.
    next: usize,
    /// The number of the first call since the last prompt.
    turn: usize,
}

/// An agent and the key of a tool.
type AgentTool = (Option<AgentId>, EntryKey);

/// Returns the key of the tool in a result that names none.
fn any_tool() -> EntryKey {
    EntryKey::from_text(UNNAMED_CALL_PREFIX)
}

impl<T> Default for CallPairing<T> {
    fn default() -> Self {
        CallPairing {
            open: HashMap::new(),
            by_tool: HashMap::new(),
            next: 0,
            turn: 0,
        }
    }
}

impl<T> CallPairing<T> {
    fn add_call(&mut self, agent: &Option<AgentId>, tool: EntryKey, call: T) {
        for tool in [tool, any_tool()] {
            let numbers = self.by_tool.entry((agent.clone(), tool));
            numbers.or_default().insert(self.next);
        }
        self.open.insert(self.next, (tool, call));
        self.next += 1;
    }

    /// Returns the call that a result answers: the oldest open call of its tool, or of any tool if
    /// it names none. A call from before the last prompt is used only if there is no other, the
    /// newest first.
    fn take_call(&mut self, agent: &Option<AgentId>, tool: EntryKey) -> Option<T> {
        let numbers = self.by_tool.get(&(agent.clone(), tool))?;
        let oldest = numbers.range(self.turn..).next();
        let number = *oldest.or_else(|| numbers.range(..self.turn).next_back())?;
        let (tool, call) = self.open.remove(&number)?;
        for tool in [tool, any_tool()] {
            if let Some(numbers) = self.by_tool.get_mut(&(agent.clone(), tool)) {
                numbers.remove(&number);
            }
        }
        Some(call)
    }

    fn end_turn(&mut self) {
        self.turn = self.next;
    }
}

/// Pairs the results of a log with its calls.
pub(crate) fn pair_results(outlines: &mut [Outline]) {
    let unnamed = |fact: &Fact| matches!(fact, Fact::UnnamedCall(..) | Fact::UnnamedAnswer(_));
    let mut all = outlines.iter().flat_map(|outline| &outline.facts);
    if !all.any(unnamed) {
        return;
    }
    let mut pairing = CallPairing::default();
    for outline in outlines {
        if outline.human {
            pairing.end_turn();
        }
        let mut answers = HashSet::new();
        for fact in &outline.facts {
            match fact {
                Fact::UnnamedCall(tool, call) => pairing.add_call(&outline.agent, *tool, *call),
                Fact::UnnamedAnswer(tool) => _ = answers.insert(*tool),
                _ => {}
            }
        }
        for result in &mut outline.results {
            if answers.contains(result)
                && let Some(call) = pairing.take_call(&outline.agent, *result)
            {
                *result = call;
            }
        }
    }
}

impl CallPairing<String> {
    /// Pairs the results of the next entry of a log.
    pub(crate) fn pair_entry(&mut self, entry: &mut Entry) {
        let Entry {
            id, agent, body, ..
        } = entry;
        let Body::Message(message) = body else {
            return;
        };
        if message.human {
            self.end_turn();
        }
        let own = |call: &str| {
            let id = id.as_ref().map(EntryId::as_str);
            let rest = id.and_then(|id| call.strip_prefix(id));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        for block in &mut message.blocks {
            match block {
                Block::ToolUse { id, name, .. } if own(id) => {
                    self.add_call(
                        agent,
                        EntryKey::from_text(&format!("{UNNAMED_CALL_PREFIX}{name}")),
                        id.clone(),
                    );
                }
                Block::ToolResult { call, .. } if call.starts_with(UNNAMED_CALL_PREFIX) => {
                    match self.take_call(agent, EntryKey::from_text(call)) {
                        Some(made) => *call = made,
                        None if call == UNNAMED_CALL_PREFIX => call.clear(),
                        None => {}
                    }
                }
                _ => {}
            }
        }
    }
}

/// Orders entries of a log so that results follow the calls that they answer.
///
/// The results of parallel calls are written after the last call. An entry with results moves to
/// directly after the entry that made the calls; the results of several calls of one entry stay in
/// the order of the calls. No result moves across a prompt or a compaction. All other entries keep
/// their order.
pub fn results_under_calls(outlines: &[Outline], entries: &[usize]) -> Vec<usize> {
    // Position, index among the calls of its entry, and turn of each call.
    let mut calls: KeyMap<(usize, usize, usize)> = KeyMap::default();
    let mut turn = 0;
    // Each entry with its position: that of its call, and its rank among the results there.
    let mut placed: Vec<(usize, usize, usize)> = Vec::with_capacity(entries.len());
    for (position, &entry) in entries.iter().enumerate() {
        let mut place = (position, 0);
        if let Some(outline) = outlines.get(entry) {
            if outline.human || outline.kind == OutlineKind::Compaction {
                turn += 1;
            }
            for (at, call) in outline.calls().iter().enumerate() {
                calls.insert(*call, (position, at, turn));
            }
            if let Some((caller, at)) = common_caller(outline, &calls, turn) {
                place = (caller, at + 1);
            }
        }
        placed.push((place.0, place.1, entry));
    }
    crate::sort::by_key(&mut placed, |(position, rank, _)| (*position, *rank));
    placed.into_iter().map(|(_, _, entry)| entry).collect()
}

/// Returns the position of the entry that made all calls that an entry answers in the same turn,
/// and the index of the first of these calls.
fn common_caller(
    outline: &Outline,
    calls: &KeyMap<(usize, usize, usize)>,
    turn: usize,
) -> Option<(usize, usize)> {
    if outline.human || !outline.calls().is_empty() {
        return None;
    }
    let mut common: Option<(usize, usize)> = None;
    for result in &outline.results {
        let (caller, at, asked) = *calls.get(result)?;
        let (known, first) = common.unwrap_or((caller, at));
        if asked != turn || caller != known {
            return None;
        }
        common = Some((caller, at.min(first)));
    }
    common
}

/// Sets the ids of the calls that the results of an entry answer, from its outline.
pub(super) fn name_calls(entry: &mut Entry, outlines: &[Outline], at: usize) {
    let Body::Message(message) = &mut entry.body else {
        return;
    };
    let results = outlines.get(at).map_or(&[][..], |outline| &outline.results);
    let calls = message.blocks.iter_mut().filter_map(|block| match block {
        Block::ToolResult { call, .. } => Some(call),
        _ => None,
    });
    for (call, key) in calls.zip(results) {
        if !call.starts_with(UNNAMED_CALL_PREFIX) {
            continue;
        }
        if *key != EntryKey::from_text(call)
            && let Some(name) = call_name(outlines, at, *key)
        {
            *call = name;
        } else if call == UNNAMED_CALL_PREFIX {
            call.clear();
        }
    }
}

/// Returns the derived id of a call without an id that precedes an entry.
fn call_name(outlines: &[Outline], before: usize, call: EntryKey) -> Option<String> {
    outlines.iter().take(before).rev().find_map(|outline| {
        let at = outline.calls().iter().position(|made| *made == call)?;
        Some(unnamed_call_id(outline.id()?.as_str(), at))
    })
}

#[cfg(test)]
mod tests {
    use annals_layouts::model::{Reply, Span};

    use super::*;

    #[test]
    fn results_pair_with_calls_of_their_tool_in_order() {
        let mut pairing = CallPairing::default();
        let (bash, read) = (
            EntryKey::from_text("call:Bash"),
            EntryKey::from_text("call:Read"),
        );
        pairing.add_call(&None, bash, 1);
        pairing.add_call(&None, read, 2);
        pairing.add_call(&None, bash, 3);
        assert_eq!(pairing.take_call(&None, bash), Some(1));
        assert_eq!(pairing.take_call(&None, bash), Some(3));
        assert_eq!(pairing.take_call(&None, bash), None);
        assert_eq!(pairing.take_call(&None, read), Some(2));
    }

    #[test]
    fn unanswered_call_does_not_shift_later_pairs() {
        let mut pairing = CallPairing::default();
        let bash = EntryKey::from_text("call:Bash");
        pairing.add_call(&None, bash, 1);
        pairing.end_turn();
        pairing.add_call(&None, bash, 2);
        assert_eq!(pairing.take_call(&None, bash), Some(2));
        // A result after the next prompt.
        assert_eq!(pairing.take_call(&None, bash), Some(1));
    }

    /// Returns an outline with calls and results.
    fn outline(calls: &[&str], results: &[&str]) -> Outline {
        let keys = |ids: &[&str]| ids.iter().map(|id| EntryKey::from_text(id)).collect();
        let mut outline = Outline::new(Span::default());
        outline.kind = match results {
            [] => OutlineKind::Assistant,
            _ => OutlineKind::User,
        };
        let reply = Reply {
            calls: keys(calls),
            ..Reply::default()
        };
        outline.reply = Some(Box::new(reply));
        outline.results = keys(results);
        outline
    }

    fn check_order(outlines: &[Outline], expected: &[usize]) {
        let all: Vec<usize> = (0..outlines.len()).collect();
        let ordered = results_under_calls(outlines, &all);
        assert_eq!(ordered, expected);
        assert_eq!(results_under_calls(outlines, &ordered), expected);
    }

    #[test]
    fn results_of_parallel_calls_move_below_their_calls() {
        check_order(
            &[
                outline(&[], &[]),
                outline(&["a"], &[]),
                outline(&["b"], &[]),
                outline(&["c"], &[]),
                outline(&[], &["b"]),
                outline(&[], &["a"]),
                outline(&[], &["c"]),
                outline(&[], &[]),
            ],
            &[0, 1, 5, 2, 4, 3, 6, 7],
        );
    }

    #[test]
    fn results_of_one_entry_stay_in_the_order_of_its_calls() {
        check_order(
            &[
                outline(&["a", "b"], &[]),
                outline(&["c"], &[]),
                outline(&[], &["b"]),
                outline(&[], &["a"]),
                outline(&[], &["c"]),
            ],
            &[0, 3, 2, 1, 4],
        );
        // One entry with the results of two entries cannot be below both.
        check_order(
            &[
                outline(&["a"], &[]),
                outline(&["b"], &[]),
                outline(&[], &["a", "b"]),
            ],
            &[0, 1, 2],
        );
    }

    #[test]
    fn results_do_not_cross_prompts_or_compactions() {
        let mut prompt = outline(&[], &[]);
        prompt.human = true;
        let mut compaction = outline(&[], &[]);
        compaction.kind = OutlineKind::Compaction;
        for between in [prompt, compaction] {
            let late = outline(&[], &["a"]);
            check_order(
                &[outline(&["a"], &[]), outline(&["b"], &[]), between, late],
                &[0, 1, 2, 3],
            );
        }
        // A result without a call, and an index without an outline.
        let outlines = [outline(&[], &["x"])];
        assert_eq!(results_under_calls(&outlines, &[7, 0]), [7, 0]);
    }

    #[test]
    fn result_without_tool_pairs_with_oldest_open_call() {
        let mut pairing = CallPairing::default();
        let (read, bash) = (
            EntryKey::from_text("call:Read"),
            EntryKey::from_text("call:Bash"),
        );
        let other = AgentId::new("other").ok();
        assert_eq!(pairing.take_call(&None, any_tool()), None);
        pairing.add_call(&other, read, 0);
        pairing.add_call(&None, read, 1);
        pairing.add_call(&None, bash, 2);
        pairing.add_call(&None, read, 3);
        assert_eq!(pairing.take_call(&None, any_tool()), Some(1));
        // Calls taken by their tool are taken, and the reverse.
        assert_eq!(pairing.take_call(&None, read), Some(3));
        assert_eq!(pairing.take_call(&None, any_tool()), Some(2));
        assert_eq!(pairing.take_call(&None, bash), None);
        assert_eq!(pairing.take_call(&None, any_tool()), None);
        // A call of before the last prompt is left for last.
        pairing.add_call(&None, read, 4);
        pairing.end_turn();
        pairing.add_call(&None, bash, 5);
        assert_eq!(pairing.take_call(&None, any_tool()), Some(5));
        assert_eq!(pairing.take_call(&None, any_tool()), Some(4));
        assert_eq!(pairing.take_call(&other, any_tool()), Some(0));
    }
}
