//! Reads a log from any offset, and determines the session and the parent of each record.
//!
//! Both may depend on earlier records. If reading starts in the middle of a log, these are read
//! backwards, as far as needed and only when a record requires it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::cost::{Charge, LogCharges};
use crate::error::{Error, Result};
use annals_jsonl::{FileId, OpenLog, RangeReader, ReadAt as _, Scanner, TailReader};
use annals_layouts::layout::{Decoded, Decoder, Record};
use annals_layouts::model::{
    AgentId, Artifact, ArtifactKind, Body, Entry, EntryId, EntryKey, Link, Outline, OutlineKind,
    Role, SessionId,
};

use super::call_pairing::CallPairing;
use super::inventory::{self, RootFile};
use super::log_reader::{self, LogOpening};
use super::record_source;
use super::shared_log;
use super::{Inventory, Root, info};
use annals_layouts::layout::in_tree;

/// An entry with its session and agent.
#[derive(Debug)]
pub(crate) struct LocatedEntry {
    pub(crate) session: SessionId,
    pub(crate) agent: Option<AgentId>,
    pub(crate) entry: Entry,
    /// The charge of its response, if the entry reports one.
    pub(crate) charge: Option<Charge>,
    /// Whether it is a later state of an entry that was read before.
    pub(crate) updated: bool,
}

/// Reads the records of one log in order, from any offset.
pub(crate) struct IncrementalReader {
    root: Root,
    path: PathBuf,
    artifact: Artifact,
    decoder: Box<dyn Decoder>,
    outliner: Box<dyn Decoder>,
    /// The session name of the previous record, once known.
    name: Option<SessionId>,
    /// The last message of each owner. Loaded on demand.
    last: HashMap<MessageOwner, Option<EntryId>>,
    /// Calls without an id that were read.
    pairing: CallPairing<String>,
}

/// Owner of a message, a session or sub-agent. The parent is the owner's previous message.
type MessageOwner = (SessionId, Option<AgentId>);

impl IncrementalReader {
    pub(crate) fn new(root: &Root, path: &Path, artifact: &Artifact) -> Self {
        IncrementalReader {
            root: root.clone(),
            path: path.to_owned(),
            artifact: artifact.clone(),
            decoder: root.decoder_at(path, artifact),
            outliner: root.decoder_at(path, artifact),
            name: None,
            last: HashMap::new(),
            pairing: CallPairing::default(),
        }
    }

    /// Reads a record of the log, which is open as `handle`.
    pub(crate) fn read(
        &mut self,
        handle: &OpenLog,
        record: &Record<'_>,
    ) -> Result<Vec<LocatedEntry>> {
        let mut sink = Decoded::default();
        self.decoder.decode(record, &mut sink);
        let mut located = Vec::with_capacity(sink.items.len());
        let follows = self.needs_parent(record, &sink.items);
        let mut spent = self.charges(record, &sink.items);
        for mut entry in sink.items {
            self.pairing.pair_entry(&mut entry);
            let name = self.session_name(handle, record, &entry)?;
            let place = (name, entry.agent.clone().filter(|_| entry.sidechain));
            if follows && entry.parent.is_none() && in_tree(&entry) {
                entry.parent = self.last_message(handle, record.span.offset, &place)?;
            }
            if in_tree(&entry) && entry.id.is_some() {
                self.last.insert(place.clone(), entry.id.clone());
            }
            let (session, agent) = match self.artifact.kind {
                ArtifactKind::SharedLog => shared_log::parse_owner(&place.0),
                // If the path names no session, the log may be the session's own.
                _ => {
                    let agent = self.artifact.agent.clone();
                    (place.0, agent.filter(|_| self.artifact.session.is_some()))
                }
            };
            let key = entry.id.as_ref().map(EntryId::key);
            let charge = spent.iter().position(|(of, _)| *of == key);
            located.push(LocatedEntry {
                session,
                agent: agent.or_else(|| entry.agent.clone()),
                entry,
                charge: charge.map(|at| spent.swap_remove(at).1),
                updated: false,
            });
        }
        Ok(located)
    }

    /// Returns the charges that the entries of a record report, by entry.
    fn charges(&mut self, record: &Record<'_>, found: &[Entry]) -> Vec<(Option<EntryKey>, Charge)> {
        let answers = |entry: &Entry| matches!(&entry.body, Body::Message(message) if message.role == Role::Assistant);
        if !found.iter().any(answers) {
            return Vec::new();
        }
        let mut sink: Decoded<Outline> = Decoded::default();
        self.outliner.outline(record, &mut sink);
        let charge = |outline: &Outline| {
            let mut sheet = LogCharges::default();
            sheet.add(outline);
            Some((outline.key, sheet.charges(0, None).next()?))
        };
        sink.items.iter().filter_map(charge).collect()
    }

