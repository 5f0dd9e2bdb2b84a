//! The archive of a root: contents survive updates, interruptions and damage.

mod attributes;
mod damage;
mod removal;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tempfile::TempDir;

use super::mirror::{Contents, Stored};
use super::*;
use crate::archive_format::manifest::Manifest;
use crate::archive_format::{Checksum, RootArchive, manifest, names, root_archive};
use crate::error::{Error, Result};
use crate::root::Root;
use annals_jsonl::ReadAt as _;

const ID: &str = "8c549c46-16ca-47dd-b731-f4c264becc53";
const LOG: &str = "projects/-app/8c549c46-16ca-47dd-b731-f4c264becc53.jsonl";
const TODOS: &str =
    "todos/8c549c46-16ca-47dd-b731-f4c264becc53-agent-8c549c46-16ca-47dd-b731-f4c264becc53.json";

/// A root with a session, and its archive.
struct Fixture {
    dir: TempDir,
    root: Root,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::claude_code(dir.path().join("root"));
        let desk = Fixture { dir, root };
        desk.put(LOG, "{}\n");
        desk.put(TODOS, "[]");
        desk
    }

    fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.root.path.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn add(&self, path: &str, bytes: impl AsRef<[u8]>) {
        use std::io::Write as _;
        let path = self.root.path.join(path);
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    fn archive(&self) -> Archive {
        Archive::open(&self.dir.path().join("state"))
    }

    /// The path of a compressed file.
    fn stored(&self, path: &str) -> PathBuf {
        manifest::file_path(&self.archive().root_dir(&self.root), Path::new(path))
    }

    fn manifest(&self) -> PathBuf {
        self.archive().root_dir(&self.root).join(manifest::NAME)
    }

    fn contents(&self) -> Contents {
        Contents {
            sessions: vec![SessionKey {
                id: ID.into(),
                folder: Some("-app".into()),
            }],
            files: vec![(LOG.into(), true), (TODOS.into(), false)],
            ..Contents::default()
        }
    }

    fn try_store(&self, contents: Contents) -> Result<Stored> {
        let suspects = BTreeSet::new();
        self.archive()
            .with_locked(&self.root, false, |root, manifest| {
                session::store(root, manifest, contents, now(), Some(&suspects))
            })
    }

    #[track_caller]
    fn store(&self) -> Stored {
        self.try_store(self.contents()).unwrap()
    }

    /// Returns the only archived session.
    #[track_caller]
    fn session(&self) -> ArchivedSession {
        let (mut sessions, damaged) = self.archive().sessions().unwrap();
        assert_eq!(damaged, []);
        assert_eq!(sessions.len(), 1);
        sessions.remove(0)
    }

    /// Asserts that the archive holds exactly the files of the root.
    #[track_caller]
    fn assert_archived(&self) -> ArchivedSession {
        let session = self.session();
        for path in [LOG, TODOS] {
            let wanted = fs::read(self.root.path.join(path)).unwrap();
            let member = session.member(Path::new(path)).unwrap();
            assert_eq!(member.sha256, Some(Checksum::compute(&wanted)), "{path}");
            assert!(content(&session, member) == wanted, "{path}");
        }
        assert_eq!(verify(&session), []);
        session
    }
}

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn content(session: &ArchivedSession, member: &Member) -> Vec<u8> {
    let mut bytes = vec![0; member.len as usize];
    let file = session.file(member).unwrap();
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn unchanged_files_are_not_written() {
    let desk = Fixture::new();
    assert!(desk.store().is_changed);
    let before = fs::read(desk.manifest()).unwrap();
    let again = desk.store();
    assert!(!again.is_changed && again.added == 0);
    assert!(fs::read(desk.manifest()).unwrap() == before);
    let session = desk.assert_archived();
    assert_eq!((session.generation(), session.members.len()), (1, 2));
    assert_eq!(session.path, desk.stored(LOG));
}

#[test]
fn grown_log_gets_frames_appended() {
    let desk = Fixture::new();
    desk.put(LOG, "{\"a\":1}\n".repeat(1000));
    desk.store();
    let before = (
        fs::read(desk.stored(LOG)).unwrap(),
        fs::metadata(desk.stored(LOG)).unwrap().ino(),
    );
    desk.add(LOG, "{\"b\":2}\n");
    let stored = desk.store();
    assert_eq!(stored.added, 8);
    let after = fs::read(desk.stored(LOG)).unwrap();
    assert!(after.starts_with(&before.0));
    assert_eq!(fs::metadata(desk.stored(LOG)).unwrap().ino(), before.1);
    assert!(desk.assert_archived().earlier.is_empty());
}

#[test]
fn hourly_growth_leaves_few_frames_and_no_versions() {
    let desk = Fixture::new();
    for hour in 0..60 {
        desk.add(LOG, format!("{{\"hour\":{hour}}}\n"));
        desk.store();
    }
    let session = desk.assert_archived();
    let frames = session.file(&session.members[0]).unwrap().frames().len();
    assert!(frames <= 20, "{frames}");
    assert!(session.earlier.is_empty());
}

#[test]
fn replaced_or_cut_files_become_earlier_versions() {
    let desk = Fixture::new();
    for text in ["first\n", "second, longer\n", "sec", "first\nand more\n"] {
        desk.put(LOG, text);
        desk.store();
        desk.assert_archived();
    }
    let session = desk.assert_archived();
    let texts = session
        .earlier
        .iter()
        .map(|it| String::from_utf8(content(&session, it)).unwrap());
    assert_eq!(
        texts.collect::<Vec<_>>(),
        ["first\n", "second, longer\n", "sec"]
    );
    let first = session.with_earlier_version(1).unwrap();
    assert_eq!(content(&first, &first.members[0]), b"first\n");
    assert!(session.with_earlier_version(0).is_none() && session.with_earlier_version(4).is_none());
    // Of documents, the last eight are kept.
    for number in 0..12 {
        desk.put(TODOS, format!("[{number}]"));
        desk.store();
    }
    let session = desk.assert_archived();
    let todos = session
        .earlier
        .iter()
        .filter(|it| it.path == Path::new(TODOS));
    let todos: Vec<Vec<u8>> = todos.map(|it| content(&session, it)).collect();
    assert_eq!(todos.len(), 8);
    assert_eq!((&todos[0][..], &todos[7][..]), (&b"[3]"[..], &b"[10]"[..]));
    let dir = manifest::versions_dir(&session.archive.dir, Path::new(TODOS));
    assert_eq!(names(&dir).unwrap().len(), 8);
}

#[test]
fn log_changed_near_its_start_is_stored_as_new_version() {
    let desk = Fixture::new();
    desk.put(LOG, "a".repeat(5000));
    desk.store();
    desk.put(LOG, format!("b{}", "a".repeat(6000)));
    desk.store();
    assert_eq!(desk.assert_archived().earlier.len(), 1);
}

#[test]
fn touched_file_is_not_stored_again() {
    let desk = Fixture::new();
    desk.store();
    let before = fs::read(desk.stored(LOG)).unwrap();
    fs::copy(desk.root.path.join(LOG), desk.root.path.join("copy")).unwrap();
    fs::rename(desk.root.path.join("copy"), desk.root.path.join(LOG)).unwrap();
    let stored = desk.store();
    assert!(stored.is_changed && stored.added == 0);
    assert!(fs::read(desk.stored(LOG)).unwrap() == before);
    assert!(!desk.store().is_changed);
    assert!(desk.assert_archived().earlier.is_empty());
}

#[test]
fn file_removed_from_the_root_stays_archived() {
    let desk = Fixture::new();
    desk.store();
    fs::remove_file(desk.root.path.join(LOG)).unwrap();
    let stored = desk.store();
    assert_eq!(stored.missing, [PathBuf::from(LOG)]);
    let session = desk.session();
    assert_eq!(session.members[0].path, Path::new(LOG));
    assert_eq!(content(&session, &session.members[0]), b"{}\n");
}

#[test]
fn concurrent_writers_make_one_archive() {
    let desk = Fixture::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| desk.store());
        }
    });
    assert_eq!(desk.assert_archived().generation(), 1);
}

