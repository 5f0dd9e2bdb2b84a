//! The catalogue itself: opened, and begun anew where it turns out to be damaged.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::error::{Error, Result};

use super::database::{
    OpenError, connect, connect_to_read, is_damage, is_read_only, is_sound, name, set_aside,
};
use super::location::{self, IndexFile};

/// What was read of files before.
#[derive(Debug)]
pub struct Index {
    pub(super) database: Connection,
    pub(super) warnings: Vec<Warning>,
    /// Nothing can be written to it.
    read_only: bool,
    /// The last search found logs whose words are not all known.
    pub(super) text_outdated: bool,
}

/// Something about the catalogue that a person may want to know; no answer depends on it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Warning {
    /// The file could not be used as it was, and was moved out of the way.
    SetAside {
        /// Where it is now.
        to: PathBuf,
        /// What was wrong.
        why: String,
    },
    /// What was read could not be kept, so it will be read again.
    SaveFailed {
        /// What went wrong.
        why: String,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::SetAside { to, why } => write!(
                f,
                "the catalogue {why}; it was moved to {} and is made anew",
                to.display()
            ),
            Warning::SaveFailed { why } => {
                write!(
                    f,
                    "the catalogue could not be written ({why}); nothing but time is lost"
                )
            }
        }
    }
}

impl Index {
    /// Opens the catalogue of a state directory; makes it if there is none.
    ///
    /// One that is damaged is moved out of the way. Programs of other versions have others. A place
    /// that belongs to another user is refused. One in a place where nothing can be written is read as it
    /// is.
    pub fn open(state: &Path) -> Result<Self> {
        Index::at(location::prepare(state)?)
    }

    /// Opens the catalogue of a state directory, if there is one.
    pub fn open_existing(state: &Path) -> Result<Option<Self>> {
        location::existing(state)?.map(Index::at).transpose()
    }

    /// Where the catalogue of a state directory lies, or would.
    pub fn path(state: &Path) -> PathBuf {
        state.join(name())
    }

    /// The files of all catalogues of a state directory: that of this version, others', and those
    /// that were set aside.
    pub fn files(state: &Path) -> Result<Vec<IndexFile>> {
        location::files(state)
    }

    /// Deletes all of them, and tells which they were. Nothing but time is lost.
    pub fn delete(state: &Path) -> Result<Vec<IndexFile>> {
        location::delete(state)
    }

    fn at(path: PathBuf) -> Result<Self> {
        if let Some(state) = path.parent()
            && location::is_read_only(state)
        {
            return Index::open_read_only(state, &path);
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
        // SQLite reads a file that it may not write.
        let read_only = database.is_readonly("main").unwrap_or(false);
        Ok(Index {
            database,
            warnings: notices,
            read_only,
            text_outdated: false,
        })
    }

    /// Opens a catalogue where nothing can be written.
    fn open_read_only(state: &Path, path: &Path) -> Result<Self> {
        let useless = |_| location::refusal(state, "is read-only");
        Ok(Index {
            database: connect_to_read(path).map_err(useless)?,
            warnings: Vec::new(),
            read_only: true,
            text_outdated: false,
        })
    }

    /// Whether nothing can be written to it: what it knows can be asked for, and it learns nothing.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// What a person may want to know, once.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    pub(super) fn save_failed(&mut self, error: &rusqlite::Error) {
        let why = match is_read_only(error) {
            true => "it is read-only".to_owned(),
            false => error.to_string(),
        };
        let same =
            |notice: &Warning| matches!(notice, Warning::SaveFailed { why: told } if *told == why);
        if !self.warnings.iter().any(same) {
            self.warnings.push(Warning::SaveFailed { why });
        }
    }

    /// Begins with an empty catalogue where this one turns out to be damaged.
    pub(super) fn recreate(&mut self, error: &rusqlite::Error) {
        let Some(path) = self.database.path().map(PathBuf::from) else {
            return self.save_failed(error);
        };
        if self.read_only || !is_damage(error) {
            return self.save_failed(error);
        }
        let why = error.to_string();
        // Another process may have made a new one meanwhile.
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
