//! The ledger of a store: who spent what, from the logs themselves.
//!
//! A log is read for its spending alone, which is a fraction of what a list of sessions needs. What
//! was read of it before may be taken from elsewhere and gone on from, so a ledger costs what was
//! added since.

mod look;
mod payers;

use std::cell::RefCell;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::cost::{Charge, Ledger, Sheet};
use crate::error::{Error, Result};
use crate::jsonl::{Cursor, Ending, FileId, Scanner};
use crate::layout::{Decoder, Mark, Sink};
use crate::model::{ArtifactKind, Flaw, FlawKind};

use super::inventory::{self, FoundFile, Registers};
use super::memory::Memory;
use super::{Root, Store, kept, log};

pub(crate) use look::{OwnLog, Places, are_same};
pub(crate) use payers::Told;
use payers::{Entries, Payers};

/// What a log spent up to some place in it.
#[derive(Clone, Debug)]
pub(crate) struct Tab {
    /// What the file was when it was read.
    pub(crate) id: FileId,
    /// How far it was read: to the end of its last whole line.
    pub(crate) cursor: Cursor,
    /// What it spent.
    pub(crate) sheet: Sheet,
    /// What follows in the file spent nothing.
    pub(crate) whole: bool,
}

/// What is known of a log whose spending counts, and the root that it is of.
#[derive(Debug)]
struct Book {
    root: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It must be read, from where the tab ends if there is one.
    Unread(Option<Box<Tab>>),
    /// What it spent, a last line without a line ending included.
    Read(Box<Sheet>),
    /// It is entered.
    Done,
}

/// The logs of a store, and what is known of their spending so far.
#[derive(Debug)]
pub(crate) struct Books<'a> {
    /// Each root, and the sessions in it.
    payers: Vec<Payers<'a>>,
    /// The logs.
    files: Vec<FoundFile>,
    /// One for each log.
    books: Vec<Book>,
    /// The directories of each root that were looked into, with when they changed last.
    directories: Vec<Vec<(String, i64)>>,
    entries: Entries,
    /// What could not be read.
    pub(crate) troubles: Vec<Error>,
}

/// How much of the work is done in one go: what was read is kept then.
const PORTION: u64 = 192 << 20;

/// Less than this is read by one thread.
const ALONE: u64 = 1 << 20;

impl<'a> Books<'a> {
    /// No logs yet.
    pub(crate) fn none(store: &'a Store) -> Self {
        let roots = store.roots.iter();
        Books {
            payers: roots
                .map(|root| Payers::new(root, Registers::default(), 0))
                .collect(),
            files: Vec::new(),
            books: Vec::new(),
            directories: Vec::new(),
            entries: Entries::default(),
            troubles: Vec::new(),
        }
    }

    /// Adds a log with what was read of it before.
    pub(crate) fn add(&mut self, root: usize, file: FoundFile, before: Option<Tab>) {
        let number = self.books.len();
        self.take(root, vec![file]);
        if let Some(tab) = before {
            self.recall(number, tab);
        }
    }

    /// Adds a log that was read before, as it is now, unless it is gone.
    pub(crate) fn add_known(&mut self, number: usize, root: &Root, path: PathBuf, tab: Tab) {
        let id = match path.symlink_metadata() {
            // A link came into its place, behind which nothing is read.
            Ok(found) if !found.is_file() => return,
            Ok(found) => FileId::from(&found),
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(_) => tab.id,
        };
        let relative = path.strip_prefix(&root.path).ok();
        if let Some(artifact) = relative.and_then(|path| root.layout.classify(path)) {
            let file = FoundFile::new(path, artifact, id);
            self.add(number, file, Some(tab));
        }
    }

    /// Finds the logs, in the order of the bytes of their paths.
    pub(crate) fn find(store: &'a Store, memory: &mut Memory<'_>) -> Self {
        let wanted = |kind: ArtifactKind| kind.is_conversation() || kind == ArtifactKind::Register;
        let mut found = Books::none(store);
        found.payers.clear();
        let archive = store.archive().ok();
        for (number, root) in store.roots.iter().enumerate() {
            let mut directories = Vec::new();
            let mut note = |path: &str, id: &FileId| {
                directories.push((path.to_owned(), id.mtime_ns));
            };
            let mut files = memory.folders(root, |folders| {
                let (from, troubles) = (Path::new(""), &mut found.troubles);
                inventory::walk_knowing(root, from, &wanted, troubles, folders, &mut note)
            });
            let rows = archive
                .as_ref()
                .map(|archive| kept::add(archive, root, &mut files, &wanted, &mut found.troubles));
            found.directories.push(directories);
            let is_register = |file: &&FoundFile| file.artifact.kind == ArtifactKind::Register;
            let mut registers = Registers::read(root, files.iter().filter(is_register));
            registers.recall(rows.unwrap_or_default());
            found.payers.push(Payers::new(root, registers, files.len()));
            files.retain(|file| !is_register(&file));
            found.take(number, files);
        }
        found
    }

