//! Reading by offset, and what remains of damaged files.

use std::fs;

use super::*;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

/// A compressed file with these frames.
fn file_of(contents: &[&[u8]]) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zst");
    let file = File::create(&path).unwrap();
    let mut encoder = FrameEncoder::new().unwrap();
    for content in contents {
        encoder.begin();
        encoder.put(&file, content).unwrap();
        encoder.finish(&file).unwrap();
    }
    let bytes = fs::read(&path).unwrap();
    (dir, path, bytes)
}

/// Opens a file whose manifest lists `packed` bytes with `len` bytes of content.
fn open(path: &Path, packed: usize, len: usize) -> CompressedFile {
    let id = FileId {
        len: len as u64,
        ..FileId::default()
    };
    CompressedFile::open(path, packed as u64, id).unwrap()
}

/// Reads everything that is readable, with `None` for bytes that are not.
fn readable(file: &CompressedFile) -> Vec<Option<u8>> {
    let len = file.size().unwrap();
    let mut found = Vec::new();
    while (found.len() as u64) < len {
        let mut byte = [0; 7];
        match file.read_at(&mut byte, found.len() as u64) {
            Ok(0) => break,
            Ok(read) => found.extend(byte[..read].iter().copied().map(Some)),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                found.push(None);
            }
        }
    }
    found
}

const LINES: [&[u8]; 5] = [
    b"",
    b"{\"first\":1}\n{\"more\":\"of the same, of the same, of the same\"}\n",
    b"{\"second\":2}\n",
    b"third line, third line, third line, third line, third line\n",
    b"\n",
];

#[test]
fn content_is_read_from_any_offset() {
    let long: Vec<u8> = (0..3 * FRAME + 5).map(|n| (n % 251) as u8).collect();
    let (_dir, path, bytes) = file_of(&[&long]);
    let file = open(&path, bytes.len(), long.len());
    assert_eq!(file.frames().len(), 4);
    for at in [0, 1, FRAME - 3, FRAME, 2 * FRAME - 1, 3 * FRAME + 4] {
        let mut some = [0; 10];
        let read = file.fill_at(&mut some, at as u64).unwrap();
        let end = (at + 10).min(long.len());
        assert_eq!(&some[..read], &long[at..end], "{at}");
    }
    assert_eq!(file.read_at(&mut [0; 4], long.len() as u64).unwrap(), 0);
    assert!(file.lost_ranges().is_empty());
}

#[test]
fn empty_file_has_an_empty_frame() {
    let (_dir, path, bytes) = file_of(&[b""]);
    assert!(!bytes.is_empty());
    let file = open(&path, bytes.len(), 0);
    assert_eq!((file.frames().len(), file.size().unwrap()), (1, 0));
    assert_eq!(file.read_at(&mut [0; 4], 0).unwrap(), 0);
}

/// Frames of an update that was interrupted, or whose line is lost.
#[test]
fn frames_after_the_listed_ones_are_not_read() {
    let (_dir, path, bytes) = file_of(&LINES);
    let whole = open(&path, bytes.len(), LINES.concat().len());
    let third = whole.frames()[2];
    let file = open(&path, third.at as usize, third.start as usize);
    let listed: Vec<u8> = readable(&file).into_iter().flatten().collect();
    assert_eq!(listed, [LINES[0], LINES[1]].concat());
    let (all, packed) = CompressedFile::open_unlisted(&path).unwrap();
    assert_eq!(packed, bytes.len() as u64);
    assert_eq!(all.size().unwrap(), LINES.concat().len() as u64);
}

