//! Where a conversion puts files before they have their names.
//!
//! Files are written in a directory of their own within the target and get their names when they are
//! whole and synced. A conversion that is cut off leaves whole files and that directory, which the
//! next one clears away.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::jsonl;

/// The directory's name.
const NAME: &str = ".annals-convert";

#[derive(Debug)]
pub(super) struct Stage {
    root: PathBuf,
    dir: PathBuf,
    next: AtomicU64,
    /// Directories that got new names in them and are yet to be synced.
    touched: Mutex<BTreeSet<PathBuf>>,
}

impl Stage {
    /// Prepares a target; what an earlier conversion left behind goes.
    pub(super) fn open(root: &Path) -> Result<Self> {
        jsonl::ensure_dir(root)?;
        let dir = root.join(NAME);
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &dir, error));
            }
            _ => {}
        }
        jsonl::ensure_dir(&dir)?;
        Ok(Stage {
            root: root.to_owned(),
            dir,
            next: AtomicU64::new(0),
            touched: Mutex::default(),
        })
    }

    /// Begins a file that is to lie at `within` the target.
    pub(super) fn file(&self, within: &Path) -> Result<Staged> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(number.to_string());
        let file = File::create_new(&path).map_err(|error| Error::io("create", &path, error))?;
        file.set_permissions(Permissions::from_mode(0o600))
            .map_err(|error| Error::io("create", &path, error))?;
        Ok(Staged {
            temp: path,
            to: self.root.join(within),
            out: BufWriter::with_capacity(256 << 10, file),
            mode: None,
            mtime: None,
        })
    }

    /// Gives a file its name. `false` if one of that name is there already.
    pub(super) fn commit(&self, staged: Staged) -> Result<bool> {
        let Staged {
            temp,
            to,
            out,
            mode,
            mtime,
        } = staged;
        let failed = |error| Error::io("write", &to, error);
        let file = out
            .into_inner()
            .map_err(|error| failed(error.into_error()))?;
        if let Some(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode & 0o7777))
                .map_err(failed)?;
        }
        if let Some(mtime) = mtime {
            file.set_modified(mtime).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        let parent = to.parent().unwrap_or(&self.root);
        jsonl::ensure_dir(parent)?;
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let cwd = rustix::fs::CWD;
        match rustix::fs::renameat_with(cwd, &temp, cwd, &to, flags) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => {
                fs::remove_file(&temp).map_err(failed)?;
                return Ok(false);
            }
            // Not every file system can refuse to replace.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                if let Err(error) = fs::hard_link(&temp, &to) {
                    fs::remove_file(&temp).map_err(failed)?;
                    return match error.kind() {
                        io::ErrorKind::AlreadyExists => Ok(false),
                        _ => Err(failed(error)),
                    };
                }
                fs::remove_file(&temp).map_err(failed)?;
            }
            Err(error) => return Err(failed(error.into())),
        }
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        touched.insert(parent.to_owned());
        Ok(true)
    }

    /// Makes all names durable and clears the stage away.
    pub(super) fn close(self) -> Result<()> {
        let touched = self
            .touched
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for dir in &touched {
            let synced = File::open(dir).and_then(|dir| dir.sync_all());
            synced.map_err(|error| Error::io("sync", dir, error))?;
        }
        fs::remove_dir_all(&self.dir).map_err(|error| Error::io("remove", &self.dir, error))
    }
}

/// A file that has no name yet.
#[derive(Debug)]
pub(super) struct Staged {
    temp: PathBuf,
    to: PathBuf,
    out: BufWriter<File>,
    mode: Option<u32>,
    mtime: Option<std::time::SystemTime>,
}

impl Staged {
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out
            .write_all(bytes)
            .map_err(|error| Error::io("write", &self.to, error))
    }

    /// Adds a line.
    pub(super) fn line(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(bytes)?;
        self.put(b"\n")
    }

    /// What the file was like before.
    pub(super) fn like(&mut self, mode: u32, mtime: i64) {
        self.mode = Some(mode);
        let since = std::time::Duration::from_nanos(mtime.unsigned_abs());
        let time = match mtime >= 0 {
            true => std::time::UNIX_EPOCH.checked_add(since),
            false => std::time::UNIX_EPOCH.checked_sub(since),
        };
        self.mtime = time;
    }
}
