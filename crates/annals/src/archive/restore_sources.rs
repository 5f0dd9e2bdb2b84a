//! Chooses the packs that a session is restored from, and the paths it is restored to.
//!
//! A renamed folder leaves its packs behind under the old name, and files that its sessions lost
//! since exist only there. Listing reads them under the new name (`store/archive_overlay.rs`); so
//! does a restore.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::find::only;
use super::pack::Pack;
use super::pack_index::PackIndex;
use super::restore::Restored;
use super::salvage::MemberVersion;
use super::superseded::{has_same_sessions, superseding_packs};
use crate::error::Result;
use crate::store::{Root, RootFile, SessionFiles, Store};

/// The packs that a session is restored from.
#[derive(Clone, Debug)]
pub struct RestoreSources {
    /// The session's own pack: that of its current or last folder.
    pub pack: Pack,
    /// Packs with files of the session that its own pack lacks, with their current paths.
    others: Vec<Pack>,
}

impl RestoreSources {
    /// Plans a restore, to the root `to` if given.
    pub fn plan_restore(&self, to: Option<&Path>) -> Result<Restored> {
        Ok(self.plan(to)?.0)
    }

    /// Restores everything or nothing; see [`Pack::restore`].
    pub fn restore(&self, to: Option<&Path>) -> Result<Restored> {
        let (plan, states) = self.plan(to)?;
        self.pack.carry_out(to, plan, &states)
    }

    fn plan(&self, to: Option<&Path>) -> Result<(Restored, Vec<MemberVersion>)> {
        let (mut plan, mut states) = self.pack.plan(to, false)?;
        for other in &self.others {
            let (more, from) = other.plan(to, false)?;
            plan.files.extend(more.files.into_iter().map(|mut file| {
                file.pack = Some(other.path.clone());
                file
            }));
            let known: Vec<PathBuf> = plan.dirs.iter().map(|dir| dir.path.clone()).collect();
            let dirs = more.dirs.into_iter();
            plan.dirs
                .extend(dirs.filter(|dir| !known.contains(&dir.path)));
            states.extend(from);
        }
        Ok((plan, states))
    }
}

impl Store {
    /// Finds the packs to restore an archived session from, limited to `roots` if given.
    ///
    /// If a session was archived from several folders of its root, as after a rename, its own pack
    /// is that of its current folder. If nothing was archived from there yet, the pack of the old
    /// folder is used. If the session no longer exists in the root, the pack with the most of its
    /// log is used. A pack named directly is restored to its original paths.
    pub fn find_restore_sources(&self, id: &str, roots: Option<&[Root]>) -> Result<RestoreSources> {
        let archive = self.archive()?;
        let found = archive.matching(id, roots)?;
        let by_id = found.iter().any(|pack| pack.matches_id(id));
        let Some(root) = root_of(&found)? else {
            let pack = only(id, found)?;
            pack.lost_end()
                .into_iter()
                .for_each(|lost| self.failures().report(lost));
            return Ok(pack.into());
        };
        let store = Store::new(vec![root.clone()]);
        let store = store.with_state(self.state_dir().unwrap_or(Path::new("")));
        let mut sessions = store.inventory().sessions;
        sessions.retain(|files| {
            let named = |pack: &Pack| pack.has_session(files.id.as_str());
            found.iter().any(named)
        });
        let living = sessions.iter().filter(|files| !files.is_archived());
        let living: Vec<&SessionFiles> = living.collect();
        let is_of = |files: &SessionFiles, pack: &Pack| {
            let log = pack.index.main_log().map(|main| root.path.join(&main.path));
            Some(files.main_path()) == log.as_deref()
        };
        let is_own = |pack: &Pack| living.iter().any(|files| is_of(files, pack));
        let own = found.iter().filter(|pack| is_own(pack)).count();
        let pack = match (by_id, own, living.as_slice()) {
            (true, 1, _) => found.into_iter().find(is_own),
            // The session exists in a folder from which nothing was archived yet.
            (true, 0, [files]) => {
                let mut moved: Vec<Pack> = found.iter().filter_map(|it| it.moved(files)).collect();
                moved.sort_by_key(|pack| pack.index.archived);
                match moved.pop() {
                    Some(newest) => Some(newest),
                    None => Some(only(id, distinct(found))?),
                }
            }
            (true, 0, []) => Some(only(id, distinct(found))?),
            _ => Some(only(id, found)?),
        };
        let pack = pack.map_or_else(|| archive.find_in(id, roots), Ok)?;
        let mut restoring = RestoreSources::from(pack);
        let mut sessions = sessions.iter();
        if let Some(files) = sessions.find(|files| is_of(files, &restoring.pack)) {
            restoring.others = lacking(files, &restoring.pack)?;
        }
        let packs = std::iter::once(&restoring.pack).chain(&restoring.others);
        packs
            .filter_map(Pack::lost_end)
            .for_each(|lost| self.failures().report(lost));
        Ok(restoring)
    }
}

