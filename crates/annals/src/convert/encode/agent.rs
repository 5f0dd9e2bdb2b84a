//! Sub-agents: the owner of a log, and its start in the target.

use crate::error::Result;
use crate::store::{Agent, RootFile};
use annals_layouts::layout::{AppendState, Change, Spawn};
use annals_layouts::model::{AgentId, Block, Body, EntryKey};

use super::{SessionEncoder, SessionPart};

impl<'a> SessionEncoder<'a> {
    /// Returns whether a sub-agent is converted. Of a path, only the sub-agents that it calls are.
    pub(super) fn wants_agent(&self, log: usize) -> bool {
        let SessionPart::Path(path) = self.part else {
            return true;
        };
        let call = self.agent_of(log).and_then(|agent| agent.call);
        call.is_some_and(|call| call.log == 0 && path.contains(&call.entry))
    }

    /// Returns the sub-agent that owns a log.
    pub(super) fn agent_of(&self, log: usize) -> Option<&'a Agent> {
        let mut agents = self.session.agents.iter();
        agents.find(|agent| agent.log == log && agent.sidechain.is_none())
    }

    /// Begins a sub-agent's log in the target.
    pub(super) fn agent_head(&mut self, at: usize, file: &RootFile) -> Result<AppendState> {
        let agent = self.agent_of(at);
        let named = file.artifact.agent.clone();
        let id = match named.or_else(|| agent.and_then(|agent| agent.id.clone())) {
            Some(id) => id,
            None => AgentId::new(&format!("{at}"))?,
        };
        let head = self.head.clone();
        let log = self.target.writer.new_agent_log(&head, &id)?;
        let text = |text: Option<&String>| text.cloned().unwrap_or_default();
        let mut spawn = Spawn::new(
            id.clone(),
            text(agent.and_then(|agent| agent.kind.as_ref())),
            text(agent.and_then(|agent| agent.description.as_ref())),
        );
        spawn.call = match agent {
            Some(agent) => self.call_id(agent)?,
            None => None,
        };
        if self.target.writer.session_list(&log).is_some() {
            let row = self.rows.entry(log.clone()).or_default();
            row.purpose = agent.and_then(agent_purpose);
        }
        let change = Change::Spawn(spawn);
        let plan = self.plan(&head, &change, self.started)?;
        self.write_first_lines(plan.edits)?;
        Ok(AppendState {
            agent: Some(id),
            log,
            leaf: None,
            last_message: None,
            prompt: None,
            open_calls: Vec::new(),
            recent_responses: Vec::new(),
            ..head
        })
    }

    /// Returns the id of the call that spawned an agent; outlines store only its key.
    fn call_id(&self, agent: &Agent) -> Result<Option<String>> {
        let Some(call) = agent.call else {
            return Ok(None);
        };
        let mut found = None;
        self.session
            .each_entry_of_log(call.log, &[call.entry], |entry| {
                if let Body::Message(message) = &entry.body {
                    found = message.blocks.iter().find_map(|block| match block {
                        Block::ToolUse { id, .. } if EntryKey::from_text(id) == call.key => {
                            Some(id.clone())
                        }
                        _ => None,
                    });
                }
                Ok(true)
            })?;
        Ok(found)
    }
}

/// Returns the purpose of a sub-agent, as a session list states it.
pub(super) fn agent_purpose(agent: &Agent) -> Option<String> {
    let texts = [&agent.description, &agent.kind];
    let mut texts = texts.into_iter().flatten();
    texts.find(|text| !text.is_empty()).cloned()
}
