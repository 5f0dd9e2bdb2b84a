//! Reading logs and documents: from the front, from the back, and single records.

use std::fs::File;
use std::io::Read as _;

use crate::error::{Error, Result};
use crate::jsonl::{self, Ending, Scanner, TailReader};
use crate::layout::{Decoder, Record, Sink};
use crate::model::{Entry, Fact, Flaw, FlawKind, Outline, Span};

use super::{FoundFile, Root};

/// No document that we read whole is larger than this.
const MAX_DOCUMENT: u64 = 64 << 20;

/// The outlines of a log, or of its end.
#[derive(Debug, Default)]
pub struct LogScan {
    /// What was read.
    pub outlines: Vec<Outline>,
    /// What is wrong with single lines.
    pub flaws: Vec<Flaw>,
    /// Lines that are not blank.
    pub lines: u64,
    /// Lines that gave entries.
    pub valid: u64,
    /// The bytes that were read.
    pub bytes: u64,
    /// Reading began at the front.
    pub whole: bool,
}

/// Outlines a whole log.
pub(super) fn outline(root: &Root, file: &FoundFile) -> Result<LogScan> {
    let mut scan = LogScan {
        whole: true,
        ..LogScan::default()
    };
    let mut decoder = root.layout.decoder(&file.artifact);
    let mut sink = Sink::default();
    each_record(file, |record| {
        scan.bytes += record.span.len;
        if !record.is_blank() {
            scan.lines += 1;
            let before = sink.found.len();
            decoder.outline(record, &mut sink);
            scan.valid += u64::from(sink.found.len() > before);
        }
        Ok(true)
    })?;
    scan.outlines = sink.found;
    scan.flaws = sink.flaws;
    Ok(scan)
}

/// Hands every record of a log to `visit`, until it says `false`.
pub(super) fn each_record(
    file: &FoundFile,
    mut visit: impl FnMut(&Record<'_>) -> Result<bool>,
) -> Result<()> {
    thread_local! {
        // Growing one buffer per file would cost more than reading most files.
        static SCANNER: std::cell::RefCell<Option<Scanner<File>>> = const { std::cell::RefCell::new(None) };
    }
    let handle = open(file)?;
    let mut scanner = SCANNER.take().map_or_else(
        || Ok::<_, Error>(None),
        |mut scanner| {
            let handle = handle
                .try_clone()
                .map_err(|error| Error::io("read", &file.path, error))?;
            scanner.reset(handle);
            Ok(Some(scanner))
        },
    )?;
    let mut fresh = None;
    let lines = match scanner.as_mut() {
        Some(scanner) => scanner,
        None => fresh.insert(Scanner::new(handle)),
    };
    let outcome = (|| {
        while let Some(line) = lines
            .next()
            .map_err(|error| Error::io("read", &file.path, error))?
        {
            let record = Record {
                span: Span {
                    offset: line.offset,
                    len: line.len,
                    line: line.number,
                },
                bytes: line.bytes,
                terminated: line.ending != Ending::None,
                oversize: line.oversize,
            };
            if !visit(&record)? {
                break;
            }
        }
        Ok(())
    })();
    SCANNER.set(scanner.or(fresh));
    outcome
}

/// Decodes single records of a log, in the order asked for.
pub(super) fn entries_at(
    root: &Root,
    file: &FoundFile,
    spans: impl Iterator<Item = Span>,
    mut visit: impl FnMut(Entry) -> Result<bool>,
) -> Result<()> {
    let handle = open(file)?;
    let mut decoder = root.layout.decoder(&file.artifact);
    for span in spans {
        let Some(entry) = entry_at(&handle, file, decoder.as_mut(), span)? else {
            continue;
        };
        if !visit(entry)? {
            break;
        }
    }
    Ok(())
}

fn entry_at(
    handle: &File,
    file: &FoundFile,
    decoder: &mut dyn Decoder,
    span: Span,
) -> Result<Option<Entry>> {
    let bytes = record_bytes(handle, file, span)?;
    let mut sink = Sink::default();
    decoder.decode(
        &Record {
            span,
            bytes: &bytes,
            terminated: true,
            oversize: false,
        },
        &mut sink,
    );
    Ok(sink.found.pop())
}

/// The bytes of one record, without its line ending and byte order mark.
pub(super) fn record_bytes(handle: &File, file: &FoundFile, span: Span) -> Result<Vec<u8>> {
    let mut bytes = jsonl::read_span(handle, span.offset, span.len)
        .map_err(|error| Error::io("read", &file.path, error))?;
    while let Some(b'\n' | b'\r') = bytes.last() {
        bytes.pop();
    }
    if span.offset == 0 && bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    Ok(bytes)
}

/// Outlines the end of a log: at least the lines of its last `bytes` bytes, all of them if it is
/// not longer.
pub(super) fn outline_tail(root: &Root, file: &FoundFile, bytes: u64) -> Result<LogScan> {
    let handle = open(file)?;
    let failed = |error| Error::io("read", &file.path, error);
    let mut tail = TailReader::new(handle).map_err(failed)?;
    let mut spans = Vec::new();
    let mut scan = LogScan {
        whole: true,
        ..LogScan::default()
    };
    while let Some(line) = tail.prev().map_err(failed)? {
        if scan.bytes >= bytes {
            scan.whole = false;
            break;
        }
        scan.bytes += line.len;
        spans.push((
            line.offset,
            line.len,
            line.ending,
            line.oversize,
            line.bytes.to_vec(),
        ));
    }
    let mut decoder = root.layout.decoder(&file.artifact);
    let mut sink = Sink::default();
    for (offset, len, ending, oversize, bytes) in spans.into_iter().rev() {
        let record = Record {
            span: Span {
                offset,
                len,
                line: 0,
            },
            bytes: &bytes,
            terminated: ending != Ending::None,
            oversize,
        };
        if record.is_blank() {
            continue;
        }
        scan.lines += 1;
        let before = sink.found.len();
        decoder.outline(&record, &mut sink);
        scan.valid += u64::from(sink.found.len() > before);
    }
    scan.outlines = sink.found;
    scan.flaws = sink.flaws;
    Ok(scan)
}

/// Looks for a fact among a log's first entries.
pub(super) fn first_fact<T>(
    root: &Root,
    file: &FoundFile,
    entries: usize,
    wanted: impl Fn(&Fact) -> Option<T>,
) -> Result<Option<T>> {
    let mut found = None;
    let mut decoder = root.layout.decoder(&file.artifact);
    let mut sink: Sink<Outline> = Sink::default();
    let mut left = entries;
    each_record(file, |record| {
        decoder.outline(record, &mut sink);
        let facts = sink.found.drain(..).flat_map(|outline| outline.facts);
        found = facts.into_iter().find_map(|fact| wanted(&fact));
        left = left.saturating_sub(1);
        Ok(found.is_none() && left > 0)
    })?;
    Ok(found)
}

/// Reads a document: one record that is the whole file.
pub(super) fn document(root: &Root, file: &FoundFile) -> Result<Sink<Entry>> {
    let bytes = document_bytes(file)?;
    let span = Span {
        offset: 0,
        len: bytes.len() as u64,
        line: 1,
    };
    let mut sink = Sink::default();
    let record = Record {
        span,
        bytes: &bytes,
        terminated: true,
        oversize: false,
    };
    root.layout
        .decoder(&file.artifact)
        .decode(&record, &mut sink);
    Ok(sink)
}

/// A document's bytes.
pub(super) fn document_bytes(file: &FoundFile) -> Result<Vec<u8>> {
    let handle = open(file)?;
    let mut bytes = Vec::new();
    let read = handle.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::io("read", &file.path, error))?;
    if bytes.len() as u64 > MAX_DOCUMENT {
        return Err(Error::refused(format!(
            "{} is larger than {} MB and was not read",
            file.path.display(),
            MAX_DOCUMENT >> 20
        )));
    }
    Ok(bytes)
}

