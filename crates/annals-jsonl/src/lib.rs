//! Lines in files: reads them in both directions, appends them without loss, replaces small
//! documents atomically, and moves files.
//!
//! Implements every file operation of the write path and its guarantees: one `write` per record,
//! torn tails sealed, locks that are never unlinked, syncs that are never retried. Independent of
//! JSON, layouts and sessions: a line is bytes. A log is never renamed over, truncated or deleted
//! here. Exceptions: documents passed to [`replace()`], the source of [`move_file()`], and
//! [`rewrite()`], which puts a repaired log in place of a damaged one.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod append;
mod batch;
mod error;
mod file_id;
mod group_commit;
mod lease;
mod lock;
pub mod lock_file;
mod move_file;
mod open;
mod open_files;
mod options;
mod presence;
mod read_at;
pub mod removal_name;
mod remove;
mod replace;
mod rewrite;
mod scan;
mod span;
mod sys;
mod tail;
mod thread_lock;
mod write_batch;
mod write_io;

pub use append::{Appended, Log, next_offset};
pub use error::{Error, Result};
pub use file_id::{Cursor, FileId};
pub use file_id::{FileIdParts, is_at_path};
pub use lock::try_lock_path;
pub use move_file::move_file;
pub use move_file::{have_same_content, rename_dir};
pub use open_files::{OpenFileHolder, ensure_not_open};
pub use options::{AppendOptions, Create, Durability};
pub use presence::{exists, is_absence, is_dir, metadata_if_exists};
pub use read_at::{OpenLog, RangeReader, ReadAt};
pub use read_at::{open_to_read, read_document};
pub use remove::{Removal, put_back_file, put_back_removed};
pub use replace::{
    Digest, clear_temp, create_new, create_with, ensure_dir, replace, with_document_lock,
};
pub use replace::{is_temp, replace_locked};
pub use rewrite::rewrite;
pub use scan::{Line, LineEnding, MAX_LINE, OVERSIZE_HEAD, Scanner};
pub use span::read_span;
pub use sys::is_remote;
pub use tail::{TailLine, TailReader};
