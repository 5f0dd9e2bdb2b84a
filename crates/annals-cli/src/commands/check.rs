//! `annals check`

use anyhow::Result;
use clap::Args;

use super::Outcome;
use crate::context::Context;

/// Check.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The session
    session: String,
}

pub(crate) fn run(_: &CheckArgs, _: &mut Context) -> Result<Outcome> {
    Ok(Outcome::Fine)
}
