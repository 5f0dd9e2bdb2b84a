//! Logs that several sessions share: assigns line ranges to sessions.
//!
//! A record belongs to the session that it names, or else to the session of the record before it.
//! At the beginning of a file, that is the file's own session, or the last session of the previous
//! volume if the file continues in the middle of a turn.
//!
//! Because of this rule, the end of a file is enough to determine the session of its last records.
//!
//! A fork by reference has only its own records: the beginning of its parent's log is added as an
//! earlier volume (`history`).

mod agents;
mod history;
mod slice_cache;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::error::Error;
use annals_layouts::layout::{AGENT_SEPARATOR, Decoded, Decoder, Record};
use annals_layouts::model::{AgentId, Fact, HistoryBase, Outline, OutlineKind, SessionId, Span};

use super::content_cache::ContentCache;
use super::inventory::RootFile;
use super::record_source::SharedSource;
use super::{Root, log_reader};

pub(super) use agents::{agent_in_log, has_agent};
pub(crate) use history::MAX_DEPTH;

/// Maximum pause within a turn that continues in the next volume.
const SAME_TURN: Duration = Duration::from_secs(12 * 60 * 60);

/// Part of a file that belongs to one session.
#[derive(Clone, Debug)]
pub struct SessionSlice {
    /// Session name as in the records.
    pub(crate) name: SessionId,
    /// Line ranges of the session, in order.
    pub(crate) ranges: Arc<[LineRange]>,
    /// Offset up to which the ranges are known. Later records must be read.
    pub(crate) known_end: u64,
    /// Number of lines before that offset.
    pub(crate) lines: u64,
    /// Whether records before the first named session belong to this session.
    pub(crate) owns_start: bool,
    /// Whether another session has these records too, and is charged for them.
    pub(crate) copied: bool,
}

/// Adjacent lines of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineRange {
    /// Byte range of the lines.
    pub(crate) bytes: Range<u64>,
    /// Number of the first line.
    pub(crate) line: u64,
}

impl SessionSlice {
    /// Creates the slice of a session without records in the file.
    pub(super) fn empty(name: SessionId) -> Self {
        SessionSlice {
            name,
            ranges: Arc::new([]),
            known_end: 0,
            lines: 0,
            owns_start: false,
            copied: false,
        }
    }

    /// Creates the slice of a file's own session, before the file is read.
    pub(super) fn unread(own: SessionId) -> Self {
        SessionSlice {
            owns_start: true,
            ..SessionSlice::empty(own)
        }
    }

    /// Total length of the ranges.
    pub(super) fn bytes(&self) -> u64 {
        let stretches = self.ranges.iter();
        stretches
            .map(|part| part.bytes.end - part.bytes.start)
            .sum()
    }
}

/// Selects a session's records from a file that is read in order, from its beginning or from a
/// known offset.
#[derive(Debug)]
pub(super) struct SliceFilter {
    slice: SessionSlice,
    /// Index of the first range that ends after the last tested record.
    at: usize,
    /// Whether the last record belongs to the session.
    last_is_own: bool,
}

impl SliceFilter {
    pub(super) fn new(share: &SessionSlice) -> Self {
        let ends = share.ranges.last().map_or(0, |last| last.bytes.end);
        SliceFilter {
            slice: share.clone(),
            at: 0,
            last_is_own: match share.known_end {
                0 => share.owns_start,
                known => ends == known,
            },
        }
    }

    /// Treats records as foreign until one names its session.
    pub(super) fn start_unknown(&mut self) {
        self.last_is_own = false;
    }

    /// Marks the last record as the session's own.
    pub(super) fn set_own(&mut self) {
        self.last_is_own = true;
    }

    /// Returns whether the last record belongs to the session.
    pub(super) fn last_is_own(&self) -> bool {
        self.last_is_own
    }

