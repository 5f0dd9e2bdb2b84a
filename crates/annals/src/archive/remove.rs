//! Permanently removes sessions from the archive.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::locate::FileLocator;
use super::{Archive, find};
use crate::archive_format::archived_session::{ArchivedSession, group};
use crate::archive_format::manifest::{self, Line, Member};
use crate::archive_format::root_archive::{ROOT_NAMES, remove_if_exists, sync_dir};
use crate::error::{Error, Result};
use crate::store::Root;
use annals_jsonl as jsonl;
use annals_jsonl::Error as FileError;

/// An archived session that is removed, or would be.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ArchiveRemoval {
    /// The compressed main log, or the directory of the root's archive for files that belong to no
    /// session.
    pub pack: PathBuf,
    /// Its sessions.
    pub sessions: Vec<String>,
    /// The layout's name.
    pub layout: Option<String>,
    /// The root of its files.
    pub root: Option<PathBuf>,
    /// Number of its files.
    pub files: usize,
    /// Total bytes of these files.
    pub bytes: u64,
    /// Length of the compressed files.
    pub packed: u64,
    /// Number of files that are neither in the root nor stay in the archive, so this is the only
    /// copy known to annals.
    pub only: usize,
    /// Number of files that are no longer in the root, but stay in the archive: another archived
    /// session has them too.
    pub repeated: usize,
    /// Number of earlier versions of files that are removed with it.
    pub earlier: usize,
    /// Damage of its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
    #[serde(skip)]
    session: ArchivedSession,
    /// Everything that is removed together, including this.
    #[serde(skip)]
    going: Vec<PathBuf>,
}

impl Archive {
    /// Plans the removal of a session from the archive, with other sessions that share its logs.
    /// `id` is an id prefix or the path of a compressed file. The path of a log is refused, because
    /// the log is not what is removed.
    pub fn plan_removal(&self, id: &str, roots: Option<&[Root]>) -> Result<Vec<ArchiveRemoval>> {
        self.plan_removals(&[id], roots)
    }

    /// Like [`plan_removal`](Self::plan_removal) for several sessions; none of them counts as a
    /// copy of another.
    pub fn plan_removals(
        &self,
        ids: &[impl AsRef<str>],
        roots: Option<&[Root]>,
    ) -> Result<Vec<ArchiveRemoval>> {
        let mut sessions: Vec<ArchivedSession> = Vec::new();
        let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
        let all = self.sessions_in(roots)?;
        for id in ids {
            let found = match id.as_ref() {
                path if path.contains('/') => self.own(Path::new(path))?,
                id => find::only(id, self.matching_among(id, roots, &all)?)?,
            };
            if seen.insert(found.path.clone()) {
                sessions.push(found);
            }
        }
        let going: Vec<PathBuf> = sessions.iter().map(|it| it.path.clone()).collect();
        let mut locator = FileLocator::reporting_to(&self.failures);
        let mut holders = HashMap::new();
        let plans = sessions.into_iter().map(|session| {
            let damaged = session
                .members
                .iter()
                .find_map(|member| damage(&session, member));
            let plan = plan(session, &going, &mut locator, &mut holders)?;
            Ok(ArchiveRemoval { damaged, ..plan })
        });
        plans.collect()
    }

    /// Permanently removes an archived session, if it has not changed since the plan.
    pub fn remove_session(&self, plan: &ArchiveRemoval) -> Result<()> {
        let archive = &*plan.session.archive;
        let changed = || {
            Error::File(FileError::Changed {
                path: plan.pack.clone(),
            })
        };
        let _lock = archive.lock_if_exists()?.ok_or_else(changed)?;
        let mut manifest = archive.read_locked()?;
        let all = group(&plan.session.archive, &manifest);
        let mut holders = HashMap::from([(archive.dir.clone(), Holders::new(&all))]);
        let mut all = all.into_iter();
        let now = all.find(|it| it.path == plan.pack).ok_or_else(changed)?;
        if now.members != plan.session.members || now.earlier != plan.session.earlier {
            return Err(changed());
        }
        // Files that were in their root when the plan was made may have been moved to the archive
        // since. That requires this lock too, so it cannot happen from here on.
        let mut locator = FileLocator::reporting_to(&self.failures);
        let again = self::plan(now, &plan.going, &mut locator, &mut holders)?;
        if again.only > plan.only {
            return Err(Error::refused(format!(
                "{} now has the only copy of {}, unlike when the removal was planned; nothing was removed",
                plan.pack.display(),
                match again.only {
                    1 => "a file".to_owned(),
                    files => format!("{files} files"),
                }
            )));
        }
        let holders = holders.remove(&archive.dir).unwrap_or_default();
        let members = again.session.members.iter();
        let (kept, gone): (Vec<&Member>, Vec<&Member>) =
            members.partition(|it| holders.has_other(&it.path, &again.session, &plan.going));
        // From here on nobody finds the files, even if their removal is interrupted.
        let lines = gone.iter().map(|it| Line::Gone(it.path.clone(), None));
        let lines = lines.chain(kept.into_iter().filter_map(|member| {
            let mut member = member.clone();
            let sessions = &again.session.sessions;
            member.sessions.retain(|key| !sessions.contains(key));
            let is_other = !member.sessions.is_empty();
            is_other.then(|| Line::File(Box::new(member)))
        }));
        let lines = lines.collect();
        archive.append(&mut manifest, lines)?;
        // Removes the files, and their lines.
        archive.compact(&mut manifest, true)?;
        if manifest.files.is_empty() {
            archive.end_writing()?;
            remove_if_exists(&archive.dir.join(manifest::NAME))?;
            // A manifest that outlives a name would make that name a lost one.
            sync_dir(&archive.dir)?;
            for name in ROOT_NAMES {
                remove_if_exists(&archive.dir.join(name))?;
            }
            // Fails if the directory is not empty, as intended.
            if fs::remove_dir(&archive.dir).is_ok() {
                sync_dir(&self.dir)?;
            }
        }
        Ok(())
    }

