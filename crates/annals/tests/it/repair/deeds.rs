//! Repairs on disk: quarantine, undo, and interruption.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use annals::Error;
use annals::jsonl::Error as FileError;
use annals::repair::{QuarantinedFile, RepairPlan, RepairTarget};
use jiff::Timestamp;
use sha2::Digest as _;

use super::{Place, SESSION, chain, damages, file_of, line};
use crate::support::picture;

pub(super) fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

/// Creates a log with a torn line and two glued ones.
pub(super) fn damaged() -> Place {
    let mut lines = chain();
    lines[4].truncate(200);
    lines[7] = [lines[7].as_slice(), &lines[8]].concat();
    lines.remove(8);
    Place::with(&file_of(&lines))
}

#[test]
fn repair_and_undo_restore_everything() {
    for (what, bytes, ..) in damages() {
        let place = Place::with(&bytes);
        fs::set_permissions(&place.log, fs::Permissions::from_mode(0o640)).unwrap();
        let (store, before) = (place.store(), fs::metadata(&place.log).unwrap());
        let root = place.dir.path().join("root");
        let whole = picture(&root);
        let plan = place.plan();
        assert_eq!(picture(&root), whole, "{what}: a plan changes nothing");
        let same_times = || {
            let after = fs::metadata(&place.log).unwrap();
            assert_eq!(after.mode(), before.mode(), "{what}");
            let times = (after.modified().unwrap(), before.modified().unwrap());
            assert_eq!(times.0, times.1, "{what}");
        };
        let kept = store.repairs().apply(&plan, true, now()).unwrap();
        assert_eq!(place.bytes(), plan.edits.apply(&bytes), "{what}");
        same_times();

        let folder = place.state().join("undo").join(&kept.id);
        let original = kept.original_path(&place.state().join("undo"));
        assert_eq!(fs::read(&original).unwrap(), bytes, "{what}");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&original), 0o600);
        for name in ["removed.jsonl", "manifest.json"] {
            assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
        }
        let removed = fs::read_to_string(folder.join("removed.jsonl")).unwrap();
        let count = plan.edits.removed.len();
        assert_eq!(removed.lines().count(), count, "{what}");

        let again = place.plan().edits;
        assert!(again.is_empty(), "{what}: a second repair finds nothing");
        store.repairs().undo(&kept).unwrap();
        assert_eq!(place.bytes(), bytes, "{what}");
        same_times();
        assert_eq!(picture(&root), whole, "{what}");
        assert!(store.repairs().list().unwrap().0.is_empty(), "{what}");
    }
}

