//! Versions of files saved before the agent changed them.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;

use crate::error::{Error, Result};
use annals_layouts::Subject;
use annals_layouts::model::{ArtifactKind, Body, Fact};

use super::inventory::RootFile;
use super::log_reader;
use super::session::Session;

/// A file with saved versions.
#[derive(Clone, Debug)]
pub struct SavedFile {
    /// Its absolute path; the stored name if no entry has the path.
    pub path: String,
    /// Its versions, oldest first.
    pub versions: Vec<SavedVersion>,
}

/// A saved version of a file.
#[derive(Clone, Debug)]
pub struct SavedVersion {
    /// Its number.
    pub version: u64,
    /// When it was saved.
    pub time: Option<Timestamp>,
    /// The message before which it was saved.
    pub message: Option<String>,
    /// The operation on the file, if the layout stores no copy.
    pub operation: Option<String>,
    /// The beginning of the change, if the layout stores it.
    pub snippet: Option<String>,
    /// Whether the file did not exist at that time.
    pub absent: bool,
    /// The stored copy; `None` if there was none or it no longer exists.
    pub stored: Option<RootFile>,
    /// Its length.
    pub bytes: Option<u64>,
}

impl SavedVersion {
    /// Returns its state: `stored`, `absent` (the file did not exist), `named` (only the operation is
    /// recorded) or `missing`.
    pub fn state(&self) -> &'static str {
        match self {
            SavedVersion {
                stored: Some(_), ..
            } => "stored",
            SavedVersion { absent: true, .. } => "absent",
            SavedVersion {
                operation: Some(_), ..
            } => "named",
            _ => "missing",
        }
    }

    /// Reads the content; empty for a file that did not exist yet.
    pub fn read(&self) -> Result<Vec<u8>> {
        match &self.stored {
            Some(file) => file.read(),
            None if self.absent => Ok(Vec::new()),
            None => Err(Error::NotFound {
                what: Subject::StoredCopy,
                id: format!("version {}", self.version),
            }),
        }
    }
}

impl Session {
    /// Returns the files of which this session saved versions.
    pub fn saved_files(&self) -> Result<Vec<SavedFile>> {
        let mut files: BTreeMap<String, BTreeMap<u64, SavedVersion>> = BTreeMap::new();
        let stored: BTreeMap<&str, &RootFile> = self
            .files
            .attachments
            .iter()
            .filter(|file| file.artifact.kind == ArtifactKind::FileVersion)
            .filter_map(|file| Some((file.artifact.name.as_deref()?, file)))
            .collect();
        let mut named = std::collections::HashSet::new();
        let cwd = self.directories().last().map(|path| (*path).to_owned());
        for (file, scan) in self.files.logs().zip(&self.logs) {
            let marked = scan.indexes(|outline| outline.facts.contains(&Fact::Files));
            log_reader::entries_at(&self.files.root, file, &scan.outlines, &marked, |entry| {
                let Body::Files(change) = entry.body else {
                    return Ok(true);
                };
                for backup in change.backups {
                    let path = absolute_path(&backup.path, backup.base.as_deref(), cwd.as_deref());
                    let copy = backup
                        .stored
                        .as_deref()
                        .and_then(|name| stored.get_key_value(name));
                    named.extend(copy.map(|(name, _)| *name));
                    let versions = files.entry(path).or_default();
                    // Records without copies have no version number.
                    let number = if backup.operation.is_some() {
                        versions.len() as u64 + 1
                    } else {
                        backup.version
                    };
                    let message = change.message.as_ref().map(ToString::to_string);
                    versions.entry(number).or_insert(SavedVersion {
                        version: number,
                        time: backup.time.or(entry.time),
                        message,
                        absent: backup.stored.is_none() && backup.operation.is_none(),
                        operation: backup.operation,
                        snippet: backup.snippet,
                        stored: copy.map(|(_, file)| RootFile::clone(file)),
                        bytes: copy.map(|(_, file)| file.id.len),
                    });
                }
                Ok(true)
            })?;
        }
        for (name, file) in stored.iter().filter(|(name, _)| !named.contains(*name)) {
            let (stem, number) = name.rsplit_once("@v").unwrap_or((name, ""));
            let number = number.parse().unwrap_or_default();
            files.entry(stem.to_owned()).or_default().insert(
                number,
                SavedVersion {
                    version: number,
                    time: None,
                    message: None,
                    operation: None,
                    snippet: None,
                    absent: false,
                    stored: Some(RootFile::clone(file)),
                    bytes: Some(file.id.len),
                },
            );
        }
        let saved = files.into_iter().map(|(path, versions)| SavedFile {
            path,
            versions: versions.into_values().collect(),
        });
        Ok(saved.collect())
    }
}

/// Makes a path absolute. Records have it relative to the session's directory, and name the file's
/// own directory.
fn absolute_path(path: &str, base: Option<&str>, cwd: Option<&str>) -> String {
    let relative = Path::new(path);
    if relative.is_absolute() {
        return path.to_owned();
    }
    let whole = match (base, relative.file_name(), cwd) {
        (Some(base), Some(name), _) => Path::new(base).join(name),
        (_, _, Some(cwd)) => Path::new(cwd).join(relative),
        _ => relative.to_owned(),
    };
    whole.to_string_lossy().into_owned()
}
