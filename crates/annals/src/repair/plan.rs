//! Repair plan of one log. Pure: derived from its lines alone.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use serde::Serialize;
use serde::de::IgnoredAny;

use crate::error::{Error, Result};
use crate::store::{record_from_line, strip_line_ending};
use annals_jsonl::Scanner;
use annals_layouts::layout::{Decoded, Decoder, Layout, Piece, Record, RepairRules, salvage};
use annals_layouts::model::{Artifact, EntryKey, FlawKind, Link, Outline, Span};
use annals_layouts::text::pluralize;

use super::links;

/// One change to a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Step {
    /// The line, from 1.
    pub line: u64,
    /// Byte offset of the line, or of the record within it.
    pub offset: u64,
    /// The change.
    pub action: Action,
    /// Reason and details, for people.
    pub detail: String,
}

/// Kind of change to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Action {
    /// Nothing of it can be read: it is moved to the quarantine.
    Drop,
    /// Several records on one line are split into one line each.
    Split,
    /// An intact record is extracted from a damaged line; the rest is moved to the quarantine.
    Salvage,
    /// NUL bytes are removed.
    StripNuls,
    /// The missing header line is added.
    Header,
    /// An entry with a lost parent gets another one, or starts a conversation.
    Relink,
    /// An entry that is its own ancestor gets another parent, or starts a conversation.
    CutCycle,
    /// An entry hidden by another one with the same id gets a new id.
    NewId,
    /// An id that depends on the position is written into the record, because the position changes.
    KeepId,
}

impl Action {
    /// Returns the name of the action in JSON output.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Drop => "drop",
            Action::Split => "split",
            Action::Salvage => "salvage",
            Action::StripNuls => "strip-nuls",
            Action::Header => "header",
            Action::Relink => "relink",
            Action::CutCycle => "cut-cycle",
            Action::NewId => "new-id",
            Action::KeepId => "keep-id",
        }
    }
}

/// A flaw that is not repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Unrepaired {
    /// The line, from 1.
    pub line: u64,
    /// Byte offset of the line.
    pub offset: u64,
    /// The kind of flaw.
    pub kind: FlawKind,
    /// Why it is not repaired.
    pub detail: String,
}

/// Bytes removed from a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemovedBytes {
    /// The line, from 1.
    pub line: u64,
    /// Their byte offset in the file.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Changes to the bytes of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineEdits {
    /// The changes, in line order.
    pub steps: Vec<Step>,
    /// Flaws that are not repaired.
    pub unrepaired: Vec<Unrepaired>,
    /// The removed bytes.
    pub removed: Vec<RemovedBytes>,
    /// Number of lines that are not blank.
    pub lines: u64,
    /// Ranges and their replacements, in order and without overlap.
    edits: Vec<(Range<u64>, Vec<u8>)>,
}

impl LineEdits {
    /// Plans the repair of a log from its bytes. Refuses a layout that annals only reads: its rules
    /// for links are unknown.
    pub fn new(layout: &dyn Layout, artifact: &Artifact, bytes: &[u8]) -> Result<Self> {
        if layout.writer().is_none() {
            return Err(Error::read_only(layout.name()));
        }
        let mut reading = RepairReader::new(layout, artifact);
        let mut scanner = Scanner::new(bytes);
        while let Ok(Some(line)) = scanner.next() {
            reading.line(&record_from_line(&line));
        }
        let mut read = |span: Span| {
            let within = span.offset as usize..span.end() as usize;
            Ok(bytes.get(within).unwrap_or_default().to_vec())
        };
        reading.finish(&mut read, &mut || Ok(HashSet::new()))
    }

    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the length of the repaired log; `len` is the current one.
    pub fn result_len(&self, len: u64) -> u64 {
        let edits = self.edits.iter();
        edits.fold(len, |len, (old, new)| {
            (len + new.len() as u64).saturating_sub(old.end - old.start)
        })
    }

