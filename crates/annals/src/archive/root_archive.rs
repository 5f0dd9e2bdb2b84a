//! The archive of one root: a directory with a compressed copy of each file under its path, and a
//! manifest. docs/STATE.md specifies the format.
//!
//! Writers hold a lock on the directory. Readers need none: compressed files grow or are replaced by
//! renaming, and the manifest says how much of a file counts.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::compressed_file::CompressedFile;
use super::manifest::{self, Line, Manifest, Member, SessionKey};
use crate::error::{Error, Result};
use annals_jsonl::{self as jsonl, AppendOptions, Create, FileId, Log};
use annals_layouts::layout::{self, Layout};

/// Version of the format of a root's archive.
pub const VERSION: u32 = 1;

/// File that names the root.
pub(super) const ROOT_NAME: &str = "root.json";

/// How long a writer waits for another one: as long as a large session takes.
const LOCK_WAIT: Duration = Duration::from_secs(60);

/// Number of files from which on the whole file system is synced instead of each file.
const SYNC_EACH: usize = 32;

/// Number of lines that no longer count for which a manifest is not rewritten yet.
const DEAD_LINES: usize = 1024;

#[derive(Serialize, Deserialize)]
struct RootNote {
    version: u32,
    layout: String,
    path: PathBuf,
    /// The files are logs outside any tree, and `path` is their directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lone: bool,
}

/// The archive of one root.
#[derive(Clone)]
pub(crate) struct RootArchive {
    /// Its directory.
    pub(super) dir: PathBuf,
    pub(super) layout: &'static dyn Layout,
    /// The root of the files.
    pub(super) root: PathBuf,
    pub(super) lone: bool,
}

