//! Foreign sources: conversations are taken, files that control a program are not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use annals::layout::Layout as _;

use super::below;
use crate::harness::Stage;

const SESSION: &str = "000000aa-0000-4000-8000-000000000001";

/// Files that could control the client: hooks, commands, shell scripts, texts that its model reads.
const HOSTILE: [&str; 9] = [
    "settings.json",
    "settings.local.json",
    "CLAUDE.md",
    "commands/deploy.md",
    "agents/helper.md",
    "plugins/config.json",
    "projects/-w/memory/MEMORY.md",
    "projects/sessions-index.json",
    "session-env/000000aa-0000-4000-8000-000000000001/hook.sh",
];

/// Conversation data of every kind.
const GOOD: [&str; 6] = [
    "history.jsonl",
    "plans/one.md",
    "projects/-w/000000aa-0000-4000-8000-000000000001.jsonl",
    "projects/-w/000000aa-0000-4000-8000-000000000001/tool-results/out.txt",
    "todos/000000aa-0000-4000-8000-000000000001-agent-000000aa-0000-4000-8000-000000000001.json",
    "file-history/000000aa-0000-4000-8000-000000000001/7b1a057f03b9c8c5@v2",
];

/// A Claude Code root with all of these files, readable by everyone.
fn hostile() -> Stage {
    let stage = Stage::empty();
    for name in HOSTILE.iter().chain(&GOOD) {
        let path = stage.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = match *name {
            name if name.starts_with("projects/") && name.ends_with(".jsonl") => format!(
                "{{\"type\":\"user\",\"uuid\":\"000000aa-0000-4000-8000-000000000002\",\"parentUuid\":null,\"sessionId\":\"{SESSION}\",\"cwd\":\"/w\",\"timestamp\":\"2026-03-01T10:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"hi\"}}}}\n"
            ),
            name if name.starts_with("todos/") => {
                r#"[{"content":"x","status":"pending","activeForm":"x"}]"#.to_owned()
            }
            "history.jsonl" => "{\"display\":\"hi\",\"timestamp\":1}\n".to_owned(),
            name if name.ends_with(".json") => r#"{"hooks":{}}"#.to_owned(),
            _ => "evil\n".to_owned(),
        };
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::create_dir(stage.root.join("hooks")).unwrap();
    stage.settle_times();
    stage
}

/// The files of a directory by path; asserts that each is private.
fn private(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (path, _) in below(dir) {
        let metadata = path.symlink_metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        let most = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode & !most, 0, "{} {mode:o}", path.display());
        if metadata.is_file() {
            let within = path.strip_prefix(dir).unwrap();
            found.push(within.to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

fn sorted(names: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    names.sort();
    names
}

#[test]
fn convert_writes_no_configuration_unless_named() {
    for layout in ["chorus", "clog", "orchestrator"] {
        let stage = hostile();
        let from = format!("claude-code:{}", stage.root.display());
        let there = stage.work().join("there");
        let to = there.to_str().unwrap();
        stage
            .bare(&["convert", &from, "--to", layout, "--into", to])
            .fine();
        // A user who clones the repository sees the plan
        let cloned = format!("{layout}:{to}");
        let plan = stage
            .bare(&["convert", &cloned, "--to", "claude-code"])
            .fine();
        for name in HOSTILE.iter().chain(&["hooks"]) {
            assert!(
                plan.out.contains(&format!("held back: {name}:")),
                "{layout} {name}: {plan}"
            );
        }
        for name in GOOD.iter().filter(|name| !name.ends_with(".jsonl")) {
            assert!(
                plan.out.contains(&format!("restored: {name}\n")),
                "{layout} {name}: {plan}"
            );
        }
        let json = stage.bare(&["convert", &cloned, "--to", "claude-code", "--json"]);
        assert_eq!(
            json.json()["held_back"].as_array().unwrap().len(),
            HOSTILE.len() + 1
        );
        // and receives the conversations.
        let home = stage.root.with_file_name("home").join(".claude");
        let into = home.to_str().unwrap();
        stage
            .bare(&["convert", &cloned, "--to", "claude-code", "--into", into])
            .fine();
        assert_eq!(private(&home), sorted(&GOOD), "{layout}");
        assert!(!home.join("hooks").exists());
        for name in GOOD {
            assert_eq!(
                fs::read(home.join(name)).unwrap(),
                fs::read(stage.root.join(name)).unwrap(),
                "{layout} {name}"
            );
        }
        // Files named with `--also` are written too, and no others.
        let named = stage.work().join("named");
        let into = named.to_str().unwrap();
        let args = ["convert", &cloned, "--to", "claude-code", "--into", into];
        let also = ["--also", "settings.json", "--also", "commands"];
        stage.bare(&[&args[..], &also].concat()).fine();
        let wanted = [&GOOD[..], &["settings.json", "commands/deploy.md"]].concat();
        assert_eq!(private(&named), sorted(&wanted), "{layout}");
        for wrong in ["nothing.json", "", "/etc/passwd", ".."] {
            let run = stage.bare(&[&args[..], &["--also", wrong]].concat());
            assert_eq!(run.code, 2, "{wrong}: {run}");
        }
    }
}

/// The same for forged `origin` members.
#[test]
fn forged_origin_writes_only_conversations() {
    let log = format!("projects/-w/{SESSION}.jsonl");
    let paths: Vec<String> = HOSTILE
        .iter()
        .copied()
        .chain([&*log])
        .map(String::from)
        .collect();
    let (stage, storage) = forged("claude-code", &paths);
    let home = stage.root.with_file_name("home").join(".claude");
    let from = format!("clog:{}", storage.display());
    let into = home.to_str().unwrap();
    let run = stage.bare(&["convert", &from, "--to", "claude-code", "--into", into]);
    assert!(run.code < 2, "{run}");
    assert_eq!(private(&home), [log], "{run}");
}

/// The log of a session in each other layout, and names with which its program finds settings, secrets,
/// instructions or code.
const OTHERS: [(&str, &str, &[&str]); 5] = [
    (
        "codex",
        "sessions/2026/11/15/rollout-2026-11-15T00-00-00-{session}.jsonl",
        &[
            "AGENTS.md",
            "auth.json",
            "config.toml",
            "hooks.json",
            "prompts/x.md",
            "rules/default.rules",
            "sessions/2026/11/15/x.sh",
            "skills/x/SKILL.md",
            "state_5.sqlite",
            ".env",
        ],
    ),
    (
        "gemini",
        "tmp/work/chats/session-2026-11-15T00-00-000000aa.jsonl",
        &[
            "GEMINI.md",
            "commands/x.toml",
            "extensions/x/gemini-extension.json",
            "hooks/x.sh",
            "oauth_creds.json",
            "policies/x.toml",
            "projects.json",
            "settings.json",
            "skills/x/SKILL.md",
            "tmp/bin/rg",
            "tmp/work/shell_history",
            "trustedFolders.json",
            ".env",
        ],
    ),
    (
        "qwen",
        "projects/-w/chats/{session}.jsonl",
        &[
            "QWEN.md",
            "agents/x.md",
            "commands/x.toml",
            "extensions/x/qwen-extension.json",
            "oauth_creds.json",
            "output-language.md",
            "projects/-w/memory/MEMORY.md",
            "settings.json",
            "skills/x/SKILL.md",
            "trustedFolders.json",
            ".env",
        ],
    ),
    (
        "copilot",
        "session-state/{session}/events.jsonl",
        &[
            "agents/x.agent.md",
            "config.json",
            "copilot-instructions.md",
            "hooks/x.json",
            "mcp-config.json",
            "permissions-config.json",
            "session-state/{session}/files/x.sh",
            "session-store.db",
            "settings.json",
            "skills/x/SKILL.md",
        ],
    ),
    (
        "pi",
        "sessions/--w--/2026-11-15T00-00-00-000Z_{session}.jsonl",
        &[
            "AGENTS.md",
            "SYSTEM.md",
            "auth.json",
            "bin/fd",
            "extensions/x.ts",
            "models.json",
            "prompts/x.md",
            "settings.json",
            "skills/x/SKILL.md",
            "tools/x.ts",
            "trust.json",
        ],
    ),
];

/// A forged `origin` member writes the log of a session, and no settings, in any other layout.
#[test]
fn forged_origin_writes_no_settings_of_other_programs() {
    for (layout, log, hostile) in OTHERS {
        let named = |path: &str| path.replace("{session}", SESSION);
        let paths: Vec<String> = hostile
            .iter()
            .chain([&log])
            .map(|path| named(path))
            .collect();
        let (stage, storage) = forged(layout, &paths);
        let home = stage.root.with_file_name("home").join("into");
        let from = format!("clog:{}", storage.display());
        let into = home.to_str().unwrap();
        let run = stage.bare(&["convert", &from, "--to", layout, "--into", into]);
        let written = private(&home);
        assert!(written.contains(&named(log)), "{layout}: {written:?} {run}");
        for path in hostile {
            assert!(!home.join(named(path)).exists(), "{layout}: {path}");
        }
        // Outside of the root, nothing is written at all.
        for path in ["../escape", "sessions/../../escape", "/escape"] {
            let (stage, storage) = forged(layout, &[named(log), path.to_owned()]);
            let home = stage.root.with_file_name("home").join("into");
            let from = format!("clog:{}", storage.display());
            let into = home.to_str().unwrap();
            let run = stage.bare(&["convert", &from, "--to", layout, "--into", into]);
            assert_eq!(run.code, 2, "{layout} {path}: {run}");
            assert!(!home.join(named(log)).exists(), "{layout} {path}");
            assert!(!home.with_file_name("escape").exists() && !Path::new("/escape").exists());
        }
    }
}

/// A clog root whose origins name these files of another layout.
fn forged(layout: &str, paths: &[String]) -> (Stage, PathBuf) {
    let stage = Stage::empty();
    let storage = stage.work().join("storage");
    let folder = storage.join("conversations/conversation-2026-03-26T01-32-20-418Z-x");
    fs::create_dir_all(&folder).unwrap();
    let header = r#"{"type":"conversation-header","schemaVersion":1,"fileKind":"chat","conversationId":"conv_x","threadId":"x","channel":"tui","title":"A","createdAt":1774488740418,"updatedAt":1774488740517}"#;
    fs::write(folder.join("chat.jsonl"), format!("{header}\n")).unwrap();
    let file =
        |path: &String| serde_json::json!({"path": path, "len": 3, "mode": 0o6777, "mtime": 0});
    let mut lines = vec![serde_json::json!({
        "annals": "origin", "version": 1, "layout": layout, "session": SESSION,
        "files": paths.iter().map(file).collect::<Vec<_>>(), "dirs": ["hooks"],
    })];
    for number in 0..paths.len() {
        lines.push(serde_json::json!({"f": number, "n": 0, "text": "{}\n", "end": ""}));
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    for dir in [&folder, &storage] {
        fs::write(dir.join("annals-origin.jsonl"), &text).unwrap();
    }
    (stage, storage)
}

/// An import writes entries, and no file whose name the import file gives.
#[test]
fn import_writes_only_conversation_data() {
    let stage = hostile();
    let export = stage.work().join("all.jsonl");
    let to = export.to_str().unwrap();
    stage
        .annals(&["export", SESSION, "--format", "jsonl", "--output", to])
        .fine();
    let home = stage.root.with_file_name("home").join(".claude");
    let into = format!("claude-code:{}", home.display());
    stage.bare(&["import", to, "--into", &into]).fine();
    let found = private(&home);
    assert!(!found.is_empty());
    for name in found {
        let artifact = annals::layout::ClaudeCode.classify(Path::new(&name));
        assert!(
            artifact.is_some_and(|it| it.is_conversation_data()),
            "{name}"
        );
    }
}

#[test]
fn foreign_archive_restores_no_configuration_unless_named() {
    let stage = hostile();
    stage.annals(&["keep"]).fine();
    let tree: Vec<PathBuf> = stage.tree().into_keys().collect();
    let archive = tree.iter().find(|path| path.ends_with("root.json"));
    let archive = archive.unwrap().parent().unwrap();
    let copy = stage.work().join("copy");
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([archive, &copy])
        .status();
    assert!(copied.unwrap().success());
    let log = tree
        .iter()
        .find(|path| path.to_str().unwrap().ends_with(".jsonl.zst"));
    let log = copy.join(log.unwrap().strip_prefix(archive).unwrap());
    let mut held = Vec::new();
    // The session, and the files of the root.
    for path in [&log, &copy] {
        let path = path.to_str().unwrap().to_owned();
        let other = Stage::empty();
        let before = other.tree();
        // A foreign archive does not choose its target directory.
        for salvage in [&[][..], &["--salvage"]] {
            let run = other.bare(&[&["restore", &path, "--apply"], salvage].concat());
            assert_eq!(run.code, 2, "{run}");
            assert!(run.err.contains("--to DIR"), "{run}");
            assert!(other.tree() == before);
        }
        let home = other.work().join(".claude");
        let to = home.to_str().unwrap();
        let plan = other.bare(&["restore", &path, "--to", to]).fine();
        other
            .bare(&["restore", &path, "--to", to, "--apply"])
            .fine();
        for name in private(&home) {
            assert!(GOOD.contains(&name.as_str()), "{name}");
        }
        for name in HOSTILE.iter().filter(|name| plan.out.contains(*name)) {
            assert!(plan.out.contains("held back"), "{plan}");
            assert!(!home.join(name).exists(), "{name}");
            other
                .bare(&["restore", &path, "--to", to, "--also", name, "--apply"])
                .fine();
            assert!(home.join(name).exists(), "{name}");
            held.push(*name);
        }
        private(&home);
        let run = other.bare(&["restore", &path, "--to", to, "--also", "x", "--apply"]);
        assert_eq!(run.code, 2, "{run}");
    }
    assert!(
        held.contains(&"settings.json") && held.len() == 2,
        "{held:?}"
    );
}

/// Configuration may have been changed since on purpose, so it is restored only when named.
#[test]
fn restore_writes_configuration_only_if_named() {
    let stage = hostile();
    stage.annals(&["keep"]).fine();
    let log = stage.root.join(GOOD[2]);
    fs::remove_file(&log).unwrap();
    fs::remove_dir_all(stage.root.join("session-env")).unwrap();
    fs::remove_file(stage.root.join("settings.json")).unwrap();
    fs::remove_file(stage.root.join("history.jsonl")).unwrap();
    stage.annals(&["restore", SESSION, "--apply"]).fine();
    assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o777);
    assert!(
        stage.root.join(HOSTILE[8]).exists(),
        "what is the session's own"
    );
    let run = stage.annals(&["restore", "root", "--apply"]).fine();
    assert!(run.out.contains("held back"), "{run}");
    assert!(stage.root.join("history.jsonl").exists());
    assert!(!stage.root.join("settings.json").exists());
    let run = stage.annals(&["restore", "root", "--apply"]).fine();
    assert!(run.out.contains("--also"), "{run}");
    stage
        .annals(&["restore", "root", "--also", "settings.json", "--apply"])
        .fine();
    assert!(stage.root.join("settings.json").exists());
}
