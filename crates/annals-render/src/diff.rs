//! Unified diffs of two files.
//!
//! Lines are compared as bytes and shown as safe text, with invalid UTF-8 as `\xNN`, so that lines
//! that differ only in bytes are visible.

use super::style::{ADDED, BOLD, DIM, HUNK, PLAIN, REMOVED, paint_safe};
use super::text::{safe, safe_block};
use super::width::{expand_tabs, truncate_end};
use anstyle::Style;
use similar::{Algorithm, ChangeTag, DiffOp};
use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Compares `old` and `new`; returns an empty text if they are equal. `max` truncates long lines
/// for a terminal.
pub fn unified(path: &str, old: &[u8], new: &[u8], max: Option<usize>) -> String {
    if old == new {
        return String::new();
    }
    let mut out = String::new();
    for side in ["--- a", "+++ b"] {
        paint_safe(&mut out, BOLD, &format!("{side}/{}", safe(path)));
        out.push('\n');
    }
    if is_binary(old) || is_binary(new) {
        _ = writeln!(
            out,
            "Binary files differ ({} and {} bytes)",
            old.len(),
            new.len()
        );
        return out;
    }
    let (old, new) = (lines(old), lines(new));
    for hunk in similar::group_diff_ops(compare(&old, &new, Duration::from_secs(1)), CONTEXT) {
        push_hunk(&mut out, &hunk, &old, &new, max);
    }
    out
}

/// Compares two short texts, such as those of an edit; returns lines tagged as removed, added or
/// unchanged.
pub(super) fn changes<'a>(old: &'a str, new: &'a str) -> Vec<(ChangeTag, &'a str)> {
    let old_lines: Vec<&str> = old.split_terminator('\n').collect();
    let new_lines: Vec<&str> = new.split_terminator('\n').collect();
    let ops = compare(&old_lines, &new_lines, Duration::from_millis(50));
    ops.iter()
        .flat_map(|op| op.iter_changes(&old_lines, &new_lines))
        .map(|change| (change.tag(), change.value()))
        .collect()
}

/// Returns the sign and style of a changed line.
pub(super) fn mark(tag: ChangeTag) -> (char, Style) {
    match tag {
        ChangeTag::Delete => ('-', REMOVED),
        ChangeTag::Insert => ('+', ADDED),
        ChangeTag::Equal => (' ', PLAIN),
    }
}

const CONTEXT: usize = 3;

/// Compares for at most `patience`; after that the result is coarser, but still correct.
fn compare<T: std::hash::Hash + Eq + Ord>(old: &[T], new: &[T], patience: Duration) -> Vec<DiffOp> {
    similar::capture_diff_slices_deadline(
        Algorithm::Myers,
        old,
        new,
        Some(Instant::now() + patience),
    )
}

fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(8000).any(|byte| *byte == 0)
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

fn push_hunk(out: &mut String, hunk: &[DiffOp], old: &[&[u8]], new: &[&[u8]], max: Option<usize>) {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
        return;
    };
    let old_range = range(first.old_range().start..last.old_range().end);
    let new_range = range(first.new_range().start..last.new_range().end);
    paint_safe(out, HUNK, &format!("@@ -{old_range} +{new_range} @@"));
    out.push('\n');
    for change in hunk.iter().flat_map(|op| op.iter_changes(old, new)) {
        let (sign, style) = mark(change.tag());
        let line = change.value();
        let text = readable(line.strip_suffix(b"\n").unwrap_or(line));
        let text = safe_block(&text);
        let text = max.map_or_else(
            || text.to_string(),
            |max| truncate_end(&expand_tabs(&text), max.saturating_sub(1)),
        );
        paint_safe(out, style, &format!("{sign}{text}"));
        out.push('\n');
        if !line.ends_with(b"\n") {
            paint_safe(out, DIM, "\\ No newline at end of file");
            out.push('\n');
        }
    }
}

