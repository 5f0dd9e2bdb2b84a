//! Text without hidden characters.
//!
//! Characters that a terminal, browser or editor would interpret or hide (escape sequences, other
//! controls, bidi overrides, zero-width and tag characters) become visible markers: `␛` for a
//! control that has a picture, `⟨U+202E⟩` for the rest.
//!
//! Joiners are preserved where a script needs them: U+200D between emoji, U+200C and U+200D between
//! letters of joining scripts (Arabic, Indic and related). A variation selector is preserved after
//! a visible character.

use std::borrow::Cow;
use std::fmt;

/// Handling of line breaks and tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineBreaks {
    /// They become spaces.
    Spaces,
    /// `\n` and `\t` are preserved, and `\r\n` becomes `\n`.
    Preserved,
}

/// Replaces every character of `text` that a display would interpret or hide.
pub fn visible(text: &str, breaks: LineBreaks) -> Cow<'_, str> {
    let keep = |c: char| breaks == LineBreaks::Preserved && matches!(c, '\n' | '\t');
    let Some(first) = text.find(|c| is_hostile(c) && !keep(c)) else {
        return Cow::Borrowed(text);
    };

    let (head, tail) = text.split_at(first);
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(head);
    let mut chars = tail.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\t' if breaks == LineBreaks::Preserved => out.push(c),
            '\n' | '\t' | '\u{2028}' | '\u{2029}' if breaks == LineBreaks::Spaces => out.push(' '),
            ZWJ | ZWNJ if joins(&out, c, chars.peek().copied()) => out.push(c),
            _ if is_variation_selector(c) && takes_selector(&out) => out.push(c),
            _ if is_hostile(c) => push_marker(&mut out, c),
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Whether a display would interpret or hide `c`, regardless of context.
///
/// Joiners and variation selectors count as hidden; [`visible`] preserves them where a script needs
/// them.
pub fn is_hostile(c: char) -> bool {
    is_control(c) || is_hidden(c)
}

/// Cuts a text after `max` characters, marked with `…`.
pub(crate) fn truncate_chars(text: &str, max: usize) -> Cow<'_, str> {
    // A character takes at least one byte.
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let Some((end, _)) = text.char_indices().nth(max) else {
        return Cow::Borrowed(text);
    };
    let head = text.get(..end).unwrap_or(text);
    // A zero-width joiner at the end joins nothing.
    Cow::Owned(format!("{}…", head.trim_end_matches(ZWJ).trim_end()))
}

/// Removes the control sequences of terminals: colours, cursor movements, titles and the addresses
/// of links.
///
/// A sequence that is incomplete within its line stays, so that it cannot hide text. The result may
/// contain other control characters: use [`visible`] afterwards.
pub fn strip_ansi(text: &str) -> Cow<'_, str> {
    let is_introducer = |c: char| {
        matches!(
            c,
            '\x1b' | '\u{90}' | '\u{98}' | '\u{9b}' | '\u{9d}'..='\u{9f}'
        )
    };
    if !text.contains(is_introducer) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_introducer) {
        let (plain, sequence) = rest.split_at(at);
        out.push_str(plain);
        let len = sequence_len(sequence).unwrap_or_else(|| {
            let first = sequence.chars().next();
            out.extend(first);
            first.map_or(0, char::len_utf8)
        });
        rest = sequence.get(len..).unwrap_or_default();
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Returns the output of a program as a terminal leaves it: without control sequences, and of a
/// line that was overwritten only the last version.
pub fn terminal_text(text: &str) -> Cow<'_, str> {
    let text = strip_ansi(text);
    if !text.contains('\r') {
        return text;
    }
    let last = |line: &str| {
        let line = line.trim_end_matches('\r');
        line.rsplit('\r').next().unwrap_or_default().to_owned()
    };
    let lines: Vec<String> = text.split('\n').map(last).collect();
    Cow::Owned(lines.join("\n"))
}

