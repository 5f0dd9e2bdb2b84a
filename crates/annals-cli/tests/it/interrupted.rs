//! What a killed removal leaves: readers report it, and commands that move or copy sessions put it back.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Run, Stage};

const ID: &str = "00000000-0000-4000-8000-000000000001";
const OTHER: &str = "00000000-0000-4000-8000-000000000002";

/// Two sessions, the log of the first, and its name while it is removed.
fn two_sessions() -> (Stage, PathBuf, PathBuf) {
    let stage = Stage::empty();
    for id in [ID, OTHER] {
        let new = ["new", "--id", id, "--cwd", "/home/dev/app", "-m", "word"];
        stage.annals(&new).fine();
    }
    stage.settle();
    let log = stage.log_path(ID);
    let removed = log.with_file_name(format!(".annals-{ID}.jsonl.removed"));
    (stage, log, removed)
}

/// The state after a process was killed while it removed the log of the first session. Nobody holds
/// a lock of the file.
fn interrupted() -> (Stage, PathBuf, PathBuf) {
    let (stage, log, removed) = two_sessions();
    fs::rename(&log, &removed).unwrap();
    (stage, log, removed)
}

fn problems(run: &Run) -> Vec<serde_json::Value> {
    let document: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let problems = document.get("problems").and_then(|it| it.as_array());
    problems.cloned().unwrap_or_default()
}

#[test]
fn every_reader_reports_a_file_that_was_being_removed() {
    let (stage, log, removed) = interrupted();
    let saved = log.with_file_name(format!("{ID}.jsonl.annals-saved"));
    for file in [&removed, &saved] {
        if file == &saved {
            fs::rename(&removed, &saved).unwrap();
        }
        let name = file.file_name().unwrap().to_str().unwrap();
        let before = stage.tree();
        let verbs: [&[&str]; 11] = [
            &[],
            &["projects"],
            &["sessions"],
            &["conversations"],
            &["search", "word"],
            &["cost"],
            &["todos"],
            &["notes"],
            &["show", OTHER],
            &["tree", OTHER],
            &["export", OTHER],
        ];
        for verb in verbs {
            for index in [&[][..], &["--no-index"]] {
                let text = stage.annals(&[index, verb].concat());
                assert_eq!(text.code, 2, "{verb:?}: {text}");
                let lines = text.err.lines().filter(|line| line.contains(name));
                assert_eq!(lines.count(), 1, "{verb:?}: {text}");
                let json = stage.annals(&[index, &["--json"], verb].concat());
                assert_eq!(json.code, 2, "{verb:?}: {json}");
                let problems = problems(&json);
                let [problem] = problems.as_slice() else {
                    panic!("{verb:?}: {json}");
                };
                let path = problem["path"].as_str().unwrap();
                assert!(path.ends_with(name), "{verb:?}: {json}");
            }
        }
        let show = stage.annals(&["show", ID]);
        assert_eq!(show.code, 2, "{show}");
        assert!(show.err.contains(name), "{show}");
        assert!(stage.tree() == before);
    }
}

#[test]
fn check_and_repair_name_the_way_out() {
    let (stage, _, removed) = interrupted();
    let check = stage.annals(&["check", "--details"]);
    assert_eq!(check.code, 1, "{check}");
    assert!(check.out.contains("unfinished-removal"), "{check}");
    let json = stage.annals(&["check", "--json"]);
    assert_eq!(json.code, 1, "{json}");
    assert!(json.out.contains("unfinished-removal"), "{json}");
    let repair = stage.annals(&["repair"]);
    assert_eq!(repair.code, 2, "{repair}");
    assert!(repair.err.contains("annals repair --apply"), "{repair}");
    assert!(!repair.out.contains("Nothing to repair."), "{repair}");
    assert!(removed.exists());
}

/// Runs a command on a root with an interrupted removal; it must put the file back first.
fn puts_back(args: &[&str]) {
    let (stage, log, removed) = interrupted();
    let content = fs::read(&removed).unwrap();
    let run = stage.annals(args).fine();
    assert!(run.err.contains("restored"), "{args:?}: {run}");
    assert!(!removed.exists(), "{args:?}: {run}");
    assert_eq!(fs::read(&log).unwrap(), content, "{args:?}");
}

