//! Snapshot of a root: all its directories and files in one buffer.
//!
//! A search needs few files of a root, and mostly nothing has changed since the last walk. One
//! `stat` for each directory and file proves that, and no objects are created for files that nobody
//! requests. As with [`DirCache`](super::DirCache), only reliable state is saved.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, open, openat, statat};

use crate::store::Root;
use annals_jsonl::FileId;
use annals_layouts::model::ArtifactKind;

use super::dir_cache;
use super::walk::{MANY, PLACE, has_reliable_mtime};
use super::{Inventory, RootFile};

/// The contents of a root at its last walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootSnapshot<'a> {
    /// The ids of its sessions, each once, sorted.
    ids: &'a [u8],
    /// The file that was modified last. It is checked first, because it is the likeliest to change
    /// again.
    newest: Option<(&'a [u8], FileId)>,
    /// Number of directories in `folders`.
    count: u64,
    folders: &'a [u8],
}

/// A directory and the number of its files.
struct Dir<'a> {
    path: &'a str,
    id: FileId,
    files: usize,
}

/// A file of a directory.
struct File<'a> {
    name: &'a [u8],
    id: FileId,
    /// The index of its session; out of range if it belongs to none.
    session: usize,
}

/// Session index of files that belong to no session.
const NOBODY: u32 = u32::MAX;

impl<'a> RootSnapshot<'a> {
    /// Decodes the result of [`encode`]; `None` if it is invalid.
    pub(crate) fn decode(mut encoded: &'a [u8]) -> Option<Self> {
        let ids = text(&mut encoded)?;
        let (path, id) = (text(&mut encoded)?, id(&mut encoded)?);
        Some(RootSnapshot {
            ids,
            newest: (!path.is_empty()).then_some((path, id)),
            count: number(&mut encoded)?,
            folders: encoded,
        })
    }

    /// Returns the ids of the sessions, each once.
    pub(crate) fn ids(self) -> impl Iterator<Item = &'a str> {
        let ids = self.ids.split(|byte| *byte == b'\n');
        ids.filter_map(|id| str::from_utf8(id).ok().filter(|id| !id.is_empty()))
    }

    /// Returns whether the root has the same directories and files, and all are unchanged.
    pub(crate) fn is_unchanged(self, root: &Root) -> bool {
        self.ask(root).unwrap_or(false)
    }

    fn ask(self, root: &Root) -> Option<bool> {
        let top = open(&root.path, PLACE, Mode::empty()).ok()?;
        if !has_reliable_mtime(&top) {
            return Some(false);
        }
        if let Some((path, id)) = self.newest {
            let found = statat(&top, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            if !id.untouched(&FileId::from_stat(&found)) {
                return Some(false);
            }
        }
        let mut path = Vec::new();
        let mut left = self.folders;
        for _ in 0..self.count {
            let folder = dir(&mut left)?;
            let name = if folder.path.is_empty() {
                "."
            } else {
                folder.path
            };
            let found = FileId::from_stat(&statat(&top, name, AtFlags::empty()).ok()?);
            if !is_as_it_was(&folder.id, &found) {
                return Some(false);
            }
            let opened = match folder.files >= MANY {
                true => Some(openat(&top, name, PLACE, Mode::empty()).ok()?),
                false => None,
            };
            for _ in 0..folder.files {
                let file = file(&mut left, folder.id.dev)?;
                let found = match &opened {
                    Some(dir) => statat(dir, file.name, AtFlags::SYMLINK_NOFOLLOW),
                    None => {
                        join(&mut path, folder.path, file.name);
                        statat(&top, path.as_slice(), AtFlags::SYMLINK_NOFOLLOW)
                    }
                };
                if !file.id.untouched(&FileId::from_stat(&found.ok()?)) {
                    return Some(false);
                }
            }
        }
        Some(left.is_empty())
    }

    /// Returns the sessions of the files with these paths within the root; `None` if a file is
    /// unknown.
    pub(crate) fn owners(self, paths: &HashSet<&[u8]>) -> Option<HashSet<&'a str>> {
        let parents = paths.iter().map(|path| {
            let slash = path.iter().rposition(|byte| *byte == b'/');
            slash.map_or(&b""[..], |at| path.get(..at).unwrap_or_default())
        });
        let parents: HashSet<&[u8]> = parents.collect();
        let mut sessions = HashSet::new();
        let mut seen = 0;
        let mut path = Vec::new();
        self.each(
            |folder| parents.contains(folder.path.as_bytes()),
            |folder, file| {
                join(&mut path, folder.path, file.name);
                if paths.contains(path.as_slice()) {
                    seen += 1;
                    sessions.insert(file.session);
                }
            },
        )?;
        if seen < paths.len() {
            return None;
        }
        let ids = self.ids().enumerate();
        let ids = ids.filter(|(at, _)| sessions.contains(at));
        Some(ids.map(|(_, id)| id).collect())
    }

    /// Returns the files of some sessions, sorted by path bytes.
    pub(crate) fn files(self, root: &Root, wanted: &HashSet<&str>) -> Option<Vec<RootFile>> {
        let wanted: Vec<bool> = self.ids().map(|id| wanted.contains(id)).collect();
        let mut files = Vec::new();
        let mut within = Vec::new();
        self.each(
            |_| true,
            |folder, file| {
                if wanted.get(file.session) == Some(&true) {
                    join(&mut within, folder.path, file.name);
                    let relative = Path::new(OsStr::from_bytes(&within));
                    if let Some(artifact) = root.layout.classify(relative) {
                        let path = root.path.join(relative);
                        files.push(RootFile::new(path, artifact, file.id));
                    }
                }
            },
        )?;
        files.sort_unstable_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
        Some(files)
    }

    /// Visits all files of the wanted directories.
    fn each(
        self,
        wanted: impl Fn(&Dir<'a>) -> bool,
        mut visit: impl FnMut(&Dir<'a>, &File<'a>),
    ) -> Option<()> {
        let mut left = self.folders;
        for _ in 0..self.count {
            let folder = dir(&mut left)?;
            let wanted = wanted(&folder);
            for _ in 0..folder.files {
                let file = file(&mut left, folder.id.dev)?;
                if wanted {
                    visit(&folder, &file);
                }
            }
        }
        left.is_empty().then_some(())
    }
}

