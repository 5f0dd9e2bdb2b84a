//! Archives and restores every kind of session; refusals; interrupted operations.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use annals::Error;
use annals::archive::{Archive, ArchiveAllOptions, ArchivedSession, RestoreOutcome, verify};
use annals::jsonl::Error as FileError;
use annals::jsonl::ReadAt as _;
use annals::jsonl::{AppendOptions, Log};
use annals::model::Draft;
use annals::store::{Root, SessionFiles, Store};
use jiff::Timestamp;

use crate::support::{Case, Copy, case, cases, picture, underived, writable_cases};

const NOW: &str = "2026-11-15T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// Returns every file with its bytes, mode and time.
fn exactly(case: &Case, dir: &Path) -> BTreeMap<PathBuf, (String, u32, i128)> {
    let files = underived(case.layout, dir).into_iter();
    let files = files.filter(|(_, what)| !what.is_empty());
    files
        .map(|(path, what)| {
            let found = fs::symlink_metadata(dir.join(&path)).unwrap();
            let time = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
            (path, (what, found.mode() & 0o7777, time))
        })
        .collect()
}

/// Gives every file a distinct mode and time.
fn mark(dir: &Path) {
    for (at, (path, what)) in picture(dir).into_iter().enumerate() {
        if what.is_empty() {
            continue;
        }
        let path = dir.join(path);
        let since = Duration::new(1_700_000_000 + at as u64, 123_456_789);
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + since);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_times(times)
            .unwrap();
        let mode = if at % 2 == 0 { 0o600 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn archived(copy: &Copy) -> Vec<ArchivedSession> {
    let (sessions, damaged) = Archive::open(&copy.state()).sessions().unwrap();
    assert_eq!(damaged, []);
    sessions
}

/// Flips a bit in the middle of each frame of the main log.
fn flip_frames(session: &ArchivedSession) {
    let content = session.file(&session.members[0]).unwrap();
    let mut bytes = fs::read(&session.path).unwrap();
    for frame in content.frames() {
        bytes[(frame.at + frame.bytes / 2) as usize] ^= 1;
    }
    fs::write(&session.path, bytes).unwrap();
}

fn keep(store: &Store) -> annals::archive::ArchiveAllReport {
    let options = ArchiveAllOptions::default();
    store
        .archive_all(
            &store.inventory_without_archive(),
            options,
            now(),
            &|_, _| {},
        )
        .unwrap()
}

#[test]
fn archive_and_restore_round_trip_every_session() {
    let mut sessions = 0;
    for case in writable_cases() {
        let copy = case.copy();
        mark(&copy.root.path);
        let before = exactly(&case, &copy.root.path);
        let store = copy.store();
        let all = copy.sessions();
        // A session that exists only as a session-list row cannot be archived.
        let (unwritten, all): (Vec<&SessionFiles>, Vec<&SessionFiles>) =
            all.iter().partition(|files| files.is_unwritten());
        for files in &unwritten {
            assert!(store.move_to_archive(&[*files], true, now()).is_err());
        }
        for group in SessionFiles::group_by_shared_files(&all) {
            let done = store.move_to_archive(&group, true, now());
            let done = done.unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert!(done.removed);
            sessions += done.sessions.len();
        }
        let left = store.inventory_without_archive().sessions;
        assert_eq!(left.len(), unwritten.len(), "{}", case.name);
        for session in archived(&copy) {
            assert_eq!(verify(&session), [], "{}", case.name);
            let mode = fs::metadata(&session.path).unwrap().mode() & 0o777;
            let dir = fs::metadata(session.path.parent().unwrap()).unwrap().mode() & 0o777;
            assert_eq!((mode, dir), (0o600, 0o700));
            let back = session.restore(None).unwrap();
            assert!(
                back.files
                    .iter()
                    .all(|file| file.fate == RestoreOutcome::New)
            );
        }
        assert_eq!(exactly(&case, &copy.root.path), before, "{}", case.name);
        assert!(!copy.root.path.join(".annals-restore").exists());
        // A second restore leaves existing files unchanged and removes an interrupted staging
        // directory.
        fs::create_dir(copy.root.path.join(".annals-restore")).unwrap();
        for session in archived(&copy) {
            let again = session.restore(None).unwrap();
            assert!(
                again
                    .files
                    .iter()
                    .all(|file| file.fate == RestoreOutcome::Same)
            );
        }
        assert_eq!(exactly(&case, &copy.root.path), before, "{}", case.name);
        assert!(archived(&copy).is_empty() || !copy.root.path.join(".annals-restore").exists());
    }
    assert!(sessions > 100, "{sessions}");
}

#[test]
fn every_session_is_restored_to_another_directory() {
    for case in cases() {
        let copy = case.copy();
        mark(&copy.root.path);
        let before = exactly(&case, &copy.root.path);
        let kept = keep(&copy.store());
        assert!(kept.failed.is_empty(), "{}: {:?}", case.name, kept.failed);
        let there = copy.dir.path().join("there");
        let mut wanted = BTreeMap::new();
        for session in archived(&copy) {
            // Configuration is restored only if it is named.
            let all: Vec<PathBuf> = session.members.iter().map(|it| it.path.clone()).collect();
            let session = session.restore_also(&all).unwrap();
            session.restore(Some(&there)).unwrap();
            for member in session.members {
                wanted.insert(member.path.clone(), before[&member.path].clone());
            }
        }
        assert_eq!(exactly(&case, &there), wanted, "{}", case.name);
        assert_eq!(exactly(&case, &copy.root.path), before, "{}", case.name);
        // A second run finds nothing to do.
        let again = keep(&copy.store());
        assert!(again.is_noop(), "{}: {again:?}", case.name);
        assert_eq!(again.unchanged, again.sessions, "{}", case.name);
    }
}

#[test]
fn session_list_rows_are_removed_and_restored() {
    let copy = case("chorus-by-annals").copy();
    let session_list = |copy: &Copy| {
        let found = picture(&copy.root.path).into_keys();
        let found = found.filter(|path| path.ends_with("conversations.json"));
        let texts = found.map(|path| fs::read_to_string(copy.root.path.join(path)).unwrap());
        texts.collect::<Vec<String>>()
    };
    let before = session_list(&copy);
    let all = copy.sessions();
    let is_listed = |files: &&SessionFiles, texts: &[String]| {
        let id = files.id.as_str();
        texts.iter().any(|text| text.contains(id))
    };
    let listed = all.iter().find(|files| is_listed(files, &before)).unwrap();
    copy.store()
        .move_to_archive(&[listed], true, now())
        .unwrap();
    assert!(!is_listed(&listed, &session_list(&copy)));
    archived(&copy)[0].restore(None).unwrap();
    let sorted = |texts: &[String]| -> Vec<Vec<u8>> {
        // Rows may be in another order.
        let bytes = texts.iter().map(|text| {
            let mut bytes = text.as_bytes().to_vec();
            bytes.sort_unstable();
            bytes
        });
        bytes.collect()
    };
    assert_eq!(sorted(&session_list(&copy)), sorted(&before));
    // The trash behaves the same.
    let trashed = copy
        .store()
        .trash()
        .move_in(&copy.sessions()[0], now())
        .unwrap();
    copy.store().trash().restore(&trashed.id).unwrap();
    assert_eq!(sorted(&session_list(&copy)), sorted(&before));
}

#[test]
fn session_deleted_by_its_agent_stays_in_the_archive() {
    let copy = case("2.1.325-s02-tools").copy();
    let before = picture(&copy.root.path);
    let store = copy.store();
    keep(&store);
    fs::remove_dir_all(copy.root.path.join("projects")).unwrap();
    let after = keep(&store);
    assert!(after.is_noop() && after.sessions == 0);
    assert_eq!(archived(&copy).len(), 1);
    archived(&copy)[0].restore(None).unwrap();
    assert_eq!(picture(&copy.root.path), before);
}

#[test]
fn keep_stores_only_what_a_session_added() {
    let copy = case("2.1.325-s02-tools").copy();
    let store = copy.store();
    keep(&store);
    let writer = copy.writer("");
    writer.append(Draft::user("And one more thing")).unwrap();
    drop(writer);
    let kept = keep(&store);
    assert_eq!(kept.archived.len(), 1);
    let (added, bytes) = (kept.added, kept.archived[0].bytes);
    assert!(added > 100 && added < bytes / 4, "{added} of {bytes}");
    let session = &archived(&copy)[0];
    assert_eq!((verify(session).len(), session.earlier.len()), (0, 0));
    let main = copy.sessions()[0].main_path().to_owned();
    let mut content = vec![0; session.members[0].len as usize];
    let file = session.file(&session.members[0]).unwrap();
    file.read_exact_at(&mut content, 0).unwrap();
    assert!(content == fs::read(main).unwrap());
}

/// One group cannot be moved; the others of its batch are.
#[test]
fn sessions_moved_together_fail_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let (root, state) = (dir.path().join("root"), dir.path().join("state"));
    let folder = root.join("projects/-app");
    fs::create_dir_all(&folder).unwrap();
    let log = |number: usize| {
        let id = format!("{number}c549c46-16ca-47dd-b731-f4c264becc53");
        folder.join(format!("{id}.jsonl"))
    };
    let line =
        r#"{"type":"user","uuid":"a","parentUuid":null,"message":{"role":"user","content":"x"}}"#;
    for number in 0..6 {
        fs::write(log(number), format!("{line}\n").repeat(number + 1)).unwrap();
    }
    let before = picture(&root);
    let store = Store::new(vec![Root::claude_code(&root)]).with_state(&state);
    let sessions = store.inventory().sessions;
    let groups: Vec<Vec<&SessionFiles>> = sessions.iter().map(|files| vec![files]).collect();
    // It is gone before its batch begins, and another is locked when its turn comes.
    fs::rename(log(1), dir.path().join("1")).unwrap();
    let held = Log::open(log(4), AppendOptions::default()).unwrap();
    let mut results = Vec::new();
    let done = held.with_lock(|_| {
        store.move_all_to_archive(&groups, true, now(), |result| results.push(result));
        Ok::<_, annals::Error>(())
    });
    done.unwrap();
    let moved = |result: &annals::Result<annals::archive::Archived>| {
        result.as_ref().is_ok_and(|done| done.removed)
    };
    let outcome: Vec<bool> = results.iter().map(moved).collect();
    assert_eq!(
        outcome,
        [true, false, true, true, false, true],
        "{results:?}"
    );
    let is_busy = matches!(results[4], Err(Error::File(FileError::Busy { .. })));
    assert!(is_busy, "{:?}", results[4]);
    for number in 0..6 {
        assert_eq!(log(number).exists(), number == 4, "{number}");
    }
    let archive = Archive::open(&state);
    for number in [0, 2, 3, 5] {
        let session = archive.find(sessions[number].id.as_ref()).unwrap();
        assert_eq!(verify(&session), []);
        session.restore(None).unwrap();
    }
    fs::rename(dir.path().join("1"), log(1)).unwrap();
    assert_eq!(picture(&root), before);
}

#[test]
fn locked_log_is_not_removed() {
    let copy = case("2.1.325-s02-tools").copy();
    let before = picture(&copy.root.path);
    let all = copy.sessions();
    let log = Log::open(all[0].main_path(), AppendOptions::default()).unwrap();
    let refused = log.with_lock(|_| {
        Ok::<_, annals::Error>(copy.store().move_to_archive(&[&all[0]], true, now()))
    });
    assert!(
        matches!(refused, Ok(Err(Error::File(FileError::Busy { .. })))),
        "{refused:?}"
    );
    assert_eq!(picture(&copy.root.path), before);
}

/// A log that grew and also changed far before its end looks as if it had only grown.
#[test]
fn log_changed_and_grown_is_archived_as_it_is() {
    use std::os::unix::fs::FileExt as _;
    let copy = case("2.1.325-s07-big").copy();
    let store = copy.store();
    let all = copy.sessions();
    let main = all[0].main_path().to_owned();
    let long = fs::read(&main)
        .unwrap()
        .repeat(9_000 / fs::metadata(&main).unwrap().len() as usize + 1);
    fs::write(&main, long).unwrap();
    keep(&store);
    let file = File::options().write(true).open(&main).unwrap();
    file.write_all_at(b"#", 10).unwrap();
    let end = file.metadata().unwrap().len();
    file.write_all_at(b"{}\n", end).unwrap();
    let before = picture(&copy.root.path);
    store
        .move_to_archive(&[&copy.sessions()[0]], true, now())
        .unwrap();
    let session = archived(&copy).remove(0);
    assert_eq!((verify(&session).len(), session.earlier.len()), (0, 1));
    session.restore(None).unwrap();
    assert_eq!(picture(&copy.root.path), before);
}

#[test]
fn damage_is_reported_by_every_run_until_repaired_from_the_source() {
    let copy = case("2.1.325-s07-big").copy();
    let store = copy.store();
    keep(&store);
    let session = archived(&copy).remove(0);
    flip_frames(&session);
    let look = || {
        let options = ArchiveAllOptions { verify_all: true };
        let inventory = store.inventory_without_archive();
        store
            .archive_all(&inventory, options, now(), &|_, _| {})
            .unwrap()
    };
    // Nothing can be repaired while the source is unavailable.
    let away = copy.dir.path().join("away");
    fs::rename(&copy.root.path, &away).unwrap();
    fs::create_dir(&copy.root.path).unwrap();
    assert!(!look().damaged().is_empty());
    let reported = keep(&store);
    assert!(
        !reported.damaged().is_empty() && !reported.is_noop(),
        "{reported:?}"
    );
    fs::remove_dir(&copy.root.path).unwrap();
    fs::rename(&away, &copy.root.path).unwrap();
    let mended = keep(&store);
    assert!(mended.is_ok() && mended.added > 0, "{mended:?}");
    assert_eq!(verify(&archived(&copy)[0]), []);
    assert!(keep(&store).is_noop());
}

#[test]
fn verified_time_in_the_future_does_not_prevent_verification() {
    let copy = case("2.1.325-s07-big").copy();
    let store = copy.store();
    keep(&store);
    let note = copy.state().join("archive/keep.json");
    fs::write(&note, r#"{"version":1,"verified":"2099-01-01T00:00:00Z"}"#).unwrap();
    assert_eq!(keep(&store).verified.packs, 1);
    assert_eq!(keep(&store).verified.packs, 0);
}

#[test]
fn session_with_more_files_than_the_open_limit_is_archived() {
    let copy = case("2.0.77-s04-agent").copy();
    let store = copy.store();
    let all = copy.sessions();
    let files = all.iter().max_by_key(|files| files.agents.len()).unwrap();
    let agent = files.agents[0].path.clone();
    let name = agent.file_name().unwrap().to_str().unwrap().to_owned();
    let stem = name.trim_end_matches(".jsonl");
    for n in 0..200 {
        fs::copy(&agent, agent.with_file_name(format!("{stem}{n:04}.jsonl"))).unwrap();
    }
    let before = picture(&copy.root.path);
    let files = copy.files(files.id.as_str());
    assert!(files.agents.len() > 200, "{}", files.agents.len());
    store.move_to_archive(&[&files], true, now()).unwrap();
    assert!(!agent.exists());
    archived(&copy)[0].restore(None).unwrap();
    assert_eq!(picture(&copy.root.path), before);
}

#[test]
fn interrupted_removal_is_finished_by_the_next_archive() {
    let copy = case("2.0.77-s04-agent").copy();
    let before = picture(&copy.root.path);
    let store = copy.store();
    let all = copy.sessions();
    let files = all.iter().max_by_key(|files| files.agents.len()).unwrap();
    assert!(files.agents.len() > 1);
    store.copy_to_archive(&[files], now()).unwrap();
    // Removes files from the end of the list, as an interrupted removal does.
    for gone in files.attachments.iter().chain(files.agents.last()) {
        fs::remove_file(&gone.path).unwrap();
    }
    let left = copy.files(files.id.as_str());
    store.move_to_archive(&[&left], true, now()).unwrap();
    assert!(!left.main_path().exists());
    archived(&copy)[0].restore(None).unwrap();
    assert_eq!(picture(&copy.root.path), before);
}

#[test]
fn restore_never_overwrites_an_existing_file() {
    // A log of one session, and one that may hold records of others.
    for name in ["2.1.325-s07-big", "0.80-s01-qa"] {
        let copy = case(name).copy();
        let store = copy.store();
        let all = copy.sessions();
        let main = all[0].main_path().to_owned();
        store.move_to_archive(&[&all[0]], true, now()).unwrap();
        fs::create_dir_all(main.parent().unwrap()).unwrap();
        fs::write(&main, "{\"someone\":\"else\"}\n").unwrap();
        let before = picture(&copy.root.path);
        let session = &archived(&copy)[0];
        let plan = session.plan_restore(None).unwrap();
        assert_eq!(plan.conflicts().count(), 1, "{name}");
        let refused = session.restore(None).unwrap_err().to_string();
        assert!(
            refused.contains("exists and differs from the archived file"),
            "{refused}"
        );
        assert_eq!(picture(&copy.root.path), before);
    }
}

#[test]
fn restore_does_not_write_through_a_link() {
    let copy = case("2.1.325-s02-tools").copy();
    let store = copy.store();
    let all = copy.sessions();
    let folder = all[0].main_path().parent().unwrap().to_owned();
    store.move_to_archive(&[&all[0]], true, now()).unwrap();
    let elsewhere = copy.dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let _ = fs::remove_dir(&folder);
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    symlink(&elsewhere, &folder).unwrap();
    let refused = archived(&copy)[0].restore(None).unwrap_err().to_string();
    assert!(refused.contains("symbolic link"), "{refused}");
    assert!(picture(&elsewhere).is_empty());
}

#[test]
fn linked_log_is_not_archived_or_removed() {
    let copy = case("2.1.325-s02-tools").copy();
    let store = copy.store();
    let main = copy.sessions()[0].main_path().to_owned();
    let elsewhere = copy.dir.path().join("elsewhere.jsonl");
    fs::rename(&main, &elsewhere).unwrap();
    symlink(&elsewhere, &main).unwrap();
    let inventory = store.inventory_without_archive();
    assert_eq!(inventory.errors.len(), 1);
    assert!(inventory.sessions.iter().all(|files| files.log.is_none()));
    let kept = store
        .archive_all(&inventory, ArchiveAllOptions::default(), now(), &|_, _| {})
        .unwrap();
    assert_eq!(kept.troubles.len(), 1);
    let stored = archived(&copy);
    let paths = stored.iter().flat_map(|session| &session.members);
    let within = main.strip_prefix(&copy.root.path).unwrap();
    assert!(paths.into_iter().all(|member| member.path != within));
    assert!(main.symlink_metadata().unwrap().is_symlink() && elsewhere.exists());
}

#[test]
fn restore_of_a_damaged_session_creates_nothing() {
    let copy = case("2.1.325-s07-big").copy();
    let store = copy.store();
    store
        .move_to_archive(&[&copy.sessions()[0]], true, now())
        .unwrap();
    let session = archived(&copy).remove(0);
    let new = copy.dir.path().join("new");
    assert!(!session.members.is_empty());
    for member in &session.members {
        let path = session.location(member);
        let sound = fs::read(&path).unwrap();
        let mut bytes = sound.clone();
        bytes[sound.len() / 2] ^= 1;
        fs::write(&path, bytes).unwrap();
        let restored = archived(&copy)[0].restore(Some(&new.join("root")));
        let refused = restored.unwrap_err().to_string();
        assert!(refused.contains("nothing was changed"), "{refused}");
        assert!(!new.exists());
        fs::write(&path, sound).unwrap();
    }
}

#[test]
fn damaged_file_is_named_and_not_restored() {
    let copy = case("2.1.325-s07-big").copy();
    let store = copy.store();
    store
        .move_to_archive(&[&copy.sessions()[0]], true, now())
        .unwrap();
    let session = archived(&copy).remove(0);
    flip_frames(&session);
    let damaged = verify(&archived(&copy)[0]);
    assert!(!damaged.is_empty());
    assert_eq!(damaged[0].pack, session.path);
    assert_eq!(
        damaged[0].member.as_deref(),
        Some(session.members[0].path.as_path())
    );
    assert_eq!(damaged[0].frame, Some(0));
    let before = picture(&copy.root.path);
    assert!(archived(&copy)[0].restore(None).is_err());
    assert_eq!(picture(&copy.root.path), before);
    let kept = store.archive_all(
        &store.inventory_without_archive(),
        ArchiveAllOptions { verify_all: true },
        now(),
        &|_, _| {},
    );
    assert_eq!(kept.unwrap().damaged(), damaged);
}

#[test]
fn only_one_keep_runs_at_a_time() {
    let copy = case("2.1.325-s02-tools").copy();
    let store = copy.store();
    keep(&store);
    let lock = File::open(copy.state().join("archive/keep.lock")).unwrap();
    lock.lock().unwrap();
    let options = ArchiveAllOptions::default();
    let refused = store.archive_all(
        &store.inventory_without_archive(),
        options,
        now(),
        &|_, _| {},
    );
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.starts_with("another `annals keep` is running"),
        "{refused}"
    );
    lock.unlock().unwrap();
    assert!(keep(&store).is_noop());
}

#[test]
fn every_session_is_verified_once_a_month_at_any_interval() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root]).with_state(dir.path().join("state"));
    for n in 0..40 {
        let session = store.begin("/home/dev/w").unwrap();
        session.append(Draft::user(format!("number {n}"))).unwrap();
    }
    let keep = |hours: i64| {
        let now = now() + jiff::SignedDuration::from_hours(hours);
        let options = ArchiveAllOptions::default();
        store
            .archive_all(&store.inventory_without_archive(), options, now, &|_, _| {})
            .unwrap()
    };
    assert_eq!((keep(0).archived.len(), keep(0).verified.packs), (40, 0));
    for step in [24, 7 * 24, 40 * 24] {
        let store_of = |at: i64| keep(at).verified.packs;
        let start = step * 1_000;
        store_of(start);
        let runs = (31 * 24 / step).max(1);
        let read: usize = (1..=runs).map(|run| store_of(start + run * step)).sum();
        assert!((36..=44).contains(&read), "every {step} hours: {read}");
    }
}

