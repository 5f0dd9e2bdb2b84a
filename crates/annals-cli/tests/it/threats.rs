//! Attacks on the program, one for each line of docs/THREATS.md that concerns it.

mod bombs;
mod links;
mod places;
mod sources;
mod text;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::{Run, Stage};

const ID: &str = "00000000-0000-4000-8000-000000000001";

fn begun() -> Stage {
    let stage = Stage::empty();
    stage
        .annals(&[
            "new",
            "--id",
            ID,
            "--cwd",
            "/home/dev/w",
            "-m",
            "question 1",
        ])
        .fine();
    stage
}

/// Runs the program with a clock years ahead, so that everything is old.
fn later(stage: &Stage, args: &[&str]) -> Run {
    let root = format!("claude-code:{}", stage.root.display());
    let mut command = stage.command();
    let command = command.env("ANNALS_NOW", "2030-01-01T00:00:00Z");
    let output = command.args(["--root", &root]).args(args).output();
    stage.run_of(&output.unwrap())
}

/// Every path below `path` with its content; only the first link is followed.
fn below(path: &Path) -> BTreeSet<(PathBuf, Vec<u8>)> {
    let mut found = BTreeSet::new();
    let mut pending = vec![path.to_owned()];
    while let Some(path) = pending.pop() {
        match fs::read_dir(&path) {
            Ok(dir) => {
                pending.extend(dir.flatten().map(|entry| entry.path()));
                found.insert((path, Vec::new()));
            }
            Err(_) => {
                let bytes = fs::read(&path).unwrap_or_default();
                found.insert((path, bytes));
            }
        }
    }
    found
}

/// Runs the program after a shell command, such as one that sets a limit.
fn limited(stage: &Stage, first: &str, args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command
        .env_clear()
        .envs(stage.env())
        .current_dir(stage.work())
        .args(["-c", &format!("{first}; exec \"$0\" \"$@\"")])
        .arg(assert_cmd::cargo::cargo_bin!("annals"))
        .args(args);
    command.output().unwrap()
}

#[track_caller]
fn assert_quiet(text: &str, what: &str) {
    let mut loud = text.chars();
    let loud = loud.find(|&c| annals::text::is_hostile(c) && !matches!(c, '\n' | '\t'));
    assert_eq!(loud, None, "{what}: {text:?}");
}
