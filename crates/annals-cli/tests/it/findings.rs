//! Errors, warnings and notes in every verb, and errors in JSON in plain words.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Run, Stage};

const SESSION: &str = "00000000-0000-4000-8000-000000000001";

/// A message of the session.
fn message(number: u32) -> String {
    let record = json!({
        "type": "user", "uuid": format!("u{number}"),
        "parentUuid": (number > 1).then(|| format!("u{}", number - 1)),
        "sessionId": SESSION, "cwd": "/w", "timestamp": "2026-11-13T09:00:00.000Z",
        "message": {"role": "user", "content": format!("prompt {number}")},
    });
    format!("{record}\n")
}

/// A root with one session.
fn stage(log: &str) -> Stage {
    let stage = Stage::empty();
    let folder = stage.root.join("projects/-w");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{SESSION}.jsonl")), log).unwrap();
    stage.settle();
    stage
}

/// Asserts that verbs report the same errors and warnings.
#[track_caller]
fn assert_reported(stage: &Stage, mark: &str, text: &str, counts: [u64; 2]) {
    let overview = stage.annals(&[]).fine();
    let line = format!("{mark} {text} in 1 session: annals check\n");
    assert!(overview.out.contains(&line), "{overview}");
    let shown = stage.annals(&["show", SESSION]).fine();
    let line = format!("{mark} {text}: annals check {SESSION}\n");
    assert!(shown.out.ends_with(&line), "{shown}");
    let tree = stage.annals(&["tree", SESSION]).fine();
    assert!(tree.out.contains(&line), "{tree}");
    let overview = stage.annals(&["--json"]).json();
    let sessions = stage.annals(&["sessions", "--json"]).json();
    for counted in [&overview, &sessions["sessions"][0]] {
        let reported = ["errors", "warnings"].map(|name| counted[name].as_u64().unwrap());
        assert_eq!(reported, counts, "{counted}");
    }
    let damaged = u64::from(counts[0] > 0);
    assert_eq!(overview["damaged_sessions"], damaged, "{overview}");
}

#[test]
fn every_verb_counts_errors_and_warnings_alike() {
    let torn = message(2);
    let torn = &torn[..40];
    let warned = stage(&(message(1) + torn));
    assert_reported(&warned, "!", "1 warning", [0, 1]);
    let listed = warned.annals(&["sessions"]).fine();
    assert!(listed.out.contains("1 warning"), "{listed}");
    let checked = warned.annals(&["check"]).fine();
    let summary = "! 1 file, 2 lines, ";
    assert!(checked.out.contains(summary), "{checked}");
    assert!(
        checked.out.contains(": no errors found, 1 warning"),
        "{checked}"
    );

    let damaged = stage(&(message(1) + "{bad}\n{worse}\n" + torn));
    assert_reported(&damaged, "✗", "2 errors and 1 warning", [2, 1]);
    let listed = damaged.annals(&["sessions"]).fine();
    assert!(listed.out.contains("2 errors"), "{listed}");
    let checked = damaged.annals(&["check"]);
    assert_eq!(checked.code, 1, "{checked}");
    assert!(checked.out.contains("\n✗ 1 file, 4 lines, "), "{checked}");
}

/// The overview once warned about a note, after which `check` found nothing.
#[test]
fn notes_are_no_reason_to_check() {
    let stage = stage(&(message(1) + &message(1)));
    let overview = stage.annals(&[]).fine();
    assert!(
        overview.out.contains("✓ no errors in session logs"),
        "{overview}"
    );
    for verb in [&["sessions"][..], &["show", SESSION], &["tree", SESSION]] {
        let run = stage.annals(verb).fine();
        for word in ["error", "warning", "flaw", "annals check"] {
            assert!(!run.out.contains(word), "{run}");
        }
    }
    let checked = stage.annals(&["check"]).fine();
    assert!(checked.out.starts_with("✓ 1 file, 2 lines, "), "{checked}");
    let summary = ": no errors found, 1 note (--all shows them)\n";
    assert!(checked.out.ends_with(summary), "{checked}");
}

#[test]
fn check_lists_many_findings_only_if_asked() {
    let bad = "{bad}\n".repeat(12);
    let stage = stage(&(message(1) + &bad));
    let hint = "`annals check --details` lists every finding\n";
    let is_list = |run: &Run| run.out.contains("LINE  OFFSET  SEVERITY  KIND");
    let table = stage.annals(&["check"]);
    assert!(table.out.starts_with("SEVERITY  KIND"), "{table}");
    assert!(table.out.ends_with(hint) && !is_list(&table), "{table}");
    let advice = "\n  `annals repair` quarantines the line and relinks its children\n";
    assert!(table.out.contains(advice), "{table}");
    for args in [&["--limit", "10"][..], &[SESSION]] {
        let run = stage.annals(&[&["check"], args].concat());
        assert!(run.out.starts_with("SEVERITY  KIND"), "{run}");
        assert!(is_list(&run) && !run.out.contains(hint), "{run}");
        assert!(run.out.contains("… 2 more: --limit 12\n"), "{run}");
    }
    for args in [&["--details"][..], &["--limit", "12"]] {
        let all = stage.annals(&[&["check"], args].concat());
        assert!(is_list(&all) && !all.out.contains("more: --limit"), "{all}");
    }
}

