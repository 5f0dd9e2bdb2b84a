//! Text that a terminal would interpret or hide.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{ID, assert_quiet, begun, below};
use crate::harness::Stage;

/// Control sequences and invisible characters.
const PAYLOAD: &str = "\u{1b}[31;1mA\u{1b}]8;;http://evil.example\u{7}B\u{1b}]52;c;cHduZWQ=\u{1b}\\C\u{1b}PqD\u{1b}\\E\u{9b}2JF\u{9d}0;G\u{9c}\u{202e}H\u{2066}\u{200b}I\u{feff}\u{0}\u{8}\u{7f}\rJ\u{2028}K\u{e0041}";

/// Appends the payload to every string of every record and document, except `spared` members.
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

/// One root with fixtures of a layout that cover all kinds of files.
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
    let stage = Stage::with_fixture_of(layout, fixtures[0]);
    for more in &fixtures[1..] {
        let other = Stage::with_fixture_of(layout, more);
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
fn every_command_escapes_hostile_text() {
    for layout in ["claude-code", "chorus", "clog", "orchestrator"] {
        // First only message texts are hostile, then nearly every string.
        for spared in [&STRUCTURE[..], &["type", "role"]] {
            let stage = gathered(layout);
            assert!(poison(&stage.root, spared) > 0);
            stage.settle();
            drive(&stage, layout);
        }
    }
}

/// Runs all verbs that print anything. `cost --csv` and JSON exports into a pipe are for programs
/// and cannot escape hostile text; they are safe only on a terminal, as their own tests show.
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
        &["doctor", "--paths"],
        &["chorus", "workspaces"],
        &["chorus", "agents"],
        &["chorus", "settings"],
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

/// Control: `assert_quiet` detects hostile text.
#[test]
#[should_panic(expected = "control")]
fn control_hostile_text_is_detected() {
    assert_quiet("plain \u{9b}31m", "control");
}

#[test]
fn hostile_arguments_are_escaped() {
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
        &["notes", "add", ID, payload],
        &["todos", "add", ID, payload],
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
