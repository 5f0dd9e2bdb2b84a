//! Companion files: data of annals about the records of a log, in a separate file.
//!
//! Some agent programs reject unknown members. Members that such a layout does not have are stored in
//! the companion of the log, one line per record:
//!
//! ```text
//! {"offset":123,"sum":"0011223344556677","inode":42,"record":{…}}
//! ```
//!
//! `record` has members that replace or extend those of the line at `offset`. `sum` is a prefix of the
//! SHA-256 of that line. An entry without `sum` is a standalone record of a type that the log cannot
//! hold. A blank line of the log marks its position, and `after` is the sum of the last non-blank line
//! before it. `begin` marks the standalone record that begins the log's own session. It comes before
//! all lines and has no blank line.
//!
//! `Writer::split_record` splits a record into a line and a companion entry, and `Root::decoder` merges
//! them again, so layouts read and write complete records. A log of such a layout must not be read with
//! `Layout::decoder` alone. Data derived from a log is valid only if its companion is unchanged too
//! (`RootFile::is_companion_unchanged`).
//!
//! An entry applies to the line at `offset` only if the sum matches. A log that was rewritten, by its
//! program or by a repair, has its lines at other offsets. Then each entry is bound to the nearest line
//! with its sum. A standalone record is bound to the blank line after its previous line, or to the
//! previous line itself if the blank line does not exist. If no entry matches any line, the companion
//! belongs to another log and is ignored.
//!
//! The companion is written before the log, so that readers of the log find the entry. An append that
//! is interrupted in between leaves entries past the end of the log, and the next append removes them.
//! Entries of a log that was rewritten and became shorter are distinguished from these by `inode`, the
//! inode of the log: a rewrite replaces the file.
//!
//! If another program appends or replaces the log in between, the lines of the append get other
//! offsets. Their entries are then written again with these offsets, and the first ones are overwritten
//! with spaces.
//!
//! Only as much of the companion is read as the requested lines need: the end of a log needs the end
//! of its companion. A reader compares the sum of each line that it reads. If the entry at its offset
//! has another sum, or its own entry has another offset, the log was rewritten. Then the whole
//! companion is read, and all entries are bound again.

mod entries;
mod unmatched;

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use annals_jsonl::{
    Appended, FileId, LineEnding, Log, OpenLog, RangeReader, ReadAt as _, TailReader, next_offset,
    open_to_read, read_span,
};
use annals_layouts::json::{self, describe_json_error};
use annals_layouts::layout::{BLANK_LINE, Decoded, Decoder, Record, ReplyDelta, Writer};
use annals_layouts::model::{Artifact, ArtifactKind, Entry, Outline};

use entries::{CompanionEntries, line_at};

use super::inventory::{RootFile, SessionFiles};
use super::writer::open_or_create;
use super::{ReadFailures, Root, WriteOptions};

/// Number of bytes at the end of a companion to read first. Most readers need only the end of a log.
const FIRST_WINDOW: u64 = 16 << 10;

/// Factor by which the window grows if it is not enough.
const GROWTH: u64 = 4;

