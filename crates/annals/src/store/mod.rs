//! The store: opens roots, finds and reads sessions, applies changes.
//!
//! Layouts say what files mean and what a change comes to; the store does it. It owns every access
//! to a root, and never writes outside of a root but to the state directory it was given.

mod agent;
mod begun;
pub(crate) mod books;
mod branch;
mod companion;
mod config;
mod document;
mod failures;
mod file;
mod find;
mod fork;
mod handy;
mod inventory;
mod kept;
mod life;
pub(crate) mod listing;
mod live;
mod log;
pub(crate) mod memory;
mod message;
mod neighbour;
pub(crate) mod owners;
mod pairing;
mod query;
mod register;
mod removed;
mod root;
mod save;
mod session;
mod share;
mod spent;
mod spot;
mod state;
mod summary;
mod tail;
pub(crate) mod talks;
mod thread;
mod totals;
mod trash;
mod typed;
mod vacate;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::tz::TimeZone;
use rayon::prelude::*;

use crate::cost::{Pricing, Tally};
use crate::error::Result;
use crate::layout::{Env, Sink};
use crate::model::Entry;

pub use agent::{Agent, Call};
pub use begun::BegunLog;
pub use books::Spent;
pub use branch::Branches;
pub use failures::ReadFailures;
pub(crate) use failures::is_gone;
pub use file::{SavedFile, SavedVersion};
pub use find::{MissingLog, Target};
pub use fork::Forked;
pub use inventory::{FoundFile, Inventory, SessionFiles};
pub(crate) use inventory::{Still, spell_still};
pub use life::State;
pub(crate) use life::keep_cutoff;
use listing::Facts;
pub(crate) use live::{LiveLog, Told, each_line_from, homes};
pub use log::{LogScan, VolumeScan};
pub(crate) use log::{
    document_of, each_line, each_record, link_previous, outline_noting, record, scope, strip,
    tailed, uncounted, with_scanner,
};
use memory::Memory;
pub use neighbour::Neighbours;
pub(crate) use pairing::Pairing;
pub use query::{Counted, MessageFilter, Stats};
pub use register::StaleRegister;
pub(crate) use register::{enrol_all, row_of_log};
pub use root::Root;
pub(crate) use root::is_plain_log;
pub use save::Saved;
pub use session::Session;
pub use share::Share;
pub use spot::Spot;
pub use state::RunLog;
pub use summary::{ConversationInfo, ProjectInfo, SessionInfo};
pub(crate) use tail::check_free;
use talks::Talks;
pub use totals::Totals;
pub use trash::{Purgeable, TrashLook, Trashed, TrashedEntry, TrashedFile, TrashedRow};
pub(crate) use vacate::{Copies, Holdings};
pub use writer::{SessionWriter, WriteOptions};
pub(crate) use writer::{append_behind, append_shared};

/// A set of roots that are read and written together.
#[derive(Debug)]
pub struct Store {
    roots: Vec<Root>,
    state: Option<PathBuf>,
    /// Whose days count, if that was said.
    zone: Option<TimeZone>,
    failures: ReadFailures,
}

impl Store {
    /// Opens roots, each once. They are looked at only when something is asked of them.
    pub fn new(roots: Vec<Root>) -> Self {
        let failures = ReadFailures::default();
        let roots = Root::distinct(roots).into_iter();
        Store {
            roots: roots.map(|root| root.reporting_to(&failures)).collect(),
            state: None,
            zone: None,
            failures,
        }
    }

    /// Makes readers report to the collector of another store.
    pub fn reporting_to(mut self, failures: &ReadFailures) -> Self {
        let roots = std::mem::take(&mut self.roots).into_iter();
        self.roots = roots.map(|root| root.reporting_to(failures)).collect();
        self.failures = failures.clone();
        self
    }

    /// What could not be read on the way to answers that were given without it.
    pub fn failures(&self) -> &ReadFailures {
        &self.failures
    }

    /// Opens every layout's default places that exist.
    pub fn discover(env: &Env) -> Self {
        Store::new(Root::defaults(env))
    }

    /// Says where deleted sessions go.
    pub fn with_state(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state = Some(dir.into());
        self
    }

    /// Says whose days count where logs are named after days; the system's zone if not said.
    pub fn with_zone(mut self, zone: TimeZone) -> Self {
        self.zone = Some(zone);
        self
    }

    /// Whose days count. To find out the system's takes longer than most things that are asked of a store.
    pub(super) fn zone(&self) -> TimeZone {
        self.zone.clone().unwrap_or_else(TimeZone::system)
    }

    /// The roots.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Where deleted sessions go, and whatever else is to be kept.
    pub(crate) fn state_dir(&self) -> Option<&Path> {
        self.state.as_deref()
    }

    /// What lies in the directories that bear a session's name now.
    pub(crate) fn files_below(&self, files: &SessionFiles) -> Vec<FoundFile> {
        let root = &files.root;
        let mut troubles = Vec::new();
        let dirs = files.own_dirs().into_iter();
        let dirs = dirs.filter(|dir| {
            let found = root.failures.target(&root.path.join(dir));
            found.is_some_and(|found| found.is_dir())
        });
        let found = dirs.flat_map(|dir| inventory::walk(root, &dir, &|_| true, &mut troubles));
        let found = found.collect();
        troubles
            .into_iter()
            .for_each(|error| root.failures.report(error));
        found
    }

    /// Everything that lies in the roots, by name alone, and what is archived of them.
    pub fn inventory(&self) -> Inventory {
        self.inventory_knowing(&mut Memory::none())
    }

