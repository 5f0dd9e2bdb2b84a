//! Errors as they cross to JavaScript: the reason is a JSON text that `lib/errors.cjs` reads.

use annals::ErrorKind;
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
        Failure::of_kind(ErrorKind::BadInput, why)
    }

    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Failure::of_kind(ErrorKind::Refused, why)
    }

    /// Returns the error for a panic of the library in one call.
    pub(crate) fn panic() -> Self {
        Failure::of_kind(ErrorKind::Io, "internal error of annals")
    }

    fn of_kind(kind: ErrorKind, message: impl Into<String>) -> Self {
        Failure {
            kind: kind.as_str(),
            message: message.into(),
            path: None,
            candidates: Vec::new(),
        }
    }
}

impl From<annals::Error> for Failure {
    fn from(error: annals::Error) -> Self {
        Failure {
            path: error.path().map(|path| path.display().to_string()),
            candidates: error.candidates().to_vec(),
            ..Failure::of_kind(error.kind(), error.to_string())
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::bad_input(annals::json_error_reason(&error))
    }
}

impl From<Failure> for napi::Error {
    fn from(failure: Failure) -> Self {
        let reason = serde_json::to_string(&failure).unwrap_or(failure.message);
        napi::Error::new(Status::GenericFailure, reason)
    }
}
