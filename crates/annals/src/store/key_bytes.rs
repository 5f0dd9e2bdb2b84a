//! Serde form of lists of entry keys: sixteen bytes each. The index reads hundreds of thousands.

use serde::de::{Deserializer, Visitor};
use serde::ser::Serializer;

use annals_layouts::model::EntryKey;

pub(super) fn serialize<S: Serializer>(
    keys: &[EntryKey],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_bytes()).collect();
    serializer.serialize_bytes(&bytes)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<EntryKey>, D::Error> {
    struct Keys;

    impl Visitor<'_> for Keys {
        type Value = Vec<EntryKey>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("keys of sixteen bytes")
        }

        fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
            let (keys, rest) = bytes.as_chunks();
            match rest {
                [] => Ok(keys.iter().map(|key| EntryKey::from_bytes(*key)).collect()),
                _ => Err(E::custom("incomplete key")),
            }
        }
    }

    deserializer.deserialize_bytes(Keys)
}
