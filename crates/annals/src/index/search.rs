//! Search with what the catalogue knows of words, and how it learns them.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use rusqlite::TransactionBehavior;

use crate::error::{Error, Result};
use crate::jsonl::{BytesReader, Cursor, Ending, LogFile, Scanner};
use crate::layout::{Record, Sink};
use crate::model::Span;
use crate::search::word::{Cutter, Token, lookups};
use crate::search::{Found, Hunt, Plan, Query, TermKind, beside, pieces};
use crate::store::{FoundFile, Inventory, Root};

use super::Catalogue;
use super::database::{new_number, number_of, with_little_room, within};
use super::merge;
use super::rows::is_same;
use super::seal::Stamp;
use super::segment::{Collected, Documents};
use super::words::{self, Mark, Stretch};

/// So many bytes of logs are read before their words are kept.
const PORTION: u64 = 64 << 20;

/// Less than this is read by one thread.
const ALONE: u64 = 1 << 20;

impl Catalogue {
    /// Looks for something in all sessions of an inventory.
    ///
    /// What was added to logs since [`learn`](Self::learn) is read, and so is all of them if the
    /// query has no words. The answer is that of [`Store::search`](crate::store::Store::search).
    pub fn search(&mut self, inventory: &Inventory, query: &Query) -> Result<Found> {
        let hunt = Hunt::new(inventory, query)?;
        self.behind = true;
        let plans = self.plans(&hunt, inventory).unwrap_or_else(|error| {
            self.begin_anew(&error);
            None
        });
        let all = || hunt.sources.iter().map(|_| Plan::ALL).collect();
        Ok(hunt.run(plans.unwrap_or_else(all)))
    }

    /// Whether there may be more to [`learn`](Self::learn) than the last search knew of.
    pub fn is_behind(&self) -> bool {
        self.behind
    }

    /// Where looking is worthwhile; `None` if that is everywhere.
    fn plans(
        &mut self,
        hunt: &Hunt<'_>,
        inventory: &Inventory,
    ) -> rusqlite::Result<Option<Vec<Plan>>> {
        let narrows = hunt.matcher.narrow(
            &mut |term| wanted(term).map(|_| ()),
            &mut |(), ()| (),
            &mut |(), ()| (),
        );
        if narrows.is_none() {
            return Ok(None);
        }
        let behind = &mut self.behind;
        with_little_room(&mut self.database, |database| {
            plan(database, hunt, inventory, behind)
        })
    }

