//! The append point of a log: the parent of the next entry, kept up to date while others write.
//!
//! The writer finds it in the last records of the log (`TailWindow`). Each append, under the lock,
//! compares the bytes before the known end and reads what others added since. A window and a whole
//! log give the same parent, because both build the same tree. If the caller chooses the id of an
//! entry, the bytes of the log are searched for it first (`RootFile::may_have_entry`); the log is
//! decoded only if they contain it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::time::Duration;

use jiff::Timestamp;

use crate::error::{Error, Result};
use annals_jsonl::{self as jsonl, AppendOptions, FileId, RangeReader, ReadAt, Scanner};
use annals_layouts::layout::{AppendState, Decoded, Decoder, PROGRAM, Record, Writer, in_tree};
use annals_layouts::model::{
    Artifact, Body, Entry, EntryId, EntryKey, Fact, FlawKind, Framing, Link, Outline, OutlineKind,
    SessionId, Span,
};

use super::Root;
use super::inventory::RootFile;
use super::log_reader::{self, LEAF_SEARCH_BYTES, TailWindow};
use super::record_source;
use super::shared_log::{self, SliceFilter};

/// Maximum age of another program's last write for the log to count as in use.
const LIVE_WITHIN: Duration = Duration::from_secs(60);

/// State at the end of a log.
#[derive(Debug)]
pub(super) struct AppendPoint {
    pub(super) state: AppendState,
    /// The volume that is written to, with the earlier volumes.
    pub(super) file: RootFile,
    /// Byte offset up to which the log was read.
    pub(super) end: u64,
    /// The bytes before `end`, because other programs rewrite tails in place.
    pub(super) guard: Vec<u8>,
    /// The log's ids, and whether an entry may have them as its parent. Loaded on demand.
    pub(super) ids: Option<HashMap<EntryKey, bool>>,
    /// Number of searches of the log's bytes for an id.
    searched: u32,
    /// Whether to write although another program is writing too.
    pub(super) live: bool,
    /// Assigns the next records to sessions, if several sessions share the file.
    filter: Option<SliceFilter>,
}

/// Number of ids to search for in a log's bytes before reading all of its ids.
const MAX_ID_SEARCHES: u32 = 8;

/// Number of bytes before the end that must be unchanged.
const GUARD_BYTES: u64 = 4 << 10;

impl AppendPoint {
    /// Creates the append point of a log that was not read yet.
    pub(super) fn new(head: AppendState, file: RootFile, live: bool) -> Self {
        AppendPoint {
            state: head,
            end: 0,
            guard: Vec::new(),
            ids: None,
            searched: 0,
            live,
            filter: file.slice.as_deref().map(SliceFilter::new),
            file,
        }
    }

    /// Finds the entry to append to, in the last kilobytes of the log or as far back as needed.
    pub(super) fn locate(&mut self, root: &Root, handle: &File) -> Result<()> {
        let path = self.file.path.clone();
        let failed = |error| Error::io("read", &path, error);
        let end = handle.metadata().map_err(failed)?.len();
        // Without a message in the window, the next entry would start a new conversation.
        let framing = self.file.artifact.framing;
        let derived = record_source::derive_beginning(&path, handle, end, framing);
        let derived = derived.map_err(failed)?;
        let records: &dyn ReadAt = match &derived {
            Some(derived) => derived,
            None => handle,
        };
        self.find_end(root, records)?;
        self.end = end;
        self.ids = None;
        self.guard = jsonl::read_span(handle, end - end.min(GUARD_BYTES), end.min(GUARD_BYTES))
            .map_err(failed)?;
        Ok(())
    }

    /// Finds the entry to append to in a session of a database. Returns the state of the session.
    pub(super) fn locate_rows(&mut self, root: &Root) -> Result<FileId> {
        let failed = |error| Error::io("read", &self.file.path, error);
        let records = self.file.open()?;
        let state = records.id().map_err(failed)?;
        self.find_end(root, &records)?;
        self.end = 0;
        self.ids = None;
        Ok(state)
    }

