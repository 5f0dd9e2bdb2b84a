//! Texts cut to the width of the terminal.

use crate::context::Context;
use annals_render::text::safe;
use annals_render::width::truncate_end;

/// Cuts a line to the width of the terminal.
pub(crate) fn fit_line(text: &str, context: &Context) -> String {
    match context.out.width() {
        Some(width) => truncate_end(text, width),
        None => text.to_owned(),
    }
}

/// Cuts a title to the room that `used` columns leave on its line.
pub(crate) fn fit_title(title: &str, used: usize, context: &Context) -> String {
    /// Width of titles without a terminal.
    const MAX_WIDTH: usize = 100;
    let width = context.out.width();
    let room = width.map_or(MAX_WIDTH, |width| width.saturating_sub(used).max(12));
    truncate_end(&safe(title), room)
}
