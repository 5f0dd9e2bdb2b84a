//! Concurrent changes of pins.

use std::cell::Cell;

use super::*;
use crate::store::Store;

fn pin(session: &str) -> Pin {
    Pin {
        layout: "claude-code".to_owned(),
        root: PathBuf::from("/root"),
        session: session.to_owned(),
        pinned: Timestamp::UNIX_EPOCH,
    }
}

fn sessions(store: &Store) -> Vec<String> {
    let pins = store.retention().pins().unwrap();
    pins.iter().map(|pin| pin.session.clone()).collect()
}

#[test]
fn concurrent_first_pin_is_preserved() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let store = Store::new(Vec::new()).with_state(&state);
    let turns = Cell::new(0);
    let add = |name: &str| {
        store.retention().change_pins(|list| {
            list.push(pin(name));
            vec![pin(name)]
        })
    };
    let changed = store.retention().change_pins(|list| {
        // Between read and write of the first attempt.
        if turns.replace(turns.get() + 1) == 0 {
            add("theirs").unwrap();
        }
        list.push(pin("mine"));
        vec![pin("mine")]
    });
    assert_eq!(changed.unwrap(), [pin("mine")]);
    assert_eq!(turns.get(), 2);
    assert_eq!(sessions(&store), ["theirs", "mine"]);
}

#[test]
fn change_pins_does_not_retry_an_io_error() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(Vec::new()).with_state(dir.path());
    // A directory in place of the temporary file.
    let tag: String = Digest::compute(FILE.as_bytes())
        .0
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    fs::create_dir(dir.path().join(format!(".annals-{tag}.tmp"))).unwrap();
    let turns = Cell::new(0);
    let failed = store.retention().change_pins(|list| {
        turns.set(turns.get() + 1);
        list.push(pin("mine"));
        vec![pin("mine")]
    });
    assert!(
        matches!(failed, Err(Error::File(FileError::Io { .. }))),
        "{failed:?}"
    );
    assert_eq!(turns.get(), 1);
}
