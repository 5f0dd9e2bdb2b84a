//! Lines in files: reading them in both directions, appending them so that none is lost,
//! replacing small documents whole, and moving files.
//!
//! Owns every file operation of the write path and its promises: one `write` per record, torn
//! tails sealed, locks that are never unlinked, syncs that are never retried. Knows nothing of
//! JSON, layouts or sessions: a line is bytes, and what they mean is decided elsewhere. A log is
//! never renamed over, truncated or deleted here; only documents given to [`replace()`] are, and
//! what [`relocate()`] has brought to another place leaves its old one. The exception is
//! [`rewrite()`], by which a damaged log is mended.

mod append;
mod batch;
mod bytes;
mod device;
mod group;
mod holder;
mod identity;
mod lock;
pub(crate) mod lock_file;
mod open;
mod place;
mod presence;
mod relocate;
mod remove;
mod replace;
mod rewrite;
mod scan;
mod span;
mod tail;

pub use append::{Appended, Durability, Log, Options};
pub use bytes::{Bytes, BytesReader, LogFile};
pub(crate) use bytes::{open_to_read, read_document};
pub use holder::{Holder, refuse_held};
pub use identity::{Cursor, FileId};
pub(crate) use identity::{IdParts, is_named};
pub(crate) use lock::claim;
pub use open::Create;
pub(crate) use open::is_remote;
pub(crate) use presence::{exists, is_absence, metadata_if_exists};
pub use relocate::relocate;
pub(crate) use relocate::rename_dir;
pub(crate) use remove::{Removal, is_removed, name_before_removal, put_back_removed};
pub use replace::{Digest, clear_temp, create_new, create_with, ensure_dir, held, replace};
pub(crate) use replace::{is_temp, replace_held};
pub use rewrite::rewrite;
pub use scan::{Ending, Line, MAX_LINE, OVERSIZE_HEAD, Scanner};
pub use span::read_span;
pub use tail::{TailLine, TailReader};
