//! `annals man`, which packages run when they are made.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;

use super::Outcome;

/// Writes a manual page for each command.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// An existing directory
    dir: PathBuf,
}

/// Writes the pages of the command line that `build` returns.
pub(crate) fn run(args: &ManArgs, build: fn() -> clap::Command) -> Result<Outcome> {
    clap_mangen::generate_to(build(), &args.dir)
        .with_context(|| format!("cannot write manual pages to {}", args.dir.display()))?;
    Ok(Outcome::Ok)
}
