//! The index as a part of a store: opened when it is first needed.

use std::any::Any;
use std::path::Path;

use crate::cost::{Ledger, PriceFn};
use crate::error::{Error, Result};
use crate::search::{HitsFn, Query, SearchResults, StopFn, search_logs};
use crate::store::store_index::{ConversationRows, ProgressFn, StoreIndex};
use crate::store::{Inventory, LedgerWithSession, RecentQuery, SessionInfo, SessionLabel, Store};

use super::open::{IndexDatabase, Warning};

/// Index of a store's state directory.
#[derive(Debug, Default)]
pub(super) struct AttachedIndex {
    database: Option<IndexDatabase>,
    /// Whether opening it failed.
    is_unusable: bool,
    warnings: Vec<Warning>,
}

impl AttachedIndex {
    /// Returns the attached index of a store.
    pub(super) fn of_store(index: &mut dyn StoreIndex) -> Option<&mut Self> {
        // The store cannot name a type of this module.
        let index: &mut dyn Any = index;
        index.downcast_mut()
    }

    /// Opens the index, and creates it if it is missing.
    pub(super) fn open(&mut self, store: &Store) -> Option<&mut IndexDatabase> {
        if self.database.is_none() && !self.is_unusable {
            match IndexDatabase::open(store.state_dir()?) {
                Ok(database) => self.database = Some(database),
                Err(error) => {
                    self.is_unusable = true;
                    self.warnings.push(Warning::Unusable { error });
                }
            }
        }
        self.database.as_mut()
    }

    /// Opens the index like [`open`](Self::open), but fails if it cannot be opened.
    pub(super) fn open_or_fail(&mut self, state: &Path) -> Result<&mut IndexDatabase> {
        match &mut self.database {
            Some(database) => Ok(database),
            closed => Ok(closed.insert(IndexDatabase::open(state)?)),
        }
    }

    /// Opens the index if it exists.
    pub(super) fn open_existing(&mut self, store: &Store) -> Option<&mut IndexDatabase> {
        if self.database.is_none() && !self.is_unusable {
            self.database = IndexDatabase::open_existing(store.state_dir()?)
                .ok()
                .flatten();
        }
        self.database.as_mut()
    }

    /// Closes the index.
    pub(super) fn close(&mut self) {
        self.warnings = self.take_warnings();
        self.database = None;
    }

    /// Returns true if the last search found text that is not indexed.
    pub(super) fn needs_text_update(&self) -> bool {
        let database = self.database.as_ref();
        database.is_some_and(|it| it.needs_text_update() && !it.is_read_only())
    }

    /// Returns the pending warnings and clears them.
    pub(super) fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        if let Some(database) = &mut self.database {
            warnings.append(&mut database.take_warnings());
        }
        warnings
    }
}

impl StoreIndex for AttachedIndex {
    fn inventory(&mut self, store: &Store) -> Option<Inventory> {
        Some(self.open_existing(store)?.inventory(store))
    }

    fn sessions(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        progress: ProgressFn<'_>,
    ) -> Option<Vec<Result<SessionInfo>>> {
        Some(self.open(store)?.sessions(store, inventory, progress))
    }

    fn newest_sessions(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        limit: usize,
        progress: ProgressFn<'_>,
    ) -> Option<Vec<Result<SessionInfo>>> {
        let index = self.open(store)?;
        Some(index.newest_sessions(store, inventory, limit, progress))
    }

    fn conversations(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        wanted: &[usize],
        price: PriceFn<'_>,
        progress: ProgressFn<'_>,
    ) -> Option<ConversationRows> {
        let index = self.open(store)?;
        Some(index.conversations(store, inventory, wanted, price, progress))
    }

    fn session_labels(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        wanted: &[usize],
        progress: ProgressFn<'_>,
    ) -> Option<Vec<Result<SessionLabel>>> {
        Some(
            self.open(store)?
                .session_labels(inventory, wanted, progress),
        )
    }

    fn ledger(&mut self, store: &Store, progress: ProgressFn<'_>) -> Option<(Ledger, Vec<Error>)> {
        Some(self.open(store)?.ledger(store, progress))
    }

    fn recent(
        &mut self,
        store: &Store,
        query: &RecentQuery<'_>,
    ) -> Option<(LedgerWithSession, Vec<Error>)> {
        Some(self.open(store)?.recent(store, query))
    }
}

impl Store {
    /// Searches with the index, if the store has one.
    pub(crate) fn search_with(
        &self,
        inventory: &Inventory,
        query: &Query,
        stop: StopFn<'_>,
        give: Option<HitsFn<'_>>,
    ) -> Result<SearchResults> {
        if let Some(mut index) = self.lock_index()
            && let Some(index) = AttachedIndex::of_store(index.as_mut())
            && let Some(database) = index.open(self)
        {
            return database.search(inventory, query, stop, give);
        }
        search_logs(inventory, query, stop, give)
    }
}
