//! Segments: pieces of logs on their way from a machine to a hub.
//!
//! Owns what both sides must agree on: the identity of a piece ([`Header`]), its bytes
//! ([`Segment`]), groups of segments in one object ([`group`]), which segments continue a file
//! ([`Ends`]), and the answers of the protocol ([`protocol`]). Opens no file and no connection.
//!
//! A segment names its place: source, file, generation, and the range of the file that it covers.
//! So segments can be sent again, reordered and repeated, and a file is still assembled exactly
//! once. docs/HUB.md has the whole design.

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

mod content;
mod ends;
mod error;
pub mod group;
mod header;
mod id;
pub mod protocol;
mod segment;
#[cfg(test)]
mod tests;

pub use content::{Content, MAX_CONTENT, MAX_LINES_CONTENT, MaskedLine};
pub use ends::{End, Ends, Order};
pub use error::{Error, Result};
pub use header::{Header, Kind, check_path};
pub use id::{Digest, FileKey, SourceId};
pub use segment::{Segment, SegmentReader, SegmentWriter};
