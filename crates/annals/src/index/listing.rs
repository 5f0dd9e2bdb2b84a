//! Lists sessions and conversations from the index; only changed sessions are read.

use std::collections::HashMap;

use crate::cost::{PriceFn, Tally};
use crate::error::{Error, Result};
use crate::store::conversations::Conversations;
use crate::store::session_summary::{self, SessionSummary};
use crate::store::{
    ConversationInfo, Inventory, Root, RootFile, Session, SessionFiles, SessionInfo, Store,
    is_stable, read_each,
};
use annals_layouts::model::EntryKey;

use super::IndexDatabase;
use super::charge_codec::Names;
use super::files::now;
use super::session_rows::{NewRow, SessionRow, SortedSessions, load, load_conversations, write};

impl IndexDatabase {
    /// Summarizes every session, like [`Sessions::read`](crate::store::Sessions::read).
    pub(super) fn sessions(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<SessionInfo>> {
        let facts = self.gather(store, inventory, progress, &mut AllSummaries::default());
        let all: Vec<&SessionFiles> = inventory.sessions.iter().collect();
        session_summary::make_infos(&all, facts, &inventory.retention_days())
    }

    /// Saves the rows of sessions that are new or have changed. Returns read errors.
    pub(super) fn update_sessions(
        &mut self,
        store: &Store,
        inventory: &Inventory,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Error> {
        let updated = self.gather(store, inventory, progress, &mut NothingToShow);
        updated.into_iter().filter_map(Result::err).collect()
    }

    /// Returns the conversations of some sessions, like
    /// [`Sessions::conversations`](crate::store::Sessions::conversations).
    pub(super) fn conversations(
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
        let found = self.gather(
            store,
            inventory,
            progress,
            &mut ConversationRows { is_wanted },
        );
        let mut names = Names::default();
        let mut conversations: Vec<Option<Result<Conversations>>> = Vec::with_capacity(found.len());
        let mut folders: HashMap<_, HashMap<EntryKey, Box<str>>> = HashMap::new();
        for (files, found) in inventory.sessions.iter().zip(found) {
            conversations.push(match found {
                Err(error) => Some(Err(error)),
                Ok((summaries, found)) => {
                    if !summaries.is_empty() {
                        folders.entry(place(files)).or_default().extend(summaries);
                    }
                    match found {
                        Found::Unwanted => None,
                        Found::Read(conversations) => Some(Ok(conversations)),
                        Found::Stored => {
                            let stored = load_conversations(&self.database, files, &mut names);
                            let read = || {
                                let session = Session::read(files.clone())?;
                                Ok(Conversations::from_session(&session))
                            };
                            Some(stored.ok().flatten().map_or_else(read, Ok))
                        }
                    }
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
        collector: &mut G,
    ) -> Vec<Result<G::Item>> {
        let all = &inventory.sessions;
        let mut found: Vec<Option<Result<G::Item>>> = all.iter().map(|_| None).collect();
        for root in store.roots() {
            let sorted = SortedSessions::new(root, all);
            let loaded = load(&self.database, &sorted, |at, files, row| {
                if row.is_current(files)
                    && let Some(slot) = found.get_mut(at)
                {
                    *slot = collector.known(at, &row).map(Ok);
                }
            });
            let mut gone = loaded.unwrap_or_else(|error| {
                self.recreate(&error);
                Vec::new()
            });
            // A session that was not found no longer exists, if the whole store could be listed.
            if !inventory.is_complete() {
                gone.clear();
            }
            let unknown = |(at, _): &&(usize, &SessionFiles)| matches!(found.get(*at), Some(None));
            let work: Vec<(usize, &SessionFiles)> =
                sorted.list.iter().filter(unknown).copied().collect();
            let mut keep = SavingReader {
                index: self,
                root,
                failed: false,
            };
            keep.read(&work, progress, |at, reading| {
                if let Some(slot) = found.get_mut(at) {
                    *slot = Some(reading.map(|reading| collector.read(at, *reading)));
                }
            });
            keep.write(&[], &gone);
        }
        // The inventory may contain sessions of roots outside the store.
        let others = all.iter().zip(&mut found).enumerate();
        for (at, (files, slot)) in others.filter(|(_, (_, slot))| slot.is_none()) {
            let reading = Session::read(files.clone()).map(|session| SessionReading::new(&session));
            *slot = Some(reading.map(|reading| collector.read(at, reading)));
        }
        found.into_iter().flatten().collect()
    }
}

/// Collector of session rows, one at a time, so that a list holds only what it shows.
pub(super) trait RowCollector {
    /// Result for one session.
    type Item;

    /// Takes the stored row of an unchanged session; `None` if it cannot be decoded (a cache miss).
    fn known(&mut self, at: usize, row: &SessionRow<'_>) -> Option<Self::Item>;

    /// Takes a session that was read now.
    fn read(&mut self, at: usize, reading: SessionReading) -> Self::Item;
}

/// Collects nothing; reading saves the rows.
struct NothingToShow;

impl RowCollector for NothingToShow {
    type Item = ();

    fn known(&mut self, _: usize, _: &SessionRow<'_>) -> Option<()> {
        Some(())
    }

    fn read(&mut self, _: usize, _: SessionReading) {}
}

/// Collects the summary of every session.
#[derive(Default)]
struct AllSummaries {
    names: Names,
}

impl RowCollector for AllSummaries {
    type Item = SessionSummary;

    fn known(&mut self, _: usize, row: &SessionRow<'_>) -> Option<SessionSummary> {
        row.summary(&mut self.names)
    }

    fn read(&mut self, _: usize, reading: SessionReading) -> SessionSummary {
        reading.facts
    }
}

/// Collects the conversations of some sessions, and the summaries in all logs, which may refer to
/// them.
struct ConversationRows {
    is_wanted: Vec<bool>,
}

/// Conversations of a session.
enum Found {
    Unwanted,
    /// They are in a row of their own.
    Stored,
    Read(Conversations),
}

impl ConversationRows {
    fn is_wanted(&self, at: usize) -> bool {
        self.is_wanted.get(at) == Some(&true)
    }
}

impl RowCollector for ConversationRows {
    type Item = (Vec<(EntryKey, Box<str>)>, Found);

    fn known(&mut self, at: usize, row: &SessionRow<'_>) -> Option<Self::Item> {
        let found = match self.is_wanted(at) {
            true => Found::Stored,
            false => Found::Unwanted,
        };
        Some((row.summaries().collect(), found))
    }

    fn read(&mut self, at: usize, reading: SessionReading) -> Self::Item {
        let found = match self.is_wanted(at) {
            true => Found::Read(reading.conversations),
            false => Found::Unwanted,
        };
        (reading.facts.summaries, found)
    }
}

/// Reader of sessions of a root that saves what it read.
struct SavingReader<'a> {
    index: &'a mut IndexDatabase,
    root: &'a Root,
    /// A row could not be saved.
    failed: bool,
}

impl SavingReader<'_> {
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
            let (portion, after) = rest.split_at(portion_len(rest));
            rest = after;
            let sessions: Vec<&SessionFiles> = portion.iter().map(|(_, files)| *files).collect();
            let now = now();
            let set_progress = |part: u64, _| progress(done + part, total);
            let read = read_each(&sessions, &set_progress, &|session| {
                Box::new(SessionReading::new(&session))
            });
            done += sessions.iter().map(|files| files.log_bytes()).sum::<u64>();
            let new = sessions.iter().zip(&read).filter_map(|(files, reading)| {
                let row = reading.as_ref().ok()?.row.as_ref()?;
                are_stable(files, now).then_some((*files, row))
            });
            self.write(&new.collect::<Vec<_>>(), &[]);
            for ((at, _), reading) in portion.iter().zip(read) {
                take(*at, reading);
            }
        }
    }

    fn write(&mut self, rows: &[(&SessionFiles, &NewRow)], gone: &[Vec<u8>]) {
        // If one portion cannot be saved, the next cannot either.
        if self.failed {
            return;
        }
        if let Err(error) = write(&mut self.index.database, self.root, rows, gone) {
            self.failed = true;
            self.index.save_failed(&error);
        }
    }
}

/// Data of a session that was read.
pub(super) struct SessionReading {
    pub(super) facts: SessionSummary,
    conversations: Conversations,
    /// Encoded rows; `None` if they must not be stored.
    row: Option<NewRow>,
}

impl SessionReading {
    fn new(session: &Session) -> Self {
        let (facts, conversations) = (
            SessionSummary::from_session(session),
            Conversations::from_session(session),
        );
        // Not stored if incomplete: a failed read may succeed later without a change of the file.
        let row = session
            .complete
            .then(|| NewRow::new(&session.files, &facts, &conversations));
        SessionReading {
            row: row.flatten(),
            facts,
            conversations,
        }
    }
}

/// Returns the number of sessions to read before saving.
fn portion_len(work: &[(usize, &SessionFiles)]) -> usize {
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

/// Returns true if any change to the session's files after they were listed changes their times.
fn are_stable(files: &SessionFiles, listed: i64) -> bool {
    let mut volumes = files.files().flat_map(RootFile::volumes);
    volumes.all(|file| is_stable(file.id.ctime_ns, listed))
}

fn place(files: &SessionFiles) -> (&std::ffi::OsStr, Option<&str>) {
    (files.root.path.as_os_str(), files.folder())
}
