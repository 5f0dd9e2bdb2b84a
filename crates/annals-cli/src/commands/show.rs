//! `annals show`

use anyhow::Result;
use clap::Args;

use super::Outcome;
use crate::context::Context;

/// Show.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The session
    session: String,
}

pub(crate) fn run(_: &ShowArgs, _: &mut Context) -> Result<Outcome> {
    Ok(Outcome::Fine)
}
