//! Attacks on the program, one for each line of docs/THREATS.md that concerns it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{Run, Stage};

const ID: &str = "00000000-0000-4000-8000-000000000001";

fn begun() -> Stage {
    let stage = Stage::empty();
    stage
        .annals(&[
            "new",
            "--id",
            ID,
            "--cwd",
            "/home/dev/w",
            "-m",
            "question 1",
        ])
        .fine();
    stage
}

/// Runs the program years later, when everything is old.
fn later(stage: &Stage, args: &[&str]) -> Run {
    let root = format!("claude-code:{}", stage.root.display());
    let mut command = stage.command();
    let command = command.env("ANNALS_NOW", "2030-01-01T00:00:00Z");
    let output = command.args(["--root", &root]).args(args).output();
    stage.run_of(&output.unwrap())
}

// Ids as paths.

#[test]
fn ids_that_are_paths_lead_nowhere_in_any_verb() {
    let stage = begun();
    let secret = stage.work().join("secret.txt");
    fs::write(&secret, "TOP-SECRET\n").unwrap();
    fs::write(stage.root.with_file_name("outside.jsonl"), "{}\n").unwrap();
    let mega = "a".repeat(100_000);
    for id in [
        "../../outside",
        "..%2f..%2foutside",
        "%00",
        "CON",
        "NUL",
        "aux.jsonl",
        "C:\\secret.txt",
        "\\\\host\\share",
        "~",
        "$(touch pwned)",
        "`touch pwned`",
        "*",
        "projects/..",
        "--",
        "\u{1b}[2Jx",
        "\u{202e}x",
        &mega,
    ] {
        for verb in [
            &["show", id][..],
            &["show", &format!("{ID}@{id}")],
            &["tree", id],
            &["conversations", id],
            &["files", id],
            &["files", ID, id],
            &["files", ID, "--outputs", id],
            &["todos", id],
            &["notes", id],
            &["plans", id],
            &["documents", id],
            &["check", id],
            &["repair", id],
            &["export", id],
            &["export", ID, "-f", id],
            &["convert", id, "--to", "clog", "--into", "x"],
            &["convert", ID, "--to", id, "--into", "x"],
            &["append", id, "-m", "x"],
            &["append", ID, "--at", id, "-m", "x"],
            &["fork", id],
            &["fork", ID, "--id", id],
            &["title", id, "x"],
            &["tag", id, "x"],
            &["note", id, "x"],
            &["todo", id, "add", "x"],
            &["compact", id, "--summary", "x"],
            &["delete", id, "--apply"],
            &["delete", "--undo", id],
            &["delete", "--project", id, "--apply"],
            &["clean", "--older-than", "0d", "-p", id, "--apply"],
            &["clean", "--older-than", "0d", "--layout", id, "--apply"],
            &["pin", id],
            &["pin", "--remove", id],
            &["new", "--id", id],
            &["search", id, "--session", id],
        ] {
            let before = stage.tree();
            let run = stage.annals(verb);
            assert!(stage.tree() == before, "{verb:?} changed something: {run}");
            assert!(
                run.code != 0 || !run.out.contains("SECRET"),
                "{verb:?}: {run}"
            );
            assert!(
                (1..=2).contains(&run.code) || run.out.len() < 4_000,
                "{verb:?}: {run}"
            );
            assert!(!run.err.contains("panicked"), "{verb:?}: {run}");
            assert_quiet(&run.err, &format!("{verb:?}"));
        }
    }
    assert!(!stage.work().join("pwned").exists());
}

