//! Packs that cannot be read: why, and what can be done.

use crate::error::Error;

/// Why a pack was not read.
#[derive(Debug)]
pub(super) enum PackOpenError {
    /// It is cut or overwritten, and nobody can tell what it holds who does not look further.
    Lost(Error),
    /// Anything else: it cannot be reached, is another program's or a newer one's, or lies.
    Other(Error),
}

impl PackOpenError {
    /// The error, with what else can be tried.
    pub(super) fn into_error(self) -> Error {
        match self {
            PackOpenError::Lost(error) => Error::refused(format!(
                "{error} (`annals restore --salvage` looks further)"
            )),
            PackOpenError::Other(error) => error,
        }
    }

    /// The error of one who has looked further, and found nothing.
    pub(super) fn into_salvage_error(self) -> Error {
        match self {
            PackOpenError::Lost(error) => Error::refused(format!(
                "{error}; nor does anything else in it tell what it holds, so only a backup of it helps"
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