impl std::fmt::Debug for RootArchive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RootArchive")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// A lock on the archive of a root; released when dropped.
#[derive(Debug)]
pub(super) struct ArchiveLock(#[expect(dead_code, reason = "holds the lock")] File);

impl RootArchive {
    /// Opens the archive in `dir`; `None` if there is none.
    pub(super) fn open(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(ROOT_NAME);
        let bytes = match jsonl::read_document(&path) {
            Ok(bytes) => bytes,
            Err(error) if jsonl::is_absence(&error) => return Ok(None),
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        let damaged = |why: &str| Error::refused(format!("{} {why}", path.display()));
        let note: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|_| damaged("is damaged"))?;
        let version = note.get("version").and_then(serde_json::Value::as_u64);
        if let Some(version) = version.filter(|version| *version > u64::from(VERSION)) {
            return Err(damaged(&format!(
                "has version {version}, but this program reads version {VERSION}: written by a newer annals; update this one"
            )));
        }
        let note: RootNote = serde_json::from_value(note).map_err(|_| damaged("is damaged"))?;
        let layout = layout::by_name(&note.layout)
            .ok_or_else(|| damaged(&format!("names an unknown layout: {}", note.layout)))?;
        Ok(Some(RootArchive {
            dir: dir.to_owned(),
            layout,
            root: note.path,
            lone: note.lone,
        }))
    }

    /// Creates the directory and names the root in it. The caller must hold no lock of it.
    pub(super) fn create(&self) -> Result<ArchiveLock> {
        loop {
            // Removing the last files of a root also removes the directory.
            jsonl::ensure_dir(&self.dir)?;
            let Some(lock) = self.lock_if_exists()? else {
                continue;
            };
            // A damaged file is replaced; one of a newer version is refused.
            let known = match RootArchive::open(&self.dir) {
                Err(error @ Error::Refused(_)) if error.to_string().contains("newer annals") => {
                    return Err(error);
                }
                known => known.ok().flatten(),
            };
            if known.is_none_or(|known| known.root != self.root) {
                let note = RootNote {
                    version: VERSION,
                    layout: self.layout.name().to_owned(),
                    path: self.root.clone(),
                    lone: self.lone,
                };
                let json = serde_json::to_vec(&note);
                let json = json.map_err(|error| Error::refused(error.to_string()))?;
                jsonl::replace_locked(&self.dir.join(ROOT_NAME), &json)?;
            }
            return Ok(lock);
        }
    }

    /// Locks the archive against other writers; `None` if the directory does not exist.
    pub(super) fn lock_if_exists(&self) -> Result<Option<ArchiveLock>> {
        let since = Instant::now();
        loop {
            let dir = match File::open(&self.dir) {
                Ok(dir) => dir,
                Err(error) if jsonl::is_absence(&error) => return Ok(None),
                Err(error) => return Err(Error::io("open", &self.dir, error)),
            };
            match dir.try_lock() {
                Ok(()) => {
                    let held = dir
                        .metadata()
                        .map_err(|error| Error::io("stat", &self.dir, error))?;
                    // A previous holder may have removed the directory.
                    let there = jsonl::metadata_if_exists(&self.dir)?;
                    let same = |there| FileId::from(&there).same_file(&FileId::from(&held));
                    if there.is_some_and(same) {
                        return Ok(Some(ArchiveLock(dir)));
                    }
                }
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &self.dir, error)),
                Err(TryLockError::WouldBlock) if since.elapsed() > LOCK_WAIT => {
                    return Err(Error::File(jsonl::Error::Busy {
                        path: self.dir.clone(),
                        waited: since.elapsed(),
                    }));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Returns whether a writer holds the lock.
    fn is_locked(&self) -> bool {
        let locked = File::open(&self.dir).map(|dir| dir.try_lock());
        matches!(locked, Ok(Err(TryLockError::WouldBlock)))
    }

    /// Reads the lines of the manifest, except those of files for which `skip` returns true.
    pub(super) fn read_lines(&self, skip: &dyn Fn(&Path) -> bool) -> Result<Manifest> {
        Manifest::read(&self.dir, self.layout, self.lone, skip)
    }

    /// Reads the manifest, and adds files in the tree that it does not list. The caller must hold
    /// the lock.
    pub(super) fn read_locked(&self) -> Result<Manifest> {
        let mut manifest = self.read_lines(&|_| false)?;
        self.add_unlisted(&mut manifest)?;
        Ok(manifest)
    }

    /// Like [`read_locked`](Self::read_locked), without a lock: while another process writes, the
    /// manifest alone counts.
    pub(super) fn read(&self) -> Result<Manifest> {
        let mut manifest = self.read_lines(&|_| false)?;
        if !self.is_locked() {
            self.add_unlisted(&mut manifest)?;
        }
        Ok(manifest)
    }

    /// Reads what the manifest lists of files for which `skip` returns false. If it is damaged, also
    /// what it does not list.
    pub(super) fn read_missing(&self, skip: &dyn Fn(&Path) -> bool) -> Result<Manifest> {
        let manifest = self.read_lines(skip)?;
        let is_cut = manifest.is_torn && !self.is_locked();
        if manifest.damage().is_none() && !is_cut {
            return Ok(manifest);
        }
        let mut manifest = self.read()?;
        manifest.files.retain(|path, _| !skip(path));
        Ok(manifest)
    }

    /// Adds files in the tree that the manifest does not list.
    fn add_unlisted(&self, manifest: &mut Manifest) -> Result<()> {
        let renamed = manifest.files.values().filter_map(|it| it.was.clone());
        let renamed: BTreeSet<PathBuf> = renamed.collect();
        let mut found = Vec::new();
        self.each_file(Path::new(""), &mut |path| {
            let is_listed = manifest.files.contains_key(&path)
                || manifest.gone.contains(&path)
                || renamed.contains(&path);
            if !is_listed {
                found.push(path);
            }
        })?;
        for path in found {
            let member = self.unlisted(&path)?;
            manifest.files.extend(member.map(|member| (path, member)));
        }
        manifest.is_scanned = true;
        Ok(())
    }

    /// Passes the path within the root of each compressed file to `see`.
    fn each_file(&self, within: &Path, see: &mut dyn FnMut(PathBuf)) -> Result<()> {
        let dir = self.dir.join("files").join(within);
        let failed = |error| Error::io("read", &dir, error);
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if jsonl::is_absence(&error) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let name = entry.file_name();
            let stem = name.as_bytes().strip_suffix(b".zst");
            match stem.map(OsStr::from_bytes) {
                _ if kind.is_dir() => self.each_file(&within.join(&name), see)?,
                Some(stem) if kind.is_file() => see(within.join(stem)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns what is known of a file that has no line: its path and its content.
    fn unlisted(&self, path: &Path) -> Result<Option<Member>> {
        let stored = manifest::file_path(&self.dir, path);
        let failed = |error| Error::io("read", &stored, error);
        let artifact = self.layout.classify(path).filter(|_| !self.lone);
        let session = match (&artifact, self.lone) {
            (Some(artifact), _) => artifact.session.as_ref().map(ToString::to_string),
            (None, true) => path.file_stem().map(|it| it.to_string_lossy().into_owned()),
            (None, false) => return Ok(None),
        };
        let (content, packed) = CompressedFile::open_unlisted(&stored).map_err(failed)?;
        let metadata = fs::symlink_metadata(&stored).map_err(failed)?;
        let id = FileId::from(&metadata);
        Ok(Some(Member {
            path: path.to_owned(),
            version: None,
            len: jsonl::ReadAt::size(&content).map_err(failed)?,
            packed,
            sha256: None,
            mode: 0o600,
            owner: None,
            attributes: Vec::new(),
            mtime_ns: id.mtime_ns,
            ctime_ns: id.ctime_ns,
            dev: 0,
            ino: 0,
            packed_ctime_ns: id.ctime_ns,
            archived: Timestamp::from_nanosecond(id.mtime_ns.into()).unwrap_or_default(),
            generation: 0,
            sessions: session
                .map(|id| SessionKey {
                    id,
                    folder: artifact.and_then(|artifact| artifact.folder),
                })
                .into_iter()
                .collect(),
            list_rows: Vec::new(),
            list_digest: None,
            was: None,
            until: None,
            moved_to: None,
            is_unlisted: true,
        }))
    }

    /// Appends lines to the manifest, durably. The caller must hold the lock.
    pub(super) fn append(&self, manifest: &mut Manifest, lines: Vec<Line>) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let text = lines.iter().map(Line::encode);
        let text = text.collect::<Result<Vec<String>>>()?;
        let path = self.dir.join(manifest::NAME);
        let create = match manifest.exists {
            true => Create::Never,
            false => Create::New,
        };
        let options = AppendOptions {
            create,
            ..AppendOptions::default()
        };
        let appended = Log::open(&path, options).and_then(|log| log.append_all(&text));
        appended.map_err(|error| match error {
            jsonl::Error::Io { source, .. } if is_out_of_space(&source) => {
                write_error(&path, source)
            }
            error => error.into(),
        })?;
        manifest.lines += lines.len();
        manifest.exists = true;
        lines.into_iter().for_each(|line| manifest.apply(line));
        let metadata = fs::symlink_metadata(&path).map_err(|e| Error::io("stat", &path, e))?;
        manifest.id = FileId::from(&metadata);
        Ok(())
    }

    /// Rewrites the manifest without lines that no longer count, if these are many or `always`. The
    /// caller must hold the lock.
    pub(super) fn compact(&self, manifest: &mut Manifest, always: bool) -> Result<()> {
        let live = manifest.files.len() + manifest.versions.len() + manifest.dirs.len();
        if !always && manifest.lines <= 2 * live + DEAD_LINES && manifest.damaged == 0 {
            return Ok(());
        }
        // Files whose removal was interrupted must not be found again.
        let gone = manifest.gone.iter().map(|path| self.stored_files(path));
        self.remove(&gone.collect::<Result<Vec<_>>>()?.concat())?;
        let lines = manifest.live_lines()?;
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        let path = self.dir.join(manifest::NAME);
        jsonl::replace_locked(&path, text.as_bytes())?;
        manifest.gone.clear();
        (manifest.lines, manifest.damaged) = (lines.len(), 0);
        let metadata = fs::symlink_metadata(&path).map_err(|e| Error::io("stat", &path, e))?;
        manifest.id = FileId::from(&metadata);
        Ok(())
    }

    /// Returns the compressed file of a path and its versions.
    pub(super) fn stored_files(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let mut files = super::names(&manifest::versions_dir(&self.dir, path))?;
        files.push(manifest::file_path(&self.dir, path));
        Ok(files)
    }

    /// Removes compressed files, and directories that became empty, durably.
    pub(super) fn remove(&self, files: &[PathBuf]) -> Result<()> {
        let mut dirs: BTreeSet<&Path> = BTreeSet::new();
        for file in files {
            match fs::remove_file(file) {
                Err(error) if !jsonl::is_absence(&error) => {
                    return Err(Error::io("remove", file, error));
                }
                _ => {}
            }
            let above = file.ancestors().skip(1);
            for dir in above.take_while(|dir| dir.starts_with(&self.dir)) {
                dirs.insert(dir);
                // Fails if the directory is not empty, as intended.
                if *dir == self.dir || fs::remove_dir(dir).is_err() {
                    break;
                }
            }
        }
        dirs.into_iter().rev().try_for_each(sync_dir)
    }

    /// Creates the directory of a compressed file. Its name is durable after [`sync`](Self::sync).
    pub(super) fn create_parent(&self, file: &Path) -> Result<()> {
        let dir = file.parent().unwrap_or(&self.dir);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| write_error(dir, error))
    }

    /// Makes written files durable, with their names and directories.
    pub(super) fn sync(&self, files: &[PathBuf]) -> Result<()> {
        #[cfg(target_os = "linux")]
        if files.len() > SYNC_EACH {
            let dir = File::open(&self.dir).map_err(|e| Error::io("open", &self.dir, e))?;
            return rustix::fs::syncfs(&dir)
                .map_err(|error| Error::io("sync", &self.dir, error.into()));
        }
        let mut dirs: BTreeSet<&Path> = BTreeSet::new();
        for file in files {
            let synced = File::open(file).and_then(|file| file.sync_all());
            synced.map_err(|error| Error::io("sync", file, error))?;
            let above = file.ancestors().skip(1);
            dirs.extend(above.take_while(|dir| dir.starts_with(&self.dir)));
        }
        dirs.into_iter().rev().try_for_each(sync_dir)
    }
}

/// Syncs a directory. Ignores one that was removed.
pub(super) fn sync_dir(dir: &Path) -> Result<()> {
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        Err(error) if !jsonl::is_absence(&error) => Err(Error::io("sync", dir, error)),
        _ => Ok(()),
    }
}

/// Returns the error of writing to the archive.
pub(super) fn write_error(path: &Path, error: io::Error) -> Error {
    match is_out_of_space(&error) {
        true => Error::refused(format!(
            "no space left to archive to {} ({error}); earlier archived data is unchanged",
            path.display()
        )),
        false => Error::io("write", path, error),
    }
}

fn is_out_of_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
