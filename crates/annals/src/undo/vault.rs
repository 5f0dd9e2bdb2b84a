//! The folders of the vault: creates, locks, lists and removes them.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::manifest::{MANIFEST, Manifest};
use crate::error::{Error, Result};
use annals_jsonl as jsonl;
use annals_jsonl::Error as FileError;

/// Name prefix of folders that are being removed.
const PURGING_PREFIX: &str = ".purging-";

/// Time within which a program that creates a directory puts a file into it.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// The directory of all changes that can be undone.
#[derive(Debug)]
pub(crate) struct Vault {
    dir: PathBuf,
}

impl Vault {
    /// Opens the vault of a state directory, which may not exist yet. Fails if it is a link: the
    /// target belongs to someone else.
    pub(crate) fn open(state: Option<&Path>) -> Result<Self> {
        let Some(state) = state else {
            return Err(Error::refused(
                "there is no state directory for deleted and repaired files",
            ));
        };
        let dir = state.join("undo");
        match jsonl::metadata_if_exists(&dir)? {
            Some(metadata) if !metadata.is_dir() => Err(Error::refused(format!(
                "{} is not a directory; it must be a directory and not a link",
                dir.display()
            ))),
            _ => Ok(Vault { dir }),
        }
    }

    /// Returns the directory of all folders.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the folder of a change. Fails if the id is not a plain name.
    pub(crate) fn folder(&self, id: &str) -> Result<PathBuf> {
        let mut parts = Path::new(id).components();
        let plain = matches!(parts.next(), Some(Component::Normal(name)) if name == id);
        match plain && parts.next().is_none() && !id.starts_with('.') {
            true => Ok(self.dir.join(id)),
            false => Err(Error::refused(format!("`{id}` is not a valid id"))),
        }
    }

    /// Returns the folders with their manifests, the latest name first.
    pub(crate) fn manifests(&self) -> Result<Vec<(PathBuf, Result<Option<Manifest>>)>> {
        let mut folders = self.folders()?;
        folders.retain(|(name, _)| !name.starts_with('.'));
        let folders = folders.into_iter().rev();
        let read = folders.map(|(_, folder)| {
            let manifest = Manifest::read(&folder);
            (folder, manifest)
        });
        Ok(read.collect())
    }

    /// Returns the folders that an interrupted purge left.
    pub(crate) fn purging(&self) -> Result<Vec<(String, PathBuf)>> {
        let mut folders = self.folders()?;
        folders.retain(|(name, _)| name.starts_with(PURGING_PREFIX));
        Ok(folders)
    }

    /// Returns all folders, sorted by name; none if there is no vault.
    fn folders(&self) -> Result<Vec<(String, PathBuf)>> {
        let failed = |error| Error::io("read", &self.dir, error);
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            // Skip links: their targets are not part of the vault.
            if entry.file_type().map_err(failed)?.is_dir()
                && let Ok(name) = entry.file_name().into_string()
            {
                found.push((name, entry.path()));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns an id that no folder has: `id`, or else `id-2` and so on.
    pub(crate) fn unused_id(&self, id: &str) -> Result<String> {
        let taken = |id: &str| jsonl::exists(&self.folder(id)?).map_err(Error::from);
        first_free(id, taken)
    }

    /// Writes the manifest of a change, durably, and runs `work` with its folder locked. The folder
    /// must be new, unless an interrupted run of the same change left it.
    pub(crate) fn begin<T>(
        &self,
        manifest: &Manifest,
        work: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        let folder = self.folder(&manifest.id)?;
        jsonl::ensure_dir(&folder)?;
        jsonl::with_document_lock(&folder.join(MANIFEST), || {
            let left = Manifest::read(&folder)?;
            if left.is_some_and(|left| !manifest.is_same_repair(&left)) {
                return Err(Error::refused(format!(
                    "{} belongs to another change",
                    folder.display()
                )));
            }
            manifest.write_locked(&folder)?;
            work(&folder)
        })
    }

    /// Runs `work` with the manifest of a change while no other annals process changes its folder.
    /// Fails with [`Changed`](FileError::Changed) if the folder is missing or has no manifest.
    pub(crate) fn with_lock<T>(
        &self,
        id: &str,
        work: impl FnOnce(&Path, Manifest) -> Result<T>,
    ) -> Result<T> {
        let folder = self.folder(id)?;
        let gone = || {
            Error::File(FileError::Changed {
                path: folder.clone(),
            })
        };
        if !jsonl::metadata_if_exists(&folder)?.is_some_and(|it| it.is_dir()) {
            return Err(gone());
        }
        jsonl::with_document_lock(&folder.join(MANIFEST), || {
            // The previous holder of the lock may have restored or removed it.
            work(&folder, Manifest::read(&folder)?.ok_or_else(gone)?)
        })
    }

    /// Removes a change permanently, if `check` succeeds under the folder's lock.
    ///
    /// The folder is renamed first: an interrupted removal leaves either the complete folder, or one
    /// that no longer counts and is removed by the next purge or sweep.
    pub(crate) fn remove(
        &self,
        id: &str,
        check: impl FnOnce(&Path, &Manifest) -> Result<()>,
    ) -> Result<()> {
        let condemned = self.with_lock(id, |folder, manifest| {
            check(folder, &manifest)?;
            let name = format!("{PURGING_PREFIX}{id}");
            let name = first_free(&name, |name| Ok(jsonl::exists(&self.dir.join(name))?))?;
            let condemned = self.dir.join(name);
            jsonl::rename_dir(folder, &condemned)?;
            Ok(condemned)
        })?;
        remove_tree(&condemned)
    }

    /// Removes what an interrupted purge left.
    pub(crate) fn remove_purging(&self, name: &str) -> Result<()> {
        let folder = self.dir.join(name);
        match name.starts_with(PURGING_PREFIX) && Path::new(name).components().count() == 1 {
            true => remove_tree(&folder),
            false => Err(Error::refused(format!(
                "{} is not marked for removal by a purge",
                folder.display()
            ))),
        }
    }

    /// Removes what killed processes left: folders that were being removed, and folders in which
    /// nothing was put.
    pub(crate) fn sweep(&self) -> Result<()> {
        for (_, folder) in self.purging()? {
            remove_tree(&folder)?;
        }
        for (folder, manifest) in self.manifests()? {
            if matches!(manifest, Ok(None)) && is_stable(&folder) {
                jsonl::clear_temp(&folder.join(MANIFEST))?;
                remove_empty_tree(&folder);
            }
        }
        Ok(())
    }
}

/// Returns `name`, or else `name-2`, `name-3` and so on, whichever is not taken.
fn first_free(name: &str, taken: impl Fn(&str) -> Result<bool>) -> Result<String> {
    let mut free = name.to_owned();
    let mut copy = 1;
    while taken(&free)? {
        copy += 1;
        free = format!("{name}-{copy}");
    }
    Ok(free)
}

/// Returns whether a directory has not changed recently.
pub(crate) fn is_stable(dir: &Path) -> bool {
    let modified = dir.symlink_metadata().and_then(|it| it.modified());
    let age = modified.ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age > STABLE_AFTER)
}

/// Removes a directory and its contents. Links are removed, not followed.
fn remove_tree(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", folder, error))
        }
        _ => Ok(()),
    }
}

