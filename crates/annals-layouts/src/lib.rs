//! The log formats of coding agents, without the file system.
//!
//! [`model`] has the types that all crates exchange, [`layout`] maps paths to artifacts, bytes to
//! entries and changes to edits, [`tree`] derives branches and conversations from outlines. [`json`]
//! reads records leniently and edits members in place; [`text`] makes text safe to show, and
//! [`draft_json`] parses messages to be written. Nothing
//! here opens a file, asks the clock or reads the environment.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_types,
    clippy::disallowed_methods
)]

pub mod draft_json;
mod error;
pub mod json;
pub mod layout;
pub mod model;
pub mod text;
pub mod tree;

pub use error::{Error, Result, Subject};
