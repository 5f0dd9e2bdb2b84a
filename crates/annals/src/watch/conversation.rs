//! Selects the entries that belong to one conversation of a session.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use crate::error::Result;
use crate::store::{Inventory, LocatedEntry, Session, SessionFiles};
use annals_layouts::model::{AgentId, Body, EntryKey};

use super::FollowedLog;

/// The conversation that ends at a message, and its continuation.
#[derive(Debug)]
pub(super) struct FollowedConversation {
    pub(super) files: SessionFiles,
    /// The entries of the conversation when it was read.
    path: HashSet<EntryKey>,
    /// The entries that it continues from: its last turn, and everything appended to it.
    open: HashSet<EntryKey>,
    /// Entries of the last turn at which another branch may begin: a reply to one belongs to the
    /// turn, a prompt does not.
    inner: HashSet<EntryKey>,
    /// Whether the conversation called a sub-agent.
    agents: HashMap<Caller, bool>,
    /// Whether the conversation called the sub-agent of an entry, for sub-agents without their own
    /// log.
    agent_entries: HashMap<EntryKey, bool>,
    /// The main agent's last message belongs to the conversation.
    is_active: bool,
}

/// A sub-agent, by its log and its id.
type Caller = (PathBuf, Option<AgentId>);

impl FollowedConversation {
    /// Reads the session and finds the conversation at a message.
    pub(super) fn read(files: SessionFiles, message: &str) -> Result<Self> {
        let session = Session::read(files.clone())?;
        let end = session.find_entry(message)?;
        let mut branch = FollowedConversation {
            files,
            path: HashSet::new(),
            open: HashSet::new(),
            inner: HashSet::new(),
            agents: HashMap::new(),
            agent_entries: HashMap::new(),
            is_active: true,
        };
        let Some((_, scan, tree)) = session.main_log() else {
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
        // Entries that were already appended to its end belong to it.
        let mut children: HashMap<EntryKey, Vec<EntryKey>> = HashMap::new();
        for outline in &scan.outlines {
            if let (Some(parent), Some(key)) = (outline.link.key(), outline.key) {
                children.entry(parent).or_default().push(key);
            }
        }
        let mut grown: Vec<EntryKey> = tips.into_iter().filter_map(key).collect();
        branch.open.extend(branch.inner.iter().copied());
        while let Some(next) = grown.pop() {
            if branch.open.insert(next) {
                grown.extend(children.get(&next).into_iter().flatten());
            }
        }
        branch.note_agents(&session);
        Ok(branch)
    }

    /// Returns whether an entry of the session belongs to the conversation. Entries of one log must
    /// be passed in order.
    pub(super) fn accepts(&mut self, log: &FollowedLog, located: &LocatedEntry) -> bool {
        let entry = &located.entry;
        if log.artifact.is_agent_log() || located.agent.is_some() || entry.sidechain {
            return self.accepts_agent_entry(log, located);
        }
        let parent = entry.parent.as_ref().map(|parent| parent.key());
        let key = entry.id.as_ref().map(|id| id.key());
        let human = matches!(&entry.body, Body::Message(message) if message.human);
        let known = |key: EntryKey| self.path.contains(&key) || self.open.contains(&key);
        let grows = |parent: EntryKey| {
            self.open.contains(&parent) && !(human && self.inner.contains(&parent))
        };
        let ours = key.is_some_and(known) || parent.is_some_and(grows);
        if ours && parent.is_some_and(grows) {
            self.open.extend(key);
        }
        let is_message = matches!(entry.body, Body::Message(_) | Body::Compaction { .. });
        if is_message {
            self.is_active = ours;
        }
        // An entry outside of the tree, such as a title, concerns all conversations.
        ours || (parent.is_none() && !is_message)
    }

    /// Returns whether an entry belongs to a sub-agent that the conversation called.
    fn accepts_agent_entry(&mut self, log: &FollowedLog, located: &LocatedEntry) -> bool {
        let caller = (log.path.clone(), located.agent.clone());
        if log.artifact.is_agent_log() {
            if !self.agents.contains_key(&caller) {
                self.reload_agents(log);
            }
            // The branch that is active now is most likely the caller.
            return *self.agents.entry(caller).or_insert(self.is_active);
        }
        let parent = located.entry.parent.as_ref().map(|parent| parent.key());
        let above = parent.and_then(|parent| self.agent_entries.get(&parent).copied());
        let named = self.agents.get(&caller).filter(|_| located.agent.is_some());
        let ours = above.or(named.copied()).unwrap_or(self.is_active);
        let key = located.entry.id.as_ref().map(|id| id.key());
        self.agent_entries.extend(key.map(|key| (key, ours)));
        ours
    }

    /// Reads the session again to find the caller of a new sub-agent.
    fn reload_agents(&mut self, log: &FollowedLog) {
        let inventory = Inventory::scan(std::slice::from_ref(&log.root));
        let mut sessions = inventory.sessions.into_iter();
        let has = |files: &SessionFiles| files.logs().any(|file| file.path == log.path);
        let files = sessions.find(|files| files.id == self.files.id && has(files));
        let failures = log.root.failures();
        if let Some(session) = files.and_then(|files| failures.ok(Session::read(files))) {
            self.note_agents(&session);
        }
    }

    /// Records which sub-agents the conversation called.
    fn note_agents(&mut self, session: &Session) {
        let mut waiting: Vec<usize> = (0..session.agents.len()).collect();
        let mut logs: HashMap<usize, bool> = HashMap::new();
        // Sub-agents call sub-agents: each round resolves those whose caller is resolved.
        loop {
            let before = waiting.len();
            waiting.retain(|&at| {
                let Some(agent) = session.agents.get(at) else {
                    return false;
                };
                let ours = agent.call.and_then(|call| match call.log {
                    0 => {
                        let (_, scan, _) = session.main_log()?;
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
                if agent.sidechain.is_none() {
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
