//! Reads and writes the logs of coding agents where they lie, and never loses a record.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr
)]

pub mod check;
mod error;
mod json;
pub mod jsonl;
pub mod layout;
pub mod model;
pub mod store;
pub mod tree;

pub use error::{Error, Result};
