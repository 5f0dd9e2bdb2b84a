//! Replaces small documents atomically: indexes, todos, settings.
//!
//! A reader sees the old document or the new one, never a part, even after a crash. Logs are not
//! replaced: they are only appended to.
//!
//! The lock is `flock` on the directory of the document. The document itself cannot carry it,
//! because each replacement has a new inode. A separate lock file would be one more file in a tree
//! that belongs to another program. The directory always exists and annals never unlinks it.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::Digest as _;
use tempfile::NamedTempFile;

use super::lock::{Deadline, Lock};
use super::presence::exists;
use super::sys;
use super::write_batch::write_error;
use crate::{Error, Result};

pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The SHA-256 of a document's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn compute(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Its first 16 hexadecimal digits.
    pub(crate) fn short(&self) -> String {
        let Digest([a, b, c, d, e, f, g, h, ..]) = *self;
        format!("{:016x}", u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

/// Replaces the document at `path`, or creates it with mode 0600.
///
/// With `expect`, replaces it only if it still has that digest; otherwise, or if it does not exist,
/// returns [`Error::Changed`]. An existing document keeps its mode, and its owner if permitted. A
/// symbolic link is refused: the rename would replace the link and leave its target unchanged.
pub fn replace(path: &Path, bytes: &[u8], expect: Option<&Digest>) -> Result<()> {
    with_document_lock(path, || replace_if(path, bytes, expect))
}

/// Replaces the document at `path`. The caller must hold its lock (see [`with_document_lock`]).
pub fn replace_locked(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_if(path, bytes, None)
}

fn replace_if(path: &Path, bytes: &[u8], expect: Option<&Digest>) -> Result<()> {
    let old = open_document(path)?;
    let temp = write_temp(path, bytes, old.as_ref().map(|(_, metadata)| metadata))?;
    if let Some(expect) = expect {
        // Read as late as possible: foreign writers do not take the lock.
        let now = open_document(path)?
            .map(|(file, _)| read(file, path))
            .transpose()?;
        if now.is_none_or(|now| Digest::compute(&now) != *expect) {
            return Err(Error::Changed {
                path: path.to_owned(),
            });
        }
    }
    temp.persist(path)
        .map_err(|e| Error::io("replace", path, e.error))?;
    sync_parent(path).map_err(|e| Error::io("sync", parent(path), e))
}

/// Creates a document that must not exist yet, with mode 0600.
///
/// It appears with its content: a crash cannot leave an empty or partial one.
pub fn create_new(path: &Path, bytes: &[u8]) -> Result<()> {
    create_with(path, |put| put(bytes))
}

/// Like [`create_new`], for content that is written in pieces.
pub fn create_with<E: From<Error>>(
    path: &Path,
    fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E>,
) -> Result<(), E> {
    let dir = open_dir(path)?;
    let _lock = Lock::acquire(&dir, parent(path), Deadline::new(LOCK_WAIT))?;
    let failed = |source| write_error(path, source);
    let temp = make_temp(path).map_err(failed)?;
    let mut buffer = BufWriter::new(temp.as_file());
    fill(&mut |bytes| Ok(buffer.write_all(bytes).map_err(failed)?))?;
    buffer.flush().map_err(failed)?;
    drop(buffer);
    temp.as_file().sync_all().map_err(failed)?;
    temp.persist_noclobber(path)
        .map_err(|e| Error::io("create", path, e.error))?;
    let synced = dir.sync_all();
    Ok(synced.map_err(|e| Error::io("sync", parent(path), e))?)
}

/// Runs `work` while no annals process replaces the document at `path`; `work` must not replace it
/// either.
pub fn with_document_lock<T, E: From<Error>>(
    path: &Path,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let dir = open_dir(path)?;
    let _lock = Lock::acquire(&dir, parent(path), Deadline::new(LOCK_WAIT))?;
    work()
}

/// Removes the temporary file for `path` that a killed process left.
pub fn clear_temp(path: &Path) -> Result<()> {
    let temp = parent(path).join(temp_name(path));
    if !exists(&temp)? {
        return Ok(());
    }
    with_document_lock(path, || match fs::remove_file(&temp) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", &temp, error))
        }
        _ => Ok(()),
    })
}

/// Creates a directory and its missing parents with mode 0700, durably.
///
/// The name of an existing directory is made durable too: its creator may have been killed before
/// that.
pub fn ensure_dir(path: &Path) -> Result<()> {
    if path.is_dir() {
        return sync_dir_name(path);
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        ensure_dir(above)?;
    }
    match sys::create_dir(path) {
        Ok(()) => {
            sync_parent(path).map_err(|error| {
                // Otherwise the next process would assume it durable; it remains if another process
                // already uses it.
                let _ = fs::remove_dir(path);
                Error::io("sync", parent(path), error)
            })?;
            synced_dirs().insert(path.to_owned());
            Ok(())
        }
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
            sync_dir_name(path)
        }
        Err(error) => Err(Error::io("create", path, error)),
    }
}

/// Directories whose names are known to be durable.
fn synced_dirs() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    static SETTLED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    SETTLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the name of an existing directory durable, once per process.
fn sync_dir_name(path: &Path) -> Result<()> {
    if synced_dirs().contains(path) {
        return Ok(());
    }
    match sync_parent(path) {
        Ok(()) => {}
        // annals did not create one whose parent cannot be opened or is read-only.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) => {}
        Err(error) => return Err(Error::io("sync", parent(path), error)),
    }
    synced_dirs().insert(path.to_owned());
    Ok(())
}

