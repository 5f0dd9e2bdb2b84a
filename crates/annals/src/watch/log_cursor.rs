//! One log that is followed: how far it was read, and whether it is still the log that was read.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::hash::Hasher as _;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use jiff::Timestamp;
use memchr::{memchr, memrchr};

use crate::error::{Error, Result};
use crate::jsonl::{Cursor, FileId, open_to_read};
use crate::layout::Record;
use crate::model::{Body, Entry, EntryId, EntryKey};
use crate::store::{IncrementalReader, LocatedEntry, each_line_of_handle};

use super::{FollowedLog, ResetReason};

/// How much is read of a log before others have their turn.
const TURN_BYTES: u64 = 1 << 20;
const TURN_ENTRIES: usize = 256;

/// The beginning of a log by which it is known again.
const HEAD_BYTES: u64 = 4 << 10;

/// A log and how far it was read.
pub(super) struct LogCursor {
    pub(super) log: Arc<FollowedLog>,
    /// The file as it was when it was last looked at.
    pub(super) id: FileId,
    /// It waits for its turn.
    pub(super) queued: bool,
    /// It is not there at present.
    pub(super) gone: bool,
    /// Whoever follows has heard of it.
    pub(super) announced: bool,
    /// It came after following began, so that it may hold copies.
    pub(super) came_later: bool,
    /// Its last entry was no news.
    pub(super) earlier: bool,
    /// The scan that saw it last.
    pub(super) seen: u64,
    /// Everything before this was read. Always the start of a line once `aligned`.
    offset: u64,
    aligned: bool,
    /// No line ends between `offset` and this: what is written in pieces is looked through once.
    searched: u64,
    /// There is more to read, whatever the file looks like.
    more: bool,
    /// What stands before `offset`.
    cursor: Option<Cursor>,
    /// What the log begins with.
    head: Vec<u8>,
    reader: Option<IncrementalReader>,
    seen_entries: SeenEntries,
    reread: Option<Reread>,
    /// The time of the newest entry that was told.
    newest: Option<Timestamp>,
}

/// A log that is read once more.
struct Reread {
    /// Up to here.
    until: u64,
    /// Set where it is the same log with changes: what is not newer is not news.
    known: Option<Timestamp>,
    /// How far the log that may come back goes; set as long as nothing of it is there.
    awaited: Option<u64>,
}

/// What a turn gave.
#[derive(Default)]
pub(super) struct ReadBatch {
    /// The log begins anew.
    pub(super) reset: Option<ResetReason>,
    pub(super) located: Vec<LocatedEntry>,
    /// There is more to read.
    pub(super) more: bool,
    /// There is no such file.
    pub(super) missing: bool,
}

