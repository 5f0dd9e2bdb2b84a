//! Options of every command.

use std::path::PathBuf;

use clap::Args;

use crate::terminal::color::ColorChoice;

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalOptions {
    /// Read this root instead of the default ones; can be repeated
    #[arg(long, global = true, value_name = "[LAYOUT:]PATH")]
    pub(crate) root: Vec<String>,
    /// Only sessions of this agent program, such as codex; can be repeated
    #[arg(
        long,
        short = 'a',
        global = true,
        value_name = "NAME",
        hide_possible_values = true,
        value_parser = clap::builder::PossibleValuesParser::new(
            annals::layout::LAYOUTS.iter().map(|layout| layout.name())
        ),
    )]
    pub(crate) agent_program: Vec<String>,
    /// Price list that overrides the built-in prices
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
    /// Read all logs instead of using the index; results are the same
    #[arg(long, global = true)]
    pub(crate) no_index: bool,
    /// Show all read errors and notes
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
}
