//! The words of logs, as the catalogue keeps them: which tokens stand in which records.
//!
//! It only says where looking is worthwhile. All of it is under seals, because a token that damage
//! hides would be a hit that nobody sees.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use crate::jsonl::{Cursor, FileId};
use crate::model::Span;
use crate::search::word::{Lookup, Token};

use super::seal::{self, Stamp};
use super::segment::{Block, Blocks, Documents, get, put};

pub(super) const TABLES: &str = "
    CREATE TABLE text (
        id INTEGER PRIMARY KEY,
        root INTEGER NOT NULL REFERENCES root,
        path BLOB NOT NULL,
        mark BLOB NOT NULL,
        UNIQUE (root, path)
    );
    CREATE TABLE coverage (
        root INTEGER PRIMARY KEY REFERENCES root,
        state BLOB NOT NULL
    );
    CREATE TABLE segment (
        id INTEGER PRIMARY KEY,
        size BLOB NOT NULL
    );
    CREATE TABLE stretch (
        segment INTEGER NOT NULL REFERENCES segment,
        first INTEGER NOT NULL,
        documents INTEGER NOT NULL,
        text INTEGER NOT NULL,
        spans BLOB NOT NULL,
        PRIMARY KEY (segment, first)
    ) WITHOUT ROWID;
    CREATE INDEX stretch_of_text ON stretch (text);
    CREATE TABLE word (
        id INTEGER PRIMARY KEY,
        segment INTEGER NOT NULL REFERENCES segment,
        first BLOB NOT NULL,
        block BLOB NOT NULL
    );
    CREATE INDEX first_word ON word (segment, first);
";

/// How far the words of a file are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// What the file was when it was read.
    pub(super) id: FileId,
    /// How far it was read: to the end of its last whole line.
    pub(super) cursor: Cursor,
    /// How many lines that is.
    pub(super) lines: u64,
}

/// A mark as it is spelled.
#[derive(Serialize, Deserialize)]
struct Spelled {
    file: (u64, u64, u64),
    times: (i64, i64),
    offset: u64,
    guard: [u8; 16],
    lines: u64,
}

impl Mark {
    fn spell(&self, path: &[u8]) -> rusqlite::Result<Vec<u8>> {
        let spelled = Spelled {
            file: (self.id.dev, self.id.ino, self.id.len),
            times: (self.id.mtime_ns, self.id.ctime_ns),
            offset: self.cursor.offset,
            guard: self.cursor.guard,
            lines: self.lines,
        };
        let bytes = postcard::to_stdvec(&spelled);
        let bytes = bytes.map_err(|_| rusqlite::Error::InvalidQuery)?;
        Ok(seal::seal(Stamp::of_bytes(path), bytes))
    }

    fn read(path: &[u8], bytes: &[u8]) -> rusqlite::Result<Self> {
        let bytes = seal::unseal(Stamp::of_bytes(path), bytes).ok_or_else(damaged)?;
        let spelled = postcard::from_bytes(bytes);
        let spelled: Spelled = spelled.map_err(|_| damaged())?;
        let (dev, ino, len) = spelled.file;
        Ok(Mark {
            id: FileId {
                dev,
                ino,
                len,
                mtime_ns: spelled.times.0,
                ctime_ns: spelled.times.1,
            },
            cursor: Cursor {
                dev,
                ino,
                offset: spelled.offset,
                guard: spelled.guard,
            },
            lines: spelled.lines,
        })
    }
}

/// What stands there cannot be what was written.
pub(super) fn damaged() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some("a sum is wrong".to_owned()))
}

/// Puts what is kept of a segment under a seal; what is of none has the number 0.
fn seal(segment: i64, bytes: Vec<u8>) -> Vec<u8> {
    seal::seal(Stamp::of_block(segment), bytes)
}

fn unseal(segment: i64, bytes: &[u8]) -> rusqlite::Result<&[u8]> {
    seal::unseal(Stamp::of_block(segment), bytes).ok_or_else(damaged)
}

/// What is known of the files of a root, by their paths within it.
pub(super) fn marks(
    database: &Connection,
    root: i64,
) -> rusqlite::Result<HashMap<Vec<u8>, (i64, Mark)>> {
    let mut query = database.prepare_cached("SELECT path, id, mark FROM text WHERE root = ?1")?;
    let mut rows = query.query([root])?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        let path: Vec<u8> = row.get(0)?;
        let mark = Mark::read(&path, row.get_ref(2)?.as_blob()?)?;
        found.insert(path, (row.get(1)?, mark));
    }
    Ok(found)
}

