//! The native part of the Node package `annals`: handles whose calls take and return JSON.
//!
//! Each handle has `call`, which runs on a thread of libuv's pool and returns a promise, and
//! `callSync`, which runs at once. A call is named by a text and takes its arguments as JSON. The
//! classes that users see are in `lib/`: they name the calls, parse the answers and make errors.
//! This crate decides nothing that [`annals::service`] can decide.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod error;
mod follower;
mod maintain;
mod mirror;
mod reply;
mod request;
mod session;
mod store;
mod writer;
