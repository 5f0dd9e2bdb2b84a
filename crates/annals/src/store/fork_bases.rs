//! Forks by reference: logs that continue the beginning of another session's log.
//!
//! Such a fork loses its history if the log that it continues is removed or changed before the fork
//! point. The header of a fork names the session.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use annals_layouts::model::{ArtifactKind, Framing};

use super::Root;
use super::inventory::{RootFile, SessionFiles};

/// Maximum length of a header.
const MAX_HEADER: u64 = 1 << 20;

/// Returns whether the format of a file has references to logs of other sessions.
pub(crate) fn may_refer(file: &RootFile) -> bool {
    base_session(file.artifact.framing).is_some()
}

/// Returns the function that finds the session that a log continues by reference.
fn base_session(framing: Framing) -> Option<fn(&str) -> Option<String>> {
    match framing {
        Framing::Document(format) => format.base_session,
        _ => None,
    }
}

/// Fails if other sessions continue the log of one of these.
pub(crate) fn refuse_with_forks(group: &[&SessionFiles]) -> Result<()> {
    let logs = group.iter().filter_map(|files| files.log.as_ref());
    let logs: Vec<&RootFile> = logs.filter(|log| may_refer(log)).collect();
    let (Some(first), false) = (group.first(), logs.is_empty()) else {
        return Ok(());
    };
    let ids: Vec<&str> = group.iter().map(|files| files.id.as_str()).collect();
    let own: HashSet<&Path> = logs.iter().map(|log| log.path.as_path()).collect();
    let forks = forks_of(&first.root, &ids)?;
    match forks.into_iter().find(|path| !own.contains(path.as_path())) {
        None => Ok(()),
        Some(fork) => Err(Error::refused(format!(
            "{} is a fork that continues session {} by reference and would lose its history; name both sessions, or make the fork independent with `annals fork`",
            fork.display(),
            ids.join(", ")
        ))),
    }
}

/// Fails if other sessions continue the log at `path`: its bytes must not move.
pub(crate) fn refuse_rewrite(root: &Root, path: &Path) -> Result<()> {
    let within = path.strip_prefix(&root.path).ok();
    let artifact = within.and_then(|within| root.layout.classify(within));
    let artifact = artifact.filter(|it| base_session(it.framing).is_some());
    let Some(session) = artifact.and_then(|artifact| artifact.session) else {
        return Ok(());
    };
    match forks_of(root, &[session.as_str()])?.into_iter().next() {
        None => Ok(()),
        Some(fork) => Err(Error::refused(format!(
            "{} is a fork that continues session {session} by reference, at a byte offset that a repair could move; make it independent with `annals fork` and delete it first",
            fork.display()
        ))),
    }
}

/// Returns the logs of a root that continue one of these sessions.
pub(crate) fn forks_of(root: &Root, ids: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![root.path.clone()];
    while let Some(dir) = pending.pop() {
        for entry in root.failures.read_dir(&dir) {
            let path = entry.path();
            let Ok(within) = path.strip_prefix(&root.path) else {
                continue;
            };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => {
                    if root.layout.may_hold_logs(within) {
                        pending.push(path);
                    }
                    continue;
                }
                // Links and pipes are no logs.
                Ok(kind) if !kind.is_file() => continue,
                _ => {}
            }
            let artifact = root.layout.classify(within);
            let artifact = artifact.filter(|it| it.kind == ArtifactKind::SharedLog);
            let base = artifact.and_then(|it| base_session(it.framing));
            if let Some(base) = base
                && base(&read_header(&path)?).is_some_and(|id| ids.contains(&&*id))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads the first line of a log.
fn read_header(log: &Path) -> Result<String> {
    let failed = |error| Error::io("read", log, error);
    let mut header = Vec::new();
    let file = annals_jsonl::open_to_read(log).map_err(failed)?;
    let read = file.take(MAX_HEADER).read_to_end(&mut header);
    read.map_err(failed)?;
    let end = memchr::memchr(b'\n', &header).unwrap_or(header.len());
    header.truncate(end);
    Ok(String::from_utf8_lossy(&header).into_owned())
}
