//! Ids of new sessions: concurrent begins in a root never use the same id.
//!
//! The file system rejects a second log with the same path, but not one in the folder of another
//! project, nor a second session in a shared log. So a chosen id is checked and used under a lock
//! that all annals processes take.

use std::path::Path;

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
pub(super) fn refuse_chosen(root: &Root, log: &Artifact, new: &NewSession) -> Result<()> {
    match is_chosen(log, new) {
        true => refuse_known_id(root, &new.id),
        false => Ok(()),
    }
}

/// Runs `begin` while no other annals process begins a session with a chosen id in this root.
///
/// The lock is that of the top-level folder of all logs. No document is replaced in that folder,
/// which would take the same lock.
pub(crate) fn with_id_lock<T>(
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

fn exists(id: &SessionId, path: &Path) -> Error {
    Error::Exists(format!("session {id} already exists in {}", path.display()))
}
