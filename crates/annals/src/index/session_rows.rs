//! Storage of session and conversation rows.
//!
//! A row is a head, the summary of the session without its charges, and the charges. A list of the
//! newest sessions decodes only the heads and the keys of the responses of most rows.
//!
//! A row has the fingerprint of its session: paths, identities, lengths and times of all files, ranges of
//! shared logs and session-list rows. Any difference is a miss, and the session is read again as a whole.

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use serde::{Deserialize, Serialize};

use crate::cost::Charge;
use crate::store::conversations::Conversations;
use crate::store::session_summary::SessionSummary;
use crate::store::{Root, SessionFiles};
use annals_layouts::model::EntryKey;

use super::charge_codec::{self, EncodedCharges, Names, Time, time_parts, timestamp};
use super::codec::{seal, unseal};
use super::database::{new_number, number_of};
use super::fingerprint::fingerprint;

/// `name` is the session's id and, after a NUL, its folder: two folders may hold the same id.
pub(super) const TABLES: &str = "
    CREATE TABLE session (
        root INTEGER NOT NULL REFERENCES root,
        name BLOB NOT NULL,
        row BLOB NOT NULL,
        PRIMARY KEY (root, name)
    ) WITHOUT ROWID;
    CREATE TABLE conversations (
        root INTEGER NOT NULL REFERENCES root,
        name BLOB NOT NULL,
        row BLOB NOT NULL,
        PRIMARY KEY (root, name)
    ) WITHOUT ROWID;
";

/// First part of a row.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    fingerprint: u128,
    updated: Option<Time>,
    guessed: bool,
    /// Summaries of other sessions' conversations, by leaf.
    #[serde(borrow)]
    summaries: Vec<([u8; 16], &'a str)>,
    /// Size of the encoded summary.
    summary: usize,
}

/// Stored row of a session.
pub(super) struct SessionRow<'a> {
    /// Id of the session.
    pub(super) id: &'a [u8],
    head: Head<'a>,
    summary: &'a [u8],
    charges: &'a [u8],
}

impl<'a> SessionRow<'a> {
    /// Decodes the head; `None` if the row is damaged.
    fn decode(root: i64, name: &'a [u8], row: &'a [u8]) -> Option<Self> {
        SessionRow::new(name, unseal(&key(root, name), row)?)
    }

    fn new(name: &'a [u8], row: &'a [u8]) -> Option<Self> {
        let (head, rest): (Head<'a>, _) = postcard::take_from_bytes(row).ok()?;
        let (summary, charges) = rest.split_at_checked(head.summary)?;
        Some(SessionRow {
            id: parts(name).0,
            head,
            summary,
            charges,
        })
    }

    /// Returns true if the session's files are unchanged since the row was stored.
    pub(super) fn is_current(&self, files: &SessionFiles) -> bool {
        self.head.fingerprint == fingerprint(files)
    }

    /// Time of the newest entry.
    pub(super) fn updated(&self) -> Option<Timestamp> {
        timestamp(self.head.updated).flatten()
    }

    /// True if the project directory is taken from sessions in the same folder, if one has it.
    pub(super) fn is_project_guessed(&self) -> bool {
        self.head.guessed
    }

    pub(super) fn has_summaries(&self) -> bool {
        !self.head.summaries.is_empty()
    }

    /// Summaries of other sessions' conversations.
    pub(super) fn summaries(&self) -> impl Iterator<Item = (EntryKey, Box<str>)> {
        let summaries = self.head.summaries.iter();
        summaries.map(|(leaf, text)| (EntryKey::from_bytes(*leaf), (*text).into()))
    }

    /// Passes the message of each response to `take`; `None` if the row is damaged.
    pub(super) fn messages(&self, take: impl FnMut(EntryKey)) -> Option<()> {
        EncodedCharges::new(self.charges)?.messages(take)
    }

    /// Decodes the summary without charges; `None` if it is damaged.
    pub(super) fn summary_without_charges(&self) -> Option<SessionSummary> {
        let mut summary: SessionSummary = postcard::from_bytes(self.summary).ok()?;
        summary.summaries = self.summaries().collect();
        Some(summary)
    }

    /// Decodes the summary; `None` if it is damaged.
    pub(super) fn summary(&self, names: &mut Names) -> Option<SessionSummary> {
        let mut summary = self.summary_without_charges()?;
        let rest = decode_charges(self.charges, names, &mut summary.charges)?;
        rest.is_empty().then_some(summary)
    }
}

fn encode_summary(summary: &SessionSummary, fingerprint: u128) -> Option<Vec<u8>> {
    let encoded = postcard::to_stdvec(summary).ok()?;
    let summaries = summary.summaries.iter();
    let head = Head {
        fingerprint,
        updated: summary.updated.map(time_parts),
        guessed: summary.project.guessed,
        summaries: summaries
            .map(|(leaf, text)| (leaf.to_bytes(), &**text))
            .collect(),
        summary: encoded.len(),
    };
    let mut row = postcard::to_stdvec(&head).ok()?;
    row.extend(encoded);
    let charges = summary.charges.iter().map(|charge| (charge, None));
    row.extend(charge_codec::encode(charges)?);
    Some(row)
}

fn encode_conversations(conversations: &Conversations, fingerprint: u128) -> Option<Vec<u8>> {
    let mut row = postcard::to_stdvec(&(fingerprint, conversations)).ok()?;
    for segment in &conversations.segments {
        let charges = segment.charges.iter().map(|charge| (charge, None));
        row.extend(charge_codec::encode(charges)?);
    }
    Some(row)
}

fn decode_conversations(row: &[u8], names: &mut Names) -> Option<(u128, Conversations)> {
    let (head, mut rest) = postcard::take_from_bytes(row).ok()?;
    let (fingerprint, mut conversations): (u128, Conversations) = head;
    for segment in &mut conversations.segments {
        rest = decode_charges(rest, names, &mut segment.charges)?;
    }
    rest.is_empty().then_some((fingerprint, conversations))
}

fn decode_charges<'a>(
    bytes: &'a [u8],
    names: &mut Names,
    to: &mut Vec<Charge>,
) -> Option<&'a [u8]> {
    EncodedCharges::new(bytes)?.decode(0, names, |_, _| (), to, |charge, ()| charge)
}

