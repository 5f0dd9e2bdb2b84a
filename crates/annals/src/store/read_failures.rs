//! Read failures: what could not be read on the way to an answer that was given without it.
//!
//! Every reading layer that goes on after a failed read reports the failure to the collector of its
//! [`Root`](super::Root), which is that of the [`Store`](super::Store). Whoever shows the answer takes
//! the failures from there and shows them too. Failures that are returned as errors are not reported
//! here as well.

use std::collections::HashSet;
use std::fs::{DirEntry, Metadata};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::jsonl::is_absence;

/// Collector of read failures; clones share what they collect.
#[derive(Clone, Debug, Default)]
pub struct ReadFailures(Arc<Mutex<Collected>>);

#[derive(Debug, Default)]
struct Collected {
    /// Failures that were not taken yet.
    waiting: Vec<Error>,
    /// The text of each failure that was ever kept.
    seen: HashSet<String>,
    /// All reports, repeated ones too.
    reports: u64,
}

impl ReadFailures {
    /// No more different failures than this are kept: each of them has a path, and a broken disk may
    /// have millions of those.
    pub const LIMIT: usize = 10_000;

    /// Collects a failure, unless it was reported before or means that the file is gone.
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

    /// Reports the failure of `result`, and returns its value otherwise.
    pub(crate) fn ok<T>(&self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.report(error)).ok()
    }

    /// The same for a call of the system on a path. What is not there has no value and is no failure.
    pub(crate) fn ok_io<T>(&self, path: &Path, result: io::Result<T>) -> Option<T> {
        self.ok(result.map_err(|error| Error::io("read", path, error)))
    }

    /// Reports the failures of listing a directory, and returns the entries that could be read.
    pub(crate) fn read_dir(&self, dir: &Path) -> Vec<DirEntry> {
        let entries = self.ok_io(dir, std::fs::read_dir(dir));
        let entries = entries.into_iter().flatten();
        entries.filter_map(|entry| self.ok_io(dir, entry)).collect()
    }

    /// Reports the failure to find out what lies at a path; `None` if nothing does.
    pub(crate) fn metadata(&self, path: &Path) -> Option<Metadata> {
        self.ok_io(path, path.symlink_metadata())
    }

    /// The same of what links at the path lead to; a link that leads nowhere is no failure.
    pub(crate) fn target_metadata(&self, path: &Path) -> Option<Metadata> {
        match path.metadata() {
            Err(error) if is_broken_path(&error) => None,
            found => self.ok_io(path, found),
        }
    }

    /// Takes the failures that were reported since the last time, in the order of the reports.
    pub fn take(&self) -> Vec<Error> {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut collected.waiting)
    }

    /// How many reports there were. If it is the same before and after something was read, that is
    /// complete.
    pub(crate) fn report_count(&self) -> u64 {
        let collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.reports
    }
}

/// Whether an error says no more than that a file is not there, which is so: other programs may remove
/// it between the moment when it is found and the moment when it is read.
pub(crate) fn is_gone(error: &Error) -> bool {
    match error {
        Error::Io { path, source, .. } if is_absence(source) => {
            let there = path.symlink_metadata();
            there.is_err_and(|error| is_absence(&error))
        }
        _ => false,
    }
}

/// Whether the system says that a path leads to no file, or round in circles.
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
    fn failure_is_taken_once_and_counted_each_time() {
        let failures = ReadFailures::default();
        let shared = failures.clone();
        shared.report(denied("/a"));
        shared.report(denied("/a"));
        shared.report(denied("/b"));
        let taken: Vec<String> = failures.take().iter().map(Error::to_string).collect();
        assert_eq!(taken.len(), 2);
        assert!(taken[0].contains("/a") && taken[1].contains("/b"));
        shared.report(denied("/a"));
        assert!(failures.take().is_empty());
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
        // The system says that it is not there, and it is.
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
