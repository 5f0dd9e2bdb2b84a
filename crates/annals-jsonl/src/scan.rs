//! Reads a log forwards, line by line, through one buffer.
//!
//! Splits bytes into lines and bounds the memory. Yields every line, including blank and damaged
//! ones: the spans of the lines concatenate to the input. Does not decode, skips lines only on
//! request, and does not distinguish a pending from a torn last line.

use std::io::{self, Read, Seek};
use std::ops::Range;

use memchr::{memchr, memrchr};

/// The longest line that is held in memory whole, by default.
pub const MAX_LINE: usize = 64 << 20;

/// Number of bytes of an oversize line that are returned.
pub const OVERSIZE_HEAD: usize = 4 << 10;

const CAPACITY: usize = 128 << 10;
const GROWTH: usize = 1 << 20;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The terminator of a line on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnding {
    /// `\n`
    Lf,
    /// `\r\n`
    CrLf,
    /// None, at the end of the file.
    None,
}

/// One line and its span in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Offset of the span.
    pub offset: u64,
    /// Line number, from 1.
    pub number: u64,
    /// The content: no terminator, no byte order mark; only its head if `oversize`.
    pub bytes: &'a [u8],
    /// The length of the span on disk, terminator and byte order mark included.
    pub len: u64,
    /// The terminator.
    pub ending: LineEnding,
    /// Whether the span starts with a UTF-8 byte order mark; only at offset 0.
    pub bom: bool,
    /// Whether the span is longer than the cap, so that `bytes` is only its head.
    pub oversize: bool,
}

/// A lending iterator over the lines of a reader.
#[derive(Debug)]
pub struct Scanner<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The unread part of `buffer`.
    unread: Range<usize>,
    /// There is no `\n` in `unread` before this index.
    searched: usize,
    offset: u64,
    number: u64,
    max_line: usize,
    /// The position at which reading returns to the start of the buffer, even if a long line has
    /// enlarged it. This keeps the reused bytes in the CPU cache.
    window: usize,
    skip: Option<Skip>,
    ended: bool,
}

/// An oversize line whose end is not yet reached; its head is at the start of the buffer.
#[derive(Clone, Copy, Debug)]
struct Skip {
    len: u64,
    last: u8,
}

impl<R: Read> Scanner<R> {
    /// Reads from the start of a file.
    pub fn new(reader: R) -> Self {
        // Room for two reads, so that the rest of a line at the end of one need not be moved.
        Self::with_capacity_and_cap(reader, 2 * CAPACITY, MAX_LINE)
    }

    /// Starts with a buffer of `capacity` bytes and holds lines of up to `max_line` bytes whole.
    pub fn with_capacity_and_cap(reader: R, capacity: usize, max_line: usize) -> Self {
        let capacity = capacity.max(1);
        Self {
            reader,
            buffer: vec![0; capacity],
            window: capacity,
            unread: 0..0,
            searched: 0,
            offset: 0,
            number: 0,
            max_line: max_line.max(1),
            skip: None,
            ended: false,
        }
    }

    /// Resumes an earlier read: `reader` must be at `offset`, the start of line `number`.
    pub fn from_offset(reader: R, offset: u64, number: u64) -> Self {
        let mut scanner = Self::new(reader);
        scanner.seek(offset, number);
        scanner
    }

    /// Restarts with another file and reuses the buffer, which makes reading thousands of small
    /// files cheap.
    pub fn reset(&mut self, reader: R) {
        self.reset_to(reader, 0, 1);
    }

    /// Like [`reset`](Self::reset), at an offset where an earlier read stopped.
    pub fn reset_to(&mut self, reader: R, offset: u64, number: u64) {
        self.reader = reader;
        self.seek(offset, number);
    }

    fn seek(&mut self, offset: u64, number: u64) {
        self.unread = 0..0;
        self.searched = 0;
        self.offset = offset;
        self.number = number.saturating_sub(1);
        self.skip = None;
        self.ended = false;
    }

    /// Offset of the next line.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The underlying reader.
    pub fn reader(&self) -> &R {
        &self.reader
    }

