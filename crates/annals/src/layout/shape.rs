//! What members a record must have so that the layout's own program reads it: for records that callers
//! make themselves.

use std::borrow::Cow;

use crate::json::{self, Raw, Text, object};
use crate::text::{Breaks, visible};

use super::field::timestamp;

/// What a member must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A text, which may be empty.
    Text,
    /// A text that is not empty.
    Name,
    /// A time as text, in ISO 8601.
    Time,
    /// A time as a number of milliseconds.
    Milliseconds,
    /// A text, or a list of blocks.
    Content,
    /// An object.
    Object,
    /// One of some words.
    OneOf(&'static [&'static str]),
    /// A whole number that is not negative.
    Count,
    /// A number that is not negative.
    Number,
}

object! {
    struct Block<'a> { "type" => kind: Text<'a>, }
}

impl Shape {
    fn fits(self, raw: &str) -> bool {
        let text = || json::string(raw);
        let time = || timestamp(Raw(Some(raw))).is_some();
        match self {
            Shape::Text => text().is_some(),
            Shape::Name => text().is_some_and(|text| !text.is_empty()),
            Shape::Time => text().is_some() && time(),
            Shape::Milliseconds => text().is_none() && time(),
            Shape::Content => text().is_some() || is_blocks(Raw(Some(raw))),
            Shape::Object => raw.starts_with('{'),
            Shape::OneOf(words) => text().is_some_and(|text| words.contains(&&*text)),
            Shape::Count => matches!(Raw(Some(raw)).count(), Ok(Some(_))),
            Shape::Number => raw.parse::<f64>().is_ok_and(|number| number >= 0.0),
        }
    }

    fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Shape::Text => "a text",
            Shape::Name => "a text that is not empty",
            Shape::Time => "a time like \"2026-03-01T12:00:00.000Z\"",
            Shape::Milliseconds => "a time in milliseconds since 1970",
            Shape::Content => "a text or a list of blocks, each with a `type`",
            Shape::Object => "an object",
            Shape::OneOf(words) => return Cow::Owned(format!("one of {}", words.join(", "))),
            Shape::Count => "a whole number that is not negative",
            Shape::Number => "a number that is not negative",
        })
    }
}

/// Refuses a record that lacks one of these members, or has one of another shape.
pub(crate) fn check_needed(record: &str, members: &[(&str, Shape)]) -> Result<(), String> {
    members.iter().try_for_each(|(name, shape)| {
        match json::member(record, name).filter(|raw| *raw != "null") {
            None => Err(format!("it has no `{name}`")),
            Some(raw) => check(name, raw, *shape),
        }
    })
}

/// Refuses a record in which one of these members has another shape.
pub(crate) fn check_given(record: &str, members: &[(&str, Shape)]) -> Result<(), String> {
    members.iter().try_for_each(|(name, shape)| {
        match json::member(record, name).filter(|raw| *raw != "null") {
            None => Ok(()),
            Some(raw) => check(name, raw, *shape),
        }
    })
}

fn check(name: &str, raw: &str, shape: Shape) -> Result<(), String> {
    match shape.fits(raw) {
        true => Ok(()),
        false => {
            let shown: String = raw.chars().take(40).collect();
            let shown = visible(&shown, Breaks::Spaces);
            Err(format!("`{name}` is {shown}, and must be {}", shape.name()))
        }
    }
}

fn is_blocks(raw: Raw<'_>) -> bool {
    let is_block = |raw: &Raw<'_>| {
        let block: Block<'_> = raw.read();
        block.kind.filled().is_some()
    };
    raw.is_list() && raw.list().iter().all(is_block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_the_shape_that_their_program_reads() {
        for (shape, fine, wrong) in [
            (Shape::Text, &["\"\"", "\"x\""][..], &["1", "[]", "{}"][..]),
            (Shape::Name, &["\"x\""], &["\"\"", "1"]),
            (
                Shape::Time,
                &["\"2026-03-01T12:00:00Z\""],
                &["\"noon\"", "1774402340418"],
            ),
            (
                Shape::Milliseconds,
                &["1774402340418", "0"],
                &["\"2026-03-01T12:00:00Z\"", "-1", "\"1\"", "1e99", "true"],
            ),
            (
                Shape::Content,
                &["\"\"", "[]", r#"[{"type":"text","text":"x"}]"#],
                &["{}", "1", "[1]", r#"[{"text":"x"}]"#],
            ),
            (Shape::Object, &["{}"], &["[]", "\"{}\""]),
            (Shape::OneOf(&["a", "b"]), &["\"b\""], &["\"c\"", "1", "[]"]),
            (Shape::Count, &["0", "12"], &["-1", "1.5", "\"1\"", "{}"]),
            (Shape::Number, &["0", "1.5"], &["-1", "\"1\"", "true"]),
        ] {
            for raw in fine {
                let record = format!(r#"{{"m":{raw}}}"#);
                assert_eq!(check_needed(&record, &[("m", shape)]), Ok(()), "{raw}");
            }
            for raw in wrong {
                let record = format!(r#"{{"m":{raw}}}"#);
                assert!(check_needed(&record, &[("m", shape)]).is_err(), "{raw}");
                assert!(check_given(&record, &[("m", shape)]).is_err(), "{raw}");
            }
            for record in ["{}", r#"{"m":null}"#] {
                assert!(check_needed(record, &[("m", shape)]).is_err());
                assert_eq!(check_given(record, &[("m", shape)]), Ok(()));
            }
        }
    }
}
