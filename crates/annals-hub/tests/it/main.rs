//! A hub on a local store, machines that push to it, and what goes wrong between them.

mod ask;
mod committer;
mod harness;
mod push;
mod refused;
mod store;
