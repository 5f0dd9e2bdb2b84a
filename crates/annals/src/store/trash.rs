//! The trash: moves deleted sessions to the undo vault, lists them, restores and purges them.
//!
//! [`Store::trash`] returns the handle, [`Trash`]: the view of the [`undo`](crate::undo) vault on
//! deletions and clean-ups.
//!
//! The files of a deleted session move into one folder of the vault. The lock of a log is held from
//! the last check until the log is removed, so that no append is acknowledged in between. A file is
//! removed only after it is safe in the vault, and the main log is moved last. So an interrupted
//! deletion can be repeated, which moves the rest, or undone; so can an interrupted undo. A failed
//! deletion is undone at once. Only a purge (`purge.rs`) deletes files permanently.

mod dirs;
mod project;
mod purge;
mod restore;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::undo::{Manifest, UndoConfigEntry, UndoFile, UndoRow, UndoVerb, Vault};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, Log};
use annals_layouts::model::SessionId;

use super::archive_overlay::{StoredRows, stored_rows};
use super::inventory::{Inventory, RootFile, SessionFiles};
use super::remove::{FileSet, ensure_unchanged};
use super::{Root, Store, fork_bases, session_list};

pub use purge::{Purgeable, TrashContents};

/// Maximum number of a session's logs that are locked at once. Further logs are locked one by one
/// while they move: a session may have more sub-agents than a process may have open files.
pub(super) const MAX_LOCKED_LOGS: usize = 64;

/// A deleted session.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TrashItem {
    /// Name of its folder in the vault.
    pub id: String,
    /// Id of the session, or a path with a final `/` if it is not a session.
    pub session: String,
    /// Sessions that were deleted with it, because they share log files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// Name of the layout.
    pub layout: String,
    /// Path of its root.
    pub root: PathBuf,
    /// Whether it is a log outside of any root; `root` is then the directory of the log.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lone: bool,
    /// Time of the deletion.
    pub deleted: Timestamp,
    /// Files of the session.
    pub files: Vec<UndoFile>,
    /// Rows of its logs in the session list, as exact text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<UndoRow>,
    /// Configuration entries that were removed with it: of its workspace, of its agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) config: Vec<UndoConfigEntry>,
}

impl From<Manifest> for TrashItem {
    fn from(manifest: Manifest) -> Self {
        let mut sessions = manifest.sessions.into_iter();
        TrashItem {
            id: manifest.id,
            session: sessions.next().unwrap_or_default(),
            others: sessions.collect(),
            layout: manifest.layout,
            root: manifest.root,
            lone: manifest.lone,
            deleted: manifest.time,
            files: manifest.files,
            rows: manifest.rows,
            config: manifest.config,
        }
    }
}

