//! Distinguishes a path that does not exist from one that cannot be accessed.
//!
//! `Path::exists` and `symlink_metadata().is_ok()` return false for both. Code that removes,
//! replaces, skips or reports something because a file does not exist uses these functions, which
//! return other errors.

use std::fs::Metadata;
use std::io;
use std::path::Path;

use crate::{Error, Result};

/// Returns the metadata of a path without following links; `None` if it does not exist.
pub fn metadata_if_exists(path: &Path) -> Result<Option<Metadata>> {
    match path.symlink_metadata() {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(Error::io("stat", path, error)),
    }
}

/// Whether a path exists, including a dangling link.
pub fn exists(path: &Path) -> Result<bool> {
    Ok(metadata_if_exists(path)?.is_some())
}

/// Whether a path is a directory or a link to one.
pub fn is_dir(path: &Path) -> Result<bool> {
    match path.metadata() {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(Error::io("stat", path, error)),
    }
}

/// Whether the error means that the file does not exist.
pub fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_cannot_be_looked_at_is_not_taken_for_absent() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        for there in ["file", "link", "loop"] {
            assert!(exists(&at(there)).unwrap(), "{there}");
        }
        for absent in ["none", "none/deeper", "file/below"] {
            assert!(!exists(&at(absent)).unwrap(), "{absent}");
        }
        assert!(is_dir(dir.path()).unwrap());
        assert!(is_dir(&at("loop")).is_err());
        assert!(
            ["file", "link", "none"]
                .iter()
                .all(|name| !is_dir(&at(name)).unwrap())
        );
        let long = "x".repeat(300);
        for unknown in ["loop/below", &long] {
            let error = exists(&at(unknown)).unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{unknown}: {error}");
            let error = is_dir(&at(unknown)).unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{unknown}: {error}");
        }
    }
}
