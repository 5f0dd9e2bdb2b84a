//! What the catalogue knows, beside what there is; and all of it brought up to date.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::Connection;

use crate::error::{Error, Result};
use crate::jsonl::FileId;
use crate::store::{FoundFile, Inventory, Root, Store};

use super::Catalogue;
use super::covered::Texts;
use super::database::{number_of, within};
use super::place;
use super::rows::{self, Met, Sorted, is_same};
use super::words;

/// What a catalogue knows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
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
    pub parts: Vec<Part>,
}

/// One of the things that a catalogue knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
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

impl Part {
    fn new(name: &'static str, total: usize) -> Self {
        Part {
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
type Look = fn(&Connection, &Root, &Inventory) -> rusqlite::Result<Part>;

/// The parts of the catalogue.
const PARTS: [Look; 3] = [spending, sessions, words];

impl Catalogue {
    /// What it knows, beside what there is. Nothing is read but names, times and lengths.
    pub fn status(&self, store: &Store, inventory: &Inventory) -> Result<Status> {
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
                sessions: Sorted::of(root, &inventory.sessions).all().count(),
                bytes: logs.values().map(|id| id.len).sum(),
                parts: parts.collect::<rusqlite::Result<_>>().map_err(failed)?,
            });
        }
        let version = place::version();
        Ok(Status { version, roots })
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
        troubles.extend(self.learn(inventory, &told, &|| false));
        troubles
    }
}

/// What logs spent: a row for each log.
fn spending(database: &Connection, root: &Root, inventory: &Inventory) -> rusqlite::Result<Part> {
    let mut logs = logs(root, inventory);
    let mut part = Part::new("spending", logs.len());
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
fn sessions(database: &Connection, root: &Root, inventory: &Inventory) -> rusqlite::Result<Part> {
    let sorted = Sorted::of(root, &inventory.sessions);
    let mut part = Part::new("sessions", sorted.all().count());
    rows::recall(database, &sorted, false, |_, files, met| {
        part.count(matches!(met, Met::Same(_)), files.log_bytes());
    })?;
    Ok(part)
}

/// The words of logs and notes.
fn words(database: &Connection, root: &Root, inventory: &Inventory) -> rusqlite::Result<Part> {
    let texts = Texts::of(inventory);
    let texts = texts.iter().find(|texts| is_same(texts.root, root));
    let files = texts.map_or(&[][..], |texts| &texts.files);
    let mut part = Part::new("words", files.len());
    let Some(number) = number_of(database, root)? else {
        return Ok(part);
    };
    let marks = words::marks(database, number)?;
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
        .flat_map(FoundFile::volumes);
    let others = inventory.others.iter();
    let others =
        others.filter(|(other, file)| is_same(other, root) && file.artifact.kind.is_conversation());
    let all = logs.chain(others.map(|(_, file)| file));
    all.map(|file| (within(root, file), file.id)).collect()
}
