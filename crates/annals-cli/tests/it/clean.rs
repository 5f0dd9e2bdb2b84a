//! Tests of `clean` and `pin`.

use std::fs;
use std::process::Command;

use insta::assert_snapshot;
use serde_json::Value;

use crate::harness::Stage;

const OLD: &str = "00000000-0000-4000-8000-000000000001";
const OLDER: &str = "00000001-0000-4000-8000-000000000002";
const OTHER: &str = "00000002-0000-4000-8000-000000000003";
const YOUNG: &str = "00000003-0000-4000-8000-000000000004";

/// Four sessions of two projects; three of them are more than a month old.
fn four() -> Stage {
    let stage = Stage::empty();
    for (id, cwd, now) in [
        (OLD, "/home/dev/one", "2026-09-20T10:00:00Z"),
        (OLDER, "/home/dev/one", "2026-08-01T10:00:00Z"),
        (OTHER, "/home/dev/other", "2026-10-01T10:00:00Z"),
        (YOUNG, "/home/dev/other", "2026-11-10T10:00:00Z"),
    ] {
        let root = format!("claude-code:{}", stage.root.display());
        let made = stage
            .command()
            .env("ANNALS_NOW", now)
            .args(["--root", &root, "new", "--id", id, "--cwd", cwd])
            .args(["-m", "What is the question?"])
            .output();
        assert!(made.unwrap().status.success());
    }
    stage.annals(&["todos", "add", OTHER, "something"]).fine();
    stage.settle();
    stage
}

fn ids(document: &Value, list: &str) -> Vec<String> {
    let rows = document[list].as_array().unwrap().iter();
    rows.map(|row| row["id"].as_str().unwrap().to_owned())
        .collect()
}

fn configure(stage: &Stage, text: &str) {
    let dir = stage.root.with_file_name("home").join(".config/annals");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), text).unwrap();
}

#[test]
fn clean_plan_changes_nothing_and_clean_can_be_undone() {
    let stage = four();
    let before = stage.tree();
    assert_snapshot!(
        "clean_plan",
        stage.annals(&["clean", "--older-than", "30d"])
    );
    assert_snapshot!(
        "clean_plan_json",
        stage.annals(&["clean", "--older-than", "60d", "--json"])
    );
    assert!(stage.tree() == before);
    let plan = stage
        .annals(&["clean", "--older-than", "30d", "--json"])
        .json();
    let done = stage
        .annals(&["clean", "--older-than", "30d", "--apply", "--json"])
        .json();
    for key in ["kept", "files", "bytes"] {
        assert_eq!(plan[key], done[key], "{key}");
    }
    assert_eq!(ids(&plan, "sessions"), [OLDER, OLD, OTHER]);
    assert_eq!(ids(&done, "sessions"), ids(&plan, "sessions"));
    assert!(plan["sessions"][0]["trash"].is_null() && done["sessions"][0]["trash"].is_string());
    assert!(!stage.root.join("projects/-home-dev-one").exists());
    let left = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(ids(&left, "sessions"), [YOUNG]);
    assert_snapshot!(
        "clean_again",
        stage.annals(&["clean", "--older-than", "30d", "--apply"])
    );
    for id in [OLD, OLDER, OTHER] {
        stage.annals(&["delete", "--undo", id]).fine();
    }
    assert!(stage.tree() == before);
    assert_snapshot!(
        "clean_apply",
        stage.annals(&["clean", "--older-than", "60d", "--apply"])
    );
}

#[test]
fn clean_filters_by_project_and_layout() {
    let stage = four();
    let clean = |args: &[&str]| {
        let args = [&["clean", "--older-than", "30d", "--json"], args].concat();
        ids(&stage.annals(&args).json(), "sessions")
    };
    assert_eq!(clean(&["-p", "other"]), [OTHER]);
    assert_eq!(clean(&["-p", "/home/dev/one"]), [OLDER, OLD]);
    assert_eq!(clean(&["--layout", "claude-code"]).len(), 3);
    assert_eq!(clean(&["--layout", "clog"]).len(), 0);
    assert_eq!(clean(&["--keep-last", "1"]), [OLDER, OTHER]);
    assert_snapshot!(
        "clean_project_unknown",
        stage.refused(
            &["clean", "--older-than", "30d", "-p", "two", "--apply"],
            ""
        )
    );
    assert_snapshot!(
        "clean_layout_unknown",
        stage.refused(
            &["clean", "--older-than", "30d", "--layout", "x", "--apply"],
            ""
        )
    );
}