    /// Returns whether the parent of a record depends on its position.
    fn needs_parent(&mut self, record: &Record<'_>, found: &[Entry]) -> bool {
        let open = |entry: &Entry| entry.parent.is_none() && entry.id.is_some() && in_tree(entry);
        if !found.iter().any(open) {
            return false;
        }
        let mut sink: Decoded<Outline> = Decoded::default();
        self.outliner.outline(record, &mut sink);
        let mut outlines = sink.items.iter();
        outlines.any(|outline| outline.link == Link::Previous)
    }

    /// Returns the session name of an entry.
    fn session_name(
        &mut self,
        handle: &OpenLog,
        record: &Record<'_>,
        entry: &Entry,
    ) -> Result<SessionId> {
        let own = self.artifact.session.clone();
        let named = || {
            entry
                .session
                .as_deref()
                .and_then(|name| SessionId::new(name).ok())
        };
        let name = match (self.artifact.kind, own) {
            (ArtifactKind::SharedLog, own) => match (named(), &self.name) {
                (Some(name), _) => name,
                (None, Some(name)) => name.clone(),
                (None, None) => {
                    let volume = (self.path.clone(), self.artifact.clone());
                    let upto = record.span.offset;
                    owner_before(&self.root, &volume, handle, upto, MAX_DAYS_BACK)?
                        .map(|(name, _)| name)
                        .or(own)
                        .map_or_else(|| file_name(&self.path), Ok)?
                }
            },
            (_, Some(own)) => own,
            // The log of a sub-agent whose session only its content names.
            (_, None) => match &self.name {
                Some(name) => name.clone(),
                None => match named() {
                    Some(name) => name,
                    None => {
                        return self
                            .session_from_content()
                            .map_or_else(|| file_name(&self.path), Ok);
                    }
                },
            },
        };
        self.name = Some(name.clone());
        Ok(name)
    }

    fn session_from_content(&self) -> Option<SessionId> {
        let id = FileId::default();
        let file = RootFile::new(self.path.clone(), self.artifact.clone(), id);
        inventory::session_from_content(&self.root, &file)
    }

    /// Returns the owner's last message before `offset`.
    fn last_message(
        &mut self,
        handle: &OpenLog,
        offset: u64,
        place: &MessageOwner,
    ) -> Result<Option<EntryId>> {
        /// Maximum distance to the previous message.
        const REACH: u64 = 1 << 20;
        if let Some(known) = self.last.get(place) {
            return Ok(known.clone());
        }
        let shared = self.artifact.kind == ArtifactKind::SharedLog;
        let mut decoder = self.root.decoder_at(&self.path, &self.artifact);
        let mut found = None;
        each_record_backwards(&self.path, handle, offset, |record| {
            let mut sink = Decoded::default();
            decoder.decode(record, &mut sink);
            let mine = |entry: &Entry| match entry.session.as_deref().filter(|_| shared) {
                Some(name) => name == place.0.as_str(),
                None => true,
            };
            let takes = |entry: &&Entry| in_tree(entry) && entry.id.is_some() && mine(entry);
            found = sink
                .items
                .iter()
                .rev()
                .find(takes)
                .and_then(|entry| entry.id.clone());
            found.is_none() && offset - record.span.offset < REACH
        })?;
        self.last.insert(place.clone(), found.clone());
        Ok(found)
    }
}

/// Returns the file name as the id of a session that is named nowhere.
fn file_name(path: &Path) -> Result<SessionId> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    Ok(SessionId::new(stem.unwrap_or_default())?)
}

/// Maximum number of daily volumes that a turn without a session name may span.
const MAX_DAYS_BACK: usize = 30;

type Volume = (PathBuf, Artifact);

/// Returns the owner of the record before `upto` in a shared log, and the time of that record.
fn owner_before(
    root: &Root,
    (path, artifact): &Volume,
    handle: &OpenLog,
    upto: u64,
    days: usize,
) -> Result<Option<(SessionId, Option<jiff::Timestamp>)>> {
    let mut decoder = root.decoder_at(path, artifact);
    let (mut named, mut time) = (None, None);
    each_record_backwards(path, handle, upto, |record| {
        let mut sink: Decoded<Entry> = Decoded::default();
        decoder.decode(record, &mut sink);
        time = time.or(sink.items.iter().rev().find_map(|entry| entry.time));
        let names = |entry: &Entry| SessionId::new(entry.session.as_deref()?).ok();
        named = sink.items.iter().rev().find_map(names);
        named.is_none()
    })?;
    if let Some(name) = named {
        return Ok(Some((name, time)));
    }
    // No earlier record names a session: the volume may begin in the middle of a turn.
    let file = RootFile::new(path.clone(), artifact.clone(), FileId::default());
    let first = log_reader::first_outlines(root, &file)?;
    let own = artifact.session.clone().map(|own| (own, time));
    let Some((first, before)) = first
        .first()
        .zip(previous_volume(root, path))
        .filter(|_| days > 0)
    else {
        return Ok(own);
    };
    let opened = record_source::open(&before.0, before.1.framing);
    let open = root.failures.ok_io(&before.0, opened);
    let end = open
        .as_ref()
        .and_then(|open| root.failures.ok_io(&before.0, open.size()));
    let Some((open, end)) = open.zip(end) else {
        return Ok(own);
    };
    let Some((session, ended)) = owner_before(root, &before, &open, end, days - 1)? else {
        return Ok(own);
    };
    let answers = first.kind == OutlineKind::Assistant || !first.results.is_empty();
    let ending = shared_log::VolumeEnd {
        session,
        time: ended,
    };
    match shared_log::continues_turn(answers, first.time, Some(&ending)) {
        true => Ok(Some((ending.session, time))),
        false => Ok(own),
    }
}

