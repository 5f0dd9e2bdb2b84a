//! Entries of companions: writing, binding to lines, and reading as little as possible.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use annals_jsonl::{OpenLog, ReadAt as _};
use annals_layouts::layout::{Decoded, Decoder as _, Record};

use super::decoder::Annotated;
use super::entries::CompanionEntries;
use super::new_entries::{companion_line, cut_leftovers};
use super::*;
use crate::store::{Root, WriteOptions};

fn entries(of: &[(u64, Option<&str>, Option<&str>, &str)]) -> CompanionEntries {
    let mut bytes = Vec::new();
    for (offset, line, after, record) in of {
        let sum = |line: &str| line_sum(line.as_bytes());
        let line = companion_line(
            *offset,
            line.map(sum),
            after.map(sum),
            // An inode that no log has.
            Some(0),
            (*record).to_owned(),
        );
        bytes.extend(line.unwrap());
        bytes.push(b'\n');
    }
    let mut entries = CompanionEntries::default();
    entries.add(&bytes);
    entries
}

fn log(text: &str) -> (tempfile::TempDir, OpenLog) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, text).unwrap();
    let log = OpenLog::open(&path).unwrap();
    (dir, log)
}

#[test]
fn entries_are_written_again_for_lines_that_moved() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("orchestrator", dir.path()).unwrap();
    let artifact = "projects/v_FXjHoCS5zUJmfyn-5v/2026-11-15.jsonl";
    let artifact = root.layout.classify(artifact.as_ref()).unwrap();
    let path = root.locate(&artifact).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let first = b"{\"type\":\"user\",\"content\":\"first\"}\n".to_vec();
    std::fs::write(&path, &first).unwrap();
    let file = File::open(&path).unwrap();
    let records = [
        br#"{"type":"user","content":"x","annals":{"id":"moved"}}"#.to_vec(),
        br#"{"type":"system","annals":{"id":"alone"}}"#.to_vec(),
    ];
    let mut parted = SplitRecords::new(root.layout.writer().unwrap(), &records).unwrap();
    let (options, end) = (WriteOptions::default(), first.len() as u64);
    let written = parted.write_companion(&root, &artifact, options, &file, end);
    let mut written = written.unwrap();
    let companion = root.layout.companion(&artifact).unwrap();
    let companion = root.locate(&companion).unwrap();
    let before = std::fs::metadata(&companion).unwrap().len();
    // Another program's record came first.
    let foreign = b"{\"type\":\"user\",\"content\":\"foreign\"}".to_vec();
    let lines = [&[foreign.clone()][..], &parted.lines].concat();
    let log = [first, lines.join(&b'\n'), b"\n".to_vec()].concat();
    std::fs::write(&path, log).unwrap();
    let place = end + foreign.len() as u64 + 1;
    written.move_to(place, &file).unwrap();

    let mut found = CompanionEntries::default();
    let bytes = std::fs::read(&companion).unwrap();
    found.add(&bytes);
    assert_eq!(found.len(), 2);
    assert!(found.read > before, "entries keep their places");
    let alone = place + parted.lines[0].len() as u64 + 1;
    assert!(found.members.contains_key(&place) && found.standalone.contains_key(&alone));
    let log = OpenLog::open(&path).unwrap();
    assert_eq!(found.bind(&log).unwrap(), 0);
    let report = found.bind_all(&log, &log.id().unwrap()).unwrap();
    assert!(report.unmatched.is_empty() && report.moved.is_empty());
}

