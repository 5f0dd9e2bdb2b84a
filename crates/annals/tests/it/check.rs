//! Every kind of flaw: a tree that has it, and a similar one that does not.

mod kinds;
mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use annals::check::{self, FileReport};
use annals::model::{FlawKind, Severity};
use annals::repair::{RepairPlan, RepairTarget};
use annals::store::{Inventory, Root, Store};

use crate::support::{cases, fixtures};

/// Returns the reports of a check of a root, without those about the environment.
fn reports(root: &Root) -> Vec<FileReport> {
    let store = Store::new(vec![root.clone()]);
    let inventory = store.inventory();
    let mut reports: Vec<FileReport> = check::all(&inventory, None, &|_, _| {})
        .into_iter()
        .map(Result::unwrap)
        .collect();
    // NOTES.md explains the fixture and is not part of it.
    reports.retain(|report| report.path != root.path.join("NOTES.md"));
    let stale = store.repairs().stale_session_lists(&inventory);
    reports.extend(
        stale
            .into_iter()
            .map(|found| check::stale_session_list(&found.unwrap())),
    );
    reports
}

/// Counts the flaws by kind.
fn kinds(root: &Root) -> BTreeMap<FlawKind, usize> {
    let mut kinds = BTreeMap::new();
    for flaw in reports(root).into_iter().flat_map(|report| report.flaws) {
        *kinds.entry(flaw.kind).or_default() += 1;
    }
    kinds
}

/// Undisturbed logs of real clients have no damage and no warnings.
#[test]
fn recordings_of_real_clients_have_no_damage() {
    let mut looked = 0;
    for case in cases() {
        let by_client = case.name.starts_with(|first: char| first.is_ascii_digit());
        if case.layout.name() != "claude-code" || !by_client {
            continue;
        }
        looked += 1;
        let mut found = kinds(&case.root());
        found.retain(|kind, _| kind.severity() != Severity::Note);
        assert_eq!(found, BTreeMap::new(), "{}", case.name);
    }
    assert!(looked > 10);
}

/// docs/CHECKS.md explains every kind with the texts of the program.
#[test]
fn checks_page_lists_every_kind() {
    let page = fs::read_to_string(fixtures().join("../docs/CHECKS.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let reported: Vec<(&str, &str, &str, &str)> = rows
        .iter()
        .map(|row| (row[0].trim_matches('`'), row[1], row[2], row[4]))
        .collect();
    let mut wanted: Vec<(&str, &str, &str, &str)> = FlawKind::ALL
        .iter()
        .map(|kind| {
            let fixable = if kind.fixable() { "yes" } else { "no" };
            let severity = kind.severity().as_str();
            (kind.as_str(), severity, fixable, kind.advice())
        })
        .collect();
    wanted.sort_by_key(|(name, ..)| reported.iter().position(|row| row.0 == *name));
    assert_eq!(reported, wanted);
    assert!(
        rows.iter().all(|row| row[3].len() > 20),
        "a meaning is missing"
    );
}

/// Holds in every fixture of every layout.
#[test]
fn fixable_flaws_are_exactly_what_repair_fixes() {
    let (mut fixable, mut left) = (0, 0);
    for case in cases() {
        let store = Store::new(vec![case.root()]);
        let inventory = store.inventory();
        let mended: BTreeSet<PathBuf> = RepairTarget::all(&inventory)
            .iter()
            .filter_map(|patient| RepairPlan::new(patient, jiff::Timestamp::UNIX_EPOCH).ok())
            .filter(|plan| !plan.edits.is_empty())
            .map(|plan| plan.file.path)
            .collect();
        for report in reports(&case.root()) {
            let kinds = report.flaws.iter().map(|flaw| flaw.kind);
            let kinds: Vec<FlawKind> = kinds.filter(|kind| kind.fixable()).collect();
            for kind in kinds {
                let what = format!(
                    "{}: {} in {}",
                    case.name,
                    kind.as_str(),
                    report.path.display()
                );
                if report.fixable(kind) {
                    let derived = kind == FlawKind::StaleIndex;
                    assert!(derived || mended.contains(&report.path), "{what}");
                    fixable += 1;
                } else {
                    assert!(!mended.contains(&report.path), "{what}");
                    assert!(!report.advice(kind).contains("annals repair"), "{what}");
                    left += 1;
                }
            }
        }
    }
    assert!(fixable > 30 && left > 2, "{fixable} {left}");
}

/// The advice never calls a user's own file superfluous.
#[test]
fn advice_never_recommends_removing_a_document() {
    for kind in [FlawKind::BadDocument, FlawKind::BadJson] {
        assert!(!kind.advice().contains("remove"), "{}", kind.as_str());
    }
}

/// The check of one session finds the same as the check of all.
#[test]
fn check_of_one_session_reports_its_missing_files() {
    for (fixture, lacks) in [("tool-results", 1), ("file-history", 1), ("todos", 0)] {
        let case = crate::support::case(fixture);
        let inventory = case.inventory();
        let files = &inventory.sessions[0];
        let reports = check::session(&inventory, files, None);
        let flaws = reports
            .iter()
            .flat_map(|report| &report.as_ref().unwrap().flaws);
        let missing = flaws.filter(|flaw| flaw.kind == FlawKind::MissingFile);
        assert_eq!(missing.count(), lacks, "{fixture}");
    }
}

/// Tree of one session with the given lines, for cases without a fixture.
struct Made {
    dir: tempfile::TempDir,
}

const SESSION: &str = "11111111-2222-4333-8444-555555555555";

impl Made {
    fn from_lines(lines: &[String]) -> Self {
        let made = Made {
            dir: tempfile::tempdir().unwrap(),
        };
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        made.put(&format!("projects/-w/{SESSION}.jsonl"), text.as_bytes());
        made
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn root(&self) -> Root {
        Root::claude_code(self.path())
    }

    fn inventory(&self) -> Inventory {
        Store::new(vec![self.root()]).inventory()
    }
}

/// Returns a message of the test session; its minute is its number.
fn line(role: &str, number: u32, parent: Option<u32>, content: &str) -> String {
    let id = |number: u32| format!("\"00000000-0000-4000-8000-{number:012}\"");
    let parent = parent.map_or("null".to_owned(), id);
    let minute = number % 60;
    format!(
        r#"{{"parentUuid":{parent},"sessionId":"{SESSION}","type":"{role}","message":{{"role":"{role}","id":"m{number}","content":{content}}},"uuid":{},"timestamp":"2026-03-02T09:{minute:02}:00.000Z"}}"#,
        id(number)
    )
}

fn user(number: u32, parent: Option<u32>) -> String {
    line("user", number, parent, &format!("\"question {number}\""))
}

fn reply(number: u32, parent: Option<u32>) -> String {
    let content = format!(r#"[{{"type":"text","text":"answer {number}"}}]"#);
    line("assistant", number, parent, &content)
}

fn call(number: u32, parent: Option<u32>, id: &str) -> String {
    let content = format!(r#"[{{"type":"tool_use","id":"{id}","name":"Bash","input":{{}}}}]"#);
    line("assistant", number, parent, &content)
}

fn result(number: u32, parent: Option<u32>, id: &str) -> String {
    let content = format!(r#"[{{"type":"tool_result","tool_use_id":"{id}","content":"ok"}}]"#);
    line("user", number, parent, &content)
}
