//! Updates the full-text index.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use rusqlite::TransactionBehavior;

use crate::error::{Error, Result};
use crate::search::tokenizer::{Token, Tokenizer};
use crate::search::{extra_text, text_pieces};
use crate::store::{Inventory, Root, RootFile, record_source};
use annals_jsonl::Error as FileError;
use annals_jsonl::{Cursor, LineEnding, RangeReader, ReadAt as _, Scanner};
use annals_layouts::layout::{Decoded, Record};
use annals_layouts::model::Span;

use super::IndexDatabase;
use super::database::new_number;
use super::files::{self, TextMark, delete_gone, now, within};
use super::merge;
use super::segment::TokenCollector;
use super::text_files::{IndexedTexts, RootTexts};
use super::text_store::{self, DocumentRange};

/// Number of log bytes read before their tokens are saved.
const PORTION: u64 = 64 << 20;

/// Inputs smaller than this are read by one thread.
const ALONE: u64 = 1 << 20;

impl IndexDatabase {
    /// Indexes the text appended to logs since the last call.
    ///
    /// Text is saved in portions, so an interrupted update resumes where it stopped. `progress`
    /// receives the bytes done and the total; reading ends when `stop` returns true.
    pub(super) fn index_text(
        &mut self,
        inventory: &Inventory,
        progress: &(dyn Fn(u64, u64) + Sync),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Vec<Error> {
        let mut troubles = Vec::new();
        if let Err(error) = self.try_index_text(inventory, progress, stop, &mut troubles) {
            self.recreate(&error);
        }
        troubles
    }

    fn try_index_text(
        &mut self,
        inventory: &Inventory,
        progress: &(dyn Fn(u64, u64) + Sync),
        stop: &(dyn Fn() -> bool + Sync),
        troubles: &mut Vec<Error>,
    ) -> rusqlite::Result<()> {
        let listed = now();
        let mut work = Vec::new();
        for root in RootTexts::from_inventory(inventory) {
            let mut texts = IndexedTexts::default();
            if texts.load(&self.database, &root)? && texts.others.is_empty() {
                continue;
            }
            work.extend(unread(&texts, &root));
            if inventory.is_complete() {
                // The inventory may have been filtered to some sessions.
                texts.others.retain(|(path, _)| {
                    let path = root.root.path.join(OsStr::from_bytes(path));
                    let within = path.strip_prefix(&root.root.path).ok();
                    let artifact = within.and_then(|path| root.root.layout.classify(path));
                    artifact.is_none_or(|it| record_source::stat(&path, it.framing).is_err())
                });
                delete_gone(&mut self.database, root.root, &texts.others)?;
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
            // A file longer than a portion is continued in the next one.
            work.extend(self.save_tokens(read, listed, troubles)?);
        }
        Ok(())
    }

    /// Saves the tokens of files. Returns those that are to be continued.
    fn save_tokens<'a>(
        &mut self,
        read: Vec<ReadText<'a>>,
        listed: i64,
        troubles: &mut Vec<Error>,
    ) -> rusqlite::Result<Vec<Unread<'a>>> {
        let mut more = Vec::new();
        let behavior = TransactionBehavior::Immediate;
        let change = self.database.transaction_with_behavior(behavior)?;
        for learnt in read {
            let mut stretches = Vec::new();
            for (file, spans, outcome) in learnt.files {
                let read = match outcome {
                    Ok(read) => read,
                    Err(error) => {
                        // Its documents already have numbers in the segment.
                        stretches.push(DocumentRange::new(None, spans));
                        // A file that was removed or truncated meanwhile is read next time.
                        if !is_passing(&error) {
                            troubles.push(error);
                        }
                        continue;
                    }
                };
                let root = new_number(&change, file.root)?;
                let path = within(file.root, file.file);
                let saved = files::save(&change, root, path, file.file, &read.cursor, listed)?;
                // Another process may have indexed the same text meanwhile.
                let saved = saved.filter(|saved| {
                    let known = saved.state.text.map(|mark| (saved.id, mark.end));
                    known == file.before
                });
                let Some(mut saved) = saved else {
                    stretches.push(DocumentRange::new(None, spans));
                    continue;
                };
                if file.from == 0 {
                    text_store::delete_documents(&change, saved.id)?;
                }
                let end = read.cursor.offset;
                saved.set_text(&change, TextMark::new(file.file, read.len, end, read.lines))?;
                stretches.push(DocumentRange::new(Some(saved.id), spans));
                more.extend(read.more.then_some(Unread {
                    from: end,
                    lines: read.lines,
                    before: Some((saved.id, end)),
                    ..file
                }));
            }
            let sorted = learnt.words.sorted().into_iter();
            text_store::add_segment(&change, &stretches, sorted.map(Ok))?;
        }
        merge::merge_segments(&change)?;
        change.commit()?;
        Ok(more)
    }
}

/// Returns true if the file was removed or truncated while it was read.
fn is_passing(error: &Error) -> bool {
    use ErrorKind::{NotFound, UnexpectedEof};
    matches!(error, Error::File(FileError::Io { source, .. }) if matches!(source.kind(), NotFound | UnexpectedEof))
}

