//! `append --follow`: lines that contradict an existing session or sub-agent, and time precision.

use serde_json::{Value, json};

use crate::harness::Stage;

const LAYOUTS: [&str; 4] = ["claude-code", "chorus", "clog", "orchestrator"];

fn staged(layout: &'static str) -> Stage {
    let stage = Stage::empty().with_layout(layout);
    if layout == "chorus" {
        let work = stage.work();
        let add = [
            "chorus",
            "workspaces",
            "add",
            work.to_str().unwrap(),
            "--id",
            "ws-1",
        ];
        stage.annals(&add).fine();
    }
    stage
}

/// Sends lines to a new writer process and returns its answers.
fn follow(stage: &Stage, lines: &[Value]) -> Vec<Value> {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let run = stage.with_stdin(&["append", "--follow"], input);
    let answers: Vec<Value> = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), lines.len(), "{run}");
    answers
}

fn refused(answer: &Value, expected: &str) {
    let error = answer["error"].as_str().unwrap_or_default();
    assert_eq!(
        (&answer["ok"], error.contains(expected)),
        (&Value::Bool(false), true),
        "{answer}"
    );
}

#[test]
fn append_follow_refuses_a_different_git_branch() {
    for layout in LAYOUTS {
        let stage = staged(layout);
        let on = |branch: &str, text: &str| {
            json!({
                "new": {"id": "s-one", "git_branch": branch}, "role": "user", "content": text,
            })
        };
        let alone = json!({"new": {"id": "s-one", "git_branch": "main"}});
        // Before the first message no record has a branch; the same line is accepted again.
        for _ in 0..2 {
            let answers = follow(&stage, std::slice::from_ref(&alone));
            assert_eq!(answers[0]["ok"], true, "{layout}: {}", answers[0]);
        }
        let first = follow(&stage, &[on("main", "one"), on("dev", "two")]);
        assert_eq!(first[0]["ok"], true, "{layout}: {}", first[0]);
        refused(&first[1], "its git_branch is `main`, not `dev`");
        // A writer that did not create the session gives the same answer.
        let second = follow(&stage, &[on("dev", "three"), on("main", "four")]);
        refused(&second[0], "its git_branch is `main`, not `dev`");
        assert_eq!(second[1]["ok"], true, "{layout}: {}", second[1]);
        let session = second[1]["session"].as_str().unwrap();
        let shown = stage.annals(&["show", session]).fine();
        assert!(!shown.out.contains("two") && !shown.out.contains("three"));
        assert!(shown.out.contains("four"), "{layout}: {shown}");
    }
}

#[test]
fn append_follow_refuses_a_different_sub_agent_purpose() {
    for layout in LAYOUTS {
        let stage = staged(layout);
        let long = "x".repeat(300);
        let line = |agent: Value| {
            json!({
                "new": {"id": "s-one"}, "agent": agent, "role": "user", "content": "Look",
            })
        };
        let whole = json!({"id": "a1", "kind": "Explore", "description": long, "call": "toolu_1"});
        let other = format!("{long} and more");
        let lines = [
            line(whole),
            line(json!({"id": "a1", "kind": "Plan"})),
            line(json!({"id": "a1", "description": other})),
            line(json!({"id": "a1", "call": "toolu_2"})),
            line(json!({"id": "a1", "kind": "Explore"})),
            line(json!("a1")),
        ];
        let began = follow(&stage, &lines);
        // The second writer reads the values that the first one wrote.
        let again = follow(&stage, &lines);
        assert_eq!(
            (&began[0]["began"], &again[0]["began"]),
            (&Value::Bool(true), &Value::Null)
        );
        for answers in [began, again] {
            assert_eq!(answers[0]["ok"], true, "{layout}: {}", answers[0]);
            refused(&answers[1], "its kind is `Explore`, not `Plan`");
            refused(&answers[2], "and its description is `xxx");
            refused(&answers[3], "its call is `toolu_1`, not `toolu_2`");
            assert_eq!(answers[4]["ok"], true, "{layout}: {}", answers[4]);
            assert_eq!(answers[5]["ok"], true, "{layout}: {}", answers[5]);
        }
    }
}