    /// Returns the next line, or `None` at the end of the input.
    ///
    /// After an error the call can be repeated: nothing read so far is lost.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends, which `Iterator` cannot"
    )]
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            let fresh = slice(&self.buffer, self.searched..self.unread.end);
            if let Some(at) = memchr(b'\n', fresh) {
                let end = self.searched + at + 1;
                return Ok(Some(match self.skip.take() {
                    Some(skip) => self.take_skipped(skip, end, true),
                    None => self.take(end, true),
                }));
            }
            self.searched = self.unread.end;
            if self.ended {
                let end = self.unread.end;
                return Ok(match self.skip.take() {
                    Some(skip) => Some(self.take_skipped(skip, end, false)),
                    None if self.unread.is_empty() => None,
                    None => Some(self.take(end, false)),
                });
            }
            self.make_room();
            self.fill()?;
        }
    }

    fn take(&mut self, end: usize, terminated: bool) -> Line<'_> {
        let span = self.unread.start..end;
        self.unread.start = end;
        self.searched = end;
        let bytes = slice(&self.buffer, span);
        let len = bytes.len() as u64;
        let offset = self.offset;
        self.offset += len;
        self.number += 1;
        let (content, ending) = split_ending(bytes, terminated);
        let oversize = bytes.len() > self.max_line;
        let shown = if oversize {
            content.len().min(head_len(self.max_line))
        } else {
            content.len()
        };
        let (bom, bytes) = split_bom(offset, slice(content, 0..shown));
        Line {
            offset,
            number: self.number,
            bytes,
            len,
            ending,
            bom,
            oversize,
        }
    }

    fn take_skipped(&mut self, skip: Skip, end: usize, terminated: bool) -> Line<'_> {
        let tail = slice(&self.buffer, self.unread.start..end);
        let len = skip.len + tail.len() as u64;
        let before_last = match tail {
            [.., before, _] => *before,
            _ => skip.last,
        };
        let ending = match (terminated, before_last) {
            (false, _) => LineEnding::None,
            (true, b'\r') => LineEnding::CrLf,
            (true, _) => LineEnding::Lf,
        };
        self.unread.start = end;
        self.searched = end;
        let offset = self.offset;
        self.offset += len;
        self.number += 1;
        let content = len - ending.len();
        let shown = usize::try_from(content)
            .unwrap_or(usize::MAX)
            .min(head_len(self.max_line));
        let (bom, bytes) = split_bom(offset, slice(&self.buffer, 0..shown));
        Line {
            offset,
            number: self.number,
            bytes,
            len,
            ending,
            bom,
            oversize: true,
        }
    }

    /// Ensures at least one free byte in the buffer after `unread`.
    fn make_room(&mut self) {
        let head = head_len(self.max_line);
        if let Some(skip) = &mut self.skip {
            let passed = slice(&self.buffer, self.unread.clone());
            skip.len += passed.len() as u64;
            skip.last = passed.last().copied().unwrap_or(skip.last);
            self.set_unread(head..head);
        } else if self.unread.len() > self.max_line {
            let passed = slice(&self.buffer, self.unread.clone());
            self.skip = Some(Skip {
                len: passed.len() as u64,
                last: passed.last().copied().unwrap_or_default(),
            });
            let start = self.unread.start;
            self.buffer.copy_within(start..start + head, 0);
            self.set_unread(head..head);
        } else if self.unread.start > 0 && self.unread.end > self.window - self.window / 4 {
            // At most once per line: then it is at the start.
            self.buffer.copy_within(self.unread.clone(), 0);
            self.set_unread(0..self.unread.len());
        }
        if self.unread.end == self.buffer.len() {
            let enough = self.max_line.saturating_add(1);
            // Doubles, but not far beyond the longest line: most of it would never be used.
            let len = self.buffer.len();
            let more = len.min((len / 4).max(GROWTH));
            let len = len
                .saturating_add(more)
                .min(enough)
                .max(self.unread.end + 1);
            self.buffer.reserve_exact(len - self.buffer.len());
            self.buffer.resize(len, 0);
        }
    }

    fn set_unread(&mut self, unread: Range<usize>) {
        self.searched = unread.end;
        self.unread = unread;
    }

    fn fill(&mut self) -> io::Result<()> {
        // After a long line has enlarged the buffer, reads remain small enough for the cache.
        let end = self.unread.end;
        let limit = self.buffer.len().min(end.saturating_add(CAPACITY));
        let free = self.buffer.get_mut(end..limit).unwrap_or_default();
        let read = loop {
            match self.reader.read(free) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.ended = read == 0;
        self.unread.end += read;
        Ok(())
    }
}

