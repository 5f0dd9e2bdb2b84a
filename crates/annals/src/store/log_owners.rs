//! Owners of logs whose paths name no session: old sub-agent logs are next to the session logs.

use std::collections::HashMap;

use annals_jsonl::FileId;
use annals_layouts::model::SessionId;

use super::Root;
use super::inventory::{RootFile, session_from_content};

/// The identity of a log when it was read, and the session that its content names.
pub(crate) type LogOwner = (FileId, Option<SessionId>);

/// Loads the cached owners of a root's logs.
type StoredOwners<'a> = dyn FnMut(&Root) -> Vec<LogOwner> + 'a;

/// Cache of log owners. A history has thousands of such logs, and most of them never change.
pub(crate) struct OwnerCache<'a> {
    /// Loads the cached owners of a root's logs.
    stored: Box<StoredOwners<'a>>,
    /// Cached owners of the current root, by device and inode.
    known: Option<HashMap<(u64, u64), LogOwner>>,
    /// Owners of the current root that were requested.
    asked: Vec<LogOwner>,
    /// Whether some of them were not cached.
    fresh: bool,
    /// Owners to save.
    pub(crate) updates: Vec<(Root, Vec<LogOwner>)>,
}

impl<'a> OwnerCache<'a> {
    /// Creates an empty cache.
    pub(crate) fn disabled() -> Self {
        OwnerCache::new(|_| Vec::new())
    }

    /// Creates a cache that loads the owners of a root with `recall`, on demand.
    pub(crate) fn new(recall: impl FnMut(&Root) -> Vec<LogOwner> + 'a) -> Self {
        OwnerCache {
            stored: Box::new(recall),
            known: None,
            asked: Vec::new(),
            fresh: false,
            updates: Vec::new(),
        }
    }

    /// Returns the session that a log of the root names.
    pub(super) fn owner(&mut self, root: &Root, file: &RootFile) -> Option<SessionId> {
        let known = self.known.get_or_insert_with(|| {
            let stored = (self.stored)(root).into_iter();
            stored
                .map(|owned| ((owned.0.dev, owned.0.ino), owned))
                .collect()
        });
        let stored = known.remove(&(file.id.dev, file.id.ino));
        let owned = match stored.filter(|(id, _)| id.untouched(&file.id)) {
            Some(owned) => owned,
            None => {
                let before = root.failures.report_count();
                let session = session_from_content(root, file);
                if root.failures.report_count() != before {
                    // The log may become readable without a change to its identity.
                    return session;
                }
                self.fresh = true;
                (file.id, session)
            }
        };
        let owner = owned.1.clone();
        self.asked.push(owned);
        owner
    }

    /// Completes a root after all its logs were requested.
    pub(super) fn finish_root(&mut self, root: &Root) {
        self.known = None;
        let asked = std::mem::take(&mut self.asked);
        if std::mem::take(&mut self.fresh) {
            self.updates.push((root.clone(), asked));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals_layouts::model::{Artifact, ArtifactKind};

    #[test]
    fn owner_cache_returns_updates_only_for_roots_with_new_logs() {
        let dir = tempfile::tempdir().unwrap();
        let session = SessionId::new("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee").unwrap();
        let roots = ["one", "other"].map(|name| Root::claude_code(dir.path().join(name)));
        let id = |ino: u64| FileId {
            ino,
            len: 7,
            ..FileId::default()
        };
        let file = |ino: u64| {
            let path = dir.path().join(format!("agent-{ino}.jsonl"));
            RootFile::new(path, Artifact::new(ArtifactKind::AgentLog), id(ino))
        };
        let mut asked = Vec::new();
        let mut owners = OwnerCache::new(|root| {
            asked.push(root.path.clone());
            vec![(id(1), Some(session.clone()))]
        });
        // All logs of the first root are cached; one of the second is not.
        assert_eq!(owners.owner(&roots[0], &file(1)), Some(session.clone()));
        owners.finish_root(&roots[0]);
        assert!(owners.updates.is_empty());
        assert_eq!(owners.owner(&roots[1], &file(1)), Some(session.clone()));
        assert_eq!(owners.owner(&roots[1], &file(2)), None);
        owners.finish_root(&roots[1]);
        let learnt: Vec<_> = owners
            .updates
            .iter()
            .map(|(root, all)| (root.path.clone(), all.len()))
            .collect();
        assert_eq!(learnt, [(roots[1].path.clone(), 2)]);
        drop(owners);
        assert_eq!(asked, roots.map(|root| root.path));
    }
}
