//! The clog layout: decoding of its lines, and the bytes written.

use annals::layout::{
    AppendState, Change, Clog, Decoded, Edit, EditPlan, ForkEdit, ForkParent, Layout, NewSession,
    PlanContext, Record, Spawn, Writer,
};
use annals::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Draft, Entry, EntryId, Fact, FlawKind, Message,
    Outline, OutlineKind, Role, SessionId, Span, TitleSource, Todo, Usage,
};
use annals::store::{Root, Session, Store, WriteOptions};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::support::QUICK;

mod notes_header;
mod write;

const SESSION: &str = "2026-03-26T01-32-20-418Z-thread_abc123";

fn record(line: &[u8], offset: u64) -> Record<'_> {
    Record {
        span: Span {
            offset,
            len: line.len() as u64 + 1,
            line: 2,
        },
        bytes: line,
        terminated: true,
        oversize: false,
    }
}

/// Decodes a line that is not the first, as entry and as outline.
fn read(line: &str) -> (Entry, Outline, Vec<FlawKind>) {
    read_at(line, 500)
}

fn read_at(line: &str, offset: u64) -> (Entry, Outline, Vec<FlawKind>) {
    let log = Artifact::new(ArtifactKind::SessionLog);
    let record = record(line.as_bytes(), offset);
    let (mut deep, mut shallow) = (Decoded::default(), Decoded::default());
    Clog.decoder(&log).decode(&record, &mut deep);
    Clog.decoder(&log).outline(&record, &mut shallow);
    assert_eq!(deep.flaws, shallow.flaws);
    let kinds = deep.flaws.iter().map(|flaw| flaw.kind).collect();
    (deep.items.remove(0), shallow.items.remove(0), kinds)
}

