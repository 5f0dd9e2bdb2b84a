//! Commands suggested to the user.

use annals::text::command_parts;

use super::style::{ID, paint};

/// Formats a command with an id in backticks, quoted for a shell. If `verb` ends in `=`, the id is
/// the value of that option.
pub fn styled_command(verb: &str, id: &str, options: &str) -> String {
    let (before, word, after) = command_parts(verb, id, options);
    format!("`{before}{}{after}`", paint(ID, &word))
}

/// Like [`styled_command`] without styles, for texts that are styled as a whole.
pub fn quoted_command(verb: &str, id: &str, options: &str) -> String {
    let (before, word, after) = command_parts(verb, id, options);
    format!("`{before}{word}{after}`")
}
