//! Small things that both Markdown and HTML show.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::json::{self, Pairs};

use super::reading_order::{Anchor, Section, SessionHeader};

/// Texts that are longer are shown as they are: a parser of Markdown takes up to eighty times their
/// size of memory.
pub(super) const MAX_MARKDOWN: usize = 1 << 20;

/// A moment as people read it.
pub(super) fn format_time(time: Timestamp, zone: &TimeZone) -> String {
    let zoned = time.to_zoned(zone.clone());
    zoned.strftime("%Y-%m-%d %H:%M").to_string()
}

/// A number with its thousands apart.
pub(super) fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of things.
pub(super) fn pluralize(count: u64, thing: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {thing}{s}", group_thousands(count))
}

/// The tokens of a session in words; `None` if there are none.
pub(super) fn token_summary(about: &SessionHeader) -> Option<String> {
    let usage = &about.usage;
    (!usage.is_zero()).then(|| {
        format!(
            "{} tokens ({} in, {} out)",
            group_thousands(usage.total()),
            group_thousands(usage.context()),
            group_thousands(usage.output)
        )
    })
}

/// The name of an entry's anchor. Made of numbers alone, so that no text can forge one.
pub(super) fn entry_anchor(about: &SessionHeader, anchor: Anchor) -> String {
    format!("s{}-e{}-{}", about.number + 1, anchor.log, anchor.entry)
}

/// The name of a section's anchor.
pub(super) fn section_anchor(about: &SessionHeader, section: &Section) -> String {
    format!("s{}-c{}", about.number + 1, section.number + 1)
}

/// The arguments of a call by name, texts without their escapes; the whole under no name where they
/// are no object.
pub(super) fn arguments(input: &str) -> Vec<(String, String)> {
    let pairs: Option<Pairs<'_>> = serde_json::from_str(input).ok();
    let Some(Pairs(pairs)) = pairs else {
        return match input.trim() {
            "" | "null" => Vec::new(),
            other => vec![(String::new(), other.to_owned())],
        };
    };
    pairs
        .into_iter()
        .map(|(name, value)| {
            let raw = value.0.unwrap_or_default();
            let text =
                json::decode_string(raw).map_or_else(|| raw.to_owned(), |text| text.into_owned());
            (name.into_owned(), text)
        })
        .collect()
}

/// How many bytes a base64 text stands for.
pub(super) fn decoded_len(base64: &str) -> u64 {
    (base64.trim_end_matches('=').len() * 3 / 4) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_thousands_inserts_commas() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1234567, "1,234,567"),
        ] {
            assert_eq!(group_thousands(number), text);
        }
    }

    #[test]
    fn arguments_are_unescaped_in_order() {
        let input = r#"{"path":"/a\/b","text":"one\ntwo","n":1e5,"list":[1, 2]}"#;
        let expected = [
            ("path", "/a/b"),
            ("text", "one\ntwo"),
            ("n", "1e5"),
            ("list", "[1, 2]"),
        ];
        let found = arguments(input);
        let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(found, expected);
        assert_eq!(arguments("broken"), [(String::new(), "broken".to_owned())]);
        assert!(arguments("{}").is_empty());
    }
}
