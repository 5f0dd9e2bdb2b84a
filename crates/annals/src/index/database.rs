//! The index database: connection setup, schema version, and the table of roots.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior, params};

use crate::error::{Error, IndexProblem};
use crate::store::Root;
use crate::store::usage_collector::DirTimes;

use super::{files, session_rows, text_store};

/// Schema version.
///
/// Increment it when the tables, the encoding of rows or the output of decoders changes.
const VERSION: i32 = 1;

/// File name of the database. Other versions use other files in the same directory.
pub(super) fn name() -> String {
    format!("index-{VERSION}.db")
}

/// Time to wait for a lock held by another process.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Schema of each part of the index.
const TABLES: [&str; 4] = [
    ROOTS,
    files::TABLES,
    session_rows::TABLES,
    text_store::TABLES,
];

const ROOTS: &str = "
    CREATE TABLE root (
        id INTEGER PRIMARY KEY,
        layout TEXT NOT NULL,
        path BLOB NOT NULL,
        checked INTEGER NOT NULL,
        places BLOB NOT NULL,
        UNIQUE (layout, path)
    );
";

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the number of a root, if it is in the index.
pub(super) fn number_of(database: &Connection, root: &Root) -> rusqlite::Result<Option<i64>> {
    let path = absolute(&root.path);
    let name = params![root.layout.name(), path.as_os_str().as_bytes()];
    let select = "SELECT id FROM root WHERE layout = ?1 AND path = ?2";
    // Called by several parts of the index.
    let mut select = database.prepare_cached(select)?;
    select.query_row(name, |row| row.get(0)).optional()
}

pub(super) fn new_number(database: &Connection, root: &Root) -> rusqlite::Result<i64> {
    let path = absolute(&root.path);
    let name = params![root.layout.name(), path.as_os_str().as_bytes()];
    let insert = "INSERT INTO root (layout, path, checked, places) VALUES (?1, ?2, 0, x'')
                  ON CONFLICT DO UPDATE SET layout = layout RETURNING id";
    database.query_row(insert, name, |row| row.get(0))
}

/// Last scan of all files of a root.
pub(super) struct RootScan {
    /// Time of the scan, in milliseconds since 1970.
    pub(super) at: i64,
    /// Mtimes of the directories in which new logs would appear.
    pub(super) places: DirTimes,
}

/// Returns the last scan of all files of a root; `None` if there was none.
pub(super) fn last_scan(database: &Connection, root: &Root) -> rusqlite::Result<Option<RootScan>> {
    let path = absolute(&root.path);
    let name = params![root.layout.name(), path.as_os_str().as_bytes()];
    let select = "SELECT checked, places FROM root WHERE layout = ?1 AND path = ?2";
    let look = |row: &rusqlite::Row<'_>| {
        let places = postcard::from_bytes(row.get_ref(1)?.as_blob()?);
        Ok((row.get(0)?, places.ok()))
    };
    let known = database.query_row(select, name, look).optional()?;
    Ok(known.and_then(|(at, places)| {
        let places: DirTimes = places?;
        Some(RootScan { at, places })
    }))
}

/// Saves the scan of all files of a root.
pub(super) fn save_scan(
    database: &Connection,
    root: &Root,
    look: &RootScan,
) -> rusqlite::Result<()> {
    let number = new_number(database, root)?;
    let places = postcard::to_stdvec(&look.places).unwrap_or_default();
    let update = "UPDATE root SET checked = ?2, places = ?3 WHERE id = ?1";
    let values = params![number, look.at, places];
    database.execute(update, values).map(|_| ())
}

/// Reason why a database cannot be opened.
pub(super) enum OpenError {
    /// The database must be replaced.
    Unusable(String),
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        match is_damage(&error) {
            true => OpenError::Unusable(format!("is damaged ({error})")),
            false => OpenError::Failed(error),
        }
    }
}

impl OpenError {
    pub(super) fn error(self, path: &Path) -> Error {
        let why = match self {
            OpenError::Unusable(why) => why,
            OpenError::Failed(error) => format!("cannot be opened ({error})"),
        };
        super::location::refusal(path, IndexProblem::Unopenable, why)
    }
}

/// Returns true if SQLite's quick check finds no damage.
pub(super) fn is_sound(database: &Connection) -> bool {
    let check = database.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    check.is_ok_and(|result| result == "ok")
}

/// Returns true if a write failed because the database is read-only.
pub(super) fn is_read_only(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ReadOnly)
}

pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{
        FromSqlConversionFailure, InvalidColumnType, SqlInputError, SqliteFailure,
    };
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match error {
        SqliteFailure(failure, _) => {
            // SQLite reports a missing table as an unknown error.
            let known = [DatabaseCorrupt, NotADatabase, rusqlite::ErrorCode::Unknown];
            known.contains(&failure.code)
        }
        FromSqlConversionFailure(..) | InvalidColumnType(..) | SqlInputError { .. } => true,
        _ => false,
    }
}

