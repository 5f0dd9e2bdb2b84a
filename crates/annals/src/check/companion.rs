//! Checks companion files for entries that match no line of their log.

use std::collections::BTreeMap;
use std::path::Path;

use crate::store::{RootFile, SessionFiles};
use annals_layouts::model::{FlawKind, Span};

use super::{FileReport, whole_file};

/// Reports on the companion files of the sessions' logs, each once.
pub(super) fn check<'a>(sessions: impl Iterator<Item = &'a SessionFiles>) -> Vec<FileReport> {
    // Several sessions may share a log.
    let mut logs: BTreeMap<&Path, &RootFile> = BTreeMap::new();
    for log in sessions.flat_map(SessionFiles::logs) {
        let volumes = log.volumes().filter(|volume| volume.companion.is_some());
        logs.extend(volumes.map(|volume| (volume.path.as_path(), volume)));
    }
    logs.into_values().filter_map(report).collect()
}

fn report(log: &RootFile) -> Option<FileReport> {
    let companion = log.companion.as_deref()?;
    let found = log.unmatched_entries();
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let flaw = whole_file(FlawKind::Unreadable, error.to_string());
            return Some(FileReport::with_flaw(&companion.path, flaw));
        }
    };
    let name = log.path.file_name().unwrap_or_default().to_string_lossy();
    let entries = match found.entries {
        1 => "1 entry".to_owned(),
        entries => format!("{entries} entries"),
    };
    let flaw_at = |kind, spans: &[Span], detail: String| {
        let mut flaw = whole_file(kind, detail);
        flaw.span = *spans.first()?;
        Some(flaw)
    };
    let unmatched = flaw_at(
        FlawKind::UnmatchedEntry,
        &found.unmatched,
        format!(
            "no line of {name} matches {} of its {entries}",
            found.unmatched.len()
        ),
    );
    let moved = flaw_at(
        FlawKind::MovedEntry,
        &found.moved,
        format!(
            "{name} has no line for {} of its {entries}; they are read after the previous line",
            found.moved.len()
        ),
    );
    let mut flaws = unmatched.into_iter().chain(moved);
    let mut report = FileReport::with_flaw(&companion.path, flaws.next()?);
    report.flaws.extend(flaws);
    Some(report)
}