#[test]
fn archive_of_a_newer_version_is_refused_and_not_changed() {
    let copy = case("2.0.77-s02-tools").copy();
    let store = copy.store();
    keep(&store);
    let archive = store.archive().unwrap();
    let note = archive.root_dir(&copy.root).join("root.json");
    let newer = fs::read_to_string(&note)
        .unwrap()
        .replace("\"version\":1", "\"version\":2");
    for name in [&note, &note.with_file_name("root-copy.json")] {
        fs::write(name, &newer).unwrap();
    }
    let wanted = "has version 2, but this program reads version 1: written by a newer annals; update this one";
    let refused = archive.find(copy.sessions()[0].id.as_str()).unwrap_err();
    assert!(refused.to_string().contains(wanted), "{refused}");
    let kept = keep(&store);
    assert!(kept.troubles[0].contains(wanted), "{kept:?}");
    assert_eq!(fs::read_to_string(&note).unwrap(), newer);
    let refused = store.move_to_archive(&[&copy.sessions()[0]], true, now());
    assert!(refused.unwrap_err().to_string().contains(wanted));
    assert!(copy.sessions()[0].main_path().exists());
}

#[test]
fn archive_plan_counts_the_bytes_to_add() {
    let copy = case("2.1.325-s02-tools").copy();
    let store = copy.store();
    let plan = |removing: bool| {
        let files = copy.sessions().remove(0);
        store.plan_archive(&[&files], removing).unwrap()
    };
    let whole = plan(false);
    assert!(!whole.unchanged && whole.added == whole.bytes && whole.packed == 0);
    let files = copy.sessions().remove(0);
    let done = store.copy_to_archive(&[&files], now()).unwrap();
    let session = archived(&copy).remove(0);
    let size = session.members.iter();
    let size = size.map(|it| fs::metadata(session.location(it)).unwrap().len());
    let size: u64 = size.sum();
    assert_eq!((done.added, done.packed), (whole.added, size));
    assert_eq!(done.pack, session.path);
    let archive = Archive::open(&copy.state());
    assert_eq!(archive.find(files.id.as_str()).unwrap().path, done.pack);
    let again = plan(false);
    assert!(again.unchanged && again.added == 0 && again.packed == size);
    // A log that grew adds only the new bytes; a replaced log adds all of its bytes.
    let main = files.main_path().to_owned();
    let mut text = fs::read(&main).unwrap();
    let more = b"{\"type\":\"mode\"}\n";
    let mut log = File::options().append(true).open(&main).unwrap();
    std::io::Write::write_all(&mut log, more).unwrap();
    let grown = plan(false);
    assert_eq!((grown.unchanged, grown.added), (false, more.len() as u64));
    text.extend_from_slice(more);
    fs::write(main.with_extension("new"), &text).unwrap();
    fs::rename(main.with_extension("new"), &main).unwrap();
    assert_eq!(plan(false).added, text.len() as u64);
    fs::write(&main, &text[..10]).unwrap();
    assert_eq!(plan(true).added, 10);
}