fn open(file: &FoundFile) -> Result<File> {
    File::open(&file.path).map_err(|error| Error::io("read", &file.path, error))
}

impl LogScan {
    /// Outlines a whole log.
    pub fn read(root: &Root, file: &FoundFile) -> Result<Self> {
        outline(root, file)
    }

    /// Outlines a document: one record that is the whole file.
    pub fn read_document(root: &Root, file: &FoundFile) -> Result<Self> {
        let sink = document(root, file)?;
        let lines = u64::from(file.id.len > 0);
        let valid = if sink.flaws.is_empty() { lines } else { 0 };
        Ok(LogScan {
            flaws: sink.flaws,
            lines,
            valid,
            bytes: file.id.len,
            whole: true,
            outlines: Vec::new(),
        })
    }

    /// The record is unfinished rather than damaged: its writer may still be at work.
    pub fn pending(&self) -> bool {
        self.flaws
            .iter()
            .any(|flaw| flaw.kind == FlawKind::TornTail)
    }
}

/// The summaries at the beginning of a log, by the leaf they name.
pub(super) fn first_summaries(
    root: &Root,
    file: &FoundFile,
    reach: u64,
) -> Result<Vec<(crate::model::Key, Box<str>)>> {
    let mut decoder = root.layout.decoder(&file.artifact);
    let mut sink: Sink<Outline> = Sink::default();
    each_record(file, |record| {
        let near = record.span.offset < reach;
        if near {
            decoder.outline(record, &mut sink);
        }
        Ok(near)
    })?;
    let facts = sink.found.into_iter().flat_map(|outline| outline.facts);
    Ok(facts
        .filter_map(|fact| match fact {
            Fact::Summary(text, Some(leaf)) => Some((leaf, text)),
            _ => None,
        })
        .collect())
}
