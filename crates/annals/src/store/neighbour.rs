//! What the logs of one folder know of each other.
//!
//! A client writes the summary of one session into another's log, and a log may not say which
//! directory it is about while its neighbours do. Only the beginning of each log is read, where the
//! client puts such lines, and each folder once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use crate::model::Key;

use super::inventory::SessionFiles;
use super::listing::Homes;
use super::log::Opening;

/// The folders of some sessions, read as they are asked for.
#[derive(Debug)]
pub struct Neighbours<'a> {
    sessions: HashMap<Place, Vec<&'a SessionFiles>>,
    folders: RefCell<HashMap<Place, Rc<Folder>>>,
}

type Place = (PathBuf, Option<String>);

/// What the logs of a folder tell about its sessions.
#[derive(Debug, Default)]
pub(super) struct Folder {
    /// Summaries, by the leaf they name.
    pub(super) summaries: Arc<HashMap<Key, Box<str>>>,
    /// The directory that the folder is named after, if there is no doubt.
    pub(super) home: Option<String>,
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
        }
    }

    /// The directory that a session's folder is named after, if there is no doubt.
    pub(crate) fn home(&self, files: &SessionFiles) -> Option<String> {
        self.folder(files).home.clone()
    }

    /// What the folder of a session tells.
    pub(super) fn folder(&self, files: &SessionFiles) -> Rc<Folder> {
        let place = place(files);
        if let Some(known) = self.folders.borrow().get(&place) {
            return Rc::clone(known);
        }
        let mut summaries = HashMap::new();
        let mut homes = Homes::default();
        for files in self.sessions.get(&place).into_iter().flatten() {
            let Some(file) = &files.log else { continue };
            let opening = Opening::read(&files.root, file).unwrap_or_default();
            summaries.extend(opening.summaries);
            homes.add(files.root.layout, files.folder(), &opening.directories);
        }
        let folder = Rc::new(Folder {
            summaries: Arc::new(summaries),
            home: homes.only(),
        });
        self.folders.borrow_mut().insert(place, Rc::clone(&folder));
        folder
    }
}

fn place(files: &SessionFiles) -> Place {
    (files.root.path.clone(), files.folder().map(str::to_owned))
}