#[test]
fn change_in_the_session_list_alone_is_archived() {
    let copy = case("chorus-plain").copy();
    let store = copy.store();
    keep(&store);
    assert!(keep(&store).is_noop());
    let files = copy
        .sessions()
        .into_iter()
        .find(|files| !files.list_rows.is_empty());
    let files = files.unwrap();
    let writer = store.open_writer(&files, crate::support::QUICK).unwrap();
    writer.retitle("quite another").unwrap();
    writer.close().unwrap();
    assert_eq!(keep(&store).archived.len(), 1);
    assert!(keep(&store).is_noop());
}

#[test]
fn keep_reports_progress_and_unread_paths() {
    let copy = case("2.0.77-s04-agent").copy();
    let store = copy.store();
    let mut inventory = store.inventory_without_archive();
    inventory.errors.push(Error::File(FileError::Changed {
        path: "/somewhere".into(),
    }));
    let total: u64 = inventory.sessions.iter().map(|files| files.bytes()).sum();
    let reported = std::sync::Mutex::new(Vec::new());
    let options = ArchiveAllOptions::default();
    let kept = store
        .archive_all(&inventory, options, now(), &|done, of| {
            reported.lock().unwrap().push((done, of));
        })
        .unwrap();
    assert!(kept.troubles.len() == 1 && !kept.is_ok());
    assert!(reported.into_inner().unwrap().contains(&(total, total)));
}

