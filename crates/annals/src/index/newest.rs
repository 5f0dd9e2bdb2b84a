//! Returns the most recent sessions without decoding all rows.
//!
//! Selecting them decodes a few fields of every row. Other rows are decoded in full only if they
//! affect a selected session: they summarize its conversations, or repeat its responses (which
//! decides which session is charged).
//!
//! Rows stay encoded until they are shown: decoded rows of 100,000 sessions take three times the
//! memory, and page faults would take a fifth of the time.

use std::collections::HashMap;

use crate::error::Result;
use crate::store::session_summary::{self, RepeatedResponses, SessionSummary};
use crate::store::{Inventory, Session, SessionFiles, SessionInfo, Store};

use super::Index;
use super::listing::{RowCollector, SessionReading};
use super::session_codec::{self, Names, RowSummary};
use super::sessions::StoredRow;

/// Data about a session.
enum Known {
    /// Row, as a byte range of all rows.
    Row(std::ops::Range<usize>, RowSummary),
    /// Session that was read now and has no row.
    SessionSummary(Box<SessionSummary>),
}

/// Encoded rows of all sessions, which are much smaller than decoded ones.
struct Glances {
    rows: Vec<u8>,
    copies: RepeatedResponses,
}

impl Glances {
    fn glance(&mut self, at: usize, row: &[u8]) -> Option<Known> {
        let seen = session_codec::decode_summary(row, |message| self.copies.add(at, message))?;
        let start = self.rows.len();
        self.rows.extend_from_slice(row);
        Some(Known::Row(start..self.rows.len(), seen))
    }
}

impl RowCollector for Glances {
    type Told = Known;

    fn known(&mut self, at: usize, row: &StoredRow<'_>) -> Option<Known> {
        self.glance(at, row.facts)
    }

    fn read(&mut self, at: usize, reading: SessionReading) -> Known {
        let row = reading.row().and_then(|row| self.glance(at, row));
        row.unwrap_or_else(|| {
            let facts = reading.facts;
            let keys = facts.charges.iter().filter_map(|charge| charge.response);
            keys.for_each(|key| self.copies.add(at, key.message));
            Known::SessionSummary(Box::new(facts))
        })
    }
}

impl Index {
    /// Returns the most recent sessions, like [`Sessions::newest`](crate::store::Sessions::newest).
    pub fn newest_sessions(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        limit: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<SessionInfo>> {
        let all = &inventory.sessions;
        let mut glances = Glances {
            rows: Vec::new(),
            copies: RepeatedResponses::new(all.len(), all.len()),
        };
        let gathered = self.gather(store, inventory, progress, &mut glances);
        let Glances { rows, copies } = glances;
        let known = |at: usize| gathered.get(at).and_then(|one| one.as_ref().ok());
        let times = all.iter().enumerate().filter_map(|(at, files)| {
            let updated = session_summary::last_active(files, known(at)?.updated());
            Some((at, updated, &files.id))
        });
        let chosen = session_summary::newest(times, limit);
        let mut shown = vec![false; all.len()];
        for at in &chosen {
            shown.get_mut(*at).into_iter().for_each(|is| *is = true);
        }
        // A session without its own directory may get it from any session in the same folder.
        let mut guessed = chosen.iter().filter_map(|at| known(*at));
        let all_count = guessed.any(Known::guessed);
        let mut failed = Vec::new();
        // Positions of the selected sessions in `sessions`.
        let mut places: HashMap<usize, usize> = HashMap::with_capacity(chosen.len());
        let (mut sessions, mut facts): (Vec<&SessionFiles>, Vec<Result<SessionSummary>>) =
            Default::default();
        let mut names = Names::default();
        for (at, (files, one)) in all.iter().zip(gathered).enumerate() {
            let one = match one {
                Ok(one) => one,
                Err(error) => {
                    failed.push(Err(error));
                    continue;
                }
            };
            let shown = shown.get(at) == Some(&true);
            let wanted =
                all_count || shown || copies.found.get(at) == Some(&true) || one.summaries();
            if !wanted {
                continue;
            }
            let read = match one {
                Known::SessionSummary(facts) => Ok(*facts),
                Known::Row(bytes, _) => {
                    let bytes = rows.get(bytes).unwrap_or_default();
                    let row = session_codec::decode(bytes, &mut names).map(Ok);
                    row.unwrap_or_else(|| {
                        Session::read(files.clone())
                            .map(|session| SessionSummary::from_session(&session))
                    })
                }
            };
            if shown {
                places.insert(at, sessions.len());
            }
            sessions.push(files);
            facts.push(read);
        }
        let rows = session_summary::make_infos(&sessions, facts, &inventory.retention_days());
        let mut rows: Vec<Option<Result<SessionInfo>>> = rows.into_iter().map(Some).collect();
        let chosen = chosen.iter().filter_map(|at| places.get(at));
        let mut found: Vec<Result<SessionInfo>> =
            chosen.filter_map(|at| rows.get_mut(*at)?.take()).collect();
        found.append(&mut failed);
        found
    }
}

impl Known {
    fn updated(&self) -> Option<jiff::Timestamp> {
        match self {
            Known::Row(_, seen) => seen.updated,
            Known::SessionSummary(facts) => facts.updated,
        }
    }

    fn guessed(&self) -> bool {
        match self {
            Known::Row(_, seen) => seen.guessed,
            Known::SessionSummary(facts) => facts.project.guessed,
        }
    }

    fn summaries(&self) -> bool {
        match self {
            Known::Row(_, seen) => seen.summaries,
            Known::SessionSummary(facts) => !facts.summaries.is_empty(),
        }
    }
}
