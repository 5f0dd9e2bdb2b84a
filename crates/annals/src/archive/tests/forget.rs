//! Packs that are removed for good, set aside, or only counted.

use super::*;
use crate::archive::keep::known_damaged;
use crate::archive::verify::Verified;

/// A pack where an archive has it, with its log and todos still in their root.
fn archived() -> (Desk, Archive) {
    let mut desk = Desk::new();
    desk.pack.set_file_name("8c549c46-16ca.0000.pack");
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[1]");
    desk.store();
    let archive = Archive::open(&desk.dir.path().join("state"));
    (desk, archive)
}

fn only(archive: &Archive, id: &str) -> Forgotten {
    let mut plans = archive.forgetting(id, None).unwrap();
    assert_eq!(plans.len(), 1, "{id}");
    plans.remove(0)
}

#[test]
fn what_would_be_forgotten_is_told_and_then_gone() {
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
    archive.forget(&plan).unwrap();
    assert!(!desk.pack.exists() && !desk.pack.parent().unwrap().exists());
    assert!(archive.forget(&plan).is_err());
    let error = archive.forgetting("8c54", None).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[test]
fn a_pack_that_changed_since_it_was_looked_at_is_not_forgotten() {
    let (desk, archive) = archived();
    let plan = only(&archive, "8c54");
    desk.add(LOG, "{}\n");
    desk.store();
    let refused = archive.forget(&plan).unwrap_err();
    assert!(matches!(refused, Error::Changed { .. }), "{refused}");
    assert!(desk.pack.exists());
}

#[test]
fn a_pack_that_became_the_only_copy_since_it_was_looked_at_is_not_forgotten() {
    let (desk, archive) = archived();
    let plan = only(&archive, "8c54");
    assert_eq!(plan.only, 0);
    fs::remove_file(desk.root.join(LOG)).unwrap();
    let refused = archive.forget(&plan).unwrap_err();
    assert!(
        refused.to_string().contains("the only copy of a file"),
        "{refused}"
    );
    assert!(desk.pack.exists());
}

#[test]
fn only_packs_of_the_archive_are_forgotten() {
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
        assert!(archive.forget(&plan).is_err(), "{other:?}");
        assert!(archive.forgetting(other.to_str().unwrap(), None).is_err());
        assert!(other.exists());
    }
}

#[test]
fn a_pack_that_cannot_be_read_is_forgotten_by_its_name_and_what_was_set_aside_with_it() {
    let (desk, archive) = archived();
    fs::write(&desk.pack, "nothing").unwrap();
    let plan = only(&archive, "8c54");
    assert!(plan.damaged.is_some() && plan.sessions.is_empty());
    assert!(archive.forgetting("9999", None).is_err());
    let aside = desk.store().set_aside.unwrap().path;
    let plans = archive.forgetting("8c54", None).unwrap();
    let packs: Vec<&PathBuf> = plans.iter().map(|plan| &plan.pack).collect();
    assert_eq!(packs, [&desk.pack, &aside]);
    fs::remove_file(&desk.pack).unwrap();
    let plan = only(&archive, "8c54");
    assert_eq!(plan.pack, aside);
    archive.forget(&plan).unwrap();
    assert!(!aside.exists());
}

#[test]
fn a_beginning_that_two_packs_have_forgets_neither() {
    let (desk, archive) = archived();
    fs::write(desk.pack.with_file_name("8c549c46-zz.0000.pack"), "x").unwrap();
    fs::write(&desk.pack, "nothing").unwrap();
    assert!(archive.forgetting("8c549c46", None).is_err());
    assert_eq!(only(&archive, "8c549c46-z").packed, 1);
}

