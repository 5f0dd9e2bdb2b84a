//! Sub-agents: where their entries are and which tool call they came from.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::error::Result;
use crate::layout::Spawn;
use crate::model::{AgentId, ArtifactKind, Block, Body, Delegation, EntryKey, Fact, Outline};
use crate::tree::Tree;

use super::inventory::{RootFile, SessionFiles};
use super::log_reader::{self, LogScan};
use super::session::Session;

/// A sub-agent of a session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Agent {
    /// Its id, where it has one.
    pub id: Option<AgentId>,
    /// Its kind, such as `Explore`.
    pub kind: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// The tool call that spawned it.
    pub call: Option<Call>,
    /// The log that holds its entries, as an index into the session's logs.
    pub log: usize,
    /// Its entries in that log; `None` means the whole log.
    pub sidechain: Option<usize>,
    /// How many messages it has.
    pub messages: usize,
    /// Its log is in the archive, and no more where it was.
    pub archived: bool,
}

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
    let mut metas = metas(files);
    let mut calls = Calls::new(logs);
    // A call that names its agent, or is named by it, cannot have spawned another.
    calls
        .claimed
        .extend(metas.values().filter_map(|meta| meta.call));
    let told = logs.iter().flat_map(|scan| &scan.outlines);
    calls.claimed.extend(
        told.filter_map(purpose_from_log)
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
            agents.push(Agent {
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

/// Where calls were made, and what ties them to agents.
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

    /// Looks for calls that are known to have spawned a sub-agent but do not say so: any tool may.
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

    /// The call that names the agent, else the first with its prompt that is no other agent's.
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

    /// The kind of agent that a call asked for.
    fn kind(&self, call: Option<EntryKey>) -> Option<String> {
        Some(self.delegations.get(&call?)?.kind.as_ref()?.to_string())
    }

    /// What a call wanted an agent for.
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

fn metas(files: &SessionFiles) -> HashMap<AgentId, AgentDetails> {
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

/// What a sub-agent was begun for (its kind, its description and the call), where a document of its own
/// says so.
pub(super) type AgentPurpose = (Option<String>, Option<String>, Option<String>);

/// What the document of a sub-agent says, whether the sub-agent has said anything yet or not.
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
    /// What a sub-agent was begun for: as its document or its log says, else as its call does. `None`
    /// if the session has no such sub-agent.
    pub fn agent_purpose(&self, id: &AgentId) -> Result<Option<Spawn>> {
        let Some(agent) = self.agents.iter().find(|it| it.id.as_ref() == Some(id)) else {
            return Ok(None);
        };
        let mut told = purpose_from_document(&self.files, id);
        if let (None, None, Some((_, scan, _))) = (&told, agent.sidechain, self.log(agent.log)) {
            let marked = scan.indexes(|outline| purpose_from_log(outline).is_some());
            self.each_entry_of_log(agent.log, &marked, |entry| {
                if let Body::Agent {
                    kind,
                    description,
                    call,
                } = entry.body
                {
                    told = Some((kind, description, call));
                }
                Ok(told.is_none())
            })?;
        }
        let (kind, description, mut call) = told.unwrap_or_default();
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
        let or = |told: Option<String>, known: &Option<String>| {
            told.or_else(|| known.clone()).unwrap_or_default()
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

/// What a sub-agent's own log says it was made for.
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

fn prompt_key(outline: &Outline) -> Option<EntryKey> {
    outline.facts.iter().find_map(|fact| match fact {
        Fact::AgentPrompt(prompt) => Some(*prompt),
        _ => None,
    })
}
