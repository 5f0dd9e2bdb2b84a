//! The quarantine: originals of repaired files, and everything that was removed from them.
//!
//! Each repair has a folder in the state directory:
//!
//! ```text
//! quarantine/<id>/original        the file as it was, byte for byte
//! quarantine/<id>/removed.jsonl   every stretch that was taken out, one per line
//! quarantine/<id>/manifest.json   what was done; written last, so a folder without one never counted
//! ```
//!
//! The id depends only on the path and the original, so a repair that was interrupted and is run
//! again finds its own folder and continues. docs/STATE.md specifies the members.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use annals_jsonl as jsonl;
use annals_layouts::Subject;
use annals_layouts::json::describe_json_error;

use super::Repairs;
use super::apply::was_not_applied;
use super::plan::RemovedBytes;

/// Version of the quarantine that this program writes and reads.
pub const VERSION: u64 = 1;

/// Age after which an incomplete repair is abandoned; no repair of one file takes this long.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const ORIGINAL: &str = "original";
pub(super) const REMOVED: &str = "removed.jsonl";

/// A repair whose original is in the quarantine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QuarantinedFile {
    /// The version of the manifest.
    pub(crate) version: u64,
    /// Name of its folder in the quarantine.
    pub id: String,
    /// The layout's name.
    pub(crate) layout: String,
    /// The root of the file.
    pub(crate) root: PathBuf,
    /// The file's path within the root.
    pub(crate) path: PathBuf,
    /// The file is outside any tree, and `root` is its directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lone: bool,
    /// Its session, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// When it was repaired.
    pub repaired: Timestamp,
    /// State of the file before the repair.
    pub original: FileState,
    /// State of the file after the repair.
    pub result: FileState,
    /// Changes to each line.
    pub steps: Vec<QuarantinedStep>,
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

/// A change to a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QuarantinedStep {
    /// The line of the original, from 1.
    pub(crate) line: u64,
    /// Byte offset of the line in the original.
    pub(crate) offset: u64,
    /// The change.
    pub(crate) action: String,
    /// Reason and details, for people.
    pub(crate) detail: String,
}

impl QuarantinedFile {
    /// Returns the path of the repaired file.
    pub fn file_path(&self) -> PathBuf {
        self.root.join(&self.path)
    }

    /// Returns the path of the original in the quarantine.
    pub fn original_path(&self, quarantine: &Path) -> PathBuf {
        quarantine.join(&self.id).join(ORIGINAL)
    }
}

/// The version of a manifest.
#[derive(Deserialize)]
struct ManifestVersion {
    version: Option<u64>,
}

/// One line of `removed.jsonl`.
#[derive(Serialize)]
struct RemovedLine<'a> {
    line: u64,
    offset: u64,
    len: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Number of NUL bytes, if there is nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    nuls: Option<usize>,
}

/// Encodes `removed.jsonl`.
pub(super) fn encode_removed(all: &[RemovedBytes]) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    for removed in all {
        let bytes = removed.bytes.as_slice();
        let nuls = bytes.iter().all(|byte| *byte == 0).then_some(bytes.len());
        let plain = str::from_utf8(bytes).ok().filter(|_| nuls.is_none());
        let coded = || base64::engine::general_purpose::STANDARD.encode(bytes);
        let line = RemovedLine {
            line: removed.line,
            offset: removed.offset,
            len: bytes.len(),
            text: plain,
            base64: (plain.is_none() && nuls.is_none()).then(coded),
            nuls,
        };
        let line = serde_json::to_vec(&line);
        text.extend(line.map_err(|error| Error::refused(error.to_string()))?);
        text.push(b'\n');
    }
    Ok(text)
}

