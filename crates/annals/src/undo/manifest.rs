//! The manifest of a change in the vault: `manifest.json`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use annals_jsonl as jsonl;
use annals_layouts::json::describe_json_error;

pub(super) const MANIFEST: &str = "manifest.json";

/// Version of the manifests that this program writes and reads.
const VERSION: u32 = 1;

/// What a change was, and everything that undoing it needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) version: u32,
    /// Name of the folder.
    #[serde(skip)]
    pub(crate) id: String,
    pub(crate) verb: UndoVerb,
    /// When it was changed.
    pub(crate) time: Timestamp,
    /// Its sessions: several if they share log files, none if unknown. A path with a final `/` is not
    /// a session but the rest of a folder or of a log.
    pub(crate) sessions: Vec<String>,
    pub(crate) layout: String,
    pub(crate) root: PathBuf,
    /// Whether it is a log outside of any root; `root` is then the directory of the log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lone: bool,
    pub(crate) files: Vec<UndoFile>,
    /// Rows of the logs in the session list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rows: Vec<UndoRow>,
    /// Configuration entries that were removed: of the workspace, of the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) config: Vec<UndoConfigEntry>,
    /// Directories of the files, parents first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) dirs: Vec<UndoDir>,
    /// Of a repair: what the file was and what replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) repair: Option<RepairRecord>,
}

/// The command that made a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UndoVerb {
    #[default]
    Delete,
    Clean,
    Repair,
}

/// A file in the vault.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UndoFile {
    /// Path, relative to the root.
    pub path: PathBuf,
    /// Length in bytes.
    pub bytes: u64,
    /// Whether the vault has a copy, and a changed file is in the root.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) copied: bool,
}

/// Row of a log in a session list.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UndoRow {
    /// Path of the log, relative to the root.
    pub path: PathBuf,
    /// Exact text of the row.
    pub(crate) text: String,
}

/// Configuration entry that was removed with the sessions of a workspace or an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct UndoConfigEntry {
    /// Workspace of the agent; `None` if the entry is a workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<String>,
    /// Exact text of the entry.
    pub(crate) text: String,
}

/// Directory of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct UndoDir {
    /// Path, relative to the root.
    pub(crate) path: PathBuf,
    /// Permission bits.
    pub(crate) mode: u32,
}

/// A repair of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RepairRecord {
    /// State of the file before the repair.
    pub(crate) original: FileState,
    /// State of the file after the repair.
    pub(crate) result: FileState,
    /// Changes to each line.
    pub(crate) steps: Vec<RepairStep>,
}

/// State of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileState {
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub(crate) sha256: String,
    /// Its mode.
    pub mode: u32,
    /// Modification time, in nanoseconds since 1970.
    pub mtime_ns: i64,
}

impl FileState {
    /// Returns the state of a file with the mode and time of `metadata`.
    pub(crate) fn new(bytes: u64, sha256: String, metadata: &fs::Metadata) -> Self {
        let seconds = metadata.mtime().saturating_mul(1_000_000_000);
        FileState {
            bytes,
            sha256,
            mode: metadata.mode() & 0o7777,
            mtime_ns: seconds.saturating_add(metadata.mtime_nsec()),
        }
    }
}

/// A change to a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RepairStep {
    /// The line of the original, from 1.
    pub(crate) line: u64,
    /// Byte offset of the line in the original.
    pub(crate) offset: u64,
    /// The change.
    pub(crate) action: String,
    /// Reason and details, for people.
    pub(crate) detail: String,
}

impl Manifest {
    /// Returns a manifest without files.
    pub(crate) fn new(
        id: String,
        verb: UndoVerb,
        time: Timestamp,
        layout: &str,
        root: &Path,
    ) -> Self {
        Manifest {
            version: VERSION,
            id,
            verb,
            time,
            layout: layout.to_owned(),
            root: root.to_owned(),
            ..Manifest::default()
        }
    }

    /// Returns the repaired file and its repair.
    pub(crate) fn repaired(&self) -> Option<(&UndoFile, &RepairRecord)> {
        self.files.first().zip(self.repair.as_ref())
    }

    /// Returns whether both are the same repair: of the same file in the same state.
    pub(super) fn is_same_repair(&self, other: &Manifest) -> bool {
        let (Some((file, record)), Some((its, its_record))) = (self.repaired(), other.repaired())
        else {
            return false;
        };
        self.root == other.root
            && file.path == its.path
            && record.original.sha256 == its_record.original.sha256
    }

    /// Writes the manifest of a folder. The caller must hold the folder's lock.
    pub(crate) fn write_locked(&self, folder: &Path) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(self);
        let bytes = bytes.map_err(|error| Error::refused(error.to_string()))?;
        Ok(jsonl::replace_locked(&folder.join(MANIFEST), &bytes)?)
    }

    /// Removes the manifest of a folder: the change is undone. The caller must hold the folder's lock.
    pub(crate) fn remove(folder: &Path) -> Result<()> {
        fs::remove_file(folder.join(MANIFEST)).map_err(|error| Error::io("remove", folder, error))
    }

    /// Reads the manifest of a folder; `None` if it has none.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Version {
            version: Option<u32>,
        }
        let path = folder.join(MANIFEST);
        let refused = |why: String| Error::refused(format!("{} {why}", path.display()));
        match jsonl::metadata_if_exists(&path)? {
            None => return Ok(None),
            Some(metadata) if !metadata.is_file() => {
                return Err(refused("is not a file".to_owned()));
            }
            Some(_) => {}
        }
        let bytes = jsonl::read_document(&path).map_err(|error| Error::io("read", &path, error))?;
        let damaged = |error: serde_json::Error| {
            refused(format!("cannot be read: {}", describe_json_error(&error)))
        };
        // Another version may have entirely different members.
        let Version { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if version != Some(VERSION) {
            let version = version.map_or("no version".to_owned(), |it| format!("version {it}"));
            return Err(refused(format!(
                "has {version}, but this annals reads version {VERSION}; use the annals that wrote it"
            )));
        }
        let mut manifest: Manifest = serde_json::from_slice(&bytes).map_err(damaged)?;
        let is_repair = manifest.repair.is_some() && manifest.files.len() == 1;
        if (manifest.verb == UndoVerb::Repair) != is_repair {
            return Err(refused("describes no change that annals makes".to_owned()));
        }
        // The name of the folder cannot lead out of the vault.
        let name = folder.file_name().and_then(|name| name.to_str());
        name.unwrap_or_default().clone_into(&mut manifest.id);
        Ok(Some(manifest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_folder_is_an_error_not_a_missing_manifest() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Manifest::read(dir.path()).unwrap().is_none());
        let name = "x".repeat(300);
        assert!(Manifest::read(&dir.path().join(name)).is_err());
    }
}
