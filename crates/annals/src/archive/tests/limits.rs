//! Limits of packs, and damaged ends.

use super::*;
use crate::archive::archive_all::ArchiveFailure;
use crate::archive::pack::{END, HEADER};
use crate::archive::pack_index::{FRAME, MEMBERS};
use crate::archive::verify::verify_since;

/// Returns incompressible bytes.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        out.extend_from_slice(&(mixed ^ (mixed >> 27)).to_le_bytes());
    }
    out.truncate(bytes);
    out
}

fn small() -> Fixture {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[]");
    desk.store();
    desk
}

#[track_caller]
fn add_to_pack(desk: &Fixture, bytes: &[u8]) {
    let mut all = fs::read(&desk.pack).unwrap();
    all.extend_from_slice(bytes);
    fs::write(&desk.pack, all).unwrap();
}

#[test]
fn index_beyond_frame_or_size_limits_is_invalid() {
    let desk = small();
    let sound = PackIndex::clone(&Pack::open(&desk.pack).unwrap().index);
    let most = FRAME as u64 + (64 << 10);
    let fault = |change: &dyn Fn(&mut PackIndex)| {
        let mut index = sound.clone();
        change(&mut index);
        index.fault(HEADER as u64..64 << 20).unwrap_or_default()
    };
    assert_eq!(fault(&|_| {}), "");
    let longest =
        |it: &mut PackIndex, bytes: u64| it.frames.last_mut().unwrap().bytes = bytes as u32;
    assert_eq!(fault(&|it| longest(it, most)), "");
    for wrong in [
        &(|it: &mut PackIndex| longest(it, most + 1)) as &dyn Fn(&mut PackIndex),
        &|it| it.frames[0].len = 0,
        &|it| it.frames[0].len = FRAME as u32 + 1,
    ] {
        let report = fault(wrong);
        assert!(report.starts_with("the frame at"), "{report}");
    }
    // Content that a pack of any length may have.
    let full = |count: u64| {
        let mut index = sound.clone();
        index.members.clear();
        index.dirs.clear();
        let frame = |at| Frame {
            at,
            bytes: 1,
            len: FRAME as u32,
        };
        index.frames = (HEADER as u64..HEADER as u64 + count).map(frame).collect();
        index.fault(HEADER as u64..2_000)
    };
    assert_eq!(full(1_024), None);
    assert!(full(1_025).unwrap().contains("more than 1000 times"));
}

#[test]
fn index_with_many_members_and_earlier_versions_is_valid() {
    let desk = small();
    let mut index = PackIndex::clone(&Pack::open(&desk.pack).unwrap().index);
    let empty = Member {
        parts: Vec::new(),
        len: 0,
        ..index.members[0].clone()
    };
    let count = MEMBERS.isqrt() as u64 + 1;
    let named = |n: u64| Member {
        path: format!("projects/-app/{n:08x}-16ca-47dd-b731-f4c264becc53.jsonl").into(),
        ..empty.clone()
    };
    index.members = (0..count).map(named).collect();
    index.earlier = (0..count).map(named).collect();
    index.dirs.clear();
    assert_eq!(index.fault(HEADER as u64..64 << 20), None);
}

#[test]
fn lone_pack_allows_only_a_top_level_jsonl_file() {
    let desk = small();
    let place = |path: &str| {
        let mut index = PackIndex::clone(&Pack::open(&desk.pack).unwrap().index);
        index.lone = true;
        index.members.truncate(1);
        index.dirs.clear();
        index.members[0].path = path.into();
        index.fault(HEADER as u64..64 << 20)
    };
    assert_eq!(place("mine.jsonl"), None);
    for wrong in ["mine.txt", "deep/mine.jsonl", "deep/mine.txt"] {
        assert!(place(wrong).is_some(), "{wrong}");
    }
}

