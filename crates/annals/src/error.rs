//! The library's one error type.
//!
//! Damage inside a file is never an error: it is a [`Flaw`](annals_layouts::model::Flaw), returned with the
//! valid records. An `Error` means that the operation was not done, and every variant
//! that touches the file system names the path.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use annals_jsonl::Error as FileError;
use annals_layouts::Subject;

/// The result of every fallible function of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An operation that was not done, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another program is writing to the session right now.
    #[error("{} is being written by another program (last entry {} s ago)", path.display(), age.as_secs())]
    Live {
        /// The session's log.
        path: PathBuf,
        /// Age of its newest entry.
        age: Duration,
    },
    /// A symbolic link in a root leads out of it, so its target was not read.
    #[error("{} was not read: it is a symbolic link to {}, and links in a root are not followed", path.display(), target.display())]
    Link {
        /// The link.
        path: PathBuf,
        /// Its target.
        target: PathBuf,
    },
    /// A pipe, device or socket is in the place of a file of a root, so it was not read.
    #[error("{} was not read: it is not a regular file", path.display())]
    NotRegular {
        /// Its path.
        path: PathBuf,
    },
    /// A file of a root has a name that annals gave it when it removed it, so it was not read.
    #[error("{} was not read: {why}", path.display())]
    UnfinishedRemoval {
        /// Its path.
        path: PathBuf,
        /// Why it has this name, and what to do about it.
        why: String,
    },
    /// Nothing matches the request.
    #[error("no {what} matches `{id}`")]
    NotFound {
        /// The kind of thing.
        what: Subject,
        /// The requested id or name.
        id: String,
    },
    /// A prefix matches more than one thing.
    #[error("`{id}` matches {} {what}s", candidates.len())]
    Ambiguous {
        /// The kind of thing.
        what: Subject,
        /// The requested id or name.
        id: String,
        /// All matches.
        candidates: Vec<String>,
    },
    /// A string cannot be an id.
    #[error("`{id}` cannot be {what}: {why}")]
    BadId {
        /// The kind of id.
        what: &'static str,
        /// The beginning of the offending string.
        id: String,
        /// The violated rule.
        why: &'static str,
    },
    /// A price list has errors, so none of it was used.
    #[error(transparent)]
    Prices(#[from] crate::cost::prices::PriceListError),
    /// A query is invalid.
    #[error("invalid query: {why}")]
    Query {
        /// The query; empty if it is too long to be shown.
        text: String,
        /// Byte range of the error.
        at: std::ops::Range<usize>,
        /// Description of the error.
        why: String,
    },
    /// An id that must be new is in use.
    #[error("{0}")]
    Exists(String),
    /// A file is not valid for its format, so it is neither read nor changed.
    #[error("{file} {why}")]
    Damaged {
        /// Path or name of the file.
        file: String,
        /// Description of the damage.
        why: String,
    },
    /// The index cannot be used.
    #[error("the index is not used: {} {why}", path.display())]
    Index {
        /// The state directory, or a file in it.
        path: PathBuf,
        /// Kind of the problem.
        problem: IndexProblem,
        /// Description of the problem.
        why: String,
    },
    /// One of several drafts is invalid, so none was written.
    #[error("{why}")]
    RefusedDraft {
        /// Its index among the drafts.
        index: usize,
        /// Description of the error.
        why: String,
    },
    /// The request is invalid or would lose data.
    #[error("{0}")]
    Refused(String),
}

/// Kind of a problem with the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexProblem {
    /// The state directory or a file in it belongs to another user.
    OtherUser,
    /// The state directory is read-only.
    ReadOnly,
    /// Something that is not a file or directory of annals has its name.
    Obstacle,
    /// SQLite cannot open the database.
    Unopenable,
}

/// Kind of an error, for programs that distinguish errors by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Nothing matches the request.
    NotFound,
    /// More than one thing matches the request.
    Ambiguous,
    /// The request is invalid or would lose data.
    Refused,
    /// Another program is writing or holds a lock; a later attempt may succeed.
    Busy,
    /// An earlier sync of the handle failed.
    Poisoned,
    /// The operating system failed.
    Io,
    /// What was given cannot be parsed.
    BadInput,
}

