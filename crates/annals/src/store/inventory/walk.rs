//! Finds the files of a root.
//!
//! Every list, search and ledger begins with this, so a file costs its `stat` and little more: names
//! are read into one buffer, a name that means nothing costs no allocation, and whatever is asked of
//! a file is asked by its name in the open directory, or in one that need not be opened because it
//! is known to hold what it held. Owns the order in which files are found, and the rule that nothing
//! outside of the root is: a link is followed only if the user named it ([`Root::follow_links`]), and
//! each other one that leads to something which is not found under its own name is reported. So is a
//! pipe, a device or a socket in the place of a file or of a directory. Reads no file, opens nothing but
//! directories, and keeps at most two of them open.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, statat};
use rustix::io::Errno;

use crate::error::Error;
use crate::jsonl::FileId;
use crate::model::ArtifactKind;
use crate::store::Root;

use super::RootFile;
use super::dir_cache::DirCache;

/// Every file of a root that means something, in the order of the bytes of their paths.
///
/// Each directory is entered once, and under its own name if it has one in the root: links that are
/// followed wait until all that is real was seen.
///
/// Only files below `from`, and of the kinds that are `wanted`, are looked at.
pub(in crate::store) fn walk(
    root: &Root,
    from: &Path,
    wanted: &dyn Fn(ArtifactKind) -> bool,
    troubles: &mut Vec<Error>,
) -> Vec<RootFile> {
    let folders = &mut DirCache::disabled();
    walk_cached(root, from, wanted, troubles, folders, &mut |_, _| {})
}

/// The same, with what is known of directories, and tells of each what it was before the names in it
/// were read.
pub(in crate::store) fn walk_cached(
    root: &Root,
    from: &Path,
    wanted: &dyn Fn(ArtifactKind) -> bool,
    troubles: &mut Vec<Error>,
    folders: &mut DirCache<'_>,
    note: &mut dyn FnMut(&str, &FileId),
) -> Vec<RootFile> {
    let Some(from) = from.to_str() else {
        troubles.push(unreadable(&root.path.join(from)));
        return Vec::new();
    };
    // Room that is not used costs nothing; moving what was found does.
    let found = Vec::with_capacity(folders.count());
    let mut walk = Walk {
        root,
        wanted,
        errors: troubles,
        folders,
        on_directory: note,
        visited: HashSet::new(),
        links: BTreeSet::new(),
        unfollowed: BTreeMap::new(),
        steps: vec![Step::Enter(from.to_owned())],
        found,
        listing: DirListing::default(),
        names: Vec::new(),
        device: 0,
        refused: None,
    };
    let top = match open(&root.path, DIRECTORY, Mode::empty()) {
        Ok(top) => top,
        Err(error) => {
            walk.report_error(from, error);
            return Vec::new();
        }
    };
    if walk.folders.is_enabled() {
        match fstat(&top).ok().filter(|_| has_reliable_mtime(&top)) {
            // What lies on other devices, behind links or mounts, may be of another kind.
            Some(stat) => walk.device = FileId::from_stat(&stat).dev,
            None => walk.folders.clear(),
        }
    }
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
        // Byte by byte, as databases do, and as directories are gone through.
        let sorted = &mut walk.found;
        sorted.sort_unstable_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    }
    walk.report_unfollowed();
    walk.found
}

/// Opens a directory that lies beneath another one and is reached through no link.
#[cfg(target_os = "linux")]
fn open_beneath(top: &OwnedFd, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match openat2(top, name, flags, Mode::empty(), resolve) {
        // Old kernels do not have it, and some sandboxes forbid what they do not know.
        Err(Errno::NOSYS | Errno::PERM) => {
            openat(top, name, flags.union(OFlags::NOFOLLOW), Mode::empty())
        }
        opened => opened,
    }
}