#[test]
fn modes_are_private() {
    let desk = Fixture::new();
    desk.put(LOG, "changed");
    desk.store();
    desk.put(LOG, "again");
    desk.store();
    let mut dirs = vec![desk.archive().dir.clone()];
    while let Some(dir) = dirs.pop() {
        assert_eq!(
            fs::metadata(&dir).unwrap().mode() & 0o777,
            0o700,
            "{}",
            dir.display()
        );
        for path in names(&dir).unwrap() {
            match path.is_dir() {
                true => dirs.push(path),
                false => assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600),
            }
        }
    }
}

#[test]
fn failed_update_leaves_the_archive_as_it_was() {
    let desk = Fixture::new();
    desk.store();
    let before = fs::read(desk.manifest()).unwrap();
    desk.add(LOG, "more\n");
    let todos = desk.root.path.join(TODOS);
    fs::remove_file(&todos).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &todos).unwrap();
    desk.try_store(desk.contents()).unwrap_err();
    assert!(fs::read(desk.manifest()).unwrap() == before);
    let session = desk.session();
    assert_eq!(content(&session, &session.members[0]), b"{}\n");
}

#[test]
fn write_error_reports_a_full_disk() {
    let path = Path::new("/archive/f.zst");
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
        let error = root_archive::write_error(path, kind.into()).to_string();
        assert!(error.starts_with("no space left"), "{error}");
    }
    let error = root_archive::write_error(path, io::ErrorKind::PermissionDenied.into());
    assert!(error.to_string().contains("cannot write"), "{error}");
}

