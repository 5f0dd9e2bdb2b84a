//! Packs with a false index or false content.

use super::*;

/// Returns the error of opening a pack with a forged index.
fn forged(desk: &Fixture, lie: impl FnOnce(&mut PackIndex)) -> String {
    forge(desk, lie);
    let error = match Pack::open(&desk.pack) {
        Ok(_) => "opened".to_owned(),
        Err(error) => error.to_string(),
    };
    fs::remove_file(&desk.pack).unwrap();
    error
}

#[test]
fn open_refuses_invalid_index_with_the_reason() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 2 << 20));
    desk.put(TODOS, "[1]");
    type Lie = fn(&mut PackIndex);
    let lies: &[(Lie, &str)] = &[
        (|_| {}, "opened"),
        (
            |it| it.members[0].path = "../x.jsonl".into(),
            "is not a valid path in its layout",
        ),
        (
            |it| it.members[0].path = "/etc/passwd".into(),
            "is not a valid path in its layout",
        ),
        (
            |it| it.members[0].path = "projects/../../x.jsonl".into(),
            "is not a valid path in its layout",
        ),
        (
            |it| it.members[0].path = "elsewhere/x.txt".into(),
            "is not a valid path in its layout",
        ),
        (
            |it| it.members[0].path = "elsewhere/.annals-x.txt.removed".into(),
            "is not a valid path in its layout",
        ),
        // An earlier version archived files that were being removed.
        (
            |it| {
                let name = it.members[1].path.file_name().unwrap().to_str().unwrap();
                let name = format!(".annals-{name}.removed");
                it.members[1].path.set_file_name(name);
            },
            "opened",
        ),
        (
            |it| it.members[1].path = it.members[0].path.clone(),
            "twice",
        ),
        (|it| it.members[0].len += 1, "bytes but claims"),
        (
            |it| it.members[0].parts[0].len += 1,
            "extends past the end of frame",
        ),
        (
            |it| it.members[0].parts[0].frame = 99,
            "extends past the end of frame 99",
        ),
        (
            |it| it.members[1].parts = vec![it.members[0].parts[0]],
            "bytes but claims",
        ),
        (
            |it| {
                it.members[1].parts = vec![it.members[0].parts[0]];
                it.members[1].len = it.members[0].parts[0].len.into();
            },
            "files overlap in frame",
        ),
        (|it| it.frames[0].len = u32::MAX, "claims to hold"),
        (
            |it| it.frames[0].bytes = u32::MAX,
            "extends past the end of the pack",
        ),
        (|it| it.frames[1].at = it.frames[0].at, "overlaps another"),
        (|it| it.frames[0].at = 0, "overlaps another"),
        (
            |it| it.layout = "no-such".into(),
            "is not a valid path in its layout",
        ),
        (|it| it.version = 7, "has version 7"),
        (|it| it.lone = true, "is not a valid path in its layout"),
    ];
    for (lie, wanted) in lies {
        let error = forged(&desk, lie);
        assert!(error.contains(wanted), "{error} / {wanted}");
    }
}

#[test]
fn frame_longer_than_its_index_says_is_an_error() {
    let desk = Fixture::new();
    desk.put(LOG, vec![0; 1 << 20]);
    desk.put(TODOS, "");
    let pack = desk.store().pack;
    // The content is 1 MiB; the index claims less.
    let mut frame = pack.index.frames[0];
    frame.len = 10;
    let mut cache = pack::Cache::default();
    assert!(pack.try_frame(&frame, &mut cache).is_err());
}

#[test]
fn content_that_looks_like_an_index_is_ignored() {
    let desk = Fixture::new();
    desk.put(LOG, "{}\n");
    desk.put(TODOS, "[]");
    desk.store();
    let inner = fs::read(&desk.pack).unwrap();
    fs::remove_file(&desk.pack).unwrap();
    // A whole pack as content, which does not compress further.
    desk.put(LOG, &inner);
    let first = desk.store().pack.bytes;
    desk.add(LOG, &inner);
    desk.store();
    let whole = fs::read(&desk.pack).unwrap();
    fs::write(&desk.pack, &whole[..second_index(&whole) - 1]).unwrap();
    let pack = Pack::open(&desk.pack).unwrap();
    assert_eq!(pack.bytes - pack.torn, first);
    assert_eq!(all(&pack, &pack.members()[0]), inner);
}
