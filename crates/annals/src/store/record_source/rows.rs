//! Records of an SQLite database that belongs to another program.
//!
//! Records are read by session: nothing here reads all of a database. A session is found to be
//! unchanged by its state, which takes a few steps in the indexes of the database.
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

use annals_jsonl::{FileId, ReadAt};
use annals_layouts::model::{Framing, OptionalRows, RowFormat, SessionId};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use xxhash_rust::xxh3::xxh3_64;

use super::copy_at;

mod locks;
mod write;

pub(crate) use write::{RowOutcome, write};

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

/// The records of one session of a database, in a state that does not change.
#[derive(Debug)]
pub(super) struct RowSource {
    path: PathBuf,
    /// State of the session.
    id: FileId,
    /// End offset of each record.
    ends: Vec<u64>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// All records.
    Memory(Vec<u8>),
    /// Records that are queried again, and the state of a database that is read without locks.
    Database(Box<Mutex<SessionRows>>, Option<FileId>),
}

/// A connection to a database that is in a transaction, and the records of one of its sessions.
#[derive(Debug)]
struct SessionRows {
    database: Database,
    /// The query of each record and its argument.
    keys: Vec<(u8, i64)>,
    /// The record that was read last.
    last: Option<(usize, Vec<u8>)>,
}

/// Connections to one database that are not in use. Opening one takes as long as reading a small
/// session.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<Vec<Database>>);

/// A connection to a database.
#[derive(Debug)]
struct Database {
    connection: Connection,
    /// Present if the connection holds locks.
    _locked: Option<locks::Locked>,
    format: &'static RowFormat,
    /// Whether other programs are not kept from changing pages that are still to be read.
    unlocked: bool,
    /// Identity of the database when it was opened.
    id: FileId,
    /// Whether the program counts the changes of sessions.
    has_counter: bool,
    /// Whether it has the optional table.
    has_optional: bool,
}

impl Connections {
    /// Calls `read` in a transaction on a database, again if it changes meanwhile without being
    /// locked. Returns the identity that the database had.
    fn read<T>(
        &self,
        path: &Path,
        format: &'static RowFormat,
        mut read: impl FnMut(&Database) -> io::Result<T>,
    ) -> io::Result<(T, Database, FileId)> {
        for _ in 0..ATTEMPTS {
            let before = current_id(path)?;
            let mut unused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let is_valid = |it: &Database| match it.unlocked {
                true => it.id.untouched(&before),
                false => it.id.same_file(&before),
            };
            let unused = unused.pop().filter(is_valid);
            let done = unused
                .map_or_else(|| Database::open(path, format, before), Ok)
                .and_then(|mut database| {
                    let found = database.begin().and_then(|()| read(&database))?;
                    Ok((found, database))
                });
            // What is read without locks, and an error, may come from pages of different states.
            let is_certain = done.as_ref().is_ok_and(|(_, database)| !database.unlocked);
            if is_certain || current_id(path)?.untouched(&before) {
                return done.map(|(found, database)| (found, database, before));
            }
        }
        Err(io::Error::other("it changes too often to be read"))
    }

    /// Ends the transaction of a connection and keeps it for the next reader.
    fn put_back(&self, database: Database) {
        if database.connection.execute_batch("ROLLBACK").is_ok() {
            let mut unused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            unused.push(database);
        }
    }

    /// Returns the names and states of all sessions of a database.
    pub(super) fn sessions(
        &self,
        path: &Path,
        format: &'static RowFormat,
    ) -> io::Result<Vec<(String, FileId)>> {
        let id = current_id(path)?;
        if id.len == 0 {
            // Its program has just created it.
            return Ok(Vec::new());
        }
        let (sessions, database, _) = self.read(path, format, |database| {
            let keys = database.keys().map_err(sqlite_error)?;
            let states = keys.iter().map(|key| database.state(key, &id));
            let states: rusqlite::Result<Vec<_>> = states.filter_map(Result::transpose).collect();
            states.map_err(sqlite_error)
        })?;
        self.put_back(database);
        Ok(sessions)
    }

    /// Returns the keys of all sessions of a database.
    pub(super) fn keys(&self, path: &Path, format: &'static RowFormat) -> io::Result<Vec<String>> {
        let (keys, database, _) = self.read(path, format, |database| {
            database.keys().map_err(sqlite_error)
        })?;
        self.put_back(database);
        Ok(keys)
    }

