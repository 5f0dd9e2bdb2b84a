//! Carets below a part of a line that somebody typed.

use super::text::safe;
use super::width::{clusters, truncate_end, width};
use std::ops::Range;

/// Returns a line of at most `max` columns around the range `at` of `text`, and a line of carets to
/// print below it.
pub fn caret(text: &str, at: Range<usize>, max: usize) -> (String, String) {
    let start = char_start(text, at.start);
    let end = char_start(text, at.end.max(start));
    let before = safe(text.get(..start).unwrap_or_default()).to_string();
    let inside = safe(text.get(start..end).unwrap_or_default()).to_string();
    let after = safe(text.get(end..).unwrap_or_default()).to_string();
    let max = max.max(8);
    // The range has priority, then the text before it, then the text after it.
    let inside = truncate_end(&inside, max * 2 / 3);
    let rest = max - width(&inside);
    let before = truncate_start(&before, rest.saturating_sub(width(&after).min(rest / 3)));
    let after = truncate_end(&after, rest - width(&before));
    let pointer = " ".repeat(width(&before)) + &"^".repeat(width(&inside).max(1));
    (format!("{before}{inside}{after}"), pointer)
}

/// Truncates `text` to `max` columns at its start, marked with `…`.
fn truncate_start(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let mut room = max.saturating_sub(1);
    let mut start = text.len();
    for cluster in clusters(text).collect::<Vec<_>>().into_iter().rev() {
        match room.checked_sub(width(cluster)) {
            Some(left) => room = left,
            None => break,
        }
        start -= cluster.len();
    }
    let lead = if max > 0 { "…" } else { "" };
    format!("{lead}{}", text.get(start..).unwrap_or_default())
}

/// Start of the character that contains the byte `at`.
fn char_start(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pointed(text: &str, at: Range<usize>, max: usize) -> String {
        let (line, carets) = caret(text, at, max);
        format!("{line}\n{carets}")
    }

    #[test]
    fn carets_are_below_the_range() {
        assert_eq!(pointed("a \"b c", 2..6, 40), "a \"b c\n  ^^^^");
        assert_eq!(pointed("a OR", 4..4, 40), "a OR\n    ^");
        assert_eq!(pointed("日本 )", 7..8, 40), "日本 )\n     ^");
        assert_eq!(pointed("\x1b[2J\t)", 5..6, 40), "␛[2J )\n     ^");
    }

    #[test]
    fn long_line_is_cut_around_the_range() {
        let text = format!("{}!{}", "a".repeat(50_000), "b".repeat(50_000));
        assert_eq!(
            pointed(&text, 50_000..50_001, 20),
            "…aaaaaaaaaaaa!bbbbb…\n             ^"
        );
        assert_eq!(pointed(&text, 0..100_001, 12), "aaaaaaa…\n^^^^^^^^");
    }

    proptest! {
        #[test]
        fn caret_lines_fit_max_columns(text in any::<String>(), start in 0usize..60, len in 0usize..60, max in 8usize..40) {
            let (line, carets) = caret(&text, start..start + len, max);
            prop_assert!(width(&line) <= max, "{line:?}");
            prop_assert!(width(&carets) <= max + 1, "{carets:?}");
        }
    }
}
