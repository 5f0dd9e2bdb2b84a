//! Draws a conversation.

use annals_render::style::{DIM, ERROR, MATCH, USER};
use annals_render::{money, size};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::Reader;
use crate::protocol::ItemKind;
use crate::text::{highlight, styled};

/// Columns to the left of the text: the mark of the current message.
pub(crate) const GUTTER: usize = 2;

impl Reader {
    /// Draws the text. `is_focused` marks the current message.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>, area: Rect, is_focused: bool) {
        if let Some(error) = &self.error {
            let text = annals_render::message::plain_text(error, Some(usize::from(area.width)));
            let mut lines = vec![Line::from(styled(ERROR, "This session could not be read."))];
            lines.extend(crate::text::lines(&text));
            frame.render_widget(ratatui::widgets::Paragraph::new(lines), area);
            return;
        }
        if !self.is_open {
            let text = Line::from(styled(DIM, "reading …"));
            frame.render_widget(text, area);
            return;
        }
        if self.conversation.items.is_empty() {
            let text = Line::from(styled(DIM, "This session has no messages yet."));
            frame.render_widget(text, area);
            return;
        }
        let find = self.find.as_ref().map(|find| find.text.as_str());
        for (row, visible) in self.visible.iter().enumerate() {
            let y = area.y + u16::try_from(row).unwrap_or(u16::MAX);
            if y >= area.bottom() {
                break;
            }
            let is_current = is_focused && self.is_in_current(visible.item);
            let is_prompt = self.kind(visible.item) == Some(ItemKind::Prompt);
            let bar = match (is_current, is_prompt) {
                (true, _) => styled(MATCH, "▌"),
                (false, true) => styled(USER, "│"),
                (false, false) => Span::raw(" "),
            };
            let mut line = visible.line.clone();
            let is_blank = line.width() == 0;
            if let Some(find) = find {
                line = highlight(line, find);
            }
            let bar = if is_blank && row_begins(self, row) {
                Span::raw(" ")
            } else {
                bar
            };
            line.spans.insert(0, Span::raw(" "));
            line.spans.insert(0, bar);
            let at = Rect {
                y,
                height: 1,
                ..area
            };
            frame.render_widget(line, at);
        }
    }

    /// Returns whether an item belongs to the current message: to the response that it is part of.
    fn is_in_current(&self, item: usize) -> bool {
        self.start_of(item) == self.start_of(self.current)
    }

    /// Returns the first item of the message that an item is part of.
    pub(crate) fn start_of(&self, item: usize) -> usize {
        let items = self.conversation.items.get(..=item).unwrap_or_default();
        // A long run of results is not followed further than this.
        let start = items.iter().rev().take(1_000).position(|it| it.starts);
        start.map_or(item, |back| item - back)
    }

    /// Returns what the line above the text says at the left.
    pub(crate) fn title(&self) -> Vec<Span<'static>> {
        let session = &self.conversation.session;
        let id = annals::view::short_id(&session.id);
        let title = match session.title.is_empty() {
            true => "(no title)",
            false => session.title.as_str(),
        };
        let mut spans = vec![
            styled(annals_render::style::ID, id),
            Span::raw("  "),
            styled(annals_render::style::TITLE, title),
        ];
        if let crate::protocol::ConversationRef::Agent(number) = self.conversation.which {
            let agent = self.conversation.agents.get(number);
            let what = agent.and_then(|agent| agent.description.as_deref());
            let text = format!("  ⚙ {}", what.unwrap_or("sub-agent"));
            spans.push(styled(annals_render::style::TOOL, &text));
        }
        spans
    }

    /// Returns what the line above the text says at the right.
    pub(crate) fn facts(&self) -> Vec<Span<'static>> {
        let mut facts = Vec::new();
        if let Some((number, count)) = self.conversation.branch.filter(|(_, count)| *count > 1) {
            facts.push(format!("⎇ {number}/{count}"));
        }
        if self.following {
            facts.push("● following".to_owned());
        }
        let share = self.conversation.fill.and_then(|fill| fill.share());
        if let Some(share) = share {
            facts.push(format!("ctx {:.0} %", share * 100.0));
        }
        if let Some(cost) = self.conversation.cost {
            facts.push(money::cents(cost));
        }
        vec![styled(DIM, &facts.join("  "))]
    }

    /// Returns the place in the conversation: `14 of 212`.
    pub(crate) fn place(&self) -> String {
        let count = self.conversation.items.len() as u64;
        if count == 0 {
            return String::new();
        }
        let at = size::count(self.current as u64 + 1);
        match self.conversation.is_whole {
            true => format!("{at} of {}", size::count(count)),
            false => "reading …".to_owned(),
        }
    }
}

/// Returns whether a line of the screen is the first of its item: the empty one above a heading.
fn row_begins(reader: &Reader, row: usize) -> bool {
    let item = |row: usize| reader.visible.get(row).map(|line| line.item);
    row == 0 || item(row) != row.checked_sub(1).and_then(item)
}