/// Formats a range of lines as in diffs: counted from 1, except that an empty range names the line
/// before it.
fn range(lines: Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        n => format!("{},{n}", lines.start + 1),
    }
}

fn readable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            _ = write!(out, "\\x{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::width::width;
    use super::*;
    use anstream::adapter::strip_str;
    use insta::assert_snapshot;

    fn plain(old: &[u8], new: &[u8]) -> String {
        strip_str(&unified("notes.md", old, new, None)).to_string()
    }

    #[test]
    fn hunks_have_context_and_ranges() {
        let old: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let new = old
            .replace("line 3\n", "")
            .replace("line 18\n", "line eighteen\nmore\n");
        assert_snapshot!(plain(old.as_bytes(), new.as_bytes()), @r#"
            --- a/notes.md
            +++ b/notes.md
            @@ -1,6 +1,5 @@
             line 1
             line 2
            -line 3
             line 4
             line 5
             line 6
            @@ -15,6 +14,7 @@
             line 15
             line 16
             line 17
            -line 18
            +line eighteen
            +more
             line 19
             line 20
        "#);
    }

    #[test]
    fn colours_mark_sides() {
        assert_snapshot!(unified("f", b"a\n", b"b\n", None).replace('\x1b', "^"), @r#"
            ^[1m--- a/f^[0m
            ^[1m+++ b/f^[0m
            ^[38;5;30m@@ -1 +1 @@^[0m
            ^[38;5;161m-a^[0m
            ^[38;5;28m+b^[0m
        "#);
    }

    #[test]
    fn equal_files_give_nothing() {
        assert_eq!(unified("f", b"same", b"same", None), "");
    }

    #[test]
    fn a_missing_line_end_is_a_difference() {
        assert_eq!(
            plain(b"a", b"a\n"),
            "--- a/notes.md\n+++ b/notes.md\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"
        );
        assert_eq!(
            plain(b"", b"a\n"),
            "--- a/notes.md\n+++ b/notes.md\n@@ -0,0 +1 @@\n+a\n"
        );
        assert!(plain(b"a\r\n", b"a\n").contains("-a␍\n+a\n"));
    }

    #[test]
    fn invalid_bytes_that_differ_are_distinguished() {
        assert!(plain(b"\xff\n", b"\xfe\n").ends_with("-\\xFF\n+\\xFE\n"));
    }

    #[test]
    fn binary_files_are_not_printed() {
        assert_eq!(
            plain(b"\0\x1b", b"abc"),
            "--- a/notes.md\n+++ b/notes.md\nBinary files differ (2 and 3 bytes)\n"
        );
    }

    #[test]
    fn hostile_names_and_lines_are_safe() {
        let diff = strip_str(&unified(
            "a\x1b[2J\n+++ evil",
            b"x\x1b]52;c;AA\x07\n",
            "\u{202E}y\n".as_bytes(),
            None,
        ))
        .to_string();
        assert!(diff.starts_with("--- a/a␛[2J +++ evil\n"), "{diff}");
        assert!(diff.ends_with("-x␛]52;c;AA␇\n+⟨U+202E⟩y\n"), "{diff}");
    }

    #[test]
    fn long_lines_fit_a_terminal() {
        let long = "\tx".repeat(500);
        let diff = unified("f", long.as_bytes(), b"y\n", Some(40));
        assert!(
            strip_str(&diff)
                .to_string()
                .lines()
                .all(|line| !line.contains('\t') && width(line) <= 40)
        );
    }

    #[test]
    fn large_rewrite_finishes_in_time() {
        let side = |seed: u64| -> Vec<u8> {
            (0..20_000u64)
                .flat_map(|n| format!("{}\n", n.wrapping_mul(seed) % 977).into_bytes())
                .collect()
        };
        let started = Instant::now();
        assert!(!unified("f", &side(7919), &side(104_729), None).is_empty());
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}
