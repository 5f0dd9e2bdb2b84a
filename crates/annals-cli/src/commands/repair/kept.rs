//! The originals of mended files: listed, put back, given up.

use std::path::PathBuf;

use annals::repair::Kept;
use anyhow::Result;
use serde::Serialize;

use crate::commands::Outcome;
use crate::context::Context;
use crate::render::size::{self, plural};
use crate::render::style::{DIM, ID, PATH, SUCCESS, paint};
use crate::render::table::{Cell, Column, Table};

#[derive(Serialize)]
struct Document<'a> {
    repairs: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    kept: &'a Kept,
    /// The file that was mended.
    file: PathBuf,
    /// Where its original is.
    original_file: PathBuf,
}

pub(super) fn list(context: &mut Context) -> Result<Outcome> {
    let (found, troubles) = context.store.repairs()?;
    for trouble in &troubles {
        context.warn(trouble);
    }
    if context.json {
        tell_json(&found, context)?;
    } else if found.is_empty() {
        context.out.line("No originals are kept.")?;
    } else {
        print(&found, context)?;
        let place = context.store.quarantine()?.display().to_string();
        context.out.blank()?;
        context
            .out
            .line(format_args!("They lie in {}", paint(PATH, &place)))?;
    }
    Ok(match found.is_empty() {
        true => Outcome::Nothing,
        false => Outcome::Fine,
    })
}

pub(super) fn undo(id: &str, live: bool, context: &mut Context) -> Result<Outcome> {
    let mut found = context.store.find_repairs(id)?;
    let all = found.len();
    // The newest first: each original is what the repair before it made.
    let mut failed = None;
    for (at, kept) in found.iter().enumerate() {
        if let Err(error) = context.store.undo_repair(kept, live) {
            failed = Some((at, error));
            break;
        }
    }
    if let Some((done, _)) = &failed {
        found.truncate(*done);
    }
    let inventory = context.inventory();
    for stale in context.store.stale_registers(&inventory) {
        let stale = stale?;
        if found.iter().any(|kept| kept.root == stale.root.path) {
            context.store.heal_register(&stale)?;
        }
    }
    if context.json {
        if failed.is_none() || !found.is_empty() {
            tell_json(&found, context)?;
        }
    } else if !found.is_empty() {
        tell_undone(&found, context)?;
    }
    match failed {
        None => Ok(Outcome::Fine),
        Some((_, error)) if all == 1 => Err(error.into()),
        Some((done, error)) => {
            let told = format!("{done} of {all} originals were put back");
            Err(anyhow::Error::new(error).context(told))
        }
    }
}

fn tell_undone(found: &[Kept], context: &mut Context) -> Result<()> {
    for kept in found {
        let file = kept.file().display().to_string();
        context.out.line(paint(PATH, &file))?;
    }
    let text = format!(
        "{} put back: {}",
        paint(SUCCESS, "✓"),
        plural(found.len() as u64, "original")
    );
    context.out.line(text)?;
    Ok(())
}

pub(super) fn forget(id: &str, context: &mut Context) -> Result<Outcome> {
    let found = context.store.find_repairs(id)?;
    give_up(&found, context)
}

pub(super) fn forget_all(context: &mut Context) -> Result<Outcome> {
    let (found, troubles) = context.store.repairs()?;
    for trouble in &troubles {
        context.warn(trouble);
    }
    give_up(&found, context)
}

fn give_up(found: &[Kept], context: &mut Context) -> Result<Outcome> {
    for kept in found {
        context.store.forget_repair(kept)?;
    }
    context.store.sweep_quarantine()?;
    if context.json {
        return tell_json(found, context).map(|()| Outcome::Fine);
    }
    let bytes = found.iter().map(|kept| kept.original.bytes).sum();
    let text = format!(
        "{} gone for good: {}, {}",
        paint(SUCCESS, "✓"),
        plural(found.len() as u64, "original"),
        size::bytes(bytes)
    );
    context.out.line(text)?;
    Ok(Outcome::Fine)
}

fn tell_json(found: &[Kept], context: &mut Context) -> Result<()> {
    let quarantine = context.store.quarantine()?;
    let rows = found.iter().map(|kept| Row {
        kept,
        file: kept.file(),
        original_file: kept.original_in(&quarantine),
    });
    context.out.json(&Document {
        repairs: rows.collect(),
    })?;
    Ok(())
}

fn print(found: &[Kept], context: &mut Context) -> Result<()> {
    let mut table = Table::new([
        Column::new("REPAIR").min(12).middle().style(ID),
        Column::new("REPAIRED").style(DIM),
        Column::new("STEPS").right(),
        Column::new("SIZE").right(),
        Column::new("FILE").min(20).middle().style(PATH),
    ]);
    for kept in found {
        table.row([
            Cell::new(&kept.id),
            Cell::new(context.clock.ago(kept.repaired)),
            Cell::new(size::count(kept.steps.len() as u64)),
            Cell::new(size::bytes(kept.original.bytes)),
            Cell::new(kept.file().display().to_string()),
        ]);
    }
    context.out.text(table.render(context.out.width()))?;
    Ok(())
}
