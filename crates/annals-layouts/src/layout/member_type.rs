//! Required members of caller-supplied records, so that the layout's program can read them.

use std::borrow::Cow;

use crate::json::{self, Raw, Text, object};
use crate::text::{LineBreaks, visible};

use super::usage_fields::decode_time;

/// Type of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberType {
    /// A string, which may be empty.
    Text,
    /// A non-empty string.
    Name,
    /// A time as an ISO 8601 string.
    Time,
    /// A time in milliseconds.
    Milliseconds,
    /// A string, or a list of blocks.
    Content,
    /// An object.
    Object,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// A non-negative integer.
    Count,
    /// A non-negative number.
    Number,
}

object! {
    struct Block<'a> { "type" => kind: Text<'a>, }
}

impl MemberType {
    fn accepts(self, raw: &str) -> bool {
        let text = || json::decode_string(raw);
        let time = || decode_time(Raw(Some(raw))).is_some();
        match self {
            MemberType::Text => text().is_some(),
            MemberType::Name => text().is_some_and(|text| !text.is_empty()),
            MemberType::Time => text().is_some() && time(),
            MemberType::Milliseconds => text().is_none() && time(),
            MemberType::Content => text().is_some() || is_blocks(Raw(Some(raw))),
            MemberType::Object => raw.starts_with('{'),
            MemberType::OneOf(words) => text().is_some_and(|text| words.contains(&&*text)),
            MemberType::Count => matches!(Raw(Some(raw)).count(), Ok(Some(_))),
            MemberType::Number => raw.parse::<f64>().is_ok_and(|number| number >= 0.0),
        }
    }

    fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            MemberType::Text => "a string",
            MemberType::Name => "a non-empty string",
            MemberType::Time => "a time like \"2026-03-01T12:00:00.000Z\"",
            MemberType::Milliseconds => "a time in milliseconds since 1970",
            MemberType::Content => "a string or a list of blocks, each with a `type`",
            MemberType::Object => "an object",
            MemberType::OneOf(words) => return Cow::Owned(format!("one of {}", words.join(", "))),
            MemberType::Count => "a non-negative integer",
            MemberType::Number => "a non-negative number",
        })
    }
}

/// Rejects a record that lacks one of these members, or has one of another type.
pub(crate) fn check_required(record: &str, members: &[(&str, MemberType)]) -> Result<(), String> {
    members.iter().try_for_each(|(name, shape)| {
        match json::member(record, name).filter(|raw| *raw != "null") {
            None => Err(format!("it has no `{name}`")),
            Some(raw) => check(name, raw, *shape),
        }
    })
}

/// Rejects a record in which one of these members has another type.
pub(crate) fn check_optional(record: &str, members: &[(&str, MemberType)]) -> Result<(), String> {
    members.iter().try_for_each(|(name, shape)| {
        match json::member(record, name).filter(|raw| *raw != "null") {
            None => Ok(()),
            Some(raw) => check(name, raw, *shape),
        }
    })
}

fn check(name: &str, raw: &str, shape: MemberType) -> Result<(), String> {
    match shape.accepts(raw) {
        true => Ok(()),
        false => {
            let shown: String = raw.chars().take(40).collect();
            let shown = visible(&shown, LineBreaks::Spaces);
            Err(format!("`{name}` is {shown}; expected {}", shape.name()))
        }
    }
}

fn is_blocks(raw: Raw<'_>) -> bool {
    let is_block = |raw: &Raw<'_>| {
        let block: Block<'_> = raw.parse();
        block.kind.non_empty().is_some()
    };
    raw.is_list() && raw.list().iter().all(is_block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_types_accept_valid_and_reject_invalid_values() {
        for (shape, fine, wrong) in [
            (
                MemberType::Text,
                &["\"\"", "\"x\""][..],
                &["1", "[]", "{}"][..],
            ),
            (MemberType::Name, &["\"x\""], &["\"\"", "1"]),
            (
                MemberType::Time,
                &["\"2026-03-01T12:00:00Z\""],
                &["\"noon\"", "1774402340418"],
            ),
            (
                MemberType::Milliseconds,
                &["1774402340418", "0"],
                &["\"2026-03-01T12:00:00Z\"", "-1", "\"1\"", "1e99", "true"],
            ),
            (
                MemberType::Content,
                &["\"\"", "[]", r#"[{"type":"text","text":"x"}]"#],
                &["{}", "1", "[1]", r#"[{"text":"x"}]"#],
            ),
            (MemberType::Object, &["{}"], &["[]", "\"{}\""]),
            (
                MemberType::OneOf(&["a", "b"]),
                &["\"b\""],
                &["\"c\"", "1", "[]"],
            ),
            (
                MemberType::Count,
                &["0", "12"],
                &["-1", "1.5", "\"1\"", "{}"],
            ),
            (MemberType::Number, &["0", "1.5"], &["-1", "\"1\"", "true"]),
        ] {
            for raw in fine {
                let record = format!(r#"{{"m":{raw}}}"#);
                assert_eq!(check_required(&record, &[("m", shape)]), Ok(()), "{raw}");
            }
            for raw in wrong {
                let record = format!(r#"{{"m":{raw}}}"#);
                assert!(check_required(&record, &[("m", shape)]).is_err(), "{raw}");
                assert!(check_optional(&record, &[("m", shape)]).is_err(), "{raw}");
            }
            for record in ["{}", r#"{"m":null}"#] {
                assert!(check_required(record, &[("m", shape)]).is_err());
                assert_eq!(check_optional(record, &[("m", shape)]), Ok(()));
            }
        }
    }
}
