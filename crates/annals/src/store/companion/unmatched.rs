//! Entries of a companion whose lines are not in its log.

use std::time::Duration;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::store::RootFile;
use annals_jsonl::ReadAt as _;
use annals_layouts::model::Span;

use super::entries::CompanionEntries;

/// Age of a companion after which entries past the end of the log are reported. An append writes the
/// companion before the log.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// Entries of a companion whose lines are not at their offsets.
#[derive(Debug, Default)]
pub(crate) struct Unmatched {
    /// Number of entries in the companion.
    pub(crate) entries: usize,
    /// Spans of entries that match no line of the log, so no reader sees them.
    pub(crate) unmatched: Vec<Span>,
    /// Spans of standalone records that are read although the log has no blank line for them.
    pub(crate) moved: Vec<Span>,
}

impl RootFile {
    /// Finds the entries of the log's companion whose lines the log does not have.
    pub(crate) fn unmatched_entries(&self) -> Result<Unmatched> {
        let Some(companion) = self.companion.as_deref() else {
            return Ok(Unmatched::default());
        };
        let mut entries = CompanionEntries::default();
        // An interrupted append leaves an unterminated line, which the next append removes.
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
        crate::sort::by_key(&mut bound.unmatched, |span| span.offset);
        Ok(Unmatched {
            entries: count,
            unmatched: bound.unmatched,
            moved: bound.moved,
        })
    }
}