/// Removes a directory with its directories, as far as they are empty.
pub(crate) fn remove_empty_tree(dir: &Path) {
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::UndoVerb;
    use super::*;

    fn vault() -> (tempfile::TempDir, Vault) {
        let dir = tempfile::tempdir().unwrap();
        let vault = Vault::open(Some(dir.path())).unwrap();
        (dir, vault)
    }

    fn manifest(id: &str) -> Manifest {
        let time = jiff::Timestamp::UNIX_EPOCH;
        Manifest::new(
            id.to_owned(),
            UndoVerb::Delete,
            time,
            "clog",
            Path::new("/r"),
        )
    }

    #[test]
    fn a_folder_that_cannot_be_looked_at_is_not_one_that_is_gone() {
        let (_dir, vault) = vault();
        fs::create_dir(&vault.dir).unwrap();
        let error_of = |id: &str| vault.with_lock(id, |_, _| Ok(())).unwrap_err();
        assert!(matches!(
            error_of("gone"),
            Error::File(FileError::Changed { .. })
        ));
        let failed = error_of(&"x".repeat(300));
        assert!(
            matches!(failed, Error::File(FileError::Io { .. })),
            "{failed}"
        );
    }

    #[test]
    fn ids_that_lead_elsewhere_are_refused() {
        let (_dir, vault) = vault();
        for id in ["", ".", "..", "../x", "a/b", "/x", ".purging-x", "a/"] {
            assert!(vault.folder(id).is_err(), "{id}");
        }
        assert!(vault.folder("20260301T100000-x.y").is_ok());
    }

    #[test]
    fn begin_writes_the_manifest_first_and_refuses_a_folder_of_another_change() {
        let (_dir, vault) = vault();
        let written = vault.begin(&manifest("x"), Manifest::read);
        assert_eq!(written.unwrap().unwrap().id, "x");
        let error = vault.begin(&manifest("x"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("another change"), "{error}");
        assert_eq!(vault.unused_id("x").unwrap(), "x-2");
    }

    #[test]
    fn remove_leaves_a_folder_that_the_check_refuses() {
        let (_dir, vault) = vault();
        vault.begin(&manifest("x"), |_| Ok(())).unwrap();
        vault
            .remove("x", |_, _| Err(Error::refused("no")))
            .unwrap_err();
        assert_eq!(vault.manifests().unwrap().len(), 1);
        vault.remove("x", |_, _| Ok(())).unwrap();
        assert!(vault.folders().unwrap().is_empty());
    }

    #[test]
    fn sweep_removes_only_purged_folders_and_old_empty_ones() {
        let (_dir, vault) = vault();
        let folder = |name: &str, text: Option<&str>, old: bool| {
            let folder = vault.dir.join(name);
            fs::create_dir_all(folder.join("files")).unwrap();
            if let Some(text) = text {
                fs::write(folder.join(MANIFEST), text).unwrap();
            }
            if old {
                let long_ago = SystemTime::now() - Duration::from_secs(3_600);
                let handle = fs::File::open(&folder).unwrap();
                handle.set_modified(long_ago).unwrap();
            }
            folder.join("files")
        };
        let begun = folder("begun", None, false);
        let cut_off = folder("cut-off", None, true);
        let filled = folder("filled", None, true);
        fs::write(filled.join("log"), "x").unwrap();
        let damaged = folder("damaged", Some("{"), true);
        let purging = folder(".purging-x", Some("{}"), false);
        vault.sweep().unwrap();
        let there = [&begun, &cut_off, &filled, &damaged, &purging].map(|it| it.exists());
        assert_eq!(there, [true, false, true, true, false]);
    }
}
