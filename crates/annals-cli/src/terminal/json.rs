//! JSON on standard output that is safe to print on a terminal.
//!
//! Characters that a terminal would interpret or hide are written as `\uXXXX`. That changes no
//! value, so people and programs get the same bytes, wherever the output goes.

use annals_render::text::is_hostile;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use std::io::{self, Write};

/// Writes `value` as one indented document and a line break.
pub(crate) fn write_pretty(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write_with(out, value, PrettyFormatter::new())
}

/// A JSON document written without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenDocument {
    /// An object without members.
    Empty,
    /// An object with members.
    Members,
}

impl OpenDocument {
    /// Adds a member.
    pub(crate) fn add(
        self,
        out: &mut dyn Write,
        name: &str,
        value: &impl Serialize,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        write_pretty(&mut text, value)?;
        let text = String::from_utf8_lossy(text.trim_ascii_end()).replace('\n', "\n  ");
        let comma = match self {
            OpenDocument::Empty => "",
            OpenDocument::Members => ",",
        };
        write!(out, "{comma}\n  \"{name}\": {text}")
    }

    /// Writes the end of the document.
    pub(crate) fn close(self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(match self {
            OpenDocument::Empty => b"}\n",
            OpenDocument::Members => b"\n}\n",
        })
    }
}

/// Writes `value` as one indented document. The closing brace of an object is omitted; other values
/// end with a line break.
pub(crate) fn write_open(
    out: &mut dyn Write,
    value: &impl Serialize,
) -> io::Result<Option<OpenDocument>> {
    let mut unclosed = None;
    let formatter = EscapingFormatter {
        inner: PrettyFormatter::new(),
        depth: 0,
        open: Some(&mut unclosed),
    };
    value.serialize(&mut Serializer::with_formatter(&mut *out, formatter))?;
    if unclosed.is_none() {
        out.write_all(b"\n")?;
    }
    Ok(unclosed)
}

/// Writes `value` on one line.
pub(crate) fn write_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write_with(out, value, CompactFormatter)
}

fn write_with(
    out: &mut dyn Write,
    value: &impl Serialize,
    formatter: impl Formatter,
) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(
        &mut *out,
        EscapingFormatter {
            inner: formatter,
            depth: 0,
            open: None,
        },
    ))?;
    out.write_all(b"\n")
}

/// Formats JSON text with one member per line; preserves its spelling and order.
pub(crate) fn indent(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut quoted = false;
    let mut escaped = false;
    let mut tokens = json.chars().peekable();
    let break_line = |text: &mut String, depth: usize| {
        text.push('\n');
        (0..depth).for_each(|_| text.push_str("  "));
    };
    while let Some(c) = tokens.next() {
        if quoted {
            text.push(c);
            quoted = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            ' ' | '\t' | '\r' | '\n' => {}
            '{' | '[' => {
                text.push(c);
                while tokens.next_if(char::is_ascii_whitespace).is_some() {}
                match tokens.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => text.push(end),
                    None => {
                        depth += 1;
                        break_line(&mut text, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                break_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            c => {
                quoted = c == '"';
                text.push(c);
            }
        }
    }
    text
}

/// Escapes hostile characters and delegates the layout to another formatter.
struct EscapingFormatter<'a, F> {
    inner: F,
    /// Number of open arrays and objects.
    depth: usize,
    /// Receives the state of the document if it is an object, whose end is then omitted.
    open: Option<&'a mut Option<OpenDocument>>,
}

impl<F: Formatter> Formatter for EscapingFormatter<'_, F> {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        write_escaped(out, fragment)
    }

    fn write_raw_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // In valid JSON a raw `\r` is space between tokens, and other hostile characters are inside
        // strings.
        for (n, part) in fragment.split('\r').enumerate() {
            if n > 0 {
                out.write_all(b" ")?;
            }
            write_escaped(out, part)?;
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.inner.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        self.inner.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.inner.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.inner.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if let (0, Some(unclosed)) = (self.depth, &mut self.open) {
            **unclosed = Some(OpenDocument::Empty);
        }
        self.depth += 1;
        self.inner.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        match (self.depth, &self.open) {
            (0, Some(_)) => Ok(()),
            _ => self.inner.end_object(out),
        }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if let (1, Some(unclosed)) = (self.depth, &mut self.open) {
            // The end of an array is never omitted.
            **unclosed = unclosed.map(|_| OpenDocument::Members);
        }
        self.inner.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.inner.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.inner.end_object_value(out)
    }
}

/// Writes JSON from another source with hostile characters escaped.
pub(crate) struct EscapingWriter<W: Write> {
    out: W,
    /// The first bytes of an incomplete character.
    partial_char: Vec<u8>,
}

