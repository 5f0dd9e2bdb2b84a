//! Storage of session and conversation rows.
//!
//! Rows are grouped in blocks, so that scanning 100,000 of them is fast. A block holds the sessions
//! of a root whose ids have the same hash, sorted by name:
//!
//! ```text
//! facts:         { name, stamp (16 bytes), size of its logs, encoded summary }*, seal (8 bytes)
//! conversations: { encoded conversations }*, seal (8 bytes)
//! ```
//!
//! `stamp` is the fingerprint, `seal` the checksum. Each other field is a length and its bytes; the
//! size of the logs is a varint. Conversations are needed less often, so they have their own
//! column.
//!
//! The fingerprint covers the paths, identities, lengths and times of all files of a session, its
//! ranges of shared logs and its session-list rows. Any difference is a miss, and the session is
//! read again as a whole.

use std::cmp::Ordering;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use crate::store::{Root, SessionFiles};

use super::database::{new_number, number_of};
use super::fingerprint::{Fingerprint, add_checksum, verify_checksum};
use super::row_bytes::{RowReader, RowWriter};

/// The id of a block is computed from the number of its root and the hash of its session ids.
pub(super) const TABLES: &str = "
    CREATE TABLE session (
        id INTEGER PRIMARY KEY,
        facts BLOB NOT NULL,
        conversations BLOB NOT NULL
    );
";

/// Number of blocks per root.
const BLOCKS: usize = 256;

/// Sessions of a root by block, sorted by name, each with its position in the list.
pub(super) struct SortedSessions<'a> {
    pub(super) root: &'a Root,
    blocks: Vec<Vec<(usize, &'a SessionFiles)>>,
}

impl<'a> SortedSessions<'a> {
    /// Sorts the sessions that belong to `root`.
    pub(super) fn new(root: &'a Root, sessions: &'a [SessionFiles]) -> Self {
        let mut blocks = vec![Vec::new(); BLOCKS];
        // Sessions of one root are adjacent in the list.
        let mut last: Option<(&Arc<Root>, bool)> = None;
        for (at, files) in sessions.iter().enumerate() {
            let ours = match last {
                Some((known, ours)) if Arc::ptr_eq(known, &files.root) => ours,
                _ => is_same(&files.root, root),
            };
            last = Some((&files.root, ours));
            if ours && let Some(block) = blocks.get_mut(block_of(files)) {
                block.push((at, files));
            }
        }
        for block in &mut blocks {
            if !block.is_sorted_by(|(_, one), (_, other)| name(one) <= name(other)) {
                block.sort_by(|(_, one), (_, other)| name(one).cmp(&name(other)));
            }
        }
        SortedSessions { root, blocks }
    }

    /// Returns all sessions of the root.
    pub(super) fn all(&self) -> impl Iterator<Item = &(usize, &'a SessionFiles)> {
        self.blocks.iter().flatten()
    }
}

/// Returns true if two roots are the same. A directory may be a root of several layouts.
pub(super) fn is_same(one: &Root, other: &Root) -> bool {
    one.path.as_os_str() == other.path.as_os_str() && one.layout.name() == other.layout.name()
}

/// Returns the key of a session in its root: id and folder, because two folders may hold the same
/// id.
pub(super) fn name(files: &SessionFiles) -> (&[u8], Option<&[u8]>) {
    let folder = files.folder().map(str::as_bytes);
    (files.id.as_str().as_bytes(), folder)
}

/// Splits a stored name at its NUL into id and folder. No id contains a NUL.
fn parts(name: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(0, name).and_then(|at| name.split_at_checked(at)) {
        Some((id, folder)) => (id, folder.get(1..)),
        None => (name, None),
    }
}

fn block_of(files: &SessionFiles) -> usize {
    let id = files.id.as_str().as_bytes();
    // The end of an id is more random: its start may be a timestamp.
    let end = match id.last_chunk::<8>() {
        Some(end) => u64::from_le_bytes(*end),
        None => id.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    };
    (end.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % BLOCKS
}

/// Stored row of a session.
pub(super) struct StoredRow<'a> {
    name: &'a [u8],
    stamp: [u8; 16],
    /// Size of its logs in bytes.
    bytes: u64,
    pub(super) facts: &'a [u8],
    /// Empty if not requested.
    pub(super) conversations: &'a [u8],
}

impl<'a> StoredRow<'a> {
    /// Returns the session's id and its folder.
    pub(super) fn session(&self) -> (&'a [u8], Option<&'a [u8]>) {
        parts(self.name)
    }