    /// Passes the repaired log to `piece` part by part.
    pub(super) fn write(
        &self,
        len: u64,
        mut piece: impl FnMut(OutputPart<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        for (old, new) in &self.edits {
            if old.start > done {
                piece(OutputPart::Old(done..old.start))?;
            }
            piece(OutputPart::New(new))?;
            done = old.end;
        }
        if len > done {
            piece(OutputPart::Old(done..len))?;
        }
        Ok(())
    }

    /// Returns the repaired log.
    pub fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        let mut repaired = Vec::with_capacity(bytes.len());
        let _ = self.write(bytes.len() as u64, |part| {
            match part {
                OutputPart::Old(range) => {
                    let old = bytes.get(range.start as usize..range.end as usize);
                    repaired.extend_from_slice(old.unwrap_or_default());
                }
                OutputPart::New(new) => repaired.extend_from_slice(new),
            }
            Ok(())
        });
        repaired
    }
}

/// A part of a repaired log.
pub(super) enum OutputPart<'a> {
    /// A range of the old log.
    Old(Range<u64>),
    /// New bytes.
    New(&'a [u8]),
}

/// A line that is not exactly one record.
struct DamagedLine {
    span: Span,
    /// A byte order mark before the content, or nothing.
    mark: Vec<u8>,
    ending: Vec<u8>,
    pieces: Vec<Piece>,
}

/// A line with changed members.
struct EditedLine {
    span: Span,
    mark: Vec<u8>,
    record: Vec<u8>,
    ending: Vec<u8>,
}

/// Reads the bytes of a span.
pub(super) type ReadSpan<'r> = &'r mut dyn FnMut(Span) -> Result<Vec<u8>>;

/// Reads a log for a repair.
pub(super) struct RepairReader<'a> {
    pub(super) rules: &'a dyn RepairRules,
    pub(super) artifact: &'a Artifact,
    pub(super) decoder: Box<dyn Decoder>,
    /// The readable entries, in file order.
    pub(super) outlines: Vec<Outline>,
    /// For each entry from a damaged line: the index of the line, and of the piece in it.
    pieces: Vec<Option<(usize, usize)>>,
    damaged: Vec<DamagedLine>,
    edited: BTreeMap<usize, EditedLine>,
    /// The file has not been written to for so long that an unfinished last line will stay
    /// unfinished.
    pub(super) is_stable: bool,
    /// The file begins with a byte order mark.
    has_bom: bool,
    /// Ids and links recovered from unreadable lines, by their byte offset.
    pub(super) salvaged_links: Vec<(u64, annals_layouts::layout::PartialLinks)>,
    /// New parents of relinked entries.
    pub(super) new_parents: HashSet<EntryKey>,
    /// Ids of unreadable lines that stay.
    pub(super) unreadable_ids: HashSet<EntryKey>,
    /// Whether unreadable lines stay whose ids are unknown.
    pub(super) has_unidentified: bool,
    pub(super) result: LineEdits,
}

impl<'a> RepairReader<'a> {
    pub(super) fn new(layout: &'a dyn Layout, artifact: &'a Artifact) -> Self {
        RepairReader {
            rules: layout.repair_rules(),
            artifact,
            decoder: layout.decoder(artifact),
            outlines: Vec::new(),
            pieces: Vec::new(),
            damaged: Vec::new(),
            edited: BTreeMap::new(),
            is_stable: false,
            has_bom: false,
            salvaged_links: Vec::new(),
            new_parents: HashSet::new(),
            unreadable_ids: HashSet::new(),
            has_unidentified: false,
            result: LineEdits::default(),
        }
    }

