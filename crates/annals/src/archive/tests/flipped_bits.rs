//! Packs with flipped bits: what is reported, recovered and restored, and which damage is too much.

use super::super::session::{changes, open_existing, refuse_damaged};
use super::*;
use crate::archive::pack::{END, FOOTER, HEADER};
use crate::archive::pack_index::MEMBERS;
use crate::store::ReadFailures;
use annals_jsonl::FileId;

fn small() -> Fixture {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[1]");
    desk.store();
    desk
}

/// Damages a pack.
fn harm(desk: &Fixture, harm: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(&desk.pack).unwrap();
    harm(&mut bytes);
    fs::write(&desk.pack, bytes).unwrap();
}

/// Leaves one copy of the index, as the first versions of annals wrote it.
fn with_one_index(bytes: &mut Vec<u8>) {
    bytes.truncate(second_index(bytes));
}

#[test]
fn salvage_finds_a_flipped_bit_of_the_nonce() {
    for bit in [0, 30, 127] {
        let desk = small();
        harm(&desk, |bytes| bytes[16 + bit / 8] ^= 1 << (bit % 8));
        let salvaged = Pack::salvage(&desk.pack).unwrap();
        let wrong = salvaged.damage.as_deref();
        assert_eq!(wrong, Some("a bit of its header is flipped"), "{bit}");
        assert_eq!(salvaged.pack.torn, 0);
    }
}

#[test]
fn salvage_from_first_index_reports_the_rest_as_torn() {
    // A bit of the first copy itself, and one of the numbers in its footer.
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
            // Damage the second copy beyond recovery.
            bytes[second + 20..second + 30].fill(0);
        });
        let salvaged = Pack::salvage(&desk.pack).unwrap();
        assert!(salvaged.damage.is_some());
        let torn = (whole.len() - second) as u64;
        assert_eq!(salvaged.pack.torn, torn, "{within_footer}");
        assert!(all(&salvaged.pack, &salvaged.pack.members()[0]) == lines(1, 3_000));
    }
}

#[test]
fn salvage_of_only_index_leaves_nothing_torn() {
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
        assert!(salvaged.damage.is_some());
        assert_eq!(salvaged.pack.torn, 0, "{within_footer}");
    }
}

#[test]
fn salvage_refuses_a_pack_without_its_end_marker() {
    let desk = small();
    harm(&desk, |bytes| {
        with_one_index(bytes);
        let end = bytes.len();
        bytes[end - END.len()..].fill(0);
        bytes[16] ^= 1;
    });
    let error = Pack::salvage(&desk.pack).unwrap_err().to_string();
    assert!(error.contains("only a backup"), "{error}");
}