    /// Finds the entry to append to, in the last records.
    fn find_end(&mut self, root: &Root, records: &dyn ReadAt) -> Result<()> {
        let is_shared = self.file.slice.is_some();
        let begins = |window: &TailWindow| is_shared && window.has_agent_start();
        let window = TailWindow::read(root, &self.file, records, |window| {
            window.has_leaf() || begins(window)
        })?;
        if !self.live {
            refuse_live(root, &self.file, records, &window)?;
        }
        if !window.scan.whole && !begins(&window) {
            let first = log_reader::first_outlines(root, &self.file)?;
            first
                .iter()
                .for_each(|outline| self.state.add_layout_facts(outline));
        }
        for outline in &window.scan.outlines {
            self.state.apply_outline(outline);
        }
        self.state.open_calls.clear();
        add_open_calls(&mut self.state, root, &self.file, records, &window);
        let ends = find_ends(&self.state, root, &self.file, records, &window);
        (
            self.state.leaf,
            self.state.continues,
            self.state.last_message,
        ) = ends;
        self.state.last_line = last_line(&self.state, root, &window);
        self.state.resumes_at_leaf = window.scan.whole || window.has_named_leaf;
        let mut earlier = self.file.earlier.iter().rev();
        while self.state.leaf.is_none()
            && let Some(volume) = earlier.next()
        {
            let handle = volume.open()?;
            let window = TailWindow::read(root, volume, &handle, TailWindow::has_leaf)?;
            for outline in &window.scan.outlines {
                self.state.apply_outline(outline);
            }
            add_open_calls(&mut self.state, root, volume, &handle, &window);
            let (leaf, continues, last) = find_ends(&self.state, root, volume, &handle, &window);
            (self.state.leaf, self.state.continues) = (leaf, continues);
            self.state.last_message = self.state.last_message.take().or(last);
        }
        self.filter = window.filter;
        Ok(())
    }

    /// Reads what others appended since the last read.
    pub(super) fn catch_up(&mut self, root: &Root, handle: &File, end: u64) -> Result<()> {
        if !self.is_unchanged(handle, end) || !self.read_appended(root, handle, end)? {
            self.locate(root, handle)?;
        }
        self.end = end;
        Ok(())
    }

    /// Returns whether the log is unchanged up to `end` and has not grown too much since.
    fn is_unchanged(&self, handle: &File, end: u64) -> bool {
        if end < self.end || end - self.end > LEAF_SEARCH_BYTES {
            return false;
        }
        let Some(from) = self.end.checked_sub(self.guard.len() as u64) else {
            return false;
        };
        // Another file with the same guard bytes is accepted: the state is true for it too.
        let mut before = vec![0; self.guard.len()];
        handle.read_exact_at(&mut before, from).is_ok() && before == self.guard
    }

    /// Reads the appended records. Returns `false` if they do not continue at the current leaf.
    fn read_appended(&mut self, root: &Root, handle: &File, end: u64) -> Result<bool> {
        if end == self.end {
            return Ok(true);
        }
        if self.is_derived() {
            return Ok(false);
        }
        let path = self.file.path.clone();
        let failed = |error| Error::io("read", &path, error);
        if !self.guard.is_empty() && !self.guard.ends_with(b"\n") {
            // The torn line may have been completed.
            return Ok(false);
        }
        let bytes = jsonl::read_span(handle, self.end, end - self.end).map_err(failed)?;
        let mut scanner = Scanner::from_offset(bytes.as_slice(), self.end, 1);
        let mut decoder = LinkedDecoder::for_file(root, &self.file);
        while let Some(line) = scanner.next().map_err(failed)? {
            let record = log_reader::unnumbered_record(&line);
            if let Some(sieve) = &mut self.filter
                && !sieve.accepts(record.span.offset, || decoder.session_name(&record))
            {
                continue;
            }
            for entry in decoder.read(&record, self.state.last_message.as_ref()) {
                let moves = match &entry.body {
                    // The agent program cannot read what annals salvages from a damaged record.
                    Body::Opaque { flaw: Some(_), .. } => true,
                    Body::Resume { leaf } => Some(leaf) != self.state.leaf.as_ref(),
                    _ => self.state.can_be_parent(&entry) && entry.parent != self.state.leaf,
                };
                if moves {
                    return Ok(false);
                }
                if let Some(age) = recent_foreign_age(&entry).filter(|_| !self.live) {
                    return Err(Error::Live { path, age });
                }
                self.observe(&entry);
            }
        }
        self.save_guard(&bytes);
        Ok(true)
    }

