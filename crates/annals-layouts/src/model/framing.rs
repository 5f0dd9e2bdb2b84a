//! How a file stores its records: as lines, in one document, as rows of a database, or in several
//! files.
//!
//! Everything that reads records reads lines at byte offsets. So a file that is not a log of lines
//! is presented as one: its layout describes how to derive lines from the content, and the store
//! reads the derived lines in place of the file. The descriptions are pure: a function from bytes to
//! bytes, and the text of SQL queries.
//!
//! Derived lines are deterministic, but not stable: a document that is written again, or a row that
//! is updated, may change any of them. Readers therefore continue from an offset only if the file is
//! unchanged.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use super::{Artifact, ArtifactKind};

/// How a file stores its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Framing {
    /// One record per line, or one record that is the whole file.
    #[default]
    Lines,
    /// Records in a document that its program may write again as a whole.
    Document(&'static DocumentFormat),
    /// One record per line, or a document with the same records.
    LinesOrDocument(&'static LinesOrDocument),
    /// Rows of an SQLite database. Each session in it is presented as a file of its own, whose path
    /// begins with that of the database.
    Rows(&'static RowFormat),
    /// Records in several files: the file itself, and others that its path determines.
    Files(&'static FileSetFormat),
}

impl Framing {
    /// Whether records are derived from lines, one from each, so that the file can be appended to.
    pub fn keeps_lines(self) -> bool {
        match self {
            Framing::Document(format) => format.keeps_lines,
            Framing::Files(format) => format.keeps_lines,
            Framing::Lines | Framing::LinesOrDocument(_) | Framing::Rows(_) => false,
        }
    }
}

/// Derives the records of a document.
#[derive(Debug)]
pub struct DocumentFormat {
    /// Name of the format, unique among all formats.
    pub name: &'static str,
    /// Returns the records of a document, one per line. Total: damaged content gives lines that the
    /// decoder reports.
    pub to_lines: fn(&[u8]) -> Vec<u8>,
    /// Whether each line of the document gives one record, so that it can be appended to.
    pub keeps_lines: bool,
    /// Returns the session that a document with this first line continues by reference, if the
    /// format has such references.
    pub base_session: Option<fn(&str) -> Option<String>>,
}

/// A log of lines, or a document from which the same lines are derived.
#[derive(Debug)]
pub struct LinesOrDocument {
    /// Name of the format, unique among all formats.
    pub name: &'static str,
    /// Returns whether a file with this beginning is a log.
    pub is_log: fn(&[u8]) -> bool,
    /// Derives the records of a document.
    pub document: DocumentFormat,
}

/// Derives the records of a session that its program stores in several files.
#[derive(Debug)]
pub struct FileSetFormat {
    /// Name of the format, unique among all formats.
    pub name: &'static str,
    /// Whether the main file alone holds the messages, so that a copy of it is a copy of the session.
    pub is_whole: bool,
    /// Whether each line of the main file gives one record, and the other files give none, so that it
    /// can be appended to. Other files may only add entries to the records of lines.
    pub keeps_lines: bool,
    /// Returns the paths that a file of the set leads to: files, or directories whose files belong to
    /// the set. Called with the main file, and with each file found.
    pub parts: fn(&Path) -> Vec<PathBuf>,
    /// Returns the records, one per line. The main file comes first, the others in the order of the
    /// paths that led to them and of their names. Total: damaged content gives lines that the decoder
    /// reports.
    pub to_lines: fn(&[FilePart<'_>]) -> Vec<u8>,
}

/// A file of a [`FileSetFormat`].
#[derive(Clone, Copy, Debug)]
pub struct FilePart<'a> {
    /// Its path, or the one that it had before it was archived.
    pub path: &'a Path,
    /// Its content.
    pub bytes: &'a [u8],
}

/// Queries that derive records from a database.
#[derive(Debug)]
pub struct RowFormat {
    /// Name of the format, unique among all formats.
    pub name: &'static str,
    /// File name of the database.
    pub file: &'static str,
    /// Tables that the queries read. Each must be an ordinary table.
    pub tables: &'static [&'static str],
    /// A table that newer versions of the program have, which [`counter`](Self::counter) reads.
    pub counter_table: &'static str,
    /// Returns a number that the program changes with each change of the session `?1`.
    pub counter: &'static str,
    /// Returns the keys of all sessions.
    pub sessions: &'static str,
    /// Returns the state of the session with the key `?1`: its name in the records, a number of
    /// records, the time of its last change in milliseconds, and any other columns that a change of
    /// it changes. No row if there is no such session. Must be fast for every session.
    pub state: &'static str,
    /// Returns the artifact of the session with a name.
    pub artifact: fn(&str) -> Artifact,
    /// Returns the records of the session `?1` in order: the index of a query in `records`, and its
    /// argument.
    pub keys: &'static str,
    /// Queries of one record as a JSON text without line breaks. `?1` is the argument.
    pub records: &'static [&'static str],
    /// Records of a table that only some versions of the program have.
    pub optional: Option<&'static OptionalRows>,
    /// The schema that is written; `None` if the database is only read.
    pub schema: Option<&'static RowSchema>,
}

impl RowFormat {
    /// A database of which only the names of sessions are read.
    pub const fn list_of_sessions(
        name: &'static str,
        file: &'static str,
        tables: &'static [&'static str],
        sessions: &'static str,
    ) -> Self {
        RowFormat {
            name,
            file,
            tables,
            counter_table: "",
            counter: "",
            sessions,
            state: "",
            artifact: |_| Artifact::new(ArtifactKind::SessionLog),
            keys: "",
            records: &[],
            optional: None,
            schema: None,
        }
    }
}

/// Records of a table that a database may lack.
#[derive(Debug)]
pub struct OptionalRows {
    /// The table.
    pub table: &'static str,
    /// Returns columns that change with the rows of the session `?1`.
    pub state: &'static str,
    /// Returns the records of the session `?1`, like [`RowFormat::keys`]. They come after its first
    /// record.
    pub keys: &'static str,
}

/// The schema of a database that is written. Any other schema is refused.
#[derive(Debug)]
pub struct RowSchema {
    /// Tables that statements write or read, with the columns that they know.
    pub tables: &'static [(&'static str, &'static [&'static str])],
    /// Returns the newest migration of the database.
    pub newest_migration: &'static str,
    /// The newest migration that is known; migrations are ordered by their names.
    pub known_migration: &'static str,
}

/// A statement that must change one row, or some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowEdit {
    /// The statement.
    pub sql: &'static str,
    /// Its arguments.
    pub values: Vec<SqlValue>,
    /// Why nothing is written if the statement does not change one row; `None` if it may change any
    /// number of rows.
    pub refusal: Option<&'static str>,
}

/// An argument of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlValue {
    /// A text.
    Text(String),
    /// A number.
    Integer(i64),
    /// Nothing.
    Null,
}

macro_rules! equal_by_name {
    ($type:ident) => {
        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.name == other.name
            }
        }
        impl Eq for $type {}
        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.name.hash(state);
            }
        }
    };
}

equal_by_name!(DocumentFormat);
equal_by_name!(LinesOrDocument);
equal_by_name!(RowFormat);
equal_by_name!(FileSetFormat);
