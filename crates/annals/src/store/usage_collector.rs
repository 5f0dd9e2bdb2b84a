//! Builds the ledger of a store from its logs.
//!
//! Only the usage in a log is decoded, a fraction of what a listing of sessions needs. Usage that
//! was read earlier can be loaded from the index and continued, so a ledger costs what was appended
//! since.
//!
//! `LayoutSpec::usage_needle` identifies records with usage by their bytes, and `Scanner::next_where`
//! skips all others without splitting them into lines. Records of one session are similar, so most
//! are compared with the previous one instead of parsed (`json/template.rs`,
//! `Decoder::reply_delta`). Listing sessions makes the same `LogCharges` from full outlines; a test
//! with random histories checks that both agree.

mod attribution;
mod recent;

use std::cell::RefCell;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::cost::{Charge, Ledger, LogCharges};
use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::{Cursor, FileId, LineEnding, Scanner};
use annals_layouts::layout::{Decoded, Decoder, Needle};
use annals_layouts::model::{ArtifactKind, Flaw, FlawKind};

use super::content_cache::{ContentCache, NoCache};
use super::inventory::{self, RootFile, SessionLists};
use super::{Costs, RecentQuery, Root, Store, archive_overlay, log_reader, record_source};

pub(crate) use attribution::StoredUsage;
use attribution::{Attribution, LedgerEntries};
pub(crate) use recent::{DirTimes, OwnLog, are_unchanged};

/// Usage of a log up to an offset.
#[derive(Clone, Debug)]
pub(crate) struct LogUsage {
    /// Identity of the file when it was read.
    pub(crate) id: FileId,
    /// Position after the last complete line that was read.
    pub(crate) cursor: Cursor,
    /// Charges up to that position.
    pub(crate) charges: LogCharges,
    /// Whether the rest of the file has no usage.
    pub(crate) no_later_usage: bool,
}

/// State of a log, and the index of its root.
#[derive(Debug)]
struct CollectedLog {
    root: usize,
    state: LogProgress,
}

#[derive(Debug)]
enum LogProgress {
    /// Must be read, from the end of the stored usage if there is any.
    Unread(Option<Box<LogUsage>>),
    /// Charges of the log, including a last line without line ending.
    Read(Box<LogCharges>),
    /// The charges are in the ledger.
    Done,
}

/// Logs of a store, and their usage so far.
#[derive(Debug)]
pub(crate) struct UsageCollector<'a> {
    /// Roots and their sessions.
    attributions: Vec<Attribution<'a>>,
    /// Log files, grouped by root.
    files: Vec<RootFile>,
    /// State of each log.
    logs: Vec<CollectedLog>,
    /// Directories of each root that were read, with their modification times.
    scanned_dirs: Vec<Vec<(String, i64)>>,
    entries: LedgerEntries,
    /// Read failures.
    pub(crate) errors: Vec<Error>,
}

/// Number of bytes that are read before the results are stored.
const BATCH_BYTES: u64 = 192 << 20;

/// Fewer bytes than this are read by one thread.
const SINGLE_THREAD_BYTES: u64 = 1 << 20;

impl<'a> UsageCollector<'a> {
    /// Creates a collector without logs.
    pub(crate) fn new(store: &'a Store) -> Self {
        let roots = store.roots.iter();
        UsageCollector {
            attributions: roots
                .map(|root| Attribution::new(root, SessionLists::default(), 0))
                .collect(),
            files: Vec::new(),
            logs: Vec::new(),
            scanned_dirs: Vec::new(),
            entries: LedgerEntries::default(),
            errors: Vec::new(),
        }
    }

    /// Adds a log with its stored usage.
    pub(crate) fn add(&mut self, root: usize, file: RootFile, before: Option<LogUsage>) {
        let number = self.logs.len();
        self.add_unread(root, vec![file]);
        if let Some(tab) = before {
            self.set_stored(number, tab);
        }
    }

