//! Layouts that are only read: what their verbs print, and what is refused.

use insta::{assert_snapshot, with_settings};

use crate::harness::Stage;

/// Snapshots the output of the verbs that read.
fn snapshot(layout: &'static str, fixture: &str, session: &str) {
    let stage = Stage::with_fixture_of(layout, fixture).without_notes();
    let mut all = String::new();
    for args in [
        &["sessions"][..],
        &["conversations"],
        &["tree", session],
        &["show", session],
        &["cost", "--by", "model"],
        &["check"],
        &["export", session, "--format", "markdown"],
    ] {
        let run = stage.annals(args);
        all.push_str(&format!("======== annals {}\n{run}\n", args.join(" ")));
    }
    let name = format!("{layout}-{fixture}");
    with_settings!({ omit_expression => true }, { assert_snapshot!(name, all) });
}

#[test]
fn gemini_sessions_are_shown() {
    snapshot("gemini", "patches-rewind", "dd11a24e");
    snapshot(
        "gemini",
        "made-document-tools",
        "5a5a5a5a-0000-4000-8000-000000000001",
    );
}

#[test]
fn opencode_sessions_are_shown() {
    snapshot("opencode", "made-sub-agent", "ses_top");
    snapshot(
        "opencode",
        "1.18-s05-compact",
        "ses_e1b6b0c32ffe6r3G2bPwFZToFt",
    );
}

/// A compressed rollout is not read, which must not go unnoticed.
#[test]
fn check_reports_a_compressed_rollout() {
    let stage = Stage::with_fixture_of("codex", "0.80-s01-qa").without_notes();
    let day = stage.root.join("sessions/2026/11/16");
    let log = std::fs::read_dir(&day).unwrap().next().unwrap().unwrap();
    std::fs::rename(log.path(), log.path().with_extension("jsonl.zst")).unwrap();
    let run = stage.annals(&["check"]);
    assert!(run.out.contains(".jsonl.zst"), "{run}");
    assert!(run.out.contains("unknown"), "{run}");
}

