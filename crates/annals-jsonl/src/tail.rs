//! Reads a log backwards, line by line, from its end.
//!
//! Splits lines like [`Scanner`](super::Scanner), in the other direction, for callers that need the
//! newest lines of a large log. Reads blocks only when a line needs them, and yields no line
//! numbers: those are known only from the start of the file.

use std::io::{self, Read, Seek, SeekFrom};

use memchr::memrchr;

use super::scan::{LineEnding, MAX_LINE, head_len, slice, split_bom, split_ending};

const FIRST_BLOCK: usize = 64 << 10;
const LAST_BLOCK: usize = 1 << 20;

/// One line and its span in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailLine<'a> {
    /// Offset of the span.
    pub offset: u64,
    /// The content: no terminator, no byte order mark; only its head if `oversize`.
    pub bytes: &'a [u8],
    /// The length of the span on disk, terminator and byte order mark included.
    pub len: u64,
    /// The terminator.
    pub ending: LineEnding,
    /// Whether the span is longer than the cap, so that `bytes` is only its head.
    pub oversize: bool,
}

/// A lending iterator over the lines of a file, the last one first.
#[derive(Debug)]
pub struct TailReader<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The held bytes are `buffer[low..high]`; they begin at `offset` in the file.
    low: usize,
    high: usize,
    offset: u64,
    /// End offset in the file of the line being searched.
    line_end: u64,
    /// The ending of an oversize line whose later part was discarded.
    skip: Option<LineEnding>,
    /// There is no `\n` in the held bytes from here on, except the line's own terminator.
    searched: usize,
    block: usize,
    max_line: usize,
}

impl<R: Read + Seek> TailReader<R> {
    /// Reads from the current end of a file.
    pub fn new(reader: R) -> io::Result<Self> {
        Self::with_cap(reader, FIRST_BLOCK, MAX_LINE)
    }

    /// Starts with blocks of `block` bytes and holds lines of up to `max_line` bytes whole.
    pub fn with_cap(mut reader: R, block: usize, max_line: usize) -> io::Result<Self> {
        let end = reader.seek(SeekFrom::End(0))?;
        Ok(Self::before(reader, end, block, max_line))
    }

    /// Reads backwards from `end`, which must be the start of a line.
    pub fn ending_at(reader: R, end: u64) -> Self {
        Self::before(reader, end, FIRST_BLOCK, MAX_LINE)
    }

    fn before(reader: R, end: u64, block: usize, max_line: usize) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            low: 0,
            high: 0,
            offset: end,
            line_end: end,
            skip: None,
            searched: 0,
            block: block.max(1),
            max_line: max_line.max(1),
        }
    }

    /// Returns the line before the last one returned, or `None` at the start of the file.
    pub fn prev(&mut self) -> io::Result<Option<TailLine<'_>>> {
        if self.line_end == 0 {
            return Ok(None);
        }
        loop {
            // The last held byte is the line's own terminator, unless it was discarded.
            let own = usize::from(self.skip.is_none());
            let until = self.searched.min(self.high.saturating_sub(own));
            let fresh = slice(&self.buffer, self.low..until);
            if let Some(at) = memrchr(b'\n', fresh) {
                return Ok(Some(self.take(self.low + at + 1)));
            }
            self.searched = self.low;
            if self.offset == 0 {
                return Ok(Some(self.take(self.low)));
            }
            self.discard_line_end();
            self.fill()?;
        }
    }

    fn take(&mut self, start: usize) -> TailLine<'_> {
        let offset = self.offset + (start - self.low) as u64;
        let len = self.line_end - offset;
        let held = slice(&self.buffer, start..self.high);
        self.line_end = offset;
        self.high = start;
        self.searched = start;
        let (content, ending) = match self.skip.take() {
            Some(ending) => {
                let content = usize::try_from(len - ending.len()).unwrap_or(usize::MAX);
                (slice(held, 0..held.len().min(content)), ending)
            }
            None => split_ending(held, true),
        };
        let oversize = len > self.max_line as u64;
        let shown = if oversize {
            content.len().min(head_len(self.max_line))
        } else {
            content.len()
        };
        let (_, bytes) = split_bom(offset, slice(content, 0..shown));
        TailLine {
            offset,
            bytes,
            len,
            ending,
            oversize,
        }
    }

    /// Discards all but the first held bytes of a line that exceeds the cap: its head may extend
    /// into them.
    fn discard_line_end(&mut self) {
        let held = slice(&self.buffer, self.low..self.high);
        if self.skip.is_none() {
            if held.len() <= self.max_line {
                return;
            }
            self.skip = Some(split_ending(held, true).1);
        }
        self.high = self.high.min(self.low + head_len(self.max_line));
    }

    fn fill(&mut self) -> io::Result<()> {
        let block = usize::try_from(self.offset)
            .unwrap_or(usize::MAX)
            .min(self.block);
        self.make_room(block);
        let start = self.offset - block as u64;
        self.reader.seek(SeekFrom::Start(start))?;
        let room = self
            .buffer
            .get_mut(self.low - block..self.low)
            .unwrap_or_default();
        self.reader.read_exact(room)?;
        self.low -= block;
        self.offset = start;
        self.block = self.block.saturating_mul(2).min(LAST_BLOCK.max(self.block));
        Ok(())
    }

    /// Ensures `block` free bytes in the buffer before the held ones.
    fn make_room(&mut self, block: usize) {
        if self.low >= block {
            return;
        }
        let held = self.high - self.low;
        let len = self.buffer.len();
        if len - held < block {
            // Doubling keeps the copying linear in the length of the line. The end of a line above
            // the cap is discarded, so the cap and two blocks are always enough.
            let most = self.max_line.saturating_add(2 * block);
            let len = (2 * len).min(most).max(held + block);
            self.buffer.resize(len, 0);
        }
        let low = self.buffer.len() - held;
        self.buffer.copy_within(self.low..self.high, low);
        self.low = low;
        self.high = low + held;
        self.searched = low;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn oversize_line_keeps_only_its_head_in_memory() {
        let mut input = b"first\n".to_vec();
        input.resize(8 * LAST_BLOCK, b'x');
        let mut tail = TailReader::with_cap(Cursor::new(&input), LAST_BLOCK, 1_000).unwrap();
        let line = tail.prev().unwrap().unwrap();
        assert_eq!((line.offset, line.oversize), (6, true));
        assert!(tail.buffer.len() < 3 * LAST_BLOCK);
    }
}
