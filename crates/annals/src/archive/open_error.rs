//! Errors of opening a pack.

use crate::error::Error;

/// Error of opening a pack.
#[derive(Debug)]
pub(super) enum PackOpenError {
    /// The pack is truncated or overwritten; only salvage can find its contents.
    Lost(Error),
    /// Anything else: an I/O error, a foreign file, a newer version, or an invalid index.
    Other(Error),
}

impl PackOpenError {
    /// Converts to an error, with a hint at salvage.
    pub(super) fn into_error(self) -> Error {
        match self {
            PackOpenError::Lost(error) => {
                Error::refused(format!("{error} (try `annals restore --salvage`)"))
            }
            PackOpenError::Other(error) => error,
        }
    }

    /// Converts to an error after salvage failed too.
    pub(super) fn into_salvage_error(self) -> Error {
        match self {
            PackOpenError::Lost(error) => Error::refused(format!(
                "{error}; salvage found no index either, so only a backup can recover it"
            )),
            PackOpenError::Other(error) => error,
        }
    }
}

impl From<Error> for PackOpenError {
    fn from(error: Error) -> Self {
        PackOpenError::Other(error)
    }
}