    /// Returns the state of a session; `None` if there is none at this path.
    pub(super) fn state(
        &self,
        path: &Path,
        format: &'static RowFormat,
    ) -> io::Result<Option<FileId>> {
        let (database, within) = split(path, format);
        let id = current_id(&database)?;
        let (found, connection, _) = self.read(&database, format, |rows| {
            let found = rows.find(&within, &id).map_err(sqlite_error)?;
            Ok(found.map(|(_, id)| id))
        })?;
        self.put_back(connection);
        Ok(found)
    }

    /// Opens the records of the session at a path. That of the database itself has none.
    pub(super) fn open(&self, path: &Path, format: &'static RowFormat) -> io::Result<RowSource> {
        self.open_with(path, format, MAX_IN_MEMORY)
    }

    /// Like [`open`](Self::open), with the total up to which records are kept in memory.
    fn open_with(
        &self,
        path: &Path,
        format: &'static RowFormat,
        max_in_memory: usize,
    ) -> io::Result<RowSource> {
        let (file, within) = split(path, format);
        let id = current_id(&file)?;
        let path = path.to_owned();
        if within.is_empty() {
            return Ok(RowSource {
                path,
                id,
                ends: Vec::new(),
                content: Content::Memory(Vec::new()),
            });
        }
        if id.len == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (found, database, state) = self.read(&file, format, |database| {
            let Some((key, id)) = database.find(&within, &id).map_err(sqlite_error)? else {
                return Err(io::ErrorKind::NotFound.into());
            };
            let keys = database.record_keys(&key).map_err(sqlite_error)?;
            let (ends, held) = database.records(&keys, max_in_memory)?;
            Ok((id, keys, ends, held))
        })?;
        let (id, keys, ends, held) = found;
        let content = match held {
            Some(held) => {
                self.put_back(database);
                Content::Memory(held)
            }
            None => {
                let state = database.unlocked.then_some(state);
                let last = None;
                let rows = SessionRows {
                    database,
                    keys,
                    last,
                };
                Content::Database(Box::new(Mutex::new(rows)), state)
            }
        };
        Ok(RowSource {
            path: file,
            id,
            ends,
            content,
        })
    }
}

