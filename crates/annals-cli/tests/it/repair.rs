//! Tests of `repair`.

use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;

use crate::harness::Stage;

fn log(stage: &Stage) -> PathBuf {
    let project = fs::read_dir(stage.root.join("projects")).unwrap().next();
    let files = fs::read_dir(project.unwrap().unwrap().path()).unwrap();
    let mut logs = files.map(|file| file.unwrap().path());
    logs.find(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .unwrap()
}

/// The originals in the undo vault.
fn originals(stage: &Stage) -> Vec<PathBuf> {
    let vault = stage.root.with_file_name("state").join("undo");
    let is_original = |path: &PathBuf| {
        let within = path.strip_prefix(&vault);
        within.is_ok_and(|within| {
            within
                .components()
                .nth(1)
                .is_some_and(|it| it.as_os_str() == "files")
        })
    };
    stage.tree().into_keys().filter(is_original).collect()
}

/// Masks repair ids and column widths, which depend on the temporary path.
fn steady() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"-[0-9a-f]{12}\b", "-[sum]");
    settings.add_filter(" {2,}", "  ");
    settings.bind_to_scope()
}

#[test]
fn repair_plan_changes_nothing_and_repair_can_be_undone() {
    let _steady = steady();
    let stage = Stage::with_fixture("corrupt-parent");
    let before = stage.tree();
    assert_snapshot!("repair_plan", stage.annals(&["repair"]));
    assert_snapshot!("repair_plan_json", stage.annals(&["repair", "--json"]));
    assert!(stage.tree() == before);
    assert_eq!(stage.annals(&["repair", "--list"]).code, 1);
    let bytes = fs::read(log(&stage)).unwrap();
    assert_snapshot!("repair_apply", stage.annals(&["repair", "--apply"]));
    assert!(fs::read(log(&stage)).unwrap() != bytes);
    assert_snapshot!("repair_again", stage.annals(&["repair", "--apply"]));
    let check = stage.annals(&["check", "--json"]).json();
    assert_eq!(check["corrupt_lines"], 0);
    assert_snapshot!("repair_list", stage.annals(&["repair", "--list"]));
    assert_snapshot!(
        "repair_undo",
        stage.annals(&["repair", "--undo", "9682866b"])
    );
    assert_eq!(fs::read(log(&stage)).unwrap(), bytes);
    assert_eq!(stage.annals(&["repair", "--list"]).code, 1);
    assert_snapshot!(
        "repair_undo_unknown",
        stage.refused(&["repair", "--undo", "9682866b"], "")
    );
}

#[test]
fn repair_of_one_session_or_file_and_forget() {
    let _steady = steady();
    let stage = Stage::with_fixture("glued-records");
    let path = log(&stage);
    let plan = stage
        .annals(&["repair", path.to_str().unwrap(), "--json"])
        .json();
    let steps = &plan["files"][0]["steps"];
    assert_eq!(steps[0]["action"], "split");
    assert_eq!(plan["files"][0]["repair"], serde_json::Value::Null);
    let done = stage
        .annals(&["repair", "29cb07e7", "--apply", "--json"])
        .json();
    assert_eq!(done["applied"], true);
    let reported = done["files"][0]["original"].as_str().unwrap();
    let original = originals(&stage).remove(0);
    assert!(
        original.exists() && reported.contains("/state/undo/"),
        "{reported}"
    );
    assert!(
        reported.contains("/files/projects/-home-dev-work-glued-records/"),
        "{reported}"
    );
    assert_snapshot!(
        "repair_forget_plan",
        stage.annals(&["repair", "--forget", "29cb07e7"])
    );
    assert_eq!(originals(&stage).len(), 1);
    assert_snapshot!(
        "repair_forget",
        stage.annals(&["repair", "--forget", "29cb07e7", "--apply"])
    );
    assert!(originals(&stage).is_empty());
    assert_snapshot!(
        "repair_forget_all",
        stage.annals(&["repair", "--forget", "--all", "--apply"])
    );
    assert_snapshot!(
        "repair_forget_what",
        stage.refused(&["repair", "--forget"], "")
    );
}

#[test]
fn recent_torn_tail_is_reported_only_when_named() {
    let stage = Stage::with_fixture("torn-tail");
    let old = stage.annals(&["repair", "--json"]).json();
    assert_eq!(old["files"][0]["steps"][0]["action"], "drop");
    // 15 minutes before the fixed clock of the stage.
    let fresh = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_794_742_800 + 45 * 60);
    let file = fs::File::options().append(true).open(log(&stage)).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(fresh))
        .unwrap();
    assert_snapshot!("repair_torn_tail", stage.annals(&["repair"]));
    assert_snapshot!(
        "repair_torn_tail_named",
        stage.annals(&["repair", "e9c9c9f5"])
    );
}

