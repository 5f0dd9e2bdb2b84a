//! Opens a log for appending, or reports why it cannot.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::group_commit::GroupCommit;
use super::options::{AppendOptions, Create};
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
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            // Network file systems lock only files that are open for writing.
            .append(!lock_only || network)
            .create_new(create == Create::New)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(path)
            .map_err(|source| match (Errno::from_io_error(&source), create) {
                (Some(Errno::LOOP), _) => Error::ThroughLink {
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
        if !network && is_remote(&file).map_err(|e| Error::io("stat", path, e))? {
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

/// Whether a file or directory is on a network file system.
#[cfg(target_os = "linux")]
pub fn is_remote(file: &File) -> io::Result<bool> {
    let kind = rustix::fs::fstatfs(file)?.f_type;
    // The magic numbers are 32 bits wide in a field whose width depends on the platform.
    let kind = kind as u32;
    Ok(matches!(
        kind,
        0x6969 // NFS
            | 0x517b // SMB
            | 0xff53_4d42 // CIFS
            | 0xfe53_4d42 // SMB2
            | 0x0102_1997 // 9P
            | 0x5346_414f // AFS
            | 0x00c3_6400 // Ceph
            | 0x7375_7245 // Coda
    ))
}

#[cfg(not(target_os = "linux"))]
pub fn is_remote(_: &File) -> io::Result<bool> {
    Ok(false)
}
