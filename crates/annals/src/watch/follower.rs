//! The follower: from hints to logs, from logs to entries.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::store::{LocatedEntry, Store};
use annals_jsonl::FileId;
use annals_layouts::model::{Artifact, Entry, EntryId, EntryKey, Framing};

use super::events::{self, EventSource, HintKind};
use super::log_cursor::{LogCursor, ReadBatch};
use super::position::FollowPosition;
use super::recent::{self, NewestEntries};
use super::selection::{LogMatch, Selection};
use super::watched_dirs::{ScanEvent, WatchedDirs, WatchedRoot};
use super::{Event, FollowOptions, FollowedEntry, FollowedLog, Stopper};

/// Number of existing logs whose ends are saved, newest first, to recognize a copy that replaces
/// one.
const MAX_REMEMBERED_LOGS: usize = 2_000;

/// Number of these that may be sessions of databases: no copy replaces one, and its end is known only
/// if all of it is read.
const MAX_REMEMBERED_SESSIONS: usize = 20;

/// Pause between two polls, as a multiple of the time that a poll takes.
const SCAN_TIME_SHARE: u32 = 50;

/// Maximum pause between two polls.
const MAX_SCAN_PAUSE: Duration = Duration::from_secs(2);

/// Blocking iterator over the entries that are written to logs.
///
/// It ends only when it is [stopped](Stopper::stop).
pub struct Follower {
    selection: Selection,
    options: FollowOptions,
    dirs: WatchedDirs,
    cursors: Vec<LogCursor>,
    by_path: HashMap<PathBuf, usize>,
    /// Last log of each file, by device and inode, to recognize a renamed file.
    by_inode: HashMap<(u64, u64), usize>,
    /// Logs that are queued for reading.
    dirty: VecDeque<usize>,
    events: VecDeque<Event>,
    /// Number of the current scan.
    scan: u64,
    /// Time of the next poll.
    next_scan: Option<Instant>,
    recent_entries: RecentEntries,
    /// Time when following began.
    since: Timestamp,
    started: bool,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("logs", &self.cursors.len())
            .field("waiting", &self.dirty.len())
            .finish_non_exhaustive()
    }
}

impl Follower {
    /// Begins to follow: sets watches, records the length of every log, and reads the last entries
    /// if requested. Everything written from then on is reported.
    ///
    /// Roots need not exist yet.
    pub fn new(store: &Store, selection: Selection, options: FollowOptions) -> Result<Self> {
        let mut places: Vec<WatchedRoot> = Vec::new();
        let roots = store.roots().iter().map(|root| WatchedRoot {
            root: root.clone(),
            single_log: None,
        });
        for place in roots.chain(selection.extra_roots()) {
            let known = |other: &WatchedRoot| {
                other.root.path == place.root.path
                    && other.root.layout.name() == place.root.layout.name()
                    && other.single_log == place.single_log
            };
            let wanted = selection.accepts_layout(place.root.layout.name());
            if wanted && !places.iter().any(known) {
                places.push(place);
            }
        }
        let (source, trouble) = EventSource::new(!options.poll)
            .map_err(|error| Error::io("follow", "the logs", error))?;
        let mut follower = Follower {
            dirs: WatchedDirs::new(places, source, options.max_watches),
            selection,
            options,
            cursors: Vec::new(),
            by_path: HashMap::new(),
            by_inode: HashMap::new(),
            dirty: VecDeque::new(),
            events: VecDeque::new(),
            scan: 1,
            next_scan: None,
            recent_entries: RecentEntries::default(),
            since: Timestamp::now(),
            started: false,
        };
        if let Some(error) = trouble {
            let why = events::watch_error_text(&error);
            follower.events.push_back(Event::Polling { reason: why });
        }
        follower.begin()?;
        Ok(follower)
    }

