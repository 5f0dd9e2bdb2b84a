//! Invalid input is refused with a clear message, the right exit code, and no change.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::harness::Stage;

const ID: &str = "00000000-0000-4000-8000-000000000001";

fn begun() -> Stage {
    let stage = Stage::empty();
    stage
        .annals(&["new", "--id", ID, "-m", "question 1"])
        .fine();
    stage
}

#[test]
fn invalid_ids_are_rejected_by_every_command() {
    let stage = begun();
    let long = "a".repeat(10_000);
    for id in [
        "..",
        "../../etc/passwd",
        "/",
        "a/b",
        "-",
        "",
        ".",
        ".é",
        "a\tb",
        "a\\b",
        &long,
    ] {
        for verb in [
            &["title", id, "x"][..],
            &["append", id, "-m", "x"],
            &["fork", id],
            &["delete", id, "--apply"],
            &["files", id],
            &["notes", "add", id, "x"],
            &["todos", "add", id, "x"],
            &["compact", id, "--summary", "x"],
        ] {
            let run = stage.refused(verb, "");
            assert!(
                run.err.contains("hint: ") || run.err.contains("is a directory"),
                "{verb:?}: {run}"
            );
            assert!(run.err.len() < 1_000, "{verb:?}: {run}");
        }
        // The id of a new session becomes a file name.
        let run = stage.refused(&["new", "--id", id], "");
        assert!(run.err.contains("cannot be a session id"), "{run}");
        let run = stage.refused(&["fork", ID, "--id", id], "");
        assert!(run.err.contains("cannot be a session id"), "{run}");
    }
    for message in ["..", "a/b", "é", "", &long] {
        for verb in [
            &["fork", &format!("{ID}@{message}")][..],
            &["append", ID, "--at", message, "-m", "x"],
        ] {
            let run = stage.refused(verb, "");
            assert!(run.err.len() < 1_000, "{verb:?}: {run}");
        }
    }
    assert_snapshot!("id_dots", stage.refused(&["title", "..", "x"], ""));
    assert_snapshot!("id_slash", stage.refused(&["title", "a/b", "x"], ""));
    assert_snapshot!("id_long", stage.refused(&["title", &long, "x"], ""));
    assert_snapshot!(
        "id_message_long",
        stage.refused(&["append", ID, "--at", &long, "-m", "x"], "")
    );
    assert_snapshot!(
        "id_message_where_none_fits",
        stage.refused(&["title", &format!("{ID}@x"), "x"], "")
    );
}

