//! Reports how much of a store is indexed, and updates all parts of the index.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::Connection;

use crate::error::{Error, Result};
use crate::store::{Inventory, Root, RootFile, Store};
use annals_jsonl::FileId;

use super::IndexDatabase;
use super::files::{self, within};
use super::location;
use super::session_rows::{self, SortedSessions, is_same};
use super::text_files::RootTexts;
use super::usage;

/// Contents of an index.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexStatus {
    /// Schema version.
    pub version: u32,
    /// Status of each root.
    pub roots: Vec<RootStatus>,
}

/// Index status of a root.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RootStatus {
    /// Name of the layout.
    pub layout: &'static str,
    /// Path of the root.
    pub path: PathBuf,
    /// Number of logs.
    pub files: usize,
    /// Number of sessions in those logs.
    pub sessions: usize,
    /// Size of those logs in bytes.
    pub bytes: u64,
    /// Status of each part of the index.
    pub parts: Vec<PartStatus>,
}

/// Status of one part of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartStatus {
    /// Name of the part.
    pub name: &'static str,
    /// Number of logs or sessions that are unchanged since they were read.
    pub current: usize,
    /// Number that changed since.
    pub stale: usize,
    /// Number of logs or sessions in total.
    pub total: usize,
    /// Size in bytes of the logs that need not be read again.
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

    /// Returns the number that was never read.
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

/// Computes the status of one part for a root.
type PartCheck = fn(&Connection, &Root, &Inventory) -> rusqlite::Result<PartStatus>;

/// Parts of the index.
const PARTS: [PartCheck; 3] = [usage_status, session_status, text_status];

impl IndexDatabase {
    /// Compares the index with the store. Reads no file contents.
    pub(super) fn status(&self, store: &Store, inventory: &Inventory) -> Result<IndexStatus> {
        let failed =
            |error: rusqlite::Error| Error::refused(format!("the index cannot be read ({error})"));
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
                sessions: SortedSessions::new(root, &inventory.sessions).list.len(),
                bytes: logs.values().map(|id| id.len).sum(),
                parts: parts.collect::<rusqlite::Result<_>>().map_err(failed)?,
            });
        }
        let version = location::version();
        Ok(IndexStatus { version, roots })
    }

    /// Updates all parts of the index. `progress` receives the part, the bytes done and the total.
    /// An interrupted update resumes where it stopped.
    ///
    /// Returns read errors.
    pub(super) fn update(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        progress: &(dyn Fn(&'static str, u64, u64) + Sync),
    ) -> Vec<Error> {
        let (_, mut troubles) =
            self.ledger(store, &|done, total| progress("spending", done, total));
        let set_progress = |done, total| progress("sessions", done, total);
        let rows = self.sessions(store, inventory, &set_progress);
        troubles.extend(rows.into_iter().filter_map(Result::err));
        let set_progress = |done, total| progress("words", done, total);
        troubles.extend(self.index_text(inventory, &set_progress, &|| false));
        troubles
    }
}

/// Status of the charges: a row for each log.
fn usage_status(
    database: &Connection,
    root: &Root,
    inventory: &Inventory,
) -> rusqlite::Result<PartStatus> {
    let mut logs = logs(root, inventory);
    let mut part = PartStatus::new("spending", logs.len());
    files::each(database, root, "usage", |path, row| {
        if row.data.is_some()
            && let Some(id) = logs.remove(path)
        {
            let len = usage::stored_len(&row);
            part.count(
                len == Some(id.len) && row.state.identity().untouched(&id),
                id.len,
            );
        }
    })?;
    Ok(part)
}

/// Status of the session rows: a row for each session.
fn session_status(
    database: &Connection,
    root: &Root,
    inventory: &Inventory,
) -> rusqlite::Result<PartStatus> {
    let sorted = SortedSessions::new(root, &inventory.sessions);
    let mut part = PartStatus::new("sessions", sorted.list.len());
    session_rows::load(database, &sorted, |_, files, row| {
        part.count(row.is_current(files), files.log_bytes());
    })?;
    Ok(part)
}

/// Status of the full-text index of logs and notes.
fn text_status(
    database: &Connection,
    root: &Root,
    inventory: &Inventory,
) -> rusqlite::Result<PartStatus> {
    let texts = RootTexts::from_inventory(inventory);
    let texts = texts.iter().find(|texts| is_same(texts.root, root));
    let files = texts.map_or(&[][..], |texts| &texts.files);
    let mut part = PartStatus::new("words", files.len());
    let ids = files.iter().map(|file| (within(root, file), file.id));
    let ids: BTreeMap<&[u8], FileId> = ids.collect();
    files::each(database, root, "NULL", |path, row| {
        if let (Some(mark), Some(id)) = (row.state.text, ids.get(path)) {
            let is_same = mark.len == id.len && row.state.identity().untouched(id);
            part.count(is_same, id.len);
        }
    })?;
    Ok(part)
}

/// Returns the conversation logs of a root, each once, by their path within it.
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
