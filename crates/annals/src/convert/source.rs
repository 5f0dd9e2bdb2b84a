//! The lines of a source, to the last byte.

use std::fs::File;
use std::path::Path;

use crate::error::{Error, Result};
use crate::jsonl::{self, Ending, Scanner};
use crate::layout::Record;
use crate::model::Span;

use super::origin::{End, PIECE};

/// A line of the source.
pub(super) struct SourceLine<'a> {
    /// Its bytes with a byte order mark, without what ends it; of an oversize line the beginning.
    pub(super) bytes: std::borrow::Cow<'a, [u8]>,
    text: &'a [u8],
    span: Span,
    pub(super) number: u64,
    pub(super) end: End,
    pub(super) oversize: bool,
    file: &'a File,
    path: &'a Path,
}

impl SourceLine<'_> {
    pub(super) fn record(&self) -> Record<'_> {
        Record {
            span: self.span,
            bytes: self.text,
            terminated: self.end != End::None,
            oversize: self.oversize,
        }
    }

    /// The line in pieces that fit into a record, each with what stood after it.
    pub(super) fn pieces(&self, mut put: impl FnMut(&[u8], End) -> Result<()>) -> Result<()> {
        if !self.oversize && self.bytes.len() <= PIECE {
            return put(&self.bytes, self.end);
        }
        let whole = self.span.len - self.end.bytes().len() as u64;
        let mut at = 0;
        while at < whole {
            let len = (whole - at).min(PIECE as u64);
            let piece = jsonl::read_span(self.file, self.span.offset + at, len)
                .map_err(|error| Error::io("read", self.path, error))?;
            at += len;
            put(&piece, if at == whole { self.end } else { End::None })?;
        }
        Ok(())
    }
}

/// Hands every line of a file to `visit`.
pub(super) fn each_line(
    path: &Path,
    mut visit: impl FnMut(SourceLine<'_>) -> Result<()>,
) -> Result<()> {
    let failed = |error| Error::io("read", path, error);
    let file = File::open(path).map_err(failed)?;
    let mut scanner = Scanner::new(&file);
    while let Some(line) = scanner.next().map_err(failed)? {
        let end = match line.ending {
            Ending::Lf => End::Lf,
            Ending::CrLf => End::CrLf,
            Ending::None => End::None,
        };
        let marked = line.offset == 0
            && !line.oversize
            && line.len == (line.bytes.len() + end.bytes().len() + 3) as u64;
        let bytes = match marked {
            true => [b"\xef\xbb\xbf", line.bytes].concat().into(),
            false => line.bytes.into(),
        };
        visit(SourceLine {
            bytes,
            text: line.bytes,
            span: Span {
                offset: line.offset,
                len: line.len,
                line: line.number,
            },
            number: line.number - 1,
            end,
            oversize: line.oversize,
            file: &file,
            path,
        })?;
    }
    Ok(())
}
