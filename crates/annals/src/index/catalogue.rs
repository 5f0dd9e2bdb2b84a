//! The catalogue: what it knows, and what is read besides.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;

use crate::cost::Ledger;
use crate::error::{Error, Result};
use crate::store::books::{Books, Tab};
use crate::store::{FoundFile, Root, Store};

use super::database::{
    Refusal, SessionPaths, check, checked, connect, forget, is_damage, recall, recent, set_aside,
    write,
};

/// What was read of files before.
#[derive(Debug)]
pub struct Catalogue {
    database: Connection,
    notices: Vec<Notice>,
}

/// Something about the catalogue that a person may want to know; no answer depends on it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The file could not be used as it was, and was moved out of the way.
    SetAside {
        /// Where it is now.
        to: PathBuf,
        /// What was wrong.
        why: String,
    },
    /// What was read could not be kept, so it will be read again.
    NotKept {
        /// What went wrong.
        why: String,
    },
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Notice::SetAside { to, why } => write!(
                f,
                "the catalogue {why}; it was moved to {} and is made anew",
                to.display()
            ),
            Notice::NotKept { why } => {
                write!(
                    f,
                    "the catalogue could not be written ({why}); nothing but time is lost"
                )
            }
        }
    }
}

impl Catalogue {
    /// Opens the catalogue of a state directory; makes it if there is none.
    ///
    /// One that is damaged, or of a newer version, is moved out of the way.
    pub fn open(state: &Path) -> Result<Self> {
        let failed = |path: &Path, error| Error::io("create", path, error);
        let mut builder = fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(state);
        made.map_err(|error| failed(state, error))?;
        let path = state.join("catalogue.db");
        let mut notices = Vec::new();
        let database = match connect(&path) {
            Ok(database) => database,
            Err(Refusal::Unusable(why)) => {
                let to = set_aside(&path).map_err(|error| failed(&path, error))?;
                notices.push(Notice::SetAside { to, why });
                connect(&path).map_err(|refusal| refusal.error(&path))?
            }
            Err(refusal) => return Err(refusal.error(&path)),
        };
        Ok(Catalogue { database, notices })
    }