#[test]
fn names_in_the_trash_lead_nowhere() {
    let stage = begun();
    stage.annals(&["delete", ID, "--apply"]).fine();
    let outside = stage.work().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("keep.txt"), "keep").unwrap();
    let trash = stage.root.with_file_name("state").join("trash");
    let name = fs::read_dir(&trash).unwrap().next().unwrap().unwrap();
    let manifest = name.path().join("manifest.json");
    let good: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    for (member, value) in [
        ("id", "../../work/outside".into()),
        ("id", "/etc".into()),
        ("session", "../../../x".into()),
        ("layout", "../x".into()),
        (
            "files",
            serde_json::json!([{"path": "../../work/outside/keep.txt", "bytes": 4}]),
        ),
        (
            "files",
            serde_json::json!([{"path": "/etc/passwd", "bytes": 4}]),
        ),
        (
            "files",
            serde_json::json!([{"path": "projects/../../work/x.jsonl", "bytes": 4}]),
        ),
        (
            "dirs",
            serde_json::json!([{"path": "../../work/new", "mode": 511}]),
        ),
        (
            "dirs",
            serde_json::json!([{"path": stage.work().join("new"), "mode": 511}]),
        ),
        (
            "dirs",
            serde_json::json!([{"path": "projects", "mode": 511}]),
        ),
    ] {
        let mut bad = good.clone();
        bad[member] = value;
        fs::write(&manifest, bad.to_string()).unwrap();
        let inside = |stage: &Stage| {
            let mut tree = stage.tree();
            tree.retain(|path, _| path.starts_with(stage.work()));
            tree
        };
        let before = inside(&stage);
        for args in [
            &["delete", "--list"][..],
            &["sessions", "--state", "deleted"],
            &["clean", "--purge"],
        ] {
            let run = stage.annals(args);
            assert!(!run.err.contains("panicked"), "{bad}: {run}");
        }
        let run = stage.annals(&["delete", "--undo", ID]);
        assert!(!run.err.contains("panicked"), "{bad}: {run}");
        assert!(inside(&stage) == before, "{bad}: {run}");
        assert!(!stage.work().join("new").exists());
        if run.code == 0 {
            // What it said besides did no harm: it came back, and goes again.
            stage.annals(&["delete", ID, "--apply"]).fine();
            let name = fs::read_dir(&trash).unwrap().next().unwrap().unwrap();
            assert_eq!(name.path().join("manifest.json"), manifest);
        }
    }
}

// Links.

