//! The Chorus layout, beyond the laws of all layouts.

use std::fs;
use std::path::{Path, PathBuf};

use annals::jsonl::Scanner;
use annals::layout::chorus::{Config, ConfigEdit};
use annals::layout::{
    AppendState, Change, Chorus, Decoded, Edit, EditPlan, ForkEdit, ForkParent, Layout, NewSession,
    PlanContext, Record, Spawn, Writer,
};
use annals::model::{
    AgentId, Artifact, Block, Body, Draft, Entry, EntryId, FlawKind, ListSubject, Message, Role,
    SessionId, Span, TitleSource, Todo, Usage,
};
use jiff::Timestamp;

use crate::support::fixtures;

mod config;
mod index;
mod store;

const LOG: &str = "sessions/w/a/c1-messages.jsonl";

fn artifact(path: &str) -> Artifact {
    Chorus.classify(Path::new(path)).expect(path)
}

fn record(bytes: &[u8]) -> Record<'_> {
    Record {
        span: Span {
            offset: 0,
            len: bytes.len() as u64,
            line: 1,
        },
        bytes,
        terminated: true,
        oversize: false,
    }
}

/// Decodes one line or document.
fn decode(path: &str, bytes: &[u8]) -> Decoded<Entry> {
    let mut sink = Decoded::default();
    let artifact = artifact(path);
    Chorus.decoder(&artifact).decode(&record(bytes), &mut sink);
    sink
}

fn only(path: &str, bytes: &[u8]) -> Entry {
    let mut sink = decode(path, bytes);
    assert_eq!(sink.flaws, []);
    assert_eq!(sink.items.len(), 1);
    sink.items.remove(0)
}

fn now() -> Timestamp {
    "2026-03-02T09:00:00Z".parse().unwrap()
}

