//! Finds missing files in the archive, for which no backup is needed.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::archive::Archive;
use crate::store::{Inventory, Root};
use annals_layouts::model::{ArtifactKind, SessionId};

/// Files of the roots in the archive. Read when the first file is missing.
pub(super) struct ArchiveLookup<'a> {
    inventory: &'a Inventory,
    archive: Option<&'a Archive>,
    tables: OnceCell<LookupTables>,
}

#[derive(Default)]
struct LookupTables {
    /// Archived files by root, kind and name, with their sessions.
    files: HashMap<(PathBuf, ArtifactKind, String), SessionId>,
    /// Sessions whose logs are only in the archive.
    logs: HashSet<(PathBuf, SessionId)>,
}

impl<'a> ArchiveLookup<'a> {
    pub(super) fn new(inventory: &'a Inventory, archive: Option<&'a Archive>) -> Self {
        ArchiveLookup {
            inventory,
            archive,
            tables: OnceCell::new(),
        }
    }

    /// Returns the session that has a missing file in the archive.
    pub(super) fn owner(&self, root: &Path, kind: ArtifactKind, name: &str) -> Option<&SessionId> {
        let key = (root.to_owned(), kind, name.to_owned());
        self.tables().files.get(&key)
    }

    /// Returns whether the log of a missing session is in the archive.
    pub(super) fn has_log(&self, root: &Path, session: &SessionId) -> bool {
        let key = (root.to_owned(), session.clone());
        self.tables().logs.contains(&key)
    }

    fn tables(&self) -> &LookupTables {
        self.tables.get_or_init(|| match self.archive {
            Some(archive) => LookupTables::new(&roots(self.inventory), archive),
            None => LookupTables::default(),
        })
    }
}

impl LookupTables {
    fn new(roots: &[Root], archive: &Archive) -> Self {
        let mut found = LookupTables::default();
        for files in Inventory::scan_with_archive(roots, Some(archive)).sessions {
            let root = &files.root.path;
            if files.is_archived() {
                found.logs.insert((root.clone(), files.id.clone()));
            }
            for file in files.attachments.iter().filter(|file| file.is_archived()) {
                if let Some(name) = &file.artifact.name {
                    let key = (root.clone(), file.artifact.kind, name.clone());
                    found.files.insert(key, files.id.clone());
                }
            }
        }
        found
    }
}

/// Returns the roots that contain files.
fn roots(inventory: &Inventory) -> Vec<Root> {
    let of_sessions = inventory.sessions.iter().map(|files| &*files.root);
    let others = inventory.others.iter().map(|(root, _)| root);
    let mut seen = HashSet::new();
    let mut new = |root: &&Root| seen.insert((root.layout.name(), root.path.clone()));
    let roots = of_sessions.chain(others).filter(|root| new(root));
    roots.cloned().collect()
}

/// Describes something that is only in the archive.
pub(super) fn only_archived_detail(what: &str, session: &SessionId) -> String {
    let restore =
        annals_layouts::text::quoted_command("annals restore", session.as_str(), "--apply");
    format!("only in the archive: {what}; {restore}")
}
