//! The tools, without the protocol.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use annals::model::{Block, Draft};
use annals::store::{Root, Store};
use annals_mcp::Options;
use serde_json::{Value, json};

use crate::corpus::{Corpus, NOW, SECRET, SESSIONS, call, id, session};

/// Questions for every tool, with every list long enough to be cut.
fn questions() -> Vec<(&'static str, Value)> {
    let end = id(44);
    vec![
        ("search", json!({ "query": "zebra", "include_live": true })),
        (
            "search",
            json!({ "query": "zebra", "limit": 30, "context": 3 }),
        ),
        ("search", json!({ "query": "role:user" })),
        ("sessions", json!({})),
        ("sessions", json!({ "limit": 100 })),
        ("sessions", json!({ "file": "zoo.rs" })),
        ("outline", json!({ "session": id(1) })),
        ("outline", json!({ "session": end })),
        ("read", json!({ "id": end })),
        (
            "read",
            json!({ "id": end, "parts": ["text", "call", "result", "thinking", "prompt"] }),
        ),
        ("read", json!({ "id": id(41), "before": 50, "after": 50 })),
        ("files", json!({ "path": "src/zoo.rs" })),
        ("files", json!({ "session": end, "diff": false })),
        ("cost", json!({ "by": "session", "top": 50 })),
        ("cost", json!({})),
    ]
}

/// An answer without a file that cannot be read says so, each time, and does so no more afterwards.
#[test]
fn answers_name_what_could_not_be_read() {
    let corpus = Corpus::new();
    let server = corpus.server(Corpus::options());
    let log = corpus.log(20);
    let aside = log.with_extension("aside");
    fs::rename(&log, &aside).unwrap();
    // A link in a root is not followed.
    std::os::unix::fs::symlink(&aside, &log).unwrap();
    let name = log.file_name().unwrap().to_str().unwrap();
    for _ in 0..2 {
        for (tool, question) in questions() {
            let answer = call(&server, tool, question).unwrap();
            let problems = answer.structured["problems"].to_string();
            assert!(problems.contains(name), "{tool}: {problems}");
            assert!(answer.text.contains(name), "{tool}: {}", answer.text);
        }
    }
    let missing = call(&server, "read", json!({ "id": id(20) })).unwrap_err();
    assert!(
        missing.contains("not read") && missing.contains(name),
        "{missing}"
    );
    fs::remove_file(&log).unwrap();
    fs::rename(&aside, &log).unwrap();
    for (tool, question) in questions() {
        let answer = call(&server, tool, question).unwrap();
        assert!(answer.structured["problems"].is_null(), "{tool}");
    }
}

/// No answer is larger than its budget, whatever it shows, and each page is a valid answer.
#[test]
fn no_answer_exceeds_its_budget() {
    let corpus = Corpus::new();
    let server = corpus.server(Corpus::options());
    let mut answers = 0;
    for (tool, question) in questions() {
        for budget in [200, 257, 500, 2_000, 10_000] {
            let mut arguments = question.clone();
            let limit = match tool {
                "cost" => 2_000,
                _ => {
                    arguments["budget"] = budget.into();
                    budget
                }
            };
            for _ in 0..4 {
                let answer = call(&server, tool, arguments.clone());
                let answer = answer.unwrap_or_else(|error| panic!("{tool} {arguments}: {error}"));
                assert!(
                    answer.bytes() <= 4 * limit,
                    "{tool} {arguments}: {}",
                    answer.bytes()
                );
                assert!(answer.text.contains("evidence"), "{tool}");
                assert!(answer.structured["note"].is_string(), "{tool}");
                assert!(
                    !answer.text.contains(['\u{1b}', '\u{202e}', '\0']),
                    "{tool}"
                );
                answers += 1;
                let Some(next) = answer.structured.get("next") else {
                    break;
                };
                assert!(answer.text.ends_with(next.as_str().unwrap()), "{tool}");
                arguments["next"] = next.clone();
            }
        }
    }
    assert!(answers > 150, "{answers}");
}

