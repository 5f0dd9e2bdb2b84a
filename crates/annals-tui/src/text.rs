//! Lines of `annals-render` as lines of ratatui.
//!
//! All text from logs passes `annals_render::text` first: [`styled`] does it, and the strings that
//! [`lines`] takes come from `annals-render`, which does.

use annals_render::style::paint;
use annals_render::text::safe;
use annals_render::width::{truncate_end, width};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// Returns text in a style of the palette, safe for one line.
pub(crate) fn styled(style: anstyle::Style, text: &str) -> Span<'static> {
    let painted = paint(style, text).to_string();
    let mut spans = parse_line(&painted, &mut Style::new()).spans;
    match spans.len() {
        1 => spans.remove(0),
        _ => Span::raw(safe(text).to_string()),
    }
}

/// Returns a style of the palette as the terminal gets it.
pub(crate) fn style(style: anstyle::Style) -> Style {
    styled(style, "x").style
}

/// Returns safe text without a style.
pub(crate) fn plain(text: &str) -> Span<'static> {
    Span::raw(safe(text).to_string())
}

/// Returns safe text of at most `max` columns.
pub(crate) fn fit(text: &str, max: usize) -> String {
    truncate_end(&safe(text), max)
}

/// Returns safe text of exactly `columns` columns, filled with spaces.
pub(crate) fn column(text: &str, columns: usize) -> String {
    let text = fit(text, columns);
    let gap = columns.saturating_sub(width(&text));
    text + &" ".repeat(gap)
}

/// Like [`column`], with the text at the right.
pub(crate) fn right(text: &str, columns: usize) -> String {
    let text = fit(text, columns);
    " ".repeat(columns.saturating_sub(width(&text))) + &text
}

/// Returns a line of spans with `right` at the right end of `columns` columns; the left part is cut
/// if both do not fit.
pub(crate) fn spread(
    left: Vec<Span<'static>>,
    right: Vec<Span<'static>>,
    columns: usize,
) -> Line<'static> {
    let right_width: usize = right.iter().map(Span::width).sum();
    let room = columns.saturating_sub(right_width + 1);
    let mut spans = cut(left, room);
    let used: usize = spans.iter().map(Span::width).sum();
    if right_width > columns {
        return Line::from(spans);
    }
    spans.push(Span::raw(" ".repeat(columns - used - right_width)));
    spans.extend(right);
    Line::from(spans)
}

/// Cuts spans to a number of columns.
pub(crate) fn cut(spans: Vec<Span<'static>>, columns: usize) -> Vec<Span<'static>> {
    let mut left = columns;
    let mut kept = Vec::with_capacity(spans.len());
    for span in spans {
        let needed = span.width();
        if needed <= left {
            left -= needed;
            kept.push(span);
            continue;
        }
        if left > 0 {
            kept.push(Span::styled(truncate_end(&span.content, left), span.style));
        }
        break;
    }
    kept
}

/// Converts text with the styles of `annals-render`.
pub(crate) fn lines(text: &str) -> Vec<Line<'static>> {
    let mut current = Style::new();
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.split('\n')
        .map(|line| parse_line(line, &mut current))
        .collect()
}

/// Converts one line; `current` is the style at its start, and afterwards at its end.
fn parse_line(line: &str, current: &mut Style) -> Line<'static> {
    let mut spans = Vec::new();
    let mut parts = line.split('\u{1b}');
    let mut push = |text: &str, style: Style| {
        if !text.is_empty() {
            spans.push(Span::styled(text.to_owned(), style));
        }
    };
    push(parts.next().unwrap_or_default(), *current);
    for part in parts {
        let sequence = part.strip_prefix('[').and_then(|rest| rest.split_once('m'));
        match sequence {
            Some((codes, text)) if codes.bytes().all(|b| b.is_ascii_digit() || b == b';') => {
                *current = apply(*current, codes);
                push(text, *current);
            }
            // `annals-render` writes nothing else.
            _ => push(&safe(part), *current),
        }
    }
    Line::from(spans)
}

