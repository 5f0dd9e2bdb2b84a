//! Cache of the directory listings of a root.
//!
//! A directory with unchanged times has unchanged names, so its files can be examined by name
//! without opening it. That halves the work of the system for an unchanged history. Files always
//! need a `stat`, because appending to a log does not change its directory.
//!
//! Only reliable listings are cached: on file systems known to update directory times, without
//! links, and last changed longer ago than the coarsest clock tick.

use std::borrow::Cow;
use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use annals_jsonl::FileId;

/// Cached directory listings of a root, and the listings to save.
#[derive(Debug)]
pub(crate) struct DirCache<'a> {
    /// The encoded cache.
    stored: &'a [u8],
    /// Its directories, each with its end offset in `stored`. They are mostly requested in this
    /// order.
    known: Vec<(CachedDir<'a>, usize)>,
    /// Number of leading directories found unchanged, in order.
    unchanged: usize,
    /// The encoded listings to save, once they differ from `stored`.
    found: Option<Vec<u8>>,
    /// Indexes into `known`, for directories requested out of order.
    by_path: HashMap<&'a str, usize>,
    /// Whether the cache is used.
    enabled: bool,
    /// Directories changed at or after this time are not cached.
    stable_before: i64,
}

/// A cached directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CachedDir<'a> {
    pub(super) path: &'a str,
    pub(super) dev: u64,
    ino: u64,
    mtime: i64,
    ctime: i64,
    /// The names in path order, each followed by the byte that follows it in a path: NUL, or `/`
    /// for a directory.
    names: &'a [u8],
}

impl<'a> CachedDir<'a> {
    /// Returns its identity. The length is not cached.
    pub(super) fn id(&self) -> FileId {
        FileId {
            dev: self.dev,
            ino: self.ino,
            len: 0,
            mtime_ns: self.mtime,
            ctime_ns: self.ctime,
        }
    }

    /// Returns the names, each with whether it is a directory.
    pub(super) fn names(&self) -> impl Iterator<Item = (&'a [u8], bool)> {
        let names = self.names.split_inclusive(|byte| matches!(byte, 0 | b'/'));
        names.filter_map(|name| {
            let (after, name) = name.split_last()?;
            Some((name, *after == b'/'))
        })
    }
}

/// Decodes the directories encoded by [`DirCache::encode`].
pub(super) fn decode_all(mut encoded: &[u8]) -> impl Iterator<Item = CachedDir<'_>> {
    std::iter::from_fn(move || {
        let (folder, rest) = postcard::take_from_bytes(encoded).ok()?;
        encoded = rest;
        Some(folder)
    })
}

impl<'a> DirCache<'a> {
    /// Creates a cache that stores nothing.
    pub(crate) fn disabled() -> Self {
        DirCache {
            stored: &[],
            known: Vec::new(),
            unchanged: 0,
            found: None,
            by_path: HashMap::new(),
            enabled: false,
            stable_before: i64::MIN,
        }
    }

