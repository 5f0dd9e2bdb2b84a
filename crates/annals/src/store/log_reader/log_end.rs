//! The last lines of a log, read backwards on demand.

use std::io;

use annals_jsonl::{RangeReader, ReadAt, Scanner, TailReader};
use annals_layouts::layout::Record;
use annals_layouts::model::Span;

use super::{record_from_tail_line, unnumbered_record};

/// The end of an open log. It grows backwards. Lines over the length limit are read once, however
/// often the records are requested.
pub(super) struct LogEnd<'a> {
    handle: &'a dyn ReadAt,
    lines: TailReader<RangeReader<&'a dyn ReadAt>>,
    start: u64,
    end: u64,
    /// The lines over the limit between `start` and `end`, the last one first.
    oversize: Vec<Oversize>,
}

/// A line over the limit. There is at most one for each 64 MiB of a log.
struct Oversize {
    span: Span,
    head: Vec<u8>,
    terminated: bool,
}

impl<'a> LogEnd<'a> {
    /// Starts at the current end of a log, without lines.
    pub(super) fn new(handle: &'a dyn ReadAt) -> io::Result<Self> {
        let end = handle.size()?;
        Ok(LogEnd {
            handle,
            lines: TailReader::new(RangeReader::between(handle, 0, end))?,
            start: end,
            end,
            oversize: Vec::new(),
        })
    }

    /// Extends backwards until the lines have at least `bytes` in total, or to the start of the
    /// log.
    pub(super) fn extend(&mut self, bytes: u64) -> io::Result<()> {
        if bytes >= self.end {
            // The whole log is requested, so its line starts are not needed.
            self.start = 0;
        }
        while self.start > 0 && self.len() < bytes {
            let Some(line) = self.lines.prev()? else {
                break;
            };
            self.start = line.offset;
            if line.oversize {
                let record = record_from_tail_line(&line);
                self.oversize.push(Oversize {
                    span: record.span,
                    head: record.bytes.to_vec(),
                    terminated: record.terminated,
                });
            }
        }
        Ok(())
    }

    /// Returns the byte offset of the first line.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the total length of the lines.
    pub(super) fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Passes the records to `visit`, in file order.
    pub(super) fn each_record(&self, mut visit: impl FnMut(&Record<'_>)) -> io::Result<()> {
        let mut offset = self.start;
        let mut oversize = self.oversize.iter().rev();
        let mut scanner = Scanner::new(RangeReader::between(self.handle, 0, 0));
        loop {
            let next = oversize.next();
            let end = next.map_or(self.end, |line| line.span.offset);
            scanner.reset_to(RangeReader::between(self.handle, offset, end), offset, 1);
            while let Some(line) = scanner.next()? {
                visit(&unnumbered_record(&line));
            }
            let Some(line) = next else {
                return Ok(());
            };
            visit(&Record {
                span: line.span,
                bytes: &line.head,
                terminated: line.terminated,
                oversize: true,
            });
            offset = line.span.offset + line.span.len;
        }
    }
}
