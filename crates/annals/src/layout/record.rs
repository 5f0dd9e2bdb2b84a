//! Records as every layout of lines sees them: text, or a reason why not.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::json;
use crate::model::{FlawKind, Span};

use super::Sink;

/// The exact bytes of one line, or of one document.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Where it lies.
    pub span: Span,
    /// Its bytes, without the line ending.
    pub bytes: &'a [u8],
    /// A line ending follows, or it is a whole document.
    pub terminated: bool,
    /// `bytes` is only the beginning of a line above the reader's cap.
    pub oversize: bool,
}

impl<'a> Record<'a> {
    /// Nothing but white space.
    pub fn is_blank(&self) -> bool {
        self.bytes.iter().all(u8::is_ascii_whitespace)
    }

    /// Reads the record as an object; what keeps it from being one goes to `sink`.
    ///
    /// `read` gets text that is valid UTF-8. Blank records give nothing and are no flaw.
    pub(crate) fn object<T, S>(
        &self,
        sink: &mut Sink<S>,
        mut read: impl FnMut(&str) -> serde_json::Result<T>,
    ) -> Option<T> {
        if self.is_blank() {
            return None;
        }
        if self.oversize {
            let detail = format!("{} bytes; longer than the reader's cap", self.span.len);
            sink.flaw(FlawKind::Oversize, self.span, detail);
            return None;
        }
        let text = match simdutf8::basic::from_utf8(self.bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(self.bytes),
        };
        let fault = match read(&text) {
            Ok(object) if starts_object(&text) => {
                if let Cow::Owned(_) = text {
                    sink.flaw(FlawKind::BadUtf8, self.span, "some bytes are not UTF-8");
                }
                return Some(object);
            }
            Ok(_) => (FlawKind::NotAnObject, "JSON, but not an object".to_owned()),
            // A lone surrogate in a key or a text, a number beyond all bounds: JSON all the same.
            Err(error) if serde_json::from_str::<IgnoredAny>(&text).is_ok() => {
                match read(&json::mend(&text)) {
                    Ok(_) if !starts_object(&text) => {
                        (FlawKind::NotAnObject, "JSON, but not an object".to_owned())
                    }
                    Ok(object) => {
                        if let Cow::Owned(_) = text {
                            sink.flaw(FlawKind::BadUtf8, self.span, "some bytes are not UTF-8");
                        }
                        return Some(object);
                    }
                    Err(_) => (FlawKind::BadJson, format!("{error}")),
                }
            }
            Err(error) => self.diagnose(&text, &error),
        };
        sink.flaw(fault.0, self.span, fault.1);
        None
    }

    /// The whole records within a damaged one: two that were glued together, one behind a torn one
    /// or behind NULs. Each has a span of its own, so that it can be read alone.
    ///
    /// `is_record` tells a record from an object that is only a part of one.
    pub(crate) fn pieces(&self, is_record: impl Fn(&str) -> bool) -> Vec<Record<'a>> {
        /// More beginnings than this are noise, and trying each costs a pass over the line.
        const ATTEMPTS: usize = 64;
        let bytes: &'a [u8] = self.bytes;
        let Ok(text) = str::from_utf8(bytes) else {
            return Vec::new();
        };
        // A byte order mark is in the span but not in the bytes.
        let beyond = self.span.len.saturating_sub(text.len() as u64);
        let mark = if self.span.offset == 0 && beyond >= 3 {
            3
        } else {
            0
        };
        let mut pieces = Vec::new();
        let mut at = 0;
        for _ in 0..ATTEMPTS {
            let Some(rest) = text.get(at..) else { break };
            let Some(start) = rest.find('{').map(|start| at + start) else {
                break;
            };
            let candidate = text.get(start..).unwrap_or_default();
            let mut values =
                serde_json::Deserializer::from_str(candidate).into_iter::<IgnoredAny>();
            let whole = matches!(values.next(), Some(Ok(_)));
            let len = values.byte_offset();
            match candidate.get(..len) {
                Some(object) if whole && is_record(object) => {
                    pieces.push(Record {
                        span: Span {
                            offset: self.span.offset + mark + start as u64,
                            len: len as u64,
                            line: self.span.line,
                        },
                        bytes: object.as_bytes(),
                        terminated: true,
                        oversize: false,
                    });
                    at = start + len;
                }
                _ => at = start + 1,
            }
        }
        pieces
    }

    fn diagnose(&self, text: &str, error: &serde_json::Error) -> (FlawKind, String) {
        if !self.terminated && error.is_eof() {
            let detail = format!("the last {} bytes are not a whole record", self.bytes.len());
            return (FlawKind::TornTail, detail);
        }
        let nuls = self.bytes.iter().filter(|&&byte| byte == 0).count();
        if nuls > 0 {
            return (FlawKind::NulRun, format!("{nuls} NUL bytes"));
        }
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
        if let Some(Ok(_)) = values.next() {
            let at = values.byte_offset();
            return (
                FlawKind::Glued,
                format!("a record ends at column {at} and more follows"),
            );
        }
        // The tail of a torn record may carry the whole next one.
        if memchr::memmem::rfind_iter(self.bytes, b"{\"")
            .take(64)
            .any(|at| {
                at > 0
                    && text.get(at..).is_some_and(|rest| {
                        serde_json::from_str::<IgnoredAny>(rest).is_ok()
                            && rest.contains("\"type\"")
                            && rest.contains("\"uuid\"")
                    })
            })
        {
            return (
                FlawKind::Glued,
                "a torn record with a whole one glued to it".to_owned(),
            );
        }
        (FlawKind::BadJson, format!("{error}"))
    }
}

fn starts_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}
