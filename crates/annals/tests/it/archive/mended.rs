//! Reports of a pack that had to be rewritten or quarantined.

use annals::model::Draft;
use annals::store::{Root, SessionFiles, Store};
use jiff::Timestamp;

#[test]
fn damaged_pack_is_repaired_or_quarantined_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root]).with_state(dir.path().join("state"));
    let session = store.begin("/home/me/app").unwrap();
    session.append(Draft::user("Why?")).unwrap();
    drop(session);
    let mirror = || {
        let inventory = store.inventory_without_archive();
        let group: Vec<&SessionFiles> = inventory.sessions.iter().collect();
        store.copy_to_archive(&group, Timestamp::now()).unwrap()
    };
    let first = mirror();
    assert!(first.mended.is_none() && first.set_aside.is_none() && !first.unchanged);
    assert!(mirror().unchanged);
    // All members can still be read.
    let whole = std::fs::read(&first.pack).unwrap();
    let mut damaged = whole.clone();
    damaged[..16].fill(0);
    std::fs::write(&first.pack, damaged).unwrap();
    let second = mirror();
    assert_eq!(second.mended.as_deref(), Some("its header is damaged"));
    assert!(second.set_aside.is_none() && !second.unchanged);
    assert!(mirror().unchanged);
    // No member can be read.
    std::fs::write(&first.pack, vec![7; whole.len()]).unwrap();
    let third = mirror();
    assert!(third.mended.is_none() && !third.unchanged);
    let aside = third.set_aside.unwrap();
    assert_eq!(std::fs::read(&aside.path).unwrap(), vec![7; whole.len()]);
    assert_eq!(third.packed, std::fs::metadata(&third.pack).unwrap().len());
}