    /// Adds a log that was read before, in its current state, unless it no longer exists.
    pub(crate) fn add_known(&mut self, number: usize, root: &Root, path: PathBuf, tab: LogUsage) {
        let relative = path.strip_prefix(&root.path).ok();
        if let Some(artifact) = relative.and_then(|path| root.layout.classify(path)) {
            let id = match record_source::stat(&path, artifact.framing) {
                Ok(id) => id,
                // A link that replaced it is not followed.
                Err(error) if error.kind() == ErrorKind::NotFound => return,
                Err(_) => tab.id,
            };
            let file = RootFile::new(path, artifact, id);
            self.add(number, file, Some(tab));
        }
    }

    /// Finds the logs, in byte order of their paths.
    pub(crate) fn find_logs(store: &'a Store, cache: &mut dyn ContentCache) -> Self {
        let wanted =
            |kind: ArtifactKind| kind.is_conversation() || kind == ArtifactKind::SessionList;
        let mut found = UsageCollector::new(store);
        found.attributions.clear();
        let archive = store.archive().ok();
        for (number, root) in store.roots.iter().enumerate() {
            let mut directories = Vec::new();
            let mut note = |path: &str, id: &FileId| {
                directories.push((path.to_owned(), id.mtime_ns));
            };
            let (from, errors) = (Path::new(""), &mut found.errors);
            let mut files = inventory::walk_with_dirs(root, from, &wanted, errors, &mut note);
            let rows = archive.as_ref().map(|archive| {
                archive_overlay::add_archived(archive, root, &mut files, &wanted, &mut found.errors)
            });
            record_source::split_databases(root, &mut files, cache, &mut found.errors);
            found.scanned_dirs.push(directories);
            let is_session_list =
                |file: &&RootFile| file.artifact.kind == ArtifactKind::SessionList;
            let mut session_lists = SessionLists::read(root, files.iter().filter(is_session_list));
            session_lists.add_stored(rows.unwrap_or_default());
            found
                .attributions
                .push(Attribution::new(root, session_lists, files.len()));
            files.retain(|file| !is_session_list(&file));
            found.add_unread(number, files);
        }
        found
    }

    /// Adds logs of a root without stored usage.
    fn add_unread(&mut self, root: usize, mut files: Vec<RootFile>) {
        let unread = || CollectedLog {
            root,
            state: LogProgress::Unread(None),
        };
        self.logs
            .extend(std::iter::repeat_with(unread).take(files.len()));
        match self.files.is_empty() {
            true => self.files = files,
            false => self.files.append(&mut files),
        }
    }

    /// Returns the indexes of a root's logs.
    pub(crate) fn root_range(&self, root: usize) -> Range<usize> {
        let start = self.logs.partition_point(|book| book.root < root);
        start..self.logs.partition_point(|book| book.root <= root)
    }

    /// Returns the file of a log.
    pub(crate) fn file(&self, number: usize) -> Option<&RootFile> {
        self.files.get(number)
    }

    /// Sets the stored usage of a log. It is used as far as the log is unchanged.
    pub(crate) fn set_stored(&mut self, number: usize, tab: LogUsage) {
        let book = self.logs.get_mut(number).zip(self.files.get(number));
        let Some((book, file)) = book else { return };
        if tab.id.untouched(&file.id) && tab.no_later_usage {
            self.add_charges(number, tab.charges);
        } else {
            book.state = LogProgress::Unread(Some(Box::new(tab)));
        }
    }

    /// Adds the stored usage of an unchanged log to the ledger, without decoding it into
    /// `LogCharges`. Returns whether that was possible.
    pub(crate) fn add_stored(&mut self, number: usize, stored: &impl StoredUsage) -> bool {
        let book = self.logs.get_mut(number).zip(self.files.get(number));
        let Some((book, file)) = book else {
            return false;
        };
        let shared = file.artifact.kind == ArtifactKind::SharedLog;
        let Some(payers) = self.attributions.get_mut(book.root).filter(|_| !shared) else {
            return false;
        };
        let entered = payers.add_stored_log(number, file, stored, &mut self.entries);
        if entered.is_some() {
            book.state = LogProgress::Done;
        }
        entered.is_some()
    }

    /// Marks a log as unchanged, without its charges.
    pub(crate) fn mark_unchanged(&mut self, number: usize) {
        if let Some(book) = self.logs.get_mut(number) {
            book.state = LogProgress::Done;
        }
    }