    /// Returns whether the records are derived from the whole file.
    fn is_derived(&self) -> bool {
        is_derived(self.file.artifact.framing)
    }

    /// Updates the state with an entry that continues the log.
    fn observe(&mut self, entry: &Entry) {
        self.state.observe(entry);
        if let (Some(known), Some(id)) = (&mut self.ids, &entry.id) {
            known.insert(id.key(), self.state.can_be_parent(entry));
        }
    }

    /// Adds bytes to the guard and trims it to [`GUARD_BYTES`].
    fn save_guard(&mut self, added: &[u8]) {
        self.guard.extend_from_slice(added);
        let surplus = self.guard.len().saturating_sub(GUARD_BYTES as usize);
        self.guard.drain(..surplus);
    }

    /// Returns whether an entry with the id may be a parent; `None` if the log has no such entry.
    pub(super) fn find_id(&mut self, root: &Root, id: &EntryId) -> Result<Option<bool>> {
        if self.ids.is_none() && self.is_derived() {
            // The bytes of the file do not contain ids made from positions.
            self.searched = MAX_ID_SEARCHES;
        }
        if self.ids.is_none() {
            // A search costs a fraction of reading all ids, but each id needs its own search.
            if self.searched < MAX_ID_SEARCHES {
                self.searched += 1;
                // Most ids that exist are those of recent entries.
                let found = self.find_id_in_tail(root, id)?;
                if found.is_some() {
                    return Ok(found);
                }
                if !self.file.may_have_entry(root, id.as_str())? {
                    return Ok(None);
                }
            }
            let head = &self.state;
            self.ids = Some(log_reader::entry_ids(root, &self.file, |entry| {
                head.can_be_parent(entry)
            })?);
        }
        let known = self.ids.as_ref();
        Ok(known.and_then(|known| known.get(&id.key()).copied()))
    }

    /// Like [`find_id`](Self::find_id), in the last records of the log. `None` if they have no such
    /// entry: an earlier one may have it.
    fn find_id_in_tail(&self, root: &Root, id: &EntryId) -> Result<Option<bool>> {
        let handle = self.file.open()?;
        let window = TailWindow::read(root, &self.file, &handle, |_| true)?;
        let found = window.position(id).and_then(|at| {
            let entry = window.entry(root, &self.file, &handle, at)?;
            Some(window.is_linkable(at) && self.state.can_be_parent(&entry))
        });
        Ok(found)
    }

    pub(super) fn advance(
        &mut self,
        root: &Root,
        end: u64,
        records: &[Vec<u8>],
        lines: &[Vec<u8>],
        leaf: Option<EntryId>,
    ) {
        if self.is_derived() {
            // The records before may read differently now.
            self.state.leaf = leaf.or(self.state.leaf.take());
            self.invalidate();
            return;
        }
        let mut offset = self.state.end;
        let places = lines.iter().map(|line| {
            let len = line.len() as u64 + 1;
            offset += len;
            (offset - len, len)
        });
        for entry in decode_records(root, &self.state.log, records.iter().zip(places), None) {
            self.observe(&entry);
        }
        if let Some(sieve) = self.filter.as_mut().filter(|_| !lines.is_empty()) {
            sieve.set_own();
        }
        self.state.leaf = leaf.or(self.state.leaf.take());
        // The same write seals a torn tail.
        let sealed = !self.guard.is_empty() && !self.guard.ends_with(b"\n");
        if sealed {
            self.save_guard(b"\n");
        }
        for line in lines {
            self.save_guard(line);
            self.save_guard(b"\n");
        }
        let written: u64 = lines.iter().map(|line| line.len() as u64 + 1).sum();
        self.end = end + u64::from(sealed) + written;
    }

