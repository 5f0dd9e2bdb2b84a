//! Files left of a missing session are listed, with advice.

use std::fs;

use annals::model::ArtifactKind;
use annals::repair::OrphanFiles;
use annals::store::{Root, SessionFiles, Store};
use jiff::Timestamp;

use crate::support::case;

const SESSION: &str = "8c549c46-16ca-47dd-b731-f4c264becc53";

fn strays(store: &Store) -> Vec<OrphanFiles> {
    store
        .repairs()
        .orphan_files(&store.inventory_without_archive())
}

#[test]
fn every_kind_of_file_without_its_session_is_a_stray() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let store = Store::new(vec![Root::claude_code(&root)]).with_state(dir.path().join("state"));
    let put = |path: String, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let line = format!("{{\"type\":\"user\",\"uuid\":\"a\",\"sessionId\":\"{SESSION}\"}}\n");
    let beside = format!("projects/-app/{SESSION}");
    put(format!("{beside}.jsonl"), &line);
    put(format!("{beside}/subagents/agent-one.jsonl"), &line);
    put(format!("{beside}/subagents/agent-one.meta.json"), "{}");
    put(format!("{beside}/tool-results/r.txt"), "out");
    put(format!("{beside}/custom-title.json"), "{}");
    put(format!("todos/{SESSION}-agent-{SESSION}.json"), "[{}]");
    put(format!("tasks/{SESSION}/1.json"), "{}");
    put(format!("file-history/{SESSION}/0a1b@v1"), "saved");
    assert!(strays(&store).is_empty());
    let inventory = store.inventory_without_archive();
    let group: Vec<&SessionFiles> = inventory.sessions.iter().collect();
    let log = root.join(format!("{beside}.jsonl"));
    fs::rename(&log, dir.path().join("away")).unwrap();
    let found = strays(&store);
    let kinds: Vec<ArtifactKind> = found.iter().map(|stray| stray.kind).collect();
    let wanted = [
        ArtifactKind::AgentLog,
        ArtifactKind::AgentMeta,
        ArtifactKind::Todos,
        ArtifactKind::Task,
        ArtifactKind::FileVersion,
        ArtifactKind::ToolResult,
        ArtifactKind::TitleFile,
    ];
    assert_eq!(kinds, wanted);
    assert!(
        found
            .iter()
            .all(|stray| stray.detail.contains("from a backup"))
    );
    // If the session is archived, the advice is to restore it.
    fs::rename(dir.path().join("away"), &log).unwrap();
    store.copy_to_archive(&group, Timestamp::now()).unwrap();
    fs::remove_file(&log).unwrap();
    let reported = format!("`annals restore {SESSION} --apply`");
    let found = strays(&store);
    assert_eq!(found.len(), wanted.len());
    assert!(found.iter().all(|stray| stray.detail.contains(&reported)));
    // An undoable deletion takes precedence.
    put(format!("{beside}.jsonl"), &line);
    let inventory = store.inventory_without_archive();
    let deleted = store
        .trash()
        .move_in(&inventory.sessions[0], Timestamp::now())
        .unwrap();
    put(format!("tasks/{SESSION}/2.json"), "{}");
    let found = strays(&store);
    assert_eq!(found.len(), 1);
    let reported = format!("`annals delete --undo {}`", deleted.id);
    assert!(found[0].detail.contains(&reported), "{}", found[0].detail);
}

/// A session list may have a row for a session without any other file.
#[test]
fn row_without_log_is_a_stray() {
    let copy = case("chorus-plain").copy();
    let store = Store::new(vec![copy.root.clone()]).with_state(copy.dir.path().join("state"));
    let rows = |store: &Store| {
        let rows = strays(store).into_iter();
        let rows = rows.filter(|stray| stray.kind == ArtifactKind::SessionList);
        rows.collect::<Vec<_>>()
    };
    assert!(rows(&store).is_empty());
    let files = copy.sessions().remove(0);
    fs::remove_file(files.main_path()).unwrap();
    let found = rows(&store);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].session.as_deref(), Some(files.id.as_str()));
    assert_eq!(found[0].files, 0);
    assert!(
        found[0].detail.contains("an index lists it"),
        "{}",
        found[0].detail
    );
}
