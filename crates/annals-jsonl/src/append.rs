//! Appends records to a log so that an acknowledged one is never lost.
//!
//! Implements the order of an append: lock → seal → one `write` → read back → unlock → sync. Logs
//! whose own programs lock a separate lock file are written under that lock too: see
//! `lock_file.rs`. Bytes in the log are never changed: a torn tail becomes its own line, and a
//! record that a foreign writer damaged is appended again. Creates no directories and does not
//! parse records.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::batch::Batch;
use super::file_id::is_at_path;
use super::group_commit::SyncError;
use super::lock::{Deadline, Lock};
use super::lock_file::{self, LockFile};
use super::open::OpenFile;
use super::options::{AppendOptions, Create, Durability};
use super::replace::sync_parent;
use super::span::read_span;
use super::thread_lock::ThreadLock;
use super::write_batch::write_batch;
use super::write_io::{SystemIo, WriteIo};
use crate::{Error, Result};

/// The byte range of an acknowledged record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first byte, which is preceded by a `\n` or the start of the file.
    pub offset: u64,
    /// Offset after its `\n`.
    pub end: u64,
}

/// A log open for appending; can be shared between threads.
pub struct Log {
    path: PathBuf,
    /// Lock file of the session, in layouts whose program locks one.
    thread_lock: Option<PathBuf>,
    options: AppendOptions,
    io: Box<dyn WriteIo>,
    poisoned: AtomicBool,
    /// Excludes the threads of this process from each other, which `flock` on a shared
    /// descriptor does not.
    writer: Mutex<Writer>,
}

struct Writer {
    /// Replaced when the path names another inode; writers through the old one still sync the old
    /// one.
    open: Arc<OpenFile>,
    batch: Batch,
}

impl Log {
    /// Opens the log at `path`, which must not be a symbolic link.
    pub fn open(path: impl Into<PathBuf>, options: AppendOptions) -> Result<Self> {
        Self::with_io(path.into(), options, Box::new(SystemIo))
    }

    /// Also takes the lock of this file for each write: see `thread_lock.rs`.
    pub fn with_thread_lock(self, path: Option<PathBuf>) -> Self {
        Self {
            thread_lock: path,
            ..self
        }
    }

    fn with_io(path: PathBuf, options: AppendOptions, device: Box<dyn WriteIo>) -> Result<Self> {
        let open = Arc::new(OpenFile::new(&path, options)?);
        Ok(Self {
            path,
            thread_lock: None,
            options,
            io: device,
            poisoned: AtomicBool::new(false),
            writer: Mutex::new(Writer {
                open,
                batch: Batch::new(),
            }),
        })
    }

    /// The path at which the log was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one record, with or without its final `\n`, and returns once it has the log's
    /// [`Durability`].
    ///
    /// On error the record was not accepted, but may still be in the log, whole or torn.
    pub fn append(&self, record: &[u8]) -> Result<Appended> {
        single(self.commit(|_, _, batch| batch.push(record), |_, _, _| Ok(())))
    }

    /// Appends several records in one `write`.
    pub fn append_all<R: AsRef<[u8]>>(&self, records: &[R]) -> Result<Vec<Appended>> {
        self.commit(
            |_, _, batch| {
                records
                    .iter()
                    .try_for_each(|record| batch.push(record.as_ref()))
            },
            |_, _, _| Ok(()),
        )
    }

    /// Appends a record that `make` builds under the lock, from the length of the log and the file,
    /// in which it can read what was added since its last read.
    ///
    /// `make` must not use this log itself; it may seek in the file. If it fails, nothing is
    /// written.
    pub fn append_with<E: From<Error>>(
        &self,
        make: impl FnOnce(u64, &File) -> Result<Vec<u8>, E>,
    ) -> Result<Appended, E> {
        single(self.commit(
            |end, file, batch| Ok(batch.push(&make(end, file)?)?),
            |_, _, _| Ok(()),
        ))
    }

    /// Like [`append_with`](Self::append_with), for any number of records in one `write`.
    pub fn append_all_with<E: From<Error>>(
        &self,
        make: impl FnOnce(u64, &File) -> Result<Vec<Vec<u8>>, E>,
    ) -> Result<Vec<Appended>, E> {
        self.append_all_tracked(|end, file| Ok((make(end, file)?, ())), |_, _, _| Ok(()))
    }

