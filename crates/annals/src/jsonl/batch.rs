//! The bytes of one append: whole lines, ready to be handed over in a single `write`.

use std::ops::Range;

use memchr::memchr;

use crate::{Error, Result};

/// A batch's memory is kept for the next one up to this size.
const MAX_RETAINED: usize = 1 << 20;

/// Records joined to lines, with a `\n` in front for the case that a torn tail must be sealed.
#[derive(Debug)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Where each line ends, counted from the first line's start.
    ends: Vec<usize>,
}

impl Batch {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![b'\n'],
            ends: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.truncate(1);
        self.bytes.shrink_to(MAX_RETAINED);
        self.ends.clear();
    }

    /// Adds a record, with or without its final `\n`.
    pub(super) fn push(&mut self, record: &[u8]) -> Result<()> {
        let record = record.strip_suffix(b"\n").unwrap_or(record);
        if record.is_empty() {
            return Err(Error::refused(
                "an empty record cannot be appended to a log",
            ));
        }
        if let Some(at) = memchr(b'\n', record) {
            return Err(Error::refused(format!(
                "a record must be one line, but byte {at} of it is a line feed"
            )));
        }
        self.bytes.reserve(record.len() + 1);
        self.bytes.extend_from_slice(record);
        self.bytes.push(b'\n');
        self.ends.push(self.bytes.len() - 1);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The lines, to follow a `\n` or the start of the file.
    pub(super) fn lines(&self) -> &[u8] {
        self.bytes.get(1..).unwrap_or_default()
    }

    /// The lines, to follow a torn tail.
    pub(super) fn lines_with_leading_newline(&self) -> &[u8] {
        &self.bytes
    }

    /// The place of each line within [`lines`](Self::lines).
    pub(super) fn spans(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| start..*end)
    }
}
