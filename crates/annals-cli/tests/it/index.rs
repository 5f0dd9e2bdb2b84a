//! `annals index`, and lists that use the index.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::harness::Stage;

/// A copy of a fixture, old enough to be indexed: files changed a moment ago are not.
fn stage(fixture: &str) -> Stage {
    let stage = Stage::with_fixture(fixture);
    std::thread::sleep(Duration::from_millis(25));
    stage
}

fn state(stage: &Stage) -> PathBuf {
    stage.root.with_file_name("state")
}

/// The index's counts of sessions: current, changed, unread.
fn known(stage: &Stage) -> [u64; 3] {
    let status = stage.annals(&["index", "status", "--json"]).json();
    let parts = status["roots"][0]["parts"].as_array().unwrap();
    let part = parts
        .iter()
        .find(|part| part["name"] == "sessions")
        .unwrap();
    ["current", "stale", "missing"].map(|name| part[name].as_u64().unwrap())
}

/// Masks for the size and version of the database.
const VARYING: [(&str, &str); 2] = [
    (r"[\d.]+ (kB|MB), version \d+", "[size], version [n]"),
    (r"index-\d\d?\.db", "index-[n].db"),
];

#[test]
fn index_is_built_updated_and_dropped() {
    let stage = stage("branch-three-way");
    let none = stage.annals(&["index"]);
    insta::with_settings!({filters => VARYING}, { assert_snapshot!("index_none", none) });
    assert!(!state(&stage).exists(), "looking makes nothing");
    stage.annals(&["sessions"]).fine();
    let [current, stale, missing] = known(&stage);
    assert!(current > 0);
    assert_eq!([stale, missing], [0, 0]);
    let log = stage
        .tree()
        .into_keys()
        .find(|path| path.to_str().unwrap().ends_with(".jsonl"));
    let mut log = fs::OpenOptions::new()
        .append(true)
        .open(log.unwrap())
        .unwrap();
    log.write_all(b"{\"type\":\"odd\"}\n").unwrap();
    assert_eq!(known(&stage), [current - 1, 1, 0]);
    std::thread::sleep(Duration::from_millis(25));
    fs::write(state(&stage).join("index-999.db"), "newer").unwrap();
    let built = stage.annals(&["index", "build"]).fine();
    insta::with_settings!({filters => VARYING}, { assert_snapshot!("index_build", built) });
    let dropped = stage.annals(&["index", "drop", "--json"]).json();
    assert!(
        dropped["dropped"].as_array().unwrap().len() >= 2,
        "{dropped}"
    );
    assert!(dropped["bytes"].as_u64().unwrap() > 1000, "{dropped}");
    assert!(fs::read_dir(state(&stage)).unwrap().next().is_none());
    assert_snapshot!(stage.annals(&["index", "drop"]), @r"
    exit code 0
    --- stdout
    There is no index in [DIR]/state.
    ");
    stage.annals(&["index", "rebuild"]).fine();
    assert_eq!(known(&stage), [current, 0, 0]);
}

#[test]
fn a_status_for_scripts() {
    let stage = stage("same-session-two-projects");
    let empty = stage.annals(&["index", "status", "--json"]);
    assert_eq!(empty.code, 1);
    let empty: Value = serde_json::from_str(&empty.out).unwrap();
    assert_eq!(
        (&empty["exists"], &empty["roots"]),
        (&json!(false), &json!([]))
    );
    stage.annals(&["index", "build"]).fine();
    let mut status = stage.annals(&["index", "--json"]).json();
    assert!(status["bytes"].as_u64().unwrap() > 0);
    for member in ["bytes", "version", "path"] {
        status[member] = Value::Null;
    }
    assert_snapshot!(serde_json::to_string_pretty(&status).unwrap());
}

#[test]
fn no_index_option_creates_no_index() {
    let stage = stage("branch-three-way");
    for verb in ["build", "rebuild"] {
        let run = stage.refused(&["--no-index", "index", verb], "");
        assert!(run.err.contains("--no-index"), "{run}");
    }
    stage.annals(&["--no-index", "sessions"]).fine();
    assert!(!state(&stage).exists());
}

/// Exit codes and outputs of the verbs that print lists.
fn lists(stage: &Stage, more: &[&str]) -> Vec<(i32, String)> {
    let verbs: [&[&str]; 8] = [
        &[],
        &["--json"],
        &["sessions"],
        &["sessions", "--json"],
        &["projects", "--json"],
        &["conversations"],
        &["conversations", "--json"],
        &["sessions", "--sort", "cost", "-n", "1", "--json"],
    ];
    let run = |verb: &[&str]| {
        let run = stage.annals(&[more, verb].concat());
        (run.code, run.out)
    };
    verbs.into_iter().map(run).collect()
}

#[test]
fn lists_print_the_same_with_and_without_index() {
    for fixture in [
        "2.1.325-s04-agent",
        "moved-project",
        "fork-by-sdk",
        "hostile-text",
    ] {
        let stage = stage(fixture);
        let plain = lists(&stage, &["--no-index"]);
        assert_eq!(lists(&stage, &[]), plain, "{fixture}, first");
        assert_eq!(lists(&stage, &[]), plain, "{fixture}, again");
    }
}

#[test]
fn unusable_state_directory_costs_one_note_and_no_answer() {
    let reported = |stage: &Stage, why: &str| {
        let plain = stage.annals(&["--no-index", "sessions", "--json"]).fine();
        let run = stage.annals(&["sessions", "--json"]).fine();
        assert_eq!(run.out, plain.out);
        assert!(
            run.err.starts_with("note: ") && run.err.contains(why),
            "{run}"
        );
        assert_eq!(run.err.lines().count(), 1, "{run}");
    };
    // Some commands open the index more than once, but print the note once.
    let told_once = |stage: &Stage, why: &str| {
        reported(stage, why);
        for verb in [&["conversations"][..], &["search", "question"]] {
            let run = stage.annals(verb);
            assert!(run.err.contains(why), "{run}");
            assert_eq!(run.err.matches("note: ").count(), 1, "{run}");
        }
    };
    // There is no index, and none can be created.
    let unusable = |stage: &Stage, why: &str| {
        for verb in ["status", "build", "rebuild"] {
            let run = stage.annals(&["index", verb]);
            assert_eq!((run.code, run.out.as_str()), (2, ""), "{run}");
            assert!(run.err.contains(why), "{run}");
            assert!(
                run.err.contains("hint: remove it, or name another state"),
                "{run}"
            );
        }
    };
    // A file in place of the state directory.
    let stage = Stage::with_fixture("branch-three-way");
    fs::write(state(&stage), "not a directory").unwrap();
    told_once(&stage, "state is not a directory; reading all logs instead");
    unusable(&stage, "is not a directory");
    // A dangling link.
    fs::remove_file(state(&stage)).unwrap();
    std::os::unix::fs::symlink("gone", state(&stage)).unwrap();
    told_once(&stage, "is a dangling symbolic link");
    unusable(&stage, "is a dangling symbolic link");
    // A link that an attacker planted.
    let stage = Stage::with_fixture("branch-three-way");
    stage.annals(&["sessions"]).fine();
    let files = fs::read_dir(state(&stage)).unwrap();
    let database = files.map(|entry| entry.unwrap().path());
    let database = database.filter(|path| path.extension().is_some_and(|ending| ending == "db"));
    let database = database.last().unwrap();
    let precious = stage.work().join("precious");
    fs::write(&precious, "").unwrap();
    fs::remove_file(&database).unwrap();
    std::os::unix::fs::symlink(&precious, &database).unwrap();
    told_once(&stage, "is a symbolic link");
    for verb in ["drop", "build"] {
        let run = stage.refused(&["index", verb], "");
        assert!(run.err.contains("ANNALS_STATE_DIR"), "{run}");
        assert!(!run.err.contains("--root"), "{run}");
    }
    assert_eq!(fs::read(&precious).unwrap(), b"");
    // A damaged database.
    fs::remove_file(&database).unwrap();
    fs::write(&database, "no database ".repeat(1000)).unwrap();
    reported(&stage, "will be rebuilt");
    assert!(database.with_extension("db.unusable").exists());
    let again = stage.annals(&["sessions"]).fine();
    assert_eq!(again.err, "");
}

/// A read-only index is used, and the failure to update it is reported once.
#[test]
fn read_only_state_directory_is_used_as_it_is() {
    let mode = |stage: &Stage, mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(state(stage), mode).unwrap();
    };
    let finished = stage("branch-three-way");
    finished.annals(&["index", "build"]).fine();
    let empty = stage("branch-three-way");
    fs::create_dir(state(&empty)).unwrap();
    mode(&finished, 0o555);
    mode(&empty, 0o555);
    // Root may write everywhere.
    if fs::write(state(&empty).join("x"), "").is_ok() {
        return;
    }
    let plain = finished.annals(&["--no-index", "conversations"]).fine();
    let before = fs::read_dir(state(&finished)).unwrap().count();
    let run = finished.annals(&["conversations"]).fine();
    assert_eq!((run.out, run.err), (plain.out.clone(), String::new()));
    for verb in [&["search", "question"][..], &["cost"], &["index", "status"]] {
        let run = finished.annals(verb);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{verb:?}: {run}");
    }
    assert_eq!(known(&finished)[1..], [0, 0]);
    assert_eq!(fs::read_dir(state(&finished)).unwrap().count(), before);
    let run = empty.annals(&["conversations"]).fine();
    assert_eq!(run.out, plain.out);
    assert!(
        run.err.contains("state is read-only; reading all logs"),
        "{run}"
    );
    assert_eq!(run.err.lines().count(), 1, "{run}");
    for (stage, verbs) in [
        (&finished, &["build", "rebuild", "drop"][..]),
        (&empty, &["build", "status"]),
    ] {
        for verb in verbs {
            let run = stage.annals(&["index", verb]);
            assert_eq!((run.code, run.out.as_str()), (2, ""), "{verb}: {run}");
            assert!(run.err.contains("ANNALS_STATE_DIR"), "{verb}: {run}");
            assert!(!run.err.contains("--root"), "{verb}: {run}");
        }
    }
    let mut log = finished.tree().into_keys();
    let log = log.find(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    let mut log = fs::OpenOptions::new()
        .append(true)
        .open(log.unwrap())
        .unwrap();
    log.write_all(b"{\"type\":\"odd\"}\n").unwrap();
    std::thread::sleep(Duration::from_millis(25));
    let run = finished.annals(&["conversations"]).fine();
    assert!(run.err.contains("read-only"), "{run}");
    assert_eq!(run.err.lines().count(), 1, "{run}");
    let run = finished.annals(&["search", "question"]).fine();
    assert_eq!(run.err, "");
    mode(&finished, 0o755);
    mode(&empty, 0o755);
}

/// With no room for the index, the answer is complete and the earlier index stays intact.
#[test]
fn full_disk_costs_a_note_and_no_answer() {
    let stage = stage("2.1.325-s04-agent");
    let plain = stage.annals(&["--no-index", "sessions", "--json"]).fine();
    let root = format!("claude-code:{}", stage.root.display());
    // Limits in blocks of 512 bytes, or of 1024 in some shells.
    for room in [0, 8, 16, 40, 64] {
        let script = format!("trap '' XFSZ; ulimit -f {room}; exec \"$@\"");
        let run = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(assert_cmd::cargo::cargo_bin!("annals"))
            .args(["--root", &root, "sessions", "--json"])
            .env_clear()
            .envs(stage.env())
            .stdout(Stdio::piped())
            .output()
            .unwrap();
        let run = stage.run_of(&run);
        assert_eq!(
            (run.code, &run.out),
            (0, &plain.out),
            "room for {room}: {run}"
        );
        assert!(!run.err.contains("panicked"), "{run}");
        if room == 0 {
            assert!(run.err.starts_with("note: "), "{run}");
        }
    }
    let after = stage.annals(&["sessions", "--json"]).fine();
    assert_eq!((after.out, after.err), (plain.out, String::new()));
}

/// `index build` and `index rebuild` do nothing else, so a full disk is an error for them.
#[test]
fn index_build_fails_on_a_full_disk() {
    let root = |stage: &Stage| format!("claude-code:{}", stage.root.display());
    let mut partly = 0;
    // From no room at all to room that runs out during the build.
    for room in [0, 64, 260, 280, 320] {
        for verb in ["build", "rebuild"] {
            let stage = stage("2.1.325-s04-agent");
            let script = format!("trap '' XFSZ; ulimit -f {room}; exec \"$@\"");
            let run = Command::new("bash")
                .args(["-c", &script, "bash"])
                .arg(assert_cmd::cargo::cargo_bin!("annals"))
                .args(["--root", &root(&stage), "index", verb])
                .env_clear()
                .envs(stage.env())
                .output()
                .unwrap();
            let run = stage.run_of(&run);
            assert_eq!((run.code, run.out.as_str()), (2, ""), "{room}: {run}");
            assert!(
                run.err.starts_with("error: the index is not used: "),
                "{room}: {run}"
            );
            assert!(run.err.contains("ANNALS_STATE_DIR"), "{room}: {run}");
            partly += usize::from(run.err.contains("cannot be written"));
            stage.annals(&["index", "build"]).fine();
        }
    }
    assert!(partly > 0, "no run came beyond the opening");
}

#[test]
fn index_killed_at_any_moment_gives_correct_answers() {
    let stage = stage("2.1.325-s04-agent");
    let folder = stage.root.join("projects/-w");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..300 {
        let line = json!({"type": "user", "uuid": format!("u{number}"), "cwd": "/w",
            "message": {"role": "user", "content": format!("prompt {number}")}});
        let name = format!("{number:08x}-0000-4000-8000-000000000000.jsonl");
        fs::write(folder.join(name), format!("{line}\n")).unwrap();
    }
    stage.settle();
    let plain = stage.annals(&["--no-index", "sessions", "--json"]).fine();
    let root = format!("claude-code:{}", stage.root.display());
    for wait in [0, 2, 5, 10, 15, 20, 30, 50, 80] {
        let mut run = Command::new(assert_cmd::cargo::cargo_bin!("annals"))
            .args(["--root", &root, "sessions", "--json"])
            .env_clear()
            .envs(stage.env())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        run.kill().unwrap();
        run.wait().unwrap();
    }
    let after = stage.annals(&["sessions", "--json"]).fine();
    assert_eq!((after.out, after.err), (plain.out, String::new()));
}
