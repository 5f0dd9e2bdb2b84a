//! What the logs of one folder know of each other.
//!
//! A client writes the summary of one session into another's log, and a log may not say which
//! directory it is about while its neighbours do. Only the beginning of each log is read, where the
//! client puts such lines, and each folder once.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use crate::model::Key;

use super::inventory::SessionFiles;
use super::listing::Homes;
use super::log::{Opening, summary_key};
use super::session::Session;

/// The folders of some sessions, read as they are asked for.
#[derive(Debug)]
pub struct Neighbours<'a> {
    sessions: HashMap<Place, Vec<&'a SessionFiles>>,
    folders: RefCell<HashMap<Place, Rc<Folder<'a>>>>,
    /// The ids in logs that were read whole.
    ids: RefCell<HashMap<PathBuf, Rc<HashSet<Key>>>>,
}

type Place = (PathBuf, Option<String>);

/// What the logs of a folder tell about its sessions.
#[derive(Debug, Default)]
struct Folder<'a> {
    /// Summaries by their keys, each with the session in whose log it stands.
    summaries: HashMap<Key, Vec<(&'a SessionFiles, Box<str>)>>,
    /// The directory that the folder is named after, if there is no doubt.
    home: Option<String>,
}

impl<'a> Neighbours<'a> {
    /// Sorts sessions by folder; nothing is read yet.
    pub fn of(sessions: impl IntoIterator<Item = &'a SessionFiles>) -> Self {
        let mut sorted: HashMap<Place, Vec<&'a SessionFiles>> = HashMap::new();
        for files in sessions {
            sorted.entry(place(files)).or_default().push(files);
        }
        Neighbours {
            sessions: sorted,
            folders: RefCell::default(),
            ids: RefCell::default(),
        }
    }

    /// The directory that a session's folder is named after, if there is no doubt.
    pub(crate) fn home(&self, files: &SessionFiles) -> Option<String> {
        self.folder(files).home.clone()
    }

    /// Finds the summaries in other logs of the folder for some entries of a session.
    ///
    /// A summary whose leaf is in its own log counts there only, and one that names a session for that
    /// session only. Of several for one leaf, the last counts.
    pub(super) fn summaries(
        &self,
        files: &SessionFiles,
        keys: impl Iterator<Item = Key>,
    ) -> HashMap<Key, Box<str>> {
        let folder = self.folder(files);
        let mut found = HashMap::new();
        for leaf in keys.filter(|_| !folder.summaries.is_empty()) {
            let last = |key: Key| {
                let mut all = folder.summaries.get(&key)?.iter().rev();
                all.find(|(source, _)| !self.ids(source).contains(&leaf))
            };
            let named = last(summary_key(files.id.as_str(), leaf));
            if let Some((_, text)) = named.or_else(|| last(leaf)) {
                found.insert(leaf, text.clone());
            }
        }
        found
    }

    /// The ids of the entries in a session's log. Read only where a summary was found in it.
    fn ids(&self, files: &SessionFiles) -> Rc<HashSet<Key>> {
        let path = files.main_path();
        if let Some(known) = self.ids.borrow().get(path) {
            return Rc::clone(known);
        }
        let session = files.root.failures.ok(Session::read(files.clone()));
        let main = session.as_ref().and_then(Session::main);
        let outlines = main.into_iter().flat_map(|(_, scan, _)| &scan.outlines);
        let ids: Rc<HashSet<Key>> = Rc::new(outlines.filter_map(|outline| outline.key).collect());
        let mut all = self.ids.borrow_mut();
        all.insert(path.to_owned(), Rc::clone(&ids));
        ids
    }

    /// What the folder of a session tells.
    fn folder(&self, files: &SessionFiles) -> Rc<Folder<'a>> {
        let place = place(files);
        if let Some(known) = self.folders.borrow().get(&place) {
            return Rc::clone(known);
        }
        let mut summaries: HashMap<Key, Vec<_>> = HashMap::new();
        let mut homes = Homes::default();
        for files in self.sessions.get(&place).into_iter().flatten() {
            let Some(file) = &files.log else { continue };
            let opening = Opening::read(&files.root, file);
            let opening = files.root.failures.ok(opening).unwrap_or_default();
            for summary in opening.summaries {
                let same = summaries.entry(summary.key).or_default();
                same.push((*files, summary.text));
            }
            homes.add(files.root.layout, files.folder(), &opening.directories);
        }
        let folder = Rc::new(Folder {
            summaries,
            home: homes.only(),
        });
        self.folders.borrow_mut().insert(place, Rc::clone(&folder));
        folder
    }
}

fn place(files: &SessionFiles) -> Place {
    (files.root.path.clone(), files.folder().map(str::to_owned))
}
