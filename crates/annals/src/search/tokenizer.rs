//! Where words begin and end, and the tokens by which an index finds them.
//!
//! A word is looked for as it is written, letter case aside, and must stand between boundaries. Those
//! are where letters and digits meet anything else, both sides of every character of a script
//! that is written without spaces, and the humps of `camelCase` and `HTTPServer`. So `case` is found
//! in `snake_case` and in `camelCase`, and `path/to/file.rs` is one thing that is found whole.
//!
//! Tokens follow from that: whatever is found between boundaries begins where a token begins.

/// Longer runs of letters and digits are no names, but keys and encoded bytes: they have no humps.
const LONGEST_NAME: usize = 64;

/// A token is at most that many bytes of a run.
const TOKEN: usize = 24;

/// Whether a character is part of a word.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || is_mark(c)
}

/// Accents that stand as characters of their own, and joiners.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}'
        | '\u{64b}'..='\u{65f}' | '\u{93a}'..='\u{94f}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{200d}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// Whether a character's script is written without spaces between words.
fn is_dense(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{edf}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{1100}'..='\u{11ff}' | '\u{3040}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}

/// Whether a character belongs to a run: to a word of a script with spaces.
fn in_run(c: char) -> bool {
    is_word(c) && !is_dense(c)
}

/// Whether a hump begins at `c`, after `before` and before `after`.
fn is_hump(before: char, c: char, after: Option<char>) -> bool {
    c.is_uppercase() && (!before.is_uppercase() || after.is_some_and(char::is_lowercase))
}

/// Whether a word can begin or end at a place of a text.
pub(super) fn is_boundary(text: &str, at: usize) -> bool {
    let Some((before, after)) = text.split_at_checked(at) else {
        return false;
    };
    let (Some(last), Some(first)) = (before.chars().next_back(), after.chars().next()) else {
        return true;
    };
    if !in_run(last) || !in_run(first) {
        return true;
    }
    if !is_hump(last, first, after.chars().nth(1)) {
        return false;
    }
    let within = |c: &char| in_run(*c);
    let length = before
        .chars()
        .rev()
        .take_while(within)
        .take(LONGEST_NAME + 1)
        .count()
        + after
            .chars()
            .take_while(within)
            .take(LONGEST_NAME + 1)
            .count();
    length <= LONGEST_NAME
}

/// A character as all its cases are spelled. Whatever a search takes for the same letter has the same.
fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    // A letter may have several small or several capital forms; down, up and down again they meet.
    let lower = c.to_lowercase().next().unwrap_or(c);
    let upper = lower.to_uppercase().next().unwrap_or(lower);
    upper.to_lowercase().next().unwrap_or(upper)
}

/// The first bytes of a run, from one of its boundaries on, with zeros after them. Tokens compare as
/// their texts do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token([u64; TOKEN / 8]);

impl Token {
    /// Whole characters of a folded text, as many as fit.
    fn from_folded(folded: &[u8]) -> Self {
        let mut end = folded.len().min(TOKEN);
        // Not within a character.
        while end < folded.len() && folded.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
            end -= 1;
        }
        Token::from_bytes(folded.get(..end).unwrap_or_default())
    }

    /// A token from its bytes, of which it has no more than fit.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut padded = [0; TOKEN];
        padded
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
        let (words, _) = padded.as_chunks::<8>();
        let mut token = Token::default();
        let pairs = token.0.iter_mut().zip(words);
        pairs.for_each(|(to, from)| *to = u64::from_be_bytes(*from));
        token
    }

    /// Its bytes, with zeros after them.
    pub(crate) fn to_bytes(self) -> [u8; TOKEN] {
        let mut bytes = [0; TOKEN];
        let (words, _) = bytes.as_chunks_mut::<8>();
        let pairs = words.iter_mut().zip(self.0);
        pairs.for_each(|(to, from)| *to = from.to_be_bytes());
        bytes
    }

    /// How many of its bytes are not the zeros after them.
    pub(crate) fn len(self) -> usize {
        let bytes = self.to_bytes();
        bytes.iter().position(|byte| *byte == 0).unwrap_or(TOKEN)
    }

    /// Whether it begins as another does.
    pub(crate) fn starts_with(self, beginning: Token) -> bool {
        let len = beginning.len();
        self.to_bytes().get(..len) == beginning.to_bytes().get(..len)
    }

    /// The three numbers it is, for those who hash it themselves.
    pub(crate) fn to_u64s(self) -> [u64; 3] {
        self.0
    }
}

