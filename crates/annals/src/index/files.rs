//! Table of files: what each file was like when it was last read, and what was read from it.
//!
//! A row has the identity of a file and a random id. The id stays as long as the file only grows; a
//! file that changed otherwise gets a new row with a new id. So everything that refers to an id (the
//! usage, the facts for listings, the documents of the full-text index) is valid for the beginning of
//! the file, up to the length that it was read to.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use serde::{Deserialize, Serialize};

use crate::store::content_cache::{ContentCache, StoredContent};
use crate::store::{Inventory, Root, RootFile, Store, is_stable};
use annals_jsonl::{Cursor, FileId, FileIdParts, ReadAt as _};
use annals_layouts::model::Framing;

use super::IndexDatabase;
use super::codec;
use super::database::{BUSY_TIMEOUT, new_number, number_of};
use super::text_store;

/// `latest` is the time of the last usage, in milliseconds since 1970, and `session` its session;
/// both select the usage of a poll. A search reads the states of all files from the index `state`: with
/// their usage, the rows are on many more pages.
pub(super) const TABLES: &str = "
    CREATE TABLE file (
        root INTEGER NOT NULL REFERENCES root,
        path BLOB NOT NULL,
        id INTEGER NOT NULL,
        state BLOB NOT NULL,
        content BLOB,
        latest INTEGER,
        session TEXT,
        usage BLOB,
        PRIMARY KEY (root, path)
    ) WITHOUT ROWID;
    CREATE INDEX recent ON file (root, latest);
    CREATE INDEX owner ON file (root, session);
    CREATE INDEX state ON file (root, path, id, state);
";

/// State of a file when it was last read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FileState {
    identity: FileIdParts,
    /// Whether any later change gives the file another identity.
    stable: bool,
    /// An offset, and a hash of the bytes before it.
    guard: (u64, [u8; 16]),
    /// The part whose text is indexed.
    pub(super) text: Option<TextMark>,
}

/// Part of a file whose text is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TextMark {
    /// Length of the file when it was read, or `end` if it is to be continued.
    pub(super) len: u64,
    /// End of the last complete line that was read.
    pub(super) end: u64,
    /// Number of lines up to there.
    pub(super) lines: u64,
    companion: Option<FileIdParts>,
}

impl TextMark {
    pub(super) fn new(file: &RootFile, len: u64, end: u64, lines: u64) -> Self {
        TextMark {
            len,
            end,
            lines,
            companion: file.companion_id().map(|id| id.parts()),
        }
    }

    /// Returns true if the companion file is as it was. It is part of the log's records.
    pub(super) fn is_companion_unchanged(&self, file: &RootFile) -> bool {
        let companion = self.companion.map(FileId::from_parts);
        // Only the length of the log matters here.
        let log = FileId {
            len: self.len,
            ..FileId::default()
        };
        file.is_companion_unchanged(companion.as_ref(), &log)
    }
}

/// Difference between a file and its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Unchanged,
    /// It may have grown; what was read of it is unchanged.
    Grown,
    Changed,
}

impl FileState {
    pub(super) fn identity(&self) -> FileId {
        FileId::from_parts(self.identity)
    }

    /// Compares a file as listed with its row. Reads up to 4 KiB of a file that has grown.
    pub(super) fn change(&self, file: &RootFile) -> Change {
        let identity = self.identity();
        let is_same = identity.untouched(&file.id);
        if is_same && self.stable {
            return Change::Unchanged;
        }
        // Derived lines may change anywhere.
        if file.artifact.framing != Framing::Lines {
            return Change::Changed;
        }
        let grew = identity.same_file(&file.id) && file.id.len > identity.len;
        let (offset, guard) = self.guard;
        let cursor = Cursor {
            dev: identity.dev,
            ino: identity.ino,
            offset,
            guard,
        };
        let is_valid = || {
            let handle = file.open().ok();
            handle.is_some_and(|handle| cursor.is_valid(&handle).unwrap_or(false))
        };
        match (is_same || grew) && is_valid() {
            true => Change::Grown,
            false => Change::Changed,
        }
    }
}

