//! Finds the files of a root.
//!
//! Every list, search and cost report begins with this, so a file costs little more than its
//! `stat`. Names are read into one buffer, and a name without meaning costs no allocation. Files
//! are examined by name in the open directory.
//!
//! This module owns the order of the files and the rule that no file outside of the root is found.
//! A link is followed only if the user named it ([`Root::follow_links`]). Any other link is
//! reported if its target is not found under its own name. Also reported are a pipe, device or socket
//! in place of a file or directory, a directory in place of a log, and a file with a name that a
//! removal gave it: a session may be incomplete without it. The walk reads no files, opens only
//! directories, and keeps at most two of them open.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, statat};
use rustix::io::Errno;

use crate::error::Error;
use crate::store::{Root, record_source};
use annals_jsonl::FileId;
use annals_jsonl::removal_name::{RemovalName, original_path};
use annals_layouts::model::ArtifactKind;

use super::RootFile;

/// Returns every file of a root that has a meaning, sorted by path bytes.
///
/// Each directory is entered once, under its own name if it has one in the root: links are followed
/// after everything else.
///
/// Only files below `from` and of the `wanted` kinds are examined.
pub(in crate::store) fn walk(
    root: &Root,
    from: &Path,
    wanted: &dyn Fn(ArtifactKind) -> bool,
    troubles: &mut Vec<Error>,
) -> Vec<RootFile> {
    walk_with_dirs(root, from, wanted, troubles, &mut |_, _| {})
}

/// Like [`walk`]. Passes the identity of each directory, taken before its names are read, to `note`.
pub(in crate::store) fn walk_with_dirs(
    root: &Root,
    from: &Path,
    wanted: &dyn Fn(ArtifactKind) -> bool,
    troubles: &mut Vec<Error>,
    note: &mut dyn FnMut(&str, &FileId),
) -> Vec<RootFile> {
    let Some(from) = from.to_str() else {
        troubles.push(unreadable(&root.path.join(from)));
        return Vec::new();
    };
    if root.layout.root_is_file() {
        return root_file(root, wanted, troubles);
    }
    let mut walk = Walk {
        root,
        wanted,
        errors: troubles,
        on_directory: note,
        visited: HashSet::new(),
        links: BTreeSet::new(),
        unfollowed: BTreeMap::new(),
        steps: vec![Step::Enter(from.to_owned())],
        found: Vec::new(),
        listing: DirListing::default(),
        refused: None,
    };
    let top = match open(&root.path, DIRECTORY, Mode::empty()) {
        Ok(top) => top,
        Err(error) => {
            walk.report_error(from, error);
            return Vec::new();
        }
    };
    let mut linked = false;
    loop {
        match walk.steps.pop() {
            Some(Step::Found(file)) => walk.found.push(file),
            Some(Step::Enter(relative)) => walk.enter(&top, &relative, relative == from),
            None => match walk.links.pop_first() {
                Some(relative) => {
                    linked = true;
                    walk.steps.push(Step::Enter(relative));
                }
                None => break,
            },
        }
    }
    if linked {
        // By bytes, like the walk itself and like databases.
        let sorted = &mut walk.found;
        sorted.sort_unstable_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    }
    walk.report_unfollowed();
    walk.found
}

/// Returns the only file of a root that is a file.
fn root_file(
    root: &Root,
    wanted: &dyn Fn(ArtifactKind) -> bool,
    troubles: &mut Vec<Error>,
) -> Vec<RootFile> {
    let artifact = root.layout.classify(Path::new(""));
    let Some(artifact) = artifact.filter(|artifact| wanted(artifact.kind)) else {
        return Vec::new();
    };
    let path = root.path.clone();
    match path.metadata() {
        Ok(metadata) if metadata.is_file() => {
            vec![RootFile::new(path, artifact, FileId::from(&metadata))]
        }
        Ok(_) => {
            troubles.push(Error::NotRegular { path });
            Vec::new()
        }
        Err(error) => {
            troubles.push(Error::io("read", &path, error));
            Vec::new()
        }
    }
}

/// Opens a directory beneath another one without following links.
#[cfg(target_os = "linux")]
fn open_beneath(top: &OwnedFd, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match openat2(top, name, flags, Mode::empty(), resolve) {
        // Old kernels lack the system call, and some sandboxes forbid unknown ones.
        Err(Errno::NOSYS | Errno::PERM) => {
            openat(top, name, flags.union(OFlags::NOFOLLOW), Mode::empty())
        }
        opened => opened,
    }
}

