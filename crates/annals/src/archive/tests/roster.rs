//! The roster: what it tells of packs, and when it tells nothing.

use std::collections::HashSet;

use super::super::roster::{self, Roster, is_beside, number};
use super::*;
use crate::model::ArtifactKind;

const AGENT: &str = "projects/-app/8c549c46-16ca-47dd-b731-f4c264becc53/subagents/agent-a1.jsonl";

/// A pack of a log and todos, the directory it lies in, and no roster yet.
fn desk() -> (Desk, PathBuf) {
    let desk = Desk::new();
    desk.put(LOG, "{}\n");
    desk.put(TODOS, "[]");
    desk.put(AGENT, "{}\n");
    desk.store();
    let dir = desk.pack.parent().unwrap().to_owned();
    assert!(!dir.join("members").exists());
    (desk, dir)
}

fn store_agent(desk: &Desk) {
    let mut contents = desk.contents();
    contents.files.push((AGENT.into(), true));
    store(&desk.pack, &contents, now()).unwrap();
}

/// The packs that hold a file which is not there.
fn lacking(dir: &Path, there: &[&str], logs: bool) -> Vec<String> {
    let there: HashSet<u64> = there.iter().map(|path| number(Path::new(path))).collect();
    let roster = Roster::read(dir).unwrap();
    let names = roster.lacking(&there, logs);
    names.map(|it| it.to_str().unwrap().to_owned()).collect()
}

fn text(dir: &Path) -> String {
    fs::read_to_string(dir.join("members")).unwrap()
}

/// They are written down.
#[test]
fn the_numbers_of_paths_never_change() {
    for (path, told) in [
        ("", 0xdcbf_4fc0_d27e_c553),
        ("a", 0x37a7_a9fa_f743_a61d),
        ("projects", 0x7388_1b6b_0fad_1532),
        (TODOS, 0xaa40_4667_01db_fb20),
    ] {
        assert_eq!(number(Path::new(path)), told, "{path}");
    }
}

#[test]
fn what_programs_delete_by_themselves_is_told_of() {
    for kind in [
        ArtifactKind::AgentLog,
        ArtifactKind::AgentMeta,
        ArtifactKind::ToolResult,
        ArtifactKind::FileVersion,
        ArtifactKind::Todos,
    ] {
        assert!(is_beside(kind), "{kind:?}");
    }
    for kind in [ArtifactKind::SessionLog, ArtifactKind::History] {
        assert!(!is_beside(kind), "{kind:?}");
    }
}

#[test]
fn a_pack_is_told_of_where_it_holds_what_is_not_there() {
    let (desk, dir) = desk();
    roster::update(&dir, false).unwrap();
    assert_eq!(text(&dir).lines().count(), 3);
    assert_eq!(lacking(&dir, &[], false), ["s.pack"]);
    assert_eq!(lacking(&dir, &[TODOS], false), [""; 0]);
    // Todos are no log.
    assert_eq!(lacking(&dir, &[], true), [""; 0]);
    // What is added to the pack is added there, and no more than that.
    store_agent(&desk);
    assert_eq!(text(&dir).lines().count(), 4);
    assert_eq!(lacking(&dir, &[TODOS], true), ["s.pack"]);
    assert_eq!(lacking(&dir, &[TODOS, AGENT], false), [""; 0]);
    let told = text(&dir);
    desk.add(LOG, "{}\n");
    store_agent(&desk);
    assert_eq!(text(&dir), told);
    // So is a new pack.
    store(&desk.pack.with_file_name("t.pack"), &desk.contents(), now()).unwrap();
    assert_eq!(text(&dir).lines().count(), 5);
    assert_eq!(lacking(&dir, &[AGENT], false), ["s.pack", "t.pack"]);
    let told = text(&dir);
    for all in [false, true] {
        roster::update(&dir, all).unwrap();
        assert_eq!(text(&dir), told, "{all}");
    }
}

#[test]
fn what_an_older_program_added_is_told_of_when_all_is_looked_at() {
    let (desk, dir) = desk();
    roster::update(&dir, false).unwrap();
    let before = text(&dir);
    store_agent(&desk);
    fs::write(dir.join("members"), &before).unwrap();
    roster::update(&dir, false).unwrap();
    assert_eq!(text(&dir), before);
    roster::update(&dir, true).unwrap();
    let after = text(&dir);
    assert_eq!(after.lines().count(), before.lines().count() + 1);
    // Todos were known.
    assert!(!after.lines().last().unwrap().contains(" b"));
    assert_eq!(lacking(&dir, &[TODOS], true), ["s.pack"]);
}

#[test]
fn a_roster_that_is_damaged_or_not_finished_is_none_and_made_anew() {
    let (_desk, dir) = desk();
    roster::update(&dir, false).unwrap();
    let whole = text(&dir);
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let path = dir.join("members");
    for broken in [
        String::new(),
        // Without its first line, a line of a pack, or its end.
        lines[1..].concat(),
        lines[..2].concat(),
        whole.replacen("s.pack", "t.pack", 1),
        whole.replacen('1', "2", 1),
    ] {
        fs::write(&path, &broken).unwrap();
        assert!(Roster::read(&dir).is_none(), "{broken}");
        roster::update(&dir, false).unwrap();
        assert_eq!(text(&dir), whole);
    }
    // A line without an end is being written.
    fs::write(&path, format!("{whole}t.pa")).unwrap();
    assert_eq!(lacking(&dir, &[], false), ["s.pack"]);
}

#[test]
fn what_is_in_the_place_of_a_roster_is_told_or_cleared_away() {
    let (desk, dir) = desk();
    let path = dir.join("members");
    std::os::unix::fs::symlink("elsewhere", &path).unwrap();
    roster::update(&dir, false).unwrap();
    let whole = text(&dir);
    // What is behind a link is not ours, whatever it says.
    fs::write(dir.join("elsewhere"), whole).unwrap();
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("elsewhere", &path).unwrap();
    assert!(Roster::read(&dir).is_none());
    store_agent(&desk);
    roster::update(&dir, false).unwrap();
    assert!(path.symlink_metadata().unwrap().is_file());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(Roster::read(&dir).is_none());
    match roster::update(&dir, false) {
        Err(Error::Io { action, .. }) => assert_eq!(action, "remove"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_roster_is_there_as_long_as_a_pack_is() {
    let (desk, dir) = desk();
    let empty = desk.dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    roster::update(&empty, false).unwrap();
    roster::update(&empty, true).unwrap();
    assert!(!empty.join("members").exists());
    roster::update(&dir, false).unwrap();
    assert!(dir.join("members").exists());
    for _ in 0..2 {
        // One that is gone already is no error.
        roster::remove(&dir).unwrap();
        assert!(!dir.join("members").exists());
    }
}

#[test]
fn a_log_outside_of_any_tree_has_nothing_beside_it() {
    let desk = Desk::new();
    desk.put("mine.jsonl", "{}\n");
    let mut contents = desk.contents();
    contents.lone = true;
    contents.files = vec![("mine.jsonl".into(), true)];
    store(&desk.pack, &contents, now()).unwrap();
    let dir = desk.pack.parent().unwrap();
    roster::update(dir, false).unwrap();
    assert_eq!(text(dir).lines().count(), 2);
}