/// Row of a file.
pub(super) struct FileRow<'a> {
    pub(super) id: i64,
    pub(super) state: FileState,
    /// The requested column, if it is set.
    pub(super) data: Option<&'a [u8]>,
}

impl<'a> FileRow<'a> {
    /// Decodes `id, state, data`.
    /// Decodes a row whose first columns are the id, the state and the data.
    fn decode(root: i64, path: &[u8], row: &'a rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let id: i64 = row.get(0)?;
        let state = row.get_ref(1)?.as_blob()?;
        let state = codec::decode(&key(root, path, id), state).ok_or_else(text_store::damaged)?;
        let data = match row.get_ref(2)? {
            ValueRef::Null => None,
            data => codec::unseal(&id.to_le_bytes(), data.as_blob()?),
        };
        Ok(FileRow { id, state, data })
    }
}

/// Returns the key in the checksum of a state.
fn key(root: i64, path: &[u8], id: i64) -> Vec<u8> {
    [&root.to_le_bytes(), &id.to_le_bytes(), path].concat()
}

/// Returns the path of a file relative to its root.
pub(super) fn within<'a>(root: &Root, file: &'a RootFile) -> &'a [u8] {
    let path = file.path.as_os_str().as_bytes();
    let inside = path.strip_prefix(root.path.as_os_str().as_bytes());
    let inside = inside.unwrap_or(path);
    inside.strip_prefix(b"/").unwrap_or(inside)
}

/// Calls `take` for each row of a root, in the order of the paths, with the data in `column`.
pub(super) fn each(
    database: &Connection,
    root: &Root,
    column: &str,
    mut take: impl FnMut(&[u8], FileRow<'_>),
) -> rusqlite::Result<()> {
    let Some(number) = number_of(database, root)? else {
        return Ok(());
    };
    let select = "SELECT id, state, {column}, path FROM file WHERE root = ?1 ORDER BY path";
    let mut query = database.prepare(&select.replace("{column}", column))?;
    let mut rows = query.query([number])?;
    while let Some(row) = rows.next()? {
        let path = row.get_ref(3)?.as_blob()?;
        take(path, FileRow::decode(number, path, row)?);
    }
    Ok(())
}

/// Returns what `take` makes of the row of a file, if there is one.
fn load_one<T>(
    database: &Connection,
    root: i64,
    path: &[u8],
    column: &str,
    take: impl FnOnce(FileRow<'_>) -> T,
) -> rusqlite::Result<Option<T>> {
    let select = format!("SELECT id, state, {column} FROM file WHERE root = ?1 AND path = ?2");
    let mut query = database.prepare_cached(&select)?;
    let found = query.query_row(params![root, path], |row| {
        Ok(take(FileRow::decode(root, path, row)?))
    });
    found.optional()
}

/// Row of a file, as saved.
pub(super) struct SavedFile<'a> {
    root: i64,
    path: &'a [u8],
    pub(super) id: i64,
    pub(super) state: FileState,
}

/// Brings the row of a file that was read up to date. `cursor` is a position in it, and `listed` the
/// time in nanoseconds when it was listed, or before that.
///
/// Returns `None` if another process has seen a later state of the file.
pub(super) fn save<'a>(
    database: &Connection,
    root: i64,
    path: &'a [u8],
    file: &RootFile,
    cursor: &Cursor,
    listed: i64,
) -> rusqlite::Result<Option<SavedFile<'a>>> {
    let known = load_one(database, root, path, "NULL", |row| (row.id, row.state))?;
    let mut state = FileState {
        identity: file.id.parts(),
        stable: is_stable(file.id.ctime_ns, listed),
        guard: (cursor.offset, cursor.guard),
        text: None,
    };
    let id = match known {
        None => None,
        Some((id, known)) => match known.change(file) {
            Change::Changed if known.identity().ctime_ns > file.id.ctime_ns => return Ok(None),
            Change::Changed => {
                delete(database, root, path, id)?;
                None
            }
            Change::Unchanged | Change::Grown => {
                if known.guard.0 > cursor.offset {
                    state.guard = known.guard;
                }
                state.text = known.text;
                Some(id)
            }
        },
    };
    let saved = match id {
        Some(id) => SavedFile {
            root,
            path,
            id,
            state,
        },
        None => {
            let insert = "INSERT INTO file (root, path, id, state) VALUES (?1, ?2, ?3, x'')";
            let id = new_id(database)?;
            let mut insert = database.prepare_cached(insert)?;
            insert.execute(params![root, path, id])?;
            SavedFile {
                root,
                path,
                id,
                state,
            }
        }
    };
    saved.write_state(database)?;
    Ok(Some(saved))
}

