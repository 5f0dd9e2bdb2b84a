//! The program on clog's conversations.

use insta::assert_snapshot;

use crate::harness::Stage;

const SESSION: &str = "2026-03-26T01-32-20-418Z-thread_abc123";

#[test]
fn conversations_are_listed_and_read() {
    let stage = Stage::of_layout("clog", "every-role-and-channel");
    assert_snapshot!("sessions", stage.annals(&["sessions"]));
    assert_snapshot!("show", stage.annals(&["show", "thread_abc123"]));
    assert_snapshot!("show_json", stage.annals(&["show", SESSION, "--json"]));
    assert_snapshot!("notes", stage.annals(&["notes"]));
    let stage = Stage::of_layout("clog", "thoughts-of-every-shape");
    assert_snapshot!("thoughts", stage.annals(&["show", "tools", "--full"]));
}

#[test]
fn a_thread_names_its_only_conversation() {
    let stage = Stage::of_layout("clog", "same-thread-twice");
    let run = stage.annals(&["show", "2026-03-26T01-32-20-419Z"]).fine();
    assert!(run.out.contains("question 1"), "{run}");
    assert_snapshot!("thread_ambiguous", stage.refused(&["show", "thread_x"], ""));
}

#[test]
fn a_conversation_is_begun_written_to_and_forked() {
    let stage = Stage::of_layout("clog", "every-role-and-channel");
    let id = "00000000-0000-4000-8000-00000000000a";
    let run = stage.annals(&["new", "--id", id, "--json"]).fine();
    let session = run.json()["session"].as_str().unwrap().to_owned();
    assert_eq!(session, format!("2026-11-15T12-00-00-000Z-{id}"));
    let folder = stage
        .root
        .join(format!("conversations/conversation-{session}"));
    let chat = || std::fs::read_to_string(folder.join("chat.jsonl")).unwrap();
    assert!(
        chat().contains(&format!(r#""threadId":"{id}""#)),
        "{}",
        chat()
    );
    stage.annals(&["append", &session, "-m", "hello"]).fine();
    stage.annals(&["title", &session, "Renamed"]).fine();
    stage.annals(&["note", &session, "remember"]).fine();
    stage.annals(&["tag", &session, "urgent"]).fine();
    stage.annals(&["todo", &session, "add", "first"]).fine();
    let lines = chat();
    let types: Vec<String> = lines
        .lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {}", value["type"], value["title"])
        })
        .collect();
    assert_eq!(
        types,
        [
            r#""conversation-header" """#,
            r#""message" null"#,
            r#""conversation-header" "Renamed""#
        ]
    );
    let notes = std::fs::read_to_string(folder.join("notes.jsonl")).unwrap();
    assert_eq!(notes.lines().count(), 3, "{notes}");
    let run = stage.annals(&["check"]).fine();
    assert!(!run.out.contains("bad-header"), "{run}");
    let shown = stage.annals(&["sessions", "--json"]).json();
    let row = shown["sessions"]
        .as_array()
        .and_then(|rows| rows.iter().find(|row| row["id"] == session.as_str()))
        .unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(row["title"], "Renamed");
    assert_eq!(row["tag"], "urgent");
    assert_eq!(row["messages"], 1);
    let forked = stage
        .annals(&["fork", SESSION, "--title", "A fork", "--json"])
        .fine();
    assert!(forked.out.contains("conversation-"), "{forked}");
    let after = stage.annals(&["sessions", "--json"]).json();
    let titles: Vec<&str> = after["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["title"].as_str())
        .collect();
    assert!(titles.contains(&"A fork"), "{titles:?}");
}

#[test]
fn documents_beside_the_conversations() {
    let stage = Stage::of_layout("clog", "every-role-and-channel");
    assert_snapshot!("documents", stage.annals(&["documents"]));
    assert_snapshot!("documents_json", stage.annals(&["documents", "--json"]));
    assert_snapshot!("document", stage.annals(&["documents", "channels"]));
    assert_snapshot!(
        "document_json",
        stage.annals(&["documents", "state/operator.json", "--json"])
    );
    let whole = stage.annals(&["documents", "state/operator.json"]).fine();
    for name in ["operator.json", "operator"] {
        assert_eq!(stage.annals(&["documents", name]).fine().out, whole.out);
    }
    stage.annals(&["documents", "system.log"]).fine();
    assert_snapshot!("document_log", stage.annals(&["documents", "sessions/"]));
    assert_snapshot!(
        "document_log_json",
        stage.annals(&["documents", "2026-03-26T01-32-19Z", "--json"])
    );
    assert_snapshot!(
        "document_unknown",
        stage.refused(&["documents", "../x"], "")
    );
    assert_snapshot!(
        "document_ambiguous",
        stage.refused(&["documents", "state/"], "")
    );
    let stage = Stage::of_layout("clog", "hostile-words");
    for name in ["state/hostile.json", "sessions/hostile/system.log"] {
        let run = stage.annals(&["documents", name]).fine();
        assert!(!run.out.contains('\u{1b}'), "{run:?}", run = run.out);
        assert!(!run.out.contains('\u{202e}'), "{run:?}", run = run.out);
    }
    let stage = Stage::of_layout("clog", "names-by-hand");
    assert_snapshot!("document_broken", stage.annals(&["documents", "broken"]));
    assert_snapshot!(
        "document_broken_json",
        stage.annals(&["documents", "broken", "--json"])
    );
    let none = Stage::of_layout("clog", "header-alone").annals(&["documents"]);
    assert_eq!(none.code, 1, "{none}");
    assert_snapshot!(
        "documents_of_claude_code",
        Stage::of("settings").annals(&["documents"])
    );
}
