//! Sub-agents: the location of their entries and the tool call that spawned them.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::error::Result;
use annals_layouts::layout::Spawn;
use annals_layouts::model::{
    AgentId, ArtifactKind, Block, Body, Delegation, EntryKey, Fact, Outline,
};
use annals_layouts::tree::Tree;

use super::inventory::{RootFile, SessionFiles};
use super::log_reader::{self, LogScan};
use super::session::Session;

/// A sub-agent of a session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Agent {
    /// Its id, if it has one.
    pub id: Option<AgentId>,
    /// Its kind, such as `Explore`.
    pub kind: Option<String>,
    /// Its task.
    pub description: Option<String>,
    /// The tool call that spawned it.
    pub call: Option<Call>,
    /// The log that holds its entries, as an index into the session's logs.
    pub log: usize,
    /// Its entries in that log; `None` means the whole log.
    pub sidechain: Option<usize>,
    /// Number of its messages.
    pub messages: usize,
    /// Whether it is a warm-up: a request that clients 2.0 make at their start to fill the prompt
    /// cache. It costs money, but is no part of a conversation.
    pub warm_up: bool,
    /// Whether its log exists only in the archive.
    pub archived: bool,
}

/// Prompt of a warm-up.
const WARM_UP: &str = "Warmup";

/// A tool call that spawned a sub-agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The call.
    pub key: EntryKey,
    /// The log of the agent that made it, as an index into the session's logs.
    pub log: usize,
    /// The entry that makes it, as an index into that log's outlines.
    pub entry: usize,
}

pub(super) fn find_agents(files: &SessionFiles, logs: &[LogScan], trees: &[Tree]) -> Vec<Agent> {
    let mut own = files.logs().map(|file| file.artifact.is_agent_log());
    if !own.any(|is| is) && trees.iter().all(|tree| tree.sidechains.is_empty()) {
        return Vec::new();
    }
    let mut metas = read_agent_details(files);
    let mut calls = Calls::new(logs);
    // A call that names its agent, or is named by it, cannot have spawned another.
    calls
        .claimed
        .extend(metas.values().filter_map(|meta| meta.call));
    let outlines = logs.iter().flat_map(|scan| &scan.outlines);
    calls.claimed.extend(
        outlines
            .filter_map(purpose_from_log)
            .filter_map(|meta| meta.call),
    );
    let strands = trees.iter().flat_map(|tree| &tree.sidechains);
    calls
        .claimed
        .extend(strands.filter_map(|strand| strand.call));
    let spawned: Vec<EntryKey> = calls.by_agent.values().copied().collect();
    calls.claimed.extend(spawned);
    calls.find_claimed(logs);
    let mut agents = Vec::new();
    for (at, ((file, scan), tree)) in files.logs().zip(logs).zip(trees).enumerate() {
        if file.artifact.is_agent_log() {
            let id = file.artifact.agent.clone();
            let meta = id
                .as_ref()
                .and_then(|id| metas.remove(id))
                .or_else(|| scan.outlines.iter().find_map(purpose_from_log))
                .unwrap_or_default();
            let asked = scan.outlines.iter().find_map(prompt_key);
            let call = meta.call.or_else(|| calls.for_agent(id.as_ref(), asked));
            agents.push(Agent {
                warm_up: is_warm_up(call, asked),
                kind: meta.kind.or_else(|| calls.kind(call)),
                description: meta.description.or_else(|| calls.description(call)),
                call: call.and_then(|key| calls.locate(key)),
                id,
                log: at,
                sidechain: None,
                messages: scan
                    .outlines
                    .iter()
                    .filter(|outline| outline.kind.is_message())
                    .count(),
                archived: file.is_archived(),
            });
        }
        for (number, strand) in tree.sidechains.iter().enumerate() {
            let said = |at: &&usize| {
                scan.outlines
                    .get(**at)
                    .is_some_and(|outline| outline.kind.is_message())
            };
            let call = strand
                .call
                .or_else(|| calls.for_agent(strand.agent.as_ref(), None));
            let first = strand.entries.first().and_then(|&at| scan.outlines.get(at));
            agents.push(Agent {
                warm_up: is_warm_up(call, first.and_then(prompt_key)),
                id: strand.agent.clone(),
                kind: calls.kind(call),
                description: calls.description(call),
                call: call.and_then(|key| calls.locate(key)),
                log: at,
                sidechain: Some(number),
                messages: strand.entries.iter().filter(said).count(),
                archived: file.is_archived(),
            });
        }
    }
    agents
}