    /// Reads the next line.
    pub(super) fn line(&mut self, record: &Record<'_>) {
        if record.is_blank() {
            return;
        }
        self.result.lines += 1;
        let beyond = record.span.len.saturating_sub(record.bytes.len() as u64);
        self.has_bom |= record.span.offset == 0 && beyond >= 3 && !record.oversize;
        let mut sink = Decoded::default();
        self.decoder.outline(record, &mut sink);
        let mut flaws = sink.flaws.into_iter();
        let Some(flaw) = flaws.find(|flaw| flaw.kind.hides_record()) else {
            self.pieces
                .resize(self.pieces.len() + sink.items.len(), None);
            self.outlines.append(&mut sink.items);
            return;
        };
        let stays = match flaw.kind {
            FlawKind::TornTail if self.is_stable => None,
            FlawKind::TornTail => {
                Some("another program may still be writing it; the next append ends the line")
            }
            FlawKind::Oversize => Some("too long to read"),
            FlawKind::NotAnObject => None,
            _ if is_json(record.bytes) => Some("valid JSON, which other programs may read"),
            _ => None,
        };
        let Some(why) = stays else {
            self.salvage_line(record, flaw.kind, &flaw.detail);
            return;
        };
        let whole = !matches!(flaw.kind, FlawKind::TornTail | FlawKind::Oversize);
        let id = self.rules.partial_links(record.bytes).id.filter(|_| whole);
        self.has_unidentified |= flaw.kind != FlawKind::TornTail && id.is_none();
        self.unreadable_ids
            .extend(id.map(|id| EntryKey::from_text(&id)));
        self.result.unrepaired.push(Unrepaired {
            line: record.span.line,
            offset: record.span.offset,
            kind: flaw.kind,
            detail: format!("{}: {why}", flaw.detail),
        });
    }

    fn salvage_line(&mut self, record: &Record<'_>, kind: FlawKind, fault: &str) {
        let decoder = &self.decoder;
        let is_record = |object: &[u8]| decoder.is_record(&String::from_utf8_lossy(object));
        let pieces = salvage(record.bytes, is_record);
        let beyond = record.span.len.saturating_sub(record.bytes.len() as u64);
        let mark: &[u8] = if beyond >= 3 { b"\xef\xbb\xbf" } else { b"" };
        let ending: &[u8] = match beyond - mark.len() as u64 {
            0 => b"",
            1 => b"\n",
            _ => b"\r\n",
        };
        let start = record.span.offset + mark.len() as u64;
        let at = self.damaged.len();
        let (mut records, mut nuls, mut rest) = (0_usize, 0_usize, 0_usize);
        for (number, piece) in pieces.iter().enumerate() {
            let stretch = record.bytes.get(piece.range.clone()).unwrap_or_default();
            let offset = start + piece.range.start as u64;
            nuls += memchr::memchr_iter(0, stretch).count();
            let Some(bytes) = &piece.record else {
                let solid = |byte: &&u8| **byte != 0 && !byte.is_ascii_whitespace();
                rest += stretch.iter().filter(solid).count();
                self.remove(record.span.line, offset, stretch);
                continue;
            };
            records += 1;
            let mut sink = Decoded::default();
            let span = Span {
                offset,
                len: stretch.len() as u64,
                line: record.span.line,
            };
            let alone = Record {
                span,
                bytes,
                terminated: true,
                oversize: false,
            };
            self.decoder.outline(&alone, &mut sink);
            let found = sink.items.len();
            self.outlines.append(&mut sink.items);
            let places = std::iter::repeat_n(Some((at, number)), found);
            self.pieces.extend(places);
            for run in nul_runs(stretch) {
                let within = stretch.get(run.clone()).unwrap_or_default();
                self.remove(record.span.line, offset + run.start as u64, within);
            }
        }
        if records == 0 && !mark.is_empty() {
            // Otherwise it would precede the next line.
            self.remove(record.span.line, record.span.offset, mark);
        }
        let (action, detail) = match (records, rest) {
            (0, _) => (Action::Drop, format!("{}: {fault}", kind.as_str())),
            (1, 0) => (
                Action::StripNuls,
                format!("{} removed", pluralize(nuls, "NUL byte")),
            ),
            (_, 0) => (Action::Split, format!("{records} records on one line")),
            (1, _) => (
                Action::Salvage,
                format!("1 intact record and {}", pluralize(rest, "damaged byte")),
            ),
            (_, _) => (
                Action::Salvage,
                format!(
                    "{records} intact records and {}",
                    pluralize(rest, "damaged byte")
                ),
            ),
        };
        self.step(record.span, action, detail);
        self.damaged.push(DamagedLine {
            span: record.span,
            mark: mark.to_vec(),
            ending: ending.to_vec(),
            pieces,
        });
    }

    fn remove(&mut self, line: u64, offset: u64, bytes: &[u8]) {
        let remains = self.rules.partial_links(bytes);
        if remains != annals_layouts::layout::PartialLinks::default() {
            self.salvaged_links.push((offset, remains));
        }
        self.result.removed.push(RemovedBytes {
            line,
            offset,
            bytes: bytes.to_vec(),
        });
    }

