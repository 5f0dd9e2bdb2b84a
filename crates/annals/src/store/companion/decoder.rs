//! Decoder that merges the data of a companion into the records of its log.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use annals_jsonl::{OpenLog, RangeReader, ReadAt as _, open_to_read};
use annals_layouts::json;
use annals_layouts::layout::{BLANK_LINE, Decoded, Decoder, Record, ReplyDelta};
use annals_layouts::model::{Artifact, Entry, Outline};

use super::super::inventory::RootFile;
use super::super::{ReadFailures, Root};
use super::entries::{CompanionEntries, line_at};
use super::{Sum, line_sum};

/// Number of bytes at the end of a companion to read first. Most readers need only the end of a log.
const FIRST_WINDOW: u64 = 16 << 10;

/// Factor by which the window grows if it is not enough.
const GROWTH: u64 = 4;

impl Root {
    /// Returns a decoder for the records of a file that merges the data of its companion.
    pub fn decoder(&self, file: &RootFile) -> Box<dyn Decoder> {
        if file.archived.is_none() {
            return self.decoder_at(&file.path, &file.artifact);
        }
        let decoder = self.layout.decoder(&file.artifact);
        let companion = file.companion.as_deref();
        match companion.and_then(|companion| self.failures.ok(companion.read())) {
            None => decoder,
            Some(bytes) => {
                let mut entries = CompanionEntries::default();
                entries.add(&bytes);
                let archived = self.failures.ok(file.open());
                let bound = archived.as_ref().and_then(|log| {
                    let bound = entries.bind(log);
                    self.failures.ok_io(&file.path, bound)
                });
                Box::new(Annotated {
                    decoder,
                    path: None,
                    log: file.path.clone(),
                    archived,
                    entries,
                    window: u64::MAX,
                    from: 0,
                    before: None,
                    upto: u64::MAX,
                    bound: bound.unwrap_or(u64::MAX),
                    failures: self.failures.clone(),
                })
            }
        }
    }

    /// Returns a decoder for the log at `path` that merges the data of its companion.
    pub(crate) fn decoder_at(&self, path: &Path, log: &Artifact) -> Box<dyn Decoder> {
        let decoder = self.layout.decoder(log);
        let companion = self.layout.companion(log);
        let name = companion.map(|companion| self.layout.path_for(&companion));
        let Some(name) = name.as_deref().and_then(Path::file_name) else {
            return decoder;
        };
        Box::new(self.annotated(decoder, path, name))
    }

    pub(super) fn annotated(
        &self,
        decoder: Box<dyn Decoder>,
        log: &Path,
        companion: &OsStr,
    ) -> Annotated {
        // The size is read before the companion, because the companion is written before the log.
        let upto = self.failures.ok_io(log, OpenLog::open(log));
        let upto = upto.and_then(|file| self.failures.ok_io(log, file.size()));
        let mut annotated = Annotated {
            decoder,
            path: Some(log.with_file_name(companion)),
            log: log.to_owned(),
            archived: None,
            entries: CompanionEntries::default(),
            window: FIRST_WINDOW,
            from: 0,
            before: None,
            upto: upto.unwrap_or(0),
            bound: 0,
            failures: self.failures.clone(),
        };
        annotated.load();
        annotated
    }
}

/// Decoder that merges companion data into records.
pub(super) struct Annotated {
    decoder: Box<dyn Decoder>,
    /// Path of the companion; `None` if it cannot grow.
    path: Option<PathBuf>,
    log: PathBuf,
    /// The log, if it is in an archive.
    archived: Option<OpenLog>,
    pub(super) entries: CompanionEntries,
    /// Number of bytes at the end of the companion to read, unless all of it is needed.
    window: u64,
    /// Byte offset in the companion of the first loaded entry. Those before it are for earlier lines.
    pub(super) from: u64,
    /// If only the start of the companion was read: the log offset up to which entries are loaded.
    before: Option<u64>,
    /// Log offset up to which the loaded companion is current.
    upto: u64,
    /// Log offset up to which the entries are bound to lines; 0 if they were not.
    pub(super) bound: u64,
    failures: ReadFailures,
}

impl Annotated {
    /// Reads the end of the companion, or all of it if its entries do not match the lines of the log.
    fn load(&mut self) {
        let log = self.failures.ok_io(&self.log, OpenLog::open(&self.log));
        if let Some(log) = &log
            && let Some(last) = self.last_entries()
            && self.are_in_place(&last, log)
        {
            self.from = last.start();
            self.before = None;
            self.entries = last;
            return;
        }
        self.load_all();
        if let Some(log) = &log {
            let bound = self.entries.bind(log);
            self.bound = self.failures.ok_io(&self.log, bound).unwrap_or(u64::MAX);
        }
    }

