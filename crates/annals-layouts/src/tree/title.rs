//! Titles, by precedence: a person's, the model's, a summary's, the first prompt.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::model::{EntryKey, Fact, Outline, TitleSource};
use crate::text::truncate_chars;

use super::{Conversation, Tree};

/// Title of a conversation, and its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    /// The title, on one line. Ends in `…` if it was cut after 1,000 characters; [`shorten`] makes
    /// it fit a heading.
    pub text: String,
    /// Source of the title.
    pub source: TitleSource,
}

/// The titles of a log's conversations.
#[derive(Debug)]
pub struct Titles<'a> {
    outlines: &'a [Outline],
    tree: &'a Tree,
    /// The title of the whole session, if it has one.
    given: Option<Title>,
    /// The summary that applies to each turn.
    summaries: Vec<Option<&'a str>>,
}

impl<'a> Titles<'a> {
    /// Finds the titles. `elsewhere` has summaries from other files, by the leaf they name;
    /// `asides` has other facts about the session from outside of its log.
    pub fn new(
        outlines: &'a [Outline],
        tree: &'a Tree,
        elsewhere: &'a HashMap<EntryKey, Box<str>>,
        asides: &'a [Fact],
    ) -> Self {
        let mut given: Option<Title> = None;
        let mut here: HashMap<EntryKey, &'a str> = HashMap::new();
        let logged = outlines.iter().flat_map(|outline| &outline.facts);
        for fact in logged.chain(asides) {
            match fact {
                Fact::Title(text, source) => {
                    let outranked = given.as_ref().is_some_and(|title| title.source > *source);
                    if !outranked && !text.trim().is_empty() {
                        given = Some(Title {
                            text: one_line(text),
                            source: *source,
                        });
                    }
                }
                Fact::Summary(text, Some(leaf)) => {
                    here.insert(*leaf, text);
                }
                _ => {}
            }
        }
        let find = |at: &usize| -> (Option<&'a str>, Option<&'a str>) {
            let Some(key) = outlines.get(*at).and_then(|outline| outline.key) else {
                return (None, None);
            };
            (
                here.get(&key).copied(),
                elsewhere.get(&key).map(|text| &**text),
            )
        };
        // A summary in this file takes precedence over one in another; the one nearest to the leaf
        // wins.
        let covered = tree.turns.inherit(
            |entries, above: Option<&(Option<&'a str>, Option<&'a str>)>| {
                let (mut same, mut other) = above.copied().unwrap_or_default();
                for (found_same, found_other) in entries.iter().map(find) {
                    same = found_same.or(same);
                    other = found_other.or(other);
                }
                (same, other)
            },
        );
        let summaries = covered
            .into_iter()
            .map(|(same, other)| same.or(other))
            .collect();
        Titles {
            outlines,
            tree,
            given,
            summaries,
        }
    }

    /// Returns the title of a conversation; `None` if it has no prompt.
    pub fn title(&self, conversation: &Conversation) -> Option<Title> {
        if let Some(given) = &self.given {
            return Some(given.clone());
        }
        let summary = self.summaries.get(conversation.turn).copied().flatten();
        if let Some(text) = summary.filter(|text| !text.trim().is_empty()) {
            return Some(Title {
                text: one_line(text),
                source: TitleSource::Summary,
            });
        }
        let prompt = self.tree.turns.path_info(conversation.turn).prompt?;
        let text = self.outlines.get(prompt)?.prompt()?;
        Some(Title {
            text: one_line(text),
            source: TitleSource::Prompt,
        })
    }

    /// Returns whether neither the session nor a summary gives the conversation a title.
    pub fn is_untitled(&self, conversation: &Conversation) -> bool {
        let summary = self.summaries.get(conversation.turn).copied().flatten();
        self.given.is_none() && summary.is_none()
    }

    /// Returns the title of the session: the title of the conversation that would be resumed or,
    /// without a given title or a summary, the first prompt of the file.
    pub fn session(&self) -> Option<Title> {
        let conversations = &self.tree.conversations;
        let resumed = self.tree.resume.and_then(|at| conversations.get(at));
        let title = resumed.and_then(|conversation| self.title(conversation));
        let named = title.filter(|title| title.source > TitleSource::Prompt);
        let first = || {
            let text = self.outlines.iter().find_map(Outline::prompt)?;
            Some(Title {
                text: one_line(text),
                source: TitleSource::Prompt,
            })
        };
        named.or_else(|| self.given.clone()).or_else(first)
    }
}

/// Shortens a title or a prompt to be shown: one line, cut after `max` characters.
pub fn shorten(text: &str, max: usize) -> String {
    truncate_chars(&one_line(text), max).into_owned()
}

/// Joins the lines of a text with spaces.
pub fn one_line(text: &str) -> String {
    if memchr::memchr2(b'\r', b'\n', text.as_bytes()).is_none() {
        return text.trim().to_owned();
    }
    let line = text.replace("\r\n", " ").replace(['\r', '\n'], " ");
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorten_cuts_between_characters_and_drops_a_dangling_joiner() {
        for (text, short) in [
            ("  a\r\nb\nc ", "a b c"),
            ("12345678", "12345678"),
            ("12345678 ", "12345678"),
            ("123456789", "12345678…"),
            ("1234567 9", "1234567…"),
            ("1234567😀 and more", "1234567😀…"),
            ("123456👨\u{200d}👩\u{200d}👧 and more", "123456👨…"),
        ] {
            assert_eq!(shorten(text, 8), short);
        }
    }
}
