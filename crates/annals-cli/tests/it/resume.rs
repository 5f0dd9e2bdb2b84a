//! `annals resume`: the printed command, and sessions that are converted to another program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::harness::{Stage, copy_fixture};

const ID: &str = "ba62c507-1754-481b-85da-7fe00f652462";

/// A session whose directory exists, and programs that print how they were started.
fn stage() -> Stage {
    let stage = Stage::with_fixture("2.1.325-s01-multiturn");
    let log = stage.log_path(ID);
    let work = stage.work();
    let text = fs::read_to_string(&log).unwrap();
    let text = text.replace("/home/dev/work/s01-multiturn", work.to_str().unwrap());
    fs::write(&log, text).unwrap();
    stage.settle();
    let bin = stage.root.with_file_name("bin");
    fs::create_dir(&bin).unwrap();
    for name in [
        "claude", "codex", "copilot", "gemini", "opencode", "pi", "qwen",
    ] {
        let program = bin.join(name);
        let variables =
            "$CODEX_HOME$COPILOT_HOME$GEMINI_CLI_HOME$PI_CODING_AGENT_DIR$QWEN_HOME$XDG_DATA_HOME";
        let script = format!("#!/bin/sh\necho \"$(basename $0) $* in $PWD with {variables}\"\n");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    stage
}

/// Roots of other programs in the working directory: layout and directory.
const ROOTS: [(&str, &str); 6] = [
    ("codex", "codex"),
    ("copilot", "copilot"),
    ("gemini", ".gemini"),
    ("opencode", "opencode"),
    ("pi", "pi"),
    ("qwen", "qwen"),
];

/// Output of a run, with its ids.
#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    fn fine(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

/// Runs the program with the stand-ins, and with a Codex root.
fn run(stage: &Stage, args: &[&str]) -> Run {
    let base = stage.root.parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", base.join("bin").display());
    let mut command = stage.command();
    command
        .env("PATH", path)
        .args(["--root", &format!("claude-code:{}", stage.root.display())]);
    for (layout, dir) in ROOTS {
        let root = base.join(dir);
        if root.is_dir() {
            command.args(["--root", &format!("{layout}:{}", root.display())]);
        }
    }
    let output = command.args(args).output().unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn program_replaces_annals_in_the_directory_of_the_session() {
    let stage = stage();
    let opened = run(&stage, &["resume", ID]).fine();
    let expected = format!("claude --resume {ID} in {} with", stage.work().display());
    assert_eq!(opened.out.trim(), expected);
    let printed = run(&stage, &["resume", ID, "--print"]).fine();
    assert!(
        printed.out.contains(&format!("claude --resume {ID}")),
        "{printed:?}"
    );
    assert!(printed.out.starts_with("cd "), "{printed:?}");
    fs::remove_file(stage.root.with_file_name("bin").join("claude")).unwrap();
    let missing = run(&stage, &["resume", ID]);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.err.contains("cannot run claude"), "{missing:?}");
}

#[test]
fn session_is_continued_in_another_program_and_back() {
    let stage = stage();
    let codex = stage.root.with_file_name("codex");
    fs::create_dir_all(codex.join("sessions")).unwrap();
    fs::write(codex.join("config.toml"), "").unwrap();
    let before = fs::read(stage.log_path(ID)).unwrap();
    let printed = run(
        &stage,
        &["resume", ID, "--with", "codex", "--print", "--json"],
    )
    .fine();
    let printed: serde_json::Value = serde_json::from_str(&printed.out).unwrap();
    let id = printed["session"].as_str().unwrap().to_owned();
    assert_eq!(fs::read_dir(codex.join("sessions")).unwrap().count(), 0);
    assert_ne!(id, ID);
    for _ in 0..2 {
        let opened = run(&stage, &["resume", ID, "--with", "codex"]).fine();
        assert!(
            opened.out.starts_with(&format!("codex resume {id} in ")),
            "{opened:?}"
        );
    }
    assert_eq!(fs::read(stage.log_path(ID)).unwrap(), before);
    run(&stage, &["append", &id, "-m", "said in Codex"]).fine();
    // Messages added since are appended once to the original session.
    for _ in 0..2 {
        let back = run(&stage, &["resume", &id, "--with", "claude-code"]).fine();
        assert!(
            back.out.starts_with(&format!("claude --resume {ID} in ")),
            "{back:?}"
        );
    }
    let after = fs::read_to_string(stage.log_path(ID)).unwrap();
    assert!(after.as_bytes().starts_with(&before));
    assert_eq!(after.matches("said in Codex").count(), 1, "{after}");
    // The copy does not have what the session has now.
    let stale = run(&stage, &["resume", ID, "--with", "codex"]);
    assert_eq!(stale.code, 2, "{stale:?}");
    assert!(stale.err.contains("changed since"), "{stale:?}");
}

/// The command of each program opens the session in its directory, and what is said there comes back.
#[test]
fn session_goes_on_in_every_program_and_back() {
    let commands = [
        ("codex", "codex resume {id}", ""),
        ("copilot", "copilot --resume {id}", ""),
        ("gemini", "gemini --resume {id}", ".gemini"),
        ("opencode", "opencode --session {id}", "opencode"),
        ("pi", "pi --session {id}", ""),
        ("qwen", "qwen --resume {id}", ""),
    ];
    for ((layout, command, folder), (_, dir)) in commands.into_iter().zip(ROOTS) {
        let stage = stage();
        let root = stage.root.with_file_name(dir);
        match layout {
            "opencode" => copy_fixture("opencode", "1.18-s02-tools", &root),
            _ => fs::create_dir(&root).unwrap(),
        }
        let before = fs::read(stage.log_path(ID)).unwrap();
        let printed = run(&stage, &["resume", ID, "--with", layout, "--json"]).fine();
        let printed: serde_json::Value = serde_json::from_str(&printed.out).unwrap();
        let id = printed["session"].as_str().unwrap();
        let home = match folder {
            "" => root.clone(),
            _ => root.parent().unwrap().to_owned(),
        };
        let expected = format!(
            "{} in {} with {}",
            command.replace("{id}", id),
            stage.work().display(),
            home.display()
        );
        for _ in 0..2 {
            let opened = run(&stage, &["resume", ID, "--with", layout]).fine();
            assert_eq!(opened.out.trim(), expected, "{layout}");
        }
        let own = run(&stage, &["resume", id]).fine();
        assert_eq!(own.out.trim(), expected, "{layout}");
        run(&stage, &["append", id, "-m", "said elsewhere"]).fine();
        for _ in 0..2 {
            let back = run(&stage, &["resume", id, "--with", "claude-code"]).fine();
            let start = format!("claude --resume {ID} in ");
            assert!(back.out.starts_with(&start), "{layout}: {back:?}");
        }
        let after = fs::read_to_string(stage.log_path(ID)).unwrap();
        assert!(after.as_bytes().starts_with(&before), "{layout}");
        assert_eq!(after.matches("said elsewhere").count(), 1, "{layout}");
        let stale = run(&stage, &["resume", ID, "--with", layout]);
        assert_eq!(stale.code, 2, "{layout}: {stale:?}");
        assert!(stale.err.contains("changed since"), "{layout}: {stale:?}");
    }
}

/// `[resume]` in config.toml replaces the command of a layout, whose words are not words of a shell.
#[test]
fn command_is_a_template_of_the_settings() {
    let stage = stage();
    let settings = stage.root.with_file_name("settings");
    fs::create_dir_all(settings.join("annals")).unwrap();
    let set = |text: &str| fs::write(settings.join("annals/config.toml"), text).unwrap();
    let run = |args: &[&str]| {
        let mut command = stage.command();
        let path = stage.root.with_file_name("bin");
        command
            .env("PATH", format!("{}:/usr/bin:/bin", path.display()))
            .env("XDG_CONFIG_HOME", &settings)
            .args(["--root", &format!("claude-code:{}", stage.root.display())]);
        command.args(args).output().unwrap()
    };
    set("[resume]\nclaude-code = [\"echo\", \"a  b\", \"{id}; $HOME\", \"--id={id}\"]\n");
    let done = run(&["resume", ID]);
    let expected = format!("a  b {ID}; $HOME --id={ID}\n");
    assert_eq!(String::from_utf8(done.stdout).unwrap(), expected);
    let printed = run(&["resume", ID, "--print"]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("'a  b'"), "{printed}");
    set("[resume]\nclaude-code = []\n");
    let refused = run(&["resume", ID]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

/// Documents of an older Gemini CLI name no directory; a file of their project does.
#[test]
fn directory_of_the_project_is_used_if_no_record_names_one() {
    let stage = Stage::with_fixture_of("gemini", "document-qa");
    let printed = stage.annals(&["resume", "latest", "--print"]).fine();
    assert!(
        printed.out.starts_with("cd /home/dev/work && "),
        "{printed}"
    );
}

#[test]
fn layout_without_a_program_and_an_unknown_one_are_refused() {
    let stage = stage();
    for (with, why) in [
        ("chorus", "knows no program"),
        ("cdx", "unknown layout"),
        ("droid", "does not write it"),
    ] {
        let refused = run(&stage, &["resume", ID, "--with", with, "--print"]);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains(why), "{with}: {refused:?}");
    }
}
