//! What the directories of a root held when they were last read.
//!
//! A directory whose time has not changed holds the names it held, so its files can be asked for by
//! name without opening it: that halves what the system has to do for a history that lies still.
//! Files themselves are always asked, because a log that grows leaves its directory as it was.
//!
//! Only what cannot mislead is remembered: directories of file systems that are known to keep times,
//! without links, which changed longer ago than the coarsest of their clocks ticks.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::jsonl::FileId;

/// What is known of a root's directories, and what there is to remember of them.
#[derive(Debug)]
pub(crate) struct Folders<'a> {
    /// By path within the root.
    known: HashMap<&'a str, Folder<'a>>,
    /// What was found in those that were gone through; `None` where nobody wants to know.
    found: Option<Vec<u8>>,
    /// Nothing that changed later is remembered.
    settled: i64,
}

/// A directory as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Folder<'a> {
    path: &'a str,
    dev: u64,
    ino: u64,
    mtime: i64,
    ctime: i64,
    /// The names in it in the order of their paths, each with what comes after it in a path: NUL, or
    /// the slash of a directory.
    names: &'a [u8],
}

impl<'a> Folders<'a> {
    /// Nothing is known, and nothing is to be remembered.
    pub(crate) fn unknown() -> Self {
        Folders {
            known: HashMap::new(),
            found: None,
            settled: i64::MIN,
        }
    }

    /// What [`told`](Self::told) told, or nothing.
    pub(crate) fn recall(mut told: &'a [u8]) -> Self {
        let mut known = HashMap::new();
        while let Ok((folder, rest)) = postcard::take_from_bytes::<Folder<'a>>(told) {
            known.insert(folder.path, folder);
            told = rest;
        }
        // The clocks of some file systems tick every other second.
        const TICK: i64 = 2_500_000_000;
        let now = Timestamp::now().as_nanosecond() as i64;
        Folders {
            known,
            found: Some(Vec::new()),
            settled: now - TICK,
        }
    }

    /// Remembers also what changed just now.
    #[cfg(test)]
    pub(super) fn of_any_age(mut self) -> Self {
        self.settled = i64::MAX;
        self
    }

    /// What there is to remember, in bytes.
    pub(crate) fn told(self) -> Vec<u8> {
        self.found.unwrap_or_default()
    }

    /// Whether anything is known or to be remembered.
    pub(super) fn matter(&self) -> bool {
        self.found.is_some()
    }

    /// Forgets everything.
    pub(super) fn forget(&mut self) {
        *self = Folders::unknown();
    }

    /// The names in a directory, if it is as it was.
    pub(super) fn names(&mut self, path: &str, id: &FileId) -> Option<&'a [u8]> {
        let folder = *self.known.get(path)?;
        let same = (folder.dev, folder.ino) == (id.dev, id.ino)
            && (folder.mtime, folder.ctime) == (id.mtime_ns, id.ctime_ns);
        if same {
            self.note(folder);
        }
        same.then_some(folder.names)
    }

    /// Remembers what a directory held that was `id` before it was read.
    pub(super) fn keep(&mut self, path: &str, id: &FileId, names: &[u8]) {
        if id.mtime_ns.max(id.ctime_ns) < self.settled {
            self.note(Folder {
                path,
                dev: id.dev,
                ino: id.ino,
                mtime: id.mtime_ns,
                ctime: id.ctime_ns,
                names,
            });
        }
    }

    fn note(&mut self, folder: Folder<'_>) {
        let Some(found) = self.found.take() else {
            return;
        };
        // Nothing that is made of numbers and text fails here; without it, time is lost.
        self.found = postcard::to_extend(&folder, found).ok();
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
    fn what_changed_or_may_change_unseen_is_not_known() {
        let now = Timestamp::now().as_nanosecond() as i64;
        let mut first = Folders::recall(&[]);
        first.keep("a", &id(1, LONG_AGO), b"x\0y/");
        first.keep("b", &id(2, now), b"z\0");
        let told = first.told();
        let mut again = Folders::recall(&told);
        assert_eq!(again.names("a", &id(1, LONG_AGO)), Some(&b"x\0y/"[..]));
        assert_eq!(again.names("a", &id(1, LONG_AGO + 1)), None);
        assert_eq!(again.names("a", &id(3, LONG_AGO)), None);
        assert_eq!(again.names("b", &id(2, now)), None);
    }

    #[test]
    fn what_is_still_there_is_remembered_again_and_nothing_else() {
        let mut first = Folders::recall(&[]);
        first.keep("a", &id(1, LONG_AGO), b"x\0");
        first.keep("b", &id(2, LONG_AGO), b"");
        let told = first.told();
        let mut second = Folders::recall(&told);
        assert_eq!(second.names("b", &id(2, LONG_AGO)), Some(&b""[..]));
        let kept = second.told();
        let mut third = Folders::recall(&kept);
        assert_eq!(third.names("a", &id(1, LONG_AGO)), None);
        assert_eq!(third.names("b", &id(2, LONG_AGO)), Some(&b""[..]));
    }

    #[test]
    fn damage_costs_time_and_no_more() {
        let mut first = Folders::recall(&[]);
        first.keep("a", &id(1, LONG_AGO), b"x\0");
        let told = first.told();
        for end in 0..told.len() {
            let mut cut = Folders::recall(&told[..end]);
            assert_eq!(cut.names("a", &id(1, LONG_AGO)), None, "cut at {end}");
        }
    }
}
