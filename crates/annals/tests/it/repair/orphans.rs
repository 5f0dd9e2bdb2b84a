//! Files without a session, and rebuilt session lists.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use annals::model::ArtifactKind;
use annals::repair::OrphanFiles;
use annals::store::{Root, Store};
use jiff::Timestamp;

use super::deeds::now;
use super::{Place, SESSION, chain, file_of};
use crate::support::case;

const OTHER: &str = "bbbbbbbb-0000-4000-8000-000000000000";

fn put(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn strays(store: &Store) -> Vec<OrphanFiles> {
    store.repairs().orphan_files(&store.inventory())
}

#[test]
fn documents_without_their_session_are_strays() {
    let place = Place::with(&file_of(&chain()));
    let store = place.store();
    assert_eq!(strays(&store).len(), 0);
    let todos = place.dir.path().join("root/todos");
    put(&todos.join(format!("{SESSION}-agent-{SESSION}.json")), "[]");
    assert_eq!(strays(&store).len(), 0);
    put(&todos.join(format!("{OTHER}-agent-{OTHER}.json")), "[]");
    put(&todos.join(format!("{OTHER}-agent-a1.json")), "[  ]");
    let found = strays(&store);
    assert_eq!(found.len(), 1, "{found:?}");
    let stray = &found[0];
    assert_eq!((stray.files, stray.bytes), (2, 6));
    assert_eq!(stray.session.as_deref(), Some(OTHER));
    assert_eq!(stray.kind, ArtifactKind::Todos);
    assert_eq!(
        stray.detail,
        "its session has no log here: restore it from a backup"
    );
}

#[test]
fn stray_of_a_deleted_session_suggests_undo() {
    let place = Place::with(&file_of(&chain()));
    let store = place.store();
    let files = store.inventory().sessions.remove(0);
    let trashed = store
        .trash()
        .move_in(&files, Timestamp::UNIX_EPOCH)
        .unwrap();
    let todos = place.dir.path().join("root/todos");
    put(&todos.join(format!("{SESSION}-agent-{SESSION}.json")), "[]");
    let found = strays(&store);
    assert_eq!(found.len(), 1);
    let wanted = format!("`annals delete --undo {}`", trashed.id);
    assert!(found[0].detail.contains(&wanted), "{}", found[0].detail);
}

#[test]
fn stray_sub_agent_detail_names_its_sessions() {
    let agent = |session: &str| {
        format!(
            r#"{{"parentUuid":null,"isSidechain":true,"agentId":"a1",{session}"type":"user","message":{{"role":"user","content":"x"}},"uuid":"00000001-0000-4000-8000-000000000000","timestamp":"2026-11-10T05:00:00.000Z"}}"#
        )
    };
    let of = |id: &str| agent(&format!(r#""sessionId":"{id}","#));
    // Pushes the ids beyond the first lines, where a session is searched for.
    let filler = format!("{}\n", "{\"type\":\"x\"}").repeat(40_000);
    let reported = |lines: &[String]| {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let text = format!("{filler}{}\n", lines.join("\n"));
        put(&root.join("projects/-work/agent-a1.jsonl"), text);
        let root = Root::claude_code(&root);
        let found = strays(&Store::new(vec![root]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].kind, ArtifactKind::AgentLog);
        found[0].detail.clone()
    };
    assert_eq!(reported(&[agent("")]), "none of its lines names a session");
    assert_eq!(
        reported(&[of(SESSION), of(SESSION)]),
        format!("only later lines name a session: {SESSION}")
    );
    assert_eq!(
        reported(&[of(SESSION), of(OTHER)]),
        "its lines name 2 sessions"
    );
}

#[test]
fn sub_agents_without_a_session_log_are_strays() {
    let place = Place::with(&file_of(&chain()));
    let folder = place.log.with_extension("").join("subagents");
    for agent in ["a1", "a2"] {
        put(&folder.join(format!("agent-{agent}.jsonl")), place.bytes());
    }
    assert_eq!(strays(&place.store()).len(), 0);
    let len = place.bytes().len() as u64;
    fs::remove_file(&place.log).unwrap();
    let found = strays(&place.store());
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].files, found[0].bytes), (2, 2 * len));
    assert_eq!(
        found[0].detail,
        "its session has no log of its own here: restore it from a backup"
    );
}

#[test]
fn session_list_is_quarantined_before_rebuild() {
    let copy = case("chorus-index-behind").copy();
    let store = copy.store();
    let stale = store
        .repairs()
        .stale_session_lists(&store.inventory())
        .remove(0)
        .unwrap();
    let old = fs::read(&stale.path).unwrap();
    fs::set_permissions(&stale.path, fs::Permissions::from_mode(0o640)).unwrap();
    let kept = store
        .repairs()
        .repair_session_list(&stale, true, now())
        .unwrap()
        .unwrap();
    assert!(kept.is_index());
    assert_eq!(kept.original.mode & 0o777, 0o640);
    assert_eq!(i128::from(kept.result.mtime_ns), now().as_nanosecond());
    assert_eq!(kept.original.bytes, old.len() as u64);
    let original = kept.original_path(&store.repairs().quarantine().unwrap());
    assert_eq!(fs::read(original).unwrap(), old);
    let new = fs::read(&stale.path).unwrap();
    assert_ne!(new, old);
    assert_eq!(store.repairs().find(&kept.id).unwrap().len(), 1);
    // A second repair has nothing to do; a missing list is only created.
    assert!(
        store
            .repairs()
            .repair_session_list(&stale, true, now())
            .unwrap()
            .is_none()
    );
    store.repairs().undo(&kept).unwrap();
    assert_eq!(fs::read(&stale.path).unwrap(), old);
    assert_eq!(fs::metadata(&stale.path).unwrap().mode() & 0o777, 0o640);
    fs::remove_file(&stale.path).unwrap();
    assert!(
        store
            .repairs()
            .repair_session_list(&stale, true, now())
            .unwrap()
            .is_none()
    );
    assert!(stale.path.exists());
}