    /// Learns the words of what was added to logs since the last time.
    ///
    /// They are kept some at a time, so one who is stopped goes on where they were. `progress` hears of bytes
    /// done and bytes in all; nothing more is read once `stop` says so.
    pub fn learn(
        &mut self,
        inventory: &Inventory,
        progress: &(dyn Fn(u64, u64) + Sync),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Vec<Error> {
        let mut troubles = Vec::new();
        if let Err(error) = self.try_learn(inventory, progress, stop, &mut troubles) {
            self.begin_anew(&error);
        }
        troubles
    }

    fn try_learn(
        &mut self,
        inventory: &Inventory,
        progress: &(dyn Fn(u64, u64) + Sync),
        stop: &(dyn Fn() -> bool + Sync),
        troubles: &mut Vec<Error>,
    ) -> rusqlite::Result<()> {
        let roots = Texts::of(inventory);
        let mut work = Vec::new();
        let mut stale = Vec::new();
        for texts in &roots {
            let mut covered = Covered::default();
            if covered.add(&self.database, texts)? {
                continue;
            }
            stale.push(texts);
            work.extend(covered.unread(texts));
            if inventory.troubles.is_empty() {
                self.forget_gone(texts)?;
            }
        }
        let total: u64 = work.iter().map(Unread::bytes).sum();
        let done = AtomicU64::new(0);
        let mut work: std::collections::VecDeque<Unread<'_>> = work.into();
        while !work.is_empty() {
            if stop() {
                return Ok(());
            }
            let mut portion = Vec::new();
            let mut bytes = 0;
            while bytes < PORTION
                && let Some(next) = work.pop_front()
            {
                bytes += next.bytes();
                portion.push(next);
            }
            let read = read_portion(
                portion,
                bytes,
                &done,
                &|so_far| progress(so_far, total),
                stop,
            );
            for learnt in &read {
                // What is longer than a portion goes on in the next one.
                let more = learnt.files.iter().filter_map(|(file, _, outcome)| {
                    let mark = outcome.as_ref().ok().filter(|read| read.more)?.mark;
                    Some(Unread {
                        from: mark.cursor.offset,
                        lines: mark.lines,
                        before: Some(mark.cursor),
                        ..*file
                    })
                });
                work.extend(more);
            }
            self.keep_words(read, troubles)?;
        }
        if stale.is_empty() || stop() || !troubles.is_empty() {
            return Ok(());
        }
        self.keep_coverage(&stale)
    }

    /// Forgets the words of files that are gone.
    fn forget_gone(&mut self, texts: &Texts<'_>) -> rusqlite::Result<()> {
        let Some(root) = number_of(&self.database, texts.root)? else {
            return Ok(());
        };
        let files = texts.files.iter();
        let there: HashSet<&[u8]> = files.map(|file| within(texts.root, file)).collect();
        let known = words::marks(&self.database, root)?.into_iter();
        // An inventory may have been narrowed to some sessions.
        let is_there = |path: &[u8]| {
            let path = texts.root.path.join(OsStr::from_bytes(path));
            path.symlink_metadata().is_ok()
        };
        let gone: Vec<i64> = known
            .filter(|(path, _)| !there.contains(path.as_slice()) && !is_there(path))
            .map(|(_, (text, _))| text)
            .collect();
        if gone.is_empty() {
            return Ok(());
        }
        let behavior = TransactionBehavior::Immediate;
        let change = self.database.transaction_with_behavior(behavior)?;
        words::uncover(&change, root)?;
        for text in gone {
            words::forget(&change, text)?;
        }
        change.commit()
    }

    fn keep_words(
        &mut self,
        read: Vec<Learnt<'_>>,
        troubles: &mut Vec<Error>,
    ) -> rusqlite::Result<()> {
        let behavior = TransactionBehavior::Immediate;
        let change = self.database.transaction_with_behavior(behavior)?;
        for learnt in read {
            let mut stretches = Vec::new();
            for (file, spans, outcome) in learnt.files {
                let read = match outcome {
                    Ok(read) => read,
                    Err(error) => {
                        // Its documents have numbers all the same.
                        stretches.push(Stretch::new(None, spans));
                        // A file that vanished or was cut meanwhile is read the next time.
                        if !is_passing(&error) {
                            troubles.push(error);
                        }
                        continue;
                    }
                };
                let root = new_number(&change, file.root)?;
                let path = within(file.root, file.file);
                let known = words::mark_of(&change, root, path)?;
                // Another process may have learnt the same meanwhile.
                if known.map(|mark| mark.cursor) != file.before {
                    stretches.push(Stretch::new(None, spans));
                    continue;
                }
                words::uncover(&change, root)?;
                let text = words::set_mark(&change, root, path, &read.mark)?;
                if file.from == 0 {
                    words::forget_documents(&change, text)?;
                }
                stretches.push(Stretch::new(Some(text), spans));
            }
            let sorted = learnt.words.sorted().into_iter();
            words::add_segment(&change, &stretches, sorted.map(Ok))?;
        }
        merge::tidy(&change)?;
        change.commit()
    }

    fn keep_coverage(&mut self, stale: &[&Texts<'_>]) -> rusqlite::Result<()> {
        let behavior = TransactionBehavior::Immediate;
        let change = self.database.transaction_with_behavior(behavior)?;
        for texts in stale {
            let root = new_number(&change, texts.root)?;
            let marks = words::marks(&change, root)?;
            let mut pending = Vec::new();
            let mut known = true;
            for file in &texts.files {
                match marks.get(within(texts.root, file)) {
                    Some((text, mark)) if mark.id.untouched(&file.id) => {
                        if mark.cursor.offset < file.id.len {
                            pending.push(*text);
                        }
                    }
                    _ => known = false,
                }
            }
            if known {
                words::set_coverage(&change, root, texts.stamp(), &pending)?;
            }
        }
        change.commit()
    }
}

/// Where looking is worthwhile, by what stands in the catalogue; `behind` tells whether there is more to
/// learn.
fn plan(
    database: &mut rusqlite::Connection,
    hunt: &Hunt<'_>,
    inventory: &Inventory,
    behind: &mut bool,
) -> rusqlite::Result<Option<Vec<Plan>>> {
    // One state of the database, whatever others do meanwhile.
    let database = database.transaction()?;
    let mut covered = Covered::default();
    let mut known = true;
    for texts in Texts::of(inventory) {
        known &= covered.add(&database, &texts)?;
    }
    *behind = !known;
    let mut worth: HashMap<i64, Vec<Span>> = HashMap::new();
    for segment in words::segments(&database)? {
        let mut failure = None;
        let mut look_up = |term: &crate::search::Term| -> Option<Documents> {
            let mut all: Option<Documents> = None;
            for lookup in wanted(term)? {
                if all.as_ref().is_some_and(Documents::is_empty) {
                    break;
                }
                match words::look_up(&database, segment, lookup) {
                    Err(error) => failure = Some(error),
                    Ok(found) => {
                        all = Some(match all {
                            Some(all) => all.both(&found),
                            None => found,
                        });
                    }
                }
            }
            all
        };
        let found = hunt.matcher.narrow(
            &mut look_up,
            &mut |a: Documents, b| a.both(&b),
            &mut |a: Documents, b| a.either(&b),
        );
        if let Some(error) = failure {
            return Err(error);
        }
        let Some(found) = found else {
            return Ok(None);
        };
        for (text, mut spans) in words::places(&database, segment.0, &found)? {
            worth.entry(text).or_default().append(&mut spans);
        }
    }
    for text in worth.keys() {
        covered.name(&database, *text)?;
    }
    let plans = hunt.sources.iter().map(|source| {
        let (text, from) = covered.get(&source.files.root, source.file);
        let spans = text.and_then(|text| worth.get(&text));
        let spans = spans.into_iter().flatten();
        // What lies beyond is looked at anyway.
        let spans = spans.filter(|span| span.end() <= from && source.owns(span.offset));
        let mut spans: Vec<Span> = spans.copied().collect();
        spans.sort_unstable();
        spans.dedup();
        // To read most of a file record by record costs more than to read it.
        let bytes: u64 = spans.iter().map(|span| span.len).sum();
        match bytes > from / 2 {
            true => Plan::ALL,
            false => Plan { spans, from },
        }
    });
    Ok(Some(plans.collect()))
}

/// What an index must have of a text in which a term stands; `None` if it can tell nothing.
fn wanted(term: &crate::search::Term) -> Option<Vec<crate::search::word::Lookup>> {
    let TermKind::Literal { open_start, .. } = term.kind else {
        return None;
    };
    let mut found = Vec::new();
    for (number, word) in term.text.split_whitespace().enumerate() {
        found.append(&mut lookups(word, number > 0 || !open_start));
    }
    // The longest are mostly the rarest.
    found.sort_by_key(|lookup| Reverse(lookup.token().len()));
    (!found.is_empty()).then_some(found)
}

/// The files of one root in which words stand.
pub(super) struct Texts<'a> {
    pub(super) root: &'a Root,
    pub(super) files: Vec<&'a FoundFile>,
}

impl<'a> Texts<'a> {
    /// Each file once, however many sessions share it.
    pub(super) fn of(inventory: &'a Inventory) -> Vec<Self> {
        let mut roots: Vec<Texts<'a>> = Vec::new();
        let mut shared: HashSet<&Path> = HashSet::new();
        for files in &inventory.sessions {
            let is_it = |texts: &Texts<'_>| is_same(texts.root, &files.root);
            let at = match roots.last().is_some_and(is_it) {
                true => roots.len() - 1,
                false => roots.iter().position(is_it).unwrap_or_else(|| {
                    roots.push(Texts {
                        root: &files.root,
                        files: Vec::new(),
                    });
                    roots.len() - 1
                }),
            };
            let logs = files.logs().flat_map(FoundFile::volumes);
            for file in logs.chain(files.notes()) {
                let fresh = file.share.is_none() || shared.insert(&file.path);
                if let Some(texts) = roots.get_mut(at).filter(|_| fresh) {
                    texts.files.push(file);
                }
            }
        }
        roots
    }

