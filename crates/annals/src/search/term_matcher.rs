//! Finds the matches of one term in a text.

use std::ops::Range;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

use super::ascii_matcher::{AsciiMatch, AsciiMatcher};
use super::query::{Term, TermKind};
use super::tokenizer::is_boundary;
use crate::error::{Error, Result};

/// Separator between the words of a phrase: white space, punctuation, symbols including all parts
/// of emoji, and invisible characters. No character of the class has a case variant outside of it.
const BETWEEN: &str = r"(?-i:[\s\p{P}\p{S}\p{Cc}\p{Cf}\p{Me}\x{FE00}-\x{FE0F}])+";

/// Matcher of one term.
#[derive(Debug)]
pub(super) struct TermMatcher {
    /// Matches any text; compiled when `plain` cannot decide.
    regex: OnceLock<Option<Regex>>,
    pattern: String,
    case: bool,
    /// Fast matcher for most texts.
    plain: Option<AsciiMatcher>,
    bound_start: bool,
    bound_end: bool,
}

/// Literals up to this many bytes always compile to a regex within the size limit.
const SHORT: usize = 256;

impl TermMatcher {
    pub(super) fn new(term: &Term) -> Result<Self> {
        let (pattern, bound_start, bound_end) = match term.kind {
            TermKind::Pattern => (term.text.clone(), false, false),
            TermKind::Literal {
                open_start,
                open_end,
            } => (literal_pattern(term), !open_start, !open_end),
        };
        let mut finder = TermMatcher {
            regex: OnceLock::new(),
            pattern,
            case: term.case,
            plain: None,
            bound_start,
            bound_end,
        };
        let literal = matches!(term.kind, TermKind::Literal { .. });
        if literal && term.text.len() <= SHORT {
            finder.plain = AsciiMatcher::new(&term.text, term.case);
        }
        // Compile now, so that an error is reported before the search starts.
        if finder.plain.is_none() {
            let built = builder(&finder.pattern, finder.case).build();
            let regex = built.map_err(|error| Error::Query {
                text: String::new(),
                at: 0..0,
                why: match error {
                    regex::Error::CompiledTooBig(_) => "a term or pattern is too large".to_owned(),
                    other => other.to_string(),
                },
            })?;
            finder.regex = OnceLock::from(Some(regex));
        }
        Ok(finder)
    }

    fn regex(&self) -> Option<&Regex> {
        let make = || builder(&self.pattern, self.case).build().ok();
        self.regex.get_or_init(make).as_ref()
    }

    /// Returns the first match at or after `from`, ignoring word boundaries.
    fn find_any(
        &self,
        plain: Option<&AsciiMatcher>,
        text: &str,
        from: usize,
    ) -> Option<Range<usize>> {
        match plain.map_or(AsciiMatch::Unsure, |plain| plain.find_at(text, from)) {
            AsciiMatch::Found(start, end) => Some(start..end),
            AsciiMatch::Nothing => None,
            AsciiMatch::Unsure => Some(self.regex()?.find_at(text, from)?.range()),
        }
    }

