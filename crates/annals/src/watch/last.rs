//! The last entries that are there already, of all logs together.
//!
//! Each log is read from its end, the newest log first, and only as many logs as can hold entries
//! that are newer than those found so far.

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::jsonl::{BytesReader, TailReader, open_to_read};
use crate::layout::Sink;
use crate::model::Entry;
use crate::store::{Told, tailed};

use super::FollowedLog;
use super::track::is_missing;

/// Where the last `most` entries of a log begin that count, up to `end`, leaving out what is older
/// than `since`; `None` if there are none.
pub(super) fn begin(
    log: &FollowedLog,
    end: u64,
    most: usize,
    since: Option<Timestamp>,
    counts: &dyn Fn(&Entry) -> bool,
) -> Result<Option<u64>> {
    let failed = |error| Error::io("read", &log.path, error);
    let handle = match open_to_read(&log.path) {
        Err(error) if is_missing(&error) => return Ok(None),
        other => other.map_err(failed)?,
    };
    let mut lines = TailReader::new(BytesReader::between(&handle, 0, end)).map_err(failed)?;
    let mut decoder = log.root.decoder_at(&log.path, &log.artifact);
    let mut begin = None;
    let mut counted = 0;
    while let Some(line) = lines.prev().map_err(failed)? {
        let record = tailed(&line);
        let mut sink: Sink<Entry> = Sink::default();
        decoder.decode(&record, &mut sink);
        let found = sink.found.iter().filter(|entry| counts(entry));
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

/// The newest of some entries, in the order of their times; those of one log keep theirs.
pub(super) struct Newest {
    most: usize,
    held: Vec<Held>,
}

pub(super) struct Held {
    /// When it was written, or an entry before it in the same log if that is later: so that sorting
    /// by it keeps the order of each log.
    time: Option<Timestamp>,
    pub(super) track: usize,
    pub(super) told: Told,
}

impl Newest {
    pub(super) fn new(most: usize) -> Self {
        Newest {
            most,
            held: Vec::new(),
        }
    }

    /// Takes in the entries of one log, in their order.
    pub(super) fn add(&mut self, track: usize, told: Vec<Told>) {
        let mut latest = None;
        for told in told {
            latest = told.entry.time.max(latest);
            self.held.push(Held {
                time: latest,
                track,
                told,
            });
        }
        self.held.sort_by_key(|held| held.time);
        let surplus = self.held.len().saturating_sub(self.most);
        self.held.drain(..surplus);
    }

    /// The time of the oldest, if there are enough: what is older is not wanted.
    pub(super) fn since(&self) -> Option<Timestamp> {
        let full = self.held.len() >= self.most;
        self.held.first().filter(|_| full)?.time
    }

    pub(super) fn into_held(self) -> Vec<Held> {
        self.held
    }
}
