//! Finds ASCII words, one after the other, in any text.
//!
//! It does what an expression of all scripts would do, which takes longer to make than a few hundred
//! records to be looked through. Where only such an expression could tell, it says that it is not sure.

use memchr::memmem;

/// Words to look for.
#[derive(Debug)]
pub(super) struct AsciiMatcher {
    words: Vec<Vec<u8>>,
    case: bool,
    /// Two bytes of the first word that are rare in most texts.
    rare: [Rare; 2],
    /// A character that is not ASCII is another case of one of theirs.
    folds: bool,
}

/// A byte of a word.
#[derive(Clone, Copy, Debug)]
struct Rare {
    /// Where it stands in the word.
    at: usize,
    byte: u8,
    /// The bit that makes letters small, if their case does not count.
    small: u8,
}

/// What is known of a place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AsciiMatch {
    /// They stand from here to there.
    Found(usize, usize),
    Nothing,
    Unsure,
}

/// So many places are looked at in one step.
const BLOCK: usize = 32;

/// From those that are rarest in English to those that are most common.
const LETTERS: &[u8] = b"zqxjvbpygfwmukcldrhsnioate";

impl AsciiMatcher {
    /// `None` if the words are not of a kind that can be looked for so: each must begin with an ASCII letter
    /// or digit, so that it begins where what stands between words ends.
    pub(super) fn new(text: &str, case: bool) -> Option<Self> {
        let words = text.split_whitespace().map(|word| match case {
            true => word.as_bytes().to_vec(),
            false => word.to_ascii_lowercase().into_bytes(),
        });
        let words: Vec<Vec<u8>> = words.collect();
        let begins = |word: &Vec<u8>| word.first().is_some_and(u8::is_ascii_alphanumeric);
        if !text.is_ascii() || !words.iter().all(begins) {
            return None;
        }
        let commonness = |byte: u8| {
            let lower = byte.to_ascii_lowercase();
            let known = LETTERS.iter().position(|letter| *letter == lower);
            known.unwrap_or(LETTERS.len() / 3)
        };
        let first = words.first()?.iter().enumerate();
        let mut bytes: Vec<Rare> = first
            .map(|(at, &byte)| Rare {
                at,
                byte,
                small: if !case && byte.is_ascii_alphabetic() {
                    0x20
                } else {
                    0
                },
            })
            .collect();
        bytes.sort_by_key(|rare| commonness(rare.byte));
        let rarest = *bytes.first()?;
        let mut letters = words.iter().flatten();
        Some(AsciiMatcher {
            rare: [rarest, bytes.get(1).copied().unwrap_or(rarest)],
            case,
            folds: !case && letters.any(|letter| matches!(letter, b'k' | b's')),
            words,
        })
    }

    /// Whether a text says nothing that this cannot understand, between words aside.
    pub(super) fn can_decide(&self, text: &str) -> bool {
        // The Kelvin sign and the long s.
        let others = ["\u{212a}", "\u{17f}"];
        let has = |other: &&str| memmem::find(text.as_bytes(), other.as_bytes()).is_some();
        text.is_ascii() || !self.folds || !others.iter().any(has)
    }

    /// The first place at or after `from` where the words stand.
    pub(super) fn find_at(&self, text: &str, from: usize) -> AsciiMatch {
        let bytes = text.as_bytes();
        let mut at = from;
        while at < bytes.len() {
            let [one, other] = self.rare.map(|rare| bytes.get(at + rare.at..));
            let blocks = [one, other].map(|rest| rest.and_then(<[u8]>::first_chunk));
            let end = at + BLOCK;
            if let [Some(one), Some(other)] = blocks
                && !self.may_begin_in(one, other)
            {
                at = end;
                continue;
            }
            for start in at..end.min(bytes.len()) {
                match self.match_at(text, start) {
                    AsciiMatch::Nothing => {}
                    look => return look,
                }
            }
            at = end;
        }
        AsciiMatch::Nothing
    }

    /// Whether the rare bytes stand as in the first word, somewhere in the bytes at their places.
    fn may_begin_in(&self, one: &[u8; BLOCK], other: &[u8; BLOCK]) -> bool {
        // Written so that compilers make vector instructions of it.
        let [first, second] = self.rare;
        let mut found = false;
        for (one, other) in one.iter().zip(other) {
            let is = (one | first.small == first.byte) & (other | second.small == second.byte);
            found |= is;
        }
        found
    }

    fn match_at(&self, text: &str, start: usize) -> AsciiMatch {
        let mut at = start;
        for (number, word) in self.words.iter().enumerate() {
            if number > 0 {
                match between(text, at) {
                    Some(end) if end > at => at = end,
                    Some(_) => return AsciiMatch::Nothing,
                    None => return AsciiMatch::Unsure,
                }
            }
            let there = text.as_bytes().get(at..at + word.len());
            let is = there.is_some_and(|there| match self.case {
                true => there == word,
                false => there.eq_ignore_ascii_case(word),
            });
            if !is {
                return AsciiMatch::Nothing;
            }
            at += word.len();
        }
        AsciiMatch::Found(start, at)
    }
}

/// Where what may stand between words ends; `None` if that is not known.
fn between(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    for (at, character) in rest.char_indices() {
        let separates = match character {
            _ if character.is_alphanumeric() => false,
            _ if character.is_ascii() => true,
            _ if character.is_whitespace() => true,
            // Signs of all kinds, but also marks and what shows nothing.
            _ => return None,
        };
        if !separates {
            return Some(from + at);
        }
    }
    Some(text.len())
}
