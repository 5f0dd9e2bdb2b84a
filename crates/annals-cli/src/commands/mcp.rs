//! `annals mcp`

use std::path::PathBuf;

use annals::service::Service;
use annals::store::Store;
use annals_mcp::{Options, Server, install_names, install_text, serve_stdio};
use anyhow::{Result, bail};
use clap::Args;

use super::Outcome;
use super::pricing::Pricer;
use crate::context::Context;

/// Serves the history to agents.
#[derive(Debug, Args)]
#[command(after_help = "\
A server of the Model Context Protocol on standard input and output, which an agent starts. Its \
tools search and read past sessions; no tool changes a conversation. Secrets are masked, and the \
caller's own session is left out of searches. See docs/MCP.md.

Examples:
  annals mcp --install claude-code   what adds the server to Claude Code
  annals mcp --install skill         a skill that tells an agent when to use it
  annals mcp --write                 tools for notes, tags and todos, too")]
pub(crate) struct McpArgs {
    /// Directory that the tools call `here` [default: the current directory]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Offer tools that add notes, tags and todos
    #[arg(long)]
    write: bool,
    /// Do not mask secrets
    #[arg(long)]
    no_mask: bool,
    /// Print what adds the server to an agent; nothing is run
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["project", "write", "no_mask"])]
    install: Option<String>,
}

pub(crate) fn run(args: &McpArgs, context: &mut Context) -> Result<Outcome> {
    if let Some(agent) = &args.install {
        let Some(text) = install_text(agent) else {
            let known: Vec<&str> = install_names().collect();
            bail!("unknown agent `{agent}`; known are {}", known.join(", "));
        };
        context.out.text(text)?;
        return Ok(Outcome::Ok);
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let here = args.project.clone();
    let here = here.or_else(|| variable("CLAUDE_PROJECT_DIR").map(PathBuf::from));
    let here = here.map_or_else(std::env::current_dir, Ok)?;
    let here = here.canonicalize().unwrap_or(here);
    let options = Options {
        here: here.display().to_string(),
        session: variable("CLAUDE_CODE_SESSION_ID"),
        write: args.write,
        mask: !args.no_mask,
    };
    let pricer = Pricer::new(context)?;
    let store = std::mem::replace(&mut context.store, Store::new(Vec::new()));
    let mut service = Service::new(store)
        .with_zone(context.clock.zone.clone())
        .with_prices(pricer.prices, pricer.mode)
        .with_shell_dir(variable("PWD"));
    if !context.no_index {
        service = service.with_index(context.state_dir());
    }
    if context.is_time_fixed {
        service = service.with_now(context.clock.now);
    }
    serve_stdio(Server::new(service, options)?)?;
    Ok(Outcome::Ok)
}
