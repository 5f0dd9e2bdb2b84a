//! Finds ASCII words, one after the other, in any text.
//!
//! It does what an expression of all scripts would do, which takes longer to make than a few hundred
//! records to be looked through. Where only such an expression could tell, it says that it is not sure.

use memchr::memchr2;

/// Words to look for.
#[derive(Debug)]
pub(super) struct Plain {
    words: Vec<Vec<u8>>,
    case: bool,
    /// The place of a byte in the first word that is rare in most texts, and how it is spelled.
    rare: usize,
    spelled: (u8, u8),
    /// A character that is not ASCII is another case of one of theirs.
    folds: bool,
}

/// What is known of a place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// They stand from here to there.
    Found(usize, usize),
    Nothing,
    Unsure,
}

/// From those that are rarest in English to those that are most common.
const LETTERS: &[u8] = b"zqxjvbpygfwmukcldrhsnioate";

impl Plain {
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
        let commonness = |byte: &u8| {
            let lower = byte.to_ascii_lowercase();
            LETTERS
                .iter()
                .position(|letter| *letter == lower)
                .unwrap_or(8)
        };
        let first = words.first()?.iter().enumerate();
        let (rare, byte) = first.min_by_key(|(_, byte)| commonness(byte))?;
        let spelled = match case {
            true => (*byte, *byte),
            false => (*byte, byte.to_ascii_uppercase()),
        };
        let mut letters = words.iter().flatten();
        Some(Plain {
            rare,
            spelled,
            case,
            folds: !case && letters.any(|letter| matches!(letter, b'k' | b's')),
            words,
        })
    }

    /// Whether a text says nothing that this cannot understand, between words aside.
    pub(super) fn understands(&self, text: &str) -> bool {
        // The Kelvin sign and the long s.
        text.is_ascii() || !self.folds || !text.contains(['\u{212a}', '\u{17f}'])
    }

    /// The first place at or after `from` where the words stand.
    pub(super) fn find_at(&self, text: &str, from: usize) -> Look {
        let (lower, upper) = self.spelled;
        let mut next = from + self.rare;
        loop {
            let rest = text.as_bytes().get(next..).unwrap_or_default();
            let Some(at) = memchr2(lower, upper, rest) else {
                return Look::Nothing;
            };
            let start = next + at - self.rare;
            match self.stand_at(text, start) {
                Look::Nothing => next += at + 1,
                look => return look,
            }
        }
    }

    fn stand_at(&self, text: &str, start: usize) -> Look {
        let mut at = start;
        for (number, word) in self.words.iter().enumerate() {
            if number > 0 {
                match between(text, at) {
                    Some(end) if end > at => at = end,
                    Some(_) => return Look::Nothing,
                    None => return Look::Unsure,
                }
            }
            let there = text.as_bytes().get(at..at + word.len());
            let is = there.is_some_and(|there| match self.case {
                true => there == word,
                false => there.eq_ignore_ascii_case(word),
            });
            if !is {
                return Look::Nothing;
            }
            at += word.len();
        }
        Look::Found(start, at)
    }
}

/// Where what may stand between words ends; `None` if that is not known.
fn between(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    for (at, character) in rest.char_indices() {
        let separates = match character {
            '\t'..='\r' | ' '..='/' | ':'..='@' | '['..='`' | '{'..='~' => true,
            _ if character.is_ascii() || character.is_alphanumeric() => false,
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