impl SessionFiles {
    /// Groups sessions that can only be deleted together: those that share files, and forks by
    /// reference with the sessions that they continue, which come before them in their group.
    pub fn group_by_shared_files<'a>(sessions: &[&'a SessionFiles]) -> Vec<Vec<&'a SessionFiles>> {
        // Two forks of a session that is not among them can be deleted one by one.
        let own = sessions.iter().flat_map(|files| files.own_shared_logs());
        let own: HashSet<&Path> = own.collect();
        let mut groups: Vec<Vec<&SessionFiles>> = Vec::new();
        let mut group_of: HashMap<&Path, usize> = HashMap::new();
        for &files in sessions {
            let mut paths: HashSet<&Path> = files.shared_logs().collect();
            paths.retain(|path| own.contains(path));
            let mut met: BTreeSet<usize> = paths
                .iter()
                .filter_map(|path| group_of.get(path).copied())
                .collect();
            let own = met.pop_first().unwrap_or(groups.len());
            let mut group: Vec<&SessionFiles> =
                groups.get_mut(own).map(std::mem::take).unwrap_or_default();
            for other in &met {
                group.extend(
                    groups
                        .get_mut(*other)
                        .map(std::mem::take)
                        .unwrap_or_default(),
                );
            }
            for at in group_of.values_mut().filter(|at| met.contains(at)) {
                *at = own;
            }
            group_of.extend(paths.into_iter().map(|path| (path, own)));
            group.push(files);
            match groups.get_mut(own) {
                Some(place) => *place = group,
                None => groups.push(group),
            }
        }
        groups.retain(|group| !group.is_empty());
        for group in &mut groups {
            // A fork continues more logs than the session that it continues.
            crate::sort::by_key(group, |files| files.continued_logs());
        }
        groups
    }

    /// Returns the paths of its logs that may have records of several sessions. It can only be deleted
    /// together with the sessions that have one of them among their [`shared_logs`](Self::shared_logs).
    pub(crate) fn own_shared_logs(&self) -> impl Iterator<Item = &Path> {
        let volumes = self.logs().flat_map(own_volumes);
        let shared = volumes.filter(|file| file.slice.is_some());
        shared.map(|file| file.path.as_path())
    }

    /// Same as [`own_shared_logs`](Self::own_shared_logs), with the logs that it continues by
    /// reference.
    pub(crate) fn shared_logs(&self) -> impl Iterator<Item = &Path> {
        let volumes = self.logs().flat_map(RootFile::volumes);
        let shared = volumes.filter(|file| file.slice.is_some());
        shared.map(|file| file.path.as_path())
    }

    /// Returns the paths of its files, without the logs that it continues by reference.
    pub(crate) fn own_paths(&self) -> impl Iterator<Item = &Path> {
        let volumes = self.files().flat_map(own_volumes);
        volumes.map(|file| file.path.as_path())
    }

    /// Returns the number of logs that it continues by reference.
    fn continued_logs(&self) -> usize {
        let continued = |file: &RootFile| file.volumes().count() - own_volumes(file).count();
        self.log.as_ref().map_or(0, continued)
    }
}

impl TrashItem {
    /// Returns whether this is the rest of a workspace's or agent's folder, or of a log, and not a
    /// session.
    pub fn is_folder(&self) -> bool {
        self.session.ends_with('/')
    }

    /// Returns the ids of its sessions: one, or several that shared files.
    pub fn sessions(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.session)
            .chain(&self.others)
            .map(String::as_str)
    }

    /// Returns the saved rows of its sessions in session lists.
    pub(super) fn list_rows(&self, root: &Root) -> StoredRows {
        let rows = self.rows.iter();
        stored_rows(
            root,
            rows.map(|row| (row.path.as_path(), row.text.as_str())),
        )
    }

    /// Returns whether `id` is its name in the trash, or a prefix of a session's id. An id that
    /// begins with a time also matches by the name after it.
    pub fn matches(&self, id: &str) -> bool {
        let is_called = |session: &str| {
            SessionId::new(session).is_ok_and(|session| session.name().starts_with(id))
        };
        let is_named = |session: &str| session.starts_with(id) || is_called(session);
        self.id == id || (!id.is_empty() && self.sessions().any(is_named))
    }
}

/// The trash of a store, in its state directory.
#[derive(Clone, Copy, Debug)]
pub struct Trash<'a> {
    pub(super) store: &'a Store,
}

impl Store {
    /// Returns the trash.
    pub fn trash(&self) -> Trash<'_> {
        Trash { store: self }
    }
}