/// One line of a companion.
#[derive(Deserialize, Serialize)]
struct Line<'a> {
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none", borrow)]
    sum: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", borrow)]
    after: Option<&'a str>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    begin: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    inode: Option<u64>,
    #[serde(borrow)]
    record: &'a RawValue,
}

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

    fn annotated(&self, decoder: Box<dyn Decoder>, log: &Path, companion: &OsStr) -> Annotated {
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
struct Annotated {
    decoder: Box<dyn Decoder>,
    /// Path of the companion; `None` if it cannot grow.
    path: Option<PathBuf>,
    log: PathBuf,
    /// The log, if it is in an archive.
    archived: Option<OpenLog>,
    entries: CompanionEntries,
    /// Number of bytes at the end of the companion to read, unless all of it is needed.
    window: u64,
    /// Byte offset in the companion of the first loaded entry. Those before it are for earlier lines.
    from: u64,
    /// If only the start of the companion was read: the log offset up to which entries are loaded.
    before: Option<u64>,
    /// Log offset up to which the loaded companion is current.
    upto: u64,
    /// Log offset up to which the entries are bound to lines; 0 if they were not.
    bound: u64,
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

/// Returns the end of the last complete line of a log.
fn whole_end(log: &File, end: u64) -> u64 {
    if next_offset(log, end) == end {
        return end;
    }
    let lines = TailReader::new(RangeReader::between(log, 0, end));
    let torn = lines.and_then(|mut lines| Ok(lines.prev()?.map(|line| line.offset)));
    torn.ok().flatten().unwrap_or(end)
}

fn inode(log: &File) -> Option<u64> {
    log.metadata().ok().map(|metadata| metadata.ino())
}

/// Records to append: the lines of the log, and the entries of its companion.
#[derive(Debug, Default)]
pub(crate) struct SplitRecords {
    pub(crate) lines: Vec<Vec<u8>>,
    beside: Vec<Beside>,
    /// Entries of the records that begin the log's own session.
    begin: Vec<Vec<u8>>,
}

/// A companion entry to write for a line.
#[derive(Debug)]
struct Beside {
    /// Offset of the line relative to the first line of the append.
    within: u64,
    /// Sum of the line; `None` for a blank one.
    sum: Option<Sum>,
    /// Sum of the last non-blank line before it in the append.
    after: Option<Sum>,
    record: String,
}

impl SplitRecords {
    /// Splits records into lines and companion entries.
    pub(crate) fn new(writer: &dyn Writer, records: &[Vec<u8>]) -> Result<Self> {
        let mut parted = SplitRecords::default();
        let mut within = 0;
        let mut after = None;
        for record in records {
            let (line, beside) = writer.split_record(record)?;
            let sum = (line.as_slice() != BLANK_LINE).then(|| line_sum(&line));
            parted.beside.extend(beside.map(|record| Beside {
                within,
                sum,
                after,
                record,
            }));
            after = sum.or(after);
            within += line.len() as u64 + 1;
            parted.lines.push(line);
        }
        Ok(parted)
    }

    /// Adds the record that begins the log's own session.
    pub(crate) fn begin(&mut self, record: String) -> Result<()> {
        let failed = |error: serde_json::Error| Error::refused(describe_json_error(&error));
        let record = RawValue::from_string(record).map_err(failed)?;
        let entry = Line {
            offset: 0,
            sum: None,
            after: None,
            begin: true,
            inode: None,
            record: &record,
        };
        let entry = serde_json::to_vec(&entry).map_err(failed)?;
        self.begin.push(entry);
        Ok(())
    }

    /// Appends the entries of lines that will be written at the current end of a log to its companion.
    /// Removes the entries of interrupted appends first.
    pub(crate) fn write_companion(
        &mut self,
        root: &Root,
        artifact: &Artifact,
        options: WriteOptions,
        log: &File,
        end: u64,
    ) -> Result<WrittenEntries> {
        let beside = std::mem::take(&mut self.beside);
        let mut entries = companion_lines(&beside, log, end)?;
        entries.append(&mut self.begin);
        if entries.is_empty() {
            return Ok(WrittenEntries::default());
        }
        let Some(companion) = root.layout.companion(artifact) else {
            return Err(Error::refused(format!(
                "the layout {} has no companion files",
                root.layout.name()
            )));
        };
        let path = root.locate(&companion)?;
        root.ensure_inside(&path)?;
        let companion = open_or_create(root, &path, options)?;
        let whole_end = whole_end(log, end);
        companion.with_lock(|file| cut_leftovers(file, &path, whole_end, inode(log)))?;
        let places = companion.append_all(&entries)?;
        // Records that begin a session have no line that could move.
        let written = places.into_iter().zip(entries).take(beside.len());
        Ok(WrittenEntries {
            entries: written.collect(),
            beside,
            companion: Some(companion),
        })
    }
}

/// Companion entries written for an append.
#[derive(Debug, Default)]
pub(crate) struct WrittenEntries {
    beside: Vec<Beside>,
    /// The companion, if anything was written to it.
    companion: Option<Log>,
    /// Their positions and bytes.
    entries: Vec<(Appended, Vec<u8>)>,
}

impl WrittenEntries {
    /// Writes the entries again, because their lines are or will be at another offset of the log.
    pub(crate) fn move_to(&mut self, end: u64, log: &File) -> Result<()> {
        let Some(companion) = &self.companion else {
            return Ok(());
        };
        let entries = companion_lines(&self.beside, log, end)?;
        let places = companion.append_all(&entries)?;
        let entries = places.into_iter().zip(entries).collect();
        let stale = std::mem::replace(&mut self.entries, entries);
        // Readers ignore an entry that was written again, so a failure does no harm.
        let _ = companion.with_lock(|_| {
            let erased = erase(companion.path(), &stale);
            erased.map_err(|error| Error::io("write", companion.path(), error))
        });
        Ok(())
    }
}

/// Overwrites entries of a companion with spaces, so that all others keep their positions.
fn erase(path: &Path, entries: &[(Appended, Vec<u8>)]) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    for (place, entry) in entries {
        let found = read_span(&file, place.offset, entry.len() as u64);
        // Another process may have removed it.
        if found.is_ok_and(|found| found == *entry) {
            file.write_all_at(&vec![b' '; entry.len()], place.offset)?;
        }
    }
    Ok(())
}

/// Returns the companion entries for lines written at an end of a log.
fn companion_lines(beside: &[Beside], log: &File, end: u64) -> Result<Vec<Vec<u8>>> {
    let (offset, inode) = (next_offset(log, end), inode(log));
    let lines = beside.iter().map(|it| {
        let after = match it.sum {
            Some(_) => None,
            None => it.after.or_else(|| last_sum(log, end)),
        };
        companion_line(offset + it.within, it.sum, after, inode, it.record.clone())
    });
    lines.collect()
}

/// Removes the last entries of a companion that are for lines from `offset` on, the end of the log:
/// the append that wrote them was interrupted before it wrote to the log. Keeps entries with another
/// inode: their log was rewritten since.
fn cut_leftovers(companion: &File, path: &Path, offset: u64, inode: Option<u64>) -> Result<()> {
    let failed = |error| Error::io("read", path, error);
    let end = companion.metadata().map_err(failed)?.len();
    let mut keep = end;
    let mut lines = TailReader::new(RangeReader::from_offset(companion, 0)).map_err(failed)?;
    loop {
        let Some(line) = lines.prev().map_err(failed)? else {
            // The log is empty, so no entry is for one of its lines.
            keep = if offset == 0 { 0 } else { keep };
            break;
        };
        let whole = line.ending != LineEnding::None;
        match serde_json::from_slice::<Line<'_>>(line.bytes) {
            Ok(entry) if whole && (entry.begin || entry.offset < offset) => break,
            Ok(entry) if whole && entry.inode.is_some() && entry.inode != inode => break,
            // A damaged entry is removed only together with one before it.
            Err(_) if whole => {}
            _ => keep = line.offset,
        }
    }
    if keep == end {
        return Ok(());
    }
    let file = OpenOptions::new().write(true).open(path);
    let cut = file.and_then(|file| file.set_len(keep).and_then(|()| file.sync_all()));
    cut.map_err(|error| Error::io("write", path, error))
}

