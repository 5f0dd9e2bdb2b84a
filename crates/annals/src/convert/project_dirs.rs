//! Project directories of sessions whose records name none.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::store::{FolderHints, Session, SessionFiles};

/// Project directories that sessions take from other sessions in their folder.
pub(super) struct ProjectDirs<'a> {
    folders: HashMap<FolderKey, Vec<&'a SessionFiles>>,
    known: Mutex<HashMap<FolderKey, Option<String>>>,
}

type FolderKey = (PathBuf, Option<String>);

fn folder_key(files: &SessionFiles) -> FolderKey {
    (files.root.path.clone(), files.folder().map(str::to_owned))
}

impl<'a> ProjectDirs<'a> {
    pub(super) fn new(sessions: &'a [SessionFiles]) -> Self {
        let mut folders: HashMap<FolderKey, Vec<&SessionFiles>> = HashMap::new();
        for files in sessions {
            folders.entry(folder_key(files)).or_default().push(files);
        }
        ProjectDirs {
            folders,
            known: Mutex::default(),
        }
    }

    pub(super) fn fill_in(&self, session: &mut Session) {
        if !session.directories().is_empty() {
            return;
        }
        let place = folder_key(&session.files);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let home = known.entry(place.clone()).or_insert_with(|| {
            let folder = self.folders.get(&place).into_iter().flatten().copied();
            FolderHints::new(folder).directory(&session.files)
        });
        session.folder_directory.clone_from(home);
    }
}
