//! Text without escapes, against which the rules are matched.
//!
//! Colour codes in all notations, backslash escapes of any depth (`\"`, `\\n`, `\u003d`), percent
//! escapes, HTML entities and characters without a width obscure where a secret begins and ends.
//! [`UnescapedText`] removes or decodes them and maps every range back to the source. Only ASCII is
//! decoded, because secrets contain nothing else.

use std::borrow::Cow;
use std::ops::Range;

use annals_layouts::text::is_hostile;

/// The escapes to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escapes {
    /// Colour codes, characters without a width, and backslash escapes.
    Backslash,
    /// Percent escapes and HTML entities too. What is removed otherwise becomes a space here.
    All,
}

/// A text without its escapes.
#[derive(Debug)]
pub(super) struct UnescapedText<'a> {
    pub(super) text: Cow<'a, str>,
    source: &'a str,
    escapes: Escapes,
    /// Some offsets between escapes; empty if there are no escapes. All of them would take many
    /// times the memory of the text, so a lookup decodes the escapes between two of them again.
    places: Vec<OffsetPair>,
}

/// The same place in both texts.
#[derive(Clone, Copy, Debug, Default)]
struct OffsetPair {
    plain: usize,
    source: usize,
    /// Minimum number of bytes before the next escape.
    clear: usize,
}

/// C1 control character that begins a sequence without ESC.
const CSI: &[u8] = "\u{9b}".as_bytes();

/// The Unicode symbol for ESC.
const PICTURE: &[u8] = "\u{241b}".as_bytes();

/// Minimum distance of two offsets in the source, unless as many bytes without escapes follow.
const MAX_GAP: usize = 256;

/// A decoded escape.
enum Meaning {
    /// An ASCII character.
    Byte(u8),
    /// Not part of a word.
    Nothing,
}

impl<'a> UnescapedText<'a> {
    /// Decodes a text; borrows it if it has no escapes.
    pub(super) fn new(text: &'a str, escapes: Escapes) -> Self {
        let mut decoded = String::new();
        let mut places: Vec<OffsetPair> = Vec::new();
        let mut at = OffsetPair::default();
        let mut keep = |mut place: OffsetPair, next: usize| {
            place.clear = next - place.source;
            let last = places.last().map(|last: &OffsetPair| last.source);
            if last.is_none_or(|last| place.source - last >= MAX_GAP || place.clear >= MAX_GAP) {
                places.push(place);
            }
        };
        for (range, byte) in EscapeIter::new(text, 0..text.len(), escapes) {
            keep(at, range.start);
            decoded.push_str(text.get(at.source..range.start).unwrap_or_default());
            decoded.extend(byte.map(char::from));
            at.plain = decoded.len();
            at.source = range.end;
        }
        let plain = match at.source {
            0 => Cow::Borrowed(text),
            source => {
                keep(at, text.len());
                decoded.push_str(text.get(source..).unwrap_or_default());
                Cow::Owned(decoded)
            }
        };
        UnescapedText {
            text: plain,
            source: text,
            escapes,
            places,
        }
    }

    /// Maps a range to the source.
    pub(super) fn source_range(&self, range: Range<usize>) -> Range<usize> {
        if range.is_empty() {
            let at = self.source_byte(range.start).start;
            return at..at;
        }
        self.source_byte(range.start).start..self.source_byte(range.end - 1).end
    }

    /// Maps one byte to the source.
    fn source_byte(&self, at: usize) -> Range<usize> {
        let after = self.places.partition_point(|place| place.plain <= at);
        let before = after.checked_sub(1).and_then(|last| self.places.get(last));
        let mut place = before.copied().unwrap_or_default();
        let end = self.places.get(after).map(|next| next.source);
        let end = end.unwrap_or(self.source.len());
        if !self.places.is_empty() && at - place.plain >= place.clear {
            for (range, byte) in EscapeIter::new(self.source, place.source..end, self.escapes) {
                let plain = place.plain + (range.start - place.source);
                if plain > at {
                    break;
                }
                if plain == at && byte.is_some() {
                    return range;
                }
                place.plain = plain + usize::from(byte.is_some());
                place.source = range.end;
            }
        }
        let start = place.source + (at - place.plain);
        start..start + 1
    }
}

