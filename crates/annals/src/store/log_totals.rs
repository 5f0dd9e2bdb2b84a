//! Totals of a log, counted record by record.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use crate::error::{Error, Result};
use annals_jsonl::{self as jsonl, OpenLog, RangeReader, Scanner};
use annals_layouts::layout::{Decoded, Decoder};
use annals_layouts::model::{Framing, Outline, ResponseKey, ResponseResolver, SYNTHETIC, Usage};

use super::Root;
use super::inventory::RootFile;
use super::query::MessageCounts;
use super::record_source;
use super::shared_log::{self, SliceFilter};

/// Counts messages and tokens, each response once, without storing the records.
///
/// Lines of one response repeat its growing token counts, so the usage of each response is stored.
/// Replies without a response id need no memory.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    sum: MessageCounts,
    names: ResponseResolver,
    responses: HashMap<ResponseKey, Usage>,
}

impl Totals {
    /// Adds the next record's outline.
    pub fn add(&mut self, outline: &Outline) {
        if !outline.kind.is_message() {
            return;
        }
        self.sum.messages += 1;
        let Some(reply) = &outline.reply else { return };
        // The client's own error messages are not replies.
        let Some(mut usage) = reply
            .usage
            .filter(|_| reply.model.as_deref() != Some(SYNTHETIC))
        else {
            return;
        };
        let before = match reply.response {
            Some(key) => {
                let key = self.names.resolve(key);
                let before = self.responses.get(&key).copied();
                usage.keep_larger(&before.unwrap_or_default());
                self.responses.insert(key, usage);
                before
            }
            None => None,
        };
        self.sum.responses += u64::from(before.is_none());
        self.sum.usage.subtract(&before.unwrap_or_default());
        // On overflow, `add` leaves the sum unchanged.
        let _ = self.sum.usage.add(&usage);
    }

    /// Returns the totals.
    pub fn sum(&self) -> MessageCounts {
        self.sum
    }
}

/// Totals of a growing log, with its read positions.
#[derive(Default)]
pub(super) struct LogTotals {
    totals: Totals,
    volumes: Vec<CountedVolume>,
}

/// A volume of the log.
struct CountedVolume {
    path: PathBuf,
    framing: Framing,
    /// Byte offset up to which it was counted.
    end: u64,
    /// The bytes before `end`, to detect that the file was replaced.
    guard: Vec<u8>,
    /// Keeps state between reads, because a record may depend on the previous one.
    decoder: Box<dyn Decoder>,
    /// Assigns records to sessions, if several sessions share the file.
    filter: Option<SliceFilter>,
}

impl std::fmt::Debug for LogTotals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tally")
            .field("sum", &self.totals.sum)
            .finish_non_exhaustive()
    }
}

impl LogTotals {
    /// Counts the appended records; the whole log at first, after a file was replaced, and always if
    /// the records are derived from the whole file.
    pub(super) fn count(&mut self, root: &Root, file: &RootFile) -> Result<MessageCounts> {
        if !self.is_unchanged_so_far(file) {
            *self = LogTotals::default();
        }
        let fresh = file.volumes().skip(self.volumes.len());
        self.volumes.extend(fresh.map(|file| CountedVolume {
            path: file.path.clone(),
            framing: file.artifact.framing,
            end: 0,
            guard: Vec::new(),
            decoder: root.decoder(file),
            filter: file.slice.as_deref().map(SliceFilter::new),
        }));
        let mut pending = Vec::new();
        for volume in &mut self.volumes {
            pending.extend(volume.read_new(&mut self.totals)?);
        }
        // A record without a line ending may be incomplete: it counts now, and is read again next
        // time.
        if pending.is_empty() {
            return Ok(self.totals.sum);
        }
        let mut with = self.totals.clone();
        pending.iter().for_each(|outline| with.add(outline));
        Ok(with.sum)
    }

    /// Returns whether the counted parts of the volumes are unchanged. There may be new volumes.
    fn is_unchanged_so_far(&self, file: &RootFile) -> bool {
        let mut files = file.volumes();
        self.volumes.iter().all(|volume| {
            let same = files.next().is_some_and(|file| file.path == volume.path);
            same && (volume.end == 0 || volume.is_unchanged())
        })
    }
}

impl CountedVolume {
    fn open(&self) -> io::Result<OpenLog> {
        record_source::open(&self.path, self.framing)
    }

    fn is_unchanged(&self) -> bool {
        // A new line may change what is derived from earlier ones.
        if self.framing != Framing::Lines {
            return false;
        }
        let from = self.end.saturating_sub(self.guard.len() as u64);
        let read = |log: OpenLog| jsonl::read_span(&log, from, self.guard.len() as u64);
        self.open()
            .and_then(read)
            .is_ok_and(|before| before == self.guard)
    }

    /// Counts the new records. Returns the outlines of a last record without a line ending.
    fn read_new(&mut self, totals: &mut Totals) -> Result<Vec<Outline>> {
        const GUARDED: u64 = 256;
        let path = self.path.clone();
        let failed = |error| Error::io("read", &path, error);
        let log = match self.open() {
            Ok(log) => log,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let reader = RangeReader::from_offset(&log, self.end);
        let mut scanner = Scanner::from_offset(reader, self.end, 1);
        let mut pending = Vec::new();
        let mut sink = Decoded::default();
        while let Some(line) = scanner.next().map_err(failed)? {
            let record = super::unnumbered_record(&line);
            let decoder = self.decoder.as_mut();
            let mine = self.filter.as_mut().is_none_or(|sieve| {
                sieve.accepts(record.span.offset, || {
                    shared_log::record_session(decoder, &record)
                })
            });
            if mine {
                self.decoder.outline(&record, &mut sink);
                sink.flaws.clear();
            }
            if record.terminated {
                sink.items
                    .drain(..)
                    .for_each(|outline| totals.add(&outline));
                self.end = record.span.end();
            } else {
                pending.append(&mut sink.items);
            }
        }
        let guarded = self.end.min(GUARDED);
        self.guard = jsonl::read_span(&log, self.end - guarded, guarded).map_err(failed)?;
        Ok(pending)
    }
}
