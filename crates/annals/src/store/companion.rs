//! Companions: what annals says of a log's records in a file beside the log.
//!
//! Some agent programs take no member that they do not know. What annals must say of a record beyond
//! such a layout's own members stands in the log's companion, one line for each record:
//!
//! ```text
//! {"offset":123,"sum":"0011223344556677","record":{…}}
//! ```
//!
//! `record` holds the members that are put over those of the record. `sum` is the beginning of the
//! SHA-256 of the record's line. It finds the record wherever it stands, because the log's own
//! program may rewrite the log; `offset` tells several equal lines apart. A line without `sum` is a
//! record of its own, for which the log has no words: it stands at `offset`, where the log has a
//! blank line.
//!
//! A companion is written before the log. What is left of an append that failed in between names no
//! record, and says nothing.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::json;
use crate::jsonl::{BytesReader, read_span};
use crate::layout::{Again, BLANK, Decoder, Record, Sink, Writer};
use crate::model::{Artifact, ArtifactKind, Entry, Outline, Span};

use super::inventory::{FoundFile, SessionFiles};
use super::writer::open_or_make;
use super::{Root, WriteOptions};

/// One line of a companion.
#[derive(Deserialize, Serialize)]
struct Line<'a> {
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none", borrow)]
    sum: Option<&'a str>,
    #[serde(borrow)]
    record: &'a RawValue,
}

impl Root {
    /// Reads the records of a file, with what its companion says of them.
    pub fn decoder(&self, file: &FoundFile) -> Box<dyn Decoder> {
        match &file.kept {
            Some(_) => {
                let kept = file.companion.as_deref();
                let bytes = kept.and_then(|kept| kept.read().ok());
                self.annotated(&file.artifact, None, bytes, u64::MAX)
            }
            None => self.decoder_at(&file.path, &file.artifact),
        }
    }

    /// Reads the records of the log at `path`, with what its companion says of them.
    pub(crate) fn decoder_at(&self, path: &Path, log: &Artifact) -> Box<dyn Decoder> {
        let companion = self.layout.companion(log);
        let name = companion.map(|companion| self.layout.place(&companion));
        let name = name.as_deref().and_then(Path::file_name);
        // Before the companion is read, which is written before the log.
        let len = path.metadata().map_or(0, |metadata| metadata.len());
        self.annotated(log, name.map(|name| path.with_file_name(name)), None, len)
    }

    fn annotated(
        &self,
        log: &Artifact,
        path: Option<PathBuf>,
        bytes: Option<Vec<u8>>,
        upto: u64,
    ) -> Box<dyn Decoder> {
        let decoder = self.layout.decoder(log);
        if path.is_none() && bytes.is_none() {
            return decoder;
        }
        let mut annotations = Annotations::default();
        annotations.take(bytes.as_deref().unwrap_or_default());
        let mut annotated = Annotated {
            decoder,
            path,
            annotations,
            upto,
        };
        annotated.refresh();
        Box::new(annotated)
    }
}

/// What a companion says, by the records that it speaks of.
#[derive(Debug, Default)]
struct Annotations {
    /// Members of records, by the sums of their lines.
    members: HashMap<[u8; 8], Vec<(u64, String)>>,
    /// Records of their own, in the order of their places.
    alone: Vec<(u64, String)>,
    /// The companion was read up to here.
    read: u64,
}