#[test]
fn repair_lists_files_without_a_session() {
    let stage = Stage::with_fixture("subagents-without-session");
    assert_snapshot!("repair_strays", stage.annals(&["repair"]));
}

#[test]
fn repair_updates_session_list_after_its_logs() {
    let stage = Stage::with_fixture_of("chorus", "chorus-damage");
    stage.annals(&["repair", "--apply"]).fine();
    let again = stage.annals(&["repair", "--json"]).json();
    assert_eq!(again["indexes"].as_array().unwrap().len(), 0);
    let files = again["files"].as_array().unwrap();
    let steps = files
        .iter()
        .map(|file| file["steps"].as_array().unwrap().len());
    assert_eq!(steps.sum::<usize>(), 0);
}

#[test]
fn repair_rebuilds_a_missing_clog_header() {
    let stage = Stage::with_fixture_of("clog", "header-missing");
    stage.annals(&["repair", "--apply"]).fine();
    let check = stage.annals(&["check", "--json"]).json();
    let flaws = check["files"].as_array().unwrap().iter();
    let kinds: Vec<&serde_json::Value> = flaws
        .flat_map(|file| file["flaws"].as_array().unwrap())
        .map(|flaw| &flaw["kind"])
        .collect();
    assert!(!kinds.iter().any(|kind| *kind == "bad-header"), "{kinds:?}");
    stage.annals(&["repair", "--undo", "20"]).fine();
}

