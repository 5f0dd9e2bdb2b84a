//! Restores the source of a session from its origins, byte for byte.
//!
//! Lines in records and lines in the origin file are merged by number. Records without an origin
//! were written after the conversion and are appended.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Take};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::read_failures::is_gone;
use crate::store::{Root, RootFile, SessionFiles, unnumbered_record};
use annals_jsonl::Error as FileError;
use annals_jsonl::{MAX_LINE, RangeReader, Scanner, open_to_read};
use annals_layouts::layout::{Decoder, ORIGIN_FILE, Writer};
use annals_layouts::model::{ArtifactKind, Framing};

use super::encode::Target;
use super::origin::{self, Header, RecordOrigin, SourcePosition};
use super::{SessionOutcome, later_changes};
use crate::store::staging::StagedFile;

/// Maximum mode of a restored file, whatever its origin says: the mode of any new file of annals.
const MAX_MODE: u32 = 0o600;

/// Lines of shared logs, by path, line number and piece. They come from several sessions.
pub(super) type SharedLines = BTreeMap<PathBuf, BTreeMap<(u64, usize), Vec<u8>>>;

/// Returns the origin header of a session, if it was converted from that layout. A file that is not
/// a valid origin file is treated like any other.
pub(super) fn session_header(layout: &str, files: &SessionFiles) -> Result<Option<Header>> {
    let mut beside = files.attachments.iter();
    let file = beside.find(|file| file.artifact.kind == ArtifactKind::Origin);
    file.map_or(Ok(None), |file| read_header_of_layout(layout, &file.path))
}

/// Returns the origin header of a root, if it was converted from that layout.
pub(super) fn root_header(layout: &str, root: &Root) -> Result<Option<Header>> {
    read_header_of_layout(layout, &root.path.join(ORIGIN_FILE))
}