#[test]
fn file_cut_anywhere_yields_every_whole_frame_before_the_cut() {
    let (_dir, path, bytes) = file_of(&LINES);
    let content = LINES.concat();
    let frames = open(&path, bytes.len(), content.len()).frames().to_vec();
    for cut in 0..bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let file = open(&path, bytes.len(), content.len());
        let whole = frames
            .iter()
            .filter(|frame| frame.at + frame.bytes <= cut as u64);
        let whole: usize = whole.map(|frame| frame.len as usize).sum();
        let found = readable(&file);
        let (before, after) = found.split_at(whole);
        assert!(
            before
                .iter()
                .copied()
                .eq(content[..whole].iter().copied().map(Some)),
            "{cut}"
        );
        assert!(after.iter().all(Option::is_none), "{cut}");
        let lost: Vec<Range<u64>> = match whole == content.len() {
            true => Vec::new(),
            false => std::iter::once(whole as u64..content.len() as u64).collect(),
        };
        assert_eq!(file.lost_ranges(), lost, "{cut}");
        // Without a manifest, the same frames are found.
        let (all, _) = CompressedFile::open_unlisted(&path).unwrap();
        assert_eq!(all.size().unwrap(), whole as u64, "{cut}");
    }
}

#[test]
fn flipped_bit_costs_its_own_frame_only() {
    let (_dir, path, bytes) = file_of(&LINES);
    let content = LINES.concat();
    let frames = open(&path, bytes.len(), content.len()).frames().to_vec();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            fs::write(&path, damaged).unwrap();
            let file = open(&path, bytes.len(), content.len());
            let own = frames
                .iter()
                .find(|it| it.at + it.bytes > at as u64)
                .unwrap();
            let own = own.start as usize..(own.start + own.len) as usize;
            let found = readable(&file);
            assert_eq!(
                found.len(),
                content.len(),
                "byte {at}, bit {bit}: {:?}",
                file.frames()
            );
            for (offset, (found, wanted)) in found.iter().zip(&content).enumerate() {
                let is_own = own.contains(&offset);
                let fits = found.map_or(is_own, |found| found == *wanted);
                assert!(
                    fits,
                    "byte {at}, bit {bit}: offset {offset} is {found:?} in {:?}",
                    file.frames()
                );
            }
            let lost = file.lost_ranges();
            let fits = |lost: &Range<u64>| own == (lost.start as usize..lost.end as usize);
            assert!(lost.iter().all(fits), "byte {at}, bit {bit}: {lost:?}");
        }
    }
}

#[test]
fn neighbours_of_two_damaged_frames_are_read() {
    let (_dir, path, bytes) = file_of(&LINES);
    let content = LINES.concat();
    let frames = open(&path, bytes.len(), content.len()).frames().to_vec();
    let mut damaged = bytes.clone();
    // The headers of two frames.
    for frame in [frames[1], frames[3]] {
        damaged[frame.at as usize..frame.at as usize + 6].fill(0xff);
    }
    fs::write(&path, damaged).unwrap();
    let file = open(&path, bytes.len(), content.len());
    let mut sound: Vec<u8> = Vec::new();
    file.each_frame(0, |_, bytes| {
        sound.extend(bytes.unwrap_or_default());
        Ok(())
    })
    .unwrap();
    assert_eq!(sound, [LINES[2], LINES[4]].concat());
    let lost: u64 = file.lost_ranges().iter().map(|it| it.end - it.start).sum();
    assert_eq!(lost as usize, LINES[1].len() + LINES[3].len());
}

#[test]
fn file_that_claims_too_much_is_refused() {
    let (_dir, path, bytes) = file_of(&LINES);
    let id = FileId {
        len: ALWAYS_ALLOWED + 1,
        ..FileId::default()
    };
    let refused = CompressedFile::open(&path, bytes.len() as u64, id).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    // A frame with more content than a frame may have is not read.
    let zeros = vec![0; 2 * FRAME];
    let mut large = Compressor::new(1).unwrap();
    large.set_parameter(CParameter::ChecksumFlag(true)).unwrap();
    fs::write(&path, large.compress(&zeros).unwrap()).unwrap();
    let (file, packed) = CompressedFile::open_unlisted(&path).unwrap();
    assert_eq!((file.size().unwrap(), packed), (0, 0));
}

#[test]
fn link_in_place_of_the_file_is_refused() {
    let (dir, path, bytes) = file_of(&LINES);
    let link = dir.path().join("link.zst");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    CompressedFile::open(&link, bytes.len() as u64, FileId::default()).unwrap_err();
}
