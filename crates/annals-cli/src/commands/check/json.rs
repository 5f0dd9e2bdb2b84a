//! JSON output of `annals check`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use annals::check::FileReport;
use annals::model::{Flaw, Severity};
use annals::store::ReadFailures;
use serde::Serialize;

use super::CheckResult;
use annals::view::FlawJson;

#[derive(Serialize)]
pub(super) struct CheckJson<'a> {
    ok: bool,
    files: Vec<FileJson<'a>>,
    flaws: usize,
    /// Number of flaws by severity, and below by kind.
    severities: BTreeMap<&'static str, usize>,
    kinds: BTreeMap<&'static str, usize>,
    total_lines: u64,
    valid_lines: u64,
    corrupt_lines: u64,
    pending_lines: u64,
    unreadable: &'a [String],
}

#[derive(Serialize)]
struct FileJson<'a> {
    /// Names that are not UTF-8 are written with replacement characters.
    path: Cow<'a, str>,
    lines: u64,
    valid: u64,
    bytes: u64,
    flaws: Vec<FoundFlawJson<'a>>,
}

#[derive(Serialize)]
struct FoundFlawJson<'a> {
    #[serde(flatten)]
    flaw: FlawJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    severity: &'static str,
    fixable: bool,
    advice: &'static str,
}

impl<'a> CheckJson<'a> {
    pub(super) fn new(found: &'a CheckResult, ok: bool, failures: &ReadFailures) -> Self {
        let lines = found.line_counts();
        let mut kinds = BTreeMap::new();
        for flaw in found.flaws() {
            *kinds.entry(flaw.kind.as_str()).or_default() += 1;
        }
        let severities = Severity::ALL.iter();
        CheckJson {
            ok,
            files: (found.reports.iter())
                .map(|report| FileJson::new(report, failures))
                .collect(),
            flaws: found.flaws().count(),
            severities: severities
                .map(|severity| (severity.as_str(), found.count(*severity)))
                .collect(),
            kinds,
            total_lines: lines.total,
            valid_lines: lines.valid,
            corrupt_lines: lines.corrupt,
            pending_lines: lines.pending,
            unreadable: &found.unreadable,
        }
    }
}

impl<'a> FileJson<'a> {
    fn new(report: &'a FileReport, failures: &ReadFailures) -> Self {
        FileJson {
            path: report.path.to_string_lossy(),
            lines: report.lines,
            valid: report.valid,
            bytes: report.bytes,
            flaws: (report.flaws.iter())
                .map(|flaw| FoundFlawJson::new(report, flaw, failures))
                .collect(),
        }
    }
}

impl<'a> FoundFlawJson<'a> {
    fn new(report: &FileReport, flaw: &'a Flaw, failures: &ReadFailures) -> Self {
        FoundFlawJson {
            flaw: FlawJson::new(flaw),
            text: report.line_excerpt(flaw, failures),
            severity: flaw.kind.severity().as_str(),
            fixable: report.fixable(flaw.kind),
            advice: report.advice(flaw.kind),
        }
    }
}