    /// Takes in logs of a root, of which nothing is known.
    fn take(&mut self, root: usize, mut files: Vec<FoundFile>) {
        let unread = || Book {
            root,
            state: State::Unread(None),
        };
        self.books
            .extend(std::iter::repeat_with(unread).take(files.len()));
        match self.files.is_empty() {
            true => self.files = files,
            false => self.files.append(&mut files),
        }
    }

    /// The numbers of the logs of one of the roots.
    pub(crate) fn of_root(&self, root: usize) -> Range<usize> {
        let start = self.books.partition_point(|book| book.root < root);
        start..self.books.partition_point(|book| book.root <= root)
    }

    /// The file of a log.
    pub(crate) fn file(&self, number: usize) -> Option<&FoundFile> {
        self.files.get(number)
    }

    /// Takes what was read of a log before; it is used as far as the log is still the same.
    pub(crate) fn recall(&mut self, number: usize, tab: Tab) {
        let book = self.books.get_mut(number).zip(self.files.get(number));
        let Some((book, file)) = book else { return };
        if tab.id.untouched(&file.id) && tab.whole {
            self.enter(number, tab.sheet);
        } else {
            book.state = State::Unread(Some(Box::new(tab)));
        }
    }

    /// Enters what was read of a log that is still the same, without making a sheet of it; tells
    /// whether that could be done.
    pub(crate) fn enter_told(&mut self, number: usize, told: &impl Told) -> bool {
        let book = self.books.get_mut(number).zip(self.files.get(number));
        let Some((book, file)) = book else {
            return false;
        };
        let shared = file.artifact.kind == ArtifactKind::SharedLog;
        let Some(payers) = self.payers.get_mut(book.root).filter(|_| !shared) else {
            return false;
        };
        let entered = payers.enter_told(number, file, told, &mut self.entries);
        if entered.is_some() {
            book.state = State::Done;
        }
        entered.is_some()
    }

    /// Takes note that a log is as it was when it was read, without what it spent.
    pub(crate) fn pass(&mut self, number: usize) {
        if let Some(book) = self.books.get_mut(number) {
            book.state = State::Done;
        }
    }

    /// Enters what a log spent, so that all sheets are never in memory together. Volumes of a log
    /// that sessions share must wait for those before them.
    fn enter(&mut self, number: usize, sheet: Sheet) {
        let book = self.books.get_mut(number).zip(self.files.get(number));
        let Some((book, file)) = book else { return };
        book.state = match self.payers.get_mut(book.root) {
            Some(payers) if file.artifact.kind != ArtifactKind::SharedLog => {
                payers.enter(number, file, sheet, &mut self.entries);
                State::Done
            }
            _ => State::Read(Box::new(sheet)),
        };
    }

    /// Reads what is not known from before, and gives it to `keep`, some of it at a time.
    pub(crate) fn read(
        &mut self,
        mut keep: impl FnMut(&[(&Root, &FoundFile, &Tab)]),
        progress: &(dyn Fn(u64, u64) + Sync),
    ) {
        let mut work: Vec<(usize, Option<Box<Tab>>, u64)> = Vec::new();
        for (at, (book, file)) in self.books.iter_mut().zip(&self.files).enumerate() {
            if let State::Unread(before) = &mut book.state {
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
            while let Some(next) = work.next_if(|_| bytes < PORTION) {
                bytes += next.2;
                portion.push(next);
            }
            // Largest first, so that no thread is left alone with a giant at the end. Portions follow
            // each other in the order of paths: what is kept of them is then written in its order.
            portion.sort_by_key(|(_, _, bytes)| std::cmp::Reverse(*bytes));
            let read = |(at, tab, bytes): (usize, Option<Box<Tab>>, u64)| {
                let (root, file) = (self.root_of(at)?, self.files.get(at)?);
                let reading = Reading::go_on(root, file, tab).map(Box::new);
                let so_far = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                progress(so_far, total);
                Some((at, reading))
            };
            // Threads cost more than a little reading.
            let read = match bytes < ALONE {
                true => portion.into_iter().filter_map(read).collect(),
                false => {
                    let portion = portion.into_par_iter().with_max_len(1);
                    portion.filter_map(read).collect()
                }
            };
            self.take_in(read, &mut keep);
        }
    }

    fn root_of(&self, number: usize) -> Option<&'a Root> {
        let root = self.books.get(number)?.root;
        self.payers.get(root).map(|payers| payers.root)
    }

