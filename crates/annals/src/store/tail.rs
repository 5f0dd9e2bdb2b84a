//! The end of a log: what the next entry hangs from, and how that is kept true while others write.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::jsonl::{self, Ending, Scanner};
use crate::layout::{Head, PROGRAM, Record, Sink};
use crate::model::{Artifact, Block, Body, Entry, EntryId, Fact, Outline, Span};

use super::Root;
use super::inventory::FoundFile;
use super::log::{REACH, Window};

/// A log that another program wrote to so recently is being written to.
const LIVE: Duration = Duration::from_secs(60);

/// What is known about the end of a log.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) head: Head,
    /// The log is known up to here.
    pub(super) end: u64,
    /// The file of which this is known.
    pub(super) file: Option<(u64, u64)>,
}

impl Tail {
    /// Finds where the log goes on, in its last kilobytes.
    pub(super) fn find(&mut self, root: &Root, path: &Path, handle: &File) -> Result<Window> {
        let log = self.head.log.clone();
        let end = handle
            .metadata()
            .map_err(|error| Error::io("read", path, error))?
            .len();
        let window = Window::read(root, &log, path, handle, |_| true)?;
        let outlines = &window.scan.outlines;
        for outline in outlines {
            self.head.note(outline);
        }
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
        // The last that the agent program knows: it would not follow a link to any other.
        ends.retain(|&at| !window.salvaged(at));
        let entry = |at| window.entry(root, &log, at);
        let leaf = ends.into_iter().rev().filter_map(entry).find(in_tree);
        self.head.leaf = leaf.and_then(|leaf| leaf.id);
        self.head.anchored = window.scan.whole || window.named;
        self.end = end;
        self.file = identity(handle);
        Ok(window)
    }

    /// Reads what others appended since.
    pub(super) fn catch_up(
        &mut self,
        root: &Root,
        path: &Path,
        handle: &File,
        end: u64,
    ) -> Result<()> {
        let same = self.file.is_none() || self.file == identity(handle);
        if end == self.end && same {
            return Ok(());
        }
        if !same
            || end < self.end
            || end - self.end > REACH
            || !self.follow(root, path, handle, end)?
        {
            self.find(root, path, handle)?;
        }
        self.end = end;
        Ok(())
    }

    /// Follows what was added to the log, as long as it goes on where the log did before.
    pub(super) fn follow(
        &mut self,
        root: &Root,
        path: &Path,
        handle: &File,
        end: u64,
    ) -> Result<bool> {
        let failed = |error| Error::io("read", path, error);
        let from = self.end.saturating_sub(1);
        let bytes = jsonl::read_span(handle, from, end - from).map_err(failed)?;
        let added = match bytes.split_first() {
            Some((b'\n', added)) if self.end > 0 => added,
            _ if self.end == 0 => bytes.as_slice(),
            // Our last line does not end where it ended.
            _ => return Ok(false),
        };
        let mut scanner = Scanner::from_offset(added, self.end, 1);
        let mut decoder = root.layout.decoder(&self.head.log);
        let mut sink = Sink::default();
        while let Some(line) = scanner.next().map_err(failed)? {
            let span = Span {
                offset: line.offset,
                len: line.len,
                line: 0,
            };
            let terminated = line.ending != Ending::None;
            let record = Record {
                span,
                bytes: line.bytes,
                terminated,
                oversize: line.oversize,
            };
            decoder.decode(&record, &mut sink);
        }
        for entry in sink.found {
            let moves = match &entry.body {
                // Its program cannot read what we can salvage from it.
                Body::Opaque { flaw: Some(_), .. } => true,
                Body::Resume { leaf } => Some(leaf) != self.head.leaf.as_ref(),
                _ => self.head.takes(&entry) && entry.parent != self.head.leaf,
            };
            if moves {
                return Ok(false);
            }
            self.head.observe(&entry);
        }
        Ok(true)
    }

