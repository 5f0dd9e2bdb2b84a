//! Files that are searched for references to another file's entries.

use std::fs;

use super::*;
use crate::store::Store;
use annals_jsonl::FileId;
use annals_layouts::model::Artifact;

/// Returns the repair targets of a session with `logs` logs.
fn patients(logs: usize) -> Vec<RepairTarget> {
    const SESSION: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("projects/-work");
    let agents = folder.join(SESSION).join("subagents");
    fs::create_dir_all(&agents).unwrap();
    fs::write(folder.join(format!("{SESSION}.jsonl")), "{}\n").unwrap();
    for agent in 1..logs {
        fs::write(agents.join(format!("agent-a{agent}.jsonl")), "{}\n").unwrap();
    }
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let patients = RepairTarget::all(&store.inventory());
    assert_eq!(patients.len(), logs);
    patients
}

#[test]
fn target_lists_other_logs_unless_there_are_a_hundred() {
    for (logs, others) in [(1, 0), (2, 1), (99, 98), (100, 0), (101, 0)] {
        let all = patients(logs);
        let all = all.iter().map(|patient| patient.others.len());
        assert_eq!(all.collect::<Vec<_>>(), vec![others; logs]);
    }
}

#[test]
fn single_volume_drops_earlier_volumes() {
    let artifact = Artifact::new(ArtifactKind::SessionLog);
    let volume = |name: &str| RootFile::new(name.into(), artifact.clone(), FileId::default());
    let mut last = volume("last.jsonl");
    last.earlier = vec![volume("first.jsonl")];
    let alone = single_volume(&last);
    assert_eq!(alone.path, last.path);
    assert_eq!(alone.volumes().count(), 1);
}
