//! Mutual exclusion between annals processes.
//!
//! The lock is `flock` on the log's own inode. There is no lock file, so nothing is unlinked and no
//! second holder can lock a new inode of the same name. It is advisory: the guarantees of this
//! library do not depend on foreign writers taking it. It belongs to an open file description, so
//! threads that share one must exclude each other by other means.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::sys;
use crate::{Error, Result};

const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LAST_PAUSE: Duration = Duration::from_millis(5);

/// Opens a lock file, creates it if it does not exist, and locks it. Returns `None` if another
/// process holds the lock.
///
/// Does not follow a symbolic link and does not block on a pipe.
pub fn try_lock_path(path: &Path) -> Result<Option<File>> {
    let mut open = OpenOptions::new();
    open.read(true).write(true).create(true).truncate(false);
    let file = sys::no_follow(sys::owner_only(&mut open))
        .open(path)
        .map_err(|error| open_error(path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path, error)),
    }
}

fn open_error(path: &Path, error: io::Error) -> Error {
    match obstacle(path) {
        None => Error::io("open", path, error),
        Some(found) => Error::LockObstructed {
            path: path.to_owned(),
            found,
        },
    }
}

/// Returns what has the name of a lock file and is not one.
pub(crate) fn obstacle(path: &Path) -> Option<&'static str> {
    let kind = path.symlink_metadata().ok()?.file_type();
    match kind.is_dir() {
        true => Some("a directory"),
        false => kind.is_symlink().then_some("a symbolic link"),
    }
}

/// A held lock; released when dropped.
#[derive(Debug)]
pub(crate) struct Lock<'a> {
    file: &'a File,
}

/// The time that a caller is willing to wait, from when it asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    since: Instant,
    limit: Duration,
}

impl<'a> Lock<'a> {
    /// Takes the lock of `file`, which was opened at `path`.
    ///
    /// Polls, because a blocking `flock` has no timeout without signals. Makes at least one
    /// attempt, even after the deadline.
    pub(crate) fn acquire(file: &'a File, path: &Path, patience: Deadline) -> Result<Self> {
        let mut pauses = Backoff::default();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { file }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => return Err(Error::io("lock", path, source)),
            }
            if !pauses.pause(patience) {
                return Err(patience.busy_error(path));
            }
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // `unlock` fails only on a descriptor that is not open; closing unlocks too.
        let _ = self.file.unlock();
    }
}

/// Increasing pauses between attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { next: FIRST_PAUSE }
    }
}

impl Backoff {
    /// Sleeps until the next attempt; `false` after the deadline.
    pub(crate) fn pause(&mut self, patience: Deadline) -> bool {
        let left = patience.remaining();
        if left.is_zero() {
            return false;
        }
        thread::sleep(self.next.min(left));
        self.next = (self.next * 2).min(LAST_PAUSE);
        true
    }
}

impl Deadline {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            since: Instant::now(),
            limit,
        }
    }

    fn remaining(&self) -> Duration {
        self.limit.saturating_sub(self.since.elapsed())
    }

    pub(crate) fn busy_error(&self, path: &Path) -> Error {
        Error::Busy {
            path: path.to_owned(),
            waited: self.since.elapsed(),
        }
    }
}
