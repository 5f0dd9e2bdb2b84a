//! Unreadable files are reported on standard error and in the JSON document, with exit code 2.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Run, Stage};

const IDS: [&str; 6] = ["1", "2", "3", "4", "5", "6"];

fn id(number: &str) -> String {
    format!("00000000-0000-4000-8000-00000000000{number}")
}

/// Six sessions; the first five are only in the archive. The copies of the first `broken` are
/// directories, which not even root can read as files.
fn stage(broken: usize) -> (Stage, Vec<PathBuf>) {
    let stage = Stage::empty();
    for number in IDS {
        let id = id(number);
        stage
            .annals(&["new", "--id", &id, "--cwd", "/home/dev/app", "-m", "word"])
            .fine();
    }
    stage.settle();
    for number in &IDS[..5] {
        let id = id(number);
        stage.annals(&["archive", &id, "--live", "--apply"]).fine();
    }
    let logs = stage.tree().into_keys();
    let mut logs: Vec<PathBuf> = logs
        .filter(|path| path.extension().is_some_and(|it| it == "zst"))
        .collect();
    logs.sort();
    logs.truncate(broken);
    for log in &logs {
        fs::remove_file(log).unwrap();
        fs::create_dir(log).unwrap();
    }
    (stage, logs)
}

fn problems(run: &Run) -> Vec<serde_json::Value> {
    let document: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let problems = document.get("problems").and_then(|it| it.as_array());
    problems.cloned().unwrap_or_default()
}

/// The pipes have no writer, so opening one for reading would block forever.
#[test]
fn a_pipe_in_the_place_of_a_file_is_reported() {
    let (stage, _) = stage(0);
    let folder = stage.root.join("projects/-pipes");
    fs::create_dir(&folder).unwrap();
    let log = format!("projects/-pipes/{}.jsonl", id("7"));
    for within in ["history.jsonl", "settings.json", "todos", log.as_str()] {
        let path = stage.root.join(within);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap();
        }
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        for verb in ["sessions", "history", "todos"] {
            let text = stage.annals(&[verb]);
            assert_eq!(text.code, 2, "{verb}: {text}");
            let reported = text.err.lines().find(|line| line.contains(within));
            assert!(
                reported.is_some_and(|it| it.contains("not a regular file")),
                "{text}"
            );
            let json = stage.annals(&["--json", verb]);
            assert_eq!(json.code, 2, "{verb}: {json}");
            let problems = problems(&json);
            let named = |it: &serde_json::Value| it.to_string().contains(within);
            assert!(problems.iter().any(named), "{verb}: {json}");
        }
        let check = stage.annals(&["check", "--details"]);
        assert!(check.out.contains("not a regular file"), "{check}");
        let json = stage.annals(&["check", "--json"]);
        assert!(json.out.contains(within), "{json}");
        fs::remove_file(&path).unwrap();
    }
}

