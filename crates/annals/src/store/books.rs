//! The ledger of a store: who spent what, from the logs themselves.
//!
//! A log is read for its spending alone, which is a fraction of what a list of sessions needs. What
//! was read of it before may be taken from elsewhere and gone on from, so a ledger costs what was
//! added since.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{ErrorKind, Seek as _, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aho_corasick::packed::Searcher;
use rayon::prelude::*;

use crate::cost::{Account, Charge, Ledger, Sheet};
use crate::error::{Error, Result};
use crate::jsonl::{Cursor, Ending, FileId, Scanner};
use crate::layout::{Decoder, Sink};
use crate::model::{ArtifactKind, Project, SessionId};

use super::inventory::{self, FoundFile, Registers};
use super::{Root, Store, log, share, summary};

/// What a log spent up to some place in it.
#[derive(Clone, Debug)]
pub(crate) struct Tab {
    /// What the file was when it was read.
    pub(crate) id: FileId,
    /// How far it was read: to the end of its last whole line.
    pub(crate) cursor: Cursor,
    /// What it spent.
    pub(crate) sheet: Sheet,
}

/// A log whose spending counts.
#[derive(Debug)]
pub(crate) struct Book {
    root: usize,
    pub(crate) file: FoundFile,
    /// What was read of it before.
    before: Option<Tab>,
    /// What it spent, a last line without a line ending included.
    sheet: Option<Sheet>,
}

impl Book {
    /// Takes what was read of the log before; it is used as far as the log is still the same.
    pub(crate) fn recall(&mut self, tab: Tab) {
        // A line without an ending is never part of a tab.
        if tab.id == self.file.id && tab.cursor.offset == tab.id.len {
            self.sheet = Some(tab.sheet);
        } else {
            self.before = Some(tab);
        }
    }
}

/// The logs of a store.
#[derive(Debug, Default)]
pub(crate) struct Books {
    roots: Vec<Root>,
    books: Vec<Book>,
    registers: Vec<(usize, FoundFile)>,
    /// What could not be read.
    pub(crate) troubles: Vec<Error>,
}

/// How much of the work is done in one go: what was read is kept then.
const PORTION: u64 = 256 << 20;

impl Books {
    /// Finds the logs, in the order of their paths.
    pub(crate) fn find(store: &Store) -> Self {
        let wanted = |kind: ArtifactKind| kind.is_conversation() || kind == ArtifactKind::Register;
        let mut found = Books {
            roots: store.roots.clone(),
            ..Books::default()
        };
        for (root, place) in store.roots.iter().enumerate() {
            for file in inventory::walk(place, &wanted, &mut found.troubles) {
                match file.artifact.kind {
                    ArtifactKind::Register => found.registers.push((root, file)),
                    _ => found.books.push(Book {
                        root,
                        file,
                        before: None,
                        sheet: None,
                    }),
                }
            }
        }
        found
    }

    /// The logs of one of the roots, in the order of the bytes of their paths.
    pub(crate) fn of_root(&mut self, root: usize) -> impl Iterator<Item = &mut Book> {
        let books = self
            .books
            .iter_mut()
            .skip_while(move |book| book.root < root);
        books.take_while(move |book| book.root == root)
    }

    /// Reads what is not known from before, and gives it to `keep`, some of it at a time.
    pub(crate) fn read(
        &mut self,
        mut keep: impl FnMut(&[(&Root, &FoundFile, &Tab)]),
        progress: &(dyn Fn(u64, u64) + Sync),
    ) {
        let mut work: Vec<(usize, Option<Tab>, u64)> = Vec::new();
        let unread = self.books.iter_mut().enumerate();
        for (at, book) in unread.filter(|(_, book)| book.sheet.is_none()) {
            let before = book.before.take();
            let known = before.as_ref().map_or(0, |tab| tab.cursor.offset);
            work.push((at, before, book.file.id.len.saturating_sub(known)));
        }
        // Largest first, so that no thread is left alone with a giant at the end.
        work.sort_by_key(|(_, _, bytes)| std::cmp::Reverse(*bytes));
        let total = work.iter().map(|(_, _, bytes)| bytes).sum();
        let done = AtomicU64::new(0);
        let finders: Vec<Option<Finder>> = self.roots.iter().map(Finder::of).collect();
        let mut work = work.into_iter().peekable();
        while work.peek().is_some() {
            let mut portion = Vec::new();
            let mut bytes = 0;
            while let Some(next) = work.next_if(|_| bytes < PORTION) {
                bytes += next.2;
                portion.push(next);
            }
            let read: Vec<(usize, Result<Reading>)> = portion
                .into_par_iter()
                .with_max_len(1)
                .filter_map(|(at, tab, bytes)| {
                    let book = self.books.get(at)?;
                    let root = self.roots.get(book.root)?;
                    let finder = finders.get(book.root)?.as_ref();
                    let reading = Reading::go_on(root, &book.file, finder, tab);
                    let so_far = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                    progress(so_far, total);
                    Some((at, reading))
                })
                .collect();
            self.take_in(read, &mut keep);
        }
    }

