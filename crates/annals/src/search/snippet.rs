//! Snippets: the text around matches, on one line.

use std::ops::Range;

use super::matcher::Matcher;
use super::query::TextPart;
use super::searchable_text::{TextPiece, Tool};

/// Number of characters before the first and after the last match.
const AROUND: usize = 60;

/// Fewer characters than this are shown rather than replaced by an ellipsis.
const SLACK: usize = 8;

/// Maximum distance in bytes between matches in one snippet.
const TOGETHER: usize = 100;

/// Snippet with the positions of its matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snippet {
    pub(super) text: String,
    pub(super) at: Vec<Range<usize>>,
    pub(super) part: Option<TextPart>,
    /// Tool called there.
    pub(super) tool: Option<String>,
}

/// Score of a text selected by filters such as `kind:`; more than any other.
const MEANT: f32 = 1_000.0;

impl Matcher {
    /// Returns the most relevant part of an entry's texts.
    pub(super) fn snippet(&self, pieces: &[TextPiece<'_>]) -> Snippet {
        let mut best: Option<(f32, Snippet)> = None;
        for piece in pieces {
            let mut found: Vec<(Range<usize>, usize)> = Vec::new();
            for (number, finder) in self.finders.iter().enumerate() {
                let places = finder.all(&piece.text).filter(|at| !at.is_empty());
                found.extend(places.take(200).map(|at| (at, number)));
            }
            crate::sort::by_key(&mut found, |(at, _)| (at.start, at.end));
            let (together, terms) = densest(&found);
            let meant = if self.admits_text(piece) { MEANT } else { 0.0 };
            // The input of a tool call is more relevant than the tool's name.
            let bare = matches!(piece.tool, Tool::Named(name) if name == piece.text);
            let weight = match piece.text.trim().is_empty() {
                // Nothing to show, but the kind of text is still reported.
                true => -1.0,
                false if bare => 0.0,
                false => piece.weight,
            };
            let score = meant + terms as f32 * 10.0 + weight;
            if best.as_ref().is_some_and(|(most, _)| *most >= score) {
                continue;
            }
            let (text, at) = cut(&piece.text, &together);
            let part = Some(piece.part);
            let tool = match piece.tool {
                Tool::Named(name) => Some(name.to_owned()),
                Tool::None | Tool::Called(_) => None,
            };
            let snippet = Snippet {
                text,
                at,
                part,
                tool,
            };
            best = Some((score, snippet));
        }
        best.map(|(_, snippet)| snippet).unwrap_or_default()
    }
}

/// Returns the group of nearby matches with the most different terms, and the number of those
/// terms.
fn densest(found: &[(Range<usize>, usize)]) -> (Vec<Range<usize>>, usize) {
    let mut best = (Vec::new(), 0);
    for (at, (first, _)) in found.iter().enumerate() {
        let near = found
            .iter()
            .skip(at)
            .take_while(|(place, _)| place.start <= first.end + TOGETHER);
        let near: Vec<&(Range<usize>, usize)> = near.collect();
        let mut terms: Vec<usize> = near.iter().map(|(_, term)| *term).collect();
        terms.sort_unstable();
        terms.dedup();
        if terms.len() > best.1 {
            let places = near.into_iter().map(|(place, _)| place.clone());
            best = (places.collect(), terms.len());
        }
    }
    best
}

/// Cuts a text around some ranges and puts it on one line; returns the new ranges.
fn cut(text: &str, places: &[Range<usize>]) -> (String, Vec<Range<usize>>) {
    let first = places.first().map_or(0, |place| place.start);
    let last = places.iter().map(|place| place.end).max().unwrap_or(0);
    // A match may be as long as the text.
    let last = text
        .get(first..last)
        .and_then(|found| found.char_indices().nth(4 * AROUND))
        .map_or(last, |(at, _)| first + at);
    let before = text.get(..first).unwrap_or_default();
    let long = before.chars().rev().nth(AROUND + SLACK).is_some();
    let start = before.char_indices().rev().nth(AROUND - 1);
    let start = start.filter(|_| long).map_or(0, |(at, _)| at);
    let after = text.get(last..).unwrap_or_default();
    let long = after.chars().nth(AROUND + SLACK).is_some();
    let end = after.char_indices().nth(AROUND);
    let end = end.filter(|_| long).map_or(text.len(), |(at, _)| last + at);
    let mut line = String::new();
    let mut at = vec![None; places.len()];
    let mut ends = vec![None; places.len()];
    let mut space = false;
    let shown = text.get(start..end).unwrap_or_default();
    for (place, c) in shown.char_indices() {
        let place = start + place;
        if c.is_whitespace() {
            space = !line.is_empty();
            continue;
        }
        if std::mem::take(&mut space) {
            line.push(' ');
        }
        for (number, range) in places.iter().enumerate() {
            if range.contains(&place) {
                let from = at.get_mut(number);
                from.into_iter()
                    .for_each(|from| *from = from.or(Some(line.len())));
                let to = ends.get_mut(number);
                to.into_iter()
                    .for_each(|to| *to = Some(line.len() + c.len_utf8()));
            }
        }
        line.push(c);
    }
    let lead = if start > 0 { "…" } else { "" };
    let trail = if end < text.len() { "…" } else { "" };
    let ranges = at.into_iter().zip(ends);
    let ranges = ranges.filter_map(|(from, to)| Some(from? + lead.len()..to? + lead.len()));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    (format!("{lead}{line}{trail}"), merged)
}

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "one place is a list of places too"
)]
mod tests {
    use super::*;

    #[test]
    fn snippet_is_one_line_around_the_matches() {
        let marked = |text: &str, places: &[Range<usize>]| {
            let (line, at) = cut(text, places);
            let mut shown = String::new();
            let mut from = 0;
            for range in at {
                shown += &format!("{}[{}]", &line[from..range.start], &line[range.clone()]);
                from = range.end;
            }
            shown + &line[from..]
        };
        assert_eq!(marked("a hit", &[2..5]), "a [hit]");
        assert_eq!(marked("  a\n\n hit \t b  ", &[6..9]), "a [hit] b");
        assert_eq!(marked("two\n words", &[0..10]), "[two words]");
        assert_eq!(marked("ab", &[0..1, 1..2]), "[ab]");
        let long = format!("{} hit {}", "é".repeat(100), "ü".repeat(100));
        let at = long.find("hit").unwrap();
        let e = "é".repeat(59);
        let u = "ü".repeat(59);
        assert_eq!(marked(&long, &[at..at + 3]), format!("…{e} [hit] {u}…"));
        assert_eq!(cut("", &[]), (String::new(), vec![]));
        let huge = "x".repeat(5_000_000);
        assert!(cut(&huge, &[0..5_000_000]).0.len() < 1_000);
    }

    #[test]
    fn snippet_prefers_different_terms_close_together() {
        let found = [(0..3, 0), (500..503, 0), (520..523, 1), (530..533, 0)];
        assert_eq!(densest(&found), (vec![500..503, 520..523, 530..533], 2));
        assert_eq!(densest(&[]), (vec![], 0));
    }
}
