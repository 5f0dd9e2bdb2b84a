//! The archive of one root: a directory with a compressed copy of each file under its path, and a
//! manifest. docs/STATE.md specifies the format.
//!
//! Writers hold a lock on the directory. Readers need none: compressed files grow or are replaced by
//! renaming, and the manifest says how much of a file counts.
//!
//! A file without a line is either from an interrupted writer or its line is lost. A writer creates
//! the file `writing` first and removes it after the lines are synced, which distinguishes them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::checksum::Checksum;
use super::compressed_file::CompressedFile;
use super::manifest::{self, Line, Manifest, Member, SessionKey};
use crate::error::{Error, Result};
use annals_jsonl::{self as jsonl, AppendOptions, Create, FileId, Log};
use annals_layouts::layout::{self, Layout};
use annals_layouts::model::Artifact;

/// Version of the format of a root's archive.
pub(crate) const VERSION: u32 = 1;

/// Files that name the root, with equal content: damage of one costs nothing.
pub(crate) const ROOT_NAMES: [&str; 2] = ["root.json", "root-copy.json"];

/// File that exists while compressed files are written that have no line yet.
const WRITING: &str = "writing";

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
    pub(crate) dir: PathBuf,
    pub(crate) layout: &'static dyn Layout,
    /// The root of the files.
    pub(crate) root: PathBuf,
    pub(crate) lone: bool,
}

impl std::fmt::Debug for RootArchive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RootArchive")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// Returns whether a directory has the manifest or the files of an archive, but no name of its root. The names
/// are written first and removed last.
pub(crate) fn has_lost_root(dir: &Path) -> bool {
    has_content(dir) && !ROOT_NAMES.into_iter().any(|name| exists(dir, name))
}

fn has_content(dir: &Path) -> bool {
    exists(dir, manifest::NAME) || exists(dir, "files")
}

fn exists(dir: &Path, name: &str) -> bool {
    matches!(jsonl::exists(&dir.join(name)), Ok(true))
}

/// Returns whether a newer program wrote the archive.
fn has_newer_version(dir: &Path) -> bool {
    let names = ROOT_NAMES.into_iter();
    names
        .map(|name| RootNote::read(&dir.join(name)))
        .any(|read| matches!(read, Err(NoteError::Newer(_))))
}

/// Reason why a file does not name the root.
enum NoteError {
    Io(io::Error),
    Damaged,
    /// The version of a newer program.
    Newer(u64),
    UnknownLayout(String),
}

impl NoteError {
    fn is_missing(&self) -> bool {
        matches!(self, NoteError::Io(error) if jsonl::is_absence(error))
    }

    fn into_error(self, path: &Path) -> Error {
        let why = match self {
            NoteError::Io(error) => return Error::io("read", path, error),
            NoteError::Damaged => "is damaged".to_owned(),
            NoteError::Newer(version) => format!(
                "has version {version}, but this program reads version {VERSION}: written by a newer annals; update this one"
            ),
            NoteError::UnknownLayout(layout) => format!("names an unknown layout: {layout}"),
        };
        Error::refused(format!("{} {why}", path.display()))
    }
}

impl RootNote {
    /// Reads one of the files that name the root.
    fn read(path: &Path) -> std::result::Result<Self, NoteError> {
        let bytes = jsonl::read_document(path).map_err(NoteError::Io)?;
        let note: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|_| NoteError::Damaged)?;
        let version = note.get("version").and_then(serde_json::Value::as_u64);
        if let Some(version) = version.filter(|version| *version > u64::from(VERSION)) {
            return Err(NoteError::Newer(version));
        }
        manifest::checked_text(&bytes).ok_or(NoteError::Damaged)?;
        let note: RootNote = serde_json::from_value(note).map_err(|_| NoteError::Damaged)?;
        match layout::by_name(&note.layout) {
            Some(_) => Ok(note),
            None => Err(NoteError::UnknownLayout(note.layout)),
        }
    }
}

