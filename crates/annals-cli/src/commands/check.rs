//! `annals check`

mod json;
mod table;

use annals::check::{self, FileReport};
use annals::model::{Flaw, FlawKind, Severity};
use annals::store::{Inventory, Target};
use anyhow::{Result, bail};
use clap::Args;

use super::Outcome;
use crate::context::Context;
use crate::render::command::plain_hint;
use crate::render::progress::Progress;

/// Looks for damage.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 0: no damage. 1: damage was found. 2: the check itself failed.
Warnings and notes alone are no damage, unless --strict says so. docs/CHECKS.md explains each kind.

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
    /// Show notes too, which are only counted otherwise
    #[arg(long)]
    all: bool,
    /// Exit with 1 for warnings too
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(args: &CheckArgs, context: &mut Context) -> Result<Outcome> {
    let found = run_check(args, context)?;
    let ok = found.count(Severity::Damage) == 0 && found.is_complete;
    if context.json {
        let document = json::CheckJson::new(&found, ok, context.store.failures());
        context.out.json(&document)?;
    } else {
        let notes = args.all || context.verbose;
        table::print(&found, args.limit, notes, context)?;
    }
    let strict = args.strict && found.count(Severity::Warning) > 0;
    Ok(match ok && !strict {
        true => Outcome::Ok,
        false => Outcome::NotFound,
    })
}

/// What a check found.
struct CheckResult {
    reports: Vec<FileReport>,
    /// What could not be opened, and why.
    unreadable: Vec<String>,
    /// Everything could be looked at.
    is_complete: bool,
}

impl CheckResult {
    fn flaws(&self) -> impl Iterator<Item = &Flaw> {
        self.reports.iter().flat_map(|report| &report.flaws)
    }

    /// How many flaws there are of a severity.
    fn count(&self, severity: Severity) -> usize {
        let of_it = |flaw: &&Flaw| flaw.kind.severity() == severity;
        self.flaws().filter(of_it).count()
    }

    /// Lines in all, those that can be read, those whose writer may still be at work, all others.
    fn line_counts(&self) -> LineCounts {
        let total = self.reports.iter().map(|report| report.lines).sum();
        let valid = self.reports.iter().map(|report| report.valid).sum();
        let torn = |flaw: &&Flaw| flaw.kind == FlawKind::TornTail;
        let pending = self.flaws().filter(torn).count() as u64;
        LineCounts {
            total,
            valid,
            pending,
            corrupt: total.saturating_sub(valid).saturating_sub(pending),
        }
    }
}

struct LineCounts {
    total: u64,
    valid: u64,
    pending: u64,
    corrupt: u64,
}

fn run_check(args: &CheckArgs, context: &mut Context) -> Result<CheckResult> {
    let inventory = match args.ids.is_empty() {
        true => context.inventory_to_check(),
        false => context.inventory_without_archive(),
    };
    let archive = context.store.archive().ok();
    let archive = archive.as_ref();
    let mut reports = Vec::new();
    let mut unreadable = Vec::new();
    let results = if args.ids.is_empty() {
        let progress = Progress::new("checking");
        check::all(&inventory, archive, &|done, total| {
            progress.set(done, total)
        })
    } else {
        let mut results = Vec::new();
        for id in &args.ids {
            let target = find_target(id, &inventory, context)?;
            match &target.log {
                Some(log) => results.extend(split_result(check::file(&target.files.root, log))),
                None => results.extend(check::session(&inventory, &target.files, archive)),
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
        for found in context.store.stale_session_lists(&inventory) {
            match found {
                Ok(stale) => merge_report(&mut reports, check::stale_session_list(&stale)),
                // The check of the file itself may have said so.
                Err(error) if unreadable.contains(&error.to_string()) => {}
                Err(error) => {
                    unreadable.push(error.to_string());
                    context.warn(&error);
                }
            }
        }
        for report in check::environment(&context.store, &inventory, context.clock.now) {
            merge_report(&mut reports, report);
        }
    }
    Ok(CheckResult {
        reports,
        is_complete: unreadable.is_empty() && inventory.errors.is_empty(),
        unreadable,
    })
}

/// The session or file that is meant; one that is archived has no files here to look at.
fn find_target(id: &str, inventory: &Inventory, context: &mut Context) -> Result<Target> {
    let id = &context.resolve_latest(inventory, id, true)?.into_owned();
    let missing = match context.store.find(inventory, id) {
        Err(error @ annals::Error::NotFound { .. }) => error,
        found => return Ok(found?),
    };
    let all = context.inventory();
    match context.store.find(&all, id) {
        Ok(target) if target.files.is_archived() => {
            let id = &target.files.id;
            let verify = plain_hint("annals archive --verify", id.as_str(), "");
            bail!("session {id} is archived; {verify} checks what is there")
        }
        _ => Err(missing.into()),
    }
}

/// Adds what is known of a file from outside to what its content told.
fn merge_report(reports: &mut Vec<FileReport>, outside: FileReport) {
    match reports.iter_mut().find(|known| known.path == outside.path) {
        Some(report) => report.flaws.extend(outside.flaws),
        None => reports.push(outside),
    }
}

/// One result for each file that was checked.
fn split_result(result: annals::Result<Vec<FileReport>>) -> Vec<annals::Result<FileReport>> {
    match result {
        Ok(reports) => reports.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }
}
