//! Read position in a followed log, and the check that it is still the log that was read.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::Hasher as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use memchr::{memchr, memrchr};

use crate::error::{Error, Result};
use crate::store::record_source;
use crate::store::{IncrementalReader, LocatedEntry, each_line_of_open_file};
use annals_jsonl::{Cursor, FileId, OpenLog, ReadAt as _};
use annals_layouts::layout::Record;
use annals_layouts::model::{Body, Entry, EntryId, EntryKey};

use super::{FollowedLog, ResetReason};

/// Maximum read from a log before others get their turn.
const TURN_BYTES: u64 = 1 << 20;
const TURN_ENTRIES: usize = 256;

/// Age below which a change of a document or database may be incomplete, in nanoseconds.
pub(super) const UNSETTLED_NS: u64 = 250_000_000;

/// Time between two reads of such a file.
const PAUSE: Duration = Duration::from_millis(25);

/// Length of the start of a log by which it is recognized.
const HEAD_BYTES: u64 = 4 << 10;

/// A log and its read position.
pub(super) struct LogCursor {
    pub(super) log: Arc<FollowedLog>,
    /// Identity of the file when it was last checked.
    pub(super) id: FileId,
    /// It is queued for reading.
    pub(super) queued: bool,
    /// The file does not exist at present.
    pub(super) gone: bool,
    /// It was reported to the caller.
    pub(super) announced: bool,
    /// It was created after following began, so it may contain copies.
    pub(super) came_later: bool,
    /// Its last entry was not new.
    pub(super) earlier: bool,
    /// The last scan that found it.
    pub(super) seen: u64,
    /// Everything before this byte offset was reported to the caller.
    pub(super) reported: u64,
    /// Everything before this byte offset was read. Always the start of a line once `aligned`.
    offset: u64,
    aligned: bool,
    /// No line ends between `offset` and this byte offset: a line written in pieces is searched
    /// once.
    searched: u64,
    /// There is more to read, even if the file has not changed.
    more: bool,
    /// Fingerprint of the bytes before `offset`.
    cursor: Option<Cursor>,
    /// The first bytes of the log.
    head: Vec<u8>,
    reader: Option<IncrementalReader>,
    seen_entries: SeenEntries,
    reread: Option<Reread>,
    /// Reading began at the start of the log.
    began_at_start: bool,
    /// All records of a derived log were read at least once.
    knows_all: bool,
    /// Time of the last change before following began; `None` if the log appeared later.
    baseline: Option<Timestamp>,
    /// The time of the newest entry that was emitted.
    newest: Option<Timestamp>,
}

/// State of a log that is read again.
struct Reread {
    /// Byte offset at which reading again ends.
    until: u64,
    /// Set if it is the same log with changes: entries that are not newer are not new.
    known: Option<Timestamp>,
    /// Length of the log that may be written again; set while none of it exists.
    awaited: Option<u64>,
}

/// Result of a turn.
#[derive(Default)]
pub(super) struct ReadBatch {
    /// The log is read from its start again.
    pub(super) reset: Option<ResetReason>,
    pub(super) located: Vec<LocatedEntry>,
    /// There is more to read.
    pub(super) more: bool,
    /// The file does not exist.
    pub(super) missing: bool,
}

impl LogCursor {
    /// Returns a cursor at the start of a log.
    pub(super) fn from_start(log: Arc<FollowedLog>) -> Self {
        LogCursor {
            log,
            id: FileId::default(),
            queued: false,
            gone: false,
            announced: false,
            came_later: true,
            earlier: false,
            seen: 0,
            reported: 0,
            offset: 0,
            aligned: true,
            searched: 0,
            more: false,
            cursor: None,
            head: Vec::new(),
            reader: None,
            seen_entries: SeenEntries::default(),
            reread: None,
            began_at_start: false,
            knows_all: false,
            baseline: None,
            newest: None,
        }
    }

    /// Returns a cursor at the end of a log, for new entries only.
    pub(super) fn from_end(log: Arc<FollowedLog>, id: FileId) -> Self {
        // Nothing in an empty file is known. A document may be empty while it is written again; a
        // file that is appended to is not.
        let framing = log.artifact.framing;
        let is_empty = record_source::own_len(&log.path, framing, &id) == 0;
        let is_known = !is_empty || !framing.keeps_lines();
        let modified = Timestamp::from_nanosecond(id.mtime_ns.into()).ok();
        LogCursor {
            id,
            offset: id.len,
            aligned: id.len == 0,
            searched: id.len,
            baseline: modified.filter(|_| is_known),
            came_later: false,
            ..LogCursor::from_start(log)
        }
    }