#[test]
fn a_root_has_a_session_whose_pack_is_there() {
    let archive = Archive::open(tempfile::tempdir().unwrap().path());
    let root = Root::new("claude-code", "/home/me/.claude").unwrap();
    let has = |session: &str| archive.has("claude-code", &root.path, session);
    assert!(!has("abc"));
    let pack = archive.path_of(&root, "abc", Some("-app"));
    fs::create_dir_all(pack.parent().unwrap()).unwrap();
    fs::write(pack, "").unwrap();
    assert!(has("abc") && !has("ab") && !has("abcd"));
    assert!(!archive.has("claude-code", Path::new("/home/me/other"), "abc"));
    assert!(!archive.has("no-layout", &root.path, "abc"));
    fs::remove_dir_all(archive.dir()).unwrap();
}

#[test]
fn packs_that_were_set_aside_are_known_by_their_session() {
    let is = |name: &str, id: &str| is_aside_of(Path::new(name), id);
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
fn packs_that_are_lost_within_a_second_are_counted() {
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
    assert_eq!(archive.paths().unwrap(), [desk.pack]);
}

#[test]
fn what_is_read_back_of_several_packs_is_added_up() {
    let (desk, _) = archived();
    let (other, _) = archived();
    let mut verified = Verified::default();
    verified.look(&desk.pack);
    let one = verified.clone();
    assert_eq!((one.packs, one.files, one.damaged.len()), (1, 2, 0));
    verified.look(&other.pack);
    let mut added = one.clone();
    added.add(one.clone());
    for both in [verified, added] {
        assert_eq!((both.packs, both.files, both.bytes), (2, 4, 2 * one.bytes));
    }
}

#[test]
fn damaged_packs_are_noted_until_they_are_found_sound() {
    let (desk, archive) = archived();
    assert!(known_damaged(&archive).is_empty());
    let mut verified = Verified::default();
    fs::write(&desk.pack, "nothing").unwrap();
    verified.look(&desk.pack);
    assert_eq!(verified.damaged.len(), 1);
    let looked = [desk.pack.clone()];
    archive
        .note_damaged(&looked, &verified.damaged, now())
        .unwrap();
    assert_eq!(
        known_damaged(&archive).into_iter().collect::<Vec<_>>(),
        looked
    );
    // Who looked at others leaves it.
    archive.note_damaged(&[], &[], now()).unwrap();
    assert_eq!(known_damaged(&archive).len(), 1);
    archive.note_damaged(&looked, &[], now()).unwrap();
    assert!(known_damaged(&archive).is_empty());
}

#[test]
fn a_log_outside_of_any_tree_is_not_added_to_the_pack_of_a_tree() {
    let (desk, _) = archived();
    let mut contents = desk.contents();
    contents.lone = true;
    let refused = store(&desk.pack, &contents, now()).unwrap_err();
    assert!(
        refused.to_string().contains("holds sessions of"),
        "{refused}"
    );
}

#[test]
fn what_registers_said_of_logs_that_are_gone_is_kept() {
    let (desk, _) = archived();
    let row = |path: &str, text: &str| Row {
        path: path.into(),
        text: text.to_owned(),
    };
    let mut contents = desk.contents();
    contents.rows = vec![row(LOG, "one"), row("projects/-app/gone.jsonl", "two")];
    store(&desk.pack, &contents, now()).unwrap();
    contents.rows = vec![row(LOG, "three")];
    desk.add(LOG, "{}\n");
    store(&desk.pack, &contents, now()).unwrap();
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
fn an_earlier_version_stands_in_for_the_newest() {
    let (desk, _) = archived();
    desk.put(TODOS, "[1,2]");
    desk.store();
    desk.put(TODOS, "[1,2,3]");
    let pack = desk.store().pack;
    let todos = |pack: &Pack| all(pack, pack.member(Path::new(TODOS)).unwrap());
    assert_eq!(pack.earlier().len(), 2);
    assert_eq!(todos(&pack), b"[1,2,3]");
    assert_eq!(todos(&pack.with_earlier(1).unwrap()), b"[1]");
    let second = pack.with_earlier(2).unwrap();
    assert_eq!(todos(&second), b"[1,2]");
    assert_eq!(second.members().len(), 2);
    assert!(all(&second, second.member(Path::new(LOG)).unwrap()) == lines(1, 3_000));
    assert!(pack.with_earlier(0).is_none() && pack.with_earlier(3).is_none());
}