/// Runs `work` with ids that count up.
fn stamped<T>(work: impl FnOnce(&mut PlanContext<'_>) -> T) -> T {
    let mut count = 0;
    let mut fresh = || {
        count += 1;
        format!("{count:08x}-0000-4000-8000-000000000000")
    };
    work(&mut PlanContext {
        now: now(),
        limit: None,
        zone: jiff::tz::TimeZone::UTC,
        new_id: &mut fresh,
    })
}

fn head() -> AppendState {
    AppendState::new(SessionId::new("c1").unwrap(), artifact(LOG))
}

fn plan(head: &AppendState, change: &Change) -> EditPlan {
    stamped(|stamp| Chorus.plan(head, change, stamp)).unwrap()
}

/// Returns the lines that a change appends to a file.
fn lines(plan: &EditPlan, to: &str) -> Vec<String> {
    let found = plan.edits.iter().filter_map(|edit| match edit {
        Edit::Append { path, lines } if path == Path::new(to) => Some(lines),
        _ => None,
    });
    let text = |line: &Vec<u8>| String::from_utf8(line.clone()).unwrap();
    found.flatten().map(text).collect()
}

fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

fn call(id: &str, name: &str, input: &str) -> Block {
    Block::ToolUse {
        id: id.to_owned(),
        name: name.to_owned(),
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

fn draft(role: Role, blocks: Vec<Block>) -> Draft {
    Draft::new(Body::Message(Message::new(role, blocks)))
}

/// Describes every line of a fixture's only log.
fn reported(case: &str) -> Vec<String> {
    let folder = fixtures()
        .join("chorus")
        .join(case)
        .join("sessions/w-app/a-main");
    let mut logs: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with("-messages.jsonl"))
        .collect();
    logs.sort();
    let bytes = fs::read(&logs[0]).unwrap();
    let mut scanner = Scanner::new(bytes.as_slice());
    let mut reported = Vec::new();
    while let Some(line) = scanner.next().unwrap() {
        let sink = decode(LOG, line.bytes);
        reported.extend(sink.items.iter().map(said));
    }
    reported
}

fn said(entry: &Entry) -> String {
    let block = |block: &Block| match block {
        Block::Text(text) => format!("{text:?}"),
        Block::Thinking { text, .. } => format!("thinks {text}"),
        Block::ToolUse { id, name, input } => {
            let id = if id.len() > 30 { "its own id" } else { id };
            format!("calls {name} {input} as {id}")
        }
        Block::ToolResult {
            call,
            output,
            is_error,
        } => {
            let error = if *is_error { " failed" } else { "" };
            format!("result of {call:?}{error}: {} parts", output.len())
        }
        Block::Image { media_type, .. } => format!("image {media_type}"),
        other => other.kind().to_owned(),
    };
    match &entry.body {
        Body::Message(message) => {
            let human = if message.human { " human" } else { "" };
            let blocks: Vec<String> = message.blocks.iter().map(block).collect();
            format!("{}{human}: {}", message.role.as_str(), blocks.join(", "))
        }
        Body::System { subtype, text } => format!("noted {subtype}: {text}"),
        Body::Opaque { kind, .. } => format!("opaque {kind:?}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn every_record_type_is_decoded() {
    assert_eq!(
        reported("chorus-every-type"),
        [
            "user human: \"look at this\", image image/png",
            "assistant: thinks hm, \"I see\", calls Read {\"n\":1} as toolu_a",
            "user: result of \"toolu_a\": 2 parts",
            "assistant: calls Grep {\"pattern\":\"x\"} as its own id",
            "user: result of \"call:\" failed: 1 parts",
            "assistant: calls Glob {} as toolu_b",
            "user: result of \"toolu_b\": 1 parts",
            "assistant: calls Task {\"prompt\":\"find it\",\"subagent_type\":\"Explore\",\"description\":\"Finds it\"} as toolu_t",
            "noted error: API Error: overloaded",
            "noted research_progress: Searching…",
            "noted research_result: # Report",
            "system: \"Agent stopped by user\"",
            "noted brainstorm: {\"new\":true}",
            "opaque None",
            "assistant: \"done\"",
        ]
    );
}

#[test]
fn malformed_lines_are_decoded_as_far_as_possible() {
    assert_eq!(
        reported("chorus-odd-json"),
        [
            "user human: \"café / \u{fffd}\"",
            "assistant: \"spaced\"",
            "user human: \"bytes \u{fffd}\u{fffd}\"",
            "user human: \"no id\"",
            "assistant: \"no time\"",
            "user: opaque",
            "opaque None",
            "assistant: calls  \"text\" as odd-7",
            "assistant: opaque, opaque, \"\", opaque",
            "system: ",
            "user human: \"a lone surrogate as a name\"",
        ]
    );
}

#[test]
fn reply_usage_model_and_response_id_are_decoded() {
    let line = br#"{"uuid":"u","type":"assistant","content":"x","timestamp":"2026-03-02T09:00:00Z","claudeMessage":{"type":"assistant","message":{"id":"msg_1","model":"m","stop_reason":"end_turn"}},"inputTokens":1,"outputTokens":2,"cacheReadTokens":3,"cacheCreationTokens":4}"#;
    let Body::Message(message) = only(LOG, line).body else {
        panic!()
    };
    assert_eq!(message.model.as_deref(), Some("m"));
    assert_eq!(message.response.as_deref(), Some("msg_1"));
    assert_eq!(message.stop_reason.as_deref(), Some("end_turn"));
    let usage = Usage {
        input: 1,
        output: 2,
        cache_read: 3,
        cache_write_5m: 4,
        ..Usage::default()
    };
    assert_eq!(message.usage, Some(usage));
    // The line that ends a turn repeats its tokens; they are not counted again.
    let line = br#"{"uuid":"u","type":"system","content":"Turn completed","inputTokens":1}"#;
    let Body::Message(message) = only(LOG, line).body else {
        panic!()
    };
    assert_eq!(message.usage, None);
    let line = br#"{"uuid":"u","type":"assistant","content":"","inputTokens":-1,"outputTokens":2}"#;
    let sink = decode(LOG, line);
    assert_eq!(sink.flaws.len(), 1);
    assert_eq!(sink.flaws[0].kind, FlawKind::BadUsage);
    assert_eq!(sink.flaws[0].detail, "inputTokens is -1");
}

/// The original program reads these lines: they are its native format.
#[test]
fn written_lines_match_the_native_format() {
    let usage = Usage {
        input: 1,
        output: 2,
        cache_read: 3,
        cache_write_5m: 4,
        ..Usage::default()
    };
    let reply = draft(
        Role::Assistant,
        vec![
            text("I look."),
            call("toolu_1", "Bash", "{\"n\": 1e5,\n\"n\":2}"),
        ],
    )
    .model("m")
    .usage(usage);
    let answers = draft(
        Role::User,
        vec![
            result("toolu_1", vec![text("out")], false),
            result("toolu_2", vec![], true),
        ],
    );
    let mut head = head();
    head.cwd = Some("/w".to_owned());
    head.git_branch = Some("main".to_owned());
    let drafts = vec![Draft::user("ask"), reply, answers];
    let plan = plan(&head, &Change::Append(drafts));
    assert_eq!(
        lines(&plan, LOG),
        [
            r#"{"uuid":"00000001-0000-4000-8000-000000000000","type":"user","content":"ask","timestamp":"2026-03-02T09:00:00.000Z","annals":{"program":"annals","cwd":"/w","branch":"main"}}"#,
            r#"{"uuid":"00000003-0000-4000-8000-000000000000","type":"assistant","content":"I look.","timestamp":"2026-03-02T09:00:00.001Z","inputTokens":1,"outputTokens":2,"cacheReadTokens":3,"cacheCreationTokens":4,"annals":{"program":"annals","model":"m","response":"msg_00000002000040008000000000000000"}}"#,
            r#"{"uuid":"00000004-0000-4000-8000-000000000000","type":"tool_use","content":"Using tool: Bash","timestamp":"2026-03-02T09:00:00.002Z","toolName":"Bash","toolInput":{"n": 1e5, "n":2},"toolUseId":"toolu_1","annals":{"program":"annals","model":"m","response":"msg_00000002000040008000000000000000"}}"#,
            r#"{"uuid":"00000005-0000-4000-8000-000000000000","type":"tool_result","content":"out","timestamp":"2026-03-02T09:00:00.003Z","toolName":"Bash","toolUseId":"toolu_1","isToolError":false,"annals":{"program":"annals"}}"#,
            r#"{"uuid":"00000006-0000-4000-8000-000000000000","type":"tool_result","content":[],"timestamp":"2026-03-02T09:00:00.004Z","toolUseId":"toolu_2","isToolError":true,"annals":{"program":"annals"}}"#,
        ]
    );
    assert_eq!(plan.added.len(), 5);
    assert_eq!(plan.leaf.as_ref(), plan.added.last());
}

/// A draft is read back with every flag.
#[test]
fn every_body_round_trips() {
    let all = Usage {
        input: 1,
        output: 2,
        cache_write_5m: 3,
        cache_write_1h: 4,
        cache_read: 5,
        web_searches: 6,
    };
    let mut bodies = Vec::new();
    let mut add = |role, blocks, change: &dyn Fn(&mut Message)| {
        let mut message = Message::new(role, blocks);
        change(&mut message);
        bodies.push(Body::Message(message));
    };
    let image = Block::Image {
        media_type: "image/png".to_owned(),
        data: "AA==".to_owned(),
    };
    let thinking = |signature: Option<&str>| Block::Thinking {
        text: "hm".to_owned(),
        signature: signature.map(str::to_owned),
    };
    let opaque = Block::Opaque {
        kind: "server_tool_use".to_owned(),
        json: r#"{"type":"server_tool_use","id":"x"}"#.to_owned(),
    };
    add(Role::User, vec![text("typed")], &|m| m.human = true);
    add(Role::User, vec![text("not typed")], &|_| {});
    add(Role::User, vec![text("Caveat: typed")], &|m| m.human = true);
    add(Role::User, vec![image.clone()], &|m| m.human = true);
    add(Role::User, vec![text("a"), image.clone()], &|m| {
        m.meta = true
    });
    add(Role::User, vec![text("sum")], &|m| m.compact_summary = true);
    add(Role::User, vec![], &|_| {});
    add(Role::User, vec![call("", "odd", "null")], &|_| {});
    add(
        Role::User,
        vec![result("c", vec![text("a"), image.clone()], true)],
        &|m| {
            m.spawned = AgentId::new("a1").ok();
            m.stored = Some("/out.txt".to_owned());
        },
    );
    add(Role::Assistant, vec![thinking(None)], &|_| {});
    add(Role::Assistant, vec![thinking(Some("s")), opaque], &|m| {
        m.model = Some("m".to_owned());
        m.response = Some("msg".to_owned());
        m.request = Some("req".to_owned());
        m.stop_reason = Some("max_tokens".to_owned());
        m.usage = Some(all);
    });
    add(Role::Assistant, vec![text("free")], &|m| {
        m.usage = Some(Usage::default())
    });
    add(Role::Assistant, vec![call("", "Bash", "[1]")], &|_| {});
    add(
        Role::Assistant,
        vec![result("c", vec![text("x")], false)],
        &|_| {},
    );
    add(Role::System, vec![text("be kind")], &|_| {});
    add(Role::System, vec![text("a"), text("b")], &|_| {});
    bodies.push(Body::Compaction {
        text: "cut".to_owned(),
    });
    for subtype in ["error", "research_result", "api_error"] {
        bodies.push(Body::System {
            subtype: subtype.to_owned(),
            text: "it\nbroke".to_owned(),
        });
    }
    bodies.push(Body::Agent {
        kind: Some("Explore".to_owned()),
        description: None,
        call: Some("toolu".to_owned()),
    });
    for body in bodies {
        let plan = plan(&head(), &Change::Append(vec![Draft::new(body.clone())]));
        let lines = lines(&plan, LOG);
        assert_eq!(lines.len(), 1, "{body:?}");
        let entry = only(LOG, lines[0].as_bytes());
        assert_eq!(entry.body, body, "{}", lines[0]);
        assert_eq!(entry.id.as_ref(), plan.added.first());
        assert_eq!(entry.program.as_deref(), Some("annals"));
    }
}

#[test]
fn parent_is_written_only_if_it_is_not_the_record_before() {
    let id = |text: &str| EntryId::new(text);
    let annex = |leaf: Option<&str>, last: Option<&str>, parent: Option<&str>| {
        let mut head = head();
        head.leaf = leaf.map(EntryId::new);
        head.last_message = last.map(EntryId::new);
        let mut draft = Draft::user("x");
        draft.parent = parent.map(EntryId::new);
        let plan = plan(&head, &Change::Append(vec![draft, Draft::user("y")]));
        let lines = lines(&plan, LOG);
        assert!(!lines[1].contains("parent"), "{}", lines[1]);
        let (_, annex) = lines[0].split_once(r#""annals":"#).unwrap();
        annex.trim_end_matches('}').to_owned() + "}"
    };
    assert_eq!(annex(None, None, None), r#"{"program":"annals"}"#);
    assert_eq!(annex(Some("a"), Some("a"), None), r#"{"program":"annals"}"#);
    assert_eq!(
        annex(Some("a"), Some("b"), None),
        r#"{"parent":"a","program":"annals"}"#
    );
    assert_eq!(
        annex(Some("b"), Some("b"), Some("a")),
        r#"{"parent":"a","program":"annals"}"#
    );
    assert_eq!(
        annex(None, Some("b"), None),
        r#"{"parent":null,"program":"annals"}"#
    );
    // Messages of a sub-agent do not move the leaf of the conversation.
    let mut aside = Draft::user("aside");
    aside.sidechain = true;
    aside.agent = AgentId::new("a1").ok();
    let mut head = head();
    (head.leaf, head.last_message) = (Some(id("a")), Some(id("a")));
    let plan = plan(&head, &Change::Append(vec![aside, Draft::user("on")]));
    assert_eq!(plan.leaf.as_ref(), plan.added.get(1));
    let lines = lines(&plan, LOG);
    assert!(
        lines[0].ends_with(
            r#""annals":{"parent":"a","agent":"a1","sidechain":true,"program":"annals"}}"#
        )
    );
    assert!(lines[1].ends_with(r#""annals":{"program":"annals"}}"#));
    let entry = only(LOG, lines[0].as_bytes());
    assert!(entry.sidechain && entry.agent == AgentId::new("a1").ok());
}

#[test]
fn annotations_go_to_the_notes_log_and_titles_to_the_session_list() {
    let title = |source| {
        Draft::new(Body::Title {
            text: " A title ".to_owned(),
            source,
        })
    };
    let tag = Draft::new(Body::Tag {
        text: "t".to_owned(),
    });
    let drafts = vec![Draft::note("n"), tag, title(TitleSource::Custom)];
    let plan = plan(&head(), &Change::Append(drafts));
    assert_eq!(lines(&plan, "sessions/w/a/c1-notes.jsonl").len(), 2);
    assert_eq!(plan.edits.len(), 1);
    assert_eq!((plan.leaf, plan.title.as_deref()), (None, Some("A title")));
    // A title by a model must not hide one by a person, and the session list has one title.
    let plan = self::plan(&head(), &Change::Append(vec![title(TitleSource::Ai)]));
    assert_eq!(lines(&plan, "sessions/w/a/c1-notes.jsonl").len(), 1);
    assert_eq!(plan.title, None);
    let files = Draft::new(Body::Settings { keep_days: None });
    let refused = stamped(|stamp| Chorus.plan(&head(), &Change::Append(vec![files]), stamp));
    assert!(refused.is_err());
}

#[test]
fn paths_of_a_session_and_its_sub_agents() {
    let places = |head: &AppendState, change: &Change| -> Vec<String> {
        let place = |edit: &Edit| match edit {
            Edit::Append { path, .. } | Edit::Replace { path, .. } => {
                path.to_str().unwrap().to_owned()
            }
            other => panic!("{other:?}"),
        };
        plan(head, change).edits.iter().map(place).collect()
    };
    let main = head();
    let agent = AgentId::new("x1").unwrap();
    let log = Chorus.new_agent_log(&main, &agent).unwrap();
    let inner = AppendState::new(main.session.clone(), log);
    let todos = Change::SetTodos(vec![Todo::pending("do")]);
    let note = Change::Append(vec![Draft::note("n")]);
    assert_eq!(places(&main, &todos), ["sessions/w/a/c1-todos.json"]);
    assert_eq!(
        places(&inner, &todos),
        ["sessions/w/a/c1--agent-x1-todos.json"]
    );
    assert_eq!(
        places(&inner, &note),
        ["sessions/w/a/c1--agent-x1-notes.jsonl"]
    );
    let spawn = Spawn::new(agent, "Explore", "Finds it").call("toolu_t");
    let agent_log = "sessions/w/a/c1--agent-x1-messages.jsonl";
    let plan = plan(&main, &Change::Spawn(spawn));
    let lines = lines(&plan, agent_log);
    assert_eq!(
        lines,
        [
            r#"{"uuid":"00000001-0000-4000-8000-000000000000","type":"system","content":"Finds it","timestamp":"2026-03-02T09:00:00.000Z","annals":{"program":"annals","kind":"agent","subtype":"Explore","description":"Finds it","call":"toolu_t"}}"#
        ]
    );
    let entry = only(agent_log, lines[0].as_bytes());
    assert!(entry.sidechain);
    assert!(matches!(entry.body, Body::Agent { call: Some(call), .. } if call == "toolu_t"));
}

#[test]
fn new_session_is_placed_in_the_folder_of_its_directory() {
    let place = |new: &NewSession| -> annals::Result<String> {
        let log = stamped(|stamp| Chorus.new_session_log(new, stamp))?;
        Ok(Chorus.path_for(&log).to_str().unwrap().to_owned())
    };
    let id = || SessionId::new("c2").unwrap();
    let folder = Chorus.folder("/home/dev/app").unwrap();
    let own = format!("sessions/{folder}/c2-messages.jsonl");
    assert!(folder.starts_with("ws-") && folder.ends_with("/annals"));
    assert_eq!(place(&NewSession::new(id(), "/home/dev/app")).unwrap(), own);
    let known = NewSession::new(id(), "/home/dev/app").folder("w-app/a-main");
    assert_eq!(
        place(&known).unwrap(),
        "sessions/w-app/a-main/c2-messages.jsonl"
    );
    let mut beside = known.clone();
    beside.copied_from = Some(artifact(LOG));
    assert_eq!(place(&beside).unwrap(), "sessions/w/a/c2-messages.jsonl");
    for bad in ["../x/y", "a", "a/b/c", "", "a/..", "/etc/x"] {
        let bad = NewSession::new(id(), "/w").folder(bad);
        assert!(place(&bad).is_err(), "{bad:?}");
    }
    assert!(place(&NewSession::new(id(), "relative")).is_err());
    // This is the name of a sub-agent's log.
    let agent = SessionId::new("c2--agent-x").unwrap();
    let placed = place(&NewSession::new(agent, "/w")).unwrap();
    assert!(
        placed.ends_with("/annals/c2-agent-x-00000001-messages.jsonl"),
        "{placed}"
    );
}

#[test]
fn fork_preserves_the_bytes_of_a_record() {
    let (from, to) = (SessionId::new("c1").unwrap(), SessionId::new("c2").unwrap());
    let (id, parent) = (EntryId::new("u"), EntryId::new("p"));
    let copy = |record: &str, parent, time| {
        let graft = ForkEdit {
            from: &from,
            to: &to,
            requested_id: &to,
            previous: None,
            id: &id,
            parent,
            time,
        };
        String::from_utf8(Chorus.copy_record(record.as_bytes(), &graft).unwrap()).unwrap()
    };
    let origin = r#""forkedFrom":{"sessionId":"c1","messageUuid":"u"}"#;
    let plain = r#"{"uuid":"u", "n":1e5,"type":"user","content":"\u00e9\/","sessionId":"s"}"#;
    let marked = format!("{},{origin}}}", plain.trim_end_matches('}'));
    assert_eq!(copy(plain, ForkParent::Entry(&parent), None), marked);
    assert!(only(LOG, marked.as_bytes()).copied);
    let linked = r#"{"uuid":"u","type":"user","annals":{"parent":"old","x":1e5,"sidechain":true}}"#;
    assert_eq!(
        copy(linked, ForkParent::Entry(&parent), None),
        format!(
            r#"{{"uuid":"u","type":"user","annals":{{"parent":"p","x":1e5,"sidechain":false}},{origin}}}"#
        )
    );
    assert!(copy(linked, ForkParent::None, None).contains(r#""parent":null"#));
    assert!(copy(linked, ForkParent::Keep, None).contains(r#""parent":"old""#));
    // An id derived from the offset is written into the record, and so is a later time.
    let nameless = r#"{"type":"user","timestamp":"x"}"#;
    assert_eq!(
        copy(nameless, ForkParent::Keep, Some(now())),
        format!(r#"{{"type":"user","timestamp":"2026-03-02T09:00:00.000Z",{origin},"uuid":"u"}}"#)
    );
    let graft = ForkEdit {
        from: &from,
        to: &to,
        requested_id: &to,
        previous: None,
        id: &id,
        parent: ForkParent::Keep,
        time: None,
    };
    assert!(Chorus.copy_record(b"{torn", &graft).is_err());
}

#[test]
fn chorus_root_is_recognised_by_its_names() {
    for names in [
        &["config.json"][..],
        &["sessions"],
        &["config.json", "sessions", "cache"],
    ] {
        assert!(Chorus.matches_root(names), "{names:?}");
    }
    for names in [
        &["projects", "sessions"][..],
        &["conversations", "sessions", "state"],
        &["sessions", "config.toml"],
        &["src"],
        &[],
    ] {
        assert!(!Chorus.matches_root(names), "{names:?}");
    }
}
