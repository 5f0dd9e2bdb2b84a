//! Permanently removes packs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::locate::FileLocator;
use super::member_list;
use super::pack::{Pack, refused};
use super::pack_index::{Member, PackIndex};
use super::salvage::Salvaged;
use super::superseded::{has_all, has_same_sessions};
use super::{Archive, is_aside, is_of, is_pack, is_set_aside_pack_of, names};
use crate::error::{Error, Result};
use crate::store::{ReadFailures, Root};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, AppendOptions, FileId, Log};

/// A pack that is removed, or would be.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PackRemoval {
    /// The pack.
    pub pack: PathBuf,
    /// Its sessions; empty if it cannot be read.
    pub sessions: Vec<String>,
    /// The layout's name, if known.
    pub layout: Option<String>,
    /// The root of its files, if known.
    pub root: Option<PathBuf>,
    /// Number of files in it.
    pub files: usize,
    /// Total bytes of these files.
    pub bytes: u64,
    /// Length of the pack.
    pub packed: u64,
    /// Number of files that are neither in the root nor in a remaining pack, so this pack has the
    /// only copy known to annals.
    pub only: usize,
    /// Number of files that are no longer in the root but are in a remaining pack.
    pub repeated: usize,
    /// Number of earlier versions of files that are removed with it.
    pub earlier: usize,
    /// Damage of the pack. If `sessions` is empty, its contents are unknown; otherwise the plan
    /// lists what `annals restore --salvage` would find.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
    #[serde(skip)]
    looked: FileId,
    /// All packs that are removed together, including this one.
    #[serde(skip)]
    going: Vec<PathBuf>,
}

impl Archive {
    /// Plans the removal of a session from the archive: its whole pack, which may hold other
    /// sessions that share its logs, and its packs that were set aside. `id` is an id prefix or the
    /// path of a pack. The path of a log is refused, because the log is not what is removed.
    pub fn plan_removal(&self, id: &str, roots: Option<&[Root]>) -> Result<Vec<PackRemoval>> {
        self.plan_removals(&[id], roots)
    }

    /// Like [`plan_removal`](Self::plan_removal) for several sessions; none of them counts as a
    /// copy of another.
    pub fn plan_removals(
        &self,
        ids: &[impl AsRef<str>],
        roots: Option<&[Root]>,
    ) -> Result<Vec<PackRemoval>> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for id in ids {
            for path in self.going(id.as_ref(), roots)? {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        let mut whereabouts = FileLocator::reporting_to(&self.failures);
        let plans = paths.iter();
        plans
            .map(|path| forgetting(path, &paths, &mut whereabouts))
            .collect()
    }

    /// Returns the paths of the packs removed with a session.
    fn going(&self, id: &str, roots: Option<&[Root]>) -> Result<Vec<PathBuf>> {
        let mut aside = self.set_aside_in(roots)?;
        aside.retain(|path| is_set_aside_pack_of(path, id));
        let mut paths = Vec::new();
        match self.meant(id, roots) {
            Ok(path) => paths.push(path),
            Err(Error::NotFound { .. }) if !aside.is_empty() => {}
            Err(error) => return Err(error),
        }
        paths.extend(aside);
        Ok(paths)
    }

    /// Resolves an id prefix or a path to a pack's path.
    fn meant(&self, id: &str, roots: Option<&[Root]>) -> Result<PathBuf> {
        Ok(match id.contains('/') {
            true => self.own(Path::new(id))?,
            false => match self.find_in(id, roots) {
                Ok(pack) => pack.path,
                Err(error @ Error::Ambiguous { .. }) => return Err(error),
                Err(error) => {
                    let mut named = self.pack_paths_in(roots)?;
                    named.retain(|path| is_of(path, id));
                    match (named.pop(), named.is_empty()) {
                        (Some(only), true) => only,
                        _ => return Err(error),
                    }
                }
            },
        })
    }

    /// Permanently removes a pack, if it has not changed since the plan.
    pub fn remove_pack(&self, plan: &PackRemoval) -> Result<()> {
        let path = &self.own(&plan.pack)?;
        // List the directory first: if that fails, nothing is removed.
        let dir = path.parent().unwrap_or(&self.dir);
        let mut others = names(dir)?;
        others.retain(|it| it != path && !member_list::is_roster(it));
        let log = Log::open(path, AppendOptions::default())?;
        log.with_lock(|file| {
            let now = file.metadata().map_err(|e| Error::io("stat", path, e))?;
            if FileId::from(&now) != plan.looked {
                return Err(Error::File(FileError::Changed { path: path.clone() }));
            }
            // Files that were in their root when the plan was made may have been moved to the
            // archive since. That requires this lock too, so it cannot happen from here on.
            let again = forgetting(path, &plan.going, &mut FileLocator::reporting_to(&self.failures))?;
            if again.only > plan.only {
                return Err(Error::refused(format!(
                    "{} now has the only copy of {}, unlike when the removal was planned; nothing was removed",
                    path.display(),
                    match again.only {
                        1 => "a file".to_owned(),
                        files => format!("{files} files"),
                    }
                )));
            }
            fs::remove_file(path).map_err(|error| Error::io("remove", path, error))
        })?;
        if others.is_empty() {
            // A pack created meanwhile is found without a member list too.
            member_list::remove(dir)?;
        }
        // Sync, so that a power failure does not bring the pack back: first its directory and, if
        // that is removed too, the directory above.
        sync(dir)?;
        // Fails if the directory is not empty, as intended.
        if fs::remove_dir(dir).is_ok() {
            sync(&self.dir)?;
        }
        Ok(())
    }

    /// Returns whether a session of a root is archived, judged by the names of packs.
    pub fn has_session(&self, layout: &str, root: &Path, session: &str) -> bool {
        let Ok(root) = Root::new(layout, root) else {
            return false;
        };
        let packs = self
            .failures
            .ok(self.pack_paths_of_root(&root))
            .unwrap_or_default();
        packs.iter().any(|path| is_of(path, &format!("{session}.")))
    }

    /// Resolves a path to a pack of this archive; refuses anything else.
    fn own(&self, path: &Path) -> Result<PathBuf> {
        let wanted = real(path)?;
        for dir in names(&self.dir)? {
            for pack in names(&dir)? {
                if !is_pack(&pack) && !is_aside(&pack) {
                    continue;
                }
                let found = jsonl::metadata_if_exists(&pack)?;
                let is_link = found.is_none_or(|found| found.is_symlink());
                if !is_link && real(&pack)? == wanted {
                    return Ok(pack);
                }
            }
        }
        Err(refused(path, "is not a pack of this archive"))
    }
}

fn real(path: &Path) -> Result<PathBuf> {
    let real = path.canonicalize();
    real.map_err(|error| Error::io("find", path, error))
}

/// Syncs a directory. Ignores one that another process removed.
fn sync(dir: &Path) -> Result<()> {
    match fs::File::open(dir).and_then(|dir| dir.sync_all()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("sync", dir, error)),
        _ => Ok(()),
    }
}

