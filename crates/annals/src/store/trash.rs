//! Deleting to the trash, and back.
//!
//! A deleted session's files move into one folder of the state directory, under their paths within
//! the root, beside a manifest that says where they came from. A log's lock is held from the last
//! look at it until it is gone, so that no append is acknowledged in between. The manifest is
//! written first, a file leaves its place only when it is safe in the other, and the main log goes
//! last: a deletion that is cut off can be run again, which moves what is left, or undone, and so
//! can an undoing. One that fails is undone at once.
//!
//! Whoever changes a folder of the trash holds its lock. A folder, or anything in it, that is a
//! symbolic link is never looked behind. Only a purge (`purge.rs`) removes anything for good.

mod manifest;
mod purge;
mod restore;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::jsonl::{self, AppendOptions, FileId, Log};

use super::inventory::{Inventory, RootFile, SessionFiles};
use super::{Root, Store, session_list};
use manifest::{Manifest, TrashedDir};

pub use purge::{Purgeable, TrashContents};

/// So many logs of a session are locked all at once. The others are locked one by one as they go: a
/// session may have more sub-agents than a process may have files open.
pub(super) const MAX_LOCKED_LOGS: usize = 64;

/// A deleted session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrashItem {
    /// Its name in the trash.
    pub id: String,
    /// The session.
    pub session: String,
    /// Sessions that went with it, because their logs are the same files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// The layout's name.
    pub layout: String,
    /// The root it was in.
    pub root: PathBuf,
    /// It is a log outside of any tree, and `root` is the directory it lay in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lone: bool,
    /// When it was deleted.
    pub deleted: Timestamp,
    /// Its files.
    pub files: Vec<TrashedFile>,
    /// What its register said about its logs, in the register's own words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<TrashedRow>,
    /// The entries of the configuration that went with it: of its workspace, of its agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<TrashedConfigEntry>,
}

/// An entry of a configuration that was taken out with the sessions of a workspace or an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrashedConfigEntry {
    /// The workspace of the agent; none if it is a workspace's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The entry, in the configuration's own words.
    pub text: String,
}

/// A row that a register had for a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrashedRow {
    /// The log's path within the root.
    pub path: PathBuf,
    /// The row.
    pub text: String,
}

/// A file of a deleted session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrashedFile {
    /// Its path within the root.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

impl SessionFiles {
    /// Sorts sessions by the files that they share: only together can such sessions be deleted.
    pub fn group_by_shared_files<'a>(sessions: &[&'a SessionFiles]) -> Vec<Vec<&'a SessionFiles>> {
        let mut groups: Vec<Vec<&SessionFiles>> = Vec::new();
        let mut group_of: HashMap<&Path, usize> = HashMap::new();
        for &files in sessions {
            let volumes = files.logs().flat_map(RootFile::volumes);
            let shared = volumes.filter(|file| file.slice.is_some());
            let paths: HashSet<&Path> = shared.map(|file| file.path.as_path()).collect();
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
        groups
    }
}

impl TrashItem {
    /// It is what was left of a workspace's or an agent's folder, or of a log, and no session.
    pub fn is_folder(&self) -> bool {
        self.session.ends_with('/')
    }

    /// Its sessions: one, or those that shared files.
    pub fn sessions(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.session)
            .chain(&self.others)
            .map(String::as_str)
    }
}

impl Store {
    /// What deleting a session would move.
    pub fn plan_delete(&self, files: &SessionFiles, now: Timestamp) -> Result<TrashItem> {
        self.plan_delete_group(files, &[], now)
    }