    /// Returns a cursor for a renamed log, if it contains what was read under the old name.
    pub(super) fn from_moved(log: Arc<FollowedLog>, from: &mut LogCursor) -> Option<Self> {
        let handle = log.open().ok()?;
        let mark = from.cursor.filter(|mark| mark.offset > 0)?;
        if !mark.continues_in(&handle).ok()? {
            return None;
        }
        Some(LogCursor {
            id: from.id,
            reported: from.reported,
            offset: from.offset,
            searched: from.offset,
            cursor: from.cursor,
            head: from.head.clone(),
            seen_entries: std::mem::take(&mut from.seen_entries),
            newest: from.newest,
            came_later: from.came_later,
            earlier: from.earlier,
            ..LogCursor::from_start(log)
        })
    }

    /// Returns the read position.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Records the end of a log that was not read, so that a copy of it is recognized.
    pub(super) fn save_end_mark(&mut self) -> Result<()> {
        let path = self.log.path.clone();
        let failed = |error| Error::io("read", &path, error);
        let handle = match self.log.open() {
            Err(error) if is_missing(&error) => return Ok(()),
            other => other.map_err(failed)?,
        };
        if handle.revision().is_some() {
            self.offset = handle.size().map_err(failed)?;
            self.aligned = true;
        }
        // Bytes appended since it was found are read in its turn.
        if handle.size().map_err(failed)? >= self.offset {
            self.align(&handle).map_err(failed)?;
            self.set_marks(&handle).map_err(failed)?;
        }
        Ok(())
    }

    /// Moves back to the start of an earlier line.
    pub(super) fn go_back_to(&mut self, offset: u64) {
        self.offset = offset;
        self.searched = offset;
        self.aligned = true;
        self.began_at_start = offset == 0;
        self.cursor = None;
        self.more = true;
    }

    /// Reads the next batch.
    pub(super) fn read_batch(&mut self) -> Result<ReadBatch> {
        let path = self.log.path.clone();
        let failed = |error| Error::io("read", &path, error);
        let mut turn = ReadBatch::default();
        let opened = Timestamp::now();
        let handle = match self.log.open() {
            Err(error) if is_missing(&error) => {
                turn.missing = true;
                return Ok(turn);
            }
            other => other.map_err(failed)?,
        };
        let id = handle.id().map_err(failed)?;
        if id.untouched(&self.id) && !self.more {
            return Ok(turn);
        }
        let derived = handle.revision().is_some();
        let changed = match derived {
            true => self.is_outdated(&handle).map_err(failed)?,
            false => self.reset_reason(&handle, &id).map_err(failed)?,
        };
        if let Some(why) = changed {
            self.restart(&id, derived);
            // Derived records are read again after every change.
            turn.reset = Some(why).filter(|_| !self.gone && !derived);
        }
        self.recognise(&handle, &id).map_err(failed)?;
        if derived || id.len < self.searched || !id.same_file(&self.id) {
            self.searched = self.offset;
        }
        self.gone = false;
        self.id = id;
        self.began_at_start |= self.offset == 0;
        if self.has_line(&handle).map_err(failed)? {
            self.read_lines(&handle, &mut turn)?;
            self.set_marks(&handle).map_err(failed)?;
        }
        self.more = turn.more;
        let recent = derived && is_recent(&id, opened);
        self.knows_all |= derived && self.began_at_start && !turn.more && !recent;
        if recent {
            // A document may be half written. SQLite makes a transaction visible after it has
            // written the file, so nothing would report one that was not read yet.
            self.cursor = None;
            self.aligned = false;
            self.more = true;
            turn.more = true;
            std::thread::sleep(PAUSE);
        }
        Ok(turn)
    }

    /// Returns whether derived records are not those that were read. Until they are read, they count
    /// as others.
    fn is_outdated(&self, handle: &OpenLog) -> io::Result<Option<ResetReason>> {
        let is_same = match &self.cursor {
            Some(mark) => mark.continues_in(handle)?,
            None => self.aligned,
        };
        Ok((!is_same).then_some(ResetReason::Rewritten))
    }

