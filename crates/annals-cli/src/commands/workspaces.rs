//! `annals chorus workspaces`

use annals::layout::chorus::{Config, ConfigEdit, Workspace};
use annals::store::{Inventory, Root, SessionFiles, TrashItem};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::{Outcome, input};
use crate::context::Context;
use annals_render::command::styled_command;
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, DIM, ID, PATH, SUCCESS, TITLE, paint};
use annals_render::table::{Cell, Column, Table};

/// Lists and changes the workspaces of Chorus.
#[derive(Debug, Args)]
#[command(after_help = "\
A workspace is a directory that agents work in. Removing one moves all its sessions to the trash \
and removes it from the configuration; the directory itself is not touched. Without --apply nothing \
changes. `annals delete --undo ID` restores a session and its workspace.

Examples:
  annals chorus workspaces
  annals chorus workspaces add ~/src/my-app --name 'My app'
  annals chorus workspaces rename w-app 'The app'
  annals chorus workspaces set w-app gitBranch main
  annals chorus workspaces set w-app isExpanded false
  annals chorus workspaces remove w-app          what would be removed
  annals chorus workspaces remove 'My app' --apply
  annals --root chorus:~/src/my-app/.chorus chorus workspaces")]
pub(crate) struct WorkspacesArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add a directory
    Add {
        /// The directory
        path: std::path::PathBuf,
        /// Name of the workspace [default: the directory's name]
        #[arg(long)]
        name: Option<String>,
        /// Id of the workspace, also its folder name [default: derived from the path]
        #[arg(long)]
        id: Option<String>,
    },
    /// Rename a workspace
    Rename {
        /// The workspace's id or name
        workspace: String,
        /// The new name
        name: String,
    },
    /// Set a member of a workspace
    Set {
        /// The workspace's id or name
        workspace: String,
        /// name, path, isExpanded, gitBranch, isDirty or hasSystemPrompt
        key: String,
        /// Its value; an empty gitBranch is none
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Move all sessions of a workspace to the trash and remove the workspace
    Remove {
        /// The workspace's id or name
        workspace: String,
        #[command(flatten)]
        how: RemovalArgs,
    },
}

/// Options of a removal.
#[derive(Debug, Args)]
pub(crate) struct RemovalArgs {
    /// Do it; without this, only the plan is shown
    #[arg(long)]
    apply: bool,
    /// Also if another program is writing to one of the sessions right now
    #[arg(long)]
    live: bool,
}

#[derive(Serialize)]
struct WorkspacesJson {
    workspaces: Vec<WorkspaceJson>,
}

#[derive(Serialize)]
struct WorkspaceJson {
    root: std::path::PathBuf,
    #[serde(flatten)]
    workspace: Workspace,
    /// True if it is in the configuration.
    configured: bool,
    sessions: usize,
}

#[derive(Serialize)]
struct Changed {
    root: std::path::PathBuf,
    workspace: Workspace,
}

pub(crate) fn run(args: &WorkspacesArgs, context: &mut Context) -> Result<Outcome> {
    let Some(action) = &args.action else {
        return list(context);
    };
    let root = single_chorus_root(context)?;
    let before = context.store.chorus().config(&root)?;
    let (edit, id) = match action {
        Action::Add { path, name, id } => {
            let path = input::resolve_directory(Some(path))?
                .to_string_lossy()
                .into_owned();
            let edit = ConfigEdit::AddWorkspace {
                id: id.clone(),
                name: name.clone(),
                path: path.clone(),
            };
            (edit, Err(path))
        }
        Action::Rename { workspace, name } => {
            let id = before.workspace_id(workspace)?;
            let edit = ConfigEdit::RenameWorkspace {
                id: id.clone(),
                name: name.clone(),
            };
            (edit, Ok(id))
        }
        Action::Set {
            workspace,
            key,
            value,
        } => {
            let id = before.workspace_id(workspace)?;
            let edit = ConfigEdit::SetWorkspace {
                id: id.clone(),
                key: key.clone(),
                value: value.clone(),
            };
            (edit, Ok(id))
        }
        Action::Remove { workspace, how } => {
            let id = before.workspace_id(workspace)?;
            let edit = ConfigEdit::RemoveWorkspace { id: id.clone() };
            let known = before.workspace(&id).map(drop).map_err(annals::Error::from);
            return remove(context, &root, "workspace", &id, known, &edit, how);
        }
    };
    context.store.chorus().edit(&root, &edit)?;
    let config = context.store.chorus().config(&root)?;
    let workspace = match &id {
        Ok(id) => config.workspace(id)?,
        Err(path) => match config.workspace_at(path) {
            Some(workspace) => workspace,
            None => {
                bail!("the workspace was removed again: another program changed the configuration")
            }
        },
    };
    if context.json {
        context.out.json(&Changed {
            root: root.path.clone(),
            workspace: workspace.clone(),
        })?;
    } else {
        context.out.line(format_args!(
            "{}  {}  {}",
            paint(ID, &workspace.id),
            paint(TITLE, &workspace.name),
            paint(PATH, workspace.path.as_deref().unwrap_or_default())
        ))?;
    }
    Ok(Outcome::Ok)
}

