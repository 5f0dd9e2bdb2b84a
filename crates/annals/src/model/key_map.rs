//! Maps and sets of keys that hash little.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};

use super::EntryKey;

/// A map of keys.
pub(crate) type KeyMap<V> = HashMap<EntryKey, V, KeyState>;

/// A set of keys.
pub(crate) type KeySet = HashSet<EntryKey, KeyState>;

/// Hashes keys with two multiplications.
///
/// Their bits are random, or of a digest. But whoever makes a log can choose a UUID's, so each map has
/// a secret of its own, without which nobody can choose ids that all fall into one place.
#[derive(Clone, Debug)]
pub(crate) struct KeyState(u64);

impl Default for KeyState {
    fn default() -> Self {
        KeyState(RandomState::new().hash_one(()))
    }
}

impl BuildHasher for KeyState {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0)
    }
}

#[derive(Debug)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write_u64(&mut self, half: u64) {
        // Any odd number with bits all over does; this one is of the golden ratio.
        let product = u128::from(self.0 ^ half) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_keys_hash_differently() {
        let state = KeyState::default();
        let mut hashes = HashSet::new();
        let mut low = HashSet::new();
        for number in 0..1_024_u128 {
            for shift in [0, 32, 64, 96, 118] {
                let hash = state.hash_one(EntryKey::from_bytes((number << shift).to_le_bytes()));
                hashes.insert(hash);
                low.insert(hash & 0xffff);
            }
        }
        // Zero is the same whatever it is shifted by.
        assert_eq!(hashes.len(), 5 * 1_023 + 1);
        // Of so many balls in 65,536 boxes, some 190 meet another.
        assert!(low.len() > 4_600, "{}", low.len());
    }
}
