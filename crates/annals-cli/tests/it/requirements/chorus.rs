//! The design document of Chorus (document 000).

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use annals::layout::NewSession;
use annals::layout::chorus::{Config, ConfigEdit};
use annals::model::{Block, Body, Draft, SessionId, Usage};
use annals::store::{Root, SessionWriter, Store, WriteOptions};
use serde_json::{Value, json};

use crate::harness::Stage;

const SDK: &str = "000000e8-2bc4-4b6c-a2ad-3d0b2b3c8d11";
const FOLDER: &str = "sessions/ws-1/agent-a";

/// The root that the document describes.
fn stage() -> Stage {
    Stage::with_fixture_of("chorus", "chorus-document")
}

fn root(stage: &Stage) -> Root {
    Root::new("chorus", &stage.root).unwrap()
}

fn store(stage: &Stage) -> Store {
    let state = stage.root.with_file_name("state");
    Store::new(vec![root(stage)]).with_state(state)
}

fn writer(stage: &Stage, id: &str) -> SessionWriter {
    let options = WriteOptions::default();
    store(stage).resume(id, options).unwrap()
}

/// The rows of a session list by id.
fn index(stage: &Stage, folder: &str) -> BTreeMap<String, Value> {
    let bytes = fs::read(stage.root.join(folder).join("conversations.json")).unwrap();
    let document: Value = serde_json::from_slice(&bytes).unwrap();
    let rows = document["conversations"].as_array().unwrap().iter();
    rows.map(|row| (row["id"].as_str().unwrap().to_owned(), row.clone()))
        .collect()
}

