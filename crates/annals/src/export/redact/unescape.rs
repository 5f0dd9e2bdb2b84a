//! Text without escapes: what rules are matched against.
//!
//! Colour codes in all their spellings, backslash escapes of any depth (`\"`, `\\n`, `\u003d`), percent escapes and HTML
//! entities hide where a secret begins and ends. [`UnescapedText`] removes or decodes them and maps every
//! range back to the text as it is spelled. Only ASCII is decoded: secrets have nothing else.

use std::borrow::Cow;
use std::ops::Range;

/// Which escapes are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escapes {
    /// Colour codes and backslash escapes.
    Backslash,
    /// Percent escapes and HTML entities too. Here colour codes separate words.
    All,
}

/// A text without its escapes.
#[derive(Debug)]
pub(super) struct UnescapedText<'a> {
    pub(super) text: Cow<'a, str>,
    source: &'a str,
    escapes: Escapes,
    /// Some places between escapes; empty if there are no escapes. All of them would take many times
    /// the memory of the text, so the escapes between two of them are decoded again for a place there.
    places: Vec<OffsetPair>,
}

/// The same place in both texts.
#[derive(Clone, Copy, Debug, Default)]
struct OffsetPair {
    plain: usize,
    source: usize,
    /// How many bytes follow before the next escape, at least.
    clear: usize,
}

/// The control character that begins a sequence without ESC.
const CSI: &[u8] = "\u{9b}".as_bytes();

/// The picture of ESC.
const PICTURE: &[u8] = "\u{241b}".as_bytes();

/// How far apart in the source two places are, or the bytes between them are clear.
const MAX_GAP: usize = 256;

/// What an escape means.
enum Meaning {
    /// A character of ASCII.
    Byte(u8),
    /// Nothing that takes part in a word.
    Nothing,
}

impl<'a> UnescapedText<'a> {
    /// Decodes a text; borrows it where it has no escapes.
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

    /// The place of a range in the text as it is spelled.
    pub(super) fn source_range(&self, range: Range<usize>) -> Range<usize> {
        if range.is_empty() {
            let at = self.source_byte(range.start).start;
            return at..at;
        }
        self.source_byte(range.start).start..self.source_byte(range.end - 1).end
    }

    /// The place of one byte.
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

/// The escapes that begin in a part of a text: where each stands, and the byte that it becomes.
struct EscapeIter<'a> {
    bytes: &'a [u8],
    part: Range<usize>,
    escapes: Escapes,
    /// Where the next character of each group stands that may begin an escape, once it was looked for.
    next: [Option<usize>; 3],
}

impl<'a> EscapeIter<'a> {
    fn new(text: &'a str, part: Range<usize>, escapes: Escapes) -> Self {
        EscapeIter {
            bytes: text.as_bytes(),
            part,
            escapes,
            next: [None; 3],
        }
    }

    /// Where the next character stands that may begin an escape. Each group is looked for again only
    /// behind what was found, so that all searches together are linear.
    fn mark(&mut self) -> Option<usize> {
        let Range { start, end } = self.part;
        let rest = self.bytes.get(start..end)?;
        let search = |found: &mut Option<usize>, find: &dyn Fn() -> Option<usize>| {
            let known = found.filter(|found| *found >= start);
            *found.insert(known.unwrap_or_else(|| find().map_or(usize::MAX, |at| start + at)))
        };
        let [backslash, bracket, other] = &mut self.next;
        let mut next = search(backslash, &|| memchr::memchr3(b'\\', b'\x1b', b'^', rest));
        next = next.min(search(bracket, &|| introducer(rest)));
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
                // What a run of backslashes does not escape, a shorter one does not either.
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

/// What stands at a mark, and how long it is.
fn escape(bytes: &[u8], at: usize, escapes: Escapes) -> Option<(Meaning, usize)> {
    let rest = bytes.get(at..)?;
    match (rest.first()?, escapes) {
        (b'\x1b', _) => Some((Meaning::Nothing, 1 + sequence(rest.get(1..)?))),
        // As `cat -v` spells it.
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

/// Where the next `[`, CSI or picture of ESC stands. The last two end with the same byte.
fn introducer(rest: &[u8]) -> Option<usize> {
    let at = memchr::memchr2(b'[', 0x9b, rest)?;
    let through = rest.get(..=at)?;
    let spelled = [CSI, PICTURE]
        .into_iter()
        .find(|spelled| through.ends_with(spelled));
    Some(at + 1 - spelled.map_or(1, <[u8]>::len))
}

/// How many bytes of a control sequence follow its ESC. The text of a link or a title stays: it may
/// hold a secret.
fn sequence(rest: &[u8]) -> usize {
    match rest.first() {
        Some(b'[') => 1 + parameters(rest.get(1..).unwrap_or_default()),
        Some(b']' | b'\\' | b'=' | b'>' | b'7' | b'8' | b'c' | b'M') => 1,
        Some(b'(' | b')') => 1 + usize::from(matches!(rest.get(1), Some(0x30..=0x7e))),
        _ => 0,
    }
}

/// How many bytes of a control sequence follow its introducer: the parameters and the final byte.
fn parameters(rest: &[u8]) -> usize {
    /// No terminal takes longer ones.
    const LONGEST: usize = 64;
    let params = rest.iter().take(LONGEST);
    let end = params
        .take_while(|byte| matches!(byte, 0x20..=0x3f))
        .count();
    end + usize::from(matches!(rest.get(end), Some(0x40..=0x7e)))
}

/// The length of a colour code that lost its ESC, as logs of builds have it: `[31m`, `[0;1m`, `[0K`.
fn colour(rest: &[u8]) -> Option<usize> {
    let params = rest.iter().skip(1).take(24);
    let params = params
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
        .count();
    let end = 1 + params;
    (params > 0 && matches!(rest.get(end), Some(b'm' | b'K'))).then_some(end + 1)
}

/// A run of backslashes and what they escape: JSON in JSON doubles them at every level.
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
    let (byte, len) = match after.first()? {
        // A line that goes on, in a shell command within JSON.
        b'n' if run == 3 => (b' ', 1),
        b'\n' => (b' ', 1),
        b'\r' if after.get(1) == Some(&b'\n') => (b' ', 2),
        b'n' => (b'\n', 1),
        b'r' => (b'\r', 1),
        b't' => (b'\t', 1),
        quote @ (b'"' | b'\'' | b'`' | b'/' | b'=' | b':') => (*quote, 1),
        b'u' if after.starts_with(b"u241b") => (b'\x1b', 5),
        b'u' if after.starts_with(b"u009b") => {
            return Some((Meaning::Nothing, run + 5 + parameters(after.get(5..)?)));
        }
        b'x' if after.starts_with(b"x9b") => {
            return Some((Meaning::Nothing, run + 3 + parameters(after.get(3..)?)));
        }
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

/// `%3D`, and `%253D`, which was escaped twice.
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

/// `&quot;`, `&#34;` and `&#x22;`.
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

/// A character, unless it is one that no one sees.
fn meaning(byte: u8) -> Meaning {
    match byte {
        b'\t' | b'\n' | b'\r' | b' '..=b'~' => Meaning::Byte(byte),
        _ => Meaning::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a text and finds a word of it in the text as it is spelled.
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
            "\u{241b}", "m", "ۛ",
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
