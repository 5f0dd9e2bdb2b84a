//! Directories of deleted files: removed when they become empty, and created again on restore.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::root::{Root, ensure_beneath};
use crate::store::inventory::SessionFiles;
use crate::undo::{Manifest, UndoDir};
use annals_jsonl as jsonl;
use annals_jsonl::Error as FileError;

/// Creates the directories that were removed with the files, with their permissions.
pub(super) fn make(manifest: &Manifest, root: &Root) -> Result<()> {
    for dir in &manifest.dirs {
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

/// Removes the empty directories among those that are `wanted`, if all files are in the vault.
pub(super) fn clear(
    manifest: &Manifest,
    folder: &Path,
    wanted: impl Fn(&Path) -> bool,
) -> Result<()> {
    let Ok(root) = Root::new(&manifest.layout, &manifest.root) else {
        return Ok(());
    };
    for file in &manifest.files {
        if !jsonl::exists(&folder.join("files").join(&file.path))? {
            return Ok(());
        }
    }
    for dir in manifest.dirs.iter().rev() {
        let path = root.path.join(&dir.path);
        let ours = is_removable(&root, &dir.path) && is_beneath(&root.path, &path)?;
        if ours && wanted(&path) {
            // Fails if the directory is not empty.
            let _ = fs::remove_dir(path);
        }
    }
    Ok(())
}

/// Returns whether a path is a file of a folder that was deleted as a whole.
pub(super) fn is_left_over(root: &Root, file: &Path) -> bool {
    file.parent().is_some_and(|dir| is_removable(root, dir))
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
pub(super) fn directories(plan: &Manifest, sessions: &[&SessionFiles]) -> Result<Vec<UndoDir>> {
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
    for own in sessions.iter().flat_map(|files| files.own_dirs()) {
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
            found.push(UndoDir { path, mode });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::UndoVerb;

    #[test]
    fn clear_removes_only_directories_inside_the_root() {
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
        let time = jiff::Timestamp::UNIX_EPOCH;
        let manifest = Manifest {
            dirs: Vec::from(wanted.map(|path| UndoDir {
                path: PathBuf::from(path),
                mode: 0o700,
            })),
            ..Manifest::new(
                "x".to_owned(),
                UndoVerb::Delete,
                time,
                "claude-code",
                &root.path,
            )
        };
        clear(&manifest, &dir.path().join("folder"), |_| true).unwrap();
        let there = wanted.map(|path| root.path.join(path).exists());
        assert_eq!(there, [false, true, true, true]);
    }
}
