//! Restores deleted sessions from the trash.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::store::root::{ensure_beneath, is_plain_log};
use crate::store::{Root, session_list};
use annals_jsonl as jsonl;
use annals_jsonl::Error as FileError;

use super::manifest::{self, MANIFEST, Manifest};
use super::{Trash, TrashItem};

impl Trash<'_> {
    /// Returns the deleted sessions, newest first. Reports unreadable ones to
    /// [`Store::failures`](crate::store::Store::failures).
    pub fn items(&self) -> Result<Vec<TrashItem>> {
        let found = self.manifests()?.into_iter();
        let found =
            found.filter_map(|(_, manifest)| Some(self.store.failures.ok(manifest)??.trashed));
        Ok(found.collect())
    }

    /// Returns the folders of the trash with their manifests, newest first.
    pub(super) fn manifests(&self) -> Result<Vec<(String, Result<Option<Manifest>>)>> {
        let trash = self.dir()?;
        let names = folders(&trash)?.into_iter();
        let names = names.rev().filter(|name| !name.starts_with('.'));
        let read = |name: String| {
            let manifest = Manifest::read(&trash.join(&name));
            (name, manifest)
        };
        Ok(names.map(read).collect())
    }

    /// Restores a deleted session to its original place. A file that exists again is left
    /// unchanged, and its copy stays in the trash.
    pub fn restore(&self, id: &str) -> Result<TrashItem> {
        let mut found = self.items()?;
        found.retain(|trashed| trashed.matches(id));
        if let Some(exact) = found.iter().position(|trashed| trashed.id == id) {
            found = vec![found.swap_remove(exact)];
        }
        if found.len() > 1 && self.is_one_deletion(&found)? {
            // The deletion was interrupted and repeated, so each part is in its own folder.
            while let [_, rest @ ..] = found.as_slice()
                && !rest.is_empty()
                && let Some(part) = found.pop()
            {
                self.restore(&part.id)?;
            }
        }
        if found.len() > 1 {
            return Err(Error::Ambiguous {
                what: "deleted session",
                id: id.to_owned(),
                candidates: found.into_iter().map(|trashed| trashed.id).collect(),
            });
        }
        let Some(trashed) = found.pop() else {
            return Err(self.why_missing(id)?);
        };
        let folder = self.dir()?.join(&trashed.id);
        manifest::with_folder_lock(&folder, || self.restore_folder(&folder))
    }

    /// Returns why a deleted session is not found: its manifest may be unreadable.
    fn why_missing(&self, id: &str) -> Result<Error> {
        let named = |name: &str| !id.is_empty() && name.contains(id);
        let unreadable = self.manifests()?.into_iter();
        let mut unreadable = unreadable.filter_map(|(name, manifest)| {
            let error = manifest.err()?;
            named(&name).then_some(error)
        });
        Ok(unreadable.next().unwrap_or_else(|| Error::NotFound {
            what: "deleted session",
            id: id.to_owned(),
        }))
    }

    fn restore_folder(&self, folder: &Path) -> Result<TrashItem> {
        let gone = || {
            Error::File(FileError::Changed {
                path: folder.to_owned(),
            })
        };
        let manifest = Manifest::read(folder)?.ok_or_else(gone)?;
        let trashed = &manifest.trashed;
        let root = Root::new(&trashed.layout, &trashed.root)?;
        if !trashed.lone {
            manifest.make_dirs(&root)?;
        }
        let mut kept = Vec::new();
        for file in &trashed.files {
            // A path in the manifest must not lead out of the root, even though annals wrote it.
            let sound = match trashed.lone {
                true => is_plain_log(&file.path),
                false => {
                    root.layout.classify(&file.path).is_some()
                        || manifest.is_left_over(&root, &file.path)
                }
            };
            let from = folder.join("files").join(&file.path);
            let to = root.path.join(&file.path);
            if !sound {
                kept.push(to);
                continue;
            }
            ensure_beneath(folder, &from)?;
            // Remove the temporary file of an interrupted deletion, and finish an interrupted restore.
            jsonl::clear_temp(&from)?;
            jsonl::put_back_file(&from)?;
            if !jsonl::exists(&from)? {
                // An earlier attempt restored it.
                continue;
            }
            root.ensure_inside(&to)?;
            // A newer version of the file may be waiting under another name.
            jsonl::put_back_file(&to)?;
            match jsonl::move_file(&from, &to) {
                Err(FileError::Io { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists =>
                {
                    kept.push(to);
                }
                moved => moved?,
            }
        }
        if let Some(first) = kept.first() {
            return Err(Error::refused(format!(
                "{} cannot be restored: it already exists, or the path is not valid; the deleted version stays in {}",
                first.display(),
                folder.display()
            )));
        }
        // Without the manifest, files left in the folder cannot be found.
        if let Some(left) = first_file(&folder.join("files"))? {
            return Err(Error::refused(format!(
                "{} is still in the trash, because {MANIFEST} does not list it; everything else was restored",
                left.display()
            )));
        }
        restore_list_rows(&root, trashed)?;
        for entry in &trashed.config {
            self.store.chorus().restore_entry(&root, entry, trashed)?;
        }
        fs::remove_file(folder.join(MANIFEST))
            .map_err(|error| Error::io("remove", folder, error))?;
        remove_empty_tree(folder);
        Ok(manifest.trashed)
    }

    /// Returns the directory of a deleted session's files.
    pub(in crate::store) fn files_dir(&self, trashed: &TrashItem) -> Result<PathBuf> {
        Ok(self.dir()?.join(&trashed.id).join("files"))
    }

    /// Returns whether several items are parts of one session: no file is in two of them, unless both
    /// are the same. A deletion that was killed on its way to another file system leaves a copy.
    fn is_one_deletion(&self, found: &[TrashItem]) -> Result<bool> {
        let same = |trashed: &TrashItem| {
            found.first().is_some_and(|first| {
                first.session == trashed.session
                    && first.layout == trashed.layout
                    && first.root == trashed.root
            })
        };
        // The interrupted deletion lists all files of the later ones.
        let listed = |trashed: &TrashItem| -> HashSet<PathBuf> {
            let files = trashed.files.iter().map(|file| file.path.clone());
            files.collect()
        };
        let longest = found.iter().map(listed).max_by_key(HashSet::len);
        let longest = longest.unwrap_or_default();
        let within = found
            .iter()
            .all(|trashed| listed(trashed).is_subset(&longest));
        if !within || !found.iter().all(same) {
            return Ok(false);
        }
        let mut seen: HashMap<&Path, PathBuf> = HashMap::new();
        for trashed in found {
            let folder = self.store.trash().files_dir(trashed)?;
            for file in &trashed.files {
                let path = folder.join(&file.path);
                if !jsonl::exists(&path)? {
                    continue;
                }
                match seen.get(file.path.as_path()) {
                    Some(other) if !jsonl::have_same_content(&path, other)? => return Ok(false),
                    Some(_) => {}
                    None => _ = seen.insert(&file.path, path),
                }
            }
        }
        Ok(true)
    }
}

/// Returns the names of the trash's folders, oldest first; empty if there is no trash.
pub(super) fn folders(trash: &Path) -> Result<Vec<String>> {
    let dir = match fs::read_dir(trash) {
        Ok(dir) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", trash, error)),
    };
    let failed = |error| Error::io("read", trash, error);
    let mut names = Vec::new();
    for entry in dir {
        let entry = entry.map_err(failed)?;
        // Skip links: their targets are not part of the trash.
        if entry.file_type().map_err(failed)?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    Ok(names)
}

/// Restores the session list rows of restored logs.
fn restore_list_rows(root: &Root, trashed: &TrashItem) -> Result<()> {
    let Some(writer) = root.layout.writer().filter(|_| !trashed.lone) else {
        return Ok(());
    };
    let logs = trashed.files.iter().filter_map(|file| {
        let log = root.layout.classify(&file.path)?;
        let mut rows = trashed.rows.iter();
        let row = rows.find(|row| row.path == file.path);
        let text = row.map(|row| row.text.clone());
        log.kind.is_conversation().then_some((log, text))
    });
    // A session that had no log when it was deleted is only a row.
    let moved = |path: &PathBuf| trashed.files.iter().any(|file| file.path == *path);
    let unwritten = trashed.rows.iter().filter(|row| !moved(&row.path));
    let unwritten = unwritten.filter_map(|row| {
        let log = root.layout.classify(&row.path)?;
        let listed = log.kind.is_conversation();
        listed.then(|| (log, Some(row.text.clone())))
    });
    session_list::relist(root, writer, logs.chain(unwritten))
}

/// Removes the session list rows of the logs in a trash folder, and saves them in its manifest. The
/// caller must hold the folder's lock.
pub(super) fn remove_list_rows(folder: &Path) -> Result<TrashItem> {
    let gone = || {
        Error::File(FileError::Changed {
            path: folder.to_owned(),
        })
    };
    let mut manifest = Manifest::read(folder)?.ok_or_else(gone)?;
    let root = Root::new(&manifest.trashed.layout, &manifest.trashed.root)?;
    let Some(writer) = root.layout.writer().filter(|_| !manifest.trashed.lone) else {
        return Ok(manifest.trashed);
    };
    let files = manifest.trashed.files.iter().map(|file| &file.path);
    // A session that had no log when it was deleted is only a row.
    let paths = files.chain(manifest.trashed.rows.iter().map(|row| &row.path));
    let paths: BTreeSet<PathBuf> = paths.cloned().collect();
    for path in paths {
        let is_gone = !jsonl::exists(&root.path.join(&path))?;
        let log = root.layout.classify(&path).filter(|_| is_gone);
        if let Some(log) = log.filter(|log| log.kind.is_conversation()) {
            session_list::remove_from_list(&root, writer, &log, &mut |rows| {
                manifest.save_rows(folder, &path, rows)
            })?;
        }
    }
    Ok(manifest.trashed)
}

/// Returns the first file below a directory, or anything else that is not a directory.
fn first_file(dir: &Path) -> Result<Option<PathBuf>> {
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        let failed = |error| Error::io("read", &dir, error);
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if jsonl::is_absence(&error) => continue,
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            match entry.file_type().map_err(failed)?.is_dir() {
                true => pending.push(entry.path()),
                false => return Ok(Some(entry.path())),
            }
        }
    }
    Ok(None)
}

pub(super) fn remove_empty_tree(dir: &Path) {
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
