//! Originals of repaired files in the undo vault, and everything that was removed from the files.
//!
//! The id of a repair depends only on the path and the original, so a repair that was interrupted
//! and is run again finds its own folder and continues. The copy of the original and `removed.jsonl`
//! are written before the repaired file: a folder with neither belongs to a repair that changed
//! nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use jiff::Timestamp;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::undo::{FileState, Manifest, RepairStep, Vault};
use annals_jsonl as jsonl;
use annals_jsonl::Error as FileError;
use annals_layouts::Subject;

use super::Repairs;
use super::apply::is_original;
use super::plan::RemovedBytes;

/// Age after which an incomplete repair is abandoned; no repair of one file takes this long.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

const REMOVED: &str = "removed.jsonl";

/// A repair whose original is in the vault.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct QuarantinedFile {
    /// The version of the manifest.
    pub(crate) version: u32,
    /// Name of its folder in the vault.
    pub id: String,
    /// The layout's name.
    pub(crate) layout: String,
    /// The root of the file.
    pub(crate) root: PathBuf,
    /// The file's path within the root.
    pub(crate) path: PathBuf,
    /// The file is outside any tree, and `root` is its directory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lone: bool,
    /// Its session, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// When it was repaired.
    pub repaired: Timestamp,
    /// State of the file before the repair.
    pub original: FileState,
    /// State of the file after the repair.
    pub result: FileState,
    /// Changes to each line.
    pub steps: Vec<RepairStep>,
}

impl QuarantinedFile {
    /// Returns the repair that a manifest describes; `None` if it describes another change.
    pub(super) fn from_manifest(manifest: Manifest) -> Option<Self> {
        let record = manifest.repair?;
        Some(QuarantinedFile {
            version: manifest.version,
            id: manifest.id,
            layout: manifest.layout,
            root: manifest.root,
            path: manifest.files.into_iter().next()?.path,
            lone: manifest.lone,
            session: manifest.sessions.into_iter().next(),
            repaired: manifest.time,
            original: record.original,
            result: record.result,
            steps: record.steps,
        })
    }

    /// Returns the path of the repaired file.
    pub fn file_path(&self) -> PathBuf {
        self.root.join(&self.path)
    }

    /// Returns the path of the original in the vault.
    pub fn original_path(&self, vault: &Path) -> PathBuf {
        saved_path(&vault.join(&self.id), &self.path)
    }

    /// Returns whether the repair was interrupted before it changed anything, or was undone by other
    /// means.
    fn was_not_applied(&self, folder: &Path) -> Result<bool> {
        let begun = jsonl::exists(&folder.join(REMOVED))?
            || jsonl::exists(&saved_path(folder, &self.path))?;
        Ok(!begun || is_original(self)?)
    }
}

/// Returns the path of an original in the folder of its repair.
pub(super) fn saved_path(folder: &Path, within: &Path) -> PathBuf {
    folder.join("files").join(within)
}

/// Saves the bytes that a repair takes out: from here on, the repair may change the file. The caller
/// must hold the folder's lock.
pub(super) fn save_removed(folder: &Path, removed: &[RemovedBytes]) -> Result<()> {
    let path = folder.join(REMOVED);
    Ok(jsonl::replace_locked(&path, &encode_removed(removed)?)?)
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
fn encode_removed(all: &[RemovedBytes]) -> Result<Vec<u8>> {
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
    pub(super) fn vault(&self) -> Result<Vault> {
        Vault::open(self.store.state_dir())
    }

    /// Returns the directory of the vault.
    pub fn quarantine(&self) -> Result<PathBuf> {
        Ok(self.vault()?.dir().to_owned())
    }

    /// Returns the repairs in the vault, newest first, and errors of those that cannot be read.
    /// Omits repairs that were interrupted before they changed anything.
    pub fn list(&self) -> Result<(Vec<QuarantinedFile>, Vec<Error>)> {
        let (mut found, mut troubles) = (Vec::new(), Vec::new());
        for (folder, manifest) in self.vault()?.manifests()? {
            let kept = match manifest {
                Ok(manifest) => manifest.and_then(QuarantinedFile::from_manifest),
                Err(error) => {
                    troubles.push(error);
                    None
                }
            };
            let Some(kept) = kept else { continue };
            match kept.was_not_applied(&folder) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => troubles.push(error),
            }
            let made = self.store.failures().metadata(&folder);
            found.push((made.and_then(|made| made.modified().ok()), kept));
        }
        // Of two repairs at the same time, the one with the newer folder is newer.
        crate::sort::by(&mut found, |(a_made, a), (b_made, b)| {
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
        self.remove_if(&kept.id, |_, _| Ok(()))
    }

    /// Removes the folder of a repair, if it exists and `check` succeeds.
    fn remove_if(
        &self,
        id: &str,
        check: impl FnOnce(&Path, &QuarantinedFile) -> Result<()>,
    ) -> Result<()> {
        let vault = self.vault()?;
        let place = vault.folder(id)?;
        let removed = vault.remove(id, |folder, manifest| match QuarantinedFile::from_manifest(
            manifest.clone(),
        ) {
            Some(kept) => check(folder, &kept),
            None => Err(Error::refused(format!("`{id}` is not a repair"))),
        });
        match removed {
            Err(Error::File(FileError::Changed { path })) if path == place => Ok(()),
            removed => removed,
        }
    }

    /// Removes what interrupted runs left: partly removed folders, and folders of repairs that
    /// never changed anything, once they are old enough to be abandoned.
    pub fn sweep(&self) -> Result<()> {
        let vault = self.vault()?;
        vault.sweep()?;
        for (folder, manifest) in vault.manifests()? {
            if let Ok(Some(manifest)) = manifest
                && let Some(kept) = QuarantinedFile::from_manifest(manifest)
                && is_abandoned(&folder, &kept)
            {
                // A repair that continues it holds the lock, and its folder is no longer old.
                let still = |folder: &Path, kept: &QuarantinedFile| match is_abandoned(folder, kept)
                {
                    true => Ok(()),
                    false => Err(Error::File(FileError::Changed {
                        path: folder.to_owned(),
                    })),
                };
                self.remove_if(&kept.id, still)?;
            }
        }
        Ok(())
    }
}

/// Returns whether a folder is of a repair that was interrupted long ago before it changed
/// anything, and contains only files of a repair.
fn is_abandoned(folder: &Path, kept: &QuarantinedFile) -> bool {
    let modified = folder.symlink_metadata().and_then(|it| it.modified());
    let age = modified
        .ok()
        .and_then(|time: SystemTime| time.elapsed().ok());
    let ours = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        ["manifest.json", "files", REMOVED].contains(&&*name) || name.starts_with(".annals-")
    };
    age.is_some_and(|age| age > ABANDONED_AFTER)
        && fs::read_dir(folder).is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(ours)))
        && kept.was_not_applied(folder).unwrap_or(false)
}
