//! Tests of `archive`, `restore` and `keep`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use insta::assert_snapshot;

use crate::harness::{Run, Stage};

const FIRST: &str = "00000000-0000-4000-8000-000000000001";
const SECOND: &str = "00000001-0000-4000-8000-000000000002";

/// Two sessions in two projects.
fn two() -> Stage {
    let stage = Stage::empty();
    for (id, cwd) in [(FIRST, "/home/dev/one"), (SECOND, "/home/dev/other")] {
        stage
            .annals(&["new", "--id", id, "--cwd", cwd, "-m", "question"])
            .fine();
    }
    stage.annals(&["todos", "add", FIRST, "something"]).fine();
    stage.settle();
    stage
}

/// The files of the root.
fn root(stage: &Stage) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut tree = stage.tree();
    tree.retain(|path, _| path.starts_with(&stage.root));
    tree
}

/// The compressed logs in the archive.
fn archived_logs(stage: &Stage) -> Vec<PathBuf> {
    let tree = stage.tree().into_keys();
    tree.filter(|path| path.to_str().unwrap().ends_with(".jsonl.zst"))
        .filter(|path| path.components().any(|part| part.as_os_str() == "files"))
        .collect()
}

/// Allows commands on sessions that look live; no program writes to those of the tests.
const LIVE: &str = "--live";

/// Masks compressed sizes, which depend on times, and column widths, which depend on paths.
#[track_caller]
fn shown(name: &str, run: &Run) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r#"("packed": )\d+"#, "$1[n]");
    settings.add_filter(r"\d+(\.\d+)? k?B in the archive", "[n] in the archive");
    settings.add_filter(r"(B +(?:–|\d+ B) +)\d+(\.\d+)? k?B", "$1[n]");
    settings.add_filter(r"claude-code-root-[0-9a-f]{8}", "claude-code-root-[tag]");
    settings.add_filter(r"\d+(\.\d+)? k?B( +(?:missing|present) )", "[n]$2");
    settings.add_filter(" {2,}", "  ");
    settings.bind(|| assert_snapshot!(name, run));
}

#[test]
fn archive_and_restore_round_trip_a_session() {
    let stage = two();
    let before = root(&stage);
    let whole = stage.tree();
    shown("archive_plan", &stage.annals(&["archive", FIRST]));
    shown(
        "archive_plan_json",
        &stage.annals(&["archive", FIRST, "--json"]),
    );
    assert!(stage.tree() == whole, "a plan changes nothing");
    assert_snapshot!("archive_list_empty", stage.annals(&["archive", "--list"]));
    shown(
        "archive_apply",
        &stage.annals(&["archive", FIRST, "--apply", LIVE]),
    );
    assert!(
        !root(&stage)
            .keys()
            .any(|path| { path.to_str().is_some_and(|path| path.contains(FIRST)) })
    );
    shown("archive_list", &stage.annals(&["archive", "--list"]));
    shown(
        "archive_list_json",
        &stage.annals(&["archive", "--list", "--json"]),
    );
    assert_snapshot!("archive_verify", stage.annals(&["archive", "--verify"]));
    assert_snapshot!("restore_plan", stage.annals(&["restore", "00000000"]));
    shown(
        "restore_json",
        &stage.annals(&["restore", "00000000", "--json", "--apply"]),
    );
    assert!(root(&stage) == before);
    assert_snapshot!(
        "restore_again",
        stage.annals(&["restore", FIRST, "--apply"])
    );
    assert!(root(&stage) == before);
}

