//! Tests of `todo` and `todos`.

use insta::assert_snapshot;

use crate::harness::Stage;

const ID: &str = "00000000-0000-4000-8000-000000000001";

fn begun() -> Stage {
    let stage = Stage::empty();
    stage
        .annals(&["new", "--id", ID, "--title", "A title"])
        .fine();
    stage
}

#[test]
fn todo_edits_and_lists() {
    let stage = begun();
    assert_snapshot!(
        "todo_add",
        stage.annals(&["todos", "add", ID, "one", "two \u{202e}", "--", "-three"])
    );
    stage.annals(&["todos", "start", ID, "2"]).fine();
    assert_snapshot!(
        "todo_done_json",
        stage.annals(&["todos", "done", ID, "1", "--json"])
    );
    assert_snapshot!("todos", stage.annals(&["todos"]));
    assert_snapshot!("todos_all", stage.annals(&["todos", ID, "--all"]));
    assert_snapshot!(
        "todo_remove",
        stage.annals(&["todos", "remove", ID, "1", "3"])
    );
    let list = r#"[{"content":"a","status":"in_progress","activeForm":"doing a","priority":"high"},{"content":"b","status":"pending","id":"7"}]"#;
    assert_snapshot!(
        "todo_set",
        stage.with_stdin(&["todos", "set", ID, "-"], list)
    );
    assert_snapshot!("todos_json", stage.annals(&["todos", "--json"]));
    assert_snapshot!("todo_clear", stage.annals(&["todos", "clear", ID]));
    assert_snapshot!("todos_none", stage.annals(&["todos"]));
}

/// A list that annals wrote can be added to, in every layout that has todos of one kind or the other.
#[test]
fn second_todo_is_added_in_every_layout() {
    let fixtures = [
        ("claude-code", "2.1.325-s03-todos"),
        ("chorus", "chorus-plain"),
        ("clog", "agents-todos-origin"),
        ("orchestrator", "one-day"),
        ("codex", "0.80-s01-qa"),
        ("gemini", "patches-tools"),
        ("pi", "0.73-s01-qa"),
        ("qwen", "0.24-s01-qa"),
        ("copilot", "1.0-s01-qa"),
    ];
    for (layout, fixture) in fixtures {
        let stage = Stage::with_fixture_of(layout, fixture);
        // The harness masks ids that programs made.
        let root = format!("{layout}:{}", stage.root.display());
        let sessions = ["--root", &root, "sessions", "--json"];
        let listed = stage.command().args(sessions).output().unwrap().stdout;
        let listed: serde_json::Value = serde_json::from_slice(&listed).unwrap();
        let id = listed["sessions"][0]["id"].as_str().unwrap();
        for text in ["the first", "the second"] {
            stage.annals(&["todos", "add", id, text]).fine();
        }
        let todos = stage.annals(&["todos", id]);
        let both = ["the first", "the second"].map(|text| todos.out.contains(text));
        assert_eq!(both, [true, true], "{layout}: {todos}");
    }
}

#[test]
fn options_after_the_todo_text_are_parsed() {
    let stage = begun();
    let added = stage.annals(&["todos", "add", ID, "one", "two", "--json"]);
    let todos = added.json()["todos"].clone();
    let texts: Vec<&str> = todos
        .as_array()
        .unwrap()
        .iter()
        .map(|todo| todo["content"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["one", "two"]);
    let run = stage.annals(&["todos", "add", ID, "-three"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("write `--` before"), "{run}");
}

#[test]
fn invalid_todo_lists_and_numbers_change_nothing() {
    let stage = begun();
    assert_snapshot!(
        "todo_number_of_none",
        stage.refused(&["todos", "done", ID, "1"], "")
    );
    stage.annals(&["todos", "add", ID, "one"]).fine();
    assert_snapshot!(
        "todo_number_bad",
        stage.refused(&["todos", "remove", ID, "1", "2"], "")
    );
    assert_snapshot!(
        "todo_set_not_json",
        stage.refused(&["todos", "set", ID, "-"], "nope")
    );
    assert_snapshot!(
        "todo_set_bad_status",
        stage.refused(
            &["todos", "set", ID, "-"],
            r#"[{"content":"a","status":"maybe"}]"#
        )
    );
    assert_snapshot!(
        "todo_set_file",
        stage.refused(&["todos", "set", ID, "list.json"], "")
    );
    assert_snapshot!(
        "todo_add_empty",
        stage.refused(&["todos", "add", ID, "ok", " "], "")
    );
}

#[test]
fn todo_list_with_unknown_members_is_not_rewritten() {
    let stage = begun();
    stage.annals(&["todos", "add", ID, "one"]).fine();
    let path = stage.root.join(format!("todos/{ID}-agent-{ID}.json"));
    for list in [
        r#"[{"content":"one","status":"pending","due":"friday"}]"#,
        r#"[{"content":"one","status":"blocked"}]"#,
        "{",
    ] {
        std::fs::write(&path, list).unwrap();
        let run = stage.refused(&["todos", "done", ID, "1"], "");
        assert!(run.err.contains("[DIR]/root/todos/"), "{run}");
    }
}

#[test]
fn todos_prints_recorded_lists() {
    for fixture in ["todos", "2.1.50-s03-todos", "tasks"] {
        let stage = Stage::with_fixture(fixture);
        assert_snapshot!(
            format!("todos_{fixture}"),
            stage.annals(&["todos", "--all"])
        );
    }
    assert_snapshot!(
        "todos_recorded_json",
        Stage::with_fixture("todos").annals(&["todos", "--all", "--json"])
    );
}

#[test]
fn session_id_too_long_for_a_todo_file_is_refused_with_a_hint() {
    let stage = Stage::empty();
    let (fits, long) = ("x".repeat(121), "y".repeat(122));
    for id in [&fits, &long] {
        stage.annals(&["new", "--id", id]).fine();
        stage.annals(&["append", id, "-m", "Hello"]).fine();
    }
    stage.annals(&["todos", "add", &fits, "one"]).fine();
    let run = stage.refused(&["todos", "add", &long, "one"], "");
    assert!(run.err.contains("too long for todos"), "{run}");
    assert!(run.err.contains("256 bytes"), "{run}");
    // The workaround that the message suggests.
    stage.annals(&["fork", &long]).fine();
    let copy = stage.tree().into_keys().find_map(|path| {
        let name = path.file_stem()?.to_str()?.to_owned();
        let is_log = path.extension()? == "jsonl" && ![&fits, &long].contains(&&name);
        is_log.then_some(name)
    });
    stage
        .annals(&["todos", "add", &copy.unwrap(), "one"])
        .fine();
}
