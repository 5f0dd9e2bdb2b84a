//! The store: opens roots, finds and reads sessions, applies changes.
//!
//! Layouts say what files mean and what a change comes to; the store does it. It owns every access
//! to a root, and never writes outside of a root but to the state directory it was given.

mod agent;
pub(crate) mod books;
mod branch;
mod config;
mod document;
mod file;
mod find;
mod fork;
mod handy;
mod inventory;
mod life;
mod log;
mod neighbour;
mod query;
mod register;
mod root;
mod session;
mod share;
mod spent;
mod spot;
mod summary;
mod tail;
mod totals;
mod trash;
mod writer;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::tz::TimeZone;
use rayon::prelude::*;

use crate::error::Result;
use crate::layout::{Env, Sink};
use crate::model::Entry;

pub use agent::{Agent, Call};
pub use books::Spent;
pub use branch::Branches;
pub use file::{SavedFile, SavedVersion};
pub use find::Target;
pub use fork::Forked;
pub use inventory::{FoundFile, Inventory, SessionFiles};
pub use life::State;
pub use log::{LogScan, VolumeScan};
pub(crate) use log::{document_of, each_record, scope, strip, with_scanner};
pub use neighbour::Neighbours;
pub use query::{Counted, MessageFilter, Stats};
pub use register::StaleRegister;
pub(crate) use register::{enrol_all, row_of_log};
pub use root::Root;
pub use session::Session;
pub use share::Share;
pub use spot::Spot;
pub use summary::{ConversationInfo, ProjectInfo, SessionInfo};
pub use totals::Totals;
pub use trash::{Trashed, TrashedFile};
pub(crate) use writer::append_shared;
pub use writer::{SessionWriter, WriteOptions};

/// A set of roots that are read and written together.
#[derive(Debug)]
pub struct Store {
    roots: Vec<Root>,
    state: Option<PathBuf>,
    zone: TimeZone,
}

impl Store {
    /// Opens roots, each once. They are looked at only when something is asked of them.
    pub fn new(roots: Vec<Root>) -> Self {
        Store {
            roots: Root::distinct(roots),
            state: None,
            zone: TimeZone::system(),
        }
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
        self.zone = zone;
        self
    }

    /// The roots.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Everything that lies in the roots, by name alone.
    pub fn inventory(&self) -> Inventory {
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
        let total = inventory.sessions.iter().map(SessionFiles::log_bytes).sum();
        let done = AtomicUsize::new(0);
        // Largest first, so that no thread is left alone with a giant at the end.
        let mut order: Vec<(usize, &SessionFiles)> =
            inventory.sessions.iter().enumerate().collect();
        order.sort_by_key(|(_, files)| std::cmp::Reverse(files.log_bytes()));
        let mut read: Vec<(usize, Result<summary::Draft>)> = order
            .into_par_iter()
            .with_max_len(1)
            .map(|(at, files)| {
                let summed = Session::read(files.clone()).map(|session| summary::draft(&session));
                let bytes = files.log_bytes() as usize;
                let so_far = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                progress(so_far as u64, total);
                (at, summed)
            })
            .collect();
        read.sort_by_key(|(at, _)| *at);
        let mut rows: Vec<Result<summary::Draft>> = read.into_iter().map(|(_, row)| row).collect();
        summary::settle(&mut rows);
        let keep = self.keep_days(inventory);
        let mut rows: Vec<Result<SessionInfo>> = rows
            .into_iter()
            .map(|row| row.map(|draft| draft.finish(keep.get(&draft.root()).copied().flatten())))
            .collect();
        let mut sessions: Vec<&mut SessionInfo> = rows.iter_mut().flatten().collect();
        summary::credit(&mut sessions);
        rows
    }

    /// Everything that one file says: what people typed, a plan, the todos of a session that is gone.
    pub fn entries(&self, root: &Root, file: &FoundFile) -> Result<Vec<Entry>> {
        if !file.artifact.kind.is_log() {
            return log::document(root, file).map(|sink| sink.found);
        }
        let mut sink = Sink::default();
        for volume in file.volumes() {
            let mut decoder = root.layout.decoder(&volume.artifact);
            log::each_record(root, volume, |record| {
                decoder.decode(record, &mut sink);
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