impl Trash<'_> {
    /// Returns what deleting a session would move.
    pub fn plan(&self, files: &SessionFiles, now: Timestamp) -> Result<TrashItem> {
        self.plan_group(files, &[], now)
    }

    /// Returns what deleting a session together with others that share its files would move.
    pub fn plan_group(
        &self,
        files: &SessionFiles,
        others: &[&SessionFiles],
        now: Timestamp,
    ) -> Result<TrashItem> {
        let group = [&[files], others].concat();
        Ok(Deletion::plan(&group, now)?.manifest.into())
    }

    /// Moves a session to the trash.
    ///
    /// Files that are in no project folder stay if another folder has a log of the same session.
    pub fn move_in(&self, files: &SessionFiles, now: Timestamp) -> Result<TrashItem> {
        self.move_group_in(files, &[], now)
    }

    /// Moves a session to the trash, given by a unique id prefix or the path of its log.
    pub fn move_in_by_id(&self, id: &str) -> Result<TrashItem> {
        self.move_in(
            &self.store.find_files(id, Store::find_to_write)?,
            Timestamp::now(),
        )
    }

    /// Moves a session to the trash together with others that share its files: see
    /// [`SessionFiles::group_by_shared_files`]. They are restored together too.
    pub fn move_group_in(
        &self,
        files: &SessionFiles,
        others: &[&SessionFiles],
        now: Timestamp,
    ) -> Result<TrashItem> {
        let group = [&[files], others].concat();
        self.move_deletion(Deletion::plan(&group, now)?, || Ok(()))
    }

    /// Moves sessions to the trash as a clean-up, if `still` succeeds once the logs are locked and
    /// known to be unchanged.
    pub(crate) fn clean_in(
        &self,
        group: &[&SessionFiles],
        now: Timestamp,
        still: impl FnOnce() -> Result<()>,
    ) -> Result<TrashItem> {
        let mut deletion = Deletion::plan(group, now)?;
        deletion.manifest.verb = UndoVerb::Clean;
        self.move_deletion(deletion, still)
    }

    /// Moves files to the trash whose log or session, at `gone` in the root, no longer exists.
    pub(crate) fn move_leftover_in(
        &self,
        root: &Root,
        gone: &Path,
        files: &[PathBuf],
        now: Timestamp,
    ) -> Result<TrashItem> {
        let mut list = Vec::new();
        for file in files {
            let metadata = file.symlink_metadata();
            let metadata = metadata.map_err(|error| Error::io("stat", file, error))?;
            let within = file.strip_prefix(&root.path).unwrap_or(file);
            list.push((within.to_owned(), metadata.len()));
        }
        let mut plan = plan_folder(root, &gone.to_string_lossy(), list, Vec::new(), now);
        plan.verb = UndoVerb::Clean;
        self.move_folder_in(root, plan)
    }

    /// Moves the rest of a workspace's or agent's folder to the trash: files of no session, and its
    /// configuration entry.
    pub(super) fn move_folder_in(&self, root: &Root, mut plan: Manifest) -> Result<TrashItem> {
        for file in &plan.files {
            root.ensure_inside(&plan.root.join(&file.path))?;
        }
        plan.dirs = dirs::directories(&plan, &[])?;
        Ok(self.move_files(root, plan, &[])?.into())
    }

    /// Moves the files of sessions, if `still` succeeds once the logs are locked and known to be
    /// unchanged.
    pub(super) fn move_deletion(
        &self,
        deletion: Deletion<'_>,
        still: impl FnOnce() -> Result<()>,
    ) -> Result<TrashItem> {
        let Deletion {
            group,
            files,
            mut manifest,
        } = deletion;
        if !manifest.lone {
            manifest.dirs = dirs::directories(&manifest, group)?;
        }
        let volumes = volumes(group.iter().copied());
        let moved = files.with_logs_locked(|| {
            // A session that was written to since it was listed is in use.
            volumes.iter().try_for_each(|file| ensure_unchanged(file))?;
            let mut all = group.iter().copied();
            all.try_for_each(SessionFiles::refuse_written)?;
            still()?;
            self.move_files(&files.root, manifest, &volumes)
        })?;
        let vault = self.vault()?;
        let folder = vault.folder(&moved.id)?;
        match vault.with_lock(&moved.id, restore::remove_list_rows) {
            // Another process has already restored or purged it.
            Err(Error::File(FileError::Changed { path })) if path == folder => Ok(moved.into()),
            struck => Ok(struck?.into()),
        }
    }

    /// Moves the planned files, of which the first are the volumes of the logs.
    fn move_files(
        &self,
        root: &Root,
        mut plan: Manifest,
        volumes: &[&RootFile],
    ) -> Result<Manifest> {
        let vault = self.vault()?;
        // Two logs of one session may be deleted within a second.
        plan.id = vault.unused_id(&plan.id)?;
        let mut begun = false;
        let moved = vault.begin(&plan, |folder| {
            begun = true;
            move_to(root, &plan, folder, volumes)
        });
        if let Err(error) = moved {
            // All or nothing. If the undo fails too, the moved files stay in the trash.
            if begun {
                self.store.failures.ok(self.restore(&plan.id));
            }
            return Err(error);
        }
        Ok(plan)
    }

    /// Returns the vault.
    fn vault(&self) -> Result<Vault> {
        Vault::open(self.store.state_dir())
    }
}

