//! The last existing entries of all logs together.
//!
//! Each log is read from its end, the newest log first, and only as many logs as can contain
//! entries newer than those found so far.

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::store::{LocatedEntry, record_from_tail_line};
use annals_jsonl::{RangeReader, ReadAt as _, TailReader};
use annals_layouts::layout::Decoded;
use annals_layouts::model::Entry;

use super::FollowedLog;
use super::log_cursor::is_missing;

/// Returns the byte offset of the last `most` entries of a log that count, up to `end` and without
/// entries older than `since`; `None` if there are none.
pub(super) fn find_start(
    log: &FollowedLog,
    end: u64,
    most: usize,
    since: Option<Timestamp>,
    counts: &dyn Fn(&Entry) -> bool,
) -> Result<Option<u64>> {
    let failed = |error| Error::io("read", &log.path, error);
    let handle = match log.open() {
        Err(error) if is_missing(&error) => return Ok(None),
        other => other.map_err(failed)?,
    };
    let end = end.min(handle.size().map_err(failed)?);
    let mut lines = TailReader::new(RangeReader::between(&handle, 0, end)).map_err(failed)?;
    let mut decoder = log.root.decoder_at(&log.path, &log.artifact);
    let mut begin = None;
    let mut counted = 0;
    while let Some(line) = lines.prev().map_err(failed)? {
        let record = record_from_tail_line(&line);
        let mut sink: Decoded<Entry> = Decoded::default();
        decoder.decode(&record, &mut sink);
        let found = sink.items.iter().filter(|entry| counts(entry));
        let mut found = found.peekable();
        if found.peek().is_none() {
            continue;
        }
        let old = |entry: &&Entry| {
            let times = entry.time.zip(since);
            times.is_some_and(|(time, since)| time < since)
        };
        let (count, old) = (
            found.clone().count(),
            found.clone().all(|entry| old(&entry)),
        );
        if old {
            break;
        }
        begin = Some(record.span.offset);
        counted += count;
        if counted >= most {
            break;
        }
    }
    Ok(begin)
}

/// The newest entries, in order of time; entries of one log keep their order.
pub(super) struct NewestEntries {
    most: usize,
    held: Vec<HeldEntry>,
}

pub(super) struct HeldEntry {
    /// Time of the entry, or of an earlier entry in the same log if that is later, so that sorting
    /// by it keeps the order of each log.
    time: Option<Timestamp>,
    pub(super) track: usize,
    pub(super) located: LocatedEntry,
}

impl NewestEntries {
    pub(super) fn new(most: usize) -> Self {
        NewestEntries {
            most,
            held: Vec::new(),
        }
    }

    /// Adds the entries of one log, in order.
    pub(super) fn add(&mut self, track: usize, located: Vec<LocatedEntry>) {
        let mut latest = None;
        for located in located {
            latest = located.entry.time.max(latest);
            self.held.push(HeldEntry {
                time: latest,
                track,
                located,
            });
        }
        crate::sort::by_key(&mut self.held, |held| held.time);
        let surplus = self.held.len().saturating_sub(self.most);
        self.held.drain(..surplus);
    }

    /// Returns the time of the oldest entry, if there are enough: older ones are not needed.
    pub(super) fn since(&self) -> Option<Timestamp> {
        let full = self.held.len() >= self.most;
        self.held.first().filter(|_| full)?.time
    }

    pub(super) fn into_held(self) -> Vec<HeldEntry> {
        self.held
    }
}
