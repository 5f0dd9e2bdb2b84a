//! Permanent removal.

use super::*;
use annals::jsonl::Error as FileError;
use annals::store::Purgeable;

fn deleted() -> (TempDir, Store, Purgeable) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root]).with_state(dir.path().join("state"));
    let writer = begin(&store, "/home/dev/w");
    writer.append(Draft::user("Why?")).unwrap();
    writer.set_todos(&[Todo::pending("Wait")]).unwrap();
    drop(writer);
    let files = store.inventory().sessions.remove(0);
    let now = "2026-03-01T10:00:00Z".parse().unwrap();
    store.trash().move_in(&files, now).unwrap();
    let item = store.trash().contents().unwrap().purgeable.remove(0);
    (dir, store, item)
}

#[test]
fn trash_item_is_counted_and_dated() {
    let (dir, _store, item) = deleted();
    let folder = dir.path().join("state/undo").join(&item.name).join("files");
    let files = files_in(&folder);
    let bytes: u64 = files
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum();
    assert_eq!((item.files, item.bytes), (2, bytes));
    let at = |time: &str| item.is_older_than(time.parse().unwrap());
    assert!(at("2026-03-01T10:00:01Z"));
    assert!(!at("2026-03-01T10:00:00Z") && !at("2026-03-01T09:59:59Z"));
}

#[test]
fn trash_item_changed_since_is_not_purged() {
    for (from, to) in [
        ("2026-03-01T10:00:00", "2026-03-01T10:00:07"),
        (&format!("\"{ID}\"\n"), "\"other\"\n"),
    ] {
        let (dir, store, item) = deleted();
        let manifest = dir
            .path()
            .join("state/undo")
            .join(&item.name)
            .join("manifest.json");
        let text = fs::read_to_string(&manifest).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&manifest, text.replace(from, to)).unwrap();
        let refused = store.trash().purge(&item);
        assert!(
            matches!(refused, Err(Error::File(FileError::Changed { .. }))),
            "{refused:?}"
        );
        assert!(manifest.exists());
    }
}

#[test]
fn purge_without_manifest_accepts_only_purging_folders() {
    let (dir, store, mut item) = deleted();
    let trash = dir.path().join("state/undo");
    let whole = trash.join(&item.name);
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    item.trashed = None;
    assert!(store.trash().purge(&item).is_err());
    item.name = ".purging-x/../../../outside".to_owned();
    fs::create_dir(trash.join(".purging-x")).unwrap();
    assert!(store.trash().purge(&item).is_err());
    assert!(whole.exists() && outside.exists());
    // The rest of an interrupted purge is removed; it may already be gone.
    let look = store.trash().contents().unwrap();
    let left: Vec<&Purgeable> = look
        .purgeable
        .iter()
        .filter(|it| it.trashed.is_none())
        .collect();
    assert_eq!(left.len(), 1);
    store.trash().purge(left[0]).unwrap();
    assert!(!trash.join(".purging-x").exists());
    store.trash().purge(left[0]).unwrap();
    // A failed removal is an error.
    fs::write(trash.join(".purging-x"), "").unwrap();
    assert!(store.trash().purge(left[0]).is_err());
}

#[test]
fn leftovers_of_earlier_purges_do_not_block_a_new_one() {
    let (dir, store, item) = deleted();
    let trash = dir.path().join("state/undo");
    for copy in ["", "-2", "-3"] {
        fs::create_dir(trash.join(format!(".purging-{}{copy}", item.name))).unwrap();
    }
    store.trash().purge(&item).unwrap();
    assert!(!trash.join(&item.name).exists());
    let look = store.trash().contents().unwrap();
    assert_eq!(look.purgeable.len(), 3);
    assert!(
        look.purgeable
            .iter()
            .all(|it| it.is_older_than(Timestamp::MIN))
    );
}
