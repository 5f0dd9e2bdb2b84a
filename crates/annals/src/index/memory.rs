//! What is known of roots from before, as the catalogue keeps it: whose logs are where only their
//! contents tell, whose the stretches of shared logs are, what directories held, and what all of a root was.

use std::io::Read as _;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::jsonl::FileId;
use crate::model::SessionId;
use crate::store::memory::{Memory, Recall};
use crate::store::owners::Owned;
use crate::store::{Inventory, Root, Store};

use super::Catalogue;
use super::database::{PATIENCE, new_number, number_of};
use super::seal::{Stamp, seal, unseal};

/// All that is known of a root in one piece: it is asked for as a whole.
pub(super) const TABLES: &str = "
    CREATE TABLE owners (
        root INTEGER PRIMARY KEY,
        told BLOB NOT NULL
    );
    CREATE TABLE shares (
        root INTEGER PRIMARY KEY,
        told BLOB NOT NULL
    );
    CREATE TABLE folders (
        root INTEGER PRIMARY KEY,
        told BLOB NOT NULL
    );
    CREATE TABLE still (
        root INTEGER PRIMARY KEY,
        told BLOB NOT NULL
    );
";

/// A log: device, inode, length, when it was changed, and when anything about it was.
type Spelled = (u64, u64, u64, i64, i64, Option<String>);

impl Catalogue {
    /// Everything that lies in the roots of a store, and what is archived of them: the same as
    /// [`Store::inventory`].
    pub fn inventory(&mut self, store: &Store) -> Inventory {
        self.remembering(|memory| store.inventory_knowing(memory))
    }

    /// Goes through roots with what is known of them, and remembers what was not.
    pub(super) fn remembering<T>(&mut self, go_through: impl FnOnce(&mut Memory<'_>) -> T) -> T {
        let mut memory = Memory::of(&self.database);
        let found = go_through(&mut memory);
        let learnt = memory.learnt();
        let nothing =
            learnt.owners.is_empty() && learnt.shares.is_empty() && learnt.folders.is_empty();
        if !nothing && !self.is_read_only() {
            // Nobody waits for this; another time will do.
            let _ = self.database.busy_timeout(Duration::ZERO);
            for (root, owned) in learnt.owners {
                let _ = keep(&self.database, "owners", &root, spell(owned));
            }
            for (root, shares) in learnt.shares {
                let _ = keep(&self.database, "shares", &root, shares);
            }
            for (root, folders) in learnt.folders {
                let _ = keep(&self.database, "folders", &root, folders);
            }
            let _ = self.database.busy_timeout(PATIENCE);
        }
        found
    }
}

impl Recall for Connection {
    fn owners(&self, root: &Root) -> Vec<Owned> {
        let told = told(self, "owners", root).unwrap_or_default();
        owned(&told).unwrap_or_default()
    }

    fn shares(&self, root: &Root) -> Vec<u8> {
        told(self, "shares", root).unwrap_or_default()
    }

    fn folders(&self, root: &Root) -> Vec<u8> {
        told(self, "folders", root).unwrap_or_default()
    }
}

pub(super) fn told(database: &Connection, table: &str, root: &Root) -> Option<Vec<u8>> {
    let number = number_of(database, root).ok()??;
    // Some are large; so they are in memory once.
    let mut blob = database
        .blob_open(rusqlite::MAIN_DB, table, "told", number, true)
        .ok()?;
    let mut told = vec![0; blob.len()];
    blob.read_exact(&mut told).ok()?;
    let whole = unseal(Stamp::of_block(number), &told)?.len();
    told.truncate(whole);
    Some(told)
}

fn owned(told: &[u8]) -> Option<Vec<Owned>> {
    let told: Vec<Spelled> = postcard::from_bytes(told).ok()?;
    let owned = told
        .into_iter()
        .map(|(dev, ino, len, mtime, ctime, owner)| {
            let id = FileId {
                dev,
                ino,
                len,
                mtime_ns: mtime,
                ctime_ns: ctime,
            };
            let owner = owner.map(|owner| SessionId::new(&owner)).transpose().ok()?;
            Some((id, owner))
        });
    owned.collect()
}

fn spell(owned: Vec<Owned>) -> Vec<u8> {
    let now = Timestamp::now().as_nanosecond() as i64;
    let spelled: Vec<Spelled> = owned
        .into_iter()
        .filter(|(id, _)| is_settled(id, now))
        .map(|(id, owner)| {
            let owner = owner.map(|owner| owner.as_str().to_owned());
            (id.dev, id.ino, id.len, id.mtime_ns, id.ctime_ns, owner)
        })
        .collect();
    postcard::to_stdvec(&spelled).unwrap_or_default()
}

pub(super) fn keep(
    database: &Connection,
    table: &str,
    root: &Root,
    told: Vec<u8>,
) -> rusqlite::Result<()> {
    let number = new_number(database, root)?;
    let told = seal(Stamp::of_block(number), told);
    let insert = format!("INSERT OR REPLACE INTO {table} (root, told) VALUES (?1, ?2)");
    database.execute(&insert, params![number, told]).map(|_| ())
}

/// Clocks of file systems are coarse: what changed just now may change again at the same time.
fn is_settled(id: &FileId, now: i64) -> bool {
    const TICK: i64 = 100_000_000;
    id.ctime_ns < now - TICK
}
