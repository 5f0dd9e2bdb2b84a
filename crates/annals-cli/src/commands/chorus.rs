//! `annals chorus`

use anyhow::Result;
use clap::{Args, Subcommand};

use super::{Outcome, agents, settings, workspaces};
use crate::context::Context;

/// Shows and changes the configuration of Chorus.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  annals chorus workspaces
  annals chorus agents add w-app 'Code Reviewer'
  annals chorus settings theme light")]
pub(crate) struct ChorusArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List and change the workspaces
    Workspaces(workspaces::WorkspacesArgs),
    /// List and change the agents
    Agents(agents::AgentsArgs),
    /// Show and change the settings
    Settings(settings::SettingsArgs),
}

pub(crate) fn run(args: &ChorusArgs, context: &mut Context) -> Result<Outcome> {
    match &args.verb {
        Verb::Workspaces(args) => workspaces::run(args, context),
        Verb::Agents(args) => agents::run(args, context),
        Verb::Settings(args) => settings::run(args, context),
    }
}