    fn take_in(
        &mut self,
        read: Vec<(usize, Result<Box<Reading>>)>,
        keep: &mut impl FnMut(&[(&Root, &FoundFile, &Tab)]),
    ) {
        let fresh = read.iter().filter_map(|(at, reading)| {
            let tab = &reading.as_ref().ok()?.tab;
            Some((self.root_of(*at)?, self.files.get(*at)?, tab))
        });
        keep(&fresh.collect::<Vec<_>>());
        for (at, reading) in read {
            match reading {
                Ok(reading) => self.enter(at, reading.pending.unwrap_or(reading.tab.sheet)),
                // A file that vanished meanwhile is as if it had never been there.
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Err(error) => self.troubles.push(error),
            }
        }
    }

    /// Who spent what, as far as it was read.
    pub(crate) fn ledger(self) -> (Ledger, Vec<Error>) {
        let (spent, troubles) = self.ledger_with(None);
        (spent.ledger, troubles)
    }

    /// The same, and what stands in the logs of one session, copies included.
    pub(crate) fn ledger_with(mut self, log: Option<&Path>) -> (Spent, Vec<Error>) {
        let books = self.books.into_iter().zip(&self.files);
        for (number, (book, file)) in books.enumerate() {
            if let State::Read(sheet) = book.state
                && let Some(payers) = self.payers.get_mut(book.root)
            {
                payers.enter(number, file, *sheet, &mut self.entries);
            }
        }
        let Entries {
            mut accounts,
            charges,
            uncounted,
        } = self.entries;
        for charge in &charges {
            if let Some(account) = accounts.get_mut(charge.account) {
                account.started = account.started.into_iter().chain(charge.time).min();
            }
        }
        for payers in self.payers {
            payers.settle(&mut accounts);
        }
        let session = log.and_then(|log| accounts.iter().position(|account| account.file == log));
        let own = session.map(|session| {
            let own = charges.iter().filter(|charge| charge.account == session);
            Ledger::settle(Vec::new(), own.cloned().collect()).charges
        });
        let own = own.unwrap_or_default();
        let mut ledger = Ledger::settle(accounts, charges);
        ledger.uncounted = uncounted;
        (Spent { ledger, own }, self.troubles)
    }
}

/// Who spent what, and what stands in the logs of one session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Spent {
    /// Every response once, with the session that pays for it.
    pub ledger: Ledger,
    /// The responses in the session's logs, whoever pays for them.
    pub own: Vec<Charge>,
}

/// What was read of a log.
struct Reading {
    tab: Tab,
    /// The sheet with a last line that has no ending yet: it counts for now, and is read again.
    pending: Option<Sheet>,
}

impl Reading {
    /// Reads a log from where the tab ends, if it is still the log that the tab is of.
    fn go_on(root: &Root, file: &FoundFile, tab: Option<Box<Tab>>) -> Result<Self> {
        let failed = |error| Error::io("read", &file.path, error);
        let handle = file.open()?;
        // What it was when it was found: what was added since makes it another one next time.
        let id = file.id;
        // Whose a log is may be told by lines that spend nothing: as long as nobody is named, all of it counts.
        let nobody = |tab: &Tab| tab.sheet.first.is_none() && file.artifact.session.is_none();
        let mut known = tab.filter(|tab| !nobody(tab));
        if let Some(tab) = &known
            && !(tab.goes_on_in(&id) && tab.cursor.still_valid(&handle).map_err(failed)?)
        {
            known = None;
        }
        let shared = file.artifact.kind == ArtifactKind::SharedLog;
        let (mut sheet, start) = known.map_or_else(
            || (Sheet::default(), 0),
            |tab| (tab.sheet.reopened(), tab.cursor.offset),
        );
        sheet.shared = shared;
        lend_room(&mut sheet);
        let mut decoder = root.decoder(file);
        // Lines that spend nothing may tell whose a log is, where its path does not.
        let opening = match start == 0 && file.artifact.session.is_none() {
            true => inventory::NAMED_WITHIN,
            false => 0,
        };
        let (cursor, pending) = log::with_scanner(file.reader(handle, start), |lines| {
            let (end, pending) = read(
                lines,
                (start, opening),
                root.layout.spending_mark(),
                decoder.as_mut(),
                &mut sheet,
            )?;
            Ok((Cursor::of(&id, lines.reader().bytes(), end)?, pending))
        })
        .map_err(failed)?;
        give_room_back(&mut sheet);
        Ok(Reading {
            tab: Tab {
                id,
                cursor,
                sheet,
                whole: pending.is_none(),
            },
            pending,
        })
    }
}

