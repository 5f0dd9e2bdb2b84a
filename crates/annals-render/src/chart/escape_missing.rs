//! Writes characters that no font has as code points, in PNG charts.
//!
//! An SVG viewer has its own fonts; a PNG has only the fonts it is drawn with. A row of boxes does
//! not even show whether two names differ.

use std::collections::BTreeSet;

use super::Chart;
use super::font::Weight;
use super::scene::make_visible;

/// Longest run of characters that is written in full; of a longer run, only the first and last.
const MAX_WRITTEN: usize = 4;

impl Chart {
    /// The characters that the embedded font lacks.
    pub(super) fn missing_chars(&self) -> BTreeSet<char> {
        let names = self.series.iter().chain(&self.notes);
        let labels = self.bars.iter().map(|bar| &bar.label);
        let letters = names.chain(labels).flat_map(|text| text.chars());
        letters.filter(|c| Weight::Plain.lacks_glyph(*c)).collect()
    }

    /// Returns the chart without the characters in `missing`.
    pub(super) fn with_escaped(&self, missing: &BTreeSet<char>) -> Chart {
        let mut chart = self.clone();
        let bars = chart.bars.iter_mut().map(|bar| &mut bar.label);
        for text in chart.series.iter_mut().chain(bars).chain(&mut chart.notes) {
            if let Some(spelled) = escape_missing(text, missing) {
                *text = spelled;
            }
        }
        if missing.is_empty() {
            return chart;
        }
        let note =
            "Characters that no font has are written as code points; an SVG chart shows them.";
        chart.notes.push(note.to_owned());
        chart
    }
}

/// `⟨U+65E5 672C⟩-app`
fn escape_missing(text: &str, missing: &BTreeSet<char>) -> Option<String> {
    let text = make_visible(text);
    let mut spelled = String::new();
    let mut lacking: Vec<char> = Vec::new();
    for c in text.chars().map(Some).chain([None]) {
        match c {
            Some(c) if missing.contains(&c) => lacking.push(c),
            // A character of zero width belongs to the one before it.
            Some(c)
                if !lacking.is_empty()
                    && super::super::width::width(c.encode_utf8(&mut [0; 4])) == 0 => {}
            other => {
                spelled += &code_points(&std::mem::take(&mut lacking));
                spelled.extend(other);
            }
        }
    }
    (spelled != text).then_some(spelled)
}

fn code_points(letters: &[char]) -> String {
    let number = |c: &char| format!("{:04X}", u32::from(*c));
    let join = |letters: &[char]| letters.iter().map(number).collect::<Vec<_>>().join(" ");
    let half = MAX_WRITTEN / 2;
    match letters {
        [] => String::new(),
        few if few.len() <= MAX_WRITTEN => format!("⟨U+{}⟩", join(few)),
        many => format!(
            "⟨U+{} … {}⟩",
            join(&many[..half]),
            join(&many[many.len() - half..])
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_missing_writes_distinct_code_points() {
        for (text, expected) in [
            ("日本-app", Some("⟨U+65E5 672C⟩-app")),
            (
                "/w/日本語プロジェクト/x",
                Some("/w/⟨U+65E5 672C … 30AF 30C8⟩/x"),
            ),
            ("日本語プロジェクタ", Some("⟨U+65E5 672C … 30AF 30BF⟩")),
            ("a 👩\u{200d}👧 b", Some("a ⟨U+1F469 1F467⟩ b")),
            ("naïve-Ωμέγα_Жук", None),
        ] {
            let missing = text
                .chars()
                .filter(|c| Weight::Plain.lacks_glyph(*c))
                .collect();
            assert_eq!(
                escape_missing(text, &missing).as_deref(),
                expected,
                "{text}"
            );
        }
    }
}
