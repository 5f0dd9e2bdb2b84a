//! Records given by callers or taken from the documents: ids, raw records, blocks.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::Stage;

/// Unusual ids that a caller may give.
const ODD_IDS: [&str; 14] = [
    "msg 01",
    " led and trailed ",
    "a/b",
    "../../up",
    "user@host",
    "@",
    "thread_9@msg_01",
    "-rf",
    "--help",
    ".",
    ":two",
    "it's \"quoted\" $HOME `id`; #",
    "é…日本 👩‍💻",
    "a\\b",
];

const LAYOUTS: [&str; 4] = ["claude-code", "chorus", "clog", "orchestrator"];

/// A store of this layout with a session `thread_9`.
fn begun(layout: &'static str) -> (Stage, String) {
    let stage = Stage::empty().with_layout(layout);
    let work = stage.work();
    let id = match layout {
        "clog" => "thread_9",
        _ => "00000000-0000-4000-8000-0000000000aa",
    };
    let args = ["new", "--id", id, "--cwd", work.to_str().unwrap(), "--json"];
    let made = stage.annals(&args).fine().json();
    (stage, made["session"].as_str().unwrap().to_owned())
}

fn entries(stage: &Stage, session: &str) -> Vec<Value> {
    let shown = stage
        .annals(&["show", session, "--all", "--json"])
        .fine()
        .json();
    shown["entries"].as_array().unwrap().clone()
}

/// Requirements: 000.40, 002.21, 002.22
#[test]
fn ids_of_callers_are_kept_whatever_they_look_like_and_never_written_twice() {
    let long = "x".repeat(5_000);
    for layout in LAYOUTS {
        let (stage, session) = begun(layout);
        let ids = ODD_IDS.iter().copied().chain([long.as_str()]);
        for (at, id) in ids.clone().enumerate() {
            let line = json!({"role": "user", "content": format!("text {at}"), "id": id});
            stage
                .with_stdin(&["append", &session], line.to_string())
                .fine();
            let run = stage.refused(&["append", &session], &line.to_string());
            assert!(run.err.contains("already"), "{layout}: {run}");
        }
        let read = entries(&stage, &session);
        let read = read.iter().filter_map(|entry| entry["id"].as_str());
        let known: Vec<&str> = read.filter(|id| ids.clone().any(|it| it == *id)).collect();
        assert_eq!(known, ids.clone().collect::<Vec<_>>(), "{layout}");
        // The next message is attached to the last one, and a branch can start there.
        stage
            .annals(&["append", &session, "--at=-rf", "-m", "other way"])
            .fine();
        stage.annals(&["check", &session]).fine();
    }
}

/// Requirements: 002.21, 002.22
#[test]
fn a_message_is_found_by_any_id_with_and_without_its_session() {
    for layout in ["clog", "chorus", "claude-code"] {
        let (stage, session) = begun(layout);
        for (at, id) in ODD_IDS.iter().enumerate() {
            let line = json!({"role": "user", "content": format!("text{at}"), "id": id});
            stage
                .with_stdin(&["append", &session], line.to_string())
                .fine();
        }
        for (at, id) in ODD_IDS.iter().enumerate() {
            let names = [format!("{session}@{id}"), (*id).to_owned()];
            // In clog, `thread_9@msg_01` alone means the message `msg_01` of that thread.
            let alone = layout != "clog" || !id.starts_with("thread_9");
            for name in names.iter().take(1 + usize::from(alone)) {
                let run = stage.annals(&["show", "--json", "--", name]).fine();
                let shown = run.json();
                let last = shown["entries"].as_array().unwrap().last().unwrap();
                assert_eq!(last["id"], *id, "{layout}: {name}: {run}");
            }
            let found = stage
                .annals(&["search", &format!("text{at}"), "--json"])
                .fine()
                .json();
            let name = found["hits"][0]["id"].as_str().unwrap().to_owned();
            let run = stage.annals(&["show", "--json", "--", &name]).fine();
            let shown = run.json();
            let last = shown["entries"].as_array().unwrap().last().unwrap();
            assert_eq!(last["id"], *id, "{layout}: {name}: {run}");
        }
    }
}

