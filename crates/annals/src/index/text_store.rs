//! The words of logs, as the catalogue keeps them: which tokens stand in which records.
//!
//! It only says where looking is worthwhile. All of it is under seals, because a token that damage
//! hides would be a hit that nobody sees.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use crate::jsonl::{Cursor, FileId, FileIdParts};
use crate::model::Span;
use crate::search::tokenizer::{Lookup, Token};

use super::fingerprint::{self, Fingerprint};
use super::segment::{Block, Blocks, Documents, get_varint, put_varint};

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
        id INTEGER PRIMARY KEY,
        documents INTEGER NOT NULL,
        text INTEGER NOT NULL,
        spans BLOB NOT NULL
    );
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
pub(super) struct TextMark {
    /// What the file was when it was read.
    pub(super) id: FileId,
    /// What its companion was, if it had one.
    pub(super) companion: Option<FileId>,
    /// How far it was read: to the end of its last whole line.
    pub(super) cursor: Cursor,
    /// How many lines that is.
    pub(super) lines: u64,
}

/// A mark as it is spelled.
#[derive(Serialize, Deserialize)]
struct Spelled {
    file: FileIdParts,
    companion: Option<FileIdParts>,
    offset: u64,
    guard: [u8; 16],
    lines: u64,
}

impl TextMark {
    fn encode(&self, path: &[u8]) -> rusqlite::Result<Vec<u8>> {
        let spelled = Spelled {
            file: self.id.parts(),
            companion: self.companion.map(|id| id.parts()),
            offset: self.cursor.offset,
            guard: self.cursor.guard,
            lines: self.lines,
        };
        let bytes = postcard::to_stdvec(&spelled);
        let bytes = bytes.map_err(|_| rusqlite::Error::InvalidQuery)?;
        Ok(fingerprint::add_checksum(
            Fingerprint::from_bytes(path),
            bytes,
        ))
    }

