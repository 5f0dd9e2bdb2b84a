//! The lock of agent programs that lock a file per session while they have the session open.
//!
//! Such a program opens `<directory>/<session>.lock`, takes an exclusive `flock` on it, and removes
//! it when it closes the session. It does both while it holds the lock of
//! `<directory>/.coordination.lock`, so no two processes hold locks on two inodes of one name. A
//! program that finds the lock held refuses to open the session.
//!
//! The lock is taken without waiting: its holder may keep it for hours. Without the directory, no
//! program that locks has run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::lock::{Backoff, Deadline, try_lock_path};
use crate::Result;

/// File whose lock is held while a lock is taken or released.
const COORDINATION: &str = ".coordination.lock";

/// The held lock of a session; released when dropped.
#[derive(Debug)]
pub(crate) struct ThreadLock {
    _file: File,
    path: PathBuf,
}

impl ThreadLock {
    /// Takes the lock at `path`; `None` if its directory does not exist.
    pub(crate) fn acquire(path: &Path, patience: Deadline) -> Result<Option<Self>> {
        if !path.parent().is_some_and(Path::is_dir) {
            return Ok(None);
        }
        let _coordination = coordinate(path, patience)?;
        match try_lock_path(path)? {
            Some(file) => Ok(Some(ThreadLock {
                _file: file,
                path: path.to_owned(),
            })),
            None => Err(patience.busy_error(path)),
        }
    }
}

impl Drop for ThreadLock {
    fn drop(&mut self) {
        // A file that stays does no harm: its lock is released.
        if let Ok(_coordination) = coordinate(&self.path, Deadline::new(super::replace::LOCK_WAIT))
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Takes the lock under which locks are taken and released.
fn coordinate(path: &Path, patience: Deadline) -> Result<File> {
    let coordination = path.with_file_name(COORDINATION);
    let mut pauses = Backoff::default();
    loop {
        if let Some(file) = try_lock_path(&coordination)? {
            return Ok(file);
        }
        if !pauses.pause(patience) {
            return Err(patience.busy_error(&coordination));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Error;

    #[test]
    fn lock_excludes_a_second_holder_and_is_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("locks/id.lock");
        let deadline = || Deadline::new(Duration::from_millis(50));
        assert!(ThreadLock::acquire(&path, deadline()).unwrap().is_none());
        fs::create_dir(dir.path().join("locks")).unwrap();
        let held = ThreadLock::acquire(&path, deadline()).unwrap().unwrap();
        let refused = ThreadLock::acquire(&path, deadline()).unwrap_err();
        assert!(matches!(refused, Error::Busy { .. }), "{refused}");
        // Another session is not locked.
        let other = path.with_file_name("other.lock");
        assert!(ThreadLock::acquire(&other, deadline()).unwrap().is_some());
        drop(held);
        assert!(!path.exists());
        assert!(ThreadLock::acquire(&path, deadline()).unwrap().is_some());
    }
}
