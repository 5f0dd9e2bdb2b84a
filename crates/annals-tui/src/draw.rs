//! Draws the state. Changes nothing.

use annals_render::style::{DIM, ERROR, TITLE};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::protocol::SessionName;
use crate::screens::footer;
use crate::state::{Screen, State};
use crate::text::{cut, spread, styled};

/// Parts of the screen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Areas {
    pub(crate) header: Rect,
    pub(crate) body: Rect,
    /// The list: the body, or its left part.
    pub(crate) list: Rect,
    pub(crate) preview: Option<Rect>,
    /// The title above the preview.
    preview_title: Option<Rect>,
    pub(crate) footer: Rect,
}

impl Areas {
    /// Divides the screen.
    pub(crate) fn new(state: &State) -> Self {
        let (width, height) = (state.width, state.height);
        let line = |y: u16| Rect::new(0, y, width, 1.min(height));
        let rule = u16::from(height >= 10);
        let top = 1 + rule;
        let body = Rect::new(0, top, width, height.saturating_sub(top + 1));
        let mut areas = Areas {
            header: line(0),
            body,
            list: body,
            preview: None,
            preview_title: None,
            footer: line(height.saturating_sub(1)),
        };
        if state.has_preview() && state.screens.is_empty() {
            let left = width * 9 / 20;
            areas.list.width = left;
            let right = Rect {
                x: left + 2,
                width: width - left - 3,
                ..body
            };
            areas.preview_title = Some(Rect { height: 1, ..right });
            areas.preview = Some(Rect {
                y: right.y + 2,
                height: right.height.saturating_sub(2),
                ..right
            });
        }
        areas
    }
}

/// Returns whether a position is in an area.
pub(crate) fn contains(area: Rect, column: u16, row: u16) -> bool {
    (area.x..area.right()).contains(&column) && (area.y..area.bottom()).contains(&row)
}

/// Draws the state.
pub(crate) fn draw(state: &State, frame: &mut Frame<'_>) {
    if state.is_too_small() {
        let text = format!("{}x{} is too small", state.width, state.height);
        let spans = cut(vec![styled(DIM, &text)], usize::from(state.width));
        let line = Rect {
            height: 1.min(state.height),
            ..frame.area()
        };
        frame.render_widget(Line::from(spans), line);
        return;
    }
    let areas = Areas::new(state);
    let width = usize::from(state.width);
    frame.render_widget(header(state, width), areas.header);
    if areas.body.y > 1 {
        let rule = Rect {
            y: 1,
            height: 1,
            ..areas.header
        };
        frame.render_widget(Line::from(styled(DIM, &"─".repeat(width))), rule);
    }
    body(state, frame, &areas);
    frame.render_widget(bottom(state, width), areas.footer);
    if let Some(dialog) = &state.dialog {
        let area = frame.area();
        dialog.draw(frame, area, areas.footer, state.mode.read_only);
    }
}

fn body(state: &State, frame: &mut Frame<'_>, areas: &Areas) {
    let clock = &state.clock;
    match state.screens.last() {
        None => {
            state.list.draw(frame, areas.list, clock);
            preview(state, frame, areas);
        }
        Some(Screen::Reader(reader)) => reader.draw(frame, areas.body, true),
        Some(Screen::Tree(tree)) => tree.draw(frame, areas.body, clock),
        Some(Screen::Cost(cost)) => cost.draw(frame, areas.body),
        Some(Screen::Files(files)) => files.draw(frame, areas.body, clock),
        Some(Screen::Diff(diff)) => diff.draw(frame, areas.body),
        Some(Screen::Live(live)) => live.draw(frame, areas.body, clock),
        Some(Screen::Check(check)) => check.draw(frame, areas.body),
    }
}

fn preview(state: &State, frame: &mut Frame<'_>, areas: &Areas) {
    let (Some(area), Some(title)) = (areas.preview, areas.preview_title) else {
        return;
    };
    let x = area.x.saturating_sub(2);
    for y in areas.body.y..areas.body.bottom() {
        let at = Rect::new(x, y, 1, 1);
        frame.render_widget(Line::from(styled(DIM, "│")), at);
    }
    // The line meets the rule below the heading.
    if areas.body.y > 0 {
        let at = Rect::new(x, areas.body.y - 1, 1, 1);
        frame.render_widget(Line::from(styled(DIM, "┬")), at);
    }
    if let Some(reader) = &state.list.preview {
        let mut facts = reader.facts();
        if reader.conversation.is_whole {
            facts.push(styled(DIM, &format!("  {}", reader.place())));
        }
        let line = spread(reader.title(), facts, usize::from(title.width));
        frame.render_widget(line, title);
        reader.draw(frame, area, false);
    }
}

fn header(state: &State, width: usize) -> Line<'static> {
    let named = |session: &SessionName, what: &str| {
        vec![
            styled(
                annals_render::style::ID,
                annals::view::short_id(&session.id),
            ),
            Span::raw("  "),
            styled(TITLE, what),
            styled(DIM, &format!("  {}", session.title)),
        ]
    };
    let (left, right) = match state.screens.last() {
        None => return state.list.header(width),
        Some(Screen::Reader(reader)) => (reader.title(), reader.facts()),
        Some(Screen::Tree(tree)) => (named(&tree.session, "tree"), Vec::new()),
        Some(Screen::Cost(cost)) => (cost.title(), cost.facts()),
        Some(Screen::Files(files)) => (named(&files.session, "files"), Vec::new()),
        Some(Screen::Diff(diff)) => (diff.title(), diff.facts()),
        Some(Screen::Live(live)) => {
            let count = annals_render::size::pluralize(live.agents.len() as u64, "agent");
            (vec![styled(TITLE, "live")], vec![styled(DIM, &count)])
        }
        Some(Screen::Check(check)) => (vec![styled(TITLE, "check")], check.facts()),
    };
    let mut spans = vec![Span::raw(" ")];
    spans.extend(left);
    spread(spans, right, width)
}

fn bottom(state: &State, width: usize) -> Line<'static> {
    if let Some(notice) = &state.notice {
        let style = if notice.is_error { ERROR } else { DIM };
        let spans = vec![Span::raw(" "), styled(style, &notice.text)];
        return Line::from(cut(spans, width));
    }
    let right = match state.screens.last() {
        Some(Screen::Reader(reader)) => {
            let mut text = reader.place();
            if let Some(find) = &reader.find {
                let found = match &find.items {
                    None => "…".to_owned(),
                    Some(items) if items.is_empty() => "not found".to_owned(),
                    Some(items) => format!("{} of {}", find.at + 1, items.len()),
                };
                text = format!("/{}  {found}   {text}", find.text);
            }
            text
        }
        _ => String::new(),
    };
    let right = match right.is_empty() {
        true => Vec::new(),
        false => vec![styled(DIM, &format!("{right} "))],
    };
    let right_width: usize = right.iter().map(Span::width).sum();
    let keys = footer(
        state.context(),
        width.saturating_sub(right_width + 1),
        state.mode.read_only,
    );
    spread(keys.spans, right, width)
}
