//! `annals resume`: the printed command, and sessions that are converted to another program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::harness::Stage;

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
    for name in ["claude", "codex", "pi"] {
        let program = bin.join(name);
        fs::write(&program, "#!/bin/sh\necho \"$(basename $0) $* in $PWD\"\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    stage
}

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
    let codex = base.join("codex");
    if codex.is_dir() {
        command.args(["--root", &format!("codex:{}", codex.display())]);
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
    let expected = format!("claude --resume {ID} in {}", stage.work().display());
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
