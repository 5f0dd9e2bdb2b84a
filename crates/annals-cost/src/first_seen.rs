//! Finds the first charge of each response.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use annals_layouts::model::ResponseKey;

/// Hash table of charge positions by response key. Only positions are stored; the keys are in the
/// charges.
#[derive(Clone, Debug)]
pub(super) struct FirstSeen {
    table: HashTable<u32>,
    seed: [u64; 2],
}

impl Default for FirstSeen {
    fn default() -> Self {
        FirstSeen::with_capacity(0)
    }
}

impl FirstSeen {
    /// Creates a table with room for `count` entries.
    pub(super) fn with_capacity(count: usize) -> Self {
        FirstSeen {
            table: HashTable::with_capacity(count),
            seed: [0, 1].map(|number: u64| RandomState::new().hash_one(number)),
        }
    }

    /// Returns the position where the response was seen first; if there is none, records `at`.
    /// `name` returns the response key at a position.
    pub(super) fn find_or_insert(
        &mut self,
        at: usize,
        key: ResponseKey,
        name: impl Fn(usize) -> Option<ResponseKey>,
    ) -> Option<usize> {
        let response = |place: &u32| name(*place as usize);
        let entry = self.table.entry(
            hash(key, self.seed),
            |place| response(place) == Some(key),
            |place| response(place).map_or(0, |key| hash(key, self.seed)),
        );
        match entry {
            Entry::Occupied(known) => Some(*known.get() as usize),
            Entry::Vacant(slot) => {
                slot.insert(u32::try_from(at).ok()?);
                None
            }
        }
    }
}

/// Hashes a key, which mostly is a digest already. The random seed prevents hash collisions by
/// chosen ids.
fn hash(key: ResponseKey, [one, other]: [u64; 2]) -> u64 {
    let [high, low] = key.message.halves();
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product >> 64) as u64 ^ product as u64
    };
    fold(fold(high ^ one, low ^ other) ^ key.request ^ one, other | 1)
}
