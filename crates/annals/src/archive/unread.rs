//! Packs that cannot be read: why, and what can be done.

use crate::error::Error;

/// Why a pack was not read.
#[derive(Debug)]
pub(super) enum Unread {
    /// It is cut or overwritten, and nobody can tell what it holds who does not look further.
    Lost(Error),
    /// Anything else: it cannot be reached, is another program's or a newer one's, or lies.
    Other(Error),
}

impl Unread {
    /// The error, with what else can be tried.
    pub(super) fn into_error(self) -> Error {
        match self {
            Unread::Lost(error) => Error::refused(format!(
                "{error} (`annals restore --salvage` looks further)"
            )),
            Unread::Other(error) => error,
        }
    }

    /// The error of one who has looked further, and found nothing.
    pub(super) fn into_loss(self) -> Error {
        match self {
            Unread::Lost(error) => Error::refused(format!(
                "{error}; nor does anything else in it tell what it holds, so only a backup of it helps"
            )),
            Unread::Other(error) => error,
        }
    }
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Unread::Other(error)
    }
}
