//! The two system calls that decide whether a record is durable, behind a trait.
//!
//! Tests shorten, tear and fail them at every byte; the program uses only [`SystemIo`].

use std::fs::File;
use std::io::{self, Write as _};

/// Writes to and syncs an open log.
pub(crate) trait WriteIo: Send + Sync {
    /// One `write`, which may be short.
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize>;

    /// Makes everything written so far durable.
    fn sync(&self, file: &File) -> io::Result<()>;
}

/// Calls the operating system.
#[derive(Debug)]
pub(crate) struct SystemIo;

impl WriteIo for SystemIo {
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}
