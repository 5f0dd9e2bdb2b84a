//! Caches for walking roots, and the updates to store.

use super::Root;
use super::inventory::DirCache;
use super::log_owners::{LogOwner, OwnerCache};
use super::shared_log::SliceCache;

/// Stored caches of roots. They change the speed of answers, not their content.
pub(crate) trait CacheSource {
    /// Owners of logs whose path does not contain the session.
    fn owners(&self, root: &Root) -> Vec<LogOwner>;

    /// Encoded slices of shared logs.
    fn slices(&self, root: &Root) -> Vec<u8>;

    /// Encoded directory listings.
    fn dirs(&self, root: &Root) -> Vec<u8>;
}

/// Caches for one walk over the roots.
pub(crate) struct WalkCache<'a> {
    source: Option<&'a dyn CacheSource>,
    pub(super) owners: OwnerCache<'a>,
    pub(super) slices: SliceCache<'a>,
    /// Directory listings that differ from the stored ones.
    dir_updates: Vec<(Root, Vec<u8>)>,
}

/// Cache entries that are not stored yet.
pub(crate) struct CacheUpdates {
    pub(crate) owners: Vec<(Root, Vec<LogOwner>)>,
    pub(crate) slices: Vec<(Root, Vec<u8>)>,
    pub(crate) dirs: Vec<(Root, Vec<u8>)>,
}

impl<'a> WalkCache<'a> {
    /// Creates empty caches that are not stored.
    pub(crate) fn disabled() -> Self {
        WalkCache {
            source: None,
            owners: OwnerCache::disabled(),
            slices: SliceCache::disabled(),
            dir_updates: Vec::new(),
        }
    }

    /// Creates caches filled from a source.
    pub(crate) fn new(recall: &'a dyn CacheSource) -> Self {
        WalkCache {
            source: Some(recall),
            owners: OwnerCache::new(|root| recall.owners(root)),
            slices: SliceCache::new(|root| recall.slices(root)),
            dir_updates: Vec::new(),
        }
    }

    /// Walks a root with its cached directory listings.
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

    /// Returns the cache entries to store.
    pub(crate) fn into_updates(self) -> CacheUpdates {
        CacheUpdates {
            owners: self.owners.updates,
            slices: self.slices.updates,
            dirs: self.dir_updates,
        }
    }
}
