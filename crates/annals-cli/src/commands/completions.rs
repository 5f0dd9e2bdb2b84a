//! `annals completions`

use anyhow::Result;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Outcome;
use crate::cli::Cli;
use crate::context::Context;

/// Prints a completion script.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  annals completions bash > ~/.local/share/bash-completion/completions/annals
  annals completions zsh > ~/.zfunc/_annals
  annals completions fish > ~/.config/fish/completions/annals.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, context: &mut Context) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "annals", &mut script);
    context.out.raw(&script)?;
    Ok(Outcome::Ok)
}
