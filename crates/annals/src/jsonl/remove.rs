//! Removes files whose content is safe elsewhere, and saves what is written to them meanwhile.
//!
//! Foreign writers take no lock. One may append between the last look at a file and its removal, or
//! open the file before the removal and append after it. So a removed file stays open here: once it
//! has no name, nobody can open it any more, and when nobody has it open for writing, its content is
//! final. If that differs from what was expected, the file gets a name again.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::FileId;
use super::holder;
use super::lock::{Lock, Patience};
use super::relocate::copy;
use super::replace::{LOCK_WAIT, open_dir, open_document, parent};
use crate::{Error, Result};

/// A file that nobody wrote to for so long is in no use now. Whether anyone has it open is not asked:
/// that costs a look at all processes.
const IN_USE: Duration = Duration::from_secs(24 * 60 * 60);

/// Programs that have a removed file open get this long to close it.
const CLOSING: Duration = Duration::from_secs(1);

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
            true => Removal::of(path, &file, *id),
            false => Err(changed()),
        }
    }

    /// The removal of a file that is open already.
    pub(super) fn of(path: &Path, file: &File, id: FileId) -> Result<Self> {
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
            return Err(self.changed());
        }
        fs::remove_file(&self.path).map_err(|error| Error::io("remove", &self.path, error))
    }

    /// Those of some files without names that someone wrote to after the last look at them, or may still
    /// write to. Programs that have one open for writing get a moment to close it.
    pub(crate) fn written<'a>(
        removed: impl Iterator<Item = &'a Removal> + Clone,
    ) -> Result<Vec<&'a Removal>> {
        let in_use: Vec<&FileId> = removed
            .clone()
            .filter(|it| it.is_in_use())
            .map(|it| &it.id)
            .collect();
        let until = Instant::now() + CLOSING;
        let mut held = holder::held_of(&in_use);
        while !held.is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
            held = holder::held_of(&in_use);
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
        let _lock = Lock::acquire(&dir, parent(&self.path), Patience::new(LOCK_WAIT))?;
        let mut number = 0;
        let mut to = self.path.clone();
        loop {
            let temp = copy(&self.file, &self.metadata()?, &to)?;
            match temp.persist_noclobber(&to) {
                Ok(_) => break,
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    to = saved(&self.path, number);
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
    pub(crate) fn changed(&self) -> Error {
        Error::Changed {
            path: self.path.clone(),
        }
    }

    fn metadata(&self) -> Result<Metadata> {
        let metadata = self.file.metadata();
        metadata.map_err(|error| Error::io("stat", &self.path, error))
    }
}

fn saved(path: &Path, number: usize) -> PathBuf {
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
    fn a_file_that_nobody_wrote_to_goes() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        removal.unlink().unwrap();
        assert!(Removal::written([&removal].into_iter()).unwrap().is_empty());
        assert!(!path.exists());
    }

    #[test]
    fn a_file_written_to_after_it_was_opened_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        fs::write(&path, "one\ntwo\n").unwrap();
        assert!(matches!(removal.unlink(), Err(Error::Changed { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn what_is_written_to_a_file_without_a_name_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        let mut writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
        removal.unlink().unwrap();
        writer.write_all(b"two\n").unwrap();
        drop(writer);
        assert_eq!(Removal::written([&removal].into_iter()).unwrap().len(), 1);
        assert_eq!(removal.put_back().unwrap(), path);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_file_whose_name_is_taken_gets_another_one() {
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

    #[test]
    fn a_replaced_file_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        fs::write(dir.path().join("new"), "one\n").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert!(matches!(removal.unlink(), Err(Error::Changed { .. })));
        assert!(path.exists());
    }
}
