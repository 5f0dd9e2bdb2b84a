//! `annals history`

use std::path::{Path, PathBuf};

use annals::layout::LAYOUTS;
use annals::model::{ArtifactKind, Body, Draft, Entry, Project};
use anyhow::Result;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;

use super::filter::{Period, warn_unknown_project};
use super::overview::print_none;
use super::page::Page;
use super::{Outcome, input};
use crate::context::Context;
use annals::store::resolve_directory;
use annals::view::ShortIds;
use annals_render::style::{DIM, ID, PATH, TIME, paint};
use annals_render::table::{Cell, Column, Table};

/// Lists typed prompts, newest first.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  annals history -n 20
  annals history --project my-app --since 7d
  annals history migration                        prompts that contain this text
  annals history add 'Run the tests' --session 8c549c46
  annals history -- add                           prompts that contain `add`")]
pub(crate) struct HistoryArgs {
    /// Only prompts that contain this text, ignoring case
    text: Option<String>,
    /// Only prompts of this project: its path or its name
    #[arg(long, short, value_name = "PROJECT", allow_hyphen_values = true)]
    project: Option<String>,
    #[command(flatten)]
    period: Period,
    #[command(flatten)]
    page: Page,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add a prompt to the history, as the agent program does
    Add(AddArgs),
}

#[derive(Debug, Args)]
struct AddArgs {
    /// The prompt; `-` reads it from standard input
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// The directory it was typed in [default: the current one]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// The session it belongs to
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

/// The added prompt as JSON.
#[derive(Serialize)]
struct AddedPromptJson<'a> {
    file: &'a Path,
    text: &'a str,
    project: &'a str,
    session: Option<&'a str>,
}

#[derive(Serialize)]
struct HistoryJson {
    history: Vec<PromptJson>,
    /// Number of prompts before `-n` and `--offset`.
    total: usize,
}

#[derive(Serialize)]
struct PromptJson {
    time: Option<Timestamp>,
    text: String,
    project: Option<String>,
    session: Option<String>,
    pasted: bool,
}

pub(crate) fn run(args: &HistoryArgs, context: &mut Context) -> Result<Outcome> {
    if let Some(Action::Add(args)) = &args.action {
        return add_prompt(args, context);
    }
    let (since, until) = args.period.resolve(context)?;
    let project = args.project.as_deref().map(resolve_directory);
    let text = args.text.as_deref().map(str::to_lowercase);
    let mut rows = read_prompts(context);
    if let (Some(wanted), Some(dir)) = (&args.project, &project) {
        let projects = rows.iter().map(|row| Project {
            path: row.project.clone().unwrap_or_default(),
            guessed: false,
        });
        let projects: Vec<Project> = projects.collect();
        if !projects
            .iter()
            .any(|project| is_project(&project.path, dir))
        {
            warn_unknown_project(wanted, projects.iter(), context);
        }
    }
    rows.retain(|row| {
        let path = row.project.as_deref().unwrap_or_default();
        project
            .as_deref()
            .is_none_or(|wanted| is_project(path, wanted))
            && since.is_none_or(|since| row.time.is_some_and(|time| time >= since))
            && until.is_none_or(|until| row.time.is_some_and(|time| time <= until))
            && text
                .as_deref()
                .is_none_or(|text| row.text.to_lowercase().contains(text))
    });
    let total = args.page.apply(&mut rows);
    let empty = rows.is_empty();
    if context.json {
        context.out.json(&HistoryJson {
            history: rows,
            total,
        })?;
    } else if empty {
        let inventory = context.inventory();
        let text = "No matching prompts, or no history was recorded.";
        print_none(context, &inventory, text)?;
    } else {
        let table = table(&rows, context);
        context.out.text(table)?;
    }
    Ok(if empty {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

fn add_prompt(args: &AddArgs, context: &mut Context) -> Result<Outcome> {
    let text = match args.text.as_str() {
        "-" => input::read_stdin("text")?.trim_end_matches('\n').to_owned(),
        text => text.to_owned(),
    };
    let text = input::non_empty(&text, "text")?;
    let project = input::resolve_directory(args.project.as_deref())?;
    let project = project.to_string_lossy();
    let (root, session) = match &args.session {
        None => (context.writable_root()?, None),
        Some(id) => {
            let files = context.find_session(id)?;
            (annals::store::Root::clone(&files.root), Some(files.id))
        }
    };
    let session = session.as_ref().map(|id| id.as_str());
    let mut typed = Draft::new(Body::TypedPrompt {
        text: text.to_owned(),
        project: Some(project.to_string()),
        session: session.map(str::to_owned),
        pasted: false,
    });
    typed.time = Some(context.clock.now);
    let file = context
        .store
        .documents()
        .append_prompt(&root, &typed, context.write_options())?;
    if context.json {
        context.out.json(&AddedPromptJson {
            file: &file,
            text,
            project: &project,
            session,
        })?;
    } else {
        let file = file.display().to_string();
        context
            .out
            .line(format_args!("added to {}", paint(PATH, &file)))?;
    }
    Ok(Outcome::Ok)
}

/// Returns true if `wanted` names the directory: its path, its name, or a layout's folder for it.
fn is_project(path: &str, wanted: &str) -> bool {
    let project = Project {
        path: path.to_owned(),
        guessed: false,
    };
    let mut folders = LAYOUTS.iter().filter_map(|layout| layout.folder(path));
    project.matches(wanted) || folders.any(|folder| folder == wanted)
}

/// Reads all typed prompts, newest first; of equal times the later line first.
fn read_prompts(context: &mut Context) -> Vec<PromptJson> {
    let inventory = context.inventory();
    let mut rows = Vec::new();
    for (root, file) in inventory.others_of_kind(ArtifactKind::History) {
        match root.entries(file) {
            Ok(entries) => rows.extend(entries.into_iter().filter_map(row)),
            Err(error) => context.warn(&error),
        }
    }
    rows.reverse();
    rows.sort_by_key(|row: &PromptJson| std::cmp::Reverse(row.time));
    rows
}

fn row(entry: Entry) -> Option<PromptJson> {
    match entry.body {
        Body::TypedPrompt {
            text,
            project,
            session,
            pasted,
        } => Some(PromptJson {
            time: entry.time,
            text,
            project,
            session,
            pasted,
        }),
        _ => None,
    }
}

fn table(rows: &[PromptJson], context: &Context) -> String {
    let short = ShortIds::new(rows.iter().filter_map(|row| row.session.as_deref()));
    let name = |row: &PromptJson| {
        let path = row.project.clone().unwrap_or_default();
        Project {
            path,
            guessed: false,
        }
        .name()
        .to_owned()
    };
    let mut table = Table::new([
        Column::new("TIME").style(TIME),
        Column::new("SESSION").style(ID),
        Column::new("PROJECT").min(8).max(24).priority(60),
        Column::new("PROMPT").min(20),
        Column::new("").style(DIM).priority(30),
    ]);
    for row in rows {
        table.row([
            Cell::new(
                row.time
                    .map(|time| context.clock.full(time))
                    .unwrap_or_default(),
            ),
            Cell::new(row.session.as_deref().map_or("", |id| short.get(id))),
            Cell::new(name(row)),
            Cell::new(&row.text),
            Cell::new(if row.pasted { "+ pasted" } else { "" }),
        ]);
    }
    table.render(context.out.width())
}
