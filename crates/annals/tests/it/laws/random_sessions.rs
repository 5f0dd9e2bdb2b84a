//! Random sessions, written, read, converted and converted back.

use super::*;
use annals::convert::{self, ConvertOptions, ConvertSelection};
use annals::layout::NewSession;
use annals::model::{Block, Draft, EntryId, Message, Usage};
use jiff::Timestamp;
use proptest::prelude::*;

/// One message, and how many messages back its parent is.
#[derive(Clone, Debug)]
struct Step {
    blocks: Vec<Block>,
    answers: bool,
    back: Option<usize>,
    note: Option<String>,
    /// Whether a person typed it.
    typed: bool,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{1,12}",
        any::<String>(),
        Just("\u{1b}[31m\u{202e}</script>\"\\ \r\n\t\u{0}\u{2028} é 日本語 🚀".to_owned()),
        Just("{\"type\":\"user\",\"annals\":{\"id\":\"x\"}}".to_owned()),
        Just("Caveat: <command-name>".to_owned()),
    ]
}

fn block(answers: bool) -> BoxedStrategy<Block> {
    let words = text().prop_map(Block::Text);
    if answers {
        prop_oneof![
            words,
            (text(), proptest::option::of("[a-zA-Z=]{1,8}"))
                .prop_map(|(text, signature)| Block::Thinking { text, signature }),
            (0..9u8, text()).prop_map(|(call, value)| Block::ToolUse {
                id: format!("toolu_{call}"),
                name: "Bash".to_owned(),
                input: serde_json::json!({ "command": value, "n": 1e5 }).to_string(),
            }),
        ]
        .boxed()
    } else {
        prop_oneof![
            words,
            (0..9u8, text(), any::<bool>()).prop_map(|(call, text, is_error)| {
                Block::ToolResult {
                    call: format!("toolu_{call}"),
                    output: vec![Block::Text(text)],
                    is_error,
                }
            }),
            Just(Block::Image {
                media_type: "image/png".to_owned(),
                data: "iVBORw0KGgo=".to_owned(),
            }),
        ]
        .boxed()
    }
}

fn step() -> impl Strategy<Value = Step> {
    let blocks = any::<bool>().prop_flat_map(|answers| {
        let blocks = proptest::collection::vec(block(answers), 1..4);
        blocks.prop_map(move |blocks| (answers, blocks))
    });
    let back = proptest::option::weighted(0.2, 0..5usize);
    let note = proptest::option::weighted(0.1, text());
    (blocks, back, note).prop_map(|((answers, blocks), back, note)| match back {
        None => Step {
            typed: !answers && is_prompt(&blocks),
            blocks,
            answers,
            back,
            note,
        },
        // Only a person's prompt starts a branch; repeated output of programs does not.
        Some(_) => Step {
            note,
            ..asked(back)
        },
    })
}

/// Tests whether every layout takes the blocks for a person's prompt.
fn is_prompt(blocks: &[Block]) -> bool {
    let result = |block: &Block| matches!(block, Block::ToolResult { .. });
    let words = |block: &Block| matches!(block, Block::Text(text) if !text.trim().is_empty() && !text.starts_with("Caveat:"));
    blocks.iter().any(words) && !blocks.iter().any(result)
}

fn asked(back: Option<usize>) -> Step {
    Step {
        blocks: vec![Block::Text("and now?".to_owned())],
        answers: false,
        back,
        note: None,
        typed: true,
    }
}

