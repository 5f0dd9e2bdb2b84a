//! Removes or replaces files whose content is stored elsewhere, without losing concurrent writes.
//!
//! Other programs take no locks. One of them may append to a file, replace it, or keep it open for later
//! writes at any moment of the removal. So a removal has four steps:
//!
//! 1. [`Removal::wait_until_closed`] waits for programs that have the file open for writing. It is the
//!    only step that takes time: while a file has another name, readers do not find it, and a program
//!    that appends by path creates a second file.
//! 2. [`Removal::rename_away`] renames the file to `.annals-NAME.removed`. From then on no program can
//!    open it by its path. The name is never taken from another file.
//! 3. [`Removal::ensure_final`] checks that the renamed file is the expected one, is unchanged, and that no
//!    program opened it for writing after step 1. Then its content is final.
//! 4. [`Removal::unlink`] removes it. If step 3 fails, [`Removal::put_back`] renames it back instead. It is
//!    the same inode, so programs that have it open keep writing to the right file.
//!
//! [`Removal::remove`] does all of it for one file. [`Removal::replace`] differs in step 4: it renames a new
//! file over the renamed one, and then to the path. So after a kill at any moment exactly one of the two
//! files has a name, and [`put_back_removed`] gives it the right one.
//!
//! The file is locked meanwhile. A renamed file without a lock was left by a process that was killed;
//! [`put_back_removed`] renames it back.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use super::file_id::is_at_path;
use super::lease::is_closed_for_writing;
use super::open_files;
use super::presence::exists;
use super::replace::{Digest, open_document, parent, sync_parent};
use super::{FileId, sys};
use crate::removal_name::{REMOVED_PREFIX, REMOVED_SUFFIX, RemovalName, saved_suffix};
use crate::{Error, Result};

/// Time that programs have to close a file that is being removed.
const CLOSING: Duration = Duration::from_secs(1);

/// Longest file name in bytes.
const MAX_NAME: usize = 255;

/// Number of saved files of one name among which a file is looked for.
const MAX_SAVED: usize = 100;

/// A file that is being removed.
#[derive(Debug)]
pub struct Removal {
    path: PathBuf,
    /// Name of the file between [`Removal::rename_away`] and [`Removal::unlink`].
    renamed: PathBuf,
    file: File,
    id: FileId,
}

impl Removal {
    /// Opens the file at `path`, which must still be what `id` says.
    pub fn open(path: &Path, id: &FileId) -> Result<Self> {
        let changed = || Error::Changed {
            path: path.to_owned(),
        };
        let (file, metadata) = open_document(path)?.ok_or_else(changed)?;
        match FileId::from(&metadata).untouched(id) {
            true => Removal::from_file(path, &file, *id),
            false => Err(changed()),
        }
    }

    /// Returns the removal of a file that is already open.
    pub(crate) fn from_file(path: &Path, file: &File, id: FileId) -> Result<Self> {
        let file = file.try_clone();
        Ok(Removal {
            path: path.to_owned(),
            renamed: removed_path(path),
            file: file.map_err(|error| Error::io("open", path, error))?,
            id,
        })
    }

    /// Removes the file. Fails, and leaves it at its path, if another program wrote to it, replaced it or
    /// has it open for writing.
    pub fn remove(&self) -> Result<()> {
        self.when_final(|| self.unlink())
    }

    /// Replaces the file by a synced one in the same directory. Fails like [`Self::remove`].
    pub(crate) fn replace(&self, new: NamedTempFile) -> Result<()> {
        let failed = |error| Error::io("replace", &self.path, error);
        // It gets the name of a file that is being removed, and is marked as one.
        new.as_file().lock().map_err(failed)?;
        let metadata = new.as_file().metadata().map_err(failed)?;
        let new_file = Removal::from_file(&self.path, new.as_file(), FileId::from(&metadata))?;
        self.when_final(|| {
            // After a power loss, the second rename must not be there without the first.
            sync_parent(&self.path).map_err(|e| Error::io("sync", parent(&self.path), e))?;
            let renamed = new.persist(&self.renamed);
            renamed.map(drop).map_err(|error| failed(error.error))
        })?;
        match new_file.give_back() {
            None => Ok(()),
            Some(problem) => Err(self.changed_error().with_outcome(problem)),
        }
    }

