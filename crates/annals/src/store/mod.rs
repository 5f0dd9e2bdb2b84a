//! The store: opens roots, finds and reads sessions, applies changes.
//!
//! Layouts map files to artifacts and changes to edits; the store applies them. All access to a
//! root goes through the store. It writes only inside roots and to its state directory.
//!
//! [`Store`] itself finds, reads and writes sessions. The rest is behind handles, each in the module
//! that owns the matter:
//!
//! | method | handle | owns |
//! |---|---|---|
//! | [`Store::sessions`] | [`Sessions`] | rows of lists: sessions, conversations, titles |
//! | [`Store::costs`] | [`Costs`] | the ledger, and costs by branch |
//! | [`Store::trash`] | [`Trash`] | deleted sessions: moving in, listing, restoring, purging |
//! | [`Store::chorus`] | [`ChorusConfig`] | the configuration of Chorus: workspaces and agents |
//! | [`Store::documents`] | [`Documents`] | state documents, run logs, prompt history, saved files |
//! | [`Store::repairs`] | [`Repairs`](crate::repair::Repairs) | repairs and their undo, session lists |
//! | [`Store::retention`] | [`Retention`](crate::retain::Retention) | cleaning up, leftover files, pins |
//! | [`Store::archive`] | [`Archive`] | archived copies of sessions |
//! | `Store::index` | `Index` | the database of what was read before: its status, updates |

mod agent;
mod append_point;
mod archive_overlay;
mod begun;
mod branch_attribution;
mod call_pairing;
mod chorus;
mod companion;
pub(crate) mod content_cache;
mod context;
pub(crate) mod conversations;
mod costs;
mod document;
mod documents;
mod file_versions;
mod find_message;
mod fork;
mod fork_bases;
mod incremental_reader;
mod info;
mod inventory;
mod key_bytes;
mod label;
mod lifecycle;
mod listed_sessions;
mod locate;
mod log_reader;
mod log_totals;
mod mirror;
mod project_hints;
mod query;
pub(crate) mod record_source;
mod remove;
mod removed;
mod resolve;
mod selection;
mod session;
mod session_cost;
mod session_list;
mod session_query;
mod session_rows;
pub(crate) mod session_summary;
mod shared_log;
mod shortcuts;
mod stable;
pub(crate) mod staging;
pub(crate) mod store_index;
mod thread;
mod trash;
pub(crate) mod usage_collector;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::tz::TimeZone;
use rayon::prelude::*;

use crate::archive_format::{Archive, ManifestCache};
use crate::error::{Error, Result};

pub use crate::read_failures::ReadFailures;
pub use crate::root::Root;
pub use agent::{Agent, Call};
pub(crate) use append_point::ensure_not_in_use;
pub use begun::BegunLog;
pub use branch_attribution::BranchAttribution;
pub(crate) use call_pairing::CallPairing;
pub use call_pairing::results_under_calls;
pub use chorus::ChorusConfig;
use content_cache::{ContentCache, NoCache};
pub use context::ContextMessage;
pub(crate) use context::is_summary;
pub use costs::{Costs, RecentQuery};
pub use documents::{Documents, NewSavedVersion, RunLog};
pub use file_versions::{SavedFile, SavedVersion};
pub use fork::ForkedSession;
pub(crate) use fork_bases::refuse_rewrite;
pub(crate) use incremental_reader::{
    IncrementalReader, LocatedEntry, each_line_of_open_file, each_record_backwards,
    working_directories,
};
pub use info::{ConversationInfo, ProjectInfo, SessionInfo};
pub use inventory::{Inventory, RootFile, SessionFiles};
pub use label::SessionLabel;
pub use lifecycle::SessionState;
pub(crate) use lifecycle::keep_cutoff;
pub(crate) use listed_sessions::{listed_sessions, rows_without_log};
pub use locate::RecordRef;
pub use log_reader::LogScan;
pub(crate) use log_reader::{
    VolumeScan, decode_document, each_line, each_record, link_to_previous, outline_with,
    record_from_line, record_from_tail_line, scope, strip_line_ending, unnumbered_record,
    with_scanner,
};
pub use log_totals::Totals;
pub use mirror::Mirror;
pub use project_hints::FolderHints;
pub use query::{MessageCounts, MessageFilter, Stats};
pub(crate) use remove::{FileCopies, FileSet, ensure_file_untouched, ensure_untouched};
pub(crate) use removed::put_back_removed;
pub use resolve::{MissingLog, Target};
pub use selection::SelectedEntries;
pub use session::Session;
pub use session_list::StaleSessionList;
pub(crate) use session_list::{
    folder_for_directory, list_of_damaged_copy, list_row_from_log, refuse_damaged,
    update_session_lists,
};
pub use session_query::{SessionQuery, project_spellings, resolve_directory};
pub use session_rows::Sessions;
pub(crate) use shared_log::MAX_DEPTH;
pub use shared_log::SessionSlice;
pub(crate) use stable::is_stable;
pub use trash::{Purgeable, Trash, TrashContents, TrashItem};
pub use usage_collector::LedgerWithSession;
pub use writer::{SessionWriter, WriteOptions};
pub(crate) use writer::{append_shared, header_fields, with_id_lock};

/// A set of roots that are read and written together.
#[derive(Debug)]
pub struct Store {
    roots: Vec<Root>,
    state: Option<PathBuf>,
    /// Time zone of days, if set.
    zone: Option<TimeZone>,
    /// Whether deletions from other roots are left out of the trash.
    limits_trash: bool,
    /// Whether paths of logs outside the roots are refused.
    is_confined: bool,
    failures: ReadFailures,
    /// Its index, if it has one.
    index: Option<store_index::SharedIndex>,
    /// Manifests of archives that were read.
    manifests: ManifestCache,
}

