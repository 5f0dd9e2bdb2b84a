//! Search where roots lie still: nothing is made of sessions in which nothing can be.

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

/// What was found in a store.
#[derive(Debug)]
#[non_exhaustive]
pub struct StoreSearch {
    /// All sessions in which something was found, and all others with their ids.
    pub inventory: Inventory,
    /// What was found.
    pub found: SearchResults,
    /// What roots held, where the inventory does not tell of all.
    unchanged_roots: Vec<Vec<u8>>,
}

impl StoreSearch {
    /// What was found in an inventory of everything.
    pub fn new(inventory: Inventory, found: SearchResults) -> Self {
        StoreSearch {
            inventory,
            found,
            unchanged_roots: Vec::new(),
        }
    }

    /// The ids of all sessions there are.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let stills = self
            .unchanged_roots
            .iter()
            .filter_map(|told| still_of(told));
        let told = stills.flat_map(|(_, still)| still.ids());
        let sessions = self.inventory.sessions.iter();
        let all = sessions.filter(|_| self.unchanged_roots.is_empty());
        told.chain(all.map(|files| files.id.as_str()))
    }
}

impl Index {
    /// Looks for something in all sessions of a store.
    ///
    /// The answer is that of a [`search`](Self::search) in an [`inventory`](Self::inventory). Where nothing
    /// was done to any file of the roots since all their words were learnt, it comes sooner.
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

    /// Remembers roots of which all words are known, for as long as they lie still.
    pub(super) fn save_unchanged_roots(&self, roots: &[Root], inventory: &Inventory) {
        if self.is_read_only() || !inventory.is_complete() {
            return;
        }
        // Nobody waits for this; another time will do.
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

/// Whether it matters what lies beside a session: the project of one that names none is that of others.
fn asks_neighbours(wanted: &Expr) -> bool {
    match wanted {
        Expr::All(parts) | Expr::Any(parts) => parts.iter().any(asks_neighbours),
        Expr::Not(part) => asks_neighbours(part),
        Expr::Filter(filter) => matches!(filter, Filter::Project(_)),
        Expr::Term(_) => false,
    }
}

/// Whether nothing of the roots is in the archive.
fn none_kept(store: &Store) -> bool {
    let Ok(archive) = store.archive() else {
        return true;
    };
    let mut roots = store.roots().iter();
    roots.all(|root| {
        archive
            .pack_paths_of_root(root)
            .is_ok_and(|packs| packs.is_empty())
    })
}

/// The state of a root without any words.
fn state_of_nothing(root: &Root) -> Fingerprint {
    Fingerprint::from_files(&root.path, std::iter::empty())
}

/// What is told of a root: the state in which all its words were known, and what it held then.
fn still_of(told: &[u8]) -> Option<([u8; 16], RootSnapshot<'_>)> {
    let (state, still) = told.split_first_chunk()?;
    Some((*state, RootSnapshot::decode(still)?))
}

/// What there is to look at.
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

/// Finds the sessions in which something may be, if all roots lie still.
fn ready(
    database: &mut Connection,
    store: &Store,
    matcher: &Matcher,
) -> rusqlite::Result<Option<Ready>> {
    // One state of the database, whatever others do meanwhile.
    let database = &*database.transaction()?;
    let mut covered = Coverage::default();
    let mut told_of = Vec::new();
    for root in store.roots() {
        let Some(number) = number_of(database, root)? else {
            return Ok(None);
        };
        let coverage = text_store::coverage(database, number)?;
        let (state, pending) =
            coverage.unwrap_or_else(|| (state_of_nothing(root).to_bytes(), Vec::new()));
        let Some(told) = load_blob(database, "still", root) else {
            return Ok(None);
        };
        let known = still_of(&told).filter(|(known, _)| *known == state);
        if !known.is_some_and(|(_, still)| still.is_unchanged(root)) {
            return Ok(None);
        }
        let paths = covered.add_whole(database, root, number, &pending)?;
        told_of.push((number, root, told, paths));
    }
    let Some(worth) = candidates(database, matcher)? else {
        return Ok(None);
    };
    for text in worth.keys() {
        let (number, path) = covered.name(database, *text)?;
        let root = told_of.iter_mut().find(|(root, ..)| *root == number);
        if let Some((_, _, _, paths)) = root {
            paths.push(path);
        }
    }
    let inventory = inventory_of(database, &told_of);
    Ok(inventory.map(|inventory| Ready {
        inventory,
        covered,
        worth,
        stills: told_of.into_iter().map(|(_, _, told, _)| told).collect(),
    }))
}

/// A root: its number, what is told of it, and the paths of its files that matter.
type ToldOf<'a> = (i64, &'a Root, Vec<u8>, Vec<Vec<u8>>);

/// The sessions that have some files, and all others with their ids.
fn inventory_of(database: &Connection, told_of: &[ToldOf<'_>]) -> Option<Inventory> {
    let mut wanted = HashSet::new();
    for (_, _, told, paths) in told_of {
        let (_, still) = still_of(told)?;
        let paths = paths.iter().map(Vec::as_slice).collect();
        wanted.extend(still.owners(&paths)?);
    }
    let mut memory = WalkCache::new(database);
    let mut inventory = Inventory::default();
    for (_, root, told, _) in told_of.iter().filter(|_| !wanted.is_empty()) {
        let (_, still) = still_of(told)?;
        let files = still.files(root, &wanted)?;
        let mut some = Inventory::from_files(root, files, &mut memory);
        inventory.sessions.append(&mut some.sessions);
    }
    Some(inventory)
}
