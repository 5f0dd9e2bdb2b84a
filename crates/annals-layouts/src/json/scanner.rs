//! Fast reader for well-formed records, which are nearly all.
//!
//! Most bytes of a log are long texts that an outline skips. This reader skips them in blocks and
//! copies nothing. It is as strict as serde: it rejects control characters, bad escapes, bad
//! numbers and anything after the value. It reports no errors: it gives up, and serde reads the
//! record again and decides on damage. It also gives up on unusual but valid records: escaped keys,
//! numbers in place of objects, deep nesting. Whatever it reads must equal what serde reads; a test
//! checks this.

use std::borrow::Cow;

use super::{Flag, Raw, Text, decode_string};

/// Deeper nesting is left to serde.
const MAX_DEPTH: u32 = 120;

/// Reads a whole text; `None` if it gives up.
pub fn parse<'a, T: FromScanner<'a>>(text: &'a str) -> Option<T> {
    let mut walk = JsonScanner::new(text);
    walk.skip_space();
    let value = T::from_scanner(&mut walk)?;
    walk.skip_space();
    walk.is_done().then_some(value)
}

/// A value that the scanner can read. The scanner starts at its first byte and ends after its last.
pub trait FromScanner<'a>: Sized {
    /// Reads a value; `None` if it gives up.
    fn from_scanner(walk: &mut JsonScanner<'a>) -> Option<Self>;
}

impl<'a> FromScanner<'a> for Raw<'a> {
    fn from_scanner(walk: &mut JsonScanner<'a>) -> Option<Self> {
        let start = walk.at;
        walk.skip()?;
        Some(Raw(Some(walk.text.get(start..walk.at)?)))
    }
}

impl<'a> FromScanner<'a> for Text<'a> {
    fn from_scanner(walk: &mut JsonScanner<'a>) -> Option<Self> {
        if walk.peek()? != b'"' {
            walk.skip()?;
            return Some(Text(None));
        }
        let (raw, plain) = walk.string_with_escape_flag()?;
        Some(Text(match plain {
            true => raw.get(1..raw.len() - 1).map(Cow::Borrowed),
            false => decode_string(raw),
        }))
    }
}

impl<'a> FromScanner<'a> for Flag {
    fn from_scanner(walk: &mut JsonScanner<'a>) -> Option<Self> {
        Raw::from_scanner(walk).map(|raw| Flag(raw.0 == Some("true")))
    }
}

/// A position in a text.
#[derive(Debug)]
pub struct JsonScanner<'a> {
    text: &'a str,
    at: usize,
    /// Whether the text has no control characters, so that strings need not be searched for any.
    clean: bool,
}

impl<'a> JsonScanner<'a> {
    /// Starts at the beginning of a text.
    pub(super) fn new(text: &'a str) -> Self {
        JsonScanner {
            text,
            at: 0,
            // Computing the minimum byte takes half the time of testing each byte.
            clean: text.bytes().fold(u8::MAX, u8::min) >= 0x20,
        }
    }

    /// Whether the end of the text is reached.
    pub(super) fn is_done(&self) -> bool {
        self.at == self.text.len()
    }

    /// Skips `spelled`, if the text continues with it.
    pub(super) fn skip_literal_text(&mut self, spelled: &str) -> Option<()> {
        let rest = self.text.as_bytes().get(self.at..)?;
        rest.starts_with(spelled.as_bytes()).then_some(())?;
        self.at += spelled.len();
        Some(())
    }

    /// The byte at the current position.
    pub fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    /// Consumes `byte` and the space before it, if it comes next.
    fn take_byte(&mut self, byte: u8) -> bool {
        // Programs write no space before it.
        if self.peek() == Some(byte) {
            self.at += 1;
            return true;
        }
        self.skip_space();
        let here = self.peek() == Some(byte);
        self.at += usize::from(here);
        here
    }

