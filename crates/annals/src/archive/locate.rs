//! Finds the current paths of archived files in their roots.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::archive_format::archived_session::ArchivedSession;
use crate::store::{ReadFailures, Root, Store};
use annals_layouts::model::SessionId;

/// Finds archived files in their roots: at their original paths, or in the folder that theirs was
/// renamed to. A root is listed at most once, and only if a file is not at its original path.
#[derive(Debug, Default)]
pub struct FileLocator {
    failures: ReadFailures,
    roots: HashMap<(&'static str, PathBuf), Logs>,
}

/// Session logs by session id, device and inode, with their folders.
type Logs = HashMap<(SessionId, u64, u64), Option<String>>;

impl FileLocator {
    /// Reports files that cannot be read to `failures`.
    pub fn reporting_to(failures: &ReadFailures) -> Self {
        FileLocator {
            failures: failures.clone(),
            roots: HashMap::new(),
        }
    }

    /// Returns the current path of each file of an archived session, in order; `None` for a file that no
    /// longer exists.
    pub fn locate(&mut self, session: &ArchivedSession) -> Vec<Option<PathBuf>> {
        let members = session.members.iter();
        let mut places: Vec<Option<PathBuf>> = members
            .map(|member| self.existing(session.root.join(&member.path)))
            .collect();
        if session.lone || places.iter().all(Option::is_some) {
            return places;
        }
        let layout = session.archive.layout;
        self.read_logs(session);
        let key = (session.layout, session.root.clone());
        let Some(logs) = self.roots.get(&key) else {
            return places;
        };
        let logs = session.members.iter().filter_map(|member| {
            let log = layout.classify(&member.path);
            let log = log.filter(|_| session.is_session_log(&member.path))?;
            let now = logs.get(&(log.session?, member.dev, member.ino))?;
            Some((log.folder?, now.clone()))
        });
        let folders: HashMap<String, Option<String>> = logs.collect();
        for (place, member) in places.iter_mut().zip(&session.members) {
            let moved = || {
                let mut artifact = layout.classify(&member.path)?;
                artifact.folder = folders.get(artifact.folder.as_ref()?)?.clone();
                self.existing(session.root.join(layout.path_for(&artifact)))
            };
            if place.is_none() {
                *place = moved();
            }
        }
        places
    }

    fn read_logs(&mut self, session: &ArchivedSession) {
        let key = (session.layout, session.root.clone());
        self.roots.entry(key).or_insert_with(|| {
            // A path that is no root any more has no logs.
            let root = Root::new(session.layout, &session.root);
            let store = Store::new(root.into_iter().collect()).reporting_to(&self.failures);
            let sessions = store.inventory_without_archive();
            let logs = sessions.sessions.iter().flat_map(|files| {
                let id = files.id.clone();
                let logs = files.logs();
                logs.map(move |log| {
                    let folder = log.artifact.folder.clone();
                    ((id.clone(), log.id.dev, log.id.ino), folder)
                })
            });
            logs.collect()
        });
    }

    fn existing(&self, path: PathBuf) -> Option<PathBuf> {
        let found = self.failures.metadata(&path);
        found.is_some().then_some(path)
    }
}
