//! Tests of `delete`.

use insta::assert_snapshot;

use crate::harness::Stage;

const FIRST: &str = "00000000-0000-4000-8000-000000000001";
const SECOND: &str = "00000001-0000-4000-8000-000000000002";
const THIRD: &str = "00000002-0000-4000-8000-000000000003";

/// Two sessions of one project and one of another.
fn three() -> Stage {
    let stage = Stage::empty();
    for (id, cwd) in [
        (FIRST, "/home/dev/one"),
        (SECOND, "/home/dev/one"),
        (THIRD, "/home/dev/other/one.x"),
    ] {
        stage
            .annals(&["new", "--id", id, "--cwd", cwd, "-m", "question"])
            .fine();
    }
    stage.annals(&["todos", "add", FIRST, "something"]).fine();
    stage
}

#[test]
fn delete_plan_changes_nothing_and_delete_can_be_undone() {
    let stage = three();
    let before = stage.tree();
    assert_snapshot!("delete_plan", stage.annals(&["delete", FIRST, "00000001"]));
    assert_snapshot!(
        "delete_plan_json",
        stage.annals(&["delete", FIRST, FIRST, "--json"])
    );
    assert!(stage.tree() == before);
    assert_snapshot!("delete_list_empty", stage.annals(&["delete", "--list"]));
    assert_snapshot!("delete_apply", stage.annals(&["delete", FIRST, "--apply"]));
    assert_eq!(
        stage.annals(&["sessions", "--json"]).json()["sessions"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    // The column width depends on the path of temporary files.
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(" {2,}", "  ");
    settings.bind(|| assert_snapshot!("delete_list", stage.annals(&["delete", "--list"])));
    assert_snapshot!(
        "delete_list_json",
        stage.annals(&["delete", "--list", "--json"])
    );
    assert_snapshot!(
        "delete_again",
        stage.refused(&["delete", FIRST, "--apply"], "")
    );
    assert_snapshot!(
        "delete_undo",
        stage.annals(&["delete", "--undo", "00000000"])
    );
    assert!(stage.tree() == before);
    assert_snapshot!(
        "delete_undo_unknown",
        stage.refused(&["delete", "--undo", "00000000"], "")
    );
}

#[test]
fn applied_delete_prints_the_same_members_as_its_plan() {
    let stage = three();
    let plan = stage.annals(&["delete", FIRST, "--json"]).json();
    let done = stage.annals(&["delete", FIRST, "--apply", "--json"]).json();
    assert_eq!(
        (&plan["applied"], &done["applied"]),
        (&false.into(), &true.into())
    );
    for key in ["sessions", "files", "bytes"] {
        assert_eq!(plan[key], done[key]);
    }
}

#[test]
fn delete_project_leaves_other_projects_unchanged() {
    let stage = three();
    let others = |stage: &Stage| {
        let mut tree = stage.tree();
        tree.retain(|path, _| {
            path.starts_with(&stage.root) && path.to_str().unwrap().contains("other")
        });
        tree
    };
    let before = others(&stage);
    assert_snapshot!(
        "delete_project_plan",
        stage.annals(&["delete", "--project", "/home/dev/one"])
    );
    stage
        .annals(&["delete", "--project", "one", "--apply"])
        .fine();
    assert!(others(&stage) == before);
    let left = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(left["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(left["sessions"][0]["id"], THIRD);
    assert_snapshot!(
        "delete_project_unknown",
        stage.refused(&["delete", "--project", "one", "--apply"], "")
    );
}

#[test]
fn delete_refuses_an_ambiguous_project_name() {
    let stage = Stage::empty();
    for (id, cwd) in [(FIRST, "/home/a/app"), (SECOND, "/home/b/app")] {
        stage
            .annals(&["new", "--id", id, "--cwd", cwd, "-m", "question"])
            .fine();
    }
    assert_snapshot!(
        "delete_project_ambiguous",
        stage.refused(&["delete", "--project", "app", "--apply"], "")
    );
}

#[test]
fn delete_project_leaves_other_sessions_of_the_same_folder() {
    let stage = Stage::with_fixture("two-projects-one-folder");
    let all = stage.annals(&["sessions", "--json"]).json();
    let project = all["sessions"][0]["project"].as_str().unwrap().to_owned();
    stage
        .annals(&["delete", "--project", &project, "--apply"])
        .fine();
    let left = stage.annals(&["sessions", "--json"]).json();
    assert!(!left["sessions"].as_array().unwrap().is_empty());
    assert!(
        left["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["project"] != project.as_str())
    );
}

#[test]
fn partly_failed_delete_reports_deleted_and_failed_sessions() {
    let stage = three();
    let log = stage.log_path(FIRST);
    let elsewhere = stage.cannot_go(&log);
    let before = std::fs::read(&elsewhere).unwrap();
    assert_snapshot!(
        "delete_project_in_part",
        stage.annals(&["delete", "--project", "/home/dev/one", "--apply"])
    );
    assert_eq!(std::fs::read(&elsewhere).unwrap(), before);
    stage.annals(&["delete", "--undo", SECOND]).fine();
    let json = stage.annals(&["delete", "--project", "/home/dev/one", "--apply", "--json"]);
    assert_eq!(json.code, 2, "{json}");
    let reported: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(reported["sessions"][0]["session"], SECOND);
    assert_eq!(reported["failed"][0]["session"], FIRST);
}

#[test]
fn sessions_are_filtered_by_state() {
    let stage = three();
    stage.annals(&["title", FIRST, "The first"]).fine();
    let empty = "00000003-0000-4000-8000-000000000004";
    stage
        .annals(&["new", "--id", empty, "--cwd", "/home/dev/one"])
        .fine();
    let listed = |state: &str| -> Vec<(String, String)> {
        let rows = stage.annals(&["sessions", "--state", state, "--json"]);
        let rows = rows.json();
        let row = |row: &serde_json::Value| {
            assert_eq!(row["state"], state);
            (
                row["id"].as_str().unwrap().to_owned(),
                row["title"].as_str().unwrap_or_default().to_owned(),
            )
        };
        rows["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(row)
            .collect()
    };
    assert_eq!(listed("created"), [(empty.to_owned(), String::new())]);
    assert_eq!(listed("active").len(), 3);
    let before = stage.annals(&["sessions", "--json"]).json();
    stage.annals(&["delete", FIRST, "--apply"]).fine();
    assert_eq!(
        listed("deleted"),
        [(FIRST.to_owned(), "The first".to_owned())]
    );
    assert_eq!(listed("active").len(), 2);
    // The row differs only in its state and in what follows from it.
    let after = stage.annals(&["sessions", "--state", "deleted", "--json"]);
    let mut after = after.json()["sessions"][0].clone();
    let mut before = before["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["id"] == FIRST)
        .unwrap()
        .clone();
    for row in [&mut before, &mut after] {
        row["state"].take();
        row["expires"].take();
    }
    assert_eq!(before, after);
    assert_snapshot!(
        "sessions_deleted",
        stage.annals(&["sessions", "--state", "deleted"])
    );
    assert_snapshot!(
        "sessions_deleted_none",
        stage.annals(&["sessions", "--state", "deleted", "-p", "other"])
    );
}

#[test]
fn trash_has_only_deletions_of_the_named_roots() {
    let stage = Stage::empty();
    let id = "00000000-0000-4000-8000-000000000001";
    let other = stage.root.with_file_name("other");
    let run = |root: &std::path::Path, args: &[&str]| {
        let root = format!("claude-code:{}", root.display());
        let mut command = stage.command();
        stage.run_of(&command.args(["--root", &root]).args(args).output().unwrap())
    };
    for root in [&stage.root, &other] {
        run(root, &["new", "--id", id, "-m", "hello"]).fine();
        run(root, &["delete", id, "--apply"]).fine();
    }
    for root in [&stage.root, &other] {
        let listed = run(root, &["sessions", "--state", "deleted", "--json"]).json();
        assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
        let trash = run(root, &["delete", "--list", "--json"]).json();
        assert_eq!(trash["trashed"].as_array().unwrap().len(), 1, "{trash}");
    }
    let both = stage.bare(&["delete", "--list", "--json"]).json();
    assert_eq!(both["trashed"].as_array().unwrap().len(), 2, "{both}");
    let ambiguous = stage.bare(&["delete", "--undo", id]);
    assert!(
        ambiguous.err.contains("matches 2 deleted sessions"),
        "{ambiguous}"
    );
    // What is purged for one root does not concern the other.
    run(
        &stage.root,
        &["clean", "--purge", "--older-than", "0d", "--apply"],
    );
    let undone = run(&other, &["delete", "--undo", id]).fine();
    assert!(undone.out.contains("other"), "{undone}");
    run(&other, &["show", id]).fine();
    assert_eq!(run(&stage.root, &["show", id]).code, 2);
}

#[test]
fn deleted_session_has_the_title_of_its_list() {
    let stage = Stage::empty().with_layout("chorus");
    let work = stage.work();
    let work = work.to_str().unwrap();
    let add = ["chorus", "workspaces", "add", work, "--id", "ws-1"];
    stage.annals(&add).fine();
    for id in ["conv-1", "conv-2"] {
        let new = ["new", "--id", id, "--cwd", work, "--title", "Fix"];
        stage.annals(&new).fine();
    }
    stage
        .annals(&["append", "conv-1", "-m", "The first prompt"])
        .fine();
    stage
        .annals(&["delete", "conv-1", "conv-2", "--apply"])
        .fine();
    let listed = stage
        .annals(&["sessions", "--state", "deleted", "--json"])
        .json();
    let listed = listed["sessions"].as_array().unwrap();
    let titles: Vec<_> = listed.iter().map(|row| &row["title"]).collect();
    assert_eq!(titles, ["Fix", "Fix"], "{listed:?}");
}
