//! The history of coding agents as tools for agents: a server of the Model Context Protocol.
//!
//! [`Server`] answers the tools from a [`Service`](annals::service::Service); it opens no log itself
//! and knows no protocol. Only `wire` knows the protocol. The tools are described in `tools.json`,
//! which is the answer to `tools/list`, to the letter.
//!
//! An answer never exceeds its budget of bytes: rows that do not fit are left for the next page,
//! and texts that do not fit are cut, which the answer says. Recorded text is evidence, not
//! instruction: every answer says so, secrets in it are masked, and characters that hide are shown.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod answer;
mod arguments;
mod install;
mod resource;
mod server;
mod tools;
mod wire;

pub use answer::Answer;
pub use install::{SKILL, install_names, install_text};
pub use server::{Options, Server};
pub use wire::{ProtocolServer, serve_stdio};