/// Cuts texts into tokens.
#[derive(Debug, Default)]
pub(crate) struct Tokenizer {
    /// The run that is looked at, folded.
    run: Vec<u8>,
    /// Where its humps begin.
    humps: Vec<usize>,
    /// How many characters it has.
    length: usize,
    /// The character of a script without spaces that came just before.
    dense: Option<char>,
}

impl Tokenizer {
    /// Gives every token of a text, some more than once.
    pub(crate) fn tokenize(&mut self, text: &str, give: &mut dyn FnMut(Token)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        let mut before = ' ';
        while let Some(&byte) = bytes.get(at) {
            if byte.is_ascii_alphanumeric() {
                self.end_dense(give);
                if byte.is_ascii_uppercase() && self.length > 0 {
                    let after = text.get(at + 1..).and_then(|rest| rest.chars().next());
                    if is_hump(before, byte.into(), after) {
                        self.humps.push(self.run.len());
                    }
                }
                self.run.push(byte.to_ascii_lowercase());
                self.length += 1;
                before = byte.into();
                at += 1;
            } else if byte.is_ascii() {
                self.end_run(give);
                self.end_dense(give);
                at += 1;
            } else {
                let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) else {
                    break;
                };
                at += c.len_utf8();
                if in_run(c) {
                    self.end_dense(give);
                    let after = text.get(at..).and_then(|rest| rest.chars().next());
                    if self.length > 0 && is_hump(before, c, after) {
                        self.humps.push(self.run.len());
                    }
                    push(&mut self.run, fold(c));
                    self.length += 1;
                    before = c;
                    continue;
                }
                self.end_run(give);
                if is_dense(c) {
                    if let Some(first) = self.dense.replace(c) {
                        give(pair(first, Some(c)));
                    }
                } else {
                    self.end_dense(give);
                    // A picture or a sign, which people look for too.
                    if !c.is_whitespace() {
                        give(pair(c, None));
                    }
                }
            }
        }
        self.end_run(give);
        self.end_dense(give);
    }

    fn end_run(&mut self, give: &mut dyn FnMut(Token)) {
        if self.run.is_empty() {
            return;
        }
        give(Token::from_folded(&self.run));
        if self.length <= LONGEST_NAME {
            for hump in &self.humps {
                give(Token::from_folded(
                    self.run.get(*hump..).unwrap_or_default(),
                ));
            }
        }
        self.run.clear();
        self.humps.clear();
        self.length = 0;
    }

    fn end_dense(&mut self, give: &mut dyn FnMut(Token)) {
        if let Some(last) = self.dense.take() {
            give(pair(last, None));
        }
    }
}

fn push(bytes: &mut Vec<u8>, c: char) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// One character that is found by itself, with the one after it.
fn pair(first: char, second: Option<char>) -> Token {
    let mut bytes = Vec::new();
    push(&mut bytes, fold(first));
    if let Some(second) = second {
        push(&mut bytes, fold(second));
    }
    Token::from_folded(&bytes)
}

/// What an index must have of a text in which some other text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// This token.
    Exact(Token),
    /// A token that begins so.
    Prefix(Token),
}

impl Lookup {
    /// What is looked up.
    pub(crate) fn token(self) -> Token {
        match self {
            Lookup::Exact(token) | Lookup::Prefix(token) => token,
        }
    }
}

