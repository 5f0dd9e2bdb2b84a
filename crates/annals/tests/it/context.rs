//! The context of a session equals what the real client sends when it resumes: every recorded case.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use annals::convert::{self, ConvertOptions, ConvertSelection};
use annals::model::{Block, Role};
use annals::store::{ContextMessage, Root, Session, Store};
use serde_json::{Value, json};

use crate::support::{case, fixtures};

const CLIENT: &str = "2.1.325";

/// Damaged logs of which annals reads more or less than the client, by name.
const DIFFERING: [(&str, &str); 9] = [
    ("a4-no-timestamps", "the client refuses a log without times"),
    ("timestamps-odd", "the client refuses a log with such times"),
    (
        "b3-torn-then-appended",
        "annals reads the record after the torn one",
    ),
    ("glued-records", "annals reads both records of a line"),
    ("nul-runs", "annals reads the record after the zero bytes"),
    (
        "c1-corrupt-middle-leafparent",
        "the client guesses a missing parent by time",
    ),
    (
        "e1-missing-parent-mid",
        "the client guesses a missing parent by time",
    ),
    ("orphan", "the client guesses a missing parent by time"),
    (
        "compaction-preserved-segment",
        "the client adds the messages that a boundary names",
    ),
];

/// Converts a message to the form of the recorded cases.
fn recorded_form(message: &ContextMessage) -> Value {
    let message = serde_json::to_value(message).unwrap();
    let blocks = message["content"].as_array().unwrap();
    let of_type = |wanted: &str| -> Vec<&Value> {
        let blocks = blocks.iter();
        blocks.filter(|block| block["type"] == wanted).collect()
    };
    let texts = |blocks: Vec<&Value>, member: &str| -> Option<Value> {
        let texts: Vec<&str> = blocks
            .iter()
            .map(|it| it[member].as_str().unwrap())
            .collect();
        let text = texts.join("\n");
        (!texts.is_empty()).then(|| text.strip_suffix('\n').unwrap_or(&text).into())
    };
    let mut form = json!({ "role": message["role"] });
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            form[name] = value;
        }
    };
    set("text", texts(of_type("text"), "text"));
    set("thinking", texts(of_type("thinking"), "thinking"));
    let calls: Vec<Value> = of_type("tool_use")
        .iter()
        .map(|it| it["id"].clone())
        .collect();
    set("tool_use", (!calls.is_empty()).then(|| calls.into()));
    let results = of_type("tool_result").into_iter().map(|it| {
        let output = it["content"].as_array().unwrap().iter();
        let output: Vec<&str> = output.map(|part| part["text"].as_str().unwrap()).collect();
        let mut result = json!({ "id": it["tool_use_id"], "text": output.join("\n") });
        if it["is_error"] == true {
            result["is_error"] = true.into();
        }
        result
    });
    let results: Vec<Value> = results.collect();
    set("tool_result", (!results.is_empty()).then(|| results.into()));
    form
}

