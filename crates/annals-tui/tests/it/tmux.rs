//! A terminal that tests can read: a tmux server of their own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a text may take to appear. Machines that build beside the tests are slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session of tmux.
pub(crate) struct Tmux {
    dir: tempfile::TempDir,
    server: String,
}

/// The program: the example `browse`, which cargo builds for tests.
pub(crate) fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(Path::parent).unwrap();
    let program = target.join("examples/browse");
    assert!(
        program.exists(),
        "build it: cargo build -p annals-tui --example browse"
    );
    program
}

/// The command of a script. Its root and its state are in the directory where the script runs.
pub(crate) fn command() -> String {
    format!(
        "{} claude-code:$PWD/.claude $PWD/state",
        program().display()
    )
}

impl Tmux {
    /// Starts a script in a terminal of 120 × 30; `None` if tmux is not installed.
    pub(crate) fn start(fixtures: &[&str], script: &str) -> Option<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        if Command::new("tmux").arg("-V").output().is_err() {
            let test = std::thread::current();
            let test = test.name().unwrap_or_default();
            eprintln!("SKIPPED {test}: tmux is not installed");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude-code");
        for fixture in fixtures {
            copy(&source.join(fixture), &dir.path().join(".claude"));
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let tmux = Tmux {
            dir,
            server: format!("annals-{}-{number}", std::process::id()),
        };
        let home = tmux.dir.path().display().to_string();
        let size = ["-x", "120", "-y", "30", "-c", &home];
        let args = ["new-session", "-d"].iter().chain(&size).copied();
        let args: Vec<&str> = args.chain(["sh", "-c", script]).collect();
        tmux.tmux(&args);
        Some(tmux)
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let output = Command::new("tmux")
            .args(["-L", &self.server, "-f", "/dev/null"])
            .args(args)
            .env("ANNALS_NOW", "2026-11-18T12:00:00Z")
            .env("TERM", "xterm-256color")
            .env("RUST_BACKTRACE", "0")
            .env_remove("NO_COLOR")
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        output
    }

    /// Presses keys, as `tmux send-keys` names them.
    pub(crate) fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// The screen as text.
    pub(crate) fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The screen with its styles.
    pub(crate) fn styled_screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-e"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until the screen shows a text.
    pub(crate) fn wait_for(&self, text: &str) {
        let begin = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "no {text:?} in\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks for the values of a format.
    pub(crate) fn ask(&self, format: &str) -> String {
        let output = self.tmux(&["display-message", "-p", format]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Changes the size of the terminal.
    pub(crate) fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        self.tmux(&["resize-window", "-x", &width, "-y", &height]);
    }

    /// Sends a signal to the browser.
    pub(crate) fn kill(&self, signal: &str) {
        let pid = self.file("pid");
        let sent = Command::new("kill")
            .args(["-s", signal, pid.trim()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Reads a file that the script wrote.
    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let server = ["-L", &self.server, "kill-server"];
        _ = Command::new("tmux").args(server).output();
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => _ = std::fs::copy(&path, &target).unwrap(),
        }
    }
}
