//! The tree of a session: prompts, branches, sub-agents, compactions.

use annals_render::style::{DIM, PATH, SUCCESS, SYSTEM, TIME, TITLE, TOOL, USER};
use annals_render::time::Clock;
use annals_render::{money, size};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::Cursor;
use super::list::draw_lines;
use crate::protocol::{SessionName, TreeKind, TreeRow};
use crate::text::{plain, spread, styled};

/// The tree of a session.
#[derive(Debug, Default)]
pub(crate) struct TreeScreen {
    pub(crate) session: SessionName,
    pub(crate) rows: Option<Vec<TreeRow>>,
    pub(crate) cursor: Cursor,
}

impl TreeScreen {
    /// Takes the rows, and selects where the agent would resume.
    pub(crate) fn take(&mut self, rows: Vec<TreeRow>) {
        let resumes = rows.iter().position(|row| row.resumes);
        self.cursor.selected = resumes.unwrap_or(0);
        self.rows = Some(rows);
    }

    /// The selected row.
    pub(crate) fn selected(&self) -> Option<&TreeRow> {
        self.rows.as_ref()?.get(self.cursor.selected)
    }

    /// The number of rows.
    pub(crate) fn count(&self) -> usize {
        self.rows.as_ref().map_or(0, Vec::len)
    }

    /// Draws the rows.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>, area: Rect, clock: &Clock) {
        let Some(rows) = &self.rows else {
            return draw_lines(frame, area, vec![Line::from(styled(DIM, "reading …"))]);
        };
        if rows.is_empty() {
            let text = "This session has no messages yet.";
            return draw_lines(frame, area, vec![Line::from(styled(DIM, text))]);
        }
        let width = usize::from(area.width).saturating_sub(1);
        self.cursor.draw(frame, area, rows.len(), |at| {
            let row = rows.get(at);
            let is_selected = at == self.cursor.selected;
            row.map(|row| vec![line(row, width, is_selected, clock)])
                .unwrap_or_default()
        });
    }
}

fn line(row: &TreeRow, width: usize, is_selected: bool, clock: &Clock) -> Line<'static> {
    let mut left = vec![Span::raw(" "), styled(DIM, &row.prefix)];
    let (mark, style) = match row.kind {
        TreeKind::Prompt => ("● ", USER),
        TreeKind::Compaction => ("◆ ", SYSTEM),
        TreeKind::Agent => ("⚙ ", TOOL),
        TreeKind::File => ("✎ ", PATH),
        TreeKind::Leaf => ("· ", DIM),
    };
    left.push(styled(style, mark));
    if let Some(time) = row.time {
        let is_today = clock.date(time) == clock.date(clock.now);
        let form = if is_today {
            "%H:%M  "
        } else {
            "%-d %b %H:%M  "
        };
        left.push(styled(TIME, &clock.format(time, form)));
    }
    left.push(match is_selected {
        true => styled(TITLE, &row.text),
        false => plain(&row.text),
    });
    let mut end = Vec::new();
    if row.resumes {
        end.push(styled(SUCCESS, " ➤ resumes here"));
    }
    if width >= 60 {
        let messages = match row.messages {
            0 => String::new(),
            count => size::pluralize(count as u64, "message"),
        };
        end.push(styled(DIM, &crate::text::right(&messages, 15)));
        let cost = row.cost.map(money::cents).unwrap_or_default();
        end.push(styled(DIM, &crate::text::right(&cost, 9)));
    }
    spread(left, end, width)
}