    /// Reads an object's members: calls `member` with each key, at the start of its value.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&'a str, &mut Self) -> Option<()>,
    ) -> Option<()> {
        self.take_byte(b'{').then_some(())?;
        if self.take_byte(b'}') {
            return Some(());
        }
        loop {
            self.skip_space();
            let key = self.string()?;
            self.take_byte(b':').then_some(())?;
            self.skip_space();
            member(key.get(1..key.len() - 1)?, self)?;
            if !self.take_byte(b',') {
                return self.take_byte(b'}').then_some(());
            }
        }
    }

    /// Reads an array's elements: calls `element` at the start of each.
    pub(crate) fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.take_byte(b'[').then_some(())?;
        if self.take_byte(b']') {
            return Some(());
        }
        loop {
            self.skip_space();
            element(self)?;
            if !self.take_byte(b',') {
                return self.take_byte(b']').then_some(());
            }
        }
    }

    /// Reads a value and returns it with its JSON text.
    pub(crate) fn with_text<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<(&'a str, T)> {
        let start = self.at;
        let value = read(self)?;
        Some((self.text.get(start..self.at)?, value))
    }

    /// Skips a value in place of an object or a list of blocks; gives up on numbers, which may be
    /// too large for serde.
    pub fn skip_other(&mut self) -> Option<()> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => None,
            _ => self.skip(),
        }
    }

    /// Skips the value of an unknown key; gives up if the key contains escapes.
    pub fn skip_unknown(&mut self, key: &str) -> Option<()> {
        (!key.contains('\\')).then_some(())?;
        self.skip()
    }

    /// Skips any value.
    fn skip(&mut self) -> Option<()> {
        // One bit per open bracket, innermost lowest: set for an object.
        let (mut open, mut depth) = (0u128, 0);
        loop {
            let bracket = match self.peek()? {
                b'"' => self.skip_string().map(|_| None)?,
                b'{' => Some(1),
                b'[' => Some(0),
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                _ => self.number().map(|()| None)?,
            };
            if let Some(object) = bracket {
                self.at += 1;
                if !self.take_byte(if object == 1 { b'}' } else { b']' }) {
                    depth += 1;
                    (depth <= MAX_DEPTH).then_some(())?;
                    open = open << 1 | object;
                    self.enter(object == 1)?;
                    continue;
                }
            }
            // A value ended here, and possibly its containers.
            loop {
                if depth == 0 {
                    return Some(());
                }
                let object = open & 1 == 1;
                self.skip_space();
                match (self.next()?, object) {
                    (b',', _) => break self.enter(object)?,
                    (b'}', true) | (b']', false) => {
                        open >>= 1;
                        depth -= 1;
                    }
                    _ => return None,
                }
            }
        }
    }

    /// Advances to the next value of an object or array.
    fn enter(&mut self, object: bool) -> Option<()> {
        self.skip_space();
        if object {
            self.skip_string()?;
            self.take_byte(b':').then_some(())?;
            self.skip_space();
        }
        Some(())
    }

    fn literal(&mut self, word: &str) -> Option<Option<u128>> {
        self.skip_literal_text(word).map(|()| None)
    }

    fn number(&mut self) -> Option<()> {
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => {
                self.digits();
            }
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            (self.digits() > 0).then_some(())?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            (self.digits() > 0).then_some(())?;
        }
        Some(())
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at - start
    }

    /// Reads a string; returns its text with the quotes.
    fn string(&mut self) -> Option<&'a str> {
        self.string_with_escape_flag().map(|(text, _)| text)
    }

    /// Reads a string; also returns whether it is known to have no escapes.
    fn string_with_escape_flag(&mut self) -> Option<(&'a str, bool)> {
        let start = self.at;
        let plain = self.skip_string()?;
        Some((self.text.get(start..self.at)?, plain))
    }

    /// Skips a string; returns whether it is known to have no escapes.
    fn skip_string(&mut self) -> Option<bool> {
        (self.next()? == b'"').then_some(())?;
        let bytes = self.text.as_bytes();
        let mut end = self.at;
        if self.clean {
            end += quote_or_escape(bytes.get(end..)?)?;
        }
        let plain = self.clean && bytes.get(end) == Some(&b'"');
        if !plain {
            end = match self.clean {
                true => string_end::<true>(bytes, end)?,
                false => string_end::<false>(bytes, end)?,
            };
        }
        self.at = end + 1;
        Some(plain)
    }
}

