//! What a check says as JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use annals::check::FileReport;
use annals::model::{Flaw, Severity};
use annals::store::ReadFailures;
use serde::Serialize;

use super::Found;
use crate::commands::entry::FlawRow;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    ok: bool,
    files: Vec<FileRow<'a>>,
    flaws: usize,
    /// How many of each severity, and of each kind.
    severities: BTreeMap<&'static str, usize>,
    kinds: BTreeMap<&'static str, usize>,
    total_lines: u64,
    valid_lines: u64,
    corrupt_lines: u64,
    pending_lines: u64,
    unreadable: &'a [String],
}

#[derive(Serialize)]
struct FileRow<'a> {
    /// Names that are not UTF-8 are written with replacement characters.
    path: Cow<'a, str>,
    lines: u64,
    valid: u64,
    bytes: u64,
    flaws: Vec<FoundRow<'a>>,
}

#[derive(Serialize)]
struct FoundRow<'a> {
    #[serde(flatten)]
    flaw: FlawRow<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    severity: &'static str,
    fixable: bool,
    advice: &'static str,
}

impl<'a> Document<'a> {
    pub(super) fn of(found: &'a Found, ok: bool, failures: &ReadFailures) -> Self {
        let lines = found.lines();
        let mut kinds = BTreeMap::new();
        for flaw in found.flaws() {
            *kinds.entry(flaw.kind.as_str()).or_default() += 1;
        }
        let severities = Severity::ALL.iter();
        Document {
            ok,
            files: (found.reports.iter())
                .map(|report| FileRow::of(report, failures))
                .collect(),
            flaws: found.flaws().count(),
            severities: severities
                .map(|severity| (severity.as_str(), found.of(*severity)))
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

impl<'a> FileRow<'a> {
    fn of(report: &'a FileReport, failures: &ReadFailures) -> Self {
        FileRow {
            path: report.path.to_string_lossy(),
            lines: report.lines,
            valid: report.valid,
            bytes: report.bytes,
            flaws: (report.flaws.iter())
                .map(|flaw| FoundRow::of(report, flaw, failures))
                .collect(),
        }
    }
}

impl<'a> FoundRow<'a> {
    fn of(report: &FileReport, flaw: &'a Flaw, failures: &ReadFailures) -> Self {
        FoundRow {
            flaw: FlawRow::of(flaw),
            text: report.line_excerpt(flaw, failures),
            severity: flaw.kind.severity().as_str(),
            fixable: report.fixable(flaw.kind),
            advice: report.advice(flaw.kind),
        }
    }
}
