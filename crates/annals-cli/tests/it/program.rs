//! Runs the program in a world of its own: fixed time and zone, no colours, an empty home.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

/// The repository, from which fixtures are named.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// What a run of the program came to.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Everything a person sees, and the exit code.
    pub(crate) fn seen(&self) -> String {
        let mut seen = self.out.clone();
        if !self.err.is_empty() {
            seen.push_str("--- stderr\n");
            seen.push_str(&self.err);
        }
        seen.push_str(&format!("--- exit {}\n", self.code));
        seen
    }
}

/// A home of its own for one test.
pub(crate) struct World {
    pub(crate) home: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        World {
            home: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
        command
            .args(args)
            .current_dir(repository())
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TZ", "UTC")
            .env("ANNALS_NOW", "2026-11-15T12:00:00Z");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs the program on a fixture.
pub(crate) fn on(fixture: &str, args: &[&str]) -> Ran {
    let root = format!("fixtures/claude-code/{fixture}");
    let mut all = vec!["--root", root.as_str()];
    all.extend(args);
    World::new().run(&all)
}