    /// Returns true if the session's files are unchanged since the row was stored.
    pub(super) fn is_current(&self, files: &SessionFiles) -> bool {
        self.stamp == Fingerprint::from_session(files).to_bytes()
    }
}

/// Row to store.
pub(super) struct NewRow<'a> {
    pub(super) files: &'a SessionFiles,
    pub(super) stamp: Fingerprint,
    pub(super) facts: &'a [u8],
    pub(super) conversations: &'a [u8],
}

/// State of a stored row relative to the session's files.
pub(super) enum RowState<'a> {
    /// The files are unchanged.
    Same(StoredRow<'a>),
    /// The files changed.
    Changed,
}

/// Calls `met` for each session that has a stored row. Returns the blocks with rows of sessions
/// that no longer exist.
pub(super) fn load(
    database: &Connection,
    sorted: &SortedSessions<'_>,
    with_conversations: bool,
    mut met: impl FnMut(usize, &SessionFiles, RowState<'_>),
) -> rusqlite::Result<Vec<usize>> {
    let mut gone = Vec::new();
    let Some(root) = number_of(database, sorted.root)? else {
        return Ok(gone);
    };
    let conversations = if with_conversations {
        "conversations"
    } else {
        "NULL"
    };
    let mut query = database.prepare(&format!(
        "SELECT id, facts, {conversations} FROM session WHERE id BETWEEN ?1 AND ?2"
    ))?;
    let mut rows = query.query([number(root, 0), number(root, BLOCKS - 1)])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let block = (id - number(root, 0)) as usize;
        let facts = row.get_ref(1)?.as_blob()?;
        let conversations = row.get_ref(2)?.as_blob_or_null()?;
        // A damaged block is a cache miss; it is rewritten when its sessions are saved.
        let Some(entries) = entries(id, facts, conversations) else {
            continue;
        };
        let here = sorted.blocks.get(block).map(Vec::as_slice);
        let mut left = here.unwrap_or_default().iter().peekable();
        let mut missing = false;
        for entry in entries {
            let known = parts(entry.name);
            let mut order = Ordering::Less;
            let here = loop {
                let next = left.next_if(|(_, files)| {
                    order = name(files).cmp(&known);
                    order.is_le()
                });
                if next.is_none() || order.is_eq() {
                    break next;
                }
            };
            let Some((at, files)) = here else {
                missing = true;
                continue;
            };
            let what = match entry.is_current(files) {
                true => RowState::Same(entry),
                false => RowState::Changed,
            };
            met(*at, files, what);
        }
        if missing {
            gone.push(block);
        }
    }
    Ok(gone)
}

/// Calls `take` with the id of each session that has a stored row in a root, and the row. Its files
/// may have changed since, or no longer exist.
pub(super) fn load_unchecked(
    database: &Connection,
    root: &Root,
    mut take: impl FnMut(&[u8], StoredRow<'_>),
) -> rusqlite::Result<()> {
    let Some(root) = number_of(database, root)? else {
        return Ok(());
    };
    let select = "SELECT id, facts FROM session WHERE id BETWEEN ?1 AND ?2";
    let mut query = database.prepare(select)?;
    let mut rows = query.query([number(root, 0), number(root, BLOCKS - 1)])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let facts = row.get_ref(1)?.as_blob()?;
        for entry in entries(id, facts, None).unwrap_or_default() {
            take(parts(entry.name).0, entry);
        }
    }
    Ok(())
}