/// Returns the header of an origin file, if it exists and is of that layout. A file that cannot be
/// read is an error: otherwise a session to be restored would be converted again.
fn read_header_of_layout(layout: &str, path: &Path) -> Result<Option<Header>> {
    match read_header(path) {
        Ok(header) => Ok((header.layout == layout).then_some(header)),
        Err(error @ Error::File(FileError::Io { .. })) if !is_gone(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

pub(super) fn read_header(path: &Path) -> Result<Header> {
    let failed = |error| Error::io("read", path, error);
    let file = open_to_read(path).map_err(failed)?;
    let mut line = Vec::new();
    let mut reader = BufReader::new(file.take(MAX_LINE as u64));
    reader.read_until(b'\n', &mut line).map_err(failed)?;
    Header::parse(&line, path)
}

/// Restores a session.
pub(super) fn restore_session(
    target: &Target<'_>,
    files: &SessionFiles,
    header: &Header,
    shared: &mut SharedLines,
) -> Result<SessionOutcome> {
    let mut streams = open_streams(files)?;
    let mut settled = write_files(target, header, &mut streams, shared)?;
    settled.later_changes = changes_since(target.writer, files, header, streams)?;
    if is_list_withheld(target, header) {
        settled
            .later_changes
            .listed_title
            .clone_from(&header.listed_title);
    }
    settled.id = header
        .session
        .as_deref()
        .and_then(|id| annals_layouts::model::SessionId::new(id).ok());
    settled.restored = true;
    Ok(settled)
}

/// Returns whether titles of the target's layout are in a session list that is not restored, because it
/// is the program's and has other sessions too.
fn is_list_withheld(target: &Target<'_>, header: &Header) -> bool {
    let layout = target.root.layout;
    let lists = target.writer.session_lists();
    let lists = lists.filter(|_| target.writer.title_in_session_list());
    let mut files = header.files.iter();
    let log = files.find_map(|file| {
        let artifact = layout.classify(&origin::safe_path(&file.path)?)?;
        artifact.kind.is_log().then_some(artifact)
    });
    let list = lists
        .zip(log)
        .and_then(|(lists, log)| lists.session_list(&log));
    list.is_some_and(|list| !target.restore_filter.allows_file(&layout.path_for(&list)))
}

/// Returns the records of a session that its origins have, and the changes made after the conversion.
pub(super) fn original_records(
    writer: &dyn Writer,
    files: &SessionFiles,
    header: &Header,
) -> Result<(Vec<Vec<u8>>, later_changes::LaterChanges)> {
    let mut streams = open_streams(files)?;
    let mut records = Vec::new();
    for number in 0..header.files.len() {
        each_line_of_file(number, &mut streams, |_, bytes| {
            records.push(bytes);
            Ok(())
        })?;
    }
    let changes = changes_since(writer, files, header, streams)?;
    Ok((records, changes))
}

/// Opens all files of a session that have origins.
fn open_streams(files: &SessionFiles) -> Result<Vec<OriginReader>> {
    let mut streams = Vec::new();
    let beside = files.attachments.iter();
    for file in beside.filter(|file| file.artifact.kind == ArtifactKind::Origin) {
        streams.push(OriginReader::open(&file.path)?);
    }
    let logs = files.logs().flat_map(RootFile::volumes);
    // The records of a database have no lines of the source.
    let logs = logs.filter(|file| !is_in_rows(file));
    for file in logs.chain(files.notes()) {
        streams.push(OriginReader::open_log(&files.root, file)?);
    }
    Ok(streams)
}

fn is_in_rows(file: &RootFile) -> bool {
    matches!(file.artifact.framing, Framing::Rows(_))
}

/// Returns the offsets of records that were written to a database after the conversion.
fn added_rows(root: &Root, file: &RootFile) -> Result<Vec<u64>> {
    let failed = |error| Error::io("read", &file.path, error);
    let records = file.open()?;
    let mut decoder = root.decoder(file);
    let mut lines = Scanner::new(RangeReader::from_offset(&records, 0));
    let mut added = Vec::new();
    while let Some(line) = lines.next().map_err(failed)? {
        let whole = decoder.full_record(&unnumbered_record(&line));
        let origin = origin::decode_record(whole.as_deref().unwrap_or(line.bytes));
        added.extend((origin == RecordOrigin::Added).then_some(line.offset));
    }
    Ok(added)
}

/// Returns the changes made after the conversion, from files that have been read to their end.
fn changes_since(
    writer: &dyn Writer,
    files: &SessionFiles,
    header: &Header,
    streams: Vec<OriginReader>,
) -> Result<later_changes::LaterChanges> {
    let mut fresh: HashMap<PathBuf, Vec<u64>> = HashMap::new();
    for stream in streams {
        if !stream.added_offsets.is_empty() {
            fresh
                .entry(stream.path)
                .or_default()
                .extend(stream.added_offsets);
        }
    }
    let logs = files.logs().flat_map(RootFile::volumes);
    for file in logs.filter(|file| is_in_rows(file)) {
        fresh.insert(file.path.clone(), added_rows(&files.root, file)?);
    }
    fresh
        .values_mut()
        .for_each(|offsets| offsets.sort_unstable());
    later_changes::find_changes(writer, files, header, &fresh)
}

/// Restores the files in a root's own origin file.
pub(super) fn restore_root(
    target: &Target<'_>,
    path: &Path,
    header: &Header,
    shared: &mut SharedLines,
) -> Result<SessionOutcome> {
    let mut streams = vec![OriginReader::open(path)?];
    let settled = write_files(target, header, &mut streams, shared)?;
    for dir in header.dirs.iter().filter_map(|dir| origin::safe_path(dir)) {
        if target.restore_filter.allows_dir(&dir) {
            let dir = target.root.path.join(dir);
            target.root.ensure_inside(&dir)?;
            annals_jsonl::ensure_dir(&dir)?;
        }
    }
    Ok(settled)
}

fn write_files(
    target: &Target<'_>,
    header: &Header,
    streams: &mut [OriginReader],
    shared: &mut SharedLines,
) -> Result<SessionOutcome> {
    let mut settled = SessionOutcome::default();
    for (number, source) in header.files.iter().enumerate() {
        let Some(within) = origin::safe_path(&source.path) else {
            return Err(Error::refused(format!(
                "`{}` is outside of its root; not restored",
                source.path
            )));
        };
        if !target.restore_filter.allows_file(&within) {
            each_line_of_file(number, streams, |_, _| Ok(()))?;
            continue;
        }
        let meaning = target.root.layout.classify(&within);
        let shared_kinds = [ArtifactKind::SharedLog, ArtifactKind::Companion];
        let is_shared = meaning.is_some_and(|meaning| shared_kinds.contains(&meaning.kind));
        if is_shared {
            let lines = shared.entry(within).or_default();
            let mut piece = 0;
            each_line_of_file(number, streams, |spot, bytes| {
                piece += 1;
                lines.insert((spot.line, piece), bytes);
                Ok(())
            })?;
            continue;
        }
        let mut out: Option<StagedFile> = None;
        each_line_of_file(number, streams, |_, bytes| {
            if out.is_none() {
                out = Some(target.stage.file(&within)?);
            }
            match &mut out {
                Some(out) => out.put(&bytes),
                None => Ok(()),
            }
        })?;
        // The file is empty.
        let mut out = match out {
            Some(out) => out,
            None if header.partial => continue,
            None => target.stage.file(&within)?,
        };
        out.set_metadata(source.mode & MAX_MODE, source.mtime);
        if out.written() != source.len && !header.partial {
            settled.damaged.push(target.root.path.join(&within));
        }
        if target.stage.commit(out)? {
            settled.files += 1;
        } else {
            settled.existing_files.push(target.root.path.join(&within));
        }
    }
    Ok(settled)
}

/// Passes on the lines of one file in order.
fn each_line_of_file(
    number: usize,
    streams: &mut [OriginReader],
    mut put: impl FnMut(SourcePosition, Vec<u8>) -> Result<()>,
) -> Result<()> {
    loop {
        let mut first: Option<&mut OriginReader> = None;
        for stream in streams.iter_mut() {
            let Some(spot) = stream.position().filter(|spot| spot.file == number) else {
                continue;
            };
            let earlier = first
                .as_ref()
                .and_then(|first| first.position())
                .is_none_or(|known| spot < known);
            if earlier {
                first = Some(stream);
            }
        }
        let Some(stream) = first else {
            return Ok(());
        };
        if let Some((spot, bytes)) = stream.next.take() {
            put(spot, bytes)?;
        }
        stream.advance()?;
    }
}

/// Reads the origins in one file, in the order of their positions.
struct OriginReader {
    path: PathBuf,
    file: File,
    lines: Scanner<Take<File>>,
    /// Byte ranges still to be read, if several sessions share the file.
    ranges: VecDeque<Range<u64>>,
    /// Decodes the records of a log, which contain the origins; `None` for an origin file.
    decoder: Option<Box<dyn Decoder>>,
    next: Option<(SourcePosition, Vec<u8>)>,
    /// Byte offsets of records that were written after the conversion.
    added_offsets: Vec<u64>,
    /// Offset of each record, if they are derived from the lines of the file.
    record_offsets: Vec<u64>,
}

impl OriginReader {
    fn open(path: &Path) -> Result<Self> {
        OriginReader::open_ranges(path, None, std::iter::once(0..u64::MAX).collect())
    }

    fn open_log(root: &Root, file: &RootFile) -> Result<Self> {
        let is_derived = file.artifact.framing.keeps_lines();
        let stretches = match file.slice.as_ref().filter(|_| !is_derived) {
            None => std::iter::once(0..u64::MAX).collect(),
            Some(share) => share.ranges.iter().map(|one| one.bytes.clone()).collect(),
        };
        let mut reader = OriginReader::open_ranges(&file.path, None, VecDeque::new())?;
        reader.ranges = stretches;
        reader.decoder = Some(root.decoder(file));
        if is_derived {
            let failed = |error| Error::io("read", &file.path, error);
            let derived = file.open()?;
            let mut lines = Scanner::new(RangeReader::from_offset(&derived, 0));
            while let Some(line) = lines.next().map_err(failed)? {
                reader.record_offsets.push(line.offset);
            }
        }
        reader.advance()?;
        Ok(reader)
    }

    fn open_ranges(
        path: &Path,
        decoder: Option<Box<dyn Decoder>>,
        stretches: VecDeque<Range<u64>>,
    ) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let file = open_to_read(path).map_err(failed)?;
        let nothing = file.try_clone().map_err(failed)?.take(0);
        let mut stream = OriginReader {
            path: path.to_owned(),
            file,
            lines: Scanner::new(nothing),
            ranges: stretches,
            decoder,
            next: None,
            added_offsets: Vec::new(),
            record_offsets: Vec::new(),
        };
        stream.advance()?;
        Ok(stream)
    }

    fn position(&self) -> Option<SourcePosition> {
        self.next.as_ref().map(|(spot, _)| *spot)
    }

    fn advance(&mut self) -> Result<()> {
        self.next = None;
        loop {
            let failed = |error| Error::io("read", &self.path, error);
            while let Some(line) = self.lines.next().map_err(failed)? {
                let found = match &mut self.decoder {
                    None => std::str::from_utf8(line.bytes)
                        .ok()
                        .and_then(origin::decode_line),
                    Some(decoder) => {
                        let decoder = decoder.as_mut();
                        let whole = decoder.full_record(&unnumbered_record(&line));
                        match origin::decode_record(whole.as_deref().unwrap_or(line.bytes)) {
                            RecordOrigin::Line(spot, bytes) => Some((spot, bytes)),
                            RecordOrigin::Generated => None,
                            RecordOrigin::Added => {
                                let number = usize::try_from(line.number - 1);
                                let number = number.unwrap_or(usize::MAX);
                                let offset = self.record_offsets.get(number);
                                let offset = offset.copied().unwrap_or(line.offset);
                                self.added_offsets.push(offset);
                                None
                            }
                        }
                    }
                };
                if found.is_some() {
                    self.next = found;
                    return Ok(());
                }
            }
            let Some(stretch) = self.ranges.pop_front() else {
                return Ok(());
            };
            let mut file = self.file.try_clone().map_err(failed)?;
            file.seek(SeekFrom::Start(stretch.start)).map_err(failed)?;
            let within = file.take(stretch.end - stretch.start);
            self.lines.reset_to(within, stretch.start, 1);
        }
    }
}
