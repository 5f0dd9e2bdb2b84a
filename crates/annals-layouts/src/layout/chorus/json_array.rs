//! Lists of objects within a document, edited in place: untouched rows keep their bytes.

use std::borrow::Cow;
use std::ops::Range;

use crate::json::{self, Pairs, Raw};

/// A list that is a member of an object, and the ranges of its rows in the object's text.
#[derive(Debug)]
pub(super) struct JsonArray<'a> {
    text: &'a str,
    at: Range<usize>,
    rows: Vec<Range<usize>>,
}

/// Edit of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RowEdit {
    Keep,
    Replace(String),
    Remove,
}

impl<'a> JsonArray<'a> {
    /// Finds the list of that name; the last one takes precedence. `None` if there is none.
    pub(super) fn find(text: &'a str, name: &str) -> Option<Self> {
        let pairs: Pairs<'a> = serde_json::from_str(text).ok()?;
        let (_, value) = pairs.0.iter().rev().find(|(key, _)| key == name)?;
        if !value.is_list() {
            return None;
        }
        let rows = value.list().into_iter();
        Some(JsonArray {
            text,
            at: value_range(text, *value)?,
            rows: rows
                .map(|row| value_range(text, row))
                .collect::<Option<_>>()?,
        })
    }

    /// Returns the exact text of the rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = &'a str> {
        let text = self.text;
        let rows = self.rows.iter();
        rows.map(move |row| text.get(row.clone()).unwrap_or_default())
    }

    /// Returns the object with rows changed, removed and added. The text between rows is kept;
    /// `depth` is the indentation of a first row in a multi-line document.
    pub(super) fn apply(&self, fates: &[RowEdit], added: &[String], depth: usize) -> String {
        let part = |range: Range<usize>| self.text.get(range).unwrap_or_default();
        let ends = (
            self.rows.first().map_or(self.at.start + 1, |row| row.start),
            self.rows.last().map_or(self.at.end - 1, |row| row.end),
        );
        let open = part(self.at.start + 1..ends.0);
        let close = match self.rows.is_empty() {
            true => "",
            false => part(ends.1..self.at.end.saturating_sub(1)),
        };
        let mut list = String::new();
        let mut any = false;
        for (at, row) in self.rows.iter().enumerate() {
            let text = match fates.get(at) {
                Some(RowEdit::Remove) => continue,
                Some(RowEdit::Replace(new)) => new.as_str(),
                Some(RowEdit::Keep) | None => part(row.clone()),
            };
            let before = at.checked_sub(1).and_then(|at| self.rows.get(at));
            match before.filter(|_| any) {
                Some(before) => list.push_str(part(before.end..row.start)),
                None if any => list.push(','),
                None => list.push_str(open),
            }
            list.push_str(text);
            any = true;
        }
        let (first, next, last) = self.separators(open, close, depth);
        for row in added {
            list.push_str(if any { &next } else { &first });
            list.push_str(row);
            any = true;
        }
        if any {
            list.push_str(if self.rows.is_empty() { &last } else { close });
        }
        format!(
            "{}[{list}]{}",
            part(0..self.at.start),
            part(self.at.end..self.text.len())
        )
    }

    /// Returns the separators before a first row, before another row, and after the last.
    fn separators(&self, open: &str, close: &str, depth: usize) -> (String, String, String) {
        if let [.., before, last] = self.rows.as_slice() {
            let between = self.text.get(before.end..last.start).unwrap_or(",");
            return (open.to_owned(), between.to_owned(), close.to_owned());
        }
        if !self.rows.is_empty() {
            return (open.to_owned(), format!(",{open}"), close.to_owned());
        }
        if !is_multiline(self.text) {
            return (String::new(), ",".to_owned(), String::new());
        }
        let indent = |depth: usize| match is_tabbed(self.text) {
            true => format!("\n{}", "\t".repeat(depth / 2)),
            false => format!("\n{}", " ".repeat(depth)),
        };
        let (first, last) = (indent(depth), indent(depth.saturating_sub(2)));
        (first.clone(), format!(",{first}"), last)
    }
}

/// Returns whether a document has several lines, as the program writes them.
pub(super) fn is_multiline(text: &str) -> bool {
    text.contains('\n')
}

/// Returns whether a document is indented by tabs, as electron-store writes it.
fn is_tabbed(text: &str) -> bool {
    text.contains("\n\t")
}

