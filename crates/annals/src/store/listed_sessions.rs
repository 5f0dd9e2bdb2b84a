//! The sessions that session lists name, compared with the logs that exist.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use annals_layouts::model::{ArtifactKind, Body, ListRow, ListSubject, SessionId};

use super::log_reader::decode_document;
use super::{Inventory, Root, RootFile};

/// A row of a session list with messages, but without a log.
pub(crate) struct RowWithoutLog {
    /// The session list.
    pub(crate) path: PathBuf,
    /// Its root.
    pub(crate) root: Root,
    /// The listed session.
    pub(crate) session: SessionId,
    /// The listed number of messages.
    pub(crate) messages: u64,
}

/// Returns the rows of session lists whose logs are missing.
pub(crate) fn rows_without_log(inventory: &Inventory) -> Vec<RowWithoutLog> {
    let logs = inventory.sessions.iter();
    let logs: HashSet<(&Path, Option<&str>, &SessionId)> = logs
        .filter(|files| !files.is_unwritten())
        .map(|files| (files.root.path.as_path(), files.folder(), &files.id))
        .collect();
    let mut found = Vec::new();
    for (root, file) in inventory.others_of_kind(ArtifactKind::SessionList) {
        let folder = file.artifact.folder.as_deref();
        for (session, messages) in listed_sessions(root, file) {
            // A conversation without messages has no log yet.
            let messages = messages.unwrap_or(0);
            if messages > 0 && !logs.contains(&(root.path.as_path(), folder, &session)) {
                found.push(RowWithoutLog {
                    path: file.path.clone(),
                    root: root.clone(),
                    session,
                    messages,
                });
            }
        }
    }
    found
}

/// Returns the sessions that a document lists, with the listed numbers of messages.
pub(crate) fn listed_sessions(root: &Root, file: &RootFile) -> Vec<(SessionId, Option<u64>)> {
    // An unreadable document is reported separately.
    let bytes = annals_jsonl::read_document(&file.path).unwrap_or_default();
    let entries = decode_document(root, &file.artifact, &bytes).items;
    let lists = entries.into_iter().filter_map(|entry| match entry.body {
        Body::SessionList(rows) => Some(rows),
        _ => None,
    });
    let session = |about: ListRow| match about.subject {
        ListSubject::Session(id) => Some((id, about.messages)),
        ListSubject::Folder(_) => None,
    };
    lists.flatten().filter_map(session).collect()
}
