//! What is told of packs that are harmed, and what becomes of them.

use super::super::session::confirm;
use super::*;

/// A pack of a log and todos.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.put(LOG, "{\"a\":1}\n".repeat(2_000));
    desk.put(TODOS, "[]");
    desk.store();
    desk
}

fn harm(desk: &Desk, harm: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(&desk.pack).unwrap();
    harm(&mut bytes);
    fs::write(&desk.pack, bytes).unwrap();
}

/// Every bit of a header's version that flips is damage, told as such and mended: no newer program wrote it.
#[test]
fn a_flipped_bit_of_the_version_is_no_newer_version() {
    for bit in 0..32 {
        let desk = desk();
        harm(&desk, |bytes| bytes[12 + bit / 8] ^= 1 << (bit % 8));
        let told = Pack::open(&desk.pack).unwrap_err().to_string();
        assert!(!told.contains("update this one"), "bit {bit}: {told}");
        assert!(told.contains("--salvage"), "bit {bit}: {told}");
        assert!(Pack::salvage(&desk.pack).unwrap().wrong.is_some());
        let stored = desk.store();
        assert!(
            stored.mended.is_some() && stored.set_aside.is_none(),
            "bit {bit}"
        );
        desk.same();
    }
}

/// Nobody is told to try what was tried.
#[test]
fn who_has_salvaged_is_not_told_to_salvage() {
    let desk = desk();
    harm(&desk, |bytes| bytes.fill(0));
    let opened = Pack::open(&desk.pack).unwrap_err().to_string();
    assert!(
        opened.contains("`annals restore --salvage` looks further"),
        "{opened}"
    );
    let salvaged = Pack::salvage(&desk.pack).unwrap_err().to_string();
    assert!(!salvaged.contains("looks further"), "{salvaged}");
    assert!(salvaged.contains("only a backup"), "{salvaged}");
}