impl ErrorKind {
    /// Returns its name, such as `not_found`.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "not_found",
            ErrorKind::Ambiguous => "ambiguous",
            ErrorKind::Refused => "refused",
            ErrorKind::Busy => "busy",
            ErrorKind::Poisoned => "poisoned",
            ErrorKind::Io => "io",
            ErrorKind::BadInput => "bad_input",
        }
    }
}

impl From<annals_layouts::Error> for Error {
    fn from(error: annals_layouts::Error) -> Self {
        use annals_layouts::Error as E;
        match error {
            E::NotFound { what, id } => Error::NotFound { what, id },
            E::Ambiguous {
                what,
                id,
                candidates,
            } => Error::Ambiguous {
                what,
                id,
                candidates,
            },
            E::BadId { what, id, why } => Error::BadId { what, id, why },
            E::Damaged { file, why } => Error::Damaged { file, why },
            other => Error::Refused(other.to_string()),
        }
    }
}

impl Error {
    /// Returns the error for an operation that removes the file: insisting does not help.
    pub(crate) fn for_removal(self) -> Self {
        match self {
            Error::File(error) => Error::File(error.for_removal()),
            other => other,
        }
    }

    /// Wraps an I/O error with what was tried on which path.
    pub fn io(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        FileError::io(action, path, source).into()
    }

    /// Returns the file or directory of the error, if known.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::File(error) => error.path(),
            Error::Live { path, .. }
            | Error::NotRegular { path }
            | Error::UnfinishedRemoval { path, .. }
            | Error::Index { path, .. }
            | Error::Link { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Returns its kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NotFound { .. } => ErrorKind::NotFound,
            Error::Ambiguous { .. } => ErrorKind::Ambiguous,
            Error::Live { .. }
            | Error::File(
                FileError::Busy { .. }
                | FileError::Changed { .. }
                | FileError::Held { .. }
                | FileError::BeingReplaced { .. }
                | FileError::RemovalPending { .. },
            ) => ErrorKind::Busy,
            Error::File(FileError::Poisoned { .. }) => ErrorKind::Poisoned,
            Error::BadId { .. }
            | Error::Prices(_)
            | Error::Query { .. }
            | Error::RefusedDraft { .. } => ErrorKind::BadInput,
            other if other.is_refusal() => ErrorKind::Refused,
            _ => ErrorKind::Io,
        }
    }

    /// Returns all matches of an ambiguous id.
    pub fn candidates(&self) -> &[String] {
        match self {
            Error::Ambiguous { candidates, .. } => candidates,
            _ => &[],
        }
    }

    /// Returns whether something in a root was not read because of its kind or its name: a link, a
    /// pipe, a device, a socket, or a file that annals was removing.
    pub fn is_no_file(&self) -> bool {
        matches!(
            self,
            Error::Link { .. } | Error::NotRegular { .. } | Error::UnfinishedRemoval { .. }
        )
    }

    /// Returns whether the request was refused, as opposed to a failure: trying again does not help.
    pub fn is_refusal(&self) -> bool {
        match self {
            Error::File(error) => error.is_refusal(),
            other => matches!(
                other,
                Error::Refused(_)
                    | Error::RefusedDraft { .. }
                    | Error::Exists(_)
                    | Error::Damaged { .. }
            ),
        }
    }

    /// Returns a copy with the same message.
    pub(crate) fn duplicate(&self) -> Self {
        let Error::File(FileError::Io {
            action,
            path,
            source,
        }) = self
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

    /// Refuses to change a file of a layout that annals only reads, or in a way that it does not.
    pub(crate) fn read_only(layout: &str) -> Self {
        let known = annals_layouts::layout::by_name(layout);
        Error::refused(match known.and_then(|it| it.spec().limits) {
            Some(limits) => limits.to_owned(),
            None => format!("annals reads the layout {layout} but does not write it"),
        })
    }
}
