//! Claude Code storage as agentpool's document describes it.

use std::fs;
use std::path::Path;

use annals::layout::{NewSession, Spawn, by_name};
use annals::model::{
    AgentId, ArtifactKind, Block, Body, Draft, Entry, EntryId, Role, SessionId, Todo, TodoStatus,
    Usage,
};
use annals::store::{MessageFilter, Root, Session, Store, WriteOptions};
use annals::watch::{Event, FollowOptions, Follower, Selection};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::harness::Stage;

const SESSION: &str = "e8d973c7-481e-43d9-809d-9a4880e8cebc";
const PROJECT: &str = "/home/user/myproject";

/// A store whose root does not exist yet.
fn fresh() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path().join("claude"));
    let store = Store::new(vec![root]).with_state(dir.path().join("state"));
    (dir, store)
}

fn create(store: &Store, id: &str) -> annals::store::SessionWriter {
    let new = NewSession::new(SessionId::new(id).unwrap(), PROJECT);
    store
        .create(&store.roots()[0], &new, WriteOptions::default())
        .unwrap()
}

/// The entries of a log in the fixture with the document's entry types.
fn entries(name: &str) -> Vec<Entry> {
    let stage = Stage::with_fixture("agentpool-entry-types");
    let root = Root::claude_code(&stage.root);
    let store = Store::new(vec![root.clone()]);
    let inventory = store.inventory();
    let mut sessions = inventory.sessions.iter();
    let files = sessions.find(|files| files.id.as_str() == name).unwrap();
    root.entries(files.log.as_ref().unwrap()).unwrap()
}

/// The session that has all of the document's record shapes.
fn session(stage: &Stage) -> Session {
    let store = Store::new(vec![Root::claude_code(&stage.root)]);
    store.session(SESSION).unwrap()
}

fn text(entry: &Entry) -> String {
    let mut said = String::new();
    if let Body::Message(message) = &entry.body {
        for block in &message.blocks {
            block.visit_texts(&mut |text| said.push_str(text));
        }
    }
    said
}

/// Requirements: 001.1, 001.2, 001.3, 001.4, 001.5, 001.6, 001.7, 001.8, 001.9, 001.10, 001.12
#[test]
fn every_file_of_the_directory_structure_has_its_meaning() {
    use ArtifactKind as K;
    let layout = by_name("claude-code").unwrap();
    for (path, kind) in [
        (
            format!("projects/-home-user-myproject/{SESSION}.jsonl"),
            K::SessionLog,
        ),
        (
            "projects/-home-user-myproject/agent-a753668.jsonl".into(),
            K::AgentLog,
        ),
        (format!("todos/{SESSION}-agent-{SESSION}.json"), K::Todos),
        (format!("todos/{SESSION}-agent-a753668.json"), K::Todos),
        (format!("session-env/{SESSION}/hook.sh"), K::SessionState),
        ("plans/name.md".into(), K::Plan),
        (
            format!("file-history/{SESSION}/7b1a057f03b9c8c5@v2"),
            K::FileVersion,
        ),
        ("history.jsonl".into(), K::History),
        ("settings.json".into(), K::Settings),
    ] {
        let artifact = layout.classify(Path::new(&path)).expect(&path);
        assert_eq!(artifact.kind, kind, "{path}");
        assert_eq!(layout.path_for(&artifact), Path::new(&path));
    }
    let stage = Stage::with_fixture("agentpool-session");
    assert!(stage.annals(&["plans"]).fine().out.contains("fix-it"));
    let settings = Stage::with_fixture("settings")
        .annals(&["sessions", "--json"])
        .json();
    assert!(settings["sessions"][0]["expires"].is_string());
    let history = Stage::with_fixture("history")
        .annals(&["history", "--json"])
        .fine();
    assert!(
        history.json()["history"]
            .as_array()
            .is_some_and(|rows| !rows.is_empty()),
        "{history}"
    );
}

/// Requirements: 001.13, 001.14, 001.15, 001.16, 001.17, 001.18, 001.21, 001.71, 001.96
#[test]
fn a_project_is_found_by_its_path_though_no_record_has_a_cwd() {
    let layout = by_name("claude-code").unwrap();
    let folder = layout.folder(PROJECT).unwrap();
    assert_eq!(folder, "-home-user-myproject");
    let stage = Stage::with_fixture("agentpool-session");
    for project in [PROJECT, "/home/user/myproject/", "-home-user-myproject"] {
        for verb in ["sessions", "projects"] {
            let run = stage.annals(&[verb, "-p", project, "--json"]);
            assert_eq!(
                run.json()[verb].as_array().unwrap().len(),
                1,
                "{verb} {run}"
            );
        }
        let cost = stage.annals(&["cost", "-p", project, "--json"]).json();
        assert_eq!(cost["total"]["requests"], 4, "{project}");
    }
    for other in ["/home/user", "/home/user-myproject/x", "-home-user"] {
        assert_eq!(stage.annals(&["sessions", "-p", other]).code, 1, "{other}");
    }
    // Folder names are not decoded, because several paths encode to the same name.
    let row = &stage.annals(&["sessions", "--json"]).json()["sessions"][0];
    assert_eq!(row["project"], "-home-user-myproject");
    let state = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(&stage.root)]).with_state(state.path());
    assert!(
        store
            .trash()
            .move_project_in("/home/user", Timestamp::now())
            .is_empty()
    );
    assert_eq!(
        store
            .trash()
            .move_project_in(PROJECT, Timestamp::now())
            .len(),
        1
    );
    assert!(store.inventory().sessions.is_empty());
    // If a record has a `cwd`, only that counts; folders are created as needed.
    let (_dir, store) = fresh();
    create(&store, SESSION)
        .append(Draft::user("Hello"))
        .unwrap();
    create(&store, "another session")
        .append(Draft::user("Hi"))
        .unwrap();
    let rows = store.sessions(&store.inventory()).read(&|_, _| ());
    for row in rows {
        let row = row.unwrap();
        assert!(row.matches_project_or_earlier(PROJECT));
        assert!(!row.matches_project_or_earlier("/home/user-myproject"));
        assert!(
            row.file
                .parent()
                .unwrap()
                .ends_with("projects/-home-user-myproject")
        );
    }
}