    /// What a person may want to know, once.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Who spent what. Only what was added to logs since the last time is read.
    pub fn ledger(
        &mut self,
        store: &Store,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> (Ledger, Vec<Error>) {
        self.read_all(store, progress, false).ledger()
    }

    fn read_all<'a>(
        &mut self,
        store: &'a Store,
        progress: &(dyn Fn(u64, u64) + Sync),
        changed_only: bool,
    ) -> Books<'a> {
        let mut books = Books::find(store);
        let mut gone = Vec::new();
        for (number, root) in store.roots().iter().enumerate() {
            if let Err(error) = recall(
                &self.database,
                root,
                number,
                &mut books,
                &mut gone,
                changed_only,
            ) {
                gone.clear();
                self.begin_anew(&error);
                break;
            }
        }
        self.read_rest(&mut books, progress);
        // What was not found is gone, if all could be looked at.
        if books.troubles.is_empty()
            && let Err(error) = forget(&mut self.database, &gone)
        {
            self.not_kept(&error);
        }
        books
    }

    /// Reads what is not known, and keeps it.
    fn read_rest(&mut self, books: &mut Books<'_>, progress: &(dyn Fn(u64, u64) + Sync)) {
        let mut failure = None;
        let database = &mut self.database;
        let keep = |fresh: &[(&Root, &FoundFile, &Tab)]| {
            if let Err(error) = write(database, fresh) {
                failure = Some(error);
            }
        };
        books.read(keep, progress);
        if let Some(error) = failure {
            self.not_kept(&error);
        }
    }

    fn not_kept(&mut self, error: &rusqlite::Error) {
        let why = error.to_string();
        self.notices.push(Notice::NotKept { why });
    }

    /// Who spent what since some time, and all that one session spent, for those who ask often.
    ///
    /// The session's own logs are read on whenever this is asked. All others are looked at no more
    /// than once in a while, so what they spent may be missing for so long.
    pub fn recent(&mut self, store: &Store, asked: &Recent<'_>) -> (Ledger, Vec<Error>) {
        let oldest = asked.now.as_millisecond() - asked.patience.as_millis() as i64;
        let mut roots = store.roots().iter();
        let known = roots.all(|root| {
            let checked = checked(&self.database, root).ok().flatten();
            checked
                .is_some_and(|checked| checked >= oldest && checked <= asked.now.as_millisecond())
        });
        let mut troubles = Vec::new();
        if !known {
            troubles = self.read_all(store, &|_, _| {}, true).troubles;
            for root in store.roots() {
                if let Err(error) = check(&self.database, root, asked.now.as_millisecond()) {
                    self.not_kept(&error);
                }
            }
            // What was not kept cannot be asked for.
            let lost = |notice: &Notice| matches!(notice, Notice::NotKept { .. });
            if self.notices.iter().any(lost) {
                return self.ledger(store, &|_, _| {});
            }
        }
        let since = asked.since.as_millisecond();
        let mut books = Books::none(store);
        for (number, root) in store.roots().iter().enumerate() {
            let session = asked.session.and_then(|log| session_paths(root, log));
            let rows = recent(&self.database, root, since, session.as_ref());
            let rows = match rows {
                Ok(rows) => rows,
                Err(error) => {
                    self.begin_anew(&error);
                    return self.ledger(store, &|_, _| {});
                }
            };
            // The session's own files as they are now, all others as they were.
            let mut own = match &session {
                Some(paths) => Books::own_files(root, &paths.log, &paths.directory),
                None => Vec::new(),
            };
            for (path, tab) in rows {
                let path = root.path.join(path);
                match own.iter().position(|file| file.path == path) {
                    Some(at) => books.add(number, own.swap_remove(at), Some(tab)),
                    None => books.add_known(number, root, path, tab),
                }
            }
            for file in own {
                books.add(number, file, None);
            }
        }
        self.read_rest(&mut books, &|_, _| {});
        books.troubles.append(&mut troubles);
        books.ledger()
    }

    /// Begins with an empty catalogue where this one turns out to be damaged.
    fn begin_anew(&mut self, error: &rusqlite::Error) {
        let why = error.to_string();
        let Some(path) = self.database.path().map(PathBuf::from) else {
            return self.notices.push(Notice::NotKept { why });
        };
        if !is_damage(error) {
            return self.notices.push(Notice::NotKept { why });
        }
        match set_aside(&path).map_err(|error| error.to_string()) {
            Err(why) => self.notices.push(Notice::NotKept { why }),
            Ok(to) => {
                let why = format!("is damaged ({why})");
                self.notices.push(Notice::SetAside { to, why });
                match connect(&path) {
                    Ok(database) => self.database = database,
                    Err(refusal) => {
                        let why = refusal.error(&path).to_string();
                        self.notices.push(Notice::NotKept { why });
                    }
                }
            }
        }
    }
}

/// What is asked for by those who ask often.
#[derive(Clone, Copy, Debug)]
pub struct Recent<'a> {
    /// The time it is.
    pub now: Timestamp,
    /// Responses since then are wanted; older ones may be among the answers.
    pub since: Timestamp,
    /// The log of a session of which all responses are wanted.
    pub session: Option<&'a Path>,
    /// All logs are looked at if this time has passed since they were.
    pub patience: Duration,
}

/// Where a session's logs lie within a root, if its own lies there.
fn session_paths(root: &Root, log: &Path) -> Option<SessionPaths> {
    let log = log.strip_prefix(&root.path).ok()?.to_owned();
    root.layout.classify(&log)?;
    let directory = log.with_extension("");
    Some(SessionPaths { log, directory })
}
