//! Checks the environment of logs: access by other users, unsafe file systems, imminent deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use crate::store::{Inventory, Root, RootFile, SessionFiles, Store, record_source};
use annals_jsonl as jsonl;
use annals_layouts::model::FlawKind;

use super::{FileReport, pluralize, whole_file};

/// Time before its deletion at which a session is reported.
const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Checks the directories of roots; each finding is reported once per root.
pub fn environment(store: &Store, inventory: &Inventory, now: Timestamp) -> Vec<FileReport> {
    let keep = inventory.retention_days();
    let mut found = Vec::new();
    for root in store.roots() {
        let here = |files: &&SessionFiles| {
            files.root.path == root.path && files.root.layout.name() == root.layout.name()
        };
        let sessions: Vec<&SessionFiles> = inventory.sessions.iter().filter(here).collect();
        if sessions.is_empty() {
            continue;
        }
        let days = keep.get(&root.path).copied().flatten();
        found.extend(open_mode(root, &sessions));
        found.extend(network_file_system(root, jsonl::is_remote));
        found.extend(expiring(root, &sessions, days, now));
    }
    found
}

/// Returns the mode bits of group and others.
fn other_users_mode(root: &Root, path: &Path) -> u32 {
    let metadata = root.failures().target_metadata(path);
    metadata.map_or(0, |metadata| metadata.permissions().mode()) & 0o077
}

/// Reports logs that other users can read or change. A root that they cannot enter protects
/// everything in it.
fn open_mode(root: &Root, sessions: &[&SessionFiles]) -> Option<FileReport> {
    if other_users_mode(root, &root.path) & 0o011 == 0 {
        return None;
    }
    // Several sessions may share a log.
    let logs = sessions.iter().flat_map(|files| files.logs());
    let logs = logs.flat_map(|log| log.volumes());
    let path =
        |log: &RootFile| record_source::disk_path(&log.path, log.artifact.framing).to_owned();
    let paths: BTreeSet<PathBuf> = logs.map(path).collect();
    let mut open = 0;
    let mut can = 0;
    for path in paths {
        let may = other_users_mode(root, &path) & 0o066;
        open += usize::from(may != 0);
        can |= may;
    }
    if open == 0 {
        return None;
    }
    let verb = if can & 0o022 == 0 { "read" } else { "change" };
    let detail = format!(
        "other users can {verb} {}: chmod -R go-rwx {}",
        pluralize(open, "log"),
        root.path.display()
    );
    let flaw = whole_file(FlawKind::OpenMode, detail);
    Some(FileReport::with_flaw(&root.path, flaw))
}

/// Reports a root on a network file system, according to `is_remote`.
fn network_file_system(
    root: &Root,
    is_remote: impl Fn(&File) -> io::Result<bool>,
) -> Option<FileReport> {
    let failures = root.failures();
    let dir = failures.ok_io(&root.path, File::open(&root.path))?;
    let detail = "on a network file system, where appends can be lost";
    failures
        .ok_io(&root.path, is_remote(&dir))?
        .then(|| FileReport::with_flaw(&root.path, whole_file(FlawKind::Network, detail)))
}

/// Reports sessions that their own program will delete within a week, or at its next start. The
/// days count from the modification time of the log file, which is never before the newest entry
/// was written.
fn expiring(
    root: &Root,
    sessions: &[&SessionFiles],
    days: Option<u64>,
    now: Timestamp,
) -> Option<FileReport> {
    let days = days.or_else(|| root.layout.retention_days())?;
    let keep = SignedDuration::from_hours(i64::try_from(days.min(36_500)).ok()? * 24);
    let ends = |files: &&SessionFiles| {
        let file = files.files().next()?;
        let touched = Timestamp::from_nanosecond(file.id.mtime_ns.into()).ok()?;
        touched.checked_add(keep).ok()
    };
    let soon = now.checked_add(SOON).ok()?;
    let mut by_day: BTreeMap<Timestamp, usize> = BTreeMap::new();
    for end in sessions.iter().filter_map(ends).filter(|end| *end <= soon) {
        *by_day.entry(end).or_default() += 1;
    }
    let overdue: usize = by_day.range(..=now).map(|(_, many)| many).sum();
    let ahead: usize = by_day.values().sum::<usize>() - overdue;
    let later = (Bound::Excluded(now), Bound::Unbounded);
    let next = by_day.range(later).next().map(|(end, _)| *end);
    let program = root.layout.name();
    let later = next.map(|next| {
        let day = next.strftime("%Y-%m-%d");
        format!(
            "{} within a week, the first on {day}",
            pluralize(ahead, "session")
        )
    });
    let due = (overdue > 0).then(|| format!("{} at its next start", pluralize(overdue, "session")));
    let parts: Vec<String> = due.into_iter().chain(later).collect();
    if parts.is_empty() {
        return None;
    }
    let detail = format!(
        "{program} will delete {} (it keeps them for {})",
        parts.join(", and "),
        pluralize(days, "day")
    );
    let flaw = whole_file(FlawKind::Expiring, detail);
    Some(FileReport::with_flaw(&root.path, flaw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_that_expires_now_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("projects/-w");
        std::fs::create_dir_all(&folder).unwrap();
        let log = folder.join("11111111-2222-4333-8444-555555555555.jsonl");
        std::fs::write(log, "{}\n").unwrap();
        let root = Root::claude_code(dir.path());
        let inventory = Store::new(vec![root.clone()]).inventory();
        let sessions: Vec<&SessionFiles> = inventory.sessions.iter().collect();
        let written = sessions[0].files().next().unwrap().id.mtime_ns;
        let written = Timestamp::from_nanosecond(written.into()).unwrap();
        let end = written.checked_add(SignedDuration::from_hours(24)).unwrap();
        for (now, expected) in [
            (
                end,
                "will delete 1 session at its next start (it keeps them for 1 day)",
            ),
            (written, "will delete 1 session within a week, the first on"),
        ] {
            let report = expiring(&root, &sessions, Some(1), now).unwrap();
            let detail = &report.flaws[0].detail;
            assert!(detail.contains(expected), "{detail}");
        }
    }

    #[test]
    fn network_flaw_only_for_remote_file_systems() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::claude_code(dir.path());
        let kind = |found: Option<FileReport>| found.map(|report| report.flaws[0].kind);
        assert_eq!(
            kind(network_file_system(&root, |_| Ok(true))),
            Some(FlawKind::Network)
        );
        assert_eq!(kind(network_file_system(&root, |_| Ok(false))), None);
        assert_eq!(
            kind(network_file_system(&root, |_| Err(io::Error::other("?")))),
            None
        );
    }
}
