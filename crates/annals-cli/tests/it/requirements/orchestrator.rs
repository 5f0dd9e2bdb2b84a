//! The orchestrator's design document (004).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use annals::layout::{Layout as _, NewSession, Orchestrator};
use annals::model::{Block, Body, Draft, Message, Role, Usage};
use annals::store::{Root, SessionState, Store, WriteOptions};
use serde_json::json;

use crate::harness::Stage;

const PROJECT: &str = "/Users/nick/projects/my-app";
const FOLDER: &str = "v_FXjHoCS5zUJmfyn-5v";

/// The document's examples, verbatim.
const USER: &str = r#"{"type":"user","content":"Analyze the authentication system and identify potential security vulnerabilities.","timestamp":"2025-11-16T10:30:00.000Z"}"#;
const ASSISTANT: &str = r#"{"type":"assistant","content":"I'll analyze the authentication system for security vulnerabilities. Let me start by examining the auth module.","timestamp":"2025-11-16T10:30:05.123Z","usage":{"input_tokens":15234,"output_tokens":2156,"cache_creation_tokens":8543,"cache_read_tokens":0},"model":"claude-sonnet-4-5-20250929","stopReason":"tool_use"}"#;
const CALL: &str = r#"{"type":"tool_call","tool":"Read","arguments":{"file_path":"/Users/nick/project/src/auth/authentication.ts"},"timestamp":"2025-11-16T10:30:06.000Z","toolCallId":"call_abc123"}"#;
const SUCCESS: &str = r#"{"type":"tool_result","tool":"Read","result":"import bcrypt from 'bcrypt';\n\nexport class AuthService {\n  async hashPassword(password: string): Promise<string> {\n    return bcrypt.hash(password, 10);\n  }\n}","timestamp":"2025-11-16T10:30:06.543Z","duration_ms":543,"toolCallId":"call_abc123"}"#;
const FAILURE: &str = r#"{"type":"tool_result","tool":"Read","error":"File not found: /Users/nick/project/src/auth/authentication.ts","timestamp":"2025-11-16T10:30:06.123Z","duration_ms":123,"toolCallId":"call_abc123"}"#;

/// The fixture that contains them.
const EXAMPLES: &str = include_str!(
    "../../../../../fixtures/orchestrator/examples-of-the-document/projects/v_FXjHoCS5zUJmfyn-5v/2025-11-16.jsonl"
);

/// A root with the empty folder of the document's project.
fn stage() -> Stage {
    let stage = Stage::empty().with_layout("orchestrator");
    fs::create_dir_all(log(&stage, "x").parent().unwrap()).unwrap();
    stage
}

fn log(stage: &Stage, day: &str) -> PathBuf {
    stage
        .root
        .join("projects")
        .join(FOLDER)
        .join(format!("{day}.jsonl"))
}

/// A root with the document's examples in the log of 2025-11-16, and the session's id.
fn examples() -> (Stage, String) {
    let stage = stage();
    assert!(EXAMPLES.lines().eq([USER, ASSISTANT, CALL, SUCCESS]));
    fs::write(log(&stage, "2025-11-16"), EXAMPLES).unwrap();
    stage.settle();
    (stage, format!("2025-11-16-{FOLDER}"))
}

fn store(stage: &Stage) -> (Store, Root) {
    let root = Root::new("orchestrator", &stage.root).unwrap();
    let state = stage.root.with_file_name("state");
    (Store::new(vec![root.clone()]).with_state(state), root)
}

/// Output of the document's own parser for a log.
fn parsed(log: &Path) -> String {
    let parser =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/requirements/orchestrator.py");
    let run = Command::new("python3")
        .arg("-B")
        .arg(parser)
        .arg(log)
        .output();
    let run = run.expect("python3 runs the document's parser");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let failed = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}{failed}");
    said
}

/// Requirements: 004.1, 004.2, 004.4, 004.55
#[test]
fn logs_lie_by_the_hash_of_the_project_and_the_date() {
    assert_eq!(Orchestrator.folder(PROJECT).as_deref(), Some(FOLDER));
    let home = Stage::empty();
    let log = home
        .root
        .with_file_name("home")
        .join(".config/claude/projects")
        .join(FOLDER);
    fs::create_dir_all(&log).unwrap();
    fs::write(log.join("2025-11-16.jsonl"), format!("{USER}\n")).unwrap();
    let listed = home.bare(&["sessions", "--json"]).json();
    assert_eq!(listed["sessions"][0]["layout"], "orchestrator");
    assert_eq!(listed["sessions"][0]["id"], format!("2025-11-16-{FOLDER}"));
    let file = listed["sessions"][0]["file"].as_str().unwrap();
    assert!(
        file.ends_with(&format!("{FOLDER}/2025-11-16.jsonl")),
        "{file}"
    );
}

