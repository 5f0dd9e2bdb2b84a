//! `show --all`, and `latest` in place of a session id.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::harness::Stage;

fn rows(stage: &Stage, args: &[&str]) -> Vec<Value> {
    let shown = stage.annals(&[args, &["--json"]].concat()).json();
    shown["entries"].as_array().unwrap().clone()
}

#[test]
fn show_all_prints_every_record_in_file_order() {
    let stage = Stage::with_fixture("agentpool-session");
    let entries = rows(&stage, &["show", "e8d9", "--all"]);
    let lines: Vec<u64> = entries
        .iter()
        .map(|entry| entry["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, (1..=11).collect::<Vec<u64>>());
    let of_kind = |kind: &str| {
        let mut found = entries.iter().filter(|entry| entry["kind"] == kind);
        found.next().unwrap()
    };
    assert_eq!(of_kind("queue")["operation"], "enqueue");
    let file = &of_kind("files")["backups"][0];
    assert_eq!(file["path"], "/absolute/path/to/file");
    assert_eq!(file["operation"], "edit");
    assert_eq!(file["snippet"], "Preview of changes...");
    let summary = of_kind("summary");
    assert_eq!(
        summary["blocks"][0]["text"],
        "Condensed conversation summary"
    );
    assert_eq!(summary["leaf"], "d");
    assert_eq!(summary["members"]["messageCount"], 4);

    let text = stage.annals(&["show", "e8d9", "--all"]).fine().out;
    for expected in [
        "2 conversations: annals conversations",
        "enqueue",
        "dequeue",
        "/absolute/path/to/file (edit)",
        "Preview of changes...",
        "messageCount: 4",
        "User Message 1, edited",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let raw = stage.annals(&["show", "e8d9", "--all", "--raw"]).fine().out;
    assert_eq!(raw.lines().count(), 11);
    // `--last` with `--all` reads the end of the whole log.
    let last = rows(&stage, &["show", "e8d9", "--all", "--last", "2"]);
    assert_eq!(
        (&last[0]["id"], &last[1]["kind"]),
        (&"f".into(), &"summary".into())
    );
}

#[test]
fn show_without_all_prints_only_the_current_branch() {
    let stage = Stage::with_fixture("agentpool-session");
    let shown = stage.annals(&["show", "e8d9"]).fine().out;
    for absent in ["enqueue", "Preview of changes", "messageCount"] {
        assert!(!shown.contains(absent), "{absent}: {shown}");
    }
    let entries = rows(&stage, &["show", "e8d9"]);
    assert!(entries.iter().all(|entry| entry["kind"] == "message"));
    // `@MESSAGE` with `--all` still selects the path to that message.
    let to_message = rows(&stage, &["show", "e8d9@f", "--all"]);
    assert!(to_message.iter().all(|entry| entry["id"] != "d"));
}

#[test]
fn show_all_prints_sessions_without_messages() {
    let stage = Stage::with_fixture("only-summary");
    let plain = stage.annals(&["show", "35204b54"]);
    assert_eq!(
        (plain.code, plain.out.contains("It has no messages yet.")),
        (1, true)
    );
    let all = stage.annals(&["show", "35204b54", "--all"]).fine();
    assert!(all.out.contains("Asking the first question"), "{all}");
}

#[test]
fn show_all_prints_unknown_types_with_and_without_id() {
    let stage = Stage::with_fixture("unknown-types");
    let entries = rows(&stage, &["show", "cd79", "--all"]);
    let subtypes: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry["subtype"].as_str())
        .collect();
    assert!(subtypes.contains(&"holo-deck"), "{subtypes:?}");
    assert!(subtypes.contains(&"telemetry-v9"), "{subtypes:?}");

    let stage = Stage::with_fixture_of("chorus", "chorus-every-type");
    let unknown = r#"{"uuid":"u-odd","type":"hologram","content":"x","timestamp":"2026-03-02T10:00:00.000Z"}"#;
    let is_log = |path: &PathBuf| path.to_string_lossy().ends_with("-messages.jsonl");
    let path = stage.tree().into_keys().find(is_log).unwrap();
    let log = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{log}{unknown}\n")).unwrap();
    let entries = rows(&stage, &["show", "64578ea0", "--all"]);
    assert_eq!(entries.last().unwrap()["subtype"], "hologram");
}

#[test]
fn files_json_has_the_snippet() {
    let stage = Stage::with_fixture("agentpool-session");
    let files = stage.annals(&["files", "e8d9", "--json"]).json();
    assert_eq!(
        files["files"][0]["versions"][0]["snippet"],
        "Preview of changes..."
    );
}

#[test]
fn latest_is_accepted_wherever_a_session_is_named() {
    let stage = Stage::empty();
    for id in ["older", "newer"] {
        stage.annals(&["new", "--id", id]).fine();
        stage.annals(&["append", id, "-m", "a word"]).fine();
    }
    let newest = stage.annals(&["show", "latest", "--json"]).json();
    let newest = newest["session"]["id"].as_str().unwrap().to_owned();
    let found = stage.annals(&["search", "word", "--session", "latest", "--json"]);
    let found = found.json();
    assert_eq!(found["total"], 1);
    assert_eq!(found["hits"][0]["session"], newest.as_str());
    let pinned = stage.annals(&["pin", "latest", "--json"]).json();
    assert_eq!(pinned["pins"][0]["session"], newest.as_str());
    let unpinned = stage.annals(&["pin", "--remove", "latest"]).fine();
    assert!(unpinned.out.contains(&newest), "{unpinned}");
    stage.annals(&["repair", "latest"]).fine();
    for args in [["restore", "latest", ""], ["archive", "--verify", "latest"]] {
        let args: Vec<&str> = args.into_iter().filter(|arg| !arg.is_empty()).collect();
        let run = stage.annals(&args);
        let expected = format!("no archived session matches `{newest}`");
        assert!(run.err.contains(&expected), "{run}");
    }
    // Outside the session's directory, commands that write do not guess.
    let elsewhere = tempfile::tempdir().unwrap();
    let root = format!("claude-code:{}", stage.root.display());
    let pinned = stage
        .command()
        .current_dir(elsewhere.path())
        .args(["--root", &root, "pin", "latest"])
        .output()
        .unwrap();
    assert_eq!(stage.run_of(&pinned).code, 2);
}
