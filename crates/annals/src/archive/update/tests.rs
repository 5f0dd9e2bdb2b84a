//! Concurrent updates of packs, and write errors.

use super::*;
use crate::archive::pack_writer::OpenedSource;
use crate::archive::tests::{Fixture, LOG, TODOS, lines, now};
use annals_jsonl::Error as FileError;
use annals_jsonl::FileId;

/// A root with one session, and no pack yet.
fn desk() -> Fixture {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[]");
    desk
}

fn dir_of(desk: &Fixture) -> &Path {
    desk.pack.parent().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let mut names: Vec<String> = entries
        .map(|it| it.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn add_retries_when_pack_was_set_aside_before_the_lock() {
    let desk = desk();
    desk.store();
    let log = Log::open(&desk.pack, AppendOptions::default()).unwrap();
    fs::rename(&desk.pack, dir_of(&desk).join(".damaged-1-s.pack")).unwrap();
    let turn = add(&desk.pack, &log, &desk.contents(), now());
    assert!(matches!(turn, Ok(Turn::Again)), "{turn:?}");
    // A directory in place of the pack is an error, and would be one on every retry.
    fs::create_dir(&desk.pack).unwrap();
    let turn = add(&desk.pack, &log, &desk.contents(), now());
    assert!(
        matches!(turn, Err(Error::File(FileError::Io { .. }))),
        "{turn:?}"
    );
    let stored = update_pack(&desk.pack, &desk.contents(), now());
    assert!(
        matches!(stored, Err(Error::File(FileError::Io { .. }))),
        "{stored:?}"
    );
}

#[test]
fn create_retries_when_another_process_created_the_pack() {
    let desk = desk();
    jsonl::ensure_dir(dir_of(&desk)).unwrap();
    let temp = temp_of(&desk.pack);
    let log = open_temp(&temp).unwrap();
    // Another process fills the temporary file and renames it.
    let first = fill(&desk.pack, &log, &desk.contents(), now());
    assert!(matches!(first, Ok(Turn::Done(_))), "{first:?}");
    let made = or_again(&temp, fill(&desk.pack, &log, &desk.contents(), now()));
    assert!(matches!(made, Ok(Turn::Again)), "{made:?}");
    // A writer with a new temporary file finds the pack, and leaves nothing behind.
    let made = make(&desk.pack, &desk.contents(), now());
    assert!(matches!(made, Ok(Turn::Again)), "{made:?}");
    assert_eq!(names(dir_of(&desk)), ["s.pack"]);
    assert!(desk.store().unchanged);
    // A directory in place of the temporary file is an error, not a reason to retry.
    fs::remove_file(&desk.pack).unwrap();
    fs::create_dir(&temp).unwrap();
    let made = make(&desk.pack, &desk.contents(), now());
    assert!(
        matches!(made, Err(Error::File(FileError::Io { .. }))),
        "{made:?}"
    );
}

#[test]
fn or_again_retries_only_when_the_opened_file_is_gone() {
    let (mine, other) = (Path::new("mine"), Path::new("other"));
    let failed = |path, kind: io::ErrorKind| Err(Error::io("open", path, kind.into()));
    let again = |turn| matches!(or_again(mine, turn), Ok(Turn::Again));
    assert!(again(failed(mine, io::ErrorKind::NotFound)));
    assert!(!again(failed(other, io::ErrorKind::NotFound)));
    assert!(!again(failed(mine, io::ErrorKind::PermissionDenied)));
    assert!(!again(failed(other, io::ErrorKind::PermissionDenied)));
}

#[test]
fn leftover_temp_file_is_overwritten() {
    let desk = desk();
    jsonl::ensure_dir(dir_of(&desk)).unwrap();
    fs::write(temp_of(&desk.pack), vec![7; 1 << 20]).unwrap();
    desk.store();
    desk.assert_pack_matches_root();
    assert_eq!(names(dir_of(&desk)), ["s.pack"]);
}

#[test]
fn create_error_names_the_temp_file() {
    let desk = desk();
    // The pack's own name is short enough, but that of the temporary file is too long.
    let long = desk.pack.with_file_name("s".repeat(250) + ".pack");
    match update_pack(&long, &desk.contents(), now()) {
        Err(Error::File(FileError::Io { action, path, .. })) => {
            assert_eq!((action, &path), ("create", &temp_of(&long)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn write_error_reports_a_full_disk() {
    for kind in [
        io::ErrorKind::StorageFull,
        io::ErrorKind::QuotaExceeded,
        io::ErrorKind::FileTooLarge,
    ] {
        let error = write_error(Path::new("s.pack"), kind.into()).to_string();
        assert!(
            error.contains("no space left to archive to s.pack"),
            "{error}"
        );
    }
    let error = write_error(Path::new("s.pack"), io::ErrorKind::BrokenPipe.into());
    assert!(
        matches!(error, Error::File(FileError::Io { .. })),
        "{error}"
    );
}

#[test]
fn sync_fails_when_the_directory_is_gone() {
    let desk = desk();
    desk.store();
    let pack = Pack::open(&desk.pack).unwrap();
    assert!(sync_dir(&desk.pack).is_ok() && pack.sync().is_ok());
    fs::rename(dir_of(&desk), dir_of(&desk).with_extension("gone")).unwrap();
    assert!(sync_dir(&desk.pack).is_err() && pack.sync().is_err());
}

#[test]
fn pack_is_mostly_waste_above_half_and_one_mebibyte() {
    let mebi = 1 << 20;
    assert!(!is_mostly_waste(mebi, mebi + 100));
    assert!(is_mostly_waste(mebi + 1, mebi + 100));
    assert!(!is_mostly_waste(5 * mebi, 10 * mebi));
    assert!(is_mostly_waste(5 * mebi + 1, 10 * mebi));
}

#[test]
fn open_source_accepts_only_regular_files() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("file"), "x").unwrap();
    assert!(matches!(open_source(&at("file")), Ok(Some(_))));
    assert!(matches!(open_source(&at("none")), Ok(None)));
    for (link, target) in [("loop", "loop"), ("link", "file")] {
        std::os::unix::fs::symlink(target, at(link)).unwrap();
        let refused = open_source(&at(link)).unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
    }
    // A FIFO without a writer must not block.
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), mode).unwrap();
    let refused = open_source(&at("pipe")).unwrap_err().to_string();
    assert!(refused.contains("is not a regular file"), "{refused}");
}

#[test]
fn read_reports_a_file_that_got_shorter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, [7; 1_000]).unwrap();
    let (file, metadata) = open_source(&path).unwrap().unwrap();
    let fresh = OpenedSource {
        path: &path,
        file,
        id: FileId::from(&metadata),
        mode: 0o600,
        owner: (0, 0).into(),
        attributes: Vec::new(),
    };
    let mut got = 0;
    let mut read = |to| {
        fresh.read(0, to, |bytes| {
            got += bytes.len();
            Ok(())
        })
    };
    assert!(read(1_000).unwrap());
    assert!(!read(1_001).unwrap());
    assert_eq!(got, 1_000);
}

#[test]
fn only_short_frames_of_grown_files_are_rewritten() {
    let short = 256 << 10;
    for (bytes, frames) in [(short - 1, 1), (short, 2)] {
        let desk = Fixture::new();
        let mut log = lines(1, bytes);
        log.truncate(bytes);
        desk.put(LOG, log);
        desk.put(TODOS, "[]");
        let before = desk.store().pack;
        assert_eq!(before.index.frames.len(), 2);
        assert_eq!(before.index.frames[0].len as usize, bytes);
        // Only touched.
        fs::File::options()
            .append(true)
            .open(desk.root.join(LOG))
            .unwrap()
            .set_modified(std::time::UNIX_EPOCH)
            .unwrap();
        let touched = desk.store();
        assert!(!touched.unchanged);
        assert_eq!(touched.pack.index.frames, before.index.frames);
        desk.add(LOG, "{}\n");
        desk.store();
        let log = &desk.assert_pack_matches_root().members()[0].clone();
        assert_eq!(log.parts.len(), frames, "{bytes}");
    }
}

#[test]
fn empty_log_that_grew_is_updated() {
    let desk = Fixture::new();
    desk.put(LOG, "");
    desk.put(TODOS, "[]");
    desk.store();
    desk.add(LOG, "{}\n");
    assert_eq!(desk.store().added, 3);
    desk.assert_pack_matches_root();
}
