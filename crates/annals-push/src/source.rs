//! The files of this machine that are pushed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use annals::jsonl::FileId;
use annals::model::Framing;
use annals::store::{Inventory, Root, RootFile};
use annals_segments::{FileKey, check_path};

/// A file of a root.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    pub(crate) key: FileKey,
    pub(crate) layout: &'static str,
    pub(crate) root: String,
    /// Path within the root.
    pub(crate) path: String,
    pub(crate) full_path: PathBuf,
    pub(crate) id: FileId,
    /// Whether it is a log of lines that only grows, as opposed to a document.
    pub(crate) is_log: bool,
}

/// The files to push, and those that cannot be.
#[derive(Debug, Default)]
pub(crate) struct SourceFiles {
    /// In the order of their paths.
    pub(crate) files: Vec<SourceFile>,
    /// Sessions in databases, or in files of single messages.
    pub(crate) in_databases: usize,
    /// Files whose paths no other machine could have.
    pub(crate) unnamed: Vec<PathBuf>,
}

/// Returns the conversation data of the roots that exists on disk.
pub(crate) fn files(inventory: &Inventory) -> SourceFiles {
    let mut found = SourceFiles::default();
    let mut by_path: BTreeMap<PathBuf, SourceFile> = BTreeMap::new();
    let mut add = |root: &Root, file: &RootFile| {
        for volume in file.volumes() {
            if volume.is_archived() || !volume.artifact.is_conversation_data() {
                continue;
            }
            match name(root, volume) {
                Some(file) => {
                    by_path.insert(volume.path.clone(), file);
                }
                None => found.unnamed.push(volume.path.clone()),
            }
        }
    };
    for session in &inventory.sessions {
        if session
            .logs()
            .any(|log| matches!(log.artifact.framing, Framing::Rows(_) | Framing::Files(_)))
        {
            found.in_databases += 1;
            continue;
        }
        session.files().for_each(|file| add(&session.root, file));
    }
    for (root, file) in &inventory.others {
        let is_file = !matches!(file.artifact.framing, Framing::Rows(_) | Framing::Files(_));
        if is_file {
            add(root, file);
        }
    }
    found.files = by_path.into_values().collect();
    found
}

fn name(root: &Root, file: &RootFile) -> Option<SourceFile> {
    let root_path = std::path::absolute(&root.path).ok()?;
    let root_path = root_path.to_str()?.to_owned();
    let within = file
        .path
        .strip_prefix(&root.path)
        .ok()?
        .to_str()?
        .to_owned();
    check_path(&within).ok()?;
    check_path(root_path.strip_prefix('/')?).ok()?;
    let layout = root.layout.name();
    Some(SourceFile {
        key: FileKey::new(layout, &root_path, &within),
        layout,
        root: root_path,
        path: within,
        full_path: file.path.clone(),
        id: file.id,
        is_log: file.artifact.kind.is_log() && matches!(file.artifact.framing, Framing::Lines),
    })
}
