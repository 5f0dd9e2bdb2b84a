//! Tests of `new`, `append`, `fork`, `title`, `tag`, `note`, `notes` and `compact`.

use insta::assert_snapshot;
use serde_json::json;

use crate::harness::Stage;

const ID: &str = "00000000-0000-4000-8000-000000000001";
const FORK: &str = "00000000-0000-4000-8000-000000000002";

/// A stage with one session that annals created.
fn begun() -> Stage {
    let stage = Stage::empty();
    stage
        .annals(&["new", "--id", ID, "--title", "A title", "-m", "question 1"])
        .fine();
    stage
}

fn texts(stage: &Stage, session: &str) -> Vec<(String, String)> {
    let lines = stage.log(session);
    let said = lines.iter().filter(|line| line["message"].is_object());
    said.map(|line| {
        (
            line["type"].as_str().unwrap().to_owned(),
            line["message"]["content"].to_string(),
        )
    })
    .collect()
}

#[test]
fn new_prints_the_id_and_the_file() {
    let stage = Stage::empty();
    assert_snapshot!(
        "new",
        stage.annals(&[
            "new",
            "--id",
            ID,
            "--title",
            "A title",
            "-m",
            "-x is a flag"
        ])
    );
    assert_snapshot!(
        "new_json",
        stage.annals(&["new", "--cwd", "/nowhere/at all", "--json"])
    );
    assert_snapshot!(
        "new_twice",
        stage.refused(&["new", "--id", ID, "--cwd", "/elsewhere"], "")
    );
    let log = stage.log(ID);
    assert_eq!(log[0]["cwd"], json!(stage.work().to_str().unwrap()));
    assert_eq!(log[1]["customTitle"], "A title");
    assert_eq!(log[2]["message"]["content"], "-x is a flag");
}

#[test]
fn new_records_the_git_branch() {
    let stage = Stage::empty();
    std::fs::create_dir_all(stage.work().join(".git")).unwrap();
    std::fs::create_dir_all(stage.work().join("deep/er")).unwrap();
    std::fs::write(
        stage.work().join(".git/HEAD"),
        "ref: refs/heads/feature/x\n",
    )
    .unwrap();
    stage
        .annals(&["new", "--id", ID, "--cwd", "deep/er", "-m", "hello"])
        .fine();
    assert_eq!(stage.log(ID)[0]["gitBranch"], "feature/x");
    assert_eq!(stage.log(ID)[1]["gitBranch"], "feature/x");
}

#[test]
fn new_creates_the_default_root() {
    let stage = Stage::empty();
    std::fs::create_dir(stage.root.with_file_name("home")).unwrap();
    let run = stage.bare(&["new", "--id", ID]).fine();
    assert!(run.out.contains("[DIR]/home/.claude/projects/"), "{run}");
    stage.bare(&["append", ID, "-m", "found again"]).fine();
}

