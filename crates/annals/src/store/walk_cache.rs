//! What is known of roots from before, and what there is to remember of them.

use super::Root;
use super::inventory::DirCache;
use super::log_owners::{LogOwner, OwnerCache};
use super::shared_log::SliceCache;

/// What somebody remembers of roots. Whatever it is, answers are the same; they come sooner.
pub(crate) trait CacheSource {
    /// Whose logs are where only their contents tell.
    fn owners(&self, root: &Root) -> Vec<LogOwner>;

    /// Whose the stretches of shared logs are, as it was learnt.
    fn slices(&self, root: &Root) -> Vec<u8>;

    /// What directories held, as it was learnt.
    fn dirs(&self, root: &Root) -> Vec<u8>;
}

/// What is remembered while roots are gone through.
pub(crate) struct WalkCache<'a> {
    source: Option<&'a dyn CacheSource>,
    pub(super) owners: OwnerCache<'a>,
    pub(super) slices: SliceCache<'a>,
    /// What directories hold, where that is not what was known.
    dir_updates: Vec<(Root, Vec<u8>)>,
}

/// What is not remembered yet.
pub(crate) struct CacheUpdates {
    pub(crate) owners: Vec<(Root, Vec<LogOwner>)>,
    pub(crate) slices: Vec<(Root, Vec<u8>)>,
    pub(crate) dirs: Vec<(Root, Vec<u8>)>,
}

impl<'a> WalkCache<'a> {
    /// Nothing is known, and nothing is to be remembered.
    pub(crate) fn disabled() -> Self {
        WalkCache {
            source: None,
            owners: OwnerCache::disabled(),
            slices: SliceCache::disabled(),
            dir_updates: Vec::new(),
        }
    }

    /// What someone remembers.
    pub(crate) fn new(recall: &'a dyn CacheSource) -> Self {
        WalkCache {
            source: Some(recall),
            owners: OwnerCache::new(|root| recall.owners(root)),
            slices: SliceCache::new(|root| recall.slices(root)),
            dir_updates: Vec::new(),
        }
    }

    /// Goes through a root with what is known of its directories.
    pub(super) fn with_dirs<T>(
        &mut self,
        root: &Root,
        walk: impl FnOnce(&mut DirCache<'_>) -> T,
    ) -> T {
        let Some(recall) = self.source else {
            return walk(&mut DirCache::disabled());
        };
        let known = recall.dirs(root);
        let mut folders = DirCache::decode(&known);
        let walked = walk(&mut folders);
        let found = folders.encode();
        if *found != known {
            self.dir_updates.push((root.clone(), found.into_owned()));
        }
        walked
    }

    /// What there is to remember.
    pub(crate) fn into_updates(self) -> CacheUpdates {
        CacheUpdates {
            owners: self.owners.updates,
            slices: self.slices.updates,
            dirs: self.dir_updates,
        }
    }
}
