//! Cache of the slices of shared logs. A log that has only grown is read from its previous end.
//!
//! A log that its program replaced with a copy is read once from the start.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::Root;
use crate::store::content_cache::ContentCache;
use crate::store::inventory::RootFile;
use crate::store::is_stable;
use annals_jsonl::{FileId, FileIdParts};
use annals_layouts::model::{HistoryBase, SessionId};

use super::{LineRange, SessionSlices, VolumeEnd};

/// Start and end offset of a range, and the number of its first line.
type RangeParts = (u64, u64, u64);

/// Slices of a log when it was read.
#[derive(Serialize, Deserialize)]
struct CachedSlices {
    companion: Option<FileIdParts>,
    /// Last session and time of the previous volume, which may own the first records.
    before: Option<(String, Option<Timestamp>)>,
    /// Sessions with their line ranges.
    sessions: Vec<(String, Vec<RangeParts>)>,
    current: u64,
    time: Option<Timestamp>,
    len: u64,
    lines: u64,
    /// Sessions with the session and the number of bytes that they continue.
    bases: Vec<(String, String, u64)>,
}

/// Returns the slices of a log. Reads only what was appended since they were cached.
pub(super) fn read(
    root: &Root,
    file: &RootFile,
    before: Option<&VolumeEnd>,
    cache: &mut dyn ContentCache,
) -> crate::Result<SessionSlices> {
    if file.is_archived() {
        return SessionSlices::read(root, file, before, None);
    }
    let before_parts = before.map(|it| (it.session.as_str().to_owned(), it.time));
    let known = cache.get(root, file);
    let known = known.and_then(|known| postcard::from_bytes(&known.facts).ok());
    let known = known.filter(|known: &CachedSlices| {
        // Only the length of the log matters here.
        let log = FileId {
            len: known.len,
            ..FileId::default()
        };
        let companion = known.companion.map(FileId::from_parts);
        known.before == before_parts && file.is_companion_unchanged(companion.as_ref(), &log)
    });
    let is_whole = known.as_ref().is_some_and(|known| known.len == file.id.len);
    let base = known.as_ref().and_then(CachedSlices::slices);
    let now = Timestamp::now().as_nanosecond() as i64;
    let slices = SessionSlices::read(root, file, before, base)?;
    let companion = file.companion_id();
    let is_stable = companion.is_none_or(|companion| is_stable(companion.ctime_ns, now));
    if !is_whole && slices.terminated && is_stable {
        let cached = CachedSlices::new(file, &slices, before_parts);
        cache.put(root, file, postcard::to_stdvec(&cached).unwrap_or_default());
    }
    Ok(slices)
}

impl CachedSlices {
    fn new(
        file: &RootFile,
        slices: &SessionSlices,
        before: Option<(String, Option<Timestamp>)>,
    ) -> Self {
        let parts = |part: &LineRange| (part.bytes.start, part.bytes.end, part.line);
        let sessions = slices.sessions.iter().map(|(session, ranges)| {
            let ranges = ranges.iter().map(parts).collect();
            (session.as_str().to_owned(), ranges)
        });
        CachedSlices {
            companion: file.companion_id().map(|id| id.parts()),
            before,
            sessions: sessions.collect(),
            current: slices.current as u64,
            time: slices.time,
            len: slices.len,
            lines: slices.lines,
            bases: slices
                .bases
                .iter()
                .map(|(id, base)| (id.to_string(), base.session.to_string(), base.end))
                .collect(),
        }
    }

    fn slices(&self) -> Option<SessionSlices> {
        let mut sessions = Vec::new();
        let mut places = HashMap::new();
        for (name, stretches) in &self.sessions {
            let name = SessionId::new(name).ok()?;
            let stretches = stretches.iter().map(|(start, end, line)| LineRange {
                bytes: *start..*end,
                line: *line,
            });
            places.insert(name.clone(), sessions.len());
            sessions.push((name, stretches.collect()));
        }
        let base = |(id, session, end): &(String, String, u64)| {
            let base = HistoryBase {
                session: session.as_str().into(),
                end: *end,
            };
            Some((SessionId::new(id).ok()?, base))
        };
        Some(SessionSlices {
            sessions,
            places,
            bases: self.bases.iter().filter_map(base).collect(),
            current: usize::try_from(self.current).ok()?,
            time: self.time,
            len: self.len,
            lines: self.lines,
            terminated: true,
        })
    }
}
