//! Disposable cache of data read from log files, so that unchanged files are not read again.
//!
//! Cached data of a file is used only if the file is unchanged, or has grown and the bytes before
//! its old end are the same. Every answer is the same without the index; deleting it costs only
//! time. (A file that grew and was also changed in place, more than 4 KiB before its old end, is
//! not detected. No agent does that.)
//!
//! One table of files (`files.rs`) has the identity of each file, once. Three parts are filled from it, by
//! the commands that use them and by `annals index build`:
//! - usage (`usage.rs`, `ledger.rs`): the charges of each log;
//! - sessions (`session_rows.rs`, `listing.rs`): rows of sessions and conversations;
//! - text (`text_store.rs`, `segment.rs`): which tokens occur in which records.
//!
//! Each schema version has its own file, `index-N.db`, so programs of two versions can be used in
//! turn. SQLite's write-ahead log makes concurrent processes safe. All stored data has a checksum;
//! damaged data is read from the logs again.

mod attached;
mod charge_codec;
mod codec;
mod database;
mod files;
mod fingerprint;
mod handle;
mod labels;
mod ledger;
mod listing;
mod location;
mod merge;
mod newest;
mod open;
mod search;
mod segment;
mod session_rows;
mod status;
mod stored;
mod text_files;
mod text_store;
mod text_update;
mod usage;
mod usage_codec;

pub use handle::Index;
pub use location::{IndexFile, IndexFileKind};
use open::IndexDatabase;
pub use open::Warning;
pub use status::{IndexStatus, PartStatus, RootStatus};
pub use stored::StoredSession;