    pub(super) fn advance(
        &mut self,
        root: &Root,
        end: u64,
        lines: &[Vec<u8>],
        leaf: Option<EntryId>,
    ) {
        let places = lines.iter().map(|line| (end, line.len() as u64 + 1));
        for entry in decode(root, &self.head.log, lines.iter().zip(places)) {
            self.head.observe(&entry);
        }
        self.head.leaf = leaf.or(self.head.leaf.take());
        self.end = end + lines.iter().map(|line| line.len() as u64 + 1).sum::<u64>();
    }

    /// After a failed write nothing about the end is certain.
    pub(super) fn forget(&mut self) {
        self.end = u64::MAX;
    }
}

impl Head {
    /// Takes in what an outline tells about the writer's place.
    fn note(&mut self, outline: &Outline) {
        self.time = self.time.max(outline.time);
        for fact in &outline.facts {
            let (slot, text) = match fact {
                Fact::Cwd(text) => (&mut self.cwd, text),
                Fact::GitBranch(text) => (&mut self.git_branch, text),
                Fact::Version(text) => (&mut self.version, text),
                Fact::Prompt(text) => (&mut self.prompt, text),
                _ => continue,
            };
            *slot = Some(text.to_string());
        }
    }

    /// Takes in an entry that goes on where the log did before.
    fn observe(&mut self, entry: &Entry) {
        self.time = self.time.max(entry.time);
        if let Body::Resume { .. } = &entry.body {
            self.anchored = true;
        }
        if let Some(prompt) = prompt(entry) {
            self.prompt = Some(prompt);
        }
        if self.takes(entry) {
            self.leaf.clone_from(&entry.id);
        }
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        self.cwd = filled(&entry.place.cwd).or(self.cwd.take());
        self.git_branch = filled(&entry.place.git_branch).or(self.git_branch.take());
        self.version = filled(&entry.place.version).or(self.version.take());
    }

    /// The entry is one that the next could hang from.
    fn takes(&self, entry: &Entry) -> bool {
        entry.id.is_some() && (self.agent.is_some() || !entry.sidechain) && in_tree(entry)
    }
}

pub(super) fn identity(handle: &File) -> Option<(u64, u64)> {
    let id = jsonl::FileId::from(&handle.metadata().ok()?);
    Some((id.dev, id.ino))
}

fn in_tree(entry: &Entry) -> bool {
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

/// The entries of some records.
pub(super) fn decode<'a>(
    root: &Root,
    log: &Artifact,
    records: impl Iterator<Item = (&'a Vec<u8>, (u64, u64))>,
) -> Vec<Entry> {
    let mut decoder = root.layout.decoder(log);
    let mut sink = Sink::default();
    for (bytes, (offset, len)) in records {
        let span = Span {
            offset,
            len,
            line: 0,
        };
        decoder.decode(
            &Record {
                span,
                bytes,
                terminated: true,
                oversize: false,
            },
            &mut sink,
        );
    }
    sink.found
}

/// Two programs on one session make two branches; that must be asked for.
pub(super) fn refuse_live(
    root: &Root,
    file: &FoundFile,
    handle: &File,
    window: &Window,
) -> Result<()> {
    let age = handle
        .metadata()
        .and_then(|metadata| metadata.modified())
        .ok()
        .and_then(|time| SystemTime::now().duration_since(time).ok());
    if age.is_none_or(|age| age >= LIVE) {
        return Ok(());
    }
    let now = Timestamp::now();
    let age = |time: Timestamp| now.duration_since(time).unsigned_abs();
    // Not all lines have a time, so the last one may tell nothing.
    let recent = window.scan.outlines.iter().enumerate().rev();
    let mut recent = recent.filter_map(|(at, outline)| Some((at, age(outline.time?))));
    let foreign = recent.find(|(at, age)| {
        *age < LIVE
            && window
                .entry(root, &file.artifact, *at)
                .is_some_and(|entry| entry.program.as_deref() != Some(PROGRAM))
    });
    match foreign {
        None => Ok(()),
        Some((_, age)) => Err(Error::refused(format!(
            "{} is being written by another program (last entry {} s ago)",
            file.path.display(),
            age.as_secs()
        ))),
    }
}