/// What is known of a file of a root.
pub(super) fn mark_of(
    database: &Connection,
    root: i64,
    path: &[u8],
) -> rusqlite::Result<Option<Mark>> {
    let mut query =
        database.prepare_cached("SELECT mark FROM text WHERE root = ?1 AND path = ?2")?;
    let mut rows = query.query(params![root, path])?;
    let row = rows.next()?;
    row.map(|row| Mark::read(path, row.get_ref(0)?.as_blob()?))
        .transpose()
}

/// What is known of one file: the number of its root, its path there, and how far it is known.
pub(super) fn mark(
    database: &Connection,
    text: i64,
) -> rusqlite::Result<Option<(i64, Vec<u8>, Mark)>> {
    let mut query = database.prepare_cached("SELECT root, path, mark FROM text WHERE id = ?1")?;
    let mut rows = query.query([text])?;
    match rows.next()? {
        None => Ok(None),
        Some(row) => {
            let path: Vec<u8> = row.get(1)?;
            let mark = Mark::read(&path, row.get_ref(2)?.as_blob()?)?;
            Ok(Some((row.get(0)?, path, mark)))
        }
    }
}

/// Takes note how far a file is known.
pub(super) fn set_mark(
    database: &Connection,
    root: i64,
    path: &[u8],
    mark: &Mark,
) -> rusqlite::Result<i64> {
    let mut insert = database.prepare_cached(
        "INSERT INTO text (root, path, mark) VALUES (?1, ?2, ?3)
         ON CONFLICT (root, path) DO UPDATE SET mark = excluded.mark RETURNING id",
    )?;
    insert.query_row(params![root, path, mark.spell(path)?], |row| row.get(0))
}

/// The state in which all files of a root were when all their words were known, and the files of
/// which the last line was not whole then.
pub(super) fn coverage(
    database: &Connection,
    root: i64,
) -> rusqlite::Result<Option<([u8; 16], Vec<i64>)>> {
    let mut query = database.prepare_cached("SELECT state FROM coverage WHERE root = ?1")?;
    let row = query
        .query_row([root], |row| {
            let state = unseal(0, row.get_ref(0)?.as_blob()?)?;
            let (stamp, mut rest) = state.split_first_chunk().ok_or_else(damaged)?;
            let mut pending = Vec::new();
            while let Some(text) = get(&mut rest) {
                pending.push(text as i64);
            }
            Ok((*stamp, pending))
        })
        .optional()?;
    Ok(row)
}

/// Takes note that not all words of a root are known, before that is so: who is interrupted must not
/// leave behind that they were.
pub(super) fn uncover(database: &Connection, root: i64) -> rusqlite::Result<()> {
    let mut delete = database.prepare_cached("DELETE FROM coverage WHERE root = ?1")?;
    delete.execute([root]).map(|_| ())
}

pub(super) fn set_coverage(
    database: &Connection,
    root: i64,
    stamp: Stamp,
    pending: &[i64],
) -> rusqlite::Result<()> {
    let mut bytes = stamp.to_bytes().to_vec();
    pending
        .iter()
        .for_each(|text| put(&mut bytes, *text as u64));
    let mut insert = database.prepare_cached("INSERT OR REPLACE INTO coverage VALUES (?1, ?2)")?;
    insert.execute(params![root, seal(0, bytes)]).map(|_| ())
}

/// A segment: its number, and how many documents it has.
pub(super) type Segment = (i64, u32);

pub(super) fn segments(database: &Connection) -> rusqlite::Result<Vec<Segment>> {
    let mut query = database.prepare_cached(
        "SELECT id, size, (SELECT count(*) FROM word WHERE segment = segment.id)
         FROM segment ORDER BY id",
    )?;
    let mut rows = query.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        let mut size = unseal(id, row.get_ref(1)?.as_blob()?)?;
        let documents = get(&mut size).and_then(|count| u32::try_from(count).ok());
        // A block that is not there is not looked into.
        let whole = get(&mut size) == Some(row.get::<_, i64>(2)? as u64);
        let documents = documents.filter(|_| whole).ok_or_else(damaged)?;
        found.push((id, documents));
    }
    Ok(found)
}

