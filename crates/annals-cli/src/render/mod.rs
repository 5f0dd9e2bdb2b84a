//! The terminal: everything people see goes through here.
//!
//! Owns how text, tables, times, sizes, Markdown, diffs and messages look, and where they are written.
//! It knows nothing of agents' layouts, opens no log and decides nothing: commands hand it values.
//!
//! Two invariants hold for every function in this folder:
//! - Text that comes from a log, a file name or an argument leaves only through [`text`]; the sole
//!   escape sequences on standard output are the styles of [`style`].
//! - Renderers always style. [`out::Out`] removes the styles when colour is off, so nothing may rely on
//!   colour alone to be understood.

pub(crate) mod bar;
pub(crate) mod caret;
pub(crate) mod chart;
pub(crate) mod command;
pub(crate) mod diff;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod message;
pub(crate) mod money;
pub(crate) mod out;
pub(crate) mod pager;
pub(crate) mod picker;
pub(crate) mod progress;
pub(crate) mod size;
pub(crate) mod style;
pub(crate) mod suggest;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod tool;
pub(crate) mod width;
