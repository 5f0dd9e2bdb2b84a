//! Movements in a conversation.

use annals_render::time::Clock;

use super::{Reader, ScrollPosition};
use crate::protocol::{Effect, ItemKind};

impl Reader {
    /// Scrolls by lines.
    pub(crate) fn scroll(&mut self, lines: isize, clock: &Clock) {
        match lines {
            0 => {}
            1.. => self.scroll_down(lines.unsigned_abs(), clock),
            _ => self.scroll_up(lines.unsigned_abs(), clock),
        }
    }

    fn scroll_down(&mut self, mut lines: usize, clock: &Clock) {
        if self.at_end {
            self.current = self.conversation.items.len().saturating_sub(1);
            return;
        }
        let count = self.conversation.items.len();
        while lines > 0 && self.top.item + 1 < count {
            let height = self.lines(self.top.item, clock).len();
            let rest = height.saturating_sub(self.top.line);
            if lines < rest {
                self.top.line += lines;
                return;
            }
            lines -= rest;
            self.top = ScrollPosition {
                item: self.top.item + 1,
                line: 0,
            };
        }
        self.top.line += lines;
    }

    fn scroll_up(&mut self, mut lines: usize, clock: &Clock) {
        self.at_end = false;
        loop {
            if lines <= self.top.line {
                self.top.line -= lines;
                return;
            }
            lines -= self.top.line;
            self.top.line = 0;
            let Some(before) = self.top.item.checked_sub(1) else {
                self.current = 0;
                return;
            };
            self.top.item = before;
            self.top.line = self.lines(before, clock).len();
        }
    }

    /// Scrolls by a part of the page.
    pub(crate) fn page(&mut self, pages: f64, clock: &Clock) {
        let lines = (self.size.1 as f64 * pages) as isize;
        // One line stays in view.
        self.scroll(lines - lines.signum(), clock);
    }

    /// Goes to the beginning.
    pub(crate) fn first(&mut self) {
        self.at_end = false;
        self.top = ScrollPosition::default();
        self.current = 0;
    }

    /// Goes to the end.
    pub(crate) fn last(&mut self) {
        self.at_end = true;
        self.current = self.conversation.items.len().saturating_sub(1);
    }

    /// Goes to the next or previous message.
    pub(crate) fn step(&mut self, forward: bool) {
        self.step_to(forward, |reader, item| {
            let known = reader.conversation.items.get(item);
            known.is_some_and(|item| item.starts && item.kind != ItemKind::Result)
        });
    }

    /// Goes to the next or previous prompt.
    pub(crate) fn step_prompt(&mut self, forward: bool) {
        self.step_to(forward, |reader, item| {
            reader.kind(item) == Some(ItemKind::Prompt)
        });
    }

    fn step_to(&mut self, forward: bool, fits: impl Fn(&Reader, usize) -> bool) {
        let count = self.conversation.items.len();
        let found = match forward {
            true => (self.current + 1..count).find(|item| fits(self, *item)),
            false => (0..self.current.min(count))
                .rev()
                .find(|item| fits(self, *item)),
        };
        match (found, forward) {
            (Some(item), _) => self.show(item),
            (None, true) => self.last(),
            (None, false) => self.first(),
        }
    }

    /// Makes an item current, and shows it at the top unless its beginning is on the screen.
    pub(crate) fn show(&mut self, item: usize) {
        self.current = item;
        let on_screen = self.visible.iter().position(|line| line.item == item);
        let half = self.size.1 / 2;
        if on_screen.is_none_or(|line| line > half || line == 0) {
            self.at_end = false;
            self.top = ScrollPosition { item, line: 0 };
        }
    }

    /// Starts to find text in the conversation.
    pub(crate) fn find_text(&mut self, text: String) -> Effect {
        let items = self.conversation.items.iter();
        let effect = Effect::Find {
            reader: self.id,
            stamp: self.conversation.stamp,
            log: self.conversation.log,
            items: items.map(|item| item.outline).collect(),
            text: text.clone(),
        };
        self.find = Some(super::Find {
            text,
            ..super::Find::default()
        });
        effect
    }

    /// Takes the messages that contain the text, as outline indexes, and goes to the nearest.
    pub(crate) fn take_found(&mut self, stamp: u64, text: &str, outlines: &[usize]) {
        if stamp != self.conversation.stamp {
            return;
        }
        let found: std::collections::HashSet<usize> = outlines.iter().copied().collect();
        let items = self.conversation.items.iter().enumerate();
        let items = items.filter(|(_, item)| found.contains(&item.outline));
        let items: Vec<usize> = items.map(|(at, _)| at).collect();
        let Some(find) = self.find.as_mut().filter(|find| find.text == text) else {
            return;
        };
        let next = items.iter().position(|item| *item >= self.current);
        find.at = next.unwrap_or(0);
        let target = items.get(find.at).copied();
        find.items = Some(items);
        if let Some(item) = target {
            self.show_found(item);
        }
    }

    /// Goes to the next or previous message that contains the text.
    pub(crate) fn find_next(&mut self, forward: bool) {
        let Some(find) = &mut self.find else { return };
        let Some(items) = find.items.as_ref().filter(|items| !items.is_empty()) else {
            return;
        };
        find.at = match forward {
            true => (find.at + 1) % items.len(),
            false => (find.at + items.len() - 1) % items.len(),
        };
        if let Some(item) = items.get(find.at).copied() {
            self.show_found(item);
        }
    }

    fn show_found(&mut self, item: usize) {
        // A call or a result has to be visible.
        if self.tools == super::Tools::None || self.kind(item) == Some(ItemKind::Result) {
            self.tools = self.tools.max_cut();
        }
        self.show(item);
    }

    /// Selects the message at a line of the screen.
    pub(crate) fn click(&mut self, line: usize) {
        if let Some(line) = self.visible.get(line) {
            self.current = line.item;
        }
    }
}

impl super::Tools {
    /// Returns this level, or that which shows results.
    fn max_cut(self) -> Self {
        match self {
            super::Tools::Whole => self,
            _ => super::Tools::Cut,
        }
    }
}
