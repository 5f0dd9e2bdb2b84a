//! Moves a file, also to another file system.
//!
//! An existing file is never overwritten. Within a file system, a move is one rename. Between two, the
//! copy is written to a temporary file of mode 0600 and synced, and gets its name, mode and time when
//! it is complete. The source is removed last, and only if it is unchanged and no program has it open
//! for writing. If the removal fails, the copy is removed, but only if the source still has a name. A
//! killed process leaves one of three states: only the source; the source and a temporary file, which
//! the next move removes; or two equal files, and the next move removes the source.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _};
use std::path::Path;

use tempfile::NamedTempFile;

use super::FileId;
use super::lock::{Deadline, Lock};
use super::remove::Removal;
use super::replace::{
    LOCK_WAIT, ensure_dir, make_temp, open_dir, open_document, parent, sync_parent,
};
use super::sys;
use super::write_batch::write_error;
use crate::{Error, Result};

/// Moves the file at `from` to `to`. Fails if `to` exists, unless it is an equal file that an earlier
/// attempt left. Creates the parent directories of `to`.
///
/// The caller must hold the lock of a log, so that no record is appended to a file that is being
/// removed.
pub fn move_file(from: &Path, to: &Path) -> Result<()> {
    ensure_dir(parent(to))?;
    match sys::rename_new(from, to) {
        Ok(()) => sync_parent(to).map_err(|e| Error::io("sync", parent(to), e))?,
        // Another file system, one without such a rename, or an earlier attempt to complete.
        Err(error)
            if sys::is_rename_unsupported(&error)
                || matches!(
                    error.kind(),
                    io::ErrorKind::CrossesDevices | io::ErrorKind::AlreadyExists
                ) =>
        {
            copy_and_remove(from, to)?;
        }
        Err(error) => return Err(Error::io("move", from, error)),
    }
    sync_parent(from).map_err(|e| Error::io("sync", parent(from), e))
}

/// Renames a directory within its parent, durably. Fails if the new name exists.
pub fn rename_dir(from: &Path, to: &Path) -> Result<()> {
    match sys::rename_new(from, to) {
        Ok(()) => {}
        // A plain rename does not replace a directory that is not empty.
        Err(error) if sys::is_rename_unsupported(&error) => {
            fs::rename(from, to).map_err(|e| Error::io("rename", from, e))?;
        }
        Err(error) => return Err(Error::io("rename", from, error)),
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
    let removed = dir
        .sync_all()
        .map_err(|e| Error::io("sync", parent(to), e))
        // As late as possible: other programs take no lock.
        .and_then(|()| removal.remove());
    match removed {
        Err(error) if made => Err(remove_copy(&removal, to, error)),
        removed => removed,
    }
}

/// Removes the copy after a failed move. Keeps it if the original has none of its names. Returns the
/// error that the caller reports.
fn remove_copy(removal: &Removal, copy: &Path, error: Error) -> Error {
    match removal.current_path() {
        Some(_) => {
            let _ = fs::remove_file(copy);
            error
        }
        None => error.with_outcome(format!("its content is in {}", copy.display())),
    }
}

/// Copies a file to a temporary file in the directory of `to`.
pub(crate) fn copy(source: &File, metadata: &fs::Metadata, to: &Path) -> Result<NamedTempFile> {
    let failed = |source| write_error(to, source);
    let mut temp = make_temp(to).map_err(failed)?;
    let mut source = source;
    source.rewind().map_err(failed)?;
    io::copy(&mut source, temp.as_file_mut()).map_err(failed)?;
    sys::copy_mode_and_owner(temp.as_file(), metadata).map_err(failed)?;
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

/// Returns whether two files exist and have the same content.
pub fn have_same_content(one: &Path, other: &Path) -> Result<bool> {
    match (open_document(one)?, open_document(other)?) {
        (Some((file, _)), Some((second, _))) => {
            same_content(&file, &second).map_err(|e| Error::io("read", one, e))
        }
        _ => Ok(false),
    }
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
        assert!(have_same_content(&from, &to).unwrap());
        assert!(!have_same_content(&from, &dir.path().join("none")).unwrap());
        move_file(&from, &to).unwrap();
        assert!(!from.exists());
        assert_eq!(fs::read_to_string(&to).unwrap(), "those");
    }

    /// Later writes of the program would go to a file without a name.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_a_program_keeps_open_is_not_copied_away() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, "those").unwrap();
        let file = File::options().append(true).open(&from).unwrap();
        let mut holder = std::process::Command::new("sleep")
            .arg("60")
            .stdout(file)
            .spawn()
            .unwrap();
        let error = copy_and_remove(&from, &to).unwrap_err();
        assert!(matches!(error, Error::Held { .. }), "{error}");
        assert!(from.exists() && !to.exists());
        holder.kill().unwrap();
        holder.wait().unwrap();
        copy_and_remove(&from, &to).unwrap();
        assert!(!from.exists() && to.exists());
    }

    /// A program that appends by path would create another file.
    #[cfg(target_os = "linux")]
    #[test]
    fn file_that_a_program_keeps_open_has_its_name_all_the_time() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, "those").unwrap();
        let does =
            r#"exec 3>>"$1"; echo ready; while [ -e "$1" ]; do sleep 0.01; done; echo new >> "$1""#;
        let mut holder = std::process::Command::new("sh")
            .args(["-c", does, "sh"])
            .arg(&from)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        holder
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut ready)
            .unwrap();
        let error = copy_and_remove(&from, &to).unwrap_err();
        assert!(matches!(error, Error::Held { .. }), "{error}");
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!(fs::read_to_string(&from).unwrap(), "those");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// Another program may have removed the original meanwhile.
    #[test]
    fn copy_stays_unless_the_original_has_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, "those").unwrap();
        fs::write(&to, "those").unwrap();
        let file = File::open(&from).unwrap();
        let id = FileId::from(&file.metadata().unwrap());
        let removal = Removal::from_file(&from, &file, id).unwrap();
        let fail = || Error::Changed { path: from.clone() };
        fs::remove_file(&from).unwrap();
        // Another file of that name is not the original.
        fs::write(&from, "other").unwrap();
        let error = remove_copy(&removal, &to, fail()).to_string();
        assert!(error.contains(to.to_str().unwrap()), "{error}");
        assert_eq!(fs::read_to_string(&to).unwrap(), "those");
        fs::write(&to, "other").unwrap();
        let file = File::open(&from).unwrap();
        let id = FileId::from(&file.metadata().unwrap());
        let removal = Removal::from_file(&from, &file, id).unwrap();
        assert!(matches!(
            remove_copy(&removal, &to, fail()),
            Error::Changed { .. }
        ));
        assert!(from.exists() && !to.exists());
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