    /// The same, with what is known from before.
    pub(crate) fn inventory_knowing(&self, memory: &mut Memory<'_>) -> Inventory {
        Inventory::with(&self.roots, self.archive().ok().as_ref(), memory)
    }

    /// Everything that lies in one root, and what the archive keeps of it.
    pub(crate) fn inventory_of(&self, root: &Root) -> Inventory {
        let archive = self.archive().ok();
        Inventory::and_kept(std::slice::from_ref(root), archive.as_ref())
    }

    /// Everything that lies in the roots, for those who change it or look after it.
    pub fn inventory_in_place(&self) -> Inventory {
        Inventory::of(&self.roots)
    }

    /// Reads and sums up every session; `progress` hears of bytes done and bytes in all.
    ///
    /// A session that cannot be read is told with the others' rows, not instead of them.
    pub fn sessions(
        &self,
        inventory: &Inventory,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<SessionInfo>> {
        let all: Vec<&SessionFiles> = inventory.sessions.iter().collect();
        let facts = read_each(&all, progress, &|session| Facts::of(&session));
        listing::list(&all, facts, &self.keep_days(inventory))
    }

    /// The most recent sessions, the newest first, and after them those that could not be read.
    pub fn newest_sessions(
        &self,
        inventory: &Inventory,
        limit: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<SessionInfo>> {
        let (mut rows, mut failed) = (Vec::new(), Vec::new());
        for row in self.sessions(inventory, progress) {
            match row {
                Ok(row) => rows.push(Some(row)),
                Err(error) => failed.push(Err(error)),
            }
        }
        let known = rows.iter().flatten().enumerate();
        let known = known.map(|(at, row)| (at, row.updated, &row.id));
        let places = listing::newest(known, limit);
        let found = places.into_iter().filter_map(|at| rows.get_mut(at)?.take());
        found.map(Ok).chain(failed).collect()
    }

    /// The conversations of some sessions, by their places in the inventory, and what each comes to.
    pub fn conversations(
        &self,
        inventory: &Inventory,
        wanted: &[usize],
        price: Pricing<'_>,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<Vec<(ConversationInfo, Tally)>>> {
        let wanted = wanted.iter();
        let wanted: Vec<&SessionFiles> = wanted
            .filter_map(|&at| inventory.sessions.get(at))
            .collect();
        let talks = read_each(&wanted, progress, &|session| Talks::of(&session));
        let neighbours = Neighbours::of(&inventory.sessions);
        let rows = wanted.into_iter().zip(talks).map(|(files, talks)| {
            let talks = talks?;
            let sums = talks.sums(price);
            let open = talks.list.iter().any(|talk| talk.open);
            let summaries = open.then(|| neighbours.summaries(files, talks.keys()));
            let rows = talks.rows(files, &summaries.unwrap_or_default(), &sums);
            Ok(rows.into_iter().zip(sums).collect())
        });
        rows.collect()
    }

    /// Everything that one file says: what people typed, a plan, the todos of a session that is gone.
    pub fn entries(&self, root: &Root, file: &FoundFile) -> Result<Vec<Entry>> {
        if !file.artifact.kind.is_log() {
            return log::document(root, file).map(|sink| sink.found);
        }
        let mut sink = Sink::default();
        let mut pairing = Pairing::default();
        for volume in file.volumes() {
            let mut decoder = root.decoder(volume);
            log::each_record(root, volume, |record| {
                let before = sink.found.len();
                decoder.decode(record, &mut sink);
                let fresh = sink.found.iter_mut().skip(before);
                fresh.for_each(|entry| pairing.read(entry));
                Ok(true)
            })?;
        }
        Ok(sink.found)
    }

    /// After how many days each root's own program deletes sessions, where its settings say so.
    pub fn keep_days(&self, inventory: &Inventory) -> HashMap<PathBuf, Option<u64>> {
        inventory.keep_days()
    }
}

/// Reads sessions and makes something of each, in their order; `progress` hears of bytes done and
/// bytes in all.
pub(crate) fn read_each<T: Send>(
    sessions: &[&SessionFiles],
    progress: &(dyn Fn(u64, u64) + Sync),
    make: &(dyn Fn(Session) -> T + Sync),
) -> Vec<Result<T>> {
    let bytes = sessions.iter().map(|files| files.log_bytes());
    let mut order: Vec<(usize, u64)> = bytes.enumerate().collect();
    let total = order.iter().map(|(_, bytes)| bytes).sum();
    let done = AtomicU64::new(0);
    let read = |(at, bytes): (usize, u64)| {
        let files = (*sessions.get(at)?).clone();
        let made = Session::read(files).map(make);
        let so_far = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        progress(so_far, total);
        Some((at, made))
    };
    // Threads cost more than a little reading, and more than many small ones: what one of them made
    // another has to put away.
    let small = total < SMALL * sessions.len() as u64;
    if small || total < ALONE {
        let read = order.into_iter().filter_map(read);
        return read.map(|(_, made)| made).collect();
    }
    // Largest first, so that no thread is left alone with a giant at the end.
    order.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let order = order.into_par_iter().with_max_len(1);
    let mut read: Vec<(usize, Result<T>)> = order.filter_map(read).collect();
    read.sort_unstable_by_key(|(at, _)| *at);
    read.into_iter().map(|(_, made)| made).collect()
}

/// Less than this is read by one thread.
const ALONE: u64 = 1 << 20;

/// And so are sessions that are smaller than this, taken together.
const SMALL: u64 = 4 << 10;
