//! Lenient reading of the JSON that agents write. Records are never parsed into a struct and
//! written back.
//!
//! Records are read by serde with borrowed fields, or by [`scanner`], which gives up on unusual
//! input. Both differ from derived code where logs differ from schemas: a field of a wrong type is
//! absent instead of an error, the last of duplicate keys wins, numbers of any size are skipped
//! without parsing, and lone surrogates become U+FFFD.
//!
//! `set_members` replaces single members in place, so all other bytes of a record stay as they are.

mod fault;
pub mod scanner;
pub mod template;

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer};
use serde_json::value::RawValue;

pub use fault::{describe_json_error, json_error_reason};

/// A value's JSON text, not yet parsed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw<'a>(pub Option<&'a str>);

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'a RawValue>::deserialize(deserializer).map(|raw| Raw(Some(raw.get())))
    }
}

impl<'a> Raw<'a> {
    /// The text of a string; `None` for any other value.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        self.0.and_then(decode_string)
    }

    /// The text of a string, or a prefix of it of at least `chars` characters.
    pub(crate) fn prefix(self, chars: usize) -> Option<Cow<'a, str>> {
        let raw = self.0?;
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
        // The length of an escaped surrogate pair. A cut with no backslash in this many bytes
        // before it is not inside an escape.
        const ESCAPE: usize = 12;
        let apart = |at: &usize| {
            let before = inner.as_bytes().get(at.saturating_sub(ESCAPE)..*at);
            inner.is_char_boundary(*at) && before.is_some_and(|before| !before.contains(&b'\\'))
        };
        // Enough for characters of any script, unless most are escaped.
        let end = (4 * chars.max(ESCAPE)..inner.len()).find(apart);
        let Some(head) = end.and_then(|end| raw.get(..end + 1)) else {
            return decode_string(raw);
        };
        let text = decode_string(&format!("{head}\""))?.into_owned();
        match text.chars().nth(chars) {
            Some(_) => Some(Cow::Owned(text)),
            None => decode_string(raw),
        }
    }

    /// Parses the value as `T`, which must be lenient itself.
    pub fn parse<T: Deserialize<'a> + Default>(self) -> T {
        self.0
            .and_then(|raw| serde_json::from_str(raw).ok())
            .unwrap_or_default()
    }

    /// Parses the value with the scanner, or with serde if the scanner gives up.
    pub(crate) fn parse_fast<T: scanner::FromScanner<'a> + Deserialize<'a> + Default>(self) -> T {
        let plain = self.0.and_then(scanner::parse);
        plain.unwrap_or_else(|| self.parse())
    }

    /// The elements of an array; empty for any other value.
    pub(crate) fn list(self) -> Vec<Raw<'a>> {
        if let Some(List(list)) = self.0.and_then(scanner::parse) {
            return list;
        }
        let list: Option<Vec<Raw<'a>>> = self.0.and_then(|raw| serde_json::from_str(raw).ok());
        list.unwrap_or_default()
    }

    /// Whether there is a value other than `null`.
    pub(crate) fn is_some(self) -> bool {
        self.0.is_some_and(|raw| raw != "null")
    }

    /// Whether the value is an array.
    pub(crate) fn is_list(self) -> bool {
        self.0.is_some_and(|raw| raw.starts_with('['))
    }

    /// A whole number; `Err` if the value is no whole number or does not fit.
    pub fn count(self) -> Result<Option<u64>, &'a str> {
        match self.0 {
            None | Some("null") => Ok(None),
            Some(raw) => match raw.parse() {
                Ok(count) => Ok(Some(count)),
                // `15.0` and `1e3` are whole numbers too.
                Err(_) => match raw.parse::<f64>() {
                    Ok(float) if float >= 0.0 && float.fract() == 0.0 && float < 9e15 => {
                        Ok(Some(float as u64))
                    }
                    _ => Err(raw),
                },
            },
        }
    }
}

/// The elements of an array, read by the scanner.
struct List<'a>(Vec<Raw<'a>>);

