//! The undo vault: what deletions, clean-ups and repairs took away, until it is restored or purged.
//!
//! Each change has a folder in the state directory:
//!
//! ```text
//! undo/<id>/manifest.json   what was changed, where and when; docs/STATE.md specifies the members
//! undo/<id>/files/<path>    the files, under their paths relative to the root: moved by a deletion
//!                           or a clean-up, copied by a repair
//! undo/<id>/removed.jsonl   of a repair: the bytes that it took out, one stretch per line
//! undo/.purging-<id>/       a folder that is being removed; it no longer counts
//! ```
//!
//! One protocol serves all of them. The manifest is written and synced first (`Vault::begin`). Then
//! files are moved or copied, durably, and only then anything in a root is removed or replaced. So a
//! killed process leaves a change that the next run repeats, finishes or undoes. A folder is removed
//! by renaming it, durably, and then deleting it (`Vault::remove`), so no change is restored in
//! part. A process holds `flock` on a folder while it changes it. Symbolic links in the vault are
//! never followed, and paths in manifests are not trusted.
//!
//! This module owns the folders and their manifests. What is moved, copied and restored is up to its
//! two views: [`Trash`](crate::store::Trash) for deletions and clean-ups, and
//! [`Repairs`](crate::repair::Repairs).

mod manifest;
mod vault;

pub use manifest::{FileState, RepairStep, UndoFile, UndoRow};
pub(crate) use manifest::{Manifest, RepairRecord, UndoConfigEntry, UndoDir, UndoVerb};
pub(crate) use vault::{Vault, is_stable, remove_empty_tree};
