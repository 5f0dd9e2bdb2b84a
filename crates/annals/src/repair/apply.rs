//! Applies and undoes repairs.
//!
//! Under the log's lock and that of its folder in the vault: write and sync the manifest, copy and
//! sync the original, write and sync the removed bytes, and only then put the repaired log in place
//! of the damaged one, if that is unchanged and no other program has it open for writing. If the
//! process is killed before that, the log is unchanged and the repair can be run again; after it,
//! nothing is left to do. A failed repair leaves nothing in the vault.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::root::{Root, ensure_beneath, is_plain_log};
use crate::store::refuse_rewrite;
use crate::store::staging::system_time;
use crate::undo::{FileState, Manifest, RepairRecord, RepairStep, UndoFile, UndoVerb};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, FileId, ReadAt as _};
use annals_layouts::model::SessionId;
use annals_layouts::text::pluralize;

use super::plan::{OutputPart, RemovedBytes};
use super::quarantine::{QuarantinedFile, save_removed, saved_path};
use super::{RepairPlan, Repairs};

impl Repairs<'_> {
    /// Repairs a file. Its original is in the quarantine before anything changes.
    ///
    /// Fails with [`Changed`](annals_jsonl::Error::Changed) if the file has changed since the plan; with [`Held`](annals_jsonl::Error::Held) if
    /// another program has it open for writing; with [`Error::Live`], unless `live`, if another
    /// program is writing to it.
    pub fn apply(&self, plan: &RepairPlan, live: bool, now: Timestamp) -> Result<QuarantinedFile> {
        if !live {
            plan.ensure_not_in_use()?;
        }
        let path = &plan.file.path;
        plan.root.ensure_inside(path)?;
        refuse_rewrite(&plan.root, path)?;
        let log = plan.root.open_log_to_lock(path)?;
        log.with_lock(|handle| {
            let metadata = handle.metadata().map_err(|e| Error::io("stat", path, e))?;
            if !FileId::from(&metadata).untouched(&plan.file.id) {
                return Err(Error::File(FileError::Changed { path: path.clone() }));
            }
            let manifest = describe_log(plan, handle, &metadata, now)?;
            let modified = metadata.modified().ok();
            let source = |put: &mut dyn FnMut(&[u8]) -> Result<()>| {
                copy(handle, 0..metadata.len(), path, put)
            };
            let rewrite = || {
                jsonl::rewrite(path, &plan.file.id, modified, None, |old, put| {
                    write_repaired(plan, old, put)
                })
            };
            let rewritten = self.replace(&manifest, &plan.edits.removed, source, rewrite);
            // A repair that did not happen must not be undone. If the removal fails too, the next
            // sweep removes it.
            if rewritten.is_err() && is_same_file(path, &metadata) {
                let _ = self.discard(&manifest);
            }
            rewritten.and_then(|()| view(manifest))
        })
    }

    /// Saves the original of a file in the vault, durably, and then runs `replace`, with the folder
    /// locked.
    pub(super) fn replace<T>(
        &self,
        manifest: &Manifest,
        removed: &[RemovedBytes],
        source: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
        replace: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.vault()?.begin(manifest, |folder| {
            save_original(manifest, folder, source)?;
            save_removed(folder, removed)?;
            replace()
        })
    }

    /// Removes the folder of a repair that did not happen.
    pub(super) fn discard(&self, manifest: &Manifest) -> Result<()> {
        self.vault()?.remove(&manifest.id, |_, _| Ok(()))
    }

    /// Restores the original of a repaired file byte for byte, with its mode and time, and removes
    /// it from the quarantine.
    ///
    /// Refuses if the file is neither the repaired file nor the original, and if another program has
    /// it open for writing.
    pub fn undo(&self, kept: &QuarantinedFile) -> Result<()> {
        let root = Root::new(&kept.layout, &kept.root)?;
        // The manifest is written by annals, but its path must not lead out of the root.
        let sound = match kept.lone {
            true => is_plain_log(&kept.path),
            false => root.layout.classify(&kept.path).is_some(),
        };
        let path = kept.file_path();
        if !sound {
            return Err(Error::refused(format!(
                "{} is not a valid path in layout {}",
                path.display(),
                kept.layout
            )));
        }
        root.ensure_inside(&path)?;
        let vault = self.vault()?;
        let original = saved_path(&vault.folder(&kept.id)?, &kept.path);
        // A repair or an undo may have been killed while the log had another name.
        jsonl::put_back_file(&path)?;
        let log = root.open_log_to_lock(&path)?;
        log.with_lock(|handle| {
            let metadata = handle.metadata().map_err(|e| Error::io("stat", &path, e))?;
            let now = hash(handle, metadata.len()).map_err(|e| Error::io("read", &path, e))?;
            if now == kept.original.sha256 {
                return Ok(());
            }
            if now != kept.result.sha256 {
                return Err(self.refuse_undo(kept, handle, metadata.len()));
            }
            ensure_beneath(vault.dir(), &original)?;
            let source = jsonl::open_to_read(&original);
            let source = source.map_err(|e| Error::io("open", &original, e))?;
            let length = source
                .metadata()
                .map_err(|e| Error::io("stat", &original, e))?
                .len();
            let digest = hash(&source, length).map_err(|e| Error::io("read", &original, e))?;
            if digest != kept.original.sha256 {
                return Err(Error::refused(format!(
                    "{} has changed since the repair, so it was not restored",
                    original.display()
                )));
            }
            let modified = system_time(kept.original.mtime_ns);
            let looked = FileId::from(&metadata);
            let mode = Some(kept.original.mode);
            jsonl::rewrite(&path, &looked, modified, mode, |_, put| {
                copy(&source, 0..length, &original, put)
            })
        })?;
        self.delete(kept)
    }

    fn refuse_undo(&self, kept: &QuarantinedFile, handle: &File, len: u64) -> Error {
        let path = kept.file_path();
        let before = hash(handle, kept.result.bytes.min(len));
        let grown = len > kept.result.bytes && before.is_ok_and(|hash| hash == kept.result.sha256);
        let folder = match self.quarantine() {
            Ok(quarantine) => quarantine.join(&kept.id).display().to_string(),
            Err(_) => kept.id.clone(),
        };
        Error::refused(match grown {
            true => format!(
                "{} has grown by {} since the repair, and undoing would lose them; the original stays in {folder}",
                path.display(),
                pluralize(len - kept.result.bytes, "byte"),
            ),
            false => format!(
                "{} has changed since the repair; the original stays in {folder}",
                path.display(),
            ),
        })
    }
}

