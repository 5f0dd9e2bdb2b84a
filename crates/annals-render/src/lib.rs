//! How things look: text, tables, times, sizes, Markdown, tool calls, diffs, messages and charts.
//!
//! Used by every surface that shows something to people. Formats values into strings and writes
//! nothing: it opens no file and no log, knows no layout of an agent, and makes no decisions.
//!
//! Two invariants hold for every function:
//! - Text from a log, a file name or an argument passes through [`text`]; the only escape sequences
//!   are the styles of [`style`].
//! - Styles are always there. Who prints removes them when colour is off, so no output may rely on
//!   colour alone.

pub mod bar;
pub mod caret;
pub mod chart;
pub mod command;
pub mod diff;
pub mod markdown;
pub mod message;
pub mod money;
pub mod severity;
pub mod size;
pub mod style;
pub mod table;
pub mod text;
pub mod time;
pub mod tool;
pub mod width;
