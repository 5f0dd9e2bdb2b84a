//! The ledger of a store: who spent what, from the logs themselves.
//!
//! A log is read for its spending alone, which is a fraction of what a list of sessions needs. What
//! was read of it before may be taken from elsewhere and gone on from, so a ledger costs what was
//! added since.

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
use crate::jsonl::{Cursor, FileId, LineEnding, Scanner};
use crate::layout::{Decoded, Decoder, Needle};
use crate::model::{ArtifactKind, Flaw, FlawKind};

use super::inventory::{self, RootFile, SessionLists};
use super::walk_cache::WalkCache;
use super::{Root, Store, archive_overlay, log_reader};

pub(crate) use attribution::StoredUsage;
use attribution::{Attribution, LedgerEntries};
pub(crate) use recent::{DirTimes, OwnLog, are_unchanged};

/// What a log spent up to some place in it.
#[derive(Clone, Debug)]
pub(crate) struct LogUsage {
    /// What the file was when it was read.
    pub(crate) id: FileId,
    /// How far it was read: to the end of its last whole line.
    pub(crate) cursor: Cursor,
    /// What it spent.
    pub(crate) charges: LogCharges,
    /// What follows in the file spent nothing.
    pub(crate) no_later_usage: bool,
}

/// What is known of a log whose spending counts, and the root that it is of.
#[derive(Debug)]
struct CollectedLog {
    root: usize,
    state: LogProgress,
}

#[derive(Debug)]
enum LogProgress {
    /// It must be read, from where the tab ends if there is one.
    Unread(Option<Box<LogUsage>>),
    /// What it spent, a last line without a line ending included.
    Read(Box<LogCharges>),
    /// It is entered.
    Done,
}

/// The logs of a store, and what is known of their spending so far.
#[derive(Debug)]
pub(crate) struct UsageCollector<'a> {
    /// Each root, and the sessions in it.
    attributions: Vec<Attribution<'a>>,
    /// The logs.
    files: Vec<RootFile>,
    /// One for each log.
    logs: Vec<CollectedLog>,
    /// The directories of each root that were looked into, with when they changed last.
    scanned_dirs: Vec<Vec<(String, i64)>>,
    entries: LedgerEntries,
    /// What could not be read.
    pub(crate) errors: Vec<Error>,
}

/// How much of the work is done in one go: what was read is kept then.
const BATCH_BYTES: u64 = 192 << 20;

/// Less than this is read by one thread.
const SINGLE_THREAD_BYTES: u64 = 1 << 20;

impl<'a> UsageCollector<'a> {
    /// No logs yet.
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

    /// Adds a log with what was read of it before.
    pub(crate) fn add(&mut self, root: usize, file: RootFile, before: Option<LogUsage>) {
        let number = self.logs.len();
        self.add_unread(root, vec![file]);
        if let Some(tab) = before {
            self.set_stored(number, tab);
        }
    }

    /// Adds a log that was read before, as it is now, unless it is gone.
    pub(crate) fn add_known(&mut self, number: usize, root: &Root, path: PathBuf, tab: LogUsage) {
        let id = match path.symlink_metadata() {
            // A link came into its place, behind which nothing is read.
            Ok(found) if !found.is_file() => return,
            Ok(found) => FileId::from(&found),
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(_) => tab.id,
        };
        let relative = path.strip_prefix(&root.path).ok();
        if let Some(artifact) = relative.and_then(|path| root.layout.classify(path)) {
            let file = RootFile::new(path, artifact, id);
            self.add(number, file, Some(tab));
        }
    }

    /// Finds the logs, in the order of the bytes of their paths.
    pub(crate) fn find_logs(store: &'a Store, memory: &mut WalkCache<'_>) -> Self {
        let wanted = |kind: ArtifactKind| kind.is_conversation() || kind == ArtifactKind::Register;
        let mut found = UsageCollector::new(store);
        found.attributions.clear();
        let archive = store.archive().ok();
        for (number, root) in store.roots.iter().enumerate() {
            let mut directories = Vec::new();
            let mut note = |path: &str, id: &FileId| {
                directories.push((path.to_owned(), id.mtime_ns));
            };
            let mut files = memory.with_dirs(root, |folders| {
                let (from, troubles) = (Path::new(""), &mut found.errors);
                inventory::walk_cached(root, from, &wanted, troubles, folders, &mut note)
            });
            let rows = archive.as_ref().map(|archive| {
                archive_overlay::add_archived(archive, root, &mut files, &wanted, &mut found.errors)
            });
            found.scanned_dirs.push(directories);
            let is_register = |file: &&RootFile| file.artifact.kind == ArtifactKind::Register;
            let mut registers = SessionLists::read(root, files.iter().filter(is_register));
            registers.add_stored(rows.unwrap_or_default());
            found
                .attributions
                .push(Attribution::new(root, registers, files.len()));
            files.retain(|file| !is_register(&file));
            found.add_unread(number, files);
        }
        found
    }

    /// Takes in logs of a root, of which nothing is known.
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

    /// The numbers of the logs of one of the roots.
    pub(crate) fn root_range(&self, root: usize) -> Range<usize> {
        let start = self.logs.partition_point(|book| book.root < root);
        start..self.logs.partition_point(|book| book.root <= root)
    }

    /// The file of a log.
    pub(crate) fn file(&self, number: usize) -> Option<&RootFile> {
        self.files.get(number)
    }

