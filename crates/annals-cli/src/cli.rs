//! The arguments.

use std::path::PathBuf;

use clap::{Args, Parser};

use crate::commands::Command;
use crate::render::style::ColorChoice;

const EXAMPLES: &str = "\
Examples:
  annals                          what is on this machine
  annals sessions --since 7d      what was worked on this week
  annals show 8c549c46            read a session; a unique beginning of its id is enough
  annals show 8c549c46 --last 20  only the end of it
  annals tree 8c549c46            where it branched, which sub-agents it had
  annals watch                    what agents are doing right now
  annals cost --by month          what it cost
  annals check                    is it all still there
  annals demo                     a sample history to try things on";

/// Find, read, write and keep the conversations of coding agents.
#[derive(Debug, Parser)]
#[command(name = "annals", version, after_help = EXAMPLES, disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What every command understands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Look here instead of the default places; may be given several times
    #[arg(long, global = true, value_name = "[LAYOUT:]PATH")]
    pub(crate) root: Vec<String>,
    /// Prices of your own, over the built-in ones
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Print one JSON document for scripts
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
    /// Do not page long output
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,
    /// Read everything anew instead of using what was read before; the answers are the same
    #[arg(long, global = true)]
    pub(crate) no_index: bool,
    /// Say more about what could not be read
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
}