/// Returns the sum of the last non-blank line of a log.
fn last_sum(log: &File, end: u64) -> Option<Sum> {
    let mut lines = TailReader::new(RangeReader::between(log, 0, end)).ok()?;
    while let Ok(Some(line)) = lines.prev() {
        if !line.bytes.iter().all(u8::is_ascii_whitespace) {
            return Some(line_sum(line.bytes));
        }
    }
    None
}

fn companion_line(
    offset: u64,
    sum: Option<Sum>,
    after: Option<Sum>,
    inode: Option<u64>,
    record: String,
) -> Result<Vec<u8>> {
    let failed = |error: serde_json::Error| Error::refused(describe_json_error(&error));
    let record = RawValue::from_string(record).map_err(failed)?;
    let (sum, after) = (
        sum.map(|sum| format_checksum(&sum)),
        after.map(|sum| format_checksum(&sum)),
    );
    let line = Line {
        offset,
        sum: sum.as_deref(),
        after: after.as_deref(),
        begin: false,
        inode,
        record: &record,
    };
    serde_json::to_vec(&line).map_err(failed)
}

/// Prefix of a line's SHA-256.
type Sum = [u8; 8];

fn line_sum(line: &[u8]) -> Sum {
    let digest = Sha256::digest(line);
    let mut sum = [0; 8];
    sum.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    sum
}

