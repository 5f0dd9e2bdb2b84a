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
//! | `LinesOrDocument` | as `Lines` or as `Document`, by the beginning of the file | its `stat` |
//! | `Rows` | one line per record of a session in a database, in memory or read on demand (`rows`) | state of the session |
//! | `Files` | lines that the layout derives from several files, in memory (`file_set`) | its `stat` and those of the others |
//!
//! Derived lines have no fixed place in the file: `offset` and `len` of a `Span` count derived bytes,
//! and [`ReadAt::size`] differs from the length in the [`FileId`]. They may change anywhere when the
//! file changes, so [`ReadAt::revision`] makes a `Cursor` valid only for the same state of the file.
//!
//! A database is one file of a root, and [`split_databases`] puts a file for each of its sessions in
//! its place. Their paths begin with that of the database, so they are kept apart by everything that
//! goes by paths.

mod file_set;
#[cfg(feature = "databases")]
mod rows;
#[cfg(not(feature = "databases"))]
#[path = "record_source/no_rows.rs"]
mod rows;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use annals_jsonl::{FileId, FileIdParts, OpenLog, RangeReader, ReadAt};
use annals_layouts::model::{Artifact, FilePart, Framing, LinesOrDocument, RowFormat};
use jiff::Timestamp;

use serde::{Deserialize, Serialize};

use super::content_cache::ContentCache;
use super::inventory::RootFile;
use super::{Root, is_stable};
use crate::error::{Error, Result};
use rows::Connections;
pub(crate) use rows::{RowOutcome, write as write_rows};

/// Maximum size of a document whose records are derived.
const MAX_DOCUMENT: u64 = 256 << 20;

/// Maximum size of a document that a person chose over lines.
const MAX_CHOSEN_DOCUMENT: u64 = 2 << 30;

/// Length of the beginning that distinguishes lines from a document.
const BEGINNING: u64 = 1 << 20;

/// Opens the records of a file.
pub(crate) fn open(path: &Path, framing: Framing) -> io::Result<OpenLog> {
    SharedSource::default().open(path, framing)
}

/// Opens the records of a root that is a file.
pub(crate) fn open_root_file(root: &Root) -> io::Result<OpenLog> {
    let artifact = root.layout.classify(Path::new(""));
    let artifact = artifact.ok_or(io::ErrorKind::NotFound)?;
    open(&root.path, artifact.framing)
}

/// Opens the records of a file that was at `path` and is stored elsewhere, with the other files of its
/// set.
pub(super) fn open_stored(
    path: &Path,
    bytes: OpenLog,
    parts: Vec<(PathBuf, OpenLog)>,
    framing: Framing,
) -> io::Result<OpenLog> {
    match framing {
        Framing::Lines => Ok(bytes),
        Framing::Document(format) => derive(bytes, format.to_lines, MAX_DOCUMENT),
        Framing::LinesOrDocument(format) => open_either(bytes, format),
        Framing::Rows(_) => Err(io::Error::other("a stored copy of a database is not read")),
        Framing::Files(format) => {
            let mut id = bytes.id()?;
            for (_, part) in &parts {
                id = with_part(id, part.id()?);
            }
            let parts = parts.into_iter().map(|(path, part)| (path, Ok(part)));
            let lines = file_set::to_lines(path, bytes, parts, format)?;
            Ok(OpenLog::Derived(Arc::new(DerivedLines { id, lines })))
        }
    }
}

/// Returns the files of a set without the main one; none if the records are in one file.
pub(super) fn parts<T>(
    main: &Path,
    framing: Framing,
    add: file_set::AddParts<'_, T>,
) -> Vec<(PathBuf, T)> {
    match framing {
        Framing::Files(format) => file_set::parts(main, format, add),
        _ => Vec::new(),
    }
}

/// Adds the state of another file of a set to the identity of the set.
pub(super) fn with_part(id: FileId, part: FileId) -> FileId {
    file_set::with_part(id, part)
}

/// Returns the keys of all sessions in a database.
pub(crate) fn session_keys(path: &Path, format: &'static RowFormat) -> io::Result<Vec<String>> {
    Connections::default().keys(path, format)
}

