//! Pairs tool results that name no call with the calls before them.
//!
//! Some layouts give neither calls nor results an id: both name the tool, and order tells which call a
//! result answers. A decoder sees one record at a time, so it marks such calls and results
//! ([`Fact::UnnamedCall`], [`Fact::UnnamedAnswer`]) and names a call after its record
//! ([`unnamed_call`]); whoever reads a log in order puts the call's name into the result.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::layout::{CALL_OF, unnamed_call};
use crate::model::{AgentId, Block, Body, Entry, EntryId, Fact, Key, Outline};

/// The calls without an id that nothing has answered, in the order in which they were made.
#[derive(Debug)]
pub(crate) struct Pairing<T> {
    open: HashMap<Place, VecDeque<T>>,
    /// Calls that were open when the next prompt came.
    older: HashMap<Place, Vec<T>>,
    /// The tool that each agent called last.
    last: HashMap<Option<AgentId>, Key>,
}

/// An agent and the key of a tool.
type Place = (Option<AgentId>, Key);

impl<T> Default for Pairing<T> {
    fn default() -> Self {
        Pairing {
            open: HashMap::new(),
            older: HashMap::new(),
            last: HashMap::new(),
        }
    }
}

impl<T> Pairing<T> {
    fn made(&mut self, agent: &Option<AgentId>, tool: Key, call: T) {
        self.last.insert(agent.clone(), tool);
        let open = self.open.entry((agent.clone(), tool));
        open.or_default().push_back(call);
    }

    /// The call that a result answers: the oldest open one of its tool. One from before the last
    /// prompt counts only where there is no other.
    fn answered(&mut self, agent: &Option<AgentId>, tool: Key) -> Option<T> {
        let any = Key::of(CALL_OF);
        let tool = match tool == any {
            true => *self.last.get(agent)?,
            false => tool,
        };
        let place = (agent.clone(), tool);
        let open = self.open.get_mut(&place).and_then(VecDeque::pop_front);
        open.or_else(|| self.older.get_mut(&place)?.pop())
    }

    fn prompted(&mut self) {
        for (place, calls) in self.open.drain() {
            self.older.entry(place).or_default().extend(calls);
        }
    }
}

/// Pairs the results of a log with its calls.
pub(crate) fn pair(outlines: &mut [Outline]) {
    let unnamed = |fact: &Fact| matches!(fact, Fact::UnnamedCall(..) | Fact::UnnamedAnswer(_));
    let mut all = outlines.iter().flat_map(|outline| &outline.facts);
    if !all.any(unnamed) {
        return;
    }
    let mut pairing = Pairing::default();
    for outline in outlines {
        if outline.human {
            pairing.prompted();
        }
        let mut answers = HashSet::new();
        for fact in &outline.facts {
            match fact {
                Fact::UnnamedCall(tool, call) => pairing.made(&outline.agent, *tool, *call),
                Fact::UnnamedAnswer(tool) => _ = answers.insert(*tool),
                _ => {}
            }
        }
        for result in &mut outline.results {
            if answers.contains(result)
                && let Some(call) = pairing.answered(&outline.agent, *result)
            {
                *result = call;
            }
        }
    }
}

impl Pairing<String> {
    /// Pairs the results of the next entry of a log.
    pub(crate) fn read(&mut self, entry: &mut Entry) {
        let Entry {
            id, agent, body, ..
        } = entry;
        let Body::Message(message) = body else {
            return;
        };
        if message.human {
            self.prompted();
        }
        let own = |call: &str| {
            let id = id.as_ref().map(EntryId::as_str);
            let rest = id.and_then(|id| call.strip_prefix(id));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        for block in &mut message.blocks {
            match block {
                Block::ToolUse { id, name, .. } if own(id) => {
                    self.made(agent, Key::of(&format!("{CALL_OF}{name}")), id.clone());
                }
                Block::ToolResult { call, .. } if call.starts_with(CALL_OF) => {
                    match self.answered(agent, Key::of(call)) {
                        Some(made) => *call = made,
                        None if call == CALL_OF => call.clear(),
                        None => {}
                    }
                }
                _ => {}
            }
        }
    }
}

/// Names the calls that the results of an entry answer, as its outline knows them.
pub(super) fn adopt(entry: &mut Entry, outlines: &[Outline], at: usize) {
    let Body::Message(message) = &mut entry.body else {
        return;
    };
    let results = outlines.get(at).map_or(&[][..], |outline| &outline.results);
    let calls = message.blocks.iter_mut().filter_map(|block| match block {
        Block::ToolResult { call, .. } => Some(call),
        _ => None,
    });
    for (call, key) in calls.zip(results) {
        if !call.starts_with(CALL_OF) {
            continue;
        }
        if *key != Key::of(call)
            && let Some(name) = name_of(outlines, at, *key)
        {
            *call = name;
        } else if call == CALL_OF {
            call.clear();
        }
    }
}

/// The name of a call without an id that stands before an entry.
fn name_of(outlines: &[Outline], before: usize, call: Key) -> Option<String> {
    outlines.iter().take(before).rev().find_map(|outline| {
        let at = outline.calls().iter().position(|made| *made == call)?;
        Some(unnamed_call(outline.id()?.as_str(), at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_answer_the_calls_of_their_tool_in_order() {
        let mut pairing = Pairing::default();
        let (bash, read) = (Key::of("call:Bash"), Key::of("call:Read"));
        pairing.made(&None, bash, 1);
        pairing.made(&None, read, 2);
        pairing.made(&None, bash, 3);
        assert_eq!(pairing.answered(&None, bash), Some(1));
        assert_eq!(pairing.answered(&None, bash), Some(3));
        assert_eq!(pairing.answered(&None, bash), None);
        assert_eq!(pairing.answered(&None, read), Some(2));
    }

    #[test]
    fn a_call_that_was_never_answered_does_not_shift_later_pairs() {
        let mut pairing = Pairing::default();
        let bash = Key::of("call:Bash");
        pairing.made(&None, bash, 1);
        pairing.prompted();
        pairing.made(&None, bash, 2);
        assert_eq!(pairing.answered(&None, bash), Some(2));
        // A result that came after the next prompt.
        assert_eq!(pairing.answered(&None, bash), Some(1));
    }

    #[test]
    fn a_result_without_a_tool_answers_the_last_one_called() {
        let mut pairing = Pairing::default();
        let any = Key::of(CALL_OF);
        assert_eq!(pairing.answered(&None, any), None);
        pairing.made(&None, Key::of("call:Read"), 1);
        pairing.made(&None, Key::of("call:Bash"), 2);
        assert_eq!(pairing.answered(&None, any), Some(2));
    }
}
