//! Adds what a fork by reference continues: the beginning of its parent's log, as an earlier volume.
//!
//! A parent that is gone, or whose log is shorter, gives what there is of it.

use std::collections::HashMap;
use std::io::Read as _;

use crate::error::{Error, Result};
use crate::store::inventory::RootFile;
use crate::store::log_reader;
use annals_jsonl::RangeReader;
use annals_layouts::model::{HistoryBase, SessionId};

use super::{LineRange, SessionSlice};

/// Maximum number of forks of forks.
const MAX_DEPTH: usize = 64;

/// Adds the volumes that forks continue before those of the forks.
pub(super) fn add_bases(
    found: Vec<(SessionId, RootFile)>,
    bases: &HashMap<SessionId, HistoryBase>,
    troubles: &mut Vec<Error>,
) -> Vec<(SessionId, RootFile)> {
    let mut all = Vec::with_capacity(found.len() + bases.len());
    for (id, file) in &found {
        let mut earlier = Vec::new();
        let mut base = bases.get(id).filter(|_| file.artifact.agent.is_none());
        while let Some(next) = base.filter(|_| earlier.len() < MAX_DEPTH) {
            let is_parent = |(id, file): &&(SessionId, RootFile)| {
                id.as_str() == &*next.session && file.artifact.agent.is_none()
            };
            let Some((parent, log)) = found.iter().find(is_parent) else {
                break;
            };
            match beginning(id, log, next.end) {
                Ok(part) => earlier.push((id.clone(), part)),
                Err(error) => {
                    troubles.push(error);
                    break;
                }
            }
            base = bases.get(parent);
        }
        all.extend(earlier.into_iter().rev());
        all.push((id.clone(), file.clone()));
    }
    all
}

/// Returns the lines that begin within the first `end` bytes of a log.
fn beginning(fork: &SessionId, log: &RootFile, end: u64) -> Result<RootFile> {
    let mut bytes = Vec::new();
    let mut reader = RangeReader::between(log.open_bytes()?, 0, end);
    let read = reader.read_to_end(&mut bytes);
    read.map_err(|error| Error::io("read", &log.path, error))?;
    // Derived lines have the numbers of the lines of the file.
    let lines = memchr::memchr_iter(b'\n', &bytes).count() as u64;
    let mut part = log.clone();
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
    part.slice = Some(Box::new(SessionSlice {
        // Lines that the parent adds later belong to the parent alone.
        name: fork.clone(),
        ranges: ranges.collect(),
        known_end: whole.map_or(0, |slice| slice.known_end),
        lines: whole.map_or(0, |slice| slice.lines),
        owns_start: false,
        copied: true,
    }));
    Ok(part)
}
