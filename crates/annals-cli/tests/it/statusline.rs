//! Tests of `statusline`.

use std::fs;

use insta::assert_snapshot;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::cost::{self, APP};
use crate::harness::Stage;

const CASE: &str = "2.0.77-s01-multiturn";
const ID: &str = "d0e9190d-2d7a-41f2-b8d2-6157c671981f";

/// The JSON that an agent passes for a session of the fixture.
fn reported(stage: &Stage) -> String {
    let log = stage
        .root
        .join("projects/-home-dev-work-s01-multiturn")
        .join(format!("{ID}.jsonl"));
    serde_json::json!({
        "session_id": ID,
        "transcript_path": log,
        "cwd": "/home/dev/work/s01-multiturn",
        "model": { "id": "claude-sonnet-4-5-20250929", "display_name": "Sonnet \u{1b}[2J4.5" },
        "something": { "else": [1, 2] },
    })
    .to_string()
}

#[test]
fn statusline_prints_one_line() {
    let stage = Stage::with_fixture(CASE);
    assert_snapshot!(
        "statusline",
        stage.with_stdin(&["statusline"], reported(&stage))
    );
    assert_snapshot!(
        "statusline_json",
        stage.with_stdin(&["statusline", "--json"], reported(&stage))
    );
    // The line is the same with the index, without it, and with a new one.
    let line = |args: &[&str]| stage.with_stdin(args, reported(&stage)).out;
    let kept = line(&["statusline"]);
    assert_eq!(line(&["statusline", "--no-index"]), kept);
    fs::remove_dir_all(stage.root.with_file_name("state")).unwrap();
    assert_eq!(line(&["statusline"]), kept);
}

#[test]
fn statusline_prints_parts_in_the_given_order() {
    let stage = Stage::with_fixture(CASE);
    let line = |args: &[&str]| stage.with_stdin(args, reported(&stage)).out;
    let parts = line(&["statusline", "--parts", "context,today"]);
    assert!(parts.contains(" % of 200k │ $"), "{parts}");
    assert!(parts.ends_with(" today\n"), "{parts}");
}

#[test]
fn statusline_warns_of_a_nearly_used_budget() {
    let stage = Stage::with_fixture(CASE);
    let config = stage.root.with_file_name("home").join(".config/annals");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "daily = 0.01\nmonthly = 200\n").unwrap();
    let line = stage.with_stdin(&["statusline"], reported(&stage)).out;
    assert!(line.contains(" % of the daily budget"), "{line}");
    // Of several budgets, the one with the highest percentage is shown.
    fs::write(config.join("config.toml"), "daily = 0.03\nmonthly = 0.01\n").unwrap();
    let line = stage.with_stdin(&["statusline"], reported(&stage)).out;
    assert!(line.contains(" % of the monthly budget"), "{line}");
}

/// Writes a log of one session; each reply has a time, a model and its output tokens.
fn log(stage: &Stage, session: &str, replies: &[(Timestamp, &str, u64)]) {
    let mut lines = String::new();
    for (at, (time, model, output)) in replies.iter().enumerate() {
        let line = json!({
            "type": "assistant", "sessionId": session, "cwd": "/home/mira/app", "version": "2.1.50",
            "uuid": format!("{:08x}-0002-4000-8000-{}", at + 1, &session[24..]), "parentUuid": null,
            "timestamp": time, "requestId": format!("req_{session}{at}"), "isSidechain": false,
            "message": {
                "id": format!("msg_{session}{at}"), "type": "message", "role": "assistant", "model": model,
                "content": [{ "type": "text", "text": "answer" }],
                "usage": { "input_tokens": 1, "output_tokens": output },
            },
        });
        lines += &format!("{line}\n");
    }
    let dir = stage.root.join("projects/-home-mira-app");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join(format!("{session}.jsonl")), lines).unwrap();
}

fn session_log(stage: &Stage) -> std::path::PathBuf {
    let dir = stage.root.join("projects/-home-mira-app");
    dir.join(format!("{APP}.jsonl"))
}

#[test]
fn invalid_statusline_input_omits_only_its_part() {
    let stage = cost::stage();
    let log = session_log(&stage);
    let mut said = json!({
        "session_id": 7, "transcript_path": log, "model": null, "context_window": [], "cwd": -1.5,
    });
    let line = |said: &Value| {
        let run = stage.with_stdin(&["statusline"], said.to_string());
        run.fine().out
    };
    let bare = line(&said);
    assert_snapshot!("statusline_odd", bare);
    said["model"] = "opus".into();
    said["context_window"] = json!({ "context_window_size": 200_000.0 });
    assert_eq!(line(&said), format!("opus │ {bare}"));
}

