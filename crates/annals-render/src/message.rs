//! The parts of a conversation as `show` and `watch` print them.
//!
//! Formats the parts of a message: headings, text, thinking, tool results, images. Tool calls are
//! in [`super::tool`]. Each function returns lines that end in `\n`; the caller decides their order
//! and what to omit.

use super::size::{bytes, count};
use super::style::{
    ASSISTANT, DIM, ERROR, FAILED, SYSTEM, THINKING, TIME, TOOL, USER, paint, paint_safe,
};
use super::text::{safe, safe_block};
use super::width::{Span, expand_tabs, push_spans, split_at_width, wrap};
use annals::text::terminal_text;
use anstyle::Style;

/// Formats the heading of a message: role, time, and extras (model, tokens, cost).
pub fn heading(role: &str, time: &str, extras: &[&str]) -> String {
    let style = match role {
        "user" => USER,
        "assistant" => ASSISTANT,
        "tool" => TOOL,
        _ => SYSTEM,
    };
    let mut out = paint(style, role).to_string();
    if !time.is_empty() {
        out += &format!("  {}", paint(TIME, time));
    }
    let extras: Vec<&str> = extras
        .iter()
        .copied()
        .filter(|extra| !extra.is_empty())
        .collect();
    if !extras.is_empty() {
        out += &format!("  {}", paint(DIM, &extras.join(" · ")));
    }
    out.push('\n');
    out
}

/// Formats text that is not Markdown, wrapped.
pub fn plain_text(text: &str, max: Option<usize>) -> String {
    wrap_behind_bar(text, "", Style::new(), max)
}

/// Formats the reasoning of a model.
pub fn thinking(text: &str, max: Option<usize>) -> String {
    wrap_behind_bar(text, BAR, THINKING, max)
}

/// Reports that a tool failed; its output, if any, follows.
pub fn failure_line(silent: bool) -> String {
    let words = if silent {
        "✗ failed without output"
    } else {
        "✗ failed"
    };
    let mut out = String::new();
    push_bar_line(&mut out, ERROR, FAILED, words);
    out
}

/// Formats the output of a tool as a terminal leaves it, at most `max_lines` lines.
pub fn tool_result(text: &str, is_error: bool, max: Option<usize>, max_lines: usize) -> String {
    verbatim(&terminal_text(text), is_error, max, max_lines)
}

/// Formats text after a bar, with all its spaces and control characters, at most `max_lines` lines.
pub(super) fn verbatim(text: &str, is_error: bool, max: Option<usize>, max_lines: usize) -> String {
    if text.trim().is_empty() {
        return format!("{}\n", paint(DIM, "│ (no output)"));
    }
    let text = text.trim_end_matches(['\n', '\r']);
    let (bar, style) = if is_error {
        (ERROR, FAILED)
    } else {
        (DIM, DIM)
    };
    let text = safe_block(text);
    let mut out = String::new();
    let mut lines = text.split('\n');
    let room = max.map(|max| max.saturating_sub(BAR_WIDTH));
    for line in lines.by_ref().take(max_lines) {
        let expanded = room.map(|_| expand_tabs(line));
        for piece in split_at_width(expanded.as_deref().unwrap_or(line), room) {
            push_bar_line(&mut out, bar, style, piece);
        }
    }
    let left = lines.count() as u64;
    if left > 0 {
        out += &more_lines(left);
    }
    out
}

/// Formats a placeholder for an image.
pub fn image(media_type: &str, size: u64) -> String {
    let kind = match media_type.starts_with("image/") {
        true => media_type.to_owned(),
        false => format!("image {media_type}"),
    };
    let text = format!("[{}, {}]", safe(&kind), bytes(size));
    format!("{}\n", paint(DIM, &text))
}

/// Reports how many lines were omitted.
pub(super) fn more_lines(lines: u64) -> String {
    let noun = if lines == 1 { "line" } else { "lines" };
    format!(
        "{}\n",
        paint(DIM, &format!("│ … {} more {noun}", count(lines)))
    )
}

/// Wraps text after a bar.
fn wrap_behind_bar(text: &str, bar: &str, style: Style, max: Option<usize>) -> String {
    let room = max.map(|max| max.saturating_sub(bar.chars().count()).max(1));
    let text = safe_block(text.trim_matches(['\n', '\r']));
    let mut out = String::new();
    for line in text.split('\n') {
        for line in wrap(&[Span::new(&expand_tabs(line), style)], room) {
            if bar.is_empty() {
                push_spans(&mut out, &line);
            } else {
                paint_safe(&mut out, DIM, bar.trim_end());
                if !line.is_empty() {
                    out.push(' ');
                    push_spans(&mut out, &line);
                }
            }
            out.push('\n');
        }
    }
    out
}