#[test]
fn restore_to_another_directory_never_overwrites_a_session() {
    let stage = two();
    stage
        .annals(&["archive", FIRST, "--apply", "--keep-source"])
        .fine();
    let there = stage.work().join("there");
    let to = there.to_str().unwrap();
    stage
        .annals(&["restore", FIRST, "--to", to, "--apply"])
        .fine();
    let wanted = root(&stage);
    for (path, bytes) in stage.tree() {
        if let Ok(within) = path.strip_prefix(&there) {
            assert!(wanted[&stage.root.join(within)] == bytes);
        }
    }
    let log = stage.log_path(FIRST);
    fs::write(
        stage
            .root
            .join(log.strip_prefix(&stage.root).unwrap_or(&log)),
        "{}\n",
    )
    .unwrap();
    let plan = stage.annals(&["restore", FIRST]);
    assert_eq!(plan.code, 1, "{plan}");
    assert!(plan.out.contains("a different file exists"), "{plan}");
    stage.refused(&["restore", FIRST, "--apply"], "");
}

#[test]
fn archive_older_than_uses_the_last_record_time() {
    let stage = two();
    // The time of the last record counts, not the file's modification time.
    let run = stage.annals(&["archive", "--older-than", "1d"]);
    assert_eq!(run.code, 1, "{run}");
    assert_eq!(run.out, "No session is that old.\n");
    let later = |args: &[&str]| {
        let root = format!("claude-code:{}", stage.root.display());
        let output = stage
            .command()
            .env("ANNALS_NOW", "2026-12-25T12:00:00Z")
            .args(["--root", &root])
            .args(args)
            .output()
            .unwrap();
        stage.run_of(&output)
    };
    let run = later(&["archive", "--older-than", "30d", "--json", "--apply"]).json();
    assert_eq!(run["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(archived_logs(&stage).len(), 2);
    stage.refused(&["archive", "--apply"], "");
    stage.refused(&["archive", "--older-than", "soon"], "");
}

#[test]
fn keep_prints_one_summary_line() {
    let stage = two();
    shown("keep_first", &stage.annals(&["keep"]));
    assert_snapshot!("keep_again", stage.annals(&["keep"]));
    let quiet = stage.annals(&["keep", "-q"]).fine();
    assert!(quiet.out.is_empty() && quiet.err.is_empty(), "{quiet}");
    stage.annals(&["append", FIRST, "-m", "more", LIVE]).fine();
    let grown = stage.annals(&["keep", "-q", "--json"]).json();
    assert_eq!(grown["archived"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&grown["ok"], &grown["unchanged"]),
        (&true.into(), &1.into())
    );
    assert_snapshot!("keep_all", stage.annals(&["keep", "--verify-all"]));
}

#[test]
fn archive_verify_names_damage_and_exits_1() {
    let stage = two();
    stage.annals(&["keep"]).fine();
    flip(&archived_logs(&stage).remove(0), 30);
    let run = stage.annals(&["archive", "--verify"]);
    assert_eq!(run.code, 1, "{run}");
    assert!(run.out.starts_with("damaged [DIR]/state/archive/"), "{run}");
    assert!(run.out.contains("(frame at 0)"), "{run}");
    let json = stage.annals(&["archive", "--verify", "--json"]);
    assert_eq!(json.code, 1, "{json}");
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["ok"], &json["packs"]), (&false.into(), &2.into()));
    assert_eq!(json["damaged"][0]["frame"], 0);
    // The other session is intact.
    stage.annals(&["archive", "--verify", SECOND]).fine();
    stage.refused(&["archive", "--verify", "nobody"], "");
    // Without the root, the damage stays.
    let away = stage.work().join("away");
    fs::rename(&stage.root, &away).unwrap();
    fs::create_dir(&stage.root).unwrap();
    let kept = stage.annals(&["keep", "-q", "--verify-all"]);
    assert_eq!(kept.code, 1, "{kept}");
    assert!(kept.out.contains("found"), "{kept}");
    assert_eq!(stage.annals(&["archive", "--verify"]).code, 1);
}

