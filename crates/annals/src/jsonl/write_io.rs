//! The two calls whose failures decide whether a record is kept, behind one seam.
//!
//! Exists so that tests can shorten, tear and fail them at every byte; the program only ever uses
//! [`SystemIo`].

use std::fs::File;
use std::io::{self, Write as _};

/// Writes to and syncs an open log.
pub(super) trait WriteIo: Send + Sync {
    /// One `write`, as long or as short as it turns out.
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize>;

    /// Makes everything written so far survive a power loss.
    fn sync(&self, file: &File) -> io::Result<()>;
}

/// The operating system.
#[derive(Debug)]
pub(super) struct SystemIo;

impl WriteIo for SystemIo {
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}
