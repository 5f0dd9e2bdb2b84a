//! Ids of new sessions: concurrent begins in a root never use the same id.
//!
//! The file system rejects a second log with the same path, but not one in the folder of another
//! project, nor a second session in a shared log. So a chosen id is checked and used under a lock
//! that all annals processes take.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use annals_jsonl as jsonl;
use annals_layouts::layout::NewSession;
use annals_layouts::model::{Artifact, ArtifactKind, SessionId};

use super::super::Root;
use super::super::inventory::Inventory;

/// Returns whether a session's id was chosen, so that another session may have it.
pub(super) fn is_chosen(log: &Artifact, new: &NewSession) -> bool {
    log.kind == ArtifactKind::SharedLog || !new.unnamed
}

/// Fails if the chosen id exists in this root. The caller must hold the lock of `with_id_lock`.
///
/// A caller that begins many sessions and has checked all existing ones sets `unused`. Then only
/// sessions that other annals processes began since are searched: they have logs, so only log paths
/// are checked.
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
/// The lock is that of the top-level folder of all logs. No document is replaced in that folder,
/// which would take the same lock.
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

/// Fails if a session of this root has the id.
pub(in super::super) fn refuse_known_id(root: &Root, id: &SessionId) -> Result<()> {
    let sessions = Inventory::scan(std::slice::from_ref(root)).sessions;
    match sessions.iter().find(|files| files.id == *id) {
        None => Ok(()),
        Some(files) => Err(exists(id, files.main_path())),
    }
}

/// Fails if the session of a log has a log in another folder.
fn refuse_log(root: &Root, log: &Artifact) -> Result<()> {
    let place = root.layout.path_for(log);
    // If the path does not depend on a folder, the file system rejects a second log.
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

/// Returns the subdirectories of directories, relative to the root.
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
    Error::Exists(format!("session {id} already exists in {}", path.display()))
}
