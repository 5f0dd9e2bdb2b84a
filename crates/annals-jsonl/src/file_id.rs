//! File identity, and detection of changes since a file was read.
//!
//! Foreign writers replace files, shrink them and sometimes rewrite a tail in place, so a path and
//! a length are not enough to resume from.

use std::fs::Metadata;
use std::io;
use std::path::Path;

use rustix::fs::Stat;
use sha2::{Digest as _, Sha256};

use super::{ReadAt, sys};
use crate::{Error, Result};

const GUARD_LEN: u64 = 4 << 10;

/// Identity and change times of a file.
///
/// Two are equal if the file was not written to; it may have been renamed or have another mode.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileId {
    /// The device.
    pub dev: u64,
    /// The inode.
    pub ino: u64,
    /// The length in bytes.
    pub len: u64,
    /// The modification time, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The inode change time, which cannot be set.
    pub ctime_ns: i64,
}

/// Whether `path` names the file that `held` describes, without following a link. Returns `false`
/// if the path does not exist.
///
/// Other errors are returned: a caller that reopens the file until the path names it would loop
/// forever.
pub fn is_at_path(path: &Path, held: &Metadata) -> Result<bool> {
    match path.symlink_metadata() {
        Ok(named) => Ok(sys::identity(&named) == sys::identity(held)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("stat", path, error)),
    }
}

impl PartialEq for FileId {
    fn eq(&self, other: &FileId) -> bool {
        self.same_file(other) && (self.len, self.mtime_ns) == (other.len, other.mtime_ns)
    }
}

impl Eq for FileId {}

/// A [`FileId`] as stored: device, inode, length, and both times.
pub type FileIdParts = (u64, u64, u64, i64, i64);

impl FileId {
    /// The fields, to be stored.
    pub fn parts(&self) -> FileIdParts {
        (self.dev, self.ino, self.len, self.mtime_ns, self.ctime_ns)
    }

    /// Creates the id from its fields.
    pub fn from_parts((dev, ino, len, mtime_ns, ctime_ns): FileIdParts) -> Self {
        FileId {
            dev,
            ino,
            len,
            mtime_ns,
            ctime_ns,
        }
    }

    /// Whether the file was not touched at all, including its metadata.
    pub fn untouched(&self, other: &FileId) -> bool {
        self == other && self.ctime_ns == other.ctime_ns
    }

    /// Creates the id from the system's `stat`.
    #[allow(
        clippy::unnecessary_cast,
        reason = "the types are others on other systems"
    )]
    pub fn from_stat(stat: &Stat) -> Self {
        Self {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            len: stat.st_size as u64,
            mtime_ns: nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime_ns: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// Whether both are the same inode, changed or not.
    pub fn same_file(&self, other: &FileId) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> Self {
        let (dev, ino) = sys::identity(metadata);
        let [mtime_ns, ctime_ns] =
            sys::change_times(metadata).map(|(seconds, rest)| nanoseconds(seconds, rest));
        Self {
            dev,
            ino,
            len: metadata.len(),
            mtime_ns,
            ctime_ns,
        }
    }
}

/// Nanoseconds since 1970, saturated to the range of `i64` (1677 to 2262). Times beyond can be set,
/// but are meaningless.
fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    let whole = seconds.saturating_mul(1_000_000_000);
    whole.saturating_add(nanoseconds)
}

/// A resumable position in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The device.
    pub dev: u64,
    /// The inode.
    pub ino: u64,
    /// The offset up to which the file was read.
    pub offset: u64,
    /// A hash of the 4 KiB before `offset`, or of fewer bytes at the start of the file, and of the
    /// revision of derived bytes.
    pub guard: [u8; 16],
}

impl Cursor {
    /// Marks `offset` in `file`, which must be at least that long.
    pub fn new(file: &impl ReadAt, offset: u64) -> io::Result<Self> {
        Self::with_id(&file.id()?, file, offset)
    }

    /// Like [`new`](Self::new), with a known file id.
    pub fn with_id(id: &FileId, file: &impl ReadAt, offset: u64) -> io::Result<Self> {
        Ok(Self {
            dev: id.dev,
            ino: id.ino,
            offset,
            guard: guard(file, offset)?,
        })
    }

    /// Whether `file` is the same file and unchanged before the offset. If not, the reader must
    /// start from the beginning.
    pub fn is_valid(&self, file: &impl ReadAt) -> io::Result<bool> {
        let id = file.id()?;
        if (id.dev, id.ino) != (self.dev, self.ino) {
            return Ok(false);
        }
        self.continues_in(file)
    }

    /// Whether the content of `file` before the offset matches; the file may be a copy.
    pub fn continues_in(&self, file: &impl ReadAt) -> io::Result<bool> {
        match guard(file, self.offset) {
            Ok(guard) => Ok(guard == self.guard),
            // The file has shrunk.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn guard(file: &impl ReadAt, offset: u64) -> io::Result<[u8; 16]> {
    let mut block = [0; GUARD_LEN as usize];
    let start = offset.saturating_sub(GUARD_LEN);
    let held = block
        .get_mut(..(offset - start) as usize)
        .unwrap_or_default();
    file.read_exact_at(held, start)?;
    let mut hash = Sha256::new_with_prefix(held);
    if let Some(id) = file.revision() {
        let times = [id.mtime_ns, id.ctime_ns].map(i64::cast_unsigned);
        for number in [id.len, times[0], times[1]] {
            hash.update(number.to_le_bytes());
        }
    }
    let mut guard = [0; 16];
    for (to, from) in guard.iter_mut().zip(hash.finalize()) {
        *to = from;
    }
    Ok(guard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Failing(io::ErrorKind);

    impl ReadAt for Failing {
        fn id(&self) -> io::Result<FileId> {
            Ok(FileId::default())
        }

        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Err(self.0.into())
        }
    }

    #[test]
    fn cursor_reports_read_error_instead_of_invalid() {
        let cursor = Cursor {
            dev: 0,
            ino: 0,
            offset: 10,
            guard: [0; 16],
        };
        let short = Failing(io::ErrorKind::UnexpectedEof);
        assert!(!cursor.is_valid(&short).unwrap());
        let broken = Failing(io::ErrorKind::PermissionDenied);
        assert!(cursor.is_valid(&broken).is_err());
    }
}
