//! `append` of messages as the SDKs print them, in each layout.

use serde_json::{Value, json};

use crate::harness::Stage;

const ID: &str = "00000000-0000-4000-8000-0000000000ab";
const LAYOUTS: [&str; 4] = ["claude-code", "chorus", "clog", "orchestrator"];

/// A stage with a new session of this layout, and the session's id.
fn begun(layout: &'static str) -> (Stage, String) {
    let stage = Stage::empty().with_layout(layout);
    let work = stage.work();
    let work = work.to_str().unwrap();
    if layout == "chorus" {
        let added = ["chorus", "workspaces", "add", work, "--id", "ws-1"];
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
fn append_preserves_extra_block_members_outside_the_native_record() {
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
                // The client stores the blocks of the API unchanged.
                let replies = of_type(&records, "assistant");
                for (at, block) in reply["content"].as_array().unwrap().iter().enumerate() {
                    assert_eq!(replies[at]["message"]["content"][0], *block);
                }
                let users = of_type(&records, "user");
                assert_eq!(users[0]["message"]["content"], result["content"]);
                assert_eq!(users[1]["message"]["content"], prompt["content"]);
            }
        }
        // No part of the message is lost, and annals decodes each block as its kind.
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
fn append_treats_null_block_members_as_absent() {
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

/// The companion files of all orchestrator logs.
fn companion_files(stage: &Stage) -> String {
    let files = stage.tree().into_iter();
    let files = files.filter(|(path, _)| path.extension().is_some_and(|end| end == "annals"));
    files
        .map(|(_, bytes)| String::from_utf8(bytes).unwrap())
        .collect()
}

#[test]
fn append_raw_validates_orchestrator_records() {
    let stage = Stage::empty().with_layout("orchestrator");
    let work = stage.work();
    let made = stage.annals(&["new", "--cwd", work.to_str().unwrap(), "--json"]);
    let session = made.json()["session"].as_str().unwrap().to_owned();
    let time = r#""timestamp":"2026-03-01T12:00:00.000Z""#;
    let usage = r#""usage":{"input_tokens":1,"output_tokens":2,"cache_creation_tokens":0,"cache_read_tokens":0}"#;
    for (record, named) in [
        (
            format!(r#"{{"type":"user","content":["x"],{time}}}"#),
            "`content`",
        ),
        (
            r#"{"type":"user","content":"x","timestamp":"garbage"}"#.to_owned(),
            "`timestamp`",
        ),
        (
            format!(r#"{{"type":"user","content":"x",{time},"metadata":{{"source":"web"}}}}"#),
            "`source` is \"web\"",
        ),
        (
            format!(r#"{{"type":"user","content":"x",{time},"metadata":[]}}"#),
            "`metadata`",
        ),
        (
            format!(
                r#"{{"type":"assistant","content":"x",{time},{usage},"model":"m","stopReason":"weird"}}"#
            ),
            "`stopReason`",
        ),
        (
            format!(r#"{{"type":"assistant","content":"x",{time},"usage":{{}},"model":"m"}}"#),
            "`input_tokens`",
        ),
        (
            format!(
                r#"{{"type":"assistant","content":"x",{time},"usage":{{"input_tokens":1,"output_tokens":2}},"model":"m"}}"#
            ),
            "`cache_creation_tokens`",
        ),
        (
            format!(r#"{{"type":"assistant","content":"x",{time},{usage},"model":""}}"#),
            "`model`",
        ),
        (
            format!(r#"{{"type":"tool_call","tool":"T","arguments":"str",{time}}}"#),
            "`arguments`",
        ),
        (
            format!(r#"{{"type":"tool_call","tool":"T","arguments":{{}},{time},"toolCallId":7}}"#),
            "`toolCallId`",
        ),
        (
            format!(r#"{{"type":"tool_result","tool":"T","error":{{}},{time}}}"#),
            "`error`",
        ),
        (
            format!(r#"{{"type":"tool_result","tool":"T","result":1,{time},"duration_ms":"5"}}"#),
            "`duration_ms`",
        ),
    ] {
        let refused = stage.refused(&["append", &session, "--raw"], &record);
        assert!(refused.err.contains(named), "{record}: {refused}");
    }
    for record in [
        format!(r#"{{"type":"user","content":"","metadata":{{"source":"api"}},{time}}}"#),
        format!(
            r#"{{"type":"assistant","content":"x",{time},{usage},"model":"m","stopReason":"end_turn"}}"#
        ),
        format!(r#"{{"type":"tool_call","tool":"T","arguments":{{}},{time}}}"#),
        format!(
            r#"{{"type":"tool_result","tool":"T","result":{{"a":1}},{time},"duration_ms":0.5}}"#
        ),
    ] {
        stage
            .with_stdin(&["append", &session, "--raw"], record)
            .fine();
    }
}

#[test]
fn append_accepts_stop_reason_in_camel_case() {
    for layout in LAYOUTS {
        let (stage, session) = begun(layout);
        let reply = r#"{"role":"assistant","model":"m","content":"x","stopReason":"max_tokens"}"#;
        stage.with_stdin(&["append", &session], reply).fine();
        let lines: String = records(&stage).iter().map(Value::to_string).collect();
        let kept = lines + &companion_files(&stage);
        assert!(kept.contains("max_tokens"), "{layout}: {kept}");
        let both = r#"{"role":"assistant","model":"m","content":"x","stopReason":"max_tokens","stop_reason":"end_turn"}"#;
        let refused = stage.refused(&["append", &session], both);
        assert!(refused.err.contains("`stopReason`"), "{refused}");
        let prompt = r#"{"role":"user","content":"x","stopReason":"end_turn"}"#;
        let refused = stage.refused(&["append", &session], prompt);
        assert!(refused.err.contains("`stopReason`"), "{refused}");
    }
}

#[test]
fn append_stores_extra_usage_members_in_every_layout() {
    let reply = json!({
        "role": "assistant", "model": "claude-sonnet-4-5-20250929", "message_id": "r1",
        "content": [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}],
        "usage": {"input_tokens": 10, "output_tokens": 5, "service_tier": "standard",
                  "inference_geo": "us", "speed": null},
    });
    for layout in LAYOUTS {
        let (stage, session) = begun(layout);
        stage
            .with_stdin(&["append", &session], reply.to_string())
            .fine();
        let lines = records(&stage)
            .iter()
            .map(Value::to_string)
            .collect::<String>();
        let kept = lines.clone() + &companion_files(&stage);
        for text in [r#""service_tier":"standard""#, r#""inference_geo":"us""#] {
            assert_eq!(kept.matches(text).count(), 1, "{layout}: {text}: {kept}");
        }
        // The orchestrator's own program rejects unknown members.
        if layout == "orchestrator" {
            assert!(!lines.contains("service_tier"), "{lines}");
        }
        let cost = stage.annals(&["cost", "--json"]).json();
        assert_eq!(cost["total"]["input"], 10, "{layout}: {cost}");
        stage.annals(&["check"]).fine();
    }
}

#[test]
fn append_error_quotes_values_without_backslashes() {
    let (stage, session) = begun("claude-code");
    let refused = stage.refused(
        &["append", &session],
        r#"{"type":"user","role":"user","content":"x"}"#,
    );
    assert!(refused.err.contains(r#"`type` is "user""#), "{refused}");
}

#[test]
fn append_follow_rejects_session_id_with_path_separator() {
    let (stage, _) = begun("claude-code");
    let line = r#"{"new":{"id":"team/session"},"role":"user","content":"x"}"#;
    let answered = stage.with_stdin(&["append", "--follow"], line);
    let refused = stage.annals(&["new", "--id", "team/session"]);
    assert!(!answered.out.contains("No such file"), "{answered}");
    let why = refused
        .err
        .trim()
        .trim_start_matches("error: ")
        .lines()
        .next()
        .unwrap();
    let answer: Value = serde_json::from_str(answered.out.trim()).unwrap();
    assert_eq!(answer["error"], why, "{refused}");
}

#[test]
fn options_for_one_message_are_refused_with_lines_of_standard_input() {
    let (stage, session) = begun("claude-code");
    for mode in ["--follow", "--raw"] {
        for option in [["--model", "m"], ["--thinking", "hm"], ["--role", "system"]] {
            let [name, value] = option;
            let run = stage.refused(&["append", &session, mode, name, value], "");
            assert!(run.err.contains(name), "{run}");
        }
    }
}

/// A caller that takes exit code 2 for a failed append would write the message again.
#[test]
fn append_exits_0_next_to_an_unrelated_unreadable_file() {
    let (stage, session) = begun("claude-code");
    let folder = stage.root.join("projects/elsewhere");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link.jsonl")).unwrap();
    let run = stage.annals(&["append", &session, "-m", "one"]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.err.contains("link.jsonl"), "{run}");
    let line = json!({"session": session, "role": "user", "content": "two"});
    let run = stage.with_stdin(&["append", "--follow"], line.to_string());
    assert_eq!(run.code, 0, "{run}");
    assert_eq!(stage.annals(&["sessions"]).code, 2);
}

#[test]
fn follow_exits_2_after_a_refused_line() {
    let (stage, session) = begun("claude-code");
    let lines = format!(
        "{}\n{}\n",
        json!({"session": session, "role": "nobody", "content": "x"}),
        json!({"session": session, "role": "user", "content": "y"}),
    );
    let run = stage.with_stdin(&["append", "--follow"], lines);
    assert_eq!(run.code, 2, "{run}");
    let answers: Vec<Value> = run
        .out
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    assert_eq!(
        (&answers[0]["ok"], &answers[1]["ok"]),
        (&json!(false), &json!(true))
    );
}