/// Data of a session that was read, encoded.
pub(super) struct NewRow {
    summary: Vec<u8>,
    conversations: Vec<u8>,
}

impl NewRow {
    /// Encodes the rows of a session that was read in this state.
    pub(super) fn new(
        files: &SessionFiles,
        summary: &SessionSummary,
        conversations: &Conversations,
    ) -> Option<Self> {
        let fingerprint = fingerprint(files);
        Some(NewRow {
            summary: encode_summary(summary, fingerprint)?,
            conversations: encode_conversations(conversations, fingerprint)?,
        })
    }
}

/// Sessions of a root, sorted by name, each with its position in the list.
pub(super) struct SortedSessions<'a> {
    pub(super) root: &'a Root,
    pub(super) list: Vec<(usize, &'a SessionFiles)>,
}

impl<'a> SortedSessions<'a> {
    /// Sorts the sessions that belong to `root`.
    pub(super) fn new(root: &'a Root, sessions: &'a [SessionFiles]) -> Self {
        let mut list = Vec::new();
        // Sessions of one root are adjacent in the list.
        let mut last: Option<(&Arc<Root>, bool)> = None;
        for (at, files) in sessions.iter().enumerate() {
            let is_own = match last {
                Some((known, is_own)) if Arc::ptr_eq(known, &files.root) => is_own,
                _ => is_same(&files.root, root),
            };
            last = Some((&files.root, is_own));
            if is_own {
                list.push((at, files));
            }
        }
        if !list.is_sorted_by(|(_, one), (_, other)| name(one) <= name(other)) {
            crate::sort::by(&mut list, |(_, one), (_, other)| {
                name(one).cmp(&name(other))
            });
        }
        SortedSessions { root, list }
    }
}

/// Returns true if two roots are the same. A directory may be a root of several layouts.
pub(super) fn is_same(one: &Root, other: &Root) -> bool {
    one.path.as_os_str() == other.path.as_os_str() && one.layout.name() == other.layout.name()
}

/// Returns the key of a session in its root: id and folder.
fn name(files: &SessionFiles) -> (&[u8], Option<&[u8]>) {
    let folder = files.folder().map(str::as_bytes);
    (files.id.as_str().as_bytes(), folder)
}

/// Returns the stored name of a session. No id contains a NUL.
fn stored_name(files: &SessionFiles) -> Vec<u8> {
    let (id, folder) = name(files);
    let mut stored = id.to_vec();
    if let Some(folder) = folder {
        stored.push(0);
        stored.extend_from_slice(folder);
    }
    stored
}

/// Splits a stored name into id and folder.
fn parts(name: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(0, name).and_then(|at| name.split_at_checked(at)) {
        Some((id, folder)) => (id, folder.get(1..)),
        None => (name, None),
    }
}

/// Returns the key in the checksum of a row.
fn key(root: i64, name: &[u8]) -> Vec<u8> {
    [&root.to_le_bytes(), name].concat()
}