/// One of which the header and a frame are damaged cannot be written anew: it is set aside whole, and
/// what is left in it is read there.
#[test]
fn what_was_set_aside_is_salvaged_where_it_is() {
    let desk = Desk::new();
    let random: String = (0..300_000u64)
        .map(|at| format!("{{\"n\":{}}}\n", at.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    desk.put(LOG, &random);
    desk.put(TODOS, "[]");
    let pack = desk.store().pack;
    let second = pack.index.frames[1];
    harm(&desk, |bytes| {
        bytes[3] ^= 1;
        bytes[second.at as usize + 100] ^= 1;
    });
    let aside = desk.store().set_aside.unwrap().path;
    desk.same();
    let salvaged = Pack::salvage(&aside).unwrap();
    assert!(salvaged.wrong.is_some());
    let log = salvaged.pack.member(Path::new(LOG)).unwrap();
    let lost = salvaged.pack.lost(log);
    assert_eq!(lost.len(), 1);
    assert!(lost[0].end - lost[0].start < log.len);
    // The same by the beginning of the session's id, from among all packs.
    let archive = Archive::open(desk.pack.ancestors().nth(3).unwrap());
    assert_eq!(archive.set_aside_in(None).unwrap(), [aside]);
}

/// What a damaged pack holds is told before it is given up, as far as anybody can.
#[test]
fn what_would_be_forgotten_of_a_damaged_pack_is_told() {
    let desk = desk();
    let archive = Archive::open(desk.pack.ancestors().nth(3).unwrap());
    harm(&desk, |bytes| bytes[0] ^= 1);
    let path = desk.pack.display().to_string();
    let plan = archive.forgetting(&path, None).unwrap().remove(0);
    assert_eq!((plan.files, plan.only, plan.sessions.len()), (2, 0, 1));
    assert!(plan.damaged.is_some());
    fs::remove_file(desk.root.join(TODOS)).unwrap();
    let plan = archive.forgetting(&path, None).unwrap().remove(0);
    assert_eq!(plan.only, 1);
    archive.forget(&plan).unwrap();
    assert!(!desk.pack.exists());
}

/// A file that was changed without its times showing it is not what the pack holds, and stays.
#[test]
fn a_file_that_only_looks_unchanged_is_not_taken_for_archived() {
    let desk = desk();
    let pack = Pack::open(&desk.pack).unwrap();
    let whole = confirm(&pack, &desk.root, Path::new(LOG)).unwrap();
    assert!(whole.untouched(&pack.member(Path::new(LOG)).unwrap().id()));
    // Nobody can set the time of a change: the index is made to say what the file says.
    let mut index = Index::clone(&pack.index);
    desk.put(LOG, "{\"a\":2}\n".repeat(2_000));
    let now = crate::jsonl::FileId::from(&fs::metadata(desk.root.join(LOG)).unwrap());
    let log = index
        .members
        .iter_mut()
        .find(|it| it.path == Path::new(LOG))
        .unwrap();
    (log.dev, log.ino, log.len) = (now.dev, now.ino, now.len);
    (log.mtime_ns, log.ctime_ns) = (now.mtime_ns, now.ctime_ns);
    let mut lying = pack.clone();
    lying.index = index.into();
    let told = confirm(&lying, &desk.root, Path::new(LOG))
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("is not what the archive holds of it"),
        "{told}"
    );
    // One that is gone, or that the pack never held, is no reason to remove anything either.
    let changed = confirm(&pack, &desk.root, Path::new(LOG)).unwrap_err();
    assert!(matches!(changed, Error::Changed { .. }));
    fs::remove_file(desk.root.join(TODOS)).unwrap();
    let gone = confirm(&pack, &desk.root, Path::new(TODOS)).unwrap_err();
    assert!(matches!(gone, Error::Changed { .. }));
    let never = confirm(&pack, &desk.root, Path::new("todos/none.json")).unwrap_err();
    assert!(matches!(never, Error::Changed { .. }));
}

/// What another program than ours may have written is not taken for damage.
#[test]
fn a_version_that_no_flipped_bit_makes_or_that_the_index_says_too_is_a_newer_one() {
    for (header, index) in [(3, 3), (7, 1), (7, 7)] {
        let desk = desk();
        forge(&desk, |it| it.version = index);
        harm(&desk, |bytes| bytes[12] = header);
        let told = Pack::open(&desk.pack).unwrap_err().to_string();
        assert!(told.contains("update this one"), "{header} {index}: {told}");
    }
}

#[test]
fn files_beside_the_main_log_may_differ_and_the_main_log_may_not() {
    const AGENT: &str =
        "projects/-app/8c549c46-16ca-47dd-b731-f4c264becc53/subagents/agent-a1.jsonl";
    let desk = Desk::new();
    for path in [LOG, AGENT] {
        desk.put(path, "{}\n");
    }
    desk.put(TODOS, "[1]");
    let mut contents = desk.contents();
    contents.files.push((AGENT.into(), true));
    store(&desk.pack, &contents, now()).unwrap();
    desk.put(TODOS, "[2]");
    let pack = store(&desk.pack, &contents, now()).unwrap().pack;
    desk.put(TODOS, "[3]");
    desk.put(AGENT, "[]\n");
    let fates = |pack: &Pack| -> Vec<(PathBuf, Fate)> {
        let files = pack.restoring(None).unwrap().files.into_iter();
        files.map(|file| (file.path, file.fate)).collect()
    };
    let wanted = |log: Fate, todos: Fate| {
        [(LOG, log), (TODOS, todos), (AGENT, Fate::Left)]
            .map(|(path, fate)| (PathBuf::from(path), fate))
    };
    assert_eq!(fates(&pack), wanted(Fate::Same, Fate::Left));
    // One that is put back in an earlier version is meant.
    let earlier = pack.with_earlier(1).unwrap();
    assert_eq!(fates(&earlier), wanted(Fate::Same, Fate::Different));
    fs::remove_file(desk.root.join(LOG)).unwrap();
    assert_eq!(fates(&pack), wanted(Fate::New, Fate::Left));
    pack.restore(None).unwrap();
    let now = |path: &str| fs::read_to_string(desk.root.join(path)).unwrap();
    assert_eq!([LOG, TODOS, AGENT].map(now), ["{}\n", "[3]", "[]\n"]);
    desk.put(LOG, "[]\n");
    assert_eq!(fates(&pack), wanted(Fate::Different, Fate::Left));
    assert!(pack.restore(None).is_err());
}