/// The documents of a segment that have what is looked up.
pub(super) fn look_up(
    database: &Connection,
    segment: Segment,
    lookup: Lookup,
) -> rusqlite::Result<Documents> {
    let mut found = Documents::none(segment.1);
    let (token, begins) = match lookup {
        Lookup::Is(token) => (token, false),
        Lookup::Begins(token) => (token, true),
    };
    // The block that the token would stand in, and those after it.
    let mut query = database.prepare_cached(
        "SELECT block, first FROM word WHERE segment = ?1 AND first >= coalesce(
             (SELECT max(first) FROM word WHERE segment = ?1 AND first <= ?2), x'')
         ORDER BY first",
    )?;
    let mut rows = query.query(params![segment.0, name(token)])?;
    while let Some(row) = rows.next()? {
        let mut named = Some(row.get_ref(1)?.as_blob()?);
        for (other, list) in Block::new(unseal(segment.0, row.get_ref(0)?.as_blob()?)?) {
            if named.take().is_some_and(|first| first != name(other)) {
                return Err(damaged());
            }
            let fits = other == token || (begins && other.starts_with(token));
            if fits {
                list.for_each(|document| found.add(document));
            } else if other > token {
                return Ok(found);
            }
        }
    }
    Ok(found)
}

/// A token as a key of the database, where keys are compared byte by byte.
fn name(token: Token) -> Vec<u8> {
    let bytes = token.bytes();
    bytes.get(..token.len()).unwrap_or_default().to_vec()
}

/// Where documents of a segment lie: the numbers of their files, and their places in them.
pub(super) fn places(
    database: &Connection,
    segment: i64,
    wanted: &Documents,
) -> rusqlite::Result<Vec<(i64, Vec<Span>)>> {
    let mut query = database.prepare_cached(
        "SELECT first, documents, text, spans FROM stretch
         WHERE segment = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1",
    )?;
    let mut found: Vec<(i64, Vec<Span>)> = Vec::new();
    let mut stretch: Option<(u32, Vec<Span>)> = None;
    for document in wanted.iter() {
        let inside = |(first, spans): &(u32, Vec<Span>)| {
            let at = document.checked_sub(*first)?;
            spans.get(at as usize).copied()
        };
        let span = match stretch.as_ref().and_then(inside) {
            Some(span) => Some(span),
            None => {
                let row =
                    query.query_row(params![segment, document], |row| stretch_of(segment, row));
                let (first, next) = row.optional()?.ok_or_else(damaged)?;
                if document - first >= next.documents {
                    return Err(damaged());
                }
                // A document that is gone has no place.
                let Some(text) = next.text else { continue };
                let next = (first, next.spans);
                let span = inside(&next);
                found.push((text, Vec::new()));
                stretch = Some(next);
                span
            }
        };
        if let (Some(span), Some((_, spans))) = (span, found.last_mut()) {
            spans.push(span);
        }
    }
    Ok(found)
}

/// Spells a stretch: which documents it is of, of which file, and where they lie.
fn spell_stretch(segment: i64, first: u64, stretch: &Stretch) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, first);
    put(&mut bytes, u64::from(stretch.documents));
    put(&mut bytes, stretch.text.unwrap_or_default() as u64);
    let (mut end, mut line) = (0, 0);
    for span in stretch.spans.iter().filter(|_| stretch.text.is_some()) {
        put(&mut bytes, span.offset - end);
        put(&mut bytes, span.len);
        put(&mut bytes, span.line - line);
        (end, line) = (span.end(), span.line);
    }
    seal(segment, bytes)
}

/// Reads a row of `first, documents, text, spans`.
fn stretch_of(segment: i64, row: &rusqlite::Row<'_>) -> rusqlite::Result<(u32, Stretch)> {
    let (first, documents): (u32, u32) = (row.get(0)?, row.get(1)?);
    let text: i64 = row.get(2)?;
    let mut rest = unseal(segment, row.get_ref(3)?.as_blob()?)?;
    let mut told = || get(&mut rest).ok_or_else(damaged);
    if (told()?, told()?, told()?) != (first.into(), documents.into(), text as u64) {
        return Err(damaged());
    }
    let mut spans = Vec::new();
    let (mut end, mut line) = (0, 0);
    while let (Some(gap), Some(len), Some(lines)) = (get(&mut rest), get(&mut rest), get(&mut rest))
    {
        let span = Span {
            offset: end + gap,
            len,
            line: line + lines,
        };
        (end, line) = (span.end(), span.line);
        spans.push(span);
    }
    let stretch = Stretch {
        text: Some(text).filter(|text| *text != 0),
        documents,
        spans,
    };
    Ok((first, stretch))
}