#[test]
fn commands_put_back_what_was_being_removed() {
    puts_back(&["keep"]);
    puts_back(&["repair", "--apply"]);
    puts_back(&["delete", OTHER, "--live", "--apply"]);
    puts_back(&["archive", OTHER, "--live", "--apply"]);
    puts_back(&["clean", "--older-than", "9y", "--apply"]);
    puts_back(&["clean", "--purge", "--apply"]);
    puts_back(&["convert", OTHER, "--to", "chorus", "--into", "copy"]);
}

#[test]
fn convert_of_a_root_puts_back_what_was_being_removed() {
    let (stage, log, removed) = interrupted();
    let root = format!("claude-code:{}", stage.root.display());
    let plan = stage.annals(&["convert", &root, "--to", "chorus"]);
    assert_eq!(plan.code, 2, "{plan}");
    assert!(plan.err.contains("was not read"), "{plan}");
    assert!(removed.exists());
    let run = stage.annals(&["convert", &root, "--to", "chorus", "--into", "copy"]);
    let run = run.fine();
    assert!(run.err.contains("restored"), "{run}");
    assert!(log.exists() && !removed.exists(), "{run}");
}

#[test]
fn import_puts_back_what_was_being_removed() {
    let (stage, log, removed) = two_sessions();
    stage.annals(&["export", ID, "-o", "one.jsonl"]).fine();
    fs::rename(&log, &removed).unwrap();
    // The session exists, so it is not imported again.
    let run = stage.annals(&["import", "one.jsonl"]);
    assert!(run.out.contains("imported by an earlier run"), "{run}");
    assert!(run.err.contains("restored"), "{run}");
    assert!(log.exists() && !removed.exists(), "{run}");
}

/// The file in the root is newer than the deleted version.
#[test]
fn undo_never_hides_a_file_that_was_being_removed() {
    let (stage, log, removed) = two_sessions();
    let old = fs::read(&log).unwrap();
    stage.annals(&["delete", ID, "--live", "--apply"]).fine();
    let new = [&old[..], b"{\"type\":\"summary\"}\n"].concat();
    fs::create_dir_all(removed.parent().unwrap()).unwrap();
    fs::write(&removed, &new).unwrap();
    let run = stage.annals(&["delete", "--undo", ID]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("restored"), "{run}");
    assert!(run.err.contains("already exists"), "{run}");
    assert_eq!(fs::read(&log).unwrap(), new);
    let trashed = stage.tree().into_values().any(|content| content == old);
    assert!(trashed, "the deleted version stays in the trash");
}

/// Neither the archive nor another layout gets them under these names.
#[test]
fn file_that_was_being_removed_is_no_data_of_its_session() {
    let (stage, log, _) = two_sessions();
    let results = log.with_extension("").join("tool-results");
    fs::create_dir_all(&results).unwrap();
    // No one knows its name, so it stays.
    let removed = results.join(".annals-0123456789abcdef.removed");
    fs::write(&removed, "long").unwrap();
    let run = stage.annals(&["keep"]);
    assert_eq!(run.code, 2, "{run}");
    let given = stage.work().join("given");
    let to = given.to_str().unwrap();
    let restore = stage.annals(&["restore", ID, "--to", to, "--apply"]);
    let files = stage.tree().into_keys();
    let files = files.filter(|path| path.starts_with(&given));
    let names: Vec<PathBuf> = files
        .filter_map(|path| Some(path.file_name()?.into()))
        .collect();
    assert_eq!(names, [PathBuf::from(format!("{ID}.jsonl"))], "{restore}");
    assert!(removed.exists());
}

/// A reader of an incomplete export knows that it is incomplete.
#[test]
fn incomplete_export_is_reported() {
    let (stage, _, _) = interrupted();
    for file in ["all.json", "all.jsonl"] {
        let run = stage.annals(&["export", "--project", "/home/dev/app", "-o", file]);
        assert_eq!(run.code, 2, "{run}");
        let text = fs::read_to_string(stage.work().join(file)).unwrap();
        assert!(text.contains("\"problem"), "{text}");
        assert!(text.contains(".removed"), "{text}");
        let run = stage.annals(&["import", file, "--into", "claude-code:copy", "--fresh-ids"]);
        assert_eq!(run.code, 2, "{run}");
        assert!(run.err.contains("the export is incomplete"), "{run}");
        assert!(run.out.contains("1 session"), "{run}");
    }
}
