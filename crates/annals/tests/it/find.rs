//! Symbolic links in a root, and lookup by path.

use std::fs;
use std::os::unix::fs::symlink;

use annals::Error;
use annals::model::{ArtifactKind, Draft, FlawKind};
use annals::store::{MessageFilter, Root, Session, Store};

use crate::support::{QUICK, case, cases};

/// The order in which a directory lists a link and its target must not matter.
#[test]
fn a_link_never_hides_the_real_folder() {
    let copy = case("same-session-two-projects").copy();
    let projects = copy.root.path.join("projects");
    let real = copy.sessions();
    for name in ["-a", "-m", "-z", "-home", "-home-dev-b", "-zzz", "-0", "-1"] {
        for folder in ["-home-dev-copy", "-home-dev-original"] {
            symlink(
                projects.join(folder),
                projects.join(format!("{name}{folder}")),
            )
            .unwrap();
        }
    }
    let paths = |sessions: &[annals::store::SessionFiles]| -> Vec<_> {
        let logs = sessions.iter().flat_map(|files| files.logs());
        logs.map(|file| file.path.clone()).collect()
    };
    assert_eq!(paths(&copy.sessions()), paths(&real));
}

#[test]
fn linked_files_are_not_read() {
    let copy = case("todos").copy();
    let root = &copy.root.path;
    for (name, kind) in [
        ("settings.json", ArtifactKind::Settings),
        ("history.jsonl", ArtifactKind::History),
    ] {
        let elsewhere = copy.dir.path().join(name);
        let _ = fs::remove_file(root.join(name));
        fs::write(&elsewhere, "{\"cleanupPeriodDays\":7}\n").unwrap();
        symlink(&elsewhere, root.join(name)).unwrap();
        let inventory = copy.store().inventory();
        assert_eq!(inventory.others_of_kind(kind).count(), 0, "{name}");
        // Settings hold no history, and many people store them elsewhere.
        let reported = usize::from(name != "settings.json");
        assert_eq!(inventory.errors.len(), reported, "{name}");
        fs::remove_file(root.join(name)).unwrap();
    }
    // A dangling or circular link is not an error.
    symlink("nowhere", root.join("projects/gone")).unwrap();
    symlink("..", root.join("projects/round")).unwrap();
    assert!(copy.store().inventory().errors.is_empty());
}

#[test]
fn file_path_resolves_to_that_file() {
    let mut seen = (0, 0, 0);
    for case in cases() {
        let store = Store::new(vec![case.root()]);
        let inventory = store.inventory();
        // Also if the root was not named.
        let bare = Store::new(Vec::new());
        let nothing = bare.inventory();
        for files in &inventory.sessions {
            for file in files.files() {
                let text = file.path.to_str().unwrap();
                let both = [store.find(&inventory, text), bare.find(&nothing, text)];
                for found in both {
                    match (file.artifact.kind, found) {
                        (ArtifactKind::SessionLog, Ok(target)) => {
                            seen.0 += 1;
                            assert_eq!(target.log.as_ref().unwrap().path, file.path);
                            assert!(target.refuse_agent().is_ok());
                        }
                        (ArtifactKind::AgentLog, Ok(target)) => {
                            seen.1 += 1;
                            assert_eq!(target.files.id, files.id);
                            assert_eq!(target.agent_log().unwrap().path, file.path);
                            assert!(target.refuse_agent().is_err());
                            assert!(store.session(text).is_err());
                        }
                        (ArtifactKind::SharedLog, Ok(target)) => {
                            assert_eq!(target.files.id, files.id);
                        }
                        (ArtifactKind::SharedLog, Err(Error::Ambiguous { candidates, .. })) => {
                            assert!(candidates.contains(&files.id.to_string()));
                        }
                        (_, Err(Error::Refused(_))) => seen.2 += 1,
                        (kind, found) => panic!("{text}, {kind:?}: {found:?}"),
                    }
                }
            }
        }
    }
    assert!(seen.0 > 0 && seen.1 > 0 && seen.2 > 0, "{seen:?}");
}

/// Returns a line of a log without times.
fn said(session: &str, uuid: &str, more: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{uuid}","parentUuid":null,"sessionId":"{session}",{more}"message":{{"role":"user","content":"Hello"}}}}"#
    ) + "\n"
}

fn stored(logs: &[(&str, String)]) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in logs {
        let path = dir.path().join("projects/-p").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    (dir, store)
}

#[test]
fn a_session_may_be_called_like_the_log_of_a_sub_agent() {
    let agents = r#""isSidechain":true,"agentId":"2","#;
    let (_dir, store) = stored(&[
        ("main.jsonl", said("main", "m1", "")),
        ("agent-1.jsonl", said("agent-1", "u1", "")),
        ("agent-2.jsonl", said("main", "s1", agents)),
    ]);
    let inventory = store.inventory();
    let found: Vec<(&str, bool, usize)> = inventory
        .sessions
        .iter()
        .map(|files| (files.id.as_str(), files.log.is_some(), files.agents.len()))
        .collect();
    assert_eq!(found, [("agent-1", true, 0), ("main", true, 1)]);
    let target = store.find(&inventory, "agent-1").unwrap();
    assert!(target.agent_log().is_none());
    let session = Session::read(target.files.clone()).unwrap();
    let read = session.messages(&MessageFilter::default()).unwrap();
    assert_eq!(read.len(), 1);
    assert!(read[0].agent.is_none());
    let writer = store.open_writer(&target.files, QUICK).unwrap();
    let next = writer.append(Draft::user("More")).unwrap();
    assert_eq!(next.parent.unwrap().as_str(), "u1");
    assert_eq!(store.inventory().sessions.len(), 2);
    let reports = annals::check::all(&store.inventory(), None, &|_, _| {});
    let reports = reports.into_iter().map(Result::unwrap);
    let stray = reports.flat_map(|report| report.flaws);
    assert!(
        !stray
            .map(|flaw| flaw.kind)
            .any(|kind| kind == FlawKind::Stray)
    );
}

#[test]
fn an_id_that_ends_like_a_log_is_found_with_a_message_too() {
    let (_dir, store) = stored(&[("x.y.jsonl.jsonl", said("x.y.jsonl", "u1", ""))]);
    let inventory = store.inventory();
    let target = store.find(&inventory, "x.y.jsonl@u1").unwrap();
    assert_eq!(target.files.id.as_str(), "x.y.jsonl");
    assert_eq!(target.message.as_deref(), Some("u1"));
    assert!(store.find(&inventory, "z.jsonl@u1").is_err());
}

#[test]
fn a_conversation_without_times_has_that_of_its_file() {
    let (_dir, store) = stored(&[("main.jsonl", said("main", "m1", ""))]);
    let session = Session::read(store.inventory().sessions.remove(0)).unwrap();
    let listed = session.conversations();
    assert!(listed[0].updated.is_some());
    assert_eq!(listed[0].updated, session.info(None).updated);
}
