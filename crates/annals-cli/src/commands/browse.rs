//! `annals browse`

use std::ffi::OsString;

use annals::service::Service;
use annals::store::Store;
use annals_tui::{Exit, Mode, Options};
use anyhow::{Context as _, Result, bail};
use clap::Args;

use super::Outcome;
use super::pricing::Pricer;
use super::resume;
use crate::context::{Context, environment};
use crate::terminal::color::ColorChoice;

/// Opens the terminal browser.
#[derive(Debug, Args)]
#[command(after_help = "\
A list of all sessions, searched while you type, with a preview. Enter reads a session: every \
branch, sub-agent, tool call and thought, with what each message cost. `?` lists the keys. See \
docs/BROWSE.md.

Examples:
  annals browse                          all sessions, newest first
  annals browse reset by peer            begin with a query
  annals browse --here                   only the sessions of this directory
  claude --resume $(annals browse --pick)")]
pub(crate) struct BrowseArgs {
    /// Words and conditions to begin with, as `annals search` takes them
    #[arg(value_name = "QUERY")]
    query: Vec<String>,
    /// Print the id of the session that is chosen with Enter
    #[arg(long)]
    pick: bool,
    /// Begin with the sessions of the current directory
    #[arg(long)]
    here: bool,
    /// Offer nothing that writes
    #[arg(long)]
    read_only: bool,
}

pub(crate) fn run(args: &BrowseArgs, context: &mut Context) -> Result<Outcome> {
    if context.json {
        bail!(
            "`annals browse` has no JSON output; `annals sessions --json` and `annals search --json` have"
        );
    }
    if let Some(why) = annals_tui::refusal(!args.pick) {
        bail!("{why}; `annals sessions`, `annals search` and `annals show` work in pipes");
    }
    let pricer = Pricer::new(context)?;
    let has_colors = match args.pick {
        // Frames are written to the terminal, not to standard output.
        true => ColorChoice::Auto.resolve(true, |name| std::env::var_os(name)),
        false => context.out.has_colors(),
    };
    let options = Options {
        mode: Mode {
            pick: args.pick,
            read_only: args.read_only,
        },
        query: args.query.join(" "),
        here: args.here,
        has_colors,
        env: environment(),
        resume: pricer.config.resume.clone(),
        program: program(context)?,
        is_time_fixed: context.is_time_fixed,
        panic_key: panic_key(),
    };
    let store = std::mem::replace(&mut context.store, Store::new(Vec::new()));
    let mut service = Service::new(store)
        .with_zone(context.clock.zone.clone())
        .with_prices(pricer.prices, pricer.mode)
        .with_shell_dir(options.env.vars.get("PWD").cloned());
    if !context.no_index {
        service = service.with_index(context.state_dir());
    }
    if context.is_time_fixed {
        service = service.with_now(context.clock.now);
    }
    match annals_tui::run(service, options)? {
        Exit::Quit if args.pick => Ok(Outcome::NotFound),
        Exit::Quit => Ok(Outcome::Ok),
        Exit::Picked(id) => {
            context.out.line(id)?;
            Ok(Outcome::Ok)
        }
        Exit::Resume(command) => resume::start(&command),
    }
}

/// Returns this program, with the options that make it read the same roots.
fn program(context: &Context) -> Result<Vec<OsString>> {
    let exe = std::env::current_exe().context("cannot find this program")?;
    let mut words = vec![exe.into_os_string()];
    for root in context.store.roots().iter().filter(|_| context.named_roots) {
        words.push("--root".into());
        let mut name = OsString::from(format!("{}:", root.layout.name()));
        name.push(&root.path);
        words.push(name);
    }
    if context.no_index {
        words.push("--no-index".into());
    }
    Ok(words)
}

/// Returns the key that causes a panic, in tests of what a panic leaves behind.
fn panic_key() -> Option<char> {
    let key = std::env::var("ANNALS_TEST_PANIC_KEY").ok()?;
    key.chars().next().filter(|_| cfg!(debug_assertions))
}
