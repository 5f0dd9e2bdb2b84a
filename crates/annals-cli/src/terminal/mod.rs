//! The terminal: all output to people passes through this module.
//!
//! Owns standard output and standard error, the pager, the picker and the line of progress. How
//! things look is in `annals_render`. Its styles are always there: [`out::Out`] removes them when
//! colour is off.

/// Prints a line on standard error. Unlike `eprintln!` it does not panic if standard error is closed
/// or its terminal is gone.
macro_rules! stderr_line {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        _ = writeln!(anstream::stderr(), $($argument)*);
    }};
}
pub(crate) use stderr_line;

pub(crate) mod color;
pub(crate) mod json;
pub(crate) mod out;
pub(crate) mod pager;
pub(crate) mod picker;
pub(crate) mod progress;
pub(crate) mod suggest;
