//! Text output of `annals check`: a table by kind with advice, the findings by file, a summary.

use std::collections::BTreeMap;

use annals::check::{CheckResult, FileReport};
use annals::model::{Flaw, FlawKind, Severity};
use anyhow::Result;

use crate::context::Context;
use annals_render::severity::{severity_mark, severity_style};
use annals_render::size::{self, pluralize};
use annals_render::style::{DIM, PATH, PLAIN, SUCCESS, WARNING, paint};
use annals_render::table::{Cell, Column, Table};
use annals_render::width::{Span, push_spans, spans_width, wrap};

/// Maximum number of findings that are listed without `--details`.
const MAX_UNASKED: usize = 5;

/// Parts of the report to print.
pub(super) struct Options {
    /// List the findings of each file, and their text in full.
    pub(super) details: bool,
    /// Maximum number of findings of a file in that list.
    pub(super) limit: usize,
    /// Include notes.
    pub(super) notes: bool,
}

/// The findings in a file that are printed.
struct ShownFile<'a> {
    report: &'a FileReport,
    flaws: Vec<&'a Flaw>,
}

pub(super) fn print(found: &CheckResult, options: &Options, context: &mut Context) -> Result<()> {
    let is_shown = |flaw: &&Flaw| options.notes || flaw.kind.severity() != Severity::Note;
    let files = found.reports.iter().map(|report| ShownFile {
        report,
        flaws: report.flaws.iter().filter(is_shown).collect(),
    });
    let files: Vec<ShownFile<'_>> = files.filter(|file| !file.flaws.is_empty()).collect();
    let flaws: usize = files.iter().map(|file| file.flaws.len()).sum();
    let details = options.details || flaws <= MAX_UNASKED;
    print_kinds(&files, context)?;
    if details {
        for file in &files {
            print_file(file, options, context)?;
        }
    }
    print_summary(found, options.notes, context)?;
    if !details {
        let hint = "`annals check --details` lists every finding";
        context.out.line(paint(DIM, hint))?;
    }
    Ok(())
}

fn print_file(file: &ShownFile<'_>, options: &Options, context: &mut Context) -> Result<()> {
    let ShownFile { report, flaws } = file;
    let limit = options.limit;
    let path = report.path.display().to_string();
    context.out.line(paint(PATH, &path))?;
    let mut table = Table::new([
        Column::new("LINE").right(),
        Column::new("OFFSET").right().style(DIM),
        Column::new("SEVERITY"),
        Column::new("KIND"),
        Column::new("DETAIL").min(20),
    ]);
    for flaw in flaws.iter().take(limit) {
        let severity = flaw.kind.severity();
        // A flaw of a whole file has no line and no offset.
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
    let width = context.out.width().filter(|_| !options.details);
    context.out.text(table.render(width))?;
    if flaws.len() > limit {
        let more = flaws.len() - limit;
        let text = format!("… {more} more: --limit {}", flaws.len());
        context.out.line(paint(DIM, &text))?;
    }
    context.out.blank()?;
    Ok(())
}

/// Number of findings of a kind, and of files that have them.
#[derive(Default)]
struct KindCounts {
    flaws: u64,
    files: u64,
}

/// Prints each kind with its advice below it, the worst first.
fn print_kinds(files: &[ShownFile<'_>], context: &mut Context) -> Result<()> {
    let mut kinds: BTreeMap<(Severity, FlawKind, &str), KindCounts> = BTreeMap::new();
    for file in files {
        let mut counts: BTreeMap<FlawKind, u64> = BTreeMap::new();
        for flaw in &file.flaws {
            *counts.entry(flaw.kind).or_default() += 1;
        }
        for (kind, count) in counts {
            let key = (kind.severity(), kind, file.report.advice(kind));
            let sum = kinds.entry(key).or_default();
            sum.flaws += count;
            sum.files += 1;
        }
    }
    if kinds.is_empty() {
        return Ok(());
    }
    let mut table = Table::new([
        Column::new("SEVERITY"),
        Column::new("KIND"),
        Column::new("COUNT").right(),
        Column::new("FILES").right(),
    ]);
    for ((severity, kind, _), counts) in &kinds {
        table.row([
            Cell::styled(severity.as_str(), severity_style(*severity)),
            Cell::new(kind.as_str()),
            Cell::new(size::count(counts.flaws)),
            Cell::new(size::count(counts.files)),
        ]);
    }
    let table = table.render(context.out.width());
    let (header, rows) = table.split_once('\n').unwrap_or((table.as_str(), ""));
    context.out.line(header)?;
    for (row, (_, _, advice)) in rows.lines().zip(kinds.keys()) {
        context.out.line(row)?;
        let lead = Span::new("  ", PLAIN);
        let advice = wrap_after(lead, Span::new(advice, PLAIN), context.out.width());
        context.out.text(advice)?;
    }
    context.out.blank()?;
    Ok(())
}

/// Formats `text` after `lead` in lines of at most `width` columns, with a hanging indent.
fn wrap_after(lead: Span, text: Span, width: Option<usize>) -> String {
    let lead = [lead];
    let indent = spans_width(&lead);
    let width = width.map(|columns| columns.saturating_sub(indent));
    let mut out = String::new();
    for (number, line) in wrap(&[text], width).iter().enumerate() {
        match number {
            0 => push_spans(&mut out, &lead),
            _ => out.extend(std::iter::repeat_n(' ', indent)),
        }
        push_spans(&mut out, line);
        out.push('\n');
    }
    out
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
    let has_errors = |report: &&FileReport| report.worst() == Some(Severity::Error);
    let damaged = found.reports.iter().filter(has_errors).count() as u64;
    let mut parts = Vec::new();
    match many(Severity::Error) {
        0 if found.is_complete => parts.push("no errors found".to_owned()),
        0 => {}
        errors => parts.push(format!(
            "{} in {}",
            pluralize(errors, "error"),
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
    } else if !found.is_complete {
        parts.push("not everything could be read".to_owned());
    }
    if !found.has_sessions {
        parts.push("no sessions".to_owned());
    }
    let worst = Severity::ALL
        .iter()
        .copied()
        .find(|severity| *severity != Severity::Note && many(*severity) > 0);
    let (mark, mark_style, style) = match worst {
        Some(worst) => (
            severity_mark(worst),
            severity_style(worst),
            severity_style(worst),
        ),
        None if found.is_complete && found.has_sessions => ("✓", SUCCESS, PLAIN),
        None => ("!", WARNING, WARNING),
    };
    let lead = Span::new(&format!("{mark} "), mark_style);
    let text = format!("{looked}: {}", parts.join(", "));
    let summary = wrap_after(lead, Span::new(&text, style), context.out.width());
    Ok(context.out.text(summary)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anstream::adapter::strip_str;

    #[test]
    fn advice_and_summary_are_wrapped_with_a_hanging_indent() {
        let wrapped = |width| {
            let lead = Span::new("✗ ", WARNING);
            let text = Span::new("one two three four", PLAIN);
            strip_str(&wrap_after(lead, text, width)).to_string()
        };
        assert_eq!(wrapped(Some(11)), "✗ one two\n  three\n  four\n");
        assert_eq!(wrapped(None), "✗ one two three four\n");
    }

    #[test]
    fn no_advice_is_wider_than_the_terminal() {
        for kind in FlawKind::ALL {
            let text = Span::new(kind.advice(), PLAIN);
            let advice = wrap_after(Span::new("  ", PLAIN), text, Some(60));
            assert!(advice.lines().all(|line| line.chars().count() <= 60));
        }
    }
}