impl<R: Read + Seek> Scanner<R> {
    /// Returns the next line in which `find` finds a mark. The lines before it are not split, so
    /// the line number is unknown and set to 0.
    ///
    /// `find` is called with pieces of the input that may begin and end within lines, and returns
    /// the index of the first mark. Marks are at most `longest` bytes long and contain no line
    /// ending. A line that exceeds both the cap and the buffer is returned with or without a mark.
    /// At the end of the input, [`offset`](Self::offset) is the start of an unterminated line
    /// without a mark. After an error the next call starts with the same line.
    pub fn next_where(
        &mut self,
        find: impl Fn(&[u8]) -> Option<usize>,
        longest: usize,
    ) -> io::Result<Option<Line<'_>>> {
        // With a cap below the buffer size there is nothing to gain.
        let lets_go = longest <= self.window / 2 && self.max_line >= self.window;
        // Number of unread bytes known to contain no start of a mark.
        let mut passed = 0;
        while self.skip.is_none() {
            let from = self.unread.start + passed;
            if let Some(at) = find(slice(&self.buffer, from..self.unread.end)) {
                let before = slice(&self.buffer, self.unread.start..from + at);
                let skipped = memrchr(b'\n', before).map_or(0, |at| at + 1);
                self.skip_lines(skipped);
                self.searched = from + at;
                break;
            }
            let fresh = slice(&self.buffer, self.searched..self.unread.end);
            if let Some(at) = memrchr(b'\n', fresh) {
                self.skip_lines(self.searched + at + 1 - self.unread.start);
            }
            self.searched = self.unread.end;
            if self.ended {
                return Ok(None);
            }
            if lets_go && self.unread.len() > self.window / 2 {
                match self.search_long_line(&find, longest)? {
                    None => return Ok(None),
                    Some(true) => break,
                    Some(false) => passed = 0,
                }
                continue;
            }
            passed = self.unread.len().saturating_sub(longest - 1);
            self.make_room();
            self.fill()?;
        }
        self.number = 0;
        let found = self.next();
        found.map(|line| line.map(|line| Line { number: 0, ..line }))
    }

    /// Searches a long line that has no mark so far without storing it: most have none. Afterwards
    /// the position is after the line (`false`), or at its start if it is to be returned (`true`)
    /// or the input ends (`None`).
    fn search_long_line(
        &mut self,
        find: &impl Fn(&[u8]) -> Option<usize>,
        longest: usize,
    ) -> io::Result<Option<bool>> {
        let mut gone = 0;
        let outcome = loop {
            let passed = self.unread.len().saturating_sub(longest - 1);
            self.unread.start += passed;
            gone += passed;
            self.make_room();
            if let Err(error) = self.fill() {
                break Err(error);
            }
            if self.ended {
                break Ok(None);
            }
            let held = slice(&self.buffer, self.unread.clone());
            let end = memchr(b'\n', held);
            let line = slice(held, 0..end.map_or(held.len(), |end| end + 1));
            if gone + line.len() > self.max_line || find(line).is_some() {
                break Ok(Some(true));
            }
            if end.is_some() {
                self.skip_lines(line.len());
                self.offset += gone as u64;
                self.searched = self.unread.start;
                return Ok(Some(false));
            }
        };
        let back = gone + self.unread.len();
        self.reader.seek_relative(-(back as i64))?;
        self.set_unread(0..0);
        self.ended = false;
        outcome
    }

    /// Skips whole lines.
    fn skip_lines(&mut self, bytes: usize) {
        self.unread.start += bytes;
        self.offset += bytes as u64;
    }
}

impl LineEnding {
    /// Length of the terminator in bytes.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a terminator is not a collection"
    )]
    pub fn len(self) -> u64 {
        match self {
            LineEnding::Lf => 1,
            LineEnding::CrLf => 2,
            LineEnding::None => 0,
        }
    }
}

pub(crate) fn head_len(max_line: usize) -> usize {
    OVERSIZE_HEAD.min(max_line)
}

pub(crate) fn slice(bytes: &[u8], range: Range<usize>) -> &[u8] {
    bytes.get(range).unwrap_or_default()
}

pub(crate) fn split_ending(span: &[u8], terminated: bool) -> (&[u8], LineEnding) {
    match span {
        [content @ .., b'\r', b'\n'] if terminated => (content, LineEnding::CrLf),
        [content @ .., b'\n'] if terminated => (content, LineEnding::Lf),
        _ => (span, LineEnding::None),
    }
}

pub(crate) fn split_bom(offset: u64, content: &[u8]) -> (bool, &[u8]) {
    match content.strip_prefix(BOM) {
        Some(rest) if offset == 0 => (true, rest),
        _ => (false, content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ending_length_matches_bytes() {
        let ends = |text: &[u8]| split_ending(text, true).1.len();
        assert_eq!((ends(b"a\n"), ends(b"a\r\n"), ends(b"a")), (1, 2, 0));
    }

    #[test]
    fn short_lines_do_not_grow_buffer() {
        let input = b"a line of some length\n".repeat(10_000);
        let mut scanner = Scanner::with_capacity_and_cap(input.as_slice(), 1 << 12, MAX_LINE);
        let mut lines = 0;
        while scanner.next().unwrap().is_some() {
            lines += 1;
        }
        assert_eq!((lines, scanner.buffer.len()), (10_000, 1 << 12));
    }
}
