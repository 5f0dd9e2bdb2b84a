//! Invariants of every repair, over layouts, fixtures and random damage.

use std::collections::HashSet;
use std::sync::LazyLock;

use annals::jsonl::{LineEnding, Scanner};
use annals::layout::{Decoded, Layout, Record};
use annals::model::{Artifact, ArtifactKind, EntryKey, FlawKind, Link, Outline, Span};
use annals::repair::{Action, LineEdits};
use annals::tree::{Scope, Tree};
use proptest::prelude::*;

use crate::support::cases;

/// A log of a fixture.
struct Log {
    layout: &'static dyn Layout,
    name: String,
    artifact: Artifact,
    bytes: Vec<u8>,
}

static LOGS: LazyLock<Vec<Log>> = LazyLock::new(|| {
    let mut logs = Vec::new();
    // Read-only layouts are not repaired.
    for case in cases()
        .into_iter()
        .filter(|case| case.layout.writer().is_some())
    {
        for file in case.files() {
            let kind = file.artifact.kind;
            if !(kind.is_conversation() || kind == ArtifactKind::Notes) {
                continue;
            }
            logs.push(Log {
                layout: case.layout,
                name: format!("{}/{}", case.layout.name(), case.name),
                bytes: std::fs::read(crate::support::disk_path(&file.path)).unwrap(),
                artifact: file.artifact,
            });
        }
    }
    logs
});

fn lines(bytes: &[u8]) -> Vec<(Span, Vec<u8>, bool)> {
    let mut scanner = Scanner::new(bytes);
    let mut found = Vec::new();
    while let Some(line) = scanner.next().unwrap() {
        let span = Span {
            offset: line.offset,
            len: line.len,
            line: line.number,
        };
        found.push((span, line.bytes.to_vec(), line.ending != LineEnding::None));
    }
    found
}

fn read(layout: &dyn Layout, artifact: &Artifact, bytes: &[u8]) -> Decoded<Outline> {
    let mut decoder = layout.decoder(artifact);
    let mut sink = Decoded::default();
    for (span, bytes, terminated) in lines(bytes) {
        let record = Record {
            span,
            bytes: &bytes,
            terminated,
            oversize: false,
        };
        decoder.outline(&record, &mut sink);
    }
    sink
}

fn hold(log: &Log, bytes: &[u8]) {
    let (layout, artifact, name) = (log.layout, &log.artifact, &log.name);
    let edits = LineEdits::new(layout, artifact, bytes).unwrap();
    let result = edits.apply(bytes);
    let shown = || String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(result.len() as u64, edits.result_len(bytes.len() as u64));
    assert!(
        !edits.is_empty() || result == bytes,
        "{name}: nothing done, nothing changed"
    );

    // Removed bytes are reported exactly.
    for removed in &edits.removed {
        let at = removed.offset as usize;
        let stood = &bytes[at..at + removed.bytes.len()];
        assert_eq!(stood, removed.bytes, "{name}");
    }

    // Lines that no step names are unchanged and in order.
    let named: HashSet<u64> = edits.steps.iter().map(|step| step.line).collect();
    let now = lines(&result);
    let mut now = now
        .iter()
        .map(|(span, ..)| &result[span.offset as usize..span.end() as usize]);
    for (span, ..) in lines(bytes) {
        let wanted = &bytes[span.offset as usize..span.end() as usize];
        let stays = named.contains(&span.line) || now.any(|line| line == wanted);
        assert!(stays, "{name}: line {} is gone\n{}", span.line, shown());
    }

    // No damage of the repaired kinds is left, except where reported.
    let before = read(layout, artifact, bytes);
    let after = read(layout, artifact, &result);
    let left = edits.unrepaired.len();
    let hidden = after.flaws.iter().filter(|flaw| flaw.kind.hides_record());
    assert!(
        hidden.count() <= left,
        "{name}: {:?}\n{}",
        after.flaws,
        shown()
    );
    let scope = match artifact.kind {
        ArtifactKind::AgentLog => Scope::Agent,
        _ => Scope::Main,
    };
    let all_links = left == 0 && layout.name() == "claude-code";
    if all_links {
        for flaw in Tree::build(&after.items, scope).flaws {
            let continues = after.items.iter().any(|one| {
                one.span.offset == flaw.span.offset
                    && matches!(one.link, Link::Continues(_) | Link::Previous)
            });
            let fine = flaw.kind == FlawKind::DuplicateId || continues;
            assert!(fine, "{name}: {flaw:?}\n{}", shown());
        }
    }

    // All entries that could be read can still be read.
    let keys = |sink: &Decoded<Outline>| -> HashSet<EntryKey> {
        let named = sink.items.iter().filter(|one| {
            let id = one.id();
            id.is_some_and(|id| EntryKey::is_canonical_uuid(id.as_str()))
        });
        named.filter_map(|one| one.key).collect()
    };
    let kept = keys(&before).is_subset(&keys(&after));
    assert!(kept, "{name}\n{}", shown());
    let as_many = after.items.len() >= before.items.len();
    assert!(as_many, "{name}\n{}", shown());

    // A second repair finds nothing.
    let again = LineEdits::new(layout, artifact, &result).unwrap();
    let became = String::from_utf8_lossy(&result);
    assert_eq!(again.steps, [], "{name}\n{}\nbecame\n{became}", shown());
}

