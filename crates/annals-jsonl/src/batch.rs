//! The bytes of one append: whole lines, ready for a single `write`.

use std::ops::Range;

use memchr::memchr;

use crate::{Error, Result};

/// The largest buffer that is retained for the next batch.
const MAX_RETAINED: usize = 1 << 20;

/// Records joined to lines, with a leading `\n` in case a torn tail must be sealed.
#[derive(Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// End of each line, relative to the start of the first line.
    ends: Vec<usize>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![b'\n'],
            ends: Vec::new(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(1);
        self.bytes.shrink_to(MAX_RETAINED);
        self.ends.clear();
    }

    /// Adds a record, with or without its final `\n`.
    pub(crate) fn push(&mut self, record: &[u8]) -> Result<()> {
        let record = record.strip_suffix(b"\n").unwrap_or(record);
        if record.is_empty() {
            return Err(Error::EmptyRecord);
        }
        if let Some(at) = memchr(b'\n', record) {
            return Err(Error::LineFeed { at });
        }
        self.bytes.reserve(record.len() + 1);
        self.bytes.extend_from_slice(record);
        self.bytes.push(b'\n');
        self.ends.push(self.bytes.len() - 1);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The lines, to be written after a `\n` or at the start of the file.
    pub(crate) fn lines(&self) -> &[u8] {
        self.bytes.get(1..).unwrap_or_default()
    }

    /// The lines, to be written after a torn tail.
    pub(crate) fn lines_with_leading_newline(&self) -> &[u8] {
        &self.bytes
    }

    /// Byte range of each line within [`lines`](Self::lines).
    pub(crate) fn spans(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| start..*end)
    }
}
