//! `annals projects`

use annals::cost::Charge;
use annals::store::ProjectInfo;
use annals::view::{ProjectCosts, ProjectJson};
use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::Outcome;
use super::filter::SessionFilter;
use super::page::Page;
use super::pricing::{self, Pricer};
use crate::context::Context;
use annals_render::size;
use annals_render::style::{DIM, PATH, TITLE};
use annals_render::table::{Cell, Column, Table};

/// Lists projects.
#[derive(Debug, Args)]
#[command(after_help = "\
A project is a working directory, as the sessions themselves record it. Two directories whose \
sessions share a folder are listed apart; a directory that was moved is found under both paths.

Examples:
  annals projects --since 30d
  annals sessions -p NAME          the sessions of one of them")]
pub(crate) struct ProjectsArgs {
    #[command(flatten)]
    filter: SessionFilter,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ProjectsJson<'a> {
    projects: Vec<ProjectJson<'a>>,
    /// Number of projects before `-n` and `--offset`.
    total: usize,
}

pub(crate) fn run(args: &ProjectsArgs, context: &mut Context) -> Result<Outcome> {
    let pricer = Pricer::new(context)?;
    let inventory = context.inventory();
    let all = context.sessions(&inventory);
    args.filter.warn_unknown_project(&all, context);
    let filter = SessionFilter {
        page: Page::default(),
        ..args.filter.clone()
    };
    let sessions = filter.apply(context, all)?;
    let mut projects = ProjectInfo::from_sessions(sessions.iter());
    let total = args.filter.page.apply(&mut projects);
    let costs = ProjectCosts::new(&sessions, &|charge: &Charge| pricer.price(charge));
    if context.json {
        let row = |project| ProjectJson::new(project, &costs.get(project));
        context.out.json(&ProjectsJson {
            projects: projects.iter().map(row).collect(),
            total,
        })?;
    } else if projects.is_empty() {
        super::overview::print_nothing(context, args.filter.is_set(), "project")?;
    } else {
        let table = table(&projects, context, &costs);
        context.out.text(table)?;
    }
    Ok(if projects.is_empty() {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

/// Renders the table of projects.
pub(crate) fn table(
    projects: &[ProjectInfo],
    context: &Context,
    costs: &ProjectCosts<'_>,
) -> String {
    let several_roots = projects.iter().any(|project| {
        projects
            .first()
            .is_some_and(|first| first.root != project.root)
    });
    let mut table = Table::new([
        Column::new("PROJECT").min(10).max(32).style(TITLE),
        Column::new("SESSIONS").right(),
        Column::new("UPDATED").style(DIM),
        Column::new("COST").right().priority(70),
        Column::new("SIZE").right().priority(60),
        Column::new("PATH").min(12).cut_middle().style(PATH),
        Column::new(if several_roots { "ROOT" } else { "" })
            .min(8)
            .cut_middle()
            .priority(30)
            .style(DIM),
    ]);
    for project in projects {
        table.row([
            Cell::new(&project.name),
            Cell::new(size::count(project.sessions as u64)),
            Cell::new(
                project
                    .updated
                    .map(|time| context.clock.ago(time))
                    .unwrap_or_default(),
            ),
            pricing::cost_cell(&costs.get(project)),
            Cell::new(size::bytes(project.bytes)),
            if project.guessed {
                Cell::styled("folder name; no session records its directory", DIM)
            } else {
                Cell::new(&project.path)
            },
            Cell::new(if several_roots {
                project.root.display().to_string()
            } else {
                String::new()
            }),
        ]);
    }
    table.render(context.out.width())
}
