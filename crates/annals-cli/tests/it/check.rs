//! `annals check`: tables, JSON and exit codes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use serde_json::Value;

use crate::harness::Stage;

const SESSION: &str = "11111111-2222-4333-8444-555555555555";
const GONE: &str = "22222222-2222-4333-8444-555555555555";

/// A root with damage, oddities and orphaned files.
fn damaged() -> Stage {
    let stage = Stage::empty();
    let line = |number: u32, parent: Option<u32>, rest: &str| {
        let id = |number: u32| format!("\"00000000-0000-4000-8000-{number:012}\"");
        let parent = parent.map_or("null".to_owned(), id);
        let own = id(number);
        format!(
            r#"{{"parentUuid":{parent},"sessionId":"{SESSION}","uuid":{own},"timestamp":"2026-11-13T09:{number:02}:00.000Z",{rest}}}"#
        )
    };
    let said =
        |text: &str| format!(r#""type":"user","message":{{"role":"user","content":"{text}"}}"#);
    let called = r#""type":"assistant","message":{"role":"assistant","id":"m","content":[{"type":"tool_use","id":"a","name":"Bash","input":{}}]}"#;
    let lines = [
        line(1, None, &said("first")) + "\r",
        line(2, Some(1), called),
        line(3, Some(2), &said("second"))[..120].to_owned(),
        line(4, Some(3), &said("third")) + &line(5, Some(4), &said("fourth")),
        line(6, Some(5), &said("fifth")),
        line(6, Some(5), &said("another fifth")),
        line(7, Some(6), r#""type":7"#),
        format!(r#"{{"type":"summary","summary":"elsewhere","leafUuid":"{GONE}"}}"#),
        line(8, Some(6), &said("torn"))[..100].to_owned(),
    ];
    let folder = stage.root.join("projects/-w");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{SESSION}.jsonl")), lines.join("\n")).unwrap();
    fs::create_dir_all(stage.root.join("todos")).unwrap();
    let todos = format!("todos/{GONE}-agent-{GONE}.json");
    fs::write(
        stage.root.join(todos),
        r#"[{"content":"x","status":"pending"}]"#,
    )
    .unwrap();
    stage.settle();
    stage
}

#[test]
fn check_reports_a_damaged_root() {
    let stage = damaged();
    assert_snapshot!("check_damaged", stage.annals(&["check"]));
    assert_snapshot!(
        "check_damaged_all",
        stage.annals(&["check", "--all", "--limit", "2"])
    );
    assert_snapshot!("check_damaged_json", stage.annals(&["check", "--json"]));
    assert_eq!(
        stage.annals(&["check", "-v"]).out,
        stage.annals(&["check", "--all"]).out
    );
}

#[test]
fn check_of_one_session_or_file_reports_only_that() {
    let stage = damaged();
    let one = stage.annals(&["check", SESSION]);
    assert_eq!(one.code, 1, "{one}");
    assert!(!one.out.contains("stray"), "{one}");
    let path = stage.log_path(SESSION);
    let file = stage.annals(&["check", path.to_str().unwrap(), "--json"]);
    assert_eq!(file.code, 1, "{file}");
    let report: Value = serde_json::from_str(&file.out).unwrap();
    assert_eq!(report["files"].as_array().unwrap().len(), 1);
}

/// Damage makes the exit code 1; warnings do so only with `--strict`.
#[test]
fn check_exit_code_follows_severity() {
    for (fixture, plain, strict) in [
        ("2.1.325-s02-tools", 0, 0),
        ("bom", 0, 0),
        ("torn-tail", 0, 1),
        ("result-without-call", 0, 1),
        ("orphan", 1, 1),
    ] {
        let stage = Stage::with_fixture(fixture);
        let run = stage.annals(&["check"]);
        assert_eq!(run.code, plain, "{fixture}: {run}");
        let run = stage.annals(&["check", "--strict"]);
        assert_eq!(run.code, strict, "{fixture}: {run}");
    }
}

#[test]
fn check_reports_modes_and_expiry_for_a_root_and_not_for_one_file() {
    let stage = Stage::with_fixture("2.1.325-s02-tools").without_notes();
    let log = fs::read_dir(stage.root.join("projects"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let log = fs::read_dir(log.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let log = log
        .into_iter()
        .find(|path| path.extension().is_some_and(|ext| ext == "jsonl"));
    let log = log.unwrap();
    let mode = |path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(stage.root.as_path(), 0o755);
    mode(log.as_path(), 0o644);
    // The last records are of 14 November, and sessions expire after four days.
    fs::write(
        stage.root.join("settings.json"),
        r#"{"cleanupPeriodDays":4}"#,
    )
    .unwrap();
    stage.settle_times();
    assert_snapshot!("check_machine", stage.annals(&["check"]));
    let one = stage.annals(&["check", log.to_str().unwrap()]);
    assert_eq!(
        (one.code, one.out.contains("open-mode")),
        (0, false),
        "{one}"
    );
}

#[test]
fn check_of_archived_session_suggests_archive_verify() {
    let stage = Stage::empty();
    let id = "00000000-0000-4000-8000-000000000001";
    stage
        .annals(&[
            "new",
            "--id",
            id,
            "--cwd",
            "/home/dev/one",
            "-m",
            "question",
        ])
        .fine();
    stage.settle();
    stage.annals(&["archive", id, "--apply", "--live"]).fine();
    let run = stage.refused(&["check", id], "");
    let reported = format!("session {id} is archived; `annals archive --verify {id}`");
    assert!(run.err.contains(&reported), "{run}");
}

#[cfg(target_os = "linux")]
#[test]
fn check_json_is_valid_with_non_utf8_file_names() {
    use std::os::unix::ffi::OsStrExt as _;
    let stage = Stage::with_fixture("unknown-files");
    for name in [&b"a\xff.txt"[..], b"b\xff.jsonl"] {
        let name = std::ffi::OsStr::from_bytes(name);
        fs::write(stage.root.join("projects").join(name), "x").unwrap();
    }
    // A log whose name cannot be read is an error too.
    let run = stage.annals(&["check", "--json"]);
    assert_eq!(run.code, 2, "{run}");
    let found: Value = serde_json::from_str(&run.out).unwrap();
    let files = found["files"].as_array().unwrap();
    for name in ["a\u{fffd}.txt", "b\u{fffd}.jsonl"] {
        let is_it = |file: &&Value| file["path"].as_str().unwrap().ends_with(name);
        let file = files.iter().find(is_it).expect(name);
        assert_eq!(file["flaws"][0]["kind"], "unknown-file");
    }
}

#[test]
fn check_reports_unread_files_with_the_reason() {
    let stage = Stage::empty();
    let put = |path: &str, text: &str| {
        let path = stage.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let record = "{\"type\":\"user\",\"uuid\":\"u1\",\"parentUuid\":null,\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n";
    let log = format!("projects/-w/{SESSION}");
    put(&format!("{log}.jsonl"), record);
    let long = "x".repeat(201);
    let named = [
        format!("{log}/subagents/foo.jsonl"),
        "projects/-w/.annals-kept.jsonl".to_owned(),
        "projects/-w/held.lock".to_owned(),
        "projects/-w/-p.jsonl".to_owned(),
        "projects/-w/a\\b.jsonl".to_owned(),
        format!("projects/-w/{long}.jsonl"),
        format!("file-history/{SESSION}/deep/x"),
        format!("tasks/{SESSION}/1.txt"),
        "stray.jsonl".to_owned(),
    ];
    for path in &named {
        put(path, record);
    }
    std::os::unix::fs::symlink("nowhere", stage.root.join("projects/-w/dangling.jsonl")).unwrap();
    let fifo = stage.root.join("projects/-w/pipe.jsonl");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    // Known files, and files that hold no record.
    put(&format!("{log}/subagents/agent-a1.jsonl"), record);
    put(&format!("{log}/subagents/agent-a1.meta.json"), "{}");
    put(&format!("file-history/{SESSION}/7b1a057f03b9c8c5@v2"), "x");
    put(&format!("tasks/{SESSION}/.lock"), "");
    put(&format!("tasks/{SESSION}/.highwatermark"), "3");
    put("projects/-w/empty.lock", "");
    put("projects/-w/.annals-0123456789abcdef.tmp", record);
    put("stray.txt", "x");
    // A pipe in place of a log cannot be read, so the answer is incomplete.
    let run = stage.annals(&["check", "--json"]);
    assert_eq!(run.code, 1, "{run}");
    let found: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let mut details = std::collections::BTreeMap::new();
    for file in found["files"].as_array().unwrap() {
        for flaw in file["flaws"].as_array().unwrap() {
            if flaw["kind"] == "unknown-file" {
                let path = file["path"].as_str().unwrap();
                let name = path.rsplit('/').next().unwrap().to_owned();
                details.insert(name, flaw["detail"].as_str().unwrap().to_owned());
            }
        }
    }
    let parts = named.iter().map(|path| path.rsplit('/').next().unwrap());
    let mut names: Vec<&str> = parts.chain(["dangling.jsonl", "pipe.jsonl"]).collect();
    names.sort_unstable();
    assert_eq!(details.keys().collect::<Vec<_>>(), names);
    for (name, reason) in [
        ("-p.jsonl", "it begins with a hyphen"),
        (".annals-kept.jsonl", "it begins with a dot"),
        ("a\\b.jsonl", "it contains a path separator"),
        (&format!("{long}.jsonl"), "it is longer than 200 bytes"),
        ("foo.jsonl", "does not read it"),
        (
            "dangling.jsonl",
            "symbolic link whose target cannot be read",
        ),
        ("pipe.jsonl", "not a regular file"),
    ] {
        assert!(details[name].contains(reason), "{name}: {}", details[name]);
    }
    assert!(details["-p.jsonl"].contains("rename the file"));
}
