//! Archived sessions: compressed, checksummed, readable without unpacking the rest.
//!
//! One file, a *pack*, holds a session with all its files, or several sessions that share log
//! files. Packs are stored as `archive/<root>/<session>.pack` in the state directory and only grow:
//! archiving a log that grew adds the new bytes. docs/STATE.md specifies the format.
//!
//! Owns the pack format, reading and writing packs, and detecting damage. The store decides which
//! files a session has and removes them.

mod archive_all;
mod attributes;
mod find;
mod locate;
mod member_list;
mod open_error;
mod pack;
mod pack_index;
mod pack_writer;
mod remove;
mod restore;
mod restore_filter;
mod restore_sources;
mod resumable_sha256;
mod root_files;
mod salvage;
mod session;
mod superseded;
#[cfg(test)]
mod tests;
mod update;
mod verify;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

pub use archive_all::{ArchiveAllOptions, ArchiveAllReport};
pub use attributes::{ArchivedDir, ExtendedAttribute, Owner};
pub use locate::FileLocator;
pub(crate) use member_list::{MemberList, is_attachment, path_hash};
pub use pack::{Pack, PackedFile};
pub use pack_index::{
    Checksum, Frame, FrameRange, Member, PackIndex, PackedListRow, PackedSession, VERSION,
};
pub use remove::PackRemoval;
pub use restore::{RestoreOutcome, Restored, RestoredDir, RestoredFile};
pub use restore_sources::RestoreSources;
pub use root_files::ROOT_ID;
pub(crate) use root_files::is_listed_when_archived;
pub use salvage::Salvaged;
pub use session::Archived;
pub(crate) use superseded::superseding_packs;
pub use update::{PackContents, PackUpdate, SetAside, update_pack};
pub use verify::{Damage, VerifyReport, verify};

use crate::error::{Error, Result};
use crate::store::{ReadFailures, Root};

/// The packs in a state directory.
#[derive(Clone, Debug)]
pub struct Archive {
    dir: PathBuf,
    /// Cache of pack directories by layout and root path.
    dirs: Arc<Mutex<HashMap<(&'static str, PathBuf), PathBuf>>>,
    /// Receives errors of files that readers could not read and skipped.
    failures: ReadFailures,
}

impl Archive {
    /// Opens the archive of a state directory, which may not exist yet.
    pub fn open(state: &Path) -> Self {
        Archive {
            dir: state.join("archive"),
            dirs: Arc::default(),
            failures: ReadFailures::default(),
        }
    }

    /// Returns the same archive, with read failures reported to `failures`.
    pub fn reporting_to(mut self, failures: &ReadFailures) -> Self {
        self.failures = failures.clone();
        self
    }

    /// Returns the directory of the archive.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Opens every pack, ordered by name. A pack that cannot be read is an `Err` at its position.
    pub fn packs(&self) -> Result<Vec<Result<Pack>>> {
        let paths = self.pack_paths()?;
        Ok(paths.iter().map(|path| Pack::open(path)).collect())
    }

    /// Returns whether `path` is a directory. Follows symbolic links.
    fn is_dir(&self, path: &Path) -> bool {
        let found = self.failures.target_metadata(path);
        found.is_some_and(|found| found.is_dir())
    }

    /// Returns the paths of all packs, ordered by name.
    pub fn pack_paths(&self) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for root in names(&self.dir)? {
            if self.is_dir(&root) {
                let packs = names(&root)?;
                paths.extend(packs.into_iter().filter(|path| is_pack(path)));
            }
        }
        Ok(paths)
    }