    pub(super) fn step(&mut self, span: Span, action: Action, detail: String) {
        self.result.steps.push(Step {
            line: span.line,
            offset: span.offset,
            action,
            detail,
        });
    }

    /// Returns the bytes of a record after the changes so far.
    pub(super) fn record_bytes(&self, at: usize, read: ReadSpan<'_>) -> Result<Vec<u8>> {
        if let Some(touched) = self.edited.get(&at) {
            return Ok(touched.record.clone());
        }
        match (self.piece(at), self.outlines.get(at)) {
            (Some(record), _) => Ok(record.clone()),
            (None, Some(outline)) => Ok(strip_line_ending(read(outline.span)?, outline.span)),
            (None, None) => Ok(Vec::new()),
        }
    }

    fn piece(&self, at: usize) -> Option<&Vec<u8>> {
        let (line, number) = (*self.pieces.get(at)?)?;
        self.damaged.get(line)?.pieces.get(number)?.record.as_ref()
    }

    fn record_mut(&mut self, at: usize, read: ReadSpan<'_>) -> Result<&mut Vec<u8>> {
        let place = self.pieces.get(at).copied().flatten();
        let piece = place.and_then(|(line, number)| {
            let line = self.damaged.get_mut(line)?;
            line.pieces.get_mut(number)?.record.as_mut()
        });
        match piece {
            Some(record) => Ok(record),
            None => {
                let span = self
                    .outlines
                    .get(at)
                    .map_or(Span::default(), |one| one.span);
                let touched = match self.edited.entry(at) {
                    std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                    std::collections::btree_map::Entry::Vacant(slot) => {
                        slot.insert(EditedLine::new(read(span)?, span))
                    }
                };
                Ok(&mut touched.record)
            }
        }
    }

    /// Changes a record if `change` returns new bytes.
    pub(super) fn change(
        &mut self,
        at: usize,
        read: ReadSpan<'_>,
        change: impl FnOnce(&dyn RepairRules, &[u8]) -> Option<Vec<u8>>,
    ) -> Result<bool> {
        let rules = self.rules;
        let old = self.record_bytes(at, read)?;
        let Some(new) = change(rules, &old) else {
            return Ok(false);
        };
        *self.record_mut(at, read)? = new;
        Ok(true)
    }

    /// Plans the remaining changes once all lines are read. `named` returns the entries that other
    /// files refer to.
    pub(super) fn finish(
        mut self,
        read: ReadSpan<'_>,
        named: &mut dyn FnMut() -> Result<HashSet<EntryKey>>,
    ) -> Result<LineEdits> {
        let explicit = |outline: &Outline| match outline.link {
            Link::Parent(key) => Some(key),
            _ => None,
        };
        let mut own: HashSet<EntryKey> = self.outlines.iter().filter_map(explicit).collect();
        if super::can_relink(self.artifact.kind) {
            links::repair_links(&mut self, read)?;
            own.extend(self.new_parents.iter().copied());
        }
        let front = self.header(read)?;
        self.keep_ids(own, front.is_some(), read, named)?;
        self.assemble(front);
        Ok(self.result)
    }

    /// Returns the missing header line, if the log needs one.
    fn header(&mut self, read: ReadSpan<'_>) -> Result<Option<Vec<u8>>> {
        const LOOKED_AT: usize = 20;
        let mut records = Vec::new();
        for at in 0..self.outlines.len().min(LOOKED_AT) {
            records.push(self.record_bytes(at, read)?);
        }
        let Some(header) = self.rules.missing_header(self.artifact, &records) else {
            return Ok(None);
        };
        let span = Span {
            line: 1,
            ..Span::default()
        };
        let detail = "missing header; rebuilt from the file's path and records";
        self.step(span, Action::Header, detail.to_owned());
        Ok(Some(header))
    }

