//! `annals repair`

use std::path::PathBuf;

use annals::store::StaleRegister;
use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Outcome;
use crate::context::Context;
use crate::render::size::plural;
use crate::render::style::{DIM, PATH, SUCCESS, paint};

/// Makes indexes say what the logs say.
#[derive(Debug, Args)]
#[command(after_help = "\
An index is derived from logs: one that is missing, damaged or behind is made anew from them. What
only the index knew is kept wherever it can be read, and a damaged one is set aside, never lost.

Examples:
  annals repair                what would be mended
  annals repair --apply")]
pub(crate) struct RepairArgs {
    /// Do it
    #[arg(long)]
    apply: bool,
}

#[derive(Serialize)]
struct Document {
    applied: bool,
    indexes: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    path: PathBuf,
    detail: &'static str,
}

pub(crate) fn run(args: &RepairArgs, context: &mut Context) -> Result<Outcome> {
    let inventory = context.inventory_in_place();
    let mut stale: Vec<StaleRegister> = Vec::new();
    for found in context.store.stale_registers(&inventory) {
        match found {
            Ok(found) => stale.push(found),
            Err(error) => context.warn(&error),
        }
    }
    if args.apply {
        for register in &stale {
            context.store.heal_register(register)?;
        }
    }
    if context.json {
        let rows = stale.iter().map(|stale| Row {
            path: stale.path.clone(),
            detail: stale.detail,
        });
        context.out.json(&Document {
            applied: args.apply,
            indexes: rows.collect(),
        })?;
        return Ok(Outcome::Fine);
    }
    for stale in &stale {
        let path = stale.path.display().to_string();
        context
            .out
            .line(format_args!("{}: {}", paint(PATH, &path), stale.detail))?;
    }
    let count = plural(stale.len() as u64, "index");
    match (stale.is_empty(), args.apply) {
        (true, _) if context.incomplete() => context
            .out
            .line("Nothing was repaired: not everything could be read.")?,
        (true, _) => context.out.line("Nothing to repair.")?,
        (false, true) => context
            .out
            .line(format_args!("{} {count}", paint(SUCCESS, "mended")))?,
        (false, false) => context.out.line(paint(
            DIM,
            &format!("{count} to mend. Nothing was changed; --apply does it."),
        ))?,
    }
    Ok(Outcome::Fine)
}
