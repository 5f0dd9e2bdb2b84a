//! Titles and directories of sessions from other logs of the same folder.
//!
//! A client writes the summary of one session into another session's log. A log may lack the
//! working directory that other logs of the folder record. Only the beginning of each log is read,
//! where the client writes such lines, and each folder once.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use annals_layouts::model::EntryKey;

use super::inventory::SessionFiles;
use super::log_reader::{LogOpening, summary_key};
use super::session::Session;
use super::session_summary::FolderDirectories;

/// Folders of sessions, read on demand.
#[derive(Debug)]
pub struct FolderHints<'a> {
    sessions: HashMap<FolderKey, Vec<&'a SessionFiles>>,
    folders: RefCell<HashMap<FolderKey, Rc<FolderContents<'a>>>>,
    /// Entry ids of logs that were read completely.
    ids: RefCell<HashMap<PathBuf, Rc<HashSet<EntryKey>>>>,
}

type FolderKey = (PathBuf, Option<String>);

/// Facts from the logs of a folder about its sessions.
#[derive(Debug, Default)]
struct FolderContents<'a> {
    /// Summaries by key, with the session whose log contains them.
    summaries: HashMap<EntryKey, Vec<(&'a SessionFiles, Box<str>)>>,
    /// The directory that the folder is named after, if unambiguous.
    directory: Option<String>,
}

impl<'a> FolderHints<'a> {
    /// Groups sessions by folder, without reading them.
    pub fn new(sessions: impl IntoIterator<Item = &'a SessionFiles>) -> Self {
        let mut sorted: HashMap<FolderKey, Vec<&'a SessionFiles>> = HashMap::new();
        for files in sessions {
            sorted.entry(folder_key(files)).or_default().push(files);
        }
        FolderHints {
            sessions: sorted,
            folders: RefCell::default(),
            ids: RefCell::default(),
        }
    }

    /// Returns the directory that a session's folder is named after, if unambiguous.
    pub(crate) fn directory(&self, files: &SessionFiles) -> Option<String> {
        self.folder(files).directory.clone()
    }

    /// Finds summaries of a session's entries in other logs of the folder.
    ///
    /// Ignores a summary for other sessions if its own log contains the leaf, or if it names
    /// another session. If a leaf has several summaries, the last one is used.
    pub(super) fn summaries(
        &self,
        files: &SessionFiles,
        keys: impl Iterator<Item = EntryKey>,
    ) -> HashMap<EntryKey, Box<str>> {
        let folder = self.folder(files);
        let mut found = HashMap::new();
        for leaf in keys.filter(|_| !folder.summaries.is_empty()) {
            let last = |key: EntryKey| {
                let mut all = folder.summaries.get(&key)?.iter().rev();
                all.find(|(source, _)| !self.entry_ids(source).contains(&leaf))
            };
            let named = last(summary_key(files.id.as_str(), leaf));
            if let Some((_, text)) = named.or_else(|| last(leaf)) {
                found.insert(leaf, text.clone());
            }
        }
        found
    }

    /// Returns the entry ids in a session's log. Called only for logs that contain a matching
    /// summary.
    fn entry_ids(&self, files: &SessionFiles) -> Rc<HashSet<EntryKey>> {
        let path = files.main_path();
        if let Some(known) = self.ids.borrow().get(path) {
            return Rc::clone(known);
        }
        let session = files.root.failures.ok(Session::read(files.clone()));
        let main = session.as_ref().and_then(Session::main_log);
        let outlines = main.into_iter().flat_map(|(_, scan, _)| &scan.outlines);
        let ids: Rc<HashSet<EntryKey>> =
            Rc::new(outlines.filter_map(|outline| outline.key).collect());
        let mut all = self.ids.borrow_mut();
        all.insert(path.to_owned(), Rc::clone(&ids));
        ids
    }

    /// Reads the folder of a session, once.
    fn folder(&self, files: &SessionFiles) -> Rc<FolderContents<'a>> {
        let place = folder_key(files);
        if let Some(known) = self.folders.borrow().get(&place) {
            return Rc::clone(known);
        }
        let mut summaries: HashMap<EntryKey, Vec<_>> = HashMap::new();
        let mut directories = FolderDirectories::default();
        for files in self.sessions.get(&place).into_iter().flatten() {
            let Some(file) = &files.log else { continue };
            let opening = LogOpening::read(&files.root, file);
            let opening = files.root.failures.ok(opening).unwrap_or_default();
            for summary in opening.summaries {
                let same = summaries.entry(summary.key).or_default();
                same.push((*files, summary.text));
            }
            directories.add(files.root.layout, files.folder(), &opening.directories);
        }
        let folder = Rc::new(FolderContents {
            summaries,
            directory: directories.unique(),
        });
        self.folders.borrow_mut().insert(place, Rc::clone(&folder));
        folder
    }
}

fn folder_key(files: &SessionFiles) -> FolderKey {
    (files.root.path.clone(), files.folder().map(str::to_owned))
}
