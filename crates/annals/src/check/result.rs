//! The result of a check, and the check of everything.

use jiff::Timestamp;

use super::{FileReport, all, environment, stale_session_list};
use crate::error::{Error, Result};
use crate::store::{Inventory, Store};
use annals_layouts::model::{Flaw, FlawKind, Severity};

/// Result of a check.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CheckResult {
    /// Findings by file.
    pub reports: Vec<FileReport>,
    /// Errors of files that could not be opened.
    pub errors: Vec<Error>,
    /// Texts of these errors, each once.
    pub unreadable: Vec<String>,
    /// True if every file could be read.
    pub is_complete: bool,
    /// False if there was no session to check.
    pub has_sessions: bool,
}

/// Numbers of lines by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineCounts {
    /// All lines that are not blank.
    pub total: u64,
    /// Valid lines.
    pub valid: u64,
    /// Torn tails, whose writer may still be active.
    pub pending: u64,
    /// Other lines.
    pub corrupt: u64,
}

impl CheckResult {
    /// Collects the results of single files and sessions.
    pub fn new(results: Vec<Result<FileReport>>, inventory: &Inventory) -> Self {
        let mut result = CheckResult {
            is_complete: inventory.errors.is_empty(),
            has_sessions: true,
            ..CheckResult::default()
        };
        for report in results {
            match report {
                Ok(report) => result.reports.push(report),
                Err(error) => result.add_error(error),
            }
        }
        result
    }

    fn add_error(&mut self, error: Error) {
        self.is_complete = false;
        self.unreadable.push(error.to_string());
        self.errors.push(error);
    }

    /// Adds flaws found outside of a file's content to the report of the file.
    fn merge(&mut self, outside: FileReport) {
        let mut known = self.reports.iter_mut();
        match known.find(|known| known.path == outside.path) {
            Some(report) => report.flaws.extend(outside.flaws),
            None => self.reports.push(outside),
        }
    }

    /// Returns true if everything was read, and nothing has an error.
    pub fn is_ok(&self) -> bool {
        self.count(Severity::Error) == 0 && self.is_complete && self.has_sessions
    }

    /// Returns all flaws.
    pub(crate) fn flaws(&self) -> impl Iterator<Item = &Flaw> {
        self.reports.iter().flat_map(|report| &report.flaws)
    }

    /// Returns true if there was no session to check, and nothing else has a flaw.
    pub fn has_nothing(&self) -> bool {
        !self.has_sessions && self.flaws().next().is_none() && self.unreadable.is_empty()
    }

    /// Returns the number of flaws of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        let of_it = |flaw: &&Flaw| flaw.kind.severity() == severity;
        self.flaws().filter(of_it).count()
    }

    /// Counts lines by their state.
    pub fn line_counts(&self) -> LineCounts {
        let total = self.reports.iter().map(|report| report.lines).sum();
        let valid = self.reports.iter().map(|report| report.valid).sum();
        let torn = |flaw: &&Flaw| flaw.kind == FlawKind::TornTail;
        let pending = self.flaws().filter(torn).count() as u64;
        LineCounts {
            total,
            valid,
            pending,
            corrupt: total.saturating_sub(valid).saturating_sub(pending),
        }
    }
}

/// Checks all files of an inventory without the archive, the archive, the session lists and the
/// environment.
pub fn everything(
    store: &Store,
    inventory: &Inventory,
    now: Timestamp,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> CheckResult {
    let archive = store.archive().ok();
    let results = all(inventory, archive.as_ref(), progress);
    let mut result = CheckResult::new(results, inventory);
    result.has_sessions = !inventory.sessions.is_empty();
    for found in store.repairs().stale_session_lists(inventory) {
        match found {
            Ok(stale) => result.merge(stale_session_list(&stale)),
            // The check of the file may have reported the same error.
            Err(error) if result.unreadable.contains(&error.to_string()) => {}
            Err(error) => result.add_error(error),
        }
    }
    for report in environment(store, inventory, now) {
        result.merge(report);
    }
    result
}
