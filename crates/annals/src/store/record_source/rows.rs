//! Records of an SQLite database that belongs to another program.
//!
//! The database is opened read-only and is never written. No file is created next to it, and its
//! program is never locked out:
//!
//! | journal mode | `-wal` | `-shm` | how it is opened |
//! |---|---|---|---|
//! | rollback | | | read-only, with shared locks |
//! | WAL | missing or empty | missing | as immutable: SQLite would create both files otherwise |
//! | WAL | present | present | read-only: the WAL is read, as its program does |
//! | WAL | not empty | missing | read-only without locks, index of the WAL in memory |
//!
//! Where no lock is held, the files are compared before and after reading. A database may be damaged
//! or made by an enemy: only ordinary tables are queried, the schema is not trusted, and the number
//! of operations is limited by the size of the files.

use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use annals_jsonl::{FileId, ReadAt, open_to_read};
use annals_layouts::model::RowFormat;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::copy_at;

#[cfg(test)]
mod tests;

/// Records up to this total are kept in memory, and the database is closed.
const MAX_IN_MEMORY: usize = 64 << 20;

/// Maximum length of a value or record.
const MAX_VALUE: i32 = 256 << 20;

/// Maximum number of steps of the database engine, without those that its size allows.
const MIN_STEPS: u64 = 20_000_000;

/// Number of steps per byte of the database.
const STEPS_PER_BYTE: u64 = 16;

/// Number of steps between two checks of the limit.
const CHECKED_STEPS: i32 = 10_000;

/// Waiting time for the lock of a program that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of attempts to read a database that changes meanwhile.
const ATTEMPTS: usize = 5;

/// The records of a database, in a state that does not change.
#[derive(Debug)]
pub(crate) struct RowSource {
    path: PathBuf,
    /// Identity before the database was opened.
    id: FileId,
    /// End offset of each record.
    ends: Vec<u64>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// All records.
    Memory(Vec<u8>),
    /// Records that are queried again.
    Database(Mutex<Database>),
}

#[derive(Debug)]
struct Database {
    connection: Connection,
    format: &'static RowFormat,
    /// The query of each record and its argument.
    keys: Vec<(u8, i64)>,
    /// Whether other programs are not kept from changing pages that are still to be read.
    unlocked: bool,
    /// The record that was read last.
    last: Option<(usize, Vec<u8>)>,
}

impl RowSource {
    /// Opens a database and determines the offsets of its records.
    pub(super) fn open(path: &Path, format: &'static RowFormat) -> io::Result<Self> {
        RowSource::open_with(path, format, MAX_IN_MEMORY)
    }

    /// Like [`open`](Self::open), with the total up to which records are kept in memory.
    fn open_with(
        path: &Path,
        format: &'static RowFormat,
        max_in_memory: usize,
    ) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let id = current_id(path)?;
            if id.len == 0 {
                // Its program has just created it.
                return Ok(RowSource {
                    path: path.to_owned(),
                    id,
                    ends: Vec::new(),
                    content: Content::Memory(Vec::new()),
                });
            }
            let read =
                Database::open(path, format, id).and_then(|database| database.read(max_in_memory));
            // An error may come from pages of different states.
            if let Ok((_, _, false)) = read
                && current_id(path)? != id
            {
                continue;
            }
            if read.is_err() && current_id(path)? != id {
                continue;
            }
            let (ends, content, _) = read?;
            let path = path.to_owned();
            return Ok(RowSource {
                path,
                id,
                ends,
                content,
            });
        }
        Err(io::Error::other("it changes too often to be read"))
    }

    /// Returns whether the database has not changed since it was opened.
    pub(super) fn is_current(&self) -> bool {
        current_id(&self.path).is_ok_and(|id| id.untouched(&self.id))
    }
}

impl ReadAt for RowSource {
    fn id(&self) -> io::Result<FileId> {
        Ok(self.id)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let database = match &self.content {
            Content::Memory(bytes) => return Ok(copy_at(bytes, into, offset)),
            Content::Database(database) => database,
        };
        let at = self.ends.partition_point(|end| *end <= offset);
        let Some(end) = self.ends.get(at) else {
            return Ok(0);
        };
        let mut database = database.lock().unwrap_or_else(PoisonError::into_inner);
        let line = database.line(at)?;
        let start = end - line.len() as u64;
        let read = copy_at(line, into, offset.saturating_sub(start));
        if database.unlocked && !self.is_current() {
            return Err(io::Error::other("it has changed while it was read"));
        }
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.ends.last().copied().unwrap_or(0))
    }

    fn revision(&self) -> Option<FileId> {
        Some(self.id)
    }
}