/// Returns whether a directory has the same times, and thus the same names.
fn is_as_it_was(known: &FileId, found: &FileId) -> bool {
    let times = |id: &FileId| (id.mtime_ns, id.ctime_ns);
    known.same_file(found) && times(known) == times(found)
}

/// Encodes the files of a root in an inventory, with the directory listings in `folders`. Returns
/// `None` if the two disagree, or if the sessions depend on more than their files.
pub(crate) fn encode(root: &Root, inventory: &Inventory, folders: &[u8]) -> Option<Vec<u8>> {
    let ours = |other: &Root| other.path == root.path && other.layout.name() == root.layout.name();
    let mut ids: Vec<&str> = Vec::new();
    let mut found = Found::default();
    for files in inventory.sessions.iter().filter(|files| ours(&files.root)) {
        let id = files.id.as_str();
        let plain = files.list_rows.is_empty() && !id.contains('\n');
        plain.then_some(())?;
        if ids.last() != Some(&id) {
            ids.push(id);
        }
        let session = u32::try_from(ids.len() - 1).ok()?;
        for file in files.files() {
            found.add(root, file, session)?;
        }
    }
    for (_, file) in inventory.others.iter().filter(|(other, _)| ours(other)) {
        found.add(root, file, NOBODY)?;
    }
    let mut encoded = Vec::new();
    put_text(&mut encoded, ids.join("\n").as_bytes());
    let (newest, id) = found.newest().unwrap_or_default();
    put_text(&mut encoded, newest.as_bytes());
    put_id(&mut encoded, &id);
    let known: Vec<dir_cache::CachedDir<'_>> = dir_cache::decode_all(folders).collect();
    let paths: HashSet<&str> = known.iter().map(|folder| folder.path).collect();
    paths.contains("").then_some(())?;
    put(&mut encoded, known.len() as u64);
    for folder in &known {
        let mut files = found.0.remove(folder.path).unwrap_or_default();
        put_text(&mut encoded, folder.path.as_bytes());
        put_id(&mut encoded, &folder.id());
        put(&mut encoded, files.len() as u64);
        for (name, is_dir) in folder.names() {
            let name = str::from_utf8(name).ok()?;
            let within = match folder.path {
                "" => name.to_owned(),
                path => format!("{path}/{name}"),
            };
            let file = files.remove(name).filter(|_| !is_dir);
            let as_told = match (is_dir, file) {
                (true, _) => {
                    !root.layout.may_hold_files(Path::new(&within)) || paths.contains(&*within)
                }
                (false, None) => root.layout.classify(Path::new(&within)).is_none(),
                (false, Some((session, id))) => {
                    put_file(&mut encoded, session, id, name)?;
                    id.dev == folder.dev
                }
            };
            as_told.then_some(())?;
        }
        files.is_empty().then_some(())?;
    }
    found.0.is_empty().then_some(encoded)
}

