//! Gate 7, short form: each fuzz target over damaged seeds, on the stable compiler.
//!
//! The full form is `cargo +nightly fuzz run TARGET` on the same functions, guided by coverage;
//! [`write_seeds`] writes its seeds.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use annals::layout::by_name;
use annals::model::Framing;

use crate::gates::Dice;
use crate::gates::{self, Counts};
use crate::support::{cases, fixtures, picture};

#[path = "../../../../fuzz/src/targets.rs"]
#[allow(
    unreachable_pub,
    reason = "the fuzzer's crate has it as a public module"
)]
mod targets;

use targets::{FILES, TARGETS, Target};

/// Longer files cost time and add no coverage.
const LONGEST: u64 = 6_000;

/// Returns the seeds of a target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let typed = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    match target {
        "claude_code" | "chorus" | "clog" | "orchestrator" | "codex" | "gemini" | "pi"
        | "copilot" | "qwen" | "droid" | "cline" | "aider" => {
            let layout = target.replace('_', "-");
            files(&layout)
                .into_iter()
                .map(|(which, bytes)| led(which, bytes))
                .collect()
        }
        "opencode" => rows().into_iter().map(|bytes| led(0, bytes)).collect(),
        "database" => databases(),
        "lines" => logs()
            .into_iter()
            .map(|(at, bytes)| led(at * 37, bytes))
            .collect(),
        "session" | "mend" | "check" => logs()
            .into_iter()
            .map(|(at, bytes)| led(at, bytes))
            .collect(),
        "search" => {
            let led = |(at, bytes): (usize, Vec<u8>)| [&[at as u8, 3, 5], &bytes[..]].concat();
            logs().into_iter().map(led).collect()
        }
        "enrol" => {
            let session_lists = files("chorus").into_iter().filter(|(which, _)| *which == 1);
            session_lists
                .enumerate()
                .map(|(at, (_, bytes))| led(at, bytes))
                .collect()
        }
        "text" | "redact" => {
            let mut found: Vec<Vec<u8>> = logs().into_iter().map(|(_, bytes)| bytes).collect();
            found.push(
                "\u{1b}[31m a\u{202e}b\u{200d}c \u{9b}1m 👩\u{200d}🔬 e\u{301}\r\n\t\0".into(),
            );
            found.push(b"AKIAIOSFODNN7EXAMPLE ghp_0123456789abcdefghijklmnopqrstuvwxyzAB".to_vec());
            found.push(b"password=\"hunter22hunter22\" Authorization: Bearer abc.def.ghi".to_vec());
            found
        }
        "query" => typed(&[
            r#""connection reset" OR timeout role:user -tool:Bash"#,
            "(a OR b*) -\"c d\" after:7d before:2026-03-01",
            "kind:thinking model:opus file:src/main.rs agent:sub",
            r"fo+ba[rz]\b(?i:x)|^\d{2,3}$",
            "日本語 café layout:clog branch:main session:8c549c46",
        ]),
        "when" => typed(&[
            "7d",
            "yesterday",
            "2026-03-01",
            "2026-03-01T12:00",
            "3h",
            "now",
            "2w",
        ]),
        "prices" => {
            let built_in = include_bytes!("../../../annals-cost/data/prices.csv");
            let mut lines = built_in.split_inclusive(|byte| *byte == b'\n');
            let head: Vec<u8> = lines.by_ref().take(12).flatten().copied().collect();
            vec![head, b"model,input\nx,1e-6\n".to_vec()]
        }
        "compressed" => archived(".zst")
            .into_iter()
            .map(|it| led(0, led(9, it)))
            .collect(),
        "manifest" => archived("manifest.jsonl")
            .into_iter()
            .map(|it| led(0, it))
            .collect(),
        "salvage" => {
            let mut found: Vec<Vec<u8>> = logs().into_iter().map(|(_, bytes)| bytes).collect();
            for log in &mut found {
                log.retain(|byte| *byte != b'\n');
            }
            found.push(br#"{"type":"a"{"type":"b"}"#.to_vec());
            found.push(b"\0\0{\"type\":\0\"a\"}\0{\"type\"".to_vec());
            found
        }
        "entry" | "archive" => exported(target),
        "path" => {
            let known = FILES.iter().flat_map(|(_, paths)| paths.iter());
            let odd = [
                "../../etc/passwd",
                "projects/-w/..%2fx.jsonl",
                "projects//x.jsonl",
                "a\0b",
            ];
            known
                .chain(&odd)
                .map(|path| path.as_bytes().to_vec())
                .collect()
        }
        other => panic!("{other} has no seeds"),
    }
}

