//! Masks secrets: keys, tokens, passwords.
//!
//! A secret becomes `[redacted:RULE]`; where its first characters are public (`ghp_`), they stay in
//! front. Rules are data, in `rules.rs`. Found is what has the shape of a secret in one text; one that
//! is split over two texts is not. Mail addresses, ids, signatures and pictures stay.

mod rules;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use regex::Regex;

use crate::error::{Error, Result};
use crate::json;
use crate::model::{Block, Body, Entry, FileChange, Key, Message, Place, Todo};

use rules::{HEADERS, NAMES, RULES, looks_random};

/// Masks secrets and counts them.
#[derive(Debug)]
pub struct Redactor {
    /// One per rule. They are asked one by one: each skips to what its shape begins with, which is
    /// faster than all at once.
    each: Vec<Regex>,
    names: Regex,
    seen: HashSet<(&'static str, Key)>,
    masked: Masked,
}

/// What was masked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Masked {
    /// Different secrets, by rule.
    pub secrets: BTreeMap<&'static str, usize>,
    /// Places where one stood.
    pub places: usize,
}

impl Masked {
    /// Different secrets of all rules.
    pub fn total(&self) -> usize {
        self.secrets.values().sum()
    }
}

impl Redactor {
    /// Compiles the rules.
    pub fn new() -> Result<Self> {
        let broken = |error: regex::Error| Error::refused(error.to_string());
        let patterns: Vec<String> = RULES.iter().map(|rule| ascii(rule.pattern)).collect();
        let each = patterns.iter().map(|pattern| Regex::new(pattern));
        Ok(Redactor {
            each: each.collect::<Result<_, _>>().map_err(broken)?,
            names: Regex::new(NAMES).map_err(broken)?,
            seen: HashSet::new(),
            masked: Masked::default(),
        })
    }

    /// What was masked so far.
    pub fn masked(&self) -> &Masked {
        &self.masked
    }