#[test]
fn file_with_recorded_damage_is_repaired_by_the_next_mirror() {
    let copy = case("2.1.325-s07-big").copy();
    let store = copy.store();
    keep(&store);
    let session = archived(&copy).remove(0);
    let note = copy.state().join("archive/keep.json");
    let damage = || {
        flip_frames(&session);
        let nothing = Store::new(vec![]).with_state(copy.state());
        let options = ArchiveAllOptions { verify_all: true };
        let inventory = nothing.inventory_without_archive();
        let kept = nothing
            .archive_all(&inventory, options, now(), &|_, _| {})
            .unwrap();
        assert!(!kept.damaged().is_empty());
        assert!(fs::read_to_string(&note).unwrap().contains("damaged"));
    };
    damage();
    let files = copy.sessions().remove(0);
    assert!(!store.copy_to_archive(&[&files], now()).unwrap().unchanged);
    assert_eq!(verify(&archived(&copy)[0]), []);
    damage();
    assert!(keep(&store).is_ok());
    assert!(!fs::read_to_string(&note).unwrap().contains("damaged"));
}

#[test]
fn keep_state_of_a_newer_version_is_not_overwritten() {
    let copy = case("2.1.325-s02-tools").copy();
    let store = copy.store();
    keep(&store);
    let note = copy.state().join("archive/keep.json");
    let newer = fs::read_to_string(&note)
        .unwrap()
        .replace("\"version\": 1", "\"version\": 2");
    fs::write(&note, &newer).unwrap();
    let keep = || {
        let options = ArchiveAllOptions::default();
        store.archive_all(
            &store.inventory_without_archive(),
            options,
            now(),
            &|_, _| {},
        )
    };
    let refused = keep().unwrap_err().to_string();
    assert!(refused.contains("written by a newer annals"), "{refused}");
    assert_eq!(fs::read_to_string(&note).unwrap(), newer);
    fs::remove_file(&note).unwrap();
    fs::create_dir(&note).unwrap();
    assert!(keep().is_err());
}

#[test]
fn keep_lock_behind_a_link_is_not_taken() {
    let copy = case("2.1.325-s02-tools").copy();
    let store = copy.store();
    keep(&store);
    let lock = copy.state().join("archive/keep.lock");
    let elsewhere = copy.dir.path().join("elsewhere");
    fs::rename(&lock, &elsewhere).unwrap();
    symlink(&elsewhere, &lock).unwrap();
    let options = ArchiveAllOptions::default();
    let refused = store.archive_all(
        &store.inventory_without_archive(),
        options,
        now(),
        &|_, _| {},
    );
    assert!(refused.is_err());
}
