//! Checks: what is wrong with which file.
//!
//! Four depths, one file each: single lines and documents (`read`), how the entries of one log hang
//! together (`log`, and `resume` for what the agent's own program would leave out), what files say of
//! each other (`across`, `companion`, and `unknown` for those that no layout knows), and the machine that they lie on ([`environment()`]). Reports; changes nothing.
//!
//! Logs are read in parallel and each once. What is kept of a log for the checks across files is
//! small: eight bytes for each id, and the names of files and directories that it speaks of.

mod archived;
mod companion;
mod cross_file;
mod environment;
mod line;
mod log;
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
use crate::model::{ArtifactKind, Flaw, FlawKind, Severity, Span};
use crate::store::{Inventory, ReadFailures, Root, RootFile, SessionFiles, StaleSessionList};

pub(crate) use cross_file::rows_without_log;
pub use environment::environment;
use line::LogTraces;

/// What a check found in one file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FileReport {
    /// The file, or the directory that the findings are about.
    #[serde(serialize_with = "lossy_path")]
    pub path: PathBuf,
    /// Its content was read. If not, it is a directory or was only looked at from outside.
    pub read: bool,
    /// Lines that are not blank; 1 for a document.
    pub lines: u64,
    /// Those of them that could be read.
    pub valid: u64,
    /// Its length.
    pub bytes: u64,
    /// What is wrong, in file order.
    pub flaws: Vec<Flaw>,
    /// Kinds that `annals repair` mends elsewhere, but not in this file.
    #[serde(skip)]
    pub unrepairable: BTreeSet<FlawKind>,
}

/// Serialises a path whose name need not be UTF-8.
fn lossy_path<S: Serializer>(path: &Path, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

impl FileReport {
    /// Something to say about a path without having read it.
    fn with_flaw(path: &Path, flaw: Flaw) -> Self {
        FileReport {
            path: path.to_owned(),
            read: false,
            lines: 0,
            valid: 0,
            bytes: 0,
            flaws: vec![flaw],
            unrepairable: BTreeSet::new(),
        }
    }

    /// Whether `annals repair` mends a flaw of that kind in this file.
    pub fn fixable(&self, kind: FlawKind) -> bool {
        self.is_rebuilt(kind) || (kind.fixable() && !self.unrepairable.contains(&kind))
    }

    /// Whether the file is derived from logs and will be made from them again, whatever is in it.
    fn is_rebuilt(&self, kind: FlawKind) -> bool {
        let is_document = matches!(kind, FlawKind::BadDocument | FlawKind::BadJson);
        let mut kinds = self.flaws.iter().map(|flaw| flaw.kind);
        is_document && kinds.any(|kind| kind == FlawKind::StaleIndex)
    }

    /// What to do about a flaw of that kind in this file, in one line.
    pub fn advice(&self, kind: FlawKind) -> &'static str {
        if self.is_rebuilt(kind) {
            return FlawKind::StaleIndex.advice();
        }
        if !self.unrepairable.contains(&kind) {
            return kind.advice();
        }
        match kind {
            FlawKind::BadHeader => {
                "see whether it is the right file, and of a version that annals knows; annals changes no header that is there"
            }
            kind if kind.is_link_flaw() => {
                "nothing: every entry is read; where sessions share a file, annals relinks nothing"
            }
            _ => FlawKind::BadDocument.advice(),
        }
    }

    /// The first hundred characters of the line that a flaw is in, where it keeps the line from being
    /// read as a record. If that cannot be read, it is reported to `failures`.
    pub fn line_excerpt(&self, flaw: &Flaw, failures: &ReadFailures) -> Option<String> {
        const SHOWN: usize = 100;
        let wanted = flaw.kind.hides_record() || flaw.kind == FlawKind::UnknownType;
        // Opening a pipe would wait for a writer.
        if !wanted {
            return None;
        }
        let file = crate::jsonl::open_to_read(&self.path);
        let file = failures.ok_io(&self.path, file)?;
        // A character has four bytes at most.
        let len = flaw.span.len.min(4 * SHOWN as u64);
        let bytes = crate::jsonl::read_span(&file, flaw.span.offset, len);
        let bytes = failures.ok_io(&self.path, bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_end().chars().take(SHOWN).collect())
    }

    /// How bad the worst of it is.
    pub fn worst(&self) -> Option<Severity> {
        self.flaws.iter().map(|flaw| flaw.kind.severity()).min()
    }
}

/// Checks one file, or the volumes of one log.
pub fn file(root: &Root, file: &RootFile) -> Result<Vec<FileReport>> {
    line::examine(root, file).map(|(reports, _)| reports)
}

/// Checks the files of one session, and whether those that its records name are there, or in the
/// archive.
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
        found.extend(cross_file::missing_companions(std::iter::once(files)));
        found
    })
}

/// Checks every file that has a schema, and what files say of each other; `progress` hears of bytes
/// done and bytes in all. What the archive has is told as that, and not as lost.
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
    files.sort_by_key(|(_, file)| std::cmp::Reverse(file.bytes()));
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
        found
    })
}

/// A file that was read, or could not be.
type Read<'a> = (&'a RootFile, Result<(Vec<FileReport>, LogTraces<'a>)>);

fn examine<'a>(root: &'a Root, file: &'a RootFile) -> Read<'a> {
    (file, line::examine(root, file))
}

/// Puts together what the files gave, and adds what can be told of all of them.
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
    failed.sort_by(|(a, _), (b, _)| a.cmp(b));
    let failed = failed.into_iter().map(|(_, error)| Err(error));
    failed.chain(whole.into_values().map(Ok)).collect()
}

/// Puts together what the sessions of one file gave.
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
            sum.flaws.sort_by_key(|flaw| (flaw.span.offset, flaw.kind));
        }
    }
}

/// What a check says of an index that is behind its logs. Of what the index itself holds, only its
/// length is told.
pub fn stale_session_list(register: &StaleSessionList) -> FileReport {
    let length = std::fs::metadata(&register.path).map(|metadata| metadata.len());
    let detail = format!("{}; `annals repair` mends it", register.detail);
    FileReport {
        bytes: length.unwrap_or(0),
        ..FileReport::with_flaw(&register.path, whole_file(register.flaw_kind(), detail))
    }
}

/// A flaw of a file as a whole, or of a directory.
fn whole_file(kind: FlawKind, detail: impl Into<String>) -> Flaw {
    Flaw {
        kind,
        span: Span::default(),
        volume: 0,
        detail: detail.into(),
    }
}

/// Files whose content we can be right or wrong about.
pub fn has_schema(kind: ArtifactKind) -> bool {
    kind.is_log()
        || matches!(
            kind,
            ArtifactKind::Todos
                | ArtifactKind::Task
                | ArtifactKind::AgentMeta
                | ArtifactKind::Settings
                | ArtifactKind::TitleFile
                | ArtifactKind::Register
        )
}

/// `1 line`, `2 lines`.
fn pluralize(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