/// Requirements: 001.15, 001.16
///
/// `/home/user/my-app` and `/home/user/my/app` have the same folder.
#[test]
fn sessions_and_delete_mean_the_same_sessions_by_a_project() {
    let stage = Stage::empty();
    let folder = stage.root.join("projects/-home-user-my-app");
    fs::create_dir_all(&folder).unwrap();
    for (name, cwd) in [
        ("dash", Some("/home/user/my-app")),
        ("slash", Some("/home/user/my/app")),
        ("nowhere", None),
    ] {
        let cwd = cwd.map_or(String::new(), |cwd| format!(r#""cwd":"{cwd}","#));
        let line = format!(
            r#"{{"type":"user","uuid":"u-{name}","parentUuid":null,"sessionId":"{name}",{cwd}"timestamp":"2026-03-01T12:00:00.000Z","message":{{"role":"user","content":"hello"}}}}"#
        );
        fs::write(folder.join(format!("{name}.jsonl")), line + "\n").unwrap();
    }
    let state = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(&stage.root)]).with_state(state.path());
    let listed = |project: &str| {
        let found = stage.annals(&["sessions", "-p", project, "--json"]).json();
        let rows = found["sessions"].as_array().unwrap().iter();
        let mut ids: Vec<String> = rows
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort_unstable();
        ids
    };
    for (project, wanted) in [
        ("/home/user/my-app", ["dash", "nowhere"]),
        ("/home/user/my-app/", ["dash", "nowhere"]),
        ("/home/user/my/app", ["nowhere", "slash"]),
    ] {
        assert_eq!(listed(project), wanted, "{project}");
        let plan = stage.annals(&["delete", "-p", project, "--json"]).json();
        let planned = plan["sessions"].as_array().unwrap().iter();
        let mut planned: Vec<&str> = planned
            .map(|row| row["session"].as_str().unwrap())
            .collect();
        planned.sort_unstable();
        assert_eq!(planned, wanted, "{project}");
        let reset = store
            .trash()
            .plan_project(project, Timestamp::now())
            .unwrap();
        let mut reset: Vec<&str> = reset.iter().map(|it| it.session.as_str()).collect();
        reset.sort_unstable();
        assert_eq!(reset, wanted, "{project}");
    }
    // The folder name selects all of its sessions, which belong to more than one project.
    assert_eq!(listed("-home-user-my-app"), ["dash", "nowhere", "slash"]);
    let refused = stage.annals(&["delete", "-p", "-home-user-my-app"]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.err.contains("/home/user/my/app"), "{refused}");
    fs::remove_file(folder.join("slash.jsonl")).unwrap();
    assert_eq!(listed("-home-user-my-app"), ["dash", "nowhere"]);
    let plan = stage
        .annals(&["delete", "-p", "-home-user-my-app", "--json"])
        .json();
    assert_eq!(plan["sessions"].as_array().unwrap().len(), 2);
}

/// Requirements: 001.19, 001.20, 001.101
#[test]
fn a_session_may_have_any_name_that_its_program_gave() {
    let stage = Stage::with_fixture("free-session-names");
    let rows = stage.annals(&["sessions", "--json"]).json();
    let rows = rows["sessions"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["id"].as_str()).collect();
    assert_eq!(names.len(), 7, "{names:?}");
    for name in ["my session 1", "café ☕", "user@host", "a.b.", "my-agent-1"] {
        assert!(names.contains(&name), "{name}");
        let shown = stage.annals(&["show", name]).fine();
        assert!(shown.out.contains("answer 1"), "{shown}");
        stage.annals(&["check", name]).fine();
    }
    stage.annals(&["show", "user@host@00000002"]).fine();
    let hits = stage.annals(&["search", "answer", "--json"]).json();
    assert!(hits["total"].as_u64().unwrap() >= 7, "{hits}");
    // The session can be appended to, deleted, restored, forked and archived under its name.
    stage
        .annals(&["append", "my session 1", "-m", "go on"])
        .fine();
    stage.annals(&["delete", "café ☕", "--apply"]).fine();
    assert_eq!(stage.annals(&["show", "café ☕"]).code, 2);
    stage.annals(&["delete", "--undo", "café ☕"]).fine();
    stage.annals(&["show", "café ☕"]).fine();
    stage.annals(&["archive", "a.b.", "--apply"]).fine();
    assert!(
        stage
            .annals(&["show", "a.b."])
            .fine()
            .out
            .contains("answer 1")
    );
    stage
        .annals(&["fork", "my session 1", "--id", "my session 2"])
        .fine();
    stage.annals(&["show", "my session 2"]).fine();
    let todos = stage.annals(&["todos", "--all", "--json"]).fine();
    assert!(
        todos.out.contains("my-agent-1") && todos.out.contains("go on"),
        "{todos}"
    );
    // A generated id is a UUID; an id chosen by the caller is used unchanged.
    let new = stage.annals(&["new", "--json"]).json();
    assert!(
        new["session"].as_str().unwrap().starts_with("[id "),
        "a UUID is masked: {new}"
    );
    let new = stage.annals(&["new", "--id", "My Session", "--json"]);
    assert!(
        new.err.contains("resumes only sessions whose id is a UUID"),
        "{new}"
    );
    assert_eq!(new.json()["session"], "My Session");
    for refused in ["a/b", "..", ".hidden", "agent-x", "a\u{202e}b", "a\nb"] {
        let run = stage.annals(&["new", "--id", refused]);
        assert_eq!(run.code, 2, "{refused:?} {run}");
    }
}