/// Iterator over the escapes that begin in a part of a text: the range of each and its decoded
/// byte.
struct EscapeIter<'a> {
    bytes: &'a [u8],
    part: Range<usize>,
    escapes: Escapes,
    /// Offset of the next character of each group that may begin an escape; `None` until searched.
    next: [Option<usize>; 5],
}

impl<'a> EscapeIter<'a> {
    fn new(text: &'a str, part: Range<usize>, escapes: Escapes) -> Self {
        EscapeIter {
            bytes: text.as_bytes(),
            part,
            escapes,
            next: [None; 5],
        }
    }

    /// Returns the offset of the next character that may begin an escape. Each group is searched
    /// again only after its last match, so that all searches together are linear.
    fn mark(&mut self) -> Option<usize> {
        let Range { start, end } = self.part;
        let rest = self.bytes.get(start..end)?;
        let search = |found: &mut Option<usize>, find: &dyn Fn() -> Option<usize>| {
            let known = found.filter(|found| *found >= start);
            *found.insert(known.unwrap_or_else(|| find().map_or(usize::MAX, |at| start + at)))
        };
        let [backslash, bracket, other, control, unseen] = &mut self.next;
        let mut next = search(backslash, &|| memchr::memchr3(b'\\', b'\x1b', b'^', rest));
        next = next.min(search(bracket, &|| introducer(rest)));
        next = next.min(search(control, &|| {
            memchr::memchr3(0, b'\x08', b'\x7f', rest)
        }));
        next = next.min(search(unseen, &|| find_unseen(rest)));
        if self.escapes == Escapes::All {
            next = next.min(search(other, &|| memchr::memchr2(b'%', b'&', rest)));
        }
        (next < end).then_some(next)
    }
}

impl Iterator for EscapeIter<'_> {
    type Item = (Range<usize>, Option<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let start = self.mark()?;
            let Some((meaning, len)) = escape(self.bytes, start, self.escapes) else {
                // If a run of backslashes escapes nothing, a shorter one does not either.
                let rest = self.bytes.get(start..)?.iter();
                let run = rest.take_while(|byte| **byte == b'\\').count();
                self.part.start = start + run.max(1);
                continue;
            };
            self.part.start = start + len;
            let byte = match (meaning, self.escapes) {
                (Meaning::Byte(byte), _) => Some(byte),
                (Meaning::Nothing, Escapes::Backslash) => None,
                (Meaning::Nothing, Escapes::All) => Some(b' '),
            };
            return Some((start..start + len, byte));
        }
    }
}

/// Decodes the escape at an offset and returns its length.
fn escape(bytes: &[u8], at: usize, escapes: Escapes) -> Option<(Meaning, usize)> {
    let rest = bytes.get(at..)?;
    if let Some(len) = unseen(rest) {
        return Some((Meaning::Nothing, len));
    }
    match (rest.first()?, escapes) {
        (0 | b'\x08' | b'\x7f', _) => Some((Meaning::Nothing, 1)),
        (b'\x1b', _) => Some((Meaning::Nothing, 1 + sequence(rest.get(1..)?))),
        // As written by `cat -v`.
        (b'^', _) if rest.starts_with(b"^[[") => {
            Some((Meaning::Nothing, 2 + sequence(rest.get(2..)?)))
        }
        (b'[', _) => Some((Meaning::Nothing, colour(rest)?)),
        (0xc2, _) => {
            let after = rest.strip_prefix(CSI)?;
            Some((Meaning::Nothing, CSI.len() + parameters(after)))
        }
        (0xe2, _) => {
            let after = rest.strip_prefix(PICTURE)?;
            Some((Meaning::Nothing, PICTURE.len() + sequence(after)))
        }
        (b'\\', _) => backslash(rest),
        (b'%', Escapes::All) => percent(rest),
        (b'&', Escapes::All) => entity(rest),
        _ => None,
    }
}

/// Returns the offset of the next character that nobody sees.
fn find_unseen(rest: &[u8]) -> Option<usize> {
    let mut starts = memchr::memchr3_iter(0xc2, 0xe2, 0xef, rest);
    starts.find(|at| rest.get(*at..).and_then(unseen).is_some())
}