/// Locations of tool calls, and their links to agents.
struct Calls<'a> {
    locations: HashMap<EntryKey, (usize, usize)>,
    delegations: HashMap<EntryKey, &'a Delegation>,
    by_agent: HashMap<AgentId, EntryKey>,
    by_prompt: HashMap<EntryKey, VecDeque<EntryKey>>,
    claimed: HashSet<EntryKey>,
}

impl<'a> Calls<'a> {
    fn new(logs: &'a [LogScan]) -> Self {
        let mut calls = Calls {
            locations: HashMap::new(),
            delegations: HashMap::new(),
            by_agent: HashMap::new(),
            by_prompt: HashMap::new(),
            claimed: HashSet::new(),
        };
        for (log, scan) in logs.iter().enumerate() {
            for (entry, outline) in scan.outlines.iter().enumerate() {
                for fact in &outline.facts {
                    match fact {
                        Fact::Delegation(asked) => {
                            calls.locations.insert(asked.call, (log, entry));
                            calls.delegations.insert(asked.call, asked);
                            if let Some(prompt) = asked.prompt {
                                let waiting = calls.by_prompt.entry(prompt).or_default();
                                waiting.push_back(asked.call);
                            }
                        }
                        Fact::Spawned(agent) => {
                            let result = outline.results.first();
                            calls
                                .by_agent
                                .extend(result.map(|call| (agent.clone(), *call)));
                        }
                        _ => {}
                    }
                }
            }
        }
        calls
    }

    /// Locates claimed calls without a [`Fact::Delegation`]: any tool may spawn a sub-agent.
    fn find_claimed(&mut self, logs: &[LogScan]) {
        let unknown = |call: &&EntryKey| !self.locations.contains_key(call);
        let missing: HashSet<EntryKey> = self.claimed.iter().filter(unknown).copied().collect();
        for (log, scan) in logs.iter().enumerate().filter(|_| !missing.is_empty()) {
            for (entry, outline) in scan.outlines.iter().enumerate() {
                let made = outline.calls().iter().filter(|call| missing.contains(call));
                self.locations
                    .extend(made.map(|call| (*call, (log, entry))));
            }
        }
    }

    /// Returns the call that names the agent, else the first unclaimed call with the same prompt.
    fn for_agent(&mut self, id: Option<&AgentId>, asked: Option<EntryKey>) -> Option<EntryKey> {
        if let Some(named) = id.and_then(|id| self.by_agent.get(id)) {
            return Some(*named);
        }
        let waiting = self.by_prompt.get_mut(&asked?)?;
        while let Some(call) = waiting.pop_front() {
            if self.claimed.insert(call) {
                return Some(call);
            }
        }
        None
    }

    /// Returns the kind of agent that a call asked for.
    fn kind(&self, call: Option<EntryKey>) -> Option<String> {
        Some(self.delegations.get(&call?)?.kind.as_ref()?.to_string())
    }

    /// Returns the description that a call gave of the agent's task.
    fn description(&self, call: Option<EntryKey>) -> Option<String> {
        Some(
            self.delegations
                .get(&call?)?
                .description
                .as_ref()?
                .to_string(),
        )
    }

    fn locate(&self, key: EntryKey) -> Option<Call> {
        self.locations
            .get(&key)
            .map(|&(log, entry)| Call { key, log, entry })
    }
}

#[derive(Default)]
struct AgentDetails {
    kind: Option<String>,
    description: Option<String>,
    call: Option<EntryKey>,
}

