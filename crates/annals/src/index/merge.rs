//! Merges segments, so that a lookup reads few of them.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use crate::search::tokenizer::Token;

use super::text_store::{
    Segment, add_segment, damaged, decode_block, decode_range, range_ids, segments,
};

/// Number of segments of similar size that are merged into one. Keeps lookups short, and rewrites
/// each token only a few times.
const MERGED: usize = 8;

/// Merges segments of similar size where there are many, and rewrites segments whose documents are
/// mostly deleted.
pub(super) fn merge_segments(database: &Connection) -> rusqlite::Result<()> {
    loop {
        let mut tiers: HashMap<u32, Vec<Segment>> = HashMap::new();
        for segment in segments(database)? {
            let living: u32 = database.query_row(
                "SELECT coalesce(sum(documents), 0) FROM stretch
                 WHERE id BETWEEN ?1 AND ?2 AND text != 0",
                range_ids(segment.0),
                |row| row.get(0),
            )?;
            if living == 0 {
                drop_segment(database, segment.0)?;
            } else if living < segment.1 / 2 {
                merge(database, &[segment])?;
                return merge_segments(database);
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
        "DELETE FROM segment WHERE id = ?1",
    ] {
        database.prepare_cached(delete)?.execute([segment])?;
    }
    let mut delete = database.prepare_cached("DELETE FROM stretch WHERE id BETWEEN ?1 AND ?2")?;
    delete.execute(range_ids(segment)).map(|_| ())
}

/// Merges segments into one, without deleted documents.
pub(super) fn merge(database: &Connection, segments: &[Segment]) -> rusqlite::Result<()> {
    let mut stretches = Vec::new();
    let mut cursors = Vec::new();
    let mut next = 0;
    for (segment, documents) in segments {
        // New number of each document that is not deleted.
        let mut numbers = vec![None; *documents as usize];
        let mut query = database.prepare_cached(
            "SELECT id, documents, text, spans FROM stretch WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
        )?;
        let mut rows = query.query(range_ids(*segment))?;
        while let Some(row) = rows.next()? {
            let (first, stretch) = decode_range(*segment, row)?;
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
            next: Some(Vec::new()),
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

/// Returns the next token of several segments, with its documents in all of them.
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

/// Cursor over the tokens of a segment being merged.
struct MergeCursor<'a> {
    database: &'a Connection,
    segment: i64,
    numbers: Vec<Option<u32>>,
    /// Key of the next block; `None` at the end.
    next: Option<Vec<u8>>,
    /// Unread tokens of the current block, in reverse order.
    pending: Vec<(Token, Vec<u32>)>,
}

impl MergeCursor<'_> {
    /// Reads the next block if the current one is used up.
    fn fill(&mut self) -> rusqlite::Result<()> {
        if !self.pending.is_empty() {
            return Ok(());
        }
        let Some(key) = self.next.take() else {
            return Ok(());
        };
        let mut query = self
            .database
            .prepare_cached("SELECT first, block FROM word WHERE segment = ?1 AND first = ?2")?;
        let mut rows = query.query(params![self.segment, key])?;
        let row = rows.next()?.ok_or_else(damaged)?;
        let block = decode_block(self.segment, row)?;
        // Keys strictly ascend, so this terminates.
        if !block.next.is_empty() && block.next <= key.as_slice() {
            return Err(damaged());
        }
        self.next = Some(block.next.to_vec()).filter(|next| !next.is_empty());
        for (token, list) in block.words {
            let numbers = |document: u32| self.numbers.get(document as usize).copied().flatten();
            self.pending
                .push((token, list.filter_map(numbers).collect()));
        }
        self.pending.reverse();
        Ok(())
    }
}
