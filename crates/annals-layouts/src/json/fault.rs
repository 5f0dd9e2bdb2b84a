//! Errors of JSON in plain words, without the terms of the parser.

use serde_json::error::Category;

use crate::text::truncate_chars;

/// Maximum number of characters of a description: an error may quote the input.
const MAX_LEN: usize = 300;

/// Maximum number of characters of a quoted value.
const MAX_VALUE_LEN: usize = 80;

/// Describes why a text could not be read as JSON, and where.
///
/// `not JSON: a comma is missing (column 12)`, `` `content` is missing (line 3, column 4)``.
pub fn describe_json_error(error: &serde_json::Error) -> String {
    let reason = json_error_reason(error);
    let column = error.column();
    match error.line() {
        0 => reason,
        1 => format!("{reason} (column {column})"),
        line => format!("{reason} (line {line}, column {column})"),
    }
}

/// Describes why a text could not be read as JSON, without the place.
pub fn json_error_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = text.strip_suffix(&place).unwrap_or(&text);
    let reason = match error.classify() {
        Category::Eof => "not JSON: it ends too early".to_owned(),
        Category::Syntax => match syntax_reason(message) {
            Some(reason) => format!("not JSON: {reason}"),
            None => "not JSON".to_owned(),
        },
        Category::Data => data_reason(message).unwrap_or_else(|| message.to_owned()),
        Category::Io => message.to_owned(),
    };
    truncate_chars(&reason, MAX_LEN).into_owned()
}

/// Rewrites a syntax error. Returns `None` if it says no more than that there is one.
fn syntax_reason(message: &str) -> Option<&'static str> {
    Some(match message {
        "expected `:`" => "a colon is missing",
        "expected `,` or `]`" | "expected `,` or `}`" => "a comma is missing",
        "expected `\"`" | "key must be a string" => "a key has no quotes",
        "trailing comma" => "a comma before a closing bracket",
        "trailing characters" => "more text after the end",
        "invalid number" => "an invalid number",
        "number out of range" => "a number out of range",
        "recursion limit exceeded" => "nested too deeply",
        _ if message.starts_with("control character") => "a control character in a string",
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            "half of a surrogate pair in a string"
        }
        _ if message.contains("escape") || message.contains("unicode code point") => {
            "an invalid escape in a string"
        }
        _ => return None,
    })
}

/// Rewrites the message of a value that is JSON, but not of the expected type.
fn data_reason(message: &str) -> Option<String> {
    if let Some(name) = message.strip_prefix("missing field ") {
        return Some(format!("{name} is missing"));
    }
    if let Some(name) = message.strip_prefix("duplicate field ") {
        return Some(format!("{name} occurs twice"));
    }
    let (problem, rest) = message.split_once(' ')?;
    let (subject, rest) = rest.split_once(' ')?;
    // The found value may contain anything, the expected type is one of few.
    let (found, expected) = rest.rsplit_once(", expected ")?;
    match (problem, subject) {
        ("invalid", "type:" | "value:") => Some(format!(
            "{} where {} is expected",
            found_value(found),
            expected_type(expected)
        )),
        ("invalid", "length") => Some(format!(
            "a list of length {found} where {} is expected",
            expected_type(expected)
        )),
        ("unknown", "variant" | "field") => {
            let found = truncate_chars(found, MAX_VALUE_LEN);
            let known = expected.strip_prefix("one of ").unwrap_or(expected);
            Some(format!("{found} is not one of {known}"))
        }
        _ => None,
    }
}

fn found_value(found: &str) -> String {
    let found = truncate_chars(found, MAX_VALUE_LEN);
    let named = |kind: &str| found.strip_prefix(kind);
    if let Some(number) = named("integer ").or_else(|| named("floating point ")) {
        return format!("the number {number}");
    }
    if let Some(string) = named("string ") {
        return format!("the string {string}");
    }
    if let Some(boolean) = named("boolean ") {
        return boolean.to_owned();
    }
    match &*found {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "null" | "unit value" => "`null`".to_owned(),
        other => other.to_owned(),
    }
}

