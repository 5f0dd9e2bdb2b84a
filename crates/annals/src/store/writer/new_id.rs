//! The ids of new sessions: no two sessions of a root that begin at once get the same one.
//!
//! The file system refuses a second log of the same name, but not one in the folder of another project, nor a
//! second session in a log that several share. So an id that was chosen is looked for, and taken, under a
//! lock that all annals processes use.

use crate::error::{Error, Result};
use crate::jsonl;
use crate::layout::NewSession;
use crate::model::{Artifact, ArtifactKind, SessionId};

use super::super::Root;
use super::super::inventory::Inventory;

/// Whether a session's id has to be looked for before it begins.
pub(super) fn looks_for_id(log: &Artifact, new: &NewSession) -> bool {
    log.kind == ArtifactKind::SharedLog || !new.unnamed && !new.unused
}

/// Runs `begin` while no other annals process begins a session with a chosen id in this root.
///
/// The lock is that of the folder in which all logs of the layout are. No document is replaced there, which
/// would need the same lock.
pub(in super::super) fn begin_alone<T>(
    root: &Root,
    log: &Artifact,
    begin: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let log = root.layout.place(log);
    let mut folders = log.components();
    let (Some(first), Some(_)) = (folders.next(), folders.next()) else {
        return begin();
    };
    let folder = root.path.join(first);
    jsonl::ensure_dir(&folder)?;
    jsonl::held(&folder.join("sessions"), begin)
}

/// Refuses the id of a session that exists in this root.
pub(in super::super) fn refuse_known(root: &Root, id: &SessionId) -> Result<()> {
    let sessions = Inventory::of(std::slice::from_ref(root)).sessions;
    match sessions.iter().find(|files| files.id == *id) {
        None => Ok(()),
        Some(files) => Err(Error::refused(format!(
            "session {id} is in {} already",
            files.main_path().display()
        ))),
    }
}
