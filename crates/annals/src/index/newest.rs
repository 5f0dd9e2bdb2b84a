//! Returns the most recent sessions without decoding all rows.
//!
//! Selecting them decodes the heads of all rows. Others are decoded in full only if they affect a
//! selected session: they summarize its conversations, or repeat its responses (which decides which
//! session is charged).

use std::collections::HashMap;

use crate::error::Result;
use crate::store::session_summary::{self, RepeatedResponses, SessionSummary};
use crate::store::{Inventory, Session, SessionFiles, SessionInfo, Store};

use super::IndexDatabase;
use super::charge_codec::Names;
use super::listing::{RowCollector, SessionReading};
use super::session_rows::{SessionRow, load_one};

/// Properties of sessions that decide which ones are listed.
struct Heads {
    copies: RepeatedResponses,
}

/// Properties of a session.
struct SessionHead {
    updated: Option<jiff::Timestamp>,
    is_project_guessed: bool,
    has_summaries: bool,
    /// Its summary, if it was read now.
    read: Option<Box<SessionSummary>>,
}

impl RowCollector for Heads {
    type Item = SessionHead;

    fn known(&mut self, at: usize, row: &SessionRow<'_>) -> Option<SessionHead> {
        row.messages(|message| self.copies.add(at, message))?;
        Some(SessionHead {
            updated: row.updated(),
            is_project_guessed: row.is_project_guessed(),
            has_summaries: row.has_summaries(),
            read: None,
        })
    }

    fn read(&mut self, at: usize, reading: SessionReading) -> SessionHead {
        let facts = reading.facts;
        let keys = facts.charges.iter().filter_map(|charge| charge.response);
        keys.for_each(|key| self.copies.add(at, key.message));
        SessionHead {
            updated: facts.updated,
            is_project_guessed: facts.project.guessed,
            has_summaries: !facts.summaries.is_empty(),
            read: Some(Box::new(facts)),
        }
    }
}

impl IndexDatabase {
    /// Returns the most recent sessions, like [`Sessions::newest`](crate::store::Sessions::newest).
    pub(super) fn newest_sessions(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        limit: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<SessionInfo>> {
        let all = &inventory.sessions;
        let mut heads = Heads {
            copies: RepeatedResponses::new(all.len(), all.len()),
        };
        let found = self.gather(store, inventory, progress, &mut heads);
        let copies = heads.copies.found;
        let head = |at: usize| found.get(at).and_then(|one| one.as_ref().ok());
        let times = all.iter().enumerate().filter_map(|(at, files)| {
            let updated = session_summary::last_active(files, head(at)?.updated);
            Some((at, updated, &files.id))
        });
        let chosen = session_summary::newest(times, limit);
        let mut is_chosen = vec![false; all.len()];
        for at in &chosen {
            is_chosen.get_mut(*at).into_iter().for_each(|is| *is = true);
        }
        // A session without its own directory may get it from any session in the same folder.
        let mut guessed = chosen.iter().filter_map(|at| head(*at));
        let needs_all = guessed.any(|head| head.is_project_guessed);
        let mut failed = Vec::new();
        // Positions of the selected sessions in `sessions`.
        let mut places: HashMap<usize, usize> = HashMap::with_capacity(chosen.len());
        let (mut sessions, mut facts): (Vec<&SessionFiles>, Vec<Result<SessionSummary>>) =
            Default::default();
        let mut names = Names::default();
        for (at, (files, head)) in all.iter().zip(found).enumerate() {
            let head = match head {
                Ok(head) => head,
                Err(error) => {
                    failed.push(Err(error));
                    continue;
                }
            };
            let is_chosen = is_chosen.get(at) == Some(&true);
            let is_copied = copies.get(at) == Some(&true);
            if !(needs_all || is_chosen || is_copied || head.has_summaries) {
                continue;
            }
            if is_chosen {
                places.insert(at, sessions.len());
            }
            sessions.push(files);
            facts.push(match head.read {
                Some(facts) => Ok(*facts),
                None => self.summary(files, &mut names),
            });
        }
        let rows = session_summary::make_infos(&sessions, facts, &inventory.retention_days());
        let mut rows: Vec<Option<Result<SessionInfo>>> = rows.into_iter().map(Some).collect();
        let chosen = chosen.iter().filter_map(|at| places.get(at));
        let mut found: Vec<Result<SessionInfo>> =
            chosen.filter_map(|at| rows.get_mut(*at)?.take()).collect();
        found.append(&mut failed);
        found
    }

    /// Returns the summary of a session from its row, or reads the session.
    fn summary(&self, files: &SessionFiles, names: &mut Names) -> Result<SessionSummary> {
        let stored = load_one(&self.database, files, |row| row.summary(names));
        if let Ok(Some(summary)) = stored {
            return Ok(summary);
        }
        let session = Session::read(files.clone())?;
        Ok(SessionSummary::from_session(&session))
    }
}
