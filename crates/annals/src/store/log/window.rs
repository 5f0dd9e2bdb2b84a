//! The end of a log: as many of its last records as it takes to know where the session goes on.

use std::io;

use crate::error::{Error, Result};
use crate::jsonl::{self, Bytes, BytesReader, Scanner, TailReader};
use crate::layout::{Record, Sink};
use crate::model::{Entry, EntryId, Key, Kind, Span};
use crate::store::share::{self, Sieve};
use crate::store::{FoundFile, Root};
use crate::tree::{Tree, named_leaf};

use super::{LogScan, adopt, link_previous, outline_one, pick, scope, strip, uncounted};

/// How far back a log is searched for the leaf at which its program goes on.
pub(in crate::store) const REACH: u64 = 1 << 20;

/// The end of a log.
#[derive(Debug)]
pub(in crate::store) struct Window {
    /// Its outlines.
    pub(in crate::store) scan: LogScan,
    /// How they hang together.
    pub(in crate::store) tree: Tree,
    /// A leaf is named in it, and is in it.
    pub(in crate::store) named: bool,
    /// Its records, in file order.
    records: Vec<Tailed>,
    /// Tells what follows, where several sessions lie in the file.
    pub(in crate::store) sieve: Option<Sieve>,
}

#[derive(Debug)]
struct Tailed {
    span: Span,
    terminated: bool,
    oversize: bool,
}

impl Window {
    /// Reads as much of the end of a log as it takes to know where it goes on, and until `enough`
    /// says so.
    ///
    /// A named leaf is looked for in the whole log if need be. That no leaf is named is taken for
    /// granted after [`REACH`]. Only outlines are held, so memory goes with the number of lines.
    ///
    /// In a file of several sessions, records count from the first on that names its session: before
    /// that nobody knows whose they are.
    pub(in crate::store) fn read(
        root: &Root,
        file: &FoundFile,
        handle: &dyn Bytes,
        enough: impl Fn(&Tree) -> bool,
    ) -> Result<Self> {
        let mut bytes = 64 << 10;
        loop {
            let window = Window::of(root, file, handle, bytes)?;
            let resume = named_leaf(&window.scan.outlines);
            let known = |key: Key| {
                let mut outlines = window.scan.outlines.iter();
                outlines.any(|outline| outline.key == Some(key))
            };
            let named = resume.is_some_and(known);
            // Only programs that follow links say where they go on.
            let says_leaf = root.layout.resumes_by_links();
            let mut outlines = window.scan.outlines.iter();
            // What was named before a compaction counts no more.
            let compacted = outlines.any(|outline| outline.kind == Kind::Compaction);
            let far = !says_leaf || compacted || window.scan.bytes >= REACH;
            let certain = named || (resume.is_none() && far);
            if window.scan.whole || (certain && enough(&window.tree)) {
                return Ok(Window { named, ..window });
            }
            // A leaf that is not near the end may be anywhere, or nowhere.
            let lost = resume.is_some() && !named && window.scan.bytes >= REACH;
            bytes = if lost { u64::MAX } else { bytes * 4 };
        }
    }

    fn of(root: &Root, file: &FoundFile, handle: &dyn Bytes, bytes: u64) -> Result<Self> {
        let failed = |error| Error::io("read", &file.path, error);
        let end = handle.size().map_err(failed)?;
        let start = start_of_tail(handle, bytes).map_err(failed)?;
        let mut scan = LogScan {
            whole: start == 0,
            bytes: end.saturating_sub(start),
            ..LogScan::default()
        };
        let mut scanner = Scanner::from_offset(BytesReader::between(handle, start, end), start, 1);
        let mut records = Vec::new();
        let mut decoder = root.decoder(file);
        let mut sieve = file.share.as_deref().map(Sieve::new);
        if let Some(sieve) = sieve.as_mut().filter(|_| start > 0) {
            sieve.in_the_middle();
        }
        let mut sink = Sink::default();
        while let Some(line) = scanner.next().map_err(failed)? {
            let record = uncounted(&line);
            let offset = record.span.offset;
            if let Some(sieve) = &mut sieve
                && !sieve.takes(offset, || share::named(decoder.as_mut(), &record))
            {
                continue;
            }
            records.push(Tailed {
                span: record.span,
                terminated: record.terminated,
                oversize: record.oversize,
            });
            let valid = outline_one(decoder.as_mut(), &record, &mut sink);
            if !record.is_blank() {
                scan.lines += 1;
                scan.valid += u64::from(valid);
            }
        }
        scan.outlines = sink.found;
        scan.flaws = sink.flaws;
        link_previous(&mut scan.outlines);
        let tree = Tree::build(&scan.outlines, scope(&file.artifact));
        Ok(Window {
            scan,
            tree,
            named: false,
            records,
            sieve,
        })
    }

    /// An entry that stands in a damaged line: we can read it, the agent program cannot.
    pub(in crate::store) fn salvaged(&self, at: usize) -> bool {
        let Some(outline) = self.scan.outlines.get(at) else {
            return false;
        };
        let found = self
            .records
            .binary_search_by_key(&outline.span.offset, |tailed| tailed.span.offset);
        let record = found.ok().and_then(|found| self.records.get(found));
        record.is_none_or(|tailed| tailed.span != outline.span)
    }

    /// One of its entries, by the index of its outline; `None` if the log has changed meanwhile.
    pub(in crate::store) fn entry(
        &self,
        root: &Root,
        file: &FoundFile,
        handle: &dyn Bytes,
        at: usize,
    ) -> Option<Entry> {
        let outline = self.scan.outlines.get(at)?;
        let span = outline.span;
        let after = self
            .records
            .partition_point(|tailed| tailed.span.offset <= span.offset);
        let whole = self.records.get(after.checked_sub(1)?)?;
        if whole.oversize {
            return None;
        }
        let bytes = strip(jsonl::read_span(handle, span.offset, span.len).ok()?, span);
        let record = Record {
            span,
            bytes: &bytes,
            // Salvaged from within a damaged line, it is whole by itself.
            terminated: whole.terminated || whole.span != span,
            oversize: false,
        };
        let mut sink = Sink::default();
        root.decoder(file).decode(&record, &mut sink);
        let mut entry = pick(sink.found, &self.scan.outlines, at)?;
        let same = entry.id.as_ref().map(EntryId::key) == outline.key;
        adopt(&mut entry, &self.scan.outlines, at);
        (same || outline.key.is_none()).then_some(entry)
    }
}

/// Where the lines of the last `bytes` bytes begin.
fn start_of_tail(handle: &dyn Bytes, bytes: u64) -> io::Result<u64> {
    if bytes == u64::MAX {
        return Ok(0);
    }
    let mut tail = TailReader::new(BytesReader::from(handle, 0))?;
    let mut read = 0;
    let mut start = None;
    while let Some(line) = tail.prev()? {
        if read >= bytes {
            return Ok(start.unwrap_or(0));
        }
        read += line.len;
        start = Some(line.offset);
    }
    Ok(0)
}

/// Opens a log and reads its end.
pub(in crate::store) fn window(
    root: &Root,
    file: &FoundFile,
    enough: impl Fn(&Tree) -> bool,
) -> Result<Window> {
    Window::read(root, file, &file.open()?, enough)
}
