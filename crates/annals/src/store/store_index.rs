//! The index of a store, as the store uses it.
//!
//! The module `index` implements [`StoreIndex`] and attaches it, so the store does not depend on
//! how data is stored. Every answer is the same without an index.

use std::any::Any;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::cost::{Ledger, PriceFn, Tally};
use crate::error::{Error, Result};

use super::info::{ConversationInfo, SessionInfo};
use super::{Inventory, LedgerWithSession, RecentQuery, SessionLabel, Store};

/// Receives the bytes done and the total.
pub(crate) type ProgressFn<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// Conversations of each session, with their costs.
pub(crate) type ConversationRows = Vec<Result<Vec<(ConversationInfo, Tally)>>>;

/// Answers from data that was stored before. Each is `None` if there is no usable index.
pub(crate) trait StoreIndex: Any + Debug + Send {
    /// Lists all files, if there is an index already.
    fn inventory(&mut self, store: &Store) -> Option<Inventory>;

    fn sessions(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        progress: ProgressFn<'_>,
    ) -> Option<Vec<Result<SessionInfo>>>;

    fn newest_sessions(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        limit: usize,
        progress: ProgressFn<'_>,
    ) -> Option<Vec<Result<SessionInfo>>>;

    fn conversations(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        wanted: &[usize],
        price: PriceFn<'_>,
        progress: ProgressFn<'_>,
    ) -> Option<ConversationRows>;

    fn session_labels(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        wanted: &[usize],
        progress: ProgressFn<'_>,
    ) -> Option<Vec<Result<SessionLabel>>>;

    fn ledger(&mut self, store: &Store, progress: ProgressFn<'_>) -> Option<(Ledger, Vec<Error>)>;

    fn recent(
        &mut self,
        store: &Store,
        query: &RecentQuery<'_>,
    ) -> Option<(LedgerWithSession, Vec<Error>)>;
}

/// An index that several threads may use, one at a time.
pub(super) type SharedIndex = Mutex<Box<dyn StoreIndex>>;

impl Store {
    /// Attaches an index.
    pub(crate) fn attach_index(mut self, index: impl StoreIndex) -> Self {
        self.index = Some(Mutex::new(Box::new(index)));
        self
    }

    /// Returns true if an index is attached, usable or not.
    pub(crate) fn has_index(&self) -> bool {
        self.index.is_some()
    }

    /// Returns the index, once no other thread uses it.
    pub(crate) fn lock_index(&self) -> Option<MutexGuard<'_, Box<dyn StoreIndex>>> {
        let index = self.index.as_ref()?;
        Some(index.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the index, unless it is in use.
    pub(super) fn try_lock_index(&self) -> Option<MutexGuard<'_, Box<dyn StoreIndex>>> {
        match self.index.as_ref()?.try_lock() {
            Ok(index) => Some(index),
            Err(TryLockError::Poisoned(index)) => Some(index.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
