//! Atomic replacement of small documents, file identities, cursors and spans.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use annals_jsonl::Error;
use annals_jsonl::{Cursor, Digest, FileId, create_new, ensure_dir, read_span, replace};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn replace_creates_private_files_and_preserves_the_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index.json");
    replace(&path, b"1", None).unwrap();
    assert_eq!(
        (fs::read(&path).unwrap(), mode(&path)),
        (b"1".to_vec(), 0o600)
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    replace(&path, b"2", None).unwrap();
    assert_eq!(
        (fs::read(&path).unwrap(), mode(&path)),
        (b"2".to_vec(), 0o640)
    );
    assert_eq!(names(dir.path()), ["index.json"]);
}

#[test]
fn replace_refuses_a_document_changed_since_it_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index.json");
    let read = Digest::compute(b"as read");
    assert!(matches!(
        replace(&path, b"new", Some(&read)),
        Err(Error::Changed { .. })
    ));
    fs::write(&path, "changed").unwrap();
    assert!(
        matches!(replace(&path, b"new", Some(&read)), Err(Error::Changed { path: p }) if p == path)
    );
    assert_eq!(fs::read(&path).unwrap(), b"changed");
    assert_eq!(
        names(dir.path()),
        ["index.json"],
        "no temporary file is left"
    );
    fs::write(&path, "as read").unwrap();
    replace(&path, b"new", Some(&read)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn concurrent_compare_and_swap_loses_no_update() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("counter");
    fs::write(&path, "0").unwrap();
    let lost = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut done = 0;
                while done < 25 {
                    let old = fs::read(&path).unwrap();
                    let count: usize = String::from_utf8(old.clone()).unwrap().parse().unwrap();
                    match replace(
                        &path,
                        (count + 1).to_string().as_bytes(),
                        Some(&Digest::compute(&old)),
                    ) {
                        Ok(()) => done += 1,
                        Err(Error::Changed { .. }) => {
                            lost.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(
        fs::read(&path).unwrap(),
        b"100",
        "after {lost:?} lost races"
    );
}

#[test]
fn replace_refuses_a_symbolic_link() {
    let dir = tempfile::tempdir().unwrap();
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    fs::write(&target, "precious").unwrap();
    symlink(&target, &link).unwrap();
    let refused = replace(&link, b"new", None).unwrap_err();
    assert!(
        matches!(&refused, Error::ThroughLink { why, .. } if why.contains("symbolic link")),
        "{refused}"
    );
    assert!(link.is_symlink());
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    assert_eq!(names(dir.path()), ["link", "target"]);
}

#[test]
fn leftover_temporary_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index.json");
    let digest = Digest::compute(b"index.json").0;
    let tag: String = digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let name = format!(".annals-{tag}.tmp");
    for leftover in [b"half".as_slice(), b""] {
        fs::write(dir.path().join(&name), leftover).unwrap();
        replace(&path, b"2", None).unwrap();
        assert_eq!(names(dir.path()), ["index.json"]);
    }
    symlink(&path, dir.path().join(&name)).unwrap();
    replace(&path, b"3", Some(&Digest::compute(b"2"))).unwrap();
    assert_eq!(
        (fs::read(&path).unwrap(), names(dir.path())),
        (b"3".to_vec(), vec!["index.json".to_owned()])
    );
}

#[test]
fn replace_refuses_anything_but_a_regular_file() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for path in [pipe.as_path(), dir.path()] {
        assert!(
            matches!(replace(path, b"new", None), Err(Error::NotAFile { .. })),
            "{}",
            path.display()
        );
    }
    assert_eq!(names(dir.path()), ["pipe"]);
}

#[test]
fn create_new_never_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.md");
    create_new(&path, b"mine").unwrap();
    assert_eq!(mode(&path), 0o600);
    let again = create_new(&path, b"other").unwrap_err();
    assert!(again.to_string().contains("notes.md"), "{again}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    assert_eq!(names(dir.path()), ["notes.md"]);
}

#[test]
fn ensure_dir_creates_private_directories_and_leaves_existing_ones() {
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("there");
    fs::create_dir(&there).unwrap();
    fs::set_permissions(&there, fs::Permissions::from_mode(0o755)).unwrap();
    ensure_dir(&there.join("a/b")).unwrap();
    ensure_dir(&there.join("a/b")).unwrap();
    assert_eq!(
        [
            mode(&there),
            mode(&there.join("a")),
            mode(&there.join("a/b"))
        ],
        [0o755, 0o700, 0o700]
    );
    fs::write(there.join("file"), "").unwrap();
    assert!(ensure_dir(&there.join("file")).is_err());
    assert!(ensure_dir(&there.join("file/below")).is_err());
}

#[test]
fn cursor_detects_every_change_before_its_offset() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let content = [b"{\"n\":1}\n".repeat(2_000), b"tail\n".to_vec()].concat();
    let offset = content.len() as u64;
    let check = |change: &dyn Fn(&File), wanted: bool, what: &str| {
        fs::write(&path, &content).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let cursor = Cursor::new(&file, offset).unwrap();
        change(&file);
        assert_eq!(
            cursor.is_valid(&File::open(&path).unwrap()).unwrap(),
            wanted,
            "{what}"
        );
    };
    check(&|_| {}, true, "untouched");
    check(
        &|file| file.write_all_at(b"more\n", offset).unwrap(),
        true,
        "grown",
    );
    check(&|file| file.set_len(offset - 1).unwrap(), false, "shrunk");
    check(
        &|file| file.write_all_at(b"T", offset - 5).unwrap(),
        false,
        "tail rewritten in place",
    );
    check(
        &|file| file.write_all_at(b"T", offset - 4_096).unwrap(),
        false,
        "rewritten at the far end of the guard",
    );
    let replaced = |_: &File| {
        fs::write(path.with_extension("new"), &content).unwrap();
        fs::rename(path.with_extension("new"), &path).unwrap();
    };
    check(&replaced, false, "replaced by a copy");
}

#[test]
fn file_id_distinguishes_growth_from_replacement() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, "1").unwrap();
    let id = || FileId::from(&fs::metadata(&path).unwrap());
    let first = id();
    assert_eq!(first, id());
    File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"2")
        .unwrap();
    assert!(first != id() && first.same_file(&id()));
    fs::write(path.with_extension("new"), "1").unwrap();
    fs::rename(path.with_extension("new"), &path).unwrap();
    assert!(!first.same_file(&id()));
}

#[test]
fn read_span_reads_exactly_or_fails() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, "0123456789").unwrap();
    let file = File::open(&path).unwrap();
    assert_eq!(read_span(&file, 3, 4).unwrap(), b"3456");
    assert_eq!(read_span(&file, 10, 0).unwrap(), b"");
    for (offset, len) in [(7, 4), (11, 0), (0, u64::MAX), (u64::MAX, 1), (0, 1 << 60)] {
        assert_eq!(
            read_span(&file, offset, len).unwrap_err().kind(),
            std::io::ErrorKind::UnexpectedEof
        );
    }
}