/// Appends one line after a bar.
pub(super) fn push_bar_line(out: &mut String, bar: Style, style: Style, line: &str) {
    paint_safe(out, bar, BAR.trim_end());
    if !line.is_empty() {
        out.push(' ');
        paint_safe(out, style, line);
    }
    out.push('\n');
}

const BAR: &str = "│ ";
pub(super) const BAR_WIDTH: usize = 2;

#[cfg(test)]
mod tests {
    use super::super::width::width;
    use super::*;
    use anstream::adapter::strip_str;
    use insta::assert_snapshot;

    fn plain(text: &str) -> String {
        strip_str(text).to_string()
    }

    #[test]
    fn headings() {
        assert_eq!(
            plain(&heading("assistant", "14:02", &["opus", "", "1.2k tokens"])),
            "assistant  14:02  opus · 1.2k tokens\n"
        );
        assert_eq!(plain(&heading("user", "", &[])), "user\n");
        assert_eq!(
            plain(&heading("a\x1b[2J\nb", "", &["\u{202E}"])),
            "a␛[2J b  ⟨U+202E⟩\n"
        );
    }

    #[test]
    fn results_are_cut_and_say_so() {
        let text: String = (1..=123).map(|n| format!("line {n}\n")).collect();
        assert_snapshot!(plain(&tool_result(&text, false, Some(40), 3)), @r#"
            │ line 1
            │ line 2
            │ line 3
            │ … 120 more lines
        "#);
        assert_eq!(plain(&tool_result("a\nb", false, None, 2)), "│ a\n│ b\n");
        assert_eq!(plain(&tool_result("a\tb", false, None, 2)), "│ a\tb\n");
        assert_eq!(
            plain(&tool_result("a\nb\n", false, None, 1)),
            "│ a\n│ … 1 more line\n"
        );
        assert_eq!(
            plain(&tool_result(" \n", false, None, 5)),
            "│ (no output)\n"
        );
        assert_eq!(plain(&failure_line(false)), "│ ✗ failed\n");
        assert_eq!(plain(&failure_line(true)), "│ ✗ failed without output\n");
    }

    #[test]
    fn tool_errors_are_styled_differently() {
        assert_ne!(
            tool_result("x", true, None, 5),
            tool_result("x", false, None, 5)
        );
    }

    #[test]
    fn tool_results_preserve_spaces_and_fit() {
        let out = plain(&tool_result(
            "    indented  twice\tx\x1b[2J",
            false,
            Some(12),
            9,
        ));
        assert_eq!(out, "│     indent\n│ ed  twice \n│ x\n");
        assert!(out.lines().all(|line| width(line) <= 12));
    }

    #[test]
    fn tool_results_have_no_terminal_sequences() {
        let shown = |text| plain(&tool_result(text, false, None, 9));
        assert_eq!(
            shown("\x1b[31mred\x1b[0m\n\x1b]8;;http://x\x07link\x1b]8;;\x07\n10 %\r100 %\n"),
            "│ red\n│ link\n│ 100 %\n"
        );
        // Incomplete sequences are shown.
        assert_eq!(shown("\x1b]0;hidden\ntext\x07"), "│ ␛]0;hidden\n│ text␇\n");
        assert_eq!(shown("\x1b[m"), "│ (no output)\n");
        assert_eq!(
            plain(&verbatim("\x1b[31mred\ra", false, None, 9)),
            "│ ␛[31mred␍a\n"
        );
    }

    #[test]
    fn thoughts_have_a_bar_on_every_line() {
        assert_eq!(
            plain(&thinking("one two three\n\nfour\n", Some(10))),
            "│ one two\n│ three\n│\n│ four\n"
        );
        assert!(thinking("x", None).contains("\x1b[3m\x1b[38;5;243mx"));
    }

    #[test]
    fn plain_text_and_images_are_sanitized() {
        assert_eq!(plain_text("a  b\n    c\x1b", Some(20)), "a  b\n    c␛\n");
        assert_eq!(
            plain(&image("image/png\x07", 12_345)),
            "[image/png␇, 12.3 kB]\n"
        );
    }
}