/// Writes the steps; returns the blocks of the last conversation.
fn write(root: &Root, steps: &[Step]) -> Vec<Block> {
    let store = Store::new(vec![root.clone()]).with_zone(jiff::tz::TimeZone::UTC);
    let id = SessionId::new("0e8b0f3c-5a51-4a52-9c41-1f3b6b0f9a11").unwrap();
    let start: Timestamp = "2026-03-01T23:59:50Z".parse().unwrap();
    let options = annals::store::WriteOptions {
        now: Some(start),
        ..QUICK
    };
    let new = NewSession::new(id, "/home/dev/random");
    let writer = store.create(root, &new, options).unwrap();
    let is_linear = root.layout.writer().unwrap().is_linear();
    let mut path: Vec<(EntryId, Vec<Block>, bool)> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let role = match step.answers {
            true => Role::Assistant,
            false => Role::User,
        };
        let mut message = Message::new(role, step.blocks.clone());
        message.human = step.typed;
        if step.answers {
            message.model = Some("claude-test".to_owned());
            message.usage = Some(Usage {
                input: at as u64,
                output: 2,
                cache_write_5m: 3,
                cache_write_1h: 4,
                cache_read: 5,
                web_searches: 0,
            });
        }
        let time = start + jiff::SignedDuration::from_secs(at as i64 * 10);
        let mut draft = Draft::new(Body::Message(message)).with_time(time);
        // A message that is neither a prompt nor a reply belongs to the one before it, so no branch
        // starts directly before it.
        let real = |back: &usize| {
            let left = path.len().checked_sub(*back);
            left.and_then(|left| path.get(left))
                .is_none_or(|(_, _, real)| *real)
        };
        let back = step.back.filter(|_| !is_linear);
        if let Some(back) = back.filter(|back| *back < path.len()).filter(real) {
            path.truncate(path.len() - back);
            draft.parent = path.last().map(|(id, ..)| id.clone());
        }
        let written = writer.append_all(vec![draft]).unwrap();
        let last = written.last().and_then(|entry| entry.id.clone()).unwrap();
        path.push((last, step.blocks.clone(), step.typed || step.answers));
        if let Some(note) = &step.note {
            writer
                .append(Draft::note(note.clone()).with_time(time))
                .unwrap();
        }
    }
    writer.close().unwrap();
    path.into_iter().flat_map(|(_, blocks, _)| blocks).collect()
}

/// Returns the blocks of the conversation that ends with the newest message.
fn last_said(root: &Root) -> Vec<Block> {
    let sessions = Store::new(vec![root.clone()]).inventory().sessions;
    assert_eq!(sessions.len(), 1);
    let session = Session::read(sessions.into_iter().next().unwrap()).unwrap();
    assert_eq!(
        session.flaws().count(),
        0,
        "{:?}",
        session.flaws().collect::<Vec<_>>()
    );
    let tree = session.tree().unwrap();
    let last = session.logs[0]
        .outlines
        .iter()
        .rposition(|outline| outline.kind.is_message());
    let path = tree.path_to(last.unwrap()).unwrap();
    let mut said = Vec::new();
    session
        .each_entry_of_log(0, &path, |entry| {
            if let Body::Message(message) = entry.body {
                said.extend(message.blocks);
            }
            Ok(true)
        })
        .unwrap();
    said
}

fn convert(from: &Root, to: &Root) {
    let mut plan = convert::plan(ConvertSelection::Root(from.clone()), to.clone(), None).unwrap();
    let held = plan.withheld.clone();
    plan.restore_also(&held).unwrap();
    let mut options = ConvertOptions::default();
    options.zone = jiff::tz::TimeZone::UTC;
    let report = convert::run(&plan, &options, &|_, _| ()).unwrap();
    assert!(report.failed.is_empty(), "{:?}", report.failed);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 16,
        max_shrink_iters: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_session_is_the_same_in_every_layout(mut steps in proptest::collection::vec(step(), 1..12)) {
        steps.push(asked(None));
        for from in LAYOUTS.iter().filter(|layout| layout.writer().is_some()) {
            let dir = tempfile::tempdir().unwrap();
            let root = Root::new(from.name(), dir.path().join("root")).unwrap();
            let wanted = write(&root, &steps);
            prop_assert_eq!(&last_said(&root), &wanted, "written to {}", from.name());
            for to in LAYOUTS.iter().filter(|layout| layout.writer().is_some()) {
                if to.name() == from.name() {
                    continue;
                }
                let there = Root::new(to.name(), dir.path().join(to.name())).unwrap();
                convert(&root, &there);
                prop_assert_eq!(&last_said(&there), &wanted, "{} → {}", from.name(), to.name());
                let back = Root::new(from.name(), dir.path().join(format!("{}-back", to.name()))).unwrap();
                convert(&there, &back);
                prop_assert_eq!(picture(&back.path), picture(&root.path), "{} → {}", from.name(), to.name());
            }
        }
    }
}