/// The same where only the last name of a path can be kept from being a link.
#[cfg(not(target_os = "linux"))]
fn open_beneath(top: &OwnedFd, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(top, name, flags.union(OFlags::NOFOLLOW), Mode::empty())
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// A directory that is only a place to ask for names in.
#[cfg(target_os = "linux")]
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

#[cfg(not(target_os = "linux"))]
pub(super) const PLACE: OFlags = DIRECTORY;

/// To go down to a directory for each of so many names costs more than to open it once.
pub(super) const MANY: usize = 8;

struct Walk<'a, 'b> {
    root: &'a Root,
    wanted: &'a dyn Fn(ArtifactKind) -> bool,
    errors: &'a mut Vec<Error>,
    folders: &'a mut DirCache<'b>,
    on_directory: &'a mut dyn FnMut(&str, &FileId),
    /// Directories, by device and number.
    visited: HashSet<(u64, u64)>,
    /// Links to directories that are followed, which wait.
    links: BTreeSet<String>,
    /// Links that are not followed, each with the device and the number of what it leads to.
    unfollowed: BTreeMap<String, (u64, u64)>,
    /// What comes next, the last first.
    steps: Vec<Step>,
    found: Vec<RootFile>,
    listing: DirListing,
    /// What is remembered of a directory, while it is put together.
    names: Vec<u8>,
    /// The device of the root; of others nothing is remembered.
    device: u64,
    /// The system would not tell of a file in the directory whose turn it is.
    refused: Option<Errno>,
}

/// Asks the system about an entry of a listing, or about its path within the root.
type StatFn<'a> = dyn Fn(&Entry, &str, AtFlags) -> rustix::io::Result<Stat> + 'a;

enum Step {
    /// A file whose turn comes after directories before it.
    Found(RootFile),
    /// A directory, by its path within the root.
    Enter(String),
}

impl Walk<'_, '_> {
    /// Goes through the names in a directory.
    fn enter(&mut self, top: &OwnedFd, relative: &str, first: bool) {
        let mut listing = std::mem::take(&mut self.listing);
        match self.list(top, relative, &mut listing) {
            Ok(Some(dir)) => self.visit_names(relative, &listing, &|entry, _, flags| {
                statat(&dir, listing.c_name(entry).ok_or(Errno::INVAL)?, flags)
            }),
            // What it holds is known, and found by longer names, unless they are many.
            Ok(None) => {
                let many = (listing.entries.len() >= MANY).then_some(());
                let dir = many.and_then(|()| self.open(top, relative, PLACE).ok());
                self.visit_names(relative, &listing, &|entry, within, flags| match (
                    &dir,
                    listing.c_name(entry),
                ) {
                    (Some(dir), Some(name)) => statat(dir, name, flags),
                    _ => statat(top, within, flags),
                });
            }
            // What vanished meanwhile is as if it had never been there.
            Err(Errno::NOENT) if !first => {}
            Err(error) => self.report_error(relative, error),
        }
        self.listing = listing;
    }

    /// Finds out which names are in a directory, if it was not seen before; if it had to be opened, it
    /// still is.
    fn list(
        &mut self,
        top: &OwnedFd,
        relative: &str,
        listing: &mut DirListing,
    ) -> rustix::io::Result<Option<OwnedFd>> {
        let name = if relative.is_empty() { "." } else { relative };
        listing.clear();
        if self.folders.is_enabled() {
            let id = FileId::from_stat(&statat(top, name, AtFlags::SYMLINK_NOFOLLOW)?);
            if id.dev == self.device
                && let Some(names) = self.folders.names(relative, &id)
            {
                if self.visited.insert((id.dev, id.ino)) {
                    (self.on_directory)(relative, &id);
                    listing.load_names(names);
                }
                return Ok(None);
            }
        }
        let dir = self.open(top, name, DIRECTORY)?;
        let id = FileId::from_stat(&fstat(&dir)?);
        if self.visited.insert((id.dev, id.ino)) {
            (self.on_directory)(relative, &id);
            listing.read(&dir)?;
            listing.sort();
            if id.dev == self.device
                && let Some(names) = listing.encode_names(&mut self.names)
            {
                self.folders.insert(relative, &id, names);
            }
        }
        Ok(Some(dir))
    }

    /// Opens a directory of the root. Every one that the walk looks into is opened here.
    fn open(&self, top: &OwnedFd, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        if self.root.leads_through_link(Path::new(name)) {
            return openat(top, name, flags, Mode::empty());
        }
        open_beneath(top, name, flags)
    }

    /// Reports the links behind which something lies that was not found under its own name.
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

    /// Goes through what a directory holds, of which `stat` tells more.
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
                stat(entry, &within, flags)
            }) {
                // Nothing that is still to be entered comes before it.
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

    /// What one name in a directory leads to.
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
                let enters = self.root.layout.may_hold_files(Path::new(within));
                enters.then(|| Step::Enter(within.to_owned()))
            }
            // One whose kind could not be found out is asked again, and reported if that fails too.
            FileType::RegularFile | FileType::Unknown => self.file(dir, within, name, stat),
            FileType::Symlink => {
                self.link(within, stat);
                None
            }
            // Nobody can read a log from a pipe or a device, and who tries may wait forever.
            _ => {
                if self.means_something(Path::new(within)) {
                    let path = joined(dir, name);
                    self.errors.push(Error::NotRegular { path });
                }
                None
            }
        }
    }

    /// Whether something of that name would be read, or entered.
    fn means_something(&self, within: &Path) -> bool {
        let artifact = self.root.layout.classify(within);
        let is_wanted = artifact.is_some_and(|artifact| (self.wanted)(artifact.kind));
        is_wanted || self.root.layout.may_hold_files(within)
    }

    /// A file, if it means something that is wanted.
    fn file(
        &mut self,
        dir: &Path,
        within: &str,
        name: &[u8],
        stat: &dyn Fn(AtFlags) -> rustix::io::Result<Stat>,
    ) -> Option<Step> {
        let artifact = self.root.layout.classify(Path::new(within))?;
        if !(self.wanted)(artifact.kind) {
            return None;
        }
        let stat = stat(AtFlags::SYMLINK_NOFOLLOW);
        // A file that vanished meanwhile is as if it had never been there.
        if let Err(error) = stat
            && !matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
        {
            self.refused = Some(error);
        }
        let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let stat = stat.ok().filter(is_file)?;
        let file = RootFile::new(joined(dir, name), artifact, FileId::from_stat(&stat));
        Some(Step::Found(file))
    }

    /// A link: one to a directory that the user wants followed waits, and of any other that would mean
    /// something it is remembered where it leads to.
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
            // A pipe, a device or a socket, which nothing is read from under any name.
            _ if self.means_something(path) => {
                self.errors.push(self.root.unfollowed_link_error(path))
            }
            _ => {}
        }
    }

    /// A link whose target is not there, or may not be seen. At the top of the root it mostly leads to
    /// a disk that is not mounted; elsewhere one that leads nowhere means nothing.
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

    /// Such names mean nothing to any layout; what might be a session must not go unseen.
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