/// Prepends the selector byte.
fn led(which: usize, bytes: Vec<u8>) -> Vec<u8> {
    [&[which as u8], &bytes[..]].concat()
}

/// Returns the short fixture files of a layout that a target accepts, with the number of their
/// kind.
fn files(name: &str) -> Vec<(usize, Vec<u8>)> {
    let layout = by_name(name).unwrap();
    let (_, paths) = FILES.iter().find(|(of, _)| *of == name).unwrap();
    let kinds = paths.iter().map(|path| layout.classify(path.as_ref()));
    let kinds: Vec<_> = kinds
        .map(|artifact| artifact.unwrap_or_else(|| panic!("{name}: {paths:?}")).kind)
        .collect();
    let mut found = Vec::new();
    for case in cases()
        .into_iter()
        .filter(|case| case.layout.name() == name)
    {
        for file in case.files() {
            let Some(which) = kinds.iter().position(|kind| *kind == file.artifact.kind) else {
                continue;
            };
            let mut bytes = fs::read(&file.path).unwrap();
            // Few of these logs are short: their first lines are enough.
            let is_derived = file.artifact.framing != Framing::Lines;
            if (is_derived || matches!(name, "codex" | "pi"))
                && file.path.extension().is_some_and(|it| it != "json")
            {
                cut(&mut bytes);
            }
            if (bytes.len() as u64) < LONGEST {
                found.push((which, bytes));
            }
        }
    }
    assert!(found.len() > 2, "{name}: {}", found.len());
    found
}

/// Truncates a log after a line, so that it is short.
fn cut(bytes: &mut Vec<u8>) {
    if bytes.len() as u64 >= LONGEST {
        bytes.truncate(LONGEST as usize - 1);
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        bytes.truncate(end.map_or(0, |at| at + 1));
    }
}

/// Returns the lines that are derived from the sessions of all databases.
fn rows() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for case in cases() {
        if case.layout.name() != "opencode" {
            continue;
        }
        for files in case.sessions() {
            for file in files.logs() {
                let mut bytes = file.read_records().unwrap();
                cut(&mut bytes);
                found.push(bytes);
            }
        }
    }
    assert!(found.len() > 4, "{}", found.len());
    found
}

fn databases() -> Vec<Vec<u8>> {
    let cases = cases().into_iter();
    let paths = cases.map(|case| fixtures().join(case.layout.name()).join(&case.name));
    let mut found: Vec<Vec<u8>> = paths
        .filter_map(|path| fs::read(path.join("opencode.db")).ok())
        .collect();
    // The smallest is enough: most of a database is unused pages.
    found.sort_by_key(Vec::len);
    found.truncate(2);
    assert_eq!(found.len(), 2);
    found
}

/// Returns the short logs of all fixtures, with the number of their layout.
fn logs() -> Vec<(usize, Vec<u8>)> {
    let layouts = FILES.iter().enumerate();
    let of = |(at, (name, _)): (usize, &(&str, _))| {
        let first = files(name).into_iter().filter(|(which, _)| *which == 0);
        first.map(move |(_, bytes)| (at, bytes)).collect::<Vec<_>>()
    };
    layouts.flat_map(of).collect()
}