    /// Masks the secrets of a text.
    pub fn text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let found = self.find(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (start, (end, at)) in found {
            let Some(rule) = RULES.get(at) else { continue };
            let secret = text.get(start..end).unwrap_or_default();
            out.push_str(text.get(done..start).unwrap_or_default());
            out.push_str(&self.mask(secret, rule.name, rule.keep));
            done = end;
        }
        out.push_str(text.get(done..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// Masks the secrets in the strings of a JSON text, whatever their escapes, and leaves everything
    /// else as it is spelled. A member that is named like a secret is one.
    pub fn json<'a>(&mut self, json: &'a str) -> Cow<'a, str> {
        if serde_json::from_str::<serde::de::IgnoredAny>(json).is_err() {
            return self.text(json);
        }
        let mut out = String::new();
        let mut done = 0;
        // The name of the member whose value comes next.
        let mut name: Option<String> = None;
        for literal in (Literals { json, at: 0 }) {
            let spelled = json.get(literal.clone()).unwrap_or_default();
            let Some(text) = json::string(spelled) else {
                continue;
            };
            let after = json.get(literal.end..).unwrap_or_default().trim_start();
            let before = json.get(done..literal.start).unwrap_or_default().trim_end();
            let masked = match name.take().filter(|_| before.ends_with(':')) {
                Some(name) => self.member(&name, &text),
                None => self.text(&text).into_owned(),
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

    /// Masks the secrets of an entry. Its ids stay: links hang on them.
    pub fn entry(&mut self, entry: &mut Entry) {
        let Place {
            cwd,
            git_branch,
            version: _,
            channel: _,
        } = &mut entry.place;
        self.each([cwd, git_branch]);
        for (name, json) in &mut entry.members {
            *json = match json::string(json) {
                Some(text) => json::quote(&self.member(name, &text)),
                None => self.json(json).into_owned(),
            };
        }
        match &mut entry.body {
            Body::Message(message) => self.message(message),
            Body::Summary { text, .. }
            | Body::Compaction { text }
            | Body::System { text, .. }
            | Body::Attachment { text, .. }
            | Body::Title { text, .. }
            | Body::Queue { text, .. }
            | Body::Tag { text } => self.one(text),
            Body::Note { author, text } => {
                self.each([author]);
                self.one(text);
            }
            Body::Typed { text, project, .. } => {
                self.each([project]);
                self.one(text);
            }
            Body::Todos(todos) => self.todos(todos),
            Body::Files(FileChange { backups, .. }) => {
                for backup in backups {
                    self.one(&mut backup.path);
                    self.each([&mut backup.base, &mut backup.stored, &mut backup.snippet]);
                }
            }
            Body::Agent { description, .. } => self.each([description]),
            Body::Resume { .. }
            | Body::Settings { .. }
            | Body::Register(_)
            | Body::Opaque { .. } => {}
        }
    }

    /// Masks the secrets of a list of todos.
    pub fn todos(&mut self, todos: &mut [Todo]) {
        for todo in todos {
            self.one(&mut todo.content);
            self.each([&mut todo.active_form]);
        }
    }

    fn message(&mut self, message: &mut Message) {
        self.each([&mut message.stored]);
        for block in &mut message.blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &mut Block) {
        match block {
            Block::Text(text) | Block::Thinking { text, .. } => self.one(text),
            Block::ToolUse { input, .. } => {
                if let Cow::Owned(masked) = self.json(input) {
                    *input = masked;
                }
            }
            // Results are flat, so this goes one level deep.
            Block::ToolResult { output, .. } => {
                for block in output {
                    self.block(block);
                }
            }
            Block::Image { .. } => {}
            Block::Opaque { json, .. } => {
                if let Cow::Owned(masked) = self.json(json) {
                    *json = masked;
                }
            }
        }
    }

    fn each<'a>(&mut self, texts: impl IntoIterator<Item = &'a mut Option<String>>) {
        for text in texts.into_iter().flatten() {
            self.one(text);
        }
    }

    fn one(&mut self, text: &mut String) {
        if let Cow::Owned(masked) = self.text(text) {
            *text = masked;
        }
    }

    /// Masks the text of a member, by its own shape or by the member's name.
    fn member(&mut self, name: &str, text: &str) -> String {
        if HEADERS
            .iter()
            .any(|header| name.eq_ignore_ascii_case(header))
        {
            let front = format!("{name}: ");
            let line = format!("{front}{text}");
            let masked = self.text(&line);
            return masked.strip_prefix(&front).unwrap_or(text).to_owned();
        }
        let masked = self.text(text).into_owned();
        let whole = !text.contains([' ', '\n']) && looks_random(text) && text.len() >= 8;
        if masked == text && whole && self.names.is_match(name) {
            return self.mask(text, "generic-secret", 0);
        }
        masked
    }

    /// The places of secrets that do not overlap, each with its end and its rule, in order.
    fn find(&self, text: &str) -> BTreeMap<usize, (usize, usize)> {
        let mut found: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for (at, (regex, rule)) in self.each.iter().zip(RULES).enumerate() {
            for captures in regex.captures_iter(text) {
                let Some(secret) = captures.get(1) else {
                    continue;
                };
                let (start, end) = (secret.start(), secret.end());
                // What was found before does not overlap, so only the last one can reach in here.
                let before = found.range(..end).next_back();
                let taken = before.is_some_and(|(_, (end, _))| *end > start);
                if !taken && (rule.holds)(secret.as_str()) {
                    found.insert(start, (end, at));
                }
            }
        }
        found
    }

    fn mask(&mut self, secret: &str, rule: &'static str, keep: usize) -> String {
        self.masked.places += 1;
        if self.seen.insert((rule, Key::of(secret))) {
            *self.masked.secrets.entry(rule).or_default() += 1;
        }
        let public = secret.get(..keep).unwrap_or_default();
        format!("{public}[redacted:{rule}]")
    }
}

/// The engine has no tables of Unicode, so a word boundary is that of ASCII.
fn ascii(pattern: &str) -> String {
    pattern.replace(r"\b", r"(?-u:\b)")
}

/// The string literals of a JSON text that is known to be sound.
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
mod tests;
