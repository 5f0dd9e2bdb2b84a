//! The quarantine: the originals of mended files, and everything that was taken out of them.
//!
//! One folder of the state directory for each repair:
//!
//! ```text
//! quarantine/<id>/original        the file as it was, byte for byte
//! quarantine/<id>/removed.jsonl   every stretch that was taken out, one per line
//! quarantine/<id>/manifest.json   what was done; written last, so a folder without one never counted
//! ```
//!
//! The id depends on the path and on the original alone, so a repair that was cut off and is run
//! again finds its own folder and goes on. See docs/STATE.md for the members.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::jsonl;
use crate::store::Store;

use super::apply::was_not_applied;
use super::plan::RemovedBytes;

/// The version of the quarantine that we write and read.
pub const VERSION: u64 = 1;

/// No repair of one file takes so long.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const ORIGINAL: &str = "original";
pub(super) const REMOVED: &str = "removed.jsonl";

/// A repair whose original is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QuarantinedFile {
    /// The version of the manifest.
    pub version: u64,
    /// Its name in the quarantine.
    pub id: String,
    /// The layout's name.
    pub layout: String,
    /// The root that the file lies in.
    pub root: PathBuf,
    /// The file's path within the root.
    pub path: PathBuf,
    /// It lies outside of any tree, and `root` is the directory that it is in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lone: bool,
    /// The session it belongs to, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// When it was mended.
    pub repaired: Timestamp,
    /// What the file was.
    pub original: FileState,
    /// What it was made into.
    pub result: FileState,
    /// What was done to each line.
    pub steps: Vec<QuarantinedStep>,
}

/// What a file was, or became.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileState {
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Its mode.
    pub mode: u32,
    /// When it was last written to, in nanoseconds since 1970.
    pub mtime_ns: i64,
}

/// What was done to a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QuarantinedStep {
    /// The line of the original, from 1.
    pub line: u64,
    /// Where in the original it begins.
    pub offset: u64,
    /// What was done.
    pub action: String,
    /// Why and how, for people.
    pub detail: String,
}

impl QuarantinedFile {
    /// The file that was mended.
    pub fn file_path(&self) -> PathBuf {
        self.root.join(&self.path)
    }

    /// Where its original is, in that quarantine.
    pub fn original_path(&self, quarantine: &Path) -> PathBuf {
        quarantine.join(&self.id).join(ORIGINAL)
    }
}

/// What tells of which version a manifest is.
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
    /// So many NULs, instead of spelling them.
    #[serde(skip_serializing_if = "Option::is_none")]
    nuls: Option<usize>,
}

/// The text of `removed.jsonl`.
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

impl Store {
    /// Where the originals of mended files are kept.
    pub fn quarantine(&self) -> Result<PathBuf> {
        match self.state_dir() {
            Some(state) => Ok(state.join("quarantine")),
            None => Err(Error::refused(
                "there is no state directory to keep the originals of repaired files in",
            )),
        }
    }

    /// The repairs whose originals are kept, the newest first. What cannot be read is told beside.
    /// Those that were cut off before they changed anything are none.
    pub fn repairs(&self) -> Result<(Vec<QuarantinedFile>, Vec<Error>)> {
        let dir = self.quarantine()?;
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
            Err(error) => return Err(Error::io("read", &dir, error)),
        };
        let (mut found, mut troubles) = (Vec::new(), Vec::new());
        for entry in entries {
            let entry = entry.map_err(|error| Error::io("read", &dir, error))?;
            let made = self.failures().metadata(&entry.path());
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
        // Of two at one time by the clock, the folder that was made later is the newer one.
        found.sort_by(|(a_made, a), (b_made, b)| {
            (b.repaired, b_made, &a.path).cmp(&(a.repaired, a_made, &b.path))
        });
        Ok((found.into_iter().map(|(_, kept)| kept).collect(), troubles))
    }

    /// The repairs that a person means: by a beginning of the repair's id, of its session's, or by the
    /// file's path. Several only if they are of one session.
    pub fn find_repairs(&self, wanted: &str) -> Result<Vec<QuarantinedFile>> {
        let (all, troubles) = self.repairs()?;
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
                what: "repair",
                id: wanted.to_owned(),
            }),
            (false, _) if !one => Err(Error::Ambiguous {
                what: "repair",
                id: wanted.to_owned(),
                candidates: found.into_iter().map(|kept| kept.id).collect(),
            }),
            (false, _) => Ok(found),
        }
    }

    /// Removes the original of a repair and what was taken out of it, for good.
    pub fn delete_repair(&self, kept: &QuarantinedFile) -> Result<()> {
        self.remove_repair_folder(&kept.id)
    }

    /// Takes a folder away: it loses its name first, so that one that is half gone does not count.
    pub(super) fn remove_repair_folder(&self, id: &str) -> Result<()> {
        let dir = self.quarantine()?;
        if !is_valid_id(id) {
            return Err(Error::refused(format!("`{id}` is no name of a repair")));
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

    /// Takes away what cut-off runs left: folders that are half gone, and those of repairs that never
    /// changed anything, once they are so old that nobody is at work on them.
    pub fn sweep_quarantine(&self) -> Result<()> {
        let dir = self.quarantine()?;
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            if name.to_string_lossy().ends_with(".gone") {
                remove_folder(&path)?;
            } else if let Some(id) = name.to_str().filter(|_| is_abandoned(&path)) {
                self.remove_repair_folder(id)?;
            }
        }
        Ok(())
    }
}

/// Whether a folder is of a repair that was cut off before it changed anything, long ago, and holds
/// nothing but what a repair puts there.
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

/// Removes one folder of ours; links in it are removed, not followed.
fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", folder, error))
        }
        _ => Ok(()),
    }
}

/// A folder's name leads nowhere else.
pub(super) fn is_valid_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !id.is_empty() && !id.starts_with('.') && id.bytes().all(plain)
}

/// Reads the manifest of a folder; `None` where a repair was cut off before it changed anything.
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
        Error::refused(format!("{} cannot be read: {error}", path.display()))
    };
    let versioned: ManifestVersion = serde_json::from_slice(&text).map_err(damaged)?;
    match versioned.version {
        Some(VERSION) => {}
        Some(version) => {
            return Err(Error::refused(format!(
                "{} is of version {version}; this annals reads version {VERSION}: use the one that wrote it",
                path.display()
            )));
        }
        None => {
            return Err(Error::refused(format!(
                "{} does not say of which version it is; this annals reads version {VERSION}",
                path.display()
            )));
        }
    }
    let mut kept: QuarantinedFile = serde_json::from_slice(&text).map_err(damaged)?;
    // The folder's name is what counts: it cannot lead out of the quarantine.
    id.clone_into(&mut kept.id);
    Ok(Some(kept))
}

/// Puts a document of ours in its place, whatever stood there.
pub(super) fn write_document(path: &Path, bytes: &[u8]) -> Result<()> {
    jsonl::replace(path, bytes, None)
}