    /// Writes position-dependent ids into records that are moved and referred to.
    fn keep_ids(
        &mut self,
        own: HashSet<EntryKey>,
        header: bool,
        read: ReadSpan<'_>,
        named: &mut dyn FnMut() -> Result<HashSet<EntryKey>>,
    ) -> Result<()> {
        let damaged = self.damaged.iter().map(|line| line.span.offset);
        let touched = self.edited.values().map(|line| line.span.offset);
        let first = damaged.chain(touched).min();
        let Some(first) = (if header { Some(0) } else { first }) else {
            return Ok(());
        };
        let mut wanted: Option<HashSet<EntryKey>> = None;
        for at in 0..self.outlines.len() {
            let Some(outline) = self.outlines.get(at) else {
                continue;
            };
            let (span, Some(key), Some(id)) = (outline.span, outline.key, outline.id()) else {
                continue;
            };
            // A UUID does not depend on the position.
            if span.offset <= first && !header || EntryKey::is_canonical_uuid(id.as_str()) {
                continue;
            }
            let wanted = match &mut wanted {
                Some(wanted) => wanted,
                none => {
                    let mut all = named()?;
                    all.extend(own.iter().copied());
                    none.insert(all)
                }
            };
            if !wanted.contains(&key) {
                continue;
            }
            let bytes = self.record_bytes(at, read)?;
            let mut sink = Decoded::default();
            let moved = Span {
                offset: span.offset + 1,
                ..span
            };
            let record = Record {
                span: moved,
                bytes: &bytes,
                terminated: true,
                oversize: false,
            };
            self.decoder.outline(&record, &mut sink);
            let stays = sink.items.iter().any(|outline| outline.key == Some(key));
            if !stays && self.change(at, read, |rules, old| rules.set_id(old, id.as_str()))? {
                let detail =
                    format!("its id {id} depends on its position, and other records refer to it");
                self.step(span, Action::KeepId, detail);
            }
        }
        Ok(())
    }

    fn assemble(&mut self, front: Option<Vec<u8>>) {
        let mut edits: BTreeMap<u64, (Range<u64>, Vec<u8>)> = BTreeMap::new();
        for line in &self.damaged {
            let records = line.pieces.iter();
            let records: Vec<&Vec<u8>> = records.filter_map(|one| one.record.as_ref()).collect();
            let between: &[u8] = match line.ending.as_slice() {
                b"\r\n" => b"\r\n",
                _ => b"\n",
            };
            let mut new = match records.is_empty() {
                true => Vec::new(),
                false => line.mark.clone(),
            };
            for (at, record) in records.iter().enumerate() {
                new.extend_from_slice(record);
                let last = at + 1 == records.len();
                new.extend_from_slice(if last { &line.ending } else { between });
            }
            edits.insert(line.span.offset, (line.span.offset..line.span.end(), new));
        }
        for line in self.edited.values() {
            let new = [&line.mark[..], &line.record, &line.ending].concat();
            edits.insert(line.span.offset, (line.span.offset..line.span.end(), new));
        }
        let mut edits: Vec<(Range<u64>, Vec<u8>)> = edits.into_values().collect();
        if let Some(mut header) = front {
            header.push(b'\n');
            // After the byte order mark, if there is one.
            let mark = if self.has_bom { 3 } else { 0 };
            match edits.first_mut().filter(|(old, _)| old.start == 0) {
                Some((_, new)) => {
                    let at = mark.min(new.len());
                    new.splice(at..at, header);
                }
                None => edits.insert(0, (mark as u64..mark as u64, header)),
            }
        }
        self.result.edits = edits;
        self.result
            .steps
            .sort_by_key(|step| (step.line, step.offset));
        crate::sort::by_key(&mut self.result.removed, |removed| removed.offset);
    }
}

impl EditedLine {
    fn new(raw: Vec<u8>, span: Span) -> Self {
        let record = strip_line_ending(raw.clone(), span);
        let marked = span.offset == 0 && raw.starts_with(b"\xef\xbb\xbf");
        let mark = if marked { 3 } else { 0 };
        EditedLine {
            span,
            mark: raw.get(..mark).unwrap_or_default().to_vec(),
            ending: raw.get(mark + record.len()..).unwrap_or_default().to_vec(),
            record,
        }
    }
}

/// Returns whether the bytes are valid JSON of any type.
fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// Returns the ranges of NUL bytes.
fn nul_runs(stretch: &[u8]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in memchr::memchr_iter(0, stretch) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
