//! Damage, and the command that repairs it.

use annals_render::severity::{severity_mark, severity_style};
use annals_render::size;
use annals_render::style::{DIM, PATH, SUCCESS, TITLE};
use annals_render::text::safe;
use annals_render::width::truncate_middle;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::Cursor;
use super::list::draw_lines;
use crate::protocol::{CheckRow, CheckSummary};
use crate::text::{spread, styled};

/// Findings.
#[derive(Debug, Default)]
pub(crate) struct CheckScreen {
    pub(crate) found: Option<CheckSummary>,
    pub(crate) cursor: Cursor,
}

impl CheckScreen {
    /// The selected row.
    pub(crate) fn selected(&self) -> Option<&CheckRow> {
        self.found.as_ref()?.rows.get(self.cursor.selected)
    }

    /// The number of rows.
    pub(crate) fn count(&self) -> usize {
        self.found.as_ref().map_or(0, |found| found.rows.len())
    }

    /// The numbers of the heading.
    pub(crate) fn facts(&self) -> Vec<Span<'static>> {
        let Some(found) = &self.found else {
            return Vec::new();
        };
        let lines = size::pluralize(found.lines, "line");
        vec![styled(DIM, &format!("{lines} checked"))]
    }

    /// Draws the rows.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(found) = &self.found else {
            let text = "checking every file …";
            return draw_lines(frame, area, vec![Line::from(styled(DIM, text))]);
        };
        if found.rows.is_empty() && found.unreadable.is_empty() {
            let text = match found.has_sessions {
                true => "✓ No damage was found.",
                false => "There is no session to check.",
            };
            return draw_lines(frame, area, vec![Line::from(styled(SUCCESS, text))]);
        }
        let width = usize::from(area.width).saturating_sub(1);
        let mut area = area;
        for text in found.unreadable.iter().take(3) {
            draw_lines(frame, area, vec![Line::from(styled(DIM, text))]);
            area.y += 1;
            area.height = area.height.saturating_sub(1);
        }
        self.cursor.draw(frame, area, found.rows.len(), |at| {
            found.rows.get(at).map_or_else(Vec::new, |row| {
                self.row(row, at == self.cursor.selected, width)
            })
        });
    }

    fn row(&self, row: &CheckRow, is_selected: bool, width: usize) -> Vec<Line<'static>> {
        let style = severity_style(row.severity);
        let mut left = vec![
            Span::raw(" "),
            styled(style, severity_mark(row.severity)),
            Span::raw(" "),
        ];
        let name = if is_selected { TITLE } else { style };
        left.push(styled(name, row.kind));
        if row.count > 1 {
            left.push(styled(DIM, &format!(" × {}", row.count)));
        }
        let place = match row.line {
            0 => row.path.clone(),
            line => format!("{}:{line}", row.path),
        };
        let place = truncate_middle(&safe(&place), width / 2);
        let first = spread(left, vec![styled(PATH, &place)], width);
        if !is_selected {
            return vec![first];
        }
        let advice = match &row.command {
            Some(command) => format!("   {}  →  {command}", row.advice),
            None => format!("   {}", row.advice),
        };
        let advice = annals_render::message::plain_text(&advice, Some(width.max(10)));
        let mut lines = vec![first];
        for line in crate::text::lines(&advice) {
            let text = line.to_string();
            lines.push(Line::from(styled(
                DIM,
                &format!("   {}", text.trim_start()),
            )));
        }
        lines
    }

    /// Makes the selected row visible.
    pub(crate) fn arrange(&mut self, height: usize) {
        let selected = self.cursor.selected;
        let height_of = |row: usize| if row == selected { 3 } else { 1 };
        self.cursor.arrange(self.count(), height, height_of);
    }
}
