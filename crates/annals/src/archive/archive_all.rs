//! Archives everything that changed, reads back what was written, and a share of older packs.

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
use crate::store::{Inventory, SessionFiles, Store, is_gone};
use annals_jsonl as jsonl;

/// Every pack is read back once within this time, however often `annals keep` runs.
const ROUND: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Number of concurrent pack writers. A writer mostly waits for its sync, and file systems combine
/// concurrent syncs.
const WRITERS: usize = 16;

/// Version of `keep.json`.
const VERSION: u32 = 1;

/// Options of [`Store::archive_all`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ArchiveAllOptions {
    /// Read every pack back, not only those that are due.
    pub verify_all: bool,
}

/// Result of [`Store::archive_all`].
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ArchiveAllReport {
    /// Number of sessions.
    pub sessions: usize,
    /// Number of unchanged sessions.
    pub unchanged: usize,
    /// The packs that were updated.
    pub archived: Vec<Archived>,
    /// Bytes of files that were added.
    pub added: u64,
    /// Result of reading older packs back.
    pub verified: VerifyReport,
    /// Sessions that could not be archived.
    pub failed: Vec<ArchiveFailure>,
    /// Other errors: directories that could not be read, a `keep.json` that could not be written.
    pub troubles: Vec<String>,
}

/// A session that could not be archived.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ArchiveFailure {
    /// The session.
    pub session: String,
    /// The error.
    pub error: String,
}

/// State for the next run, stored in `keep.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    version: u32,
    /// Time up to which verification of packs is on schedule.
    verified: Timestamp,
    /// The last pack verified, as a path within the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<PathBuf>,
    /// Damaged packs, as paths within the archive. Every run reads them back.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    damaged: BTreeSet<PathBuf>,
}

impl ArchiveAllReport {
    /// Returns the damage found.
    pub fn damaged(&self) -> &[Damage] {
        &self.verified.damaged
    }

    /// Returns whether nothing was written and nothing is wrong.
    pub fn is_noop(&self) -> bool {
        self.archived.is_empty() && self.is_ok()
    }

    /// Returns whether everything is archived and no damage was found.
    pub fn is_ok(&self) -> bool {
        self.failed.is_empty() && self.troubles.is_empty() && self.damaged().is_empty()
    }
}

impl Store {
    /// Archives all sessions that changed, and reads packs back. Only one process may do so at a
    /// time.
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
        // A database is not copied.
        let sessions = inventory.sessions.iter();
        let mut all: Vec<&SessionFiles> = sessions.filter(|it| !it.is_in_database()).collect();
        // A session that exists only in a session list has no file to archive.
        all.retain(|files| files.files().next().is_some());
        let mut kept = ArchiveAllReport {
            sessions: all.len(),
            troubles: inventory.errors.iter().map(Error::to_string).collect(),
            ..ArchiveAllReport::default()
        };
        // The first run reads back everything that it writes.
        let before = note.unwrap_or(Note {
            version: VERSION,
            verified: now,
            last: None,
            damaged: BTreeSet::new(),
        });
        let suspects = before.suspects(archive.dir());
        // Packs that this run sets aside are reported when that happens.
        let aside = archive.set_aside_in(None)?;
        let aside = aside.iter().map(|path| Damage::set_aside(path));
        kept.verified.damaged.extend(aside);
        let mirrored = mirror_all(&archive, &all, now, &suspects, progress);
        kept.sync_names(&mirrored);
        kept.take(mirrored);
        for root in self.roots() {
            let others = self.mirror_root(root, inventory, now, &suspects);
            let name = format!("files outside sessions of {}", root.path.display());
            kept.take(
                others
                    .into_iter()
                    .map(|made| (name.clone(), 0, made))
                    .collect(),
            );
            // Without the member list, listing is slower but correct.
            if let Err(error) = member_list::update(&archive.root_dir(root), options.verify_all) {
                let why = "could not update the member list, so listing is slower";
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
            // Not fatal: the sessions are archived.
            if let Err(error) = note.write(&note_of(archive.dir())) {
                let why =
                    "could not record which packs were verified, so they will be verified again";
                kept.troubles.push(format!("{why}: {error}"));
            }
        }
        Ok(kept)
    }