    /// Sets the offset of the next record, and whether the record before it belongs to the session.
    pub(super) fn expect_at(&mut self, offset: u64) {
        self.state.end = offset;
        self.state.last_record_is_own = self.filter.as_ref().is_none_or(SliceFilter::last_is_own);
    }

    /// Returns whether a record without a session name would belong to this session if appended
    /// now.
    pub(super) fn accepts_unnamed(&self) -> bool {
        let own = self.state.log.session.as_ref();
        let name = self.file.slice.as_deref().map(|share| &share.name);
        self.state.last_record_is_own || (self.state.end == 0 && own == name)
    }

    /// Discards the known end: after a failed write it is uncertain.
    pub(super) fn invalidate(&mut self) {
        self.end = u64::MAX;
    }
}

/// Adds the unanswered tool calls at the end of a log.
fn add_open_calls(
    state: &mut AppendState,
    root: &Root,
    file: &RootFile,
    handle: &dyn ReadAt,
    window: &TailWindow,
) {
    const MOST: usize = 8;
    let outlines = &window.scan.outlines;
    let answered: HashSet<EntryKey> = outlines
        .iter()
        .flat_map(|outline| outline.results.iter().copied())
        .collect();
    let open = |at: &usize| {
        let calls = outlines.get(*at).map(Outline::calls).unwrap_or_default();
        calls.iter().any(|call| !answered.contains(call))
    };
    let mut last: Vec<usize> = (0..outlines.len()).rev().filter(open).take(MOST).collect();
    last.reverse();
    for at in last {
        if let Some(entry) = window.entry(root, file, handle, at) {
            state.add_message(&entry.body);
        }
    }
}

/// Returns the parent of the next entry, the entry that it continues if it is a compaction, and
/// the last entry of the volume.
fn find_ends(
    state: &AppendState,
    root: &Root,
    file: &RootFile,
    handle: &dyn ReadAt,
    window: &TailWindow,
) -> (Option<EntryId>, Option<EntryId>, Option<EntryId>) {
    let outlines = &window.scan.outlines;
    let tree = &window.tree;
    let resumed = tree.resume.and_then(|at| tree.conversations.get(at));
    let mut ends = match resumed {
        None => (0..outlines.len()).collect(),
        // From the root to the leaf, with the last turn in file order.
        Some(conversation) => {
            let mut path = tree.path(conversation);
            let above = path
                .len()
                .saturating_sub(tree.last_turn(conversation).len());
            path.get_mut(above..).unwrap_or_default().sort_unstable();
            path
        }
    };
    // The agent program does not follow links to other entries.
    if root.layout.follows_parent_links() {
        ends.retain(|&at| window.is_linkable(at));
        // The agent program resumes at this entry even if others follow it.
        let kind = |at: &usize| outlines.get(*at).map(|outline| outline.kind);
        let compacted = ends.last().and_then(kind) == Some(OutlineKind::Compaction);
        let resumed = tree.resume_entry.filter(|at| ends.contains(at));
        ends.extend(resumed.filter(|_| !compacted));
    }
    let entry = |at| window.entry(root, file, handle, at);
    let mut ends = ends.into_iter().rev().filter_map(entry);
    let leaf = ends.find(|entry| state.can_be_parent(entry));
    let continues = leaf
        .as_ref()
        .filter(|leaf| matches!(leaf.body, Body::Compaction { .. }))
        .and_then(|_| {
            ends.find(|one| {
                state.can_be_parent(one) && !matches!(one.body, Body::Compaction { .. })
            })
        });
    let chained = |outline: &&Outline| {
        let says = outline.kind.is_message() || outline.kind == OutlineKind::Compaction;
        outline.key.is_some() && !outline.sidechain && (says || outline.link != Link::None)
    };
    let last = outlines.iter().rev().find(chained);
    let id = |entry: Option<Entry>| entry.and_then(|entry| entry.id);
    (id(leaf), id(continues), last.and_then(Outline::id))
}

