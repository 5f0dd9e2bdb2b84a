//! Concurrent deletion, deletion across devices, and files that must stay.

mod names;
mod purge;

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use annals::Error;
use annals::jsonl::Error as FileError;
use annals::jsonl::{AppendOptions, Log};
use annals::layout::NewSession;
use annals::model::{Draft, SessionId, Todo};
use annals::store::{Root, SessionWriter, Store};
use jiff::Timestamp;
use sha2::Digest as _;
use tempfile::TempDir;

use crate::support::{QUICK, case, picture, writable_cases};

const ID: &str = "aaaaaaaa-0000-4000-8000-000000000000";

fn begin(store: &Store, cwd: &str) -> SessionWriter {
    let new = NewSession::new(SessionId::new(ID).unwrap(), cwd);
    store.create(&store.roots()[0], &new, QUICK).unwrap()
}

/// Creates a root and a state directory on two devices; `None` if there is only one.
fn two_devices() -> Option<(TempDir, TempDir, Store)> {
    let root = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir_in("/dev/shm").ok()?;
    let device = |dir: &TempDir| fs::metadata(dir.path()).unwrap().dev();
    if device(&root) == device(&state) {
        return None;
    }
    let store = Store::new(vec![Root::claude_code(root.path().join("root"))]);
    let store = store.with_state(state.path());
    Some((root, state, store))
}

/// Returns every file below a directory.
fn files_in(dir: &Path) -> Vec<PathBuf> {
    let found = picture(dir).into_iter();
    let files = found.filter(|(_, what)| !what.is_empty());
    files.map(|(path, _)| dir.join(path)).collect()
}

/// Returns the temporary name of a file while it is written.
fn temp_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap().as_encoded_bytes();
    let digest: String = sha2::Sha256::digest(name)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    path.with_file_name(format!(".annals-{digest}.tmp"))
}

#[test]
fn locked_log_is_not_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root]).with_state(dir.path().join("state"));
    let path = begin(&store, "/home/dev/w").path().to_owned();
    let files = store.inventory().sessions.remove(0);
    let log = Log::open(&path, AppendOptions::default()).unwrap();
    let refused = log.with_lock(|_| {
        Ok::<_, annals::Error>(store.trash().move_in(&files, Timestamp::UNIX_EPOCH))
    });
    assert!(
        matches!(refused, Ok(Err(Error::File(FileError::Busy { .. })))),
        "{refused:?}"
    );
    assert!(path.exists());
    assert!(store.trash().items().unwrap().is_empty());
}

#[test]
fn delete_across_devices_loses_no_acknowledged_append() {
    let Some((_root, state, store)) = two_devices() else {
        return;
    };
    for round in 0..20 {
        let writer = begin(&store, "/home/dev/w");
        let appended = thread::scope(|scope| {
            let appending = scope.spawn(|| {
                let append = |n: &usize| writer.append(Draft::user(format!("said {n}"))).is_ok();
                (0..30).take_while(append).count()
            });
            loop {
                let files = store.inventory().sessions.remove(0);
                match store.trash().move_in(&files, Timestamp::UNIX_EPOCH) {
                    Ok(_) => break,
                    Err(Error::File(FileError::Changed { .. })) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            appending.join().unwrap()
        });
        let logs: Vec<PathBuf> = files_in(state.path());
        let logs = logs
            .iter()
            .filter(|path| path.ends_with(format!("{ID}.jsonl")));
        let said: usize = logs
            .map(|path| fs::read_to_string(path).unwrap().matches("said ").count())
            .sum();
        assert!(said >= appended, "round {round}: {said} of {appended}");
        assert!(store.inventory().sessions.is_empty());
        fs::remove_dir_all(state.path().join("undo")).unwrap();
    }
}

#[test]
fn delete_across_devices_preserves_mode_and_time() {
    let Some((_root, state, store)) = two_devices() else {
        return;
    };
    let path = begin(&store, "/home/dev/w").path().to_owned();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
    let look = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.mode() & 0o777, metadata.modified().unwrap())
    };
    let before = picture(&store.roots()[0].path);
    let files = store.inventory().sessions.remove(0);
    store
        .trash()
        .move_in(&files, Timestamp::UNIX_EPOCH)
        .unwrap();
    let moved = files_in(state.path());
    let moved = moved
        .iter()
        .find(|path| path.ends_with(format!("{ID}.jsonl")));
    assert_eq!(look(moved.unwrap()), (0o640, time));
    store.trash().restore(ID).unwrap();
    assert_eq!(look(&path), (0o640, time));
    assert_eq!(picture(&store.roots()[0].path), before);
}

