//! Staging directory for files of a conversion or of a restored session.
//!
//! Files are written to a directory within the target. They are renamed into place when they are
//! complete and durable, some hundreds at a time or all at the end: one sync of the file system
//! costs little more than one of a single file. An interrupted conversion leaves complete files and
//! that directory, which the next one removes.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;

use super::Root;
use crate::error::{Error, Result};
use annals_jsonl::{self as jsonl, FileId, Removal};

/// Name of the staging directory.
pub(crate) const DIR_NAME: &str = ".annals-convert";

#[derive(Debug)]
pub(crate) struct StagingDir {
    root: Root,
    dir: PathBuf,
    commit_mode: CommitMode,
    /// Directories created for the target, outermost first.
    created_dirs: Vec<PathBuf>,
    /// Held until the conversion is done.
    _lock: File,
    next: AtomicU64,
    pending: Mutex<Vec<PendingFile>>,
    /// Files that were not renamed because their paths exist.
    taken: Mutex<Vec<PathBuf>>,
    /// Directories with new names that are not synced yet.
    touched: Mutex<BTreeSet<PathBuf>>,
}

impl StagingDir {
    /// Prepares a target and removes what an earlier conversion left. Refuses a target that another
    /// conversion is writing to.
    pub(crate) fn open(root: &Root) -> Result<Self> {
        StagingDir::with_name(root, DIR_NAME, "conversion", CommitMode::Batched)
    }

    /// Same as [`open`](Self::open), with another name, for another kind of work.
    pub(crate) fn with_name(
        root: &Root,
        name: &str,
        work: &str,
        naming: CommitMode,
    ) -> Result<Self> {
        let mut made: Vec<PathBuf> = Vec::new();
        for dir in root.path.ancestors() {
            // The parent of a relative path is the current directory.
            if dir.as_os_str().is_empty() || jsonl::exists(dir)? {
                break;
            }
            made.push(dir.to_owned());
        }
        made.reverse();
        jsonl::ensure_dir(&root.path)?;
        let dir = root.path.join(name);
        root.ensure_inside(&dir)?;
        jsonl::ensure_dir(&dir)?;
        let lock = File::open(&dir).map_err(|error| Error::io("open", &dir, error))?;
        match rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::refused(format!(
                    "another {work} is writing to {}; wait until it finishes",
                    root.path.display()
                )));
            }
            Err(error) => return Err(Error::io("lock", &dir, error.into())),
        }
        let left = fs::read_dir(&dir).map_err(|error| Error::io("read", &dir, error))?;
        for entry in left {
            let entry = entry.map_err(|error| Error::io("read", &dir, error))?;
            let path = entry.path();
            fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
        }
        Ok(StagingDir {
            root: root.clone(),
            dir,
            commit_mode: naming,
            created_dirs: made,
            _lock: lock,
            next: AtomicU64::new(0),
            pending: Mutex::default(),
            taken: Mutex::default(),
            touched: Mutex::default(),
        })
    }

    /// Removes the staging directory with its files, and the target if it was created for it.
    pub(crate) fn abandon(self) {
        // Remaining files are removed by the next run.
        let _ = fs::remove_dir_all(&self.dir);
        for dir in self.created_dirs.iter().rev() {
            // Fails if the directory is not empty, as intended.
            let _ = fs::remove_dir(dir);
        }
    }

    /// Creates a file that will be renamed to `within` in the target.
    pub(crate) fn file(&self, within: &Path) -> Result<StagedFile> {
        let to = self.root.path.join(within);
        self.root.ensure_inside(&to)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(number.to_string());
        let file = File::create_new(&path).map_err(|error| Error::io("create", &path, error))?;
        file.set_permissions(Permissions::from_mode(0o600))
            .map_err(|error| Error::io("create", &path, error))?;
        Ok(StagedFile {
            temp: path,
            to,
            out: BufWriter::with_capacity(256 << 10, file),
            mode: None,
            mtime: None,
            written: 0,
        })
    }

    /// Removes the file at the path of a staged file, unless another program has it open for writing.
    pub(crate) fn remove_existing(&self, staged: &StagedFile) -> Result<()> {
        match jsonl::metadata_if_exists(&staged.to)? {
            Some(there) => Ok(Removal::open(&staged.to, &FileId::from(&there))?.remove()?),
            None => Ok(()),
        }
    }

    /// Renames a file once it and the files before it are durable. Returns `false` if its path
    /// already exists.
    pub(crate) fn commit(&self, staged: StagedFile) -> Result<bool> {
        self.enqueue(staged, false)
    }

    /// Same as [`commit`](Self::commit), for the file that marks all others as complete: it is
    /// renamed once their names are durable.
    pub(crate) fn commit_last(&self, staged: StagedFile) -> Result<bool> {
        self.enqueue(staged, true)
    }

    fn enqueue(&self, staged: StagedFile, last: bool) -> Result<bool> {
        self.add(self.complete(staged, last)?)
    }

    /// Ends the writing of a file, which is renamed once it is added. With `last`, it marks all others
    /// as complete.
    pub(crate) fn complete(&self, staged: StagedFile, last: bool) -> Result<PendingFile> {
        let StagedFile {
            temp,
            to,
            out,
            mode,
            mtime,
            written: _,
        } = staged;
        let failed = |error| Error::io("write", &to, error);
        let file = out
            .into_inner()
            .map_err(|error| failed(error.into_error()))?;
        if let Some(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode & 0o777))
                .map_err(failed)?;
        }
        if let Some(mtime) = mtime {
            file.set_modified(mtime).map_err(failed)?;
        }
        Ok(PendingFile { temp, to, last })
    }

    /// Adds a complete file to those that are renamed next. Returns `false` if its path exists.
    pub(crate) fn add(&self, file: PendingFile) -> Result<bool> {
        if jsonl::exists(&file.to)? {
            file.discard()?;
            return Ok(false);
        }
        let mut waiting = lock(&self.pending);
        waiting.push(file);
        if self.commit_mode == CommitMode::Batched && waiting.len() >= BATCH {
            self.commit_pending(&mut waiting)?;
        }
        Ok(true)
    }

    /// Syncs the pending files and renames them in order. The files marked `last` follow once all
    /// other names are synced too: of two renames, a file system may keep only the later one.
    fn commit_pending(&self, waiting: &mut Vec<PendingFile>) -> Result<()> {
        self.sync()?;
        let (last, others): (Vec<_>, Vec<_>) = waiting.drain(..).partition(|file| file.last);
        self.rename_files(others)?;
        if !last.is_empty() {
            self.sync()?;
            self.rename_files(last)?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let failed = |error| Error::io("sync", &self.dir, error);
        let dir = File::open(&self.dir).map_err(failed)?;
        rustix::fs::syncfs(&dir).map_err(|error| failed(error.into()))
    }

    fn rename_files(&self, files: Vec<PendingFile>) -> Result<()> {
        for PendingFile { temp, to, last: _ } in files {
            let parent = to.parent().unwrap_or(&self.root.path);
            jsonl::ensure_dir(parent)?;
            if rename_new(&temp, &to)? {
                lock(&self.touched).insert(parent.to_owned());
            } else {
                lock(&self.taken).push(to);
            }
        }
        Ok(())
    }

    /// Renames the remaining files, makes all names durable and removes the staging directory.
    /// Returns the files whose paths were taken in the meantime.
    pub(crate) fn close(self) -> Result<Vec<PathBuf>> {
        self.commit_pending(&mut lock(&self.pending))?;
        for dir in lock(&self.touched).iter() {
            let synced = File::open(dir).and_then(|dir| dir.sync_all());
            synced.map_err(|error| Error::io("sync", dir, error))?;
        }
        fs::remove_dir_all(&self.dir).map_err(|error| Error::io("remove", &self.dir, error))?;
        Ok(std::mem::take(&mut lock(&self.taken)))
    }
}

