//! The lock file of agent programs that lock `FILE.lock` before they write `FILE`.
//!
//! Such a program opens the lock file, takes an exclusive `flock` on it, and then either appends to
//! the log or copies the log, adds a record to the copy and renames the copy over the log. After
//! that it releases the lock and removes the lock file.
//!
//! Taking the same lock is not enough. Because the lock file is removed after the lock was
//! released, two processes can hold locks of two inodes of that name at the same time, and a copy
//! that was begun before our write can take the log's place after it. So a write counts only if,
//! once it stands in the log,
//!
//! - the lock that was held is still the one that the name leads to,
//! - the log is still the file that was written to, and
//! - no copy of it is being made: whoever begins one later copies our record too.
//!
//! Otherwise the lock is taken again, and the record is looked for in the file that the name leads
//! to by then. annals never removes a lock file while its log is there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::file_id::is_at_path;
use super::lock::{Backoff, Deadline, try_lock_path};
use super::presence::{is_absence, metadata_if_exists};
use super::replace::{LOCK_WAIT, is_temp};
use super::{FileId, ensure_not_open};
use crate::{Error, Result};

/// The ending that a log's lock file has.
pub(crate) const LOCK_SUFFIX: &str = ".lock";

/// A copy that was written to so recently is taken to be in the making.
const COPY_ACTIVE: Duration = Duration::from_secs(1);

/// A copy that is older than this was left behind by a program that died.
const COPY_STALE: Duration = Duration::from_secs(600);

/// The held lock of a log's lock file; released when dropped.
#[derive(Debug)]
pub(super) struct LockFile {
    file: File,
    path: PathBuf,
}

impl LockFile {
    /// Takes the lock of the lock file of the log at `log`, and makes that file if need be.
    pub(super) fn acquire(log: &Path, patience: Deadline) -> Result<Self> {
        let path = lock_path(log);
        let mut pauses = Backoff::default();
        loop {
            let Some(file) = try_lock_path(&path)? else {
                if !pauses.pause(patience) {
                    return Err(patience.busy_error(log));
                }
                continue;
            };
            let lock = LockFile {
                file,
                path: path.clone(),
            };
            // The process that held it before may have removed it meanwhile.
            if lock.is_current()? {
                return Ok(lock);
            }
        }
    }

    /// Whether the name still leads to the file whose lock is held.
    pub(super) fn is_current(&self) -> Result<bool> {
        let held = self.file.metadata();
        is_at_path(
            &self.path,
            &held.map_err(|e| Error::io("stat", &self.path, e))?,
        )
    }
}

/// The lock file of a log.
pub(crate) fn lock_path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(LOCK_SUFFIX);
    name.into()
}

/// Waits until no copy of the log at `log` is being made.
pub(super) fn wait_for_copies(log: &Path, patience: Deadline) -> Result<()> {
    let mut pauses = Backoff::default();
    while let Some(copy) = find_copy(log)? {
        if !pauses.pause(patience) {
            return Err(Error::refused(format!(
                "another program is replacing {} by {}; try again when it is done",
                log.display(),
                copy.display()
            )));
        }
    }
    Ok(())
}

/// Whether a program may be making a copy of the log, to rename it over the log.
pub(super) fn is_being_copied(log: &Path) -> Result<bool> {
    Ok(find_copy(log)?.is_some())
}

/// The copy of a log that a program may be making, to rename it over the log.
///
/// A copy lies in the log's directory under a hidden or temporary name, or one that begins with the
/// log's own. It is complete when it is renamed, so one that was neither written to for a while nor
/// is open in any process was left behind.
fn find_copy(log: &Path) -> Result<Option<PathBuf>> {
    let dir = super::replace::parent(log);
    let failed = |error| Error::io("read", dir, error);
    let own = log.file_name().unwrap_or_default().to_string_lossy();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !may_be_copy(&name, &own) || is_temp(Path::new(&*name)) {
            continue;
        }
        // What is gone by now was renamed, and is no longer being made.
        let Some(metadata) = metadata_if_exists(&entry.path())? else {
            continue;
        };
        let age = metadata.modified().ok();
        let age = age.and_then(|time| SystemTime::now().duration_since(time).ok());
        let age = age.unwrap_or(COPY_ACTIVE / 2);
        let open = || ensure_not_open([(&*entry.path(), &FileId::from(&metadata))]).is_err();
        if metadata.is_file() && (age < COPY_ACTIVE || (age < COPY_STALE && open())) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

fn may_be_copy(name: &str, log: &str) -> bool {
    let beside = name.strip_prefix(log);
    let beside = beside.is_some_and(|rest| !rest.is_empty() && rest != LOCK_SUFFIX);
    beside || name.starts_with('.') || name.contains("tmp")
}

/// Runs `work` under the lock of the lock file of a log that need not be there.
pub(crate) fn hold<T>(log: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let _lock = LockFile::acquire(log, Deadline::new(LOCK_WAIT))?;
    work()
}

/// Removes the lock file of a log that is gone. The caller holds its lock, or knows that nobody
/// writes to the log any more.
pub(crate) fn remove(log: &Path) -> io::Result<()> {
    match log.symlink_metadata() {
        Ok(_) => return Ok(()),
        Err(error) if !is_absence(&error) => return Err(error),
        Err(_) => {}
    }
    match fs::remove_file(lock_path(log)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_names_are_recognised() {
        for (name, copy) in [
            (".tmp_x1y2.jsonl", true),
            ("2026-11-16.jsonl.repaired", true),
            ("2026-11-16.jsonl.tmp", true),
            ("tmpab12", true),
            ("2026-11-16.jsonl", false),
            ("2026-11-16.jsonl.lock", false),
            ("2026-11-15.jsonl", false),
            ("s1.notes.annals", false),
        ] {
            assert_eq!(may_be_copy(name, "2026-11-16.jsonl"), copy, "{name}");
        }
    }

    #[test]
    fn replaced_lock_file_is_not_current() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.jsonl");
        let patience = || Deadline::new(Duration::from_millis(10));
        let lock = LockFile::acquire(&log, patience()).unwrap();
        assert!(lock.is_current().unwrap());
        assert!(LockFile::acquire(&log, patience()).is_err());
        fs::remove_file(lock_path(&log)).unwrap();
        assert!(!lock.is_current().unwrap());
        let other = LockFile::acquire(&log, patience()).unwrap();
        assert!(other.is_current().unwrap() && !lock.is_current().unwrap());
    }

    #[test]
    fn log_is_being_copied_while_copy_is_recent() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.jsonl");
        fs::write(&log, "").unwrap();
        assert!(!is_being_copied(&log).unwrap());
        let copy = dir.path().join(".tmp_1.jsonl");
        let file = File::create(&copy).unwrap();
        assert!(is_being_copied(&log).unwrap());
        let before = SystemTime::now() - COPY_ACTIVE * 2;
        file.set_modified(before).unwrap();
        assert!(!is_being_copied(&log).unwrap());
    }
}
