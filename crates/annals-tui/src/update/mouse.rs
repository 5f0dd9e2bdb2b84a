//! The mouse scrolls and selects.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use crate::draw::{self, Areas};
use crate::keys::Action;
use crate::protocol::Effect;
use crate::state::{Screen, State};

/// Lines that the wheel scrolls.
const WHEEL: isize = 3;

/// Applies an event of the mouse.
pub(super) fn apply(state: &mut State, mouse: MouseEvent) -> Vec<Effect> {
    let lines = match mouse.kind {
        MouseEventKind::ScrollUp => -WHEEL,
        MouseEventKind::ScrollDown => WHEEL,
        MouseEventKind::Down(MouseButton::Left) => {
            return click(state, mouse.column, mouse.row);
        }
        _ => return Vec::new(),
    };
    let clock = state.clock.clone();
    let areas = Areas::new(state);
    let is_preview = areas.preview.is_some_and(|area| mouse.column >= area.x);
    if state.screens.is_empty() && is_preview {
        if let Some(reader) = &mut state.list.preview {
            reader.scroll(lines, &clock);
        }
        return Vec::new();
    }
    if let Some(reader) = state.reader() {
        reader.scroll(lines, &clock);
        return Vec::new();
    }
    let action = if lines < 0 { Action::Up } else { Action::Down };
    let context = state.context();
    super::act(state, context, action)
}

fn click(state: &mut State, column: u16, row: u16) -> Vec<Effect> {
    let areas = Areas::new(state);
    if !draw::contains(areas.body, column, row) {
        return Vec::new();
    }
    let line = usize::from(row - areas.body.y);
    match state.screens.last_mut() {
        Some(Screen::Reader(reader)) => reader.click(line),
        None if draw::contains(areas.list, column, row) => {
            let list = &mut state.list;
            let mut used = 0;
            let shown = list.shown.iter().enumerate().skip(list.cursor.top);
            let clicked = shown.into_iter().find(|(_, shown)| {
                used += 1 + usize::from(shown.hit.is_some());
                line < used
            });
            if let Some((at, _)) = clicked {
                list.cursor.selected = at;
                list.has_moved = true;
            }
        }
        _ => {}
    }
    Vec::new()
}
