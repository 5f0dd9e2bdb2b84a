//! The library's one error type.
//!
//! Damage inside a file is never an error: it is a [`Flaw`](crate::model::Flaw), returned beside
//! what could be read. An `Error` means that the thing asked for was not done, and every variant
//! that touches the file system names the path.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::jsonl::OpenFileHolder;

/// The result of every fallible function of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused; `action` is a verb such as "read" or "create".
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Another process held the lock for the whole time we were willing to wait.
    #[error("{} is locked by another process; waited {} ms", path.display(), waited.as_millis())]
    Busy {
        /// The locked file.
        path: PathBuf,
        /// How long we waited.
        waited: Duration,
    },
    /// The disk, quota or file-size limit is exhausted; nothing was acknowledged.
    #[error("no room left to write {} ({source}); the record was not accepted, and what stood there before is untouched", path.display())]
    Full {
        /// The file that could not grow.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// An earlier sync of this handle failed, so nothing it wrote since can be vouched for.
    #[error("{} can no longer be written through this handle: an earlier sync failed; reopen it and check what is there", path.display())]
    Poisoned {
        /// The log whose sync failed.
        path: PathBuf,
    },
    /// A document changed between reading and replacing it.
    #[error("{} was changed by someone else meanwhile; nothing was overwritten", path.display())]
    Changed {
        /// The document.
        path: PathBuf,
    },
    /// Another program is writing to the session right now.
    #[error("{} is being written by another program (last entry {} s ago)", path.display(), age.as_secs())]
    Live {
        /// The session's log.
        path: PathBuf,
        /// How old its newest entry is.
        age: Duration,
    },
    /// Another program has the file open for writing: what it writes next would be lost if the file
    /// went or were replaced.
    #[error("{} is held open for writing by {holder}", path.display())]
    Held {
        /// The file.
        path: PathBuf,
        /// Who has it open.
        holder: OpenFileHolder,
    },
    /// A symbolic link in a root leads out of it, so what is behind it was not read.
    #[error("{} was not read: it is a symbolic link to {}, and links in a root are not followed", path.display(), target.display())]
    Link {
        /// The link.
        path: PathBuf,
        /// Where it leads to.
        target: PathBuf,
    },
    /// A pipe, a device or a socket lies where a file of a root would be, so nothing was read.
    #[error("{} was not read: it is not a regular file", path.display())]
    NotRegular {
        /// Where it lies.
        path: PathBuf,
    },
    /// Something that was asked for does not exist.
    #[error("no {what} matches `{id}`")]
    NotFound {
        /// The kind of thing: "session", "message", "project" …
        what: &'static str,
        /// What was asked for.
        id: String,
    },
    /// A prefix fits more than one thing.
    #[error("`{id}` fits {} {what}s", candidates.len())]
    Ambiguous {
        /// The kind of thing.
        what: &'static str,
        /// What was asked for.
        id: String,
        /// Everything that fits.
        candidates: Vec<String>,
    },
    /// A string cannot be an id.
    #[error("`{id}` cannot be {what}: {why}")]
    BadId {
        /// The kind of id.
        what: &'static str,
        /// The beginning of the offending string.
        id: String,
        /// The rule it breaks.
        why: &'static str,
    },
    /// A price list has faults, so none of it was taken.
    #[error("{file} is no price list: {count} {} wrong", if *count == 1 { "thing is" } else { "things are" })]
    Prices {
        /// The list's name.
        file: String,
        /// What is wrong; the first of many.
        faults: Vec<crate::cost::prices::PriceError>,
        /// How many faults there are.
        count: usize,
    },
    /// A query cannot be read.
    #[error("the query makes no sense: {why}")]
    Query {
        /// The query; empty if it is too long to be shown.
        text: String,
        /// The bytes of it that are wrong.
        at: std::ops::Range<usize>,
        /// What is wrong with them.
        why: String,
    },
    /// The request makes no sense or would lose something.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// Wraps an I/O error with what was tried on which path.
    pub fn io(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        Error::Io {
            action,
            path: path.as_ref().to_owned(),
            source: os_error(source),
        }
    }

    /// The file or directory that it is about, if that is known.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Io { path, .. }
            | Error::Busy { path, .. }
            | Error::Full { path, .. }
            | Error::Poisoned { path }
            | Error::Changed { path }
            | Error::Live { path, .. }
            | Error::Held { path, .. }
            | Error::NotRegular { path }
            | Error::Link { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Whether it is about something in a root that is no file of it: a link, a pipe, a device or a socket.
    pub fn is_no_file(&self) -> bool {
        matches!(self, Error::Link { .. } | Error::NotRegular { .. })
    }

    /// An error that says the same.
    pub(crate) fn duplicate(&self) -> Self {
        let Error::Io {
            action,
            path,
            source,
        } = self
        else {
            return Error::Refused(self.to_string());
        };
        let source = match source.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(source.kind(), source.to_string()),
        };
        Error::io(action, path, source)
    }

    /// Builds a [`Error::Refused`].
    pub fn refused(why: impl Into<String>) -> Self {
        Error::Refused(why.into())
    }
}

/// The system's own error, where a library wrapped it with the name of a temporary file of ours.
fn os_error(source: io::Error) -> io::Error {
    let wrapped = source.get_ref().and_then(|inner| inner.source());
    let code = wrapped
        .and_then(|inner| inner.downcast_ref::<io::Error>())
        .and_then(io::Error::raw_os_error);
    code.map_or(source, io::Error::from_raw_os_error)
}