    /// Reads the whole companion, if it can grow.
    fn load_all(&mut self) {
        if self.path.is_none() {
            return;
        }
        self.from = 0;
        self.before = None;
        self.entries = CompanionEntries::default();
        self.refresh();
    }

    fn open_log(&self) -> io::Result<OpenLog> {
        match &self.archived {
            Some(log) => Ok(log.clone()),
            None => OpenLog::open(&self.log),
        }
    }

    /// Returns whether a line shows that the log was rewritten: the entry at its offset is for another
    /// line, or its own entry is for another offset, which has another line.
    fn is_misplaced(&self, offset: u64, sum: &Sum) -> bool {
        if let Some(members) = self.entries.members.get(&offset) {
            return members.iter().all(|member| member.sum != *sum);
        }
        let Some(place) = self.entries.places.get(sum) else {
            return false;
        };
        // An equal line may be at that offset. If the whole companion is loaded, the whole log will be
        // read, and binding all entries once costs less than a lookup for each copy.
        let is_whole = self.from == 0 && self.before.is_none();
        let line = || line_at(&self.open_log()?, *place);
        is_whole || !matches!(line(), Ok(Some(line)) if line_sum(&line) == *sum)
    }

    /// Binds all entries to the lines of a rewritten log.
    fn bind_all(&mut self) {
        let log = self.open_log();
        self.load_all();
        let bound = log.and_then(|log| {
            let id = log.id()?;
            self.entries.bind_all(&log, &id)?;
            Ok(id.len)
        });
        self.bound = self.failures.ok_io(&self.log, bound).unwrap_or(u64::MAX);
    }

    /// Reads the start of a companion whose last entries match the log. Returns whether its first
    /// entries match too.
    fn load_first(&mut self) -> bool {
        let Some(log) = self.failures.ok_io(&self.log, OpenLog::open(&self.log)) else {
            return false;
        };
        let first = self.read_entries(|len| (0, FIRST_WINDOW.min(len)));
        let Some(first) = first.filter(|first| self.are_in_place(first, &log)) else {
            return false;
        };
        self.from = 0;
        // More entries for the line of the last one may follow.
        self.before = Some(first.last_place());
        self.entries = first;
        true
    }

    fn are_in_place(&self, entries: &CompanionEntries, log: &OpenLog) -> bool {
        let in_place = entries.are_in_place(log);
        self.failures.ok_io(&self.log, in_place) == Some(true)
    }

    /// Returns the entries in the last `window` bytes of the companion; `None` if it is not longer.
    fn last_entries(&self) -> Option<CompanionEntries> {
        let start = |len: u64| len.saturating_sub(self.window);
        let last = self.read_entries(|len| (start(len), len))?;
        (last.start() > 0).then_some(last)
    }

    /// Returns the complete entries in a range of the companion; `range` gets the companion's length.
    fn read_entries(&self, range: impl FnOnce(u64) -> (u64, u64)) -> Option<CompanionEntries> {
        let path = self.path.as_ref()?;
        let file = self.failures.ok_io(path, open_to_read(path))?;
        let (start, end) = range(self.failures.ok_io(path, file.metadata())?.len());
        let mut bytes = Vec::new();
        let read = RangeReader::between(&file, start, end).read_to_end(&mut bytes);
        self.failures.ok_io(path, read)?;
        let first = match start {
            0 => 0,
            // The first line may be incomplete.
            _ => memchr::memchr(b'\n', &bytes)? + 1,
        };
        let mut entries = CompanionEntries::from_offset(start + first as u64);
        entries.add(bytes.get(first..)?);
        Some(entries)
    }

    /// Returns whether all entries for the record at an offset are loaded.
    fn covers(&self, offset: u64) -> bool {
        let first = match self.from {
            0 => Some(0),
            _ => self.entries.first_place(),
        };
        // Records before all lines are at the start of the companion.
        let begins = self.from == 0 || offset > 0;
        begins
            && first.is_some_and(|first| first <= offset)
            && self.before.is_none_or(|before| offset < before)
    }

    /// Reads more of the companion until all entries for the record at an offset are loaded.
    fn reach(&mut self, offset: u64) {
        while !self.covers(offset) {
            if offset == 0 && self.before.is_none() && self.load_first() {
                continue;
            }
            self.window = match offset {
                0 => u64::MAX,
                // The whole log is being read.
                _ if self.before.is_some() => u64::MAX,
                _ => self.window.saturating_mul(GROWTH),
            };
            self.load();
        }
    }

