//! Puts a batch at the end of a log as whole lines, and makes sure that it stands there.
//!
//! Runs under the lock, yet trusts nothing that only the lock would guarantee: foreign writers do
//! not take it.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::Path;

use super::batch::Batch;
use super::read_at::ReadAt as _;
use super::write_io::WriteIo;
use crate::{Error, Result};

/// How often a batch is written before we give up on a log that changes under it.
const ATTEMPTS: usize = 4;

/// Writes the batch to where it stands as whole lines, and tells where that is.
pub(super) fn write_batch(
    device: &dyn WriteIo,
    file: &File,
    path: &Path,
    batch: &Batch,
) -> Result<u64> {
    let lines = batch.lines();
    for attempt in 0..ATTEMPTS {
        // A look at the last byte can come too late each time beside a busy foreign writer. From
        // the second attempt on our own `\n` goes first, at the price of a blank line.
        let whole =
            attempt == 0 && ends_with_newline(file).map_err(|e| Error::io("read", path, e))?;
        write_all(
            device,
            file,
            if whole {
                lines
            } else {
                batch.lines_with_leading_newline()
            },
        )
        .map_err(|source| write_error(path, source))?;
        // After an appending write the descriptor stands behind what it wrote, wherever foreign
        // writers have pushed that.
        let end = { file }
            .stream_position()
            .map_err(|e| Error::io("seek in", path, e))?;
        let start = end.saturating_sub(lines.len() as u64);
        if is_written_at(file, start, lines).map_err(|e| Error::io("read back", path, e))? {
            return Ok(start);
        }
    }
    let why = "another program keeps changing what we write";
    Err(Error::io("append to", path, io::Error::other(why)))
}

fn write_all(device: &dyn WriteIo, file: &File, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    let mut last = b'\n';
    while !rest.is_empty() {
        let error = match device.write(file, rest) {
            Ok(0) => io::ErrorKind::WriteZero.into(),
            Ok(written) => {
                let (done, left) = rest.split_at(written.min(rest.len()));
                last = done.last().copied().unwrap_or(last);
                rest = left;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => error,
        };
        if last != b'\n' {
            // One byte may fit where the record did not. If not, the next append seals.
            let _ = device.write(file, b"\n");
        }
        return Err(error);
    }
    Ok(())
}

pub(crate) fn write_error(path: &Path, source: io::Error) -> Error {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match source.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => Error::Full {
            path: path.to_owned(),
            source,
        },
        _ => Error::io("write", path, source),
    }
}

/// Whether the file is empty or ends with a whole line.
fn ends_with_newline(file: &File) -> io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    // Nothing there means that it shrank meanwhile; the read-back tells.
    Ok(file.read_at(&mut byte, last)? == 0 || byte == *b"\n")
}

/// Whether exactly `lines` stand at `start`, after a `\n` or at the start of the file.
fn is_written_at(file: &File, start: u64, lines: &[u8]) -> io::Result<bool> {
    let mut block = [0; 8 << 10];
    let mut at = start.saturating_sub(1);
    let mut before = start > 0;
    let mut rest = lines;
    while !rest.is_empty() {
        let want = block.len().min(rest.len() + usize::from(before));
        let read = file.fill_at(block.get_mut(..want).unwrap_or_default(), at)?;
        if read == 0 {
            return Ok(false);
        }
        at += read as u64;
        let mut held = block.get(..read).unwrap_or_default();
        if before {
            let Some(after) = held.strip_prefix(b"\n") else {
                return Ok(false);
            };
            held = after;
            before = false;
        }
        let Some(left) = rest.strip_prefix(held) else {
            return Ok(false);
        };
        rest = left;
    }
    Ok(true)
}