/// When staged files are renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitMode {
    /// Some hundreds at a time, in order: each is complete by itself.
    Batched,
    /// All at the end: they are complete only together.
    AtEnd,
}

/// Number of files per sync.
const BATCH: usize = 512;

/// A complete file that is not renamed yet.
#[derive(Debug)]
pub(crate) struct PendingFile {
    temp: PathBuf,
    to: PathBuf,
    /// It marks all others as complete.
    last: bool,
}

/// How the file at the path of a pending file relates to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingFile {
    /// There is none.
    Missing,
    /// It has the same content.
    Same,
    /// It begins with the same content.
    Longer,
    /// It has other content.
    Different,
}

impl PendingFile {
    /// Returns its path in the target.
    pub(crate) fn path(&self) -> &Path {
        &self.to
    }

    /// Removes it.
    pub(crate) fn discard(self) -> Result<()> {
        let removed = fs::remove_file(&self.temp);
        removed.map_err(|error| Error::io("remove", &self.temp, error))
    }

    /// Compares it with the file at its path.
    pub(crate) fn existing(&self) -> Result<ExistingFile> {
        let Some(found) = jsonl::metadata_if_exists(&self.to)? else {
            return Ok(ExistingFile::Missing);
        };
        if !found.is_file() {
            return Ok(ExistingFile::Different);
        }
        let failed = |error| Error::io("read", &self.to, error);
        let mut own =
            BufReader::with_capacity(READ_BUFFER, File::open(&self.temp).map_err(failed)?);
        let other = jsonl::OpenLog::open(&self.to).map_err(failed)?;
        let other = jsonl::RangeReader::from_offset(other, 0);
        let mut other = BufReader::with_capacity(READ_BUFFER, other);
        loop {
            let (left, right) = (own.fill_buf(), other.fill_buf());
            let (left, right) = (left.map_err(failed)?, right.map_err(failed)?);
            let len = left.len().min(right.len());
            match (left.is_empty(), right.is_empty()) {
                (true, true) => return Ok(ExistingFile::Same),
                (true, false) => return Ok(ExistingFile::Longer),
                _ if len == 0 || left.get(..len) != right.get(..len) => {
                    return Ok(ExistingFile::Different);
                }
                _ => {}
            }
            own.consume(len);
            other.consume(len);
        }
    }
}

