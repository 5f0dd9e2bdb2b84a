//! `annals new`

use std::path::PathBuf;

use annals::layout::{Chorus, ClaudeCode, Layout as _};
use annals::model::{Draft, Entry};
use annals::store::Root;
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::append::WrittenEntryJson;
use super::{Outcome, input};
use crate::context::Context;
use annals_render::command::quoted_command;
use annals_render::style::{DIM, ID, paint};

/// Creates a session.
#[derive(Debug, Args)]
#[command(after_help = "\
The session is created in the first root, or in the default root of Claude Code if there is none yet. \
`claude --resume ID` continues it once it has a message.

Examples:
  annals new -m 'Why is the build slow?'
  annals new --cwd ~/src/my-app --title 'Release 1.2'
  annals new --agent code-reviewer -m 'What now?'   with an agent of Chorus
  annals new --channel telegram --id thread_abc123  a thread of clog
  id=$(annals new --json | jq -r .session)")]
pub(crate) struct NewArgs {
    /// Its working directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Its title
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,
    /// Its id [default: a fresh UUID]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Agent of the directory's workspace, if the layout has agents
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Channel of its thread, if the layout has channels [default: tui]
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Its first prompt; `-` reads it from standard input
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    message: Option<String>,
}

#[derive(Serialize)]
struct NewSessionJson<'a> {
    session: &'a str,
    file: &'a std::path::Path,
    entries: Vec<WrittenEntryJson<'a>>,
}

pub(crate) fn run(args: &NewArgs, context: &mut Context) -> Result<Outcome> {
    let title = args
        .title
        .as_deref()
        .map(|title| input::non_empty(title, "title"))
        .transpose()?;
    let prompt = args
        .message
        .as_deref()
        .map(|text| input::text(text, "prompt"))
        .transpose()?;
    let root = context.writable_root()?;
    let cwd = input::session_directory(&root, args.cwd.as_deref())?;
    let mut new = input::new_session(&root, args.id.as_deref(), &cwd)?;
    if args.id.is_some() {
        input::check_unused(context, &new.id)?;
    }
    new.git_branch = input::git_branch(&cwd);
    new.folder = args
        .agent
        .as_deref()
        .map(|agent| agent_folder(context, &root, &new.cwd, agent))
        .transpose()?;
    new.title = title.map(str::to_owned);
    if let Some(channel) = &args.channel {
        let channel = input::non_empty(channel, "channel")?.trim();
        new = new.member("channel", serde_json::to_string(channel)?);
    }
    let writer = context.store.create(&root, &new, context.write_options())?;
    if let Some(warning) = input::missing_directory(&root, &cwd) {
        context.print_warning(&warning);
    }
    let written: Vec<Entry> = match prompt {
        Some(prompt) => vec![writer.append(Draft::user(prompt))?],
        None => Vec::new(),
    };
    let id = writer.session();
    if root.layout.name() == ClaudeCode.spec().name && uuid::Uuid::try_parse(id.as_str()).is_err() {
        context.print_note_once("Claude Code resumes only sessions whose id is a UUID");
    }
    input::note_unlisted(context, &root);
    if context.json {
        let entries = written.iter().map(WrittenEntryJson::new).collect();
        context.out.json(&NewSessionJson {
            session: writer.session().as_str(),
            file: &writer.path(),
            entries,
        })?;
    } else {
        context.out.line(paint(ID, writer.session().as_str()))?;
        context
            .out
            .line(paint(DIM, &writer.path().display().to_string()))?;
    }
    Ok(Outcome::Written)
}

/// Returns the folder of an agent in the workspace of a directory.
pub(super) fn agent_folder(
    context: &Context,
    root: &Root,
    directory: &str,
    agent: &str,
) -> Result<String> {
    if root.layout.name() != Chorus.spec().name {
        bail!(
            "{} is a root of {}, which has no agents; --agent is for chorus",
            root.path.display(),
            root.layout.name()
        );
    }
    let config = context.store.chorus().config(root)?;
    let Some(workspace) = config.workspace_at(directory) else {
        bail!(
            "no workspace at {directory}; {} creates one, `annals chorus agents add` adds agents",
            quoted_command("annals chorus workspaces add", directory, "")
        );
    };
    let known: Vec<&str> = workspace
        .agents
        .iter()
        .map(|known| known.id.as_str())
        .collect();
    let agent = workspace.agent_id(agent)?;
    if known.contains(&agent.as_str()) {
        return Ok(format!("{}/{agent}", workspace.id));
    }
    let there = match known.as_slice() {
        [] => "it has none".to_owned(),
        known => format!("there are {}", known.join(", ")),
    };
    bail!(
        "workspace `{}` has no agent `{agent}`; {there}",
        workspace.id
    )
}