/// File whose text is not fully indexed.
#[derive(Clone, Copy)]
struct Unread<'a> {
    root: &'a Root,
    file: &'a RootFile,
    /// Byte offset up to which it is indexed.
    from: u64,
    /// Number of lines up to `from`.
    lines: u64,
    /// Id of its row and end of its indexed text, whether still valid or not.
    before: Option<(i64, u64)>,
}

impl Unread<'_> {
    fn bytes(&self) -> u64 {
        self.file.id.len.saturating_sub(self.from)
    }
}

/// Returns the unindexed parts of the files of a root.
fn unread<'a>(texts: &IndexedTexts<'a>, root: &RootTexts<'a>) -> Vec<Unread<'a>> {
    let files = root.files.iter();
    let unread = files.filter_map(|file| {
        let row = texts.row(file);
        let valid = row.filter(|row| row.is_valid).map(|row| row.mark);
        if valid.is_some_and(|mark| mark.len == file.id.len) {
            return None;
        }
        Some(Unread {
            root: root.root,
            file,
            from: valid.map_or(0, |mark| mark.end),
            lines: valid.map_or(0, |mark| mark.lines),
            before: row.map(|row| (row.id, row.mark.end)),
        })
    });
    unread.collect()
}

/// Tokens of several files.
struct ReadText<'a> {
    words: TokenCollector,
    /// Spans of the documents of each file, complete up to the point where reading failed.
    files: Vec<(Unread<'a>, Vec<Span>, Result<ReadWords>)>,
}

/// Result of reading one file.
struct ReadWords {
    /// End of the last complete line.
    cursor: Cursor,
    /// Number of lines up to there.
    lines: u64,
    /// Length of the part that was read: shorter than the file if it is longer than a portion.
    len: u64,
    /// The file has more text than fits in a portion.
    more: bool,
}

fn read_portion<'a>(
    mut portion: Vec<Unread<'a>>,
    bytes: u64,
    done: &AtomicU64,
    progress: &(dyn Fn(u64) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<ReadText<'a>> {
    let threads = match bytes < ALONE {
        true => 1,
        false => rayon::current_num_threads().max(1),
    };
    // Shares of about the same size: the largest file goes to the smallest share.
    crate::sort::by_key(&mut portion, |unread| Reverse(unread.bytes()));
    let mut shares: Vec<(u64, Vec<Unread<'a>>)> = Vec::new();
    shares.resize_with(threads.min(portion.len()).max(1), Default::default);
    for unread in portion {
        if let Some((sum, share)) = shares.iter_mut().min_by_key(|(sum, _)| *sum) {
            *sum += unread.bytes();
            share.push(unread);
        }
    }
    let read = |(_, share): (u64, Vec<Unread<'a>>)| {
        let mut words = TokenCollector::default();
        let mut files = Vec::with_capacity(share.len());
        for unread in share {
            if stop() {
                break;
            }
            let mut spans = Vec::new();
            let outcome = read_words(&unread, &mut words, &mut spans);
            let read = match &outcome {
                Ok(read) => read.cursor.offset.saturating_sub(unread.from),
                Err(_) => unread.bytes(),
            };
            progress(done.fetch_add(read, Ordering::Relaxed) + read);
            files.push((unread, spans, outcome));
        }
        ReadText { words, files }
    };
    match threads {
        1 => shares.into_iter().map(read).collect(),
        _ => shares.into_par_iter().with_max_len(1).map(read).collect(),
    }
}

/// Collects the tokens of the unindexed part of a file, up to its last complete line.
fn read_words(
    unread: &Unread<'_>,
    words: &mut TokenCollector,
    spans: &mut Vec<Span>,
) -> Result<ReadWords> {
    let file = unread.file;
    let failed = |error| Error::io("read", &file.path, error);
    let handle = file.open()?;
    // Not beyond the length at listing time: that is the state recorded in the mark.
    let listed = match handle.revision() {
        Some(_) => handle.size().map_err(failed)?,
        None => file.id.len,
    };
    let within = RangeReader::between(&handle, unread.from, listed.max(unread.from));
    let mut lines = Scanner::from_offset(within, unread.from, unread.lines + 1);
    let mut decoder = unread.root.decoder(file);
    let mut sink = Decoded::default();
    let mut cutter = Tokenizer::default();
    let (mut end, mut count) = (unread.from, unread.lines);
    let mut more = false;
    while let Some(line) = lines.next().map_err(failed)? {
        // An oversize line ends the indexed part, so each search reads on from it and reports it.
        if line.ending == LineEnding::None || line.oversize {
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
            oversize: false,
        };
        decoder.decode(&record, &mut sink);
        sink.flaws.clear();
        let aside = match sink.items.len() {
            1 => extra_text(decoder.as_mut(), &record),
            _ => Vec::new(),
        };
        let mut any = false;
        for entry in sink.items.drain(..) {
            text_pieces(&entry, &aside, &mut |piece| {
                cutter.tokenize(&piece.text, &mut |token: Token| {
                    any = true;
                    words.add(token);
                });
            });
        }
        if any {
            words.end_document();
            spans.push(span);
        }
        // Derived lines cannot be continued after a change, so all of them are read.
        if end - unread.from >= PORTION && handle.revision().is_none() {
            more = true;
            break;
        }
    }
    let cursor = Cursor::with_id(&file.id, &handle, end).map_err(failed)?;
    Ok(ReadWords {
        cursor,
        lines: count,
        len: if more { end } else { file.id.len },
        more,
    })
}
