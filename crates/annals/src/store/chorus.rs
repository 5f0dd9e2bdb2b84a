//! The configuration of a Chorus root: reading, editing, and removing workspaces and agents with
//! their sessions.
//!
//! [`Store::chorus`] returns the handle, [`ChorusConfig`].

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::undo::{Manifest, UndoConfigEntry};
use annals_jsonl::read_document;
use annals_layouts::layout::chorus::{Config, ConfigEdit};
use annals_layouts::model::{Artifact, ArtifactKind};

use super::inventory::{Inventory, SessionFiles};
use super::trash::{Deletion, plan_folder};
use super::{Root, Session, SessionInfo, Store, TrashItem, writer};

/// The configuration of a store's Chorus roots, and the sessions of its workspaces and agents.
#[derive(Clone, Copy, Debug)]
pub struct ChorusConfig<'a> {
    store: &'a Store,
}

impl Store {
    /// Returns the configuration of Chorus roots.
    pub fn chorus(&self) -> ChorusConfig<'_> {
        ChorusConfig { store: self }
    }
}

impl ChorusConfig<'_> {
    /// Reads the configuration of a root; the default one if there is none.
    pub fn config(&self, root: &Root) -> Result<Config> {
        let path = config_path(root)?;
        match read_document(&path) {
            Ok(bytes) if bytes.is_empty() => Ok(Config::default()),
            Ok(bytes) => match Config::damage(&bytes) {
                None => {
                    Config::decode(&bytes).map_err(|error| with_config_path(error.into(), &path))
                }
                Some(why) => Err(damaged(&path, &why)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Config::default()),
            Err(error) => Err(Error::io("read", path, error)),
        }
    }

    /// Returns whether the configuration of a root exists only in the archive.
    pub fn is_archived(&self, root: &Root) -> bool {
        let Ok(path) = config_path(root) else {
            return false;
        };
        let Ok(within) = path.strip_prefix(&root.path) else {
            return false;
        };
        let gone = self.store.failures.metadata(&path).is_none();
        let archive = self.store.archive().ok().filter(|_| gone);
        let is_archived = archive.map(|archive| archive.has_file(root, within));
        is_archived.is_some_and(|found| self.store.failures.ok(found).unwrap_or(false))
    }

    /// Applies an edit to the configuration of a root and leaves the rest unchanged.
    pub fn edit(&self, root: &Root, edit: &ConfigEdit) -> Result<()> {
        let path = config_path(root)?;
        writer::create_parent_dirs(root, &path)?;
        super::document::replace_if_unchanged(&path, |old| {
            let old = old.filter(|old| !old.is_empty());
            Config::edit(old, edit).map_err(|error| with_config_path(error.into(), &path))
        })
    }

    /// Returns the sessions of a workspace (`WORKSPACE`) or of one of its agents
    /// (`WORKSPACE/AGENT`).
    pub fn sessions_in_folder<'a>(
        &self,
        inventory: &'a Inventory,
        root: &Root,
        folder: &str,
    ) -> Vec<&'a SessionFiles> {
        let within = |files: &&SessionFiles| {
            let own = files.folder().unwrap_or_default();
            let below = own.strip_prefix(folder);
            files.root.path == root.path
                && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        inventory.sessions.iter().filter(within).collect()
    }

    /// Lists the sessions of a workspace (`WORKSPACE`) or of one of its agents (`WORKSPACE/AGENT`),
    /// the newest first. Sessions that cannot be read are reported to [`Store::failures`].
    pub fn list_folder(&self, root: &Root, folder: &str) -> Result<Vec<SessionInfo>> {
        let mut inventory = self.store.inventory();
        if !inventory.errors.is_empty() {
            return Err(inventory.errors.remove(0));
        }
        let sessions = self
            .sessions_in_folder(&inventory, root, folder)
            .into_iter();
        let rows =
            sessions.filter_map(|files| self.store.failures.ok(Session::read(files.clone())));
        let mut rows: Vec<SessionInfo> = rows.map(|session| session.info(None)).collect();
        crate::sort::by(&mut rows, |a, b| {
            b.updated.cmp(&a.updated).then_with(|| a.id.cmp(&b.id))
        });
        Ok(rows)
    }

    /// Returns the items that [`ChorusConfig::clear`] would move to the trash.
    pub fn plan_clear(
        &self,
        root: &Root,
        sessions: &[&SessionFiles],
        edit: Option<&ConfigEdit>,
        now: Timestamp,
    ) -> Result<Vec<TrashItem>> {
        let entry = edit.and_then(|edit| removed_entry(root, edit));
        let plan = |files: &&SessionFiles| {
            let mut plan = self.store.trash().plan(files, now)?;
            plan.config = entry.iter().cloned().collect();
            Ok(plan)
        };
        let mut plans: Vec<TrashItem> = sessions.iter().map(plan).collect::<Result<_>>()?;
        if let Some(folder) = edit.and_then(removed_folder) {
            let mut left = files_in(root, &folder);
            // A session list is deleted with its last session.
            left.retain(|(path, _)| {
                let known = root.layout.classify(path);
                let mut files = plans.iter().flat_map(|plan| &plan.files);
                known.is_none_or(|it| it.kind != ArtifactKind::SessionList)
                    && files.all(|file| file.path != *path)
            });
            if !left.is_empty() || (plans.is_empty() && entry.is_some()) {
                let config = entry.iter().cloned().collect();
                plans.push(plan_folder(root, &folder, left, config, now).into());
            }
        }
        Ok(plans)
    }

    /// Moves sessions to the trash and then applies an edit to the configuration, if any. On
    /// failure, restores everything.
    pub fn clear(
        &self,
        root: &Root,
        sessions: &[&SessionFiles],
        edit: Option<&ConfigEdit>,
        now: Timestamp,
    ) -> Result<Vec<TrashItem>> {
        let entry = edit.and_then(|edit| removed_entry(root, edit));
        let folder = edit.and_then(removed_folder);
        let mut done = Vec::new();
        let cleared = sessions.iter().try_for_each(|files| {
            let group = [*files];
            let mut deletion = Deletion::plan(&group, now)?;
            deletion.manifest.config = entry.iter().cloned().collect();
            done.push(self.store.trash().move_deletion(deletion, || Ok(()))?);
            Ok(())
        });
        let cleared = cleared.and_then(|()| {
            // The remaining files of the folder belong to no session and are deleted too.
            let left = folder.as_deref().map(|folder| files_in(root, folder));
            let left = left.unwrap_or_default();
            if let Some(folder) = &folder
                && (!left.is_empty() || (done.is_empty() && entry.is_some()))
            {
                let config = entry.iter().cloned().collect();
                let plan = plan_folder(root, folder, left, config, now);
                done.push(self.store.trash().move_folder_in(root, plan)?);
            }
            Ok(())
        });
        let edited = cleared.and_then(|()| edit.map_or(Ok(()), |edit| self.edit(root, edit)));
        let Err(error) = edited else {
            if let Some(folder) = folder {
                remove_folder(root, &folder);
            }
            return Ok(done);
        };
        for trashed in done.iter().rev() {
            self.store.trash().restore(&trashed.id)?;
        }
        Err(error)
    }
}