/// Requirements: 001.20
#[test]
fn a_check_reports_files_that_no_layout_recognizes() {
    let stage = Stage::with_fixture("unknown-files");
    let found = stage.annals(&["check", "--json"]).json();
    assert_eq!(found["ok"], true);
    let files = found["files"].as_array().unwrap().iter();
    let unknown = files.filter(|file| file["flaws"].to_string().contains("unknown-file"));
    let names: Vec<String> = unknown
        .map(|file| {
            let path = Path::new(file["path"].as_str().unwrap()).to_owned();
            path.file_name().unwrap().to_string_lossy().into_owned()
        })
        .collect();
    // The session id is masked. The project's memory and the client's other files are not reported.
    assert_eq!(names, ["[id 1].jsonl.bak", "stray.txt"]);
    let free = Stage::with_fixture("free-session-names");
    let found = free.annals(&["check", "--details"]).fine();
    assert!(
        found.out.contains(".hidden.jsonl") && found.out.contains("-p.jsonl"),
        "{found}"
    );
    for layout in ["chorus", "clog", "orchestrator"] {
        let stage = match layout {
            "chorus" => Stage::with_fixture_of(layout, "chorus-names"),
            "clog" => Stage::with_fixture_of(layout, "names-by-hand"),
            _ => Stage::with_fixture_of(layout, "unknown-files"),
        };
        let dir = match layout {
            "chorus" => "sessions/w-app/a-main",
            "clog" => "conversations",
            _ => "projects/eSlgu1iz-VWavn8Y4vLC",
        };
        fs::create_dir_all(stage.root.join(dir)).unwrap();
        fs::write(stage.root.join(dir).join("lost.txt"), "x").unwrap();
        let found = stage.annals(&["check", "--json"]);
        assert!(found.out.contains("lost.txt"), "{layout} {found}");
    }
}