fn read_agent_details(files: &SessionFiles) -> HashMap<AgentId, AgentDetails> {
    let files_of = files
        .attachments
        .iter()
        .filter(|file| file.artifact.kind == ArtifactKind::AgentMeta);
    files_of
        .filter_map(|file| {
            let id = file.artifact.agent.clone()?;
            let document = log_reader::read_document(&files.root, file);
            let document = files.root.failures.ok(document)?;
            let entry = document.items.into_iter().next()?;
            match entry.body {
                Body::Agent {
                    kind,
                    description,
                    call,
                } => {
                    let call = call.as_deref().map(EntryKey::from_text);
                    Some((
                        id,
                        AgentDetails {
                            kind,
                            description,
                            call,
                        },
                    ))
                }
                _ => None,
            }
        })
        .collect()
}

/// Kind, description and call of a sub-agent, from its metadata document.
pub(super) type AgentPurpose = (Option<String>, Option<String>, Option<String>);

/// Reads the metadata document of a sub-agent, which may exist before the sub-agent has a message.
pub(super) fn purpose_from_document(files: &SessionFiles, agent: &AgentId) -> Option<AgentPurpose> {
    let of_agent = |file: &&RootFile| {
        let artifact = &file.artifact;
        artifact.kind == ArtifactKind::AgentMeta && artifact.agent.as_ref() == Some(agent)
    };
    let file = files.attachments.iter().find(of_agent)?;
    let document = log_reader::read_document(&files.root, file);
    let document = files.root.failures.ok(document)?;
    match document.items.into_iter().next()?.body {
        Body::Agent {
            kind,
            description,
            call,
        } => Some((kind, description, call)),
        _ => None,
    }
}

impl Session {
    /// Returns what a sub-agent was spawned for: from its document or its log, else from its call.
    /// `None` if the session has no such sub-agent.
    pub fn agent_purpose(&self, id: &AgentId) -> Result<Option<Spawn>> {
        let Some(agent) = self.agents.iter().find(|it| it.id.as_ref() == Some(id)) else {
            return Ok(None);
        };
        let mut purpose = purpose_from_document(&self.files, id);
        if let (None, None, Some((_, scan, _))) = (&purpose, agent.sidechain, self.log(agent.log)) {
            let marked = scan.indexes(|outline| purpose_from_log(outline).is_some());
            self.each_entry_of_log(agent.log, &marked, |entry| {
                if let Body::Agent {
                    kind,
                    description,
                    call,
                } = entry.body
                {
                    purpose = Some((kind, description, call));
                }
                Ok(purpose.is_none())
            })?;
        }
        let (kind, description, mut call) = purpose.unwrap_or_default();
        if let (None, Some(made)) = (&call, agent.call) {
            self.each_entry_of_log(made.log, &[made.entry], |entry| {
                if let Body::Message(message) = entry.body {
                    call = message.blocks.into_iter().find_map(|block| match block {
                        Block::ToolUse { id, .. } if EntryKey::from_text(&id) == made.key => {
                            Some(id)
                        }
                        _ => None,
                    });
                }
                Ok(true)
            })?;
        }
        let or = |given: Option<String>, known: &Option<String>| {
            given.or_else(|| known.clone()).unwrap_or_default()
        };
        let mut spawn = Spawn::new(
            id.clone(),
            or(kind, &agent.kind),
            or(description, &agent.description),
        );
        spawn.call = call;
        Ok(Some(spawn))
    }
}

/// Reads the purpose of a sub-agent from an outline of its own log.
fn purpose_from_log(outline: &Outline) -> Option<AgentDetails> {
    outline.facts.iter().find_map(|fact| match fact {
        Fact::Purpose(purpose) => Some(AgentDetails {
            kind: purpose.kind.as_deref().map(str::to_owned),
            description: purpose.description.as_deref().map(str::to_owned),
            call: purpose.call,
        }),
        _ => None,
    })
}

/// Returns whether no call spawned an agent, and its prompt is that of a warm-up.
fn is_warm_up(call: Option<EntryKey>, asked: Option<EntryKey>) -> bool {
    call.is_none() && asked == Some(EntryKey::from_text(WARM_UP))
}

fn prompt_key(outline: &Outline) -> Option<EntryKey> {
    outline.facts.iter().find_map(|fact| match fact {
        Fact::AgentPrompt(prompt) => Some(*prompt),
        _ => None,
    })
}