    /// Adds the charges of a log to the ledger, so that the charges of all logs are never in memory
    /// together. Volumes of shared logs must wait for earlier volumes.
    fn add_charges(&mut self, number: usize, sheet: LogCharges) {
        let book = self.logs.get_mut(number).zip(self.files.get(number));
        let Some((book, file)) = book else { return };
        book.state = match self.attributions.get_mut(book.root) {
            Some(payers) if file.artifact.kind != ArtifactKind::SharedLog => {
                payers.add_log(number, file, sheet, &mut self.entries);
                LogProgress::Done
            }
            _ => LogProgress::Read(Box::new(sheet)),
        };
    }

    /// Reads the logs that are not stored or have changed, and passes the results to `keep` in
    /// batches.
    pub(crate) fn read_unread(
        &mut self,
        mut keep: impl FnMut(&[(&Root, &RootFile, &LogUsage)]),
        progress: &(dyn Fn(u64, u64) + Sync),
    ) {
        let mut work: Vec<(usize, Option<Box<LogUsage>>, u64)> = Vec::new();
        for (at, (book, file)) in self.logs.iter_mut().zip(&self.files).enumerate() {
            if let LogProgress::Unread(before) = &mut book.state {
                let before = before.take();
                let known = before.as_ref().map_or(0, |tab| tab.cursor.offset);
                work.push((at, before, file.id.len.saturating_sub(known)));
            }
        }
        let total: u64 = work.iter().map(|(_, _, bytes)| bytes).sum();
        let done = AtomicU64::new(0);
        let mut work = work.into_iter().peekable();
        while work.peek().is_some() {
            let mut portion = Vec::new();
            let mut bytes = 0;
            while let Some(next) = work.next_if(|_| bytes < BATCH_BYTES) {
                bytes += next.2;
                portion.push(next);
            }
            // Largest first, so that no thread ends with a large log alone. The batches are in path
            // order, so that `keep` stores them in order.
            portion.sort_by_key(|(_, _, bytes)| std::cmp::Reverse(*bytes));
            let read = |(at, tab, bytes): (usize, Option<Box<LogUsage>>, u64)| {
                let (root, file) = (self.root(at)?, self.files.get(at)?);
                let reading = LogReading::resume(root, file, tab).map(Box::new);
                let so_far = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                progress(so_far, total);
                Some((at, reading))
            };
            // Threads cost more than they save for little data.
            let read = match bytes < SINGLE_THREAD_BYTES {
                true => portion.into_iter().filter_map(read).collect(),
                false => {
                    let portion = portion.into_par_iter().with_max_len(1);
                    portion.filter_map(read).collect()
                }
            };
            self.add_read(read, &mut keep);
        }
    }

    fn root(&self, number: usize) -> Option<&'a Root> {
        let root = self.logs.get(number)?.root;
        self.attributions.get(root).map(|payers| payers.root)
    }

    fn add_read(
        &mut self,
        read: Vec<(usize, Result<Box<LogReading>>)>,
        keep: &mut impl FnMut(&[(&Root, &RootFile, &LogUsage)]),
    ) {
        let fresh = read.iter().filter_map(|(at, reading)| {
            let tab = &reading.as_ref().ok()?.usage;
            Some((self.root(*at)?, self.files.get(*at)?, tab))
        });
        keep(&fresh.collect::<Vec<_>>());
        for (at, reading) in read {
            match reading {
                Ok(reading) => {
                    self.add_charges(at, reading.pending.unwrap_or(reading.usage.charges))
                }
                // A file that was deleted meanwhile is ignored.
                Err(Error::File(FileError::Io { source, .. }))
                    if source.kind() == ErrorKind::NotFound => {}
                Err(error) => self.errors.push(error),
            }
        }
    }

    /// Returns the ledger of everything that was read, and the read failures.
    pub(crate) fn ledger(self) -> (Ledger, Vec<Error>) {
        let (spent, troubles) = self.ledger_with_session(None);
        (spent.ledger, troubles)
    }

    /// Like `ledger`, and returns the charges in the logs of one session, including copies.
    pub(crate) fn ledger_with_session(
        mut self,
        log: Option<&Path>,
    ) -> (LedgerWithSession, Vec<Error>) {
        let books = self.logs.into_iter().zip(&self.files);
        for (number, (book, file)) in books.enumerate() {
            if let LogProgress::Read(sheet) = book.state
                && let Some(payers) = self.attributions.get_mut(book.root)
            {
                payers.add_log(number, file, *sheet, &mut self.entries);
            }
        }
        let LedgerEntries {
            mut accounts,
            charges,
            uncounted,
        } = self.entries;
        for charge in &charges {
            if let Some(account) = accounts.get_mut(charge.account) {
                account.started = account.started.into_iter().chain(charge.time).min();
            }
        }
        for payers in self.attributions {
            payers.assign_projects(&mut accounts);
        }
        let session = log.and_then(|log| accounts.iter().position(|account| account.file == log));
        let own = session.map(|session| {
            let own = charges.iter().filter(|charge| charge.account == session);
            Ledger::dedupe(Vec::new(), own.cloned().collect()).charges
        });
        let own = own.unwrap_or_default();
        let mut ledger = Ledger::dedupe(accounts, charges);
        ledger.uncounted = uncounted;
        (
            LedgerWithSession {
                ledger,
                session_charges: own,
            },
            self.errors,
        )
    }
}

