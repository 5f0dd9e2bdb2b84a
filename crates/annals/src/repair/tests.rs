//! Which files are looked into for the names of another's entries.

use std::fs;

use super::*;
use crate::jsonl::FileId;
use crate::model::Artifact;
use crate::store::Store;

/// The patients of a session with so many logs in all.
fn patients(logs: usize) -> Vec<Patient> {
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
    let patients = Patient::all(&store.inventory());
    assert_eq!(patients.len(), logs);
    patients
}

#[test]
fn the_other_logs_of_a_session_are_asked_for_names_unless_there_are_too_many() {
    for (logs, others) in [(1, 0), (2, 1), (99, 98), (100, 0), (101, 0)] {
        let all = patients(logs);
        let all = all.iter().map(|patient| patient.others.len());
        assert_eq!(all.collect::<Vec<_>>(), vec![others; logs]);
    }
}

#[test]
fn a_volume_is_mended_by_itself() {
    let artifact = Artifact::of(ArtifactKind::SessionLog);
    let volume = |name: &str| FoundFile::new(name.into(), artifact.clone(), FileId::default());
    let mut last = volume("last.jsonl");
    last.earlier = vec![volume("first.jsonl")];
    let alone = alone(&last);
    assert_eq!(alone.path, last.path);
    assert_eq!(alone.volumes().count(), 1);
}