    /// What deleting a session together with others that share its files would move.
    pub fn plan_delete_group(
        &self,
        files: &SessionFiles,
        others: &[&SessionFiles],
        now: Timestamp,
    ) -> Result<TrashItem> {
        let root = &files.root;
        let all = || std::iter::once(&files).chain(others).copied();
        all().try_for_each(SessionFiles::refuse_archived)?;
        let within = |path: &Path| {
            path.strip_prefix(&root.path)
                .map(Path::to_owned)
                .map_err(|_| {
                    Error::refused(format!(
                        "{} is not in {}",
                        path.display(),
                        root.path.display()
                    ))
                })
        };
        let mut beside: Vec<RootFile> = all().flat_map(own_attachments).collect();
        // Sessions that share a log share what lies beside it.
        let mut seen = HashSet::new();
        beside.retain(|file| seen.insert(file.path.clone()));
        refuse_shared(all())?;
        let list = volumes(all()).into_iter().chain(&beside).map(|file| {
            Ok(TrashedFile {
                path: within(&file.path)?,
                bytes: file.id.len,
            })
        });
        let stamp = now.strftime("%Y%m%dT%H%M%S").to_string();
        Ok(TrashItem {
            id: format!("{stamp}-{}", files.id),
            session: files.id.to_string(),
            others: others.iter().map(|other| other.id.to_string()).collect(),
            layout: root.layout.name().to_owned(),
            root: root.path.clone(),
            lone: files.is_lone(),
            deleted: now,
            files: list.collect::<Result<_>>()?,
            rows: all().map(list_rows).collect::<Result<Vec<_>>>()?.concat(),
            config: Vec::new(),
        })
    }

    /// Moves a session to the trash.
    ///
    /// What lies in no folder stays while another folder holds a log of the session too.
    pub fn delete(&self, files: &SessionFiles, now: Timestamp) -> Result<TrashItem> {
        self.delete_group(files, &[], now)
    }

    /// Moves a session to the trash together with others that share its files: see
    /// [`SessionFiles::group_by_shared_files`]. They come back together too.
    pub fn delete_group(
        &self,
        files: &SessionFiles,
        others: &[&SessionFiles],
        now: Timestamp,
    ) -> Result<TrashItem> {
        self.delete_if(files, others, now, || Ok(()))
    }

    /// Moves a session to the trash together with the entry of the configuration that it belonged to.
    pub(super) fn delete_with_config(
        &self,
        files: &SessionFiles,
        config: Vec<TrashedConfigEntry>,
        now: Timestamp,
    ) -> Result<TrashItem> {
        self.delete_planned(files, &[], config, now, || Ok(()))
    }

    /// Moves to the trash what is left in the folder of a workspace or an agent: files of no session, and
    /// its entry of the configuration.
    pub(super) fn delete_folder(&self, root: &Root, plan: TrashItem) -> Result<TrashItem> {
        for file in &plan.files {
            root.ensure_inside(&plan.root.join(&file.path))?;
        }
        let dirs = manifest::directories(&plan, std::iter::empty())?;
        self.move_to_trash(root, plan, dirs, &[])
    }

    /// Moves files to the trash whose log or session, at `gone` within the root, is not there any more.
    pub(crate) fn delete_leftover(
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
        let gone = gone.to_string_lossy();
        let plan = Store::plan_delete_folder(root, &gone, list, Vec::new(), now);
        self.delete_folder(root, plan)
    }

    /// What [`delete_folder`](Store::delete_folder) moves to the trash.
    pub(super) fn plan_delete_folder(
        root: &Root,
        folder: &str,
        files: Vec<(PathBuf, u64)>,
        config: Vec<TrashedConfigEntry>,
        now: Timestamp,
    ) -> TrashItem {
        let stamp = now.strftime("%Y%m%dT%H%M%S").to_string();
        let files = files.into_iter();
        TrashItem {
            id: format!("{stamp}-{}", folder.replace('/', "-")),
            // No session has a slash in its id.
            session: format!("{folder}/"),
            others: Vec::new(),
            layout: root.layout.name().to_owned(),
            root: root.path.clone(),
            lone: false,
            deleted: now,
            files: files
                .map(|(path, bytes)| TrashedFile { path, bytes })
                .collect(),
            rows: Vec::new(),
            config,
        }
    }

    /// The same, if `still` says so once the logs are locked and known to be what they were.
    pub(crate) fn delete_if(
        &self,
        files: &SessionFiles,
        others: &[&SessionFiles],
        now: Timestamp,
        still: impl FnOnce() -> Result<()>,
    ) -> Result<TrashItem> {
        self.delete_planned(files, others, Vec::new(), now, still)
    }