    fn take_in(
        &mut self,
        read: Vec<(usize, Result<Reading>)>,
        keep: &mut impl FnMut(&[(&Root, &FoundFile, &Tab)]),
    ) {
        let fresh = read.iter().filter_map(|(at, reading)| {
            let book = self.books.get(*at)?;
            let tab = &reading.as_ref().ok()?.tab;
            Some((self.roots.get(book.root)?, &book.file, tab))
        });
        keep(&fresh.collect::<Vec<_>>());
        for (at, reading) in read {
            match reading {
                Ok(reading) => {
                    if let Some(book) = self.books.get_mut(at) {
                        book.sheet = Some(reading.pending.unwrap_or(reading.tab.sheet));
                    }
                }
                // A file that vanished meanwhile is as if it had never been there.
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Err(error) => self.troubles.push(error),
            }
        }
    }

    /// Who spent what.
    pub(crate) fn ledger(self) -> (Ledger, Vec<Error>) {
        let sheets = self.books.iter().filter_map(|book| book.sheet.as_ref());
        let mut entries = Entries {
            accounts: Vec::new(),
            charges: Vec::with_capacity(sheets.map(|sheet| sheet.charges.len()).sum()),
        };
        let mut books = self.books.into_iter().peekable();
        for (at, root) in self.roots.iter().enumerate() {
            let own = self.registers.iter().filter(|(of, _)| *of == at);
            let registers = Registers::read(root, own.map(|(_, file)| file));
            let mut payers = Payers::new(root, registers);
            while let Some(book) = books.next_if(|book| book.root == at) {
                if let Some(sheet) = book.sheet {
                    payers.enter(&book.file, sheet, &mut entries);
                }
            }
            payers.settle(&mut entries);
        }
        (
            Ledger::settle(entries.accounts, entries.charges),
            self.troubles,
        )
    }
}

/// Looks for the marks of spending.
struct Finder {
    marks: Searcher,
    longest: usize,
}

impl Finder {
    fn of(root: &Root) -> Option<Self> {
        let texts = root.layout.spending_marks();
        let longest = texts.iter().map(|text| text.len()).max()?;
        // Where the machine has no vectors for it, every record is looked at.
        let marks = Searcher::new(texts)?;
        Some(Finder { marks, longest })
    }

    fn find(&self, bytes: &[u8]) -> Option<usize> {
        self.marks.find(bytes).map(|found| found.start())
    }
}

/// What was read of a log.
struct Reading {
    tab: Tab,
    /// The sheet with a last line that has no ending yet: it counts for now, and is read again.
    pending: Option<Sheet>,
}

impl Reading {
    /// Reads a log from where the tab ends, if it is still the log that the tab is of.
    fn go_on(
        root: &Root,
        file: &FoundFile,
        finder: Option<&Finder>,
        tab: Option<Tab>,
    ) -> Result<Self> {
        let failed = |error| Error::io("read", &file.path, error);
        let mut handle = log::open(&file.path)?;
        let id = FileId::from(&handle.metadata().map_err(failed)?);
        let mut known = tab;
        if let Some(tab) = &known
            && !(tab.goes_on_in(&id) && tab.cursor.still_valid(&handle).map_err(failed)?)
        {
            known = None;
        }
        let (mut sheet, start) = known.map_or_else(
            || (Sheet::default(), 0),
            |tab| (tab.sheet.reopened(), tab.cursor.offset),
        );
        if start > 0 {
            handle.seek(SeekFrom::Start(start)).map_err(failed)?;
        }
        let mut decoder = root.layout.decoder(&file.artifact);
        let (cursor, pending) = log::with_scanner(handle, start, |lines| {
            let (end, pending) = read(lines, start, finder, decoder.as_mut(), &mut sheet)?;
            Ok((Cursor::of(&id, lines.reader(), end)?, pending))
        })
        .map_err(failed)?;
        Ok(Reading {
            tab: Tab { id, cursor, sheet },
            pending,
        })
    }
}

