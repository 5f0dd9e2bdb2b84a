//! Encoding of stored data: postcard, and a checksum over the data and its key.
//!
//! A flipped bit in the database must not become an answer. The key in the checksum also detects data
//! that is stored under the wrong key.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Encodes a value.
pub(super) fn encode(key: &[u8], value: &impl Serialize) -> Option<Vec<u8>> {
    Some(seal(key, postcard::to_stdvec(value).ok()?))
}

/// Decodes a value; `None` if it is damaged.
pub(super) fn decode<'a, T: Deserialize<'a>>(key: &[u8], bytes: &'a [u8]) -> Option<T> {
    postcard::from_bytes(unseal(key, bytes)?).ok()
}

/// Appends the checksum to encoded data.
pub(super) fn seal(key: &[u8], mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(key, &bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Returns the data without its checksum; `None` if the checksum is wrong.
pub(super) fn unseal<'a>(key: &[u8], sealed: &'a [u8]) -> Option<&'a [u8]> {
    let (bytes, sum) = sealed.split_last_chunk()?;
    (u64::from_le_bytes(*sum) == checksum(key, bytes)).then_some(bytes)
}

fn checksum(key: &[u8], bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, xxh3_64(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_fails_the_checksum() {
        let sealed = encode(b"key", &("what was read", 7u64)).unwrap();
        assert_eq!(decode(b"key", &sealed), Some(("what was read", 7u64)));
        assert_eq!(decode::<(&str, u64)>(b"kez", &sealed), None);
        for at in 0..sealed.len() {
            assert_eq!(unseal(b"key", &sealed[..at]), None, "cut at {at}");
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(unseal(b"key", &changed), None, "changed at {at}");
        }
    }
}