/// A lock on the archive of a root; released when dropped.
#[derive(Debug)]
pub(crate) struct ArchiveLock(#[expect(dead_code, reason = "holds the lock")] File);

impl RootArchive {
    /// Opens the archive in `dir`; `None` if there is none.
    pub(crate) fn open(dir: &Path) -> Result<Option<Self>> {
        let [path, copy] = ROOT_NAMES.map(|name| dir.join(name));
        let note = match (RootNote::read(&path), RootNote::read(&copy)) {
            // A newer program writes both: a version that only one has is a flipped bit.
            (Ok(note), _) | (Err(_), Ok(note)) => note,
            (Err(first), Err(second)) if first.is_missing() && second.is_missing() => {
                if !has_lost_root(dir) {
                    return Ok(None);
                }
                return Err(Error::refused(format!(
                    "{} is missing, so the root of these archived files is unknown; `annals keep` of that root writes it again",
                    path.display()
                )));
            }
            (Err(first), Err(second)) if first.is_missing() => {
                return Err(second.into_error(&copy));
            }
            (Err(first), Err(_)) => return Err(first.into_error(&path)),
        };
        let layout = layout::by_name(&note.layout)
            .ok_or_else(|| NoteError::UnknownLayout(note.layout.clone()).into_error(&path))?;
        Ok(Some(RootArchive {
            dir: dir.to_owned(),
            layout,
            root: note.path,
            lone: note.lone,
        }))
    }

    /// Returns why one of the files that name the root cannot be used, and its path; the other one is used.
    pub(crate) fn damaged_name(&self) -> Option<(PathBuf, Error)> {
        let (path, error) = self.unusable_name()?;
        match error.is_missing() {
            // A writer that was interrupted before it wrote anything else.
            true if !has_content(&self.dir) => None,
            true => {
                let error = Error::refused(format!("{} is missing", path.display()));
                Some((path, error))
            }
            false => {
                let error = error.into_error(&path);
                Some((path, error))
            }
        }
    }

    fn unusable_name(&self) -> Option<(PathBuf, NoteError)> {
        ROOT_NAMES.into_iter().find_map(|name| {
            let path = self.dir.join(name);
            let error = RootNote::read(&path).err()?;
            Some((path, error))
        })
    }

    /// Creates the directory and names the root in it. The caller must hold no lock of it.
    pub(crate) fn create(&self) -> Result<ArchiveLock> {
        loop {
            // Removing the last files of a root also removes the directory.
            jsonl::ensure_dir(&self.dir)?;
            let Some(lock) = self.lock_if_exists()? else {
                continue;
            };
            // A damaged or missing file is replaced; one of a newer version is refused.
            let known = match RootArchive::open(&self.dir) {
                Err(error) if has_newer_version(&self.dir) => return Err(error),
                known => known.ok().flatten(),
            };
            let is_current =
                |known: RootArchive| known.root == self.root && known.unusable_name().is_none();
            if !known.is_some_and(is_current) {
                let note = RootNote {
                    version: VERSION,
                    layout: self.layout.name().to_owned(),
                    path: self.root.clone(),
                    lone: self.lone,
                };
                let json = serde_json::to_string(&note);
                let json = json.map_err(|error| Error::refused(error.to_string()))?;
                let json = manifest::with_sum(&json);
                for name in ROOT_NAMES {
                    jsonl::replace_locked(&self.dir.join(name), json.as_bytes())?;
                }
            }
            return Ok(lock);
        }
    }

    /// Locks the archive against other writers; `None` if the directory does not exist.
    pub(crate) fn lock_if_exists(&self) -> Result<Option<ArchiveLock>> {
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
    pub(crate) fn read_lines(&self, skip: &dyn Fn(&Path) -> bool) -> Result<Manifest> {
        Manifest::read(&self.dir, self.layout, self.lone, skip)
    }

    /// Reads the manifest, and adds files in the tree that it does not list. The caller must hold
    /// the lock.
    pub(crate) fn read_locked(&self) -> Result<Manifest> {
        let mut manifest = self.read_lines(&|_| false)?;
        self.add_unlisted(&mut manifest)?;
        Ok(manifest)
    }

    /// Like [`read_locked`](Self::read_locked), without a lock: while another process writes, the
    /// manifest alone counts.
    pub(crate) fn read(&self) -> Result<Manifest> {
        loop {
            let mut manifest = self.read_lines(&|_| false)?;
            if self.is_locked() {
                return Ok(manifest);
            }
            let is_complete = !self.add_unlisted(&mut manifest)?;
            // A writer may have listed them meanwhile.
            if is_complete
                || self
                    .manifest_id()?
                    .is_none_or(|id| id.untouched(&manifest.id))
            {
                return Ok(manifest);
            }
        }
    }

    fn manifest_id(&self) -> Result<Option<FileId>> {
        let there = jsonl::metadata_if_exists(&self.dir.join(manifest::NAME))?;
        Ok(there.map(|there| FileId::from(&there)))
    }

    /// Reads what the manifest lists of files for which `skip` returns false. If it is damaged, also
    /// what it does not list.
    pub(crate) fn read_missing(&self, skip: &dyn Fn(&Path) -> bool) -> Result<Manifest> {
        let manifest = self.read_lines(skip)?;
        let is_cut = manifest.is_torn && !self.is_locked();
        if manifest.damage().is_none() && !is_cut {
            return Ok(manifest);
        }
        let mut manifest = self.read()?;
        manifest.files.retain(|path, _| !skip(path));
        Ok(manifest)
    }

    /// Adds files in the tree that the manifest does not list. Returns whether there are any.
    fn add_unlisted(&self, manifest: &mut Manifest) -> Result<bool> {
        let renamed = manifest.files.values().filter_map(|it| it.was.clone());
        let renamed: BTreeSet<PathBuf> = renamed.collect();
        let mut found = Vec::new();
        self.each_file(Path::new(""), &mut |path| {
            let Some(path) = without_ending(&path, b".zst") else {
                return;
            };
            let is_listed = manifest.files.contains_key(&path)
                || manifest.gone.contains(&path)
                || renamed.contains(&path);
            if !is_listed {
                found.push(path);
            }
        })?;
        manifest.is_interrupted = !found.is_empty() && self.is_interrupted()?;
        let is_any = !found.is_empty();
        for path in found {
            // It may hold more than the versions that are listed.
            let generation = manifest.last_generation(&path);
            let Some(mut member) = self.unlisted(&path, generation)? else {
                continue;
            };
            if let Some(old) = self.listed_elsewhere(manifest, &path)? {
                manifest.files.remove(&old.path);
                let versions: Vec<u32> = manifest.versions_of(&old.path).collect();
                for version in versions {
                    let earlier = manifest.versions.remove(&(old.path.clone(), version));
                    let earlier = earlier.map(|earlier| Member {
                        path: path.clone(),
                        was: Some(old.path.clone()),
                        ..earlier
                    });
                    let moved = earlier.map(|earlier| ((path.clone(), version), earlier));
                    manifest.versions.extend(moved);
                }
                member = with_new_folder(old, member);
            }
            manifest.files.insert(path, member);
        }
        manifest.is_scanned = true;
        Ok(is_any)
    }

    /// Returns the line of an unlisted file before its folder was renamed, if the lines of the renaming
    /// are lost: it has another folder, and no file is there.
    fn listed_elsewhere(&self, manifest: &Manifest, path: &Path) -> Result<Option<Member>> {
        let artifact = self.layout.classify(path).filter(|_| !self.lone);
        let Some(artifact) = artifact.filter(|it| it.folder.is_some() && it.session.is_some())
        else {
            return Ok(None);
        };
        let is_same = |known: &&Member| {
            let other = self.layout.classify(&known.path);
            let other = other.map(|other| Artifact {
                folder: artifact.folder.clone(),
                ..other
            });
            !known.is_unlisted && known.moved_to.is_none() && other.as_ref() == Some(&artifact)
        };
        for known in manifest.files.values().filter(is_same) {
            if !jsonl::exists(&known.location(&self.dir))? {
                return Ok(Some(known.clone()));
            }
        }
        Ok(None)
    }

    /// Passes the path within `files` of each file to `see`.
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
            match kind.is_dir() {
                true => self.each_file(&within.join(&name), see)?,
                false if kind.is_file() => see(within.join(&name)),
                false => {}
            }
        }
        Ok(())
    }

    /// Returns what is known of a file that has no line: its path and its content.
    fn unlisted(&self, path: &Path, generation: u64) -> Result<Option<Member>> {
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
            generation,
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
    pub(crate) fn append(&self, manifest: &mut Manifest, lines: Vec<Line>) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let text = lines.iter().map(Line::encode);
        let text = text.collect::<Result<Vec<String>>>()?;
        let path = self.dir.join(manifest::NAME);
        if manifest.is_torn {
            // This line was not acknowledged.
            let file = OpenOptions::new().write(true).open(&path);
            let cut = file.and_then(|file| {
                file.set_len(manifest.end)?;
                file.sync_all()
            });
            cut.map_err(|error| write_error(&path, error))?;
            manifest.is_torn = false;
        }
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
        manifest.end = manifest.id.len;
        Ok(())
    }

    /// Marks the archive as being written, durably. The caller must hold the lock.
    pub(crate) fn begin_writing(&self, manifest: &mut Manifest) -> Result<()> {
        let create = |name: &str| {
            let path = self.dir.join(name);
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(0o600);
            let file = options.open(&path);
            let metadata = file.and_then(|file| file.metadata());
            metadata.map_err(|error| write_error(&path, error))
        };
        // From here on, a missing manifest is a lost one.
        if !manifest.exists && manifest.files.is_empty() {
            manifest.id = FileId::from(&create(manifest::NAME)?);
            manifest.exists = true;
        }
        create(WRITING)?;
        sync_dir(&self.dir)
    }

    /// Says that everything that was written is listed. If that is lost, the next writer finds
    /// nothing to do.
    pub(crate) fn end_writing(&self) -> Result<()> {
        remove_if_exists(&self.dir.join(WRITING))
    }

    /// Returns whether files that have no line are from a writer that is running or was interrupted.
    pub(crate) fn is_interrupted(&self) -> Result<bool> {
        Ok(jsonl::exists(&self.dir.join(WRITING))?)
    }

    /// Lists files without a line, and frames after the listed ones. If their writer was
    /// interrupted, their copies were not acknowledged: what is not whole is removed if its
    /// file is in the root, and so are temporary files. The caller must hold the lock.
    pub(crate) fn list_unlisted(&self, manifest: &mut Manifest) -> Result<()> {
        let is_interrupted = self.is_interrupted()?;
        let (mut lines, mut whole, mut torn) = (Vec::new(), Vec::new(), Vec::new());
        let current = manifest.files.values();
        for member in current.filter(|member| member.moved_to.is_none()) {
            let stored = member.location(&self.dir);
            let there = jsonl::metadata_if_exists(&stored)?.map_or(0, |there| there.len());
            if !member.is_unlisted && there <= member.packed {
                continue;
            }
            let failed = |error| Error::io("read", &stored, error);
            let (content, packed) = CompressedFile::open_unlisted(&stored).map_err(failed)?;
            let frames = content.frames();
            let is_whole = !frames.is_empty() && frames.iter().all(|frame| !frame.is_lost);
            let sum = Checksum::digest_reader(jsonl::RangeReader::from_offset(&content, 0));
            let sha256 = match sum {
                Ok(sum) => Some(sum).filter(|_| is_whole),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
                Err(error) => return Err(failed(error)),
            };
            match sha256 {
                None if !member.is_unlisted => continue,
                None if is_interrupted && jsonl::exists(&self.root.join(&member.path))? => {
                    torn.push((member.path.clone(), stored));
                    continue;
                }
                // The listed frames are not whole.
                Some(_) if packed < member.packed => continue,
                Some(_) if packed < there => {
                    let file = OpenOptions::new().write(true).open(&stored);
                    let cut = file.and_then(|file| file.set_len(packed));
                    cut.map_err(|error| write_error(&stored, error))?;
                }
                _ => {}
            }
            // Its line and those of its versions from before its folder was renamed.
            if let Some(was) = member.was.as_ref().filter(|_| member.is_unlisted) {
                for version in manifest.versions_of(&member.path) {
                    let key = (member.path.clone(), version);
                    let earlier = manifest.versions.get(&key).cloned();
                    lines.extend(earlier.map(|earlier| Line::File(Box::new(earlier))));
                }
                lines.push(Line::Gone(was.clone(), None));
            }
            let metadata = fs::symlink_metadata(&stored).map_err(failed)?;
            lines.push(Line::File(Box::new(Member {
                len: jsonl::ReadAt::size(&content).map_err(failed)?,
                packed,
                sha256,
                // Unlike that of any file, so that the next update writes it again: its sync may
                // have failed.
                dev: 0,
                ino: 0,
                packed_ctime_ns: FileId::from(&metadata).ctime_ns,
                generation: member.generation + 1,
                is_unlisted: false,
                ..member.clone()
            })));
            whole.push(stored);
        }
        self.sync(&whole)?;
        self.append(manifest, lines)?;
        if is_interrupted {
            let mut temporary = Vec::new();
            self.each_file(Path::new(""), &mut |path| {
                let is_temporary = without_ending(&path, b".zst.new").is_some();
                temporary.extend(is_temporary.then(|| self.dir.join("files").join(path)));
            })?;
            for (path, stored) in torn {
                manifest.files.remove(&path);
                temporary.push(stored);
            }
            self.remove(&temporary)?;
            self.end_writing()?;
        }
        Ok(())
    }

    /// Renames compressed files whose lines have a new path already. The caller must hold the
    /// lock.
    pub(crate) fn finish_renames(&self, manifest: &Manifest) -> Result<()> {
        let dir = &self.dir;
        let all = manifest.files.values().chain(manifest.versions.values());
        let mut moved = Vec::new();
        for member in all {
            let Some(was) = &member.was else { continue };
            let (from, to) = (
                member.location_for(dir, was),
                member.location_for(dir, &member.path),
            );
            if jsonl::exists(&to)? || !jsonl::exists(&from)? {
                continue;
            }
            self.create_parent(&to)?;
            fs::rename(&from, &to).map_err(|error| Error::io("rename", &from, error))?;
            moved.push((from, to));
        }
        let (from, to): (Vec<PathBuf>, Vec<PathBuf>) = moved.into_iter().unzip();
        self.sync(&to)?;
        self.remove(&from)
    }

    /// Rewrites the manifest without lines that no longer count, if these are many or `always`. The
    /// caller must hold the lock.
    pub(crate) fn compact(&self, manifest: &mut Manifest, always: bool) -> Result<()> {
        let live = manifest.files.len() + manifest.versions.len() + manifest.dirs.len();
        let is_clean = manifest.damaged == 0 && manifest.gone.is_empty();
        if !always && manifest.lines <= 2 * live + DEAD_LINES && is_clean {
            return Ok(());
        }
        // A removed path may still hold what has a new path.
        self.finish_renames(manifest)?;
        // Files whose removal was interrupted must not be found again.
        let gone = manifest.gone.iter().map(|path| self.stored_files(path));
        self.remove(&gone.collect::<Result<Vec<_>>>()?.concat())?;
        let lines = manifest.live_lines()?;
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        let path = self.dir.join(manifest::NAME);
        jsonl::replace_locked(&path, text.as_bytes())?;
        manifest.gone.clear();
        (manifest.lines, manifest.damaged, manifest.is_torn) = (lines.len(), 0, false);
        let metadata = fs::symlink_metadata(&path).map_err(|e| Error::io("stat", &path, e))?;
        manifest.id = FileId::from(&metadata);
        manifest.end = manifest.id.len;
        Ok(())
    }

    /// Returns the compressed file of a path, its versions, and what a killed writer left of it.
    pub(crate) fn stored_files(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let mut files = super::names(&manifest::versions_dir(&self.dir, path))?;
        let file = manifest::file_path(&self.dir, path);
        files.extend([manifest::temporary_path(&file), file]);
        Ok(files)
    }

    /// Removes compressed files, and directories that became empty, durably.
    pub(crate) fn remove(&self, files: &[PathBuf]) -> Result<()> {
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
    pub(crate) fn create_parent(&self, file: &Path) -> Result<()> {
        let dir = file.parent().unwrap_or(&self.dir);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| write_error(dir, error))
    }

    /// Makes written files durable, with their names and directories.
    pub(crate) fn sync(&self, files: &[PathBuf]) -> Result<()> {
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

/// Returns a path without the ending of its name; `None` if it does not end with it.
fn without_ending(path: &Path, ending: &[u8]) -> Option<PathBuf> {
    let stem = path.as_os_str().as_bytes().strip_suffix(ending)?;
    Some(OsStr::from_bytes(stem).into())
}

/// Returns what is known of an unlisted file that was listed before its folder was renamed.
fn with_new_folder(old: Member, unlisted: Member) -> Member {
    let mut sessions = old.sessions.clone();
    for key in &mut sessions {
        let now = unlisted.sessions.iter().find(|now| now.id == key.id);
        key.folder
            .clone_from(&now.map_or(&key.folder, |now| &now.folder).clone());
    }
    Member {
        path: unlisted.path,
        packed_ctime_ns: unlisted.packed_ctime_ns,
        generation: unlisted.generation.max(old.generation),
        was: Some(old.path.clone()),
        is_unlisted: true,
        sessions,
        ..old
    }
}

pub(crate) fn remove_if_exists(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if !jsonl::is_absence(&error) => Err(Error::io("remove", path, error)),
        _ => Ok(()),
    }
}

/// Syncs a directory. Ignores one that was removed.
pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        Err(error) if !jsonl::is_absence(&error) => Err(Error::io("sync", dir, error)),
        _ => Ok(()),
    }
}

/// Returns the error of writing to the archive.
pub(crate) fn write_error(path: &Path, error: io::Error) -> Error {
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
