//! Ids, names, links and modes: nothing outside a root is reached, and new files are private.

use annals::model::SessionId;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::PathBuf;

use serde_json::Value;

use super::{ID, assert_quiet, begun, below, later, limited};
use crate::harness::Stage;

// Ids as paths.

#[test]
fn ids_that_are_paths_reach_no_file_outside() {
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
            &["notes", "add", id, "x"],
            &["todos", "add", id, "x"],
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
            // A plain file name is a valid session id; the log goes into the project folder.
            if verb.contains(&"--id") && SessionId::new(id).is_ok() {
                continue;
            }
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
fn paths_in_trash_manifests_reach_no_file_outside() {
    let stage = begun();
    stage.annals(&["delete", ID, "--apply"]).fine();
    let outside = stage.work().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("keep.txt"), "keep").unwrap();
    let trash = stage.root.with_file_name("state").join("undo");
    let name = fs::read_dir(&trash).unwrap().next().unwrap().unwrap();
    let manifest = name.path().join("manifest.json");
    let good: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    for (member, value) in [
        ("id", "../../work/outside".into()),
        ("id", "/etc".into()),
        ("sessions", serde_json::json!(["../../../x"])),
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
            // The other members did no harm: the session was restored and can be deleted again.
            stage.annals(&["delete", ID, "--apply"]).fine();
            let name = fs::read_dir(&trash).unwrap().next().unwrap().unwrap();
            assert_eq!(name.path().join("manifest.json"), manifest);
        }
    }
}

// Links.

#[test]
fn links_in_the_state_directory_are_not_followed() {
    for place in ["undo", "undo/FOLDER", "undo/FOLDER/files", "pins.json"] {
        let stage = begun();
        stage.annals(&["pin", ID]).fine();
        stage.annals(&["delete", ID, "--pinned", "--apply"]).fine();
        let state = stage.root.with_file_name("state");
        let folder = fs::read_dir(state.join("undo"))
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
fn links_in_a_root_are_not_cleaned_or_written_through() {
    let stage = begun();
    stage.annals(&["todos", "add", ID, "something"]).fine();
    stage.annals(&["notes", "add", ID, "something"]).fine();
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
            &["todos", "add", ID, "x"],
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

/// Hard links outside the root keep their content: documents are replaced, and logs are renamed.
#[test]
fn hard_linked_documents_outside_are_not_changed() {
    let stage = begun();
    stage.annals(&["todos", "add", ID, "something"]).fine();
    let todos = fs::read_dir(stage.root.join("todos")).unwrap();
    let todos = todos.flatten().next().unwrap().path();
    let outside = stage.work().join("todos.json");
    let log = stage.work().join("log.jsonl");
    fs::hard_link(&todos, &outside).unwrap();
    fs::hard_link(stage.log_path(ID), &log).unwrap();
    let before = (fs::read(&outside).unwrap(), fs::read(&log).unwrap());
    stage.annals(&["todos", "add", ID, "more"]).fine();
    assert_eq!(fs::read(&outside).unwrap(), before.0);
    let log_now = fs::read(&log).unwrap();
    stage.annals(&["delete", ID, "--apply"]).fine();
    stage.annals(&["clean", "--purge", "--apply"]).fine();
    assert_eq!(fs::read(&outside).unwrap(), before.0);
    assert_eq!(fs::read(&log).unwrap(), log_now);
}

// Modes.

#[test]
fn new_files_are_private_under_any_umask() {
    let stage = Stage::empty();
    let base = stage.root.parent().unwrap().to_owned();
    let before: BTreeSet<PathBuf> = below(&base).into_iter().map(|(path, _)| path).collect();
    let clog = format!("clog:{}", base.join("clog").display());
    let chorus = format!("chorus:{}", base.join("chorus").display());
    let orchestrator = format!("orchestrator:{}", base.join("orchestrator").display());
    let own = format!("claude-code:{}", stage.root.display());
    let run = |root: &str, args: &[&str]| {
        let first = match args[0] {
            // A clock years ahead, so that everything is old.
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
        run(root, &["notes", "add", id, "a note"]);
        run(root, &["todos", "add", id, "something"]);
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
