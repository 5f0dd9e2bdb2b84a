//! Measures, truncates and wraps text by terminal columns.
//!
//! Works on text that [`super::text`] has made safe. Defines [`Span`], styled text that is not yet
//! a line, and clusters, which must not be split (a letter and its marks, an emoji sequence, a
//! flag).

use super::style::paint_safe;
use super::text::safe;
use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A run of safe text in one style.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    text: String,
    style: Style,
}

impl Span {
    /// Creates a span of `text`, sanitised as one line.
    pub fn new(text: &str, style: Style) -> Span {
        Span {
            text: safe(text).into(),
            style,
        }
    }

    /// Makes the span bold.
    pub fn embolden(&mut self) {
        self.style = self.style.bold();
    }

    /// Creates a span that ends the line.
    pub fn line_break() -> Span {
        Span {
            text: "\n".into(),
            style: Style::new(),
        }
    }
}

/// Counts the columns that `text` takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Truncates `text` to `max` columns at its end, marked with `…`.
pub fn truncate_end(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    if max == 0 {
        return String::new();
    }
    format!("{}…", take_columns(clusters(text), max - 1))
}

/// Truncates `text` to `max` columns in the middle, marked with `…`.
pub fn truncate_middle(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    if max == 0 {
        return String::new();
    }
    let head = take_columns(clusters(text), max / 2);
    let mut tail_start = text.len();
    let mut room = max - 1 - max / 2;
    let all: Vec<&str> = clusters(text).collect();
    for cluster in all.iter().rev() {
        if width(cluster) > room {
            break;
        }
        room -= width(cluster);
        tail_start -= cluster.len();
    }
    format!("{head}…{}", &text[tail_start..])
}

/// Breaks `spans` into lines of at most `max` columns, at spaces if possible.
///
/// A word longer than a line is split. Without `max`, only explicit breaks count.
pub fn wrap(spans: &[Span], max: Option<usize>) -> Vec<Vec<Span>> {
    let mut wrapper = Wrapper {
        max: max.map_or(usize::MAX, |max| max.max(1)),
        ..Wrapper::default()
    };
    for span in spans {
        for cluster in clusters(&span.text) {
            wrapper.push(cluster, span.style);
        }
    }
    wrapper.end_word();
    wrapper.end_line();
    wrapper.lines
}

/// Splits one line into pieces of at most `max` columns; preserves all spaces.
pub fn split_at_width(line: &str, max: Option<usize>) -> Vec<&str> {
    let Some(max) = max.map(|max| max.max(1)) else {
        return vec![line];
    };
    let mut pieces = Vec::new();
    let (mut start, mut at, mut used) = (0, 0, 0);
    for cluster in clusters(line) {
        let columns = width(cluster);
        if used + columns > max && at > start {
            pieces.push(&line[start..at]);
            (start, used) = (at, 0);
        }
        at += cluster.len();
        used += columns;
    }
    pieces.push(&line[start..]);
    pieces
}

/// Replaces tabs with spaces up to the next multiple of four columns.
pub fn expand_tabs(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut column = 0;
    for (n, part) in line.split('\t').enumerate() {
        if n > 0 {
            let gap = 4 - column % 4;
            out.extend(std::iter::repeat_n(' ', gap));
            column += gap;
        }
        out.push_str(part);
        column += width(part);
    }
    out
}

/// Counts the columns of a line of spans.
pub fn spans_width(spans: &[Span]) -> usize {
    spans.iter().map(|span| width(&span.text)).sum()
}

/// Joins the text of spans without their styles.
pub fn spans_text(spans: &[Span]) -> String {
    spans.iter().map(|span| span.text.as_str()).collect()
}

/// Appends a line of spans in their styles.
pub fn push_spans(out: &mut String, spans: &[Span]) {
    for span in spans {
        paint_safe(out, span.style, &span.text);
    }
}

/// Splits `text` into clusters, which concatenate to `text`.
pub fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut chars = rest.char_indices();
        let (_, first) = chars.next()?;
        let mut last = first;
        let mut flag = is_flag_half(first);
        let mut end = rest.len();
        for (at, c) in chars {
            let pair = flag && is_flag_half(c);
            let attached = c.width() == Some(0)
                || matches!(c, '\u{1F3FB}'..='\u{1F3FF}')
                || last == '\u{200D}'
                || pair;
            if !attached || is_break(first) || is_break(c) {
                end = at;
                break;
            }
            flag = false;
            last = c;
        }
        let (cluster, tail) = rest.split_at(end);
        rest = tail;
        Some(cluster)
    })
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | ' ' | '\t')
}

fn is_flag_half(c: char) -> bool {
    matches!(c, '\u{1F1E6}'..='\u{1F1FF}')
}

fn take_columns<'a>(clusters: impl Iterator<Item = &'a str>, max: usize) -> String {
    let mut out = String::new();
    let mut room = max;
    for cluster in clusters {
        let Some(left) = room.checked_sub(width(cluster)) else {
            break;
        };
        room = left;
        out.push_str(cluster);
    }
    out
}

