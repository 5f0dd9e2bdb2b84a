//! `annals browse`: every session, searched while typing, read, followed and compared in a terminal.
//!
//! It asks [`annals::service`] and shows. It opens no log, prices nothing and parses no query.
//!
//! - `state`, `update`, `draw`: plain data, what events do to it, and how it looks. No terminal.
//! - `keys`: the table of keys, which dispatch, help and footer read.
//! - `screens/`, `reader/`: one file for each screen.
//! - `worker/`: threads that ask the library. Their answers are events.
//! - `run`, `terminal`: the loop, and the terminal, which is given back however the program ends.

mod command_line;
mod draw;
mod keys;
mod protocol;
mod reader;
mod run;
mod screens;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod update;
mod worker;

pub use run::{Options, run};
pub use state::{Exit, Mode};
pub use terminal::refusal;