#[test]
fn bind_skips_entries_that_were_written_again() {
    let (_dir, log) = log("{1}\n{3}\n{2}\n \n");
    let mut bound = entries(&[
        (4, Some("{2}"), None, r#"{"x":2}"#),
        (8, None, Some("{2}"), r#"{"alone":2}"#),
        (8, Some("{2}"), None, r#"{"x":2}"#),
        (12, None, Some("{2}"), r#"{"alone":2}"#),
    ]);
    let report = bound.bind_all(&log, &log.id().unwrap()).unwrap();
    assert!(report.unmatched.is_empty() && report.moved.is_empty());
    assert_eq!(bound.members.keys().copied().collect::<Vec<_>>(), [8]);
    assert_eq!(bound.standalone.keys().copied().collect::<Vec<_>>(), [12]);
    assert_eq!((bound.len(), bound.moved.len()), (2, 0));
}

#[test]
fn bind_keeps_records_without_line_after_swapped_lines() {
    let (_dir, log) = log("{2}\n \n{1}\n \n");
    let mut bound = entries(&[
        (0, Some("{1}"), None, r#"{"x":1}"#),
        (4, None, Some("{1}"), r#"{"alone":1}"#),
        (6, Some("{2}"), None, r#"{"x":2}"#),
        (10, None, Some("{2}"), r#"{"alone":2}"#),
    ]);
    bound.bind(&log).unwrap();
    assert_eq!(bound.members[&0][0].record, r#"{"x":2}"#);
    assert_eq!(bound.standalone[&4][0].record, r#"{"alone":2}"#);
    assert_eq!(bound.standalone[&10][0].record, r#"{"alone":1}"#);
}

#[test]
fn bind_leaves_entries_of_a_grown_log_in_place() {
    let (_dir, log) = log("{1}\n{2}\n{2}\nmore\n");
    // The second of two equal lines is annotated, and the first is not.
    let mut bound = entries(&[(8, Some("{2}"), None, r#"{"x":1}"#)]);
    bound.bind(&log).unwrap();
    assert_eq!(bound.members.keys().copied().collect::<Vec<_>>(), [8]);
}

#[test]
fn bind_moves_entries_of_a_rewritten_log_to_matching_lines() {
    let (_dir, log) = log("{2}\n{3}\n");
    let mut bound = entries(&[
        (4, Some("{2}"), None, r#"{"x":2}"#),
        (8, None, Some("{2}"), r#"{"alone":1}"#),
        (10, Some("{3}"), None, r#"{"x":3}"#),
        (14, Some("{4}"), None, r#"{"x":4}"#),
    ]);
    bound.bind(&log).unwrap();
    assert_eq!(bound.members.keys().copied().collect::<Vec<_>>(), [0, 4]);
    assert_eq!(bound.moved[&0][0].record, r#"{"alone":1}"#);
    assert!(bound.standalone.is_empty());
}

#[test]
fn bind_places_records_without_blank_line_after_previous_line() {
    // The blank lines before `{2}` and at the end were removed; `{1}` did not move, and `{4}` was
    // written later.
    let made = [
        (0, Some("{1}"), None, r#"{"x":1}"#),
        (4, None, Some("{1}"), r#"{"alone":1}"#),
        (10, None, Some("{2}"), r#"{"alone":2}"#),
        (8, Some("{4}"), None, r#"{"x":4}"#),
        (12, None, Some("{4}"), r#"{"alone":4}"#),
    ];
    let (_dir, log) = log("{1}\n{2}\n{4}\n \n");
    let mut bound = entries(&made);
    bound.bind(&log).unwrap();
    let keys = |entries: &std::collections::BTreeMap<u64, Vec<_>>| {
        entries.keys().copied().collect::<Vec<u64>>()
    };
    assert_eq!(bound.members.keys().copied().collect::<Vec<_>>(), [0, 8]);
    assert_eq!(
        (keys(&bound.moved), keys(&bound.standalone)),
        (vec![0, 4], vec![12])
    );
}

#[test]
fn bind_moves_end_record_only_if_log_was_replaced() {
    let (_dir, log) = log("{1}\n");
    let inode = log.id().unwrap().ino;
    let of_inode = |inode| {
        let sum = Some(line_sum(b"{1}"));
        let line = companion_line(4, None, sum, Some(inode), "{}".to_owned()).unwrap();
        let mut entries = CompanionEntries::default();
        entries.add(&[line, Vec::new()].join(&b'\n'));
        entries.bind(&log).unwrap();
        entries
    };
    let replaced = of_inode(inode + 1);
    assert_eq!((replaced.moved.len(), replaced.standalone.len()), (1, 0));
    let cut_off = of_inode(inode);
    assert_eq!((cut_off.moved.len(), cut_off.standalone.len()), (0, 1));
}

/// Creates a log and a companion with an entry for each line.
fn annotated_log(dir: &Path, lines: usize) -> (PathBuf, Vec<u64>) {
    let (log, companion) = (dir.join("log.jsonl"), dir.join("log.annals"));
    let (mut text, mut beside, mut places) = (String::new(), Vec::new(), Vec::new());
    for number in 0..lines {
        let line = format!(r#"{{"type":"user","content":"{number}"}}"#);
        let offset = text.len() as u64;
        let members = format!(r#"{{"annals":{{"id":"m{number}"}}}}"#);
        let sum = Some(line_sum(line.as_bytes()));
        beside.extend(companion_line(offset, sum, None, Some(0), members).unwrap());
        beside.push(b'\n');
        places.push(offset);
        text += &line;
        text.push('\n');
    }
    std::fs::write(&log, text).unwrap();
    std::fs::write(companion, beside).unwrap();
    (log, places)
}

fn reader(log: &Path) -> Annotated {
    let root = Root::new("orchestrator", log.parent().unwrap()).unwrap();
    let artifact = "projects/v_FXjHoCS5zUJmfyn-5v/2026-11-15.jsonl";
    let artifact = root.layout.classify(artifact.as_ref()).unwrap();
    root.annotated(
        root.layout.decoder(&artifact),
        log,
        OsStr::new("log.annals"),
    )
}

fn id_at(reader: &mut Annotated, log: &Path, offset: u64) -> String {
    let text = std::fs::read_to_string(log).unwrap();
    let at = usize::try_from(offset).unwrap();
    let line = text[at..].lines().next().unwrap();
    let record = Record {
        span: annals_layouts::model::Span {
            offset,
            len: line.len() as u64 + 1,
            line: 0,
        },
        bytes: line.as_bytes(),
        terminated: true,
        oversize: false,
    };
    let mut sink = Decoded::default();
    reader.decode(&record, &mut sink);
    sink.items[0].id.clone().unwrap().to_string()
}

#[test]
fn the_end_of_a_log_needs_only_the_end_of_its_companion() {
    let dir = tempfile::tempdir().unwrap();
    let (log, places) = annotated_log(dir.path(), 3_000);
    let mut last = reader(&log);
    assert!(last.has_companion_data() && last.entries.len() < 300);
    assert_eq!(id_at(&mut last, &log, places[2_999]), "m2999");
    assert!(last.entries.len() < 300);
    // Earlier lines need more of it.
    assert_eq!(id_at(&mut last, &log, places[2_500]), "m2500");
    assert!(last.from > 0);
    // The beginning of the log needs only the beginning.
    assert_eq!(id_at(&mut last, &log, places[0]), "m0");
    assert_eq!(id_at(&mut last, &log, places[9]), "m9");
    assert!(last.from == 0 && last.entries.len() < 300);
    assert_eq!(id_at(&mut last, &log, places[1_000]), "m1000");
    assert_eq!((last.from, last.entries.len()), (0, 3_000));
    assert_eq!(id_at(&mut last, &log, places[2_999]), "m2999");
}

#[test]
fn all_of_a_companion_is_read_for_a_log_that_was_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let (log, places) = annotated_log(dir.path(), 3_000);
    let text = std::fs::read_to_string(&log).unwrap();
    let cut = usize::try_from(places[10]).unwrap();
    std::fs::write(&log, &text[cut..]).unwrap();
    let mut last = reader(&log);
    assert_eq!(last.from, 0);
    assert_eq!(id_at(&mut last, &log, places[2_999] - places[10]), "m2999");
    assert_eq!(id_at(&mut last, &log, 0), "m10");
}

#[test]
fn entries_of_swapped_lines_of_one_length_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let (log, places) = annotated_log(dir.path(), 3_000);
    let text = std::fs::read_to_string(&log).unwrap();
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines.swap(0, 1);
    lines.swap(2_990, 2_991);
    std::fs::write(&log, lines.concat()).unwrap();
    // All offsets are the same, and the last lines are unchanged.
    let mut last = reader(&log);
    assert!(last.from > 0);
    assert_eq!(id_at(&mut last, &log, places[2_999]), "m2999");
    assert!(last.from > 0);
    assert_eq!(id_at(&mut last, &log, places[2_990]), "m2991");
    assert_eq!(last.bound, text.len() as u64);
    assert_eq!(id_at(&mut last, &log, places[2_991]), "m2990");
    assert_eq!(id_at(&mut last, &log, places[1]), "m0");
    let mut first = reader(&log);
    assert_eq!(id_at(&mut first, &log, 0), "m1");
    assert_eq!(id_at(&mut first, &log, places[1]), "m0");
}

#[test]
fn entry_of_a_line_that_moved_to_the_place_of_another_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (log, places) = annotated_log(dir.path(), 3);
    // The second line has no entry; it is swapped with the third.
    let companion = log.with_file_name("log.annals");
    let beside = std::fs::read_to_string(&companion).unwrap();
    let beside: Vec<&str> = beside.split_inclusive('\n').collect();
    std::fs::write(&companion, [beside[0], beside[2]].concat()).unwrap();
    let text = std::fs::read_to_string(&log).unwrap();
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines.swap(1, 2);
    std::fs::write(&log, lines.concat()).unwrap();
    let mut found = reader(&log);
    assert_eq!(id_at(&mut found, &log, 0), "m0");
    assert_eq!(id_at(&mut found, &log, places[1]), "m2");
}

#[test]
fn entries_written_after_the_first_lines_were_replaced_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let (log, places) = annotated_log(dir.path(), 3_000);
    let companion = log.with_file_name("log.annals");
    // A different first line of the same length, with an entry at the end of the companion.
    let text = std::fs::read_to_string(&log).unwrap();
    let text = text.replacen(r#"content":"0""#, r#"content":"x""#, 1);
    std::fs::write(&log, &text).unwrap();
    let sum = Some(line_sum(text.lines().next().unwrap().as_bytes()));
    let members = r#"{"annals":{"id":"later"}}"#.to_owned();
    let mut line = companion_line(0, sum, None, Some(0), members).unwrap();
    line.push(b'\n');
    let mut beside = std::fs::read(&companion).unwrap();
    beside.extend(line);
    std::fs::write(&companion, beside).unwrap();
    let mut found = reader(&log);
    assert_eq!(id_at(&mut found, &log, 0), "later");
    assert_eq!(id_at(&mut found, &log, places[2_999]), "m2999");
}

#[test]
fn bind_drops_entries_of_another_log() {
    let (_dir, log) = log("{7}\n{8}\n{9}\n");
    let mut bound = entries(&[
        (2, Some("{1}"), None, r#"{"x":1}"#),
        (6, None, Some("{1}"), r#"{"alone":1}"#),
    ]);
    bound.bind(&log).unwrap();
    assert!(bound.is_empty());
}

#[test]
fn last_record_for_an_offset_comes_last() {
    let found = entries(&[
        (4, None, None, r#"{"left":1}"#),
        (4, None, None, r#"{"said":1}"#),
    ]);
    assert_eq!(found.standalone[&4].last().unwrap().record, r#"{"said":1}"#);
}

#[test]
fn damaged_and_unfinished_lines_are_skipped() {
    let mut found = CompanionEntries::default();
    let mut bytes =
        b"garbage\n{\"offset\":1}\n{\"offset\":1,\"sum\":\"zz\",\"record\":{}}\n".to_vec();
    let whole = bytes.len() as u64;
    bytes.extend(b"{\"offset\":1,\"rec");
    found.add(&bytes);
    assert!(found.is_empty());
    assert_eq!(found.read, whole);
}

#[test]
fn leftovers_of_an_interrupted_append_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("companion");
    let line = |offset| companion_line(offset, None, None, Some(7), "{}".to_owned()).unwrap();
    let text: Vec<u8> = [line(2), line(9), line(12), b"{\"offset\":9,".to_vec()].join(&b'\n');
    std::fs::write(&path, &text).unwrap();
    let file = File::open(&path).unwrap();
    cut_leftovers(&file, &path, 9, Some(7)).unwrap();
    let kept = std::fs::read(&path).unwrap();
    assert_eq!(kept, [line(2), Vec::new()].join(&b'\n'));
    cut_leftovers(&file, &path, 9, Some(7)).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), kept);
    // An entry with another inode is from before the log was rewritten.
    std::fs::write(&path, &text).unwrap();
    cut_leftovers(&file, &path, 9, Some(8)).unwrap();
    let kept = std::fs::read(&path).unwrap();
    assert_eq!(kept, [line(2), line(9), line(12), Vec::new()].join(&b'\n'));
    // A damaged entry may be for an existing line.
    let text: Vec<u8> = [line(2), b"damaged".to_vec(), Vec::new()].join(&b'\n');
    std::fs::write(&path, &text).unwrap();
    cut_leftovers(&file, &path, 9, Some(7)).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), text);
    cut_leftovers(&file, &path, 0, Some(7)).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"");
}
