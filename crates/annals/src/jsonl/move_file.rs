//! Moves a file to another place, across file systems if need be.
//!
//! Nothing is ever moved over a file that is there. On one file system a move is one rename. On two
//! the copy grows under a temporary name of mode 0600, is synced, and gets its name, mode and time
//! only when it is whole; the old file goes last, and only if it is still what was copied. Who is
//! killed in between leaves the old file, a temporary one that the next move clears away, or two
//! equal files of which the next move takes the old one away.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _};
use std::path::Path;

use rustix::fs::RenameFlags;
use rustix::io::Errno;
use tempfile::NamedTempFile;

use super::FileId;
use super::lock::{Deadline, Lock};
use super::remove::Removal;
use super::replace::{
    LOCK_WAIT, copy_mode_and_owner, ensure_dir, make_temp, open_dir, open_document, parent,
    sync_parent,
};
use super::write_batch::write_error;
use crate::{Error, Result};

/// Moves the file at `from` to `to`, where nothing may be but an equal file that an earlier attempt
/// left there. Makes the directories above `to`.
///
/// Who moves a log holds its lock, so that no append goes to a file that is about to go.
pub fn move_file(from: &Path, to: &Path) -> Result<()> {
    ensure_dir(parent(to))?;
    let cwd = rustix::fs::CWD;
    match rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE) {
        Ok(()) => sync_parent(to).map_err(|e| Error::io("sync", parent(to), e))?,
        // Another device, a file system that knows no such rename, or an attempt to be finished.
        Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::EXIST) => copy_and_remove(from, to)?,
        Err(error) => return Err(Error::io("move", from, error.into())),
    }
    sync_parent(from).map_err(|e| Error::io("sync", parent(from), e))
}

/// Gives a directory another name beside its own, durably. Nothing may have that name yet.
pub(crate) fn rename_dir(from: &Path, to: &Path) -> Result<()> {
    let cwd = rustix::fs::CWD;
    match rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // Without such a rename: a directory never replaces one that holds anything.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::rename(from, to).map_err(|e| Error::io("rename", from, e))?;
        }
        Err(error) => return Err(Error::io("rename", from, error.into())),
    }
    sync_parent(to).map_err(|e| Error::io("sync", parent(to), e))
}

fn copy_and_remove(from: &Path, to: &Path) -> Result<()> {
    let dir = open_dir(to)?;
    let _lock = Lock::acquire(&dir, parent(to), Deadline::new(LOCK_WAIT))?;
    let gone = || Error::io("move", from, io::ErrorKind::NotFound.into());
    let (source, metadata) = open_document(from)?.ok_or_else(gone)?;
    let looked = FileId::from(&metadata);
    let removal = Removal::from_file(from, &source, looked)?;
    let made = match open_document(to)? {
        Some((there, _)) => {
            let same = same_content(&source, &there).map_err(|e| Error::io("read", from, e))?;
            if !same {
                return Err(Error::io("move", to, io::ErrorKind::AlreadyExists.into()));
            }
            there.sync_all().map_err(|e| Error::io("sync", to, e))?;
            false
        }
        None => {
            let temp = copy(&source, &metadata, to)?;
            ensure_unchanged(from, &looked)?;
            temp.persist_noclobber(to)
                .map_err(|e| Error::io("create", to, e.error))?;
            true
        }
    };
    let settled = dir
        .sync_all()
        .map_err(|e| Error::io("sync", parent(to), e))
        // As late as possible: foreign writers take no lock.
        .and_then(|()| removal.unlink());
    if let Err(error) = settled {
        if made {
            let _ = fs::remove_file(to);
        }
        return Err(error);
    }
    if !Removal::written_after_unlink(std::iter::once(&removal))?.is_empty() {
        // Someone appended to the old file until it had no name; the copy is all that is left of it.
        removal.copy_again(to)?;
    }
    Ok(())
}

/// A copy of a file beside `to`, which it does not have the name of yet.
pub(super) fn copy(source: &File, metadata: &fs::Metadata, to: &Path) -> Result<NamedTempFile> {
    let failed = |source| write_error(to, source);
    let mut temp = make_temp(to).map_err(failed)?;
    let mut source = source;
    source.rewind().map_err(failed)?;
    io::copy(&mut source, temp.as_file_mut()).map_err(failed)?;
    copy_mode_and_owner(temp.as_file(), metadata).map_err(failed)?;
    if let Ok(time) = metadata.modified() {
        let times = fs::FileTimes::new().set_modified(time);
        temp.as_file().set_times(times).map_err(failed)?;
    }
    temp.as_file().sync_all().map_err(failed)?;
    Ok(temp)
}

fn ensure_unchanged(path: &Path, looked: &FileId) -> Result<()> {
    let now = path.symlink_metadata();
    let now = now.map_err(|e| Error::io("stat", path, e))?;
    if FileId::from(&now) == *looked {
        return Ok(());
    }
    Err(Error::Changed {
        path: path.to_owned(),
    })
}

fn same_content(one: &File, other: &File) -> io::Result<bool> {
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let mut others = BufReader::new(other).bytes();
    for byte in BufReader::new(one).bytes() {
        if others.next().transpose()? != Some(byte?) {
            return Ok(false);
        }
    }
    Ok(others.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_move_is_finished_and_never_overwrites() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("there/to"));
        fs::create_dir(dir.path().join("there")).unwrap();
        for other in ["other", "longer than it", "", "longs"] {
            fs::write(&from, "those").unwrap();
            fs::write(&to, other).unwrap();
            let error = move_file(&from, &to).unwrap_err();
            let exists = matches!(&error, Error::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists);
            assert!(exists, "{error}");
            assert_eq!(fs::read_to_string(&from).unwrap(), "those");
            assert_eq!(fs::read_to_string(&to).unwrap(), other);
        }
        fs::write(&to, "those").unwrap();
        move_file(&from, &to).unwrap();
        assert!(!from.exists());
        assert_eq!(fs::read_to_string(&to).unwrap(), "those");
    }

    #[test]
    fn ensure_unchanged_fails_after_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "one").unwrap();
        let looked = FileId::from(&path.metadata().unwrap());
        ensure_unchanged(&path, &looked).unwrap();
        fs::write(&path, "one more").unwrap();
        assert!(matches!(
            ensure_unchanged(&path, &looked),
            Err(Error::Changed { .. })
        ));
    }
}
