//! Appends a batch to a log as whole lines, and verifies it.
//!
//! Runs under the lock, but relies on nothing that only the lock would guarantee: foreign writers
//! do not take it.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::Path;

use super::batch::Batch;
use super::read_at::ReadAt as _;
use super::write_io::WriteIo;
use crate::{Error, Result};

/// Number of attempts to write a batch to a log that another program is changing.
const ATTEMPTS: usize = 4;

/// Writes the batch as whole lines and returns its offset.
pub(crate) fn write_batch(
    device: &dyn WriteIo,
    file: &File,
    path: &Path,
    batch: &Batch,
) -> Result<u64> {
    let lines = batch.lines();
    for attempt in 0..ATTEMPTS {
        // With a busy foreign writer the last byte can change after each check. From the second
        // attempt on, our own `\n` is written first, at the cost of a blank line.
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
        // After an append the file position is after the written bytes, even if foreign writers
        // have moved the end of the file.
        let end = { file }
            .stream_position()
            .map_err(|e| Error::io("seek in", path, e))?;
        let start = end.saturating_sub(lines.len() as u64);
        if is_written_at(file, start, lines).map_err(|e| Error::io("read back", path, e))? {
            return Ok(start);
        }
    }
    let why = "another program keeps changing the appended records";
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
            // One byte may fit where the record did not. If not, the next append seals the tail.
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

/// Whether the file is empty or ends with a terminated line.
fn ends_with_newline(file: &File) -> io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    // A read of nothing means that the file has shrunk; reading back detects that.
    Ok(file.read_at(&mut byte, last)? == 0 || byte == *b"\n")
}

/// Whether exactly `lines` are at `start`, after a `\n` or at the start of the file.
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
