//! The catalogue's database.

use std::cmp::Ordering;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Row, TransactionBehavior, params};

use crate::cost::Ledger;
use crate::error::{Error, Result};
use crate::jsonl::{Cursor, FileId};
use crate::store::books::{Books, Tab};
use crate::store::{FoundFile, Root, Store};

use super::tab;

/// What the database holds, and how: another number means another meaning.
///
/// It must change with the tables, with how sheets are spelled, and with what decoders say.
const VERSION: i32 = 1;

/// How long another process may take to write.
const PATIENCE: Duration = Duration::from_secs(5);

const TABLES: &str = "
    DROP TABLE IF EXISTS file;
    DROP TABLE IF EXISTS root;
    CREATE TABLE root (
        id INTEGER PRIMARY KEY,
        layout TEXT NOT NULL,
        path BLOB NOT NULL,
        UNIQUE (layout, path)
    );
    CREATE TABLE file (
        root INTEGER NOT NULL REFERENCES root,
        path BLOB NOT NULL,
        dev INTEGER NOT NULL,
        ino INTEGER NOT NULL,
        len INTEGER NOT NULL,
        mtime INTEGER NOT NULL,
        read INTEGER NOT NULL,
        guard BLOB NOT NULL,
        whole INTEGER NOT NULL,
        spent BLOB NOT NULL,
        PRIMARY KEY (root, path)
    ) WITHOUT ROWID;
";

/// What was read of files before.
#[derive(Debug)]
pub struct Catalogue {
    database: Connection,
    notices: Vec<Notice>,
}

/// Something about the catalogue that a person may want to know; no answer depends on it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The file could not be used as it was, and was moved out of the way.
    SetAside {
        /// Where it is now.
        to: PathBuf,
        /// What was wrong.
        why: String,
    },
    /// What was read could not be kept, so it will be read again.
    NotKept {
        /// What went wrong.
        why: String,
    },
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Notice::SetAside { to, why } => write!(
                f,
                "the catalogue {why}; it was moved to {} and is made anew",
                to.display()
            ),
            Notice::NotKept { why } => {
                write!(
                    f,
                    "the catalogue could not be written ({why}); nothing but time is lost"
                )
            }
        }
    }
}

impl Catalogue {
    /// Opens the catalogue of a state directory; makes it if there is none.
    ///
    /// One that is damaged, or of a newer version, is moved out of the way.
    pub fn open(state: &Path) -> Result<Self> {
        let failed = |path: &Path, error| Error::io("create", path, error);
        let mut builder = fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(state);
        made.map_err(|error| failed(state, error))?;
        let path = state.join("catalogue.db");
        let mut notices = Vec::new();
        let database = match connect(&path) {
            Ok(database) => database,
            Err(Refusal::Unusable(why)) => {
                let to = set_aside(&path).map_err(|error| failed(&path, error))?;
                notices.push(Notice::SetAside { to, why });
                connect(&path).map_err(|refusal| refusal.error(&path))?
            }
            Err(refusal) => return Err(refusal.error(&path)),
        };
        Ok(Catalogue { database, notices })
    }

