//! Titles and kinds of sub-agents of some sessions, for lists of other things.

use std::collections::BTreeMap;

use crate::error::Result;
use annals_layouts::tree::one_line;

use super::inventory::SessionFiles;
use super::project_hints::FolderHints;
use super::session_summary::SessionSummary;
use super::{Sessions, read_each};

/// Title of a session, and the kinds of its sub-agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionLabel {
    /// Its title.
    pub title: Option<String>,
    /// Kinds of its sub-agents by id; `warm-up` for [warm-ups](super::Agent::warm_up).
    pub(crate) agent_kinds: BTreeMap<String, String>,
}

impl SessionLabel {
    /// Creates the label of a session. If its own log has no title, another log of its folder may.
    pub(crate) fn new(
        files: &SessionFiles,
        facts: SessionSummary,
        neighbours: &FolderHints<'_>,
    ) -> Self {
        let keys = &facts.untitled_keys;
        let found = neighbours.summaries(files, keys.iter().copied());
        // The summary nearest to the leaf wins.
        let mut nearest = keys.iter().rev().filter_map(|key| found.get(key));
        let summary = nearest.find(|text| !text.trim().is_empty());
        let summary = summary.map(|text| one_line(text));
        SessionLabel {
            title: summary.or(facts.title.map(|title| title.text)),
            agent_kinds: facts.agent_kinds,
        }
    }
}

impl Sessions<'_> {
    /// Returns the labels of sessions, given by inventory index, each once.
    pub fn labels(
        &self,
        wanted: &[usize],
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<SessionLabel>> {
        let stored = self.ask_index(|index, store| {
            index.session_labels(store, self.inventory, wanted, progress)
        });
        if let Some(labels) = stored {
            return labels;
        }
        let wanted = wanted.iter();
        let wanted: Vec<&SessionFiles> = wanted
            .filter_map(|&at| self.inventory.sessions.get(at))
            .collect();
        let facts = read_each(&wanted, progress, &|session| {
            SessionSummary::from_session(&session)
        });
        let neighbours = FolderHints::new(&self.inventory.sessions);
        let labels = wanted.into_iter().zip(facts);
        labels
            .map(|(files, facts)| Ok(SessionLabel::new(files, facts?, &neighbours)))
            .collect()
    }
}
