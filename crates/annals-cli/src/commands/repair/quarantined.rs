//! The originals of mended files: listed, put back, given up.

use std::path::{Path, PathBuf};

use annals::repair::QuarantinedFile;
use anyhow::Result;
use serde::Serialize;

use crate::commands::Outcome;
use crate::context::Context;
use crate::render::size::{self, pluralize};
use crate::render::style::{BOLD, DIM, ID, PATH, SUCCESS, paint};
use crate::render::table::{Cell, Column, Table};

#[derive(Serialize)]
struct QuarantineJson<'a> {
    /// Whether originals are gone for good; absent where that was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<bool>,
    repairs: Vec<QuarantinedJson<'a>>,
}

#[derive(Serialize)]
struct QuarantinedJson<'a> {
    #[serde(flatten)]
    kept: &'a QuarantinedFile,
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
        print_json(None, &found, context)?;
    } else if found.is_empty() {
        context.out.line("No originals are kept.")?;
    } else {
        print_table(&found, context)?;
        let place = context.store.quarantine()?.display().to_string();
        context.out.blank()?;
        context
            .out
            .line(format_args!("They lie in {}", paint(PATH, &place)))?;
    }
    Ok(match found.is_empty() {
        true => Outcome::NotFound,
        false => Outcome::Ok,
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
    found.extend(undo_session_lists(&found, live, context)?);
    let inventory = context.inventory_without_archive();
    for stale in context.store.stale_session_lists(&inventory) {
        // What one index says, or that it cannot be read, is no reason to leave the others behind.
        let stale = match stale {
            Ok(stale) => stale,
            Err(error) => {
                context.warn(&error);
                continue;
            }
        };
        // One that was put back is as it was, whatever that is; nor is one made anew without a plan.
        let back = found.iter().any(|kept| kept.file_path() == stale.path);
        if back || stale.is_damaged() || !found.iter().any(|log| lists_folder_of(&stale.path, log))
        {
            continue;
        }
        let healed = match stale.refuse_held() {
            Err(error) if !live => Err(error),
            _ => context.store.rebuild_session_list(&stale),
        };
        if let Err(error) = healed {
            context.warn(&error);
        }
    }
    if context.json {
        if failed.is_none() || !found.is_empty() {
            print_json(None, &found, context)?;
        }
    } else if !found.is_empty() {
        print_undone(&found, context)?;
    }
    match failed {
        None => Ok(Outcome::Ok),
        Some((_, error)) if all == 1 => Err(error.into()),
        Some((done, error)) => {
            let told = format!("{done} of {all} originals were put back");
            Err(anyhow::Error::new(error).context(told))
        }
    }
}

/// Whether an index is of the folder in which a log lies.
fn lists_folder_of(index: &Path, log: &QuarantinedFile) -> bool {
    !log.is_index() && log.file_path().parent() == index.parent()
}

/// Puts back the indexes that were made anew in the same run as logs of theirs that are as they were
/// again. One that says something else by now stays, and follows its logs.
fn undo_session_lists(
    undone: &[QuarantinedFile],
    live: bool,
    context: &Context,
) -> Result<Vec<QuarantinedFile>> {
    let (all, _) = context.store.repairs()?;
    let same_run = |index: &QuarantinedFile| {
        let path = index.file_path();
        let same =
            |log: &QuarantinedFile| log.repaired == index.repaired && lists_folder_of(&path, log);
        undone.iter().any(same)
    };
    let mut back = Vec::new();
    for index in all.into_iter().filter(|kept| kept.is_index()) {
        if same_run(&index) && context.store.undo_repair(&index, live).is_ok() {
            back.push(index);
        }
    }
    Ok(back)
}

fn print_undone(found: &[QuarantinedFile], context: &mut Context) -> Result<()> {
    for kept in found {
        let file = kept.file_path().display().to_string();
        context.out.line(paint(PATH, &file))?;
    }
    let text = format!(
        "{} put back: {}",
        paint(SUCCESS, "✓"),
        pluralize(found.len() as u64, "original")
    );
    context.out.line(text)?;
    Ok(())
}

pub(super) fn forget(id: &str, apply: bool, context: &mut Context) -> Result<Outcome> {
    let found = context.store.find_repairs(id)?;
    delete_originals(&found, apply, context)
}

pub(super) fn forget_all(apply: bool, context: &mut Context) -> Result<Outcome> {
    let (found, troubles) = context.store.repairs()?;
    for trouble in &troubles {
        context.warn(trouble);
    }
    delete_originals(&found, apply, context)
}

fn delete_originals(
    found: &[QuarantinedFile],
    apply: bool,
    context: &mut Context,
) -> Result<Outcome> {
    if apply {
        for kept in found {
            context.store.delete_repair(kept)?;
        }
        context.store.sweep_quarantine()?;
    }
    if context.json {
        return print_json(Some(apply), found, context).map(|()| Outcome::Ok);
    }
    if !apply && !found.is_empty() {
        print_table(found, context)?;
        context.out.blank()?;
    }
    let bytes = found.iter().map(|kept| kept.original.bytes).sum();
    let sum = format!(
        "{}, {}",
        pluralize(found.len() as u64, "original"),
        size::bytes(bytes)
    );
    if apply {
        let mark = paint(SUCCESS, "✓");
        context
            .out
            .line(format_args!("{mark} gone for good: {sum}"))?;
    } else {
        let told = paint(BOLD, "Would be gone for good:");
        context.out.line(format_args!("{told} {sum}"))?;
        context
            .out
            .line("Nothing was changed; add --apply to do it.")?;
    }
    Ok(Outcome::Ok)
}

fn print_json(
    applied: Option<bool>,
    found: &[QuarantinedFile],
    context: &mut Context,
) -> Result<()> {
    let quarantine = context.store.quarantine()?;
    let rows = found.iter().map(|kept| QuarantinedJson {
        kept,
        file: kept.file_path(),
        original_file: kept.original_path(&quarantine),
    });
    context.out.json(&QuarantineJson {
        applied,
        repairs: rows.collect(),
    })?;
    Ok(())
}

fn print_table(found: &[QuarantinedFile], context: &mut Context) -> Result<()> {
    let mut table = Table::new([
        Column::new("REPAIR").min(12).cut_middle().style(ID),
        Column::new("REPAIRED").style(DIM),
        Column::new("STEPS").right(),
        Column::new("SIZE").right(),
        Column::new("FILE").min(20).cut_middle().style(PATH),
    ]);
    for kept in found {
        table.row([
            Cell::new(&kept.id),
            Cell::new(context.clock.ago(kept.repaired)),
            Cell::new(size::count(kept.steps.len() as u64)),
            Cell::new(size::bytes(kept.original.bytes)),
            Cell::new(kept.file_path().display().to_string()),
        ]);
    }
    context.out.text(table.render(context.out.width()))?;
    Ok(())
}