/// Index of the first quote or backslash. Most strings are short keys and values, for which
/// detecting CPU features would cost more than it saves; every x86-64 has SSE2.
#[cfg(target_arch = "x86_64")]
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    memchr::arch::x86_64::sse2::memchr::Two::new(b'"', b'\\')?.find(bytes)
}

#[cfg(not(target_arch = "x86_64"))]
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    memchr::memchr2(b'"', b'\\', bytes)
}

/// Offset of the closing quote of the string whose content starts at `at`.
///
/// Blocks without rare bytes are skipped without testing single bytes. Other blocks are processed
/// mark by mark. So is the first one, because most strings end in it.
fn string_end<const CLEAN: bool>(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        // `at` is not inside an escape, but an escape may begin here.
        let mut marks = special_bytes(bytes.get(at..)?);
        let mut next = at + BLOCK;
        while marks != 0 {
            let bit = marks.trailing_zeros() as usize;
            let here = at + bit;
            // Past the end of the text, blocks are padded with NULs.
            match bytes.get(here)? {
                b'\\' => {}
                b'"' => return Some(here),
                _ => return None,
            }
            let width = match bytes.get(here + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                b'u' => {
                    let digits = bytes.get(here + 2..here + 6)?;
                    digits.iter().all(u8::is_ascii_hexdigit).then_some(6)?
                }
                _ => return None,
            };
            next = next.max(here + width);
            marks &= u32::MAX.checked_shl((bit + width) as u32).unwrap_or(0);
        }
        at = next;
        // A backslash before `at` ends an escape; `is_common` would treat it as the start of one.
        if bytes.get(at - 1) == Some(&b'\\') {
            continue;
        }
        let start = at;
        while bytes
            .get(at - 1..)
            .and_then(<[u8]>::first_chunk)
            .is_some_and(is_common::<CLEAN>)
        {
            at += COMMON;
        }
        if at > start && bytes.get(at - 1) == Some(&b'\\') {
            at -= 1;
        }
    }
}

/// Whether a block has only text and the most common escapes. The block starts with the byte before
/// it. A clean text has no control characters to search for.
fn is_common<const CLEAN: bool>(block: &[u8; COMMON + 1]) -> bool {
    let (before, bytes) = (block.first_chunk::<COMMON>(), block.last_chunk::<COMMON>());
    let (Some(before), Some(bytes)) = (before, bytes) else {
        return false;
    };
    let mut rare = false;
    for (&before, &byte) in before.iter().zip(bytes) {
        let after = before == b'\\';
        let quote = byte == b'"';
        let escape = quote | (byte == b'n') | (byte == b't') | (byte == b'r');
        let control = !CLEAN && byte < 0x20;
        rare |= control | (after & !escape) | (quote & !after);
    }
    !rare
}

/// Smaller blocks are less likely to contain a rare byte.
const COMMON: usize = 16;
const BLOCK: usize = 32;

/// One bit for each of the first `BLOCK` bytes that is a quote, backslash or control character.
fn special_bytes(bytes: &[u8]) -> u32 {
    match bytes.first_chunk::<BLOCK>() {
        Some(block) => special_bytes_of_block(block),
        None => {
            let mut block = [0; BLOCK];
            block
                .iter_mut()
                .zip(bytes)
                .for_each(|(to, from)| *to = *from);
            special_bytes_of_block(&block)
        }
    }
}

/// Written so that compilers vectorise it without intrinsics.
fn special_bytes_of_block(block: &[u8; BLOCK]) -> u32 {
    let mut found = [0; BLOCK];
    for (found, &byte) in found.iter_mut().zip(block) {
        let special = (byte == b'"') | (byte == b'\\') | (byte < 0x20);
        *found = if special { u8::MAX } else { 0 };
    }
    // Gathers the highest bit of each of eight bytes into the highest byte of the product.
    let (words, _) = found.as_chunks::<8>();
    let gather = |marks, (at, word): (usize, &[u8; 8])| {
        let bits = u64::from_le_bytes(*word) & 0x8080_8080_8080_8080;
        marks | ((bits.wrapping_mul(0x0002_0408_1020_4081) >> 56) as u32) << (at * 8)
    };
    words.iter().enumerate().fold(0, gather)
}