#[derive(Default)]
struct Wrapper {
    max: usize,
    lines: Vec<Vec<Span>>,
    line: Vec<Span>,
    line_width: usize,
    word: Vec<Span>,
    word_width: usize,
    spaces: Vec<Span>,
    spaces_width: usize,
}

impl Wrapper {
    fn push(&mut self, cluster: &str, style: Style) {
        match cluster {
            "\n" => {
                self.end_word();
                self.end_line();
            }
            " " | "\t" => {
                self.end_word();
                append(&mut self.spaces, " ", style);
                self.spaces_width += 1;
            }
            _ => {
                let columns = width(cluster);
                if self.word_width + columns > self.max {
                    self.end_word();
                }
                append(&mut self.word, cluster, style);
                self.word_width += columns;
                // Wide characters belong to scripts that break anywhere.
                if columns == 2 {
                    self.end_word();
                }
            }
        }
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        if self.line_width + self.spaces_width + self.word_width > self.max && !self.line.is_empty()
        {
            self.end_line();
        }
        // Spaces at the start of a paragraph are an indent and preserved; those at a wrap are
        // dropped.
        if !self.line.is_empty() || self.spaces_width + self.word_width <= self.max {
            self.line_width += self.spaces_width;
            for span in self.spaces.drain(..) {
                append(&mut self.line, &span.text, span.style);
            }
        }
        self.spaces.clear();
        self.spaces_width = 0;
        self.line_width += self.word_width;
        for span in self.word.drain(..) {
            append(&mut self.line, &span.text, span.style);
        }
        self.word_width = 0;
    }

    fn end_line(&mut self) {
        self.lines.push(std::mem::take(&mut self.line));
        self.line_width = 0;
        self.spaces.clear();
        self.spaces_width = 0;
    }
}

fn append(spans: &mut Vec<Span>, text: &str, style: Style) {
    match spans.last_mut() {
        Some(last) if last.style == style => last.text.push_str(text),
        _ => spans.push(Span {
            text: text.to_owned(),
            style,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wrapped(text: &str, max: usize) -> Vec<String> {
        let spans: Vec<Span> = text
            .split_inclusive('\n')
            .flat_map(|line| {
                let broken = line.ends_with('\n').then(Span::line_break);
                [
                    Some(Span::new(line.trim_end_matches('\n'), Style::new())),
                    broken,
                ]
                .into_iter()
                .flatten()
            })
            .collect();
        wrap(&spans, Some(max))
            .into_iter()
            .map(|line| line.into_iter().map(|span| span.text).collect())
            .collect()
    }

    #[test]
    fn wide_text_is_cut_by_columns_not_by_characters() {
        assert_eq!(truncate_end("日本語テキスト", 7), "日本語…");
        assert_eq!(truncate_end("日本語テキスト", 6), "日本…");
        assert_eq!(
            truncate_middle("/home/ada/projects/engine", 13),
            "/home/…engine"
        );
        assert_eq!(truncate_end("short", 5), "short");
        assert_eq!(truncate_end("x", 0), "");
    }

    #[test]
    fn clusters_are_not_split() {
        assert_eq!(
            clusters("e\u{301}👩‍👩‍👧🇩🇪🇫🇷👍🏽a").collect::<Vec<_>>(),
            ["e\u{301}", "👩‍👩‍👧", "🇩🇪", "🇫🇷", "👍🏽", "a"]
        );
        assert_eq!(truncate_end("👩‍👩‍👧👩‍👩‍👧", 3), "👩‍👩‍👧…");
    }

    #[test]
    fn words_wrap_at_spaces_and_long_words_are_cut() {
        assert_eq!(
            wrapped("the quick brown fox", 10),
            ["the quick", "brown fox"]
        );
        assert_eq!(wrapped("a abcdefghijk", 5), ["a", "abcde", "fghij", "k"]);
        assert_eq!(wrapped("日本語日本語", 5), ["日本", "語日", "本語"]);
        assert_eq!(wrapped("one\n\n  two", 10), ["one", "", "  two"]);
    }

    #[test]
    fn chop_preserves_spaces() {
        assert_eq!(
            split_at_width("    let x = 1;", Some(8)),
            ["    let ", "x = 1;"]
        );
        assert_eq!(split_at_width("", Some(8)), [""]);
        assert_eq!(expand_tabs("a\tb\t\tc"), "a   b       c");
    }

    proptest! {
        #[test]
        fn cut_text_fits(text in any::<String>(), max in 0usize..20) {
            let text: String = safe(&text).into();
            prop_assert!(width(&truncate_end(&text, max)) <= max);
            prop_assert!(width(&truncate_middle(&text, max)) <= max);
        }

        #[test]
        fn clusters_join_to_the_text(text in any::<String>()) {
            prop_assert_eq!(clusters(&text).collect::<String>(), text);
        }

        #[test]
        fn wrapping_loses_only_spaces(text in "[a-z 日👩é]{0,60}", max in 2usize..12) {
            let lines = wrapped(&text, max);
            prop_assert!(lines.iter().all(|line| width(line) <= max), "{:?}", lines);
            let strip = |s: &str| s.replace(' ', "");
            prop_assert_eq!(strip(&lines.concat()), strip(&text));
        }
    }
}