/// Requirements: 004.3, 004.45
#[test]
fn a_session_is_found_by_project_and_date() {
    let (stage, id) = examples();
    let listed = stage.annals(&["sessions", "-p", PROJECT, "--json"]).json();
    assert_eq!(listed["sessions"][0]["id"], id);
    let other = stage.annals(&["sessions", "-p", "/Users/nick/projects/other", "--json"]);
    assert!(!other.out.contains(&id), "{other}");
    let by_date = format!("{PROJECT}/2025-11-16");
    let shown = stage.annals(&["show", &by_date, "--json"]).json();
    assert_eq!(shown["session"]["id"], id);
    stage.annals(&["append", &by_date, "-m", "Go on."]).fine();
    let text = fs::read_to_string(log(&stage, "2025-11-16")).unwrap();
    assert!(text.lines().last().unwrap().contains("Go on."), "{text}");
    let (store, _) = store(&stage);
    assert_eq!(
        store
            .resume(&by_date, WriteOptions::default())
            .unwrap()
            .session()
            .as_str(),
        id
    );
}

/// Requirements: 004.5, 004.7, 004.22, 004.25, 004.26, 004.27, 004.28, 004.29, 004.30, 004.31, 004.34, 004.35, 004.77
#[test]
fn the_documents_examples_are_read() {
    let (stage, id) = examples();
    let shown = stage.annals(&["show", &id, "--json", "--all"]).json();
    let entries = shown["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 4, "{shown}");
    assert_eq!(entries[0]["role"], "user");
    assert!(
        entries[0]["blocks"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("Analyze the")
    );
    let reply = &entries[1];
    assert_eq!(reply["model"], "claude-sonnet-4-5-20250929");
    assert_eq!(
        [
            &reply["usage"]["input"],
            &reply["usage"]["output"],
            &reply["usage"]["cache_write_5m"]
        ],
        [15234, 2156, 8543]
    );
    // 15234 × 3 + 2156 × 15 + 8543 × 3.75 dollars per million.
    assert_eq!(reply["cost_usd"], "0.11007825");
    assert_eq!(entries[2]["blocks"][0]["id"], "call_abc123");
    assert_eq!(entries[3]["blocks"][0]["call"], "call_abc123");
    assert_eq!(entries[3]["members"]["duration_ms"], 543);
    let checked = stage.annals(&["check", &id, "--json"]).json();
    assert_eq!(checked["ok"], true, "{checked}");
    let found = stage.annals(&["search", "hashPassword", "--json"]).json();
    assert_eq!(found["total"], 1);
}

/// Requirements: 004.32, 004.33
#[test]
fn failures_and_durations_are_read_and_written() {
    let stage = stage();
    fs::write(log(&stage, "2025-11-16"), format!("{CALL}\n{FAILURE}\n")).unwrap();
    let id = format!("2025-11-16-{FOLDER}");
    let shown = stage.annals(&["show", &id, "--json", "--all"]).json();
    let failed = &shown["entries"][1];
    assert_eq!(failed["blocks"][0]["is_error"], true);
    assert_eq!(failed["members"]["duration_ms"], 123);
    fs::write(log(&stage, "2025-11-16"), format!("{CALL}\n")).unwrap();
    let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_abc123","content":"ok"}],"duration_ms":7}"#;
    stage.with_stdin(&["append", &id], result).fine();
    let text = fs::read_to_string(log(&stage, "2025-11-16")).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["duration_ms"], &last["tool"]),
        (&json!(7), &json!("Read"))
    );
    for bad in [
        r#"{"role":"user","content":"x","duration_ms":7}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_abc123","content":"ok"}],"duration_ms":"long"}"#,
    ] {
        let refused = stage.refused(&["append", &id], bad);
        assert!(refused.err.contains("duration_ms"), "{refused}");
    }
}

