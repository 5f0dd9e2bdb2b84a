//! Packs: contents survive updates and damage.

mod attributes;
mod damage;
mod damage_reports;
mod flipped_bits;
mod invalid_index;
mod limits;
mod member_list;
mod removal;
mod salvage;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tempfile::TempDir;

use super::*;
use annals_jsonl::ReadAt as _;

pub(super) const LOG: &str = "projects/-app/8c549c46-16ca-47dd-b731-f4c264becc53.jsonl";
pub(super) const TODOS: &str =
    "todos/8c549c46-16ca-47dd-b731-f4c264becc53-agent-8c549c46-16ca-47dd-b731-f4c264becc53.json";

/// A root, and a pack of its session.
pub(super) struct Fixture {
    dir: TempDir,
    pub(super) root: PathBuf,
    pub(super) pack: PathBuf,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let pack = dir.path().join("state/archive/r/s.pack");
        Fixture { dir, root, pack }
    }

    pub(super) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(super) fn add(&self, path: &str, bytes: impl AsRef<[u8]>) {
        use std::io::Write as _;
        let path = self.root.join(path);
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    pub(super) fn contents(&self) -> PackContents {
        PackContents {
            layout: "claude-code".into(),
            root: self.root.clone(),
            lone: false,
            sessions: vec![PackedSession {
                id: "8c549c46-16ca-47dd-b731-f4c264becc53".into(),
                folder: Some("-app".into()),
            }],
            files: vec![(LOG.into(), true), (TODOS.into(), false)],
            rows: Vec::new(),
            list_digest: None,
        }
    }

    #[track_caller]
    pub(super) fn store(&self) -> PackUpdate {
        update_pack(&self.pack, &self.contents(), now()).unwrap()
    }

    /// Asserts that the pack holds exactly the files of the root.
    #[track_caller]
    pub(super) fn assert_pack_matches_root(&self) -> Pack {
        let pack = Pack::open(&self.pack).unwrap();
        for path in [LOG, TODOS] {
            let wanted = fs::read(self.root.join(path)).unwrap();
            let member = pack.member(Path::new(path)).unwrap();
            assert_eq!(
                member.sha256,
                Checksum(Sha256::digest(&wanted).into()),
                "{path}"
            );
            assert!(all(&pack, member) == wanted, "{path}");
        }
        pack
    }
}

pub(super) fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn all(pack: &Pack, member: &Member) -> Vec<u8> {
    let file = pack.file(member);
    let mut bytes = vec![0; member.len as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(file.read_at(&mut [0], member.len).unwrap(), 0);
    bytes
}

/// Returns the offset of the second copy of the index in an intact pack.
pub(super) fn second_index(whole: &[u8]) -> usize {
    let footer = whole.len() - pack::FOOTER;
    let packed = u64::from_le_bytes(whole[footer + 8..footer + 16].try_into().unwrap());
    footer - packed as usize
}

/// Writes a pack with a forged index.
fn forge(desk: &Fixture, lie: impl FnOnce(&mut PackIndex)) {
    let pack = desk.store().pack;
    let mut bytes = fs::read(&desk.pack).unwrap();
    let mut index = PackIndex::clone(&pack.index);
    lie(&mut index);
    let json = serde_json::to_vec(&index).unwrap();
    let packed = zstd::bulk::compress(&json, 3).unwrap();
    let nonce: [u8; 16] = bytes[16..32].try_into().unwrap();
    let footer = pack::footer(&nonce, bytes.len() as u64, json.len() as u64, &packed);
    bytes.extend(packed);
    bytes.extend(footer);
    fs::write(&desk.pack, bytes).unwrap();
}

/// Returns lines that compress only moderately.
pub(super) fn lines(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut out = Vec::new();
    while out.len() < bytes {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        out.extend_from_slice(
            format!("{{\"n\":\"{:016x}\",\"said\":\"something\"}}\n", state).as_bytes(),
        );
    }
    out
}

#[test]
fn packed_file_reads_back_from_any_offset() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3 << 20));
    desk.put(TODOS, "[]");
    let stored = desk.store();
    assert!(!stored.unchanged && stored.missing.is_empty());
    assert!(stored.pack.bytes < stored.added / 2);
    let pack = desk.assert_pack_matches_root();
    assert!(
        pack.index
            .frames
            .iter()
            .all(|frame| frame.len as usize <= pack_index::FRAME)
    );
    // Four frames of the log, and one of the todos.
    assert_eq!((pack.index.frames.len(), pack.torn), (5, 0));
    let wanted = fs::read(desk.root.join(LOG)).unwrap();
    let file = pack.file(&pack.members()[0]);
    for at in [
        0,
        1,
        (1 << 20) - 1,
        1 << 20,
        (2 << 20) + 5,
        wanted.len() - 1,
    ] {
        let mut some = [0; 700];
        let read = file.read_at(&mut some, at as u64).unwrap();
        assert!(read > 0 && some[..read] == wanted[at..at + read], "{at}");
    }
    let mode = fs::metadata(&desk.pack).unwrap().mode() & 0o777;
    let dir = fs::metadata(desk.pack.parent().unwrap()).unwrap().mode() & 0o777;
    assert_eq!((mode, dir), (0o600, 0o700));
}

