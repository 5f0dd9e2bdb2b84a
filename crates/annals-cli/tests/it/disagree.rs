//! Roots with files that their own program would not have written: `show` hides none of it, and
//! `check` reports it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::harness::Stage;

const CONVERSATION: &str = "conversations/conversation-2026-03-26T01-32-20-418Z-thread_abc";
const CHORUS: &str = "sessions/ws-1/agent-a";

/// Writes a file of a root, one record per line.
fn write(stage: &Stage, path: &str, records: &[Value]) {
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    put(stage, path, &text);
}

fn put(stage: &Stage, path: &str, text: &str) {
    let path = stage.root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    stage.settle();
}

/// A clog root with one conversation.
fn clog(messages: &[Value]) -> Stage {
    let stage = Stage::empty().with_layout("clog");
    let id = CONVERSATION.strip_prefix("conversations/").unwrap();
    let header = |kind: &str| {
        json!({"type": "conversation-header", "schemaVersion": 1, "fileKind": kind, "conversationId": id,
            "threadId": "thread_abc", "channel": "tui", "title": "Operator", "createdAt": 1774488740418_i64,
            "updatedAt": 1774488740418_i64})
    };
    let chat: Vec<Value> = [header("chat")]
        .into_iter()
        .chain(messages.to_vec())
        .collect();
    write(&stage, &format!("{CONVERSATION}/chat.jsonl"), &chat);
    write(
        &stage,
        &format!("{CONVERSATION}/notes.jsonl"),
        &[header("notes")],
    );
    stage
}

fn said(id: &str, role: &str, content: &str, second: i64) -> Value {
    json!({"type": "message", "conversationId": CONVERSATION.strip_prefix("conversations/"),
        "threadId": "thread_abc", "messageId": id, "role": role, "channel": "tui", "content": content,
        "createdAt": 1774488740418_i64 + 1000 * second})
}

/// A Chorus root with one conversation and its row of the session list.
fn chorus(messages: &[Value]) -> Stage {
    let stage = Stage::empty().with_layout("chorus");
    let config = json!({"workspaces": [{"id": "ws-1", "name": "app", "path": "/home/dev/app",
        "isExpanded": true, "gitBranch": null, "isDirty": false, "hasSystemPrompt": false,
        "agents": [{"id": "agent-a", "name": "A", "filePath": "/a.md", "workspaceId": "ws-1"}]}],
        "settings": {"rootWorkspaceDir": "/home/dev", "theme": "dark", "chatSidebarCollapsed": false,
        "chatSidebarWidth": 240}});
    put(&stage, "config.json", &config.to_string());
    let row = row(messages.len());
    let index = json!({"conversations": [row]});
    put(
        &stage,
        &format!("{CHORUS}/conversations.json"),
        &index.to_string(),
    );
    write(&stage, &format!("{CHORUS}/conv-1-messages.jsonl"), messages);
    stage
}

fn row(messages: usize) -> Value {
    json!({"id": "conv-1", "sessionId": null, "agentId": "agent-a", "workspaceId": "ws-1",
        "title": "Fix it", "createdAt": "2026-03-01T10:00:01.000Z",
        "updatedAt": format!("2026-03-01T10:00:{messages:02}.000Z"), "messageCount": messages})
}

/// A Chorus message with additional members.
fn message(number: usize, kind: &str, content: Value, more: Value) -> Value {
    let mut message = json!({"uuid": format!("u{number}"), "type": kind, "content": content,
        "timestamp": format!("2026-03-01T10:00:{number:02}.000Z")});
    let more = more.as_object().cloned().unwrap_or_default();
    message.as_object_mut().unwrap().extend(more);
    message
}