/// Returns whether the path still refers to the same file.
fn is_same_file(path: &Path, looked: &fs::Metadata) -> bool {
    let now = path.symlink_metadata();
    now.is_ok_and(|now| (now.dev(), now.ino()) == (looked.dev(), looked.ino()))
}

/// Returns whether the file is the original.
pub(super) fn is_original(kept: &QuarantinedFile) -> Result<bool> {
    let path = kept.file_path();
    let same_length = |it: fs::Metadata| it.is_file() && it.len() == kept.original.bytes;
    if !jsonl::metadata_if_exists(&path)?.is_some_and(same_length) {
        return Ok(false);
    }
    match jsonl::open_to_read(&path).and_then(|file| hash(&file, u64::MAX)) {
        Ok(hash) => Ok(hash == kept.original.sha256),
        Err(error) if jsonl::is_absence(&error) => Ok(false),
        Err(error) => Err(Error::io("read", &path, error)),
    }
}

/// Returns the repair that a manifest describes.
pub(super) fn view(manifest: Manifest) -> Result<QuarantinedFile> {
    let described = QuarantinedFile::from_manifest(manifest);
    described.ok_or_else(|| Error::refused("the manifest describes no repair"))
}

/// Describes the repair of a log.
fn describe_log(
    plan: &RepairPlan,
    handle: &File,
    metadata: &fs::Metadata,
    now: Timestamp,
) -> Result<Manifest> {
    let path = &plan.file.path;
    let len = metadata.len();
    let sum = hash(handle, len).map_err(|error| Error::io("read", path, error))?;
    let original = FileState::new(len, sum, metadata);
    let mut sum = Sha256::new();
    let mut bytes = 0;
    write_repaired(plan, handle, &mut |piece| {
        sum.update(piece);
        bytes += piece.len() as u64;
        Ok(())
    })?;
    let steps = plan.edits.steps.iter().map(|step| RepairStep {
        line: step.line,
        offset: step.offset,
        action: step.action.as_str().to_owned(),
        detail: step.detail.clone(),
    });
    let record = RepairRecord {
        result: FileState::new(bytes, hex(&sum.finalize()), metadata),
        original,
        steps: steps.collect(),
    };
    describe(&plan.root, path, plan.session.as_ref(), record, now)
}

