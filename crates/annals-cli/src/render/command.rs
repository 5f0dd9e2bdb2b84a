//! Commands that people are told to run.

use annals::text::command_parts;

use super::style::{ID, paint};

/// A command with an id, in backticks, so that it can be copied into a shell whatever the id is. If
/// `verb` ends in `=`, the id is the value of that option.
pub(crate) fn hint(verb: &str, id: &str, options: &str) -> String {
    let (before, word, after) = command_parts(verb, id, options);
    format!("`{before}{}{after}`", paint(ID, &word))
}

/// The same without styles, for texts that are styled as a whole.
pub(crate) fn plain_hint(verb: &str, id: &str, options: &str) -> String {
    let (before, word, after) = command_parts(verb, id, options);
    format!("`{before}{word}{after}`")
}
