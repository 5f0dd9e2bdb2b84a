//! Packs that are truncated, have flipped bits or a newer version.

use super::*;

#[test]
fn truncated_pack_opens_at_its_last_whole_generation() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 2_000));
    desk.put(TODOS, "[1]");
    desk.store();
    let first = fs::metadata(&desk.pack).unwrap().len() as usize;
    let before = fs::read(desk.root.join(LOG)).unwrap();
    desk.add(LOG, lines(2, 2_000));
    desk.put(TODOS, "[2]");
    desk.store();
    let whole = fs::read(&desk.pack).unwrap();
    let after = fs::read(desk.root.join(LOG)).unwrap();
    // The index is stored twice, and either copy is enough.
    let (first_once, once) = (second_index(&whole[..first]), second_index(&whole));
    for cut in 0..whole.len() {
        fs::write(&desk.pack, &whole[..cut]).unwrap();
        let opened = Pack::open(&desk.pack);
        if cut < first_once {
            // No index remains, or only a checkpoint that does not list everything.
            let lost = opened.map(|pack| pack.lost_end().is_some());
            assert!(lost.unwrap_or(true), "{cut}");
            continue;
        }
        let pack = opened.unwrap();
        // Bytes that a killed writer left after a complete index are no loss.
        assert!(pack.lost_end().is_none(), "{cut}");
        let (end, wanted) = match cut {
            cut if cut >= once => (once, &after),
            cut if cut >= first => (first, &before),
            _ => (first_once, &before),
        };
        assert_eq!(pack.torn as usize, cut - end);
        assert!(all(&pack, &pack.members()[0]) == *wanted, "{cut}");
        if cut % 389 == 0 {
            desk.store();
            let pack = desk.assert_pack_matches_root();
            // No existing byte was removed.
            assert!(fs::read(&desk.pack).unwrap().starts_with(&whole[..cut]));
            assert_eq!(pack.torn, 0);
        }
    }
}

#[test]
fn flipped_bits_are_never_read_as_content() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[1]");
    desk.store();
    let whole = fs::read(&desk.pack).unwrap();
    let wanted = fs::read(desk.root.join(LOG)).unwrap();
    // The checkpoint between the two files is not used while the index is intact.
    let frames = Pack::open(&desk.pack).unwrap().index.frames.clone();
    let checkpoint = frames[0].end() as usize..frames[1].at as usize;
    assert!(!checkpoint.is_empty());
    let (mut opened, mut read, mut harmless) = (0, 0, 0);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&desk.pack, &bytes).unwrap();
        let mut verified = VerifyReport::default();
        verified.verify_pack(&desk.pack);
        if verified.damaged.is_empty() {
            // Some bits of a frame's header have no meaning: all stored content is still readable.
            desk.assert_pack_matches_root();
            harmless += usize::from(!checkpoint.contains(&at));
        }
        let Ok(pack) = Pack::open(&desk.pack) else {
            continue;
        };
        opened += 1;
        let member = &pack.members()[0];
        let mut got = vec![0; member.len as usize];
        if pack.file(member).read_exact_at(&mut got, 0).is_ok() {
            assert!(got == wanted, "byte {at}");
            read += 1;
        }
    }
    // Most of a pack is frames, which opening does not read; undamaged frames can still be read.
    assert!(opened > whole.len() / 2, "{opened} of {}", whole.len());
    assert!(read > 0 && read < opened, "{read} of {opened}");
    assert!(harmless < 10, "{harmless} of {opened}");
}

#[test]
fn open_refuses_another_version() {
    let desk = Fixture::new();
    desk.put(LOG, "{}\n");
    desk.put(TODOS, "[]");
    desk.store();
    let mut bytes = fs::read(&desk.pack).unwrap();
    bytes[12] = 2;
    fs::write(&desk.pack, bytes).unwrap();
    let error = Pack::open(&desk.pack).unwrap_err().to_string();
    let wanted = "s.pack has version 2, but this program reads version 1: written by a newer annals; update this one";
    assert!(error.ends_with(wanted), "{error}");
    // The pack is not written to either.
    assert!(update_pack(&desk.pack, &desk.contents(), now()).is_err());
}

#[test]
fn open_gives_up_among_many_false_footers() {
    let desk = Fixture::new();
    desk.put(LOG, "{}\n");
    desk.put(TODOS, "[]");
    desk.store();
    let mut bytes = fs::read(&desk.pack).unwrap();
    // An intact index, followed by so many false footers that each claim all bytes before them that
    // the search gives up.
    while bytes.len() < 512 << 10 {
        let start = bytes.len() as u64;
        let numbers = [32, start - 32, 100].map(u64::to_le_bytes);
        bytes.extend_from_slice(numbers.as_flattened());
        bytes.extend_from_slice(&[0; 32]);
        bytes.extend_from_slice(pack::END);
    }
    fs::write(&desk.pack, bytes).unwrap();
    let error = Pack::open(&desk.pack).unwrap_err().to_string();
    assert!(error.contains("no intact index"), "{error}");
}

/// A pack of a log of many frames and of ten sub-agents' logs.
fn crowded() -> (Fixture, Pack) {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3 << 20));
    let mut contents = desk.contents();
    contents.files.truncate(1);
    for agent in 0..10 {
        let path = format!(
            "projects/-app/8c549c46-16ca-47dd-b731-f4c264becc53/subagents/agent-a{agent}.jsonl"
        );
        desk.put(&path, lines(agent, 4_000));
        contents.files.push((path.into(), true));
    }
    let pack = update_pack(&desk.pack, &contents, now()).unwrap().pack;
    (desk, pack)
}