#[test]
fn check_lists_few_findings_unasked() {
    let stage = stage(&(message(1) + "{bad}\n"));
    let run = stage.annals(&["check"]);
    let detail = "not JSON: a key has no quotes (column 2): {bad}\n";
    assert!(run.out.contains(detail), "{run}");
    assert!(!run.out.contains("--details"), "{run}");
}

const BROKEN: [&str; 6] = ["{", "[1", "{\"a\":}", "3", "nope", "{\"type\":3}"];

/// Asserts that no message of the parser is printed.
#[track_caller]
fn assert_plain_words(run: &Run, what: &str) {
    for words in [
        "at line",
        "EOF while",
        "expected value",
        "expected ident",
        "expected struct",
        "invalid type",
        "missing field",
        "key must be",
        "trailing characters",
    ] {
        for text in [&run.out, &run.err] {
            assert!(!text.contains(words), "{what}: {run}");
        }
    }
}

#[test]
fn errors_in_json_are_reported_in_plain_words() {
    for broken in BROKEN {
        let stage = stage(&message(1));
        let file = stage.work().join("export.jsonl");
        for text in [
            broken.to_owned(),
            format!("{{\"sessions\": {broken}}}"),
            format!("{{\"type\":\"session\",\"id\":{broken}}}"),
        ] {
            fs::write(&file, &text).unwrap();
            let run = stage.annals(&["import", file.to_str().unwrap()]);
            assert_plain_words(&run, &format!("import of {text}"));
            assert_ne!(run.code, 0, "{run}");
        }
        for verb in [
            &["append", SESSION][..],
            &["append", SESSION, "--raw"],
            &["append", SESSION, "--follow"],
            &["todos", "set", SESSION, "-"],
            &["statusline"],
        ] {
            let run = stage.with_stdin(verb, format!("{broken}\n"));
            assert_plain_words(&run, &format!("{verb:?} of {broken}"));
        }
        let damaged = self::stage(&format!("{}{broken}\n", message(1)));
        let run = damaged.annals(&["check", "--details", "--all"]);
        assert_plain_words(&run, &format!("check of {broken}"));
        let run = damaged.annals(&["repair"]);
        assert_plain_words(&run, &format!("repair of {broken}"));
    }
}

#[test]
fn errors_in_documents_are_reported_in_plain_words() {
    for broken in BROKEN {
        let stage = Stage::with_fixture_of("chorus", "chorus-plain");
        fs::write(stage.root.join("config.json"), broken).unwrap();
        for verb in [
            &["sessions"][..],
            &["chorus", "workspaces"],
            &["chorus", "settings"],
            &["check", "--details"],
        ] {
            let run = stage.annals(verb);
            assert_plain_words(&run, &format!("{verb:?} of {broken}"));
        }
    }
}

#[test]
fn new_session_in_a_missing_directory_is_created_with_a_warning() {
    let stage = Stage::empty();
    let work = stage.work();
    let there = stage.annals(&["new", "--cwd", work.to_str().unwrap()]);
    assert_eq!(there.fine().err, "");
    let gone = work.join("gone");
    let run = stage
        .annals(&["new", "--cwd", gone.to_str().unwrap()])
        .fine();
    let warning = "is not an existing directory; the session was created anyway";
    assert!(run.err.starts_with("warning: "), "{run}");
    assert!(run.err.contains(warning), "{run}");
    let line = json!({"new": {"cwd": gone}, "role": "user", "content": "x"});
    let answers = stage.with_stdin(&["append", "--follow"], format!("{line}\n"));
    let answer: Value = serde_json::from_str(&answers.fine().out).unwrap();
    assert_eq!(answer["ok"], true, "{answer}");
    assert!(answer["warning"].as_str().unwrap().contains(warning));
}

#[test]
fn overview_sums_all_time() {
    let stage = Stage::with_fixture("2.1.325-s02-tools");
    let text = stage.annals(&[]).fine();
    assert!(text.out.contains("\nall time "), "{text}");
    let overview = stage.annals(&["--json"]).json();
    let all = &overview["all_time"];
    for name in ["sessions", "messages"] {
        assert_eq!(all[name], overview[name], "{overview}");
    }
    let cost = stage.annals(&["cost", "--json"]).json();
    assert_eq!(all["cost_usd"], cost["total"]["cost_usd"], "{overview}");
}
