//! Errors of a push.

use std::path::PathBuf;

/// Why a push failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The hub refused the request. Sending it again would not help.
    #[error("the hub refused: {0}")]
    Refused(String),
    /// The hub, or its store, cannot be reached now.
    #[error("cannot reach the hub: {0}")]
    Unreachable(String),
    /// The hub answered something that this program does not understand.
    #[error("unexpected answer of the hub: {0}")]
    Answer(String),
    /// The state of earlier pushes cannot be used.
    #[error("{}: {why}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Another process is pushing to the same hub.
    #[error("another process is pushing to this hub")]
    Busy,
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] annals_jsonl::Error),
    /// Masking or reading failed.
    #[error(transparent)]
    Library(#[from] annals::Error),
    /// A segment could not be made.
    #[error(transparent)]
    Segment(#[from] annals_segments::Error),
}

/// Result of an operation of a push.
pub type Result<T, E = Error> = std::result::Result<T, E>;
