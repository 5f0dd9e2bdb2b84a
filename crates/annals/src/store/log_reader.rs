//! Reads logs and documents: forwards, backwards, and single records.
//!
//! Records of layouts without links have `Link::Previous`; `link_to_previous` makes the previous
//! message their parent.

mod id_search;
mod log_end;
mod tail_window;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::ops::Range;

use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::{
    self as jsonl, Line, LineEnding, OpenLog, RangeReader, ReadAt, Scanner, TailLine,
};
use annals_layouts::layout::{Decoded, Decoder, Record};
use annals_layouts::model::{
    AgentId, Artifact, Entry, EntryId, EntryKey, Fact, Flaw, FlawKind, Link, Outline, OutlineKind,
    Severity, Span,
};
use annals_layouts::tree::Scope;

use super::call_pairing;
use super::shared_log::{self, SliceFilter};
use super::{Root, RootFile};

impl Root {
    /// Decodes all entries of one file, such as the prompt history, a plan, or todos without a
    /// session.
    pub fn entries(&self, file: &RootFile) -> Result<Vec<Entry>> {
        if !file.artifact.kind.is_log() {
            return read_document(self, file).map(|sink| sink.items);
        }
        let mut sink = Decoded::default();
        let mut pairing = call_pairing::CallPairing::default();
        for volume in file.volumes() {
            let mut decoder = self.decoder(volume);
            each_record(self, volume, |record| {
                let before = sink.items.len();
                decoder.decode(record, &mut sink);
                let fresh = sink.items.iter_mut().skip(before);
                fresh.for_each(|entry| pairing.pair_entry(entry));
                Ok(true)
            })?;
        }
        Ok(sink.items)
    }
}

pub(super) use tail_window::{LEAF_SEARCH_BYTES, TailWindow, read_tail_window};

/// Maximum size of a document, which is read whole.
const MAX_DOCUMENT: u64 = 64 << 20;

/// Reads a log from an offset on.
pub(crate) type LogReader = RangeReader<OpenLog>;

/// The outlines of a log, or of its end.
#[derive(Debug, Default)]
pub struct LogScan {
    /// Outlines of the entries.
    pub outlines: Vec<Outline>,
    /// Flaws of single lines.
    pub flaws: Vec<Flaw>,
    /// Number of lines that are not blank.
    pub(crate) lines: u64,
    /// Number of valid lines.
    pub(crate) valid: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Whether reading began at the start of the log.
    pub(crate) whole: bool,
    /// Counts of each volume, if all were read.
    pub(crate) volumes: Vec<VolumeScan>,
}

/// Counts of one volume of a log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VolumeScan {
    /// Number of lines that are not blank.
    pub(crate) lines: u64,
    /// Number of valid lines.
    pub(crate) valid: u64,
    /// Number of bytes read.
    pub(crate) bytes: u64,
}

/// Outlines all volumes of a log.
pub(super) fn outline(root: &Root, file: &RootFile) -> Result<LogScan> {
    outline_with(root, file, &mut |_, _, _| {})
}

