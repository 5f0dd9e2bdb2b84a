//! What a segment says about itself.

use serde::{Deserialize, Serialize};

use crate::content::{Content, MAX_CONTENT, MaskedLine};
use crate::error::{Error, Result};
use crate::id::{Digest, FileKey, SourceId};

/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 4096;

/// Maximum length of a name in a path, in bytes.
const MAX_NAME: usize = 255;

/// The place of a segment, and what its content must be.
///
/// Offsets are those of the file on its machine. Masking changes the length of lines, so the content
/// may be longer or shorter than the range; [`masked`](Self::masked) has the original lengths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The machine.
    pub source: SourceId,
    /// Name of the layout of the root.
    pub layout: String,
    /// Absolute path of the root on its machine.
    pub root: String,
    /// Path of the file within the root.
    pub path: String,
    /// Number of the generation: one more each time the file was replaced or cut.
    #[serde(rename = "gen")]
    pub generation: u32,
    /// Log or document.
    pub kind: Kind,
    /// Offset of the first byte in the file.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
    /// Length of the content, in bytes.
    pub len: u32,
    /// Digest of the content.
    pub digest: Digest,
    /// Modification time of the file, in nanoseconds since 1970.
    pub mtime: i64,
    /// Lines whose length masking changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<MaskedLine>,
}

/// How the content of a file arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Whole lines. The file grows.
    Lines,
    /// Any part of a document, each version of which is a generation. The offsets are those of the
    /// masked document.
    Document {
        /// Length of the whole document.
        len: u64,
        /// Digest of the whole document.
        digest: Digest,
    },
}

impl Header {
    /// The key of the file.
    pub fn file(&self) -> FileKey {
        FileKey::new(&self.layout, &self.root, &self.path)
    }

    /// Checks everything that can be checked without the content.
    pub fn check(&self) -> Result<()> {
        let layout_char =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if self.layout.is_empty() || self.layout.len() > 64 || !self.layout.bytes().all(layout_char)
        {
            return Err(Error::invalid("the layout is no name"));
        }
        let root = self.root.strip_prefix('/');
        let root = root.ok_or_else(|| Error::Path("the root is not absolute".into()))?;
        if !root.is_empty() {
            check_path(root)?;
        }
        check_path(&self.path)?;
        let len = u64::from(self.len);
        if len > MAX_CONTENT {
            return Err(Error::TooLong {
                what: "content",
                len,
                limit: MAX_CONTENT,
            });
        }
        let covered = self.end.checked_sub(self.start);
        let Some(covered) = covered.filter(|covered| *covered > 0 && len > 0) else {
            return Err(Error::invalid("the range is empty"));
        };
        if covered > MAX_CONTENT || self.end > i64::MAX.cast_unsigned() {
            return Err(Error::invalid("the range is too long"));
        }
        match self.kind {
            Kind::Lines => {}
            Kind::Document { len: whole, .. } => {
                if covered != len || !self.masked.is_empty() {
                    return Err(Error::invalid(
                        "offsets of a document are those of its content",
                    ));
                }
                if self.end > whole {
                    return Err(Error::invalid("the range ends after the document"));
                }
            }
        }
        if self.masked.is_empty() && covered != len {
            return Err(Error::invalid("range and content have different lengths"));
        }
        Ok(())
    }

    /// Checks that a content is the one described.
    pub(crate) fn check_content(&self, content: &[u8]) -> Result<()> {
        if content.len() as u64 != u64::from(self.len) {
            return Err(Error::invalid("the content has another length"));
        }
        if Digest::new(content) != self.digest {
            return Err(Error::Checksum("the content"));
        }
        if self.kind == Kind::Lines {
            let covered = Content::from_lines(content)?.original_len(&self.masked)?;
            if Some(covered) != self.end.checked_sub(self.start) {
                return Err(Error::invalid(
                    "the lengths of its lines do not add up to its range",
                ));
            }
        }
        Ok(())
    }
}

/// Checks that a path is relative, stays below its root and has no characters that hide something.
pub fn check_path(path: &str) -> Result<()> {
    let refuse = |why: &str| Err(Error::Path(why.to_owned()));
    if path.is_empty() || path.len() > MAX_PATH {
        return refuse("it is empty or longer than 4096 bytes");
    }
    if path.chars().any(|c| c.is_control() || c == '\u{fffd}') {
        return refuse("it contains control characters");
    }
    for name in path.split('/') {
        match name {
            "" | "." | ".." => return refuse("a component is empty, `.` or `..`"),
            name if name.len() > MAX_NAME => return refuse("a component is longer than 255 bytes"),
            _ => {}
        }
    }
    Ok(())
}
