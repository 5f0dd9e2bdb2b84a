//! Removes files whose content is safe elsewhere, and saves what is written to them meanwhile.
//!
//! Foreign writers take no lock. One may append between the last look at a file and its removal, or
//! open the file before the removal and append after it. So a removed file stays open here: once it
//! has no name, nobody can open it any more, and when nobody has it open for writing, its content is
//! final. If that differs from what was expected, the file gets a name again.
//!
//! A name cannot be removed on the condition that it still means the same file: another program may
//! replace the file at the last moment. So a file is renamed to `.annals-NAME.removed` first, looked at
//! under that name, which no other program uses, and removed only if it is the right one. Any other file
//! gets its name back. The file that is removed is locked meanwhile: one of such a name that nobody has
//! locked was left by a process that was killed, and [`put_back_removed`] puts it back.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::FileId;
use super::file_id::is_at_path;
use super::lock::{Deadline, Lock};
use super::move_file::copy;
use super::open_files;
use super::replace::{Digest, LOCK_WAIT, open_dir, open_document, parent, sync_parent};
use crate::{Error, Result};

/// A file that nobody wrote to for so long is in no use now. Whether anyone has it open is not asked:
/// that costs a look at all processes.
const IN_USE: Duration = Duration::from_secs(24 * 60 * 60);

/// Programs that have a removed file open get this long to close it.
const CLOSING: Duration = Duration::from_secs(1);

const PREFIX: &str = ".annals-";
const SUFFIX: &str = ".removed";

/// Longest file name in bytes.
const MAX_NAME: usize = 255;

/// A file that is being removed.
#[derive(Debug)]
pub(crate) struct Removal {
    path: PathBuf,
    file: File,
    id: FileId,
}

impl Removal {
    /// Opens the file at `path`, which must still be what `id` says.
    pub(crate) fn open(path: &Path, id: &FileId) -> Result<Self> {
        let changed = || Error::Changed {
            path: path.to_owned(),
        };
        let (file, metadata) = open_document(path)?.ok_or_else(changed)?;
        match FileId::from(&metadata).untouched(id) {
            true => Removal::from_file(path, &file, *id),
            false => Err(changed()),
        }
    }

    /// The removal of a file that is open already.
    pub(super) fn from_file(path: &Path, file: &File, id: FileId) -> Result<Self> {
        let file = file.try_clone();
        Ok(Removal {
            path: path.to_owned(),
            file: file.map_err(|error| Error::io("open", path, error))?,
            id,
        })
    }

    /// Removes the file's name, unless someone wrote to the file or replaced it since it was opened.
    pub(crate) fn unlink(&self) -> Result<()> {
        let now = self.path.symlink_metadata();
        let now = now.map_err(|error| Error::io("stat", &self.path, error))?;
        if !FileId::from(&now).untouched(&self.id) {
            return Err(self.changed_error());
        }
        self.unlink_renamed()
    }

