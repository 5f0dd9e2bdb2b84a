//! Append, then read: the draft is read back, and the log continues where its program would.

use super::*;
use annals::layout::{NewSession, Spawn};
use annals::model::{Block, Draft, Message, TitleSource, Todo, TodoStatus, Usage};
use annals::store::SessionWriter;

fn writable() -> Vec<&'static dyn Layout> {
    let layouts = LAYOUTS.iter().copied();
    layouts.filter(|layout| layout.writer().is_some()).collect()
}

fn begin(layout: &dyn Layout) -> (tempfile::TempDir, Store, SessionWriter) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(layout.name(), dir.path().join("root")).unwrap();
    let store = Store::new(vec![root.clone()]);
    let id = SessionId::new("aaaaaaaa-0000-4000-8000-000000000000").unwrap();
    let new = NewSession::new(id, "/home/dev/new").git_branch("main");
    let writer = store.create(&root, &new, QUICK).unwrap();
    (dir, store, writer)
}

fn read(store: &Store) -> Session {
    Session::read(store.inventory().sessions.remove(0)).unwrap()
}

fn call(id: &str, input: &str) -> Block {
    Block::ToolUse {
        id: id.to_owned(),
        name: "Bash".to_owned(),
        input: input.to_owned(),
    }
}

fn result(call: &str, output: Vec<Block>, is_error: bool) -> Block {
    Block::ToolResult {
        call: call.to_owned(),
        output,
        is_error,
    }
}

fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

/// Returns messages of every shape, with texts that are hard to encode.
fn drafts() -> Vec<Draft> {
    let image = Block::Image {
        media_type: "image/png".to_owned(),
        data: "iVBORw0KGgo=".to_owned(),
    };
    let user = |blocks| Draft::new(Body::Message(Message::new(Role::User, blocks)));
    let usage = Usage {
        input: 1,
        output: 2,
        cache_write_5m: 3,
        cache_write_1h: 4,
        cache_read: 5,
        web_searches: 6,
    };
    let thinking = |signature: &str| Block::Thinking {
        text: "hm".to_owned(),
        signature: Some(signature.to_owned()),
    };
    vec![
        Draft::user("plain"),
        Draft::user("line\nbreak\r\n\ttab \u{0} \u{1b}[31m \u{2028} \"quote\" \\ / é 😀 \u{fffd}"),
        Draft::user(" "),
        Draft::user("x".repeat(100_000)),
        Draft::assistant(vec![text("answer")])
            .model("claude-test")
            .usage(usage),
        Draft::assistant(vec![
            thinking("sig=="),
            text("before"),
            call(
                "toolu_1",
                r#"{"command":"ls","n":1e5,"u":"\u00e9\/","n":2}"#,
            ),
            call("toolu_2", "{}"),
            text("after"),
        ])
        .model("claude-test"),
        user(vec![
            result("toolu_1", vec![text("out")], false),
            result("toolu_2", vec![text("bad")], true),
        ]),
        user(vec![result(
            "toolu_3",
            vec![text("a"), image.clone()],
            false,
        )]),
        user(vec![result("toolu_4", vec![], false)]),
        user(vec![text("look"), image.clone(), text("at this")]),
        Draft::assistant(vec![
            thinking(""),
            Block::Opaque {
                kind: "server_tool_use".to_owned(),
                json: r#"{"type":"server_tool_use","id":"x"}"#.to_owned(),
            },
        ]),
    ]
}

