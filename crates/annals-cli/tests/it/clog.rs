//! The program on clog conversations.

use insta::assert_snapshot;

use crate::harness::Stage;

const SESSION: &str = "2026-03-26T01-32-20-418Z-thread_abc123";

#[test]
fn clog_conversations_are_listed_and_shown() {
    let stage = Stage::with_fixture_of("clog", "every-role-and-channel");
    assert_snapshot!("sessions", stage.annals(&["sessions"]));
    assert_snapshot!("show", stage.annals(&["show", "thread_abc123"]));
    assert_snapshot!("show_json", stage.annals(&["show", SESSION, "--json"]));
    assert_snapshot!("notes", stage.annals(&["notes"]));
    let stage = Stage::with_fixture_of("clog", "thoughts-of-every-shape");
    assert_snapshot!("thoughts", stage.annals(&["show", "tools", "--full"]));
}

#[test]
fn thread_id_selects_its_only_conversation() {
    let stage = Stage::with_fixture_of("clog", "same-thread-twice");
    let run = stage.annals(&["show", "2026-03-26T01-32-20-419Z"]).fine();
    assert!(run.out.contains("question 1"), "{run}");
    // An exact match of letter case selects one of two threads that differ only in case.
    let run = stage.annals(&["show", "thread_x", "--json"]).fine();
    let session = "2026-03-26T01-32-20-419Z-thread_x";
    assert_eq!(run.json()["session"]["id"], session);
    assert_snapshot!("thread_ambiguous", stage.refused(&["show", "THREAD_x"], ""));
}

