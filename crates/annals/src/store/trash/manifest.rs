//! Manifest of a trash folder: `manifest.json`.
//!
//! It is versioned, and docs/STATE.md documents each field. Paths in it are never trusted: see
//! `restore.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::store::inventory::SessionFiles;
use crate::store::root::{Root, ensure_beneath};
use annals_jsonl as jsonl;
use annals_jsonl::Error as FileError;
use annals_layouts::json::describe_json_error;

use super::{TrashItem, TrashedRow};

pub(super) const MANIFEST: &str = "manifest.json";

/// Version that is written. The first manifests had no version member and were otherwise the same.
const VERSION: u32 = 1;

/// Time within which a program that creates a directory puts a file into it.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// Content of `manifest.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    #[serde(default = "first")]
    version: u32,
    #[serde(flatten)]
    pub(super) trashed: TrashItem,
    /// Directories of the files, parents first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) dirs: Vec<TrashedDir>,
}

/// Directory of a deleted session's files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TrashedDir {
    /// Path, relative to the root.
    path: PathBuf,
    /// Permission bits.
    mode: u32,
}

fn first() -> u32 {
    1
}

impl Manifest {
    pub(super) fn new(trashed: TrashItem, dirs: Vec<TrashedDir>) -> Self {
        Manifest {
            version: VERSION,
            trashed,
            dirs,
        }
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        Ok(jsonl::create_new(
            &folder.join(MANIFEST),
            &self.to_bytes()?,
        )?)
    }

    /// Replaces the saved session list rows of a log. The caller must hold the folder's lock.
    pub(super) fn save_rows(&mut self, folder: &Path, log: &Path, rows: &[String]) -> Result<()> {
        let known = &mut self.trashed.rows;
        let same = known.iter().filter(|row| row.path == log);
        if rows.is_empty() || same.map(|row| &row.text).eq(rows) {
            return Ok(());
        }
        known.retain(|row| row.path != log);
        known.extend(rows.iter().map(|text| TrashedRow {
            path: log.to_owned(),
            text: text.clone(),
        }));
        Ok(jsonl::replace_locked(
            &folder.join(MANIFEST),
            &self.to_bytes()?,
        )?)
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(|error| Error::refused(error.to_string()))
    }

    /// Reads the manifest of a folder; `None` if it has none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Version {
            #[serde(default = "first")]
            version: u32,
        }
        let path = folder.join(MANIFEST);
        let refused = |why: String| Error::refused(format!("{} {why}", path.display()));
        match path.symlink_metadata() {
            Ok(metadata) if !metadata.is_file() => return Err(refused("is not a file".to_owned())),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &path, error)),
        }
        let bytes = jsonl::read_document(&path).map_err(|error| Error::io("read", &path, error))?;
        let damaged = |error: serde_json::Error| {
            refused(format!("cannot be read: {}", describe_json_error(&error)))
        };
        // A newer version may have entirely different members.
        let Version { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if version != VERSION {
            return Err(refused(format!(
                "has version {version}, but this annals supports only version {VERSION}; use the annals that wrote it"
            )));
        }
        let mut manifest: Manifest = serde_json::from_slice(&bytes).map_err(damaged)?;
        // The folder's name takes precedence: it cannot lead out of the trash.
        let name = folder.file_name().and_then(|name| name.to_str());
        manifest.trashed.id = name.unwrap_or_default().to_owned();
        Ok(Some(manifest))
    }

    /// Returns whether a path is a file of a folder that was deleted as a whole.
    pub(super) fn is_left_over(&self, root: &Root, file: &Path) -> bool {
        self.trashed.is_folder() && file.parent().is_some_and(|dir| is_removable(root, dir))
    }

    /// Recreates the directories that were removed with the session, with their permissions.
    pub(super) fn make_dirs(&self, root: &Root) -> Result<()> {
        for dir in &self.dirs {
            let path = root.path.join(&dir.path);
            if !is_removable(root, &dir.path) || jsonl::exists(&path)? {
                continue;
            }
            root.ensure_inside(&path)?;
            jsonl::ensure_dir(&path)?;
            let mode = fs::Permissions::from_mode(dir.mode & 0o777 | 0o700);
            fs::set_permissions(&path, mode).map_err(|error| Error::io("create", &path, error))?;
        }
        Ok(())
    }

    /// Removes empty directories, if all files are in the trash.
    pub(super) fn clear_dirs(&self, folder: &Path) -> Result<()> {
        self.clear_dirs_if(folder, |_| true)
    }

    /// Like `clear_dirs`, some time later. Skips directories that a program may be about to use.
    pub(super) fn clear_stable_dirs(&self, folder: &Path) -> Result<()> {
        self.clear_dirs_if(folder, is_stable)
    }

    fn clear_dirs_if(&self, folder: &Path, wanted: impl Fn(&Path) -> bool) -> Result<()> {
        let TrashItem { root, files, .. } = &self.trashed;
        let Ok(root) = Root::new(&self.trashed.layout, root) else {
            return Ok(());
        };
        for file in files {
            if !jsonl::exists(&folder.join("files").join(&file.path))? {
                return Ok(());
            }
        }
        for dir in self.dirs.iter().rev() {
            let path = root.path.join(&dir.path);
            let ours = is_removable(&root, &dir.path) && is_beneath(&root.path, &path)?;
            if ours && wanted(&path) {
                // Fails if the directory is not empty.
                let _ = fs::remove_dir(path);
            }
        }
        Ok(())
    }
}

