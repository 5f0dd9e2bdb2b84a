//! Entries of a companion for records that are appended to its log.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::value::RawValue;

use crate::error::{Error, Result};
use annals_jsonl::{Appended, LineEnding, Log, RangeReader, TailReader, next_offset, read_span};
use annals_layouts::json::describe_json_error;
use annals_layouts::layout::{BLANK_LINE, Writer};
use annals_layouts::model::Artifact;

use super::super::writer::open_or_create;
use super::super::{Root, WriteOptions};
use super::{Line, Sum, format_checksum, line_sum};

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
pub(super) fn cut_leftovers(
    companion: &File,
    path: &Path,
    offset: u64,
    inode: Option<u64>,
) -> Result<()> {
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

pub(super) fn companion_line(
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
