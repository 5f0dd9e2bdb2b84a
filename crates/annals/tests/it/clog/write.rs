//! Planned writes.

use super::*;

fn head() -> AppendState {
    let log = Artifact {
        session: SessionId::new(SESSION).ok(),
        ..Artifact::new(ArtifactKind::SessionLog)
    };
    AppendState::new(SessionId::new(SESSION).unwrap(), log)
}

fn begun() -> AppendState {
    let mut head = head();
    for (name, value) in [
        ("conversationId", "conv_1"),
        ("threadId", "Thread ABC"),
        ("channel", "web"),
        ("createdAt", "1774488740418"),
    ] {
        head.writer_state.insert(name.to_owned(), value.to_owned());
    }
    let notes = Artifact {
        kind: ArtifactKind::Notes,
        ..head.log.clone()
    };
    head.attachments.push(notes);
    head
}

fn plan(head: &AppendState, change: Change) -> EditPlan {
    try_plan(head, change).unwrap()
}

fn try_plan(head: &AppendState, change: Change) -> annals::Result<EditPlan> {
    let mut count = 0;
    let mut fresh = || {
        count += 1;
        format!("id-{count}")
    };
    let mut stamp = PlanContext {
        now: "2026-03-26T02:00:00Z".parse().unwrap(),
        limit: None,
        zone: TimeZone::UTC,
        new_id: &mut fresh,
    };
    Ok(Clog.writer().unwrap().plan(head, &change, &mut stamp)?)
}

/// Returns the lines written to each file.
fn files(plan: &EditPlan) -> Vec<(String, Vec<String>)> {
    let of = |edit: &Edit| match edit {
        Edit::Append { path, lines } => {
            let lines = lines
                .iter()
                .map(|line| String::from_utf8(line.clone()).unwrap());
            (path.to_str().unwrap().to_owned(), lines.collect())
        }
        Edit::Replace { path, bytes } => (
            path.to_str().unwrap().to_owned(),
            vec![String::from_utf8(bytes.clone()).unwrap()],
        ),
        other => panic!("{other:?}"),
    };
    plan.edits.iter().map(of).collect()
}

fn only_line(plan: &EditPlan) -> String {
    let mut files = files(plan);
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(files[0].1.len(), 1, "{files:?}");
    files.remove(0).1.remove(0)
}

fn place(file: &str) -> String {
    format!("conversations/conversation-{SESSION}/{file}")
}

