//! What `append` makes of messages as the SDKs print them, in each layout.

use serde_json::{Value, json};

use crate::harness::Stage;

const ID: &str = "00000000-0000-4000-8000-0000000000ab";
const LAYOUTS: [&str; 4] = ["claude-code", "chorus", "clog", "orchestrator"];

/// A session of a layout in a root of its own.
fn begun(layout: &'static str) -> (Stage, String) {
    let stage = Stage::empty().with_layout(layout);
    let work = stage.work();
    let work = work.to_str().unwrap();
    if layout == "chorus" {
        let added = ["workspaces", "add", work, "--id", "ws-1"];
        stage.annals(&added).fine();
    }
    let made = stage.annals(&["new", "--id", ID, "--cwd", work, "--json"]);
    let session = made.json()["session"].as_str().unwrap().to_owned();
    (stage, session)
}

/// The records of all logs in the root.
fn records(stage: &Stage) -> Vec<Value> {
    let logs = stage.tree().into_iter();
    let logs = logs.filter(|(path, _)| path.extension().is_some_and(|end| end == "jsonl"));
    let text: String = logs
        .map(|(_, bytes)| String::from_utf8(bytes).unwrap())
        .collect();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn of_type<'r>(records: &'r [Value], kind: &str) -> Vec<&'r Value> {
    let records = records.iter();
    records.filter(|record| record["type"] == kind).collect()
}

#[test]
fn blocks_with_further_members_are_read_by_the_layouts_own_program() {
    let reply = json!({
        "role": "assistant",
        "model": "claude-opus-4-1-20250805",
        "content": [
            {"type": "text", "text": "Let me look", "citations": [{"cited_text": "c1"}]},
            {"type": "tool_use", "id": "d1", "name": "Bash", "input": {"command": "ls"},
             "cache_control": {"type": "ephemeral"}},
        ],
    });
    let result = json!({
        "role": "user",
        "content": [{
            "type": "tool_result", "tool_use_id": "d1", "cache_control": {"type": "ephemeral"},
            "content": [{"type": "text", "text": "a.txt", "cache_control": {"type": "e2"}}],
        }],
    });
    let prompt = json!({
        "role": "user",
        "content": [{"type": "text", "text": "And now?", "cache_control": {"type": "e3"}}],
    });
    for layout in LAYOUTS {
        let (stage, session) = begun(layout);
        let lines = format!("{reply}\n{result}\n{prompt}\n");
        stage.with_stdin(&["append", &session], lines).fine();
        let records = records(&stage);
        match layout {
            "orchestrator" => {
                assert_eq!(of_type(&records, "assistant")[0]["content"], "Let me look");
                let call = of_type(&records, "tool_call")[0];
                assert_eq!(
                    (&call["tool"], &call["toolCallId"]),
                    (&json!("Bash"), &json!("d1"))
                );
                assert_eq!(call["arguments"], json!({"command": "ls"}));
                let result = of_type(&records, "tool_result")[0];
                assert_eq!(
                    (&result["tool"], &result["result"]),
                    (&json!("Bash"), &json!("a.txt"))
                );
                assert_eq!(
                    of_type(&records, "user").last().unwrap()["content"],
                    "And now?"
                );
            }
            "clog" => {
                let messages = of_type(&records, "message");
                assert_eq!(messages[0]["content"], "Let me look");
                let thoughts = &messages[0]["thoughts"][0]["toolCalls"][0];
                assert_eq!(thoughts["toolName"], "Bash", "{:?}", messages[0]);
                assert_eq!(
                    messages[1]["thoughts"][0]["toolResults"][0]["result"],
                    "a.txt"
                );
                assert_eq!(messages[2]["content"], "And now?");
            }
            "chorus" => {
                assert_eq!(of_type(&records, "assistant")[0]["content"], "Let me look");
                assert_eq!(of_type(&records, "tool_use")[0]["toolName"], "Bash");
                let result = of_type(&records, "tool_result")[0];
                assert_eq!(
                    (&result["toolName"], &result["content"]),
                    (&json!("Bash"), &json!("a.txt"))
                );
                assert_eq!(of_type(&records, "user")[0]["content"], "And now?");
            }
            _ => {
                // The client keeps the blocks of the API as they are.
                let replies = of_type(&records, "assistant");
                for (at, block) in reply["content"].as_array().unwrap().iter().enumerate() {
                    assert_eq!(replies[at]["message"]["content"][0], *block);
                }
                let users = of_type(&records, "user");
                assert_eq!(users[0]["message"]["content"], result["content"]);
                assert_eq!(users[1]["message"]["content"], prompt["content"]);
            }
        }
        // Nothing of it is lost, and annals reads the blocks as what they are.
        let kept: String = stage
            .tree()
            .values()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect();
        for text in [
            r#""cited_text":"c1""#,
            r#"{"type":"ephemeral"}"#,
            r#""e2""#,
            r#""e3""#,
        ] {
            assert!(kept.contains(text), "{layout}: {text}");
        }
        let shown = stage.annals(&["show", &session, "--json"]).json();
        let shown = shown["entries"].to_string();
        for text in ["Let me look", r#""name":"Bash""#, "a.txt", "And now?"] {
            assert!(shown.contains(text), "{layout}: {text}: {shown}");
        }
        assert!(!shown.contains("opaque"), "{layout}: {shown}");
        stage.annals(&["check"]).fine();
    }
}

/// The SDKs print members without a value as `null`.
#[test]
fn members_of_blocks_that_are_null_are_as_good_as_absent() {
    let reply = |more: &str| {
        format!(
            r#"{{"role":"assistant","model":"m","timestamp":"2026-03-01T12:00:00Z","id":"a1","message_id":"r1","content":[{{"type":"text","text":"x"{more}}}]}}"#
        )
    };
    for layout in LAYOUTS {
        let written = [",\"citations\":null", ""].map(|more| {
            let (stage, session) = begun(layout);
            stage.with_stdin(&["append", &session], reply(more)).fine();
            let last = records(&stage).pop().unwrap();
            last["message"]["content"].to_string()
                + &last["content"].to_string()
                + &last["annals"]["blocks"].to_string()
        });
        assert_eq!(written[0], written[1], "{layout}");
    }
}
