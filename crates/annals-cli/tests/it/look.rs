//! The read-only verbs: every table, tree and JSON document that they print.

use std::fs::read_dir;
use std::path::{Path, PathBuf};

use insta::{assert_snapshot, with_settings};

use crate::harness::{Run, Stage};

/// Runs the program on a copy of a fixture.
fn on(fixture: &str, args: &[&str]) -> Run {
    Stage::with_fixture(fixture).without_notes().annals(args)
}

/// Standard output of the program on a copy of a fixture, unmasked.
fn exactly(fixture: &str, args: &[&str]) -> String {
    let stage = Stage::with_fixture(fixture);
    let mut command = stage.command();
    command.arg("--root").arg(&stage.root).args(args);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Compares the output and the exit code with a snapshot.
fn snapshot(name: &str, run: &Run) {
    with_settings!({ omit_expression => true }, { assert_snapshot!(name, run.to_string()) });
}

#[test]
fn command_line_reference() {
    let stage = Stage::empty();
    let help = stage.bare(&["--help"]).out;
    let mut reference = help.clone();
    let groups = help.lines().skip_while(|line| *line != "Look:");
    let groups = groups.take_while(|line| *line != "Global options:");
    let verbs = groups.filter(|line| line.starts_with("  "));
    let verbs = verbs.filter_map(|line| line.split_whitespace().next());
    let actions = [
        "todos add",
        "notes add",
        "chorus workspaces",
        "chorus agents",
    ];
    for verb in verbs.filter(|verb| *verb != "help").chain(actions) {
        let words: Vec<&str> = verb.split(' ').collect();
        let ran = stage.bare(&[words.as_slice(), &["--help"]].concat());
        assert_eq!(ran.code, 0, "{verb}");
        let same = [words.as_slice(), &["-h"]].concat();
        assert_eq!(stage.bare(&same).out, ran.out, "{verb}");
        let same = [&["help"][..], words.as_slice()].concat();
        assert_eq!(stage.bare(&same).out, ran.out, "{verb}");
        reference.push_str(&format!("\n======== annals {verb} --help\n\n{}", ran.out));
    }
    with_settings!({ omit_expression => true }, { assert_snapshot!("reference", reference) });
}

#[test]
fn the_overview() {
    snapshot("overview", &on("subagents-every-placement", &[]));
    snapshot("overview-damaged", &on("torn-then-glued", &[]));
    snapshot(
        "overview-json",
        &on("subagents-every-placement", &["--json"]),
    );
}

#[test]
fn show_role_system_prints_only_instructions() {
    let stage = Stage::with_fixture("agentpool-session");
    let run = stage.annals(&["show", "e8d973c7", "--all", "--role", "system"]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.out.contains("System message text"), "{run}");
    assert!(!run.out.contains("Assistant Reply"), "{run}");
}

#[test]
fn a_machine_without_history() {
    let stage = Stage::empty();
    snapshot("overview-nothing", &stage.bare(&[]));
    snapshot("sessions-nothing", &stage.bare(&["sessions"]));
    let run = stage.bare(&["show", "x"]);
    assert!(
        run.err
            .contains("no agent history was found in ~/.claude and "),
        "{run}"
    );
    snapshot(
        "sessions-nothing-json",
        &stage.bare(&["sessions", "--json"]),
    );
    snapshot(
        "sessions-filtered",
        &on("branch-nested", &["sessions", "-p", "elsewhere"]),
    );
}

#[test]
fn projects() {
    snapshot("projects", &on("two-projects-one-folder", &["projects"]));
    snapshot(
        "projects-json",
        &on("two-projects-one-folder", &["projects", "--json"]),
    );
    snapshot("projects-moved", &on("moved-project", &["projects"]));
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
    snapshot("sessions", &on("2.1.325-s01-multiturn", &["sessions"]));
    snapshot(
        "sessions-json",
        &on("2.1.325-s04-agent", &["sessions", "--json"]),
    );
    snapshot(
        "sessions-limited",
        &on("2.1.325-s01-multiturn", &["sessions", "-n", "1"]),
    );
}

#[test]
fn since_and_until_limit_the_sessions() {
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
    snapshot("conversations", &on("branch-nested", &["conversations"]));
    snapshot(
        "conversations-json",
        &on("branch-edited-prompt", &["conversations", "--json"]),
    );
}

#[test]
fn show() {
    snapshot(
        "show-tools",
        &on("2.1.325-s02-tools", &["show", "e64eea5a"]),
    );
    snapshot(
        "show-agents",
        &on("2.1.325-s04-agent", &["show", "3dfa1268"]),
    );
    snapshot(
        "show-agent",
        &on("2.1.325-s04-agent", &["show", "3dfa", "--agent", "a318"]),
    );
    snapshot(
        "show-compaction",
        &on("compaction", &["show", only("compaction").as_str()]),
    );
    snapshot(
        "show-json",
        &on(
            "parallel-tools-dag",
            &["show", only("parallel-tools-dag").as_str(), "--json"],
        ),
    );
    snapshot(
        "show-thinking",
        &on("2.1.325-s02-tools", &["show", "e64e", "--kind", "thinking"]),
    );
    snapshot(
        "show-all",
        &on(
            "attachments-in-chain",
            &["show", only("attachments-in-chain").as_str(), "--all"],
        ),
    );
    snapshot(
        "show-damaged",
        &on(
            "torn-then-glued",
            &["show", only("torn-then-glued").as_str()],
        ),
    );
    snapshot(
        "show-image",
        &on("image", &["show", only("image").as_str()]),
    );
}

#[test]
fn show_last_prints_the_last_entries() {
    let whole = on(
        "2.1.325-s02-tools",
        &["show", "e64e", "--json", "--role", "user", "--role", "user"],
    );
    assert_eq!(whole.code, 2, "a flag given twice is an error");
    let entries = |args: &[&str]| -> Vec<serde_json::Value> {
        let printed = exactly("2.1.325-s02-tools", args);
        let document: serde_json::Value = serde_json::from_str(&printed).unwrap();
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
fn show_at_a_message_ends_with_it() {
    let session = only("branch-nested");
    let ran = on("branch-nested", &["show", &format!("{session}@00000003")]);
    assert!(ran.out.contains("question 2\n"), "{}", ran.out);
    assert!(!ran.out.contains("edited"), "{}", ran.out);
}

#[test]
fn show_raw_prints_the_bytes_of_the_file() {
    let session = only("number-spellings");
    let printed = exactly("number-spellings", &["show", &session, "--raw"]);
    let text = std::fs::read_to_string(log_of("number-spellings")).unwrap();
    for line in printed.lines() {
        assert!(text.contains(line), "{line}");
    }
    assert!(
        printed.contains("1e5"),
        "the fixture's spellings come through"
    );
}

#[test]
fn tree_draws_branches() {
    for fixture in [
        "branch-nested",
        "branch-three-way",
        "compaction-twice",
        "subagents-every-placement",
        "cycle-of-three",
    ] {
        snapshot(
            &format!("tree-{fixture}"),
            &on(fixture, &["tree", only(fixture).as_str()]),
        );
    }
    snapshot(
        "tree-json",
        &on(
            "branch-edited-prompt",
            &["tree", only("branch-edited-prompt").as_str(), "--json"],
        ),
    );
}

#[test]
fn check_prints_reports() {
    snapshot("check-fine", &on("2.1.325-s02-tools", &["check"]));
    snapshot("check-nul-runs", &on("nul-runs", &["check"]));
    snapshot("check-json", &on("torn-tail", &["check", "--json"]));
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
fn invalid_ids_roots_and_times_print_a_hint() {
    snapshot("id-unknown", &on("branch-nested", &["show", "ffffffff"]));
    snapshot("id-ambiguous", &on("2.0.77-s01-multiturn", &["show", "d"]));
    snapshot("id-hostile", &on("branch-nested", &["show", "x..\u{7}"]));
    snapshot("id-path", &on("branch-nested", &["show", "/etc/hostname"]));
    snapshot(
        "id-long",
        &on("branch-nested", &["show", &"a".repeat(10_000)]),
    );
    snapshot(
        "root-missing",
        &Stage::empty().bare(&["--root", "/no/such/place", "sessions"]),
    );
    snapshot(
        "root-layout",
        &Stage::empty().bare(&["--root", "nonsense:/tmp", "sessions"]),
    );
    snapshot(
        "time-bad",
        &on("branch-nested", &["sessions", "--since", "someday"]),
    );
}

/// The id of a fixture's only session.
fn only(fixture: &str) -> String {
    let log = log_of(fixture);
    log.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// The log of a fixture's only session.
fn log_of(fixture: &str) -> PathBuf {
    let stage = Stage::with_fixture(fixture);
    let projects = stage.root.join("projects");
    let folder = read_dir(&projects).unwrap().next().unwrap().unwrap();
    let logs = read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut logs = logs.filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.ends_with(".jsonl") && !name.starts_with("agent-")
    });
    let name = logs
        .next()
        .unwrap()
        .strip_prefix(&stage.root)
        .unwrap()
        .to_owned();
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/claude-code")
        .join(fixture)
        .join(name)
}
