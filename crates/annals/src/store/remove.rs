//! Removes files of sessions that have copies elsewhere, and updates session lists.
//!
//! The order is that of the trash: all logs are locked from the last check until they are removed,
//! and the main log is removed last. Empty folders and session-list rows are removed after it.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, FileId, Removal};

use super::inventory::{RootFile, SessionFiles};
use super::{Root, Store, fork_bases, record_source, session_list, trash};

/// Files of one session, or of several that share files.
#[derive(Debug)]
pub(crate) struct FileSet {
    pub(crate) root: Arc<Root>,
    /// The paths within the root, the main log first, and whether each is a log.
    pub(crate) files: Vec<(PathBuf, bool)>,
    /// Identity of each file when it was found.
    pub(crate) ids: Vec<FileId>,
    /// Number of session logs, which come first in `files`. They are locked while they are removed.
    volumes: usize,
    /// Whether it is a single log outside any root.
    pub(crate) lone: bool,
}

/// Copies of files that are to be removed.
pub(crate) trait FileCopies {
    /// Checks that a file of the root equals its copy. Returns the identity of the file.
    fn verify(&self, within: &Path) -> Result<FileId>;

    /// Checks that the copies still exist under their names.
    fn ensure_reachable(&self) -> Result<()>;

    /// Restores removed files.
    fn restore(&self, gone: &[&Path]) -> Result<()>;

    /// Saves the session-list rows of a removed log.
    fn save_rows(&self, log: &Path, rows: &[String]) -> Result<()>;
}

impl FileSet {
    /// Returns all files of the sessions.
    pub(crate) fn from_sessions(group: &[&SessionFiles]) -> Result<Self> {
        group.iter().try_for_each(|files| files.refuse_database())?;
        let beside = group.iter().flat_map(|files| files.attachments_on_disk());
        FileSet::new(group, beside.collect())
    }

    /// Returns the files to remove with the sessions. Fails if other sessions share a log.
    pub(crate) fn to_remove(group: &[&SessionFiles]) -> Result<Self> {
        group
            .iter()
            .try_for_each(|files| files.refuse_read_only())?;
        trash::refuse_shared(group.iter().copied())?;
        fork_bases::refuse_with_forks(group)?;
        let beside = group.iter().flat_map(|files| trash::own_attachments(files));
        FileSet::new(group, beside.collect())
    }

    fn new(group: &[&SessionFiles], beside: Vec<RootFile>) -> Result<Self> {
        let nothing = || Error::refused("there is no session");
        let first = group.first().ok_or_else(nothing)?;
        let root = Arc::clone(&first.root);
        let volumes = trash::volumes(group.iter().copied());
        let count = volumes.len();
        let mut seen = HashSet::new();
        let mut files = Vec::with_capacity(count + beside.len());
        let mut ids = Vec::with_capacity(count + beside.len());
        for file in volumes.into_iter().chain(&beside) {
            let Ok(within) = file.path.strip_prefix(&root.path) else {
                let (path, root) = (file.path.display(), root.path.display());
                return Err(Error::refused(format!("{path} is not in {root}")));
            };
            if seen.insert(within) {
                files.push((within.to_owned(), file.artifact.kind.is_log()));
                ids.push(record_source::own_identity(file));
            }
        }
        Ok(FileSet {
            lone: first.is_lone(),
            root,
            files,
            ids,
            volumes: count,
        })
    }

    /// Runs `work` with the first logs locked; see [`trash::MAX_LOCKED_LOGS`]. Fails if a file is
    /// outside of the root.
    pub(crate) fn with_logs_locked<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        for (within, _) in &self.files {
            self.root.ensure_inside(&self.root.path.join(within))?;
        }
        let logs = self.files.iter().take(self.volumes);
        let logs = logs.take(trash::MAX_LOCKED_LOGS).map(|(within, _)| {
            let path = self.root.path.join(within);
            self.root.open_log_to_lock(&path)
        });
        trash::with_all_locked(&logs.collect::<Result<Vec<_>>>()?, work)
    }

    /// Returns files that belong to no session.
    pub(crate) fn outside_sessions(
        root: &Root,
        files: Vec<(PathBuf, bool)>,
        ids: Vec<FileId>,
    ) -> Self {
        FileSet {
            root: Arc::new(root.clone()),
            files,
            ids,
            volumes: 0,
            lone: false,
        }
    }

    /// Returns the total size of the files in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.ids.iter().map(|id| id.len).sum()
    }
}

