//! Reads the lines of a source, byte for byte.

use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};
use crate::store::{RootFile, SessionFiles, SessionSlice};
use annals_jsonl::{self as jsonl, Line, LineEnding, OpenLog, RangeReader, Scanner};
use annals_layouts::layout::Record;
use annals_layouts::model::{ArtifactKind, Framing, Span};

use super::origin::{LineEnd, MAX_PIECE, SourceFile};
use super::other_files::source_file;

/// Why a session is not that of an earlier conversion.
pub(super) const SOURCE_CHANGED: &str = "the source has changed since";

/// Returns all files of a session, in the order of their numbers.
pub(super) fn sources(files: &SessionFiles) -> Vec<&RootFile> {
    let logs = files.logs().flat_map(RootFile::volumes);
    let notes = files.notes();
    let others = files.attachments.iter();
    let others = others.filter(|file| file.artifact.kind != ArtifactKind::Notes);
    logs.chain(notes).chain(others).collect()
}

/// Returns the metadata of all files of a session.
pub(super) fn source_files(files: &SessionFiles) -> Result<Vec<SourceFile>> {
    let sources = sources(files).into_iter();
    let sources = sources.map(|file| source_file(&files.root, &file.path));
    sources.collect()
}

/// A line of the source.
pub(super) struct SourceLine<'a> {
    /// Bytes with a byte order mark, without the line ending; only the start of an oversize line.
    pub(super) bytes: std::borrow::Cow<'a, [u8]>,
    text: &'a [u8],
    /// Position in the file.
    span: Span,
    /// Position among the records.
    record: Span,
    pub(super) number: u64,
    pub(super) end: LineEnd,
    pub(super) oversize: bool,
    file: &'a OpenLog,
    path: &'a Path,
}

impl SourceLine<'_> {
    pub(super) fn record(&self) -> Record<'_> {
        Record {
            span: self.record,
            bytes: self.text,
            terminated: self.end != LineEnd::None,
            oversize: self.oversize,
        }
    }

    /// Passes on the line in pieces that fit into a record, each with the line ending after it.
    pub(super) fn pieces(&self, mut put: impl FnMut(&[u8], LineEnd) -> Result<()>) -> Result<()> {
        if !self.oversize && self.bytes.len() <= MAX_PIECE {
            return put(&self.bytes, self.end);
        }
        let whole = self.span.len - self.end.bytes().len() as u64;
        let mut at = 0;
        while at < whole {
            let len = (whole - at).min(MAX_PIECE as u64);
            let piece = jsonl::read_span(self.file, self.span.offset + at, len)
                .map_err(|error| Error::io("read", self.path, error))?;
            at += len;
            put(&piece, if at == whole { self.end } else { LineEnd::None })?;
        }
        Ok(())
    }
}

/// Passes the lines of one log volume that belong to the session to `visit`.
pub(super) fn each_line(
    file: &RootFile,
    mut visit: impl FnMut(SourceLine<'_>) -> Result<()>,
) -> Result<()> {
    let path = &file.path;
    let handle = file.open()?;
    if file.artifact.framing.keeps_lines() {
        return derived_lines(file, &handle, &mut visit);
    }
    let Some(share) = &file.slice else {
        let whole = RangeReader::from_offset(&handle, 0);
        return lines(&handle, path, Scanner::new(whole), &mut visit);
    };
    for stretch in share.ranges.iter() {
        let bytes = &stretch.bytes;
        let within = RangeReader::between(&handle, bytes.start, bytes.end);
        let scanner = Scanner::from_offset(within, bytes.start, stretch.line);
        lines(&handle, path, scanner, &mut visit)?;
    }
    Ok(())
}

/// Passes the lines of a document whose records are derived line by line: the record, and the bytes of
/// the line itself.
fn derived_lines(
    file: &RootFile,
    derived: &OpenLog,
    visit: &mut impl FnMut(SourceLine<'_>) -> Result<()>,
) -> Result<()> {
    let path = &file.path;
    let failed = |error| Error::io("read", path, error);
    let bytes = file.open_bytes()?;
    // A fork by reference continues the beginning of another session's log.
    let continued = file.slice.as_deref().filter(|share| {
        let own = file.artifact.session.as_ref();
        file.artifact.agent.is_none() && own != Some(&share.name)
    });
    let end = continued.map_or(u64::MAX, |share| {
        share
            .ranges
            .iter()
            .map(|range| range.bytes.end)
            .max()
            .unwrap_or(0)
    });
    // A log of a session with its sub-agents.
    let is_set = matches!(file.artifact.framing, Framing::Files(_));
    let own = file.slice.as_deref().filter(|_| is_set);
    let is_own = |offset: u64| {
        let within = |share: &SessionSlice| {
            let mut ranges = share.ranges.iter();
            ranges.any(|range| range.bytes.contains(&offset))
        };
        own.is_none_or(within)
    };
    let mut records = Scanner::new(RangeReader::from_offset(derived, 0));
    lines(
        &bytes,
        path,
        Scanner::new(RangeReader::from_offset(&bytes, 0)),
        &mut |line| {
            let record = records.next().map_err(failed)?;
            let (text, span) = match &record {
                Some(record) => (record.bytes, record_span(record)),
                None => (line.text, line.span),
            };
            if span.offset >= end || !is_own(span.offset) {
                return Ok(());
            }
            visit(SourceLine {
                text,
                record: span,
                ..line
            })
        },
    )
}

fn record_span(line: &Line<'_>) -> Span {
    Span {
        offset: line.offset,
        len: line.len,
        line: line.number,
    }
}

fn lines<R: Read>(
    file: &OpenLog,
    path: &Path,
    mut scanner: Scanner<R>,
    visit: &mut impl FnMut(SourceLine<'_>) -> Result<()>,
) -> Result<()> {
    let failed = |error| Error::io("read", path, error);
    while let Some(line) = scanner.next().map_err(failed)? {
        let end = match line.ending {
            LineEnding::Lf => LineEnd::Lf,
            LineEnding::CrLf => LineEnd::CrLf,
            LineEnding::None => LineEnd::None,
        };
        let marked = line.offset == 0
            && !line.oversize
            && line.len == (line.bytes.len() + end.bytes().len() + 3) as u64;
        let bytes = match marked {
            true => [b"\xef\xbb\xbf", line.bytes].concat().into(),
            false => line.bytes.into(),
        };
        let span = record_span(&line);
        visit(SourceLine {
            bytes,
            text: line.bytes,
            span,
            record: span,
            number: line.number - 1,
            end,
            oversize: line.oversize,
            file,
            path,
        })?;
    }
    Ok(())
}