/// Requirements: 004.8
#[test]
fn append_takes_the_documents_usage_and_refuses_what_it_does_not_know() {
    let (stage, id) = examples();
    for usage in [
        r#"{"input_tokens":5,"output_tokens":6,"cache_creation_tokens":7,"cache_read_tokens":3}"#,
        r#"{"inputTokens":5,"outputTokens":6,"cacheCreationTokens":7,"cacheReadTokens":3}"#,
    ] {
        let line = format!(r#"{{"role":"assistant","content":"hi","model":"m","usage":{usage}}}"#);
        stage.with_stdin(&["append", &id], line).fine();
        let text = fs::read_to_string(log(&stage, "2025-11-16")).unwrap();
        let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let wanted = json!({"input_tokens":5,"output_tokens":6,"cache_creation_tokens":7,"cache_read_tokens":3});
        assert_eq!(last["usage"], wanted);
    }
    let odd = r#"{"role":"assistant","content":"hi","usage":{"input_tokens":5,"tokens":1}}"#;
    let refused = stage.refused(&["append", &id], odd);
    assert!(refused.err.contains("`tokens`"), "{refused}");
}

/// Requirements: 004.6, 004.36, 004.85
#[test]
fn the_documents_parser_takes_all_that_annals_writes() {
    let stage = stage();
    let (store, root) = store(&stage);
    let new = NewSession::unnamed(PROJECT).unwrap();
    let writer = store.create(&root, &new, WriteOptions::default()).unwrap();
    let usage = Usage {
        input: 100,
        output: 50,
        ..Usage::default()
    };
    let system = Message::new(Role::System, vec![Block::Text("Be brief.".to_owned())]);
    writer.append(Draft::new(Body::Message(system))).unwrap();
    writer
        .append(Draft::user("Hello").member("source", r#""cli""#))
        .unwrap();
    let thought = Block::Thinking {
        text: "Hm.".to_owned(),
        signature: None,
    };
    let call = Block::ToolUse {
        id: "c".to_owned(),
        name: "Read".to_owned(),
        input: "{}".to_owned(),
    };
    let blocks = [thought, Block::Text("Hi!".to_owned()), call];
    let reply = Draft::assistant(blocks)
        .model("claude-sonnet-4-5-20250929")
        .usage(usage);
    writer.append(reply).unwrap();
    writer.append(Draft::tool_result("c", "text")).unwrap();
    let branch = writer.append(Draft::user("Again")).unwrap();
    writer
        .append(Draft::user("Otherwise").with_parent(branch.parent.unwrap()))
        .unwrap();
    writer.append(Draft::note("a remark")).unwrap();
    writer.compact("What was said.", None).unwrap();
    let agent = writer.delegate("c", "Explore", "Looks").unwrap();
    agent.append(Draft::user("Look.")).unwrap();
    let path = writer.path();
    assert_eq!(
        parsed(&path),
        "8 messages\n",
        "{}",
        fs::read_to_string(&path).unwrap()
    );
    // The commands write only records that the parser accepts.
    let id = writer.session().to_string();
    drop((agent, writer));
    stage.annals(&["fork", &id]).fine();
    stage
        .annals(&["append", &id, "--role", "system", "-m", "More."])
        .fine();
    stage.annals(&["title", &id, "A title"]).fine();
    let said = parsed(&path);
    assert!(!said.contains("warning"), "{said}");
    let converted = stage.root.with_file_name("converted");
    let other = Stage::with_fixture("branch-nested");
    let (from, into) = (
        other.root.display().to_string(),
        converted.display().to_string(),
    );
    let args = ["convert", &from, "--to", "orchestrator", "--into", &into];
    other.annals(&args).fine();
    for entry in walk(&converted) {
        if entry.extension().is_some_and(|ending| ending == "jsonl")
            && entry
                .file_name()
                .is_some_and(|name| name.len() == "2025-11-16.jsonl".len())
        {
            let said = parsed(&entry);
            assert!(!said.contains("warning"), "{said}");
        }
    }
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(walk(&path)),
            false => found.push(path),
        }
    }
    found
}

/// Requirements: 004.9, 004.37, 004.38, 004.39, 004.40, 004.41, 004.47, 004.50, 004.51, 004.70
#[test]
fn a_session_is_created_active_resumed_and_active_again() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = Stage::empty().with_layout("orchestrator");
    let (store, root) = store(&stage);
    let new = NewSession::unnamed(PROJECT).unwrap();
    let writer = store.create(&root, &new, WriteOptions::default()).unwrap();
    assert_eq!(writer.state(), SessionState::Created);
    assert_eq!(
        fs::read(writer.path()).unwrap(),
        b"",
        "a created session is an empty file"
    );
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&writer.path()), 0o600);
    assert_eq!(mode(writer.path().parent().unwrap()), 0o700);
    let listed = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(listed["sessions"][0]["state"], "created");
    for _ in 0..2 {
        writer.append(Draft::user("Hello")).unwrap();
        assert_eq!(writer.state(), SessionState::Active);
    }
    let id = writer.session().to_string();
    drop(writer);
    let again = store.resume(&id, WriteOptions::default()).unwrap();
    assert_eq!(again.state(), SessionState::Resumed);
    assert_eq!(again.totals().unwrap().messages, 2);
    again.append(Draft::user("More")).unwrap();
    assert_eq!(again.state(), SessionState::Active);
    let listed = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(listed["sessions"][0]["state"], "active");
    let missing = store.resume("2020-01-01-v_FXjHoCS5zUJmfyn-5v", WriteOptions::default());
    assert!(matches!(missing, Err(annals::Error::NotFound { .. })));
}

