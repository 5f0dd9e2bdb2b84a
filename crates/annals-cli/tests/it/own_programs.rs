//! Files as the layouts' own programs leave them: rewritten logs, results that name no call, torn
//! session lists, lock files.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::Stage;

/// An orchestrator root with a log of three messages whose ids are only in the companion file.
fn three_messages() -> (Stage, PathBuf) {
    let stage = Stage::empty().with_layout("orchestrator");
    let messages = ["a", "b", "c"].map(|name| {
        let message = json!({
            "role": "user", "id": format!("id-{name}"), "content": format!("text {name}"),
            "timestamp": "2026-11-15T10:00:00.000Z",
        });
        format!("{message}\n")
    });
    let append = ["append", "./2026-11-15"];
    stage.with_stdin(&append, messages.concat()).fine();
    let log = stage.tree().into_keys().find(|path| {
        let name = path.file_name().unwrap();
        name == "2026-11-15.jsonl"
    });
    (stage, log.unwrap())
}

/// The ids and the blocks of the messages, in the order of the log.
fn shown(stage: &Stage) -> Vec<(String, Vec<String>)> {
    let shown = stage.annals(&["show", "./2026-11-15", "--json"]).json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = shown["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| {
            let blocks = entry["blocks"].as_array().unwrap().iter();
            let blocks = blocks.map(|block| text(&block["text"]));
            (text(&entry["id"]), blocks.collect())
        })
        .collect()
}

fn message(name: &str) -> (String, Vec<String>) {
    (format!("id-{name}"), vec![format!("text {name}")])
}

#[test]
fn messages_keep_their_ids_when_the_log_is_rewritten_in_another_order() {
    let (stage, log) = three_messages();
    assert_eq!(shown(&stage), ["a", "b", "c"].map(message));
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 3);
    for order in [[1, 0, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0]] {
        let copy = log.with_extension("new");
        fs::write(&copy, order.map(|at| lines[at]).concat()).unwrap();
        fs::rename(&copy, &log).unwrap();
        let names = order.map(|at| ["a", "b", "c"][at]);
        assert_eq!(shown(&stage), names.map(message), "{order:?}");
    }
    // An append after it is read with its own data.
    let more = json!({"role": "assistant", "id": "id-d", "content": [
        {"type": "thinking", "thinking": "thinking d"}, {"type": "text", "text": "text d"},
    ]});
    let append = ["append", "./2026-11-15"];
    stage.with_stdin(&append, more.to_string()).fine();
    let mut expected = ["b", "c", "a"].map(message).to_vec();
    expected.push((
        "id-d".to_owned(),
        vec!["thinking d".to_owned(), "text d".to_owned()],
    ));
    assert_eq!(shown(&stage), expected);
    let again = stage.refused(&append, &more.to_string());
    assert!(again.err.contains("id-d"), "{again}");
}

/// Writes a Chorus root with one conversation.
fn chorus(messages: &[Value]) -> Stage {
    let stage = Stage::empty().with_layout("chorus");
    let folder = stage.root.join("sessions/w1/a1");
    fs::create_dir_all(&folder).unwrap();
    let agent = json!({"id": "a1", "name": "A", "filePath": "/w/a.md", "workspaceId": "w1"});
    let workspace = json!({"id": "w1", "name": "W", "path": "/w", "agents": [agent]});
    let config = json!({"workspaces": [workspace], "settings": {}});
    fs::write(stage.root.join("config.json"), config.to_string()).unwrap();
    let row = |id: &str, count: usize| {
        json!({
            "id": id, "sessionId": null, "agentId": "a1", "workspaceId": "w1", "title": id,
            "createdAt": "2026-03-02T09:00:00.000Z", "updatedAt": "2026-03-02T09:00:00.000Z",
            "messageCount": count,
        })
    };
    let list = json!({"conversations": [row("c1", messages.len()), row("c2", 0)]});
    fs::write(folder.join("conversations.json"), list.to_string()).unwrap();
    let lines = messages.iter().enumerate().map(|(at, message)| {
        let mut message = message.clone();
        message["uuid"] = json!(format!("u{at}"));
        message["timestamp"] = json!(format!("2026-03-02T09:00:{at:02}.000Z"));
        format!("{message}\n")
    });
    fs::write(folder.join("c1-messages.jsonl"), lines.collect::<String>()).unwrap();
    stage.settle();
    stage
}