impl<'a> scanner::FromScanner<'a> for List<'a> {
    fn from_scanner(walk: &mut scanner::JsonScanner<'a>) -> Option<Self> {
        let mut list = Vec::new();
        walk.array(|walk| {
            list.push(Raw::from_scanner(walk)?);
            Some(())
        })?;
        Some(List(list))
    }
}

/// A string's text; other values are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text<'a>(pub(crate) Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Raw::deserialize(deserializer).map(|raw| Text(raw.text()))
    }
}

impl<'a> Text<'a> {
    /// Returns the text, if the value is a string.
    pub fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The text if it is not empty.
    pub(crate) fn non_empty(&self) -> Option<&str> {
        self.get().filter(|text| !text.is_empty())
    }

    pub(crate) fn owned(&self) -> Option<String> {
        self.get().map(str::to_owned)
    }

    pub(crate) fn or_empty(&self) -> &str {
        self.get().unwrap_or_default()
    }
}

/// Whether the value is `true`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Flag(pub(crate) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Raw::deserialize(deserializer).map(|raw| Flag(raw.0 == Some("true")))
    }
}

/// Declares a struct that reads the named members of an object and skips all others.
#[macro_export]
macro_rules! object {
    ($(#[$meta:meta])* struct $name:ident<$lt:lifetime> { $($key:literal => $field:ident: $ty:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name<$lt> { $(pub(crate) $field: $ty,)+ _lt: std::marker::PhantomData<&$lt ()> }

        const _: () = {
            use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

            #[expect(non_camel_case_types, reason = "named after the fields they stand for")]
            enum Field { $($field,)+ ignored__ }

            impl<'de> Deserialize<'de> for Field {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    struct Keys;
                    impl Visitor<'_> for Keys {
                        type Value = Field;
                        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                            f.write_str("a key")
                        }
                        fn visit_str<E: Error>(self, key: &str) -> Result<Field, E> {
                            Ok(match key { $($key => Field::$field,)+ _ => Field::ignored__ })
                        }
                    }
                    deserializer.deserialize_identifier(Keys)
                }
            }

            struct Members<$lt>(std::marker::PhantomData<&$lt ()>);

            impl<'de: $lt, $lt> Visitor<'de> for Members<$lt> {
                type Value = $name<$lt>;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("anything")
                }
                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                    let mut object = $name::default();
                    while let Some(field) = map.next_key::<Field>()? {
                        match field {
                            $(Field::$field => object.$field = map.next_value()?,)+
                            Field::ignored__ => { map.next_value::<IgnoredAny>()?; }
                        }
                    }
                    Ok(object)
                }
                fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                    while seq.next_element::<IgnoredAny>()?.is_some() {}
                    Ok($name::default())
                }
                fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> { Ok($name::default()) }
                fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> { Ok($name::default()) }
                fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> { Ok($name::default()) }
                fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> { Ok($name::default()) }
                fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> { Ok($name::default()) }
                fn visit_unit<E: Error>(self) -> Result<Self::Value, E> { Ok($name::default()) }
            }

            impl<$lt> $crate::json::scanner::FromScanner<$lt> for $name<$lt> {
                fn from_scanner(walk: &mut $crate::json::scanner::JsonScanner<$lt>) -> Option<Self> {
                    let mut object = $name::default();
                    if walk.peek()? != b'{' {
                        walk.skip_other()?;
                        return Some(object);
                    }
                    walk.object(|key, walk| {
                        match key {
                            $($key => object.$field = $crate::json::scanner::FromScanner::from_scanner(walk)?,)+
                            key => walk.skip_unknown(key)?,
                        }
                        Some(())
                    })?;
                    Some(object)
                }
            }

            impl<'de: $lt, $lt> Deserialize<'de> for $name<$lt> {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_any(Members(std::marker::PhantomData))
                }
            }
        };
    };
}
pub use object;

/// Sets members of an object in place; other members, their order and their spelling do not change.
///
/// A member that occurs several times is set everywhere; a missing one is added at the end. Returns
/// `None` if `object` is not an object.
pub fn set_members(object: &[u8], members: &[(&str, &str)]) -> Option<Vec<u8>> {
    splice(object, members, set_in_text)
}

