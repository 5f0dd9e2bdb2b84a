//! Leftover files: companion files and lock files whose log no longer exists.
//!
//! A program that deletes its own logs does not delete the files that annals keeps next to them,
//! and a killed process leaves its lock file. Such files contain no messages. Only layouts whose
//! own program writes nothing but logs and lock files are searched: all other files there belong to
//! annals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::store::{Root, RootFile, TrashItem, ensure_untouched};
use crate::time_input::Now;
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, FileId, lock_file};
use annals_layouts::model::{Artifact, ArtifactKind};

use super::{Policy, Retention, Rule};

/// Files of a log or session that no longer exists.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Leftover {
    /// Their root.
    pub root: Root,
    /// The missing log's path within the root, or the session's name in its folder.
    pub gone: PathBuf,
    /// The files.
    pub files: Vec<PathBuf>,
    /// Their total length.
    pub bytes: u64,
    /// Modification time of the newest.
    pub last: Timestamp,
    /// The term that applies.
    pub term: String,
    /// The rule that sets the term.
    pub rule: Rule,
    /// Identities of the files when they were found.
    ids: Vec<FileId>,
    is_log: bool,
}

impl Leftover {
    /// Returns the project folder of the files.
    pub fn folder(&self) -> Option<&str> {
        self.gone.parent()?.file_name()?.to_str()
    }
}

/// Files by missing owner, and whether that is a log.
type Found = BTreeMap<PathBuf, (bool, Vec<(PathBuf, FileId)>)>;

impl Retention<'_> {
    /// Finds files of missing logs and sessions that have expired by the policy.
    pub fn leftovers(&self, policy: &Policy, now: &Now) -> Vec<Leftover> {
        let roots = self.store.roots().iter();
        let roots = roots.filter(|root| root.layout.has_lock_files());
        let mut all = Vec::new();
        for root in roots {
            for (gone, (is_log, files)) in self.found(root) {
                let (paths, ids): (Vec<PathBuf>, Vec<FileId>) = files.into_iter().unzip();
                let newest = ids.iter().map(|id| id.mtime_ns).max();
                let last = newest.and_then(|time| Timestamp::from_nanosecond(time.into()).ok());
                let folder = gone.parent().and_then(Path::file_name);
                let folder = folder.and_then(|name| name.to_str()).unwrap_or_default();
                let Some((last, (cutoff, term, rule))) = last.zip(term(policy, root, folder, now))
                else {
                    continue;
                };
                if last >= cutoff {
                    continue;
                }
                all.push(Leftover {
                    root: root.clone(),
                    gone,
                    bytes: ids.iter().map(|id| id.len).sum(),
                    files: paths,
                    last,
                    term,
                    rule,
                    ids,
                    is_log,
                });
            }
        }
        crate::sort::by(&mut all, |a, b| (a.last, &a.gone).cmp(&(b.last, &b.gone)));
        all
    }

    /// Moves leftover files to the trash, unless the log exists again or a file changed since they
    /// were found.
    pub fn clean_leftover(&self, leftover: &Leftover, now: Timestamp) -> Result<TrashItem> {
        let root = &leftover.root;
        let log = root.path.join(&leftover.gone);
        let work = || {
            let back = match leftover.is_log {
                true => jsonl::exists(&log)?,
                false => !self.found(root).contains_key(&leftover.gone),
            };
            if back {
                return Err(Error::File(FileError::Changed { path: log.clone() }));
            }
            for (path, id) in leftover.files.iter().zip(&leftover.ids) {
                ensure_untouched(path, id)?;
            }
            self.store
                .trash()
                .move_leftover_in(root, &leftover.gone, &leftover.files, now)
        };
        if !leftover.is_log {
            return work();
        }
        // A writer that creates the log again waits for this lock.
        lock_file::hold(&log, || {
            let moved = work();
            let removed = lock_file::remove(&log);
            removed.map_err(|error| Error::io("remove", &log, error))?;
            moved
        })
    }

    /// Returns the files in a root whose log or session no longer exists.
    fn found(&self, root: &Root) -> Found {
        let mut found = Found::new();
        match jsonl::is_dir(&root.path) {
            Ok(true) => {}
            Ok(false) => return found,
            Err(error) => {
                root.failures().report(error.into());
                return found;
            }
        }
        let inventory = self.store.inventory_of(root);
        if !inventory.is_complete() {
            return found;
        }
        for (_, file) in &inventory.others {
            if let Some((gone, is_log)) = owner(root, file) {
                let (_, files) = found.entry(gone).or_insert((is_log, Vec::new()));
                files.push((file.path.clone(), file.id));
            }
        }
        for (path, id) in lock_files(root) {
            let log = path.with_extension("");
            let gone = log.strip_prefix(&root.path).map(Path::to_owned);
            match (gone, jsonl::exists(&log)) {
                (Ok(gone), Ok(false)) => {
                    let (_, files) = found.entry(gone).or_insert((true, Vec::new()));
                    files.push((path, id));
                }
                (_, Err(error)) => root.failures().report(error.into()),
                _ => {}
            }
        }
        found
    }
}

/// Returns the owner of a file, as a path within the root, and whether that is a log.
fn owner(root: &Root, file: &RootFile) -> Option<(PathBuf, bool)> {
    let within = file.path.strip_prefix(&root.path).ok()?;
    let session = file.artifact.session.as_ref()?;
    match file.artifact.kind {
        ArtifactKind::Companion => {
            let log = Artifact {
                kind: ArtifactKind::SharedLog,
                ..file.artifact.clone()
            };
            let companion = root.layout.companion(&log)?;
            (companion == file.artifact).then(|| (root.layout.path_for(&log), true))
        }
        ArtifactKind::Notes | ArtifactKind::Todos | ArtifactKind::Origin => {
            Some((within.with_file_name(session.as_str()), false))
        }
        _ => None,
    }
}

/// Returns the lock files of a root.
fn lock_files(root: &Root) -> Vec<(PathBuf, FileId)> {
    let mut found = Vec::new();
    let mut dirs = vec![root.path.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in root.failures().read_dir(&dir) {
            let path = entry.path();
            let Some(metadata) = root.failures().metadata(&path) else {
                continue;
            };
            let within = path.strip_prefix(&root.path).unwrap_or(&path);
            if metadata.is_dir() && root.layout.may_hold_files(within) {
                dirs.push(path);
            } else if metadata.is_file() && root.is_lock_file(&path) {
                found.push((path, FileId::from(&metadata)));
            }
        }
    }
    found
}

/// Returns the retention of files in a project folder, by the rules for sessions. No record names
/// the project's directory any more, so a directory rule is matched by the folder name that the
/// directory would have.
fn term(
    policy: &Policy,
    root: &Root,
    folder: &str,
    now: &Now,
) -> Option<(Timestamp, String, Rule)> {
    let mut projects = policy.projects.keys();
    let project = projects.find(|dir| root.layout.folder(dir).as_deref() == Some(folder));
    let days = root
        .layout
        .retention_days()
        .filter(|_| policy.program_terms);
    policy.cutoff(
        root.layout.name(),
        project.map_or("", String::as_str),
        days,
        now,
    )
}
