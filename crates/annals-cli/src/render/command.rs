//! Commands suggested to the user.

use annals::text::command_parts;

use super::style::{ID, paint};

/// Formats a command with an id in backticks, quoted for a shell. If `verb` ends in `=`, the id is
/// the value of that option.
pub(crate) fn hint(verb: &str, id: &str, options: &str) -> String {
    let (before, word, after) = command_parts(verb, id, options);
    format!("`{before}{}{after}`", paint(ID, &word))
}

/// Like [`hint`] without styles, for texts that are styled as a whole.
pub(crate) fn plain_hint(verb: &str, id: &str, options: &str) -> String {
    let (before, word, after) = command_parts(verb, id, options);
    format!("`{before}{word}{after}`")
}
