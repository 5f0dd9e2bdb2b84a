//! Position of a follower: up to where each log was reported, as a text from which a later follower continues.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use annals_jsonl::FileId;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use xxhash_rust::xxh3::xxh3_64;

/// First byte of the encoded form.
const VERSION: u8 = 1;

/// Position of a follower, for [`FollowOptions::since`](super::FollowOptions::since).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowPosition(Vec<LogPosition>);

/// Position in one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogPosition {
    /// Hash of the path.
    path: u64,
    /// The inode.
    ino: u64,
    /// Everything before this byte offset was reported.
    offset: u64,
}

impl FollowPosition {
    /// Maximum number of logs: with more, positions would be long texts.
    pub(crate) const MAX_LOGS: usize = 64;

    /// Parses the form that is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (VERSION, logs) = bytes
            .split_first()
            .map(|(version, rest)| (*version, rest))?
        else {
            return None;
        };
        let logs: Vec<(u64, u64, u64)> = postcard::from_bytes(logs).ok()?;
        let position = |(path, ino, offset)| LogPosition { path, ino, offset };
        Some(FollowPosition(logs.into_iter().map(position).collect()))
    }

    pub(super) fn push(&mut self, path: &Path, id: &FileId, offset: u64) {
        self.0.push(LogPosition {
            path: hash(path),
            ino: id.ino,
            offset,
        });
    }

    /// Returns the offset in a log; 0 if the log is another one or was not followed.
    pub(super) fn offset(&self, path: &Path, id: &FileId) -> u64 {
        let path = hash(path);
        let mut logs = self.0.iter();
        let same = logs.clone().find(|log| log.path == path);
        // A log that was renamed has the same inode.
        let found = same.or_else(|| logs.find(|log| log.ino == id.ino));
        found
            .filter(|log| log.ino == id.ino)
            .map_or(0, |log| log.offset)
    }
}

impl fmt::Display for FollowPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let logs = self.0.iter();
        let logs: Vec<_> = logs.map(|log| (log.path, log.ino, log.offset)).collect();
        let encoded = postcard::to_extend(&logs, vec![VERSION]).map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(encoded))
    }
}

fn hash(path: &Path) -> u64 {
    xxh3_64(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let id = |ino| FileId {
            ino,
            ..FileId::default()
        };
        let mut position = FollowPosition::default();
        position.push(Path::new("/a"), &id(7), 100);
        position.push(Path::new("/b"), &id(8), 0);
        let read = FollowPosition::parse(&position.to_string()).unwrap();
        assert_eq!(read, position);
        assert_eq!(read.offset(Path::new("/a"), &id(7)), 100);
        assert_eq!(read.offset(Path::new("/moved"), &id(7)), 100);
        assert_eq!(read.offset(Path::new("/a"), &id(9)), 0);
        assert_eq!(read.offset(Path::new("/new"), &id(9)), 0);
        for bad in ["", "!", "AA", "AQX_____"] {
            assert_eq!(FollowPosition::parse(bad), None, "{bad}");
        }
    }
}
