//! Finds the current paths of archived files in their roots.

use std::collections::HashMap;
use std::path::PathBuf;

use super::pack_index::PackIndex;
use crate::store::{ReadFailures, Root, Store};
use annals_layouts::layout;
use annals_layouts::model::SessionId;

/// Finds archived files in their roots: at their original paths, or in the folder that theirs was
/// renamed to. A root is listed at most once, and only if a file is not at its original path.
#[derive(Debug, Default)]
pub struct FileLocator {
    failures: ReadFailures,
    roots: HashMap<(String, PathBuf), Logs>,
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

    /// Returns the receiver of read failures.
    pub(super) fn failures(&self) -> &ReadFailures {
        &self.failures
    }

    /// Returns the current path of each member of a pack, in order; `None` for a file that no
    /// longer exists.
    pub fn locate(&mut self, index: &PackIndex) -> Vec<Option<PathBuf>> {
        let members = index.members.iter();
        let mut places: Vec<Option<PathBuf>> = members
            .map(|member| self.existing(index.root.join(&member.path)))
            .collect();
        let layout = layout::by_name(&index.layout).filter(|_| !index.lone);
        let Some(layout) = layout.filter(|_| places.iter().any(Option::is_none)) else {
            return places;
        };
        self.read_logs(index);
        let key = (index.layout.clone(), index.root.clone());
        let Some(logs) = self.roots.get(&key) else {
            return places;
        };
        let logs = index.members.iter().filter_map(|member| {
            let log = layout.classify(&member.path);
            let log = log.filter(|_| index.is_session_log(&member.path))?;
            let now = logs.get(&(log.session?, member.dev, member.ino))?;
            Some((log.folder?, now.clone()))
        });
        let folders: HashMap<String, Option<String>> = logs.collect();
        for (place, member) in places.iter_mut().zip(&index.members) {
            let moved = || {
                let mut artifact = layout.classify(&member.path)?;
                artifact.folder = folders.get(artifact.folder.as_ref()?)?.clone();
                self.existing(index.root.join(layout.path_for(&artifact)))
            };
            if place.is_none() {
                *place = moved();
            }
        }
        places
    }

    fn read_logs(&mut self, index: &PackIndex) {
        let key = (index.layout.clone(), index.root.clone());
        self.roots.entry(key).or_insert_with(|| {
            // A path that is no root any more has no logs.
            let root = Root::new(&index.layout, &index.root);
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
