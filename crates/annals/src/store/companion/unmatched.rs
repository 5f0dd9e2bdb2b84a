//! Entries of a companion whose lines are not in its log.

use std::time::Duration;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::store::RootFile;
use annals_jsonl::ReadAt as _;
use annals_layouts::model::Span;

use super::CompanionEntries;

/// An append writes the companion first, so entries of just now may be ahead of the log.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// The entries of a companion that are not where they were made.
#[derive(Debug, Default)]
pub(crate) struct Unmatched {
    /// How many entries the companion has.
    pub(crate) entries: usize,
    /// The lines of those that match no line of the log: no reader of the log gets to see them.
    pub(crate) unmatched: Vec<Span>,
    /// The lines of records that are read though the log's blank line for them is gone.
    pub(crate) moved: Vec<Span>,
}

impl RootFile {
    /// Finds the entries of the log's companion whose lines the log does not have.
    pub(crate) fn unmatched_entries(&self) -> Result<Unmatched> {
        let Some(companion) = self.companion.as_deref() else {
            return Ok(Unmatched::default());
        };
        let mut entries = CompanionEntries::default();
        // What an append that was cut off left behind has no end, and the next one takes it away.
        entries.add(&companion.read()?);
        let log = self.open()?;
        let failed = |error| Error::io("read", &self.path, error);
        let id = log.id().map_err(failed)?;
        let count = entries.len();
        let mut bound = entries.bind_all(&log, &id).map_err(failed)?;
        let now = Timestamp::now().as_nanosecond();
        let age = now - i128::from(companion.id.mtime_ns);
        if age > STABLE_AFTER.as_nanos() as i128 {
            bound.unmatched.append(&mut bound.past_end);
        }
        bound.unmatched.sort_by_key(|span| span.offset);
        Ok(Unmatched {
            entries: count,
            unmatched: bound.unmatched,
            moved: bound.moved,
        })
    }
}