impl Tab {
    /// The file may be the same with more in it. One of the same length that was touched since may
    /// have been changed anywhere.
    fn goes_on_in(&self, id: &FileId) -> bool {
        self.id == *id || (self.id.same_file(id) && id.len > self.id.len)
    }
}

/// Reads on; gives the end of the last whole line, and the sheet with what follows it.
fn read(
    lines: &mut Scanner<std::fs::File>,
    start: u64,
    finder: Option<&Finder>,
    decoder: &mut dyn Decoder,
    sheet: &mut Sheet,
) -> std::io::Result<(u64, Option<Sheet>)> {
    let mut end = start;
    let mut sink = Sink::default();
    loop {
        let line = match finder {
            Some(finder) => lines.next_where(|bytes| finder.find(bytes), finder.longest)?,
            None => lines.next()?,
        };
        let Some(line) = line else { break };
        let whole = line.ending != Ending::None;
        let record = log::record(&line);
        decoder.spending(&record, &mut sink);
        sink.flaws.clear();
        if !whole {
            let mut pending = sheet.clone();
            sink.found.iter().for_each(|outline| pending.add(outline));
            return Ok((line.offset, Some(pending)));
        }
        end = record.span.end();
        sink.found.drain(..).for_each(|outline| sheet.add(&outline));
    }
    // Lines without marks were passed over.
    Ok((end.max(lines.offset()), None))
}

struct Entries {
    accounts: Vec<Account>,
    charges: Vec<Charge>,
}

/// The sessions of a root, as its logs are gone through in the order of their paths.
struct Payers<'a> {
    root: &'a Root,
    registers: Registers,
    first: usize,
    known: HashMap<(SessionId, Option<String>), usize>,
    sessions: Vec<Payer>,
    /// With whom the volume before ended, and the folder it lies in.
    before: Option<(Option<String>, share::Ending)>,
}

#[derive(Default)]
struct Payer {
    folder: Option<String>,
    /// Directories of its own log, and of its sub-agents'.
    own: Vec<Arc<str>>,
    others: Vec<Arc<str>>,
}

impl<'a> Payers<'a> {
    fn new(root: &'a Root, registers: Registers) -> Self {
        Payers {
            root,
            registers,
            first: 0,
            known: HashMap::new(),
            sessions: Vec::new(),
            before: None,
        }
    }

    /// Enters what a log spent.
    fn enter(&mut self, file: &FoundFile, sheet: Sheet, entries: &mut Entries) {
        if self.sessions.is_empty() {
            self.first = entries.accounts.len();
        }
        if file.artifact.kind == ArtifactKind::SharedLog {
            return self.enter_shared(file, sheet, entries);
        }
        if sheet.charges.is_empty() {
            return;
        }
        let named = || SessionId::new(sheet.first.as_deref()?).ok();
        // A log that tells nobody's session is a session of its own.
        let own = || SessionId::new(file.path.file_stem()?.to_str()?).ok();
        let session = file.artifact.session.clone();
        let Some(session) = session.or_else(named).or_else(own) else {
            return;
        };
        let directories: Vec<Arc<str>> = sheet.directories().into_iter().cloned().collect();
        let aside = file.artifact.is_agent_log();
        let account = self.account(&session, file, aside, entries);
        self.moved(account, aside, &directories);
        entries.charges.extend(sheet.charges(account, &session));
    }

