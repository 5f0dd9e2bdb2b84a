//! Deep nesting, huge lines and many files, which must not exhaust memory or file descriptors.

use std::fs;

use super::{ID, begun, limited};
use crate::harness::Stage;

/// Address space limit in KiB: the program, its threads and their stacks.
const MEMORY: &str = "ulimit -v 1500000";

#[track_caller]
fn survives(stage: &Stage, limit: &str, verbs: &[&[&str]]) {
    let root = format!("claude-code:{}", stage.root.display());
    for verb in verbs {
        let output = limited(stage, limit, &[&["--root", root.as_str()], *verb].concat());
        let run = stage.run_of(&output);
        let shown: String = run.err.chars().take(2_000).collect();
        assert!((0..=2).contains(&run.code), "{verb:?}: {shown}");
        assert!(
            !shown.contains("panicked") && !shown.contains("allocation"),
            "{verb:?}: {shown}"
        );
    }
}

/// CPU seconds that any of these commands may take. Each takes less than two.
const TIME: &str = "ulimit -t 20";

fn fast(stage: &Stage, layout: &str, verbs: &[&[&str]]) {
    let root = format!("{layout}:{}", stage.root.display());
    for verb in verbs {
        let output = limited(stage, TIME, &[&["--root", root.as_str()], *verb].concat());
        let run = stage.run_of(&output);
        assert_eq!(run.code, 0, "{layout} {verb:?}: {run}");
    }
}