impl From<Pack> for RestoreSources {
    fn from(pack: Pack) -> Self {
        RestoreSources {
            pack,
            others: Vec::new(),
        }
    }
}

/// Returns the common root of packs that hold the same sessions; `None` if they do not, or for logs
/// outside any tree.
fn root_of(packs: &[Pack]) -> Result<Option<Root>> {
    let Some((first, rest)) = packs.split_first() else {
        return Ok(None);
    };
    let first = &first.index;
    let same = |other: &Pack| has_same_sessions(first, &other.index);
    match !first.lone && !first.has_no_session() && rest.iter().all(same) {
        true => Root::new(&first.layout, &first.root).map(Some),
        false => Ok(None),
    }
}

/// Drops packs that another pack supersedes.
pub(super) fn distinct(packs: Vec<Pack>) -> Vec<Pack> {
    let known: Vec<(&Path, &PackIndex)> = packs.iter().map(|it| (&*it.path, &*it.index)).collect();
    let stands = superseding_packs(&known);
    let mut packs: Vec<(usize, Pack)> = packs.into_iter().enumerate().collect();
    packs.retain(|(at, _)| stands.get(*at) == Some(at));
    packs.into_iter().map(|(_, pack)| pack).collect()
}

/// Returns packs other than `own` with files that the session and its own pack lack.
fn lacking(files: &SessionFiles, own: &Pack) -> Result<Vec<Pack>> {
    let gone = files.files().flat_map(RootFile::volumes);
    let gone: Vec<(&Path, &Path, PathBuf)> = gone
        .filter_map(|file| {
            let (pack, within) = file.archive_location()?;
            let now = file.path.strip_prefix(&files.root.path).ok()?;
            Some((pack, within, now.to_owned()))
        })
        .filter(|(pack, _, now)| *pack != own.path && own.member(now).is_none())
        .collect();
    let packs: BTreeSet<&Path> = gone.iter().map(|(pack, ..)| *pack).collect();
    let of = |path: &Path| {
        let place = |within: &Path| {
            let mut gone = gone.iter();
            let found = gone.find(|(pack, was, _)| *pack == path && *was == within);
            found.map(|(.., now)| now.clone())
        };
        Pack::open(path).map(|pack| pack.with_places(&place))
    };
    packs.into_iter().map(of).collect()
}

impl Pack {
    /// Returns the pack with paths in the session's current folder, if its log is the same file as
    /// the session's.
    fn moved(&self, files: &SessionFiles) -> Option<Pack> {
        let log = files.logs().next()?;
        let layout = files.root.layout;
        let was = self.members().iter().find_map(|member| {
            let same = (member.dev, member.ino) == (log.id.dev, log.id.ino);
            let is_log = self.index.is_session_log(&member.path) && same;
            layout.classify(&member.path).filter(|_| is_log)
        });
        let was = was.filter(|was| was.session.as_ref() == Some(&files.id))?;
        Some(self.with_places(&|path| {
            let mut artifact = layout.classify(path)?;
            if artifact.folder.is_none() || artifact.folder != was.folder {
                return Some(path.to_owned());
            }
            artifact.folder.clone_from(&log.artifact.folder);
            Some(layout.path_for(&artifact))
        }))
    }

    /// Returns the pack with its files at other paths; files without a new path are dropped.
    fn with_places(&self, place: &dyn Fn(&Path) -> Option<PathBuf>) -> Pack {
        let mut index = PackIndex::clone(&self.index);
        for members in [&mut index.members, &mut index.earlier] {
            members.retain_mut(|member| {
                let now = place(&member.path);
                now.map(|now| member.path = now).is_some()
            });
        }
        index.rows.retain_mut(|row| {
            let now = place(&row.path);
            now.map(|now| row.path = now).is_some()
        });
        let mut pack = self.clone();
        pack.index = Arc::new(index);
        pack
    }
}
