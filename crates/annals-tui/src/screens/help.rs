//! The keys of a screen, from the table that dispatches them.

use annals_render::style::{DIM, MATCH, TITLE};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Clear;

use crate::keys::{self, Action, Binding, Context};
use crate::text::{column, cut, styled};

/// The help of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Help {
    pub(crate) context: Context,
    pub(crate) top: usize,
}

impl Help {
    /// The lines.
    fn lines(&self, read_only: bool) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        let mut has_gap = false;
        for row in keys::bindings_in(self.context, read_only) {
            if row.context == Context::Any && !has_gap && !lines.is_empty() {
                lines.push(Line::default());
                has_gap = true;
            }
            let names: Vec<String> = row.keys.iter().map(|key| keys::label(key)).collect();
            lines.push(Line::from(vec![
                styled(MATCH, &column(&names.join("  "), 16)),
                Span::raw(" "),
                crate::text::plain(row.help),
            ]));
        }
        if self.context == Context::List {
            lines.push(Line::default());
            for (words, about) in [
                (
                    "reset \"by peer\"",
                    "words and phrases, as in `annals search`",
                ),
                (
                    "role:user",
                    "conditions: role, tool, file, project, model, since …",
                ),
                ("-word  a or b", "without a word; one of two"),
            ] {
                lines.push(Line::from(vec![
                    styled(MATCH, &column(words, 16)),
                    Span::raw(" "),
                    crate::text::plain(about),
                ]));
            }
        }
        lines
    }

    /// Scrolls.
    pub(crate) fn scroll(&mut self, lines: isize, height: usize, read_only: bool) {
        let count = self.lines(read_only).len();
        let most = count.saturating_sub(height.saturating_sub(4));
        self.top = self.top.saturating_add_signed(lines).min(most);
    }

    /// Draws it over the screen.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>, area: Rect, read_only: bool) {
        let lines = self.lines(read_only);
        let hides = lines.len() + 2 > usize::from(area.height);
        let title = if hides {
            "keys · ↓ ↑ scroll"
        } else {
            "keys"
        };
        let inner = popup(frame, area, 72, lines.len(), title);
        let width = usize::from(inner.width);
        for (line, y) in lines
            .into_iter()
            .skip(self.top)
            .zip(inner.y..inner.bottom())
        {
            let at = Rect {
                y,
                height: 1,
                ..inner
            };
            frame.render_widget(Line::from(cut(line.spans, width)), at);
        }
    }
}

/// Draws a frame in the middle of the screen. Returns the area inside.
pub(super) fn popup(
    frame: &mut Frame<'_>,
    area: Rect,
    width: u16,
    lines: usize,
    title: &str,
) -> Rect {
    let width = width.min(area.width);
    let height = u16::try_from(lines + 2)
        .unwrap_or(u16::MAX)
        .min(area.height);
    let outer = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, outer);
    let block = ratatui::widgets::Block::bordered()
        .border_type(ratatui::widgets::BorderType::Rounded)
        .border_style(crate::text::style(DIM))
        .title(Line::from(vec![
            Span::raw(" "),
            styled(TITLE, title),
            Span::raw(" "),
        ]))
        .padding(ratatui::widgets::Padding::horizontal(1));
    let inner = block.inner(outer);
    frame.render_widget(block, outer);
    inner
}

/// The line of the most important keys. That of the help is always there.
pub(crate) fn footer(context: Context, width: usize, read_only: bool) -> Line<'static> {
    let rows = keys::bindings_in(context, read_only).filter(|row| !row.footer.is_empty());
    let (help, rows): (Vec<&Binding>, Vec<&Binding>) =
        rows.partition(|row| row.action == Action::Help);
    let help: Vec<Span<'static>> = help.into_iter().flat_map(footer_key).collect();
    let columns = |spans: &[Span<'static>]| spans.iter().map(Span::width).sum::<usize>();
    let mut left = width.saturating_sub(1 + columns(&help));
    let mut spans = vec![Span::raw(" ")];
    for key in rows.into_iter().map(footer_key) {
        let needed = columns(&key);
        if needed > left {
            break;
        }
        left -= needed;
        spans.extend(key);
    }
    spans.extend(help);
    Line::from(spans)
}

/// A key in the footer.
fn footer_key(row: &Binding) -> Vec<Span<'static>> {
    // Some labels name both keys of a pair.
    let (key, label) = match row.footer.rsplit_once(' ') {
        Some((pair, label)) if pair.starts_with(['[', '{']) => (pair.to_owned(), label),
        _ => {
            let key = row.keys.first().copied().unwrap_or_default();
            (keys::label(key), row.footer)
        }
    };
    vec![styled(MATCH, &key), styled(DIM, &format!(" {label}  "))]
}
