//! Lines read forwards and backwards, from any bytes in chunks of any size.

use std::fs;
use std::io::{self, Cursor, Read, Seek, SeekFrom};

use annals_jsonl::{LineEnding, OVERSIZE_HEAD, Scanner, TailReader};
use proptest::prelude::*;

/// Fields on which both directions must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    offset: u64,
    bytes: Vec<u8>,
    len: u64,
    ending: LineEnding,
    oversize: bool,
}

/// Splits in the simplest way, as the model for both readers.
fn model(input: &[u8], cap: usize) -> Vec<Seen> {
    let mut offset = 0;
    let spans = input.split_inclusive(|byte| *byte == b'\n');
    spans
        .map(|span| {
            let (content, ending) = match span {
                [content @ .., b'\r', b'\n'] => (content, LineEnding::CrLf),
                [content @ .., b'\n'] => (content, LineEnding::Lf),
                _ => (span, LineEnding::None),
            };
            let oversize = span.len() > cap;
            let shown = if oversize {
                content.len().min(cap).min(OVERSIZE_HEAD)
            } else {
                content.len()
            };
            let shown = &content[..shown];
            let bytes = if offset == 0 {
                shown.strip_prefix(b"\xef\xbb\xbf").unwrap_or(shown)
            } else {
                shown
            };
            let seen = Seen {
                offset,
                bytes: bytes.to_vec(),
                len: span.len() as u64,
                ending,
                oversize,
            };
            offset += span.len() as u64;
            seen
        })
        .collect()
}

fn forwards<R: Read>(scanner: &mut Scanner<R>) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(line) = scanner.next().unwrap() {
        assert_eq!(line.number, seen.len() as u64 + 1);
        let (bytes, ending) = (line.bytes.to_vec(), line.ending);
        seen.push(Seen {
            offset: line.offset,
            bytes,
            len: line.len,
            ending,
            oversize: line.oversize,
        });
    }
    assert_eq!(scanner.next().unwrap(), None);
    seen
}

fn backwards<R: Read + Seek>(mut tail: TailReader<R>) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(line) = tail.prev().unwrap() {
        let (bytes, ending) = (line.bytes.to_vec(), line.ending);
        seen.push(Seen {
            offset: line.offset,
            bytes,
            len: line.len,
            ending,
            oversize: line.oversize,
        });
    }
    assert_eq!(tail.prev().unwrap(), None);
    seen.reverse();
    seen
}

/// How often reads fail with a retryable error.
#[derive(Clone, Copy, Debug)]
enum Fails {
    Never,
    Once,
    Often,
}

/// Returns its input in chunks of given sizes, with an interruption before each and occasional
/// failures.
struct Chunks<'a> {
    all: Cursor<&'a [u8]>,
    sizes: std::iter::Cycle<std::vec::IntoIter<usize>>,
    turn: usize,
    fails: Fails,
}

impl<'a> Chunks<'a> {
    fn new(all: &'a [u8], sizes: Vec<usize>, fails: Fails) -> Self {
        Self {
            all: Cursor::new(all),
            sizes: sizes.into_iter().cycle(),
            turn: 0,
            fails,
        }
    }
}

impl Read for Chunks<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.turn += 1;
        if self.turn % 2 == 1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let fails = match self.fails {
            Fails::Never => false,
            Fails::Once => self.turn == 6,
            Fails::Often => self.turn.is_multiple_of(6),
        };
        if fails {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let size = self.sizes.next().unwrap().min(into.len());
        self.all.read(&mut into[..size])
    }
}

impl Seek for Chunks<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.all.seek(to)
    }
}

