//! Turns an export that is one JSON document into lines.

use crate::json::{Pairs, Raw, quote};
use crate::model::{DocumentFormat, LinesOrDocument};

/// Lines, or a document with the same content.
pub(super) static FORMAT: LinesOrDocument = LinesOrDocument {
    name: "export-file",
    is_log,
    document: DocumentFormat {
        name: "export-document",
        keeps_lines: false,
        base_session: None,
        to_lines,
    },
};

/// Returns whether a file with this beginning has one object per line: the first one has a `type`.
pub(super) fn is_log(beginning: &[u8]) -> bool {
    has_member(beginning, "type", "sessions")
}

/// Returns whether a file with this beginning is a document.
pub(super) fn is_document(beginning: &[u8]) -> bool {
    has_member(beginning, "sessions", "type")
}

/// Returns whether the first object has a version in the member `annals`, where logs of other layouts
/// have an object, or none.
pub(super) fn names_version(beginning: &[u8]) -> bool {
    let beginning = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning);
    let text = String::from_utf8_lossy(beginning);
    let text = text.trim_start();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Pairs<'_>>();
    let is_version = |text: &str| text.trim_start().starts_with(|c: char| c.is_ascii_digit());
    match values.next() {
        Some(Ok(Pairs(members))) => members
            .iter()
            .any(|(name, value)| name == "annals" && value.0.is_some_and(is_version)),
        _ if !text.starts_with('{') => false,
        // The beginning of a document, which begins with its version.
        _ => {
            let version = text.find("\"annals\":");
            let sessions = text.find("\"sessions\"").unwrap_or(usize::MAX);
            version.is_some_and(|at| at < sessions && text.get(at + 9..).is_some_and(is_version))
        }
    }
}

/// Returns whether the first object has a member, or of a part of it whether the member comes before
/// the other one.
fn has_member(beginning: &[u8], wanted: &str, other: &str) -> bool {
    let beginning = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning);
    let text = String::from_utf8_lossy(beginning);
    let text = text.trim_start();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Pairs<'_>>();
    match values.next() {
        Some(Ok(Pairs(members))) => members.iter().any(|(name, _)| name == wanted),
        _ if !text.starts_with('{') => false,
        _ => {
            let at = |name: &str| text.find(&format!("\"{name}\"")).unwrap_or(usize::MAX);
            at(wanted) < at(other)
        }
    }
}

/// Returns the lines of a document. One that cannot be parsed is a single line, which the decoder
/// reports.
fn to_lines(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = Lines(String::with_capacity(text.len()));
    match serde_json::from_str::<Pairs<'_>>(text) {
        Ok(document) => lines.add_document(&document),
        Err(_) => lines.add(text),
    }
    lines.0.into_bytes()
}

struct Lines(String);

impl Lines {
    /// Adds JSON as one line. Between its tokens, a line break means the same as a space.
    fn add(&mut self, json: &str) {
        self.0.push_str(&json.replace(['\n', '\r'], " "));
        self.0.push('\n');
    }

    fn add_document(&mut self, document: &Pairs<'_>) {
        let version = get(document, "annals").0;
        for session in get(document, "sessions").list() {
            self.add_session(session, version);
        }
        for problem in get(document, "problems").list() {
            self.add_object(problem, "problem", &[], &[]);
        }
        let end = format!(
            "{{\"type\":\"end\",\"annals\":{}}}",
            version.unwrap_or("null")
        );
        self.add(&end);
    }

    fn add_session(&mut self, json: Raw<'_>, version: Option<&str>) {
        let session: Pairs<'_> = json.parse();
        let version = version.map(|version| ("annals", version));
        self.add_object(json, "session", version.as_slice(), &["logs"]);
        let id = get(&session, "id").0.unwrap_or_default();
        for (at, json) in get(&session, "logs").list().into_iter().enumerate() {
            let log: Pairs<'_> = json.parse();
            let is_main = at == 0 && !get(&log, "agent").is_some();
            if !is_main {
                self.add_object(json, "agent", &[("session", id)], &["entries"]);
            }
            for entry in get(&log, "entries").list() {
                self.add_object(entry, "entry", &[], &[]);
            }
        }
    }

