//! Identities: of machines, of files, of content.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// Defines 16 bytes that are written as 32 hexadecimal digits.
macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// Creates the id from its bytes.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                $name(bytes)
            }

            /// Its bytes.
            pub fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                let invalid = || Error::invalid("an id has 32 hexadecimal digits in lower case");
                let digit = |byte: u8| match byte {
                    b'0'..=b'9' => Some(byte - b'0'),
                    b'a'..=b'f' => Some(byte - b'a' + 10),
                    _ => None,
                };
                let mut bytes = [0; 16];
                if text.len() != 32 {
                    return Err(invalid());
                }
                for (to, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
                    let mut pair = pair.iter().map(|byte| digit(*byte));
                    match (pair.next().flatten(), pair.next().flatten()) {
                        (Some(high), Some(low)) => *to = high << 4 | low,
                        _ => return Err(invalid()),
                    }
                }
                Ok($name(bytes))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }
    };
}

hex_id! {
    /// A machine, as the hub named it when its token was made.
    SourceId
}

hex_id! {
    /// A file of a machine: a digest of layout, root and path. What the path names may be replaced;
    /// each replacement is a generation.
    FileKey
}

hex_id! {
    /// The beginning of the SHA-256 of some bytes.
    Digest
}

impl FileKey {
    /// Returns the key of a file.
    pub fn new(layout: &str, root: &str, path: &str) -> Self {
        let mut hash = Sha256::new_with_prefix(b"annals file 1\0");
        for part in [layout, root, path] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        FileKey(first_bytes(hash))
    }
}

impl Digest {
    /// Returns the digest of some bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Digest(first_bytes(Sha256::new_with_prefix(bytes)))
    }
}

fn first_bytes(hash: Sha256) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(hash.finalize()) {
        *to = from;
    }
    bytes
}