#[test]
fn last_whole_index_is_found_before_any_torn_tail() {
    let desk = Fixture::new();
    desk.put(LOG, noise(1, 2 << 20));
    desk.put(TODOS, "[]");
    desk.store();
    let whole = fs::read(&desk.pack).unwrap();
    let block = 1 << 20;
    // Lengths for which the footer is inside a search block, on its boundary, and before it.
    let lengths = (0..=9).map(|short| block - short);
    for torn in lengths.chain([1, block + 1, 2 * block - 3, 3 * block]) {
        fs::write(&desk.pack, &whole).unwrap();
        add_to_pack(&desk, &noise(2, torn));
        let pack = desk.assert_pack_matches_root();
        assert_eq!(pack.torn, torn as u64);
        let report = verify(&pack);
        assert_eq!(report.len(), 1, "{report:?}");
        let ignored = match torn {
            1 => "its last byte is".to_owned(),
            torn => format!("its last {torn} bytes are"),
        };
        assert!(report[0].detail.contains(&ignored), "{}", report[0].detail);
    }
    // A false end marker does not hide the footer.
    fs::write(&desk.pack, &whole).unwrap();
    add_to_pack(
        &desk,
        &[&[7; 100], &END[..], &[7; 100], &END[..], b"x"].concat(),
    );
    desk.assert_pack_matches_root();
}

#[test]
fn index_that_claims_a_huge_size_is_skipped() {
    let claim = |len: u64| {
        let desk = small();
        let bytes = fs::read(&desk.pack).unwrap();
        let index = &Pack::open(&desk.pack).unwrap().index;
        let packed = zstd::bulk::compress(&serde_json::to_vec(&**index).unwrap(), 3).unwrap();
        let nonce: [u8; 16] = bytes[16..32].try_into().unwrap();
        let footer = pack::footer(&nonce, bytes.len() as u64, len, &packed);
        add_to_pack(&desk, &[packed, footer.to_vec()].concat());
        Pack::open(&desk.pack).unwrap().torn
    };
    assert_eq!(claim(1 << 28), 0);
    // The index is skipped, and the previous one is used.
    assert!(claim((1 << 28) + 1) > 0);
    assert!(claim(u64::MAX) > 0);
}

#[test]
fn short_or_truncated_frame_is_reported_as_damage() {
    let desk = small();
    let pack = Pack::open(&desk.pack).unwrap();
    let mut index = PackIndex::clone(&pack.index);
    index.frames[0].len += 1;
    let first = &mut index.members[0];
    assert_eq!((first.parts.len(), first.parts[0].frame), (1, 0));
    first.parts[0].len += 1;
    first.len += 1;
    let bytes = fs::read(&desk.pack).unwrap();
    let json = serde_json::to_vec(&index).unwrap();
    let packed = zstd::bulk::compress(&json, 3).unwrap();
    let nonce: [u8; 16] = bytes[16..32].try_into().unwrap();
    let footer = pack::footer(&nonce, bytes.len() as u64, json.len() as u64, &packed);
    add_to_pack(&desk, &[packed, footer.to_vec()].concat());
    let report = verify(&Pack::open(&desk.pack).unwrap());
    assert!(
        !report.is_empty() && report[0].detail.contains("too short"),
        "{report:?}"
    );

    let desk = small();
    let pack = Pack::open(&desk.pack).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&desk.pack).unwrap();
    file.set_len(pack.index.frames[0].at + 1).unwrap();
    let error = pack.file(&pack.members()[0]).read_at(&mut [0; 9], 0);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("truncated"), "{error}");
}

#[test]
fn verify_since_checks_only_newer_frames() {
    let desk = small();
    let pack = Pack::open(&desk.pack).unwrap();
    let frame = pack.index.frames[0];
    assert_eq!(verify_since(&pack, 0), []);
    let mut bytes = fs::read(&desk.pack).unwrap();
    bytes[frame.at as usize + frame.bytes as usize / 2] ^= 1;
    fs::write(&desk.pack, bytes).unwrap();
    let pack = Pack::open(&desk.pack).unwrap();
    assert_eq!(verify_since(&pack, frame.at)[0].frame, Some(frame.at));
    assert_eq!(verify_since(&pack, frame.at + 1), []);
}