/// The files of a root by directory and name.
#[derive(Default)]
struct Found<'a>(HashMap<&'a str, BTreeMap<&'a str, (u32, &'a FileId)>>);

impl<'a> Found<'a> {
    /// Adds a file; `None` for parts of shared logs, logs of several volumes, archived files and
    /// session lists.
    fn add(&mut self, root: &Root, file: &'a RootFile, session: u32) -> Option<()> {
        let alone = file.slice.is_none() && file.earlier.is_empty() && !file.is_archived();
        let alone = alone && file.artifact.kind != ArtifactKind::SessionList;
        alone.then_some(())?;
        let within = file.path.strip_prefix(&root.path).ok()?;
        let dir = within.parent()?.to_str()?;
        let name = within.file_name()?.to_str()?;
        let files = self.0.entry(dir).or_default();
        files
            .insert(name, (session, &file.id))
            .is_none()
            .then_some(())
    }

    /// Returns the path of the file that was modified last.
    fn newest(&self) -> Option<(String, FileId)> {
        let files = self.0.iter().flat_map(|(dir, files)| {
            let files = files.iter();
            files.map(move |(name, (_, id))| (*dir, *name, *id))
        });
        let (dir, name, id) = files.max_by_key(|(dir, name, id)| (id.mtime_ns, *dir, *name))?;
        let mut path = Vec::new();
        join(&mut path, dir, name.as_bytes());
        Some((String::from_utf8(path).ok()?, *id))
    }
}

fn join(path: &mut Vec<u8>, dir: &str, name: &[u8]) {
    path.clear();
    if !dir.is_empty() {
        path.extend_from_slice(dir.as_bytes());
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

fn put(encoded: &mut Vec<u8>, number: u64) {
    encoded.extend_from_slice(&number.to_le_bytes());
}

fn put_id(encoded: &mut Vec<u8>, id: &FileId) {
    put(encoded, id.dev);
    put_state(encoded, id);
}

/// Encodes the identity of a file without its device, which is that of its directory.
fn put_state(encoded: &mut Vec<u8>, id: &FileId) {
    let times = [id.mtime_ns as u64, id.ctime_ns as u64];
    let numbers = [id.ino, id.len].into_iter().chain(times);
    numbers.for_each(|number| put(encoded, number));
}

/// Encodes a file compactly: there are many, and all of them are read.
fn put_file(encoded: &mut Vec<u8>, session: u32, id: &FileId, name: &str) -> Option<()> {
    encoded.extend_from_slice(&session.to_le_bytes());
    encoded.extend_from_slice(&u16::try_from(name.len()).ok()?.to_le_bytes());
    put_state(encoded, id);
    encoded.extend_from_slice(name.as_bytes());
    Some(())
}

fn put_text(encoded: &mut Vec<u8>, text: &[u8]) {
    put(encoded, text.len() as u64);
    encoded.extend_from_slice(text);
}

fn take<const N: usize>(encoded: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = encoded.split_first_chunk()?;
    *encoded = rest;
    Some(*taken)
}

fn split<'a>(encoded: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = encoded.split_at_checked(len)?;
    *encoded = rest;
    Some(taken)
}

fn number(encoded: &mut &[u8]) -> Option<u64> {
    take(encoded).map(u64::from_le_bytes)
}

fn text<'a>(encoded: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(number(encoded)?).ok()?;
    split(encoded, len)
}

fn id(encoded: &mut &[u8]) -> Option<FileId> {
    let dev = number(encoded)?;
    state(encoded, dev)
}

fn state(encoded: &mut &[u8], dev: u64) -> Option<FileId> {
    Some(FileId {
        dev,
        ino: number(encoded)?,
        len: number(encoded)?,
        mtime_ns: number(encoded)? as i64,
        ctime_ns: number(encoded)? as i64,
    })
}

fn dir<'a>(encoded: &mut &'a [u8]) -> Option<Dir<'a>> {
    Some(Dir {
        path: str::from_utf8(text(encoded)?).ok()?,
        id: id(encoded)?,
        files: usize::try_from(number(encoded)?).ok()?,
    })
}

