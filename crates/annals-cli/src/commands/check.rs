//! `annals check`

mod table;

use annals::check::{self, CheckResult, FileReport};
use annals::model::Severity;
use annals::store::{Inventory, Target};
use annals::view::CheckJson;
use anyhow::{Result, bail};
use clap::Args;

use super::Outcome;
use super::overview::print_no_live_sessions;
use crate::context::{Access, Context, refuse_message};
use crate::terminal::progress::Progress;
use annals_render::command::quoted_command;

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
    let ok = found.is_ok();
    if context.json {
        let document = CheckJson::new(&found, context.store.failures());
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

fn run_check(args: &CheckArgs, context: &mut Context) -> Result<CheckResult> {
    let mut result = if args.ids.is_empty() {
        let inventory = context.inventory_to_check();
        let progress = Progress::new("checking");
        let set_progress = |done, total| progress.set(done, total);
        check::everything(&context.store, &inventory, context.clock.now, &set_progress)
    } else {
        let inventory = context.inventory_without_archive();
        let archive = context.store.archive().ok();
        let mut results = Vec::new();
        for id in &args.ids {
            let target = find_target(id, &inventory, context)?;
            match &target.log {
                Some(log) => results.extend(split_result(check::file(&target.files.root, log))),
                None => results.extend(check::session(&inventory, &target.files, archive.as_ref())),
            }
        }
        CheckResult::new(results, &inventory)
    };
    for error in std::mem::take(&mut result.errors) {
        context.warn(&error);
    }
    Ok(result)
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

/// Returns one result per checked file.
fn split_result(result: annals::Result<Vec<FileReport>>) -> Vec<annals::Result<FileReport>> {
    match result {
        Ok(reports) => reports.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }
}
