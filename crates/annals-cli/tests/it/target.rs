//! Paths as arguments: a sub-agent's log, files that are not logs, files named like ids.

use std::fs;
use std::path::PathBuf;

use insta::assert_snapshot;

use crate::harness::Stage;

/// A session, and the log of one of its sub-agents.
fn with_agent() -> (Stage, String, PathBuf) {
    let stage = Stage::with_fixture("subagents-every-placement");
    let log = stage
        .tree()
        .into_keys()
        .find(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("agent-")
                && name.ends_with(".jsonl")
                && path.parent().unwrap().ends_with("subagents")
        })
        .unwrap();
    let session = log.ancestors().nth(2).unwrap();
    let session = session.file_name().unwrap().to_str().unwrap().to_owned();
    (stage, session, log)
}

#[test]
fn two_layouts_in_one_directory_are_counted_separately() {
    let stage = Stage::with_fixture("branch-edited-prompt");
    let both = format!("claude-code:{}", stage.root.display());
    let other = Stage::with_fixture_of("orchestrator", "two-projects");
    for (path, bytes) in other.tree() {
        if let Ok(within) = path.strip_prefix(&other.root) {
            let path = stage.root.join(within);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
    let second = format!("orchestrator:{}", stage.root.display());
    let run = stage.bare(&["--root", &both, "--root", &second, "--json"]);
    let overview = run.json();
    let counts: Vec<u64> = overview["roots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|root| root["sessions"].as_u64().unwrap())
        .collect();
    assert!(counts.iter().all(|count| *count > 0), "{run}");
    let sum: u64 = counts.iter().sum();
    assert_eq!(overview["sessions"].as_u64(), Some(sum), "{run}");
}

#[test]
fn append_to_a_sub_agent_log_path_writes_there() {
    let (stage, session, log) = with_agent();
    let path = log.to_str().unwrap();
    let before = stage.tree();
    stage.annals(&["append", path, "-m", "more"]).fine();
    let after = stage.tree();
    let changed: Vec<_> = before
        .iter()
        .filter(|(path, bytes)| after.get(*path) != Some(bytes))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(changed, [&log], "session {session} itself is as it was");
    stage.refused(&["append", path, "--agent", "a", "-m", "more"], "");
}

#[test]
fn show_and_check_accept_a_sub_agent_log_path() {
    let (stage, session, log) = with_agent();
    let path = log.to_str().unwrap();
    let agent = log.file_stem().unwrap().to_str().unwrap();
    let agent = agent.strip_prefix("agent-").unwrap();
    let by_path = stage.annals(&["show", path]).fine();
    let by_id = stage.annals(&["show", &session, "--agent", agent]).fine();
    assert_eq!(by_path.out, by_id.out);
    let last = stage.annals(&["show", path, "--last", "1"]).fine();
    assert!(last.out.contains(agent), "{last}");
    // Damage in one log does not affect the check of another.
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend(b"damage\n");
    fs::write(&log, bytes).unwrap();
    assert_eq!(stage.annals(&["check", path]).code, 1);
    let main = stage.log_path(&session);
    assert_eq!(stage.annals(&["check", main.to_str().unwrap()]).code, 0);
}

#[test]
fn session_commands_reject_a_sub_agent_log() {
    let (stage, _, log) = with_agent();
    let path = log.to_str().unwrap();
    assert_snapshot!(
        "delete_agent_log",
        stage.refused(&["delete", path, "--apply"], "")
    );
    for args in [
        vec!["fork", path],
        vec!["title", path, "x"],
        vec!["tag", path, "x"],
        vec!["notes", "add", path, "x"],
        vec!["todos", "add", path, "x"],
        vec!["compact", path, "--summary", "x"],
        vec!["tree", path],
        vec!["conversations", path],
        vec!["files", path],
    ] {
        let run = stage.refused(&args, "");
        assert!(
            run.err.contains("is a sub-agent's log of session"),
            "{args:?}: {run}"
        );
    }
}

#[test]
fn session_commands_reject_a_file_that_is_no_log() {
    let stage = Stage::with_fixture("todos");
    let beside: Vec<PathBuf> = stage.tree().into_keys().collect();
    let todos = beside
        .iter()
        .find(|path| path.parent().unwrap().ends_with("todos"));
    let path = todos.unwrap().to_str().unwrap();
    for args in [
        vec!["show", path],
        vec!["check", path],
        vec!["append", path, "-m", "x"],
        vec!["delete", path, "--apply"],
    ] {
        let run = stage.refused(&args, "");
        assert!(run.err.contains("is not "), "{args:?}: {run}");
    }
}

#[test]
fn session_id_takes_precedence_over_a_file_of_that_name() {
    let stage = Stage::empty();
    let id = "00000000-0000-4000-8000-000000000001";
    stage
        .annals(&[
            "new",
            "--id",
            id,
            "--cwd",
            "/home/dev/one",
            "-m",
            "question",
        ])
        .fine();
    for name in ["00000000", id] {
        fs::write(stage.work().join(name), "something else").unwrap();
        stage.annals(&["show", name]).fine();
    }
    fs::write(stage.work().join("notes"), "something else").unwrap();
    let run = stage.refused(&["show", "notes"], "");
    assert!(run.err.contains("is not a log"), "{run}");
}

#[test]
fn single_log_outside_a_root_is_deleted_and_undeleted() {
    let stage = Stage::empty();
    let dir = stage.work().join("mine");
    fs::create_dir(&dir).unwrap();
    let log = dir.join("talk.jsonl");
    fs::write(&log, "{\"type\":\"summary\"}\n").unwrap();
    // A log changed a moment ago may still be in use.
    let run = stage.annals(&["delete", log.to_str().unwrap(), "--apply"]);
    assert!(
        run.code == 2 && run.err.contains("is being written"),
        "{run}"
    );
    let hour = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::options()
        .append(true)
        .open(&log)
        .unwrap()
        .set_modified(hour)
        .unwrap();
    stage
        .annals(&["delete", log.to_str().unwrap(), "--apply"])
        .fine();
    assert!(dir.is_dir() && !log.exists());
    stage.annals(&["delete", "--undo", "talk"]).fine();
    assert_eq!(
        fs::read_to_string(&log).unwrap(),
        "{\"type\":\"summary\"}\n"
    );
}
