//! Appends records to a log so that an acknowledged one is never lost.
//!
//! Owns the order of an append: lock → seal → one `write` → read back → unlock → sync. Bytes that
//! stand in the log are never changed: a torn tail becomes a line of its own, and a record that a
//! foreign writer spoiled is appended again. Does not create directories and does not know what a
//! record says.

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::batch::Batch;
use super::device::{Device, Os};
use super::group::Unsettled;
use super::lock::{Lock, Patience};
use super::open::{Create, Open};
use super::place::place;
use super::replace::sync_parent;
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
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            lock_wait: Duration::from_secs(5),
            create: Create::default(),
            network: false,
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
        let (open, appended) = self.in_section(&mut writer, patience, |open, end, batch| {
            batch.clear();
            fill(end, &open.file, batch)?;
            if batch.is_empty() {
                return Ok((Arc::clone(open), Vec::new()));
            }
            let start = place(&*self.device, &open.file, &self.path, batch)?;
            let at = |within: usize| start + within as u64;
            let spans = batch.spans().map(|span| Appended {
                offset: at(span.start),
                end: at(span.end),
            });
            Ok((Arc::clone(open), spans.collect()))
        })?;
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
            if self.is_named(&held) {
                return work(&open, held.len(), &mut writer.batch);
            }
            drop(lock);
            writer.open = Arc::new(Open::new(&self.path, Create::Never, self.options.network)?);
        }
    }

    /// Where the path names nothing that can be looked at, opening it tells why.
    fn is_named(&self, held: &Metadata) -> bool {
        let named = self.path.symlink_metadata();
        named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino()))
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

fn one(appended: Result<Vec<Appended>>) -> Result<Appended> {
    let first = appended?.first().copied();
    first.ok_or_else(|| Error::refused("an empty record cannot be appended to a log"))
}

#[cfg(test)]
mod tests;
