//! Reads a record by comparison with an earlier one.
//!
//! A program writes similar records: those of one session have the same members in the same order,
//! and most values are equal too. A text that differs from an earlier one only in some values needs
//! only these parsed; the rest is compared.

use super::Raw;
use super::scanner::{FromScanner as _, JsonScanner};

/// A text without the values in which other texts may differ from it.
#[derive(Debug)]
pub(crate) struct Template<K> {
    rest: Box<str>,
    /// Offset in `rest` and name of each omitted value.
    gaps: Box<[(usize, K)]>,
}

impl<K: Copy> Template<K> {
    /// Creates a template from JSON and values in it, which must be non-overlapping slices of the
    /// text.
    pub(crate) fn new(text: &str, values: &[(K, Raw<'_>)]) -> Option<Self> {
        let mut spans: Vec<(usize, usize, K)> = Vec::new();
        for (name, value) in values {
            // A raw value is a slice of the text, so its address gives the offset.
            let Some(value) = value.0 else { continue };
            let start = (value.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
            spans.push((start, start + value.len(), *name));
        }
        spans.sort_unstable_by_key(|(start, ..)| *start);
        let gone: usize = spans.iter().map(|(start, end, _)| end - start).sum();
        let mut rest = String::with_capacity(text.len().saturating_sub(gone));
        let mut gaps = Vec::with_capacity(spans.len());
        let mut end = 0;
        for (start, next, name) in spans {
            rest.push_str(text.get(end..start)?);
            gaps.push((rest.len(), name));
            end = next;
        }
        rest.push_str(text.get(end..)?);
        Some(Template {
            rest: rest.into(),
            gaps: gaps.into(),
        })
    }

    /// Calls `give` with the values of a text that matches the template. Returns `None` if the text
    /// differs elsewhere, if a value is not JSON, or if `give` rejects it.
    pub(crate) fn extract<'a>(
        &self,
        text: &'a str,
        mut give: impl FnMut(K, Raw<'a>) -> Option<()>,
    ) -> Option<()> {
        let mut walk = JsonScanner::new(text);
        let mut from = 0;
        for &(to, name) in &self.gaps {
            walk.skip_literal_text(self.rest.get(from..to)?)?;
            give(name, Raw::from_scanner(&mut walk)?)?;
            from = to;
        }
        walk.skip_literal_text(self.rest.get(from..)?)?;
        walk.is_done().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{object, scanner};
    use super::*;

    object! {
        struct Known<'a> { "a" => a: Raw<'a>, "in" => inner: Inner<'a>, "z" => z: Raw<'a>, }
    }
    object! {
        struct Inner<'a> { "b" => b: Raw<'a>, }
    }

    const FIRST: &str = r#" {"a":1,"same":"x","in":{"b":"two","c":[{}]},"z":null} "#;

    fn values<'a>(known: &Known<'a>) -> [(char, Raw<'a>); 3] {
        [('z', known.z), ('a', known.a), ('b', known.inner.b)]
    }

    fn read(text: &str) -> Option<String> {
        let known: Known<'_> = scanner::parse(FIRST).unwrap();
        let mould = Template::new(FIRST, &values(&known)).unwrap();
        let mut found = Vec::new();
        mould.extract(text, |name, raw| {
            found.push((name, raw.0));
            Some(())
        })?;
        found.sort_unstable();
        Some(format!("{found:?}"))
    }

    #[test]
    fn template_extracts_values_of_matching_text() {
        assert_eq!(
            read(r#" {"a":{"b":[1,"}"]},"same":"x","in":{"b":-0.5,"c":[{}]},"z":"\""} "#),
            Some(r#"[('a', Some("{\"b\":[1,\"}\"]}")), ('b', Some("-0.5")), ('z', Some("\"\\\"\""))]"#.to_owned())
        );
        assert!(read(FIRST).is_some());
    }

    /// Whatever a template reads, the scanner reads too, with the same result.
    #[test]
    fn template_agrees_with_scanner_or_gives_up_on_changed_byte() {
        let (mut read_by_mould, mut tried) = (0, 0);
        for at in 0..=FIRST.len() {
            let (head, tail) = FIRST.split_at(at);
            for byte in (0..0x80).map(char::from) {
                let changed = format!("{head}{byte}{}", tail.get(1..).unwrap_or_default());
                for text in [format!("{head}{byte}{tail}"), changed, head.to_owned()] {
                    tried += 1;
                    let Some(found) = read(&text) else { continue };
                    read_by_mould += 1;
                    let known: Known<'_> = scanner::parse(&text).unwrap();
                    let mut alone = values(&known).map(|(name, raw)| (name, raw.0));
                    alone.sort_unstable();
                    assert_eq!(found, format!("{alone:?}"), "{text:?}");
                }
            }
        }
        assert!(
            100 < read_by_mould && read_by_mould < tried / 2,
            "{read_by_mould} of {tried}"
        );
    }

    #[test]
    fn template_gives_up_when_a_value_is_rejected() {
        let known: Known<'_> = scanner::parse(FIRST).unwrap();
        let mould = Template::new(FIRST, &values(&known)).unwrap();
        assert_eq!(
            mould.extract(FIRST, |name, _| (name != 'b').then_some(())),
            None
        );
    }
}