fn list(context: &mut Context) -> Result<Outcome> {
    let inventory = context.inventory();
    let mut rows = Vec::new();
    let mut archived = false;
    for root in chorus_roots(context)? {
        let config = context.store.chorus().config(&root)?;
        archived |= warn_archived(&root, context);
        rows.extend(workspace_rows(context, &inventory, &root, config));
    }
    if context.json {
        context.out.json(&WorkspacesJson { workspaces: rows })?;
        return Ok(Outcome::Ok);
    }
    if rows.is_empty() {
        // If archived, `warn_archived` printed how to restore it.
        if !archived {
            context
                .out
                .line("There are no workspaces; `annals chorus workspaces add PATH` adds one.")?;
        }
        return Ok(Outcome::NotFound);
    }
    let mut table = Table::new([
        Column::new("WORKSPACE").min(8).style(ID),
        Column::new("NAME").min(8).max(32).style(TITLE),
        Column::new("AGENTS").right(),
        Column::new("SESSIONS").right(),
        Column::new("PATH").min(12).cut_middle().style(PATH),
    ]);
    for row in &rows {
        table.row([
            Cell::new(&row.workspace.id),
            Cell::new(&row.workspace.name),
            Cell::new(size::count(row.workspace.agents.len() as u64)),
            Cell::new(size::count(row.sessions as u64)),
            match &row.workspace.path {
                Some(path) => Cell::new(path),
                None if row.configured => Cell::new(""),
                None => Cell::styled("not in the configuration", DIM),
            },
        ]);
    }
    context.out.text(table.render(context.out.width()))?;
    Ok(Outcome::Ok)
}

/// Prints a note and returns true if the configuration of a root is only in the archive: the output
/// is incomplete without it.
pub(crate) fn warn_archived(root: &Root, context: &mut Context) -> bool {
    let archived = context.store.chorus().is_archived(root);
    if archived {
        let path = root.path.display();
        context.print_note_once(&format!(
            "the configuration of {path} is only in the archive; `annals --root chorus:{path} restore root --also config.json --apply` restores it"
        ));
    }
    archived
}

/// Returns the configured workspaces, and others that have sessions.
fn workspace_rows(
    context: &Context,
    inventory: &Inventory,
    root: &Root,
    config: Config,
) -> Vec<WorkspaceJson> {
    let count = |id: &str| {
        context
            .store
            .chorus()
            .sessions_in_folder(inventory, root, id)
            .len()
    };
    let mut rows: Vec<WorkspaceJson> = config
        .workspaces
        .into_iter()
        .map(|workspace| WorkspaceJson {
            root: root.path.clone(),
            sessions: count(&workspace.id),
            workspace,
            configured: true,
        })
        .collect();
    let here = inventory
        .sessions
        .iter()
        .filter(|files| files.root.path == root.path);
    for files in here {
        let Some((id, _)) = files.folder().and_then(|folder| folder.split_once('/')) else {
            continue;
        };
        if rows.iter().all(|row| row.workspace.id != id) {
            let workspace = Workspace {
                id: id.to_owned(),
                ..Workspace::default()
            };
            rows.push(WorkspaceJson {
                root: root.path.clone(),
                sessions: count(id),
                workspace,
                configured: false,
            });
        }
    }
    rows
}

