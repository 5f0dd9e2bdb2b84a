//! Storage of the charges of logs: one row per file.
//!
//! A row has the file's identity, the offset up to which it was read, and a hash of the bytes
//! before that offset. An unchanged file costs a `stat`, a grown one its new bytes. A file that was
//! truncated, replaced or touched is read again. Logs are read in the order of the table, so that
//! it grows at its end.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use jiff::Timestamp;
use rusqlite::{Connection, Row, TransactionBehavior, params};

use crate::cost::LogCharges;
use crate::store::usage_collector::{LogUsage, UsageCollector};
use crate::store::{Root, RootFile};
use annals_jsonl::{Cursor, FileId};
use annals_layouts::model::SessionId;

use super::charge_codec::Names;
use super::database::{grow_cache, new_number, number_of, within};
use super::usage_codec::{self, EncodedUsage};

pub(super) const TABLES: &str = "
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

/// Columns read for every file. The last one is long, and is read only where needed.
const COLUMNS: &str =
    "SELECT path, dev, ino, len, mtime, ctime, read, guard, whole, sum, spent FROM file";

/// Key of a stored file: the number of its root and its path within it.
pub(super) type Name = (i64, Vec<u8>);

/// Loads stored charges of a root into the collector; with `changed_only`, only those of files that
/// changed since. Rows and logs are both sorted by path.
pub(super) fn load(
    database: &Connection,
    root: &Root,
    place: usize,
    books: &mut UsageCollector<'_>,
    gone: &mut Vec<Name>,
    changed_only: bool,
) -> rusqlite::Result<()> {
    let Some(number) = number_of(database, root)? else {
        return Ok(());
    };
    let mut query = database.prepare(&format!("{COLUMNS} WHERE root = ?1 ORDER BY path"))?;
    let mut rows = query.query([number])?;
    let names = RefCell::default();
    let logs = books.root_range(place);
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
            books.mark_unchanged(at);
        } else {
            remember(row, at, books, &names)?;
        }
    }
    Ok(())
}

/// Loads the stored charges of one log.
fn remember(
    row: &Row<'_>,
    at: usize,
    books: &mut UsageCollector<'_>,
    names: &RefCell<Names>,
) -> rusqlite::Result<()> {
    let Some((known, spelled)) = known_of(row, names)? else {
        return Ok(());
    };
    let same = known.whole
        && books
            .file(at)
            .is_some_and(|file| known.id.untouched(&file.id));
    if !(same && books.add_stored(at, &spelled))
        && let Some(sheet) = spelled.log_charges()
    {
        books.set_stored(at, known.with(sheet));
    }
    Ok(())
}

/// Returns true if a file was read to its end and is unchanged since.
fn is_same(row: &Row<'_>, id: &FileId) -> bool {
    let known = id_of(row).is_ok_and(|known| known.untouched(id));
    known && row.get(8).unwrap_or(false)
}

fn id_of(row: &Row<'_>) -> rusqlite::Result<FileId> {
    // SQLite integers are signed; these numbers are unsigned.
    let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
    Ok(FileId {
        dev: number(1)?,
        ino: number(2)?,
        len: number(3)?,
        mtime_ns: row.get(4)?,
        ctime_ns: row.get(5)?,
    })
}

/// Checksum of a row.
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

/// Stored state of a file, without its charges.
struct Known {
    id: FileId,
    cursor: Cursor,
    whole: bool,
}

impl Known {
    fn with(self, sheet: LogCharges) -> LogUsage {
        LogUsage {
            id: self.id,
            cursor: self.cursor,
            charges: sheet,
            no_later_usage: self.whole,
        }
    }
}

/// Decodes a row; a row with a wrong checksum is ignored.
fn known_of<'a>(
    row: &'a Row<'_>,
    names: &'a RefCell<Names>,
) -> rusqlite::Result<Option<(Known, EncodedUsage<'a>)>> {
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
    if row.get::<_, i64>(9)? != sum(&id, &cursor, whole, spent) {
        return Ok(None);
    }
    let known = Known { id, cursor, whole };
    Ok(EncodedUsage::new(spent, names).map(|spelled| (known, spelled)))
}

fn tab_of(row: &Row<'_>) -> rusqlite::Result<Option<LogUsage>> {
    let names = RefCell::default();
    let known = known_of(row, &names)?;
    Ok(known.and_then(|(known, spelled)| Some(known.with(spelled.log_charges()?))))
}

/// Saves the charges of logs.
pub(super) fn write(
    database: &mut Connection,
    fresh: &[(&Root, &RootFile, &LogUsage)],
) -> rusqlite::Result<()> {
    if fresh.is_empty() {
        return Ok(());
    }
    // A few rows fit in the default cache.
    if fresh.len() > 50 {
        grow_cache(database)?;
    }
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        // For a REPLACE, SQLite would first copy every page that it touches.
        let mut delete = change.prepare("DELETE FROM file WHERE root = ?1 AND path = ?2")?;
        let mut insert = change.prepare(
            "INSERT INTO file VALUES
                 (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?;
        let mut last: Option<(&Root, i64)> = None;
        // In table order, so that the table grows at its end.
        let mut fresh: Vec<&(&Root, &RootFile, &LogUsage)> = fresh.iter().collect();
        fresh.sort_unstable_by_key(|(_, file, _)| file.path.as_os_str());
        for (root, file, tab) in fresh {
            let number = match last {
                Some((known, number)) if std::ptr::eq(known, *root) => number,
                _ => new_number(&change, root)?,
            };
            last = Some((root, number));
            let Some(spent) = usage_codec::encode(&tab.charges) else {
                continue;
            };
            // The session named by the path, or by the log itself.
            let named = file.artifact.session.as_ref().map(SessionId::as_str);
            let session = named.or(tab.charges.first.as_deref());
            let latest = tab.charges.latest_charge().map(Timestamp::as_millisecond);
            // A log without charges may get some soon, so its mtime is used instead.
            let latest = latest.unwrap_or(tab.id.mtime_ns / 1_000_000);
            let sum = sum(&tab.id, &tab.cursor, tab.no_later_usage, &spent);
            let values = params![
                number,
                within(root, file),
                tab.id.dev as i64,
                tab.id.ino as i64,
                tab.id.len as i64,
                tab.id.mtime_ns,
                tab.id.ctime_ns,
                tab.cursor.offset as i64,
                tab.cursor.guard,
                tab.no_later_usage,
                latest,
                session,
                sum,
                spent,
            ];
            match insert.execute(values) {
                Err(error) if is_known(&error) => {
                    delete.execute(params![number, within(root, file)])?;
                    insert.execute(values)?;
                }
                written => drop(written?),
            }
        }
    }
    change.commit()
}

/// Returns true if the row already exists.
fn is_known(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}

/// Returns the stored usage of files with charges since some time and of all files of a session,
/// with their paths within the root.
pub(super) fn recent(
    database: &Connection,
    root: &Root,
    since: i64,
    session: Option<&SessionId>,
) -> rusqlite::Result<Vec<(PathBuf, LogUsage)>> {
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
    // Without the hint SQLite would scan all older rows.
    let mut query = database.prepare(&format!(
        "{COLUMNS} INDEXED BY owner WHERE root = ?1 AND session = ?2 AND latest < ?3"
    ))?;
    let mut rows = query.query(params![number, session.as_str(), since])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(found)
}

/// Removes the rows of files that no longer exist.
pub(super) fn delete(database: &mut Connection, gone: &[Name]) -> rusqlite::Result<()> {
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
