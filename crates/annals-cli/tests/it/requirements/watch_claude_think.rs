//! Claude Code logs as watch-claude-think's document describes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use annals::layout::by_name;
use annals::model::{Block, Body, Draft, Entry};
use annals::store::{Root, Session, Store, WriteOptions};
use annals::watch::{Event, FollowOptions, Follower, Selection};
use serde_json::Value;

use crate::harness::Stage;

/// The document's example, verbatim.
const EXAMPLE: &str = r#"{"type":"user","uuid":"msg1","parentUuid":null,"content":"Hello"}
{"type":"assistant","uuid":"msg2","parentUuid":"msg1","content":"Hi"}
{"type":"summary","summary":"Greeting","leafUuid":"msg2"}
"#;

fn log(name: &str, lines: &str) -> (Stage, PathBuf) {
    let stage = Stage::empty();
    let path = stage
        .root
        .join("projects/-Users-john-my-project")
        .join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, lines).unwrap();
    (stage, path)
}

fn store(stage: &Stage) -> Store {
    Store::new(vec![Root::claude_code(&stage.root)])
}

fn rows(stage: &Stage, verb: &str) -> Vec<Value> {
    stage.annals(&[verb, "--json"]).json()[verb]
        .as_array()
        .unwrap()
        .clone()
}

fn texts(value: &[Value], member: &str) -> Vec<String> {
    let texts = value.iter().filter_map(|row| row[member].as_str());
    texts.map(str::to_owned).collect()
}

fn path_of(session: &Session, leaf: &str) -> Vec<Entry> {
    session.ancestry(leaf).unwrap()
}

fn blocks(entry: &Entry) -> &[Block] {
    match &entry.body {
        Body::Message(message) => &message.blocks,
        body => panic!("{body:?}"),
    }
}

/// Requirements: 003.1, 003.2, 003.3, 003.4, 003.5, 003.6, 003.7, 003.8, 003.30, 003.45
#[test]
fn the_tree_of_the_document_has_two_projects_and_four_sessions() {
    let stage = Stage::with_fixture("watch-claude-think-tree");
    let mut projects = texts(&rows(&stage, "projects"), "path");
    projects.sort();
    // No record of the first project has a `cwd`, so its folder name is shown.
    assert_eq!(
        projects,
        ["-Users-john-my-project", "/Users/jane/other-project"]
    );
    let mut sessions = texts(&rows(&stage, "sessions"), "id");
    sessions.sort();
    assert_eq!(
        sessions,
        ["abc123-uuid", "def456-uuid", "ghi789-uuid", "xyz890-uuid"]
    );
    let layout = by_name("claude-code").unwrap();
    let folder = layout.folder("/Users/john/my-project").unwrap();
    assert_eq!(folder, "-Users-john-my-project");
    for project in ["/Users/john/my-project", "-Users-john-my-project"] {
        let found = stage.annals(&["sessions", "-p", project, "--json"]).json();
        assert_eq!(found["sessions"].as_array().unwrap().len(), 3, "{project}");
    }
}

