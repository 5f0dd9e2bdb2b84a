//! The index as a thing of its own: its files, its status, and updates.

use std::path::{Path, PathBuf};

use crate::error::{Error, IndexProblem, Result};
use crate::store::store_index::ProgressFn;
use crate::store::{Inventory, Root, Store};

use super::attached::AttachedIndex;
use super::database;
use super::location::{self, IndexFile};
use super::open::{IndexDatabase, Warning};
use super::status::IndexStatus;
use super::stored::StoredSession;

/// The index in the state directory of a store.
#[derive(Clone, Copy, Debug)]
pub struct Index<'a> {
    store: &'a Store,
    state: &'a Path,
    /// Whether updates use a connection of their own.
    is_separate: bool,
}

impl Store {
    /// Answers lists, costs and searches from an index in the state directory. It is opened when it
    /// is first needed, and created if it is missing. If it cannot be used, answers are the same,
    /// only slower, and [`Index::take_warnings`] returns the reason.
    #[must_use]
    pub fn with_index(self) -> Self {
        self.attach_index(AttachedIndex::default())
    }

    /// Returns the index in the state directory, whether or not the store answers from it.
    pub fn index(&self) -> Result<Index<'_>> {
        match self.state_dir() {
            Some(state) => Ok(Index {
                store: self,
                state,
                is_separate: false,
            }),
            None => Err(Error::refused("no state directory for the index")),
        }
    }
}

impl Index<'_> {
    /// Updates with a connection of their own, so that the store answers meanwhile: it has one connection, and
    /// its calls wait for each other.
    #[must_use]
    pub fn with_own_connection(self) -> Self {
        Index {
            is_separate: true,
            ..self
        }
    }

    /// Returns the path of the database, whether or not it exists.
    pub fn path(&self) -> PathBuf {
        self.state.join(database::name())
    }

    /// Returns true if there is a database of this version. Refuses a state directory that annals must
    /// not use.
    pub fn exists(&self) -> Result<bool> {
        Ok(location::existing(self.state)?.is_some())
    }

    /// Lists all index files of the state directory: those of this version, of other versions, and
    /// files set aside as unusable.
    pub fn files(&self) -> Result<Vec<IndexFile>> {
        location::files(self.state)
    }

    /// Deletes all index files and returns them. Only time is lost.
    pub fn delete(&self) -> Result<Vec<IndexFile>> {
        self.attached(|index| index.close());
        location::delete(self.state)
    }

    /// Compares the index with the store; `None` if there is no index. Reads no logs.
    pub fn status(&self, inventory: &Inventory) -> Result<Option<IndexStatus>> {
        let status = |database: &IndexDatabase| database.status(self.store, inventory);
        let attached = self.attached(|index| index.open_existing(self.store).map(|it| status(it)));
        let status = match attached.flatten() {
            Some(found) => Some(found),
            None => IndexDatabase::open_existing(self.state)?.map(|it| status(&it)),
        };
        status.transpose()
    }

    /// Updates all parts of the index. `progress` receives the part, the bytes done and the total.
    /// An interrupted update resumes where it stopped.
    ///
    /// Returns read errors. Fails if not everything could be saved.
    pub fn update(
        &self,
        inventory: &Inventory,
        progress: &(dyn Fn(&'static str, u64, u64) + Sync),
    ) -> Result<Vec<Error>> {
        self.with_database(|database| {
            if database.is_read_only() {
                return Err(self.error(IndexProblem::ReadOnly, "is read-only".to_owned()));
            }
            let errors = database.update(self.store, inventory, progress);
            match database.save_failure() {
                Some(why) => {
                    let why = format!("cannot be written: {why}");
                    // The error replaces the warning.
                    database.take_warnings();
                    Err(self.error(IndexProblem::Unopenable, why))
                }
                None => Ok(errors),
            }
        })?
    }

    /// Indexes the text appended to logs since the last call.
    ///
    /// Text is saved in portions, so an interrupted update resumes where it stopped. `progress`
    /// receives the bytes done and the total; reading ends when `stop` returns true.
    ///
    /// Does nothing if the index is read-only. Returns read errors.
    pub fn update_text(
        &self,
        inventory: &Inventory,
        progress: ProgressFn<'_>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Error>> {
        self.with_database(|database| match database.is_read_only() {
            true => Vec::new(),
            false => database.index_text(inventory, progress, stop),
        })
    }

    /// Saves the rows of sessions that are new or have changed. Does nothing if the index is read-only.
    /// Returns read errors.
    pub fn update_sessions(
        &self,
        inventory: &Inventory,
        progress: ProgressFn<'_>,
    ) -> Result<Vec<Error>> {
        self.with_database(|database| match database.is_read_only() {
            true => Vec::new(),
            false => database.update_sessions(self.store, inventory, progress),
        })
    }

    /// Returns true if the last search of the store found text that
    /// [`update_text`](Self::update_text) would add.
    pub fn needs_text_update(&self) -> bool {
        self.attached(|index| index.needs_text_update()) == Some(true)
    }

    /// Returns the problems of the store with its index, and clears them.
    pub fn take_warnings(&self) -> Vec<Warning> {
        self.attached(AttachedIndex::take_warnings)
            .unwrap_or_default()
    }

    /// Lists the indexed sessions of some roots, most recent first.
    ///
    /// For suggestions, which must be fast and need not be complete: no root is read, and rows that
    /// cannot be decoded are omitted.
    pub fn stored_sessions(&self, roots: &[Root]) -> Vec<StoredSession> {
        let database = IndexDatabase::open_existing(self.state).ok().flatten();
        database.map_or_else(Vec::new, |it| it.stored_sessions(roots))
    }

    /// Calls `f` with the index that the store answers from, if there is one.
    fn attached<T>(&self, f: impl FnOnce(&mut AttachedIndex) -> T) -> Option<T> {
        let mut index = self.store.lock_index()?;
        AttachedIndex::of_store(index.as_mut()).map(f)
    }

    /// Calls `f` with the open index, or with one that is opened for this call.
    fn with_database<T>(&self, f: impl FnOnce(&mut IndexDatabase) -> T) -> Result<T> {
        if !self.is_separate
            && let Some(mut index) = self.store.lock_index()
            && let Some(index) = AttachedIndex::of_store(index.as_mut())
        {
            return Ok(f(index.open_or_fail(self.state)?));
        }
        Ok(f(&mut IndexDatabase::open(self.state)?))
    }

    fn error(&self, problem: IndexProblem, why: String) -> Error {
        Error::Index {
            path: self.path(),
            problem,
            why,
        }
    }
}