    /// The state in which the files are.
    fn stamp(&self) -> Stamp {
        Stamp::of_files(&self.root.path, self.files.iter().copied())
    }
}

/// Of which files the words are known, and how far.
#[derive(Default)]
struct Covered {
    /// The roots of which all files are as they were when all their words were known, by number.
    whole: HashMap<i64, Root>,
    /// Files, with their numbers and how far they are known.
    files: ByFile<(i64, Mark)>,
    /// Files that are not what they were.
    changed: ByFile<Mark>,
}

/// Something of each of some files. They are told apart by their inodes first, because paths are long,
/// and several may lead to one file.
struct ByFile<T>(HashMap<u64, Vec<(OsString, T)>>);

impl<T> Default for ByFile<T> {
    fn default() -> Self {
        ByFile(HashMap::new())
    }
}

impl<T> ByFile<T> {
    fn insert(&mut self, ino: u64, path: OsString, value: T) {
        self.0.entry(ino).or_default().push((path, value));
    }

    fn get(&self, file: &FoundFile) -> Option<&T> {
        let mut found = self.0.get(&file.id.ino)?.iter();
        let is_it = |(path, _): &&(OsString, T)| path == file.path.as_os_str();
        found.find(is_it).map(|(_, value)| value)
    }
}

impl Covered {
    /// Finds out about the files of a root; tells whether nothing is left to be read of them but last
    /// lines that are not whole.
    fn add(
        &mut self,
        database: &rusqlite::Connection,
        texts: &Texts<'_>,
    ) -> rusqlite::Result<bool> {
        let Some(root) = number_of(database, texts.root)? else {
            return Ok(false);
        };
        if let Some((stamp, pending)) = words::coverage(database, root)?
            && stamp == texts.stamp().to_bytes()
        {
            self.whole.insert(root, texts.root.clone());
            for text in pending {
                self.name(database, text)?;
            }
            return Ok(true);
        }
        let marks = words::marks(database, root)?;
        for file in &texts.files {
            let Some((text, mark)) = marks.get(within(texts.root, file)) else {
                continue;
            };
            let (ino, path) = (file.id.ino, file.path.clone().into());
            match still_known(file, mark) {
                true => self.files.insert(ino, path, (*text, *mark)),
                false => self.changed.insert(ino, path, *mark),
            }
        }
        Ok(false)
    }

