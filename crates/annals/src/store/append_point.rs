//! The end of a log: what the next entry hangs from, and how that is kept true while others write.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::time::Duration;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::jsonl::{self, AppendOptions, ReadAt, Scanner};
use crate::layout::{AppendState, Decoded, Decoder, PROGRAM, Record};
use crate::model::{
    Artifact, Block, Body, Entry, EntryId, EntryKey, Fact, FlawKind, Link, Outline, OutlineKind,
    SessionId, Span,
};

use super::Root;
use super::companion::SplitRecords;
use super::inventory::RootFile;
use super::log_reader::{self, LEAF_SEARCH_BYTES, TailWindow};
use super::shared_log::{self, SliceFilter};

/// A log that another program wrote to so recently is being written to.
const LIVE_WITHIN: Duration = Duration::from_secs(60);

/// What is known about the end of a log.
#[derive(Debug)]
pub(super) struct AppendPoint {
    pub(super) state: AppendState,
    /// The volume that is written to, and those before it.
    pub(super) file: RootFile,
    /// The log is known up to here.
    pub(super) end: u64,
    /// The bytes before `end`: foreign programs rewrite tails in place.
    pub(super) guard: Vec<u8>,
    /// The log's ids and which of them an entry may hang from, once someone asked.
    pub(super) ids: Option<HashMap<EntryKey, bool>>,
    /// How often the log's bytes were searched for an id instead.
    searched: u32,
    /// Writing goes on although another program writes too.
    pub(super) live: bool,
    /// Tells whose the next records are, where several sessions lie in the file.
    filter: Option<SliceFilter>,
}

/// So many ids are searched for in a log's bytes before all of its ids are read.
const MAX_ID_SEARCHES: u32 = 8;

/// How many bytes before the end must be as they were.
const GUARD_BYTES: u64 = 4 << 10;

impl AppendPoint {
    /// The end of a log of which only the head is known.
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