impl Database {
    fn open(path: &Path, format: &'static RowFormat, id: FileId) -> io::Result<Self> {
        let (uri, unlocked) = location(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let open = || -> rusqlite::Result<Connection> {
            let mut connection = Connection::open_with_flags(&uri, flags)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
            let steps = MIN_STEPS.saturating_add(id.len.saturating_mul(STEPS_PER_BYTE));
            let mut left = steps / CHECKED_STEPS.unsigned_abs() as u64;
            let is_over = move || {
                left = left.saturating_sub(1);
                left == 0
            };
            connection.progress_handler(CHECKED_STEPS, Some(is_over))?;
            if unlocked {
                connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            }
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            connection.pragma_update(None, "cell_size_check", true)?;
            // All queries see the same state.
            connection.execute_batch("BEGIN")?;
            Ok(connection)
        };
        Ok(Database {
            connection: open().map_err(sqlite_error)?,
            format,
            keys: Vec::new(),
            unlocked,
            last: None,
        })
    }

    /// Reads all records. Returns their end offsets, where to read them, and whether the result is
    /// certain to be one state of the database.
    fn read(mut self, max_in_memory: usize) -> io::Result<(Vec<u64>, Content, bool)> {
        for table in self.format.tables {
            let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name = ?1";
            let found = self
                .connection
                .query_row(sql, [table], |row| row.get::<_, i64>(0));
            if found.map_err(sqlite_error)? == 0 {
                return Err(io::Error::other(format!("it has no table `{table}`")));
            }
        }
        let keys = || -> rusqlite::Result<Vec<(u8, i64)>> {
            let mut keys = self.connection.prepare(self.format.keys)?;
            let keys = keys.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            keys.collect()
        };
        self.keys = keys().map_err(sqlite_error)?;
        let mut ends = Vec::with_capacity(self.keys.len());
        let (mut end, mut held) = (0, Some(Vec::new()));
        for at in 0..self.keys.len() {
            let line = self.line(at)?;
            end += line.len() as u64;
            ends.push(end);
            held = held.filter(|held| held.len() + line.len() <= max_in_memory);
            if let Some(held) = &mut held {
                held.extend_from_slice(line);
            }
        }
        let locked = !self.unlocked;
        let content = match held {
            Some(held) => Content::Memory(held),
            None => Content::Database(Mutex::new(self)),
        };
        Ok((ends, content, locked))
    }

    /// Returns the line of a record.
    fn line(&mut self, at: usize) -> io::Result<&[u8]> {
        let is_last = |last: &(usize, Vec<u8>)| last.0 == at;
        if !self.last.as_ref().is_some_and(is_last) {
            let mut line = self.last.take().map_or_else(Vec::new, |(_, line)| line);
            line.clear();
            self.query(at, &mut line).map_err(sqlite_error)?;
            line.iter_mut()
                .filter(|byte| matches!(byte, b'\n' | b'\r'))
                .for_each(|byte| *byte = b' ');
            line.push(b'\n');
            self.last = Some((at, line));
        }
        Ok(self.last.as_ref().map_or(&[], |(_, line)| line))
    }

    fn query(&self, at: usize, line: &mut Vec<u8>) -> rusqlite::Result<()> {
        let (query, argument) = self.keys.get(at).copied().unwrap_or_default();
        let sql = self
            .format
            .records
            .get(usize::from(query))
            .copied()
            .unwrap_or_default();
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([argument])?;
        if let Some(row) = rows.next()?
            && let ValueRef::Text(text) = row.get_ref(0)?
        {
            line.extend_from_slice(text);
        }
        Ok(())
    }
}

/// Adds the state of the write-ahead log to the identity of a database.
pub(super) fn with_wal(path: &Path, id: FileId) -> FileId {
    match sibling(path, "-wal").symlink_metadata() {
        Ok(wal) => {
            let wal = FileId::from(&wal);
            FileId {
                len: id.len.saturating_add(wal.len),
                mtime_ns: id.mtime_ns.max(wal.mtime_ns),
                // Not its `ctime`: SQLite sets the owner of the file whenever root opens it.
                ctime_ns: id.ctime_ns.max(wal.mtime_ns),
                ..id
            }
        }
        // Without it, or if it cannot be examined, opening the database fails or succeeds.
        Err(_) => id,
    }
}

fn current_id(path: &Path) -> io::Result<FileId> {
    Ok(with_wal(path, FileId::from(&path.symlink_metadata()?)))
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut sibling = path.as_os_str().to_owned();
    sibling.push(ending);
    PathBuf::from(sibling)
}

/// Returns the URI of a database, and whether it is read without locks.
fn location(path: &Path) -> io::Result<(String, bool)> {
    // Refuses links, pipes and devices.
    let file = open_to_read(path)?;
    let mut header = [0; 20];
    let read = file.fill_at(&mut header, 0)?;
    // Bytes 18 and 19 are the versions for writing and reading; 2 is WAL.
    let has_wal_mode =
        read == header.len() && (header.get(18) == Some(&2) || header.get(19) == Some(&2));
    let len = |ending: &str| match sibling(path, ending).symlink_metadata() {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
        Ok(_) => Err(io::Error::other(format!(
            "its {ending} is not a regular file"
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let (wal, shm) = (len("-wal")?, len("-shm")?);
    let (options, unlocked) = match (has_wal_mode, wal, shm) {
        (false, _, _) | (true, Some(_), Some(_)) => ("mode=ro", false),
        (true, None | Some(0), _) => ("mode=ro&immutable=1", true),
        (true, Some(_), None) => ("mode=ro&vfs=unix-none", true),
    };
    // SQLite refuses links in all parts of the path; a root may be behind one.
    let directory = path.parent().unwrap_or(Path::new("")).canonicalize()?;
    let name = path.file_name().unwrap_or_default();
    let mut uri = "file:".to_owned();
    for byte in directory.join(name).as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => _ = write!(uri, "%{byte:02x}"),
        }
    }
    Ok((format!("{uri}?{options}"), unlocked))
}

fn sqlite_error(error: rusqlite::Error) -> io::Error {
    let text = match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) => {
            "the database needs more steps than its size explains".to_owned()
        }
        _ => format!("SQLite: {error}"),
    };
    io::Error::other(text)
}
