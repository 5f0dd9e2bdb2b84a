//! The catalogue's database: its tables, and what is asked of them.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, TransactionBehavior, params};

use crate::error::Error;
use crate::jsonl::{Cursor, FileId};
use crate::model::SessionId;
use crate::store::books::{Books, Tab};
use crate::store::{FoundFile, Root};

use super::tab;

/// What the database holds, and how: another number means another meaning.
///
/// It must change with the tables, with how sheets are spelled, and with what decoders say.
const VERSION: i32 = 1;

/// The name of the database. Programs of other versions have others beside it.
pub(super) fn name() -> String {
    format!("catalogue-{VERSION}.db")
}

/// How long another process may take to write.
const PATIENCE: Duration = Duration::from_secs(5);

const TABLES: &str = "
    CREATE TABLE root (
        id INTEGER PRIMARY KEY,
        layout TEXT NOT NULL,
        path BLOB NOT NULL,
        checked INTEGER NOT NULL,
        UNIQUE (layout, path)
    );
    CREATE TABLE file (
        root INTEGER NOT NULL REFERENCES root,
        path BLOB NOT NULL,
        dev INTEGER NOT NULL,
        ino INTEGER NOT NULL,
        len INTEGER NOT NULL,
        mtime INTEGER NOT NULL,
        ctime INTEGER NOT NULL,
        read INTEGER NOT NULL,
        guard BLOB NOT NULL,
        whole INTEGER NOT NULL,
        latest INTEGER NOT NULL,
        session TEXT,
        sum INTEGER NOT NULL,
        spent BLOB NOT NULL,
        PRIMARY KEY (root, path)
    ) WITHOUT ROWID;
    CREATE INDEX recent ON file (root, latest);
    CREATE INDEX owner ON file (root, session);
";

/// What is asked of every file. Later columns are long, and are read only where they are wanted.
const COLUMNS: &str =
    "SELECT path, dev, ino, len, mtime, ctime, read, guard, whole, sum, spent FROM file";

/// A file of which something is known, by the number of its root and its path within it.
pub(super) type Name = (i64, Vec<u8>);

/// Tells logs what was read of them before, or of those only that changed since. Both come in the
/// order of their paths.
pub(super) fn recall(
    database: &Connection,
    root: &Root,
    place: usize,
    books: &mut Books<'_>,
    gone: &mut Vec<Name>,
    changed_only: bool,
) -> rusqlite::Result<()> {
    let Some(number) = number_of(database, root)? else {
        return Ok(());
    };
    let mut query = database.prepare(&format!("{COLUMNS} WHERE root = ?1 ORDER BY path"))?;
    let mut rows = query.query([number])?;
    let logs = books.of_root(place);
    let mut at = logs.start;
    while let Some(row) = rows.next()? {
        let path = row.get_ref(0)?.as_blob()?;
        let mut order = Ordering::Greater;
        while let Some(file) = books.file(at).filter(|_| at < logs.end) {
            order = within(root, file).cmp(path);
            if order != Ordering::Less {
                break;
            }
            at += 1;
        }
        if order != Ordering::Equal {
            gone.push((number, path.to_vec()));
        } else if changed_only && books.file(at).is_some_and(|file| is_same(row, &file.id)) {
            books.pass(at);
        } else if let Some(tab) = tab_of(row)? {
            books.recall(at, tab);
        }
    }
    Ok(())
}

/// A file's path within its root.
fn within<'a>(root: &Root, file: &'a FoundFile) -> &'a [u8] {
    let path = file.path.as_os_str().as_bytes();
    let inside = path.strip_prefix(root.path.as_os_str().as_bytes());
    let inside = inside.unwrap_or(path);
    inside.strip_prefix(b"/").unwrap_or(inside)
}

/// Whether a file is what it was when it was read to its end.
fn is_same(row: &Row<'_>, id: &FileId) -> bool {
    let known = id_of(row).is_ok_and(|known| known.untouched(id));
    known && row.get(8).unwrap_or(false)
}

fn id_of(row: &Row<'_>) -> rusqlite::Result<FileId> {
    // The numbers are unsigned; SQLite's are not.
    let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
    Ok(FileId {
        dev: number(1)?,
        ino: number(2)?,
        len: number(3)?,
        mtime_ns: row.get::<_, i64>(4)?.into(),
        ctime_ns: row.get::<_, i64>(5)?.into(),
    })
}

/// By which a row that was damaged is known.
fn sum(id: &FileId, cursor: &Cursor, whole: bool, spent: &[u8]) -> i64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let (words, rest) = spent.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let (guard, _) = cursor.guard.as_chunks::<8>();
    let times = [id.mtime_ns as u64, id.ctime_ns as u64];
    let numbers = [
        id.dev,
        id.ino,
        id.len,
        cursor.offset,
        u64::from(whole),
        spent.len() as u64,
    ];
    let words = words
        .iter()
        .chain(guard)
        .chain([&last])
        .map(|word| u64::from_le_bytes(*word));
    let all = numbers.into_iter().chain(times).chain(words);
    all.fold(FACTOR, mix) as i64
}

