//! Deleting to the trash, and back.
//!
//! A deleted session's files move into one folder of the state directory, under their paths within
//! the root, beside a manifest that says where they came from. The locks of all its logs are held
//! from the last look at them until they are gone, so that no append is acknowledged in between.
//! The manifest is written first, a file leaves its place only when it is safe in the other, and
//! the main log goes last: a deletion that is cut off can be run again, which moves what is left,
//! or undone, and so can an undoing. One that fails is undone at once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::jsonl::{self, FileId, Log, Options};

use super::inventory::{FoundFile, Inventory, SessionFiles};
use super::{Root, Store, register};

/// A deleted session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trashed {
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

const MANIFEST: &str = "manifest.json";

impl SessionFiles {
    /// Sorts sessions by the files that they share: only together can such sessions be deleted.
    pub fn sharing<'a>(sessions: &[&'a SessionFiles]) -> Vec<Vec<&'a SessionFiles>> {
        let mut groups: Vec<Vec<&SessionFiles>> = Vec::new();
        let mut group_of: HashMap<&Path, usize> = HashMap::new();
        for &files in sessions {
            let volumes = files.logs().flat_map(FoundFile::volumes);
            let shared = volumes.filter(|file| file.share.is_some());
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

impl Trashed {
    /// Its sessions: one, or those that shared files.
    pub fn sessions(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.session)
            .chain(&self.others)
            .map(String::as_str)
    }
}

impl Store {
    /// What deleting a session would move.
    pub fn deletion(&self, files: &SessionFiles, now: Timestamp) -> Result<Trashed> {
        self.deletion_of(files, &[], now)
    }

    /// What deleting a session together with others that share its files would move.
    pub fn deletion_of(
        &self,
        files: &SessionFiles,
        others: &[&SessionFiles],
        now: Timestamp,
    ) -> Result<Trashed> {
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
        let beside: Vec<FoundFile> = all().flat_map(own).collect();
        refuse_shared(all())?;
        let list = volumes(all()).into_iter().chain(&beside).map(|file| {
            Ok(TrashedFile {
                path: within(&file.path)?,
                bytes: file.id.len,
            })
        });
        let stamp = now.strftime("%Y%m%dT%H%M%S").to_string();
        Ok(Trashed {
            id: format!("{stamp}-{}", files.id),
            session: files.id.to_string(),
            others: others.iter().map(|other| other.id.to_string()).collect(),
            layout: root.layout.name().to_owned(),
            root: root.path.clone(),
            lone: files.is_lone(),
            deleted: now,
            files: list.collect::<Result<_>>()?,
            rows: all().map(rows).collect::<Result<Vec<_>>>()?.concat(),
        })
    }

    /// Moves a session to the trash.
    ///
    /// What lies in no folder stays while another folder holds a log of the session too.
    pub fn delete(&self, files: &SessionFiles, now: Timestamp) -> Result<Trashed> {
        self.delete_with(files, &[], now)
    }

    /// Moves a session to the trash together with others that share its files: see
    /// [`SessionFiles::sharing`]. They come back together too.
    pub fn delete_with(
        &self,
        files: &SessionFiles,
        others: &[&SessionFiles],
        now: Timestamp,
    ) -> Result<Trashed> {
        let all = || std::iter::once(&files).chain(others).copied();
        let plan = self.deletion_of(files, others, now)?;
        for file in &plan.files {
            files.root.guard(&plan.root.join(&file.path))?;
        }
        let volumes = volumes(all());
        let logs = volumes
            .iter()
            .map(|file| Log::open(&file.path, Options::default()))
            .collect::<Result<Vec<_>>>()?;
        let moved = all_locked(&logs, || {
            // Someone who wrote to it since it was looked at still wants it.
            for file in &volumes {
                let metadata = fs::symlink_metadata(&file.path);
                let metadata = metadata.map_err(|error| Error::io("stat", &file.path, error))?;
                if FileId::from(&metadata) != file.id {
                    return Err(Error::Changed {
                        path: file.path.clone(),
                    });
                }
            }
            self.move_out(plan, logs.len())
        })?;
        all().try_for_each(strike)?;
        Ok(moved)
    }

