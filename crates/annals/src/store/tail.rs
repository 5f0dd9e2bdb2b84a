//! The end of a log: what the next entry hangs from, and how that is kept true while others write.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::time::Duration;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::jsonl::{self, Bytes, Options, Scanner};
use crate::layout::{Decoder, Head, PROGRAM, Record, Sink};
use crate::model::{
    Artifact, Block, Body, Entry, EntryId, Fact, FlawKind, Key, Kind, Link, Outline, SessionId,
    Span,
};

use super::Root;
use super::companion::Parted;
use super::inventory::FoundFile;
use super::log::{self, REACH, Window};
use super::share::{self, Sieve};

/// A log that another program wrote to so recently is being written to.
const LIVE: Duration = Duration::from_secs(60);

/// What is known about the end of a log.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) head: Head,
    /// The volume that is written to, and those before it.
    pub(super) file: FoundFile,
    /// The log is known up to here.
    pub(super) end: u64,
    /// The bytes before `end`: foreign programs rewrite tails in place.
    pub(super) guard: Vec<u8>,
    /// The log's ids and which of them an entry may hang from, once someone asked.
    pub(super) known: Option<HashMap<Key, bool>>,
    /// How often the log's bytes were searched for an id instead.
    searched: u32,
    /// Writing goes on although another program writes too.
    pub(super) live: bool,
    /// Tells whose the next records are, where several sessions lie in the file.
    sieve: Option<Sieve>,
}

/// So many ids are searched for in a log's bytes before all of its ids are read.
const SEARCHES: u32 = 8;

/// How many bytes before the end must be as they were.
const GUARDED: u64 = 4 << 10;

impl Tail {
    /// The end of a log of which only the head is known.
    pub(super) fn new(head: Head, file: FoundFile, live: bool) -> Self {
        Tail {
            head,
            end: 0,
            guard: Vec::new(),
            known: None,
            searched: 0,
            live,
            sieve: file.share.as_deref().map(Sieve::new),
            file,
        }
    }

    /// Finds where the log goes on, in its last kilobytes or as far back as it takes.
    pub(super) fn find(&mut self, root: &Root, handle: &File) -> Result<()> {
        let path = self.file.path.clone();
        let failed = |error| Error::io("read", &path, error);
        let end = handle.metadata().map_err(failed)?.len();
        // A window without a message would make the next entry the first of a new conversation.
        let window = Window::read(root, &self.file, handle, Window::has_leaf)?;
        if !self.live {
            refuse_live(root, &self.file, handle, &window)?;
        }
        if !window.scan.whole {
            let first = log::first_outlines(root, &self.file)?;
            first.iter().for_each(|outline| self.head.learn(outline));
        }
        for outline in &window.scan.outlines {
            self.head.note(outline);
        }
        self.head.calls.clear();
        self.head.remember_open(root, &self.file, handle, &window);
        let ends = self.head.ends(root, &self.file, handle, &window);
        (self.head.leaf, self.head.continues, self.head.last) = ends;
        self.head.anchored = window.scan.whole || window.named;
        let mut earlier = self.file.earlier.iter().rev();
        while self.head.leaf.is_none()
            && let Some(volume) = earlier.next()
        {
            let handle = volume.open()?;
            let window = Window::read(root, volume, &handle, Window::has_leaf)?;
            for outline in &window.scan.outlines {
                self.head.note(outline);
            }
            self.head.remember_open(root, volume, &handle, &window);
            let (leaf, continues, last) = self.head.ends(root, volume, &handle, &window);
            (self.head.leaf, self.head.continues) = (leaf, continues);
            self.head.last = self.head.last.take().or(last);
        }
        self.sieve = window.sieve;
        self.end = end;
        self.known = None;
        self.guard =
            jsonl::read_span(handle, end - end.min(GUARDED), end.min(GUARDED)).map_err(failed)?;
        Ok(())
    }

