//! The ledger, from what the catalogue knows and from what was added to logs since.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use crate::cost::Ledger;
use crate::error::Error;
use crate::store::usage_collector::{LogUsage, OwnLog, UsageCollector, are_unchanged};
use crate::store::{LedgerWithSession, Root, RootFile, Store};

use super::Index;
use super::database::{BUSY_TIMEOUT, RootScan, last_scan, save_scan, with_small_cache};
use super::usage::{delete, load, recent, write};

impl Index {
    /// Who spent what. Only what was added to logs since the last time is read.
    pub fn ledger(
        &mut self,
        store: &Store,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> (Ledger, Vec<Error>) {
        let books = self.read_all(store, progress, false);
        self.spare_others(store, &books);
        books.ledger()
    }

    /// Tells those who ask often that all logs were just looked at, if they were not told lately and
    /// nobody has to wait for it.
    fn spare_others(&mut self, store: &Store, books: &UsageCollector<'_>) {
        const LATELY: i64 = 60_000;
        let now = Timestamp::now().as_millisecond();
        for (number, root) in store.roots().iter().enumerate() {
            let last = last_scan(&self.database, root).ok().flatten();
            if last.is_none_or(|last| !(now - LATELY..=now).contains(&last.at)) {
                let _ = self.database.busy_timeout(Duration::ZERO);
                let places = books.recent_dirs(root, number);
                let _ = save_scan(&self.database, root, &RootScan { at: now, places });
                let _ = self.database.busy_timeout(BUSY_TIMEOUT);
            }
        }
    }

    fn read_all<'a>(
        &mut self,
        store: &'a Store,
        progress: &(dyn Fn(u64, u64) + Sync),
        changed_only: bool,
    ) -> UsageCollector<'a> {
        let mut books = self.with_root_cache(|memory| UsageCollector::find_logs(store, memory));
        let mut gone = Vec::new();
        for (number, root) in store.roots().iter().enumerate() {
            // All rows are read once.
            let recalled = with_small_cache(&mut self.database, |database| {
                load(database, root, number, &mut books, &mut gone, changed_only)
            });
            if let Err(error) = recalled {
                gone.clear();
                self.recreate(&error);
                break;
            }
        }
        self.read_rest(&mut books, progress);
        // What was not found is gone, if all could be looked at.
        if books.errors.is_empty()
            && let Err(error) = delete(&mut self.database, &gone)
        {
            self.save_failed(&error);
        }
        books
    }

    /// Reads what is not known, and keeps it.
    fn read_rest(&mut self, books: &mut UsageCollector<'_>, progress: &(dyn Fn(u64, u64) + Sync)) {
        let mut failure = None;
        let database = &mut self.database;
        let keep = |fresh: &[(&Root, &RootFile, &LogUsage)]| {
            if let Err(error) = write(database, fresh) {
                failure = Some(error);
            }
        };
        books.read_unread(keep, progress);
        if let Some(error) = failure {
            self.save_failed(&error);
        }
    }

    /// Who spent what since some time, and all that one session spent, for those who ask often.
    ///
    /// The logs of that session, and all in which something was spent since then, are read as they
    /// are now. Whether there are new ones is told by the directories in which those would appear, so
    /// that not all files need be looked at. That is done once in a while, by this or by
    /// [`ledger`](Self::ledger). Until then two things may be missing: what is added to a log that
    /// lay still since then, unless it is that session's, and logs in directories that held none when
    /// they were last looked into.
    pub fn recent(
        &mut self,
        store: &Store,
        asked: &RecentQuery<'_>,
    ) -> (LedgerWithSession, Vec<Error>) {
        // Nobody who asks often waits for others.
        const SHORT: Duration = Duration::from_millis(20);
        let _ = self.database.busy_timeout(SHORT);
        let now = asked.now.as_millisecond();
        let oldest = now - i64::try_from(asked.max_age.as_millis()).unwrap_or(i64::MAX);
        let mut roots = store.roots().iter();
        let known = roots.all(|root| {
            let last = last_scan(&self.database, root).ok().flatten();
            last.is_some_and(|last| {
                (oldest..=now).contains(&last.at) && are_unchanged(root, &last.places)
            })
        });
        let mut troubles = Vec::new();
        if !known {
            let told = self.warnings.len();
            let mut books = self.read_all(store, &|_, _| {}, true);
            // What was not kept cannot be asked for.
            if self.warnings.len() > told {
                return self.all(store, asked);
            }
            for (number, root) in store.roots().iter().enumerate() {
                let places = books.recent_dirs(root, number);
                if save_scan(&self.database, root, &RootScan { at: now, places }).is_err() {
                    return self.all(store, asked);
                }
            }
            troubles.append(&mut books.errors);
        }
        let since = asked.since.as_millisecond();
        let mut books = UsageCollector::new(store);
        for (number, root) in store.roots().iter().enumerate() {
            let log = asked.session.and_then(|log| OwnLog::new(root, log));
            let session = log.as_ref().and_then(|log| log.artifact.session.as_ref());
            let rows = match recent(&self.database, root, since, session) {
                Ok(rows) => rows,
                Err(error) => {
                    self.recreate(&error);
                    return self.all(store, asked);
                }
            };
            // The session's own files, known or not, and those that are known.
            let mut own = log.map(|log| log.files(root)).unwrap_or_default();
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
        books.errors.append(&mut troubles);
        books.ledger_with_session(asked.session)
    }

    /// All there is, for those who asked for less.
    fn all(&mut self, store: &Store, asked: &RecentQuery<'_>) -> (LedgerWithSession, Vec<Error>) {
        let books = self.read_all(store, &|_, _| {}, false);
        books.ledger_with_session(asked.session)
    }
}

/// What is asked for by those who ask often.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecentQuery<'a> {
    /// The time it is.
    pub now: Timestamp,
    /// Responses since then are wanted; older ones may be among the answers.
    pub since: Timestamp,
    /// The log of a session of which all responses are wanted.
    pub session: Option<&'a Path>,
    /// All logs are looked at again if this time has passed since they were.
    pub max_age: Duration,
}

impl<'a> RecentQuery<'a> {
    /// Responses since some time.
    pub fn new(now: Timestamp, since: Timestamp) -> Self {
        RecentQuery {
            now,
            since,
            session: None,
            max_age: Duration::from_secs(5 * 60),
        }
    }

    /// All responses of the session with that log as well.
    pub fn session(mut self, log: Option<&'a Path>) -> Self {
        self.session = log;
        self
    }
}
