//! Whether a log has the id of an entry somewhere in its bytes, without decoding a record.
//!
//! A caller's id is new in nearly every case. Searching bytes for it costs a fraction of decoding all
//! records, and only a log in which it is found is read for what it means there.

use memchr::memmem;

use crate::error::{Error, Result};
use crate::jsonl::{ReadAt, open_to_read};
use crate::store::{Root, RootFile};

/// How much is read at once.
const CHUNK: usize = 1 << 20;

/// How an escape begins that may stand for an ASCII character.
const ESCAPE: &[u8] = b"\\u00";

impl RootFile {
    /// Whether an entry of the log may have this id. `false` is certain; `true` means that the log must
    /// be read.
    pub fn may_have_entry(&self, root: &Root, id: &str) -> Result<bool> {
        if !is_searchable(id) {
            return Ok(true);
        }
        let search = IdSearch::new(id);
        for volume in self.volumes() {
            if search.is_in(&volume.open()?, &volume.path)? {
                return Ok(true);
            }
            if let Some(companion) = volume.companion.as_deref().filter(|it| it.is_archived()) {
                if search.is_in(&companion.open()?, &companion.path)? {
                    return Ok(true);
                }
                continue;
            }
            // It may have been made since the log was found.
            let Some(companion) = root.layout.companion(&volume.artifact) else {
                continue;
            };
            let name = root.layout.path_for(&companion);
            let Some(path) = name
                .file_name()
                .map(|name| volume.path.with_file_name(name))
            else {
                continue;
            };
            match open_to_read(&path) {
                Ok(companion) if search.is_in(&companion, &path)? => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("read", path, error)),
            }
        }
        Ok(false)
    }
}

/// Whether an id is spelled out in the record that has it. One that ends in a number may be made from
/// the record's place; of other characters JSON has several spellings.
fn is_searchable(id: &str) -> bool {
    let from_place = id.rsplit_once('-').is_some_and(|(_, last)| {
        let mut digits = last.bytes();
        digits.all(|byte| byte.is_ascii_digit())
    });
    !id.is_empty() && !from_place && id.bytes().all(is_plain)
}

/// A character that ids are made of, and that JSON spells as it is unless it is escaped by its number.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':')
}

struct IdSearch<'a> {
    id: memmem::Finder<'a>,
    escape: memmem::Finder<'static>,
    /// How much of a chunk is searched again with the next one.
    overlap: usize,
}

impl<'a> IdSearch<'a> {
    fn new(id: &'a str) -> Self {
        IdSearch {
            id: memmem::Finder::new(id.as_bytes()),
            escape: memmem::Finder::new(ESCAPE),
            overlap: id.len().max(ESCAPE.len() + 2),
        }
    }

    fn is_in(&self, bytes: &dyn ReadAt, path: &std::path::Path) -> Result<bool> {
        let mut chunk = vec![0; CHUNK + self.overlap];
        let mut kept = 0;
        let mut offset = 0;
        loop {
            let room = chunk.get_mut(kept..).unwrap_or_default();
            let filled = bytes.fill_at(room, offset);
            let filled = filled.map_err(|error| Error::io("read", path, error))?;
            if filled == 0 {
                return Ok(false);
            }
            offset += filled as u64;
            let end = kept + filled;
            if self.finds(chunk.get(..end).unwrap_or_default()) {
                return Ok(true);
            }
            kept = end.min(self.overlap);
            chunk.copy_within(end - kept..end, 0);
        }
    }

    /// Whether the id, or an escape that could hide a part of it, is in some bytes.
    fn finds(&self, bytes: &[u8]) -> bool {
        let hides = |at: usize| {
            let digits = bytes.get(at + ESCAPE.len()..at + ESCAPE.len() + 2);
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            byte.is_some_and(is_plain)
        };
        self.id.find(bytes).is_some() || self.escape.find_iter(bytes).any(hides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(id: &str, text: &str) -> bool {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let handle = std::fs::File::open(file.path()).unwrap();
        IdSearch::new(id).is_in(&handle, file.path()).unwrap()
    }

    #[test]
    fn id_search_finds_id_at_any_offset() {
        let long = "x".repeat(CHUNK);
        for at in [0, 1, CHUNK - 40, CHUNK - 3, CHUNK, CHUNK + 1, CHUNK + 40] {
            let filler = "x".repeat(at);
            assert!(finds("my-id", &format!("{filler}my-id{long}")), "{at}");
            let hidden = format!("{filler}m\\u0079-id{long}");
            assert!(finds("my-id", &hidden), "an escape may hide it: {at}");
        }
        assert!(!finds("my-id", &long));
        assert!(!finds("my-id", ""));
        // An escape of a control or of a sign hides no part of an id.
        assert!(!finds("my-id", r"\u001b[31m \u003c \u00e9"));
    }

    #[test]
    fn ids_without_one_spelling_are_not_searchable() {
        for id in ["20261115-1234", "offset-500", "", "a b", "é", "a/b", "a\"b"] {
            assert!(!is_searchable(id), "{id}");
        }
        for id in [
            "my-id",
            "msg_1",
            "00000000-0000-4000-8000-0000000000ab",
            "a:b.c",
        ] {
            assert!(is_searchable(id), "{id}");
        }
    }
}