/// State after a process was killed while moving files across devices.
#[test]
fn interrupted_moves_across_devices_are_finished() {
    let Some((_root, state, store)) = two_devices() else {
        return;
    };
    let path = begin(&store, "/home/dev/w").path().to_owned();
    let bytes = fs::read(&path).unwrap();
    let files = store.inventory().sessions.remove(0);
    store
        .trash()
        .move_in(&files, Timestamp::UNIX_EPOCH)
        .unwrap();
    let moved = files_in(state.path());
    let moved = moved
        .iter()
        .find(|path| path.ends_with(format!("{ID}.jsonl")));
    let moved = moved.unwrap();
    // Incomplete copies in both places.
    for of in [moved, &path] {
        fs::create_dir_all(of.parent().unwrap()).unwrap();
        fs::write(temp_of(of), &bytes[..5]).unwrap();
    }
    // A complete copy, before the original was removed.
    fs::write(&path, &bytes).unwrap();
    store.trash().restore(ID).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(files_in(state.path()), Vec::<PathBuf>::new());
    let files = store.inventory().sessions.remove(0);
    let plan = store
        .trash()
        .move_in(&files, Timestamp::UNIX_EPOCH)
        .unwrap();
    assert_eq!(plan.files.len(), 1);
    store.trash().restore(ID).unwrap();
    assert!(!temp_of(&path).exists(), "the next move clears it away");
}

#[test]
fn single_log_is_deleted_and_undeleted() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("mine");
    fs::create_dir(&own).unwrap();
    let path = own.join("talk.jsonl");
    let store = Store::new(Vec::new()).with_state(dir.path().join("state"));
    fs::write(&path, "{\"type\":\"user\"}\n").unwrap();
    let target = store.find(&store.inventory(), path.to_str().unwrap());
    let files = target.unwrap().files;
    let trashed = store
        .trash()
        .move_in(&files, Timestamp::UNIX_EPOCH)
        .unwrap();
    assert!(trashed.lone);
    assert!(own.is_dir() && !path.exists());
    store.trash().restore("talk").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"type\":\"user\"}\n");
    assert!(store.trash().items().unwrap().is_empty());
}

#[test]
fn manifest_of_a_single_log_cannot_lead_elsewhere() {
    for path in [
        "../out.jsonl",
        "a/b.jsonl",
        "/tmp/x.jsonl",
        "notes.txt",
        "..",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(Vec::new()).with_state(dir.path());
        let folder = dir.path().join("undo/x");
        fs::create_dir_all(folder.join("files")).unwrap();
        let manifest = serde_json::json!({
            "version": 1, "verb": "delete", "time": "2026-01-01T00:00:00Z",
            "sessions": ["talk"], "layout": "claude-code", "lone": true,
            "root": dir.path().join("mine"),
            "files": [{"path": path, "bytes": 1}],
        });
        fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
        let before = picture(dir.path());
        assert!(
            matches!(store.trash().restore("x"), Err(Error::Refused(_))),
            "{path}"
        );
        assert_eq!(picture(dir.path()), before);
    }
}

