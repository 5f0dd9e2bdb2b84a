//! Errors as they cross to JavaScript: the reason is a JSON text that `lib/errors.cjs` reads.

use annals::jsonl::Error as FileError;
use napi::Status;
use serde::Serialize;

/// An error with what a caller can act on.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    kind: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    candidates: Vec<String>,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn bad_input(why: impl Into<String>) -> Self {
        Failure::of_kind("bad_input", why)
    }

    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Failure::of_kind("refused", why)
    }

    /// A fault of the library: it stays in the call that met it.
    pub(crate) fn panic() -> Self {
        Failure::of_kind("io", "internal error of annals")
    }

    fn of_kind(kind: &'static str, message: impl Into<String>) -> Self {
        Failure {
            kind,
            message: message.into(),
            path: None,
            candidates: Vec::new(),
        }
    }
}

impl From<annals::Error> for Failure {
    fn from(error: annals::Error) -> Self {
        use annals::Error as E;
        let kind = match &error {
            E::NotFound { .. } => "not_found",
            E::Ambiguous { .. } => "ambiguous",
            E::BadId { .. } | E::Query { .. } | E::Prices(_) | E::RefusedDraft { .. } => {
                "bad_input"
            }
            E::Live { .. } => "busy",
            E::File(file) => match file {
                FileError::Busy { .. }
                | FileError::BeingReplaced { .. }
                | FileError::RemovalPending { .. }
                | FileError::Changed { .. }
                | FileError::Held { .. } => "busy",
                FileError::Poisoned { .. } => "poisoned",
                _ if file.is_refusal() => "refused",
                _ => "io",
            },
            E::Index { .. } => "io",
            _ => "refused",
        };
        Failure {
            path: error.path().map(|path| path.display().to_string()),
            message: error.to_string(),
            candidates: match error {
                E::Ambiguous { candidates, .. } => candidates,
                _ => Vec::new(),
            },
            ..Failure::of_kind(kind, "")
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::bad_input(error.to_string())
    }
}

impl From<Failure> for napi::Error {
    fn from(failure: Failure) -> Self {
        let reason = serde_json::to_string(&failure).unwrap_or(failure.message);
        napi::Error::new(Status::GenericFailure, reason)
    }
}