    fn decode(path: &[u8], bytes: &[u8]) -> rusqlite::Result<Self> {
        let bytes = fingerprint::verify_checksum(Fingerprint::from_bytes(path), bytes)
            .ok_or_else(damaged)?;
        let spelled = postcard::from_bytes(bytes);
        let spelled: Spelled = spelled.map_err(|_| damaged())?;
        let id = FileId::from_parts(spelled.file);
        Ok(TextMark {
            id,
            companion: spelled.companion.map(FileId::from_parts),
            cursor: Cursor {
                dev: id.dev,
                ino: id.ino,
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
    fingerprint::add_checksum(Fingerprint::from_block(segment), bytes)
}

fn unseal(segment: i64, bytes: &[u8]) -> rusqlite::Result<&[u8]> {
    fingerprint::verify_checksum(Fingerprint::from_block(segment), bytes).ok_or_else(damaged)
}

/// What is known of the files of a root, by their paths within it.
pub(super) fn marks(
    database: &Connection,
    root: i64,
) -> rusqlite::Result<HashMap<Vec<u8>, (i64, TextMark)>> {
    let mut query = database.prepare_cached("SELECT path, id, mark FROM text WHERE root = ?1")?;
    let mut rows = query.query([root])?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        let path: Vec<u8> = row.get(0)?;
        let mark = TextMark::decode(&path, row.get_ref(2)?.as_blob()?)?;
        found.insert(path, (row.get(1)?, mark));
    }
    Ok(found)
}

/// What is known of a file of a root.
pub(super) fn mark_of(
    database: &Connection,
    root: i64,
    path: &[u8],
) -> rusqlite::Result<Option<TextMark>> {
    let mut query =
        database.prepare_cached("SELECT mark FROM text WHERE root = ?1 AND path = ?2")?;
    let mut rows = query.query(params![root, path])?;
    let row = rows.next()?;
    row.map(|row| TextMark::decode(path, row.get_ref(0)?.as_blob()?))
        .transpose()
}

/// What is known of one file: the number of its root, its path there, and how far it is known.
pub(super) fn mark(
    database: &Connection,
    text: i64,
) -> rusqlite::Result<Option<(i64, Vec<u8>, TextMark)>> {
    let mut query = database.prepare_cached("SELECT root, path, mark FROM text WHERE id = ?1")?;
    let mut rows = query.query([text])?;
    match rows.next()? {
        None => Ok(None),
        Some(row) => {
            let path: Vec<u8> = row.get(1)?;
            let mark = TextMark::decode(&path, row.get_ref(2)?.as_blob()?)?;
            Ok(Some((row.get(0)?, path, mark)))
        }
    }
}

/// Takes note how far a file is known.
pub(super) fn set_mark(
    database: &Connection,
    root: i64,
    path: &[u8],
    mark: &TextMark,
) -> rusqlite::Result<i64> {
    let mut insert = database.prepare_cached(
        "INSERT INTO text (root, path, mark) VALUES (?1, ?2, ?3)
         ON CONFLICT (root, path) DO UPDATE SET mark = excluded.mark RETURNING id",
    )?;
    insert.query_row(params![root, path, mark.encode(path)?], |row| row.get(0))
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
            while let Some(text) = get_varint(&mut rest) {
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
    stamp: Fingerprint,
    pending: &[i64],
) -> rusqlite::Result<()> {
    let mut bytes = stamp.to_bytes().to_vec();
    pending
        .iter()
        .for_each(|text| put_varint(&mut bytes, *text as u64));
    let mut insert = database.prepare_cached("INSERT OR REPLACE INTO coverage VALUES (?1, ?2)")?;
    insert.execute(params![root, seal(0, bytes)]).map(|_| ())
}

/// A segment: its number, and how many documents it has.
pub(super) type Segment = (i64, u32);

pub(super) fn segments(database: &Connection) -> rusqlite::Result<Vec<Segment>> {
    let mut query = database.prepare_cached("SELECT id, size FROM segment ORDER BY id")?;
    let mut rows = query.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        let mut size = unseal(id, row.get_ref(1)?.as_blob()?)?;
        let documents = get_varint(&mut size).and_then(|count| u32::try_from(count).ok());
        found.push((id, documents.ok_or_else(damaged)?));
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
        Lookup::Exact(token) => (token, false),
        Lookup::Prefix(token) => (token, true),
    };
    // The block that the token would stand in, and those after it.
    let mut query = database.prepare_cached(
        "SELECT first, block FROM word WHERE segment = ?1 AND first <= ?2
         ORDER BY first DESC LIMIT 1",
    )?;
    let mut key = name(token);
    let mut named = false;
    loop {
        let mut rows = query.query(params![segment.0, key])?;
        let row = rows.next()?.ok_or_else(damaged)?;
        if named && row.get_ref(0)?.as_blob()? != key {
            return Err(damaged());
        }
        let block = decode_block(segment.0, row)?;
        // Each names the next one: a block that is not there is not passed over.
        let next = block.next.to_vec();
        for (other, list) in block.words {
            let fits = other == token || (begins && other.starts_with(token));
            if fits {
                list.for_each(|document| found.add(document));
            } else if other > token {
                return Ok(found);
            }
        }
        if next.is_empty() {
            return Ok(found);
        }
        let next_token = Token::from_bytes(&next);
        if next_token > token && !(begins && next_token.starts_with(token)) {
            return Ok(found);
        }
        // They come in their order, so this ends.
        if row.get_ref(0)?.as_blob()? >= next.as_slice() {
            return Err(damaged());
        }
        (key, named) = (next, true);
    }
}

/// A block as it was kept.
pub(super) struct StoredBlock<'a> {
    /// The first token of the block after it; nothing if it is the last.
    pub(super) next: &'a [u8],
    pub(super) words: Block<'a>,
}

/// Spells a block: the key under which it is found, that of the next one, and its words.
fn encode_block(segment: i64, key: &[u8], next: &[u8], words: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.len() + 64);
    for key in [key, next] {
        put_varint(&mut bytes, key.len() as u64);
        bytes.extend_from_slice(key);
    }
    bytes.extend_from_slice(words);
    seal(segment, bytes)
}

/// Reads a row of `first, block`.
pub(super) fn decode_block<'a>(
    segment: i64,
    row: &'a rusqlite::Row<'_>,
) -> rusqlite::Result<StoredBlock<'a>> {
    let key = row.get_ref(0)?.as_blob()?;
    let mut rest = unseal(segment, row.get_ref(1)?.as_blob()?)?;
    let mut told = || {
        let len = usize::try_from(get_varint(&mut rest)?).ok()?;
        let (key, after) = rest.split_at_checked(len)?;
        rest = after;
        Some(key)
    };
    let (own, next) = (told().ok_or_else(damaged)?, told().ok_or_else(damaged)?);
    match own == key {
        true => Ok(StoredBlock {
            next,
            words: Block::new(rest),
        }),
        false => Err(damaged()),
    }
}