/// Documents that lie in one file, in their order.
pub(super) struct Stretch {
    /// The number of the file; `None` if they are gone, or of no use.
    pub(super) text: Option<i64>,
    /// How many there are.
    pub(super) documents: u32,
    /// Where they lie, unless they are gone.
    pub(super) spans: Vec<Span>,
}

impl Stretch {
    pub(super) fn new(text: Option<i64>, spans: Vec<Span>) -> Self {
        Stretch {
            text,
            documents: spans.len() as u32,
            spans,
        }
    }
}

/// Keeps a segment. `words` are in their order.
pub(super) fn add_segment(
    database: &Connection,
    stretches: &[Stretch],
    words: impl Iterator<Item = rusqlite::Result<(Token, Vec<u32>)>>,
) -> rusqlite::Result<()> {
    let documents: u64 = stretches.iter().map(|part| u64::from(part.documents)).sum();
    let mut useful = stretches.iter().filter(|part| part.text.is_some());
    if useful.all(|part| part.documents == 0) {
        return Ok(());
    }
    let segment: i64 = database.query_row(
        "INSERT INTO segment (size) VALUES (x'') RETURNING id",
        [],
        |row| row.get(0),
    )?;
    let mut insert = database.prepare_cached("INSERT INTO stretch VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut first = 0;
    for part in stretches.iter().filter(|part| part.documents > 0) {
        let spelled = spell_stretch(segment, first, part);
        let text = part.text.unwrap_or_default();
        insert.execute(params![
            segment,
            first as i64,
            part.documents,
            text,
            spelled
        ])?;
        first += u64::from(part.documents);
    }
    let mut insert =
        database.prepare_cached("INSERT INTO word (segment, first, block) VALUES (?1, ?2, ?3)")?;
    let mut count = 0;
    let mut keep = |(first, block): (Token, Vec<u8>)| {
        let block = seal(segment, block);
        count += 1;
        insert
            .execute(params![segment, name(first), block])
            .map(|_| ())
    };
    let mut blocks = Blocks::default();
    for word in words {
        let (token, documents) = word?;
        if let Some(full) = blocks.add(token, &documents) {
            keep(full)?;
        }
    }
    blocks.take().map_or(Ok(()), &mut keep)?;
    let mut size = Vec::new();
    put(&mut size, documents);
    put(&mut size, count);
    let update = "UPDATE segment SET size = ?2 WHERE id = ?1";
    let size = seal(segment, size);
    database.execute(update, params![segment, size]).map(|_| ())
}

/// Forgets the documents of a file.
pub(super) fn forget_documents(database: &Connection, text: i64) -> rusqlite::Result<()> {
    let mut query = database.prepare_cached(
        "SELECT first, documents, text, spans, segment FROM stretch WHERE text = ?1",
    )?;
    let mut rows = query.query([text])?;
    let mut gone = Vec::new();
    while let Some(row) = rows.next()? {
        let segment: i64 = row.get(4)?;
        let (first, stretch) = stretch_of(segment, row)?;
        let stretch = Stretch {
            text: None,
            ..stretch
        };
        gone.push((
            segment,
            first,
            spell_stretch(segment, first.into(), &stretch),
        ));
    }
    let mut update = database.prepare_cached(
        "UPDATE stretch SET text = 0, spans = ?3 WHERE segment = ?1 AND first = ?2",
    )?;
    for (segment, first, spelled) in gone {
        update.execute(params![segment, first, spelled])?;
    }
    Ok(())
}

/// Forgets a file.
pub(super) fn forget(database: &Connection, text: i64) -> rusqlite::Result<()> {
    forget_documents(database, text)?;
    let mut delete = database.prepare_cached("DELETE FROM text WHERE id = ?1")?;
    delete.execute([text]).map(|_| ())
}

/// So many segments of about one size are merged into one, so that few must be looked into and every
/// word is written a few times at most.
const MERGED: usize = 8;

/// Merges segments where there are many of about one size, and those that hold mostly documents that
/// are gone.
pub(super) fn tidy(database: &Connection) -> rusqlite::Result<()> {
    loop {
        let mut tiers: HashMap<u32, Vec<Segment>> = HashMap::new();
        for segment in segments(database)? {
            let living: u32 = database.query_row(
                "SELECT coalesce(sum(documents), 0) FROM stretch WHERE segment = ?1 AND text != 0",
                [segment.0],
                |row| row.get(0),
            )?;
            if living == 0 {
                drop_segment(database, segment.0)?;
            } else if living < segment.1 / 2 {
                merge(database, &[segment])?;
                return tidy(database);
            } else {
                let size = segment.1.checked_ilog2().ok_or_else(damaged)?;
                let tier = size / MERGED.ilog2();
                tiers.entry(tier).or_default().push(segment);
            }
        }
        let lowest = tiers.into_iter().filter(|(_, tier)| tier.len() >= MERGED);
        match lowest.min_by_key(|(tier, _)| *tier) {
            Some((_, tier)) => merge(database, &tier)?,
            None => return Ok(()),
        }
    }
}

fn drop_segment(database: &Connection, segment: i64) -> rusqlite::Result<()> {
    for delete in [
        "DELETE FROM word WHERE segment = ?1",
        "DELETE FROM stretch WHERE segment = ?1",
        "DELETE FROM segment WHERE id = ?1",
    ] {
        database.prepare_cached(delete)?.execute([segment])?;
    }
    Ok(())
}

/// Makes one segment of several, without the documents that are gone.
fn merge(database: &Connection, segments: &[Segment]) -> rusqlite::Result<()> {
    let mut stretches = Vec::new();
    let mut cursors = Vec::new();
    let mut next = 0;
    for (segment, documents) in segments {
        // The new number of each document that is still there.
        let mut numbers = vec![None; *documents as usize];
        let mut query = database.prepare_cached(
            "SELECT first, documents, text, spans FROM stretch WHERE segment = ?1 ORDER BY first",
        )?;
        let mut rows = query.query([segment])?;
        while let Some(row) = rows.next()? {
            let (first, stretch) = stretch_of(*segment, row)?;
            if stretch.text.is_none() {
                continue;
            }
            let numbers = numbers.iter_mut().skip(first as usize);
            for number in numbers.take(stretch.documents as usize) {
                *number = Some(next);
                next += 1;
            }
            stretches.push(stretch);
        }
        let mut cursor = MergeCursor {
            database,
            segment: *segment,
            numbers,
            last: None,
            pending: Vec::new(),
        };
        cursor.fill()?;
        cursors.push(cursor);
    }
    let words = std::iter::from_fn(|| merged(&mut cursors).transpose());
    add_segment(database, &stretches, words)?;
    for (segment, _) in segments {
        drop_segment(database, *segment)?;
    }
    Ok(())
}

/// The next token of several segments, with its documents in all of them.
fn merged(cursors: &mut [MergeCursor<'_>]) -> rusqlite::Result<Option<(Token, Vec<u32>)>> {
    loop {
        let heads = cursors.iter().filter_map(|cursor| cursor.pending.last());
        let Some(token) = heads.map(|(token, _)| *token).min() else {
            return Ok(None);
        };
        let mut documents = Vec::new();
        for cursor in cursors.iter_mut() {
            if let Some((_, mut list)) = cursor.pending.pop_if(|(head, _)| *head == token) {
                documents.append(&mut list);
                cursor.fill()?;
            }
        }
        if !documents.is_empty() {
            return Ok(Some((token, documents)));
        }
    }
}

/// Goes through the tokens of a segment that is merged.
struct MergeCursor<'a> {
    database: &'a Connection,
    segment: i64,
    numbers: Vec<Option<u32>>,
    /// The first token of the block that was read last.
    last: Option<Vec<u8>>,
    /// What is left of that block, the next token last.
    pending: Vec<(Token, Vec<u32>)>,
}

impl MergeCursor<'_> {
    /// Reads the next block if nothing is left of the one before.
    fn fill(&mut self) -> rusqlite::Result<()> {
        if !self.pending.is_empty() {
            return Ok(());
        }
        let mut query = self.database.prepare_cached(
            "SELECT first, block FROM word WHERE segment = ?1 AND (?2 IS NULL OR first > ?2)
             ORDER BY first LIMIT 1",
        )?;
        let mut rows = query.query(params![self.segment, self.last])?;
        let Some(row) = rows.next()? else {
            return Ok(());
        };
        for (token, list) in Block::new(unseal(self.segment, row.get_ref(1)?.as_blob()?)?) {
            let numbers = |document: u32| self.numbers.get(document as usize).copied().flatten();
            self.pending
                .push((token, list.filter_map(numbers).collect()));
        }
        self.pending.reverse();
        self.last = Some(row.get(0)?);
        Ok(())
    }
}