thread_local! {
    /// For the charges of the log that is being read. A list for each log that grows with it would cost
    /// more than to copy it once it is known how long it is.
    static ROOM: RefCell<Vec<(Charge, Option<Arc<str>>)>> = const { RefCell::new(Vec::new()) };
}

/// Gives a sheet that has no charges yet room for many.
fn lend_room(sheet: &mut Sheet) {
    if sheet.charges.is_empty() {
        sheet.charges = ROOM.take();
    }
}

/// Leaves a sheet the room that it needs, and keeps the rest for the next unless that is too much to
/// keep.
fn give_room_back(sheet: &mut Sheet) {
    const MOST: usize = 1 << 14;
    if sheet.charges.capacity() > MOST {
        return sheet.charges.shrink_to_fit();
    }
    let charges = sheet.charges.drain(..).collect();
    ROOM.set(std::mem::replace(&mut sheet.charges, charges));
}

impl Tab {
    /// The file may be the same with more in it. One of the same length that was touched since may
    /// have been changed anywhere.
    fn goes_on_in(&self, id: &FileId) -> bool {
        self.id.untouched(id) || (self.id.same_file(id) && id.len > self.id.len)
    }
}

/// Reads on, looking at every one of some first lines until one names a session; gives the end of the last whole line, and the
/// sheet with what follows it.
fn read(
    lines: &mut Scanner<log::LogReader>,
    (start, mut opening): (u64, usize),
    mark: Option<Mark>,
    decoder: &mut dyn Decoder,
    sheet: &mut Sheet,
) -> std::io::Result<(u64, Option<Sheet>)> {
    let mut end = start;
    let mut sink = Sink::default();
    loop {
        let line = match mark.filter(|_| opening == 0) {
            Some(mark) => lines.next_where(mark.find, mark.longest)?,
            None => lines.next()?,
        };
        let Some(line) = line else { break };
        let whole = line.ending != Ending::None;
        let record = log::record(&line);
        if whole
            && opening == 0
            && let Some(again) = decoder.spending_again(&record)
        {
            sheet.add_again(&again);
            end = record.span.end();
            continue;
        }
        match opening {
            0 => decoder.spending(&record, &mut sink),
            _ => decoder.outline(&record, &mut sink),
        }
        opening = opening.saturating_sub(1);
        let bad = |flaw: &Flaw| flaw.kind == FlawKind::BadUsage || flaw.kind.hides_record();
        let bad = sink.flaws.drain(..).filter(bad).count() as u64;
        if !whole {
            let pending = (!sink.found.is_empty()).then(|| {
                let mut pending = sheet.clone();
                pending.uncounted += bad;
                sink.found.iter().for_each(|outline| pending.add(outline));
                pending
            });
            return Ok((line.offset, pending));
        }
        end = record.span.end();
        sheet.uncounted += bad;
        sink.found.drain(..).for_each(|outline| sheet.add(&outline));
        if sheet.first.is_some() {
            opening = 0;
        }
    }
    // Lines without marks were passed over.
    Ok((end.max(lines.offset()), None))
}

impl Store {
    /// Who spent what, and what stands in the logs of the session with that log.
    pub fn spent(&self, log: Option<&Path>) -> (Spent, Vec<Error>) {
        let mut books = Books::find(self, &mut Memory::none());
        books.read(|_| {}, &|_, _| {});
        books.ledger_with(log)
    }

    /// Who spent what, read from the logs alone; what could not be read is told beside it.
    pub fn ledger(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> (Ledger, Vec<Error>) {
        let mut books = Books::find(self, &mut Memory::none());
        books.read(|_| {}, progress);
        books.ledger()
    }
}