impl<W: Write> EscapingWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        EscapingWriter {
            out,
            partial_char: Vec::new(),
        }
    }
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.partial_char.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.partial_char) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.partial_char.len(),
        };
        let rest = self.partial_char.split_off(whole);
        let text = std::mem::replace(&mut self.partial_char, rest);
        for (n, part) in String::from_utf8_lossy(&text).split('\r').enumerate() {
            if n > 0 {
                self.out.write_all(b" ")?;
            }
            write_escaped(&mut self.out, part)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn write_escaped<W: ?Sized + Write>(out: &mut W, fragment: &str) -> io::Result<()> {
    let mut rest = fragment;
    while let Some((at, c)) = rest
        .char_indices()
        .find(|(_, c)| is_hostile(*c) && !matches!(c, '\n' | '\t'))
    {
        out.write_all(&rest.as_bytes()[..at])?;
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(out, "\\u{unit:04x}")?;
        }
        rest = &rest[at + c.len_utf8()..];
    }
    out.write_all(rest.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    fn pretty(value: &impl Serialize) -> String {
        let mut out = Vec::new();
        write_pretty(&mut out, value).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn escaping_writer_handles_any_chunk_size() {
        let value = json!({ "k\u{202E}\u{9b}": ["\x1b[31m\x7f", "\u{E0041}👩‍💻", "a\nb\tc"] });
        let text = serde_json::to_string(&value).unwrap() + "\r\n";
        for size in 1..text.len() {
            let mut out = Vec::new();
            let mut tamed = EscapingWriter::new(&mut out);
            for part in text.as_bytes().chunks(size) {
                tamed.write_all(part).unwrap();
            }
            let out = String::from_utf8(out).unwrap();
            assert!(!out.contains(|c| is_hostile(c) && c != '\n'), "{out:?}");
            assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), value);
        }
    }

    #[test]
    fn hostile_characters_are_escaped_without_changing_values() {
        let value = json!({ "k\u{202E}\u{9b}": ["\x1b[31m\x7f", "\u{E0041}👩‍💻", "a\nb\tc", {}], "empty": [] });
        let text = pretty(&value);
        assert!(
            !text.chars().any(|c| is_hostile(c) && c != '\n'),
            "{text:?}"
        );
        assert!(text.contains(r"\udb40\udc41"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn raw_values_are_escaped_too() {
        let raw = RawValue::from_string("{\r\n\"a\":\"\u{9b}\u{7f}\"}".into()).unwrap();
        let text = pretty(&json!({ "x": 1 })) + &pretty(&raw);
        assert!(
            !text.chars().any(|c| is_hostile(c) && c != '\n'),
            "{text:?}"
        );
        assert_eq!(
            serde_json::from_str::<Value>(&pretty(&raw)).unwrap(),
            json!({ "a": "\u{9b}\u{7f}" })
        );
    }

    #[test]
    fn members_can_be_added_to_objects_of_any_size() {
        let documents = [
            json!({}),
            json!({ "a": {}, "b": [{ "c": 1 }] }),
            json!([{ "a": 1 }, {}]),
            json!("text"),
        ];
        for document in documents {
            let mut out = Vec::new();
            let unclosed = write_open(&mut out, &document).unwrap();
            assert_eq!(unclosed.is_some(), document.is_object(), "{document}");
            let mut plain = out.clone();
            if let Some(unclosed) = unclosed {
                unclosed.close(&mut plain).unwrap();
                let problems = json!([{ "error": "a\nb" }]);
                unclosed.add(&mut out, "problems", &problems).unwrap();
                OpenDocument::Members.close(&mut out).unwrap();
                let mut more = document.clone();
                more["problems"] = problems;
                assert_eq!(String::from_utf8(out).unwrap(), pretty(&more));
            }
            assert_eq!(String::from_utf8(plain).unwrap(), pretty(&document));
        }
    }

    #[test]
    fn indent_preserves_numbers_and_escapes() {
        let json = r#"{"b":1e5, "a":[ ],"c":{"x":"a,\\\"{:}\u00e9","y":[1,{}]}}"#;
        let text = indent(json);
        assert_eq!(
            text,
            "{\n  \"b\": 1e5,\n  \"a\": [],\n  \"c\": {\n    \"x\": \"a,\\\\\\\"{:}\\u00e9\",\n    \"y\": [\n      1,\n      {}\n    ]\n  }\n}"
        );
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&text), value(json));
    }

    #[test]
    fn plain_document_matches_serde_pretty_output() {
        let value = json!({ "a": [1, 2.5, null], "b": { "c": "é" } });
        assert_eq!(
            pretty(&value),
            serde_json::to_string_pretty(&value).unwrap() + "\n"
        );
    }
}