/// Requirements: 004.9, 004.45, 004.46
#[test]
fn an_append_creates_the_log_of_today_and_of_no_other_day() {
    let stage = stage();
    let today = format!("{PROJECT}/2026-11-15");
    let bad = stage.refused(&["append", &today], "no JSON");
    assert!(!log(&stage, "2026-11-15").exists(), "{bad}");
    refused_first_lines_leave_nothing(&stage, &today);
    stage.annals(&["append", &today, "-m", "First."]).fine();
    stage.annals(&["append", &today, "-m", "Second."]).fine();
    assert_eq!(parsed(&log(&stage, "2026-11-15")), "2 messages\n");
    let listed = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(listed["sessions"][0]["project"], PROJECT, "{listed}");
    let other = format!("{PROJECT}/2025-11-17");
    let refused = stage.refused(&["append", &other, "-m", "x"], "");
    let id = format!("2025-11-17-{FOLDER}");
    assert!(refused.err.contains("annals new --root"), "{refused}");
    assert!(refused.err.contains(&id), "{refused}");
    assert_eq!(stage.annals(&["show", &other]).code, 2);
    stage
        .annals(&["new", "--cwd", PROJECT, "--id", &id, "-m", "x"])
        .fine();
    stage.annals(&["append", &other, "-m", "y"]).fine();
    assert_eq!(parsed(&log(&stage, "2025-11-17")), "2 messages\n");
}

