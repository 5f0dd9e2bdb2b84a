//! What packs are held to at their limits, and what is made of damaged ends.

use super::*;
use crate::archive::index::{FRAME, MEMBERS};
use crate::archive::keep::NotKept;
use crate::archive::pack::{END, HEADER};
use crate::archive::verify::verify_since;

/// Bytes that nothing makes smaller.
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

fn small() -> Desk {
    let desk = Desk::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[]");
    desk.store();
    desk
}

#[track_caller]
fn add_to_pack(desk: &Desk, bytes: &[u8]) {
    let mut all = fs::read(&desk.pack).unwrap();
    all.extend_from_slice(bytes);
    fs::write(&desk.pack, all).unwrap();
}

#[test]
fn an_index_is_held_to_what_a_pack_can_hold() {
    let desk = small();
    let sound = Index::clone(&Pack::open(&desk.pack).unwrap().index);
    let most = FRAME as u64 + (64 << 10);
    let fault = |change: &dyn Fn(&mut Index)| {
        let mut index = sound.clone();
        change(&mut index);
        index.fault(HEADER as u64..64 << 20).unwrap_or_default()
    };
    assert_eq!(fault(&|_| {}), "");
    let longest = |it: &mut Index, bytes: u64| it.frames.last_mut().unwrap().bytes = bytes as u32;
    assert_eq!(fault(&|it| longest(it, most)), "");
    for wrong in [
        &(|it: &mut Index| longest(it, most + 1)) as &dyn Fn(&mut Index),
        &|it| it.frames[0].len = 0,
        &|it| it.frames[0].len = FRAME as u32 + 1,
    ] {
        let told = fault(wrong);
        assert!(told.starts_with("the frame at"), "{told}");
    }
    // So much may be in any pack, however small it is.
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
fn many_files_with_many_earlier_versions_are_not_too_many() {
    let desk = small();
    let mut index = Index::clone(&Pack::open(&desk.pack).unwrap().index);
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
fn a_log_outside_of_any_tree_lies_alone_in_its_pack() {
    let desk = small();
    let place = |path: &str| {
        let mut index = Index::clone(&Pack::open(&desk.pack).unwrap().index);
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
fn behind_any_torn_end_the_last_whole_index_is_found() {
    let desk = Desk::new();
    desk.put(LOG, noise(1, 2 << 20));
    desk.put(TODOS, "[]");
    desk.store();
    let whole = fs::read(&desk.pack).unwrap();
    let block = 1 << 20;
    // So long that the ending lies within a block that is looked through, on its border, and behind it.
    let lengths = (0..=9).map(|short| block - short);
    for torn in lengths.chain([1, block + 1, 2 * block - 3, 3 * block]) {
        fs::write(&desk.pack, &whole).unwrap();
        add_to_pack(&desk, &noise(2, torn));
        let pack = desk.same();
        assert_eq!(pack.torn, torn as u64);
        let told = verify(&pack);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].detail.contains(&format!("its last {torn} bytes")));
    }
    // What only looks like an ending keeps nothing from being found.
    fs::write(&desk.pack, &whole).unwrap();
    add_to_pack(
        &desk,
        &[&[7; 100], &END[..], &[7; 100], &END[..], b"x"].concat(),
    );
    desk.same();
}

#[test]
fn an_index_that_claims_to_be_huge_is_none() {
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
    // It is passed over, and the one before it counts.
    assert!(claim((1 << 28) + 1) > 0);
    assert!(claim(u64::MAX) > 0);
}

#[test]
fn a_frame_that_holds_less_than_it_says_or_is_cut_off_is_damage() {
    let desk = small();
    let pack = Pack::open(&desk.pack).unwrap();
    let mut index = Index::clone(&pack.index);
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
    let told = verify(&Pack::open(&desk.pack).unwrap());
    assert!(
        !told.is_empty() && told[0].detail.contains("too short"),
        "{told:?}"
    );

    let desk = small();
    let pack = Pack::open(&desk.pack).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&desk.pack).unwrap();
    file.set_len(pack.index.frames[0].at + 1).unwrap();
    let error = pack.file(&pack.members()[0]).read_at(&mut [0; 9], 0);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("it is cut off"), "{error}");
}

#[test]
fn what_was_written_is_read_back_and_what_was_there_is_not() {
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
fn what_is_of_no_use_any_more_leaves_the_pack() {
    let desk = Desk::new();
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
    let pack = desk.same();
    assert!(pack.bytes < 22 * size as u64, "{}", pack.bytes);
    assert_eq!(verify(&pack), []);
    let kept: Vec<_> = pack.earlier().iter().map(|it| all(&pack, it)).collect();
    assert!(kept == earlier[21..29], "{}", kept.len());
}

#[test]
fn packs_behind_links_are_not_read() {
    let desk = small();
    let link = desk.pack.with_file_name("link.pack");
    std::os::unix::fs::symlink(&desk.pack, &link).unwrap();
    assert!(Pack::open(&desk.pack).is_ok() && Pack::open(&link).is_err());
}

#[test]
fn a_whole_id_means_its_session_and_a_beginning_may_mean_several() {
    let desk = small();
    let mut other = desk.contents();
    let id = other.sessions[0].id.clone();
    other.sessions[0].id += "-2";
    let second = desk.pack.with_file_name("t.pack");
    store(&second, &other, now()).unwrap();
    let archive = Archive::open(&desk.dir.path().join("state"));
    assert_eq!(archive.find(&id).unwrap().path, desk.pack);
    assert_eq!(archive.find(&format!("{id}-2")).unwrap().path, second);
    let error = archive.find("8c54").unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
}

#[test]
fn a_pack_of_something_else_is_not_added_to() {
    let desk = small();
    let whole = fs::read(&desk.pack).unwrap();
    for lone in [false, true] {
        let mut other = desk.contents();
        other.lone = lone;
        other.layout = if lone { "claude-code" } else { "chorus" }.into();
        let error = store(&desk.pack, &other, now()).unwrap_err().to_string();
        assert!(error.contains("holds sessions of the layout"), "{error}");
        assert!(fs::read(&desk.pack).unwrap() == whole);
    }
}

#[test]
fn two_packs_that_are_lost_within_a_second_are_both_set_aside() {
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
fn what_is_read_back_is_counted() {
    let desk = small();
    let mut one = Verified::default();
    one.look(&desk.pack);
    one.look(&desk.pack);
    let bytes = fs::metadata(desk.root.join(LOG)).unwrap().len() + 2;
    assert_eq!((one.packs, one.files, one.bytes), (2, 4, 2 * bytes));
    let mut both = one.clone();
    both.add(one);
    assert_eq!((both.packs, both.files, both.bytes), (4, 8, 4 * bytes));
}

#[test]
fn keeping_is_fine_only_if_nothing_is_wrong() {
    let failed = NotKept {
        session: "s".into(),
        error: "no".into(),
    };
    let damage = Damage::of_pack(Path::new("p"), &Error::refused("no"));
    let mut wrong = [Kept::default(), Kept::default(), Kept::default()];
    wrong[0].failed.push(failed);
    wrong[1].troubles.push("no".into());
    wrong[2].verified.damaged.push(damage);
    assert!(Kept::default().is_fine());
    assert!(wrong.iter().all(|kept| !kept.is_fine() && !kept.is_quiet()));
}