#[test]
fn flipped_bit_loses_only_its_own_frame() {
    let (desk, pack) = crowded();
    let whole = fs::read(&desk.pack).unwrap();
    for frame in &pack.index.frames {
        let mut bytes = whole.clone();
        bytes[frame.at as usize + frame.bytes as usize / 2] ^= 1;
        fs::write(&desk.pack, &bytes).unwrap();
        let pack = Pack::open(&desk.pack).unwrap();
        let lost = |member: &Member| -> u64 {
            let lost = pack.lost_ranges(member).into_iter();
            lost.map(|it| it.end - it.start).sum()
        };
        let lost: Vec<u64> = pack.members().iter().map(lost).collect();
        let hit: Vec<&u64> = lost.iter().filter(|bytes| **bytes > 0).collect();
        assert_eq!(hit, [&u64::from(frame.len)], "{lost:?}");
    }
}

#[test]
fn salvage_of_truncated_pack_keeps_files_before_the_cut() {
    let (desk, pack) = crowded();
    let whole = fs::read(&desk.pack).unwrap();
    let mut most = 0;
    for cut in (0..pack.index_offset() as usize).step_by(997) {
        fs::write(&desk.pack, &whole[..cut]).unwrap();
        let kept = match Pack::salvage(&desk.pack) {
            Ok(salvaged) => {
                for member in salvaged.pack.members() {
                    let wanted = fs::read(desk.root.join(&member.path)).unwrap();
                    assert!(all(&salvaged.pack, member) == wanted, "{cut}");
                }
                salvaged.pack.members().len()
            }
            Err(_) => 0,
        };
        let before = pack.members().iter().filter(|member| {
            let end = |part: &FrameRange| pack.index.frames[part.frame as usize].end();
            // Files directly before the cut may not be in a checkpoint yet.
            let enough = cut as u64 >= 8 << 10;
            enough
                && member
                    .parts
                    .iter()
                    .all(|part| end(part) <= cut as u64 - (8 << 10))
        });
        assert!(kept >= before.count(), "{cut}: {kept}");
        most = most.max(kept);
    }
    assert!(most > 6, "{most}");
}

/// A pack of a log and of eight sub-agents' logs, all small.
fn many_small() -> (Fixture, PackContents, Pack) {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 500));
    let mut contents = desk.contents();
    contents.files.truncate(1);
    for agent in 0..8 {
        let path = format!(
            "projects/-app/8c549c46-16ca-47dd-b731-f4c264becc53/subagents/agent-a{agent}.jsonl"
        );
        desk.put(&path, lines(agent, 150));
        contents.files.push((path.into(), true));
    }
    let pack = update_pack(&desk.pack, &contents, now()).unwrap().pack;
    (desk, contents, pack)
}

#[test]
fn a_pack_of_many_small_files_cut_anywhere_loses_no_file_that_ended_well_before_the_cut() {
    let (desk, contents, pack) = many_small();
    let whole = fs::read(&desk.pack).unwrap();
    let ends = pack.members().iter().map(|member| {
        let end = |part: &FrameRange| pack.index.frames[part.frame as usize].end() as usize;
        member.parts.iter().map(end).max().unwrap()
    });
    let mut ends: Vec<usize> = ends.collect();
    ends.sort_unstable();
    for cut in pack::HEADER..pack.index_offset() as usize {
        fs::write(&desk.pack, &whole[..cut]).unwrap();
        // A checkpoint follows each file, so at most the last file is lost.
        let before = ends.iter().filter(|end| **end <= cut).count();
        let kept = match Pack::salvage(&desk.pack) {
            Err(_) => 0,
            Ok(salvaged) if salvaged.pack.index.checkpoint => {
                assert!(salvaged.damage.is_some(), "{cut}");
                let opened = Pack::open(&desk.pack).unwrap();
                let error = opened.lost_end().unwrap().to_string();
                assert!(
                    error.contains("s.pack is damaged: its end is missing"),
                    "{error}"
                );
                for member in opened.members().iter().filter(|_| cut % 97 == 0) {
                    let wanted = fs::read(desk.root.join(&member.path)).unwrap();
                    assert!(all(&opened, member) == wanted, "{cut}");
                }
                salvaged.pack.members().len()
            }
            Ok(_) => panic!("{cut}: no complete index stands before the cut"),
        };
        assert!(kept + 1 >= before, "{cut}: {kept} of {before}");
    }
    // The next update adds the lost files from the root, reports the loss, and keeps all bytes in
    // place.
    let cut = ends[ends.len() / 2] + 900;
    fs::write(&desk.pack, &whole[..cut]).unwrap();
    let stored = update_pack(&desk.pack, &contents, now()).unwrap();
    assert!(stored.lost_end.is_some() && !stored.unchanged);
    assert!(stored.pack.lost_end().is_none());
    assert_eq!(stored.pack.members().len(), ends.len());
    assert!(fs::read(&desk.pack).unwrap().starts_with(&whole[..cut]));
}

#[test]
fn checkpoints_take_little_of_a_large_pack() {
    let desk = Fixture::new();
    let mut contents = desk.contents();
    contents.files.clear();
    for agent in 0..40 {
        let path = format!(
            "projects/-app/8c549c46-16ca-47dd-b731-f4c264becc53/subagents/agent-a{agent}.jsonl"
        );
        desk.put(&path, lines(agent, 1 << 20));
        contents.files.push((path.into(), true));
    }
    let pack = update_pack(&desk.pack, &contents, now()).unwrap().pack;
    let used: u64 = pack
        .index
        .frames
        .iter()
        .map(|frame| u64::from(frame.bytes))
        .sum();
    let checkpoints = pack.index_offset() - pack::HEADER as u64 - used;
    assert!(
        checkpoints * 30 < pack.bytes,
        "{checkpoints} of {}",
        pack.bytes
    );
}
