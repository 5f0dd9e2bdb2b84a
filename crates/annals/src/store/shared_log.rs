//! Several sessions in one file: which stretches of it are whose.
//!
//! A record belongs to the session that it names, and one that names none to that of the record
//! before it. At the beginning of a file that is the file's own session, or the one with which the
//! volume before it ended if this one goes on in the middle of a turn.

mod slice_cache;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::error::Error;
use crate::layout::{AGENT_SEPARATOR, Decoded, Decoder, Record};
use crate::model::{AgentId, Fact, Outline, OutlineKind, SessionId, Span};

use super::inventory::RootFile;
use super::{Root, log_reader};

pub(crate) use slice_cache::SliceCache;

/// A turn that goes on in the next volume does so within this time.
const SAME_TURN: Duration = Duration::from_secs(12 * 60 * 60);

/// What of a file is one session's.
#[derive(Clone, Debug)]
pub struct SessionSlice {
    /// The session as its records name it.
    pub(crate) name: SessionId,
    /// Its stretches, in order.
    pub(crate) ranges: Arc<[LineRange]>,
    /// Up to here the file is known; what follows must be looked at.
    pub(crate) known_end: u64,
    /// How many lines that is.
    pub(crate) lines: u64,
    /// Records before any that names a session are this session's.
    pub(crate) owns_start: bool,
}

/// Lines that follow each other and are one session's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineRange {
    /// Where they lie.
    pub(crate) bytes: Range<u64>,
    /// The number of the first one.
    pub(crate) line: u64,
}

impl SessionSlice {
    /// The share of a session that has nothing in the file yet.
    pub(super) fn empty(name: SessionId) -> Self {
        SessionSlice {
            name,
            ranges: Arc::new([]),
            known_end: 0,
            lines: 0,
            owns_start: false,
        }
    }

    /// The share of a file's own session, of which nothing was read yet.
    pub(super) fn unread(own: SessionId) -> Self {
        SessionSlice {
            owns_start: true,
            ..SessionSlice::empty(own)
        }
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> u64 {
        let stretches = self.ranges.iter();
        stretches
            .map(|part| part.bytes.end - part.bytes.start)
            .sum()
    }
}

/// Tells a session's records from others' in a file that is read from its beginning, or from where
/// one left off.
#[derive(Debug)]
pub(super) struct SliceFilter {
    slice: SessionSlice,
    /// The first stretch that ends after the last record asked about.
    at: usize,
    /// The last record was the session's.
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

    /// Nobody knows whose the records are, until one names its session.
    pub(super) fn start_unknown(&mut self) {
        self.last_is_own = false;
    }

    /// The last record was the session's own.
    pub(super) fn set_own(&mut self) {
        self.last_is_own = true;
    }

    /// Whether the last record was the session's own.
    pub(super) fn last_is_own(&self) -> bool {
        self.last_is_own
    }

    /// Whether a record is the session's. `name` tells which session it names, if it must be known.
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

/// The session that a record names.
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

/// Sorts the stretches of shared logs by session. The files come in the order of their paths, which
/// is that of their days.
pub(super) fn split_by_session(
    root: &Root,
    files: Vec<RootFile>,
    known: &mut SliceCache<'_>,
    troubles: &mut Vec<Error>,
) -> Vec<(SessionId, RootFile)> {
    let mut found = Vec::new();
    let mut before: Option<(Option<String>, VolumeEnd)> = None;
    for file in files {
        let folder = file.artifact.folder.clone();
        let last = before.take().filter(|(of, _)| *of == folder);
        match known.read(root, &file, last.as_ref().map(|(_, ending)| ending)) {
            Err(error) => troubles.push(error),
            Ok(shares) => {
                before = shares.volume_end().map(|ending| (folder, ending));
                found.extend(shares.files(&file));
            }
        }
    }
    known.finish_root(root);
    found
}

/// With whom, and when, a volume ended.
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
    time: Option<Timestamp>,
    len: u64,
    lines: u64,
    /// The last line has its ending.
    terminated: bool,
}

impl SessionSlices {
    /// Reads a log, or what comes behind the part of it of which the shares are known.
    fn read(
        root: &Root,
        file: &RootFile,
        before: Option<&VolumeEnd>,
        known: Option<SessionSlices>,
    ) -> crate::Result<Self> {
        let missing = || Error::refused(format!("{} names no session", file.path.display()));
        let own = file.artifact.session.clone().ok_or_else(missing)?;
        let mut shares = known.unwrap_or_else(|| SessionSlices {
            sessions: Vec::new(),
            places: HashMap::new(),
            current: 0,
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
            // The log's own session may have begun before the first record, which is another's.
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
                    shares.switch_to(owner.unwrap_or(&own));
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
            }
            sink.flaws.clear();
            Ok(true)
        })?;
        if shares.sessions.is_empty() {
            shares.switch_to(&own);
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

    fn files(self, file: &RootFile) -> impl Iterator<Item = (SessionId, RootFile)> {
        let (len, lines) = (self.len, self.lines);
        self.sessions.into_iter().map(move |(name, stretches)| {
            let mut part = file.clone();
            let (session, agent) = parse_owner(&name);
            part.artifact.agent = agent;
            part.slice = Some(Box::new(SessionSlice {
                name,
                ranges: stretches.into(),
                known_end: len,
                lines,
                owns_start: false,
            }));
            (session, part)
        })
    }
}

/// Whether a volume begins in the middle of a turn: with an answer, soon after the one before ended.
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

/// The session, and the sub-agent, that a name stands for.
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

/// The name under which a sub-agent's records stand in a shared log.
pub(super) fn agent_name(session: &SessionId, agent: &AgentId) -> crate::Result<SessionId> {
    SessionId::new(&format!("{session}{AGENT_SEPARATOR}{agent}"))
}
