//! Maps and sets of keys with a cheap hash.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};

use super::EntryKey;

/// A map of keys.
pub type KeyMap<V> = HashMap<EntryKey, V, KeyState>;

/// A set of keys.
pub type KeySet = HashSet<EntryKey, KeyState>;

/// Hashes keys with two multiplications.
///
/// Key bits are random or from a digest. The author of a log can choose UUIDs, so each map has its
/// own secret, without which nobody can construct colliding ids.
#[derive(Clone, Debug)]
pub struct KeyState(u64);

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
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write_u64(&mut self, half: u64) {
        // Any odd constant with well-spread bits works; this one is from the golden ratio.
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
        // Zero is the same for every shift.
        assert_eq!(hashes.len(), 5 * 1_023 + 1);
        // Of this many keys in 65,536 buckets, about 190 collide.
        assert!(low.len() > 4_600, "{}", low.len());
    }
}
