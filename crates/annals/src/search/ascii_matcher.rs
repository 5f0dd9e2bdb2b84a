//! Fast search for sequences of ASCII words in any text.
//!
//! Equivalent to a Unicode regex, which takes longer to compile than a few hundred records take to
//! scan. Where only the regex can decide, the result is [`AsciiMatch::Unsure`].

use memchr::memmem;

/// Sequence of words to find.
#[derive(Debug)]
pub(super) struct AsciiMatcher {
    words: Vec<Vec<u8>>,
    case: bool,
    /// Two bytes of the first word that are rare in most texts.
    rare: [Rare; 2],
    /// True if a non-ASCII character is a case variant of one of the letters.
    folds: bool,
}

/// Byte of a word.
#[derive(Clone, Copy, Debug)]
struct Rare {
    /// Its position in the word.
    at: usize,
    byte: u8,
    /// Bit that makes a letter lower case; 0 if case matters.
    small: u8,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AsciiMatch {
    /// Start and end of a match.
    Found(usize, usize),
    Nothing,
    Unsure,
}

/// Number of positions checked in one step.
const BLOCK: usize = 32;

/// Letters from the rarest in English to the most common.
const LETTERS: &[u8] = b"zqxjvbpygfwmukcldrhsnioate";

impl AsciiMatcher {
    /// Returns `None` if the words cannot be searched this way: each must start with an ASCII
    /// letter or digit, so that it starts where the separator ends.
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
        crate::sort::by_key(&mut bytes, |rare| commonness(rare.byte));
        let rarest = *bytes.first()?;
        let mut letters = words.iter().flatten();
        Some(AsciiMatcher {
            rare: [rarest, bytes.get(1).copied().unwrap_or(rarest)],
            case,
            folds: !case && letters.any(|letter| matches!(letter, b'k' | b's')),
            words,
        })
    }

    /// Returns true if matches of the words in a text can be decided, apart from the separators.
    pub(super) fn can_decide(&self, text: &str) -> bool {
        // The Kelvin sign and the long s.
        let others = ["\u{212a}", "\u{17f}"];
        let has = |other: &&str| memmem::find(text.as_bytes(), other.as_bytes()).is_some();
        text.is_ascii() || !self.folds || !others.iter().any(has)
    }

    /// Returns the first match at or after `from`.
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

    /// Returns true if the rare bytes occur at the same position in both slices.
    fn may_begin_in(&self, one: &[u8; BLOCK], other: &[u8; BLOCK]) -> bool {
        // Written so that the compiler vectorizes it.
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

/// Returns the end of the separator between words; `None` if that is undecided.
fn between(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    for (at, character) in rest.char_indices() {
        let separates = match character {
            _ if character.is_alphanumeric() => false,
            _ if character.is_ascii() => true,
            _ if character.is_whitespace() => true,
            // Symbols, but also marks and invisible characters.
            _ => return None,
        };
        if !separates {
            return Some(from + at);
        }
    }
    Some(text.len())
}
