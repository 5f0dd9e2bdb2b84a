//! Packs that are removed, set aside or recorded as damaged.

use super::*;
use crate::archive::archive_all::known_damaged;
use crate::archive::verify::VerifyReport;
use annals_jsonl::Error as FileError;

/// A pack in an archive, with its log and todos still in their root.
fn archived() -> (Fixture, Archive) {
    let mut desk = Fixture::new();
    desk.pack.set_file_name("8c549c46-16ca.0000.pack");
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[1]");
    desk.store();
    let archive = Archive::open(&desk.dir.path().join("state"));
    (desk, archive)
}

fn only(archive: &Archive, id: &str) -> PackRemoval {
    let mut plans = archive.plan_removal(id, None).unwrap();
    assert_eq!(plans.len(), 1, "{id}");
    plans.remove(0)
}

#[test]
fn plan_removal_describes_pack_and_remove_pack_deletes_it() {
    let (desk, archive) = archived();
    let error = archive.find("9999").unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    let plan = only(&archive, "8c54");
    assert_eq!(plan.pack, desk.pack);
    assert_eq!((plan.files, plan.only, plan.earlier), (2, 0, 0));
    assert_eq!(
        plan.bytes,
        fs::metadata(desk.root.join(LOG)).unwrap().len() + 3
    );
    assert_eq!(plan.packed, fs::metadata(&desk.pack).unwrap().len());
    assert_eq!(plan.sessions, ["8c549c46-16ca-47dd-b731-f4c264becc53"]);
    fs::remove_file(desk.root.join(LOG)).unwrap();
    let plan = only(&archive, desk.pack.to_str().unwrap());
    assert_eq!(plan.only, 1);
    archive.remove_pack(&plan).unwrap();
    assert!(!desk.pack.exists() && !desk.pack.parent().unwrap().exists());
    assert!(archive.remove_pack(&plan).is_err());
    let error = archive.plan_removal("8c54", None).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[test]
fn remove_pack_refuses_a_pack_changed_since_the_plan() {
    let (desk, archive) = archived();
    let plan = only(&archive, "8c54");
    desk.add(LOG, "{}\n");
    desk.store();
    let refused = archive.remove_pack(&plan).unwrap_err();
    assert!(
        matches!(refused, Error::File(FileError::Changed { .. })),
        "{refused}"
    );
    assert!(desk.pack.exists());
}

#[test]
fn remove_pack_refuses_a_pack_that_became_the_only_copy() {
    let (desk, archive) = archived();
    let plan = only(&archive, "8c54");
    assert_eq!(plan.only, 0);
    fs::remove_file(desk.root.join(LOG)).unwrap();
    let refused = archive.remove_pack(&plan).unwrap_err();
    assert!(
        refused.to_string().contains("the only copy of a file"),
        "{refused}"
    );
    assert!(desk.pack.exists());
}

#[test]
fn remove_pack_refuses_files_outside_the_archive() {
    let (desk, archive) = archived();
    let elsewhere = desk.dir.path().join("elsewhere.pack");
    fs::copy(&desk.pack, &elsewhere).unwrap();
    let beside = desk.pack.with_file_name("notes.txt");
    fs::write(&beside, "mine").unwrap();
    let link = desk.pack.with_file_name("link.pack");
    std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
    let mut plan = only(&archive, "8c54");
    for other in [&elsewhere, &beside, &link] {
        plan.pack.clone_from(other);
        assert!(archive.remove_pack(&plan).is_err(), "{other:?}");
        assert!(archive.plan_removal(other.to_str().unwrap(), None).is_err());
        assert!(other.exists());
    }
}

#[test]
fn unreadable_and_set_aside_packs_are_removable_by_id() {
    let (desk, archive) = archived();
    fs::write(&desk.pack, "nothing").unwrap();
    let plan = only(&archive, "8c54");
    assert!(plan.damaged.is_some() && plan.sessions.is_empty());
    assert!(archive.plan_removal("9999", None).is_err());
    let aside = desk.store().set_aside.unwrap().path;
    let plans = archive.plan_removal("8c54", None).unwrap();
    let packs: Vec<&PathBuf> = plans.iter().map(|plan| &plan.pack).collect();
    assert_eq!(packs, [&desk.pack, &aside]);
    fs::remove_file(&desk.pack).unwrap();
    let plan = only(&archive, "8c54");
    assert_eq!(plan.pack, aside);
    archive.remove_pack(&plan).unwrap();
    assert!(!aside.exists());
}

#[test]
fn plan_removal_refuses_an_ambiguous_prefix() {
    let (desk, archive) = archived();
    fs::write(desk.pack.with_file_name("8c549c46-zz.0000.pack"), "x").unwrap();
    fs::write(&desk.pack, "nothing").unwrap();
    assert!(archive.plan_removal("8c549c46", None).is_err());
    assert_eq!(only(&archive, "8c549c46-z").packed, 1);
}

#[test]
fn has_session_is_true_only_for_existing_pack() {
    let archive = Archive::open(tempfile::tempdir().unwrap().path());
    let root = Root::new("claude-code", "/home/me/.claude").unwrap();
    let has = |session: &str| archive.has_session("claude-code", &root.path, session);
    assert!(!has("abc"));
    let pack = archive.pack_path(&root, "abc", Some("-app"));
    fs::create_dir_all(pack.parent().unwrap()).unwrap();
    fs::write(pack, "").unwrap();
    assert!(has("abc") && !has("ab") && !has("abcd"));
    assert!(!archive.has_session("claude-code", Path::new("/home/me/other"), "abc"));
    assert!(!archive.has_session("no-layout", &root.path, "abc"));
    fs::remove_dir_all(archive.dir()).unwrap();
}

#[test]
fn set_aside_pack_name_matches_its_session_id() {
    let is = |name: &str, id: &str| is_set_aside_pack_of(Path::new(name), id);
    let first = "/a/.damaged-20260101T000000Z-8c549c46-16ca.0000.pack";
    let second = "/a/.damaged-20260101T000000Z-2-8c549c46-16ca.0000.pack";
    let digits = "/a/.damaged-20260101T000000Z-12345678-16ca.0000.pack";
    for name in [first, second] {
        assert!(is(name, "8c54") && is(name, "8c549c46-16ca"), "{name}");
        assert!(!is(name, "") && !is(name, "16ca") && !is(name, "2026"));
    }
    assert!(is(digits, "1234") && !is(digits, "16ca"));
    assert!(!is("/a/8c549c46-16ca.0000.pack", "8c54"));
    assert!(!is("/a/.damaged-", "8c54") && !is("/a/.damaged-x", "x"));
}

#[test]
fn set_aside_names_are_numbered_within_one_second() {
    let (desk, archive) = archived();
    let aside = || {
        fs::write(&desk.pack, "nothing").unwrap();
        let path = desk.store().set_aside.unwrap().path;
        path.file_name().unwrap().to_str().unwrap().to_owned()
    };
    let names = [aside(), aside(), aside()];
    let day = "20261115T120000Z";
    let wanted =
        ["", "-2", "-3"].map(|copy| format!(".damaged-{day}{copy}-8c549c46-16ca.0000.pack"));
    assert_eq!(names, wanted);
    assert_eq!(archive.set_aside_in(None).unwrap().len(), 3);
    assert_eq!(archive.pack_paths().unwrap(), [desk.pack]);
}

#[test]
fn verify_report_adds_up_several_packs() {
    let (desk, _) = archived();
    let (other, _) = archived();
    let mut verified = VerifyReport::default();
    verified.verify_pack(&desk.pack);
    let one = verified.clone();
    assert_eq!((one.packs, one.files, one.damaged.len()), (1, 2, 0));
    verified.verify_pack(&other.pack);
    let mut added = one.clone();
    added.add(one.clone());
    for both in [verified, added] {
        assert_eq!((both.packs, both.files, both.bytes), (2, 4, 2 * one.bytes));
    }
}

#[test]
fn damaged_packs_stay_recorded_until_verified_intact() {
    let (desk, archive) = archived();
    assert!(known_damaged(&archive).is_empty());
    let mut verified = VerifyReport::default();
    fs::write(&desk.pack, "nothing").unwrap();
    verified.verify_pack(&desk.pack);
    assert_eq!(verified.damaged.len(), 1);
    let looked = [desk.pack.clone()];
    archive
        .record_damaged(&looked, &verified.damaged, now())
        .unwrap();
    assert_eq!(
        known_damaged(&archive).into_iter().collect::<Vec<_>>(),
        looked
    );
    // Verifying other packs does not clear the record.
    archive.record_damaged(&[], &[], now()).unwrap();
    assert_eq!(known_damaged(&archive).len(), 1);
    archive.record_damaged(&looked, &[], now()).unwrap();
    assert!(known_damaged(&archive).is_empty());
}

#[test]
fn update_refuses_lone_log_into_pack_of_a_root() {
    let (desk, _) = archived();
    let mut contents = desk.contents();
    contents.lone = true;
    let refused = update_pack(&desk.pack, &contents, now()).unwrap_err();
    assert!(refused.to_string().contains("has sessions of"), "{refused}");
}

#[test]
fn list_rows_of_removed_logs_stay_in_the_pack() {
    let (desk, _) = archived();
    let row = |path: &str, text: &str| PackedListRow {
        path: path.into(),
        text: text.to_owned(),
    };
    let mut contents = desk.contents();
    contents.rows = vec![row(LOG, "one"), row("projects/-app/gone.jsonl", "two")];
    update_pack(&desk.pack, &contents, now()).unwrap();
    contents.rows = vec![row(LOG, "three")];
    desk.add(LOG, "{}\n");
    update_pack(&desk.pack, &contents, now()).unwrap();
    let pack = Pack::open(&desk.pack).unwrap();
    let texts: Vec<&str> = pack
        .index
        .rows
        .iter()
        .map(|row| row.text.as_str())
        .collect();
    assert_eq!(texts, ["three", "two"]);
}

#[test]
fn with_earlier_version_replaces_the_newest() {
    let (desk, _) = archived();
    desk.put(TODOS, "[1,2]");
    desk.store();
    desk.put(TODOS, "[1,2,3]");
    let pack = desk.store().pack;
    let todos = |pack: &Pack| all(pack, pack.member(Path::new(TODOS)).unwrap());
    assert_eq!(pack.earlier_versions().len(), 2);
    assert_eq!(todos(&pack), b"[1,2,3]");
    assert_eq!(todos(&pack.with_earlier_version(1).unwrap()), b"[1]");
    let second = pack.with_earlier_version(2).unwrap();
    assert_eq!(todos(&second), b"[1,2]");
    assert_eq!(second.members().len(), 2);
    assert!(all(&second, second.member(Path::new(LOG)).unwrap()) == lines(1, 3_000));
    assert!(pack.with_earlier_version(0).is_none() && pack.with_earlier_version(3).is_none());
}
