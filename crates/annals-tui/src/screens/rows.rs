//! A selected row of a list, and the part of the list that is on the screen.

use annals_render::style::MATCH;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::keys::Action;
use crate::text::styled;

/// Selection and scroll position of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) selected: usize,
    pub(crate) top: usize,
    /// Number of rows on the screen at the last layout.
    pub(crate) page: usize,
}

impl Cursor {
    /// Moves in a list of `count` rows. Returns whether the action is a movement.
    pub(crate) fn act(&mut self, action: Action, count: usize) -> bool {
        let last = count.saturating_sub(1);
        let page = self.page.max(1);
        self.selected = match action {
            Action::Up => self.selected.saturating_sub(1),
            Action::Down => self.selected + 1,
            Action::PageUp | Action::HalfUp => self.selected.saturating_sub(page),
            Action::PageDown | Action::HalfDown => self.selected + page,
            Action::First => 0,
            Action::Last => last,
            _ => return false,
        }
        .min(last);
        true
    }

    /// Makes the selected row visible in `height` lines; `height_of` is the height of a row.
    pub(crate) fn arrange(
        &mut self,
        count: usize,
        height: usize,
        height_of: impl Fn(usize) -> usize,
    ) {
        self.selected = self.selected.min(count.saturating_sub(1));
        // The first row of a screen that ends with this one.
        let first_above = |last: usize| {
            let mut used = 0;
            let fits = |row: &usize| {
                used += height_of(*row);
                used <= height
            };
            (0..=last).rev().take_while(fits).last().unwrap_or(last)
        };
        let end = first_above(count.saturating_sub(1));
        let lowest = self.top.min(self.selected).min(end);
        self.top = lowest.max(first_above(self.selected));
        let mut used = 0;
        let rows = (self.top..count).take_while(|row| {
            used += height_of(*row);
            used <= height
        });
        self.page = rows.count();
    }

    /// Draws the rows that are on the screen. `draw` returns the lines of a row.
    pub(crate) fn draw(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        count: usize,
        mut draw: impl FnMut(usize) -> Vec<Line<'static>>,
    ) {
        let mut y = area.y;
        for row in self.top..count {
            for (number, mut line) in draw(row).into_iter().enumerate() {
                if y >= area.bottom() {
                    return;
                }
                let is_selected = row == self.selected;
                let mark = match (is_selected, number) {
                    (true, 0) => styled(MATCH, "▌"),
                    (true, _) => styled(MATCH, "▌"),
                    (false, _) => Span::raw(" "),
                };
                line.spans.insert(0, mark);
                let at = Rect {
                    y,
                    height: 1,
                    ..area
                };
                frame.render_widget(line, at);
                y += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_row_stays_on_the_screen() {
        let mut cursor = Cursor::default();
        cursor.arrange(100, 10, |_| 2);
        assert_eq!((cursor.top, cursor.page), (0, 5));
        for _ in 0..7 {
            cursor.act(Action::Down, 100);
        }
        cursor.arrange(100, 10, |_| 2);
        assert_eq!((cursor.top, cursor.selected), (3, 7));
        cursor.act(Action::First, 100);
        cursor.arrange(100, 10, |_| 2);
        assert_eq!((cursor.top, cursor.selected), (0, 0));
        cursor.act(Action::Last, 100);
        cursor.arrange(100, 10, |_| 2);
        assert_eq!((cursor.top, cursor.selected), (95, 99));
        // The list became shorter.
        cursor.arrange(3, 10, |_| 2);
        assert_eq!((cursor.top, cursor.selected), (0, 2));
        cursor.arrange(0, 10, |_| 2);
        assert_eq!(cursor.selected, 0);
    }

    #[test]
    fn a_row_that_is_higher_than_the_screen_is_shown() {
        let mut cursor = Cursor::default();
        cursor.act(Action::Last, 5);
        cursor.arrange(5, 1, |_| 2);
        assert_eq!(cursor.top, 4);
    }
}
