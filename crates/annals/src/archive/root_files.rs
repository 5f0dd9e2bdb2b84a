//! Files of a root that belong to no session: prompt history, plans, settings, files of deleted
//! sessions.
//!
//! They have a pack of their own, in the same format, without sessions. Each file is independent of
//! the others, so an existing file never prevents the restore of another.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;

use super::Archive;
use super::pack::Pack;
use super::session::{Archived, changes, done, open_existing, refuse_damaged};
use super::update::{self, PackContents};
use super::verify::verify_since;
use crate::error::Result;
use crate::store::{Inventory, Root, RootFile, Store};
use annals_jsonl::FileId;
use annals_layouts::model::{Artifact, ArtifactKind};

/// Name of this pack where a session is named by its id.
pub const ROOT_ID: &str = "root";

/// Returns whether a file is worth archiving. Files derived from logs are rebuilt from them, and
/// program output or state is not history.
fn is_missed(artifact: &Artifact) -> bool {
    match artifact.kind {
        ArtifactKind::Index | ArtifactKind::RunLog | ArtifactKind::SessionState => false,
        // A folder's session list lists its logs. The root's list has data that no log has: the
        // directory of each folder, its display name, settings.
        ArtifactKind::SessionList => artifact.folder.is_none(),
        _ => true,
    }
}

/// Returns whether an archived file of this kind is listed like a file in the root. Without the
/// root's session list, archived sessions would lose their projects.
pub(crate) fn is_listed_when_archived(kind: ArtifactKind) -> bool {
    matches!(
        kind,
        ArtifactKind::History | ArtifactKind::Plan | ArtifactKind::SessionList
    )
}

impl Pack {
    /// Returns whether the pack holds files that belong to no session.
    pub fn has_no_session(&self) -> bool {
        self.index.has_no_session()
    }
}

impl Archive {
    /// Returns the path of the pack of files that belong to no session of the root.
    pub fn root_pack_path(&self, root: &Root) -> PathBuf {
        // Packs of sessions have a tag before the extension, so the names do not collide.
        self.root_dir(root).join(format!("{ROOT_ID}.pack"))
    }
}

impl Store {
    /// Archives the files of a root that belong to no session; `None` if there are none.
    pub(super) fn mirror_root(
        &self,
        root: &Root,
        inventory: &Inventory,
        now: Timestamp,
        damaged: &BTreeSet<PathBuf>,
    ) -> Option<Result<Archived>> {
        let same =
            |other: &Root| other.path == root.path && other.layout.name() == root.layout.name();
        let others = inventory.others.iter().filter(|(other, _)| same(other));
        let missed = others.filter(|(_, file)| is_missed(&file.artifact));
        let missed: Vec<&RootFile> = missed.map(|(_, file)| file).collect();
        (!missed.is_empty()).then(|| self.mirror_others(root, &missed, now, damaged))
    }

    fn mirror_others(
        &self,
        root: &Root,
        others: &[&RootFile],
        now: Timestamp,
        damaged: &BTreeSet<PathBuf>,
    ) -> Result<Archived> {
        let within = |file: &RootFile| {
            let path = file.path.strip_prefix(&root.path).ok()?;
            Some((path.to_owned(), file.artifact.kind.is_log()))
        };
        let files: Vec<(PathBuf, bool)> = others.iter().filter_map(|file| within(file)).collect();
        let ids: Vec<FileId> = others.iter().map(|file| file.id).collect();
        let path = self.archive()?.root_pack_path(root);
        let pack = open_existing(&path)?;
        let (added, unchanged) = changes(&files, &ids, pack.as_ref(), &root.failures);
        let plan = Archived {
            sessions: Vec::new(),
            layout: root.layout.name(),
            root: root.path.clone(),
            files: files.len(),
            bytes: ids.iter().map(|id| id.len).sum(),
            added,
            packed: pack.as_ref().map_or(0, |pack| pack.bytes),
            unchanged,
            removed: false,
            set_aside: None,
            mended: None,
            lost_end: None,
            pack: path.clone(),
        };
        if plan.unchanged && !damaged.contains(&path) {
            return Ok(plan);
        }
        let contents = PackContents {
            layout: root.layout.name().to_owned(),
            root: root.path.clone(),
            lone: false,
            sessions: Vec::new(),
            files,
            rows: Vec::new(),
            list_digest: None,
        };
        let stored = update::update_pack(&path, &contents, now)?;
        refuse_damaged(&path, &verify_since(&stored.pack, stored.since))?;
        Ok(done(plan, &stored))
    }
}
