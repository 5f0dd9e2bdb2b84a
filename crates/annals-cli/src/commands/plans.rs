//! `annals plans`

use std::path::Path;

use annals::Subject;
use annals::model::{ArtifactKind, Body};
use annals::store::{Root, RootFile};
use anyhow::{Result, bail};
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::Outcome;
use super::overview::print_none;
use super::page::Page;
use crate::context::{Context, is_latest};
use annals_render::markdown;
use annals_render::size;
use annals_render::style::{BOLD, DIM};
use annals_render::table::{Cell, Column, Table};

/// Lists plans, or shows one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  annals plans
  annals plans calm-otter          shows one; a unique prefix is enough")]
pub(crate) struct PlansArgs {
    /// The plan to show
    name: Option<String>,
    #[command(flatten)]
    page: Page,
}

#[derive(Serialize)]
struct PlansJson<'a> {
    plans: Vec<PlanJson<'a>>,
    /// Number of plans before `-n` and `--offset`.
    total: usize,
}

#[derive(Serialize)]
struct PlanJson<'a> {
    name: &'a str,
    title: String,
    file: &'a Path,
    updated: Option<Timestamp>,
    bytes: u64,
    /// True if the plan exists only in the archive.
    archived: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

struct PlanFile {
    file: RootFile,
    text: String,
}

impl PlanFile {
    fn name(&self) -> &str {
        self.file.artifact.name.as_deref().unwrap_or_default()
    }

    /// Returns the first heading, else the first line.
    fn title(&self) -> String {
        let mut lines = self
            .text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        let first = lines.clone().next();
        let heading = lines.find(|line| line.starts_with('#'));
        heading
            .or(first)
            .unwrap_or_default()
            .trim_start_matches('#')
            .trim()
            .to_owned()
    }

    fn updated(&self) -> Option<Timestamp> {
        Timestamp::from_nanosecond(self.file.id.mtime_ns.into()).ok()
    }

    fn to_json(&self, text: bool) -> PlanJson<'_> {
        PlanJson {
            name: self.name(),
            title: self.title(),
            file: &self.file.path,
            updated: self.updated(),
            bytes: self.file.id.len,
            archived: self.file.is_archived(),
            text: text.then(|| self.text.clone()),
        }
    }
}

pub(crate) fn run(args: &PlansArgs, context: &mut Context) -> Result<Outcome> {
    let mut plans = read_plans(context);
    if let Some(name) = &args.name {
        if args.page.is_set() {
            bail!("-n and --offset select from the list of plans; leave them out to read one");
        }
        let plan = find_plan(&plans, name)?;
        if context.json {
            context.out.json(&PlansJson {
                plans: vec![plan.to_json(true)],
                total: 1,
            })?;
        } else {
            let text = markdown::render(&plan.text, context.out.width());
            context.out.text(text)?;
        }
        return Ok(Outcome::Ok);
    }
    plans.sort_by(|a, b| {
        b.updated()
            .cmp(&a.updated())
            .then_with(|| a.name().cmp(b.name()))
    });
    let total = args.page.apply(&mut plans);
    if context.json {
        context.out.json(&PlansJson {
            plans: plans.iter().map(|plan| plan.to_json(false)).collect(),
            total,
        })?;
    } else if plans.is_empty() {
        let inventory = context.inventory();
        print_none(context, &inventory, "No plans.")?;
    } else {
        let mut table = Table::new([
            Column::new("PLAN").style(BOLD),
            Column::new("UPDATED").style(DIM),
            Column::new("SIZE").right().priority(40),
            Column::new("TITLE").min(16),
            Column::new("").style(DIM),
        ]);
        for plan in &plans {
            table.row([
                Cell::new(plan.name()),
                Cell::new(
                    plan.updated()
                        .map(|time| context.clock.ago(time))
                        .unwrap_or_default(),
                ),
                Cell::new(size::bytes(plan.file.id.len)),
                Cell::new(plan.title()),
                Cell::new(if plan.file.is_archived() {
                    "archived"
                } else {
                    ""
                }),
            ]);
        }
        let table = table.render(context.out.width());
        context.out.text(table)?;
    }
    Ok(if plans.is_empty() {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

fn read_plans(context: &mut Context) -> Vec<PlanFile> {
    let inventory = context.inventory();
    let found: Vec<(Root, RootFile)> = inventory
        .others_of_kind(ArtifactKind::Plan)
        .cloned()
        .collect();
    let mut plans = Vec::new();
    for (root, file) in found {
        match root.entries(&file) {
            Ok(entries) => plans.extend(entries.into_iter().find_map(|entry| match entry.body {
                Body::Note { text, .. } => Some(PlanFile {
                    file: file.clone(),
                    text,
                }),
                _ => None,
            })),
            Err(error) => context.warn(&error),
        }
    }
    plans
}

fn find_plan<'a>(plans: &'a [PlanFile], name: &str) -> annals::Result<&'a PlanFile> {
    let wanted = name.strip_suffix(".md").unwrap_or(name);
    let exact: Vec<&PlanFile> = plans.iter().filter(|plan| plan.name() == wanted).collect();
    let begins = || {
        plans
            .iter()
            .filter(|plan| plan.name().starts_with(wanted))
            .collect()
    };
    let mut found: Vec<&PlanFile> = if exact.is_empty() { begins() } else { exact };
    if found.is_empty() && is_latest(name) {
        found.extend(plans.iter().max_by_key(|plan| plan.updated()));
    }
    match found.as_slice() {
        [] => Err(annals::Error::NotFound {
            what: Subject::Plan,
            id: name.to_owned(),
        }),
        [only] => Ok(only),
        many => Err(annals::Error::Ambiguous {
            what: Subject::Plan,
            id: name.to_owned(),
            candidates: many
                .iter()
                .map(|plan| plan.file.path.display().to_string())
                .collect(),
        }),
    }
}
