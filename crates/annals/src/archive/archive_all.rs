//! Keeping everything: mirror what changed, read back what was written, and a share of the rest.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::Archive;
use super::member_list;
use super::root_files::ROOT_ID;
use super::session::Archived;
use super::update;
use super::verify::{Damage, VerifyReport};
use crate::error::{Error, Result};
use crate::jsonl;
use crate::store::{Inventory, SessionFiles, Store, is_gone};

/// Within this time every pack is read back once, however often one keeps.
const ROUND: SignedDuration = SignedDuration::from_hours(30 * 24);

/// So many packs are written at once. Each writer mostly waits until its pack is on the disk, and file
/// systems make what several wait for durable together.
const WRITERS: usize = 16;

/// The version of the note that is left for the next run.
const VERSION: u32 = 1;

/// How to keep.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArchiveAllOptions {
    /// Read every pack back, not only those whose turn it is.
    pub verify_all: bool,
}

/// What keeping came to.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ArchiveAllReport {
    /// How many sessions there are.
    pub sessions: usize,
    /// How many of them had not changed.
    pub unchanged: usize,
    /// What was archived.
    pub archived: Vec<Archived>,
    /// How many bytes of files were taken in.
    pub added: u64,
    /// What was read back of older packs.
    pub verified: VerifyReport,
    /// Sessions that could not be archived.
    pub failed: Vec<ArchiveFailure>,
    /// What else went wrong: places that could not be looked at, a note that could not be written.
    pub troubles: Vec<String>,
}

/// A session that could not be archived.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ArchiveFailure {
    /// The session.
    pub session: String,
    /// Why not.
    pub error: String,
}

/// What is left for the next run.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    version: u32,
    /// Up to when packs were read back as often as they should.
    verified: Timestamp,
    /// The last one of them, by its path within the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<PathBuf>,
    /// Packs that are damaged, by their paths within the archive. They are read back every time.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    damaged: BTreeSet<PathBuf>,
}

impl ArchiveAllReport {
    /// What is damaged.
    pub fn damaged(&self) -> &[Damage] {
        &self.verified.damaged
    }

    /// Nothing was written and nothing is wrong.
    pub fn is_noop(&self) -> bool {
        self.archived.is_empty() && self.is_ok()
    }

    /// Everything is archived, as far as one can tell.
    pub fn is_ok(&self) -> bool {
        self.failed.is_empty() && self.troubles.is_empty() && self.damaged().is_empty()
    }
}

