//! Appends records to a log so that an acknowledged one is never lost.
//!
//! Owns the order of an append: lock → seal → one `write` → read back → unlock → sync. Logs whose
//! own programs lock a file beside them are written under that lock too: see `lock_file.rs`. Bytes that
//! stand in the log are never changed: a torn tail becomes a line of its own, and a record that a
//! foreign writer spoiled is appended again. Does not create directories and does not know what a
//! record says.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::batch::Batch;
use super::device::{Device, Os};
use super::group::Unsettled;
use super::identity::is_named;
use super::lock::{Lock, Patience};
use super::lock_file::{self, LockFile};
use super::open::{Create, Open};
use super::place::place;
use super::replace::sync_parent;
use super::span::read_span;
use crate::{Error, Result};

/// What an acknowledgement stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Handed to the kernel: survives the death of the process.
    Os,
    /// Synced: survives the loss of power, on storage that honours flush.
    #[default]
    Disk,
}

/// How a log is opened for appending.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What an acknowledgement stands for.
    pub durability: Durability,
    /// How long to wait for another process's lock before [`Error::Busy`].
    pub lock_wait: Duration,
    /// Whether to make the file.
    pub create: Create,
    /// Whether to write on a network file system, where neither locks nor `O_APPEND` are reliable.
    pub network: bool,
    /// Whether the log's own program locks `FILE.lock` and may replace the log by a copy.
    pub lock_file: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            lock_wait: Duration::from_secs(5),
            create: Create::default(),
            network: false,
            lock_file: false,
        }
    }
}

/// Where an acknowledged record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The offset of its first byte, which is preceded by a `\n` or the start of the file.
    pub offset: u64,
    /// The offset after its `\n`.
    pub end: u64,
}

/// A log open for appending, shared freely between threads.
pub struct Log {
    path: PathBuf,
    options: Options,
    device: Box<dyn Device>,
    poisoned: AtomicBool,
    /// Excludes the threads of this process from each other, which `flock` on a shared
    /// descriptor does not.
    writer: Mutex<Writer>,
}

struct Writer {
    /// Replaced when the path comes to name another inode; who has written through the old one
    /// still syncs the old one.
    open: Arc<Open>,
    batch: Batch,
}

impl Log {
    /// Opens the log at `path`, which must not be a symbolic link.
    pub fn open(path: impl Into<PathBuf>, options: Options) -> Result<Self> {
        Self::with_device(path.into(), options, Box::new(Os))
    }

    fn with_device(path: PathBuf, options: Options, device: Box<dyn Device>) -> Result<Self> {
        let open = Arc::new(Open::new(&path, options.create, options.network)?);
        Ok(Self {
            path,
            options,
            device,
            poisoned: AtomicBool::new(false),
            writer: Mutex::new(Writer {
                open,
                batch: Batch::new(),
            }),
        })
    }

    /// Where the log was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one record, given without or with its final `\n`, and returns once it is as
    /// durable as the log's [`Durability`] says.
    ///
    /// After an error the record was not accepted; it may still stand in the log, whole or torn.
    pub fn append(&self, record: &[u8]) -> Result<Appended> {
        one(self.commit(|_, _, batch| batch.push(record)))
    }

    /// Appends several records in one `write`.
    pub fn append_all<R: AsRef<[u8]>>(&self, records: &[R]) -> Result<Vec<Appended>> {
        self.commit(|_, _, batch| {
            records
                .iter()
                .try_for_each(|record| batch.push(record.as_ref()))
        })
    }

    /// Appends a record that `make` decides on under the lock, where it sees the length of the log
    /// and can read what was added since it last looked.
    ///
    /// `make` must not use this log itself; it may seek in the file. If it fails, nothing is
    /// written.
    pub fn append_with(
        &self,
        make: impl FnOnce(u64, &File) -> Result<Vec<u8>>,
    ) -> Result<Appended> {
        one(self.commit(|end, file, batch| batch.push(&make(end, file)?)))
    }

    /// Like [`append_with`](Self::append_with), for any number of records in one `write`.
    pub fn append_all_with(
        &self,
        make: impl FnOnce(u64, &File) -> Result<Vec<Vec<u8>>>,
    ) -> Result<Vec<Appended>> {
        self.commit(|end, file, batch| {
            make(end, file)?
                .iter()
                .try_for_each(|record| batch.push(record))
        })
    }

    /// Runs `look` while no annals process appends; it must not use this log itself.
    pub fn locked<T>(&self, look: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        let patience = Patience::new(self.options.lock_wait);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock_file = self.lock_file(patience)?;
        self.in_section(&mut writer, patience, |open, _, _| look(&open.file))
    }

