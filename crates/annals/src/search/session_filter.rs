//! Properties of sessions for filters.
//!
//! Properties of a whole session (project, kinds of agents, conversations) are needed only for
//! sessions that match everything else. They come from stored summaries where the caller has them;
//! other sessions are read.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::query::{Expr, Filter};
use crate::error::Result;
use crate::store::session_summary::{SessionSummary, WARM_UP};
use crate::store::{FolderHints, Inventory, Session, SessionFiles, SessionInfo};
use annals_layouts::model::{AgentId, EntryKey, Project};

/// Session properties, by session number in an inventory.
#[derive(Debug)]
pub(super) struct SessionFilter<'a> {
    inventory: &'a Inventory,
    /// Few are read, and they are large.
    sessions: Vec<OnceLock<Option<Box<SessionFacts>>>>,
    /// Conversations that the query names.
    branches: Vec<String>,
    /// Whether the query names kinds of agents.
    asks_agents: bool,
    /// Whether the query asks for anything that a summary contains.
    asks_summaries: bool,
    /// Summaries of sessions that need not be read.
    stored: HashMap<usize, SessionSummary>,
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
        let mut filters = Vec::new();
        collect_filters(wanted, &mut filters);
        let has = |is_it: fn(&Filter) -> bool| filters.iter().any(|filter| is_it(filter));
        let branches = filters.iter().filter_map(|filter| match filter {
            Filter::Branch(name) => Some(name.clone()),
            _ => None,
        });
        SessionFilter {
            inventory,
            sessions: inventory.sessions.iter().map(|_| OnceLock::new()).collect(),
            branches: branches.collect(),
            asks_agents: has(|filter| matches!(filter, Filter::Agent(_))),
            asks_summaries: has(|filter| {
                use Filter::{Agent, Attribute, Project};
                matches!(filter, Project(_) | Agent(_) | Attribute(..))
            }),
            stored: HashMap::new(),
        }
    }

    /// Returns whether summaries of sessions save reading them. The entries of a conversation are in
    /// no summary.
    pub(super) fn wants_summaries(&self) -> bool {
        self.asks_summaries && self.branches.is_empty()
    }

    /// Adds summaries of sessions, which then need not be read.
    pub(super) fn add_summaries(&mut self, stored: HashMap<usize, SessionSummary>) {
        self.stored.extend(stored);
    }

    /// Returns whether the summary of a session is set.
    pub(super) fn is_stored(&self, number: usize) -> bool {
        self.stored.contains_key(&number)
    }

    fn session(&self, number: usize) -> Option<&SessionFacts> {
        let files = self.inventory.sessions.get(number)?;
        let fact = self.sessions.get(number)?;
        let fact = fact.get_or_init(|| {
            let stored = self.stored.get(&number);
            let fact = stored.and_then(|summary| self.stored_facts(files, summary));
            let fact = fact.or_else(|| files.root.failures.ok(self.read(files)));
            fact.map(Box::new)
        });
        fact.as_deref()
    }

    /// Returns the properties in a summary; `None` if it lacks one that the query needs.
    fn stored_facts(&self, files: &SessionFiles, summary: &SessionSummary) -> Option<SessionFacts> {
        let mut agents = summary.agent_kinds.iter();
        // The summary has no other kind of a warm-up.
        if !self.branches.is_empty() || self.asks_agents && agents.any(|(_, kind)| kind == WARM_UP)
        {
            return None;
        }
        let mut summary = summary.clone();
        let kinds = std::mem::take(&mut summary.agent_kinds).into_iter();
        let kinds = kinds.filter_map(|(agent, kind)| Some((AgentId::new(&agent).ok()?, kind)));
        let kinds = kinds.collect();
        if summary.project.guessed
            && let Some(path) = FolderHints::new(&self.inventory.sessions).directory(files)
        {
            let guessed = false;
            summary.project = Project { path, guessed };
        }
        Some(SessionFacts {
            info: summary.into_info(files, None),
            kinds,
            paths: HashMap::new(),
        })
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

fn collect_filters<'a>(wanted: &'a Expr, found: &mut Vec<&'a Filter>) {
    match wanted {
        Expr::All(parts) | Expr::Any(parts) => {
            parts.iter().for_each(|part| collect_filters(part, found));
        }
        Expr::Not(part) => collect_filters(part, found),
        Expr::Filter(filter) => found.push(filter),
        Expr::Term(_) => {}
    }
}