#[test]
fn append_rejects_invalid_drafts() {
    let stage = begun();
    let long = "a".repeat(10_000);
    let good = r#"{"role":"user","content":"good"}"#;
    let bad: &[(&str, &str)] = &[
        ("not_json", "question 2"),
        ("half", r#"{"role":"user","#),
        ("open", "{"),
        (
            "glued",
            r#"{"role":"user","content":"a"}{"role":"user","content":"b"}"#,
        ),
        ("array", r#"[{"role":"user","content":"a"}]"#),
        ("number", "3"),
        ("no_role", r#"{"content":"a"}"#),
        ("bad_role", r#"{"role":"wizard","content":"a"}"#),
        ("no_content", r#"{"role":"user"}"#),
        (
            "bad_content",
            r#"{"role":"user","content":{"type":"text"}}"#,
        ),
        ("empty_content", r#"{"role":"user","content":" "}"#),
        ("empty_list", r#"{"role":"user","content":[]}"#),
        ("bad_block", r#"{"role":"user","content":["a"]}"#),
        (
            "no_block_type",
            r#"{"role":"user","content":[{"text":"a"}]}"#,
        ),
        ("no_text", r#"{"role":"user","content":[{"type":"text"}]}"#),
        (
            "bad_text",
            r#"{"role":"user","content":[{"type":"text","text":3}]}"#,
        ),
        (
            "call_of_user",
            r#"{"role":"user","content":[{"type":"tool_use","id":"a","name":"b","input":{}}]}"#,
        ),
        (
            "result_of_assistant",
            r#"{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"a"}]}"#,
        ),
        (
            "bad_input",
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":"x"}]}"#,
        ),
        (
            "nested_result",
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_result","tool_use_id":"b"}]}]}"#,
        ),
        (
            "bad_usage",
            r#"{"role":"assistant","content":"a","usage":{"input_tokens":-1}}"#,
        ),
        (
            "absurd_usage",
            r#"{"role":"assistant","content":"a","usage":{"input_tokens":99999999999999}}"#,
        ),
        (
            "bad_time",
            r#"{"role":"user","content":"a","timestamp":"yesterday"}"#,
        ),
        (
            "unknown_member",
            r#"{"role":"assistant","content":"a","modle":"m"}"#,
        ),
        (
            "whole_line",
            r#"{"type":"user","uuid":"x","message":{"role":"user","content":"a"}}"#,
        ),
        (
            "parent_nul",
            r#"{"role":"user","content":"a","parent":"\u0000"}"#,
        ),
        (
            "parent_dots",
            r#"{"role":"user","content":"a","parent":"../.."}"#,
        ),
        ("id_space", r#"{"role":"user","content":"a","id":"a\tb"}"#),
        ("lone_surrogate", r#"{"role":"user","content":"\ud83d"}"#),
    ];
    let mut all = String::new();
    for (name, line) in bad {
        let run = stage.refused(&["append", ID], &format!("{good}\n\n{line}\n{good}\n"));
        all += &format!("{name}: {line}\n{}\n", run.err);
    }
    assert_snapshot!("drafts", all);
    let longer = long.repeat(7);
    for (key, why) in [
        ("parent", "no message matches"),
        ("id", "is longer than 64 KiB"),
    ] {
        let run = stage.refused(
            &["append", ID],
            &format!(r#"{{"role":"user","content":"a","{key}":"{longer}"}}"#),
        );
        assert!(run.err.contains(why) && run.err.len() < 500, "{run}");
    }
    assert_snapshot!("drafts_none", stage.refused(&["append", ID], " \n\n"));
    let before = stage.tree();
    let run = stage.with_stdin(
        &["append", ID],
        b"{\"role\":\"user\",\"content\":\"a\"}\n\xff\xfe\n".to_vec(),
    );
    assert_snapshot!("drafts_not_utf8", run);
    assert!(stage.tree() == before);
}

#[test]
fn empty_texts_are_rejected() {
    let stage = begun();
    for args in [
        &["title", ID, " "][..],
        &["tag", ID, ""],
        &["notes", "add", ID, "\n"],
        &["notes", "add", ID, "-"],
        &["append", ID, "-m", ""],
        &["compact", ID, "--summary", ""],
        &["compact", ID, "--summary", "-"],
        &["new", "--title", ""],
        &["new", "-m", ""],
        &["fork", ID, "--title", " "],
    ] {
        let run = stage.refused(args, "");
        assert!(run.err.contains("is empty"), "{args:?}: {run}");
    }
    assert_snapshot!(
        "summary_file_missing",
        stage.refused(&["compact", ID, "--summary", "@no/such/file"], "")
    );
}

#[test]
fn missing_root_is_an_error() {
    let stage = Stage::empty();
    let missing = stage.root.display().to_string();
    for args in [
        &["title", ID, "x"][..],
        &["new"],
        &["todos"],
        &["history"],
        &["delete", ID],
    ] {
        let run = stage.bare(&[&["--root", missing.as_str()], args].concat());
        assert_eq!(run.code, 2, "{args:?}: {run}");
    }
    assert_snapshot!("root_missing", stage.bare(&["--root", &missing, "new"]));
    assert_snapshot!("root_missing_named", stage.annals(&["todos"]));
    assert_snapshot!("root_missing_session", stage.annals(&["title", ID, "x"]));
    let file = stage.work().join("file");
    std::fs::write(&file, "").unwrap();
    let root = format!("claude-code:{}", file.display());
    assert_snapshot!("root_is_a_file", stage.bare(&["--root", &root, "new"]));
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_root_is_an_error() {
    // Even root cannot create directories there.
    let stage = Stage::empty();
    let run = stage.bare(&["--root", "claude-code:/sys/annals", "new", "--id", ID]);
    assert_eq!(run.code, 2, "{run}");
    assert!(
        run.err.contains("/sys/annals") && run.err.contains("hint: "),
        "{run}"
    );
}

#[cfg(unix)]
#[test]
fn unwritable_log_is_an_error() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = begun();
    let log = stage.log_path(ID);
    let folder = log.parent().unwrap();
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&log, mode(0o400)).unwrap();
    std::fs::set_permissions(folder, mode(0o500)).unwrap();
    let superuser = std::fs::OpenOptions::new().append(true).open(&log).is_ok();
    if !superuser {
        for args in [
            &["append", ID, "-m", "x"][..],
            &["title", ID, "x"],
            &["fork", ID],
        ] {
            let run = stage.refused(args, "");
            assert!(
                run.err.contains("[DIR]/root/projects/") && run.err.contains("hint: "),
                "{run}"
            );
        }
        let run = stage.annals(&["delete", ID, "--apply"]);
        assert_eq!(run.code, 2, "{run}");
    }
    std::fs::set_permissions(folder, mode(0o700)).unwrap();
    std::fs::set_permissions(&log, mode(0o600)).unwrap();
    stage.annals(&["append", ID, "-m", "x"]).fine();
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_log_readable() {
    let stage = begun();
    let log = stage.log_path(ID);
    let before = std::fs::read(&log).unwrap();
    let text = "x".repeat(64 << 10);
    // A file size limit simulates a full disk. SIGXFSZ must not kill the program in mid-write.
    let script = format!(
        "ulimit -f 8; exec {} --root claude-code:{} append {ID} -m -",
        assert_cmd::cargo::cargo_bin!("annals").display(),
        stage.root.display()
    );
    let mut child = Command::new("bash")
        .args(["-c", &script])
        .env_clear()
        .envs(stage.env())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let run = stage.run_of(&child.wait_with_output().unwrap());
    assert_snapshot!("disk_full", run);
    let after = std::fs::read(&log).unwrap();
    assert!(after.starts_with(&before));
    let rows = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(rows["sessions"][0]["messages"], 1);
    // With room again, appends succeed.
    stage.annals(&["append", ID, "-m", "after"]).fine();
    let rows = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(rows["sessions"][0]["messages"], 2);
}

#[test]
fn closed_pipe_is_not_an_error() {
    let stage = Stage::with_fixture("2.1.325-s07-big");
    let logs = stage
        .tree()
        .into_keys()
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let log = logs.min_by_key(|path| path.components().count()).unwrap();
    let root = format!("claude-code:{}", stage.root.display());
    for args in [
        &["sessions"][..],
        &["files", log.to_str().unwrap(), "by8n", "--outputs"],
        &["demo"],
        &["todos", "--json"],
    ] {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("annals"))
            .args(["--root", &root])
            .args(args)
            .env_clear()
            .envs(stage.env())
            .current_dir(stage.work())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Reads a few bytes and closes the pipe, as `head -1` does.
        let mut first = [0; 16];
        let _ = child.stdout.take().unwrap().read(&mut first);
        let run = stage.run_of(&child.wait_with_output().unwrap());
        assert!(run.code == 0 || args[0] == "todos", "{args:?}: {run}");
        assert!(run.err.is_empty(), "{args:?}: {run}");
    }
}

#[test]
fn project_folder_with_non_utf8_name_is_reported() {
    use std::os::unix::ffi::OsStrExt as _;
    let stage = Stage::with_fixture("branch-nested");
    let name = std::ffi::OsStr::from_bytes(b"-w\xff");
    fs::create_dir(stage.root.join("projects").join(name)).unwrap();
    let run = stage.annals(&["sessions"]);
    assert!(run.err.contains("its name is not UTF-8"), "{run}");
    assert_eq!(run.code, 2, "{run}");
    assert!(run.out.contains("question 1"), "{run}");
}

#[test]
fn delete_refuses_a_session_being_written() {
    let stage = Stage::with_fixture("branch-nested");
    let log = stage
        .tree()
        .into_keys()
        .find(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .unwrap();
    let line = format!(
        "{{\"type\":\"user\",\"uuid\":\"live\",\"parentUuid\":null,\"timestamp\":\"{}\",\"message\":{{\"role\":\"user\",\"content\":\"now\"}}}}\n",
        jiff::Timestamp::now()
    );
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend(line.into_bytes());
    fs::write(&log, bytes).unwrap();
    let id = log.file_stem().unwrap().to_str().unwrap().to_owned();
    let run = stage.annals(&["delete", &id, "--apply"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(
        run.err.contains("being written by another program"),
        "{run}"
    );
    assert!(log.exists());
    stage.annals(&["delete", &id, "--apply", "--live"]).fine();
    assert!(!log.exists());
}

#[test]
fn append_refuses_a_file_that_is_no_session() {
    let stage = Stage::empty();
    let junk = stage.work().join("junk.jsonl");
    for content in ["", "{\"a\":1}\n", "not even JSON"] {
        fs::write(&junk, content).unwrap();
        let run = stage.annals(&["append", junk.to_str().unwrap(), "-m", "hi"]);
        assert_eq!(run.code, 2, "{run}");
        assert!(run.err.contains("contains no message"), "{run}");
        assert_eq!(fs::read_to_string(&junk).unwrap(), content);
    }
}

#[test]
fn unknown_time_zone_is_reported() {
    let stage = Stage::with_fixture("2.0.77-s01-multiturn");
    let run = |zone: &str| {
        let root = format!("claude-code:{}", stage.root.display());
        let mut command = stage.command();
        command.env("TZ", zone).args(["--root", &root, "sessions"]);
        stage.run_of(&command.output().unwrap()).fine()
    };
    let utc = run("UTC");
    let odd = run("Mars/\u{1b}[2JX");
    assert_eq!(odd.out, utc.out);
    assert_snapshot!("zone_unknown", odd.err);
    for known in [
        "",
        "UTC",
        "Europe/Berlin",
        ":Asia/Tokyo",
        "CET-1CEST,M3.5.0,M10.5.0/3",
    ] {
        assert_eq!(run(known).err, "", "{known}");
    }
}