    /// Returns why the file is not the one that was read, if so.
    fn reset_reason(&mut self, handle: &OpenLog, id: &FileId) -> io::Result<Option<ResetReason>> {
        let same = id.same_file(&self.id) && !self.gone;
        if id.len < self.offset {
            return Ok(Some(if same {
                ResetReason::Truncated
            } else {
                ResetReason::Replaced
            }));
        }
        if !self.aligned {
            // Of a file that was never read, only the length is known.
            let other = !same && last_byte(handle, self.offset)? != Some(b'\n');
            self.align(handle)?;
            return Ok(other.then_some(ResetReason::Replaced));
        }
        Ok(match &self.cursor {
            None => None,
            Some(mark) if mark.continues_in(handle)? => None,
            Some(_) if same => Some(ResetReason::Rewritten),
            Some(_) => Some(ResetReason::Replaced),
        })
    }

    /// Moves to the start of the log. Entries that were emitted are not emitted again.
    fn restart(&mut self, id: &FileId, derived: bool) {
        // Of a truncated log, only the rest is read again; a rewritten log may reappear whole, in
        // pieces.
        let cut = id.same_file(&self.id) && !self.gone && id.len > 0;
        let modified = Timestamp::from_nanosecond(self.id.mtime_ns.into()).ok();
        self.reread = Some(Reread {
            until: 0,
            known: self.newest.or(modified),
            awaited: Some(if cut { id.len } else { self.offset }),
        });
        if derived {
            self.reread = Some(Reread {
                until: u64::MAX,
                known: self.baseline.filter(|_| !self.knows_all),
                awaited: None,
            });
        }
        self.offset = 0;
        self.searched = 0;
        self.aligned = true;
        self.reader = None;
        self.cursor = None;
    }

    /// Checks whether a log that begins again is the same log. A program that rewrites a log
    /// truncates it first, so this may show only later.
    fn recognise(&mut self, handle: &OpenLog, id: &FileId) -> io::Result<()> {
        let Some(again) = self.reread.as_mut().filter(|_| id.len > 0) else {
            return Ok(());
        };
        let Some(whole) = again.awaited.take() else {
            return Ok(());
        };
        // Compare the first line: the lines after it may have been rewritten.
        let first = memchr(b'\n', &self.head).map_or(self.head.len(), |at| at + 1);
        let mut begins = vec![0; first];
        let there = handle.read_at(&mut begins, 0)?;
        let same = there > 0 && begins.get(..there) == self.head.get(..there);
        match same {
            true => again.until = whole,
            false => {
                again.until = id.len;
                again.known = None;
                self.head.clear();
            }
        }
        Ok(())
    }

    /// Moves back to the start of the line that was incomplete when the log was found.
    fn align(&mut self, handle: &OpenLog) -> io::Result<()> {
        if !self.aligned {
            self.offset = line_start(handle, self.offset)?;
            self.aligned = true;
        }
        Ok(())
    }

    fn set_marks(&mut self, handle: &OpenLog) -> io::Result<()> {
        self.cursor = Some(Cursor::with_id(&self.id, handle, self.offset)?);
        let reach = self.offset.min(HEAD_BYTES) as usize;
        if self.head.len() < reach {
            self.head.resize(reach, 0);
            handle.read_exact_at(&mut self.head, 0)?;
        }
        Ok(())
    }

    /// Returns whether there is a complete line after `offset`. Bytes are searched once.
    fn has_line(&mut self, handle: &OpenLog) -> io::Result<bool> {
        let mut block = [0; 64 << 10];
        self.searched = self.searched.max(self.offset);
        loop {
            let read = handle.read_at(&mut block, self.searched)?;
            let held = block.get(..read).unwrap_or_default();
            if read == 0 {
                return Ok(false);
            }
            if memchr(b'\n', held).is_some() {
                return Ok(true);
            }
            self.searched += read as u64;
        }
    }

    fn read_lines(&mut self, handle: &OpenLog, turn: &mut ReadBatch) -> Result<()> {
        let LogCursor {
            log,
            reader,
            seen_entries: shown,
            reread: again,
            newest,
            ..
        } = self;
        let reader = reader
            .get_or_insert_with(|| IncrementalReader::new(&log.root, &log.path, &log.artifact));
        let (mut offset, mut searched) = (self.offset, self.searched);
        let first = offset;
        let mut full = false;
        each_line_of_open_file(&log.path, handle, offset, |record| {
            if !record.terminated {
                // Incomplete: neither consumed nor lost.
                searched = record.span.end();
                return Ok(false);
            }
            if again.as_ref().is_some_and(|again| offset >= again.until) {
                *again = None;
            }
            let located = reader.read(handle, record)?;
            let fresh = shown.filter_new(record, located, again.as_ref());
            for located in &fresh {
                *newest = located.entry.time.max(*newest);
            }
            turn.located.extend(fresh);
            offset = record.span.end();
            full = offset - first >= TURN_BYTES || turn.located.len() >= TURN_ENTRIES;
            Ok(!full)
        })?;
        self.offset = offset;
        self.searched = searched.max(offset);
        // Later writes show in the file's length.
        let size = handle.size();
        turn.more =
            full && offset < size.map_err(|error| Error::io("read", &self.log.path, error))?;
        Ok(())
    }
}