/// Sets members of the object in member `outer`. If that is missing or no object, it becomes one.
pub fn set_nested_members(object: &[u8], outer: &str, members: &[(&str, &str)]) -> Option<Vec<u8>> {
    splice(object, members, |text, members| {
        let pairs: Pairs<'_> = serde_json::from_str(text).ok()?;
        let mut found = pairs.0.iter().rev().filter(|(key, _)| key == outer);
        let old = found.next().and_then(|(_, value)| value.0);
        let new = old.and_then(|old| set_in_text(old, members));
        let new = new.or_else(|| set_in_text("{}", members))?;
        set_in_text(text, &[(outer, &new)])
    })
}

/// Runs `edit` on the bytes as text, even if they are not UTF-8.
fn splice(
    object: &[u8],
    members: &[(&str, &str)],
    edit: impl Fn(&str, &[(&str, &str)]) -> Option<String>,
) -> Option<Vec<u8>> {
    match str::from_utf8(object) {
        Ok(text) => edit(text, members).map(String::into_bytes),
        // Maps each byte to one character and back: the syntax of JSON is ASCII.
        Err(_) => {
            let text: String = object.iter().map(|&byte| char::from(byte)).collect();
            let ascii: Vec<(&str, String)> = members
                .iter()
                .map(|(name, value)| (*name, escape_non_ascii(value)))
                .collect();
            let ascii: Vec<(&str, &str)> = ascii
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            let edited = edit(&text, &ascii)?;
            edited.chars().map(|c| u8::try_from(c).ok()).collect()
        }
    }
}

/// The JSON text of an object's member; the last one of that name wins.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let pairs: Pairs<'a> = serde_json::from_str(object).ok()?;
    let (_, value) = pairs.0.iter().rev().find(|(key, _)| key == name)?;
    value.0
}

/// Replaces all characters beyond ASCII in JSON text with escapes.
fn escape_non_ascii(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            escaped.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped
}

fn set_in_text(object: &str, members: &[(&str, &str)]) -> Option<String> {
    let pairs: Pairs<'_> = serde_json::from_str(object).ok()?;
    let mut edited = String::with_capacity(object.len() + 64);
    let mut done = 0;
    for (key, value) in &pairs.0 {
        let Some((_, new)) = members.iter().find(|(name, _)| name == key) else {
            continue;
        };
        // A raw value is a slice of `object`, so its address gives the offset.
        let old = value.0?;
        let at = (old.as_ptr() as usize).checked_sub(object.as_ptr() as usize)?;
        edited.push_str(object.get(done..at)?);
        edited.push_str(new);
        done = at + old.len();
    }
    let close = object.rfind('}')?;
    let rest = object.get(done..close)?;
    let mut added = members
        .iter()
        .filter(|(name, _)| !pairs.0.iter().any(|(key, _)| key == name))
        .peekable();
    if added.peek().is_none() {
        edited.push_str(rest);
    } else {
        // In an object of several lines the new member gets its own line.
        let open = object.find('{').and_then(|at| object.get(at + 1..))?;
        let indent = open.get(..open.len() - open.trim_start().len())?;
        let indent = if indent.contains('\n') { indent } else { "" };
        let colon = if indent.is_empty() { ":" } else { ": " };
        edited.push_str(rest.trim_end());
        let mut empty = pairs.0.is_empty();
        for (name, new) in added {
            edited.push_str(if empty { "" } else { "," });
            edited.push_str(if empty { "" } else { indent });
            edited.push_str(&quote(name));
            edited.push_str(if empty { ":" } else { colon });
            edited.push_str(new);
            empty = false;
        }
        let after = rest.get(rest.trim_end().len()..)?;
        edited.push_str(if after.contains('\n') && !pairs.0.is_empty() {
            after
        } else {
            ""
        });
    }
    edited.push('}');
    Some(edited)
}

/// Encodes a text as a JSON string.
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// An object's members in file order, duplicates included.
#[derive(Debug, Default)]
pub struct Pairs<'a>(pub Vec<(Cow<'a, str>, Raw<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> serde::de::Visitor<'de> for Members {
            type Value = Vec<(Cow<'de, str>, Raw<'de>)>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((key, value)) = map.next_entry::<Raw<'de>, Raw<'de>>()? {
                    pairs.push((key.text().unwrap_or_default(), value));
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(Members).map(Pairs)
    }
}

