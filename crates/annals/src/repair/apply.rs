//! Applies and undoes repairs.
//!
//! Under the log's lock: copy and sync the original, write and sync the removed bytes, write and
//! sync the manifest, and only then put the repaired log in place of the damaged one, if that is
//! unchanged and no other program has it open for writing. If the process is killed before that, the
//! log is unchanged and the repair can be run again; after it, nothing is left to do. A failed repair
//! leaves nothing in the quarantine.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::store::{Root, is_plain_log};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, AppendOptions, FileId, ReadAt as _};
use annals_layouts::text::pluralize;

use super::plan::OutputPart;
use super::quarantine::{
    self, FileState, MANIFEST, ORIGINAL, QuarantinedFile, QuarantinedStep, REMOVED, VERSION,
};
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
        let quarantine = self.quarantine()?;
        let log = plan.root.open_log(path, AppendOptions::default())?;
        log.with_lock(|handle| {
            let metadata = handle.metadata().map_err(|e| Error::io("stat", path, e))?;
            if !FileId::from(&metadata).untouched(&plan.file.id) {
                return Err(Error::File(FileError::Changed { path: path.clone() }));
            }
            let kept = describe(plan, handle, &metadata, now)?;
            let folder = quarantine.join(&kept.id);
            let modified = metadata.modified().ok();
            let rewritten = quarantine_original(plan, &kept, handle, &folder).and_then(|()| {
                jsonl::rewrite(path, &plan.file.id, modified, None, |old, put| {
                    write_repaired(plan, old, put)
                })
            });
            // A repair that did not happen must not be undone. If the removal fails too, the next
            // sweep removes it.
            if rewritten.is_err() && is_same_file(path, &metadata) {
                let _ = self.remove_folder(&kept.id);
            }
            rewritten.map(|()| kept)
        })
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
        let original = self.quarantine()?.join(&kept.id).join(ORIGINAL);
        // A repair or an undo may have been killed while the log had another name.
        jsonl::put_back_file(&path)?;
        let log = root.open_log(&path, AppendOptions::default())?;
        log.with_lock(|handle| {
            let metadata = handle.metadata().map_err(|e| Error::io("stat", &path, e))?;
            let now = hash(handle, metadata.len()).map_err(|e| Error::io("read", &path, e))?;
            if now == kept.original.sha256 {
                return Ok(());
            }
            if now != kept.result.sha256 {
                return Err(self.refuse_undo(kept, handle, metadata.len()));
            }
            let source = File::open(&original).map_err(|e| Error::io("open", &original, e))?;
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
        self.remove_folder(&kept.id)
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

/// Returns whether the file is the original: the repair was interrupted before it changed anything,
/// or was undone by other means.
pub(super) fn was_not_applied(kept: &QuarantinedFile) -> Result<bool> {
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

/// Describes a repair for its manifest.
fn describe(
    plan: &RepairPlan,
    handle: &File,
    metadata: &fs::Metadata,
    now: Timestamp,
) -> Result<QuarantinedFile> {
    let path = &plan.file.path;
    let failed = |error| Error::io("read", path, error);
    let within = path.strip_prefix(&plan.root.path);
    let within = within.map_err(|_| {
        let root = plan.root.path.display();
        Error::refused(format!("{} is outside of {root}", path.display()))
    })?;
    let len = metadata.len();
    let original = FileState {
        bytes: len,
        sha256: hash(handle, len).map_err(failed)?,
        mode: metadata.mode() & 0o7777,
        mtime_ns: mtime_ns(metadata),
    };
    let mut sum = Sha256::new();
    let mut bytes = 0;
    write_repaired(plan, handle, &mut |piece| {
        sum.update(piece);
        bytes += piece.len() as u64;
        Ok(())
    })?;
    let result = FileState {
        bytes,
        sha256: hex(&sum.finalize()),
        ..original.clone()
    };
    let steps = plan.edits.steps.iter().map(|step| QuarantinedStep {
        line: step.line,
        offset: step.offset,
        action: step.action.as_str().to_owned(),
        detail: step.detail.clone(),
    });
    Ok(QuarantinedFile {
        version: VERSION,
        id: repair_id(plan.session.as_ref().map(|it| it.as_str()), path, &original),
        layout: plan.root.layout.name().to_owned(),
        root: plan.root.path.clone(),
        lone: plan.root.layout.classify(within).is_none(),
        path: within.to_owned(),
        session: plan.session.as_ref().map(ToString::to_string),
        repaired: now,
        original,
        result,
        steps: steps.collect(),
    })
}

/// Returns the id of a repair: a readable name, and a unique hash.
pub(super) fn repair_id(session: Option<&str>, path: &Path, original: &FileState) -> String {
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

/// Syncs the original and the removed bytes to the quarantine, then writes the manifest.
fn quarantine_original(
    plan: &RepairPlan,
    kept: &QuarantinedFile,
    handle: &File,
    folder: &Path,
) -> Result<()> {
    jsonl::ensure_dir(folder)?;
    let original = folder.join(ORIGINAL);
    let same = match File::open(&original) {
        // Left by an interrupted run.
        Ok(there) => hash(&there, u64::MAX).is_ok_and(|hash| hash == kept.original.sha256),
        Err(_) => false,
    };
    if !same {
        match fs::remove_file(&original) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &original, error));
            }
            _ => {}
        }
        jsonl::create_with(&original, |put| {
            copy(handle, 0..kept.original.bytes, &plan.file.path, put)
        })?;
        let there = File::open(&original).map_err(|e| Error::io("open", &original, e))?;
        let digest = hash(&there, u64::MAX).map_err(|e| Error::io("read", &original, e))?;
        if digest != kept.original.sha256 {
            return Err(Error::File(FileError::Changed {
                path: plan.file.path.clone(),
            }));
        }
    }
    let removed = quarantine::encode_removed(&plan.edits.removed)?;
    quarantine::write_document(&folder.join(REMOVED), &removed)?;
    let manifest = serde_json::to_vec_pretty(kept);
    let manifest = manifest.map_err(|error| Error::refused(error.to_string()))?;
    quarantine::write_document(&folder.join(MANIFEST), &manifest)
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

pub(super) fn mtime_ns(metadata: &fs::Metadata) -> i64 {
    let seconds = metadata.mtime().saturating_mul(1_000_000_000);
    seconds.saturating_add(metadata.mtime_nsec())
}

fn system_time(nanoseconds: i64) -> Option<SystemTime> {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    match nanoseconds >= 0 {
        true => SystemTime::UNIX_EPOCH.checked_add(distance),
        false => SystemTime::UNIX_EPOCH.checked_sub(distance),
    }
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

    #[test]
    fn system_time_handles_times_before_1970() {
        let before = system_time(-1_500_000_000).unwrap();
        let distance = SystemTime::UNIX_EPOCH.duration_since(before).unwrap();
        assert_eq!(distance, Duration::from_millis(1_500));
        let after = system_time(1_500_000_000).unwrap();
        let distance = after.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(distance, Duration::from_millis(1_500));
    }
}
