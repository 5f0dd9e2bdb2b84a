//! The follower: from hints to logs, from logs to entries.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::jsonl::FileId;
use crate::model::{Artifact, Entry, EntryId, Key};
use crate::store::{Store, Told};

use super::last::{self, Newest};
use super::places::{Place, Places, Sight};
use super::selection::{Selection, Verdict};
use super::source::{self, Source, What};
use super::track::{Track, Turn};
use super::{Event, FollowedLog, Fresh, Options, Stopper};

/// How many logs that were there before are remembered by their ends, so that a copy that takes the
/// place of one is known; the newest.
const REMEMBERED: usize = 2_000;

/// At most one part in so many of the time goes into looking where there are no watches.
const SHARE: u32 = 50;

/// The longest pause between two looks.
const LONGEST: Duration = Duration::from_secs(2);

/// Tells what is written to logs, as it is written: an iterator that waits.
///
/// It ends only when it is [stopped](Stopper::stop).
pub struct Follower {
    selection: Selection,
    options: Options,
    places: Places,
    tracks: Vec<Track>,
    by_path: HashMap<PathBuf, usize>,
    /// Where a file was last, by its device and inode: it may have been renamed.
    by_inode: HashMap<(u64, u64), usize>,
    /// Logs that wait for their turn.
    dirty: VecDeque<usize>,
    events: VecDeque<Event>,
    /// Numbers the scans.
    scan: u64,
    /// When to look next where there are no watches.
    next_look: Option<Instant>,
    copies: Copies,
    /// When following began.
    since: Timestamp,
    began: bool,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("logs", &self.tracks.len())
            .field("waiting", &self.dirty.len())
            .finish_non_exhaustive()
    }
}

impl Follower {
    /// Begins to follow: sets watches and looks how long every log is, and reads the last entries if
    /// they are wanted. What is written from then on will be told.
    ///
    /// Roots need not exist yet.
    pub fn new(store: &Store, selection: Selection, options: Options) -> Result<Self> {
        let mut places: Vec<Place> = Vec::new();
        let roots = store.roots().iter().map(|root| Place {
            root: root.clone(),
            only: None,
        });
        for place in roots.chain(selection.places()) {
            let known = |other: &Place| {
                other.root.path == place.root.path
                    && other.root.layout.name() == place.root.layout.name()
                    && other.only == place.only
            };
            let wanted = selection.takes_layout(place.root.layout.name());
            if wanted && !places.iter().any(known) {
                places.push(place);
            }
        }
        let (source, trouble) =
            Source::new(!options.poll).map_err(|error| Error::io("follow", "the logs", error))?;
        let mut follower = Follower {
            places: Places::new(places, source, options.most_watches),
            selection,
            options,
            tracks: Vec::new(),
            by_path: HashMap::new(),
            by_inode: HashMap::new(),
            dirty: VecDeque::new(),
            events: VecDeque::new(),
            scan: 1,
            next_look: None,
            copies: Copies::default(),
            since: Timestamp::now(),
            began: false,
        };
        if let Some(error) = trouble {
            let why = source::refusal(&error);
            follower.events.push_back(Event::Polling { why });
        }
        follower.begin()?;
        Ok(follower)
    }