#[test]
fn append_follow_preserves_time_precision() {
    for layout in LAYOUTS {
        let stage = staged(layout);
        let given = [
            (
                "2025-11-16T10:00:00.123456+00:00",
                "2025-11-16T10:00:00.123456Z",
            ),
            (
                "2025-11-16T10:00:01.123456789Z",
                "2025-11-16T10:00:01.123456789Z",
            ),
            ("2025-11-16T10:00:02.5Z", "2025-11-16T10:00:02.5Z"),
        ];
        let line = |time: &str| {
            json!({
                "new": {"id": "s-one"}, "role": "user", "content": "Hello", "timestamp": time,
            })
        };
        let lines: Vec<Value> = given.iter().map(|(time, _)| line(time)).collect();
        let mut answers = follow(&stage, &lines);
        // A message without a time gets the current one, to the millisecond.
        answers.extend(follow(
            &stage,
            &[json!({"new": {"id": "s-one"}, "role": "user", "content": "Now"})],
        ));
        assert!(
            answers.iter().all(|answer| answer["ok"] == true),
            "{layout}: {answers:?}"
        );
        let session = answers[0]["session"].as_str().unwrap();
        let shown = stage.annals(&["show", session, "--json"]).json();
        let entries = shown["entries"].as_array().unwrap();
        let times: Vec<&str> = entries
            .iter()
            .map(|entry| entry["time"].as_str().unwrap())
            .collect();
        let (now, times) = times.split_last().unwrap();
        let expected: Vec<&str> = given.iter().map(|(_, time)| *time).collect();
        assert_eq!(times, expected, "{layout}");
        assert!(now.starts_with("2026-11-15T12:00:00"), "{layout}: {now}");
        assert!(
            now.len() <= "2026-11-15T12:00:00.000Z".len(),
            "{layout}: {now}"
        );
        // A time without a zone is ambiguous.
        refused(
            &follow(&stage, &[line("2025-11-16T10:00:00.123456")])[0],
            "is not a time",
        );
    }
}

#[test]
fn append_follow_accepts_chorus_agent_names() {
    let stage = staged("chorus");
    stage
        .annals(&["chorus", "agents", "add", "ws-1", "Code Reviewer"])
        .fine();
    let line = |agent: &str| {
        json!({
            "new": {"id": "s-one", "agent": agent}, "role": "user", "content": "Hello",
        })
    };
    let lines = [line("Code Reviewer"), line("code-reviewer"), line("nobody")];
    for _ in 0..2 {
        let answers = follow(&stage, &lines);
        assert_eq!(answers[0]["ok"], true, "{}", answers[0]);
        assert_eq!(answers[1]["ok"], true, "{}", answers[1]);
        refused(&answers[2], "nobody");
    }
}

#[test]
fn append_follow_answers_blank_lines() {
    let stage = staged("claude-code");
    let lines = "\n{\"new\":{\"id\":\"s-one\"},\"role\":\"user\",\"content\":\"x\"}\n \n";
    let run = stage.with_stdin(&["append", "--follow"], lines).fine();
    let answers: Vec<Value> = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let blank = |line| json!({"line": line, "ok": true, "entries": []});
    assert_eq!((&answers[0], &answers[2]), (&blank(1), &blank(3)));
    assert_eq!(answers[1]["entries"].as_array().map(Vec::len), Some(1));
}

/// With more conversations than stay open, the session list still counts every message.
#[test]
fn many_conversations_of_one_agent_are_closed_together() {
    let stage = staged("chorus");
    let line = |number: u32, text: &str| json!({"session": format!("c{number:03}"), "role": "user", "content": text});
    let begin: Vec<Value> = (0..100)
        .map(|number| json!({"new": {"id": format!("c{number:03}")}, "role": "user", "content": "a"}))
        .collect();
    for answer in follow(&stage, &begin) {
        assert_eq!(answer["ok"], true, "{answer}");
    }
    let lines: Vec<Value> = (0..100).map(|number| line(number, "b")).collect();
    for answer in follow(&stage, &lines) {
        assert_eq!(answer["ok"], true, "{answer}");
    }
    // A conversation that was closed to make room is opened again.
    let again: Vec<Value> = (0..100)
        .chain(0..10)
        .map(|number| line(number, "c"))
        .collect();
    for answer in follow(&stage, &again) {
        assert_eq!(answer["ok"], true, "{answer}");
    }
    let files = stage.tree();
    let mut lists = files
        .iter()
        .filter(|(path, _)| path.ends_with("conversations.json"));
    let list: Value = serde_json::from_slice(lists.next().unwrap().1).unwrap();
    let rows = list["conversations"].as_array().unwrap();
    assert_eq!(rows.len(), 100);
    for row in rows {
        let twice = row["id"].as_str().unwrap() < "c010";
        assert_eq!(row["messageCount"], if twice { 4 } else { 3 }, "{row}");
    }
}

