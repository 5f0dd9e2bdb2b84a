//! The orchestrator layout: decoding of its records, and the records written.

mod days;
mod replies;

use annals::layout::{
    AppendState, Change, Edit, EditPlan, ForkEdit, ForkParent, Layout, NewSession, Orchestrator,
};
use annals::layout::{Decoded, PlanContext, Record, Spawn};
use annals::model::{
    AgentId, Artifact, Block, Body, Draft, Entry, EntryId, Fact, FlawKind, Link, Message, Outline,
    OutlineKind, Role, SessionId, Span, Todo, Usage,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;

const FOLDER: &str = "v_FXjHoCS5zUJmfyn-5v";

fn day(day: &str) -> Artifact {
    let path = format!("projects/{FOLDER}/{day}.jsonl");
    Orchestrator.classify(path.as_ref()).unwrap()
}

fn record(bytes: &[u8]) -> Record<'_> {
    Record {
        span: Span {
            offset: 1234,
            len: bytes.len() as u64,
            line: 7,
        },
        bytes,
        terminated: true,
        oversize: false,
    }
}

fn decoded(json: &str) -> Entry {
    let mut sink = Decoded::default();
    let mut decoder = Orchestrator.decoder(&day("2026-11-15"));
    decoder.decode(&record(json.as_bytes()), &mut sink);
    assert_eq!(sink.flaws, [], "{json}");
    sink.items.remove(0)
}

fn outlined(json: &str) -> Outline {
    let mut sink = Decoded::default();
    let mut decoder = Orchestrator.decoder(&day("2026-11-15"));
    decoder.outline(&record(json.as_bytes()), &mut sink);
    sink.items.remove(0)
}

fn message(json: &str) -> Message {
    match decoded(json).body {
        Body::Message(message) => message,
        other => panic!("{json}: {other:?}"),
    }
}

fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