#[test]
fn update_does_not_write_an_unchanged_pack() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 10_000));
    desk.put(TODOS, "[]");
    desk.store();
    let before = fs::read(&desk.pack).unwrap();
    let again = desk.store();
    assert!(again.unchanged && again.added == 0);
    assert!(fs::read(&desk.pack).unwrap() == before);
}

#[test]
fn update_of_grown_log_adds_only_the_growth() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 5 << 20));
    desk.put(TODOS, "[]");
    desk.store();
    let before = fs::metadata(&desk.pack).unwrap().len();
    desk.add(LOG, lines(2, 3_000));
    let grown = desk.store();
    assert!((3_000..4_000).contains(&grown.added), "{}", grown.added);
    assert_eq!(grown.pack.index.generation, 2);
    assert!(grown.pack.earlier_versions().is_empty());
    desk.assert_pack_matches_root();
    let after = fs::metadata(&desk.pack).unwrap().len();
    assert!(after - before < 200 << 10, "{before} {after}");
}

#[test]
fn hourly_updates_leave_few_frames() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 100));
    desk.put(TODOS, "[]");
    for hour in 0..150 {
        desk.add(LOG, lines(hour, 20_000));
        desk.store();
    }
    let pack = desk.assert_pack_matches_root();
    let len = fs::metadata(desk.root.join(LOG)).unwrap().len();
    assert!(pack.index.frames.len() < 30, "{}", pack.index.frames.len());
    assert!(pack.bytes < len * 2, "{} of {len}", pack.bytes);
}

#[test]
fn replaced_or_truncated_files_become_earlier_versions() {
    let desk = Fixture::new();
    let first = lines(1, 50_000);
    desk.put(LOG, &first);
    desk.put(TODOS, "[1]");
    desk.store();
    // Truncated.
    desk.put(LOG, &first[..1_000]);
    desk.put(TODOS, "[2]");
    desk.store();
    // Longer again, but with different content.
    let third = lines(3, 80_000);
    desk.put(LOG, &third);
    let pack = desk.store().pack;
    desk.assert_pack_matches_root();
    let earlier: Vec<(&Path, Vec<u8>)> = pack
        .earlier_versions()
        .iter()
        .map(|member| (member.path.as_path(), all(&pack, member)))
        .collect();
    let wanted: Vec<(&Path, Vec<u8>)> = vec![
        (Path::new(LOG), first.clone()),
        (Path::new(TODOS), b"[1]".to_vec()),
        (Path::new(LOG), first[..1_000].to_vec()),
    ];
    assert!(earlier == wanted);
    assert!(
        pack.earlier_versions()
            .iter()
            .all(|member| member.until == Some(now()))
    );
    // Versions of a document that changes all the time do not pile up.
    for n in 0..20 {
        desk.put(TODOS, format!("[{n},{n}]"));
        desk.store();
    }
    let pack = desk.assert_pack_matches_root();
    assert_eq!(
        pack.earlier_versions()
            .iter()
            .filter(|it| it.path == Path::new(TODOS))
            .count(),
        8
    );
    assert_eq!(
        pack.earlier_versions()
            .iter()
            .filter(|it| it.path == Path::new(LOG))
            .count(),
        2
    );
}

