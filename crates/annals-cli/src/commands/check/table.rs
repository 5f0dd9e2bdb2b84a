//! What a check says to people: each finding in one line, then what to do about each kind.

use std::collections::BTreeMap;

use annals::check::FileReport;
use annals::model::{Flaw, FlawKind, Severity};
use anstyle::Style;
use anyhow::Result;

use super::CheckResult;
use crate::context::Context;
use crate::render::size::{self, pluralize};
use crate::render::style::{DIM, FAILED, PATH, SUCCESS, WARNING, paint};
use crate::render::table::{Cell, Column, Table};

pub(super) fn print(
    found: &CheckResult,
    limit: usize,
    notes: bool,
    context: &mut Context,
) -> Result<()> {
    let shown = |flaw: &&Flaw| notes || flaw.kind.severity() != Severity::Note;
    for report in &found.reports {
        let flaws: Vec<&Flaw> = report.flaws.iter().filter(shown).collect();
        if !flaws.is_empty() {
            print_file(report, &flaws, limit, context)?;
        }
    }
    print_kinds(found, notes, context)?;
    print_summary(found, notes, context)
}

fn print_file(
    report: &FileReport,
    flaws: &[&Flaw],
    limit: usize,
    context: &mut Context,
) -> Result<()> {
    let path = report.path.display().to_string();
    context.out.line(paint(PATH, &path))?;
    let mut table = Table::new([
        Column::new("LINE").right(),
        Column::new("OFFSET").right().style(DIM),
        Column::new("SEVERITY"),
        Column::new("FLAW"),
        Column::new("WHAT").min(20),
    ]);
    for flaw in flaws.iter().take(limit) {
        let severity = flaw.kind.severity();
        // What is wrong with a file as a whole has no place in it.
        let place = |number: u64| match flaw.span.line {
            0 => Cell::new(""),
            _ => Cell::new(number.to_string()),
        };
        table.row([
            place(flaw.span.line),
            place(flaw.span.offset),
            Cell::styled(severity.as_str(), severity_style(severity)),
            Cell::new(flaw.kind.as_str()),
            Cell::new(match report.line_excerpt(flaw, context.store.failures()) {
                Some(text) => format!("{}: {text}", flaw.detail),
                None => flaw.detail.clone(),
            }),
        ]);
    }
    let table = table.render(context.out.width());
    context.out.text(table)?;
    if flaws.len() > limit {
        let more = flaws.len() - limit;
        let text = format!("… {more} more: --limit {}", flaws.len());
        context.out.line(paint(DIM, &text))?;
    }
    context.out.blank()?;
    Ok(())
}

/// One line for each kind that was shown and what to do about it, the worst first.
fn print_kinds(found: &CheckResult, notes: bool, context: &mut Context) -> Result<()> {
    let mut kinds: BTreeMap<(Severity, FlawKind, &str), u64> = BTreeMap::new();
    for report in &found.reports {
        for kind in report.flaws.iter().map(|flaw| flaw.kind) {
            let key = (kind.severity(), kind, report.advice(kind));
            *kinds.entry(key).or_default() += 1;
        }
    }
    kinds.retain(|(severity, ..), _| notes || *severity != Severity::Note);
    if kinds.is_empty() {
        return Ok(());
    }
    let mut table = Table::new([
        Column::new("SEVERITY"),
        Column::new("FLAW"),
        Column::new("COUNT").right(),
        Column::new("WHAT TO DO").min(20),
    ]);
    for ((severity, kind, advice), count) in kinds {
        table.row([
            Cell::styled(severity.as_str(), severity_style(severity)),
            Cell::new(kind.as_str()),
            Cell::new(size::count(count)),
            Cell::new(advice),
        ]);
    }
    let table = table.render(context.out.width());
    context.out.text(table)?;
    context.out.blank()?;
    Ok(())
}

fn print_summary(found: &CheckResult, notes: bool, context: &mut Context) -> Result<()> {
    let lines = found.line_counts();
    let files = found.reports.iter().filter(|report| report.read).count();
    let bytes: u64 = found.reports.iter().map(|report| report.bytes).sum();
    let looked = format!(
        "{}, {}, {}",
        pluralize(files as u64, "file"),
        pluralize(lines.total, "line"),
        size::bytes(bytes)
    );
    let many = |severity| found.count(severity) as u64;
    let hurt = |report: &&FileReport| report.worst() == Some(Severity::Damage);
    let damaged = found.reports.iter().filter(hurt).count() as u64;
    let mut parts = Vec::new();
    match many(Severity::Damage) {
        0 if found.is_complete => parts.push("no damage found".to_owned()),
        0 => {}
        damage => parts.push(format!(
            "{} in {}",
            pluralize(damage, "damaged place"),
            pluralize(damaged, "file")
        )),
    }
    if many(Severity::Warning) > 0 {
        parts.push(pluralize(many(Severity::Warning), "warning"));
    }
    if many(Severity::Note) > 0 {
        let hint = if notes { "" } else { " (--all shows them)" };
        parts.push(format!("{}{hint}", pluralize(many(Severity::Note), "note")));
    }
    if lines.corrupt > 0 {
        parts.push(format!(
            "{} cannot be read",
            pluralize(lines.corrupt, "line")
        ));
    }
    if !found.unreadable.is_empty() {
        let files = pluralize(found.unreadable.len() as u64, "file");
        parts.push(format!("{files} could not be opened"));
    }
    let text = parts.join("; ");
    let fine = many(Severity::Damage) == 0 && found.is_complete;
    if fine {
        let mark = paint(SUCCESS, "✓");
        context.out.line(format_args!("{mark} {looked}: {text}"))?;
    } else {
        let text = format!("! {looked}: {text}");
        context.out.line(paint(WARNING, &text))?;
    }
    Ok(())
}

fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Damage => FAILED,
        Severity::Warning => WARNING,
        _ => DIM,
    }
}
