//! Skips records by their raw bytes, where no JSON escape can hide a match.
//!
//! A record can be skipped if it contains neither the longest part of the term that JSON writes
//! literally, nor an escape that could stand for one of its characters.

use std::collections::BTreeSet;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

use super::query::Term;

/// Maximum number of characters of a word to compare; enough to skip most records.
const LONGEST: usize = 24;

/// Filter for records that may contain one of some words.
#[derive(Debug)]
pub(super) struct Prefilter {
    regex: Regex,
    /// Maximum length of a match in bytes.
    pub(super) longest: usize,
}

impl Prefilter {
    /// Returns `None` if the raw bytes cannot decide.
    pub(super) fn new(terms: &[&Term]) -> Option<Self> {
        let mut patterns = Vec::new();
        let mut hidden = BTreeSet::new();
        let mut longest = 0;
        for term in terms {
            let part = plain(&term.text)?;
            let case = if term.case { "" } else { "i" };
            patterns.push(format!("(?{case}u:{})", regex::escape(part)));
            // A letter in the other case may take more bytes.
            longest = longest.max(part.chars().count() * 4);
            for c in part.chars() {
                let mut same = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
                if !term.case {
                    same.case_fold_simple();
                }
                for c in same.iter().flat_map(|range| range.start()..=range.end()) {
                    let unit = c.encode_utf16(&mut [0; 2]).first().copied()?;
                    hidden.insert(unit);
                }
            }
        }
        let hidden: Vec<String> = hidden.iter().map(|unit| format!("{unit:04x}")).collect();
        patterns.push(format!(r"\\u(?i-u:{})", hidden.join("|")));
        let regex = RegexBuilder::new(&patterns.join("|"))
            .unicode(false)
            .build()
            .ok()?;
        Some(Prefilter {
            regex,
            longest: longest.max(r"\u0000".len()),
        })
    }

    /// Returns the position of the first possible match.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<usize> {
        self.regex.find(bytes).map(|found| found.start())
    }
}

/// Returns the longest part of a text that JSON writes literally or as `\u` escapes.
fn plain(text: &str) -> Option<&str> {
    let is_escaped = |c: char| {
        // Invalid text in a log is decoded as U+FFFD.
        matches!(c, '"' | '\\' | '/' | '\u{fffd}') || c.is_whitespace() || c.is_control()
    };
    let part = text.split(is_escaped).max_by_key(|part| part.len())?;
    let end = part
        .char_indices()
        .nth(LONGEST)
        .map_or(part.len(), |(at, _)| at);
    part.get(..end).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefilter_skips_only_records_that_cannot_match() {
        for (word, record, may) in [
            ("panic", r#"{"text":"no"}"#, false),
            ("panic", r#"{"text":"a PaNiC"}"#, true),
            ("panic", r#"{"text":"a \u0050anic"}"#, true),
            ("panic", r#"{"text":"\u001b[0m \u00e9"}"#, false),
            ("panic", r#"{"text":"pan\nic"}"#, false),
            ("a/bcd", r#"{"text":"a\/BCD"}"#, true),
            ("a/bcd", r#"{"text":"a\/bc"}"#, false),
            ("two words", r#"{"text":"two\nwords"}"#, true),
            ("kelvin", "{\"text\":\"\u{212a}elvin\"}", true),
            ("kelvin", r#"{"text":"\u212Aelvin"}"#, true),
            ("kelvin", r#"{"text":"Celsius"}"#, false),
            ("été", r#"{"text":"\u00C9t\u00e9"}"#, true),
            ("été", r#"{"text":"ÉTÉ"}"#, true),
            ("été", r#"{"text":"ete"}"#, false),
            ("🎉", r#"{"text":"\ud83c\udf89"}"#, true),
            ("🎉", r#"{"text":"\ud83d\ude00"}"#, false),
        ] {
            let term = Term::new_literal(word);
            let filter = Prefilter::new(&[&term]).unwrap();
            let found = filter.find(record.as_bytes()).is_some();
            assert_eq!(found, may, "{word} in {record}");
        }
        for word in ["\"", "//", "\\"] {
            assert!(
                Prefilter::new(&[&Term::new_literal(word)]).is_none(),
                "{word}"
            );
        }
    }
}