/// Plans the removal of one pack, together with the packs in `going`.
fn forgetting(
    path: &Path,
    going: &[PathBuf],
    whereabouts: &mut FileLocator,
) -> Result<PackRemoval> {
    let metadata = path.symlink_metadata();
    let metadata = metadata.map_err(|error| Error::io("stat", path, error))?;
    let mut plan = PackRemoval {
        sessions: Vec::new(),
        layout: None,
        root: None,
        files: 0,
        bytes: 0,
        packed: metadata.len(),
        only: 0,
        repeated: 0,
        earlier: 0,
        damaged: None,
        looked: FileId::from(&metadata),
        going: going.to_vec(),
        pack: path.to_owned(),
    };
    match Pack::salvage(&plan.pack) {
        Err(error) => plan.damaged = Some(error.to_string()),
        Ok(Salvaged {
            pack,
            damage: wrong,
        }) => {
            plan.damaged = wrong;
            let index = &pack.index;
            plan.sessions = index.sessions.iter().map(|it| it.id.clone()).collect();
            plan.layout = Some(index.layout.clone());
            plan.root = Some(index.root.clone());
            plan.files = index.members.len();
            plan.bytes = index.members.iter().map(|member| member.len).sum();
            let places = whereabouts.locate(index);
            let gone = index.members.iter().zip(&places);
            let gone: Vec<&Member> = gone
                .filter_map(|(member, place)| place.is_none().then_some(member))
                .collect();
            if !gone.is_empty() {
                let others = others(path, index, going, whereabouts.failures());
                let is_in = |member: &&&Member| others.iter().any(|pack| has(pack, member));
                plan.repeated = gone.iter().filter(is_in).count();
            }
            plan.only = gone.len() - plan.repeated;
            plan.earlier = index.earlier.len();
        }
    }
    Ok(plan)
}

/// Returns the remaining packs of the same sessions: a renamed folder has one for each name.
fn others(path: &Path, index: &PackIndex, going: &[PathBuf], failures: &ReadFailures) -> Vec<Pack> {
    let (Some(dir), Some(session)) = (path.parent(), index.sessions.first()) else {
        return Vec::new();
    };
    // An unreadable pack does not count as a copy, and is reported.
    let mut packs = failures.ok(names(dir)).unwrap_or_default();
    packs.retain(|it| is_pack(it) && is_of(it, &format!("{}.", session.id)) && !going.contains(it));
    let packs = packs.iter().filter_map(|it| failures.ok(Pack::open(it)));
    packs
        .filter(|it| has_same_sessions(&it.index, index))
        .collect()
}

/// Returns whether a pack has all bytes of a file, under a path with the same file name.
fn has(pack: &Pack, file: &Member) -> bool {
    let name = file.path.file_name();
    let mut same = pack.index.all().filter(|it| it.path.file_name() == name);
    same.any(|it| has_all(&pack.path, it, file))
}