    /// Finds out how far a file of a root that is as it was is known.
    fn name(&mut self, database: &rusqlite::Connection, text: i64) -> rusqlite::Result<()> {
        let (root, path, mark) = words::mark(database, text)?.ok_or_else(words::damaged)?;
        if let Some(root) = self.whole.get(&root) {
            let path = root.path.join(OsStr::from_bytes(&path));
            self.files.insert(mark.id.ino, path.into(), (text, mark));
        }
        Ok(())
    }

    /// The number of a file, and how far it is known.
    fn get(&self, root: &Root, file: &FoundFile) -> (Option<i64>, u64) {
        match self.files.get(file) {
            Some((text, mark)) => (Some(*text), mark.cursor.offset),
            None if self.whole.values().any(|whole| is_same(whole, root)) => (None, file.id.len),
            None => (None, 0),
        }
    }

    /// What must be read of the files of a root.
    fn unread<'a>(&self, texts: &Texts<'a>) -> Vec<Unread<'a>> {
        let files = texts.files.iter();
        let unread = files.map(|file| {
            let known = self.files.get(file).map(|(_, mark)| mark);
            let before = known.or_else(|| self.changed.get(file));
            Unread {
                root: texts.root,
                file,
                from: known.map_or(0, |mark| mark.cursor.offset),
                lines: known.map_or(0, |mark| mark.lines),
                before: before.map(|mark| mark.cursor),
            }
        });
        unread.filter(|unread| unread.bytes() > 0).collect()
    }
}

/// Whether an error only says that a file was removed or cut while it was read.
fn is_passing(error: &Error) -> bool {
    use ErrorKind::{NotFound, UnexpectedEof};
    matches!(error, Error::Io { source, .. } if matches!(source.kind(), NotFound | UnexpectedEof))
}

/// Whether a file is as it was up to where it was read.
fn still_known(file: &FoundFile, mark: &Mark) -> bool {
    if mark.id.untouched(&file.id) {
        return true;
    }
    let grew = mark.id.same_file(&file.id) && file.id.len > mark.id.len;
    let valid = |handle: LogFile| mark.cursor.still_valid(&handle).unwrap_or(false);
    grew && file.open().is_ok_and(valid)
}

