//! The files that a session changed, with their saved versions.

use annals_render::size;
use annals_render::style::{DIM, PATH, TITLE};
use annals_render::time::Clock;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::Cursor;
use super::list::draw_lines;
use crate::protocol::{FileRow, SessionName};
use crate::text::{spread, styled};

/// The files of a session.
#[derive(Debug, Default)]
pub(crate) struct FilesScreen {
    pub(crate) session: SessionName,
    pub(crate) files: Option<Vec<FileRow>>,
    pub(crate) cursor: Cursor,
}

impl FilesScreen {
    /// The selected file.
    pub(crate) fn selected(&self) -> Option<&FileRow> {
        self.files.as_ref()?.get(self.cursor.selected)
    }

    /// The number of files.
    pub(crate) fn count(&self) -> usize {
        self.files.as_ref().map_or(0, Vec::len)
    }

    /// Draws the rows.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>, area: Rect, clock: &Clock) {
        let Some(files) = &self.files else {
            return draw_lines(frame, area, vec![Line::from(styled(DIM, "reading …"))]);
        };
        if files.is_empty() {
            let text = [
                "No versions of files were saved in this session.",
                "",
                "Claude Code saves a file before it edits it.",
            ];
            let lines = text.iter().map(|text| Line::from(styled(DIM, text)));
            return draw_lines(frame, area, lines.collect());
        }
        let width = usize::from(area.width).saturating_sub(1);
        self.cursor.draw(frame, area, files.len(), |at| {
            let Some(file) = files.get(at) else {
                return Vec::new();
            };
            let style = if at == self.cursor.selected {
                TITLE
            } else {
                PATH
            };
            let versions = size::pluralize(file.versions.len() as u64, "version");
            let last = file.versions.last();
            let time = last.and_then(|version| version.time);
            let time = time.map(|time| clock.ago(time)).unwrap_or_default();
            let facts = format!("{versions}  {:>18}", time);
            let room = width.saturating_sub(facts.chars().count() + 2);
            let path =
                annals_render::width::truncate_middle(&annals_render::text::safe(&file.path), room);
            let left = vec![Span::raw(" "), styled(style, &path)];
            vec![spread(left, vec![styled(DIM, &facts)], width)]
        });
    }
}
