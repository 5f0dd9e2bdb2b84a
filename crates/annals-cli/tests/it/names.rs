//! Names of sessions: `latest`, titles, deleted sessions and messages; and homes without sessions.

use std::fs;

use crate::harness::{Run, Stage};

const FLAKY: &str = "00000000-0000-4000-8000-000000000001";
const DARK: &str = "00000001-0000-4000-8000-000000000002";
const DARKER: &str = "00000002-0000-4000-8000-000000000003";

/// Three sessions with titles, the first of them in the working directory.
fn titled() -> Stage {
    let stage = Stage::empty();
    let work = stage.work();
    for (id, cwd, title) in [
        (FLAKY, work.to_str().unwrap(), "Fix the flaky upload test"),
        (DARK, "/home/dev/site", "Dark mode"),
        (DARKER, "/home/dev/site", "Dark mode for the settings page"),
    ] {
        stage
            .annals(&["new", "--id", id, "--cwd", cwd, "-m", "question"])
            .fine();
        stage.annals(&["title", id, title]).fine();
    }
    stage
}

/// Runs the program in a directory without sessions.
fn elsewhere(stage: &Stage, args: &[&str]) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let root = format!("claude-code:{}", stage.root.display());
    let mut command = stage.command();
    command
        .current_dir(dir.path())
        .args(["--root", &root])
        .args(args);
    stage.run_of(&command.output().unwrap())
}

/// Runs the program and returns its answer with the ids as they are.
fn unmasked(stage: &Stage, args: &[&str]) -> serde_json::Value {
    let root = format!("claude-code:{}", stage.root.display());
    let run = stage.command().args(["--root", &root]).args(args).output();
    serde_json::from_slice(&run.unwrap().stdout).unwrap()
}

#[test]
fn last_means_latest() {
    let stage = titled();
    for name in ["latest", "last"] {
        let shown = unmasked(&stage, &["show", name, "--json"]);
        assert_eq!(shown["session"]["id"], FLAKY, "{name}");
        let tagged = stage.annals(&["tag", name, "x", "--json"]).json();
        assert_eq!(tagged["session"], FLAKY, "{name}");
        let message = shown["entries"][0]["id"].as_str().unwrap();
        let shown = stage.annals(&["show", &format!("{name}@{message}"), "--json"]);
        assert_eq!(shown.json()["session"]["id"], FLAKY, "{name}");
        let refused = stage.refused(&["new", "--id", name], "");
        assert!(refused.err.contains("cannot be the id"), "{refused}");
    }
}

#[test]
fn reading_verbs_take_the_latest_of_all_elsewhere() {
    let stage = titled();
    for args in [
        &["files", "last"][..],
        &["todos", "last"],
        &["notes", "last"],
        &["tag", "last"],
        &["cost", "--session", "last"],
        &["tree", "last"],
    ] {
        let run = elsewhere(&stage, args);
        assert!(run.code < 2, "{args:?}: {run}");
        assert!(run.err.contains("the latest of all"), "{args:?}: {run}");
    }
    for args in [&["tag", "last", "x"][..], &["title", "latest", "x"]] {
        let run = elsewhere(&stage, args);
        assert_eq!(run.code, 2, "{args:?}: {run}");
        assert!(run.err.contains("the latest of all is"), "{args:?}: {run}");
    }
}

#[test]
fn title_names_a_session() {
    let stage = titled();
    for name in ["flaky", "FLAKY upload", "Fix the flaky upload test"] {
        for verb in ["show", "tree"] {
            let found = stage.annals(&[verb, name, "--json"]).json();
            assert_eq!(found["session"]["id"], FLAKY, "{verb} {name}");
        }
        for args in [
            &["files", name][..],
            &["todos", name],
            &["notes", name],
            &["tag", name],
            &["conversations", name],
            &["check", name],
            &["repair", name],
            &["export", name],
            &["delete", name],
            &["cost", "--session", name],
            &["search", "question", "--session", name],
        ] {
            let run = stage.annals(args);
            assert!(run.code < 2, "{args:?}: {run}");
        }
    }
    stage.annals(&["pin", "flaky"]).fine();
    stage.annals(&["fork", "flaky"]).fine();
    // An exact title comes before a part of another.
    let found = stage.annals(&["show", "dark mode", "--json"]).json();
    assert_eq!(found["session"]["id"], DARK);
    let shown = unmasked(&stage, &["show", "dark mode", "--json"]);
    let message = shown["entries"][0]["id"].as_str().unwrap();
    let found = stage.annals(&["show", &format!("dark mode@{message}"), "--json"]);
    assert_eq!(found.json()["session"]["id"], DARK);
    let refused = stage.refused(&["show", "dark"], "");
    for text in [DARK, DARKER, "Dark mode for the settings page"] {
        assert!(refused.err.contains(text), "{refused}");
    }
    for name in ["fl", "nothing of the kind", "dark mode@ffff"] {
        stage.refused(&["show", name], "");
    }
}

