//! What cannot be read is reported on standard error and in the JSON document, and the exit code is 2.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Run, Stage};

const IDS: [&str; 6] = ["1", "2", "3", "4", "5", "6"];

fn id(number: &str) -> String {
    format!("00000000-0000-4000-8000-00000000000{number}")
}

/// Six sessions, of which the first five are only in the archive. The packs of the first `broken` are
/// directories, which nobody can read, not even the superuser.
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
    let packs = stage.tree().into_keys();
    let mut packs: Vec<PathBuf> = packs
        .filter(|path| path.extension().is_some_and(|it| it == "pack"))
        .collect();
    packs.sort();
    packs.truncate(broken);
    for pack in &packs {
        fs::remove_file(pack).unwrap();
        fs::create_dir(pack).unwrap();
    }
    (stage, packs)
}

fn problems(run: &Run) -> Vec<serde_json::Value> {
    let document: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let problems = document.get("problems").and_then(|it| it.as_array());
    problems.cloned().unwrap_or_default()
}

fn name(pack: &std::path::Path) -> &str {
    pack.file_name().unwrap().to_str().unwrap()
}

#[test]
fn every_answer_that_lacks_something_says_what() {
    let (stage, packs) = stage(1);
    let pack = name(&packs[0]);
    let last = id("6");
    let verbs: [&[&str]; 12] = [
        &[],
        &["projects"],
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
            let lines = text.err.lines().filter(|line| line.contains(pack));
            assert_eq!(lines.count(), 1, "{verb:?}: {text}");
            let json = stage.annals(&[index, &["--json"], verb].concat());
            assert_eq!(json.code, 2, "{verb:?}: {json}");
            let problems = problems(&json);
            let [problem] = problems.as_slice() else {
                panic!("{verb:?}: {json}");
            };
            let error = problem["error"].as_str().unwrap();
            assert!(error.contains(pack), "{verb:?}: {json}");
        }
    }
}

#[test]
fn complete_answers_have_no_problems() {
    let (stage, _) = stage(0);
    for verb in [&["sessions"][..], &["search", "word"], &["cost"]] {
        let run = stage.annals(&[&["--json"], verb].concat());
        assert!(run.code < 2 && problems(&run).is_empty(), "{run}");
    }
}

#[test]
fn a_document_names_all_that_a_screen_leaves_out() {
    let (stage, packs) = stage(5);
    let text = stage.annals(&["sessions"]);
    assert_eq!(text.code, 2, "{text}");
    assert_eq!(text.err.lines().count(), 4, "{text}");
    assert!(text.err.ends_with("and more; -v shows all\n"), "{text}");
    assert_eq!(stage.annals(&["-v", "sessions"]).err.lines().count(), 5);
    let json = stage.annals(&["sessions", "--json"]);
    assert_eq!(problems(&json).len(), packs.len(), "{json}");
}