/// Calls `take` for each session with a stored row, current or not. Returns the names of stored
/// sessions that are not in the list.
pub(super) fn load(
    database: &Connection,
    sorted: &SortedSessions<'_>,
    mut take: impl FnMut(usize, &SessionFiles, SessionRow<'_>),
) -> rusqlite::Result<Vec<Vec<u8>>> {
    let mut gone = Vec::new();
    let mut left = sorted.list.iter().peekable();
    each_row(database, sorted.root, |root, stored, row| {
        let known = parts(stored);
        while left.next_if(|(_, files)| name(files) < known).is_some() {}
        let Some((at, files)) = left.next_if(|(_, files)| name(files) == known) else {
            gone.push(stored.to_vec());
            return;
        };
        // A damaged row is a cache miss.
        if let Some(row) = SessionRow::decode(root, stored, row) {
            take(*at, files, row);
        }
    })?;
    Ok(gone)
}

/// Calls `take` for each stored row of a root, current or not.
pub(super) fn load_unchecked(
    database: &Connection,
    root: &Root,
    mut take: impl FnMut(SessionRow<'_>),
) -> rusqlite::Result<()> {
    each_row(database, root, |root, name, row| {
        if let Some(row) = SessionRow::decode(root, name, row) {
            take(row);
        }
    })
}

fn each_row(
    database: &Connection,
    root: &Root,
    mut take: impl FnMut(i64, &[u8], &[u8]),
) -> rusqlite::Result<()> {
    let Some(root) = number_of(database, root)? else {
        return Ok(());
    };
    let mut query =
        database.prepare("SELECT name, row FROM session WHERE root = ?1 ORDER BY name")?;
    let mut rows = query.query([root])?;
    while let Some(row) = rows.next()? {
        take(root, row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
    }
    Ok(())
}

/// Returns what `decode` makes of the row of a session, if the row is current.
pub(super) fn load_one<T>(
    database: &Connection,
    files: &SessionFiles,
    decode: impl FnOnce(&SessionRow<'_>) -> Option<T>,
) -> rusqlite::Result<Option<T>> {
    match number_of(database, &files.root)? {
        Some(root) => load_one_of_root(database, root, files, decode),
        None => Ok(None),
    }
}

/// Like [`load_one`], for a session of a root with this number.
pub(super) fn load_one_of_root<T>(
    database: &Connection,
    root: i64,
    files: &SessionFiles,
    decode: impl FnOnce(&SessionRow<'_>) -> Option<T>,
) -> rusqlite::Result<Option<T>> {
    let name = stored_name(files);
    let mut query =
        database.prepare_cached("SELECT row FROM session WHERE root = ?1 AND name = ?2")?;
    let mut rows = query.query(params![root, name])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let row = SessionRow::decode(root, &name, row.get_ref(0)?.as_blob()?);
    let row = row.filter(|row| row.is_current(files));
    Ok(row.and_then(|row| decode(&row)))
}

/// Returns the conversations of a session whose row is current; `None` if they are damaged.
pub(super) fn load_conversations(
    database: &Connection,
    files: &SessionFiles,
    names: &mut Names,
) -> rusqlite::Result<Option<Conversations>> {
    let Some(root) = number_of(database, &files.root)? else {
        return Ok(None);
    };
    let name = stored_name(files);
    let mut query =
        database.prepare_cached("SELECT row FROM conversations WHERE root = ?1 AND name = ?2")?;
    let row: Option<Vec<u8>> = query
        .query_row(params![root, name], |row| row.get(0))
        .optional()?;
    Ok(row.and_then(|row| {
        let row = unseal(&key(root, &name), &row)?;
        let (stored, conversations) = decode_conversations(row, names)?;
        (stored == fingerprint(files)).then_some(conversations)
    }))
}

/// Saves the rows of sessions of a root, and removes those of others.
pub(super) fn write(
    database: &mut Connection,
    root: &Root,
    rows: &[(&SessionFiles, &NewRow)],
    gone: &[Vec<u8>],
) -> rusqlite::Result<()> {
    if rows.is_empty() && gone.is_empty() {
        return Ok(());
    }
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let root = new_number(&change, root)?;
        for table in ["session", "conversations"] {
            let insert = format!("INSERT OR REPLACE INTO {table} VALUES (?1, ?2, ?3)");
            let mut insert = change.prepare(&insert)?;
            for (files, row) in rows {
                let name = stored_name(files);
                let row = match table {
                    "session" => &row.summary,
                    _ => &row.conversations,
                };
                let row = seal(&key(root, &name), row.clone());
                insert.execute(params![root, name, row])?;
            }
            let delete = format!("DELETE FROM {table} WHERE root = ?1 AND name = ?2");
            let mut delete = change.prepare(&delete)?;
            for name in gone {
                delete.execute(params![root, name])?;
            }
        }
    }
    change.commit()
}

#[cfg(test)]
mod tests;
