//! A text that is looked for, letter case aside.

use std::ops::Range;

/// Characters of a snippet before and after a match.
const AROUND: usize = 60;

/// A text that is looked for.
#[derive(Debug)]
pub(super) struct Needle {
    /// Its characters in lower case.
    folded: Vec<char>,
    /// Its bytes in lower case, if they are all ASCII.
    ascii: Option<Vec<u8>>,
    /// It has a letter that is the lower case of one beyond ASCII: the Kelvin sign, the dotted I.
    has_strange_capitals: bool,
}

impl Needle {
    /// `None` for an empty text, which stands everywhere.
    pub(super) fn new(text: &str) -> Option<Self> {
        let folded: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
        let ascii = text.is_ascii().then(|| text.to_ascii_lowercase().into());
        let has_strange_capitals = folded.iter().any(|c| matches!(c, 'i' | 'k'));
        (!folded.is_empty()).then_some(Needle {
            folded,
            ascii,
            has_strange_capitals,
        })
    }

    /// Whether it can stand in a text of a record, by the record's bytes. Says no only where neither
    /// an escape nor a letter of another script can hide it.
    pub(super) fn may_be_in(&self, record: &[u8]) -> bool {
        let escaped = |byte: &u8| matches!(byte, b'"' | b'\\' | b'/') || byte.is_ascii_control();
        match &self.ascii {
            Some(needle) if !needle.iter().any(escaped) => {
                find_ascii(record, needle).is_some()
                    || memchr::memmem::find(record, b"\\u").is_some()
                    || (self.has_strange_capitals && !record.is_ascii())
            }
            _ => true,
        }
    }

    /// Where it stands first.
    pub(super) fn find(&self, text: &str) -> Option<Range<usize>> {
        match &self.ascii {
            Some(needle) if text.is_ascii() => {
                let at = find_ascii(text.as_bytes(), needle)?;
                Some(at..at + needle.len())
            }
            _ => {
                let first = self.folded.first()?;
                let begins = |c: char| c.to_lowercase().next() == Some(*first);
                let mut starts = text.char_indices().filter(|(_, c)| begins(*c));
                starts.find_map(|(at, _)| Some(at..at + self.len_at(text.get(at..)?)?))
            }
        }
    }

    /// How many bytes of a text it takes, if the text begins with it.
    fn len_at(&self, text: &str) -> Option<usize> {
        let mut wanted = self.folded.iter();
        for (at, c) in text.char_indices() {
            for lower in c.to_lowercase() {
                match wanted.next() {
                    // Within a character that is several in lower case.
                    None => break,
                    Some(next) if *next == lower => {}
                    Some(_) => return None,
                }
            }
            if wanted.as_slice().is_empty() {
                return Some(at + c.len_utf8());
            }
        }
        None
    }

    /// The line that a match stands in, cut around it, and where the match stands in that.
    pub(super) fn snippet(&self, text: &str, at: Range<usize>) -> (String, Range<usize>) {
        let (before, rest) = text.split_at_checked(at.start).unwrap_or(("", text));
        let (hit, after) = rest.split_at_checked(at.len()).unwrap_or((rest, ""));
        let is_break = |c: char| matches!(c, '\n' | '\r');
        let before = before.rsplit(is_break).next().unwrap_or_default();
        let after = after.split(is_break).next().unwrap_or_default();
        let before = before.trim_start();
        let cut = before.char_indices().rev().nth(AROUND - 1);
        let (lead, before) = match cut.filter(|(at, _)| *at > 0) {
            Some((at, _)) => ("…", before.get(at..).unwrap_or_default()),
            None => ("", before),
        };
        let after = after.trim_end();
        let (after, trail) = match after.char_indices().nth(AROUND) {
            Some((at, _)) => (after.get(..at).unwrap_or_default(), "…"),
            None => (after, ""),
        };
        let start = lead.len() + before.len();
        let snippet = [lead, before, hit, after, trail].concat();
        (snippet, start..start + hit.len())
    }
}

fn find_ascii(text: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let last = text.len().checked_sub(needle.len())?;
    let heads = memchr::memchr2_iter(first, first.to_ascii_uppercase(), text);
    heads.take_while(|at| *at <= last).find(|at| {
        text.get(*at..at + needle.len())
            .is_some_and(|part| part.eq_ignore_ascii_case(needle))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(needle: &str, text: &str) -> Option<String> {
        let at = Needle::new(needle)?.find(text)?;
        Some(text[at].to_owned())
    }

    #[test]
    fn letter_case_does_not_count_in_any_script() {
        for (needle, text, hit) in [
            ("panic", "a PANIC here", Some("PANIC")),
            ("PANIC", "a panic here", Some("panic")),
            ("ß", "Straße", Some("ß")),
            ("ÉTÉ", "l'été dernier", Some("été")),
            ("kelvin", "300 \u{212a}elvin", Some("\u{212a}elvin")),
            ("i", "\u{130}stanbul", Some("\u{130}")),
            ("aab", "aaab", Some("aab")),
            ("aab", "éaaab", Some("aab")),
            ("x", "", None),
            ("long", "lon", None),
            ("日本", "今日本屋", Some("日本")),
        ] {
            assert_eq!(found(needle, text).as_deref(), hit, "{needle} in {text}");
        }
        assert!(Needle::new("").is_none());
    }

    #[test]
    fn only_what_cannot_match_is_left_unread() {
        for (needle, record, may) in [
            ("panic", r#"{"text":"no"}"#, false),
            ("panic", r#"{"text":"a PaNiC"}"#, true),
            ("panic", r#"{"text":"a \u0050anic"}"#, true),
            ("panic", r#"{"text":"pan\nic"}"#, false),
            ("a/b", r#"{"text":"a\/b"}"#, true),
            ("say \"", r#"{"text":"x"}"#, true),
            ("kelvin", "{\"text\":\"\u{212a}elvin\"}", true),
            ("kelvin", r#"{"text":"Celsius"}"#, false),
            ("moon", "{\"text\":\"été\"}", false),
            ("été", r#"{"text":"x"}"#, true),
        ] {
            let found = Needle::new(needle).unwrap().may_be_in(record.as_bytes());
            assert_eq!(found, may, "{needle} in {record}");
        }
    }

    #[test]
    fn a_snippet_is_the_line_of_the_match_cut_around_it() {
        let needle = Needle::new("hit").unwrap();
        let snippet = |text: &str| {
            let (snippet, at) = needle.snippet(text, needle.find(text).unwrap());
            assert_eq!(snippet[at].to_lowercase(), "hit");
            snippet
        };
        assert_eq!(snippet("before\n  a Hit, b  \r\nafter"), "a Hit, b");
        assert_eq!(snippet("hit"), "hit");
        let long = format!("{}hit{}", "é".repeat(100), "ü".repeat(100));
        assert_eq!(
            snippet(&long),
            format!("…{}hit{}…", "é".repeat(60), "ü".repeat(60))
        );
        let exact = format!("{}hit{}", "é".repeat(60), "ü".repeat(60));
        assert_eq!(snippet(&exact), exact);
    }
}
