//! Findings of checks as JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use annals_layouts::model::{Flaw, Severity};
use serde::Serialize;

use super::FlawJson;
use crate::check::{CheckResult, FileReport};
use crate::store::ReadFailures;

/// Findings of a check as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckJson<'a> {
    ok: bool,
    files: Vec<FileReportJson<'a>>,
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

/// Findings in one file as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileReportJson<'a> {
    /// Names that are not UTF-8 are written with replacement characters.
    path: Cow<'a, str>,
    lines: u64,
    valid: u64,
    bytes: u64,
    flaws: Vec<FoundFlawJson<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Converts findings; errors of reading flawed lines are reported to `failures`.
    pub fn new(found: &'a CheckResult, failures: &ReadFailures) -> Self {
        let lines = found.line_counts();
        let mut kinds = BTreeMap::new();
        for flaw in found.flaws() {
            *kinds.entry(flaw.kind.as_str()).or_default() += 1;
        }
        let severities = Severity::ALL.iter();
        CheckJson {
            ok: found.is_ok(),
            files: (found.reports.iter())
                .map(|report| FileReportJson::new(report, failures))
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

impl<'a> FileReportJson<'a> {
    /// Converts the findings in a file.
    pub fn new(report: &'a FileReport, failures: &ReadFailures) -> Self {
        FileReportJson {
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
