//! `annals check`

mod document;
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
    let found = look(args, context)?;
    let ok = found.of(Severity::Damage) == 0 && found.complete;
    if context.json {
        let document = document::Document::of(&found, ok, context.store.failures());
        context.out.json(&document)?;
    } else {
        let notes = args.all || context.verbose;
        table::print(&found, args.limit, notes, context)?;
    }
    let strict = args.strict && found.of(Severity::Warning) > 0;
    Ok(match ok && !strict {
        true => Outcome::Fine,
        false => Outcome::Nothing,
    })
}

/// What a check found.
struct Found {
    reports: Vec<FileReport>,
    /// What could not be opened, and why.
    unreadable: Vec<String>,
    /// Everything could be looked at.
    complete: bool,
}

impl Found {
    fn flaws(&self) -> impl Iterator<Item = &Flaw> {
        self.reports.iter().flat_map(|report| &report.flaws)
    }

    /// How many flaws there are of a severity.
    fn of(&self, severity: Severity) -> usize {
        let of_it = |flaw: &&Flaw| flaw.kind.severity() == severity;
        self.flaws().filter(of_it).count()
    }

    /// Lines in all, those that can be read, those whose writer may still be at work, all others.
    fn lines(&self) -> Lines {
        let total = self.reports.iter().map(|report| report.lines).sum();
        let valid = self.reports.iter().map(|report| report.valid).sum();
        let torn = |flaw: &&Flaw| flaw.kind == FlawKind::TornTail;
        let pending = self.flaws().filter(torn).count() as u64;
        Lines {
            total,
            valid,
            pending,
            corrupt: total.saturating_sub(valid).saturating_sub(pending),
        }
    }
}

struct Lines {
    total: u64,
    valid: u64,
    pending: u64,
    corrupt: u64,
}

fn look(args: &CheckArgs, context: &mut Context) -> Result<Found> {
    let inventory = match args.ids.is_empty() {
        true => context.inventory_to_check(),
        false => context.inventory_in_place(),
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
            let target = find(id, &inventory, context)?;
            match &target.log {
                Some(log) => results.extend(each(check::file(&target.files.root, log))),
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
                Ok(stale) => add(&mut reports, check::stale_session_list(&stale)),
                // The check of the file itself may have said so.
                Err(error) if unreadable.contains(&error.to_string()) => {}
                Err(error) => {
                    unreadable.push(error.to_string());
                    context.warn(&error);
                }
            }
        }
        for report in check::environment(&context.store, &inventory, context.clock.now) {
            add(&mut reports, report);
        }
    }
    Ok(Found {
        reports,
        complete: unreadable.is_empty() && inventory.errors.is_empty(),
        unreadable,
    })
}

/// The session or file that is meant; one that is archived has no files here to look at.
fn find(id: &str, inventory: &Inventory, context: &mut Context) -> Result<Target> {
    let id = &context.latest(inventory, id, true)?.into_owned();
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
fn add(reports: &mut Vec<FileReport>, outside: FileReport) {
    match reports.iter_mut().find(|known| known.path == outside.path) {
        Some(report) => report.flaws.extend(outside.flaws),
        None => reports.push(outside),
    }
}

/// One result for each file that was checked.
fn each(result: annals::Result<Vec<FileReport>>) -> Vec<annals::Result<FileReport>> {
    match result {
        Ok(reports) => reports.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }
}