    /// Enters what a log spent in which several sessions lie.
    fn enter_shared(&mut self, file: &FoundFile, mut sheet: Sheet, entries: &mut Entries) {
        let folder = file.artifact.folder.clone();
        let before = self.before.take().filter(|(of, _)| *of == folder);
        let before = before.map(|(_, ending)| ending);
        let goes_on = sheet
            .opening
            .is_some_and(|opening| share::goes_on(opening.answers, opening.time, before.as_ref()));
        let owner = before.filter(|_| goes_on).map(|before| before.session);
        let Some(owner) = owner.or_else(|| file.artifact.session.clone()) else {
            return;
        };
        let named = |name: Option<Arc<str>>| {
            let name = name.and_then(|name| SessionId::new(&name).ok());
            name.unwrap_or_else(|| owner.clone())
        };
        let directories: Vec<Arc<str>> = sheet.directories().into_iter().cloned().collect();
        let mut moved = HashSet::new();
        for (mut charge, name) in std::mem::take(&mut sheet.charges) {
            let (session, agent) = share::whose(&named(name));
            let aside = agent.is_some();
            charge.account = self.account(&session, file, aside, entries);
            if moved.insert(charge.account) {
                self.moved(charge.account, aside, &directories);
            }
            charge.agent = agent.map(|agent| agent.as_str().into()).or(charge.agent);
            entries.charges.push(charge);
        }
        if sheet.opening.is_some() {
            let ending = share::Ending {
                session: named(sheet.session),
                time: sheet.latest,
            };
            self.before = Some((folder, ending));
        }
    }

    /// The number of a session's account, which is opened if need be.
    fn account(
        &mut self,
        session: &SessionId,
        file: &FoundFile,
        aside: bool,
        entries: &mut Entries,
    ) -> usize {
        let folder = file.artifact.folder.clone();
        let next = self.sessions.len();
        let at = *self
            .known
            .entry((session.clone(), folder.clone()))
            .or_insert(next);
        if at == next {
            self.sessions.push(Payer {
                folder,
                ..Payer::default()
            });
            entries.accounts.push(Account {
                layout: self.root.layout.name(),
                root: self.root.path.clone(),
                session: session.clone(),
                file: file.path.clone(),
                project: Project {
                    path: String::new(),
                    guessed: true,
                },
                started: None,
            });
        }
        let number = self.first + at;
        // The newest volume of its own log stands for a session.
        let account = entries.accounts.get_mut(number).filter(|_| !aside);
        if let Some(account) = account.filter(|account| account.file != file.path) {
            account.file.clone_from(&file.path);
        }
        number
    }

    /// Takes note of the directories that a log names.
    fn moved(&mut self, account: usize, aside: bool, directories: &[Arc<str>]) {
        if let Some(payer) = self.sessions.get_mut(account - self.first) {
            match aside {
                true => payer.others.extend_from_slice(directories),
                false => payer.own.extend_from_slice(directories),
            }
        }
    }

    /// Says when each session began, and what it is about.
    fn settle(self, entries: &mut Entries) {
        for charge in &entries.charges {
            if let Some(account) = entries.accounts.get_mut(charge.account) {
                account.started = account.started.into_iter().chain(charge.time).min();
            }
        }
        let accounts = entries.accounts.iter_mut().skip(self.first);
        let mut paired: Vec<(&Payer, &mut Account)> = self.sessions.iter().zip(accounts).collect();
        for (payer, account) in &mut paired {
            let named = payer.own.iter().chain(&payer.others);
            let directories: Vec<&str> = named.map(|path| &**path).collect();
            let folder = payer.folder.as_deref();
            let about = self.registers.about(folder, &account.session);
            let told = about.iter().find_map(|about| about.cwd.clone());
            (account.project, _) = summary::project_of(self.root, folder, &directories, told);
        }
        if paired.iter().any(|(_, account)| account.project.guessed) {
            self.ask_others(&mut paired);
        }
    }

    /// Where a session names no directory, others of its folder may, if there is no doubt.
    fn ask_others(&self, sessions: &mut [(&Payer, &mut Account)]) {
        let mut homes: HashMap<Option<&str>, BTreeSet<String>> = HashMap::new();
        for (payer, account) in sessions
            .iter()
            .filter(|(_, account)| !account.project.guessed)
        {
            let path = &account.project.path;
            let folder = payer.folder.as_deref();
            if self.root.layout.folder(path).as_deref() == folder {
                homes.entry(folder).or_default().insert(path.clone());
            }
        }
        for (payer, account) in sessions.iter_mut() {
            let homes = homes.get(&payer.folder.as_deref());
            let home = homes.filter(|homes| homes.len() == 1);
            let home = home.and_then(|homes| homes.first());
            if let Some(path) = home.filter(|_| account.project.guessed) {
                account.project = Project {
                    path: path.clone(),
                    guessed: false,
                };
            }
        }
    }
}

impl Store {
    /// Who spent what, read from the logs alone; what could not be read is told beside it.
    pub fn ledger(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> (Ledger, Vec<Error>) {
        let mut books = Books::find(self);
        books.read(|_| {}, progress);
        books.ledger()
    }
}