/// Returns the length of a character that nobody sees: a soft hyphen, a joiner, a zero-width space.
fn unseen(rest: &[u8]) -> Option<usize> {
    let len = match rest.first()? {
        0xc2 => 2,
        0xe2 | 0xef => 3,
        _ => return None,
    };
    let c = str::from_utf8(rest.get(..len)?).ok()?.chars().next()?;
    is_unseen(c).then_some(len)
}

fn is_unseen(c: char) -> bool {
    is_hostile(c) && !c.is_control()
}

/// Returns the offset of the next `[`, CSI or ESC symbol. The last two end with the same byte.
fn introducer(rest: &[u8]) -> Option<usize> {
    let at = memchr::memchr2(b'[', 0x9b, rest)?;
    let through = rest.get(..=at)?;
    let spelled = [CSI, PICTURE]
        .into_iter()
        .find(|spelled| through.ends_with(spelled));
    Some(at + 1 - spelled.map_or(1, <[u8]>::len))
}

/// Returns the length of a control sequence after its ESC. The text of a link or a title is kept,
/// because it may contain a secret.
fn sequence(rest: &[u8]) -> usize {
    match rest.first() {
        Some(b'[') => 1 + parameters(rest.get(1..).unwrap_or_default()),
        Some(b']' | b'\\' | b'=' | b'>' | b'7' | b'8' | b'c' | b'M') => 1,
        Some(b'(' | b')') => 1 + usize::from(matches!(rest.get(1), Some(0x30..=0x7e))),
        _ => 0,
    }
}

/// Returns the length of a control sequence after its introducer: parameters and final byte.
fn parameters(rest: &[u8]) -> usize {
    /// Terminals accept no longer ones.
    const LONGEST: usize = 64;
    let params = rest.iter().take(LONGEST);
    let end = params
        .take_while(|byte| matches!(byte, 0x20..=0x3f))
        .count();
    end + usize::from(matches!(rest.get(end), Some(0x40..=0x7e)))
}

/// Returns the length of a colour code without its ESC, as in build logs: `[31m`, `[0;1m`, `[0K`.
fn colour(rest: &[u8]) -> Option<usize> {
    let params = rest.iter().skip(1).take(24);
    let params = params
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
        .count();
    let end = 1 + params;
    (params > 0 && matches!(rest.get(end), Some(b'm' | b'K'))).then_some(end + 1)
}

/// Decodes a run of backslashes and the escaped character. Nested JSON doubles them at every level.
fn backslash(rest: &[u8]) -> Option<(Meaning, usize)> {
    let run = rest.iter().take_while(|byte| **byte == b'\\').count();
    let after = rest.get(run..)?;
    let hex = |digits: std::ops::Range<usize>| -> Option<u8> {
        let len = digits.len();
        let digits = std::str::from_utf8(after.get(digits)?).ok()?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = u32::from_str_radix(digits, 16)
            .ok()
            .filter(|_| is_hex && len > 0)?;
        u8::try_from(code).ok().filter(u8::is_ascii)
    };
    let hidden = after.get(1..5).and_then(|digits| {
        let code = u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        char::from_u32(code).filter(|c| is_unseen(*c))
    });
    let (byte, len) = match after.first()? {
        // A line continuation in a shell command inside JSON.
        b'n' if run == 3 => (b' ', 1),
        b'\n' => (b' ', 1),
        b'\r' if after.get(1) == Some(&b'\n') => (b' ', 2),
        b'n' => (b'\n', 1),
        b'r' => (b'\r', 1),
        b't' => (b'\t', 1),
        // A quote, and what Markdown and shells escape: `sk\_live\_`.
        mark if mark.is_ascii_punctuation() => (*mark, 1),
        b'u' if after.starts_with(b"u241b") => (b'\x1b', 5),
        b'u' if after.starts_with(b"u009b") => {
            return Some((Meaning::Nothing, run + 5 + parameters(after.get(5..)?)));
        }
        b'x' if after.starts_with(b"x9b") => {
            return Some((Meaning::Nothing, run + 3 + parameters(after.get(3..)?)));
        }
        b'u' if hidden.is_some() => return Some((Meaning::Nothing, run + 5)),
        b'u' => (hex(1..5)?, 5),
        b'x' => (hex(1..3)?, 3),
        b'0' if after.starts_with(b"033[") => (b'\x1b', 3),
        b'e' if after.starts_with(b"e[") => (b'\x1b', 1),
        _ => return None,
    };
    if byte == b'\x1b' {
        return Some((Meaning::Nothing, run + len + sequence(after.get(len..)?)));
    }
    Some((meaning(byte), run + len))
}

