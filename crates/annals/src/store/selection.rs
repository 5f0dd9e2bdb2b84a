//! Selects entries of a session: a conversation, the path to a message, a sub-agent.

use std::path::Path;

use crate::error::{Error, Result};
use annals_layouts::Subject;
use annals_layouts::tree::Tree;

use super::agent::Agent;
use super::session::Session;

/// Entries of one log, and the conversation that they are, if they are one.
pub type SelectedEntries = (Vec<usize>, Option<usize>);

impl Session {
    /// Finds a sub-agent by a prefix of its id, or by its number (`#1`).
    pub fn find_agent(&self, wanted: &str) -> Result<&Agent> {
        let fits = |agent: &&Agent| {
            let id = agent.id.as_ref();
            id.is_some_and(|id| id.as_str().starts_with(wanted))
        };
        let found: Vec<&Agent> = self.agents.iter().filter(fits).collect();
        let by_number = || {
            let number: usize = wanted.strip_prefix('#')?.parse().ok()?;
            self.agents.get(number.checked_sub(1)?)
        };
        match (found.as_slice(), by_number()) {
            ([only], _) => Ok(only),
            (_, Some(agent)) => Ok(agent),
            ([], _) if self.agents.is_empty() => Err(Error::refused(format!(
                "session {} has no sub-agents",
                self.files.id
            ))),
            ([], _) => Err(Error::NotFound {
                what: Subject::SubAgent,
                id: wanted.to_owned(),
            }),
            (many, _) => Err(Error::Ambiguous {
                what: Subject::SubAgent,
                id: wanted.to_owned(),
                candidates: many
                    .iter()
                    .filter_map(|agent| Some(agent.id.as_ref()?.to_string()))
                    .collect(),
            }),
        }
    }

    /// Finds the sub-agent whose log is at `path`.
    pub fn agent_at_path(&self, path: &Path) -> Result<&Agent> {
        let is_it = |agent: &&Agent| {
            let log = self.files.logs().nth(agent.log);
            agent.sidechain.is_none() && log.is_some_and(|log| log.path == path)
        };
        self.agents
            .iter()
            .find(is_it)
            .ok_or_else(|| Error::NotFound {
                what: Subject::SubAgent,
                id: path.display().to_string(),
            })
    }

    /// Returns the entries of a sub-agent, in reading order, as indexes in its log.
    pub fn agent_entries(&self, agent: &Agent) -> Vec<usize> {
        let Some((_, _, tree)) = self.log(agent.log) else {
            return Vec::new();
        };
        match agent.sidechain {
            Some(strand) => tree
                .sidechains
                .get(strand)
                .map(|strand| strand.entries.clone())
                .unwrap_or_default(),
            None => resumed(tree).0,
        }
    }

    /// Returns the entries of the conversation that would be resumed, or else of the last one.
    pub fn resumed_entries(&self) -> SelectedEntries {
        self.tree().map(resumed).unwrap_or_default()
    }

    /// Returns the entries of a log up to one, or with `on` also later ones, and their conversation
    /// if it ends there.
    pub fn entries_to(&self, log: usize, entry: usize, on: bool) -> Option<SelectedEntries> {
        let (_, _, tree) = self.log(log)?;
        if let Some(strand) = tree.sidechain_of(entry) {
            let mut entries = tree.sidechains.get(strand)?.entries.clone();
            if !on {
                entries.retain(|at| *at <= entry);
            }
            return Some((entries, None));
        }
        let path = |at: usize| Some((tree.path(tree.conversations.get(at)?), Some(at)));
        let ends = tree.conversations.iter();
        let mut ends =
            ends.map(|conversation| [conversation.leaf, conversation.tip].contains(&entry));
        if let Some(at) = ends.position(|ends| ends) {
            return path(at);
        }
        let before = tree.path_to(entry)?;
        if !on {
            return Some((before, None));
        }
        // The conversation that would be resumed, else the latest that contains the entry.
        let newest = (0..tree.conversations.len()).rev();
        let mut through = tree.resume.into_iter().chain(newest).filter_map(path);
        let through = through.find(|(path, _)| path.contains(&entry));
        Some(through.map_or((before, None), |(path, _)| (path, None)))
    }
}

/// Returns the conversation of a log that would be resumed, or else the last one.
fn resumed(tree: &Tree) -> SelectedEntries {
    let last = || tree.conversations.len().checked_sub(1);
    let at = tree.resume.or_else(last);
    let conversation = at.and_then(|at| tree.conversations.get(at));
    let entries = conversation.map(|conversation| tree.path(conversation));
    (entries.unwrap_or_default(), at)
}