/// Thread ids of clog that share a folder name.
const SIMILAR_THREADS: [[&str; 2]; 4] = [
    ["Thread_ABC", "thread_abc"],
    ["a/b", "a-b"],
    ["語", "thread"],
    ["X/1", "X-1"],
];

#[test]
fn append_follow_similar_thread_id_creates_its_own_session() {
    let begin = |thread: &str| json!({"new": {"id": thread}, "role": "user", "content": format!("for {thread}")});
    for threads in SIMILAR_THREADS {
        let stage = staged("clog");
        let mut answers = follow(&stage, &[begin(threads[0])]);
        answers.extend(follow(&stage, &[begin(threads[1])]));
        let one_writer = staged("clog");
        let together = follow(&one_writer, &threads.map(begin));
        for (stage, answers) in [(stage, answers), (one_writer, together)] {
            assert_ne!(answers[0]["session"], answers[1]["session"], "{threads:?}");
            for (thread, answer) in threads.iter().zip(&answers) {
                assert_eq!(answer["began"], true, "{answer}");
                let session = answer["session"].as_str().unwrap();
                let shown = stage.annals(&["show", session]).fine();
                assert!(shown.out.contains(&format!("for {thread}")), "{shown}");
                assert!(shown.out.contains("1 message\n"), "{shown}");
            }
        }
    }
}

#[test]
fn append_follow_existing_thread_of_any_text_is_continued() {
    let threads = [
        "thrëad",
        "sß 1",
        "a b",
        "漢字",
        "user@host",
        "+49 170",
        "a/b",
        "Thread_X",
    ];
    let stage = staged("clog");
    let lines =
        threads.map(|thread| json!({"new": {"id": thread}, "role": "user", "content": "on"}));
    let (first, second) = (follow(&stage, &lines), follow(&stage, &lines));
    for (began, continued) in first.iter().zip(&second) {
        assert_eq!(
            (&began["ok"], &began["began"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(continued["ok"], true, "{continued}");
        assert_eq!(continued["began"], Value::Null, "{continued}");
        assert_eq!(continued["session"], began["session"]);
    }
}

#[test]
fn change_by_a_similar_thread_id_is_refused() {
    for [existing, similar] in SIMILAR_THREADS {
        let stage = staged("clog");
        stage
            .annals(&["new", "--id", existing, "-m", "hello"])
            .fine();
        let line = json!({"session": similar, "role": "user", "content": "x"});
        refused(&follow(&stage, &[line])[0], "no thread has the id");
        for args in [
            &["append", similar, "-m", "x"][..],
            &["delete", similar, "--apply"],
            &["title", similar, "x"],
        ] {
            let run = stage.refused(args, "");
            assert!(run.err.contains(existing), "{args:?}: {run}");
        }
        // The exact id of another thread, and a prefix of the own one, are accepted.
        stage
            .annals(&["new", "--id", similar, "-m", "hello"])
            .fine();
        for thread in [existing, similar] {
            stage.annals(&["append", thread, "-m", thread]).fine();
            let shown = stage.annals(&["show", thread]).fine();
            assert!(shown.out.contains(thread), "{shown}");
        }
        stage.annals(&["delete", existing, "--apply"]).fine();
        stage.annals(&["show", similar]).fine();
    }
    let stage = staged("clog");
    stage
        .annals(&["new", "--id", "Thread_ABC", "-m", "hello"])
        .fine();
    stage
        .annals(&["append", "Thread_A", "-m", "by a prefix"])
        .fine();
}