fn message(line: &str) -> Message {
    match read(line).0.body {
        Body::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

fn thinking(text: &str) -> Block {
    Block::Thinking {
        text: text.to_owned(),
        signature: None,
    }
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

#[test]
fn message_is_decoded_with_thoughts_before_text() {
    for (members, blocks) in [
        (r#""content":"hi""#, vec![text("hi")]),
        (r#""content":"""#, vec![text("")]),
        (r#""content":null"#, vec![]),
        (
            r#""content":"hi","reasoning":"hm""#,
            vec![thinking("hm"), text("hi")],
        ),
        (r#""content":"","reasoning":"hm""#, vec![thinking("hm")]),
        (
            r#""content":"hi","reasoning":"a\n\nb","thoughts":[{"reasoning":"a"},{"reasoning":"b"}]"#,
            vec![thinking("a"), thinking("b"), text("hi")],
        ),
        (
            r#""content":"hi","reasoning":"all","thoughts":[{"reasoning":"a"}]"#,
            vec![thinking("all"), thinking("a"), text("hi")],
        ),
        (
            r#""content":"hi","thoughts":[{"stepNumber":1,"toolCalls":[{"id":"c","name":"ls","arguments":"{}"}],"toolResults":[{"toolCallId":"c","output":{"a":[1e5]}}]},{"toolResults":[{"id":"d","error":"no"},{"id":"e","result":"r","error":false}]}]"#,
            vec![
                call("c", "ls", r#""{}""#),
                result("c", vec![text(r#"{"a":[1e5]}"#)], false),
                result("d", vec![text("no")], true),
                result("e", vec![text("r")], false),
                text("hi"),
            ],
        ),
    ] {
        let line = format!(r#"{{"type":"message","messageId":"m","role":"agent",{members}}}"#);
        let message = message(&line);
        assert_eq!(message.role, Role::Assistant, "{members}");
        assert_eq!(message.blocks, blocks, "{members}");
    }
}

#[test]
fn roles_channels_ids_and_times_are_decoded() {
    let line = r#"{"type":"message","conversationId":"c","threadId":"t","messageId":"msg_1","role":"user","channel":"telegram","content":"hi","createdAt":1774488740418}"#;
    let (entry, outline, flaws) = read(line);
    assert_eq!(flaws, []);
    assert_eq!(entry.id, Some(EntryId::new("msg_1")));
    assert_eq!(entry.context.channel.as_deref(), Some("telegram"));
    assert_eq!(entry.session, None);
    assert_eq!(entry.time, "2026-03-26T01:32:20.418Z".parse().ok());
    assert!(outline.human);
    assert_eq!(outline.prompt(), Some("hi"));
    for (role, kind) in [
        ("user", OutlineKind::User),
        ("agent", OutlineKind::Assistant),
        ("assistant", OutlineKind::Assistant),
        ("system", OutlineKind::System),
        ("tool", OutlineKind::System),
    ] {
        let line = line.replace("\"user\"", &format!("\"{role}\""));
        assert_eq!(read(&line).1.kind, kind, "{role}");
    }
    // A record without an id is named by its offset.
    let (entry, outline, _) = read(r#"{"type":"message","role":"user","content":"hi"}"#);
    assert_eq!(entry.id, Some(EntryId::new("offset-500")));
    assert_eq!(outline.id(), entry.id);
}

#[test]
fn message_with_only_results_has_the_user_role() {
    let alone = r#"{"type":"message","role":"agent","content":"","thoughts":[{"toolResults":[{"toolCallId":"c","result":"r"}]}]}"#;
    let (entry, outline, _) = read(alone);
    assert!(matches!(&entry.body, Body::Message(message) if message.role == Role::User));
    assert_eq!(outline.results.len(), 1);
    assert!(!outline.human);
    for more in [
        alone.replace(r#""content":"""#, r#""content":"said""#),
        alone.replace(r#""content":"""#, r#""content":"","reasoning":"thought""#),
        alone.replace(
            r#"{"toolResults""#,
            r#"{"reasoning":"thought"},{"toolResults""#,
        ),
        alone.replace(
            r#"{"toolResults""#,
            r#"{"toolCalls":[{"id":"x"}]},{"toolResults""#,
        ),
    ] {
        assert_eq!(message(&more).role, Role::Assistant, "{more}");
    }
}

#[test]
fn headers_are_checked_and_give_the_title() {
    let header = r#"{"type":"conversation-header","schemaVersion":1,"fileKind":"chat","conversationId":"c1","threadId":"T 1","channel":"web","title":"A title","createdAt":1774488740418,"updatedAt":9}"#;
    for offset in [0, 700] {
        let (entry, outline, flaws) = read_at(header, offset);
        assert_eq!(flaws, []);
        let title = Body::Title {
            text: "A title".to_owned(),
            source: TitleSource::Custom,
        };
        assert_eq!(entry.body, title);
        assert_eq!((entry.id, outline.key), (None, None));
        let word = |name: &str, value: &str| Fact::WriterState(name.into(), value.into());
        assert_eq!(
            outline.facts,
            [
                word("conversationId", "c1"),
                word("threadId", "T 1"),
                word("channel", "web"),
                word("createdAt", "1774488740418"),
                Fact::Attribute("thread", "T 1".into()),
                Fact::Attribute("conversation", "c1".into()),
                Fact::Attribute("channel", "web".into()),
                Fact::Title("A title".into(), TitleSource::Custom),
            ]
        );
    }
    let untitled = header.replace("A title", "");
    assert!(
        matches!(read_at(&untitled, 0).0.body, Body::Opaque { kind: Some(kind), .. } if kind == "conversation-header")
    );
    for (bad, says) in [
        (header.replace(":1,", ":2,"), "schemaVersion is `2`"),
        (
            header.replace("\"schemaVersion\":1,", ""),
            "schemaVersion is missing",
        ),
        (
            header.replace("\"chat\"", "\"notes\""),
            "fileKind is `notes`",
        ),
        (
            r#"{"type":"message","content":"x"}"#.to_owned(),
            "missing header",
        ),
        (r#"{"a":1}"#.to_owned(), "the first line is untyped"),
    ] {
        let mut sink = Decoded::default();
        let mut decoder = Clog.decoder(&Artifact::new(ArtifactKind::SessionLog));
        decoder.decode(&record(bad.as_bytes(), 0), &mut sink);
        let [flaw] = sink.flaws.as_slice() else {
            panic!("{bad}: {:?}", sink.flaws)
        };
        assert_eq!(flaw.kind, FlawKind::BadHeader);
        assert!(flaw.detail.contains(says), "{}", flaw.detail);
        assert_eq!(sink.items.len(), 1);
    }
}
