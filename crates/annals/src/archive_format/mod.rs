//! The format of the archive: compressed, checksummed copies of files, readable in place and without
//! annals.
//!
//! The archive of a root is a tree of zstd files with the paths of the root, and a manifest. A log
//! that grew gets frames appended. docs/STATE.md specifies the format.
//!
//! Reads it and detects damage. The module `archive` decides what is copied, removed and restored.

pub(crate) mod archived_session;
pub(crate) mod attributes;
pub(crate) mod checksum;
pub(crate) mod compressed_file;
pub(crate) mod manifest;
pub(crate) mod restore_filter;
pub(crate) mod root_archive;
pub(crate) mod verify;
mod zstd_codec;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use archived_session::ArchivedSession;
pub(crate) use checksum::Checksum;
pub use compressed_file::{CompressedFile, Frame};
pub use manifest::{Member, SessionKey};
pub(crate) use root_archive::RootArchive;
pub use verify::{Damage, VerifyReport, verify};

use crate::error::{Error, Result};
use crate::read_failures::ReadFailures;
use crate::root::Root;
use annals_jsonl::FileId;
use annals_layouts::model::ArtifactKind;
use archived_session::group;
use manifest::Manifest;

/// Names the files that belong to no session where a session is named by its id.
pub const ROOT_ID: &str = "root";

/// Returns whether an archived file of this kind is listed like a file in the root. Without the
/// root's session list, archived sessions would lose their projects.
pub(crate) fn is_listed_when_archived(kind: ArtifactKind) -> bool {
    matches!(
        kind,
        ArtifactKind::History | ArtifactKind::Plan | ArtifactKind::SessionList
    )
}

/// Manifests by directory, as they were last read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManifestCache(Arc<Mutex<HashMap<PathBuf, Manifest>>>);

