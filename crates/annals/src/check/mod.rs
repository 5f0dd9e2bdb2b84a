//! Checks files for damage and inconsistencies.
//!
//! Four levels: single lines and documents (`line`); the links between entries of one log (`log`,
//! and `resume` for entries that the agent's own program would omit); references between files
//! (`cross_file`, `companion`, `lock_file`, and `unknown` for files unknown to every layout); and the
//! environment ([`environment()`]). Only reports; changes nothing.
//!
//! Logs are read in parallel, each once. The data retained of a log for the checks across files is
//! small: eight bytes per id, and the names of files and directories that it refers to.

mod archived;
mod companion;
mod cross_file;
mod environment;
mod line;
mod lock_file;
mod log;
mod result;
mod resume;
mod unknown;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use serde::{Serialize, Serializer};

use crate::archive::Archive;
use crate::error::{Error, Result};
use crate::store::{
    Inventory, ReadFailures, Root, RootFile, SessionFiles, StaleSessionList, record_source,
};
use annals_layouts::model::{ArtifactKind, Flaw, FlawKind, Framing, Severity, Span};
use annals_layouts::text::pluralize;

pub use environment::environment;
use line::LogTraces;
pub use result::{CheckResult, LineCounts, everything};

/// Findings of a check in one file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FileReport {
    /// The file or directory.
    #[serde(serialize_with = "lossy_path")]
    pub path: PathBuf,
    /// Whether its content was read. Otherwise it is a directory, or only its metadata was checked.
    pub read: bool,
    /// Number of lines that are not blank; 1 for a document.
    pub lines: u64,
    /// Number of these that are valid.
    pub valid: u64,
    /// Its length.
    pub bytes: u64,
    /// The flaws, in file order.
    pub flaws: Vec<Flaw>,
    /// Kinds that `annals repair` repairs elsewhere, but not in this file.
    #[serde(skip)]
    pub(crate) unrepairable: BTreeSet<FlawKind>,
    /// How the file stores its records.
    #[serde(skip)]
    pub(crate) framing: Framing,
}

/// Serialises a path that may not be UTF-8.
fn lossy_path<S: Serializer>(path: &Path, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

impl FileReport {
    /// Creates a report about a path that was not read.
    fn with_flaw(path: &Path, flaw: Flaw) -> Self {
        FileReport {
            path: path.to_owned(),
            read: false,
            lines: 0,
            valid: 0,
            bytes: 0,
            flaws: vec![flaw],
            unrepairable: BTreeSet::new(),
            framing: Framing::Lines,
        }
    }

    /// Returns whether `annals repair` repairs a flaw of this kind in this file.
    pub fn fixable(&self, kind: FlawKind) -> bool {
        self.is_rebuilt(kind) || (kind.fixable() && !self.unrepairable.contains(&kind))
    }

    /// Returns whether the file is derived from logs and will be rebuilt from them, whatever it
    /// contains.
    fn is_rebuilt(&self, kind: FlawKind) -> bool {
        let is_document = matches!(kind, FlawKind::BadDocument | FlawKind::BadJson);
        let mut kinds = self.flaws.iter().map(|flaw| flaw.kind);
        is_document && kinds.any(|kind| kind == FlawKind::StaleIndex)
    }

    /// Returns one line of advice about a flaw of this kind in this file.
    pub fn advice(&self, kind: FlawKind) -> &'static str {
        if self.is_rebuilt(kind) {
            return FlawKind::StaleIndex.advice();
        }
        if !self.unrepairable.contains(&kind) {
            return kind.advice();
        }
        match kind {
            FlawKind::BadHeader => {
                "check that it is the right file and a supported version; annals does not change an existing header"
            }
            FlawKind::UnfinishedRemoval => {
                "compare it with the file that has its name, then rename it or move it out of the root"
            }
            kind if kind.is_link_flaw() => {
                "no action needed: every entry is read; annals does not relink entries in a shared log"
            }
            _ => FlawKind::BadDocument.advice(),
        }
    }

    /// Returns the first 100 characters of the flawed line, if the flaw prevents reading it as a
    /// record. Read errors are reported to `failures`.
    pub fn line_excerpt(&self, flaw: &Flaw, failures: &ReadFailures) -> Option<String> {
        const SHOWN: usize = 100;
        let wanted = flaw.kind.hides_record() || flaw.kind == FlawKind::UnknownType;
        if !wanted {
            return None;
        }
        let file = record_source::open(&self.path, self.framing);
        let file = failures.ok_io(&self.path, file)?;
        // A character has at most four bytes.
        let len = flaw.span.len.min(4 * SHOWN as u64);
        let bytes = annals_jsonl::read_span(&file, flaw.span.offset, len);
        let bytes = failures.ok_io(&self.path, bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_end().chars().take(SHOWN).collect())
    }

    /// Returns the worst severity.
    pub fn worst(&self) -> Option<Severity> {
        self.flaws.iter().map(|flaw| flaw.kind.severity()).min()
    }
}

/// Checks one file, or the volumes of one log.
pub fn file(root: &Root, file: &RootFile) -> Result<Vec<FileReport>> {
    line::examine(root, file).map(|(reports, _)| reports)
}

