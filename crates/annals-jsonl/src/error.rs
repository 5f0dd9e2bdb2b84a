//! The error type of this crate. Every variant that touches the file system names the path.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::OpenFileHolder;

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A file operation that was not done, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused; `action` is a verb such as "read" or "create".
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// Attempted action.
        action: &'static str,
        /// File or directory.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Another process held the lock until the timeout.
    #[error("{} is locked by another process; waited {} ms", path.display(), waited.as_millis())]
    Busy {
        /// The locked file.
        path: PathBuf,
        /// Timeout.
        waited: Duration,
    },
    /// The disk, quota or file-size limit is exhausted; nothing was acknowledged.
    #[error("no space left to write {} ({source}); the record was not written, and earlier records are intact", path.display())]
    Full {
        /// The file that could not grow.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// An earlier sync of this handle failed, so later writes may be lost.
    #[error("{} can no longer be written through this handle: an earlier sync failed; reopen it and check its content", path.display())]
    Poisoned {
        /// The log whose sync failed.
        path: PathBuf,
    },
    /// A document changed between reading and replacing it.
    #[error("{} was changed by another program meanwhile; nothing was overwritten", path.display())]
    Changed {
        /// The document.
        path: PathBuf,
    },
    /// Another program has the file open for writing. What it writes after the file is removed or
    /// replaced would be lost.
    #[error("{} is held open for writing by {holder}", path.display())]
    Held {
        /// The file.
        path: PathBuf,
        /// The process that has it open.
        holder: OpenFileHolder,
        /// Whether the operation can be forced. A removal never does.
        can_insist: bool,
    },
    /// A path is a symbolic link or leads through one, and only real files are written.
    #[error("{} {why}", path.display())]
    ThroughLink {
        /// The path.
        path: PathBuf,
        /// Description of the link.
        why: String,
    },
    /// A directory, pipe, device or socket has the name of a file.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The log is on a network file system, and the caller did not allow that.
    #[error("{} is on a network file system, where appends can be lost", path.display())]
    Network {
        /// The log.
        path: PathBuf,
    },
    /// Something that is not a file has the name of a lock file.
    #[error("{} is {found}, but must be a lock file; remove it or move it away, then try again", path.display())]
    LockObstructed {
        /// Path of the lock file.
        path: PathBuf,
        /// Type of the file with this name: "a directory" or "a symbolic link".
        found: &'static str,
    },
    /// Another program keeps making copies of the log to rename over it.
    #[error("another program is replacing {} with {}; try again when it is done", path.display(), copy.display())]
    BeingReplaced {
        /// The log.
        path: PathBuf,
        /// Its copy.
        copy: PathBuf,
    },
    /// A record that was to be appended is empty.
    #[error("an empty record cannot be appended to a log")]
    EmptyRecord,
    /// A record that was to be appended is not one line.
    #[error("a record must be one line, but it has a line feed at byte {at}")]
    LineFeed {
        /// Offset of the line feed in the record.
        at: usize,
    },
    /// A file was not removed, because another removal of the same file is not finished.
    #[error("{} was not removed, because {} exists: another process is removing the file, or was interrupted; `annals repair --apply` restores it", path.display(), renamed.display())]
    RemovalPending {
        /// The file.
        path: PathBuf,
        /// The name that the other removal gave it.
        renamed: PathBuf,
    },
    /// A removal failed, and the file could not simply get its name back.
    #[error("{cause}; {outcome}")]
    NotPutBack {
        /// Why the removal failed.
        #[source]
        cause: Box<Error>,
        /// Current location of the file's content.
        outcome: String,
    },
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

    /// Returns the file or directory of the error, if known.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Io { path, .. }
            | Error::Busy { path, .. }
            | Error::Full { path, .. }
            | Error::Poisoned { path }
            | Error::Changed { path }
            | Error::Held { path, .. }
            | Error::ThroughLink { path, .. }
            | Error::NotAFile { path }
            | Error::Network { path }
            | Error::LockObstructed { path, .. }
            | Error::BeingReplaced { path, .. }
            | Error::RemovalPending { path, .. } => Some(path),
            Error::NotPutBack { cause, .. } => cause.path(),
            Error::EmptyRecord | Error::LineFeed { .. } => None,
        }
    }

    /// Returns whether the request was refused, as opposed to a failure: trying again does not help.
    pub fn is_refusal(&self) -> bool {
        !matches!(
            self,
            Error::Io { .. }
                | Error::Busy { .. }
                | Error::Full { .. }
                | Error::Poisoned { .. }
                | Error::Changed { .. }
                | Error::Held { .. }
        )
    }

    /// Returns the error for an operation that removes the file: insisting does not help.
    pub fn for_removal(mut self) -> Self {
        if let Error::Held { can_insist, .. } = &mut self {
            *can_insist = false;
        }
        self
    }

    /// Adds what became of the file to the error of a failed removal.
    pub(crate) fn with_outcome(self, outcome: String) -> Self {
        Error::NotPutBack {
            cause: Box::new(self),
            outcome,
        }
    }
}

/// Returns the operating system's error if a library wrapped it with the name of a temporary file.
fn os_error(source: io::Error) -> io::Error {
    let wrapped = source.get_ref().and_then(|inner| inner.source());
    let code = wrapped
        .and_then(|inner| inner.downcast_ref::<io::Error>())
        .and_then(io::Error::raw_os_error);
    code.map_or(source, io::Error::from_raw_os_error)
}
