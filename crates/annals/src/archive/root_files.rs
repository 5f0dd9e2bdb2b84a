//! Files of a root that belong to no session: prompt history, plans, settings, files of deleted
//! sessions.
//!
//! They are archived like the files of a session. Each is independent of the others, so an existing
//! file never prevents the restore of another.

use crate::store::{FileSet, Inventory, Root};
use annals_layouts::model::{Artifact, ArtifactKind};

/// Returns whether a file is worth archiving. Files derived from logs are rebuilt from them, and
/// program output or state is not history.
fn is_missed(root: &Root, artifact: &Artifact) -> bool {
    match artifact.kind {
        ArtifactKind::Settings => !root.layout.spec().has_secret_files,
        ArtifactKind::Index | ArtifactKind::RunLog | ArtifactKind::SessionState => false,
        // A folder's session list lists its logs. The root's list has data that no log has: the
        // directory of each folder, its display name, settings.
        ArtifactKind::SessionList => artifact.folder.is_none(),
        _ => true,
    }
}

/// Returns the files of a root that belong to no session and are archived.
pub(super) fn files_to_archive(root: &Root, inventory: &Inventory) -> FileSet {
    let same = |other: &Root| other.path == root.path && other.layout.name() == root.layout.name();
    let others = inventory.others.iter().filter(|(other, _)| same(other));
    let missed = others.filter(|(_, file)| is_missed(root, &file.artifact));
    let missed = missed.filter_map(|(_, file)| {
        let path = file.path.strip_prefix(&root.path).ok()?;
        Some(((path.to_owned(), file.artifact.kind.is_log()), file.id))
    });
    let (files, ids) = missed.unzip();
    FileSet::outside_sessions(root, files, ids)
}