    /// Like [`append_all_with`](Self::append_all_with), for records about which another file says
    /// something by their offset.
    ///
    /// `make` returns the records and a state. `moved` gets that state, and the length of the log
    /// before the records, whenever another program makes that length differ from the one that
    /// `make` got: before the records are written to a log that replaced theirs, or after they
    /// were found elsewhere. It runs under the lock, as `make` does.
    pub fn append_all_tracked<S, E: From<Error>>(
        &self,
        make: impl FnOnce(u64, &File) -> Result<(Vec<Vec<u8>>, S), E>,
        moved: impl FnMut(&mut S, u64, &File) -> Result<(), E>,
    ) -> Result<Vec<Appended>, E> {
        self.commit(
            |end, file, batch| {
                let (records, state) = make(end, file)?;
                records.iter().try_for_each(|record| batch.push(record))?;
                Ok(state)
            },
            moved,
        )
    }

    /// Runs `look` while no annals process appends; `look` must not use this log itself.
    pub fn with_lock<T, E: From<Error>>(
        &self,
        look: impl FnOnce(&File) -> Result<T, E>,
    ) -> Result<T, E> {
        let patience = Deadline::new(self.options.lock_wait);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let _thread_lock = self.lock_thread(patience)?;
        let _lock_file = self.lock_file(patience)?;
        self.with_file_lock(&mut writer, patience, |open, _, _| look(&open.file))
    }

    fn commit<S, E: From<Error>>(
        &self,
        fill: impl FnOnce(u64, &File, &mut Batch) -> Result<S, E>,
        mut moved: impl FnMut(&mut S, u64, &File) -> Result<(), E>,
    ) -> Result<Vec<Appended>, E> {
        let patience = Deadline::new(self.options.lock_wait);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if self.poisoned.load(Ordering::Acquire) {
            return Err(self.poison().into());
        }
        let _thread_lock = self.lock_thread(patience)?;
        let lock_file = self.lock_file(patience)?;
        if lock_file.is_some() {
            // Records written while a copy is being made may have to be written again.
            lock_file::wait_for_copies(&self.path, patience)?;
        }
        let (mut open, mut start, mut state) =
            self.with_file_lock(&mut writer, patience, |open, end, batch| {
                batch.clear();
                let mut state = fill(end, &open.file, batch)?;
                let start = match batch.is_empty() {
                    true => end,
                    false => self.write(&open.file, end, batch, |start| {
                        moved(&mut state, start, &open.file)
                    })?,
                };
                Ok::<_, E>((Arc::clone(open), start, state))
            })?;
        if let Some(lock_file) = lock_file.filter(|_| !writer.batch.is_empty()) {
            (open, start) = self.ensure_not_replaced(
                lock_file,
                &mut writer,
                patience,
                (open, start),
                &mut |end, file| moved(&mut state, end, file),
            )?;
        }
        let at = |within: usize| start + within as u64;
        let spans = writer.batch.spans().map(|span| Appended {
            offset: at(span.start),
            end: at(span.end),
        });
        let appended: Vec<Appended> = spans.collect();
        let ticket = open.group.ticket();
        drop(writer);
        if self.options.durability == Durability::Disk && !appended.is_empty() {
            let settled = open.group.wait(ticket, || self.sync(&open));
            settled.map_err(|unsettled| match unsettled {
                SyncError::Failed(source) => Error::io("sync", &self.path, source),
                SyncError::Poisoned => self.poison(),
            })?;
        }
        Ok(appended)
    }

    /// Writes the batch to a log of length `end` and returns its offset. `moved` gets the offset if
    /// another program wrote in between.
    fn write<E: From<Error>>(
        &self,
        file: &File,
        end: u64,
        batch: &Batch,
        moved: impl FnOnce(u64) -> Result<(), E>,
    ) -> Result<u64, E> {
        let expected = next_offset(file, end);
        let start = write_batch(&*self.io, file, &self.path, batch)?;
        if start != expected {
            moved(start)?;
        }
        Ok(start)
    }

    fn lock_thread(&self, patience: Deadline) -> Result<Option<ThreadLock>> {
        match &self.thread_lock {
            Some(path) => ThreadLock::acquire(path, patience),
            None => Ok(None),
        }
    }

    fn lock_file(&self, patience: Deadline) -> Result<Option<LockFile>> {
        let wanted = self.options.lock_file;
        wanted
            .then(|| LockFile::acquire(&self.path, patience))
            .transpose()
    }

