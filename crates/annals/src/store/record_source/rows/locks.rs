//! Keeps the locks that SQLite holds on databases.
//!
//! Closing a file releases all POSIX locks of the process on it, whichever handle they were taken
//! through. SQLite does not notice: a connection that was opened later in the process relies on them, and
//! the database is damaged if another program takes it for unused while that connection writes. So a
//! database file that annals opens itself stays open, and a connection without locks is not closed while
//! one with locks is open.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use annals_jsonl::{FileId, open_to_read};
use rusqlite::Connection;

/// The database files that were opened, one for each file.
static FILES: Mutex<Vec<(FileId, File)>> = Mutex::new(Vec::new());

/// Number of open connections with locks.
static LOCKED: Mutex<usize> = Mutex::new(0);

/// Calls `read` with a database file, which stays open. Refuses links, pipes and devices.
pub(super) fn with_open_file<T>(
    path: &Path,
    read: impl FnOnce(&File) -> io::Result<T>,
) -> io::Result<T> {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let metadata = path.symlink_metadata()?;
    let id = FileId::from(&metadata);
    let known = |(known, _): &&(FileId, File)| metadata.is_file() && known.same_file(&id);
    if let Some((_, file)) = files.iter().find(known) {
        return read(file);
    }
    let file = open_to_read(path)?;
    let id = FileId::from(&file.metadata()?);
    let result = read(&file);
    files.push((id, file));
    result
}

/// Counts a connection with locks while it exists. Created before the connection is opened.
#[derive(Debug)]
pub(super) struct Locked(());

impl Locked {
    pub(super) fn new() -> Self {
        *count() += 1;
        Locked(())
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let mut count = count();
        *count = count.saturating_sub(1);
    }
}

/// Closes a connection without locks, or leaves its file open if closing it would release locks of
/// another connection.
pub(super) fn close_unlocked(connection: &mut Connection) {
    let locked = count();
    let Ok(empty) = Connection::open_in_memory() else {
        return;
    };
    let connection = std::mem::replace(connection, empty);
    match *locked {
        0 => drop(connection),
        _ => std::mem::forget(connection),
    }
}

fn count() -> MutexGuard<'static, usize> {
    LOCKED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_file_is_opened_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("one.db");
        std::fs::write(&path, "x").unwrap();
        let len = |file: &File| Ok(file.metadata()?.len());
        let opened = || {
            let files = FILES.lock().unwrap();
            let id = FileId::from(&path.metadata().unwrap());
            files
                .iter()
                .filter(|(known, _)| known.same_file(&id))
                .count()
        };
        for _ in 0..3 {
            assert_eq!(with_open_file(&path, len).unwrap(), 1);
            assert_eq!(opened(), 1);
        }
    }

    /// Closing a handle releases the lock that another connection of the process holds.
    #[test]
    fn connection_without_locks_stays_open_beside_one_with_locks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("one.db");
        let locked = Locked::new();
        let first = Connection::open(&path).unwrap();
        first
            .execute_batch("CREATE TABLE t (a); BEGIN EXCLUSIVE")
            .unwrap();
        let uri = format!("file:{}?mode=ro&immutable=1", path.display());
        let flags =
            rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_URI;
        let mut second = Connection::open_with_flags(uri, flags).unwrap();
        second
            .query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
            .unwrap();
        close_unlocked(&mut second);
        let other = std::process::Command::new("python3")
            .args(["-c", "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('INSERT INTO t VALUES (1)')"])
            .arg(&path)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&other.stderr).into_owned();
        assert!(error.contains("database is locked"), "{error}");
        drop((first, locked));
    }
}
