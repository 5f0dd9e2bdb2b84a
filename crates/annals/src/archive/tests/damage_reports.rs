//! Reports about damaged packs, and their repair.

use super::super::session::confirm;
use super::*;

/// A pack of a log and todos.
fn desk() -> Fixture {
    let desk = Fixture::new();
    desk.put(LOG, "{\"a\":1}\n".repeat(2_000));
    desk.put(TODOS, "[]");
    desk.store();
    desk
}

fn harm(desk: &Fixture, harm: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(&desk.pack).unwrap();
    harm(&mut bytes);
    fs::write(&desk.pack, bytes).unwrap();
}

/// Any flipped bit of the header's version is reported as damage and repaired, not taken for a
/// newer version.
#[test]
fn flipped_version_bit_is_damage_and_is_repaired() {
    for bit in 0..32 {
        let desk = desk();
        harm(&desk, |bytes| bytes[12 + bit / 8] ^= 1 << (bit % 8));
        let error = Pack::open(&desk.pack).unwrap_err().to_string();
        assert!(!error.contains("update this one"), "bit {bit}: {error}");
        assert!(error.contains("--salvage"), "bit {bit}: {error}");
        assert!(Pack::salvage(&desk.pack).unwrap().damage.is_some());
        let stored = desk.store();
        assert!(
            stored.repaired.is_some() && stored.set_aside.is_none(),
            "bit {bit}"
        );
        desk.assert_pack_matches_root();
    }
}

/// The error of a failed salvage does not suggest salvage.
#[test]
fn salvage_error_does_not_suggest_salvage() {
    let desk = desk();
    harm(&desk, |bytes| bytes.fill(0));
    let opened = Pack::open(&desk.pack).unwrap_err().to_string();
    assert!(
        opened.contains("try `annals restore --salvage`"),
        "{opened}"
    );
    let salvaged = Pack::salvage(&desk.pack).unwrap_err().to_string();
    assert!(!salvaged.contains("restore --salvage"), "{salvaged}");
    assert!(salvaged.contains("only a backup"), "{salvaged}");
}

/// A pack with a damaged header and a damaged frame cannot be rewritten: it is set aside unchanged,
/// and what is left can be salvaged from it.
#[test]
fn set_aside_pack_can_be_salvaged() {
    let desk = Fixture::new();
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
    desk.assert_pack_matches_root();
    let salvaged = Pack::salvage(&aside).unwrap();
    assert!(salvaged.damage.is_some());
    let log = salvaged.pack.member(Path::new(LOG)).unwrap();
    let lost = salvaged.pack.lost_ranges(log);
    assert_eq!(lost.len(), 1);
    assert!(lost[0].end - lost[0].start < log.len);
    // The archive lists the pack that was set aside.
    let archive = Archive::open(desk.pack.ancestors().nth(3).unwrap());
    assert_eq!(archive.set_aside_in(None).unwrap(), [aside]);
}

/// The removal plan lists the contents of a damaged pack as far as they are known.
#[test]
fn plan_removal_reports_contents_of_damaged_pack() {
    let desk = desk();
    let archive = Archive::open(desk.pack.ancestors().nth(3).unwrap());
    harm(&desk, |bytes| bytes[0] ^= 1);
    let path = desk.pack.display().to_string();
    let plan = archive.plan_removal(&path, None).unwrap().remove(0);
    assert_eq!((plan.files, plan.only, plan.sessions.len()), (2, 0, 1));
    assert!(plan.damaged.is_some());
    fs::remove_file(desk.root.join(TODOS)).unwrap();
    let plan = archive.plan_removal(&path, None).unwrap().remove(0);
    assert_eq!(plan.only, 1);
    archive.remove_pack(&plan).unwrap();
    assert!(!desk.pack.exists());
}

