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

#[test]
fn sessions_of_further_programs_are_shown() {
    snapshot("copilot", "made-odd", "a81d1ae2");
    snapshot("qwen", "made-odd", "8c5474c3");
    snapshot(
        "opencode",
        "1.1-s04-subagent",
        "ses_e1b61ccb5ffeHT020tyfq0vazM",
    );
    snapshot("droid", "made-odd", "3598f704-0000-4000-8000-000000000001");
    snapshot("cline", "made-odd", "1794838340131_abcde");
    snapshot("aider", "made-runs", "aider-2026-11-17-09-00-00");
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
        ("copilot", "1.0-s01-qa", "COPILOT_HOME"),
        ("qwen", "0.24-s01-qa", "QWEN_HOME"),
        ("qwen", "0.24-s01-qa", "QWEN_RUNTIME_DIR"),
        ("cline", "3.0-s01-qa", "CLINE_DIR"),
    ] {
        let stage = Stage::with_fixture_of(layout, fixture);
        let mut command = stage.command();
        let elsewhere = stage.root.with_extension("moved");
        std::fs::rename(&stage.root, &elsewhere).unwrap();
        command.env(name, &elsewhere).args(["sessions", "--json"]);
        let run = stage.run_of(&command.output().unwrap());
        assert_eq!(run.json()["sessions"][0]["layout"], layout);
    }
    for (layout, fixture, name) in [
        ("codex", "0.80-s01-qa", ".codex"),
        ("pi", "0.73-s01-qa", ".pi/agent"),
        ("copilot", "1.0-s01-qa", ".copilot"),
        ("qwen", "0.24-s01-qa", ".qwen"),
        ("droid", "0.215-s01-qa", ".factory"),
        ("cline", "3.0-s01-qa", ".cline"),
        ("opencode", "1.1-s01-qa", ".local/share/opencode"),
    ] {
        let stage = Stage::with_fixture_of(layout, fixture);
        let home = stage.work().join("home");
        let place = home.join(name);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::rename(&stage.root, &place).unwrap();
        let mut command = stage.command();
        command.env("HOME", &home).args(["sessions", "--json"]);
        let run = stage.run_of(&command.output().unwrap());
        assert_eq!(run.json()["sessions"][0]["layout"], layout);
    }
}

/// The history of aider is in the directory of the project.
#[test]
fn aider_is_found_from_below_its_directory() {
    let stage = Stage::with_fixture_of("aider", "made-runs");
    let below = stage.root.join("src/deep");
    std::fs::create_dir_all(&below).unwrap();
    let mut command = stage.command();
    command.current_dir(&below).args(["sessions", "--json"]);
    let run = stage.run_of(&command.output().unwrap());
    let sessions = run.json()["sessions"].as_array().unwrap().clone();
    assert_eq!(sessions.len(), 2, "{run}");
    let mut command = stage.command();
    let file = stage.root.join(".aider.chat.history.md");
    command
        .env("AIDER_CHAT_HISTORY_FILE", file)
        .args(["show", "aider-2026-11-17-09-00-00"]);
    let run = stage.run_of(&command.output().unwrap());
    assert!(run.out.contains("not a prompt"), "{run}");
}