    /// Returns the first match at or after `from`.
    fn find_at(
        &self,
        plain: Option<&AsciiMatcher>,
        text: &str,
        mut from: usize,
    ) -> Option<Range<usize>> {
        while from <= text.len() {
            let found = self.find_any(plain, text, from)?;
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

    /// Returns all non-overlapping matches.
    pub(super) fn all<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let mut from = 0;
        let plain = self.plain.as_ref();
        let plain = plain.filter(|plain| plain.can_decide(text));
        std::iter::from_fn(move || {
            let found = self.find_at(plain, text, from)?;
            // Step over an empty match, so that the iterator terminates.
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

/// Returns the pattern of a literal: its words with separators between them.
fn literal_pattern(term: &Term) -> String {
    let words: Vec<String> = term.text.split_whitespace().map(regex::escape).collect();
    words.join(BETWEEN)
}

fn builder(pattern: &str, case: bool) -> RegexBuilder {
    let mut builder = RegexBuilder::new(pattern);
    builder.case_insensitive(!case).multi_line(true);
    builder
}

#[cfg(test)]
mod tests {
    use super::super::query::{Dialect, Expr, Query};
    use super::*;

    fn found(query: &str, text: &str) -> Vec<String> {
        let Expr::Term(term) = Query::parse(query, &Dialect::default()).unwrap().expr else {
            panic!("{query} is not one term");
        };
        let finder = TermMatcher::new(&term).unwrap();
        finder.all(text).map(|at| text[at].to_owned()).collect()
    }

    #[test]
    fn terms_match_at_word_boundaries() {
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
            (
                "\"it failed\"",
                "it \u{26a0}\u{fe0f} failed",
                "it \u{26a0}\u{fe0f} failed",
            ),
            (
                "\"it failed\"",
                "it 👩\u{200d}💻 failed",
                "it 👩\u{200d}💻 failed",
            ),
            ("\"it failed\"", "it\u{1b}[0m failed", ""),
            (
                "\"it failed\"",
                "it\u{7}\u{200b}failed",
                "it\u{7}\u{200b}failed",
            ),
            ("\"it failed\"", "it 1\u{20e3} failed; it\u{301} failed", ""),
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

    /// Returns all matches of a term, with and without the ASCII matcher.
    fn both(query: &str, text: &str) -> [Vec<Range<usize>>; 2] {
        [true, false].map(|short| {
            let Expr::Term(term) = Query::parse(query, &Dialect::default()).unwrap().expr else {
                panic!("{query} is not one term");
            };
            let mut finder = TermMatcher::new(&term).unwrap();
            finder.plain = finder.plain.filter(|_| short);
            finder.all(text).collect()
        })
    }

    const TERMS: [&str; 8] = [
        "\"skip kiss\"",
        "kiss",
        "\"a-b c_d\"",
        "kis*",
        "*iss",
        "SKIP",
        "\"a b a\"",
        "\"7 a.\"",
    ];

    /// Both matchers find the same, whatever the separator.
    #[test]
    fn ascii_matcher_agrees_with_regex_for_any_separator() {
        let ascii = (0..=0x7f_u8).map(char::from);
        let others = "é\u{a0}\u{2014}\u{2026}\u{301}\u{200d}日。🎉\u{17f}\u{212a}\u{e000}²".chars();
        for between in ascii.chain(others) {
            let text = format!(
                "Skip{between}KISS a-b{between}{between}c_d {between}kiss 7{between}a. A{between}b;;a é"
            );
            for query in TERMS {
                let [short, long] = both(query, &text);
                assert_eq!(short, long, "{query} in {text:?}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn ascii_matcher_agrees_with_regex_on_random_text(
            text in "(skip|KISS|Kiss|\u{212a}iss|\u{17f}kip|a-b|c_d|a|b|7|[ \\-._é日。\u{301}\u{2014}\n]){0,40}"
        ) {
            for query in TERMS {
                let [short, long] = both(query, &text);
                proptest::prop_assert_eq!(short, long, "{} in {:?}", query, text);
            }
        }
    }

    #[test]
    fn ascii_matcher_is_used_where_possible() {
        let taken = |query: &str| {
            let Expr::Term(term) = Query::parse(query, &Dialect::default()).unwrap().expr else {
                panic!("{query} is not one term");
            };
            let finder = TermMatcher::new(&term).unwrap();
            let _ = finder.all("some text with a kiss — and more").count();
            finder.regex.get().is_none()
        };
        assert!(taken("kiss") && taken("\"with a kiss\"") && taken("file.rs"));
        // Undecided separators, or words that do not start with an ASCII letter, need the regex.
        assert!(!taken("\"kiss and\"") && !taken("--flag") && !taken("é"));
    }

    /// A term that uses the ASCII matcher must also compile as a regex.
    #[test]
    fn short_terms_always_compile_as_regex() {
        let mut words = "k ".repeat(SHORT / 2);
        let term = Term::new_literal(words.trim_end());
        assert!(TermMatcher::new(&term).unwrap().regex().is_some());
        words.push_str("k k");
        assert!(TermMatcher::new(&Term::new_literal(&words)).is_ok());
    }
}