#[test]
fn files_shared_by_two_copies_stay_until_the_last_is_deleted() {
    let copy = case("same-session-two-projects").copy();
    let store = copy.store();
    let sessions = copy.sessions();
    let first = store.open_writer(&sessions[0], QUICK).unwrap();
    first.set_todos(&[Todo::pending("shared")]).unwrap();
    let todos = || files_in(&copy.root.path.join("todos"));
    assert_eq!(todos().len(), 1);
    let before = picture(&copy.root.path);
    // An old inventory of both, as a reset has it.
    let sessions = copy.sessions();
    let gone = store
        .trash()
        .move_in(&sessions[0], Timestamp::UNIX_EPOCH)
        .unwrap();
    assert_eq!(gone.files.len(), 1);
    assert_eq!(todos().len(), 1, "the other copy's todos stay");
    let last = store
        .trash()
        .move_in(&sessions[1], Timestamp::UNIX_EPOCH)
        .unwrap();
    assert_eq!(last.files.len(), 2, "with the last copy they go");
    assert!(todos().is_empty());
    store.trash().restore(&gone.id).unwrap();
    store.trash().restore(&last.id).unwrap();
    assert_eq!(picture(&copy.root.path), before);
}

#[test]
fn failed_delete_is_rolled_back() {
    let mut failed = 0;
    for case in writable_cases() {
        let copy = case.copy();
        let store = copy.store();
        for files in copy.sessions() {
            let [first, _, ..] = files.attachments.as_slice() else {
                continue;
            };
            // Everything after it in the list is moved before it.
            fs::remove_file(&first.path).unwrap();
            let before = picture(&copy.root.path);
            assert!(
                store
                    .trash()
                    .move_in(&files, Timestamp::UNIX_EPOCH)
                    .is_err()
            );
            assert_eq!(picture(&copy.root.path), before, "{}", case.name);
            assert!(store.trash().items().unwrap().is_empty());
            failed += 1;
        }
    }
    assert!(failed > 0);
}

#[test]
fn reset_reports_moved_and_failed_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root]).with_state(dir.path().join("state"));
    let paths: Vec<PathBuf> = (0..3)
        .map(|_| store.begin("/home/dev/w").unwrap().path().to_owned())
        .collect();
    // Files behind a followed link are read but not moved.
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir_all(elsewhere.join("tool-results")).unwrap();
    fs::write(elsewhere.join("tool-results/a.txt"), "a").unwrap();
    let link = paths[1].with_extension("");
    symlink(&elsewhere, &link).unwrap();
    let root = Root::claude_code(dir.path().join("root")).follow_links(&[link]);
    let store = Store::new(vec![root]).with_state(dir.path().join("state"));
    let reported = store
        .trash()
        .move_project_in("/home/dev/w", Timestamp::UNIX_EPOCH);
    assert_eq!(reported.len(), 3);
    assert_eq!(reported.iter().filter(|moved| moved.is_ok()).count(), 2);
    assert!(paths[1].exists() && !paths[0].exists() && !paths[2].exists());
    assert!(elsewhere.join("tool-results/a.txt").exists());
}

/// An interrupted and repeated deletion has two folders, and is undeleted as one.
#[test]
fn session_deleted_in_two_steps_is_undeleted_in_one() {
    let copy = case("2.1.325-s04-agent").copy();
    let before = picture(&copy.root.path);
    let store = copy.store();
    let first = store
        .trash()
        .move_in(&copy.sessions()[0], "2026-03-01T10:00:00Z".parse().unwrap())
        .unwrap();
    // As if the process had been killed: the main log was not moved yet, and is moved by a second
    // deletion.
    let folder = copy.state().join("undo").join(&first.id);
    let main = &first.files[0].path;
    let place = copy.root.path.join(main);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::rename(folder.join("files").join(main), &place).unwrap();
    store
        .trash()
        .move_in(&copy.sessions()[0], "2026-03-01T10:00:05Z".parse().unwrap())
        .unwrap();
    assert_eq!(store.trash().items().unwrap().len(), 2);
    store.trash().restore(&first.session).unwrap();
    assert_eq!(picture(&copy.root.path), before);
    assert!(store.trash().items().unwrap().is_empty());
}