fn called(id: &str, name: &str, input: &str) -> Block {
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

fn id(text: &str) -> Option<EntryId> {
    Some(EntryId::new(text))
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Plans a change at noon with ids that count up.
fn plan(head: &AppendState, change: &Change) -> annals::Result<EditPlan> {
    let mut made = 0;
    let mut fresh = || {
        made += 1;
        format!("id-{made}")
    };
    let mut stamp = PlanContext {
        now: time("2026-11-15T12:00:00Z"),
        limit: None,
        zone: TimeZone::UTC,
        new_id: &mut fresh,
    };
    let writer = Orchestrator.writer().unwrap();
    Ok(writer.plan(head, change, &mut stamp)?)
}

fn head() -> AppendState {
    AppendState::new(SessionId::new("s1").unwrap(), day("2026-11-15"))
}

/// Returns the lines that drafts become in the day's log.
fn written(head: &AppendState, drafts: Vec<Draft>) -> Vec<String> {
    lines(plan(head, &Change::Append(drafts)).unwrap())
}

fn lines(plan: EditPlan) -> Vec<String> {
    let mut found = Vec::new();
    for edit in plan.edits {
        match edit {
            Edit::Append { path, lines } => {
                assert_eq!(path, Orchestrator.path_for(&day("2026-11-15")));
                found.extend(
                    lines
                        .into_iter()
                        .map(|line| String::from_utf8(line).unwrap()),
                );
            }
            other => panic!("{other:?}"),
        }
    }
    found
}

#[test]
fn record_without_id_is_named_by_its_offset() {
    let entry = decoded(r#"{"type":"user","content":"hi","timestamp":"2026-11-15T10:00:00Z"}"#);
    assert_eq!(entry.id, id("20261115-1234"));
    // A prompt that names no session belongs to the log's own session.
    let own = day("2026-11-15").session.unwrap().to_string();
    assert_eq!((entry.parent, entry.session), (None, Some(own)));
    let entry =
        decoded(r#"{"type":"assistant","content":"hi","timestamp":"2026-11-15T10:00:00Z"}"#);
    assert_eq!(entry.session, None);
    let outline = outlined(r#"{"type":"user","content":"hi","timestamp":"2026-11-15T10:00:00Z"}"#);
    assert_eq!(outline.id(), id("20261115-1234"));
    assert_eq!(outline.link, Link::Previous);
    assert!(outline.human);
    // Every record has its session as a fact, even after a record of the same session.
    let mut decoder = Orchestrator.decoder(&day("2026-11-15"));
    let mut sink = Decoded::default();
    for _ in 0..2 {
        let named = br#"{"type":"user","content":"hi","metadata":{"sessionId":"s--agent-a"}}"#;
        decoder.outline(&record(named), &mut sink);
    }
    for outline in sink.items {
        assert!(outline.facts.contains(&Fact::Session("s--agent-a".into())));
        assert_eq!(outline.agent, AgentId::new("a").ok());
    }
}

#[test]
fn unknown_records_are_opaque_and_unlinked() {
    for json in [
        r#"{"type":"checkpoint","content":"x","timestamp":"2026-11-15T10:00:00Z","annals":{"id":"x"}}"#,
        r#"{"content":"no type"}"#,
        "{}",
    ] {
        let outline = outlined(json);
        assert_eq!(
            (outline.kind, outline.link),
            (OutlineKind::Other, Link::None)
        );
        assert_eq!(outline.key, None);
        let entry = decoded(json);
        assert!(
            matches!(entry.body, Body::Opaque { flaw: None, .. }),
            "{json}"
        );
        assert_eq!(entry.id, None);
    }
}

#[test]
fn reply_usage_is_decoded_in_any_spelling() {
    let usage = |json: &str| {
        message(&format!(
            r#"{{"role":"assistant","content":"x","usage":{json},"model":"m","stopReason":"end_turn"}}"#
        ))
    };
    for json in [
        r#"{"input_tokens":1,"output_tokens":2,"cache_creation_tokens":3,"cache_read_tokens":4}"#,
        r#"{"inputTokens":1,"outputTokens":2,"cacheCreationTokens":3,"cacheReadTokens":4}"#,
        r#"{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":3,"cache_read_input_tokens":4}"#,
        r#"{"inputTokens":1,"outputTokens":2,"cacheCreationInputTokens":3,"cacheReadInputTokens":4}"#,
        r#"{"inputTokens":null,"input_tokens":1.0,"output_tokens":2,"cache_creation_tokens":3e0,"cacheReadTokens":4}"#,
    ] {
        let said = usage(json);
        let wanted = Usage {
            input: 1,
            output: 2,
            cache_write_5m: 3,
            cache_read: 4,
            ..Usage::default()
        };
        assert_eq!(said.usage, Some(wanted), "{json}");
        assert_eq!(said.model.as_deref(), Some("m"));
        assert_eq!(said.stop_reason.as_deref(), Some("end_turn"));
        assert_eq!((said.role, said.blocks), (Role::Assistant, vec![text("x")]));
    }
}

#[test]
fn invalid_token_counts_are_reported() {
    for (json, detail) in [
        (
            r#"{"inputTokens":-1,"output_tokens":2}"#,
            "inputTokens is -1",
        ),
        (
            r#"{"cacheReadTokens":1e13,"output_tokens":2}"#,
            "cacheReadTokens is 1e13",
        ),
        (r#""many""#, "usage is \"many\""),
    ] {
        let json = format!(r#"{{"type":"assistant","content":"x","usage":{json}}}"#);
        let mut sink: Decoded<Entry> = Decoded::default();
        let mut decoder = Orchestrator.decoder(&day("2026-11-15"));
        decoder.decode(&record(json.as_bytes()), &mut sink);
        assert_eq!(sink.flaws.len(), 1, "{json}");
        assert_eq!(sink.flaws[0].kind, FlawKind::BadUsage);
        assert_eq!(sink.flaws[0].detail, detail);
    }
}

#[test]
fn calls_and_results_are_linked_by_id_or_tool_name() {
    for (json, block) in [
        (
            r#"{"type":"tool_call","tool":"Bash","arguments":{"n":1e5},"toolCallId":"c"}"#,
            called("c", "Bash", r#"{"n":1e5}"#),
        ),
        // Without ids: a call is identified by its record's id, a result by its tool.
        (
            r#"{"type":"tool_call","tool":"Bash"}"#,
            called("20261115-1234", "Bash", "{}"),
        ),
        (
            r#"{"type":"tool_result","tool":"Bash","result":"out"}"#,
            result("call:Bash", vec![text("out")], false),
        ),
        (r#"{"type":"tool_call"}"#, called("20261115-1234", "", "{}")),
        (
            r#"{"type":"tool_result","toolCallId":"c","result":{"a": 1}}"#,
            result("c", vec![text(r#"{"a": 1}"#)], false),
        ),
        (
            r#"{"type":"tool_result","toolCallId":"c","result":null,"error":"no"}"#,
            result("c", vec![text("no")], true),
        ),
        (
            r#"{"type":"tool_result","toolCallId":"c","result":0,"error":{"code":2}}"#,
            result("c", vec![text("0"), text(r#"{"code":2}"#)], true),
        ),
        (
            r#"{"type":"tool_result","toolCallId":"c"}"#,
            result("c", vec![], false),
        ),
    ] {
        assert_eq!(message(json).blocks, [block], "{json}");
    }
}

#[test]
fn written_reply_matches_the_native_format() {
    let thinking = Block::Thinking {
        text: "hm".to_owned(),
        signature: Some("sig".to_owned()),
    };
    let usage = Usage {
        input: 1,
        output: 2,
        cache_write_5m: 3,
        cache_write_1h: 4,
        cache_read: 5,
        web_searches: 6,
    };
    let mut reply = Message::new(
        Role::Assistant,
        vec![
            thinking,
            text("before"),
            called("c1", "Bash", "{\n\"command\": \"ls\"}"),
            text("after"),
        ],
    );
    reply.stop_reason = Some("tool_use".to_owned());
    let reply = Draft::new(Body::Message(reply)).model("m").usage(usage);
    let answer = Draft::tool_result("c1", "out");
    let found = written(&head(), vec![Draft::user("ask"), reply, answer]);
    let wanted = [
        r#"{"type":"user","content":"ask","timestamp":"2026-11-15T12:00:00.000Z","metadata":{"sessionId":"s1"}}"#,
        r#"{"type":"assistant","content":"before","timestamp":"2026-11-15T12:00:00.001Z","usage":{"input_tokens":1,"output_tokens":2,"cache_creation_tokens":7,"cache_read_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4},"server_tool_use":{"web_search_requests":6}},"model":"m","stopReason":"tool_use","annals":{"blocks":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"text"}]}}"#,
        r#"{"type":"tool_call","tool":"Bash","arguments":{ "command": "ls"},"timestamp":"2026-11-15T12:00:00.002Z","toolCallId":"c1","annals":{"model":"m","stop":"tool_use"}}"#,
        r#"{"type":"assistant","content":"after","timestamp":"2026-11-15T12:00:00.003Z","usage":{"input_tokens":0,"output_tokens":0,"cache_creation_tokens":0,"cache_read_tokens":0},"model":"m","stopReason":"tool_use"}"#,
        r#"{"type":"tool_result","tool":"Bash","result":"out","timestamp":"2026-11-15T12:00:00.004Z","toolCallId":"c1"}"#,
    ];
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.len(), wanted.len());
    // Only data for which the document has no member is moved to the companion file.
    let writer = Orchestrator.writer().unwrap();
    let beside = found
        .iter()
        .map(|line| writer.split_record(line.as_bytes()).unwrap().1);
    let beside: Vec<bool> = beside.map(|beside| beside.is_some()).collect();
    assert_eq!(beside, [false, true, true, false, false]);
    // Decoded, the tokens and the text occur once.
    let spoken = message(&found[1]);
    assert_eq!(spoken.usage, Some(usage));
    assert_eq!(spoken.blocks[1], text("before"));
    assert_eq!(message(&found[2]).usage, None);
    assert_eq!(message(&found[3]).usage, Some(Usage::default()));
}

/// A program that sums `assistant` records must not miss a reply that only called tools.
#[test]
fn reply_with_only_calls_writes_its_usage_first() {
    let calls = || Draft::assistant(vec![called("c", "T", "{}"), called("d", "T", "{}")]);
    let usage = Usage {
        input: 9,
        ..Usage::default()
    };
    let found = written(
        &head(),
        vec![calls().usage(usage).with_id(EntryId::new("end"))],
    );
    assert_eq!(found.len(), 3);
    assert_eq!(message(&found[0]).blocks, []);
    assert_eq!(message(&found[0]).usage, Some(usage));
    assert_eq!(decoded(&found[2]).id, id("end"));
    // Without usage, nothing is added.
    assert_eq!(written(&head(), vec![calls()]).len(), 2);
}

#[test]
fn every_body_round_trips() {
    let image = Block::Image {
        media_type: "image/png".to_owned(),
        data: "AA==".to_owned(),
    };
    let user = |blocks: Vec<Block>| Message::new(Role::User, blocks);
    let mut messages = vec![
        user(vec![text("not typed")]),
        user(vec![text("Caveat: one"), text("two"), image.clone()]),
        user(vec![image.clone()]),
        user(vec![text("")]),
        user(vec![]),
        user(vec![result("c", vec![], true)]),
        user(vec![result("c", vec![text("")], true)]),
        user(vec![result("c", vec![text("a"), image.clone()], false)]),
        user(vec![result("", vec![text("a")], false)]),
        Message::new(Role::System, vec![text("rules")]),
        Message::new(Role::System, vec![text("rules"), text("and more")]),
        Message::new(Role::Assistant, vec![text("a"), text("b")]),
        Message::new(Role::Assistant, vec![text("")]),
        Message::new(Role::Assistant, vec![image, text("b")]),
    ];
    let mut typed = user(vec![text("typed")]);
    typed.human = true;
    messages.push(typed.clone());
    typed.blocks = vec![text("Caveat: typed")];
    messages.push(typed);
    let mut summary = user(vec![text("so far")]);
    summary.compact_summary = true;
    messages.push(summary);
    let mut reminder = user(vec![text("remember")]);
    reminder.meta = true;
    messages.push(reminder);
    let mut done = user(vec![result("c", vec![text("done")], false)]);
    done.spawned = AgentId::new("a7").ok();
    done.stored = Some("/tmp/out".to_owned());
    messages.push(done);
    for mut wanted in messages {
        let lines = written(&head(), vec![Draft::new(Body::Message(wanted.clone()))]);
        assert_eq!(lines.len(), 1);
        if wanted.role == Role::Assistant {
            // The design requires these on every reply.
            wanted.usage = Some(Usage::default());
        }
        assert_eq!(message(&lines[0]), wanted, "{}", lines[0]);
        let outline = outlined(&lines[0]);
        assert_eq!(outline.human, wanted.human, "{}", lines[0]);
        assert_eq!(outline.kind.role(), Some(wanted.role));
    }
    for body in [
        Body::Compaction {
            text: "compacted".to_owned(),
        },
        Body::System {
            subtype: "error".to_owned(),
            text: "failed".to_owned(),
        },
        Body::Agent {
            kind: Some("Explore".to_owned()),
            description: None,
            call: Some("c".to_owned()),
        },
    ] {
        let lines = written(&head(), vec![Draft::new(body.clone())]);
        assert_eq!(decoded(&lines[0]).body, body);
    }
    let refused = Draft::new(Body::Resume {
        leaf: EntryId::new("x"),
    });
    assert!(plan(&head(), &Change::Append(vec![refused])).is_err());
}

/// A parent is written only if it differs from file order.
#[test]
fn parent_is_written_only_if_it_is_not_the_record_before() {
    let parent = |head: &AppendState, draft: Draft| {
        let line = written(head, vec![draft]).remove(0);
        let outline = outlined(&line);
        (outline.link, line.contains(r#""parent""#))
    };
    let mut head = head();
    assert_eq!(parent(&head, Draft::user("x")), (Link::Previous, false));
    head.last_message = id("m2");
    assert_eq!(parent(&head, Draft::user("x")), (Link::None, true));
    head.leaf = id("m2");
    assert_eq!(parent(&head, Draft::user("x")), (Link::Previous, false));
    head.leaf = id("m1");
    let m1 = EntryId::new("m1");
    assert_eq!(
        parent(&head, Draft::user("x")),
        (Link::Parent(m1.key()), true)
    );
    head.leaf = id("m2");
    let branch = Draft::user("x").with_parent(m1.clone());
    assert_eq!(parent(&head, branch), (Link::Parent(m1.key()), true));
    // Records outside the chain do not move the leaf.
    let notice = Draft::new(Body::System {
        subtype: "error".to_owned(),
        text: String::new(),
    });
    let made = plan(&head, &Change::Append(vec![notice, Draft::user("x")])).unwrap();
    assert_eq!(made.added.len(), 2);
    assert_eq!(made.leaf.as_ref(), made.added.last());
    assert!(lines(made).iter().all(|line| !line.contains(r#""parent""#)));
}

#[test]
fn notes_todos_and_sub_agents_are_named_after_their_session() {
    let path = |head: &AppendState, change: &Change| {
        let mut edits = plan(head, change).unwrap().edits;
        assert_eq!(edits.len(), 1);
        match edits.remove(0) {
            Edit::Append { path, .. } | Edit::Replace { path, .. } => {
                path.file_name().unwrap().to_str().unwrap().to_owned()
            }
            other => panic!("{other:?}"),
        }
    };
    let note = Change::Append(vec![Draft::note("n")]);
    let todos = Change::SetTodos(vec![Todo::pending("t")]);
    let mut head = head();
    assert_eq!(path(&head, &note), "s1.notes.annals");
    assert_eq!(path(&head, &todos), "s1.todos.json");
    let agent = AgentId::new("a1").unwrap();
    let spawn = Change::Spawn(Spawn::new(agent.clone(), "Explore", "Finds it").call("c1"));
    let line = lines(plan(&head, &spawn).unwrap()).remove(0);
    assert_eq!(
        line,
        r#"{"type":"system","content":"Finds it","timestamp":"2026-11-15T12:00:00.000Z","metadata":{"sessionId":"s1--agent-a1"},"annals":{"id":"id-1","kind":"agent","subtype":"Explore","description":"Finds it","call":"c1"}}"#
    );
    head.agent = Some(agent);
    assert_eq!(path(&head, &note), "s1--agent-a1.notes.annals");
    assert_eq!(path(&head, &todos), "s1--agent-a1.todos.json");
    let line = written(&head, vec![Draft::user("go")]).remove(0);
    assert_eq!(decoded(&line).session.as_deref(), Some("s1--agent-a1"));
    assert_eq!(decoded(&line).agent, AgentId::new("a1").ok());
}

#[test]
fn session_starts_with_directory_and_git_branch() {
    let mut head = head();
    head.cwd = Some("/w".to_owned());
    head.git_branch = Some("main".to_owned());
    assert_eq!(
        lines(plan(&head, &Change::Begin).unwrap()),
        [
            r#"{"type":"session","timestamp":"2026-11-15T12:00:00.000Z","metadata":{"sessionId":"s1","cwd":"/w","gitBranch":"main"}}"#
        ]
    );
    // The log's own session begins with the log, which is empty until the first message.
    head.session = day("2026-11-15").session.unwrap();
    let begun = plan(&head, &Change::Begin).unwrap();
    assert!(begun.companion[0].contains(r#""cwd":"/w""#), "{begun:?}");
    assert_eq!(lines(begun), Vec::<String>::new());
}

/// The date is the local date of the writer.
#[test]
fn logs_are_dated_in_the_writers_time_zone() {
    let writer = Orchestrator.writer().unwrap();
    for (now, zone, day) in [
        ("2026-11-15T10:59:59Z", "Pacific/Auckland", "2026-11-15"),
        ("2026-11-15T11:00:00Z", "Pacific/Auckland", "2026-11-16"),
        ("2026-11-15T07:59:59Z", "America/Los_Angeles", "2026-11-14"),
        ("2026-11-15T08:00:00Z", "America/Los_Angeles", "2026-11-15"),
        // Summer time ends on November 1: the day before is one hour closer to UTC.
        ("2026-10-31T06:59:59Z", "America/Los_Angeles", "2026-10-30"),
        ("2026-10-31T07:00:00Z", "America/Los_Angeles", "2026-10-31"),
        ("2026-11-02T07:59:59Z", "America/Los_Angeles", "2026-11-01"),
        // Auckland's day of 23 hours.
        ("2026-09-27T10:59:59Z", "Pacific/Auckland", "2026-09-27"),
        ("2026-09-27T11:00:00Z", "Pacific/Auckland", "2026-09-28"),
        ("2026-02-28T23:59:59Z", "UTC", "2026-02-28"),
    ] {
        let mut fresh = String::new;
        let mut stamp = PlanContext {
            now: time(now),
            limit: None,
            zone: TimeZone::get(zone).unwrap(),
            new_id: &mut fresh,
        };
        let id = SessionId::new("s1").unwrap();
        let new = NewSession::new(id, "/Users/nick/projects/my-app");
        let log = writer.new_session_log(&new, &mut stamp).unwrap();
        assert_eq!(log, self::day(day), "{now} {zone}");
        let relative = NewSession::new(SessionId::new("s").unwrap(), "src");
        assert!(writer.new_session_log(&relative, &mut stamp).is_err());
        let agent = NewSession::new(SessionId::new("s--agent-a").unwrap(), "/w");
        assert!(writer.new_session_log(&agent, &mut stamp).is_err());
        assert_eq!(writer.valid_id("s"), "s");
        let fitting = SessionId::new(&writer.valid_id("s--agent-a")).unwrap();
        assert!(
            writer
                .new_session_log(&NewSession::new(fitting, "/w"), &mut stamp)
                .is_ok()
        );
    }
}

#[test]
fn fork_preserves_the_bytes_of_a_record_and_writes_its_id() {
    let (from, to) = (SessionId::new("s1").unwrap(), SessionId::new("s2").unwrap());
    let (this, above) = (EntryId::new("20261115-7"), EntryId::new("m1"));
    let copy = |record: &[u8], parent: ForkParent<'_>, time: Option<Timestamp>| {
        let graft = ForkEdit {
            from: &from,
            to: &to,
            requested_id: &to,
            previous: None,
            id: &this,
            parent,
            time,
        };
        let copy = Orchestrator
            .writer()
            .unwrap()
            .copy_record(record, &graft)
            .unwrap();
        String::from_utf8_lossy(&copy).into_owned()
    };
    let origin = r#""forkedFrom":{"sessionId":"s1","id":"20261115-7"}"#;
    assert_eq!(
        copy(
            br#"{"type":"user", "n":1e5,"content":"\u00e9","timestamp":"x"}"#,
            ForkParent::Entry(&above),
            Some(time("2026-11-15T12:00:00Z")),
        ),
        format!(
            r#"{{"type":"user", "n":1e5,"content":"\u00e9","timestamp":"2026-11-15T12:00:00.000Z","metadata":{{"sessionId":"s2",{origin}}},"annals":{{"id":"20261115-7"}}}}"#
        )
    );
    let own = br#"{"type":"user","metadata":{"sessionId":"s1","x":"\ud83d","resumed":true},"annals":{"parent":"m0","sidechain":true,"agent":"a"}}"#;
    for (parent, said) in [
        (ForkParent::Entry(&above), r#""m1""#),
        (ForkParent::None, "null"),
        (ForkParent::Keep, r#""m0""#),
    ] {
        assert_eq!(
            copy(own, parent, None),
            format!(
                r#"{{"type":"user","metadata":{{"sessionId":"s2","x":"\ud83d","resumed":true,{origin}}},"annals":{{"parent":{said},"sidechain":false,"agent":null,"id":"20261115-7"}}}}"#
            )
        );
    }
    let copied = decoded(&copy(own, ForkParent::None, None));
    assert_eq!((copied.copied, copied.sidechain), (true, false));
    assert_eq!(copied.id, Some(this.clone()));
}
