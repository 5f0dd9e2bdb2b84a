//! Saved versions of files as JSON.

use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;

use crate::store::{SavedFile, SavedVersion};

/// A file with saved versions as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SavedFileJson<'a> {
    path: &'a str,
    versions: Vec<SavedVersionJson<'a>>,
}

impl<'a> SavedFileJson<'a> {
    /// Converts versions of the file at `path`.
    pub fn new(path: &'a str, versions: impl IntoIterator<Item = &'a SavedVersion>) -> Self {
        let versions = versions.into_iter().map(SavedVersionJson::new).collect();
        SavedFileJson { path, versions }
    }
}

/// A saved version as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct SavedVersionJson<'a> {
    version: u64,
    time: Option<Timestamp>,
    message: Option<&'a str>,
    state: &'static str,
    operation: Option<&'a str>,
    snippet: Option<&'a str>,
    stored: Option<&'a Path>,
    bytes: Option<u64>,
}

impl<'a> SavedVersionJson<'a> {
    /// Converts a version.
    pub(crate) fn new(version: &'a SavedVersion) -> Self {
        SavedVersionJson {
            version: version.version,
            time: version.time,
            message: version.message.as_deref(),
            state: version.state(),
            operation: version.operation.as_deref(),
            snippet: version.snippet.as_deref(),
            stored: version.stored.as_ref().map(|file| file.path.as_path()),
            bytes: version.bytes,
        }
    }
}

/// A saved version with the path of its file, as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileVersionJson<'a> {
    path: &'a str,
    version: u64,
    time: Option<Timestamp>,
    entry: Option<&'a str>,
    bytes: Option<u64>,
}

impl<'a> FileVersionJson<'a> {
    /// Converts all versions of files, in order.
    pub fn list(files: &'a [SavedFile]) -> Vec<Self> {
        let rows = files.iter().flat_map(|file| {
            file.versions.iter().map(|version| FileVersionJson {
                path: &file.path,
                version: version.version,
                time: version.time,
                entry: version.message.as_deref(),
                bytes: version.bytes,
            })
        });
        rows.collect()
    }
}
