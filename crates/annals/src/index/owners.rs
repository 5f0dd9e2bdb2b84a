//! Whose logs are where only their contents tell, as the catalogue keeps it.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::jsonl::FileId;
use crate::model::SessionId;
use crate::store::owners::{Owned, Owners};
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
";

/// A log: device, inode, length, when it was changed, and when anything about it was.
type Spelled = (u64, u64, u64, i64, i64, Option<String>);

impl Catalogue {
    /// Everything that lies in the roots of a store, and what is archived of them: the same as
    /// [`Store::inventory`].
    pub fn inventory(&mut self, store: &Store) -> Inventory {
        let mut owners = Owners::new(|root| recall(&self.database, root).unwrap_or_default());
        let inventory = store.inventory_knowing(&mut owners);
        let learnt = std::mem::take(&mut owners.learnt);
        drop(owners);
        if !learnt.is_empty() && !self.is_read_only() {
            // Nobody waits for this; another time will do.
            let _ = self.database.busy_timeout(Duration::ZERO);
            for (root, owned) in learnt {
                let _ = keep(&self.database, &root, owned);
            }
            let _ = self.database.busy_timeout(PATIENCE);
        }
        inventory
    }
}

fn recall(database: &Connection, root: &Root) -> Option<Vec<Owned>> {
    let number = number_of(database, root).ok()??;
    let select = "SELECT told FROM owners WHERE root = ?1";
    let told = database.query_row(select, [number], |row| row.get::<_, Vec<u8>>(0));
    let told = told.optional().ok()??;
    let told = unseal(Stamp::of_block(number), &told)?;
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

fn keep(database: &Connection, root: &Root, owned: Vec<Owned>) -> rusqlite::Result<()> {
    let now = Timestamp::now().as_nanosecond() as i64;
    let spelled: Vec<Spelled> = owned
        .into_iter()
        .filter(|(id, _)| is_settled(id, now))
        .map(|(id, owner)| {
            let owner = owner.map(|owner| owner.as_str().to_owned());
            (id.dev, id.ino, id.len, id.mtime_ns, id.ctime_ns, owner)
        })
        .collect();
    let number = new_number(database, root)?;
    let told = postcard::to_stdvec(&spelled).unwrap_or_default();
    let told = seal(Stamp::of_block(number), told);
    let insert = "INSERT OR REPLACE INTO owners (root, told) VALUES (?1, ?2)";
    database.execute(insert, params![number, told]).map(|_| ())
}

/// Clocks of file systems are coarse: what changed just now may change again at the same time.
fn is_settled(id: &FileId, now: i64) -> bool {
    const TICK: i64 = 100_000_000;
    id.ctime_ns < now - TICK
}
