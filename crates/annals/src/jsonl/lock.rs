//! Mutual exclusion between annals processes.
//!
//! The lock is `flock` on the log's own inode: there is no lock file, so nothing is ever unlinked
//! and no second holder can get in through a new inode of the same name. It is advisory: what
//! this library promises does not depend on foreign writers taking it. It belongs to an open file
//! description, so threads that share one must exclude each other by other means.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result};

const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LAST_PAUSE: Duration = Duration::from_millis(5);

/// A held lock; released when dropped.
#[derive(Debug)]
pub(super) struct Lock<'a> {
    file: &'a File,
}

/// How long a caller is willing to wait, counted from the moment it asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    since: Instant,
    limit: Duration,
}

impl<'a> Lock<'a> {
    /// Takes the lock of `file`, which was opened at `path`.
    ///
    /// Polls, because a blocking `flock` cannot be given a limit without signals. At least one
    /// attempt is made however little patience is left.
    pub(super) fn acquire(file: &'a File, path: &Path, patience: Patience) -> Result<Self> {
        let mut pause = FIRST_PAUSE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { file }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => return Err(Error::io("lock", path, source)),
            }
            let left = patience.left();
            if left.is_zero() {
                return Err(patience.exhausted(path));
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // An unlock can only fail on a descriptor that is not open; closing it unlocks as well.
        let _ = self.file.unlock();
    }
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            since: Instant::now(),
            limit,
        }
    }

    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.since.elapsed())
    }

    fn exhausted(&self, path: &Path) -> Error {
        Error::Busy {
            path: path.to_owned(),
            waited: self.since.elapsed(),
        }
    }
}
