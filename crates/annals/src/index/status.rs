//! What the catalogue knows, beside what there is; and all of it brought up to date.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::Connection;

use crate::error::{Error, Result};
use crate::jsonl::FileId;
use crate::store::{Inventory, Root, RootFile, Store};

use super::Index;
use super::coverage::RootTexts;
use super::database::{number_of, within};
use super::location;
use super::sessions::{self, RowState, SortedSessions, is_same};
use super::text_store;

/// What a catalogue knows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexStatus {
    /// The version of its form.
    pub version: u32,
    /// What it knows of each root.
    pub roots: Vec<RootStatus>,
}

/// What a catalogue knows of a root.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RootStatus {
    /// The layout's name.
    pub layout: &'static str,
    /// The root.
    pub path: PathBuf,
    /// How many logs it has.
    pub files: usize,
    /// How many sessions they are of.
    pub sessions: usize,
    /// The bytes of those logs.
    pub bytes: u64,
    /// What is known of them.
    pub parts: Vec<PartStatus>,
}

/// One of the things that a catalogue knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartStatus {
    /// What it is about.
    pub name: &'static str,
    /// How many logs or sessions are as they were when they were read.
    pub current: usize,
    /// How many have changed since.
    pub stale: usize,
    /// How many there are.
    pub total: usize,
    /// The bytes of logs that need not be read again.
    pub bytes: u64,
}

impl PartStatus {
    fn new(name: &'static str, total: usize) -> Self {
        PartStatus {
            name,
            current: 0,
            stale: 0,
            total,
            bytes: 0,
        }
    }

    /// How many were never read.
    pub fn missing(&self) -> usize {
        self.total.saturating_sub(self.current + self.stale)
    }

    fn count(&mut self, same: bool, bytes: u64) {
        match same {
            true => {
                self.current += 1;
                self.bytes += bytes;
            }
            false => self.stale += 1,
        }
    }
}

/// What each part tells of a root.
type PartCheck = fn(&Connection, &Root, &Inventory) -> rusqlite::Result<PartStatus>;

/// The parts of the catalogue.
const PARTS: [PartCheck; 3] = [usage, sessions, words];

impl Index {
    /// What it knows, beside what there is. Nothing is read but names, times and lengths.
    pub fn status(&self, store: &Store, inventory: &Inventory) -> Result<IndexStatus> {
        let failed = |error: rusqlite::Error| {
            Error::refused(format!("the catalogue cannot be read ({error})"))
        };
        let mut roots = Vec::new();
        for root in store.roots() {
            let parts = PARTS
                .iter()
                .map(|look| look(&self.database, root, inventory));
            let logs = logs(root, inventory);
            roots.push(RootStatus {
                layout: root.layout.name(),
                path: root.path.clone(),
                files: logs.len(),
                sessions: SortedSessions::new(root, &inventory.sessions).all().count(),
                bytes: logs.values().map(|id| id.len).sum(),
                parts: parts.collect::<rusqlite::Result<_>>().map_err(failed)?,
            });
        }
        let version = location::version();
        Ok(IndexStatus { version, roots })
    }

    /// Brings all parts up to date. `progress` hears of the part, of bytes done and of bytes in all;
    /// who is interrupted goes on where it was the next time.
    ///
    /// Gives what could not be read.
    pub fn update(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        progress: &(dyn Fn(&'static str, u64, u64) + Sync),
    ) -> Vec<Error> {
        let (_, mut troubles) =
            self.ledger(store, &|done, total| progress("spending", done, total));
        let told = |done, total| progress("sessions", done, total);
        let rows = self.sessions(store, inventory, &told);
        troubles.extend(rows.into_iter().filter_map(Result::err));
        let told = |done, total| progress("words", done, total);
        troubles.extend(self.index_text(inventory, &told, &|| false));
        troubles
    }
}

/// What logs spent: a row for each log.
fn usage(
    database: &Connection,
    root: &Root,
    inventory: &Inventory,
) -> rusqlite::Result<PartStatus> {
    let mut logs = logs(root, inventory);
    let mut part = PartStatus::new("spending", logs.len());
    let Some(number) = number_of(database, root)? else {
        return Ok(part);
    };
    let mut query = database.prepare(
        "SELECT path, dev, ino, len, mtime, ctime FROM file WHERE root = ?1 ORDER BY path",
    )?;
    let mut rows = query.query([number])?;
    while let Some(row) = rows.next()? {
        let Some(id) = logs.remove(row.get_ref(0)?.as_blob()?) else {
            continue;
        };
        let known = FileId {
            dev: row.get::<_, i64>(1)? as u64,
            ino: row.get::<_, i64>(2)? as u64,
            len: row.get::<_, i64>(3)? as u64,
            mtime_ns: row.get(4)?,
            ctime_ns: row.get(5)?,
        };
        part.count(known.untouched(&id), id.len);
    }
    Ok(part)
}

/// What sessions and conversations are: a row for each session.
fn sessions(
    database: &Connection,
    root: &Root,
    inventory: &Inventory,
) -> rusqlite::Result<PartStatus> {
    let sorted = SortedSessions::new(root, &inventory.sessions);
    let mut part = PartStatus::new("sessions", sorted.all().count());
    sessions::load(database, &sorted, false, |_, files, met| {
        part.count(matches!(met, RowState::Same(_)), files.log_bytes());
    })?;
    Ok(part)
}

/// The words of logs and notes.
fn words(
    database: &Connection,
    root: &Root,
    inventory: &Inventory,
) -> rusqlite::Result<PartStatus> {
    let texts = RootTexts::from_inventory(inventory);
    let texts = texts.iter().find(|texts| is_same(texts.root, root));
    let files = texts.map_or(&[][..], |texts| &texts.files);
    let mut part = PartStatus::new("words", files.len());
    let Some(number) = number_of(database, root)? else {
        return Ok(part);
    };
    let marks = text_store::marks(database, number)?;
    for file in files {
        if let Some((_, mark)) = marks.get(within(root, file)) {
            part.count(mark.id.untouched(&file.id), file.id.len);
        }
    }
    Ok(part)
}

/// The logs of a root that hold conversations, each once, by their paths within it.
fn logs<'a>(root: &Root, inventory: &'a Inventory) -> BTreeMap<&'a [u8], FileId> {
    let sessions = inventory.sessions.iter();
    let sessions = sessions.filter(|files| is_same(&files.root, root));
    let logs = sessions
        .flat_map(|files| files.logs())
        .flat_map(RootFile::volumes);
    let others = inventory.others.iter();
    let others =
        others.filter(|(other, file)| is_same(other, root) && file.artifact.kind.is_conversation());
    let all = logs.chain(others.map(|(_, file)| file));
    all.map(|file| (within(root, file), file.id)).collect()
}
