//! Scope and storage of pins.

use super::*;

#[test]
fn pin_holds_for_its_root_under_any_path() {
    let place = Place::new("claude-code");
    place.session(1, "/home/dev/w", "2026-01-01T10:00:00Z");
    let files = place.store.inventory().sessions.remove(0);
    place
        .store
        .retention()
        .pin(&[&files], Timestamp::UNIX_EPOCH)
        .unwrap();
    // A session with the same id in another root is a different one.
    let other = Place::new("claude-code");
    other.session(1, "/home/dev/w", "2026-01-01T10:00:00Z");
    let theirs = other.store.inventory().sessions.remove(0);
    let link = place.dir.path().join("link");
    std::os::unix::fs::symlink(&place.root.path, &link).unwrap();
    let linked = Store::new(vec![Root::claude_code(&link)]);
    let linked = linked.inventory().sessions.remove(0);
    let pins = place.store.retention().pins().unwrap();
    assert!(pins.contains_files(&files) && pins.contains_files(&linked));
    assert!(!pins.contains_files(&theirs));
    let again = place
        .store
        .retention()
        .pin(&[&linked], Timestamp::UNIX_EPOCH)
        .unwrap();
    assert!(again.is_empty());
    let new = place
        .store
        .retention()
        .pin(&[&theirs], Timestamp::UNIX_EPOCH)
        .unwrap();
    assert_eq!(new.len(), 1);
    let roots: Vec<PathBuf> = place
        .store
        .retention()
        .pins()
        .unwrap()
        .iter()
        .map(|pin| pin.root.clone())
        .collect();
    assert_eq!(roots, [place.root.path.clone(), other.root.path.clone()]);
}

#[test]
fn unreadable_pins_are_an_error() {
    let place = Place::new("claude-code");
    assert_eq!(place.store.retention().pins().unwrap().iter().count(), 0);
    fs::create_dir_all(place.dir.path().join("state/pins.json")).unwrap();
    assert!(place.store.retention().pins().is_err());
    // If the state directory is not a directory, there are no pins.
    let file = place.dir.path().join("file");
    fs::write(&file, "").unwrap();
    let store = Store::new(Vec::new()).with_state(&file);
    assert_eq!(store.retention().pins().unwrap().iter().count(), 0);
}

#[test]
fn plan_counts_each_file_once() {
    let place = Place::new("claude-code");
    let writer = place.session(1, "/home/dev/w", "2026-01-01T10:00:00Z");
    writer.set_todos(&[Todo::pending("Wait")]).unwrap();
    drop(writer);
    place.session(2, "/home/dev/w", "2026-01-02T10:00:00Z");
    let plan = place.plan("30d", "2026-03-01T00:00:00Z");
    assert_eq!((plan.expired().count(), plan.files()), (2, 3));
    let none = place.plan("30d", "2026-01-05T00:00:00Z");
    assert_eq!((none.expired().count(), none.files()), (0, 0));
}