/// A token as a key of the database, where keys are compared byte by byte.
fn name(token: Token) -> Vec<u8> {
    let bytes = token.to_bytes();
    bytes.get(..token.len()).unwrap_or_default().to_vec()
}

/// Where documents of a segment lie: the numbers of their files, and their places in them.
pub(super) fn places(
    database: &Connection,
    segment: i64,
    wanted: &Documents,
) -> rusqlite::Result<Vec<(i64, Vec<Span>)>> {
    let mut query = database.prepare_cached(
        "SELECT id, documents, text, spans FROM stretch WHERE id BETWEEN ?1 AND ?2
         ORDER BY id DESC LIMIT 1",
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
                let (from, to) = (range_id(segment, 0), range_id(segment, document));
                let row = query.query_row([from, to], |row| decode_range(segment, row));
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

/// The number of a stretch in the database: those of one segment stand together, in their order.
fn range_id(segment: i64, first: u32) -> i64 {
    (segment << 32) | i64::from(first)
}

/// The first and the last number that a stretch of a segment may have.
pub(super) fn range_ids(segment: i64) -> [i64; 2] {
    [range_id(segment, 0), range_id(segment, u32::MAX)]
}

/// Spells a stretch: which documents it is of, of which file, and where they lie.
fn encode_range(segment: i64, first: u32, stretch: &DocumentRange) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, first.into());
    put_varint(&mut bytes, u64::from(stretch.documents));
    put_varint(&mut bytes, stretch.text.unwrap_or_default() as u64);
    let (mut end, mut line) = (0, 0);
    for span in stretch.spans.iter().filter(|_| stretch.text.is_some()) {
        put_varint(&mut bytes, span.offset - end);
        put_varint(&mut bytes, span.len);
        put_varint(&mut bytes, span.line - line);
        (end, line) = (span.end(), span.line);
    }
    seal(segment, bytes)
}

/// Reads a row of `id, documents, text, spans`.
pub(super) fn decode_range(
    segment: i64,
    row: &rusqlite::Row<'_>,
) -> rusqlite::Result<(u32, DocumentRange)> {
    let (id, documents): (i64, u32) = (row.get(0)?, row.get(1)?);
    let first = u32::try_from(id - range_id(segment, 0)).map_err(|_| damaged())?;
    let text: i64 = row.get(2)?;
    let mut rest = unseal(segment, row.get_ref(3)?.as_blob()?)?;
    let mut told = || get_varint(&mut rest).ok_or_else(damaged);
    if (told()?, told()?, told()?) != (first.into(), documents.into(), text as u64) {
        return Err(damaged());
    }
    let mut spans = Vec::with_capacity(documents.min(TOGETHER as u32) as usize);
    let (mut end, mut line) = (0, 0);
    while let (Some(gap), Some(len), Some(lines)) = (
        get_varint(&mut rest),
        get_varint(&mut rest),
        get_varint(&mut rest),
    ) {
        let span = Span {
            offset: end + gap,
            len,
            line: line + lines,
        };
        (end, line) = (span.end(), span.line);
        spans.push(span);
    }
    let stretch = DocumentRange {
        text: Some(text).filter(|text| *text != 0),
        documents,
        spans,
    };
    Ok((first, stretch))
}

