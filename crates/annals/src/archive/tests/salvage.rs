//! Recovery of damaged packs.

use super::*;

/// Damages a pack and salvages it.
#[track_caller]
fn salvaged(desk: &Fixture, damage: impl FnOnce(&mut Vec<u8>)) -> Salvaged {
    let mut bytes = fs::read(&desk.pack).unwrap();
    damage(&mut bytes);
    fs::write(&desk.pack, bytes).unwrap();
    Pack::salvage(&desk.pack).unwrap()
}

/// A pack of one small session with a single index, as the first versions of annals wrote it.
fn with_one_index() -> (Fixture, Vec<u8>) {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[1]");
    desk.store();
    let mut whole = fs::read(&desk.pack).unwrap();
    whole.truncate(second_index(&whole));
    fs::write(&desk.pack, &whole).unwrap();
    desk.assert_pack_matches_root();
    (desk, whole)
}

#[test]
fn salvage_survives_any_flipped_bit_outside_of_frames() {
    let (desk, whole) = with_one_index();
    let pack = Pack::open(&desk.pack).unwrap();
    let frames = pack.index.frames.iter().map(Frame::end).max().unwrap() as usize;
    for at in (0..pack::HEADER).chain(frames..whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&desk.pack, &bytes).unwrap();
        let salvaged = Pack::salvage(&desk.pack).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert!(
            salvaged.damage.is_some() || Pack::open(&desk.pack).is_ok(),
            "{at}"
        );
        let wanted = fs::read(desk.root.join(LOG)).unwrap();
        assert!(
            all(&salvaged.pack, &salvaged.pack.members()[0]) == wanted,
            "{at}"
        );
    }
}

#[test]
fn pack_opens_with_one_of_two_indexes() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[1]");
    let whole = desk.store().pack.bytes as usize;
    let opened = salvaged(&desk, |bytes| bytes[whole - 200..].fill(0));
    assert_eq!(opened.damage, None);
    assert!(opened.pack.torn > 0);
    assert!(
        !verify(&opened.pack).is_empty(),
        "it is reason all the same"
    );
    desk.assert_pack_matches_root();
    // The next update repairs it.
    assert!(!desk.store().unchanged);
    assert_eq!(desk.assert_pack_matches_root().torn, 0);
    // Damage to the other copy is repaired too.
    let opened = salvaged(&desk, |bytes| {
        let at = second_index(bytes);
        bytes[at - 100] ^= 1;
    });
    assert_eq!((opened.damage, opened.pack.torn), (None, 0));
    assert_eq!(verify(&opened.pack).len(), 1);
    desk.store();
    assert_eq!(verify(&desk.assert_pack_matches_root()), []);
}

#[test]
fn salvage_opens_a_pack_without_its_header() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[1]");
    desk.store();
    let opened = salvaged(&desk, |bytes| bytes[..pack::HEADER].fill(0));
    assert_eq!(opened.damage.as_deref(), Some("its header is damaged"));
    assert!(all(&opened.pack, &opened.pack.members()[0]) == lines(1, 3_000));
}

#[test]
fn salvage_refuses_a_newer_version() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[1]");
    desk.store();
    let lie = |index: &mut PackIndex| index.version = 2;
    forge(&desk, lie);
    let mut bytes = fs::read(&desk.pack).unwrap();
    bytes[12] = 2;
    fs::write(&desk.pack, bytes).unwrap();
    let error = Pack::salvage(&desk.pack).unwrap_err().to_string();
    assert!(error.contains("version 2"), "{error}");
}

#[test]
fn restore_salvaged_restores_a_log_without_its_lost_frame() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3 << 20));
    desk.put(TODOS, "[1]");
    let pack = desk.store().pack;
    let wanted = fs::read(desk.root.join(LOG)).unwrap();
    let frame = pack.index.frames[1];
    let opened = salvaged(&desk, |bytes| {
        bytes[frame.at as usize + 1_000..][..100].fill(7);
    });
    let pack = opened.pack;
    let lost = pack.lost_ranges(&pack.members()[0]);
    assert_eq!(lost, vec![1 << 20..2 << 20]);
    let there = desk.dir.path().join("there");
    assert!(pack.restore(Some(&there)).is_err());
    assert!(!there.join(LOG).exists());
    let done = pack.restore_salvaged(Some(&there)).unwrap();
    let fates: Vec<RestoreOutcome> = done.files.iter().map(|file| file.fate).collect();
    assert_eq!(fates, [RestoreOutcome::Partial, RestoreOutcome::New]);
    assert_eq!(done.files[0].lost, [(1 << 20, 1 << 20)]);
    assert_eq!(done.bytes(), wanted.len() as u64 - (1 << 20) + 3);
    assert_eq!(done.damaged().count(), 1);
    assert!(!done.is_lost());
    let got = fs::read(there.join(LOG)).unwrap();
    let rest = [&wanted[..1 << 20], b"\n", &wanted[2 << 20..]].concat();
    assert!(got == rest);
    assert_eq!(fs::read(there.join(TODOS)).unwrap(), b"[1]");
}

