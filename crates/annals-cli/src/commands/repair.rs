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
use super::overview::print_no_live_sessions;
use crate::context::{Access, Context, refuse_message};
use crate::terminal::progress::Progress;

/// Repairs damaged logs and session lists.
#[derive(Debug, Args)]
#[command(after_help = "\
Lines without a record are removed, records that were glued together or follow a torn \
one get lines of their own, and entries whose parent is lost are attached to the entry before, so that \
the agent program reads the whole history again. All other lines stay unchanged. A session list is \
derived from logs: one that is missing, damaged or out of date is rebuilt from them.

Nothing is changed without --apply. The original of every repaired file is kept, with the lines removed \
from it, in the state directory's folder `undo` until --forget; --undo restores it byte for \
byte, without --apply: the file can be repaired again. A file that another program is writing to is not touched.

Examples:
  annals repair                what would be repaired
  annals repair --apply
  annals repair 8c549c46       one session with its sub-agents
  annals repair --list         list kept originals
  annals repair --undo 8c549c46
  annals repair --forget --all            what would be deleted
  annals repair --forget --all --apply")]
pub(crate) struct RepairArgs {
    /// Sessions or log files; everything if none is named
    #[arg(value_name = "SESSION")]
    ids: Vec<String>,
    /// Do it; without this, only the plan is shown
    #[arg(long)]
    apply: bool,
    /// Also files that another program is writing to right now
    #[arg(long)]
    live: bool,
    /// Show at most this many lines of a file
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// List the repairs whose originals are kept
    #[arg(long, conflicts_with_all = ["ids", "apply", "undo", "forget"])]
    list: bool,
    /// Restore an original: by id of the repair, by session, or by path of the file
    #[arg(long, value_name = "ID", conflicts_with_all = ["ids", "forget"])]
    undo: Option<String>,
    /// Delete a kept original permanently
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
    /// Id of the repair, once applied.
    repair: Option<&'a str>,
    /// Path of the original, once applied.
    original: Option<PathBuf>,
    steps: &'a [Step],
    left: &'a [Unrepaired],
}

#[derive(Serialize)]
struct SessionListJson<'a> {
    path: &'a PathBuf,
    detail: &'a str,
    /// Id of the repair, once applied; none if there was no session list.
    repair: Option<&'a str>,
    /// Path of the original, once applied.
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

/// Planned repairs and their results.
struct RepairRun {
    applied: bool,
    plans: Vec<RepairPlan>,
    /// Result of each plan.
    repairs: Vec<Option<QuarantinedFile>>,
    session_lists: Vec<StaleSessionList>,
    /// Result of each session list.
    rebuilt: Vec<Option<QuarantinedFile>>,
    orphan_files: Vec<OrphanFiles>,
    failed: Vec<(PathBuf, annals::Error)>,
}

impl RepairRun {
    fn has_nothing(&self) -> bool {
        let is_noop = |plan: &RepairPlan| plan.edits.is_empty();
        self.plans.iter().all(is_noop)
            && self.session_lists.is_empty()
            && self.orphan_files.is_empty()
            && self.failed.is_empty()
    }
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
        work.orphan_files = context.store.repairs().orphan_files(&inventory);
    }
    if args.apply {
        apply_plans(args, &patients, &mut work, context)?;
    }
    let is_empty_home = args.ids.is_empty()
        && inventory.sessions.is_empty()
        && inventory.errors.is_empty()
        && work.has_nothing();
    if context.json {
        let quarantine = context.store.repairs().quarantine()?;
        context.out.json(&repair_json(&work, &quarantine))?;
    } else if is_empty_home {
        print_no_live_sessions(context)?;
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

/// Returns the files that may be repaired.
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
        let target = context.find_without_archive(inventory, id, Access::Write)?;
        target.files.refuse_read_only()?;
        target.files.refuse_archived()?;
        refuse_message(&target, id)?;
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

/// Returns the session lists that differ from their logs: all, or those of the named logs.
fn stale_session_lists(
    args: &RepairArgs,
    patients: &[RepairTarget],
    inventory: &Inventory,
    context: &mut Context,
) -> Vec<StaleSessionList> {
    let mut found = Vec::new();
    for stale in context.store.repairs().stale_session_lists(inventory) {
        match stale {
            Ok(stale) if args.ids.is_empty() => found.push(stale),
            Ok(stale) if patients.iter().any(|one| one.is_listed_in(&stale)) => found.push(stale),
            Ok(_) => {}
            Err(error) => context.warn(&error),
        }
    }
    found
}

/// Repairs files one by one. A failure does not stop the others.
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
        match context.store.repairs().apply(plan, args.live, now) {
            Ok(kept) => *done = Some(kept),
            Err(error) => work.failed.push((plan.file.path.clone(), error)),
        }
    }
    context.store.repairs().sweep()?;
    // A repaired log may differ from its session list.
    if work.repairs.iter().any(Option::is_some) {
        let inventory = context.inventory_without_archive();
        work.session_lists = stale_session_lists(args, patients, &inventory, context);
    }
    for session_list in &work.session_lists {
        let made = context
            .store
            .repairs()
            .repair_session_list(session_list, args.live, now);
        work.rebuilt.push(made.unwrap_or_else(|error| {
            work.failed.push((session_list.path.clone(), error));
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