#[test]
fn many_dead_lines_are_dropped_from_the_manifest() {
    let desk = Fixture::new();
    desk.store();
    let archive = desk.archive();
    archive
        .with_locked(&desk.root, false, |root, manifest| {
            let member = manifest.files[Path::new(LOG)].clone();
            for _ in 0..30 {
                let lines = (0..50).map(|_| manifest::Line::File(Box::new(member.clone())));
                root.append(manifest, lines.collect())?;
                root.compact(manifest, false)?;
            }
            Ok(())
        })
        .unwrap();
    let lines = fs::read_to_string(desk.manifest()).unwrap().lines().count();
    assert!(lines < 1200, "{lines}");
    assert_eq!(desk.assert_archived().dirs.len(), 3);
}

#[test]
fn roots_and_folders_of_one_name_get_distinct_safe_paths() {
    let archive = Archive::open(Path::new("/state"));
    let dirs = ["/a/one", "/b/one", "/a/../../weird name\u{202e}"].map(|path| {
        let dir = archive.root_dir(&Root::claude_code(path));
        let name = dir.file_name().unwrap().to_str().unwrap().to_owned();
        let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        assert!(name.chars().all(safe), "{name}");
        dir
    });
    assert_eq!(BTreeSet::from(dirs).len(), 3);
}

#[test]
fn find_prefers_the_exact_id_and_refuses_an_ambiguous_prefix() {
    let desk = Fixture::new();
    desk.store();
    let other = LOG.replace("-f4c264becc53", "-f4c264becc54");
    desk.put(&other, "{}\n");
    let contents = Contents {
        sessions: vec![SessionKey {
            id: ID.replace("becc53", "becc54"),
            folder: Some("-app".into()),
        }],
        files: vec![(other.into(), true)],
        ..Contents::default()
    };
    desk.try_store(contents).unwrap();
    let archive = desk.archive();
    assert_eq!(archive.find(ID).unwrap().sessions[0].id, ID);
    let tag = archive.find(ID).unwrap().tag().unwrap();
    assert_eq!(
        archive.find(&format!("{ID}.{tag}")).unwrap().sessions[0].id,
        ID
    );
    assert!(matches!(
        archive.find("8c54").unwrap_err(),
        Error::Ambiguous { .. }
    ));
    assert!(matches!(
        archive.find("none").unwrap_err(),
        Error::NotFound { .. }
    ));
    assert!(matches!(
        archive.find("").unwrap_err(),
        Error::NotFound { .. }
    ));
}

#[test]
fn checksum_parses_only_64_hex_digits() {
    let sum = Checksum::compute(b"x");
    let json = serde_json::to_string(&sum).unwrap();
    assert_eq!(serde_json::from_str::<Checksum>(&json).unwrap(), sum);
    let digits = "0".repeat(64);
    for wrong in [
        &digits[1..],
        &format!("{digits}0"),
        &format!("g{}", &digits[1..]),
    ] {
        serde_json::from_str::<Checksum>(&format!("\"{wrong}\"")).unwrap_err();
    }
}

/// Compares the files in the root with their copies, not only their times.
#[test]
fn confirm_compares_content_not_only_times() {
    let desk = Fixture::new();
    let log = desk.root.path.join(LOG);
    desk.store();
    let mut session = desk.session();
    assert!(move_sessions::confirm(&session, &desk.root.path, Path::new(LOG)).is_ok());
    session.members[0].sha256 = Some(Checksum::compute(b"other"));
    let differs = move_sessions::confirm(&session, &desk.root.path, Path::new(LOG)).unwrap_err();
    assert!(
        differs
            .to_string()
            .contains("though its times are unchanged"),
        "{differs}"
    );
    fs::write(&log, "{} \n").unwrap();
    let changed = move_sessions::confirm(&session, &desk.root.path, Path::new(LOG)).unwrap_err();
    assert!(matches!(
        changed,
        Error::File(annals_jsonl::Error::Changed { .. })
    ));
}

/// Any file is restored without annals.
#[test]
fn zstd_program_restores_every_file() {
    let version = std::process::Command::new("zstd").arg("--version").output();
    if version.is_err() {
        eprintln!("zstd_program_restores_every_file: skipped, the program zstd is not installed");
        return;
    }
    let desk = Fixture::new();
    desk.put(LOG, "{\"long\":\"log\"}\n".repeat(200_000));
    desk.put(TODOS, "");
    desk.store();
    for number in 0..3 {
        desk.add(LOG, format!("{number}\n"));
        desk.add(TODOS, "[]");
        desk.store();
    }
    let session = desk.assert_archived();
    for member in &session.members {
        let output = std::process::Command::new("zstd")
            .args(["-q", "-d", "-c"])
            .arg(session.location(member))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stdout == fs::read(desk.root.path.join(&member.path)).unwrap());
    }
}