    /// Renames the file that has the path, and removes it if it is this one.
    fn unlink_renamed(&self) -> Result<()> {
        // A log is locked by whoever removes it. Either way nobody else takes it for left behind.
        let _ = self.file.try_lock();
        let renamed = removed_path(&self.path);
        if renamed.symlink_metadata().is_ok() {
            put_back_removed(&renamed)?;
        }
        let failed = |error| Error::io("remove", &self.path, error);
        match renameat_new(&self.path, &renamed) {
            // No other program uses that name.
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(&self.path, &renamed).map_err(failed)?,
            done => done.map_err(|error| failed(error.into()))?,
        }
        let found = match renamed.symlink_metadata() {
            Ok(found) => FileId::from(&found),
            // Another process put it back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.changed_error());
            }
            Err(error) => return Err(Error::io("stat", &renamed, error)),
        };
        if found.same_file(&self.id) {
            return fs::remove_file(&renamed).map_err(failed);
        }
        match give_back(&renamed, &self.path)? {
            Some(back) if back != self.path => Err(Error::refused(format!(
                "{} was replaced while it was removed, and yet another file has its name now; the replacement is saved as {}",
                self.path.display(),
                back.display()
            ))),
            _ => Err(self.changed_error()),
        }
    }

    /// Those of some files without names that someone wrote to after the last look at them, or may still
    /// write to. Programs that have one open for writing get a moment to close it.
    pub(crate) fn written_after_unlink<'a>(
        removed: impl Iterator<Item = &'a Removal> + Clone,
    ) -> Result<Vec<&'a Removal>> {
        let in_use: Vec<&FileId> = removed
            .clone()
            .filter(|it| it.is_in_use())
            .map(|it| &it.id)
            .collect();
        let until = Instant::now() + CLOSING;
        let mut held = open_files::files_open_elsewhere(&in_use);
        while !held.is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
            held = open_files::files_open_elsewhere(&in_use);
        }
        let mut written = Vec::new();
        for removal in removed {
            let is_held = held.iter().any(|id| removal.id.same_file(id));
            if is_held || FileId::from(&removal.metadata()?) != removal.id {
                written.push(removal);
            }
        }
        Ok(written)
    }

    fn is_in_use(&self) -> bool {
        let modified = self.file.metadata().and_then(|it| it.modified());
        let age = modified.ok().and_then(|time| time.elapsed().ok());
        age.is_none_or(|age| age <= IN_USE)
    }

    /// Gives the file its name back, with all that was written to it. If another file has that name by
    /// now, both stay: this one as `NAME.annals-saved`. Returns where it is.
    pub(crate) fn put_back(&self) -> Result<PathBuf> {
        let dir = open_dir(&self.path)?;
        let _lock = Lock::acquire(&dir, parent(&self.path), Deadline::new(LOCK_WAIT))?;
        let mut number = 0;
        let mut to = self.path.clone();
        loop {
            let temp = copy(&self.file, &self.metadata()?, &to)?;
            match temp.persist_noclobber(&to) {
                Ok(_) => break,
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    to = saved_path(&self.path, number);
                }
                Err(error) => return Err(Error::io("create", &to, error.error)),
            }
        }
        let synced = dir.sync_all();
        synced.map_err(|error| Error::io("sync", parent(&to), error))?;
        Ok(to)
    }

    /// Replaces a copy of the file by one with all that was written to it.
    pub(super) fn copy_again(&self, to: &Path) -> Result<()> {
        let temp = copy(&self.file, &self.metadata()?, to)?;
        let replaced = temp.persist(to);
        replaced.map_err(|error| Error::io("replace", to, error.error))?;
        let synced = open_dir(to)?.sync_all();
        synced.map_err(|error| Error::io("sync", parent(to), error))
    }

    /// The error that says that someone else uses the file.
    pub(crate) fn changed_error(&self) -> Error {
        Error::Changed {
            path: self.path.clone(),
        }
    }

    fn metadata(&self) -> Result<Metadata> {
        let metadata = self.file.metadata();
        metadata.map_err(|error| Error::io("stat", &self.path, error))
    }
}

/// Gives a file its name back that a killed process was removing. Returns where it is now; `None` if a
/// process is removing it, or if its own name is not known.
///
/// If another file has that name by now, both stay: this one as `NAME.annals-saved`.
pub(crate) fn put_back_removed(removed: &Path) -> Result<Option<PathBuf>> {
    let Some(name) = removed.file_name().and_then(name_before_removal) else {
        return Ok(None);
    };
    let Some((file, metadata)) = open_document(removed)? else {
        return Ok(None);
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(None),
        Err(fs::TryLockError::Error(error)) => return Err(Error::io("lock", removed, error)),
    }
    match is_at_path(removed, &metadata)? {
        true => give_back(removed, &removed.with_file_name(name)),
        false => Ok(None),
    }
}

/// Renames a file to `path`, or to `NAME.annals-saved` if another file has that name. Returns its new
/// name; `None` if another process has given it one.
fn give_back(renamed: &Path, path: &Path) -> Result<Option<PathBuf>> {
    let mut number = 0;
    let mut to = path.to_owned();
    loop {
        match rename_new(renamed, &to) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                number += 1;
                to = saved_path(path, number);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("rename", renamed, error)),
        }
    }
    sync_parent(&to).map_err(|error| Error::io("sync", parent(&to), error))?;
    Ok(Some(to))
}

/// Renames a file that only annals uses to a name that no other file has.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_new(from, to) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        renamed => renamed.map_err(io::Error::from),
    }
}

/// Renames a file to a name that no other file has, where the file system knows such a rename.
fn renameat_new(from: &Path, to: &Path) -> rustix::io::Result<()> {
    let cwd = rustix::fs::CWD;
    rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE)
}

/// The path that a file has while it is removed.
fn removed_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    let mut renamed = std::ffi::OsString::from(PREFIX);
    match name.len() + PREFIX.len() + SUFFIX.len() <= MAX_NAME {
        true => renamed.push(name),
        false => renamed.push(Digest::compute(name.as_encoded_bytes()).short()),
    }
    renamed.push(SUFFIX);
    path.with_file_name(renamed)
}

