//! The foreign line that a record was converted from.
//!
//! A converted record has a member `origin` as its last one. What no record of the target says
//! stands in a file of its own beside the log: the lines that mean nothing to the target's layout,
//! damaged lines, and whole documents. Together they are the source, byte for byte.
//!
//! ```text
//! "origin":{"f":0,"n":17,"line":{…}}      line 17 of file 0, as it stood
//! "origin":{"f":0,"n":17}                 more of what that line says; the line itself is elsewhere
//! "origin":{}                             made by the conversion, from no line
//!
//! {"annals":"origin","version":1,"layout":…,"session":…,"files":[{"path":…,"mode":…,"mtime":…}],"dirs":[…]}
//! {"f":0,"n":18,"line":{…}}               a line that is JSON
//! {"f":0,"n":19,"text":"…"}               any other line that is text
//! {"f":3,"n":0,"bytes":"<base64>"}        anything else
//! {"given":{"title":…}}                   what the target's register was told, where it has one
//! ```
//!
//! `end` says what stood after the line if it was not `\n`. A line too long for one record comes in
//! pieces with the same number.

use std::io::Write as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::json::{Raw, Text, object, scanner};

/// A line longer than this stands beside the log and not in it, so that the record stays readable.
pub(super) const MAX_INLINE: usize = 16 << 20;

/// No piece of a line or document is longer.
pub(super) const MAX_PIECE: usize = 24 << 20;

/// What a file of origins begins with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) annals: String,
    pub(super) version: u32,
    /// The layout of the source.
    pub(super) layout: String,
    /// The session, if it is that of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    /// Only some of the lines were converted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) partial: bool,
    /// A digest of the todos that it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) todos: Option<String>,
    pub(super) files: Vec<SourceFile>,
    /// Directories in which nothing lay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) dirs: Vec<String>,
}

/// What a file of origins ends with, where a register lists the session: what it was told, so that
/// what others tell it later can be told from that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListedTitle {
    pub(super) given: TitleMember,
}

/// The title that a register has after a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TitleMember {
    pub(super) title: Option<String>,
}

/// A file of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SourceFile {
    /// Its path within the source's root.
    pub(super) path: String,
    pub(super) len: u64,
    pub(super) mode: u32,
    /// In nanoseconds since 1970.
    pub(super) mtime: i64,
}

impl Header {
    pub(super) const VERSION: u32 = 1;

    pub(super) fn new(layout: &str, session: Option<&str>, files: Vec<SourceFile>) -> Self {
        Header {
            annals: "origin".to_owned(),
            version: Self::VERSION,
            layout: layout.to_owned(),
            session: session.map(str::to_owned),
            partial: false,
            todos: None,
            files,
            dirs: Vec::new(),
        }
    }

    /// Reads the first line of a file of origins.
    pub(super) fn parse(line: &[u8], path: &std::path::Path) -> Result<Self> {
        let broken = |why: String| Error::refused(format!("{}: {why}", path.display()));
        let header: Header = serde_json::from_slice(line)
            .map_err(|error| broken(format!("the first line is no header: {error}")))?;
        if header.annals != "origin" || header.version != Self::VERSION {
            return Err(broken(format!(
                "origins of version {} are not known to this annals",
                header.version
            )));
        }
        Ok(header)
    }
}

/// Where a line stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourcePosition {
    /// The file, by its number in the header.
    pub(super) file: usize,
    /// The line, from 0.
    pub(super) line: u64,
}

/// What stood after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    Lf,
    CrLf,
    None,
}

impl LineEnd {
    pub(super) fn bytes(self) -> &'static [u8] {
        match self {
            LineEnd::Lf => b"\n",
            LineEnd::CrLf => b"\r\n",
            LineEnd::None => b"",
        }
    }

    fn json_member(self) -> &'static str {
        match self {
            LineEnd::Lf => "",
            LineEnd::CrLf => r#","end":"\r\n""#,
            LineEnd::None => r#","end":"""#,
        }
    }
}

