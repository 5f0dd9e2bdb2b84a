//! The requirements of the five documents that this program was written for, and the tests that
//! prove them.
//!
//! `rows.tsv` lists the requirements, one sentence per row. A test names the rows that it proves in
//! a line `/// Requirements: 004.1, 004.2`. `differs.tsv` has the rows that annals meets in another
//! way than the document asks, with the reason. docs/REQUIREMENTS.md is generated from all three.
//! Here only the names of the tests are checked; whether they pass, the whole test run says.

mod chorus;
mod claude_code;
mod clog;
mod orchestrator;
mod program;
mod records;
mod watch_claude_think;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const SOURCES: [(&str, &str); 7] = [
    ("chorus", include_str!("chorus.rs")),
    ("claude_code", include_str!("claude_code.rs")),
    ("clog", include_str!("clog.rs")),
    ("watch_claude_think", include_str!("watch_claude_think.rs")),
    ("orchestrator", include_str!("orchestrator.rs")),
    ("program", include_str!("program.rs")),
    ("records", include_str!("records.rs")),
];

const DOCUMENTS: [(&str, &str); 5] = [
    ("000", "Chorus"),
    (
        "001",
        "Claude Code, as agentpool's storage provider sees it",
    ),
    ("002", "clog"),
    ("003", "watch-claude-think"),
    ("004", "Orchestrator"),
];

/// Environment variable: write docs/REQUIREMENTS.md instead of comparing it.
const WRITE: &str = "ANNALS_WRITE_DOCS";

/// The tests of each row.
fn tests() -> BTreeMap<&'static str, Vec<String>> {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (module, source) in SOURCES {
        let mut rows: Vec<&str> = Vec::new();
        // A `Requirements:` line counts only above a `#[test]` function.
        let mut is_test = false;
        for line in source.lines().map(str::trim) {
            assert!(
                !line.starts_with("#[ignore"),
                "{module}: an ignored test proves nothing"
            );
            if line == "#[test]" {
                is_test = true;
            } else if let Some(list) = line.strip_prefix("/// Requirements: ") {
                rows.extend(list.split(',').map(str::trim).filter(|row| !row.is_empty()));
            } else if let Some(name) = line.strip_prefix("fn ") {
                let name = name.split('(').next().unwrap_or_default();
                assert!(is_test || rows.is_empty(), "{module}::{name} is not a test");
                is_test = false;
                for row in rows.drain(..) {
                    let tests = found.entry(row).or_default();
                    tests.push(format!("{module}::{name}"));
                }
            }
        }
        assert_eq!(rows, [""; 0], "{module}: rows without a test");
    }
    found
}

fn table(text: &'static str) -> BTreeMap<&'static str, &'static str> {
    let rows = text.lines().map(|line| line.split_once('\t').expect(line));
    rows.collect()
}

#[test]
fn every_requirement_has_a_test_or_a_reason() {
    let (rows, reasons) = (include_str!("rows.tsv"), table(include_str!("differs.tsv")));
    let (rows, tests) = (
        rows.lines().map(|line| line.split_once('\t').expect(line)),
        tests(),
    );
    let known: Vec<(&str, &str)> = rows.collect();
    let is_known = |row: &str| known.iter().any(|(known, _)| *known == row);
    let unknown = tests
        .keys()
        .chain(reasons.keys())
        .filter(|row| !is_known(row));
    assert_eq!(
        unknown.collect::<Vec<_>>(),
        [&""; 0],
        "no such requirements"
    );
    let open = known.iter().map(|(row, _)| *row);
    let open = open.filter(|row| !tests.contains_key(row) && !reasons.contains_key(row));
    assert_eq!(
        open.collect::<Vec<_>>(),
        [""; 0],
        "neither a test nor a reason"
    );
    let page = page(&known, &tests, &reasons);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/REQUIREMENTS.md");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, page).unwrap();
        return;
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "docs/REQUIREMENTS.md is not current; run this test with {WRITE}=1"
    );
}

fn page(
    rows: &[(&str, &str)],
    tests: &BTreeMap<&str, Vec<String>>,
    reasons: &BTreeMap<&str, &str>,
) -> String {
    let mut page = "# Requirements\n\nannals was made for the stores that five documents describe. These are their requirements, one by\none, and the tests in `crates/annals-cli/tests/it/requirements/` that prove them. *Differs* means that\nannals meets the requirement in another way, for the reason given. This page is made by those tests.\n".to_owned();
    let count = |wanted: &dyn Fn(&str) -> bool| rows.iter().filter(|(row, _)| wanted(row)).count();
    page.push_str("\n| document | requirements | work | differ |\n|---|---|---|---|\n");
    for (number, name) in DOCUMENTS {
        let own = |row: &str| row.starts_with(number);
        let differ = count(&|row| own(row) && reasons.contains_key(row));
        let all = count(&own);
        let _ = writeln!(
            page,
            "| {number} {name} | {all} | {} | {differ} |",
            all - differ
        );
    }
    for (number, name) in DOCUMENTS {
        let _ = write!(
            page,
            "\n## {number} {name}\n\n| # | requirement | result |\n|---|---|---|\n"
        );
        for (row, text) in rows.iter().filter(|(row, _)| row.starts_with(number)) {
            let tests = tests.get(row).map(Vec::as_slice).unwrap_or_default();
            let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
            let result = match (reasons.get(row), tests.as_slice()) {
                (Some(reason), []) => format!("differs: {reason}"),
                (Some(reason), tests) => format!("differs: {reason} ({})", tests.join(", ")),
                (None, tests) => tests.join(", "),
            };
            let _ = writeln!(page, "| {row} | {text} | {result} |");
        }
    }
    page
}
