//! Empties the trash: the only operation of annals that removes files it did not create.
//!
//! `finish_interrupted` completes deletions that were interrupted after the last file was moved.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::store::Store;
use crate::undo::{Manifest, is_stable};
use annals_jsonl as jsonl;
use annals_jsonl::Error as FileError;

use super::{Trash, TrashItem, dirs, restore};

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
        let mut look = TrashContents::default();
        for (folder, manifest) in self.manifests()? {
            match manifest {
                Ok(Some(manifest)) => {
                    let name = manifest.id.clone();
                    let measured = measure(self.store, &folder, name, Some(manifest));
                    look.purgeable.push(measured);
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
        for (name, folder) in self.vault()?.purging()? {
            look.purgeable
                .push(measure(self.store, &folder, name, None));
        }
        Ok(look)
    }

    /// Removes an item from the trash permanently, if it has not changed since it was listed.
    pub fn purge(&self, item: &Purgeable) -> Result<()> {
        let vault = self.vault()?;
        let Some(looked) = &item.trashed else {
            return vault.remove_purging(&item.name);
        };
        vault.remove(&item.name, |folder, now| {
            let same = now.time == looked.deleted
                && now.repair.is_none()
                && now.sessions.iter().eq(looked.sessions());
            if !same {
                return Err(Error::File(FileError::Changed {
                    path: folder.to_owned(),
                }));
            }
            match unfinished(folder, now)? {
                None => Ok(()),
                Some(left) => Err(Error::refused(format!(
                    "the deletion of session {} was interrupted, and {} still exists; run {} again, or {}",
                    looked.session,
                    left.display(),
                    annals_layouts::text::quoted_command("annals delete", &looked.session, ""),
                    annals_layouts::text::quoted_command("annals delete --undo=", &looked.id, "")
                ))),
            }
        })
    }

    /// Finishes deletions that were interrupted after their last file moved: removes empty
    /// directories and stale session list rows.
    pub(crate) fn finish_interrupted(&self) -> Result<()> {
        let vault = self.vault()?;
        vault.sweep()?;
        for (folder, manifest) in self.manifests()? {
            let finished = manifest.and_then(|manifest| {
                let Some(manifest) = manifest else {
                    return Ok(());
                };
                dirs::clear(&manifest, &folder, is_stable)?;
                match manifest.rows.is_empty() {
                    true => Ok(()),
                    false => vault
                        .with_lock(&manifest.id, restore::remove_list_rows)
                        .map(drop),
                }
            });
            // A session list that another program changes or that cannot be written keeps stale
            // rows, which is harmless. Read failures are reported.
            if let Err(error @ Error::File(FileError::Io { .. })) = finished {
                self.store.failures.report(error);
            }
        }
        Ok(())
    }
}

/// Counts the files in a folder, without following links.
fn measure(store: &Store, folder: &Path, name: String, manifest: Option<Manifest>) -> Purgeable {
    let failures = store.failures();
    let (mut files, mut bytes) = (0, 0);
    let mut pending = vec![match manifest {
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
        unfinished: manifest
            .as_ref()
            .and_then(|manifest| failures.ok(unfinished(folder, manifest))?),
        trashed: manifest.map(TrashItem::from),
        files,
        bytes,
    }
}

/// Returns the first file of a deletion that was never moved. A file in both places was restored by
/// another program.
fn unfinished(folder: &Path, manifest: &Manifest) -> Result<Option<PathBuf>> {
    for file in &manifest.files {
        let place = manifest.root.join(&file.path);
        let here = folder.join("files").join(&file.path);
        if !jsonl::exists(&here)? && jsonl::exists(&place)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}