#[test]
fn append_takes_messages_from_the_command_line() {
    let stage = begun();
    let thought = [
        "--role",
        "assistant",
        "--model",
        "m-1",
        "--thinking",
        "hm",
        "-m",
        "answer 1",
    ];
    assert_snapshot!(
        "append",
        stage.annals(&[&["append", "00000000"], &thought[..]].concat())
    );
    assert_snapshot!(
        "append_json",
        stage.annals(&["append", ID, "-m", "question 2", "--json"])
    );
    let path = stage.log_path(ID);
    stage
        .with_stdin(
            &[
                "append",
                path.to_str().unwrap(),
                "--durability",
                "os",
                "-m",
                "-",
            ],
            "from\nstdin",
        )
        .fine();
    let said = texts(&stage, ID);
    assert_eq!(
        said.last().unwrap(),
        &("user".to_owned(), r#""from\nstdin""#.to_owned())
    );
    assert_eq!(said.len(), 5);
}

#[test]
fn append_reads_several_messages_from_standard_input() {
    let stage = begun();
    let input = [
        r#"{"role":"assistant","model":"m-1","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"two at once"},{"type":"tool_use","id":"a","name":"Bash","input":{"n" : 1e5,"u":"\u00e9"}},{"type":"tool_use","id":"b","name":"Bash","input":{},"cache_control":{"type":"ephemeral"}}],"usage":{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":2}},"request_id":"req_1"}"#,
        "",
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"out a"},{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"out b"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}],"is_error":true},{"type":"text","text":"and look"},{"type":"document","source":{"type":"url","url":"https://example.org"}}],"timestamp":"2026-11-15T12:30:00Z"}"#,
        r#"{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[{"type":"text","text":"done"}],"stop_reason":"end_turn","stop_sequence":null,"container":null,"usage":{"input_tokens":1,"output_tokens":1}}"#,
    ]
    .join("\r\n");
    let run = stage.with_stdin(&["append", ID, "--json"], input).fine();
    assert_snapshot!("append_drafts", run);
    let raw = std::fs::read_to_string(stage.log_path(ID)).unwrap();
    // Arguments and unknown members keep their spelling.
    assert!(raw.contains(r#""input":{"n" : 1e5,"u":"\u00e9"}"#), "{raw}");
    assert!(
        raw.contains(r#""cache_control":{"type":"ephemeral"}"#),
        "{raw}"
    );
    assert!(
        raw.contains(r#"{"type":"document","source":{"type":"url","url":"https://example.org"}}"#),
        "{raw}"
    );
    let log = stage.log(ID);
    let lines = &log[3..];
    // One chain; each line has a later time than the one before.
    for pair in log[2..].windows(2) {
        assert_eq!(pair[1]["parentUuid"], pair[0]["uuid"]);
    }
    let reply: Vec<_> = lines[..4]
        .iter()
        .map(|line| &line["message"]["id"])
        .collect();
    assert!(reply.iter().all(|id| *id == reply[0]), "{reply:?}");
    assert_eq!(
        lines[0]["message"]["usage"]["cache_creation"],
        json!({"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2})
    );
    assert_eq!(lines[0]["message"]["stop_reason"], "tool_use");
    assert_eq!(lines[4]["timestamp"], "2026-11-15T12:30:00.000Z");
    assert_eq!(lines[5]["timestamp"], "2026-11-15T12:30:00.001Z");
    assert_eq!(lines[7]["timestamp"], "2026-11-15T12:30:00.003Z");
    assert_eq!(lines[8]["message"]["id"], "msg_1");
}

#[test]
fn append_at_an_inner_message_creates_a_branch() {
    let stage = begun();
    let first = stage
        .annals(&[
            "append",
            ID,
            "--role",
            "assistant",
            "-m",
            "answer 1",
            "--json",
        ])
        .json();
    assert!(first["entries"][0]["id"].is_string());
    let at = stage.log(ID)[3]["uuid"].as_str().unwrap().to_owned();
    stage.annals(&["append", ID, "-m", "question 2"]).fine();
    stage
        .annals(&["append", ID, "--at", &at[..8], "-m", "question 2, edited"])
        .fine();
    let conversations = stage.annals(&["conversations", ID, "--json"]).json();
    let rows = conversations["conversations"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let resumed: Vec<_> = rows.iter().filter(|row| row["resumes"] == true).collect();
    assert_eq!(resumed[0]["branch"], "question 2, edited");
    // A draft may name its parent, including one of the same call.
    let drafts = format!(
        "{}\n{}",
        json!({"role": "user", "content": "third", "parent": at, "id": "my-id"}),
        json!({"role": "assistant", "content": "under it", "parent": "my-id"})
    );
    stage.with_stdin(&["append", ID], drafts.clone()).fine();
    assert_eq!(
        stage.annals(&["conversations", ID, "--json"]).json()["conversations"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_snapshot!("append_id_taken", stage.refused(&["append", ID], &drafts));
}

#[test]
fn append_writes_to_a_sub_agent() {
    let stage = Stage::with_fixture("2.1.325-s04-agent");
    let session = "3dfa1268-9314-4bc2-bb7b-d8c0d6c96020";
    stage
        .annals(&[
            "append",
            session,
            "--agent",
            "a64af6b213f62e416",
            "-m",
            "go on",
            "--live",
        ])
        .fine();
    let line = stage.log("agent-a64af6b213f62e416").pop().unwrap();
    assert_eq!(
        (&line["isSidechain"], &line["agentId"]),
        (&json!(true), &json!("a64af6b213f62e416"))
    );
    // A prefix of a sub-agent id is a different id.
    for (agent, way, says) in [
        ("a", "", "created sub-agent a\n"),
        ("a6", "--follow", "\"began\":true"),
    ] {
        let text = format!("to {agent}");
        let line = json!({"role": "user", "content": text}).to_string();
        let mut args = vec!["append", session, "--agent", agent, "--live"];
        args.extend(Some(way).filter(|way| !way.is_empty()));
        let began = stage.with_stdin(&args, line).fine();
        assert!(began.out.contains(says), "{began}");
        let line = stage.log(&format!("agent-{agent}")).pop().unwrap();
        assert_eq!(line["agentId"], json!(agent));
        assert_eq!(line["message"]["content"], json!(text));
    }
    let args = ["append", session, "--agent", "nobody", "-m", "x", "--live"];
    let began = stage.annals(&args).fine();
    assert!(
        began.out.starts_with("created sub-agent nobody\n"),
        "{began}"
    );
    stage.refused(&["append", session, "--agent", "no/body", "-m", "x"], "");
}

#[test]
fn append_seals_a_torn_tail_before_writing() {
    let stage = Stage::with_fixture("torn-tail");
    let sessions = stage.annals(&["sessions", "--json"]).json();
    let id = sessions["sessions"][0]["id"].as_str().unwrap().to_owned();
    let path = stage
        .tree()
        .into_keys()
        .find(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .unwrap();
    let before = std::fs::read(&path).unwrap();
    // Masked ids cannot be passed back, so the session is given by its path.
    assert!(id.starts_with("[id") || path.to_str().unwrap().contains(&id));
    stage
        .annals(&["append", path.to_str().unwrap(), "-m", "after the crash"])
        .fine();
    let after = std::fs::read(&path).unwrap();
    assert!(after.starts_with(&before));
    assert_eq!(after[before.len()], b'\n');
    assert!(after.ends_with(b"\n"));
}

#[test]
fn fork_copies_one_conversation() {
    let stage = Stage::with_fixture("branch-edited-prompt");
    let path = stage
        .tree()
        .into_keys()
        .find(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .unwrap();
    let id = path.file_stem().unwrap().to_str().unwrap();
    let before = std::fs::read(&path).unwrap();
    assert_snapshot!(
        "fork",
        stage.annals(&["fork", id, "--id", FORK, "--title", "Another way"])
    );
    assert_snapshot!("fork_json", stage.annals(&["fork", id, "--json"]));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let log = stage.log(FORK);
    assert!(
        log.iter()
            .filter(|line| line["uuid"].is_string())
            .all(|line| line["sessionId"] == FORK && line["forkedFrom"]["sessionId"] == id)
    );
    assert_eq!(log.last().unwrap()["customTitle"], "Another way");
    // A fork at an inner message omits what follows it.
    let first = stage
        .log(id)
        .iter()
        .find(|line| line["type"] == "assistant")
        .unwrap()["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    let inner = stage
        .annals(&["fork", &format!("{id}@{first}"), "--json"])
        .json();
    assert_eq!(inner["entries"], 2);
    assert_snapshot!(
        "fork_unknown",
        stage.refused(&["fork", &format!("{id}@ffff")], "")
    );
}

#[test]
fn fork_of_an_empty_session_is_refused() {
    let stage = Stage::empty();
    stage.annals(&["new", "--id", ID]).fine();
    assert_snapshot!("fork_empty", stage.refused(&["fork", ID], ""));
}

#[test]
fn titles_tags_and_notes_do_not_become_parents() {
    let stage = begun();
    assert_snapshot!(
        "title",
        stage.annals(&["title", ID, "  Another \u{1b}[31mtitle "])
    );
    assert_snapshot!(
        "title_json",
        stage.annals(&["title", ID, "Last title", "--json"])
    );
    assert_snapshot!("tag", stage.annals(&["tag", ID, "keep"]));
    assert_snapshot!("tag_json", stage.annals(&["tag", ID, "--json"]));
    stage.annals(&["tag", ID, "--remove"]).fine();
    assert_snapshot!("tag_none", stage.annals(&["tag", ID]));
    assert_snapshot!("note", stage.annals(&["notes", "add", ID, "A remark."]));
    assert_snapshot!(
        "note_json",
        stage.with_stdin(
            &["notes", "add", ID, "-", "--author", "jo", "--json"],
            "Two\nlines\n"
        )
    );
    assert_snapshot!("notes", stage.annals(&["notes"]));
    assert_snapshot!("notes_json", stage.annals(&["notes", ID, "--json"]));
    // The next message is attached to the previous message, not to a note.
    stage
        .annals(&["append", ID, "--role", "assistant", "-m", "answer"])
        .fine();
    let log = stage.log(ID);
    let said: Vec<_> = log
        .iter()
        .filter(|line| line["message"].is_object())
        .collect();
    assert_eq!(said[1]["parentUuid"], said[0]["uuid"]);
    let titles: Vec<_> = log
        .iter()
        .filter_map(|line| line["customTitle"].as_str())
        .collect();
    assert_eq!(titles, ["A title", "Another \u{1b}[31mtitle", "Last title"]);
}

#[test]
fn notes_without_any_exits_1() {
    assert_snapshot!("notes_none", begun().annals(&["notes"]));
}

#[test]
fn compact_writes_a_boundary_and_the_summary() {
    let stage = begun();
    let reply = r#"{"role":"assistant","content":"answer","usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":5}}"#;
    stage.with_stdin(&["append", ID], reply).fine();
    assert_snapshot!(
        "compact",
        stage.annals(&["compact", ID, "--summary", "What was said."])
    );
    let file = stage.work().join("summary.md");
    std::fs::write(&file, "From a file.\n").unwrap();
    let summary = format!("@{}", file.display());
    assert_snapshot!(
        "compact_json",
        stage.annals(&["compact", ID, "--summary", &summary, "--json"])
    );
    stage
        .with_stdin(&["compact", ID, "--summary", "-"], "From a pipe.\n")
        .fine();
    let log = stage.log(ID);
    let summaries: Vec<_> = log
        .iter()
        .filter(|line| line["isCompactSummary"] == true)
        .map(|line| line["message"]["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        summaries,
        ["What was said.", "From a file.", "From a pipe."]
    );
    assert_eq!(
        log.iter()
            .find(|line| line["subtype"] == "compact_boundary")
            .unwrap()["compactMetadata"]["preTokens"],
        100
    );
    assert_eq!(
        stage.annals(&["conversations", ID, "--json"]).json()["conversations"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
