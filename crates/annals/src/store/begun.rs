//! Creates a log that does not exist, and removes it again if nothing is written to it.
//!
//! An empty log is a created session, so a refused append must not leave one behind. The log is
//! removed only if this process created it, under its lock, while it is empty and not open
//! elsewhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::{Create, FileId, Removal, lock_file};
use annals_layouts::layout::NewSession;

use super::resolve::MissingLog;
use super::writer::create_parent_dirs;
use super::{Root, Store, WriteOptions};

/// A log that [`MissingLog::create`] created.
#[derive(Debug)]
#[must_use = "call `discard` if nothing is written to the log"]
pub struct BegunLog {
    /// `None` if another program created the log first.
    made: Option<Made>,
}

/// Files and directories created for a log.
#[derive(Debug)]
struct Made {
    root: Root,
    log: PathBuf,
    id: FileId,
    /// The log's companion and its identity, if it did not exist before.
    companion: Option<(PathBuf, FileId)>,
    /// Whether the lock file was created.
    lock_file: bool,
    /// Directories that did not exist before, deepest first.
    dirs: Vec<PathBuf>,
}

impl MissingLog {
    /// Creates the log. Another program may create it at the same time.
    pub fn create(&self, store: &Store, options: WriteOptions) -> Result<BegunLog> {
        let root = &self.root;
        let Some(artifact) = root.layout.log_from_name(self.new.id.as_str()) else {
            let created = store.create(root, &self.new, options);
            return created.map(|_| BegunLog { made: None });
        };
        let log = root.locate(&artifact)?;
        let companion = root.layout.companion(&artifact);
        let companion = companion.map(|it| root.locate(&it)).transpose()?;
        let companion = companion.filter(|path| !is_there(path));
        let mut made = Made {
            root: root.clone(),
            id: FileId::default(),
            companion: None,
            lock_file: root.has_lock_file(&log) && !is_there(&lock_file::lock_path(&log)),
            dirs: missing_dirs(&log),
            log: log.clone(),
        };
        create_parent_dirs(root, &log)?;
        match root.open_log(&log, options.log_options(Create::New)) {
            Err(Error::File(FileError::Io { source, .. }))
                if source.kind() == io::ErrorKind::AlreadyExists =>
            {
                return Ok(BegunLog { made: None });
            }
            opened => drop(opened?),
        }
        made.id = identity(&log)?;
        let new = NewSession::unnamed(self.new.cwd.clone())?;
        let created = store.create(root, &new, options);
        let with_identity = |path: PathBuf| identity(&path).ok().map(|id| (path, id));
        made.companion = companion.and_then(with_identity);
        let begun = BegunLog { made: Some(made) };
        match created {
            Ok(_) => Ok(begun),
            Err(error) => {
                begun.discard()?;
                Err(error)
            }
        }
    }
}

impl BegunLog {
    /// Returns whether this created the log; `false` if another program created it first.
    pub fn is_new(&self) -> bool {
        self.made.is_some()
    }

    /// Removes what was created for the log, unless it has content or another program uses it.
    pub fn discard(self) -> Result<()> {
        let Some(made) = self.made else {
            return Ok(());
        };
        let log = match made.root.open_log_to_lock(&made.log) {
            Err(Error::File(FileError::Io { source, .. }))
                if source.kind() == io::ErrorKind::NotFound =>
            {
                return Ok(());
            }
            opened => opened?,
        };
        let removed = log.with_lock(|file| {
            let now = file.metadata();
            let now = now.map_err(|error| Error::io("stat", &made.log, error))?;
            let now = FileId::from(&now);
            if !now.same_file(&made.id) || now.len > 0 || made.companion_was_written() {
                return Ok::<_, Error>(false);
            }
            match Removal::open(&made.log, &now).and_then(|removal| removal.remove()) {
                Err(FileError::Changed { .. } | FileError::Held { .. }) => return Ok(false),
                removed => removed?,
            }
            if let Some((path, _)) = &made.companion {
                remove(path)?;
            }
            if made.lock_file {
                let removed = lock_file::remove(&made.log);
                removed.map_err(|error| Error::io("remove", &made.log, error))?;
            }
            Ok(true)
        })?;
        if removed {
            // A directory that is not empty is in use.
            let mut dirs = made.dirs.iter();
            let _ = dirs.try_for_each(fs::remove_dir);
        }
        Ok(())
    }
}

impl Made {
    fn companion_was_written(&self) -> bool {
        let companion = self.companion.as_ref();
        companion.is_some_and(|(path, id)| identity(path).is_ok_and(|now| !now.untouched(id)))
    }
}

/// Returns whether a path exists or, if the system does not know, may exist: only what was missing is
/// removed.
fn is_there(path: &Path) -> bool {
    annals_jsonl::exists(path).unwrap_or(true)
}

fn identity(path: &Path) -> Result<FileId> {
    let metadata = path.symlink_metadata();
    let metadata = metadata.map_err(|error| Error::io("stat", path, error))?;
    Ok(FileId::from(&metadata))
}

/// Returns the missing directories above a file, deepest first.
fn missing_dirs(path: &Path) -> Vec<PathBuf> {
    let dirs = path.ancestors().skip(1);
    let missing = dirs.take_while(|dir| !dir.as_os_str().is_empty() && !is_there(dir));
    missing.map(Path::to_owned).collect()
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path, error))
        }
        _ => Ok(()),
    }
}
