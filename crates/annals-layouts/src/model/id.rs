//! Ids as newtypes, so that they cannot be confused, and the rules that make ids safe in paths.
//!
//! A session id is safe in a path, on a screen and on a command line (`path_fault`). It must not
//! begin with a hyphen: other programs name logs, and a file `--apply.jsonl` would add an option to
//! every script that passes ids on (`annals delete $id`). `check` reports such a file and suggests
//! renaming it. A message id is never part of a path, so annals writes any id that can be seen,
//! typed and passed in one argument (`written_fault`): not empty, at most 64 KiB, no control or
//! invisible characters. Both may contain `@`. In `SESSION@MESSAGE`, the message starts after the
//! last `@` that has a session before it.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::text::{LineBreaks, visible};

/// Longest id in bytes that may become part of a file name. A file name has at most 255 bytes, and
/// names derived from an id (of packs, of deleted sessions) must fit too.
const MAX_PATH_ID: usize = 200;

/// Longest message id in bytes that annals writes. `SESSION@MESSAGE` must fit into one command
/// argument, which has at most 128 KiB on Linux.
const MAX_WRITTEN_ID: usize = 64 << 10;

macro_rules! path_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        ///
        /// Becomes part of a path and is typed and printed: any text of at most 200 bytes that does
        /// not begin with a dot or hyphen and contains no path separator, control character or
        /// invisible character.
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` against these rules.
            pub fn new(text: &str) -> Result<Self> {
                match path_fault(text) {
                    None => Ok(Self(text.into())),
                    Some(why) => Err(Error::BadId { what: $what, id: head(text), why }),
                }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        text_impls!($name);
    };
}

macro_rules! text_impls {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }
    };
}

path_id! {
    /// Id of a session. It comes from the file name, never from a field inside the file.
    SessionId, "a session id"
}
path_id! {
    /// Id of a sub-agent within a session.
    AgentId, "an agent id"
}

impl SessionId {
    /// The part after the start time in layouts that put the time first
    /// (`2026-03-26T01-32-20-418Z-<name>`), else the whole id.
    pub fn name(&self) -> &str {
        const TIME: &[u8] = b"0000-00-00T00-00-00-000Z-";
        let fits = |(byte, like): (u8, &u8)| match like {
            b'0' => byte.is_ascii_digit(),
            like => byte == *like,
        };
        match self.as_str().split_at_checked(TIME.len()) {
            Some((time, name)) if !name.is_empty() && time.bytes().zip(TIME).all(fits) => name,
            _ => self.as_str(),
        }
    }

    /// Whether it ends in a dash and this name, ignoring ASCII case: a thread's id after the start
    /// time of the session.
    pub fn matches_name(&self, name: &str) -> bool {
        let id = self.as_str();
        let split = id.len().checked_sub(name.len());
        let split = split.and_then(|at| id.split_at_checked(at));
        split.is_some_and(|(before, end)| {
            before.ends_with('-') && !name.is_empty() && end.eq_ignore_ascii_case(name)
        })
    }
}

/// Id of an entry within a session. Comes from file content and never becomes a path.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(Arc<str>);

impl EntryId {
    /// Wraps any text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks an id before it is written: it must be printable and typeable. Readers accept any id.
    pub fn check(&self) -> Result<()> {
        match written_fault(&self.0) {
            None => Ok(()),
            Some(why) => Err(Error::BadId {
                what: "a message id",
                id: head(&self.0),
                why,
            }),
        }
    }

    /// The fixed-size form for trees.
    pub fn key(&self) -> EntryKey {
        EntryKey::from_text(&self.0)
    }
}

text_impls!(EntryId);

/// An id in sixteen bytes: a UUID's own bits, or a digest of any other text.
///
/// Trees of a million messages hold keys instead of strings. A collision of two ids requires
/// breaking SHA-256 truncated to 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EntryKey([u64; 2]);

impl Hash for EntryKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Half by half: an array would hash its length too.
        let [high, low] = self.0;
        state.write_u64(high);
        state.write_u64(low);
    }
}

impl EntryKey {
    /// Stores halves, because a `u128` would align every containing type to sixteen bytes.
    fn new(bits: u128) -> Self {
        Self([(bits >> 64) as u64, bits as u64])
    }

    /// The bits, the higher half first.
    pub fn halves(self) -> [u64; 2] {
        self.0
    }

    fn bits(self) -> u128 {
        let [high, low] = self.0;
        u128::from(high) << 64 | u128::from(low)
    }

    /// The key of an id's text.
    pub fn from_text(text: &str) -> Self {
        parse_uuid(text).map_or_else(|| Self::digest(text.as_bytes()), Self::new)
    }

    /// The key as sixteen bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.bits().to_le_bytes()
    }

    /// The key from its sixteen bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self::new(u128::from_le_bytes(bytes))
    }

    /// The key of two texts, for ids that have two parts.
    pub fn from_pair(a: &str, b: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update((a.len() as u64).to_le_bytes());
        hash.update(a);
        hash.update(b);
        Self::fold(&hash.finalize())
    }

    /// The canonical UUID of a key made from a UUID; for a digest, a UUID that refers to nothing.
    pub fn to_uuid(self) -> String {
        uuid::Uuid::from_u128(self.bits()).to_string()
    }

    /// A well-formed version 8 UUID derived from the key.
    pub fn derived_uuid(self) -> String {
        uuid::Builder::from_custom_bytes(self.bits().to_be_bytes())
            .into_uuid()
            .to_string()
    }

    /// Whether [`EntryKey::to_uuid`] returns `text` again.
    pub fn is_canonical_uuid(text: &str) -> bool {
        parse_uuid(text).is_some()
    }

    fn digest(bytes: &[u8]) -> Self {
        Self::fold(&Sha256::digest(bytes))
    }

    fn fold(digest: &[u8]) -> Self {
        let mut half = [0; 16];
        half.iter_mut()
            .zip(digest)
            .for_each(|(to, from)| *to = *from);
        Self::new(u128::from_le_bytes(half))
    }
}

/// Id of a model's response: its message and the request that it answers.
///
/// Some clients omit the request. Such an entry is part of any response with that message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ResponseKey {
    /// The message.
    pub message: EntryKey,
    /// Hash of the request's id; 0 if there is none.
    pub request: u64,
}

impl ResponseKey {
    /// Whether both may be the same response: either may lack the request.
    pub fn matches(&self, other: &ResponseKey) -> bool {
        let open = self.request == 0 || other.request == 0;
        self.message == other.message && (open || self.request == other.request)
    }

    /// Creates a key from ids; the request's id may be empty.
    pub fn new(message: &str, request: &str) -> Self {
        // FNV-1a is cheap; the message's key provides the collision resistance.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let request = match request {
            "" => 0,
            text => text.bytes().fold(0xcbf2_9ce4_8422_2325, mix).max(1),
        };
        ResponseKey {
            message: EntryKey::from_text(message),
            request,
        }
    }
}

/// Assigns one key to each response of a log, although some of its entries omit the request.
#[derive(Clone, Debug, Default)]
pub struct ResponseResolver(HashMap<EntryKey, Vec<(u64, ResponseKey)>>);

impl ResponseResolver {
    /// Returns the key of the response that the next entry is part of.
    pub fn resolve(&mut self, key: ResponseKey) -> ResponseKey {
        let known = self.0.entry(key.message).or_default();
        let mut names = known.iter();
        if let Some((_, name)) = names.find(|(request, _)| *request == key.request) {
            return *name;
        }
        // An entry without a request joins the first response; a request after only such entries
        // joins them.
        let first = known.first().map(|(_, name)| *name);
        let joins = key.request == 0 || known.iter().all(|(request, _)| *request == 0);
        let name = first.filter(|_| joins).unwrap_or(key);
        known.push((key.request, name));
        name
    }
}

/// Accepts only the canonical spelling, so that a key corresponds to one text.
///
/// Every log line has several, so all digits are converted first and validated once.
fn parse_uuid(text: &str) -> Option<u128> {
    const ODD: u8 = 0xf0;
    let bytes: &[u8; 36] = text.as_bytes().try_into().ok()?;
    let mut odd = 0;
    let mut number = |from: usize, to: usize| {
        let digits = bytes.get(from..to).unwrap_or_default().iter();
        digits.fold(0u64, |value, &byte| {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => ODD,
            };
            odd |= digit;
            value << 4 | u64::from(digit)
        })
    };
    let high = number(0, 8) << 32 | number(9, 13) << 16 | number(14, 18);
    let low = number(19, 23) << 48 | number(24, 36);
    let dashes = [8, 13, 18, 23]
        .iter()
        .all(|&at| bytes.get(at) == Some(&b'-'));
    (dashes && odd & ODD == 0).then_some(u128::from(high) << 64 | u128::from(low))
}

/// Returns the reason why an id cannot become part of a path.
fn path_fault(text: &str) -> Option<&'static str> {
    // Nearly all ids are UUIDs.
    if is_plain(text) {
        return None;
    }
    if text.trim().is_empty() {
        return Some("it is empty");
    }
    if text.len() > MAX_PATH_ID {
        return Some("it is longer than 200 bytes");
    }
    if text.starts_with('.') {
        return Some("it begins with a dot, like a hidden file");
    }
    if text.starts_with('-') {
        return Some("it begins with a hyphen, like an option");
    }
    if text.contains(['/', '\\']) {
        return Some("it contains a path separator");
    }
    // Joiners and variation selectors are allowed where a script needs them.
    if visible(text, LineBreaks::Spaces) != text {
        return Some("it contains a control character or an invisible one");
    }
    None
}

/// Returns the reason why a message id cannot be written into a record.
fn written_fault(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        return Some("it is empty");
    }
    if text.len() > MAX_WRITTEN_ID {
        return Some("it is longer than 64 KiB");
    }
    if visible(text, LineBreaks::Spaces) != text {
        return Some("it contains a control character or an invisible one");
    }
    None
}

/// Whether an id has only ASCII letters, digits, `-`, `_` and `.`.
fn is_plain(text: &str) -> bool {
    const MAX: usize = 128;
    // No early exit, so that the compiler can vectorise the loop: each log has an id.
    let allowed = |b: u8| b.is_ascii_alphanumeric() | (b == b'-') | (b == b'_') | (b == b'.');
    let all = text.bytes().fold(true, |all, byte| all & allowed(byte));
    all && (1..=MAX).contains(&text.len()) && !text.starts_with(['.', '-'])
}

fn head(text: &str) -> String {
    let mut head: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().nth(40).is_some() {
        head.push('…');
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_ids_that_could_escape_their_folder_are_refused() {
        let long = "a".repeat(10_000);
        let bad = [
            "",
            "-rf",
            "--agent-a",
            " ",
            ".",
            "..",
            ".x",
            "../x",
            "a/b",
            "a\\b",
            "a\0b",
            "a\nb",
            "a\tb",
            "a\u{1b}[2J",
            "a\u{202e}b",
            "a\u{200b}b",
            "a\u{85}b",
            &long,
        ];
        for text in bad {
            assert!(SessionId::new(text).is_err(), "{text:?}");
            assert!(AgentId::new(text).is_err(), "{text:?}");
        }
        let longest = "é".repeat(100);
        assert!(SessionId::new(&format!("{longest}x")).is_err());
        for text in [
            "8c549c46-16ca-47dd-b731-f4c264becc53",
            "agent_1",
            "a.b",
            "a.",
            "my session 1",
            "café ☕",
            "👩‍💻 pairing",
            "%2f",
            "user@host",
            "a:b*c?",
            &longest,
        ] {
            assert!(SessionId::new(text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn entry_id_check_accepts_printable_ids_only() {
        let (long, longer) = ("a".repeat(64 << 10), "a".repeat((64 << 10) + 1));
        let odd = [
            "",
            " ",
            "a\nb",
            "a\tb",
            "a\0b",
            "a\u{1b}[2J",
            "a\u{202e}b",
            "a\u{200b}b",
            &longer,
        ];
        for text in odd {
            assert!(EntryId::new(text).check().is_err(), "{text:?}");
        }
        let fine = [
            "msg_1.2-3",
            "a b",
            "-rf",
            "..",
            "a.",
            "é",
            "../a/b",
            "a@b",
            "\"it's\"",
            ":5",
            "👩‍💻",
            &long,
        ];
        for text in fine {
            assert!(EntryId::new(text).check().is_ok(), "{text:?}");
        }
    }

    #[test]
    fn session_id_matches_name_after_its_start_time() {
        let id = SessionId::new("2026-03-26T01-32-20-418Z-thread_x").unwrap();
        assert_eq!(id.name(), "thread_x");
        for plain in [
            "by-hand",
            "2026-03-26T01-32-20-418Z-",
            "8c549c46-16ca-47dd-b731-f4c264becc53",
        ] {
            assert_eq!(SessionId::new(plain).unwrap().name(), plain);
        }
        for (name, known) in [
            ("thread_x", true),
            ("Thread_X", true),
            ("418Z-thread_x", true),
            ("hread_x", false),
            ("x", false),
            ("", false),
            (id.as_str(), false),
        ] {
            assert_eq!(id.matches_name(name), known, "{name}");
        }
    }

    #[test]
    fn key_distinguishes_spellings() {
        let lower = "8c549c46-16ca-47dd-b731-f4c264becc53";
        assert_eq!(EntryKey::from_text(lower), EntryKey::from_text(lower));
        assert_ne!(
            EntryKey::from_text(lower),
            EntryKey::from_text(&lower.to_uppercase())
        );
        assert_ne!(
            EntryKey::from_text(lower),
            EntryKey::from_text(&lower.replace('-', ""))
        );
        assert_ne!(
            EntryKey::from_pair("ab", "c"),
            EntryKey::from_pair("a", "bc")
        );
    }
}
