//! A root in a temporary directory, and the program run on it.
//!
//! Time, zone, home and state directory are fixed, so the output depends on the root alone. What
//! cannot be fixed (paths, fresh ids) is masked and numbered in order of appearance.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, FileTimes};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// Modification time of every file of a settled stage: 2026-11-14T00:00:00Z.
const SETTLED: Duration = Duration::from_secs(1_794_614_400);

/// A root with its state, home and working directories.
pub(crate) struct Stage {
    dir: TempDir,
    pub(crate) root: PathBuf,
    layout: &'static str,
}

/// Exit code and output of one run of the program.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// What one run of the program cost. Neither depends on how busy the machine is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunCost {
    /// Number of bytes that its reads returned.
    pub(crate) bytes_read: u64,
    /// Processor time, in clock ticks of 10 ms.
    pub(crate) cpu_ticks: u64,
}

/// Copies a fixture of a layout to a new directory.
pub(crate) fn copy_fixture(layout: &str, fixture: &str, to: &Path) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    copy(&fixtures.join(layout).join(fixture), to);
}

impl Stage {
    /// A root that does not exist yet.
    pub(crate) fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // On some systems the temporary directory is behind a symbolic link.
        let root = fs::canonicalize(dir.path()).unwrap().join("root");
        fs::create_dir(root.with_file_name("work")).unwrap();
        let layout = "claude-code";
        Stage { dir, root, layout }
    }

    /// Sets the layout of the root.
    pub(crate) fn with_layout(mut self, layout: &'static str) -> Self {
        self.layout = layout;
        self
    }

    /// A copy of a fixture of this layout.
    pub(crate) fn with_fixture_of(layout: &'static str, fixture: &str) -> Self {
        let mut stage = Stage::empty();
        stage.layout = layout;
        copy_fixture(layout, fixture, &stage.root);
        stage.settle();
        stage
    }

    /// A copy of a Claude Code fixture.
    pub(crate) fn with_fixture(fixture: &str) -> Self {
        Stage::with_fixture_of("claude-code", fixture)
    }

    /// Removes the page that explains the fixture, which `check` would report.
    pub(crate) fn without_notes(self) -> Self {
        fs::remove_file(self.root.join("NOTES.md")).unwrap();
        self
    }

    /// The working directory.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.with_file_name("work")
    }

    /// Runs the program on the root.
    pub(crate) fn annals(&self, args: &[&str]) -> Run {
        self.with_stdin(args, "")
    }

    /// Runs the program on the root with this standard input.
    pub(crate) fn with_stdin(&self, args: &[&str], stdin: impl Into<Vec<u8>>) -> Run {
        let root = format!("{}:{}", self.layout, self.root.display());
        let output = self
            .command()
            .args(["--root", &root])
            .args(args)
            .write_stdin(stdin)
            .output()
            .unwrap();
        self.run_of(&output)
    }

    /// Runs the program on the root and measures what that costs; `None` if the system has no
    /// `/proc`.
    pub(crate) fn measured(&self, args: &[&str], stdin: &str) -> (Run, Option<RunCost>) {
        let file = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.rewind().unwrap();
            file
        };
        let (mut out, mut err) = (file(""), file(""));
        let root = format!("{}:{}", self.layout, self.root.display());
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("annals"))
            .env_clear()
            .envs(self.env())
            .current_dir(self.work())
            .args(["--root", &root])
            .args(args)
            .stdin(file(stdin))
            .stdout(out.try_clone().unwrap())
            .stderr(err.try_clone().unwrap())
            .spawn()
            .unwrap();
        // The counters of a process can be read until its exit code is collected.
        let cost = RunCost::at_exit(child.id());
        let status = child.wait().unwrap();
        let text = |file: &mut File| {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        };
        let (stdout, stderr) = (text(&mut out), text(&mut err));
        let output = std::process::Output {
            status,
            stdout,
            stderr,
        };
        (self.run_of(&output), cost)
    }

    /// Runs the program with these arguments alone, without `--root`.
    pub(crate) fn bare(&self, args: &[&str]) -> Run {
        let output = self.command().args(args).output().unwrap();
        self.run_of(&output)
    }

    /// The program, with a fixed environment.
    pub(crate) fn command(&self) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("annals"));
        command
            .env_clear()
            .envs(self.env())
            .current_dir(self.work());
        command
    }

    /// The environment variables.
    pub(crate) fn env(&self) -> Vec<(&'static str, PathBuf)> {
        let base = self.root.parent().unwrap();
        vec![
            ("ANNALS_NOW", "2026-11-15T12:00:00Z".into()),
            ("ANNALS_STATE_DIR", base.join("state")),
            ("HOME", base.join("home")),
            ("TMPDIR", base.join("work")),
            ("TZ", "UTC".into()),
            ("USER", "mira".into()),
            ("PATH", std::env::var_os("PATH").unwrap_or_default().into()),
        ]
    }

    pub(crate) fn run_of(&self, output: &std::process::Output) -> Run {
        Run {
            code: output.status.code().unwrap_or(-1),
            out: self.mask(&String::from_utf8_lossy(&output.stdout)),
            err: self.mask(&String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// Every file of the stage with its bytes, including the state directory and the home.
    pub(crate) fn tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut pending = vec![self.root.parent().unwrap().to_owned()];
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let entry = entry.unwrap();
                // The index may be written even by a command that fails.
                let name = entry.file_name().into_string().unwrap_or_default();
                if entry.file_type().unwrap().is_dir() {
                    pending.push(entry.path());
                } else if !name.starts_with("index-") {
                    found.insert(entry.path(), fs::read(entry.path()).unwrap_or_default());
                }
            }
        }
        found
    }

    /// Runs a command that must fail and change nothing. With `--json`, the error is a document.
    #[track_caller]
    pub(crate) fn refused(&self, args: &[&str], stdin: &str) -> Run {
        let before = self.tree();
        let run = self.with_stdin(args, stdin);
        assert_eq!(run.code, 2, "{args:?}: {run}");
        assert!(!run.err.contains("panicked"), "{args:?}: {run}");
        if args.contains(&"--json") {
            let document: serde_json::Value = serde_json::from_str(&run.out).unwrap();
            assert!(document["error"]["message"].is_string(), "{args:?}: {run}");
        } else {
            assert!(run.err.starts_with("error: "), "{args:?}: {run}");
            assert!(run.out.is_empty(), "{args:?}: {run}");
        }
        assert!(self.tree() == before, "{args:?} changed something: {run}");
        run
    }

    /// The lines of a session's log.
    pub(crate) fn log(&self, session: &str) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.log_path(session)).unwrap();
        assert!(text.ends_with('\n'), "{text}");
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The path of a session's log.
    pub(crate) fn log_path(&self, session: &str) -> PathBuf {
        let name = format!("{session}.jsonl");
        let found = self
            .tree()
            .into_keys()
            .find(|path| path.file_name().is_some_and(|file| file == name.as_str()));
        found.unwrap_or_else(|| panic!("no log of {session}"))
    }

    /// Makes a session immovable: adds a file behind a link that the settings follow, which is read
    /// but never moved. Returns the path of the file.
    pub(crate) fn cannot_go(&self, log: &Path) -> PathBuf {
        let elsewhere = self.work().join("elsewhere");
        fs::create_dir_all(elsewhere.join("tool-results")).unwrap();
        let file = elsewhere.join("tool-results/a.txt");
        fs::write(&file, "a").unwrap();
        let link = log.with_extension("");
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        self.follow(&link);
        file
    }

    /// Allows a link to be followed, in the settings.
    pub(crate) fn follow(&self, link: &Path) {
        let config = self.root.with_file_name("home").join(".config/annals");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("config.toml"), format!("follow = [{link:?}]\n")).unwrap();
    }

    /// Gives every file one modification time and the root mode 0700, so that nothing depends on
    /// when a test runs or on the umask.
    pub(crate) fn settle(&self) {
        if self.root.exists() {
            fs::set_permissions(&self.root, fs::Permissions::from_mode(0o700)).unwrap();
        }
        self.settle_times();
    }

    /// Gives every file one modification time.
    pub(crate) fn settle_times(&self) {
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + SETTLED);
        for path in self.tree().into_keys() {
            File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_times(times)
                .unwrap();
        }
    }

    fn mask(&self, text: &str) -> String {
        let base = self.root.parent().unwrap().display().to_string();
        let linked = self.dir.path().display().to_string();
        // Project folders are named after encoded paths.
        let encoded = |path: &str| path.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let mut masked = text.to_owned();
        for path in [&base, &linked] {
            masked = masked
                .replace(path, "[DIR]")
                .replace(&encoded(path), "[DIR-]");
        }
        mask_ids(&masked)
    }
}

