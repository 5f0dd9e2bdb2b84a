//! Cached results of walking roots, one blob per root and kind: owners of logs that only their
//! contents name, session slices of shared logs, directory listings, and root snapshots.

use std::io::Read as _;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::store::log_owners::LogOwner;
use crate::store::walk_cache::{CacheSource, WalkCache};
use crate::store::{Inventory, Root, Store};
use annals_jsonl::FileId;
use annals_layouts::model::SessionId;

use super::Index;
use super::codec;
use super::database::{BUSY_TIMEOUT, new_number, number_of};

/// One blob per root, because it is always read as a whole.
pub(super) const TABLES: &str = "
    CREATE TABLE owners (
        root INTEGER PRIMARY KEY,
        data BLOB NOT NULL
    );
    CREATE TABLE shares (
        root INTEGER PRIMARY KEY,
        data BLOB NOT NULL
    );
    CREATE TABLE folders (
        root INTEGER PRIMARY KEY,
        data BLOB NOT NULL
    );
    CREATE TABLE still (
        root INTEGER PRIMARY KEY,
        data BLOB NOT NULL
    );
";

/// Owner of a log: device, inode, length, mtime, ctime, session id.
type Spelled = (u64, u64, u64, i64, i64, Option<String>);

impl Index {
    /// Returns all sessions in the roots of a store, archived ones included. Same result as
    /// [`Store::inventory`].
    pub fn inventory(&mut self, store: &Store) -> Inventory {
        self.with_root_cache(|memory| store.inventory_with_cache(memory))
    }

    /// Walks roots with the cached results, and saves new ones.
    pub(super) fn with_root_cache<T>(
        &mut self,
        go_through: impl FnOnce(&mut WalkCache<'_>) -> T,
    ) -> T {
        let mut memory = WalkCache::new(&self.database);
        let found = go_through(&mut memory);
        let learnt = memory.into_updates();
        let nothing =
            learnt.owners.is_empty() && learnt.slices.is_empty() && learnt.dirs.is_empty();
        if !nothing && !self.is_read_only() {
            // Do not wait for a lock: a later walk can save them.
            let _ = self.database.busy_timeout(Duration::ZERO);
            for (root, owned) in learnt.owners {
                let _ = save_blob(&self.database, "owners", &root, encode(owned));
            }
            for (root, shares) in learnt.slices {
                let _ = save_blob(&self.database, "shares", &root, shares);
            }
            for (root, folders) in learnt.dirs {
                let _ = save_blob(&self.database, "folders", &root, folders);
            }
            let _ = self.database.busy_timeout(BUSY_TIMEOUT);
        }
        found
    }
}

impl CacheSource for Connection {
    fn owners(&self, root: &Root) -> Vec<LogOwner> {
        let data = load_blob(self, "owners", root).unwrap_or_default();
        decode(&data).unwrap_or_default()
    }

    fn slices(&self, root: &Root) -> Vec<u8> {
        load_blob(self, "shares", root).unwrap_or_default()
    }

    fn dirs(&self, root: &Root) -> Vec<u8> {
        load_blob(self, "folders", root).unwrap_or_default()
    }
}

pub(super) fn load_blob(database: &Connection, table: &str, root: &Root) -> Option<Vec<u8>> {
    let number = number_of(database, root).ok()??;
    // Blobs can be large; incremental I/O holds one copy in memory.
    let mut blob = database
        .blob_open(rusqlite::MAIN_DB, table, "data", number, true)
        .ok()?;
    let mut data = vec![0; blob.len()];
    blob.read_exact(&mut data).ok()?;
    let whole = codec::unseal(&number.to_le_bytes(), &data)?.len();
    data.truncate(whole);
    Some(data)
}

fn decode(data: &[u8]) -> Option<Vec<LogOwner>> {
    let data: Vec<Spelled> = postcard::from_bytes(data).ok()?;
    let owned = data
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

fn encode(owned: Vec<LogOwner>) -> Vec<u8> {
    let now = Timestamp::now().as_nanosecond() as i64;
    let spelled: Vec<Spelled> = owned
        .into_iter()
        .filter(|(id, _)| is_stable(id, now))
        .map(|(id, owner)| {
            let owner = owner.map(|owner| owner.as_str().to_owned());
            (id.dev, id.ino, id.len, id.mtime_ns, id.ctime_ns, owner)
        })
        .collect();
    postcard::to_stdvec(&spelled).unwrap_or_default()
}

pub(super) fn save_blob(
    database: &Connection,
    table: &str,
    root: &Root,
    data: Vec<u8>,
) -> rusqlite::Result<()> {
    let number = new_number(database, root)?;
    let data = codec::seal(&number.to_le_bytes(), data);
    let insert = format!("INSERT OR REPLACE INTO {table} (root, data) VALUES (?1, ?2)");
    database.execute(&insert, params![number, data]).map(|_| ())
}

/// File system clocks are coarse: a file changed within the last tick may change again without a
/// new ctime.
fn is_stable(id: &FileId, now: i64) -> bool {
    const TICK: i64 = 100_000_000;
    id.ctime_ns < now - TICK
}
