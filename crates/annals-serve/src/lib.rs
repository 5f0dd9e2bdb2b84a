//! The history of coding agents as a local web page.
//!
//! Pages and a JSON interface over a [`Service`](annals::service::Service), on 127.0.0.1 only. This
//! crate asks and shows: it opens no log, prices nothing and parses no query. Nothing is written
//! unless [`Options::write`] is set, and no page runs a command.
//!
//! `guard` decides which requests are answered, before anything else sees them. `server` owns
//! connections and their limits. Handlers run on blocking threads, one module per page.

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

mod access;
mod api;
mod app;
mod assets;
mod events;
mod forms;
mod guard;
mod pages;
mod problem;
mod server;
mod site;
#[cfg(test)]
mod tests;
mod text;

pub use access::Names;
pub use app::Options;
pub use server::{Address, serve};
