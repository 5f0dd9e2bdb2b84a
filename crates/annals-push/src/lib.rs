//! Sends what grew in the logs of this machine to a hub.
//!
//! [`push`] reads each log from the offset that the hub has acknowledged, cuts whole lines into
//! segments, masks them, and sends them. Nothing is copied for later: the logs are the queue. How far
//! they were sent is in the state directory (module `state`); if that is lost, the hub says how far it
//! has them. docs/HUB.md has the design.

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

mod client;
mod cut;
mod error;
mod host;
mod mask;
mod push;
mod source;
mod state;

pub use client::Client;
pub use error::{Error, Result};
pub use host::host_id;
pub use mask::MaskPolicy;
pub use push::{Failure, Options, Report, Status, push, status};
