//! The lock file of agent programs that lock `FILE.lock` before they write `FILE`.
//!
//! Such a program opens the lock file, takes an exclusive `flock` on it, and then either appends to
//! the log or copies the log, adds a record to the copy and renames the copy over the log. Then it
//! releases the lock and removes the lock file.
//!
//! Taking the same lock is not enough. The lock file is removed after the lock is released, so two
//! processes can hold locks on two inodes of that name, and a copy begun before our write can
//! replace the log after it. A write therefore counts only if, once it is in the log,
//!
//! - the path of the lock file still names the inode whose lock is held,
//! - the path of the log still names the file that was written to, and
//! - no copy of it is being made: a copy begun later includes our record.
//!
//! Otherwise the lock is taken again, and the record is searched for in the file that the path
//! then names. annals never removes a lock file while its log exists.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::file_id::is_at_path;
use super::lock::{Backoff, Deadline, try_lock_path};
use super::presence::{is_absence, metadata_if_exists};
use super::replace::{LOCK_WAIT, is_temp};
use super::{FileId, ensure_not_open};
use crate::removal_name::RemovalName;
use crate::{Error, Result};

/// File name suffix of a log's lock file.
pub const LOCK_SUFFIX: &str = ".lock";

/// A copy written to within this time is assumed to be in progress.
const COPY_ACTIVE: Duration = Duration::from_secs(1);

/// A copy older than this was left by a program that died.
const COPY_STALE: Duration = Duration::from_secs(600);

/// The held lock of a log's lock file; released when dropped.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
    path: PathBuf,
}

impl LockFile {
    /// Takes the lock of the lock file of `log`; creates the file if needed.
    pub(crate) fn acquire(log: &Path, patience: Deadline) -> Result<Self> {
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
            // The previous holder may have removed the file meanwhile.
            if lock.is_current()? {
                return Ok(lock);
            }
        }
    }

    /// Whether the path still names the file whose lock is held.
    pub(crate) fn is_current(&self) -> Result<bool> {
        let held = self.file.metadata();
        is_at_path(
            &self.path,
            &held.map_err(|e| Error::io("stat", &self.path, e))?,
        )
    }
}

/// The path of a log's lock file.
pub fn lock_path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(LOCK_SUFFIX);
    name.into()
}

/// Returns what has the name of a log's lock file and is not one: "a directory" or "a symbolic link".
/// No program can write to the log until it is removed.
pub fn obstacle(log: &Path) -> Option<&'static str> {
    super::lock::obstacle(&lock_path(log))
}

/// Waits until no copy of `log` is being made.
pub(crate) fn wait_for_copies(log: &Path, patience: Deadline) -> Result<()> {
    let mut pauses = Backoff::default();
    while let Some(copy) = find_copy(log)? {
        if !pauses.pause(patience) {
            return Err(Error::BeingReplaced {
                path: log.to_owned(),
                copy,
            });
        }
    }
    Ok(())
}

/// Whether a program may be making a copy of the log to rename over it.
pub(crate) fn is_being_copied(log: &Path) -> Result<bool> {
    Ok(find_copy(log)?.is_some())
}

/// Finds a copy of the log that a program may be making to rename over it.
///
/// A copy is in the log's directory under a hidden or temporary name, or one that begins with the
/// log's name. It is complete when it is renamed, so a copy that was not written to recently and is
/// not open in any process was left behind.
fn find_copy(log: &Path) -> Result<Option<PathBuf>> {
    let dir = super::replace::parent(log);
    let failed = |error| Error::io("read", dir, error);
    let own = log.file_name().unwrap_or_default().to_string_lossy();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_ours =
            is_temp(Path::new(&*name)) || RemovalName::parse(OsStr::new(&*name)).is_some();
        if !may_be_copy(&name, &own) || is_ours {
            continue;
        }
        // A file that no longer exists was renamed and is complete.
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

/// Runs `work` under the lock of the lock file of a log, which need not exist.
pub fn hold<T, E: From<Error>>(log: &Path, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let _lock = LockFile::acquire(log, Deadline::new(LOCK_WAIT))?;
    work()
}

/// Removes the lock file of a log that no longer exists. The caller must hold its lock or ensure
/// that no program writes to the log.
pub fn remove(log: &Path) -> io::Result<()> {
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
    fn lock_file_of_another_kind_is_refused_with_a_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.jsonl");
        let refused = || {
            let lock = LockFile::acquire(&log, Deadline::new(Duration::ZERO));
            lock.unwrap_err().to_string()
        };
        fs::create_dir(lock_path(&log)).unwrap();
        let error = refused();
        assert!(error.contains("a.jsonl.lock is a directory"), "{error}");
        assert!(error.contains("move it away"), "{error}");
        fs::remove_dir(lock_path(&log)).unwrap();
        std::os::unix::fs::symlink("nowhere", lock_path(&log)).unwrap();
        assert!(refused().contains("is a symbolic link"));
        assert!(!dir.path().join("nowhere").exists());
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
