//! Archives everything that changed, and reads back what was written and a share of the rest.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::mirror::{Contents, Mirror};
use super::session::{self, Archived};
use super::{Archive, root_files};
use crate::archive_format::archived_session::ArchivedSession;
use crate::archive_format::manifest::{Manifest, file_path};
use crate::archive_format::root_archive::RootArchive;
use crate::archive_format::verify::{Damage, VerifyReport, verify_written};
use crate::error::{Error, Result};
use crate::store::{FileSet, Inventory, Root, SessionFiles, Store};
use annals_jsonl as jsonl;

/// Everything is read back once within this time, however often `annals keep` runs.
const ROUND: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Version of `keep.json`.
const VERSION: u32 = 1;

/// Options of [`Store::archive_all`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ArchiveAllOptions {
    /// Read everything back, not only what is due.
    pub verify_all: bool,
}

/// Result of [`Store::archive_all`].
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ArchiveAllReport {
    /// Number of sessions.
    pub sessions: usize,
    /// Number of sessions in databases of their programs, which are not archived.
    pub in_databases: usize,
    /// Number of unchanged sessions.
    pub unchanged: usize,
    /// What was archived.
    pub archived: Vec<Archived>,
    /// Bytes of files that were added.
    pub added: u64,
    /// Result of reading back what was archived before.
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
    /// Time up to which verification is on schedule.
    verified: Timestamp,
    /// What was verified last, as a path within the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<PathBuf>,
    /// Damaged compressed files, as paths within the archive. Every run reads them back.
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

/// Maximum number of files, and of their bytes, that are archived while the lock is held once.
pub(super) const BATCH_FILES: usize = 1024;
pub(super) const BATCH_BYTES: u64 = 64 << 20;

/// Sessions that share files, or the files of a root that belong to no session.
struct Group<'a> {
    /// Its name in messages.
    name: String,
    sessions: Vec<&'a SessionFiles>,
    files: FileSet,
}

impl Store {
    /// Archives all sessions that changed, and reads archived sessions back. Only one process may do
    /// so at a time.
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
        // A database is not copied: it also holds secrets of its program.
        let (in_databases, mut all): (Vec<&SessionFiles>, Vec<&SessionFiles>) = inventory
            .sessions
            .iter()
            .partition(|files| files.is_in_database());
        // A session that exists only in a session list has no file to archive.
        all.retain(|files| files.files().next().is_some());
        let mut kept = ArchiveAllReport {
            sessions: all.len(),
            in_databases: in_databases.len(),
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
        let total = all.iter().map(|files| files.bytes()).sum();
        let mut done = 0;
        let mut progress = |bytes: u64| {
            done += bytes;
            progress(done, total);
        };
        for ((root, lone), groups) in self.groups(inventory, &all, &mut kept) {
            let mut keeper = RootKeeper {
                archive: &archive,
                root: &root,
                lone,
                now,
                suspects: &suspects,
                kept: &mut kept,
            };
            if let Err(error) = keeper.run(groups, &mut progress) {
                let root = root.path.display();
                kept.troubles
                    .push(format!("not everything in {root} was archived: {error}"));
            }
        }
        let (sessions, unreadable) = archive.sessions()?;
        let is_new = |damage: &Damage| {
            kept.verified
                .damaged
                .iter()
                .all(|it| it.pack != damage.pack)
        };
        let unreadable: Vec<Damage> = unreadable.into_iter().filter(is_new).collect();
        kept.verified.damaged.extend(unreadable);
        let sizes: Vec<(&Path, u64)> = sessions.iter().map(|it| (&*it.path, it.packed())).collect();
        let (due, upto) = match options.verify_all {
            true => (
                sizes.iter().map(|(path, _)| path.to_path_buf()).collect(),
                now,
            ),
            false => due(archive.dir(), &sizes, &before, now),
        };
        let within = |path: &Path| Some(path.strip_prefix(archive.dir()).ok()?.to_owned());
        let last = due.last().and_then(|last| within(last));
        let is_due: BTreeSet<PathBuf> = due.into_iter().collect();
        let is_wanted = |session: &&ArchivedSession| {
            let mut files = session.all().map(|member| session.location(member));
            is_due.contains(&session.path) || files.any(|file| suspects.contains(&file))
        };
        let wanted: Vec<&ArchivedSession> = match suspects.is_empty() {
            true => sessions
                .iter()
                .filter(|it| is_due.contains(&it.path))
                .collect(),
            false => sessions.iter().filter(is_wanted).collect(),
        };
        let verified = read_back(&wanted);
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
                let why = "could not record what was verified, so it will be verified again";
                kept.troubles.push(format!("{why}: {error}"));
            }
        }
        Ok(kept)
    }

    /// Returns what is to be archived of each root.
    fn groups<'a>(
        &self,
        inventory: &Inventory,
        all: &[&'a SessionFiles],
        kept: &mut ArchiveAllReport,
    ) -> Vec<((Root, bool), Vec<Group<'a>>)> {
        let mut roots: Vec<((Root, bool), Vec<Group<'a>>)> = Vec::new();
        let mut add = |group: Group<'a>| {
            let (root, lone) = (&group.files.root, group.files.lone);
            let same = |(of, is_lone): &(Root, bool)| {
                *is_lone == lone && of.path == root.path && of.layout.name() == root.layout.name()
            };
            match roots.iter_mut().find(|(of, _)| same(of)) {
                Some((_, groups)) => groups.push(group),
                None => roots.push(((Root::clone(root), lone), vec![group])),
            }
        };
        for sessions in SessionFiles::group_by_shared_files(all) {
            let name = sessions
                .first()
                .map_or_else(String::new, |it| it.id.to_string());
            match session::holdings(&sessions, false) {
                Ok(files) => add(Group {
                    name,
                    sessions,
                    files,
                }),
                Err(error) => kept.failed.push(ArchiveFailure {
                    session: name,
                    error: error.to_string(),
                }),
            }
        }
        for root in self.roots() {
            let files = root_files::files_to_archive(root, inventory);
            if !files.files.is_empty() {
                add(Group {
                    name: format!("files outside sessions of {}", root.path.display()),
                    sessions: Vec::new(),
                    files,
                });
            }
        }
        roots
    }
}