#[test]
fn archive_of_newer_version_is_reported_and_left_unchanged() {
    let stage = two();
    stage.annals(&["keep"]).fine();
    let mut tree = stage.tree().into_keys();
    let note = tree.find(|path| path.ends_with("root.json")).unwrap();
    let newer = fs::read_to_string(&note)
        .unwrap()
        .replace("\"version\":1", "\"version\":2");
    for name in [&note, &note.with_file_name("root-copy.json")] {
        fs::write(name, &newer).unwrap();
    }
    let listed = stage.annals(&["archive", "--list"]);
    assert_eq!(listed.code, 1, "{listed}");
    assert!(
        listed
            .out
            .contains("has version 2, but this program reads version 1"),
        "{listed}"
    );
    let kept = stage.annals(&["keep"]);
    assert_eq!(kept.code, 2, "{kept}");
    assert!(kept.err.contains("written by a newer annals"), "{kept}");
    assert!(fs::read_to_string(&note).unwrap() == newer);
    let refused = stage.refused(&["restore", FIRST, "--apply"], "");
    assert!(refused.err.contains("version 2"), "{refused}");
}

#[test]
fn archive_skips_pinned_session_without_pinned_flag() {
    let stage = two();
    stage.annals(&["pin", FIRST]).fine();
    let refused = stage.refused(&["archive", FIRST, "--apply", LIVE], "");
    assert!(refused.err.contains("is pinned"), "{refused}");
    let of_project = ["archive", "--project", "/home/dev/one", "--apply", LIVE];
    let run = stage.annals(&of_project);
    assert_eq!(run.code, 1, "{run}");
    assert!(run.out.contains("1 pinned session skipped"), "{run}");
    assert!(archived_logs(&stage).is_empty());
    stage
        .annals(&["archive", FIRST, "--apply", "--pinned", LIVE])
        .fine();
    let refused = stage.refused(&["archive", FIRST, "--apply"], "");
    assert!(refused.err.contains("is archived"), "{refused}");
}

#[test]
fn keep_fails_for_a_missing_root() {
    let stage = two();
    fs::rename(&stage.root, stage.work().join("away")).unwrap();
    let run = stage.annals(&["keep", "-q", "--json"]);
    assert_eq!(run.code, 2, "{run}");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["ok"], false);
    let run = stage.annals(&["keep"]);
    assert!(run.code == 2 && !run.out.contains('✓'), "{run}");
}

/// Flips a bit of a compressed file.
fn flip(stored: &PathBuf, at: usize) {
    let mut bytes = fs::read(stored).unwrap();
    bytes[at] ^= 4;
    fs::write(stored, bytes).unwrap();
}

#[test]
fn restore_salvage_recovers_readable_parts_of_damaged_files() {
    let stage = two();
    let before = root(&stage);
    stage.annals(&["archive", FIRST, "--apply", LIVE]).fine();
    // Without the manifest, everything is found.
    let mut tree = stage.tree().into_keys();
    let manifest = tree.find(|path| path.ends_with("manifest.jsonl")).unwrap();
    let lines = fs::read(&manifest).unwrap();
    fs::remove_file(&manifest).unwrap();
    let run = stage.annals(&["archive", "--list"]);
    assert!(run.code == 1 && run.out.contains("is missing"), "{run}");
    let run = stage.annals(&["restore", FIRST, "--apply"]);
    assert!(run.code == 2 && run.err.contains("is missing"), "{run}");
    assert!(root(&stage) == before);
    fs::write(&manifest, lines).unwrap();
    // Damaged frames are lost, and reported.
    flip(&archived_logs(&stage).remove(0), 30);
    let there = stage.work().join("there");
    let to = ["--to", there.to_str().unwrap()];
    let run = stage.annals(&["restore", FIRST, to[0], to[1], "--apply"]);
    assert!(run.code == 2 && run.err.contains("--salvage"), "{run}");
    let run = stage.annals(&["restore", FIRST, "--salvage", to[0], to[1], "--json"]);
    assert_eq!(run.code, 1, "{run}");
    let plan: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(plan["files"][0]["fate"], "lost");
    assert_eq!(plan["files"][0]["lost"][0][0], 0);
    assert_eq!(plan["bytes"], plan["files"][1]["bytes"]);
    let run = stage.annals(&["restore", FIRST, "--salvage", to[0], to[1]]);
    assert!(
        run.out.contains("lost projects/") && run.out.contains("all of it"),
        "{run}"
    );
    // An empty log would be taken for a session.
    let tree = stage.tree().into_keys();
    for path in tree.filter(|path| path.extension().is_some_and(|ending| ending == "zst")) {
        fs::write(path, "nothing").unwrap();
    }
    let run = stage.refused(
        &["restore", FIRST, "--salvage", to[0], to[1], "--apply"],
        "",
    );
    assert!(run.err.contains("none of its files"), "{run}");
    assert!(!there.exists(), "nothing was put there");
}

