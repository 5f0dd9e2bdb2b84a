//! Finds the files of a root.
//!
//! Every list, search and ledger begins with this, so a file costs its `stat` and little more: names
//! are read into one buffer, a name that means nothing costs no allocation, and whatever is asked of
//! a file is asked by its name in the open directory, or in one that need not be opened because it
//! is known to hold what it held. Owns the order in which files are found. Reads no file, and keeps
//! at most two directories open.

use std::collections::{BTreeSet, HashSet};
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

use super::FoundFile;
use super::folders::Folders;

/// Every file of a root that means something, in the order of the bytes of their paths.
///
/// People keep `projects` elsewhere behind a link. Each directory is entered once, and under its own
/// name if it has one in the root: links wait until all that is real was seen.
///
/// Only files below `from`, and of the kinds that are `wanted`, are looked at.
pub(in crate::store) fn walk(
    root: &Root,
    from: &Path,
    wanted: &dyn Fn(ArtifactKind) -> bool,
    troubles: &mut Vec<Error>,
) -> Vec<FoundFile> {
    let folders = &mut Folders::unknown();
    walk_knowing(root, from, wanted, troubles, folders, &mut |_, _| {})
}

/// The same, with what is known of directories, and tells of each what it was before the names in it
/// were read.
pub(in crate::store) fn walk_knowing(
    root: &Root,
    from: &Path,
    wanted: &dyn Fn(ArtifactKind) -> bool,
    troubles: &mut Vec<Error>,
    folders: &mut Folders<'_>,
    note: &mut dyn FnMut(&str, &FileId),
) -> Vec<FoundFile> {
    let Some(from) = from.to_str() else {
        troubles.push(unreadable(&root.path.join(from)));
        return Vec::new();
    };
    // Room that is not used costs nothing; moving what was found does.
    let found = Vec::with_capacity(folders.count());
    let mut walk = Walk {
        root,
        wanted,
        troubles,
        folders,
        note,
        visited: HashSet::new(),
        links: BTreeSet::new(),
        steps: vec![Step::Enter(from.to_owned())],
        found,
        listing: Listing::default(),
        names: Vec::new(),
        device: 0,
        refused: None,
    };
    let top = match open(&root.path, DIRECTORY, Mode::empty()) {
        Ok(top) => top,
        Err(error) => {
            walk.troubled(from, error);
            return Vec::new();
        }
    };
    if walk.folders.matter() {
        match fstat(&top).ok().filter(|_| keeps_times(&top)) {
            // What lies on other devices, behind links or mounts, may be of another kind.
            Some(stat) => walk.device = FileId::of(&stat).dev,
            None => walk.folders.forget(),
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
    walk.found
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
    troubles: &'a mut Vec<Error>,
    folders: &'a mut Folders<'b>,
    note: &'a mut dyn FnMut(&str, &FileId),
    /// Directories, by device and number.
    visited: HashSet<(u64, u64)>,
    /// Links to directories, which wait.
    links: BTreeSet<String>,
    /// What comes next, the last first.
    steps: Vec<Step>,
    found: Vec<FoundFile>,
    listing: Listing,
    /// What is remembered of a directory, while it is put together.
    names: Vec<u8>,
    /// The device of the root; of others nothing is remembered.
    device: u64,
    /// The system would not tell of a file in the directory whose turn it is.
    refused: Option<Errno>,
}

/// Asks the system about an entry of a listing, or about its path within the root.
type Asked<'a> = dyn Fn(&Entry, &str, AtFlags) -> rustix::io::Result<Stat> + 'a;

enum Step {
    /// A file whose turn comes after directories before it.
    Found(FoundFile),
    /// A directory, by its path within the root.
    Enter(String),
}

impl Walk<'_, '_> {
    /// Goes through the names in a directory.
    fn enter(&mut self, top: &OwnedFd, relative: &str, first: bool) {
        let mut listing = std::mem::take(&mut self.listing);
        match self.list(top, relative, &mut listing) {
            Ok(Some(dir)) => self.go_through(relative, &listing, &|entry, _, flags| {
                statat(&dir, listing.spelled(entry).ok_or(Errno::INVAL)?, flags)
            }),
            // What it holds is known, and found by longer names, unless they are many.
            Ok(None) => {
                let many = (listing.entries.len() >= MANY).then_some(());
                let dir = many.and_then(|()| openat(top, relative, PLACE, Mode::empty()).ok());
                self.go_through(relative, &listing, &|entry, within, flags| match (
                    &dir,
                    listing.spelled(entry),
                ) {
                    (Some(dir), Some(name)) => statat(dir, name, flags),
                    _ => statat(top, within, flags),
                });
            }
            // What vanished meanwhile is as if it had never been there.
            Err(Errno::NOENT) if !first => {}
            Err(error) => self.troubled(relative, error),
        }
        self.listing = listing;
    }

    /// Finds out which names are in a directory, if it was not seen before; if it had to be opened, it
    /// still is.
    fn list(
        &mut self,
        top: &OwnedFd,
        relative: &str,
        listing: &mut Listing,
    ) -> rustix::io::Result<Option<OwnedFd>> {
        let name = if relative.is_empty() { "." } else { relative };
        listing.clear();
        if self.folders.matter() {
            let id = FileId::of(&statat(top, name, AtFlags::empty())?);
            if id.dev == self.device
                && let Some(names) = self.folders.names(relative, &id)
            {
                if self.visited.insert((id.dev, id.ino)) {
                    (self.note)(relative, &id);
                    listing.recall(names);
                }
                return Ok(None);
            }
        }
        let dir = openat(top, name, DIRECTORY, Mode::empty())?;
        let id = FileId::of(&fstat(&dir)?);
        if self.visited.insert((id.dev, id.ino)) {
            (self.note)(relative, &id);
            listing.read(&dir)?;
            listing.sort();
            if id.dev == self.device
                && let Some(names) = listing.plain(&mut self.names)
            {
                self.folders.keep(relative, &id, names);
            }
        }
        Ok(Some(dir))
    }

    /// Goes through what a directory holds, of which `stat` tells more.
    fn go_through(&mut self, relative: &str, listing: &Listing, stat: &Asked<'_>) {
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
                self.skipped(&path, name, entry.kind, relative.is_empty());
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
            self.troubled(relative, error);
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
        // A file that vanished meanwhile is as if it had never been there, and so is one that a
        // link does not lead to.
        let is = |stat: &Stat, kind: FileType| FileType::from_raw_mode(stat.st_mode) == kind;
        let linked = match kind {
            FileType::Symlink => stat(AtFlags::empty()).ok(),
            _ => None,
        };
        let leads_to_directory = |stat: &Stat| is(stat, FileType::Directory);
        if kind == FileType::Directory || linked.as_ref().is_some_and(leads_to_directory) {
            if !self.root.layout.enters(Path::new(within)) {
                return None;
            }
            if kind == FileType::Directory {
                return Some(Step::Enter(within.to_owned()));
            }
            self.links.insert(within.to_owned());
            return None;
        }
        let artifact = self.root.layout.classify(Path::new(within))?;
        if !(self.wanted)(artifact.kind) {
            return None;
        }
        let stat = match (kind, linked) {
            (FileType::RegularFile, _) => stat(AtFlags::SYMLINK_NOFOLLOW),
            (_, Some(linked)) => Ok(linked),
            (_, None) => stat(AtFlags::empty()),
        };
        if let Err(error) = stat
            && !matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
        {
            self.refused = Some(error);
        }
        let stat = stat.ok().filter(|stat| is(stat, FileType::RegularFile))?;
        let file = FoundFile::new(joined(dir, name), artifact, FileId::of(&stat));
        Some(Step::Found(file))
    }

    /// Such names mean nothing to any layout; what might be a session must not go unseen.
    fn skipped(&mut self, dir: &Path, name: &[u8], kind: FileType, top: bool) {
        let ending = Path::new(OsStr::from_bytes(name)).extension();
        let log = ending.is_some_and(|ending| ending == "jsonl");
        if !top && (kind == FileType::Directory || log) {
            self.troubles.push(unreadable(&joined(dir, name)));
        }
    }

    fn troubled(&mut self, relative: &str, error: Errno) {
        let dir = self.root.path.join(relative);
        self.troubles.push(Error::io("read", &dir, error.into()));
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
struct Listing {
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

impl Listing {
    fn clear(&mut self) {
        self.names.clear();
        self.entries.clear();
    }

    /// Takes in names as [`plain`](Self::plain) told them.
    fn recall(&mut self, names: &[u8]) {
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
    fn plain<'a>(&self, names: &'a mut Vec<u8>) -> Option<&'a [u8]> {
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
            let Ok(stat) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
                return;
            };
            kind = FileType::from_raw_mode(stat.st_mode);
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
    fn spelled(&self, entry: &Entry) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.names.get(entry.start..=entry.end)?).ok()
    }
}

/// Whether a directory's time changes with the names in it, as far as file systems are known.
#[cfg(target_os = "linux")]
pub(super) fn keeps_times(dir: &OwnedFd) -> bool {
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
pub(super) fn keeps_times(_: &OwnedFd) -> bool {
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
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const IDS: [&str; 2] = [
        "8c549c46-16ca-47dd-b731-f4c264becc53",
        "8c549c46-16ca-47dd-b731-f4c264becc54",
    ];

    fn put(root: &Path, path: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "{}\n").unwrap();
    }

    fn found(root: &Path) -> (Vec<String>, Vec<Error>) {
        let mut troubles = Vec::new();
        let files = walk(
            &Root::claude_code(root),
            Path::new(""),
            &|_| true,
            &mut troubles,
        );
        for file in &files {
            let metadata = fs::metadata(&file.path).unwrap();
            assert!(file.id.untouched(&FileId::from(&metadata)));
        }
        let within = |file: &FoundFile| file.path.strip_prefix(root).unwrap().to_owned();
        let names = files.iter().map(|file| within(file).display().to_string());
        (names.collect(), troubles)
    }

    /// A log stands before the directory of its name, and what lies in that before the next log.
    #[test]
    fn files_come_in_the_order_of_the_bytes_of_their_paths() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["-w", "-w-", "-w.x", "-", "-w0"] {
            for id in IDS {
                put(root.path(), &format!("projects/{folder}/{id}.jsonl"));
                put(
                    root.path(),
                    &format!("projects/{folder}/{id}/tool-results/a"),
                );
                put(
                    root.path(),
                    &format!("projects/{folder}/{id}/tool-results-b"),
                );
                put(
                    root.path(),
                    &format!("projects/{folder}/{id}/subagents/agent-1.jsonl"),
                );
            }
        }
        put(root.path(), "history.jsonl");
        put(root.path(), "projects/-w/not-ours.txt");
        put(root.path(), "elsewhere/x.jsonl");
        let (names, troubles) = found(root.path());
        let mut sorted = names.clone();
        sorted.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        assert_eq!(names, sorted);
        assert_eq!((names.len(), troubles.len()), (41, 0));
    }

    #[test]
    fn a_directory_is_entered_once_and_under_its_own_name() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let log = format!("{}.jsonl", IDS[0]);
        put(root.path(), &format!("projects/-w/{log}"));
        put(elsewhere.path(), &log);
        let projects = root.path().join("projects");
        symlink(projects.join("-w"), projects.join("-a")).unwrap();
        symlink(elsewhere.path(), projects.join("-b")).unwrap();
        symlink(elsewhere.path(), projects.join("-z")).unwrap();
        symlink(root.path(), projects.join("-loop")).unwrap();
        symlink("nowhere", projects.join("-none")).unwrap();
        let (names, troubles) = found(root.path());
        let expected = [format!("projects/-b/{log}"), format!("projects/-w/{log}")];
        assert_eq!(names, expected);
        assert_eq!(troubles.len(), 0);
    }

    /// The paths that are found with what is known, and what is known then.
    fn known(root: &Path, told: &[u8]) -> (Vec<String>, Vec<u8>) {
        let mut folders = Folders::recall(told).of_any_age();
        let mut troubles = Vec::new();
        let layout = Root::claude_code(root);
        let (from, all) = (Path::new(""), |_| true);
        let files = walk_knowing(
            &layout,
            from,
            &all,
            &mut troubles,
            &mut folders,
            &mut |_, _| {},
        );
        assert_eq!(troubles.len(), 0);
        let within = |file: &FoundFile| file.path.strip_prefix(root).unwrap().to_owned();
        let names = files.iter().map(|file| within(file).display().to_string());
        (names.collect(), folders.told().into_owned())
    }

    #[test]
    fn a_directory_that_lay_still_is_not_read_again() {
        let root = tempfile::tempdir().unwrap();
        let [one, other] = IDS.map(|id| format!("projects/-w/{id}.jsonl"));
        put(root.path(), &one);
        put(
            root.path(),
            &format!("projects/-w/{}/subagents/agent-1.jsonl", IDS[0]),
        );
        let (names, told) = known(root.path(), &[]);
        assert_eq!(names.len(), 2);
        assert_eq!(known(root.path(), &told), (names.clone(), told.clone()));
        // What is known of others is not believed.
        let elsewhere = tempfile::tempdir().unwrap();
        put(elsewhere.path(), &other);
        let (_, others) = known(elsewhere.path(), &[]);
        assert_eq!(known(root.path(), &others).0, names);
        // What is known is not looked for: a name less in it is a file less.
        let short = told.len() - "agent-1.jsonl\0".len();
        let (told, last) = told.split_at(short);
        assert_eq!(last, b"agent-1.jsonl\0");
        let mut told = told.to_vec();
        *told.last_mut().unwrap() = 0;
        assert_eq!(known(root.path(), &told).0, [one]);
    }

    #[test]
    fn whatever_is_done_to_a_known_directory_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let [one, other] = IDS.map(|id| format!("projects/-w/{id}.jsonl"));
        put(root.path(), &one);
        let mut told = known(root.path(), &[]).1;
        let mut after = |change: &dyn Fn()| {
            // Clocks of file systems are coarse.
            std::thread::sleep(std::time::Duration::from_millis(30));
            change();
            let (names, now) = known(root.path(), &told);
            told = now;
            assert_eq!(names, found(root.path()).0);
            names
        };
        assert_eq!(after(&|| put(root.path(), &other)).len(), 2);
        let long = || fs::write(path(&other), "{}\n{}\n").unwrap();
        assert_eq!(after(&long).len(), 2);
        let remove = || fs::remove_file(path(&one)).unwrap();
        assert_eq!(after(&remove).first(), Some(&other));
        let rename = || fs::rename(path(&other), path(&one)).unwrap();
        assert_eq!(after(&rename).first(), Some(&one));
        let link = || symlink(format!("{}.jsonl", IDS[0]), path(&other)).unwrap();
        assert_eq!(after(&link).len(), 2);
        let moved = || fs::rename(path("projects/-w"), path("projects/-v")).unwrap();
        assert!(
            after(&moved)
                .iter()
                .all(|name| name.starts_with("projects/-v/"))
        );
        let deeper = format!("projects/-v/{}/subagents/agent-1.jsonl", IDS[0]);
        assert_eq!(after(&|| put(root.path(), &deeper)).len(), 3);
        assert_eq!(
            after(&|| fs::remove_dir_all(path("projects")).unwrap()).len(),
            0
        );
    }

    /// Others than the owner of everything are not told of files in a directory that cannot be searched.
    #[test]
    fn files_that_the_system_does_not_tell_of_are_trouble() {
        let root = tempfile::tempdir().unwrap();
        let layout = Root::claude_code(root.path());
        let mut troubles = Vec::new();
        let mut walk = Walk {
            root: &layout,
            wanted: &|_| true,
            troubles: &mut troubles,
            folders: &mut Folders::unknown(),
            note: &mut |_, _| {},
            visited: HashSet::new(),
            links: BTreeSet::new(),
            steps: Vec::new(),
            found: Vec::new(),
            listing: Listing::default(),
            names: Vec::new(),
            device: 0,
            refused: None,
        };
        let mut listing = Listing::default();
        let names = IDS.map(|id| format!("{id}.jsonl\0")).concat();
        listing.recall(names.as_bytes());
        walk.go_through("projects/-w", &listing, &|_, _, _| Err(Errno::NOENT));
        assert_eq!(walk.troubles.len(), 0);
        walk.go_through("projects/-w", &listing, &|_, _, _| Err(Errno::ACCESS));
        assert_eq!(walk.troubles.len(), 1);
        assert!(walk.troubles[0].to_string().contains("projects/-w"));
    }

    #[test]
    fn a_root_that_is_not_there_is_told() {
        let root = tempfile::tempdir().unwrap();
        let (names, troubles) = found(&root.path().join("none"));
        assert_eq!((names.len(), troubles.len()), (0, 1));
    }
}
