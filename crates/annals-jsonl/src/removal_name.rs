//! Names that annals gives to files while it removes them.
//!
//! `.annals-NAME.removed` is the file `NAME` while it is removed, or after the removing process was
//! killed. `NAME.annals-saved` is a file that could not be renamed back, because another file has its
//! name. Both may hold the only copy of a user's data, and no program looks for data there: layouts
//! never classify the first, and readers report both. This module knows names only, no files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub(crate) const REMOVED_PREFIX: &str = ".annals-";
pub(crate) const REMOVED_SUFFIX: &str = ".removed";

const SAVED_SUFFIX: &str = ".annals-saved";

/// A name that a removal gave to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalName<'a> {
    /// The file is being removed, or the removal was interrupted. Holds the original name, unless that
    /// was too long to be part of this one.
    Removed(Option<&'a str>),
    /// The file was not removed, and another file has its original name.
    Saved(&'a str),
}

impl<'a> RemovalName<'a> {
    /// Parses a file name; `None` if no removal gave it.
    pub fn parse(name: &'a OsStr) -> Option<Self> {
        let bytes = name.as_encoded_bytes();
        // Nearly all names end here.
        if !matches!(bytes.last(), Some(b'd' | b'0'..=b'9')) {
            return None;
        }
        let inner = bytes.strip_prefix(REMOVED_PREFIX.as_bytes());
        if let Some(inner) = inner.and_then(|it| it.strip_suffix(REMOVED_SUFFIX.as_bytes())) {
            let original = str::from_utf8(inner).ok();
            let original = original.filter(|name| !name.is_empty() && !is_digest(name));
            return Some(RemovalName::Removed(original));
        }
        let (original, number) = name.to_str()?.rsplit_once(SAVED_SUFFIX)?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        let ends = number.is_empty() || number.strip_prefix('-').is_some_and(is_number);
        (ends && !original.is_empty()).then_some(RemovalName::Saved(original))
    }

    /// Returns the original name of the file, if it is known.
    pub fn original(self) -> Option<&'a str> {
        match self {
            RemovalName::Removed(original) => original,
            RemovalName::Saved(original) => Some(original),
        }
    }

    /// Returns whether `annals repair --apply` can give the file its original name back.
    pub fn is_restorable(self) -> bool {
        matches!(self, RemovalName::Removed(Some(_)))
    }

    /// Explains why the file has this name, and what to do about it.
    pub fn explanation(self) -> String {
        match self {
            RemovalName::Removed(Some(name)) => format!(
                "annals was interrupted while removing {name}, or is removing it right now; `annals repair --apply` restores it"
            ),
            RemovalName::Removed(None) => "annals was interrupted while removing this file, and its name was too long to be saved; rename it to restore it".to_owned(),
            RemovalName::Saved(name) => format!(
                "annals could not rename it back to {name}, because another file has that name; compare the two, then rename it or move it out of the root"
            ),
        }
    }
}

/// Returns whether a path has the name of a file that is being removed.
pub fn is_removed(path: &Path) -> bool {
    let name = path.file_name().and_then(RemovalName::parse);
    matches!(name, Some(RemovalName::Removed(_)))
}

/// Returns the path that a file had before a removal renamed it, if its name shows it.
pub fn original_path(path: &Path) -> Option<PathBuf> {
    let name = RemovalName::parse(path.file_name()?)?;
    Some(path.with_file_name(name.original()?))
}

/// Returns the suffix of the `number`th file, from 1, that could not be renamed back.
pub(crate) fn saved_suffix(number: usize) -> String {
    match number {
        1 => SAVED_SUFFIX.to_owned(),
        number => format!("{SAVED_SUFFIX}-{number}"),
    }
}

/// Returns whether a name stands for one that was too long.
fn is_digest(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        use RemovalName::{Removed, Saved};
        for (name, parsed) in [
            (".annals-a.jsonl.removed", Some(Removed(Some("a.jsonl")))),
            (".annals-.removed", Some(Removed(None))),
            (".annals-0123456789abcdef.removed", Some(Removed(None))),
            (".annals-removed", None),
            (".annals-0123456789abcdef.tmp", None),
            ("annals-a.jsonl.removed", None),
            ("a.jsonl.removed", None),
            ("a.jsonl", None),
            ("a.jsonl.annals-saved", Some(Saved("a.jsonl"))),
            ("a.jsonl.annals-saved-12", Some(Saved("a.jsonl"))),
            ("a.annals-saved.annals-saved", Some(Saved("a.annals-saved"))),
            ("a.jsonl.annals-saved-", None),
            ("a.jsonl.annals-saved-x1", None),
            ("a.jsonl.annals-saved.bak", None),
            (".annals-saved", None),
            ("", None),
        ] {
            assert_eq!(RemovalName::parse(OsStr::new(name)), parsed, "{name}");
        }
        for number in [1, 2, 30] {
            let name = format!("log{}", saved_suffix(number));
            assert_eq!(
                RemovalName::parse(OsStr::new(&name)),
                Some(Saved("log")),
                "{name}"
            );
        }
    }

    #[test]
    fn explanation_names_the_file_and_the_command() {
        let text = |name: &str| RemovalName::parse(OsStr::new(name)).unwrap().explanation();
        let removed = text(".annals-a.jsonl.removed");
        assert!(removed.contains("a.jsonl") && removed.contains("annals repair --apply"));
        assert!(text("a.jsonl.annals-saved").contains("back to a.jsonl"));
        assert!(text(".annals-.removed").contains("rename it"));
    }
}