impl SessionFiles {
    /// Fails with [`Held`](annals_jsonl::Error::Held) if another program has one of its files or its
    /// session list open for writing. Removing the session replaces the list.
    pub(crate) fn refuse_held(&self) -> Result<()> {
        let files = self.files().flat_map(RootFile::volumes);
        let there = files.filter(|file| !file.is_archived());
        jsonl::ensure_not_open(there.map(|file| (file.path.as_path(), &file.id)))?;
        session_list::refuse_held_lists(self)
    }
}

impl Store {
    /// Returns the session-list rows of the sessions' logs: the path of the log within the root, and
    /// the row.
    pub(crate) fn list_rows(group: &[&SessionFiles]) -> Result<Vec<(PathBuf, String)>> {
        let mut rows = Vec::new();
        for files in group {
            let found = trash::list_rows(files)?;
            rows.extend(found.into_iter().map(|row| (row.path, row.text)));
        }
        Ok(rows)
    }

    /// Removes the files of sessions, of which `copies` has copies.
    ///
    /// Removes nothing unless every file equals its copy while the logs are locked, and no other
    /// program has one open for writing: its later writes would be lost. If a file cannot be removed,
    /// if a program writes to one meanwhile, or if the copies vanish, all files are restored.
    pub(crate) fn remove_files(
        group: &[&SessionFiles],
        holdings: &FileSet,
        live: bool,
        copies: &dyn FileCopies,
    ) -> Result<()> {
        let root = &holdings.root;
        let paths: Vec<PathBuf> = holdings
            .files
            .iter()
            .map(|(within, _)| root.path.join(within))
            .collect();
        holdings.with_logs_locked(|| {
            let mut ids = Vec::with_capacity(paths.len());
            for (path, (within, _)) in paths.iter().zip(&holdings.files) {
                let id = copies.verify(within)?;
                ensure_untouched(path, &id)?;
                ids.push(id);
            }
            // As late as possible: reading all files took a while.
            jsonl::ensure_not_open(paths.iter().map(PathBuf::as_path).zip(&ids))
                .map_err(FileError::for_removal)?;
            if !live {
                group
                    .iter()
                    .copied()
                    .try_for_each(session_list::refuse_held_lists)?;
            }
            copies.ensure_reachable()?;
            let mut gone = Vec::new();
            let files: Vec<(&PathBuf, &FileId)> = paths.iter().zip(&ids).collect();
            // While the main log exists, the session is found and the removal can be repeated.
            for (at, files) in files.chunks(trash::MAX_LOCKED_LOGS).enumerate().rev() {
                let first = at * trash::MAX_LOCKED_LOGS;
                remove_all(holdings, first, files, &mut gone)
                    .map_err(|error| roll_back(error, &gone, copies))?;
            }
            copies
                .ensure_reachable()
                .map_err(|error| roll_back(error, &gone, copies))
        })?;
        // No file has to be restored from here on.
        for path in &paths {
            if root.has_lock_file(path) {
                let _ = jsonl::lock_file::remove(path);
            }
            trash::remove_empty_dirs(path.parent(), &root.path);
        }
        let struck = group
            .iter()
            .try_for_each(|files| remove_from_lists(files, copies));
        struck.map_err(|error| {
            Error::refused(format!(
                "the files are archived and removed, but a session list still has them: {error}"
            ))
        })
    }

    /// Adds restored logs to their session lists, with their former rows.
    pub(crate) fn relist(root: &Root, logs: &[PathBuf], rows: &[(PathBuf, String)]) -> Result<()> {
        let Some(writer) = root.layout.writer() else {
            return Ok(());
        };
        let logs = logs.iter().filter_map(|path| {
            let log = root.layout.classify(path)?;
            let row = rows.iter().find(|(of, _)| of == path);
            let text = row.map(|(_, text)| text.clone());
            log.kind.is_conversation().then_some((log, text))
        });
        session_list::relist(root, writer, logs)
    }
}

/// Removes a chunk of the files that starts at index `first`. The caller holds the locks of the
/// first logs; this locks other logs and documents. Adds the removed paths to `gone`.
fn remove_all<'a>(
    holdings: &'a FileSet,
    first: usize,
    files: &[(&PathBuf, &FileId)],
    gone: &mut Vec<&'a Path>,
) -> Result<()> {
    // Held until the logs are removed: other processes rename unlocked files back.
    let further = trash::MAX_LOCKED_LOGS..holdings.volumes;
    let logs = (first..)
        .zip(files)
        .filter(|(number, _)| further.contains(number));
    let logs = logs.map(|(_, (path, _))| holdings.root.open_log_to_lock(path));
    let logs = logs.collect::<Result<Vec<_>>>()?;
    trash::with_all_locked(&logs, || {
        Removal::wait_until_closed(files.iter().map(|(path, id)| (path.as_path(), *id)))?;
        remove_locked(holdings, first, files, gone)
    })
}

