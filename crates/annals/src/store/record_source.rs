//! Opens the records of a file: the lines of a log, or lines derived from a document or a database.
//!
//! Every reader gets lines at byte offsets ([`ReadAt`]), so scanning, reading backwards, reading one
//! record again, search, costs and index cursors have one implementation. [`Framing`] says how a
//! file stores its records, and this module is the only one that acts on it:
//!
//! | framing | bytes | identity |
//! |---|---|---|
//! | `Lines` | the file itself, or its archived copy | its `stat` |
//! | `Document` | lines that the layout derives from the whole file, in memory | its `stat` |
//! | `Rows` | one line per record of a database, in memory or read on demand (`rows`) | `stat` of the database and its WAL |
//!
//! Derived lines have no fixed place in the file: `offset` and `len` of a `Span` count derived bytes,
//! and [`ReadAt::size`] differs from the length in the [`FileId`]. They may change anywhere when the
//! file changes, so [`ReadAt::revision`] makes a `Cursor` valid only for the same state of the file.

#[cfg(feature = "databases")]
mod rows;
#[cfg(not(feature = "databases"))]
#[path = "record_source/no_rows.rs"]
mod rows;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use annals_jsonl::{FileId, OpenLog, RangeReader, ReadAt};
use annals_layouts::model::{Artifact, DocumentFormat, Framing};

use rows::RowSource;

/// Maximum size of a document whose records are derived.
const MAX_DOCUMENT: u64 = 256 << 20;

/// Opens the records of a file.
pub(crate) fn open(path: &Path, framing: Framing) -> io::Result<OpenLog> {
    match framing {
        Framing::Lines => OpenLog::open(path),
        Framing::Document(format) => derive(OpenLog::open(path)?, format),
        Framing::Rows(format) => Ok(OpenLog::Derived(Arc::new(RowSource::open(path, format)?))),
    }
}

/// Opens the records of a file whose bytes are stored elsewhere.
pub(super) fn open_stored(bytes: OpenLog, framing: Framing) -> io::Result<OpenLog> {
    match framing {
        Framing::Lines => Ok(bytes),
        Framing::Document(format) => derive(bytes, format),
        Framing::Rows(_) => Err(io::Error::other("a stored copy of a database is not read")),
    }
}

/// Returns the identity of a file's records, from that of the file.
pub(crate) fn identity(path: &Path, artifact: &Artifact, id: FileId) -> FileId {
    match artifact.framing {
        Framing::Lines | Framing::Document(_) => id,
        Framing::Rows(_) => rows::with_wal(path, id),
    }
}

/// Returns the path of the database whose write-ahead log is at `path`.
pub(crate) fn database_of_wal(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    Some(path.with_file_name(name.strip_suffix("-wal")?))
}

/// The open database of a file, shared by all sessions in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedSource(Arc<Mutex<Option<Arc<RowSource>>>>);

impl SharedSource {
    /// Opens the records of a file, or returns the open ones of a database that is unchanged.
    pub(super) fn open(&self, path: &Path, framing: Framing) -> io::Result<OpenLog> {
        let Framing::Rows(format) = framing else {
            return open(path, framing);
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let source = match known.take() {
            Some(source) if source.is_current() => source,
            _ => Arc::new(RowSource::open(path, format)?),
        };
        *known = Some(Arc::clone(&source));
        Ok(OpenLog::Derived(source))
    }
}

/// Derives the records of a document.
fn derive(bytes: OpenLog, format: &DocumentFormat) -> io::Result<OpenLog> {
    let id = bytes.id()?;
    let mut document = Vec::new();
    let mut reader = RangeReader::between(bytes, 0, MAX_DOCUMENT + 1);
    reader.read_to_end(&mut document)?;
    if document.len() as u64 > MAX_DOCUMENT {
        let limit = MAX_DOCUMENT >> 20;
        return Err(io::Error::other(format!("it is larger than {limit} MB")));
    }
    let lines = (format.to_lines)(&document);
    Ok(OpenLog::Derived(Arc::new(DerivedLines { id, lines })))
}

/// Derived lines in memory.
#[derive(Debug)]
struct DerivedLines {
    /// Identity of the file before it was read.
    id: FileId,
    lines: Vec<u8>,
}

impl ReadAt for DerivedLines {
    fn id(&self) -> io::Result<FileId> {
        Ok(self.id)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(copy_at(&self.lines, into, offset))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.lines.len() as u64)
    }

    fn revision(&self) -> Option<FileId> {
        Some(self.id)
    }
}

/// Copies bytes from `offset` on; returns their number.
fn copy_at(from: &[u8], into: &mut [u8], offset: u64) -> usize {
    let at = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = from.get(at..).unwrap_or_default();
    let len = rest.len().min(into.len());
    let (to, rest) = (into.get_mut(..len), rest.get(..len));
    if let (Some(to), Some(rest)) = (to, rest) {
        to.copy_from_slice(rest);
    }
    len
}
