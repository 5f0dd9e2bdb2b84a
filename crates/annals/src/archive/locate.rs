//! Where the files of packs lie now.

use std::collections::HashMap;
use std::path::PathBuf;

use super::pack_index::PackIndex;
use crate::layout;
use crate::model::SessionId;
use crate::store::{ReadFailures, Root, Store};

/// Finds the files of packs in their roots: in their places, or in the folder that theirs was renamed to.
/// What a root holds is looked up once, and only if something is not in its place.
#[derive(Debug, Default)]
pub struct FileLocator {
    failures: ReadFailures,
    roots: HashMap<(String, PathBuf), Logs>,
}

/// The logs of sessions that are there, by what tells that one is the same file, with their folders.
type Logs = HashMap<(SessionId, u64, u64), Option<String>>;

impl FileLocator {
    /// Reports what cannot be looked at to `failures`.
    pub fn reporting_to(failures: &ReadFailures) -> Self {
        FileLocator {
            failures: failures.clone(),
            roots: HashMap::new(),
        }
    }

    /// Where it reports what cannot be read.
    pub(super) fn failures(&self) -> &ReadFailures {
        &self.failures
    }

    /// Where each file of a pack lies, in the order of its members; none for those that are gone.
    pub fn locate(&mut self, index: &PackIndex) -> Vec<Option<PathBuf>> {
        let members = index.members.iter();
        let mut places: Vec<Option<PathBuf>> = members
            .map(|member| self.there(index.root.join(&member.path)))
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
                self.there(index.root.join(layout.path_for(&artifact)))
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
            // What is no root any more holds nothing.
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

    fn there(&self, path: PathBuf) -> Option<PathBuf> {
        let found = self.failures.metadata(&path);
        found.is_some().then_some(path)
    }
}
