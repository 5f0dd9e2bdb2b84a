//! Puts deleted sessions back.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::jsonl;
use crate::model::SessionId;
use crate::store::root::{ensure_beneath, is_plain_log};
use crate::store::{Root, Store, session_list};

use super::TrashItem;
use super::manifest::{self, MANIFEST, Manifest};

impl Store {
    /// What lies in the trash, the newest first. What cannot be read there is reported to
    /// [`Store::failures`].
    pub fn trash_items(&self) -> Result<Vec<TrashItem>> {
        let found = self.manifests()?.into_iter();
        let found = found.filter_map(|(_, manifest)| Some(self.failures.ok(manifest)??.trashed));
        Ok(found.collect())
    }

    /// The folders of the trash with their manifests, the newest first.
    pub(super) fn manifests(&self) -> Result<Vec<(String, Result<Option<Manifest>>)>> {
        let trash = self.trash_dir()?;
        let names = folders(&trash)?.into_iter();
        let names = names.rev().filter(|name| !name.starts_with('.'));
        let read = |name: String| {
            let manifest = Manifest::read(&trash.join(&name));
            (name, manifest)
        };
        Ok(names.map(read).collect())
    }

    /// Puts a deleted session back where it was. A file that is there again stays as it is, and so
    /// does its copy in the trash.
    pub fn undelete(&self, id: &str) -> Result<TrashItem> {
        let fits = |trashed: &TrashItem| {
            // Some ids begin with a time, and are called by what follows it.
            let called = |session: &str| {
                SessionId::new(session).is_ok_and(|session| session.name().starts_with(id))
            };
            let named = |session: &str| session.starts_with(id) || called(session);
            trashed.id == id || (!id.is_empty() && trashed.sessions().any(named))
        };
        let mut found: Vec<TrashItem> = self.trash_items()?.into_iter().filter(fits).collect();
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
        let Some(trashed) = found.pop() else {
            return Err(self.why_missing(id)?);
        };
        let folder = self.trash_dir()?.join(&trashed.id);
        manifest::with_folder_lock(&folder, || self.restore_folder(&folder))
    }

    /// Why a deleted session is not found: there may be one that we cannot read.
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
        let gone = || Error::Changed {
            path: folder.to_owned(),
        };
        let manifest = Manifest::read(folder)?.ok_or_else(gone)?;
        let trashed = &manifest.trashed;
        let root = Root::new(&trashed.layout, &trashed.root)?;
        if !trashed.lone {
            manifest.make_dirs(&root)?;
        }
        let mut kept = Vec::new();
        for file in &trashed.files {
            // The manifest is ours, but a path in it must still not lead anywhere else.
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
            // Of a deletion that was cut off.
            jsonl::clear_temp(&from)?;
            if !jsonl::exists(&from)? {
                // An earlier attempt brought it back.
                continue;
            }
            root.ensure_inside(&to)?;
            match jsonl::move_file(&from, &to) {
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
        // Without its manifest nothing finds what lies in the folder.
        if let Some(left) = first_file(&folder.join("files"))? {
            return Err(Error::refused(format!(
                "{} is left in the trash, and {MANIFEST} does not list it; everything else was put back",
                left.display()
            )));
        }
        restore_list_rows(&root, trashed)?;
        for entry in &trashed.config {
            self.restore_config_entry(&root, entry, trashed)?;
        }
        fs::remove_file(folder.join(MANIFEST))
            .map_err(|error| Error::io("remove", folder, error))?;
        remove_empty_tree(folder);
        Ok(manifest.trashed)
    }

    /// Where the files of a deleted session lie, under their paths within the root.
    pub(in crate::store) fn trashed_files_dir(&self, trashed: &TrashItem) -> Result<PathBuf> {
        Ok(self.trash_dir()?.join(&trashed.id).join("files"))
    }

    /// Whether what lies in the trash several times is parts of one session: no file is there twice.
    fn is_one_deletion(&self, found: &[TrashItem]) -> Result<bool> {
        let same = |trashed: &TrashItem| {
            found.first().is_some_and(|first| {
                first.session == trashed.session
                    && first.layout == trashed.layout
                    && first.root == trashed.root
            })
        };
        // The one that was cut off meant to move all that the later ones did.
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
        let mut seen = HashSet::new();
        for trashed in found {
            let folder = self.trashed_files_dir(trashed)?;
            for file in &trashed.files {
                if jsonl::exists(&folder.join(&file.path))? && !seen.insert(&file.path) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// The names of the folders of the trash, the oldest first; none where there is no trash.
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
        // What is behind a link is not ours.
        if entry.file_type().map_err(failed)?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    Ok(names)
}

/// Puts back what registers said about logs that are there again.
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
    // A session that had no log when it was deleted is its row.
    let moved = |path: &PathBuf| trashed.files.iter().any(|file| file.path == *path);
    let unwritten = trashed.rows.iter().filter(|row| !moved(&row.path));
    let unwritten = unwritten.filter_map(|row| {
        let log = root.layout.classify(&row.path)?;
        let listed = log.kind.is_conversation();
        listed.then(|| (log, Some(row.text.clone())))
    });
    session_list::relist(root, writer, logs.chain(unwritten))
}

/// Takes out of registers what they say about the logs in a folder of the trash, and keeps that in its
/// manifest. The folder's lock is held.
pub(super) fn remove_list_rows(folder: &Path) -> Result<TrashItem> {
    let gone = || Error::Changed {
        path: folder.to_owned(),
    };
    let mut manifest = Manifest::read(folder)?.ok_or_else(gone)?;
    let root = Root::new(&manifest.trashed.layout, &manifest.trashed.root)?;
    let Some(writer) = root.layout.writer().filter(|_| !manifest.trashed.lone) else {
        return Ok(manifest.trashed);
    };
    let files = manifest.trashed.files.iter().map(|file| &file.path);
    // A session that had no log when it was deleted is its row.
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

/// The first file below a directory, or anything else that is no directory.
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