#[test]
fn clog_conversation_is_created_appended_and_forked() {
    let stage = Stage::with_fixture_of("clog", "every-role-and-channel");
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
    stage.annals(&["notes", "add", &session, "remember"]).fine();
    stage.annals(&["tag", &session, "urgent"]).fine();
    stage.annals(&["todos", "add", &session, "first"]).fine();
    let lines = chat();
    let types: Vec<String> = lines
        .lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {}", value["type"], value["title"])
        })
        .collect();
    assert_eq!(types, [r#""conversation-header" """#, r#""message" null"#]);
    let notes = std::fs::read_to_string(folder.join("notes.jsonl")).unwrap();
    assert_eq!(notes.lines().count(), 4, "{notes}");
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
fn documents_lists_and_prints_clog_documents() {
    let stage = Stage::with_fixture_of("clog", "every-role-and-channel");
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
    let stage = Stage::with_fixture_of("clog", "hostile-words");
    for name in ["state/hostile.json", "sessions/hostile/system.log"] {
        let run = stage.annals(&["documents", name]).fine();
        assert!(!run.out.contains('\u{1b}'), "{run:?}", run = run.out);
        assert!(!run.out.contains('\u{202e}'), "{run:?}", run = run.out);
    }
    let stage = Stage::with_fixture_of("clog", "names-by-hand");
    assert_snapshot!("document_broken", stage.annals(&["documents", "broken"]));
    assert_snapshot!(
        "document_broken_json",
        stage.annals(&["documents", "broken", "--json"])
    );
    let none = Stage::with_fixture_of("clog", "header-alone").annals(&["documents"]);
    assert_eq!(none.code, 1, "{none}");
    assert_snapshot!(
        "documents_of_claude_code",
        Stage::with_fixture("settings").annals(&["documents"])
    );
}

#[test]
fn note_writes_header_to_an_empty_notes_log() {
    let stage = Stage::with_fixture_of("clog", "nothing-written");
    stage.annals(&["notes", "add", "zero", "x"]).fine();
    stage.annals(&["notes", "add", "zero", "y"]).fine();
    let folder = "conversations/conversation-2026-03-26T01-32-20-418Z-zero";
    let notes = std::fs::read_to_string(stage.root.join(folder).join("notes.jsonl")).unwrap();
    assert_eq!(notes.lines().count(), 3, "{notes}");
    assert!(notes.starts_with(r#"{"type":"conversation-header""#));
    let run = stage.annals(&["check"]);
    assert!(!run.out.contains("bad-header"), "{run}");
}

#[test]
fn newer_schema_version_is_read_and_not_written() {
    let stage = Stage::with_fixture_of("clog", "header-of-another-version");
    stage.annals(&["show", "future"]).fine();
    for args in [
        &["append", "future", "-m", "x"][..],
        &["notes", "add", "future", "x"],
        &["title", "future", "x"],
        &["tag", "future", "x"],
        &["todos", "add", "future", "x"],
    ] {
        let run = stage.refused(args, "");
        let why = "-future was written by a newer version of clog (schemaVersion 2); annals writes version 1";
        assert!(run.err.contains(why), "{run}");
    }
}

#[test]
fn notes_without_a_chat_log_are_listed() {
    let stage = Stage::with_fixture_of("clog", "notes-without-chat");
    let session = "2026-03-26T01-32-20-418Z-gone";
    for args in [
        &["notes", "--json"][..],
        &["notes", "gone", "--json"],
        &["notes", session, "--json"],
    ] {
        let notes = stage.annals(args).fine().json();
        assert_eq!(notes["notes"].as_array().unwrap().len(), 1, "{notes}");
        assert_eq!(notes["notes"][0]["session"], session);
        assert_eq!(notes["notes"][0]["text"], "still here");
    }
    stage.refused(&["notes", "other"], "");
}

#[test]
fn import_preserves_thread_and_start_and_does_nothing_a_second_time() {
    let source = Stage::with_fixture_of("clog", "every-role-and-channel");
    let exported = source
        .annals(&["export", SESSION, "--format", "jsonl"])
        .fine()
        .out;
    let run = source.with_stdin(&["import", "-"], exported.clone()).fine();
    assert!(run.out.contains("imported by an earlier run"), "{run}");
    let target = Stage::with_fixture_of("clog", "header-alone");
    let run = target.with_stdin(&["import", "-", "--json"], exported.clone());
    let reported = run.fine().json();
    assert_eq!(reported["sessions"][0]["session"], SESSION, "{reported}");
    let folder = format!("conversations/conversation-{SESSION}");
    let chat = std::fs::read_to_string(target.root.join(folder).join("chat.jsonl")).unwrap();
    let header: serde_json::Value = serde_json::from_str(chat.lines().next().unwrap()).unwrap();
    assert_eq!(header["threadId"], "thread_abc123");
    assert_eq!(header["createdAt"], 1_774_488_740_418_u64);
    let run = target.with_stdin(&["import", "-"], exported).fine();
    assert!(run.out.contains("imported by an earlier run"), "{run}");
}

#[test]
fn import_from_another_layout_reports_its_new_session_name() {
    let source = Stage::with_fixture_of("clog", "every-role-and-channel");
    let exported = source.annals(&["export", SESSION, "--format", "jsonl"]);
    let id = "a-session-of-elsewhere";
    let exported = exported.fine().out.replace(SESSION, id);
    let target = Stage::with_fixture_of("clog", "header-alone");
    let run = target.with_stdin(&["import", "-", "--json"], exported.clone());
    let reported = run.fine().json();
    let session = reported["sessions"][0]["session"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(session.ends_with(&format!("Z-{id}")), "{reported}");
    let run = target.annals(&["show", &session, "--json"]).fine();
    assert_eq!(run.json()["session"]["id"], session.as_str());
    let run = target.with_stdin(&["import", "-"], exported).fine();
    assert!(run.out.contains(&session), "{run}");
    assert!(run.out.contains("imported by an earlier run"), "{run}");
}

#[test]
fn thread_id_may_be_any_text_and_selects_its_session() {
    let stage = Stage::with_fixture_of("clog", "every-role-and-channel");
    let begin = |id: &str| {
        let run = stage.annals(&["new", "--id", id, "-m", id, "--json"]);
        run.fine().json()["session"].as_str().unwrap().to_owned()
    };
    let threads = ["Thread_X 1", "thread_x 1", "tele:123", "a/b@c", "Ünï"];
    let made = threads.map(begin);
    assert_eq!(made[0], "2026-11-15T12-00-00-000Z-thread_x-1");
    assert_eq!(made[1], "2026-11-15T12-00-00-001Z-thread_x-1");
    assert_eq!(made[2], "2026-11-15T12-00-00-000Z-tele-123");
    for (thread, session) in threads.iter().zip(&made) {
        let run = stage.annals(&["append", thread, "-m", "more", "--json"]);
        assert_eq!(run.fine().json()["session"], session.as_str(), "{thread}");
        let file = format!("conversations/conversation-{session}/chat.jsonl");
        let chat = std::fs::read_to_string(stage.root.join(file)).unwrap();
        assert_eq!(chat.lines().count(), 3, "{chat}");
        for line in chat.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["threadId"], *thread);
        }
    }
    // A unique prefix is enough, and letter case counts where it decides.
    for (text, session) in [
        ("thread_abc", SESSION),
        ("THREAD_ABC123", SESSION),
        ("tele:1", &made[2]),
        ("TELE:123", &made[2]),
        ("Thread_X", &made[0]),
        ("thread_x 1", &made[1]),
    ] {
        let run = stage.annals(&["show", text, "--json"]).fine();
        assert_eq!(run.json()["session"]["id"], session, "{text}");
    }
    let run = stage.refused(&["show", "THREAD_X 1"], "");
    assert!(run.err.contains(&made[1]), "{run}");
    stage.refused(&["show", "tele:124"], "");
    for bad in ["", "  ", "a\nb", &"x".repeat(201)] {
        stage.refused(&["new", "--id", bad], "");
    }
}

#[test]
fn import_preserves_title_and_channel_of_each_message() {
    let source = Stage::with_fixture_of("clog", "every-role-and-channel");
    let args = [
        "new",
        "--id",
        "t1",
        "--channel",
        "telegram",
        "--title",
        "One",
    ];
    let made = source.annals(&[&args[..], &["--json"]].concat()).json();
    let session = made["session"].as_str().unwrap().to_owned();
    source.annals(&["append", "t1", "-m", "hello"]).fine();
    let chat = |stage: &Stage, session: &str, file: &str| -> Vec<serde_json::Value> {
        let path = format!("conversations/conversation-{session}/{file}.jsonl");
        let text = std::fs::read_to_string(stage.root.join(path)).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    };
    let moved = |session: &str| {
        let exported = source.annals(&["export", session, "--format", "jsonl"]);
        let target = Stage::with_fixture_of("clog", "header-alone");
        target
            .with_stdin(&["import", "-"], exported.fine().out)
            .fine();
        target
    };
    let target = moved(&session);
    for file in ["chat", "notes"] {
        let lines = chat(&target, &session, file);
        assert_eq!(
            (&lines[0]["title"], &lines[0]["channel"]),
            (&"One".into(), &"telegram".into())
        );
        // The title is written once.
        assert_eq!(lines.len(), if file == "chat" { 2 } else { 1 }, "{lines:?}");
    }
    assert_eq!(chat(&target, &session, "chat")[1]["channel"], "telegram");
    // A renamed conversation is copied with both titles, and the last one is current.
    source.annals(&["title", "t1", "Two"]).fine();
    let target = moved(&session);
    let rows = target.annals(&["sessions", "--json"]).json();
    let rows = rows["sessions"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["id"] == session.as_str())
        .unwrap();
    assert_eq!(
        (&row["title"], &row["channel"]),
        (&"Two".into(), &"telegram".into())
    );
    // Each message keeps its own channel.
    let target = moved(SESSION);
    let channels = |stage: &Stage| -> Vec<serde_json::Value> {
        let lines = chat(stage, SESSION, "chat");
        lines.iter().map(|line| line["channel"].clone()).collect()
    };
    assert_eq!(channels(&target), channels(&source));
}

#[test]
fn convert_to_clog_writes_the_title_in_the_header() {
    let source = Stage::with_fixture("bom");
    let id = "00000000-0000-4000-8000-00000000000a";
    source
        .annals(&["new", "--id", id, "--title", "Release 1.2", "-m", "hi"])
        .fine();
    let target = source.work().join("storage");
    let target = target.to_str().unwrap();
    let root = source.root.to_str().unwrap();
    source
        .bare(&["convert", root, "--to", "clog", "--into", target])
        .fine();
    let folders = std::fs::read_dir(format!("{target}/conversations")).unwrap();
    let folders = folders.map(|folder| folder.unwrap().path());
    let chats = folders.map(|folder| std::fs::read_to_string(folder.join("chat.jsonl")).unwrap());
    let titled: Vec<String> = chats.filter(|chat| chat.contains(id)).collect();
    let header: serde_json::Value =
        serde_json::from_str(titled[0].lines().next().unwrap()).unwrap();
    assert_eq!(header["title"], "Release 1.2");
}

#[test]
fn project_filter_excludes_threads_without_a_project() {
    let stage = Stage::with_fixture_of("clog", "examples-of-the-document");
    let before = stage.annals(&["sessions", "--json"]).json();
    let before = before["sessions"].as_array().unwrap().len();
    let work = stage.work();
    let work = work.to_str().unwrap();
    stage
        .annals(&["new", "--id", "t1", "--cwd", work, "-m", "one"])
        .fine();
    stage.settle();
    for verb in ["sessions", "delete"] {
        let run = stage.annals(&[verb, "-p", work, "--json"]).json();
        assert_eq!(run["sessions"].as_array().map(Vec::len), Some(1), "{verb}");
    }
    stage.annals(&["delete", "-p", work, "--apply"]).fine();
    let after = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(after["sessions"].as_array().unwrap().len(), before);
}

/// The notes start with the same header as the chat, so they identify the conversation.
#[test]
fn a_conversation_that_has_only_notes_is_listed_and_written_to() {
    let stage = Stage::empty().with_layout("clog");
    let folder = stage
        .root
        .join(format!("conversations/conversation-{SESSION}"));
    std::fs::create_dir_all(&folder).unwrap();
    let header = format!(
        r#"{{"type":"conversation-header","schemaVersion":1,"fileKind":"notes","conversationId":"conversation-{SESSION}","threadId":"Thread_ABC123","channel":"web","title":"Plans","createdAt":1774488740418,"updatedAt":1774488740418}}"#
    );
    std::fs::write(folder.join("notes.jsonl"), format!("{header}\n")).unwrap();
    let listed = stage.annals(&["sessions", "--json"]).json();
    let row = &listed["sessions"][0];
    assert_eq!(
        (&row["id"], &row["title"]),
        (&SESSION.into(), &"Plans".into())
    );
    let refused = stage.refused(&["new", "--id", "Thread_ABC123"], "");
    assert!(
        refused.err.contains("already has a conversation"),
        "{refused}"
    );
    let append = ["append", "Thread_ABC123", "-m", "hello"];
    stage.annals(&append).fine();
    let chat = || std::fs::read_to_string(folder.join("chat.jsonl")).unwrap();
    let text = chat();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2, "{text}");
    for (member, value) in [
        ("type", "conversation-header"),
        ("fileKind", "chat"),
        ("title", "Plans"),
    ] {
        assert_eq!(lines[0][member], value, "{text}");
    }
    assert_eq!(lines[0]["createdAt"], 1_774_488_740_418_u64);
    for line in &lines {
        let said = (&line["threadId"], &line["channel"]);
        assert_eq!(said, (&"Thread_ABC123".into(), &"web".into()), "{text}");
    }
    // The reverse: an empty chat gets its header, and a notes file is created.
    std::fs::write(folder.join("chat.jsonl"), "").unwrap();
    std::fs::remove_file(folder.join("notes.jsonl")).unwrap();
    stage.annals(&["append", SESSION, "-m", "again"]).fine();
    assert_eq!(chat().lines().count(), 2);
    let notes = std::fs::read_to_string(folder.join("notes.jsonl")).unwrap();
    assert!(notes.contains(r#""fileKind":"notes""#), "{notes}");
    assert_eq!(
        stage.annals(&["sessions", "--json"]).json()["sessions"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
