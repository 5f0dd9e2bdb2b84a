//! Error answers: a status, the cause, and a way out.

use annals::{Error, ErrorKind};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// An answer that is not the one asked for.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// Cause.
    pub(crate) message: String,
    /// Way out.
    pub(crate) hint: String,
    /// Name of the kind, for scripts.
    pub(crate) kind: &'static str,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>, hint: &str) -> Self {
        let kind = match status {
            StatusCode::NOT_FOUND => "not_found",
            StatusCode::INTERNAL_SERVER_ERROR => "internal",
            StatusCode::SERVICE_UNAVAILABLE => "busy",
            _ => "refused",
        };
        Problem {
            status,
            message: message.into(),
            hint: hint.to_owned(),
            kind,
        }
    }

    /// There is no such page.
    pub(crate) fn no_page() -> Self {
        let hint = "Begin at the overview.";
        Problem::new(StatusCode::NOT_FOUND, "There is no such page.", hint)
    }

    /// A value of the address cannot be used.
    pub(crate) fn bad_value(message: impl Into<String>) -> Self {
        let hint = "Correct the address, or begin at the overview.";
        Problem::new(StatusCode::BAD_REQUEST, message, hint)
    }

    /// A handler panicked.
    pub(crate) fn panicked() -> Self {
        let hint =
            "This is a bug in annals; the terminal shows where it happened. Other pages go on.";
        let message = "The page could not be made.";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, message, hint)
    }

    /// Returns it as a JSON document.
    pub(crate) fn json(&self) -> Response {
        let document = serde_json::json!({
            "error": { "kind": self.kind, "message": self.message, "hint": self.hint }
        });
        let json = [(axum::http::header::CONTENT_TYPE, "application/json")];
        (self.status, json, document.to_string()).into_response()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, hint) = match error.kind() {
            ErrorKind::NotFound => (
                StatusCode::NOT_FOUND,
                "It may have been deleted or archived since: look in the trash and the archive.",
            ),
            ErrorKind::Busy => (StatusCode::CONFLICT, "Try again in a moment."),
            ErrorKind::Io | ErrorKind::Poisoned => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "Check that the directory exists and can be read; everything else goes on.",
            ),
            _ => (
                StatusCode::BAD_REQUEST,
                "Correct the request and try again.",
            ),
        };
        Problem {
            kind: error.kind().as_str(),
            ..Problem::new(status, error.to_string(), hint)
        }
    }
}