#[test]
fn links_in_the_state_directory_are_not_followed() {
    for place in ["trash", "trash/FOLDER", "trash/FOLDER/files", "pins.json"] {
        let stage = begun();
        stage.annals(&["pin", ID]).fine();
        stage.annals(&["delete", ID, "--pinned", "--apply"]).fine();
        let state = stage.root.with_file_name("state");
        let folder = fs::read_dir(state.join("trash"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let folder = folder.file_name().into_string().unwrap();
        let link = state.join(place.replace("FOLDER", &folder));
        let outside = stage.work().join("outside");
        fs::rename(&link, &outside).unwrap();
        symlink(&outside, &link).unwrap();
        let before = below(&outside);
        for args in [
            &["delete", "--undo", ID][..],
            &["delete", "--list"],
            &["clean", "--purge", "--apply"],
            &["pin", "--remove", ID],
            &[
                "new",
                "--id",
                "00000009-0000-4000-8000-000000000009",
                "-m",
                "x",
            ],
            &["pin", "00000009"],
            &["delete", "00000009", "--pinned", "--apply"],
            &["clean", "--older-than", "0d", "--apply"],
        ] {
            let run = later(&stage, args);
            assert!(!run.err.contains("panicked"), "{place} {args:?}: {run}");
            assert_eq!(below(&outside), before, "{place} {args:?}: {run}");
        }
    }
}

#[test]
fn links_in_a_root_are_neither_cleaned_nor_written_through() {
    let stage = begun();
    stage.annals(&["todo", ID, "add", "something"]).fine();
    stage.annals(&["note", ID, "something"]).fine();
    for (at, place) in ["projects/-home-dev-w", "projects", "todos"]
        .iter()
        .enumerate()
    {
        let outside = stage.work().join(format!("outside{at}"));
        fs::rename(stage.root.join(place), &outside).unwrap();
        symlink(&outside, stage.root.join(place)).unwrap();
        let before = below(&outside);
        for args in [
            &["clean", "--older-than", "0d", "--live", "--apply"][..],
            &["delete", ID, "--apply"],
            &["append", ID, "-m", "x"],
            &["title", ID, "x"],
            &["todo", ID, "add", "x"],
            &["repair", "--apply"],
        ] {
            let run = later(&stage, args);
            assert!(!run.err.contains("panicked"), "{place} {args:?}: {run}");
            // A link to `todos` alone leaves the log itself writable.
            if *place != "todos" || args[0] != "append" && args[0] != "title" {
                assert_eq!(below(&outside), before, "{place} {args:?}: {run}");
            }
        }
        fs::remove_file(stage.root.join(place)).unwrap();
        fs::rename(&outside, stage.root.join(place)).unwrap();
    }
}

/// What has a second name outside keeps its content there: documents are replaced, and moves move names.
#[test]
fn hard_links_do_not_carry_changes_of_documents_outside() {
    let stage = begun();
    stage.annals(&["todo", ID, "add", "something"]).fine();
    let todos = fs::read_dir(stage.root.join("todos")).unwrap();
    let todos = todos.flatten().next().unwrap().path();
    let outside = stage.work().join("todos.json");
    let log = stage.work().join("log.jsonl");
    fs::hard_link(&todos, &outside).unwrap();
    fs::hard_link(stage.log_path(ID), &log).unwrap();
    let before = (fs::read(&outside).unwrap(), fs::read(&log).unwrap());
    stage.annals(&["todo", ID, "add", "more"]).fine();
    assert_eq!(fs::read(&outside).unwrap(), before.0);
    let log_now = fs::read(&log).unwrap();
    stage.annals(&["delete", ID, "--apply"]).fine();
    stage.annals(&["clean", "--purge", "--apply"]).fine();
    assert_eq!(fs::read(&outside).unwrap(), before.0);
    assert_eq!(fs::read(&log).unwrap(), log_now);
}

/// Every path with its content; links are not followed but for the first.
fn below(path: &Path) -> BTreeSet<(PathBuf, Vec<u8>)> {
    let mut found = BTreeSet::new();
    let mut pending = vec![path.to_owned()];
    while let Some(path) = pending.pop() {
        match fs::read_dir(&path) {
            Ok(dir) => {
                pending.extend(dir.flatten().map(|entry| entry.path()));
                found.insert((path, Vec::new()));
            }
            Err(_) => {
                let bytes = fs::read(&path).unwrap_or_default();
                found.insert((path, bytes));
            }
        }
    }
    found
}

// Modes.

#[test]
fn everything_is_private_whatever_the_umask() {
    let stage = Stage::empty();
    let base = stage.root.parent().unwrap().to_owned();
    let before: BTreeSet<PathBuf> = below(&base).into_iter().map(|(path, _)| path).collect();
    let clog = format!("clog:{}", base.join("clog").display());
    let chorus = format!("chorus:{}", base.join("chorus").display());
    let orchestrator = format!("orchestrator:{}", base.join("orchestrator").display());
    let own = format!("claude-code:{}", stage.root.display());
    let run = |root: &str, args: &[&str]| {
        let first = match args[0] {
            // Years later, when everything is old.
            "clean" => "umask 000; export ANNALS_NOW=2030-01-01T00:00:00Z",
            _ => "umask 000",
        };
        let output = limited(&stage, first, &[&["--root", root], args].concat());
        assert!(
            output.status.success(),
            "{args:?}: {}",
            stage.run_of(&output)
        );
    };
    for (at, root) in [&own, &clog, &chorus, &orchestrator]
        .into_iter()
        .enumerate()
    {
        let id = &format!("0000000{at}-0000-4000-8000-000000000001");
        run(
            root,
            &["new", "--id", id, "--cwd", "/home/dev/w", "-m", "question"],
        );
        run(root, &["title", id, "A title"]);
        run(root, &["tag", id, "label"]);
        run(root, &["note", id, "a note"]);
        run(root, &["todo", id, "add", "something"]);
        run(root, &["sessions"]);
        run(root, &["search", "question"]);
        run(root, &["pin", id]);
        run(root, &["pin", "--remove", id]);
        run(root, &["delete", id, "--apply"]);
        run(root, &["delete", "--undo", id]);
        run(root, &["clean", "--older-than", "1d", "--live", "--apply"]);
        if at > 0 {
            run(root, &["delete", "--undo", id]);
        }
    }
    run(&own, &["delete", "--undo", ID]);
    let there = base.join("there").display().to_string();
    run(&own, &["convert", ID, "--to", "clog", "--into", &there]);
    run(&own, &["delete", ID, "--apply"]);
    let mut checked = 0;
    for (path, _) in below(&base) {
        if before.contains(&path) {
            continue;
        }
        let mode = path.metadata().unwrap().mode() & 0o777;
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, wanted, "{}: {mode:o}", path.display());
        checked += 1;
    }
    assert!(checked > 30, "{checked}");
}

// Hostile text.

/// Whatever a terminal would obey or hide.
const PAYLOAD: &str = "\u{1b}[31;1mA\u{1b}]8;;http://evil.example\u{7}B\u{1b}]52;c;cHduZWQ=\u{1b}\\C\u{1b}PqD\u{1b}\\E\u{9b}2JF\u{9d}0;G\u{9c}\u{202e}H\u{2066}\u{200b}I\u{feff}\u{0}\u{8}\u{7f}\rJ\u{2028}K\u{e0041}";

#[track_caller]
fn assert_quiet(text: &str, what: &str) {
    let mut loud = text.chars();
    let loud = loud.find(|&c| annals::text::is_hostile(c) && !matches!(c, '\n' | '\t'));
    assert_eq!(loud, None, "{what}: {text:?}");
}

/// Puts the payload into every string of every record and document, but for those members.
fn poison(dir: &Path, spared: &[&str]) -> usize {
    fn into(value: &mut Value, key: &str, spared: &[&str]) {
        match value {
            Value::String(text) if !spared.contains(&key) => text.push_str(PAYLOAD),
            Value::Array(list) => list.iter_mut().for_each(|value| into(value, key, spared)),
            Value::Object(object) => {
                object
                    .iter_mut()
                    .for_each(|(key, value)| into(value, key, spared));
                if key == "input" || key == "metadata" {
                    object.insert(PAYLOAD.to_owned(), PAYLOAD.into());
                }
            }
            _ => {}
        }
    }
    let mut count = 0;
    for (path, bytes) in below(dir) {
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        if path.is_dir() || text.is_empty() {
            continue;
        }
        let whole = serde_json::from_str::<Value>(&text);
        let poisoned = match whole {
            Ok(mut value) => {
                into(&mut value, "", spared);
                value.to_string() + "\n"
            }
            Err(_) => {
                let line = |line: &str| match serde_json::from_str::<Value>(line) {
                    Ok(mut value) => {
                        into(&mut value, "", spared);
                        value.to_string()
                    }
                    Err(_) => format!("{line}{PAYLOAD}"),
                };
                let lines: Vec<String> = text.lines().map(line).collect();
                lines.join("\n") + "\n"
            }
        };
        fs::write(&path, poisoned).unwrap();
        count += 1;
    }
    count
}

const STRUCTURE: [&str; 30] = [
    "type",
    "uuid",
    "parentUuid",
    "sessionId",
    "session_id",
    "timestamp",
    "ts",
    "time",
    "role",
    "id",
    "tool_use_id",
    "agentId",
    "leafUuid",
    "messageId",
    "logicalParentUuid",
    "createdAt",
    "updatedAt",
    "created_at",
    "updated_at",
    "status",
    "subtype",
    "sourceToolAssistantUUID",
    "requestId",
    "version",
    "media_type",
    "parent",
    "channel",
    "backupFileName",
    "startedAt",
    "kind",
];

/// Fixtures of a layout that have something of everything, in one root.
fn gathered(layout: &'static str) -> Stage {
    let fixtures: &[&str] = match layout {
        "claude-code" => &[
            "2.1.325-s04-agent",
            "todos",
            "tasks",
            "plans",
            "history",
            "tool-results",
            "file-history",
            "title-custom",
            "corrupt-parent",
            "unknown-files",
        ],
        "chorus" => &["chorus-every-type", "chorus-damage"],
        "clog" => &["every-role-and-channel", "what-only-annals-says"],
        _ => &["sub-agent", "notes-and-todos"],
    };
    let stage = Stage::of_layout(layout, fixtures[0]);
    for more in &fixtures[1..] {
        let other = Stage::of_layout(layout, more);
        for (path, bytes) in below(&other.root) {
            let to = stage.root.join(path.strip_prefix(&other.root).unwrap());
            if path.is_dir() {
                fs::create_dir_all(&to).unwrap();
            } else {
                fs::write(&to, bytes).unwrap();
            }
        }
    }
    stage
}

#[test]
fn hostile_text_leaves_no_verb_as_it_is() {
    for layout in ["claude-code", "chorus", "clog", "orchestrator"] {
        // Once where only what is said is hostile, once where nearly everything is.
        for spared in [&STRUCTURE[..], &["type", "role"]] {
            let stage = gathered(layout);
            assert!(poison(&stage.root, spared) > 0);
            stage.settle();
            drive(&stage, layout);
        }
    }
}

/// Runs all that prints anything. A table of values for a program (`cost --csv` into a pipe) has no way
/// to spell what is hostile, nor are exports as JSON changed for one: those are safe on a terminal only,
/// as their own tests show.
fn drive(stage: &Stage, layout: &str) {
    let root = format!("{layout}:{}", stage.root.display());
    let run = |args: &[&str]| {
        let output = stage.command().args(["--root", &root]).args(args).output();
        let output = output.unwrap();
        let what = format!("{layout} {args:?}");
        for bytes in [&output.stdout, &output.stderr] {
            let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_quiet(text, &what);
            assert!(!text.contains("panicked"), "{what}: {text}");
        }
        output
    };
    let json: Value =
        serde_json::from_slice(&run(&["sessions", "--json"]).stdout).unwrap_or_default();
    let rows = json["sessions"].as_array().cloned().unwrap_or_default();
    for args in [
        &[][..],
        &["projects"],
        &["sessions"],
        &["conversations"],
        &["todos"],
        &["notes"],
        &["plans"],
        &["history"],
        &["documents"],
        &["search", "a"],
        &["cost", "--by", "session"],
        &["cost", "--by", "project"],
        &["cost", "--by", "model"],
        &["cost", "--by", "agent"],
        &["cost", "--by", "branch"],
        &[
            "prices",
            PAYLOAD.trim_matches('\0').split('\0').next().unwrap(),
        ],
        &["check"],
        &["repair"],
        &["index"],
        &["workspaces"],
        &["agents"],
        &["settings"],
        &["clean", "--older-than", "0d"],
    ] {
        run(args);
        run(&[args, &["--json"]].concat());
    }
    for row in rows.iter().take(4) {
        let id = row["id"].as_str().unwrap();
        for args in [
            &["show", id][..],
            &["show", id, "--all"],
            &["tree", id],
            &["files", id],
            &["files", id, "--outputs"],
            &["export", id],
            &["export", id, "-f", "html"],
            &["convert", id, "--to", "clog"],
            &["delete", id],
            &["check", id],
            &["pin", id],
            &["pin"],
            &["delete", id, "--pinned", "--live", "--apply"],
            &["delete", "--list"],
            &["sessions", "--state", "deleted"],
            &["clean", "--purge"],
            &["delete", "--undo", id],
        ] {
            run(args);
            if !args.contains(&"--apply") && !args.contains(&"--undo") && args[0] != "export" {
                run(&[args, &["--json"]].concat());
            }
        }
    }
}

/// The check itself sees what is loud.
#[test]
#[should_panic(expected = "control")]
fn control_a_loud_text_is_seen() {
    assert_quiet("plain \u{9b}31m", "control");
}

#[test]
fn hostile_arguments_are_told_safely() {
    let stage = begun();
    let payload: String = PAYLOAD.chars().filter(|&c| c != '\0').collect();
    let payload = payload.as_str();
    for args in [
        &["show", payload][..],
        &["search", payload],
        &["search", &format!("({payload}")],
        &["cost", "--by", payload],
        &["sessions", "--since", payload],
        &["clean", "--older-than", payload],
        &["clean", "--older-than", "1d", "-p", payload],
        &["pin", payload],
        &["delete", "--undo", payload],
        &["check", payload],
        &["new", "--id", payload],
        &["title", ID, payload],
        &["tag", ID, payload],
        &["note", ID, payload],
        &["todo", ID, "add", payload],
        &["append", ID, "-m", payload],
        &["export", ID, "-o", &format!("/nowhere/{payload}")],
        &[payload],
        &["--root", payload, "sessions"],
        &["sessions"],
        &["show", ID],
        &["tree", ID],
        &["todos"],
        &["notes"],
    ] {
        let run = stage.annals(args);
        assert!(!run.err.contains("panicked"), "{args:?}: {run}");
        assert_quiet(&run.out, &format!("{args:?}"));
        assert_quiet(&run.err, &format!("{args:?}"));
    }
}

// Bombs.

/// Runs the program after a command of the shell, such as one that limits it.
fn limited(stage: &Stage, first: &str, args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command
        .env_clear()
        .envs(stage.env())
        .current_dir(stage.work())
        .args(["-c", &format!("{first}; exec \"$0\" \"$@\"")])
        .arg(assert_cmd::cargo::cargo_bin!("annals"))
        .args(args);
    command.output().unwrap()
}

/// So many kilobytes of address space: the program, its threads and their stacks.
const MEMORY: &str = "ulimit -v 1500000";

#[track_caller]
fn survives(stage: &Stage, limit: &str, verbs: &[&[&str]]) {
    let root = format!("claude-code:{}", stage.root.display());
    for verb in verbs {
        let output = limited(stage, limit, &[&["--root", root.as_str()], *verb].concat());
        let run = stage.run_of(&output);
        let shown: String = run.err.chars().take(2_000).collect();
        assert!((0..=2).contains(&run.code), "{verb:?}: {shown}");
        assert!(
            !shown.contains("panicked") && !shown.contains("allocation"),
            "{verb:?}: {shown}"
        );
    }
}

const LOOKING: [&[&str]; 12] = [
    &[],
    &["sessions", "--json"],
    &["conversations"],
    &["show", ID, "--json"],
    &["show", ID],
    &["tree", ID],
    &["search", "question"],
    &["cost"],
    &["check"],
    &["files", ID],
    &["todos"],
    &["export", ID, "-f", "html"],
];

#[test]
fn deep_nesting_is_no_bomb() {
    let deep =
        |open: &str, close: &str| format!("{}{}", open.repeat(200_000), close.repeat(200_000));
    let stage = begun();
    let log = stage.log_path(ID);
    let mut text = fs::read_to_string(&log).unwrap();
    let record = |content: &str| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"{ID}\",\"sessionId\":\"{ID}\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"message\":{{\"role\":\"user\",\"content\":{content}}}}}\n"
        )
    };
    text.push_str(&"[".repeat(200_000));
    text.push('\n');
    text.push_str(&(deep("[", "]") + "\n"));
    text.push_str(&record(&deep("[", "]")));
    text.push_str(&record(&deep("{\"a\":", "}").replace(":}", ":1}")));
    text.push_str(&record("\"question 2\""));
    fs::write(&log, text).unwrap();
    fs::create_dir_all(stage.root.join("todos")).unwrap();
    fs::write(
        stage.root.join(format!("todos/{ID}-agent-{ID}.json")),
        deep("[", "]"),
    )
    .unwrap();
    survives(&stage, MEMORY, &LOOKING);
    // What stands around it is still there.
    let found = stage.annals(&["search", "question", "--json"]).json();
    assert_eq!(found["total"], 2);
}