/// One machine with several programs.
#[test]
fn verbs_span_all_programs_and_narrow_to_one() {
    let stage = Stage::empty();
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let roots = [
        ("codex", "0.80-s01-qa"),
        ("gemini", "patches-resume"),
        ("copilot", "1.0-s01-qa"),
        ("qwen", "0.24-s01-qa"),
    ];
    let roots = roots
        .map(|(layout, name)| format!("{layout}:{}", fixtures.join(layout).join(name).display()));
    let run = |args: &[&str]| {
        let named = roots.iter().flat_map(|root| ["--root", root.as_str()]);
        let all: Vec<&str> = named.chain(args.iter().copied()).collect();
        stage.bare(&all)
    };
    let layouts = |run: &crate::harness::Run| {
        let sessions = run.json()["sessions"].as_array().unwrap().clone();
        let found = sessions
            .iter()
            .map(|row| row["layout"].as_str().unwrap().to_owned());
        found.collect::<std::collections::BTreeSet<_>>()
    };
    let all = ["codex", "copilot", "gemini", "qwen"].map(str::to_owned);
    assert_eq!(layouts(&run(&["sessions", "--json"])), all.clone().into());
    let one = run(&["sessions", "-a", "copilot", "--json"]);
    assert_eq!(layouts(&one), ["copilot".to_owned()].into());
    let two = run(&["-a", "copilot", "-a", "qwen", "sessions", "--json"]);
    assert_eq!(layouts(&two).len(), 2);
    let rows = |run: &crate::harness::Run| {
        let rows = run.json()["rows"].as_array().unwrap().clone();
        let names = rows
            .iter()
            .map(|row| row["layout"].as_str().unwrap().to_owned());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let cost = run(&["cost", "--by", "agent-program", "--json"]);
    assert_eq!(rows(&cost), all.into());
    let cost = run(&["cost", "--by", "layout", "-a", "codex", "--json"]);
    assert_eq!(rows(&cost), ["codex".to_owned()].into());
    let hits = |args: &[&str]| run(args).json()["hits"].as_array().unwrap().len();
    let everywhere = hits(&["search", "capital", "--json"]);
    let only = hits(&["search", "capital", "-a", "qwen", "--json"]);
    assert!(0 < only && only < everywhere, "{only} of {everywhere}");
    let refused = run(&["sessions", "-a", "emacs"]);
    assert_eq!(refused.code, 2, "{refused}");
}

/// Files with keys, and a line that makes each one of its kind.
const SECRET_FILES: &[(&str, &str, &str, &[&str])] = &[
    (
        "codex",
        "0.80-s01-qa",
        "01a1e48b",
        &["auth.json", "config.toml", ".env"],
    ),
    (
        "pi",
        "0.73-s01-qa",
        "01a1e48f",
        &["auth.json", "models.json", "settings.json"],
    ),
    (
        "gemini",
        "patches-tools",
        "latest",
        &[
            "oauth_creds.json",
            "settings.json",
            ".env",
            "mcp-oauth-tokens.json",
        ],
    ),
    (
        "opencode",
        "made-sub-agent",
        "ses_top",
        &["auth.json", "mcp-auth.json"],
    ),
    (
        "opencode",
        "1.1-s01-qa",
        "latest",
        &["auth.json", "mcp-auth.json"],
    ),
    (
        "copilot",
        "1.0-s01-qa",
        "latest",
        &[
            "config.json",
            "settings.json",
            "mcp-config.json",
            "mcp-oauth-config/x.json",
        ],
    ),
    (
        "qwen",
        "0.24-s01-qa",
        "latest",
        &[
            "oauth_creds.json",
            "settings.json",
            ".env",
            "mcp-oauth-tokens.json",
        ],
    ),
    (
        "droid",
        "0.215-s01-qa",
        "latest",
        &[
            "settings.json",
            "config.json",
            "auth.json",
            "auth.v2.file",
            "mcp.json",
        ],
    ),
    (
        "cline",
        "3.0-s01-qa",
        "latest",
        &[
            "data/secrets.json",
            "data/settings/providers.json",
            "data/globalState.json",
        ],
    ),
    (
        "aider",
        "made-runs",
        "latest",
        &[".env", ".aider.conf.yml", ".aider.model.settings.yml"],
    ),
];

#[test]
fn secrets_beside_conversations_appear_nowhere() {
    // The databases of the fixtures have it too.
    const SECRET: &str = "a secret that must never be copied";
    let has_secret = |bytes: &[u8]| {
        bytes
            .windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes())
    };
    for (layout, fixture, session, files) in SECRET_FILES {
        let stage = Stage::with_fixture_of(layout, fixture).without_notes();
        for file in *files {
            let path = stage.root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{{\"apiKey\":\"{SECRET}\"}}\n")).unwrap();
        }
        let root = || {
            let mut files = stage.tree();
            files.retain(|path, _| path.starts_with(&stage.root));
            files
        };
        let before = root();
        let first = stage.annals(&["sessions", "--json"]).json();
        let id = match *session {
            "latest" => first["sessions"][0]["id"].as_str().unwrap().to_owned(),
            id => id.to_owned(),
        };
        let from = format!("{layout}:{}", stage.root.display());
        for args in [
            &["sessions", "--verbose"][..],
            &["show", &id],
            &["show", &id, "--raw"],
            &["search", "secret never copied"],
            &["search", "capital"],
            &["history"],
            &["documents"],
            &["check", "--verbose"],
            &["cost", "--by", "session"],
            &["export", &id, "--format", "markdown"],
            &["export", &id, "--format", "html"],
            &["export", &id, "--format", "jsonl"],
            &["keep"],
            &["index", "rebuild"],
        ] {
            let run = stage.annals(args);
            let all = format!("{}{}", run.out, run.err);
            assert!(!all.contains(SECRET), "{layout} {args:?}: {run}");
            if args[0] == "search" && args[1] != "capital" {
                assert_eq!(run.code, 1, "{layout} {args:?}: {run}");
            }
            assert!(run.code < 3, "{layout} {args:?}: {run}");
        }
        stage
            .bare(&["convert", &from, "--to", "claude-code", "--into", "there"])
            .fine();
        assert!(root() == before, "{layout}");
        // The state directory with the index and the archive, and the conversion.
        let mut pending = vec![stage.root.parent().unwrap().to_owned()];
        let mut looked_at = 0;
        while let Some(dir) = pending.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path == stage.root || path.is_symlink() {
                    continue;
                }
                if path.is_dir() {
                    pending.push(path);
                    continue;
                }
                let mut bytes = std::fs::read(&path).unwrap();
                if path.extension().is_some_and(|ending| ending == "zst") {
                    bytes = zstd::decode_all(&bytes[..]).unwrap();
                }
                assert!(!has_secret(&bytes), "{layout}: {}", path.display());
                looked_at += 1;
            }
        }
        assert!(looked_at > 2, "{layout}: {looked_at}");
    }
}

