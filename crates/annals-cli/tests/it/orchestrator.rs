//! The verbs on a root of the orchestrator, where ids are counted up and sessions share files.

use crate::harness::Stage;

#[test]
fn ids_that_begin_alike_are_shown_whole() {
    let stage = Stage::of_layout("orchestrator", "one-day");
    let listed = stage.annals(&["sessions", "--json"]).json();
    let session = listed["sessions"][0]["id"].as_str().unwrap().to_owned();
    let shown = stage.annals(&["show", &session]).fine();
    let ids: Vec<&str> = shown
        .out
        .split_whitespace()
        .filter(|word| word.starts_with("20260301-"))
        .collect();
    assert!(ids.len() > 1, "{shown}");
    for id in &ids {
        stage.annals(&["show", &format!("{session}@{id}")]).fine();
    }
    // What conversations and trees print names a message too.
    for verb in ["conversations", "tree"] {
        let run = stage.annals(&[verb, &session]).fine();
        assert!(run.out.contains("20260301-"), "{run}");
    }
    let refused = stage.refused(&["show", &format!("{session}@20260301")], "");
    assert!(refused.err.contains(ids[0]), "{refused}");
}

#[test]
fn sessions_of_one_file_are_deleted_together() {
    let stage = Stage::of_layout("orchestrator", "two-sessions-one-log");
    let listed = stage.annals(&["sessions", "--json"]).json();
    let ids: Vec<&str> = listed["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["id"].as_str().unwrap())
        .collect();
    assert!(ids.len() > 2, "{ids:?}");
    let before = stage.tree();
    let refused = stage.refused(&["delete", ids[0], ids[1], "--apply", "--live"], "");
    assert!(refused.err.contains("holds other sessions"), "{refused}");
    let all = [&["delete", "--apply", "--live"], ids.as_slice()].concat();
    let done = stage.annals(&all).fine();
    let count = format!("{} sessions, 1 file", ids.len());
    assert!(done.out.contains(&count), "{done}");
    let left = stage.annals(&["sessions", "--json"]);
    assert!(!left.out.contains(ids[0]), "{left}");
    stage.annals(&["delete", "--undo", ids[1]]).fine();
    assert!(stage.tree() == before);
}
