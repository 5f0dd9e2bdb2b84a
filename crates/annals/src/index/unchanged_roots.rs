//! Fast search in unchanged roots: builds only the sessions that have candidates.
//!
//! Applies only if every root consists of its own files: shared logs, session lists or archived
//! sessions in one root make the search build the whole inventory.

use std::collections::HashSet;
use std::time::Duration;

use rusqlite::Connection;

use crate::error::Result;
use crate::search::{Expr, Filter, Matcher, Query, SearchResults, SearchRun};
use crate::store::walk_cache::WalkCache;
use crate::store::{Inventory, Root, RootSnapshot, Store, encode_root_snapshot};

use super::Index;
use super::coverage::{Coverage, RootTexts};
use super::database::{BUSY_TIMEOUT, number_of, with_small_cache};
use super::fingerprint::Fingerprint;
use super::root_cache::{load_blob, save_blob};
use super::search::{Candidates, can_use_index, candidates, plans};
use super::sessions::is_same;
use super::text_store;

/// Result of a search in a store.
#[derive(Debug)]
#[non_exhaustive]
pub struct StoreSearch {
    /// Sessions with hits, and all other sessions with the same ids.
    pub inventory: Inventory,
    /// Search results.
    pub found: SearchResults,
    /// Snapshots of the roots, if the inventory is not complete.
    unchanged_roots: Vec<Vec<u8>>,
}

impl StoreSearch {
    /// Creates the result of a search in a complete inventory.
    pub fn new(inventory: Inventory, found: SearchResults) -> Self {
        StoreSearch {
            inventory,
            found,
            unchanged_roots: Vec::new(),
        }
    }

    /// Returns the ids of all sessions in the store.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let stills = self
            .unchanged_roots
            .iter()
            .filter_map(|data| still_of(data));
        let ids = stills.flat_map(|(_, still)| still.ids());
        let sessions = self.inventory.sessions.iter();
        let all = sessions.filter(|_| self.unchanged_roots.is_empty());
        ids.chain(all.map(|files| files.id.as_str()))
    }
}

impl Index {
    /// Searches all sessions of a store.
    ///
    /// Same result as [`search`](Self::search) on an [`inventory`](Self::inventory), but faster if
    /// no file of the roots changed since their text was indexed.
    pub fn search_all(&mut self, store: &Store, query: &Query) -> Result<StoreSearch> {
        let matcher = Matcher::new(&query.expr)?;
        let can_be_still =
            can_use_index(&matcher) && !asks_neighbours(&query.expr) && none_kept(store);
        if can_be_still {
            let ready = with_small_cache(&mut self.database, |database| {
                ready(database, store, &matcher)
            });
            match ready {
                Ok(Some(ready)) => {
                    self.text_outdated = false;
                    return Ok(ready.run(query, matcher));
                }
                Ok(None) => {}
                Err(error) => self.recreate(&error),
            }
        }
        let inventory = self.inventory(store);
        let found = self.search(&inventory, query)?;
        if can_be_still && !self.text_outdated {
            self.save_unchanged_roots(store.roots(), &inventory);
        }
        Ok(StoreSearch::new(inventory, found))
    }

    /// Saves snapshots of fully indexed roots, which are valid until the roots change.
    pub(super) fn save_unchanged_roots(&self, roots: &[Root], inventory: &Inventory) {
        if self.is_read_only() || !inventory.is_complete() {
            return;
        }
        // Do not wait for a lock: a later search can save them.
        let _ = self.database.busy_timeout(Duration::ZERO);
        let all = RootTexts::from_inventory(inventory);
        for root in roots {
            let texts = all.iter().find(|texts| is_same(texts.root, root));
            let state = texts.map_or_else(|| state_of_nothing(root), RootTexts::fingerprint);
            let folders = load_blob(&self.database, "folders", root).unwrap_or_default();
            if let Some(still) = encode_root_snapshot(root, inventory, &folders) {
                let spelled = [&state.to_bytes()[..], &still].concat();
                if load_blob(&self.database, "still", root).as_ref() != Some(&spelled) {
                    let _ = save_blob(&self.database, "still", root, spelled);
                }
            }
        }
        let _ = self.database.busy_timeout(BUSY_TIMEOUT);
    }
}