#[test]
fn clean_uses_the_configured_age_by_default() {
    let stage = four();
    let old = || ids(&stage.annals(&["clean", "--json"]).json(), "sessions");
    assert_snapshot!(
        "clean_without_settings",
        stage.refused(&["clean", "--apply"], "")
    );
    configure(&stage, "[clean]\nolder-than = \"30d\"\n");
    assert_eq!(old(), [OLDER, OLD, OTHER]);
    configure(
        &stage,
        "[clean]\nolder-than = \"30d\"\nkeep-last = 1\n[clean.project]\n\"/home/dev/one\" = \"never\"\n",
    );
    assert_eq!(old(), [OTHER]);
    // `--older-than` does not override `never`.
    let once = stage.annals(&["clean", "--older-than", "1d", "--json"]);
    assert_eq!(ids(&once.json(), "sessions"), [OTHER]);
    configure(&stage, "[clean.layout]\nchorus = \"1d\"\n");
    assert_eq!(old(), [""; 0]);
    configure(&stage, "[clean.layout]\nclaude-code = \"3mo\"\n");
    assert_eq!(old(), [OLDER]);
    assert_snapshot!("clean_nothing", {
        configure(&stage, "[clean]\nolder-than = \"1y\"\n");
        stage.annals(&["clean"])
    });
}

#[test]
fn invalid_clean_settings_are_reported_with_their_location() {
    let stage = four();
    let mut reported = String::new();
    for text in [
        "[clean]\nolder = \"30d\"\n",
        "[clean]\nolder-than = 30\n",
        "[clean]\nolder-than = \"30m\"\n",
        "[clean]\nkeep-last = -1\n",
        "[clean.layout]\nclaude = \"30d\"\n",
        "[clean.project]\napp = \"30d\"\n",
        "clean = 3\n",
        "[clean]\nlayout = \"30d\"\n",
        "claen = 3\n",
    ] {
        configure(&stage, text);
        let run = stage.refused(&["clean", "--older-than", "30d", "--apply"], "");
        reported.push_str(&run.err);
    }
    assert_snapshot!("clean_settings", reported);
}

#[test]
fn clean_rejects_ambiguous_ages() {
    let stage = four();
    for age in ["30m", "30", "never", "-1d", "soon", "\u{1b}[2J", ""] {
        let run = stage.refused(&["clean", "--apply", &format!("--older-than={age}")], "");
        assert!(!run.err.contains('\u{1b}'), "{run}");
    }
    assert_snapshot!(
        "clean_bad_age",
        stage.refused(&["clean", "--older-than", "30m"], "")
    );
}

#[test]
fn pinned_sessions_are_marked_and_not_cleaned() {
    let stage = four();
    assert_snapshot!("pin_none", stage.annals(&["pin"]));
    assert_snapshot!("pin", stage.annals(&["pin", "00000000", OLDER]));
    assert_snapshot!("pin_again", stage.annals(&["pin", OLD]));
    assert_snapshot!("sessions_pinned", stage.annals(&["sessions"]));
    let rows = stage.annals(&["sessions", "--json"]).json();
    let pinned = rows["sessions"].as_array().unwrap().iter();
    let pinned: Vec<&Value> = pinned.map(|row| &row["pinned"]).collect();
    assert_eq!(pinned, [false, false, true, true]);
    for verb in ["show", "tree"] {
        let row = stage.annals(&[verb, OLD, "--json"]).json();
        assert_eq!(row["session"]["pinned"], true, "{verb}");
    }
    assert_snapshot!(
        "clean_pinned",
        stage.annals(&["clean", "--older-than", "30d"])
    );
    assert_snapshot!(
        "delete_pinned",
        stage.refused(&["delete", OLD, "--apply"], "")
    );
    assert_snapshot!(
        "delete_pinned_project",
        stage.refused(&["delete", "-p", "one", "--apply"], "")
    );
    stage.annals(&["delete", OLD, "--pinned", "--apply"]).fine();
    // The pin also protects the session in the trash.
    let purge = stage.annals(&["clean", "--purge", "--apply"]);
    assert_snapshot!("purge_pinned", purge);
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(" {2,}", "  ");
    settings.bind(|| assert_snapshot!("pin_list", stage.annals(&["pin", "--list"])));
    assert_snapshot!("pin_json", stage.annals(&["pin", "--json"]));
    stage.annals(&["delete", "--undo", OLD]).fine();
    assert_snapshot!(
        "pin_remove",
        stage.annals(&["pin", "--remove", OLD, "00000001"])
    );
    assert_snapshot!(
        "pin_remove_unknown",
        stage.refused(&["pin", "--remove", OLD], "")
    );
    assert_eq!(stage.annals(&["pin", "--json"]).code, 1);
    stage.refused(&["pin", "nothing-like-it"], "");
    let log = stage.log_path(OLD);
    stage.annals(&["pin", log.to_str().unwrap()]).fine();
    stage
        .annals(&["pin", "--remove", log.to_str().unwrap()])
        .fine();
}