/// Converts to Claude Code. Returns the tools that were called and the results with the tools that
/// they answer.
fn converted(stage: &Stage) -> Vec<(String, String)> {
    let target = Stage::empty();
    let into = target.root.to_str().unwrap();
    let root = format!("chorus:{}", stage.root.display());
    let convert = ["convert", "--to", "claude-code", "--into", into, &root];
    stage.bare(&convert).fine();
    target.settle();
    let checked = target.annals(&["check", "--json"]).json();
    assert!(!checked.to_string().contains("lone-result"), "{checked}");
    let mut tools = std::collections::BTreeMap::new();
    let mut results = Vec::new();
    for (path, bytes) in target.tree() {
        if path.extension().is_none_or(|ending| ending != "jsonl") {
            continue;
        }
        for line in String::from_utf8(bytes).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let Some(blocks) = line["message"]["content"].as_array() else {
                continue;
            };
            for block in blocks {
                let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
                match text("type").as_str() {
                    "tool_use" => _ = tools.insert(text("id"), text("name")),
                    "tool_result" => {
                        let output = match &block["content"] {
                            Value::String(text) => text.clone(),
                            parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
                        };
                        results.push((output, text("tool_use_id")));
                    }
                    _ => {}
                }
            }
        }
    }
    let results = results.into_iter();
    results
        .map(|(output, call)| (output, tools.get(&call).cloned().unwrap_or(call)))
        .collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(output, tool): &(&str, &str)| ((*output).to_owned(), (*tool).to_owned());
    expected.iter().map(owned).collect()
}

#[test]
fn results_that_name_no_tool_answer_the_oldest_open_call() {
    let prompt = json!({"type": "user", "content": "go"});
    let call = |name: &str| json!({"type": "tool_use", "name": name, "input": {}});
    let result = |text: &str| json!({"type": "tool_result", "text": text});
    let blocks = chorus(&[
        prompt.clone(),
        json!({"type": "assistant", "content": [
            {"type": "text", "text": "x"}, call("Grep"), call("Read"),
        ]}),
        json!({"type": "user", "content": [result("R1"), result("R2")]}),
    ]);
    assert_eq!(converted(&blocks), pairs(&[("R1", "Grep"), ("R2", "Read")]));
    let line = |kind: &str, text: &str, tool: Option<&str>| {
        let mut line = json!({"type": kind, "content": text});
        if let Some(tool) = tool {
            line["toolName"] = json!(tool);
        }
        line
    };
    let lines = chorus(&[
        prompt,
        line("tool_use", "", Some("Grep")),
        line("tool_use", "", Some("Read")),
        line("tool_result", "R2", Some("Read")),
        // A result of an older call, when the last one is answered.
        line("tool_result", "R1", None),
        line("tool_use", "", Some("Bash")),
        line("tool_use", "", Some("Glob")),
        line("tool_result", "R3", None),
        line("tool_result", "R4", None),
    ]);
    let expected = [
        ("R2", "Read"),
        ("R1", "Grep"),
        ("R3", "Bash"),
        ("R4", "Glob"),
    ];
    assert_eq!(converted(&lines), pairs(&expected));
}

#[test]
fn check_reports_a_result_without_the_id_of_its_call() {
    let session = "00000000-0000-4000-8000-000000000001";
    for id in [json!(""), Value::Null] {
        let stage = Stage::empty();
        let folder = stage.root.join("projects/-w");
        fs::create_dir_all(&folder).unwrap();
        let mut result = json!({"type": "tool_result", "content": "x"});
        if id.is_string() {
            result["tool_use_id"] = id;
        }
        let line = json!({
            "type": "user", "uuid": "00000000-0000-4000-8000-000000000002", "parentUuid": null,
            "sessionId": session, "cwd": "/w", "timestamp": "2026-11-13T09:00:00.000Z",
            "message": {"role": "user", "content": [result]},
        });
        fs::write(folder.join(format!("{session}.jsonl")), format!("{line}\n")).unwrap();
        stage.settle();
        let checked = stage.annals(&["check", "--json"]).json();
        let text = checked.to_string();
        assert!(text.contains("lone-result"), "{checked}");
        assert!(text.contains("without the id of its call"), "{checked}");
    }
}

