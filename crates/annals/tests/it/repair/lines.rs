//! Repairs of single lines: NULs, line endings, byte order marks, and their reports.

use annals::model::FlawKind;
use annals::repair::Action;

use super::{Place, chain, file_of, line, repaired};

fn actions(bytes: &[u8]) -> Vec<(Action, String)> {
    let steps = repaired(bytes).0.steps.into_iter();
    steps.map(|step| (step.action, step.detail)).collect()
}

#[test]
fn nul_runs_are_removed_and_reported() {
    let mut lines = chain();
    let bare = lines[4].clone();
    // Before the record and in two places inside it.
    let (head, tail) = (&bare[..1], &bare[1..]);
    lines[4] = [b"\0\0", head, b"\0\0\0", &tail[..1], b"\0", &tail[1..]].concat();
    let (edits, result) = repaired(&file_of(&lines));
    assert_eq!(result, file_of(&chain()));
    let reported: Vec<_> = edits.steps.iter().map(|step| step.action).collect();
    assert_eq!(reported, [Action::StripNuls]);
    assert!(edits.steps[0].detail.starts_with("6 NUL bytes"));
    let start: u64 = lines[..4].iter().map(|line| line.len() as u64 + 1).sum();
    let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
    for removed in &edits.removed {
        assert_eq!(removed.line, 5);
        runs.push((removed.offset - start, removed.bytes.clone()));
    }
    assert_eq!(runs, [(0, vec![0; 2]), (3, vec![0; 3]), (7, vec![0])]);
}

#[test]
fn line_endings_are_preserved() {
    for ending in ["\n", "\r\n"] {
        let glued = [line(3, 2), line(4, 3)].concat();
        let text = [line(1, 0), line(2, 1), glued, line(5, 4)];
        let text: Vec<u8> = text
            .iter()
            .flat_map(|line| [line, ending.as_bytes()].concat())
            .collect();
        let whole = [line(1, 0), line(2, 1), line(3, 2), line(4, 3), line(5, 4)];
        let whole: Vec<u8> = whole
            .iter()
            .flat_map(|line| [line, ending.as_bytes()].concat())
            .collect();
        assert_eq!(repaired(&text).1, whole, "{ending:?}");
        assert_eq!(actions(&text)[0].0, Action::Split);
        // An unterminated last line stays unterminated.
        let cut = &text[..text.len() - ending.len()];
        assert_eq!(repaired(cut).1, whole[..whole.len() - ending.len()]);
    }
}

#[test]
fn byte_order_mark_is_preserved_unless_its_line_is_dropped() {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let rest = file_of(&[line(3, 2), line(4, 3)]);
    // On a line that is relinked.
    let text = [MARK, &line(2, 99), b"\n", &rest].concat();
    assert_eq!(
        repaired(&text).1,
        [MARK, &line(2, 0), b"\n", &rest].concat()
    );
    // On a line that is split.
    let text = [MARK, &line(1, 0), &line(2, 1), b"\n", &rest].concat();
    let whole = [MARK, &file_of(&[line(1, 0), line(2, 1)]), &rest].concat();
    assert_eq!(repaired(&text).1, whole);
    // On a line that is dropped.
    let text = [
        MARK,
        &line(1, 0)[..90],
        b"\n",
        &file_of(&[line(2, 0)]),
        &rest,
    ]
    .concat();
    let (edits, result) = repaired(&text);
    assert_eq!(result, [file_of(&[line(2, 0)]), rest].concat());
    let removed: Vec<u8> = edits
        .removed
        .iter()
        .flat_map(|it| it.bytes.clone())
        .collect();
    assert_eq!(removed, [MARK, &line(1, 0)[..90]].concat());
}

#[test]
fn unknown_json_objects_stay_and_other_json_is_dropped() {
    let odd = b"{\"uuid\":17,\"type\":[]}".to_vec();
    let mut lines = chain();
    lines.insert(4, b"\"text\"".to_vec());
    lines.insert(6, odd.clone());
    lines.insert(2, Vec::new());
    let (edits, result) = repaired(&file_of(&lines));
    assert_eq!(edits.lines, 12);
    let text = String::from_utf8(result).unwrap();
    assert!(text.contains(std::str::from_utf8(&odd).unwrap()));
    assert!(!text.contains("\"text\"\n"));
    let dropped: Vec<u64> = edits.steps.iter().map(|step| step.line).collect();
    assert_eq!(dropped, [6]);
    assert_eq!(edits.steps[0].action.as_str(), "drop");
    assert!(
        edits.steps[0]
            .detail
            .starts_with(FlawKind::NotAnObject.as_str())
    );
}

#[test]
fn step_detail_counts_salvaged_records_and_removed_bytes() {
    let whole = line(3, 2);
    let cases: [(Vec<u8>, Action, &str); 3] = [
        (
            [b"xyz ", &whole[..]].concat(),
            Action::Salvage,
            "1 intact record and 3 damaged bytes",
        ),
        (
            [&whole[..], b"xy\0", &line(4, 3)].concat(),
            Action::Salvage,
            "2 intact records and 2 damaged bytes",
        ),
        (
            [&whole[..], &line(4, 3)].concat(),
            Action::Split,
            "2 records on one line",
        ),
    ];
    for (damaged, action, detail) in cases {
        let text = file_of(&[line(1, 0), line(2, 1), damaged]);
        let reported = actions(&text);
        assert_eq!(reported.len(), 1, "{detail}");
        assert_eq!(reported[0].0, action);
        assert!(reported[0].1.starts_with(detail), "{}", reported[0].1);
    }
}

/// When it is old, an unterminated last line is split like any other, and gets no newline.
#[test]
fn glued_records_on_a_torn_last_line_are_split_without_a_final_newline() {
    let whole = file_of(&[line(1, 0), line(2, 1), line(3, 2), line(4, 3)]);
    let text = [
        file_of(&[line(1, 0), line(2, 1)]),
        line(3, 2),
        line(4, 3),
        b"{\"parentUuid\":".to_vec(),
    ]
    .concat();
    let place = Place::with(&text);
    let edits = place.plan_at(jiff::Timestamp::MAX).edits;
    assert_eq!(edits.steps.len(), 1);
    assert_eq!(edits.apply(&text), whole[..whole.len() - 1]);
}
