//! What sessions and their conversations are, as the catalogue keeps it: a row for each session.

use std::cmp::Ordering;

use rusqlite::{Connection, Row, TransactionBehavior, params};

use crate::store::{Root, SessionFiles};

use super::database::{new_number, number_of};
use super::seal::{Stamp, unseal};

/// `bytes` are those of the session's logs. What its conversations are is asked for less often, and
/// stands last.
pub(super) const TABLES: &str = "
    CREATE TABLE session (
        root INTEGER NOT NULL REFERENCES root,
        name BLOB NOT NULL,
        stamp BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        facts BLOB NOT NULL,
        talks BLOB NOT NULL,
        PRIMARY KEY (root, name)
    ) WITHOUT ROWID;
";

/// A session of which something is known, by the number of its root and its name within it.
pub(super) type Name = (i64, Vec<u8>);

/// A row to keep.
pub(super) struct Fresh<'a> {
    pub(super) files: &'a SessionFiles,
    pub(super) stamp: Stamp,
    pub(super) facts: &'a [u8],
    pub(super) talks: &'a [u8],
}

/// What is known of a session that is as it was.
pub(super) struct Known<'a> {
    row: &'a Row<'a>,
    stamp: Stamp,
}

impl Known<'_> {
    pub(super) fn facts(&self) -> Option<&[u8]> {
        unseal(self.stamp, self.row.get_ref(3).ok()?.as_blob().ok()?)
    }

    pub(super) fn talks(&self) -> Option<&[u8]> {
        unseal(self.stamp, self.row.get_ref(4).ok()?.as_blob().ok()?)
    }
}

/// By what sessions of a root are told apart, and in which order rows stand: that of their ids, and
/// of the folders that share one.
pub(super) fn order(one: &SessionFiles, other: &SessionFiles) -> Ordering {
    (one.id.as_str(), one.folder()).cmp(&(other.id.as_str(), other.folder()))
}

/// The name of a session's row. No id has a NUL in it.
fn name(files: &SessionFiles) -> Vec<u8> {
    let mut name = files.id.as_str().as_bytes().to_vec();
    if let Some(folder) = files.folder() {
        name.push(0);
        name.extend_from_slice(folder.as_bytes());
    }
    name
}

fn parts(name: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = name.splitn(2, |byte| *byte == 0);
    (parts.next().unwrap_or_default(), parts.next())
}

/// What became of a row's session.
pub(super) enum Met<'a> {
    /// It is as it was.
    Same(Known<'a>),
    /// Something was done to its files.
    Changed,
}

/// Tells of each session of a root, in their order, whether it is as it was. The names of those
/// that are not there any more go to `gone`.
pub(super) fn recall(
    database: &Connection,
    root: &Root,
    sessions: &[(usize, &SessionFiles)],
    gone: &mut Vec<Name>,
    mut met: impl FnMut(usize, Met<'_>),
) -> rusqlite::Result<()> {
    let Some(number) = number_of(database, root)? else {
        return Ok(());
    };
    let mut query = database.prepare(
        "SELECT name, stamp, bytes, facts, talks FROM session WHERE root = ?1 ORDER BY name",
    )?;
    let mut rows = query.query([number])?;
    let mut left = sessions.iter().peekable();
    while let Some(row) = rows.next()? {
        let name = row.get_ref(0)?.as_blob()?;
        let against = |files: &SessionFiles| {
            let folder = files.folder().map(str::as_bytes);
            (files.id.as_str().as_bytes(), folder).cmp(&parts(name))
        };
        while left.next_if(|(_, files)| against(files).is_lt()).is_some() {}
        let Some((at, files)) = left.next_if(|(_, files)| against(files).is_eq()) else {
            gone.push((number, name.to_vec()));
            continue;
        };
        let stamp = Stamp::of(files);
        let same = row.get_ref(1)?.as_blob()? == stamp.to_bytes();
        met(
            *at,
            match same {
                true => Met::Same(Known { row, stamp }),
                false => Met::Changed,
            },
        );
    }
    Ok(())
}

/// Keeps what was read.
pub(super) fn write(database: &mut Connection, fresh: &[Fresh<'_>]) -> rusqlite::Result<()> {
    if fresh.is_empty() {
        return Ok(());
    }
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut insert =
            change.prepare("INSERT OR REPLACE INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        let mut last: Option<(&Root, i64)> = None;
        for row in fresh {
            let root = &row.files.root;
            let number = match last {
                Some((known, number)) if is_same(known, root) => number,
                _ => new_number(&change, root)?,
            };
            last = Some((root, number));
            insert.execute(params![
                number,
                name(row.files),
                row.stamp.to_bytes(),
                row.files.log_bytes() as i64,
                row.facts,
                row.talks,
            ])?;
        }
    }
    change.commit()
}

/// Whether two are one root. A directory may be a root of several layouts.
pub(super) fn is_same(one: &Root, other: &Root) -> bool {
    one.layout.name() == other.layout.name() && one.path.as_os_str() == other.path.as_os_str()
}

/// Forgets sessions that are gone.
pub(super) fn forget(database: &mut Connection, gone: &[Name]) -> rusqlite::Result<()> {
    if gone.is_empty() {
        return Ok(());
    }
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut delete = change.prepare("DELETE FROM session WHERE root = ?1 AND name = ?2")?;
        for (root, name) in gone {
            delete.execute(params![root, name])?;
        }
    }
    change.commit()
}
