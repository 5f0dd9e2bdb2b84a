//! Companions whose entries belong to no line of their logs.

use std::collections::BTreeMap;
use std::path::Path;

use crate::model::FlawKind;
use crate::store::{FoundFile, SessionFiles};

use super::{FileReport, whole_file};

/// Reports the companions of some sessions' logs, each once.
pub(super) fn check<'a>(sessions: impl Iterator<Item = &'a SessionFiles>) -> Vec<FileReport> {
    // Several sessions may share a log.
    let mut logs: BTreeMap<&Path, &FoundFile> = BTreeMap::new();
    for log in sessions.flat_map(SessionFiles::logs) {
        let volumes = log.volumes().filter(|volume| volume.companion.is_some());
        logs.extend(volumes.map(|volume| (volume.path.as_path(), volume)));
    }
    logs.into_values().filter_map(report).collect()
}

fn report(log: &FoundFile) -> Option<FileReport> {
    let companion = log.companion.as_deref()?;
    let found = log.unmatched_entries();
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let flaw = whole_file(FlawKind::Unreadable, error.to_string());
            return Some(FileReport::about(&companion.path, flaw));
        }
    };
    let first = *found.unmatched.first()?;
    let name = log.path.file_name().unwrap_or_default().to_string_lossy();
    let mut flaw = whole_file(
        FlawKind::UnmatchedEntry,
        format!(
            "no line of {name} matches {} of its {}",
            found.unmatched.len(),
            match found.entries {
                1 => "1 entry".to_owned(),
                entries => format!("{entries} entries"),
            }
        ),
    );
    flaw.span = first;
    Some(FileReport::about(&companion.path, flaw))
}