#[test]
fn next_goes_through_all_rows_once() {
    let corpus = Corpus::new();
    let server = corpus.server(Corpus::options());
    for (budget, limit) in [(300, 100), (2_000, 7)] {
        let mut found = Vec::new();
        let mut arguments = json!({ "budget": budget, "limit": limit });
        loop {
            let answer = call(&server, "sessions", arguments.clone()).unwrap();
            let rows = answer.structured["sessions"].as_array().unwrap().clone();
            found.extend(
                rows.iter()
                    .map(|row| row["id"].as_str().unwrap().to_owned()),
            );
            match answer.structured.get("next") {
                Some(next) => arguments["next"] = next.clone(),
                None => break,
            }
        }
        let distinct: BTreeSet<&String> = found.iter().collect();
        assert_eq!((found.len(), distinct.len()), (SESSIONS + 1, SESSIONS + 1));
    }
    // From the end of a session to its beginning.
    let mut found = Vec::new();
    let mut arguments = json!({ "id": id(41), "before": 0, "after": 1 });
    loop {
        let answer = call(&server, "read", arguments.clone()).unwrap();
        let rows = answer.structured["entries"].as_array().unwrap().clone();
        let ids = rows
            .iter()
            .rev()
            .map(|row| row["id"].as_str().unwrap().to_owned());
        found.extend(ids);
        match answer.structured.get("next") {
            Some(next) => arguments["next"] = next.clone(),
            None => break,
        }
    }
    let distinct: BTreeSet<&String> = found.iter().collect();
    assert_eq!(found.len(), distinct.len());
    assert_eq!(found.len(), 4 + 2 * (41 % 7));
}

#[test]
fn a_default_answer_is_at_most_eight_kilobytes() {
    let corpus = Corpus::new();
    let server = corpus.server(Corpus::options());
    for (tool, arguments) in questions() {
        let answer = call(&server, tool, arguments.clone()).unwrap();
        assert!(
            answer.bytes() <= 8_000,
            "{tool} {arguments}: {}",
            answer.bytes()
        );
    }
}

#[test]
fn answers_of_annals_are_no_hits_and_the_live_session_only_if_asked_for() {
    let corpus = Corpus::new();
    let server = corpus.server(Corpus::options());
    let total = |arguments: Value| {
        let answer = call(&server, "search", arguments).unwrap();
        answer.structured["total"].as_u64().unwrap()
    };
    assert_eq!(total(json!({ "query": "okapi", "include_live": true })), 0);
    assert_eq!(total(json!({ "query": "pangolin" })), 0);
    assert_eq!(
        total(json!({ "query": "pangolin", "include_live": true })),
        1
    );
    // The caller's own session is left out wherever it runs.
    let own = corpus.server(Options {
        session: Some(id(5)),
        here: "/elsewhere".to_owned(),
        ..Corpus::options()
    });
    let found = call(
        &own,
        "search",
        json!({ "query": "\"zebra 5\"", "limit": 30 }),
    )
    .unwrap();
    let hits = found.structured["hits"].as_array().unwrap();
    assert!(hits.iter().all(|hit| hit["session"] != id(5).as_str()));
}

#[test]
fn secrets_are_masked_unless_disabled() {
    let corpus = Corpus::new();
    let questions = [
        (
            "search",
            json!({ "query": "giraffe", "include_live": true }),
        ),
        ("read", json!({ "id": id(1) })),
        ("outline", json!({ "session": id(1) })),
    ];
    for mask in [true, false] {
        let server = corpus.server(Options {
            mask,
            ..Corpus::options()
        });
        for (tool, arguments) in &questions {
            let answer = call(&server, tool, arguments.clone()).unwrap();
            assert!(answer.text.contains("giraffe"), "{tool}");
            let all = format!("{}{}", answer.structured, answer.text);
            assert_eq!(all.contains(SECRET), !mask, "{tool}");
        }
    }
}