/// Like [`outline`]. Passes the volume, the bytes and the outlines of each non-blank record to
/// `note`.
pub(crate) fn outline_with(
    root: &Root,
    file: &RootFile,
    note: &mut dyn FnMut(u16, &Record<'_>, &[Outline]),
) -> Result<LogScan> {
    let mut scan = LogScan {
        whole: true,
        ..LogScan::default()
    };
    let mut sink = Decoded::default();
    for (number, volume) in file.volumes().enumerate() {
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        let mut decoder = root.decoder(volume);
        let (found, flaws) = (sink.items.len(), sink.flaws.len());
        let copied = volume.slice.as_ref().is_some_and(|slice| slice.copied);
        let mut counted = VolumeScan::default();
        each_record(root, volume, |record| {
            counted.bytes += record.span.len;
            let before = sink.items.len();
            let valid = outline_one(decoder.as_mut(), record, &mut sink);
            let fresh = sink.items.iter_mut().skip(before).filter(|_| copied);
            for reply in fresh.filter_map(|outline| outline.reply.as_mut()) {
                reply.copied = true;
            }
            if !record.is_blank() {
                counted.lines += 1;
                counted.valid += u64::from(valid);
            }
            let fresh = sink.items.get(before..).unwrap_or_default();
            if !fresh.is_empty() || !record.is_blank() {
                note(number, record, fresh);
            }
            Ok(true)
        })?;
        scan.lines += counted.lines;
        scan.valid += counted.valid;
        scan.bytes += counted.bytes;
        scan.volumes.push(counted);
        if number > 0 {
            let fresh = sink.items.iter_mut().skip(found);
            fresh.for_each(|outline| outline.volume = number);
            let fresh = sink.flaws.iter_mut().skip(flaws);
            fresh.for_each(|flaw| flaw.volume = number);
        }
    }
    scan.outlines = sink.items;
    scan.flaws = sink.flaws;
    link_to_previous(&mut scan.outlines);
    Ok(scan)
}

/// Sets the previous message as the parent where the layout implies parents by order, and pairs
/// results that name no call with earlier calls.
///
/// No entry can name a message without an id, so the entry after it names the message before it.
/// Such an entry becomes a child of the message without an id: the conversation includes it.
pub(crate) fn link_to_previous(outlines: &mut [Outline]) {
    call_pairing::pair_results(outlines);
    let leaves_open = |outline: &Outline| outline.link == Link::Previous;
    let lacks_id = |outline: &Outline| outline.lacks_id();
    if !outlines.iter().any(|one| leaves_open(one) || lacks_id(one)) {
        return;
    }
    // If parents are implied by order, two entries with one id are two messages.
    let by_order = |one: &Outline| leaves_open(one) && !lacks_id(one);
    let by_order = outlines.iter().any(by_order);
    // A sidechain continues at the last message of its own agent.
    let mut chains: HashMap<(bool, Option<AgentId>), Chain> = HashMap::new();
    let mut seen: HashSet<EntryKey> = HashSet::new();
    for outline in outlines {
        let says = outline.kind.is_message()
            || outline.kind == OutlineKind::Compaction
            || outline.link != Link::None;
        let agent = outline.agent.clone().filter(|_| outline.sidechain);
        let chain = chains.entry((outline.sidechain, agent)).or_default();
        let (before, kind) = (chain.last, outline.kind);
        let linked = |key: Option<EntryKey>| match key {
            None => Link::None,
            Some(key) if kind == OutlineKind::Compaction => Link::Continues(key),
            Some(key) => Link::Parent(key),
        };
        if outline.link == Link::Previous {
            outline.link = linked(before);
        } else if let Some((above, inserted)) = chain.inserted.filter(|_| says)
            && outline.link.key() == above
            && (above.is_some() || !outline.sidechain || outline.agent.is_some())
        {
            outline.link = linked(Some(inserted));
        }
        let Some(key) = outline.key.filter(|_| says) else {
            continue;
        };
        if by_order && !seen.insert(key) {
            outline.facts.push(Fact::RepeatedId);
        }
        let follows = outline.lacks_id() && outline.link.key() == before;
        let above = chain.inserted.map_or(before, |(above, _)| above);
        chain.inserted = follows.then_some((above, key));
        chain.last = Some(key);
    }
}

/// The messages of one agent, in the order of a log.
#[derive(Default)]
struct Chain {
    /// The last message.
    last: Option<EntryKey>,
    /// The messages without ids at the end: the message before them, and the last of them.
    inserted: Option<(Option<EntryKey>, EntryKey)>,
}

/// Outlines a record and returns whether it is valid. Entries salvaged from a damaged record are
/// added, but the line does not count as valid.
fn outline_one(
    decoder: &mut dyn Decoder,
    record: &Record<'_>,
    sink: &mut Decoded<Outline>,
) -> bool {
    let (found, flaws) = (sink.items.len(), sink.flaws.len());
    decoder.outline(record, sink);
    let mut fresh = sink.flaws.iter().skip(flaws);
    sink.items.len() > found && !fresh.any(|flaw| flaw.kind.hides_record())
}

/// Passes every record of one volume that belongs to its session to `visit`, until it returns
/// `false`.
pub(crate) fn each_record(
    root: &Root,
    file: &RootFile,
    mut visit: impl FnMut(&Record<'_>) -> Result<bool>,
) -> Result<()> {
    let Some(share) = &file.slice else {
        return each_line(file, visit);
    };
    let mut decoder = root.decoder(file);
    let mut sieve = SliceFilter::new(share);
    let handle = file.open()?;
    let failed = |error| Error::io("read", &file.path, error);
    let mut scan = |bytes: Range<u64>, line: u64, sift: bool| -> Result<bool> {
        let within = RangeReader::between(&handle, bytes.start, bytes.end);
        let mut lines = Scanner::from_offset(within, bytes.start, line);
        while let Some(line) = lines.next().map_err(failed)? {
            let record = record_from_line(&line);
            let mine = !sift
                || sieve.accepts(record.span.offset, || {
                    shared_log::record_session(decoder.as_mut(), &record)
                });
            if mine && !visit(&record)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    for stretch in share.ranges.iter() {
        if !scan(stretch.bytes.clone(), stretch.line, false)? {
            return Ok(());
        }
    }
    // Records appended since the ranges were determined.
    let end = handle.size().map_err(failed)?;
    if end > share.known_end {
        scan(share.known_end..end, share.lines + 1, true)?;
    }
    Ok(())
}

pub(crate) fn record_from_line<'a>(line: &Line<'a>) -> Record<'a> {
    Record {
        span: Span {
            offset: line.offset,
            len: line.len,
            line: line.number,
        },
        bytes: line.bytes,
        terminated: line.ending != LineEnding::None,
        oversize: line.oversize,
    }
}

/// Creates a record without a line number.
pub(crate) fn unnumbered_record<'a>(line: &Line<'a>) -> Record<'a> {
    let mut record = record_from_line(line);
    record.span.line = 0;
    record
}

