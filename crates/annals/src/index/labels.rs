//! Labels of some sessions, from their rows and those of the other sessions in their folders.
//!
//! A session without a current row is read. Nothing is saved.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;

use rusqlite::Connection;

use crate::error::Result;
use crate::store::session_summary::{FolderSummary, SessionSummary};
use crate::store::{FolderHints, Inventory, Root, SessionFiles, SessionLabel, read_each};
use annals_layouts::model::EntryKey;

use super::IndexDatabase;
use super::database::number_of;
use super::session_rows::{self, SortedSessions, is_same, load_one_of_root};

impl IndexDatabase {
    /// Returns the labels of sessions, given by inventory index, each once, like
    /// [`Sessions::labels`](crate::store::Sessions::labels).
    pub(super) fn session_labels(
        &mut self,
        inventory: &Inventory,
        wanted: &[usize],
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<SessionLabel>> {
        let sessions = &inventory.sessions;
        let mut summaries = self.summaries(inventory, wanted.iter().copied());
        let is_missing = |at: &&usize| !summaries.contains_key(*at);
        let missing: Vec<usize> = wanted.iter().filter(is_missing).copied().collect();
        let files = missing.iter().filter_map(|&at| sessions.get(at));
        let read = read_each(&files.collect::<Vec<_>>(), progress, &|session| {
            SessionSummary::from_session(&session)
        });
        let mut read: HashMap<usize, Result<SessionSummary>> =
            missing.into_iter().zip(read).collect();
        let mut folders = Folders::default();
        let files = wanted.iter().filter_map(|&at| sessions.get(at));
        folders.wanted.extend(files.map(folder));
        if let Err(error) = folders.load(&self.database, inventory) {
            self.recreate(&error);
            folders.summaries.clear();
            folders.unread = (0..sessions.len()).collect();
        }
        let unread = folders.unread.iter().filter_map(|&at| sessions.get(at));
        let unread = FolderHints::new(unread);
        let mut labels = Vec::with_capacity(wanted.len());
        for &at in wanted {
            let summary = summaries.remove(&at).map(Ok);
            let summary = summary.or_else(|| read.remove(&at));
            let (Some(files), Some(summary)) = (sessions.get(at), summary) else {
                continue;
            };
            let folder = folders.summaries.get(&folder(files));
            labels.push(summary.map(|mut summary| {
                let title = folder.and_then(|it| it.title(&files.id, &summary.untitled_keys));
                if title.is_some() {
                    summary.title = title;
                    summary.untitled_keys.clear();
                }
                SessionLabel::new(files, summary, &unread)
            }));
        }
        labels
    }

    /// Returns the summaries of those sessions that have a current row, without their charges.
    pub(super) fn summaries(
        &mut self,
        inventory: &Inventory,
        wanted: impl Iterator<Item = usize>,
    ) -> HashMap<usize, SessionSummary> {
        stored_summaries(&self.database, inventory, wanted).unwrap_or_else(|error| {
            self.recreate(&error);
            HashMap::new()
        })
    }
}

/// Returns the summaries of those sessions that have a current row, without their charges.
pub(super) fn stored_summaries(
    database: &Connection,
    inventory: &Inventory,
    wanted: impl Iterator<Item = usize>,
) -> rusqlite::Result<HashMap<usize, SessionSummary>> {
    let mut found = HashMap::new();
    for at in wanted {
        let Some(files) = inventory.sessions.get(at) else {
            continue;
        };
        let load = |row: &session_rows::SessionRow<'_>| row.summary_without_charges();
        let summary = session_rows::load_one(database, files, load)?;
        found.extend(summary.map(|summary| (at, summary)));
    }
    Ok(found)
}

/// Root and folder of a session.
type Folder<'a> = (&'a OsStr, &'static str, Option<&'a str>);

fn folder(files: &SessionFiles) -> Folder<'_> {
    (
        files.root.path.as_os_str(),
        files.root.layout.name(),
        files.folder(),
    )
}

/// What the logs of some folders say about other sessions.
#[derive(Default)]
struct Folders<'a> {
    wanted: HashSet<Folder<'a>>,
    summaries: HashMap<Folder<'a>, FolderSummary>,
    /// Sessions of these folders without a current row.
    unread: BTreeSet<usize>,
}

impl<'a> Folders<'a> {
    fn load(&mut self, database: &Connection, inventory: &'a Inventory) -> rusqlite::Result<()> {
        // Else each row would be a transaction, with locks.
        let database = database.unchecked_transaction()?;
        let sessions = &inventory.sessions;
        let mut roots: Vec<&Root> = Vec::new();
        for files in sessions {
            let is_wanted = self.wanted.contains(&folder(files));
            if is_wanted && !roots.iter().any(|root| is_same(root, &files.root)) {
                roots.push(&files.root);
            }
        }
        // In the order of the sessions: the last summary of a leaf is used.
        let mut found: HashMap<Folder<'a>, Vec<(EntryKey, Box<str>)>> = HashMap::new();
        for root in roots {
            let number = number_of(&database, root)?;
            // One by one: most rows are those of other folders, and a row has all charges of a session.
            for (at, files) in SortedSessions::new(root, sessions).list {
                if !self.wanted.contains(&folder(files)) {
                    continue;
                }
                let summaries = match number {
                    Some(number) => load_one_of_root(&database, number, files, |row| {
                        Some(row.summaries().collect::<Vec<_>>())
                    })?,
                    None => None,
                };
                match summaries {
                    None => {
                        self.unread.insert(at);
                    }
                    Some(summaries) if summaries.is_empty() => {}
                    Some(summaries) => found.entry(folder(files)).or_default().extend(summaries),
                }
            }
        }
        let found = found.into_iter();
        self.summaries = found
            .map(|(folder, summaries)| (folder, FolderSummary::new(summaries)))
            .collect();
        Ok(())
    }
}
