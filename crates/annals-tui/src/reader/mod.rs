//! A conversation on the screen, whole or as a preview.
//!
//! The position is a message and a line in it. Only messages near the screen are loaded and
//! formatted; nothing is known about the heights of others.

mod entry_lines;
mod moves;
mod view;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use annals::model::{Block, Body, Entry};
use annals_render::time::Clock;
use ratatui::text::Line;

use crate::protocol::{
    Conversation, ConversationRef, Effect, ItemKind, OpenQuestion, ReaderId, SessionName,
};

use entry_lines::{Manner, entry_lines};
pub(crate) use entry_lines::{Tools, entry_text};
pub(crate) use view::GUTTER;

/// Number of messages loaded on each side of the screen.
const MARGIN: usize = 40;
/// Number of loaded messages above which those far away are dropped.
const MAX_LOADED: usize = 600;

/// A conversation on the screen.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) id: ReaderId,
    /// Displayed conversation.
    pub(crate) conversation: Conversation,
    /// Whether the first answer arrived.
    pub(crate) is_open: bool,
    /// Loaded entries by outline index.
    entries: HashMap<usize, Entry>,
    /// Outline indexes that were asked for.
    requested: HashSet<usize>,
    /// Names of calls by id, for failures.
    calls: HashMap<String, String>,
    /// Formatted items.
    formatted: HashMap<usize, Arc<Vec<Line<'static>>>>,
    /// Settings that the formatted items depend on.
    formatted_for: (usize, Tools, bool, bool),
    /// The first line on the screen.
    top: ScrollPosition,
    /// Whether the end is shown, and stays shown when the conversation grows.
    pub(crate) at_end: bool,
    /// The message that actions refer to.
    pub(crate) current: usize,
    pub(crate) tools: Tools,
    pub(crate) thinking: bool,
    pub(crate) costs: bool,
    pub(crate) following: bool,
    /// Whether the end of a session is enough.
    is_preview: bool,
    pub(crate) find: Option<Find>,
    /// The conversation that was asked for first.
    asked: ConversationRef,
    /// The message to show when the whole conversation arrives.
    wanted: Option<String>,
    pub(crate) error: Option<String>,
    /// Lines on the screen.
    pub(crate) visible: Vec<VisibleLine>,
    size: (usize, usize),
}

/// A position in a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct ScrollPosition {
    item: usize,
    line: usize,
}

/// A line on the screen.
#[derive(Clone, Debug)]
pub(crate) struct VisibleLine {
    pub(crate) item: usize,
    pub(crate) line: Line<'static>,
}

/// Text that was searched for in the conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Find {
    pub(crate) text: String,
    /// Items that contain it; unknown until the answer arrives.
    pub(crate) items: Option<Vec<usize>>,
    pub(crate) at: usize,
}

impl Reader {
    /// Creates a reader, and the question that fills it.
    pub(crate) fn open(
        id: ReaderId,
        session: SessionName,
        which: ConversationRef,
        at: Option<String>,
        preview: bool,
    ) -> (Self, Effect) {
        let reader = Reader {
            id,
            asked: which.clone(),
            conversation: Conversation {
                session,
                which,
                ..Conversation::default()
            },
            is_open: false,
            entries: HashMap::new(),
            requested: HashSet::new(),
            calls: HashMap::new(),
            formatted: HashMap::new(),
            formatted_for: (0, Tools::Line, false, false),
            top: ScrollPosition::default(),
            at_end: true,
            current: 0,
            tools: Tools::Line,
            thinking: false,
            costs: true,
            following: false,
            is_preview: preview,
            find: None,
            wanted: at,
            error: None,
            visible: Vec::new(),
            size: (0, 0),
        };
        let question = reader.question(preview);
        (reader, Effect::Open(question))
    }

    /// Returns the question for this conversation: for its end, if the end is shown.
    pub(crate) fn question(&self, preview: bool) -> OpenQuestion {
        OpenQuestion {
            reader: self.id,
            session: self.conversation.session.clone(),
            which: self.conversation.which.clone(),
            tail: !self.is_open
                && self.wanted.is_none()
                && self.conversation.which == ConversationRef::Resumed,
            at: self.wanted.clone(),
            preview,
        }
    }