/// Fallback that refuses a link only in the last component of a path.
#[cfg(not(target_os = "linux"))]
fn open_beneath(top: &OwnedFd, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(top, name, flags.union(OFlags::NOFOLLOW), Mode::empty())
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

struct Walk<'a> {
    root: &'a Root,
    wanted: &'a dyn Fn(ArtifactKind) -> bool,
    errors: &'a mut Vec<Error>,
    on_directory: &'a mut dyn FnMut(&str, &FileId),
    /// Directories, by device and inode.
    visited: HashSet<(u64, u64)>,
    /// Links to directories to follow after everything else.
    links: BTreeSet<String>,
    /// Links that are not followed, with the device and inode of their targets.
    unfollowed: BTreeMap<String, (u64, u64)>,
    /// Next steps, in reverse order.
    steps: Vec<Step>,
    found: Vec<RootFile>,
    listing: DirListing,
    /// Error of a `stat` in the current directory.
    refused: Option<Errno>,
}

/// Calls `stat` for an entry of a listing.
type StatFn<'a> = dyn Fn(&Entry, AtFlags) -> rustix::io::Result<Stat> + 'a;

enum Step {
    /// A file that follows directories which are not entered yet.
    Found(RootFile),
    /// A directory, by its path within the root.
    Enter(String),
}