/// Returns the length of the control sequence at the start of a text; `None` if it is incomplete or
/// unknown.
fn sequence_len(sequence: &str) -> Option<usize> {
    let mut chars = sequence.chars();
    let kind = match chars.next()? {
        '\x1b' => chars.next()?,
        '\u{9b}' => '[',
        _ => ']',
    };
    let after = chars.as_str();
    let len = match kind {
        '[' => parameters_len(after)?,
        ']' | 'P' | 'X' | '^' | '_' => control_string_len(after)?,
        // Character sets.
        '(' | ')' => after
            .starts_with(|c: char| c.is_ascii_graphic())
            .then_some(1)?,
        '\\' | '=' | '>' | '7' | '8' | 'c' | 'M' => 0,
        _ => return None,
    };
    Some(sequence.len() - after.len() + len)
}

/// Returns the length of parameters and final byte. The text may end before the final byte.
fn parameters_len(after: &str) -> Option<usize> {
    /// Terminals accept no longer ones.
    const LONGEST: usize = 64;
    let parameters = after.bytes().take(LONGEST);
    let end = parameters
        .take_while(|byte| matches!(byte, 0x20..=0x3f))
        .count();
    match after.as_bytes().get(end) {
        Some(0x40..=0x7e) => Some(end + 1),
        Some(_) => None,
        None => Some(end),
    }
}

/// Returns the length of a title, an address or another string with its terminator. The search ends
/// at any control character, so that all searches together are linear.
fn control_string_len(after: &str) -> Option<usize> {
    let end = after.find(char::is_control)?;
    let rest = after.get(end..)?;
    let terminators = ["\x07", "\x1b\\", "\u{9c}"];
    let found = terminators.iter().find(|mark| rest.starts_with(**mark))?;
    Some(end + found.len())
}

/// Formats a number with its noun: `1 line`, `2 lines`.
pub fn pluralize(number: impl fmt::Display, noun: &str) -> String {
    let number = number.to_string();
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn push_marker(out: &mut String, c: char) {
    use fmt::Write as _;
    match c {
        '\0'..='\u{1F}' => out.extend(char::from_u32(0x2400 + u32::from(c))),
        '\u{7F}' => out.push('␡'),
        _ => _ = write!(out, "⟨U+{:04X}⟩", u32::from(c)),
    }
}

const ZWNJ: char = '\u{200C}';
const ZWJ: char = '\u{200D}';

/// C0, DEL and C1, which include every introducer of a terminal sequence.
fn is_control(c: char) -> bool {
    c.is_control()
}

fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{3164}'
        | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}'
        | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}')
}

fn is_variation_selector(c: char) -> bool {
    matches!(c, '\u{FE00}'..='\u{FE0F}')
}

/// One selector after a visible character is legitimate; a run of them is smuggled data.
fn takes_selector(before: &str) -> bool {
    before
        .chars()
        .next_back()
        .is_some_and(|c| !is_hostile(c) && !c.is_whitespace() && c != '⟩')
}

fn joins(before: &str, joiner: char, after: Option<char>) -> bool {
    let last = before.chars().rev().find(|c| !is_variation_selector(*c));
    let (Some(last), Some(after)) = (last, after) else {
        return false;
    };
    (joiner == ZWJ && is_pictograph(last) && is_pictograph(after))
        || (is_joining_script(last) && is_joining_script(after))
}

fn is_pictograph(c: char) -> bool {
    matches!(c,
        '\u{2190}'..='\u{21FF}' | '\u{2300}'..='\u{23FF}' | '\u{25A0}'..='\u{27BF}' | '\u{2B00}'..='\u{2BFF}'
        | '\u{1F000}'..='\u{1FAFF}')
}

fn is_joining_script(c: char) -> bool {
    !is_hostile(c)
        && matches!(c, '\u{620}'..='\u{7FF}' | '\u{840}'..='\u{DFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{18AF}')
}

