//! Archives sessions: copies them to the archive, removes and restores them.
//!
//! Owns what is copied, when it is removed, and how it is put back. The module `archive_format` owns how
//! the copies are stored and read.

mod archive_all;
mod find;
mod locate;
mod mirror;
mod move_sessions;
mod remove;
mod restore;
mod restore_sources;
mod root_files;
mod session;
#[cfg(test)]
mod tests;

pub use crate::archive_format::{
    Archive, ArchivedSession, CompressedFile, Damage, Frame, Member, ROOT_ID, SessionKey,
    VerifyReport, verify,
};
pub use archive_all::{ArchiveAllOptions, ArchiveAllReport};
pub use locate::FileLocator;
pub use remove::ArchiveRemoval;
pub use restore::{RestoreOutcome, Restored, RestoredDir, RestoredFile};
pub use session::Archived;
