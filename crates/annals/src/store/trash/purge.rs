//! Empties the trash: the only operation of annals that removes files it did not create.
//!
//! A folder is first renamed, durably, to mark it for removal; from then on no session is found in
//! it. An interrupted purge leaves either the complete folder under its old name, or a marked one
//! that the next purge removes in any case.
//!
//! `finish_deletions` completes deletions that were interrupted after the last file was moved.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::store::Store;
use annals_jsonl as jsonl;
use annals_jsonl::Error as FileError;

use super::{Trash, TrashItem, manifest, restore};

/// Name prefix of folders marked for removal.
const PURGING_PREFIX: &str = ".purging-";

/// An item that can be removed from the trash.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Purgeable {
    /// Name of its folder in the trash.
    pub name: String,
    /// The deleted session; `None` for the rest of an interrupted purge.
    pub trashed: Option<TrashItem>,
    /// Number of files.
    pub files: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// A file that is still in its root because the deletion was interrupted. The session still
    /// exists there, and the files in the trash belong to it.
    pub unfinished: Option<PathBuf>,
}

impl Purgeable {
    /// Returns whether it was deleted before a time. Always true for the rest of a purge.
    pub fn is_older_than(&self, cutoff: Timestamp) -> bool {
        let trashed = self.trashed.as_ref();
        trashed.is_none_or(|trashed| trashed.deleted < cutoff)
    }
}

/// Contents of the trash.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct TrashContents {
    /// Items that can be removed, newest first.
    pub purgeable: Vec<Purgeable>,
    /// Reasons why other folders are kept.
    pub errors: Vec<Error>,
}

impl Trash<'_> {
    /// Lists everything in the trash.
    pub fn contents(&self) -> Result<TrashContents> {
        let trash = self.dir()?;
        let mut look = TrashContents::default();
        for (name, manifest) in self.manifests()? {
            let folder = trash.join(&name);
            match manifest {
                Ok(Some(manifest)) => {
                    look.purgeable
                        .push(measure(self.store, &folder, name, Some(manifest.trashed)));
                }
                Ok(None) => match jsonl::exists(&folder.join("files")) {
                    // A deletion that was interrupted at its start leaves a folder without files.
                    Ok(false) => {}
                    Ok(true) => look.errors.push(Error::refused(format!(
                        "{} has no manifest.json; check its contents and remove it by hand",
                        folder.display()
                    ))),
                    Err(error) => look.errors.push(error.into()),
                },
                Err(error) => look.errors.push(error),
            }
        }
        let folders = restore::folders(&trash)?.into_iter();
        for name in folders.filter(|name| name.starts_with(PURGING_PREFIX)) {
            look.purgeable
                .push(measure(self.store, &trash.join(&name), name, None));
        }
        Ok(look)
    }

    /// Removes an item from the trash permanently, if it has not changed since it was listed.
    pub fn purge(&self, item: &Purgeable) -> Result<()> {
        let trash = self.dir()?;
        let folder = trash.join(&item.name);
        let Some(looked) = &item.trashed else {
            if !item.name.starts_with(PURGING_PREFIX)
                || Path::new(&item.name).components().count() != 1
            {
                return Err(Error::refused(format!(
                    "{} is not marked for removal by a purge",
                    folder.display()
                )));
            }
            return remove(&folder);
        };
        let changed = || {
            Error::File(FileError::Changed {
                path: folder.clone(),
            })
        };
        let condemned = manifest::with_folder_lock(&folder, || {
            let now = manifest::Manifest::read(&folder)?.ok_or_else(changed)?;
            let same = now.trashed.deleted == looked.deleted
                && now.trashed.id == looked.id
                && now.trashed.session == looked.session;
            if !same {
                return Err(changed());
            }
            if let Some(left) = unfinished(&folder, &now.trashed)? {
                return Err(Error::refused(format!(
                    "the deletion of session {} was interrupted, and {} still exists; run {} again, or {}",
                    looked.session,
                    left.display(),
                    annals_layouts::text::quoted_command("annals delete", &looked.session, ""),
                    annals_layouts::text::quoted_command("annals delete --undo=", &looked.id, "")
                )));
            }
            let mut condemned = trash.join(format!("{PURGING_PREFIX}{}", item.name));
            let mut copy = 1;
            while jsonl::exists(&condemned)? {
                copy += 1;
                condemned = trash.join(format!("{PURGING_PREFIX}{}-{copy}", item.name));
            }
            jsonl::rename_dir(&folder, &condemned)?;
            Ok(condemned)
        })?;
        remove(&condemned)
    }

    /// Finishes deletions that were interrupted after their last file moved: removes empty
    /// directories and stale session list rows.
    pub(crate) fn finish_interrupted(&self) -> Result<()> {
        let trash = self.dir()?;
        for (name, manifest) in self.manifests()? {
            let folder = trash.join(&name);
            // A session list that another program changes or that cannot be written keeps stale
            // rows, which is harmless. Read failures are reported.
            if let Err(error @ Error::File(FileError::Io { .. })) =
                manifest.and_then(|it| finish(it, &folder))
            {
                self.store.failures.report(error);
            }
        }
        Ok(())
    }
}

