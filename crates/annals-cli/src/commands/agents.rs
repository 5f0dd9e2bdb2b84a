//! `annals chorus agents`

use annals::Subject;
use annals::layout::chorus::{Agent, ConfigEdit};
use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::Outcome;
use super::workspaces::{RemovalArgs, chorus_roots, remove, single_chorus_root, warn_archived};
use crate::context::Context;
use annals_render::size;
use annals_render::style::{DIM, ID, PATH, TITLE, paint};
use annals_render::table::{Cell, Column, Table};

/// Lists and changes the agents of Chorus.
#[derive(Debug, Args)]
#[command(after_help = "\
An agent belongs to a workspace and is described by a file, which annals does not touch. Removing \
an agent moves all its sessions to the trash; without --apply nothing is changed.

Examples:
  annals chorus agents
  annals chorus agents add w-app 'Code Reviewer'
  annals chorus agents rename w-app code-reviewer Critic
  annals chorus agents set w-app code-reviewer filePath .claude/agents/a.md
  annals chorus agents remove w-app code-reviewer --apply")]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add an agent to a workspace
    Add {
        /// The workspace's id or name
        workspace: String,
        /// The agent's name
        name: String,
        /// Id of the agent, also its folder name [default: derived from the name]
        #[arg(long)]
        id: Option<String>,
        /// File that describes the agent [default: .claude/agents/ID.md in the workspace]
        #[arg(long, value_name = "FILE")]
        file: Option<String>,
    },
    /// Rename an agent
    Rename {
        /// The workspace's id or name
        workspace: String,
        /// The agent's id or name
        id: String,
        /// The new name
        name: String,
    },
    /// Set a member of an agent
    Set {
        /// The workspace's id or name
        workspace: String,
        /// The agent's id or name
        id: String,
        /// name or filePath
        key: String,
        /// Its value
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Move all sessions of an agent to the trash and remove the agent
    Remove {
        /// The workspace's id or name
        workspace: String,
        /// The agent's id or name
        id: String,
        #[command(flatten)]
        how: RemovalArgs,
    },
}

impl Action {
    /// Returns the workspace argument.
    fn workspace(&self) -> &str {
        match self {
            Action::Add { workspace, .. }
            | Action::Rename { workspace, .. }
            | Action::Set { workspace, .. }
            | Action::Remove { workspace, .. } => workspace,
        }
    }
}

#[derive(Serialize)]
struct AgentsJson {
    agents: Vec<AgentJson>,
}

#[derive(Serialize)]
struct AgentJson {
    root: std::path::PathBuf,
    workspace: String,
    #[serde(flatten)]
    agent: Agent,
    sessions: usize,
}

pub(crate) fn run(args: &AgentsArgs, context: &mut Context) -> Result<Outcome> {
    let Some(action) = &args.action else {
        let mut archived = false;
        for root in chorus_roots(context)? {
            archived |= warn_archived(&root, context);
        }
        let rows = rows(context)?;
        return list(context, rows, archived);
    };
    let root = single_chorus_root(context)?;
    let before = context.store.chorus().config(&root)?;
    let workspace = &before.workspace_id(action.workspace())?;
    let agent = |wanted: &str| match before.workspace(workspace) {
        Ok(home) => home.agent_id(wanted),
        // An unknown workspace is refused below.
        Err(_) => Ok(wanted.to_owned()),
    };
    let edit = match action {
        Action::Add { name, id, file, .. } => ConfigEdit::AddAgent {
            workspace: workspace.clone(),
            id: id.clone(),
            name: name.clone(),
            file: file.clone(),
        },
        Action::Rename { id, name, .. } => ConfigEdit::RenameAgent {
            workspace: workspace.clone(),
            id: agent(id)?,
            name: name.clone(),
        },
        Action::Set { id, key, value, .. } => ConfigEdit::SetAgent {
            workspace: workspace.clone(),
            id: agent(id)?,
            key: key.clone(),
            value: value.clone(),
        },
        Action::Remove { id, how, .. } => {
            let id = agent(id)?;
            let folder = format!("{workspace}/{id}");
            let home = before.workspace(workspace).map_err(annals::Error::from);
            let agents = home.map(|home| home.agents.iter());
            let known = agents.and_then(|mut agents| {
                let known = agents.any(|agent| agent.id == id);
                known.then_some(()).ok_or_else(|| annals::Error::NotFound {
                    what: Subject::Agent,
                    id: folder.clone(),
                })
            });
            let edit = ConfigEdit::RemoveAgent {
                workspace: workspace.clone(),
                id,
            };
            return remove(context, &root, "agent", &folder, known, &edit, how);
        }
    };
    context.store.chorus().edit(&root, &edit)?;
    let mut changed = rows(context)?;
    // Only rows of this workspace that the edit added or changed.
    let old = before.workspace(workspace)?;
    changed.retain(|row| row.workspace == *workspace && !old.agents.contains(&row.agent));
    if context.json {
        context.out.json(&AgentsJson { agents: changed })?;
    } else {
        for row in &changed {
            context.out.line(format_args!(
                "{}  {}  {}",
                paint(ID, &format!("{} {}", row.workspace, row.agent.id)),
                paint(TITLE, &row.agent.name),
                paint(PATH, row.agent.file.as_deref().unwrap_or_default())
            ))?;
        }
    }
    Ok(Outcome::Ok)
}

fn rows(context: &mut Context) -> Result<Vec<AgentJson>> {
    let inventory = context.inventory();
    let mut rows = Vec::new();
    for root in chorus_roots(context)? {
        for workspace in context.store.chorus().config(&root)?.workspaces {
            for agent in workspace.agents {
                let folder = format!("{}/{}", workspace.id, agent.id);
                rows.push(AgentJson {
                    root: root.path.clone(),
                    workspace: workspace.id.clone(),
                    sessions: context
                        .store
                        .chorus()
                        .sessions_in_folder(&inventory, &root, &folder)
                        .len(),
                    agent,
                });
            }
        }
    }
    Ok(rows)
}

fn list(context: &mut Context, rows: Vec<AgentJson>, archived: bool) -> Result<Outcome> {
    if context.json {
        context.out.json(&AgentsJson { agents: rows })?;
        return Ok(Outcome::Ok);
    }
    if rows.is_empty() {
        // If archived, `warn_archived` printed how to restore it.
        if !archived {
            let advice = "`annals chorus agents add WORKSPACE NAME` adds one";
            context
                .out
                .line(format_args!("There are no agents; {advice}."))?;
        }
        return Ok(Outcome::NotFound);
    }
    let mut table = Table::new([
        Column::new("WORKSPACE").min(8).style(DIM),
        Column::new("AGENT").min(8).style(ID),
        Column::new("NAME").min(8).max(32).style(TITLE),
        Column::new("SESSIONS").right(),
        Column::new("FILE").min(12).cut_middle().style(PATH),
    ]);
    for row in &rows {
        table.row([
            Cell::new(&row.workspace),
            Cell::new(&row.agent.id),
            Cell::new(&row.agent.name),
            Cell::new(size::count(row.sessions as u64)),
            Cell::new(row.agent.file.as_deref().unwrap_or_default()),
        ]);
    }
    context.out.text(table.render(context.out.width()))?;
    Ok(Outcome::Ok)
}
