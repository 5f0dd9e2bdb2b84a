//! A repair for people.

use annals::repair::RepairPlan;
use annals::store::StaleSessionList;
use anyhow::Result;

use super::{RepairArgs, Work};
use crate::context::Context;
use crate::render::size::{self, plural};
use crate::render::style::{DIM, ID, PATH, SUCCESS, WARNING, paint};
use crate::render::table::{Cell, Column, Table};

pub(super) fn work(work: &Work, args: &RepairArgs, context: &mut Context) -> Result<()> {
    for (plan, done) in work.plans.iter().zip(&work.done) {
        // An unfinished last line is told only to who asks for its file.
        if plan.edits.is_empty() && args.ids.is_empty() {
            continue;
        }
        file(plan, args.limit, context)?;
        if let Some(kept) = done {
            let text = format!("the original is kept: {}", paint(ID, &kept.id));
            context.out.line(text)?;
        }
        context.out.blank()?;
    }
    for (at, stale) in work.indexes.iter().enumerate() {
        let path = stale.path.display().to_string();
        let path = paint(PATH, &path);
        context.out.line(format_args!("{path}: {}", stale.detail))?;
        if let Some(Some(kept)) = work.made.get(at) {
            let text = format!("the original is kept: {}", paint(ID, &kept.id));
            context.out.line(text)?;
        }
    }
    strays(work, args.limit, context)?;
    sum(work, context)
}

fn file(plan: &RepairPlan, limit: usize, context: &mut Context) -> Result<()> {
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
            Cell::new("stays"),
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

fn strays(work: &Work, limit: usize, context: &mut Context) -> Result<()> {
    if work.strays.is_empty() {
        return Ok(());
    }
    let files: u64 = work.strays.iter().map(|stray| stray.files).sum();
    let text = format!(
        "Left as they are, because their session is not there: {}",
        plural(files, "file")
    );
    context.out.line(text)?;
    let mut table = Table::new([
        Column::new("SESSION").middle().min(8).style(ID),
        Column::new("KIND"),
        Column::new("FILES").right(),
        Column::new("SIZE").right(),
        Column::new("WHY").min(20),
    ]);
    for stray in work.strays.iter().take(limit) {
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
    if work.strays.len() > limit {
        let all = work.strays.len();
        let text = format!("… {} more: --limit {all}", all - limit);
        context.out.line(paint(DIM, &text))?;
    }
    context.out.blank()?;
    Ok(())
}

fn sum(work: &Work, context: &mut Context) -> Result<()> {
    let wanted = |plan: &&RepairPlan| !plan.edits.is_empty();
    let planned = work.plans.iter().filter(wanted).count() as u64;
    let files = match work.applied {
        true => work.done.iter().flatten().count() as u64,
        false => planned,
    };
    let failed = |stale: &StaleSessionList| work.failed.iter().any(|(path, _)| *path == stale.path);
    let stale = work.indexes.len() as u64;
    let indexes = work.indexes.iter().filter(|stale| !failed(stale)).count() as u64;
    let count = match (files, indexes) {
        (0, indexes) => plural(indexes, "index"),
        (files, 0) => plural(files, "log"),
        (files, indexes) => format!("{}, {}", plural(files, "log"), plural(indexes, "index")),
    };
    match (planned + stale, work.applied) {
        (0, _) if context.incomplete() => context
            .out
            .line("Nothing was repaired: not everything could be read.")?,
        (0, _) => context.out.line("Nothing to repair.")?,
        (_, true) if files + indexes == 0 => {}
        (_, true) => {
            let text = format!("{} {count}", paint(SUCCESS, "mended"));
            context.out.line(text)?;
            if files > 0 || work.made.iter().any(Option::is_some) {
                context.out.line(
                    "`annals repair --undo ID` puts an original back, `--forget ID` gives it up",
                )?;
            }
        }
        (_, false) => context.out.line(paint(
            DIM,
            &format!("{count} to mend. Nothing was changed; --apply does it."),
        ))?,
    }
    Ok(())
}