#[test]
fn removed_bytes_are_listed_in_the_quarantine() {
    let place = damaged();
    let bytes = place.bytes();
    let kept = place
        .store()
        .repairs()
        .apply(&place.plan(), true, now())
        .unwrap();
    let folder = place.state().join("undo").join(&kept.id);
    let removed = fs::read_to_string(folder.join("removed.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(removed.lines().next().unwrap()).unwrap();
    let at = first["offset"].as_u64().unwrap() as usize;
    let text = first["text"].as_str().unwrap();
    assert_eq!(text.as_bytes(), &bytes[at..at + text.len()]);
    assert_eq!((first["line"].as_u64(), text.len()), (Some(5), 200));
}

#[test]
fn log_changed_since_the_plan_is_not_repaired() {
    let place = damaged();
    let plan = place.plan();
    let grown = [place.bytes(), line(11, 10), b"\n".to_vec()].concat();
    fs::write(&place.log, &grown).unwrap();
    place.age();
    let error = place
        .store()
        .repairs()
        .apply(&plan, true, now())
        .unwrap_err();
    assert!(
        matches!(error, Error::File(FileError::Changed { .. })),
        "{error}"
    );
    assert_eq!(place.bytes(), grown);
    // Also if its length and time are unchanged.
    let plan = place.plan();
    let mut other = grown.clone();
    other[10] = b'x';
    fs::write(&place.log, &other).unwrap();
    place.age();
    let error = place
        .store()
        .repairs()
        .apply(&plan, true, now())
        .unwrap_err();
    assert!(
        matches!(error, Error::File(FileError::Changed { .. })),
        "{error}"
    );
    assert_eq!(place.bytes(), other);
}

#[test]
fn log_being_written_is_not_free() {
    let place = damaged();
    assert!(place.plan().ensure_not_in_use().is_ok());
    let fresh = String::from_utf8(line(11, 10)).unwrap();
    let fresh = fresh.replace("2026-11-10T05:11:00.000Z", &Timestamp::now().to_string());
    let grown = [place.bytes(), fresh.into_bytes(), b"\n".to_vec()].concat();
    fs::write(&place.log, grown).unwrap();
    let error = place.plan().ensure_not_in_use().unwrap_err();
    assert!(matches!(error, Error::Live { .. }), "{error}");
}

#[test]
fn recent_torn_tail_counts_as_being_written() {
    let place = damaged();
    let torn = [place.bytes(), line(11, 10)[..60].to_vec()].concat();
    fs::write(&place.log, torn).unwrap();
    let error = place.plan().ensure_not_in_use().unwrap_err();
    assert!(matches!(error, Error::Live { .. }), "{error}");
    place.age();
    assert!(place.plan().ensure_not_in_use().is_ok());
}

#[test]
fn torn_tail_is_removed_after_an_hour() {
    let place = Place::with(&file_of(&chain()));
    let whole = place.bytes();
    let torn = [whole.as_slice(), &line(11, 10)[..60]].concat();
    fs::write(&place.log, &torn).unwrap();
    place.age();
    let written = fs::metadata(&place.log).unwrap().modified().unwrap();
    let written = Timestamp::try_from(written).unwrap();
    let after = |minutes| written + jiff::SignedDuration::from_mins(minutes);
    assert!(place.plan_at(after(59)).edits.is_empty());
    let plan = place.plan_at(after(60));
    let kept = place.store().repairs().apply(&plan, false, now()).unwrap();
    assert_eq!(place.bytes(), whole);
    assert!(place.plan_at(after(90)).edits.is_empty());
    place.store().repairs().undo(&kept).unwrap();
    assert_eq!(place.bytes(), torn);
}

#[test]
fn undo_refuses_a_log_written_after_the_repair() {
    let place = damaged();
    let kept = place
        .store()
        .repairs()
        .apply(&place.plan(), true, now())
        .unwrap();
    let repaired = place.bytes();
    let grown = [repaired.clone(), line(11, 10), b"\n".to_vec()].concat();
    fs::write(&place.log, &grown).unwrap();
    let error = place.store().repairs().undo(&kept).unwrap_err().to_string();
    let reported = error.contains("has grown by") && error.contains("undo");
    assert!(reported, "{error}");
    assert_eq!(place.bytes(), grown);
    fs::write(&place.log, b"something else\n").unwrap();
    let error = place.store().repairs().undo(&kept).unwrap_err().to_string();
    let reported = error.contains("has changed since the repair; the original stays");
    assert!(reported, "{error}");
    // Once the log has the repaired bytes again, the repair can be undone.
    fs::write(&place.log, repaired).unwrap();
    place.store().repairs().undo(&kept).unwrap();
}

#[test]
fn interrupted_repair_is_finished_by_the_next() {
    let place = damaged();
    let (store, bytes) = (place.store(), place.bytes());
    let kept = store.repairs().apply(&place.plan(), true, now()).unwrap();
    let repaired = place.bytes();
    let folder = place.state().join("undo").join(&kept.id);
    for stop in ["removed.jsonl", "manifest.json", "nothing"] {
        // As if the log had not been replaced yet, and a part of the folder not been written.
        fs::write(&place.log, &bytes).unwrap();
        let _ = fs::remove_file(folder.join(stop));
        let again = store.repairs().apply(&place.plan(), true, now()).unwrap();
        assert_eq!(again.id, kept.id);
        assert_eq!(place.bytes(), repaired, "{stop}");
        assert!(folder.join("manifest.json").exists());
    }
    // A wrong copy of the original is replaced.
    fs::write(&place.log, &bytes).unwrap();
    let original = kept.original_path(&place.state().join("undo"));
    fs::write(&original, b"half").unwrap();
    store.repairs().apply(&place.plan(), true, now()).unwrap();
    assert_eq!(fs::read(&original).unwrap(), bytes);
    // Undoing a repair that never happened only removes the folder.
    fs::write(&place.log, &bytes).unwrap();
    store.repairs().undo(&kept).unwrap();
    assert_eq!(place.bytes(), bytes);
    assert!(!folder.exists());
}

#[test]
fn damaged_original_is_not_restored() {
    let place = damaged();
    let kept = place
        .store()
        .repairs()
        .apply(&place.plan(), true, now())
        .unwrap();
    let repaired = place.bytes();
    let original = kept.original_path(&place.state().join("undo"));
    fs::write(original, b"spoiled").unwrap();
    let error = place.store().repairs().undo(&kept).unwrap_err().to_string();
    assert!(
        error.contains("has changed since the repair, so it was not restored"),
        "{error}"
    );
    assert_eq!(place.bytes(), repaired);
}

#[test]
fn manifest_of_another_version_is_refused() {
    let place = damaged();
    let store = place.store();
    let kept = store.repairs().apply(&place.plan(), true, now()).unwrap();
    let folder = place.state().join("undo").join(&kept.id);
    let path = folder.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    let own = "\"version\": 1";
    assert!(text.contains(own));
    for (version, reported) in [
        (
            "\"version\": 2",
            "has version 2, but this annals reads version 1",
        ),
        (
            "\"version\": 0",
            "has version 0, but this annals reads version 1",
        ),
        ("\"x\": 1", "has no version"),
    ] {
        fs::write(&path, text.replace(own, version)).unwrap();
        let (found, troubles) = store.repairs().list().unwrap();
        assert!(found.is_empty());
        let trouble = troubles[0].to_string();
        let named = trouble.contains(reported) && trouble.contains("manifest.json");
        assert!(named, "{trouble}");
        assert!(store.repairs().find(SESSION).is_err());
    }
}

#[test]
fn manifest_path_cannot_leave_the_root() {
    let place = damaged();
    let store = place.store();
    let kept = store.repairs().apply(&place.plan(), true, now()).unwrap();
    let outside = place.dir.path().join("outside.jsonl");
    fs::write(&outside, place.bytes()).unwrap();
    let folder = place.state().join("undo").join(&kept.id);
    let path = folder.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    let own = format!("\"projects/-work/{SESSION}.jsonl\"");
    assert!(text.contains(&own));
    for within in ["../outside.jsonl", "projects/../../outside.jsonl", "x.xml"] {
        fs::write(&path, text.replace(&own, &format!("\"{within}\""))).unwrap();
        let found: Vec<QuarantinedFile> = store.repairs().list().unwrap().0;
        let before = picture(place.dir.path());
        assert!(store.repairs().undo(&found[0]).is_err(), "{within}");
        assert_eq!(picture(place.dir.path()), before, "{within}");
    }
    // Nor through a link in place of the log.
    fs::remove_file(&place.log).unwrap();
    std::os::unix::fs::symlink(&outside, &place.log).unwrap();
    let before = fs::read(&outside).unwrap();
    assert!(store.repairs().undo(&kept).is_err());
    assert_eq!(fs::read(&outside).unwrap(), before);
}

#[test]
fn linked_log_is_not_repaired() {
    let place = damaged();
    let folder = place.log.parent().unwrap().to_owned();
    let outside = place.dir.path().join("outside");
    fs::rename(&folder, &outside).unwrap();
    let store = place.store();
    let patients = {
        std::os::unix::fs::symlink(&outside, &folder).unwrap();
        let inventory = store.inventory();
        let mut files: Vec<RepairTarget> = RepairTarget::all(&inventory);
        // A walk may skip files behind a link; naming the file does not help either.
        let found = store.find(&inventory, place.log.to_str().unwrap());
        files.extend(
            found
                .into_iter()
                .flat_map(|one| RepairTarget::from_sessions([&one.files].into_iter())),
        );
        files
    };
    let before = picture(&outside);
    for patient in &patients {
        let plan = RepairPlan::new(patient, now()).unwrap();
        assert!(store.repairs().apply(&plan, true, now()).is_err());
    }
    assert_eq!(picture(&outside), before);
}

#[test]
fn forget_repair_deletes_the_original_and_keeps_the_log() {
    let place = damaged();
    let store = place.store();
    store.repairs().apply(&place.plan(), true, now()).unwrap();
    let repaired = place.bytes();
    let found = store.repairs().find("aaaaaaaa").unwrap();
    assert_eq!(found.len(), 1);
    store.repairs().delete(&found[0]).unwrap();
    let quarantine = place.state().join("undo");
    assert_eq!(fs::read_dir(quarantine).unwrap().count(), 0);
    assert_eq!(place.bytes(), repaired);
    let error = store.repairs().find("aaaaaaaa").unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[test]
fn failed_repair_leaves_nothing_to_undo() {
    let place = damaged();
    let (store, bytes) = (place.store(), place.bytes());
    // The log cannot be replaced: a directory has the name of the temporary file.
    let name = place.log.file_name().unwrap().as_encoded_bytes();
    let digest: String = sha2::Sha256::digest(name)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let taken = place.log.with_file_name(format!(".annals-{digest}.tmp"));
    fs::create_dir(&taken).unwrap();
    store
        .repairs()
        .apply(&place.plan(), true, now())
        .unwrap_err();
    assert_eq!(place.bytes(), bytes);
    assert!(store.repairs().list().unwrap().0.is_empty());
    let quarantine = place.state().join("undo");
    assert_eq!(fs::read_dir(quarantine).unwrap().count(), 0);
    fs::remove_dir(&taken).unwrap();
    store.repairs().apply(&place.plan(), true, now()).unwrap();
    assert_eq!(store.repairs().list().unwrap().0.len(), 1);
}

#[test]
fn repair_killed_before_any_change_is_not_listed() {
    let place = damaged();
    let (store, bytes) = (place.store(), place.bytes());
    let kept = store.repairs().apply(&place.plan(), true, now()).unwrap();
    let repaired = place.bytes();
    fs::write(&place.log, &bytes).unwrap();
    assert!(store.repairs().list().unwrap().0.is_empty());
    assert!(store.repairs().find(&kept.id).is_err());
    let folder = place.state().join("undo").join(&kept.id);
    // Another process may be about to replace the log.
    store.repairs().sweep().unwrap();
    assert!(folder.exists());
    let long_ago = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    let age = || {
        fs::File::open(&folder)
            .unwrap()
            .set_times(long_ago)
            .unwrap()
    };
    // A repair that was applied stays, however old it is.
    fs::write(&place.log, &repaired).unwrap();
    age();
    store.repairs().sweep().unwrap();
    assert!(folder.exists());
    fs::write(&place.log, &bytes).unwrap();
    // A folder with foreign files stays too.
    fs::write(folder.join("mine.txt"), b"mine").unwrap();
    age();
    store.repairs().sweep().unwrap();
    assert!(folder.exists());
    fs::remove_file(folder.join("mine.txt")).unwrap();
    age();
    store.repairs().sweep().unwrap();
    assert!(!folder.exists());
}

/// The log changed after the process was killed, so that it is not the original any more.
#[test]
fn repair_killed_before_its_copy_is_not_listed_but_one_with_a_copy_is() {
    let place = damaged();
    let store = place.store();
    let kept = store.repairs().apply(&place.plan(), true, now()).unwrap();
    let vault = store.repairs().quarantine().unwrap();
    let folder = vault.join(&kept.id);
    fs::write(&place.log, [place.bytes(), line(11, 10)].concat()).unwrap();
    let listed = || store.repairs().list().unwrap().0.len();
    fs::remove_file(folder.join("removed.jsonl")).unwrap();
    assert_eq!(listed(), 1, "the copy may be the only one");
    fs::remove_file(kept.original_path(&vault)).unwrap();
    assert_eq!(listed(), 0);
    let long_ago = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    let handle = fs::File::open(&folder).unwrap();
    handle.set_times(long_ago).unwrap();
    store.repairs().sweep().unwrap();
    assert!(!folder.exists());
}
