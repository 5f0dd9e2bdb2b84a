//! What is told, found and given of packs with flipped bits, and what is too much damage.

use super::super::session::{changes, existing, refuse_damaged};
use super::*;
use crate::archive::index::MEMBERS;
use crate::archive::pack::{END, FOOTER, HEADER};
use crate::jsonl::FileId;
use crate::store::ReadFailures;

fn small() -> Desk {
    let desk = Desk::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[1]");
    desk.store();
    desk
}

/// Damages a pack.
fn harm(desk: &Desk, harm: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(&desk.pack).unwrap();
    harm(&mut bytes);
    fs::write(&desk.pack, bytes).unwrap();
}

/// Leaves one index of a pack, as the first programs wrote it.
fn with_one_index(bytes: &mut Vec<u8>) {
    bytes.truncate(second_index(bytes));
}

#[test]
fn a_flipped_bit_of_the_nonce_is_found_and_told_as_one() {
    for bit in [0, 30, 127] {
        let desk = small();
        harm(&desk, |bytes| bytes[16 + bit / 8] ^= 1 << (bit % 8));
        let salvaged = Pack::salvage(&desk.pack).unwrap();
        let wrong = salvaged.wrong.as_deref();
        assert_eq!(wrong, Some("a bit of its header is flipped"), "{bit}");
        assert_eq!(salvaged.pack.torn, 0);
    }
}

#[test]
fn where_the_first_copy_of_an_index_tells_what_stands_behind_it_is_torn() {
    // A bit of the first copy itself, and one of the footer's numbers.
    for within_footer in [false, true] {
        let desk = small();
        let whole = fs::read(&desk.pack).unwrap();
        let second = second_index(&whole);
        let bit = match within_footer {
            false => second_index(&whole[..second]) + 20,
            true => second - FOOTER + 9,
        };
        harm(&desk, |bytes| {
            bytes[bit] ^= 1;
            // Of the second copy, more than can be found.
            bytes[second + 20..second + 30].fill(0);
        });
        let salvaged = Pack::salvage(&desk.pack).unwrap();
        assert!(salvaged.wrong.is_some());
        let torn = (whole.len() - second) as u64;
        assert_eq!(salvaged.pack.torn, torn, "{within_footer}");
        assert!(all(&salvaged.pack, &salvaged.pack.members()[0]) == lines(1, 3_000));
    }
}

#[test]
fn the_whole_pack_counts_where_its_only_index_is_turned_back() {
    for within_footer in [false, true] {
        let desk = small();
        harm(&desk, |bytes| {
            with_one_index(bytes);
            let at = match within_footer {
                false => second_index(bytes) + 20,
                true => bytes.len() - FOOTER + 9,
            };
            bytes[at] ^= 1;
        });
        let salvaged = Pack::salvage(&desk.pack).unwrap();
        assert!(salvaged.wrong.is_some());
        assert_eq!(salvaged.pack.torn, 0, "{within_footer}");
    }
}

#[test]
fn what_does_not_end_as_a_pack_does_is_not_turned_back() {
    let desk = small();
    harm(&desk, |bytes| {
        with_one_index(bytes);
        let end = bytes.len();
        bytes[end - END.len()..].fill(0);
        bytes[16] ^= 1;
    });
    let told = Pack::salvage(&desk.pack).unwrap_err().to_string();
    assert!(told.contains("only a backup"), "{told}");
}

/// Writes a pack whose one index is that long, with a flipped bit in it.
fn with_long_index(len: usize) -> Desk {
    let desk = small();
    let index = Index::clone(&Pack::open(&desk.pack).unwrap().index);
    harm(&desk, |bytes| {
        let frames = index.frames.iter().map(Frame::end).max().unwrap();
        bytes.truncate(frames as usize);
        let json = serde_json::to_vec(&index).unwrap();
        let mut packed = zstd::bulk::compress(&json, 3).unwrap();
        // What is to be skipped, says zstd.
        let filler = len - packed.len() - 8;
        packed.extend(0x184d_2a50_u32.to_le_bytes());
        packed.extend((filler as u32).to_le_bytes());
        packed.resize(len, 0);
        let nonce: [u8; 16] = bytes[16..32].try_into().unwrap();
        let footer = pack::footer(&nonce, frames, json.len() as u64, &packed);
        packed[6] ^= 1;
        bytes.extend(packed);
        bytes.extend(footer);
    });
    desk
}

#[test]
fn a_flipped_bit_is_looked_for_in_an_index_that_is_not_too_long() {
    let desk = with_long_index(16 << 10);
    let salvaged = Pack::salvage(&desk.pack).unwrap();
    let wrong = salvaged.wrong.as_deref();
    assert_eq!(wrong, Some("a bit of its index is flipped"));
    // Then only the checkpoint behind the first file is left.
    let desk = with_long_index((16 << 10) + 1);
    let salvaged = Pack::salvage(&desk.pack).unwrap();
    let wrong = salvaged.wrong.unwrap();
    assert!(wrong.starts_with("its end is lost"), "{wrong}");
    assert_eq!(salvaged.pack.members().len(), 1);
}