/// Returns exported fixtures: whole, or entry by entry.
fn exported(target: &str) -> Vec<Vec<u8>> {
    use annals::export::{ExportOptions, ExportPart, Exporter, Format};
    use annals::store::Session;
    let names = [
        "2.1.325-s04-agent",
        "compaction",
        "chorus-plain",
        "every-role-and-channel",
    ];
    let mut found = Vec::new();
    for case in cases()
        .into_iter()
        .filter(|case| names.contains(&case.name.as_str()))
    {
        let session = Session::read(case.sessions().remove(0)).unwrap();
        for format in [Format::Json, Format::Jsonl] {
            let mut page = Vec::new();
            let mut exporter =
                Exporter::begin(ExportOptions::new(format), None, &mut page).unwrap();
            exporter.session(&session, &ExportPart::Whole).unwrap();
            exporter.finish().unwrap();
            if target == "archive" {
                found.push(page);
            } else if format == Format::Jsonl {
                found.extend(page.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
            }
        }
    }
    found
}

/// Returns files of archives with this ending. A session of each is archived twice, so that it has an
/// earlier version.
fn archived(ending: &str) -> Vec<Vec<u8>> {
    let names = [
        "compaction",
        "chorus-plain",
        "agents-todos-origin",
        "one-day",
    ];
    let mut found = Vec::new();
    for case in cases()
        .into_iter()
        .filter(|case| names.contains(&case.name.as_str()))
    {
        let copy = case.copy();
        let now = jiff::Timestamp::from_second(1_794_744_000).unwrap();
        for _ in 0..2 {
            let sessions = copy.sessions();
            copy.store().copy_to_archive(&[&sessions[0]], now).unwrap();
            let log = &sessions[0].log.as_ref().unwrap().path;
            fs::write(log, fs::read(log).unwrap().to_ascii_uppercase()).unwrap();
        }
        let archive = copy.store().archive().unwrap();
        for (path, _) in picture(archive.dir()) {
            if path.to_str().unwrap().ends_with(ending) {
                found.push(fs::read(archive.dir().join(path)).unwrap());
            }
        }
    }
    assert!(found.len() >= names.len());
    found
}

/// Damages a seed as storage, people or an attacker would.
fn damage(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    const WORDS: [&[u8]; 24] = [
        b"\"",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b"\n",
        b"\r\n",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\\ud800",
        b"1e999",
        b"-0",
        b"18446744073709551616",
        b"null",
        b"true",
        b"}{",
        b":",
        b",",
        b"\"id\"",
        b"\"type\":",
        "\u{202e}".as_bytes(),
        "é".as_bytes(),
    ];
    let mut bytes = seeds[dice.roll(seeds.len())].clone();
    for _ in 0..1 + dice.roll(6) {
        let at = dice.roll(bytes.len() + 1);
        let end = (at + 1 + dice.roll(40)).min(bytes.len());
        match dice.roll(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.roll(8),
            1 if at < end => drop(bytes.drain(at..end)),
            2 => bytes.truncate(at),
            3 => {
                let copy = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, copy);
            }
            4 => {
                let other = &seeds[dice.roll(seeds.len())];
                let cut = dice.roll(other.len() + 1);
                bytes.truncate(at);
                bytes.extend(&other[cut..]);
            }
            _ => {
                let word = WORDS[dice.roll(WORDS.len())];
                bytes.splice(at..at, word.iter().copied());
            }
        }
    }
    bytes
}

/// Returns the first input that makes a target panic.
fn attack(target: Target, seeds: &[Vec<u8>], inputs: usize, seed: u64) -> Option<Vec<u8>> {
    let mut dice = Dice(seed);
    let mut all = seeds.to_vec();
    all.extend((0..inputs).map(|_| damage(&mut dice, seeds)));
    all.into_iter()
        .find(|input| catch_unwind(AssertUnwindSafe(|| target(input))).is_err())
}

#[test]
fn no_input_panics_any_target() {
    let inputs = gates::size("ANNALS_GATE_INPUTS", 600, 20_000);
    // Targets that create files get fewer inputs.
    let inputs = |name| match [
        "session",
        "search",
        "compressed",
        "manifest",
        "check",
        "database",
    ]
    .contains(&name)
    {
        true => inputs / 4,
        false => inputs,
    };
    let failed: BTreeMap<&str, String> = std::thread::scope(|scope| {
        let halves = TARGETS.chunks(TARGETS.len().div_ceil(2));
        let run = |half: &'static [(&'static str, Target)]| {
            let mut failed = Vec::new();
            for (number, (name, target)) in half.iter().enumerate() {
                let failure = attack(*target, &seeds(name), inputs(*name), number as u64 + 1);
                failed.extend(failure.map(|input| (*name, input.escape_ascii().to_string())));
            }
            failed
        };
        let halves: Vec<_> = halves.map(|half| scope.spawn(move || run(half))).collect();
        halves
            .into_iter()
            .flat_map(|half| half.join().unwrap())
            .collect()
    });
    assert!(failed.is_empty(), "{failed:#?}");
    let points = TARGETS.iter().map(|(name, _)| inputs(*name)).sum();
    gates::print_counts(
        7,
        "damaged seeds, stable compiler",
        Counts {
            points,
            ..Counts::default()
        },
    );
}

#[test]
fn control_a_planted_panic_is_found() {
    let found = attack(targets::planted, &[b"{\"a\":1}\n".to_vec()], 20_000, 1);
    assert!(found.is_some());
    gates::print_control(7, "planted panic");
}

/// Writes the seeds of the fuzzer: `ANNALS_SEEDS=fuzz/corpus cargo test … gate_fuzz::write_seeds`.
#[test]
#[ignore = "a part that ./test --gates asks for"]
fn write_seeds() {
    let Some(corpus) = std::env::var_os("ANNALS_SEEDS") else {
        return;
    };
    for (name, _) in TARGETS {
        let dir = PathBuf::from(&corpus).join(name);
        fs::create_dir_all(&dir).unwrap();
        for (number, seed) in seeds(name).iter().enumerate() {
            fs::write(dir.join(format!("seed-{number:04}")), seed).unwrap();
        }
    }
}