impl RunCost {
    /// Waits for the end of a process and returns what it cost.
    fn at_exit(process: u32) -> Option<Self> {
        loop {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            if fields[0] != "Z" {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let ticks = |at: usize| fields[at].parse::<u64>().ok();
            let io = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
            let read = io.lines().find_map(|line| line.strip_prefix("rchar: "))?;
            return Some(RunCost {
                bytes_read: read.parse().ok()?,
                cpu_ticks: ticks(11)? + ticks(12)?,
            });
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "exit code {}", self.code)?;
        for (name, text) in [("stdout", &self.out), ("stderr", &self.err)] {
            if !text.is_empty() {
                write!(f, "--- {name}\n{text}")?;
            }
        }
        Ok(())
    }
}

impl Run {
    /// The JSON document on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{self}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// Asserts that the exit code is 0.
    #[track_caller]
    pub(crate) fn fine(self) -> Self {
        assert_eq!(self.code, 0, "{self}");
        self
    }
}

/// Replaces random ids (version 4 UUIDs that no test chose) by numbers, in order of appearance.
fn mask_ids(text: &str) -> String {
    let mut known: Vec<String> = Vec::new();
    for at in 0..text.len() {
        if let Some(id) = text.get(at..at + 36).filter(|id| is_fresh(id))
            && !known.iter().any(|other| other == id)
        {
            known.push(id.to_owned());
        }
    }
    let mut masked = text.to_owned();
    for (at, id) in known.iter().enumerate() {
        masked = masked.replace(id, &format!("[id {}]", at + 1));
    }
    masked
}

fn is_fresh(text: &str) -> bool {
    let shaped = text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        14 => byte == b'4',
        _ => byte.is_ascii_hexdigit(),
    });
    // Ids chosen by tests start with zeroes.
    shaped && !text.starts_with("000000")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}