/// A planned deletion of sessions.
pub(super) struct Deletion<'a> {
    group: &'a [&'a SessionFiles],
    files: FileSet,
    pub(super) manifest: Manifest,
}

impl<'a> Deletion<'a> {
    /// Plans the deletion of a session, or of several that share files.
    pub(super) fn plan(group: &'a [&'a SessionFiles], now: Timestamp) -> Result<Self> {
        let mut all = group.iter().copied();
        all.clone().try_for_each(SessionFiles::refuse_read_only)?;
        all.try_for_each(SessionFiles::refuse_archived)?;
        let files = FileSet::to_remove(group)?;
        let sessions: Vec<String> = group.iter().map(|files| files.id.to_string()).collect();
        let name = sessions.first().map_or("", String::as_str);
        let mut manifest = new_manifest(&files.root, name, now);
        let lens = files.ids.iter().map(|id| id.len);
        manifest.files = undo_files(files.files.iter().map(|(path, _)| path.clone()).zip(lens));
        let rows = group.iter().map(|files| list_rows(files));
        manifest.rows = rows.collect::<Result<Vec<_>>>()?.concat();
        manifest.lone = files.lone;
        manifest.sessions = sessions;
        Ok(Deletion {
            group,
            files,
            manifest,
        })
    }
}

/// Plans a [`move_folder_in`](Trash::move_folder_in).
pub(super) fn plan_folder(
    root: &Root,
    folder: &str,
    files: Vec<(PathBuf, u64)>,
    config: Vec<UndoConfigEntry>,
    now: Timestamp,
) -> Manifest {
    Manifest {
        // Session ids contain no slash.
        sessions: vec![format!("{folder}/")],
        files: undo_files(files),
        config,
        ..new_manifest(root, &folder.replace('/', "-"), now)
    }
}

fn new_manifest(root: &Root, name: &str, now: Timestamp) -> Manifest {
    let id = format!("{}-{name}", now.strftime("%Y%m%dT%H%M%S"));
    Manifest::new(id, UndoVerb::Delete, now, root.layout.name(), &root.path)
}

fn undo_files(files: impl IntoIterator<Item = (PathBuf, u64)>) -> Vec<UndoFile> {
    let files = files.into_iter();
    let files = files.map(|(path, bytes)| UndoFile {
        path,
        bytes,
        copied: false,
    });
    files.collect()
}

/// Returns the distinct files of sessions' logs, the newest volume of a main log first. Skips files
/// that are only in the archive.
pub(super) fn volumes<'a>(sessions: impl Iterator<Item = &'a SessionFiles>) -> Vec<&'a RootFile> {
    let mut seen = HashSet::new();
    let all = sessions.flat_map(SessionFiles::logs);
    let all = all.flat_map(own_volumes);
    all.filter(|file| !file.is_archived() && seen.insert(file.path.as_path()))
        .collect()
}

/// Returns the volumes of a log, the newest first, without logs of other sessions that it continues.
fn own_volumes(file: &RootFile) -> impl Iterator<Item = &RootFile> {
    let is_own = |volume: &&RootFile| volume.path == file.path || !fork_bases::may_refer(volume);
    file.volumes().rev().filter(is_own)
}

/// Fails if the sessions' logs have records of other sessions. Records of their sub-agents are
/// fine.
pub(super) fn refuse_shared<'a>(sessions: impl Iterator<Item = &'a SessionFiles>) -> Result<()> {
    let mut left: HashMap<&Path, u64> = HashMap::new();
    let logs = sessions.flat_map(SessionFiles::logs);
    for file in logs.flat_map(own_volumes) {
        if let Some(share) = &file.slice {
            let left = left.entry(&file.path).or_insert(share.known_end);
            *left = left.saturating_sub(share.bytes());
        }
    }
    match left.into_iter().find(|(_, left)| *left > 0) {
        None => Ok(()),
        Some((path, _)) => Err(Error::refused(format!(
            "{} contains other sessions too, and annals never rewrites logs; name all sessions of that file to delete them together",
            path.display()
        ))),
    }
}