#[test]
fn a_line_longer_than_any_record_is_no_bomb() {
    let stage = begun();
    let log = stage.log_path(ID);
    let mut text = fs::read(&log).unwrap();
    // More than the longest line that is read, and then something after it.
    let long = annals::jsonl::MAX_LINE + (1 << 20);
    text.extend_from_slice(b"{\"type\":\"user\",\"message\":{\"content\":\"");
    text.resize(text.len() + long, b'x');
    text.extend_from_slice(b"\"}}\n");
    text.extend_from_slice(
        format!("{{\"type\":\"user\",\"uuid\":\"{ID}\",\"sessionId\":\"{ID}\",\"message\":{{\"role\":\"user\",\"content\":\"question 2\"}}}}\n").as_bytes(),
    );
    fs::write(&log, text).unwrap();
    survives(
        &stage,
        MEMORY,
        &[&["sessions"], &["check"], &["show", ID], &["cost"]],
    );
    let found = stage.annals(&["search", "question", "--json"]).json();
    assert_eq!(found["total"], 2);
}

#[test]
fn huge_ids_and_counters_are_no_bombs() {
    let stage = begun();
    let log = stage.log_path(ID);
    let mut text = fs::read_to_string(&log).unwrap();
    let mega = "i".repeat(1 << 20);
    text.push_str(&format!("{{\"type\":\"user\",\"uuid\":\"{mega}\",\"parentUuid\":\"{mega}\",\"sessionId\":\"{mega}\",\"message\":{{\"role\":\"user\",\"content\":\"question 2\"}}}}\n"));
    text.push_str(&format!("{{\"type\":\"{mega}\",\"{mega}\":1}}\n"));
    for (at, usage) in [
        "{\"input_tokens\":-5,\"output_tokens\":-9223372036854775808}",
        "{\"input_tokens\":18446744073709551615,\"output_tokens\":18446744073709551615}",
        "{\"input_tokens\":18446744073709551616,\"output_tokens\":1e400}",
        "{\"input_tokens\":1e308,\"output_tokens\":\"NaN\"}",
        "{\"input_tokens\":0.5,\"output_tokens\":null}",
        "{\"input_tokens\":[],\"output_tokens\":{}}",
        "{\"input_tokens\":NaN,\"output_tokens\":Infinity}",
        "{\"input_tokens\":7,\"output_tokens\":8}",
    ]
    .iter()
    .enumerate()
    {
        text.push_str(&format!("{{\"type\":\"assistant\",\"uuid\":\"0000000{at}-0000-4000-8000-00000000000a\",\"sessionId\":\"{ID}\",\"requestId\":\"r{at}\",\"timestamp\":\"2026-11-01T00:00:0{at}Z\",\"message\":{{\"id\":\"m{at}\",\"role\":\"assistant\",\"model\":\"claude-sonnet-4-5\",\"content\":[],\"usage\":{usage}}}}}\n"));
    }
    fs::write(&log, text).unwrap();
    survives(&stage, MEMORY, &LOOKING);
    let cost = stage.annals(&["cost", "--json"]).json();
    let spent = cost["total"]["cost_usd"].as_str().unwrap_or_default();
    assert!(!spent.starts_with('-'), "{cost}");
    assert!(cost["total"]["output"].as_u64().unwrap() >= 8, "{cost}");
    for key in ["input", "output"] {
        assert!(cost["total"][key].is_u64(), "{cost}");
    }
}

