//! Reading logs and documents: from the front, from the back, and single records.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::error::{Error, Result};
use crate::jsonl::{self, Ending, Scanner, TailReader};
use crate::layout::{Decoder, Record, Sink};
use crate::model::{
    Artifact, ArtifactKind, Entry, EntryId, Fact, Flaw, FlawKind, Key, Outline, Span,
};
use crate::tree::{Scope, Tree};

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
    each_record(&file.path, |record| {
        scan.bytes += record.span.len;
        if !record.is_blank() {
            scan.lines += 1;
            scan.valid += u64::from(outline_one(decoder.as_mut(), record, &mut sink));
        }
        Ok(true)
    })?;
    scan.outlines = sink.found;
    scan.flaws = sink.flaws;
    Ok(scan)
}

/// Outlines a record and tells whether it is whole. What is salvaged from a damaged one counts
/// among the entries, not among the valid lines.
fn outline_one(decoder: &mut dyn Decoder, record: &Record<'_>, sink: &mut Sink<Outline>) -> bool {
    let (found, flaws) = (sink.found.len(), sink.flaws.len());
    decoder.outline(record, sink);
    let mut fresh = sink.flaws.iter().skip(flaws);
    sink.found.len() > found && !fresh.any(|flaw| flaw.kind.hides_record())
}