    /// Finds an archived session of this archive by the path of a compressed file; refuses anything
    /// else.
    fn own(&self, path: &Path) -> Result<ArchivedSession> {
        let refused =
            || Error::refused(format!("{} is not a file of this archive", path.display()));
        let real = |path: &Path| {
            let real = path.canonicalize();
            real.map_err(|error| Error::io("find", path, error))
        };
        let is_link = jsonl::metadata_if_exists(path)?.is_some_and(|there| there.is_symlink());
        let wanted = real(path)?;
        let is_inside = jsonl::exists(&self.dir)? && wanted.starts_with(real(&self.dir)?);
        if is_link || !is_inside {
            return Err(refused());
        }
        let within = wanted.strip_prefix(real(&self.dir)?).unwrap_or(&wanted);
        find::stored_at(&self.dir.join(within))?.ok_or_else(refused)
    }
}

/// Plans the removal of an archived session, together with those in `going`.
fn plan(
    session: ArchivedSession,
    going: &[PathBuf],
    locator: &mut FileLocator,
    holders: &mut HashMap<PathBuf, Holders>,
) -> Result<ArchiveRemoval> {
    let places = locator.locate(&session);
    let gone = session.members.iter().zip(&places);
    let gone = gone.filter_map(|(member, place)| place.is_none().then_some(&member.path));
    let gone: Vec<&PathBuf> = gone.collect();
    let mut repeated = 0;
    if !gone.is_empty() {
        let archive = &session.archive;
        let holders = match holders.entry(archive.dir.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Holders::new(&group(archive, &archive.read()?))),
        };
        let is_kept = |path: &Path| holders.has_other(path, &session, going);
        repeated = gone.iter().filter(|path| is_kept(path)).count();
    }
    Ok(ArchiveRemoval {
        pack: session.path.clone(),
        sessions: session.sessions.iter().map(|it| it.id.clone()).collect(),
        layout: Some(session.layout.to_owned()),
        root: Some(session.root.clone()),
        files: session.members.len(),
        bytes: session.members.iter().map(|member| member.len).sum(),
        packed: session.packed(),
        only: gone.len() - repeated,
        repeated,
        earlier: session.earlier.len(),
        damaged: None,
        session,
        going: going.to_vec(),
    })
}

/// Returns why a file cannot be read, as far as headers show it.
fn damage(session: &ArchivedSession, member: &Member) -> Option<String> {
    let content = match session.file(member) {
        Ok(content) => content,
        Err(error) => return Some(error.to_string()),
    };
    let lost = content.frames().iter().find(|frame| frame.is_lost)?;
    let path = session.location(member);
    Some(format!(
        "{}: damaged frame at offset {}",
        path.display(),
        lost.at
    ))
}

/// The archived sessions of each file of a root that several sessions have.
#[derive(Default)]
struct Holders(HashMap<PathBuf, Vec<PathBuf>>);

impl Holders {
    fn new(all: &[ArchivedSession]) -> Self {
        let mut holders: HashMap<PathBuf, Vec<PathBuf>> = HashMap::new();
        for session in all {
            for member in &session.members {
                let of = holders.entry(member.path.clone()).or_default();
                of.push(session.path.clone());
            }
        }
        holders.retain(|_, of| of.len() > 1);
        Holders(holders)
    }

    /// Returns whether an archived session that is not removed has a file of `session` too.
    fn has_other(&self, path: &Path, session: &ArchivedSession, going: &[PathBuf]) -> bool {
        let mut others = self.0.get(path).into_iter().flatten();
        others.any(|other| *other != session.path && !going.contains(other))
    }
}