    /// Moves what was planned, of which the first `logs` files are locked.
    fn move_out(&self, mut plan: Trashed, logs: usize) -> Result<Trashed> {
        let trash = self.trash()?;
        let first = plan.id.clone();
        let mut copy = 1;
        // Two logs of one session may go within a second.
        while trash.join(&plan.id).symlink_metadata().is_ok() {
            copy += 1;
            plan.id = format!("{first}-{copy}");
        }
        let folder = trash.join(&plan.id);
        jsonl::ensure_dir(&folder)?;
        let manifest =
            serde_json::to_vec_pretty(&plan).map_err(|error| Error::refused(error.to_string()))?;
        jsonl::create_new(&folder.join(MANIFEST), &manifest)?;
        if let Err(error) = carry_out(&plan, &folder, logs) {
            // Whole or not at all; if even that fails, what was moved stays in the trash.
            let _ = self.undelete(&plan.id);
            return Err(error);
        }
        Ok(plan)
    }

    /// What lies in the trash, the newest first.
    pub fn trashed(&self) -> Result<Vec<Trashed>> {
        let trash = self.trash()?;
        let dir = match fs::read_dir(&trash) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("read", &trash, error)),
        };
        let read = |path: PathBuf| -> Option<Trashed> {
            let manifest = fs::read(path.join(MANIFEST)).ok()?;
            let mut trashed: Trashed = serde_json::from_slice(&manifest).ok()?;
            // The folder's name is what counts: it cannot lead out of the trash.
            trashed.id = path.file_name()?.to_str()?.to_owned();
            Some(trashed)
        };
        let mut found: Vec<Trashed> = dir
            .flatten()
            .filter_map(|entry| read(entry.path()))
            .collect();
        found.sort_by(|a, b| b.id.cmp(&a.id));
        Ok(found)
    }

    /// Puts a deleted session back where it was. A file that is there again stays as it is, and so
    /// does its copy in the trash.
    pub fn undelete(&self, id: &str) -> Result<Trashed> {
        let fits = |trashed: &Trashed| {
            let named = |session: &str| session.starts_with(id);
            trashed.id == id || (!id.is_empty() && trashed.sessions().any(named))
        };
        let mut found: Vec<Trashed> = self.trashed()?.into_iter().filter(fits).collect();
        if let Some(exact) = found.iter().position(|trashed| trashed.id == id) {
            found = vec![found.swap_remove(exact)];
        }
        if found.len() > 1 && self.is_one_deletion(&found)? {
            // It was cut off and run again, so each part lies in a folder of its own.
            while let [_, rest @ ..] = found.as_slice()
                && !rest.is_empty()
                && let Some(part) = found.pop()
            {
                self.undelete(&part.id)?;
            }
        }
        if found.len() > 1 {
            return Err(Error::Ambiguous {
                what: "deleted session",
                id: id.to_owned(),
                candidates: found.into_iter().map(|trashed| trashed.id).collect(),
            });
        }
        let missing = || Error::NotFound {
            what: "deleted session",
            id: id.to_owned(),
        };
        let trashed = found.pop().ok_or_else(missing)?;
        let root = Root::new(&trashed.layout, &trashed.root)?;
        let folder = self.trash()?.join(&trashed.id);
        let mut kept = Vec::new();
        for file in &trashed.files {
            // The manifest is ours, but a path in it must still not lead anywhere else.
            let sound = match trashed.lone {
                true => is_plain_log(&file.path),
                false => root.layout.classify(&file.path).is_some(),
            };
            let from = folder.join("files").join(&file.path);
            let to = root.path.join(&file.path);
            if sound {
                // Of a deletion that was cut off.
                jsonl::clear_temp(&from)?;
            }
            if sound && from.symlink_metadata().is_err() {
                // An earlier attempt brought it back.
                continue;
            }
            if !sound {
                kept.push(to);
                continue;
            }
            root.guard(&to)?;
            match jsonl::relocate(&from, &to) {
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                    kept.push(to);
                }
                moved => moved?,
            }
        }
        if let Some(first) = kept.first() {
            return Err(Error::refused(format!(
                "{} cannot be brought back: it exists again, or is no place for it; its deleted version stays in {}",
                first.display(),
                folder.display()
            )));
        }
        restore_rows(&root, &trashed)?;
        fs::remove_file(folder.join(MANIFEST))
            .map_err(|error| Error::io("remove", &folder, error))?;
        remove_tree_of_empty(&folder);
        Ok(trashed)
    }

    /// Where the files of a deleted session lie, under their paths within the root.
    pub(super) fn trashed_files(&self, trashed: &Trashed) -> Result<PathBuf> {
        Ok(self.trash()?.join(&trashed.id).join("files"))
    }

    /// Whether what lies in the trash several times is parts of one session: no file is there twice.
    fn is_one_deletion(&self, found: &[Trashed]) -> Result<bool> {
        let trash = self.trash()?;
        let mut seen = HashSet::new();
        let same = |trashed: &Trashed| {
            found.first().is_some_and(|first| {
                first.session == trashed.session
                    && first.layout == trashed.layout
                    && first.root == trashed.root
            })
        };
        let mut twice = |trashed: &Trashed| {
            let folder = trash.join(&trashed.id).join("files");
            let there = |path: &&PathBuf| folder.join(path).symlink_metadata().is_ok();
            let mut paths = trashed.files.iter().map(|file| &file.path).filter(there);
            paths.any(|path| !seen.insert(path.clone()))
        };
        // The one that was cut off meant to move all that the later ones did.
        let listed = |trashed: &Trashed| -> HashSet<PathBuf> {
            let files = trashed.files.iter().map(|file| file.path.clone());
            files.collect()
        };
        let longest = found.iter().map(listed).max_by_key(HashSet::len);
        let longest = longest.unwrap_or_default();
        let within = found
            .iter()
            .all(|trashed| listed(trashed).is_subset(&longest));
        Ok(within && found.iter().all(same) && !found.iter().any(&mut twice))
    }

    fn trash(&self) -> Result<PathBuf> {
        match &self.state {
            Some(state) => Ok(state.join("trash")),
            None => Err(Error::refused(
                "there is no state directory to keep deleted sessions in",
            )),
        }
    }
}