    /// Returns a handle that stops it from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(self.dirs.source.stop()))
    }

    /// Returns the next event if there is one; never waits. On `None`, flush buffered output before
    /// calling [`next`](Iterator::next), which waits.
    pub fn next_ready(&mut self) -> Option<Event> {
        if self.is_stopped() {
            return None;
        }
        if let Some(event) = self.take_event() {
            return Some(event);
        }
        if let Err(error) = self.read_hints(false) {
            return Some(Event::Error(error));
        }
        // Each log gets one turn: some may be written to constantly without producing an event.
        for _ in 0..self.dirty.len() {
            if !self.events.is_empty() {
                break;
            }
            if let Some(at) = self.dirty.pop_front() {
                self.read(at);
            }
        }
        self.take_event()
    }

    fn is_stopped(&self) -> bool {
        self.dirs.source.stop().is_stopped()
    }

    /// Returns the position after the last event. `None` if more logs are followed than a position
    /// may have, or if one of them is no log of lines.
    pub fn position(&self) -> Option<FollowPosition> {
        let mut position = FollowPosition::default();
        let mut logs = 0;
        for track in self.cursors.iter().filter(|track| !track.gone) {
            logs += 1;
            let is_log = track.log.artifact.framing == Framing::Lines;
            if !is_log || logs > FollowPosition::MAX_LOGS {
                return None;
            }
            position.push(&track.log.path, &track.id, track.reported);
        }
        Some(position)
    }

    /// Takes the next event, and records what it reports.
    fn take_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        let record = |event: &Event| match event {
            Event::Entry(entry) => Some((entry.log.path.clone(), entry.entry.span)),
            _ => None,
        };
        let reported = match &event {
            Event::Reset { log, .. } => Some((log.path.clone(), 0)),
            // The next entry may be of the same record.
            event => record(event).map(|(path, span)| {
                let next = self.events.front().and_then(record);
                let is_last =
                    next.is_none_or(|next| (&next.0, next.1.offset) != (&path, span.offset));
                let offset = if is_last { span.end() } else { span.offset };
                (path, offset)
            }),
        };
        if let Some((path, offset)) = reported
            && let Some(at) = self.by_path.get(&path)
            && let Some(track) = self.cursors.get_mut(*at)
        {
            let before = match event {
                Event::Reset { .. } => 0,
                _ => track.reported,
            };
            track.reported = before.max(offset);
        }
        Some(event)
    }

    /// Returns the number of followed logs.
    pub fn logs(&self) -> usize {
        self.cursors.iter().filter(|track| !track.gone).count()
    }

    /// Returns the requested projects that were not found so far.
    pub fn unknown_projects(&self) -> impl Iterator<Item = &str> {
        self.selection.unknown_projects()
    }

    fn begin(&mut self) -> Result<()> {
        let started = Instant::now();
        let mut scan_events = Vec::new();
        self.dirs.scan_all(&mut scan_events);
        if self.selection.needs_projects() {
            self.find_projects(&scan_events);
        }
        self.apply_scan(scan_events);
        self.schedule_scan(started);
        let mut newest_first: Vec<usize> = (0..self.cursors.len()).collect();
        let mtime = |at: &usize| self.cursors.get(*at).map(|track| track.id.mtime_ns);
        crate::sort::by_key(&mut newest_first, |at| std::cmp::Reverse(mtime(at)));
        let is_row = |at: usize| {
            let log = self.cursors.get(at).map(|track| &track.log);
            log.is_some_and(|log| matches!(log.artifact.framing, Framing::Rows(_)))
        };
        let remembered = newest_first.iter().take(MAX_REMEMBERED_LOGS).enumerate();
        let remembered =
            remembered.filter(|(rank, at)| *rank < MAX_REMEMBERED_SESSIONS || !is_row(**at));
        let remembered: Vec<usize> = remembered.map(|(_, at)| *at).collect();
        for at in remembered {
            let remembered = self.cursors.get_mut(at).map(LogCursor::save_end_mark);
            if let Some(Err(error)) = remembered {
                self.events.push_back(Event::Error(error));
            }
        }
        for track in &mut self.cursors {
            track.reported = track.offset();
        }
        match self.options.since.take() {
            Some(position) => self.read_since(&position),
            None => self.emit_last(&newest_first),
        }
        self.events.push_back(Event::CaughtUp);
        self.started = true;
        Ok(())
    }

    /// Reads what was written after a position.
    fn read_since(&mut self, position: &FollowPosition) {
        for at in 0..self.cursors.len() {
            let Some(track) = self.cursors.get_mut(at) else {
                continue;
            };
            let end = track.offset();
            let from = position.offset(&track.log.path, &track.id);
            // A log that was cut is another one.
            let from = if from <= end { from } else { 0 };
            if from < end {
                track.go_back_to(from);
                track.reported = from;
                self.queue(at);
            }
        }
        while let Some(at) = self.dirty.pop_front() {
            self.read(at);
        }
    }

    /// Determines the projects of the folders that contain the found logs.
    fn find_projects(&mut self, scan_events: &[ScanEvent]) {
        let mut folders: HashMap<_, Vec<(i64, FollowedLog)>> = HashMap::new();
        for scan_event in scan_events {
            let ScanEvent::Log {
                place,
                path,
                artifact,
                id,
            } = scan_event
            else {
                continue;
            };
            if let Some(log) = self.log(*place, path, artifact) {
                let folder = (*place, artifact.folder.clone());
                folders.entry(folder).or_default().push((id.mtime_ns, log));
            }
        }
        for mut logs in folders.into_values() {
            crate::sort::by_key(&mut logs, |(time, _)| std::cmp::Reverse(*time));
            if let Some((_, first)) = logs.first() {
                let logs = logs.iter().map(|(_, log)| log);
                self.selection.check_folder(first, logs);
            }
        }
    }

    fn log(&self, place: usize, path: &Path, artifact: &Artifact) -> Option<FollowedLog> {
        Some(FollowedLog {
            root: self.dirs.roots.get(place)?.root.clone(),
            path: path.to_owned(),
            artifact: artifact.clone(),
        })
    }

    /// Emits the last entries of all logs together.
    fn emit_last(&mut self, newest_first: &[usize]) {
        let most = self.options.last;
        if most == 0 {
            return;
        }
        let counts = Arc::clone(&self.options.filter);
        let mut newest = NewestEntries::new(most);
        for &at in newest_first {
            let Some(track) = self.cursors.get_mut(at) else {
                continue;
            };
            let since = newest.since();
            let mtime = Timestamp::from_nanosecond(track.id.mtime_ns.into()).ok();
            if since.is_some() && mtime < since {
                break;
            }
            match Self::last_entries(&mut self.selection, track, most, since, &*counts) {
                Ok(located) => newest.add(at, located),
                Err(error) => self.events.push_back(Event::Error(error)),
            }
        }
        for held in newest.into_held() {
            self.emit(held.track, held.located, true);
        }
    }

    /// Returns the last entries of one log that pass the filter.
    fn last_entries(
        selection: &mut Selection,
        track: &mut LogCursor,
        most: usize,
        since: Option<Timestamp>,
        counts: &dyn Fn(&Entry) -> bool,
    ) -> Result<Vec<LocatedEntry>> {
        let log = Arc::clone(&track.log);
        let look = selection.match_log(&log) == LogMatch::CheckEntries;
        // The owner of an entry may depend on all entries before it, so more are read.
        let (wanted, since) = match look {
            false => (most, since),
            true => (most.saturating_mul(20).max(1_000), None),
        };
        track.save_end_mark()?;
        let end = track.offset();
        let Some(begin) = recent::find_start(&log, end, wanted, since, counts)? else {
            return Ok(Vec::new());
        };
        track.go_back_to(begin);
        let mut found = Vec::new();
        loop {
            let ReadBatch { located, more, .. } = track.read_batch()?;
            found.extend(located);
            if !more {
                break;
            }
        }
        if look {
            found.retain(|located| selection.accepts(&log, located));
        }
        found.retain(|located| counts(&located.entry));
        let surplus = found.len().saturating_sub(most);
        found.drain(..surplus);
        Ok(found)
    }

    /// Applies the results of a scan.
    fn apply_scan(&mut self, scan_events: Vec<ScanEvent>) {
        for scan_event in scan_events {
            match scan_event {
                ScanEvent::Log {
                    place,
                    path,
                    artifact,
                    id,
                } => self.update_log(place, path, &artifact, id),
                ScanEvent::Gone(path) => {
                    self.mark_gone(|track| track.log.path.starts_with(&path), &path)
                }
                ScanEvent::DirScanned(path) => {
                    let scan = self.scan;
                    self.mark_gone(
                        |track| track.seen != scan && track.log.path.starts_with(&path),
                        &path,
                    );
                    self.scan += 1;
                }
                ScanEvent::Error(error) => self.events.push_back(Event::Error(error)),
                ScanEvent::Polling(why) => self.events.push_back(Event::Polling { reason: why }),
            }
        }
    }

    fn update_log(&mut self, place: usize, path: PathBuf, artifact: &Artifact, id: FileId) {
        if let Some(&at) = self.by_path.get(&path) {
            if let Some(track) = self.cursors.get_mut(at) {
                track.seen = self.scan;
                if track.gone || !id.untouched(&track.id) {
                    self.queue(at);
                }
            }
            return;
        }
        let Some(log) = self.log(place, &path, artifact) else {
            return;
        };
        if self.selection.needs_projects() && self.started {
            self.selection.check_folder(&log, std::iter::once(&log));
        }
        let verdict = self.selection.match_log(&log);
        if verdict == LogMatch::No {
            return;
        }
        let log = Arc::new(log);
        let at = self.cursors.len();
        let mut track = match self.started {
            false => LogCursor::from_end(Arc::clone(&log), id),
            true => {
                let before = self.by_inode.get(&(id.dev, id.ino)).copied();
                let before = before.and_then(|at| self.cursors.get_mut(at));
                // Two names for one file are not a rename.
                let before = before.filter(|track| track.gone || !track.log.path.exists());
                let moved =
                    before.and_then(|before| LogCursor::from_moved(Arc::clone(&log), before));
                moved.unwrap_or_else(|| LogCursor::from_start(Arc::clone(&log)))
            }
        };
        track.seen = self.scan;
        // A log whose entries must be checked first is not announced yet.
        track.announced = !self.started || verdict == LogMatch::Yes;
        self.cursors.push(track);
        self.by_path.insert(path, at);
        self.by_inode.insert((id.dev, id.ino), at);
        if self.started {
            if verdict == LogMatch::Yes {
                self.events.push_back(Event::Began { log });
            }
            self.queue(at);
        }
    }

    fn queue(&mut self, at: usize) {
        if let Some(track) = self.cursors.get_mut(at).filter(|track| !track.queued) {
            track.queued = true;
            self.dirty.push_back(at);
        }
    }

    /// Marks logs as gone. `path` is the path of a log or of a directory above.
    fn mark_gone(&mut self, lost: impl Fn(&LogCursor) -> bool, path: &Path) {
        // The path of a single log is the usual case.
        if let Some(&at) = self.by_path.get(path) {
            if self.cursors.get(at).is_some_and(lost) {
                self.mark_one_gone(at);
            }
            return;
        }
        for at in 0..self.cursors.len() {
            if self
                .cursors
                .get(at)
                .is_some_and(|track| !track.gone && lost(track))
            {
                self.mark_one_gone(at);
            }
        }
    }

    fn mark_one_gone(&mut self, at: usize) {
        if let Some(track) = self.cursors.get_mut(at).filter(|track| !track.gone) {
            track.gone = true;
            if track.announced {
                let log = Arc::clone(&track.log);
                self.events.push_back(Event::Gone { log });
            }
        }
    }

    /// Reads the next batch of one log.
    fn read(&mut self, at: usize) {
        let Some(track) = self.cursors.get_mut(at) else {
            return;
        };
        track.queued = false;
        let (before, announced) = (track.id, track.announced);
        let log = Arc::clone(&track.log);
        let turn = track.read_batch();
        if !track.id.same_file(&before) {
            self.by_inode.insert((track.id.dev, track.id.ino), at);
        }
        match turn {
            Err(error) => self.events.push_back(Event::Error(error)),
            Ok(turn) if turn.missing => self.mark_one_gone(at),
            Ok(turn) => {
                if let Some(why) = turn.reset.filter(|_| announced) {
                    let log = Arc::clone(&log);
                    self.events.push_back(Event::Reset { log, reason: why });
                }
                for located in turn.located {
                    let looks = self.selection.match_log(&log) != LogMatch::Yes;
                    if !looks || self.selection.accepts(&log, &located) {
                        self.emit(at, located, false);
                    }
                }
                if turn.more {
                    self.queue(at);
                }
            }
        }
    }

    fn emit(&mut self, at: usize, located: LocatedEntry, earlier: bool) {
        let Some(track) = self.cursors.get_mut(at) else {
            return;
        };
        let origin = self.recent_entries.origin(at, &located.entry);
        if located.entry.copied && origin.is_some() {
            return;
        }
        if track.came_later && !earlier {
            let time = located.entry.time;
            let before = time.map_or(track.earlier, |time| time < self.since);
            track.earlier = before || origin.is_some_and(|origin| origin != at);
        }
        if !track.announced {
            track.announced = true;
            let log = Arc::clone(&track.log);
            self.events.push_back(Event::Began { log });
        }
        self.events.push_back(Event::Entry(Box::new(FollowedEntry {
            log: Arc::clone(&track.log),
            session: located.session,
            agent: located.agent,
            entry: located.entry,
            charge: located.charge,
            updated: located.updated,
            earlier: earlier || track.earlier,
        })));
    }

    /// Processes kernel hints; waits for them if `wait` is set.
    fn read_hints(&mut self, wait: bool) -> Result<()> {
        let until = self.next_scan.filter(|_| self.dirs.must_poll());
        let timeout = match (wait, until) {
            (false, _) => Some(Duration::ZERO),
            (true, until) => until.map(|until| until.saturating_duration_since(Instant::now())),
        };
        let mut hints = Vec::new();
        let waited = self.dirs.source.wait(timeout, &mut hints);
        waited.map_err(|error| Error::io("follow", "the logs", error))?;
        let mut scan_events = Vec::new();
        // A log that was written to a hundred times is checked once.
        let mut written = HashSet::new();
        for hint in &hints {
            let again =
                hint.kind == HintKind::Changed && !written.insert((hint.watch, hint.name.as_ref()));
            if hint.kind != HintKind::Changed {
                written.clear();
            }
            if !again {
                self.dirs.scan_hint(hint, &mut scan_events);
            }
        }
        if self.dirs.must_poll() && until.is_none_or(|until| until <= Instant::now()) {
            let started = Instant::now();
            self.dirs.scan_polled(&mut scan_events);
            self.schedule_scan(started);
        }
        self.apply_scan(scan_events);
        Ok(())
    }

    /// Schedules the next poll, after one that began at `started`.
    fn schedule_scan(&mut self, started: Instant) {
        let pause = started.elapsed().saturating_mul(SCAN_TIME_SHARE);
        let shortest = self.options.poll_every;
        let pause = pause.clamp(shortest, MAX_SCAN_PAUSE.max(shortest));
        self.next_scan = Some(Instant::now() + pause);
    }
}

impl Iterator for Follower {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(event) = self.next_ready() {
                return Some(event);
            }
            // Queued logs must not wait for more hints.
            if self.dirty.is_empty()
                && let Err(error) = self.read_hints(true)
            {
                return Some(Event::Error(error));
            }
        }
    }
}

/// Recently emitted entries, to recognize the copies that a fork starts with.
#[derive(Default)]
struct RecentEntries {
    order: VecDeque<EntryKey>,
    known: HashMap<EntryKey, (usize, Option<Timestamp>)>,
}

impl RecentEntries {
    const MOST: usize = 16_384;

    /// Returns the log from which the same entry was emitted first. Records entries not emitted
    /// before.
    fn origin(&mut self, at: usize, entry: &Entry) -> Option<usize> {
        let key = entry.id.as_ref().map(EntryId::key)?;
        let known = self.known.get(&key);
        if entry.copied {
            return known.map(|(origin, _)| *origin);
        }
        if let Some((origin, time)) = known {
            return Some(*origin).filter(|_| *time == entry.time);
        }
        self.known.insert(key, (at, entry.time));
        self.order.push_back(key);
        while self.order.len() > Self::MOST {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
        None
    }
}