/// Returns the volume before the one at `path`.
fn previous_volume(root: &Root, path: &Path) -> Option<Volume> {
    let volume = |path: PathBuf| {
        let artifact = root.layout.classify(path.strip_prefix(&root.path).ok()?)?;
        (artifact.kind == ArtifactKind::SharedLog).then_some((path, artifact))
    };
    let beside = root.failures.read_dir(path.parent()?).into_iter();
    let before = beside.map(|entry| entry.path());
    let before = before.filter(|other| other.as_os_str() < path.as_os_str());
    before.filter_map(volume).max_by(|(a, _), (b, _)| a.cmp(b))
}

/// Passes the records before `upto` to `visit`, the last one first, until it returns `false`.
pub(crate) fn each_record_backwards(
    path: &Path,
    handle: &OpenLog,
    upto: u64,
    mut visit: impl FnMut(&Record<'_>) -> bool,
) -> Result<()> {
    let failed = |error| Error::io("read", path, error);
    let mut lines = TailReader::new(RangeReader::between(handle, 0, upto)).map_err(failed)?;
    while let Some(line) = lines.prev().map_err(failed)? {
        let record = log_reader::record_from_tail_line(&line);
        if !visit(&record) {
            break;
        }
    }
    Ok(())
}

/// Returns the working directories of a folder's sessions, from the beginnings of some logs, else
/// from the session list or the root's location.
pub(crate) fn working_directories<'a>(
    root: &Root,
    folder: Option<&str>,
    logs: impl Iterator<Item = (&'a Path, &'a Artifact)>,
) -> Vec<String> {
    const LOOKED_AT: usize = 3;
    let mut directories: Vec<String> = Vec::new();
    for (path, artifact) in logs.take(LOOKED_AT) {
        let file = RootFile::new(path.to_owned(), artifact.clone(), FileId::default());
        let opening = root.failures.ok(LogOpening::read(root, &file));
        let opening = opening.unwrap_or_default();
        directories.extend(opening.directories.iter().map(|path| path.to_string()));
    }
    if directories.is_empty() && root.layout.project_dir().is_some() {
        let inventory = Inventory::scan(std::slice::from_ref(root));
        let mut same = inventory.sessions.iter();
        let listed = same.find(|files| files.folder() == folder);
        directories.extend(listed.and_then(|files| files.listed(|about| about.cwd.clone())));
        directories.extend(info::enclosing_project(root));
    }
    directories
}

/// Passes the lines of an open file from `offset` on to `visit`, until it returns `false`. Line
/// numbers are unknown.
pub(crate) fn each_line_of_open_file(
    path: &Path,
    handle: &OpenLog,
    offset: u64,
    mut visit: impl FnMut(&Record<'_>) -> Result<bool>,
) -> Result<()> {
    /// The buffer is kept for reuse unless a line has this length.
    const KEPT: u64 = 4 << 20;
    thread_local! {
        static SCANNER: RefCell<Option<Scanner<Slot>>> = const { RefCell::new(None) };
    }
    let failed = |error| Error::io("read", path, error);
    let slot = Slot(Some(RangeReader::from_offset(handle.clone(), offset)));
    let mut lines = match SCANNER.take() {
        None => Scanner::from_offset(slot, offset, 1),
        Some(mut lines) => {
            lines.reset_to(slot, offset, 1);
            lines
        }
    };
    let mut longest = 0;
    let outcome = loop {
        let line = match lines.next() {
            Ok(Some(line)) => line,
            Ok(None) => break Ok(()),
            Err(error) => break Err(failed(error)),
        };
        let mut record = log_reader::record_from_line(&line);
        record.span.line = 0;
        longest = record.span.len.max(longest);
        match visit(&record) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // An open file pins its directories, so the kernel would not report their removal.
    lines.reset(Slot(None));
    SCANNER.set(Some(lines).filter(|_| longest < KEPT));
    outcome
}

/// A reader whose log can be taken out.
struct Slot(Option<RangeReader<OpenLog>>);

impl Read for Slot {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.as_mut().map_or(Ok(0), |log| log.read(into))
    }
}
