//! Pairs tool results that name no call with the calls before them.
//!
//! Some layouts give neither calls nor results an id: both name the tool, and order tells which call a
//! result answers. A decoder sees one record at a time, so it marks such calls and results
//! ([`Fact::UnnamedCall`], [`Fact::UnnamedAnswer`]) and names a call after its record
//! ([`unnamed_call`]); whoever reads a log in order puts the call's name into the result.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::layout::{UNNAMED_CALL_PREFIX, unnamed_call_id};
use crate::model::{AgentId, Block, Body, Entry, EntryId, EntryKey, Fact, Outline};

/// The calls without an id that nothing has answered, in the order in which they were made.
#[derive(Debug)]
pub(crate) struct CallPairing<T> {
    open: HashMap<AgentTool, VecDeque<T>>,
    /// Calls that were open when the next prompt came.
    older: HashMap<AgentTool, Vec<T>>,
    /// The tool that each agent called last.
    last: HashMap<Option<AgentId>, EntryKey>,
}

/// An agent and the key of a tool.
type AgentTool = (Option<AgentId>, EntryKey);

impl<T> Default for CallPairing<T> {
    fn default() -> Self {
        CallPairing {
            open: HashMap::new(),
            older: HashMap::new(),
            last: HashMap::new(),
        }
    }
}

impl<T> CallPairing<T> {
    fn add_call(&mut self, agent: &Option<AgentId>, tool: EntryKey, call: T) {
        self.last.insert(agent.clone(), tool);
        let open = self.open.entry((agent.clone(), tool));
        open.or_default().push_back(call);
    }

    /// The call that a result answers: the oldest open one of its tool. One from before the last
    /// prompt counts only where there is no other.
    fn take_call(&mut self, agent: &Option<AgentId>, tool: EntryKey) -> Option<T> {
        let any = EntryKey::from_text(UNNAMED_CALL_PREFIX);
        let tool = match tool == any {
            true => *self.last.get(agent)?,
            false => tool,
        };
        let place = (agent.clone(), tool);
        let open = self.open.get_mut(&place).and_then(VecDeque::pop_front);
        open.or_else(|| self.older.get_mut(&place)?.pop())
    }

    fn end_turn(&mut self) {
        for (place, calls) in self.open.drain() {
            self.older.entry(place).or_default().extend(calls);
        }
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

/// Names the calls that the results of an entry answer, as its outline knows them.
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

/// The name of a call without an id that stands before an entry.
fn call_name(outlines: &[Outline], before: usize, call: EntryKey) -> Option<String> {
    outlines.iter().take(before).rev().find_map(|outline| {
        let at = outline.calls().iter().position(|made| *made == call)?;
        Some(unnamed_call_id(outline.id()?.as_str(), at))
    })
}

#[cfg(test)]
mod tests {
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
        // A result that came after the next prompt.
        assert_eq!(pairing.take_call(&None, bash), Some(1));
    }

    #[test]
    fn result_without_tool_pairs_with_last_called_tool() {
        let mut pairing = CallPairing::default();
        let any = EntryKey::from_text(UNNAMED_CALL_PREFIX);
        assert_eq!(pairing.take_call(&None, any), None);
        pairing.add_call(&None, EntryKey::from_text("call:Read"), 1);
        pairing.add_call(&None, EntryKey::from_text("call:Bash"), 2);
        assert_eq!(pairing.take_call(&None, any), Some(2));
    }
}
