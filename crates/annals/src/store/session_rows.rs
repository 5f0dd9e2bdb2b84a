//! Rows of lists: sessions with their summaries, and the conversations of sessions.
//!
//! [`Store::sessions`] returns the handle, [`Sessions`]; label.rs has its titles.

use crate::cost::{PriceFn, Tally};
use crate::error::Result;

use super::conversations::Conversations;
use super::info::{ConversationInfo, SessionInfo};
use super::inventory::{Inventory, SessionFiles};
use super::project_hints::FolderHints;
use super::session_summary::{self, SessionSummary};
use super::store_index::StoreIndex;
use super::{Store, read_each};

/// The sessions of an inventory, to be read.
#[derive(Clone, Copy, Debug)]
pub struct Sessions<'a> {
    store: &'a Store,
    pub(super) inventory: &'a Inventory,
}

impl Store {
    /// Returns the sessions of an inventory, to be read.
    pub fn sessions<'a>(&'a self, inventory: &'a Inventory) -> Sessions<'a> {
        Sessions {
            store: self,
            inventory,
        }
    }
}

impl Sessions<'_> {
    /// Answers from the index, if the store has one.
    pub(super) fn ask_index<T>(
        &self,
        answer: impl FnOnce(&mut dyn StoreIndex, &Store) -> Option<T>,
    ) -> Option<T> {
        let mut index = self.store.lock_index()?;
        answer(index.as_mut(), self.store)
    }

    /// Reads and summarizes every session. Calls `progress` with the bytes done and the total.
    ///
    /// A session that cannot be read is an error in its place among the rows.
    pub fn read(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> Vec<Result<SessionInfo>> {
        let stored = self.ask_index(|index, store| index.sessions(store, self.inventory, progress));
        if let Some(rows) = stored {
            return rows;
        }
        let all: Vec<&SessionFiles> = self.inventory.sessions.iter().collect();
        let facts = read_each(&all, progress, &|session| {
            SessionSummary::from_session(&session)
        });
        session_summary::make_infos(&all, facts, &self.inventory.retention_days())
    }

    /// Returns the most recent sessions, newest first, followed by the errors of unreadable ones.
    pub fn newest(
        &self,
        limit: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<SessionInfo>> {
        let stored = self.ask_index(|index, store| {
            index.newest_sessions(store, self.inventory, limit, progress)
        });
        if let Some(rows) = stored {
            return rows;
        }
        let (mut rows, mut failed) = (Vec::new(), Vec::new());
        for row in self.read(progress) {
            match row {
                Ok(row) => rows.push(Some(row)),
                Err(error) => failed.push(Err(error)),
            }
        }
        let known = rows.iter().flatten().enumerate();
        let known = known.map(|(at, row)| (at, row.updated, &row.id));
        let places = session_summary::newest(known, limit);
        let found = places.into_iter().filter_map(|at| rows.get_mut(at)?.take());
        found.map(Ok).chain(failed).collect()
    }

    /// Returns the conversations of sessions, given by inventory index, with their costs.
    pub fn conversations(
        &self,
        wanted: &[usize],
        price: PriceFn<'_>,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<Vec<(ConversationInfo, Tally)>>> {
        let stored = self.ask_index(|index, store| {
            index.conversations(store, self.inventory, wanted, price, progress)
        });
        if let Some(rows) = stored {
            return rows;
        }
        let wanted = wanted.iter();
        let wanted: Vec<&SessionFiles> = wanted
            .filter_map(|&at| self.inventory.sessions.get(at))
            .collect();
        let conversations = read_each(&wanted, progress, &|session| {
            Conversations::from_session(&session)
        });
        let hints = FolderHints::new(&self.inventory.sessions);
        let rows = wanted
            .into_iter()
            .zip(conversations)
            .map(|(files, conversations)| {
                let conversations = conversations?;
                let sums = conversations.totals(price);
                let open = conversations
                    .list
                    .iter()
                    .any(|conversation| conversation.untitled);
                let summaries = open.then(|| hints.summaries(files, conversations.keys()));
                let rows = conversations.into_infos(files, &summaries.unwrap_or_default(), &sums);
                Ok(rows.into_iter().zip(sums).collect())
            });
        rows.collect()
    }
}