impl Repairs<'_> {
    /// Returns the directory of the quarantine.
    pub fn quarantine(&self) -> Result<PathBuf> {
        match self.store.state_dir() {
            Some(state) => Ok(state.join("quarantine")),
            None => Err(Error::refused(
                "no state directory to store the originals of repaired files in",
            )),
        }
    }

    /// Returns the repairs in the quarantine, newest first, and errors of those that cannot be
    /// read. Omits repairs that were interrupted before they changed anything.
    pub fn list(&self) -> Result<(Vec<QuarantinedFile>, Vec<Error>)> {
        let dir = self.quarantine()?;
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
            Err(error) => return Err(Error::io("read", &dir, error)),
        };
        let (mut found, mut troubles) = (Vec::new(), Vec::new());
        for entry in entries {
            let entry = entry.map_err(|error| Error::io("read", &dir, error))?;
            let made = self.store.failures().metadata(&entry.path());
            let made = made.and_then(|made| made.modified().ok());
            match read_manifest(&entry.path()) {
                Ok(Some(kept)) => match was_not_applied(&kept) {
                    Ok(true) => {}
                    Ok(false) => found.push((made, kept)),
                    Err(error) => {
                        troubles.push(error);
                        found.push((made, kept));
                    }
                },
                Ok(None) => {}
                Err(error) => troubles.push(error),
            }
        }
        // Of two repairs at the same time, the one with the newer folder is newer.
        found.sort_by(|(a_made, a), (b_made, b)| {
            (b.repaired, b_made, &a.path).cmp(&(a.repaired, a_made, &b.path))
        });
        Ok((found.into_iter().map(|(_, kept)| kept).collect(), troubles))
    }

    /// Finds repairs by a prefix of the repair's id or the session's id, or by the file's path.
    /// Returns several only if they are of one session.
    pub fn find(&self, wanted: &str) -> Result<Vec<QuarantinedFile>> {
        let (all, troubles) = self.list()?;
        let path = std::path::absolute(wanted).ok();
        let exact = |kept: &QuarantinedFile| {
            kept.id == wanted
                || kept.session.as_deref() == Some(wanted)
                || path.as_deref() == Some(&kept.file_path())
        };
        let begins = |kept: &QuarantinedFile| {
            let session = kept.session.as_deref().unwrap_or_default();
            kept.id.starts_with(wanted) || session.starts_with(wanted)
        };
        let mut found: Vec<QuarantinedFile> =
            all.iter().filter(|kept| exact(kept)).cloned().collect();
        if found.is_empty() && !wanted.is_empty() {
            found = all.into_iter().filter(begins).collect();
        }
        let of =
            |kept: &QuarantinedFile| (kept.layout.clone(), kept.root.clone(), kept.session.clone());
        let one = found.windows(2).all(|two| match two {
            [a, b] => of(a) == of(b) && a.session.is_some(),
            _ => true,
        });
        match (found.is_empty(), troubles.into_iter().next()) {
            (true, Some(trouble)) => Err(trouble),
            (true, None) => Err(Error::NotFound {
                what: Subject::Repair,
                id: wanted.to_owned(),
            }),
            (false, _) if !one => Err(Error::Ambiguous {
                what: Subject::Repair,
                id: wanted.to_owned(),
                candidates: found.into_iter().map(|kept| kept.id).collect(),
            }),
            (false, _) => Ok(found),
        }
    }

    /// Permanently removes the original of a repair and the removed bytes.
    pub fn delete(&self, kept: &QuarantinedFile) -> Result<()> {
        self.remove_folder(&kept.id)
    }

    /// Removes a folder. Renames it first, so that a partly removed folder does not count.
    pub(super) fn remove_folder(&self, id: &str) -> Result<()> {
        let dir = self.quarantine()?;
        if !is_valid_id(id) {
            return Err(Error::refused(format!("`{id}` is not a valid repair id")));
        }
        let (folder, gone) = (dir.join(id), dir.join(format!(".{id}.gone")));
        remove_folder(&gone)?;
        match fs::rename(&folder, &gone) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io("remove", &folder, error)),
        }
        let synced = fs::File::open(&dir).and_then(|dir| dir.sync_all());
        synced.map_err(|error| Error::io("sync", &dir, error))?;
        remove_folder(&gone)
    }

    /// Removes what interrupted runs left: partly removed folders, and folders of repairs that
    /// never changed anything, once they are old enough to be abandoned.
    pub fn sweep(&self) -> Result<()> {
        let dir = self.quarantine()?;
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            if name.to_string_lossy().ends_with(".gone") {
                remove_folder(&path)?;
            } else if let Some(id) = name.to_str().filter(|_| is_abandoned(&path)) {
                self.remove_folder(id)?;
            }
        }
        Ok(())
    }
}

/// Returns whether a folder is of a repair that was interrupted long ago before it changed
/// anything, and contains only files of a repair.
fn is_abandoned(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    let metadata = folder.symlink_metadata();
    let settled = metadata.is_ok_and(|it| {
        let age = it.modified().ok().and_then(|time| time.elapsed().ok());
        it.is_dir() && age.is_some_and(|age| age > ABANDONED_AFTER)
    });
    let ours = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        [MANIFEST, ORIGINAL, REMOVED].contains(&&*name) || name.starts_with(".annals-")
    };
    name.is_some_and(is_valid_id)
        && settled
        && fs::read_dir(folder).is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(ours)))
        && match read_manifest(folder) {
            Ok(Some(kept)) => was_not_applied(&kept).unwrap_or(false),
            Ok(None) => true,
            Err(_) => false,
        }
}

/// Removes a folder. Symbolic links in it are removed, not followed.
fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", folder, error))
        }
        _ => Ok(()),
    }
}

/// Returns whether `id` is a plain name that cannot lead out of the quarantine.
pub(super) fn is_valid_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !id.is_empty() && !id.starts_with('.') && id.bytes().all(plain)
}

/// Reads the manifest of a folder; `None` if the repair was interrupted before it changed anything.
pub(super) fn read_manifest(folder: &Path) -> Result<Option<QuarantinedFile>> {
    let path = folder.join(MANIFEST);
    let id = folder.file_name().and_then(|name| name.to_str());
    let Some(id) = id.filter(|id| is_valid_id(id)) else {
        return Ok(None);
    };
    let text = match jsonl::read_document(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(Error::io("read", &path, error)),
    };
    let damaged = |error: serde_json::Error| {
        let fault = describe_json_error(&error);
        Error::refused(format!("{} cannot be read: {fault}", path.display()))
    };
    let versioned: ManifestVersion = serde_json::from_slice(&text).map_err(damaged)?;
    match versioned.version {
        Some(VERSION) => {}
        Some(version) => {
            return Err(Error::refused(format!(
                "{} has version {version}, but this annals reads version {VERSION}; use the annals that wrote it",
                path.display()
            )));
        }
        None => {
            return Err(Error::refused(format!(
                "{} has no version; this annals reads version {VERSION}",
                path.display()
            )));
        }
    }
    let mut kept: QuarantinedFile = serde_json::from_slice(&text).map_err(damaged)?;
    // The folder's name takes precedence: it cannot lead out of the quarantine.
    id.clone_into(&mut kept.id);
    Ok(Some(kept))
}

/// Writes a file in the quarantine, replacing any existing one.
pub(super) fn write_document(path: &Path, bytes: &[u8]) -> Result<()> {
    Ok(jsonl::replace(path, bytes, None)?)
}