#[test]
fn new_conversation_starts_with_two_headers() {
    let mut head = head();
    head.cwd = Some("/home/dev/w".to_owned());
    head.git_branch = Some("main".to_owned());
    let header = |kind: &str, annals: &str| {
        format!(
            r#"{{"type":"conversation-header","schemaVersion":1,"fileKind":"{kind}","conversationId":"conversation-{SESSION}","threadId":"thread_abc123","channel":"tui","title":"","createdAt":1774488740418,"updatedAt":1774490400000,"annals":{annals}}}"#
        )
    };
    assert_eq!(
        files(&plan(&head, Change::Begin)),
        [
            (
                place("chat.jsonl"),
                vec![header(
                    "chat",
                    r#"{"program":"annals","cwd":"/home/dev/w","branch":"main"}"#
                )]
            ),
            (
                place("notes.jsonl"),
                vec![header("notes", r#"{"program":"annals"}"#)]
            ),
        ]
    );
}

#[test]
fn written_messages_match_the_native_format() {
    let mut head = begun();
    let user = only_line(&plan(&head, Change::Append(vec![Draft::user("hi")])));
    assert_eq!(
        user,
        r#"{"type":"message","conversationId":"conv_1","threadId":"Thread ABC","messageId":"id-1","role":"user","channel":"web","content":"hi","createdAt":1774490400000,"annals":{"program":"annals"}}"#
    );
    head.leaf = Some(EntryId::new("m1"));
    head.last_message = head.leaf.clone();
    head.time = "2026-03-26T02:00:00.005Z".parse().ok();
    let answer = Draft::assistant(vec![
        thinking("list"),
        call("c1", "ls", r#"{"n":1e5}"#),
        result("c1", vec![text("a")], false),
        result("c0", vec![], true),
        thinking("done"),
        text("There is one."),
    ])
    .with_id(EntryId::new("m2"));
    assert_eq!(
        only_line(&plan(&head, Change::Append(vec![answer]))),
        r#"{"type":"message","conversationId":"conv_1","threadId":"Thread ABC","messageId":"m2","role":"agent","channel":"web","content":"There is one.","createdAt":1774490400006,"thoughts":[{"stepNumber":1,"reasoning":"list","toolCalls":[{"toolCallId":"c1","toolName":"ls","args":{"n":1e5}}],"toolResults":[{"toolCallId":"c1","result":"a"},{"toolCallId":"c0","result":null,"isError":true}]},{"stepNumber":2,"reasoning":"done","toolCalls":[],"toolResults":[]}],"annals":{"program":"annals"}}"#
    );
    let answer = Draft::assistant(vec![thinking("hm"), text("yes")]);
    let line = only_line(&plan(&head, Change::Append(vec![answer])));
    assert!(line.contains(r#""content":"yes","createdAt":1774490400006,"reasoning":"hm","annals":{"program":"annals"}}"#), "{line}");
    let results = Draft::tool_result("c1", "out");
    let line = only_line(&plan(&head, Change::Append(vec![results])));
    assert!(
        line.contains(r#""role":"agent","channel":"web","content":"","createdAt""#),
        "{line}"
    );
}

#[test]
fn every_body_round_trips() {
    let image = Block::Image {
        media_type: "image/png".to_owned(),
        data: "iVBORw0KGgo=".to_owned(),
    };
    let sealed = Block::Thinking {
        text: "hm".to_owned(),
        signature: Some("sig==".to_owned()),
    };
    let opaque = Block::Opaque {
        kind: "server_tool_use".to_owned(),
        json: r#"{"type":"server_tool_use","id":"x"}"#.to_owned(),
    };
    let shapes = [
        vec![],
        vec![text("")],
        vec![text(" ")],
        vec![text("a"), text("b")],
        vec![sealed.clone(), text("a")],
        vec![thinking("hm")],
        vec![thinking(""), text("a")],
        vec![text("a"), call("c", "ls", "{}"), text("b")],
        vec![call("c", "ls", "{\"a\":\n1}")],
        vec![result("c", vec![text("a"), image.clone()], true)],
        vec![
            result("c", vec![text("")], false),
            result("d", vec![], false),
        ],
        vec![result("c", vec![text("x")], false), text("more")],
        vec![result("c", vec![text("x")], false), thinking("so")],
        vec![image, text("x")],
        vec![opaque],
        vec![text("<command-name>x"), text("real")],
        vec![text("x\u{0}\u{1b}\u{2028}\u{fffd}\"\\/😀")],
    ];
    for role in [Role::User, Role::Assistant, Role::System] {
        for (at, blocks) in shapes.iter().enumerate() {
            for human in [false, true] {
                let mut message = Message::new(role, blocks.clone());
                message.human = human && role == Role::User;
                let draft = Draft::new(Body::Message(message.clone()));
                let line = only_line(&plan(&begun(), Change::Append(vec![draft])));
                let (entry, outline, flaws) = read(&line);
                assert_eq!(flaws, []);
                let Body::Message(mut back) = entry.body else {
                    panic!()
                };
                assert_eq!(back.human, outline.human, "{line}");
                // Blank text is not a person's message.
                if at <= 2 {
                    assert!(!back.human);
                    back.human = message.human;
                }
                // Only whitespace between JSON tokens may change.
                if let Some(Block::ToolUse { input, .. }) = back.blocks.first_mut() {
                    *input = input.replace(' ', "\n");
                }
                assert_eq!(back, message, "{line}");
            }
        }
    }
    let mut message = Message::new(Role::Assistant, vec![text("x")]);
    message.model = Some("m".to_owned());
    message.response = Some("r".to_owned());
    message.request = Some("q".to_owned());
    message.stop_reason = Some("end_turn".to_owned());
    message.stored = Some("/tmp/out".to_owned());
    message.usage = Some(Usage {
        input: 1,
        output: 2,
        cache_write_5m: 3,
        cache_write_1h: 4,
        cache_read: 5,
        web_searches: 6,
    });
    let mut meta = Message::new(Role::User, vec![text("y")]);
    meta.meta = true;
    meta.spawned = AgentId::new("a1").ok();
    let bodies = [
        Body::Message(message),
        Body::Message(meta),
        Body::Compaction {
            text: "shorter".to_owned(),
        },
        Body::System {
            subtype: "warning".to_owned(),
            text: "slow".to_owned(),
        },
        Body::Agent {
            kind: Some("Explore".to_owned()),
            description: Some("Looks".to_owned()),
            call: None,
        },
    ];
    for body in bodies {
        let mut draft = Draft::new(body.clone());
        draft.sidechain = true;
        draft.agent = AgentId::new("a2").ok();
        let line = only_line(&plan(&begun(), Change::Append(vec![draft])));
        let (entry, ..) = read(&line);
        assert_eq!(entry.body, body, "{line}");
        assert_eq!(entry.program.as_deref(), Some("annals"));
        if !matches!(body, Body::Agent { .. }) {
            assert!(entry.sidechain, "{line}");
            assert_eq!(entry.agent, AgentId::new("a2").ok());
        }
    }
}

#[test]
fn parent_is_written_only_if_it_is_not_the_message_before() {
    let id = |text: &str| Some(EntryId::new(text));
    let mut head = begun();
    head.leaf = id("a");
    head.last_message = id("b");
    let system = Draft::new(Body::System {
        subtype: String::new(),
        text: "note".to_owned(),
    });
    let drafts = vec![
        Draft::user("from a"),
        Draft::user("plain"),
        system,
        Draft::user("from the system's line"),
        Draft::user("branch").with_parent(EntryId::new("z")),
    ];
    let written = plan(&head, Change::Append(drafts));
    let parents: Vec<Option<EntryId>> = files(&written)[0]
        .1
        .iter()
        .map(|line| read(line).0.parent)
        .collect();
    assert_eq!(parents, [id("a"), None, None, None, id("z")]);
    assert_eq!(written.leaf, id("id-5"));
    assert_eq!(written.added.len(), 5);
    // Without a leaf the message has no parent, although the file has messages.
    head.leaf = None;
    let line = only_line(&plan(&head, Change::Append(vec![Draft::user("root")])));
    assert!(line.contains(r#""annals":{"parent":null,"#), "{line}");
}

#[test]
fn an_empty_log_gets_its_header_first() {
    let written = plan(
        &head(),
        Change::Append(vec![Draft::user("a"), Draft::user("b")]),
    );
    let lines = &files(&written)[0].1;
    assert_eq!(lines.len(), 3);
    assert_eq!(read_at(&lines[0], 0).2, []);
    // The notes log is always created.
    let (path, lines) = &files(&written)[1];
    assert_eq!((path, lines.len()), (&place("notes.jsonl"), 1));
    assert!(lines[0].contains(r#""fileKind":"notes""#));
}

#[test]
fn titles_and_notes_go_to_the_notes_log() {
    let head = begun();
    let title = |source| {
        Change::Append(vec![Draft::new(Body::Title {
            text: " New title ".to_owned(),
            source,
        })])
    };
    let written = plan(&head, title(TitleSource::Custom));
    assert_eq!(
        files(&written),
        [(
            place("notes.jsonl"),
            vec![r#"{"type":"title","id":"id-1","createdAt":1774490400000,"title":"New title","source":"custom"}"#.to_owned()]
        )]
    );
    assert_eq!(written.leaf, None);
    let mut note = Draft::note("remember");
    note.id = Some(EntryId::new("n1"));
    let expected = (
        place("notes.jsonl"),
        vec![
            r#"{"type":"note","id":"n1","createdAt":1774490400000,"content":"remember"}"#
                .to_owned(),
        ],
    );
    assert_eq!(
        files(&plan(&head, Change::Append(vec![note.clone()]))),
        [expected]
    );
    assert_eq!(
        files(&plan(&head, title(TitleSource::Ai)))[0].0,
        place("notes.jsonl")
    );
    // A missing notes log is created with its header.
    let mut bare = begun();
    bare.attachments.clear();
    let lines = &files(&plan(&bare, Change::Append(vec![note])))[0].1;
    assert_eq!(lines.len(), 2);
    assert!(lines[0].contains(r#""fileKind":"notes""#));
    for (text, source) in [("  ", TitleSource::Custom), ("x", TitleSource::Prompt)] {
        let text = text.to_owned();
        let draft = Draft::new(Body::Title { text, source });
        assert!(try_plan(&head, Change::Append(vec![draft])).is_err());
    }
    let settings = Draft::new(Body::Settings { keep_days: None });
    assert!(try_plan(&head, Change::Append(vec![settings])).is_err());
}

#[test]
fn sub_agents_and_todos_have_their_own_paths() {
    let agent = AgentId::new("a1").unwrap();
    let spawn = Spawn::new(agent.clone(), "Explore", "Finds it").call("toolu_t");
    let written = files(&plan(&begun(), Change::Spawn(spawn)));
    let folder = format!("conversations/conversation-{SESSION}--agent-a1");
    assert_eq!(written[0].0, format!("{folder}/chat.jsonl"));
    assert_eq!(written[1].0, format!("{folder}/notes.jsonl"));
    assert!(written[0].1[0].contains(r#""conversationId":"conv_1--agent-a1""#));
    let (entry, outline, _) = read(&written[0].1[1]);
    assert!(matches!(entry.body, Body::Agent { kind: Some(kind), .. } if kind == "Explore"));
    let purpose = |fact: &Fact| matches!(fact, Fact::Purpose(purpose) if purpose.call.is_some());
    assert!(outline.facts.iter().any(purpose));
    let todos = files(&plan(&begun(), Change::SetTodos(vec![Todo::pending("x")])));
    assert_eq!(todos[0].0, place("todos.json"));
    let mut head = begun();
    head.agent = Some(agent);
    let todos = files(&plan(&head, Change::SetTodos(vec![])));
    assert_eq!(
        todos,
        [(format!("{folder}/todos.json"), vec!["[]".to_owned()])]
    );
}

#[test]
fn fork_preserves_the_bytes_of_a_record_except_ids() {
    let from = SessionId::new(SESSION).unwrap();
    let to = SessionId::new("2026-03-27T00-00-00-000Z-other").unwrap();
    let id = EntryId::new("m1");
    let copy = |line: &str, parent: ForkParent<'_>, time: Option<Timestamp>| {
        let graft = ForkEdit {
            from: &from,
            to: &to,
            requested_id: &to,
            previous: None,
            id: &id,
            parent,
            time,
        };
        let bytes = Clog.copy_record(line.as_bytes(), &graft).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let plain = r#"{"type":"message", "threadId":"t","conversationId":"c","messageId":"m1","content":"caf\u00e9","n":1e5,"createdAt":5}"#;
    let origin =
        format!(r#""forkedFrom":{{"conversationId":"conversation-{SESSION}","messageId":"m1"}}"#);
    assert_eq!(
        copy(plain, ForkParent::Entry(&EntryId::new("p")), None),
        format!(
            r#"{{"type":"message", "threadId":"other","conversationId":"conversation-{to}","messageId":"m1","content":"caf\u00e9","n":1e5,"createdAt":5,{origin}}}"#
        )
    );
    let time: Timestamp = "2026-03-26T02:00:00Z".parse().unwrap();
    assert!(copy(plain, ForkParent::None, Some(time)).contains(r#""createdAt":1774490400000"#));
    // An explicit parent is rewritten.
    let linked = r#"{"type":"message","messageId":"m1","annals":{"parent":"x", "n":1e5,"sidechain":true,"agent":"a"}}"#;
    for (parent, says) in [
        (
            ForkParent::Keep,
            r#"{"parent":"x", "n":1e5,"sidechain":false,"agent":null}"#,
        ),
        (
            ForkParent::None,
            r#"{"parent":null, "n":1e5,"sidechain":false,"agent":null}"#,
        ),
        (
            ForkParent::Entry(&EntryId::new("p")),
            r#"{"parent":"p", "n":1e5,"sidechain":false,"agent":null}"#,
        ),
    ] {
        let copied = copy(linked, parent, None);
        assert!(copied.contains(&format!("\"annals\":{says}")), "{copied}");
    }
    // An id derived from the offset becomes an explicit one.
    let copied = copy(
        r#"{"type":"message","content":"x"}"#,
        ForkParent::None,
        None,
    );
    assert_eq!(read(&copied).0.id, Some(EntryId::new("m1")));
    assert!(read(&copied).0.copied);
}

#[test]
fn session_id_is_made_of_time_and_thread() {
    let mut fresh = || String::new();
    let mut stamp = PlanContext {
        now: "2026-03-26T01:32:20.418Z".parse().unwrap(),
        limit: None,
        zone: TimeZone::fixed(jiff::tz::offset(5)),
        new_id: &mut fresh,
    };
    let new = NewSession::new(SessionId::new("Thread_ABC123").unwrap(), "/w");
    let log = Clog.new_session_log(&new, &mut stamp).unwrap();
    assert_eq!(log.session, SessionId::new(SESSION).ok());
    assert_eq!(
        Clog.path_for(&log).to_str(),
        Some(place("chat.jsonl").as_str())
    );
}

/// The store keeps exact thread names, separate folders, and one header per file.
#[test]
fn threads_that_differ_in_case_are_two_conversations() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("clog", dir.path()).unwrap();
    let store = Store::new(vec![root.clone()]);
    let options = WriteOptions {
        now: "2026-03-26T01:32:20.418Z".parse().ok(),
        ..QUICK
    };
    let mut made = Vec::new();
    for thread in ["Thread_X", "thread_x", "THREAD_X"] {
        let new = NewSession::new(SessionId::new(thread).unwrap(), "/w");
        let writer = store.create(&root, &new, options).unwrap();
        writer.append(Draft::user("hi")).unwrap();
        writer.append(Draft::note("first")).unwrap();
        writer.append(Draft::note("second")).unwrap();
        writer.retitle("Named").unwrap();
        let folder = writer.path().parent().unwrap().to_owned();
        let chat = std::fs::read_to_string(writer.path()).unwrap();
        let notes = std::fs::read_to_string(folder.join("notes.jsonl")).unwrap();
        for (line, text) in chat.lines().enumerate() {
            assert!(
                text.contains(&format!(r#""threadId":"{thread}""#)),
                "{line} {text}"
            );
        }
        assert_eq!((chat.lines().count(), notes.lines().count()), (2, 4));
        // A reopened writer writes the same.
        let files = store.inventory().sessions;
        let files = files.iter().find(|files| files.id == writer.session());
        drop(writer);
        let writer = store.open_writer(files.unwrap(), QUICK).unwrap();
        writer.append(Draft::note("third")).unwrap();
        let entry = writer.append(Draft::user("more")).unwrap();
        assert!(entry.parent.is_some());
        let chat = std::fs::read_to_string(writer.path()).unwrap();
        assert!(
            chat.lines()
                .all(|text| text.contains(&format!(r#""threadId":"{thread}""#)))
        );
        made.push(writer.session().to_string());
    }
    assert_eq!(
        made,
        [418, 419, 420].map(|ms| format!("2026-03-26T01-32-20-{ms}Z-thread_x"))
    );
    let flaws: usize = store
        .inventory()
        .sessions
        .into_iter()
        .map(|files| Session::read(files).unwrap().flaws().count())
        .sum();
    assert_eq!(flaws, 0);
}
