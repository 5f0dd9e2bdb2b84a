//! Removing what is archived, for good.

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
use crate::jsonl::{self, AppendOptions, FileId, Log};
use crate::store::{ReadFailures, Root};

/// A pack that is removed, or would be.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PackRemoval {
    /// The pack.
    pub pack: PathBuf,
    /// The sessions in it; none if it cannot be read.
    pub sessions: Vec<String>,
    /// The layout's name, where it can be told.
    pub layout: Option<String>,
    /// The root that they lay in, where it can be told.
    pub root: Option<PathBuf>,
    /// How many files there are in it.
    pub files: usize,
    /// How many bytes those have.
    pub bytes: u64,
    /// How long it is.
    pub packed: u64,
    /// How many of its files are no more in their root and in no pack that stays, so that this is the only
    /// copy that annals knows.
    pub only: usize,
    /// How many of its files are no more in their root, and are in another pack that stays.
    pub repeated: usize,
    /// How many earlier versions of files go with it.
    pub earlier: usize,
    /// What is wrong with it. If no sessions are told of, nobody can tell what it holds; else what is told
    /// here is what `annals restore --salvage` would find.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
    #[serde(skip)]
    looked: FileId,
    /// The packs that go together with it, itself too.
    #[serde(skip)]
    going: Vec<PathBuf>,
}

impl Archive {
    /// What removing a session from the archive would remove: all of its pack, which may hold sessions
    /// whose logs are the same files, and the packs of it that were set aside. By a beginning of its id, or
    /// one pack by its path. Not by the path of a log: that is not what goes.
    pub fn plan_removal(&self, id: &str, roots: Option<&[Root]>) -> Result<Vec<PackRemoval>> {
        self.plan_removals(&[id], roots)
    }

    /// The same for several, none of which counts as a copy of another.
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

    /// The packs that go with a session.
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

    /// The pack that is meant by a beginning of an id, or by its path.
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

    /// Removes a pack for good, if it is still what was looked at.
    pub fn remove_pack(&self, plan: &PackRemoval) -> Result<()> {
        let path = &self.own(&plan.pack)?;
        // Looked up before anything is removed: where it cannot be told what is left, nothing goes.
        let dir = path.parent().unwrap_or(&self.dir);
        let mut others = names(dir)?;
        others.retain(|it| it != path && !member_list::is_roster(it));
        let log = Log::open(path, AppendOptions::default())?;
        log.with_lock(|file| {
            let now = file.metadata().map_err(|e| Error::io("stat", path, e))?;
            if FileId::from(&now) != plan.looked {
                return Err(Error::Changed { path: path.clone() });
            }
            // Files that were in their root then may be archived away by now. That is done under this
            // lock too, so it cannot happen any more.
            let again = forgetting(path, &plan.going, &mut FileLocator::reporting_to(&self.failures))?;
            if again.only > plan.only {
                return Err(Error::refused(format!(
                    "{} has the only copy of {} by now, which was not so when this began; nothing was removed",
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
            // A pack that came meanwhile is found without a roster too.
            member_list::remove(dir)?;
        }
        // What is forgotten stays forgotten, whatever becomes of the power: the name goes before the
        // directory does, and where that goes too, the one above tells.
        sync(dir)?;
        // It fails when something is left, which is the condition.
        if fs::remove_dir(dir).is_ok() {
            sync(&self.dir)?;
        }
        Ok(())
    }

    /// Whether a session of a root is archived, by the names of packs alone.
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

    /// A pack of this archive, and nothing else.
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
        Err(refused(path, "is no pack of this archive"))
    }
}

fn real(path: &Path) -> Result<PathBuf> {
    let real = path.canonicalize();
    real.map_err(|error| Error::io("find", path, error))
}

/// Makes what was removed from a directory stay so. One that another process removed holds nothing.
fn sync(dir: &Path) -> Result<()> {
    match fs::File::open(dir).and_then(|dir| dir.sync_all()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("sync", dir, error)),
        _ => Ok(()),
    }
}

/// What removing a pack would remove, together with others.
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

/// The packs of the same sessions that stay: a folder that was renamed has one for each name.
fn others(path: &Path, index: &PackIndex, going: &[PathBuf], failures: &ReadFailures) -> Vec<Pack> {
    let (Some(dir), Some(session)) = (path.parent(), index.sessions.first()) else {
        return Vec::new();
    };
    // What cannot be read is no copy, and is reported.
    let mut packs = failures.ok(names(dir)).unwrap_or_default();
    packs.retain(|it| is_pack(it) && is_of(it, &format!("{}.", session.id)) && !going.contains(it));
    let packs = packs.iter().filter_map(|it| failures.ok(Pack::open(it)));
    packs
        .filter(|it| has_same_sessions(&it.index, index))
        .collect()
}

/// Whether a pack has all of a file, under a path of the same name.
fn has(pack: &Pack, file: &Member) -> bool {
    let name = file.path.file_name();
    let mut same = pack.index.all().filter(|it| it.path.file_name() == name);
    same.any(|it| has_all(&pack.path, it, file))
}