/// Removes a chunk of the files, whose logs are locked.
///
/// Renames all files of the chunk before it removes one. If a program wrote to one, or has one open
/// for writing, renames all of them back.
fn remove_locked<'a>(
    holdings: &'a FileSet,
    first: usize,
    files: &[(&PathBuf, &FileId)],
    gone: &mut Vec<&'a Path>,
) -> Result<()> {
    let mut renamed: Vec<(Removal, &'a Path)> = Vec::with_capacity(files.len());
    let mut rename_all = || {
        for (at, (path, id)) in files.iter().enumerate().rev() {
            let number = first + at;
            let Some((within, _)) = holdings.files.get(number) else {
                continue;
            };
            let rename = || {
                let removal = Removal::open(path, id)?;
                removal.rename_away().map(|()| removal)
            };
            let removal = match number < holdings.volumes {
                true => rename(),
                false => jsonl::with_document_lock(path, rename),
            }?;
            renamed.push((removal, within));
        }
        Ok(())
    };
    let mut result = rename_all();
    let removals = renamed.iter().map(|(removal, _)| removal);
    result = result.and_then(|()| Removal::ensure_final(removals));
    for (removal, within) in &renamed {
        result = result.and_then(|()| removal.unlink());
        match result {
            Ok(()) => gone.push(within),
            Err(error) => result = Err(removal.put_back(error)),
        }
    }
    Ok(result?)
}

/// Restores the files that were removed before the error. Returns the error with the result.
fn roll_back(error: Error, gone: &[&Path], copies: &dyn FileCopies) -> Error {
    if gone.is_empty() {
        return error;
    }
    let gone_before = match gone.len() {
        1 => "the file removed before it was".to_owned(),
        count => format!("the {count} files removed before it were"),
    };
    Error::refused(match copies.restore(gone) {
        Ok(()) => format!("{error}; {gone_before} put back from the archive, which has everything"),
        Err(other) => format!(
            "{error}; {gone_before} not put back ({other}); the archive has everything, and `annals restore SESSION --apply` puts it back"
        ),
    })
}

/// Removes the logs of a removed session from their session lists. Saves the rows first: a title may
/// have changed since the copies were made.
fn remove_from_lists(files: &SessionFiles, copies: &dyn FileCopies) -> Result<()> {
    let Some(writer) = files.root.layout.writer().filter(|_| !files.is_lone()) else {
        return Ok(());
    };
    for file in files.listed_logs() {
        let path = files.root.layout.path_for(&file.artifact);
        session_list::remove_from_list(&files.root, writer, &file.artifact, &mut |rows| {
            copies.save_rows(&path, rows)
        })?;
    }
    Ok(())
}

/// Fails with [`Changed`](FileError::Changed) if the content of a file may have changed since it was
/// listed.
pub(super) fn ensure_unchanged(file: &RootFile) -> Result<()> {
    ensure(&file.path, |now| *now == record_source::own_identity(file))
}

/// Fails with [`Changed`](FileError::Changed) if a file is not the one that `id` describes, or was
/// touched since.
pub(crate) fn ensure_untouched(path: &Path, id: &FileId) -> Result<()> {
    ensure(path, |now| now.untouched(id))
}

/// Fails with [`Changed`](FileError::Changed) if a file was touched since it was listed.
pub(crate) fn ensure_file_untouched(file: &RootFile) -> Result<()> {
    ensure_untouched(&file.path, &record_source::own_identity(file))
}

fn ensure(path: &Path, is_same: impl Fn(&FileId) -> bool) -> Result<()> {
    let now = match path.symlink_metadata() {
        Ok(now) => FileId::from(&now),
        Err(error) if error.kind() == io::ErrorKind::NotFound => FileId::default(),
        Err(error) => return Err(Error::io("stat", path, error)),
    };
    match is_same(&now) {
        true => Ok(()),
        false => Err(Error::File(FileError::Changed {
            path: path.to_owned(),
        })),
    }
}

#[cfg(test)]
mod tests;