    /// Calls `act` once the file is renamed and its content is final. If anything fails, puts it back.
    fn when_final(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        Removal::wait_until_closed(std::iter::once((self.path.as_path(), &self.id)))?;
        self.rename_away()?;
        let done = Removal::ensure_final(std::iter::once(self)).and_then(|()| act());
        done.map_err(|error| self.put_back(error))
    }

    /// Waits until no other program has one of the files open for writing. Fails if one still has after
    /// a moment.
    pub fn wait_until_closed<'a>(
        files: impl Iterator<Item = (&'a Path, &'a FileId)> + Clone,
    ) -> Result<()> {
        // A recent look at all processes is enough here: `ensure_final` looks again.
        if open_files::ensure_not_open(files.clone()).is_ok() {
            return Ok(());
        }
        let until = Instant::now() + CLOSING;
        loop {
            match ensure_closed(files.clone()) {
                Err(_) if Instant::now() < until => thread::sleep(Duration::from_millis(20)),
                closed => return closed,
            }
        }
    }

    /// Renames the file. Fails, and leaves the file at its path, if another program wrote to it or
    /// replaced it since it was opened.
    pub fn rename_away(&self) -> Result<()> {
        let now = self.path.symlink_metadata();
        let now = now.map_err(|error| Error::io("stat", &self.path, error))?;
        if !FileId::from(&now).untouched(&self.id) {
            return Err(self.changed_error());
        }
        self.rename_whatever_is_there()
    }

    /// Renames the file at the path. If it is another one than this, renames it back and fails.
    fn rename_whatever_is_there(&self) -> Result<()> {
        // The lock marks a removal in progress. The caller may hold the lock of a log already.
        let _ = self.file.try_lock();
        self.rename_to_removed()?;
        let found = match self.renamed.symlink_metadata() {
            Ok(found) => FileId::from(&found),
            // Another process put it back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.changed_error());
            }
            Err(error) => return Err(Error::io("stat", &self.renamed, error)),
        };
        match found.same_file(&self.id) {
            true => Ok(()),
            false => Err(self.put_back(self.changed_error())),
        }
    }

    /// Renames the file at the path to its name for the removal. A file that has this name already is
    /// the only one with its content: another process is removing it, or was killed.
    fn rename_to_removed(&self) -> Result<()> {
        let renamed = match sys::rename_new(&self.path, &self.renamed) {
            Err(error) if sys::is_rename_unsupported(&error) => self.rename_over_placeholder(),
            renamed => renamed,
        };
        renamed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::RemovalPending {
                path: self.path.clone(),
                renamed: self.renamed.clone(),
            },
            _ => Error::io("remove", &self.path, error),
        })
    }

    /// Like [`sys::rename_new`], on a file system without such a rename: creates an empty file with the new
    /// name, which fails if there is one, and renames over it. Other processes leave that file alone
    /// while it is locked.
    fn rename_over_placeholder(&self) -> io::Result<()> {
        let mut options = File::options();
        options.write(true).create_new(true);
        let placeholder = sys::owner_only(&mut options).open(&self.renamed)?;
        placeholder.try_lock()?;
        // Before the lock, a process may have taken it for the rest of a removal.
        let metadata = placeholder.metadata()?;
        if !is_at_path(&self.renamed, &metadata).unwrap_or(false) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let renamed = fs::rename(&self.path, &self.renamed);
        if renamed.is_err() {
            let _ = fs::remove_file(&self.renamed);
        }
        renamed
    }

    /// Checks that renamed files are unchanged and that no other program has one open for writing. Does
    /// not wait: see [`Self::wait_until_closed`].
    pub fn ensure_final<'a>(renamed: impl Iterator<Item = &'a Removal> + Clone) -> Result<()> {
        // The caller locks logs without opening them for writing. Only a file that someone has open, or
        // for which the system grants no lease, is looked for among the open files of all processes.
        let maybe_open = renamed
            .clone()
            .filter(|it| !is_closed_for_writing(&it.file));
        ensure_closed(maybe_open.map(|it| (it.path.as_path(), &it.id)))?;
        for removal in renamed {
            let now = removal.file.metadata();
            let now = now.map_err(|error| Error::io("stat", &removal.path, error))?;
            if FileId::from(&now) != removal.id {
                return Err(removal.changed_error());
            }
        }
        Ok(())
    }

    /// Removes the renamed file.
    pub fn unlink(&self) -> Result<()> {
        let removed = fs::remove_file(&self.renamed);
        removed.map_err(|error| Error::io("remove", &self.path, error))
    }

    /// Renames the file back after a failed removal. If another file has its name now, both are kept: this
    /// one as `NAME.annals-saved`. Returns the error that the caller reports.
    pub fn put_back(&self, error: Error) -> Error {
        match self.give_back() {
            None => error,
            Some(problem) => error.with_outcome(problem),
        }
    }

    /// Renames the file to its path. Returns a description of the outcome if it has another name now.
    fn give_back(&self) -> Option<String> {
        let path = self.path.display();
        match give_back(&self.renamed, &self.path) {
            Ok(Some(back)) if back != self.path => Some(format!(
                "another file has the name {path} now, so this one is saved as {}",
                back.display()
            )),
            Ok(None) if self.current_path().is_none() => {
                Some(format!("another program removed {path} meanwhile"))
            }
            Ok(_) => None,
            Err(other) => Some(format!(
                "{} could not be renamed back to {path} ({other}); `annals repair --apply` does it",
                self.renamed.display(),
            )),
        }
    }

    /// Returns the path of the file, if it has one of the names that it can have before, during or after a
    /// failed removal. Only then its copies are not the last ones.
    pub(crate) fn current_path(&self) -> Option<PathBuf> {
        let saved = (1..=MAX_SAVED).map(|number| saved_path(&self.path, number));
        let names = [self.path.clone(), self.renamed.clone()];
        let is_it = |path: &PathBuf| {
            let found = path.symlink_metadata();
            found.is_ok_and(|found| FileId::from(&found).same_file(&self.id))
        };
        names.into_iter().chain(saved).find(is_it)
    }

    fn changed_error(&self) -> Error {
        Error::Changed {
            path: self.path.clone(),
        }
    }
}

