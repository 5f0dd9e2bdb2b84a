//! Lookup of repairs by name, and quarantines with foreign files.

use std::fs;

use annals::Error;
use annals::jsonl::Error as FileError;
use annals::repair::{QuarantinedFile, RepairPlan, RepairTarget};
use annals::store::{Root, Store};
use jiff::Timestamp;

use super::deeds::{damaged, now};
use super::{Place, SESSION, chain, file_of, line};

/// Repairs every file of the store's roots.
fn repair_all(store: &Store) -> Vec<QuarantinedFile> {
    let patients = RepairTarget::all(&store.inventory());
    // So late that an unterminated line is not recent.
    let plans = RepairPlan::all(&patients, Timestamp::MAX, &|_, _| {});
    let plans = plans.into_iter().map(Result::unwrap);
    let plans: Vec<RepairPlan> = plans.filter(|plan| !plan.edits.is_empty()).collect();
    let repair = |plan: &RepairPlan| store.repairs().apply(plan, true, now()).unwrap();
    plans.iter().map(repair).collect()
}

fn ids(found: &[QuarantinedFile]) -> Vec<&str> {
    found.iter().map(|kept| kept.id.as_str()).collect()
}

#[test]
fn repair_is_found_by_id_session_and_file() {
    let place = damaged();
    let store = place.store();
    let kept = repair_all(&store).remove(0);
    assert!(kept.id.starts_with(SESSION) && kept.id.len() > SESSION.len());
    let path = place.log.to_str().unwrap();
    for name in [&kept.id, SESSION, path, &kept.id[..8], &SESSION[..3]] {
        assert_eq!(
            ids(&store.repairs().find(name).unwrap()),
            [&kept.id],
            "{name}"
        );
    }
    for other in ["", "zzz", "/nowhere", "aaaaaaab"] {
        let error = store.repairs().find(other).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{other}: {error}");
    }
    let original = kept.original_path(&store.repairs().quarantine().unwrap());
    assert_eq!(
        fs::read(original).unwrap().len() as u64,
        kept.original.bytes
    );
    assert!(!kept.is_index());
}

#[test]
fn session_id_selects_several_repairs_only_in_one_root() {
    let place = damaged();
    let agents = place.log.with_extension("").join("subagents");
    fs::create_dir_all(&agents).unwrap();
    fs::write(agents.join("agent-a1.jsonl"), place.bytes()).unwrap();
    let store = place.store();
    let both = repair_all(&store);
    assert_eq!(both.len(), 2);
    assert_ne!(both[0].id, both[1].id);
    assert_eq!(store.repairs().find(SESSION).unwrap().len(), 2);
    assert_eq!(store.repairs().find(&both[0].id).unwrap().len(), 1);
    // A session with the same id in another root is a different one.
    let other = damaged();
    let root = Root::new("claude-code", other.dir.path().join("root")).unwrap();
    let elsewhere = Store::new(vec![root]).with_state(place.state());
    assert_eq!(repair_all(&elsewhere).len(), 1);
    let error = store.repairs().find(SESSION).unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
}

#[test]
fn repairs_of_a_file_without_session_are_selected_one_by_one() {
    let place = Place::with(&file_of(&chain()));
    let history = place.dir.path().join("root/history.jsonl");
    let good = "{\"display\":\"one\",\"timestamp\":1,\"project\":\"/work\"}\n";
    let store = place.store();
    for torn in ["{\"display\":\"tw\n", "{\"display\":\"thr\n"] {
        fs::write(&history, [good, torn, good].concat()).unwrap();
        assert_eq!(repair_all(&store).len(), 1);
    }
    let all = store.repairs().list().unwrap().0;
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|kept| kept.session.is_none()));
    let error = store.repairs().find("history").unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
    let short = &all[0].id[..12];
    assert_eq!(ids(&store.repairs().find(short).unwrap()), [&all[0].id]);
}

#[test]
fn foreign_entries_in_the_quarantine_are_skipped_or_reported() {
    let place = damaged();
    let store = place.store();
    assert_eq!(store.repairs().list().unwrap().0.len(), 0);
    repair_all(&store);
    let quarantine = store.repairs().quarantine().unwrap();
    fs::create_dir(quarantine.join("empty")).unwrap();
    fs::write(quarantine.join("file"), "mine").unwrap();
    let (found, troubles) = store.repairs().list().unwrap();
    assert_eq!((found.len(), troubles.len()), (1, 0));
    fs::create_dir_all(quarantine.join("odd/manifest.json")).unwrap();
    let (found, troubles) = store.repairs().list().unwrap();
    assert_eq!((found.len(), troubles.len()), (1, 1), "{troubles:?}");
    // A quarantine that is not a directory is an error.
    let state = place.dir.path().join("other");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("undo"), "").unwrap();
    let store = Store::new(Vec::new()).with_state(state);
    assert!(store.repairs().list().is_err());
}

