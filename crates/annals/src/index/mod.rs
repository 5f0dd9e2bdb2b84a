//! The catalogue: what was read of files before, so that it need not be read again.
//!
//! It is derived and disposable. What it knows of a file is used only if nothing was done to the file
//! since, or if it grew and the bytes before its old end are the same; so answers are the same
//! without it, and deleting it costs time and nothing else. (A file that grew and was also changed
//! in place, more than 4 KiB before its old end, is not noticed. No agent does that.)

mod coverage;
mod database;
mod fingerprint;
mod ledger;
mod listing;
mod location;
mod merge;
mod newest;
mod open;
mod root_cache;
mod row_bytes;
mod search;
mod segment;
mod session_codec;
mod sessions;
mod sources;
mod status;
mod text_store;
mod text_update;
mod unchanged_roots;
mod usage;
mod usage_codec;

pub use ledger::RecentQuery;
pub use location::{IndexFile, IndexFileKind};
pub use open::{Index, Warning};
pub use status::{IndexStatus, PartStatus, RootStatus};
pub use unchanged_roots::StoreSearch;
