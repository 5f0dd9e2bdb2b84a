//! `workspaces`, `agents` and `settings`, and the other verbs on a Chorus root.

use std::fs;

use insta::assert_snapshot;

use crate::harness::Stage;

fn plain() -> Stage {
    Stage::with_fixture_of("chorus", "chorus-plain")
}

fn config(stage: &Stage) -> String {
    fs::read_to_string(stage.root.join("config.json")).unwrap()
}

#[test]
fn workspaces_agents_and_settings_print_the_configuration() {
    let stage = plain();
    assert_snapshot!("chorus_workspaces", stage.annals(&["chorus", "workspaces"]));
    assert_snapshot!(
        "chorus_workspaces_json",
        stage.annals(&["chorus", "workspaces", "--json"])
    );
    assert_snapshot!("chorus_agents", stage.annals(&["chorus", "agents"]));
    assert_snapshot!(
        "chorus_agents_json",
        stage.annals(&["chorus", "agents", "--json"])
    );
    assert_snapshot!("chorus_settings", stage.annals(&["chorus", "settings"]));
    assert_snapshot!(
        "chorus_settings_json",
        stage.annals(&["chorus", "settings", "--json"])
    );
    assert_snapshot!(
        "chorus_setting",
        stage.annals(&["chorus", "settings", "theme"])
    );
}

#[test]
fn project_directory_resolves_to_its_chorus_root() {
    let stage = plain();
    let project = stage.work().join("project");
    fs::create_dir(&project).unwrap();
    fs::rename(&stage.root, project.join(".chorus")).unwrap();
    let project = project.to_str().unwrap();
    let sniffed = stage.bare(&["--root", project, "sessions"]).fine();
    let root = format!("chorus:{project}");
    let named = stage.bare(&["--root", &root, "sessions"]).fine();
    assert_eq!(named.out, sniffed.out);
    // A directory that is itself a root is opened directly.
    let root = format!("chorus:{project}/.chorus");
    let whole = stage.bare(&["--root", &root, "sessions"]).fine();
    assert_eq!(whole.out, sniffed.out);
}

#[test]
fn workspaces_without_configuration_are_listed_and_removed() {
    let stage = Stage::with_fixture_of("chorus", "chorus-no-config");
    assert_snapshot!(
        "chorus_workspaces_bare",
        stage.annals(&["chorus", "workspaces"])
    );
    assert_snapshot!("chorus_agents_none", stage.annals(&["chorus", "agents"]));
    // They can still be removed.
    stage
        .annals(&["chorus", "workspaces", "remove", "w-gone", "--apply"])
        .fine();
    assert!(!stage.root.join("sessions/w-gone").exists());
    assert_snapshot!(
        "chorus_remove_unknown",
        stage.refused(&["chorus", "workspaces", "remove", "w-gone", "--apply"], "")
    );
}

#[test]
fn workspace_removal_plan_counts_every_file() {
    let stage = plain();
    fs::write(stage.root.join("sessions/w-app/a-main/left.txt"), "x").unwrap();
    let remove = ["chorus", "workspaces", "remove", "w-app", "--json"];
    let plan = stage.annals(&remove).json();
    let done = stage.annals(&[&remove[..], &["--apply"]].concat()).json();
    assert_eq!(plan["files"], 4, "{plan}");
    assert_eq!(
        (&plan["files"], &plan["bytes"]),
        (&done["files"], &done["bytes"])
    );
}

#[test]
fn configuration_edits_change_only_the_named_member() {
    let stage = plain();
    let before = config(&stage);
    stage
        .annals(&["chorus", "workspaces", "rename", "w-app", "The app"])
        .fine();
    stage
        .annals(&["chorus", "agents", "rename", "w-app", "a-review", "Critic"])
        .fine();
    stage
        .annals(&["chorus", "settings", "theme", "light"])
        .fine();
    assert_eq!(
        config(&stage),
        before
            .replace("\"name\": \"app\"", "\"name\": \"The app\"")
            .replace("\"Reviewer\"", "\"Critic\"")
            .replace("\"dark\"", "\"light\"")
    );
}

#[test]
fn workspace_and_agent_are_added_and_used_by_new() {
    let stage = plain();
    let work = stage.work();
    let path = work.to_str().unwrap();
    let added = stage.annals(&[
        "chorus",
        "workspaces",
        "add",
        path,
        "--id",
        "w-new",
        "--name",
        "New",
        "--json",
    ]);
    assert_snapshot!("chorus_workspace_added", added);
    assert_snapshot!(
        "chorus_agent_added",
        stage.annals(&["chorus", "agents", "add", "w-new", "Code Reviewer"])
    );
    // A new session in that directory belongs to that agent.
    let new = stage.annals(&["new", "--cwd", path, "-m", "hello", "--json"]);
    let file = new.json()["file"].as_str().unwrap().to_owned();
    assert!(file.contains("sessions/w-new/code-reviewer/"), "{file}");
    assert_snapshot!(
        "chorus_workspace_twice",
        stage.refused(&["chorus", "workspaces", "add", path], "")
    );
}

