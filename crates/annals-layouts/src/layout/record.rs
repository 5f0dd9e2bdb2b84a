//! Records of line-based layouts: parsing to text and objects, and diagnosis of damage.
//!
//! A line that is not one record is searched for complete records (`salvage`)); the layout decides
//! what a record is. Those found become entries with their own spans, and the flaw stays. Writers
//! never use a salvaged entry as a parent, because the agent program cannot read it.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::json::{self, describe_json_error};
use crate::model::{FlawKind, Span};
use crate::text::pluralize;

use super::Decoded;
use super::salvage::{is_nested_value, whole_objects};

/// The exact bytes of one line, or of one document.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Position in the file.
    pub span: Span,
    /// Its bytes, without the line ending.
    pub bytes: &'a [u8],
    /// A line ending follows, or the record is a whole document.
    pub terminated: bool,
    /// `bytes` is only the beginning of a line above the reader's size limit.
    pub oversize: bool,
}

impl<'a> Record<'a> {
    /// Returns whether the record is empty or all white space.
    pub fn is_blank(&self) -> bool {
        self.bytes.iter().all(u8::is_ascii_whitespace)
    }

    /// Parses a document's object. Damage is reported to `sink`.
    ///
    /// `read` gets valid UTF-8. Blank records give nothing and are no flaw.
    pub fn object<T, S>(
        &self,
        sink: &mut Decoded<S>,
        read: impl FnMut(&str) -> serde_json::Result<T>,
    ) -> Option<T> {
        self.object_or_pieces(sink, |_| false, read).ok()
    }

    /// Parses a line's object. If the line is damaged, reports that to `sink` and returns the whole
    /// records within the line: two that were glued together, or one after a torn record or NULs.
    /// Each has its own span, so that it can be read alone.
    ///
    /// `is_record` distinguishes a record of the layout from any other object.
    pub(crate) fn object_or_pieces<T, S>(
        &self,
        sink: &mut Decoded<S>,
        is_record: impl Fn(&str) -> bool,
        mut read: impl FnMut(&str) -> serde_json::Result<T>,
    ) -> Result<T, Vec<Record<'a>>> {
        if self.is_blank() {
            return Err(Vec::new());
        }
        if self.oversize {
            let detail = format!("{} bytes; exceeds the reader's line limit", self.span.len);
            sink.add_flaw(FlawKind::Oversize, self.span, detail);
            return Err(Vec::new());
        }
        let text = match simdutf8::basic::from_utf8(self.bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(self.bytes),
        };
        let mut pieces = Vec::new();
        let fault = match read(&text) {
            Ok(object) if starts_object(&text) => {
                if let Cow::Owned(_) = text {
                    sink.add_flaw(FlawKind::BadUtf8, self.span, "some bytes are not UTF-8");
                }
                return Ok(object);
            }
            Ok(_) => (FlawKind::NotAnObject, "JSON, but not an object".to_owned()),
            // Valid JSON nonetheless: a lone surrogate in a key or string, or a number out of
            // range.
            Err(error) if serde_json::from_str::<IgnoredAny>(&text).is_ok() => {
                match read(&json::sanitize(&text)) {
                    Ok(_) if !starts_object(&text) => {
                        (FlawKind::NotAnObject, "JSON, but not an object".to_owned())
                    }
                    Ok(object) => {
                        if let Cow::Owned(_) = text {
                            sink.add_flaw(FlawKind::BadUtf8, self.span, "some bytes are not UTF-8");
                        }
                        return Ok(object);
                    }
                    Err(_) => (FlawKind::BadJson, describe_json_error(&error)),
                }
            }
            Err(error) if !self.terminated && error.is_eof() => (
                FlawKind::TornTail,
                format!(
                    "an incomplete record of {} at the end",
                    pluralize(self.bytes.len(), "byte")
                ),
            ),
            Err(error) => {
                pieces = self.pieces(is_record);
                self.diagnose(&pieces, &error)
            }
        };
        sink.add_flaw(fault.0, self.span, fault.1);
        Err(pieces)
    }

    fn pieces(&self, is_record: impl Fn(&str) -> bool) -> Vec<Record<'a>> {
        let bytes: &'a [u8] = self.bytes;
        // The span includes a byte order mark, the bytes do not.
        let beyond = self.span.len.saturating_sub(bytes.len() as u64);
        let mark = if self.span.offset == 0 && beyond >= 3 {
            3
        } else {
            0
        };
        let whole = whole_objects(bytes).into_iter();
        whole
            .filter(|within| !is_nested_value(bytes, within))
            .filter_map(|within| {
                let object = bytes.get(within.clone())?;
                is_record(&String::from_utf8_lossy(object)).then_some(Record {
                    span: Span {
                        offset: self.span.offset + mark + within.start as u64,
                        len: object.len() as u64,
                        line: self.span.line,
                    },
                    bytes: object,
                    terminated: true,
                    oversize: false,
                })
            })
            .collect()
    }

    fn diagnose(&self, pieces: &[Record<'_>], error: &serde_json::Error) -> (FlawKind, String) {
        let nuls = memchr::memchr_iter(0, self.bytes).count();
        if nuls > 0 {
            return (FlawKind::NulRun, pluralize(nuls, "NUL byte"));
        }
        let mut values = serde_json::Deserializer::from_slice(self.bytes).into_iter::<IgnoredAny>();
        if let Some(Ok(_)) = values.next() {
            let at = values.byte_offset();
            return (
                FlawKind::Glued,
                format!("the record ends at column {at}, but more data follows"),
            );
        }
        if pieces.is_empty() {
            return (FlawKind::BadJson, describe_json_error(error));
        }
        (
            FlawKind::Glued,
            "a torn record followed by a whole one on the same line".to_owned(),
        )
    }
}

fn starts_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}