/// Returns true if the query depends on other sessions: a session without a project takes it from
/// others in its folder.
fn asks_neighbours(wanted: &Expr) -> bool {
    match wanted {
        Expr::All(parts) | Expr::Any(parts) => parts.iter().any(asks_neighbours),
        Expr::Not(part) => asks_neighbours(part),
        Expr::Filter(filter) => matches!(filter, Filter::Project(_)),
        Expr::Term(_) => false,
    }
}

/// Returns true if the archive has no session of these roots.
fn none_kept(store: &Store) -> bool {
    let Ok(archive) = store.archive() else {
        return true;
    };
    let mut roots = store.roots().iter();
    roots.all(|root| !archive.has_files_of(root))
}

/// Fingerprint of a root without any text.
fn state_of_nothing(root: &Root) -> Fingerprint {
    Fingerprint::from_files(&root.path, std::iter::empty())
}

/// Decodes a stored snapshot: the fingerprint when all text was indexed, and the root's contents.
fn still_of(data: &[u8]) -> Option<([u8; 16], RootSnapshot<'_>)> {
    let (state, still) = data.split_first_chunk()?;
    Some((*state, RootSnapshot::decode(still)?))
}

/// Everything needed to run a search on unchanged roots.
struct Ready {
    inventory: Inventory,
    covered: Coverage,
    worth: Candidates,
    stills: Vec<Vec<u8>>,
}

impl Ready {
    fn run(self, query: &Query, matcher: Matcher) -> StoreSearch {
        let hunt = SearchRun::with_matcher(&self.inventory, query, matcher);
        let plans = plans(&hunt, &self.covered, &self.worth);
        let found = hunt.run(plans);
        StoreSearch {
            inventory: self.inventory,
            found,
            unchanged_roots: self.stills,
        }
    }
}

/// Finds the sessions that may match; `None` if a root changed or the index cannot be used.
fn ready(
    database: &mut Connection,
    store: &Store,
    matcher: &Matcher,
) -> rusqlite::Result<Option<Ready>> {
    // One snapshot of the database, unaffected by other processes.
    let database = &*database.transaction()?;
    let mut covered = Coverage::default();
    let mut root_blobs = Vec::new();
    for root in store.roots() {
        let Some(number) = number_of(database, root)? else {
            return Ok(None);
        };
        let coverage = text_store::coverage(database, number)?;
        let (state, pending) =
            coverage.unwrap_or_else(|| (state_of_nothing(root).to_bytes(), Vec::new()));
        let Some(data) = load_blob(database, "still", root) else {
            return Ok(None);
        };
        let known = still_of(&data).filter(|(known, _)| *known == state);
        if !known.is_some_and(|(_, still)| still.is_unchanged(root)) {
            return Ok(None);
        }
        let paths = covered.add_whole(database, root, number, &pending)?;
        root_blobs.push((number, root, data, paths));
    }
    let Some(worth) = candidates(database, matcher)? else {
        return Ok(None);
    };
    for text in worth.keys() {
        let (number, path) = covered.name(database, *text)?;
        let root = root_blobs.iter_mut().find(|(root, ..)| *root == number);
        if let Some((_, _, _, paths)) = root {
            paths.push(path);
        }
    }
    let inventory = inventory_of(database, &root_blobs);
    Ok(inventory.map(|inventory| Ready {
        inventory,
        covered,
        worth,
        stills: root_blobs.into_iter().map(|(_, _, data, _)| data).collect(),
    }))
}

/// Root: its number, its stored snapshot, and the paths of its candidate files.
type RootBlob<'a> = (i64, &'a Root, Vec<u8>, Vec<Vec<u8>>);

/// Builds an inventory of the sessions that own candidate files, and of others with the same ids.
fn inventory_of(database: &Connection, root_blobs: &[RootBlob<'_>]) -> Option<Inventory> {
    let mut wanted = HashSet::new();
    for (_, _, data, paths) in root_blobs {
        let (_, still) = still_of(data)?;
        let paths = paths.iter().map(Vec::as_slice).collect();
        wanted.extend(still.owners(&paths)?);
    }
    let mut memory = WalkCache::new(database);
    let mut inventory = Inventory::default();
    for (_, root, data, _) in root_blobs.iter().filter(|_| !wanted.is_empty()) {
        let (_, still) = still_of(data)?;
        let files = still.files(root, &wanted)?;
        let mut some = Inventory::from_files(root, files, &mut memory);
        inventory.sessions.append(&mut some.sessions);
    }
    Some(inventory)
}