impl Walk<'_> {
    /// Visits the names in a directory.
    fn enter(&mut self, top: &OwnedFd, relative: &str, first: bool) {
        let mut listing = std::mem::take(&mut self.listing);
        match self.list(top, relative, &mut listing) {
            Ok(dir) => self.visit_names(relative, &listing, &|entry, flags| {
                statat(&dir, listing.c_name(entry).ok_or(Errno::INVAL)?, flags)
            }),
            // The directory vanished since it was listed.
            Err(Errno::NOENT) if !first => {}
            Err(error) => self.report_error(relative, error),
        }
        self.listing = listing;
    }

    /// Opens a directory and lists its names, unless it was visited before.
    fn list(
        &mut self,
        top: &OwnedFd,
        relative: &str,
        listing: &mut DirListing,
    ) -> rustix::io::Result<OwnedFd> {
        let name = if relative.is_empty() { "." } else { relative };
        listing.clear();
        let dir = self.open(top, name, DIRECTORY)?;
        let id = FileId::from_stat(&fstat(&dir)?);
        if self.visited.insert((id.dev, id.ino)) {
            (self.on_directory)(relative, &id);
            listing.read(&dir)?;
            listing.sort();
        }
        Ok(dir)
    }

    /// Opens a directory of the root. Every directory that the walk reads is opened here.
    fn open(&self, top: &OwnedFd, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        if self.root.leads_through_link(Path::new(name)) {
            return openat(top, name, flags, Mode::empty());
        }
        open_beneath(top, name, flags)
    }

    /// Reports links to files and directories that were not found under their own names.
    fn report_unfollowed(&mut self) {
        let links = std::mem::take(&mut self.unfollowed);
        if links.is_empty() {
            return;
        }
        let files = self.found.iter().map(|file| (file.id.dev, file.id.ino));
        let files: HashSet<(u64, u64)> = files.collect();
        for (link, target) in links {
            if !self.visited.contains(&target) && !files.contains(&target) {
                self.errors
                    .push(self.root.unfollowed_link_error(Path::new(&link)));
            }
        }
    }

    /// Visits the names of a listing; `stat` returns their metadata.
    fn visit_names(&mut self, relative: &str, listing: &DirListing, stat: &StatFn<'_>) {
        let path = self.root.path.join(relative);
        let mut within = relative.to_owned();
        if !within.is_empty() {
            within.push('/');
        }
        let before = within.len();
        let steps = self.steps.len();
        for entry in &listing.entries {
            let name = listing.name(entry);
            let Ok(text) = str::from_utf8(name) else {
                self.report_skipped(&path, name, entry.kind, relative.is_empty());
                continue;
            };
            within.truncate(before);
            within.push_str(text);
            match self.step(&path, &within, name, entry.kind, &|flags| {
                stat(entry, flags)
            }) {
                // No directory that is still to be entered precedes it.
                Some(Step::Found(file)) if self.steps.len() == steps => self.found.push(file),
                step => self.steps.extend(step),
            }
        }
        if let Some(new) = self.steps.get_mut(steps..) {
            new.reverse();
        }
        if let Some(error) = self.refused.take() {
            self.report_error(relative, error);
        }
    }

    /// Returns the next step for a name in a directory.
    fn step(
        &mut self,
        dir: &Path,
        within: &str,
        name: &[u8],
        kind: FileType,
        stat: &dyn Fn(AtFlags) -> rustix::io::Result<Stat>,
    ) -> Option<Step> {
        match kind {
            FileType::Directory => {
                if self.is_place_of_log(Path::new(within)) {
                    let path = joined(dir, name);
                    self.errors.push(Error::NotRegular { path });
                }
                let enters = self.root.layout.may_hold_files(Path::new(within));
                enters.then(|| Step::Enter(within.to_owned()))
            }
            // If the type is unknown, `stat` is called again, and a failure is reported.
            FileType::RegularFile | FileType::Unknown => self.file(dir, within, name, stat),
            FileType::Symlink => {
                self.link(within, stat);
                None
            }
            // A pipe or device is no log, and reading it may block forever.
            _ => {
                if self.means_something(Path::new(within)) {
                    let path = joined(dir, name);
                    self.errors.push(Error::NotRegular { path });
                }
                None
            }
        }
    }

    /// Returns whether a file or directory of this name would be read.
    fn means_something(&self, within: &Path) -> bool {
        let artifact = self.root.layout.classify(within);
        let is_wanted = artifact.is_some_and(|artifact| (self.wanted)(artifact.kind));
        is_wanted || self.root.layout.may_hold_files(within)
    }

    /// Returns whether a file of this name would be a wanted log.
    fn is_place_of_log(&self, within: &Path) -> bool {
        let artifact = self.root.layout.classify(within);
        artifact.is_some_and(|artifact| artifact.kind.is_log() && (self.wanted)(artifact.kind))
    }

    /// Returns the step for a file, if it has a wanted kind.
    fn file(
        &mut self,
        dir: &Path,
        within: &str,
        name: &[u8],
        stat: &dyn Fn(AtFlags) -> rustix::io::Result<Stat>,
    ) -> Option<Step> {
        if let Some(given) = RemovalName::parse(OsStr::from_bytes(name)) {
            self.report_unfinished_removal(dir, within, name, given, stat);
        }
        let artifact = self.root.layout.classify(Path::new(within))?;
        if !(self.wanted)(artifact.kind) {
            return None;
        }
        let stat = stat(AtFlags::SYMLINK_NOFOLLOW);
        // A file that vanished in the meantime is skipped.
        if let Err(error) = stat
            && !matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
        {
            self.refused = Some(error);
        }
        let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let stat = stat.ok().filter(is_file)?;
        let path = joined(dir, name);
        let failed = &mut |error| self.errors.push(Error::io("read", &path, error));
        let id = record_source::identity(&path, artifact.framing, FileId::from_stat(&stat), failed);
        let file = RootFile::new(path, artifact, id);
        Some(Step::Found(file))
    }

    /// Reports a file with a name that a removal gave it, unless it has no wanted kind under its own
    /// name or has got that name back meanwhile.
    fn report_unfinished_removal(
        &mut self,
        dir: &Path,
        within: &str,
        name: &[u8],
        given: RemovalName<'_>,
        stat: &dyn Fn(AtFlags) -> rustix::io::Result<Stat>,
    ) {
        let original = original_path(Path::new(within));
        let artifact = original.and_then(|path| self.root.layout.classify(&path));
        let is_wanted = artifact.is_none_or(|artifact| (self.wanted)(artifact.kind));
        if is_wanted && !matches!(stat(AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT)) {
            self.errors.push(Error::UnfinishedRemoval {
                path: joined(dir, name),
                why: given.explanation(),
            });
        }
    }

    /// Handles a link. A link to a directory that the user named is queued; of any other with a
    /// meaning, the target is recorded.
    fn link(&mut self, within: &str, stat: &dyn Fn(AtFlags) -> rustix::io::Result<Stat>) {
        let path = Path::new(within);
        let target = match stat(AtFlags::empty()) {
            Ok(target) => target,
            Err(error) => return self.broken_link(within, error),
        };
        let id = FileId::from_stat(&target);
        match FileType::from_raw_mode(target.st_mode) {
            FileType::Directory if !self.root.layout.may_hold_files(path) => {}
            FileType::Directory if self.root.follows(path) => {
                self.links.insert(within.to_owned());
            }
            FileType::Directory => {
                self.unfollowed.insert(within.to_owned(), (id.dev, id.ino));
            }
            FileType::RegularFile => {
                let artifact = self.root.layout.classify(path);
                let kind = artifact.map(|artifact| artifact.kind);
                // Many people keep their settings elsewhere; a check reports that.
                let matters = |kind| kind != ArtifactKind::Settings && (self.wanted)(kind);
                if kind.is_some_and(matters) {
                    self.unfollowed.insert(within.to_owned(), (id.dev, id.ino));
                }
            }
            // A pipe, a device or a socket, which is not read under any name.
            _ if self.means_something(path) => {
                self.errors.push(self.root.unfollowed_link_error(path))
            }
            _ => {}
        }
    }

    /// Handles a link whose target is missing or not accessible. At the top of the root, the target
    /// is mostly on a disk that is not mounted; elsewhere a dangling link is ignored.
    fn broken_link(&mut self, within: &str, error: Errno) {
        let path = Path::new(within);
        let leads_nowhere = matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP);
        if !self.root.layout.may_hold_files(path) || (leads_nowhere && within.contains('/')) {
            return;
        }
        match self.root.follows(path) {
            true => self.report_error(within, error),
            false => self.errors.push(self.root.unfollowed_link_error(path)),
        }
    }

    /// Reports a name that is not UTF-8 if it may be a session. Such names have no meaning in any
    /// layout.
    fn report_skipped(&mut self, dir: &Path, name: &[u8], kind: FileType, top: bool) {
        let ending = Path::new(OsStr::from_bytes(name)).extension();
        let log = ending.is_some_and(|ending| ending == "jsonl");
        if !top && (kind == FileType::Directory || log) {
            self.errors.push(unreadable(&joined(dir, name)));
        }
    }

    fn report_error(&mut self, relative: &str, error: Errno) {
        let dir = self.root.path.join(relative);
        self.errors.push(Error::io("read", &dir, error.into()));
    }
}