/// Ledger, and the charges in the logs of one session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LedgerWithSession {
    /// Every response once, with the session that pays for it.
    pub ledger: Ledger,
    /// Responses in the session's logs, even if another session pays for them.
    pub session_charges: Vec<Charge>,
}

/// Result of reading a log.
struct LogReading {
    usage: LogUsage,
    /// Charges including a last line without line ending. They count for now; the line is read
    /// again.
    pending: Option<LogCharges>,
}

impl LogReading {
    /// Reads a log from the end of its stored usage, if that is still valid.
    fn resume(root: &Root, file: &RootFile, tab: Option<Box<LogUsage>>) -> Result<Self> {
        let failed = |error| Error::io("read", &file.path, error);
        let handle = file.open()?;
        // The identity when the file was listed: it will differ if the file has grown since.
        let id = file.id;
        // Lines without usage may name the session. Until one is named, the log is read completely.
        let nobody =
            |tab: &LogUsage| tab.charges.first.is_none() && file.artifact.session.is_none();
        let mut known = tab.filter(|tab| !nobody(tab));
        if let Some(tab) = &known
            && !(tab.continues_in(&id) && tab.cursor.is_valid(&handle).map_err(failed)?)
        {
            known = None;
        }
        let shared = file.artifact.kind == ArtifactKind::SharedLog;
        let (mut sheet, start) = known.map_or_else(
            || (LogCharges::default(), 0),
            |tab| (tab.charges.resume(), tab.cursor.offset),
        );
        sheet.shared = shared;
        take_charge_buffer(&mut sheet);
        let mut decoder = root.decoder(file);
        // Lines without usage may name the session, if the path does not.
        let opening = match start == 0 && file.artifact.session.is_none() {
            true => inventory::SESSION_ID_LINES,
            false => 0,
        };
        let (cursor, pending) = log_reader::with_scanner(file.reader(handle, start), |lines| {
            let (end, pending) = read_lines(
                lines,
                (start, opening),
                root.layout.usage_needle(),
                decoder.as_mut(),
                &mut sheet,
            )?;
            Ok((Cursor::with_id(&id, lines.reader().bytes(), end)?, pending))
        })
        .map_err(failed)?;
        return_charge_buffer(&mut sheet);
        Ok(LogReading {
            usage: LogUsage {
                id,
                cursor,
                charges: sheet,
                no_later_usage: pending.is_none(),
            },
            pending,
        })
    }
}

thread_local! {
    /// Buffer for the charges of the log being read. Copying them once their number is known costs
    /// less than growing a list for each log.
    static CHARGE_BUFFER: RefCell<Vec<(Charge, Option<Arc<str>>)>> = const { RefCell::new(Vec::new()) };
}

/// Moves the buffer into empty charges.
fn take_charge_buffer(sheet: &mut LogCharges) {
    if sheet.charges.is_empty() {
        sheet.charges = CHARGE_BUFFER.take();
    }
}

