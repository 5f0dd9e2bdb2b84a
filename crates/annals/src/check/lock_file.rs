//! Checks that the lock files of logs can be locked.

use std::collections::BTreeSet;
use std::path::Path;

use crate::store::SessionFiles;
use annals_jsonl::lock_file::{lock_path, obstacle};
use annals_layouts::model::FlawKind;

use super::{FileReport, whole_file};

/// Reports what is in the place of lock files, once for each log.
pub(super) fn check<'a>(sessions: impl Iterator<Item = &'a SessionFiles>) -> Vec<FileReport> {
    // Several sessions may share a log.
    let mut logs: BTreeSet<&Path> = BTreeSet::new();
    for files in sessions {
        let volumes = files.logs().flat_map(|log| log.volumes());
        let paths = volumes.map(|log| log.path.as_path());
        logs.extend(paths.filter(|path| files.root.has_lock_file(path)));
    }
    logs.into_iter().filter_map(report).collect()
}

fn report(log: &Path) -> Option<FileReport> {
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    let detail = format!("{} in the place of the lock file of {name}", obstacle(log)?);
    let flaw = whole_file(FlawKind::BlockedLock, detail);
    Some(FileReport::with_flaw(&lock_path(log), flaw))
}
