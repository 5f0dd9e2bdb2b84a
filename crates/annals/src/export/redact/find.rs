//! Finds secrets in a text: one search for the hints of all rules, then the rules whose hints
//! occur.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;

use super::context::{CONTEXT, NAMES, PASSWORDS, VALUES};
use super::rules::{BLOCKS, Rule, TOKENS};
use super::unescape::{Escapes, UnescapedText};

/// Boundary before a token.
const BOUNDARY: &str = r"(?:(?-u:\b)|_)";

/// Returns the rules by precedence: if two match the same text, the first one applies.
pub(super) fn rules() -> impl Iterator<Item = &'static Rule> {
    [BLOCKS, VALUES, TOKENS, CONTEXT].into_iter().flatten()
}

/// Number of 64-bit words that have a bit for each rule.
const WORDS: usize =
    (BLOCKS.len() + VALUES.len() + TOKENS.len() + CONTEXT.len()).div_ceil(u64::BITS as usize);

/// The compiled rules.
#[derive(Debug)]
pub(super) struct Finder {
    rules: Vec<Compiled>,
    hints: AhoCorasick,
    /// The rule of each hint.
    owners: Vec<usize>,
    names: Regex,
    passwords: Regex,
    cut: Regex,
}

#[derive(Debug)]
struct Compiled {
    rule: &'static Rule,
    /// Compiled when one of its hints first occurs: most texts have none.
    regex: OnceLock<Option<Regex>>,
}

/// Secrets of a text by their start. They do not overlap.
pub(super) type Found = BTreeMap<usize, Secret>;

/// End and rule of a secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct Secret {
    pub(super) end: usize,
    pub(super) rule: &'static Rule,
}

impl Finder {
    pub(super) fn new() -> Result<Self, String> {
        let compiled = rules().map(|rule| Compiled {
            rule,
            regex: OnceLock::new(),
        });
        let owned = rules().enumerate();
        let owned = owned.flat_map(|(at, rule)| rule.hints.iter().map(move |hint| (at, *hint)));
        let (owners, hints): (Vec<usize>, Vec<&str>) = owned.unzip();
        let hints = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(hints)
            .map_err(|error| error.to_string())?;
        let regex = |pattern: &str| Regex::new(pattern).map_err(|error| error.to_string());
        Ok(Finder {
            rules: compiled.collect(),
            hints,
            owners,
            names: regex(NAMES)?,
            passwords: regex(PASSWORDS)?,
            cut: regex(&cut_pattern())?,
        })
    }

    /// Finds the secrets of a text, whatever escapes are in it or around it.
    pub(super) fn find(&self, text: &str) -> Found {
        let mut found = Found::new();
        let cut = ["…", "..."].iter().find_map(|end| text.strip_suffix(end));
        let text = cut.unwrap_or(text);
        let plain = UnescapedText::new(text, Escapes::Backslash);
        self.search(&plain, &mut found);
        let decoded = UnescapedText::new(text, Escapes::All);
        if decoded.text != plain.text {
            self.search(&decoded, &mut found);
        }
        if cut.is_some() {
            self.search_end(&plain, &mut found);
        }
        found
    }

    /// Returns whether a member with that name holds a secret.
    pub(super) fn is_secret_name(&self, name: &str) -> bool {
        self.names.is_match(name)
    }

    /// Returns whether a member with that name holds a password, which may be a word.
    pub(super) fn is_password_name(&self, name: &str) -> bool {
        self.passwords.is_match(name)
    }