/// The text of a JSON string; `None` for any other value. Lone surrogates become U+FFFD.
pub fn decode_string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    let text: Result<String, _> = serde_json::from_str(raw);
    text.or_else(|_| serde_json::from_str(&replace_lone_surrogates(raw)))
        .ok()
        .map(Cow::Owned)
}

/// Rewrites valid JSON for parsers that are stricter than JSON: lone surrogates become U+FFFD, and
/// numbers too large for a float become `null`.
pub fn sanitize(json: &str) -> String {
    let json = replace_lone_surrogates(json);
    let mut mended = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some(first) = rest.chars().next() {
        let number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let len = match first {
            '"' => string_len(rest),
            '-' | '0'..='9' => rest.find(|c| !number(c)).unwrap_or(rest.len()),
            other => other.len_utf8(),
        };
        let (token, after) = rest.split_at_checked(len).unwrap_or((rest, ""));
        let beyond = token.parse().is_ok_and(|float: f64| float.is_infinite());
        mended.push_str(if beyond && first != '"' {
            "null"
        } else {
            token
        });
        rest = after;
    }
    mended
}

/// Length of the string at the start of `json`, quotes included.
fn string_len(json: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

/// Replaces each escaped lone surrogate in JSON text with an escaped U+FFFD.
pub fn replace_lone_surrogates(json: &str) -> String {
    let mut mended = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let (keep, len): (&str, usize) = match (utf16_unit(escape, 0), utf16_unit(escape, 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => {
                (escape.get(..12).unwrap_or(escape), 12)
            }
            (Some(0xD800..=0xDFFF), _) => ("\\ufffd", 6),
            (Some(_), _) => (escape.get(..6).unwrap_or(escape), 6),
            // An escape of one character, which in broken JSON may be longer than a byte.
            (None, _) => {
                let len = escape.chars().take(2).map(char::len_utf8).sum();
                (escape.get(..len).unwrap_or(escape), len)
            }
        };
        mended.push_str(keep);
        rest = escape.get(len..).unwrap_or_default();
    }
    mended.push_str(rest);
    mended
}

/// The UTF-16 code unit of the `\uXXXX` at `at`.
fn utf16_unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    object! {
        struct Sample<'a> {
            "a" => a: Text<'a>,
            "n" => n: Raw<'a>,
            "in" => inner: Inner<'a>,
        }
    }
    object! {
        struct Inner<'a> { "x" => x: Flag, "y" => y: Text<'a>, }
    }

    fn read(json: &str) -> Sample<'_> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn prefix_is_prefix_of_decoded_text() {
        let units = [
            "a",
            "é",
            "日",
            "🚀",
            r"\n",
            r#"\""#,
            r"\\",
            r"\u00e9",
            r"\ud83d\ude80",
            r"\ud83d",
        ];
        for one in units {
            for other in units {
                for count in [0, 1, 40, 400] {
                    let raw = format!("\"{}{}\"", one.repeat(count), other.repeat(count));
                    let all = decode_string(&raw).unwrap();
                    let start = Raw(Some(&raw)).prefix(30).unwrap();
                    assert!(all.starts_with(&*start), "{raw}");
                    let whole = start.len() == all.len();
                    assert!(whole || start.chars().count() >= 30, "{raw}");
                }
            }
        }
        assert_eq!(Raw(Some("[1]")).prefix(30), None);
    }

    #[test]
    fn wrong_types_are_absent_and_last_duplicate_key_wins() {
        let sample = read(r#"{"a":1e999,"in":[1,{"x":true}],"z":[[[1e999]]],"a":"caf\u00e9\/"}"#);
        assert_eq!(sample.a.get(), Some("café/"));
        assert!(!sample.inner.x.0);
        let sample = read(r#"{"a":"x","a":{"b":1},"in":{"x":true,"y":"\ud83d-"}}"#);
        assert_eq!(sample.a.get(), None);
        assert!(sample.inner.x.0);
        assert_eq!(sample.inner.y.get(), Some("\u{fffd}-"));
    }

    #[test]
    fn unknown_values_of_any_depth_are_skipped() {
        let deep = format!(
            r#"{{"z":{}{},"n":{}1{}}}"#,
            "[".repeat(200_000),
            "]".repeat(200_000),
            "[".repeat(9_000),
            "]".repeat(9_000)
        );
        assert_eq!(read(&deep).n.0.map(str::len), Some(18_001));
    }

    #[test]
    fn set_members_edits_in_place() {
        let set = |object: &str, members: &[_]| {
            set_members(object.as_bytes(), members).map(|bytes| String::from_utf8(bytes).unwrap())
        };
        let object = r#"{"s":"old" , "n":1e5,"\ud83d":[ 1 ],"s":"older"}"#;
        assert_eq!(
            set(object, &[("s", "\"new\""), ("f", "{}")]).as_deref(),
            Some(r#"{"s":"new" , "n":1e5,"\ud83d":[ 1 ],"s":"new","f":{}}"#)
        );
        assert_eq!(
            set("{ }", &[("a", "1"), ("b", "2")]).as_deref(),
            Some(r#"{"a":1,"b":2}"#)
        );
        assert_eq!(set("[1]", &[("a", "1")]), None);
        assert_eq!(
            set("{ \"a\" : 1 }", &[("a", "2")]).as_deref(),
            Some("{ \"a\" : 2 }")
        );
        assert_eq!(
            set("{\n  \"a\": 1\n}", &[("a", "2"), ("b", "3")]).as_deref(),
            Some("{\n  \"a\": 2,\n  \"b\": 3\n}")
        );
        assert_eq!(
            set_members(b"{\"s\":\"\xff\",\"t\":1}", &[("t", "\"\u{e9}\"")]).as_deref(),
            Some(&b"{\"s\":\"\xff\",\"t\":\"\\u00e9\"}"[..])
        );
    }

    #[test]
    fn set_nested_members_edits_in_place() {
        let set = |object: &[u8]| set_nested_members(object, "m", &[("s", "\"\u{e9}\"")]);
        assert_eq!(
            set(b"{\"a\":1e5,\"m\":{\"x\":\"\xff\",\"s\": 1},\"b\":\"\xfe\"}").as_deref(),
            Some(&b"{\"a\":1e5,\"m\":{\"x\":\"\xff\",\"s\": \"\\u00e9\"},\"b\":\"\xfe\"}"[..])
        );
        for (object, edited) in [
            ("{}", "{\"m\":{\"s\":\"é\"}}"),
            ("{\"m\":[1],\"n\":2}", "{\"m\":{\"s\":\"é\"},\"n\":2}"),
        ] {
            assert_eq!(set(object.as_bytes()).as_deref(), Some(edited.as_bytes()));
        }
        assert_eq!(set(b"[1]"), None);
    }

    #[test]
    fn only_lone_surrogates_are_replaced() {
        for (raw, mended) in [
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ude00\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\ud83dx\n\u00e9""#, r#""\ufffdx\n\u00e9""#),
        ] {
            assert_eq!(replace_lone_surrogates(raw), mended);
        }
    }

    #[test]
    fn sanitize_replaces_unrepresentable_numbers_with_null() {
        for (raw, mended) in [
            (
                r#"{"a":1e999,"b":[-1e999,1e5,-0,25]}"#,
                r#"{"a":null,"b":[null,1e5,-0,25]}"#,
            ),
            (
                r#"{"1e999":"1e999 \" 1e999","e":true}"#,
                r#"{"1e999":"1e999 \" 1e999","e":true}"#,
            ),
            (r#"["\ud83d",1e400]"#, r#"["\ufffd",null]"#),
        ] {
            assert_eq!(sanitize(raw), mended);
        }
    }

    #[test]
    fn count_accepts_any_notation_of_a_whole_number() {
        let count = |raw| Raw(Some(raw)).count();
        assert_eq!(count("15"), Ok(Some(15)));
        assert_eq!(count("1e3"), Ok(Some(1000)));
        assert_eq!(count("null"), Ok(None));
        for bad in ["-1", "1.5", "1e999", "\"7\"", "[]", "18446744073709551616"] {
            assert_eq!(count(bad), Err(bad));
        }
    }
}