    fn delete_planned(
        &self,
        files: &SessionFiles,
        others: &[&SessionFiles],
        config: Vec<TrashedConfigEntry>,
        now: Timestamp,
        still: impl FnOnce() -> Result<()>,
    ) -> Result<TrashItem> {
        let all = || std::iter::once(&files).chain(others).copied();
        let mut plan = self.plan_delete_group(files, others, now)?;
        plan.config = config;
        for file in &plan.files {
            files.root.ensure_inside(&plan.root.join(&file.path))?;
        }
        let volumes = volumes(all());
        let logs = volumes
            .iter()
            .take(MAX_LOCKED_LOGS)
            .map(|file| files.root.open_log(&file.path, AppendOptions::default()))
            .collect::<Result<Vec<_>>>()?;
        let dirs = match plan.lone {
            true => Vec::new(),
            false => manifest::directories(&plan, all())?,
        };
        let moved = with_all_locked(&logs, || {
            // Someone who wrote to it since it was looked at still wants it.
            volumes.iter().try_for_each(|file| ensure_unchanged(file))?;
            all().try_for_each(SessionFiles::refuse_written)?;
            still()?;
            self.move_to_trash(&files.root, plan, dirs, &volumes)
        })?;
        let folder = self.trash_dir()?.join(&moved.id);
        match manifest::with_folder_lock(&folder, || restore::remove_list_rows(&folder)) {
            // Another process has put it back or purged it already.
            Err(Error::Changed { path }) if path == folder => Ok(moved),
            struck => struck,
        }
    }

    /// Moves what was planned, of which the first are the logs' volumes.
    fn move_to_trash(
        &self,
        root: &Root,
        mut plan: TrashItem,
        dirs: Vec<TrashedDir>,
        volumes: &[&RootFile],
    ) -> Result<TrashItem> {
        let trash = self.trash_dir()?;
        let first = plan.id.clone();
        let mut copy = 1;
        // Two logs of one session may go within a second.
        while jsonl::exists(&trash.join(&plan.id))? {
            copy += 1;
            plan.id = format!("{first}-{copy}");
        }
        let folder = trash.join(&plan.id);
        jsonl::ensure_dir(&folder)?;
        let manifest = Manifest::new(plan, dirs);
        manifest.write(&folder)?;
        let carried =
            manifest::with_folder_lock(&folder, || move_files(root, &manifest, &folder, volumes));
        let plan = manifest.trashed;
        if let Err(error) = carried {
            // Whole or not at all; if even that fails, what was moved stays in the trash.
            self.failures.ok(self.undelete(&plan.id));
            return Err(error);
        }
        Ok(plan)
    }

    /// Where deleted sessions lie. A link in its place leads to what is not ours.
    fn trash_dir(&self) -> Result<PathBuf> {
        let Some(state) = &self.state else {
            return Err(Error::refused(
                "there is no state directory to keep deleted sessions in",
            ));
        };
        let trash = state.join("trash");
        match jsonl::metadata_if_exists(&trash)? {
            Some(metadata) if !metadata.is_dir() => Err(Error::refused(format!(
                "{} is no directory; deleted sessions are only kept in one of annals' own, not behind a link",
                trash.display()
            ))),
            _ => Ok(trash),
        }
    }
}

/// The files that the logs of sessions lie in, a main log's newest first. Several logs may share one; what
/// is only in the archive is not there.
pub(super) fn volumes<'a>(sessions: impl Iterator<Item = &'a SessionFiles>) -> Vec<&'a RootFile> {
    let mut seen = HashSet::new();
    let all = sessions.flat_map(SessionFiles::logs);
    let all = all.flat_map(|file| file.volumes().rev());
    all.filter(|file| !file.is_archived() && seen.insert(file.path.as_path()))
        .collect()
}

impl SessionFiles {
    /// A log of it holds what is neither its own nor its sub-agents'.
    pub(crate) fn shares_log(&self) -> bool {
        refuse_shared(std::iter::once(self)).is_err()
    }
}