    fn commit(
        &self,
        fill: impl FnOnce(u64, &File, &mut Batch) -> Result<()>,
    ) -> Result<Vec<Appended>> {
        let patience = Patience::new(self.options.lock_wait);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if self.poisoned.load(Ordering::Acquire) {
            return Err(self.poison());
        }
        let lock_file = self.lock_file(patience)?;
        if lock_file.is_some() {
            // What is written while a copy is made may have to be written again.
            lock_file::await_copies(&self.path, patience)?;
        }
        let (mut open, mut start) =
            self.in_section(&mut writer, patience, |open, end, batch| {
                batch.clear();
                fill(end, &open.file, batch)?;
                let start = match batch.is_empty() {
                    true => end,
                    false => place(&*self.device, &open.file, &self.path, batch)?,
                };
                Ok((Arc::clone(open), start))
            })?;
        if let Some(lock_file) = lock_file.filter(|_| !writer.batch.is_empty()) {
            (open, start) = self.settle(lock_file, &mut writer, patience, open, start)?;
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
            let settled = open.group.settle(ticket, || self.sync(&open));
            settled.map_err(|unsettled| match unsettled {
                Unsettled::Failed(source) => Error::io("sync", &self.path, source),
                Unsettled::Poisoned => self.poison(),
            })?;
        }
        Ok(appended)
    }

    fn lock_file(&self, patience: Patience) -> Result<Option<LockFile>> {
        let wanted = self.options.lock_file;
        wanted
            .then(|| LockFile::acquire(&self.path, patience))
            .transpose()
    }

    /// Makes sure that no copy of the log which lacks the batch can take its place, and appends the
    /// batch again where one did. Returns the file that the batch stands in, and where.
    fn settle(
        &self,
        mut lock_file: LockFile,
        writer: &mut Writer,
        patience: Patience,
        mut open: Arc<Open>,
        mut start: u64,
    ) -> Result<(Arc<Open>, u64)> {
        loop {
            // Copies first: one that takes the log's place in between is seen by the name.
            let copied = lock_file::is_copied(&self.path)?;
            let held = open.file.metadata();
            let held = held.map_err(|e| Error::io("stat", &self.path, e))?;
            if !copied && is_named(&self.path, &held)? && lock_file.is_current()? {
                return Ok((open, start));
            }
            drop(lock_file);
            lock_file::await_copies(&self.path, patience)?;
            lock_file = LockFile::acquire(&self.path, patience)?;
            (open, start) = self.in_section(writer, patience, |open, _, batch| {
                let failed = |error| Error::io("read", &self.path, error);
                let start = match find(&open.file, start, batch.lines()).map_err(failed)? {
                    Some(start) => start,
                    None => place(&*self.device, &open.file, &self.path, batch)?,
                };
                Ok((Arc::clone(open), start))
            })?;
        }
    }

    /// Runs `work` with the lock of the inode that the path names now, and the log's length.
    fn in_section<T>(
        &self,
        writer: &mut Writer,
        patience: Patience,
        work: impl FnOnce(&Arc<Open>, u64, &mut Batch) -> Result<T>,
    ) -> Result<T> {
        loop {
            let open = Arc::clone(&writer.open);
            let lock = Lock::acquire(&open.file, &self.path, patience)?;
            let held = open
                .file
                .metadata()
                .map_err(|e| Error::io("stat", &self.path, e))?;
            if is_named(&self.path, &held)? {
                return work(&open, held.len(), &mut writer.batch);
            }
            drop(lock);
            writer.open = Arc::new(Open::new(&self.path, Create::Never, self.options.network)?);
        }
    }

    fn sync(&self, open: &Open) -> io::Result<()> {
        let synced = self.device.sync(&open.file).and_then(|()| {
            if open.named.load(Ordering::Relaxed) {
                return Ok(());
            }
            sync_parent(&self.path)?;
            open.named.store(true, Ordering::Relaxed);
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

/// Where some lines stand in a log that was replaced: where they stood before, if it is a copy, or
/// near its end, if lines before them were left out.
fn find(log: &File, start: u64, lines: &[u8]) -> io::Result<Option<u64>> {
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

fn one(appended: Result<Vec<Appended>>) -> Result<Appended> {
    let first = appended?.first().copied();
    first.ok_or_else(|| Error::refused("an empty record cannot be appended to a log"))
}

#[cfg(test)]
mod tests;
