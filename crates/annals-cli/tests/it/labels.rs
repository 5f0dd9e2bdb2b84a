//! Titles of sessions and types of agents: whole in JSON, cut in tables, the same with and without
//! the index.

use std::fs;

use serde_json::{Value, json};

use crate::harness::Stage;

const ID: &str = "0000000a-0000-4000-8000-00000000000a";

/// A session of one prompt and one reply.
fn asked(prompt: &str) -> Stage {
    let stage = Stage::empty();
    let folder = stage.root.join("projects/-w-app");
    fs::create_dir_all(&folder).unwrap();
    let common = |uuid: &str, parent: Value| {
        json!({
            "uuid": uuid, "parentUuid": parent, "sessionId": ID, "cwd": "/w/app",
            "timestamp": "2026-11-15T10:00:00.000Z", "isSidechain": false,
        })
    };
    let mut user = common("00000001-0000-4000-8000-00000000000a", Value::Null);
    user["type"] = "user".into();
    user["message"] = json!({"role": "user", "content": prompt});
    let mut reply = common("00000002-0000-4000-8000-00000000000a", user["uuid"].clone());
    reply["type"] = "assistant".into();
    reply["requestId"] = "req_1".into();
    reply["message"] = json!({
        "id": "msg_1", "role": "assistant", "model": "claude-opus-4-1",
        "content": [{"type": "text", "text": "Done."}],
        "usage": {"input_tokens": 10, "output_tokens": 20},
    });
    fs::write(
        folder.join(format!("{ID}.jsonl")),
        format!("{user}\n{reply}\n"),
    )
    .unwrap();
    stage.settle();
    stage
}

fn title(stage: &Stage) -> String {
    let rows = stage.annals(&["sessions", "--json"]).json();
    rows["sessions"][0]["title"].as_str().unwrap().to_owned()
}

#[test]
fn titles_are_whole_in_json_and_cut_in_text() {
    let words = "Add a dark mode to the settings page. ".repeat(8);
    let stage = asked(&words);
    assert_eq!(title(&stage), words.trim_end());
    let conversations = stage.annals(&["conversations", "--json"]).json();
    assert_eq!(conversations["conversations"][0]["title"], words.trim_end());
    for (verb, room) in [
        (&["sessions"][..], 60),
        (&["conversations"], 60),
        (&["cost", "--by", "session"], 40),
        (&["show", ID], 100),
        (&["tree", ID], 100),
        (&["search", "dark"], 100),
    ] {
        let run = stage.annals(verb).fine();
        let line = run.out.lines().find(|line| line.contains("Add a dark"));
        let line = line.unwrap();
        let shown: String = words.chars().take(room - 2).collect();
        assert!(line.contains(shown.trim_end()), "{run}");
        let whole: String = words.chars().take(room + 1).collect();
        assert!(!line.contains(&whole) && line.contains('…'), "{run}");
    }
    // A very long prompt is cut, and marked.
    let stage = asked(&"word ".repeat(1000));
    let title = title(&stage);
    assert_eq!(title.chars().count(), 1000);
    assert!(title.ends_with("word…"), "{title}");
}

#[test]
fn headings_of_exports_are_cut_after_masking() {
    let key = "ghp_q7Xb2LmZ9kTf4RwY6hNc8VdJ3sGp5AeUq7Xb";
    let prompt = format!("{} the token is {key}, use it", "word ".repeat(10));
    let stage = asked(&prompt);
    let heading = stage.annals(&["export", ID, "-f", "markdown"]).fine().out;
    let heading = heading.lines().next().unwrap();
    assert!(heading.starts_with("# word word"), "{heading}");
    assert!(heading.chars().count() <= 83, "{heading}");
    assert!(!heading.contains("q7X"), "{heading}");
    let masks = heading.matches("redacted").count();
    assert_eq!(heading.matches(']').count(), masks, "{heading}");
    let json = stage.annals(&["export", ID, "-f", "json", "--redact"]);
    let json = json.fine().json();
    let title = json["sessions"][0]["title"].as_str().unwrap();
    assert!(
        title.ends_with("ghp_[redacted:github-token], use it"),
        "{title}"
    );
}