    /// Decodes a cache encoded by [`encode`](Self::encode), up to the first damaged directory.
    pub(crate) fn decode(encoded: &'a [u8]) -> Self {
        let mut known = Vec::new();
        let mut left = encoded;
        while let Ok((folder, rest)) = postcard::take_from_bytes::<CachedDir<'a>>(left) {
            known.push((folder, encoded.len() - rest.len()));
            left = rest;
        }
        // The clocks of some file systems tick every two seconds.
        const TICK: i64 = 2_500_000_000;
        let now = Timestamp::now().as_nanosecond() as i64;
        DirCache {
            stored: encoded,
            known,
            enabled: true,
            stable_before: now - TICK,
            ..DirCache::disabled()
        }
    }

    /// Also caches directories that changed recently.
    #[cfg(test)]
    pub(super) fn without_age_limit(mut self) -> Self {
        self.stable_before = i64::MAX;
        self
    }

    /// Encodes the directories to save.
    pub(crate) fn encode(self) -> Cow<'a, [u8]> {
        match self.found {
            Some(found) => Cow::Owned(found),
            None => Cow::Borrowed(self.unchanged_bytes()),
        }
    }

    /// Returns the encoded directories that were found unchanged.
    fn unchanged_bytes(&self) -> &'a [u8] {
        let last = self
            .unchanged
            .checked_sub(1)
            .and_then(|at| self.known.get(at));
        let end = last.map_or(0, |(_, end)| *end);
        self.stored.get(..end).unwrap_or_default()
    }

    /// Returns whether the cache is used.
    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Returns the approximate number of cached names.
    pub(super) fn count(&self) -> usize {
        // Names of logs are mostly 42 bytes long.
        self.stored.len() / 48
    }

    /// Disables the cache.
    pub(super) fn clear(&mut self) {
        *self = DirCache::disabled();
    }

    /// Returns the names in a directory, if it is unchanged.
    pub(super) fn names(&mut self, path: &str, id: &FileId) -> Option<&'a [u8]> {
        let next = self.known.get(self.unchanged).map(|(folder, _)| *folder);
        let in_turn = next.filter(|folder| self.found.is_none() && folder.path == path);
        let folder = match in_turn {
            Some(folder) => folder,
            None => self.out_of_turn(path)?,
        };
        let same = (folder.dev, folder.ino) == (id.dev, id.ino)
            && (folder.mtime, folder.ctime) == (id.mtime_ns, id.ctime_ns);
        match (same, in_turn) {
            (false, _) => return None,
            (true, Some(_)) => self.unchanged += 1,
            (true, None) => self.push(folder),
        }
        Some(folder.names)
    }

    fn out_of_turn(&mut self, path: &str) -> Option<CachedDir<'a>> {
        if self.by_path.is_empty() {
            let known = self.known.iter().enumerate();
            self.by_path = known.map(|(at, (folder, _))| (folder.path, at)).collect();
        }
        let (folder, _) = self.known.get(*self.by_path.get(path)?)?;
        Some(*folder)
    }

    /// Caches the names in a directory whose identity was `id` before they were read.
    pub(super) fn insert(&mut self, path: &str, id: &FileId, names: &[u8]) {
        if id.mtime_ns.max(id.ctime_ns) < self.stable_before {
            self.push(CachedDir {
                path,
                dev: id.dev,
                ino: id.ino,
                mtime: id.mtime_ns,
                ctime: id.ctime_ns,
                names,
            });
        }
    }

    fn push(&mut self, folder: CachedDir<'_>) {
        if !self.enabled {
            return;
        }
        let found = self.found.take();
        let found = found.unwrap_or_else(|| self.unchanged_bytes().to_vec());
        // Encoding numbers and text cannot fail; an empty cache would only cost time.
        self.found = Some(postcard::to_extend(&folder, found).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_AGO: i64 = 1_000_000_000;

    fn id(ino: u64, time: i64) -> FileId {
        FileId {
            dev: 1,
            ino,
            len: 4096,
            mtime_ns: time,
            ctime_ns: time,
        }
    }

    #[test]
    fn changed_or_recent_directory_is_not_cached() {
        let now = Timestamp::now().as_nanosecond() as i64;
        let mut first = DirCache::decode(&[]);
        first.insert("a", &id(1, LONG_AGO), b"x\0y/");
        first.insert("b", &id(2, now), b"z\0");
        let encoded = first.encode();
        let mut again = DirCache::decode(&encoded);
        assert_eq!(again.names("a", &id(1, LONG_AGO)), Some(&b"x\0y/"[..]));
        assert_eq!(again.names("a", &id(1, LONG_AGO + 1)), None);
        assert_eq!(again.names("a", &id(3, LONG_AGO)), None);
        assert_eq!(again.names("b", &id(2, now)), None);
    }

    #[test]
    fn encode_saves_only_directories_asked_for() {
        let mut first = DirCache::decode(&[]);
        first.insert("a", &id(1, LONG_AGO), b"x\0");
        first.insert("b", &id(2, LONG_AGO), b"");
        let encoded = first.encode();
        let mut second = DirCache::decode(&encoded);
        assert_eq!(second.names("b", &id(2, LONG_AGO)), Some(&b""[..]));
        let kept = second.encode();
        let mut third = DirCache::decode(&kept);
        assert_eq!(third.names("a", &id(1, LONG_AGO)), None);
        assert_eq!(third.names("b", &id(2, LONG_AGO)), Some(&b""[..]));
    }

    /// Unchanged directories are not encoded again; after any change, the listings found are saved.
    #[test]
    fn encode_after_changes_saves_what_was_found() {
        let mut first = DirCache::decode(&[]);
        for (path, ino) in [("a", 1), ("b", 2), ("c", 3)] {
            first.insert(path, &id(ino, LONG_AGO), b"x\0");
        }
        let encoded = first.encode();
        let again = |asked: &[(&str, u64, i64)]| {
            let mut folders = DirCache::decode(&encoded);
            for (path, ino, time) in asked {
                if folders.names(path, &id(*ino, *time)).is_none() {
                    folders.insert(path, &id(*ino, *time), b"new\0");
                }
            }
            let encoded = folders.encode();
            let mut known = DirCache::decode(&encoded);
            let count = known.known.len();
            let names = asked.iter().map(|(path, ino, time)| {
                let names = known.names(path, &id(*ino, *time));
                String::from_utf8_lossy(names.unwrap_or(b"none")).replace('\0', "")
            });
            (names.collect::<Vec<_>>().join(" "), count)
        };
        const LATER: i64 = LONG_AGO + 1;
        for (asked, names) in [
            (
                &[("a", 1, LONG_AGO), ("b", 2, LONG_AGO), ("c", 3, LONG_AGO)][..],
                "x x x",
            ),
            (
                &[("a", 1, LONG_AGO), ("b", 2, LATER), ("c", 3, LONG_AGO)],
                "x new x",
            ),
            (
                &[("a", 1, LATER), ("b", 2, LONG_AGO), ("c", 3, LONG_AGO)],
                "new x x",
            ),
            (&[("a", 1, LONG_AGO), ("c", 3, LONG_AGO)], "x x"),
            (&[("a", 1, LONG_AGO), ("b", 2, LONG_AGO)], "x x"),
            (&[("c", 3, LONG_AGO), ("a", 1, LONG_AGO)], "x x"),
            (
                &[("a", 1, LONG_AGO), ("ab", 4, LONG_AGO), ("b", 2, LONG_AGO)],
                "x new x",
            ),
            (&[("b", 7, LONG_AGO)], "new"),
            (&[], ""),
        ] {
            assert_eq!(again(asked), (names.to_owned(), asked.len()), "{asked:?}");
        }
    }

    #[test]
    fn truncated_cache_is_ignored() {
        let mut first = DirCache::decode(&[]);
        first.insert("a", &id(1, LONG_AGO), b"x\0");
        let encoded = first.encode();
        for end in 0..encoded.len() {
            let mut cut = DirCache::decode(&encoded[..end]);
            assert_eq!(cut.names("a", &id(1, LONG_AGO)), None, "cut at {end}");
        }
    }
}
