//! Logs that another program holds open for writing: if they moved, its next write would be lost.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::harness::Stage;

const OLD: &str = "00000000-0000-4000-8000-000000000001";

/// A session whose last record is old.
fn old() -> Stage {
    let stage = Stage::empty();
    let root = format!("claude-code:{}", stage.root.display());
    let made = stage
        .command()
        .env("ANNALS_NOW", "2026-08-01T10:00:00Z")
        .args([
            "--root",
            &root,
            "new",
            "--id",
            OLD,
            "--cwd",
            "/home/dev/one",
        ])
        .args(["-m", "What is the question?"])
        .output();
    assert!(made.unwrap().status.success());
    stage.settle();
    stage
}

/// A process that holds a file open and appends the lines it receives.
struct Holder(Child);

impl Holder {
    fn open(file: &Path) -> Self {
        // Its process name contains a terminal escape sequence.
        let does = r#"printf '\033[31mclaw' > /proc/self/comm; exec 3>>"$1"; echo ready
            while read -r line; do printf '%s\n' "$line" >&3; done"#;
        let mut child = Command::new("sh")
            .args(["-c", does, "sh"])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Holder(child)
    }

    /// Writes a line and ends the process.
    fn write(mut self, line: &str) {
        let mut to = self.0.stdin.take().unwrap();
        writeln!(to, "{line}").unwrap();
        drop(to);
        self.0.wait().unwrap();
    }
}

#[test]
fn log_held_open_is_not_archived_deleted_or_cleaned() {
    let stage = old();
    let log = stage.log_path(OLD);
    let holder = Holder::open(&log);
    let reported = format!("held open for writing by process {} (", holder.0.id());
    for args in [
        &["archive", OLD, "--apply"][..],
        &["archive", "--older-than", "30d", "--apply"],
        &["delete", OLD, "--apply"],
    ] {
        let before = fs::read(&log).unwrap();
        let run = stage.annals(args);
        assert_eq!(run.code, 2, "{args:?}: {run}");
        assert!(run.err.contains(&reported), "{args:?}: {run}");
        assert!(
            run.err.contains("claw") && !run.err.contains('\u{1b}'),
            "{run}"
        );
        assert_eq!(fs::read(&log).unwrap(), before, "{args:?}");
    }
    let run = stage.annals(&["clean", "--older-than", "30d", "--apply"]);
    assert!(
        run.out.contains(&reported) && run.out.contains("stays"),
        "{run}"
    );
    let clean = stage.annals(&["clean", "--older-than", "30d", "--apply", "--json"]);
    assert_eq!(clean.json()["kept"][0]["why"], "live");
    // The holder's line reaches the log, and the log can be archived afterwards.
    holder.write(r#"{"type":"summary","summary":"late"}"#);
    assert!(fs::read_to_string(&log).unwrap().contains("late"));
    stage.settle();
    stage.annals(&["archive", OLD, "--apply"]).fine();
    assert!(!log.exists());
}

#[test]
fn log_held_open_is_not_repaired() {
    let stage = Stage::with_fixture("corrupt-parent");
    let log = stage.log_path("9682866b-ad88-4e05-8e2f-c31548c6c92e");
    let damaged = fs::read(&log).unwrap();
    let holder = Holder::open(&log);
    let reported = format!("held open for writing by process {} (", holder.0.id());
    let late = r#"{"type":"summary","summary":"late"}"#;
    // The rename would unlink it, so `--live` changes nothing.
    for args in [&["repair", "--apply"][..], &["repair", "--apply", "--live"]] {
        let run = stage.annals(args);
        assert_eq!(run.code, 2, "{run}");
        assert!(run.err.contains(&reported), "{run}");
        assert!(run.err.contains("end that program first"), "{run}");
        assert_eq!(fs::read(&log).unwrap(), damaged);
    }
    holder.write(late);
    assert!(fs::read_to_string(&log).unwrap().contains("late"));
    stage.annals(&["repair", "--apply", "--live"]).fine();
    let mended = fs::read(&log).unwrap();
    assert_ne!(mended, damaged);
    // Undo does not replace a file that is held open either.
    let holder = Holder::open(&log);
    for args in [
        &["repair", "--undo", "9682866b"][..],
        &["repair", "--undo", "9682866b", "--live"],
    ] {
        let run = stage.annals(args);
        assert_eq!(run.code, 2, "{run}");
        assert!(run.err.contains("held open"), "{run}");
        assert_eq!(fs::read(&log).unwrap(), mended);
    }
    holder.write(late);
    let text = fs::read_to_string(&log).unwrap();
    assert_eq!(text.matches("late").count(), 2, "{text}");
}

#[test]
fn session_list_held_open_is_not_rebuilt() {
    let stage = Stage::with_fixture_of("chorus", "chorus-index-wrong-shape");
    let agents = stage.root.join("sessions/w-app");
    let [held, free] = ["a-main", "a-review"].map(|it| agents.join(it).join("conversations.json"));
    let damaged = [&held, &free].map(|path| fs::read(path).unwrap());
    let holder = Holder::open(&held);
    let reported = format!("held open for writing by process {} (", holder.0.id());
    let run = stage.annals(&["repair", "--apply"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains(&reported), "{run}");
    assert!(run.out.contains("repaired 1 session list\n"), "{run}");
    assert_eq!(fs::read(&held).unwrap(), damaged[0]);
    // The other list is repaired, and the refused repair leaves nothing in the quarantine.
    assert_ne!(fs::read(&free).unwrap(), damaged[1]);
    let kept = stage.annals(&["repair", "--list", "--json"]).json();
    assert_eq!(kept["repairs"].as_array().unwrap().len(), 1, "{kept}");
    stage.annals(&["repair", "--apply", "--live"]).fine();
    assert_ne!(fs::read(&held).unwrap(), damaged[0]);
    drop(holder);
}

#[test]
fn session_is_not_deleted_while_its_session_list_is_held_open() {
    let stage = Stage::with_fixture_of("chorus", "chorus-index-wrong-shape");
    stage.annals(&["repair", "--apply"]).fine();
    stage.settle();
    let session = "62b48925-3675-4ab0-8da7-631eb44263e2";
    let index = stage.root.join("sessions/w-app/a-main/conversations.json");
    let log = index.with_file_name(format!("{session}-messages.jsonl"));
    let before = fs::read(&index).unwrap();
    let holder = Holder::open(&index);
    for args in [
        &["delete", session, "--apply"][..],
        &["archive", session, "--apply"],
    ] {
        let run = stage.annals(args);
        assert_eq!(run.code, 2, "{args:?}: {run}");
        assert!(run.err.contains("held open"), "{args:?}: {run}");
        assert!(log.exists(), "{args:?}");
        assert_eq!(fs::read(&index).unwrap(), before, "{args:?}");
    }
    // Commands that only add to the session still update its session list.
    stage.annals(&["title", session, "Another title"]).fine();
    assert_ne!(fs::read(&index).unwrap(), before);
    drop(holder);
    stage.settle();
    stage.annals(&["delete", session, "--apply"]).fine();
    assert!(!log.exists());
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