/// Archives what changed in one root.
struct RootKeeper<'a> {
    archive: &'a Archive,
    root: &'a Root,
    lone: bool,
    now: Timestamp,
    suspects: &'a BTreeSet<PathBuf>,
    kept: &'a mut ArchiveAllReport,
}

impl RootKeeper<'_> {
    fn run(&mut self, groups: Vec<Group<'_>>, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let (archive, suspects) = (self.archive, self.suspects);
        let plan = |root: &RootArchive, manifest: &mut Manifest| {
            let plan = |group: &Group<'_>| {
                let (sessions, files) = (&group.sessions, &group.files);
                let plan = session::planned(sessions, files, root, manifest, &mut |_| {});
                let known = group.files.files.iter();
                let known = known.filter_map(|(path, _)| manifest.files.get(path));
                let mut known = known.map(|member| member.location(&root.dir));
                let is_suspect = !suspects.is_empty() && known.any(|it| suspects.contains(&it));
                Archived {
                    unchanged: plan.unchanged && !is_suspect,
                    ..plan
                }
            };
            let plans: Vec<Archived> = groups.par_iter().map(plan).collect();
            Ok((plans, Damage::manifest(root, manifest)))
        };
        let (plans, damage) = archive.with_locked(self.root, self.lone, plan)?;
        let is_damaged = damage.is_some();
        self.kept.verified.damaged.extend(damage);
        let mut batch = Vec::new();
        let (mut files, mut bytes) = (0, 0);
        for (group, plan) in groups.into_iter().zip(plans) {
            if plan.unchanged {
                self.kept.unchanged += group.sessions.len();
                progress(plan.bytes);
                continue;
            }
            files += plan.files;
            bytes += plan.added;
            batch.push((group, plan));
            if files >= BATCH_FILES || bytes >= BATCH_BYTES {
                self.store(std::mem::take(&mut batch), progress)?;
                (files, bytes) = (0, 0);
            }
        }
        self.store(batch, progress)?;
        archive.with_locked(self.root, self.lone, |root, manifest| {
            if is_damaged {
                root.list_unlisted(manifest)?;
            }
            root.compact(manifest, false)
        })
    }

    fn store(
        &mut self,
        batch: Vec<(Group<'_>, Archived)>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut wanted = Vec::with_capacity(batch.len());
        for (group, plan) in batch {
            match session::contents(&group.sessions, &group.files) {
                Ok(contents) => wanted.push((group, plan, contents)),
                Err(error) => self.kept.fail(group.name, &error),
            }
        }
        let contents: Vec<Contents> = wanted.iter().map(|(.., it)| it.clone()).collect();
        let (now, suspects) = (self.now, self.suspects);
        let stored = self
            .archive
            .with_locked(self.root, self.lone, |root, manifest| {
                let mut mirror = Mirror {
                    archive: root,
                    manifest,
                    now,
                    suspects: Some(suspects),
                };
                let results = mirror.store(&contents)?;
                let manifest = &*manifest;
                let checked = results.into_par_iter().zip(&wanted);
                let checked = checked.map(|(result, (group, plan, _))| {
                    let stored = result?;
                    verify_written(root, manifest, &stored.written)?;
                    let done = session::done(plan.clone(), &stored, manifest, &group.files.files);
                    // Recorded damage was reported before.
                    let mut repaired = stored.repaired.iter().map(|it| file_path(&root.dir, it));
                    let new = repaired.find(|stored| !suspects.contains(stored));
                    let damage = new.zip(done.mended.clone());
                    let damage = damage.map(|(path, detail)| Damage {
                        is_unread: !stored.unread.is_empty(),
                        ..Damage::new(&path, None, detail)
                    });
                    Ok((done, damage))
                });
                Ok(checked.collect::<Vec<Result<(Archived, Option<Damage>)>>>())
            })?;
        for ((group, plan, _), result) in wanted.into_iter().zip(stored) {
            match result {
                Ok((archived, _)) if archived.unchanged => {
                    self.kept.unchanged += group.sessions.len();
                }
                Ok((archived, damage)) => {
                    self.kept.verified.damaged.extend(damage);
                    self.kept.added += archived.added;
                    self.kept.archived.push(archived);
                }
                Err(error) => self.kept.fail(group.name, &error),
            }
            progress(plan.bytes);
        }
        Ok(())
    }
}

