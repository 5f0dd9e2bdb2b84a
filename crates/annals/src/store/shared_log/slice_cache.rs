//! Cache of the slices of shared logs. A log that has only grown is read from its previous end.
//!
//! A log that its program replaced with a copy is read once from the start.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::Root;
use crate::store::inventory::RootFile;
use annals_jsonl::{Cursor, FileId, FileIdParts};
use annals_layouts::model::SessionId;

use super::{LineRange, SessionSlices, VolumeEnd};

/// Granularity of file system clocks, in nanoseconds. A file that changed within it may change
/// again without a new timestamp.
const TICK: i64 = 100_000_000;

/// Returns the stored slices of a root.
type StoredSlices<'a> = dyn FnMut(&Root) -> Vec<u8> + 'a;

/// Caches the slices of logs, one root at a time.
pub(crate) struct SliceCache<'a> {
    stored: Box<StoredSlices<'a>>,
    /// Cached slices of the current root's logs, by device and inode.
    known: Option<HashMap<(u64, u64), CachedSlices>>,
    /// Slices of the current root to store.
    noted: Vec<CachedSlices>,
    /// Whether `noted` has slices that were not cached.
    fresh: bool,
    /// Encoded slices to store, per root.
    pub(crate) updates: Vec<(Root, Vec<u8>)>,
}

/// Start and end offset of a range, and the number of its first line.
type RangeParts = (u64, u64, u64);

/// Slices of a log when it was read.
#[derive(Clone, Serialize, Deserialize)]
struct CachedSlices {
    log: FileIdParts,
    companion: Option<FileIdParts>,
    /// Hash of the bytes before the end.
    guard: [u8; 16],
    /// Last session and time of the previous volume, which may own the first records.
    before: Option<(String, Option<Timestamp>)>,
    /// Sessions with their line ranges.
    sessions: Vec<(String, Vec<RangeParts>)>,
    current: u64,
    time: Option<Timestamp>,
    len: u64,
    lines: u64,
}

impl<'a> SliceCache<'a> {
    /// Creates a cache without stored slices.
    pub(crate) fn disabled() -> Self {
        SliceCache::new(|_| Vec::new())
    }

    /// Creates a cache that gets the stored slices of a root from `recall`.
    pub(crate) fn new(recall: impl FnMut(&Root) -> Vec<u8> + 'a) -> Self {
        SliceCache {
            stored: Box::new(recall),
            known: None,
            noted: Vec::new(),
            fresh: false,
            updates: Vec::new(),
        }
    }

    /// Returns the slices of a log. Reads only what was appended since they were cached.
    pub(super) fn read(
        &mut self,
        root: &Root,
        file: &RootFile,
        before: Option<&VolumeEnd>,
    ) -> crate::Result<SessionSlices> {
        if file.is_archived() {
            return SessionSlices::read(root, file, before, None);
        }
        let known = self.known.get_or_insert_with(|| {
            let logs = postcard::from_bytes::<Vec<CachedSlices>>(&(self.stored)(root));
            let logs = logs.unwrap_or_default().into_iter();
            logs.map(|log| ((log.log.0, log.log.1), log)).collect()
        });
        let before_parts = before.map(|it| (it.session.as_str().to_owned(), it.time));
        let known = known.remove(&(file.id.dev, file.id.ino));
        let known = known.filter(|known| known.before == before_parts && known.matches(file));
        let whole = known.as_ref().is_some_and(|known| known.len == file.id.len);
        let base = known.as_ref().and_then(CachedSlices::slices);
        let shares = SessionSlices::read(root, file, before, base)?;
        match CachedSlices::new(file, &shares, before_parts) {
            Some(now) if !whole => {
                self.noted.push(now);
                self.fresh = true;
            }
            _ => self.noted.extend(known),
        }
        Ok(shares)
    }

    /// Finishes a root after all of its logs were read.
    pub(super) fn finish_root(&mut self, root: &Root) {
        self.known = None;
        let noted = std::mem::take(&mut self.noted);
        if std::mem::take(&mut self.fresh)
            && let Ok(bytes) = postcard::to_stdvec(&noted)
        {
            self.updates.push((root.clone(), bytes));
        }
    }
}

impl CachedSlices {
    /// Builds the cache entry of a log; `None` if the log could change without a visible
    /// difference.
    fn new(
        file: &RootFile,
        shares: &SessionSlices,
        before: Option<(String, Option<Timestamp>)>,
    ) -> Option<Self> {
        let ids = [Some(file.id), file.companion_id()];
        let now = Timestamp::now().as_nanosecond() as i64;
        let settled = |id: &FileId| id.ctime_ns < now - TICK;
        if !shares.terminated || !ids.iter().flatten().all(settled) {
            return None;
        }
        let cursor = Cursor::with_id(&file.id, &file.open().ok()?, shares.len).ok()?;
        let parts = |part: &LineRange| (part.bytes.start, part.bytes.end, part.line);
        let sessions = shares.sessions.iter().map(|(session, stretches)| {
            let stretches = stretches.iter().map(parts).collect();
            (session.as_str().to_owned(), stretches)
        });
        Some(CachedSlices {
            log: file.id.parts(),
            companion: file.companion_id().map(|id| id.parts()),
            guard: cursor.guard,
            before,
            sessions: sessions.collect(),
            current: shares.current as u64,
            time: shares.time,
            len: shares.len,
            lines: shares.lines,
        })
    }

    /// Returns whether the log is unchanged, or has only grown.
    fn matches(&self, file: &RootFile) -> bool {
        let log = FileId::from_parts(self.log);
        let companion = self.companion.map(FileId::from_parts);
        if !file.is_companion_unchanged(companion.as_ref(), &log) {
            return false;
        }
        let grew = log.same_file(&file.id) && file.id.len > log.len && file.id.len >= self.len;
        let cursor = Cursor {
            dev: log.dev,
            ino: log.ino,
            offset: self.len,
            guard: self.guard,
        };
        let goes_on = || {
            let handle = file.open().ok();
            handle.is_some_and(|handle| cursor.is_valid(&handle).unwrap_or(false))
        };
        log.untouched(&file.id) || (grew && goes_on())
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
        Some(SessionSlices {
            sessions,
            places,
            current: usize::try_from(self.current).ok()?,
            time: self.time,
            len: self.len,
            lines: self.lines,
            terminated: true,
        })
    }
}
