//! Reads and writes the logs of coding agents where they lie, and never loses a record.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod error;
pub mod jsonl;

pub use error::{Error, Result};