/// Converts the indentation of a multi-line object to that of a document.
pub(super) fn indented_like(document: &str, object: String) -> String {
    if !is_tabbed(document) {
        return object;
    }
    let lines = object.split('\n').map(|line| {
        let text = line.trim_start_matches(' ');
        let depth = (line.len() - text.len()) / 2;
        format!("{}{text}", "\t".repeat(depth))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Formats an object with these members in the style of its document.
pub(crate) fn object(members: &[(&str, String)], tall: bool, depth: usize) -> String {
    let (open, between, colon, close) = if tall {
        let indent = format!("\n{}", " ".repeat(depth + 2));
        let close = format!("\n{}", " ".repeat(depth));
        (indent.clone(), format!(",{indent}"), ": ", close)
    } else {
        (String::new(), ",".to_owned(), ":", String::new())
    };
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{}{colon}{value}", json::quote(name)))
        .collect();
    format!("{{{open}{}{close}}}", members.join(&between))
}

/// Splits off a leading byte order mark, which some editors write.
pub(super) fn split_bom(text: &str) -> (&str, &str) {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    }
}

/// Returns a document as text, with invalid UTF-8 replaced and without a byte order mark.
pub(super) fn document_text(bytes: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes);
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(split_bom(text).1),
        Cow::Owned(text) => Cow::Owned(split_bom(&text).1.to_owned()),
    }
}

/// Returns the range of a value in the text that it was parsed from.
fn value_range(text: &str, value: Raw<'_>) -> Option<Range<usize>> {
    let value = value.0?;
    // A raw value is a slice of `text`, so the difference of the addresses is its offset.
    let at = (value.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let range = at..at + value.len();
    text.get(range.clone()).map(|_| range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: &str, fates: &[RowEdit], added: &[&str]) -> String {
        let added: Vec<String> = added.iter().map(|row| (*row).to_owned()).collect();
        JsonArray::find(text, "l").unwrap().apply(fates, &added, 4)
    }

    #[test]
    fn edit_preserves_bytes_between_rows() {
        use RowEdit::{Keep, Remove, Replace};
        let text = "{ \"l\" : [ 1e5 ,  \"\\u00e9\", {\"a\":[2]} ] , \"m\":[9]}";
        assert_eq!(edit(text, &[Keep, Keep, Keep], &[]), text);
        assert_eq!(
            edit(text, &[Keep, Replace("0".to_owned()), Keep], &["7"]),
            "{ \"l\" : [ 1e5 ,  0, {\"a\":[2]}, 7 ] , \"m\":[9]}"
        );
        assert_eq!(
            edit(text, &[Remove, Keep, Remove], &[]),
            "{ \"l\" : [ \"\\u00e9\" ] , \"m\":[9]}"
        );
        assert_eq!(
            edit(text, &[Remove, Remove, Remove], &[]),
            "{ \"l\" : [] , \"m\":[9]}"
        );
        assert_eq!(
            edit(text, &[Remove, Remove, Remove], &["7"]),
            "{ \"l\" : [ 7 ] , \"m\":[9]}"
        );
    }

    #[test]
    fn added_row_is_formatted_like_the_others() {
        assert_eq!(edit("{\"l\":[]}", &[], &["1", "2"]), "{\"l\":[1,2]}");
        assert_eq!(
            edit("{\n  \"l\": []\n}", &[], &["1", "2"]),
            "{\n  \"l\": [\n    1,\n    2\n  ]\n}"
        );
        assert_eq!(
            edit("{\n  \"l\": [\n    1\n  ]\n}", &[], &["2"]),
            "{\n  \"l\": [\n    1,\n    2\n  ]\n}"
        );
        // The last of two lists with the same name takes precedence.
        assert_eq!(
            edit("{\"l\":[1],\"l\":[2]}", &[], &["3"]),
            "{\"l\":[1],\"l\":[2,3]}"
        );
    }

    #[test]
    fn edit_keeps_tab_indentation() {
        assert_eq!(
            edit("{\n\t\"l\": []\n}", &[], &["1", "2"]),
            "{\n\t\"l\": [\n\t\t1,\n\t\t2\n\t]\n}"
        );
        let object = object(&[("a", "1".to_owned())], true, 4);
        let tabbed = indented_like("{\n\t\"l\": []\n}", object.clone());
        assert_eq!(tabbed, "{\n\t\t\t\"a\": 1\n\t\t}");
        assert_eq!(indented_like("{\n  \"l\": []\n}", object.clone()), object);
    }

    #[test]
    fn find_returns_none_without_a_valid_array() {
        for text in ["", "[]", "{}", "{\"l\":{}}", "{\"l\":[1,]}", "{\"l\":[1]"] {
            assert!(JsonArray::find(text, "l").is_none(), "{text}");
        }
    }
}
