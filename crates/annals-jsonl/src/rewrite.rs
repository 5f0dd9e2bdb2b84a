//! Puts a repaired log in place of a damaged one.
//!
//! The one exception to the rule that logs are only appended to, for repairs alone. The caller must
//! save a durable copy of the old log first and hold its lock. The new log is written under a
//! temporary name, synced, and renamed only if the old one is unchanged since it was read and no
//! other program has it open for writing (see [`Removal::replace`]). It keeps the owner and, unless
//! another is given, the mode.

use std::fs::{File, FileTimes};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::SystemTime;

use super::FileId;
use super::lock::{Deadline, Lock};
use super::remove::Removal;
use super::replace::{LOCK_WAIT, make_temp, open_dir, open_document, parent};
use super::sys;
use super::write_batch::write_error;
use crate::{Error, Result};

/// Replaces the log at `path`, which must be untouched since `looked`, with the pieces that `fill`
/// writes. Sets the time `modified` and the mode `mode`, if given, before the rename: afterwards
/// another process may already have moved the file.
pub fn rewrite<E: From<Error>>(
    path: &Path,
    looked: &FileId,
    modified: Option<SystemTime>,
    mode: Option<u32>,
    fill: impl FnOnce(&File, &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E>,
) -> Result<(), E> {
    let changed = || Error::Changed {
        path: path.to_owned(),
    };
    let dir = open_dir(path)?;
    let _lock = Lock::acquire(&dir, parent(path), Deadline::new(LOCK_WAIT))?;
    let (old, metadata) = open_document(path)?.ok_or_else(changed)?;
    if !FileId::from(&metadata).untouched(looked) {
        return Err(changed().into());
    }
    let failed = |source| write_error(path, source);
    let temp = make_temp(path).map_err(failed)?;
    let mut buffer = BufWriter::with_capacity(1 << 18, temp.as_file());
    fill(&old, &mut |bytes| {
        Ok(buffer.write_all(bytes).map_err(failed)?)
    })?;
    buffer.flush().map_err(failed)?;
    drop(buffer);
    sys::copy_mode_and_owner(temp.as_file(), &metadata).map_err(failed)?;
    if let Some(mode) = mode {
        sys::set_mode(temp.as_file(), mode).map_err(failed)?;
    }
    if let Some(modified) = modified {
        let times = FileTimes::new().set_modified(modified);
        temp.as_file().set_times(times).map_err(failed)?;
    }
    temp.as_file().sync_all().map_err(failed)?;
    Ok(Removal::from_file(path, &old, *looked)?.replace(temp)?)
}
