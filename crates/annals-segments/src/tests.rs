//! What damaged, hostile, repeated and reordered segments do.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::*;

fn header(start: u64, end: u64) -> Header {
    Header {
        source: SourceId::from_bytes([1; 16]),
        layout: "claude-code".into(),
        root: "/home/me/.claude".into(),
        path: "projects/-app/a.jsonl".into(),
        generation: 0,
        kind: Kind::Lines,
        start,
        end,
        len: 0,
        digest: Digest::new(b""),
        mtime: 0,
        masked: Vec::new(),
    }
}

fn segment(start: u64, content: &[u8]) -> Segment {
    let header = header(start, start + content.len() as u64);
    SegmentWriter::new()
        .unwrap()
        .write(header, content)
        .unwrap()
}

fn content_of(segment: &Segment) -> Result<Vec<u8>> {
    SegmentReader::new().unwrap().content(segment)
}

/// Returns the bytes of a segment with another header, which writers refuse to write.
fn forged(header: &Header, blob: &[u8]) -> Vec<u8> {
    let json = serde_json::to_vec(header).unwrap();
    let mut bytes = b"ASG1".to_vec();
    bytes.extend((json.len() as u32).to_le_bytes());
    bytes.extend((blob.len() as u32).to_le_bytes());
    bytes.extend(json);
    bytes.extend(blob);
    let sum = Digest::new(&bytes);
    bytes.extend(sum.as_bytes());
    bytes
}

#[test]
fn written_segment_is_read_back() {
    let written = segment(7, b"{\"a\":1}\n{}\n");
    let (read, rest) = Segment::parse(written.bytes()).unwrap();
    assert_eq!((&read, rest), (&written, &b""[..]));
    assert_eq!(content_of(&read).unwrap(), b"{\"a\":1}\n{}\n");
    assert_eq!(
        (read.header.start, read.header.end, read.header.len),
        (7, 18, 11)
    );
}

#[test]
fn every_cut_and_every_flipped_bit_is_refused() {
    let whole = segment(0, b"{\"a\":1}\n{\"b\":\"words words words words\"}\n");
    let group = group::write([&whole, &whole]);
    for len in 0..group.len() {
        assert!(group::read(&group[..len]).is_err(), "cut at {len}");
    }
    for at in 0..group.len() * 8 {
        let mut bytes = group.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        assert!(group::read(&bytes).is_err(), "bit {at}");
    }
    assert_eq!(group::read(&group).unwrap().len(), 2);
}

#[test]
fn group_without_one_of_its_segments_is_refused() {
    let (first, second) = (segment(0, b"1\n"), segment(2, b"2\n"));
    let whole = group::write([&first, &second]);
    let without_first = &whole[first.bytes().len()..];
    assert!(group::read(without_first).is_err());
}

#[test]
fn bombs_are_refused_before_they_are_unpacked() {
    let zeros = zstd::bulk::compress(&vec![b'\n'; 32 << 20], 19).unwrap();
    // The claim fits the frame, but these are many lines.
    let mut claim = header(0, 32 << 20);
    claim.len = 32 << 20;
    let (parsed, _) = Segment::parse(&forged(&claim, &zeros)).unwrap();
    assert!(content_of(&parsed).is_err());
    // The frame has more than is claimed.
    let mut claim = header(0, 10);
    claim.len = 10;
    let (parsed, _) = Segment::parse(&forged(&claim, &zeros)).unwrap();
    assert!(content_of(&parsed).is_err());
    // A few bytes claim the longest content: nothing is allocated for them.
    let mut claim = header(0, MAX_CONTENT);
    claim.len = MAX_CONTENT as u32;
    let (parsed, _) = Segment::parse(&forged(&claim, &zeros[..40])).unwrap();
    assert!(matches!(content_of(&parsed), Err(Error::Invalid(_))));
    // Longer than the longest line.
    let mut claim = header(0, MAX_CONTENT + 1);
    claim.len = MAX_CONTENT as u32 + 1;
    assert!(Segment::parse(&forged(&claim, &zeros)).is_err());
    let huge = [b"ASG1".as_slice(), &[0xff; 8]].concat();
    assert!(matches!(Segment::parse(&huge), Err(Error::TooLong { .. })));
}

