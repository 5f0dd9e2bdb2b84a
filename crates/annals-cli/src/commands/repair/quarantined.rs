//! Originals of repaired files: list, restore, delete.

use std::path::{Path, PathBuf};

use annals::repair::QuarantinedFile;
use anyhow::Result;
use serde::Serialize;

use crate::commands::Outcome;
use crate::context::{Context, is_latest};
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, DIM, ID, PATH, SUCCESS, paint};
use annals_render::table::{Cell, Column, Table};

#[derive(Serialize)]
struct QuarantineJson<'a> {
    /// True if originals were deleted; absent if that was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<bool>,
    repairs: Vec<QuarantinedJson<'a>>,
}

#[derive(Serialize)]
struct QuarantinedJson<'a> {
    #[serde(flatten)]
    kept: &'a QuarantinedFile,
    /// The repaired file.
    file: PathBuf,
    /// Path of the original.
    original_file: PathBuf,
}

pub(super) fn list(context: &mut Context) -> Result<Outcome> {
    let (found, troubles) = context.store.repairs().list()?;
    for trouble in &troubles {
        context.warn(trouble);
    }
    if context.json {
        print_json(None, &found, context)?;
    } else if found.is_empty() {
        context.out.line("No originals are kept.")?;
    } else {
        print_table(&found, context)?;
        let place = context.store.repairs().quarantine()?.display().to_string();
        context.out.blank()?;
        context
            .out
            .line(format_args!("Originals are in {}", paint(PATH, &place)))?;
    }
    Ok(match found.is_empty() {
        true => Outcome::NotFound,
        false => Outcome::Ok,
    })
}

pub(super) fn undo(id: &str, live: bool, context: &mut Context) -> Result<Outcome> {
    let mut found = find_repairs(id, context)?;
    let all = found.len();
    // Newest first: each original is the result of the repair before it.
    let mut failed = None;
    for (at, kept) in found.iter().enumerate() {
        if let Err(error) = context.store.repairs().undo(kept) {
            failed = Some((at, error));
            break;
        }
    }
    if let Some((done, _)) = &failed {
        found.truncate(*done);
    }
    found.extend(undo_session_lists(&found, context)?);
    let inventory = context.inventory_without_archive();
    for stale in context.store.repairs().stale_session_lists(&inventory) {
        // A session list that cannot be read does not stop the others.
        let stale = match stale {
            Ok(stale) => stale,
            Err(error) => {
                context.warn(&error);
                continue;
            }
        };
        // A restored list stays as it was, and a damaged one is not rebuilt without a plan.
        let back = found.iter().any(|kept| kept.file_path() == stale.path);
        if back || stale.is_damaged() || !found.iter().any(|log| lists_folder_of(&stale.path, log))
        {
            continue;
        }
        let healed = match stale.refuse_held() {
            Err(error) if !live => Err(error),
            _ => context.store.repairs().rebuild_session_list(&stale),
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
            let summary = format!("{done} of {all} originals were restored");
            Err(anyhow::Error::new(error).context(summary))
        }
    }
}

/// Finds repairs by id, session or path; `latest` is the newest repair.
fn find_repairs(id: &str, context: &mut Context) -> Result<Vec<QuarantinedFile>> {
    let missing = match context.store.repairs().find(id) {
        Err(error @ annals::Error::NotFound { .. }) => error,
        found => return Ok(found?),
    };
    if is_latest(id) {
        let newest = context.store.repairs().list()?.0.into_iter().next();
        return newest.map(|newest| vec![newest]).ok_or(missing.into());
    }
    // The id may be another name of the session: a path of another log, or a part of the title.
    match context.find_session(id) {
        Ok(session) => Ok(context.store.repairs().find(session.id.as_str())?),
        Err(_) => Err(missing.into()),
    }
}

/// Returns true if a session list is in the folder of a log.
fn lists_folder_of(index: &Path, log: &QuarantinedFile) -> bool {
    !log.is_index() && log.file_path().parent() == index.parent()
}

/// Restores the session lists that were rebuilt in the same run as the restored logs. A list that
/// changed since stays, and is updated from its logs.
fn undo_session_lists(
    undone: &[QuarantinedFile],
    context: &Context,
) -> Result<Vec<QuarantinedFile>> {
    let (all, _) = context.store.repairs().list()?;
    let same_run = |index: &QuarantinedFile| {
        let path = index.file_path();
        let same =
            |log: &QuarantinedFile| log.repaired == index.repaired && lists_folder_of(&path, log);
        undone.iter().any(same)
    };
    let mut back = Vec::new();
    for index in all.into_iter().filter(|kept| kept.is_index()) {
        if same_run(&index) && context.store.repairs().undo(&index).is_ok() {
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
        "{} restored: {}",
        paint(SUCCESS, "✓"),
        pluralize(found.len() as u64, "original")
    );
    context.out.line(text)?;
    Ok(())
}

pub(super) fn forget(id: &str, apply: bool, context: &mut Context) -> Result<Outcome> {
    let found = find_repairs(id, context)?;
    delete_originals(&found, apply, context)
}

pub(super) fn forget_all(apply: bool, context: &mut Context) -> Result<Outcome> {
    let (found, troubles) = context.store.repairs().list()?;
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
            context.store.repairs().delete(kept)?;
        }
        context.store.repairs().sweep()?;
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
            .line(format_args!("{mark} deleted permanently: {sum}"))?;
    } else {
        let heading = paint(BOLD, "Would be deleted permanently:");
        context.out.line(format_args!("{heading} {sum}"))?;
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
    let quarantine = context.store.repairs().quarantine()?;
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
