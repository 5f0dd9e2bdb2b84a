//! `annals watch` as a child process, read through a pipe while logs are written.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::Value;

use crate::harness::Stage;

const SESSION: &str = "00000000-0000-4000-8000-00000000000a";
const OTHER: &str = "0000000b-0000-4000-8000-00000000000b";

/// A running `annals watch`.
struct Watch {
    child: Child,
    lines: Receiver<String>,
}

/// Only a failing test waits this long.
const DEADLINE: Duration = Duration::from_secs(60);

impl Watch {
    /// Starts the program.
    fn start(stage: &Stage, args: &[&str]) -> Self {
        Watch::reading(stage, args, usize::MAX)
    }

    /// Starts the program and closes the pipe after one line.
    fn until_first_line(stage: &Stage, args: &[&str]) -> Self {
        Watch::reading(stage, args, 1)
    }

    fn reading(stage: &Stage, args: &[&str], most: usize) -> Self {
        let root = format!("claude-code:{}", stage.root.display());
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("annals"))
            .env_clear()
            .envs(stage.env())
            .current_dir(stage.work())
            .args(["--root", &root, "watch"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().take(most) {
                if tell.send(line.unwrap() + "\n").is_err() {
                    break;
                }
            }
        });
        Watch { child, lines }
    }

    fn line(&mut self) -> String {
        let line = self.lines.recv_timeout(DEADLINE);
        line.unwrap_or_else(|error| panic!("nothing was printed: {error}"))
    }

    fn event(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Skips events until one of this name arrives.
    fn wait_for(&mut self, name: &str) -> Value {
        loop {
            let event = self.event();
            if event["event"] == name {
                return event;
            }
        }
    }

    /// Sends SIGINT, as Ctrl-C does.
    fn interrupt(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
        let mut stderr = self.child.stderr.take().unwrap();
        let (tell, reported) = channel();
        std::thread::spawn(move || {
            let mut err = String::new();
            stderr.read_to_string(&mut err).unwrap();
            _ = tell.send(err);
        });
        let err = reported.recv_timeout(DEADLINE).expect("Ctrl-C ends it");
        (self.child.wait().unwrap().code(), err)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn stage() -> Stage {
    let stage = Stage::empty();
    fs::create_dir_all(stage.root.join("projects/-home-me-app")).unwrap();
    stage
}

fn log(stage: &Stage, session: &str) -> PathBuf {
    stage
        .root
        .join(format!("projects/-home-me-app/{session}.jsonl"))
}

fn append(stage: &Stage, session: &str, line: &str) {
    let path = log(stage, session);
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn said(session: &str, number: u32, role: &str, content: &str) -> String {
    let usage = r#""id":"msg_1","model":"claude-sonnet-4-5-20250929","usage":{"input_tokens":1000,"output_tokens":50},"#;
    let usage = if role == "assistant" { usage } else { "" };
    let request = if role == "assistant" {
        r#""requestId":"req_1","#
    } else {
        ""
    };
    format!(
        r#"{{"parentUuid":null,"isSidechain":false,"cwd":"/home/me/app","sessionId":"{session}","type":"{role}",{request}"message":{{"role":"{role}",{usage}"content":{content}}},"uuid":"00000000-0000-4000-8000-{number:012x}","timestamp":"2026-11-15T10:00:{number:02}.000Z"}}"#
    )
}

fn prompt(session: &str, number: u32, text: &str) -> String {
    said(session, number, "user", &Value::from(text).to_string())
}

const REPLY: &str = r#"[{"type":"thinking","thinking":"Let me look.","signature":"x"},{"type":"text","text":"It is the cache."},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"cargo test"}}]"#;
const RESULT: &str = r#"[{"type":"tool_result","tool_use_id":"t1","content":"12 passed"}]"#;

#[test]
fn events_are_lines_of_json() {
    let stage = stage();
    append(&stage, SESSION, &prompt(SESSION, 1, "before"));
    let mut watch = Watch::start(&stage, &["--all", "--json"]);
    let first = watch.event();
    assert_eq!(
        (&first["event"], &first["earlier"]),
        (&"entry".into(), &true.into())
    );
    assert_eq!(watch.event()["event"], "live");
    append(&stage, SESSION, &said(SESSION, 2, "assistant", REPLY));
    let mut entry = watch.event();
    for path in ["root", "file"] {
        let text = entry[path].as_str().unwrap();
        let shown = text.replace(stage.root.to_str().unwrap(), "[ROOT]");
        entry[path] = shown.into();
    }
    assert_snapshot!(serde_json::to_string_pretty(&entry).unwrap());
    append(&stage, OTHER, &prompt(OTHER, 3, "another session"));
    let began = watch.event();
    assert_eq!(
        (&began["event"], &began["session"]),
        (&"began".into(), &OTHER.into())
    );
    assert_eq!(watch.event()["blocks"][0]["text"], "another session");
    fs::remove_file(log(&stage, OTHER)).unwrap();
    assert_eq!(watch.event()["event"], "gone");
    fs::write(log(&stage, SESSION), "").unwrap();
    let reset = watch.event();
    assert_eq!(
        (&reset["event"], &reset["why"]),
        (&"reset".into(), &"truncated".into())
    );
}

#[test]
fn watch_prints_speakers_and_ends_on_ctrl_c() {
    let stage = stage();
    append(&stage, SESSION, &prompt(SESSION, 1, "Why is it slow?"));
    append(&stage, SESSION, &said(SESSION, 2, "assistant", REPLY));
    append(&stage, SESSION, &said(SESSION, 3, "user", RESULT));
    append(&stage, OTHER, &prompt(OTHER, 4, "Else\u{1b}[2Jwhere"));
    let shown = |args: &[&str], last: &str| {
        let mut watch = Watch::start(&stage, args);
        let mut page = String::new();
        while !page.contains(last) {
            page += &watch.line();
        }
        let (code, err) = watch.interrupt();
        assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}");
        page
    };
    assert_snapshot!(shown(&["--all"], "where"), @r"
    app 00000000  user  10:00:01
    ▌ Why is it slow?

    app 00000000  assistant  10:00:02
    ▌ │ Let me look.
    ▌ It is the cache.
    ▌ → Bash $ cargo test

    app 0000000b  user  10:00:04
    ▌ Else␛[2Jwhere
    ");
    assert_snapshot!(shown(&["--all", "--thinking"], "where"), @r"
    app 00000000  user  10:00:01
    ▌ Why is it slow?

    app 00000000  assistant  10:00:02
    ▌ │ Let me look.

    app 0000000b  user  10:00:04
    ▌ Else␛[2Jwhere
    ");
    assert_snapshot!(shown(&["--all", "--tools", "-n", "2"], "where"), @r"
    app 00000000  tool  10:00:03
    ▌ │ 12 passed

    app 0000000b  user  10:00:04
    ▌ Else␛[2Jwhere
    ");
    assert_snapshot!(shown(&[SESSION, "-n", "1"], "cargo test"), @r"
    app 00000000  assistant  10:00:02
    ▌ │ Let me look.
    ▌ It is the cache.
    ▌ → Bash $ cargo test
    ");
}

#[test]
fn watch_cost_counts_a_response_once() {
    let stage = stage();
    append(&stage, SESSION, &prompt(SESSION, 1, "Why?"));
    append(
        &stage,
        SESSION,
        &said(SESSION, 2, "assistant", r#"[{"type":"text","text":"a"}]"#),
    );
    let mut watch = Watch::start(&stage, &[SESSION, "--json", "--cost", "-n", "0"]);
    watch.wait_for("live");
    // Another line of the same response, then a line of another response.
    append(
        &stage,
        SESSION,
        &said(SESSION, 3, "assistant", r#"[{"type":"text","text":"b"}]"#),
    );
    let cost = watch.wait_for("cost");
    assert_eq!(
        (&cost["requests"], &cost["cost_usd"]),
        (&1.into(), &"0.00375".into()),
        "{cost}"
    );
    let other = said(SESSION, 4, "assistant", r#"[{"type":"text","text":"c"}]"#);
    append(
        &stage,
        SESSION,
        &other.replace("msg_1", "msg_2").replace("req_1", "req_2"),
    );
    let cost = watch.wait_for("cost");
    assert_eq!(
        (&cost["requests"], &cost["cost_usd"]),
        (&2.into(), &"0.0075".into()),
        "{cost}"
    );
}

#[test]
fn watch_ends_when_the_pipe_is_closed() {
    let stage = stage();
    append(&stage, SESSION, &prompt(SESSION, 1, "hello"));
    let mut watch = Watch::until_first_line(&stage, &["--all", "--json"]);
    // The closed pipe ends the program, without a further write to the log.
    let Watch { child, .. } = &mut watch;
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut err = String::new();
    let stderr = child.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut err).unwrap();
    assert_eq!(err, "");
}

#[test]
fn watch_selects_projects_by_name_path_and_folder() {
    let stage = stage();
    append(&stage, SESSION, &prompt(SESSION, 1, "in the app"));
    for wanted in ["app", "/home/me/app"] {
        let mut watch = Watch::start(&stage, &[wanted, "--json"]);
        assert_eq!(watch.event()["project"], "/home/me/app", "{wanted}");
    }
    let mut watch = Watch::start(&stage, &["-p", "-home-me-app", "--json"]);
    assert_eq!(watch.event()["project"], "/home/me/app");
    let run = stage.annals(&["watch", "nobody", "--json"]);
    assert_snapshot!(run, @r"
    exit code 1
    --- stderr
    note: no session or project matches `nobody` (`annals projects` lists them; give a path to wait for a new one)
    ");
    let run = stage.annals(&["watch", "appx"]);
    assert_eq!(run.code, 1, "{run}");
    assert!(run.err.contains("similar: `/home/me/app`"), "{run}");
    append(&stage, OTHER, &prompt(OTHER, 2, "in the app, too"));
    let run = stage.annals(&["watch", "000000"]);
    assert_eq!(run.code, 2, "{run}");
    let run = stage.annals(&["watch", &format!("{SESSION}@nothing")]);
    assert_snapshot!(run, @r"
    exit code 2
    --- stderr
    error: no message matches `nothing`
    hint: `annals tree SESSION` shows the ids of its messages
    ");
}

#[test]
fn watch_prints_complete_lines_without_waiting_for_more() {
    let long = prompt(SESSION, 1, &"long ".repeat(220_000));
    let many: Vec<String> = (0..256)
        .map(|n| {
            let line = prompt(SESSION, 1, &format!("text {n}"));
            line.replace("000000000001", &format!("{n:012x}"))
        })
        .collect();
    for (text, entries) in [(long, 1), (many.join("\n"), 256)] {
        let stage = stage();
        append(&stage, SESSION, "");
        let mut watch = Watch::start(&stage, &["--all", "--json"]);
        watch.wait_for("live");
        append(&stage, SESSION, &text);
        for _ in 0..entries {
            watch.wait_for("entry");
        }
    }
}

#[test]
fn partial_lines_in_other_logs_do_not_delay_watch() {
    let stage = stage();
    let others: Vec<String> = (1..20)
        .map(|n| SESSION.replace("000a", &format!("{n:04x}")))
        .map(|session| session.replacen("0000", "0001", 1))
        .collect();
    for session in others.iter().map(String::as_str).chain([SESSION]) {
        append(&stage, session, "");
    }
    let mut watch = Watch::start(&stage, &["--all", "--json"]);
    watch.wait_for("live");
    // Stopped while everything is written, so that all changes are seen at once.
    let pid = watch.child.id().to_string();
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(sent.success());
    };
    signal("-STOP");
    append(&stage, SESSION, &prompt(SESSION, 1, "whole"));
    for session in &others {
        let mut file = OpenOptions::new()
            .append(true)
            .open(log(&stage, session))
            .unwrap();
        file.write_all(b"{\"type\":\"user\",").unwrap();
    }
    signal("-CONT");
    assert_eq!(watch.wait_for("entry")["blocks"][0]["text"], "whole");
}

#[test]
fn watch_marks_copied_entries_of_a_fork_as_earlier() {
    let stage = stage();
    let old = |session: &str| {
        [1, 2].map(|n| prompt(session, n, &format!("old {n}")).replace("2026-", "2025-"))
    };
    let new =
        |session: &str, n: u32, text: &str| prompt(session, n, text).replace("2026-", "2999-");
    for line in old(SESSION) {
        append(&stage, SESSION, &line);
    }
    let mut json = Watch::start(&stage, &["--all", "--json", "-n", "0"]);
    json.wait_for("live");
    let mut human = Watch::start(&stage, &["--all", "-n", "1"]);
    while !human.line().contains("old 2") {}
    append(&stage, SESSION, &new(SESSION, 3, "reported"));
    assert_eq!(json.wait_for("entry")["earlier"], false);
    while !human.line().contains("reported") {}
    let mut fork = old(OTHER).join("\n");
    for line in [new(OTHER, 3, "reported"), new(OTHER, 4, "news")] {
        fork = format!("{fork}\n{line}");
    }
    append(&stage, OTHER, &fork);
    let earlier: Vec<Value> = (0..4)
        .map(|_| json.wait_for("entry")["earlier"].clone())
        .collect();
    assert_eq!(earlier, [true, true, true, false]);
    let mut page = String::new();
    while !page.contains("news") {
        page += &human.line();
    }
    let first = page.lines().next();
    assert_eq!(first, Some("… 0000000b  3 earlier entries are left out"));
    assert!(!page.contains("old"), "{page}");
}

#[test]
fn watch_poll_prints_new_entries() {
    let stage = stage();
    let mut watch = Watch::start(&stage, &["--all", "--json", "--poll"]);
    watch.wait_for("live");
    append(&stage, SESSION, &prompt(SESSION, 1, "hello"));
    assert_eq!(watch.wait_for("entry")["blocks"][0]["text"], "hello");
}