/// Makes the name `path` durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

pub(crate) fn open_dir(path: &Path) -> Result<File> {
    File::open(parent(path)).map_err(|e| Error::io("open", parent(path), e))
}

pub(crate) fn open_document(path: &Path) -> Result<Option<(File, Metadata)>> {
    let opened = sys::no_follow(OpenOptions::new().read(true)).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if sys::is_link_refused(&error) => {
            return Err(Error::ThroughLink {
                path: path.to_owned(),
                why: "is a symbolic link; annals replaces only regular files".to_owned(),
            });
        }
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let metadata = file.metadata().map_err(|e| Error::io("stat", path, e))?;
    if !metadata.is_file() {
        return Err(Error::NotAFile {
            path: path.to_owned(),
        });
    }
    Ok(Some((file, metadata)))
}

fn read(mut file: File, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|e| Error::io("read", path, e))?;
    Ok(bytes)
}

/// Writes and syncs a temporary file next to `path`; it is removed unless persisted.
fn write_temp(path: &Path, bytes: &[u8], old: Option<&Metadata>) -> Result<NamedTempFile> {
    let failed = |source| write_error(path, source);
    let mut temp = make_temp(path).map_err(failed)?;
    temp.write_all(bytes).map_err(failed)?;
    if let Some(old) = old {
        sys::copy_mode_and_owner(temp.as_file(), old).map_err(failed)?;
    }
    temp.as_file().sync_all().map_err(failed)?;
    Ok(temp)
}

/// Creates an empty file next to `path` with mode 0600; it is removed unless persisted.
///
/// Its name depends only on the document and it is created only under the lock. An existing one was
/// therefore left by a killed process, and is removed.
pub(crate) fn make_temp(path: &Path) -> io::Result<NamedTempFile> {
    let name = temp_name(path);
    let make = || {
        tempfile::Builder::new()
            .prefix(&name)
            .rand_bytes(0)
            .permissions(sys::owner_only_permissions())
            .tempfile_in(parent(path))
    };
    make().or_else(|error| {
        if error.kind() != io::ErrorKind::AlreadyExists {
            return Err(error);
        }
        fs::remove_file(parent(path).join(&name))?;
        make()
    })
}

/// Whether a name is that of a temporary file of a document. A killed writer leaves it, and the
/// next writer of the document reuses the name.
pub fn is_temp(name: &Path) -> bool {
    let name = name.to_str().unwrap_or_default();
    let tag = name.strip_prefix(".annals-");
    let tag = tag.and_then(|rest| rest.strip_suffix(".tmp"));
    tag.is_some_and(|tag| tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn temp_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    format!(
        ".annals-{}.tmp",
        Digest::compute(name.as_encoded_bytes()).short()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_temp_removes_file_left_by_killed_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("document.json");
        let name = temp_name(&path);
        assert!(is_temp(Path::new(&name)));
        for other in [
            "document.json",
            ".annals-.tmp",
            ".annals-0123456789abcde.tmp",
            ".annals-0123456789abcdeg.tmp",
            "annals-0123456789abcdef.tmp",
            ".annals-0123456789abcdef",
        ] {
            assert!(!is_temp(Path::new(other)), "{other}");
        }
        clear_temp(&path).unwrap();
        let left = dir.path().join(&name);
        fs::write(&left, "half").unwrap();
        fs::write(&path, "whole").unwrap();
        clear_temp(&path).unwrap();
        assert!(!left.exists() && path.exists());
        fs::create_dir(&left).unwrap();
        assert!(clear_temp(&path).is_err());
    }

    #[test]
    fn clear_temp_ignores_file_already_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("document.json");
        let left = dir.path().join(temp_name(&path));
        fs::write(&left, "half").unwrap();
        let lock = File::open(dir.path()).unwrap();
        lock.lock().unwrap();
        std::thread::scope(|scope| {
            let clearing = scope.spawn(|| clear_temp(&path));
            // By then it waits for the lock; if not, it finds nothing to remove.
            std::thread::sleep(std::time::Duration::from_millis(100));
            fs::remove_file(&left).unwrap();
            lock.unlock().unwrap();
            clearing.join().unwrap().unwrap();
        });
    }

    #[test]
    fn parent_of_bare_name_is_current_directory() {
        assert_eq!(parent(Path::new("document.json")), Path::new("."));
        assert_eq!(parent(Path::new("a/document.json")), Path::new("a"));
        assert_eq!(parent(Path::new("/")), Path::new("."));
    }

    #[test]
    fn open_document_reports_links_only_for_links() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("document.json");
        assert!(open_document(&path).unwrap().is_none());
        fs::write(&path, "{}").unwrap();
        assert!(open_document(&path).unwrap().is_some());
        let below = open_document(&path.join("below")).unwrap_err();
        assert!(matches!(below, Error::Io { .. }), "{below}");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = open_document(&link).unwrap_err().to_string();
        assert!(error.contains("is a symbolic link"), "{error}");
    }

    #[test]
    fn ensure_dir_succeeds_concurrently() {
        let dir = tempfile::tempdir().unwrap();
        let together = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for turn in 0..100 {
                        together.wait();
                        ensure_dir(&dir.path().join(format!("{turn}/a/b"))).unwrap();
                    }
                });
            }
        });
    }
}
