//! Copies files of a root to its archive.
//!
//! Order of a batch, so that a killed writer loses nothing that was acknowledged:
//!
//! 1. The archive is marked as being written.
//! 2. A file that is about to be replaced is linked to its version, and its line is appended.
//! 3. New frames are appended, and other files are written and renamed into place.
//! 4. Everything is synced.
//! 5. The lines are appended and synced, and the mark is removed. A version whose content is in the
//!    new file too is dropped.
//!
//! The lines say how much of each compressed file counts. The mark shows what a killed writer left,
//! which the next one lists or replaces, from files whose lines are lost.

mod copy_file;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rayon::prelude::*;
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::archive_format::attributes::{self, ArchivedDir, ExtendedAttribute, Owner};
use crate::archive_format::checksum::Checksum;
use crate::archive_format::compressed_file::{CompressedFile, FRAME, FrameEncoder};
use crate::archive_format::manifest::{
    Line, Manifest, Member, SessionKey, file_path, temporary_path, version_path,
};
use crate::archive_format::root_archive::{RootArchive, write_error};
use crate::archive_format::verify::is_damage;
use crate::error::{Error, Result};
use annals_jsonl::{self as jsonl, FileId, ReadAt as _};
use annals_layouts::model::ArtifactKind;
pub(super) use copy_file::open_source;
use copy_file::{append, copy, each_block};

/// Number of earlier versions of a document that are retained. Logs retain all.
const EARLIER: usize = 8;

/// Number of frames, beyond those that its length requires, from which on a log is compressed again
/// instead of appended to: a log archived every hour gets a small frame every time.
const SMALL_FRAMES: usize = 16;

/// Files to archive together.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    /// The sessions; empty for files that belong to no session.
    pub(super) sessions: Vec<SessionKey>,
    /// The files within the root, the main log first, and whether each is a log.
    pub(super) files: Vec<(PathBuf, bool)>,
    /// Rows of session lists about the logs.
    pub(super) rows: Vec<(PathBuf, String)>,
    /// Digest of the session-list rows.
    pub(super) list_digest: Option<Checksum>,
}

/// Result of archiving some files together.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// Whether anything was written.
    pub(super) is_changed: bool,
    /// Bytes of files that were added.
    pub(super) added: u64,
    /// Files that no longer existed when they were to be read.
    pub(super) missing: Vec<PathBuf>,
    /// Files that were written, and the offset from which on they were.
    pub(super) written: Vec<(PathBuf, u64)>,
    /// Files whose copies were damaged or unreadable and are replaced.
    pub(super) repaired: Vec<PathBuf>,
    /// Those of them whose copies could not be read because of an I/O error.
    pub(super) unread: Vec<PathBuf>,
}

/// The archive of a root, locked for writing.
pub(super) struct Mirror<'a> {
    pub(super) archive: &'a RootArchive,
    pub(super) manifest: &'a mut Manifest,
    pub(super) now: Timestamp,
    /// Compressed files that are read before they are relied on, because they may be damaged;
    /// `None` for all.
    pub(super) suspects: Option<&'a BTreeSet<PathBuf>>,
}

/// What must be done for a file.
enum Action {
    Unchanged,
    Missing,
    /// Write the bytes after the archived ones; `Sha256` is that of the archived ones.
    Append(Source, Sha256),
    /// Compress the whole file.
    Write(Source, Reason),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// It is not archived yet.
    New,
    /// It does not continue what is archived, which becomes a version.
    Replaced,
    /// It continues what is archived, which is damaged.
    Damaged,
    /// It continues what is archived, which cannot be read because of an I/O error.
    Unread,
    /// It continues what is archived, which has too many frames or was left by an interrupted
    /// writer.
    Again,
}