impl ChorusConfig<'_> {
    /// Restores an entry in the configuration of a root. A workspace that exists again is kept, and
    /// the agents whose folders contain the deleted files are added to it.
    pub(super) fn restore_entry(
        &self,
        root: &Root,
        entry: &UndoConfigEntry,
        trashed: &Manifest,
    ) -> Result<()> {
        self.put_entry_back(root, entry.workspace.clone(), entry.text.clone())?;
        if entry.workspace.is_some() {
            return Ok(());
        }
        let files = trashed.files.iter().map(|file| &file.path);
        let paths = files.chain(trashed.rows.iter().map(|row| &row.path));
        let folders = paths.filter_map(|path| root.layout.classify(path)?.folder);
        let folders: BTreeSet<String> = folders.collect();
        for folder in folders {
            if let Some((workspace, agent)) = folder.split_once('/')
                && let Some(text) = Config::agent_in(&entry.text, agent)
            {
                self.put_entry_back(root, Some(workspace.to_owned()), text)?;
            }
        }
        Ok(())
    }

    fn put_entry_back(&self, root: &Root, workspace: Option<String>, text: String) -> Result<()> {
        let edit = ConfigEdit::Restore { workspace, text };
        match self.edit(root, &edit) {
            // The workspace of an agent may no longer exist.
            Err(Error::NotFound { .. }) => Ok(()),
            done => done,
        }
    }
}