    /// A handle that ends it from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(self.places.source.stop()))
    }

    /// The next event if there is one at hand; never waits. `None` is the time to send off what is
    /// held back, before [`next`](Iterator::next) waits.
    pub fn next_ready(&mut self) -> Option<Event> {
        if self.is_stopped() {
            return None;
        }
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if let Err(error) = self.listen(false) {
            return Some(Event::Trouble(error));
        }
        // Each log gets one turn: some may be written to all the time and never tell anything.
        for _ in 0..self.dirty.len() {
            if !self.events.is_empty() {
                break;
            }
            if let Some(at) = self.dirty.pop_front() {
                self.read(at);
            }
        }
        self.events.pop_front()
    }

    fn is_stopped(&self) -> bool {
        self.places.source.stop().is_stopped()
    }

    /// How many logs are followed.
    pub fn logs(&self) -> usize {
        self.tracks.iter().filter(|track| !track.gone).count()
    }

    /// The projects that were asked for and of which there is nothing yet, as far as is known.
    pub fn unknown_projects(&self) -> impl Iterator<Item = &str> {
        self.selection.unknown_projects()
    }

    fn begin(&mut self) -> Result<()> {
        let started = Instant::now();
        let mut sights = Vec::new();
        self.places.look_everywhere(&mut sights);
        if self.selection.asks_for_projects() {
            self.find_projects(&sights);
        }
        self.take_in(sights);
        self.plan_look(started);
        let mut newest_first: Vec<usize> = (0..self.tracks.len()).collect();
        let mtime = |at: &usize| self.tracks.get(*at).map(|track| track.id.mtime_ns);
        newest_first.sort_by_key(|at| std::cmp::Reverse(mtime(at)));
        for &at in newest_first.iter().take(REMEMBERED) {
            let remembered = self.tracks.get_mut(at).map(Track::remember);
            if let Some(Err(error)) = remembered {
                self.events.push_back(Event::Trouble(error));
            }
        }
        self.tell_last(&newest_first);
        self.events.push_back(Event::CaughtUp);
        self.began = true;
        Ok(())
    }

    /// Looks whose folders the logs that were found lie in.
    fn find_projects(&mut self, sights: &[Sight]) {
        let mut folders: HashMap<_, Vec<(i64, FollowedLog)>> = HashMap::new();
        for sight in sights {
            let Sight::Log {
                place,
                path,
                artifact,
                id,
            } = sight
            else {
                continue;
            };
            if let Some(log) = self.log(*place, path, artifact) {
                let folder = (*place, artifact.folder.clone());
                folders.entry(folder).or_default().push((id.mtime_ns, log));
            }
        }
        for mut logs in folders.into_values() {
            logs.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
            if let Some((_, first)) = logs.first() {
                let logs = logs.iter().map(|(_, log)| log);
                self.selection.look_at_folder(first, logs);
            }
        }
    }

    fn log(&self, place: usize, path: &Path, artifact: &Artifact) -> Option<FollowedLog> {
        Some(FollowedLog {
            root: self.places.places.get(place)?.root.clone(),
            path: path.to_owned(),
            artifact: artifact.clone(),
        })
    }

    /// Tells the last entries of all logs together.
    fn tell_last(&mut self, newest_first: &[usize]) {
        let most = self.options.last;
        if most == 0 {
            return;
        }
        let counts = Arc::clone(&self.options.counts);
        let mut newest = Newest::new(most);
        for &at in newest_first {
            let Some(track) = self.tracks.get_mut(at) else {
                continue;
            };
            let since = newest.since();
            let mtime = Timestamp::from_nanosecond(track.id.mtime_ns.into()).ok();
            if since.is_some() && mtime < since {
                break;
            }
            match Self::last_of(&mut self.selection, track, most, since, &*counts) {
                Ok(told) => newest.add(at, told),
                Err(error) => self.events.push_back(Event::Trouble(error)),
            }
        }
        for held in newest.into_held() {
            self.tell(held.track, held.told, true);
        }
    }

    /// The last entries of one log that count.
    fn last_of(
        selection: &mut Selection,
        track: &mut Track,
        most: usize,
        since: Option<Timestamp>,
        counts: &dyn Fn(&Entry) -> bool,
    ) -> Result<Vec<Told>> {
        let log = Arc::clone(&track.log);
        let look = selection.judge(&log) == Verdict::Look;
        // Whose an entry is may be known only when all before it were seen, so more are read there.
        let (wanted, since) = match look {
            false => (most, since),
            true => (most.saturating_mul(20).max(1_000), None),
        };
        track.remember()?;
        let end = track.offset();
        let Some(begin) = last::begin(&log, end, wanted, since, counts)? else {
            return Ok(Vec::new());
        };
        track.go_back_to(begin);
        let mut found = Vec::new();
        loop {
            let Turn { told, more, .. } = track.turn()?;
            found.extend(told);
            if !more {
                break;
            }
        }
        if look {
            found.retain(|told| selection.takes(&log, told));
        }
        found.retain(|told| counts(&told.entry));
        let surplus = found.len().saturating_sub(most);
        found.drain(..surplus);
        Ok(found)
    }

    /// Takes in what was seen.
    fn take_in(&mut self, sights: Vec<Sight>) {
        for sight in sights {
            match sight {
                Sight::Log {
                    place,
                    path,
                    artifact,
                    id,
                } => self.see(place, path, &artifact, id),
                Sight::Left(path) => self.lose(|track| track.log.path.starts_with(&path), &path),
                Sight::Seen(path) => {
                    let scan = self.scan;
                    self.lose(
                        |track| track.seen != scan && track.log.path.starts_with(&path),
                        &path,
                    );
                    self.scan += 1;
                }
                Sight::Trouble(error) => self.events.push_back(Event::Trouble(error)),
                Sight::Polling(why) => self.events.push_back(Event::Polling { why }),
            }
        }
    }

    fn see(&mut self, place: usize, path: PathBuf, artifact: &Artifact, id: FileId) {
        if let Some(&at) = self.by_path.get(&path) {
            if let Some(track) = self.tracks.get_mut(at) {
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
        if self.selection.asks_for_projects() && self.began {
            self.selection.look_at_folder(&log, std::iter::once(&log));
        }
        let verdict = self.selection.judge(&log);
        if verdict == Verdict::No {
            return;
        }
        let log = Arc::new(log);
        let at = self.tracks.len();
        let mut track = match self.began {
            false => Track::from_end(Arc::clone(&log), id),
            true => {
                let before = self.by_inode.get(&(id.dev, id.ino)).copied();
                let before = before.and_then(|at| self.tracks.get_mut(at));
                // Two names for one file are no move.
                let before = before.filter(|track| track.gone || !track.log.path.exists());
                let moved = before.and_then(|before| Track::moved(Arc::clone(&log), before));
                moved.unwrap_or_else(|| Track::from_start(Arc::clone(&log)))
            }
        };
        track.seen = self.scan;
        // Of one whose entries must be looked at first, nothing is known yet.
        track.announced = !self.began || verdict == Verdict::Yes;
        self.tracks.push(track);
        self.by_path.insert(path, at);
        self.by_inode.insert((id.dev, id.ino), at);
        if self.began {
            if verdict == Verdict::Yes {
                self.events.push_back(Event::Began { log });
            }
            self.queue(at);
        }
    }

    fn queue(&mut self, at: usize) {
        if let Some(track) = self.tracks.get_mut(at).filter(|track| !track.queued) {
            track.queued = true;
            self.dirty.push_back(at);
        }
    }

    /// Notes that logs left. `path` is theirs, or that of a directory above.
    fn lose(&mut self, lost: impl Fn(&Track) -> bool, path: &Path) {
        // One log's own path is the usual case.
        if let Some(&at) = self.by_path.get(path) {
            if self.tracks.get(at).is_some_and(lost) {
                self.lose_one(at);
            }
            return;
        }
        for at in 0..self.tracks.len() {
            if self
                .tracks
                .get(at)
                .is_some_and(|track| !track.gone && lost(track))
            {
                self.lose_one(at);
            }
        }
    }

    fn lose_one(&mut self, at: usize) {
        if let Some(track) = self.tracks.get_mut(at).filter(|track| !track.gone) {
            track.gone = true;
            if track.announced {
                let log = Arc::clone(&track.log);
                self.events.push_back(Event::Gone { log });
            }
        }
    }

    /// Reads on in one log.
    fn read(&mut self, at: usize) {
        let Some(track) = self.tracks.get_mut(at) else {
            return;
        };
        track.queued = false;
        let (before, announced) = (track.id, track.announced);
        let log = Arc::clone(&track.log);
        let turn = track.turn();
        if !track.id.same_file(&before) {
            self.by_inode.insert((track.id.dev, track.id.ino), at);
        }
        match turn {
            Err(error) => self.events.push_back(Event::Trouble(error)),
            Ok(turn) if turn.missing => self.lose_one(at),
            Ok(turn) => {
                if let Some(why) = turn.reset.filter(|_| announced) {
                    let log = Arc::clone(&log);
                    self.events.push_back(Event::Reset { log, why });
                }
                for told in turn.told {
                    let looks = self.selection.judge(&log) != Verdict::Yes;
                    if !looks || self.selection.takes(&log, &told) {
                        self.tell(at, told, false);
                    }
                }
                if turn.more {
                    self.queue(at);
                }
            }
        }
    }

    fn tell(&mut self, at: usize, told: Told, earlier: bool) {
        let Some(track) = self.tracks.get_mut(at) else {
            return;
        };
        let origin = self.copies.origin(at, &told.entry);
        if told.entry.copied && origin.is_some() {
            return;
        }
        if track.came_later && !earlier {
            let time = told.entry.time;
            let before = time.map_or(track.earlier, |time| time < self.since);
            track.earlier = before || origin.is_some_and(|origin| origin != at);
        }
        if !track.announced {
            track.announced = true;
            let log = Arc::clone(&track.log);
            self.events.push_back(Event::Began { log });
        }
        self.events.push_back(Event::Entry(Box::new(Fresh {
            log: Arc::clone(&track.log),
            session: told.session,
            agent: told.agent,
            entry: told.entry,
            charge: told.charge,
            earlier: earlier || track.earlier,
        })));
    }

    /// Takes in what the kernel has to say; may wait for it.
    fn listen(&mut self, wait: bool) -> Result<()> {
        let until = self.next_look.filter(|_| self.places.must_poll());
        let timeout = match (wait, until) {
            (false, _) => Some(Duration::ZERO),
            (true, until) => until.map(|until| until.saturating_duration_since(Instant::now())),
        };
        let mut hints = Vec::new();
        let waited = self.places.source.wait(timeout, &mut hints);
        waited.map_err(|error| Error::io("follow", "the logs", error))?;
        let mut sights = Vec::new();
        // A log that was written to a hundred times is looked at once.
        let mut written = HashSet::new();
        for hint in &hints {
            let again =
                hint.what == What::Changed && !written.insert((hint.watch, hint.name.as_ref()));
            if hint.what != What::Changed {
                written.clear();
            }
            if !again {
                self.places.follow(hint, &mut sights);
            }
        }
        if self.places.must_poll() && until.is_none_or(|until| until <= Instant::now()) {
            let started = Instant::now();
            self.places.look_at_polled(&mut sights);
            self.plan_look(started);
        }
        self.take_in(sights);
        Ok(())
    }

    /// Plans the next look where there are no watches, after one that began at `started`.
    fn plan_look(&mut self, started: Instant) {
        let pause = started.elapsed().saturating_mul(SHARE);
        let shortest = self.options.poll_every;
        let pause = pause.clamp(shortest, LONGEST.max(shortest));
        self.next_look = Some(Instant::now() + pause);
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
            // What waits for its turn must not wait for more.
            if self.dirty.is_empty()
                && let Err(error) = self.listen(true)
            {
                return Some(Event::Trouble(error));
            }
        }
    }
}

/// What was told of late: a fork copies what it goes on from into a log of its own.
#[derive(Default)]
struct Copies {
    order: VecDeque<Key>,
    known: HashMap<Key, (usize, Option<Timestamp>)>,
}

impl Copies {
    const MOST: usize = 16_384;

    /// The log of which the same entry was told first. Remembers those that were not told before.
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