impl Store {
    /// Mirrors all sessions that changed, and reads packs back. Only one process does so at a time.
    pub fn archive_all(
        &self,
        inventory: &Inventory,
        options: ArchiveAllOptions,
        now: Timestamp,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<ArchiveAllReport> {
        let archive = self.archive()?;
        jsonl::ensure_dir(archive.dir())?;
        let _lock = hold(&archive.dir().join("keep.lock"))?;
        let note = Note::read(&note_of(archive.dir()))?;
        let is_first = note.is_none();
        let mut all: Vec<&SessionFiles> = inventory.sessions.iter().collect();
        // Of a session that only a session list names there is no file to keep.
        all.retain(|files| files.files().next().is_some());
        let mut kept = ArchiveAllReport {
            sessions: all.len(),
            troubles: inventory.errors.iter().map(Error::to_string).collect(),
            ..ArchiveAllReport::default()
        };
        // The first run has just read back all that it wrote.
        let before = note.unwrap_or(Note {
            version: VERSION,
            verified: now,
            last: None,
            damaged: BTreeSet::new(),
        });
        let suspects = before.suspects(archive.dir());
        // Those that are set aside by this run are told by it.
        let aside = archive.set_aside_in(None)?;
        let aside = aside.iter().map(|path| Damage::set_aside(path));
        kept.verified.damaged.extend(aside);
        let mirrored = mirror_all(&archive, &all, now, &suspects, progress);
        kept.sync_names(&mirrored);
        kept.take(mirrored);
        for root in self.roots() {
            let others = self.mirror_root(root, inventory, now, &suspects);
            let name = format!("what belongs to no session of {}", root.path.display());
            kept.take(
                others
                    .into_iter()
                    .map(|made| (name.clone(), 0, made))
                    .collect(),
            );
            // Without it lists are slower, and no worse.
            if let Err(error) = member_list::update(&archive.root_dir(root), options.verify_all) {
                let why = "what sessions have in the archive is not noted, so lists take longer";
                kept.troubles.push(format!("{why}: {error}"));
            }
        }
        let paths = archive.pack_paths()?;
        let (mut due, upto) = match options.verify_all {
            true => (paths, now),
            false => due(archive.dir(), &paths, &before, now),
        };
        let within = |path: &Path| Some(path.strip_prefix(archive.dir()).ok()?.to_owned());
        let last = due.last().and_then(|last| within(last));
        let is_due: BTreeSet<PathBuf> = due.iter().cloned().collect();
        let others = suspects.into_iter().filter(|path| !is_due.contains(path));
        due.extend(others.filter(|path| !matches!(jsonl::exists(path), Ok(false))));
        let verified = look_at(&due);
        let damaged = verified.damaged.iter();
        let damaged: BTreeSet<PathBuf> = damaged.filter_map(|it| within(&it.pack)).collect();
        kept.verified.add(verified);
        if last.is_some() || is_first || damaged != before.damaged {
            let note = Note {
                version: VERSION,
                verified: upto,
                last: last.or(before.last),
                damaged,
            };
            // What was archived is archived all the same.
            if let Err(error) = note.write(&note_of(archive.dir())) {
                let why = "which packs were read back is not noted, so they are again";
                kept.troubles.push(format!("{why}: {error}"));
            }
        }
        Ok(kept)
    }

    /// Notes which files of sessions that live are in the archive, where that was not noted yet, so that
    /// lists need not open packs. If someone keeps at the moment, that is left to them.
    pub fn update_member_lists(&self) -> Result<()> {
        let archive = self.archive()?;
        match jsonl::try_lock_path(&archive.dir().join("keep.lock")) {
            Ok(Some(_lock)) => {
                let mut roots = self.roots().iter();
                roots.try_for_each(|root| member_list::update(&archive.root_dir(root), false))
            }
            Ok(None) => Ok(()),
            // There is no archive yet.
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Mirrors sessions, those that share files together; each one's result, and how many it is of. The
/// names of new packs are not durable yet.
fn mirror_all(
    archive: &Archive,
    all: &[&SessionFiles],
    now: Timestamp,
    suspects: &BTreeSet<PathBuf>,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Vec<(String, usize, Result<Archived>)> {
    use std::sync::atomic::{AtomicU64, Ordering};
    let total = all.iter().map(|files| files.bytes()).sum();
    let done = AtomicU64::new(0);
    let groups = SessionFiles::group_by_shared_files(all);
    let mirror = |group: &Vec<&SessionFiles>| {
        let name = group
            .first()
            .map_or_else(String::new, |it| it.id.to_string());
        let made = Store::copy_to_archive_unsynced(archive, group, now, suspects);
        let bytes: u64 = group.iter().map(|files| files.bytes()).sum();
        progress(done.fetch_add(bytes, Ordering::Relaxed) + bytes, total);
        (name, group.len(), made)
    };
    // Once for all writers. Where it fails, each of them says why.
    let dirs: BTreeSet<PathBuf> = all.iter().map(|it| archive.root_dir(&it.root)).collect();
    dirs.iter().for_each(|dir| _ = jsonl::ensure_dir(dir));
    let mirror = || groups.par_iter().with_max_len(1).map(mirror).collect();
    match rayon::ThreadPoolBuilder::new().num_threads(WRITERS).build() {
        Ok(pool) => pool.install(mirror),
        Err(_) => mirror(),
    }
}

impl ArchiveAllReport {
    /// Makes the names of packs durable, each directory once. Those that have not changed count too: a
    /// run that was killed may have made them.
    fn sync_names(&mut self, mirrored: &[(String, usize, Result<Archived>)]) {
        let made = mirrored
            .iter()
            .filter_map(|(_, _, made)| made.as_ref().ok());
        let dirs = made.filter_map(|made| made.pack.parent());
        let dirs: BTreeSet<&Path> = dirs.collect();
        for dir in dirs {
            if let Err(error) = update::sync_dir(&dir.join(ROOT_ID)) {
                let why = "what was archived may be lost with the power";
                self.troubles.push(format!("{why}: {error}"));
            }
        }
    }

    fn take(&mut self, results: Vec<(String, usize, Result<Archived>)>) {
        for (session, count, result) in results {
            match result {
                Ok(archived) if archived.unchanged => self.unchanged += count,
                Ok(archived) => {
                    // It is told once; the pack that was begun instead is sound.
                    self.verified.damaged.extend(archived.set_aside.as_ref().map(|aside| {
                        let (to, error) = (aside.path.display(), &aside.error);
                        Damage {
                            pack: archived.pack.clone(),
                            member: None,
                            frame: None,
                            detail: format!("{error}; it was set aside as {to}, and what the root has was archived anew"),
                            is_unread: false,
                        }
                    }));
                    self.verified
                        .damaged
                        .extend(archived.mended.as_ref().map(|wrong| Damage {
                            pack: archived.pack.clone(),
                            member: None,
                            frame: None,
                            detail: format!(
                                "{wrong}; all that it holds could be read, and it was written anew"
                            ),
                            is_unread: false,
                        }));
                    self.verified
                        .damaged
                        .extend(archived.lost_end.as_ref().map(|lost| Damage {
                            pack: archived.pack.clone(),
                            member: None,
                            frame: None,
                            detail: format!("{lost}; what the root has was archived again"),
                            is_unread: false,
                        }));
                    self.added += archived.added;
                    self.archived.push(archived);
                }
                Err(error) => self.failed.push(ArchiveFailure {
                    session,
                    error: error.to_string(),
                }),
            }
        }
    }
}

/// Takes the lock of those who keep. The file stays: a lock that is unlinked lets two in.
fn hold(path: &Path) -> Result<File> {
    jsonl::try_lock_path(path)?.ok_or_else(|| {
        Error::refused(format!(
            "another `annals keep` is at work (it holds {}); this one did nothing",
            path.display()
        ))
    })
}

/// Reads packs back.
fn look_at(paths: &[PathBuf]) -> VerifyReport {
    let look = |path: &PathBuf| {
        let mut verified = VerifyReport::default();
        verified.verify_pack(path);
        verified
    };
    let each: Vec<VerifyReport> = paths.par_iter().with_max_len(1).map(look).collect();
    let mut all = VerifyReport::default();
    each.into_iter().for_each(|verified| all.add(verified));
    all
}

/// The packs whose turn it is: so many bytes of them as the time since the last ones asks for. Also up
/// to when that is: what is left of the time is not lost to a run that reads less.
fn due(dir: &Path, paths: &[PathBuf], note: &Note, now: Timestamp) -> (Vec<PathBuf>, Timestamp) {
    let size = |path: &PathBuf| path.symlink_metadata().map_or(0, |found| found.len());
    let total: u64 = paths.iter().map(size).sum();
    // A time that is yet to come tells nothing: all of it is read, and the time is set right.
    let from = match note.verified > now {
        true => Timestamp::MIN,
        false => note.verified,
    };
    let since = now.duration_since(from);
    let part = (since.as_secs_f64() / ROUND.as_secs_f64()).clamp(0.0, 1.0);
    let budget = (total as f64 * part) as u64;
    let last = note.last.as_ref().map(|last| dir.join(last));
    let split = paths.partition_point(|path| last.as_ref().is_some_and(|last| path <= last));
    let (before, after) = paths.split_at(split);
    let (mut due, mut used) = (Vec::new(), 0);
    for path in after.iter().chain(before) {
        let size = size(path);
        // One that is larger than what is left waits until enough time has passed.
        if used + size > budget {
            break;
        }
        used += size;
        due.push(path.clone());
    }
    let worth = ROUND.as_secs_f64() * used as f64 / total.max(1) as f64;
    let upto = from.checked_add(SignedDuration::from_secs(worth.ceil() as i64));
    let upto = upto.ok().filter(|upto| part < 1.0 && *upto < now);
    (due, upto.unwrap_or(now))
}

fn note_of(dir: &Path) -> PathBuf {
    dir.join("keep.json")
}

impl Archive {
    /// Leaves for those who keep which of the packs that were read back are damaged, so that they are read
    /// back, and taken from their root again, by every run until they are sound.
    pub fn record_damaged(
        &self,
        looked: &[PathBuf],
        damaged: &[Damage],
        now: Timestamp,
    ) -> Result<()> {
        let path = note_of(&self.dir);
        let within = |path: &Path| Some(path.strip_prefix(&self.dir).ok()?.to_owned());
        let note = Note::read(&path)?;
        let looked: BTreeSet<PathBuf> = looked.iter().filter_map(|it| within(it)).collect();
        let known = note.as_ref().map(|note| note.damaged.clone());
        let known = known.unwrap_or_default();
        let mut all: BTreeSet<PathBuf> = known.difference(&looked).cloned().collect();
        all.extend(damaged.iter().filter_map(|it| within(&it.pack)));
        if all == known {
            return Ok(());
        }
        // Whoever is at it now finds them too, and writes what it found.
        let Ok(_lock) = hold(&self.dir.join("keep.lock")) else {
            return Ok(());
        };
        let note = note.unwrap_or(Note {
            version: VERSION,
            verified: now,
            last: None,
            damaged: BTreeSet::new(),
        });
        Note {
            damaged: all,
            ..note
        }
        .write(&path)
    }
}

/// The packs of an archive that the last run found damaged.
pub(super) fn known_damaged(archive: &Archive) -> BTreeSet<PathBuf> {
    let note = archive.failures.ok(Note::read(&note_of(archive.dir())));
    note.flatten()
        .map_or_else(BTreeSet::new, |note| note.suspects(archive.dir()))
}

impl Note {
    /// Where the packs lie that were damaged. A name that leads elsewhere is none.
    fn suspects(&self, dir: &Path) -> BTreeSet<PathBuf> {
        let down = |part: Component<'_>| matches!(part, Component::Normal(_));
        let within = self.damaged.iter();
        let within = within.filter(|path| path.components().all(down));
        within.map(|path| dir.join(path)).collect()
    }

    fn read(path: &Path) -> Result<Option<Self>> {
        let bytes = match jsonl::read_document(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", path, error)),
        };
        let version = serde_json::from_slice::<serde_json::Value>(&bytes);
        let version = version.ok().and_then(|note| note.get("version")?.as_u64());
        match version {
            Some(version) if version > u64::from(VERSION) => Err(Error::refused(format!(
                "{} has version {version} and this program reads version {VERSION}: a newer annals wrote it; update this one",
                path.display()
            ))),
            // A note that cannot be read is as good as none.
            _ => Ok(serde_json::from_slice(&bytes).ok()),
        }
    }

    fn write(&self, path: &Path) -> Result<()> {
        let json = serde_json::to_vec_pretty(self);
        let json = json.map_err(|error| Error::refused(error.to_string()))?;
        jsonl::replace(path, &json, None)
    }
}

#[cfg(test)]
mod tests;