    /// Creates missing member lists, so that listing sessions need not open packs. Does nothing
    /// while another process archives.
    pub fn update_member_lists(&self) -> Result<()> {
        let archive = self.archive()?;
        let locked = jsonl::try_lock_path(&archive.dir().join("keep.lock"));
        match locked.map_err(Error::from) {
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

/// Archives sessions, grouped by shared files. Returns each group's first id, its size and its
/// result. The names of new packs are not synced yet.
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
    // Once for all writers. If it fails, each writer reports the error.
    let dirs: BTreeSet<PathBuf> = all.iter().map(|it| archive.root_dir(&it.root)).collect();
    dirs.iter().for_each(|dir| _ = jsonl::ensure_dir(dir));
    let mirror = || groups.par_iter().with_max_len(1).map(mirror).collect();
    match rayon::ThreadPoolBuilder::new().num_threads(WRITERS).build() {
        Ok(pool) => pool.install(mirror),
        Err(_) => mirror(),
    }
}

impl ArchiveAllReport {
    /// Syncs each pack directory once. Includes those of unchanged packs: a killed run may have
    /// created them.
    fn sync_names(&mut self, mirrored: &[(String, usize, Result<Archived>)]) {
        let made = mirrored
            .iter()
            .filter_map(|(_, _, made)| made.as_ref().ok());
        let dirs = made.filter_map(|made| made.pack.parent());
        let dirs: BTreeSet<&Path> = dirs.collect();
        for dir in dirs {
            if let Err(error) = update::sync_dir(&dir.join(ROOT_ID)) {
                let why = "archived data may not survive a power failure";
                self.troubles.push(format!("{why}: {error}"));
            }
        }
    }

    fn take(&mut self, results: Vec<(String, usize, Result<Archived>)>) {
        for (session, count, result) in results {
            match result {
                Ok(archived) if archived.unchanged => self.unchanged += count,
                Ok(archived) => {
                    // Reported once; the new pack is intact.
                    self.verified.damaged.extend(archived.set_aside.as_ref().map(|aside| {
                        let (to, error) = (aside.path.display(), &aside.error);
                        Damage {
                            pack: archived.pack.clone(),
                            member: None,
                            frame: None,
                            detail: format!("{error}; it was set aside as {to}, and the files in the root were archived again"),
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
                                "{wrong}; all its files could be read, and the pack was rewritten"
                            ),
                            is_unread: false,
                        }));
                    self.verified
                        .damaged
                        .extend(archived.lost_end.as_ref().map(|lost| Damage {
                            pack: archived.pack.clone(),
                            member: None,
                            frame: None,
                            detail: format!("{lost}; the files in the root were archived again"),
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

/// Takes the lock of `annals keep`. The file is never unlinked: that would let two processes in.
fn hold(path: &Path) -> Result<File> {
    jsonl::try_lock_path(path)?.ok_or_else(|| {
        Error::refused(format!(
            "another `annals keep` is running (it holds {}); this one did nothing",
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

/// Returns the packs that are due: their share of all bytes is the share of a round that has
/// passed. Also returns the time up to which verification is then on schedule, so that time not yet
/// used counts for the next run.
fn due(dir: &Path, paths: &[PathBuf], note: &Note, now: Timestamp) -> (Vec<PathBuf>, Timestamp) {
    let size = |path: &PathBuf| path.symlink_metadata().map_or(0, |found| found.len());
    let total: u64 = paths.iter().map(size).sum();
    // A time in the future is invalid: read everything and correct it.
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
        // A pack larger than the remaining budget is read once enough time has passed.
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
    /// Records which of the packs just read back are damaged. Every `annals keep` reads these back,
    /// and archives their files again, until they are intact.
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
        // A running `annals keep` finds the damage too, and records it.
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

/// Returns the packs recorded as damaged.
pub(super) fn known_damaged(archive: &Archive) -> BTreeSet<PathBuf> {
    let note = archive.failures.ok(Note::read(&note_of(archive.dir())));
    note.flatten()
        .map_or_else(BTreeSet::new, |note| note.suspects(archive.dir()))
}

impl Note {
    /// Returns the paths of the damaged packs. Ignores paths that lead out of the archive.
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
                "{} has version {version}, but this program reads version {VERSION}: written by a newer annals; update this one",
                path.display()
            ))),
            // An unreadable file is treated as absent.
            _ => Ok(serde_json::from_slice(&bytes).ok()),
        }
    }

    fn write(&self, path: &Path) -> Result<()> {
        let json = serde_json::to_vec_pretty(self);
        let json = json.map_err(|error| Error::refused(error.to_string()))?;
        Ok(jsonl::replace(path, &json, None)?)
    }
}

#[cfg(test)]
mod tests;