#[test]
fn many_tiny_files_are_no_bomb() {
    tiny_files(4_000);
}

#[test]
#[ignore = "takes minutes; run it with --run-ignored all"]
fn a_hundred_thousand_tiny_files_are_no_bomb() {
    tiny_files(100_000);
}

fn tiny_files(files: usize) {
    let stage = Stage::empty();
    let folder = stage.root.join("projects/-w");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..files {
        fs::write(
            folder.join(format!("{number:08x}-0000-4000-8000-000000000000.jsonl")),
            "{}\n",
        )
        .unwrap();
    }
    survives(
        &stage,
        MEMORY,
        &[
            &["sessions", "-n", "1"],
            &["check"],
            &["clean", "--older-than", "0d", "--json"],
        ],
    );
}

/// More sub-agents than a process may have files open.
#[test]
fn a_session_of_many_files_goes_and_comes_back() {
    let stage = begun();
    let agents = stage.log_path(ID).with_extension("").join("subagents");
    fs::create_dir_all(&agents).unwrap();
    for number in 0..200 {
        let line = format!(
            "{{\"type\":\"user\",\"sessionId\":\"{ID}\",\"agentId\":\"a{number}\",\"isSidechain\":true}}\n"
        );
        fs::write(agents.join(format!("agent-a{number}.jsonl")), line).unwrap();
    }
    stage.settle_times();
    let before = stage.tree();
    survives(
        &stage,
        "ulimit -n 120",
        &[&["delete", ID, "--apply"], &["delete", "--undo", ID]],
    );
    assert!(stage.tree() == before);
    let trash = stage.root.with_file_name("state").join("trash");
    assert_eq!(fs::read_dir(trash).unwrap().count(), 0);
}
