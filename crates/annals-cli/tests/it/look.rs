//! The verbs that look: every table, drawing and document that people and scripts see.

use insta::{assert_snapshot, with_settings};

use crate::program::{World, on, repository};

/// When a file was checked out is no part of what the program says.
fn snapshot(name: &str, seen: &str) {
    with_settings!({
        filters => vec![
            (r#""expires": "[^"]*""#, r#""expires": "[TIME]""#),
            (repository().to_str().unwrap(), "[REPOSITORY]"),
        ],
        omit_expression => true,
    }, { assert_snapshot!(name, seen) });
}

#[test]
fn the_whole_command_line_reference() {
    let world = World::new();
    let help = world.run(&["--help"]).out;
    let mut reference = help.clone();
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    for verb in verbs
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
    {
        let ran = world.run(&[verb, "--help"]);
        assert_eq!(ran.code, 0, "{verb}");
        reference.push_str(&format!("\n======== annals {verb} --help\n\n{}", ran.out));
    }
    snapshot("reference", &reference);
}

#[test]
fn the_overview() {
    snapshot("overview", &on("subagents-every-placement", &[]).seen());
    snapshot("overview-damaged", &on("torn-then-glued", &[]).seen());
    snapshot(
        "overview-json",
        &on("subagents-every-placement", &["--json"]).seen(),
    );
}

#[test]
fn a_machine_without_history() {
    let world = World::new();
    snapshot("overview-nothing", &world.run(&[]).seen());
    snapshot("sessions-nothing", &world.run(&["sessions"]).seen());
    snapshot(
        "sessions-nothing-json",
        &world.run(&["sessions", "--json"]).seen(),
    );
    snapshot(
        "sessions-filtered",
        &on("branch-nested", &["sessions", "-p", "elsewhere"]).seen(),
    );
}

#[test]
fn projects() {
    snapshot(
        "projects",
        &on("two-projects-one-folder", &["projects"]).seen(),
    );
    snapshot(
        "projects-json",
        &on("two-projects-one-folder", &["projects", "--json"]).seen(),
    );
    snapshot("projects-moved", &on("moved-project", &["projects"]).seen());
}

#[test]
fn a_moved_project_is_found_by_old_and_new_path_and_name() {
    let rows = |wanted: &str| on("moved-project", &["sessions", "-p", wanted, "--json"]);
    let all = on("moved-project", &["sessions", "--json"]).out;
    for line in [
        "old-place",
        "new-place",
        "/home/dev/old-place",
        "/home/dev/new-place",
    ] {
        assert_eq!(rows(line).code, 0, "{line}");
        assert_eq!(rows(line).out, all, "{line}");
    }
    assert_eq!(rows("no-such-project").code, 1);
}

#[test]
fn sessions() {
    snapshot(
        "sessions",
        &on("2.1.325-s01-multiturn", &["sessions"]).seen(),
    );
    snapshot(
        "sessions-json",
        &on("2.1.325-s04-agent", &["sessions", "--json"]).seen(),
    );
    snapshot(
        "sessions-limited",
        &on("2.1.325-s01-multiturn", &["sessions", "-n", "1"]).seen(),
    );
}

#[test]
fn a_period_leaves_out_what_is_older_and_newer() {
    let count = |args: &[&str]| {
        let mut all = vec!["sessions", "--json"];
        all.extend(args);
        on("2.1.325-s01-multiturn", &all)
            .out
            .matches("\"id\":")
            .count()
    };
    assert_eq!(count(&[]), 4);
    assert_eq!(count(&["--since", "1d"]), 4);
    assert_eq!(count(&["--since", "1h"]), 0);
    assert_eq!(count(&["--until", "2026-11-14"]), 0);
    assert_eq!(count(&["--until", "2026-11-15"]), 4);
}

#[test]
fn conversations() {
    snapshot(
        "conversations",
        &on("branch-nested", &["conversations"]).seen(),
    );
    snapshot(
        "conversations-json",
        &on("branch-edited-prompt", &["conversations", "--json"]).seen(),
    );
}

#[test]
fn show() {
    snapshot(
        "show-tools",
        &on("2.1.325-s02-tools", &["show", "e64eea5a"]).seen(),
    );
    snapshot(
        "show-agents",
        &on("2.1.325-s04-agent", &["show", "3dfa1268"]).seen(),
    );
    snapshot(
        "show-agent",
        &on("2.1.325-s04-agent", &["show", "3dfa", "--agent", "a318"]).seen(),
    );
    snapshot(
        "show-compaction",
        &on("compaction", &["show", only("compaction").as_str()]).seen(),
    );
    snapshot(
        "show-json",
        &on(
            "parallel-tools-dag",
            &["show", only("parallel-tools-dag").as_str(), "--json"],
        )
        .seen(),
    );
    snapshot(
        "show-thinking",
        &on("2.1.325-s02-tools", &["show", "e64e", "--kind", "thinking"]).seen(),
    );
    snapshot(
        "show-all",
        &on(
            "attachments-in-chain",
            &["show", only("attachments-in-chain").as_str(), "--all"],
        )
        .seen(),
    );
    snapshot(
        "show-damaged",
        &on(
            "torn-then-glued",
            &["show", only("torn-then-glued").as_str()],
        )
        .seen(),
    );
    snapshot(
        "show-image",
        &on("image", &["show", only("image").as_str()]).seen(),
    );
}

#[test]
fn the_end_of_a_log_is_the_end_of_the_whole() {
    let whole = on(
        "2.1.325-s02-tools",
        &["show", "e64e", "--json", "--role", "user", "--role", "user"],
    );
    assert_eq!(whole.code, 2, "a flag given twice is an error");
    let entries = |args: &[&str]| -> Vec<serde_json::Value> {
        let ran = on("2.1.325-s02-tools", args);
        let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        document["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["id"].clone())
            .collect()
    };
    let all = entries(&["show", "e64e", "--json"]);
    for n in [1, 3, 100] {
        let last = entries(&["show", "e64e", "--json", "--last", &n.to_string()]);
        assert_eq!(last, all[all.len().saturating_sub(n)..], "{n}");
    }
}

#[test]
fn an_inner_message_ends_what_is_shown() {
    let session = only("branch-nested");
    let ran = on("branch-nested", &["show", &format!("{session}@00000003")]);
    assert!(ran.out.contains("question 2\n"), "{}", ran.out);
    assert!(!ran.out.contains("edited"), "{}", ran.out);
}

#[test]
fn raw_records_are_the_bytes_of_the_file() {
    let ran = on(
        "number-spellings",
        &["show", only("number-spellings").as_str(), "--raw"],
    );
    let dir = repository().join("fixtures/claude-code/number-spellings/projects");
    let folder = std::fs::read_dir(dir)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let log = std::fs::read_dir(folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let text = std::fs::read_to_string(log).unwrap();
    for line in ran.out.lines() {
        assert!(text.contains(line), "{line}");
    }
    assert!(
        ran.out.contains("1e5"),
        "the fixture's spellings come through"
    );
}

#[test]
fn trees() {
    for fixture in [
        "branch-nested",
        "branch-three-way",
        "compaction-twice",
        "subagents-every-placement",
        "cycle-of-three",
    ] {
        snapshot(
            &format!("tree-{fixture}"),
            &on(fixture, &["tree", only(fixture).as_str()]).seen(),
        );
    }
    snapshot(
        "tree-json",
        &on(
            "branch-edited-prompt",
            &["tree", only("branch-edited-prompt").as_str(), "--json"],
        )
        .seen(),
    );
}

#[test]
fn checks() {
    snapshot("check-fine", &on("2.1.325-s02-tools", &["check"]).seen());
    snapshot("check-nul-runs", &on("nul-runs", &["check"]).seen());
    snapshot("check-json", &on("torn-tail", &["check", "--json"]).seen());
}

#[test]
fn hostile_text_does_not_reach_the_terminal() {
    let session = only("hostile-text");
    for args in [
        vec![],
        vec!["sessions"],
        vec!["show", &session],
        vec!["tree", &session],
        vec!["conversations"],
        vec!["show", &session, "--json"],
    ] {
        let ran = on("hostile-text", &args);
        let bad = ran.out.chars().find(|c| {
            (c.is_control() && *c != '\n' && *c != '\t')
                || matches!(*c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        });
        assert_eq!(bad, None, "{args:?}");
    }
}

#[test]
fn ids_that_do_not_fit_say_what_to_do() {
    snapshot(
        "id-unknown",
        &on("branch-nested", &["show", "ffffffff"]).seen(),
    );
    snapshot(
        "id-ambiguous",
        &on("2.0.77-s01-multiturn", &["show", "d"]).seen(),
    );
    snapshot(
        "id-hostile",
        &on("branch-nested", &["show", "x..\u{7}"]).seen(),
    );
    snapshot(
        "id-path",
        &on("branch-nested", &["show", "fixtures/../README.md"]).seen(),
    );
    snapshot(
        "id-long",
        &on("branch-nested", &["show", &"a".repeat(10_000)]).seen(),
    );
    snapshot(
        "root-missing",
        &World::new()
            .run(&["--root", "/no/such/place", "sessions"])
            .seen(),
    );
    snapshot(
        "root-layout",
        &World::new()
            .run(&["--root", "nonsense:/tmp", "sessions"])
            .seen(),
    );
    snapshot(
        "time-bad",
        &on("branch-nested", &["sessions", "--since", "someday"]).seen(),
    );
}

/// The only session of a fixture.
fn only(fixture: &str) -> String {
    let ran = on(fixture, &["sessions", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    document["sessions"][0]["id"].as_str().unwrap().to_owned()
}
