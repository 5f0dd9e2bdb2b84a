//! Storage of the full-text index: which tokens occur in which records.
//!
//! It only selects candidates; the records themselves are always checked. Everything has a
//! checksum, because a token lost to damage would be a hit missed without notice.
//!
//! Segments are stored in blocks of 4 KB, each with the number of the next, so that a missing block is
//! detected. `text` is the id of a file in the table of files.
//!
//! SQLite's full-text tables (FTS5 over runs of 16 KiB, no positions) are small and fast enough, at 0.17 of
//! the size of the text. But they have no checksums: a flipped bit loses hits without an error. This format
//! takes 0.05. Positions are not stored, because every hit is checked against its record.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::search::tokenizer::{Lookup, Token};
use annals_layouts::model::Span;

use super::codec;
use super::segment::{Block, Blocks, Documents, get_varint, put_varint};

pub(super) const TABLES: &str = "
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

/// Error for data that fails its checksum or is inconsistent.
pub(super) fn damaged() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some("checksum mismatch".to_owned()))
}

/// Appends a checksum salted with the number of the segment; 0 for data of no segment.
fn seal(segment: i64, bytes: Vec<u8>) -> Vec<u8> {
    codec::seal(&segment.to_le_bytes(), bytes)
}

fn unseal(segment: i64, bytes: &[u8]) -> rusqlite::Result<&[u8]> {
    codec::unseal(&segment.to_le_bytes(), bytes).ok_or_else(damaged)
}

/// Segment: its number and its document count.
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

/// Returns the documents of a segment that match a lookup; `None` if that takes more than `max_blocks`
/// blocks.
pub(super) fn look_up(
    database: &Connection,
    segment: Segment,
    lookup: Lookup,
    max_blocks: usize,
) -> rusqlite::Result<Option<Documents>> {
    let mut found = Documents::none(segment.1);
    let (token, begins) = match lookup {
        Lookup::Exact(token) => (token, false),
        Lookup::Prefix(token) => (token, true),
    };
    // The block that would contain the token, then the blocks after it.
    let mut query = database.prepare_cached(
        "SELECT first, block FROM word WHERE segment = ?1 AND first <= ?2
         ORDER BY first DESC LIMIT 1",
    )?;
    let mut key = name(token);
    let mut named = false;
    for _ in 0..max_blocks {
        let mut rows = query.query(params![segment.0, key])?;
        let row = rows.next()?.ok_or_else(damaged)?;
        if named && row.get_ref(0)?.as_blob()? != key {
            return Err(damaged());
        }
        let block = decode_block(segment.0, row)?;
        // Each block names the next one, so a missing block is detected.
        let next = block.next.to_vec();
        for (other, list) in block.words {
            let fits = other == token || (begins && other.starts_with(token));
            if fits {
                list.for_each(|document| found.add(document));
            } else if other > token {
                return Ok(Some(found));
            }
        }
        if next.is_empty() {
            return Ok(Some(found));
        }
        let next_token = Token::from_bytes(&next);
        if next_token > token && !(begins && next_token.starts_with(token)) {
            return Ok(Some(found));
        }
        // Keys strictly ascend, so this terminates.
        if row.get_ref(0)?.as_blob()? >= next.as_slice() {
            return Err(damaged());
        }
        (key, named) = (next, true);
    }
    Ok(None)
}

/// Block as stored.
pub(super) struct StoredBlock<'a> {
    /// First token of the next block; empty for the last one.
    pub(super) next: &'a [u8],
    pub(super) words: Block<'a>,
}

/// Encodes a block: its own key, the key of the next block, and its tokens.
fn encode_block(segment: i64, key: &[u8], next: &[u8], words: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.len() + 64);
    for key in [key, next] {
        put_varint(&mut bytes, key.len() as u64);
        bytes.extend_from_slice(key);
    }
    bytes.extend_from_slice(words);
    seal(segment, bytes)
}

/// Decodes a row of `first, block`.
pub(super) fn decode_block<'a>(
    segment: i64,
    row: &'a rusqlite::Row<'_>,
) -> rusqlite::Result<StoredBlock<'a>> {
    let key = row.get_ref(0)?.as_blob()?;
    let mut rest = unseal(segment, row.get_ref(1)?.as_blob()?)?;
    let mut next_number = || {
        let len = usize::try_from(get_varint(&mut rest)?).ok()?;
        let (key, after) = rest.split_at_checked(len)?;
        rest = after;
        Some(key)
    };
    let (own, next) = (
        next_number().ok_or_else(damaged)?,
        next_number().ok_or_else(damaged)?,
    );
    match own == key {
        true => Ok(StoredBlock {
            next,
            words: Block::new(rest),
        }),
        false => Err(damaged()),
    }
}

/// Returns the database key of a token; SQLite compares keys byte by byte.
fn name(token: Token) -> Vec<u8> {
    let bytes = token.to_bytes();
    bytes.get(..token.len()).unwrap_or_default().to_vec()
}

