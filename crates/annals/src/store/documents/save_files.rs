//! Saves versions of files, so that they can be restored after an agent changed them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use annals_jsonl as jsonl;
use annals_layouts::model::{Artifact, ArtifactKind, Body, Draft, EntryId, FileBackup, FileChange};

use super::Documents;
use crate::store::inventory::SessionFiles;
use crate::store::writer::create_parent_dirs;
use crate::store::{Session, WriteOptions};

/// Size of the largest file that is saved, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// A newly saved version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewSavedVersion {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Number of the version.
    pub version: u64,
    /// Path of the copy; `None` if the file does not exist, which is a version too.
    pub stored: Option<PathBuf>,
}

impl Documents<'_> {
    /// Saves the current content of files as versions that belong to the session's last message.
    ///
    /// Writes the copies first, then one record with the newest versions of these and all
    /// previously saved files. A path given twice is saved once. Fails if the layout has no file
    /// versions, and for symbolic links: the target has its own name.
    pub fn save_files(
        &self,
        files: &SessionFiles,
        paths: &[PathBuf],
        options: WriteOptions,
    ) -> Result<Vec<NewSavedVersion>> {
        let session = Session::read(files.clone())?;
        let root = session.root().clone();
        let probe = Artifact {
            session: Some(files.id.clone()),
            name: Some("0@v1".to_owned()),
            ..Artifact::new(ArtifactKind::FileVersion)
        };
        let place = root.layout.path_for(&probe);
        if files.is_lone() || root.layout.classify(&place).as_ref() != Some(&probe) {
            return Err(Error::refused(format!(
                "the layout {} does not store file versions",
                root.layout.name()
            )));
        }
        let writer = self.store.open_writer(files, options)?;
        let Some(message) = writer.leaf() else {
            return Err(Error::refused(format!(
                "session {} has no message yet to attach a version to",
                files.id
            )));
        };
        let mut tracked = newest_versions(&session)?;
        let cwd = session.directories().last().map(|path| (*path).to_owned());
        let now = options.now.unwrap_or_else(jiff::Timestamp::now);
        let mut saved = Vec::new();
        let paths = absolute_paths(paths)?;
        // Check all files first: copy either all or none.
        for path in &paths {
            size(path)?;
        }
        for path in paths {
            let spelled = path.to_str().ok_or_else(|| {
                Error::refused(format!(
                    "{} is not UTF-8, so it cannot be stored in a record",
                    path.display()
                ))
            })?;
            let version = tracked.get(spelled).map_or(0, |known| known.version) + 1;
            let digest = format!("{:x}", Sha256::digest(spelled.as_bytes()));
            let name = format!("{}@v{version}", digest.get(..16).unwrap_or(&digest));
            let stored = match read_optional(&path)? {
                None => None,
                Some(bytes) => {
                    let artifact = Artifact {
                        session: Some(files.id.clone()),
                        name: Some(name.clone()),
                        ..Artifact::new(ArtifactKind::FileVersion)
                    };
                    let copy = root.locate(&artifact)?;
                    create_parent_dirs(&root, &copy)?;
                    // A copy left by a crash before its record was written is not a version.
                    jsonl::replace(&copy, &bytes, None)?;
                    Some(copy)
                }
            };
            let backup = FileBackup {
                path: relative_path(spelled, cwd.as_deref()),
                base: None,
                version,
                stored: stored.as_ref().map(|_| name),
                time: Some(now),
                operation: None,
                snippet: None,
            };
            tracked.insert(spelled.to_owned(), backup);
            saved.push(NewSavedVersion {
                path,
                version,
                stored,
            });
        }
        let change = FileChange {
            message: Some(EntryId::new(message.as_str())),
            backups: tracked.into_values().collect(),
        };
        writer.append_all(vec![Draft::new(Body::Files(change))])?;
        Ok(saved)
    }
}

/// Returns the newest version of each file that the session saved, by absolute path.
fn newest_versions(session: &Session) -> Result<BTreeMap<String, FileBackup>> {
    let cwd = session.directories().last().map(|path| (*path).to_owned());
    let mut tracked = BTreeMap::new();
    for file in session.saved_files()? {
        let copies = file.versions.iter().rev();
        // A record of an operation has no copy.
        let Some(newest) = copies.into_iter().find(|it| it.operation.is_none()) else {
            continue;
        };
        let stored = newest.stored.as_ref();
        let name = stored.and_then(|stored| stored.artifact.name.clone());
        if !Path::new(&file.path).is_absolute() {
            continue;
        }
        tracked.insert(
            file.path.clone(),
            FileBackup {
                path: relative_path(&file.path, cwd.as_deref()),
                base: None,
                version: newest.version,
                stored: name,
                time: newest.time,
                operation: None,
                snippet: None,
            },
        );
    }
    Ok(tracked)
}

/// Returns a path as spelled in records: relative to the session's directory if it is below that.
fn relative_path(path: &str, cwd: Option<&str>) -> String {
    let below = cwd.and_then(|cwd| Path::new(path).strip_prefix(cwd).ok());
    let below = below
        .and_then(Path::to_str)
        .filter(|below| !below.is_empty());
    below.unwrap_or(path).to_owned()
}

/// Makes paths absolute and removes duplicates.
fn absolute_paths(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut distinct: Vec<PathBuf> = Vec::with_capacity(paths.len());
    for given in paths {
        let failed = |error| Error::io("find", given, error);
        let mut path = std::path::absolute(given).map_err(failed)?;
        let goes_up = path.components().any(|part| part == Component::ParentDir);
        if let (true, Some(parent), Some(name)) = (goes_up, path.parent(), path.file_name()) {
            path = parent.canonicalize().map_err(failed)?.join(name);
        }
        if !distinct.contains(&path) {
            distinct.push(path);
        }
    }
    Ok(distinct)
}

/// Reads a file; `None` if it does not exist.
fn read_optional(path: &Path) -> Result<Option<Vec<u8>>> {
    match size(path)? {
        None => Ok(None),
        Some(_) => std::fs::read(path)
            .map(Some)
            .map_err(|error| Error::io("read", path, error)),
    }
}

/// Returns the size of a file that can be saved; `None` if it does not exist.
fn size(path: &Path) -> Result<Option<u64>> {
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path, error)),
    };
    if metadata.is_symlink() {
        return Err(Error::refused(format!(
            "{} is a symbolic link; name its target",
            path.display()
        )));
    }
    if !metadata.is_file() {
        return Err(Error::refused(format!("{} is not a file", path.display())));
    }
    if metadata.len() > MAX_FILE {
        return Err(Error::refused(format!(
            "{} is larger than {} MB, the limit for saved files",
            path.display(),
            MAX_FILE >> 20
        )));
    }
    Ok(Some(metadata.len()))
}
