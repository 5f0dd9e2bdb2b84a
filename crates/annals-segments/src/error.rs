//! Errors of segments. Their text is shown to people and sent to machines.

/// Why bytes are not a valid segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end before the segment or the group does.
    #[error("the data ends too early: {0}")]
    Truncated(&'static str),
    /// The format is unknown, or newer than this program.
    #[error("unknown format {0:?}; this program reads format {1}")]
    Format(String, &'static str),
    /// A length exceeds its limit.
    #[error("{what} of {len} bytes; the limit is {limit}")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its length.
        len: u64,
        /// The limit.
        limit: u64,
    },
    /// A checksum does not match.
    #[error("wrong checksum of {0}")]
    Checksum(&'static str),
    /// The header contradicts itself, the content, or a rule.
    #[error("invalid segment: {0}")]
    Invalid(String),
    /// A path that is absolute, leaves its root, or contains characters that no path has.
    #[error("invalid path: {0}")]
    Path(String),
    /// zstd failed.
    #[error("zstd: {0}")]
    Compression(String),
}

/// Result of an operation on segments.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Error::Invalid(text.into())
    }
}