    /// Takes an answer. Keeps the place on the screen, unless a message was asked for.
    pub(crate) fn take(&mut self, mut new: Conversation) -> Vec<Effect> {
        let old_offset = |at: usize| Some(self.conversation.items.get(at)?.offset);
        let (top, current) = (old_offset(self.top.item), old_offset(self.current));
        let same_log = self.is_open && self.conversation.log == new.log;
        self.entries = new.entries.drain(..).collect();
        self.requested.clear();
        self.formatted.clear();
        self.error = None;
        let find = |offset: Option<u64>| {
            let offset = offset?;
            new.items.iter().position(|item| item.offset == offset)
        };
        let last = new.items.len().saturating_sub(1);
        let named = new.at.filter(|_| self.wanted.take().is_some());
        match (named, self.at_end) {
            (Some(at), _) => {
                self.at_end = false;
                self.current = at;
                self.top = ScrollPosition { item: at, line: 0 };
            }
            (None, true) if self.following => self.current = last,
            (None, true) => self.current = find(current).filter(|_| same_log).unwrap_or(last),
            (None, false) => {
                // On another branch: the last message that both have.
                let shared = || {
                    let old = &self.conversation.items;
                    let pairs = old.iter().zip(&new.items);
                    let common = pairs
                        .take_while(|(old, new)| old.offset == new.offset)
                        .count();
                    common.min(last)
                };
                let item = find(top).unwrap_or_else(shared);
                let line = if find(top).is_some() {
                    self.top.line
                } else {
                    0
                };
                self.top = ScrollPosition { item, line };
                self.current = find(current).unwrap_or(item);
            }
        }
        if let Some(find) = &mut self.find {
            find.items = None;
        }
        let was_tail = !new.is_whole;
        self.conversation = new;
        self.is_open = true;
        self.remember_calls();
        match was_tail && !self.is_preview {
            true => vec![Effect::Open(OpenQuestion {
                tail: false,
                ..self.question(false)
            })],
            false => Vec::new(),
        }
    }

    /// Takes loaded messages.
    pub(crate) fn take_entries(&mut self, stamp: u64, entries: Vec<(usize, Entry)>) {
        if stamp == self.conversation.stamp {
            self.entries.extend(entries);
            self.formatted.clear();
            self.remember_calls();
        }
    }

    fn remember_calls(&mut self) {
        for entry in self.entries.values() {
            if let Body::Message(message) = &entry.body {
                for block in &message.blocks {
                    if let Block::ToolUse { id, name, .. } = block {
                        self.calls.insert(id.clone(), name.clone());
                    }
                }
            }
        }
    }

    /// Returns the entry that actions refer to, if it is loaded.
    pub(crate) fn current_entry(&self) -> Option<&Entry> {
        let item = self.conversation.items.get(self.current)?;
        self.entries.get(&item.outline)
    }

    /// Returns the id of the message that actions refer to.
    pub(crate) fn current_id(&self) -> Option<String> {
        Some(self.current_entry()?.id.as_ref()?.to_string())
    }

    /// Lays out the lines for a size. Returns what has to be loaded.
    pub(crate) fn arrange(&mut self, width: usize, height: usize, clock: &Clock) -> Option<Effect> {
        self.size = (width, height);
        let depends_on = (width, self.tools, self.thinking, self.costs);
        if self.formatted_for != depends_on {
            self.formatted.clear();
            self.formatted_for = depends_on;
        }
        let count = self.conversation.items.len();
        if count == 0 || height == 0 || width == 0 {
            self.visible.clear();
            return None;
        }
        if self.at_end {
            self.top = self.position_from_end(height, clock);
        }
        self.top.item = self.top.item.min(count - 1);
        self.fill(height, clock);
        if self.visible.len() < height {
            // The end is above the bottom of the screen.
            self.top = self.position_from_end(height, clock);
            self.fill(height, clock);
            self.at_end = true;
        }
        self.clamp_current();
        self.load()
    }

    /// Fills the screen from its first line.
    fn fill(&mut self, height: usize, clock: &Clock) {
        let mut visible = Vec::with_capacity(height);
        let mut skip = self.top.line;
        for item in self.top.item..self.conversation.items.len() {
            for line in self.lines(item, clock).iter().skip(skip) {
                if visible.len() == height {
                    self.visible = visible;
                    return;
                }
                let line = line.clone();
                visible.push(VisibleLine { item, line });
            }
            skip = 0;
        }
        self.visible = visible;
    }