    /// Returns whether a record belongs to the session. Calls `name` for the session that it names
    /// only if needed.
    pub(super) fn accepts(
        &mut self,
        offset: u64,
        name: impl FnOnce() -> Option<SessionId>,
    ) -> bool {
        if offset >= self.slice.known_end {
            if let Some(name) = name() {
                self.last_is_own = name == self.slice.name;
            }
            return self.last_is_own;
        }
        let stretches = &self.slice.ranges;
        while stretches
            .get(self.at)
            .is_some_and(|part| part.bytes.end <= offset)
        {
            self.at += 1;
        }
        stretches
            .get(self.at)
            .is_some_and(|part| part.bytes.contains(&offset))
    }
}

/// Returns the session that a record names.
pub(super) fn record_session(decoder: &mut dyn Decoder, record: &Record<'_>) -> Option<SessionId> {
    let mut sink = Decoded::default();
    decoder.outline(record, &mut sink);
    sink.items.iter().rev().find_map(outline_session)
}

fn outline_session(outline: &Outline) -> Option<SessionId> {
    outline.facts.iter().find_map(|fact| match fact {
        Fact::Session(id) => SessionId::new(id).ok(),
        _ => None,
    })
}

/// Splits shared logs by session. The files must be in path order, which is the order of their
/// days.
pub(super) fn split_by_session(
    root: &Root,
    files: Vec<RootFile>,
    cache: &mut dyn ContentCache,
    troubles: &mut Vec<Error>,
) -> Vec<(SessionId, RootFile)> {
    let mut found = Vec::new();
    let mut bases = HashMap::new();
    let source = SharedSource::default();
    let mut before: Option<(Option<String>, VolumeEnd)> = None;
    for file in files {
        let folder = file.artifact.folder.clone();
        let last = before.take().filter(|(of, _)| *of == folder);
        let last = last.as_ref().map(|(_, ending)| ending);
        match slice_cache::read(root, &file, last, cache) {
            Err(error) => troubles.push(error),
            Ok(mut shares) => {
                before = shares.volume_end().map(|ending| (folder, ending));
                bases.extend(std::mem::take(&mut shares.bases));
                found.extend(shares.files(&file, &source));
            }
        }
    }
    match bases.is_empty() {
        true => found,
        false => history::add_bases(found, &bases, troubles),
    }
}

/// Last session and newest time of a volume.
#[derive(Debug)]
pub(super) struct VolumeEnd {
    pub(super) session: SessionId,
    pub(super) time: Option<Timestamp>,
}

struct SessionSlices {
    /// In the order of their first records.
    sessions: Vec<(SessionId, Vec<LineRange>)>,
    places: HashMap<SessionId, usize>,
    current: usize,
    /// What the sessions of the log continue.
    bases: Vec<(SessionId, HistoryBase)>,
    time: Option<Timestamp>,
    len: u64,
    lines: u64,
    /// Whether the last line has a line ending.
    terminated: bool,
}

impl SessionSlices {
    /// Reads a log, or the part of it after the known slices.
    fn read(
        root: &Root,
        file: &RootFile,
        before: Option<&VolumeEnd>,
        known: Option<SessionSlices>,
    ) -> crate::Result<Self> {
        let own = file.artifact.session.as_ref();
        let mut shares = known.unwrap_or_else(|| SessionSlices {
            sessions: Vec::new(),
            places: HashMap::new(),
            current: 0,
            bases: Vec::new(),
            time: None,
            len: 0,
            lines: 0,
            terminated: true,
        });
        let (from, lines) = (shares.len, shares.lines);
        if from > 0 && from == file.id.len {
            return Ok(shares);
        }
        let mut decoder = root.decoder(file);
        let mut sink: Decoded<Outline> = Decoded::default();
        log_reader::each_line_from(file, from, |record| {
            decoder.outline(record, &mut sink);
            let first = sink.items.first();
            // The log's own session may begin before the first record, which belongs to another
            // session.
            let mut named = false;
            for session in sink.items.iter().filter_map(outline_session) {
                shares.switch_to(&session);
                named = true;
            }
            match named {
                true => {}
                false if shares.sessions.is_empty() => {
                    let goes_on = first.is_some_and(|first| {
                        let answers =
                            first.kind == OutlineKind::Assistant || !first.results.is_empty();
                        continues_turn(answers, first.time, before)
                    });
                    let owner = before.filter(|_| goes_on).map(|before| &before.session);
                    if let Some(owner) = owner.or(own) {
                        shares.switch_to(owner);
                    }
                }
                false => {}
            }
            shares.extend(Span {
                line: lines + record.span.line,
                ..record.span
            });
            shares.terminated = record.terminated;
            for outline in sink.items.drain(..) {
                shares.time = shares.time.max(outline.time);
                let base = outline.facts.into_iter().find_map(|fact| match fact {
                    Fact::HistoryBase(base) => Some(*base),
                    _ => None,
                });
                let session = shares.sessions.get(shares.current);
                shares
                    .bases
                    .extend(session.map(|(id, _)| id.clone()).zip(base));
            }
            sink.flaws.clear();
            Ok(true)
        })?;
        if let Some(own) = own.filter(|_| shares.sessions.is_empty()) {
            shares.switch_to(own);
        }
        Ok(shares)
    }

