//! Checks references between files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::archive::Archive;
use crate::error::Error;
use crate::store::{
    Inventory, MAX_DEPTH, Root, RootFile, SessionFiles, listed_sessions, record_source,
    rows_without_log,
};
use annals_jsonl as jsonl;
use annals_layouts::model::{AgentId, ArtifactKind, FlawKind, SessionId};

use super::archived::{ArchiveLookup, only_archived_detail};
use super::line::{LogTraces, RecordLocation, folded_key};
use super::{FileReport, pluralize, whole_file};

/// Runs every check across files.
pub(super) fn check(
    inventory: &Inventory,
    traces: &[LogTraces<'_>],
    archive: Option<&Archive>,
) -> Vec<FileReport> {
    let kept = ArchiveLookup::new(inventory, archive);
    let mut found = missing_named_files(inventory, traces, &kept);
    found.extend(lost_leaves(traces));
    found.extend(shared_folders(traces));
    found.extend(shared_ids(inventory));
    found.extend(lost_beginnings(inventory, traces));
    found.extend(orphan_files(inventory, &kept));
    found.extend(stale_lists(inventory, &kept));
    found.extend(miscounted_rows(inventory, traces));
    found.extend(missing_companions(inventory.sessions.iter()));
    found
}

/// Reports files that a layout's own program always keeps with a session's log and that are
/// missing.
pub(super) fn missing_companions<'a>(
    sessions: impl Iterator<Item = &'a SessionFiles>,
) -> Vec<FileReport> {
    let mut found = Vec::new();
    for files in sessions {
        let Some(log) = files.log.as_ref().filter(|_| !files.is_archived()) else {
            continue;
        };
        for artifact in files.root.layout.required_files(&log.artifact) {
            let path = files.root.path.join(files.root.layout.path_for(&artifact));
            // Other errors are reported as read failures.
            let absent = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
            let metadata = path.symlink_metadata();
            if !metadata.as_ref().is_err_and(absent) {
                files.root.failures.ok_io(&path, metadata);
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let detail = format!(
                "its program always keeps {name} next to it, but it is missing; the next `annals notes add` creates it"
            );
            let flaw = whole_file(FlawKind::MissingFile, detail);
            found.push(FileReport::with_flaw(&log.path, flaw));
        }
    }
    found
}

/// Reports session lists that list a log with more messages than it has lines. A list with fewer is
/// stale, which is reported separately.
fn miscounted_rows(inventory: &Inventory, traces: &[LogTraces<'_>]) -> Vec<FileReport> {
    type Place<'a> = (&'a Path, Option<&'a str>, &'a SessionId);
    let mut logs: HashMap<Place<'_>, &LogTraces<'_>> = HashMap::new();
    for traces in traces {
        let artifact = &traces.file.artifact;
        if artifact.kind == ArtifactKind::SessionLog
            && let Some(session) = &artifact.session
        {
            let root = traces.root.path.as_path();
            logs.insert((root, artifact.folder.as_deref(), session), traces);
        }
    }
    let mut found = Vec::new();
    for (root, file) in inventory.others_of_kind(ArtifactKind::SessionList) {
        let folder = file.artifact.folder.as_deref();
        for (session, messages) in listed_sessions(root, file) {
            let log = logs.get(&(root.path.as_path(), folder, &session));
            let (Some(log), Some(listed)) = (log, messages) else {
                continue;
            };
            // A log that has grown since it was read may have the listed messages.
            let now = record_source::stat(&log.file.path, log.file.artifact.framing);
            let now = root.failures.ok_io(&log.file.path, now);
            let still = now.is_some_and(|now| now.len == log.file.id.len);
            if listed > log.lines && still {
                let listed = pluralize(listed, "message");
                let detail = format!(
                    "lists {session} with {listed}, but its log has {}",
                    log.lines
                );
                let flaw = whole_file(FlawKind::RowMismatch, detail);
                found.push(FileReport::with_flaw(&file.path, flaw));
            }
        }
    }
    found
}

/// Reports files that records name and that are missing, once for each log and kind.
///
/// A record may be copied from another session with the file name unchanged, so a file of any
/// session of the root counts.
pub(super) fn missing_named_files(
    inventory: &Inventory,
    traces: &[LogTraces<'_>],
    kept: &ArchiveLookup<'_>,
) -> Vec<FileReport> {
    if traces.iter().all(|traces| traces.named.is_empty()) {
        return Vec::new();
    }
    let of_sessions = inventory.sessions.iter().flat_map(|files| {
        let beside = files.attachments.iter();
        beside.map(|file| (files.root.path.as_path(), file))
    });
    let others = inventory.others.iter();
    let others = others.map(|(root, file)| (root.path.as_path(), file));
    let there: HashSet<(&Path, ArtifactKind, &str)> = of_sessions
        .chain(others)
        .filter_map(|(root, file)| Some((root, file.artifact.kind, file.artifact.name.as_deref()?)))
        .collect();
    let mut found = Vec::new();
    for traces in traces {
        let root = traces.root.path.as_path();
        let gone = traces.named.iter();
        let gone = gone.filter(|((kind, name), _)| !there.contains(&(root, *kind, name.as_str())));
        // Missing files by kind and by the session that has them in the archive, if any.
        type Owned<'a> = (ArtifactKind, Option<&'a SessionId>);
        let mut by_kind: BTreeMap<Owned<'_>, Vec<(&str, RecordLocation)>> = BTreeMap::new();
        for ((kind, name), place) in gone {
            let owner = kept.owner(root, *kind, name);
            let known = by_kind.entry((*kind, owner)).or_default();
            known.push((name, *place));
        }
        for ((kind, owner), gone) in by_kind {
            let first = gone.iter();
            let first = first.min_by_key(|(_, place)| (place.volume, place.span.offset));
            let Some((name, place)) = first else { continue };
            let many = pluralize(gone.len(), noun(kind));
            let (flaw, detail) = match (owner, gone.len()) {
                (Some(owner), _) => (FlawKind::OnlyArchived, only_archived_detail(&many, owner)),
                (None, 1) => {
                    let detail = format!("missing {}: {name}", noun(kind));
                    (FlawKind::MissingFile, detail)
                }
                (None, _) => {
                    let detail = format!("{many} missing, such as {name}");
                    (FlawKind::MissingFile, detail)
                }
            };
            let path = &traces.file.volume(place.volume).path;
            let flaw = place.flaw(flaw, detail);
            found.push(FileReport::with_flaw(path, flaw));
        }
    }
    found
}

/// Reports summaries of conversations that are in no log, once for each log.
fn lost_leaves(traces: &[LogTraces<'_>]) -> Vec<FileReport> {
    let leaves = traces.iter().flat_map(|traces| &traces.leaves);
    let mut lost: HashSet<u64> = leaves.map(|(leaf, _)| folded_key(*leaf)).collect();
    if lost.is_empty() {
        return Vec::new();
    }
    for id in traces.iter().flat_map(|traces| &traces.ids) {
        lost.remove(id);
    }
    let mut found = Vec::new();
    for traces in traces {
        let mut gone = traces.leaves.iter();
        let mut gone = gone
            .by_ref()
            .filter(|(leaf, _)| lost.contains(&folded_key(*leaf)));
        let Some((_, place)) = gone.next() else {
            continue;
        };
        let detail = match gone.count() {
            0 => "no log contains the conversation of this summary".to_owned(),
            more => {
                format!("no log contains the conversations of this summary and {more} more")
            }
        };
        let path = &traces.file.volume(place.volume).path;
        found.push(FileReport::with_flaw(
            path,
            place.flaw(FlawKind::LostLeaf, detail),
        ));
    }
    found
}

/// Reports folders with sessions of several working directories.
fn shared_folders(traces: &[LogTraces<'_>]) -> Vec<FileReport> {
    let mut folders: BTreeMap<PathBuf, BTreeSet<&str>> = BTreeMap::new();
    for traces in traces
        .iter()
        .filter(|traces| !traces.directories.is_empty())
    {
        let dir = traces.file.path.parent().unwrap_or(&traces.root.path);
        let directories = traces.directories.iter().map(String::as_str);
        // Sub-agents' logs may be in a deeper directory than their session's.
        let is_main = traces.file.artifact.kind == ArtifactKind::SessionLog;
        if is_main {
            let known = folders.entry(dir.to_owned()).or_default();
            known.extend(directories);
        }
    }
    let several = folders.into_iter().filter(|(_, known)| known.len() > 1);
    let report = |(dir, known): (PathBuf, BTreeSet<&str>)| {
        let names: Vec<&str> = known.iter().copied().take(3).collect();
        let more = match known.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let detail = format!("sessions of {}{more} share this folder", names.join(", "));
        FileReport::with_flaw(&dir, whole_file(FlawKind::SharedFolder, detail))
    };
    several.map(report).collect()
}

/// Reports forks by reference whose beginning is not there: the log of the parent is missing or
/// shorter, or continues the fork itself.
pub(super) fn lost_beginnings(inventory: &Inventory, traces: &[LogTraces<'_>]) -> Vec<FileReport> {
    type Place<'a> = (&'a Path, &'a str);
    let forks = traces.iter().filter(|traces| traces.base.is_some());
    let forks: Vec<&LogTraces<'_>> = forks.collect();
    if forks.is_empty() {
        return Vec::new();
    }
    let logs: HashMap<Place<'_>, &RootFile> = inventory
        .sessions
        .iter()
        .filter_map(|files| Some((files, files.log.as_ref()?)))
        .map(|(files, log)| ((files.root.path.as_path(), files.id.as_str()), log))
        .collect();
    let parents: HashMap<Place<'_>, &str> = forks
        .iter()
        .filter_map(|fork| {
            let (base, _) = fork.base.as_ref()?;
            let id = fork.file.artifact.session.as_ref()?.as_str();
            Some(((fork.root.path.as_path(), id), &*base.session))
        })
        .collect();
    let mut found = Vec::new();
    for fork in forks {
        let Some((base, place)) = &fork.base else {
            continue;
        };
        let root = fork.root.path.as_path();
        let own = fork.file.artifact.session.as_ref().map(SessionId::as_str);
        let mut seen = HashSet::from([&*base.session]);
        let mut next = &*base.session;
        while let Some(parent) = parents.get(&(root, next))
            && seen.len() <= MAX_DEPTH
            && seen.insert(parent)
        {
            next = parent;
        }
        let named = &base.session;
        let (kind, detail) = match logs.get(&(root, &**named)) {
            _ if own.is_some_and(|own| seen.contains(own)) => (
                FlawKind::Unresumable,
                format!("it continues session {named}, which continues this one"),
            ),
            None => (
                FlawKind::MissingFile,
                format!("it continues session {named}, whose log is missing"),
            ),
            Some(log) if !log.is_archived() && log.id.len < base.end => (
                FlawKind::MissingFile,
                format!(
                    "it continues the first {} bytes of session {named}, whose log has {}",
                    base.end, log.id.len
                ),
            ),
            Some(log) if ends_inside_line(fork.root, log, base.end) => (
                FlawKind::CutHistory,
                format!(
                    "it continues the first {} bytes of session {named}, which end inside a line; annals reads the lines before it",
                    base.end
                ),
            ),
            Some(_) if seen.len() > MAX_DEPTH => (
                FlawKind::CutHistory,
                format!(
                    "it is a fork of more than {MAX_DEPTH} forks; annals reads the last of them"
                ),
            ),
            Some(_) => continue,
        };
        found.push(FileReport::with_flaw(
            &fork.file.path,
            place.flaw(kind, detail),
        ));
    }
    found
}

/// Returns whether the first `end` bytes of a log, which is not shorter, end inside a line.
fn ends_inside_line(root: &Root, log: &RootFile, end: u64) -> bool {
    let Some(last) = end.checked_sub(1).filter(|_| log.id.len >= end) else {
        return false;
    };
    let byte = root.failures.ok(log.open_bytes().and_then(|bytes| {
        let byte = jsonl::read_span(&bytes, last, 1);
        byte.map_err(|error| Error::io("read", &log.path, error))
    }));
    byte.is_some_and(|byte| byte != b"\n")
}

/// Reports session logs with the same id at several paths.
fn shared_ids(inventory: &Inventory) -> Vec<FileReport> {
    let mut logs: HashMap<&SessionId, Vec<(&Root, &Path)>> = HashMap::new();
    for files in &inventory.sessions {
        let own = |log: &&RootFile| log.artifact.kind == ArtifactKind::SessionLog;
        if let Some(log) = files.log.as_ref().filter(own) {
            let known = logs.entry(&files.id).or_default();
            known.push((&files.root, &log.path));
        }
    }
    let several = logs.into_values().filter(|paths| paths.len() > 1);
    let report = |paths: Vec<(&Root, &Path)>| {
        let ((root, first), rest) = paths.split_first()?;
        let (_, other) = rest.first()?;
        let other = other.strip_prefix(&root.path).unwrap_or(other).display();
        let detail = match rest.len() {
            1 => format!("another log of the same session: {other}"),
            many => format!("{many} more logs of the same session, such as {other}"),
        };
        Some(FileReport::with_flaw(
            first,
            whole_file(FlawKind::SharedId, detail),
        ))
    };
    several.filter_map(report).collect()
}

/// Reports files of sessions without a log, once for each session.
fn orphan_files(inventory: &Inventory, kept: &ArchiveLookup<'_>) -> Vec<FileReport> {
    let mut left: BTreeMap<(&Path, Option<&SessionId>), Vec<&RootFile>> = BTreeMap::new();
    for (root, file) in inventory.others.iter().filter(|(_, file)| is_orphan(file)) {
        let session = file.artifact.session.as_ref();
        let key = (root.path.as_path(), session);
        left.entry(key).or_default().push(file);
    }
    for files in inventory
        .sessions
        .iter()
        .filter(|files| files.log.is_none() && !files.is_unwritten())
    {
        let key = (files.root.path.as_path(), Some(&files.id));
        left.entry(key).or_default().extend(files.files());
    }
    let report = |((root, session), files): ((&Path, Option<&SessionId>), Vec<&RootFile>)| {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for file in &files {
            *kinds.entry(noun(file.artifact.kind)).or_default() += 1;
        }
        let kinds: Vec<String> = kinds
            .iter()
            .map(|(noun, many)| pluralize(*many, noun))
            .collect();
        let kinds = kinds.join(", ");
        let (flaw, detail) = match session {
            Some(session) if kept.has_log(root, session) => {
                let what = format!("the log of session {session} (here: {kinds})");
                (FlawKind::OnlyArchived, only_archived_detail(&what, session))
            }
            Some(session) => {
                let detail = format!("{kinds} of session {session}, which has no log");
                (FlawKind::Stray, detail)
            }
            None => {
                let detail = format!("{kinds} of an unknown session");
                (FlawKind::Stray, detail)
            }
        };
        let path = &files.first()?.path;
        Some(FileReport::with_flaw(path, whole_file(flaw, detail)))
    };
    left.into_iter().filter_map(report).collect()
}

/// Returns whether a file belongs to a session, has none, and has content worth reporting.
fn is_orphan(file: &RootFile) -> bool {
    use ArtifactKind as K;
    match file.artifact.kind {
        K::AgentLog => true,
        // Programs write `[]` for every session.
        K::Todos => file.artifact.session.is_some() && file.id.len > 2,
        K::Task
        | K::FileVersion
        | K::ToolResult
        | K::AgentMeta
        | K::TitleFile
        | K::Notes
        | K::Companion => file.artifact.session.is_some(),
        _ => false,
    }
}

fn noun(kind: ArtifactKind) -> &'static str {
    match kind {
        ArtifactKind::AgentLog | ArtifactKind::SharedLog => "sub-agent log",
        ArtifactKind::AgentMeta => "sub-agent description",
        ArtifactKind::Todos => "todo list",
        ArtifactKind::Task => "task",
        ArtifactKind::FileVersion => "saved file",
        ArtifactKind::ToolResult => "tool output",
        ArtifactKind::TitleFile => "title",
        ArtifactKind::Notes => "notes log",
        ArtifactKind::Companion => "companion file",
        _ => "other file",
    }
}

/// Reports session lists and indexes that list missing logs.
fn stale_lists(inventory: &Inventory, kept: &ArchiveLookup<'_>) -> Vec<FileReport> {
    let rows = rows_without_log(inventory).into_iter().map(|row| {
        let messages = pluralize(row.messages, "message");
        let session = &row.session;
        let flaw = if kept.has_log(&row.root.path, session) {
            let what = format!("the log of {session}, listed with {messages}");
            whole_file(FlawKind::OnlyArchived, only_archived_detail(&what, session))
        } else {
            let detail = format!("lists {session} with {messages}, but it has no log");
            whole_file(FlawKind::RowWithoutLog, detail)
        };
        FileReport::with_flaw(&row.path, flaw)
    });
    let rows = rows.chain(index_drift(inventory));
    rows.chain(
        inventory
            .roots
            .iter()
            .filter_map(|root| database_drift(root, inventory)),
    )
    .collect()
}

/// Reports a database that a program derives from its logs and that differs from them.
fn database_drift(root: &Root, inventory: &Inventory) -> Option<FileReport> {
    let format = root.layout.spec().derived_database?;
    let path = root.path.join(format.file);
    if !jsonl::exists(&path).is_ok_and(|exists| exists) {
        return None;
    }
    let keys = match record_source::session_keys(&path, format) {
        Ok(keys) => keys,
        Err(error) => {
            let flaw = whole_file(FlawKind::IndexDrift, format!("cannot be read: {error}"));
            return Some(FileReport::with_flaw(&path, flaw));
        }
    };
    let listed: HashSet<&str> = keys.iter().map(String::as_str).collect();
    let here = inventory.sessions.iter();
    let here = here.filter(|files| files.root.path == root.path);
    let (mut sessions, mut agents) = (HashSet::new(), HashSet::new());
    for files in here {
        sessions.extend(files.log.as_ref().map(|_| files.id.as_str()));
        let logs = files.logs().filter_map(|file| file.artifact.agent.as_ref());
        agents.extend(logs.map(AgentId::as_str));
    }
    let has_log = |key: &&&str| sessions.contains(**key) || agents.contains(**key);
    let gone = listed.len() - listed.iter().filter(has_log).count();
    let unlisted = sessions.iter().filter(|id| !listed.contains(**id)).count();
    if gone + unlisted == 0 {
        return None;
    }
    let mut detail = format!(
        "lists {} without a log, lacks {unlisted}",
        pluralize(gone, "session")
    );
    if let Some((file, effect)) = root.layout.spec().unlisted_in
        && file == format.file
        && unlisted > 0
    {
        detail = format!("{detail}; {effect}");
    }
    let flaw = whole_file(FlawKind::IndexDrift, detail);
    Some(FileReport::with_flaw(&path, flaw))
}

/// Reports indexes of the client that list missing logs or lack existing ones.
fn index_drift(inventory: &Inventory) -> Vec<FileReport> {
    let mut found = Vec::new();
    for (root, file) in inventory.others_of_kind(ArtifactKind::Index) {
        // An index of all folders has no more than the indexes of the folders.
        let Some(folder) = file.artifact.folder.as_deref() else {
            continue;
        };
        let rows = listed_sessions(root, file);
        let known: HashSet<&SessionId> = rows.iter().map(|(id, _)| id).collect();
        let here =
            |files: &&SessionFiles| files.root.path == root.path && files.folder() == Some(folder);
        let sessions: Vec<&SessionFiles> = inventory.sessions.iter().filter(here).collect();
        let there: HashSet<&SessionId> = sessions.iter().map(|files| &files.id).collect();
        let gone = rows.iter().filter(|(id, _)| !there.contains(id)).count();
        let unlisted = sessions.iter().filter(|files| files.log.is_some());
        let unlisted = unlisted.filter(|files| !known.contains(&files.id)).count();
        if gone + unlisted > 0 && !rows.is_empty() {
            let detail = format!(
                "lists {} without a log, lacks {unlisted}",
                pluralize(gone, "session")
            );
            let flaw = whole_file(FlawKind::IndexDrift, detail);
            found.push(FileReport::with_flaw(&file.path, flaw));
        }
    }
    found
}