/// Whether a file has a name that files have while they are removed.
pub(crate) fn is_removed(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// The name that a file had before it was being removed; `None` if it was too long to be kept.
pub(crate) fn name_before_removal(name: &OsStr) -> Option<&str> {
    let name = name.to_str()?.strip_prefix(PREFIX)?;
    let name = name.strip_suffix(SUFFIX)?;
    let is_digest = name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    (!is_digest && !name.is_empty()).then_some(name)
}

fn saved_path(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(match number {
        1 => ".annals-saved".to_owned(),
        number => format!(".annals-saved-{number}"),
    });
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A file of some content, and its removal.
    fn removal(dir: &Path) -> (PathBuf, Removal) {
        let path = dir.join("log.jsonl");
        fs::write(&path, "one\n").unwrap();
        let id = FileId::from(&path.metadata().unwrap());
        let removal = Removal::open(&path, &id).unwrap();
        (path, removal)
    }

    #[test]
    fn unlink_removes_unchanged_file() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        removal.unlink().unwrap();
        assert!(
            Removal::written_after_unlink([&removal].into_iter())
                .unwrap()
                .is_empty()
        );
        assert!(!path.exists());
    }

    #[test]
    fn unlink_refuses_file_written_after_open() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        fs::write(&path, "one\ntwo\n").unwrap();
        assert!(matches!(removal.unlink(), Err(Error::Changed { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn writes_after_unlink_are_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        let mut writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
        removal.unlink().unwrap();
        writer.write_all(b"two\n").unwrap();
        drop(writer);
        assert_eq!(
            Removal::written_after_unlink([&removal].into_iter())
                .unwrap()
                .len(),
            1
        );
        assert_eq!(removal.put_back().unwrap(), path);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn put_back_uses_another_name_if_taken() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        removal.unlink().unwrap();
        for saved in ["log.jsonl.annals-saved", "log.jsonl.annals-saved-2"] {
            fs::write(&path, "other\n").unwrap();
            assert_eq!(removal.put_back().unwrap(), dir.path().join(saved));
            assert_eq!(fs::read(dir.path().join(saved)).unwrap(), b"one\n");
            assert_eq!(fs::read(&path).unwrap(), b"other\n");
        }
    }

    /// Another program replaces the file after the last look at it.
    #[test]
    fn a_file_replaced_at_the_last_moment_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        fs::write(dir.path().join("new"), "other\n").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert!(matches!(
            removal.unlink_renamed(),
            Err(Error::Changed { .. })
        ));
        assert_eq!(fs::read(&path).unwrap(), b"other\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_process_was_removing_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["log.jsonl".to_owned(), "x".repeat(239)] {
            let path = dir.path().join(name);
            let removed = removed_path(&path);
            fs::write(&removed, "one\n").unwrap();
            assert!(is_removed(removed.file_name().unwrap()));
            // As long as a process removes it, it stays.
            let file = File::open(&removed).unwrap();
            file.lock().unwrap();
            assert_eq!(put_back_removed(&removed).unwrap(), None);
            drop(file);
            assert_eq!(put_back_removed(&removed).unwrap(), Some(path.clone()));
            assert_eq!(fs::read(&path).unwrap(), b"one\n");
            assert!(!removed.exists());
        }
    }

    #[test]
    fn what_was_being_removed_goes_beside_a_file_that_has_its_name_now() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("todos.json");
        fs::write(&path, "other\n").unwrap();
        fs::write(removed_path(&path), "one\n").unwrap();
        let saved = dir.path().join("todos.json.annals-saved");
        let back = put_back_removed(&removed_path(&path)).unwrap();
        assert_eq!(back, Some(saved.clone()));
        assert_eq!(fs::read(&path).unwrap(), b"other\n");
        assert_eq!(fs::read(&saved).unwrap(), b"one\n");
    }

    /// Of a name that is too long to be kept, the file is known and its name is not.
    #[test]
    fn a_file_of_the_longest_name_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x".repeat(255));
        fs::write(&path, "one\n").unwrap();
        let id = FileId::from(&path.metadata().unwrap());
        Removal::open(&path, &id).unwrap().unlink().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let removed = removed_path(&path);
        assert!(is_removed(removed.file_name().unwrap()));
        fs::write(&removed, "one\n").unwrap();
        assert_eq!(put_back_removed(&removed).unwrap(), None);
        assert!(removed.exists());
    }

    #[test]
    fn unlink_refuses_replaced_file() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        fs::write(dir.path().join("new"), "one\n").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert!(matches!(removal.unlink(), Err(Error::Changed { .. })));
        assert!(path.exists());
    }
}