/// Refuses sessions whose logs hold what is neither theirs nor their sub-agents'.
pub(super) fn refuse_shared<'a>(sessions: impl Iterator<Item = &'a SessionFiles>) -> Result<()> {
    let mut left: HashMap<&Path, u64> = HashMap::new();
    let logs = sessions.flat_map(SessionFiles::logs);
    for file in logs.flat_map(RootFile::volumes) {
        if let Some(share) = &file.slice {
            let left = left.entry(&file.path).or_insert(share.known_end);
            *left = left.saturating_sub(share.bytes());
        }
    }
    match left.into_iter().find(|(_, left)| *left > 0) {
        None => Ok(()),
        Some((path, _)) => Err(Error::refused(format!(
            "{} holds other sessions too, and logs are never rewritten; name all sessions of that file to delete them together",
            path.display()
        ))),
    }
}

/// What was looked at is what is there, as far as its content goes.
fn ensure_unchanged(file: &RootFile) -> Result<()> {
    let metadata = fs::symlink_metadata(&file.path);
    let metadata = metadata.map_err(|error| Error::io("stat", &file.path, error))?;
    match FileId::from(&metadata) == file.id {
        true => Ok(()),
        false => Err(Error::Changed {
            path: file.path.clone(),
        }),
    }
}

fn move_files(
    root: &Root,
    manifest: &Manifest,
    folder: &Path,
    volumes: &[&RootFile],
) -> Result<()> {
    let plan = &manifest.trashed;
    // The main log is the first of the list. As long as it is there, the session is found.
    for (at, file) in plan.files.iter().enumerate().rev() {
        let to = folder.join("files").join(&file.path);
        let from = plan.root.join(&file.path);
        let carry = || jsonl::move_file(&from, &to);
        match volumes.get(at) {
            None => jsonl::with_document_lock(&from, carry)?,
            Some(_) if at < MAX_LOCKED_LOGS => carry()?,
            Some(volume) => root
                .open_log(&from, AppendOptions::default())?
                .with_lock(|_| {
                    ensure_unchanged(volume)?;
                    carry()
                })?,
        }
    }
    for volume in volumes.iter().filter(|file| root.has_lock_file(&file.path)) {
        // What is left of it only keeps an empty directory.
        let _ = jsonl::lock_file::remove(&volume.path);
    }
    manifest.clear_dirs(folder)
}

/// What registers say about a session's logs.
pub(super) fn list_rows(files: &SessionFiles) -> Result<Vec<TrashedRow>> {
    let Some(writer) = files.root.layout.writer().filter(|_| !files.is_lone()) else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    for file in files.listed_logs() {
        let removed = session_list::rows_for_log(&files.root, writer, &file.artifact)?;
        let path = files.root.layout.path_for(&file.artifact);
        rows.extend(removed.into_iter().map(|text| TrashedRow {
            path: path.clone(),
            text,
        }));
    }
    Ok(rows)
}

/// What goes with a session's logs.
pub(super) fn own_attachments(files: &SessionFiles) -> Vec<RootFile> {
    if !files.shared {
        return files.attachments_on_disk();
    }
    // Whose is shared depends on what is there now: the other log may have gone meanwhile.
    let now = Inventory::scan(std::slice::from_ref(&files.root));
    // In what could not be looked at the other log may still lie.
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

/// Runs `work` with the locks of all logs, of which there are no more than [`MAX_LOCKED_LOGS`].
pub(super) fn with_all_locked<T>(logs: &[Log], work: impl FnOnce() -> Result<T>) -> Result<T> {
    // One closure within the other, as deep as there are logs; as a trait object, so that it is
    // one function.
    fn nest<'a, T>(logs: &[Log], work: Box<dyn FnOnce() -> Result<T> + 'a>) -> Result<T> {
        match logs.split_first() {
            Some((log, rest)) => log.with_lock(|_| nest(rest, work)),
            None => work(),
        }
    }
    nest(logs, Box::new(work))
}

/// Removes a directory and those above it as long as they are empty, but neither the root nor those
/// directly in it.
pub(super) fn remove_empty_dirs(dir: Option<&Path>, root: &Path) {
    let mut dir = dir;
    let below = |path: &&Path| {
        let relative = path.strip_prefix(root);
        relative.is_ok_and(|relative| relative.components().count() > 1)
    };
    while let Some(path) = dir.filter(below) {
        // It fails when something is left, which is the condition.
        if fs::remove_dir(path).is_err() {
            return;
        }
        dir = path.parent();
    }
}

#[cfg(test)]
mod tests;
