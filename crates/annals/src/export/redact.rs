//! Masks secrets: keys, tokens, passwords.
//!
//! A secret becomes `[redacted:RULE]`; public leading characters (`ghp_`) are kept in front. Rules
//! are data: `rules.rs` has secrets with a known shape, `context.rs` secrets recognized by their
//! context. `unescape.rs` removes escapes and `find.rs` applies the rules. A secret that is split
//! over two texts is not found. Text that will be truncated is masked first. Mail addresses, ids,
//! signatures and images are not masked.

mod check;
mod context;
mod entry;
mod find;
mod rules;
mod unescape;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use crate::error::{Error, Result};
use annals_layouts::json;
use annals_layouts::model::EntryKey;

use check::{is_assigned, is_pair_in_base64, is_password_word, is_short_password};
use context::HEADERS;
use find::{Finder, Secret};
use unescape::{Escapes, UnescapedText};

/// The compiled rules, shared by all redactors.
static FINDER: LazyLock<std::result::Result<Finder, String>> = LazyLock::new(Finder::new);

/// Masks secrets and counts them.
#[derive(Debug)]
pub struct Redactor {
    finder: &'static Finder,
    seen: HashSet<(&'static str, EntryKey)>,
    masked: MaskedSecrets,
}

/// Counts of masked secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaskedSecrets {
    /// Distinct secrets, by rule.
    pub secrets: BTreeMap<&'static str, usize>,
    /// Number of places where a secret was masked.
    pub places: usize,
}

impl MaskedSecrets {
    /// Returns the number of distinct secrets.
    pub fn total(&self) -> usize {
        self.secrets.values().sum()
    }
}

impl Redactor {
    /// Creates a redactor.
    pub fn new() -> Result<Self> {
        let finder = FINDER.as_ref();
        Ok(Redactor {
            finder: finder.map_err(|error| Error::refused(error.clone()))?,
            seen: HashSet::new(),
            masked: MaskedSecrets::default(),
        })
    }

    /// Returns the counts so far.
    pub fn masked(&self) -> &MaskedSecrets {
        &self.masked
    }

    /// Masks the secrets of a text.
    pub fn mask_text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let found = self.finder.find(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (start, Secret { end, rule }) in found {
            let secret = text.get(start..end).unwrap_or_default();
            out.push_str(text.get(done..start).unwrap_or_default());
            out.push_str(&self.mask(secret, rule.name, rule.keep));
            done = end;
        }
        out.push_str(text.get(done..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// Masks the secrets in the strings of a JSON text, whatever their escapes. Everything else is
    /// unchanged. A member's name can mark its value as a secret.
    pub fn mask_json<'a>(&mut self, json: &'a str) -> Cow<'a, str> {
        if serde_json::from_str::<serde::de::IgnoredAny>(json).is_err() {
            return self.mask_text(json);
        }
        let mut out = String::new();
        let mut done = 0;
        // The name of the member whose value comes next.
        let mut name: Option<String> = None;
        // Value of a member `name`, which names the member `value` after it.
        let mut named: Option<String> = None;
        for literal in (Literals { json, at: 0 }) {
            let spelled = json.get(literal.clone()).unwrap_or_default();
            let Some(text) = json::decode_string(spelled) else {
                continue;
            };
            let after = json.get(literal.end..).unwrap_or_default().trim_start();
            let before = json.get(done..literal.start).unwrap_or_default().trim_end();
            let masked = match name.take().filter(|_| before.ends_with(':')) {
                Some(name) => {
                    let is = |word: &str| name.eq_ignore_ascii_case(word);
                    let owner = named.take().filter(|_| is("value"));
                    if is("name") || is("key") {
                        named = Some(text.to_string());
                    }
                    self.mask_member(owner.as_deref().unwrap_or(&name), &text)
                }
                None => self.mask_text(&text).into_owned(),
            };
            if after.starts_with(':') {
                name = Some(text.to_string());
            }
            if masked != *text {
                out.push_str(json.get(done..literal.start).unwrap_or_default());
                out.push_str(&json::quote(&masked));
                done = literal.end;
            }
        }
        if done == 0 {
            return Cow::Borrowed(json);
        }
        out.push_str(json.get(done..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// Masks the value of a member, by its shape or by the member's name.
    fn mask_member(&mut self, name: &str, text: &str) -> String {
        if HEADERS
            .iter()
            .any(|header| name.eq_ignore_ascii_case(header))
        {
            let front = format!("{name}: ");
            let line = format!("{front}{text}");
            let masked = self.mask_text(&line);
            return masked.strip_prefix(&front).unwrap_or(text).to_owned();
        }
        let masked = self.mask_text(text).into_owned();
        if masked != text || text.contains([' ', '\n']) {
            return masked;
        }
        if name == "auth" && is_pair_in_base64(text, "") {
            return self.mask(text, "docker-auth", 0);
        }
        let is_password = self.finder.is_password_name(name)
            && (is_password_word(text, name) || is_short_password(text, name));
        let is_secret = self.finder.is_secret_name(name) && is_assigned(text, name);
        if text.len() >= 6 && (is_secret || is_password) {
            return self.mask(text, "generic-secret", 0);
        }
        masked
    }

    fn mask(&mut self, secret: &str, rule: &'static str, keep: usize) -> String {
        self.masked.places += 1;
        if self.seen.insert((rule, EntryKey::from_text(secret))) {
            *self.masked.secrets.entry(rule).or_default() += 1;
        }
        let plain = UnescapedText::new(secret, Escapes::Backslash).text;
        let public = plain.get(..keep).unwrap_or_default();
        format!("{public}[redacted:{rule}]")
    }
}

/// Iterator over the string literals of a valid JSON text.
struct Literals<'a> {
    json: &'a str,
    at: usize,
}

impl Iterator for Literals<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let rest = self.json.as_bytes().get(self.at..)?;
        let start = self.at + memchr::memchr(b'"', rest)?;
        let mut end = start + 1;
        loop {
            let rest = self.json.as_bytes().get(end..)?;
            let next = memchr::memchr2(b'"', b'\\', rest)?;
            end += next + 1;
            match rest.get(next) {
                Some(b'\\') => end += 1,
                _ => break,
            }
        }
        self.at = end;
        Some(start..end)
    }
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod tests;
