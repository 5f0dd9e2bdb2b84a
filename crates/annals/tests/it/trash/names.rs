//! Lookup of deleted sessions by name, and trash folders without a manifest.

use super::*;

fn place() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root]).with_state(dir.path().join("state"));
    (dir, store)
}

fn delete(store: &Store) -> annals::store::TrashItem {
    let files = store.inventory_without_archive().sessions.remove(0);
    store
        .trash()
        .move_in(&files, Timestamp::UNIX_EPOCH)
        .unwrap()
}

#[test]
fn undelete_of_an_unknown_name_is_an_error() {
    let (_dir, store) = place();
    drop(begin(&store, "/home/dev/w"));
    delete(&store);
    for other in ["", "zzz", "aaaaaaaa-1"] {
        let error = store.trash().restore(other).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{other}: {error}");
    }
    assert_eq!(store.trash().restore("aaaaaaaa-0").unwrap().session, ID);
}

/// Some ids start with a time; their name is the rest.
#[test]
fn undelete_accepts_session_name_or_id_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("clog", dir.path().join("root")).unwrap();
    let store = Store::new(vec![root.clone()]).with_state(dir.path().join("state"));
    let new = NewSession::new(SessionId::new("Thread-ABC").unwrap(), "/home/dev/w");
    let writer = store.create(&root, &new, QUICK).unwrap();
    writer.append(Draft::user("Why?")).unwrap();
    let id = writer.session();
    drop(writer);
    assert_ne!(id.name(), id.as_str());
    for name in [id.name(), &id.as_str()[..6]] {
        delete(&store);
        assert_eq!(
            store.trash().restore(name).unwrap().session,
            id.as_str(),
            "{name}"
        );
    }
}

#[test]
fn only_the_named_unreadable_manifest_is_reported() {
    let (dir, store) = place();
    drop(begin(&store, "/home/dev/w"));
    let folder = dir.path().join("state/undo").join(delete(&store).id);
    fs::write(folder.join("manifest.json"), "{").unwrap();
    let reported = store.trash().restore("aaaaaaaa").unwrap_err().to_string();
    assert!(reported.contains("cannot be read"), "{reported}");
    for other in ["", "zzz"] {
        let error = store.trash().restore(other).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{other}: {error}");
    }
}

/// Two roots that each lost a part of a session with the same id are not one interrupted deletion.
#[test]
fn undelete_does_not_merge_sessions_of_two_roots() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let mut names = Vec::new();
    for (root, kept) in [("one", "todos"), ("other", "projects")] {
        let root = Root::claude_code(dir.path().join(root));
        let store = Store::new(vec![root]).with_state(&state);
        let writer = begin(&store, "/home/dev/w");
        writer.set_todos(&[Todo::pending("Wait")]).unwrap();
        drop(writer);
        let name = delete(&store).id;
        // The rest was never moved, or is lost.
        for part in ["todos", "projects"] {
            if part != kept {
                let part = state.join("undo").join(&name).join("files").join(part);
                fs::remove_dir_all(part).unwrap();
            }
        }
        names.push(name);
    }
    let store = Store::new(Vec::new()).with_state(&state);
    let error = store.trash().restore(ID).unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
}

#[test]
fn state_path_that_is_a_file_is_an_error() {
    let (dir, store) = place();
    assert!(store.trash().items().unwrap().is_empty());
    let look = store.trash().contents().unwrap();
    assert!(look.purgeable.is_empty() && look.errors.is_empty());
    fs::write(dir.path().join("state"), "").unwrap();
    assert!(store.trash().items().is_err());
    assert!(store.trash().contents().is_err());
}

#[test]
fn trash_folder_without_manifest_is_reported_unless_empty() {
    let (dir, store) = place();
    let folder = dir.path().join("state/undo/20260301T100000-x");
    fs::create_dir_all(&folder).unwrap();
    assert!(store.trash().contents().unwrap().errors.is_empty());
    fs::create_dir(folder.join("files")).unwrap();
    let reported = |store: &Store| {
        let look = store.trash().contents().unwrap();
        assert!(look.purgeable.is_empty());
        assert_eq!(look.errors.len(), 1);
        look.errors[0].to_string()
    };
    assert!(reported(&store).contains("has no manifest.json"));
    // A manifest behind a link is not trusted either.
    drop(begin(&store, "/home/dev/w"));
    let other = dir.path().join("state/undo").join(delete(&store).id);
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(other.join("manifest.json"), &elsewhere).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    symlink(&elsewhere, other.join("manifest.json")).unwrap();
    assert!(reported(&store).contains("is not a file"));
    assert!(store.trash().restore(ID).is_err());
}

#[test]
fn undelete_restores_directory_modes() {
    let (_dir, store) = place();
    let writer = begin(&store, "/home/dev/w");
    let project = writer.path().parent().unwrap().to_owned();
    drop(writer);
    fs::set_permissions(&project, fs::Permissions::from_mode(0o750)).unwrap();
    delete(&store);
    assert!(!project.exists());
    // Directories directly in the root stay.
    assert!(project.parent().unwrap().is_dir());
    store.trash().restore(ID).unwrap();
    assert_eq!(fs::metadata(&project).unwrap().mode() & 0o7777, 0o750);
}

#[test]
fn undelete_reports_a_file_that_exists_again() {
    let (dir, store) = place();
    let path = begin(&store, "/home/dev/w").path();
    let trashed = delete(&store);
    let folder = dir.path().join("state/undo").join(&trashed.id);
    let within = folder.join("files").join(&trashed.files[0].path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "new\n").unwrap();
    let reported = store.trash().restore(ID).unwrap_err().to_string();
    assert!(reported.contains("already exists"), "{reported}");
    assert!(within.exists());
    assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
    fs::remove_file(&path).unwrap();
    store.trash().restore(ID).unwrap();
    assert!(path.exists() && !folder.exists());
}

/// The manifest is our own file, but its contents must not lead elsewhere.
#[test]
fn undelete_creates_no_directories_outside_the_session() {
    let (dir, store) = place();
    drop(begin(&store, "/home/dev/w"));
    let trashed = delete(&store);
    let manifest = dir.path().join("state/undo").join(&trashed.id);
    let manifest = manifest.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let dirs = value["dirs"].as_array_mut().unwrap();
    assert_eq!(dirs.len(), 1);
    let absolute = dir.path().join("absolute/dir");
    for path in [
        "../outside/dir",
        "alone",
        "nowhere/else",
        absolute.to_str().unwrap(),
    ] {
        dirs.push(serde_json::json!({"path": path, "mode": 0o755}));
    }
    fs::write(&manifest, value.to_string()).unwrap();
    store.trash().restore(ID).unwrap();
    let root = &store.roots()[0].path;
    assert!(root.join(&trashed.files[0].path).exists());
    assert!(!dir.path().join("outside").exists() && !absolute.exists());
    assert!(!root.join("alone").exists() && !root.join("nowhere").exists());
}

/// The process was killed after it moved the files, before it updated the session list.
#[test]
fn finish_cleaning_removes_a_leftover_session_list_row() {
    let copy = case("chorus-plain").copy();
    let store = copy.store();
    let files = store.inventory().sessions.remove(0);
    let index = files.main_path().with_file_name("conversations.json");
    let before = fs::read(&index).unwrap();
    store
        .trash()
        .move_in(&files, Timestamp::UNIX_EPOCH)
        .unwrap();
    let struck = fs::read(&index).unwrap();
    assert_ne!(struck, before);
    fs::write(&index, &before).unwrap();
    store.retention().finish().unwrap();
    assert_eq!(fs::read(&index).unwrap(), struck);
}