fn tab_of(row: &Row<'_>) -> rusqlite::Result<Option<Tab>> {
    let id = id_of(row)?;
    let mut guard = [0; 16];
    let bytes = row.get_ref(7)?.as_blob()?;
    let pairs = guard.iter_mut().zip(bytes);
    pairs.for_each(|(to, from)| *to = *from);
    let cursor = Cursor {
        dev: id.dev,
        ino: id.ino,
        offset: row.get::<_, i64>(6)? as u64,
        guard,
    };
    let whole = row.get(8)?;
    let spent = row.get_ref(10)?.as_blob()?;
    // A row in which a bit was turned is as good as none.
    let sheet = match row.get::<_, i64>(9)? == sum(&id, &cursor, whole, spent) {
        true => tab::read(spent),
        false => None,
    };
    Ok(sheet.map(|sheet| Tab {
        id,
        cursor,
        sheet,
        whole,
    }))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Keeps what was read.
pub(super) fn write(
    database: &mut Connection,
    fresh: &[(&Root, &FoundFile, &Tab)],
) -> rusqlite::Result<()> {
    if fresh.is_empty() {
        return Ok(());
    }
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        // To replace in one statement, SQLite would first copy every page that it touches.
        let mut delete = change.prepare("DELETE FROM file WHERE root = ?1 AND path = ?2")?;
        let mut insert = change.prepare(
            "INSERT INTO file VALUES
                 (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?;
        let mut last: Option<(&Root, i64)> = None;
        // In the order of the table, which then grows at its end.
        let mut fresh: Vec<&(&Root, &FoundFile, &Tab)> = fresh.iter().collect();
        fresh.sort_unstable_by_key(|(_, file, _)| file.path.as_os_str());
        for (root, file, tab) in fresh {
            let number = match last {
                Some((known, number)) if std::ptr::eq(known, *root) => number,
                _ => new_number(&change, root)?,
            };
            last = Some((root, number));
            let Some(spent) = tab::spell(&tab.sheet) else {
                continue;
            };
            delete.execute(params![number, within(root, file)])?;
            // The session that the path names, or the log itself.
            let named = file.artifact.session.as_ref().map(SessionId::as_str);
            let session = named.or(tab.sheet.first.as_deref());
            let latest = tab.sheet.latest_charge().map(Timestamp::as_millisecond);
            insert.execute(params![
                number,
                within(root, file),
                tab.id.dev as i64,
                tab.id.ino as i64,
                tab.id.len as i64,
                tab.id.mtime_ns as i64,
                tab.id.ctime_ns as i64,
                tab.cursor.offset as i64,
                tab.cursor.guard,
                tab.whole,
                latest.unwrap_or(i64::MIN),
                session,
                sum(&tab.id, &tab.cursor, tab.whole, &spent),
                spent,
            ])?;
        }
    }
    change.commit()
}

/// The number of a root, if anything is known of it.
fn number_of(database: &Connection, root: &Root) -> rusqlite::Result<Option<i64>> {
    let path = absolute(&root.path);
    let name = params![root.layout.name(), path.as_os_str().as_bytes()];
    let select = "SELECT id FROM root WHERE layout = ?1 AND path = ?2";
    database
        .query_row(select, name, |row| row.get(0))
        .optional()
}

fn new_number(database: &Connection, root: &Root) -> rusqlite::Result<i64> {
    let path = absolute(&root.path);
    let name = params![root.layout.name(), path.as_os_str().as_bytes()];
    let insert = "INSERT INTO root (layout, path, checked) VALUES (?1, ?2, 0)
                  ON CONFLICT DO UPDATE SET layout = layout RETURNING id";
    database.query_row(insert, name, |row| row.get(0))
}

/// When all files of a root were last looked at, in milliseconds since 1970.
pub(super) fn checked(database: &Connection, root: &Root) -> rusqlite::Result<Option<i64>> {
    let path = absolute(&root.path);
    let name = params![root.layout.name(), path.as_os_str().as_bytes()];
    let select = "SELECT checked FROM root WHERE layout = ?1 AND path = ?2";
    database
        .query_row(select, name, |row| row.get(0))
        .optional()
}

/// Takes note that all files of a root were looked at.
pub(super) fn check(database: &Connection, root: &Root, now: i64) -> rusqlite::Result<()> {
    let number = new_number(database, root)?;
    let update = "UPDATE root SET checked = ?2 WHERE id = ?1";
    database.execute(update, [number, now]).map(|_| ())
}

/// What is known of files of a root in which something happened since some time, or that are a
/// session's: their paths within the root, and their tabs.
pub(super) fn recent(
    database: &Connection,
    root: &Root,
    since: i64,
    session: Option<&SessionId>,
) -> rusqlite::Result<Vec<(PathBuf, Tab)>> {
    let Some(number) = number_of(database, root)? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let mut take = |row: &Row<'_>| -> rusqlite::Result<()> {
        let path = OsStr::from_bytes(row.get_ref(0)?.as_blob()?).into();
        found.extend(tab_of(row)?.map(|tab| (path, tab)));
        Ok(())
    };
    let mut query = database.prepare(&format!("{COLUMNS} WHERE root = ?1 AND latest >= ?2"))?;
    let mut rows = query.query([number, since])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    let Some(session) = session else {
        return Ok(found);
    };
    let mut query = database.prepare(&format!(
        "{COLUMNS} WHERE root = ?1 AND session = ?2 AND latest < ?3"
    ))?;
    let mut rows = query.query(params![number, session.as_str(), since])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(found)
}

/// Forgets files that are gone.
pub(super) fn forget(database: &mut Connection, gone: &[Name]) -> rusqlite::Result<()> {
    if gone.is_empty() {
        return Ok(());
    }
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut delete = change.prepare("DELETE FROM file WHERE root = ?1 AND path = ?2")?;
        for (root, path) in gone {
            delete.execute(params![root, path])?;
        }
    }
    change.commit()
}