fn name(path: &std::path::Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn unreadable_archived_log_is_reported_by_every_command() {
    let (stage, logs) = stage(1);
    let log = name(&logs[0]);
    let last = id("6");
    let verbs: [&[&str]; 13] = [
        &[],
        &["projects"],
        &["doctor"],
        &["sessions"],
        &["sessions", "-n", "1"],
        &["conversations"],
        &["search", "word"],
        &["cost"],
        &["cost", "--by", "branch"],
        &["todos"],
        &["notes"],
        &["show", &last],
        &["tree", &last],
    ];
    for verb in verbs {
        for index in [&[][..], &["--no-index"]] {
            let text = stage.annals(&[index, verb].concat());
            assert_eq!(text.code, 2, "{verb:?}: {text}");
            let lines = text.err.lines().filter(|line| line.contains(log));
            assert_eq!(lines.count(), 1, "{verb:?}: {text}");
            let json = stage.annals(&[index, &["--json"], verb].concat());
            assert_eq!(json.code, 2, "{verb:?}: {json}");
            let problems = problems(&json);
            let [problem] = problems.as_slice() else {
                panic!("{verb:?}: {json}");
            };
            let error = problem["error"].as_str().unwrap();
            assert!(error.contains(log), "{verb:?}: {json}");
        }
    }
}

/// The document is for scripts. Somebody who sees only standard error needs the path too.
#[test]
fn failure_with_json_is_reported_on_standard_error_too() {
    let (stage, logs) = stage(1);
    let mut above = logs[0].ancestors();
    let archive = above.find(|path| path.ends_with("archive")).unwrap();
    fs::remove_dir_all(archive).unwrap();
    fs::write(archive, "").unwrap();
    let run = stage.annals(&["keep", "--json"]);
    assert_eq!(run.code, 2, "{run}");
    let document: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(document["error"]["kind"], "io", "{run}");
    assert!(run.err.contains("/state/archive"), "{run}");
}

#[test]
fn complete_answers_report_no_problems() {
    let (stage, _) = stage(0);
    for verb in [&["sessions"][..], &["search", "word"], &["cost"]] {
        let run = stage.annals(&[&["--json"], verb].concat());
        assert!(run.code < 2 && problems(&run).is_empty(), "{run}");
    }
}

#[test]
fn json_lists_all_problems_that_the_terminal_shortens() {
    let (stage, logs) = stage(5);
    let text = stage.annals(&["sessions"]);
    assert_eq!(text.code, 2, "{text}");
    assert_eq!(text.err.lines().count(), 4, "{text}");
    assert!(
        text.err
            .ends_with("more problems not shown; -v shows all\n"),
        "{text}"
    );
    assert_eq!(stage.annals(&["-v", "sessions"]).err.lines().count(), 5);
    let json = stage.annals(&["sessions", "--json"]);
    assert_eq!(problems(&json).len(), logs.len(), "{json}");
}

/// Other files are read, and the loss is reported.
#[test]
fn an_archived_log_that_lost_its_end_is_reported_by_whatever_reads_it() {
    let stage = Stage::with_fixture("2.1.325-s04-agent");
    let id = "3dfa1268-9314-4bc2-bb7b-d8c0d6c96020";
    stage.annals(&["archive", id, "--live", "--apply"]).fine();
    let mut files = stage.tree().into_keys();
    let log =
        files.find(|path| name(path).starts_with("agent-") && name(path).ends_with(".jsonl.zst"));
    let log = log.unwrap();
    let whole = fs::read(&log).unwrap();
    fs::write(&log, &whole[..whole.len() - 5]).unwrap();
    for verb in [&["sessions"][..], &["tree", id], &["restore", id]] {
        let text = stage.annals(verb);
        assert_eq!(text.code, 2, "{verb:?}: {text}");
        assert!(text.err.contains(name(&log)), "{verb:?}: {text}");
        let json = stage.annals(&[&["--json"], verb].concat());
        assert_eq!(
            (json.code, problems(&json).len()),
            (2, 1),
            "{verb:?}: {json}"
        );
    }
    for verb in [&["restore", id, "--salvage"][..], &["archive", "--list"]] {
        let run = stage.annals(verb);
        assert_eq!(run.code, 1, "{verb:?}: {run}");
    }
    let listed = stage.annals(&["archive", "--list"]);
    assert!(listed.out.contains("its end is missing"), "{listed}");
    // An incomplete frame after the listed ones, left by a killed writer, is not reported.
    fs::write(&log, [&whole[..], b"half a frame"].concat()).unwrap();
    for verb in [&["sessions"][..], &["tree", id], &["restore", id]] {
        let run = stage.annals(verb).fine();
        assert_eq!(run.err, "", "{verb:?}: {run}");
    }
}

/// A link to itself cannot be examined, which is not the same as a missing directory.
#[test]
fn root_of_a_conversion_that_cannot_be_examined_is_reported() {
    let stage = Stage::empty();
    let root = stage.work().join("loop");
    std::os::unix::fs::symlink("loop", &root).unwrap();
    let path = root.to_str().unwrap();
    for what in [format!("claude-code:{path}"), path.to_owned()] {
        for json in [&[][..], &["--json"]] {
            let convert = ["convert", &what, "--to", "clog"];
            let run = stage.annals(&[json, &convert].concat());
            assert_eq!(run.code, 2, "{run}");
            assert!(run.err.contains("cannot stat "), "{run}");
            assert!(run.err.contains("loop: Too many levels"), "{run}");
        }
    }
}