    fn switch_to(&mut self, session: &SessionId) {
        let next = self.sessions.len();
        let at = *self.places.entry(session.clone()).or_insert(next);
        if at == next {
            self.sessions.push((session.clone(), Vec::new()));
        }
        self.current = at;
    }

    fn extend(&mut self, span: Span) {
        self.len = span.end();
        self.lines = span.line;
        let Some((_, stretches)) = self.sessions.get_mut(self.current) else {
            return;
        };
        match stretches.last_mut() {
            Some(last) if last.bytes.end == span.offset => last.bytes.end = span.end(),
            _ => stretches.push(LineRange {
                bytes: span.offset..span.end(),
                line: span.line,
            }),
        }
    }

    fn volume_end(&self) -> Option<VolumeEnd> {
        let (session, _) = self.sessions.get(self.current)?;
        Some(VolumeEnd {
            session: session.clone(),
            time: self.time,
        })
    }

    fn files(
        self,
        file: &RootFile,
        source: &SharedSource,
    ) -> impl Iterator<Item = (SessionId, RootFile)> {
        let (len, lines) = (self.len, self.lines);
        let is_shared = self.sessions.len() > 1;
        self.sessions.into_iter().map(move |(name, stretches)| {
            let mut part = file.clone();
            let (session, agent) = parse_owner(&name);
            part.artifact.agent = agent;
            if is_shared {
                part.source.get_or_insert_with(|| source.clone());
            }
            part.slice = Some(Box::new(SessionSlice {
                name,
                ranges: stretches.into(),
                known_end: len,
                lines,
                owns_start: false,
                copied: false,
            }));
            (session, part)
        })
    }
}

/// Returns whether a volume begins in the middle of a turn: with an answer, soon after the end of
/// the previous volume.
pub(super) fn continues_turn(
    answers: bool,
    time: Option<Timestamp>,
    before: Option<&VolumeEnd>,
) -> bool {
    let soon = before.and_then(|before| {
        let pause = time?.duration_since(before.time?);
        Some(pause.unsigned_abs() < SAME_TURN)
    });
    answers && soon == Some(true)
}

/// Splits a name in a record into session and sub-agent.
pub(super) fn parse_owner(name: &SessionId) -> (SessionId, Option<AgentId>) {
    let parts = name
        .as_str()
        .rsplit_once(AGENT_SEPARATOR)
        .and_then(|(session, agent)| {
            Some((SessionId::new(session).ok()?, AgentId::new(agent).ok()?))
        });
    match parts {
        Some((session, agent)) => (session, Some(agent)),
        None => (name.clone(), None),
    }
}

/// Returns the name of a sub-agent's records in a shared log.
pub(super) fn agent_name(session: &SessionId, agent: &AgentId) -> crate::Result<SessionId> {
    Ok(SessionId::new(&format!(
        "{session}{AGENT_SEPARATOR}{agent}"
    ))?)
}
