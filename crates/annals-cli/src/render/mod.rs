//! The terminal: all output to people passes through this module.
//!
//! Formats text, tables, times, sizes, Markdown, diffs and messages, and writes them. It does not
//! depend on the layouts of agents, opens no log and makes no decisions: commands pass it values.
//!
//! Two invariants hold for every function in this folder:
//! - Text from a log, a file name or an argument is printed only through [`text`]; the only escape
//!   sequences on standard output are the styles of [`style`].
//! - Renderers always style. [`out::Out`] removes the styles when colour is off, so no output may
//!   rely on colour alone.

/// Prints a line on standard error. Unlike `eprintln!` it does not panic if standard error is closed
/// or its terminal is gone.
macro_rules! stderr_line {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        _ = writeln!(anstream::stderr(), $($argument)*);
    }};
}
pub(crate) use stderr_line;

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
pub(crate) mod severity;
pub(crate) mod size;
pub(crate) mod style;
pub(crate) mod suggest;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod tool;
pub(crate) mod width;