/// Fails if another program has one of the files open for writing right now.
fn ensure_closed<'a>(files: impl Iterator<Item = (&'a Path, &'a FileId)>) -> Result<()> {
    match open_files::find_holder(files) {
        None => Ok(()),
        Some((path, holder)) => Err(Error::Held {
            path: path.to_owned(),
            holder,
            can_insist: false,
        }),
    }
}

/// Gives a file its name back that a killed process was removing. Returns where it is now; `None` if a
/// process is removing it, or if its own name is not known.
///
/// If another file has that name by now, both stay: this one as `NAME.annals-saved`.
pub fn put_back_removed(removed: &Path) -> Result<Option<PathBuf>> {
    let name = removed.file_name().and_then(RemovalName::parse);
    match name {
        Some(RemovalName::Removed(Some(name))) => {
            put_back_from(removed, &removed.with_file_name(name))
        }
        Some(RemovalName::Removed(None) | RemovalName::Saved(_)) | None => Ok(None),
    }
}

/// Like [`put_back_removed`], for the file at a path, if a killed process was removing it.
pub fn put_back_file(path: &Path) -> Result<Option<PathBuf>> {
    put_back_from(&removed_path(path), path)
}

fn put_back_from(removed: &Path, path: &Path) -> Result<Option<PathBuf>> {
    let Some((file, metadata)) = open_document(removed)? else {
        return Ok(None);
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(None),
        Err(fs::TryLockError::Error(error)) => return Err(Error::io("lock", removed, error)),
    }
    if !is_at_path(removed, &metadata)? {
        return Ok(None);
    }
    if metadata.len() == 0 && exists(path)? {
        // A placeholder: see `rename_over_placeholder`.
        fs::remove_file(removed).map_err(|error| Error::io("remove", removed, error))?;
        return Ok(None);
    }
    give_back(removed, path)
}