#[test]
fn workspace_removal_trashes_all_its_sessions() {
    let stage = plain();
    let before = stage.tree();
    assert_snapshot!(
        "chorus_remove_plan",
        stage.annals(&["chorus", "workspaces", "remove", "w-app"])
    );
    assert!(stage.tree() == before, "a plan changes nothing");
    let plan = stage
        .annals(&["chorus", "workspaces", "remove", "w-app", "--json"])
        .json();
    let done = stage
        .annals(&[
            "chorus",
            "workspaces",
            "remove",
            "w-app",
            "--apply",
            "--json",
        ])
        .json();
    assert_eq!(plan["sessions"], done["sessions"]);
    assert_eq!(done["applied"], true);
    assert!(!stage.root.join("sessions/w-app").exists());
    assert!(!config(&stage).contains("w-app"));
    let trashed = stage.annals(&["delete", "--list", "--json"]).json();
    assert_eq!(trashed["trashed"].as_array().unwrap().len(), 3);
    // Each session is restored with its row of the session list.
    for id in ["2a489c69", "794a5c36", "fd7a4cec"] {
        stage.annals(&["delete", "--undo", id]).fine();
    }
    let sessions = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 3);
}

#[test]
fn damaged_configuration_prevents_every_change() {
    let stage = Stage::with_fixture_of("chorus", "chorus-config-damaged");
    for args in [
        &["chorus", "workspaces", "remove", "w-app", "--apply"][..],
        &["chorus", "workspaces", "add", "/x"],
        &["chorus", "agents"],
        &["chorus", "settings", "theme", "light"],
    ] {
        let run = stage.refused(args, "");
        let reported = run.err.contains("[DIR]/root/config.json cannot be read");
        assert!(reported, "{run}");
        assert!(run.err.contains("repair it by hand"), "{run}");
    }
}