/// Builds a shell command with an id as its argument: the part before the id, the quoted id, and
/// the part after it.
///
/// An id that looks like an option is placed last, after `--`. If `verb` ends in `=`, the id is the
/// value of an option.
pub fn command_parts(verb: &str, id: &str, options: &str) -> (String, String, String) {
    let word = shell_word(id);
    let after = match options {
        "" => String::new(),
        options => format!(" {options}"),
    };
    match (verb.strip_suffix('='), id.starts_with('-')) {
        (Some(_), true) => (verb.to_owned(), word, after),
        (Some(verb), false) => (format!("{verb} "), word, after),
        (None, true) => (format!("{verb}{after} -- "), word, String::new()),
        (None, false) => (format!("{verb} "), word, after),
    }
}

/// The command of [`command_parts`] as one text in backticks.
pub fn quoted_command(verb: &str, id: &str, options: &str) -> String {
    let (before, word, after) = command_parts(verb, id, options);
    format!("`{before}{word}{after}`")
}

/// Quotes a text as one shell word, if it needs quotes.
pub fn shell_word(text: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "_-./:@%+,".contains(it);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod terminal_tests {
    use super::*;

    #[test]
    fn terminal_sequences_are_removed() {
        for (text, plain) in [
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b[38:2::1:2:3mx\x1b[K\x1b[?25l", "x"),
            ("\u{9b}1mbold\u{9b}m", "bold"),
            ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
            ("\x1b]0;title\x1b\\text", "text"),
            ("\u{9d}0;title\u{9c}text", "text"),
            ("\x1bP1$r\x1b\\x", "x"),
            ("\x1b(Bx\x1b=\x1b7", "x"),
            ("cut \x1b[3", "cut "),
        ] {
            assert_eq!(strip_ansi(text), plain, "{text:?}");
        }
        assert!(matches!(strip_ansi("plain\r\n[31m"), Cow::Borrowed(_)));
    }

    #[test]
    fn incomplete_sequences_hide_nothing() {
        for text in [
            "\x1b]0;all of this\nstays",
            "\x1b]8;;http://x",
            "\u{9d}a\u{9d}b",
            "\x1b[3é",
            "\x1b",
            "\x1bHello",
            "\x1b(é",
        ] {
            assert_eq!(strip_ansi(text), text);
        }
        let hostile = "\x1b]\u{9d}".repeat(200_000);
        assert_eq!(strip_ansi(&hostile), hostile);
    }

    #[test]
    fn overwritten_lines_show_their_last_version() {
        for (text, shown) in [
            ("10 %\r50 %\r100 %\ndone\n", "100 %\ndone\n"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("50 %\r\x1b[K", "50 %"),
            ("\r\r", ""),
        ] {
            assert_eq!(terminal_text(text), shown);
        }
    }
}

#[cfg(test)]
mod command_tests {
    use super::*;

    #[test]
    fn command_quotes_ids_and_never_yields_an_option() {
        let joined = |verb, id, options| {
            let (before, word, after) = command_parts(verb, id, options);
            format!("{before}{word}{after}")
        };
        let restore = |id| joined("annals restore", id, "--apply");
        assert_eq!(restore("8c54-a@1"), "annals restore 8c54-a@1 --apply");
        assert_eq!(
            restore("x; touch PWNED #"),
            "annals restore 'x; touch PWNED #' --apply"
        );
        assert_eq!(restore("it's"), r"annals restore 'it'\''s' --apply");
        assert_eq!(restore("-rf"), "annals restore --apply -- -rf");
        assert_eq!(restore(""), "annals restore '' --apply");
        let undo = |id| joined("annals delete --undo=", id, "");
        assert_eq!(undo("abc"), "annals delete --undo abc");
        assert_eq!(undo("-a b"), "annals delete --undo='-a b'");
        for odd in [
            "~", "$HOME", "`id`", "a\\b", "*", "a=b", "!x", "a&b", "a\nb",
        ] {
            assert!(shell_word(odd).starts_with('\''), "{odd}");
        }
    }
}