/// Generates bytes in which line ends, carriage returns and byte order marks are frequent.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        prop::collection::vec(any::<u8>(), 0..40),
        (1..9_000_usize).prop_map(|len| vec![b'x'; len]),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn line_spans_concatenate_to_the_input_in_any_chunks(
        input in bytes(),
        sizes in prop::collection::vec(1..600_usize, 1..5),
        capacity in 1..5_000_usize,
        cap in prop_oneof![1..30_usize, 1..10_000_usize, Just(1 << 20)],
    ) {
        let wanted = model(&input, cap);
        prop_assert_eq!(wanted.iter().map(|seen| seen.len).sum::<u64>(), input.len() as u64);
        let chunks = Chunks::new(&input, sizes, Fails::Never);
        let mut scanner = Scanner::with_capacity_and_cap(chunks, capacity, cap);
        prop_assert_eq!(&forwards(&mut scanner), &wanted);

        scanner.reset(Chunks::new(&input, vec![1], Fails::Never));
        prop_assert_eq!(&forwards(&mut scanner), &wanted);
    }

    #[test]
    fn next_where_returns_the_lines_that_match(
        input in bytes(),
        sizes in prop::collection::vec(1..40_usize, 1..20),
        fails in prop::sample::select(vec![Fails::Never, Fails::Once]),
        capacity in 1..40_usize,
        cap in prop_oneof![1..60_usize, Just(1 << 20)],
        mark in prop::sample::select(vec!["a", "ab", "{\"a", "\r", "zzz"]),
    ) {
        let reader = Chunks::new(&input, sizes, fails);
        let mut scanner = Scanner::with_capacity_and_cap(reader, capacity, cap);
        let find = |bytes: &[u8]| {
            bytes.windows(mark.len()).position(|at| at == mark.as_bytes())
        };
        let mut seen = Vec::new();
        loop {
            match scanner.next_where(find, mark.len()) {
                Ok(Some(line)) => {
                    // Skipped lines are not counted.
                    prop_assert_eq!(line.number, 0);
                    seen.push((line.offset, line.len, line.bytes.to_vec(), line.ending));
                }
                Ok(None) => break,
                Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::TimedOut),
            }
        }
        // Only a last line without a match and without a line end is left.
        let rest = input.rsplit(|byte| *byte == b'\n').next().unwrap();
        let rest = if find(rest).is_none() { rest.len() } else { 0 };
        prop_assert!(cap < 60 || scanner.offset() == (input.len() - rest) as u64);
        let spans = input.split_inclusive(|byte| *byte == b'\n');
        let wanted: Vec<_> = model(&input, cap)
            .into_iter()
            .zip(spans)
            .filter(|(line, span)| find(span).is_some() || line.oversize)
            .map(|(line, _)| (line.offset, line.len, line.bytes, line.ending))
            .collect();
        // A line above the cap is returned although it does not match, unless it fit into the
        // buffer.
        let held = |line: &Seen| line.len <= capacity.max(cap) as u64 + 80;
        let spans = input.split_inclusive(|byte| *byte == b'\n');
        let least = model(&input, cap).into_iter().zip(spans);
        let least = least.filter(|(line, span)| find(span).is_some() || !held(line)).count();
        prop_assert!(seen.len() >= least);
        prop_assert!(seen.is_sorted_by_key(|line| line.0));
        prop_assert!(seen.iter().all(|line| wanted.contains(line)), "{:?} {:?}", seen, wanted);
    }

    #[test]
    fn tail_reader_returns_lines_in_reverse(
        input in bytes(),
        block in 1..5_000_usize,
        cap in prop_oneof![1..30_usize, 1..10_000_usize, Just(1 << 20)],
    ) {
        let tail = TailReader::with_cap(Cursor::new(&input), block, cap).unwrap();
        prop_assert_eq!(backwards(tail), model(&input, cap));
    }

    #[test]
    fn failed_read_can_be_retried_without_a_gap(
        input in bytes(),
        cap in prop_oneof![1..30_usize, Just(1 << 20)],
    ) {
        let mut scanner = Scanner::with_capacity_and_cap(Chunks::new(&input, vec![7, 300], Fails::Often), 16, cap);
        let (mut seen, mut failed) = (Vec::new(), false);
        loop {
            match scanner.next() {
                Ok(Some(line)) => seen.push((line.offset, line.bytes.to_vec(), line.len, line.ending)),
                Ok(None) => break,
                Err(error) => {
                    prop_assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                    failed = true;
                }
            }
        }
        // The third read fails, and the error is returned.
        prop_assert!(failed || input.len() <= 7);
        let wanted = model(&input, cap);
        let wanted: Vec<_> = wanted.into_iter().map(|s| (s.offset, s.bytes, s.len, s.ending)).collect();
        prop_assert_eq!(seen, wanted);
    }

    #[test]
    fn scanner_from_offset_returns_the_remaining_lines(input in bytes(), stop in 0..20_usize) {
        let all = model(&input, usize::MAX);
        let from = all.get(stop).map_or(input.len() as u64, |seen| seen.offset);
        let stop = stop.min(all.len());
        let mut scanner = Scanner::from_offset(&input[from as usize..], from, stop as u64 + 1);
        let mut left = all[stop..].iter();
        while let Some(line) = scanner.next().unwrap() {
            let wanted = left.next().unwrap();
            prop_assert_eq!((line.offset, line.bytes), (wanted.offset, &wanted.bytes[..]));
            prop_assert_eq!(line.number, (all.len() - left.len()) as u64);
        }
        prop_assert_eq!(left.len(), 0);
    }
}