fn format_checksum(sum: &Sum) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_sum(text: &str) -> Option<Sum> {
    let number = u64::from_str_radix(text, 16).ok()?;
    (text.len() == 16).then(|| number.to_be_bytes())
}

/// Assigns companions to their logs.
pub(super) fn attach_companions(logs: &mut [RootFile], companions: &[RootFile]) {
    for log in logs {
        let mut found = companions.iter();
        let found = found.find(|file| {
            file.artifact.folder == log.artifact.folder
                && file.artifact.session == log.artifact.session
        });
        log.companion = found.cloned().map(Box::new);
    }
}

/// Adds a companion to the attachments of the sessions that own its log, so that it is moved and
/// archived with the log. Returns `false` if there are none.
pub(super) fn assign_companion(sessions: &mut [SessionFiles], companion: &RootFile) -> bool {
    let belongs = |volume: &RootFile| {
        volume.artifact.folder == companion.artifact.folder
            && volume.artifact.session == companion.artifact.session
    };
    let mut given = false;
    for files in sessions {
        let is_its = files.logs().flat_map(RootFile::volumes).any(belongs);
        if is_its {
            files.attachments.push(companion.clone());
            given = true;
        }
    }
    given
}

impl RootFile {
    /// Returns the identity of the log's companion, if it has one.
    pub(crate) fn companion_id(&self) -> Option<FileId> {
        self.companion.as_ref().map(|companion| companion.id)
    }

    /// Returns whether companion data read when the log was `log` is still valid: the companion is
    /// unchanged, or both have grown.
    pub(crate) fn is_companion_unchanged(&self, companion: Option<&FileId>, log: &FileId) -> bool {
        match (companion, self.companion_id()) {
            (None, None) => true,
            (Some(before), Some(now)) => {
                let grew = self.id.len > log.len && now.len > before.len;
                before.untouched(&now) || (grew && before.same_file(&now))
            }
            _ => false,
        }
    }
}