/// Returns why an archived file cannot be read completely, if so.
fn damage(known: &Member, stored: &Path) -> Option<Reason> {
    let content = CompressedFile::open(stored, known.packed, known.id());
    let sum = content
        .and_then(|content| Checksum::digest_reader(jsonl::RangeReader::from_offset(&content, 0)));
    match sum {
        Ok(sum) if known.sha256.is_none_or(|sha256| sha256 == sum) => None,
        Err(error) if !is_damage(&error) => Some(Reason::Unread),
        Ok(_) | Err(_) => Some(Reason::Damaged),
    }
}

/// Metadata of a file when it was looked at.
struct Source {
    id: FileId,
    mode: u32,
    owner: Owner,
    attributes: Vec<ExtendedAttribute>,
}

/// A file to archive.
struct Task<'a> {
    group: usize,
    within: &'a Path,
    action: Action,
}

impl Mirror<'_> {
    /// Archives groups of files. Returns a result for each.
    pub(super) fn store(&mut self, groups: &[Contents]) -> Result<Vec<Result<Stored>>> {
        self.archive.finish_renames(self.manifest)?;
        self.rename_folders(groups)?;
        let files = groups.iter().enumerate().flat_map(|(group, contents)| {
            let files = contents.files.iter();
            files.map(move |(within, _)| (group, within.as_path()))
        });
        let files: Vec<(usize, &Path)> = files.collect();
        let decided = files.par_iter().map(|(_, within)| self.decide(within));
        let decided: Vec<Result<Action>> = decided.collect();
        let mut results: Vec<Result<Stored>> = Vec::new();
        results.resize_with(groups.len(), || Ok(Stored::default()));
        let mut tasks: Vec<Task<'_>> = Vec::new();
        for ((group, within), action) in files.into_iter().zip(decided) {
            let Some(result) = results.get_mut(group) else {
                continue;
            };
            match (action, result.as_mut()) {
                (Err(error), Ok(_)) => *result = Err(error),
                (Ok(Action::Missing), Ok(stored)) => stored.missing.push(within.to_owned()),
                (Ok(action), Ok(_)) => tasks.push(Task {
                    group,
                    within,
                    action,
                }),
                (_, Err(_)) => {}
            }
        }
        tasks.retain(|task| results.get(task.group).is_some_and(Result::is_ok));
        let is_writing = |task: &Task<'_>| !matches!(task.action, Action::Unchanged);
        let is_writing = tasks.iter().any(is_writing);
        if is_writing {
            self.archive.begin_writing(self.manifest)?;
        }
        let saved = self.save_versions(&tasks)?;
        let mut dropped = Vec::new();
        let write = |encoder: &mut io::Result<FrameEncoder>, task: &Task<'_>| match encoder {
            Ok(encoder) => self.write(task, encoder),
            Err(error) => Err(Error::io(
                "compress",
                task.within,
                io::Error::from(error.kind()),
            )),
        };
        let written: Vec<Result<Option<Written>>> = tasks
            .par_iter()
            .map_init(FrameEncoder::new, write)
            .collect();
        let mut lines = Vec::new();
        let mut to_sync = Vec::new();
        for (task, written) in tasks.iter().zip(written) {
            let (Some(result), Some(contents)) =
                (results.get_mut(task.group), groups.get(task.group))
            else {
                continue;
            };
            let Ok(stored) = result else { continue };
            match written {
                Err(error) => *result = Err(error),
                Ok(written) => {
                    let file = written.as_ref().map(|it| it.file.clone());
                    if let Some(member) = self.member(contents, task, written.as_ref()) {
                        stored.is_changed = true;
                        lines.push(Line::File(Box::new(member)));
                    }
                    if let Some(written) = written {
                        stored.added += written.added;
                        match (written.reason, saved.get(task.within)) {
                            (Some(reason @ (Reason::Damaged | Reason::Unread)), _) => {
                                stored.repaired.push(task.within.to_owned());
                                if reason == Reason::Unread {
                                    stored.unread.push(task.within.to_owned());
                                }
                            }
                            // Its content is in the new file too.
                            (Some(Reason::Again), Some(version)) => {
                                dropped.push((task.within.to_owned(), *version));
                            }
                            _ => {}
                        }
                        stored.written.push((task.within.to_owned(), written.since));
                    }
                    to_sync.extend(file);
                }
            }
        }
        for (contents, result) in groups.iter().zip(&mut results) {
            if let Ok(stored) = result {
                let dirs = self.changed_dirs(contents)?;
                stored.is_changed |= !dirs.is_empty();
                lines.extend(dirs.into_iter().map(Line::Dir));
            }
        }
        self.archive.sync(&to_sync)?;
        dropped.extend(self.excess_versions(groups, &dropped));
        lines.extend(
            dropped
                .iter()
                .map(|(path, version)| Line::Gone(path.clone(), Some(*version))),
        );
        self.archive.append(self.manifest, lines)?;
        if is_writing {
            self.archive.end_writing()?;
        }
        let dropped = dropped.iter();
        let dropped =
            dropped.map(|(path, version)| version_path(&self.archive.dir, path, *version));
        self.archive.remove(&dropped.collect::<Vec<_>>())?;
        Ok(results)
    }

    /// Compares a file with what is archived of it.
    fn decide(&self, within: &Path) -> Result<Action> {
        let path = self.archive.root.join(within);
        let Some(metadata) = jsonl::metadata_if_exists(&path)? else {
            return Ok(Action::Missing);
        };
        let id = FileId::from(&metadata);
        let known = self.manifest.files.get(within);
        let stored = known.map(|known| known.location(&self.archive.dir));
        let there = match &stored {
            Some(stored) => jsonl::metadata_if_exists(stored)?,
            None => None,
        };
        let is_whole = |known: &Member| {
            let there = there.as_ref().filter(|there| there.is_file());
            there.is_some_and(|there| there.len() >= known.packed)
        };
        // Someone else may have changed it since it was written.
        let is_suspect = |known: &Member| {
            let there = there.as_ref().map(|there| FileId::from(there).ctime_ns);
            there != Some(known.packed_ctime_ns)
                || self
                    .suspects
                    .is_none_or(|it| stored.as_ref().is_some_and(|at| it.contains(at)))
        };
        if let Some(known) = known
            && known.id().untouched(&id)
            && known.moved_to.is_none()
            && is_whole(known)
            && !is_suspect(known)
        {
            return Ok(Action::Unchanged);
        }
        let Some((file, metadata)) = open_source(&path)? else {
            return Ok(Action::Missing);
        };
        let source = Source {
            id: FileId::from(&metadata),
            mode: metadata.mode() & 0o7777,
            owner: Owner::from(&metadata),
            attributes: attributes::read(&path)?,
        };
        let (Some(known), Some(stored)) = (known, stored.clone()) else {
            return Ok(Action::Write(source, Reason::New));
        };
        let Some(prefix) = self.continues(&path, &file, &source.id, known, &stored)? else {
            return Ok(Action::Write(source, Reason::Replaced));
        };
        if known.moved_to.is_some() {
            return Ok(Action::Write(source, Reason::Again));
        }
        if !is_whole(known) {
            return Ok(Action::Write(source, Reason::Damaged));
        }
        let content = match CompressedFile::open(&stored, known.packed, known.id()) {
            Ok(content) => content,
            Err(error) if is_damage(&error) => return Ok(Action::Write(source, Reason::Damaged)),
            Err(_) => return Ok(Action::Write(source, Reason::Unread)),
        };
        let frames = content.frames();
        let is_damaged = frames.iter().any(|frame| frame.is_lost);
        let wrong = match is_suspect(known) {
            _ if is_damaged => Some(Reason::Damaged),
            true => damage(known, &stored),
            false => None,
        };
        if let Some(reason) = wrong {
            return Ok(Action::Write(source, reason));
        }
        if !self.rest_matches(&file, known, &stored)? {
            return Ok(Action::Write(source, Reason::Replaced));
        }
        let is_same = known.id().untouched(&source.id) && !known.is_unlisted;
        let there = there.as_ref().map(|there| FileId::from(there).ctime_ns);
        if is_same && there == Some(known.packed_ctime_ns) {
            return Ok(Action::Unchanged);
        }
        let needed = known.len as usize / FRAME + 1;
        // The sync of what an interrupted writer left may have failed.
        let is_left = known.ino == 0 && !known.is_unlisted;
        Ok(match is_left || frames.len() > 2 * needed + SMALL_FRAMES {
            true => Action::Write(source, Reason::Again),
            false => Action::Append(source, prefix),
        })
    }

    /// Returns the hash of the archived bytes if the file starts with them.
    fn continues(
        &self,
        path: &Path,
        file: &File,
        id: &FileId,
        known: &Member,
        stored: &Path,
    ) -> Result<Option<Sha256>> {
        if id.len < known.len {
            return Ok(None);
        }
        let mut sum = Sha256::new();
        let whole = each_block(path, file, 0..known.len, |bytes| {
            sum.update(bytes);
            Ok(())
        })?;
        let archived = match known.sha256 {
            Some(sha256) => Some(sha256),
            // The line of the file is lost.
            None => CompressedFile::open(stored, known.packed, known.id())
                .and_then(|content| {
                    Checksum::digest_reader(jsonl::RangeReader::from_offset(&content, 0))
                })
                .ok(),
        };
        let is_same = whole && archived == Some(Checksum::from(sum.clone()));
        Ok(is_same.then_some(sum))
    }

    /// Returns whether frames after the archived bytes have the content of the file. Their writer
    /// was killed before it appended their line, or the line is lost.
    fn rest_matches(&self, file: &File, known: &Member, stored: &Path) -> Result<bool> {
        let there = stored.symlink_metadata();
        if there.is_ok_and(|there| there.len() == known.packed) {
            return Ok(true);
        }
        let Ok((content, _)) = CompressedFile::open_unlisted(stored) else {
            return Ok(true);
        };
        let mut is_same = true;
        content.each_frame(known.packed, |frame, bytes| {
            let Ok(bytes) = bytes else { return Ok(()) };
            let mut own = vec![0; bytes.len()];
            let read = file.fill_at(&mut own, frame.start);
            is_same &= read.is_ok_and(|read| read == own.len()) && own == bytes;
            Ok(())
        })?;
        Ok(is_same)
    }

    /// Copies what is about to be replaced to versions, because its line describes it until the
    /// new line is appended. Returns the version of each file.
    fn save_versions(&mut self, tasks: &[Task<'_>]) -> Result<BTreeMap<PathBuf, u32>> {
        let (mut lines, mut saved) = (Vec::new(), Vec::new());
        let mut versions = BTreeMap::new();
        for task in tasks {
            let Action::Write(_, Reason::Replaced | Reason::Again) = task.action else {
                continue;
            };
            let Some(known) = self.manifest.files.get(task.within) else {
                continue;
            };
            // A killed writer may have saved it already.
            if let Some(version) = known.moved_to {
                versions.insert(task.within.to_owned(), version);
                continue;
            }
            let (from, dir) = (known.location(&self.archive.dir), &self.archive.dir);
            let last = self.manifest.versions_of(task.within).last();
            let mut version = last.unwrap_or(0) + 1;
            while jsonl::exists(&version_path(dir, task.within, version))? {
                version += 1;
            }
            let to = version_path(dir, task.within, version);
            self.archive.create_parent(&to)?;
            match fs::hard_link(&from, &to) {
                Ok(()) => {}
                Err(error) if jsonl::is_absence(&error) => continue,
                // The file system has no hard links.
                Err(_) => {
                    fs::copy(&from, &to).map_err(|error| write_error(&to, error))?;
                }
            }
            // What follows the listed frames is kept too: its line may be lost.
            let all = CompressedFile::open_unlisted(&to).ok();
            let all = all.filter(|(_, packed)| *packed > known.packed);
            let (len, packed, sha256) = match &all {
                Some((content, packed)) => (content.size().unwrap_or(known.len), *packed, None),
                None => (known.len, known.packed, known.sha256),
            };
            saved.push(to);
            versions.insert(task.within.to_owned(), version);
            lines.push(Line::File(Box::new(Member {
                version: Some(version),
                until: Some(self.now),
                was: None,
                list_digest: None,
                len,
                packed,
                sha256,
                ..known.clone()
            })));
        }
        self.archive.sync(&saved)?;
        self.archive.append(self.manifest, lines)?;
        Ok(versions)
    }

    /// Compresses a file, or what was appended to it.
    fn write(&self, task: &Task<'_>, encoder: &mut FrameEncoder) -> Result<Option<Written>> {
        let to = file_path(&self.archive.dir, task.within);
        let path = self.archive.root.join(task.within);
        let known = self.manifest.files.get(task.within);
        match (&task.action, known) {
            (Action::Append(source, prefix), Some(known)) => {
                let (mut sum, from) = (prefix.clone(), known.len);
                let mut packed = known.packed;
                let there = to.symlink_metadata();
                let has_rest = there.is_ok_and(|there| there.len() > known.packed);
                if source.id.len > known.len || has_rest {
                    packed = append(&to, known, |mut file| {
                        file.seek(SeekFrom::End(0))
                            .map_err(|error| write_error(&to, error))?;
                        copy(&path, source, from, file, &to, &mut sum, encoder)
                    })?;
                }
                Written::new(to, packed, sum, source.id.len - from, known.packed, None).map(Some)
            }
            (Action::Write(source, reason), _) => {
                let temp = temporary_path(&to);
                self.archive.create_parent(&to)?;
                let made = self.write_whole(&path, source, &temp, &to, encoder);
                let (packed, sum) = made.inspect_err(|_| {
                    // It takes space that may be needed. If it cannot be removed, the next writer
                    // replaces it.
                    let _ = fs::remove_file(&temp);
                })?;
                let known = known.filter(|_| *reason != Reason::Replaced);
                let added = match reason {
                    Reason::Again => source.id.len - known.map_or(0, |known| known.len),
                    _ => source.id.len,
                };
                Written::new(to, packed, sum, added, 0, Some(*reason)).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn write_whole(
        &self,
        path: &Path,
        source: &Source,
        temp: &Path,
        to: &Path,
        encoder: &mut FrameEncoder,
    ) -> Result<(u64, Sha256)> {
        let failed = |error| write_error(to, error);
        let flags = OFlags::NOFOLLOW;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(temp)
            .map_err(failed)?;
        let mut sum = Sha256::new();
        let packed = copy(path, source, 0, &file, to, &mut sum, encoder)?;
        // What it replaces may be the only copy.
        if jsonl::exists(to)? {
            file.sync_all().map_err(failed)?;
        }
        fs::rename(temp, to).map_err(failed)?;
        Ok((packed, sum))
    }

    /// Returns the new line of a file; `None` if it is unchanged.
    fn member(
        &self,
        contents: &Contents,
        task: &Task<'_>,
        written: Option<&Written>,
    ) -> Option<Member> {
        let known = self.manifest.files.get(task.within);
        let is_main = contents
            .files
            .first()
            .is_some_and(|(main, _)| main == task.within);
        let rows = contents.rows.iter().filter(|(log, _)| log == task.within);
        let mut rows: Vec<String> = rows.map(|(_, text)| text.clone()).collect();
        // Rows of a log that is no longer listed stay.
        if let Some(known) = known.filter(|_| rows.is_empty()) {
            rows.clone_from(&known.list_rows);
        }
        let facts = (
            sessions(contents, known, is_main),
            rows,
            contents.list_digest.filter(|_| is_main),
        );
        let (Some(written), Action::Append(source, _) | Action::Write(source, _)) =
            (written, &task.action)
        else {
            let known = known?;
            let same = known.sessions == facts.0 && known.list_rows == facts.1;
            if same && known.list_digest == facts.2 {
                return None;
            }
            return Some(Member {
                sessions: facts.0,
                list_rows: facts.1,
                list_digest: facts.2,
                archived: self.now,
                generation: known.generation + 1,
                ..known.clone()
            });
        };
        Some(Member {
            path: task.within.to_owned(),
            version: None,
            len: source.id.len,
            packed: written.packed,
            sha256: Some(written.sha256),
            mode: source.mode,
            owner: Some(source.owner),
            attributes: source.attributes.clone(),
            mtime_ns: source.id.mtime_ns,
            ctime_ns: source.id.ctime_ns,
            dev: source.id.dev,
            ino: source.id.ino,
            packed_ctime_ns: written.ctime_ns,
            archived: self.now,
            generation: known.map_or(0, |known| known.generation) + 1,
            sessions: facts.0,
            list_rows: facts.1,
            list_digest: facts.2,
            was: None,
            until: None,
            moved_to: None,
            is_unlisted: false,
        })
    }

    /// Returns the directories of files whose metadata changed.
    fn changed_dirs(&self, contents: &Contents) -> Result<Vec<ArchivedDir>> {
        let above = contents.files.iter();
        let above = above.flat_map(|(path, _)| path.ancestors().skip(1));
        let above: BTreeSet<&Path> = above.filter(|dir| !dir.as_os_str().is_empty()).collect();
        let mut changed = Vec::new();
        for within in above {
            let now = ArchivedDir::read(&self.archive.root, within)?;
            changed.extend(now.filter(|now| self.manifest.dirs.get(within) != Some(now)));
        }
        Ok(changed)
    }

    /// Returns the versions of documents beyond the limit, the oldest first, apart from those that
    /// are `dropped` already.
    fn excess_versions(
        &self,
        groups: &[Contents],
        dropped: &[(PathBuf, u32)],
    ) -> Vec<(PathBuf, u32)> {
        let files = groups.iter().flat_map(|contents| &contents.files);
        let documents = files.filter(|(_, is_log)| !is_log).map(|(path, _)| path);
        let excess = documents.flat_map(|path| {
            let is_dropped = |version: u32| dropped.contains(&(path.clone(), version));
            let versions = self.manifest.versions_of(path);
            let versions: Vec<u32> = versions.filter(|it| !is_dropped(*it)).collect();
            let excess = versions.len().saturating_sub(EARLIER);
            let oldest = versions.into_iter().take(excess);
            oldest.map(|version| (path.clone(), version))
        });
        excess.collect()
    }

    /// Renames what is archived of sessions whose folder was renamed: the same log, by device, inode
    /// and content, at another path.
    fn rename_folders(&mut self, groups: &[Contents]) -> Result<()> {
        let layout = self.archive.layout;
        let mut new: HashMap<(u64, u64), &Path> = HashMap::new();
        let files = groups.iter().flat_map(|contents| &contents.files);
        for (within, _) in files.filter(|(_, is_log)| *is_log && !self.archive.lone) {
            let kind = layout.classify(within).map(|artifact| artifact.kind);
            let is_log = kind == Some(ArtifactKind::SessionLog);
            if is_log && !self.manifest.files.contains_key(within) {
                let path = self.archive.root.join(within);
                let id = jsonl::metadata_if_exists(&path)?.map(|it| FileId::from(&it));
                new.extend(id.map(|id| ((id.dev, id.ino), within.as_path())));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let mut folders: BTreeMap<(String, Option<String>), Option<String>> = BTreeMap::new();
        for known in self.manifest.files.values() {
            let Some(now) = new.get(&(known.dev, known.ino)) else {
                continue;
            };
            let (Some(old), Some(now)) = (layout.classify(&known.path), layout.classify(now))
            else {
                continue;
            };
            if old.kind == ArtifactKind::SessionLog && old.session == now.session {
                let path = self.archive.root.join(layout.path_for(&now));
                let is_moved = !jsonl::exists(&self.archive.root.join(&known.path))?;
                let Some((file, metadata)) = open_source(&path)?.filter(|_| is_moved) else {
                    continue;
                };
                let (id, stored) = (FileId::from(&metadata), known.location(&self.archive.dir));
                let session = old.session.map(|it| it.to_string()).unwrap_or_default();
                if self.continues(&path, &file, &id, known, &stored)?.is_some() {
                    folders.insert((session, old.folder), now.folder);
                }
            }
        }
        if folders.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::new();
        let rename = |member: &Member| -> Option<Member> {
            let mut renamed = member.clone();
            let mut is_renamed = false;
            for key in &mut renamed.sessions {
                if let Some(now) = folders.get(&(key.id.clone(), key.folder.clone())) {
                    key.folder.clone_from(now);
                    is_renamed = true;
                }
            }
            // While its content is being replaced, only its path says where it is.
            is_renamed &= member.moved_to.is_none();
            let mut artifact = layout.classify(&member.path).filter(|_| is_renamed)?;
            let key = member.sessions.iter().find_map(|key| {
                let known = folders.get(&(key.id.clone(), artifact.folder.clone()));
                known.filter(|_| artifact.folder.is_some())
            });
            if let Some(now) = key {
                artifact.folder.clone_from(now);
                renamed.path = layout.path_for(&artifact);
                renamed.was = Some(member.path.clone());
            }
            let is_taken =
                renamed.path != member.path && self.manifest.files.contains_key(&renamed.path);
            (!is_taken).then_some(renamed)
        };
        for member in self.manifest.files.values() {
            let Some(renamed) = rename(member) else {
                continue;
            };
            if renamed.path != member.path {
                for version in self.manifest.versions_of(&member.path) {
                    let key = (member.path.clone(), version);
                    let earlier = self.manifest.versions.get(&key).cloned();
                    lines.extend(earlier.map(|earlier| {
                        Line::File(Box::new(Member {
                            path: renamed.path.clone(),
                            was: Some(member.path.clone()),
                            ..earlier
                        }))
                    }));
                }
                lines.push(Line::Gone(member.path.clone(), None));
            }
            lines.push(Line::File(Box::new(renamed)));
        }
        self.archive.append(self.manifest, lines)?;
        self.archive.finish_renames(self.manifest)
    }
}

/// A compressed file that was written.
struct Written {
    file: PathBuf,
    packed: u64,
    ctime_ns: i64,
    sha256: Checksum,
    added: u64,
    /// Offset from which on it was written.
    since: u64,
    reason: Option<Reason>,
}

impl Written {
    fn new(
        file: PathBuf,
        packed: u64,
        sum: Sha256,
        added: u64,
        since: u64,
        reason: Option<Reason>,
    ) -> Result<Self> {
        let metadata = file.symlink_metadata();
        let metadata = metadata.map_err(|error| Error::io("stat", &file, error))?;
        Ok(Written {
            packed,
            ctime_ns: FileId::from(&metadata).ctime_ns,
            sha256: sum.into(),
            added,
            since,
            reason,
            file,
        })
    }
}

/// Returns the sessions of a file's line.
fn sessions(contents: &Contents, known: Option<&Member>, is_main: bool) -> Vec<SessionKey> {
    let known = known
        .map(|known| known.sessions.as_slice())
        .unwrap_or_default();
    let is_known = |key: &SessionKey| contents.sessions.contains(key);
    match (is_main, known.first()) {
        (true, _) => {
            // The files of earlier sessions are still archived with it.
            let earlier = known.iter().filter(|key| !is_known(key)).cloned();
            contents.sessions.iter().cloned().chain(earlier).collect()
        }
        (false, Some(first)) if is_known(first) => known.to_vec(),
        (false, _) => contents.sessions.first().cloned().into_iter().collect(),
    }
}
