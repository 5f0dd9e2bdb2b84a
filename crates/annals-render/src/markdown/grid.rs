//! A Markdown table: aligned columns, cells wrapped to share the width.
//!
//! If there are more columns than fit, each row becomes a list of `header: cell` lines.

use super::super::style::{BOLD, DIM, PLAIN};
use super::super::width::{Span, spans_width, wrap};
use pulldown_cmark::Alignment;

/// A table under construction; the first row is its header.
pub(super) struct Grid {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Vec<Span>>>,
}

impl Grid {
    pub(super) fn new(alignments: &[Alignment]) -> Grid {
        Grid {
            alignments: alignments.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(super) fn start_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn start_cell(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            row.push(Vec::new());
        }
    }

    /// Adds text to the current cell.
    pub(super) fn push(&mut self, span: Span) {
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.last_mut()) {
            cell.push(span);
        }
    }

    /// Draws the table in at most `max` columns.
    pub(super) fn lines(mut self, max: Option<usize>) -> Vec<Vec<Span>> {
        for span in self.rows.iter_mut().take(1).flatten().flatten() {
            span.embolden();
        }
        let widths = match max {
            None => self.natural_widths(),
            Some(max) => match shrink_widths(&self.natural_widths(), max) {
                Some(widths) => widths,
                None => return self.as_list(max),
            },
        };
        let mut lines = Vec::new();
        for (n, row) in self.rows.iter().enumerate() {
            self.push_row(&mut lines, row, &widths);
            if n == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(vec![Span::new(&rule.join("─┼─"), DIM)]);
            }
        }
        lines
    }

    fn natural_widths(&self) -> Vec<usize> {
        let mut widths = vec![1; self.alignments.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = spans_width(cell).max(*width);
            }
        }
        widths
    }

    fn push_row(&self, lines: &mut Vec<Vec<Span>>, row: &[Vec<Span>], widths: &[usize]) {
        let cells: Vec<Vec<Vec<Span>>> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| wrap(cell, Some(*width)))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        for at in 0..height {
            let mut line = Vec::new();
            for (n, width) in widths.iter().enumerate() {
                if n > 0 {
                    line.push(Span::new(" │ ", DIM));
                }
                let text = cells
                    .get(n)
                    .and_then(|cell| cell.get(at))
                    .map_or(&[][..], Vec::as_slice);
                let space = width.saturating_sub(spans_width(text));
                let before = match self.alignments.get(n) {
                    Some(Alignment::Right) => space,
                    Some(Alignment::Center) => space / 2,
                    _ => 0,
                };
                line.push(spaces(before));
                line.extend_from_slice(text);
                line.push(spaces(space - before));
            }
            lines.push(line);
        }
    }

    fn as_list(&self, max: usize) -> Vec<Vec<Span>> {
        let mut lines = Vec::new();
        let Some((header, rows)) = self.rows.split_first() else {
            return lines;
        };
        for (n, row) in rows.iter().enumerate() {
            if n > 0 {
                lines.push(Vec::new());
            }
            for (name, cell) in header.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
                let mut spans = name.clone();
                spans.push(Span::new(": ", BOLD));
                spans.extend_from_slice(cell);
                lines.append(&mut wrap(&spans, Some(max)));
            }
        }
        lines
    }
}

/// The narrowest width at which a wrapped cell is still readable.
const NARROWEST: usize = 6;
const BORDER: usize = 3;

/// Shrinks the widest columns until all fit into `max`, or returns `None`.
fn shrink_widths(natural: &[usize], max: usize) -> Option<Vec<usize>> {
    let room = max.checked_sub(BORDER * natural.len().saturating_sub(1))?;
    let sum = |limit: usize| natural.iter().map(|width| limit.min(*width)).sum::<usize>();
    let widest = natural.iter().copied().max().unwrap_or(0);
    if sum(widest) <= room {
        return Some(natural.to_vec());
    }
    let (mut fits, mut exceeds) = (0, widest);
    while exceeds - fits > 1 {
        let middle = fits + (exceeds - fits) / 2;
        if sum(middle) <= room {
            fits = middle
        } else {
            exceeds = middle
        }
    }
    (fits >= NARROWEST).then(|| natural.iter().map(|width| fits.min(*width)).collect())
}

fn spaces(n: usize) -> Span {
    Span::new(&" ".repeat(n), PLAIN)
}
