//! Opens a log for appending, or reports why it cannot.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::group_commit::GroupCommit;
use super::options::{AppendOptions, Create};
use super::sys;
use crate::{Error, Result};

/// An open inode and its pending syncs.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// Whether the directory entry was made durable.
    pub(crate) name_synced: AtomicBool,
    pub(crate) group: GroupCommit,
}

impl OpenFile {
    pub(crate) fn new(path: &Path, options: AppendOptions) -> Result<Self> {
        let AppendOptions {
            create,
            network,
            lock_only,
            ..
        } = options;
        // A path that names a pipe or a terminal must not block the process or become its
        // controlling terminal.
        let mut open = OpenOptions::new();
        // Network file systems lock only files that are open for writing.
        open.read(true).append(!lock_only || network);
        open.create_new(create == Create::New);
        let file = sys::no_follow(sys::owner_only(&mut open))
            .open(path)
            .map_err(|source| match (sys::is_link_refused(&source), create) {
                (true, _) => Error::ThroughLink {
                    path: path.to_owned(),
                    why: "is a symbolic link; annals writes only to the file itself".to_owned(),
                },
                (_, Create::New) => Error::io("create", path, source),
                (_, Create::Never) => Error::io("open", path, source),
            })?;
        let metadata = file.metadata().map_err(|e| Error::io("stat", path, e))?;
        if !metadata.is_file() {
            return Err(Error::NotAFile {
                path: path.to_owned(),
            });
        }
        if !network && sys::is_remote(&file).map_err(|e| Error::io("stat", path, e))? {
            return Err(Error::Network {
                path: path.to_owned(),
            });
        }
        Ok(Self {
            file,
            name_synced: AtomicBool::new(false),
            group: GroupCommit::default(),
        })
    }
}
