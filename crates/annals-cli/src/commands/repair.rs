//! `annals repair`

mod print;
mod quarantined;

use std::path::PathBuf;

use annals::repair::{OrphanFiles, QuarantinedFile, RepairPlan, RepairTarget, Step, Unrepaired};
use annals::store::{Inventory, StaleSessionList};
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::Outcome;
use crate::context::Context;
use crate::render::progress::Progress;

/// Mends damaged logs and indexes.
#[derive(Debug, Args)]
#[command(after_help = "\
Lines that hold no record are taken out, records that were glued together or stand behind a torn
one get lines of their own, and entries whose parent is lost hang from what came before, so that
the agent's own program reads the whole history again. Every other line stays as it is. An index is
derived from logs: one that is missing, damaged or behind is made anew from them.

Nothing is changed without --apply. The original of every mended log or index is kept, with what was taken
out of it, in the state directory's folder `quarantine` until --forget; --undo puts it back byte for
byte. A file that another program is writing to is not touched.

Examples:
  annals repair                what would be mended
  annals repair --apply
  annals repair 8c549c46       one session with its sub-agents
  annals repair --list         whose originals are kept
  annals repair --undo 8c549c46
  annals repair --forget --all            how much would go for good
  annals repair --forget --all --apply")]
pub(crate) struct RepairArgs {
    /// Sessions or log files; everything if none is named
    #[arg(value_name = "SESSION")]
    ids: Vec<String>,
    /// Do it
    #[arg(long)]
    apply: bool,
    /// Also files that another program is writing to right now
    #[arg(long)]
    live: bool,
    /// Show at most this many lines of a file
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Show the repairs whose originals are kept
    #[arg(long, conflicts_with_all = ["ids", "apply", "undo", "forget"])]
    list: bool,
    /// Put the original back: by the repair's id, its session's, or the file's path
    #[arg(long, value_name = "ID", conflicts_with_all = ["ids", "apply", "forget"])]
    undo: Option<String>,
    /// Remove a kept original for good
    #[arg(long, value_name = "ID", num_args = 0..=1, conflicts_with = "ids")]
    forget: Option<Option<String>>,
    /// With --forget: every original
    #[arg(long, requires = "forget")]
    all: bool,
}

#[derive(Serialize)]
struct RepairJson<'a> {
    applied: bool,
    files: Vec<FileJson<'a>>,
    indexes: Vec<SessionListJson<'a>>,
    strays: Vec<OrphanFilesJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<FailedJson>,
}

#[derive(Serialize)]
struct FileJson<'a> {
    path: &'a PathBuf,
    layout: &'a str,
    session: Option<String>,
    lines: u64,
    bytes: u64,
    result_bytes: u64,
    /// The repair's name, once it is done.
    repair: Option<&'a str>,
    /// Where the original is, once it is done.
    original: Option<PathBuf>,
    steps: &'a [Step],
    left: &'a [Unrepaired],
}

#[derive(Serialize)]
struct SessionListJson<'a> {
    path: &'a PathBuf,
    detail: &'a str,
    /// The repair's name, once it is done; none where there was no index.
    repair: Option<&'a str>,
    /// Where the original is, once it is done.
    original: Option<PathBuf>,
}

#[derive(Serialize)]
struct OrphanFilesJson<'a> {
    path: &'a PathBuf,
    kind: annals::model::ArtifactKind,
    session: Option<&'a str>,
    files: u64,
    bytes: u64,
    detail: &'a str,
}

#[derive(Serialize)]
struct FailedJson {
    path: PathBuf,
    error: String,
}

/// What is to be done, and what was.
struct RepairRun {
    applied: bool,
    plans: Vec<RepairPlan>,
    /// For each plan, the repair that it became.
    repairs: Vec<Option<QuarantinedFile>>,
    session_lists: Vec<StaleSessionList>,
    /// For each index, the repair that it became.
    rebuilt: Vec<Option<QuarantinedFile>>,
    orphan_files: Vec<OrphanFiles>,
    failed: Vec<(PathBuf, annals::Error)>,
}

pub(crate) fn run(args: &RepairArgs, context: &mut Context) -> Result<Outcome> {
    if args.list {
        return quarantined::list(context);
    }
    if let Some(id) = &args.undo {
        return quarantined::undo(id, args.live, context);
    }
    match &args.forget {
        Some(Some(id)) if !args.all => return quarantined::forget(id, args.apply, context),
        Some(None) if args.all => return quarantined::forget_all(args.apply, context),
        Some(_) => bail!("--forget takes the id of a repair, or --all"),
        None => {}
    }
    if args.apply {
        context.put_back_removed()?;
    }
    let inventory = context.inventory_without_archive();
    let patients = find_targets(args, &inventory, context)?;
    let mut work = RepairRun {
        applied: args.apply,
        plans: make_plans(&patients, context),
        repairs: Vec::new(),
        session_lists: stale_session_lists(args, &patients, &inventory, context),
        rebuilt: Vec::new(),
        orphan_files: Vec::new(),
        failed: Vec::new(),
    };
    work.repairs.resize(work.plans.len(), None);
    if args.ids.is_empty() {
        work.orphan_files = context.store.orphan_files(&inventory);
    }
    if args.apply {
        apply_plans(args, &patients, &mut work, context)?;
    }
    if context.json {
        let quarantine = context.store.quarantine()?;
        context.out.json(&repair_json(&work, &quarantine))?;
    } else {
        print::print_run(&work, args, context)?;
    }
    let mut failed = work.failed.into_iter().map(|(_, error)| error);
    let Some(first) = failed.next() else {
        return Ok(Outcome::Ok);
    };
    for error in failed {
        context.warn(&error);
    }
    Err(first.into())
}