    /// Returns the rules whose hints occur in a text, in order. Most texts are short and have none,
    /// so this does not allocate.
    fn hinted(&self, text: &str) -> impl Iterator<Item = usize> + use<> {
        let mut words = [0u64; WORDS];
        for hint in self.hints.find_overlapping_iter(text) {
            let owner = self.owners.get(hint.pattern().as_usize());
            let at = owner.copied().unwrap_or_default();
            if let Some(word) = words.get_mut(at / 64) {
                *word |= 1 << (at % 64);
            }
        }
        words.into_iter().enumerate().flat_map(|(at, mut word)| {
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros();
                word &= word.checked_sub(1)?;
                Some(at * 64 + bit as usize)
            })
        })
    }

    fn search(&self, plain: &UnescapedText<'_>, found: &mut Found) {
        let text = &*plain.text;
        for at in self.hinted(text) {
            let Some(compiled) = self.rules.get(at) else {
                continue;
            };
            let rule = compiled.rule;
            let Some(regex) = compiled.regex() else {
                continue;
            };
            let mut done = 0;
            for captures in regex.captures_iter(text) {
                let (Some(all), Some(secret)) = (captures.get(0), captures.get(1)) else {
                    continue;
                };
                if secret.start() < done {
                    continue;
                }
                let before = text.get(all.start()..secret.start()).unwrap_or_default();
                if !(rule.holds)(secret.as_str(), before) {
                    continue;
                }
                let mut range = secret.range();
                if let Some(end) = rule.end {
                    range.end = range.start + end(text.get(range.start..).unwrap_or_default());
                }
                done = range.end;
                insert(found, plain.source_range(range), rule);
            }
        }
    }

    /// Finds the start of a secret at the end of a truncated text.
    fn search_end(&self, plain: &UnescapedText<'_>, found: &mut Found) {
        let begun = self.cut.captures(&plain.text).and_then(|captures| {
            let mut groups = captures.iter().enumerate().skip(1);
            groups.find_map(|(at, group)| Some((at, group?.range())))
        });
        let Some((group, range)) = begun else { return };
        // Groups are in the order of the rules with a prefix; the last group has no prefix.
        let rule = prefixed().nth(group - 1).or_else(|| CONTEXT.last());
        if let Some(rule) = rule {
            insert(found, plain.source_range(range), rule);
        }
    }
}

impl Compiled {
    fn regex(&self) -> Option<&Regex> {
        let compile = || Regex::new(&ascii(self.rule.pattern)).ok();
        self.regex.get_or_init(compile).as_ref()
    }
}

/// Adds a secret unless it overlaps one of another rule. The same rule may match more of it once
/// more escapes are decoded.
fn insert(found: &mut Found, mut range: Range<usize>, rule: &'static Rule) {
    // The secrets found so far do not overlap, so only the last one can reach into the range.
    while let Some((&start, &before)) = found.range(..range.end).next_back() {
        if before.end <= range.start {
            break;
        }
        if !std::ptr::eq(before.rule, rule) {
            return;
        }
        found.remove(&start);
        range = range.start.min(start)..range.end.max(before.end);
    }
    if !range.is_empty() {
        let end = range.end;
        found.insert(range.start, Secret { end, rule });
    }
}

/// Returns the token rules whose hints are prefixes of the token.
fn prefixed() -> impl Iterator<Item = &'static Rule> {
    let is_long = |rule: &&Rule| rule.hints.iter().all(|hint| hint.len() >= 4);
    let public = TOKENS.iter().filter(|rule| rule.keep >= 3);
    public.filter(is_long)
}

/// Returns a pattern for the start of a secret at the end of a text: a token's prefix, or the
/// context of a secret without a shape.
fn cut_pattern() -> String {
    let tokens = prefixed().map(|rule| {
        let hints: Vec<String> = rule.hints.iter().map(|hint| regex::escape(hint)).collect();
        format!("{BOUNDARY}((?i-u:{})[A-Za-z0-9_.+/=-]+)", hints.join("|"))
    });
    let name = NAMES.trim_end_matches('$');
    let context = format!(
        r#"(?:{name}["']?[ \t]*[=:][ \t]*["']?|://[^ /:@]{{1,100}}:|(?i-u:bearer|basic)[ \t]+)([^ \t\r\n"']+)"#
    );
    let all: Vec<String> = tokens.chain([context]).collect();
    format!("(?:{})$", all.join("|"))
}

/// Makes `\b` the ASCII word boundary: other letters end a token. At the start of a pattern an
/// underscore is a boundary too, because it joins names.
fn ascii(pattern: &str) -> String {
    let (front, rest) = match pattern.strip_prefix(r"\b") {
        Some(rest) => (BOUNDARY, rest),
        None => ("", pattern),
    };
    format!("{front}{}", rest.replace(r"\b", r"(?-u:\b)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_compiles_with_one_group_and_lowercase_hints() {
        for rule in rules() {
            let regex = Regex::new(&ascii(rule.pattern)).unwrap();
            assert!(regex.captures_len() == 2, "{}", rule.name);
            assert!(!rule.hints.is_empty(), "{}", rule.name);
            let lower = |hint: &&str| !hint.bytes().any(|byte| byte.is_ascii_uppercase());
            assert!(rule.hints.iter().all(lower), "{}", rule.name);
        }
        Finder::new().unwrap();
    }
}