    /// Reads what others appended since.
    pub(super) fn catch_up(&mut self, root: &Root, handle: &File, end: u64) -> Result<()> {
        if !self.is_known(handle, end) || !self.follow(root, handle, end)? {
            self.find(root, handle)?;
        }
        self.end = end;
        Ok(())
    }

    /// Up to where we know it, the log is still what it was.
    fn is_known(&self, handle: &File, end: u64) -> bool {
        if end < self.end || end - self.end > REACH {
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
    fn follow(&mut self, root: &Root, handle: &File, end: u64) -> Result<bool> {
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
        let mut decoder = Linked::of(root, &self.file);
        while let Some(line) = scanner.next().map_err(failed)? {
            let record = log::uncounted(&line);
            if let Some(sieve) = &mut self.sieve
                && !sieve.takes(record.span.offset, || decoder.names(&record))
            {
                continue;
            }
            for entry in decoder.read(&record, self.head.last.as_ref()) {
                let moves = match &entry.body {
                    // Its program cannot read what we can salvage from it.
                    Body::Opaque { flaw: Some(_), .. } => true,
                    Body::Resume { leaf } => Some(leaf) != self.head.leaf.as_ref(),
                    _ => self.head.takes(&entry) && entry.parent != self.head.leaf,
                };
                if moves {
                    return Ok(false);
                }
                if let Some(age) = fresh_and_foreign(&entry).filter(|_| !self.live) {
                    return Err(Error::Live { path, age });
                }
                self.observe(&entry);
            }
        }
        self.keep(&bytes);
        Ok(true)
    }

    /// Takes in an entry that goes on where the log did before.
    fn observe(&mut self, entry: &Entry) {
        self.head.observe(entry);
        if let (Some(known), Some(id)) = (&mut self.known, &entry.id) {
            known.insert(id.key(), self.head.takes(entry));
        }
    }

    /// Remembers the last of what stands before the end.
    fn keep(&mut self, added: &[u8]) {
        self.guard.extend_from_slice(added);
        let surplus = self.guard.len().saturating_sub(GUARDED as usize);
        self.guard.drain(..surplus);
    }

    /// Whether the log has an entry of that id, and whether another may hang from it.
    pub(super) fn knows(&mut self, root: &Root, id: &EntryId) -> Result<Option<bool>> {
        if self.known.is_none() {
            // A search costs a fraction of reading all ids, but again for each id.
            if self.searched < SEARCHES {
                self.searched += 1;
                if !self.file.may_have_entry(root, id.as_str())? {
                    return Ok(None);
                }
            }
            let head = &self.head;
            self.known = Some(log::ids(root, &self.file, |entry| head.takes(entry))?);
        }
        let known = self.known.as_ref();
        Ok(known.and_then(|known| known.get(&id.key()).copied()))
    }

    pub(super) fn advance(
        &mut self,
        root: &Root,
        end: u64,
        records: &[Vec<u8>],
        parted: &Parted,
        leaf: Option<EntryId>,
    ) {
        let mut offset = self.head.end;
        let places = parted.lines.iter().map(|line| {
            let len = line.len() as u64 + 1;
            offset += len;
            (offset - len, len)
        });
        for entry in decode(root, &self.head.log, records.iter().zip(places), None) {
            self.observe(&entry);
        }
        let lines = &parted.lines;
        if let Some(sieve) = self.sieve.as_mut().filter(|_| !lines.is_empty()) {
            sieve.is_mine();
        }
        self.head.leaf = leaf.or(self.head.leaf.take());
        // A torn tail is sealed by the same write.
        let sealed = !self.guard.is_empty() && !self.guard.ends_with(b"\n");
        if sealed {
            self.keep(b"\n");
        }
        for line in lines {
            self.keep(line);
            self.keep(b"\n");
        }
        let written: u64 = lines.iter().map(|line| line.len() as u64 + 1).sum();
        self.end = end + u64::from(sealed) + written;
    }

    /// Takes in where the next record will stand, and whether the one before it is the session's.
    pub(super) fn expect_at(&mut self, offset: u64) {
        self.head.end = offset;
        self.head.follows = self.sieve.as_ref().is_none_or(Sieve::ends_mine);
    }

    /// Whether a record that names no session would be this session's if it were added now.
    pub(super) fn takes_nameless(&self) -> bool {
        let own = self.head.log.session.as_ref();
        let name = self.file.share.as_deref().map(|share| &share.name);
        self.head.follows || (self.head.end == 0 && own == name)
    }

    /// After a failed write nothing about the end is certain.
    pub(super) fn forget(&mut self) {
        self.end = u64::MAX;
    }
}

impl Head {
    /// Takes in what an outline tells about the writer's place.
    fn note(&mut self, outline: &Outline) {
        self.time = self
            .time
            .max(outline.time.filter(|_| outline.key.is_some()));
        if let Some(model) = outline
            .reply
            .as_ref()
            .and_then(|reply| reply.model.as_ref())
        {
            self.learn_model(model);
        }
        if outline
            .facts
            .iter()
            .any(|fact| matches!(fact, Fact::Note(_)))
        {
            self.noted = self.noted.max(outline.time);
        }
        self.learn(outline);
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
    fn learn(&mut self, outline: &Outline) {
        for fact in &outline.facts {
            if let Fact::Word(name, value) = fact {
                self.words.insert(name.to_string(), value.to_string());
            }
        }
    }

    /// Takes in the calls of a log's end that nothing has answered.
    fn remember_open(
        &mut self,
        root: &Root,
        file: &FoundFile,
        handle: &dyn Bytes,
        window: &Window,
    ) {
        const MOST: usize = 8;
        let outlines = &window.scan.outlines;
        let answered: HashSet<Key> = outlines
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
                self.remember(&entry.body);
            }
        }
    }

    /// The entry that the next one hangs from, what that continues if it is a compaction, and the last
    /// entry of the volume.
    fn ends(
        &self,
        root: &Root,
        file: &FoundFile,
        handle: &dyn Bytes,
        window: &Window,
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
        if root.layout.resumes_by_links() {
            ends.retain(|&at| window.is_linkable(at));
            // The agent program goes on from there, even if something else follows.
            let kind = |at: &usize| outlines.get(*at).map(|outline| outline.kind);
            let compacted = ends.last().and_then(kind) == Some(Kind::Compaction);
            let resumed = tree.resume_entry.filter(|at| ends.contains(at));
            ends.extend(resumed.filter(|_| !compacted));
        }
        let entry = |at| window.entry(root, file, handle, at);
        let mut ends = ends.into_iter().rev().filter_map(entry);
        let leaf = ends.find(|entry| self.takes(entry));
        let continues = leaf
            .as_ref()
            .filter(|leaf| matches!(leaf.body, Body::Compaction { .. }))
            .and_then(|_| {
                ends.find(|one| self.takes(one) && !matches!(one.body, Body::Compaction { .. }))
            });
        let chained = |outline: &&Outline| {
            let says = outline.kind.is_message() || outline.kind == Kind::Compaction;
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
            self.noted = self.noted.max(entry.time);
        }
        if let Body::Resume { .. } = &entry.body {
            self.anchored = true;
        }
        if let Some(prompt) = prompt(entry) {
            self.prompt = Some(prompt);
        }
        self.remember(&entry.body);
        if self.takes(entry) {
            let before = self.continues.take().or(self.leaf.take());
            let compacts = matches!(entry.body, Body::Compaction { .. });
            self.continues = before.filter(|_| compacts);
            self.leaf.clone_from(&entry.id);
            self.last.clone_from(&entry.id);
        }
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        self.cwd = filled(&entry.place.cwd).or(self.cwd.take());
        self.git_branch = filled(&entry.place.git_branch).or(self.git_branch.take());
        self.version = filled(&entry.place.version).or(self.version.take());
    }

    /// The entry is one that the next could hang from.
    fn takes(&self, entry: &Entry) -> bool {
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
struct Linked {
    decoder: Box<dyn Decoder>,
    outliner: Box<dyn Decoder>,
}

impl Linked {
    /// Reads records of a file.
    fn of(root: &Root, file: &FoundFile) -> Self {
        Linked {
            decoder: root.decoder(file),
            outliner: root.decoder(file),
        }
    }

    /// Reads records that are whole by themselves.
    fn new(root: &Root, log: &Artifact) -> Self {
        Linked {
            decoder: root.layout.decoder(log),
            outliner: root.layout.decoder(log),
        }
    }

    /// The session that a record names.
    fn names(&mut self, record: &Record<'_>) -> Option<SessionId> {
        share::named(self.outliner.as_mut(), record)
    }

    /// A record's entries, of which the first comes after `last`.
    fn read(&mut self, record: &Record<'_>, last: Option<&EntryId>) -> Vec<Entry> {
        let mut sink = Sink::default();
        self.decoder.decode(record, &mut sink);
        let orphans = sink.found.iter().any(|entry| entry.parent.is_none());
        if last.is_some() && orphans {
            let mut outlines = Sink::default();
            self.outliner.outline(record, &mut outlines);
            for entry in &mut sink.found {
                let key = entry.id.as_ref().map(EntryId::key);
                let mut outlines = outlines.found.iter();
                let follows =
                    outlines.any(|outline| outline.key == key && outline.link == Link::Previous);
                if follows && key.is_some() && entry.parent.is_none() {
                    entry.parent = last.cloned();
                }
            }
        }
        sink.found
    }
}

/// The entries of some records, of which the first comes after `last`.
pub(super) fn decode<'a>(
    root: &Root,
    log: &Artifact,
    records: impl Iterator<Item = (&'a Vec<u8>, (u64, u64))>,
    mut last: Option<EntryId>,
) -> Vec<Entry> {
    let mut decoder = Linked::new(root, log);
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
pub(crate) fn check_free(root: &Root, file: &FoundFile) -> Result<()> {
    if root.has_lock_file(&file.path) {
        // Whoever writes holds the lock.
        let options = Options {
            lock_wait: Duration::ZERO,
            ..Options::default()
        };
        return root.open_log(&file.path, options)?.locked(|_| Ok(()));
    }
    let handle = file.open()?;
    let Some(age) = touched_just_now(&handle) else {
        return Ok(());
    };
    let live = || Error::Live {
        path: file.path.clone(),
        age,
    };
    if !file.artifact.kind.is_conversation() {
        return Err(live());
    }
    let window = Window::read(root, file, &handle, |_| true)?;
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
fn touched_just_now(handle: &dyn Bytes) -> Option<Duration> {
    let touched = handle.id().map(|id| id.mtime_ns).ok()?;
    let age = age(Timestamp::from_nanosecond(touched.into()).ok()?);
    (age < LIVE).then_some(age)
}

/// Two programs on one session make two branches; that must be asked for.
fn refuse_live(root: &Root, file: &FoundFile, handle: &dyn Bytes, window: &Window) -> Result<()> {
    let path = &file.path;
    if touched_just_now(handle).is_none() {
        return Ok(());
    }
    // Not all lines have a time, so the last one may tell nothing.
    let outlines = window.scan.outlines.iter().enumerate().rev();
    let mut recent =
        outlines.filter(|(_, outline)| outline.time.is_some_and(|time| age(time) < LIVE));
    let foreign =
        recent.find_map(|(at, _)| fresh_and_foreign(&window.entry(root, file, handle, at)?));
    match foreign {
        None => Ok(()),
        Some(age) => Err(Error::Live {
            path: path.to_owned(),
            age,
        }),
    }
}

/// The age of an entry that another program wrote here just now.
fn fresh_and_foreign(entry: &Entry) -> Option<Duration> {
    let foreign = !entry.copied && entry.program.as_deref() != Some(PROGRAM);
    let age = age(entry.time?);
    (foreign && age < LIVE).then_some(age)
}

fn age(time: Timestamp) -> Duration {
    Timestamp::now().duration_since(time).unsigned_abs()
}