#[test]
fn every_verb_that_writes_is_refused() {
    for (layout, fixture, session) in [
        ("opencode", "1.1-s01-qa", "ses_e1b62bad"),
        ("droid", "0.215-s01-qa", "3598f704"),
        ("cline", "3.0-s01-qa", "1794838340132"),
        ("aider", "0.86-s01-qa", "aider-2026-11-16-14-13-46"),
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
            let wanted = match (layout, args) {
                ("opencode", ["new", ..]) => "only its program can create it".to_owned(),
                ("opencode", _) => {
                    "nor the JSON files of older versions: `opencode session delete ID`".to_owned()
                }
                _ => format!("annals reads the layout {layout} but does not write it"),
            };
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
fn sessions_of_other_agents_are_written() {
    for (layout, fixture, session) in [
        ("copilot", "1.0-s01-qa", "a81d1ae2"),
        ("codex", "0.80-s01-qa", "01a1e48b"),
        ("pi", "0.73-s01-qa", "01a1e48f"),
        ("qwen", "0.24-s01-qa", "8c5474c3"),
        ("gemini", "patches-rewind", "dd11a24e"),
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
        let fork = "01a1e48b-0000-4000-8000-00000000000f";
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
        let new = "01a1e48b-0000-4000-8000-00000000000e";
        let begin = ["new", "--cwd", "/", "--id", new, "-m", "hi"];
        stage.annals(&begin).fine();
        let shown = stage.annals(&["show", new]).fine();
        assert!(shown.out.contains("hi"), "{layout}: {shown}");
    }
}

/// Rows are added to a known database; everything else is refused, and changes nothing.
#[test]
fn sessions_of_a_database_are_appended_to() {
    let stage = Stage::with_fixture_of("opencode", "1.18-s02-tools").without_notes();
    let session = "ses_e1b6f176dffeIIVriAZiTcNYbc";
    stage.annals(&["append", session, "-m", "a zebra"]).fine();
    stage.annals(&["title", session, "A new title"]).fine();
    let compact = ["compact", session, "--summary", "a summary"];
    stage.annals(&compact).fine();
    let begin = ["new", "--cwd", "/home/dev/work", "-m", "hi", "--json"];
    let made = stage.annals(&begin).json();
    let made = made["session"].as_str().unwrap().to_owned();
    let shown = stage.annals(&["show", &made]).fine();
    assert!(shown.out.contains("hi"), "{shown}");
    let shown = stage.annals(&["show", session]).fine();
    assert!(shown.out.contains("a zebra"), "{shown}");
    assert!(shown.out.contains("A new title"), "{shown}");
    for args in [
        &["fork", session][..],
        &["tag", session, "x"],
        &["notes", "add", session, "x"],
        &["todos", "add", session, "x"],
    ] {
        stage.annals(args).fine();
    }
    for args in [
        &["delete", session, "--apply"][..],
        &["archive", session, "--apply"],
        &["repair", session, "--apply"],
    ] {
        let run = stage.annals(args);
        assert_eq!(run.code, 2, "{args:?}: {run}");
        assert!(run.err.contains("changes neither"), "{args:?}: {run}");
    }
    let stage = Stage::with_fixture_of("opencode", "made-sub-agent").without_notes();
    let run = stage.refused(&["append", "ses_top", "-m", "hi"], "");
    assert!(run.err.contains("nothing was written"), "{run}");
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
        // Claude Code has one line per block of a reply.
        ("opencode", "1.1-s01-qa", 7),
        ("qwen", "0.24-s02-tools", 15),
        ("cline", "3.0-s01-qa", 3),
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
        let is_written = ["gemini", "qwen"].contains(&layout);
        let code = if is_written { 0 } else { 2 };
        assert_eq!(stage.bare(&back).code, code, "{layout}");
    }
}