    /// Returns the first line of a screen that ends with the conversation.
    fn position_from_end(&mut self, height: usize, clock: &Clock) -> ScrollPosition {
        let mut left = height;
        for item in (0..self.conversation.items.len()).rev() {
            let lines = self.lines(item, clock).len();
            if lines >= left {
                return ScrollPosition {
                    item,
                    line: lines - left,
                };
            }
            left -= lines;
        }
        ScrollPosition::default()
    }

    /// Returns the lines of an item; one line in the place of a message that is not loaded.
    fn lines(&mut self, item: usize, clock: &Clock) -> Arc<Vec<Line<'static>>> {
        if let Some(lines) = self.formatted.get(&item) {
            return Arc::clone(lines);
        }
        let about = self.conversation.items.get(item);
        let entry = about.and_then(|about| self.entries.get(&about.outline));
        let (Some(about), Some(entry)) = (about, entry) else {
            return Arc::new(vec![Line::from("…")]);
        };
        let manner = Manner {
            width: self.formatted_for.0,
            tools: self.tools,
            thinking: self.thinking,
            costs: self.costs,
            clock,
            agents: &self.conversation.agents,
            calls: &self.calls,
        };
        let mut lines = entry_lines(entry, about, &manner);
        // Nothing is above the first message.
        if item == 0 && lines.first().is_some_and(|line| line.spans.is_empty()) {
            lines.remove(0);
        }
        let lines = Arc::new(lines);
        self.formatted.insert(item, Arc::clone(&lines));
        lines
    }

    /// Returns a question for the messages near the screen that are not loaded.
    fn load(&mut self) -> Option<Effect> {
        let first = self.visible.first()?.item;
        let last = self.visible.last()?.item;
        let range = first.saturating_sub(MARGIN)..=last.saturating_add(MARGIN);
        if self.entries.len() > MAX_LOADED {
            let items = self.conversation.items.iter().enumerate();
            let near = items
                .skip(*range.start())
                .take(last - first + 2 * MARGIN + 1);
            let near: HashSet<usize> = near.map(|(_, item)| item.outline).collect();
            self.entries.retain(|outline, _| near.contains(outline));
            self.requested.clear();
            self.formatted.retain(|item, _| range.contains(item));
            self.calls.clear();
            self.remember_calls();
        }
        let near = |margin: usize| {
            let range = first.saturating_sub(margin)..=last.saturating_add(margin);
            let items = self.conversation.items.get(*range.start()..);
            let items = items.unwrap_or_default().iter();
            let items = items.take(range.end() - range.start() + 1);
            let missing = |outline: &usize| {
                !self.entries.contains_key(outline) && !self.requested.contains(outline)
            };
            let missing = items.map(|item| item.outline).filter(missing);
            missing.collect::<Vec<usize>>()
        };
        // Only when the margin is half used up, so that scrolling does not load single messages.
        if near(MARGIN / 2).is_empty() {
            return None;
        }
        let wanted = near(MARGIN);
        self.requested.extend(wanted.iter().copied());
        Some(Effect::Load {
            reader: self.id,
            stamp: self.conversation.stamp,
            log: self.conversation.log,
            wanted,
        })
    }

    /// Keeps the current message on the screen.
    fn clamp_current(&mut self) {
        let (Some(first), Some(last)) = (self.visible.first(), self.visible.last()) else {
            return;
        };
        if self.current < first.item || self.current > last.item {
            self.current = self.current.clamp(first.item, last.item);
        }
    }

    /// Returns the conversation that was asked for.
    pub(crate) fn asked_conversation(&self) -> &ConversationRef {
        &self.asked
    }

    /// Returns the sub-agent that the current message calls.
    pub(crate) fn current_agent(&self) -> Option<usize> {
        let start = self.start_of(self.current);
        let items = self.conversation.items.get(start..).unwrap_or_default();
        let rest = items.iter().skip(1).take_while(|item| !item.starts);
        let all = items.first().into_iter().chain(rest);
        let mut agents = all.filter_map(|item| item.agent);
        agents.next().map(|agent| agent as usize)
    }

    /// Returns the kind of an item.
    fn kind(&self, item: usize) -> Option<ItemKind> {
        self.conversation.items.get(item).map(|item| item.kind)
    }
}