#[test]
fn touched_or_moved_file_is_not_stored_again() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 50_000));
    desk.put(TODOS, "[]");
    desk.store();
    let path = desk.root.join(LOG);
    let copy = path.with_extension("copy");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let again = desk.store();
    assert_eq!((again.added, again.pack.earlier_versions().len()), (0, 0));
    assert_eq!(again.pack.members()[0].mode, 0o640);
    // A copied log that also grew adds only its growth.
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    desk.add(LOG, "{}\n");
    let grown = desk.store();
    assert_eq!((grown.added, grown.pack.earlier_versions().len()), (3, 0));
    desk.assert_pack_matches_root();
}

#[test]
fn file_removed_from_root_stays_in_the_pack() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 5_000));
    desk.put(TODOS, "[1]");
    desk.store();
    fs::remove_file(desk.root.join(TODOS)).unwrap();
    desk.add(LOG, "{}\n");
    let stored = desk.store();
    assert_eq!(stored.missing, [Path::new(TODOS)]);
    let member = stored.pack.member(Path::new(TODOS)).unwrap();
    assert_eq!(all(&stored.pack, member), b"[1]");
}

/// The log is the first file of a pack, also when it is missing from the root; in older packs,
/// which may list it later, it is found.
#[test]
fn removed_log_stays_the_first_member() {
    let desk = Fixture::new();
    desk.put(LOG, "{}\n");
    desk.put(TODOS, "[]");
    desk.store();
    fs::remove_file(desk.root.join(LOG)).unwrap();
    desk.put(TODOS, "[1]");
    let mut contents = desk.contents();
    contents.files.retain(|(path, _)| path != Path::new(LOG));
    let pack = update_pack(&desk.pack, &contents, now()).unwrap().pack;
    let paths: Vec<&Path> = pack.members().iter().map(|it| it.path.as_path()).collect();
    assert_eq!(paths, [Path::new(LOG), Path::new(TODOS)]);
    let mut index = PackIndex::clone(&pack.index);
    index.members.reverse();
    assert_eq!(index.main_log().unwrap().path, Path::new(LOG));
}

#[test]
fn concurrent_updates_make_one_pack() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 300_000));
    desk.put(TODOS, "[]");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| desk.store());
        }
    });
    let pack = desk.assert_pack_matches_root();
    assert_eq!(pack.index.generation, 1);
    let names = fs::read_dir(desk.pack.parent().unwrap()).unwrap().count();
    assert_eq!(names, 1, "{}", desk.dir.path().display());
}

#[test]
fn log_changed_near_its_start_is_stored_as_new_version() {
    let desk = Fixture::new();
    let first = lines(1, 50_000);
    desk.put(LOG, &first);
    desk.put(TODOS, "[]");
    desk.store();
    let mut second = first.clone();
    second[10] ^= 1;
    desk.put(LOG, &second);
    desk.add(LOG, "{}\n");
    let pack = desk.store().pack;
    desk.assert_pack_matches_root();
    assert!(all(&pack, &pack.earlier_versions()[0]) == first);
}

#[test]
fn damaged_frames_are_stored_again_from_the_source() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3 << 20));
    desk.put(TODOS, "[]");
    desk.store();
    for grows in [false, true] {
        let frame = Pack::open(&desk.pack).unwrap().index.frames[0];
        let mut bytes = fs::read(&desk.pack).unwrap();
        bytes[frame.at as usize + frame.bytes as usize / 2] ^= 1;
        fs::write(&desk.pack, bytes).unwrap();
        assert!(!verify(&Pack::open(&desk.pack).unwrap()).is_empty());
        if grows {
            desk.add(LOG, "{}\n");
        }
        let stored = desk.store();
        assert_eq!(verify(&stored.pack), []);
        assert!(stored.added > 0 && stored.pack.earlier_versions().is_empty());
        desk.assert_pack_matches_root();
    }
}

#[test]
fn unreadable_pack_is_set_aside_and_replaced() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[]");
    desk.store();
    let whole = fs::read(&desk.pack).unwrap();
    // Positions before the end of the first checkpoint.
    for cut in [0, 20, 100] {
        fs::write(&desk.pack, &whole[..cut]).unwrap();
        let aside = desk.store().set_aside.unwrap();
        assert!(fs::read(&aside.path).unwrap() == whole[..cut], "{cut}");
        assert!(!is_pack(&aside.path));
        assert_eq!(desk.assert_pack_matches_root().index.generation, 1);
    }
}

