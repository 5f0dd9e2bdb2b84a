//! Requirements for every layout, tested through the program: writing from any language, pages of
//! lists, messages by id.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Run, Stage};

const ID: &str = "00000000-0000-4000-8000-0000000000aa";
const SDK: &str = "e8d973c7-5f6a-4b43-9c1d-2f1de4a35b0e";

/// A stage with a new session of this layout, and the session's id.
fn begun(layout: &'static str) -> (Stage, String) {
    let stage = Stage::empty().with_layout(layout);
    let work = stage.work();
    if layout == "chorus" {
        let added = [
            "chorus",
            "workspaces",
            "add",
            work.to_str().unwrap(),
            "--id",
            "ws-1",
        ];
        stage.annals(&added).fine();
    }
    let args = ["new", "--id", ID, "--cwd", work.to_str().unwrap(), "--json"];
    let session = stage.annals(&args).json()["session"]
        .as_str()
        .unwrap()
        .to_owned();
    (stage, session)
}

const LAYOUTS: [&str; 4] = ["claude-code", "chorus", "clog", "orchestrator"];

fn entries(stage: &Stage, session: &str) -> Vec<Value> {
    let shown = stage.annals(&["show", session, "--all", "--json"]).json();
    let mut entries = shown["entries"].as_array().unwrap().clone();
    // The client's records outside the conversation have no id.
    entries.retain(|entry| !entry["id"].is_null() || entry["kind"] == "message");
    entries
}

/// `append --follow` in the background.
struct Follow {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Follow {
    fn start(stage: &Stage, layout: &str, args: &[&str]) -> Self {
        let root = format!("{layout}:{}", stage.root.display());
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("annals"))
            .args(["--root", &root, "append", "--follow"])
            .args(args)
            .env_clear()
            .envs(stage.env())
            .current_dir(stage.work())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Follow {
            child,
            stdin,
            stdout,
        }
    }