/// Creates a record from a line that was read backwards, which has no line number.
pub(crate) fn record_from_tail_line<'a>(line: &TailLine<'a>) -> Record<'a> {
    Record {
        span: Span {
            offset: line.offset,
            len: line.len,
            line: 0,
        },
        bytes: line.bytes,
        terminated: line.ending != LineEnding::None,
        oversize: line.oversize,
    }
}

/// Passes every line of a file to `visit`, until it returns `false`.
pub(crate) fn each_line(
    file: &RootFile,
    visit: impl FnMut(&Record<'_>) -> Result<bool>,
) -> Result<()> {
    each_line_from(file, 0, visit)
}

/// Like [`each_line`], from the start of a line on, which gets the number 1.
pub(super) fn each_line_from(
    file: &RootFile,
    offset: u64,
    mut visit: impl FnMut(&Record<'_>) -> Result<bool>,
) -> Result<()> {
    let failed = |error| Error::io("read", &file.path, error);
    with_scanner(file.reader(file.open()?, offset), |lines| {
        while let Some(line) = lines.next().map_err(failed)? {
            if !visit(&record_from_line(&line))? {
                break;
            }
        }
        Ok(())
    })
}

/// Calls `scan` with a scanner whose buffer is reused.
pub(crate) fn with_scanner<T>(
    reader: LogReader,
    scan: impl FnOnce(&mut Scanner<LogReader>) -> T,
) -> T {
    thread_local! {
        // Growing one buffer per file would cost more than reading most files.
        static SCANNER: RefCell<Option<Scanner<LogReader>>> = const { RefCell::new(None) };
    }
    let offset = reader.offset();
    let mut scanner = match SCANNER.take() {
        None => Scanner::from_offset(reader, offset, 1),
        Some(mut scanner) => {
            scanner.reset_to(reader, offset, 1);
            scanner
        }
    };
    let outcome = scan(&mut scanner);
    SCANNER.set(Some(scanner));
    outcome
}

/// Decodes single records of a log, by the indexes of their outlines and in the requested order.
pub(super) fn entries_at(
    root: &Root,
    file: &RootFile,
    outlines: &[Outline],
    wanted: &[usize],
    mut visit: impl FnMut(Entry) -> Result<bool>,
) -> Result<()> {
    let mut reader = RecordReader::new(root, file, outlines);
    for &at in wanted {
        if let (_, Some(entry)) = reader.record(at)?
            && !visit(entry)?
        {
            break;
        }
    }
    Ok(())
}

/// Like [`entries_at`], with the outline and the bytes of each record; `None` if the log has companion
/// data, so that the bytes are not the whole record.
pub(super) fn records_at(
    root: &Root,
    file: &RootFile,
    outlines: &[Outline],
    wanted: &[usize],
    mut visit: impl FnMut(Entry, &Outline, Option<&[u8]>) -> Result<bool>,
) -> Result<()> {
    let mut reader = RecordReader::new(root, file, outlines);
    for &at in wanted {
        let ((bytes, Some(entry)), Some(outline)) = (reader.record(at)?, outlines.get(at)) else {
            continue;
        };
        let open = reader.open.as_ref();
        let is_whole = open.is_none_or(|(_, _, decoder)| !decoder.has_companion_data());
        if !visit(entry, outline, is_whole.then_some(&bytes))? {
            break;
        }
    }
    Ok(())
}

/// Reads records again by their outlines.
pub(super) struct RecordReader<'a> {
    root: &'a Root,
    file: &'a RootFile,
    outlines: &'a [Outline],
    /// The volume that was read from last.
    open: Option<(u16, OpenLog, Box<dyn Decoder>)>,
}

impl<'a> RecordReader<'a> {
    pub(super) fn new(root: &'a Root, file: &'a RootFile, outlines: &'a [Outline]) -> Self {
        RecordReader {
            root,
            file,
            outlines,
            open: None,
        }
    }

    /// Reads a record's bytes and entry. Fails if the entry's id differs, because others may have
    /// changed the log since it was outlined.
    pub(super) fn record(&mut self, at: usize) -> Result<(Vec<u8>, Option<Entry>)> {
        self.record_if(at, |_| true)
    }

    /// Reads a record's bytes, merged with its data in the log's companion.
    pub(super) fn full_record(&mut self, at: usize) -> Result<Vec<u8>> {
        let (bytes, _) = self.record(at)?;
        let span = self.outlines.get(at).map(|outline| outline.span);
        let (Some(span), Some((_, _, decoder))) = (span, &mut self.open) else {
            return Ok(bytes);
        };
        let record = Record {
            span,
            bytes: &bytes,
            terminated: true,
            oversize: false,
        };
        Ok(decoder.full_record(&record).unwrap_or(bytes))
    }

    /// Reads a record's bytes, and its entry if `wanted` accepts the bytes or the log has companion
    /// data.
    pub(super) fn record_if(
        &mut self,
        at: usize,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<(Vec<u8>, Option<Entry>)> {
        let Some(outline) = self.outlines.get(at) else {
            return Ok((Vec::new(), None));
        };
        let volume = self.file.volume(outline.volume);
        let (_, handle, decoder) = match self.open.take() {
            Some(open) if open.0 == outline.volume => self.open.insert(open),
            _ => {
                let decoder = self.root.decoder(volume);
                self.open.insert((outline.volume, volume.open()?, decoder))
            }
        };
        let span = outline.span;
        let bytes = record_bytes(handle, volume, span)?;
        if !wanted(&bytes) && !decoder.has_companion_data() {
            return Ok((bytes, None));
        }
        let record = Record {
            span,
            bytes: &bytes,
            terminated: true,
            oversize: false,
        };
        let outlines = self.outlines;
        let decode = |decoder: &mut dyn Decoder| {
            let mut sink = Decoded::default();
            decoder.decode(&record, &mut sink);
            pick_entry(sink.items, outlines, at)
        };
        let is_other = |entry: &Option<Entry>| {
            let id = entry.as_ref().and_then(|entry| entry.id.as_ref());
            outline.key.is_some() && id.map(EntryId::key) != outline.key
        };
        let mut entry = decode(decoder.as_mut());
        if is_other(&entry) && decoder.bind_companion() {
            entry = decode(decoder.as_mut());
        }
        if is_other(&entry) {
            return Err(Error::File(FileError::Changed {
                path: volume.path.clone(),
            }));
        }
        if let Some(entry) = &mut entry {
            inherit_links(entry, self.outlines, at);
        }
        Ok((bytes, entry))
    }
}

/// Returns the outlined entry among those of a record.
fn pick_entry(mut found: Vec<Entry>, outlines: &[Outline], at: usize) -> Option<Entry> {
    let outline = outlines.get(at)?;
    let is_it = |entry: &Entry| entry.id.as_ref().map(EntryId::key) == outline.key;
    if outline.key.is_some() {
        let at = found.iter().rposition(is_it);
        return at.map(|at| found.swap_remove(at)).or_else(|| found.pop());
    }
    // The entries of one record are always in the same order.
    let before = outlines.get(..at).unwrap_or_default().iter().rev();
    let same = |other: &&Outline| (other.span, other.volume) == (outline.span, outline.volume);
    match before.take_while(same).count() {
        nth if nth + 1 < found.len() => Some(found.swap_remove(nth)),
        _ => found.pop(),
    }
}

/// Sets the parent and the calls of an entry where the layout implies them by order.
fn inherit_links(entry: &mut Entry, outlines: &[Outline], at: usize) {
    call_pairing::name_calls(entry, outlines, at);
    let Some(parent) = outlines.get(at).and_then(|outline| outline.link.key()) else {
        return;
    };
    // A message without an id may be between the entry and the one that it names.
    if entry.parent.as_ref().map(EntryId::key) != Some(parent) {
        let mut above = outlines.iter().take(at).rev();
        let above = above.find(|outline| outline.key == Some(parent));
        entry.parent = above.and_then(Outline::id).or(entry.parent.take());
    }
}

/// Reads the bytes of one record, without its line ending and byte order mark.
pub(super) fn record_bytes(handle: &dyn ReadAt, file: &RootFile, span: Span) -> Result<Vec<u8>> {
    let bytes = jsonl::read_span(handle, span.offset, span.len)
        .map_err(|error| Error::io("read", &file.path, error))?;
    Ok(strip_line_ending(bytes, span))
}

/// Removes the line ending and the byte order mark of a record.
pub(crate) fn strip_line_ending(mut bytes: Vec<u8>, span: Span) -> Vec<u8> {
    while let Some(b'\n' | b'\r') = bytes.last() {
        bytes.pop();
    }
    if span.offset == 0 && bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    bytes
}

/// Returns the scope of a log: main agent or sub-agent.
pub(crate) fn scope(artifact: &Artifact) -> Scope {
    if artifact.is_agent_log() {
        Scope::Agent
    } else {
        Scope::Main
    }
}

/// Returns the ids of a log's entries, and whether `takes` accepts them as parents.
pub(super) fn entry_ids(
    root: &Root,
    file: &RootFile,
    takes: impl Fn(&Entry) -> bool,
) -> Result<HashMap<EntryKey, bool>> {
    let mut sink: Decoded<Entry> = Decoded::default();
    let mut known = HashMap::new();
    for volume in file.volumes() {
        let mut decoder = root.decoder(volume);
        each_record(root, volume, |record| {
            decoder.decode(record, &mut sink);
            sink.flaws.clear();
            for entry in sink.items.drain(..) {
                // The agent program cannot read what annals salvages from a damaged line.
                let takes = takes(&entry) && entry.span == record.span;
                if let Some(id) = entry.id {
                    known.insert(id.key(), takes);
                }
            }
            Ok(true)
        })?;
    }
    Ok(known)
}

/// Finds a fact in a log's first `entries` records.
pub(super) fn first_fact<T>(
    root: &Root,
    file: &RootFile,
    entries: usize,
    wanted: impl Fn(&Fact) -> Option<T>,
) -> Result<Option<T>> {
    first_reported(root, file, entries, |outline| {
        outline.facts.iter().find_map(&wanted)
    })
}

/// Returns the first value that `wanted` finds in a log's first `entries` records.
pub(super) fn first_reported<T>(
    root: &Root,
    file: &RootFile,
    entries: usize,
    wanted: impl Fn(&Outline) -> Option<T>,
) -> Result<Option<T>> {
    let mut found = None;
    let mut decoder = root.decoder(file);
    let mut sink: Decoded<Outline> = Decoded::default();
    let mut left = entries;
    each_record(root, file, |record| {
        decoder.outline(record, &mut sink);
        found = sink.items.drain(..).find_map(|outline| wanted(&outline));
        left = left.saturating_sub(1);
        Ok(found.is_none() && left > 0)
    })?;
    Ok(found)
}

/// Returns the outlines of a log's first record.
pub(super) fn first_outlines(root: &Root, file: &RootFile) -> Result<Vec<Outline>> {
    let mut decoder = root.decoder(file);
    let mut sink = Decoded::default();
    each_record(root, file, |record| {
        decoder.outline(record, &mut sink);
        Ok(record.is_blank())
    })?;
    Ok(sink.items)
}

/// Reads a document: one record that is the whole file.
pub(super) fn read_document(root: &Root, file: &RootFile) -> Result<Decoded<Entry>> {
    let bytes = document_bytes(file)?;
    Ok(decode_document(root, &file.artifact, &bytes))
}

/// Decodes the content of a document.
pub(crate) fn decode_document(root: &Root, artifact: &Artifact, bytes: &[u8]) -> Decoded<Entry> {
    let span = Span {
        offset: 0,
        len: bytes.len() as u64,
        line: 1,
    };
    let mut sink = Decoded::default();
    let record = Record {
        span,
        bytes,
        terminated: true,
        oversize: false,
    };
    root.layout.decoder(artifact).decode(&record, &mut sink);
    sink
}

/// Reads a document's bytes.
pub(super) fn document_bytes(file: &RootFile) -> Result<Vec<u8>> {
    let mut reader = RangeReader::between(file.open_bytes()?, 0, MAX_DOCUMENT + 1);
    let mut bytes = Vec::new();
    let read = reader.read_to_end(&mut bytes);
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

impl LogScan {
    /// Returns the indexes of the wanted outlines.
    pub(super) fn indexes(&self, wanted: impl Fn(&Outline) -> bool) -> Vec<usize> {
        let outlines = self.outlines.iter().enumerate();
        let found = outlines.filter(|(_, outline)| wanted(outline));
        found.map(|(at, _)| at).collect()
    }

    /// Creates the scan of a log that could not be read.
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
    pub fn read(root: &Root, file: &RootFile) -> Result<Self> {
        outline(root, file)
    }

    /// Outlines a document: one record that is the whole file.
    pub(crate) fn read_document(root: &Root, file: &RootFile) -> Result<Self> {
        let sink = read_document(root, file)?;
        let lines = u64::from(file.id.len > 0);
        let damaged = |flaw: &Flaw| flaw.kind.severity() == Severity::Error;
        let valid = if sink.flaws.iter().any(damaged) {
            0
        } else {
            lines
        };
        Ok(LogScan {
            flaws: sink.flaws,
            lines,
            valid,
            bytes: file.id.len,
            whole: true,
            outlines: Vec::new(),
            volumes: vec![VolumeScan {
                lines,
                valid,
                bytes: file.id.len,
            }],
        })
    }
}

/// The summary of a conversation, which may be in another log.
#[derive(Debug)]
pub(super) struct LeafSummary {
    /// The last entry of the conversation.
    pub(super) leaf: EntryKey,
    /// The key that other sessions use: the leaf, or [`summary_key`] if the summary names its
    /// session.
    pub(super) key: EntryKey,
    pub(super) text: Box<str>,
}

/// Returns the key of a summary that applies to one session only. Lists call it for every entry of an
/// untitled session, so it does not hash.
pub(super) fn summary_key(session: &str, leaf: EntryKey) -> EntryKey {
    let bits = |key: EntryKey| u128::from_le_bytes(key.to_bytes());
    let session = bits(EntryKey::from_text(session));
    EntryKey::from_bytes((session.rotate_left(1) ^ bits(leaf)).to_le_bytes())
}

/// Facts at the beginning of a log that concern other logs of its folder. The client writes
/// summaries of their conversations there, and a session without a directory uses that of its
/// folder.
#[derive(Debug, Default)]
pub(super) struct LogOpening {
    /// Summaries of conversations.
    pub(super) summaries: Vec<LeafSummary>,
    /// Working directories.
    pub(super) directories: Vec<Box<str>>,
}

impl LogOpening {
    /// Length of a log's beginning in bytes.
    const REACH: u64 = 64 << 10;

    /// Collects the facts from outlines of a log.
    pub(super) fn from_outlines<'a>(outlines: impl IntoIterator<Item = &'a Outline>) -> Self {
        let mut opening = LogOpening::default();
        let near = |outline: &&Outline| outline.span.offset < LogOpening::REACH;
        for outline in outlines.into_iter().take_while(near) {
            let session = outline.facts.iter().find_map(|fact| match fact {
                Fact::SummarySession(session) => Some(session),
                _ => None,
            });
            for fact in &outline.facts {
                match fact {
                    Fact::Summary(text, Some(leaf)) => opening.summaries.push(LeafSummary {
                        leaf: *leaf,
                        key: session.map_or(*leaf, |session| summary_key(session, *leaf)),
                        text: text.clone(),
                    }),
                    Fact::Cwd(path) => opening.directories.push(path.clone()),
                    _ => {}
                }
            }
        }
        opening
    }

    /// Reads the beginning of a log.
    pub(super) fn read(root: &Root, file: &RootFile) -> Result<Self> {
        let mut decoder = root.decoder(file);
        let mut sink: Decoded<Outline> = Decoded::default();
        each_record(root, file, |record| {
            let near = record.span.offset < LogOpening::REACH;
            if near {
                decoder.outline(record, &mut sink);
            }
            Ok(near)
        })?;
        Ok(LogOpening::from_outlines(&sink.items))
    }
}