#[test]
fn purge_prints_a_plan_and_cannot_be_undone() {
    let stage = four();
    stage
        .annals(&["clean", "--older-than", "60d", "--apply"])
        .fine();
    assert_snapshot!("purge_nothing", {
        stage.annals(&["clean", "--purge", "--older-than", "7d", "--apply"])
    });
    let before = stage.tree();
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(" {2,}", "  ");
    settings.bind(|| assert_snapshot!("purge_plan", stage.annals(&["clean", "--purge"])));
    assert_snapshot!(
        "purge_plan_json",
        stage.annals(&["clean", "--purge", "--json"])
    );
    assert!(stage.tree() == before);
    // An earlier purge was interrupted half-way.
    let trash = stage.root.with_file_name("state").join("undo");
    fs::create_dir_all(trash.join(".purging-x/files")).unwrap();
    fs::write(trash.join(".purging-x/files/log.jsonl"), "{}\n").unwrap();
    settings.bind(|| {
        assert_snapshot!(
            "purge_apply",
            stage.annals(&["clean", "--purge", "--apply"])
        );
    });
    assert_eq!(fs::read_dir(&trash).unwrap().count(), 0);
    stage.refused(&["delete", "--undo", OLD], "");
    let left = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(ids(&left, "sessions").len(), 3);
    stage.refused(&["clean", "--purge", "-p", "one"], "");
}

#[test]
fn clean_continues_after_a_session_that_cannot_be_moved() {
    let stage = four();
    let log = stage.log_path(OLDER);
    let elsewhere = stage.cannot_go(&log);
    let run = stage.annals(&["clean", "--older-than", "30d", "--apply", "--json"]);
    assert_eq!(run.code, 2, "{run}");
    let reported: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(ids(&reported, "sessions"), [OLD, OTHER]);
    assert_eq!(reported["failed"][0]["session"], OLDER);
    assert!(elsewhere.exists());
}

#[test]
fn clean_skips_a_session_being_written() {
    let stage = four();
    let log = stage.log_path(OLD);
    let mut text = fs::read_to_string(&log).unwrap();
    let now = jiff::Timestamp::now();
    let line = text.lines().last().unwrap();
    // A record written just now by a program whose clock is far ahead of ours.
    let line = line
        .replace(
            "2026-09-20T10:00:00",
            &now.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
        )
        .replace("\"annals", "\"agent");
    text.push_str(&line);
    text.push('\n');
    fs::write(&log, text).unwrap();
    let root = format!("claude-code:{}", stage.root.display());
    let clean = |args: &[&str]| {
        let output = stage
            .command()
            .env("ANNALS_NOW", "2100-01-01T00:00:00Z")
            .args([
                "--root",
                &root,
                "clean",
                "--older-than",
                "30d",
                "--apply",
                "--json",
            ])
            .args(args)
            .output();
        stage.run_of(&output.unwrap()).json()
    };
    let reported = clean(&[]);
    assert_eq!(ids(&reported, "kept"), [OLD], "{reported}");
    assert_eq!(reported["kept"][0]["why"], "live");
    assert_eq!(ids(&reported, "sessions").len(), 3);
    assert_eq!(ids(&clean(&["--live"]), "sessions"), [OLD]);
}