/// Layout and path of a root, and whether its files are outside any tree.
type RootKey = (&'static str, PathBuf, bool);

/// The archives of roots in a state directory.
#[derive(Clone, Debug)]
pub struct Archive {
    pub(crate) dir: PathBuf,
    /// Cache of directories.
    dirs: Arc<Mutex<HashMap<RootKey, PathBuf>>>,
    /// Manifests by directory, as they were last read.
    manifests: ManifestCache,
    /// Receives errors of files that readers could not read and skipped.
    pub(crate) failures: ReadFailures,
}

impl Archive {
    /// Opens the archive of a state directory, which may not exist yet.
    pub fn open(state: &Path) -> Self {
        Archive {
            dir: state.join("archive"),
            dirs: Arc::default(),
            manifests: ManifestCache::default(),
            failures: ReadFailures::default(),
        }
    }

    /// Returns the same archive, with read failures reported to `failures`.
    pub fn reporting_to(mut self, failures: &ReadFailures) -> Self {
        self.failures = failures.clone();
        self
    }

    /// Returns the same archive, with the manifests that were read already.
    pub(crate) fn sharing(mut self, manifests: &ManifestCache) -> Self {
        self.manifests = manifests.clone();
        self
    }

    /// Returns the directory of the archive.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns everything that is archived, and the damage of manifests.
    pub fn sessions(&self) -> Result<(Vec<ArchivedSession>, Vec<Damage>)> {
        self.sessions_in(None)
    }

    /// Like [`sessions`](Self::sessions), limited to `roots`.
    pub fn sessions_in(
        &self,
        roots: Option<&[Root]>,
    ) -> Result<(Vec<ArchivedSession>, Vec<Damage>)> {
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        for dir in self.root_dirs(roots)? {
            match self.sessions_at(&dir) {
                Ok((sessions, wrong)) => {
                    found.extend(sessions);
                    damaged.extend(wrong);
                }
                Err(error) => damaged.push(Damage::unreadable(&dir, &error)),
            }
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok((found, damaged))
    }

    /// Returns everything in the archive of one root, and the damage of its manifest and name.
    pub(crate) fn sessions_at(&self, dir: &Path) -> Result<(Vec<ArchivedSession>, Vec<Damage>)> {
        let Some(root) = RootArchive::open(dir)? else {
            return Ok((Vec::new(), Vec::new()));
        };
        let manifest = root.read()?;
        let name = root.damaged_name();
        let name = name.map(|(path, error)| Damage::name(&path, &error));
        let damaged = Damage::manifest(&root, &manifest).into_iter().chain(name);
        let damaged = damaged.collect();
        Ok((group(&Arc::new(root), &manifest), damaged))
    }

    /// Returns the directories of the archives of `roots`, or of all roots, ordered by name.
    pub(crate) fn root_dirs(&self, roots: Option<&[Root]>) -> Result<Vec<PathBuf>> {
        let Some(roots) = roots else {
            let mut dirs = names(&self.dir)?;
            dirs.retain(|path| {
                let found = self.failures.target_metadata(path);
                found.is_some_and(|found| found.is_dir())
            });
            return Ok(dirs);
        };
        let both = |root: &Root| [false, true].map(|lone| self.root_dir_of(root, lone));
        let mut dirs: Vec<PathBuf> = roots.iter().flat_map(both).collect();
        dirs.sort();
        dirs.dedup();
        Ok(dirs)
    }

    /// Returns the roots with archived files, whether they still exist or not.
    pub fn roots(&self) -> Result<Vec<Root>> {
        let mut roots = Vec::new();
        for dir in self.root_dirs(None)? {
            let root = self.failures.ok(RootArchive::open(&dir)).flatten();
            let root = root.filter(|root| !root.lone);
            roots.extend(root.map(|it| Root::with_layout(it.layout, it.root)));
        }
        Ok(roots)
    }

    /// Returns whether anything of a root may be archived.
    pub(crate) fn has_files_of(&self, root: &Root) -> bool {
        !matches!(annals_jsonl::exists(&self.root_dir(root)), Ok(false))
    }

    /// Returns the archive of a root; `None` if nothing of it is archived.
    pub(crate) fn open_root(&self, root: &Root) -> Result<Option<RootArchive>> {
        let dir = self.root_dir(root);
        let opened = match RootArchive::open(&dir) {
            Err(error) if root_archive::has_lost_root(&dir) => {
                self.failures.report(error);
                Some(RootArchive {
                    dir,
                    layout: root.layout,
                    root: root.path.clone(),
                    lone: false,
                })
            }
            opened => opened?,
        };
        // Another path may lead to the same root.
        Ok(opened.map(|opened| RootArchive {
            root: root.path.clone(),
            ..opened
        }))
    }

    /// Returns the directory of the archive of a root.
    pub fn root_dir(&self, root: &Root) -> PathBuf {
        self.root_dir_of(root, false)
    }

    pub(crate) fn root_dir_of(&self, root: &Root, lone: bool) -> PathBuf {
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (root.layout.name(), root.path.clone(), lone);
        let dir = dirs
            .entry(name)
            .or_insert_with(|| self.find_dir(root, lone));
        dir.clone()
    }

    fn find_dir(&self, root: &Root, lone: bool) -> PathBuf {
        let layout = root.layout.name();
        // If the root's path cannot be resolved, its archive cannot be found either.
        let path = root
            .failures
            .ok_io(&root.path, root.path.canonicalize())
            .or_else(|| std::path::absolute(&root.path).ok());
        let path = path.unwrap_or_else(|| root.path.clone());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let safe = name
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        let name: String = safe.take(32).collect();
        let mut parts = vec![layout.as_bytes(), path.as_os_str().as_encoded_bytes()];
        parts.extend(lone.then_some(&b"lone"[..]));
        self.dir.join(format!("{layout}-{name}-{}", tag(&parts)))
    }

    /// Runs `work` with the locked archive of a root, which is created if it does not exist.
    pub(crate) fn with_locked<T>(
        &self,
        root: &Root,
        lone: bool,
        work: impl FnOnce(&RootArchive, &mut Manifest) -> Result<T>,
    ) -> Result<T> {
        let archive = self.archive_of(root, lone);
        let _lock = archive.create()?;
        let mut manifest = self.locked_manifest(&archive)?;
        // The line of a file from before its folder was renamed must not count.
        let is_renamed = |it: &Member| it.is_unlisted && it.was.is_some();
        if archive.is_interrupted()? || manifest.files.values().any(is_renamed) {
            archive.list_unlisted(&mut manifest)?;
        }
        let done = work(&archive, &mut manifest);
        self.remember(&archive, manifest);
        done
    }

    /// Returns the archive of a root, which may not exist yet.
    pub(crate) fn archive_of(&self, root: &Root, lone: bool) -> RootArchive {
        RootArchive {
            dir: self.root_dir_of(root, lone),
            layout: root.layout,
            root: root.path.clone(),
            lone,
        }
    }

    /// Reads a manifest, unless it is unchanged since it was last read. The caller must hold the
    /// lock.
    pub(crate) fn locked_manifest(&self, archive: &RootArchive) -> Result<Manifest> {
        match self.known_manifest(archive)?.filter(|it| it.is_scanned) {
            Some(known) => Ok(known),
            None => archive.read_locked(),
        }
    }

    /// Returns a manifest that is unchanged since it was read.
    pub(crate) fn known_manifest(&self, archive: &RootArchive) -> Result<Option<Manifest>> {
        let known = {
            let mut known = self
                .manifests
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            known.remove(&archive.dir)
        };
        let there = annals_jsonl::metadata_if_exists(&archive.dir.join(manifest::NAME))?;
        let id = there.map(|there| annals_jsonl::FileId::from(&there));
        let same = |known: &Manifest| known.exists && id.is_some_and(|id| id.untouched(&known.id));
        Ok(known.filter(same))
    }

    pub(crate) fn remember(&self, archive: &RootArchive, manifest: Manifest) {
        let mut known = self
            .manifests
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.insert(archive.dir.clone(), manifest);
    }

    /// Returns whether a session of a root is archived.
    pub fn has_session(&self, layout: &str, root: &Path, session: &str) -> bool {
        let Ok(root) = Root::new(layout, root) else {
            return false;
        };
        let mut dirs = [false, true]
            .map(|lone| self.root_dir_of(&root, lone))
            .into_iter();
        dirs.any(|dir| {
            let found = self.failures.ok(self.sessions_at(&dir));
            let sessions = found.map(|(sessions, _)| sessions).unwrap_or_default();
            sessions
                .iter()
                .any(|it| it.sessions.iter().any(|key| key.id == session))
        })
    }

    /// Returns whether a file of a root that belongs to no session is archived.
    pub(crate) fn has_file(&self, root: &Root, within: &Path) -> Result<bool> {
        let Some(root) = self.open_root(root)? else {
            return Ok(false);
        };
        let manifest = root.read_missing(&|path| path != within)?;
        if let Some(damage) = Damage::manifest(&root, &manifest) {
            self.failures.report(damage.into());
        }
        Ok(manifest.files.contains_key(within))
    }
}

/// An archived file that is not on disk.
#[derive(Clone, Debug)]
pub(crate) struct ArchivedMember {
    /// The directory of the archive of its root.
    dir: Arc<Path>,
    pub(crate) member: Arc<Member>,
}

/// The archived files of a root that are not on disk.
pub(crate) struct MissingFiles {
    pub(crate) members: Vec<ArchivedMember>,
    /// The damage of the manifest.
    pub(crate) damage: Option<Error>,
}

impl Archive {
    /// Returns the archived files of a root for which `is_there` returns false; `None` if nothing of
    /// the root is archived.
    pub(crate) fn missing_files(
        &self,
        root: &Root,
        is_there: &dyn Fn(&Path) -> bool,
    ) -> Result<Option<MissingFiles>> {
        let Some(archive) = self.open_root(root)? else {
            return Ok(None);
        };
        let manifest = archive.read_missing(is_there)?;
        let damage = Damage::manifest(&archive, &manifest).map(Error::from);
        let dir: Arc<Path> = archive.dir.into();
        let members = manifest.files.into_values().map(|member| ArchivedMember {
            dir: Arc::clone(&dir),
            member: Arc::new(member),
        });
        Ok(Some(MissingFiles {
            members: members.collect(),
            damage,
        }))
    }
}

impl ArchivedMember {
    /// Returns the identity for readers: that of the original file, or another one if the compressed
    /// file was changed since it was written.
    pub(crate) fn id(&self) -> Result<FileId> {
        let path = self.member.location(&self.dir);
        let there = path.symlink_metadata();
        let there = there.map_err(|error| Error::io("read", &path, error))?;
        if !there.is_file() {
            let why = io::Error::other("it is not a regular file");
            return Err(Error::io("read", &path, why));
        }
        let there = FileId::from(&there);
        let id = self.member.id();
        Ok(match there.ctime_ns == self.member.packed_ctime_ns {
            true => id,
            false => FileId {
                ctime_ns: there.ctime_ns,
                ..id
            },
        })
    }

    /// Opens it for reading.
    pub(crate) fn open(&self) -> Result<CompressedFile> {
        let path = self.member.location(&self.dir);
        CompressedFile::open(&path, self.member.packed, self.member.id())
            .map_err(|error| Error::io("read", &path, error))
    }
}

/// Returns a short hash that makes names unique.
fn tag(parts: &[&[u8]]) -> String {
    let mut all = Vec::new();
    for part in parts {
        all.extend((part.len() as u64).to_le_bytes());
        all.extend_from_slice(part);
    }
    let mut digits = Checksum::compute(&all).to_string();
    digits.truncate(8);
    digits
}

/// Returns the sorted paths in a directory; empty if the directory does not exist.
pub(crate) fn names(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io("read", dir, error);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        // If a file exists in place of the directory, there is no archive either.
        Err(error) if annals_jsonl::is_absence(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<io::Result<_>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}