#[test]
fn contradictions_are_refused() {
    let good = segment(0, b"{}\n{}\n");
    let lie = |change: &dyn Fn(&mut Header)| {
        let mut header = good.header.clone();
        change(&mut header);
        let bytes = forged(&header, good.blob());
        Segment::parse(&bytes).and_then(|(segment, _)| content_of(&segment))
    };
    assert!(lie(&|_| ()).is_ok());
    assert!(lie(&|header| header.end = 7).is_err());
    assert!(lie(&|header| header.len = 5).is_err());
    assert!(lie(&|header| (header.start, header.end) = (6, 0)).is_err());
    assert!(lie(&|header| header.digest = Digest::new(b"other")).is_err());
    assert!(lie(&|header| header.masked = vec![MaskedLine(0, 30)]).is_err());
    assert!(lie(&|header| header.masked = vec![MaskedLine(9, 3)]).is_err());
    assert!(lie(&|header| header.layout = "Claude Code".into()).is_err());
    assert!(lie(&|header| header.root = "home".into()).is_err());
    let digest = Digest::new(b"");
    assert!(lie(&|header| header.kind = Kind::Document { len: 5, digest }).is_err());
    let torn = forged(
        &{
            let mut header = header(0, 2);
            header.len = 2;
            header.digest = Digest::new(b"{}");
            header
        },
        &zstd::bulk::compress(b"{}", 1).unwrap(),
    );
    let (torn, _) = Segment::parse(&torn).unwrap();
    assert!(content_of(&torn).is_err(), "a line without its end");
}

#[test]
fn unknown_members_and_newer_formats_are_refused() {
    let good = segment(0, b"{}\n");
    let mut newer = good.bytes().to_vec();
    newer[3] = b'2';
    assert!(matches!(Segment::parse(&newer), Err(Error::Format(..))));
    let mut json = serde_json::to_value(&good.header).unwrap();
    json["more"] = 1.into();
    assert!(serde_json::from_value::<Header>(json).is_err());
}

#[test]
fn paths_that_leave_the_root_are_refused() {
    for path in [
        "",
        "/etc/passwd",
        "..",
        "a/../b",
        "a//b",
        "./a",
        "a/",
        "a\0b",
        "a\nb",
        "a\u{7f}",
        "\u{fffd}",
    ] {
        assert!(check_path(path).is_err(), "{path:?}");
    }
    assert!(check_path(&"a/".repeat(3000)).is_err());
    assert!(check_path(&"a".repeat(256)).is_err());
    for path in ["a", "projects/-home-me/a.jsonl", "...", "a..b/ c", "ü/日本"] {
        assert!(check_path(path).is_ok(), "{path:?}");
    }
}

#[test]
fn files_of_different_roots_and_layouts_have_different_keys() {
    let keys = [
        FileKey::new("a", "/r", "p/q"),
        FileKey::new("a", "/r/p", "q"),
        FileKey::new("b", "/r", "p/q"),
        FileKey::new("a/", "r", "p/q"),
    ];
    let distinct: std::collections::HashSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());
}

#[test]
fn line_longer_than_a_frame_is_one_segment() {
    let mut line = vec![b'x'; 700 << 10];
    line.push(b'\n');
    let long = segment(0, &line);
    let (read, _) = Segment::parse(long.bytes()).unwrap();
    assert_eq!(content_of(&read).unwrap(), line);
    line.extend(b"{}\n");
    let two = header(0, line.len() as u64);
    assert!(SegmentWriter::new().unwrap().write(two, &line).is_err());
}

#[test]
fn document_of_another_version_is_a_conflict() {
    let document = |digest: &[u8]| Header {
        kind: Kind::Document {
            len: 9,
            digest: Digest::new(digest),
        },
        ..header(0, 4)
    };
    let mut ends = Ends::default();
    ends.take(&document(b"one"));
    assert_eq!(ends.order(&document(b"one")), Order::Known);
    assert_eq!(ends.order(&document(b"two")), Order::Conflict);
}

/// A line of a file, and what masking makes of it.
#[derive(Clone, Debug)]
struct TestLine {
    original: Vec<u8>,
    masked: Vec<u8>,
}

