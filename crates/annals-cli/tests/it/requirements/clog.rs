//! The clog document: conversations under `storage/`, their notes, state and run logs.

use std::fs;
use std::path::PathBuf;

use annals::layout::NewSession;
use annals::model::{Block, Draft, EntryId, SessionId};
use annals::store::{Root, Store, WriteOptions};
use serde_json::{Value, json};

use crate::harness::Stage;

/// The document's own example.
const SESSION: &str = "2026-03-26T01-32-20-418Z-thread_abc123";
const CONVERSATION: &str = "conversation-2026-03-26T01-32-20-418Z-thread_abc123";

/// The fixed time of a stage, in milliseconds.
const NOW: i64 = 1_794_744_000_000;

/// The document's own example as a root.
fn example() -> Stage {
    Stage::with_fixture_of("clog", "examples-of-the-document")
}

fn lines(path: PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// A file of a conversation, by the name of its folder.
fn file(stage: &Stage, conversation: &str, name: &str) -> PathBuf {
    stage
        .root
        .join("conversations")
        .join(conversation)
        .join(name)
}

fn chat(stage: &Stage, conversation: &str) -> Vec<Value> {
    lines(file(stage, conversation, "chat.jsonl"))
}

fn notes(stage: &Stage, conversation: &str) -> Vec<Value> {
    lines(file(stage, conversation, "notes.jsonl"))
}

/// A record without the members that annals adds.
fn without_annals(record: &Value) -> Value {
    let mut record = record.clone();
    record.as_object_mut().unwrap().remove("annals");
    record
}

/// The row of a session in `annals sessions --json`.
fn row(stage: &Stage, id: &str) -> Value {
    let rows = stage.annals(&["sessions", "--json"]).json();
    let rows = rows["sessions"].as_array().unwrap().clone();
    let found = rows.into_iter().find(|row| row["id"] == id);
    found.unwrap_or_else(|| panic!("no session {id}"))
}

/// Creates a thread and returns the name of its folder.
fn begin(stage: &Stage, args: &[&str]) -> String {
    let args = [&["new", "--json"], args].concat();
    let made = stage.annals(&args).fine().json();
    format!("conversation-{}", made["session"].as_str().unwrap())
}

fn folders(stage: &Stage) -> Vec<String> {
    let entries = fs::read_dir(stage.root.join("conversations")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The root and its store.
fn library(stage: &Stage) -> (Root, Store) {
    let root = Root::new("clog", &stage.root).unwrap();
    (root.clone(), Store::new(vec![root]))
}

/// Requirements: 002.1, 002.2, 002.3, 002.5, 002.6, 002.7, 002.9, 002.11, 002.12, 002.13, 002.14
#[test]
fn a_conversation_is_a_folder_with_two_files_that_begin_with_a_header() {
    let stage = example();
    let args = [
        "--id",
        "thread_9",
        "--title",
        "Nightly run",
        "--channel",
        "telegram",
    ];
    let conversation = begin(&stage, &args);
    assert_eq!(
        conversation,
        "conversation-2026-11-15T12-00-00-000Z-thread_9"
    );
    assert_eq!(folders(&stage), [CONVERSATION, &conversation]);
    for name in ["chat", "notes"] {
        let file = file(&stage, &conversation, &format!("{name}.jsonl"));
        let text = fs::read_to_string(&file).unwrap();
        // The same members in the same order as in the document.
        let header = format!(
            r#"{{"type":"conversation-header","schemaVersion":1,"fileKind":"{name}","conversationId":"{conversation}","threadId":"thread_9","channel":"telegram","title":"Nightly run","createdAt":{NOW},"updatedAt":{NOW},"#
        );
        assert!(text.starts_with(&header), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    assert_eq!(
        row(&stage, &conversation["conversation-".len()..])["title"],
        "Nightly run"
    );
}

/// Requirements: 002.12, 002.13
#[test]
fn a_conversation_without_title_and_channel_has_an_empty_title_and_the_usual_channel() {
    let stage = example();
    let conversation = begin(&stage, &["--id", "plain", "-m", "hello"]);
    for header in [
        &chat(&stage, &conversation)[0],
        &notes(&stage, &conversation)[0],
    ] {
        assert_eq!(
            (&header["title"], &header["channel"]),
            (&json!(""), &json!("tui"))
        );
    }
    for args in [
        &["new", "--title", " "][..],
        &["new", "--channel", ""],
        &["new", "--channel"],
    ] {
        stage.refused(args, "");
    }
    assert_eq!(folders(&stage).len(), 2);
    // Other layouts have no channels.
    let other = Stage::with_fixture("bom");
    let run = other.refused(&["new", "--channel", "tui"], "");
    assert!(run.err.contains("`channel` is not a member"), "{run}");
}

/// Requirements: 002.4
#[test]
fn a_thread_has_one_conversation() {
    let stage = example();
    for thread in ["Thread_X", "thread_x", "thread x"] {
        begin(&stage, &["--id", thread]);
    }
    // Different thread ids can give the same folder name; their times then differ.
    let time = "conversation-2026-11-15T12-00-00";
    let expected = ["000Z-thread-x", "000Z-thread_x", "001Z-thread_x"];
    let expected = expected.map(|end| format!("{time}-{end}"));
    assert_eq!(folders(&stage)[1..], expected);
    let threads = expected.map(|name| chat(&stage, &name)[0]["threadId"].clone());
    assert_eq!(threads, ["thread x", "Thread_X", "thread_x"]);
    for thread in [
        "Thread_X",
        "thread_x",
        "thread x",
        "thread_abc123",
        // The same thread with another start time.
        "2026-11-16T12-00-00-000Z-thread_x",
    ] {
        let run = stage.refused(&["new", "--id", thread, "-m", "again"], "");
        assert!(run.err.contains("already has a conversation"), "{run}");
        if !thread.contains(' ') {
            let run = stage.refused(&["fork", "thread_abc123", "--id", thread], "");
            assert!(run.err.contains("already has a conversation"), "{run}");
        }
    }
    // `append --follow` continues the existing conversation.
    let line = r#"{"new":{"id":"thread_x"},"role":"user","content":"on"}"#;
    stage.with_stdin(&["append", "--follow"], line).fine();
    assert_eq!(folders(&stage).len(), 4);
    // A deleted thread can be created again.
    stage.annals(&["delete", "thread_abc123", "--apply"]).fine();
    begin(&stage, &["--id", "thread_abc123"]);
}

/// Requirements: 002.10, 002.19, 002.20
#[test]
fn conversation_id_is_the_folder_name_in_every_header_and_message() {
    let stage = example();
    let conversation = begin(&stage, &["--id", "thread_9", "-m", "first"]);
    stage
        .annals(&["append", &conversation, "-m", "second"])
        .fine();
    stage
        .annals(&["compact", "thread_9", "--summary", "short"])
        .fine();
    stage.annals(&["notes", "add", "thread_9", "noted"]).fine();
    let run = stage
        .annals(&["fork", "thread_9", "--id", "copy", "--json"])
        .fine()
        .json();
    let fork = format!("conversation-{}", run["session"].as_str().unwrap());
    assert_ne!(fork, conversation);
    for (conversation, thread) in [(&conversation, Some("thread_9")), (&fork, None)] {
        let chat = chat(&stage, conversation);
        assert!(chat.len() >= 2, "{chat:?}");
        let header = &notes(&stage, conversation)[0];
        for record in chat.iter().chain([header]) {
            assert_eq!(record["conversationId"], *conversation, "{record}");
            assert_eq!(record["threadId"], chat[0]["threadId"], "{record}");
            assert!(record["createdAt"].as_i64().unwrap() >= NOW, "{record}");
        }
        if let Some(thread) = thread {
            assert_eq!(chat[0]["threadId"], thread);
            assert_eq!(chat[1]["content"], "first");
        }
    }
    // A sub-agent's folder is named after the session's, and its conversation id is the folder
    // name.
    let (_, store) = library(&stage);
    let session = store.resume("thread_9", WriteOptions::default()).unwrap();
    let agent = session
        .delegate("call_1", "Explore", "Looks around")
        .unwrap();
    agent.append(Draft::user("look")).unwrap();
    let folder = agent
        .path()
        .parent()
        .unwrap()
        .file_name()
        .unwrap()
        .to_owned();
    let folder = folder.into_string().unwrap();
    for record in chat(&stage, &folder) {
        assert_eq!(record["conversationId"], folder, "{record}");
    }
}

/// Requirements: 002.10, 002.19
#[test]
fn a_log_with_the_older_conversation_id_is_continued_under_it() {
    let stage = Stage::with_fixture_of("clog", "conversation-id-without-its-first-word");
    let conversation = "conversation-2026-03-26T01-32-20-418Z-thread_old";
    let session = &conversation["conversation-".len()..];
    assert_eq!(row(&stage, session)["title"], "Given later");
    stage.annals(&["append", conversation, "-m", "two"]).fine();
    for record in chat(&stage, conversation) {
        assert_eq!(record["conversationId"], session, "{record}");
    }
    // A fork of it has the current form of the id.
    let run = stage
        .annals(&["fork", conversation, "--id", "copy", "--json"])
        .fine()
        .json();
    let fork = format!("conversation-{}", run["session"].as_str().unwrap());
    for record in chat(&stage, &fork) {
        assert_eq!(record["conversationId"], fork, "{record}");
    }
}

/// Requirements: 002.8, 002.16, 002.17
#[test]
fn notes_are_appended_in_the_form_of_the_document() {
    let stage = example();
    let before = fs::read(file(&stage, CONVERSATION, "notes.jsonl")).unwrap();
    let text = "The user wants a lightweight per-conversation notes file.";
    stage
        .annals(&["notes", "add", "thread_abc123", text, "--author", "model"])
        .fine();
    let after = fs::read(file(&stage, CONVERSATION, "notes.jsonl")).unwrap();
    assert!(after.starts_with(&before));
    let notes = notes(&stage, CONVERSATION);
    assert_eq!(notes.len(), 3);
    let mut added = notes[2].clone();
    added.as_object_mut().unwrap().remove("id").unwrap();
    assert_eq!(
        added,
        json!({"type": "note", "createdAt": NOW, "author": "model", "content": text})
    );
    let read = stage.annals(&["notes", CONVERSATION, "--json"]).json();
    let read: Vec<&Value> = read["notes"].as_array().unwrap().iter().collect();
    assert_eq!(read.len(), 2);
    assert!(
        read.iter()
            .all(|note| note["author"] == "model" && note["text"] == text)
    );
}

/// Requirements: 002.15
#[test]
fn the_last_message_gives_the_update_time_of_a_conversation() {
    let stage = example();
    // Its header has 01:33:20.
    assert_eq!(row(&stage, SESSION)["updated"], "2026-03-25T01:32:30Z");
}

/// Requirements: 002.18, 002.13
#[test]
fn a_chat_is_one_header_and_then_messages_whatever_happens_to_it() {
    let stage = example();
    let conversation = begin(
        &stage,
        &["--id", "thread_9", "--title", "First", "-m", "hello"],
    );
    for args in [
        &["title", "thread_9", "Second"][..],
        &["append", "thread_9", "-m", "more"],
        &["tag", "thread_9", "urgent"],
        &["notes", "add", "thread_9", "remember"],
        &["todos", "add", "thread_9", "x"],
        &["title", "thread_9", "Third"],
        &["compact", "thread_9", "--summary", "short"],
    ] {
        stage.annals(args).fine();
    }
    let chat = chat(&stage, &conversation);
    let types: Vec<&str> = chat
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(types[0], "conversation-header");
    assert!(
        types.len() > 4 && types[1..].iter().all(|kind| *kind == "message"),
        "{types:?}"
    );
    // New titles are lines of the notes, which allow other line types.
    assert_eq!(chat[0]["title"], "First");
    let notes = notes(&stage, &conversation);
    let titles = notes.iter().filter(|line| line["type"] == "title");
    let titles: Vec<&Value> = titles.map(|line| &line["title"]).collect();
    assert_eq!(titles, ["Second", "Third"]);
    let row = row(&stage, &conversation["conversation-".len()..]);
    assert_eq!(
        (&row["title"], &row["tag"]),
        (&json!("Third"), &json!("urgent"))
    );
    let found = stage.annals(&["search", "Third", "--json"]).json();
    assert_eq!(found["total"], 1, "{found}");
    stage.annals(&["check"]).fine();
}

/// Requirements: 002.20, 002.21, 002.23, 002.24, 002.25
#[test]
fn the_library_writes_the_messages_of_the_document_byte_for_byte() {
    let stage = example();
    let (root, store) = library(&stage);
    let new =
        NewSession::new(SessionId::new(SESSION).unwrap(), "/srv").title("Operator Conversation");
    // A copy in another root, with the same session id.
    let root = Root::new(root.layout.name(), stage.work().join("storage")).unwrap();
    let writer = store.create(&root, &new, WriteOptions::default()).unwrap();
    assert!(
        writer
            .path()
            .ends_with(format!("conversations/{CONVERSATION}/chat.jsonl"))
    );
    let online = Draft::system(" is online.").with_id(EntryId::new("msg_01"));
    let asked = Draft::user("what errors happened today?").with_id(EntryId::new("msg_02"));
    let at = |ms| jiff::Timestamp::from_millisecond(ms).unwrap();
    writer
        .append(online.with_time(at(1_774_402_340_418)))
        .unwrap();
    let entry = writer
        .append(asked.with_time(at(1_774_402_350_000)))
        .unwrap();
    assert_eq!(entry.id, Some(EntryId::new("msg_02")));
    let written = lines(writer.path());
    let example = chat(&stage, CONVERSATION);
    assert_eq!(written.len(), example.len());
    for (written, example) in written.iter().zip(&example).skip(1) {
        assert_eq!(without_annals(written), *example);
    }
    let header = without_annals(&written[0]);
    for name in [
        "type",
        "schemaVersion",
        "fileKind",
        "conversationId",
        "threadId",
        "channel",
        "title",
    ] {
        assert_eq!(header[name], example[0][name], "{name}");
    }
    // A message may name its own channel; the next one is on the thread's channel again.
    let web = Draft::user("from the web").member("channel", r#""web""#);
    let entry = writer.append(web).unwrap();
    assert_eq!(
        entry.members,
        [("channel".to_owned(), r#""web""#.to_owned())]
    );
    writer
        .append(Draft::assistant([Block::Text("Two.".to_owned())]))
        .unwrap();
    let written = lines(writer.path());
    let reported = |at: usize| (&written[at]["role"], &written[at]["channel"]);
    assert_eq!(reported(3), (&json!("user"), &json!("web")));
    assert_eq!(reported(4), (&json!("agent"), &json!("tui")));
    let before = fs::read(writer.path()).unwrap();
    for draft in [
        Draft::user("x").member("channel", "7"),
        Draft::user("x").member("channel", r#""""#),
        Draft::user("x").member("chanel", r#""web""#),
        Draft::note("x").member("channel", r#""web""#),
        Draft::user("again").with_id(EntryId::new("msg_02")),
    ] {
        writer.append(draft).unwrap_err();
    }
    assert_eq!(fs::read(writer.path()).unwrap(), before);
}

/// Requirements: 002.22, 002.23, 002.24, 002.25
#[test]
fn append_keeps_ids_and_channels_of_the_caller() {
    let stage = example();
    let conversation = begin(&stage, &["--id", "thread_9", "--channel", "telegram"]);
    let messages = [
        json!({"role": "system", "content": " is online.", "id": "msg_01"}),
        json!({"role": "user", "content": "what errors happened today?", "id": "msg_02", "channel": "tui"}),
        json!({"role": "assistant", "content": "None.", "id": "my-id-1"}),
    ];
    let input: String = messages
        .iter()
        .map(|message| format!("{message}\n"))
        .collect();
    stage
        .with_stdin(&["append", "thread_9"], input.clone())
        .fine();
    let chat = chat(&stage, &conversation);
    let reported = chat[1..].iter().map(|line| {
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        [
            text("messageId"),
            text("role"),
            text("channel"),
            text("content"),
        ]
    });
    let reported: Vec<[String; 4]> = reported.collect();
    assert_eq!(
        reported,
        [
            ["msg_01", "system", "telegram", " is online."],
            ["msg_02", "user", "tui", "what errors happened today?"],
            ["my-id-1", "agent", "telegram", "None."],
        ]
    );
    // A retry is refused, so nothing is written twice.
    stage.refused(&["append", "thread_9"], &input);
    for message in &messages {
        stage.refused(&["append", "thread_9"], &message.to_string());
    }
    stage.refused(
        &["append", "thread_abc123"],
        r#"{"role":"user","content":"x","id":"msg_02"}"#,
    );
    for channel in ["7", "\"\""] {
        let message = format!(r#"{{"role":"user","content":"x","channel":{channel}}}"#);
        stage.refused(&["append", "thread_9"], &message);
    }
}

/// Requirements: 002.26, 002.23, 002.29
#[test]
fn the_examples_of_the_document_are_read() {
    let stage = example();
    let files = || ["chat.jsonl", "notes.jsonl"].map(|name| file(&stage, CONVERSATION, name));
    let before = files().map(fs::read).map(Result::unwrap);
    let shown = stage.annals(&["show", SESSION, "--json"]).json();
    assert_eq!(shown["session"]["title"], "Operator Conversation");
    let entries = shown["entries"].as_array().unwrap();
    let reported: Vec<Value> = entries
        .iter()
        .map(|entry| {
            json!([
                entry["id"],
                entry["role"],
                entry["blocks"][0]["text"],
                entry["time"]
            ])
        })
        .collect();
    assert_eq!(
        reported,
        [
            json!([
                "msg_01",
                "system",
                " is online.",
                "2026-03-25T01:32:20.418Z"
            ]),
            json!([
                "msg_02",
                "user",
                "what errors happened today?",
                "2026-03-25T01:32:30Z"
            ]),
        ]
    );
    assert!(
        entries
            .iter()
            .all(|entry| entry["members"]["channel"] == "tui")
    );
    let row = row(&stage, SESSION);
    assert_eq!(row["messages"], 2);
    assert_eq!(
        (&row["thread"], &row["channel"]),
        (&json!("thread_abc123"), &json!("tui"))
    );
    assert_eq!(row["conversation"], CONVERSATION);
    assert_eq!(row["flaws"], 0);
    let notes = stage.annals(&["notes", "--json"]).json();
    assert_eq!(notes["notes"][0]["author"], "model");
    assert_eq!(
        stage.annals(&["search", "errors", "--json"]).json()["total"],
        1
    );
    stage.annals(&["check"]).fine();
    assert_eq!(files().map(fs::read).map(Result::unwrap), before);
}

/// Requirements: 002.23
#[test]
fn roles_of_the_program_are_read() {
    let stage = Stage::with_fixture_of("clog", "every-role-and-channel");
    let shown = stage.annals(&["show", SESSION, "--json"]).json();
    let roles = shown["entries"].as_array().unwrap().iter();
    let roles: Vec<&Value> = roles.map(|entry| &entry["role"]).collect();
    // `agent` and `assistant` are the same role.
    assert_eq!(
        roles,
        ["system", "user", "assistant", "user", "assistant", "user"]
    );
}

/// Requirements: 002.27, 002.28
#[test]
fn a_conversation_is_found_by_its_conversation_id_and_by_its_thread() {
    let stage = example();
    begin(&stage, &["--id", "Thread_XYZ"]);
    for id in [
        CONVERSATION,
        "conversation-2026-03",
        SESSION,
        "2026-03-26T01-32-20",
        "thread_abc123",
        "thread_a",
    ] {
        let shown = stage.annals(&["show", id, "--json"]).json();
        assert_eq!(shown["session"]["id"], SESSION, "{id}");
    }
    let named = format!("{CONVERSATION}@msg_01");
    let shown = stage.annals(&["show", &named, "--json"]).json();
    assert_eq!(shown["entries"].as_array().unwrap().len(), 1, "{shown}");
    let run = stage.refused(&["show", "conversation-20"], "");
    assert!(
        run.err.contains(SESSION) && run.err.contains("thread_xyz"),
        "{run}"
    );
    stage.refused(&["show", "conversation-2027"], "");
    // A conversation id that differs from the folder name is found too: the folder may have been
    // renamed.
    let renamed = Stage::with_fixture_of("clog", "every-role-and-channel");
    let shown = renamed
        .annals(&["show", "conv_thread_abc123", "--json"])
        .json();
    assert_eq!(shown["session"]["id"], SESSION);
}

/// Requirements: 002.29, 002.12
#[test]
fn session_rows_have_thread_conversation_and_channel_with_and_without_index() {
    let stage = example();
    let conversation = begin(
        &stage,
        &["--id", "Thread X", "--channel", "web", "-m", "hi"],
    );
    for args in [
        &["sessions", "--json"][..],
        &["sessions", "--json", "--no-index"],
    ] {
        let rows = stage.annals(args).json();
        let rows = rows["sessions"].as_array().unwrap();
        let row = rows.iter().find(|row| row["thread"] == "Thread X");
        let row = row.unwrap_or_else(|| panic!("{rows:?}"));
        assert_eq!(
            (&row["conversation"], &row["channel"]),
            (&json!(conversation), &json!("web"))
        );
    }
}

/// Requirements: 002.30
#[test]
fn runtime_sqlite_is_no_part_of_the_layout() {
    let stage = example();
    let database = stage.root.join("runtime.sqlite");
    fs::write(&database, "SQLite format 3\0").unwrap();
    let listed = stage.annals(&["documents", "--json"]).json();
    assert!(!listed.to_string().contains("runtime.sqlite"), "{listed}");
    stage.refused(&["documents", "runtime.sqlite"], "");
    stage.annals(&["check"]).fine();
    assert_eq!(fs::read(&database).unwrap(), b"SQLite format 3\0");
}

/// Requirements: 002.31, 002.33
#[test]
fn state_and_run_logs_are_read() {
    let stage = example();
    let state = stage
        .annals(&["documents", "state/threads.json", "--json"])
        .json();
    assert_eq!(state["documents"][0]["content"], json!({"threads": []}));
    let log = stage
        .annals(&["documents", "sessions/2026-03-26T01-32-19Z/system.log"])
        .fine();
    assert_eq!(log.out, "[info] online\n");
}

/// Requirements: 002.32
#[test]
fn state_documents_are_written_whole_and_nowhere_else() {
    let stage = example();
    let path = stage.root.join("state/status.json");
    let set = |name: &str, json: &str| stage.with_stdin(&["documents", "set", name, "-"], json);
    stage
        .annals(&[
            "documents",
            "set",
            "state/status.json",
            r#"{"status":"idle"}"#,
        ])
        .fine();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\"status\":\"idle\"}\n"
    );
    set("status", "{\"status\": \"busy\", \"n\": 1e5}\n\n").fine();
    // The given JSON is stored verbatim.
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\"status\": \"busy\", \"n\": 1e5}\n"
    );
    let reported = stage
        .annals(&["documents", "set", "status.json", "[1]", "--json"])
        .json();
    assert!(
        reported["file"]
            .as_str()
            .unwrap()
            .ends_with("state/status.json"),
        "{reported}"
    );
    let read = stage.annals(&["documents", "status", "--json"]).json();
    assert_eq!(read["documents"][0]["content"], json!([1]));
    for (name, json) in [
        ("state/status.json", "{\"status\":"),
        ("state/status.json", "{} {}"),
        ("state/status.json", " "),
        ("../status", "{}"),
        ("state/../../status", "{}"),
        ("/tmp/status", "{}"),
        ("state/a/b.json", "{}"),
        ("state/.json", "{}"),
        ("state/", "{}"),
        ("", "{}"),
        (".hidden", "{}"),
        ("a\nb", "{}"),
        ("conversations/x.json", "{}"),
    ] {
        stage.refused(&["documents", "set", name, "-"], json);
    }
    stage.refused(&["documents", "set", &"x".repeat(201), "-"], "{}");
    let big = format!("\"{}\"", "x".repeat(17 << 20));
    stage.refused(&["documents", "set", "status", "-"], &big);
    // The library does the same.
    let (root, store) = library(&stage);
    store
        .documents()
        .set_state(&root, "status", r#"{"status":"idle"}"#)
        .unwrap();
    assert_eq!(
        store.documents().state(&root, "status").unwrap().unwrap(),
        "{\"status\":\"idle\"}\n"
    );
    assert_eq!(store.documents().state(&root, "other").unwrap(), None);
    // A link to a file outside the root is not followed.
    let outside = stage.work().join("outside.json");
    fs::write(&outside, "mine").unwrap();
    std::os::unix::fs::symlink(&outside, stage.root.join("state/link.json")).unwrap();
    stage.refused(&["documents", "set", "link", "{}"], "");
    // Other layouts have no state documents.
    let other = Stage::with_fixture("bom");
    let run = other.refused(&["documents", "set", "status", "{}"], "");
    assert!(run.err.contains("--root clog:PATH"), "{run}");
}

/// Requirements: 002.34
#[test]
fn run_logs_are_written_under_the_time_of_their_run() {
    let stage = example();
    let reported = stage
        .annals(&["documents", "log", "-m", "started", "--json"])
        .json();
    let run = reported["run"].as_str().unwrap();
    assert_eq!(run, "2026-11-15T12-00-00-000Z");
    let path = stage.root.join("sessions").join(run).join("system.log");
    stage
        .with_stdin(&["documents", "log", "--run", run], "one\n\ntwo")
        .fine();
    stage
        .annals(&[
            "documents",
            "log",
            "--run",
            "2026-11-15T12:00:00Z",
            "-m",
            "a\nb",
            "-m",
            "-c",
        ])
        .fine();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, "started\none\n \ntwo\na\nb\n-c\n");
    // An existing run log is appended to, whatever form its time is given in.
    let there = stage.root.join("sessions/2026-03-26T01-32-19Z/system.log");
    for run in [
        "2026-03-26T01-32-19Z",
        "2026-03-26T01:32:19Z",
        "2026-03-26T01-32-19-000Z",
    ] {
        stage
            .annals(&["documents", "log", "--run", run, "-m", run])
            .fine();
    }
    assert_eq!(fs::read_to_string(&there).unwrap().lines().count(), 4);
    assert_eq!(
        fs::read_dir(stage.root.join("sessions")).unwrap().count(),
        2
    );
    for run in [
        "",
        "../x",
        "yesterday",
        "2026-13-26T01-32-19Z",
        "2026-03-26",
        "2026-03-26T01-32Z",
    ] {
        stage.refused(&["documents", "log", "--run", run, "-m", "x"], "");
    }
    let read = stage
        .annals(&["documents", "2026-11-15T12-00-00-000Z"])
        .fine();
    assert_eq!(read.out, text);
    // The library does the same, from several threads at once.
    let (root, store) = library(&stage);
    let started = "2026-03-26T01:32:20.418Z".parse().unwrap();
    let log = store
        .documents()
        .run_log(&root, started, WriteOptions::default())
        .unwrap();
    assert_eq!(log.run_name(), "2026-03-26T01-32-20-418Z");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..8).for_each(|_| assert_eq!(log.write("one line").unwrap(), 1)));
        }
    });
    let text = fs::read_to_string(log.path()).unwrap();
    assert_eq!(text, "one line\n".repeat(32));
}

/// Requirements: 002.35
#[test]
fn a_conversation_of_the_program_is_continued() {
    let stage = example();
    let before = fs::read(file(&stage, CONVERSATION, "chat.jsonl")).unwrap();
    stage
        .annals(&["append", CONVERSATION, "-m", "and yesterday?"])
        .fine();
    let after = fs::read(file(&stage, CONVERSATION, "chat.jsonl")).unwrap();
    assert!(after.starts_with(&before));
    let chat = chat(&stage, CONVERSATION);
    let (old, new) = (&chat[2], &chat[3]);
    for name in ["type", "conversationId", "threadId", "role", "channel"] {
        assert_eq!(old[name], new[name], "{name}");
    }
    assert_eq!(new["content"], "and yesterday?");
    let shown = stage.annals(&["show", "thread_abc123", "--json"]).json();
    assert_eq!(shown["entries"][2]["parent"], "msg_02");
}

/// Requirements: 002.36
#[test]
fn a_fork_keeps_channel_and_title() {
    let stage = example();
    begin(
        &stage,
        &[
            "--id",
            "thread_9",
            "--channel",
            "telegram",
            "--title",
            "Ops",
            "-m",
            "hi",
        ],
    );
    let fork = |args: &[&str]| {
        let args = [&["fork"], args, &["--json"]].concat();
        let made = stage.annals(&args).fine().json();
        format!("conversation-{}", made["session"].as_str().unwrap())
    };
    let reported = |conversation: &str| {
        [
            &chat(&stage, conversation)[0],
            &notes(&stage, conversation)[0],
        ]
        .map(|header| (header["channel"].clone(), header["title"].clone()))
    };
    let plain = fork(&["thread_9", "--id", "copy"]);
    assert_eq!(
        reported(&plain),
        [(); 2].map(|()| (json!("telegram"), json!("Ops")))
    );
    let messages = chat(&stage, &plain);
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1]["channel"], "telegram");
    // A fork gets the current title, or the given one.
    stage.annals(&["title", "thread_9", "Night shift"]).fine();
    let later = fork(&["thread_9", "--id", "Thread_10"]);
    assert_eq!(
        reported(&later)[0],
        (json!("telegram"), json!("Night shift"))
    );
    assert!(
        chat(&stage, &later)
            .iter()
            .all(|line| line["threadId"] == "Thread_10")
    );
    let own = fork(&["thread_9", "--id", "mine", "--title", "Mine"]);
    assert_eq!(reported(&own)[1], (json!("telegram"), json!("Mine")));
    assert_eq!(row(&stage, &own["conversation-".len()..])["title"], "Mine");
    assert_eq!(
        row(&stage, &later["conversation-".len()..])["channel"],
        "telegram"
    );
    // Messages appended to a fork stay in it and keep its channel.
    stage.annals(&["append", &later, "-m", "more"]).fine();
    assert_eq!(chat(&stage, &later)[2]["channel"], "telegram");
}

/// Requirements: 002.37
#[test]
fn messages_are_searched_by_thread_and_period_with_a_cap() {
    let stage = example();
    for text in ["Errors everywhere", "more errors", "no ERRORS left"] {
        let message = json!({"role": "user", "content": text}).to_string();
        stage
            .with_stdin(&["append", "thread_abc123"], message)
            .fine();
    }
    begin(&stage, &["--id", "other", "-m", "errors elsewhere"]);
    let search = |args: &[&str]| {
        let args = [&["search", "errors", "--json"], args].concat();
        stage.annals(&args).json()
    };
    assert_eq!(search(&[])["total"], 5);
    let capped = search(&["--session", "thread_abc123", "-n", "2"]);
    assert_eq!(
        (&capped["total"], capped["hits"].as_array().unwrap().len()),
        (&json!(4), 2)
    );
    assert_eq!(search(&["--session", CONVERSATION])["total"], 4);
    assert_eq!(search(&["--until", "2026-03-25"])["total"], 1);
    assert_eq!(
        search(&["--session", "other", "--since", "2026-11-01"])["total"],
        1
    );
}

/// Requirements: 002.38
#[test]
fn a_chat_is_read_in_pages_and_within_a_budget() {
    let stage = example();
    for number in 1..=6 {
        let text = format!("message {number}");
        stage
            .annals(&["append", "thread_abc123", "-m", &text])
            .fine();
    }
    let page = |args: &[&str]| {
        let args = [&["show", CONVERSATION, "--json"], args].concat();
        let shown = stage.annals(&args).json();
        let entries = shown["entries"].as_array().unwrap().iter();
        let texts = entries.map(|entry| entry["blocks"][0]["text"].as_str().unwrap().to_owned());
        (texts.collect::<Vec<_>>(), shown["has_more"].clone())
    };
    let (first, more) = page(&["--offset", "2", "--limit", "2"]);
    assert_eq!(
        (first, more),
        (vec!["message 1".into(), "message 2".into()], json!(true))
    );
    let (last, more) = page(&["--offset", "6", "--limit", "5"]);
    assert_eq!(
        (last, more),
        (vec!["message 5".into(), "message 6".into()], json!(false))
    );
    // Nine bytes of text count as three tokens.
    let (fitting, _) = page(&["--budget", "6"]);
    assert_eq!(fitting, ["message 5", "message 6"]);
}

/// Requirements: 002.39
#[test]
fn conversations_are_deleted_brought_back_archived_and_cleaned() {
    let stage = example();
    let whole = fs::read(file(&stage, CONVERSATION, "chat.jsonl")).unwrap();
    let back = |stage: &Stage| fs::read(file(stage, CONVERSATION, "chat.jsonl")).unwrap() == whole;
    stage.annals(&["delete", CONVERSATION, "--apply"]).fine();
    assert!(folders(&stage).is_empty());
    stage.annals(&["delete", "--undo", "thread_abc123"]).fine();
    assert!(back(&stage));
    stage.annals(&["archive", CONVERSATION, "--apply"]).fine();
    stage.annals(&["show", CONVERSATION]).fine();
    if !file(&stage, CONVERSATION, "chat.jsonl").exists() {
        stage.annals(&["restore", SESSION, "--apply"]).fine();
    }
    assert!(back(&stage));
    stage
        .annals(&["clean", "--older-than", "30d", "--apply"])
        .fine();
    assert!(folders(&stage).is_empty());
}

/// Requirements: 002.40
#[test]
fn a_newer_schema_is_read_and_never_written() {
    let stage = Stage::with_fixture_of("clog", "header-of-another-version");
    stage.annals(&["show", "future"]).fine();
    for args in [
        &["append", "future", "-m", "x"][..],
        &["notes", "add", "future", "x"],
        &["title", "future", "x"],
    ] {
        let run = stage.refused(args, "");
        assert!(run.err.contains("schemaVersion 2"), "{run}");
    }
}
