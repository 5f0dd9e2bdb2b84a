//! Deleting to the trash, and back.
//!
//! A deleted session's files move into one folder of the state directory, under their paths within
//! the root, beside a manifest that says where they came from. The manifest is written first and a
//! file leaves its place only when its copy is safe, so a deletion that is cut off can be run again
//! or undone.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::jsonl::{self, FileId};

use super::inventory::SessionFiles;
use super::{Root, Store};

/// A deleted session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trashed {
    /// Its name in the trash.
    pub id: String,
    /// The session.
    pub session: String,
    /// The layout's name.
    pub layout: String,
    /// The root it was in.
    pub root: PathBuf,
    /// When it was deleted.
    pub deleted: Timestamp,
    /// Its files.
    pub files: Vec<TrashedFile>,
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

impl Store {
    /// What deleting a session would move.
    pub fn deletion(&self, files: &SessionFiles, now: Timestamp) -> Result<Trashed> {
        let root = &files.root;
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
        let list = files.files().map(|file| {
            Ok(TrashedFile {
                path: within(&file.path)?,
                bytes: file.id.len,
            })
        });
        let stamp = now.strftime("%Y%m%dT%H%M%S").to_string();
        Ok(Trashed {
            id: format!("{stamp}-{}", files.id),
            session: files.id.to_string(),
            layout: root.layout.name().to_owned(),
            root: root.path.clone(),
            deleted: now,
            files: list.collect::<Result<_>>()?,
        })
    }

    /// Moves a session to the trash.
    pub fn delete(&self, files: &SessionFiles, now: Timestamp) -> Result<Trashed> {
        let mut plan = self.deletion(files, now)?;
        for file in &plan.files {
            files.root.guard(&plan.root.join(&file.path))?;
        }
        // Someone who wrote to it since it was looked at still wants it.
        for file in files.logs() {
            let metadata = fs::symlink_metadata(&file.path);
            let metadata = metadata.map_err(|error| Error::io("stat", &file.path, error))?;
            if FileId::from(&metadata) != file.id {
                return Err(Error::Changed {
                    path: file.path.clone(),
                });
            }
        }
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
        for file in &plan.files {
            let to = folder.join("files").join(&file.path);
            let from = plan.root.join(&file.path);
            relocate(&from, &to)?;
            remove_empty(from.parent(), &plan.root);
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
            trashed.id == id || (!id.is_empty() && trashed.session.starts_with(id))
        };
        let mut found: Vec<Trashed> = self.trashed()?.into_iter().filter(fits).collect();
        if let Some(exact) = found.iter().position(|trashed| trashed.id == id) {
            found = vec![found.swap_remove(exact)];
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
            let sound = root.layout.classify(&file.path).is_some();
            let from = folder.join("files").join(&file.path);
            let to = root.path.join(&file.path);
            if sound && from.symlink_metadata().is_err() {
                // An earlier attempt brought it back.
                continue;
            }
            if !sound || to.symlink_metadata().is_ok() {
                kept.push(to);
                continue;
            }
            root.guard(&to)?;
            relocate(&from, &to)?;
        }
        if let Some(first) = kept.first() {
            return Err(Error::refused(format!(
                "{} cannot be brought back: it exists again, or is no place for it; its deleted version stays in {}",
                first.display(),
                folder.display()
            )));
        }
        fs::remove_file(folder.join(MANIFEST))
            .map_err(|error| Error::io("remove", &folder, error))?;
        remove_tree_of_empty(&folder);
        Ok(trashed)
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

/// Moves a file, across file systems if need be. It leaves its old place last.
fn relocate(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().unwrap_or(to);
    jsonl::ensure_dir(parent)?;
    let cwd = rustix::fs::CWD;
    // Never over a file that came there meanwhile.
    let moved = rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE);
    match moved {
        Ok(()) => sync_dir(parent),
        // Another device, or a file system that knows no such rename.
        Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS) => {
            copy(from, to)?;
            sync_dir(parent)?;
            fs::remove_file(from).map_err(|error| Error::io("remove", from, error))
        }
        Err(error) => Err(Error::io("move", from, error.into())),
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let failed = |error| Error::io("copy", from, error);
    let metadata = fs::metadata(from).map_err(failed)?;
    let mut source = File::open(from).map_err(failed)?;
    let mut target = File::options()
        .write(true)
        .create_new(true)
        .open(to)
        .map_err(failed)?;
    let copied = io::copy(&mut source, &mut target).map_err(failed)?;
    target
        .set_permissions(metadata.permissions())
        .map_err(failed)?;
    let times = metadata
        .modified()
        .map(|time| fs::FileTimes::new().set_modified(time));
    if let Ok(times) = times {
        let _ = target.set_times(times);
    }
    target.sync_all().map_err(failed)?;
    let now = fs::metadata(from).map_err(failed)?.len();
    if copied != now {
        return Err(Error::Changed {
            path: from.to_owned(),
        });
    }
    Ok(())
}

fn sync_dir(dir: &Path) -> Result<()> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| Error::io("sync", dir, error))
}

/// Removes a directory and those above it as long as they are empty, but never the root's own.
fn remove_empty(dir: Option<&Path>, root: &Path) {
    let mut dir = dir;
    while let Some(path) = dir
        .filter(|path| path.parent().is_some_and(|parent| parent != root) && path.starts_with(root))
    {
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
