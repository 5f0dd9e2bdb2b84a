//! A repaired log that another program holds open is not replaced.

use super::deeds::{damaged, now};
use crate::writer::held::{Holder, held};

#[test]
fn undo_refuses_a_log_held_open() {
    let place = damaged();
    let store = place.store();
    let before = place.bytes();
    let kept = store.repairs().apply(&place.plan(), true, now()).unwrap();
    let mended = place.bytes();
    let holder = Holder::of(&place.log);
    held(|| store.repairs().undo(&kept, false), &place.log);
    assert_eq!(place.bytes(), mended);
    // Unless the caller overrides it.
    store.repairs().undo(&kept, true).unwrap();
    assert_eq!(place.bytes(), before);
    holder.end();
}