#[test]
fn every_fixture_is_valid_after_repair() {
    for log in LOGS.iter() {
        hold(log, &log.bytes);
    }
}

#[test]
fn logs_of_real_clients_need_no_repair() {
    let recorded = |log: &&Log| {
        ["claude-code/1.", "claude-code/2."]
            .iter()
            .any(|client| log.name.starts_with(client))
    };
    let mut looked = 0;
    for log in LOGS.iter().filter(recorded) {
        looked += 1;
        let edits = LineEdits::new(log.layout, &log.artifact, &log.bytes).unwrap();
        // One fixture was damaged by `kill -9`.
        let drops = edits.steps.iter();
        let drops = drops.filter(|step| step.action == Action::Drop).count();
        let killed = log.name.contains("kill9") && drops == edits.steps.len();
        assert!(edits.is_empty() || killed, "{}: {edits:?}", log.name);
    }
    assert!(looked > 10);
}

/// One kind of random damage to a file.
#[derive(Clone, Debug)]
enum Harm {
    /// Overwrites a range with NULs.
    Nuls(usize, usize),
    /// Removes a range: a torn record, a lost line, two glued lines.
    Gone(usize, usize),
    /// Duplicates a range.
    Twice(usize, usize),
    /// Inserts bytes.
    Noise(usize, Vec<u8>),
    /// Removes a line.
    Line(usize),
    /// Removes a line ending.
    Glued(usize),
    /// Replaces an id by another one, an entry's own or its parent's.
    Swapped(usize, usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = || 0..20_000_usize;
    let noise = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\0\0".to_vec()),
        Just(b"}{".to_vec()),
        Just(b"\xff{\"".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"\r\nnull\n".to_vec()),
    ];
    prop_oneof![
        (at(), 1..90_usize).prop_map(|(at, len)| Harm::Nuls(at, len)),
        (at(), 1..400_usize).prop_map(|(at, len)| Harm::Gone(at, len)),
        (at(), 1..900_usize).prop_map(|(at, len)| Harm::Twice(at, len)),
        (at(), noise).prop_map(|(at, noise)| Harm::Noise(at, noise)),
        at().prop_map(Harm::Line),
        at().prop_map(Harm::Glued),
        (at(), at()).prop_map(|(one, other)| Harm::Swapped(one, other)),
    ]
}

impl Harm {
    fn befall(&self, bytes: &mut Vec<u8>) {
        let len = bytes.len();
        let place = |at: &usize| at % len.max(1);
        let stretch = |at: &usize, long: &usize| place(at)..(place(at) + long).min(len);
        match self {
            Harm::Nuls(at, long) => bytes[stretch(at, long)].fill(0),
            Harm::Gone(at, long) => drop(bytes.drain(stretch(at, long))),
            Harm::Twice(at, long) => {
                let copy = bytes[stretch(at, long)].to_vec();
                let at = place(at);
                bytes.splice(at..at, copy);
            }
            Harm::Noise(at, noise) => {
                let at = place(at);
                bytes.splice(at..at, noise.iter().copied());
            }
            Harm::Line(at) => {
                let spans = lines(bytes);
                if let Some((span, ..)) = spans.get(at % spans.len().max(1)) {
                    bytes.drain(span.offset as usize..span.end() as usize);
                }
            }
            Harm::Glued(at) => {
                let ends: Vec<usize> = (0..len).filter(|at| bytes[*at] == b'\n').collect();
                if let Some(end) = ends.get(at % ends.len().max(1)) {
                    bytes.remove(*end);
                }
            }
            Harm::Swapped(one, other) => {
                let ids = ids(bytes);
                let count = ids.len().max(1);
                if let (Some(&one), Some(&other)) = (ids.get(one % count), ids.get(other % count)) {
                    let copy = bytes[other..other + 36].to_vec();
                    bytes[one..one + 36].copy_from_slice(&copy);
                }
            }
        }
    }
}

/// Returns the offsets of ids.
fn ids(bytes: &[u8]) -> Vec<usize> {
    let is = |text: &[u8]| str::from_utf8(text).is_ok_and(EntryKey::is_canonical_uuid);
    let starts = (0..bytes.len().saturating_sub(37)).filter(|at| bytes[*at] == b'"');
    let starts = starts.filter(|at| bytes[at + 37] == b'"' && is(&bytes[at + 1..at + 37]));
    starts.map(|at| at + 1).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        // PROPTEST_CASES sets the number of cases.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn randomly_damaged_log_is_valid_after_repair(
        at in any::<prop::sample::Index>(),
        harms in proptest::collection::vec(harm(), 1..6),
    ) {
        let log = at.get(&LOGS);
        // Large logs show nothing that small ones do not.
        prop_assume!(log.bytes.len() < 200_000);
        let mut bytes = log.bytes.clone();
        for harm in &harms {
            harm.befall(&mut bytes);
        }
        hold(log, &bytes);
    }
}
