//! `annals man`, which packages run when they are made.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;

use super::Outcome;
use crate::cli;
use crate::context::Context;

/// Writes a manual page for each command.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// An existing directory
    dir: PathBuf,
}

pub(crate) fn run(args: &ManArgs, _context: &mut Context) -> Result<Outcome> {
    clap_mangen::generate_to(cli::command(), &args.dir)
        .with_context(|| format!("cannot write manual pages to {}", args.dir.display()))?;
    Ok(Outcome::Ok)
}
