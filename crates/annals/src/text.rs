//! Text that hides nothing.
//!
//! What a terminal, a browser or an editor would obey or hide (escape sequences, other controls,
//! bidi overrides, zero-width and tag characters) becomes a visible marker: `␛` for a control that
//! has a picture, `⟨U+202E⟩` for the rest.
//!
//! Joiners stay where writing needs them: U+200D between emoji, U+200C and U+200D between letters of
//! the scripts that join (Arabic, Indic and their neighbours). A variation selector stays after a
//! visible character.

use std::borrow::Cow;
use std::fmt;

/// What becomes of line breaks and tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineBreaks {
    /// They become spaces.
    Spaces,
    /// `\n` and `\t` stay, and `\r\n` becomes `\n`.
    Preserved,
}

/// Makes everything in `text` visible that would be obeyed or hidden where it is shown.
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

/// Whether `c` is obeyed or hidden, whatever stands around it.
///
/// Joiners and variation selectors count as hidden too; [`visible`] lets them through where writing
/// needs them.
pub fn is_hostile(c: char) -> bool {
    is_control(c) || is_hidden(c)
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

/// C0, DEL and C1, which hold every introducer of a terminal sequence.
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

/// One selector after a visible character is spelling; a run of them is smuggled data.
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

/// A command with an id as its argument, to be copied into a shell: what stands before the id, the id as
/// one word, and what stands after it.
///
/// An id that looks like an option comes last, after `--`; if the command ends in `=`, it is the value of
/// an option.
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

/// The same as one text in backticks.
pub(crate) fn quoted_command(verb: &str, id: &str, options: &str) -> String {
    let (before, word, after) = command_parts(verb, id, options);
    format!("`{before}{word}{after}`")
}

/// A text as one word of a shell: as it is if it is plain, else in quotes.
pub fn shell_word(text: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "_-./:@%+,".contains(it);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
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
