//! `annals statusline`.

use std::fs;

use insta::assert_snapshot;

use crate::harness::Stage;

const CASE: &str = "2.0.77-s01-multiturn";
const ID: &str = "d0e9190d-2d7a-41f2-b8d2-6157c671981f";

/// What an agent says of one of the fixture's sessions.
fn told(stage: &Stage) -> String {
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
fn one_line_of_all_that_is_known() {
    let stage = Stage::of(CASE);
    assert_snapshot!(
        "statusline",
        stage.with_stdin(&["statusline"], told(&stage))
    );
    assert_snapshot!(
        "statusline_json",
        stage.with_stdin(&["statusline", "--json"], told(&stage))
    );
    // What was read before, and what was not, give the same line.
    let line = |args: &[&str]| stage.with_stdin(args, told(&stage)).out;
    let kept = line(&["statusline"]);
    assert_eq!(line(&["statusline", "--no-index"]), kept);
    fs::remove_dir_all(stage.root.with_file_name("state")).unwrap();
    assert_eq!(line(&["statusline"]), kept);
}

#[test]
fn parts_in_the_order_asked_for() {
    let stage = Stage::of(CASE);
    let line = |args: &[&str]| stage.with_stdin(args, told(&stage)).out;
    let parts = line(&["statusline", "--parts", "context,today"]);
    assert!(parts.contains(" % of 200k │ $"), "{parts}");
    assert!(parts.ends_with(" today\n"), "{parts}");
}

#[test]
fn a_budget_that_is_nearly_gone_is_told() {
    let stage = Stage::of(CASE);
    let config = stage.root.with_file_name("home").join(".config/annals");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "daily = 0.01\nmonthly = 200\n").unwrap();
    let line = stage.with_stdin(&["statusline"], told(&stage)).out;
    assert!(line.contains(" % of the daily budget"), "{line}");
}

#[test]
fn little_or_nothing_on_standard_input() {
    let stage = Stage::of(CASE);
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