#[cfg(test)]
mod tests {
    use super::super::object;
    use super::*;

    object! {
        struct Inner<'a> { "a" => a: Text<'a>, "n" => n: Raw<'a>, }
    }
    object! {
        struct Outer<'a> { "t" => t: Text<'a>, "f" => f: Flag, "r" => r: Raw<'a>, "in" => inner: Inner<'a>, }
    }

    /// Checks that serde reads the same as the scanner.
    fn check(text: &str) -> bool {
        let Some(fast) = parse::<Outer<'_>>(text) else {
            return false;
        };
        // Serde rejects lone surrogates; the record's reader replaces them.
        let mended = super::super::replace_lone_surrogates(text);
        let slow =
            serde_json::from_str::<Outer<'_>>(text).or_else(|_| serde_json::from_str(&mended));
        match slow {
            Ok(slow) => assert_eq!(format!("{fast:?}"), format!("{slow:?}"), "{text:?}"),
            Err(error) => panic!("{text:?} was read, but {error}"),
        }
        true
    }

    const PLAIN: [&str; 9] = [
        r#"{}"#,
        r#" { "t" : "x" , "f" : true , "r" : [ 1 , {} , [ ] , -0.5e+10 ] , "in" : { "a" : null } } "#,
        r#"{"t":"a long text with \"quotes\", \\ backslashes \\\\ and \u00e9\n in it, over several blocks of bytes","r":"é日本🚀"}"#,
        r#"{"t":1,"t":"last","t":"one wins","in":[1,2],"in":{"a":"b","n":15.0}}"#,
        r#"{"x":{"y":[{"z":"}]"}]},"in":"no object","f":"true","r":1e999}"#,
        r#"{"in":{"n":123456789012345678901234567890,"a":{}},"r":null,"f":false}"#,
        r#"[1,"no object",{"t":"x"}]"#,
        r#"{"t":"0123456789012345678901234567890\"1","r":"01234567890123456789012345\u0041"}"#,
        r#"{"x":"\ud800 alone","t":"fine"}"#,
    ];

    #[test]
    fn scanner_agrees_with_serde_on_plain_records() {
        for text in PLAIN {
            assert!(check(text), "gave up on {text}");
        }
    }

    #[test]
    fn scanner_gives_up_on_odd_records() {
        let deep = format!("{{\"x\":{}1{}}}", "[".repeat(200), "]".repeat(200));
        for text in ["", "1", r#"{"\u0074":"x"}"#, r#"{"in":7}"#, &deep] {
            assert!(!check(text), "{text}");
        }
    }

    #[test]
    fn scanner_agrees_with_serde_or_gives_up_on_damage_at_any_byte() {
        for text in PLAIN {
            for at in 0..=text.len() {
                let Some((head, tail)) = text.split_at_checked(at) else {
                    continue;
                };
                check(head);
                for byte in (0..0x80).map(char::from) {
                    check(&format!("{head}{byte}{tail}"));
                    check(&format!(
                        "{head}{byte}{}",
                        tail.get(1..).unwrap_or_default()
                    ));
                }
            }
        }
    }

    proptest::proptest! {
        /// Long enough for every path through blocks, with escapes across block boundaries.
        #[test]
        fn scanner_accepts_every_string_that_serde_accepts(
            inside in "(a{9}|b{31}|\\\\n|\\\\\\\\|\\\\\"|\\\\u00e9|\\\\|\"|u|n|é|\t){0,80}"
        ) {
            for key in ["t", "x"] {
                let text = format!("{{\"{key}\":\"{inside}\"}}");
                let good = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
                assert!(check(&text) == good || inside.contains('"'), "{text}");
            }
        }
    }
}