#[test]
fn ids_that_nobody_can_see_or_type_are_refused_with_the_reason() {
    let (stage, session) = begun("clog");
    for (id, why) in [
        ("", "it is empty"),
        (" ", "it is empty"),
        ("a\nb", "control character"),
        ("a\u{1b}[2J", "control character"),
        ("a\u{202e}b", "invisible"),
        (&"x".repeat(70_000), "longer than 64 KiB"),
    ] {
        let line = json!({"role": "user", "content": "x", "id": id}).to_string();
        let run = stage.refused(&["append", &session], &line);
        assert!(run.err.contains(why), "{run}");
        assert!(run.err.len() < 400, "{run}");
    }
}

/// Requirements: 002.4
#[test]
fn of_two_programs_that_begin_a_thread_at_once_one_wins() {
    let stage = Stage::empty().with_layout("clog");
    let work = stage.work();
    let root = format!("clog:{}", stage.root.display());
    fs::create_dir_all(&stage.root).unwrap();
    for thread in ["thread_1", "Thread 1!"] {
        let children: Vec<_> = (0..8)
            .map(|_| {
                Command::new(assert_cmd::cargo::cargo_bin!("annals"))
                    .args(["--root", &root, "new", "--id", thread, "--cwd"])
                    .arg(&work)
                    .env_clear()
                    .envs(stage.env())
                    .stdout(std::process::Stdio::null())
                    .stderr(std::process::Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let ends = children
            .into_iter()
            .map(|child| child.wait_with_output().unwrap());
        let (won, lost): (Vec<_>, Vec<_>) = ends.partition(|end| end.status.success());
        assert_eq!(won.len(), 1);
        for end in lost {
            assert_eq!(end.status.code(), Some(2));
            let text = String::from_utf8(end.stderr).unwrap();
            assert!(text.contains("already"), "{text}");
        }
    }
    let folders = fs::read_dir(stage.root.join("conversations")).unwrap();
    assert_eq!(folders.count(), 2);
}

/// A message as in clog's document.
fn clog_message(session: &str, id: &str) -> Value {
    json!({
        "type": "message", "conversationId": format!("conversation-{session}"), "threadId": "thread_9",
        "messageId": id, "role": "user", "channel": "tui", "content": "what errors happened today?",
        "createdAt": 1_774_402_350_000_i64,
    })
}

/// A line with one member set or removed.
fn with(line: &Value, name: &str, value: Option<Value>) -> String {
    let mut line = line.clone();
    let members = line.as_object_mut().unwrap();
    match value {
        Some(value) => _ = members.insert(name.to_owned(), value),
        None => _ = members.remove(name).unwrap(),
    }
    line.to_string()
}

/// Requirements: 002.18, 002.19, 002.20
#[test]
fn a_raw_record_that_clog_would_misread_is_refused() {
    let (stage, session) = begun("clog");
    let append = ["append", &session, "--raw"];
    let message = clog_message(&session, "msg_01");
    stage
        .with_stdin(&append, with(&message, "extra", Some(json!([1]))))
        .fine();
    let message = clog_message(&session, "msg_02");
    for name in message.as_object().unwrap().keys() {
        let run = stage.refused(&append, &with(&message, name, None));
        assert!(run.err.contains(name) || name == "type", "{name}: {run}");
    }
    for (name, value) in [
        (
            "conversationId",
            json!("conversation-2026-01-01T00-00-00-000Z-other"),
        ),
        ("conversationId", json!(session)),
        ("threadId", json!("thread_8")),
        ("messageId", json!("")),
        ("messageId", json!(7)),
        ("messageId", json!("msg_01")),
        ("role", json!("narrator")),
        ("channel", json!(null)),
        ("content", json!({"text": "x"})),
        ("createdAt", json!("2026-03-26T01:32:20Z")),
        ("createdAt", json!(-5)),
        ("type", json!("note")),
    ] {
        let bad = with(&message, name, Some(value));
        let run = stage.refused(&append, &bad);
        assert!(run.err.contains("refused"), "{bad}: {run}");
    }
    let header = json!({
        "type": "conversation-header", "schemaVersion": 1, "fileKind": "chat",
        "conversationId": format!("conversation-{session}"), "threadId": "thread_9", "channel": "tui",
        "title": "Again", "createdAt": 1, "updatedAt": 1,
    });
    let run = stage.refused(&append, &header.to_string());
    assert!(run.err.contains("already has a header"), "{run}");
    assert_eq!(
        entries(&stage, &session)
            .iter()
            .filter(|it| it["id"] == "msg_01")
            .count(),
        1
    );
}

/// Requirements: 000.40, 000.48, 000.49, 000.52, 000.57
#[test]
fn a_raw_record_that_chorus_would_misread_is_refused() {
    let (stage, session) = begun("chorus");
    let append = ["append", &session, "--raw"];
    let message = json!({
        "uuid": "u-1", "type": "user", "content": "Hello", "timestamp": "2026-03-02T09:00:00.000Z",
        "extra": {"kept": true},
    });
    stage.with_stdin(&append, message.to_string()).fine();
    let call = json!({
        "uuid": "u-2", "type": "tool_use", "content": [{"type": "text", "text": "Let me look."}],
        "timestamp": "2026-03-02T09:00:01.000Z", "sessionId": "s", "toolName": "Bash",
        "toolInput": {"command": "ls"},
    });
    stage.with_stdin(&append, call.to_string()).fine();
    let message = json!({
        "uuid": "u-3", "type": "assistant", "content": "Hi", "timestamp": "2026-03-02T09:00:02.000Z",
    });
    for name in message.as_object().unwrap().keys() {
        let run = stage.refused(&append, &with(&message, name, None));
        assert!(run.err.contains(name), "{name}: {run}");
    }
    for (name, value) in [
        ("uuid", json!("")),
        ("uuid", json!("u-1")),
        ("type", json!("thought")),
        ("content", json!({"text": "x"})),
        ("content", json!([{"text": "x"}])),
        ("timestamp", json!("noon")),
        ("timestamp", json!(1_774_402_350_000_i64)),
        ("sessionId", json!(5)),
        ("toolName", json!(["Bash"])),
        ("toolInput", json!("ls")),
    ] {
        let bad = with(&message, name, Some(value));
        let run = stage.refused(&append, &bad);
        assert!(run.err.contains("refused"), "{bad}: {run}");
    }
    assert_eq!(entries(&stage, &session).len(), 2);
}

/// Requirements: 001.43, 001.55, 001.59
#[test]
fn a_raw_record_that_claude_code_would_drop_is_refused() {
    let (stage, session) = begun("claude-code");
    let append = ["append", &session, "--raw"];
    let message = json!({
        "type": "user", "uuid": "u1", "parentUuid": null, "sessionId": session,
        "timestamp": "2026-11-15T12:00:09.000Z", "message": {"role": "user", "content": "raw"},
    });
    for (name, value) in [
        ("uuid", None),
        ("uuid", Some(json!(""))),
        ("message", None),
        ("message", Some(json!({"role": "user"}))),
        ("message", Some(json!({"role": "user", "content": 5}))),
        (
            "message",
            Some(json!({"role": "assistant", "content": "x"})),
        ),
        ("timestamp", Some(json!("noon"))),
        ("parentUuid", Some(json!(7))),
    ] {
        let bad = with(&message, name, value);
        let run = stage.refused(&append, &bad);
        assert!(run.err.contains("refused"), "{bad}: {run}");
    }
    stage.with_stdin(&append, message.to_string()).fine();
    for bad in [
        json!({"type": "summary", "leafUuid": "u1"}),
        json!({"type": "custom-title", "sessionId": session}),
        json!({"type": "queue-operation", "sessionId": session}),
        json!({"type": "file-history-snapshot", "snapshot": {}}),
    ] {
        let run = stage.refused(&append, &bad.to_string());
        assert!(run.err.contains("it has no"), "{bad}: {run}");
    }
}

#[test]
fn records_that_annals_wrote_are_taken_as_raw_records() {
    let drafts = [
        json!({"role": "user", "content": "Look"}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "I do."}, {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a"}]}),
        json!({"role": "system", "content": "Note"}),
        json!({"role": "assistant", "content": "Done."}),
    ];
    for layout in ["claude-code", "chorus", "clog"] {
        let (stage, session) = begun(layout);
        let input: Vec<String> = drafts.iter().map(Value::to_string).collect();
        stage
            .with_stdin(&["append", &session], input.join("\n"))
            .fine();
        let logs = [
            "chat.jsonl".to_owned(),
            format!("{session}.jsonl"),
            format!("{session}-messages.jsonl"),
        ];
        let mut files = stage.tree().into_keys();
        let is_log = |path: &PathBuf| logs.iter().any(|name| path.ends_with(name));
        let path = files.find(is_log).unwrap();
        let log = fs::read_to_string(&path).unwrap();
        let first: Vec<&str> = log.lines().take(usize::from(layout != "chorus")).collect();
        let rest: Vec<&str> = log.lines().skip(first.len()).collect();
        assert!(rest.len() >= 5, "{layout}: {log}");
        fs::write(
            &path,
            first
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>(),
        )
        .unwrap();
        stage
            .with_stdin(&["append", &session, "--raw"], rest.join("\n"))
            .fine();
        assert_eq!(fs::read_to_string(&path).unwrap(), log, "{layout}");
    }
}

/// Requirements: 000.49, 000.50, 000.55, 000.57
#[test]
fn a_tool_use_line_shows_all_blocks_of_its_content() {
    let stage = Stage::with_fixture_of("chorus", "chorus-calls-with-blocks");
    let shown = stage.annals(&["show", "conv-1", "--all", "--json"]).json();
    let entries = shown["entries"].as_array().unwrap();
    let kinds = |at: usize| {
        let blocks = entries[at]["blocks"].as_array().unwrap().iter();
        blocks
            .map(|block| block["kind"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    // The text, then the call of the line.
    assert_eq!(kinds(1), ["text", "tool_use"], "{shown:#}");
    assert_eq!(entries[1]["blocks"][1]["name"], "Bash");
    // The content block that repeats the line's own call is not shown twice.
    assert_eq!(kinds(3), ["text", "tool_use", "text"], "{shown:#}");
    assert_eq!(entries[3]["blocks"][1]["input"], json!({"path": "a.rs"}));
    // Further calls are separate, and each result is matched to its call.
    assert_eq!(kinds(5), ["tool_use", "tool_use"], "{shown:#}");
    let calls = stage.annals(&["check"]);
    assert!(!calls.out.contains("dangling"), "{calls}");
    for word in ["cargoWord", "beforeReading", "afterReading"] {
        let found = stage.annals(&["search", word, "--json"]).fine().json();
        assert_eq!(found["total"], 1, "{word}: {found}");
    }
    let exported = stage.annals(&["export", "conv-1"]).fine();
    assert!(exported.out.contains("beforeReading"), "{exported}");
}

/// Requirements: 000.39, 000.40, 000.76
#[test]
fn messages_of_unknown_types_are_shown_searched_exported_and_counted() {
    let stage = Stage::with_fixture_of("chorus", "chorus-calls-with-blocks");
    let shown = stage.annals(&["show", "conv-1", "--all", "--json"]).json();
    let entries = shown["entries"].as_array().unwrap();
    let unknown = entries.iter().find(|entry| entry["id"] == "u-future");
    let unknown = unknown.unwrap_or_else(|| panic!("{shown:#}"));
    assert!(unknown.to_string().contains("plannedWord"), "{unknown}");
    let found = stage
        .annals(&["search", "plannedWord", "--json"])
        .fine()
        .json();
    assert_eq!(found["total"], 1, "{found}");
    let named = stage
        .annals(&["show", "conv-1@u-future", "--json"])
        .fine()
        .json();
    assert!(named.to_string().contains("plannedWord"), "{named}");
    let exported = stage
        .annals(&["export", "conv-1", "--format", "json"])
        .fine();
    assert!(exported.out.contains("plannedWord"), "{exported}");
}