#[test]
fn what_is_too_short_for_a_pack_is_lost_and_told_so() {
    let desk = small();
    let whole = fs::read(&desk.pack).unwrap();
    for len in [0, 1, HEADER - 1, HEADER, HEADER + FOOTER - 1] {
        fs::write(&desk.pack, &whole[..len]).unwrap();
        let told = Pack::salvage(&desk.pack).unwrap_err().to_string();
        assert!(told.contains("only a backup"), "{len}: {told}");
    }
    // One of a header and a footer alone tells what is wrong with its index.
    fs::write(&desk.pack, {
        let mut bytes = whole[..HEADER].to_vec();
        bytes[0] ^= 1;
        let nonce: [u8; 16] = bytes[16..32].try_into().unwrap();
        bytes.extend(pack::footer(&nonce, HEADER as u64, 0, &[]));
        bytes
    })
    .unwrap();
    let told = Pack::salvage(&desk.pack).unwrap_err().to_string();
    assert!(told.contains("index that cannot be read"), "{told}");
}

#[test]
fn stretches_that_are_lost_side_by_side_are_one() {
    let desk = Desk::new();
    desk.put(LOG, lines(1, 5 << 20));
    desk.put(TODOS, "[1]");
    let frames = desk.store().pack.index.frames.clone();
    harm(&desk, |bytes| {
        for lost in [0, 1, 3] {
            bytes[frames[lost].at as usize + 100..][..100].fill(7);
        }
    });
    let pack = Pack::open(&desk.pack).unwrap();
    let mebi = 1 << 20;
    let lost = pack.lost(&pack.members()[0]);
    assert_eq!(lost, [0..2 * mebi, 3 * mebi..4 * mebi]);
}

#[test]
fn of_a_log_that_lost_its_end_the_beginning_is_put_back() {
    let desk = Desk::new();
    desk.put(LOG, lines(1, 3 << 20));
    desk.put(TODOS, "[1]");
    let frames = desk.store().pack.index.frames.clone();
    harm(&desk, |bytes| {
        bytes[frames[2].at as usize + 100..][..100].fill(7);
    });
    let pack = Pack::open(&desk.pack).unwrap();
    let there = desk.dir.path().join("there");
    let plan = pack.salvaging(Some(&there)).unwrap();
    assert_eq!(plan.files[0].fate, Fate::Partial);
    assert_eq!(plan.files[0].lost, [(2 << 20, 1 << 20)]);
}

#[test]
fn of_a_document_there_is_all_or_nothing() {
    let desk = Desk::new();
    desk.put(LOG, "{}\n");
    desk.put(TODOS, lines(1, 3 << 20));
    let pack = desk.store().pack;
    // One that went on is another one, where a log would have grown; it stays.
    desk.add(TODOS, " ");
    desk.put(LOG, "{\"other\":1}\n");
    let fates = |plan: Restored| plan.files.iter().map(|it| it.fate).collect::<Vec<_>>();
    let plan = pack.restoring(None).unwrap();
    assert_eq!(fates(plan), [Fate::Different, Fate::Left]);
    // Nor is a part of it put back.
    let frame = pack.index.frames[1];
    harm(&desk, |bytes| {
        bytes[frame.at as usize + 100..][..100].fill(7);
    });
    let there = desk.dir.path().join("there");
    let plan = Pack::open(&desk.pack).unwrap().salvaging(Some(&there));
    assert_eq!(fates(plan.unwrap()), [Fate::New, Fate::Lost]);
}

/// An archive with one pack that has the name of its session.
fn archive() -> (Desk, Archive) {
    let mut desk = Desk::new();
    desk.pack.set_file_name("8c549c46-16ca.0000.pack");
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[1]");
    desk.store();
    let archive = Archive::open(&desk.dir.path().join("state"));
    (desk, archive)
}

#[test]
fn damage_to_the_pack_of_another_session_is_not_in_the_way() {
    let (desk, archive) = archive();
    let other = desk.pack.with_file_name("9999.0000.pack");
    fs::write(&other, "nothing").unwrap();
    let salvaged = archive.salvage_in("8c54", None).unwrap();
    assert_eq!((&salvaged.pack.path, salvaged.wrong), (&desk.pack, None));
}

