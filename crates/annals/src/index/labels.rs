//! Labels of some sessions: one query reads the rows of a root.
//!
//! A session without a current row is read. Nothing is saved, because the inventory may lack
//! sessions that still exist.

use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::Connection;

use crate::error::Result;
use crate::store::session_summary::{FolderSummary, SessionSummary};
use crate::store::{FolderHints, Inventory, Root, SessionFiles, SessionLabel, read_each};
use annals_layouts::model::EntryKey;

use super::Index;
use super::session_codec::{self, Names};
use super::sessions::{StoredRow, each_row, is_same, name};

impl Index {
    /// Returns the labels of sessions, given by inventory index, each once, like
    /// [`Sessions::labels`](crate::store::Sessions::labels). The inventory may be that of
    /// a [`StoreSearch`](super::StoreSearch).
    pub fn session_labels(
        &mut self,
        inventory: &Inventory,
        wanted: &[usize],
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<SessionLabel>> {
        let mut rows = LabelRows::new(inventory, wanted);
        if let Err(error) = rows.load(&self.database) {
            self.recreate(&error);
            rows = LabelRows::new(inventory, wanted);
        }
        rows.into_labels(wanted, progress)
    }
}

/// Rows of the wanted sessions, and the summaries in the logs of their folders.
struct LabelRows<'a> {
    inventory: &'a Inventory,
    wanted: HashSet<usize>,
    roots: Vec<&'a Root>,
    /// Sessions in the folders of the wanted ones, by root and name.
    neighbours: HashMap<(usize, SessionName<'a>), usize>,
    /// Sessions whose row is current.
    current: HashSet<usize>,
    /// Current rows of wanted sessions.
    facts: HashMap<usize, SessionSummary>,
    /// Summaries by root and folder, with the id of the session whose log has them.
    summaries: HashMap<Folder, Vec<(Vec<u8>, Summaries)>>,
}

/// Root and folder.
type Folder = (usize, Option<Vec<u8>>);

/// Id and folder.
type SessionName<'a> = (&'a [u8], Option<&'a [u8]>);

type Summaries = Vec<(EntryKey, Box<str>)>;

impl<'a> LabelRows<'a> {
    fn new(inventory: &'a Inventory, wanted: &[usize]) -> Self {
        let mut rows = LabelRows {
            inventory,
            wanted: wanted.iter().copied().collect(),
            roots: Vec::new(),
            neighbours: HashMap::new(),
            current: HashSet::new(),
            facts: HashMap::new(),
            summaries: HashMap::new(),
        };
        let mut folders = HashSet::new();
        for &at in wanted {
            if let Some(files) = inventory.sessions.get(at) {
                folders.insert(rows.folder(files));
            }
        }
        for (at, files) in inventory.sessions.iter().enumerate() {
            let mut roots = rows.roots.iter();
            let root = roots.position(|root| is_same(root, &files.root));
            if let Some(root) = root
                && folders.contains(&(root, name(files).1))
            {
                rows.neighbours.insert((root, name(files)), at);
            }
        }
        rows
    }

    fn root_number(&mut self, files: &'a SessionFiles) -> usize {
        let mut roots = self.roots.iter();
        let known = roots.position(|root| is_same(root, &files.root));
        known.unwrap_or_else(|| {
            self.roots.push(&files.root);
            self.roots.len() - 1
        })
    }

    fn folder(&mut self, files: &'a SessionFiles) -> (usize, Option<&'a [u8]>) {
        (self.root_number(files), name(files).1)
    }

    fn load(&mut self, database: &Connection) -> rusqlite::Result<()> {
        let mut names = Names::default();
        for (number, root) in self.roots.clone().into_iter().enumerate() {
            each_row(database, root, |row| self.add(number, row, &mut names))?;
        }
        Ok(())
    }

    fn add(&mut self, root: usize, row: &StoredRow<'_>, names: &mut Names) {
        let (id, folder) = row.session();
        let at = self.neighbours.get(&(root, (id, folder))).copied();
        let summaries = match at {
            // An inventory of a search has only the sessions that may match.
            None => session_codec::decode_summaries(row.facts),
            Some(at) => {
                let files = self.inventory.sessions.get(at);
                if !files.is_some_and(|files| row.is_current(files)) {
                    return;
                }
                self.current.insert(at);
                match self.wanted.contains(&at) {
                    false => session_codec::decode_summaries(row.facts),
                    true => {
                        let facts = session_codec::decode_without_charges(row.facts, names);
                        let summaries = facts.as_ref().map(|facts| facts.summaries.clone());
                        self.facts.extend(facts.map(|facts| (at, facts)));
                        summaries
                    }
                }
            }
        };
        if let Some(summaries) = summaries.filter(|summaries| !summaries.is_empty()) {
            let folder = self
                .summaries
                .entry((root, folder.map(<[u8]>::to_vec)))
                .or_default();
            folder.push((id.to_vec(), summaries));
        }
    }

    fn into_labels(
        mut self,
        wanted: &[usize],
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<SessionLabel>> {
        let inventory = self.inventory;
        let sessions = &inventory.sessions;
        let is_missing = |at: &&usize| !self.facts.contains_key(*at);
        let missing: Vec<usize> = wanted.iter().filter(is_missing).copied().collect();
        let files = missing.iter().filter_map(|&at| sessions.get(at));
        let files: Vec<&SessionFiles> = files.collect();
        let read = read_each(&files, progress, &|session| {
            SessionSummary::from_session(&session)
        });
        let mut read: HashMap<usize, Result<SessionSummary>> =
            missing.into_iter().zip(read).collect();
        let unread = self.neighbours.values().copied();
        let unread = unread.filter(|at| !self.current.contains(at));
        let unread: BTreeSet<usize> = unread.collect();
        let unread = FolderHints::new(unread.iter().filter_map(|&at| sessions.get(at)));
        let folders = std::mem::take(&mut self.summaries).into_iter();
        let folders: HashMap<(usize, Option<Vec<u8>>), FolderSummary> = folders
            .map(|(folder, summaries)| (folder, in_order(summaries)))
            .collect();
        let mut labels = Vec::with_capacity(wanted.len());
        for &at in wanted {
            let facts = self.facts.remove(&at).map(Ok).or_else(|| read.remove(&at));
            let (Some(files), Some(facts)) = (sessions.get(at), facts) else {
                continue;
            };
            let (root, folder) = self.folder(files);
            let folder = folders.get(&(root, folder.map(<[u8]>::to_vec)));
            labels.push(facts.map(|mut facts| {
                let title = folder.and_then(|it| it.title(&files.id, &facts.untitled_keys));
                if title.is_some() {
                    facts.title = title;
                    facts.untitled_keys.clear();
                }
                SessionLabel::new(files, facts, &unread)
            }));
        }
        labels
    }
}

/// Joins the summaries of a folder's logs in the order of their names: the last one of a leaf is
/// used.
fn in_order(mut summaries: Vec<(Vec<u8>, Summaries)>) -> FolderSummary {
    summaries.sort_by(|(one, _), (other, _)| one.cmp(other));
    let summaries = summaries.into_iter();
    FolderSummary::new(summaries.flat_map(|(_, summaries)| summaries).collect())
}