/// Cuts texts where the recorded ones are cut.
fn cut_like(found: &mut Value, wanted: &Value) {
    match (found, wanted) {
        (Value::String(found), Value::String(wanted)) => {
            if let Some(beginning) = wanted.strip_suffix('…')
                && found.starts_with(beginning)
            {
                found.clone_from(wanted);
            }
        }
        (Value::Array(found), Value::Array(wanted)) => {
            let pairs = found.iter_mut().zip(wanted);
            pairs.for_each(|(found, wanted)| cut_like(found, wanted));
        }
        (Value::Object(found), Value::Object(wanted)) => {
            for (name, value) in found {
                if let Some(wanted) = wanted.get(name) {
                    cut_like(value, wanted);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn context_equals_what_the_client_sends_in_every_hand_made_case() {
    let tools = fixtures().join("../tools/resume-oracle");
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new("python3")
        .arg("-B")
        .arg(tools.join("cases.py"))
        .arg(dir.path())
        .output()
        .expect("python3 writes the cases");
    assert!(made.status.success(), "{made:?}");
    let expected = fs::read(tools.join("expected.json")).unwrap();
    let expected: BTreeMap<String, Value> = serde_json::from_slice(&expected).unwrap();
    let mut differing = Vec::new();
    for (name, clients) in &expected {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("projects/-w");
        fs::create_dir_all(&folder).unwrap();
        let log = folder.join("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee.jsonl");
        fs::copy(dir.path().join(format!("{name}.jsonl")), &log).unwrap();
        let context = context_of(home.path(), &log);
        let found: Vec<Value> = context.iter().map(recorded_form).collect();
        let wanted = clients[CLIENT]["messages"].as_array();
        let wanted = wanted.cloned().unwrap_or_default();
        let mut found = Value::from(found);
        let wanted = Value::from(wanted);
        cut_like(&mut found, &wanted);
        let is_known = DIFFERING.iter().any(|(known, _)| known == name);
        if (found != wanted) != is_known {
            differing.push(format!("{name}\n  sent  {wanted}\n  found {found}"));
        }
    }
    assert!(expected.len() >= 45);
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn context_of(home: &Path, log: &Path) -> Vec<ContextMessage> {
    let store = Store::new(vec![Root::claude_code(home)]);
    let session = store.session(&log.display().to_string()).unwrap();
    session.context(None).unwrap()
}

#[test]
fn context_has_as_many_messages_as_the_client_sends_of_every_fixture() {
    let leaves = fs::read(fixtures().join("client-leaves.json")).unwrap();
    let leaves: BTreeMap<String, BTreeMap<String, BTreeMap<String, Value>>> =
        serde_json::from_slice(&leaves).unwrap();
    let mut differing = Vec::new();
    let mut compared = 0;
    for (name, sessions) in &leaves {
        for files in case(name).sessions() {
            // If two logs have the same id, each is recorded under its path.
            let path = files.main_path().to_string_lossy().into_owned();
            let mut twice = sessions.iter();
            let twice = twice.find(|(key, _)| key.contains('/') && path.contains(key.as_str()));
            let client = twice.map(|(_, client)| client);
            let client = client.or_else(|| sessions.get(files.id.as_str()));
            let Some(client) = client.filter(|_| files.log.is_some()) else {
                continue;
            };
            let wanted = client[CLIENT]["messages"].as_u64().unwrap();
            let found = Session::read(files).unwrap().context(None).unwrap();
            compared += 1;
            let is_known = DIFFERING.iter().any(|(known, _)| known == name);
            if (found.len() as u64 != wanted) != is_known {
                let roles: Vec<Value> = found.iter().map(recorded_form).collect();
                differing.push(format!("{name}: {wanted} sent, {}", Value::from(roles)));
            }
        }
    }
    assert!(compared > 90, "{compared}");
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// The messages are JSON that the Messages API accepts: roles, typed blocks, exact arguments.
#[test]
fn context_has_the_form_of_the_messages_api() {
    use annals::model::{Block, Draft};
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let session = store.begin("/home/me/app").unwrap();
    session.append(Draft::user("Count")).unwrap();
    let call = Block::ToolUse {
        id: "toolu_1".into(),
        name: "Bash".into(),
        input: r#"{"n":1e2}"#.into(),
    };
    session.append(Draft::assistant([call])).unwrap();
    session
        .append(Draft::tool_result("toolu_1", "100"))
        .unwrap();
    let session = store.session(session.session().as_str()).unwrap();
    let context = session.context(None).unwrap();
    let json = serde_json::to_string(&context).unwrap();
    assert_eq!(
        json,
        concat!(
            r#"[{"role":"user","content":[{"text":"Count","type":"text"}]},"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"n":1e2}}]},"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"text":"100","type":"text"}],"is_error":false}]},"#,
            r#"{"role":"assistant","content":[{"text":"No response requested.","type":"text"}]}]"#
        )
    );
    assert!(context.last().unwrap().inserted);
}

/// Returns the texts of a context, by role.
fn said(session: &Session) -> Vec<(Role, String)> {
    let context = session.context(None).unwrap().into_iter();
    let texts = context.filter(|message| !message.inserted).map(|message| {
        let texts = message.blocks.into_iter().filter_map(|block| match block {
            Block::Text(text) => Some(text),
            _ => None,
        });
        (message.role, texts.collect::<Vec<_>>().join("\n\n"))
    });
    texts.filter(|(_, text)| !text.is_empty()).collect()
}

/// What a program sends again after a compaction is sent again wherever the session is converted to.
#[test]
fn compaction_is_followed_by_what_its_program_keeps() {
    let summary = "## Goal\nCapitals.";
    let kept = "Done. The bash call failed with 3, as expected.";
    let bases = [
        ("pi", "0.87-s05-compact", summary, Some(kept)),
        (
            "codex",
            "0.166-s05-compact",
            "What is the capital of France?",
            None,
        ),
    ];
    for (layout, name, first, second) in bases {
        let source = Root::new(layout, fixtures().join(layout).join(name)).unwrap();
        let store = Store::new(vec![source.clone()]);
        let files = store.inventory().sessions.remove(0);
        let wanted = said(&Session::read(files).unwrap());
        assert!(wanted[0].1.starts_with(first), "{wanted:?}");
        assert_eq!(wanted[0].0, Role::User);
        if let Some(second) = second {
            assert_eq!(wanted[1], (Role::Assistant, second.to_owned()));
        }
        for target in ["claude-code", "codex", "pi", "qwen", "gemini", "copilot"] {
            if target == layout {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let there = Root::new(target, dir.path().join("there")).unwrap();
            let convert = |from: &Root, to: &Root| {
                let selection = ConvertSelection::Root(from.clone());
                let plan = convert::plan(selection, to.clone(), None).unwrap();
                let report = convert::run(&plan, &ConvertOptions::default(), &|_, _| ());
                assert!(report.unwrap().failed.is_empty());
            };
            convert(&source, &there);
            let store = Store::new(vec![there.clone()]);
            let files = store.inventory().sessions.remove(0);
            let session = Session::read(files).unwrap();
            assert_eq!(said(&session), wanted, "{layout} to {target}");
            // The copies are not charged, and not taken for messages that were added since.
            let tokens = |store: &Store| -> u64 {
                let ledger = store.costs().ledger(&|_, _| ()).0;
                ledger
                    .charges
                    .iter()
                    .map(|charge| charge.usage.total())
                    .sum()
            };
            let original = Store::new(vec![source.clone()]);
            let (found, wanted) = (tokens(&store), tokens(&original));
            // Claude Code has no place for the tokens of the compaction itself.
            let has_all = target != "claude-code" || layout != "pi";
            assert!(
                found == wanted || (!has_all && found < wanted),
                "{layout} to {target}"
            );
            let back = Root::new(layout, dir.path().join("back")).unwrap();
            convert(&there, &back);
            let log = |store: &Store| {
                let inventory = store.inventory();
                let [files] = inventory.sessions.as_slice() else {
                    panic!("{layout} to {target}");
                };
                fs::read(&files.log.as_ref().unwrap().path).unwrap()
            };
            assert!(
                log(&Store::new(vec![back])) == log(&original),
                "{layout} to {target}"
            );
        }
    }
}