/// A file whose words are not all known.
#[derive(Clone, Copy)]
struct Unread<'a> {
    root: &'a Root,
    file: &'a FoundFile,
    /// It is known up to here.
    from: u64,
    /// So many lines that is.
    lines: u64,
    /// How far it was known before, whether that is of use or not.
    before: Option<Cursor>,
}

impl Unread<'_> {
    fn bytes(&self) -> u64 {
        self.file.id.len.saturating_sub(self.from)
    }
}

/// Words of several files.
struct Learnt<'a> {
    words: Collected,
    /// What was read of each file, and where its documents lie, even if reading failed after them.
    files: Vec<(Unread<'a>, Vec<Span>, Result<ReadWords>)>,
}

/// What was read of one file.
struct ReadWords {
    mark: Mark,
    /// There is more than fits into a portion.
    more: bool,
}

fn read_portion<'a>(
    mut portion: Vec<Unread<'a>>,
    bytes: u64,
    done: &AtomicU64,
    progress: &(dyn Fn(u64) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Learnt<'a>> {
    let threads = match bytes < ALONE {
        true => 1,
        false => rayon::current_num_threads().max(1),
    };
    // Shares of about the same size: the largest to whoever has least.
    portion.sort_by_key(|unread| Reverse(unread.bytes()));
    let mut shares: Vec<(u64, Vec<Unread<'a>>)> = Vec::new();
    shares.resize_with(threads.min(portion.len()).max(1), Default::default);
    for unread in portion {
        if let Some((sum, share)) = shares.iter_mut().min_by_key(|(sum, _)| *sum) {
            *sum += unread.bytes();
            share.push(unread);
        }
    }
    let read = |(_, share): (u64, Vec<Unread<'a>>)| {
        let mut words = Collected::default();
        let mut files = Vec::with_capacity(share.len());
        for unread in share {
            if stop() {
                break;
            }
            let mut spans = Vec::new();
            let outcome = read_words(&unread, &mut words, &mut spans);
            let read = match &outcome {
                Ok(read) => read.mark.cursor.offset.saturating_sub(unread.from),
                Err(_) => unread.bytes(),
            };
            progress(done.fetch_add(read, Ordering::Relaxed) + read);
            files.push((unread, spans, outcome));
        }
        Learnt { words, files }
    };
    match threads {
        1 => shares.into_iter().map(read).collect(),
        _ => shares.into_par_iter().with_max_len(1).map(read).collect(),
    }
}

/// Reads the words of what is not known of a file, as far as it has whole lines.
fn read_words(
    unread: &Unread<'_>,
    words: &mut Collected,
    spans: &mut Vec<Span>,
) -> Result<ReadWords> {
    let file = unread.file;
    let failed = |error| Error::io("read", &file.path, error);
    let handle = file.open()?;
    // No further than it went when it was found: that is the state of which is taken note.
    let within = BytesReader::between(&handle, unread.from, unread.from + unread.bytes());
    let mut lines = Scanner::from_offset(within, unread.from, unread.lines + 1);
    let mut decoder = unread.root.layout.decoder(&file.artifact);
    let mut sink = Sink::default();
    let mut cutter = Cutter::default();
    let (mut end, mut count) = (unread.from, unread.lines);
    let mut more = false;
    while let Some(line) = lines.next().map_err(failed)? {
        if line.ending == Ending::None {
            break;
        }
        let span = Span {
            offset: line.offset,
            len: line.len,
            line: line.number,
        };
        (end, count) = (span.end(), span.line);
        let record = Record {
            span,
            bytes: line.bytes,
            terminated: true,
            oversize: line.oversize,
        };
        decoder.decode(&record, &mut sink);
        sink.flaws.clear();
        let aside = match sink.found.len() {
            1 => beside(decoder.as_mut(), &record),
            _ => Vec::new(),
        };
        let mut any = false;
        for entry in sink.found.drain(..) {
            pieces(&entry, &aside, &mut |piece| {
                cutter.cut(&piece.text, &mut |token: Token| {
                    any = true;
                    words.add(token);
                });
            });
        }
        if any {
            words.end();
            spans.push(span);
        }
        if end - unread.from >= PORTION {
            more = true;
            break;
        }
    }
    let cursor = Cursor::of(&file.id, &handle, end).map_err(failed)?;
    Ok(ReadWords {
        mark: Mark {
            id: file.id,
            cursor,
            lines: count,
        },
        more,
    })
}