/// Returns the locations of documents of a segment: text numbers and spans.
pub(super) fn document_locations(
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
                // A deleted document has no location.
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

/// Returns the stored ranges of a segment that contain wanted documents: text numbers and ids.
pub(super) fn ranges_with(
    database: &Connection,
    segment: Segment,
    wanted: &Documents,
) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut query = database.prepare_cached(
        "SELECT id, documents, text, spans FROM stretch WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
    )?;
    let mut rows = query.query(range_ids(segment.0))?;
    let mut found = Vec::new();
    let mut expected = 0;
    while let Some(row) = rows.next()? {
        let header = RangeHeader::decode(segment.0, row)?;
        // Ranges are adjacent, so a missing one is detected.
        if header.first != expected {
            return Err(damaged());
        }
        expected = expected.checked_add(header.documents).ok_or_else(damaged)?;
        if let Some(text) = header.text
            && wanted.any_within(header.first, expected)
        {
            found.push((text, range_id(segment.0, header.first)));
        }
    }
    match expected == segment.1 {
        true => Ok(found),
        false => Err(damaged()),
    }
}

/// Returns the spans of the wanted documents of a stored range.
pub(super) fn spans_in_range(
    database: &Connection,
    id: i64,
    wanted: &Documents,
) -> rusqlite::Result<Vec<Span>> {
    let mut query =
        database.prepare_cached("SELECT id, documents, text, spans FROM stretch WHERE id = ?1")?;
    let (first, range) = query.query_row([id], |row| decode_range(segment_of(id), row))?;
    let documents = (first..).zip(range.spans);
    let documents = documents.filter(|(document, _)| wanted.contains(*document));
    Ok(documents.map(|(_, span)| span).collect())
}

/// Returns the segment of the id of a range.
pub(super) fn segment_of(id: i64) -> i64 {
    id >> 32
}

/// Id of a document range. Ranges of one segment are adjacent and in order.
fn range_id(segment: i64, first: u32) -> i64 {
    (segment << 32) | i64::from(first)
}

/// First and last possible id of a range of a segment.
pub(super) fn range_ids(segment: i64) -> [i64; 2] {
    [range_id(segment, 0), range_id(segment, u32::MAX)]
}

/// Encodes a range: first document, document count, text number, and spans.
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

/// Columns of a stored range that its checksum includes, and its encoded spans.
struct RangeHeader<'a> {
    first: u32,
    documents: u32,
    text: Option<i64>,
    spans: &'a [u8],
}

impl<'a> RangeHeader<'a> {
    /// Decodes a row of `id, documents, text, spans`.
    fn decode(segment: i64, row: &'a rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let (id, documents): (i64, u32) = (row.get(0)?, row.get(1)?);
        let first = u32::try_from(id - range_id(segment, 0)).map_err(|_| damaged())?;
        let text: i64 = row.get(2)?;
        let mut rest = unseal(segment, row.get_ref(3)?.as_blob()?)?;
        let mut next_number = || get_varint(&mut rest).ok_or_else(damaged);
        if (next_number()?, next_number()?, next_number()?)
            != (first.into(), documents.into(), text as u64)
        {
            return Err(damaged());
        }
        Ok(RangeHeader {
            first,
            documents,
            text: Some(text).filter(|text| *text != 0),
            spans: rest,
        })
    }
}

/// Decodes a row of `id, documents, text, spans`.
pub(super) fn decode_range(
    segment: i64,
    row: &rusqlite::Row<'_>,
) -> rusqlite::Result<(u32, DocumentRange)> {
    let header = RangeHeader::decode(segment, row)?;
    let mut rest = header.spans;
    let mut spans = Vec::with_capacity(header.documents.min(TOGETHER as u32) as usize);
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
        text: header.text,
        documents: header.documents,
        spans,
    };
    Ok((header.first, stretch))
}

/// Consecutive documents of one file.
pub(super) struct DocumentRange {
    /// Text number; `None` if the documents were deleted or are not usable.
    pub(super) text: Option<i64>,
    /// Number of documents.
    pub(super) documents: u32,
    /// Locations of the documents; empty if deleted.
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

    /// Splits the range into parts of at most [`TOGETHER`] documents.
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

/// Maximum number of documents in a stored range; small, so that a lookup reads little.
const TOGETHER: usize = 128;

/// Saves a segment. `words` must be sorted.
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
    // The first block has an empty key, so it is also found for tokens before its first one.
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

/// Marks the documents of a file as deleted.
pub(super) fn delete_documents(database: &Connection, text: i64) -> rusqlite::Result<()> {
    let mut query = database
        .prepare_cached("SELECT id, documents, text, spans FROM stretch WHERE text = ?1")?;
    let mut rows = query.query([text])?;
    let mut gone = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let segment = segment_of(id);
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

#[cfg(test)]
mod tests;