#[derive(Serialize)]
struct RemovedJson<'a> {
    applied: bool,
    root: &'a std::path::Path,
    #[serde(rename = "kind")]
    what: &'a str,
    id: &'a str,
    configured: bool,
    sessions: &'a [TrashItem],
    files: usize,
    bytes: u64,
}

/// Removes a workspace or an agent: moves its sessions to the trash, then removes it from the
/// configuration. `known` is an error if it is not configured; it may have sessions anyway.
pub(super) fn remove(
    context: &mut Context,
    root: &Root,
    what: &str,
    id: &str,
    known: annals::Result<()>,
    edit: &ConfigEdit,
    how: &RemovalArgs,
) -> Result<Outcome> {
    let inventory = context.inventory();
    let sessions: Vec<&SessionFiles> = context
        .store
        .chorus()
        .sessions_in_folder(&inventory, root, id);
    let edit = match known {
        Ok(()) => Some(edit),
        Err(annals::Error::NotFound { .. }) if !sessions.is_empty() => None,
        Err(error) => return Err(error.into()),
    };
    let now = context.clock.now;
    let done = if how.apply {
        if !how.live {
            for files in &sessions {
                files.ensure_not_in_use()?;
            }
        }
        context.store.chorus().clear(root, &sessions, edit, now)?
    } else {
        context
            .store
            .chorus()
            .plan_clear(root, &sessions, edit, now)?
    };
    let files: usize = done.iter().map(|trashed| trashed.files.len()).sum();
    let bytes = done.iter().flat_map(|trashed| &trashed.files);
    let bytes: u64 = bytes.map(|file| file.bytes).sum();
    if context.json {
        context.out.json(&RemovedJson {
            applied: how.apply,
            root: &root.path,
            what,
            id,
            configured: edit.is_some(),
            sessions: &done,
            files,
            bytes,
        })?;
        return Ok(Outcome::Ok);
    }
    // Other files of its folder are not a session.
    let sessions: Vec<&TrashItem> = done.iter().filter(|it| !it.is_folder()).collect();
    for trashed in &sessions {
        context.out.line(paint(ID, &trashed.session))?;
    }
    if !sessions.is_empty() {
        context.out.blank()?;
    }
    let sum = format!(
        "{what} {id}: {}, {}, {}",
        pluralize(sessions.len() as u64, "session"),
        pluralize(files as u64, "file"),
        size::bytes(bytes)
    );
    if !how.apply {
        context
            .out
            .line(format_args!("{} {sum}", paint(BOLD, "Would be removed:")))?;
        context
            .out
            .line("Nothing was changed; add --apply to do it.")?;
        return Ok(Outcome::Ok);
    }
    context
        .out
        .line(format_args!("{} removed {sum}", paint(SUCCESS, "✓")))?;
    match (sessions.is_empty(), done.is_empty()) {
        (false, _) => context.out.line(
            "`annals delete --list` shows the sessions in the trash, `--undo ID` restores one",
        )?,
        (true, false) => context.out.line(format_args!(
            "{} restores it",
            styled_command("annals delete --undo=", id, "")
        ))?,
        (true, true) => {}
    }
    Ok(Outcome::Ok)
}

/// Returns the roots of Chorus.
pub(super) fn chorus_roots(context: &Context) -> Result<Vec<Root>> {
    let roots = context.store.roots().iter();
    let found: Vec<Root> = roots
        .filter(|root| root.layout.name() == "chorus")
        .cloned()
        .collect();
    if found.is_empty() {
        bail!(
            "no root of Chorus found; change to a project with a .chorus directory, or name one with --root chorus:PATH"
        );
    }
    Ok(found)
}

/// Returns the only root of Chorus; an error if there are several.
pub(super) fn single_chorus_root(context: &Context) -> Result<Root> {
    let mut found = chorus_roots(context)?;
    match found.as_slice() {
        [_] => Ok(found.remove(0)),
        many => {
            let paths: Vec<String> = many
                .iter()
                .map(|root| format!("  chorus:{}", root.path.display()))
                .collect();
            bail!(
                "there are {} roots of Chorus; name one with --root:\n{}",
                many.len(),
                paths.join("\n")
            )
        }
    }
}