#[test]
fn partial_salvage_exits_1_and_counts_written_bytes() {
    let stage = two();
    // More data than fits in one frame.
    let log = stage.log_path(FIRST);
    let (line, mut long) = ("{}\n", fs::read(&log).unwrap());
    long.extend(line.repeat(1 << 20).bytes());
    fs::write(&log, &long).unwrap();
    stage.settle();
    stage
        .annals(&["archive", FIRST, "--apply", "--keep-source"])
        .fine();
    flip(&archived_logs(&stage).remove(0), 30);
    let there = stage.work().join("there");
    let to = there.to_str().unwrap();
    let args = ["restore", FIRST, "--salvage", "--to", to, "--apply"];
    let json = stage.annals(&[&args[..], &["--json"]].concat());
    assert_eq!(json.code, 1, "{json}");
    let done: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let written: u64 = stage
        .tree()
        .iter()
        .filter(|(path, _)| path.starts_with(&there))
        .map(|(_, bytes)| bytes.len() as u64)
        .sum();
    assert_eq!(done["bytes"], written);
    assert!(written > 0 && written < long.len() as u64, "{json}");
    fs::remove_dir_all(&there).unwrap();
    let run = stage.annals(&args);
    assert_eq!(run.code, 1, "{run}");
    assert!(
        run.out.contains("✗ not everything") && !run.out.contains('✓'),
        "{run}"
    );
}

#[test]
fn restore_with_two_roots_requires_root_option() {
    let stage = two();
    stage
        .annals(&["archive", FIRST, "--apply", "--keep-source"])
        .fine();
    // The same session in a copy of the root.
    let other = stage.root.with_file_name("other");
    let copied = std::process::Command::new("cp")
        .args(["-a"])
        .args([&stage.root, &other])
        .status();
    assert!(copied.unwrap().success());
    let named = format!("claude-code:{}", other.display());
    stage
        .bare(&[
            "--root",
            &named,
            "archive",
            FIRST,
            "--apply",
            "--keep-source",
        ])
        .fine();
    assert_eq!(archived_logs(&stage).len(), 2);
    let run = stage.bare(&["restore", FIRST]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("--root"), "{run}");
    for (root, dir) in [
        (&named, &other),
        (
            &format!("claude-code:{}", stage.root.display()),
            &stage.root,
        ),
    ] {
        let list = stage
            .bare(&["--root", root, "archive", "--list", "--json"])
            .json();
        assert_eq!(list["archived"].as_array().unwrap().len(), 1);
        let output = stage
            .command()
            .args(["--root", root, "restore", FIRST, "--json"])
            .output()
            .unwrap();
        let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(plan["root"], dir.to_str().unwrap());
    }
}

