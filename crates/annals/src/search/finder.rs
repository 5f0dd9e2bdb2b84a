//! Where a text that is looked for stands in another.

use std::ops::Range;

use regex::{Regex, RegexBuilder};

use super::query::{Term, TermKind};
use super::word::is_boundary;
use crate::error::{Error, Result};

/// What may stand between the words of a phrase.
const BETWEEN: &str = r"[\s\p{P}\p{S}]+";

/// Finds one term.
#[derive(Debug)]
pub(super) struct Finder {
    regex: Regex,
    bound_start: bool,
    bound_end: bool,
}

impl Finder {
    pub(super) fn new(term: &Term) -> Result<Self> {
        let (pattern, bound_start, bound_end) = match term.kind {
            TermKind::Pattern => (term.text.clone(), false, false),
            TermKind::Literal {
                open_start,
                open_end,
            } => {
                let words: Vec<String> = term.text.split_whitespace().map(regex::escape).collect();
                // Words one after the other, whatever punctuation stands between them.
                (words.join(BETWEEN), !open_start, !open_end)
            }
        };
        let built = RegexBuilder::new(&pattern)
            .case_insensitive(!term.case)
            .multi_line(true)
            .build();
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
        Ok(Finder {
            regex,
            bound_start,
            bound_end,
        })
    }

    /// The first place at or after `from` where it stands.
    pub(super) fn find_at(&self, text: &str, mut from: usize) -> Option<Range<usize>> {
        while from <= text.len() {
            let found = self.regex.find_at(text, from)?.range();
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
        std::iter::from_fn(move || {
            let found = self.find_at(text, from)?;
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
}