/// Refused first lines create no log for today, and the next valid line creates it.
fn refused_first_lines_leave_nothing(stage: &Stage, today: &str) {
    let bad = r#"{"role":"user","content":"x","colour":"red"}"#;
    let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"none","content":"x"}],"parent":"none"}"#;
    let folder = stage.root.join("projects").join(FOLDER);
    for there in [true, false] {
        if !there {
            fs::remove_dir(&folder).unwrap();
        }
        let before = listing(&stage.root);
        for line in [bad, result] {
            stage.refused(&["append", today], line);
            assert_eq!(listing(&stage.root), before, "{line}");
            let run = stage.with_stdin(&["append", today, "--follow"], line);
            assert_eq!(run.code, 2, "{run}");
            assert_eq!(listing(&stage.root), before, "{run}");
        }
        stage.with_stdin(&["append", today, "--follow"], "").fine();
        assert_eq!(listing(&stage.root), before);
    }
    let good = r#"{"role":"user","content":"Begin."}"#;
    let run = stage.with_stdin(&["append", today, "--follow"], format!("{bad}\n{good}\n"));
    assert!(run.out.contains(r#""line":2,"ok":true"#), "{run}");
    assert_eq!(parsed(&log(stage, "2026-11-15")), "1 messages\n");
    // An empty log that another program created stays.
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir_all(&folder).unwrap();
    fs::write(log(stage, "2026-11-15"), "").unwrap();
    stage.refused(&["append", today], bad);
    assert!(log(stage, "2026-11-15").exists());
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir_all(&folder).unwrap();
}

/// All paths below a directory.
fn listing(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// The document's cost calculation rejects a model that has no price.
///
/// Requirements: 004.26, 004.36, 004.59
#[test]
fn a_reply_without_a_model_can_be_priced_by_the_document() {
    let (stage, id) = examples();
    let last = |day: &str| -> serde_json::Value {
        let text = fs::read_to_string(log(&stage, day)).unwrap();
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    };
    let append = ["append", &id, "--role", "assistant", "-m", "Yes."];
    stage.annals(&append).fine();
    let line = last("2025-11-16");
    assert_eq!(line["model"], "claude-sonnet-4-5-20250929");
    assert_eq!(line["usage"]["output_tokens"], 0);
    let shown = stage.annals(&["show", &id, "--json", "--last", "1"]).json();
    assert!(shown["entries"][0]["model"].is_null(), "{shown}");
    assert!(!parsed(&log(&stage, "2025-11-16")).contains("warning"));
    // Usage without a model is counted for the session's last model.
    let spent = r#"{"role":"assistant","content":"x","usage":{"output_tokens":6}}"#;
    let named = ASSISTANT.replace("claude-sonnet-4-5-20250929", "claude-opus-4-1-20250805");
    let text = fs::read_to_string(log(&stage, "2025-11-16")).unwrap();
    fs::write(log(&stage, "2025-11-16"), format!("{text}{named}\n")).unwrap();
    stage.with_stdin(&["append", &id], spent).fine();
    let line = last("2025-11-16");
    assert_eq!(line["model"], "claude-opus-4-1-20250805");
    assert_eq!(line["usage"]["output_tokens"], 6);
    // No reply of this session has a model.
    fs::write(log(&stage, "2025-11-15"), format!("{USER}\n")).unwrap();
    let other = format!("2025-11-15-{FOLDER}");
    stage.annals(&["append", &other, "-m", "Go on."]).fine();
    let refused = stage.refused(&["append", &other], spent);
    assert!(refused.err.contains("`model`"), "{refused}");
}

/// Requirements: 004.10, 004.46
#[test]
fn a_session_is_continued_in_its_own_file() {
    let (stage, id) = examples();
    let empty = log(&stage, "2025-11-15");
    fs::write(&empty, "").unwrap();
    stage.annals(&["append", &id, "-m", "Go on."]).fine();
    stage
        .annals(&["append", &format!("2025-11-15-{FOLDER}"), "-m", "First."])
        .fine();
    let text = |day: &str| fs::read_to_string(log(&stage, day)).unwrap();
    assert!(text("2025-11-16").contains("Go on."));
    assert!(text("2025-11-15").contains("First."));
    let logs = walk(&stage.root);
    let logs = logs
        .iter()
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"));
    assert_eq!(logs.count(), 2, "no other file was begun");
}

/// Requirements: 004.12, 004.69
#[test]
fn an_append_is_one_line_behind_what_was_there() {
    let (stage, id) = examples();
    let before = fs::read(log(&stage, "2025-11-16")).unwrap();
    stage.annals(&["append", &id, "-m", "Go on."]).fine();
    let after = fs::read(log(&stage, "2025-11-16")).unwrap();
    let added = after
        .strip_prefix(before.as_slice())
        .expect("what was there stays");
    assert_eq!(added.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert!(added.ends_with(b"\n"));
}

/// Counts bytes read per thread, which unlike times do not depend on the machine's load.
///
/// Requirements: 004.13, 004.14, 004.16, 004.17
#[test]
fn an_append_and_a_tail_read_cost_the_same_on_a_large_log() {
    const MANY: usize = 100_000;
    let (stage, id) = examples();
    let path = log(&stage, "2025-11-16");
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str(&format!("{USER}\n{ASSISTANT}\n").repeat(MANY / 2));
    fs::write(&path, text).unwrap();
    let (store, _) = store(&stage);
    let read = || -> Option<u64> {
        let io = fs::read_to_string("/proc/thread-self/io").ok()?;
        io.lines()
            .find_map(|line| line.strip_prefix("rchar: "))?
            .parse()
            .ok()
    };
    let Some(before) = read() else {
        eprintln!("skipped: this system does not count what a thread reads");
        return;
    };
    let writer = store.resume(&id, WriteOptions::default()).unwrap();
    writer.append(Draft::user("Go on.")).unwrap();
    let appended = read().unwrap();
    let tail = store.tail(&id, 20).unwrap();
    assert_eq!(tail.last_messages(20).unwrap().len(), 20);
    let tailed = read().unwrap();
    assert!(fs::metadata(&path).unwrap().len() > 20 << 20);
    assert!(
        appended - before < 4 << 20,
        "an append read {} bytes",
        appended - before
    );
    assert!(
        tailed - appended < 4 << 20,
        "a tail read {} bytes",
        tailed - appended
    );
}

/// Requirements: 004.15, 004.71, 004.72, 004.75, 004.78, 004.79, 004.87
#[test]
fn corrupt_lines_are_reported_skipped_and_repaired() {
    let stage = stage();
    // The document's own test case.
    let text = "{\"type\":\"user\",\"content\":\"Valid 1\",\"timestamp\":\"2025-11-16T10:00:00Z\"}\n{\"type\":\"user\",\"content\":\"Corrupt line\n\n{\"type\":\"user\",\"content\":\"Valid 2\",\"timestamp\":\"2025-11-16T10:00:02Z\"}\n";
    fs::write(log(&stage, "2025-11-16"), text).unwrap();
    stage.settle();
    let id = format!("2025-11-16-{FOLDER}");
    let shown = stage.annals(&["show", &id, "--json"]).json();
    let texts = shown["entries"].as_array().unwrap().iter();
    let texts: Vec<_> = texts
        .map(|entry| entry["blocks"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["Valid 1", "Valid 2"]);
    let checked = stage.annals(&["check", &id, "--json"]);
    assert_eq!(checked.code, 1);
    let checked: serde_json::Value = serde_json::from_str(&checked.out).unwrap();
    let file = &checked["files"][0];
    assert_eq!((&file["lines"], &file["valid"]), (&json!(3), &json!(2)));
    assert_eq!(checked["ok"], false);
    let flaws: Vec<_> = file["flaws"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flaw| &flaw["line"])
        .collect();
    assert_eq!(flaws, [2]);
    let before = fs::read(log(&stage, "2025-11-16")).unwrap();
    let repaired = stage.annals(&["repair", &id, "--apply", "--json"]).json();
    assert_eq!(
        repaired["files"].as_array().map(Vec::len),
        Some(1),
        "{repaired}"
    );
    assert_eq!(parsed(&log(&stage, "2025-11-16")), "2 messages\n");
    stage.annals(&["repair", "--undo", &id]).fine();
    assert_eq!(fs::read(log(&stage, "2025-11-16")).unwrap(), before);
}

/// Requirements: 004.18, 004.48, 004.57, 004.58, 004.59, 004.60, 004.63, 004.64, 004.86
#[test]
fn costs_are_exact_and_shown_to_the_cent() {
    let stage = stage();
    let (store, root) = store(&stage);
    let new = NewSession::unnamed(PROJECT).unwrap();
    let writer = store.create(&root, &new, WriteOptions::default()).unwrap();
    let usage = Usage {
        input: 15_000,
        output: 2_150,
        cache_write_5m: 8_000,
        ..Usage::default()
    };
    let reply = |model: &str| {
        Draft::assistant([Block::Text("x".to_owned())])
            .model(model)
            .usage(usage)
    };
    writer.append(reply("claude-sonnet-4-5-20250929")).unwrap();
    let totals = writer.totals().unwrap();
    assert_eq!(totals.usage.total(), 25_150);
    let cost = stage.annals(&["cost", "--json"]).json();
    assert_eq!(cost["total"]["cost_usd"], "0.10725");
    assert!(stage.annals(&["cost"]).fine().out.contains("$0.11"));
    // 15,000 × 15 + 2,150 × 75 + 8,000 × 18.75 dollars per million, and the first model's prices
    // again.
    writer.append(reply("claude-opus-4-1-20250805")).unwrap();
    writer.append(reply("claude-3-5-sonnet-20241022")).unwrap();
    let cost = stage.annals(&["cost", "--json"]).json();
    assert_eq!(cost["total"]["cost_usd"], "0.75075");
}

/// Requirements: 004.73, 004.74
#[test]
fn a_check_shows_how_a_bad_line_begins_and_reports_unknown_types() {
    let stage = stage();
    let long = format!("{{\"type\":\"user\",\"content\":\"{}", "é".repeat(200));
    let text = format!("{USER}\n{long}\n{{\"type\":\"weird\"}}\n");
    fs::write(log(&stage, "2025-11-16"), text).unwrap();
    stage.settle();
    let checked = stage.annals(&["check", "--json"]);
    let checked: serde_json::Value = serde_json::from_str(&checked.out).unwrap();
    let flaws = checked["files"][0]["flaws"].as_array().unwrap();
    let at = |line: u64| flaws.iter().find(|flaw| flaw["line"] == line).unwrap();
    let begins: String = long.chars().take(100).collect();
    assert_eq!(at(2)["text"], begins);
    assert_eq!(at(3)["kind"], "unknown-type");
    assert!(at(3)["detail"].as_str().unwrap().contains("`weird`"));
    let shown = stage.annals(&["check", "--all"]);
    assert!(shown.out.contains("unknown-type"), "{shown}");
}

/// Requirements: 004.61
#[test]
fn an_unknown_model_is_marked_and_the_rest_is_priced() {
    let (stage, _) = examples();
    let unknown = ASSISTANT
        .replace("claude-sonnet-4-5-20250929", "model-x")
        .replace("05.123Z", "07.000Z");
    let text = fs::read_to_string(log(&stage, "2025-11-16")).unwrap() + &unknown + "\n";
    fs::write(log(&stage, "2025-11-16"), text).unwrap();
    let cost = stage.annals(&["cost", "--json"]).json();
    assert_eq!(cost["unpriced_models"], json!(["model-x"]));
    assert_eq!(cost["total"]["cost_usd"], "0.11007825");
}

/// Requirements: 004.19
#[test]
fn processes_of_annals_do_not_lose_each_others_records() {
    let (stage, id) = examples();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (stage, id) = (&stage, &id);
            scope.spawn(move || {
                for number in 0..5 {
                    let text = format!("message {writer}.{number}.");
                    stage.annals(&["append", id, "-m", &text]).fine();
                }
            });
        }
    });
    let text = fs::read_to_string(log(&stage, "2025-11-16")).unwrap();
    for (writer, number) in (0..4).flat_map(|writer| (0..5).map(move |number| (writer, number))) {
        assert_eq!(
            text.matches(&format!("message {writer}.{number}.")).count(),
            1
        );
    }
}

/// One writer copies the log under the lock and renames the copy over it, another appends.
/// `gates/foreign.py` runs such writers for minutes, and kills them.
///
/// Requirements: 004.20, 004.21, 004.65
#[test]
fn concurrent_writers_of_the_documents_lose_no_update() {
    let (stage, id) = examples();
    let path = log(&stage, "2025-11-16");
    let writer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../gates/orchestrator_writer.py");
    let foreign = |kind: &str| {
        let mut command = Command::new("python3");
        command.arg("-B").arg(&writer).args([
            kind,
            path.to_str().unwrap(),
            kind,
            "40",
            "--keep-lock",
        ]);
        command
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("python3 runs the document's writer")
    };
    let mut writers = [foreign("copy"), foreign("append")];
    for number in 0..12 {
        stage
            .annals(&["append", &id, "-m", &format!("ours {number}.")])
            .fine();
    }
    assert!(
        writers
            .iter_mut()
            .all(|writer| writer.wait().unwrap().success())
    );
    let text = fs::read_to_string(&path).unwrap();
    for number in 0..12 {
        assert_eq!(
            text.matches(&format!("ours {number}.")).count(),
            1,
            "{number}"
        );
    }
    for (kind, number) in ["copy", "append"]
        .iter()
        .flat_map(|kind| (0..40).map(move |at| (kind, at)))
    {
        assert_eq!(
            text.matches(&format!("\"{kind}-{number}\"")).count(),
            1,
            "{kind} {number}"
        );
    }
}

/// Requirements: 004.66
#[test]
fn a_log_whose_lock_is_held_is_not_written_to() {
    let (stage, id) = examples();
    let path = log(&stage, "2025-11-16");
    let lock = fs::File::create(path.with_extension("jsonl.lock")).unwrap();
    lock.lock().unwrap();
    let before = fs::read(&path).unwrap();
    let run = stage.annals(&["append", &id, "-m", "x"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("locked"), "{run}");
    assert_eq!(fs::read(&path).unwrap(), before);
    drop(lock);
    stage.annals(&["append", &id, "-m", "x"]).fine();
}

/// Requirements: 004.23, 004.24
#[test]
fn a_message_has_its_source_and_its_session() {
    let stage = stage();
    let lines = [
        r#"{"type":"user","content":"one","timestamp":"2025-11-16T10:00:00Z","metadata":{"source":"api","sessionId":"s1"}}"#,
        r#"{"type":"user","content":"two","timestamp":"2025-11-16T10:00:01Z","metadata":{"sessionId":"s2"}}"#,
        r#"{"type":"user","content":"three","timestamp":"2025-11-16T10:00:02Z"}"#,
    ];
    fs::write(log(&stage, "2025-11-16"), lines.join("\n") + "\n").unwrap();
    let listed = stage.annals(&["sessions", "--json"]).json();
    let rows = listed["sessions"].as_array().unwrap();
    let mut ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [&format!("2025-11-16-{FOLDER}"), "s1", "s2"]);
    let first = rows.iter().find(|row| row["id"] == "s1").unwrap();
    assert_eq!(first["source"], "api");
    for source in ["cli", "api", "agent"] {
        let line = format!(r#"{{"role":"user","content":"x","source":"{source}"}}"#);
        stage.with_stdin(&["append", "s1"], line).fine();
        let text = fs::read_to_string(log(&stage, "2025-11-16")).unwrap();
        let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(
            last["metadata"],
            json!({"source": source, "sessionId": "s1"})
        );
    }
    // `metadata` as in the document.
    let nested = r#"{"role":"user","content":"x","metadata":{"source":"cli","sessionId":"s1"}}"#;
    stage.with_stdin(&["append", "s1"], nested).fine();
    let text = fs::read_to_string(log(&stage, "2025-11-16")).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["metadata"], json!({"source":"cli","sessionId":"s1"}));
    // A search finds the prompts with this source, not other messages of their session.
    for (source, hits) in [("cli", 2), ("api", 2), ("agent", 1)] {
        let query = format!("source:{source}");
        let found = stage.annals(&["search", &query, "--json"]).json();
        let found = found["hits"].as_array().map(Vec::len);
        assert_eq!(found, Some(hits), "{source}");
    }
    for (bad, named) in [
        (r#""source":"web""#, "source"),
        (r#""metadata":{"source":"web"}"#, "metadata.source"),
        (r#""metadata":{"sessionId":"s2"}"#, "metadata.sessionId"),
        (r#""metadata":{"source":"cli","tags":[]}"#, "`tags`"),
        (r#""metadata":"cli""#, "`metadata`"),
        (r#""source":"api","metadata":{"source":"cli"}"#, "differ"),
    ] {
        let line = format!(r#"{{"role":"user","content":"x",{bad}}}"#);
        let refused = stage.refused(&["append", "s1"], &line);
        assert!(refused.err.contains(named), "{refused}");
    }
    let reply = r#"{"role":"assistant","content":"x","source":"cli"}"#;
    let refused = stage.refused(&["append", "s1"], reply);
    assert!(refused.err.contains("source"), "{refused}");
}

/// Requirements: 004.11, 004.42, 004.43, 004.44, 004.52, 004.53, 004.54, 004.80, 004.81, 004.83, 004.84
#[test]
fn old_sessions_expire_and_are_cleaned_up() {
    let (stage, id) = examples();
    // By the fixed clock the file is fresh, so its program would keep it.
    let listed = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(listed["sessions"][0]["state"], "active");
    let overview = stage.annals(&[]).fine();
    assert!(
        !overview.out.contains("past its retention period"),
        "{overview}"
    );
    let plan = stage.annals(&["clean", "--json"]).json();
    assert_eq!(plan["sessions"], serde_json::json!([]), "{plan}");
    touch(&log(&stage, "2025-11-16"));
    let listed = stage.annals(&["sessions", "--state", "expired", "--json"]);
    assert_eq!(listed.json()["sessions"][0]["state"], "expired");
    // Without `--older-than` the plan uses the document's 30 days, and `--apply` is refused.
    let plan = stage.annals(&["clean", "--json"]).json();
    assert_eq!(plan["sessions"][0]["id"], id, "{plan}");
    assert_eq!(plan["sessions"][0]["by"], "file", "{plan}");
    assert!(log(&stage, "2025-11-16").exists());
    stage.refused(&["clean", "--apply"], "");
    let done = stage
        .annals(&["clean", "--older-than", "30d", "--apply", "--json"])
        .json();
    assert_eq!(done["sessions"].as_array().map(Vec::len), Some(1));
    assert!(
        !log(&stage, "2025-11-16").parent().unwrap().exists(),
        "empty directories go"
    );
    let deleted = stage.annals(&["delete", "--list", "--json"]).fine();
    assert!(deleted.out.contains(&id), "{deleted}");
    stage.annals(&["clean", "--purge", "--apply"]).fine();
    assert_ne!(stage.annals(&["delete", "--undo", &id]).code, 0);
}

/// Sets a file's modification time to that of the document's examples.
fn touch(path: &Path) {
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_763_290_000);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(old).unwrap();
}

/// Requirements: 004.80, 004.83
#[test]
fn what_a_deleted_log_leaves_behind_is_cleaned_up_too() {
    let (stage, id) = examples();
    touch(&log(&stage, "2025-11-16"));
    stage.annals(&["pin", &id]).fine();
    let folder = stage.root.join("projects/aaaaaaaaaaaaaaaaaaaa");
    fs::create_dir(&folder).unwrap();
    for name in ["2025-10-01.annals", "2025-10-01.jsonl.lock"] {
        fs::write(folder.join(name), "").unwrap();
        touch(&folder.join(name));
    }
    // The lock file of an existing log stays.
    let lock = log(&stage, "2025-11-16").with_extension("jsonl.lock");
    fs::write(&lock, "").unwrap();
    touch(&lock);
    let plan = stage.annals(&["clean"]).fine();
    let reported = "2025-10-01.jsonl no longer exists, but its files do: 2025-10-01.annals, 2025-10-01.jsonl.lock";
    assert!(plan.out.contains(reported), "{plan}");
    assert!(plan.out.contains("0 sessions, 2 files"), "{plan}");
    let done = stage
        .annals(&["clean", "--older-than", "30d", "--apply", "--json"])
        .json();
    assert_eq!(
        done["leftovers"].as_array().map(Vec::len),
        Some(1),
        "{done}"
    );
    assert!(!folder.exists() && lock.exists());
    let trash = done["leftovers"][0]["trash"].as_str().unwrap();
    stage.annals(&["delete", "--undo", trash]).fine();
    assert!(folder.join("2025-10-01.annals").exists());
    assert!(folder.join("2025-10-01.jsonl.lock").exists());
}

/// Requirements: 004.82
#[test]
fn a_clean_up_continues_after_a_session_that_cannot_be_moved() {
    let (stage, _) = examples();
    let other = log(&stage, "2025-11-15");
    fs::write(&other, format!("{}\n", USER.replace("11-16", "11-15"))).unwrap();
    for path in [&other, &log(&stage, "2025-11-16")] {
        touch(path);
    }
    let lock = fs::File::create(log(&stage, "2025-11-16").with_extension("jsonl.lock")).unwrap();
    lock.lock().unwrap();
    let run = stage.annals(&["clean", "--older-than", "30d", "--apply"]);
    assert_ne!(run.code, 0, "{run}");
    assert!(run.err.contains("2025-11-16.jsonl is locked"), "{run}");
    assert!(log(&stage, "2025-11-16").exists());
    assert!(!other.exists(), "{run}");
}

/// Requirements: 004.36
#[test]
fn raw_records_are_the_documents_own_or_refused() {
    let (stage, id) = examples();
    let line = USER.replace("10:30:00", "10:31:00");
    stage
        .with_stdin(&["append", &id, "--raw"], line.as_str())
        .fine();
    let text = fs::read_to_string(log(&stage, "2025-11-16")).unwrap();
    assert_eq!(text.lines().last(), Some(line.as_str()));
    for bad in [
        r#"{"type":"system","content":"x","timestamp":"2025-11-16T10:32:00Z"}"#,
        r#"{"type":"user","content":"x","timestamp":"2025-11-16T10:32:00Z","extra":1}"#,
        r#"{"type":"user","content":"x"}"#,
        r#"{"type":"assistant","content":"x","timestamp":"2025-11-16T10:32:00Z"}"#,
        r#"{"type":"tool_result","tool":"T","timestamp":"2025-11-16T10:32:00Z","metadata":{}}"#,
    ] {
        let refused = stage.refused(&["append", &id, "--raw"], bad);
        assert!(refused.err.contains("nothing was written"), "{refused}");
    }
}