/// Decodes the last `count` records of the first `len` bytes of a log whose records are derived.
pub(super) fn decode_derived(
    root: &Root,
    file: &RootFile,
    len: u64,
    count: usize,
) -> Result<Vec<Entry>> {
    let failed = |error| Error::io("read", &file.path, error);
    let handle = jsonl::open_to_read(&file.path).map_err(failed)?;
    let framing = file.artifact.framing;
    let derived = record_source::derive_beginning(&file.path, &handle, len, framing);
    let Some(derived) = derived.map_err(failed)? else {
        return Ok(Vec::new());
    };
    let mut scanner = Scanner::new(RangeReader::from_offset(&derived, 0));
    let mut lines = VecDeque::new();
    while let Some(line) = scanner.next().map_err(failed)? {
        let span = (line.offset, line.len);
        lines.push_back((line.bytes.to_vec(), span));
        if lines.len() > count {
            lines.pop_front();
        }
    }
    let records = lines.iter().map(|(bytes, span)| (bytes, *span));
    Ok(decode_records(root, &file.artifact, records, None))
}

/// Returns whether records are derived from the whole file.
pub(super) fn is_derived(framing: Framing) -> bool {
    matches!(
        framing,
        Framing::Document(_) | Framing::Files(_) | Framing::Rows(_)
    )
}

/// Returns the last record if it follows the leaf, in layouts whose program continues there.
fn last_line(state: &AppendState, root: &Root, window: &TailWindow) -> Option<EntryId> {
    let writer = root.layout.writer();
    let leaf = state.leaf.as_ref()?.key();
    if !writer.is_some_and(<dyn Writer>::resumes_at_last_line) {
        return None;
    }
    let outlines = &window.scan.outlines;
    let last = outlines.iter().rposition(|outline| outline.key.is_some())?;
    let path = window.tree.path_to(last)?;
    let mut before = path.iter().filter_map(|&at| outlines.get(at));
    let follows = path.last() == Some(&last) && before.any(|outline| outline.key == Some(leaf));
    let outline = outlines.get(last)?;
    let is_leaf = outline.key == Some(leaf);
    outline
        .id()
        .filter(|_| follows && !is_leaf && !outline.sidechain && window.is_linkable(last))
}

/// Decodes records one by one, and sets the previous entry as the parent where the layout implies
/// parents by order.
struct LinkedDecoder {
    decoder: Box<dyn Decoder>,
    outliner: Box<dyn Decoder>,
}

impl LinkedDecoder {
    /// Creates a decoder for the records of a file.
    fn for_file(root: &Root, file: &RootFile) -> Self {
        LinkedDecoder {
            decoder: root.decoder(file),
            outliner: root.decoder(file),
        }
    }

    /// Creates a decoder for complete records, without a companion file.
    fn new(root: &Root, log: &Artifact) -> Self {
        LinkedDecoder {
            decoder: root.layout.decoder(log),
            outliner: root.layout.decoder(log),
        }
    }

    /// Returns the session that a record names.
    fn session_name(&mut self, record: &Record<'_>) -> Option<SessionId> {
        shared_log::record_session(self.outliner.as_mut(), record)
    }

    /// Decodes the entries of a record that follows `last`.
    fn read(&mut self, record: &Record<'_>, last: Option<&EntryId>) -> Vec<Entry> {
        let mut sink = Decoded::default();
        self.decoder.decode(record, &mut sink);
        let orphans = sink.items.iter().any(|entry| entry.parent.is_none());
        if last.is_some() && orphans {
            let mut outlines = Decoded::default();
            self.outliner.outline(record, &mut outlines);
            for entry in &mut sink.items {
                let key = entry.id.as_ref().map(EntryId::key);
                let mut outlines = outlines.items.iter();
                let follows =
                    outlines.any(|outline| outline.key == key && outline.link == Link::Previous);
                if follows && key.is_some() && entry.parent.is_none() {
                    entry.parent = last.cloned();
                }
            }
        }
        sink.items
    }
}

/// Decodes the entries of records that follow `last`.
pub(super) fn decode_records<'a>(
    root: &Root,
    log: &Artifact,
    records: impl Iterator<Item = (&'a Vec<u8>, (u64, u64))>,
    mut last: Option<EntryId>,
) -> Vec<Entry> {
    let mut decoder = LinkedDecoder::new(root, log);
    let mut found = Vec::new();
    for (bytes, (offset, len)) in records {
        let record = Record {
            span: Span {
                offset,
                len,
                line: 0,
            },
            bytes,
            terminated: true,
            oversize: false,
        };
        for entry in decoder.read(&record, last.as_ref()) {
            if in_tree(&entry) {
                last = entry.id.clone().or(last);
            }
            found.push(entry);
        }
    }
    found
}