/// Adds the member `origin` to a written record.
pub(super) fn attach_origin(record: &mut Vec<u8>, origin: &[u8]) {
    if record.last() == Some(&b'}') {
        record.pop();
        if record.last() != Some(&b'{') {
            record.push(b',');
        }
        record.extend_from_slice(br#""origin":"#);
        record.extend_from_slice(origin);
        record.push(b'}');
    }
}

/// Of a record that no line stood for.
pub(super) const GENERATED: &[u8] = b"{}";

/// Of a record that says more of a line that stands elsewhere.
pub(super) fn encode_reference(spot: SourcePosition) -> Vec<u8> {
    format!(r#"{{"f":{},"n":{}}}"#, spot.file, spot.line).into_bytes()
}

/// A line as it stood. `plain` says that it is known to be one JSON object.
pub(super) fn encode_line(
    spot: SourcePosition,
    bytes: &[u8],
    end: LineEnd,
    plain: bool,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 64);
    // Writing to memory cannot fail.
    let _ = write!(
        out,
        r#"{{"f":{},"n":{}{}"#,
        spot.file,
        spot.line,
        end.json_member()
    );
    // A document may be JSON on several lines, but a record is one.
    let object = bytes.first() == Some(&b'{')
        && bytes.last() == Some(&b'}')
        && memchr::memchr(b'\n', bytes).is_none();
    let is_json = || serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
    match std::str::from_utf8(bytes) {
        Ok(_) if object && (plain || is_json()) => {
            out.extend_from_slice(br#","line":"#);
            out.extend_from_slice(bytes);
        }
        Ok(text) => {
            out.extend_from_slice(br#","text":"#);
            let _ = serde_json::to_writer(&mut out, text);
        }
        Err(_) => {
            out.extend_from_slice(br#","bytes":""#);
            let encoded = BASE64.encode(bytes);
            out.extend_from_slice(encoded.as_bytes());
            out.push(b'"');
        }
    }
    out.push(b'}');
    out
}

object! {
    struct Carrier<'a> { "origin" => origin: Raw<'a>, }
}

object! {
    struct Origin<'a> {
        "f" => file: Raw<'a>,
        "n" => line: Raw<'a>,
        "line" => whole: Raw<'a>,
        "text" => text: Text<'a>,
        "bytes" => bytes: Text<'a>,
        "end" => end: Text<'a>,
    }
}

/// What a record says about its origin.
#[derive(Debug, PartialEq)]
pub(super) enum RecordOrigin {
    /// Nothing: it was written after the conversion.
    Added,
    /// It was made by the conversion, or says more of a line that stands elsewhere.
    Generated,
    /// The line as it stood.
    Line(SourcePosition, Vec<u8>),
}

/// The origin of a record of a log.
pub(super) fn decode_record(record: &[u8]) -> RecordOrigin {
    let Ok(text) = std::str::from_utf8(record) else {
        return RecordOrigin::Added;
    };
    let carrier: Carrier<'_> = match scanner::parse(text) {
        Some(carrier) => carrier,
        None => serde_json::from_str(text).unwrap_or_default(),
    };
    match carrier.origin.0 {
        Some(origin) if origin.starts_with('{') => decode_line(origin)
            .map_or(RecordOrigin::Generated, |(spot, bytes)| {
                RecordOrigin::Line(spot, bytes)
            }),
        _ => RecordOrigin::Added,
    }
}

/// A line of a file of origins, with what stood after it.
pub(super) fn decode_line(text: &str) -> Option<(SourcePosition, Vec<u8>)> {
    let origin: Origin<'_> = match scanner::parse(text) {
        Some(origin) => origin,
        None => serde_json::from_str(text).ok()?,
    };
    let number = |raw: Raw<'_>| raw.count().ok().flatten();
    let spot = SourcePosition {
        file: usize::try_from(number(origin.file)?).ok()?,
        line: number(origin.line)?,
    };
    let mut bytes = if let Some(whole) = origin.whole.0 {
        whole.as_bytes().to_vec()
    } else if let Some(text) = origin.text.get() {
        text.as_bytes().to_vec()
    } else {
        BASE64.decode(origin.bytes.get()?).ok()?
    };
    bytes.extend_from_slice(match origin.end.get() {
        None => b"\n",
        Some(end) => end.as_bytes(),
    });
    Some((spot, bytes))
}

/// A path within a root as it is written down; `None` if it is not text.
pub(super) fn path_text(path: &std::path::Path) -> Option<String> {
    path.to_str().map(str::to_owned)
}

/// A written path, if it leads down from its root and nowhere else.
pub(super) fn safe_path(path: &str) -> Option<PathBuf> {
    use std::path::Component;
    let path = PathBuf::from(path);
    let down = |part: Component<'_>| matches!(part, Component::Normal(_));
    let staged = path.starts_with(super::staging::DIR_NAME);
    let sound = path.components().next().is_some() && path.components().all(down);
    (sound && !staged).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_line_round_trips_any_bytes_and_ending() {
        let lines: [&[u8]; 10] = [
            b"{\n\"pretty\": 1\n}",
            br#"{"a":1e5,"b":"\u00e9\/","b":2}"#,
            br#"{"lone":"\ud83d"}"#,
            b"",
            b" {\"a\":1}",
            b"{\"torn\":",
            b"\xef\xbb\xbf{}",
            b"\xff\xfe",
            b"\0\0\0",
            "[1] é \u{2028}".as_bytes(),
        ];
        for (number, bytes) in lines.iter().enumerate() {
            for end in [LineEnd::Lf, LineEnd::CrLf, LineEnd::None] {
                let spot = SourcePosition {
                    file: 2,
                    line: number as u64,
                };
                let written = encode_line(spot, bytes, end, false);
                let mut whole = bytes.to_vec();
                whole.extend_from_slice(end.bytes());
                let text = std::str::from_utf8(&written).unwrap();
                assert_eq!(decode_line(text), Some((spot, whole.clone())), "{text}");
                let mut record = br#"{"type":"user"}"#.to_vec();
                attach_origin(&mut record, &written);
                assert_eq!(decode_record(&record), RecordOrigin::Line(spot, whole));
            }
        }
    }

    #[test]
    fn decode_record_tells_added_from_generated() {
        assert_eq!(decode_record(br#"{"type":"user"}"#), RecordOrigin::Added);
        assert_eq!(decode_record(br#"{"origin":{}}"#), RecordOrigin::Generated);
        assert_eq!(
            decode_record(br#"{"origin":{"f":0,"n":3}}"#),
            RecordOrigin::Generated
        );
        assert_eq!(decode_record(b"garbage"), RecordOrigin::Added);
    }

    #[test]
    fn safe_path_rejects_paths_outside_the_root() {
        for bad in ["", "/etc/passwd", "../x", "a/../../b", "."] {
            assert_eq!(safe_path(bad), None, "{bad}");
        }
        assert!(safe_path("projects/a/b.jsonl").is_some());
    }
}