#[test]
fn failed_update_leaves_no_files() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    fs::create_dir_all(desk.root.join(TODOS)).unwrap();
    assert!(update_pack(&desk.pack, &desk.contents(), now()).is_err());
    let dir = desk.pack.parent().unwrap();
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn failed_removal_keeps_all_files() {
    use crate::store::{FileSet, Root, Store};
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[]");
    let pack = desk.store().pack;
    let root = Root::new("claude-code", &desk.root).unwrap();
    let inventory = crate::store::Inventory::scan(std::slice::from_ref(&root));
    let group: Vec<_> = inventory.sessions.iter().collect();
    let holdings = FileSet::to_remove(&group).unwrap();
    assert_eq!(holdings.files.len(), 2);
    // The main log is renamed last, and grows before that.
    struct Growing<'a>(&'a Fixture, &'a Pack, &'a Root);
    impl crate::store::FileCopies for Growing<'_> {
        fn verify(&self, within: &Path) -> Result<annals_jsonl::FileId> {
            let id = annals_jsonl::FileId::from(&fs::metadata(self.0.root.join(within)).unwrap());
            if within == Path::new(TODOS) {
                self.0.add(LOG, "{}\n");
            }
            Ok(id)
        }
        fn ensure_reachable(&self) -> Result<()> {
            Ok(())
        }
        fn restore(&self, gone: &[&Path]) -> Result<()> {
            self.1.put_back(self.2, gone)
        }
        fn save_rows(&self, _: &Path, _: &[String]) -> Result<()> {
            Ok(())
        }
    }
    let copies = Growing(&desk, &pack, &root);
    let refused = Store::remove_files(&group, &holdings, true, &copies).unwrap_err();
    assert!(
        matches!(
            refused,
            crate::Error::File(annals_jsonl::Error::Changed { .. })
        ),
        "{refused}"
    );
    assert_eq!(fs::read(desk.root.join(TODOS)).unwrap(), b"[]");
    assert!(desk.root.join(LOG).exists());
}

#[test]
fn find_distinguishes_damaged_pack_from_missing_session() {
    let mut desk = Fixture::new();
    desk.pack.set_file_name("8c549c46-16ca.0000.pack");
    desk.put(LOG, "{}\n");
    desk.put(TODOS, "[]");
    desk.store();
    let archive = Archive::open(&desk.dir.path().join("state"));
    let roots = archive.roots().unwrap();
    let roots: Vec<_> = roots
        .iter()
        .map(|it| (it.layout.name(), &it.path))
        .collect();
    assert_eq!(roots, [("claude-code", &desk.root)]);
    assert_eq!(archive.find("8c54").unwrap().path, desk.pack);
    fs::write(&desk.pack, "nothing").unwrap();
    let error = archive.find("8c54").unwrap_err().to_string();
    assert!(error.contains("too short"), "{error}");
    let error = archive.find("9999").unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert!(archive.roots().unwrap().is_empty());
}

#[test]
fn roots_and_folders_of_one_name_get_distinct_safe_paths() {
    let archive = Archive::open(Path::new("/state"));
    let root = |path: &str| Root::new("claude-code", path).unwrap();
    let (one, other) = (root("/a/my-app_1/../é app"), root("/b/my-app_1"));
    let name = |root: &Root| {
        let dir = archive.root_dir(root);
        assert_eq!(dir.parent(), Some(archive.dir()));
        dir.file_name().unwrap().to_str().unwrap().to_owned()
    };
    assert!(name(&one).starts_with("claude-code-app-"), "{}", name(&one));
    assert!(name(&other).starts_with("claude-code-my-app_1-"));
    assert_ne!(name(&other), name(&root("/a/my-app_1")));
    let (here, there) = (Some("-here"), Some("-there"));
    assert_ne!(
        archive.pack_path(&one, "s", here),
        archive.pack_path(&one, "s", there)
    );
}

#[test]
fn checksum_parses_only_64_hex_digits() {
    let sum = Checksum([0xab; 32]);
    let text = serde_json::to_string(&sum).unwrap();
    assert_eq!(serde_json::from_str::<Checksum>(&text).unwrap(), sum);
    let (short, long) = (text.replacen("ab", "", 1), text.replacen("ab", "abab", 1));
    let (signed, letters) = (text.replacen("ab", "+b", 1), text.replacen("ab", "xy", 1));
    for wrong in [short, long, signed, letters] {
        assert!(serde_json::from_str::<Checksum>(&wrong).is_err(), "{wrong}");
    }
}
