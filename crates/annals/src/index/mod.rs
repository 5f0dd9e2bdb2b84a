//! The catalogue: what was read of files before, so that it need not be read again.
//!
//! It is derived and disposable. What it knows of a file is used only if nothing was done to the file
//! since, or if it grew and the bytes before its old end are the same; so answers are the same
//! without it, and deleting it costs time and nothing else. (A file that grew and was also changed
//! in place, more than 4 KiB before its old end, is not noticed. No agent does that.)

mod catalogue;
mod covered;
mod database;
mod learn;
mod ledger;
mod listing;
mod memory;
mod merge;
mod newest;
mod place;
mod row;
mod rows;
mod seal;
mod search;
mod segment;
mod sources;
mod spelling;
mod spending;
mod status;
mod still;
mod tab;
mod words;

pub use catalogue::{Catalogue, Notice};
pub use ledger::Recent;
pub use place::{CatalogueFile, CatalogueFileKind};
pub use status::{Part, RootStatus, Status};
pub use still::Searched;