#[test]
fn a_message_is_read_with_what_is_around_it() {
    let corpus = Corpus::new();
    let server = corpus.server(Corpus::options());
    let outline = call(&server, "outline", json!({ "session": id(6) })).unwrap();
    let prompts = outline.structured["prompts"].as_array().unwrap();
    assert_eq!(prompts.len(), 7);
    let middle = prompts[3]["id"].as_str().unwrap();
    let arguments = json!({ "id": middle, "before": 1, "after": 1 });
    let read = call(&server, "read", arguments).unwrap();
    let entries = read.structured["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[1]["id"], middle);
    let text = entries[1]["parts"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("turn 2"), "{text}");
    let last = prompts[4]["id"]
        .as_str()
        .unwrap()
        .split_once('@')
        .unwrap()
        .1;
    let range = json!({ "id": format!("{middle}..{last}") });
    let read = call(&server, "read", range).unwrap();
    assert_eq!(read.structured["entries"].as_array().unwrap().len(), 3);
}

#[test]
fn changes_of_a_file_have_diffs() {
    let corpus = Corpus::new();
    let server = corpus.server(Corpus::options());
    let answer = call(
        &server,
        "files",
        json!({ "path": "src/zoo.rs", "limit": 3 }),
    )
    .unwrap();
    let changes = answer.structured["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 3);
    assert_eq!(changes[0]["path"], "/home/me/project-0/src/zoo.rs");
    let diff = changes[0]["diff"].as_str().unwrap();
    assert!(diff.contains("-b") && diff.contains("+zebra 0"), "{diff}");
    assert_eq!(answer.structured["next"], "3");
}

/// A sub-agent has a log of its own, which is no session.
#[test]
fn changes_by_a_sub_agent_are_found_by_the_path_of_the_file() {
    let corpus = Corpus::new();
    let store = Store::new(vec![Root::claude_code(corpus.root.path())]);
    let writer = session(&store, 0xcccc, "/home/me/app", NOW.parse().unwrap());
    let task = Block::ToolUse {
        id: "toolu_task".into(),
        name: "Task".into(),
        input: "{}".into(),
    };
    writer.append(Draft::assistant([task]).model("m")).unwrap();
    let agent = writer.delegate("toolu_task", "coder", "Edit").unwrap();
    agent.append(Draft::user("Edit it.")).unwrap();
    let edit = Block::ToolUse {
        id: "toolu_edit".into(),
        name: "Edit".into(),
        input: r#"{"file_path":"/home/me/app/src/aviary.rs","old_string":"a","new_string":"b"}"#
            .into(),
    };
    agent.append(Draft::assistant([edit]).model("m")).unwrap();
    let server = corpus.server(Corpus::options());
    let found = call(&server, "files", json!({ "path": "aviary.rs" })).unwrap();
    let changes = found.structured["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{}", found.text);
    assert_eq!(changes[0]["session"], id(0xcccc));
    assert!(
        changes[0]["diff"].as_str().unwrap().contains("-a"),
        "{}",
        found.text
    );
    let found = call(&server, "sessions", json!({ "file": "aviary.rs" })).unwrap();
    assert_eq!(found.structured["total"], 1);
}

/// A query that the index cannot narrow would read all logs.
#[test]
fn a_search_that_takes_too_long_ends_and_says_so() {
    let corpus = Corpus::new();
    let server = corpus.server(Corpus::options());
    let server = server.with_search_time(Duration::ZERO);
    for (tool, arguments) in [
        ("search", json!({ "query": "-zebra" })),
        ("files", json!({ "path": "zoo.rs" })),
        ("sessions", json!({ "file": "zoo.rs" })),
    ] {
        let found = call(&server, tool, arguments.clone()).unwrap();
        assert!(
            found.structured["incomplete"].is_string(),
            "{tool}: {}",
            found.text
        );
        assert!(
            found.text.contains("not all logs were searched"),
            "{tool}: {}",
            found.text
        );
        let server = corpus.server(Corpus::options());
        let whole = call(&server, tool, arguments).unwrap();
        assert!(
            whole.structured.get("incomplete").is_none(),
            "{tool}: {}",
            whole.text
        );
    }
}

#[test]
fn errors_say_what_to_do() {
    let corpus = Corpus::new();
    let server = corpus.server(Corpus::options());
    for (tool, arguments, text) in [
        ("outline", json!({ "session": "0000000" }), "0000000"),
        (
            "outline",
            json!({ "session": "ffffffff" }),
            "`sessions` and `search` give ids",
        ),
        ("search", json!({ "query": "\"open" }), "quote"),
        ("search", json!({ "query": " " }), "empty"),
        (
            "search",
            json!({ "query": "x", "limit": 31 }),
            "from 1 to 30",
        ),
        (
            "search",
            json!({ "query": "x", "budget": 100 }),
            "from 200 to 10000",
        ),
        (
            "search",
            json!({ "query": "x", "other": 1 }),
            "unknown field `other`",
        ),
        (
            "search",
            json!({ "query": "x", "since": "soon" }),
            "invalid time",
        ),
        (
            "read",
            json!({ "id": id(1), "parts": ["all"] }),
            "no part `all`",
        ),
        ("files", json!({}), "`path`"),
        ("cost", json!({ "by": "hour" }), "must be one of"),
        ("note", json!({ "session": id(1), "text": "x" }), "no tool"),
    ] {
        let error = call(&server, tool, arguments.clone()).unwrap_err();
        assert!(error.contains(text), "{tool} {arguments}: {error}");
        assert!(error.len() <= 2_000);
    }
}

fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false => found.push((path.clone(), fs::read(path).unwrap())),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn reading_changes_no_byte_and_writing_only_annotates() {
    let corpus = Corpus::new();
    let before = contents(corpus.root.path());
    let server = corpus.server(Corpus::options());
    for (tool, arguments) in questions() {
        call(&server, tool, arguments).unwrap();
    }
    assert!(contents(corpus.root.path()) == before);
    let writing = corpus.server(Options {
        write: true,
        ..Corpus::options()
    });
    let session = id(7);
    for (tool, text) in [("note", "look here"), ("tag", "zoo"), ("todo", "feed it")] {
        let arguments = json!({ "session": session, "text": text });
        call(&writing, tool, arguments).unwrap();
    }
    let outline = call(&writing, "outline", json!({ "session": session })).unwrap();
    assert!(outline.text.contains("feed it"), "{}", outline.text);
    let found = call(
        &writing,
        "search",
        json!({ "query": "\"look here\" kind:note", "include_live": true }),
    );
    assert_eq!(found.unwrap().structured["total"], 1);
}

/// A log outside of the roots is neither read nor changed, and not told from a missing one.
#[test]
fn paths_outside_the_roots_name_no_session() {
    let corpus = Corpus::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let log = elsewhere.path().join(format!("{}.jsonl", id(7)));
    let own = corpus.root.path().join("projects");
    let own = fs::read_dir(own).unwrap().map(|it| it.unwrap().path());
    let own = own
        .map(|folder| folder.join(log.file_name().unwrap()))
        .find(|path| path.exists());
    let own = own.unwrap();
    let mut text = fs::read_to_string(&own).unwrap();
    text.push('\n');
    fs::write(&log, &text).unwrap();
    let server = corpus.server(Options {
        write: true,
        ..Corpus::options()
    });
    let (path, own) = (log.display().to_string(), own.display().to_string());
    let missing = elsewhere.path().join("missing.jsonl").display().to_string();
    for (tool, member) in [
        ("outline", "session"),
        ("read", "id"),
        ("files", "session"),
        ("note", "session"),
        ("tag", "session"),
        ("todo", "session"),
    ] {
        let ask = |path: &str| {
            let mut arguments = json!({ member: path });
            if matches!(tool, "note" | "tag" | "todo") {
                arguments["text"] = "x".into();
            }
            call(&server, tool, arguments)
        };
        let expected = |path: &str| {
            Some(format!(
                "no session matches `{path}`; `sessions` and `search` give ids"
            ))
        };
        assert_eq!(ask(&path).err(), expected(&path), "{tool}");
        assert_eq!(ask(&missing).err(), expected(&missing), "{tool}");
        // Control: a path in a root.
        assert!(ask(&own).is_ok(), "{tool}");
    }
    assert_eq!(fs::read_to_string(&log).unwrap(), text);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
}

/// Every call in docs/MCP.md is answered.
#[test]
fn the_examples_of_the_document_work() {
    let corpus = Corpus::new();
    let server = corpus.server(Corpus::options());
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/MCP.md");
    let document = fs::read_to_string(document).unwrap();
    let mut examples = 0;
    for block in document.split("```json\n").skip(1) {
        let block = block.split("```").next().unwrap();
        let example: Value = serde_json::from_str(block).unwrap();
        let Some(tool) = example["tool"].as_str() else {
            continue;
        };
        let answer = call(&server, tool, example["arguments"].clone());
        assert!(answer.is_ok(), "{block}: {answer:?}");
        examples += 1;
    }
    assert!(examples >= 6, "{examples}");
}
