//! Sessions as the index has them, without looking at their files.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::store::Root;
use annals_layouts::model::SessionId;

use super::IndexDatabase;
use super::session_rows::load_unchecked;

/// Session as it was when it was last indexed. It may have changed since, or no longer exist.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSession {
    /// Its id.
    pub id: SessionId,
    /// Its title.
    pub title: Option<String>,
    /// Path of its project.
    pub project: String,
    /// Models that answered.
    pub models: BTreeSet<String>,
    /// Time of its newest entry.
    pub updated: Option<Timestamp>,
}

impl IndexDatabase {
    /// Lists the indexed sessions of some roots, most recent first.
    pub(super) fn stored_sessions(&self, roots: &[Root]) -> Vec<StoredSession> {
        let mut sessions = Vec::new();
        for root in roots {
            // A failure leaves out sessions.
            let _ = load_unchecked(&self.database, root, |row| {
                let id = std::str::from_utf8(row.id).ok();
                let id = id.and_then(|id| SessionId::new(id).ok());
                if let (Some(id), Some(facts)) = (id, row.summary_without_charges()) {
                    sessions.push(StoredSession {
                        id,
                        title: facts.title.map(|title| title.text),
                        project: facts.project.path,
                        models: facts.models,
                        updated: facts.updated,
                    });
                }
            });
        }
        crate::sort::by(&mut sessions, |one, other| {
            let key = |session: &StoredSession| Reverse(session.updated);
            key(one)
                .cmp(&key(other))
                .then_with(|| one.id.cmp(&other.id))
        });
        sessions
    }
}