/// Renames a file to `path`, or to `NAME.annals-saved` if another file has that name. Returns its new
/// name; `None` if another process has given it one.
fn give_back(renamed: &Path, path: &Path) -> Result<Option<PathBuf>> {
    let mut number = 0;
    let mut to = path.to_owned();
    loop {
        match rename_new(renamed, &to) {
            Ok(()) => break,
            // A process was killed in `rename_new`.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && are_same_file(renamed, &to) =>
            {
                let removed = fs::remove_file(renamed);
                removed.map_err(|error| Error::io("remove", renamed, error))?;
                break;
            }
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
    match sys::rename_new(from, to) {
        Err(error) if sys::is_rename_unsupported(&error) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        renamed => renamed,
    }
}

fn are_same_file(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| path.symlink_metadata().map(|found| FileId::from(&found));
    matches!((id(one), id(other)), (Ok(one), Ok(other)) if one.same_file(&other))
}

/// The path that a file has while it is removed.
fn removed_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    let mut renamed = std::ffi::OsString::from(REMOVED_PREFIX);
    match name.len() + REMOVED_PREFIX.len() + REMOVED_SUFFIX.len() <= MAX_NAME {
        true => renamed.push(name),
        false => renamed.push(Digest::compute(name.as_encoded_bytes()).short()),
    }
    renamed.push(REMOVED_SUFFIX);
    path.with_file_name(renamed)
}

fn saved_path(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(saved_suffix(number));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::removal_name::is_removed;

    /// A file of some content, and its removal.
    fn removal(dir: &Path) -> (PathBuf, Removal) {
        let path = dir.join("log.jsonl");
        fs::write(&path, "one\n").unwrap();
        let id = FileId::from(&path.metadata().unwrap());
        let removal = Removal::open(&path, &id).unwrap();
        (path, removal)
    }

    fn ensure_final(removal: &Removal) -> Result<()> {
        Removal::ensure_final(std::iter::once(removal))
    }

    #[test]
    fn an_unchanged_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (_, removal) = removal(dir.path());
        removal.rename_away().unwrap();
        ensure_final(&removal).unwrap();
        removal.unlink().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn rename_away_refuses_file_written_after_open() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        fs::write(&path, "one\ntwo\n").unwrap();
        assert!(matches!(removal.rename_away(), Err(Error::Changed { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_file_written_after_the_rename_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        let mut writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
        removal.rename_away().unwrap();
        writer.write_all(b"two\n").unwrap();
        let error = ensure_final(&removal).unwrap_err();
        let error = removal.put_back(error);
        assert!(matches!(error, Error::Changed { .. }), "{error}");
        // It is the same file, so later writes reach it.
        writer.write_all(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
    }

    /// The age of a file says nothing about who has it open.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_a_program_keeps_open_is_not_final() {
        let dir = tempfile::tempdir().unwrap();
        let (path, _) = removal(dir.path());
        let old = std::time::SystemTime::now() - Duration::from_secs(90 * 24 * 60 * 60);
        let file = File::options().append(true).open(&path).unwrap();
        file.set_modified(old).unwrap();
        let mut holder = std::process::Command::new("sleep")
            .arg("60")
            .stdout(file)
            .spawn()
            .unwrap();
        let id = FileId::from(&path.metadata().unwrap());
        let removal = Removal::open(&path, &id).unwrap();
        removal.rename_away().unwrap();
        let error = ensure_final(&removal).unwrap_err();
        assert!(matches!(&error, Error::Held { path: held, .. } if *held == path));
        removal.put_back(error);
        assert!(path.exists());
        holder.kill().unwrap();
        holder.wait().unwrap();
        let id = FileId::from(&path.metadata().unwrap());
        let removal = Removal::open(&path, &id).unwrap();
        removal.rename_away().unwrap();
        ensure_final(&removal).unwrap();
    }

    /// The lock of the caller does not keep the kernel from granting a lease.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_log_that_is_only_locked_is_not_open_for_writing() {
        use crate::{AppendOptions, Log};
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        for lock_only in [true, false] {
            let options = AppendOptions {
                lock_only,
                ..AppendOptions::default()
            };
            let log = Log::open(&path, options).unwrap();
            let look = |_: &File| Ok::<_, Error>(is_closed_for_writing(&removal.file));
            assert_eq!(log.with_lock(look).unwrap(), lock_only);
        }
    }

    /// A new file in the directory, synced.
    fn new_file(dir: &Path) -> NamedTempFile {
        let mut new = NamedTempFile::new_in(dir).unwrap();
        new.write_all(b"new\n").unwrap();
        new
    }

    #[test]
    fn replace_puts_the_new_file_at_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        removal.replace(new_file(dir.path())).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn replace_of_a_changed_file_leaves_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        fs::write(&path, "one\ntwo\n").unwrap();
        let error = removal.replace(new_file(dir.path())).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn replace_of_a_file_that_a_program_keeps_open_leaves_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        let file = File::options().append(true).open(&path).unwrap();
        let mut holder = std::process::Command::new("sleep")
            .arg("60")
            .stdout(file)
            .spawn()
            .unwrap();
        let error = removal.replace(new_file(dir.path())).unwrap_err();
        holder.kill().unwrap();
        holder.wait().unwrap();
        let insists = matches!(
            error,
            Error::Held {
                can_insist: false,
                ..
            }
        );
        assert!(insists, "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// Another program creates the file again while it has no name.
    #[test]
    fn replace_keeps_both_files_if_the_name_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        removal.rename_away().unwrap();
        fs::write(&path, "other\n").unwrap();
        let problem = removal.give_back().unwrap();
        let saved = dir.path().join("log.jsonl.annals-saved");
        assert!(problem.contains(saved.to_str().unwrap()), "{problem}");
        assert_eq!(fs::read(&path).unwrap(), b"other\n");
        assert_eq!(fs::read(saved).unwrap(), b"one\n");
    }

    #[test]
    fn put_back_uses_another_name_if_taken() {
        let dir = tempfile::tempdir().unwrap();
        let (path, first) = removal(dir.path());
        first.rename_away().unwrap();
        let (_, second) = removal(dir.path());
        let error = first.put_back(first.changed_error()).to_string();
        let saved = dir.path().join("log.jsonl.annals-saved");
        assert!(error.contains(saved.to_str().unwrap()), "{error}");
        second.rename_away().unwrap();
        fs::write(&path, "other\n").unwrap();
        let error = second.put_back(second.changed_error()).to_string();
        assert!(error.contains("log.jsonl.annals-saved-2"), "{error}");
        assert_eq!(fs::read(saved).unwrap(), b"one\n");
        assert_eq!(fs::read(&path).unwrap(), b"other\n");
    }

    /// Another program replaces the file after the last check.
    #[test]
    fn a_file_replaced_at_the_last_moment_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        fs::write(dir.path().join("new"), "other\n").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert!(matches!(
            removal.rename_whatever_is_there(),
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
            assert!(is_removed(&removed));
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
    fn interrupted_removal_restores_the_file_under_another_name_if_its_name_is_taken() {
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
        let removal = Removal::open(&path, &id).unwrap();
        removal.rename_away().unwrap();
        removal.unlink().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let removed = removed_path(&path);
        assert!(is_removed(&removed));
        fs::write(&removed, "one\n").unwrap();
        assert_eq!(put_back_removed(&removed).unwrap(), None);
        assert!(removed.exists());
        // Whoever knows the name can put it back.
        assert_eq!(put_back_file(&path).unwrap(), Some(path.clone()));
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
    }

    /// The file of that name is the only one with its content.
    #[test]
    fn rename_away_never_replaces_a_file_that_is_being_removed() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["log.jsonl".to_owned(), "x".repeat(255)] {
            let path = dir.path().join(name);
            fs::write(&path, "new\n").unwrap();
            let removed = removed_path(&path);
            fs::write(&removed, "old\n").unwrap();
            let id = FileId::from(&path.metadata().unwrap());
            let removal = Removal::open(&path, &id).unwrap();
            let error = removal.rename_away().unwrap_err().to_string();
            assert!(error.contains(removed.to_str().unwrap()), "{error}");
            // As on a file system that knows no rename to a new name.
            let error = removal.rename_over_placeholder().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"new\n");
            assert_eq!(fs::read(&removed).unwrap(), b"old\n");
        }
    }

    #[test]
    fn file_is_renamed_over_a_placeholder() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        removal.rename_over_placeholder().unwrap();
        assert!(!path.exists());
        assert_eq!(fs::read(&removal.renamed).unwrap(), b"one\n");
        fs::rename(&removal.renamed, &path).unwrap();
        // Without a file to rename, no placeholder stays.
        fs::remove_file(&path).unwrap();
        assert!(removal.rename_over_placeholder().is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// A process was killed between the creation of a placeholder and the rename.
    #[test]
    fn placeholder_is_removed_once_it_is_not_locked() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        let placeholder = File::create(&removal.renamed).unwrap();
        placeholder.lock().unwrap();
        assert_eq!(put_back_removed(&removal.renamed).unwrap(), None);
        assert!(removal.renamed.exists());
        drop(placeholder);
        assert_eq!(put_back_removed(&removal.renamed).unwrap(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
        // An empty file without a successor is put back.
        fs::remove_file(&path).unwrap();
        fs::write(&removal.renamed, "").unwrap();
        assert_eq!(
            put_back_removed(&removal.renamed).unwrap(),
            Some(path.clone())
        );
    }

    /// A process was killed while it put a file back by linking it.
    #[test]
    fn file_with_both_names_keeps_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        fs::hard_link(&path, &removal.renamed).unwrap();
        assert_eq!(
            put_back_removed(&removal.renamed).unwrap(),
            Some(path.clone())
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
    }

    #[test]
    fn current_path_follows_the_file_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        assert_eq!(removal.current_path(), Some(path.clone()));
        removal.rename_away().unwrap();
        assert_eq!(removal.current_path(), Some(removal.renamed.clone()));
        fs::write(&path, "other\n").unwrap();
        removal.put_back(removal.changed_error());
        let saved = dir.path().join("log.jsonl.annals-saved");
        assert_eq!(removal.current_path(), Some(saved.clone()));
        fs::remove_file(&saved).unwrap();
        assert_eq!(removal.current_path(), None);
        let error = removal.put_back(removal.changed_error()).to_string();
        assert!(error.contains("another program removed"), "{error}");
    }

    /// A file that a program has open is found by its name all the time.
    #[cfg(target_os = "linux")]
    #[test]
    fn open_file_is_waited_for_before_it_is_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        let file = File::options().append(true).open(&path).unwrap();
        let mut holder = std::process::Command::new("sleep")
            .arg("60")
            .stdout(file)
            .spawn()
            .unwrap();
        let wait = || Removal::wait_until_closed(std::iter::once((path.as_path(), &removal.id)));
        let error = wait().unwrap_err();
        assert!(matches!(
            error,
            Error::Held {
                can_insist: false,
                ..
            }
        ));
        let ending = thread::spawn(move || {
            thread::sleep(CLOSING / 4);
            holder.kill().unwrap();
            holder.wait().unwrap();
        });
        wait().unwrap();
        ending.join().unwrap();
        assert!(path.exists());
    }

    #[test]
    fn rename_away_refuses_replaced_file() {
        let dir = tempfile::tempdir().unwrap();
        let (path, removal) = removal(dir.path());
        fs::write(dir.path().join("new"), "one\n").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert!(matches!(removal.rename_away(), Err(Error::Changed { .. })));
        assert!(path.exists());
    }
}
