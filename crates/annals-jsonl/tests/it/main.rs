//! Integration tests of the crate: crashes, concurrency, hostile files.

mod append;
mod crash;
mod documents;
mod gates;
mod kill;
mod lines;