fn log(stage: &Stage, id: &str) -> Vec<Value> {
    let path = stage.root.join(FOLDER).join(format!("{id}-messages.jsonl"));
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The rows of `annals sessions --json` by id.
fn sessions(stage: &Stage, args: &[&str]) -> BTreeMap<String, Value> {
    let args: Vec<&str> = [&["sessions", "--json"], args].concat();
    let document = stage.annals(&args).json();
    let rows = document["sessions"].as_array().unwrap().iter();
    rows.map(|row| (row["id"].as_str().unwrap().to_owned(), row.clone()))
        .collect()
}

fn ids(rows: &BTreeMap<String, Value>) -> Vec<&str> {
    rows.keys().map(String::as_str).collect()
}

/// The entries of `annals show --json`.
fn entries(stage: &Stage, id: &str) -> Vec<Value> {
    let document = stage.annals(&["show", id, "--json"]).json();
    document["entries"].as_array().unwrap().clone()
}

fn config(stage: &Stage) -> Value {
    let bytes = fs::read(stage.root.join("config.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Every file below the root.
fn files(stage: &Stage) -> BTreeMap<PathBuf, Vec<u8>> {
    let tree = stage.tree().into_iter();
    tree.filter(|(path, _)| path.starts_with(&stage.root))
        .collect()
}

/// Requirements: 000.1, 000.3, 000.5, 000.26, 000.60
#[test]
fn the_root_of_a_project_is_found_with_its_conversations_where_they_lie() {
    let stage = stage();
    fs::rename(&stage.root, stage.work().join(".chorus")).unwrap();
    let found = stage.bare(&["sessions", "--json"]).json();
    let files: Vec<&str> = found["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["file"].as_str().unwrap())
        .collect();
    for file in [
        "ws-1/agent-a/conv-1",
        "ws-1/agent-a/conv-2",
        "ws-2/agent-b/conv-3",
    ] {
        let file = format!("[DIR]/work/.chorus/sessions/{file}-messages.jsonl");
        assert!(files.contains(&file.as_str()), "{file}: {files:?}");
    }
    let root = Root::new("chorus", stage.work().join(".chorus")).unwrap();
    let store = Store::new(vec![root.clone()]);
    let writer = store.resume("conv-1", WriteOptions::default()).unwrap();
    let path = root.path.join(FOLDER).join("conv-1-messages.jsonl");
    assert_eq!(writer.path(), path);
}

/// Requirements: 000.2, 000.7, 000.8, 000.9, 000.11, 000.12, 000.14, 000.15, 000.16, 000.17, 000.18, 000.19
#[test]
fn the_configuration_is_read_with_all_its_members() {
    let stage = stage();
    let workspaces = stage.annals(&["chorus", "workspaces", "--json"]).json();
    let first = &workspaces["workspaces"][0];
    for (name, value) in [
        ("id", json!("ws-1")),
        ("name", json!("my-app")),
        ("path", json!("/home/dev/my-app")),
        ("expanded", json!(true)),
        ("git_branch", Value::Null),
        ("dirty", json!(false)),
        ("system_prompt", json!(false)),
    ] {
        assert_eq!(first[name], value, "{name}");
    }
    assert_eq!(workspaces["workspaces"][1]["git_branch"], "main");
    let agents = stage.annals(&["chorus", "agents", "--json"]).json();
    let agent = &agents["agents"][0];
    assert_eq!(agent["id"], "agent-a");
    assert_eq!(agent["name"], "Reviewer");
    assert_eq!(agent["workspace"], "ws-1");
    assert_eq!(agent["file"], "/home/dev/my-app/.claude/agents/agent-a.md");
    let settings = stage.annals(&["chorus", "settings", "--json"]).json();
    assert_eq!(settings["settings"]["rootWorkspaceDir"], "/home/dev");
}

/// Requirements: 000.6, 000.13, 000.20
#[test]
fn members_of_workspaces_and_agents_are_set_and_nothing_else_changes() {
    let stage = stage();
    let path = stage.root.join("config.json");
    let before = fs::read_to_string(&path).unwrap().replacen(
        "\"isDirty\"",
        "\"openTabs\": [1e3],\n\t\t\t\"isDirty\"",
        1,
    );
    fs::write(&path, &before).unwrap();
    for (key, value) in [
        ("isExpanded", "false"),
        ("gitBranch", "topic"),
        ("isDirty", "true"),
        ("hasSystemPrompt", "true"),
    ] {
        stage
            .annals(&["chorus", "workspaces", "set", "ws-1", key, value])
            .fine();
    }
    let file = [
        "chorus", "agents", "set", "ws-1", "agent-a", "filePath", "/x.md",
    ];
    stage.annals(&file).fine();
    let wanted = before
        .replacen("\"isExpanded\": true", "\"isExpanded\": false", 1)
        .replacen("\"gitBranch\": null", "\"gitBranch\": \"topic\"", 1)
        .replacen("\"isDirty\": false", "\"isDirty\": true", 1)
        .replacen("\"hasSystemPrompt\": false", "\"hasSystemPrompt\": true", 1)
        .replacen("/home/dev/my-app/.claude/agents/agent-a.md", "/x.md", 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted);
    stage
        .annals(&["chorus", "workspaces", "set", "ws-1", "gitBranch", ""])
        .fine();
    assert_eq!(config(&stage)["workspaces"][0]["gitBranch"], Value::Null);
    for args in [
        &["chorus", "workspaces", "set", "ws-1", "isDirty", "maybe"][..],
        &["chorus", "workspaces", "set", "ws-1", "colour", "red"],
        &["chorus", "workspaces", "set", "ws-9", "isDirty", "true"],
        &[
            "chorus",
            "agents",
            "set",
            "ws-1",
            "agent-a",
            "workspaceId",
            "ws-2",
        ],
        &[
            "chorus", "agents", "set", "ws-1", "agent-z", "filePath", "/x.md",
        ],
    ] {
        stage.refused(args, "");
    }
}

/// Requirements: 000.21, 000.22, 000.23, 000.24, 000.25, 000.61
#[test]
fn settings_are_set_checked_and_have_the_defaults_of_the_document() {
    let stage = stage();
    for (key, value) in [
        ("rootWorkspaceDir", "/x"),
        ("theme", "light"),
        ("chatSidebarCollapsed", "true"),
        ("chatSidebarWidth", "320"),
    ] {
        stage.annals(&["chorus", "settings", key, value]).fine();
    }
    let set = json!({"rootWorkspaceDir": "/x", "theme": "light", "chatSidebarCollapsed": true,
                     "chatSidebarWidth": 320});
    assert_eq!(config(&stage)["settings"], set);
    stage.refused(&["chorus", "settings", "theme", "purple"], "");
    stage.refused(&["chorus", "settings", "chatSidebarWidth", "wide"], "");
    // A root that does not exist yet.
    let root = Root::new("chorus", stage.work().join("new/.chorus")).unwrap();
    let store = Store::new(vec![root.clone()]);
    let usual = Config::default();
    assert_eq!(store.chorus().config(&root).unwrap(), usual);
    assert_eq!(usual.settings.theme, "dark");
    assert!(!usual.settings.chat_sidebar_collapsed);
    assert_eq!(usual.settings.chat_sidebar_width, 240);
    let add = ConfigEdit::AddWorkspace {
        id: Some("ws-1".to_owned()),
        name: None,
        path: "/home/dev/app".to_owned(),
    };
    store.chorus().edit(&root, &add).unwrap();
    assert_eq!(
        store.chorus().config(&root).unwrap().workspaces[0].name,
        "app"
    );
}

/// Requirements: 000.10, 000.33, 000.72, 000.73, 000.74
#[test]
fn conversations_are_listed_by_workspace_and_agent_newest_first() {
    let stage = stage();
    let of_first = ["conv-1", "conv-2"];
    for wanted in ["ws-1", "my-app"] {
        assert_eq!(
            ids(&sessions(&stage, &["-p", wanted])),
            of_first,
            "{wanted}"
        );
    }
    for wanted in ["agent-a", "Reviewer"] {
        let rows = sessions(&stage, &["--agent", wanted]);
        assert_eq!(ids(&rows), of_first, "{wanted}");
    }
    let row = &sessions(&stage, &[])["conv-3"];
    for (name, value) in [
        ("workspace", "ws-2"),
        ("workspace_name", "other"),
        ("agent", "agent-b"),
        ("agent_name", "Writer"),
    ] {
        assert_eq!(row[name], value, "{name}");
    }
    let store = store(&stage);
    let rows = store
        .chorus()
        .list_folder(&root(&stage), "ws-1/agent-a")
        .unwrap();
    let listed: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(listed, ["conv-2", "conv-1"]);
    let inventory = store.inventory();
    let all = store
        .chorus()
        .sessions_in_folder(&inventory, &root(&stage), "ws-1");
    assert_eq!(all.len(), 2);
}

/// Requirements: 000.4, 000.37
#[test]
fn a_conversation_without_messages_is_a_session() {
    let stage = stage();
    let row = &sessions(&stage, &[])["conv-2"];
    assert_eq!(row["title"], "Planned work");
    assert_eq!(row["state"], "created");
    assert_eq!(row["messages"], 0);
    assert_eq!(row["started"], "2026-03-02T09:01:00Z");
    assert_eq!(row["updated"], "2026-03-02T09:01:00Z");
    assert_eq!(sessions(&stage, &["--no-index"])["conv-2"], *row);
    let shown = stage.annals(&["show", "conv-2"]).fine();
    assert!(shown.out.contains("no messages yet"), "{shown}");
    stage.annals(&["check"]).fine();
    let overview = stage.annals(&["--json"]).json();
    assert_eq!(overview["sessions"], 3, "{overview}");
    // A title, a tag and a note do not create its log.
    let path = stage.root.join(FOLDER).join("conv-2-messages.jsonl");
    stage.annals(&["title", "conv-2", "Next week"]).fine();
    stage.annals(&["tag", "conv-2", "later"]).fine();
    stage
        .annals(&["notes", "add", "conv-2", "ask first"])
        .fine();
    assert!(!path.exists());
    assert_eq!(index(&stage, FOLDER)["conv-2"]["title"], "Next week");
    let notes = stage.annals(&["notes", "conv-2"]).fine();
    assert!(notes.out.contains("ask first"), "{notes}");
    stage.annals(&["check"]).fine();
    // There is nothing to archive or to fork.
    stage.refused(&["archive", "conv-2", "--apply"], "");
    stage.refused(&["fork", "conv-2"], "");
    stage.annals(&["keep"]).fine();
    assert!(ids(&sessions(&stage, &[])).contains(&"conv-2"));
    // The first message creates it.
    stage.annals(&["append", "conv-2", "-m", "Go on"]).fine();
    let row = &index(&stage, FOLDER)["conv-2"];
    assert_eq!(row["messageCount"], 1);
    assert_eq!(row["title"], "Next week");
    assert_eq!(row["createdAt"], "2026-03-02T09:01:00.000Z");
    assert_eq!(log(&stage, "conv-2")[0]["content"], "Go on");
    assert_eq!(sessions(&stage, &[])["conv-2"]["state"], "active");
}

/// Requirements: 000.37, 000.75
#[test]
fn a_conversation_without_messages_is_deleted_and_comes_back() {
    let stage = stage();
    let before = index(&stage, FOLDER);
    stage.annals(&["delete", "conv-2", "--apply"]).fine();
    assert_eq!(ids(&sessions(&stage, &[])), ["conv-1", "conv-3"]);
    assert!(!index(&stage, FOLDER).contains_key("conv-2"));
    stage.annals(&["delete", "--undo", "conv-2"]).fine();
    assert_eq!(index(&stage, FOLDER), before);
    // A conversation that was written to in the meantime is not deleted.
    let store = store(&stage);
    let inventory = store.inventory();
    let files = store.find(&inventory, "conv-2").unwrap().files;
    writer(&stage, "conv-2")
        .append(Draft::user("hello"))
        .unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    assert!(store.trash().move_in(&files, now).is_err());
    assert_eq!(log(&stage, "conv-2").len(), 1);
}

/// Requirements: 000.28, 000.29, 000.30, 000.31, 000.32
#[test]
fn session_of_a_conversation_is_shown_set_and_found() {
    let stage = stage();
    assert_eq!(sessions(&stage, &[])["conv-1"]["session_id"], SDK);
    let shown = stage.annals(&["show", "000000e8", "--json"]).json();
    assert_eq!(shown["session"]["id"], "conv-1");
    // Set and reset by `annals set`.
    stage
        .annals(&["set", "conv-2", "sessionId", "by-hand"])
        .fine();
    assert_eq!(index(&stage, FOLDER)["conv-2"]["sessionId"], "by-hand");
    let shown = stage.annals(&["show", "by-hand", "--json"]).json();
    assert_eq!(shown["session"]["id"], "conv-2");
    stage.annals(&["set", "conv-2", "sessionId", ""]).fine();
    assert_eq!(index(&stage, FOLDER)["conv-2"]["sessionId"], Value::Null);
    // A message with a `sessionId` changes it.
    let named = Draft::user("again").member("sessionId", "\"sdk-2\"");
    writer(&stage, "conv-1").append(named).unwrap();
    assert_eq!(index(&stage, FOLDER)["conv-1"]["sessionId"], "sdk-2");
    assert_eq!(sessions(&stage, &[])["conv-1"]["session_id"], "sdk-2");
    // A message without one does not.
    writer(&stage, "conv-1")
        .append(Draft::user("more"))
        .unwrap();
    assert_eq!(index(&stage, FOLDER)["conv-1"]["sessionId"], "sdk-2");
    stage.refused(&["set", "conv-1", "messageCount", "3"], "");
    stage.refused(&["set", "conv-1", "settings", "loud"], "");
    stage.refused(&["show", "conv-9"], "");
}

/// Requirements: 000.27, 000.31, 000.34, 000.35, 000.36, 000.38
#[test]
fn rows_are_made_and_kept_up_to_date_in_place() {
    let stage = stage();
    let path = stage.root.join(FOLDER).join("conversations.json");
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replacen(
        "\"messageCount\": 10",
        "\"zzz\": 1e5,\n      \"messageCount\": 10",
        1,
    );
    fs::write(&path, text).unwrap();
    stage
        .annals(&["append", "conv-1", "--role", "error", "-m", "boom"])
        .fine();
    let row = &index(&stage, FOLDER)["conv-1"];
    assert_eq!(row["messageCount"], 11);
    assert_eq!(row["updatedAt"], "2026-11-15T12:00:00.000Z");
    assert_eq!(row["createdAt"], "2026-03-02T09:00:00.000Z");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"zzz\": 1e5"), "{text}");
    // A new conversation with members chosen by the caller.
    let new = NewSession::new(SessionId::new("conv-4").unwrap(), "/home/dev/my-app")
        .folder("ws-1/agent-a")
        .member("sessionId", "\"sdk-4\"")
        .member("settings", r#"{"model":"default"}"#);
    let made = store(&stage);
    let made = made.create(&root(&stage), &new, WriteOptions::default());
    let made = made.unwrap();
    let row = &index(&stage, FOLDER)["conv-4"];
    assert_eq!(row["title"], "New Conversation");
    assert_eq!(row["messageCount"], 0);
    assert_eq!(row["sessionId"], "sdk-4");
    assert_eq!(row["settings"], json!({"model": "default"}));
    assert_eq!(row["agentId"], "agent-a");
    assert_eq!(row["workspaceId"], "ws-1");
    // After the first reply, the title is the first prompt, cut to 47 characters.
    let prompt = "A prompt that is longer than what the list of conversations has room for";
    made.append(Draft::user(prompt)).unwrap();
    made.append(Draft::assistant([Block::Text("Yes.".to_owned())]))
        .unwrap();
    made.close().unwrap();
    let title = index(&stage, FOLDER)["conv-4"]["title"].clone();
    assert_eq!(title, format!("{}...", &prompt[..47]));
    let refused = NewSession::new(SessionId::new("conv-5").unwrap(), "/home/dev/my-app")
        .folder("ws-1/agent-a")
        .member("settings", "7");
    let store = store(&stage);
    let options = WriteOptions::default();
    assert!(store.create(&root(&stage), &refused, options).is_err());
    assert!(!index(&stage, FOLDER).contains_key("conv-5"));
}

/// Requirements: 000.39, 000.40, 000.41, 000.42, 000.43, 000.44, 000.45, 000.46, 000.48, 000.49, 000.52, 000.55, 000.57
#[test]
fn every_type_of_message_is_written_as_the_document_has_it_and_read_back() {
    let stage = stage();
    let conversation = writer(&stage, "conv-2");
    let call = Block::ToolUse {
        id: "toolu_1".to_owned(),
        name: "Bash".to_owned(),
        input: r#"{"command":"ls"}"#.to_owned(),
    };
    let system = Body::System {
        subtype: "error".to_owned(),
        text: "boom".to_owned(),
    };
    let drafts = vec![
        Draft::user("hello"),
        Draft::assistant([Block::Text("I look.".to_owned())]),
        Draft::assistant([call]),
        Draft::tool_result("toolu_1", "a b"),
        Draft::new(system),
    ];
    conversation.append_all(drafts).unwrap();
    conversation.close().unwrap();
    let lines = log(&stage, "conv-2");
    let types: Vec<&str> = lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        ["user", "assistant", "tool_use", "tool_result", "error"]
    );
    for line in &lines {
        assert!(
            line["uuid"].is_string() && line["content"].is_string(),
            "{line}"
        );
        let time = line["timestamp"].as_str().unwrap();
        assert!(time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok());
    }
    assert_eq!(lines[2]["toolName"], "Bash");
    assert_eq!(lines[2]["toolInput"], json!({"command": "ls"}));
    let shown = entries(&stage, "conv-2");
    let kinds: Vec<&Value> = shown
        .iter()
        .map(|entry| &entry["blocks"][0]["kind"])
        .collect();
    assert_eq!(kinds[..4], ["text", "text", "tool_use", "tool_result"]);
    // The message types of the fixture, and text blocks.
    let read = entries(&stage, "conv-1");
    assert_eq!(read.len(), 10);
    assert_eq!(read[1]["blocks"][0]["text"], "Let me look.");
    assert_eq!(read[8]["role"], "system");
}

/// Requirements: 000.47
#[test]
fn errors_are_part_of_the_conversation_and_counted_like_the_index_counts() {
    let stage = stage();
    let shown = stage.annals(&["show", "conv-1"]).fine();
    assert!(shown.out.contains("API overloaded"), "{shown}");
    assert!(shown.out.contains("10 messages"), "{shown}");
    let counted = &sessions(&stage, &[])["conv-1"]["messages"];
    assert_eq!(*counted, index(&stage, FOLDER)["conv-1"]["messageCount"]);
}

/// Requirements: 000.50, 000.51, 000.58
#[test]
fn calls_and_results_without_ids_belong_together_by_tool_and_order() {
    let stage = stage().without_notes();
    stage.annals(&["check"]).fine();
    let checked = stage.annals(&["check", "--json"]).json();
    assert_eq!(checked["flaws"], 0, "{checked}");
    let entries = entries(&stage, "conv-1");
    let calls = [
        &entries[1]["blocks"][1],
        &entries[3]["blocks"][0],
        &entries[4]["blocks"][0],
    ];
    let results = [&entries[2], &entries[5], &entries[6]].map(|entry| &entry["blocks"][0]);
    assert_eq!(calls[0]["name"], "Read");
    assert_eq!(calls[0]["input"], json!({"path": "parser.rs"}));
    for (call, result) in calls.iter().zip(results) {
        assert_ne!(call["id"], "");
        assert_eq!(call["id"], result["call"]);
    }
    assert_ne!(calls[1]["id"], calls[2]["id"]);
    // The text of a block in a tool result.
    assert_eq!(results[0]["output"][0]["text"], "fn parse() {}");
    let hits = stage.annals(&["search", "fn parse", "--json"]).json();
    assert_eq!(hits["total"], 1, "{hits}");
    let hits = stage
        .annals(&["search", "tool:Bash failed", "--json"])
        .json();
    assert_eq!(hits["total"], 1, "{hits}");
}

/// Requirements: 000.58, 000.77
#[test]
fn conversion_writes_unique_ids_and_comes_back_byte_for_byte() {
    let stage = stage();
    let (into, back) = (stage.work().join("claude"), stage.work().join("back"));
    let source = format!("chorus:{}", stage.root.display());
    let into_text = into.to_str().unwrap();
    let there = [
        "convert",
        &source,
        "--to",
        "claude-code",
        "--into",
        into_text,
    ];
    stage.annals(&there).fine();
    let mut calls = Vec::new();
    let mut answers = Vec::new();
    let tree = stage.tree().into_iter();
    let logs = tree.filter(|(path, _)| {
        let name = path.file_name().unwrap();
        path.starts_with(into.join("projects")) && name != "annals-origin.jsonl"
    });
    for (_, bytes) in logs {
        for line in String::from_utf8(bytes).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let blocks = line["message"]["content"].as_array().cloned();
            for block in blocks.unwrap_or_default() {
                let id = |name: &str| block[name].as_str().map(str::to_owned);
                calls.extend(id("id"));
                answers.extend(id("tool_use_id"));
            }
        }
    }
    assert_eq!(calls.len(), 3);
    let unique: std::collections::BTreeSet<&String> = calls.iter().collect();
    assert_eq!(unique.len(), 3);
    calls.sort();
    answers.sort();
    assert_eq!(calls, answers);
    let root = format!("claude-code:{into_text}");
    let back_text = back.to_str().unwrap();
    let args = [
        "--root",
        &root,
        "convert",
        &root,
        "--to",
        "chorus",
        "--into",
        back_text,
        "--also",
        "config.json",
        "--also",
        "NOTES.md",
    ];
    stage.bare(&args).fine();
    let of = |dir: &PathBuf| -> BTreeMap<PathBuf, Vec<u8>> {
        let tree = stage.tree().into_iter();
        tree.filter_map(|(path, bytes)| Some((path.strip_prefix(dir).ok()?.to_owned(), bytes)))
            .collect()
    };
    assert!(of(&back) == of(&stage.root));
}

/// Requirements: 000.53, 000.54
#[test]
fn members_of_a_message_are_written_and_read() {
    let stage = stage();
    let conversation = writer(&stage, "conv-2");
    let members = [
        ("sessionId", json!("sdk-5")),
        ("claudeMessage", json!({"type": "assistant"})),
        ("costUsd", json!(0.25)),
        ("durationMs", json!(1200)),
        ("contextWindow", json!(200_000)),
        ("numTurns", json!(3)),
    ];
    let mut draft = Draft::assistant([Block::Text("Done.".to_owned())]);
    for (name, value) in &members {
        draft = draft.member(*name, value.to_string());
    }
    let written = conversation.append(draft).unwrap();
    assert_eq!(written.members.len(), members.len());
    let line = &log(&stage, "conv-2")[0];
    let shown = &entries(&stage, "conv-2")[0];
    for (name, value) in &members {
        assert_eq!(line[*name], *value, "{name}");
        assert_eq!(shown["members"][*name], *value, "{name}");
    }
    for (name, json) in [
        ("sessionId", "7"),
        ("claudeMessage", "\"x\""),
        ("costUsd", "\"much\""),
        ("numTurns", "-1"),
        ("colour", "\"red\""),
    ] {
        let draft = Draft::user("no").member(name, json);
        assert!(conversation.append(draft).is_err(), "{name}");
    }
    assert_eq!(log(&stage, "conv-2").len(), 1);
}

/// Requirements: 000.56, 000.59
#[test]
fn results_name_their_tool_and_tokens_stand_once() {
    let stage = stage();
    let conversation = writer(&stage, "conv-2");
    let call = |id: &str, name: &str| Block::ToolUse {
        id: id.to_owned(),
        name: name.to_owned(),
        input: "{}".to_owned(),
    };
    let usage = Usage {
        input: 100,
        output: 20,
        ..Usage::default()
    };
    let reply = [
        Block::Text("Two things.".to_owned()),
        call("toolu_1", "Read"),
        call("toolu_2", "Bash"),
    ];
    conversation
        .append(Draft::assistant(reply).model("claude-test").usage(usage))
        .unwrap();
    conversation
        .append(Draft::tool_result("toolu_2", "b"))
        .unwrap();
    // After the writer was closed, the tool name is read from the log.
    conversation.close().unwrap();
    writer(&stage, "conv-2")
        .append(Draft::tool_result("toolu_1", "a"))
        .unwrap();
    let lines = log(&stage, "conv-2");
    let results = lines.iter().filter(|line| line["type"] == "tool_result");
    let tools: Vec<&Value> = results.map(|line| &line["toolName"]).collect();
    assert_eq!(tools, ["Bash", "Read"]);
    let sum = |name: &str| -> u64 {
        let counts = lines.iter().filter_map(|line| line[name].as_u64());
        counts.sum()
    };
    assert_eq!((sum("inputTokens"), sum("outputTokens")), (100, 20));
    assert_eq!(lines[0]["type"], "assistant");
    assert_eq!(lines[0]["outputTokens"], 20);
    assert_eq!(sessions(&stage, &[])["conv-2"]["usage"]["output"], 20);
}

/// Requirements: 000.59
#[test]
fn a_continued_reply_adds_only_new_text() {
    let stage = stage();
    let conversation = writer(&stage, "conv-2");
    for (text, output) in [("One", 5), ("Two", 12)] {
        let mut draft = Draft::assistant([Block::Text(text.to_owned())]).usage(Usage {
            input: 100,
            output,
            ..Usage::default()
        });
        if let Body::Message(message) = &mut draft.body {
            message.response = Some("msg_1".to_owned());
        }
        conversation.append(draft).unwrap();
    }
    let lines = log(&stage, "conv-2");
    let tokens: Vec<&Value> = lines.iter().map(|line| &line["outputTokens"]).collect();
    assert_eq!(tokens, [5, 7]);
    let counted = &sessions(&stage, &[])["conv-2"]["usage"];
    assert_eq!(
        (&counted["input"], &counted["output"]),
        (&json!(100), &json!(12))
    );
}

/// Requirements: 000.62, 000.63
#[test]
fn appends_keep_every_byte_and_seal_a_torn_line() {
    use std::os::unix::fs::MetadataExt as _;
    let stage = stage();
    let path = stage.root.join(FOLDER).join("conv-1-messages.jsonl");
    let mut before = fs::read(&path).unwrap();
    before.extend_from_slice(b"{\"uuid\":\"torn");
    fs::write(&path, &before).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    stage.annals(&["append", "conv-1", "-m", "go on"]).fine();
    let after = fs::read(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    let added = after.strip_prefix(before.as_slice()).unwrap();
    let text = std::str::from_utf8(added).unwrap();
    assert!(text.starts_with("\n{") && text.ends_with("}\n"), "{text}");
    assert_eq!(stage.annals(&["check"]).code, 1);
    assert_eq!(entries(&stage, "conv-1").len(), 11);
}

/// Requirements: 000.64, 000.71
#[test]
fn lists_and_lookups_come_from_the_index_once_logs_were_read() {
    let stage = stage();
    // A log that is long enough to show whether it was read.
    let long = "x".repeat(2 << 20);
    stage
        .with_stdin(&["append", "conv-1", "-m", "-"], long.as_str())
        .fine();
    stage.settle();
    let bytes = |args: &[&str]| {
        let (run, cost) = stage.measured(args, "");
        run.fine();
        cost.map_or(0, |cost| cost.bytes_read)
    };
    let first = sessions(&stage, &[]);
    // The answers are the same with and without the index, which has them without a log.
    let status = stage.annals(&["index", "--json"]).json();
    assert!(status.to_string().contains("sessions"), "{status}");
    assert_eq!(sessions(&stage, &[]), first);
    assert_eq!(sessions(&stage, &["--no-index"]), first);
    let (known, unknown) = (bytes(&["sessions"]), bytes(&["sessions", "--no-index"]));
    assert!(known < 1 << 20, "{known}");
    assert!(unknown == 0 || unknown > 2 << 20, "{unknown}");
    // A conversation is found without the log of another one.
    let shown = stage.annals(&["show", "conv-3", "--json"]).json();
    assert_eq!(shown["session"]["workspace"], "ws-2");
    let found = bytes(&["show", "conv-3", "--last", "1"]);
    assert!(found < 1 << 20, "{found}");
}

/// Requirements: 000.65, 000.66
#[test]
fn an_index_is_rebuilt_with_the_sessions_that_messages_name() {
    let stage = stage();
    let path = stage.root.join(FOLDER).join("conversations.json");
    let whole = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    stage.annals(&["repair", "--apply"]).fine();
    let row = &index(&stage, FOLDER)["conv-1"];
    assert_eq!(row["sessionId"], SDK);
    assert_eq!(row["title"], "Why does the parser fail?");
    assert_eq!(row["messageCount"], 10);
    // In a torn list, complete rows are recovered with all their members.
    let torn = &whole[..whole.find("conv-2").unwrap()];
    fs::write(&path, torn).unwrap();
    stage.annals(&["repair", "--apply"]).fine();
    let row = &index(&stage, FOLDER)["conv-1"];
    assert_eq!(row["sessionId"], SDK);
    assert_eq!(row["title"], "Fix the parser");
}

/// Requirements: 000.67, 000.68, 000.69, 000.70
#[test]
fn a_removed_workspace_leaves_nothing_and_comes_back_with_its_entry() {
    let stage = stage();
    let before = config(&stage);
    let rows = index(&stage, FOLDER);
    // An unknown file and an empty folder do not keep the workspace.
    fs::write(stage.root.join(FOLDER).join("notes.txt"), "mine").unwrap();
    fs::create_dir(stage.root.join("sessions/ws-1/agent-z")).unwrap();
    stage
        .annals(&["chorus", "workspaces", "remove", "ws-1", "--apply"])
        .fine();
    assert!(!stage.root.join("sessions/ws-1").exists());
    assert!(stage.root.join("sessions/ws-2").exists());
    assert_eq!(config(&stage)["workspaces"].as_array().unwrap().len(), 1);
    assert_eq!(ids(&sessions(&stage, &[])), ["conv-3"]);
    // Restoring one session restores its workspace with the same bytes in the configuration.
    stage.annals(&["delete", "--undo", "conv-1"]).fine();
    let restored = config(&stage);
    let workspaces = restored["workspaces"].as_array().unwrap();
    assert!(workspaces.contains(&before["workspaces"][0]));
    assert_eq!(restored["settings"], before["settings"]);
    stage.annals(&["delete", "--undo", "conv-2"]).fine();
    stage.annals(&["delete", "--undo", "ws-1"]).fine();
    assert_eq!(config(&stage)["workspaces"].as_array().unwrap().len(), 2);
    assert_eq!(index(&stage, FOLDER), rows);
    let text = fs::read(stage.root.join(FOLDER).join("notes.txt")).unwrap();
    assert_eq!(text, b"mine");
    assert_eq!(stage.annals(&["delete", "--list"]).code, 1);
}

/// Requirements: 000.67, 000.69, 000.70
#[test]
fn a_removed_agent_comes_back_too_and_so_does_one_without_sessions() {
    let stage = stage();
    let before = config(&stage);
    stage
        .annals(&["chorus", "agents", "remove", "ws-2", "agent-b", "--apply"])
        .fine();
    assert!(!stage.root.join("sessions/ws-2").exists());
    assert_eq!(config(&stage)["workspaces"][1]["agents"], json!([]));
    stage.annals(&["delete", "--undo", "conv-3"]).fine();
    assert_eq!(config(&stage), before);
    // Deleting the last conversation removes its folder, but not the configuration entries.
    stage.annals(&["delete", "conv-3", "--apply"]).fine();
    assert!(!stage.root.join("sessions/ws-2").exists());
    assert_eq!(config(&stage), before);
    stage
        .annals(&["chorus", "workspaces", "remove", "ws-2", "--apply"])
        .fine();
    assert_eq!(config(&stage)["workspaces"].as_array().unwrap().len(), 1);
    stage.annals(&["delete", "--undo", "ws-2"]).fine();
    assert_eq!(config(&stage), before);
}

/// Requirements: 000.69
#[test]
fn undo_keeps_an_entry_that_is_there_again() {
    let stage = stage();
    stage
        .annals(&["chorus", "workspaces", "remove", "ws-2", "--apply"])
        .fine();
    let again = [
        "chorus",
        "workspaces",
        "add",
        "/tmp",
        "--id",
        "ws-2",
        "--name",
        "again",
    ];
    stage.annals(&again).fine();
    stage.annals(&["delete", "--undo", "conv-3"]).fine();
    // The workspace stays as it is now. It gets back the agent, without which Chorus shows no
    // conversation.
    let workspace = &config(&stage)["workspaces"][1];
    assert_eq!(
        (&workspace["id"], &workspace["name"]),
        (&json!("ws-2"), &json!("again"))
    );
    assert_eq!(workspace["agents"][0]["id"], "agent-b");
    assert!(ids(&sessions(&stage, &[])).contains(&"conv-3"));
}

/// Requirements: 000.75
#[test]
fn a_deleted_conversation_is_gone_from_index_and_folder_until_it_is_put_back() {
    let stage = stage();
    let before = files(&stage);
    stage.annals(&["delete", "conv-1", "--apply"]).fine();
    assert!(
        !stage
            .root
            .join(FOLDER)
            .join("conv-1-messages.jsonl")
            .exists()
    );
    assert!(!index(&stage, FOLDER).contains_key("conv-1"));
    stage.annals(&["delete", "--undo", "conv-1"]).fine();
    let log = stage.root.join(FOLDER).join("conv-1-messages.jsonl");
    assert_eq!(fs::read(&log).unwrap(), before[&log]);
    assert_eq!(index(&stage, FOLDER).len(), 2);
}

/// Requirements: 000.76
#[test]
fn the_other_verbs_work_on_a_conversation() {
    let stage = stage();
    stage
        .annals(&["notes", "add", "conv-1", "look again"])
        .fine();
    stage.annals(&["tag", "conv-1", "parser"]).fine();
    stage
        .annals(&["todos", "add", "conv-1", "Write the body"])
        .fine();
    let row = &sessions(&stage, &["--tag", "parser"])["conv-1"];
    assert_eq!(row["tag"], "parser");
    stage.annals(&["fork", "conv-1"]).fine();
    let rows = index(&stage, FOLDER);
    let fork = rows.keys().find(|id| !id.starts_with("conv-")).unwrap();
    assert_eq!(entries(&stage, fork).len(), 10);
    assert_eq!(rows[fork]["messageCount"], 10);
    let costs = stage.annals(&["cost", "--json"]);
    assert!(costs.code <= 1, "{costs}");
    let found = stage.annals(&["search", "no body"]).fine();
    assert!(found.out.contains("conv-1"), "{found}");
}