/// `clean` is killed at every rename, mkdir and rmdir. The next run completes it, and everything
/// can be restored. Needs `strace`; without it the test prints so and passes.
#[test]
fn clean_killed_at_any_step_is_finished_by_the_next_run() {
    let mut points = 0;
    for call in ["renameat2", "mkdir", "rmdir"] {
        for at in 1..100 {
            let stage = Stage::with_fixture("2.1.325-s04-agent");
            let before = stage.tree();
            let root = format!("claude-code:{}", stage.root.display());
            let clean = ["clean", "--older-than", "0d", "--live", "--apply"];
            let strace = Command::new("strace")
                .args([
                    "-f",
                    "-qq",
                    "-o",
                    "/dev/null",
                    "-e",
                    &format!("trace={call}"),
                ])
                .args(["-e", &format!("inject={call}:signal=KILL:when={at}")])
                .arg(assert_cmd::cargo::cargo_bin!("annals"))
                .args(["--no-index", "--root", &root])
                .args(clean)
                .env_clear()
                .envs(stage.env())
                .current_dir(stage.work())
                .output();
            let Ok(strace) = strace else {
                eprintln!("skipped: there is no strace");
                return;
            };
            stage.annals(&clean).fine();
            let left = stage.annals(&["sessions", "--json"]);
            assert_eq!(left.code, 1, "{call} {at}: {left}");
            // A deletion in two steps has two trash folders; the session id restores both.
            let trash = stage.root.with_file_name("state").join("undo");
            let manifest =
                |folder: fs::DirEntry| fs::read(folder.path().join("manifest.json")).ok();
            let next = || fs::read_dir(&trash).unwrap().flatten().find_map(manifest);
            while let Some(manifest) = next() {
                let manifest: Value = serde_json::from_slice(&manifest).unwrap();
                let session = manifest["sessions"][0].as_str().unwrap();
                stage.annals(&["delete", "--undo", session]).fine();
            }
            let mut after = stage.tree();
            after.retain(|path, _| path.starts_with(&stage.root));
            assert!(after == before, "{call} {at}");
            if strace.status.success() {
                break;
            }
            points += 1;
        }
    }
    assert!(points > 10, "{points}");
}

#[test]
fn clean_that_moved_nothing_prints_only_that() {
    let stage = four();
    stage.cannot_go(&stage.log_path(OLDER));
    let run = stage.annals(&["clean", "--older-than", "90d", "--apply"]);
    assert_eq!(run.code, 2, "{run}");
    assert_eq!(run.out, "Nothing was moved to the trash.\n");
}

#[test]
fn purge_skips_an_unfinished_deletion() {
    let stage = four();
    let log = stage.log_path(OTHER);
    stage
        .annals(&["clean", "--older-than", "30d", "-p", "other", "--apply"])
        .fine();
    let trash = stage.root.with_file_name("state").join("undo");
    let folder = fs::read_dir(&trash).unwrap().next().unwrap().unwrap();
    // As if `clean` had been killed before its last step.
    let moved = folder.path().join("files");
    let moved = moved.join(log.strip_prefix(&stage.root).unwrap());
    fs::rename(moved, &log).unwrap();
    let before = stage.tree();
    let run = stage.annals(&["clean", "--purge", "--apply"]).fine();
    assert!(run.out.contains("its deletion was interrupted"), "{run}");
    assert!(run.out.contains(&format!("annals delete {OTHER}")), "{run}");
    assert!(run.out.ends_with("There is nothing to remove.\n"), "{run}");
    let reported = stage.annals(&["clean", "--purge", "--apply", "--json"]);
    let reported = reported.json();
    assert_eq!(reported["trashed"].as_array().unwrap().len(), 0);
    assert_eq!(reported["unfinished"][0]["sessions"][0], OTHER);
    let left = log.strip_prefix(&stage.root).unwrap().display();
    assert_eq!(
        reported["unfinished"][0]["left"],
        format!("[DIR]/root/{left}")
    );
    assert!(stage.tree() == before);
}

#[test]
fn plan_without_an_age_prints_the_command_that_applies_it() {
    for filters in [&[][..], &["--keep-last", "0"], &["--layout", "claude-code"]] {
        let stage = Stage::empty();
        let id = "00000000-0000-4000-8000-000000000001";
        stage.annals(&["new", "--id", id, "-m", "hello"]).fine();
        let log = stage.log_path(id);
        let text = fs::read_to_string(&log)
            .unwrap()
            .replace("2026-11", "2026-05");
        fs::write(&log, text).unwrap();
        stage.settle();
        let plan = stage.annals(&[&["clean"], filters].concat()).fine();
        let command = plan
            .out
            .split('`')
            .nth(1)
            .unwrap_or_else(|| panic!("{plan}"));
        assert!(
            command.starts_with("annals clean --older-than 30d"),
            "{plan}"
        );
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        assert!(filters.iter().all(|word| words.contains(word)), "{plan}");
        let done = stage.annals(&words).fine();
        assert!(done.out.contains("moved to the trash: 1 session"), "{done}");
    }
}
