//! The error type of this crate: requests that a layout cannot carry out.
//!
//! Damage inside a record is never an error: it is a [`Flaw`](crate::model::Flaw).

use std::fmt;

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A request that was not carried out, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing matches the request.
    #[error("no {what} matches `{id}`")]
    NotFound {
        /// The kind of thing.
        what: Subject,
        /// The requested id or name.
        id: String,
    },
    /// A name matches more than one thing.
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

/// The kind of thing that a request named and that was not found, or not found once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// A message of a session.
    Message,
    /// A session.
    Session,
    /// A sub-agent of a session.
    SubAgent,
    /// A session in the archive.
    ArchivedSession,
    /// A project.
    Project,
    /// A layout.
    Layout,
    /// A session in the trash.
    DeletedSession,
    /// A stored output of a tool.
    ToolOutput,
    /// A file that a session saved.
    SavedFile,
    /// A plan.
    Plan,
    /// A pinned session.
    PinnedSession,
    /// A log.
    Log,
    /// A document of the agent program.
    Document,
    /// A workspace of Chorus.
    Workspace,
    /// A repair that can be undone.
    Repair,
    /// A record of a log.
    Record,
    /// An agent of a workspace.
    Agent,
    /// A stored copy of a file.
    StoredCopy,
    /// The session that a file belongs to.
    SessionOfFile,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Message => "message",
            Subject::Session => "session",
            Subject::SubAgent => "sub-agent",
            Subject::ArchivedSession => "archived session",
            Subject::Project => "project",
            Subject::Layout => "layout",
            Subject::DeletedSession => "deleted session",
            Subject::ToolOutput => "tool output",
            Subject::SavedFile => "saved file",
            Subject::Plan => "plan",
            Subject::PinnedSession => "pinned session",
            Subject::Log => "log",
            Subject::Document => "document",
            Subject::Workspace => "workspace",
            Subject::Repair => "repair",
            Subject::Record => "record",
            Subject::Agent => "agent",
            Subject::StoredCopy => "stored copy",
            Subject::SessionOfFile => "session of that file",
        })
    }
}
