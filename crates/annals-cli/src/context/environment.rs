//! The environment of the process.

use std::ffi::OsString;

use annals::layout::Env;

/// The environment that layouts see.
pub(crate) fn environment() -> Env {
    let vars = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Env {
        home: std::env::home_dir(),
        cwd: std::env::current_dir().ok(),
        vars,
    }
}

pub(super) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

pub(super) fn is_not_found(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}