/// Size of the buffers of a comparison.
const READ_BUFFER: usize = 64 << 10;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Renames a file. Returns `false` if the new path exists.
fn rename_new(temp: &Path, to: &Path) -> Result<bool> {
    let failed = |error| Error::io("create", to, error);
    let cwd = rustix::fs::CWD;
    match rustix::fs::renameat_with(cwd, temp, cwd, to, rustix::fs::RenameFlags::NOREPLACE) {
        Ok(()) => return Ok(true),
        Err(Errno::EXIST) => {}
        // Not every file system supports `NOREPLACE`.
        Err(Errno::INVAL | Errno::NOSYS) => match fs::hard_link(temp, to) {
            Ok(()) => {
                fs::remove_file(temp).map_err(failed)?;
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        },
        Err(error) => return Err(failed(error.into())),
    }
    fs::remove_file(temp).map_err(failed)?;
    Ok(false)
}

/// A file in the staging directory.
#[derive(Debug)]
pub(crate) struct StagedFile {
    temp: PathBuf,
    to: PathBuf,
    out: BufWriter<File>,
    mode: Option<u32>,
    mtime: Option<SystemTime>,
    written: u64,
}

impl StagedFile {
    /// Returns the number of bytes written.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        self.out
            .write_all(bytes)
            .map_err(|error| Error::io("write", &self.to, error))
    }

    /// Returns the file, for setting its metadata.
    pub(crate) fn file(&self) -> &File {
        self.out.get_ref()
    }

    /// Appends a line.
    pub(crate) fn put_line(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(bytes)?;
        self.put(b"\n")
    }

    /// Sets the mode and the modification time of the original file.
    pub(crate) fn set_metadata(&mut self, mode: u32, mtime: i64) {
        self.mode = Some(mode);
        self.mtime = system_time(mtime);
    }
}

/// Returns a time given in nanoseconds since 1970.
pub(crate) fn system_time(nanoseconds: i64) -> Option<SystemTime> {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    match nanoseconds >= 0 {
        true => SystemTime::UNIX_EPOCH.checked_add(distance),
        false => SystemTime::UNIX_EPOCH.checked_sub(distance),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_end_mode_names_no_file_before_close() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::claude_code(dir.path());
        let stage = StagingDir::with_name(&root, ".stage", "test", CommitMode::AtEnd).unwrap();
        for number in 0..=BATCH {
            let staged = stage.file(Path::new(&number.to_string())).unwrap();
            assert!(stage.commit(staged).unwrap());
        }
        let names = || fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names(), 1, "the stage alone");
        assert!(stage.close().unwrap().is_empty());
        assert_eq!(names(), BATCH + 1);
    }

    #[test]
    fn system_time_handles_times_before_1970() {
        let before = system_time(-1_500_000_000).unwrap();
        let distance = SystemTime::UNIX_EPOCH.duration_since(before).unwrap();
        assert_eq!(distance, Duration::from_millis(1_500));
        let after = system_time(1_500_000_000).unwrap();
        let distance = after.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(distance, Duration::from_millis(1_500));
    }

    fn whole(stage: &StagingDir, within: &str) -> StagedFile {
        let mut staged = stage.file(Path::new(within)).unwrap();
        staged.put_line(b"{}").unwrap();
        staged
    }

    #[test]
    fn commit_last_names_the_file_after_all_others() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new("claude-code", dir.path()).unwrap();
        let stage = StagingDir::open(&root).unwrap();
        stage.commit_last(whole(&stage, "main.jsonl")).unwrap();
        stage.commit(whole(&stage, "first.jsonl")).unwrap();
        stage.commit(whole(&stage, "taken/origin.jsonl")).unwrap();
        // A directory cannot be created at the path of a file.
        fs::write(dir.path().join("taken"), b"").unwrap();
        stage.close().unwrap_err();
        assert!(dir.path().join("first.jsonl").exists());
        assert!(!dir.path().join("main.jsonl").exists());
    }
}