    /// Adds an object as a line with a type and further members, without those named.
    fn add_object(&mut self, json: Raw<'_>, kind: &str, more: &[(&str, &str)], without: &[&str]) {
        let json = json.0.unwrap_or_default();
        let Ok(Pairs(members)) = serde_json::from_str::<Pairs<'_>>(json) else {
            return self.add(json);
        };
        let mut line = format!("{{\"type\":{}", quote(kind));
        let mut push = |name: &str, json: &str| {
            line.push(',');
            line.push_str(&quote(name));
            line.push(':');
            line.push_str(json);
        };
        for (name, json) in more {
            push(name, json);
        }
        let is_given = |name: &str| name == "type" || more.iter().any(|(given, _)| *given == name);
        for (name, json) in &members {
            if !is_given(name) && !without.contains(&&**name) {
                push(name, json.0.unwrap_or("null"));
            }
        }
        line.push('}');
        self.add(&line);
    }
}

/// Returns a member of an object; the last one of that name wins.
fn get<'a>(object: &Pairs<'a>, name: &str) -> Raw<'a> {
    let mut members = object.0.iter().rev();
    let found = members.find(|(key, _)| key == name);
    found.map_or(Raw::default(), |(_, json)| *json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_becomes_the_lines_that_an_export_writes() {
        let document = r#"{"annals":1,"sessions":[
            {"id":"a","x":1.50,"logs":[{"entries":[{"kind":"tag",
              "text":"t"}]},{"agent":"b","entries":[{}]}]},
            {"id":"c"}],"problems":[{"error":"e"}]}"#;
        let lines = String::from_utf8(to_lines(document.as_bytes())).unwrap();
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(
            lines,
            [
                r#"{"type":"session","annals":1,"id":"a","x":1.50}"#,
                r#"{"type":"entry","kind":"tag","text":"t"}"#,
                r#"{"type":"agent","session":"a","agent":"b"}"#,
                r#"{"type":"entry"}"#,
                r#"{"type":"session","annals":1,"id":"c"}"#,
                r#"{"type":"problem","error":"e"}"#,
                r#"{"type":"end","annals":1}"#,
            ]
        );
    }

    #[test]
    fn kind_of_an_export_is_known_from_its_beginning() {
        for (text, log, document) in [
            (r#"{"type":"session","id":"a"}"#, true, false),
            (
                "\u{feff}\n {\"id\":\"a\",\"type\":\"session\"}\n{}",
                true,
                false,
            ),
            (r#"{"annals":1,"sessions":[]}"#, false, true),
            (
                "{\n \"annals\": 1,\n \"sessions\": [\n  {\"type\":",
                false,
                true,
            ),
            (
                r#"{"type":"session","todos":[{"agent":"a","sessions""#,
                true,
                false,
            ),
            (r#"{"role":"user"}"#, false, false),
            ("[1]", false, false),
            ("", false, false),
        ] {
            let found = (is_log(text.as_bytes()), is_document(text.as_bytes()));
            assert_eq!(found, (log, document), "{text}");
        }
    }

    #[test]
    fn version_distinguishes_exports_from_logs() {
        for (beginning, expected) in [
            (r#"{"type":"session","annals":1,"id":"a"}"#, true),
            ("{\n \"annals\": 1,\n \"sessions\": [{\"id\"", true),
            (r#"{"type":"user","uuid":"a"}"#, false),
            (
                r#"{"type":"session","version":3,"annals":{"parent":"a"}}"#,
                false,
            ),
            (r#"{"sessions":[{"text":"\"annals\": 1"#, false),
            (
                r#"{"type":"user","message":{"content":"\"annals\": 1"#,
                false,
            ),
            ("# aider chat started", false),
            ("", false),
        ] {
            let found = names_version(beginning.as_bytes());
            assert_eq!(found, expected, "{beginning}");
        }
    }
}