#[test]
fn default_roots_of_read_only_layouts_are_found() {
    let stage = Stage::with_fixture_of("gemini", "patches-tools");
    let home = stage.work().join("home-of-gemini");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::rename(&stage.root, home.join(".gemini")).unwrap();
    let mut command = stage.command();
    command
        .env("GEMINI_CLI_HOME", &home)
        .args(["sessions", "--json"]);
    let run = stage.run_of(&command.output().unwrap());
    assert_eq!(run.json()["sessions"][0]["layout"], "gemini");
    let stage = Stage::with_fixture_of("opencode", "made-sub-agent");
    let data = stage.work().join("data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::rename(&stage.root, data.join("opencode")).unwrap();
    let mut command = stage.command();
    command
        .env("XDG_DATA_HOME", &data)
        .args(["sessions", "--json"]);
    let run = stage.run_of(&command.output().unwrap());
    assert_eq!(run.json()["sessions"][0]["id"], "ses_top");
    for (layout, fixture, name) in [
        ("codex", "0.80-s01-qa", "CODEX_HOME"),
        ("pi", "0.73-s01-qa", "PI_CODING_AGENT_DIR"),
    ] {
        let stage = Stage::with_fixture_of(layout, fixture);
        let mut command = stage.command();
        let elsewhere = stage.root.with_extension("moved");
        std::fs::rename(&stage.root, &elsewhere).unwrap();
        command.env(name, &elsewhere).args(["sessions", "--json"]);
        let run = stage.run_of(&command.output().unwrap());
        assert_eq!(run.json()["sessions"][0]["layout"], layout);
    }
}

#[test]
fn every_verb_that_writes_is_refused() {
    for (layout, fixture, session) in [
        ("gemini", "patches-rewind", "dd11a24e"),
        ("opencode", "made-sub-agent", "ses_top"),
    ] {
        let stage = Stage::with_fixture_of(layout, fixture);
        for args in [
            &["append", session, "-m", "hi"][..],
            &["fork", session],
            &["title", session, "x"],
            &["tag", session, "x"],
            &["notes", "add", session, "x"],
            &["todos", "add", session, "x"],
            &["compact", session, "--summary", "x"],
            &["delete", session, "--apply"],
            &["archive", session, "--apply"],
            &["repair", session, "--apply"],
            &["new", "--cwd", "/"],
        ] {
            let run = stage.refused(args, "");
            let wanted = format!("annals reads the layout {layout} but does not write it");
            assert!(run.err.contains(&wanted), "{args:?}: {}", run.err);
        }
        for args in [
            &["clean", "--older-than", "1d", "--apply"][..],
            &["repair", "--apply"],
        ] {
            let before = stage.tree();
            assert_eq!(stage.annals(args).code, 0, "{args:?}");
            assert_eq!(stage.tree(), before, "{args:?}");
        }
    }
}

/// The verbs that a read-only layout refuses.
#[test]
fn sessions_of_codex_and_pi_are_written() {
    for (layout, fixture, session) in [
        ("codex", "0.80-s01-qa", "01a1e48b"),
        ("pi", "0.73-s01-qa", "01a1e48f"),
    ] {
        let stage = Stage::with_fixture_of(layout, fixture).without_notes();
        stage.annals(&["append", session, "-m", "a zebra"]).fine();
        stage.annals(&["title", session, "A new title"]).fine();
        stage.annals(&["tag", session, "urgent"]).fine();
        stage.annals(&["notes", "add", session, "remember"]).fine();
        stage.annals(&["todos", "add", session, "first"]).fine();
        let shown = stage.annals(&["show", session, "--json"]).fine().json();
        assert_eq!(shown["session"]["title"], "A new title", "{layout}");
        assert_eq!(shown["session"]["tag"], "urgent", "{layout}");
        let notes = stage.annals(&["notes", session]).fine();
        assert!(notes.out.contains("remember"), "{notes}");
        let todos = stage.annals(&["todos", session]).fine();
        assert!(todos.out.contains("first"), "{todos}");
        let compact = ["compact", session, "--summary", "a summary"];
        stage.annals(&compact).fine();
        let fork = "01a1e48b-0000-7000-8000-00000000000f";
        stage.annals(&["fork", session, "--id", fork]).fine();
        let shown = stage.annals(&["show", fork]).fine();
        assert!(shown.out.contains("a zebra"), "{layout}: {shown}");
        assert_eq!(stage.annals(&["check"]).code, 0, "{layout}");
        let before = stage.tree();
        stage.annals(&["delete", fork, "--apply"]).fine();
        stage.annals(&["delete", "--undo", fork]).fine();
        stage.annals(&["archive", fork, "--apply"]).fine();
        let archived = stage.annals(&["show", fork]).fine();
        assert!(archived.out.contains("a zebra"), "{layout}: {archived}");
        stage.annals(&["restore", fork, "--apply"]).fine();
        let root = |tree: &std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>| {
            let files = tree.iter().filter(|(path, _)| path.starts_with("root"));
            files
                .map(|(path, bytes)| (path.clone(), bytes.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(root(&stage.tree()), root(&before), "{layout}");
        let new = "01a1e48b-0000-7000-8000-00000000000e";
        let begin = ["new", "--cwd", "/", "--id", new, "-m", "hi"];
        stage.annals(&begin).fine();
        let shown = stage.annals(&["show", new]).fine();
        assert!(shown.out.contains("hi"), "{layout}: {shown}");
    }
}

/// The database holds secrets of its program.
#[test]
fn keep_copies_a_gemini_session_and_skips_a_database() {
    for (layout, fixture, copied) in [
        ("gemini", "patches-rewind", 1),
        ("opencode", "made-sub-agent", 0),
    ] {
        let stage = Stage::with_fixture_of(layout, fixture).without_notes();
        let kept = stage.annals(&["keep"]);
        assert_eq!(kept.code, 1 - copied as i32, "{layout}: {kept}");
        assert_eq!(kept.out.contains("in databases"), copied == 0, "{kept}");
        let list = stage.annals(&["archive", "--list", "--json"]).out;
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        let packs = list["archived"].as_array().unwrap().iter();
        let sessions = packs.flat_map(|pack| pack["sessions"].as_array().unwrap());
        let sessions = sessions.count();
        assert_eq!(sessions, copied, "{layout}: {list}");
    }
}

#[test]
fn conversion_to_claude_code_keeps_the_conversation() {
    for (layout, fixture, messages) in [
        ("gemini", "patches-rewind", 14),
        ("opencode", "made-sub-agent", 6),
    ] {
        let stage = Stage::with_fixture_of(layout, fixture).without_notes();
        let from = format!("{layout}:{}", stage.root.display());
        let into = stage.work().join("there");
        let into = into.to_str().unwrap();
        stage
            .bare(&["convert", &from, "--to", "claude-code", "--into", into])
            .fine();
        let list = stage.bare(&["--root", into, "sessions", "--json"]).json();
        assert_eq!(list["sessions"][0]["messages"], messages, "{layout}");
        let back = ["convert", into, "--to", layout, "--into", "back"];
        assert_eq!(stage.bare(&back).code, 2, "{layout}");
    }
}