fn file<'a>(encoded: &mut &'a [u8], dev: u64) -> Option<File<'a>> {
    let session = take(encoded).map(u32::from_le_bytes)? as usize;
    let len = take(encoded).map(u16::from_le_bytes)?;
    Some(File {
        session,
        id: state(encoded, dev)?,
        name: split(encoded, len.into())?,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::super::{DirCache, walk_cached};
    use super::*;
    use crate::store::walk_cache::WalkCache;

    const IDS: [&str; 2] = [
        "0aaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa",
        "1bbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb",
    ];

    /// A change to a root.
    type Change<'a> = (&'a str, &'a dyn Fn(&Path));

    fn put(dir: &Path, path: &str) {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "{}\n").unwrap();
    }

    /// A root with two sessions: one with many files, one with a log only.
    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for id in IDS {
            put(dir.path(), &format!("projects/-w/{id}.jsonl"));
        }
        for agent in 0..MANY {
            let path = format!("projects/-w/{}/subagents/agent-{agent}.jsonl", IDS[0]);
            put(dir.path(), &path);
        }
        put(
            dir.path(),
            &format!("todos/{}-agent-{}.json", IDS[0], IDS[0]),
        );
        put(dir.path(), "projects/-w/readme.txt");
        fs::create_dir(dir.path().join("projects/-empty")).unwrap();
        dir
    }

    fn spelled(root: &Root) -> Option<Vec<u8>> {
        let mut folders = DirCache::decode(&[]).without_age_limit();
        let mut troubles = Vec::new();
        let (from, all) = (Path::new(""), |_| true);
        let files = walk_cached(
            root,
            from,
            &all,
            &mut troubles,
            &mut folders,
            &mut |_, _| {},
        );
        assert_eq!(troubles.len(), 0);
        let inventory = Inventory::from_files(root, files, &mut WalkCache::disabled());
        encode(root, &inventory, &folders.encode())
    }

    fn is_still(root: &Root, encoded: &[u8]) -> bool {
        RootSnapshot::decode(encoded).unwrap().is_unchanged(root)
    }

    #[test]
    fn every_change_to_a_root_invalidates_its_snapshot() {
        let log = format!("projects/-w/{}.jsonl", IDS[1]);
        let agent = format!("projects/-w/{}/subagents/agent-3.jsonl", IDS[0]);
        let changes: [Change<'_>; 12] = [
            ("a log grows", &|dir| {
                fs::write(dir.join(&log), "{}\n{}\n").unwrap()
            }),
            ("a log of many grows", &|dir| {
                fs::write(dir.join(&agent), "").unwrap()
            }),
            ("a log is replaced by one as long", &|dir| {
                fs::write(dir.join("new"), "{}\n").unwrap();
                fs::rename(dir.join("new"), dir.join(&log)).unwrap();
            }),
            ("a log goes", &|dir| {
                fs::remove_file(dir.join(&agent)).unwrap()
            }),
            ("a log is a link now", &|dir| {
                fs::rename(dir.join(&log), dir.join("projects/-w/moved")).unwrap();
                symlink("moved", dir.join(&log)).unwrap();
            }),
            ("there is another session", &|dir| {
                put(dir, "projects/-w/2.jsonl")
            }),
            ("there is another project", &|dir| {
                put(dir, "projects/-v/2.jsonl")
            }),
            ("a project is not empty any more", &|dir| {
                put(dir, "projects/-empty/2.jsonl")
            }),
            ("there is another agent", &|dir| {
                put(
                    dir,
                    &format!("projects/-w/{}/subagents/agent-x.jsonl", IDS[0]),
                );
            }),
            ("a session has its first agent", &|dir| {
                put(
                    dir,
                    &format!("projects/-w/{}/subagents/agent-x.jsonl", IDS[1]),
                );
            }),
            ("a project is renamed", &|dir| {
                fs::rename(dir.join("projects/-w"), dir.join("projects/-v")).unwrap();
            }),
            ("all of it goes", &|dir| {
                fs::rename(dir, dir.with_extension("gone")).unwrap()
            }),
        ];
        for (what, change) in changes {
            let dir = tree();
            let root = Root::claude_code(dir.path());
            let encoded = spelled(&root).unwrap();
            assert!(is_still(&root, &encoded), "{what}");
            change(dir.path());
            assert!(!is_still(&root, &encoded), "{what}");
            let _ = fs::rename(dir.path().with_extension("gone"), dir.path());
        }
    }

    #[test]
    fn unrelated_file_change_keeps_snapshot_valid() {
        let dir = tree();
        let root = Root::claude_code(dir.path());
        let encoded = spelled(&root).unwrap();
        fs::write(
            dir.path().join("projects/-w/readme.txt"),
            "longer than it was",
        )
        .unwrap();
        assert!(is_still(&root, &encoded));
    }

    #[test]
    fn root_with_links_or_odd_names_has_no_snapshot() {
        let link = |dir: &Path| symlink("-w", dir.join("projects/-link")).unwrap();
        let named = |dir: &Path| {
            let name = OsStr::from_bytes(b"\xff.txt");
            fs::write(dir.join("projects/-w").join(name), "").unwrap();
        };
        let odd: [Change<'_>; 2] = [("a link", &link), ("an odd name", &named)];
        for (what, add) in odd {
            let dir = tree();
            add(dir.path());
            assert_eq!(spelled(&Root::claude_code(dir.path())), None, "{what}");
        }
    }

    /// The inventory and the directory listings may be from different times.
    #[test]
    fn snapshot_requires_files_and_names_to_agree() {
        let dir = tree();
        let root = Root::claude_code(dir.path());
        let mut folders = DirCache::decode(&[]).without_age_limit();
        let mut troubles = Vec::new();
        let all = |_| true;
        let from = Path::new("");
        let files = walk_cached(
            &root,
            from,
            &all,
            &mut troubles,
            &mut folders,
            &mut |_, _| {},
        );
        let names = folders.encode().into_owned();
        let inventory = |files| Inventory::from_files(&root, files, &mut WalkCache::disabled());
        let encode_files =
            |files: &[RootFile], names: &[u8]| encode(&root, &inventory(files.to_vec()), names);
        assert!(encode_files(&files, &names).is_some());
        assert_eq!(
            encode_files(&files[1..], &names),
            None,
            "a file was not found"
        );
        assert_eq!(
            encode_files(&files, &names[..names.len() / 2]),
            None,
            "a directory is not known"
        );
        assert_eq!(encode_files(&files, &[]), None);
        let mut more = files.clone();
        let mut extra = files[0].clone();
        extra.path.set_file_name("9.jsonl");
        more.push(extra);
        assert_eq!(encode_files(&more, &names), None, "a name was not encoded");
    }

    #[test]
    fn sessions_are_found_by_their_files() {
        let dir = tree();
        let root = Root::claude_code(dir.path());
        let encoded = spelled(&root).unwrap();
        let still = RootSnapshot::decode(&encoded).unwrap();
        assert_eq!(still.ids().collect::<Vec<_>>(), IDS);
        let agent = format!("projects/-w/{}/subagents/agent-3.jsonl", IDS[0]);
        let owners = still.owners(&HashSet::from([agent.as_bytes()])).unwrap();
        assert_eq!(owners, HashSet::from([IDS[0]]));
        assert_eq!(
            still.owners(&HashSet::from([&b"projects/-w/x.jsonl"[..]])),
            None
        );
        let files = still.files(&root, &owners).unwrap();
        assert_eq!(files.len(), MANY + 2);
        let all = still.files(&root, &HashSet::from(IDS)).unwrap();
        let paths = |files: &[RootFile]| {
            files
                .iter()
                .map(|file| file.path.clone())
                .collect::<Vec<_>>()
        };
        let (from, wanted) = (Path::new(""), |_| true);
        let walked = super::super::walk(&root, from, &wanted, &mut Vec::new());
        assert_eq!(paths(&all), paths(&walked));
        assert!(
            all.iter()
                .zip(&walked)
                .all(|(a, b)| a.id.untouched(&b.id) && a.artifact == b.artifact)
        );
    }

    #[test]
    fn truncated_snapshot_is_never_unchanged() {
        let dir = tree();
        let root = Root::claude_code(dir.path());
        let encoded = spelled(&root).unwrap();
        for end in 0..encoded.len() {
            let still = RootSnapshot::decode(&encoded[..end]);
            assert!(
                !still.is_some_and(|still| still.is_unchanged(&root)),
                "{end}"
            );
        }
    }

    #[test]
    fn changed_mode_invalidates_snapshot() {
        let dir = tree();
        let root = Root::claude_code(dir.path());
        let encoded = spelled(&root).unwrap();
        let log = dir.path().join(format!("projects/-w/{}.jsonl", IDS[1]));
        fs::set_permissions(log, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(!is_still(&root, &encoded));
    }
}
