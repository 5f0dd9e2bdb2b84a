//! Opens the index, and recreates it if it is damaged.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::error::{Error, Result};

use super::database::{
    OpenError, connect, connect_to_read, is_damage, is_read_only, is_sound, set_aside,
};
use super::location;

/// Open index database.
#[derive(Debug)]
pub(crate) struct IndexDatabase {
    pub(super) database: Connection,
    pub(super) warnings: Vec<Warning>,
    /// True if the database cannot be written.
    read_only: bool,
    /// True if the last search found logs whose text is not fully indexed.
    pub(super) text_outdated: bool,
}

/// Problem with the index that a user may want to see; no answer depends on it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Warning {
    /// The database was unusable and was renamed.
    SetAside {
        /// New path of the file.
        to: PathBuf,
        /// Reason.
        why: String,
    },
    /// The index could not be opened.
    Unusable {
        /// Reason.
        error: Error,
    },
    /// Data could not be saved, so it will be read again.
    SaveFailed {
        /// Reason.
        why: String,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::SetAside { to, why } => write!(
                f,
                "the index {why}; it was moved to {} and will be rebuilt",
                to.display()
            ),
            Warning::Unusable { error } => write!(f, "{error}; reading all logs instead"),
            Warning::SaveFailed { why } => {
                write!(
                    f,
                    "the index could not be saved ({why}); results are complete, only slower"
                )
            }
        }
    }
}

impl IndexDatabase {
    /// Opens the index of a state directory; creates it if missing.
    ///
    /// A damaged database is renamed. Each format version has its own file. A directory that
    /// belongs to another user is refused. An index in a read-only directory is opened read-only.
    pub(super) fn open(state: &Path) -> Result<Self> {
        IndexDatabase::at(location::prepare(state)?)
    }

    /// Opens the index of a state directory, if it exists.
    pub(super) fn open_existing(state: &Path) -> Result<Option<Self>> {
        location::existing(state)?
            .map(IndexDatabase::at)
            .transpose()
    }

    fn at(path: PathBuf) -> Result<Self> {
        if let Some(state) = path.parent()
            && location::is_read_only(state)
        {
            return IndexDatabase::open_read_only(state, &path);
        }
        let failed = |path: &Path, error| Error::io("set aside", path, error);
        let mut notices = Vec::new();
        let database = match connect(&path) {
            Ok(database) => database,
            Err(OpenError::Unusable(why)) => {
                let to = set_aside(&path).map_err(|error| failed(&path, error))?;
                notices.push(Warning::SetAside { to, why });
                connect(&path).map_err(|refusal| refusal.error(&path))?
            }
            Err(refusal) => return Err(refusal.error(&path)),
        };
        // SQLite falls back to read-only if the file is not writable.
        let read_only = database.is_readonly("main").unwrap_or(false);
        Ok(IndexDatabase {
            database,
            warnings: notices,
            read_only,
            text_outdated: false,
        })
    }

    /// Opens an index in a read-only directory.
    fn open_read_only(state: &Path, path: &Path) -> Result<Self> {
        Ok(IndexDatabase {
            database: connect_to_read(path).map_err(|_| location::read_only(state))?,
            warnings: Vec::new(),
            read_only: true,
            text_outdated: false,
        })
    }

    /// Returns true if the index can be queried but not updated.
    pub(super) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns the pending warnings and clears them.
    pub(super) fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns the reason why something could not be saved.
    pub(super) fn save_failure(&self) -> Option<&str> {
        self.warnings.iter().find_map(|warning| match warning {
            Warning::SaveFailed { why } => Some(why.as_str()),
            _ => None,
        })
    }

    pub(super) fn save_failed(&mut self, error: &rusqlite::Error) {
        let why = match is_read_only(error) {
            true => "it is read-only".to_owned(),
            false => error.to_string(),
        };
        let same = |notice: &Warning| matches!(notice, Warning::SaveFailed { why: reported } if *reported == why);
        if !self.warnings.iter().any(same) {
            self.warnings.push(Warning::SaveFailed { why });
        }
    }

    /// Replaces the index with an empty one if `error` shows that it is damaged.
    pub(super) fn recreate(&mut self, error: &rusqlite::Error) {
        let Some(path) = self.database.path().map(PathBuf::from) else {
            return self.save_failed(error);
        };
        if self.read_only || !is_damage(error) {
            return self.save_failed(error);
        }
        let why = error.to_string();
        // Another process may have recreated it already.
        if let Ok(database) = connect(&path)
            && is_sound(&database)
        {
            self.database = database;
            return;
        }
        match set_aside(&path).map_err(|error| error.to_string()) {
            Err(why) => self.warnings.push(Warning::SaveFailed { why }),
            Ok(to) => {
                let why = format!("is damaged ({why})");
                self.warnings.push(Warning::SetAside { to, why });
                match connect(&path) {
                    Ok(database) => self.database = database,
                    Err(refusal) => {
                        let why = refusal.error(&path).to_string();
                        self.warnings.push(Warning::SaveFailed { why });
                    }
                }
            }
        }
    }
}
