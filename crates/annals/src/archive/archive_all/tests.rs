//! Order in which packs are read back.

use std::fs;

use super::*;

#[test]
fn verification_continues_after_the_last_verified_pack() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a", "b", "c", "d"].map(|name| dir.path().join(name));
    for path in &paths {
        fs::write(path, [0; 100]).unwrap();
    }
    let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    let turn = |last: Option<&str>| {
        let note = Note {
            version: VERSION,
            // Half of a round has passed.
            verified: now - ROUND / 2,
            last: last.map(PathBuf::from),
            damaged: BTreeSet::new(),
        };
        let (due, _) = due(dir.path(), &paths, &note, now);
        let names = due.iter().map(|path| path.file_name().unwrap());
        names.map(|it| it.to_str().unwrap().to_owned()).collect()
    };
    let is = |last, wanted: [&str; 2]| {
        let due: Vec<String> = turn(last);
        assert_eq!(due, wanted, "{last:?}");
    };
    is(None, ["a", "b"]);
    is(Some("a"), ["b", "c"]);
    is(Some("b"), ["c", "d"]);
    is(Some("c"), ["d", "a"]);
    is(Some("d"), ["a", "b"]);
    // The last verified pack was removed meanwhile.
    is(Some("bb"), ["c", "d"]);
}
