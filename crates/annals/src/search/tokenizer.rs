//! Word boundaries, and the tokens of the full-text index.
//!
//! A word matches literally, ignoring case, and only between boundaries. Boundaries are: between
//! letters or digits and anything else, around every character of a script written without spaces,
//! and at the humps of `camelCase` and `HTTPServer`. So `case` matches in `snake_case` and in
//! `camelCase`, and `path/to/file.rs` matches as a whole.
//!
//! Tokens follow from that: every text between boundaries starts where a token starts.

/// Maximum length of a name in characters. Longer runs of letters and digits are keys or encoded
/// bytes, and have no humps.
const LONGEST_NAME: usize = 64;

/// Maximum length of a token in bytes.
const TOKEN: usize = 24;

/// Returns true if a character is part of a word.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || is_mark(c)
}

/// Returns true for combining marks and joiners.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}'
        | '\u{64b}'..='\u{65f}' | '\u{93a}'..='\u{94f}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{200d}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// Returns true if the script of a character is written without spaces between words.
fn is_dense(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{edf}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{1100}'..='\u{11ff}' | '\u{3040}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns true if a character belongs to a run: a word of a script with spaces.
fn in_run(c: char) -> bool {
    is_word(c) && !is_dense(c)
}

/// Returns true if a hump starts at `c`, between `before` and `after`.
fn is_hump(before: char, c: char, after: Option<char>) -> bool {
    c.is_uppercase() && (!before.is_uppercase() || after.is_some_and(char::is_lowercase))
}

/// Returns true if a word can start or end at a byte offset of a text.
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

/// Returns the same character for all case variants that a search considers equal.
fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    // A letter may have several lower or upper case forms; lower, upper, lower again gives one of
    // them.
    let lower = c.to_lowercase().next().unwrap_or(c);
    let upper = lower.to_uppercase().next().unwrap_or(lower);
    upper.to_lowercase().next().unwrap_or(upper)
}

/// First bytes of a run, from one of its boundaries on, padded with zeros. Tokens compare like
/// their texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token([u64; TOKEN / 8]);

impl Token {
    /// Takes as many whole characters of a folded text as fit.
    fn from_folded(folded: &[u8]) -> Self {
        let mut end = folded.len().min(TOKEN);
        // Not within a character.
        while end < folded.len() && folded.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
            end -= 1;
        }
        Token::from_bytes(folded.get(..end).unwrap_or_default())
    }

    /// Creates a token from at most [`TOKEN`] bytes.
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

    /// Returns the bytes, padded with zeros.
    pub(crate) fn to_bytes(self) -> [u8; TOKEN] {
        let mut bytes = [0; TOKEN];
        let (words, _) = bytes.as_chunks_mut::<8>();
        let pairs = words.iter_mut().zip(self.0);
        pairs.for_each(|(to, from)| *to = from.to_be_bytes());
        bytes
    }

    /// Returns the length without padding.
    pub(crate) fn len(self) -> usize {
        let bytes = self.to_bytes();
        bytes.iter().position(|byte| *byte == 0).unwrap_or(TOKEN)
    }

    /// Returns true if `beginning` is a prefix of the token.
    pub(crate) fn starts_with(self, beginning: Token) -> bool {
        let len = beginning.len();
        self.to_bytes().get(..len) == beginning.to_bytes().get(..len)
    }

    /// Returns the token as three numbers, for custom hashing.
    pub(crate) fn to_u64s(self) -> [u64; 3] {
        self.0
    }
}

/// Splits texts into tokens.
#[derive(Debug, Default)]
pub(crate) struct Tokenizer {
    /// Current run, folded.
    run: Vec<u8>,
    /// Offsets of its humps.
    humps: Vec<usize>,
    /// Its length in characters.
    length: usize,
    /// Preceding character of a script without spaces.
    dense: Option<char>,
}

impl Tokenizer {
    /// Emits every token of a text, some more than once.
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
                    // A symbol or emoji; these can be searched too.
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

/// Token of a character that is a word by itself, with the one after it.
fn pair(first: char, second: Option<char>) -> Token {
    let mut bytes = Vec::new();
    push(&mut bytes, fold(first));
    if let Some(second) = second {
        push(&mut bytes, fold(second));
    }
    Token::from_folded(&bytes)
}

/// Token lookup that a text must satisfy to contain another text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The text has this token.
    Exact(Token),
    /// The text has a token with this prefix.
    Prefix(Token),
}

impl Lookup {
    /// Returns the token to look up.
    pub(crate) fn token(self) -> Token {
        match self {
            Lookup::Exact(token) | Lookup::Prefix(token) => token,
        }
    }
}

/// Returns the lookups that a text must satisfy if it contains `wanted`. Unless `bound`, the match
/// may start in the middle of a word; it may always end in one.
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
            // The run of the text may continue after it.
            let open = chars.peek().is_none();
            match (at > 0 || bound, open && run.len() <= TOKEN) {
                (false, _) => {}
                (true, true) => found.push(Lookup::Prefix(token)),
                (true, false) => found.push(Lookup::Exact(token)),
            }
        } else if is_dense(c) {
            match chars.peek().filter(|(_, next)| is_dense(*next)) {
                Some((_, next)) => found.push(Lookup::Exact(pair(c, Some(*next)))),
                // A prefix, because a dense character may follow it in the text.
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

    /// Letters that a search considers equal have the same fold, in all of Unicode.
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

    /// Returns true if the tokens of a text satisfy the lookups of a part of it: the invariant of
    /// the index.
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
