//! Read failures that did not prevent an answer.
//!
//! A reader that continues after a failed read reports the failure to the collector of its
//! [`Root`](crate::root::Root), which the [`Store`](crate::store::Store) shares. The caller that shows the
//! answer takes the failures from the collector and shows them too. Failures that are returned as
//! errors are not reported here.

use std::collections::HashSet;
use std::fs::{DirEntry, Metadata};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::is_absence;

/// Collector of read failures, shared by its clones.
#[derive(Clone, Debug, Default)]
pub struct ReadFailures(Arc<Mutex<Collected>>);

#[derive(Debug, Default)]
struct Collected {
    /// Failures not taken yet.
    waiting: Vec<Error>,
    /// Texts of the failures that wait.
    seen: HashSet<String>,
    /// Number of reports, including repeated ones.
    reports: u64,
    /// Notices not taken yet.
    notices: Vec<String>,
}

impl ReadFailures {
    /// Maximum number of distinct failures that wait: a broken disk may produce one for each of millions of
    /// paths.
    pub(crate) const LIMIT: usize = 10_000;

    /// Collects a failure, unless it is a duplicate or the file no longer exists.
    pub fn report(&self, error: Error) {
        if is_gone(&error) {
            return;
        }
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.reports += 1;
        if collected.seen.len() < Self::LIMIT && collected.seen.insert(error.to_string()) {
            collected.waiting.push(error);
        }
    }

    /// Collects a notice for the person: nothing failed, but a file is not as it was.
    pub(crate) fn add_notice(&self, text: String) {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !collected.notices.contains(&text) {
            collected.notices.push(text);
        }
    }

    /// Returns the notices that were not taken yet.
    pub fn take_notices(&self) -> Vec<String> {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut collected.notices)
    }

    /// Returns the value of `result`, or reports its failure.
    pub(crate) fn ok<T>(&self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.report(error)).ok()
    }

    /// Like `ok`, for a system call on a path. Returns `None` without a report if the path does not
    /// exist.
    pub(crate) fn ok_io<T>(&self, path: &Path, result: io::Result<T>) -> Option<T> {
        self.ok(result.map_err(|error| Error::io("read", path, error)))
    }

    /// Returns the readable entries of a directory, and reports failures.
    pub(crate) fn read_dir(&self, dir: &Path) -> Vec<DirEntry> {
        let entries = self.ok_io(dir, std::fs::read_dir(dir));
        let entries = entries.into_iter().flatten();
        entries.filter_map(|entry| self.ok_io(dir, entry)).collect()
    }

    /// Returns the metadata of a path, without following links, and reports a failure; `None` if
    /// the path does not exist.
    pub(crate) fn metadata(&self, path: &Path) -> Option<Metadata> {
        match path.symlink_metadata() {
            // It did not exist at that time, even if another program has created it since.
            Err(error) if is_absence(&error) => None,
            found => self.ok_io(path, found),
        }
    }

    /// Like `metadata`, but follows links. A broken link is not a failure.
    pub(crate) fn target_metadata(&self, path: &Path) -> Option<Metadata> {
        match path.metadata() {
            Err(error) if is_broken_path(&error) => None,
            found => self.ok_io(path, found),
        }
    }

    /// Passes the failures that were not taken yet to `visit`, in report order.
    pub fn each(&self, visit: impl FnMut(&Error)) {
        let collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.waiting.iter().for_each(visit);
    }

    /// Takes the failures collected since the last call, in report order. A failure that recurs later is
    /// collected again, because a later answer is incomplete too.
    pub fn take(&self) -> Vec<Error> {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.seen.clear();
        std::mem::take(&mut collected.waiting)
    }

    /// Number of reports so far. If a read does not change it, its result is complete.
    pub(crate) fn report_count(&self) -> u64 {
        let collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.reports
    }
}

/// Returns whether an error means that a file is missing, and it is. Other programs may remove a
/// file between listing and reading it.
pub(crate) fn is_gone(error: &Error) -> bool {
    match error {
        Error::File(FileError::Io { path, source, .. }) if is_absence(source) => {
            let there = path.symlink_metadata();
            there.is_err_and(|error| is_absence(&error))
        }
        _ => false,
    }
}

/// Returns whether an error means that a path leads to no file or into a link loop.
fn is_broken_path(error: &io::Error) -> bool {
    is_absence(error) || Errno::from_io_error(error) == Some(Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(path: &str) -> Error {
        Error::io("read", path, io::ErrorKind::PermissionDenied.into())
    }

    #[test]
    fn failure_is_taken_once_for_each_answer_and_counted_each_time() {
        let failures = ReadFailures::default();
        let shared = failures.clone();
        shared.report(denied("/a"));
        shared.report(denied("/a"));
        shared.report(denied("/b"));
        let mut seen = 0;
        failures.each(|_| seen += 1);
        assert_eq!(seen, 2);
        let taken: Vec<String> = failures.take().iter().map(Error::to_string).collect();
        assert_eq!(taken.len(), 2);
        assert!(taken[0].contains("/a") && taken[1].contains("/b"));
        assert!(failures.take().is_empty());
        shared.report(denied("/a"));
        assert_eq!(failures.take().len(), 1);
        assert_eq!(failures.report_count(), 4);
    }

    #[test]
    fn missing_file_is_not_reported() {
        let dir = tempfile::tempdir().unwrap();
        let failures = ReadFailures::default();
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        failures.report(Error::io("read", dir.path().join("gone"), missing()));
        assert_eq!((failures.report_count(), failures.take().len()), (0, 0));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(
            failures.target_metadata(&link).is_none()
                && failures.target_metadata(dir.path()).is_some()
        );
        assert_eq!(failures.report_count(), 0);
        // The error is "not found", but the path exists.
        failures.report(Error::io("read", dir.path(), missing()));
        assert_eq!(failures.take().len(), 1);
    }

    #[test]
    fn collector_stops_at_limit_and_still_counts() {
        let failures = ReadFailures::default();
        for number in 0..ReadFailures::LIMIT + 10 {
            failures.report(denied(&format!("/{number}")));
        }
        assert_eq!(failures.take().len(), ReadFailures::LIMIT);
        assert_eq!(failures.report_count() as usize, ReadFailures::LIMIT + 10);
    }
}