#[test]
fn forget_repair_removes_only_quarantine_folders() {
    let place = damaged();
    let store = place.store();
    let kept = repair_all(&store).remove(0);
    let quarantine = store.repairs().quarantine().unwrap();
    for id in ["", ".", "..", "../../root", ".hidden", "a/b"] {
        let mut other = kept.clone();
        other.id = id.to_owned();
        assert!(store.repairs().delete(&other).is_err(), "{id}");
    }
    assert!(place.log.exists() && quarantine.join(&kept.id).exists());
    // A leftover of an earlier removal does not block this one.
    fs::write(quarantine.join(format!(".purging-{}", kept.id)), "").unwrap();
    store.repairs().delete(&kept).unwrap();
    store.repairs().delete(&kept).unwrap();
    assert!(!quarantine.join(&kept.id).exists());
}

#[test]
fn removed_bytes_are_encoded_as_text_base64_or_nul_count() {
    let mut lines = chain();
    lines[2] = vec![0; 300];
    lines[4].truncate(200);
    lines[6] = [b"\xff\xfe".as_slice(), &lines[6][..80]].concat();
    let place = Place::with(&file_of(&lines));
    let store = place.store();
    let kept = repair_all(&store).remove(0);
    let folder = store.repairs().quarantine().unwrap().join(&kept.id);
    let removed = fs::read_to_string(folder.join("removed.jsonl")).unwrap();
    let mut ways: Vec<String> = Vec::new();
    for line in removed.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let way = ["text", "base64", "nuls"];
        let way = way.into_iter().filter(|way| line.get(way).is_some());
        ways.push(way.collect::<Vec<_>>().join("+"));
    }
    assert_eq!(ways, ["nuls", "text", "base64"]);
}

#[test]
fn log_being_written_is_repaired_only_with_live() {
    let place = damaged();
    let store = place.store();
    // Its last line is unterminated.
    let torn = [place.bytes(), line(11, 10)[..60].to_vec()].concat();
    fs::write(&place.log, torn).unwrap();
    let plan = place.plan();
    let before = place.bytes();
    let refused = store.repairs().apply(&plan, false, Timestamp::now());
    assert!(matches!(refused, Err(Error::Live { .. })), "{refused:?}");
    assert_eq!(place.bytes(), before);
    store
        .repairs()
        .apply(&plan, true, Timestamp::now())
        .unwrap();
    assert_ne!(place.bytes(), before);
}

#[test]
fn undo_reports_a_replaced_file_and_repair_a_blocked_original() {
    let place = damaged();
    let store = place.store();
    let before = place.bytes();
    let kept = store.repairs().apply(&place.plan(), true, now()).unwrap();
    let repaired = place.bytes();
    fs::write(&place.log, vec![b'x'; repaired.len() + 50]).unwrap();
    let error = store.repairs().undo(&kept).unwrap_err().to_string();
    assert!(
        error.contains("has changed since the repair; the original stays"),
        "{error}"
    );
    fs::write(&place.log, &repaired).unwrap();
    store.repairs().undo(&kept).unwrap();
    assert_eq!(place.bytes(), before);
    let original = kept.original_path(&store.repairs().quarantine().unwrap());
    fs::create_dir_all(original.join("mine")).unwrap();
    place.age();
    let refused = store
        .repairs()
        .apply(&place.plan(), true, now())
        .unwrap_err();
    let reported = matches!(&refused, Error::File(FileError::Io { action: "remove", path, .. }) if *path == original);
    assert!(reported, "{refused}");
    assert_eq!(place.bytes(), before);
}

#[test]
fn full_id_selects_only_its_repair() {
    let place = damaged();
    let store = place.store();
    let kept = repair_all(&store).remove(0);
    let quarantine = store.repairs().quarantine().unwrap();
    // A repair whose id starts with the id of the other.
    let (one, other) = (quarantine.join(&kept.id), format!("{}-2", kept.id));
    fs::create_dir(quarantine.join(&other)).unwrap();
    for name in ["manifest.json", "removed.jsonl"] {
        fs::copy(one.join(name), quarantine.join(&other).join(name)).unwrap();
    }
    assert_eq!(ids(&store.repairs().find(&kept.id).unwrap()), [&kept.id]);
    assert_eq!(ids(&store.repairs().find(&other).unwrap()), [&other]);
    assert_eq!(store.repairs().find(SESSION).unwrap().len(), 2);
}
