//! `annals check`

mod json;
mod table;

use annals::check::{self, FileReport};
use annals::model::{Flaw, FlawKind, Severity};
use annals::store::{Inventory, Target};
use anyhow::{Result, bail};
use clap::Args;

use super::Outcome;
use super::overview::print_no_live_sessions;
use crate::context::{Access, Context, refuse_message};
use crate::render::command::quoted_command;
use crate::render::progress::Progress;

/// Looks for damage.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 0: no errors. 1: errors were found. 2: the check itself failed. \
Warnings and notes are not errors; with --strict, warnings exit with 1 too. See docs/CHECKS.md.

Examples:
  annals check                 everything
  annals check --details       every finding, by file
  annals check 8c549c46        one session with its sub-agents and todos
  annals check some/log.jsonl  one file
  annals check --json | jq '.files[].flaws[].kind' | sort | uniq -c")]
pub(crate) struct CheckArgs {
    /// Sessions or log files; everything if none is named
    ids: Vec<String>,
    /// List every finding, by file; without this, a long list is only a table by kind
    #[arg(long)]
    details: bool,
    /// List at most this many findings of a file [default: 10, or all with --details]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Show notes too, not only their count
    #[arg(long)]
    all: bool,
    /// Exit with 1 for warnings too
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(args: &CheckArgs, context: &mut Context) -> Result<Outcome> {
    let found = run_check(args, context)?;
    let ok = found.count(Severity::Error) == 0 && found.is_complete && found.has_sessions;
    if context.json {
        let document = json::CheckJson::new(&found, ok, context.store.failures());
        context.out.json(&document)?;
    } else if found.has_nothing() && !context.is_incomplete() {
        print_no_live_sessions(context)?;
    } else {
        let options = table::Options {
            details: args.details || args.limit.is_some() || !args.ids.is_empty(),
            limit: args
                .limit
                .unwrap_or(if args.details { usize::MAX } else { 10 }),
            notes: args.all || context.verbose,
        };
        table::print(&found, &options, context)?;
    }
    let strict = args.strict && found.count(Severity::Warning) > 0;
    Ok(match ok && !strict {
        true => Outcome::Ok,
        false => Outcome::NotFound,
    })
}

/// Result of a check.
struct CheckResult {
    reports: Vec<FileReport>,
    /// Errors of files that could not be opened.
    unreadable: Vec<String>,
    /// True if every file could be read.
    is_complete: bool,
    /// False if there was no session to check.
    has_sessions: bool,
}

impl CheckResult {
    fn flaws(&self) -> impl Iterator<Item = &Flaw> {
        self.reports.iter().flat_map(|report| &report.flaws)
    }

    /// Returns true if there was no session to check, and nothing else has a flaw.
    fn has_nothing(&self) -> bool {
        !self.has_sessions && self.flaws().next().is_none() && self.unreadable.is_empty()
    }

    /// Returns the number of flaws of a severity.
    fn count(&self, severity: Severity) -> usize {
        let of_it = |flaw: &&Flaw| flaw.kind.severity() == severity;
        self.flaws().filter(of_it).count()
    }

    /// Counts all lines, valid lines, pending lines (torn tails whose writer may still be active),
    /// and corrupt lines.
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
        for found in context.store.repairs().stale_session_lists(&inventory) {
            match found {
                Ok(stale) => merge_report(&mut reports, check::stale_session_list(&stale)),
                // The check of the file may have reported the same error.
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
        has_sessions: !args.ids.is_empty() || !inventory.sessions.is_empty(),
        unreadable,
    })
}

/// Finds the session or file to check. An archived session has no files in its root: an error.
fn find_target(id: &str, inventory: &Inventory, context: &mut Context) -> Result<Target> {
    let target = context.find_without_archive(inventory, id, Access::Read)?;
    refuse_message(&target, id)?;
    if target.files.is_archived() {
        let id = &target.files.id;
        let verify = quoted_command("annals archive --verify", id.as_str(), "");
        bail!("session {id} is archived; {verify} checks it")
    }
    Ok(target)
}

/// Adds flaws found outside of a file's content to the report of the file.
fn merge_report(reports: &mut Vec<FileReport>, outside: FileReport) {
    match reports.iter_mut().find(|known| known.path == outside.path) {
        Some(report) => report.flaws.extend(outside.flaws),
        None => reports.push(outside),
    }
}

/// Returns one result per checked file.
fn split_result(result: annals::Result<Vec<FileReport>>) -> Vec<annals::Result<FileReport>> {
    match result {
        Ok(reports) => reports.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }
}
