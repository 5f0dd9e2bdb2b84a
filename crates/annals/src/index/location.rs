//! Location of the index, and checks that it is safe to write there.
//!
//! A state directory may be in a place where others can write, such as `/tmp`. A directory or a
//! symbolic link that another user put there is never written through.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, IndexProblem, Result};
use annals_jsonl as jsonl;

use super::database;

/// Prefix of all index file names, of any version.
const NAME_PREFIX: &str = "index-";

/// File of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// Kind of the file.
    pub kind: IndexFileKind,
}

/// Kind of an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexFileKind {
    /// Database of this version, or its `-wal` or `-shm` file.
    Own,
    /// Index of another version.
    OtherVersion,
    /// Unusable database that was renamed.
    SetAside,
}

/// Returns the schema version, parsed from the file name.
pub(super) fn version() -> u32 {
    let name = database::name();
    let version = name.strip_prefix(NAME_PREFIX);
    let version = version.and_then(|rest| rest.strip_suffix(".db"));
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

/// Returns the database path of a state directory; creates the directory. Refuses one that is not
/// ours.
pub(super) fn prepare(state: &Path) -> Result<PathBuf> {
    refuse_obstacle(state)?;
    // Created durably. The index does not need it, but files moved here must survive a crash. An
    // existing directory is synced by the code that moves files: opening the index must not wait
    // for the disk.
    if !state.is_dir() {
        jsonl::ensure_dir(state)?;
    }
    check(state)?;
    Ok(state.join(database::name()))
}

/// Returns the database path of a state directory, if the database exists.
pub(super) fn existing(state: &Path) -> Result<Option<PathBuf>> {
    let path = state.join(database::name());
    match fs::symlink_metadata(&path) {
        Ok(_) => check(state).map(|()| Some(path)),
        Err(error) if is_absent(&error) => {
            // There is no index; fail if none can be created.
            refuse_obstacle(state)?;
            match is_read_only(state) {
                true => Err(read_only(state)),
                false => Ok(None),
            }
        }
        Err(error) => Err(Error::io("stat", &path, error)),
    }
}

/// Returns true if the state directory is not writable.
pub(super) fn is_read_only(state: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    use rustix::io::Errno;
    let asked = accessat(CWD, state, Access::WRITE_OK, AtFlags::EACCESS);
    matches!(asked, Err(Errno::ROFS | Errno::ACCESS | Errno::PERM))
}

/// Error for a state directory that is read-only.
pub(super) fn read_only(state: &Path) -> Error {
    refusal(state, IndexProblem::ReadOnly, "is read-only")
}

/// Error for a path that cannot be used.
pub(super) fn refusal(path: &Path, problem: IndexProblem, why: impl Into<String>) -> Error {
    Error::Index {
        path: path.to_owned(),
        problem,
        why: why.into(),
    }
}

/// Refuses a state directory that cannot exist or be created because of another file in its path.
fn refuse_obstacle(state: &Path) -> Result<()> {
    for place in state.ancestors() {
        // A missing or inaccessible path is reported when the directory is created.
        let Ok(found) = fs::symlink_metadata(place) else {
            continue;
        };
        return match fs::metadata(place) {
            Err(error) if found.is_symlink() && is_absent(&error) => Err(refusal(
                place,
                IndexProblem::Obstacle,
                "is a dangling symbolic link",
            )),
            Ok(found) if !found.is_dir() => {
                Err(refusal(place, IndexProblem::Obstacle, "is not a directory"))
            }
            _ => Ok(()),
        };
    }
    Ok(())
}

/// Ensures that no other user controls where we write.
fn check(state: &Path) -> Result<()> {
    let failed = |path: &Path, error| Error::io("stat", path, error);
    let refuse = |path: &Path, problem, why: &str| Err(refusal(path, problem, why));
    // The user's own link to another disk is allowed.
    let link = fs::symlink_metadata(state).map_err(|error| failed(state, error))?;
    if link.is_symlink() && !is_ours(&link) {
        return refuse(
            state,
            IndexProblem::OtherUser,
            "is a symbolic link of another user",
        );
    }
    let dir = fs::metadata(state).map_err(|error| failed(state, error))?;
    if !is_ours(&dir) {
        return refuse(state, IndexProblem::OtherUser, "belongs to another user");
    }
    for ending in ["", "-wal", "-shm"] {
        let path = state.join(database::name() + ending);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                return refuse(&path, IndexProblem::Obstacle, "is a symbolic link");
            }
            Ok(found) if !found.is_file() => {
                return refuse(&path, IndexProblem::Obstacle, "is not a regular file");
            }
            Ok(found) if !is_ours(&found) => {
                return refuse(&path, IndexProblem::OtherUser, "belongs to another user");
            }
            Ok(_) => {}
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(failed(&path, error)),
        }
    }
    Ok(())
}

fn is_ours(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw()
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Lists all index files of a state directory, sorted by name.
pub(super) fn files(state: &Path) -> Result<Vec<IndexFile>> {
    let failed = |error| Error::io("read", state, error);
    let entries = match fs::read_dir(state) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        // Metadata of the entry itself; links are not followed.
        if let Some(kind) = name.to_str().and_then(kind)
            && let Ok(metadata) = entry.metadata()
            && !metadata.is_dir()
        {
            found.push(IndexFile {
                path: entry.path(),
                bytes: metadata.len(),
                kind,
            });
        }
    }
    crate::sort::by(&mut found, |a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Returns the kind of a file of the state directory, by its name.
fn kind(name: &str) -> Option<IndexFileKind> {
    let (version, ending) = name.strip_prefix(NAME_PREFIX)?.split_once(".db")?;
    let numbered = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    match ending {
        _ if !numbered => None,
        ".unusable" => Some(IndexFileKind::SetAside),
        "" | "-wal" | "-shm" if database::name() == format!("{NAME_PREFIX}{version}.db") => {
            Some(IndexFileKind::Own)
        }
        "" | "-wal" | "-shm" => Some(IndexFileKind::OtherVersion),
        _ => None,
    }
}

/// Deletes all index files and returns them.
pub(super) fn delete(state: &Path) -> Result<Vec<IndexFile>> {
    let found = files(state)?;
    if !found.is_empty() {
        check(state)?;
    }
    // Databases first: the other files are useless without them.
    let mut order: Vec<&IndexFile> = found.iter().collect();
    crate::sort::by_key(&mut order, |file| {
        file.path.extension().is_none_or(|ending| ending != "db")
    });
    for file in order {
        match fs::remove_file(&file.path) {
            Err(error) if !is_absent(&error) => return Err(Error::io("delete", &file.path, error)),
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_index_files_are_recognised() {
        use IndexFileKind::{OtherVersion, Own, SetAside};
        let own = database::name();
        for (name, wanted) in [
            (own.clone(), Some(Own)),
            (format!("{own}-wal"), Some(Own)),
            (format!("{own}.unusable"), Some(SetAside)),
            ("index-999.db".to_owned(), Some(OtherVersion)),
            ("index-999.db-shm".to_owned(), Some(OtherVersion)),
            ("index-1.db.unusable".to_owned(), Some(SetAside)),
            (format!("{own}-journal2"), None),
            ("index-.db".to_owned(), None),
            ("index-x.db".to_owned(), None),
            ("index-1.dbx".to_owned(), None),
            ("trash".to_owned(), None),
        ] {
            assert_eq!(kind(&name), wanted, "{name}");
        }
    }
}