/// Applies the numbers of an SGR sequence.
fn apply(mut style: Style, codes: &str) -> Style {
    let mut codes = codes.split(';').map(|code| code.parse::<u8>().unwrap_or(0));
    while let Some(code) = codes.next() {
        style = match code {
            0 => Style::new(),
            1 => style.add_modifier(Modifier::BOLD),
            2 => style.add_modifier(Modifier::DIM),
            3 => style.add_modifier(Modifier::ITALIC),
            4 => style.add_modifier(Modifier::UNDERLINED),
            7 => style.add_modifier(Modifier::REVERSED),
            9 => style.add_modifier(Modifier::CROSSED_OUT),
            30..=37 => style.fg(Color::Indexed(code - 30)),
            90..=97 => style.fg(Color::Indexed(code - 82)),
            38 if codes.next() == Some(5) => match codes.next() {
                Some(number) => style.fg(Color::Indexed(number)),
                None => style,
            },
            _ => style,
        };
    }
    style
}

/// Marks the matches of `wanted`, ignoring case.
pub(crate) fn highlight(line: Line<'static>, wanted: &str) -> Line<'static> {
    let wanted = wanted.to_lowercase();
    if wanted.is_empty() {
        return line;
    }
    let mark = style(annals_render::style::MATCH).add_modifier(Modifier::REVERSED);
    let mut spans = Vec::new();
    for span in line.spans {
        let lower = span.content.to_lowercase();
        // Byte positions agree only if the lower case has the same lengths.
        if lower.len() != span.content.len() || !lower.contains(&wanted) {
            spans.push(span);
            continue;
        }
        let mut end = 0;
        for (at, found) in lower.match_indices(&wanted) {
            let (Some(before), Some(text)) = (
                span.content.get(end..at),
                span.content.get(at..at + found.len()),
            ) else {
                continue;
            };
            spans.push(Span::styled(before.to_owned(), span.style));
            spans.push(Span::styled(text.to_owned(), mark));
            end = at + found.len();
        }
        let rest = span.content.get(end..).unwrap_or_default();
        spans.push(Span::styled(rest.to_owned(), span.style));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_become_spans() {
        let text = "a \u{1b}[1m\u{1b}[38;5;28mgreen\u{1b}[0m b\n\u{1b}[31mred\n still\u{1b}[0m";
        let lines = lines(text);
        let shown: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a green b", "red", " still"]);
        let green = lines.first().and_then(|line| line.spans.get(1)).unwrap();
        let bold = Style::new().add_modifier(Modifier::BOLD);
        assert_eq!(green.style, bold.fg(Color::Indexed(28)));
        let second = lines.get(2).and_then(|line| line.spans.first()).unwrap();
        assert_eq!(second.style.fg, Some(Color::Indexed(1)));
    }

    #[test]
    fn hostile_text_has_no_escape_left() {
        for text in [
            "\u{1b}[2Jx",
            "\u{1b}]0;title\u{7}",
            "a\u{202e}b",
            "\u{9b}31m",
        ] {
            for span in [styled(annals_render::style::TITLE, text), plain(text)] {
                assert!(
                    !span
                        .content
                        .contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7}'])
                );
            }
        }
    }

    #[test]
    fn columns_count_wide_characters() {
        assert_eq!(column("日本語", 5), "日本…");
        assert_eq!(column("ab", 4), "ab  ");
        assert_eq!(right("ab", 4), "  ab");
    }

    #[test]
    fn spread_cuts_the_left_part() {
        let line = spread(vec![plain("a long title")], vec![plain("$1")], 8);
        assert_eq!(line.to_string(), "a lo… $1");
        assert_eq!(line.width(), 8);
    }

    #[test]
    fn matches_are_marked_and_text_is_kept() {
        let line = highlight(Line::from("Reset by PEER, reset"), "reset");
        assert_eq!(line.to_string(), "Reset by PEER, reset");
        assert_eq!(line.spans.len(), 5);
    }
}
