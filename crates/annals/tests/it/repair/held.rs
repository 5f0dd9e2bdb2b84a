//! A repaired log that another program holds open is not replaced.

use super::deeds::{damaged, now};
use crate::writer::held::{Holder, held};

#[test]
fn undo_refuses_a_log_held_open() {
    let place = damaged();
    let store = place.store();
    let before = place.bytes();
    let kept = store.repairs().apply(&place.plan(), true, now()).unwrap();
    let repaired = place.bytes();
    let holder = Holder::open(&place.log);
    held(|| store.repairs().undo(&kept), &place.log);
    assert_eq!(place.bytes(), repaired);
    holder.end();
    store.repairs().undo(&kept).unwrap();
    assert_eq!(place.bytes(), before);
}

#[test]
fn repair_refuses_a_log_held_open_even_with_live() {
    let place = damaged();
    let store = place.store();
    let before = place.bytes();
    let plan = place.plan();
    let holder = Holder::open(&place.log);
    held(
        || store.repairs().apply(&plan, true, now()).map(drop),
        &place.log,
    );
    assert_eq!(place.bytes(), before);
    assert!(store.repairs().list().unwrap().0.is_empty());
    holder.end();
    store.repairs().apply(&plan, true, now()).unwrap();
    assert_ne!(place.bytes(), before);
}

/// A process was killed while the log had another name.
#[test]
fn undo_puts_back_a_log_that_a_killed_process_was_replacing() {
    let place = damaged();
    let store = place.store();
    let before = place.bytes();
    let kept = store.repairs().apply(&place.plan(), true, now()).unwrap();
    let name = place.log.file_name().unwrap().to_str().unwrap();
    let removed = place.log.with_file_name(format!(".annals-{name}.removed"));
    std::fs::rename(&place.log, &removed).unwrap();
    store.repairs().undo(&kept).unwrap();
    assert_eq!(place.bytes(), before);
    assert!(!removed.exists());
}