fn expected_type(expected: &str) -> &str {
    match expected {
        "a map" => "an object",
        "a sequence" => "a list",
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" => {
            "a whole number"
        }
        "f32" | "f64" => "a number",
        "a borrowed string" | "variant identifier" => "a string",
        "any valid JSON value" => "a value",
        _ if expected.starts_with("struct ") || expected.contains(" tagged enum ") => "an object",
        _ if expected.starts_with("tuple ") || expected.starts_with("an array of ") => "a list",
        _ if expected.starts_with("enum ") => "a string",
        _ => expected,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only the errors are of interest")]
    struct Sample {
        name: String,
        count: u64,
        state: State,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum State {
        Open,
        Closed,
    }

    fn fault(json: &str) -> String {
        describe_json_error(&serde_json::from_str::<Vec<Sample>>(json).unwrap_err())
    }

    #[test]
    fn errors_use_no_terms_of_the_parser() {
        for (json, expected) in [
            ("", "not JSON: it ends too early (line 1, column 0)"),
            (
                "[1",
                "the number `1` where an object is expected (column 2)",
            ),
            ("3", "the number `3` where a list is expected (column 1)"),
            ("{}", "an object where a list is expected (column 0)"),
            ("null", "`null` where a list is expected (column 4)"),
            ("[{", "not JSON: it ends too early (column 2)"),
            ("[{a", "not JSON: a key has no quotes (column 3)"),
            ("[{\"name\" 1", "not JSON: a colon is missing (column 10)"),
            ("[{\"name\":}", "not JSON (column 10)"),
            (
                "[{\"name\":\"a\" \"",
                "not JSON: a comma is missing (column 14)",
            ),
            (
                "[{\"name\":\"\\x\"}]",
                "not JSON: an invalid escape in a string (column 12)",
            ),
            (
                "[{\"name\":\"\\ud83d\"}]",
                "not JSON: half of a surrogate pair in a string (column 17)",
            ),
            (
                "[{\"name\":\"\\ude00\"}]",
                "not JSON: half of a surrogate pair in a string (column 17)",
            ),
            (
                "[{\"name\":\"a\u{1}\"}]",
                "not JSON: a control character in a string (column 12)",
            ),
            ("[{}]", "`name` is missing (column 3)"),
            (
                "[]\n\n]",
                "not JSON: more text after the end (line 3, column 1)",
            ),
            (
                "[{\"name\":true}]",
                "`true` where a string is expected (column 13)",
            ),
            (
                "[{\"count\":\"x, expected y\"}]",
                "the string \"x, expected y\" where a whole number is expected (column 25)",
            ),
            (
                "[[\"a\"]]",
                "a list of length 1 where an object is expected (column 6)",
            ),
            (
                "[{\"state\":\"ajar\"}]",
                "`ajar` is not one of `open` or `closed` (column 16)",
            ),
        ] {
            let message = fault(json);
            // Columns are those of the parser; the words are ours.
            let words = |text: &str| text.rsplit_once(" (").map(|(words, _)| words.to_owned());
            assert_eq!(words(&message), words(expected), "{json}: {message}");
        }
    }

    #[test]
    fn place_has_the_line_only_in_longer_documents() {
        assert_eq!(
            fault("3"),
            "the number `3` where a list is expected (column 1)"
        );
        assert!(fault("[\n\n  x]").contains("(line 3, column "));
    }

    #[test]
    fn long_values_are_cut() {
        let long = "x".repeat(1 << 20);
        for json in [
            format!("[{{\"count\":\"{long}\"}}]"),
            format!("[{{\"state\":\"{long}\"}}]"),
        ] {
            let message = fault(&json);
            assert!(message.chars().count() < 2 * MAX_LEN, "{}", message.len());
            assert!(
                message.contains("is expected") || message.contains("is not one of"),
                "{message}"
            );
        }
    }
}
