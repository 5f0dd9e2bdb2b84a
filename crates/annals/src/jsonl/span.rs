//! Reads one record again by its span.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Reads exactly the `len` bytes at `offset`, without moving the file's position.
///
/// A span that reaches past the end of the file is an error before anything is allocated, so a
/// stale or hostile length costs nothing.
pub fn read_span(file: &File, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let fits = offset
        .checked_add(len)
        .is_some_and(|end| file.metadata().is_ok_and(|m| end <= m.len()));
    let size = usize::try_from(len)
        .ok()
        .filter(|_| fits)
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}