/// Describes the repair of a file.
pub(super) fn describe(
    root: &Root,
    path: &Path,
    session: Option<&SessionId>,
    record: RepairRecord,
    now: Timestamp,
) -> Result<Manifest> {
    let within = path.strip_prefix(&root.path).map_err(|_| {
        let root = root.path.display();
        Error::refused(format!("{} is outside of {root}", path.display()))
    })?;
    let id = repair_id(session.map(SessionId::as_str), path, &record.original);
    let mut manifest = Manifest::new(id, UndoVerb::Repair, now, root.layout.name(), &root.path);
    manifest.lone = root.layout.classify(within).is_none();
    manifest.sessions = session.map(ToString::to_string).into_iter().collect();
    manifest.files = vec![UndoFile {
        path: within.to_owned(),
        bytes: record.original.bytes,
        copied: true,
    }];
    manifest.repair = Some(record);
    Ok(manifest)
}

/// Returns the id of a repair: a readable name, and a unique hash.
fn repair_id(session: Option<&str>, path: &Path, original: &FileState) -> String {
    let mut sum = Sha256::new();
    sum.update(path.as_os_str().as_encoded_bytes());
    sum.update([0]);
    sum.update(&original.sha256);
    let sum = hex(&sum.finalize());
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let name = session.or(stem).unwrap_or("file");
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String = name.chars().filter(|c| plain(*c)).take(80).collect();
    format!("{name}-{}", sum.get(..12).unwrap_or_default())
        .trim_start_matches('-')
        .to_owned()
}

/// Copies the original to the folder of its repair, durably, unless an interrupted run has done so.
fn save_original(
    manifest: &Manifest,
    folder: &Path,
    source: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
) -> Result<()> {
    let Some((file, record)) = manifest.repaired() else {
        return Err(Error::refused("the manifest describes no repair"));
    };
    let saved = saved_path(folder, &file.path);
    let is_whole = |saved: &Path| -> io::Result<bool> {
        let saved = jsonl::open_to_read(saved)?;
        Ok(hash(&saved, u64::MAX)? == record.original.sha256)
    };
    if is_whole(&saved).unwrap_or(false) {
        return Ok(());
    }
    match fs::remove_file(&saved) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove", &saved, error));
        }
        _ => {}
    }
    jsonl::ensure_dir(saved.parent().unwrap_or(folder))?;
    jsonl::create_with(&saved, source)?;
    match is_whole(&saved).map_err(|error| Error::io("read", &saved, error))? {
        true => Ok(()),
        false => Err(Error::File(FileError::Changed {
            path: manifest.root.join(&file.path),
        })),
    }
}

/// Passes the repaired file to `put`.
fn write_repaired(
    plan: &RepairPlan,
    old: &File,
    put: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    plan.edits.write(plan.file.id.len, |part| match part {
        OutputPart::New(bytes) => put(bytes),
        OutputPart::Old(range) => copy(old, range, &plan.file.path, put),
    })
}

/// Passes a range of a file to `put`.
fn copy(
    file: &File,
    range: std::ops::Range<u64>,
    path: &Path,
    put: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut block = vec![0; 1 << 18];
    let mut at = range.start;
    while at < range.end {
        let want = block
            .len()
            .min(usize::try_from(range.end - at).unwrap_or(usize::MAX));
        let some = block.get_mut(..want).unwrap_or_default();
        let read = file.fill_at(some, at);
        if read.map_err(|error| Error::io("read", path, error))? < want {
            return Err(Error::File(FileError::Changed {
                path: path.to_owned(),
            }));
        }
        put(some)?;
        at += want as u64;
    }
    Ok(())
}

/// Returns the SHA-256 of the first `len` bytes of a file.
fn hash(mut file: &File, len: u64) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut sum = Sha256::new();
    io::copy(
        &mut BufReader::with_capacity(1 << 18, file.take(len)),
        &mut sum,
    )?;
    Ok(hex(&sum.finalize()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_fails_when_the_file_is_shorter_than_the_range() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let text = vec![b'x'; 600_000];
        fs::write(&path, &text).unwrap();
        let file = File::open(&path).unwrap();
        let copied = |range: std::ops::Range<u64>| {
            let mut copied = Vec::new();
            let put = &mut |bytes: &[u8]| {
                copied.extend_from_slice(bytes);
                Ok(())
            };
            copy(&file, range, &path, put).map(|()| copied.len())
        };
        assert_eq!(copied(0..600_000).unwrap(), 600_000);
        assert_eq!(copied(599_000..600_000).unwrap(), 1_000);
        assert!(matches!(
            copied(0..600_001),
            Err(Error::File(FileError::Changed { .. }))
        ));
    }

    #[test]
    fn is_same_file_is_false_after_rename_over() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("log.jsonl"), dir.path().join("other"));
        fs::write(&path, "").unwrap();
        let looked = path.symlink_metadata().unwrap();
        assert!(is_same_file(&path, &looked));
        fs::write(&other, "").unwrap();
        fs::rename(other, &path).unwrap();
        assert!(!is_same_file(&path, &looked));
    }
}