impl Annotations {
    /// Takes in the next lines. Damaged ones say nothing; the record that they spoke of is there.
    fn take(&mut self, bytes: &[u8]) {
        let whole = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        self.read += whole as u64;
        for line in bytes
            .get(..whole)
            .unwrap_or_default()
            .split(|byte| *byte == b'\n')
        {
            let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else {
                continue;
            };
            let record = line.record.get().to_owned();
            match line.sum.map(parse_sum) {
                Some(Some(sum)) => {
                    let known = self.members.entry(sum).or_default();
                    known.push((line.offset, record));
                }
                Some(None) => {}
                None => {
                    let at = self.alone.partition_point(|(at, _)| *at <= line.offset);
                    self.alone.insert(at, (line.offset, record));
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty() && self.alone.is_empty()
    }

    /// The members that stand beside a record.
    fn of(&self, record: &Record<'_>) -> Option<&str> {
        let found = self.members.get(&sum_of(record.bytes))?;
        // The log may have been rewritten, so of equal lines the nearest is meant.
        let nearest = found
            .iter()
            .min_by_key(|(at, _)| at.abs_diff(record.span.offset));
        nearest.map(|(_, members)| members.as_str())
    }

    /// The records of their own that stand where a line of the log does.
    fn at(&self, span: Span) -> &[(u64, String)] {
        let from = self.alone.partition_point(|(at, _)| *at < span.offset);
        let to = self.alone.partition_point(|(at, _)| *at < span.end());
        self.alone.get(from..to).unwrap_or_default()
    }
}

/// Reads records with what their log's companion says of them.
struct Annotated {
    decoder: Box<dyn Decoder>,
    /// The companion, unless it can no longer grow.
    path: Option<PathBuf>,
    annotations: Annotations,
    /// Records before this offset were written before the companion was last looked at.
    upto: u64,
}

impl Annotated {
    /// Reads what was added to the companion.
    fn refresh(&mut self) {
        let Some(file) = self.path.as_ref().and_then(|path| File::open(path).ok()) else {
            return;
        };
        let read = self.annotations.read;
        let len = file.metadata().map_or(0, |metadata| metadata.len());
        if len < read {
            self.annotations = Annotations::default();
        } else if len == read {
            return;
        }
        let mut bytes = Vec::new();
        let mut rest = BytesReader::from(&file, self.annotations.read);
        if rest.read_to_end(&mut bytes).is_ok() {
            self.annotations.take(&bytes);
        }
    }

    /// Hands the record to `read` with all that is said of it, and those that stand in its place.
    fn each(&mut self, record: &Record<'_>, mut read: impl FnMut(&mut dyn Decoder, &Record<'_>)) {
        if record.span.end() > self.upto {
            self.upto = record.span.end();
            self.refresh();
        }
        if self.annotations.is_empty() {
            return read(self.decoder.as_mut(), record);
        }
        for (_, alone) in self.annotations.at(record.span) {
            let alone = Record {
                bytes: alone.as_bytes(),
                terminated: true,
                oversize: false,
                ..*record
            };
            read(self.decoder.as_mut(), &alone);
        }
        if record.is_blank() {
            return;
        }
        match self
            .annotations
            .of(record)
            .and_then(|members| whole(record.bytes, members))
        {
            None => read(self.decoder.as_mut(), record),
            Some(bytes) => read(
                self.decoder.as_mut(),
                &Record {
                    bytes: &bytes,
                    ..*record
                },
            ),
        }
    }
}

impl Decoder for Annotated {
    fn outline(&mut self, record: &Record<'_>, out: &mut Sink<Outline>) {
        self.each(record, |decoder, record| decoder.outline(record, out));
    }

    fn spending(&mut self, record: &Record<'_>, out: &mut Sink<Outline>) {
        self.each(record, |decoder, record| decoder.spending(record, out));
    }

    fn spending_again(&mut self, _: &Record<'_>) -> Option<Again> {
        None
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Sink<Entry>) {
        self.each(record, |decoder, record| decoder.decode(record, out));
    }

    fn is_record(&self, object: &str) -> bool {
        self.decoder.is_record(object)
    }

    fn beside(&mut self, record: &Record<'_>, give: &mut dyn FnMut(&str)) {
        self.each(record, |decoder, record| decoder.beside(record, give));
    }

    fn whole(&mut self, record: &Record<'_>) -> Option<Vec<u8>> {
        let mut found = None;
        self.each(record, |_, record| found = Some(record.bytes.to_vec()));
        found
    }

    fn says_more(&self) -> bool {
        !self.annotations.is_empty()
    }
}

/// A record with the members that stand beside it.
fn whole(record: &[u8], members: &str) -> Option<Vec<u8>> {
    let pairs: json::Pairs<'_> = serde_json::from_str(members).ok()?;
    let pairs = pairs.0.iter();
    let members: Vec<(&str, &str)> = pairs
        .filter_map(|(name, value)| Some((&**name, value.0?)))
        .collect();
    json::set_members(record, &members)
}

/// Where the next record of a log will stand: a torn last line is ended first.
pub(crate) fn next_offset(log: &File, end: u64) -> u64 {
    let last = end.checked_sub(1).map(|at| read_span(log, at, 1));
    match last {
        Some(Ok(last)) if last != b"\n" => end + 1,
        _ => end,
    }
}

/// Records on their way into a log: its lines, and those of its companion.
#[derive(Debug, Default)]
pub(crate) struct Parted {
    pub(crate) lines: Vec<Vec<u8>>,
    pub(crate) companion: Vec<Vec<u8>>,
}

impl Parted {
    /// Parts records that will stand from `offset` on; [`next_offset`] tells where that is.
    pub(crate) fn new(writer: &dyn Writer, records: &[Vec<u8>], mut offset: u64) -> Result<Self> {
        let mut parted = Parted::default();
        for record in records {
            let (line, beside) = writer.part(record)?;
            if let Some(beside) = beside {
                let sum = (line.as_slice() != BLANK).then(|| spell_sum(&sum_of(&line)));
                parted
                    .companion
                    .push(companion_line(offset, sum.as_deref(), beside)?);
            }
            offset += line.len() as u64 + 1;
            parted.lines.push(line);
        }
        Ok(parted)
    }

    /// Adds a record that has no line in the log.
    pub(crate) fn add(&mut self, offset: u64, record: String) -> Result<()> {
        self.companion.push(companion_line(offset, None, record)?);
        Ok(())
    }

    /// Writes the lines of the companion of a log.
    pub(crate) fn write_companion(
        &self,
        root: &Root,
        log: &Artifact,
        options: WriteOptions,
    ) -> Result<()> {
        if self.companion.is_empty() {
            return Ok(());
        }
        let Some(companion) = root.layout.companion(log) else {
            return Err(Error::refused(format!(
                "the layout {} has no place beside its logs",
                root.layout.name()
            )));
        };
        let path = root.locate(&companion)?;
        root.guard(&path)?;
        let written = open_or_make(root, &path, options)?.append_all(&self.companion);
        written.map(drop)
    }
}

fn companion_line(offset: u64, sum: Option<&str>, record: String) -> Result<Vec<u8>> {
    let failed = |error: serde_json::Error| Error::refused(error.to_string());
    let record = RawValue::from_string(record).map_err(failed)?;
    let line = Line {
        offset,
        sum,
        record: &record,
    };
    serde_json::to_vec(&line).map_err(failed)
}

fn sum_of(line: &[u8]) -> [u8; 8] {
    let digest = Sha256::digest(line);
    let mut sum = [0; 8];
    sum.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    sum
}

fn spell_sum(sum: &[u8; 8]) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_sum(text: &str) -> Option<[u8; 8]> {
    let number = u64::from_str_radix(text, 16).ok()?;
    (text.len() == 16).then(|| number.to_be_bytes())
}

/// Gives logs the companions that were found beside them.
pub(super) fn pair(logs: &mut [FoundFile], companions: &[FoundFile]) {
    for log in logs {
        let mut found = companions.iter();
        let found = found.find(|file| {
            file.artifact.folder == log.artifact.folder
                && file.artifact.session == log.artifact.session
        });
        log.companion = found.cloned().map(Box::new);
    }
}

/// Gives a companion to the sessions whose log it belongs to: it goes where the log goes. `false` if
/// there are none.
pub(super) fn give(sessions: &mut [SessionFiles], companion: &FoundFile) -> bool {
    let belongs = |volume: &FoundFile| {
        volume.artifact.folder == companion.artifact.folder
            && volume.artifact.session == companion.artifact.session
    };
    let mut given = false;
    for files in sessions {
        let is_its = files.logs().flat_map(FoundFile::volumes).any(belongs);
        if is_its {
            files.beside.push(companion.clone());
            given = true;
        }
    }
    given
}

/// Whether a file is the companion of a log.
pub(super) fn is_companion(file: &FoundFile) -> bool {
    file.artifact.kind == ArtifactKind::Companion
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(bytes: &[u8], offset: u64) -> Record<'_> {
        Record {
            span: Span {
                offset,
                len: bytes.len() as u64 + 1,
                line: 0,
            },
            bytes,
            terminated: true,
            oversize: false,
        }
    }

    fn lines(of: &[(u64, Option<&[u8]>, &str)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (offset, line, record) in of {
            let sum = line.map(|line| spell_sum(&sum_of(line)));
            bytes.extend(companion_line(*offset, sum.as_deref(), (*record).to_owned()).unwrap());
            bytes.push(b'\n');
        }
        bytes
    }

    #[test]
    fn a_line_is_found_by_its_sum_wherever_it_stands() {
        let mut annotations = Annotations::default();
        annotations.take(&lines(&[(10, Some(b"{\"a\":1}"), r#"{"x":1}"#)]));
        assert_eq!(
            annotations.of(&record(b"{\"a\":1}", 10)),
            Some(r#"{"x":1}"#)
        );
        assert_eq!(
            annotations.of(&record(b"{\"a\":1}", 99)),
            Some(r#"{"x":1}"#)
        );
        assert_eq!(annotations.of(&record(b"{\"a\":2}", 10)), None);
    }

    #[test]
    fn equal_lines_are_told_apart_by_their_places() {
        let mut annotations = Annotations::default();
        let line: &[u8] = b"{}";
        annotations.take(&lines(&[
            (0, Some(line), r#"{"x":1}"#),
            (3, Some(line), r#"{"x":2}"#),
        ]));
        assert_eq!(annotations.of(&record(line, 3)), Some(r#"{"x":2}"#));
        assert_eq!(annotations.of(&record(line, 1)), Some(r#"{"x":1}"#));
        assert_eq!(annotations.of(&record(line, 7)), Some(r#"{"x":2}"#));
    }

    #[test]
    fn damaged_and_unfinished_lines_say_nothing() {
        let mut annotations = Annotations::default();
        let mut bytes =
            b"garbage\n{\"offset\":1}\n{\"offset\":1,\"sum\":\"zz\",\"record\":{}}\n".to_vec();
        let whole = bytes.len() as u64;
        bytes.extend(b"{\"offset\":1,\"rec");
        annotations.take(&bytes);
        assert!(annotations.is_empty());
        assert_eq!(annotations.read, whole);
    }

    #[test]
    fn records_of_their_own_stand_where_a_line_covers_their_place() {
        let mut annotations = Annotations::default();
        annotations.take(&lines(&[(5, None, r#"{"b":1}"#), (0, None, r#"{"a":1}"#)]));
        let at = |offset, len| {
            let span = Span {
                offset,
                len,
                line: 0,
            };
            annotations
                .at(span)
                .iter()
                .map(|(_, text)| text.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(at(0, 5), [r#"{"a":1}"#]);
        assert_eq!(at(5, 2), [r#"{"b":1}"#]);
        assert_eq!(at(0, 9), [r#"{"a":1}"#, r#"{"b":1}"#]);
        assert!(at(6, 9).is_empty());
    }
}
