//! The lines of a segment's content.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A line whose length masking changed: its index in the segment, and its length in the file with its
/// line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskedLine(pub u32, pub u32);

/// Maximum length of a content: one line, as long as annals reads lines.
pub const MAX_CONTENT: u64 = 64 << 20;

/// Maximum length of a content of several lines, or of a part of a document.
pub const MAX_LINES_CONTENT: u64 = 256 << 10;

/// Whole lines.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    bytes: &'a [u8],
}

impl<'a> Content<'a> {
    /// Checks that bytes are whole lines: at most 256 KiB, or a single line.
    pub fn from_lines(bytes: &'a [u8]) -> Result<Self> {
        if bytes.last() != Some(&b'\n') {
            return Err(Error::invalid("the last line has no end"));
        }
        let inner = bytes.get(..bytes.len() - 1).unwrap_or_default();
        let len = bytes.len() as u64;
        if len > MAX_LINES_CONTENT && memchr::memchr(b'\n', inner).is_some() {
            return Err(Error::TooLong {
                what: "content of several lines",
                len,
                limit: MAX_LINES_CONTENT,
            });
        }
        Ok(Content { bytes })
    }

    /// Iterator over the lines with their ends.
    fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.split_inclusive(|byte| *byte == b'\n')
    }

    /// Returns the number of bytes of the lines in their file.
    pub(crate) fn original_len(&self, masked: &[MaskedLine]) -> Result<u64> {
        let mut total = 0;
        each_line(self, masked, |_, original| {
            total += original;
            true
        })?;
        Ok(total)
    }

    /// Returns the position in the content, and the index of the line, after `skip` bytes of the
    /// file. Fails if a line does not end there.
    pub(crate) fn position_after(&self, masked: &[MaskedLine], skip: u64) -> Result<(usize, u32)> {
        let (mut left, mut position, mut index) = (skip, 0, 0);
        each_line(self, masked, |line, original| {
            let within = original <= left && left > 0;
            if within {
                left -= original;
                position += line.len();
                index += 1;
            }
            within
        })?;
        match left {
            0 => Ok((position, index)),
            _ => Err(Error::invalid(
                "no line ends where the known part of the file ends",
            )),
        }
    }
}

/// Calls `visit` with each line and its length in the file, until it returns `false`. Fails if
/// `masked` is not sorted or names a line that does not exist.
fn each_line<'a>(
    content: &Content<'a>,
    masked: &[MaskedLine],
    mut visit: impl FnMut(&'a [u8], u64) -> bool,
) -> Result<()> {
    let mut masked = masked.iter().peekable();
    let mut active = true;
    for (index, line) in content.lines().enumerate() {
        let known = masked.next_if(|known| u64::from(known.0) == index as u64);
        let original = known.map_or(line.len() as u64, |known| u64::from(known.1));
        if original == 0 {
            return Err(Error::invalid("a line has no length"));
        }
        active = active && visit(line, original);
    }
    match masked.next() {
        None => Ok(()),
        Some(_) => Err(Error::invalid(
            "the masked lines are not those of the content",
        )),
    }
}