fn lines() -> impl Strategy<Value = Vec<TestLine>> {
    let line = ("[a-c]{0,6}", proptest::option::of("[x-z]{0,4}"));
    let line = line.prop_map(|(original, masked)| TestLine {
        masked: format!("{}\n", masked.unwrap_or_else(|| original.clone())).into(),
        original: format!("{original}\n").into(),
    });
    vec(line, 1..30)
}

/// Returns the segment of a range of lines.
fn segment_of(all: &[TestLine], range: std::ops::Range<usize>) -> Segment {
    let len = |lines: &[TestLine]| {
        lines
            .iter()
            .map(|line| line.original.len() as u64)
            .sum::<u64>()
    };
    let lines = &all[range.clone()];
    let changed = lines.iter().enumerate();
    let changed = changed.filter(|(_, line)| line.original.len() != line.masked.len());
    let masked = changed.map(|(at, line)| MaskedLine(at as u32, line.original.len() as u32));
    let header = Header {
        masked: masked.collect(),
        ..header(len(&all[..range.start]), len(&all[..range.end]))
    };
    let content: Vec<u8> = lines.iter().flat_map(|line| line.masked.clone()).collect();
    SegmentWriter::new()
        .unwrap()
        .write(header, &content)
        .unwrap()
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read_without_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = group::read(&bytes);
        let mut format = b"ASG1".to_vec();
        format.extend(&bytes);
        let _ = Segment::parse(&format);
    }

    #[test]
    fn any_header_and_blob_is_refused_or_read_without_panic(
        start in any::<u64>(), end in any::<u64>(), len in 0..(2_u32 << 20), path in ".{0,20}",
        masked in vec((0..5_u32, any::<u32>()), 0..4), blob in vec(any::<u8>(), 0..60), document in any::<bool>(),
    ) {
        let kind = match document {
            true => Kind::Document { len: end, digest: Digest::new(b"") },
            false => Kind::Lines,
        };
        let masked = masked.into_iter().map(|(at, len)| MaskedLine(at, len)).collect();
        let header = Header { path, len, kind, masked, ..header(start, end) };
        if let Ok((segment, _)) = Segment::parse(&forged(&header, &blob)) {
            prop_assert!(content_of(&segment).is_err());
        }
    }

    /// Whatever ranges are sent, in whatever order and how often, the file is assembled once.
    #[test]
    fn segments_in_any_order_assemble_the_file_once(
        all in lines(),
        cuts in vec(vec(0.0..1.0_f64, 0..6), 1..4),
        order in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let mut sent = Vec::new();
        for cut in &cuts {
            let mut at: Vec<usize> = cut.iter().map(|share| (share * all.len() as f64) as usize).collect();
            at.extend([0, all.len()]);
            at.sort_unstable();
            at.dedup();
            sent.extend(at.windows(2).map(|pair| segment_of(&all, pair[0]..pair[1])));
        }
        let again = sent[order.index(sent.len())].clone();
        sent.push(again);
        // A shuffle that depends only on the seed.
        sent.sort_by_cached_key(|segment| Digest::new(&[segment.bytes(), &seed.to_le_bytes()].concat()));

        let (mut writer, mut reader) = (SegmentWriter::new().unwrap(), SegmentReader::new().unwrap());
        let mut ends = Ends::default();
        let mut stored = Vec::new();
        while !sent.is_empty() {
            let waiting = sent.len();
            let mut left = Vec::new();
            for segment in sent {
                let part = match ends.order(&segment.header) {
                    Order::Known => continue,
                    Order::Gap => { left.push(segment); continue }
                    Order::Conflict => panic!("one file has one kind"),
                    Order::Next => segment,
                    Order::Overlap(end) => reader.cut(&mut writer, &segment, end).unwrap(),
                };
                ends.take(&part.header);
                stored.extend(reader.content(&part).unwrap());
            }
            sent = left;
            prop_assert!(sent.len() < waiting, "the first segment always continues the file");
        }
        let expected: Vec<u8> = all.iter().flat_map(|line| line.masked.clone()).collect();
        prop_assert_eq!(stored, expected);
    }
}
