//! Groups of segments in one object.
//!
//! | bytes | content |
//! |---|---|
//! | … | the segments, one after another |
//! | 4 | `AGE1`: end of the group |
//! | 4 | number of segments, little-endian |
//! | 16 | beginning of the SHA-256 of everything before |
//!
//! Each segment has its own checksum; the end shows that none is missing.

use crate::error::{Error, Result};
use crate::id::Digest;
use crate::segment::Segment;

const END: &[u8; 4] = b"AGE1";
const END_LEN: usize = 24;

/// Returns the bytes of a group.
pub fn write<'a>(segments: impl IntoIterator<Item = &'a Segment>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut count = 0_u32;
    for segment in segments {
        bytes.extend(segment.bytes());
        count += 1;
    }
    bytes.extend(END);
    bytes.extend(count.to_le_bytes());
    let sum = Digest::new(&bytes);
    bytes.extend(sum.as_bytes());
    bytes
}

/// Parses a group.
pub fn read(bytes: &[u8]) -> Result<Vec<Segment>> {
    let short = || Error::Truncated("a group of segments");
    let split = bytes.len().checked_sub(END_LEN).ok_or_else(short)?;
    let (segments, end) = bytes.split_at_checked(split).ok_or_else(short)?;
    if end.get(..4) != Some(END) {
        return Err(short());
    }
    let signed = bytes.get(..bytes.len() - 16).unwrap_or_default();
    if end.get(8..) != Some(Digest::new(signed).as_bytes().as_slice()) {
        return Err(Error::Checksum("a group of segments"));
    }
    let parsed = read_all(segments)?;
    let count = end.get(4..8).and_then(|count| count.try_into().ok());
    if count.map(u32::from_le_bytes) != u32::try_from(parsed.len()).ok() {
        return Err(Error::invalid("a group has another number of segments"));
    }
    Ok(parsed)
}

/// Parses segments one after another, as a request has them.
pub fn read_all(mut bytes: &[u8]) -> Result<Vec<Segment>> {
    let mut parsed = Vec::new();
    while !bytes.is_empty() {
        let (segment, rest) = Segment::parse(bytes)?;
        parsed.push(segment);
        bytes = rest;
    }
    Ok(parsed)
}
