//! Sessions kept in annals' own store: compressed, checksummed, read without unpacking the rest.
//!
//! One file, a *pack*, holds a session with everything that belongs to it, or several sessions whose
//! logs are the same files. A pack lies in `archive/<root>/<session>.pack` of the state directory and
//! only grows: archiving a log that grew adds what was added. docs/STATE.md tells of its form.
//!
//! Owns packs: their form, writing and reading them, telling damage. Which files a session has, and
//! removing them, is the store's business.

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

/// The packs of a state directory.
#[derive(Clone, Debug)]
pub struct Archive {
    dir: PathBuf,
    /// The directories of roots that were asked for, by layout and path.
    dirs: Arc<Mutex<HashMap<(&'static str, PathBuf), PathBuf>>>,
    /// Where readers report what they could not read and went on without.
    failures: ReadFailures,
}

impl Archive {
    /// The archive of a state directory; there may be nothing in it yet.
    pub fn open(state: &Path) -> Self {
        Archive {
            dir: state.join("archive"),
            dirs: Arc::default(),
            failures: ReadFailures::default(),
        }
    }

    /// The same archive, whose readers report read failures to `failures`.
    pub fn reporting_to(mut self, failures: &ReadFailures) -> Self {
        self.failures = failures.clone();
        self
    }

    /// Where it lies.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Every pack, in the order of their names; one that cannot be read is told in its place.
    pub fn packs(&self) -> Result<Vec<Result<Pack>>> {
        let paths = self.pack_paths()?;
        Ok(paths.iter().map(|path| Pack::open(path)).collect())
    }

    /// Whether a directory lies there, perhaps behind a link.
    fn is_dir(&self, path: &Path) -> bool {
        let found = self.failures.target_metadata(path);
        found.is_some_and(|found| found.is_dir())
    }

    /// Where packs lie, in the order of their names.
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

    /// Where the packs of some roots lie, or of all.
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

    /// Where the packs of one root lie, in the order of their names.
    pub fn pack_paths_of_root(&self, root: &Root) -> Result<Vec<PathBuf>> {
        let mut packs = names(&self.root_dir(root))?;
        packs.retain(|path| is_pack(path));
        Ok(packs)
    }

    /// Where the packs of some roots lie, or of all, that could not be opened and were set aside.
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

    /// The roots of which something is kept, whether they are still there or not.
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

    /// Where the packs of a root lie.
    pub fn root_dir(&self, root: &Root) -> PathBuf {
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (root.layout.name(), root.path.clone());
        let dir = dirs.entry(name).or_insert_with(|| self.find_dir(root));
        dir.clone()
    }

    fn find_dir(&self, root: &Root) -> PathBuf {
        let layout = root.layout.name();
        // Of a root that cannot be found the packs cannot be, either.
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

    /// Where a session of a root is kept. Two folders of a root may hold a session of one id.
    pub fn pack_path(&self, root: &Root, session: &str, folder: Option<&str>) -> PathBuf {
        self.root_dir(root).join(pack_name(session, folder))
    }
}

/// The name of a session's pack among those of its root.
pub(crate) fn pack_name(session: &str, folder: Option<&str>) -> String {
    let tag = tag(&[folder.unwrap_or_default().as_bytes()]);
    // An id is a safe name, and short enough.
    format!("{session}.{tag}.pack")
}

/// Whether a pack, by its name, is that of a session with such a beginning.
fn is_of(path: &Path, id: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(id))
}

/// What the name of a pack begins with that was set aside; when follows, and its name.
const ASIDE: &str = ".damaged-";

fn is_aside(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(ASIDE) && name.ends_with(".pack"))
}

/// Whether a pack that was set aside is, by its name, that of a session with such a beginning.
pub fn is_set_aside_pack_of(path: &Path, id: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name.and_then(|name| name.strip_prefix(ASIDE)) else {
        return false;
    };
    // Behind the time stands a number, if there were several in one second.
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

/// A few digits that tell names apart.
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

/// What lies in a directory, in order; nothing if there is none.
fn names(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io("read", dir, error);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        // Where a file lies in the place of a directory, there is no archive either.
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