#[test]
fn a_damaged_pack_and_one_that_was_set_aside_are_two() {
    let (desk, archive) = archive();
    let name = desk.pack.file_name().unwrap().to_str().unwrap();
    let aside = format!(".damaged-20261115T120000Z-{name}");
    let aside = desk.pack.with_file_name(aside);
    fs::copy(&desk.pack, &aside).unwrap();
    // Of a sound one nothing has to be salvaged.
    let meant = archive.salvage_in("8c54", None).unwrap();
    assert_eq!(meant.pack.path, aside);
    let frame = Pack::open(&desk.pack).unwrap().index.frames[0];
    harm(&desk, |bytes| bytes[frame.at as usize + 20] ^= 1);
    let both = [&desk.pack, &aside].map(|path| path.display().to_string());
    match archive.salvage_in("8c54", None) {
        Err(Error::Ambiguous { candidates, .. }) => assert_eq!(candidates, both),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_torn_second_copy_is_told_once() {
    let desk = small();
    harm(&desk, |bytes| bytes.truncate(bytes.len() - 10));
    let pack = Pack::open(&desk.pack).unwrap();
    assert!(pack.torn > 0);
    assert_eq!(verify(&pack).len(), 1);
}

#[test]
fn a_pack_of_nothing_but_endings_is_not_read_for_ever() {
    let torn_by = |endings: usize| {
        let desk = small();
        harm(&desk, |bytes| bytes.extend(END.repeat(endings)));
        Pack::open(&desk.pack).map(|pack| pack.torn)
    };
    assert_eq!(torn_by(100).unwrap(), 100 * END.len() as u64);
    let told = torn_by(400).unwrap_err().to_string();
    assert!(told.contains("no whole index was found"), "{told}");
}

#[test]
fn no_pack_lists_more_files_than_it_may() {
    let desk = small();
    let mut index = Index::clone(&Pack::open(&desk.pack).unwrap().index);
    let nowhere = Member {
        path: PathBuf::new(),
        parts: Vec::new(),
        ..index.members[0].clone()
    };
    let mut fault = |count: usize| {
        index.earlier.resize(count - 2, nowhere.clone());
        index.fault(HEADER as u64..64 << 20).unwrap()
    };
    let told = fault(MEMBERS);
    assert!(told.contains("is no place for a file"), "{told}");
    let told = fault(MEMBERS + 1);
    assert!(told.contains("more than 1048576 files"), "{told}");
}

/// How many bytes the pack of a desk lacks, and whether it is as it should be.
fn is_unchanged(desk: &Desk) -> (u64, bool) {
    let pack = Pack::open(&desk.pack).unwrap();
    let files = desk.contents().files;
    let id =
        |(path, _): &(PathBuf, bool)| FileId::from(&fs::metadata(desk.root.join(path)).unwrap());
    let ids: Vec<FileId> = files.iter().map(id).collect();
    changes(&files, &ids, Some(&pack), &ReadFailures::default())
}

#[test]
fn of_a_log_that_grew_the_growth_is_lacking_and_of_all_else_the_whole() {
    let desk = small();
    let whole = fs::metadata(desk.root.join(LOG)).unwrap().len();
    desk.add(LOG, "{}\n");
    assert_eq!(is_unchanged(&desk), (3, false));
    desk.add(TODOS, "  ");
    assert_eq!(is_unchanged(&desk), (3 + 5, false));
    // Cut, or another file.
    let log = desk.root.join(LOG);
    let file = fs::File::options().write(true).open(&log).unwrap();
    file.set_len(whole - 1).unwrap();
    assert_eq!(is_unchanged(&desk), (whole - 1 + 5, false));
    let copy = log.with_extension("copy");
    fs::write(&copy, vec![b' '; whole as usize + 10]).unwrap();
    fs::rename(copy, log).unwrap();
    assert_eq!(is_unchanged(&desk), (whole + 10 + 5, false));
}

#[test]
fn a_pack_that_is_torn_or_has_one_sound_index_is_not_as_it_should_be() {
    let desk = small();
    assert_eq!(is_unchanged(&desk), (0, true));
    harm(&desk, |bytes| bytes.push(b'x'));
    assert_eq!(is_unchanged(&desk), (0, false));
    let desk = small();
    harm(&desk, |bytes| {
        let second = second_index(bytes);
        bytes[second - 100] ^= 1;
    });
    assert_eq!(is_unchanged(&desk), (0, false));
}

#[test]
fn a_pack_that_cannot_be_opened_is_not_taken_for_none() {
    let desk = small();
    assert!(existing(&desk.pack).unwrap().is_some());
    assert!(
        existing(&desk.pack.with_file_name("none"))
            .unwrap()
            .is_none()
    );
    let link = desk.pack.with_file_name("link.pack");
    std::os::unix::fs::symlink(&desk.pack, &link).unwrap();
    assert!(existing(&link).is_err());
}

#[test]
fn what_cannot_be_read_back_is_no_reason_to_remove_anything() {
    let path = Path::new("s.pack");
    assert!(refuse_damaged(path, &[]).is_ok());
    let damage = Damage::of_pack(path, &Error::refused("its frame is gone"));
    let told = refuse_damaged(path, &[damage]).unwrap_err().to_string();
    assert!(told.contains("nothing was removed"), "{told}");
    assert!(told.contains("its frame is gone"), "{told}");
}

#[test]
fn an_archive_that_cannot_be_looked_into_is_not_taken_for_empty() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path());
    assert!(archive.paths().unwrap().is_empty());
    fs::write(archive.dir(), "").unwrap();
    assert!(archive.paths().unwrap().is_empty());
    fs::remove_file(archive.dir()).unwrap();
    std::os::unix::fs::symlink("archive", archive.dir()).unwrap();
    assert!(archive.paths().is_err());
}