/// Decodes `%3D`, and `%253D`, which was escaped twice.
fn percent(rest: &[u8]) -> Option<(Meaning, usize)> {
    let mut at = 1;
    while rest.get(at..)?.starts_with(b"25") && at < 9 {
        at += 2;
    }
    let digits = std::str::from_utf8(rest.get(at..at + 2)?).ok()?;
    let code = u8::from_str_radix(digits, 16).ok().filter(u8::is_ascii)?;
    let shown = matches!(code, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    shown.then_some((Meaning::Byte(code), at + 2))
}

/// Decodes `&quot;`, `&#34;` and `&#x22;`.
fn entity(rest: &[u8]) -> Option<(Meaning, usize)> {
    const NAMED: [(&str, u8); 5] = [
        ("amp", b'&'),
        ("quot", b'"'),
        ("apos", b'\''),
        ("lt", b'<'),
        ("gt", b'>'),
    ];
    let end = rest.iter().take(8).position(|byte| *byte == b';')?;
    let name = std::str::from_utf8(rest.get(1..end)?).ok()?;
    let code = match name.strip_prefix('#') {
        Some(number) => match number.strip_prefix(['x', 'X']) {
            Some(hex) => u8::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        },
        None => NAMED.iter().find(|(known, _)| *known == name)?.1,
    };
    code.is_ascii().then(|| (meaning(code), end + 1))
}

/// Returns a printable character; other characters decode to nothing.
fn meaning(byte: u8) -> Meaning {
    match byte {
        b'\t' | b'\n' | b'\r' | b' '..=b'~' => Meaning::Byte(byte),
        _ => Meaning::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a text and maps a word back to the source.
    fn check(text: &str, plain: &str, word: &str, spelled: &str) {
        let escapes = match text.contains(['%', '&']) {
            true => Escapes::All,
            false => Escapes::Backslash,
        };
        let found = UnescapedText::new(text, escapes);
        assert_eq!(found.text, plain, "{text:?}");
        let start = plain.find(word).unwrap();
        let range = found.source_range(start..start + word.len());
        assert_eq!(&text[range], spelled, "{text:?}");
    }

    #[test]
    fn escapes_are_decoded_and_ranges_map_back_to_source() {
        check("a\x1b[1;31mkey\x1b[0m z", "akey z", "key", "key");
        check("a\x1b[1;31mk\x1b[Key\x1b[m z", "akey z", "key", "k\x1b[Key");
        check(r"a\u001b[31mkey\u001b[0m z", "akey z", "key", "key");
        check(r"a\033[31mkey\e[0m^[[1m z", "akey z", "key", "key");
        check("a\u{9b}31mkey\u{9b}0m z", "akey z", "key", "key");
        check("a\u{241b}[1;31mkey\u{241b}[0m z", "akey z", "key", "key");
        check(
            "a[31mkey[0m[0K b[1] c[m é z",
            "akey b[1] c[m é z",
            "key",
            "key",
        );
        check(r"a\u009b31mkey\x9b0m\u241b[0m z", "akey z", "key", "key");
        check(r"a\=key\:z", "a=key:z", "key:", r"key\:");
        check("ak\u{200b}ey z", "akey z", "key", "k\u{200b}ey");
        check("ak\u{ad}e\x08y\u{feff} z", "akey z", "key", "k\u{ad}e\x08y");
        check(r"ak\u200bey\\u00AD z", "akey z", "key", r"k\u200bey");
        check(
            r#"{\"a\":\"key\\n\"}"#,
            "{\"a\":\"key\n\"}",
            "key\n",
            r"key\\n",
        );
        check(r#"\\\"key\\\""#, "\"key\"", "\"key\"", r#"\\\"key\\\""#);
        check(r"k\u003dv\x26w", "k=v&w", "=v&", r"\u003dv\x26");
        check("k%3Dv%253Dw %zz 5%", "k=v=w %zz 5%", "=v=", "%3Dv%253D");
        check(
            "&quot;k&#x3d;v&#38;&nbsp;",
            "\"k=v&&nbsp;",
            "k=v&",
            "k&#x3d;v&#38;",
        );
        check("curl \\\n -u a:b", "curl   -u a:b", "a:b", "a:b");
        check(r"curl \\\n -u a:b", "curl   -u a:b", "a:b", "a:b");
        check(
            "\x1b]8;;http://a:b@c\x1b\\x",
            "8;;http://a:b@cx",
            "b@",
            "b@",
        );
    }

    #[test]
    fn colour_codes_separate_words_when_all_escapes_are_decoded() {
        let found = UnescapedText::new("a\x1b[1mkey\x1b[0m", Escapes::All);
        assert_eq!(found.text, "a key ");
        assert_eq!(found.source_range(2..5), 5..8);
    }

    #[test]
    fn secret_with_characters_that_nobody_sees_is_masked() {
        let (head, tail) = ("q7Xb2LkT9vZ4mR", "8wN1cYhD6sPe3JgUf5aKx7");
        for unseen in ["\u{200b}", "\u{ad}", "\u{2060}", "\u{feff}", "\x08", "\0"] {
            let text = format!("Use ghp_{head}{unseen}{tail} now.");
            let mut redactor = crate::export::Redactor::new().unwrap();
            let masked = redactor.mask_text(&text).into_owned();
            assert!(!masked.contains(tail), "{unseen:?}: {masked}");
            assert!(masked.ends_with("] now."), "{unseen:?}: {masked}");
        }
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        for text in [
            "",
            "plain",
            r"C:\dev\app and \d+",
            "a ^ b",
            "100 % & more; é",
        ] {
            let plain = UnescapedText::new(text, Escapes::All);
            assert!(matches!(plain.text, Cow::Borrowed(_)), "{text}");
            assert_eq!(plain.source_range(0..text.len()), 0..text.len());
        }
    }

    #[test]
    fn source_ranges_hold_for_sparse_and_dense_escapes() {
        let clear = "x".repeat(3 * MAX_GAP);
        let dense = r#"\"\n\u003d\\"#.repeat(MAX_GAP);
        let nothing = "\x1b[0m".repeat(MAX_GAP);
        let text = [&clear, &dense, "k", &clear, &nothing, "k", &nothing, &dense].concat();
        for escapes in [Escapes::Backslash, Escapes::All] {
            let plain = UnescapedText::new(&text, escapes);
            let mut source = 0;
            for (start, _) in plain.text.char_indices() {
                let range = plain.source_range(start..start + 1);
                assert!(range.start >= source, "{start}");
                source = range.end;
                let again = UnescapedText::new(&text[range], escapes);
                assert!(plain.text[start..].starts_with(&*again.text), "{start}");
            }
            assert!(plain.places.len() <= 2 + 2 * text.len() / MAX_GAP);
        }
    }

    #[test]
    fn ranges_of_hostile_text_stay_at_character_boundaries() {
        let parts = [
            "\\", "\x1b", "[", "u00", "1b", "%", "25", "&#", "é", ";", "n", "^[[", "\u{9b}",
            "\u{241b}", "m", "ۛ", "\u{200b}", "\u{ad}", "…", "\x08", "u200b",
        ];
        let mut seed = 7u32;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push_str(parts[(seed >> 16) as usize % parts.len()]);
            }
            let plain = UnescapedText::new(&text, Escapes::All);
            for (start, c) in plain.text.char_indices() {
                let range = plain.source_range(start..start + c.len_utf8());
                assert!(
                    text.get(range).is_some_and(|part| !part.is_empty()),
                    "{text:?}"
                );
            }
        }
    }
}