impl LogCursor {
    /// A log that is read from its beginning.
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
            offset: 0,
            aligned: true,
            searched: 0,
            more: false,
            cursor: None,
            head: Vec::new(),
            reader: None,
            seen_entries: SeenEntries::default(),
            reread: None,
            newest: None,
        }
    }

    /// A log of which only what comes from now on is wanted.
    pub(super) fn from_end(log: Arc<FollowedLog>, id: FileId) -> Self {
        LogCursor {
            id,
            offset: id.len,
            aligned: id.len == 0,
            searched: id.len,
            came_later: false,
            ..LogCursor::from_start(log)
        }
    }

    /// The log of another name that lies here now, if it is what was read there.
    pub(super) fn from_moved(log: Arc<FollowedLog>, from: &mut LogCursor) -> Option<Self> {
        let handle = open_to_read(&log.path).ok()?;
        let mark = from.cursor.filter(|mark| mark.offset > 0)?;
        if !mark.continues_in(&handle).ok()? {
            return None;
        }
        Some(LogCursor {
            id: from.id,
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

    /// How far it was read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Remembers what stands at the end of a log that was not read, so that a copy of it is known.
    pub(super) fn save_end_mark(&mut self) -> Result<()> {
        let path = self.log.path.clone();
        let failed = |error| Error::io("read", &path, error);
        let handle = match open_to_read(&path) {
            Err(error) if is_missing(&error) => return Ok(()),
            other => other.map_err(failed)?,
        };
        // What was added since it was found is read when its turn comes.
        if handle.metadata().map_err(failed)?.len() >= self.offset {
            self.align(&handle).map_err(failed)?;
            self.set_marks(&handle).map_err(failed)?;
        }
        Ok(())
    }

    /// Goes back to the start of a line before.
    pub(super) fn go_back_to(&mut self, offset: u64) {
        self.offset = offset;
        self.searched = offset;
        self.aligned = true;
        self.cursor = None;
        self.more = true;
    }

    /// Reads on.
    pub(super) fn read_batch(&mut self) -> Result<ReadBatch> {
        let path = self.log.path.clone();
        let failed = |error| Error::io("read", &path, error);
        let mut turn = ReadBatch::default();
        let handle = match open_to_read(&path) {
            Err(error) if is_missing(&error) => {
                turn.missing = true;
                return Ok(turn);
            }
            other => other.map_err(failed)?,
        };
        let id = FileId::from(&handle.metadata().map_err(failed)?);
        if id.untouched(&self.id) && !self.more {
            return Ok(turn);
        }
        let changed = self.reset_reason(&handle, &id).map_err(failed)?;
        if let Some(why) = changed {
            self.restart(&id);
            turn.reset = Some(why).filter(|_| !self.gone);
        }
        self.recognise(&handle, &id).map_err(failed)?;
        if id.len < self.searched || !id.same_file(&self.id) {
            self.searched = self.offset;
        }
        self.gone = false;
        self.id = id;
        if self.has_line(&handle).map_err(failed)? {
            self.read_lines(&handle, &mut turn)?;
            self.set_marks(&handle).map_err(failed)?;
        }
        self.more = turn.more;
        Ok(turn)
    }

    /// Why the file is not the one that was read, if so.
    fn reset_reason(&mut self, handle: &File, id: &FileId) -> io::Result<Option<ResetReason>> {
        let same = id.same_file(&self.id) && !self.gone;
        if id.len < self.offset {
            return Ok(Some(if same {
                ResetReason::Truncated
            } else {
                ResetReason::Replaced
            }));
        }
        if !self.aligned {
            // Nothing is known of a file that was never read but its length.
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

    /// Goes back to the front. What was told already is not told again.
    fn restart(&mut self, id: &FileId) {
        // What is left of a log that was cut is all that comes back; one that is written anew may
        // come back whole, in pieces.
        let cut = id.same_file(&self.id) && !self.gone && id.len > 0;
        let untold = Timestamp::from_nanosecond(self.id.mtime_ns.into()).ok();
        self.reread = Some(Reread {
            until: 0,
            known: self.newest.or(untold),
            awaited: Some(if cut { id.len } else { self.offset }),
        });
        self.offset = 0;
        self.searched = 0;
        self.aligned = true;
        self.reader = None;
        self.cursor = None;
    }

    /// Finds out whether a log that begins again is the one that it was. A program that writes a log
    /// anew empties it first, so that may show only later.
    fn recognise(&mut self, handle: &File, id: &FileId) -> io::Result<()> {
        let Some(again) = self.reread.as_mut().filter(|_| id.len > 0) else {
            return Ok(());
        };
        let Some(whole) = again.awaited.take() else {
            return Ok(());
        };
        // By its first line: what stands after it may have been rewritten.
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

    /// Moves back to the start of the line that was being written when the log was found.
    fn align(&mut self, handle: &File) -> io::Result<()> {
        if !self.aligned {
            self.offset = line_start(handle, self.offset)?;
            self.aligned = true;
        }
        Ok(())
    }

    fn set_marks(&mut self, handle: &File) -> io::Result<()> {
        self.cursor = Some(Cursor::with_id(&self.id, handle, self.offset)?);
        let reach = self.offset.min(HEAD_BYTES) as usize;
        if self.head.len() < reach {
            self.head.resize(reach, 0);
            handle.read_exact_at(&mut self.head, 0)?;
        }
        Ok(())
    }

    /// Whether a whole line stands after `offset`. What was looked through is not looked at again.
    fn has_line(&mut self, handle: &File) -> io::Result<bool> {
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

    fn read_lines(&mut self, handle: &File, turn: &mut ReadBatch) -> Result<()> {
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
        each_line_of_handle(&log.path, handle, offset, |record| {
            if !record.terminated {
                // Unfinished: neither taken nor lost.
                searched = record.span.end();
                return Ok(false);
            }
            if again.as_ref().is_some_and(|again| offset >= again.until) {
                *again = None;
            }
            let told = reader.read(handle, record)?;
            let fresh = shown.filter_new(record, told, again.as_ref());
            for told in &fresh {
                *newest = told.entry.time.max(*newest);
            }
            turn.located.extend(fresh);
            offset = record.span.end();
            full = offset - first >= TURN_BYTES || turn.located.len() >= TURN_ENTRIES;
            Ok(!full)
        })?;
        self.offset = offset;
        self.searched = searched.max(offset);
        // What is written since shows by the file's length.
        turn.more = full && offset < self.id.len;
        Ok(())
    }
}

/// What was told of a log: the last thirty thousand entries, so that memory stays bounded however long
/// a log is followed. Older ones can be told again only if the log is replaced by one that has them.
#[derive(Default)]
pub(super) struct SeenEntries {
    order: VecDeque<EntryKey>,
    digests: HashMap<EntryKey, u64>,
}

impl SeenEntries {
    const MOST: usize = 32 << 10;

    /// Leaves of a record's entries those that are news, and remembers them.
    fn filter_new(
        &mut self,
        record: &Record<'_>,
        told: Vec<LocatedEntry>,
        again: Option<&Reread>,
    ) -> Vec<LocatedEntry> {
        let digest = digest(record.bytes);
        let keys: Vec<EntryKey> = told
            .iter()
            .map(|told| entry_key(&told.entry, digest))
            .collect();
        let known = |(told, key): (&LocatedEntry, &EntryKey)| match (self.digests.get(key), again) {
            // An entry may be written once more to say more; the same line is a copy.
            (Some(same), again) => *same == digest && (again.is_some() || told.entry.id.is_some()),
            (
                None,
                Some(Reread {
                    known: Some(known), ..
                }),
            ) => told.entry.time.is_none_or(|time| time <= *known),
            (None, _) => false,
        };
        let known: Vec<bool> = told.iter().zip(&keys).map(known).collect();
        for key in keys {
            if self.digests.insert(key, digest).is_none() {
                self.order.push_back(key);
            }
        }
        // A log that is read again is compared with all that was told of it.
        while self.order.len() > Self::MOST && again.is_none() {
            if let Some(oldest) = self.order.pop_front() {
                self.digests.remove(&oldest);
            }
        }
        let told = told.into_iter().zip(known);
        told.filter_map(|(told, known)| (!known).then_some(told))
            .collect()
    }
}

/// What an entry is known by; one without an id, by its record.
fn entry_key(entry: &Entry, digest: u64) -> EntryKey {
    match (&entry.id, &entry.body) {
        (Some(id), Body::Message(_)) => id.key(),
        // A message's id may stand for what is said about it, too.
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

pub(super) fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

fn last_byte(handle: &File, end: u64) -> io::Result<Option<u8>> {
    let Some(at) = end.checked_sub(1) else {
        return Ok(None);
    };
    let mut byte = [0];
    let read = handle.read_at(&mut byte, at)?;
    Ok(byte.first().copied().filter(|_| read == 1))
}

/// Where the line that `end` stands in begins.
pub(super) fn line_start(handle: &File, end: u64) -> io::Result<u64> {
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
        // Long lines are read in larger blocks, up to the size at which that gains nothing.
        let larger = (block.len() * 2).min(1 << 20);
        block.resize(larger, 0);
    }
    Ok(0)
}