/// Returns the folder of the entry that an edit removes from the configuration.
fn removed_folder(edit: &ConfigEdit) -> Option<String> {
    match edit {
        ConfigEdit::RemoveWorkspace { id } => Some(id.clone()),
        ConfigEdit::RemoveAgent { workspace, id } => Some(format!("{workspace}/{id}")),
        _ => None,
    }
}

/// Returns the entry that an edit removes from the configuration, verbatim.
fn removed_entry(root: &Root, edit: &ConfigEdit) -> Option<UndoConfigEntry> {
    let path = config_path(root).ok()?;
    let bytes = root.failures.ok_io(&path, read_document(&path))?;
    let workspace = match edit {
        ConfigEdit::RemoveAgent { workspace, .. } => Some(workspace.clone()),
        _ => None,
    };
    let text = Config::config_entry(&bytes, &removed_folder(edit)?)?;
    Some(UndoConfigEntry { workspace, text })
}

/// Returns the files in the folder of a workspace or an agent, with paths relative to the root.
fn files_in(root: &Root, folder: &str) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut pending = vec![folder_path(root, folder)];
    while let Some(dir) = pending.pop() {
        for entry in root.failures.read_dir(&dir) {
            let path = entry.path();
            // The target of a symbolic link does not belong to the workspace.
            let Some(metadata) = root.failures.metadata(&path) else {
                continue;
            };
            match path.strip_prefix(&root.path) {
                _ if metadata.is_dir() => pending.push(path),
                Ok(within) if metadata.is_file() => {
                    found.push((within.to_owned(), metadata.len()));
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// Returns the directory of a workspace or an agent.
fn folder_path(root: &Root, folder: &str) -> PathBuf {
    let mut place = Artifact::new(ArtifactKind::SessionList);
    place.folder = Some(format!("{folder}/index"));
    let below = root.path.join(root.layout.path_for(&place));
    let above = below.ancestors().nth(2);
    above.unwrap_or(&root.path).to_owned()
}

/// Removes the empty directories of a workspace or an agent, at any depth.
fn remove_folder(root: &Root, folder: &str) {
    let dir = folder_path(root, folder);
    let mut dirs = vec![dir.clone()];
    let mut at = 0;
    while let Some(above) = dirs.get(at).cloned() {
        let below = std::fs::read_dir(above).into_iter().flatten().flatten();
        let is_dir = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|it| it.is_dir());
        dirs.extend(below.filter(is_dir).map(|entry| entry.path()));
        at += 1;
    }
    for below in dirs.iter().skip(1).rev() {
        // Fails if the directory is not empty.
        let _ = std::fs::remove_dir(below);
    }
    super::trash::remove_empty_dirs(Some(&dir), &root.path);
}

/// Adds the path and a hint to an error about the whole configuration.
fn with_config_path(error: Error, path: &Path) -> Error {
    match error {
        Error::Damaged { why, .. } => Error::Damaged {
            file: path.display().to_string(),
            why: format!("{why}; repair it by hand, or move it away to start over"),
        },
        other => other,
    }
}

/// Returns the error for a configuration that its program cannot read.
pub(super) fn damaged(path: &Path, why: &str) -> Error {
    Error::refused(format!(
        "{} cannot be read: {why}; repair it by hand, or move it away to start with a new one",
        path.display()
    ))
}

fn config_path(root: &Root) -> Result<PathBuf> {
    if root.layout.name() != "chorus" {
        return Err(Error::refused(format!(
            "{} is not a Chorus root",
            root.path.display()
        )));
    }
    root.locate(&Artifact::new(ArtifactKind::SessionList))
}