/// Chorus shows only sessions whose workspace and agent are in its configuration.
#[test]
fn a_damaged_configuration_is_reported_and_no_session_begins() {
    for damaged in [
        "{bad",
        "[]",
        r#"{"workspaces":"x"}"#,
        r#"{"workspaces":[],"settings":1}"#,
        r#"{"workspaces":[{"id":"w-app","agents":"x"}]}"#,
    ] {
        let stage = plain();
        fs::write(stage.root.join("config.json"), damaged).unwrap();
        let refused = stage.refused(&["new", "-m", "hello"], "");
        assert!(refused.err.contains("[DIR]/root/config.json"), "{refused}");
        assert!(refused.err.contains("repair it by hand"), "{refused}");
        let listed = stage.annals(&["sessions", "--json"]);
        assert_eq!(listed.code, 2, "{damaged}: {listed}");
        assert!(listed.err.contains("config.json"), "{damaged}: {listed}");
        let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
        assert_eq!(listed["problems"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_session_comes_back_with_its_agent_into_a_workspace_that_is_there_again() {
    let stage = plain();
    let remove = ["chorus", "workspaces", "remove", "w-app", "--apply"];
    stage.annals(&remove).fine();
    let again = [
        "chorus",
        "workspaces",
        "add",
        "/home/dev/app",
        "--id",
        "w-app",
    ];
    stage.annals(&again).fine();
    assert!(!config(&stage).contains("a-main"));
    stage.annals(&["delete", "--undo", "fd7a4cec"]).fine();
    let config = config(&stage);
    assert!(config.contains("\"id\": \"a-main\""), "{config}");
    // An agent whose sessions stay in the trash is not restored.
    assert!(!config.contains("a-review"), "{config}");
    assert_eq!(config.matches("\"id\": \"w-app\"").count(), 1);
}

#[test]
fn a_workspace_goes_with_its_empty_directories() {
    let stage = plain();
    let empty = stage.root.join("sessions/w-app/a-main/sub/deeper");
    fs::create_dir_all(empty).unwrap();
    let remove = ["chorus", "workspaces", "remove", "w-app", "--apply"];
    stage.annals(&remove).fine();
    assert!(!stage.root.join("sessions/w-app").exists());
}

#[test]
fn agent_removal_removes_its_sessions() {
    let stage = plain();
    assert_snapshot!(
        "chorus_agent_removed",
        stage.annals(&["chorus", "agents", "remove", "w-app", "a-review", "--apply"])
    );
    assert!(!stage.root.join("sessions/w-app/a-review").exists());
    assert!(stage.root.join("sessions/w-app/a-main").exists());
    assert!(!config(&stage).contains("a-review"));
    assert_snapshot!(
        "chorus_agent_unknown",
        stage.refused(
            &["chorus", "agents", "remove", "w-app", "a-review", "--apply"],
            ""
        )
    );
}

#[test]
fn invalid_workspace_agent_and_setting_values_are_rejected() {
    let stage = plain();
    for (name, args) in [
        ("theme", &["chorus", "settings", "theme", "purple"][..]),
        ("width", &["chorus", "settings", "chatSidebarWidth", "wide"]),
        ("key", &["chorus", "settings", "colour", "red"]),
        (
            "id",
            &["chorus", "workspaces", "add", "/x", "--id", "../up"],
        ),
        ("agent_id", &["chorus", "agents", "add", "w-app", "会話"]),
        ("name", &["chorus", "workspaces", "rename", "w-app", " "]),
        ("workspace", &["chorus", "agents", "add", "w-none", "x"]),
    ] {
        assert_snapshot!(format!("chorus_bad_{name}"), stage.refused(args, ""));
    }
    // Two workspaces with the same id are ambiguous.
    let odd = Stage::with_fixture_of("chorus", "chorus-config-odd");
    assert_snapshot!(
        "chorus_two_of_one_id",
        odd.refused(&["chorus", "workspaces", "remove", "w-app", "--apply"], "")
    );
    let other = Stage::with_fixture("todos");
    assert_snapshot!(
        "chorus_no_root",
        other.refused(&["chorus", "workspaces"], "")
    );
}

#[test]
fn sessions_show_note_title_and_append_work_on_chorus() {
    let stage = plain();
    assert_snapshot!("chorus_sessions", stage.annals(&["sessions"]));
    assert_snapshot!("chorus_show", stage.annals(&["show", "fd7a4cec"]));
    stage
        .annals(&["notes", "add", "fd7a4cec", "remember"])
        .fine();
    stage
        .annals(&["title", "fd7a4cec", "A better title"])
        .fine();
    stage
        .with_stdin(&["append", "fd7a4cec", "-m", "and now?"], "")
        .fine();
    let listed = stage.annals(&["sessions", "--json"]).json();
    let titles: Vec<&str> = listed["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["title"].as_str().unwrap())
        .collect();
    assert!(titles.contains(&"A better title"), "{titles:?}");
    let notes = stage.annals(&["notes", "--json"]).fine();
    assert!(notes.out.contains("remember"));
    // A log can be named by its path, without its root.
    let log = stage
        .tree()
        .into_keys()
        .find(|path| {
            path.to_str().unwrap().contains("fd7a4cec")
                && path.to_str().unwrap().contains("-messages")
        })
        .unwrap();
    stage.bare(&["show", log.to_str().unwrap()]).fine();
    // Without `--root`, a `.chorus` directory in the project is found by its name.
    let project = stage.work();
    fs::rename(&stage.root, project.join(".chorus")).unwrap();
    let found = stage.bare(&["sessions", "--json"]).json();
    assert_eq!(found["sessions"].as_array().unwrap().len(), 3);
    assert_eq!(found["sessions"][0]["layout"], "chorus");
}

fn lines(file: &std::path::Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn append_writes_every_chorus_record_type() {
    let stage = plain();
    let drafts = r#"{"role":"user","content":"Run it."}
{"role":"assistant","model":"m","content":[{"type":"text","text":"So be it."},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make"}}]}
{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}
{"role":"system","content":"A word from the program"}
{"role":"error","content":"The connection was lost","id":"lost-1","timestamp":"2027-01-01T00:00:00Z"}
"#;
    stage.with_stdin(&["append", "2a489c69"], drafts).fine();
    stage
        .annals(&["append", "2a489c69", "--role", "error", "-m", "Again"])
        .fine();
    stage
        .annals(&["append", "2a489c69", "--role", "system", "-m", "Bye"])
        .fine();
    let file = "2a489c69-4096-4f14-8eae-e17f43791e68-messages.jsonl";
    let lines = lines(&stage.root.join("sessions/w-app/a-main").join(file));
    let written: Vec<&str> = lines[lines.len() - 8..]
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        written,
        [
            "user",
            "assistant",
            "tool_use",
            "tool_result",
            "system",
            "error",
            "error",
            "system"
        ]
    );
    let error = &lines[lines.len() - 3];
    assert_eq!(error["uuid"], "lost-1");
    assert_eq!(error["content"], "The connection was lost");
    for (draft, why) in [
        (r#"{"role":"error"}"#, "`content` is missing"),
        (r#"{"role":"error","content":" "}"#, "`content` is empty"),
        (r#"{"role":"error","content":[]}"#, "expected a text"),
        (
            r#"{"role":"error","content":"x","model":"m"}"#,
            "an error has no `model`",
        ),
        (
            r#"{"role":"system","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]}"#,
            "belongs in a message of the assistant",
        ),
    ] {
        let refused = stage.refused(&["append", "2a489c69"], draft);
        assert!(refused.err.contains(why), "{refused}");
    }
}

#[test]
fn new_with_agent_option_uses_that_agent() {
    let stage = plain();
    let new = ["new", "--cwd", "/home/dev/app", "-m", "hello", "--json"];
    let begun = stage.annals(&[&new[..], &["--agent", "a-review"]].concat());
    let file = begun.json()["file"].as_str().unwrap().to_owned();
    assert!(file.contains("sessions/w-app/a-review/"), "{file}");
    for (args, why) in [
        (
            ["/home/dev/app", "a-none"],
            "workspace `w-app` has no agent `a-none`; there are a-main, a-review",
        ),
        (["/home/dev/none", "a-main"], "no workspace at"),
    ] {
        let refused = stage.refused(&["new", "--cwd", args[0], "--agent", args[1]], "");
        assert!(refused.err.contains(why), "{refused}");
    }
    let other = Stage::with_fixture("branch-edited-prompt");
    let refused = other.refused(&["new", "--agent", "a-main"], "");
    assert!(refused.err.contains("has no agents"), "{refused}");
}

#[test]
fn sessions_table_marks_created_and_not_active_sessions() {
    let stage = plain();
    let new = ["new", "--cwd", "/home/dev/app", "--id", "untouched"];
    stage.annals(&new).fine();
    stage.annals(&["append", "2a489c69", "-m", "Back"]).fine();
    let table = stage.annals(&["sessions"]).fine();
    let row = |id: &str| {
        let mut rows = table.out.lines();
        rows.find(|row| row.starts_with(id)).unwrap().trim_end()
    };
    assert!(row("untouche").ends_with("created"), "{table}");
    assert!(row("2a489c69").ends_with("kB"), "{table}");
    assert!(!table.out.contains("active"), "{table}");
}

#[test]
fn workspaces_and_agents_are_found_by_name() {
    let stage = Stage::empty().with_layout("chorus");
    let (one, two) = (stage.work(), stage.work().join("two"));
    fs::create_dir(&two).unwrap();
    let add = |path: &std::path::Path, id: &str, name: &str| {
        let path = path.to_str().unwrap();
        let args = [
            "chorus",
            "workspaces",
            "add",
            path,
            "--id",
            id,
            "--name",
            name,
        ];
        stage.annals(&args).fine();
    };
    add(&one, "w-1", "My Space");
    let change = |args: &[&str]| stage.annals(args).fine();
    change(&[
        "chorus",
        "workspaces",
        "set",
        "My Space",
        "gitBranch",
        "dev",
    ]);
    change(&["chorus", "agents", "add", "My Space", "Code Reviewer"]);
    change(&[
        "chorus",
        "agents",
        "rename",
        "My Space",
        "Code Reviewer",
        "Critic",
    ]);
    let written = config(&stage);
    assert!(
        written.contains("\"dev\"") && written.contains("\"Critic\""),
        "{written}"
    );
    change(&[
        "chorus", "agents", "remove", "My Space", "Critic", "--apply",
    ]);
    assert!(!config(&stage).contains("Critic"));

    add(&two, "w-2", "My Space");
    let run = stage.refused(
        &["chorus", "workspaces", "remove", "My Space", "--apply"],
        "",
    );
    assert!(run.err.contains("w-1") && run.err.contains("w-2"), "{run}");
    let run = stage.refused(
        &["chorus", "workspaces", "remove", "Your Space", "--apply"],
        "",
    );
    assert!(
        run.err.contains("no workspace matches `Your Space`"),
        "{run}"
    );
    // An id takes precedence over a name.
    change(&["chorus", "workspaces", "rename", "w-2", "w-1"]);
    change(&["chorus", "workspaces", "remove", "w-1", "--apply"]);
    let left = config(&stage);
    assert!(
        left.contains("\"w-2\"") && !left.contains("My Space"),
        "{left}"
    );
    change(&["chorus", "workspaces", "rename", "w-2", "My Space"]);
    change(&["chorus", "workspaces", "remove", "My Space", "--apply"]);
    assert!(!config(&stage).contains("w-2"));
}