/// The files that the logs of sessions lie in, a main log's newest first. Several logs may share one.
pub(super) fn volumes<'a>(sessions: impl Iterator<Item = &'a SessionFiles>) -> Vec<&'a FoundFile> {
    let mut seen = HashSet::new();
    let all = sessions.flat_map(SessionFiles::logs);
    let all = all.flat_map(|file| file.volumes().rev());
    all.filter(|file| seen.insert(file.path.as_path()))
        .collect()
}

/// Refuses sessions whose logs hold what is neither theirs nor their sub-agents'.
pub(super) fn refuse_shared<'a>(sessions: impl Iterator<Item = &'a SessionFiles>) -> Result<()> {
    let mut left: HashMap<&Path, u64> = HashMap::new();
    let logs = sessions.flat_map(SessionFiles::logs);
    for file in logs.flat_map(FoundFile::volumes) {
        if let Some(share) = &file.share {
            let left = left.entry(&file.path).or_insert(share.known);
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

fn carry_out(plan: &Trashed, folder: &Path, logs: usize) -> Result<()> {
    // The main log is the first of the list. As long as it is there, the session is found.
    for (at, file) in plan.files.iter().enumerate().rev() {
        let to = folder.join("files").join(&file.path);
        let from = plan.root.join(&file.path);
        if at < logs {
            jsonl::relocate(&from, &to)?;
        } else {
            jsonl::held(&from, || jsonl::relocate(&from, &to))?;
        }
        if !plan.lone {
            remove_empty(from.parent(), &plan.root);
        }
    }
    Ok(())
}

/// What registers say about a session's logs.
pub(super) fn rows(files: &SessionFiles) -> Result<Vec<TrashedRow>> {
    let Some(writer) = files.root.layout.writer().filter(|_| !files.is_lone()) else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    for file in files.logs() {
        let removed = register::rows_of(&files.root, writer, &file.artifact)?;
        let path = files.root.layout.place(&file.artifact);
        rows.extend(removed.into_iter().map(|text| TrashedRow {
            path: path.clone(),
            text,
        }));
    }
    Ok(rows)
}

/// Takes the logs of a session that is gone out of their registers.
pub(super) fn strike(files: &SessionFiles) -> Result<()> {
    let Some(writer) = files.root.layout.writer().filter(|_| !files.is_lone()) else {
        return Ok(());
    };
    for file in files.logs() {
        register::strike(&files.root, writer, &file.artifact)?;
    }
    Ok(())
}

/// Puts back what registers said about logs that are there again.
fn restore_rows(root: &Root, trashed: &Trashed) -> Result<()> {
    let Some(writer) = root.layout.writer().filter(|_| !trashed.lone) else {
        return Ok(());
    };
    for file in &trashed.files {
        let log = root.layout.classify(&file.path);
        let Some(log) = log.filter(|log| log.kind.is_conversation()) else {
            continue;
        };
        let mut rows = trashed.rows.iter();
        let row = rows.find(|row| row.path == file.path);
        register::relist(root, writer, &log, row.map(|row| row.text.clone()))?;
    }
    Ok(())
}

/// What goes with a session's logs.
pub(super) fn own(files: &SessionFiles) -> Vec<FoundFile> {
    if !files.shared {
        return files.beside.clone();
    }
    // Whose is shared depends on what is there now: the other log may have gone meanwhile.
    let now = Inventory::of(std::slice::from_ref(&files.root));
    let mut same: Vec<SessionFiles> = now.sessions;
    same.retain(|other| other.id == files.id);
    match same.pop() {
        Some(only) if same.is_empty() && only.folder() == files.folder() => only.beside,
        _ => {
            let mut beside = files.beside.clone();
            beside.retain(|file| file.artifact.folder.is_some());
            beside
        }
    }
}

/// Runs `work` with the locks of all logs.
pub(super) fn all_locked<T>(logs: &[Log], work: impl FnOnce() -> Result<T>) -> Result<T> {
    // One closure within the other, as deep as there are logs; as a trait object, so that it is
    // one function.
    fn nest<'a, T>(logs: &[Log], work: Box<dyn FnOnce() -> Result<T> + 'a>) -> Result<T> {
        match logs.split_first() {
            Some((log, rest)) => log.locked(|_| nest(rest, work)),
            None => work(),
        }
    }
    nest(logs, Box::new(work))
}

/// A log that lies directly in its directory.
fn is_plain_log(path: &Path) -> bool {
    let mut parts = path.components();
    matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(_)), None)
    ) && path.extension() == Some(OsStr::new("jsonl"))
}

/// Removes a directory and those above it as long as they are empty, but neither the root nor those
/// directly in it.
pub(super) fn remove_empty(dir: Option<&Path>, root: &Path) {
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

fn remove_tree_of_empty(dir: &Path) {
    let mut pending = vec![dir.to_owned()];
    let mut dirs = Vec::new();
    while let Some(path) = pending.pop() {
        let below = fs::read_dir(&path).into_iter().flatten().flatten();
        pending.extend(
            below
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
        dirs.push(path);
    }
    for dir in dirs.into_iter().rev() {
        let _ = fs::remove_dir(dir);
    }
}
