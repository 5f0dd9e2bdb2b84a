//! Reads one record by its span.

use std::io;

use super::ReadAt;

/// Reads exactly the `len` bytes at `offset`.
///
/// A span past the end of the file is an error before much is allocated, so a stale or hostile
/// length costs nothing.
pub fn read_span(bytes: &(impl ReadAt + ?Sized), offset: u64, len: u64) -> io::Result<Vec<u8>> {
    // Most records are short; reading them checks that they exist.
    const SHORT: u64 = 64 << 10;
    let end = offset.checked_add(len);
    let fits = end.is_some_and(|end| match (1..=SHORT).contains(&len) {
        true => i64::try_from(end).is_ok(),
        false => bytes.size().is_ok_and(|size| end <= size),
    });
    let size = usize::try_from(len)
        .ok()
        .filter(|_| fits)
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut span = vec![0; size];
    bytes.read_exact_at(&mut span, offset)?;
    Ok(span)
}
