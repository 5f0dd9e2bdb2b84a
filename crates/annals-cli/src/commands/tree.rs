//! `annals tree`

use anyhow::Result;
use clap::Args;

use super::Outcome;
use crate::context::Context;

/// Tree.
#[derive(Debug, Args)]
pub(crate) struct TreeArgs {
    /// The session
    session: String,
}

pub(crate) fn run(_: &TreeArgs, _: &mut Context) -> Result<Outcome> {
    Ok(Outcome::Fine)
}