impl ReadAt for RowSource {
    fn id(&self) -> io::Result<FileId> {
        Ok(self.id)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let (rows, state) = match &self.content {
            Content::Memory(bytes) => return Ok(copy_at(bytes, into, offset)),
            Content::Database(rows, state) => (rows, state),
        };
        let at = self.ends.partition_point(|end| *end <= offset);
        let Some(end) = self.ends.get(at) else {
            return Ok(0);
        };
        let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
        let line = rows.line(at)?;
        let start = end - line.len() as u64;
        let read = copy_at(line, into, offset.saturating_sub(start));
        if let Some(state) = state
            && !current_id(&self.path)?.untouched(state)
        {
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

impl SessionRows {
    /// Returns the line of a record.
    fn line(&mut self, at: usize) -> io::Result<&[u8]> {
        let is_last = |last: &(usize, Vec<u8>)| last.0 == at;
        if !self.last.as_ref().is_some_and(is_last) {
            let mut line = self.last.take().map_or_else(Vec::new, |(_, line)| line);
            line.clear();
            let key = self.keys.get(at).copied().unwrap_or_default();
            self.database.add_line(key, &mut line)?;
            self.last = Some((at, line));
        }
        Ok(self.last.as_ref().map_or(&[], |(_, line)| line))
    }
}

impl Database {
    fn open(path: &Path, format: &'static RowFormat, id: FileId) -> io::Result<Self> {
        let (uri, unlocked) = location(path)?;
        let locked = (!unlocked).then(locks::Locked::new);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(&uri, flags)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
            if unlocked {
                connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            }
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            connection.pragma_update(None, "cell_size_check", true)?;
            Ok(connection)
        };
        Ok(Database {
            connection: open().map_err(sqlite_error)?,
            _locked: locked,
            format,
            unlocked,
            id,
            has_counter: false,
            has_optional: false,
        })
    }

    /// Begins a transaction, so that all queries see the same state, and checks the tables.
    fn begin(&mut self) -> io::Result<()> {
        let steps = MIN_STEPS.saturating_add(self.id.len.saturating_mul(STEPS_PER_BYTE));
        let mut left = steps / CHECKED_STEPS.unsigned_abs() as u64;
        let is_over = move || {
            left = left.saturating_sub(1);
            left == 0
        };
        let mut begin = || -> rusqlite::Result<Option<&str>> {
            self.connection
                .progress_handler(CHECKED_STEPS, Some(is_over))?;
            self.connection.execute_batch("BEGIN")?;
            for table in self.format.tables {
                if !self.has_table(table)? {
                    return Ok(Some(table));
                }
            }
            self.find_optional_tables()?;
            Ok(None)
        };
        match begin().map_err(sqlite_error)? {
            None => Ok(()),
            Some(table) => Err(io::Error::other(format!("it has no table `{table}`"))),
        }
    }

    fn find_optional_tables(&mut self) -> rusqlite::Result<()> {
        self.has_counter = self.has_table(self.format.counter_table)?;
        self.has_optional = match self.format.optional {
            Some(optional) => self.has_table(optional.table)?,
            None => false,
        };
        Ok(())
    }

    /// Returns the records of an optional table, if the database has it.
    fn optional(&self) -> Option<&'static OptionalRows> {
        self.format.optional.filter(|_| self.has_optional)
    }

    fn has_table(&self, name: &str) -> rusqlite::Result<bool> {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name = ?1";
        let mut query = self.connection.prepare_cached(sql)?;
        Ok(query.query_row([name], |row| row.get::<_, i64>(0))? > 0)
    }

    /// Returns the keys of all sessions.
    fn keys(&self) -> rusqlite::Result<Vec<String>> {
        let mut keys = self.connection.prepare_cached(self.format.sessions)?;
        let keys = keys.query_map([], |row| row.get(0))?;
        keys.collect()
    }

    /// Returns the name of a session in the records, and its state; `None` if there is none with
    /// this key. `id` is the identity of the database.
    ///
    /// A hash of everything that changes with the session is part of the time: a time in
    /// milliseconds leaves room for it.
    fn state(&self, key: &str, id: &FileId) -> rusqlite::Result<Option<(String, FileId)>> {
        /// Size that stands for a record. Sizes of unread sessions serve only to share work.
        const RECORD: u64 = 4 << 10;
        const MILLISECOND: i64 = 1_000_000;
        let mut state = self.connection.prepare_cached(self.format.state)?;
        let columns = state.column_count();
        let mut rows = state.query([key])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let name: String = row.get(0)?;
        let records: i64 = row.get(1)?;
        let updated: i64 = row.get(2)?;
        let mut bytes = name.clone().into_bytes();
        // Records of another version of annals are not those of this one.
        bytes.extend_from_slice(self.format.name.as_bytes());
        add_columns(row, 3..columns, &mut bytes)?;
        if let Some(optional) = self.optional() {
            let mut state = self.connection.prepare_cached(optional.state)?;
            let columns = state.column_count();
            let mut rows = state.query([key])?;
            if let Some(row) = rows.next()? {
                add_columns(row, 0..columns, &mut bytes)?;
            }
        }
        if self.has_counter {
            let mut counter = self.connection.prepare_cached(self.format.counter)?;
            let count: Option<i64> = counter.query_row([key], |row| row.get(0)).optional()?;
            bytes.extend(count.unwrap_or_default().to_le_bytes());
        }
        let hash = (xxh3_64(&bytes) % MILLISECOND.unsigned_abs()).cast_signed();
        let updated = updated.saturating_mul(MILLISECOND);
        let id = FileId {
            dev: id.dev,
            ino: id.ino ^ xxh3_64(key.as_bytes()),
            len: u64::try_from(records)
                .unwrap_or(0)
                .saturating_add(1)
                .saturating_mul(RECORD),
            mtime_ns: updated.saturating_add(hash),
            // A time of the future would never be in the past.
            ctime_ns: updated.min(id.ctime_ns),
        };
        Ok(Some((name, id)))
    }

    /// Returns the key and the state of the session at a path within the database.
    fn find(&self, within: &str, id: &FileId) -> rusqlite::Result<Option<(String, FileId)>> {
        let place = |name: &str| {
            let artifact = (self.format.artifact)(name);
            let session = artifact
                .session
                .as_ref()
                .map_or("", SessionId::as_str)
                .to_owned();
            match &artifact.agent {
                Some(agent) => format!("{session}/{agent}"),
                None => session,
            }
        };
        // The last part of the path is the key, unless the key cannot be part of a path.
        let key = within.rsplit('/').next().unwrap_or_default();
        if let Some((name, id)) = self.state(key, id)?
            && place(&name) == within
        {
            return Ok(Some((key.to_owned(), id)));
        }
        for key in self.keys()? {
            if let Some((name, id)) = self.state(&key, id)?
                && place(&name) == within
            {
                return Ok(Some((key, id)));
            }
        }
        Ok(None)
    }

    /// Returns the queries and arguments of the records of a session.
    fn record_keys(&self, key: &str) -> rusqlite::Result<Vec<(u8, i64)>> {
        let query = |sql: &str| -> rusqlite::Result<Vec<(u8, i64)>> {
            let mut keys = self.connection.prepare_cached(sql)?;
            let keys = keys.query_map([key], |row| Ok((row.get(0)?, row.get(1)?)))?;
            keys.collect()
        };
        let mut keys = query(self.format.keys)?;
        if let Some(optional) = self.optional() {
            let at = keys.len().min(1);
            keys.splice(at..at, query(optional.keys)?);
        }
        Ok(keys)
    }

    /// Returns the end offsets of records, and all of them unless they are too large.
    fn records(
        &self,
        keys: &[(u8, i64)],
        max_in_memory: usize,
    ) -> io::Result<(Vec<u64>, Option<Vec<u8>>)> {
        let mut ends = Vec::with_capacity(keys.len());
        let (mut end, mut held) = (0, Some(Vec::new()));
        let mut line = Vec::new();
        for key in keys {
            line.clear();
            self.add_line(*key, &mut line)?;
            end += line.len() as u64;
            ends.push(end);
            held = held.filter(|held| held.len() + line.len() <= max_in_memory);
            if let Some(held) = &mut held {
                held.extend_from_slice(&line);
            }
        }
        Ok((ends, held))
    }

    /// Adds the line of a record.
    fn add_line(&self, (query, argument): (u8, i64), line: &mut Vec<u8>) -> io::Result<()> {
        let sql = self.format.records.get(usize::from(query)).copied();
        let mut add = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare_cached(sql.unwrap_or_default())?;
            let mut rows = statement.query([argument])?;
            if let Some(row) = rows.next()?
                && let ValueRef::Text(text) = row.get_ref(0)?
            {
                line.extend_from_slice(text);
            }
            Ok(())
        };
        add().map_err(sqlite_error)?;
        line.iter_mut()
            .filter(|byte| matches!(byte, b'\n' | b'\r'))
            .for_each(|byte| *byte = b' ');
        line.push(b'\n');
        Ok(())
    }
}

