//! The difference between two saved versions of a file.

use annals_render::style::{DIM, PATH, TITLE};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::list::draw_lines;
use crate::keys::Action;
use crate::protocol::{Effect, FileRow, Restore, SessionName};
use crate::text::{cut, lines, styled};

/// A diff.
#[derive(Debug, Default)]
pub(crate) struct DiffScreen {
    pub(crate) session: SessionName,
    pub(crate) file: Option<FileRow>,
    /// The version that is compared with the one before it.
    pub(crate) version: usize,
    text: Option<Vec<Line<'static>>>,
    top: usize,
    height: usize,
}

impl DiffScreen {
    /// Creates the diff of the last change.
    pub(crate) fn last(session: SessionName, file: FileRow) -> Self {
        let last = file.versions.len().saturating_sub(1);
        DiffScreen::at(session, file, last)
    }

    /// Creates the diff of a version, given by index, and the one before it.
    pub(crate) fn at(session: SessionName, file: FileRow, version: usize) -> Self {
        DiffScreen {
            session,
            file: Some(file),
            version,
            ..DiffScreen::default()
        }
    }

    /// Returns the question for the text.
    pub(crate) fn question(&self) -> Option<Effect> {
        let file = self.file.as_ref()?;
        let new = file.versions.get(self.version)?;
        let old = self.version.checked_sub(1);
        let old = old.and_then(|old| file.versions.get(old));
        Some(Effect::Diff {
            session: self.session.clone(),
            path: file.path.clone(),
            old: old.map(|old| old.version),
            new: new.version,
        })
    }

    /// Takes the text, if it is that of the version shown.
    pub(crate) fn take(&mut self, path: &str, new: u64, text: &str) {
        let file = self.file.as_ref();
        let shown = file.and_then(|file| file.versions.get(self.version));
        let is_shown = file.is_some_and(|file| file.path == path);
        if is_shown && shown.is_some_and(|version| version.version == new) {
            self.text = Some(lines(text));
            self.top = 0;
        }
    }

    /// Goes to another version.
    pub(crate) fn step(&mut self, forward: bool) -> Option<Effect> {
        let count = self.file.as_ref().map_or(0, |file| file.versions.len());
        let next = match forward {
            true => (self.version + 1).min(count.saturating_sub(1)),
            false => self.version.saturating_sub(1),
        };
        if next == self.version {
            return None;
        }
        self.version = next;
        self.text = None;
        self.question()
    }

    /// Returns the version shown, if its content was stored.
    pub(crate) fn restorable(&self) -> Option<Restore> {
        let file = self.file.as_ref()?;
        let shown = file.versions.get(self.version)?;
        let has_path = std::path::Path::new(&file.path).is_absolute();
        (has_path && shown.state == "stored").then(|| Restore {
            session: self.session.clone(),
            path: file.path.clone(),
            version: shown.version,
        })
    }

    /// Scrolls.
    pub(crate) fn act(&mut self, action: Action) {
        let count = self.text.as_ref().map_or(0, Vec::len);
        let page = self.height.max(2) - 1;
        let top = match action {
            Action::Up => self.top.saturating_sub(1),
            Action::Down => self.top + 1,
            Action::PageUp | Action::HalfUp => self.top.saturating_sub(page),
            Action::PageDown | Action::HalfDown => self.top + page,
            Action::First => 0,
            Action::Last => count,
            _ => return,
        };
        self.top = top.min(count.saturating_sub(self.height.max(1)));
    }

    /// Takes the height of the screen.
    pub(crate) fn arrange(&mut self, height: usize) {
        self.height = height;
        self.act(Action::Redraw);
    }

    /// The heading.
    pub(crate) fn title(&self) -> Vec<Span<'static>> {
        let path = self.file.as_ref().map_or("", |file| file.path.as_str());
        vec![styled(PATH, path)]
    }

    /// Which versions are compared.
    pub(crate) fn facts(&self) -> Vec<Span<'static>> {
        let Some(file) = &self.file else {
            return Vec::new();
        };
        let number = |at: usize| file.versions.get(at).map(|version| version.version);
        let new = number(self.version).unwrap_or(0);
        let text = match self.version.checked_sub(1).and_then(number) {
            Some(old) => format!("v{old} → v{new}"),
            None => format!("v{new}, the first"),
        };
        let state = file.versions.get(self.version).map_or("", |it| it.state);
        let state = match state {
            "absent" => "  did not exist",
            "missing" => "  copy missing",
            _ => "",
        };
        vec![styled(TITLE, &text), styled(DIM, state)]
    }

    /// Draws the text.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(text) = &self.text else {
            return draw_lines(frame, area, vec![Line::from(styled(DIM, "comparing …"))]);
        };
        let on_screen = text.iter().skip(self.top).take(usize::from(area.height));
        let width = usize::from(area.width).saturating_sub(2);
        let on_screen = on_screen.map(|line| Line::from(cut(line.spans.clone(), width)));
        draw_lines(frame, area, on_screen.collect());
    }
}