fn unreadable(path: &Path) -> Error {
    Error::refused(format!(
        "{} was not read: its name is not UTF-8",
        path.display()
    ))
}

/// Joins a directory and a name with one allocation.
fn joined(dir: &Path, name: &[u8]) -> PathBuf {
    let mut path = PathBuf::with_capacity(dir.as_os_str().len() + 1 + name.len());
    path.push(dir);
    path.push(OsStr::from_bytes(name));
    path
}

/// The names in a directory.
#[derive(Default)]
struct DirListing {
    /// Names, each followed by the byte that follows it in a path: NUL, or `/` for a directory.
    names: Vec<u8>,
    entries: Vec<Entry>,
    /// Buffer for the system call.
    buffer: Vec<u8>,
}

struct Entry {
    /// The first bytes of the name and its end byte. Most names differ in them.
    head: u64,
    start: usize,
    end: usize,
    kind: FileType,
}

impl DirListing {
    fn clear(&mut self) {
        self.names.clear();
        self.entries.clear();
    }

    fn read(&mut self, dir: &OwnedFd) -> rustix::io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = each_name(dir, &mut buffer, |name, kind| self.add(dir, name, kind));
        self.buffer = buffer;
        outcome
    }

    fn add(&mut self, dir: &OwnedFd, name: &CStr, mut kind: FileType) {
        if matches!(name.to_bytes(), b"." | b"..") {
            return;
        }
        // Not all file systems return the type.
        if kind == FileType::Unknown {
            match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => kind = FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => return,
                Err(_) => {}
            }
        }
        let start = self.names.len();
        self.names.extend_from_slice(name.to_bytes());
        let end = self.names.len();
        let after = if kind == FileType::Directory { b'/' } else { 0 };
        self.names.push(after);
        let mut head = [0; 8];
        let bytes = self.names.get(start..=end).unwrap_or_default();
        head.iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
        self.entries.push(Entry {
            head: u64::from_be_bytes(head),
            start,
            end,
            kind,
        });
    }

    /// Sorts the names by the bytes of the paths that begin with them.
    fn sort(&mut self) {
        let names = &self.names;
        let rest = |entry: &Entry| names.get(entry.start..=entry.end);
        self.entries.sort_unstable_by(|a, b| {
            let heads = a.head.cmp(&b.head);
            heads.then_with(|| rest(a).cmp(&rest(b)))
        });
    }

    fn name(&self, entry: &Entry) -> &[u8] {
        self.names.get(entry.start..entry.end).unwrap_or_default()
    }

    /// Returns the name as a C string; `None` for directories, which need no `stat`.
    fn c_name(&self, entry: &Entry) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.names.get(entry.start..=entry.end)?).ok()
    }
}

/// Passes every name in a directory to `tell`.
#[cfg(target_os = "linux")]
fn each_name(
    dir: &OwnedFd,
    buffer: &mut Vec<u8>,
    mut tell: impl FnMut(&CStr, FileType),
) -> rustix::io::Result<()> {
    // Large enough for the longest name of any file system.
    const ROOM: usize = 32 << 10;
    buffer.reserve(ROOM);
    let mut entries = rustix::fs::RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        tell(entry.file_name(), entry.file_type());
    }
    Ok(())
}

/// Passes every name in a directory to `tell`; for systems without `RawDir`.
#[cfg(not(target_os = "linux"))]
fn each_name(
    dir: &OwnedFd,
    _: &mut Vec<u8>,
    mut tell: impl FnMut(&CStr, FileType),
) -> rustix::io::Result<()> {
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        tell(entry.file_name(), entry.file_type());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
