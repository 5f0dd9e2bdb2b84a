//! Titles, by precedence: a person's, the model's, a summary's, the first prompt.

use std::collections::HashMap;

use crate::model::{EntryKey, Fact, Outline, TitleSource};

use super::{Conversation, Tree};

/// Longest title that is made of a prompt, in characters.
const MAX_TITLE_CHARS: usize = 40;

/// What a conversation is called, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Title {
    /// The title.
    pub text: String,
    /// Who gave it.
    pub source: TitleSource,
}

/// The titles of a log's conversations.
#[derive(Debug)]
pub struct Titles<'a> {
    outlines: &'a [Outline],
    tree: &'a Tree,
    /// The title of the whole session, if it has one.
    given: Option<Title>,
    /// The summary that covers each turn.
    summaries: Vec<Option<&'a str>>,
}

impl<'a> Titles<'a> {
    /// Finds the titles. `elsewhere` holds summaries from other files by the leaf they name, and
    /// `asides` what else is said about the session outside of its log.
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
        // A summary of this file counts before one of another; the one nearest to the leaf wins.
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

    /// What a conversation is called; `None` if nothing was ever asked in it.
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
            text: shorten(text),
            source: TitleSource::Prompt,
        })
    }

    /// Neither the session nor a summary gives a conversation its title.
    pub(crate) fn is_untitled(&self, conversation: &Conversation) -> bool {
        let summary = self.summaries.get(conversation.turn).copied().flatten();
        self.given.is_none() && summary.is_none()
    }

    /// The title of the session: that of the conversation which would be resumed; without a given
    /// title or a summary, the first prompt of the file.
    pub fn session(&self) -> Option<Title> {
        let conversations = &self.tree.conversations;
        let resumed = self.tree.resume.and_then(|at| conversations.get(at));
        let title = resumed.and_then(|conversation| self.title(conversation));
        let named = title.filter(|title| title.source > TitleSource::Prompt);
        let first = || {
            let text = self.outlines.iter().find_map(Outline::prompt)?;
            Some(Title {
                text: shorten(text),
                source: TitleSource::Prompt,
            })
        };
        named.or_else(|| self.given.clone()).or_else(first)
    }
}

/// A prompt as a title: one line, cut at forty characters.
pub fn shorten(text: &str) -> String {
    let line = one_line(text);
    if line.len() <= MAX_TITLE_CHARS {
        return line;
    }
    match line.char_indices().nth(MAX_TITLE_CHARS) {
        Some((end, _)) => {
            let head = line.get(..end).unwrap_or(&line);
            // A joiner joins nothing there.
            format!("{}…", head.trim_end_matches('\u{200d}').trim_end())
        }
        None => line,
    }
}

pub(crate) fn one_line(text: &str) -> String {
    if memchr::memchr2(b'\r', b'\n', text.as_bytes()).is_none() {
        return text.trim().to_owned();
    }
    let line = text.replace("\r\n", " ").replace(['\r', '\n'], " ");
    line.trim().to_owned()
}