/// The path of a name in a directory, in one piece of memory.
fn joined(dir: &Path, name: &[u8]) -> PathBuf {
    let mut path = PathBuf::with_capacity(dir.as_os_str().len() + 1 + name.len());
    path.push(dir);
    path.push(OsStr::from_bytes(name));
    path
}

/// The names in a directory.
#[derive(Default)]
struct DirListing {
    /// Each with the byte that comes after it in a path: NUL, or the slash of a directory.
    names: Vec<u8>,
    entries: Vec<Entry>,
    /// What the system fills.
    buffer: Vec<u8>,
}

struct Entry {
    /// The first bytes of the name and what comes after it: most names differ in them.
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

    /// Takes in names as [`plain`](Self::encode_names) told them.
    fn load_names(&mut self, names: &[u8]) {
        self.names.extend_from_slice(names);
        let mut start = 0;
        for end in memchr::memchr2_iter(0, b'/', names) {
            let kind = match names.get(end) {
                Some(b'/') => FileType::Directory,
                _ => FileType::RegularFile,
            };
            // They come in order.
            let head = 0;
            self.entries.push(Entry {
                head,
                start,
                end,
                kind,
            });
            start = end + 1;
        }
    }

    /// The names in their order, each with what comes after it; `None` if there are others than those
    /// of files and directories.
    fn encode_names<'a>(&self, names: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        names.clear();
        for entry in &self.entries {
            if !matches!(entry.kind, FileType::Directory | FileType::RegularFile) {
                return None;
            }
            names.extend_from_slice(self.names.get(entry.start..=entry.end)?);
        }
        Some(names)
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
        // Not all file systems tell.
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

    /// By the bytes of the paths that begin with them.
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

    /// The name as the system takes it; `None` for directories, which are not asked about.
    fn c_name(&self, entry: &Entry) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.names.get(entry.start..=entry.end)?).ok()
    }
}

/// Whether a directory's time changes with the names in it, as far as file systems are known.
#[cfg(target_os = "linux")]
pub(super) fn has_reliable_mtime(dir: &OwnedFd) -> bool {
    // The magic numbers are 32 bits wide in a field whose width depends on the platform.
    let kind = rustix::fs::fstatfs(dir).map(|found| found.f_type as u32);
    matches!(
        kind,
        Ok(0xef53 // ext2, ext3, ext4
            | 0x5846_5342 // xfs
            | 0x9123_683e // btrfs
            | 0xf2f5_2010 // f2fs
            | 0x2fc1_2fc1 // zfs
            | 0xca45_1a4e // bcachefs
            | 0x0102_1994) // tmpfs
    )
}

#[cfg(not(target_os = "linux"))]
pub(super) fn has_reliable_mtime(_: &OwnedFd) -> bool {
    false
}

/// Tells every name in a directory.
#[cfg(target_os = "linux")]
fn each_name(
    dir: &OwnedFd,
    buffer: &mut Vec<u8>,
    mut tell: impl FnMut(&CStr, FileType),
) -> rustix::io::Result<()> {
    // The longest name of any file system fits.
    const ROOM: usize = 32 << 10;
    buffer.reserve(ROOM);
    let mut entries = rustix::fs::RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        tell(entry.file_name(), entry.file_type());
    }
    Ok(())
}

/// The same, where directories are read in other ways.
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
