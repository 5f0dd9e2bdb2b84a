//! Files of a live session that its agent deleted are read from the archive, and marked.

use std::fs;

use crate::harness::Stage;

const SESSION: &str = "3dfa1268-9314-4bc2-bb7b-d8c0d6c96020";
const AGENT: &str = "a318fb1e3a96e2e0a";

/// The sub-agents of the session, and whether each is archived.
fn agents(stage: &Stage) -> Vec<(String, bool)> {
    let tree = stage.annals(&["tree", SESSION, "--json"]).json();
    let agents = tree["agents"].as_array().unwrap().iter().map(|agent| {
        let id = agent["id"].as_str().unwrap().to_owned();
        (id, agent["archived"].as_bool().unwrap())
    });
    let mut agents: Vec<_> = agents.collect();
    agents.sort();
    agents
}

#[test]
fn deleted_sub_agent_is_shown_from_archive_and_marked() {
    let stage = Stage::with_fixture("2.1.325-s04-agent");
    let before = agents(&stage);
    assert_eq!(before.len(), 3);
    let cost = stage.annals(&["cost", "--json"]).fine().out;
    stage.annals(&["keep"]).fine();
    let log = stage.log_path(&format!("agent-{AGENT}"));
    let bytes = fs::read(&log).unwrap();
    fs::remove_file(&log).unwrap();
    let marked = before.iter().map(|(id, _)| (id.clone(), id == AGENT));
    assert_eq!(agents(&stage), marked.collect::<Vec<_>>());
    let tree = stage.annals(&["tree", SESSION]).fine();
    assert_eq!(tree.out.matches(" · archived").count(), 1, "{tree}");
    let shown = stage.annals(&["show", SESSION, "--agent", AGENT]).fine();
    assert!(shown.out.contains(" · archived"), "{shown}");
    let shown = stage.annals(&["show", SESSION]).fine();
    assert_eq!(
        shown.out.matches(", archived: annals show").count(),
        1,
        "{shown}"
    );
    let listed = stage.annals(&["sessions", "--json"]).json();
    assert_eq!(listed["sessions"][0]["agents"], 3, "{listed}");
    assert_eq!(listed["sessions"][0]["archived"], false, "{listed}");
    assert_eq!(stage.annals(&["cost", "--json"]).fine().out, cost);
    let found = stage
        .annals(&["search", "--role", "assistant", "--json"])
        .json();
    let hits = found["hits"].as_array().unwrap();
    assert!(hits.iter().any(|hit| hit["agent"] == AGENT), "{found}");
    let right = |hit: &serde_json::Value| (hit["agent"] == AGENT) == (hit["archived"] == true);
    assert!(hits.iter().all(right), "{found}");
    // An archived sub-agent cannot be appended to until it is restored.
    let refused = stage.annals(&["append", SESSION, "--agent", AGENT, "--live", "more"]);
    assert_eq!(refused.code, 2, "{refused}");
    let back = stage.annals(&["restore", SESSION, "--apply"]).fine();
    assert!(back.out.contains("restored"), "{back}");
    assert_eq!(fs::read(&log).unwrap(), bytes);
    assert_eq!(agents(&stage), before);
}

#[test]
fn plans_and_history_are_archived_and_restored() {
    let stage = Stage::with_fixture("2.1.325-s01-multiturn");
    let plan = stage.root.join("plans/merry-fox.md");
    fs::create_dir_all(plan.parent().unwrap()).unwrap();
    fs::write(&plan, "# Catch the hen\n").unwrap();
    let typed = r#"{"display":"what was typed","timestamp":1700000000000,"project":"/app"}"#;
    fs::write(stage.root.join("history.jsonl"), format!("{typed}\n")).unwrap();
    stage.annals(&["keep"]).fine();
    fs::remove_file(&plan).unwrap();
    fs::remove_file(stage.root.join("history.jsonl")).unwrap();
    let plans = stage.annals(&["plans", "--json"]).json();
    assert_eq!(plans["plans"][0]["name"], "merry-fox", "{plans}");
    assert_eq!(plans["plans"][0]["archived"], true, "{plans}");
    let read = stage.annals(&["plans", "merry-fox"]).fine();
    assert!(read.out.contains("Catch the hen"), "{read}");
    let history = stage.annals(&["history"]).fine();
    assert!(history.out.contains("what was typed"), "{history}");
    let list = stage.annals(&["archive", "--list"]).fine();
    let row = list.out.lines().find(|line| line.starts_with("root"));
    assert!(row.is_some(), "{list}");
    let list = stage.annals(&["archive", "--list", "root"]).fine();
    assert!(list.out.contains("plans/merry-fox.md"), "{list}");
    // A file that exists in the root is kept, and does not stop the restore of others.
    fs::write(stage.root.join("history.jsonl"), "{}\n").unwrap();
    let back = stage.annals(&["restore", "root", "--apply"]).fine();
    assert!(
        back.out.contains("a different file exists, and stays"),
        "{back}"
    );
    assert_eq!(fs::read_to_string(&plan).unwrap(), "# Catch the hen\n");
    assert_eq!(
        fs::read_to_string(stage.root.join("history.jsonl")).unwrap(),
        "{}\n"
    );
    stage.annals(&["archive", "--verify"]).fine();
    let forgotten = stage
        .annals(&["archive", "--forget", "root", "--apply"])
        .fine();
    assert!(forgotten.out.contains("root"), "{forgotten}");
}
