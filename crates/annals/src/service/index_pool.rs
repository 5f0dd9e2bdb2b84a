//! The index of a service: the only module of it that knows [`Index`].
//!
//! A connection serves one question at a time, so each question takes one from the pool, or opens
//! one. Without an index, the store answers.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::cost::Ledger;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::search::{Query, SearchResults};
use crate::store::{Inventory, SessionInfo, SessionLabel, Store};

/// Open connections to the index that no question uses.
#[derive(Debug, Default)]
pub(super) struct IndexPool {
    state: Option<PathBuf>,
    idle: Mutex<Vec<Index>>,
}

impl IndexPool {
    pub(super) fn new(state: PathBuf) -> Self {
        IndexPool {
            state: Some(state),
            idle: Mutex::default(),
        }
    }

    /// Calls `work` with an index; with `None` if there is none or it cannot be opened.
    fn with<T>(&self, store: &Store, work: impl FnOnce(Option<&mut Index>) -> T) -> T {
        let Some(state) = &self.state else {
            return work(None);
        };
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let opened = match taken {
            Some(index) => Ok(index),
            None => Index::open(state),
        };
        let mut index = match opened {
            Ok(index) => index,
            Err(error) => {
                store.failures().add_notice(error.to_string());
                return work(None);
            }
        };
        let answer = work(Some(&mut index));
        for warning in index.take_warnings() {
            store.failures().add_notice(warning.to_string());
        }
        idle().push(index);
        answer
    }

    pub(super) fn inventory(&self, store: &Store) -> Inventory {
        self.with(store, |index| match index {
            Some(index) => index.inventory(store),
            None => store.inventory(),
        })
    }

    /// Returns the sessions of an inventory, or only the `newest`.
    pub(super) fn sessions(
        &self,
        store: &Store,
        inventory: &Inventory,
        newest: Option<usize>,
    ) -> Vec<Result<SessionInfo>> {
        self.with(store, |index| match (index, newest) {
            (Some(index), None) => index.sessions(store, inventory, &|_, _| ()),
            (Some(index), Some(limit)) => {
                index.newest_sessions(store, inventory, limit, &|_, _| ())
            }
            (None, None) => store.sessions(inventory).read(&|_, _| ()),
            (None, Some(limit)) => store.sessions(inventory).newest(limit, &|_, _| ()),
        })
    }

    pub(super) fn labels(
        &self,
        store: &Store,
        inventory: &Inventory,
        wanted: &[usize],
    ) -> Vec<Option<SessionLabel>> {
        let labels = self.with(store, |index| match index {
            _ if wanted.is_empty() => Vec::new(),
            Some(index) => index.session_labels(inventory, wanted, &|_, _| ()),
            None => store.sessions(inventory).labels(wanted, &|_, _| ()),
        });
        let failures = store.failures();
        labels.into_iter().map(|label| failures.ok(label)).collect()
    }

    pub(super) fn search(
        &self,
        store: &Store,
        inventory: &Inventory,
        query: &Query,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<SearchResults> {
        self.with(store, |index| match index {
            Some(index) => index.search_until(inventory, query, stop),
            None => store.search_until(inventory, query, stop),
        })
    }

    pub(super) fn ledger(&self, store: &Store) -> (Ledger, Vec<Error>) {
        self.with(store, |index| match index {
            Some(index) => index.ledger(store, &|_, _| ()),
            None => store.costs().ledger(&|_, _| ()),
        })
    }

    /// Indexes the text of logs that changed since. Without an index, does nothing.
    pub(super) fn update_text(
        &self,
        store: &Store,
        inventory: &Inventory,
        stop: &(dyn Fn() -> bool + Sync),
    ) {
        self.with(store, |index| {
            if let Some(index) = index
                && !index.is_read_only()
            {
                index.index_text(inventory, &|_, _| (), stop);
                index.update_sessions(store, inventory, &|_, _| ());
            }
        });
    }
}
