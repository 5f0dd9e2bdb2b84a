//! Where the catalogue lies, and whether that is a safe place to write to.
//!
//! A state directory may lie where others can write, such as below `/tmp`. What another user put
//! there (a directory, or a link to some file of ours) is never written through.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::jsonl;

use super::database;

/// What the names of all catalogues begin with, whatever their version.
const NAME_PREFIX: &str = "catalogue-";

/// A file of a catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexFile {
    /// Where it is.
    pub path: PathBuf,
    /// How large it is.
    pub bytes: u64,
    /// What it is.
    pub kind: IndexFileKind,
}

/// What a file of a catalogue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexFileKind {
    /// The catalogue of this version, or what its database keeps beside it.
    Own,
    /// That of a program of another version.
    OtherVersion,
    /// One that could not be used, and was set aside.
    SetAside,
}

/// The version of the catalogue's form, which its name tells.
pub(super) fn version() -> u32 {
    let name = database::name();
    let version = name.strip_prefix(NAME_PREFIX);
    let version = version.and_then(|rest| rest.strip_suffix(".db"));
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

/// The database of a state directory, which is made if need be. Refuses a place that is not ours.
pub(super) fn prepare(state: &Path) -> Result<PathBuf> {
    refuse_obstacle(state)?;
    // Durably, though the catalogue needs it not: what is moved there must not be lost with its name.
    // One that is there is made so by those who move something: looking must not wait for a disk.
    if !state.is_dir() {
        jsonl::ensure_dir(state)?;
    }
    check(state)?;
    Ok(state.join(database::name()))
}

/// The database of a state directory, if there is one.
pub(super) fn existing(state: &Path) -> Result<Option<PathBuf>> {
    let path = state.join(database::name());
    match fs::symlink_metadata(&path) {
        Ok(_) => check(state).map(|()| Some(path)),
        Err(error) if is_absent(&error) => {
            // There is none, and there cannot be any.
            refuse_obstacle(state)?;
            match is_read_only(state) {
                true => Err(refusal(state, "is read-only")),
                false => Ok(None),
            }
        }
        Err(error) => Err(Error::io("stat", &path, error)),
    }
}

/// Whether we can write nothing in a state directory.
pub(super) fn is_read_only(state: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    use rustix::io::Errno;
    let asked = accessat(CWD, state, Access::WRITE_OK, AtFlags::EACCESS);
    matches!(asked, Err(Errno::ROFS | Errno::ACCESS | Errno::PERM))
}

/// The error of a place that cannot be used as it is.
pub(super) fn refusal(path: &Path, why: &str) -> Error {
    let path = path.display();
    Error::refused(format!("the catalogue is not used, because {path} {why}"))
}

/// Refuses a state directory that can neither be there nor be made, because of what lies there.
fn refuse_obstacle(state: &Path) -> Result<()> {
    for place in state.ancestors() {
        // What is not there, or cannot be looked at, is told of by whoever tries to make it.
        let Ok(found) = fs::symlink_metadata(place) else {
            continue;
        };
        return match fs::metadata(place) {
            Err(error) if found.is_symlink() && is_absent(&error) => {
                Err(refusal(place, "is a symbolic link that leads nowhere"))
            }
            Ok(found) if !found.is_dir() => Err(refusal(place, "is no directory")),
            _ => Ok(()),
        };
    }
    Ok(())
}

/// Makes sure that nobody else decides where we write.
fn check(state: &Path) -> Result<()> {
    let failed = |path: &Path, error| Error::io("stat", path, error);
    let refuse = |path: &Path, why: &str| Err(refusal(path, why));
    // A link of one's own to another disk is fine.
    let link = fs::symlink_metadata(state).map_err(|error| failed(state, error))?;
    if link.is_symlink() && !is_ours(&link) {
        return refuse(state, "is a symbolic link of another user");
    }
    let dir = fs::metadata(state).map_err(|error| failed(state, error))?;
    if !is_ours(&dir) {
        return refuse(state, "belongs to another user");
    }
    for ending in ["", "-wal", "-shm"] {
        let path = state.join(database::name() + ending);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => return refuse(&path, "is a symbolic link"),
            Ok(found) if !found.is_file() => return refuse(&path, "is no file"),
            Ok(found) if !is_ours(&found) => return refuse(&path, "belongs to another user"),
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

/// The files of all catalogues of a state directory, in the order of their names.
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
        // Of the file itself, wherever it leads.
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
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// What a file of the state directory is, by its name.
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

/// Deletes the files of all catalogues, and tells which they were.
pub(super) fn delete(state: &Path) -> Result<Vec<IndexFile>> {
    let found = files(state)?;
    if !found.is_empty() {
        check(state)?;
    }
    // The databases first: what lies beside them means nothing without them.
    let mut order: Vec<&IndexFile> = found.iter().collect();
    order.sort_by_key(|file| file.path.extension().is_none_or(|ending| ending != "db"));
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
            ("catalogue-999.db".to_owned(), Some(OtherVersion)),
            ("catalogue-999.db-shm".to_owned(), Some(OtherVersion)),
            ("catalogue-1.db.unusable".to_owned(), Some(SetAside)),
            (format!("{own}-journal2"), None),
            ("catalogue-.db".to_owned(), None),
            ("catalogue-x.db".to_owned(), None),
            ("catalogue-1.dbx".to_owned(), None),
            ("trash".to_owned(), None),
        ] {
            assert_eq!(kind(&name), wanted, "{name}");
        }
    }
}