/// Opens a database; creates it if missing.
///
/// SQLite's busy timeout does not cover the creation of a database, so that is retried here.
pub(super) fn connect(path: &Path) -> std::result::Result<Connection, OpenError> {
    const PAUSE: Duration = Duration::from_millis(5);
    let began = Instant::now();
    loop {
        match connect_once(path) {
            Err(OpenError::Failed(error)) if is_busy(&error) && began.elapsed() < BUSY_TIMEOUT => {
                std::thread::sleep(PAUSE);
            }
            outcome => return outcome,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    let code = error.sqlite_error_code();
    matches!(code, Some(DatabaseBusy | DatabaseLocked))
}

/// Opens a database that cannot be written.
pub(super) fn connect_to_read(path: &Path) -> std::result::Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = if sibling_path(path, "-wal").exists() {
        // The WAL may hold committed pages. SQLite can read it if the `-shm` file exists too.
        Connection::open_with_flags(path, flags)?
    } else {
        // Without `immutable`, even a reader creates files next to the database.
        let flags = flags | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(immutable(path), flags)?
    };
    database.busy_timeout(BUSY_TIMEOUT)?;
    database.pragma_update(None, "temp_store", "MEMORY")?;
    stay_prepared(&database)?;
    match database.query_row("PRAGMA user_version", [], |row| row.get(0))? {
        VERSION => Ok(database),
        _ => Err(OpenError::Unusable("is incomplete".to_owned())),
    }
}

/// Returns the URI that opens a database as immutable.
fn immutable(path: &Path) -> String {
    use std::fmt::Write as _;
    let mut uri = "file://".to_owned();
    for byte in absolute(path).as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => {
                let _ = write!(uri, "%{byte:02x}");
            }
        }
    }
    uri + "?immutable=1"
}

/// Returns the path of a file that SQLite keeps next to a database.
fn sibling_path(path: &Path, ending: &str) -> PathBuf {
    let mut sibling = path.as_os_str().to_owned();
    sibling.push(ending);
    PathBuf::from(sibling)
}

fn connect_once(path: &Path) -> std::result::Result<Connection, OpenError> {
    // Not readable by other users; SQLite gives the same mode to the files it creates next to it.
    let mut options = fs::OpenOptions::new();
    let _ = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(path, flags)?;
    database.busy_timeout(BUSY_TIMEOUT)?;
    // SQLite must write no temporary files in other directories.
    database.pragma_update(None, "temp_store", "MEMORY")?;
    stay_prepared(&database)?;
    // A power loss may cost the last commits, but does not corrupt the database.
    database.pragma_update(None, "synchronous", "NORMAL")?;
    let version = |database: &Connection| {
        database.query_row("PRAGMA user_version", [], |row| row.get::<_, i32>(0))
    };
    if version(&database)? == VERSION {
        return Ok(database);
    }
    // The row of most files then fits in one page.
    database.pragma_update(None, "page_size", 16_384)?;
    // In WAL mode readers never wait for writers.
    database.pragma_update(None, "journal_mode", "WAL")?;
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match version(&change)? {
        VERSION => {}
        0 => {
            change.execute_batch(&TABLES.concat())?;
            change.pragma_update(None, "user_version", VERSION)?;
        }
        other => {
            let why = format!("has version {other}, which does not match its file name");
            return Err(OpenError::Unusable(why));
        }
    }
    change.commit()?;
    Ok(database)
}

/// Enables the query planner stability guarantee: otherwise a cached statement is prepared again
/// for new parameter values.
fn stay_prepared(database: &Connection) -> rusqlite::Result<()> {
    let config = rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG;
    database.set_db_config(config, true).map(|_| ())
}

/// Runs `ask` with a 512 KiB page cache (page faults cost more than re-reads).
pub(super) fn with_small_cache<T>(
    database: &mut Connection,
    ask: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    const LITTLE: i32 = -512;
    let usual: i32 = database.pragma_query_value(None, "cache_size", |row| row.get(0))?;
    database.pragma_update(None, "cache_size", LITTLE)?;
    let answer = ask(database);
    // A cache that stays small only costs time.
    let _ = database.pragma_update(None, "cache_size", usual);
    answer
}

/// Enlarges the page cache for a large commit: writing pages twice costs more than the memory.
pub(super) fn grow_cache(database: &Connection) -> rusqlite::Result<()> {
    database.pragma_update(None, "cache_size", -4_096)
}

/// Renames a database and deletes its `-wal` and `-shm` files.
pub(super) fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    // Only the last one is kept, for inspection.
    let mut to = path.as_os_str().to_owned();
    to.push(".unusable");
    let to = PathBuf::from(to);
    fs::rename(path, &to)?;
    for ending in ["-wal", "-shm"] {
        // It is useless without its database, and SQLite would apply it to the next one.
        match fs::remove_file(sibling_path(path, ending)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any path works, and reading creates no files next to the database.
    #[test]
    fn database_opens_in_read_only_directory() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("50% of? #é");
        fs::create_dir(&dir).unwrap();
        let path = dir.join("x.db");
        drop(connect(&path).ok().unwrap());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        let database = connect_to_read(&path).ok().unwrap();
        let roots = database.query_row("SELECT count(*) FROM root", [], |row| row.get(0));
        assert_eq!(roots, Ok(0));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        let written = database.execute("DELETE FROM root", []).unwrap_err();
        assert!(is_read_only(&written), "{written}");
    }

    /// Committed pages that are still in the WAL are visible.
    #[test]
    fn read_only_connection_sees_uncheckpointed_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let writer = connect(&path).ok().unwrap();
        let insert = "INSERT INTO root (layout, path, checked, places) VALUES ('x', x'', 0, x'')";
        writer.execute(insert, []).unwrap();
        let database = connect_to_read(&path).ok().unwrap();
        let roots = database.query_row("SELECT count(*) FROM root", [], |row| row.get(0));
        assert_eq!(roots, Ok(1));
    }

    #[test]
    fn unfinished_database_is_unusable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        fs::write(&path, "").unwrap();
        assert!(matches!(
            connect_to_read(&path),
            Err(OpenError::Unusable(_))
        ));
    }
}