fn blocks_of(body: &Body) -> Vec<Block> {
    match body {
        Body::Message(message) => message.blocks.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_message_round_trips() {
    for layout in writable() {
        let (_dir, store, writer) = begin(layout);
        let mut reported: Vec<Entry> = Vec::new();
        for draft in drafts() {
            reported.extend(writer.append_all(vec![draft]).unwrap());
        }
        let session = read(&store);
        assert_eq!(session.flaws().count(), 0);
        let (_, _, tree) = session.main_log().unwrap();
        assert_eq!(tree.conversations.len(), 1);
        let found = session.messages(&Default::default()).unwrap();
        // The entries that an append returns are those that a reader finds.
        let mut reported: Vec<Entry> = reported
            .into_iter()
            .filter(|entry| matches!(entry.body, Body::Message(_)))
            .collect();
        for (reported, found) in reported.iter_mut().zip(&found) {
            reported.span.line = found.span.line;
        }
        assert_eq!(reported, found);
        // A reply may become several entries, but has all its blocks, once and in order.
        let mut left = found.iter().peekable();
        for draft in drafts() {
            let wanted = blocks_of(&draft.body);
            let mut got = Vec::new();
            let mut spent = Usage::default();
            while got.len() < wanted.len() {
                let entry = left.next().unwrap();
                let (Body::Message(entry), Body::Message(draft)) = (&entry.body, &draft.body)
                else {
                    panic!()
                };
                assert_eq!(entry.role, draft.role);
                // Blank text is not a person's message.
                let blank = wanted == [text(" ")];
                assert!(!draft.human || entry.human != blank);
                // One of its entries may hold the tokens for all of them.
                spent.max_each(&entry.usage.unwrap_or_default());
                if draft.model.is_some() {
                    assert_eq!(entry.model, draft.model);
                }
                got.extend(entry.blocks.clone());
            }
            assert_eq!(got, wanted);
            if let Body::Message(draft) = &draft.body {
                assert_eq!(spent, draft.usage.unwrap_or_default());
            }
        }
        assert!(left.next().is_none());
        // Tokens of a reply on several lines count once.
        assert_eq!(session.info(None).usage.output, 2);
    }
}

#[test]
fn titles_tags_notes_and_todos_round_trip() {
    for layout in writable() {
        let (_dir, store, writer) = begin(layout);
        writer.append(Draft::user("ask")).unwrap();
        let answer = writer.append(Draft::assistant(vec![text("say")])).unwrap();
        writer.retitle("  A title\nof two lines ").unwrap();
        writer.tag("important").unwrap();
        let note = writer.append(Draft::note("remember\nthis")).unwrap();
        assert_eq!(
            note.body,
            Body::Note {
                author: None,
                text: "remember\nthis".to_owned()
            }
        );
        let todos = [
            Todo::pending("first"),
            Todo {
                status: TodoStatus::Completed,
                active_form: Some("Doing".to_owned()),
                ..Todo::pending("second 😀")
            },
        ];
        writer.set_todos(&[Todo::pending("replaced")]).unwrap();
        writer.set_todos(&todos).unwrap();
        let session = read(&store);
        assert_eq!(session.title().unwrap().text, "A title of two lines");
        assert_eq!(session.title().unwrap().source, TitleSource::Custom);
        assert_eq!(session.tag().as_deref(), Some("important"));
        assert_eq!(
            session.todos().unwrap(),
            [(session.files.id.to_string(), todos.to_vec())]
        );
        writer.tag("").unwrap();
        assert_eq!(read(&store).tag(), None);
        // None of these moved the leaf.
        assert_eq!(writer.leaf(), answer.id);
        let last = session.last_messages(1).unwrap();
        assert_eq!(last[0].id, answer.id);
        for empty in ["", "  \n"] {
            assert!(writer.retitle(empty).is_err());
        }
    }
}

#[test]
fn a_compaction_continues_the_conversation() {
    for layout in writable() {
        let (_dir, store, writer) = begin(layout);
        assert!(writer.compact("nothing yet", None).is_err());
        writer.append(Draft::user("one")).unwrap();
        writer.append(Draft::assistant(vec![text("two")])).unwrap();
        let written = writer.compact("what was said", Some(1_000)).unwrap();
        assert_eq!(written.len(), 2);
        assert!(matches!(written[0].body, Body::Compaction { .. }));
        writer.append(Draft::user("three")).unwrap();
        let session = read(&store);
        assert_eq!(
            crate::support::conversations(&session),
            [["one", "two", "what was said", "three"]]
        );
        assert_eq!(session.flaws().count(), 0);
        assert_eq!(session.title().unwrap().text, "one");
    }
}

#[test]
fn spawned_agent_is_linked_to_its_call() {
    for layout in writable() {
        let (_dir, store, writer) = begin(layout);
        writer.append(Draft::user("delegate")).unwrap();
        let task = Block::ToolUse {
            id: "toolu_t".to_owned(),
            name: "Task".to_owned(),
            input: r#"{"prompt":"find it"}"#.to_owned(),
        };
        writer.append(Draft::assistant(vec![task])).unwrap();
        let id = AgentId::new("a0123456789abcdef").unwrap();
        let spawn = Spawn::new(id, "Explore", "Finds it").call("toolu_t");
        let agent = writer.spawn(&spawn).unwrap();
        agent.append(Draft::user("find it")).unwrap();
        agent.append(Draft::assistant(vec![text("found")])).unwrap();
        assert!(writer.spawn(&spawn).is_err(), "it is there already");
        let mut done = Message::new(
            Role::User,
            vec![result("toolu_t", vec![text("found")], false)],
        );
        done.spawned = Some(spawn.agent.clone());
        let back = writer.append(Draft::new(Body::Message(done))).unwrap();
        assert!(
            matches!(&back.body, Body::Message(message) if message.spawned.as_ref() == Some(&spawn.agent))
        );
        let session = read(&store);
        assert_eq!(session.agents.len(), 1);
        let read_back = &session.agents[0];
        assert_eq!(read_back.id.as_ref(), Some(&spawn.agent));
        assert_eq!(read_back.kind.as_deref(), Some("Explore"));
        assert_eq!(read_back.description.as_deref(), Some("Finds it"));
        assert_eq!(read_back.messages, 2);
        assert_eq!(read_back.call.unwrap().key, EntryKey::from_text("toolu_t"));
        assert_eq!(session.tree().unwrap().conversations.len(), 1);
        assert_eq!(session.trees[1].conversations.len(), 1);
        assert_eq!(session.flaws().count(), 0);
    }
}

/// Whatever is in a log, a new entry continues where its program would.
#[test]
fn appended_entry_is_the_new_leaf_and_changes_nothing_else() {
    let mut extended = 0;
    for case in cases()
        .into_iter()
        .filter(|case| case.layout.writer().is_some() && !case.is_closed())
    {
        let copy = case.copy();
        for files in copy
            .sessions()
            .into_iter()
            .filter(|files| files.log.is_some() && !case.is_closed_session(files))
        {
            let before = Session::read(files.clone()).unwrap();
            let (old, resumed) = paths(&before);
            let flaws = |session: &Session| -> Vec<String> {
                let mut kinds: Vec<String> = session
                    .flaws()
                    .map(|(_, flaw)| format!("{:?} {}", flaw.kind, flaw.span.offset))
                    .collect();
                kinds.sort();
                kinds
            };
            let writer = copy.store().open_writer(&files, QUICK).unwrap();
            let asked = writer.append(Draft::user("and now?")).unwrap();
            let answered = writer
                .append(Draft::assistant(vec![
                    text("now this"),
                    call("toolu_x", "{}"),
                ]))
                .unwrap();
            let after = copy.again(&files);
            let place = || format!("{} {}", case.name, before.files.main_path().display());
            let (new, now) = paths(&after);
            let now = &new[now.unwrap_or_else(|| panic!("{}: nothing to resume", place()))];
            let id = |entry: &Entry| entry.id.as_ref().unwrap().to_string();
            assert_eq!(now.last(), Some(&id(&answered)), "{}", place());
            assert!(now.contains(&id(&asked)), "{}", place());
            // The resumed conversation has grown, the others are unchanged.
            let others =
                |paths: &[Vec<String>], but: Option<&Vec<String>>| -> BTreeSet<Vec<String>> {
                    paths
                        .iter()
                        .filter(|path| Some(*path) != but)
                        .cloned()
                        .collect()
                };
            let grown = resumed.map(|at| &old[at]);
            if grown.is_some_and(|grown| new.contains(grown)) {
                // The client resumes within the conversation, and so does annals: the result is a
                // branch.
                assert_eq!(case.name, "duplicate-uuid", "{}", place());
                assert_eq!(others(&new, Some(now)), others(&old, None));
                continue;
            }
            assert_eq!(others(&new, Some(now)), others(&old, grown), "{}", place());
            if let Some(grown) = grown {
                assert_eq!(now[..grown.len()], grown[..], "{}", place());
                extended += 1;
            }
            // A torn tail became its own line; nothing else changed.
            let torn = |list: Vec<String>| -> Vec<String> {
                list.into_iter()
                    .filter(|flaw| !flaw.starts_with("TornTail") && !flaw.starts_with("BadJson"))
                    .collect()
            };
            assert_eq!(torn(flaws(&after)), torn(flaws(&before)), "{}", place());
        }
    }
    assert!(extended > 120, "{extended}");
}
