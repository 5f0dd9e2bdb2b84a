//! Builds the ledger from the index and from the bytes appended to logs since.

use std::time::Duration;

use jiff::Timestamp;

use crate::cost::Ledger;
use crate::error::Error;
use crate::store::usage_collector::{LogUsage, OwnLog, UsageCollector, are_unchanged};
use crate::store::{LedgerWithSession, RecentQuery, Root, RootFile, Store};

use super::IndexDatabase;
use super::database::{BUSY_TIMEOUT, RootScan, last_scan, save_scan, with_small_cache};
use super::files::{delete_gone, now};
use super::usage::{load, recent, write};

impl IndexDatabase {
    /// Returns the ledger of a store. Reads only what was appended to logs since the last call.
    pub(super) fn ledger(
        &mut self,
        store: &Store,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> (Ledger, Vec<Error>) {
        let collector = self.read_all(store, progress, false);
        self.record_scan(store, &collector);
        collector.ledger()
    }

    /// Records that all logs were just scanned, which saves [`recent`](Self::recent) a scan.
    /// Skipped if recorded in the last minute or if the database is locked.
    fn record_scan(&mut self, store: &Store, collector: &UsageCollector<'_>) {
        const LATELY: i64 = 60_000;
        let now = Timestamp::now().as_millisecond();
        for (number, root) in store.roots().iter().enumerate() {
            let last = last_scan(&self.database, root).ok().flatten();
            if last.is_none_or(|last| !(now - LATELY..=now).contains(&last.at)) {
                let _ = self.database.busy_timeout(Duration::ZERO);
                let places = collector.recent_dirs(root, number);
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
        let listed = now();
        let mut collector =
            self.with_contents(|contents| UsageCollector::find_logs(store, contents));
        let mut gone = Vec::new();
        for (number, root) in store.roots().iter().enumerate() {
            // Each row is read once, so a large page cache does not help.
            let loaded = with_small_cache(&mut self.database, |database| {
                load(database, root, number, &mut collector, changed_only)
            });
            match loaded {
                Ok(rows) => gone.push((root, rows)),
                Err(error) => {
                    gone.clear();
                    self.recreate(&error);
                    break;
                }
            }
        }
        self.read_rest(&mut collector, listed, progress);
        // A log that was not found no longer exists, if the whole store could be listed.
        for (root, gone) in gone.iter().filter(|_| collector.errors.is_empty()) {
            if let Err(error) = delete_gone(&mut self.database, root, gone) {
                self.save_failed(&error);
            }
        }
        collector
    }

    /// Reads the logs that are not in the index, and saves them.
    fn read_rest(
        &mut self,
        collector: &mut UsageCollector<'_>,
        listed: i64,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) {
        let mut failure = None;
        let database = &mut self.database;
        let keep = |fresh: &[(&Root, &RootFile, &LogUsage)]| {
            if let Err(error) = write(database, fresh, listed) {
                failure = Some(error);
            }
        };
        collector.read_unread(keep, progress);
        if let Some(error) = failure {
            self.save_failed(&error);
        }
    }

    /// Returns the charges since some time and all charges of one session; fast enough for frequent
    /// polling.
    ///
    /// Reads the current state of the logs of that session and of all logs with charges since then.
    /// New logs are detected by the mtimes of the directories in which they would appear, so not
    /// every file is checked. A full check runs once per [`max_age`](RecentQuery::max_age), by this
    /// method or by [`ledger`](Self::ledger). Until then two things may be missing: appends to a
    /// log of another session without charges since then, and logs in directories that had none at
    /// the last check.
    pub(super) fn recent(
        &mut self,
        store: &Store,
        asked: &RecentQuery<'_>,
    ) -> (LedgerWithSession, Vec<Error>) {
        // A polling caller must not wait for other processes.
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
            let warnings_before = self.warnings.len();
            let mut collector = self.read_all(store, &|_, _| {}, true);
            // Data that was not saved cannot be queried below.
            if self.warnings.len() > warnings_before {
                return self.complete(store, asked);
            }
            for (number, root) in store.roots().iter().enumerate() {
                let places = collector.recent_dirs(root, number);
                if save_scan(&self.database, root, &RootScan { at: now, places }).is_err() {
                    return self.complete(store, asked);
                }
            }
            troubles.append(&mut collector.errors);
        }
        let since = asked.since.as_millisecond();
        let listed = super::files::now();
        let mut collector = UsageCollector::new(store);
        for (number, root) in store.roots().iter().enumerate() {
            let log = asked.session.and_then(|log| OwnLog::new(root, log));
            let session = log.as_ref().and_then(|log| log.artifact.session.as_ref());
            let rows = match recent(&self.database, root, since, session) {
                Ok(rows) => rows,
                Err(error) => {
                    self.recreate(&error);
                    return self.complete(store, asked);
                }
            };
            // The session's own files, indexed or not, and the recent indexed files.
            let mut own = log.map(|log| log.files(root)).unwrap_or_default();
            for (path, usage) in rows {
                let path = root.path.join(path);
                match own.iter().position(|file| file.path == path) {
                    Some(at) => collector.add(number, own.swap_remove(at), Some(usage)),
                    None => collector.add_known(number, root, path, usage),
                }
            }
            for file in own {
                collector.add(number, file, None);
            }
        }
        self.read_rest(&mut collector, listed, &|_, _| {});
        collector.errors.append(&mut troubles);
        collector.ledger_with_session(asked.session)
    }

    /// Returns the complete ledger, as a fallback.
    fn complete(
        &mut self,
        store: &Store,
        asked: &RecentQuery<'_>,
    ) -> (LedgerWithSession, Vec<Error>) {
        let collector = self.read_all(store, &|_, _| {}, false);
        collector.ledger_with_session(asked.session)
    }
}
