//! The messages with which the real programs resume sessions.
//!
//! `fixtures/agent-leaves.json` has stores with one peculiarity each, and what the programs sent when they
//! resumed the named session. Results of calls are not compared: programs make up those that are missing.

use std::collections::BTreeMap;
use std::path::Path;

use annals::model::{Block, Body, Role};
use annals::store::{Root, Session, SessionFiles, Store};
use rusqlite::Connection;
use serde_json::Value;

use crate::support::fixtures;

/// Where annals shows something else, and why.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "codex 0.80.0",
        "fork-ref",
        "this version ignores the reference to the parent",
    ),
    (
        "codex 0.166.0",
        "db-newfile-newest",
        "`--last` asks the program's database, which lacks the new file",
    ),
];

/// Stands for a compaction among the texts of a session.
const COMPACTED: &str = "compaction: ";

/// Writes the files of a store. A database is given as rows.
fn write_store(case: &Value, dir: &Path) {
    for (path, content) in case["files"].as_object().unwrap() {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match content.as_str() {
            Some(text) => std::fs::write(path, text).unwrap(),
            None => write_database(content, &path),
        }
    }
}

fn write_database(tables: &Value, path: &Path) {
    let database = Connection::open(path).unwrap();
    for (table, content) in tables.as_object().unwrap() {
        let names = content["columns"].as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|name| name.as_str().unwrap()).collect();
        let create = format!("CREATE TABLE {table} ({})", names.join(", "));
        database.execute_batch(&create).unwrap();
        let marks = vec!["?"; names.len()].join(", ");
        let insert = format!("INSERT INTO {table} VALUES ({marks})");
        for row in content["rows"].as_array().unwrap() {
            let values = row.as_array().unwrap().iter().map(|value| match value {
                Value::Null => rusqlite::types::Value::Null,
                Value::String(text) => text.clone().into(),
                number => number.as_i64().unwrap().into(),
            });
            let values = rusqlite::params_from_iter(values);
            database.execute(&insert, values).unwrap();
        }
    }
}

/// Returns the texts that annals says a session is resumed with: `role kind: text`.
fn shown(session: &Session) -> Vec<String> {
    let path = session.tree().unwrap().resumed_path().unwrap_or_default();
    let mut texts = Vec::new();
    let add = |texts: &mut Vec<String>, role: Role, kind: &str, text: &str| {
        texts.push(format!("{} {kind}: {text}", role.as_str()));
    };
    let visit = |entry: annals::model::Entry| {
        if let Body::Compaction { .. } = &entry.body {
            texts.push(COMPACTED.to_owned());
        }
        if let Body::Message(message) = &entry.body {
            let role = message.role;
            let is_sent = role == Role::Assistant || message.human;
            for block in message
                .blocks
                .iter()
                .filter(|_| is_sent && !message.api_error)
            {
                match block {
                    Block::Text(text) => add(&mut texts, role, "text", text),
                    Block::Thinking { text, .. } => add(&mut texts, role, "think", text),
                    Block::ToolUse { name, input, .. } => {
                        add(&mut texts, role, "call", &format!("{name} {input}"))
                    }
                    _ => {}
                }
            }
        }
        Ok(true)
    };
    session.each_entry_of_log(0, &path, visit).unwrap();
    texts
}

/// Joins adjacent texts of a reply, as programs do, and removes what they add.
fn normal(layout: &str, texts: Vec<String>) -> Vec<(String, String)> {
    let mut joined: Vec<(String, String)> = Vec::new();
    for text in texts {
        let (kind, text) = text.split_once(": ").unwrap();
        let is_added = text.starts_with("# AGENTS.md instructions for");
        // Copilot does not send reasoning back.
        if is_added || (layout == "copilot" && kind == "assistant think") {
            continue;
        }
        let text = match text.split_once("</current_datetime>\n\n") {
            Some((_, rest)) => rest,
            None => text,
        };
        // Spaces in the arguments of calls.
        let text = text.replace("\": \"", "\":\"");
        match joined.last_mut() {
            Some((last, before)) if last == kind && kind == "assistant text" => {
                before.push_str(&text);
            }
            _ => joined.push((kind.to_owned(), text)),
        }
    }
    joined
}

/// Returns whether a recorded text is that of annals. Recorded texts have at most 80 characters.
fn is_same(shown: &(String, String), sent: &(String, String)) -> bool {
    shown.0 == sent.0 && (shown.1 == sent.1 || (!sent.1.is_empty() && shown.1.starts_with(&sent.1)))
}

/// Returns the session that the program was told to resume; the newest one if it was given none.
fn resumed_session(case: &Value, mut sessions: Vec<SessionFiles>) -> Option<Session> {
    let id = case["session"].as_str();
    if let Some(id) = id.filter(|_| sessions.len() > 1) {
        sessions.retain(|files| files.id.as_str() == id);
    }
    let read = sessions
        .into_iter()
        .map(|files| Session::read(files).unwrap());
    read.max_by_key(|session| {
        let scan = session.main_log().map(|(_, scan, _)| scan);
        scan.and_then(|scan| scan.outlines.iter().filter_map(|it| it.time).max())
    })
}

#[test]
fn resumed_messages_match_the_real_programs() {
    let recorded = std::fs::read(fixtures().join("agent-leaves.json")).unwrap();
    let recorded: Value = serde_json::from_slice(&recorded).unwrap();
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (layout, cases) in recorded.as_object().unwrap() {
        for (name, case) in cases.as_object().unwrap() {
            let dir = tempfile::tempdir().unwrap();
            write_store(case, dir.path());
            let root = Root::new(layout, dir.path()).unwrap();
            let sessions = Store::new(vec![root]).inventory().sessions;
            let session = resumed_session(case, sessions);
            let found = session.as_ref().map(shown).unwrap_or_default();
            for (version, expected) in case["expected"].as_object().unwrap() {
                let key = format!("{layout} {version}");
                let count = counts.entry(key.clone()).or_default();
                if expected["outcome"] != "reconstructed" {
                    continue;
                }
                count.1 += 1;
                let sent = expected["messages"].as_array().unwrap().iter();
                let sent = sent.map(|text| text.as_str().unwrap().to_owned());
                let sent = sent.filter(|text| !text.starts_with("tool result"));
                let mut sent = normal(layout, sent.collect());
                if sent.is_empty() {
                    // It began another session.
                    count.1 -= 1;
                    continue;
                }
                // What programs send of the messages before a compaction, and its summary, differs.
                let compacted = found.iter().rposition(|text| text == COMPACTED);
                let after = compacted.map_or(0, |at| at + 1);
                let found = normal(layout, found[after..].to_vec());
                if compacted.is_some() {
                    sent.drain(..sent.len().saturating_sub(found.len()));
                }
                let same = found.len() == sent.len()
                    && found
                        .iter()
                        .zip(&sent)
                        .all(|(found, sent)| is_same(found, sent));
                let is_known = DIFFERENCES
                    .iter()
                    .any(|(of, case, _)| *of == key && case == name);
                count.0 += usize::from(same);
                if same == is_known {
                    let why = &case["why"];
                    wrong.push(format!(
                        "{key} {name} ({why})\n  annals: {found:?}\n  sent:   {sent:?}"
                    ));
                }
            }
        }
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(key, (same, all))| format!("{key}: {same} of {all}"))
        .collect();
    assert!(
        wrong.is_empty(),
        "{}\n{}",
        counts.join("\n"),
        wrong.join("\n")
    );
    insta::assert_snapshot!(counts.join("\n"));
}