/// The entries emitted from a log: the last 32,768, so that memory stays bounded. Older ones can be
/// emitted again only if the log is replaced by one that contains them.
#[derive(Default)]
pub(super) struct SeenEntries {
    order: VecDeque<EntryKey>,
    digests: HashMap<EntryKey, u64>,
}

impl SeenEntries {
    const MOST: usize = 32 << 10;

    /// Returns the new entries of a record, and records them.
    fn filter_new(
        &mut self,
        record: &Record<'_>,
        located: Vec<LocatedEntry>,
        again: Option<&Reread>,
    ) -> Vec<LocatedEntry> {
        let digest = digest(record.bytes);
        let keys: Vec<EntryKey> = located
            .iter()
            .map(|located| entry_key(&located.entry, digest))
            .collect();
        let mut located = located;
        for (located, key) in located.iter_mut().zip(&keys) {
            let is_other = |known: &u64| *known != digest;
            located.updated = self.digests.get(key).is_some_and(is_other);
        }
        let known =
            |(located, key): (&LocatedEntry, &EntryKey)| match (self.digests.get(key), again) {
                // An entry may be written again with more content; an identical line is a copy.
                (Some(same), again) => {
                    *same == digest && (again.is_some() || located.entry.id.is_some())
                }
                (
                    None,
                    Some(Reread {
                        known: Some(known), ..
                    }),
                ) => located.entry.time.is_none_or(|time| time <= *known),
                (None, _) => false,
            };
        let known: Vec<bool> = located.iter().zip(&keys).map(known).collect();
        for key in keys {
            if self.digests.insert(key, digest).is_none() {
                self.order.push_back(key);
            }
        }
        // A log that is read again is compared with everything that was emitted from it.
        while self.order.len() > Self::MOST && again.is_none() {
            if let Some(oldest) = self.order.pop_front() {
                self.digests.remove(&oldest);
            }
        }
        let located = located.into_iter().zip(known);
        located
            .filter_map(|(located, known)| (!known).then_some(located))
            .collect()
    }
}

/// Returns the key of an entry; for an entry without an id, it is derived from the record.
fn entry_key(entry: &Entry, digest: u64) -> EntryKey {
    match (&entry.id, &entry.body) {
        (Some(id), Body::Message(_)) => id.key(),
        // An entry about a message may have the message's id.
        (id, body) => {
            let id = id.as_ref().map_or("", EntryId::as_str);
            let other = if id.is_empty() {
                digest.to_string()
            } else {
                String::new()
            };
            EntryKey::from_pair(body.kind(), &format!("{id}{other}"))
        }
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Returns whether a file had changed so recently that the change may have been incomplete.
pub(super) fn is_recent(id: &FileId, now: Timestamp) -> bool {
    let age = now.as_nanosecond() - i128::from(id.mtime_ns);
    let unsettled = i128::from(UNSETTLED_NS);
    (-unsettled..unsettled).contains(&age)
}

pub(super) fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

fn last_byte(handle: &OpenLog, end: u64) -> io::Result<Option<u8>> {
    let Some(at) = end.checked_sub(1) else {
        return Ok(None);
    };
    let mut byte = [0];
    let read = handle.read_at(&mut byte, at)?;
    Ok(byte.first().copied().filter(|_| read == 1))
}

/// Returns the start of the line that contains `end`.
pub(super) fn line_start(handle: &OpenLog, end: u64) -> io::Result<u64> {
    let mut block = vec![0; 4 << 10];
    let mut high = end;
    while high > 0 {
        let low = high.saturating_sub(block.len() as u64);
        let held = block.get_mut(..(high - low) as usize).unwrap_or_default();
        handle.read_exact_at(held, low)?;
        if let Some(at) = memrchr(b'\n', held) {
            return Ok(low + at as u64 + 1);
        }
        high = low;
        // Long lines are read in larger blocks, up to the size beyond which nothing is gained.
        let larger = (block.len() * 2).min(1 << 20);
        block.resize(larger, 0);
    }
    Ok(0)
}
