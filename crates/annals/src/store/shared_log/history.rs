//! Adds what a fork by reference continues: the beginning of its parent's log, as an earlier volume.
//!
//! A parent that is gone, or whose log is shorter, gives what there is of it; a fork that continues
//! itself continues nothing twice. `annals check` reports both.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::store::inventory::RootFile;
use crate::store::log_reader;
use annals_jsonl::RangeReader;
use annals_layouts::model::{HistoryBase, SessionId};

use super::{LineRange, SessionSlice};

/// Maximum number of forks of forks. `annals check` reports more.
pub(crate) const MAX_DEPTH: usize = 64;

/// Adds the volumes that forks continue before those of the forks.
pub(super) fn add_bases(
    found: Vec<(SessionId, RootFile)>,
    bases: &HashMap<SessionId, HistoryBase>,
    troubles: &mut Vec<Error>,
) -> Vec<(SessionId, RootFile)> {
    let mut all = Vec::with_capacity(found.len() + bases.len());
    let mut logs: HashMap<&str, (&SessionId, &RootFile)> = HashMap::new();
    for (id, file) in found.iter().filter(|(_, it)| it.artifact.agent.is_none()) {
        logs.entry(id.as_str()).or_insert((id, file));
    }
    // Many forks continue one beginning.
    let mut known: HashMap<(&str, u64), Arc<[LineRange]>> = HashMap::new();
    for (id, file) in &found {
        let mut earlier = Vec::new();
        let mut base = bases.get(id).filter(|_| file.artifact.agent.is_none());
        let mut seen = HashSet::from([id.as_str()]);
        while let Some(next) = base.filter(|_| earlier.len() < MAX_DEPTH) {
            let Some((parent, log)) = logs.get(&*next.session) else {
                break;
            };
            if !seen.insert(parent.as_str()) {
                break;
            }
            let ranges = match known.entry((parent.as_str(), next.end)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(slot) => match beginning(log, next.end) {
                    Ok(ranges) => slot.insert(ranges.into()),
                    Err(error) => {
                        troubles.push(error);
                        break;
                    }
                },
            };
            earlier.push((id.clone(), part(id, log, ranges.clone())));
            base = bases.get(*parent);
        }
        all.extend(earlier.into_iter().rev());
        all.push((id.clone(), file.clone()));
    }
    all
}

/// Returns the lines that begin within the first `end` bytes of a log.
fn beginning(log: &RootFile, end: u64) -> Result<Vec<LineRange>> {
    let mut bytes = Vec::new();
    let mut reader = RangeReader::between(log.open_bytes()?, 0, end);
    let read = reader.read_to_end(&mut bytes);
    read.map_err(|error| Error::io("read", &log.path, error))?;
    // Derived lines have the numbers of the lines of the file.
    let lines = memchr::memchr_iter(b'\n', &bytes).count() as u64;
    let mut known = 0;
    let mut cut = 0;
    log_reader::each_line_from(log, 0, |record| {
        known = record.span.line;
        cut = record.span.end();
        Ok(known < lines)
    })?;
    let cut = if lines == 0 { 0 } else { cut };
    let whole = log.slice.as_deref();
    let ranges = whole.into_iter().flat_map(|slice| slice.ranges.iter());
    let ranges = ranges.filter(|range| range.bytes.start < cut);
    let ranges = ranges.map(|range| LineRange {
        bytes: range.bytes.start..range.bytes.end.min(cut),
        line: range.line,
    });
    Ok(ranges.collect())
}

/// Returns the lines of a log as an earlier volume of a fork.
fn part(fork: &SessionId, log: &RootFile, ranges: Arc<[LineRange]>) -> RootFile {
    let whole = log.slice.as_deref();
    let mut part = log.clone();
    part.slice = Some(Box::new(SessionSlice {
        // Lines that the parent adds later belong to the parent alone.
        name: fork.clone(),
        ranges,
        known_end: whole.map_or(0, |slice| slice.known_end),
        lines: whole.map_or(0, |slice| slice.lines),
        owns_start: false,
        copied: true,
    }));
    part
}