#[test]
fn ambiguous_prefix_lists_titles() {
    let refused = titled().refused(&["show", "0000000"], "");
    for text in ["Fix the flaky upload test", "Dark mode"] {
        assert!(refused.err.contains(text), "{refused}");
    }
}

#[test]
fn lines_of_programs_name_no_titles() {
    let stage = titled();
    let line = r#"{"session":"flaky","role":"user","content":"x"}"#;
    let run = stage.with_stdin(&["append", "--follow"], line);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.out.contains("no session matches"), "{run}");
}

#[test]
fn deleted_session_is_said_to_be_in_the_trash() {
    let stage = titled();
    stage.annals(&["delete", FLAKY, "--apply"]).fine();
    for name in [FLAKY, "00000000", "flaky upload", "00000000@ffff"] {
        for args in [
            &["show", name][..],
            &["tree", name],
            &["append", name, "-m", "x"],
            &["export", name],
            &["check", name],
            &["repair", name],
            &["delete", name],
            &["restore", name],
            &["pin", name],
            &["watch", name],
            &["search", "x", "--session", name],
        ] {
            let run = stage.refused(args, "");
            let reported = format!("session {FLAKY} was deleted ");
            assert!(run.err.contains(&reported), "{args:?}: {run}");
            assert!(run.err.contains("annals delete --undo "), "{args:?}: {run}");
        }
    }
    let run = stage.annals(&["show", FLAKY, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["error"]["kind"], "deleted", "{report}");
    let listed = stage.annals(&["delete", "--list"]).fine();
    assert!(listed.out.contains("Fix the flaky"), "{listed}");
    let listed = stage.annals(&["delete", "--list", "--json"]).json();
    assert_eq!(listed["trashed"][0]["title"], "Fix the flaky upload test");
}

#[test]
fn undo_takes_titles_and_the_last_deletion() {
    let stage = titled();
    let back = |name: &str| {
        let undone = stage.annals(&["delete", "--undo", name, "--json"]).json();
        undone["sessions"][0]["session"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    stage.annals(&["delete", FLAKY, DARK, "--apply"]).fine();
    assert_eq!(back("flaky"), FLAKY);
    assert_eq!(back("last"), DARK);
    stage.refused(&["delete", "--undo", "last"], "");
}

#[test]
fn newest_plan_is_the_last() {
    let stage = titled();
    let plans = stage.root.join("plans");
    fs::create_dir_all(&plans).unwrap();
    for (name, seconds) in [("old", 1_000), ("new", 2_000)] {
        let path = plans.join(format!("{name}.md"));
        fs::write(&path, format!("# {name}\n")).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        file.set_modified(time).unwrap();
    }
    let plan = stage.annals(&["plans", "last", "--json"]).json();
    assert_eq!(plan["plans"][0]["name"], "new");
}

#[test]
fn verbs_for_whole_sessions_refuse_a_message() {
    let stage = titled();
    let shown = stage.annals(&["show", FLAKY, "--json"]).json();
    let message = shown["entries"][0]["id"].as_str().unwrap();
    for message in [message, "ffff"] {
        let name = format!("{FLAKY}@{message}");
        for args in [
            &["tree", name.as_str()][..],
            &["check", &name],
            &["repair", &name],
            &["archive", &name],
            &["delete", &name],
            &["pin", &name],
            &["files", &name],
            &["search", "x", "--session", &name],
        ] {
            let run = stage.refused(args, "");
            assert!(run.err.contains("expected a whole session"), "{run}");
        }
    }
}

#[test]
fn conversations_through_a_message_are_listed() {
    let stage = titled();
    let shown = unmasked(&stage, &["show", FLAKY, "--json"]);
    let first = shown["entries"][0]["id"].as_str().unwrap().to_owned();
    let added = |text: &str| {
        let args = [
            "append", FLAKY, "--at", &first, "-m", text, "--live", "--json",
        ];
        let added = unmasked(&stage, &args);
        added["entries"][0]["id"].as_str().unwrap().to_owned()
    };
    let (one, _) = (added("one way"), added("another"));
    let count = |message: &str| {
        let name = format!("{FLAKY}@{message}");
        let listed = stage.annals(&["conversations", &name, "--json"]).json();
        listed["conversations"].as_array().unwrap().len()
    };
    assert_eq!((count(&first), count(&one)), (2, 1));
    let missing = format!("{FLAKY}@ffff");
    let refused = stage.refused(&["conversations", &missing], "");
    assert!(refused.err.contains("no message matches"), "{refused}");
}

#[test]
fn line_after_the_end_of_a_log_is_refused() {
    let stage = titled();
    let refused = stage.refused(&["show", &format!("{FLAKY}@:9999")], "");
    assert!(refused.err.contains("there is no line 9999"), "{refused}");
    assert!(!refused.err.contains(".jsonl"), "{refused}");
}

/// Without a terminal there is nobody to choose.
#[test]
fn missing_session_is_an_error_without_a_terminal() {
    let stage = titled();
    for args in [
        &["show"][..],
        &["tree"],
        &["files"],
        &["fork"],
        &["compact", "--summary", "x"],
        &["tag"],
        &["export"],
        &["convert", "--to", "clog"],
        &["delete"],
        &["restore"],
        &["append"],
        &["append", "-m", "x"],
    ] {
        let run = stage.refused(args, "");
        assert!(run.err.contains("no session given"), "{args:?}: {run}");
    }
}

#[test]
fn every_verb_reports_that_there_are_no_sessions() {
    let stage = Stage::empty();
    fs::create_dir(&stage.root).unwrap();
    // Only settings are not a history.
    fs::write(stage.root.join("settings.json"), "{}").unwrap();
    stage.settle();
    for args in [
        &["--no-pager"][..],
        &["projects"],
        &["sessions"],
        &["conversations"],
        &["search", "x"],
        &["todos"],
        &["notes"],
        &["plans"],
        &["history"],
        &["check"],
        &["repair"],
        &["clean"],
        &["keep", "-q"],
        &["archive", "--older-than", "30d"],
    ] {
        let run = stage.annals(args);
        // Having nothing to repair or to clean up is no failure.
        let code = i32::from(!["repair", "clean"].contains(&args[0]));
        assert_eq!(run.code, code, "{args:?}: {run}");
        assert!(run.out.contains("[DIR]/root"), "{args:?}: {run}");
        assert!(!run.out.contains('✓'), "{args:?}: {run}");
    }
    for args in [
        &["show", "x"][..],
        &["tree", "latest"],
        &["export", "-p", "x"],
        &["convert", "x", "--to", "clog"],
        &["delete", "-p", "x"],
    ] {
        let run = stage.refused(args, "");
        assert!(run.err.contains("no sessions in [DIR]/root"), "{run}");
    }
    for verb in ["check", "keep"] {
        let run = stage.annals(&[verb, "--json"]);
        assert_eq!(run.code, 1, "{verb}: {run}");
        let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(report["ok"], false, "{verb}: {report}");
    }
}

#[test]
fn keep_reports_the_archived_sessions_of_an_empty_root() {
    let stage = titled();
    stage.annals(&["keep"]).fine();
    fs::remove_dir_all(stage.root.join("projects")).unwrap();
    for verb in ["keep", "check"] {
        let run = stage.annals(&[verb]);
        assert_eq!(run.code, 1, "{verb}: {run}");
        assert!(run.out.contains("The archive has 3 sessions"), "{run}");
    }
}

#[test]
fn days_are_accepted_as_ages_and_dates() {
    let stage = titled();
    // The clock is that of a Sunday.
    for args in [
        &["sessions", "--since", "last week"][..],
        &["history", "--until", "3 days ago"],
        &["search", "question after:monday"],
        &["search", "question", "--since", "Monday"],
        &["clean", "--older-than", "yesterday"],
        &["prices", "--on", "last month"],
    ] {
        let run = stage.annals(args);
        assert!(run.code < 2, "{args:?}: {run}");
    }
    let refused = stage.refused(&["search", "after:someday"], "");
    assert!(refused.err.contains("last week"), "{refused}");
    let future = ["clean", "--older-than", "2027-01-01", "--apply"];
    let refused = stage.refused(&future, "");
    assert!(refused.err.contains("in the future"), "{refused}");
}