/// Returns the identity of the file at a path, or of the session of a database. A link is not
/// followed.
pub(crate) fn stat(path: &Path, framing: Framing) -> io::Result<FileId> {
    if let Framing::Rows(format) = framing
        && path.file_name() != Some(OsStr::new(format.file))
    {
        let state = Connections::default().state(path, format)?;
        return state.ok_or_else(|| io::ErrorKind::NotFound.into());
    }
    let metadata = path.symlink_metadata()?;
    match metadata.is_file() {
        // Opening the set reports a part that cannot be examined.
        true => Ok(identity(
            path,
            framing,
            FileId::from(&metadata),
            &mut |_| {},
        )),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Returns the identity of a file, from that of its metadata. Passes other files of its set that cannot
/// be examined to `fail`.
pub(crate) fn identity(
    path: &Path,
    framing: Framing,
    id: FileId,
    fail: &mut dyn FnMut(io::Error),
) -> FileId {
    match framing {
        Framing::Lines | Framing::Document(_) | Framing::LinesOrDocument(_) => id,
        Framing::Rows(_) => rows::with_wal(path, id),
        Framing::Files(format) => file_set::with_parts(path, format, id, fail),
    }
}

/// Returns the identity of the listed file alone, without those of the other files of its set. It is
/// that of the set if one of them has changed since.
pub(super) fn own_identity(file: &RootFile) -> FileId {
    let Framing::Files(format) = file.artifact.framing else {
        return file.id;
    };
    let own = file.path.symlink_metadata().ok();
    let own = own.map(|metadata| FileId::from(&metadata));
    let is_same =
        |own: &FileId| file_set::with_parts(&file.path, format, *own, &mut |_| {}) == file.id;
    own.filter(is_same).unwrap_or(file.id)
}

/// Returns the length of the file at a path, without those of the other files of its set.
pub(crate) fn own_len(path: &Path, framing: Framing, id: &FileId) -> u64 {
    match framing {
        Framing::Files(_) => path.symlink_metadata().map_or(id.len, |own| own.len()),
        _ => id.len,
    }
}

/// Returns the path of the file on disk that holds the records: the database, for a session of one.
pub(crate) fn disk_path(path: &Path, framing: Framing) -> &Path {
    let Framing::Rows(format) = framing else {
        return path;
    };
    let is_database = |path: &&Path| path.file_name() == Some(OsStr::new(format.file));
    path.ancestors().take(3).find(is_database).unwrap_or(path)
}

/// Returns the path of the database whose write-ahead log is at `path`.
pub(crate) fn database_of_wal(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    Some(path.with_file_name(name.strip_suffix("-wal")?))
}

/// What all sessions in a file share: the connections to a database, or the records of a log that are
/// derived from the whole of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedSource(Arc<Source>);

#[derive(Debug, Default)]
struct Source {
    connections: Connections,
    /// Derived records of the files that were opened last, at most one for each thread that reads.
    derived: Mutex<Vec<(PathBuf, OpenLog)>>,
}

impl SharedSource {
    /// Opens the derived records of a log that several sessions share. An unchanged log is derived once
    /// and not again for each of them. `is_current` returns whether the log has that identity now.
    pub(super) fn open_derived(
        &self,
        path: &Path,
        is_current: impl FnOnce(FileId) -> bool,
        open: impl FnOnce() -> Result<OpenLog>,
    ) -> Result<OpenLog> {
        let failed = |error| Error::io("read", path, error);
        let now = Timestamp::now().as_nanosecond() as i64;
        let derived = || {
            self.0
                .derived
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let known = derived().iter().find(|(of, _)| of == path).cloned();
        if let Some((_, known)) = known
            && is_current(known.id().map_err(failed)?)
        {
            return Ok(known);
        }
        let opened = open()?;
        let id = opened.id().map_err(failed)?;
        if is_stable(id.ctime_ns, now) {
            let mut derived = derived();
            derived.retain(|(of, _)| of != path);
            derived.truncate(rayon::current_num_threads().saturating_sub(1));
            derived.insert(0, (path.to_owned(), opened.clone()));
        }
        Ok(opened)
    }

    /// Opens the records of a file.
    pub(super) fn open(&self, path: &Path, framing: Framing) -> io::Result<OpenLog> {
        match framing {
            Framing::Lines => OpenLog::open(path),
            Framing::Document(format) => {
                derive(OpenLog::open(path)?, format.to_lines, MAX_DOCUMENT)
            }
            Framing::LinesOrDocument(format) => open_either(OpenLog::open(path)?, format),
            Framing::Files(format) => {
                let main = OpenLog::open(path)?;
                let id = file_set::with_parts(path, format, main.id()?, &mut |_| {});
                let lines = file_set::derive(path, main, format)?;
                Ok(OpenLog::Derived(Arc::new(DerivedLines { id, lines })))
            }
            Framing::Rows(format) => {
                let rows = self.0.connections.open(path, format)?;
                Ok(OpenLog::Derived(Arc::new(rows)))
            }
        }
    }
}

/// The sessions of a database when they were listed.
#[derive(Serialize, Deserialize)]
struct ListedSessions {
    database: FileIdParts,
    /// Names in the records, and states.
    sessions: Vec<(String, FileIdParts)>,
}

/// Puts files for the sessions of a database in its place, and drops file sets of the same sessions,
/// which an older version of the program left. An unchanged database is not opened.
pub(crate) fn split_databases(
    root: &Root,
    files: &mut Vec<RootFile>,
    cache: &mut dyn ContentCache,
    errors: &mut Vec<Error>,
) {
    let is_database = |file: &RootFile| matches!(file.artifact.framing, Framing::Rows(_));
    if !files.iter().any(is_database) {
        return;
    }
    for file in std::mem::take(files) {
        match file.artifact.framing {
            Framing::Rows(format) => match sessions_of_database(root, &file, format, cache) {
                Ok(sessions) => files.extend(sessions),
                Err(error) => errors.push(error),
            },
            _ => files.push(file),
        }
    }
    let ids = |file: &RootFile| {
        let Artifact { session, agent, .. } = &file.artifact;
        let agent = agent.as_ref().map(|id| id.as_str().to_owned());
        agent.or_else(|| Some(session.as_ref()?.as_str().to_owned()))
    };
    let rows = files.iter().filter(|file| is_database(file));
    let rows: HashSet<String> = rows.filter_map(ids).collect();
    files.retain(|file| {
        let is_set = matches!(file.artifact.framing, Framing::Files(_));
        !is_set || ids(file).is_none_or(|id| !rows.contains(&id))
    });
}

fn sessions_of_database(
    root: &Root,
    file: &RootFile,
    format: &'static RowFormat,
    cache: &mut dyn ContentCache,
) -> Result<Vec<RootFile>> {
    let source = file.source.clone().unwrap_or_default();
    let known = cache.get(root, file);
    let known = known.and_then(|known| postcard::from_bytes(&known.facts).ok());
    let known = known
        .filter(|known: &ListedSessions| FileId::from_parts(known.database).untouched(&file.id));
    let listed = match known {
        Some(known) => known,
        None => {
            let now = Timestamp::now().as_nanosecond() as i64;
            let sessions = source.0.connections.sessions(&file.path, format);
            let sessions = sessions.map_err(|error| Error::io("read", &file.path, error))?;
            let sessions = sessions.into_iter();
            let listed = ListedSessions {
                database: file.id.parts(),
                sessions: sessions.map(|(name, id)| (name, id.parts())).collect(),
            };
            if is_stable(file.id.ctime_ns, now) {
                let facts = postcard::to_stdvec(&listed).unwrap_or_default();
                cache.put(root, file, facts);
            }
            listed
        }
    };
    let sessions = listed.sessions.into_iter().map(|(name, id)| {
        let artifact = (format.artifact)(&name);
        let path = root.path.join(root.layout.path_for(&artifact));
        RootFile {
            source: Some(source.clone()),
            ..RootFile::new(path, artifact, FileId::from_parts(id))
        }
    });
    let mut sessions: Vec<RootFile> = sessions.collect();
    crate::sort::by(&mut sessions, |one, other| {
        one.path.as_os_str().cmp(other.path.as_os_str())
    });
    Ok(sessions)
}

/// Derives the records of the first `len` bytes of an open file; `None` if its lines are its records.
pub(super) fn derive_beginning(
    path: &Path,
    file: &File,
    len: u64,
    framing: Framing,
) -> io::Result<Option<OpenLog>> {
    let id = FileId::from(&file.metadata()?);
    let read = || match len > MAX_DOCUMENT {
        true => Err(too_large(MAX_DOCUMENT)),
        false => annals_jsonl::read_span(file, 0, len),
    };
    let lines = match framing {
        Framing::Document(format) => (format.to_lines)(&read()?),
        Framing::Files(format) => {
            let bytes = &read()?;
            (format.to_lines)(&[FilePart { path, bytes }])
        }
        Framing::Lines | Framing::LinesOrDocument(_) | Framing::Rows(_) => return Ok(None),
    };
    Ok(Some(OpenLog::Derived(Arc::new(DerivedLines { id, lines }))))
}

/// Opens a log as it is, or derives the records of a document.
fn open_either(bytes: OpenLog, format: &LinesOrDocument) -> io::Result<OpenLog> {
    let mut beginning = Vec::new();
    RangeReader::between(&bytes, 0, BEGINNING).read_to_end(&mut beginning)?;
    match (format.is_log)(&beginning) {
        true => Ok(bytes),
        false => derive(bytes, format.document.to_lines, MAX_CHOSEN_DOCUMENT),
    }
}

/// Derives the records of a document of at most `limit` bytes.
fn derive(bytes: OpenLog, to_lines: impl Fn(&[u8]) -> Vec<u8>, limit: u64) -> io::Result<OpenLog> {
    let id = bytes.id()?;
    let mut document = Vec::new();
    let mut reader = RangeReader::between(bytes, 0, limit + 1);
    reader.read_to_end(&mut document)?;
    if document.len() as u64 > limit {
        return Err(too_large(limit));
    }
    let lines = to_lines(&document);
    Ok(OpenLog::Derived(Arc::new(DerivedLines { id, lines })))
}

fn too_large(limit: u64) -> io::Error {
    let limit = limit >> 20;
    io::Error::other(format!("it is larger than {limit} MB"))
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