#[test]
fn failed_undo_reports_what_was_restored_first() {
    let stage = Stage::with_fixture("corrupt-parent");
    stage.annals(&["repair", "--apply"]).fine();
    // A second repair, after the repaired log was damaged again.
    let mut text = fs::read(log(&stage)).unwrap();
    text.extend(b"}{ no record\n");
    fs::write(log(&stage), &text).unwrap();
    stage.annals(&["repair", "--apply", "--live"]).fine();
    assert_eq!(originals(&stage).len(), 2);
    let run = stage.annals(&["repair", "--undo", "9682866b"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.out.contains("restored: 1 original"), "{run}");
    assert!(run.err.contains("1 of 2 originals were restored"), "{run}");
    assert_eq!(fs::read(log(&stage)).unwrap(), text);
    assert_eq!(originals(&stage).len(), 1);
}

#[test]
fn rebuilt_session_list_is_saved_and_restored_by_undo() {
    let stage = Stage::with_fixture_of("chorus", "chorus-damage");
    // A missing list is rebuilt, and there is no original to save.
    let first = stage.annals(&["repair", "--apply", "--json"]).json();
    assert_eq!(first["indexes"][0]["detail"], "missing");
    assert!(first["indexes"][0]["repair"].is_null());
    let index = stage.root.parent().unwrap().join(
        first["indexes"][0]["path"]
            .as_str()
            .unwrap()
            .trim_start_matches("[DIR]/"),
    );
    let mut cut = fs::read(&index).unwrap();
    cut.truncate(cut.len() - 20);
    fs::write(&index, &cut).unwrap();
    let before = stage.tree().len();
    let done = stage.annals(&["repair", "--apply", "--json"]).json();
    let id = done["indexes"][0]["repair"].as_str().unwrap().to_owned();
    assert_eq!(done["indexes"].as_array().unwrap().len(), 1);
    assert!(fs::read(&index).unwrap() != cut);
    // The folder in the vault has three files, and nothing else was written.
    assert_eq!(stage.tree().len(), before + 3);
    let kept = stage.root.with_file_name("state").join("undo").join(&id);
    assert!(
        fs::read(
            kept.join("files")
                .join(index.strip_prefix(&stage.root).unwrap())
        )
        .unwrap()
            == cut
    );
    stage.annals(&["repair", "--undo", &id]).fine();
    assert!(fs::read(&index).unwrap() == cut);
    assert_eq!(stage.tree().len(), before);
}

#[test]
fn undo_of_a_log_also_restores_its_session_list() {
    let stage = Stage::with_fixture_of("chorus", "chorus-damage");
    stage.annals(&["repair", "--apply"]).fine();
    stage
        .annals(&["repair", "--forget", "--all", "--apply"])
        .fine();
    let folder = stage.root.join("sessions/w-app/a-main");
    let log = folder.join("4d1f8420-1186-4428-8761-f2d2604c8d9c-messages.jsonl");
    let mut damaged = fs::read(&log).unwrap();
    damaged.extend(b"no record\n");
    fs::write(&log, &damaged).unwrap();
    let session_list = stage.tree().into_keys().find(|path| {
        path.starts_with(&stage.root)
            && path.parent() == log.parent()
            && path.extension().is_some_and(|it| it == "json")
    });
    let session_list = session_list.unwrap();
    let mut cut = fs::read(&session_list).unwrap();
    cut.truncate(cut.len() - 20);
    fs::write(&session_list, &cut).unwrap();
    stage.settle();
    let done = stage.annals(&["repair", "--apply", "--json"]).json();
    assert!(done["indexes"][0]["repair"].is_string(), "{done}");
    stage
        .annals(&["repair", "--undo", log.to_str().unwrap()])
        .fine();
    assert!(fs::read(&log).unwrap() == damaged);
    assert!(fs::read(&session_list).unwrap() == cut);
}

const MAIN: &str = "62b48925-3675-4ab0-8da7-631eb44263e2";

/// A Chorus log with a damaged session list, and another damaged list in another folder.
fn two_folders() -> (Stage, PathBuf, [PathBuf; 2]) {
    let stage = Stage::with_fixture_of("chorus", "chorus-index-wrong-shape");
    let agents = stage.root.join("sessions/w-app");
    let log = agents.join(format!("a-main/{MAIN}-messages.jsonl"));
    let indexes = ["a-main", "a-review"].map(|it| agents.join(it).join("conversations.json"));
    (stage, log, indexes)
}

fn add_bad_line(stage: &Stage, log: &Path) {
    let mut bytes = fs::read(log).unwrap();
    bytes.extend(b"no record\n");
    fs::write(log, bytes).unwrap();
    stage.settle();
}

#[test]
fn undo_of_one_session_list_leaves_another_restored_one() {
    let (stage, _, [main, review]) = two_folders();
    let before = stage.tree();
    stage.annals(&["repair", "--apply"]).fine();
    for index in [&review, &main] {
        stage
            .annals(&["repair", "--undo", index.to_str().unwrap()])
            .fine();
    }
    let within = |path: &&PathBuf| path.starts_with(&stage.root);
    let after = stage.tree();
    let names: Vec<&PathBuf> = after.keys().filter(within).collect();
    assert_eq!(names, before.keys().filter(within).collect::<Vec<_>>());
    assert!(names.iter().all(|path| after[*path] == before[*path]));
}

#[test]
fn undo_of_a_log_leaves_a_damaged_session_list_elsewhere() {
    let (stage, log, [main, review]) = two_folders();
    add_bad_line(&stage, &log);
    let files = [&log, &main, &review];
    let before = files.map(|path| fs::read(path).unwrap());
    stage.annals(&["repair", MAIN, "--apply"]).fine();
    assert!(fs::read(&log).unwrap() != before[0]);
    stage.annals(&["repair", "--undo", MAIN]).fine();
    assert!(files.map(|path| fs::read(path).unwrap()) == before);
}

#[test]
fn undo_of_a_log_leaves_a_repaired_session_list_elsewhere() {
    let (stage, log, [main, review]) = two_folders();
    add_bad_line(&stage, &log);
    let before = [&log, &main].map(|path| fs::read(path).unwrap());
    stage.annals(&["repair", "--apply"]).fine();
    let mended = fs::read(&review).unwrap();
    stage.annals(&["repair", "--undo", MAIN]).fine();
    assert!([&log, &main].map(|path| fs::read(path).unwrap()) == before);
    assert!(fs::read(&review).unwrap() == mended);
    assert_eq!(originals(&stage).len(), 1);
}

#[test]
fn repair_refuses_an_archived_session() {
    let stage = Stage::with_fixture("corrupt-parent");
    stage.annals(&["archive", "9682866b", "--apply"]).fine();
    let run = stage.refused(&["repair", "9682866b"], "");
    assert!(
        run.err.contains("is archived") && run.err.contains("annals restore"),
        "{run}"
    );
}

#[test]
fn undo_continues_past_an_unreadable_session_list() {
    let (stage, log, [main, review]) = two_folders();
    stage.annals(&["repair", "--apply"]).fine();
    stage
        .annals(&["repair", "--forget", "--all", "--apply"])
        .fine();
    let before = fs::read(&log).unwrap();
    add_bad_line(&stage, &log);
    let damaged = fs::read(&log).unwrap();
    stage.annals(&["repair", "--apply"]).fine();
    assert!(fs::read(&log).unwrap() == before);
    // A directory in place of a session list cannot be read as one.
    fs::remove_file(&review).unwrap();
    fs::create_dir(&review).unwrap();
    let run = stage.annals(&["repair", "--undo", MAIN]);
    assert!(run.out.contains("restored: 1 original"), "{run}");
    assert!(run.err.contains("a-review"), "{run}");
    assert_eq!(run.code, 2, "{run}");
    assert!(fs::read(&log).unwrap() == damaged);
    assert!(main.is_file());
}
