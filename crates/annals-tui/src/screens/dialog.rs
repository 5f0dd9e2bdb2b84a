//! Questions over the screen: yes or no, or a line of text.

use annals_render::style::{DIM, MATCH, WARNING};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::help::{Help, popup};
use crate::protocol::{Effect, Replaced, Restore, SessionName};
use crate::text::{cut, plain, styled};

/// Width of a question.
const POPUP: u16 = 64;

/// Something over the screen that takes the keys.
#[derive(Debug)]
pub(crate) enum Dialog {
    Help(Help),
    Question(Question),
    Input(Input),
}

/// A question that one key answers.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) title: &'static str,
    pub(crate) lines: Vec<String>,
    /// The keys and what they do.
    pub(crate) answers: Vec<(char, &'static str, Option<Effect>)>,
    /// Whether another key is used as if there were no question.
    pub(crate) is_transient: bool,
}

impl Question {
    /// Asks whether to move a session to the trash.
    pub(crate) fn trash(session: SessionName) -> Self {
        let title = super::list::short_title(&session.title, 50);
        Question {
            title: "move to the trash",
            lines: vec![
                title,
                "Its files move to the trash of annals; u takes them back.".to_owned(),
            ],
            answers: vec![
                ('y', "move it", Some(Effect::Trash(session))),
                ('n', "leave it", None),
            ],
            is_transient: false,
        }
    }

    /// Asks whether to write a saved version to its file.
    pub(crate) fn restore(restore: Restore, replaced: Replaced) -> Self {
        let what = match replaced {
            Replaced::Nothing => "There is no such file now.",
            Replaced::Saved => "What the file contains now is a saved version, too.",
            Replaced::Unsaved => "What the file contains now is in no version, and is lost.",
        };
        // A log may name any file: its path is shown whole.
        let path = annals_render::text::safe(&restore.path).to_string();
        let width = usize::from(POPUP).saturating_sub(4);
        let lines = annals_render::width::split_at_width(&path, Some(width));
        let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
        lines.push(format!("It becomes version {}.", restore.version));
        lines.push(what.to_owned());
        Question {
            title: "write the version to its file",
            lines,
            answers: vec![
                ('y', "write it", Some(Effect::Restore(restore))),
                ('n', "leave it", None),
            ],
            is_transient: false,
        }
    }
}

/// A line of text to type.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) purpose: Purpose,
    pub(crate) text: String,
}

/// Purpose of a typed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Text to find in the conversation.
    Find,
    /// A command of the program.
    Command,
}

impl Dialog {
    /// Draws it. A line of text replaces the footer.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>, area: Rect, footer: Rect, read_only: bool) {
        match self {
            Dialog::Help(help) => help.draw(frame, area, read_only),
            Dialog::Question(question) => question.draw(frame, area),
            Dialog::Input(input) => {
                let mark = match input.purpose {
                    Purpose::Find => " / ",
                    Purpose::Command => " : annals ",
                };
                let spans = vec![
                    styled(MATCH, mark),
                    plain(&input.text),
                    styled(MATCH, "▏"),
                    styled(DIM, "  ↵ ok  esc cancel"),
                ];
                let spans = cut(spans, usize::from(footer.width));
                frame.render_widget(ratatui::widgets::Clear, footer);
                frame.render_widget(Line::from(spans), footer);
            }
        }
    }
}

impl Question {
    fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let inner = popup(frame, area, POPUP, self.lines.len() + 2, self.title);
        let width = usize::from(inner.width);
        let mut lines: Vec<Line<'static>> = Vec::new();
        for (at, text) in self.lines.iter().enumerate() {
            let style = if at == 0 { WARNING } else { DIM };
            lines.push(Line::from(cut(vec![styled(style, text)], width)));
        }
        lines.push(Line::default());
        let mut answers = Vec::new();
        for (key, what, _) in &self.answers {
            answers.push(styled(MATCH, &key.to_string()));
            answers.push(styled(DIM, &format!(" {what}   ")));
        }
        answers.push(styled(
            DIM,
            if self.is_transient { "" } else { "esc cancel" },
        ));
        lines.push(Line::from(cut(answers, width)));
        for (line, y) in lines.into_iter().zip(inner.y..inner.bottom()) {
            let at = Rect {
                y,
                height: 1,
                ..inner
            };
            frame.render_widget(line, at);
        }
    }
}
