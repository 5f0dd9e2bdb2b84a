//! The error type of this crate: requests that a layout cannot carry out.
//!
//! Damage inside a record is never an error: it is a [`Flaw`](crate::model::Flaw).

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A request that was not carried out, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing matches the request.
    #[error("no {what} matches `{id}`")]
    NotFound {
        /// The kind of thing: "workspace", "agent" …
        what: &'static str,
        /// The requested id or name.
        id: String,
    },
    /// A name matches more than one thing.
    #[error("`{id}` matches {} {what}s", candidates.len())]
    Ambiguous {
        /// The kind of thing.
        what: &'static str,
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
    /// A document is not valid for its format, so it is not changed.
    #[error("{file} {why}")]
    Damaged {
        /// Name of the document.
        file: String,
        /// Description of the damage.
        why: String,
    },
    /// The request is invalid, or the layout cannot express it.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// Builds a [`Error::Refused`].
    pub fn refused(why: impl Into<String>) -> Self {
        Error::Refused(why.into())
    }
}