/// OpenCode stored each message and each part in a file of its own.
#[test]
fn thousands_of_message_files_are_read_in_linear_time() {
    let stage = Stage::empty();
    let storage = stage.root.join("storage");
    let put = |path: String, text: String| {
        let path = storage.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put(
        "session/p/ses_1.json".to_owned(),
        r#"{"id":"ses_1","directory":"/w","title":"t","version":"1.1","time":{"created":1,"updated":2}}"#.to_owned(),
    );
    for message in 0..6_000 {
        put(
            format!("message/ses_1/msg_{message}.json"),
            format!(r#"{{"id":"msg_{message}","role":"user","time":{{"created":{message}}}}}"#),
        );
        for part in 0..2 {
            put(
                format!("part/msg_{message}/prt_{message}_{part}.json"),
                format!(r#"{{"id":"prt_{message}_{part}","type":"text","text":"word {message}"}}"#),
            );
        }
    }
    fast(
        &stage,
        "opencode",
        &[&["sessions"], &["show", "ses_1", "--last", "1"]],
    );
}

/// Copilot stores the events of all sub-agents in the log of their session.
#[test]
fn log_with_a_thousand_sub_agents_is_derived_once() {
    let stage = Stage::empty();
    let log = stage.root.join(format!("session-state/{ID}/events.jsonl"));
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    let event = |kind: &str, data: &str, agent: usize| {
        format!(
            "{{\"type\":\"{kind}\",\"data\":{data},\"id\":\"{kind}-{agent}\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"agentId\":\"a{agent}\"}}\n"
        )
    };
    let mut text = format!(
        "{{\"type\":\"session.start\",\"data\":{{\"sessionId\":\"{ID}\",\"context\":{{\"cwd\":\"/w\"}}}},\"id\":\"e\",\"timestamp\":\"2026-01-01T00:00:00Z\"}}\n"
    );
    let content = format!(r#"{{"content":"{}"}}"#, "word ".repeat(200));
    for agent in 0..1_000 {
        text += &event(
            "subagent.started",
            r#"{"toolCallId":"c","agentType":"t"}"#,
            agent,
        );
        text += &event("user.message", &content, agent);
    }
    fs::write(&log, text).unwrap();
    stage.settle_times();
    fast(
        &stage,
        "copilot",
        &[
            &["--no-index", "sessions"],
            &["search", "word", "--limit", "1"],
        ],
    );
}

const LOOKING: [&[&str]; 12] = [
    &[],
    &["sessions", "--json"],
    &["conversations"],
    &["show", ID, "--json"],
    &["show", ID],
    &["tree", ID],
    &["search", "question"],
    &["cost"],
    &["check"],
    &["files", ID],
    &["todos"],
    &["export", ID, "-f", "html"],
];

#[test]
fn deep_nesting_stays_within_the_memory_limit() {
    let deep =
        |open: &str, close: &str| format!("{}{}", open.repeat(200_000), close.repeat(200_000));
    let stage = begun();
    let log = stage.log_path(ID);
    let mut text = fs::read_to_string(&log).unwrap();
    let record = |content: &str| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"{ID}\",\"sessionId\":\"{ID}\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"message\":{{\"role\":\"user\",\"content\":{content}}}}}\n"
        )
    };
    text.push_str(&"[".repeat(200_000));
    text.push('\n');
    text.push_str(&(deep("[", "]") + "\n"));
    text.push_str(&record(&deep("[", "]")));
    text.push_str(&record(&deep("{\"a\":", "}").replace(":}", ":1}")));
    text.push_str(&record("\"question 2\""));
    fs::write(&log, text).unwrap();
    fs::create_dir_all(stage.root.join("todos")).unwrap();
    fs::write(
        stage.root.join(format!("todos/{ID}-agent-{ID}.json")),
        deep("[", "]"),
    )
    .unwrap();
    survives(&stage, MEMORY, &LOOKING);
    // The records around it are still read.
    let found = stage.annals(&["search", "question", "--json"]).json();
    assert_eq!(found["total"], 2);
}

#[test]
fn line_above_the_length_limit_stays_within_the_memory_limit() {
    let stage = begun();
    let log = stage.log_path(ID);
    let mut text = fs::read(&log).unwrap();
    // A line longer than `MAX_LINE`, with a record after it.
    let long = annals::jsonl::MAX_LINE + (1 << 20);
    text.extend_from_slice(b"{\"type\":\"user\",\"message\":{\"content\":\"");
    text.resize(text.len() + long, b'x');
    text.extend_from_slice(b"\"}}\n");
    text.extend_from_slice(
        format!("{{\"type\":\"user\",\"uuid\":\"{ID}\",\"sessionId\":\"{ID}\",\"message\":{{\"role\":\"user\",\"content\":\"question 2\"}}}}\n").as_bytes(),
    );
    fs::write(&log, text).unwrap();
    survives(
        &stage,
        MEMORY,
        &[&["sessions"], &["check"], &["show", ID], &["cost"]],
    );
    // With and without the index, the line is reported and the records around it are found.
    for flags in [&["--no-index"][..], &[], &[]] {
        let search = [flags, &["search", "question", "--json"]].concat();
        let run = stage.annals(&search);
        assert_eq!(run.code, 2, "{flags:?}: {}", run.err);
        let found: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(found["total"], 2);
        let problem = found["problems"][0]["error"].as_str().unwrap();
        assert!(problem.contains("longer than 64 MiB"), "{problem}");
    }
    let export = stage.annals(&["export", ID, "--format", "json"]);
    assert!(export.err.contains("annals check"), "{}", export.err);
}

#[test]
fn huge_ids_and_counters_stay_within_the_memory_limit() {
    let stage = begun();
    let log = stage.log_path(ID);
    let mut text = fs::read_to_string(&log).unwrap();
    let mega = "i".repeat(1 << 20);
    text.push_str(&format!("{{\"type\":\"user\",\"uuid\":\"{mega}\",\"parentUuid\":\"{mega}\",\"sessionId\":\"{mega}\",\"message\":{{\"role\":\"user\",\"content\":\"question 2\"}}}}\n"));
    text.push_str(&format!("{{\"type\":\"{mega}\",\"{mega}\":1}}\n"));
    for (at, usage) in [
        "{\"input_tokens\":-5,\"output_tokens\":-9223372036854775808}",
        "{\"input_tokens\":18446744073709551615,\"output_tokens\":18446744073709551615}",
        "{\"input_tokens\":18446744073709551616,\"output_tokens\":1e400}",
        "{\"input_tokens\":1e308,\"output_tokens\":\"NaN\"}",
        "{\"input_tokens\":0.5,\"output_tokens\":null}",
        "{\"input_tokens\":[],\"output_tokens\":{}}",
        "{\"input_tokens\":NaN,\"output_tokens\":Infinity}",
        "{\"input_tokens\":7,\"output_tokens\":8}",
    ]
    .iter()
    .enumerate()
    {
        text.push_str(&format!("{{\"type\":\"assistant\",\"uuid\":\"0000000{at}-0000-4000-8000-00000000000a\",\"sessionId\":\"{ID}\",\"requestId\":\"r{at}\",\"timestamp\":\"2026-11-01T00:00:0{at}Z\",\"message\":{{\"id\":\"m{at}\",\"role\":\"assistant\",\"model\":\"claude-sonnet-4-5\",\"content\":[],\"usage\":{usage}}}}}\n"));
    }
    fs::write(&log, text).unwrap();
    survives(&stage, MEMORY, &LOOKING);
    let cost = stage.annals(&["cost", "--json"]).json();
    let spent = cost["total"]["cost_usd"].as_str().unwrap_or_default();
    assert!(!spent.starts_with('-'), "{cost}");
    assert!(cost["total"]["output"].as_u64().unwrap() >= 8, "{cost}");
    for key in ["input", "output"] {
        assert!(cost["total"][key].is_u64(), "{cost}");
    }
}

#[test]
fn many_tiny_files_stay_within_the_limits() {
    tiny_files(4_000);
}

#[test]
#[ignore = "takes minutes; run it with --run-ignored all"]
fn hundred_thousand_tiny_files_stay_within_the_limits() {
    tiny_files(100_000);
}

fn tiny_files(files: usize) {
    let stage = Stage::empty();
    let folder = stage.root.join("projects/-w");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..files {
        fs::write(
            folder.join(format!("{number:08x}-0000-4000-8000-000000000000.jsonl")),
            "{}\n",
        )
        .unwrap();
    }
    survives(
        &stage,
        MEMORY,
        &[
            &["sessions", "-n", "1"],
            &["check"],
            &["clean", "--older-than", "0d", "--json"],
        ],
    );
}

/// More sub-agents than a process may have open files.
#[test]
fn session_with_many_files_is_deleted_and_undeleted() {
    let stage = begun();
    let agents = stage.log_path(ID).with_extension("").join("subagents");
    fs::create_dir_all(&agents).unwrap();
    for number in 0..200 {
        let line = format!(
            "{{\"type\":\"user\",\"sessionId\":\"{ID}\",\"agentId\":\"a{number}\",\"isSidechain\":true}}\n"
        );
        fs::write(agents.join(format!("agent-a{number}.jsonl")), line).unwrap();
    }
    stage.settle_times();
    let before = stage.tree();
    survives(
        &stage,
        "ulimit -n 120",
        &[&["delete", ID, "--apply"], &["delete", "--undo", ID]],
    );
    assert!(stage.tree() == before);
    let trash = stage.root.with_file_name("state").join("undo");
    assert_eq!(fs::read_dir(trash).unwrap().count(), 0);
}