/// Writes a pack with a single index of length `len` that has a flipped bit.
fn with_long_index(len: usize) -> Fixture {
    let desk = small();
    let index = PackIndex::clone(&Pack::open(&desk.pack).unwrap().index);
    harm(&desk, |bytes| {
        let frames = index.frames.iter().map(Frame::end).max().unwrap();
        bytes.truncate(frames as usize);
        let json = serde_json::to_vec(&index).unwrap();
        let mut packed = zstd::bulk::compress(&json, 3).unwrap();
        // A zstd skippable frame.
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
fn flipped_bit_is_searched_only_in_short_indexes() {
    let desk = with_long_index(16 << 10);
    let salvaged = Pack::salvage(&desk.pack).unwrap();
    let wrong = salvaged.damage.as_deref();
    assert_eq!(wrong, Some("a bit of its index is flipped"));
    // In a longer index the bit is not searched, so only the checkpoint after the first file is
    // left.
    let desk = with_long_index((16 << 10) + 1);
    let salvaged = Pack::salvage(&desk.pack).unwrap();
    let wrong = salvaged.damage.unwrap();
    assert!(wrong.starts_with("its end is missing"), "{wrong}");
    assert_eq!(salvaged.pack.members().len(), 1);
}

#[test]
fn salvage_refuses_files_too_short_for_a_pack() {
    let desk = small();
    let whole = fs::read(&desk.pack).unwrap();
    for len in [0, 1, HEADER - 1, HEADER, HEADER + FOOTER - 1] {
        fs::write(&desk.pack, &whole[..len]).unwrap();
        let error = Pack::salvage(&desk.pack).unwrap_err().to_string();
        assert!(error.contains("only a backup"), "{len}: {error}");
    }
    // For a pack of only a header and a footer, the error names the fault of its index.
    fs::write(&desk.pack, {
        let mut bytes = whole[..HEADER].to_vec();
        bytes[0] ^= 1;
        let nonce: [u8; 16] = bytes[16..32].try_into().unwrap();
        bytes.extend(pack::footer(&nonce, HEADER as u64, 0, &[]));
        bytes
    })
    .unwrap();
    let error = Pack::salvage(&desk.pack).unwrap_err().to_string();
    assert!(error.contains("index that cannot be read"), "{error}");
}

#[test]
fn adjacent_lost_ranges_are_merged() {
    let desk = Fixture::new();
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
    let lost = pack.lost_ranges(&pack.members()[0]);
    assert_eq!(lost, [0..2 * mebi, 3 * mebi..4 * mebi]);
}

#[test]
fn log_that_lost_its_end_is_restored_partially() {
    let desk = Fixture::new();
    desk.put(LOG, lines(1, 3 << 20));
    desk.put(TODOS, "[1]");
    let frames = desk.store().pack.index.frames.clone();
    harm(&desk, |bytes| {
        bytes[frames[2].at as usize + 100..][..100].fill(7);
    });
    let pack = Pack::open(&desk.pack).unwrap();
    let there = desk.dir.path().join("there");
    let plan = pack.plan_salvage(Some(&there)).unwrap();
    assert_eq!(plan.files[0].fate, RestoreOutcome::Partial);
    assert_eq!(plan.files[0].lost, [(2 << 20, 1 << 20)]);
}

#[test]
fn document_is_restored_whole_or_not_at_all() {
    let desk = Fixture::new();
    desk.put(LOG, "{}\n");
    desk.put(TODOS, lines(1, 3 << 20));
    let pack = desk.store().pack;
    // A document with appended bytes is a different file, where a log would have grown; it is left.
    desk.add(TODOS, " ");
    desk.put(LOG, "{\"other\":1}\n");
    let fates = |plan: Restored| plan.files.iter().map(|it| it.fate).collect::<Vec<_>>();
    let plan = pack.plan_restore(None).unwrap();
    assert_eq!(
        fates(plan),
        [RestoreOutcome::Different, RestoreOutcome::Left]
    );
    // No part of it is restored.
    let frame = pack.index.frames[1];
    harm(&desk, |bytes| {
        bytes[frame.at as usize + 100..][..100].fill(7);
    });
    let there = desk.dir.path().join("there");
    let plan = Pack::open(&desk.pack).unwrap().plan_salvage(Some(&there));
    assert_eq!(
        fates(plan.unwrap()),
        [RestoreOutcome::New, RestoreOutcome::Lost]
    );
}

/// An archive with one pack, named after its session.
fn archive() -> (Fixture, Archive) {
    let mut desk = Fixture::new();
    desk.pack.set_file_name("8c549c46-16ca.0000.pack");
    desk.put(LOG, lines(1, 3_000));
    desk.put(TODOS, "[1]");
    desk.store();
    let archive = Archive::open(&desk.dir.path().join("state"));
    (desk, archive)
}

#[test]
fn salvage_ignores_damaged_packs_of_other_sessions() {
    let (desk, archive) = archive();
    let other = desk.pack.with_file_name("9999.0000.pack");
    fs::write(&other, "nothing").unwrap();
    let salvaged = archive.find_salvageable("8c54", None).unwrap();
    assert_eq!((&salvaged.pack.path, salvaged.damage), (&desk.pack, None));
}

#[test]
fn damaged_pack_and_set_aside_pack_are_ambiguous() {
    let (desk, archive) = archive();
    let name = desk.pack.file_name().unwrap().to_str().unwrap();
    let aside = format!(".damaged-20261115T120000Z-{name}");
    let aside = desk.pack.with_file_name(aside);
    fs::copy(&desk.pack, &aside).unwrap();
    // Nothing needs to be salvaged from an intact pack.
    let meant = archive.find_salvageable("8c54", None).unwrap();
    assert_eq!(meant.pack.path, aside);
    let frame = Pack::open(&desk.pack).unwrap().index.frames[0];
    harm(&desk, |bytes| bytes[frame.at as usize + 20] ^= 1);
    let both = [&desk.pack, &aside].map(|path| path.display().to_string());
    match archive.find_salvageable("8c54", None) {
        Err(Error::Ambiguous { candidates, .. }) => assert_eq!(candidates, both),
        other => panic!("{other:?}"),
    }
}

#[test]
fn torn_second_index_is_reported_once() {
    let desk = small();
    harm(&desk, |bytes| bytes.truncate(bytes.len() - 10));
    let pack = Pack::open(&desk.pack).unwrap();
    assert!(pack.torn > 0);
    assert_eq!(verify(&pack).len(), 1);
}

#[test]
fn search_for_index_is_limited_among_end_markers() {
    let torn_by = |endings: usize| {
        let desk = small();
        harm(&desk, |bytes| bytes.extend(END.repeat(endings)));
        Pack::open(&desk.pack).map(|pack| pack.torn)
    };
    assert_eq!(torn_by(100).unwrap(), 100 * END.len() as u64);
    let error = torn_by(400).unwrap_err().to_string();
    assert!(error.contains("no intact index found"), "{error}");
}

#[test]
fn index_with_too_many_files_is_invalid() {
    let desk = small();
    let mut index = PackIndex::clone(&Pack::open(&desk.pack).unwrap().index);
    let nowhere = Member {
        path: PathBuf::new(),
        parts: Vec::new(),
        ..index.members[0].clone()
    };
    let mut fault = |count: usize| {
        index.earlier.resize(count - 2, nowhere.clone());
        index.fault(HEADER as u64..64 << 20).unwrap()
    };
    let error = fault(MEMBERS);
    assert!(
        error.contains("is not a valid path in its layout"),
        "{error}"
    );
    let error = fault(MEMBERS + 1);
    assert!(error.contains("more than 1048576 files"), "{error}");
}

/// Returns how many bytes the pack lacks, and whether it is up to date.
fn is_unchanged(desk: &Fixture) -> (u64, bool) {
    let pack = Pack::open(&desk.pack).unwrap();
    let files = desk.contents().files;
    let id =
        |(path, _): &(PathBuf, bool)| FileId::from(&fs::metadata(desk.root.join(path)).unwrap());
    let ids: Vec<FileId> = files.iter().map(id).collect();
    changes(&files, &ids, Some(&pack), &ReadFailures::default())
}

#[test]
fn changes_count_growth_for_logs_and_whole_files_otherwise() {
    let desk = small();
    let whole = fs::metadata(desk.root.join(LOG)).unwrap().len();
    desk.add(LOG, "{}\n");
    assert_eq!(is_unchanged(&desk), (3, false));
    desk.add(TODOS, "  ");
    assert_eq!(is_unchanged(&desk), (3 + 5, false));
    // Truncated, or replaced by another file.
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
fn torn_pack_or_damaged_first_index_is_not_unchanged() {
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
fn open_existing_fails_for_a_pack_it_cannot_open() {
    let desk = small();
    assert!(open_existing(&desk.pack).unwrap().is_some());
    assert!(
        open_existing(&desk.pack.with_file_name("none"))
            .unwrap()
            .is_none()
    );
    let link = desk.pack.with_file_name("link.pack");
    std::os::unix::fs::symlink(&desk.pack, &link).unwrap();
    assert!(open_existing(&link).is_err());
}

#[test]
fn refuse_damaged_reports_that_nothing_was_removed() {
    let path = Path::new("s.pack");
    assert!(refuse_damaged(path, &[]).is_ok());
    let damage = Damage::unreadable_pack(path, &Error::refused("its frame is gone"));
    let error = refuse_damaged(path, &[damage]).unwrap_err().to_string();
    assert!(error.contains("nothing was removed"), "{error}");
    assert!(error.contains("its frame is gone"), "{error}");
}

#[test]
fn pack_paths_fail_for_an_unreadable_archive() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path());
    assert!(archive.pack_paths().unwrap().is_empty());
    fs::write(archive.dir(), "").unwrap();
    assert!(archive.pack_paths().unwrap().is_empty());
    fs::remove_file(archive.dir()).unwrap();
    std::os::unix::fs::symlink("archive", archive.dir()).unwrap();
    assert!(archive.pack_paths().is_err());
}
