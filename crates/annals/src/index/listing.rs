//! Lists sessions and conversations from the index; only changed sessions are read.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::cost::{PriceFn, Tally};
use crate::error::{Error, Result};
use crate::store::conversations::Conversations;
use crate::store::session_summary::{self, SessionSummary};
use crate::store::{
    ConversationInfo, Inventory, RootFile, Session, SessionFiles, SessionInfo, Store, read_each,
};
use annals_layouts::model::EntryKey;

use super::Index;
use super::fingerprint::Fingerprint;
use super::session_codec::{self, Names};
use super::sessions::{NewRow, RowState, SortedSessions, StoredRow, load, write};

impl Index {
    /// Summarizes every session, like [`Sessions::read`](crate::store::Sessions::read).
    pub fn sessions(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<SessionInfo>> {
        let facts = self.gather(store, inventory, progress, &mut All::default());
        let all: Vec<&SessionFiles> = inventory.sessions.iter().collect();
        session_summary::make_infos(&all, facts, &inventory.retention_days())
    }

    /// Saves the rows of sessions that are new or have changed. Returns read errors.
    pub fn update_sessions(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Error> {
        let updated = self.gather(store, inventory, progress, &mut Updating);
        updated.into_iter().filter_map(Result::err).collect()
    }

    /// Returns the conversations of some sessions, like
    /// [`Sessions::conversations`](crate::store::Sessions::conversations).
    pub fn conversations(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        wanted: &[usize],
        price: PriceFn<'_>,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<Vec<(ConversationInfo, Tally)>>> {
        let mut is_wanted = vec![false; inventory.sessions.len()];
        for &at in wanted {
            if let Some(is_wanted) = is_wanted.get_mut(at) {
                *is_wanted = true;
            }
        }
        let mut gathering = Conversing {
            is_wanted,
            names: Names::default(),
        };
        let found = self.gather(store, inventory, progress, &mut gathering);
        let mut conversations: Vec<Option<Result<Conversations>>> = Vec::with_capacity(found.len());
        let mut folders: HashMap<_, HashMap<EntryKey, Box<str>>> = HashMap::new();
        for (files, found) in inventory.sessions.iter().zip(found) {
            conversations.push(match found {
                Err(error) => Some(Err(error)),
                Ok((summaries, conversations)) => {
                    if !summaries.is_empty() {
                        folders.entry(place(files)).or_default().extend(summaries);
                    }
                    conversations.map(Ok)
                }
            });
        }
        let nothing = HashMap::new();
        let rows = wanted.iter().filter_map(|&at| {
            let files = inventory.sessions.get(at)?;
            let conversations = conversations.get_mut(at)?.take()?;
            let summaries = folders.get(&place(files)).unwrap_or(&nothing);
            Some(conversations.map(|conversations| {
                let sums = conversations.totals(price);
                let rows = conversations.into_infos(files, summaries, &sums);
                rows.into_iter().zip(sums).collect()
            }))
        });
        rows.collect()
    }

    /// Collects the stored rows of unchanged sessions, reads the others, and saves what was read.
    pub(super) fn gather<G: RowCollector>(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        progress: &(dyn Fn(u64, u64) + Sync),
        gathering: &mut G,
    ) -> Vec<Result<G::Told>> {
        let all = &inventory.sessions;
        let mut found: Vec<Option<Result<G::Told>>> = all.iter().map(|_| None).collect();
        for root in store.roots() {
            let sorted = SortedSessions::new(root, all);
            let recalled = load(&self.database, &sorted, G::TALKS, |at, _, met| {
                if let RowState::Same(row) = met
                    && let Some(slot) = found.get_mut(at)
                {
                    *slot = gathering.known(at, &row).map(Ok);
                }
            });
            let gone = recalled.unwrap_or_else(|error| {
                self.recreate(&error);
                Vec::new()
            });
            let unknown = |(at, _): &&(usize, &SessionFiles)| matches!(found.get(*at), Some(None));
            let work: Vec<(usize, &SessionFiles)> = sorted.all().filter(unknown).copied().collect();
            // A session that was not found no longer exists, if the whole store could be listed.
            let all_seen = inventory.is_complete();
            let mut keep = Keep {
                index: self,
                sorted: &sorted,
                all_seen,
                failed: false,
            };
            keep.read(&work, progress, |at, reading| {
                if let Some(slot) = found.get_mut(at) {
                    *slot = Some(reading.map(|reading| gathering.read(at, *reading)));
                }
            });
            if all_seen {
                keep.write(&[], &gone);
            }
        }
        // The inventory may contain sessions of roots outside the store.
        let others = all.iter().zip(&mut found).enumerate();
        for (at, (files, slot)) in others.filter(|(_, (_, slot))| slot.is_none()) {
            let reading = Session::read(files.clone()).map(|session| SessionReading::new(&session));
            *slot = Some(reading.map(|reading| gathering.read(at, reading)));
        }
        found.into_iter().flatten().collect()
    }
}

/// Collector of session rows, one at a time, so that a list holds only what it shows.
pub(super) trait RowCollector {
    /// Result for one session.
    type Told;

    /// Conversations are needed too.
    const TALKS: bool = false;

    /// Takes the stored row of an unchanged session; `None` if it cannot be decoded (a cache miss).
    fn known(&mut self, at: usize, row: &StoredRow<'_>) -> Option<Self::Told>;

    /// Takes a session that was read now.
    fn read(&mut self, at: usize, reading: SessionReading) -> Self::Told;
}

/// Collects nothing; reading saves the rows.
struct Updating;

impl RowCollector for Updating {
    type Told = ();

    fn known(&mut self, _: usize, _: &StoredRow<'_>) -> Option<()> {
        Some(())
    }

    fn read(&mut self, _: usize, _: SessionReading) {}
}

/// Collects the summary of every session.
#[derive(Default)]
struct All {
    names: Names,
}

impl RowCollector for All {
    type Told = SessionSummary;

    fn known(&mut self, _: usize, row: &StoredRow<'_>) -> Option<SessionSummary> {
        session_codec::decode(row.facts, &mut self.names)
    }

    fn read(&mut self, _: usize, reading: SessionReading) -> SessionSummary {
        reading.facts
    }
}

/// Collects the conversations of some sessions, and the summaries in all logs, which may refer to
/// them.
struct Conversing {
    is_wanted: Vec<bool>,
    names: Names,
}

impl Conversing {
    fn is_wanted(&self, at: usize) -> bool {
        self.is_wanted.get(at) == Some(&true)
    }
}

impl RowCollector for Conversing {
    type Told = (Vec<(EntryKey, Box<str>)>, Option<Conversations>);

    const TALKS: bool = true;

    fn known(&mut self, at: usize, row: &StoredRow<'_>) -> Option<Self::Told> {
        let facts = session_codec::decode(row.facts, &mut self.names)?;
        let conversations = match self.is_wanted(at) {
            true => Some(session_codec::decode_conversations(
                row.conversations,
                &facts,
                &mut self.names,
            )?),
            false => None,
        };
        Some((facts.summaries, conversations))
    }

    fn read(&mut self, at: usize, reading: SessionReading) -> Self::Told {
        let conversations = self.is_wanted(at).then_some(reading.conversations);
        (reading.facts.summaries, conversations)
    }
}

/// Reader of sessions of a root that saves what it read.
struct Keep<'a> {
    index: &'a mut Index,
    sorted: &'a SortedSessions<'a>,
    all_seen: bool,
    /// A row could not be saved.
    failed: bool,
}

impl Keep<'_> {
    /// Reads sessions in portions. Each portion is saved before the next, so an interrupted listing
    /// resumes there.
    fn read(
        &mut self,
        work: &[(usize, &SessionFiles)],
        progress: &(dyn Fn(u64, u64) + Sync),
        mut take: impl FnMut(usize, Result<Box<SessionReading>>),
    ) {
        let total = work.iter().map(|(_, files)| files.log_bytes()).sum();
        let mut done = 0;
        let mut rest = work;
        while !rest.is_empty() {
            let (portion, after) = rest.split_at(portion(rest));
            rest = after;
            let sessions: Vec<&SessionFiles> = portion.iter().map(|(_, files)| *files).collect();
            let now = SystemTime::now();
            let set_progress = |part: u64, _| progress(done + part, total);
            let read = read_each(&sessions, &set_progress, &|session| {
                Box::new(SessionReading::new(&session))
            });
            done += sessions.iter().map(|files| files.log_bytes()).sum::<u64>();
            let fresh = sessions.iter().zip(&read).filter_map(|(files, reading)| {
                let reading = reading.as_ref().ok()?;
                let (facts, conversations) = reading.rows.as_ref()?;
                is_stable(files, now).then_some(NewRow {
                    files,
                    stamp: reading.stamp,
                    facts,
                    conversations,
                })
            });
            self.write(&fresh.collect::<Vec<_>>(), &[]);
            for ((at, _), reading) in portion.iter().zip(read) {
                take(*at, reading);
            }
        }
    }

    fn write(&mut self, fresh: &[NewRow<'_>], to_clean: &[usize]) {
        // If one portion cannot be saved, the next cannot either.
        if self.failed {
            return;
        }
        let database = &mut self.index.database;
        if let Err(error) = write(database, self.sorted, fresh, to_clean, self.all_seen) {
            self.failed = true;
            self.index.save_failed(&error);
        }
    }
}

/// Data of a session that was read, and its encoded rows.
pub(super) struct SessionReading {
    pub(super) facts: SessionSummary,
    conversations: Conversations,
    stamp: Fingerprint,
    /// Encoded session row and conversations; `None` if they must not be stored.
    rows: Option<(Vec<u8>, Vec<u8>)>,
}

impl SessionReading {
    /// Returns the encoded row, if there is one.
    pub(super) fn row(&self) -> Option<&[u8]> {
        self.rows.as_ref().map(|(facts, _)| facts.as_slice())
    }

    fn new(session: &Session) -> Self {
        let (facts, conversations) = (
            SessionSummary::from_session(session),
            Conversations::from_session(session),
        );
        let stamp = Fingerprint::from_session(&session.files);
        let spelled = || {
            Some((
                session_codec::encode(&facts)?,
                session_codec::encode_conversations(&conversations, &facts)?,
            ))
        };
        // Not stored if incomplete: a failed read may succeed later without a change of the file.
        SessionReading {
            rows: session.complete.then(spelled).flatten(),
            facts,
            conversations,
            stamp,
        }
    }
}

/// Returns the number of sessions to read before saving.
fn portion(work: &[(usize, &SessionFiles)]) -> usize {
    const BYTES: u64 = 96 << 20;
    const SESSIONS: usize = 4_096;
    let mut bytes = 0;
    let more = |(_, files): &&(usize, &SessionFiles)| {
        let room = bytes < BYTES;
        bytes += files.log_bytes();
        room
    };
    work.iter().take(SESSIONS).take_while(more).count()
}

/// Returns true if any change to the session's files from `now` on changes their times. File system
/// clocks are coarse: two changes within one tick may have the same time.
fn is_stable(files: &SessionFiles, now: SystemTime) -> bool {
    const TICK: Duration = Duration::from_millis(20);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let before = now.saturating_sub(TICK).as_nanos() as i64;
    let mut volumes = files.files().flat_map(RootFile::volumes);
    volumes.all(|file| file.id.ctime_ns < before)
}

fn place(files: &SessionFiles) -> (&std::ffi::OsStr, Option<&str>) {
    (files.root.path.as_os_str(), files.folder())
}
