//! Where a text that is looked for stands in another.

use std::ops::Range;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

use super::query::{Term, TermKind};
use super::word::is_boundary;
use crate::error::{Error, Result};

/// What may stand between the words of a phrase. None of it has another letter case that is not among it.
const BETWEEN: &str = r"(?-i:[\s\p{P}\p{S}])+";

/// What of that is ASCII.
const BETWEEN_ASCII: &str = r"[\t-\r -/:-@\[-`{-~]+";

/// Finds one term.
#[derive(Debug)]
pub(super) struct Finder {
    /// Finds it in any text; made when there is one that the other cannot be asked about.
    regex: OnceLock<Option<Regex>>,
    pattern: String,
    case: bool,
    /// Finds it in texts that are ASCII, if it is ASCII itself: to make one that knows all scripts takes
    /// longer than to look through a few hundred records.
    ascii: Option<Regex>,
    bound_start: bool,
    bound_end: bool,
}

/// A term of so many bytes is never too large to be made ready.
const SHORT: usize = 256;

impl Finder {
    pub(super) fn new(term: &Term) -> Result<Self> {
        let (pattern, bound_start, bound_end) = match term.kind {
            TermKind::Pattern => (term.text.clone(), false, false),
            TermKind::Literal {
                open_start,
                open_end,
            } => (spelled(term, BETWEEN), !open_start, !open_end),
        };
        let mut finder = Finder {
            regex: OnceLock::new(),
            pattern,
            case: term.case,
            ascii: None,
            bound_start,
            bound_end,
        };
        let literal = matches!(term.kind, TermKind::Literal { .. });
        if literal && term.text.is_ascii() && term.text.len() <= SHORT {
            let ascii = spelled(term, BETWEEN_ASCII);
            let built = builder(&ascii, term.case).unicode(false).build();
            finder.ascii = built.ok();
        }
        // Who asks is told what is wrong with it before anything is looked through.
        if finder.ascii.is_none() {
            let built = builder(&finder.pattern, finder.case).build();
            let regex = built.map_err(|error| Error::Query {
                text: String::new(),
                at: 0..0,
                why: match error {
                    regex::Error::CompiledTooBig(_) => {
                        "a text or pattern in it is too large".to_owned()
                    }
                    other => other.to_string(),
                },
            })?;
            finder.regex = OnceLock::from(Some(regex));
        }
        Ok(finder)
    }

    fn regex(&self, text: &str) -> Option<&Regex> {
        let ascii = self.ascii.as_ref().filter(|_| text.is_ascii());
        ascii.or_else(|| {
            let make = || builder(&self.pattern, self.case).build().ok();
            self.regex.get_or_init(make).as_ref()
        })
    }

    /// The first place at or after `from` where it stands.
    fn find_at(&self, regex: &Regex, text: &str, mut from: usize) -> Option<Range<usize>> {
        while from <= text.len() {
            let found = regex.find_at(text, from)?.range();
            let starts = !self.bound_start || is_boundary(text, found.start);
            let ends = !self.bound_end || is_boundary(text, found.end);
            if starts && ends {
                return Some(found);
            }
            let next = text.get(found.start..)?.chars().next()?;
            from = found.start + next.len_utf8();
        }
        None
    }

    /// All places where it stands, none within another.
    pub(super) fn all<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let mut from = 0;
        let regex = self.regex(text);
        std::iter::from_fn(move || {
            let found = self.find_at(regex?, text, from)?;
            // One that is empty must not be found for ever.
            from = match found.is_empty() {
                false => found.end,
                true => {
                    let next = text.get(found.end..)?.chars().next();
                    found.end + next.map_or(1, char::len_utf8)
                }
            };
            Some(found)
        })
    }
}

/// The pattern of a literal: words one after the other, whatever stands between them.
fn spelled(term: &Term, between: &str) -> String {
    let words: Vec<String> = term.text.split_whitespace().map(regex::escape).collect();
    words.join(between)
}

fn builder(pattern: &str, case: bool) -> RegexBuilder {
    let mut builder = RegexBuilder::new(pattern);
    builder.case_insensitive(!case).multi_line(true);
    builder
}

#[cfg(test)]
mod tests {
    use super::super::query::{Dialect, Query, Wanted};
    use super::*;

    fn found(query: &str, text: &str) -> Vec<String> {
        let Wanted::Term(term) = Query::parse(query, &Dialect::default()).unwrap().wanted else {
            panic!("{query} is not one term");
        };
        let finder = Finder::new(&term).unwrap();
        finder.all(text).map(|at| text[at].to_owned()).collect()
    }

    #[test]
    fn words_are_found_as_people_see_them() {
        for (query, text, hits) in [
            ("case", "case, CASE; caseless upcase", "case CASE"),
            ("case", "snake_case camelCase lowercase", "case Case"),
            ("camelcase", "a camelCase name", "camelCase"),
            ("server", "HTTPServer", "Server"),
            ("file.rs", "path/to/file.rs, file_rs", "file.rs"),
            ("path/to/file.rs", "x/path/to/file.rs:12", "path/to/file.rs"),
            ("pre*", "prefix a pre upre preTense", "pre pre pre"),
            ("*fix", "prefix fixed", "fix"),
            ("*ef*", "prefix", "ef"),
            (
                "\"two words\"",
                "two\n  words; twowords; \"two\" words",
                "two\n  words two\" words",
            ),
            ("\"the user name\"", "the `user_name`", "the `user_name"),
            ("\"lorem ips*\"", "lorem ipsum", "lorem ips"),
            (r#""said \"hello""#, "she said \"hello\"", "said \"hello"),
            ("été", "l'ÉTÉ, étés", "ÉTÉ"),
            ("日本", "今日本屋", "日本"),
            ("🎉", "ok🎉🎉", "🎉 🎉"),
            ("--flag", "use --flag now", "--flag"),
            ("x", "é x", "x"),
            ("re:o+", "foo bo", "oo o"),
            ("re:^b", "a\nb", "b"),
            ("re:x*", "ab", "  "),
        ] {
            assert_eq!(found(query, text).join(" "), hits, "{query} in {text}");
        }
    }

    /// Both ways to look for a term find the same, whatever ASCII stands between words.
    #[test]
    fn what_is_found_in_ascii_is_found_in_any_text() {
        for query in [
            "\"skip kiss\"",
            "kiss",
            "\"a-b c_d\"",
            "kis*",
            "*iss",
            "SKIP",
        ] {
            for byte in 0..=0x7f_u8 {
                let between = char::from(byte);
                let text = format!("Skip{between}KISS a-b{between}{between}c_d {between}kiss ");
                let plain = found(query, &text);
                let accented = format!("{text}é");
                assert_eq!(plain, found(query, &accented), "{query} in {text:?}");
            }
        }
    }

    /// A term that is looked for in the short way must be fit for the long way too.
    #[test]
    fn no_short_term_is_too_large() {
        let mut words = "k ".repeat(SHORT / 2);
        let term = Term::literal(words.trim_end());
        assert!(Finder::new(&term).unwrap().regex("é").is_some());
        words.push_str("k k");
        assert!(Finder::new(&Term::literal(&words)).is_ok());
    }
}