#[test]
fn restore_earlier_lists_and_restores_earlier_versions() {
    let stage = two();
    stage
        .annals(&["archive", FIRST, "--apply", "--keep-source"])
        .fine();
    let log = stage.log_path(FIRST);
    let first = fs::read(&log).unwrap();
    let run = stage.refused(&["restore", FIRST, "--earlier"], "");
    assert!(run.err.contains("no earlier versions"), "{run}");
    fs::write(&log, "{}\n").unwrap();
    stage
        .annals(&["archive", FIRST, "--apply", "--keep-source"])
        .fine();
    let list = stage.annals(&["archive", "--list", FIRST, "--json"]).json();
    let versions = list["archived"][0]["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 1);
    assert_eq!(versions[0]["number"], 1);
    assert_eq!(versions[0]["bytes"], first.len());
    assert_eq!(versions[0]["until"], "2026-11-15T12:00:00Z");
    let shown = stage.annals(&["archive", "--list", FIRST]).fine();
    assert!(shown.out.contains("--earlier N"), "{shown}");
    let within = log.strip_prefix(&stage.root).unwrap();
    for number in [&["--earlier"][..], &["--earlier", "1"]] {
        let there = stage.work().join(number.join(""));
        let mut args = vec!["restore", FIRST, "--to", there.to_str().unwrap(), "--apply"];
        args.extend(number);
        stage.annals(&args).fine();
        assert!(fs::read(there.join(within)).unwrap() == first);
    }
    let run = stage.refused(&["restore", FIRST, "--earlier", "2"], "");
    assert!(run.err.contains("1 earlier version"), "{run}");
}

#[test]
fn archive_forget_deletes_sessions_and_respects_pins() {
    let stage = two();
    stage.annals(&["archive", FIRST, "--apply", LIVE]).fine();
    stage
        .annals(&["archive", SECOND, "--apply", "--keep-source"])
        .fine();
    let whole = stage.tree();
    let plan = stage.annals(&["archive", "--forget", FIRST, SECOND]).fine();
    assert!(plan.out.contains("this is the only copy"), "{plan}");
    assert!(plan.out.contains("in its root"), "{plan}");
    assert!(stage.tree() == whole, "a plan changes nothing");
    let json = stage
        .annals(&["archive", "--forget", FIRST, "--json"])
        .json();
    assert_eq!(json["applied"], false);
    assert_eq!(json["forgotten"][0]["only"], json["forgotten"][0]["files"]);
    // Pinned sessions stay, and so do paths that are not in the archive.
    stage.annals(&["pin", SECOND]).fine();
    let run = stage.refused(&["archive", "--forget", SECOND, "--apply"], "");
    assert!(run.err.contains("pinned"), "{run}");
    let log = stage.log_path(SECOND);
    let run = stage.refused(
        &["archive", "--forget", log.to_str().unwrap(), "--apply"],
        "",
    );
    assert!(run.err.contains("is not a file of this archive"), "{run}");
    stage
        .annals(&["archive", "--forget", FIRST, "--apply"])
        .fine();
    assert_eq!(archived_logs(&stage).len(), 1);
    assert!(!stage.annals(&["sessions"]).out.contains("00000000-"));
    let run = stage
        .annals(&["archive", "--forget", SECOND, "--apply", "--pinned"])
        .fine();
    assert!(run.out.contains("annals keep"), "{run}");
    assert!(archived_logs(&stage).is_empty() && log.exists());
}

#[test]
fn archive_forget_deletes_an_unreadable_session() {
    let stage = two();
    stage
        .annals(&["archive", FIRST, "--apply", "--keep-source"])
        .fine();
    let log = archived_logs(&stage).remove(0);
    fs::write(&log, "nothing").unwrap();
    let plan = stage.annals(&["archive", "--forget", FIRST]).fine();
    assert!(plan.out.contains("(damaged)"), "{plan}");
    assert!(plan.out.contains("restores what can be read"), "{plan}");
    stage
        .annals(&["archive", "--forget", log.to_str().unwrap(), "--apply"])
        .fine();
    assert!(archived_logs(&stage).is_empty());
}

#[test]
fn delete_reports_sessions_still_in_the_archive() {
    let stage = two();
    stage
        .annals(&["archive", FIRST, "--apply", "--keep-source"])
        .fine();
    let run = stage.annals(&["delete", FIRST, "--apply", LIVE]).fine();
    assert!(run.out.contains("is still in the archive"), "{run}");
    let run = stage.annals(&["delete", SECOND, "--apply", LIVE]).fine();
    assert!(!run.out.contains("archive"), "{run}");
    let run = stage.annals(&["clean", "--purge", "--apply"]).fine();
    assert!(run.out.contains("is still in the archive"), "{run}");
}

#[test]
fn damage_found_by_verify_is_repaired_by_next_keep() {
    let stage = two();
    stage
        .annals(&["archive", FIRST, "--apply", "--keep-source"])
        .fine();
    let log = archived_logs(&stage).remove(0);
    let mut tree = stage.tree().into_keys();
    let archive = tree.find(|path| path.ends_with("root.json")).unwrap();
    let note = archive.parent().unwrap().with_file_name("keep.json");
    flip(&log, 30);
    assert_eq!(stage.annals(&["archive", "--verify"]).code, 1);
    let noted: serde_json::Value = serde_json::from_slice(&fs::read(&note).unwrap()).unwrap();
    let name = log.file_name().unwrap().to_str().unwrap();
    assert!(noted["damaged"][0].as_str().unwrap().ends_with(name));
    // The next `keep` archives the log from the root again.
    stage.annals(&["keep"]).fine();
    stage.annals(&["archive", "--verify"]).fine();
    let noted: serde_json::Value = serde_json::from_slice(&fs::read(&note).unwrap()).unwrap();
    assert!(noted["damaged"].is_null(), "{noted}");
}

/// The first version of a replaced log stays, even if the copy of the newest is damaged.
#[test]
fn keep_replaces_damaged_copies_and_keeps_earlier_versions() {
    let stage = two();
    stage.annals(&["keep"]).fine();
    let log = stage.log_path(FIRST);
    let first = fs::read(&log).unwrap();
    fs::write(&log, "{}\n").unwrap();
    stage.settle();
    stage.annals(&["keep"]).fine();
    for at in [0, 4, 12] {
        flip(&archived_logs(&stage).remove(0), at);
        let kept = stage.annals(&["keep", "--json"]);
        assert_eq!(kept.code, 1, "{at}: {kept}");
        let kept: serde_json::Value = serde_json::from_str(&kept.out).unwrap();
        assert_eq!(
            kept["verified"]["damaged"].as_array().unwrap().len(),
            1,
            "{kept}"
        );
        let archived = kept["archived"].as_array().unwrap();
        assert_eq!(archived.len(), 1, "{at}: {kept}");
        let mended = archived[0]["mended"].as_str().unwrap();
        assert!(
            mended.contains("was damaged and is archived again"),
            "{at}: {kept}"
        );
        stage.annals(&["archive", "--verify"]).fine();
        let there = stage.work().join(format!("there{at}"));
        let to = there.to_str().unwrap();
        stage
            .annals(&["restore", FIRST, "--earlier", "--to", to, "--apply"])
            .fine();
        let within = log.strip_prefix(&stage.root).unwrap();
        assert!(fs::read(there.join(within)).unwrap() == first, "{at}");
    }
}

/// An archived session never grows, so `watch` has nothing to wait for.
#[test]
fn watch_of_archived_session_prints_it_and_ends() {
    let stage = two();
    stage
        .annals(&["append", FIRST, "-m", "the end", LIVE])
        .fine();
    let mut logs = root(&stage).into_keys();
    let log = logs.find(|path| path.ends_with(format!("{FIRST}.jsonl")));
    let log = log.unwrap();
    stage.annals(&["archive", FIRST, "--apply", LIVE]).fine();
    assert!(!log.exists());
    let by_id = stage.annals(&["watch", FIRST]);
    assert_snapshot!("watch_archived", by_id);
    let by_path = stage.annals(&["watch", log.to_str().unwrap()]);
    assert_eq!(by_path.to_string(), by_id.to_string());
    let last = stage.annals(&["watch", FIRST, "-n", "1", "--json"]);
    assert_snapshot!("watch_archived_json", last);
}
