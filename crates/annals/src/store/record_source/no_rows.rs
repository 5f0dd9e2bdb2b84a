//! Stands in for `rows.rs` in builds without the feature `databases`: a database is found and
//! listed as a file that cannot be read.

use std::io;
use std::path::Path;

use annals_jsonl::{FileId, ReadAt};
use annals_layouts::model::RowFormat;

/// The records of a database; none can be opened.
#[derive(Debug)]
pub(crate) enum RowSource {}

impl RowSource {
    pub(super) fn open(_: &Path, _: &'static RowFormat) -> io::Result<Self> {
        let text = "it is a database, and annals was built without the feature `databases`";
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }

    pub(super) fn is_current(&self) -> bool {
        match *self {}
    }
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