#[test]
fn statusline_context_matches_show() {
    let stage = cost::stage();
    let shown = stage.annals(&["show", APP, "--last", "1"]).fine().out;
    assert!(shown.contains("context 135k of 200k, 68 %"), "{shown}");
    let log = session_log(&stage);
    let context = |said: Value| {
        let args = ["statusline", "--parts", "context"];
        let line = stage.with_stdin(&args, said.to_string()).fine().out;
        let args = ["statusline", "--json"];
        let json = stage.with_stdin(&args, said.to_string()).json();
        (line.trim_end().to_owned(), json["context"].clone())
    };
    let (line, json) = context(json!({ "transcript_path": log }));
    assert_eq!(line, "68 % of 200k");
    assert_eq!(
        json,
        json!({ "tokens": 135_060, "window": 200_000, "percent": 68 })
    );
    let window = |size: u64| json!({ "context_window_size": size, "used_percentage": 3 });
    // The agent's window takes precedence over the model list.
    let said = json!({ "transcript_path": log, "context_window": window(500_000) });
    assert_eq!(context(said).0, "27 % of 500k");
    let said = json!({ "transcript_path": log, "model": "claude-sonnet-4-5[1m]" });
    assert_eq!(context(said).0, "14 % of 1.0M");
    // A window smaller than its content is not the one in use, so it is ignored.
    let said = json!({ "transcript_path": log, "context_window": window(100_000) });
    let (line, json) = context(said);
    assert_eq!(line, "context 135k");
    assert_eq!(
        json,
        json!({ "tokens": 135_060, "window": null, "percent": null })
    );
    // Without a log, the agent's percentage is used.
    let said = json!({ "context_window": window(200_000) });
    assert_eq!(context(said).0, "3 % of 200k");
    let said = json!({ "context_window": { "used_percentage": 0.5 } });
    let (line, json) = context(said);
    assert_eq!(line, "1 % of the context");
    assert_eq!(
        json,
        json!({ "tokens": null, "window": null, "percent": 1 })
    );
    assert_eq!(context(json!({})), (String::new(), Value::Null));
}

#[test]
fn billing_blocks_without_a_pause_are_counted_from_the_first() {
    let stage = Stage::empty();
    let last: Timestamp = "2026-11-15T11:30:00Z".parse().unwrap();
    // Two responses per block: with blocks counted from 31 days ago, the last one would have ended.
    for back in 0..=188_i32 {
        let time = last - SignedDuration::from_hours(i64::from(4 * back));
        let session = format!("00000000-0000-4000-8000-{back:012}");
        log(&stage, &session, &[(time, "claude-sonnet-4-5", 10)]);
    }
    let block = |args: &[&str]| {
        let args = [&["statusline", "--json"], args].concat();
        stage.with_stdin(&args, "{}").json()["block"].take()
    };
    let kept = block(&[]);
    assert_eq!(kept["start"], "2026-11-15T11:00:00Z");
    assert_eq!(kept["requests"], 1);
    assert_eq!(block(&["--no-index"]), kept);
}

#[test]
fn statusline_marks_unpriced_usage() {
    let at = |text: &str| -> Timestamp { text.parse().unwrap() };
    let (early, late) = (at("2026-11-15T10:30:00Z"), at("2026-11-15T11:30:00Z"));
    let stage = Stage::empty();
    let args = ["statusline", "--parts", "today,block"];
    log(
        &stage,
        APP,
        &[(early, "mystery-9", 10), (late, "mystery-9", 10)],
    );
    assert_snapshot!(stage.with_stdin(&args, "{}").fine().out, @"unpriced today │ unpriced block, 3 h left");
    let json = stage.with_stdin(&["statusline", "--json"], "{}").json();
    assert_eq!(json["today"]["cost_usd"], Value::Null);
    assert_eq!(json["block"]["cost_usd"], Value::Null);
    assert_eq!(json["block"]["cost_per_hour_usd"], Value::Null);
    let stage = Stage::empty();
    let sonnet = "claude-sonnet-4-5";
    log(
        &stage,
        APP,
        &[(early, "mystery-9", 10), (late, sonnet, 100_000)],
    );
    assert_snapshot!(stage.with_stdin(&args, "{}").fine().out, @"≥$1.50 today │ ≥$1.50 block, 3 h left, ≥$1.00/h");
    let stage = Stage::empty();
    log(&stage, APP, &[(early, "mystery-9", 10), (late, sonnet, 1)]);
    assert_snapshot!(stage.with_stdin(&args, "{}").fine().out, @">$0.00 today │ >$0.00 block, 3 h left, >$0.00/h");
}

#[cfg(unix)]
#[test]
fn statusline_accepts_a_transcript_path_through_a_link() {
    let stage = cost::stage();
    let session = |stage: &Stage, log: &std::path::Path, args: &[&str]| {
        let said = json!({ "transcript_path": log }).to_string();
        let args = [&["statusline", "--json"], args].concat();
        stage.with_stdin(&args, said).json()["session"].take()
    };
    let spelled = session_log(&stage);
    let reported = session(&stage, &spelled, &[]);
    assert_eq!(reported["requests"], 6);
    let real = stage.root.with_file_name("elsewhere");
    fs::rename(&stage.root, &real).unwrap();
    std::os::unix::fs::symlink(&real, &stage.root).unwrap();
    let resolved = spelled.canonicalize().unwrap();
    assert!(resolved.starts_with(&real));
    for args in [&[][..], &["--no-index"]] {
        assert_eq!(session(&stage, &spelled, args), reported);
        assert_eq!(session(&stage, &resolved, args), reported);
    }
}

#[test]
fn statusline_accepts_empty_or_unknown_input() {
    let stage = Stage::with_fixture(CASE);
    for stdin in [
        "",
        "{}",
        "{\"session_id\":\"no-such\",\"transcript_path\":\"/no/such\"}",
    ] {
        let run = stage.with_stdin(&["statusline", "--parts", "session,today"], stdin);
        assert!(
            run.out.starts_with('$') && run.out.ends_with(" today\n"),
            "{run}"
        );
    }
    let run = stage.refused(&["statusline"], "no JSON");
    assert_snapshot!("statusline_no_json", run);
}