/// Returns a random id; 0 means no file in the full-text index.
fn new_id(database: &Connection) -> rusqlite::Result<i64> {
    database.query_row("SELECT max(1, abs(random() / 2))", [], |row| row.get(0))
}

impl SavedFile<'_> {
    fn write_state(&self, database: &Connection) -> rusqlite::Result<()> {
        let key = key(self.root, self.path, self.id);
        let state = codec::encode(&key, &self.state).ok_or(rusqlite::Error::InvalidQuery)?;
        let update = "UPDATE file SET state = ?3 WHERE root = ?1 AND path = ?2";
        let mut update = database.prepare_cached(update)?;
        update.execute(params![self.root, self.path, state])?;
        Ok(())
    }

    /// Saves the part whose text is indexed.
    pub(super) fn set_text(
        &mut self,
        database: &Connection,
        mark: TextMark,
    ) -> rusqlite::Result<()> {
        self.state.text = Some(mark);
        self.write_state(database)
    }

    /// Saves the usage in the file.
    pub(super) fn set_usage(
        &self,
        database: &Connection,
        latest: i64,
        session: Option<&str>,
        usage: Vec<u8>,
    ) -> rusqlite::Result<()> {
        let usage = codec::seal(&self.id.to_le_bytes(), usage);
        let update = "UPDATE file SET latest = ?3, session = ?4, usage = ?5
                      WHERE root = ?1 AND path = ?2";
        let mut update = database.prepare_cached(update)?;
        let values = params![self.root, self.path, latest, session, usage];
        update.execute(values).map(|_| ())
    }

    fn set_content(&self, database: &Connection, content: Vec<u8>) -> rusqlite::Result<()> {
        let content = codec::seal(&self.id.to_le_bytes(), content);
        let update = "UPDATE file SET content = ?3 WHERE root = ?1 AND path = ?2";
        let mut update = database.prepare_cached(update)?;
        let values = params![self.root, self.path, content];
        update.execute(values).map(|_| ())
    }
}