#[test]
fn a_rebuilt_session_list_is_reported_with_its_original() {
    let stage = chorus(&[json!({"type": "user", "content": "hello"})]);
    let list = stage.root.join("sessions/w1/a1/conversations.json");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, &text[..text.len() - 30]).unwrap();
    let appended = stage.annals(&["append", "c1", "-m", "more"]).fine();
    let original = stage.tree().into_keys().find(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("conversations.json.damaged-")
    });
    let original = original.unwrap();
    let name = original.file_name().unwrap().to_str().unwrap();
    assert!(appended.err.contains(name), "{appended}");
    assert!(
        appended.err.contains("add its row from there"),
        "{appended}"
    );
    assert_eq!(
        fs::read_to_string(&original).unwrap(),
        text[..text.len() - 30]
    );
    // The next append has nothing to report.
    let appended = stage.annals(&["append", "c1", "-m", "again"]).fine();
    assert!(!appended.err.contains("damaged"), "{appended}");
    stage.settle();
    let checked = stage.annals(&["check", "--json"]).json();
    let detail = "original of a damaged conversations.json that annals rebuilt";
    assert!(checked.to_string().contains(detail), "{checked}");
}

#[test]
fn a_duration_in_a_result_block_is_written_to_the_record() {
    let stage = Stage::empty().with_layout("orchestrator");
    let call = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "c1", "name": "Read", "input": {}},
        {"type": "tool_use", "id": "c2", "name": "Bash", "input": {}},
    ]});
    let result = |call: &str, duration: Value| json!({"type": "tool_result", "tool_use_id": call, "content": "x", "duration_ms": duration});
    let results =
        json!({"role": "user", "content": [result("c1", json!(543)), result("c2", json!(1.5))]});
    let lines = format!("{call}\n{results}\n");
    stage.with_stdin(&["append", "./2026-11-15"], lines).fine();
    let log = stage.tree().into_iter();
    let log = log.filter(|(path, _)| path.extension().is_some_and(|ending| ending == "jsonl"));
    let text: Vec<u8> = log.flat_map(|(_, bytes)| bytes).collect();
    let text = String::from_utf8(text).unwrap();
    let durations: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["type"] == "tool_result")
        .map(|line| line["duration_ms"].clone())
        .collect();
    assert_eq!(durations, [json!(543), json!(1.5)]);
    let mut differs = json!({"role": "user", "content": [result("c1", json!(5))]});
    differs["duration_ms"] = json!(6);
    let refused = stage.refused(&["append", "./2026-11-15"], &differs.to_string());
    assert!(refused.err.contains("duration_ms"), "{refused}");
}

#[test]
fn a_lock_file_of_another_kind_is_refused_with_a_way_out() {
    let (stage, log) = three_messages();
    let lock = log.with_extension("jsonl.lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    let refused = stage.refused(&["append", "./2026-11-15", "-m", "x"], "");
    assert!(
        refused.err.contains("is a directory") && refused.err.contains("move it away"),
        "{refused}"
    );
}

#[test]
fn plans_and_documents_are_paged() {
    let stage = Stage::empty();
    let plans = stage.root.join("plans");
    fs::create_dir_all(&plans).unwrap();
    for name in ["one", "two", "three"] {
        fs::write(plans.join(format!("{name}.md")), format!("# Plan {name}\n")).unwrap();
    }
    stage.settle();
    for verb in ["plans", "documents"] {
        let all = stage.annals(&[verb, "--json"]).json();
        let page = stage.annals(&[verb, "-n", "1", "--offset", "1", "--json"]);
        let page = page.json();
        assert_eq!(page[verb].as_array().unwrap().len(), 1, "{page}");
        assert_eq!(page[verb][0], all[verb][1], "{page}");
        assert_eq!(page["total"], all["total"], "{page}");
        stage.refused(&[verb, "one", "--offset", "1"], "");
    }
}