    /// Returns the paths of the packs of `roots`, or of all roots.
    pub fn pack_paths_in(&self, roots: Option<&[Root]>) -> Result<Vec<PathBuf>> {
        let Some(roots) = roots else {
            return self.pack_paths();
        };
        let mut paths = Vec::new();
        for root in roots {
            paths.extend(self.pack_paths_of_root(root)?);
        }
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// Returns the paths of the packs of one root, ordered by name.
    pub fn pack_paths_of_root(&self, root: &Root) -> Result<Vec<PathBuf>> {
        let mut packs = names(&self.root_dir(root))?;
        packs.retain(|path| is_pack(path));
        Ok(packs)
    }

    /// Returns the paths of packs of `roots`, or of all roots, that could not be opened and were
    /// set aside.
    pub fn set_aside_in(&self, roots: Option<&[Root]>) -> Result<Vec<PathBuf>> {
        let dirs = match roots {
            None => names(&self.dir)?,
            Some(roots) => roots.iter().map(|root| self.root_dir(root)).collect(),
        };
        let mut aside = Vec::new();
        for dir in dirs {
            aside.extend(names(&dir)?.into_iter().filter(|path| is_aside(path)));
        }
        aside.sort();
        aside.dedup();
        Ok(aside)
    }

    /// Returns the roots with at least one readable pack, whether they still exist or not.
    pub fn roots(&self) -> Result<Vec<Root>> {
        let mut roots = Vec::new();
        let dirs = names(&self.dir)?.into_iter();
        for dir in dirs.filter(|path| self.is_dir(path)) {
            let mut packs = names(&dir)?.into_iter().filter(|path| is_pack(path));
            let readable = packs.find_map(|path| self.failures.ok(Pack::open(&path)));
            let root = readable.map(|pack| Root::new(&pack.index.layout, &pack.index.root));
            roots.extend(root.transpose()?);
        }
        Ok(roots)
    }

    /// Returns the directory of the packs of a root.
    pub fn root_dir(&self, root: &Root) -> PathBuf {
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (root.layout.name(), root.path.clone());
        let dir = dirs.entry(name).or_insert_with(|| self.find_dir(root));
        dir.clone()
    }

    fn find_dir(&self, root: &Root) -> PathBuf {
        let layout = root.layout.name();
        // If the root's path cannot be resolved, its packs cannot be found either.
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
        let tag = tag(&[layout.as_bytes(), path.as_os_str().as_encoded_bytes()]);
        self.dir.join(format!("{layout}-{name}-{tag}"))
    }

    /// Returns the path of a session's pack. Two folders of a root may each have a session with the
    /// same id.
    pub fn pack_path(&self, root: &Root, session: &str, folder: Option<&str>) -> PathBuf {
        self.root_dir(root).join(pack_name(session, folder))
    }
}

/// Returns the file name of a session's pack.
pub(crate) fn pack_name(session: &str, folder: Option<&str>) -> String {
    let tag = tag(&[folder.unwrap_or_default().as_bytes()]);
    // Session ids are safe as file names, and short enough.
    format!("{session}.{tag}.pack")
}

/// Returns whether the pack's file name starts with `id`.
fn is_of(path: &Path, id: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(id))
}

/// Prefix of the names of packs that were set aside; the time and the pack's name follow.
const ASIDE: &str = ".damaged-";

fn is_aside(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(ASIDE) && name.ends_with(".pack"))
}

/// Returns whether a pack that was set aside belongs, by its name, to a session whose id starts
/// with `id`.
pub fn is_set_aside_pack_of(path: &Path, id: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name.and_then(|name| name.strip_prefix(ASIDE)) else {
        return false;
    };
    // The time is followed by a number if several packs were set aside in the same second.
    let Some((_, name)) = name.split_once('-') else {
        return false;
    };
    let counted = name.split_once('-').filter(|(count, _)| {
        let digits = count.bytes().all(|byte| byte.is_ascii_digit());
        digits && count.len() <= 3
    });
    !id.is_empty()
        && (name.starts_with(id) || counted.is_some_and(|(_, name)| name.starts_with(id)))
}

/// Returns a short hash that makes names unique.
fn tag(parts: &[&[u8]]) -> String {
    let mut sum = Sha256::new();
    for part in parts {
        sum.update((part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    let digits = sum.finalize();
    digits
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn is_pack(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(".pack") && !name.starts_with('.'))
}

/// Returns the sorted paths in a directory; empty if the directory does not exist.
fn names(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io("read", dir, error);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        // If a file exists in place of the directory, there is no archive either.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<io::Result<_>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}