/// Adds the bytes of columns.
fn add_columns(
    row: &rusqlite::Row<'_>,
    columns: std::ops::Range<usize>,
    bytes: &mut Vec<u8>,
) -> rusqlite::Result<()> {
    for column in columns {
        match row.get_ref(column)? {
            ValueRef::Null => bytes.push(0),
            ValueRef::Integer(number) => bytes.extend(number.to_le_bytes()),
            ValueRef::Real(number) => bytes.extend(number.to_le_bytes()),
            ValueRef::Text(text) | ValueRef::Blob(text) => bytes.extend_from_slice(text),
        }
        bytes.push(0xff);
    }
    Ok(())
}

/// Splits the path of a session into that of the database and the rest.
fn split(path: &Path, format: &'static RowFormat) -> (PathBuf, String) {
    let database = super::disk_path(path, Framing::Rows(format));
    let within = path.strip_prefix(database).unwrap_or(Path::new(""));
    (database.to_owned(), within.to_string_lossy().into_owned())
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

impl Drop for Database {
    fn drop(&mut self) {
        if self.unlocked {
            locks::close_unlocked(&mut self.connection);
        }
    }
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut sibling = path.as_os_str().to_owned();
    sibling.push(ending);
    PathBuf::from(sibling)
}

/// Returns the URI of a database, and whether it is read without locks.
fn location(path: &Path) -> io::Result<(String, bool)> {
    let mut header = [0; 20];
    let read = locks::with_open_file(path, |file| file.fill_at(&mut header, 0))?;
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
    Ok((format!("{}?{options}", uri(path)?), unlocked))
}

/// Returns the URI of a database, without parameters.
fn uri(path: &Path) -> io::Result<String> {
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
    Ok(uri)
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