/// A file that was changed without a change of its times differs from the pack, and is not removed.
#[test]
fn confirm_compares_content_not_only_times() {
    let desk = desk();
    let pack = Pack::open(&desk.pack).unwrap();
    let whole = confirm(&pack, &desk.root, Path::new(LOG)).unwrap();
    assert!(whole.untouched(&pack.member(Path::new(LOG)).unwrap().id()));
    // The ctime cannot be set, so the index is changed to match the file.
    let mut index = PackIndex::clone(&pack.index);
    desk.put(LOG, "{\"a\":2}\n".repeat(2_000));
    let now = annals_jsonl::FileId::from(&fs::metadata(desk.root.join(LOG)).unwrap());
    let log = index
        .members
        .iter_mut()
        .find(|it| it.path == Path::new(LOG))
        .unwrap();
    (log.dev, log.ino, log.len) = (now.dev, now.ino, now.len);
    (log.mtime_ns, log.ctime_ns) = (now.mtime_ns, now.ctime_ns);
    let mut lying = pack.clone();
    lying.index = index.into();
    let error = confirm(&lying, &desk.root, Path::new(LOG))
        .unwrap_err()
        .to_string();
    assert!(error.contains("differs from its archived copy"), "{error}");
    // A file that is missing, or was never in the pack, is an error too.
    let changed = confirm(&pack, &desk.root, Path::new(LOG)).unwrap_err();
    assert!(matches!(
        changed,
        Error::File(annals_jsonl::Error::Changed { .. })
    ));
    fs::remove_file(desk.root.join(TODOS)).unwrap();
    let gone = confirm(&pack, &desk.root, Path::new(TODOS)).unwrap_err();
    assert!(matches!(
        gone,
        Error::File(annals_jsonl::Error::Changed { .. })
    ));
    let never = confirm(&pack, &desk.root, Path::new("todos/none.json")).unwrap_err();
    assert!(matches!(
        never,
        Error::File(annals_jsonl::Error::Changed { .. })
    ));
}

/// A pack that another program may have written is not reported as damaged.
#[test]
fn version_confirmed_by_index_or_not_one_bit_off_is_newer() {
    for (header, index) in [(3, 3), (7, 1), (7, 7)] {
        let desk = desk();
        forge(&desk, |it| it.version = index);
        harm(&desk, |bytes| bytes[12] = header);
        let error = Pack::open(&desk.pack).unwrap_err().to_string();
        assert!(
            error.contains("update this one"),
            "{header} {index}: {error}"
        );
    }
}

#[test]
fn restore_leaves_different_attachments_but_not_main_log() {
    const AGENT: &str =
        "projects/-app/8c549c46-16ca-47dd-b731-f4c264becc53/subagents/agent-a1.jsonl";
    let desk = Fixture::new();
    for path in [LOG, AGENT] {
        desk.put(path, "{}\n");
    }
    desk.put(TODOS, "[1]");
    let mut contents = desk.contents();
    contents.files.push((AGENT.into(), true));
    update_pack(&desk.pack, &contents, now()).unwrap();
    desk.put(TODOS, "[2]");
    let pack = update_pack(&desk.pack, &contents, now()).unwrap().pack;
    desk.put(TODOS, "[3]");
    desk.put(AGENT, "[]\n");
    let fates = |pack: &Pack| -> Vec<(PathBuf, RestoreOutcome)> {
        let files = pack.plan_restore(None).unwrap().files.into_iter();
        files.map(|file| (file.path, file.fate)).collect()
    };
    let wanted = |log: RestoreOutcome, todos: RestoreOutcome| {
        [(LOG, log), (TODOS, todos), (AGENT, RestoreOutcome::Left)]
            .map(|(path, fate)| (PathBuf::from(path), fate))
    };
    assert_eq!(
        fates(&pack),
        wanted(RestoreOutcome::Same, RestoreOutcome::Left)
    );
    // An earlier version that was asked for is not left.
    let earlier = pack.with_earlier_version(1).unwrap();
    assert_eq!(
        fates(&earlier),
        wanted(RestoreOutcome::Same, RestoreOutcome::Different)
    );
    fs::remove_file(desk.root.join(LOG)).unwrap();
    assert_eq!(
        fates(&pack),
        wanted(RestoreOutcome::New, RestoreOutcome::Left)
    );
    pack.restore(None).unwrap();
    let now = |path: &str| fs::read_to_string(desk.root.join(path)).unwrap();
    assert_eq!([LOG, TODOS, AGENT].map(now), ["{}\n", "[3]", "[]\n"]);
    desk.put(LOG, "[]\n");
    assert_eq!(
        fates(&pack),
        wanted(RestoreOutcome::Different, RestoreOutcome::Left)
    );
    assert!(pack.restore(None).is_err());
}
