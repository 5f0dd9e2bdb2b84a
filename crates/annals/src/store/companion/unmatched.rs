//! Entries of a companion that are for no line of its log.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::jsonl::{BytesReader, Ending, Scanner};
use crate::layout::BLANK;
use crate::model::Span;
use crate::store::FoundFile;

use super::{Entries, Line, Sum, parse_sum, sum_of};

/// An append writes the companion first, so entries of just now may be ahead of the log.
const SETTLED: Duration = Duration::from_secs(60);

/// What a companion has to say that no reader of the log gets to see.
#[derive(Debug, Default)]
pub(crate) struct Unmatched {
    /// How many entries the companion has; of several for one place the last counts.
    pub(crate) entries: usize,
    /// The lines of those that match no line of the log.
    pub(crate) unmatched: Vec<Span>,
}

/// What an entry says of the line that it is for.
enum For {
    Line(Option<Sum>),
    Blank(Option<Sum>),
}

impl FoundFile {
    /// Finds the entries of the log's companion that match no line of the log.
    pub(crate) fn unmatched_entries(&self) -> Result<Unmatched> {
        let mut found = Unmatched::default();
        let Some(companion) = self.companion.as_deref() else {
            return Ok(found);
        };
        let bytes = companion.read()?;
        let mut lines = Scanner::new(bytes.as_slice());
        let mut places: BTreeMap<u64, (For, Span)> = BTreeMap::new();
        let failed = |error| Error::io("read", &companion.path, error);
        while let Some(line) = lines.next().map_err(failed)? {
            // The next append takes away what one that was cut off left behind.
            if line.ending == Ending::None || line.bytes.is_empty() {
                continue;
            }
            let span = Span {
                offset: line.offset,
                len: line.len,
                line: line.number,
            };
            match serde_json::from_slice::<Line<'_>>(line.bytes) {
                // Damage is found where the companion is read line by line.
                Err(_) => {}
                Ok(entry) if entry.begin => found.entries += 1,
                Ok(entry) => {
                    let place = match entry.sum {
                        Some(sum) => For::Line(parse_sum(sum)),
                        None => For::Blank(entry.after.and_then(parse_sum)),
                    };
                    places.insert(entry.offset, (place, span));
                }
            }
        }
        found.entries += places.len();
        let mut entries = Entries::default();
        entries.add(&bytes);
        let log = self.open()?;
        let failed = |error| Error::io("read", &self.path, error);
        let in_place = entries.is_in_place(&log).map_err(failed)?;
        // The lines of the log at the entries' places, and how many lines have a sum.
        let mut at: HashMap<u64, Option<Sum>> = HashMap::new();
        let mut sums: HashMap<Sum, usize> = HashMap::new();
        let mut end = 0;
        let mut lines = Scanner::new(BytesReader::from(&log, 0));
        while let Some(line) = lines.next().map_err(failed)? {
            end = line.offset + line.len;
            let blank = line.bytes == BLANK;
            if in_place && places.contains_key(&line.offset) {
                at.insert(line.offset, (!blank).then(|| sum_of(line.bytes)));
            } else if !in_place && !blank {
                *sums.entry(sum_of(line.bytes)).or_default() += 1;
            }
        }
        let now = Timestamp::now().as_nanosecond();
        let age = now - i128::from(companion.id.mtime_ns);
        let settled = age > SETTLED.as_nanos() as i128;
        for (offset, (place, span)) in places {
            let ahead = offset >= end && !settled;
            let matched = match place {
                For::Line(sum) if in_place => at.get(&offset).is_some_and(|line| *line == sum),
                For::Blank(_) if in_place => at.get(&offset) == Some(&None),
                For::Line(sum) => {
                    let left = sum.and_then(|sum| sums.get_mut(&sum));
                    let left = left.filter(|left| **left > 0);
                    left.map(|left| *left -= 1).is_some()
                }
                For::Blank(None) => true,
                For::Blank(Some(after)) => sums.contains_key(&after),
            };
            if !matched && !ahead {
                found.unmatched.push(span);
            }
        }
        found.unmatched.sort_by_key(|span| span.offset);
        Ok(found)
    }
}