#[test]
fn pack_is_rewritten_without_unused_frames() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    let size = 200 << 10;
    let mut anew = 0;
    let mut earlier = Vec::new();
    for version in 0..30 {
        let text = noise(version, size);
        desk.put(TODOS, &text);
        earlier.push(text);
        let stored = desk.store();
        anew += usize::from(stored.since == 0 && version > 0);
        assert!(stored.pack.bytes < 30 * size as u64, "{version}");
    }
    assert!(anew > 0);
    let pack = desk.assert_pack_matches_root();
    assert!(pack.bytes < 22 * size as u64, "{}", pack.bytes);
    assert_eq!(verify(&pack), []);
    let kept: Vec<_> = pack
        .earlier_versions()
        .iter()
        .map(|it| all(&pack, it))
        .collect();
    assert!(kept == earlier[21..29], "{}", kept.len());
}

#[test]
fn open_refuses_a_symbolic_link() {
    let desk = small();
    let link = desk.pack.with_file_name("link.pack");
    std::os::unix::fs::symlink(&desk.pack, &link).unwrap();
    assert!(Pack::open(&desk.pack).is_ok() && Pack::open(&link).is_err());
}

#[test]
fn find_prefers_exact_id_and_refuses_ambiguous_prefix() {
    let desk = small();
    let mut other = desk.contents();
    let id = other.sessions[0].id.clone();
    other.sessions[0].id += "-2";
    let second = desk.pack.with_file_name("t.pack");
    update_pack(&second, &other, now()).unwrap();
    let archive = Archive::open(&desk.dir.path().join("state"));
    assert_eq!(archive.find(&id).unwrap().path, desk.pack);
    assert_eq!(archive.find(&format!("{id}-2")).unwrap().path, second);
    let error = archive.find("8c54").unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
}

#[test]
fn update_refuses_a_pack_of_another_layout_or_kind() {
    let desk = small();
    let whole = fs::read(&desk.pack).unwrap();
    for lone in [false, true] {
        let mut other = desk.contents();
        other.lone = lone;
        other.layout = if lone { "claude-code" } else { "chorus" }.into();
        let error = update_pack(&desk.pack, &other, now())
            .unwrap_err()
            .to_string();
        assert!(error.contains("has sessions of layout"), "{error}");
        assert!(fs::read(&desk.pack).unwrap() == whole);
    }
}

#[test]
fn packs_set_aside_in_one_second_do_not_collide() {
    let desk = small();
    for text in ["one", "two", "three"] {
        fs::write(&desk.pack, text).unwrap();
        let aside = desk.store().set_aside.unwrap();
        assert_eq!(fs::read_to_string(aside.path).unwrap(), text);
    }
    let dir = fs::read_dir(desk.pack.parent().unwrap()).unwrap();
    assert_eq!(dir.count(), 4);
}

#[test]
fn verify_report_counts_packs_files_and_bytes() {
    let desk = small();
    let mut one = VerifyReport::default();
    one.verify_pack(&desk.pack);
    one.verify_pack(&desk.pack);
    let bytes = fs::metadata(desk.root.join(LOG)).unwrap().len() + 2;
    assert_eq!((one.packs, one.files, one.bytes), (2, 4, 2 * bytes));
    let mut both = one.clone();
    both.add(one);
    assert_eq!((both.packs, both.files, both.bytes), (4, 8, 4 * bytes));
}

#[test]
fn archive_all_report_is_ok_only_without_problems() {
    let failed = ArchiveFailure {
        session: "s".into(),
        error: "no".into(),
    };
    let damage = Damage::unreadable_pack(Path::new("p"), &Error::refused("no"));
    let mut wrong = [
        ArchiveAllReport::default(),
        ArchiveAllReport::default(),
        ArchiveAllReport::default(),
    ];
    wrong[0].failed.push(failed);
    wrong[1].troubles.push("no".into());
    wrong[2].verified.damaged.push(damage);
    assert!(ArchiveAllReport::default().is_ok());
    assert!(wrong.iter().all(|kept| !kept.is_ok() && !kept.is_noop()));
}
