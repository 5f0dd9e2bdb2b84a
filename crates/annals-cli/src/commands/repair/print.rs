//! Text output of a repair.

use annals::repair::RepairPlan;
use annals::store::StaleSessionList;
use anyhow::Result;

use super::{RepairArgs, RepairRun};
use crate::context::Context;
use annals_render::size::{self, pluralize};
use annals_render::style::{DIM, ID, PATH, SUCCESS, WARNING, paint};
use annals_render::table::{Cell, Column, Table};

pub(super) fn print_run(work: &RepairRun, args: &RepairArgs, context: &mut Context) -> Result<()> {
    for (plan, done) in work.plans.iter().zip(&work.repairs) {
        // A file with only an unfinished last line is shown only if it was named.
        if plan.edits.is_empty() && args.ids.is_empty() {
            continue;
        }
        print_plan(plan, args.limit, context)?;
        if let Some(kept) = done {
            let text = format!("the original is kept: {}", paint(ID, &kept.id));
            context.out.line(text)?;
        }
        context.out.blank()?;
    }
    for (at, stale) in work.session_lists.iter().enumerate() {
        let path = stale.path.display().to_string();
        let path = paint(PATH, &path);
        context.out.line(format_args!("{path}: {}", stale.detail))?;
        if let Some(Some(kept)) = work.rebuilt.get(at) {
            let text = format!("the original is kept: {}", paint(ID, &kept.id));
            context.out.line(text)?;
        }
    }
    print_orphan_files(work, args.limit, context)?;
    print_summary(work, context)
}

fn print_plan(plan: &RepairPlan, limit: usize, context: &mut Context) -> Result<()> {
    let path = plan.file.path.display().to_string();
    context.out.line(paint(PATH, &path))?;
    let mut table = Table::new([
        Column::new("LINE").right(),
        Column::new("OFFSET").right().style(DIM),
        Column::new("REPAIR").style(WARNING),
        Column::new("WHY").min(20),
    ]);
    let steps = &plan.edits.steps;
    for step in steps.iter().take(limit) {
        table.row([
            Cell::new(step.line.to_string()),
            Cell::new(step.offset.to_string()),
            Cell::new(step.action.as_str()),
            Cell::new(&step.detail),
        ]);
    }
    for left in plan.edits.unrepaired.iter().take(limit) {
        table.row([
            Cell::new(left.line.to_string()),
            Cell::new(left.offset.to_string()),
            Cell::new("unchanged"),
            Cell::new(format!("{}: {}", left.kind.as_str(), left.detail)),
        ]);
    }
    context.out.text(table.render(context.out.width()))?;
    let all = steps.len().max(plan.edits.unrepaired.len());
    if all > limit {
        let text = format!("… {} more: --limit {all}", all - limit);
        context.out.line(paint(DIM, &text))?;
    }
    Ok(())
}

fn print_orphan_files(work: &RepairRun, limit: usize, context: &mut Context) -> Result<()> {
    if work.orphan_files.is_empty() {
        return Ok(());
    }
    let files: u64 = work.orphan_files.iter().map(|stray| stray.files).sum();
    let text = format!(
        "Left unchanged, because their session does not exist: {}",
        pluralize(files, "file")
    );
    context.out.line(text)?;
    let mut table = Table::new([
        Column::new("SESSION").cut_middle().min(8).style(ID),
        Column::new("KIND"),
        Column::new("FILES").right(),
        Column::new("SIZE").right(),
        Column::new("WHY").min(20),
    ]);
    for stray in work.orphan_files.iter().take(limit) {
        let kind = serde_json::to_value(stray.kind)?;
        table.row([
            Cell::new(stray.session.as_deref().unwrap_or("?")),
            Cell::new(kind.as_str().unwrap_or_default()),
            Cell::new(size::count(stray.files)),
            Cell::new(size::bytes(stray.bytes)),
            Cell::new(&stray.detail),
        ]);
    }
    context.out.text(table.render(context.out.width()))?;
    if work.orphan_files.len() > limit {
        let all = work.orphan_files.len();
        let text = format!("… {} more: --limit {all}", all - limit);
        context.out.line(paint(DIM, &text))?;
    }
    context.out.blank()?;
    Ok(())
}

fn print_summary(work: &RepairRun, context: &mut Context) -> Result<()> {
    let wanted = |plan: &&RepairPlan| !plan.edits.is_empty();
    let planned = work.plans.iter().filter(wanted).count() as u64;
    let files = match work.applied {
        true => work.repairs.iter().flatten().count() as u64,
        false => planned,
    };
    let failed = |stale: &StaleSessionList| work.failed.iter().any(|(path, _)| *path == stale.path);
    let stale = work.session_lists.len() as u64;
    let indexes = work
        .session_lists
        .iter()
        .filter(|stale| !failed(stale))
        .count() as u64;
    let count = match (files, indexes) {
        (0, indexes) => pluralize(indexes, "session list"),
        (files, 0) => pluralize(files, "log"),
        (files, indexes) => format!(
            "{}, {}",
            pluralize(files, "log"),
            pluralize(indexes, "session list")
        ),
    };
    match (planned + stale, work.applied) {
        (0, _) if context.is_incomplete() => context
            .out
            .line("Nothing was repaired: not everything could be read.")?,
        (0, _) => context.out.line("Nothing to repair.")?,
        (_, true) if files + indexes == 0 => {}
        (_, true) => {
            let text = format!("{} {count}", paint(SUCCESS, "repaired"));
            context.out.line(text)?;
            if files > 0 || work.rebuilt.iter().any(Option::is_some) {
                context.out.line(
                    "`annals repair --undo ID` restores an original, `--forget ID` deletes it",
                )?;
            }
        }
        (_, false) => context.out.line(paint(
            DIM,
            &format!("{count} to repair. Nothing was changed; add --apply to do it."),
        ))?,
    }
    Ok(())
}
