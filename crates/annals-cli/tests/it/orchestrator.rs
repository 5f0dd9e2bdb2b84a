//! The verbs on an orchestrator root, where ids are counters and sessions share log files.

use std::fs;

use crate::harness::Stage;

#[test]
fn message_ids_with_a_common_prefix_are_shown_in_full() {
    let stage = Stage::with_fixture_of("orchestrator", "one-day");
    let listed = stage.annals(&["sessions", "--json"]).json();
    let session = listed["sessions"][0]["id"].as_str().unwrap().to_owned();
    let shown = stage.annals(&["show", &session]).fine();
    let ids: Vec<&str> = shown
        .out
        .split_whitespace()
        .filter(|word| word.starts_with("20260301-"))
        .collect();
    assert!(ids.len() > 1, "{shown}");
    for id in &ids {
        stage.annals(&["show", &format!("{session}@{id}")]).fine();
    }
    // The ids that `conversations` and `tree` print name a message too.
    for verb in ["conversations", "tree"] {
        let run = stage.annals(&[verb, &session]).fine();
        assert!(run.out.contains("20260301-"), "{run}");
    }
    let refused = stage.refused(&["show", &format!("{session}@20260301")], "");
    assert!(refused.err.contains(ids[0]), "{refused}");
}

#[test]
fn sessions_sharing_a_file_are_deleted_together() {
    let stage = Stage::with_fixture_of("orchestrator", "two-sessions-one-log");
    let listed = stage.annals(&["sessions", "--json"]).json();
    let ids: Vec<&str> = listed["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["id"].as_str().unwrap())
        .collect();
    assert!(ids.len() > 2, "{ids:?}");
    let before = stage.tree();
    let refused = stage.refused(&["delete", ids[0], ids[1], "--apply", "--live"], "");
    assert!(refused.err.contains("contains other sessions"), "{refused}");
    let all = [&["delete", "--apply", "--live"], ids.as_slice()].concat();
    let done = stage.annals(&all).fine();
    let count = format!("{} sessions, 1 file", ids.len());
    assert!(done.out.contains(&count), "{done}");
    let left = stage.annals(&["sessions", "--json"]);
    assert!(!left.out.contains(ids[0]), "{left}");
    stage.annals(&["delete", "--undo", ids[1]]).fine();
    assert!(stage.tree() == before);
}

/// A session whose system message is only in the companion file; its log and its companion.
fn with_companion() -> (Stage, std::path::PathBuf, std::path::PathBuf) {
    let stage = Stage::empty().with_layout("orchestrator");
    let folder = stage.root.join("projects/v_FXjHoCS5zUJmfyn-5v");
    fs::create_dir_all(&folder).unwrap();
    let log = folder.join("2025-11-16.jsonl");
    fs::write(
        &log,
        "{\"type\":\"user\",\"content\":\"Hello\",\"timestamp\":\"2025-11-16T10:00:00Z\"}\n",
    )
    .unwrap();
    let id = "2025-11-16-v_FXjHoCS5zUJmfyn-5v";
    let instruct = ["append", id, "--role", "system", "-m", "Mind the zebra."];
    stage.annals(&instruct).fine();
    stage.settle();
    let companion = log.with_extension("annals");
    assert!(fs::read_to_string(&companion).unwrap().contains("zebra"));
    (stage, log, companion)
}

#[test]
fn search_notices_a_removed_or_changed_companion() {
    let (stage, _, companion) = with_companion();
    let found = |word: &str| {
        let found = stage.annals(&["search", word, "--json"]);
        let found: serde_json::Value = serde_json::from_str(&found.out).unwrap();
        found["total"].as_u64().unwrap()
    };
    assert_eq!((found("zebra"), found("zebra"), found("quagga")), (1, 1, 0));
    let text = fs::read_to_string(&companion).unwrap();
    fs::remove_file(&companion).unwrap();
    assert_eq!((found("zebra"), found("Hello")), (0, 1));
    fs::write(&companion, &text).unwrap();
    assert_eq!((found("zebra"), found("quagga")), (1, 0));
    fs::write(&companion, text.replace("zebra", "quagga")).unwrap();
    assert_eq!((found("zebra"), found("quagga")), (0, 1));
}

#[test]
fn a_check_reports_companions_that_match_no_log() {
    let (stage, log, companion) = with_companion();
    let check = |args: &[&str]| {
        let run = stage.annals(&[&["check", "--json"], args].concat());
        let checked: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        let files = checked["files"].as_array().unwrap().iter();
        let flaws = files.flat_map(|file| {
            let flaws = file["flaws"].as_array().unwrap().iter();
            flaws.map(|flaw| {
                let path = file["path"].as_str().unwrap();
                let name = std::path::Path::new(path).file_name().unwrap();
                format!("{} {}", name.display(), flaw["kind"].as_str().unwrap())
            })
        });
        let flaws = flaws.filter(|flaw| flaw.contains(".annals"));
        flaws.collect::<Vec<_>>()
    };
    assert_eq!(check(&[]), [""; 0]);
    let (said, noted) = (fs::read(&log).unwrap(), fs::read(&companion).unwrap());
    // The log now has other lines.
    fs::write(
        &log,
        String::from_utf8_lossy(&said).replace("Hello", "Other"),
    )
    .unwrap();
    stage.settle_times();
    let reported = ["2025-11-16.annals unmatched-entry"];
    let moved = fs::read_to_string(&log).unwrap().replace(" \n", "");
    fs::write(&log, moved).unwrap();
    assert_eq!(check(&[]), reported);
    assert_eq!(check(&["2025-11-16-v_FXjHoCS5zUJmfyn-5v"]), reported);
    fs::write(&log, &said).unwrap();
    fs::write(&companion, [&noted[..], b"damaged\n"].concat()).unwrap();
    assert_eq!(check(&[]), ["2025-11-16.annals bad-json"]);
    fs::write(&companion, &noted).unwrap();
    assert_eq!(check(&[]), [""; 0]);
    fs::remove_file(&log).unwrap();
    assert_eq!(check(&[]), ["2025-11-16.annals stray"]);
    let listed = stage.annals(&["repair"]);
    assert!(listed.out.contains("companion"), "{listed}");
}

/// Does what the document's `repair_session_file` does to a log: removes all blank lines.
fn repair_like_the_document(log: &std::path::Path) {
    let text = fs::read_to_string(log).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let repaired: String = lines.map(|line| format!("{line}\n")).collect();
    let copy = log.with_extension("jsonl.repaired");
    fs::write(&copy, repaired).unwrap();
    fs::rename(&copy, log).unwrap();
}

/// The texts of the session, in order.
fn shown_texts(stage: &Stage) -> Vec<String> {
    let shown = stage.annals(&["show", "2025-11-16-v_FXjHoCS5zUJmfyn-5v", "--json"]);
    let shown = shown.json();
    let entries = shown["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["blocks"][0]["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn system_messages_stay_in_place_after_blank_lines_are_removed() {
    let (stage, log, companion) = with_companion();
    let id = "2025-11-16-v_FXjHoCS5zUJmfyn-5v";
    let mut texts = vec!["Hello", "Mind the zebra."];
    // The last line of the log was the blank line of the system message.
    repair_like_the_document(&log);
    assert_eq!(shown_texts(&stage), texts);
    stage.annals(&["append", id, "-m", "Next"]).fine();
    let instruct = ["append", id, "--role", "system", "-m", "Mind the gnu."];
    stage.annals(&instruct).fine();
    stage.annals(&["append", id, "-m", "Last"]).fine();
    texts.extend(["Next", "Mind the gnu.", "Last"]);
    assert_eq!(shown_texts(&stage), texts);
    repair_like_the_document(&log);
    assert_eq!(shown_texts(&stage), texts);
    let found = stage.annals(&["search", "gnu", "--count"]);
    assert_eq!(found.out.trim(), "1 hit in 1 session", "{found}");
    stage.settle();
    let checked = stage.annals(&["check"]).fine();
    assert!(!checked.out.contains("unmatched"), "{checked}");
    let checked = stage.annals(&["check", "--all", "--json"]).json();
    let report = checked["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["path"].as_str().unwrap().ends_with(".annals"));
    let flaws = &report.unwrap()["flaws"];
    assert_eq!(flaws[0]["kind"], "moved-entry", "{checked}");
    // The companion file still has both entries.
    let noted = fs::read_to_string(&companion).unwrap();
    assert!(noted.contains("zebra") && noted.contains("gnu"), "{noted}");
}

/// The document's clean-up removes each file that ends in `.jsonl` and is older than 30 days.
#[test]
fn annals_writes_no_extra_jsonl_file() {
    let (stage, log, _) = with_companion();
    let id = "2025-11-16-v_FXjHoCS5zUJmfyn-5v";
    stage
        .annals(&["notes", "add", id, "Ask about the zebra."])
        .fine();
    stage.annals(&["title", id, "Zebras"]).fine();
    let logs: Vec<_> = stage.tree().into_keys().collect();
    let logs = logs
        .iter()
        .filter(|path| path.to_string_lossy().ends_with(".jsonl"));
    assert_eq!(logs.collect::<Vec<_>>(), [&log]);
    let notes = stage.annals(&["notes", id]);
    assert!(notes.out.contains("Ask about the zebra."), "{notes}");
}

#[test]
fn repair_removes_damaged_companion_lines() {
    let (stage, _, companion) = with_companion();
    let noted = fs::read(&companion).unwrap();
    fs::write(&companion, [&b"damaged\n"[..], &noted].concat()).unwrap();
    stage.settle();
    let checked = stage.annals(&["check"]);
    assert!(checked.out.contains("annals repair"), "{checked}");
    stage.annals(&["repair", "--apply"]).fine();
    assert_eq!(fs::read(&companion).unwrap(), noted);
    assert_eq!(shown_texts(&stage), ["Hello", "Mind the zebra."]);
    let listed = stage.annals(&["repair", "--list"]).fine();
    assert!(listed.out.contains(".annals"), "{listed}");
    stage.annals(&["check"]).fine();
}

/// Ids and sizes of the listed sessions.
fn listed(stage: &Stage) -> Vec<(String, u64)> {
    let rows = stage.annals(&["sessions", "--json"]).json();
    let rows = rows["sessions"].as_array().unwrap().iter();
    let mut rows: Vec<(String, u64)> = rows
        .map(|row| {
            let id = row["id"].as_str().unwrap().to_owned();
            (id, row["bytes"].as_u64().unwrap())
        })
        .collect();
    rows.sort();
    rows
}

/// The only log of the root.
fn log_of_today(stage: &Stage) -> std::path::PathBuf {
    let is_log = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "jsonl");
    stage.tree().into_keys().find(is_log).unwrap()
}

#[test]
fn new_session_starts_in_the_empty_log_of_today() {
    let stage = Stage::empty().with_layout("orchestrator");
    let work = stage.work();
    let cwd = work.to_str().unwrap();
    // The document's program creates the log before the first message.
    let made = stage.annals(&["new", "--cwd", cwd, "--json"]).json();
    let log = log_of_today(&stage);
    fs::remove_file(log.with_extension("annals")).unwrap();
    assert_eq!(fs::read(&log).unwrap(), b"");
    let begun = stage.annals(&["new", "--cwd", cwd, "-m", "Hello", "--json"]);
    assert_eq!(begun.json()["session"], made["session"]);
    let text = fs::read_to_string(&log).unwrap();
    assert!(!text.contains("sessionId"), "{text}");
    let own = made["session"].as_str().unwrap();
    let ids: Vec<String> = listed(&stage).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [own]);
    // A later session of the same day has its own id.
    let other = stage.annals(&["new", "--cwd", cwd, "-m", "Other", "--json"]);
    assert_ne!(other.json()["session"], made["session"]);
    assert_eq!(listed(&stage).len(), 2);
}

#[test]
fn empty_session_stays_listed_next_to_another_in_its_log() {
    let stage = Stage::empty().with_layout("orchestrator");
    let work = stage.work();
    let cwd = work.to_str().unwrap();
    let own = stage.annals(&["new", "--cwd", cwd, "--json"]).json();
    let own = own["session"].as_str().unwrap();
    stage.annals(&["new", "--cwd", cwd, "-m", "Hello"]).fine();
    let text = fs::read_to_string(log_of_today(&stage)).unwrap();
    let said: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let other = said["metadata"]["sessionId"].as_str().unwrap();
    assert_ne!(own, other);
    for _ in 0..20 {
        let instruct = ["append", other, "--role", "system", "-m", "Mind the zebra."];
        stage.annals(&instruct).fine();
    }
    let rows = listed(&stage);
    let (own_rows, others): (Vec<_>, Vec<_>) = rows.iter().partition(|(id, _)| id == own);
    // The empty session has no bytes in the log or in the companion file.
    assert!(matches!(own_rows.as_slice(), [(_, 0)]), "{rows:?}");
    assert!(matches!(others.as_slice(), [(_, 1001..)]), "{rows:?}");
    stage.annals(&["append", own, "-m", "First"]).fine();
    let shown = stage.annals(&["show", own, "--json"]).json();
    assert_eq!(shown["entries"][0]["blocks"][0]["text"], "First");
    assert_eq!(listed(&stage).len(), 2);
}

/// The index stores each session's share of a log, and only appended bytes are read later.
#[test]
fn inventory_does_not_reread_a_shared_log() {
    use annals::store::{Root, Store};
    let stage = Stage::empty().with_layout("orchestrator");
    let folder = stage.root.join("projects/v_FXjHoCS5zUJmfyn-5v");
    fs::create_dir_all(&folder).unwrap();
    let log = folder.join("2025-11-16.jsonl");
    let line = |number: usize, session: &str| {
        let content = "lorem ipsum ".repeat(20);
        format!(
            "{{\"type\":\"user\",\"content\":\"{number} {content}\",\"timestamp\":\"2025-11-16T10:00:00Z\",\"metadata\":{{\"sessionId\":\"{session}\"}}}}\n"
        )
    };
    let mut text = String::new();
    for number in 0..30_000 {
        text += &line(number, ["one", "other"][number / 100 % 2]);
    }
    fs::write(&log, &text).unwrap();
    let root = Root::new("orchestrator", &stage.root).unwrap();
    let store = Store::new(vec![root]);
    let state = stage.root.with_file_name("own-state");
    fs::create_dir_all(&state).unwrap();
    let read = || -> u64 {
        let io = fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
        let rchar = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        rchar.and_then(|count| count.parse().ok()).unwrap_or(0)
    };
    let seen = |inventory: &annals::store::Inventory| {
        let sessions = inventory.sessions.iter();
        let shares = sessions.map(|files| {
            let log = files.log.as_ref().unwrap();
            format!("{} {:?}", files.id, log.slice)
        });
        shares.collect::<Vec<_>>()
    };
    // Files changed a moment ago are not indexed.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let index = Store::new(store.roots().to_vec())
        .with_state(&state)
        .with_index();
    // Lists create the index.
    assert_eq!(index.list(None).len(), 2);
    let first = index.inventory();
    assert_eq!(first.sessions.len(), 2);
    for more in [line(1, "new"), line(2, "one")] {
        text += &more;
        fs::write(&log, &text).unwrap();
        let before = read();
        let found = index.inventory();
        assert!(read() - before < 2 << 20, "{} bytes", read() - before);
        assert_eq!(seen(&found), seen(&store.inventory()));
    }
    // The log is replaced by one of the same length.
    let swapped = text.replace("\"other\"", "\"third\"");
    fs::write(&log, &swapped).unwrap();
    assert_eq!(seen(&index.inventory()), seen(&store.inventory()));
}

#[test]
fn a_directory_has_one_log_in_any_spelling() {
    let stage = Stage::empty().with_layout("orchestrator");
    let work = stage.work();
    fs::create_dir(work.join("app")).unwrap();
    let work = work.to_str().unwrap();
    for spelling in ["app", "app/", "/app", "./app", "app/../app"] {
        let named = format!("{work}/{spelling}/2026-11-15");
        stage.annals(&["append", &named, "-m", spelling]).fine();
    }
    // A relative path is relative to the current directory, as in the document.
    for named in ["app/2026-11-15", "./app/2026-11-15"] {
        stage.annals(&["append", named, "-m", named]).fine();
    }
    assert_eq!(listed(&stage).len(), 1);
    for named in [&*format!("{work}/app/2026-11-15"), "app/../app/2026-11-15"] {
        let shown = stage.annals(&["show", named, "--json"]);
        assert_eq!(shown.json()["entries"].as_array().unwrap().len(), 7);
    }
    for (name, why) in [
        ("app/2026-11-14", "`append` creates only today's log"),
        ("app/2025-02-30", "invalid date 2025-02-30"),
        ("/x/2025-02-30", "invalid date 2025-02-30"),
    ] {
        let refused = stage.refused(&["append", name, "-m", "x"], "");
        assert!(refused.err.contains(why), "{refused}");
    }
    stage.annals(&["append", "./2026-11-15", "-m", "x"]).fine();
    assert_eq!(listed(&stage).len(), 2);
}

/// The document hashes the path as typed, so a symbolic link has its own folder.
#[test]
fn a_project_behind_a_link_is_written_as_typed_and_found_by_both_names() {
    let stage = Stage::empty().with_layout("orchestrator");
    let work = stage.work();
    let (real, link) = (work.join("real"), work.join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let (real, link) = (real.to_str().unwrap(), link.to_str().unwrap());
    let new = stage.annals(&["new", "--cwd", link, "-m", "First", "--json"]);
    let id = new.json()["session"].as_str().unwrap().to_owned();
    let named = format!("{link}/2026-11-15");
    stage.annals(&["append", &named, "-m", "Second"]).fine();
    assert_eq!(listed(&stage).len(), 1);
    for name in [link, real] {
        let found = stage.annals(&["sessions", "-p", name, "--json"]).json();
        assert_eq!(found["sessions"][0]["id"], id.as_str(), "{name}");
    }
    let root = format!("orchestrator:{}", stage.root.display());
    for args in [
        &["sessions", "-p", ".", "--json"][..],
        &["show", "latest", "--json"],
    ] {
        let mut command = stage.command();
        let run = command.current_dir(real).args(["--root", &root]).args(args);
        let run = stage.run_of(&run.output().unwrap());
        assert!(run.out.contains(&id), "{args:?}: {run}");
    }
}

#[test]
fn calls_and_results_without_ids_belong_together_by_tool_and_order() {
    let stage = Stage::empty().with_layout("orchestrator");
    let folder = stage.root.join("projects/v_FXjHoCS5zUJmfyn-5v");
    fs::create_dir_all(&folder).unwrap();
    let line = |kind: &str, more: &str, second: usize| {
        format!(
            "{{\"type\":\"{kind}\",{more},\"timestamp\":\"2025-11-16T10:00:0{second}.000Z\"}}\n"
        )
    };
    let call = |path: &str| format!(r#""tool":"Read","arguments":{{"file_path":"{path}"}}"#);
    let log = [
        line("user", r#""content":"go""#, 0),
        line("tool_call", &call("/1"), 1),
        line("tool_call", &call("/2"), 2),
        line("tool_result", r#""tool":"Read","result":"ONE""#, 3),
        line("tool_result", r#""tool":"Read","result":"TWO""#, 4),
        line("tool_call", &call("/3"), 5),
        line("tool_result", r#""tool":"Read","error":"no such file""#, 6),
    ];
    fs::write(folder.join("2025-11-16.jsonl"), log.concat()).unwrap();
    let pairs = |stage: &Stage, id: &str| -> Vec<(usize, usize)> {
        let shown = stage.annals(&["show", id, "--json", "--all"]).json();
        let blocks: Vec<serde_json::Value> = shown["entries"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|entry| entry["blocks"].as_array().unwrap().clone())
            .collect();
        let calls: Vec<&serde_json::Value> = blocks
            .iter()
            .filter(|it| it["kind"] == "tool_use")
            .collect();
        let results = blocks.iter().filter(|it| it["kind"] == "tool_result");
        results
            .enumerate()
            .map(|(at, result)| {
                let answered = (0..calls.len()).filter(|at| calls[*at]["id"] == result["call"]);
                let answered: Vec<usize> = answered.collect();
                assert_eq!(answered.len(), 1, "{shown}");
                (at, answered[0])
            })
            .collect()
    };
    let id = listed(&stage).remove(0).0;
    assert_eq!(pairs(&stage, &id), [(0, 0), (1, 1), (2, 2)]);
    let converted = Stage::empty();
    let into = converted.root.to_str().unwrap();
    let convert = ["convert", &id, "--to", "claude-code", "--into", into];
    stage.annals(&convert).fine();
    let id = listed(&converted).remove(0).0;
    assert_eq!(pairs(&converted, &id), [(0, 0), (1, 1), (2, 2)]);
}

#[test]
fn a_result_names_the_tool_of_its_call_or_is_refused() {
    let result = |call: &str, more: &str| {
        format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{call}","content":"x"{more}}}]}}"#
        )
    };
    for layout in ["orchestrator", "chorus"] {
        let stage = Stage::empty().with_layout(layout);
        let work = stage.work();
        let cwd = work.to_str().unwrap();
        let id = "00000000-0000-4000-8000-0000000000ab";
        let new = ["new", "--id", id, "--cwd", cwd, "-m", "go", "--json"];
        let id = stage.annals(&new).json()["session"]
            .as_str()
            .unwrap()
            .to_owned();
        let call = r#"{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"Read","input":{}}]}"#;
        stage.with_stdin(&["append", &id], call).fine();
        for line in [
            result("c1", ""),
            result("c1", ""),
            result("zz", r#","name":"Read""#),
        ] {
            stage.with_stdin(&["append", &id], line).fine();
        }
        let member = match layout {
            "chorus" => "toolName",
            _ => "tool",
        };
        let text = fs::read_to_string(log_of_today(&stage)).unwrap();
        let records = text.lines().filter(|line| !line.trim().is_empty());
        let records: Vec<serde_json::Value> = records
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let results = records.iter().filter(|it| it["type"] == "tool_result");
        let tools: Vec<&serde_json::Value> = results.map(|it| &it[member]).collect();
        assert_eq!(tools, ["Read", "Read", "Read"], "{layout}");
        let refused = stage.refused(&["append", &id], &result("nowhere", ""));
        assert!(
            refused.err.contains("`nowhere`") && refused.err.contains("\"name\""),
            "{refused}"
        );
    }
}

#[test]
fn append_to_a_log_in_two_roots_is_ambiguous() {
    let stage = Stage::empty().with_layout("orchestrator");
    let named = stage.work().join("2026-11-15");
    let named = named.to_str().unwrap();
    let begun = stage.annals(&["append", named, "-m", "one", "--json"]);
    let id = begun.json()["session"].as_str().unwrap().to_owned();
    let other = Stage::empty().with_layout("orchestrator");
    let folder = log_of_today(&stage).parent().unwrap().to_owned();
    let folder = other.root.join(folder.strip_prefix(&stage.root).unwrap());
    fs::create_dir_all(&folder).unwrap();
    fs::copy(log_of_today(&stage), folder.join("2026-11-15.jsonl")).unwrap();
    let line = r#"{"role":"user","content":"two"}"#;
    let follow = format!(r#"{{"session":"{id}","role":"user","content":"two"}}"#);
    let roots = [&stage, &other].map(|it| format!("orchestrator:{}", it.root.display()));
    for (args, input) in [
        (&["show", named][..], ""),
        (&["append", named, "-m", "two"], ""),
        (&["append", &id, "-m", "two"], ""),
        (&["append", named], line),
        (&["append", "--follow"], &follow),
    ] {
        let before = (stage.tree(), other.tree());
        let output = stage
            .command()
            .args(["--root", &roots[0], "--root", &roots[1]])
            .args(args)
            .write_stdin(input)
            .output();
        let run = stage.run_of(&output.unwrap());
        assert_eq!(run.code, 2, "{args:?}: {run}");
        let said = format!("{}{}", run.out, run.err);
        assert!(said.contains("matches 2 sessions"), "{args:?}: {run}");
        assert!((stage.tree(), other.tree()) == before, "{args:?}: {run}");
    }
}

#[test]
fn append_near_the_end_of_a_large_log_does_not_read_all_of_it() {
    const MANY: usize = 10_000;
    let stage = Stage::empty().with_layout("orchestrator");
    let named = stage.work().join("2026-11-15");
    let named = named.to_str().unwrap();
    let message =
        |at| format!("{{\"role\":\"user\",\"content\":\"question {at}\",\"id\":\"m-{at}x\"}}\n");
    let lines: String = (0..MANY).map(message).collect();
    stage.with_stdin(&["append", named], lines).fine();
    let (shown, whole) = stage.measured(&["show", named, "--json"], "");
    shown.fine();
    let Some(whole) = whole else {
        eprintln!("skipped: this system does not count what a process reads");
        return;
    };
    let parent = |at| format!(r#"{{"role":"user","content":"a","parent":"m-{at}x"}}"#);
    let (recent, last) = (format!("m-{}x", MANY - 40), format!("m-{}x", MANY - 1));
    // To see that a sub-agent is new, the bytes of the log are searched for its name.
    for (args, stdin, limit) in [
        (&["append", named, "--at", &last, "-m", "a"][..], "", 1),
        (&["append", named, "--at", &recent, "-m", "a"], "", 1),
        (&["append", named], &*parent(MANY - 30), 1),
        (&["show", named, "--last", "20"], "", 1),
        (&["append", named, "--agent", "a753668", "-m", "a"], "", 4),
        (&["append", named, "--agent", "a753668", "-m", "b"], "", 4),
    ] {
        let (run, cost) = stage.measured(args, stdin);
        let cost = cost.unwrap();
        let said = format!("{args:?}: {cost:?}, all: {whole:?}, {run}");
        assert_eq!(run.code, 0, "{said}");
        assert!(cost.cpu_ticks * 3 < whole.cpu_ticks, "{said}");
        assert!(cost.bytes_read < whole.bytes_read * limit, "{said}");
    }
    // A repeated id is refused without a read of the log, too.
    let again = format!(r#"{{"role":"user","content":"a","id":"{last}"}}"#);
    let (run, cost) = stage.measured(&["append", named], &again);
    assert!(run.code == 2 && run.err.contains("exists already"), "{run}");
    assert!(cost.unwrap().bytes_read < whole.bytes_read, "{cost:?}");
    // A prefix may fit an earlier message, so it is searched for in the whole log.
    let run = stage.refused(&["append", named, "--at", "m-999", "-m", "a"], "");
    assert!(
        run.err.contains("m-999x") && run.err.contains("m-9999x"),
        "{run}"
    );
}

#[test]
fn append_to_a_sub_agent_that_only_a_message_names_creates_it() {
    let stage = Stage::empty().with_layout("orchestrator");
    let named = stage.work().join("2026-11-15");
    let named = named.to_str().unwrap();
    let begun = stage.annals(&["append", named, "-m", "one", "--json"]);
    let id = begun.json()["session"].as_str().unwrap().to_owned();
    let text = format!("{id}--agent-a1");
    stage.annals(&["append", named, "-m", &text]).fine();
    let append = ["append", named, "--agent", "a1", "-m", "look", "--json"];
    assert_eq!(stage.annals(&append).json()["began"], true);
    assert_eq!(
        stage.annals(&append).json()["began"],
        serde_json::Value::Null
    );
    let shown = stage
        .annals(&["show", named, "--agent", "a1", "--json"])
        .json();
    assert_eq!(shown["entries"].as_array().unwrap().len(), 2, "{shown}");
}

#[test]
fn append_reports_a_created_log_and_warns_of_a_missing_directory() {
    let stage = Stage::empty().with_layout("orchestrator");
    let existing = stage.work().join("2026-11-15");
    let missing = stage.work().join("tpyo/2026-11-15");
    for (named, warned) in [(existing, false), (missing, true)] {
        let append = ["append", named.to_str().unwrap(), "-m", "one"];
        let first = stage.annals(&append).fine();
        assert!(
            first.out.starts_with("created session 2026-11-15-"),
            "{first}"
        );
        let warning = "tpyo is not an existing directory";
        assert_eq!(first.err.contains(warning), warned, "{first}");
        let second = stage.annals(&append).fine();
        assert!(
            !second.out.contains("created") && second.err.is_empty(),
            "{second}"
        );
    }
    let other = stage.work().join("other/2026-11-15");
    let line = serde_json::json!({"session": other, "role": "user", "content": "one"});
    let input = format!("{line}\n{line}\n");
    let answers = stage.with_stdin(&["append", "--follow"], input).fine();
    let answers: Vec<serde_json::Value> = answers
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers[0]["began"], true, "{answers:?}");
    let warning = answers[0]["warning"].as_str().unwrap();
    assert!(warning.contains("not an existing directory"), "{warning}");
    assert_eq!(answers[1]["began"], serde_json::Value::Null);
    assert_eq!(answers[1]["warning"], serde_json::Value::Null);
}

#[test]
fn refused_member_in_a_batch_names_its_line() {
    let stage = Stage::empty().with_layout("orchestrator");
    let named = stage.work().join("2026-11-15");
    let named = named.to_str().unwrap();
    stage.annals(&["append", named, "-m", "one"]).fine();
    let good = r#"{"role":"user","content":"x","metadata":{"source":"cli"}}"#;
    let refused = |bad: &str, before: usize| {
        let batch = format!("{}\n{bad}\n{good}\n", format!("{good}\n").repeat(before));
        stage.refused(&["append", named], &batch).err
    };
    for (bad, why) in [
        (
            r#"{"role":"user","content":"x","metadata":{"source":"web"}}"#,
            "`metadata.source`",
        ),
        (
            r#"{"role":"user","content":"x","metadata":[]}"#,
            "`metadata`",
        ),
        (
            r#"{"role":"assistant","content":"x","usage":{"input_tokens":1}}"#,
            "needs a `model`",
        ),
    ] {
        // A blank line is counted.
        for (before, line) in [(1, "line 3: "), (0, "line 2: "), (6, "line 8: ")] {
            let error = refused(bad, before);
            let parts = [why, line, "; nothing was written"];
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}

#[test]
fn check_reports_what_is_in_the_place_of_a_lock_file() {
    let stage = Stage::empty().with_layout("orchestrator");
    let named = stage.work().join("2026-11-15");
    let named = named.to_str().unwrap();
    stage.annals(&["append", named, "-m", "one"]).fine();
    let lock = log_of_today(&stage).with_extension("jsonl.lock");
    stage.settle();
    let clean = stage.annals(&["check", "--json"]).fine();
    assert!(!clean.out.contains("blocked-lock"), "{clean}");
    fs::remove_file(&lock).unwrap();
    for found in ["a directory", "a symbolic link"] {
        match found {
            "a directory" => fs::create_dir(&lock).unwrap(),
            _ => std::os::unix::fs::symlink("elsewhere", &lock).unwrap(),
        }
        stage.refused(&["append", named, "-m", "two"], "");
        for args in [&["check"][..], &["check", named]] {
            let checked = stage.annals(args);
            assert_eq!(checked.code, 1, "{checked}");
            for text in ["2026-11-15.jsonl.lock", found, "remove it or move it away"] {
                assert!(checked.out.contains(text), "{text}: {checked}");
            }
        }
        let kind = stage.annals(&["check", "--json"]).out;
        assert!(kind.contains(r#""blocked-lock""#), "{kind}");
        let removed = fs::remove_dir(&lock).or_else(|_| fs::remove_file(&lock));
        removed.unwrap();
    }
    stage.annals(&["append", named, "-m", "two"]).fine();
}
