//! Formatting shared by Markdown and HTML.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use annals_layouts::model::{TextEdit, ToolCall, ToolKind, is_part_of_edits};
use annals_layouts::text::strip_ansi;

use super::reading_order::{Anchor, Section, SessionHeader};

/// Maximum length of text that is parsed as Markdown. The parser needs up to eighty times as much
/// memory; longer texts are shown verbatim.
pub(super) const MAX_MARKDOWN: usize = 1 << 20;

/// Formats a time for people.
pub(super) fn format_time(time: Timestamp, zone: &TimeZone) -> String {
    let zoned = time.to_zoned(zone.clone());
    zoned.strftime("%Y-%m-%d %H:%M").to_string()
}

/// Formats a number with thousands separators.
pub(super) fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun.
pub(super) fn pluralize(count: u64, thing: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {thing}{s}", group_thousands(count))
}

/// Returns the token usage of a session as text; `None` if it is zero.
pub(super) fn token_summary(about: &SessionHeader) -> Option<String> {
    let usage = &about.usage;
    (!usage.is_zero()).then(|| {
        format!(
            "{} tokens ({} in, {} out)",
            group_thousands(usage.total()),
            group_thousands(usage.context()),
            group_thousands(usage.output)
        )
    })
}

/// Returns the name of an entry's anchor: the address of its message or, if it has none, numbers.
pub(super) fn entry_anchor(about: &SessionHeader, anchor: Anchor) -> String {
    let address = about.addresses.get(&anchor).cloned();
    address.unwrap_or_else(|| format!("s{}-e{}-{}", about.number + 1, anchor.log, anchor.entry))
}

/// Returns the address of a message, by which links find it even if the log grows. Returns `None`
/// if its id has characters other than letters, digits and `-_.`, which cannot become markup.
pub(super) fn message_address(session: usize, id: &str) -> Option<String> {
    const LONGEST: usize = 64;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_safe = (1..=LONGEST).contains(&id.len()) && id.bytes().all(is_plain);
    let prefix = match session {
        0 => String::new(),
        // Sessions of one document may have messages with the same ids.
        session => format!("s{}-", session + 1),
    };
    is_safe.then(|| format!("{prefix}m-{id}"))
}

/// Returns the name of a section's anchor.
pub(super) fn section_anchor(about: &SessionHeader, section: &Section) -> String {
    format!("s{}-c{}", about.number + 1, section.number + 1)
}

/// The parts of a tool call, for display.
#[derive(Default)]
pub(super) struct CallParts<'a> {
    /// Subject of the call, on one line.
    pub(super) subject: Option<String>,
    /// The purpose of a command.
    pub(super) description: Option<String>,
    /// The changes that an edit makes.
    pub(super) edits: Vec<TextEdit<'a>>,
    /// The arguments that are not among the changes. Input that is not an object is one argument
    /// with an empty name.
    pub(super) arguments: Vec<(String, String)>,
}

impl<'a> CallParts<'a> {
    pub(super) fn new(name: &str, input: &'a str) -> Self {
        let Some(call) = ToolCall::parse(name, input) else {
            let whole = Some(input.trim()).filter(|input| !matches!(*input, "" | "null"));
            let argument = |whole| (String::new(), stripped(Cow::Borrowed(whole)));
            return CallParts {
                subject: whole.map(first_line),
                arguments: whole.map(argument).into_iter().collect(),
                ..CallParts::default()
            };
        };
        let edits = call.edits().unwrap_or_default();
        let is_shown = |name: &str, text: &str| {
            edits.is_empty() || !(is_part_of_edits(name) || text == "false")
        };
        let arguments = call.arguments();
        let arguments = arguments.filter(|(name, text)| is_shown(name, text));
        let arguments = arguments
            .map(|(name, text)| (name.to_owned(), stripped(text)))
            .collect();
        let is_command = call.kind() == Some(ToolKind::Command);
        let description = call.text(&["description"]).filter(|_| is_command);
        CallParts {
            subject: call.subject().map(|subject| first_line(&subject)),
            description: description.map(|text| first_line(&text)),
            arguments,
            edits,
        }
    }
}

/// Removes control sequences of terminals, without a copy if there are none.
fn stripped(text: Cow<'_, str>) -> String {
    if let Cow::Owned(stripped) = strip_ansi(&text) {
        return stripped;
    }
    text.into_owned()
}