/// An empty log would look like a session without messages, and a part of a document like all of
/// it.
#[test]
fn restore_salvaged_refuses_when_all_is_lost() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[1]");
    let frames = desk.store().pack.index.frames.clone();
    let opened = salvaged(&desk, |bytes| {
        for frame in &frames {
            bytes[frame.at as usize..][..frame.bytes as usize].fill(7);
        }
    });
    let there = desk.dir.path().join("there");
    let plan = opened.pack.plan_salvage(Some(&there)).unwrap();
    assert!(plan.is_lost());
    assert_eq!((plan.bytes(), plan.damaged().count()), (0, 2));
    let refused = opened.pack.restore_salvaged(Some(&there)).unwrap_err();
    let reason = "none of its files can be read";
    assert!(refused.to_string().contains(reason), "{refused}");
    assert!(!there.join(LOG).exists() && !there.join(TODOS).exists());
}

/// The replaced index still lists the frame that the newest one replaced.
#[test]
fn restore_salvaged_uses_the_previous_index_for_lost_frames() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 300_000));
    desk.put(TODOS, "[1]");
    let before = desk.store().pack;
    desk.add(LOG, lines(2, 3_000));
    desk.put(TODOS, "[1,2]");
    let pack = desk.store().pack;
    let old: Vec<u64> = before.index.frames.iter().map(|frame| frame.at).collect();
    let fresh = pack.index.frames.iter().filter(|it| !old.contains(&it.at));
    let fresh: Vec<Frame> = fresh.copied().collect();
    assert!(!fresh.is_empty());
    let opened = salvaged(&desk, |bytes| {
        for frame in &fresh {
            bytes[frame.at as usize..][..frame.bytes as usize].fill(7);
        }
    });
    let there = desk.dir.path().join("there");
    let done = opened.pack.restore_salvaged(Some(&there)).unwrap();
    assert!(done.damaged().count() > 0 && !done.is_lost());
    let log = &done.files[0];
    let got = fs::read(there.join(LOG)).unwrap();
    let whole = lines(1, 300_000);
    // Whatever the frame layout, the content before the last growth is restored.
    assert!(got.starts_with(&whole) || got == whole, "{log:?}");
    let todos = &done.files[1];
    assert_eq!(
        (todos.fate, todos.earlier.is_some()),
        (RestoreOutcome::Earlier, true)
    );
    assert_eq!(fs::read(there.join(TODOS)).unwrap(), b"[1]");
    // Intact files are restored unchanged.
    let sound = Fixture::new();
    sound.put(LOG, lines(1, 3_000));
    sound.put(TODOS, "[1]");
    sound.store();
    let plan = sound.store().pack.plan_salvage(Some(&there.join("other")));
    assert!(
        plan.unwrap()
            .files
            .iter()
            .all(|file| file.earlier.is_none())
    );
}

/// A truncated log has an earlier version, of which more can be read.
#[test]
fn restore_salvaged_uses_the_earlier_version_of_a_log() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 30_000));
    desk.put(TODOS, "[1]");
    let old = desk.store().pack.index.frames.clone();
    desk.put(LOG, lines(9, 20_000));
    let pack = desk.store().pack;
    assert_eq!(pack.earlier_versions().len(), 1);
    let fresh = pack.index.frames.iter().filter(|it| !old.contains(it));
    let fresh: Vec<Frame> = fresh.copied().collect();
    let opened = salvaged(&desk, |bytes| {
        for frame in &fresh {
            bytes[frame.at as usize..][..frame.bytes as usize].fill(7);
        }
    });
    let there = desk.dir.path().join("there");
    let done = opened.pack.restore_salvaged(Some(&there)).unwrap();
    assert_eq!(done.files[0].fate, RestoreOutcome::Earlier);
    assert_eq!(done.files[0].earlier, pack.earlier_versions()[0].until);
    assert!(fs::read(there.join(LOG)).unwrap() == lines(1, 30_000));
}