/// The files that may be mended.
fn find_targets(
    args: &RepairArgs,
    inventory: &Inventory,
    context: &mut Context,
) -> Result<Vec<RepairTarget>> {
    if args.ids.is_empty() {
        return Ok(RepairTarget::all(inventory));
    }
    let mut found: Vec<RepairTarget> = Vec::new();
    for id in &args.ids {
        let id = &context.resolve_latest(inventory, id, false)?.into_owned();
        let target = match context.store.find(inventory, id) {
            Err(error @ annals::Error::NotFound { .. }) => {
                // It may be in the archive, and then it is known what to do.
                let all = context.inventory();
                let archived = context.store.find(&all, id).map_err(|_| error)?;
                archived.files.refuse_archived()?;
                archived
            }
            found => found?,
        };
        if target.message.is_some() {
            bail!("`{id}` names a message; only whole sessions and files can be repaired");
        }
        let patients = RepairTarget::from_sessions(std::iter::once(&target.files));
        let patients = match &target.log {
            Some(log) => RepairTarget::filter_by_path(patients, &log.path),
            None => patients,
        };
        for patient in patients {
            if !found.iter().any(|one| one.file.path == patient.file.path) {
                found.push(patient);
            }
        }
    }
    Ok(found)
}

fn make_plans(patients: &[RepairTarget], context: &mut Context) -> Vec<RepairPlan> {
    let progress = Progress::new("reading");
    let results = RepairPlan::all(patients, context.clock.now, &|done, total| {
        progress.set(done, total)
    });
    drop(progress);
    let mut plans = Vec::new();
    for result in results {
        match result {
            Ok(plan) => plans.push(plan),
            Err(error) => context.warn(&error),
        }
    }
    plans
}

/// The indexes that are not what their logs say, of all logs or of those that were named.
fn stale_session_lists(
    args: &RepairArgs,
    patients: &[RepairTarget],
    inventory: &Inventory,
    context: &mut Context,
) -> Vec<StaleSessionList> {
    let mut found = Vec::new();
    for stale in context.store.stale_session_lists(inventory) {
        match stale {
            Ok(stale) if args.ids.is_empty() => found.push(stale),
            Ok(stale) if patients.iter().any(|one| one.is_listed_in(&stale)) => found.push(stale),
            Ok(_) => {}
            Err(error) => context.warn(&error),
        }
    }
    found
}

/// Mends one file after the other; one that cannot be mended does not keep the others.
fn apply_plans(
    args: &RepairArgs,
    patients: &[RepairTarget],
    work: &mut RepairRun,
    context: &mut Context,
) -> Result<()> {
    let now = context.clock.now;
    for (plan, done) in work.plans.iter().zip(&mut work.repairs) {
        if plan.edits.is_empty() {
            continue;
        }
        match context.store.repair(plan, args.live, now) {
            Ok(kept) => *done = Some(kept),
            Err(error) => work.failed.push((plan.file.path.clone(), error)),
        }
    }
    context.store.sweep_quarantine()?;
    // A log that was mended may say something else than its index.
    if work.repairs.iter().any(Option::is_some) {
        let inventory = context.inventory_without_archive();
        work.session_lists = stale_session_lists(args, patients, &inventory, context);
    }
    for register in &work.session_lists {
        let made = context.store.repair_session_list(register, args.live, now);
        work.rebuilt.push(made.unwrap_or_else(|error| {
            work.failed.push((register.path.clone(), error));
            None
        }));
    }
    Ok(())
}

fn repair_json<'a>(work: &'a RepairRun, quarantine: &std::path::Path) -> RepairJson<'a> {
    let files = work
        .plans
        .iter()
        .zip(&work.repairs)
        .map(|(plan, done)| FileJson {
            path: &plan.file.path,
            layout: plan.root.layout.name(),
            session: plan.session.as_ref().map(ToString::to_string),
            lines: plan.edits.lines,
            bytes: plan.file.id.len,
            result_bytes: plan.edits.result_len(plan.file.id.len),
            repair: done.as_ref().map(|kept| kept.id.as_str()),
            original: done.as_ref().map(|kept| kept.original_path(quarantine)),
            steps: &plan.edits.steps,
            left: &plan.edits.unrepaired,
        });
    let made = work.rebuilt.iter().map(Option::as_ref);
    let made = made.chain(std::iter::repeat(None));
    let indexes = work
        .session_lists
        .iter()
        .zip(made)
        .map(|(stale, made)| SessionListJson {
            path: &stale.path,
            detail: stale.detail,
            repair: made.map(|kept| kept.id.as_str()),
            original: made.map(|kept| kept.original_path(quarantine)),
        });
    let strays = work.orphan_files.iter().map(|stray| OrphanFilesJson {
        path: &stray.path,
        kind: stray.kind,
        session: stray.session.as_deref(),
        files: stray.files,
        bytes: stray.bytes,
        detail: &stray.detail,
    });
    let failed = work.failed.iter().map(|(path, error)| FailedJson {
        path: path.clone(),
        error: error.to_string(),
    });
    RepairJson {
        applied: work.applied,
        files: files.collect(),
        indexes: indexes.collect(),
        strays: strays.collect(),
        failed: failed.collect(),
    }
}