    /// Finds where the log goes on, in its last kilobytes or as far back as it takes.
    pub(super) fn locate(&mut self, root: &Root, handle: &File) -> Result<()> {
        let path = self.file.path.clone();
        let failed = |error| Error::io("read", &path, error);
        let end = handle.metadata().map_err(failed)?.len();
        // A window without a message would make the next entry the first of a new conversation.
        let window = TailWindow::read(root, &self.file, handle, TailWindow::has_leaf)?;
        if !self.live {
            refuse_live(root, &self.file, handle, &window)?;
        }
        if !window.scan.whole {
            let first = log_reader::first_outlines(root, &self.file)?;
            first
                .iter()
                .for_each(|outline| self.state.add_layout_facts(outline));
        }
        for outline in &window.scan.outlines {
            self.state.apply_outline(outline);
        }
        self.state.open_calls.clear();
        self.state.add_open_calls(root, &self.file, handle, &window);
        let ends = self.state.find_ends(root, &self.file, handle, &window);
        (
            self.state.leaf,
            self.state.continues,
            self.state.last_message,
        ) = ends;
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
            self.state.add_open_calls(root, volume, &handle, &window);
            let (leaf, continues, last) = self.state.find_ends(root, volume, &handle, &window);
            (self.state.leaf, self.state.continues) = (leaf, continues);
            self.state.last_message = self.state.last_message.take().or(last);
        }
        self.filter = window.filter;
        self.end = end;
        self.ids = None;
        self.guard = jsonl::read_span(handle, end - end.min(GUARD_BYTES), end.min(GUARD_BYTES))
            .map_err(failed)?;
        Ok(())
    }

    /// Reads what others appended since.
    pub(super) fn catch_up(&mut self, root: &Root, handle: &File, end: u64) -> Result<()> {
        if !self.is_unchanged(handle, end) || !self.read_appended(root, handle, end)? {
            self.locate(root, handle)?;
        }
        self.end = end;
        Ok(())
    }

    /// Up to where we know it, the log is still what it was.
    fn is_unchanged(&self, handle: &File, end: u64) -> bool {
        if end < self.end || end - self.end > LEAF_SEARCH_BYTES {
            return false;
        }
        let Some(from) = self.end.checked_sub(self.guard.len() as u64) else {
            return false;
        };
        // Another file with the same end is as good: what we know of it is true.
        let mut before = vec![0; self.guard.len()];
        handle.read_exact_at(&mut before, from).is_ok() && before == self.guard
    }

    /// Follows what was added to the log, as long as it goes on where the log did before.
    fn read_appended(&mut self, root: &Root, handle: &File, end: u64) -> Result<bool> {
        if end == self.end {
            return Ok(true);
        }
        let path = self.file.path.clone();
        let failed = |error| Error::io("read", &path, error);
        if !self.guard.is_empty() && !self.guard.ends_with(b"\n") {
            // The torn line that we knew of may have been finished.
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
                    // Its program cannot read what we can salvage from it.
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

    /// Takes in an entry that goes on where the log did before.
    fn observe(&mut self, entry: &Entry) {
        self.state.observe(entry);
        if let (Some(known), Some(id)) = (&mut self.ids, &entry.id) {
            known.insert(id.key(), self.state.can_be_parent(entry));
        }
    }

    /// Remembers the last of what stands before the end.
    fn save_guard(&mut self, added: &[u8]) {
        self.guard.extend_from_slice(added);
        let surplus = self.guard.len().saturating_sub(GUARD_BYTES as usize);
        self.guard.drain(..surplus);
    }

    /// Whether the log has an entry of that id, and whether another may hang from it.
    pub(super) fn find_id(&mut self, root: &Root, id: &EntryId) -> Result<Option<bool>> {
        if self.ids.is_none() {
            // A search costs a fraction of reading all ids, but again for each id.
            if self.searched < MAX_ID_SEARCHES {
                self.searched += 1;
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

    pub(super) fn advance(
        &mut self,
        root: &Root,
        end: u64,
        records: &[Vec<u8>],
        parted: &SplitRecords,
        leaf: Option<EntryId>,
    ) {
        let mut offset = self.state.end;
        let places = parted.lines.iter().map(|line| {
            let len = line.len() as u64 + 1;
            offset += len;
            (offset - len, len)
        });
        for entry in decode_records(root, &self.state.log, records.iter().zip(places), None) {
            self.observe(&entry);
        }
        let lines = &parted.lines;
        if let Some(sieve) = self.filter.as_mut().filter(|_| !lines.is_empty()) {
            sieve.set_own();
        }
        self.state.leaf = leaf.or(self.state.leaf.take());
        // A torn tail is sealed by the same write.
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

    /// Takes in where the next record will stand, and whether the one before it is the session's.
    pub(super) fn expect_at(&mut self, offset: u64) {
        self.state.end = offset;
        self.state.last_record_is_own = self.filter.as_ref().is_none_or(SliceFilter::last_is_own);
    }

    /// Whether a record that names no session would be this session's if it were added now.
    pub(super) fn accepts_unnamed(&self) -> bool {
        let own = self.state.log.session.as_ref();
        let name = self.file.slice.as_deref().map(|share| &share.name);
        self.state.last_record_is_own || (self.state.end == 0 && own == name)
    }

    /// After a failed write nothing about the end is certain.
    pub(super) fn invalidate(&mut self) {
        self.end = u64::MAX;
    }
}

impl AppendState {
    /// Takes in what an outline tells about the writer's place.
    fn apply_outline(&mut self, outline: &Outline) {
        self.time = self
            .time
            .max(outline.time.filter(|_| outline.key.is_some()));
        if let Some(model) = outline
            .reply
            .as_ref()
            .and_then(|reply| reply.model.as_ref())
        {
            self.set_model(model);
        }
        if outline
            .facts
            .iter()
            .any(|fact| matches!(fact, Fact::Note(_)))
        {
            self.note_time = self.note_time.max(outline.time);
        }
        self.add_layout_facts(outline);
        for fact in &outline.facts {
            let (slot, text) = match fact {
                Fact::Cwd(text) => (&mut self.cwd, text),
                Fact::GitBranch(text) => (&mut self.git_branch, text),
                Fact::Version(text) => (&mut self.version, text),
                Fact::Prompt(text) => (&mut self.prompt, text),
                _ => continue,
            };
            *slot = (!text.is_empty()).then(|| text.to_string());
        }
    }

    /// Takes in what the layout's writer will need again.
    fn add_layout_facts(&mut self, outline: &Outline) {
        for fact in &outline.facts {
            if let Fact::WriterState(name, value) = fact {
                self.writer_state
                    .insert(name.to_string(), value.to_string());
            }
        }
    }

    /// Takes in the calls of a log's end that nothing has answered.
    fn add_open_calls(
        &mut self,
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
                self.add_message(&entry.body);
            }
        }
    }

    /// The entry that the next one hangs from, what that continues if it is a compaction, and the last
    /// entry of the volume.
    fn find_ends(
        &self,
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
            // Upwards from the end; within the last turn it is the file's order that counts.
            Some(conversation) => {
                let mut path = tree.path(conversation);
                let above = path
                    .len()
                    .saturating_sub(tree.last_turn(conversation).len());
                path.get_mut(above..).unwrap_or_default().sort_unstable();
                path
            }
        };
        // The last that the agent program knows, where it would not follow a link to any other.
        if root.layout.follows_parent_links() {
            ends.retain(|&at| window.is_linkable(at));
            // The agent program goes on from there, even if something else follows.
            let kind = |at: &usize| outlines.get(*at).map(|outline| outline.kind);
            let compacted = ends.last().and_then(kind) == Some(OutlineKind::Compaction);
            let resumed = tree.resume_entry.filter(|at| ends.contains(at));
            ends.extend(resumed.filter(|_| !compacted));
        }
        let entry = |at| window.entry(root, file, handle, at);
        let mut ends = ends.into_iter().rev().filter_map(entry);
        let leaf = ends.find(|entry| self.can_be_parent(entry));
        let continues = leaf
            .as_ref()
            .filter(|leaf| matches!(leaf.body, Body::Compaction { .. }))
            .and_then(|_| {
                ends.find(|one| {
                    self.can_be_parent(one) && !matches!(one.body, Body::Compaction { .. })
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

    /// Takes in an entry that goes on where the log did before.
    fn observe(&mut self, entry: &Entry) {
        self.time = self.time.max(entry.time.filter(|_| in_tree(entry)));
        if let Body::Note { .. } = &entry.body {
            self.note_time = self.note_time.max(entry.time);
        }
        if let Body::Resume { .. } = &entry.body {
            self.resumes_at_leaf = true;
        }
        if let Some(prompt) = prompt(entry) {
            self.prompt = Some(prompt);
        }
        self.add_message(&entry.body);
        if self.can_be_parent(entry) {
            let before = self.continues.take().or(self.leaf.take());
            let compacts = matches!(entry.body, Body::Compaction { .. });
            self.continues = before.filter(|_| compacts);
            self.leaf.clone_from(&entry.id);
            self.last_message.clone_from(&entry.id);
        }
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        self.cwd = filled(&entry.context.cwd).or(self.cwd.take());
        self.git_branch = filled(&entry.context.git_branch).or(self.git_branch.take());
        self.version = filled(&entry.context.version).or(self.version.take());
    }

    /// The entry is one that the next could hang from.
    fn can_be_parent(&self, entry: &Entry) -> bool {
        let has_id = entry.id.is_some() && !entry.derived_id;
        has_id && (self.agent.is_some() || !entry.sidechain) && in_tree(entry)
    }
}

pub(super) fn in_tree(entry: &Entry) -> bool {
    matches!(
        entry.body,
        Body::Message(_) | Body::Compaction { .. } | Body::System { .. } | Body::Attachment { .. }
    )
}

fn prompt(entry: &Entry) -> Option<String> {
    let Body::Message(message) = &entry.body else {
        return None;
    };
    message
        .blocks
        .iter()
        .filter(|_| message.human)
        .find_map(|block| match block {
            Block::Text(text) => Some(text.clone()),
            _ => None,
        })
}

/// Reads records one by one and ties each to the one before it, where the layout leaves that to
/// their order.
struct LinkedDecoder {
    decoder: Box<dyn Decoder>,
    outliner: Box<dyn Decoder>,
}

impl LinkedDecoder {
    /// Reads records of a file.
    fn for_file(root: &Root, file: &RootFile) -> Self {
        LinkedDecoder {
            decoder: root.decoder(file),
            outliner: root.decoder(file),
        }
    }

    /// Reads records that are whole by themselves.
    fn new(root: &Root, log: &Artifact) -> Self {
        LinkedDecoder {
            decoder: root.layout.decoder(log),
            outliner: root.layout.decoder(log),
        }
    }

    /// The session that a record names.
    fn session_name(&mut self, record: &Record<'_>) -> Option<SessionId> {
        shared_log::record_session(self.outliner.as_mut(), record)
    }

    /// A record's entries, of which the first comes after `last`.
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

/// The entries of some records, of which the first comes after `last`.
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

/// Refuses a log that another program is writing to: the one rule for whoever would move, remove or
/// mend it.
///
/// It is stricter than the one for appending, which loses nothing if it is wrong. Beside a record of
/// just now that is not ours, someone is at work if the log was touched just now and ends in a line
/// that is not finished, or in a record without a time of a kind that annals does not write.
pub(crate) fn ensure_not_in_use(root: &Root, file: &RootFile) -> Result<()> {
    if root.has_lock_file(&file.path) {
        // Whoever writes holds the lock.
        let options = AppendOptions {
            lock_wait: Duration::ZERO,
            ..AppendOptions::default()
        };
        return root.open_log(&file.path, options)?.with_lock(|_| Ok(()));
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

/// Records that annals writes without a time, so that nothing tells whose they are.
fn may_be_ours(outline: &Outline) -> bool {
    let ours = |fact: &Fact| {
        matches!(
            fact,
            Fact::Title(..) | Fact::Summary(..) | Fact::Tag(_) | Fact::Resume(_) | Fact::Note(_)
        )
    };
    outline.facts.iter().any(ours)
}

/// How long ago a log was written to, if that is so short that someone may be at work.
fn recent_write_age(handle: &dyn ReadAt) -> Option<Duration> {
    let touched = handle.id().map(|id| id.mtime_ns).ok()?;
    let age = age(Timestamp::from_nanosecond(touched.into()).ok()?);
    (age < LIVE_WITHIN).then_some(age)
}

/// Two programs on one session make two branches; that must be asked for.
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
    // Not all lines have a time, so the last one may tell nothing.
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

/// The age of an entry that another program wrote here just now.
fn recent_foreign_age(entry: &Entry) -> Option<Duration> {
    let foreign = !entry.copied && entry.program.as_deref() != Some(PROGRAM);
    let age = age(entry.time?);
    (foreign && age < LIVE_WITHIN).then_some(age)
}

fn age(time: Timestamp) -> Duration {
    Timestamp::now().duration_since(time).unsigned_abs()
}