/// Hands every record of a log to `visit`, until it says `false`.
pub(super) fn each_record(
    path: &Path,
    mut visit: impl FnMut(&Record<'_>) -> Result<bool>,
) -> Result<()> {
    thread_local! {
        // Growing one buffer per file would cost more than reading most files.
        static SCANNER: std::cell::RefCell<Option<Scanner<File>>> = const { std::cell::RefCell::new(None) };
    }
    let handle = open(path)?;
    let mut scanner = SCANNER.take().map_or_else(
        || Ok::<_, Error>(None),
        |mut scanner| {
            let handle = handle
                .try_clone()
                .map_err(|error| Error::io("read", path, error))?;
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
            .map_err(|error| Error::io("read", path, error))?
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
pub(super) fn entries_at<'a>(
    root: &Root,
    file: &FoundFile,
    outlines: impl Iterator<Item = &'a Outline>,
    mut visit: impl FnMut(Entry) -> Result<bool>,
) -> Result<()> {
    let mut reader = Reader::open(root, file)?;
    for outline in outlines {
        if let (_, Some(entry)) = reader.record(outline)?
            && !visit(entry)?
        {
            break;
        }
    }
    Ok(())
}

/// Reads records again that were outlined before.
pub(super) struct Reader<'a> {
    handle: File,
    file: &'a FoundFile,
    decoder: Box<dyn Decoder>,
}

impl<'a> Reader<'a> {
    pub(super) fn open(root: &Root, file: &'a FoundFile) -> Result<Self> {
        Ok(Reader {
            handle: open(&file.path)?,
            file,
            decoder: root.layout.decoder(&file.artifact),
        })
    }

    /// A record's bytes and its entry. Others may have changed the log since it was outlined, so the
    /// entry must still have the id that it had.
    pub(super) fn record(&mut self, outline: &Outline) -> Result<(Vec<u8>, Option<Entry>)> {
        let span = outline.span;
        let bytes = record_bytes(&self.handle, self.file, span)?;
        let mut sink = Sink::default();
        let record = Record {
            span,
            bytes: &bytes,
            terminated: true,
            oversize: false,
        };
        self.decoder.decode(&record, &mut sink);
        let entry = sink.found.pop();
        let id = entry.as_ref().and_then(|entry| entry.id.as_ref());
        if outline.key.is_some() && id.map(EntryId::key) != outline.key {
            return Err(Error::Changed {
                path: self.file.path.clone(),
            });
        }
        Ok((bytes, entry))
    }
}

/// The bytes of one record, without its line ending and byte order mark.
pub(super) fn record_bytes(handle: &File, file: &FoundFile, span: Span) -> Result<Vec<u8>> {
    let bytes = jsonl::read_span(handle, span.offset, span.len)
        .map_err(|error| Error::io("read", &file.path, error))?;
    Ok(strip(bytes, span))
}

fn strip(mut bytes: Vec<u8>, span: Span) -> Vec<u8> {
    while let Some(b'\n' | b'\r') = bytes.last() {
        bytes.pop();
    }
    if span.offset == 0 && bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    bytes
}

/// How far back a log is searched for the leaf at which its program goes on.
pub(super) const REACH: u64 = 1 << 20;

/// The end of a log.
#[derive(Debug)]
pub(super) struct Window {
    /// Its outlines.
    pub(super) scan: LogScan,
    /// How they hang together.
    pub(super) tree: Tree,
    /// A leaf is named in it, and is in it.
    pub(super) named: bool,
    /// Its records, in file order.
    records: Vec<Tailed>,
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
    pub(super) fn read(
        root: &Root,
        artifact: &Artifact,
        path: &Path,
        handle: &File,
        enough: impl Fn(&Tree) -> bool,
    ) -> Result<Self> {
        let mut bytes = 64 << 10;
        loop {
            let window = Window::of(root, artifact, path, handle, bytes)?;
            let resume = window.scan.outlines.iter().rev().find_map(|outline| {
                outline.facts.iter().find_map(|fact| match fact {
                    Fact::Resume(leaf) => Some(*leaf),
                    _ => None,
                })
            });
            let known = |key: Key| {
                let mut outlines = window.scan.outlines.iter();
                outlines.any(|outline| outline.key == Some(key))
            };
            let named = resume.is_some_and(known);
            let certain = named || (resume.is_none() && window.scan.bytes >= REACH);
            if window.scan.whole || (certain && enough(&window.tree)) {
                return Ok(Window { named, ..window });
            }
            // A leaf that is not near the end may be anywhere, or nowhere.
            let lost = resume.is_some() && !named && window.scan.bytes >= REACH;
            bytes = if lost { u64::MAX } else { bytes * 4 };
        }
    }

    fn of(
        root: &Root,
        artifact: &Artifact,
        path: &Path,
        handle: &File,
        bytes: u64,
    ) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let end = handle.metadata().map_err(failed)?.len();
        let start = start_of_tail(handle, bytes).map_err(failed)?;
        let mut scan = LogScan {
            whole: start == 0,
            bytes: end.saturating_sub(start),
            ..LogScan::default()
        };
        let mut reader = handle;
        reader.seek(SeekFrom::Start(start)).map_err(failed)?;
        let mut scanner = Scanner::from_offset(reader.take(scan.bytes), start, 1);
        let mut records = Vec::new();
        let mut decoder = root.layout.decoder(artifact);
        let mut sink = Sink::default();
        while let Some(line) = scanner.next().map_err(failed)? {
            let record = Record {
                span: Span {
                    offset: line.offset,
                    len: line.len,
                    line: 0,
                },
                bytes: line.bytes,
                terminated: line.ending != Ending::None,
                oversize: line.oversize,
            };
            records.push(Tailed {
                span: record.span,
                terminated: record.terminated,
                oversize: record.oversize,
            });
            if record.is_blank() {
                continue;
            }
            scan.lines += 1;
            scan.valid += u64::from(outline_one(decoder.as_mut(), &record, &mut sink));
        }
        scan.outlines = sink.found;
        scan.flaws = sink.flaws;
        let tree = Tree::build(&scan.outlines, scope(artifact));
        Ok(Window {
            scan,
            tree,
            named: false,
            records,
        })
    }

    /// An entry that stands in a damaged line: we can read it, the agent program cannot.
    pub(super) fn salvaged(&self, at: usize) -> bool {
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
    pub(super) fn entry(
        &self,
        root: &Root,
        artifact: &Artifact,
        handle: &File,
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
        root.layout.decoder(artifact).decode(&record, &mut sink);
        let entry = sink.found.pop()?;
        let same = entry.id.as_ref().map(EntryId::key) == outline.key;
        (same || outline.key.is_none()).then_some(entry)
    }
}

/// Where the lines of the last `bytes` bytes begin.
fn start_of_tail(handle: &File, bytes: u64) -> io::Result<u64> {
    if bytes == u64::MAX {
        return Ok(0);
    }
    let mut tail = TailReader::new(handle)?;
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

/// Whose log it is.
pub(super) fn scope(artifact: &Artifact) -> Scope {
    match artifact.kind {
        ArtifactKind::SessionLog => Scope::Main,
        _ => Scope::Agent,
    }
}

/// Opens a log and reads its end.
pub(super) fn window(
    root: &Root,
    file: &FoundFile,
    enough: impl Fn(&Tree) -> bool,
) -> Result<Window> {
    Window::read(root, &file.artifact, &file.path, &open(&file.path)?, enough)
}

/// The ids of a log's entries, and which of them `takes` lets others hang from.
pub(super) fn ids(
    root: &Root,
    artifact: &Artifact,
    path: &Path,
    takes: impl Fn(&Entry) -> bool,
) -> Result<HashMap<Key, bool>> {
    let mut decoder = root.layout.decoder(artifact);
    let mut sink: Sink<Entry> = Sink::default();
    let mut known = HashMap::new();
    each_record(path, |record| {
        decoder.decode(record, &mut sink);
        sink.flaws.clear();
        for entry in sink.found.drain(..) {
            // What we salvage from a damaged line, the agent program cannot read.
            let takes = takes(&entry) && entry.span == record.span;
            if let Some(id) = entry.id {
                known.insert(id.key(), takes);
            }
        }
        Ok(true)
    })?;
    Ok(known)
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
    each_record(&file.path, |record| {
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
    let handle = open(&file.path)?;
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

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::io("read", path, error))
}

impl LogScan {
    /// What there is to say about a log that could not be read.
    pub(super) fn unreadable(error: &Error) -> Self {
        let flaw = Flaw {
            kind: FlawKind::Unreadable,
            span: Span::default(),
            volume: 0,
            detail: error.to_string(),
        };
        LogScan {
            flaws: vec![flaw],
            whole: true,
            ..LogScan::default()
        }
    }

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

/// What the beginning of a log tells about other logs of its folder: the client writes summaries of
/// their conversations there, and a session that says nothing of its own shares its directory.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// Summaries, by the leaf they name.
    pub(super) summaries: Vec<(Key, Box<str>)>,
    /// Directories.
    pub(super) directories: Vec<Box<str>>,
}

impl Opening {
    /// How far a log's beginning goes.
    const REACH: u64 = 64 << 10;

    /// What some outlines of a log tell.
    pub(super) fn of<'a>(outlines: impl IntoIterator<Item = &'a Outline>) -> Self {
        let mut opening = Opening::default();
        let near = |outline: &&Outline| outline.span.offset < Opening::REACH;
        for outline in outlines.into_iter().take_while(near) {
            for fact in &outline.facts {
                match fact {
                    Fact::Summary(text, Some(leaf)) => {
                        opening.summaries.push((*leaf, text.clone()));
                    }
                    Fact::Cwd(path) => opening.directories.push(path.clone()),
                    _ => {}
                }
            }
        }
        opening
    }

    /// Reads the beginning of a log.
    pub(super) fn read(root: &Root, file: &FoundFile) -> Result<Self> {
        let mut decoder = root.layout.decoder(&file.artifact);
        let mut sink: Sink<Outline> = Sink::default();
        each_record(&file.path, |record| {
            let near = record.span.offset < Opening::REACH;
            if near {
                decoder.outline(record, &mut sink);
            }
            Ok(near)
        })?;
        Ok(Opening::of(&sink.found))
    }
}