    /// Takes what was read of a log before; it is used as far as the log is still the same.
    pub(crate) fn set_stored(&mut self, number: usize, tab: LogUsage) {
        let book = self.logs.get_mut(number).zip(self.files.get(number));
        let Some((book, file)) = book else { return };
        if tab.id.untouched(&file.id) && tab.no_later_usage {
            self.add_charges(number, tab.charges);
        } else {
            book.state = LogProgress::Unread(Some(Box::new(tab)));
        }
    }

    /// Enters what was read of a log that is still the same, without making a sheet of it; tells
    /// whether that could be done.
    pub(crate) fn add_stored(&mut self, number: usize, told: &impl StoredUsage) -> bool {
        let book = self.logs.get_mut(number).zip(self.files.get(number));
        let Some((book, file)) = book else {
            return false;
        };
        let shared = file.artifact.kind == ArtifactKind::SharedLog;
        let Some(payers) = self.attributions.get_mut(book.root).filter(|_| !shared) else {
            return false;
        };
        let entered = payers.add_stored_log(number, file, told, &mut self.entries);
        if entered.is_some() {
            book.state = LogProgress::Done;
        }
        entered.is_some()
    }

    /// Takes note that a log is as it was when it was read, without what it spent.
    pub(crate) fn mark_unchanged(&mut self, number: usize) {
        if let Some(book) = self.logs.get_mut(number) {
            book.state = LogProgress::Done;
        }
    }

    /// Enters what a log spent, so that all sheets are never in memory together. Volumes of a log
    /// that sessions share must wait for those before them.
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

    /// Reads what is not known from before, and gives it to `keep`, some of it at a time.
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
            // Largest first, so that no thread is left alone with a giant at the end. Portions follow
            // each other in the order of paths: what is kept of them is then written in its order.
            portion.sort_by_key(|(_, _, bytes)| std::cmp::Reverse(*bytes));
            let read = |(at, tab, bytes): (usize, Option<Box<LogUsage>>, u64)| {
                let (root, file) = (self.root(at)?, self.files.get(at)?);
                let reading = LogReading::resume(root, file, tab).map(Box::new);
                let so_far = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                progress(so_far, total);
                Some((at, reading))
            };
            // Threads cost more than a little reading.
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
                // A file that vanished meanwhile is as if it had never been there.
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Err(error) => self.errors.push(error),
            }
        }
    }

    /// Who spent what, as far as it was read.
    pub(crate) fn ledger(self) -> (Ledger, Vec<Error>) {
        let (spent, troubles) = self.ledger_with_session(None);
        (spent.ledger, troubles)
    }

    /// The same, and what stands in the logs of one session, copies included.
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

/// Who spent what, and what stands in the logs of one session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LedgerWithSession {
    /// Every response once, with the session that pays for it.
    pub ledger: Ledger,
    /// The responses in the session's logs, whoever pays for them.
    pub session_charges: Vec<Charge>,
}

/// What was read of a log.
struct LogReading {
    usage: LogUsage,
    /// The sheet with a last line that has no ending yet: it counts for now, and is read again.
    pending: Option<LogCharges>,
}

impl LogReading {
    /// Reads a log from where the tab ends, if it is still the log that the tab is of.
    fn resume(root: &Root, file: &RootFile, tab: Option<Box<LogUsage>>) -> Result<Self> {
        let failed = |error| Error::io("read", &file.path, error);
        let handle = file.open()?;
        // What it was when it was found: what was added since makes it another one next time.
        let id = file.id;
        // Whose a log is may be told by lines that spend nothing: as long as nobody is named, all of it counts.
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
        // Lines that spend nothing may tell whose a log is, where its path does not.
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
    /// For the charges of the log that is being read. A list for each log that grows with it would cost
    /// more than to copy it once it is known how long it is.
    static CHARGE_BUFFER: RefCell<Vec<(Charge, Option<Arc<str>>)>> = const { RefCell::new(Vec::new()) };
}

/// Gives a sheet that has no charges yet room for many.
fn take_charge_buffer(sheet: &mut LogCharges) {
    if sheet.charges.is_empty() {
        sheet.charges = CHARGE_BUFFER.take();
    }
}

/// Leaves a sheet the room that it needs, and keeps the rest for the next unless that is too much to
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
    /// The file may be the same with more in it. One of the same length that was touched since may
    /// have been changed anywhere.
    fn continues_in(&self, id: &FileId) -> bool {
        self.id.untouched(id) || (self.id.same_file(id) && id.len > self.id.len)
    }
}

/// Reads on, looking at every one of some first lines until one names a session; gives the end of the last whole line, and the
/// sheet with what follows it.
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
    // Lines without marks were passed over.
    Ok((end.max(lines.offset()), None))
}

impl Store {
    /// Who spent what, and what stands in the logs of the session with that log.
    pub fn ledger_with_session(&self, log: Option<&Path>) -> (LedgerWithSession, Vec<Error>) {
        let mut books = UsageCollector::find_logs(self, &mut WalkCache::disabled());
        books.read_unread(|_| {}, &|_, _| {});
        books.ledger_with_session(log)
    }

    /// Who spent what, read from the logs alone; what could not be read is told beside it.
    pub fn ledger(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> (Ledger, Vec<Error>) {
        let mut books = UsageCollector::find_logs(self, &mut WalkCache::disabled());
        books.read_unread(|_| {}, progress);
        books.ledger()
    }
}
