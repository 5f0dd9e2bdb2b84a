//! The ids of new sessions: no two sessions of a root that begin at once get the same one.
//!
//! The file system refuses a second log of the same name, but not one in the folder of another project, nor a
//! second session in a log that several share. So an id that was chosen is looked for, and taken, under a
//! lock that all annals processes use.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::jsonl;
use crate::layout::NewSession;
use crate::model::{Artifact, ArtifactKind, SessionId};

use super::super::Root;
use super::super::inventory::Inventory;

/// Whether a session's id was chosen, so that another session may have it.
pub(super) fn is_chosen(log: &Artifact, new: &NewSession) -> bool {
    log.kind == ArtifactKind::SharedLog || !new.unnamed
}

/// Refuses the id of a session that exists in this root. Who calls this holds the lock of `begin_alone`.
///
/// A caller that looked at all sessions before, and begins many, has only those looked for that other
/// annals processes began since: they have logs, so no other file of the root is looked at.
pub(super) fn refuse_chosen(root: &Root, log: &Artifact, new: &NewSession) -> Result<()> {
    if !is_chosen(log, new) {
        return Ok(());
    }
    match new.unused && log.kind != ArtifactKind::SharedLog {
        true => refuse_log(root, log),
        false => refuse_known_id(root, &new.id),
    }
}

/// Runs `begin` while no other annals process begins a session with a chosen id in this root.
///
/// The lock is that of the folder in which all logs of the layout are. No document is replaced there, which
/// would need the same lock.
pub(in super::super) fn with_id_lock<T>(
    root: &Root,
    log: &Artifact,
    begin: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let log = root.layout.path_for(log);
    let mut folders = log.components();
    let (Some(first), Some(_)) = (folders.next(), folders.next()) else {
        return begin();
    };
    let folder = root.path.join(first);
    jsonl::ensure_dir(&folder)?;
    jsonl::with_document_lock(&folder.join("sessions"), begin)
}

/// Refuses the id of a session that exists in this root.
pub(in super::super) fn refuse_known_id(root: &Root, id: &SessionId) -> Result<()> {
    let sessions = Inventory::scan(std::slice::from_ref(root)).sessions;
    match sessions.iter().find(|files| files.id == *id) {
        None => Ok(()),
        Some(files) => Err(exists(id, files.main_path())),
    }
}

/// Refuses a log whose session has a log in another folder.
fn refuse_log(root: &Root, log: &Artifact) -> Result<()> {
    let place = root.layout.path_for(log);
    // Where the path does not depend on a folder, the file system refuses a second log.
    let (Some(id), Some(_), Some(name)) = (&log.session, &log.folder, place.file_name()) else {
        return Ok(());
    };
    let mut above = place.components();
    let Some(top) = above.next() else {
        return Ok(());
    };
    let mut folders = vec![PathBuf::from(top.as_os_str())];
    for _ in above.skip(1) {
        folders = directories_in(root, &folders)?;
    }
    let is_same = |path: &PathBuf| {
        let other = root.layout.classify(path);
        let is_log = other.is_some_and(|it| it.kind == log.kind && it.session == log.session);
        let metadata = root.path.join(path).symlink_metadata();
        is_log && metadata.is_ok_and(|it| it.is_file())
    };
    let mut logs = folders.iter().map(|folder| folder.join(name));
    match logs.find(is_same) {
        None => Ok(()),
        Some(path) => Err(exists(id, &root.path.join(path))),
    }
}

/// The directories in some directories, by their paths within the root.
fn directories_in(root: &Root, folders: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in folders {
        let path = root.path.join(folder);
        let failed = |error| Error::io("read", &path, error);
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_dir() {
                found.push(folder.join(entry.file_name()));
            }
        }
    }
    Ok(found)
}

fn exists(id: &SessionId, path: &Path) -> Error {
    Error::refused(format!("session {id} is in {} already", path.display()))
}
