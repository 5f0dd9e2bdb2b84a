//! Copies one file of a root into a compressed file.

use std::fs::{self, File, OpenOptions};
use std::io::Seek as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::Source;
use crate::archive_format::compressed_file::FrameEncoder;
use crate::archive_format::manifest::Member;
use crate::archive_format::root_archive::write_error;
use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, FileId, ReadAt as _};

/// Appends to a compressed file after the listed frames. Takes back what was written if it fails.
pub(super) fn append(
    to: &Path,
    known: &Member,
    fill: impl FnOnce(&File) -> Result<u64>,
) -> Result<u64> {
    let failed = |error| write_error(to, error);
    let flags = OFlags::NOFOLLOW;
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(to)
        .map_err(failed)?;
    file.set_len(known.packed).map_err(failed)?;
    fill(&file).inspect_err(|_| {
        // If that fails, the bytes are ignored.
        let _ = file.set_len(known.packed);
    })
}

/// Compresses a file from offset `from` on. Returns the length of the compressed file.
pub(super) fn copy(
    path: &Path,
    source: &Source,
    from: u64,
    mut file: &File,
    to: &Path,
    sum: &mut Sha256,
    encoder: &mut FrameEncoder,
) -> Result<u64> {
    let changed = || {
        Error::File(FileError::Changed {
            path: path.to_owned(),
        })
    };
    let (content, metadata) = open_source(path)?.ok_or_else(changed)?;
    let failed = |error| write_error(to, error);
    encoder.begin();
    let whole = each_block(path, &content, from..source.id.len, |bytes| {
        sum.update(bytes);
        encoder.put(file, bytes).map_err(failed)
    })?;
    // It got shorter, or another file has its name.
    if !whole || !FileId::from(&metadata).same_file(&source.id) {
        return Err(changed());
    }
    encoder.finish(file).map_err(failed)?;
    file.stream_position().map_err(failed)
}

/// Passes a range of a file in blocks. Returns `false` if the file ends before it.
pub(super) fn each_block(
    path: &Path,
    file: &File,
    range: std::ops::Range<u64>,
    mut give: impl FnMut(&[u8]) -> Result<()>,
) -> Result<bool> {
    let len = range.end.saturating_sub(range.start);
    let mut block = vec![0; (256 << 10).min(len) as usize];
    let mut at = range.start;
    while at < range.end {
        let want = (block.len() as u64).min(range.end - at) as usize;
        let some = block.get_mut(..want).unwrap_or_default();
        let read = file.fill_at(some, at);
        if read.map_err(|error| Error::io("read", path, error))? < want {
            return Ok(false);
        }
        give(some)?;
        at += want as u64;
    }
    Ok(true)
}

/// Opens a file of a root for reading; `None` if it does not exist. Refuses a symbolic link, whose
/// target may be anywhere.
pub(in crate::archive) fn open_source(path: &Path) -> Result<Option<(File, fs::Metadata)>> {
    let file = match jsonl::open_to_read(path) {
        Ok(file) => file,
        Err(error) if jsonl::is_absence(&error) => return Ok(None),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let metadata = file.metadata().map_err(|e| Error::io("stat", path, e))?;
    match metadata.is_file() {
        true => Ok(Some((file, metadata))),
        false => Err(Error::refused(format!(
            "{} is not a regular file",
            path.display()
        ))),
    }
}