/// Requirements: 001.20
///
/// The name of the document's own folder is as long as the hash that names an orchestrator's folder.
#[test]
fn sessions_of_any_name_are_listed_in_the_folder_of_the_document() {
    let stage = Stage::empty();
    let folder = stage.root.join("projects/-home-user-myproject");
    fs::create_dir_all(&folder).unwrap();
    let names = ["1", "2026-03-01", "s.notes", "x.annals-origin"];
    for name in names {
        let line = format!(
            r#"{{"type":"user","uuid":"u-{name}","parentUuid":null,"sessionId":"{name}","cwd":"/home/user/myproject","timestamp":"2026-03-01T12:00:00.000Z","message":{{"role":"user","content":"needle"}}}}"#
        );
        fs::write(folder.join(format!("{name}.jsonl")), line + "\n").unwrap();
    }
    let listed = stage.annals(&["sessions", "--json"]).json();
    let mut ids: Vec<&str> = (listed["sessions"].as_array().unwrap().iter())
        .map(|row| row["id"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, names);
    let found = stage.annals(&["search", "needle", "--json"]).fine();
    for name in names {
        assert!(found.out.contains(&format!("u-{name}")), "{name} {found}");
    }
    // Files that only another layout reads are reported if that layout has no root.
    let hash = stage.root.join("projects/v_FXjHoCS5zUJmfyn-5v");
    fs::create_dir_all(&hash).unwrap();
    fs::write(hash.join("2026-03-01.jsonl"), "{}\n").unwrap();
    let checked = stage.annals(&["check", "--details"]).fine();
    assert!(
        checked
            .out
            .contains("v_FXjHoCS5zUJmfyn-5v/2026-03-01.jsonl"),
        "{checked}"
    );
    assert!(checked.out.contains("orchestrator"), "{checked}");
    assert!(!checked.out.contains("-home-user-myproject"), "{checked}");
}

/// Requirements: 001.56, 003.14, 003.29
///
/// Two logs of one folder that use the same ids for their messages.
#[test]
fn a_summary_is_no_title_for_another_session_with_the_same_ids() {
    let stage = Stage::empty();
    let folder = stage.root.join("projects/-home-user-myproject");
    fs::create_dir_all(&folder).unwrap();
    let message = |kind: &str, id: &str, parent: &str, text: &str| {
        format!(r#"{{"type":"{kind}","uuid":"{id}","parentUuid":{parent},"content":"{text}"}}"#)
    };
    let hello = message("user", "msg1", "null", "Hello");
    let hi = message("assistant", "msg2", r#""msg1""#, "Hi");
    let greeting = r#"{"type":"summary","summary":"Greeting","leafUuid":"msg2"}"#;
    let branches = [
        message("user", "msg1", "null", "How do I build this?"),
        message("assistant", "msg2", r#""msg1""#, "With cargo"),
        message("user", "msg3a", r#""msg2""#, "Thanks"),
    ];
    // A log may hold the summary of another session if it names that session.
    let named = r#"{"type":"summary","summary":"Named","leafUuid":"other2","sessionId":"third"}"#;
    let other = |text: &str| {
        let prompt = message("user", "other1", "null", text);
        let reply = message("assistant", "other2", r#""other1""#, "Yes");
        [prompt, reply].join("\n") + "\n"
    };
    // The leaf may be far from the summary.
    let long = "x".repeat(100 << 10);
    let far = message("user", "far", "null", &long);
    let greeting_first = [greeting, named, &far, &hello, &hi].join("\n") + "\n";
    let document_order = [&hello[..], &hi, greeting, named].join("\n") + "\n";
    for first in [greeting_first, document_order] {
        fs::write(folder.join("first.jsonl"), first).unwrap();
        fs::write(folder.join("second.jsonl"), branches.join("\n") + "\n").unwrap();
        fs::write(folder.join("third.jsonl"), other("Third?")).unwrap();
        fs::write(folder.join("fourth.jsonl"), other("Fourth?")).unwrap();
        let titles = [
            ("second", "How do I build this?"),
            ("third", "Named"),
            ("fourth", "Fourth?"),
        ];
        for flag in [&["--no-index"][..], &[], &[]] {
            let args = [&["sessions", "--json"], flag].concat();
            let listed = stage.annals(&args).json();
            let args = [&["conversations", "--json"], flag].concat();
            let conversations = stage.annals(&args).fine();
            for (session, title) in titles {
                let rows = listed["sessions"].as_array().unwrap();
                let row = rows.iter().find(|row| row["id"] == session).unwrap();
                assert!(row["title"].to_string().contains(title), "{flag:?} {row}");
                assert!(conversations.out.contains(title), "{conversations}");
                let shown = stage.annals(&[&["show", session], flag].concat()).fine();
                assert!(shown.out.contains(title), "{shown}");
                assert!(!shown.out.contains("Greeting"), "{shown}");
            }
            let greeted = listed.to_string().matches("Greeting").count();
            assert_eq!(greeted, 1, "{flag:?} {listed}");
            assert_eq!(
                conversations.out.matches("Greeting").count(),
                1,
                "{conversations}"
            );
        }
    }
}

/// Requirements: 001.22, 001.24, 001.25, 001.26, 001.37, 001.74, 001.76, 001.88, 001.89, 001.90, 001.93, 001.106
#[test]
fn entries_are_appended_as_whole_lines_in_the_order_of_time() {
    let (_dir, store) = fresh();
    let writer = create(&store, SESSION);
    for number in 0..3 {
        writer
            .append(Draft::user(format!("prompt {number}")))
            .unwrap();
        let log = fs::read_to_string(writer.path()).unwrap();
        assert!(log.ends_with('\n'));
        let lines: Vec<Value> = log
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let times: Vec<&str> = lines
            .iter()
            .filter_map(|line| line["timestamp"].as_str())
            .collect();
        assert!(times.is_sorted(), "{times:?}");
        // A reader sees all entries while the writer is open.
        assert_eq!(
            store
                .session(SESSION)
                .unwrap()
                .messages(&MessageFilter::default())
                .unwrap()
                .len(),
            number + 1
        );
    }
    // A torn line is no entry, unknown types and members are kept, and appends continue after both.
    let whole = fs::read(writer.path()).unwrap();
    let odd = br#"{"type":"from-the-future","x":1e5}"#;
    let torn = [&whole[..], odd, b"\n{\"type\":\"user\",\"uu"].concat();
    fs::write(writer.path(), &torn).unwrap();
    drop(writer);
    let writer = store.resume(SESSION, WriteOptions::default()).unwrap();
    writer.append(Draft::user("after the crash")).unwrap();
    let log = fs::read(writer.path()).unwrap();
    assert!(log.starts_with(&torn));
    assert_eq!(
        store
            .tail(SESSION, 2)
            .unwrap()
            .last_messages(2)
            .unwrap()
            .len(),
        2
    );
}

/// Requirements: 001.23, 001.27, 001.28, 001.29, 001.31, 001.32, 001.33, 001.104, 001.107
#[test]
fn a_sub_agent_has_a_log_and_todos_of_its_own_and_the_id_of_its_session() {
    let stage = Stage::with_fixture("agentpool-session");
    let read = session(&stage);
    assert_eq!(read.agents.len(), 1);
    assert_eq!(read.agents[0].id.as_ref().unwrap().as_str(), "a753668");
    let shown = stage.annals(&["show", "e8d9", "--agent", "a753668"]).fine();
    assert!(shown.out.contains("Delegated task"), "{shown}");
    let (_dir, store) = fresh();
    let writer = create(&store, SESSION);
    writer.append(Draft::user("Hello")).unwrap();
    writer.set_todos(&[Todo::pending("main")]).unwrap();
    let agent = AgentId::new("a753668").unwrap();
    let helper = writer
        .spawn(&Spawn::new(agent.clone(), "Explore", "Look around"))
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| helper.append(Draft::user("Delegated")).unwrap());
        scope.spawn(|| writer.append(Draft::user("Meanwhile")).unwrap());
    });
    helper.set_todos(&[Todo::pending("sub")]).unwrap();
    // Below the session's folder, as in client 2.1.
    let path = format!("projects/-home-user-myproject/{SESSION}/subagents/agent-a753668.jsonl");
    assert!(helper.path().ends_with(path));
    let lines = fs::read_to_string(helper.path()).unwrap();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["sessionId"], SESSION);
        assert_eq!(line["agentId"], "a753668");
    }
    let root = &store.roots()[0].path;
    for owner in [SESSION, "a753668"] {
        assert!(
            root.join(format!("todos/{SESSION}-agent-{owner}.json"))
                .is_file(),
            "{owner}"
        );
    }
    let of = |agent: &str| {
        let session = store.session(SESSION).unwrap();
        session
            .messages(&MessageFilter::default().agent(agent))
            .unwrap()
            .len()
    };
    assert_eq!((of("main"), of("a753668")), (2, 1));
}

/// Requirements: 001.34, 001.35, 001.36, 001.37, 001.38, 001.39, 001.40, 001.41, 001.42, 001.99, 001.105
#[test]
fn todos_are_a_list_for_each_agent_apart_from_the_log() {
    let stage = Stage::with_fixture("agentpool-session");
    let lists = session(&stage).todos().unwrap();
    let of = |agent: &str| {
        let mut lists = lists.iter();
        lists.find(|(owner, _)| owner == agent).unwrap().1[0].clone()
    };
    let (main, sub) = (of(SESSION), of("a753668"));
    assert_eq!(main.content, "Task description");
    assert_eq!(
        (main.status, sub.status),
        (TodoStatus::InProgress, TodoStatus::Completed)
    );
    assert_eq!(main.priority.as_deref(), Some("high"));
    assert_eq!(sub.priority.as_deref(), Some("low"));
    let active = "Current action description (optional)";
    assert_eq!(main.active_form.as_deref(), Some(active));
    let (_dir, store) = fresh();
    let writer = create(&store, SESSION);
    writer.append(Draft::user("Hello")).unwrap();
    let log = fs::read(writer.path()).unwrap();
    writer.set_todos(std::slice::from_ref(&main)).unwrap();
    drop(writer);
    store.resume(SESSION, WriteOptions::default()).unwrap();
    let read = store.session(SESSION).unwrap();
    assert_eq!(read.todos().unwrap(), [(SESSION.to_owned(), vec![main])]);
    assert_eq!(
        fs::read(&read.files.log.as_ref().unwrap().path).unwrap(),
        log
    );
}

/// Requirements: 001.43, 001.44, 001.45, 001.46, 001.47, 001.48, 001.75, 001.77
#[test]
fn user_and_assistant_entries_are_read_as_they_stand_in_the_document() {
    let user = &entries("user-entry")[0];
    assert_eq!(user.id, Some(EntryId::new("message-uuid")));
    assert_eq!(user.parent, Some(EntryId::new("parent-message-uuid")));
    assert_eq!(user.session.as_deref(), Some("uuid"));
    assert_eq!(text(user), "text or array of content blocks");
    let assistant = &entries("assistant-entry")[0];
    let Body::Message(message) = &assistant.body else {
        panic!("{assistant:?}");
    };
    assert_eq!(message.role, Role::Assistant);
    assert_eq!(message.model.as_deref(), Some("claude-..."));
    assert_eq!(message.request.as_deref(), Some("req_..."));
    let [Block::Text(said), Block::ToolUse { id, name, input }] = message.blocks.as_slice() else {
        panic!("{message:?}");
    };
    assert_eq!([said, id, name, input], ["...", "...", "...", "{}"]);
    // The `model` next to the message determines the price.
    let stage = Stage::with_fixture("agentpool-session");
    let cost = stage.annals(&["cost", "--by", "model", "--json"]).json();
    assert_eq!(cost["rows"][0]["key"], "claude-sonnet-4-5-20250929");
    assert_eq!(cost["rows"][0]["unpriced"], 0);
    assert_eq!(cost["total"]["output"], 20);
    let rows = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(
        rows["sessions"][0]["models"][0],
        "claude-sonnet-4-5-20250929"
    );
    assert_eq!(rows["sessions"][0]["cost_usd"], cost["total"]["cost_usd"]);
}

/// Requirements: 001.49, 001.50
#[test]
fn queue_operations_are_read_and_written() {
    let found = entries("queue-operation-entry");
    let operations = found.iter().map(|entry| match &entry.body {
        Body::Queue { operation, text } => (operation.as_str(), text.as_str()),
        body => panic!("{body:?}"),
    });
    assert_eq!(
        operations.collect::<Vec<_>>(),
        [("enqueue", ""), ("dequeue", "")]
    );
    let stage = Stage::with_fixture("queue-operations");
    let row = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(row["sessions"][0]["title"], "question 1");
    assert_eq!(row["sessions"][0]["messages"], 2);
    assert!(
        stage
            .annals(&["search", "never said"])
            .fine()
            .out
            .contains("never said")
    );
    let (_dir, store) = fresh();
    let writer = create(&store, SESSION);
    writer.append(Draft::user("Hello")).unwrap();
    let leaf = writer.leaf();
    let body = Body::Queue {
        operation: "enqueue".into(),
        text: "and then?".into(),
    };
    let written = writer.append(Draft::new(body.clone())).unwrap();
    assert_eq!((written.body, writer.leaf()), (body, leaf));
    let log = fs::read_to_string(writer.path()).unwrap();
    let line: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(line["type"], "queue-operation");
    assert_eq!(line["operation"], "enqueue");
    assert_eq!(line["sessionId"], SESSION);
    let nameless = Body::Queue {
        operation: " ".into(),
        text: String::new(),
    };
    assert!(writer.append(Draft::new(nameless)).is_err());
}

/// Requirements: 001.51, 001.52
#[test]
fn a_system_entry_is_shown_though_it_has_no_id() {
    assert_eq!(text(&entries("system-entry")[0]), "System message text");
    let stage = Stage::with_fixture("agentpool-session");
    let all = stage.annals(&["show", "e8d9", "--all"]).fine();
    let (system, first) = (
        all.out.find("System message text"),
        all.out.find("User Message 1"),
    );
    assert!(system.unwrap() < first.unwrap(), "{all}");
    let plain = stage.annals(&["show", "e8d9"]).fine();
    assert!(!plain.out.contains("System message text"), "{plain}");
    stage
        .annals(&["append", "e8d9", "--role", "system", "-m", "Be careful"])
        .fine();
    let shown = stage.annals(&["show", "e8d9", "--role", "system"]).fine();
    assert!(shown.out.contains("Be careful"), "{shown}");
}

/// Requirements: 001.53, 001.54
#[test]
fn a_tool_result_is_part_of_a_user_entry_and_counts_once() {
    let entry = &entries("tool-result-entry")[0];
    let Body::Message(message) = &entry.body else {
        panic!("{entry:?}");
    };
    let [Block::ToolResult { call, output, .. }] = message.blocks.as_slice() else {
        panic!("{message:?}");
    };
    assert_eq!(call, "toolu_...");
    assert_eq!(
        output,
        &[Block::Text("result text or structured data".into())]
    );
    assert!(!message.human);
    let hits = Stage::with_fixture("agentpool-session")
        .annals(&["search", "Tool Results", "--json"])
        .json();
    assert_eq!(hits["total"], 1);
}

/// Requirements: 001.55, 001.56, 001.57, 001.58, 001.87
#[test]
fn a_summary_covers_the_messages_up_to_one_and_becomes_the_title() {
    let entry = &entries("summary-entry")[0];
    let Body::Summary { text, leaf } = &entry.body else {
        panic!("{entry:?}");
    };
    assert_eq!(text, "Condensed conversation summary");
    assert_eq!(leaf, &Some(EntryId::new("message-uuid")));
    assert_eq!(
        entry.members,
        [("messageCount".to_owned(), "10".to_owned())]
    );
    let stage = Stage::with_fixture("agentpool-session");
    let row = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(
        row["sessions"][0]["title"],
        "Condensed conversation summary"
    );
    let shown = stage.annals(&["show", "e8d9@:11", "--json"]).json();
    assert!(shown.to_string().contains(r#""messageCount":4"#), "{shown}");
    // A summary is written in the client's format; `compact` continues from a summary.
    let (_dir, store) = fresh();
    let writer = create(&store, SESSION);
    let first = writer.append(Draft::user("Hello")).unwrap();
    let summary = Body::Summary {
        text: "A greeting".into(),
        leaf: first.id.clone(),
    };
    let written = writer
        .append(Draft::new(summary.clone()).member("messageCount", "1"))
        .unwrap();
    assert_eq!(written.body, summary);
    assert_eq!(
        written.members,
        [("messageCount".to_owned(), "1".to_owned())]
    );
    let title = store.session(SESSION).unwrap().title().unwrap();
    assert_eq!(title.text, "A greeting");
    for draft in [
        Draft::new(summary).member("messageCount", "\"x\""),
        Draft::user("x").member("messageCount", "1"),
    ] {
        assert!(writer.append(draft).is_err());
    }
    writer.compact("What was said before", None).unwrap();
    let compacted = store.session(SESSION).unwrap();
    assert!(
        compacted
            .messages(&MessageFilter::default().text("what was said"))
            .unwrap()
            .len()
            == 1
    );
}

/// Requirements: 001.59, 001.60, 001.100
#[test]
fn file_history_has_path_operation_and_snippet() {
    let found = entries("file-history-entry");
    let operations = found.iter().map(|entry| {
        let Body::Files(change) = &entry.body else {
            panic!("{entry:?}");
        };
        let file = &change.backups[0];
        assert_eq!(file.path, "/absolute/path/to/file");
        assert_eq!(file.snippet.as_deref(), Some("Preview of changes..."));
        file.operation.clone().unwrap()
    });
    assert_eq!(operations.collect::<Vec<_>>(), ["edit", "create", "delete"]);
    let stage = Stage::with_fixture("agentpool-session");
    assert!(
        stage
            .annals(&["search", "Preview of"])
            .fine()
            .out
            .contains("Preview of changes")
    );
    assert!(
        stage
            .annals(&["files", "e8d9"])
            .fine()
            .out
            .contains("/absolute/path/to/file")
    );
}

/// Requirements: 001.62, 001.63, 001.69, 001.70, 001.80, 001.82, 001.103
#[test]
fn a_conversation_is_followed_from_its_last_message_back() {
    let stage = Stage::with_fixture("agentpool-session");
    let read = session(&stage);
    let ids = |entries: Vec<Entry>| -> Vec<String> {
        entries
            .iter()
            .filter_map(|entry| Some(entry.id.as_ref()?.to_string()))
            .collect()
    };
    assert_eq!(ids(read.ancestry("d").unwrap()), ["a", "b", "c", "d"]);
    assert_eq!(ids(read.last_messages(2).unwrap()), ["c", "d"]);
    assert_eq!(read.message("c").unwrap().parent, Some(EntryId::new("b")));
    assert_eq!(read.message("a").unwrap().parent, None);
    assert!(read.message("nowhere").is_err());
    let shown = stage
        .annals(&["show", "e8d9", "--last", "1", "--json"])
        .json();
    assert_eq!(shown["entries"].as_array().unwrap().len(), 1);
    assert_eq!(shown["entries"][0]["id"], "d");
}

/// Requirements: 001.64, 001.65, 001.66, 001.67, 001.68
#[test]
fn a_side_chain_that_hangs_from_the_main_chain_is_a_branch_with_a_prompt() {
    let stage = Stage::with_fixture("agentpool-session");
    let rows = stage.annals(&["conversations", "e8d9", "--json"]).json();
    let leaves: Vec<&str> = rows["conversations"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["leaf"].as_str())
        .collect();
    assert_eq!(leaves, ["f", "d"], "the newest first");
    let prompt = session(&stage).message("e").unwrap();
    assert!(
        matches!(&prompt.body, Body::Message(message) if message.human),
        "{prompt:?}"
    );
    let page = stage.annals(&["export", "e8d9"]).fine();
    assert!(
        !page
            .out
            .contains("### Task · 2026-03-02 09:00\n\nUser Message 1, edited"),
        "{page}"
    );
    let shown = stage.annals(&["show", "e8d9@f"]).fine();
    assert!(!shown.out.contains("task "), "{shown}");
    // A sub-agent's prompt is not a human prompt.
    let asked = session(&stage)
        .messages(&MessageFilter::default().agent("a753668"))
        .unwrap();
    assert!(matches!(&asked[0].body, Body::Message(message) if !message.human));
    // A branch written by annals is on the main chain, as the client's are; existing bytes stay.
    let before = fs::read(stage.log_path(SESSION)).unwrap();
    stage
        .annals(&["append", "e8d9", "--at", "b", "-m", "Once more"])
        .fine();
    let after = fs::read(stage.log_path(SESSION)).unwrap();
    assert!(after.starts_with(&before));
    let added = String::from_utf8_lossy(&after[before.len()..]).into_owned();
    assert!(added.contains(r#""isSidechain":false"#), "{added}");
}

/// Requirements: 001.72, 001.73, 001.78, 001.79, 001.84, 001.85, 001.86, 001.98, 001.102
#[test]
fn sessions_and_messages_are_listed_counted_and_filtered() {
    let stage = Stage::with_fixture("agentpool-session");
    let read = session(&stage);
    let count = |filter: MessageFilter| read.messages(&filter).unwrap().len();
    let any = MessageFilter::default;
    assert_eq!(count(any().role(Role::Assistant).agent("main")), 3);
    assert_eq!(count(any().kind("tool_result")), 1);
    let late: Timestamp = "2026-03-02T09:00:09Z".parse().unwrap();
    assert_eq!(count(any().since(late).agent("main")), 2);
    let stats = read.stats(&TimeZone::UTC);
    assert_eq!(
        stats.total.usage,
        Usage {
            input: 40,
            output: 20,
            ..Usage::default()
        }
    );
    assert_eq!(stats.total.messages, 9);
    let plain = stage.annals(&["show", "e8d9", "--kind", "text"]).fine();
    assert!(!plain.out.contains("Tool Results"), "{plain}");
    let stage = Stage::empty();
    let store = Store::new(vec![Root::claude_code(&stage.root)]);
    for (second, name) in ["b", "c", "a"].into_iter().enumerate() {
        let time: Timestamp = format!("2026-03-02T09:00:0{second}Z").parse().unwrap();
        let draft = Draft::user(name).with_time(time);
        create(&store, name).append(draft).unwrap();
    }
    let rows = stage.annals(&["sessions", "--json"]).json();
    let ids: Vec<&Value> = rows["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["id"])
        .collect();
    assert_eq!(ids, ["a", "c", "b"]);
}

/// Requirements: 001.83
#[test]
fn a_fork_has_the_messages_up_to_one_and_the_id_of_the_caller() {
    let stage = Stage::with_fixture("agentpool-session");
    let id = "11111111-2222-4333-8444-555555555555";
    stage.annals(&["fork", "e8d9@b", "--id", id]).fine();
    let store = Store::new(vec![Root::claude_code(&stage.root)]);
    let fork = store.session(id).unwrap();
    let said: Vec<String> = fork
        .messages(&MessageFilter::default())
        .unwrap()
        .iter()
        .map(text)
        .collect();
    assert_eq!(said.len(), 2);
    assert!(said[0].contains("User Message 1") && said[1].contains("Assistant Reply"));
}

/// Requirements: 001.91, 001.92
#[test]
fn sessions_are_written_in_parallel_and_each_by_one_writer_at_a_time() {
    let (_dir, store) = fresh();
    let writers = ["one", "two"].map(|name| create(&store, name));
    std::thread::scope(|scope| {
        for writer in &writers {
            for number in 0..2 {
                scope.spawn(move || {
                    for at in 0..5 {
                        writer
                            .append(Draft::user(format!("{number} {at}")))
                            .unwrap();
                    }
                });
            }
        }
    });
    for name in ["one", "two"] {
        let read = store.session(name).unwrap();
        assert_eq!(read.tree().unwrap().conversations.len(), 1);
        assert_eq!(read.messages(&MessageFilter::default()).unwrap().len(), 10);
    }
}

/// Requirements: 001.94, 001.95, 001.108, 001.109, 001.113, 001.116, 001.117
#[test]
fn clean_up_is_the_users_and_archives_are_compressed_and_read() {
    let stage = Stage::with_fixture("empty-file");
    let before = stage.tree();
    let rows = stage.annals(&["sessions", "--json"]).json();
    assert!(
        rows["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["bytes"] == 0)
    );
    stage.annals(&["clean"]);
    assert_eq!(stage.tree(), before, "nothing is deleted unasked");
    let stage = Stage::with_fixture("agentpool-session");
    stage.annals(&["archive", "e8d9", "--apply"]).fine();
    let log = format!("{SESSION}.jsonl");
    assert!(!stage.tree().keys().any(|path| path.ends_with(&log)));
    let hits = stage
        .annals(&["search", "Assistant Response", "--json"])
        .json();
    assert_eq!(hits["total"], 1);
    // The archive is a fraction of the log's size, and its end is read without unpacking it to disk.
    let stage = Stage::empty();
    let store = Store::new(vec![Root::claude_code(&stage.root)]);
    let prompts = (0..400).map(|n| Draft::user(format!("message {n} of a long conversation")));
    create(&store, SESSION)
        .append_all(prompts.collect())
        .unwrap();
    let bytes = fs::metadata(stage.log_path(SESSION)).unwrap().len();
    stage
        .annals(&["archive", SESSION, "--apply", "--live"])
        .fine();
    let is_stored = |path: &Path| path.extension().is_some_and(|it| it == "zst");
    let stored = stage.tree().into_iter().filter(|(path, _)| is_stored(path));
    let packed: u64 = stored.map(|(_, bytes)| bytes.len() as u64).sum();
    assert!(packed > 0 && packed * 4 < bytes, "{packed} of {bytes}");
    let last = stage.annals(&["show", SESSION, "--last", "1"]).fine();
    assert!(last.out.contains("message 399"), "{last}");
    let todos = Stage::with_fixture("todos");
    let found = todos.annals(&["check", "--json"]);
    assert!(found.out.contains("stray"), "{found}");
}

/// Requirements: 001.110, 001.115
#[test]
fn the_index_changes_no_answer_and_unknown_entries_are_kept() {
    for fixture in [
        "agentpool-session",
        "agentpool-entry-types",
        "free-session-names",
        "unknown-types",
    ] {
        let stage = Stage::with_fixture(fixture);
        for args in [
            &["sessions", "--json"][..],
            &["conversations", "--json"],
            &["cost", "--json"],
            &["sessions", "--json", "-p", PROJECT],
        ] {
            let cold = stage.annals(args);
            let warm = stage.annals(args);
            let without = stage.annals(&[args, &["--no-index"]].concat());
            assert_eq!(cold.out, warm.out, "{fixture} {args:?}");
            assert_eq!(cold.out, without.out, "{fixture} {args:?}");
        }
    }
    // Entries of unknown types are shown, and an append leaves them as they are.
    let stage = Stage::with_fixture("unknown-types");
    let store = Store::new(vec![Root::claude_code(&stage.root)]);
    let files = store.inventory().sessions[0].clone();
    let before = fs::read(files.main_path()).unwrap();
    let shown = stage
        .annals(&["show", files.id.as_str(), "--all", "--json"])
        .json();
    let lines = before
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    assert!(shown["entries"].as_array().unwrap().len() >= lines.count());
    let writer = store.open_writer(&files, WriteOptions::default()).unwrap();
    writer.append(Draft::user("Go on")).unwrap();
    assert!(fs::read(files.main_path()).unwrap().starts_with(&before));
}

/// Requirements: 001.111, 001.112
#[test]
fn the_log_is_written_before_what_is_derived_from_it() {
    let (_dir, store) = fresh();
    let writer = create(&store, SESSION);
    // A directory in place of the todo file makes the todos fail; the log is complete.
    let todos = store.roots()[0]
        .path
        .join(format!("todos/{SESSION}-agent-{SESSION}.json/x"));
    fs::create_dir_all(todos).unwrap();
    writer.append(Draft::user("Hello")).unwrap();
    assert!(writer.set_todos(&[Todo::pending("x")]).is_err());
    let read = store.session(SESSION).unwrap();
    assert_eq!(read.messages(&MessageFilter::default()).unwrap().len(), 1);
}

/// Requirements: 001.114
#[test]
fn what_annals_writes_of_its_own_has_a_format_version() {
    let stage = Stage::empty();
    stage
        .annals(&["new", "-m", "Hello", "--id", SESSION])
        .fine();
    let log = fs::read_to_string(stage.log_path(SESSION)).unwrap();
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(first["type"], "annals-session");
    assert_eq!(first["formatVersion"], 1);
    let rows = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(rows["sessions"][0]["format_version"], "1");
}

/// A log that is followed while it is written gives every entry once.
///
/// Requirements: 001.26, 001.93
#[test]
fn a_log_is_read_while_it_is_written() {
    let (_dir, store) = fresh();
    let writer = create(&store, "my session 1");
    let mut follower = Follower::new(&store, Selection::all(), FollowOptions::default()).unwrap();
    writer.append(Draft::user("Hello")).unwrap();
    let mut events = follower.by_ref().filter_map(|event| match event {
        Event::Entry(fresh) => Some((fresh.session.to_string(), text(&fresh.entry))),
        _ => None,
    });
    let reported = events.find(|(_, said)| !said.is_empty()).unwrap();
    assert_eq!(reported, ("my session 1".to_owned(), "Hello".to_owned()));
}

/// Ids whose file names would collide with those of another session or sub-agent.
///
/// Requirements: 001.20, 001.40
#[test]
fn ids_whose_files_would_be_anothers_are_refused() {
    let (_dir, store) = fresh();
    let new = NewSession::new(SessionId::new("agent-x").unwrap(), PROJECT);
    assert!(
        store
            .create(&store.roots()[0], &new, WriteOptions::default())
            .is_err()
    );
    let writer = create(&store, "my-agent-1");
    writer.append(Draft::user("Hello")).unwrap();
    writer.set_todos(&[Todo::pending("x")]).unwrap();
    assert_eq!(
        store.session("my-agent-1").unwrap().todos().unwrap().len(),
        1
    );
    let agent = AgentId::new("x-agent-y").unwrap();
    assert!(writer.spawn(&Spawn::new(agent, "Explore", "x")).is_err());
}

/// Requirements: 001.97
#[test]
fn the_provider_in_python_keeps_sessions_over_the_program() {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/tests/test_claude_provider.py");
    let run = std::process::Command::new("python3")
        .arg("-B")
        .arg(script)
        .env("ANNALS_PROGRAM", env!("CARGO_BIN_EXE_annals"))
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && !reported.contains("skipped"),
        "{reported}"
    );
}