/// Documents that lie in one file, in their order.
pub(super) struct DocumentRange {
    /// The number of the file; `None` if they are gone, or of no use.
    pub(super) text: Option<i64>,
    /// How many there are.
    pub(super) documents: u32,
    /// Where they lie, unless they are gone.
    pub(super) spans: Vec<Span>,
}

impl DocumentRange {
    pub(super) fn new(text: Option<i64>, spans: Vec<Span>) -> Self {
        DocumentRange {
            text,
            documents: spans.len() as u32,
            spans,
        }
    }

    /// The same in parts that are kept together.
    fn parts(&self) -> impl Iterator<Item = DocumentRange> {
        let gone = match self.text {
            None => (self.documents > 0).then_some(self.documents),
            Some(_) => None,
        };
        let gone = gone.map(|documents| DocumentRange {
            text: None,
            documents,
            spans: Vec::new(),
        });
        let there = self.spans.chunks(TOGETHER).filter(|_| self.text.is_some());
        let there = there.map(|spans| DocumentRange::new(self.text, spans.to_vec()));
        gone.into_iter().chain(there)
    }
}

/// A stretch has at most so many documents, so that little is read to find one of them.
const TOGETHER: usize = 128;

/// Keeps a segment. `words` are in their order.
pub(super) fn add_segment(
    database: &Connection,
    stretches: &[DocumentRange],
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
    let mut insert = database.prepare_cached("INSERT INTO stretch VALUES (?1, ?2, ?3, ?4)")?;
    let mut first = 0;
    for part in stretches.iter().flat_map(DocumentRange::parts) {
        let spelled = encode_range(segment, first, &part);
        let text = part.text.unwrap_or_default();
        let id = range_id(segment, first);
        insert.execute(params![id, part.documents, text, spelled])?;
        first = first.checked_add(part.documents).ok_or_else(damaged)?;
    }
    let mut insert =
        database.prepare_cached("INSERT INTO word (segment, first, block) VALUES (?1, ?2, ?3)")?;
    // What comes before all tokens is looked for in the first block too.
    let mut key = Vec::new();
    let mut keep = |(_, words): (Token, Vec<u8>), next: Vec<u8>| {
        let block = encode_block(segment, &key, &next, &words);
        let kept = insert.execute(params![segment, key, block]);
        key = next;
        kept.map(|_| ())
    };
    let mut blocks = Blocks::default();
    for word in words {
        let (token, documents) = word?;
        if let Some(full) = blocks.add(token, &documents) {
            keep(full, name(token))?;
        }
    }
    if let Some(last) = blocks.take() {
        keep(last, Vec::new())?;
    }
    let mut size = Vec::new();
    put_varint(&mut size, documents);
    let update = "UPDATE segment SET size = ?2 WHERE id = ?1";
    let size = seal(segment, size);
    database.execute(update, params![segment, size]).map(|_| ())
}

/// Forgets the documents of a file.
pub(super) fn delete_documents(database: &Connection, text: i64) -> rusqlite::Result<()> {
    let mut query = database
        .prepare_cached("SELECT id, documents, text, spans FROM stretch WHERE text = ?1")?;
    let mut rows = query.query([text])?;
    let mut gone = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let segment = id >> 32;
        let (first, stretch) = decode_range(segment, row)?;
        let stretch = DocumentRange {
            text: None,
            ..stretch
        };
        gone.push((id, encode_range(segment, first, &stretch)));
    }
    let mut update =
        database.prepare_cached("UPDATE stretch SET text = 0, spans = ?2 WHERE id = ?1")?;
    for (id, spelled) in gone {
        update.execute(params![id, spelled])?;
    }
    Ok(())
}

/// Forgets a file.
pub(super) fn delete(database: &Connection, text: i64) -> rusqlite::Result<()> {
    delete_documents(database, text)?;
    let mut delete = database.prepare_cached("DELETE FROM text WHERE id = ?1")?;
    delete.execute([text]).map(|_| ())
}

#[cfg(test)]
mod tests;