fn move_to(root: &Root, plan: &Manifest, folder: &Path, volumes: &[&RootFile]) -> Result<()> {
    // The main log is first in the list and moves last. As long as it exists, the session is found.
    for (at, file) in plan.files.iter().enumerate().rev() {
        let to = folder.join("files").join(&file.path);
        let from = plan.root.join(&file.path);
        let carry = || jsonl::move_file(&from, &to);
        match volumes.get(at) {
            None => jsonl::with_document_lock(&from, carry)?,
            Some(_) if at < MAX_LOCKED_LOGS => carry()?,
            Some(volume) => root.open_log_to_lock(&from)?.with_lock(|_| {
                ensure_unchanged(volume)?;
                Ok::<_, Error>(carry()?)
            })?,
        }
    }
    for volume in volumes.iter().filter(|file| root.has_lock_file(&file.path)) {
        // A lock file that stays only keeps an empty directory.
        let _ = jsonl::lock_file::remove(&volume.path);
    }
    dirs::clear(plan, folder, |_| true)
}

/// Returns the session list rows of a session's logs.
pub(super) fn list_rows(files: &SessionFiles) -> Result<Vec<UndoRow>> {
    let Some(writer) = files.root.layout.writer().filter(|_| !files.is_lone()) else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    for file in files.listed_logs() {
        let removed = session_list::rows_for_log(&files.root, writer, &file.artifact)?;
        let path = files.root.layout.path_for(&file.artifact);
        rows.extend(removed.into_iter().map(|text| UndoRow {
            path: path.clone(),
            text,
        }));
    }
    Ok(rows)
}

/// Returns the attachments that are deleted with a session's logs.
pub(super) fn own_attachments(files: &SessionFiles) -> Vec<RootFile> {
    if !files.shared {
        return files.attachments_on_disk();
    }
    // Check again what is shared: the other log may have been deleted meanwhile.
    let now = Inventory::scan(std::slice::from_ref(&files.root));
    // The other log may be in a directory that could not be read.
    let is_complete = now.is_complete();
    let mut same: Vec<SessionFiles> = now.sessions;
    same.retain(|other| other.id == files.id);
    let is_only = |only: &SessionFiles, others: &[SessionFiles]| {
        is_complete && others.is_empty() && only.folder() == files.folder()
    };
    match same.pop() {
        Some(only) if is_only(&only, &same) => only.attachments,
        _ => {
            let mut beside = files.attachments_on_disk();
            beside.retain(|file| file.artifact.folder.is_some());
            beside
        }
    }
}

/// Runs `work` with all logs locked. There must be at most [`MAX_LOCKED_LOGS`].
pub(super) fn with_all_locked<T>(logs: &[Log], work: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nests one closure per log. The trait object avoids one instance of the function per level.
    fn lock_rest<'a, T>(logs: &[Log], work: Box<dyn FnOnce() -> Result<T> + 'a>) -> Result<T> {
        match logs.split_first() {
            Some((log, rest)) => log.with_lock(|_| lock_rest(rest, work)),
            None => work(),
        }
    }
    lock_rest(logs, Box::new(work))
}

/// Removes a directory and its ancestors while they are empty, except the root and directories
/// directly in it.
pub(super) fn remove_empty_dirs(dir: Option<&Path>, root: &Path) {
    let mut dir = dir;
    let below = |path: &&Path| {
        let relative = path.strip_prefix(root);
        relative.is_ok_and(|relative| relative.components().count() > 1)
    };
    while let Some(path) = dir.filter(below) {
        // Fails if the directory is not empty.
        if fs::remove_dir(path).is_err() {
            return;
        }
        dir = path.parent();
    }
}

#[cfg(test)]
mod tests;