#[test]
fn warm_ups_are_no_messages_and_no_sub_agents() {
    let stage = Stage::with_fixture("2.0.77-s04-agent");
    let root = format!("claude-code:{}", stage.root.display());
    let run = stage
        .command()
        .args(["--root", &root, "sessions", "--json"])
        .output();
    let rows: Value = serde_json::from_slice(&run.unwrap().stdout).unwrap();
    let rows = rows["sessions"].as_array().unwrap();
    let row = |id: &str| {
        let named = |row: &&Value| row["id"].as_str().unwrap().starts_with(id);
        rows.iter().find(named).unwrap()
    };
    let sums = |name: &str| [row("6dbe342d")[name].clone(), row("5fa438d0")[name].clone()];
    assert_eq!(sums("messages"), [json!(23), json!(0)]);
    assert_eq!(sums("agents"), [json!(3), json!(0)]);
    let listed = stage.annals(&["sessions", "--no-empty", "--json"]).json();
    assert_eq!(listed["total"], 1, "{listed}");
    // They cost money, and can be read.
    let tree = stage.annals(&["tree", "6dbe342d", "--json"]).json();
    let agents = tree["agents"].as_array().unwrap();
    let warm_up = agents.iter().find(|agent| agent["warm_up"] == true);
    let id = warm_up.unwrap()["id"].as_str().unwrap();
    let shown = stage.annals(&["show", "6dbe342d", "--agent", id]).fine();
    assert!(shown.out.contains("Warmup"), "{shown}");
    let drawn = stage.annals(&["tree", "6dbe342d"]).fine();
    assert!(drawn.out.contains("warm-ups · "), "{drawn}");
    assert!(!drawn.out.contains(id), "{drawn}");
    let page = stage.annals(&["export", "6dbe342d", "-f", "html"]).fine();
    assert!(!page.out.contains("Warmup"), "{page}");
}

#[test]
fn cost_groups_agents_by_type() {
    let stage = Stage::with_fixture("2.0.77-s04-agent");
    let keys = |by: &str| {
        let rows = stage.annals(&["cost", "--by", by, "--json"]).json();
        let rows = rows["rows"].as_array().unwrap().clone();
        let mut keys: Vec<String> = rows
            .iter()
            .map(|row| row["key"].as_str().unwrap().to_owned())
            .collect();
        keys.sort();
        keys
    };
    assert_eq!(
        keys("agent"),
        ["Explore", "general-purpose", "main", "warm-up"]
    );
    assert_eq!(keys("agent-id").len(), 1 + 3 + 6);
    assert!(keys("agent-id").contains(&"a9cadff".to_owned()));
}

#[test]
fn cost_by_session_has_title_project_and_models() {
    let stage = asked("Fix =the= build, please");
    let rows = stage.annals(&["cost", "--by", "session", "--json"]).json();
    let row = &rows["rows"][0];
    assert_eq!(row["session"], ID);
    assert_eq!(row["title"], "Fix =the= build, please");
    assert_eq!(row["project"], "/w/app");
    assert_eq!(row["models"], json!(["claude-opus-4-1"]));
    let plain = stage.annals(&["--no-index", "cost", "--by", "session", "--json"]);
    assert_eq!(plain.json(), rows);
    let by_both = ["cost", "--by", "session,project", "--json"];
    let row = &stage.annals(&by_both).json()["rows"][0];
    assert_eq!(row["project"], "/w/app");
    let csv = stage.annals(&["cost", "--by", "session", "--csv"]).fine();
    let mut lines = csv.out.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("session,title,project,models,requests,"),
        "{csv}"
    );
    let row = format!("{ID},\"Fix =the= build, please\",/w/app,claude-opus-4-1,1,");
    assert!(lines.next().unwrap().starts_with(&row), "{csv}");
    let csv = stage.annals(&["cost", "--by", "session", "--csv", "--breakdown"]);
    let head = csv.out.lines().next().unwrap();
    assert!(
        head.starts_with("session,title,project,model,requests,"),
        "{csv}"
    );
    let table = stage.annals(&["cost", "--by", "session"]).fine();
    assert!(table.out.contains("Fix =the= build, please"), "{table}");
}

/// The title of one session is in the log of another, which has no hit.
#[test]
fn search_shows_titles_with_and_without_an_index() {
    let stage = Stage::with_fixture("title-summary-other-file");
    stage.settle();
    std::thread::sleep(std::time::Duration::from_millis(25));
    let hits = |args: &[&str]| {
        let run = stage.annals(&[args, &["search", "question", "--json"]].concat());
        let found = run.json();
        let hits = found["hits"].as_array().unwrap();
        let of = |hit: &Value| (hit["id"].to_string(), hit["title"].to_string());
        let mut hits: Vec<(String, String)> = hits.iter().map(of).collect();
        hits.sort();
        hits
    };
    let plain = hits(&["--no-index"]);
    let titles: Vec<&str> = plain.iter().map(|(_, title)| title.as_str()).collect();
    assert!(titles.contains(&"\"From another file\""), "{titles:?}");
    for _ in 0..4 {
        assert_eq!(hits(&[]), plain);
    }
    let run = stage.annals(&["search", "question"]).fine();
    let is_heading = |line: &&str| line.starts_with("dbdc94c8  From another file");
    assert!(run.out.lines().any(|line| is_heading(&line)), "{run}");
}