/// A process that is killed on the way to another file system leaves the file and its copy.
#[test]
fn copy_left_by_a_killed_deletion_is_undeleted_with_the_rest() {
    let copy = case("2.1.325-s04-agent").copy();
    let before = picture(&copy.root.path);
    let store = copy.store();
    let first = store
        .trash()
        .move_in(&copy.sessions()[0], "2026-03-01T10:00:00Z".parse().unwrap())
        .unwrap();
    let folder = copy.state().join("undo").join(&first.id).join("files");
    let main = &first.files[0].path;
    let place = copy.root.path.join(main);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::copy(folder.join(main), &place).unwrap();
    store
        .trash()
        .move_in(&copy.sessions()[0], "2026-03-01T10:00:05Z".parse().unwrap())
        .unwrap();
    // Two versions of a file are two deletions.
    let content = fs::read(folder.join(main)).unwrap();
    fs::write(folder.join(main), "other").unwrap();
    let error = store.trash().restore(&first.session).unwrap_err();
    assert!(error.to_string().contains("matches 2"), "{error}");
    fs::write(folder.join(main), &content).unwrap();
    store.trash().restore(&first.session).unwrap();
    assert_eq!(picture(&copy.root.path), before);
    assert!(store.trash().items().unwrap().is_empty());
}

/// A process was killed while it removed a restored file from the trash.
#[test]
fn undelete_finishes_what_a_killed_one_left() {
    let copy = case("2.1.325-s04-agent").copy();
    let before = picture(&copy.root.path);
    let store = copy.store();
    let trashed = store
        .trash()
        .move_in(&copy.sessions()[0], Timestamp::UNIX_EPOCH)
        .unwrap();
    let main = &trashed.files[0].path;
    let folder = copy.state().join("undo").join(&trashed.id).join("files");
    let name = main.file_name().unwrap().to_str().unwrap();
    let removed = folder
        .join(main)
        .with_file_name(format!(".annals-{name}.removed"));
    let place = copy.root.path.join(main);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::copy(folder.join(main), &place).unwrap();
    fs::rename(folder.join(main), &removed).unwrap();
    store.trash().restore(&trashed.session).unwrap();
    assert_eq!(picture(&copy.root.path), before);
    assert!(store.trash().items().unwrap().is_empty());
}

#[test]
fn deletions_within_one_second_get_distinct_names() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root]).with_state(dir.path().join("state"));
    let names: Vec<String> = (0..4)
        .map(|_| {
            drop(begin(&store, "/home/dev/w"));
            let files = store.inventory().sessions.remove(0);
            store
                .trash()
                .move_in(&files, Timestamp::UNIX_EPOCH)
                .unwrap()
                .id
        })
        .collect();
    let first = format!("19700101T000000-{ID}");
    let wanted = ["", "-2", "-3", "-4"].map(|copy| format!("{first}{copy}"));
    assert_eq!(names, wanted);
    assert_eq!(store.trash().items().unwrap().len(), 4);
}

/// The files moved by an interrupted deletion belong to a session that still exists.
#[test]
fn interrupted_delete_is_not_purged() {
    let copy = case("2.1.325-s04-agent").copy();
    let before = picture(&copy.root.path);
    let store = copy.store();
    let trashed = store
        .trash()
        .move_in(&copy.sessions()[0], Timestamp::UNIX_EPOCH)
        .unwrap();
    let whole = store.trash().contents().unwrap().purgeable.remove(0);
    assert_eq!(whole.unfinished, None);
    let folder = copy.state().join("undo").join(&trashed.id);
    let main = &trashed.files[0].path;
    let place = copy.root.path.join(main);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::rename(folder.join("files").join(main), &place).unwrap();
    let part = store.trash().contents().unwrap().purgeable.remove(0);
    assert_eq!(part.unfinished.as_deref(), Some(place.as_path()));
    // Also if it was inspected before.
    for item in [&whole, &part] {
        let error = store.trash().purge(item).unwrap_err().to_string();
        assert!(error.contains("was interrupted"), "{error}");
    }
    store.trash().restore(&trashed.id).unwrap();
    assert_eq!(picture(&copy.root.path), before);
}
