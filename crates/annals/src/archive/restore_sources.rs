//! Finds what a session is restored from, and the paths it is restored to.
//!
//! If the folder of a session was renamed since it was archived, its files are listed under the new
//! name (`store/archive_overlay.rs`), and restored to it.

use std::path::{Path, PathBuf};

use super::find::only;
use crate::archive_format::archived_session::ArchivedSession;
use crate::error::Result;
use crate::store::{Root, SessionFiles, Store};

impl Store {
    /// Finds the archived session to restore, limited to `roots` if given.
    ///
    /// If sessions of several folders have the id, the one that still exists is meant. If the session
    /// is in a folder from which nothing was archived yet, because the folder was renamed, its files
    /// get their new paths. What is named by its path is restored to its original paths.
    pub fn find_to_restore(&self, id: &str, roots: Option<&[Root]>) -> Result<ArchivedSession> {
        let archive = self.archive()?;
        let found = archive.matching(id, roots)?;
        let Some(root) = common_root(&found, id) else {
            return only(id, found);
        };
        let sessions = Store::new(vec![root.clone()])
            .reporting_to(self.failures())
            .inventory_without_archive()
            .sessions;
        let mut living = sessions.iter().filter(|files| {
            let named = |it: &ArchivedSession| it.has_session(files.id.as_str());
            found.iter().any(named)
        });
        let is_of = |files: &SessionFiles, it: &ArchivedSession| {
            let log = it.main_log().map(|main| root.path.join(&main.path));
            Some(files.main_path()) == log.as_deref()
        };
        let own: Vec<&ArchivedSession> = found
            .iter()
            .filter(|it| living.clone().any(|files| is_of(files, it)))
            .collect();
        match (own.as_slice(), living.next(), living.next()) {
            ([own], ..) => Ok((*own).clone()),
            ([], Some(files), None) => {
                let mut moved: Vec<ArchivedSession> =
                    found.iter().filter_map(|it| it.moved_to(files)).collect();
                moved.sort_by_key(ArchivedSession::archived);
                moved.pop().map_or_else(|| only(id, found), Ok)
            }
            _ => only(id, found),
        }
    }
}

/// Returns the root of sessions that were found by an id; `None` for logs outside any tree, for files
/// that belong to no session, and for a path.
fn common_root(found: &[ArchivedSession], id: &str) -> Option<Root> {
    let first = found.first()?;
    let same = |other: &ArchivedSession| {
        (other.layout, &other.root, other.lone) == (first.layout, &first.root, false)
            && !other.has_no_session()
            && other.matches_id(id)
    };
    let root = Root::with_layout(first.archive.layout, &first.root);
    found.iter().all(same).then_some(root)
}

impl ArchivedSession {
    /// Returns it with paths in the session's current folder, if its log is the same file as the
    /// session's.
    fn moved_to(&self, files: &SessionFiles) -> Option<Self> {
        let log = files.logs().next()?;
        let layout = files.root.layout;
        let was = self.members.iter().find_map(|member| {
            let same = (member.dev, member.ino) == (log.id.dev, log.id.ino);
            let is_log = self.is_session_log(&member.path) && same;
            layout.classify(&member.path).filter(|_| is_log)
        });
        let was = was.filter(|was| was.session.as_ref() == Some(&files.id))?;
        let place = |path: &Path| -> Option<PathBuf> {
            let mut artifact = layout.classify(path)?;
            if artifact.folder.is_none() || artifact.folder != was.folder {
                return None;
            }
            artifact.folder.clone_from(&log.artifact.folder);
            Some(layout.path_for(&artifact))
        };
        let mut session = self.clone();
        for member in session.members.iter_mut().chain(&mut session.earlier) {
            if let Some(now) = place(&member.path) {
                session.moved.insert(now.clone(), member.path.clone());
                member.path = now;
            }
        }
        Some(session)
    }
}