/// The texts of `annals show --json`, one per message.
fn texts(stage: &Stage, id: &str) -> Vec<String> {
    let document = stage.annals(&["show", id, "--json"]).json();
    let entries = document["entries"].as_array().unwrap().iter();
    let text = |entry: &Value| {
        entry["blocks"][0]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    entries.map(text).collect()
}

fn check(stage: &Stage) -> Value {
    let run = stage.annals(&["check", "--all", "--json"]);
    assert!(run.code < 2, "{run}");
    serde_json::from_str(&run.out).unwrap()
}

/// Flaws of a kind from `annals check --all`: path and detail.
fn found(stage: &Stage, kind: &str) -> Vec<(String, String)> {
    let document = check(stage);
    let mut found = Vec::new();
    for file in document["files"].as_array().unwrap() {
        let path = file["path"]
            .as_str()
            .unwrap()
            .trim_start_matches("[DIR]/root");
        for flaw in file["flaws"].as_array().unwrap() {
            if flaw["kind"] == kind {
                let detail = flaw["detail"].as_str().unwrap();
                found.push((path.trim_start_matches('/').to_owned(), detail.to_owned()));
            }
        }
    }
    found
}

#[test]
fn show_prints_all_messages_that_share_an_id() {
    let messages = [
        said("msg_1", "user", "the first question", 1),
        said("msg_2", "agent", "the first answer", 2),
        said("msg_1", "user", "the second question", 3),
        said("msg_3", "agent", "the second answer", 4),
    ];
    let clog = clog(&messages);
    let all = [
        "the first question",
        "the first answer",
        "the second question",
        "the second answer",
    ];
    assert_eq!(texts(&clog, "thread_abc"), all);
    let shown = clog.annals(&["show", "thread_abc"]).out;
    assert!(shown.contains("4 messages"), "{shown}");
    for format in ["markdown", "html"] {
        let page = clog
            .annals(&["export", "thread_abc", "--format", format])
            .out;
        assert!(all.iter().all(|text| page.contains(text)), "{page}");
    }
    // The next message follows the last one.
    assert_eq!(
        clog.annals(&["append", "thread_abc", "-m", "the third"])
            .code,
        0
    );
    assert_eq!(texts(&clog, "thread_abc").last().unwrap(), "the third");
    let repeated = found(&clog, "repeated-id");
    assert_eq!(repeated.len(), 1, "{repeated:?}");
    assert!(
        repeated[0].1.contains("line 2 has the same id"),
        "{repeated:?}"
    );
    assert!(repeated[0].1.contains("both are shown"), "{repeated:?}");

    let chorus = chorus(&[
        message(1, "user", json!("one"), json!({})),
        message(1, "assistant", json!("two"), json!({})),
        message(1, "user", json!("three"), json!({})),
    ]);
    assert_eq!(texts(&chorus, "conv-1"), ["one", "two", "three"]);
    assert_eq!(found(&chorus, "repeated-id").len(), 2);
}

/// Claude Code reads one entry per id, so `convert` gives each message its own id.
#[test]
fn convert_writes_all_messages_that_share_an_id() {
    let stage = clog(&[
        said("msg_1", "user", "one", 1),
        said("msg_1", "agent", "two", 2),
        said("msg_1", "user", "three", 3),
        said("msg_2", "agent", "four", 4),
    ]);
    let target = stage.work().join("there");
    let place = format!("claude-code:{}", target.display());
    let into = target.to_str().unwrap();
    let run = stage.annals(&[
        "convert",
        "thread_abc",
        "--to",
        "claude-code",
        "--into",
        into,
    ]);
    assert_eq!(run.code, 0, "{run}");
    let show = ["--root", &place, "show", "latest", "--json"];
    let document = stage.bare(&show).json();
    let entries = document["entries"].as_array().unwrap().iter();
    let texts: Vec<&str> = entries
        .map(|entry| entry["blocks"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["one", "two", "three", "four"]);
}

#[test]
fn import_writes_all_messages_that_share_an_id() {
    let stage = clog(&[
        said("msg_1", "user", "one", 1),
        said("msg_1", "agent", "two", 2),
        said("msg_1", "user", "three", 3),
    ]);
    let page = stage.work().join("page.json");
    let out = page.to_str().unwrap();
    let run = stage.annals(&["export", "thread_abc", "--format", "json", "--output", out]);
    assert_eq!(run.code, 0, "{run}");
    let target = Stage::empty().with_layout("clog");
    let run = target.annals(&["import", out]);
    assert_eq!(run.code, 0, "{run}");
    assert_eq!(texts(&target, "thread_abc"), ["one", "two", "three"]);
}

/// A result directly below its call does not repeat the call. In file order, with `--all`, a result
/// elsewhere names its call.
#[test]
fn show_places_results_below_their_calls_or_names_the_calls() {
    let call = |number, path: &str| {
        let input = json!({"toolName": "Read", "toolInput": {"file_path": path}});
        message(number, "tool_use", json!(""), input)
    };
    let result = |number, text: &str| {
        message(
            number,
            "tool_result",
            json!(text),
            json!({"toolName": "Read"}),
        )
    };
    let stage = chorus(&[
        message(1, "user", json!("read them"), json!({})),
        call(2, "/a"),
        call(3, "/b"),
        result(4, "content of a"),
        result(5, "content of b"),
        call(6, "/c"),
        result(7, "content of c"),
    ]);
    let lines = |args: &[&str]| -> Vec<String> {
        let shown = stage.annals(args).out;
        let lines = shown.lines().map(str::to_owned);
        lines
            .filter(|line| line.starts_with(['→', '←', '│']))
            .collect()
    };
    let below = [
        "→ Read /a",
        "│ content of a",
        "→ Read /b",
        "│ content of b",
        "→ Read /c",
        "│ content of c",
    ];
    assert_eq!(lines(&["show", "conv-1"]), below);
    let in_file_order = [
        "→ Read /a",
        "→ Read /b",
        "← Read /a",
        "│ content of a",
        "← Read /b",
        "│ content of b",
        "→ Read /c",
        "│ content of c",
    ];
    assert_eq!(lines(&["show", "conv-1", "--all"]), in_file_order);
}

#[test]
fn show_omits_the_session_id_of_a_chorus_error() {
    let session = json!({"sessionId": "e8d973c7-481e-43d9-809d-9a4880e8cebc", "durationMs": 7});
    let stage = chorus(&[message(1, "error", json!("Boom"), session)]);
    let shown = stage.annals(&["show", "conv-1"]).out;
    assert!(shown.contains("│ Boom\n"), "{shown}");
    assert!(!shown.contains("sessionId"), "{shown}");
}

/// The paths that `check` reports as unknown files, and as foreign files.
fn unknown(stage: &Stage) -> (Vec<String>, Vec<String>) {
    let paths = |kind| {
        found(stage, kind)
            .into_iter()
            .map(|(path, _)| path)
            .collect()
    };
    (paths("unknown-file"), paths("foreign-file"))
}

#[test]
fn check_reports_every_unknown_file() {
    let clog = clog(&[]);
    for path in [
        "conversations/foo/chat.jsonl",
        "odd.txt",
        "other/z.jsonl",
        "other/deep/y.txt",
        "pictures/a.png",
        "pictures/b.png",
    ] {
        put(&clog, path, "{}\n");
    }
    put(&clog, &format!("{CONVERSATION}/extra.jsonl"), "{}\n");
    fs::create_dir_all(clog.root.join("empty/er")).unwrap();
    let extra = format!("{CONVERSATION}/extra.jsonl");
    let logs = [extra.as_str(), "conversations/foo/chat.jsonl", "other"];
    assert_eq!(
        unknown(&clog),
        (
            logs.map(str::to_owned).to_vec(),
            vec!["odd.txt".to_owned(), "pictures".to_owned()]
        )
    );
    let (_, detail) = found(&clog, "unknown-file").pop().unwrap();
    assert!(detail.starts_with("2 files"), "{detail}");
    assert!(detail.contains("such as z.jsonl"), "{detail}");

    let chorus = chorus(&[]);
    put(&chorus, "odd", "x");
    assert_eq!(unknown(&chorus), (vec![], vec!["odd".to_owned()]));

    let orchestrator = Stage::empty().with_layout("orchestrator");
    put(&orchestrator, "projects/short/2025-11-16.jsonl", "{}\n");
    let log = "projects/short/2025-11-16.jsonl".to_owned();
    assert_eq!(unknown(&orchestrator), (vec![log], vec![]));
}

#[test]
fn check_accepts_known_claude_code_files() {
    let stage = Stage::with_fixture("empty-project").without_notes();
    for path in [
        "statsig/statsig.session_id",
        "shell-snapshots/snapshot.sh",
        "ide/1.lock",
        "plugins/cache/log.jsonl",
        "settings.local.json",
        "CLAUDE.md",
        ".credentials.json",
    ] {
        put(&stage, path, "x");
    }
    assert_eq!(unknown(&stage), (vec![], vec![]));
    put(&stage, "weird/b.jsonl", "{}\n");
    put(&stage, "odd.bin", "x");
    put(&stage, ".hidden.jsonl", "{}\n");
    let logs = vec![".hidden.jsonl".to_owned(), "weird/b.jsonl".to_owned()];
    assert_eq!(unknown(&stage), (logs, vec!["odd.bin".to_owned()]));
}

/// Flaws of a kind from `annals check --all`: line and detail.
fn lines(stage: &Stage, kind: &str) -> Vec<(u64, String)> {
    let document = check(stage);
    let files = document["files"].as_array().unwrap().iter();
    let flaws = files.flat_map(|file| file["flaws"].as_array().unwrap().clone());
    let of_kind = flaws.filter(|flaw| flaw["kind"] == kind);
    of_kind
        .map(|flaw| {
            (
                flaw["line"].as_u64().unwrap(),
                flaw["detail"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

#[test]
fn check_reports_records_the_native_program_would_reject() {
    let orchestrator = Stage::empty().with_layout("orchestrator");
    let time = "2026-11-13T10:00:00Z";
    let log = "projects/v_FXjHoCS5zUJmfyn-5v/2026-11-13.jsonl";
    let records = [
        json!({"type": "user", "content": "ok", "timestamp": time}),
        json!({"type": "assistant", "content": "no usage", "timestamp": time, "model": "m"}),
        json!({"type": "user", "content": "extra", "timestamp": time, "foo": 1}),
        json!({"type": "tool_result", "tool": "R", "result": "r", "timestamp": time, "metadata": {}}),
        json!({"type": "user", "content": "no time"}),
        json!({"type": "user", "content": 5, "timestamp": time}),
    ];
    write(&orchestrator, log, &records);
    let unfit = lines(&orchestrator, "unfit-record");
    let expected = [
        "no `usage`",
        "foo",
        "metadata",
        "no `timestamp`",
        "`content` is 5",
    ];
    assert_eq!(unfit.len(), expected.len(), "{unfit:?}");
    for ((line, detail), (at, wanted)) in unfit.iter().zip(expected.iter().enumerate()) {
        assert_eq!(*line, at as u64 + 2, "{unfit:?}");
        assert!(detail.contains(wanted), "{unfit:?}");
    }
    assert_eq!(orchestrator.annals(&["check", "--all", "--strict"]).code, 1);

    let mut first = message(1, "user", json!("no id"), json!({}));
    first.as_object_mut().unwrap().remove("uuid");
    let mut second = message(2, "user", json!(""), json!({}));
    second.as_object_mut().unwrap().remove("content");
    let third = message(3, "assistant", json!("fine"), json!({"costUsd": 1}));
    let chorus = chorus(&[first, second, third]);
    let unfit = lines(&chorus, "unfit-record");
    assert_eq!(unfit.len(), 2, "{unfit:?}");
    assert!(
        unfit[0].1.contains("`uuid`") && unfit[1].1.contains("`content`"),
        "{unfit:?}"
    );
}

#[test]
fn check_counts_repeated_unfit_records() {
    let orchestrator = Stage::empty().with_layout("orchestrator");
    let records = vec![json!({"type": "user", "content": "no time"}); 50];
    write(
        &orchestrator,
        "projects/v_FXjHoCS5zUJmfyn-5v/2026-11-13.jsonl",
        &records,
    );
    let unfit = lines(&orchestrator, "unfit-record");
    assert_eq!(unfit.len(), 21);
    assert_eq!(unfit[20].1, "30 more records like those above");
}

#[test]
fn check_reports_ids_that_differ_from_the_folder() {
    let mut other = said("msg_2", "user", "foreign", 2);
    other["conversationId"] = json!("conversation-other");
    let mut thread = said("msg_3", "user", "foreign", 3);
    thread["threadId"] = json!("thread_zzz");
    let stage = clog(&[said("msg_1", "user", "own", 1), other, thread]);
    let found_ids = lines(&stage, "mismatched-id");
    assert_eq!(found_ids.len(), 2, "{found_ids:?}");
    assert!(
        found_ids[0].1.contains("conversation-other"),
        "{found_ids:?}"
    );
    assert!(found_ids[1].1.contains("thread_zzz"), "{found_ids:?}");
    assert_eq!(found(&stage, "missing-file"), []);
    fs::remove_file(stage.root.join(CONVERSATION).join("notes.jsonl")).unwrap();
    let missing = found(&stage, "missing-file");
    assert!(
        missing.len() == 1 && missing[0].1.contains("notes.jsonl"),
        "{missing:?}"
    );

    // The whole folder was renamed.
    let copy = stage
        .root
        .join("conversations/conversation-2026-03-27T01-32-20-418Z-thread_new");
    fs::rename(stage.root.join(CONVERSATION), copy).unwrap();
    let found_ids = lines(&stage, "mismatched-id");
    assert_eq!(found_ids.len(), 3, "{found_ids:?}");
    assert_eq!(found_ids[0].0, 1);
}

#[test]
fn check_reports_session_list_rows_that_differ_from_the_log() {
    let stage = chorus(&[message(1, "user", json!("one"), json!({}))]);
    for kind in ["row-mismatch", "mismatched-id", "stale-index"] {
        assert_eq!(found(&stage, kind), [], "{kind}");
    }
    let mut row = row(99);
    row["agentId"] = json!("agent-z");
    row["workspaceId"] = json!("ws-z");
    let index = json!({"conversations": [row]});
    put(
        &stage,
        &format!("{CHORUS}/conversations.json"),
        &index.to_string(),
    );
    let path = format!("{CHORUS}/conversations.json");
    let count = found(&stage, "row-mismatch");
    assert_eq!(
        count,
        [(
            path.clone(),
            "lists conv-1 with 99 messages, but its log has 1".to_owned()
        )]
    );
    let ids = found(&stage, "mismatched-id");
    assert!(ids.len() == 1 && ids[0].0 == path, "{ids:?}");
    assert!(
        ids[0].1.contains("ws-z") && ids[0].1.contains("agent-z"),
        "{ids:?}"
    );
}

#[test]
fn check_accepts_native_examples_and_annals_own_records() {
    for (layout, fixture) in [
        ("chorus", "chorus-document"),
        ("clog", "examples-of-the-document"),
        ("orchestrator", "examples-of-the-document"),
    ] {
        let stage = Stage::with_fixture_of(layout, fixture);
        let new = stage.annals(&["new", "--cwd", ".", "-m", "hello"]);
        assert_eq!(new.code, 0, "{layout}: {new}");
        let reply = r#"{"role":"assistant","model":"claude-sonnet-4-5-20250929","content":[{"type":"text","text":"hi"},
            {"type":"tool_use","id":"c1","name":"Bash","input":{"command":"ls"}}]}"#;
        let reply = reply.replace('\n', "");
        let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"x"}]}"#;
        let run = stage.with_stdin(&["append", "latest"], format!("{reply}\n{result}\n"));
        assert_eq!(run.code, 0, "{layout}: {run}");
        for kind in [
            "unfit-record",
            "mismatched-id",
            "row-mismatch",
            "missing-file",
        ] {
            assert_eq!(found(&stage, kind), [], "{layout}: {kind}");
        }
    }
}

#[test]
fn show_prints_content_that_is_not_text() {
    let stage = Stage::empty().with_layout("orchestrator");
    let record = json!({"type": "user", "content": 5, "timestamp": "2026-11-13T10:00:00Z"});
    write(
        &stage,
        "projects/v_FXjHoCS5zUJmfyn-5v/2026-11-13.jsonl",
        &[record],
    );
    let shown = stage.annals(&["show", "2026-11-13"]).out;
    assert!(shown.contains("\nuser  2026-11-13"), "{shown}");
    assert!(
        shown.contains("→ content\n") && shown.contains('5'),
        "{shown}"
    );

    let mut nothing = message(1, "user", json!(""), json!({}));
    nothing.as_object_mut().unwrap().remove("content");
    let shown = chorus(&[nothing]).annals(&["show", "conv-1"]).out;
    assert!(shown.contains("user  2026-03-01"), "{shown}");
    assert!(shown.contains("(no content)"), "{shown}");
}

#[test]
fn conversations_json_has_layout_specific_members() {
    let session = json!({"sessionId": "e8d973c7-481e-43d9-809d-9a4880e8cebc"});
    let chorus = chorus(&[message(1, "user", json!("one"), session)]);
    let row = &chorus.annals(&["conversations", "--json"]).json()["conversations"][0];
    assert!(row["session_id"].is_string(), "{row}");
    assert_eq!(
        (&row["workspace"], &row["agent"]),
        (&json!("ws-1"), &json!("agent-a"))
    );
    assert_eq!(row["project"], "/home/dev/app");
    assert!(
        row["file"]
            .as_str()
            .unwrap()
            .ends_with("conv-1-messages.jsonl")
    );
    let clog = clog(&[said("msg_1", "user", "one", 1)]);
    let row = &clog.annals(&["conversations", "--json"]).json()["conversations"][0];
    assert_eq!(
        (&row["thread"], &row["channel"]),
        (&json!("thread_abc"), &json!("tui"))
    );
    // Unknown values are null, in both lists.
    for list in ["sessions", "conversations"] {
        let orchestrator = Stage::empty().with_layout("orchestrator");
        let record = json!({"type": "user", "content": "x", "timestamp": "2026-11-13T10:00:00Z"});
        write(
            &orchestrator,
            "projects/v_FXjHoCS5zUJmfyn-5v/2026-11-13.jsonl",
            &[record],
        );
        let row = &orchestrator.annals(&[list, "--json"]).json()[list][0];
        for name in ["source", "git_branch"] {
            assert_eq!(row.get(name), Some(&Value::Null), "{list}: {name}");
        }
    }
}

#[test]
fn tree_prints_no_colon_for_a_sub_agent_without_description() {
    let stage = Stage::empty();
    let line = |id: &str, more: Value| {
        let mut line = json!({"type": "user", "sessionId": "s-1", "uuid": id, "parentUuid": null,
            "timestamp": "2026-03-02T10:00:01.5Z", "message": {"role": "user", "content": "go"}});
        line.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        line
    };
    write(&stage, "projects/-w/s-1.jsonl", &[line("u1", json!({}))]);
    let agent = json!({"agentId": "a753668", "isSidechain": true});
    write(
        &stage,
        "projects/-w/s-1/subagents/agent-a753668.jsonl",
        &[line("u2", agent)],
    );
    put(
        &stage,
        "projects/-w/s-1/subagents/agent-a753668.meta.json",
        r#"{"agentType":"","description":""}"#,
    );
    let tree = stage.annals(&["tree", "s-1"]).out;
    assert!(tree.contains("a753668 sub-agent  1 message"), "{tree}");
}

#[test]
fn check_counts_a_log_of_two_sessions_once() {
    let stage = Stage::empty().with_layout("orchestrator");
    let time = "2026-11-13T10:00:00Z";
    let log = "projects/v_FXjHoCS5zUJmfyn-5v/2026-11-13.jsonl";
    let records = [
        json!({"type": "user", "content": "one", "timestamp": time}),
        json!({"type": "user", "content": "two", "timestamp": time, "metadata": {"sessionId": "s2"}}),
    ];
    write(&stage, log, &records);
    for (path, mode) in [("", 0o755), (log, 0o644)] {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(stage.root.join(path), mode).unwrap();
    }
    let open = found(&stage, "open-mode");
    assert!(open.len() == 1 && open[0].1.contains(" 1 log:"), "{open:?}");
}