/// Returns whether a directory has not changed recently.
pub(super) fn is_stable(dir: &Path) -> bool {
    let modified = dir.symlink_metadata().and_then(|it| it.modified());
    let age = modified.ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age > STABLE_AFTER)
}

/// Returns whether a path is below `base` and passes through no symbolic link.
fn is_beneath(base: &Path, path: &Path) -> Result<bool> {
    match ensure_beneath(base, path) {
        Err(error @ Error::File(FileError::Io { .. })) => Err(error),
        leads => Ok(leads.is_ok()),
    }
}

/// Returns whether a directory may be removed: neither the root nor directly in it.
fn is_removable(root: &Root, dir: &Path) -> bool {
    let mut parts = dir.components();
    let plain = parts.all(|part| matches!(part, Component::Normal(_)));
    plain && dir.components().count() > 1 && root.layout.may_hold_files(dir)
}

/// Returns the directories of a deletion's files, and empty ones named after a session, parents
/// first.
pub(super) fn directories<'a>(
    plan: &TrashItem,
    sessions: impl Iterator<Item = &'a SessionFiles>,
) -> Result<Vec<TrashedDir>> {
    let mut dirs: BTreeSet<PathBuf> = BTreeSet::new();
    // A session without a log has the directory that its log would be in.
    let files = plan.files.iter().map(|file| &file.path);
    for path in files.chain(plan.rows.iter().map(|row| &row.path)) {
        let above = path.ancestors().skip(1);
        dirs.extend(
            above
                .filter(|dir| dir.components().count() > 1)
                .map(Path::to_owned),
        );
    }
    for own in sessions.flat_map(SessionFiles::own_dirs) {
        let own = plan.root.join(own);
        let ours = is_beneath(&plan.root, &own)?;
        let mut pending: Vec<PathBuf> = ours.then_some(own).into_iter().collect();
        while let Some(dir) = pending.pop() {
            let failed = |error| Error::io("read", &dir, error);
            let entries = match fs::read_dir(&dir) {
                Ok(entries) => entries,
                Err(error) if jsonl::is_absence(&error) => continue,
                Err(error) => return Err(failed(error)),
            };
            for entry in entries {
                let entry = entry.map_err(failed)?;
                if entry.file_type().map_err(failed)?.is_dir() {
                    pending.push(entry.path());
                }
            }
            let relative = dir.strip_prefix(&plan.root);
            dirs.extend(relative.map(Path::to_owned));
        }
    }
    let mut found = Vec::with_capacity(dirs.len());
    // Path order puts parents first.
    for path in dirs {
        let metadata = jsonl::metadata_if_exists(&plan.root.join(&path))?;
        if let Some(metadata) = metadata.filter(fs::Metadata::is_dir) {
            let mode = metadata.mode() & 0o777;
            found.push(TrashedDir { path, mode });
        }
    }
    Ok(found)
}

/// Runs `work` while no other annals process changes a trash folder. Fails if the folder is
/// missing.
pub(super) fn with_folder_lock<T>(folder: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let manifest = folder.join(MANIFEST);
    let gone = || {
        Error::File(FileError::Changed {
            path: folder.to_owned(),
        })
    };
    if !jsonl::metadata_if_exists(folder)?.is_some_and(|it| it.is_dir()) {
        return Err(gone());
    }
    jsonl::with_document_lock(&manifest, || {
        // The previous holder of the lock may have restored or removed the folder.
        match jsonl::exists(&manifest)? {
            true => work(),
            false => Err(gone()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_folder_is_an_error_not_a_missing_manifest() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Manifest::read(dir.path()).unwrap().is_none());
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Manifest::read(&file).is_err());
    }

    #[test]
    fn a_folder_that_cannot_be_looked_at_is_not_one_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let error_of =
            |folder: &str| with_folder_lock(&dir.path().join(folder), || Ok(())).unwrap_err();
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
    fn clear_dirs_removes_only_directories_inside_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::claude_code(dir.path().join("root"));
        for sound in ["projects/-app", "projects/-app/s"] {
            assert!(is_removable(&root, Path::new(sound)), "{sound}");
        }
        for other in [
            "",
            "projects",
            "elsewhere/deep",
            "../projects/-app",
            "projects/..",
        ] {
            assert!(!is_removable(&root, Path::new(other)), "{other}");
        }
        let outside = dir.path().join("outside");
        let dirs = ["projects/-app", "todos", "elsewhere/deep"];
        for path in dirs {
            fs::create_dir_all(root.path.join(path)).unwrap();
        }
        fs::create_dir_all(outside.join("empty")).unwrap();
        std::os::unix::fs::symlink(&outside, root.path.join("projects/link")).unwrap();
        let wanted = [
            "projects/-app",
            "projects/link/empty",
            "todos",
            "elsewhere/deep",
        ];
        let manifest = serde_json::json!({
            "version": 1,
            "id": "x",
            "session": "s",
            "layout": "claude-code",
            "root": root.path,
            "deleted": "2026-11-15T12:00:00Z",
            "files": [],
            "dirs": wanted.map(|path| serde_json::json!({"path": path, "mode": 0o700})),
        });
        let manifest: Manifest = serde_json::from_value(manifest).unwrap();
        manifest.clear_dirs(&dir.path().join("folder")).unwrap();
        let there = wanted.map(|path| root.path.join(path).exists());
        assert_eq!(there, [false, true, true, true]);
    }
}
