//! Attribution of responses to the conversations of their session.

use std::collections::HashMap;
use std::path::Path;

use jiff::Timestamp;
use rayon::prelude::*;

use crate::cost::{Account, BranchName, Charge};
use crate::error::{Error, Result};
use annals_layouts::Subject;
use annals_layouts::model::{Outline, ResponseKey, SessionId};
use annals_layouts::tree::{Segment, Tree};

use super::Costs;
use super::inventory::{Inventory, SessionFiles};
use super::session::Session;

/// Conversations of a session by the responses they are charged for.
///
/// Each response is charged once: to the conversation that would be resumed if the response is on
/// its path, else to its own branch. The responses of a sub-agent are charged to the conversation
/// that called it, if known.
#[derive(Clone, Debug, Default)]
pub struct BranchAttribution {
    names: Vec<BranchName>,
    resumed: Option<usize>,
    responses: HashMap<ResponseKey, usize>,
    /// Responses without an id.
    times: HashMap<Timestamp, usize>,
}

impl BranchAttribution {
    /// Returns the conversation that a response of the session is charged to.
    pub fn branch(&self, charge: &Charge) -> Option<&BranchName> {
        let found = match charge.response {
            Some(key) => self.responses.get(&key),
            None => charge.time.and_then(|time| self.times.get(&time)),
        };
        self.names.get(found.copied().or(self.resumed)?)
    }
}

impl Costs<'_> {
    /// Returns the attribution of each session. A session that is missing or cannot be read gives
    /// an error in its place.
    pub fn branch_attributions(
        &self,
        inventory: &Inventory,
        accounts: &[&Account],
    ) -> Vec<Result<BranchAttribution>> {
        let mut named: HashMap<(&Path, &SessionId), Vec<&SessionFiles>> = HashMap::new();
        for files in &inventory.sessions {
            let name = (files.root.path.as_path(), &files.id);
            named.entry(name).or_default().push(files);
        }
        let read = |account: &&Account| {
            let missing = || Error::NotFound {
                what: Subject::Session,
                id: account.session.to_string(),
            };
            let named = named.get(&(account.root.as_path(), &account.session));
            let named = named.map_or(&[][..], Vec::as_slice);
            let of_layout = |files: &&&SessionFiles| files.root.layout.name() == account.layout;
            // Two folders may have sessions with the same id; one session may have several files.
            let same = named.iter().filter(of_layout);
            let file = |files: &&&SessionFiles| files.main_path() == account.file;
            let files = same.clone().find(file).or_else(|| same.clone().next());
            let files = files.ok_or_else(missing)?;
            Ok(Session::read((*files).clone())?.branch_attribution())
        };
        accounts.par_iter().with_max_len(1).map(read).collect()
    }
}

impl Session {
    /// Attributes each response to a conversation.
    pub fn branch_attribution(&self) -> BranchAttribution {
        let Some((_, main, tree)) = self.main_log() else {
            return BranchAttribution::default();
        };
        let names = self.conversations().into_iter().map(|conversation| {
            let title = conversation.title.map(|title| title.text);
            let mut name = BranchName::new(conversation.id);
            name.label = conversation.branch.or(title).map(Into::into);
            name
        });
        let mut branches = BranchAttribution {
            names: names.collect(),
            resumed: tree.resume,
            ..BranchAttribution::default()
        };
        let mut entry_owners = entry_conversations(tree, main.outlines.len());
        let callers = self.calling_conversations(&mut entry_owners);
        for (at, outline) in main.outlines.iter().enumerate() {
            branches.add(outline, entry_owners.get(at).copied().flatten());
        }
        for (log, scan) in self.logs.iter().enumerate().skip(1) {
            let home = callers.get(&log).copied();
            for outline in &scan.outlines {
                branches.add(outline, home);
            }
        }
        branches
    }

    /// Returns the conversations that called sub-agents with their own logs, by log. For sub-agents
    /// in the main log, sets the conversation in `entry_owners`.
    fn calling_conversations(&self, entry_owners: &mut [Option<usize>]) -> HashMap<usize, usize> {
        let mut callers: HashMap<usize, usize> = HashMap::new();
        let mut waiting: Vec<usize> = (0..self.agents.len()).collect();
        // Agents call agents; each round resolves those whose caller is resolved.
        loop {
            let before = waiting.len();
            waiting.retain(|&at| {
                let Some(agent) = self.agents.get(at) else {
                    return false;
                };
                let home = agent.call.and_then(|call| match call.log {
                    0 => entry_owners.get(call.entry).copied().flatten(),
                    log => callers.get(&log).copied(),
                });
                let Some(home) = home else { return true };
                match agent.sidechain {
                    None => _ = callers.insert(agent.log, home),
                    Some(strand) if agent.log == 0 => {
                        let tree = self.tree();
                        let strand = tree.and_then(|tree| tree.sidechains.get(strand));
                        for &entry in strand.into_iter().flat_map(|strand| &strand.entries) {
                            if let Some(slot) = entry_owners.get_mut(entry) {
                                *slot = Some(home);
                            }
                        }
                    }
                    Some(_) => {}
                }
                false
            });
            if waiting.is_empty() || waiting.len() == before {
                return callers;
            }
        }
    }
}

impl BranchAttribution {
    fn add(&mut self, outline: &Outline, home: Option<usize>) {
        let (Some(reply), Some(home)) = (&outline.reply, home.or(self.resumed)) else {
            return;
        };
        // The lines of one response may be on several branches: the resumed one is charged, else
        // the first.
        let resumed = Some(home) == self.resumed;
        match (reply.response, outline.time) {
            (Some(key), _) if resumed => _ = self.responses.insert(key, home),
            (Some(key), _) => _ = self.responses.entry(key).or_insert(home),
            (None, Some(time)) => _ = self.times.entry(time).or_insert(home),
            (None, None) => {}
        }
    }
}

/// Returns the conversation that each entry of a log is charged to; `None` outside of the tree.
fn entry_conversations(tree: &Tree, entries: usize) -> Vec<Option<usize>> {
    let limbs = tree.segments();
    // Segments follow their parents, so this runs from the leaves up. The branch that would be
    // resumed wins over its siblings, else the newest.
    let mut ends: Vec<Option<usize>> = vec![None; limbs.len()];
    for (at, limb) in limbs.iter().enumerate().rev() {
        let end = ends.get(at).copied().flatten().or(limb.conversation);
        if let Some(slot) = ends.get_mut(at) {
            *slot = end;
        }
        let above = limb.parent.and_then(|parent| ends.get_mut(parent));
        if let Some(above) = above.filter(|above| above.is_none() || end == tree.resume)
            && end.is_some()
        {
            *above = end;
        }
    }
    let mut entry_owners = vec![None; entries];
    for (Segment { entries, .. }, end) in limbs.iter().zip(ends) {
        for &entry in entries {
            if let Some(slot) = entry_owners.get_mut(entry) {
                *slot = end;
            }
        }
    }
    entry_owners
}