/// The tokens that a text must have in which `wanted` stands between boundaries. One that is not
/// `bound` at its start may begin in the middle of a word; at its end every one may.
pub(crate) fn lookups(wanted: &str, bound: bool) -> Vec<Lookup> {
    let mut found = Vec::new();
    let mut chars = wanted.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if in_run(c) {
            let mut run = Vec::new();
            push(&mut run, fold(c));
            while let Some((_, c)) = chars.next_if(|(_, c)| in_run(*c)) {
                push(&mut run, fold(c));
            }
            let token = Token::from_folded(&run);
            // Where it ends the text's run may go on.
            let open = chars.peek().is_none();
            match (at > 0 || bound, open && run.len() <= TOKEN) {
                (false, _) => {}
                (true, true) => found.push(Lookup::Prefix(token)),
                (true, false) => found.push(Lookup::Exact(token)),
            }
        } else if is_dense(c) {
            match chars.peek().filter(|(_, next)| is_dense(*next)) {
                Some((_, next)) => found.push(Lookup::Exact(pair(c, Some(*next)))),
                // Unless it is the second of a pair that is looked for already.
                None => found.push(Lookup::Prefix(pair(c, None))),
            }
        } else if !c.is_ascii() && !c.is_whitespace() {
            found.push(Lookup::Exact(pair(c, None)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        Tokenizer::default().tokenize(text, &mut |token| {
            let bytes = token.to_bytes();
            found.push(String::from_utf8(bytes[..token.len()].to_vec()).unwrap());
        });
        found
    }

    #[test]
    fn tokenizer_splits_names_at_word_boundaries() {
        for (text, expected) in [
            ("Hello, world", "hello world"),
            ("snake_case2", "snake case2"),
            ("camelCase", "camelcase case"),
            ("HTTPServer", "httpserver server"),
            ("parseHTTP2Now", "parsehttp2now http2now now"),
            ("path/to/file.rs", "path to file rs"),
            ("l'Été", "l été"),
            ("日本語", "日本 本語 語"),
            ("a日b", "a 日 b"),
            ("done 🎉!", "done 🎉"),
            ("한국어로", "한국 국어 어로 로"),
            ("", ""),
        ] {
            assert_eq!(tokens(text).join(" "), expected, "{text}");
        }
        let long = "aB".repeat(33);
        assert_eq!(tokens(&long), [long[..24].to_lowercase()]);
    }

    #[test]
    fn boundaries_are_between_words() {
        let boundaries = |text: &str| {
            let places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            let places = places.filter(|at| is_boundary(text, *at));
            places
                .map(|at| at.to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (text, expected) in [
            ("ab cd", "0 2 3 5"),
            ("snake_case", "0 5 6 10"),
            ("camelCase", "0 5 9"),
            ("HTTPServer", "0 4 10"),
            ("x86", "0 3"),
            ("日本", "0 3 6"),
        ] {
            assert_eq!(boundaries(text), expected, "{text}");
        }
    }

    /// Letters that a search takes for the same have the same fold, in all of Unicode.
    #[test]
    fn all_cases_of_a_letter_fold_alike() {
        use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
            class.case_fold_simple();
            for range in class.iter() {
                for other in range.start()..=range.end() {
                    assert_eq!(fold(c), fold(other), "{c} {other}");
                    assert_eq!(is_word(c), is_word(other), "{c} {other}");
                }
            }
        }
    }

    /// The law of the index: where a text is found between boundaries, its tokens are there too.
    fn is_found_by_tokens(text: &str, from: usize, to: usize, bound: bool) -> bool {
        let mut there = Vec::new();
        Tokenizer::default().tokenize(text, &mut |token| there.push(token));
        lookups(&text[from..to], bound)
            .iter()
            .all(|lookup| match lookup {
                Lookup::Exact(token) => there.contains(token),
                Lookup::Prefix(token) => there.iter().any(|one| one.starts_with(*token)),
            })
    }

    proptest::proptest! {
        #[test]
        fn text_between_boundaries_is_found_by_its_tokens(
            text in "[a-cA-C0-1_/ .é日本🎉ſK-]{0,90}",
            from in 0..90usize,
            to in 0..90usize,
        ) {
            let places: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
            let from = places[from % places.len()];
            let to = places[to % places.len()];
            if from < to {
                if is_boundary(&text, from) {
                    proptest::prop_assert!(is_found_by_tokens(&text, from, to, true));
                }
                proptest::prop_assert!(is_found_by_tokens(&text, from, to, false));
            }
        }
    }
}