/// Calls `met` for each stored row of a root, current or not.
pub(super) fn each_row(
    database: &Connection,
    root: &Root,
    mut met: impl FnMut(&StoredRow<'_>),
) -> rusqlite::Result<()> {
    let Some(root) = number_of(database, root)? else {
        return Ok(());
    };
    let mut query = database.prepare("SELECT id, facts FROM session WHERE id BETWEEN ?1 AND ?2")?;
    let mut rows = query.query([number(root, 0), number(root, BLOCKS - 1)])?;
    while let Some(row) = rows.next()? {
        let facts = row.get_ref(1)?.as_blob()?;
        // A damaged block is a cache miss.
        for entry in entries(row.get(0)?, facts, None).iter().flatten() {
            met(entry);
        }
    }
    Ok(())
}

/// Saves new rows of a root. If `all_seen`, removes rows of sessions that no longer exist from the
/// blocks written and from those in `to_clean`.
pub(super) fn write(
    database: &mut Connection,
    sorted: &SortedSessions<'_>,
    fresh: &[NewRow<'_>],
    to_clean: &[usize],
    all_seen: bool,
) -> rusqlite::Result<()> {
    let mut blocks: Vec<(usize, &NewRow<'_>)> =
        fresh.iter().map(|row| (block_of(row.files), row)).collect();
    blocks.sort_by(|(one, a), (other, b)| {
        one.cmp(other)
            .then_with(|| name(a.files).cmp(&name(b.files)))
    });
    let mut touched: Vec<usize> = blocks.iter().map(|(block, _)| *block).collect();
    touched.extend(to_clean);
    touched.sort_unstable();
    touched.dedup();
    if touched.is_empty() {
        return Ok(());
    }
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let root = new_number(&change, sorted.root)?;
        let mut select =
            change.prepare("SELECT facts, conversations FROM session WHERE id = ?1")?;
        let mut insert = change.prepare("INSERT OR REPLACE INTO session VALUES (?1, ?2, ?3)")?;
        for block in touched {
            let id = number(root, block);
            // Another process may have written the block since it was loaded.
            let old: Option<(Vec<u8>, Vec<u8>)> = select
                .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let old = old.unwrap_or_default();
            let old = entries(id, &old.0, Some(&old.1)).unwrap_or_default();
            let start = blocks.partition_point(|(other, _)| *other < block);
            let end = blocks.partition_point(|(other, _)| *other <= block);
            let new = blocks.get(start..end).unwrap_or_default();
            let here = sorted
                .blocks
                .get(block)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let stays = |entry: &StoredRow<'_>| {
                let known = parts(entry.name);
                let there = || {
                    here.binary_search_by(|(_, files)| name(files).cmp(&known))
                        .is_ok()
                };
                !all_seen || there()
            };
            let (facts, conversations) = merge(id, old.into_iter().filter(stays), new);
            insert.execute(params![id, facts, conversations])?;
        }
    }
    change.commit()
}

/// Encodes a block from the remaining old rows and the new ones. Both are sorted.
fn merge<'a>(
    id: i64,
    old: impl Iterator<Item = StoredRow<'a>>,
    new: &[(usize, &NewRow<'_>)],
) -> (Vec<u8>, Vec<u8>) {
    let mut block = Block::default();
    let mut new = new.iter().map(|(_, row)| row).peekable();
    for entry in old {
        let known = parts(entry.name);
        while let Some(row) = new.next_if(|row| name(row.files) < known) {
            block.add(row);
        }
        if new.peek().is_none_or(|row| name(row.files) != known) {
            block.put(&entry);
        }
    }
    new.for_each(|row| block.add(row));
    let salt = Fingerprint::from_block(id);
    (
        add_checksum(salt, block.facts.0),
        add_checksum(salt, block.conversations.0),
    )
}

/// Block being encoded.
#[derive(Default)]
struct Block {
    facts: RowWriter,
    conversations: RowWriter,
}

impl Block {
    fn add(&mut self, row: &NewRow<'_>) {
        let (id, folder) = name(row.files);
        let mut name = id.to_vec();
        if let Some(folder) = folder {
            name.push(0);
            name.extend_from_slice(folder);
        }
        self.put(&StoredRow {
            name: &name,
            stamp: row.stamp.to_bytes(),
            bytes: row.files.log_bytes(),
            facts: row.facts,
            conversations: row.conversations,
        });
    }

    fn put(&mut self, entry: &StoredRow<'_>) {
        self.facts.bytes(entry.name);
        self.facts.raw(&entry.stamp);
        self.facts.number(entry.bytes);
        self.facts.bytes(entry.facts);
        self.conversations.bytes(entry.conversations);
    }
}

/// Returns the rows of a block; `None` if it is damaged.
fn entries<'a>(
    id: i64,
    facts: &'a [u8],
    conversations: Option<&'a [u8]>,
) -> Option<Vec<StoredRow<'a>>> {
    let salt = Fingerprint::from_block(id);
    let mut facts = RowReader(verify_checksum(salt, facts)?);
    let mut conversations = match conversations {
        None => None,
        Some(conversations) => Some(RowReader(verify_checksum(salt, conversations)?)),
    };
    let mut entries = Vec::new();
    while !facts.0.is_empty() {
        entries.push(StoredRow {
            name: facts.bytes()?,
            stamp: facts.array()?,
            bytes: facts.number()?,
            facts: facts.bytes()?,
            conversations: match &mut conversations {
                None => &[],
                Some(conversations) => conversations.bytes()?,
            },
        });
    }
    Some(entries)
}

/// Returns the id of a block.
fn number(root: i64, block: usize) -> i64 {
    root * BLOCKS as i64 + block as i64
}