impl Store {
    /// Creates a store of roots, without duplicates. Nothing is read until a method needs it.
    pub fn new(roots: Vec<Root>) -> Self {
        let failures = ReadFailures::default();
        let roots = Root::dedupe(roots).into_iter();
        Store {
            roots: roots.map(|root| root.reporting_to(&failures)).collect(),
            state: None,
            zone: None,
            limits_trash: false,
            is_confined: false,
            failures,
            index: None,
            manifests: Default::default(),
        }
    }

    /// Leaves deletions from other roots out of the trash. A log that was deleted outside of any
    /// root stays in it.
    #[must_use]
    pub fn with_trash_of_roots(mut self, limited: bool) -> Self {
        self.limits_trash = limited;
        self
    }

    /// Refuses the paths of logs outside the roots, which otherwise name sessions: for callers that
    /// may choose a session and no other file.
    #[must_use]
    pub fn confined_to_roots(mut self) -> Self {
        self.is_confined = true;
        self
    }

    /// Makes readers report to the collector of another store.
    pub fn reporting_to(mut self, failures: &ReadFailures) -> Self {
        let roots = std::mem::take(&mut self.roots).into_iter();
        self.roots = roots.map(|root| root.reporting_to(failures)).collect();
        self.failures = failures.clone();
        self
    }

    /// Opens the archive.
    pub fn archive(&self) -> Result<Archive> {
        match self.state_dir() {
            Some(state) => Ok(Archive::open(state)
                .sharing(&self.manifests)
                .reporting_to(self.failures())),
            None => Err(Error::refused("no state directory to archive to")),
        }
    }

    /// Read failures that did not prevent an answer.
    pub fn failures(&self) -> &ReadFailures {
        &self.failures
    }

    /// Sets the state directory, which holds the trash.
    pub fn with_state(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state = Some(dir.into());
        self
    }

    /// Sets the time zone for logs that are named after days. Default: the system's zone.
    pub fn with_zone(mut self, zone: TimeZone) -> Self {
        self.zone = Some(zone);
        self
    }

    /// Returns the time zone of days. Determining the system's zone takes longer than most
    /// operations of a store.
    pub(super) fn zone(&self) -> TimeZone {
        self.zone.clone().unwrap_or_else(TimeZone::system)
    }

    /// The roots.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Directory of the trash and of other state.
    pub(crate) fn state_dir(&self) -> Option<&Path> {
        self.state.as_deref()
    }

    /// Lists the files that are now in the directories named after a session.
    pub(crate) fn files_in_own_dirs(&self, files: &SessionFiles) -> Vec<RootFile> {
        let root = &files.root;
        let mut troubles = Vec::new();
        let dirs = files.own_dirs().into_iter();
        let dirs = dirs.filter(|dir| {
            let found = root.failures.target_metadata(&root.path.join(dir));
            found.is_some_and(|found| found.is_dir())
        });
        let found = dirs.flat_map(|dir| inventory::walk(root, &dir, &|_| true, &mut troubles));
        let found = found.collect();
        troubles
            .into_iter()
            .for_each(|error| root.failures.report(error));
        found
    }

    /// Lists all files of the roots by path only, and the archived files.
    pub fn inventory(&self) -> Inventory {
        let stored = self.try_lock_index();
        let stored = stored.and_then(|mut index| index.inventory(self));
        stored.unwrap_or_else(|| self.inventory_with_cache(&mut NoCache))
    }

    /// Like [`inventory`](Store::inventory), with stored facts from the contents of files.
    pub(crate) fn inventory_with_cache(&self, cache: &mut dyn ContentCache) -> Inventory {
        Inventory::scan_with_cache(&self.roots, self.archive().ok().as_ref(), cache)
    }

    /// Lists all files of one root, and its archived files.
    pub(crate) fn inventory_of(&self, root: &Root) -> Inventory {
        let archive = self.archive().ok();
        Inventory::scan_with_archive(std::slice::from_ref(root), archive.as_ref())
    }

    /// Lists the files of the roots without the archived ones, for callers that modify or check
    /// them.
    pub fn inventory_without_archive(&self) -> Inventory {
        Inventory::scan(&self.roots)
    }
}

/// Reads sessions and maps each with `make`, in order. Calls `progress` with the bytes done and the
/// total.
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
    // Threads cost more than they save for little data and for many small sessions, because results
    // are freed by another thread than the one that allocated them.
    let small = total < SMALL_SESSION_BYTES * sessions.len() as u64;
    if small || total < SINGLE_THREAD_BYTES {
        let read = order.into_iter().filter_map(read);
        return read.map(|(_, made)| made).collect();
    }
    // Largest first, so that no thread ends with a large session alone.
    crate::sort::by_key(&mut order, |(_, bytes)| std::cmp::Reverse(*bytes));
    let order = order.into_par_iter().with_max_len(1);
    let mut read: Vec<(usize, Result<T>)> = order.filter_map(read).collect();
    read.sort_unstable_by_key(|(at, _)| *at);
    read.into_iter().map(|(_, made)| made).collect()
}

/// Fewer bytes than this are read by one thread.
const SINGLE_THREAD_BYTES: u64 = 1 << 20;

/// Sessions with a smaller average size than this are read by one thread.
const SMALL_SESSION_BYTES: u64 = 4 << 10;