/// Why a database is not taken as it is.
pub(super) enum Refusal {
    /// Another one must be made in its place.
    Unusable(String),
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        match is_damage(&error) {
            true => Refusal::Unusable(format!("is damaged ({error})")),
            false => Refusal::Failed(error),
        }
    }
}

impl Refusal {
    pub(super) fn error(self, path: &Path) -> Error {
        let why = match self {
            Refusal::Unusable(why) => why,
            Refusal::Failed(error) => format!("cannot be opened ({error})"),
        };
        Error::refused(format!("the catalogue {} {why}", path.display()))
    }
}

/// Whether all of a database can be read.
pub(super) fn is_sound(database: &Connection) -> bool {
    let check = database.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    check.is_ok_and(|told| told == "ok")
}

pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{
        FromSqlConversionFailure, InvalidColumnType, SqlInputError, SqliteFailure,
    };
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match error {
        SqliteFailure(failure, _) => {
            // A table that is not there is an unknown error to SQLite.
            let known = [DatabaseCorrupt, NotADatabase, rusqlite::ErrorCode::Unknown];
            known.contains(&failure.code)
        }
        FromSqlConversionFailure(..) | InvalidColumnType(..) | SqlInputError { .. } => true,
        _ => false,
    }
}

/// Opens a database, or makes it.
///
/// SQLite itself waits for others that write, but not for those that are making the database.
pub(super) fn connect(path: &Path) -> std::result::Result<Connection, Refusal> {
    const PAUSE: Duration = Duration::from_millis(5);
    let began = Instant::now();
    loop {
        match connect_once(path) {
            Err(Refusal::Failed(error)) if is_busy(&error) && began.elapsed() < PATIENCE => {
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

fn connect_once(path: &Path) -> std::result::Result<Connection, Refusal> {
    // For nobody else to read; what SQLite puts beside it gets the same mode.
    let mut options = fs::OpenOptions::new();
    let _ = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(path, flags)?;
    database.busy_timeout(PATIENCE)?;
    // Enough for what one commit changes: pages that are written twice cost more than memory.
    database.pragma_update(None, "cache_size", -16_384)?;
    // It writes nowhere but where it lies.
    database.pragma_update(None, "temp_store", "MEMORY")?;
    // A power cut may cost the last commits, not more.
    database.pragma_update(None, "synchronous", "NORMAL")?;
    let version = |database: &Connection| {
        database.query_row("PRAGMA user_version", [], |row| row.get::<_, i32>(0))
    };
    if version(&database)? == VERSION {
        return Ok(database);
    }
    // Rows of most files then stand in one piece.
    database.pragma_update(None, "page_size", 16_384)?;
    // Readers then never wait for writers.
    database.pragma_update(None, "journal_mode", "WAL")?;
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match version(&change)? {
        VERSION => {}
        0 => {
            change.execute_batch(TABLES)?;
            change.pragma_update(None, "user_version", VERSION)?;
        }
        other => {
            let why = format!("has the version {other} inside, which its name does not say");
            return Err(Refusal::Unusable(why));
        }
    }
    change.commit()?;
    Ok(database)
}

/// Moves a database out of the way, with what SQLite keeps beside it.
pub(super) fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    // One is kept, to be looked at.
    let mut to = path.as_os_str().to_owned();
    to.push(".unusable");
    let to = PathBuf::from(to);
    fs::rename(path, &to)?;
    for ending in ["-wal", "-shm"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(ending);
        // Without its database it means nothing, and would be taken for the next one's.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(to)
}