    /// Sends a line and returns its answer.
    fn send(&mut self, line: &str) -> Value {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    fn end(mut self) -> i32 {
        drop(self.stdin.take());
        self.child.wait().unwrap().code().unwrap()
    }
}

/// Requirements: 004.8, 004.85
#[test]
fn append_accepts_every_spelling_of_usage_in_every_layout() {
    for layout in LAYOUTS {
        for usage in [
            r#"{"input_tokens":5,"output_tokens":2,"cache_creation_tokens":7,"cache_read_tokens":3}"#,
            r#"{"inputTokens":5,"outputTokens":2,"cacheCreationTokens":7,"cacheReadTokens":3}"#,
            r#"{"input_tokens":5,"output_tokens":2,"cache_creation_input_tokens":7,"cache_read_input_tokens":3,"service_tier":"standard"}"#,
        ] {
            let (stage, session) = begun(layout);
            stage
                .annals(&["append", &session, "-m", "How much?"])
                .fine();
            let line = format!(
                r#"{{"role":"assistant","content":"Much.","model":"claude-sonnet-4-5-20250929","usage":{usage}}}"#
            );
            stage.with_stdin(&["append", &session], line).fine();
            let read = entries(&stage, &session);
            let reported = &read.last().unwrap()["usage"];
            let counts = ["input", "output", "cache_write_5m", "cache_read"];
            let counts: Vec<u64> = counts
                .iter()
                .map(|it| reported[*it].as_u64().unwrap())
                .collect();
            assert_eq!(counts, [5, 2, 7, 3], "{layout} {usage}");
        }
    }
}

/// Requirements: 004.8
#[test]
fn unknown_members_of_usage_are_refused() {
    let (stage, session) = begun("orchestrator");
    for (usage, named) in [
        (r#"{"input_tokens":5,"total_tokens":7}"#, "`total_tokens`"),
        (r#"{"input_tokens":5,"inputTokens":6}"#, "inputTokens"),
        (r#"{"service_level":"batch"}"#, "`service_level`"),
    ] {
        let line = format!(r#"{{"role":"assistant","content":"a","usage":{usage}}}"#);
        let run = stage.refused(&["append", &session], &line);
        assert!(run.err.contains(named), "{usage}: {run}");
    }
}

/// In every layout, a member is either read back or refused.
///
/// Requirements: 002.22, 004.8, 000.54
#[test]
fn no_member_of_a_message_is_dropped_at_any_layout() {
    /// Whether `show --json` or the raw record has the given value.
    fn says(stage: &Stage, session: &str, name: &str, value: &Value) -> bool {
        let shown = entries(stage, session);
        let last = shown.last().unwrap();
        let same = match name {
            "model" => &last["model"] == value,
            "stop_reason" => &last["stop_reason"] == value,
            "id" => &last["id"] == value,
            "message_id" => &last["response"] == value,
            "request_id" => &last["request"] == value,
            "timestamp" => last["time"]
                .as_str()
                .is_some_and(|time| time.starts_with("2026-11-15T12:30:00")),
            name => &last["members"][name] == value || &last[name] == value,
        };
        let raw = stage.annals(&["show", session, "--all", "--raw"]).out;
        same || (!matches!(name, "id" | "timestamp") && {
            let spelled = value.to_string();
            raw.lines()
                .last()
                .unwrap()
                .contains(spelled.trim_matches('"'))
        })
    }
    let members: [(&str, Value); 16] = [
        ("model", json!("claude-sonnet-4-5-20250929")),
        ("stop_reason", json!("max_tokens")),
        ("stop_sequence", json!("STOP-HERE")),
        ("id", json!("msg_01")),
        ("message_id", json!("msg_response_1")),
        ("request_id", json!("req_1")),
        ("timestamp", json!("2026-11-15T12:30:00.000Z")),
        ("channel", json!("telegram-7")),
        ("sessionId", json!("00000000-2222-4333-8444-555555555555")),
        ("costUsd", json!(0.0123)),
        ("durationMs", json!(4321)),
        ("duration_ms", json!(4321)),
        ("source", json!("cli")),
        ("claudeMessage", json!({"zz": "yy-kept"})),
        ("container", json!({"id": "container_17"})),
        ("modle", json!("typo-17")),
    ];
    for layout in LAYOUTS {
        let mut refused = Vec::new();
        let (stage, session) = begun(layout);
        stage.annals(&["append", &session, "-m", "Well?"]).fine();
        for (name, value) in &members {
            let mut line = json!({"role": "assistant", "content": "Yes."});
            line[*name] = value.clone();
            let before = stage.tree();
            let run = stage.with_stdin(&["append", &session], line.to_string());
            match run.code {
                0 => assert!(
                    says(&stage, &session, name, value),
                    "{layout} dropped {name}: {}",
                    stage.annals(&["show", &session, "--all", "--raw"]).out
                ),
                _ => {
                    assert!(run.err.contains(*name), "{layout} {name}: {run}");
                    assert!(stage.tree() == before, "{layout} {name}");
                    refused.push(*name);
                }
            }
        }
        assert!(refused.contains(&"modle"), "{layout}");
        assert!(!refused.contains(&"id"), "{layout}: {refused:?}");
        assert!(!refused.contains(&"timestamp"), "{layout}: {refused:?}");
        assert!(!refused.contains(&"stop_reason"), "{layout}: {refused:?}");
    }
}

/// Requirements: 002.22
#[test]
fn an_id_of_the_caller_is_kept_and_a_retry_is_refused() {
    for layout in LAYOUTS {
        let (stage, session) = begun(layout);
        let line = r#"{"role":"user","content":"Hi","id":"msg_01"}"#;
        stage.with_stdin(&["append", &session], line).fine();
        let read = entries(&stage, &session);
        assert_eq!(read.last().unwrap()["id"], "msg_01", "{layout}");
        let run = stage.refused(&["append", &session], line);
        assert!(run.err.contains("msg_01"), "{layout}: {run}");
    }
}

/// Requirements: 001.29, 001.30, 001.32, 001.33
#[test]
fn append_begins_a_sub_agent_under_the_id_of_the_caller() {
    let (stage, session) = begun("claude-code");
    stage
        .annals(&["append", &session, "-m", "Explore it"])
        .fine();
    let run = stage.annals(&[
        "append",
        &session,
        "--agent",
        "a753668",
        "--kind",
        "Explore",
        "--description",
        "Find callers",
        "-m",
        "Look",
    ]);
    assert!(run.out.contains("created sub-agent a753668"), "{run}");
    let again = stage
        .annals(&["append", &session, "--agent", "a753668", "-m", "And there"])
        .fine();
    assert!(!again.out.contains("created"), "{again}");
    let shown = stage
        .annals(&["show", &session, "--agent", "a753668", "--json"])
        .json();
    assert_eq!(shown["entries"].as_array().unwrap().len(), 2);
    let tree = stage.annals(&["tree", &session]).fine();
    assert!(tree.out.contains("Explore"), "{tree}");
    let run = stage.refused(
        &[
            "append", &session, "--agent", "a753668", "--kind", "Plan", "-m", "x",
        ],
        "",
    );
    assert!(run.err.contains("exists already"), "{run}");
    stage
        .annals(&["todos", "add", &session, "--agent", "b1", "Read"])
        .fine();
    assert!(
        stage
            .root
            .join(format!("todos/{session}-agent-b1.json"))
            .exists()
    );
}

/// Requirements: 001.30
#[test]
fn a_sub_agent_begins_at_every_layout() {
    for layout in LAYOUTS {
        let (stage, session) = begun(layout);
        stage.annals(&["append", &session, "-m", "Go"]).fine();
        let args = ["append", &session, "--agent", "a753668", "-m", "Look"];
        stage.annals(&args).fine();
        let args = ["show", &session, "--agent", "a753668", "--json"];
        let shown = stage.annals(&args).json();
        assert_eq!(shown["entries"].as_array().unwrap().len(), 1, "{layout}");
    }
}

/// Requirements: 001.37
#[test]
fn a_todo_is_added_with_its_priority() {
    let (stage, session) = begun("claude-code");
    let args = ["todos", "add", &session, "--priority", "high", "Ship it"];
    stage.annals(&args).fine();
    let todos = stage.annals(&["todos", &session, "--json"]).json();
    assert_eq!(todos["todos"][0]["priority"], "high");
    assert_eq!(todos["total"], 1);
}

/// Requirements: 001.11
#[test]
fn history_is_written_as_the_client_writes_it() {
    let (stage, session) = begun("claude-code");
    let args = ["history", "add", "Run the tests", "--session", &session];
    stage.annals(&args).fine();
    stage.annals(&["history", "add", "-v?"]).fine();
    let text = std::fs::read_to_string(stage.root.join("history.jsonl")).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["display"], "Run the tests");
    assert_eq!(lines[0]["pastedContents"], json!({}));
    assert_eq!(lines[0]["timestamp"], 1_794_744_000_000_u64);
    assert_eq!(lines[0]["sessionId"], session);
    assert_eq!(lines[0]["project"], stage.work().to_str().unwrap());
    assert_eq!(lines[1].get("sessionId"), None);
    let listed = stage.annals(&["history", "-n", "1", "--json"]).json();
    assert_eq!(listed["total"], 2);
    assert_eq!(listed["history"].as_array().unwrap().len(), 1);
    let (stage, _) = begun("clog");
    let run = stage.refused(&["history", "add", "x"], "");
    assert!(run.err.contains("has no prompt history"), "{run}");
}

/// Requirements: 001.9, 001.61
#[test]
fn versions_of_files_are_saved_and_given_back() {
    let (stage, session) = begun("claude-code");
    let file = stage.work().join("main.rs");
    let name = file.to_str().unwrap();
    std::fs::write(&file, "fn main() {}\n").unwrap();
    let run = stage.refused(&["files", &session, "--save", name], "");
    assert!(run.err.contains("has no message yet"), "{run}");
    stage
        .annals(&["append", &session, "-m", "Change it"])
        .fine();
    stage.annals(&["files", &session, "--save", name]).fine();
    std::fs::write(&file, "fn main() { run() }\n").unwrap();
    let absent = stage.work().join("new.rs");
    let saved = stage
        .annals(&[
            "files",
            &session,
            "--json",
            "--save",
            name,
            absent.to_str().unwrap(),
        ])
        .json();
    assert_eq!(saved["saved"][0]["version"], 2);
    assert_eq!(saved["saved"][1]["stored"], Value::Null);
    std::fs::write(&file, "broken\n").unwrap();
    let old = stage
        .annals(&["files", &session, "main.rs", "--version", "1"])
        .fine();
    assert_eq!(old.out, "fn main() {}\n");
    let diff = stage
        .annals(&["files", &session, "main.rs", "--diff", "1", "2"])
        .fine();
    assert!(diff.out.contains("run()"), "{diff}");
    let listed = stage.annals(&["files", &session, "--json"]).json();
    assert_eq!(listed["files"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(stage.annals(&["check", &session]).code, 0);
    let (stage, session) = begun("clog");
    stage.annals(&["append", &session, "-m", "x"]).fine();
    let run = stage.refused(&["files", &session, "--save", "x"], "");
    assert!(run.err.contains("does not store file versions"), "{run}");
}

/// Requirements: 003.23
#[test]
fn latest_is_the_session_of_this_directory_that_was_written_last() {
    let stage = Stage::empty();
    let work = stage.work();
    let new = |id: &str, cwd: &str, at: &str| {
        let args = ["new", "--id", id, "--cwd", cwd];
        stage.annals(&args).fine();
        let line = format!(r#"{{"role":"user","content":"in {id}","timestamp":"{at}"}}"#);
        stage.with_stdin(&["append", id], line).fine();
    };
    let other = "00000000-0000-4000-8000-0000000000bb";
    let old = "00000000-0000-4000-8000-0000000000cc";
    new(old, work.to_str().unwrap(), "2026-11-15T12:00:01Z");
    new(ID, work.to_str().unwrap(), "2026-11-15T12:00:05Z");
    new(other, "/elsewhere", "2026-11-15T12:00:09Z");
    let shown = stage.annals(&["show", "latest", "--json"]).json();
    assert_eq!(shown["session"]["id"], ID);
    let store = annals::store::Store::new(vec![
        annals::store::Root::new("claude-code", &stage.root).unwrap(),
    ]);
    let latest = |project| store.latest(project).map(|files| files.id.to_string());
    assert_eq!(latest(None).unwrap(), other);
    assert_eq!(latest(work.to_str()).unwrap(), ID);
    assert!(latest(Some("/nowhere")).is_err());
    let added = stage
        .annals(&["append", "latest", "-m", "more", "--json"])
        .json();
    assert_eq!(added["session"], ID);
    // In another directory, `latest` reads the newest session of all, and refuses to write.
    let sub = work.join("unknown");
    std::fs::create_dir(&sub).unwrap();
    let root = format!("claude-code:{}", stage.root.display());
    let run = |args: &[&str]| -> Run {
        let mut command = stage.command();
        command.current_dir(&sub).args(["--root", &root]).args(args);
        stage.run_of(&command.output().unwrap())
    };
    let shown = run(&["show", "latest", "--json"]);
    assert_eq!(shown.json()["session"]["id"], other);
    assert!(shown.err.contains("using the latest of all"), "{shown}");
    let refused = run(&["append", "latest", "-m", "x"]);
    assert_eq!(refused.code, 2, "{refused}");
}

/// Requirements: 001.81, 001.82
#[test]
fn a_message_is_found_by_its_id_alone() {
    let (stage, session) = begun("claude-code");
    let lines = concat!(
        r#"{"role":"user","content":"one","id":"msg4a"}"#,
        "\n",
        r#"{"role":"assistant","content":"two","id":"msg4b"}"#,
        "\n",
        r#"{"role":"user","content":"three","id":"msg5"}"#
    );
    stage.with_stdin(&["append", &session], lines).fine();
    let shown = stage.annals(&["show", "msg4b", "--json"]).json();
    assert_eq!(shown["session"]["id"], session);
    let ids: Vec<&str> = shown["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["msg4a", "msg4b"]);
    let run = stage.annals(&["show", "msg4"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(
        run.err.contains("msg4a") && run.err.contains("msg4b"),
        "{run}"
    );
    assert_eq!(stage.annals(&["show", "msg6"]).code, 2);
    let store = annals::store::Store::new(vec![
        annals::store::Root::new("claude-code", &stage.root).unwrap(),
    ]);
    assert_eq!(
        store.message("msg4b").unwrap().id.unwrap().as_str(),
        "msg4b"
    );
    assert_eq!(store.ancestry("msg5").unwrap().len(), 3);
    assert!(store.message("nothing").is_err());
    // The original is found, not its copy in a fork.
    stage.annals(&["fork", &session, "--id", SDK]).fine();
    let shown = stage.annals(&["show", "msg4b", "--json"]).json();
    assert_eq!(shown["session"]["id"], session);
}

/// Requirements: 003.31, 003.56
#[test]
fn lists_have_pages_and_say_how_long_they_are() {
    let stage = Stage::empty();
    let work = stage.work();
    for n in 0..3 {
        let id = format!("00000000-0000-4000-8000-00000000000{n}");
        let args = ["new", "--id", &id, "--cwd", work.to_str().unwrap()];
        stage.annals(&args).fine();
        let line = format!(
            r#"{{"role":"user","content":"needle {n}","timestamp":"2026-11-15T12:00:0{n}Z"}}"#
        );
        stage.with_stdin(&["append", &id], line).fine();
        stage.annals(&["notes", "add", &id, "a note"]).fine();
        stage.annals(&["todos", "add", &id, "a", "b"]).fine();
    }
    let page = |verb: &[&str], list: &str, total: u64| {
        let mut args = verb.to_vec();
        args.extend(["-n", "1", "--offset", "1", "--json"]);
        let first = stage.annals(&args).json();
        assert_eq!(first["total"], total, "{verb:?}: {first}");
        assert_eq!(first[list].as_array().unwrap().len(), 1, "{verb:?}");
        let all: Vec<&str> = verb.iter().copied().chain(["--json"]).collect();
        let all = stage.annals(&all).json();
        // Masked ids depend on the order of appearance, so other columns are compared.
        let named = |row: &Value| {
            [
                row["session"].clone(),
                row["file"].clone(),
                row["number"].clone(),
            ]
        };
        assert_eq!(named(&all[list][1]), named(&first[list][0]), "{verb:?}");
        let beyond: Vec<&str> = verb.iter().copied().chain(["--offset", "99"]).collect();
        assert_eq!(stage.annals(&beyond).code, 1, "{verb:?}");
    };
    page(&["sessions"], "sessions", 3);
    page(&["sessions", "-p", "work"], "sessions", 3);
    page(&["conversations"], "conversations", 3);
    page(&["todos"], "todos", 6);
    page(&["notes"], "notes", 3);
    let hits = ["search", "needle", "--json", "-n", "1", "--offset", "1"];
    let hits = stage.annals(&hits).json();
    assert_eq!(hits["total"], 3);
    assert_eq!(hits["hits"].as_array().unwrap().len(), 1);
    let projects = stage.annals(&["projects", "--json"]).json();
    assert_eq!(projects["total"], 1);
    let row = &stage.annals(&["conversations", "--json"]).json()["conversations"][0];
    for member in ["id", "title", "leaf", "file", "project", "layout", "root"] {
        assert!(row[member].is_string(), "{member}: {row}");
    }
    assert!(row.get("git_branch").is_some());
    let session = "00000000-0000-4000-8000-000000000001";
    let one = stage.annals(&["conversations", session, "--json"]).json();
    assert!(one["conversations"][0]["file"].is_string(), "{one}");
}

/// Requirements: 001.47
#[test]
fn reply_has_its_request() {
    let (stage, session) = begun("claude-code");
    let line = r#"{"role":"assistant","content":"a","request_id":"req_7"}"#;
    stage.with_stdin(&["append", &session], line).fine();
    let read = entries(&stage, &session);
    assert_eq!(read.last().unwrap()["request"], "req_7");
}

/// Requirements: 002.22
#[test]
fn channels_are_searched_with_and_without_an_index() {
    let stage = Stage::with_fixture_of("clog", "every-role-and-channel");
    for more in [&[][..], &["--no-index"]] {
        let search = |query: &str| {
            let args: Vec<&str> = ["search", query, "--json"]
                .into_iter()
                .chain(more.iter().copied())
                .collect();
            let run = stage.annals(&args);
            match run.code {
                0 => run.json()["total"].as_u64().unwrap(),
                code => {
                    assert_eq!(code, 1, "{run}");
                    0
                }
            }
        };
        assert_eq!(search("channel:telegram"), 1);
        assert_eq!(search("channel:tele*"), 1);
        assert_eq!(search("channel:nowhere"), 0);
        let all = search("layout:clog kind:text");
        assert_eq!(search("kind:text -channel:telegram"), all - 1);
        assert_eq!(search("workspace:none"), 0);
    }
}

/// Requirements: 003.47
#[test]
fn watch_for_thoughts_gives_scripts_thoughts_and_prompts_alone() {
    let (stage, session) = begun("claude-code");
    let line = r#"{"role":"user","content":"Why?"}"#;
    stage.with_stdin(&["append", &session], line).fine();
    let thought = r#"{"type":"assistant","uuid":"t1","parentUuid":"PARENT","message":{"role":"assistant","content":[{"type":"thinking","thinking":"Hmm"},{"type":"text","text":"Because"}]}}"#;
    let parent = entries_raw(&stage, &session);
    let thought = thought.replace("PARENT", &parent);
    stage
        .with_stdin(&["append", &session, "--raw"], thought.as_str())
        .fine();
    let root = format!("claude-code:{}", stage.root.display());
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("annals"))
        .args(["--root", &root, "watch", &session, "--thinking", "--json"])
        .env_clear()
        .envs(stage.env())
        .current_dir(stage.work())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reported = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    while !reported.contains(r#""event":"live""#) {
        assert_ne!(stdout.read_line(&mut reported).unwrap(), 0, "{reported}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        reported.contains("Hmm") && reported.contains("Why?"),
        "{reported}"
    );
    assert!(!reported.contains("Because"), "{reported}");
}

/// The unmasked id of a session's last entry.
fn entries_raw(stage: &Stage, session: &str) -> String {
    let last = stage.log(session).pop().unwrap();
    last["uuid"].as_str().unwrap().to_owned()
}

#[test]
fn follow_acknowledges_each_line_and_continues_after_a_bad_one() {
    for layout in LAYOUTS {
        let (stage, session) = begun(layout);
        let mut follow = Follow::start(&stage, layout, &[&session]);
        let first = follow.send(r#"{"role":"user","content":"one","id":"m1"}"#);
        assert_eq!(first["ok"], true, "{layout}: {first}");
        assert_eq!(first["line"], 1);
        assert_eq!(first["session"], session);
        assert_eq!(first["entries"][0]["id"], "m1");
        // The entry is on disk before the next line is sent.
        assert_eq!(entries(&stage, &session).len(), 1, "{layout}");
        // The session list may be updated whenever a log is closed.
        let logs = || {
            let mut tree = stage.tree();
            tree.retain(|path, _| !path.ends_with("conversations.json"));
            tree
        };
        let before = logs();
        for bad in [
            "nonsense",
            r#"{"role":"user","content":"again","id":"m1"}"#,
            r#"{"role":"user","content":"x","session":"nowhere-at-all"}"#,
            r#"{"role":"user","content":"x","parent":"nobody"}"#,
            r#"{"role":"wizard","content":"x"}"#,
            r#"{"role":"user","content":"x","modle":"y"}"#,
        ] {
            let answer = follow.send(bad);
            assert_eq!(answer["ok"], false, "{layout} {bad}: {answer}");
            assert!(answer["error"].is_string(), "{answer}");
        }
        assert!(logs() == before, "{layout}");
        // Another process appends in the meantime.
        stage.annals(&["append", &session, "-m", "other"]).fine();
        let last = follow.send(r#"{"role":"assistant","content":"two","model":"m"}"#);
        assert_eq!(last["ok"], true, "{layout}: {last}");
        assert_eq!(last["line"], 8);
        assert_eq!(follow.end(), 2);
        let shown = stage.annals(&["show", &session, "--json"]).json();
        assert_eq!(shown["entries"].as_array().unwrap().len(), 3, "{layout}");
    }
}

#[test]
fn a_file_that_is_named_twice_is_saved_once() {
    let (stage, session) = begun("claude-code");
    stage.annals(&["append", &session, "-m", "Go"]).fine();
    let work = stage.work();
    fs::write(work.join("f"), "one").unwrap();
    fs::create_dir(work.join("d")).unwrap();
    let args = ["files", &session, "--json", "--save", "f", "./f", "d/../f"];
    let saved = stage.annals(&args).json();
    assert_eq!(saved["saved"].as_array().unwrap().len(), 1, "{saved}");
    assert_eq!(stage.annals(&["check", &session]).code, 0);
    std::os::unix::fs::symlink("f", work.join("link")).unwrap();
    let before = stage.tree();
    let args = ["files", &session, "--save", "f", "link"];
    let run = stage.refused(&args, "");
    assert!(run.err.contains("is a symbolic link"), "{run}");
    assert_eq!(stage.tree(), before);
}

#[test]
fn suggested_commands_quote_the_id() {
    let stage = Stage::empty();
    let id = "x; touch PWNED #";
    stage.annals(&["new", "--id", id, "-m", "Go"]).fine();
    let note = stage.annals(&["notes", "add", id, "Look"]).fine();
    assert!(
        note.out.contains("`annals notes 'x; touch PWNED #'`"),
        "{note}"
    );
    let gone = stage.annals(&["delete", id, "--apply", "--live"]).fine();
    let undo = "`annals delete --undo 'x; touch PWNED #'`";
    assert!(gone.out.contains(undo), "{gone}");
    stage.annals(&["delete", "--undo", id]).fine();
    let kept = stage.annals(&["archive", id, "--apply", "--live"]).fine();
    let restore = "`annals restore 'x; touch PWNED #' --apply`";
    assert!(kept.out.contains(restore), "{kept}");
    let run = stage.refused(&["append", id, "-m", "x"], "");
    assert!(run.err.contains(restore), "{run}");
    stage.annals(&["restore", id, "--apply"]).fine();
}

#[test]
fn no_session_can_be_called_latest() {
    let (stage, session) = begun("claude-code");
    stage.annals(&["append", &session, "-m", "Go"]).fine();
    for args in [
        &["new", "--id", "latest"][..],
        &["fork", &session, "--id", "latest"],
    ] {
        let run = stage.refused(args, "");
        assert!(run.err.contains("cannot be the id of a session"), "{run}");
    }
    let mut follow = Follow::start(&stage, "claude-code", &[]);
    let answer = follow.send(r#"{"new":{"id":"latest"},"role":"user","content":"x"}"#);
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(follow.end(), 2);
}

/// Creates two projects with a session of the same id, and returns both logs.
fn one_id_in_two_directories(stage: &Stage) -> [PathBuf; 2] {
    let other = "00000000-0000-4000-8000-0000000000bb";
    ["one", "two"].map(|name| {
        let cwd = stage.work().join(name);
        fs::create_dir(&cwd).unwrap();
        let dir = cwd.to_str().unwrap();
        stage
            .annals(&["new", "--id", other, "--cwd", dir, "-m", name])
            .fine();
        let mut files = stage.tree().into_keys();
        let made = files.find(|path| path.ends_with(format!("{other}.jsonl")));
        let made = made.unwrap();
        let log = made.with_file_name(format!("{ID}.jsonl"));
        let text = fs::read_to_string(&made).unwrap().replace(other, ID);
        fs::write(&log, text).unwrap();
        fs::remove_file(&made).unwrap();
        log
    })
}

fn holds(log: &Path, text: &str) -> bool {
    fs::read_to_string(log).unwrap().contains(text)
}

#[test]
fn follow_writes_to_the_named_log_where_two_directories_have_one_id() {
    let stage = Stage::empty();
    let logs = one_id_in_two_directories(&stage);
    for (at, log) in logs.iter().enumerate() {
        let path = log.to_str().unwrap();
        let mut follow = Follow::start(&stage, "claude-code", &[path]);
        let text = format!("by argument {at}");
        let line = json!({"role": "user", "content": text}).to_string();
        assert_eq!(follow.send(&line)["ok"], true);
        for (to, other) in logs.iter().enumerate() {
            let text = format!("by line {at} {to}");
            let line = json!({"session": other, "role": "user", "content": text}).to_string();
            assert_eq!(follow.send(&line)["ok"], true);
            let text = format!("agent {at} {to}");
            let line = json!({"session": other, "agent": "a1", "role": "user", "content": text});
            let answer = follow.send(&line.to_string());
            assert_eq!(answer["ok"], true, "{answer}");
        }
        assert_eq!(follow.end(), 0);
    }
    for (at, log) in logs.iter().enumerate() {
        let other = &logs[1 - at];
        let texts = [
            format!("by argument {at}"),
            format!("by line 0 {at}"),
            format!("by line 1 {at}"),
        ];
        for text in texts {
            assert!(holds(log, &text), "{text}");
            assert!(!holds(other, &text), "{text}");
        }
    }
}

#[test]
fn follow_continues_with_the_same_log_after_a_pause() {
    let stage = Stage::empty();
    let logs = one_id_in_two_directories(&stage);
    let mut follow = Follow::start(&stage, "claude-code", &[logs[1].to_str().unwrap()]);
    let line = |text: &str| json!({"role": "user", "content": text}).to_string();
    assert_eq!(follow.send(&line("before"))["ok"], true);
    std::thread::sleep(Duration::from_millis(1300));
    assert_eq!(follow.send(&line("after"))["ok"], true);
    // A log that was replaced in the meantime is reopened; a missing one is an error.
    std::thread::sleep(Duration::from_millis(1300));
    let copy = logs[1].with_extension("copy");
    fs::copy(&logs[1], &copy).unwrap();
    fs::rename(&copy, &logs[1]).unwrap();
    let answer = follow.send(&line("replaced"));
    assert_eq!(answer["ok"], true, "{answer}");
    std::thread::sleep(Duration::from_millis(1300));
    let text = fs::read_to_string(&logs[1]).unwrap();
    fs::remove_file(&logs[1]).unwrap();
    let answer = follow.send(&line("gone"));
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(follow.end(), 2);
    for said in ["before", "after", "replaced"] {
        assert!(text.contains(said), "{said}");
        assert!(!holds(&logs[0], said), "{said}");
    }
    assert!(!holds(&logs[0], "gone"));
}

#[test]
fn follow_looks_for_a_new_session_in_its_own_directory() {
    let stage = Stage::empty();
    let logs = one_id_in_two_directories(&stage);
    let mut follow = Follow::start(&stage, "claude-code", &[]);
    for (at, name) in ["one", "two"].iter().enumerate() {
        let cwd = stage.work().join(name);
        let text = format!("to {at}");
        let line = json!({"new": {"id": ID, "cwd": cwd}, "role": "user", "content": text});
        let answer = follow.send(&line.to_string());
        assert_eq!(answer["ok"], true, "{answer}");
        assert!(holds(&logs[at], &text));
        assert!(!holds(&logs[1 - at], &text));
    }
    let line = json!({"new": {"id": ID, "cwd": stage.work()}, "role": "user", "content": "x"});
    let answer = follow.send(&line.to_string());
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("exists already"), "{error}");
    let line = json!({"new": {"id": ID}, "role": "user", "content": "x"});
    let error = follow.send(&line.to_string())["error"].to_string();
    assert!(error.contains("matches 2 sessions"), "{error}");
    assert_eq!(follow.end(), 2);
}

#[test]
fn follow_refuses_a_new_session_that_differs_from_the_one_of_its_id() {
    let stage = Stage::empty();
    let cwd = stage.work();
    let mut follow = Follow::start(&stage, "claude-code", &[]);
    let titled = |title: &str, text: &str| {
        json!({"new": {"id": ID, "cwd": cwd, "title": title}, "role": "user", "content": text})
            .to_string()
    };
    assert_eq!(follow.send(&titled("First", "a"))["began"], true);
    assert_eq!(follow.send(&titled("First", "b"))["ok"], true);
    let error = follow.send(&titled("Second", "c"))["error"].to_string();
    assert!(error.contains("its title is `First`"), "{error}");
    let plain = json!({"new": {"id": ID, "cwd": cwd}, "role": "user", "content": "d"});
    assert_eq!(follow.send(&plain.to_string())["ok"], true);
    assert_eq!(follow.end(), 2);
    let mut follow = Follow::start(&stage, "claude-code", &[]);
    assert_eq!(follow.send(&titled("First", "e"))["ok"], true);
    assert_eq!(follow.send(&titled("Second", "f"))["ok"], false);
    assert_eq!(follow.end(), 2);

    let stage = Stage::empty().with_layout("clog");
    let mut follow = Follow::start(&stage, "clog", &[]);
    let line = |channel: &str| {
        json!({"new": {"id": "thread_1", "channel": channel}, "role": "user", "content": "x"})
            .to_string()
    };
    assert_eq!(follow.send(&line("telegram"))["began"], true);
    assert_eq!(follow.send(&line("telegram"))["ok"], true);
    let error = follow.send(&line("tui"))["error"].to_string();
    assert!(error.contains("its channel is `telegram`"), "{error}");
    assert_eq!(follow.end(), 2);
}

#[test]
fn followers_that_begin_one_session_at_the_same_time_share_it() {
    for round in 0..4 {
        let stage = Stage::empty();
        let line = json!({"new": {"id": ID, "cwd": stage.work()}, "role": "user", "content": "x"});
        let line = line.to_string();
        let agent = json!({"session": ID, "agent": "a1", "role": "user", "content": "y"});
        let agent = agent.to_string();
        let answers: Vec<Value> = std::thread::scope(|scope| {
            let run = || {
                let mut follow = Follow::start(&stage, "claude-code", &["--live"]);
                let answer = follow.send(&line);
                let agent = follow.send(&agent);
                assert_eq!(agent["ok"], true, "{agent}");
                follow.end();
                answer
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let began = answers.iter().filter(|it| it["began"] == true).count();
        assert!(answers.iter().all(|it| it["ok"] == true), "{answers:?}");
        assert_eq!(began, 1, "{answers:?}");
        assert_eq!(entries(&stage, ID).len(), 4, "{round}");
    }
}

/// Does what agentpool's `log_message` does, in one line.
///
/// Requirements: 001.30
#[test]
fn one_follower_begins_sessions_and_sub_agents() {
    let stage = Stage::empty();
    let mut follow = Follow::start(&stage, "claude-code", &[]);
    let cwd = stage.work();
    let line = |id: &str, text: &str| {
        json!({"new": {"id": id, "cwd": cwd}, "role": "user", "content": text}).to_string()
    };
    let other = "00000000-0000-4000-8000-0000000000bb";
    let first = follow.send(&line(ID, "a"));
    assert_eq!(
        (&first["ok"], &first["began"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(follow.send(&line(other, "b"))["began"], true);
    let again = follow.send(&line(ID, "c"));
    assert_eq!(again.get("began"), None, "{again}");
    let agent = json!({"session": ID, "agent": {"id": "a753668", "kind": "Explore"}, "role": "user", "content": "look"});
    let spawned = follow.send(&agent.to_string());
    assert_eq!(spawned["began"], true, "{spawned}");
    assert_eq!(spawned["agent"], "a753668");
    let agent = json!({"session": ID, "agent": "a753668", "role": "assistant", "content": "found"});
    let same = follow.send(&agent.to_string());
    assert_eq!(same.get("began"), None, "{same}");
    let begun = follow.send(&json!({"new": {"cwd": cwd, "title": "Fresh"}}).to_string());
    assert_eq!(begun["entries"], json!([]), "{begun}");
    let fresh = begun["session"].as_str().unwrap();
    let answer =
        follow.send(&json!({"session": fresh, "role": "user", "content": "d"}).to_string());
    assert_eq!(answer["ok"], true, "{answer}");
    let nowhere = follow.send(r#"{"role":"user","content":"nowhere"}"#);
    assert_eq!(nowhere["ok"], false);
    assert_eq!(follow.end(), 2);
    assert_eq!(entries(&stage, ID).len(), 2);
    assert_eq!(entries(&stage, other).len(), 1);
    let shown = stage.annals(&["show", ID, "--agent", "a753668", "--json"]);
    assert_eq!(shown.json()["entries"].as_array().unwrap().len(), 2);
    let rows = stage.annals(&["sessions", "--json"]).json();
    let titles: Vec<&Value> = rows["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["title"])
        .collect();
    assert!(titles.contains(&&json!("Fresh")), "{titles:?}");
}

/// Requirements: 000.36
#[test]
fn the_session_list_is_up_to_date_while_a_follower_waits() {
    let (stage, session) = begun("chorus");
    let mut follow = Follow::start(&stage, "chorus", &[&session]);
    for _ in 0..3 {
        let answer = follow.send(r#"{"role":"user","content":"one"}"#);
        assert_eq!(answer["ok"], true, "{answer}");
    }
    let listed = || {
        let list = stage.tree().into_iter();
        let mut list = list.filter(|(path, _)| path.ends_with("conversations.json"));
        let list: Value = serde_json::from_slice(&list.next().unwrap().1).unwrap_or_default();
        list.to_string().contains(r#""messageCount":3"#)
    };
    let begun = std::time::Instant::now();
    while !listed() {
        assert!(begun.elapsed().as_secs() < 60, "the list stays behind");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(
        follow.send(r#"{"role":"user","content":"two"}"#)["ok"],
        true
    );
    assert_eq!(follow.end(), 0);
}

#[test]
fn follow_ends_well_when_nobody_reads_its_answers() {
    let (stage, session) = begun("claude-code");
    let mut follow = Follow::start(&stage, "claude-code", &[&session]);
    follow.send(r#"{"role":"user","content":"one"}"#);
    let Follow {
        mut child,
        stdin,
        stdout,
    } = follow;
    drop(stdout);
    let mut stdin = stdin.unwrap();
    // The answer to this line has no reader; the process may have ended before later lines.
    for _ in 0..3 {
        let _ = writeln!(stdin, r#"{{"role":"user","content":"two"}}"#);
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let log = stage.log(&session);
    assert!(log.len() > 2, "{log:?}");
    assert_eq!(stage.annals(&["check", &session]).code, 0);
}

#[test]
fn follow_finds_a_log_that_was_replaced_and_refuses_one_that_is_gone() {
    let (stage, session) = begun("claude-code");
    let mut follow = Follow::start(&stage, "claude-code", &[&session]);
    follow.send(r#"{"role":"user","content":"one"}"#);
    let path = stage.log_path(&session);
    let copy = path.with_extension("copy");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::rename(&copy, &path).unwrap();
    let answer = follow.send(r#"{"role":"user","content":"two"}"#);
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(entries(&stage, &session).len(), 2);
    std::fs::remove_file(&path).unwrap();
    let answer = follow.send(r#"{"role":"user","content":"three"}"#);
    assert_eq!(answer["ok"], false, "{answer}");
    assert!(!path.exists());
    assert_eq!(follow.end(), 2);
}

/// A record as the client writes it.
fn record(uuid: &str, parent: Option<&str>, more: &str) -> String {
    let parent = parent.map_or("null".to_owned(), |id| format!("\"{id}\""));
    format!(
        r#"{{"parentUuid":{parent},"type":"user","sessionId":"{ID}","uuid":"{uuid}","timestamp":"2026-11-15T12:00:09.000Z", "message":{{"role":"user","content":"raw"}}{more}}}"#
    )
}

/// Requirements: 001.43, 001.55, 001.59, 001.61
#[test]
fn raw_records_are_written_byte_for_byte() {
    let (stage, session) = begun("claude-code");
    let first = record("u1", None, r#","zzz":[1,  2]"#);
    let second = record("u2", Some("u1"), "");
    let summary = r#"{"type":"summary","summary":"Greeting","leafUuid":"u2"}"#;
    let files = r#"{"type":"file-history-snapshot","messageId":"u2","snapshot":{"messageId":"u2","trackedFileBackups":{},"timestamp":"2026-11-15T12:00:09.000Z"},"isSnapshotUpdate":false}"#;
    let all = [&first, &second, summary, files].join("\n");
    stage
        .with_stdin(&["append", &session, "--raw"], all.as_str())
        .fine();
    let log = std::fs::read_to_string(stage.log_path(&session)).unwrap();
    assert!(log.ends_with(&format!("{all}\n")), "{log}");
    let mut follow = Follow::start(&stage, "claude-code", &["--raw", &session]);
    let third = record("u3", Some("u2"), "");
    assert_eq!(follow.send(&third)["entries"][0]["id"], "u3");
    assert_eq!(follow.send(&third)["ok"], false);
    assert_eq!(follow.end(), 2);
    let mut follow = Follow::start(&stage, "claude-code", &[]);
    let fourth: Value = serde_json::from_str(&record("u4", Some("u3"), "")).unwrap();
    let line = json!({"session": session, "raw": fourth}).to_string();
    assert_eq!(follow.send(&line)["ok"], true);
    assert_eq!(follow.end(), 0);
    assert_eq!(entries(&stage, &session).len(), 4);
}

#[test]
fn raw_records_that_readers_would_lose_are_refused() {
    let (stage, session) = begun("claude-code");
    let lines = [
        record("u1", None, ""),
        record("u2", Some("u1"), ""),
        record("u3", Some("u2"), ""),
    ];
    stage
        .with_stdin(&["append", &session, "--raw"], lines.join("\n"))
        .fine();
    let other = record("u9", Some("u3"), "").replace(ID, SDK);
    let branch = record("u9", Some("u1"), "");
    for (bad, why) in [
        ("{\"type\":\"user\"".to_owned(), "not JSON"),
        ("[1]".to_owned(), "not a JSON object"),
        (r#"{"type":"weird","uuid":"x"}"#.to_owned(), "`weird`"),
        (record("u2", Some("u3"), ""), "is already in the session"),
        (record("u9", Some("nobody"), ""), "`nobody`"),
        (record("u9", None, ""), "names no parent"),
        (other, "names the session"),
        (branch.clone(), "has an earlier message as parent"),
        (
            format!(
                "{}\n{}",
                record("u9", Some("u3"), ""),
                record("u9", Some("u9"), "")
            ),
            "record 2",
        ),
    ] {
        let run = stage.refused(&["append", &session, "--raw"], &bad);
        assert!(run.err.contains(why), "{bad}: {run}");
    }
    // A branch that `last-prompt` makes the current one.
    let reported = format!(
        "{branch}\n{{\"type\":\"last-prompt\",\"lastPrompt\":\"raw\",\"leafUuid\":\"u9\",\"sessionId\":\"{ID}\"}}"
    );
    stage
        .with_stdin(&["append", &session, "--raw"], reported.as_str())
        .fine();
    let shown = stage.annals(&["show", &session, "--json"]).json();
    let last = shown["entries"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["id"], "u9");
}

#[test]
fn a_raw_record_without_a_session_goes_to_no_other() {
    let (stage, first) = begun("orchestrator");
    let work = stage.work();
    let other = "00000000-0000-4000-8000-0000000000bb";
    let args = ["new", "--id", other, "--cwd", work.to_str().unwrap()];
    stage.annals(&args).fine();
    for session in [first.as_str(), other] {
        stage.annals(&["append", session, "-m", "mine"]).fine();
    }
    // A raw prompt without a session id belongs to the day's default session.
    let raw = r#"{"type":"user","content":"raw","timestamp":"2026-11-15T12:00:01.000Z"}"#;
    let run = stage.refused(&["append", &first, "--raw"], raw);
    assert!(run.err.contains("names"), "{run}");
    let more = format!(r#","metadata":{{"sessionId":"{other}"}}}}"#);
    let raw = raw.replace('}', &more);
    let run = stage.refused(&["append", &first, "--raw"], &raw);
    assert!(run.err.contains("names the session"), "{run}");
    stage.with_stdin(&["append", other, "--raw"], raw).fine();
    assert_eq!(entries(&stage, other).len(), 2);
    assert_eq!(entries(&stage, &first).len(), 1);
}