#[test]
fn byte_order_mark_is_recognised_only_at_the_start() {
    let mut scanner = Scanner::new(&b"\xef\xbb\xbfa\n\xef\xbb\xbfb\r\n\n"[..]);
    let line = scanner.next().unwrap().unwrap();
    assert_eq!((line.bom, line.bytes, line.len), (true, &b"a"[..], 5));
    let line = scanner.next().unwrap().unwrap();
    assert_eq!(
        (line.bom, line.bytes, line.ending),
        (false, &b"\xef\xbb\xbfb"[..], LineEnding::CrLf)
    );
    let line = scanner.next().unwrap().unwrap();
    assert_eq!(
        (line.offset, line.bytes, line.len, line.number),
        (11, &b""[..], 1, 3)
    );
    assert_eq!(scanner.offset(), 12);
}

#[test]
fn gigabyte_line_is_skipped_in_little_memory() {
    let before = peak_kib();
    let len = 1 << 30;
    let line = io::repeat(b'x').take(len).chain(&b"\nlast\n"[..]);
    let mut scanner = Scanner::with_capacity_and_cap(line, 64 << 10, 33 << 20);
    let first = scanner.next().unwrap().unwrap();
    assert_eq!(
        (first.len, first.oversize, first.bytes.len()),
        (len + 1, true, OVERSIZE_HEAD)
    );
    let last = scanner.next().unwrap().unwrap();
    assert_eq!(
        (last.offset, last.bytes, last.oversize),
        (len + 1, &b"last"[..], false)
    );
    let grown = peak_kib() - before;
    assert!(grown < 48 << 10, "grew by {grown} KiB");
}

#[test]
fn tail_reader_reads_only_what_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let line = [&[b'x'; 999][..], b"\n"].concat();
    fs::write(&path, line.repeat(10_000)).unwrap();
    let mut counted = Counted {
        inner: fs::File::open(&path).unwrap(),
        read: 0,
        calls: 0,
    };
    let mut tail = TailReader::new(&mut counted).unwrap();
    for back in 1..=60 {
        assert_eq!(
            tail.prev().unwrap().unwrap().offset,
            10_000_000 - back * 1_000
        );
    }
    assert_eq!(counted.read, 64 << 10);
}

#[test]
fn long_line_is_read_backwards_in_linear_time() {
    let mut input = b"first\n".to_vec();
    input.resize(48 << 20, b'x');
    let mut counted = Counted {
        inner: Cursor::new(&input),
        read: 0,
        calls: 0,
    };
    let mut tail = TailReader::new(&mut counted).unwrap();
    let line = tail.prev().unwrap().unwrap();
    assert_eq!(
        (line.offset, line.len, line.ending),
        (6, (48 << 20) - 6, LineEnding::None)
    );
    assert_eq!(tail.prev().unwrap().unwrap().bytes, b"first");
    assert_eq!(counted.read, input.len());
    assert!(counted.calls < 60, "{} reads", counted.calls);
}

#[test]
fn line_length_is_content_plus_ending() {
    let mut scanner = Scanner::new(&b"one\ntwo\r\n\n\r\nlast"[..]);
    let mut lens = Vec::new();
    while let Some(line) = scanner.next().unwrap() {
        assert_eq!(line.bytes.len() as u64 + line.ending.len(), line.len);
        lens.push(line.ending.len());
    }
    assert_eq!(lens, [1, 2, 1, 2, 0]);
}

struct Counted<R> {
    inner: R,
    read: usize,
    calls: usize,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.read += read;
        self.calls += 1;
        Ok(read)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn next_where_returns_unmatched_lines_only_above_the_cap() {
    for len in 10..30 {
        for ending in ["", "\n"] {
            let input = "x".repeat(len) + ending;
            let mut scanner = Scanner::with_capacity_and_cap(Cursor::new(&input), 4, 19);
            let given = scanner.next_where(|_| None, 1).unwrap();
            let above = input.len() > 19;
            assert_eq!(
                given.map(|line| line.oversize),
                above.then_some(true),
                "{len}"
            );
        }
    }
}