/// Checks the files of one session, and whether the files that its records name exist in the root
/// or in the archive.
pub fn session(
    inventory: &Inventory,
    files: &SessionFiles,
    archive: Option<&Archive>,
) -> Vec<Result<FileReport>> {
    let checked = files.files().filter(|file| has_schema(file.artifact.kind));
    let read: Vec<Read<'_>> = checked.map(|file| examine(&files.root, file)).collect();
    let kept = archived::ArchiveLookup::new(inventory, archive);
    gather(read, |traces| {
        let mut found = cross_file::missing_named_files(inventory, traces, &kept);
        found.extend(companion::check(std::iter::once(files)));
        found.extend(lock_file::check(std::iter::once(files)));
        found.extend(cross_file::missing_companions(std::iter::once(files)));
        found.extend(cross_file::lost_beginnings(inventory, traces));
        found
    })
}

/// Checks every file that has a schema, and references between files. Calls `progress` with the
/// bytes done and in total. Missing files that are in the archive are reported as such.
pub fn all(
    inventory: &Inventory,
    archive: Option<&Archive>,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Vec<Result<FileReport>> {
    let of_sessions = inventory
        .sessions
        .iter()
        .flat_map(|files| files.files().map(move |file| (&*files.root, file)));
    let others = inventory.others.iter().map(|(root, file)| (root, file));
    let mut files: Vec<(&Root, &RootFile)> = of_sessions
        .chain(others)
        .filter(|(_, file)| has_schema(file.artifact.kind))
        .collect();
    let total = files.iter().map(|(_, file)| file.bytes()).sum();
    let done = AtomicU64::new(0);
    crate::sort::by_key(&mut files, |(_, file)| std::cmp::Reverse(file.bytes()));
    let read: Vec<Read<'_>> = files
        .into_par_iter()
        .with_max_len(1)
        .map(|(root, found)| {
            let read = examine(root, found);
            let so_far = done.fetch_add(found.bytes(), Ordering::Relaxed) + found.bytes();
            progress(so_far, total);
            read
        })
        .collect();
    gather(read, |traces| {
        let mut found = cross_file::check(inventory, traces, archive);
        found.extend(unknown::check(inventory));
        found.extend(companion::check(inventory.sessions.iter()));
        found.extend(lock_file::check(inventory.sessions.iter()));
        found
    })
}

/// A file and the result of reading it.
type Read<'a> = (&'a RootFile, Result<(Vec<FileReport>, LogTraces<'a>)>);

fn examine<'a>(root: &'a Root, file: &'a RootFile) -> Read<'a> {
    (file, line::examine(root, file))
}

/// Merges the results of all files, and adds the checks across files.
fn gather(
    read: Vec<Read<'_>>,
    across: impl FnOnce(&[LogTraces<'_>]) -> Vec<FileReport>,
) -> Vec<Result<FileReport>> {
    let mut whole: BTreeMap<PathBuf, FileReport> = BTreeMap::new();
    let mut failed: Vec<(PathBuf, Error)> = Vec::new();
    let mut all_traces = Vec::new();
    for (file, result) in read {
        match result {
            Err(error) => failed.push((file.path.clone(), error)),
            Ok((reports, traces)) => {
                all_traces.push(traces);
                for report in reports {
                    merge(&mut whole, report);
                }
            }
        }
    }
    for report in across(&all_traces) {
        merge(&mut whole, report);
    }
    crate::sort::by(&mut failed, |(a, _), (b, _)| a.cmp(b));
    let failed = failed.into_iter().map(|(_, error)| Err(error));
    failed.chain(whole.into_values().map(Ok)).collect()
}

/// Merges the reports of several sessions about one file.
fn merge(whole: &mut BTreeMap<PathBuf, FileReport>, report: FileReport) {
    match whole.entry(report.path.clone()) {
        Entry::Vacant(slot) => {
            slot.insert(report);
        }
        Entry::Occupied(mut slot) => {
            let sum = slot.get_mut();
            sum.read |= report.read;
            sum.lines += report.lines;
            sum.valid += report.valid;
            sum.bytes += report.bytes;
            sum.unrepairable.extend(report.unrepairable);
            sum.flaws.extend(report.flaws);
            crate::sort::by_key(&mut sum.flaws, |flaw| (flaw.span.offset, flaw.kind));
        }
    }
}

/// Reports an index that is behind its logs. Of the index itself, only the length is reported.
pub fn stale_session_list(session_list: &StaleSessionList) -> FileReport {
    let length = std::fs::metadata(&session_list.path).map(|metadata| metadata.len());
    let detail = format!("{}; `annals repair` fixes it", session_list.detail);
    FileReport {
        bytes: length.unwrap_or(0),
        ..FileReport::with_flaw(
            &session_list.path,
            whole_file(session_list.flaw_kind(), detail),
        )
    }
}

/// Creates a flaw of a whole file or directory.
fn whole_file(kind: FlawKind, detail: impl Into<String>) -> Flaw {
    Flaw {
        kind,
        span: Span::default(),
        volume: 0,
        detail: detail.into(),
    }
}

/// Returns whether files of this kind have a schema to check.
pub(crate) fn has_schema(kind: ArtifactKind) -> bool {
    kind.is_log()
        || matches!(
            kind,
            ArtifactKind::Todos
                | ArtifactKind::Task
                | ArtifactKind::AgentMeta
                | ArtifactKind::Settings
                | ArtifactKind::TitleFile
                | ArtifactKind::SessionList
        )
}