/// Calls `take` for files with usage since some time and for all files of a session, with their paths
/// within the root.
pub(super) fn recent_usage(
    database: &Connection,
    root: &Root,
    since: i64,
    session: Option<&str>,
    mut take: impl FnMut(&[u8], FileRow<'_>),
) -> rusqlite::Result<()> {
    let Some(number) = number_of(database, root)? else {
        return Ok(());
    };
    const COLUMNS: &str = "SELECT id, state, usage, path FROM file";
    // Without the hint SQLite would scan all older rows.
    let own = "INDEXED BY owner WHERE root = ?1 AND session = ?3 AND latest < ?2";
    let own = session.map(|_| format!("{COLUMNS} {own}"));
    let recent = format!("{COLUMNS} WHERE root = ?1 AND latest >= ?2 AND ?3 IS ?3");
    for select in [Some(recent), own].into_iter().flatten() {
        let mut query = database.prepare(&select)?;
        let mut rows = query.query(params![number, since, session])?;
        while let Some(row) = rows.next()? {
            let path = row.get_ref(3)?.as_blob()?;
            take(path, FileRow::decode(number, path, row)?);
        }
    }
    Ok(())
}

/// Removes the row of a file, and its documents.
fn delete(database: &Connection, root: i64, path: &[u8], id: i64) -> rusqlite::Result<()> {
    text_store::delete_documents(database, id)?;
    let delete = "DELETE FROM file WHERE root = ?1 AND path = ?2 AND id = ?3";
    let mut delete = database.prepare_cached(delete)?;
    delete.execute(params![root, path, id]).map(|_| ())
}

/// Removes the rows of files that no longer exist, given by path and id.
pub(super) fn delete_gone(
    database: &mut Connection,
    root: &Root,
    gone: &[(Vec<u8>, i64)],
) -> rusqlite::Result<()> {
    if gone.is_empty() {
        return Ok(());
    }
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let root = new_number(&change, root)?;
    for (path, id) in gone {
        delete(&change, root, path, *id)?;
    }
    change.commit()
}

impl IndexDatabase {
    /// Returns all sessions in the roots of a store, archived ones included. Same result as
    /// [`Store::inventory`].
    pub(super) fn inventory(&mut self, store: &Store) -> Inventory {
        self.with_contents(|contents| store.inventory_with_cache(contents))
    }

    /// Calls `list` with the stored facts from the contents of files, and saves new ones.
    pub(super) fn with_contents<T>(&mut self, list: impl FnOnce(&mut dyn ContentCache) -> T) -> T {
        let listed = now();
        // One transaction: without it, each row would lock the database and check its cache.
        let reading = self.database.unchecked_transaction();
        let mut contents = Contents {
            database: &self.database,
            root: None,
            new: Vec::new(),
        };
        let found = list(&mut contents);
        let new = contents.new;
        drop(reading);
        if !new.is_empty() && !self.is_read_only() {
            // Do not wait for a lock: a later walk can save them.
            let _ = self.database.busy_timeout(Duration::ZERO);
            let _ = self.save_contents(&new, listed);
            let _ = self.database.busy_timeout(BUSY_TIMEOUT);
        }
        found
    }

    fn save_contents(&mut self, new: &[NewContent], listed: i64) -> rusqlite::Result<()> {
        let behavior = TransactionBehavior::Immediate;
        let change = self.database.transaction_with_behavior(behavior)?;
        for (root, file, cursor, content) in new {
            let number = new_number(&change, root)?;
            let path = within(root, file);
            if let Some(saved) = save(&change, number, path, file, cursor, listed)? {
                saved.set_content(&change, content.clone())?;
            }
        }
        change.commit()
    }
}

/// Returns the time in nanoseconds since 1970.
pub(super) fn now() -> i64 {
    Timestamp::now().as_nanosecond() as i64
}

/// Root, file, a position in it, and encoded facts.
type NewContent = (Root, RootFile, Cursor, Vec<u8>);

/// Stored facts from the contents of files, and new ones.
struct Contents<'a> {
    database: &'a Connection,
    /// The last root and its number.
    root: Option<(PathBuf, Option<i64>)>,
    new: Vec<NewContent>,
}

impl Contents<'_> {
    fn number_of(&mut self, root: &Root) -> Option<i64> {
        match &self.root {
            Some((path, number)) if *path == root.path => *number,
            _ => {
                let number = number_of(self.database, root).ok().flatten();
                self.root = Some((root.path.clone(), number));
                number
            }
        }
    }
}

