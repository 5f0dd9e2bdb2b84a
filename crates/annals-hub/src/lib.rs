//! The hub: takes segments of logs from many machines over HTTP, and stores them in Delta Lake tables
//! in an object store.
//!
//! [`Hub`] owns the store and its parts: [`access`] (who may do what), [`ingest`] (segments become
//! objects of the inbox, which acknowledges them), [`committer`] (objects of the inbox become rows of
//! tables, once), [`delta`] (the log of a table), [`mirror`] and [`ask`] (answers to readers), [`audit`] (who read what),
//! [`server`] (HTTP). It keeps no state of its own: a
//! hub that is killed anywhere continues from the store, and several hubs may use one store.
//! docs/HUB.md has the design.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr
)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

pub mod access;
pub mod ask;
pub mod audit;
pub mod committer;
pub mod delta;
mod error;
pub mod files;
mod hub;
pub mod ingest;
pub mod mirror;
pub mod segment_table;
pub mod server;
pub mod store;

pub use error::{Error, Result};
pub use hub::{Counters, Hub, Options};
