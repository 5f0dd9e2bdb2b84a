//! Properties of sessions for filters; a session is read only if a query needs it.
//!
//! Properties of a whole session (project, kinds of agents, conversations) are read only for
//! sessions that match everything else.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::query::{Expr, Filter};
use crate::error::Result;
use crate::store::{FolderHints, Inventory, Session, SessionFiles, SessionInfo};
use annals_layouts::model::{AgentId, EntryKey};

/// Session properties, by session number in an inventory.
#[derive(Debug)]
pub(super) struct SessionFilter<'a> {
    inventory: &'a Inventory,
    /// Few are read, and they are large.
    sessions: Vec<OnceLock<Option<Box<SessionFacts>>>>,
    /// Conversations that the query names.
    branches: Vec<String>,
}

/// Properties of a session.
#[derive(Debug)]
struct SessionFacts {
    info: SessionInfo,
    kinds: HashMap<AgentId, String>,
    /// Entries of each wanted conversation.
    paths: HashMap<String, HashSet<EntryKey>>,
}

/// Minimum length of an entry id prefix; anything shorter is taken as a word.
const MIN_LEAF_LEN: usize = 4;

impl<'a> SessionFilter<'a> {
    pub(super) fn new(inventory: &'a Inventory, wanted: &Expr) -> Self {
        let mut branches = Vec::new();
        collect_branches(wanted, &mut branches);
        SessionFilter {
            inventory,
            sessions: inventory.sessions.iter().map(|_| OnceLock::new()).collect(),
            branches,
        }
    }

    fn session(&self, number: usize) -> Option<&SessionFacts> {
        let files = self.inventory.sessions.get(number)?;
        let fact = self.sessions.get(number)?;
        let fact = fact.get_or_init(|| {
            let fact = files.root.failures.ok(self.read(files));
            fact.map(Box::new)
        });
        fact.as_deref()
    }

    fn read(&self, files: &SessionFiles) -> Result<SessionFacts> {
        let mut session = Session::read(files.clone())?;
        // Few sessions name no directory; those use that of other sessions in the folder.
        if session.directories().is_empty() {
            session.apply_folder_hints(&FolderHints::new(&self.inventory.sessions));
        }
        let kinds = session.agents.iter();
        let kinds = kinds.filter_map(|agent| Some((agent.id.clone()?, agent.kind.clone()?)));
        let paths = self.branches.iter();
        let paths = paths.map(|wanted| (wanted.clone(), on_path(&session, wanted)));
        Ok(SessionFacts {
            kinds: kinds.collect(),
            paths: paths.collect(),
            info: session.info(None),
        })
    }

    pub(super) fn in_project(&self, number: usize, wanted: &str) -> bool {
        self.session(number)
            .is_some_and(|fact| fact.info.matches_project_or_earlier(wanted))
    }

    pub(super) fn attribute(&self, number: usize, name: &str) -> Option<String> {
        self.session(number)?.info.attributes.get(name).cloned()
    }

    pub(super) fn agent_kind(&self, number: usize, agent: &AgentId) -> Option<String> {
        self.session(number)?.kinds.get(agent).cloned()
    }

    pub(super) fn on_conversation(&self, number: usize, wanted: &str, entry: EntryKey) -> bool {
        let paths = self.session(number).map(|fact| &fact.paths);
        let path = paths.and_then(|paths| paths.get(wanted));
        path.is_some_and(|path| path.contains(&entry))
    }
}

/// Returns the possible readings of a text as a conversation: `SESSION@LEAF`, or a prefix of the
/// leaf's id. Both ids may contain an `@`.
fn names(wanted: &str) -> Vec<(&str, &str)> {
    let splits = wanted.match_indices('@');
    let splits = splits.filter_map(|(at, _)| Some((wanted.get(..at)?, wanted.get(at + 1..)?)));
    let all = std::iter::once(("", wanted)).chain(splits);
    all.filter(|(_, leaf)| leaf.len() >= MIN_LEAF_LEN).collect()
}

fn on_path(session: &Session, wanted: &str) -> HashSet<EntryKey> {
    let mut keys = HashSet::new();
    let mut names = names(wanted);
    names.retain(|(id, _)| session.files.id.as_str().starts_with(id));
    if names.is_empty() {
        return keys;
    }
    for (scan, tree) in session.logs.iter().zip(&session.trees) {
        for conversation in &tree.conversations {
            let end = scan.outlines.get(conversation.leaf);
            let end = end.and_then(|outline| outline.id());
            let is_it = |end: &str| names.iter().any(|(_, leaf)| end.starts_with(leaf));
            if end.is_some_and(|end| is_it(end.as_str())) {
                let path = tree.path(conversation).into_iter();
                keys.extend(path.filter_map(|at| scan.outlines.get(at)?.key));
            }
        }
    }
    keys
}

fn collect_branches(wanted: &Expr, found: &mut Vec<String>) {
    match wanted {
        Expr::All(parts) | Expr::Any(parts) => {
            parts.iter().for_each(|part| collect_branches(part, found));
        }
        Expr::Not(part) => collect_branches(part, found),
        Expr::Filter(Filter::Branch(name)) => found.push(name.clone()),
        Expr::Filter(_) | Expr::Term(_) => {}
    }
}
