//! The program `annals`: find, read, write and keep the conversations of coding agents.
//!
//! Arguments are parsed first, then a [`Context`] is built from them and the environment, then one
//! command runs. Commands are in `commands/`, one file per verb; all terminal output passes through
//! `terminal/`, and how it looks is in `annals_render`.

mod cli;
mod command_errors;
mod command_position;
mod commands;
mod config;
mod context;
mod error_report;
mod global_options;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches as _;

use crate::cli::Cli;
use crate::context::Context;

fn main() -> ExitCode {
    ignore_sigxfsz();
    annals_render::style::limit_colors(|name| std::env::var_os(name));
    let cli = cli::command()
        .try_get_matches_from(arguments(std::env::args_os().collect()))
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let Cli { global, command } =
        cli.unwrap_or_else(|error| error_report::exit_with_usage_error(error));
    let mut has_written = false;
    let outcome = Context::new(&global).and_then(|mut context| {
        let found = commands::run(command, cli::command, &mut context);
        has_written = context.out.has_written();
        // Output printed before a failure must appear before the error message.
        let finished = context.finish();
        Ok((found?, finished?))
    });
    match outcome {
        Ok((commands::Outcome::Written, _)) => ExitCode::SUCCESS,
        // The output is incomplete because something could not be read.
        Ok((_, true)) => ExitCode::from(2),
        Ok((commands::Outcome::Ok, false)) => ExitCode::SUCCESS,
        Ok((commands::Outcome::NotFound, false)) => ExitCode::from(1),
        Err(error) if error.is::<commands::Cancelled>() => ExitCode::from(130),
        Err(error) if terminal::out::is_closed_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            error_report::print_error(error, &global, has_written);
            ExitCode::from(2)
        }
    }
}

/// Returns the arguments with `help --help` as `help help`: clap takes no options after `help`.
fn arguments(mut words: Vec<OsString>) -> Vec<OsString> {
    if let [_, help, option] = words.as_mut_slice()
        && help == "help"
        && (option == "--help" || option == "-h")
    {
        *option = "help".into();
    }
    words
}

/// Ignores SIGXFSZ, so that a write over `ulimit -f` returns EFBIG and the error is reported. By
/// default the signal kills the process in the middle of the write. A handler that does nothing is
/// enough.
fn ignore_sigxfsz() {
    #[cfg(unix)]
    {
        let seen = std::sync::Arc::default();
        // If this fails, the default applies.
        _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen);
    }
}