impl ContentCache for Contents<'_> {
    fn get(&mut self, root: &Root, file: &RootFile) -> Option<StoredContent> {
        let number = self.number_of(root)?;
        let found = load_one(
            self.database,
            number,
            within(root, file),
            "content",
            |row| {
                let (len, facts): (u64, Vec<u8>) = postcard::from_bytes(row.data?).ok()?;
                // Facts from the time before a file grew are not those of the whole file.
                (row.state.change(file) != Change::Changed).then_some(StoredContent { facts, len })
            },
        );
        found.ok().flatten().flatten()
    }

    fn put(&mut self, root: &Root, file: &RootFile, facts: Vec<u8>) {
        let cursor = file.open().ok();
        let cursor = cursor.and_then(|log| {
            let end = match log.revision() {
                Some(_) => log.size().ok()?,
                None => file.id.len,
            };
            Cursor::with_id(&file.id, &log, end).ok()
        });
        let content = postcard::to_stdvec(&(file.id.len, facts)).ok();
        if let (Some(cursor), Some(content)) = (cursor, content) {
            self.new.push((root.clone(), file.clone(), cursor, content));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::path::Path;

    use annals_layouts::model::{Artifact, ArtifactKind};

    use super::super::database::connect;
    use super::*;

    const PATH: &[u8] = b"log.jsonl";

    /// Long after any file was changed.
    const LATER: i64 = i64::MAX;

    /// Returns an empty database with one root.
    fn database(dir: &Path) -> Connection {
        let database = connect(&dir.join("x.db")).ok().unwrap();
        assert_eq!(new_number(&database, &Root::claude_code(dir)), Ok(1));
        database
    }

    fn listed(dir: &Path) -> RootFile {
        let path = dir.join("log.jsonl");
        let id = FileId::from(&fs::metadata(&path).unwrap());
        RootFile::new(path, Artifact::new(ArtifactKind::SessionLog), id)
    }

    /// Saves the current state of the log, and returns the id of its row.
    fn saved(database: &Connection, file: &RootFile, at: i64) -> i64 {
        let cursor = Cursor::new(&file.open().unwrap(), file.id.len).unwrap();
        let saved = save(database, 1, PATH, file, &cursor, at).unwrap().unwrap();
        saved.id
    }

    fn row<T>(database: &Connection, take: impl FnOnce(FileRow<'_>) -> T) -> T {
        let row = load_one(database, 1, PATH, "usage", take);
        row.unwrap().unwrap()
    }

    #[test]
    fn file_keeps_its_id_only_while_it_grows() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(dir.path());
        let path = dir.path().join("log.jsonl");
        fs::write(&path, "one\ntwo\n").unwrap();
        let file = listed(dir.path());
        let id = saved(&database, &file, LATER);
        let change = |file: &RootFile| row(&database, |row| row.state.change(file));
        assert_eq!(change(&file), Change::Unchanged);
        let usage = |bytes: &[u8]| {
            let (root, path) = (1, PATH);
            let (id, state) = row(&database, |row| (row.id, row.state));
            let saved = SavedFile {
                root,
                path,
                id,
                state,
            };
            saved.set_usage(&database, 0, None, bytes.to_vec()).unwrap();
        };
        usage(b"usage");
        let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
        log.write_all(b"three\n").unwrap();
        let grown = listed(dir.path());
        assert_eq!(change(&grown), Change::Grown);
        assert_eq!(saved(&database, &grown, LATER), id);
        assert!(row(&database, |row| row.data == Some(b"usage")));
        // The list of another process is older than the row.
        assert_eq!(change(&file), Change::Changed);
        // Longer, but with other bytes before its old end.
        fs::write(&path, "ONE\nTWO\nTHREE\nFOUR\n").unwrap();
        let changed = listed(dir.path());
        assert_eq!(change(&changed), Change::Changed);
        let next = saved(&database, &changed, LATER);
        assert_ne!(next, id);
        assert!(row(&database, |row| row.data.is_none()));
        fs::write(&path, "ONE\n").unwrap();
        let cut = listed(dir.path());
        assert_eq!(change(&cut), Change::Changed);
        assert_ne!(saved(&database, &cut, LATER), next);
        assert_eq!(change(&cut), Change::Unchanged);
    }

    /// A file that was changed a moment before it was listed may change again without a new time.
    #[test]
    fn file_of_an_unstable_time_is_compared_again() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(dir.path());
        fs::write(dir.path().join("log.jsonl"), "one\n").unwrap();
        let file = listed(dir.path());
        saved(&database, &file, file.id.ctime_ns);
        row(&database, |row| {
            assert_eq!(row.state.change(&file), Change::Grown);
            let mut state = row.state.clone();
            state.guard.1 = [7; 16];
            assert_eq!(state.change(&file), Change::Changed);
        });
    }

    /// The documents of another file must not be taken for those of this one.
    #[test]
    fn row_with_a_wrong_id_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(dir.path());
        fs::write(dir.path().join("log.jsonl"), "one\n").unwrap();
        saved(&database, &listed(dir.path()), LATER);
        database.execute("UPDATE file SET id = id + 1", []).unwrap();
        let found = load_one(&database, 1, PATH, "NULL", |row| row.id);
        assert!(found.is_err());
    }
}
