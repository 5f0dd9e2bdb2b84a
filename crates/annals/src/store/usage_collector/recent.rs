//! Selects files and directories to check, where checking all of them would take too long.
//!
//! `Index::recent`, for the status line, reads the logs of the session itself and those with recent
//! usage. It checks all logs if a directory in which new logs would appear has changed, or if the
//! last check of all logs is more than five minutes old. Until then it may miss two things: usage
//! that another program adds to a log that was inactive for days, and logs in a directory that had
//! none.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::store::inventory::{self, RootFile};
use crate::store::{Root, is_stable, record_source};
use annals_jsonl::FileId;
use annals_layouts::model::{Artifact, ArtifactKind};

use super::UsageCollector;

/// Log of a session that is queried often.
pub(crate) struct OwnLog {
    path: PathBuf,
    pub(crate) artifact: Artifact,
}

impl OwnLog {
    /// Creates it for the log at a path, if that is in the root.
    pub(crate) fn new(root: &Root, path: &Path) -> Option<Self> {
        let artifact = root.layout.classify(path.strip_prefix(&root.path).ok()?)?;
        Some(OwnLog {
            path: path.to_owned(),
            artifact,
        })
    }

    /// Returns the log, and the logs in the directory named after it, in their current state.
    pub(crate) fn files(self, root: &Root) -> Vec<RootFile> {
        let directory = self.path.with_extension("");
        let mut files = Vec::new();
        let found = record_source::stat(&self.path, self.artifact.framing);
        if let Some(id) = root.failures.ok_io(&self.path, found) {
            files.push(RootFile::new(self.path, self.artifact, id));
        }
        let found = root.failures.metadata(&directory);
        if found.is_some_and(|it| it.is_dir())
            && let Ok(within) = directory.strip_prefix(&root.path)
        {
            let wanted = |kind: ArtifactKind| kind.is_conversation();
            let mut troubles = Vec::new();
            files.extend(inventory::walk(root, within, &wanted, &mut troubles));
            troubles
                .into_iter()
                .for_each(|error| root.failures.report(error));
        }
        files
    }
}

/// Directories of a root, with their modification times in nanoseconds since 1970.
///
/// The time changes when an entry is created or deleted in the directory, not when a file grows.
pub(crate) type DirTimes = Vec<(String, i64)>;

impl UsageCollector<'_> {
    /// Returns the directories of a root where new logs would appear: those with session logs,
    /// those with logs that grew within two days of the newest, and all their ancestors.
    pub(crate) fn recent_dirs(&self, root: &Root, number: usize) -> DirTimes {
        const LATELY: i64 = 2 * 86_400 * 1_000_000_000;
        let books = self.root_range(number).filter_map(|at| self.file(at));
        let newest = books.clone().map(|file| file.id.mtime_ns).max();
        let oldest = newest.unwrap_or_default().saturating_sub(LATELY);
        let mut wanted = HashSet::from([""]);
        let mut last = None;
        for file in books {
            let busy = file.artifact.kind != ArtifactKind::AgentLog || file.id.mtime_ns >= oldest;
            // Adjacent files are usually in one directory.
            let directory = file.path.parent().map(Path::as_os_str);
            if !busy || directory == last {
                continue;
            }
            last = directory;
            let within = file.path.strip_prefix(&root.path).ok();
            let above = within.into_iter().flat_map(|path| path.ancestors().skip(1));
            for name in above.map_while(Path::to_str) {
                if !wanted.insert(name) {
                    break;
                }
            }
        }
        let known = self.scanned_dirs.get(number).into_iter().flatten();
        let known = known.filter(|(path, _)| wanted.contains(path.as_str()));
        let known = known.map(|(path, changed)| (path.clone(), stable_time(*changed)));
        known.collect()
    }
}

/// Returns a time that any further change would alter. File system clocks are coarse, so a
/// directory that changed recently may change again at the same time; it gets a time that never
/// matches.
fn stable_time(changed: i64) -> i64 {
    let now = Timestamp::now().as_nanosecond() as i64;
    match is_stable(changed, now) {
        true => changed,
        false => i64::MIN,
    }
}

/// Returns whether nothing was created or deleted in these directories.
pub(crate) fn are_unchanged(root: &Root, places: &DirTimes) -> bool {
    places.iter().all(|(path, changed)| {
        let found = std::fs::metadata(root.path.join(path));
        found.is_ok_and(|found| FileId::from(&found).mtime_ns == *changed)
    })
}
