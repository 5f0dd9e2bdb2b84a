//! Stands in for `rows.rs` in builds without the feature `databases`: a database is found and
//! listed as a file that cannot be read.

use std::io;
use std::path::Path;

use annals_jsonl::Durability;
use annals_jsonl::{FileId, ReadAt};
use annals_layouts::model::{RowEdit, RowFormat};

/// The connections to a database; there are none.
#[derive(Debug, Default)]
pub(super) struct Connections;

/// The records of a session in a database; none can be opened.
#[derive(Debug)]
pub(super) enum RowSource {}

impl Connections {
    pub(super) fn sessions(
        &self,
        _: &Path,
        _: &'static RowFormat,
    ) -> io::Result<Vec<(String, FileId)>> {
        Err(unsupported())
    }

    pub(super) fn keys(&self, _: &Path, _: &'static RowFormat) -> io::Result<Vec<String>> {
        Err(unsupported())
    }

    pub(super) fn state(&self, _: &Path, _: &'static RowFormat) -> io::Result<Option<FileId>> {
        Err(unsupported())
    }

    pub(super) fn open(&self, _: &Path, _: &'static RowFormat) -> io::Result<RowSource> {
        Err(unsupported())
    }
}

/// Result of a transaction; there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowOutcome {
    Written,
    Changed,
    Refused(String),
}

pub(crate) fn write(
    _: &Path,
    _: &'static RowFormat,
    _: Option<FileId>,
    _: &[RowEdit],
    _: Durability,
) -> io::Result<RowOutcome> {
    Err(unsupported())
}

fn unsupported() -> io::Error {
    let text = "it is a database, and annals was built without the feature `databases`";
    io::Error::new(io::ErrorKind::Unsupported, text)
}

impl ReadAt for RowSource {
    fn id(&self) -> io::Result<FileId> {
        match *self {}
    }

    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        match *self {}
    }
}

pub(super) fn with_wal(_: &Path, id: FileId) -> FileId {
    id
}