/// Requirements: 003.12, 003.14, 003.24, 003.29, 003.48
#[test]
fn the_example_is_a_conversation_of_two_messages_called_greeting() {
    let (stage, path) = log("abc123-uuid.jsonl", EXAMPLE);
    let row = &rows(&stage, "sessions")[0];
    assert_eq!(row["title"], "Greeting");
    assert_eq!(row["messages"], 2);
    let row = &rows(&stage, "conversations")[0];
    assert_eq!(row["id"], "abc123-uuid@msg2");
    assert_eq!(row["leaf"], "msg2");
    assert_eq!(row["title"], "Greeting");
    let shown = stage.annals(&["show", "abc123-uuid"]).fine();
    assert!(
        shown.out.contains("user") && shown.out.contains("Hello"),
        "{shown}"
    );
    assert!(
        shown.out.contains("assistant") && shown.out.contains("Hi"),
        "{shown}"
    );
    assert!(!shown.out.contains("client"), "{shown}");
    let hits = stage.annals(&["search", "Hello", "--json"]).json();
    assert_eq!(hits["total"], 1);
    // Without the summary the title is the first prompt, whole.
    let prompt = EXAMPLE
        .lines()
        .next()
        .unwrap()
        .replace("Hello", &"word ".repeat(20));
    fs::write(path, prompt + "\n").unwrap();
    let title = rows(&stage, "sessions")[0]["title"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(title, "word ".repeat(20).trim_end());
}

/// Requirements: 003.13, 003.47, 003.46
#[test]
fn content_next_to_the_id_is_text_or_blocks_and_message_has_priority() {
    let stage = Stage::with_fixture("watch-claude-think-tree");
    let session = store(&stage).session("ghi789").unwrap();
    let entries = path_of(&session, "msg4");
    assert_eq!(blocks(&entries[0]), [Block::Text("Think about it".into())]);
    let kinds: Vec<&str> = blocks(&entries[1]).iter().map(Block::kind).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use"]);
    assert!(matches!(&blocks(&entries[2])[0], Block::ToolResult { call, .. } if call == "toolu_1"));
    assert_eq!(
        blocks(&entries[3]),
        [Block::Text("It says welcome.".into())]
    );
    let thinking = stage
        .annals(&["show", "ghi789", "--kind", "thinking"])
        .fine();
    assert!(thinking.out.contains("A hard one."), "{thinking}");
    assert!(
        stage
            .annals(&["search", "hard"])
            .fine()
            .out
            .contains("A hard one.")
    );
    assert_eq!(stage.annals(&["search", "not this"]).code, 1);
    let plain = store(&stage).session("abc123").unwrap();
    let human = plain.message("msg1").unwrap();
    assert!(matches!(human.body, Body::Message(message) if message.human));
    // The content is converted to another layout.
    let to = stage.work().join("chorus").display().to_string();
    let target = format!("chorus:{to}");
    let convert = ["convert", "ghi789", "--to", "chorus", "--into", &to];
    stage.annals(&convert).fine();
    let found = stage.bare(&["--root", &target, "search", "hard"]).fine();
    assert!(found.out.contains("A hard one."), "{found}");
}

/// Requirements: 003.9, 003.10, 003.11, 003.25, 003.26, 003.27, 003.28, 003.49, 003.58
#[test]
fn five_messages_in_one_file_are_two_conversations() {
    let stage = Stage::with_fixture("watch-claude-think-tree");
    let rows = stage.annals(&["conversations", "def456", "--json"]).json();
    let rows = rows["conversations"].as_array().unwrap();
    assert_eq!(texts(rows, "leaf"), ["msg4b", "msg3a"], "the newest first");
    let ids = |entries: Vec<Entry>| -> Vec<String> {
        entries
            .iter()
            .map(|entry| entry.id.as_ref().unwrap().to_string())
            .collect()
    };
    let session = store(&stage).session("def456").unwrap();
    assert_eq!(ids(path_of(&session, "msg3a")), ["msg1", "msg2", "msg3a"]);
    assert_eq!(
        ids(path_of(&session, "msg4b")),
        ["msg1", "msg2", "msg3b", "msg4b"]
    );
    let shown = stage.annals(&["show", "def456@msg3a"]).fine();
    assert!(
        shown.out.contains("And now?") && !shown.out.contains("And then?"),
        "{shown}"
    );
    // The same messages in the client's format.
    let lines: String = [
        ("user", "msg1", "null", "How?"),
        ("assistant", "msg2", "\"msg1\"", "So."),
        ("user", "msg3a", "\"msg2\"", "And now?"),
        ("user", "msg3b", "\"msg2\"", "And then?"),
        ("assistant", "msg4b", "\"msg3b\"", "Done."),
    ]
    .map(|(kind, id, parent, text)| {
        format!(r#"{{"type":"{kind}","uuid":"{id}","parentUuid":{parent},"message":{{"role":"{kind}","content":[{{"type":"text","text":"{text}"}}]}}}}"#) + "\n"
    })
    .concat();
    let (stage, path) = log("client.jsonl", &lines);
    assert_eq!(
        texts(&self::rows(&stage, "conversations"), "leaf"),
        ["msg3a", "msg4b"]
    );
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

/// Requirements: 003.15, 003.16, 003.17, 003.37, 003.33
#[test]
fn a_log_is_append_only_needs_no_database_and_its_end_is_read_alone() {
    let (stage, path) = log("abc123-uuid.jsonl", EXAMPLE);
    let torn = format!("{EXAMPLE}{{\"type\":\"user\",\"uuid\":\"msg3\",\"pare");
    fs::write(&path, &torn).unwrap();
    let row = &rows(&stage, "sessions")[0];
    assert_eq!(row["messages"], 2);
    let without = stage.annals(&["sessions", "--json", "--no-index"]).json();
    assert_eq!(without["sessions"][0], *row);
    stage
        .annals(&["append", "abc123-uuid", "-m", "And now?"])
        .fine();
    assert!(fs::read_to_string(&path).unwrap().starts_with(&torn));
    let tail = store(&stage).tail("abc123-uuid", 1).unwrap();
    let last = tail.last_messages(1).unwrap();
    assert_eq!(blocks(&last[0]), [Block::Text("And now?".into())]);
    let shown = stage
        .annals(&["show", "abc123-uuid", "--last", "2", "--json"])
        .json();
    assert_eq!(shown["entries"].as_array().unwrap().len(), 2);
}

/// Requirements: 003.18
#[test]
fn a_session_is_archived_or_deleted_in_one_operation() {
    let stage = Stage::with_fixture("watch-claude-think-tree");
    stage.annals(&["delete", "abc123-uuid", "--apply"]).fine();
    stage.annals(&["archive", "def456-uuid", "--apply"]).fine();
    assert_eq!(stage.annals(&["show", "abc123-uuid"]).code, 2);
    assert!(
        stage
            .annals(&["show", "def456-uuid"])
            .fine()
            .out
            .contains("And then?")
    );
    let project = stage.root.join("projects/-Users-john-my-project");
    assert_eq!(fs::read_dir(project).unwrap().count(), 1);
}

/// Requirements: 003.19, 003.20, 003.21, 003.22
#[test]
fn new_sessions_and_forks_have_new_files_and_resumed_ones_their_own() {
    let (stage, path) = log("abc123-uuid.jsonl", EXAMPLE);
    let fresh = stage.annals(&["new", "--json"]).json();
    assert!(
        fresh["session"].as_str().unwrap().starts_with("[id "),
        "a UUID is masked: {fresh}"
    );
    let given = "11111111-1111-4111-8111-111111111111";
    stage.annals(&["new", "--id", given]).fine();
    assert!(stage.log_path(given).is_file());
    stage
        .annals(&["append", "abc123-uuid", "-m", "Go on"])
        .fine();
    let forked = stage.annals(&["fork", "abc123-uuid", "--json"]).json();
    assert!(
        forked["session"].as_str().unwrap().starts_with("[id "),
        "a UUID is masked: {forked}"
    );
    let fork = "22222222-2222-4222-8222-222222222222";
    stage.annals(&["fork", "abc123-uuid", "--id", fork]).fine();
    let shown = stage.annals(&["show", fork]).fine();
    assert!(
        shown.out.contains("Hello") && shown.out.contains("Go on"),
        "{shown}"
    );
    assert!(fs::read_to_string(&path).unwrap().contains("Go on"));
}

/// Requirements: 003.35
#[test]
fn one_conversation_is_watched_without_its_sibling() {
    let lines = concat!(
        r#"{"type":"user","uuid":"msg1","parentUuid":null,"content":"Hello"}"#,
        "\n",
        r#"{"type":"assistant","uuid":"left","parentUuid":"msg1","content":"Hi"}"#,
        "\n",
        r#"{"type":"assistant","uuid":"right","parentUuid":"msg1","content":"Good day"}"#,
        "\n"
    );
    let (stage, path) = log("abc123-uuid.jsonl", lines);
    let store = store(&stage);
    let target = store.find(&store.inventory(), "abc123-uuid@left").unwrap();
    let selection = Selection::all().target(target).unwrap();
    let mut follower = Follower::new(&store, selection, FollowOptions::default()).unwrap();
    let add = |id: &str, parent: &str| {
        use std::io::Write as _;
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        writeln!(
            file,
            r#"{{"type":"user","uuid":"{id}","parentUuid":"{parent}","content":"{id}"}}"#
        )
        .unwrap();
    };
    add("of-right", "right");
    add("of-left", "left");
    add("of-left-too", "of-left");
    let mut seen = Vec::new();
    for event in follower.by_ref() {
        if let Event::Entry(fresh) = event {
            seen.push(fresh.entry.id.unwrap().to_string());
        }
        if seen.len() == 2 {
            break;
        }
    }
    assert_eq!(seen, ["of-left", "of-left-too"]);
}

/// Requirements: 003.32, 003.34, 003.38, 003.39, 003.52
#[test]
fn new_lines_of_watched_files_are_reported_once() {
    let (stage, path) = log("abc123-uuid.jsonl", EXAMPLE);
    let store = store(&stage);
    let mut follower = Follower::new(&store, Selection::all(), FollowOptions::default()).unwrap();
    let add = |path: &Path, id: &str, parent: &str, text: &str| {
        use std::io::Write as _;
        let mut file = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        let line = format!(
            r#"{{"type":"assistant","uuid":"{id}","parentUuid":"{parent}","content":[{{"type":"thinking","thinking":"{text}"}}]}}"#
        );
        writeln!(file, "{line}").unwrap();
    };
    add(&path, "msg3", "msg2", "first");
    let other = path.with_file_name("def456-uuid.jsonl");
    let (mut seen, mut began) = (Vec::new(), Vec::new());
    let start = Instant::now();
    for event in follower.by_ref() {
        match event {
            Event::Entry(fresh) => {
                if let Block::Thinking { text, .. } = &blocks(&fresh.entry)[0] {
                    seen.push(text.clone());
                }
                if seen.len() == 1 {
                    add(&other, "msg9", "msg8", "second");
                }
            }
            Event::Began { log } => began.push(log.path.clone()),
            _ => {}
        }
        if seen.len() == 2 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    assert_eq!(seen, ["first", "second"]);
    assert_eq!(began, [other]);
}

/// Requirements: 003.40, 003.41, 003.42, 003.43
#[test]
fn orphans_cycles_and_unknown_types_are_read() {
    let lines = EXAMPLE.to_owned()
        + r#"{"type":"user","uuid":"lost","parentUuid":"gone","content":"An orphan"}"#
        + "\n"
        + r#"{"type":"user","uuid":"x","parentUuid":"y","content":"Round"}"#
        + "\n"
        + r#"{"type":"assistant","uuid":"y","parentUuid":"x","content":"and round"}"#
        + "\n"
        + r#"{"type":"hologram","uuid":"z","parentUuid":"y","shape":1}"#
        + "\n";
    let (stage, _) = log("abc123-uuid.jsonl", &lines);
    let found = stage.annals(&["check", "--json"]);
    assert_eq!(found.code, 1, "{found}");
    assert!(
        found.out.contains("\"orphan\"") && found.out.contains("\"cycle\""),
        "{found}"
    );
    let leaves = texts(&rows(&stage, "conversations"), "leaf");
    assert!(
        leaves.contains(&"msg2".to_owned()) && leaves.contains(&"lost".to_owned()),
        "{leaves:?}"
    );
    assert_eq!(rows(&stage, "sessions")[0]["messages"], 5);
    let raw = stage
        .annals(&["show", "abc123-uuid", "--role", "assistant", "--json"])
        .json();
    assert!(
        raw["entries"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["role"] == "assistant")
    );
}

/// Requirements: 003.44, 003.6
#[test]
fn the_directory_of_a_project_is_the_cwd_of_its_entries() {
    let lines = EXAMPLE.replace(
        "\"content\":\"Hello\"",
        "\"cwd\":\"/Users/john/my-project\",\"content\":\"Hello\"",
    );
    let (stage, path) = log("abc123-uuid.jsonl", &lines);
    fs::write(path.with_file_name("def456-uuid.jsonl"), EXAMPLE).unwrap();
    let rows = rows(&stage, "projects");
    assert_eq!(texts(&rows, "path"), ["/Users/john/my-project"]);
    assert_eq!(rows[0]["sessions"], 2);
}

/// Requirements: 003.50, 003.51, 003.53, 003.54, 003.55
#[test]
fn lists_of_a_large_project_read_no_unchanged_log_again() {
    let stage = Stage::empty();
    let dir = stage.root.join("projects/-w");
    fs::create_dir_all(&dir).unwrap();
    let body = "x".repeat(2_000);
    for number in 0..60 {
        let lines: String = (0..100)
            .map(|at| format!(r#"{{"type":"user","uuid":"{number}-{at}","parentUuid":{},"content":"{body}"}}"#, match at { 0 => "null".to_owned(), at => format!("\"{number}-{}\"", at - 1) }) + "\n")
            .collect();
        fs::write(dir.join(format!("session {number}.jsonl")), lines).unwrap();
    }
    stage.settle();
    let logs: u64 = stage.tree().values().map(|log| log.len() as u64).sum();
    // The requirements are times. The number of bytes read is the same on a busy machine.
    let read = |args: &[&str]| {
        let (run, cost) = stage.measured(args, "");
        (run.fine().out, cost.map(|cost| cost.bytes_read))
    };
    let (first, all) = read(&["conversations", "--json"]);
    let rows_of_first: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(rows_of_first["conversations"].as_array().unwrap().len(), 60);
    assert!(all.is_none_or(|all| all >= logs), "{all:?} of {logs}");
    assert_eq!(rows(&stage, "projects").len(), 1);
    for args in [
        &["conversations", "--json"][..],
        &["projects", "--json"],
        &["sessions", "-n", "1", "--json"],
    ] {
        let (again, bytes) = read(args);
        assert!(
            bytes.is_none_or(|read| read < logs / 20),
            "{args:?}: {bytes:?}"
        );
        assert!(args[0] != "conversations" || again == first, "{again}");
    }
    let store = store(&stage);
    let writer = store.resume("session 7", WriteOptions::default()).unwrap();
    writer.append(Draft::user("one more")).unwrap();
    // One log of sixty was changed.
    let (_, bytes) = read(&["conversations", "--json"]);
    assert!(
        bytes.is_none_or(|read| read < logs / 10),
        "{bytes:?} of {logs}"
    );
    let rows = rows(&stage, "conversations");
    let changed = rows.iter().filter(|row| row["messages"] == 101).count();
    assert_eq!(changed, 1);
    let newest = stage.annals(&["sessions", "-n", "1", "--json"]).json();
    assert_eq!(newest["sessions"][0]["id"], "session 7");
}

/// Requirements: 003.36, 003.57
#[test]
fn projects_sessions_and_conversations_are_called_so() {
    let stage = Stage::with_fixture("watch-claude-think-tree");
    for verb in ["projects", "sessions", "conversations"] {
        assert!(!rows(&stage, verb).is_empty(), "{verb}");
    }
    let of_one = stage
        .annals(&["conversations", "-p", "/Users/john/my-project", "--json"])
        .json();
    let of_one = of_one["conversations"].as_array().unwrap();
    assert_eq!(of_one.len(), 4, "{of_one:?}");
}