/// Finishes a deletion that may have been interrupted.
fn finish(manifest: Option<manifest::Manifest>, folder: &Path) -> Result<()> {
    match manifest {
        Some(manifest) => {
            manifest.clear_stable_dirs(folder)?;
            if !manifest.trashed.rows.is_empty() {
                manifest::with_folder_lock(folder, || restore::remove_list_rows(folder))?;
            }
        }
        None if manifest::is_stable(folder) => {
            jsonl::clear_temp(&folder.join(manifest::MANIFEST))?;
            restore::remove_empty_tree(folder);
        }
        None => {}
    }
    Ok(())
}

/// Removes a directory and its contents. Links are removed, not followed.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", folder, error))
        }
        _ => Ok(()),
    }
}

/// Counts the files in a folder, without following links.
fn measure(store: &Store, folder: &Path, name: String, trashed: Option<TrashItem>) -> Purgeable {
    let failures = store.failures();
    let (mut files, mut bytes) = (0, 0);
    let mut pending = vec![match trashed {
        Some(_) => folder.join("files"),
        None => folder.to_owned(),
    }];
    while let Some(dir) = pending.pop() {
        for entry in failures.read_dir(&dir) {
            match failures.metadata(&entry.path()) {
                Some(metadata) if metadata.is_dir() => pending.push(entry.path()),
                Some(metadata) => {
                    files += 1;
                    bytes += metadata.len();
                }
                None => {}
            }
        }
    }
    Purgeable {
        name,
        unfinished: trashed
            .as_ref()
            .and_then(|trashed| failures.ok(unfinished(folder, trashed))?),
        trashed,
        files,
        bytes,
    }
}

/// Returns the first file of a deletion that was never moved. A file in both places was restored by
/// another program.
fn unfinished(folder: &Path, trashed: &TrashItem) -> Result<Option<PathBuf>> {
    for file in &trashed.files {
        let place = trashed.root.join(&file.path);
        let here = folder.join("files").join(&file.path);
        if !jsonl::exists(&here)? && jsonl::exists(&place)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn finish_interrupted_removes_only_old_folders_without_manifest() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(Vec::new()).with_state(dir.path());
        let trash = store.trash().dir().unwrap();
        let folder = |name: &str, manifest: Option<&str>, settled: bool| {
            let folder = trash.join(name);
            fs::create_dir_all(folder.join("files")).unwrap();
            if let Some(text) = manifest {
                fs::write(folder.join(manifest::MANIFEST), text).unwrap();
            }
            if settled {
                let long_ago = SystemTime::now() - Duration::from_secs(3_600);
                let handle = fs::File::open(&folder).unwrap();
                handle.set_modified(long_ago).unwrap();
            }
            folder.join("files")
        };
        let begun = folder("begun", None, false);
        let cut_off = folder("cut-off", None, true);
        let damaged = folder("damaged", Some("{"), true);
        store.trash().finish_interrupted().unwrap();
        let there = [&begun, &cut_off, &damaged].map(|it| it.exists());
        assert_eq!(there, [true, false, true]);
    }
}
