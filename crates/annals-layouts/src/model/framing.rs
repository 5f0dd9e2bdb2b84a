//! How a file stores its records: as lines, in one document, or as rows of a database.
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

/// How a file stores its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Framing {
    /// One record per line, or one record that is the whole file.
    #[default]
    Lines,
    /// Records in a document that its program may write again as a whole.
    Document(&'static DocumentFormat),
    /// Rows of an SQLite database.
    Rows(&'static RowFormat),
}

/// Derives the records of a document.
#[derive(Debug)]
pub struct DocumentFormat {
    /// Name of the format, unique among all formats.
    pub name: &'static str,
    /// Returns the records of a document, one per line. Total: damaged content gives lines that the
    /// decoder reports.
    pub to_lines: fn(&[u8]) -> Vec<u8>,
}

/// Queries that derive records from a database.
#[derive(Debug)]
pub struct RowFormat {
    /// Name of the format, unique among all formats.
    pub name: &'static str,
    /// Tables that the queries read. Each must be an ordinary table.
    pub tables: &'static [&'static str],
    /// Returns the records in order: the index of a query in `records`, and its argument.
    pub keys: &'static str,
    /// Queries of one record as a JSON text without line breaks. `?1` is the argument.
    pub records: &'static [&'static str],
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
equal_by_name!(RowFormat);
