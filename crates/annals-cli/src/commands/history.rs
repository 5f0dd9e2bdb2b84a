//! `annals history`

use annals::model::{ArtifactKind, Body, Entry, Project};
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::Outcome;
use super::filter::{Period, resolve_dir, tell_unknown};
use super::row::Short;
use crate::context::Context;
use crate::render::style::{DIM, ID, TIME};
use crate::render::table::{Cell, Column, Table};

/// Lists what people typed, the newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  annals history -n 20
  annals history --project my-app --since 7d
  annals history migration                        what has this text in it")]
pub(crate) struct HistoryArgs {
    /// Only what has this text in it, letter case aside
    text: Option<String>,
    /// Only what was typed in this project: its path or its name
    #[arg(long, short, value_name = "PROJECT", allow_hyphen_values = true)]
    project: Option<String>,
    #[command(flatten)]
    period: Period,
    /// At most this many
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
}

#[derive(Serialize)]
struct Document {
    history: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    time: Option<Timestamp>,
    text: String,
    project: Option<String>,
    session: Option<String>,
    pasted: bool,
}

pub(crate) fn run(args: &HistoryArgs, context: &mut Context) -> Result<Outcome> {
    let (since, until) = args.period.resolve(context)?;
    let project = args.project.as_deref().map(resolve_dir);
    let text = args.text.as_deref().map(str::to_lowercase);
    let mut rows = read(context);
    if let (Some(wanted), Some(dir)) = (&args.project, &project) {
        let projects = rows.iter().map(|row| Project {
            path: row.project.clone().unwrap_or_default(),
            guessed: false,
        });
        let projects: Vec<Project> = projects.collect();
        if !projects.iter().any(|project| project.matches(dir)) {
            tell_unknown(wanted, projects.iter(), context);
        }
    }
    rows.retain(|row| {
        let place = || Project {
            path: row.project.clone().unwrap_or_default(),
            guessed: false,
        };
        project
            .as_deref()
            .is_none_or(|wanted| place().matches(wanted))
            && since.is_none_or(|since| row.time.is_some_and(|time| time >= since))
            && until.is_none_or(|until| row.time.is_some_and(|time| time <= until))
            && text
                .as_deref()
                .is_none_or(|text| row.text.to_lowercase().contains(text))
    });
    rows.truncate(args.limit.unwrap_or(usize::MAX));
    let empty = rows.is_empty();
    if context.json {
        context.out.json(&Document { history: rows })?;
    } else if empty {
        context
            .out
            .line("Nothing typed fits, or no history was kept.")?;
    } else {
        let table = table(&rows, context);
        context.out.text(table)?;
    }
    Ok(if empty {
        Outcome::Nothing
    } else {
        Outcome::Fine
    })
}

/// Everything that was typed, the newest first; of equal times the later line.
fn read(context: &mut Context) -> Vec<Row> {
    let inventory = context.inventory();
    let mut rows = Vec::new();
    for (root, file) in inventory.others_of(ArtifactKind::History) {
        match context.store.entries(root, file) {
            Ok(entries) => rows.extend(entries.into_iter().filter_map(row)),
            Err(error) => context.warn(&error),
        }
    }
    rows.reverse();
    rows.sort_by_key(|row: &Row| std::cmp::Reverse(row.time));
    rows
}

fn row(entry: Entry) -> Option<Row> {
    match entry.body {
        Body::Typed {
            text,
            project,
            session,
            pasted,
        } => Some(Row {
            time: entry.time,
            text,
            project,
            session,
            pasted,
        }),
        _ => None,
    }
}

fn table(rows: &[Row], context: &Context) -> String {
    let short = Short::of(rows.iter().filter_map(|row| row.session.as_deref()));
    let name = |row: &Row| {
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
        Column::new("TYPED").min(20),
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
