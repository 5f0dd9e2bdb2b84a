//! The member list: its contents, and when it is invalid.

use std::collections::HashSet;

use super::super::member_list::{self, MemberList, is_attachment, path_hash};
use super::*;
use annals_jsonl::Error as FileError;
use annals_layouts::model::ArtifactKind;

const AGENT: &str = "projects/-app/8c549c46-16ca-47dd-b731-f4c264becc53/subagents/agent-a1.jsonl";

/// A pack of a log and todos, and its directory, without a member list.
fn desk() -> (Fixture, PathBuf) {
    let desk = Fixture::new();
    desk.put(LOG, "{}\n");
    desk.put(TODOS, "[]");
    desk.put(AGENT, "{}\n");
    desk.store();
    let dir = desk.pack.parent().unwrap().to_owned();
    assert!(!dir.join("members").exists());
    (desk, dir)
}

fn store_agent(desk: &Fixture) {
    let mut contents = desk.contents();
    contents.files.push((AGENT.into(), true));
    update_pack(&desk.pack, &contents, now()).unwrap();
}

/// Returns the packs that hold a file which is not in `there`.
fn lacking(dir: &Path, there: &[&str], logs: bool) -> Vec<String> {
    let there: HashSet<u64> = there
        .iter()
        .map(|path| path_hash(Path::new(path)))
        .collect();
    let roster = MemberList::read(dir).unwrap();
    let names = roster.packs_with_missing_files(&there, logs);
    names.map(|it| it.to_str().unwrap().to_owned()).collect()
}

fn text(dir: &Path) -> String {
    fs::read_to_string(dir.join("members")).unwrap()
}

/// The hashes are stored on disk.
#[test]
fn path_hash_is_stable() {
    for (path, written) in [
        ("", 0xdcbf_4fc0_d27e_c553),
        ("a", 0x37a7_a9fa_f743_a61d),
        ("projects", 0x7388_1b6b_0fad_1532),
        (TODOS, 0xaa40_4667_01db_fb20),
    ] {
        assert_eq!(path_hash(Path::new(path)), written, "{path}");
    }
}

#[test]
fn is_attachment_covers_files_that_programs_delete() {
    for kind in [
        ArtifactKind::AgentLog,
        ArtifactKind::AgentMeta,
        ArtifactKind::ToolResult,
        ArtifactKind::FileVersion,
        ArtifactKind::Todos,
    ] {
        assert!(is_attachment(kind), "{kind:?}");
    }
    for kind in [ArtifactKind::SessionLog, ArtifactKind::History] {
        assert!(!is_attachment(kind), "{kind:?}");
    }
}

#[test]
fn member_list_names_packs_with_missing_files() {
    let (desk, dir) = desk();
    member_list::update(&dir, false).unwrap();
    assert_eq!(text(&dir).lines().count(), 3);
    assert_eq!(lacking(&dir, &[], false), ["s.pack"]);
    assert_eq!(lacking(&dir, &[TODOS], false), [""; 0]);
    // Todos are not a log.
    assert_eq!(lacking(&dir, &[], true), [""; 0]);
    // Files added to the pack are added to the list, and nothing else.
    store_agent(&desk);
    assert_eq!(text(&dir).lines().count(), 4);
    assert_eq!(lacking(&dir, &[TODOS], true), ["s.pack"]);
    assert_eq!(lacking(&dir, &[TODOS, AGENT], false), [""; 0]);
    let written = text(&dir);
    desk.add(LOG, "{}\n");
    store_agent(&desk);
    assert_eq!(text(&dir), written);
    // A new pack is added too.
    update_pack(&desk.pack.with_file_name("t.pack"), &desk.contents(), now()).unwrap();
    assert_eq!(text(&dir).lines().count(), 5);
    assert_eq!(lacking(&dir, &[AGENT], false), ["s.pack", "t.pack"]);
    let written = text(&dir);
    for all in [false, true] {
        member_list::update(&dir, all).unwrap();
        assert_eq!(text(&dir), written, "{all}");
    }
}

#[test]
fn full_update_adds_unrecorded_members() {
    let (desk, dir) = desk();
    member_list::update(&dir, false).unwrap();
    let before = text(&dir);
    store_agent(&desk);
    fs::write(dir.join("members"), &before).unwrap();
    member_list::update(&dir, false).unwrap();
    assert_eq!(text(&dir), before);
    member_list::update(&dir, true).unwrap();
    let after = text(&dir);
    assert_eq!(after.lines().count(), before.lines().count() + 1);
    // Todos were listed already.
    assert!(!after.lines().last().unwrap().contains(" b"));
    assert_eq!(lacking(&dir, &[TODOS], true), ["s.pack"]);
}

#[test]
fn damaged_or_incomplete_member_list_is_rebuilt() {
    let (_desk, dir) = desk();
    member_list::update(&dir, false).unwrap();
    let whole = text(&dir);
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let path = dir.join("members");
    for broken in [
        String::new(),
        // Without the first line, without the last line, and with a damaged line.
        lines[1..].concat(),
        lines[..2].concat(),
        whole.replacen("s.pack", "t.pack", 1),
        whole.replacen('1', "2", 1),
    ] {
        fs::write(&path, &broken).unwrap();
        assert!(MemberList::read(&dir).is_none(), "{broken}");
        member_list::update(&dir, false).unwrap();
        assert_eq!(text(&dir), whole);
    }
    // A line without a newline is still being written.
    fs::write(&path, format!("{whole}t.pa")).unwrap();
    assert_eq!(lacking(&dir, &[], false), ["s.pack"]);
}

#[test]
fn member_list_replaces_links_and_reports_directories() {
    let (desk, dir) = desk();
    let path = dir.join("members");
    std::os::unix::fs::symlink("elsewhere", &path).unwrap();
    member_list::update(&dir, false).unwrap();
    let whole = text(&dir);
    // The target of a symbolic link is not trusted, whatever it contains.
    fs::write(dir.join("elsewhere"), whole).unwrap();
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("elsewhere", &path).unwrap();
    assert!(MemberList::read(&dir).is_none());
    store_agent(&desk);
    member_list::update(&dir, false).unwrap();
    assert!(path.symlink_metadata().unwrap().is_file());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(MemberList::read(&dir).is_none());
    match member_list::update(&dir, false) {
        Err(Error::File(FileError::Io { action, .. })) => assert_eq!(action, "remove"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn member_list_exists_only_while_packs_do() {
    let (desk, dir) = desk();
    let empty = desk.dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    member_list::update(&empty, false).unwrap();
    member_list::update(&empty, true).unwrap();
    assert!(!empty.join("members").exists());
    member_list::update(&dir, false).unwrap();
    assert!(dir.join("members").exists());
    for _ in 0..2 {
        // A list that does not exist is no error.
        member_list::remove(&dir).unwrap();
        assert!(!dir.join("members").exists());
    }
}

#[test]
fn lone_log_has_no_recorded_members() {
    let desk = Fixture::new();
    desk.put("mine.jsonl", "{}\n");
    let mut contents = desk.contents();
    contents.lone = true;
    contents.files = vec![("mine.jsonl".into(), true)];
    update_pack(&desk.pack, &contents, now()).unwrap();
    let dir = desk.pack.parent().unwrap();
    member_list::update(dir, false).unwrap();
    assert_eq!(text(dir).lines().count(), 2);
}
