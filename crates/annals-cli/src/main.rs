//! The program `annals`: find, read, write and keep the conversations of coding agents.
//!
//! Arguments are parsed first, then a [`Context`] is built from them and the environment, then one
//! command runs. Commands stand in `commands/`, one file per verb; everything that goes to a
//! terminal passes through `render/`.

mod cli;
mod commands;
mod config;
mod context;
mod error_report;
mod render;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::Cli;
use crate::context::Context;

fn main() -> ExitCode {
    ignore_sigxfsz();
    let cli = Cli::try_parse().unwrap_or_else(|error| error_report::exit_with_usage_error(&error));
    let color = cli.global.color;
    let outcome = Context::new(&cli.global).and_then(|mut context| {
        let found = commands::run(cli.command, &mut context);
        // What was printed before a failure must come out before its message.
        let finished = context.finish();
        Ok((found?, finished?))
    });
    match outcome {
        Ok((commands::Outcome::Written, _)) => ExitCode::SUCCESS,
        // Like a search that could not open a file: what was found was printed, and it is not all.
        Ok((_, true)) => ExitCode::from(2),
        Ok((commands::Outcome::Ok, false)) => ExitCode::SUCCESS,
        Ok((commands::Outcome::NotFound, false)) => ExitCode::from(1),
        Err(error) if render::out::is_closed_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            error_report::print_error(&error, color);
            ExitCode::from(2)
        }
    }
}

/// Who limits the size of files (`ulimit -f`) should hear which write failed, as with a full disk; by default the
/// system ends the process in the middle of it. A handler that does nothing makes the write fail instead.
fn ignore_sigxfsz() {
    #[cfg(unix)]
    {
        let seen = std::sync::Arc::default();
        // If that fails, the system does what it did before.
        _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen);
    }
}