/// Refuses a log that another program is writing to. Applies to moving, removing and repairing it.
///
/// The rule is stricter than the one for appending, which loses nothing if it is wrong. A recently
/// modified log is in use if it has a recent foreign record. It is also in use if it ends in a torn
/// line, or in a record without a time of a kind that annals does not write.
pub(crate) fn ensure_not_in_use(root: &Root, file: &RootFile) -> Result<()> {
    if root.has_lock_file(&file.path) {
        // Writers of this layout hold the lock.
        let options = AppendOptions {
            lock_wait: Duration::ZERO,
            ..AppendOptions::default()
        };
        return root.open_log(&file.path, options)?.with_lock(|_| Ok(()));
    }
    if root.thread_lock(&file.path).is_some() {
        let options = AppendOptions {
            lock_wait: Duration::ZERO,
            ..AppendOptions::default()
        };
        let log = root.open_log(&file.path, options)?;
        log.with_lock(|_| Ok::<_, Error>(()))?;
    }
    let handle = file.open()?;
    let Some(age) = recent_write_age(&handle) else {
        return Ok(());
    };
    let live = || Error::Live {
        path: file.path.clone(),
        age,
    };
    if !file.artifact.kind.is_conversation() {
        return Err(live());
    }
    let window = TailWindow::read(root, file, &handle, |_| true)?;
    let mut flaws = window.scan.flaws.iter();
    let torn = flaws.any(|flaw| flaw.kind == FlawKind::TornTail);
    let untimed = |last: &Outline| last.time.is_none() && !may_be_ours(last);
    if torn || window.scan.outlines.last().is_some_and(untimed) {
        return Err(live());
    }
    refuse_live(root, file, &handle, &window)
}

/// Returns whether annals may have written a record without a time, which has no sign of its
/// writer.
fn may_be_ours(outline: &Outline) -> bool {
    let ours = |fact: &Fact| {
        matches!(
            fact,
            Fact::Title(..) | Fact::Summary(..) | Fact::Tag(_) | Fact::Resume(_) | Fact::Note(_)
        )
    };
    outline.facts.iter().any(ours)
}

/// Returns the age of a log's last write, if it is recent enough for the log to be in use.
fn recent_write_age(handle: &dyn ReadAt) -> Option<Duration> {
    let touched = handle.id().map(|id| id.mtime_ns).ok()?;
    let age = age(Timestamp::from_nanosecond(touched.into()).ok()?);
    (age < LIVE_WITHIN).then_some(age)
}

/// Refuses a log with a recent foreign record: two programs would create two branches.
fn refuse_live(
    root: &Root,
    file: &RootFile,
    handle: &dyn ReadAt,
    window: &TailWindow,
) -> Result<()> {
    let path = &file.path;
    if recent_write_age(handle).is_none() {
        return Ok(());
    }
    // The last line may have no time.
    let outlines = window.scan.outlines.iter().enumerate().rev();
    let mut recent =
        outlines.filter(|(_, outline)| outline.time.is_some_and(|time| age(time) < LIVE_WITHIN));
    let foreign =
        recent.find_map(|(at, _)| recent_foreign_age(&window.entry(root, file, handle, at)?));
    match foreign {
        None => Ok(()),
        Some(age) => Err(Error::Live {
            path: path.to_owned(),
            age,
        }),
    }
}

/// Returns the age of an entry that another program wrote recently.
fn recent_foreign_age(entry: &Entry) -> Option<Duration> {
    let foreign = !entry.copied && entry.program.as_deref() != Some(PROGRAM);
    let age = age(entry.time?);
    (foreign && age < LIVE_WITHIN).then_some(age)
}

fn age(time: Timestamp) -> Duration {
    Timestamp::now().duration_since(time).unsigned_abs()
}
