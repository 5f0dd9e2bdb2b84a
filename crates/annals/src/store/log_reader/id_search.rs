//! Searches a log's bytes for the id of an entry, without decoding records.
//!
//! A caller's id is new in nearly every case. The search costs a fraction of decoding all records,
//! and only a log that contains the id is decoded.

use memchr::memmem;

use crate::error::{Error, Result};
use crate::store::{Root, RootFile};
use annals_jsonl::{ReadAt, open_to_read};
use annals_layouts::json;

/// Number of bytes read at once.
const CHUNK: usize = 1 << 20;

/// Prefix of an escape that may encode any character.
const ESCAPE: &[u8] = b"\\u";

/// Number of digits of such an escape.
const ESCAPE_DIGITS: usize = 4;

impl RootFile {
    /// Returns whether an entry of the log may have this id. `false` is certain; `true` means that
    /// the log must be read.
    pub fn may_have_entry(&self, root: &Root, id: &str) -> Result<bool> {
        if !is_literal(id) {
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
            // The companion may have been created after the log was found.
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

    /// Like [`may_have_entry`](Self::may_have_entry), for the id of a tool call. A call without an
    /// id is named after its record and its position in it.
    pub(crate) fn may_have_call(&self, root: &Root, call: &str) -> Result<bool> {
        if self.may_have_entry(root, call)? {
            return Ok(true);
        }
        match call.rsplit_once('-') {
            Some((record, position)) if is_number(position) => self.may_have_entry(root, record),
            _ => Ok(false),
        }
    }
}

/// Returns whether a record contains its id. An id may also be derived from the record's offset, or
/// contain the replacement of invalid bytes.
fn is_literal(id: &str) -> bool {
    let derived = id.rsplit_once('-').is_some_and(|(prefix, offset)| {
        // The prefixes of the layouts; a day in logs of the orchestrator.
        let is_day = prefix.len() == 8 && is_number(prefix);
        is_number(offset) && (is_day || matches!(prefix, "at" | "offset" | "0"))
    });
    !id.is_empty() && !derived && !id.contains(char::REPLACEMENT_CHARACTER)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

struct IdSearch {
    /// The id as a JSON string has it.
    id: memmem::Finder<'static>,
    escape: memmem::Finder<'static>,
    /// The escape of a slash, if the id has one.
    slash: Option<memmem::Finder<'static>>,
    /// The UTF-16 units of the id, sorted.
    units: Vec<u16>,
    /// Number of bytes of a chunk to search again with the next one.
    overlap: usize,
}

impl IdSearch {
    fn new(id: &str) -> Self {
        let quoted = json::quote(id);
        let inner = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        let text = inner.unwrap_or(&quoted).as_bytes();
        let mut units: Vec<u16> = id.encode_utf16().collect();
        units.sort_unstable();
        IdSearch {
            id: memmem::Finder::new(text).into_owned(),
            escape: memmem::Finder::new(ESCAPE),
            slash: id.contains('/').then(|| memmem::Finder::new(b"\\/")),
            units,
            overlap: text.len().max(ESCAPE.len() + ESCAPE_DIGITS),
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
            if self.may_contain_id(chunk.get(..end).unwrap_or_default()) {
                return Ok(true);
            }
            kept = end.min(self.overlap);
            chunk.copy_within(end - kept..end, 0);
        }
    }

    /// Returns whether the bytes contain the id, or an escape that could hide a part of it.
    fn may_contain_id(&self, bytes: &[u8]) -> bool {
        let hides = |at: usize| {
            let digits = at + ESCAPE.len();
            let digits = bytes.get(digits..digits + ESCAPE_DIGITS);
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
            let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
            unit.is_some_and(|unit| self.units.binary_search(&unit).is_ok())
        };
        let slash = self.slash.as_ref();
        self.id.find(bytes).is_some()
            || slash.is_some_and(|slash| slash.find(bytes).is_some())
            || self.escape.find_iter(bytes).any(hides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_contain_id(id: &str, text: &str) -> bool {
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
            assert!(
                may_contain_id("my-id", &format!("{filler}my-id{long}")),
                "{at}"
            );
            let hidden = format!("{filler}m\\u0079-id{long}");
            assert!(
                may_contain_id("my-id", &hidden),
                "an escape may hide it: {at}"
            );
        }
        assert!(!may_contain_id("my-id", &long));
        assert!(!may_contain_id("my-id", ""));
        // Escapes of other characters hide no part of an id.
        assert!(!may_contain_id("my-id", r"\u001b[31m \u003c \u00e9"));
    }

    #[test]
    fn id_search_finds_every_spelling_of_an_id() {
        for id in [
            "free text",
            "é",
            "a/b",
            "a\"b",
            "a\\b",
            "\"",
            "🦀-1",
            "x<y>",
        ] {
            let hex: String = id
                .encode_utf16()
                .map(|unit| format!("\\u{unit:04X}"))
                .collect();
            for text in [json::quote(id), json::quote(id).replace('/', r"\/"), hex] {
                assert!(
                    may_contain_id(id, &format!("{{\"id\":\"{text}\"}}")),
                    "{text}"
                );
            }
            assert!(
                !may_contain_id(id, r#"{"id":"other","text":"\u4e2d\u6587"}"#),
                "{id}"
            );
        }
    }

    #[test]
    fn derived_ids_are_not_literal() {
        for id in [
            "20261115-1234",
            "offset-500",
            "at-0",
            "0-7",
            "",
            "a\u{fffd}",
        ] {
            assert!(!is_literal(id), "{id}");
        }
        for id in [
            "my-id",
            "msg-42",
            "2026-11-15",
            "00000000-0000-4000-8000-000000000001",
            "a b",
            "a/b-2",
        ] {
            assert!(is_literal(id), "{id}");
        }
    }
}