impl ArchiveAllReport {
    fn fail(&mut self, session: String, error: &Error) {
        self.failed.push(ArchiveFailure {
            session,
            error: error.to_string(),
        });
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

/// Reads archived sessions back.
fn read_back(sessions: &[&ArchivedSession]) -> VerifyReport {
    let look = |session: &&ArchivedSession| {
        let mut verified = VerifyReport::default();
        verified.verify(session);
        verified
    };
    let each: Vec<VerifyReport> = sessions.par_iter().with_max_len(1).map(look).collect();
    let mut all = VerifyReport::default();
    each.into_iter().for_each(|verified| all.add(verified));
    all
}

/// Returns what is due to be read back: its share of all bytes is the share of a round that has
/// passed. Also returns the time up to which verification is then on schedule, so that time not yet
/// used counts for the next run.
fn due(
    dir: &Path,
    sizes: &[(&Path, u64)],
    note: &Note,
    now: Timestamp,
) -> (Vec<PathBuf>, Timestamp) {
    let total: u64 = sizes.iter().map(|(_, size)| size).sum();
    // A time in the future is invalid: read everything and correct it.
    let from = match note.verified > now {
        true => Timestamp::MIN,
        false => note.verified,
    };
    let since = now.duration_since(from);
    let part = (since.as_secs_f64() / ROUND.as_secs_f64()).clamp(0.0, 1.0);
    let budget = (total as f64 * part) as u64;
    let last = note.last.as_ref().map(|last| dir.join(last));
    let split = sizes.partition_point(|(path, _)| last.as_ref().is_some_and(|last| path <= last));
    let (before, after) = sizes.split_at(split);
    let (mut due, mut used) = (Vec::new(), 0);
    for (path, size) in after.iter().chain(before) {
        // What is larger than the remaining budget is read once enough time has passed.
        if used + size > budget {
            break;
        }
        used += size;
        due.push(path.to_path_buf());
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
    /// Records which of the archived sessions just read back are damaged. Every `annals keep` reads
    /// the damaged files back, and archives them again, until they are intact.
    pub fn record_damaged(
        &self,
        looked: &[ArchivedSession],
        damaged: &[Damage],
        now: Timestamp,
    ) -> Result<()> {
        let path = note_of(&self.dir);
        let within = |path: &Path| Some(path.strip_prefix(&self.dir).ok()?.to_owned());
        let note = Note::read(&path)?;
        let looked = looked.iter().flat_map(|session| {
            let files = session.all();
            files.filter_map(|member| within(&session.location(member)))
        });
        let looked: BTreeSet<PathBuf> = looked.collect();
        let known = note.as_ref().map(|note| note.damaged.clone());
        let known = known.unwrap_or_default();
        let mut all: BTreeSet<PathBuf> = known.difference(&looked).cloned().collect();
        let damaged = damaged.iter().filter(|it| it.member.is_some());
        all.extend(damaged.filter_map(|it| within(&it.pack)));
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

/// Returns the compressed files recorded as damaged.
pub(super) fn known_damaged(archive: &Archive) -> BTreeSet<PathBuf> {
    let note = archive.failures.ok(Note::read(&note_of(archive.dir())));
    note.flatten()
        .map_or_else(BTreeSet::new, |note| note.suspects(archive.dir()))
}

impl Note {
    /// Returns the paths of the damaged files. Ignores paths that lead out of the archive.
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
