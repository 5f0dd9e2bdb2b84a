//! Errors of the hub.

/// What went wrong in a hub.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object store failed.
    #[error("object store: {0}")]
    Store(#[from] object_store::Error),
    /// The store does not do what the hub relies on.
    #[error("unusable store: {0}")]
    Unusable(String),
    /// A table, or the store, was written by something else or by a newer hub.
    #[error("{table}: {why}")]
    Foreign {
        /// The table or object.
        table: String,
        /// What is wrong with it.
        why: String,
    },
    /// A Parquet file cannot be written or read.
    #[error("Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A segment or group is invalid.
    #[error(transparent)]
    Segment(#[from] annals_segments::Error),
    /// The request is refused.
    #[error("{0}")]
    Refused(String),
    /// A question that cannot be answered.
    #[error("{0}")]
    Asked(String),
    /// The owner of the token may not do this.
    #[error("{0}")]
    Forbidden(String),
    /// A worker of the hub has ended.
    #[error("the hub is shutting down")]
    Ended,
}

/// Result of an operation of the hub.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn foreign(table: &str, why: impl Into<String>) -> Self {
        Error::Foreign {
            table: table.to_owned(),
            why: why.into(),
        }
    }
}
