//! todo, todos.

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
        stage.annals(&["todo", ID, "add", "one", "two \u{202e}", "--", "-three"])
    );
    stage.annals(&["todo", ID, "start", "2"]).fine();
    assert_snapshot!(
        "todo_done_json",
        stage.annals(&["todo", ID, "done", "1", "--json"])
    );
    assert_snapshot!("todos", stage.annals(&["todos"]));
    assert_snapshot!("todos_all", stage.annals(&["todos", ID, "--all"]));
    assert_snapshot!(
        "todo_remove",
        stage.annals(&["todo", ID, "remove", "1", "3"])
    );
    let list = r#"[{"content":"a","status":"in_progress","activeForm":"doing a","priority":"high"},{"content":"b","status":"pending","id":"7"}]"#;
    assert_snapshot!(
        "todo_set",
        stage.with_stdin(&["todo", ID, "set", "-"], list)
    );
    assert_snapshot!("todos_json", stage.annals(&["todos", "--json"]));
    assert_snapshot!("todo_clear", stage.annals(&["todo", ID, "clear"]));
    assert_snapshot!("todos_none", stage.annals(&["todos"]));
}

#[test]
fn options_after_the_todo_text_are_parsed() {
    let stage = begun();
    let added = stage.annals(&["todo", ID, "add", "one", "two", "--json"]);
    let todos = added.json()["todos"].clone();
    let texts: Vec<&str> = todos
        .as_array()
        .unwrap()
        .iter()
        .map(|todo| todo["content"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["one", "two"]);
    let run = stage.annals(&["todo", ID, "add", "-three"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("use '-- "), "{run}");
}

#[test]
fn invalid_todo_lists_and_numbers_change_nothing() {
    let stage = begun();
    assert_snapshot!(
        "todo_number_of_none",
        stage.refused(&["todo", ID, "done", "1"], "")
    );
    stage.annals(&["todo", ID, "add", "one"]).fine();
    assert_snapshot!(
        "todo_number_bad",
        stage.refused(&["todo", ID, "remove", "1", "2"], "")
    );
    assert_snapshot!(
        "todo_set_not_json",
        stage.refused(&["todo", ID, "set", "-"], "nope")
    );
    assert_snapshot!(
        "todo_set_bad_status",
        stage.refused(
            &["todo", ID, "set", "-"],
            r#"[{"content":"a","status":"maybe"}]"#
        )
    );
    assert_snapshot!(
        "todo_set_file",
        stage.refused(&["todo", ID, "set", "list.json"], "")
    );
    assert_snapshot!(
        "todo_add_empty",
        stage.refused(&["todo", ID, "add", "ok", " "], "")
    );
}

#[test]
fn todo_list_with_unknown_members_is_not_rewritten() {
    let stage = begun();
    stage.annals(&["todo", ID, "add", "one"]).fine();
    let path = stage.root.join(format!("todos/{ID}-agent-{ID}.json"));
    for list in [
        r#"[{"content":"one","status":"pending","due":"friday"}]"#,
        r#"[{"content":"one","status":"blocked"}]"#,
        "{",
    ] {
        std::fs::write(&path, list).unwrap();
        let run = stage.refused(&["todo", ID, "done", "1"], "");
        assert!(run.err.contains("[DIR]/root/todos/"), "{run}");
    }
}

#[test]
fn todos_prints_recorded_lists() {
    for fixture in ["todos", "2.1.50-s03-todos", "tasks"] {
        let stage = Stage::of(fixture);
        assert_snapshot!(
            format!("todos_{fixture}"),
            stage.annals(&["todos", "--all"])
        );
    }
    assert_snapshot!(
        "todos_recorded_json",
        Stage::of("todos").annals(&["todos", "--all", "--json"])
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
    stage.annals(&["todo", &fits, "add", "one"]).fine();
    let run = stage.refused(&["todo", &long, "add", "one"], "");
    assert!(run.err.contains("too long for todos"), "{run}");
    assert!(run.err.contains("256 bytes"), "{run}");
    // The way out that the message names.
    stage.annals(&["fork", &long]).fine();
    let copy = stage.tree().into_keys().find_map(|path| {
        let name = path.file_stem()?.to_str()?.to_owned();
        let is_log = path.extension()? == "jsonl" && ![&fits, &long].contains(&&name);
        is_log.then_some(name)
    });
    stage.annals(&["todo", &copy.unwrap(), "add", "one"]).fine();
}