    /// What a person may want to know, once.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Who spent what. Only what was added to logs since the last time is read.
    pub fn ledger(
        &mut self,
        store: &Store,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> (Ledger, Vec<Error>) {
        let mut books = Books::find(store);
        let mut gone = Vec::new();
        for (number, root) in store.roots().iter().enumerate() {
            if let Err(error) = recall(&self.database, root, number, &mut books, &mut gone) {
                gone.clear();
                self.begin_anew(&error);
                break;
            }
        }
        let mut failure = None;
        let database = &mut self.database;
        let keep = |fresh: &[(&Root, &FoundFile, &Tab)]| {
            if let Err(error) = write(database, fresh) {
                failure = Some(error);
            }
        };
        books.read(keep, progress);
        // What was not found is gone, if all could be looked at.
        if books.troubles.is_empty() && failure.is_none() {
            failure = forget(&mut self.database, &gone).err();
        }
        if let Some(error) = failure {
            let why = error.to_string();
            self.notices.push(Notice::NotKept { why });
        }
        books.ledger()
    }

    /// Begins with an empty catalogue where this one turns out to be damaged.
    fn begin_anew(&mut self, error: &rusqlite::Error) {
        let why = error.to_string();
        let Some(path) = self.database.path().map(PathBuf::from) else {
            return self.notices.push(Notice::NotKept { why });
        };
        if !is_damage(error) {
            return self.notices.push(Notice::NotKept { why });
        }
        match set_aside(&path).map_err(|error| error.to_string()) {
            Err(why) => self.notices.push(Notice::NotKept { why }),
            Ok(to) => {
                let why = format!("is damaged ({why})");
                self.notices.push(Notice::SetAside { to, why });
                match connect(&path) {
                    Ok(database) => self.database = database,
                    Err(refusal) => {
                        let why = refusal.error(&path).to_string();
                        self.notices.push(Notice::NotKept { why });
                    }
                }
            }
        }
    }
}

/// A file of which something is known, by the number of its root and its path within it.
type Name = (i64, Vec<u8>);

/// Tells logs what was read of them before. Both come in the order of their paths.
fn recall(
    database: &Connection,
    root: &Root,
    place: usize,
    books: &mut Books<'_>,
    gone: &mut Vec<Name>,
) -> rusqlite::Result<()> {
    let mut numbers = database.prepare("SELECT id FROM root WHERE layout = ?1 AND path = ?2")?;
    let path = absolute(&root.path);
    let mut numbers = numbers.query(params![root.layout.name(), path.as_os_str().as_bytes()])?;
    let Some(number) = numbers
        .next()?
        .map(|row| row.get::<_, i64>(0))
        .transpose()?
    else {
        return Ok(());
    };
    let mut query = database.prepare(
        "SELECT path, dev, ino, len, mtime, read, guard, whole, spent FROM file WHERE root = ?1 ORDER BY path",
    )?;
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

fn tab_of(row: &Row<'_>) -> rusqlite::Result<Option<Tab>> {
    // The numbers are unsigned; SQLite's are not.
    let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
    let (dev, ino) = (number(1)?, number(2)?);
    let mut guard = [0; 16];
    let bytes = row.get_ref(6)?.as_blob()?;
    guard
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    let whole = row.get(7)?;
    let sheet = tab::read(row.get_ref(8)?.as_blob()?);
    let id = FileId {
        dev,
        ino,
        len: number(3)?,
        mtime_ns: row.get::<_, i64>(4)?.into(),
    };
    let cursor = Cursor {
        dev,
        ino,
        offset: number(5)?,
        guard,
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
fn write(database: &mut Connection, fresh: &[(&Root, &FoundFile, &Tab)]) -> rusqlite::Result<()> {
    if fresh.is_empty() {
        return Ok(());
    }
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut insert = change.prepare(
            "INSERT OR REPLACE INTO file VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        let mut last: Option<(&Root, i64)> = None;
        // In the order of the table, which then grows at its end.
        let mut fresh: Vec<&(&Root, &FoundFile, &Tab)> = fresh.iter().collect();
        fresh.sort_unstable_by_key(|(_, file, _)| file.path.as_os_str());
        for (root, file, tab) in fresh {
            let number = match last {
                Some((known, number)) if std::ptr::eq(known, *root) => number,
                _ => number_of(&change, root)?,
            };
            last = Some((root, number));
            let Some(spent) = tab::spell(&tab.sheet) else {
                continue;
            };
            insert.execute(params![
                number,
                within(root, file),
                tab.id.dev as i64,
                tab.id.ino as i64,
                tab.id.len as i64,
                i64::try_from(tab.id.mtime_ns).unwrap_or_default(),
                tab.cursor.offset as i64,
                tab.cursor.guard,
                tab.whole,
                spent,
            ])?;
        }
    }
    change.commit()
}

fn number_of(database: &Connection, root: &Root) -> rusqlite::Result<i64> {
    let path = absolute(&root.path);
    let name = params![root.layout.name(), path.as_os_str().as_bytes()];
    database.execute(
        "INSERT OR IGNORE INTO root (layout, path) VALUES (?1, ?2)",
        name,
    )?;
    let select = "SELECT id FROM root WHERE layout = ?1 AND path = ?2";
    database.query_row(select, name, |row| row.get(0))
}

/// Forgets files that are gone.
fn forget(database: &mut Connection, gone: &[Name]) -> rusqlite::Result<()> {
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
enum Refusal {
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
    fn error(self, path: &Path) -> Error {
        let why = match self {
            Refusal::Unusable(why) => why,
            Refusal::Failed(error) => format!("cannot be opened ({error})"),
        };
        Error::refused(format!("the catalogue {} {why}", path.display()))
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
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

fn connect(path: &Path) -> std::result::Result<Connection, Refusal> {
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
        newer if newer > VERSION => {
            return Err(Refusal::Unusable("was made by a newer annals".to_owned()));
        }
        _ => {
            change.execute_batch(TABLES)?;
            change.pragma_update(None, "user_version", VERSION)?;
        }
    }
    change.commit()?;
    Ok(database)
}

/// Moves a database out of the way, with what SQLite keeps beside it.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let name = |number: u32| path.with_extension(format!("db.unusable-{number}"));
    let free = (1..).map(name).find(|name| !name.exists());
    let to = free.unwrap_or_else(|| name(0));
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