/// Moves the charges to a list of exact size and returns the buffer, unless it is too large to
/// keep.
fn return_charge_buffer(sheet: &mut LogCharges) {
    const MOST: usize = 1 << 14;
    if sheet.charges.capacity() > MOST {
        return sheet.charges.shrink_to_fit();
    }
    let charges = sheet.charges.drain(..).collect();
    CHARGE_BUFFER.set(std::mem::replace(&mut sheet.charges, charges));
}

impl LogUsage {
    /// Returns whether the file may have only grown. A changed file of the same length may have
    /// changed anywhere.
    fn continues_in(&self, id: &FileId) -> bool {
        self.id.untouched(id) || (self.id.same_file(id) && id.len > self.id.len)
    }
}

/// Reads to the end. Decodes the first `opening` lines in full until one names a session. Returns
/// the end of the last complete line, and the charges including an incomplete one.
fn read_lines(
    lines: &mut Scanner<log_reader::LogReader>,
    (start, mut opening): (u64, usize),
    mark: Option<Needle>,
    decoder: &mut dyn Decoder,
    sheet: &mut LogCharges,
) -> std::io::Result<(u64, Option<LogCharges>)> {
    let mut end = start;
    let mut sink = Decoded::default();
    loop {
        let line = match mark.filter(|_| opening == 0) {
            Some(mark) => lines.next_where(mark.find, mark.max_len)?,
            None => lines.next()?,
        };
        let Some(line) = line else { break };
        let whole = line.ending != LineEnding::None;
        let record = log_reader::record_from_line(&line);
        if whole
            && opening == 0
            && let Some(again) = decoder.reply_delta(&record)
        {
            sheet.add_delta(&again);
            end = record.span.end();
            continue;
        }
        match opening {
            0 => decoder.outline_usage(&record, &mut sink),
            _ => decoder.outline(&record, &mut sink),
        }
        opening = opening.saturating_sub(1);
        let bad = |flaw: &Flaw| flaw.kind == FlawKind::BadUsage || flaw.kind.hides_record();
        let bad = sink.flaws.drain(..).filter(bad).count() as u64;
        if !whole {
            let pending = (!sink.items.is_empty()).then(|| {
                let mut pending = sheet.clone();
                pending.uncounted += bad;
                sink.items.iter().for_each(|outline| pending.add(outline));
                pending
            });
            return Ok((line.offset, pending));
        }
        end = record.span.end();
        sheet.uncounted += bad;
        sink.items.drain(..).for_each(|outline| sheet.add(&outline));
        if sheet.first.is_some() {
            opening = 0;
        }
    }
    // The scanner skipped lines without usage.
    Ok((end.max(lines.offset()), None))
}

impl Costs<'_> {
    /// Returns the charges since some time and all charges of one session, and the read failures.
    /// Older charges may be included.
    ///
    /// With an index, this is fast enough for frequent polling: it reads the logs of that session and
    /// all logs with charges since then, and detects new logs by the mtimes of the directories in
    /// which they would appear. After five minutes all files are checked again, by this method or by
    /// [`ledger`](Self::ledger). Until then two things may be missing: appends to a
    /// log of another session without charges since then, and logs in directories that had none at
    /// the last check.
    pub fn recent(&self, query: &RecentQuery<'_>) -> (LedgerWithSession, Vec<Error>) {
        let stored = self.store.lock_index();
        let stored = stored.and_then(|mut index| index.recent(self.store, query));
        stored.unwrap_or_else(|| {
            let mut collector = UsageCollector::find_logs(self.store, &mut NoCache);
            collector.read_unread(|_| {}, &|_, _| {});
            collector.ledger_with_session(query.session)
        })
    }

    /// Returns the ledger, and the read failures. With an index, only what was appended to logs
    /// since the last call is read.
    pub fn ledger(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> (Ledger, Vec<Error>) {
        let stored = self.store.lock_index();
        let stored = stored.and_then(|mut index| index.ledger(self.store, progress));
        if let Some(ledger) = stored {
            return ledger;
        }
        let mut collector = UsageCollector::find_logs(self.store, &mut NoCache);
        collector.read_unread(|_| {}, progress);
        collector.ledger()
    }
}