/// Returns whether a file is the companion of a log.
pub(super) fn is_companion(file: &RootFile) -> bool {
    file.artifact.kind == ArtifactKind::Companion
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(of: &[(u64, Option<&str>, Option<&str>, &str)]) -> CompanionEntries {
        let mut bytes = Vec::new();
        for (offset, line, after, record) in of {
            let sum = |line: &str| line_sum(line.as_bytes());
            let line = companion_line(
                *offset,
                line.map(sum),
                after.map(sum),
                // An inode that no log has.
                Some(0),
                (*record).to_owned(),
            );
            bytes.extend(line.unwrap());
            bytes.push(b'\n');
        }
        let mut entries = CompanionEntries::default();
        entries.add(&bytes);
        entries
    }

    fn log(text: &str) -> (tempfile::TempDir, OpenLog) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, text).unwrap();
        let log = OpenLog::open(&path).unwrap();
        (dir, log)
    }

    #[test]
    fn entries_are_written_again_for_lines_that_moved() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new("orchestrator", dir.path()).unwrap();
        let artifact = "projects/v_FXjHoCS5zUJmfyn-5v/2026-11-15.jsonl";
        let artifact = root.layout.classify(artifact.as_ref()).unwrap();
        let path = root.locate(&artifact).unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let first = b"{\"type\":\"user\",\"content\":\"first\"}\n".to_vec();
        std::fs::write(&path, &first).unwrap();
        let file = File::open(&path).unwrap();
        let records = [
            br#"{"type":"user","content":"x","annals":{"id":"moved"}}"#.to_vec(),
            br#"{"type":"system","annals":{"id":"alone"}}"#.to_vec(),
        ];
        let mut parted = SplitRecords::new(root.layout.writer().unwrap(), &records).unwrap();
        let (options, end) = (WriteOptions::default(), first.len() as u64);
        let written = parted.write_companion(&root, &artifact, options, &file, end);
        let mut written = written.unwrap();
        let companion = root.layout.companion(&artifact).unwrap();
        let companion = root.locate(&companion).unwrap();
        let before = std::fs::metadata(&companion).unwrap().len();
        // Another program's record came first.
        let foreign = b"{\"type\":\"user\",\"content\":\"foreign\"}".to_vec();
        let lines = [&[foreign.clone()][..], &parted.lines].concat();
        let log = [first, lines.join(&b'\n'), b"\n".to_vec()].concat();
        std::fs::write(&path, log).unwrap();
        let place = end + foreign.len() as u64 + 1;
        written.move_to(place, &file).unwrap();

        let mut found = CompanionEntries::default();
        let bytes = std::fs::read(&companion).unwrap();
        found.add(&bytes);
        assert_eq!(found.len(), 2);
        assert!(found.read > before, "entries keep their places");
        let alone = place + parted.lines[0].len() as u64 + 1;
        assert!(found.members.contains_key(&place) && found.standalone.contains_key(&alone));
        let log = OpenLog::open(&path).unwrap();
        assert_eq!(found.bind(&log).unwrap(), 0);
        let report = found.bind_all(&log, &log.id().unwrap()).unwrap();
        assert!(report.unmatched.is_empty() && report.moved.is_empty());
    }

    #[test]
    fn bind_skips_entries_that_were_written_again() {
        let (_dir, log) = log("{1}\n{3}\n{2}\n \n");
        let mut bound = entries(&[
            (4, Some("{2}"), None, r#"{"x":2}"#),
            (8, None, Some("{2}"), r#"{"alone":2}"#),
            (8, Some("{2}"), None, r#"{"x":2}"#),
            (12, None, Some("{2}"), r#"{"alone":2}"#),
        ]);
        let report = bound.bind_all(&log, &log.id().unwrap()).unwrap();
        assert!(report.unmatched.is_empty() && report.moved.is_empty());
        assert_eq!(bound.members.keys().copied().collect::<Vec<_>>(), [8]);
        assert_eq!(bound.standalone.keys().copied().collect::<Vec<_>>(), [12]);
        assert_eq!((bound.len(), bound.moved.len()), (2, 0));
    }

    #[test]
    fn bind_keeps_records_without_line_after_swapped_lines() {
        let (_dir, log) = log("{2}\n \n{1}\n \n");
        let mut bound = entries(&[
            (0, Some("{1}"), None, r#"{"x":1}"#),
            (4, None, Some("{1}"), r#"{"alone":1}"#),
            (6, Some("{2}"), None, r#"{"x":2}"#),
            (10, None, Some("{2}"), r#"{"alone":2}"#),
        ]);
        bound.bind(&log).unwrap();
        assert_eq!(bound.members[&0][0].record, r#"{"x":2}"#);
        assert_eq!(bound.standalone[&4][0].record, r#"{"alone":2}"#);
        assert_eq!(bound.standalone[&10][0].record, r#"{"alone":1}"#);
    }

    #[test]
    fn bind_leaves_entries_of_a_grown_log_in_place() {
        let (_dir, log) = log("{1}\n{2}\n{2}\nmore\n");
        // The second of two equal lines is annotated, and the first is not.
        let mut bound = entries(&[(8, Some("{2}"), None, r#"{"x":1}"#)]);
        bound.bind(&log).unwrap();
        assert_eq!(bound.members.keys().copied().collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn bind_moves_entries_of_a_rewritten_log_to_matching_lines() {
        let (_dir, log) = log("{2}\n{3}\n");
        let mut bound = entries(&[
            (4, Some("{2}"), None, r#"{"x":2}"#),
            (8, None, Some("{2}"), r#"{"alone":1}"#),
            (10, Some("{3}"), None, r#"{"x":3}"#),
            (14, Some("{4}"), None, r#"{"x":4}"#),
        ]);
        bound.bind(&log).unwrap();
        assert_eq!(bound.members.keys().copied().collect::<Vec<_>>(), [0, 4]);
        assert_eq!(bound.moved[&0][0].record, r#"{"alone":1}"#);
        assert!(bound.standalone.is_empty());
    }

    #[test]
    fn bind_places_records_without_blank_line_after_previous_line() {
        // The blank lines before `{2}` and at the end were removed; `{1}` did not move, and `{4}` was
        // written later.
        let made = [
            (0, Some("{1}"), None, r#"{"x":1}"#),
            (4, None, Some("{1}"), r#"{"alone":1}"#),
            (10, None, Some("{2}"), r#"{"alone":2}"#),
            (8, Some("{4}"), None, r#"{"x":4}"#),
            (12, None, Some("{4}"), r#"{"alone":4}"#),
        ];
        let (_dir, log) = log("{1}\n{2}\n{4}\n \n");
        let mut bound = entries(&made);
        bound.bind(&log).unwrap();
        let keys = |entries: &std::collections::BTreeMap<u64, Vec<_>>| {
            entries.keys().copied().collect::<Vec<u64>>()
        };
        assert_eq!(bound.members.keys().copied().collect::<Vec<_>>(), [0, 8]);
        assert_eq!(
            (keys(&bound.moved), keys(&bound.standalone)),
            (vec![0, 4], vec![12])
        );
    }

    #[test]
    fn bind_moves_end_record_only_if_log_was_replaced() {
        let (_dir, log) = log("{1}\n");
        let inode = log.id().unwrap().ino;
        let of_inode = |inode| {
            let sum = Some(line_sum(b"{1}"));
            let line = companion_line(4, None, sum, Some(inode), "{}".to_owned()).unwrap();
            let mut entries = CompanionEntries::default();
            entries.add(&[line, Vec::new()].join(&b'\n'));
            entries.bind(&log).unwrap();
            entries
        };
        let replaced = of_inode(inode + 1);
        assert_eq!((replaced.moved.len(), replaced.standalone.len()), (1, 0));
        let cut_off = of_inode(inode);
        assert_eq!((cut_off.moved.len(), cut_off.standalone.len()), (0, 1));
    }

    /// Creates a log and a companion with an entry for each line.
    fn annotated_log(dir: &Path, lines: usize) -> (PathBuf, Vec<u64>) {
        let (log, companion) = (dir.join("log.jsonl"), dir.join("log.annals"));
        let (mut text, mut beside, mut places) = (String::new(), Vec::new(), Vec::new());
        for number in 0..lines {
            let line = format!(r#"{{"type":"user","content":"{number}"}}"#);
            let offset = text.len() as u64;
            let members = format!(r#"{{"annals":{{"id":"m{number}"}}}}"#);
            let sum = Some(line_sum(line.as_bytes()));
            beside.extend(companion_line(offset, sum, None, Some(0), members).unwrap());
            beside.push(b'\n');
            places.push(offset);
            text += &line;
            text.push('\n');
        }
        std::fs::write(&log, text).unwrap();
        std::fs::write(companion, beside).unwrap();
        (log, places)
    }

    fn reader(log: &Path) -> Annotated {
        let root = Root::new("orchestrator", log.parent().unwrap()).unwrap();
        let artifact = "projects/v_FXjHoCS5zUJmfyn-5v/2026-11-15.jsonl";
        let artifact = root.layout.classify(artifact.as_ref()).unwrap();
        root.annotated(
            root.layout.decoder(&artifact),
            log,
            OsStr::new("log.annals"),
        )
    }

    fn id_at(reader: &mut Annotated, log: &Path, offset: u64) -> String {
        let text = std::fs::read_to_string(log).unwrap();
        let at = usize::try_from(offset).unwrap();
        let line = text[at..].lines().next().unwrap();
        let record = Record {
            span: annals_layouts::model::Span {
                offset,
                len: line.len() as u64 + 1,
                line: 0,
            },
            bytes: line.as_bytes(),
            terminated: true,
            oversize: false,
        };
        let mut sink = Decoded::default();
        reader.decode(&record, &mut sink);
        sink.items[0].id.clone().unwrap().to_string()
    }

    #[test]
    fn the_end_of_a_log_needs_only_the_end_of_its_companion() {
        let dir = tempfile::tempdir().unwrap();
        let (log, places) = annotated_log(dir.path(), 3_000);
        let mut last = reader(&log);
        assert!(last.has_companion_data() && last.entries.len() < 300);
        assert_eq!(id_at(&mut last, &log, places[2_999]), "m2999");
        assert!(last.entries.len() < 300);
        // Earlier lines need more of it.
        assert_eq!(id_at(&mut last, &log, places[2_500]), "m2500");
        assert!(last.from > 0);
        // The beginning of the log needs only the beginning.
        assert_eq!(id_at(&mut last, &log, places[0]), "m0");
        assert_eq!(id_at(&mut last, &log, places[9]), "m9");
        assert!(last.from == 0 && last.entries.len() < 300);
        assert_eq!(id_at(&mut last, &log, places[1_000]), "m1000");
        assert_eq!((last.from, last.entries.len()), (0, 3_000));
        assert_eq!(id_at(&mut last, &log, places[2_999]), "m2999");
    }

    #[test]
    fn all_of_a_companion_is_read_for_a_log_that_was_rewritten() {
        let dir = tempfile::tempdir().unwrap();
        let (log, places) = annotated_log(dir.path(), 3_000);
        let text = std::fs::read_to_string(&log).unwrap();
        let cut = usize::try_from(places[10]).unwrap();
        std::fs::write(&log, &text[cut..]).unwrap();
        let mut last = reader(&log);
        assert_eq!(last.from, 0);
        assert_eq!(id_at(&mut last, &log, places[2_999] - places[10]), "m2999");
        assert_eq!(id_at(&mut last, &log, 0), "m10");
    }

    #[test]
    fn entries_of_swapped_lines_of_one_length_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let (log, places) = annotated_log(dir.path(), 3_000);
        let text = std::fs::read_to_string(&log).unwrap();
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines.swap(0, 1);
        lines.swap(2_990, 2_991);
        std::fs::write(&log, lines.concat()).unwrap();
        // All offsets are the same, and the last lines are unchanged.
        let mut last = reader(&log);
        assert!(last.from > 0);
        assert_eq!(id_at(&mut last, &log, places[2_999]), "m2999");
        assert!(last.from > 0);
        assert_eq!(id_at(&mut last, &log, places[2_990]), "m2991");
        assert_eq!(last.bound, text.len() as u64);
        assert_eq!(id_at(&mut last, &log, places[2_991]), "m2990");
        assert_eq!(id_at(&mut last, &log, places[1]), "m0");
        let mut first = reader(&log);
        assert_eq!(id_at(&mut first, &log, 0), "m1");
        assert_eq!(id_at(&mut first, &log, places[1]), "m0");
    }

    #[test]
    fn entry_of_a_line_that_moved_to_the_place_of_another_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (log, places) = annotated_log(dir.path(), 3);
        // The second line has no entry; it is swapped with the third.
        let companion = log.with_file_name("log.annals");
        let beside = std::fs::read_to_string(&companion).unwrap();
        let beside: Vec<&str> = beside.split_inclusive('\n').collect();
        std::fs::write(&companion, [beside[0], beside[2]].concat()).unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines.swap(1, 2);
        std::fs::write(&log, lines.concat()).unwrap();
        let mut found = reader(&log);
        assert_eq!(id_at(&mut found, &log, 0), "m0");
        assert_eq!(id_at(&mut found, &log, places[1]), "m2");
    }

    #[test]
    fn entries_written_after_the_first_lines_were_replaced_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let (log, places) = annotated_log(dir.path(), 3_000);
        let companion = log.with_file_name("log.annals");
        // A different first line of the same length, with an entry at the end of the companion.
        let text = std::fs::read_to_string(&log).unwrap();
        let text = text.replacen(r#"content":"0""#, r#"content":"x""#, 1);
        std::fs::write(&log, &text).unwrap();
        let sum = Some(line_sum(text.lines().next().unwrap().as_bytes()));
        let members = r#"{"annals":{"id":"later"}}"#.to_owned();
        let mut line = companion_line(0, sum, None, Some(0), members).unwrap();
        line.push(b'\n');
        let mut beside = std::fs::read(&companion).unwrap();
        beside.extend(line);
        std::fs::write(&companion, beside).unwrap();
        let mut found = reader(&log);
        assert_eq!(id_at(&mut found, &log, 0), "later");
        assert_eq!(id_at(&mut found, &log, places[2_999]), "m2999");
    }

    #[test]
    fn bind_drops_entries_of_another_log() {
        let (_dir, log) = log("{7}\n{8}\n{9}\n");
        let mut bound = entries(&[
            (2, Some("{1}"), None, r#"{"x":1}"#),
            (6, None, Some("{1}"), r#"{"alone":1}"#),
        ]);
        bound.bind(&log).unwrap();
        assert!(bound.is_empty());
    }

    #[test]
    fn last_record_for_an_offset_comes_last() {
        let found = entries(&[
            (4, None, None, r#"{"left":1}"#),
            (4, None, None, r#"{"said":1}"#),
        ]);
        assert_eq!(found.standalone[&4].last().unwrap().record, r#"{"said":1}"#);
    }

    #[test]
    fn damaged_and_unfinished_lines_are_skipped() {
        let mut found = CompanionEntries::default();
        let mut bytes =
            b"garbage\n{\"offset\":1}\n{\"offset\":1,\"sum\":\"zz\",\"record\":{}}\n".to_vec();
        let whole = bytes.len() as u64;
        bytes.extend(b"{\"offset\":1,\"rec");
        found.add(&bytes);
        assert!(found.is_empty());
        assert_eq!(found.read, whole);
    }

    #[test]
    fn leftovers_of_an_interrupted_append_are_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("companion");
        let line = |offset| companion_line(offset, None, None, Some(7), "{}".to_owned()).unwrap();
        let text: Vec<u8> = [line(2), line(9), line(12), b"{\"offset\":9,".to_vec()].join(&b'\n');
        std::fs::write(&path, &text).unwrap();
        let file = File::open(&path).unwrap();
        cut_leftovers(&file, &path, 9, Some(7)).unwrap();
        let kept = std::fs::read(&path).unwrap();
        assert_eq!(kept, [line(2), Vec::new()].join(&b'\n'));
        cut_leftovers(&file, &path, 9, Some(7)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), kept);
        // An entry with another inode is from before the log was rewritten.
        std::fs::write(&path, &text).unwrap();
        cut_leftovers(&file, &path, 9, Some(8)).unwrap();
        let kept = std::fs::read(&path).unwrap();
        assert_eq!(kept, [line(2), line(9), line(12), Vec::new()].join(&b'\n'));
        // A damaged entry may be for an existing line.
        let text: Vec<u8> = [line(2), b"damaged".to_vec(), Vec::new()].join(&b'\n');
        std::fs::write(&path, &text).unwrap();
        cut_leftovers(&file, &path, 9, Some(7)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), text);
        cut_leftovers(&file, &path, 0, Some(7)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }
}