    /// Ensures that no copy of the log without the batch can replace the log, and appends the batch
    /// again if one did. Takes and returns the file that holds the batch, and the offset.
    fn ensure_not_replaced<E: From<Error>>(
        &self,
        mut lock_file: LockFile,
        writer: &mut Writer,
        patience: Deadline,
        (mut open, mut start): (Arc<OpenFile>, u64),
        moved: &mut dyn FnMut(u64, &File) -> Result<(), E>,
    ) -> Result<(Arc<OpenFile>, u64), E> {
        loop {
            // Copies first: a copy that replaces the log in between is detected by its inode.
            let copied = lock_file::is_being_copied(&self.path)?;
            let held = open.file.metadata();
            let held = held.map_err(|e| Error::io("stat", &self.path, e))?;
            if !copied && is_at_path(&self.path, &held)? && lock_file.is_current()? {
                return Ok((open, start));
            }
            drop(lock_file);
            lock_file::wait_for_copies(&self.path, patience)?;
            lock_file = LockFile::acquire(&self.path, patience)?;
            (open, start) = self.with_file_lock(writer, patience, |open, end, batch| {
                let failed = |error| Error::io("read", &self.path, error);
                let found = find_lines(&open.file, start, batch.lines()).map_err(failed)?;
                let start = match found {
                    Some(found) if found == start => start,
                    Some(found) => {
                        moved(found, &open.file)?;
                        found
                    }
                    None => {
                        moved(end, &open.file)?;
                        self.write(&open.file, end, batch, |start| moved(start, &open.file))?
                    }
                };
                Ok::<_, E>((Arc::clone(open), start))
            })?;
        }
    }

    /// Runs `work` with the lock of the inode that the path names now, and the log's length.
    fn with_file_lock<T, E: From<Error>>(
        &self,
        writer: &mut Writer,
        patience: Deadline,
        work: impl FnOnce(&Arc<OpenFile>, u64, &mut Batch) -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            let open = Arc::clone(&writer.open);
            let lock = Lock::acquire(&open.file, &self.path, patience)?;
            let held = open
                .file
                .metadata()
                .map_err(|e| Error::io("stat", &self.path, e))?;
            if is_at_path(&self.path, &held)? {
                return work(&open, held.len(), &mut writer.batch);
            }
            drop(lock);
            let options = AppendOptions {
                create: Create::Never,
                ..self.options
            };
            writer.open = Arc::new(OpenFile::new(&self.path, options)?);
        }
    }

    fn sync(&self, open: &OpenFile) -> io::Result<()> {
        let synced = self.io.sync(&open.file).and_then(|()| {
            if open.name_synced.load(Ordering::Relaxed) {
                return Ok(());
            }
            sync_parent(&self.path)?;
            open.name_synced.store(true, Ordering::Relaxed);
            Ok(())
        });
        if synced.is_err() {
            self.poisoned.store(true, Ordering::Release);
        }
        synced
    }

    fn poison(&self) -> Error {
        Error::Poisoned {
            path: self.path.clone(),
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            options,
            poisoned,
            ..
        } = self;
        f.debug_struct("Log")
            .field("path", path)
            .field("options", options)
            .field("poisoned", poisoned)
            .finish_non_exhaustive()
    }
}

/// Returns the offset of the next record of a log of length `end`: a torn last line is sealed first.
pub fn next_offset(log: &File, end: u64) -> u64 {
    let last = end.checked_sub(1).map(|at| read_span(log, at, 1));
    match last {
        Some(Ok(last)) if last != b"\n" => end + 1,
        _ => end,
    }
}

/// Finds lines in a log that was replaced: at the same offset if it is a copy, or near its end if
/// earlier lines were dropped.
fn find_lines(log: &File, start: u64, lines: &[u8]) -> io::Result<Option<u64>> {
    const REACH: u64 = 8 << 20;
    let len = lines.len() as u64;
    if read_span(log, start, len).is_ok_and(|there| there == lines) {
        return Ok(Some(start));
    }
    let end = log.metadata()?.len();
    let from = end.saturating_sub(REACH + len);
    let tail = read_span(log, from, end - from)?;
    let mut found = memchr::memmem::find_iter(&tail, lines);
    let begins = |at: &usize| match at.checked_sub(1) {
        None => from == 0,
        Some(before) => tail.get(before) == Some(&b'\n'),
    };
    Ok(found.find(begins).map(|at| from + at as u64))
}

fn single<E: From<Error>>(appended: Result<Vec<Appended>, E>) -> Result<Appended, E> {
    let first = appended?.first().copied();
    first.ok_or_else(|| Error::EmptyRecord.into())
}

#[cfg(test)]
mod tests;
