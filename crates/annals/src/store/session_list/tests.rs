//! Concurrent writes to session lists, and which entries count as messages.

use std::fs;

use super::*;
use crate::store::Store;
use annals_layouts::model::{EntryId, Message, Role};

/// Blocks writes to a document by a directory at the path of its temporary file.
fn block(path: &Path) {
    let name = path.file_name().unwrap().as_encoded_bytes();
    let tag: String = jsonl::Digest::compute(name)
        .0
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    fs::create_dir(path.with_file_name(format!(".annals-{tag}.tmp"))).unwrap();
}

#[test]
fn replace_list_returns_false_if_it_changed_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("conversations.json");
    fs::write(&path, "theirs").unwrap();
    assert!(!replace_list(&path, None, b"mine", false).unwrap());
    assert!(!replace_list(&path, Some(b"older"), b"mine", false).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    assert!(replace_list(&path, Some(b"theirs"), b"mine", false).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    // A failed write is an error: retrying would fail again.
    block(&path);
    assert!(replace_list(&path, Some(b"mine"), b"other", false).is_err());
    fs::remove_file(&path).unwrap();
    assert!(replace_list(&path, None, b"other", false).is_err());
}

#[test]
fn damaged_list_is_saved_once_or_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("conversations.json");
    let beside = || {
        let names = fs::read_dir(dir.path()).unwrap();
        let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.contains(".damaged-")).collect();
        names.pop().filter(|_| names.is_empty())
    };
    for _ in 0..2 {
        fs::write(&path, "torn").unwrap();
        assert!(replace_list(&path, Some(b"torn"), b"whole", true).unwrap());
        let copy = dir.path().join(beside().unwrap());
        assert_eq!(fs::read(copy).unwrap(), b"torn");
    }
    let copy = dir.path().join(beside().unwrap());
    fs::remove_file(&copy).unwrap();
    block(&copy);
    fs::write(&path, "torn").unwrap();
    assert!(replace_list(&path, Some(b"torn"), b"whole", true).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"torn");
}

#[test]
fn only_messages_with_an_id_are_counted() {
    let entry = |id: Option<&str>, body: Body| Entry {
        id: id.map(EntryId::new),
        ..Entry::new(Default::default(), body)
    };
    let said = || Body::Message(Message::new(Role::User, Vec::new()));
    assert!(is_counted(&entry(Some("a"), said())));
    assert!(!is_counted(&entry(None, said())));
    let title = || Body::Todos(Vec::new());
    assert!(!is_counted(&entry(Some("a"), title())));
    assert!(!is_counted(&entry(None, title())));
}

#[test]
fn damaged_list_without_logs_is_stale() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("sessions/w-app/a-main");
    fs::create_dir_all(&folder).unwrap();
    let session_list = folder.join("conversations.json");
    fs::write(&session_list, "{\"conversations\":[").unwrap();
    let store = Store::new(vec![Root::new("chorus", dir.path()).unwrap()]);
    let stale = store.repairs().stale_session_lists(&store.inventory());
    let paths: Vec<PathBuf> = stale.into_iter().map(|it| it.unwrap().path).collect();
    assert_eq!(paths, [session_list]);
}
