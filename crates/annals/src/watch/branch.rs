//! One conversation of a session: which of the entries that come belong to it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use crate::error::Result;
use crate::model::{AgentId, Body, Key};
use crate::store::{Inventory, Session, SessionFiles, Told};

use super::FollowedLog;

/// The conversation that ends at a message, and what grows from there.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) files: SessionFiles,
    /// The entries of the conversation as it was.
    path: HashSet<Key>,
    /// Those from which it goes on: its last turn, and all that grew from there.
    open: HashSet<Key>,
    /// Of its last turn those from which another branch may part: what answers them belongs to the
    /// turn, a prompt does not.
    inner: HashSet<Key>,
    /// Whether it called a sub-agent.
    agents: HashMap<Caller, bool>,
    /// Whether entries of sub-agents that have no log of their own are theirs whom it called.
    asides: HashMap<Key, bool>,
    /// The main agent's last message belonged to it.
    at_work: bool,
}

/// A sub-agent, by its log and its name.
type Caller = (PathBuf, Option<AgentId>);

impl Branch {
    /// Reads the session to find the conversation at a message.
    pub(super) fn read(files: SessionFiles, message: &str) -> Result<Self> {
        let session = Session::read(files.clone())?;
        let end = session.find_entry(message)?;
        let mut branch = Branch {
            files,
            path: HashSet::new(),
            open: HashSet::new(),
            inner: HashSet::new(),
            agents: HashMap::new(),
            asides: HashMap::new(),
            at_work: true,
        };
        let Some((_, scan, tree)) = session.main() else {
            return Ok(branch);
        };
        let key = |at: usize| scan.outlines.get(at).and_then(|outline| outline.key);
        let conversation = tree.conversation_at(end);
        let conversation = conversation.and_then(|at| tree.conversations.get(at));
        let ends = conversation.filter(|one| one.leaf == end || one.tip == end);
        let path = match ends {
            Some(one) => tree.path(one),
            None => tree.path_to(end).unwrap_or_else(|| vec![end]),
        };
        branch.path.extend(path.iter().filter_map(|&at| key(at)));
        let mut tips = vec![end];
        if let Some(one) = ends {
            tips.extend([one.leaf, one.tip]);
            let turn = tree.last_turn(one).iter().filter(|at| !tips.contains(at));
            branch.inner.extend(turn.filter_map(|&at| key(at)));
        }
        // What grew from the end already belongs to it.
        let mut children: HashMap<Key, Vec<Key>> = HashMap::new();
        for outline in &scan.outlines {
            if let (Some(parent), Some(key)) = (outline.link.key(), outline.key) {
                children.entry(parent).or_default().push(key);
            }
        }
        let mut grown: Vec<Key> = tips.into_iter().filter_map(key).collect();
        branch.open.extend(branch.inner.iter().copied());
        while let Some(next) = grown.pop() {
            if branch.open.insert(next) {
                grown.extend(children.get(&next).into_iter().flatten());
            }
        }
        branch.note_agents(&session);
        Ok(branch)
    }

    /// Whether an entry of the session belongs to the conversation. Those of one log come in order.
    pub(super) fn takes(&mut self, log: &FollowedLog, told: &Told) -> bool {
        let entry = &told.entry;
        if log.artifact.is_agent_log() || told.agent.is_some() || entry.sidechain {
            return self.takes_aside(log, told);
        }
        let parent = entry.parent.as_ref().map(|parent| parent.key());
        let key = entry.id.as_ref().map(|id| id.key());
        let human = matches!(&entry.body, Body::Message(message) if message.human);
        let known = |key: Key| self.path.contains(&key) || self.open.contains(&key);
        let grows =
            |parent: Key| self.open.contains(&parent) && !(human && self.inner.contains(&parent));
        let ours = key.is_some_and(known) || parent.is_some_and(grows);
        if ours && parent.is_some_and(grows) {
            self.open.extend(key);
        }
        let talks = matches!(entry.body, Body::Message(_) | Body::Compaction { .. });
        if talks {
            self.at_work = ours;
        }
        // What is said beside the tree, such as a title, concerns all of it.
        ours || (parent.is_none() && !talks)
    }

    /// Whether an entry of a sub-agent is one's that the conversation called.
    fn takes_aside(&mut self, log: &FollowedLog, told: &Told) -> bool {
        let caller = (log.path.clone(), told.agent.clone());
        if log.artifact.is_agent_log() {
            if !self.agents.contains_key(&caller) {
                self.ask_anew(log);
            }
            // Whoever is at work now most likely called it.
            return *self.agents.entry(caller).or_insert(self.at_work);
        }
        let parent = told.entry.parent.as_ref().map(|parent| parent.key());
        let above = parent.and_then(|parent| self.asides.get(&parent).copied());
        let named = self.agents.get(&caller).filter(|_| told.agent.is_some());
        let ours = above.or(named.copied()).unwrap_or(self.at_work);
        let key = told.entry.id.as_ref().map(|id| id.key());
        self.asides.extend(key.map(|key| (key, ours)));
        ours
    }

    /// Reads the session as it is now to learn who called a sub-agent that was not there before.
    fn ask_anew(&mut self, log: &FollowedLog) {
        let inventory = Inventory::of(std::slice::from_ref(&log.root));
        let mut sessions = inventory.sessions.into_iter();
        let has = |files: &SessionFiles| files.logs().any(|file| file.path == log.path);
        let files = sessions.find(|files| files.id == self.files.id && has(files));
        let failures = log.root.failures();
        if let Some(session) = files.and_then(|files| failures.ok(Session::read(files))) {
            self.note_agents(&session);
        }
    }

    /// Learns which sub-agents the conversation called.
    fn note_agents(&mut self, session: &Session) {
        let mut waiting: Vec<usize> = (0..session.agents.len()).collect();
        let mut logs: HashMap<usize, bool> = HashMap::new();
        // Agents call agents; each round settles those whose caller is settled.
        loop {
            let before = waiting.len();
            waiting.retain(|&at| {
                let Some(agent) = session.agents.get(at) else {
                    return false;
                };
                let ours = agent.call.and_then(|call| match call.log {
                    0 => {
                        let (_, scan, _) = session.main()?;
                        let key = scan.outlines.get(call.entry)?.key?;
                        Some(self.path.contains(&key) || self.open.contains(&key))
                    }
                    log => logs.get(&log).copied(),
                });
                let Some(ours) = ours else { return true };
                if let Some(log) = session.files.logs().nth(agent.log) {
                    let caller = (log.path.clone(), agent.id.clone());
                    self.agents.insert(caller, ours);
                }
                if agent.strand.is_none() {
                    logs.insert(agent.log, ours);
                }
                false
            });
            if waiting.is_empty() || waiting.len() == before {
                return;
            }
        }
    }
}
