//! `annals check`

use annals::check::{self, FileReport};
use annals::store::SessionFiles;
use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Outcome;
use super::entry::FlawRow;
use crate::context::Context;
use crate::render::progress::Progress;
use crate::render::size::{self, plural};
use crate::render::style::{DIM, PATH, SUCCESS, WARNING, paint};
use crate::render::table::{Cell, Column, Table};

/// Looks for damage.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 0: no damage. 1: damage was found. 2: the check itself failed.

Examples:
  annals check                 everything
  annals check 8c549c46        one session with its sub-agents and todos
  annals check some/log.jsonl  one file
  annals check --json | jq '.files[].flaws[].kind' | sort | uniq -c")]
pub(crate) struct CheckArgs {
    /// Sessions or log files; everything if none is named
    ids: Vec<String>,
    /// Show at most this many flaws of a file
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
}

#[derive(Serialize)]
struct Document<'a> {
    ok: bool,
    files: Vec<FileRow<'a>>,
    flaws: usize,
    total_lines: u64,
    valid_lines: u64,
    corrupt_lines: u64,
    unreadable: Vec<String>,
}

#[derive(Serialize)]
struct FileRow<'a> {
    path: &'a std::path::Path,
    lines: u64,
    valid: u64,
    bytes: u64,
    flaws: Vec<FlawRow<'a>>,
}

pub(crate) fn run(args: &CheckArgs, context: &mut Context) -> Result<Outcome> {
    let inventory = context.inventory_in_place();
    let mut reports = Vec::new();
    let mut unreadable = Vec::new();
    let results = if args.ids.is_empty() {
        let progress = Progress::new("checking");
        check::all(&inventory, &|done, total| progress.set(done, total))
    } else {
        let mut results = Vec::new();
        for id in &args.ids {
            let target = context.store.find(&inventory, id)?;
            match &target.log {
                Some(log) => results.extend(each(check::file(&target.files.root, log))),
                None => results.extend(session(&target.files)),
            }
        }
        results
    };
    for result in results {
        match result {
            Ok(report) => reports.push(report),
            Err(error) => {
                unreadable.push(error.to_string());
                context.warn(&error);
            }
        }
    }
    if args.ids.is_empty() {
        for found in context.store.stale_registers(&inventory) {
            match found {
                Ok(stale) => tell_stale(&mut reports, check::stale(&stale)),
                // The check of the file itself may have said so.
                Err(error) if unreadable.contains(&error.to_string()) => {}
                Err(error) => {
                    unreadable.push(error.to_string());
                    context.warn(&error);
                }
            }
        }
    }
    let flaws: usize = reports.iter().map(|report| report.flaws.len()).sum();
    let ok = flaws == 0 && unreadable.is_empty() && inventory.troubles.is_empty();
    if context.json {
        let document = document(&reports, ok, flaws, unreadable);
        context.out.json(&document)?;
    } else {
        print(&reports, flaws, unreadable.len(), args.limit, context)?;
    }
    Ok(if ok { Outcome::Fine } else { Outcome::Nothing })
}

/// Adds what is stale about an index to what is known of its file.
fn tell_stale(reports: &mut Vec<FileReport>, stale: FileReport) {
    match reports.iter_mut().find(|report| report.path == stale.path) {
        Some(report) => report.flaws.extend(stale.flaws),
        None => reports.push(stale),
    }
}

/// The checks of a session's files.
fn session(files: &SessionFiles) -> Vec<annals::Result<FileReport>> {
    let checked = files
        .files()
        .filter(|file| check::has_schema(file.artifact.kind));
    let results = checked.map(|file| each(check::file(&files.root, file)));
    results.flatten().collect()
}

/// One result for each file that was checked.
fn each(result: annals::Result<Vec<FileReport>>) -> Vec<annals::Result<FileReport>> {
    match result {
        Ok(reports) => reports.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }
}

fn document(
    reports: &[FileReport],
    ok: bool,
    flaws: usize,
    unreadable: Vec<String>,
) -> Document<'_> {
    let total: u64 = reports.iter().map(|report| report.lines).sum();
    let valid: u64 = reports.iter().map(|report| report.valid).sum();
    Document {
        ok,
        files: reports
            .iter()
            .map(|report| FileRow {
                path: &report.path,
                lines: report.lines,
                valid: report.valid,
                bytes: report.bytes,
                flaws: report.flaws.iter().map(FlawRow::of).collect(),
            })
            .collect(),
        flaws,
        total_lines: total,
        valid_lines: valid,
        corrupt_lines: total - valid,
        unreadable,
    }
}

fn print(
    reports: &[FileReport],
    flaws: usize,
    unreadable: usize,
    limit: usize,
    context: &mut Context,
) -> Result<()> {
    for report in reports.iter().filter(|report| !report.flaws.is_empty()) {
        context
            .out
            .line(paint(PATH, &report.path.display().to_string()))?;
        let mut table = Table::new([
            Column::new("LINE").right(),
            Column::new("OFFSET").right().style(DIM),
            Column::new("FLAW").style(WARNING),
            Column::new("WHAT").min(20),
        ]);
        for flaw in report.flaws.iter().take(limit) {
            table.row([
                Cell::new(flaw.span.line.to_string()),
                Cell::new(flaw.span.offset.to_string()),
                Cell::new(flaw.kind.as_str()),
                Cell::new(&flaw.detail),
            ]);
        }
        let table = table.render(context.out.width());
        context.out.text(table)?;
        if report.flaws.len() > limit {
            let text = format!(
                "… {} more: --limit {}",
                report.flaws.len() - limit,
                report.flaws.len()
            );
            context.out.line(paint(DIM, &text))?;
        }
        context.out.blank()?;
    }
    let bytes: u64 = reports.iter().map(|report| report.bytes).sum();
    let lines: u64 = reports.iter().map(|report| report.lines).sum();
    let valid: u64 = reports.iter().map(|report| report.valid).sum();
    let looked = format!(
        "{}, {}, {}",
        plural(reports.len() as u64, "file"),
        plural(lines, "line"),
        size::bytes(bytes)
    );
    if flaws == 0 && unreadable == 0 {
        context.out.line(format_args!(
            "{} {looked}: no damage found",
            paint(SUCCESS, "✓")
        ))?;
    } else {
        let damaged = reports
            .iter()
            .filter(|report| !report.flaws.is_empty())
            .count();
        let mut text = format!(
            "! {looked}: {} in {}; {} cannot be read",
            plural(flaws as u64, "flaw"),
            plural(damaged as u64, "file"),
            plural(lines - valid, "line")
        );
        if unreadable > 0 {
            text.push_str(&format!(
                "; {} could not be opened",
                plural(unreadable as u64, "file")
            ));
        }
        context.out.line(paint(WARNING, &text))?;
    }
    Ok(())
}