    /// Reads the entries added to the companion since the last read.
    fn refresh(&mut self) {
        let Some(path) = self.path.as_ref().filter(|_| self.before.is_none()) else {
            return;
        };
        let file = self.failures.ok_io(path, open_to_read(path));
        let Some((file, metadata)) = file.and_then(|file| {
            let metadata = self.failures.ok_io(path, file.metadata())?;
            Some((file, metadata))
        }) else {
            return;
        };
        let read = self.entries.read;
        let len = metadata.len();
        if len < read {
            self.entries = CompanionEntries::default();
            self.from = 0;
            self.bound = 0;
        } else if len == read {
            return;
        }
        let mut bytes = Vec::new();
        let mut rest = RangeReader::from_offset(&file, self.entries.read);
        let read = rest.read_to_end(&mut bytes);
        if self.failures.ok_io(path, read).is_some() {
            self.entries.add(&bytes);
        }
    }

    /// Calls `read` with the record merged with its companion data, and with the standalone records at
    /// its position.
    fn each_record(
        &mut self,
        record: &Record<'_>,
        mut read: impl FnMut(&mut dyn Decoder, &Record<'_>),
    ) {
        if record.span.end() > self.upto {
            self.upto = record.span.end();
            self.refresh();
        }
        self.reach(record.span.offset);
        if self.entries.is_empty() {
            return read(self.decoder.as_mut(), record);
        }
        let sum = (!record.is_blank()).then(|| line_sum(record.bytes));
        let whole = record.terminated && !record.oversize && record.span.end() > self.bound;
        if let Some(sum) = sum.filter(|_| whole)
            && self.is_misplaced(record.span.offset, &sum)
        {
            self.bind_all();
        }
        let CompanionEntries {
            members,
            standalone: alone,
            moved,
            begin,
            ..
        } = &self.entries;
        let offset = record.span.offset;
        let decoder = self.decoder.as_mut();
        let mut alone_too = |text: &String, decoder: &mut dyn Decoder| {
            let alone = Record {
                bytes: text.as_bytes(),
                terminated: true,
                oversize: false,
                ..*record
            };
            read(decoder, &alone);
        };
        if offset == 0 {
            begin.iter().for_each(|text| alone_too(text, &mut *decoder));
        }
        let standing = alone.get(&offset).and_then(|standing| standing.last());
        if let Some(standing) = standing.filter(|_| record.bytes == BLANK_LINE) {
            alone_too(&standing.record, &mut *decoder);
        }
        if let Some(sum) = sum {
            let entry = members.get(&offset).and_then(|entries| {
                let mut entries = entries.iter().rev();
                entries.find(|member| member.sum == sum)
            });
            let whole = entry.and_then(|member| with_members(record.bytes, &member.record));
            match whole {
                None => read(&mut *decoder, record),
                Some(bytes) => read(
                    &mut *decoder,
                    &Record {
                        bytes: &bytes,
                        ..*record
                    },
                ),
            }
        }
        for moved in moved.get(&offset).into_iter().flatten() {
            let moved = Record {
                bytes: moved.record.as_bytes(),
                terminated: true,
                oversize: false,
                ..*record
            };
            read(&mut *decoder, &moved);
        }
    }
}

impl Decoder for Annotated {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        self.each_record(record, |decoder, record| decoder.outline(record, out));
    }

    fn outline_usage(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        self.each_record(record, |decoder, record| decoder.outline_usage(record, out));
    }

    fn reply_delta(&mut self, _: &Record<'_>) -> Option<ReplyDelta> {
        None
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        self.each_record(record, |decoder, record| decoder.decode(record, out));
    }

    fn is_record(&self, object: &str) -> bool {
        self.decoder.is_record(object)
    }

    fn extra_text(&mut self, record: &Record<'_>, give: &mut dyn FnMut(&str)) {
        self.each_record(record, |decoder, record| decoder.extra_text(record, give));
    }

    fn full_record(&mut self, record: &Record<'_>) -> Option<Vec<u8>> {
        let mut found = None;
        let is_blank = record.is_blank();
        self.each_record(record, |_, given| {
            // Standalone records may come before and after it.
            if found.is_none() && (is_blank || given.bytes.len() >= record.bytes.len()) {
                found = Some(given.bytes.to_vec());
            }
        });
        found
    }

    fn has_companion_data(&self) -> bool {
        !self.entries.is_empty()
    }

    fn bind_companion(&mut self) -> bool {
        let is_bound = self.bound > 0;
        if !is_bound {
            self.bind_all();
        }
        !is_bound
    }
}

/// Returns a record with members replaced or added.
fn with_members(record: &[u8], members: &str) -> Option<Vec<u8>> {
    let pairs: json::Pairs<'_> = serde_json::from_str(members).ok()?;
    let pairs = pairs.0.iter();
    let members: Vec<(&str, &str)> = pairs
        .filter_map(|(name, value)| Some((&**name, value.0?)))
        .collect();
    json::set_members(record, &members)
}