/// Compares two texts: the lines that both begin and end with are unchanged. Returns each line with
/// its sign in a diff.
pub(super) fn diff_lines<'a>(old: &'a str, new: &'a str) -> Vec<(char, &'a str)> {
    let old: Vec<&str> = old.split_terminator('\n').collect();
    let new: Vec<&str> = new.split_terminator('\n').collect();
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (head, old) = old.split_at(start);
    let new = new.get(start..).unwrap_or_default();
    let ends = old.iter().rev().zip(new.iter().rev());
    let end = ends.take_while(|(a, b)| a == b).count();
    let (old, tail) = old.split_at(old.len() - end);
    let new = new.iter().take(new.len() - end);
    let unchanged = |line: &&'a str| (' ', *line);
    head.iter()
        .map(unchanged)
        .chain(old.iter().map(|line| ('-', *line)))
        .chain(new.map(|line| ('+', *line)))
        .chain(tail.iter().map(unchanged))
        .collect()
}

/// Returns the start of the first line, without control sequences of terminals.
pub(super) fn first_line(text: &str) -> String {
    const LONGEST: usize = 120;
    let text = strip_ansi(text);
    let line = text.trim().lines().next().unwrap_or_default();
    line.chars().take(LONGEST).collect()
}

/// Returns the decoded length of a base64 text.
pub(super) fn decoded_len(base64: &str) -> u64 {
    (base64.trim_end_matches('=').len() * 3 / 4) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_thousands_inserts_commas() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1234567, "1,234,567"),
        ] {
            assert_eq!(group_thousands(number), text);
        }
    }

    #[test]
    fn call_parts_of_an_edit_are_its_path_and_changes() {
        let input = r#"{"replace_all":false,"file_path":"a.rs","old_string":"x","new_string":"y"}"#;
        let parts = CallParts::new("Edit", input);
        assert_eq!(parts.subject.as_deref(), Some("a.rs"));
        assert_eq!(parts.edits.len(), 1);
        assert!(parts.arguments.is_empty());
        let input = input.replace("false", "true");
        let parts = CallParts::new("Edit", &input);
        let replace_all = ("replace_all".to_owned(), "true".to_owned());
        assert_eq!(parts.arguments, [replace_all]);
    }

    #[test]
    fn call_parts_of_any_input_are_found() {
        let command = r#"{"command":"\u001b[1mls\nls","description":"List"}"#;
        let parts = CallParts::new("Bash", command);
        assert_eq!(parts.subject.as_deref(), Some("ls"));
        assert_eq!(parts.description.as_deref(), Some("List"));
        assert_eq!(
            parts.arguments[0],
            ("command".to_owned(), "ls\nls".to_owned())
        );
        let parts = CallParts::new("Bash", "broken");
        assert_eq!(parts.subject.as_deref(), Some("broken"));
        assert_eq!(parts.arguments, [(String::new(), "broken".to_owned())]);
        for empty in ["", "{}", "null"] {
            let parts = CallParts::new("x", empty);
            assert!(parts.subject.is_none() && parts.arguments.is_empty());
        }
    }

    #[test]
    fn diff_lines_keep_what_both_texts_begin_and_end_with() {
        for (old, new, diff) in [
            ("a\nb\nc\n", "a\nx\ny\nc\n", " a|-b|+x|+y| c"),
            ("a", "a\nb", " a|+b"),
            ("", "a\n", "+a"),
            ("a\n", "", "-a"),
            ("a\na", "a", " a|-a"),
            ("same", "same", " same"),
        ] {
            let lines: Vec<String> = diff_lines(old, new)
                .into_iter()
                .map(|(sign, line)| format!("{sign}{line}"))
                .collect();
            assert_eq!(lines.join("|"), diff);
        }
    }

    #[test]
    fn message_address_takes_only_plain_ids() {
        assert_eq!(message_address(0, "8c54-a_1.b").unwrap(), "m-8c54-a_1.b");
        assert_eq!(message_address(1, "u1").unwrap(), "s2-m-u1");
        for id in ["", "a b", "a\"", "<b>", "é", "a#b", &"a".repeat(65)] {
            assert_eq!(message_address(0, id), None, "{id}");
        }
    }
}
