//! `annals convert`

use std::path::{Path, PathBuf};

use annals::convert::{self, ConvertOptions, ConvertPlan, ConvertReport, ConvertSelection};
use annals::jsonl;
use annals::store::{Root, Session};
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::{Outcome, choose, input};
use crate::command_errors::TargetError;
use crate::context::Context;
use crate::terminal::progress::Progress;
use annals_render::size::{bytes, count, pluralize};
use annals_render::style::{BOLD, DIM, PATH, SUCCESS, WARNING, paint};

/// Prefix of report keys that name a member of records, not a kind.
const MEMBER_PREFIX: &str = "member ";

/// Writes sessions in another layout.
#[derive(Debug, Args)]
#[command(after_help = "\
Data that the other layout cannot represent is stored too, so that converting back gives the same \
bytes; --no-origin drops it and lists what was dropped. The source is only read. A conversion that \
was interrupted can be run again: finished sessions are skipped.

Converting back restores logs and other conversation data, as files that only you can read. Settings \
and other files that control a program may have been planted in the source by somebody else: the plan \
lists them as held back, and --also NAME restores one of them.

Examples:
  annals convert ~/.claude --to chorus    what would be converted
  annals convert ~/.claude --to chorus --into ~/all/.chorus
  annals convert 8c549c46 --to clog --into /tmp/s         one session
  annals convert 8c549c46@5f0c --to clog --into /tmp/s    one conversation of it
  annals convert --project my-app --to orchestrator --into /tmp/o
  annals convert chorus:~/all/.chorus --to claude-code --into /tmp/back")]
pub(crate) struct ConvertArgs {
    /// A session, a conversation (SESSION@LEAF), or a root (`[LAYOUT:]DIR`)
    #[arg(value_name = "ID|ROOT")]
    what: Option<String>,
    /// All sessions of this project: its path, its name, or its id
    #[arg(
        long,
        short,
        value_name = "PROJECT",
        allow_hyphen_values = true,
        conflicts_with = "what"
    )]
    project: Option<String>,
    /// The layout to write
    #[arg(long, value_name = "LAYOUT")]
    to: String,
    /// The directory that becomes a root of that layout; without it, only the plan is printed
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Drop what the layout cannot represent
    #[arg(long)]
    no_origin: bool,
    /// Leave out what only the archive has, instead of requiring a restore first
    #[arg(long)]
    without_archived: bool,
    /// When converting back, also restore this file, or all below this directory: a path within the
    /// target that the plan lists as held back
    #[arg(long, value_name = "PATH")]
    also: Vec<PathBuf>,
}

#[derive(Serialize)]
struct ConvertJson<'a> {
    applied: bool,
    to: &'a str,
    into: Option<&'a Path>,
    sessions: usize,
    files: usize,
    bytes: u64,
    restores: usize,
    left: &'a [String],
    /// Restored files that are not logs.
    restored_documents: &'a [PathBuf],
    /// Files that are restored only if named with --also.
    held_back: &'a [PathBuf],
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<ConvertedJson<'a>>,
}

#[derive(Serialize)]
struct ConvertedJson<'a> {
    sessions: usize,
    already: usize,
    restored_files: usize,
    added_entries: u64,
    differ: Vec<DifferenceJson<'a>>,
    said: &'a std::collections::BTreeMap<String, u64>,
    unsaid: &'a std::collections::BTreeMap<String, u64>,
    kept_as_origin: bool,
    not_overwritten: &'a [PathBuf],
    damaged: &'a [PathBuf],
    failed: Vec<FailedJson<'a>>,
}

#[derive(Serialize)]
struct DifferenceJson<'a> {
    session: &'a str,
    why: &'a str,
}

#[derive(Serialize)]
struct FailedJson<'a> {
    session: &'a str,
    error: &'a str,
}

pub(crate) fn run(args: &ConvertArgs, context: &mut Context) -> Result<Outcome> {
    if args.into.is_some() {
        context.try_put_back_removed_in(context.store.roots().to_vec());
    }
    let selection = select_source(args, context)?;
    if let ConvertSelection::Root(root) = &selection
        && args.into.is_some()
    {
        context.try_put_back_removed_in(vec![root.clone()]);
    }
    // Without a target, the plan is made for a directory that does not exist.
    let into = args.into.clone();
    let path = into.clone().unwrap_or_else(|| {
        let unused = format!("annals-convert-{}", std::process::id());
        std::env::temp_dir().join(unused)
    });
    let root = Root::new(&args.to, std::path::absolute(&path)?)?;
    if args.into.is_some() {
        // An interrupted conversion to the same directory may have left such files.
        context.try_put_back_removed_in(vec![root.clone()]);
    }
    let target = root.path.clone();
    let archive = context.store.archive().ok();
    let planned = match args.without_archived {
        true => convert::plan_without_archived(selection, root, archive.as_ref()),
        false => convert::plan(selection, root, archive.as_ref()),
    };
    let mut plan = planned.map_err(|error| target_error(error, &target))?;
    plan.restore_also(&args.also)?;
    if plan.sessions.is_empty() && plan.others.is_empty() {
        bail!("there is nothing to convert");
    }
    if !context.json {
        print_plan(args, &plan, context)?;
    }
    if into.is_none() {
        if context.json {
            context.out.json(&convert_json(args, &plan, None))?;
        } else {
            context.out.line(paint(
                DIM,
                "Nothing was written; add --into DIR to convert.",
            ))?;
        }
        return Ok(Outcome::Ok);
    }
    let options = {
        let mut options = ConvertOptions::default();
        options.origin = !args.no_origin;
        options.zone = context.clock.zone.clone();
        options
    };
    let progress = Progress::new("converting");
    let report = convert::run(&plan, &options, &|done, total| progress.set(done, total))
        .map_err(|error| target_error(error, &target))?;
    drop(progress);
    if context.json {
        context
            .out
            .json(&convert_json(args, &plan, Some(&report)))?;
    } else {
        print_report(args, &plan, &report, context)?;
    }
    for (session, error) in &report.failed {
        let text = format!("{session} was not converted: {error}");
        context.warn(&annals::Error::refused(text));
    }
    let clean = report.failed.is_empty()
        && report.existing_files.is_empty()
        && report.differing.is_empty()
        && report.damaged.is_empty();
    Ok(match clean {
        true => Outcome::Ok,
        false => Outcome::NotFound,
    })
}

/// Marks an error about the target, so that the hint names its option.
fn target_error(error: annals::Error, target: &Path) -> anyhow::Error {
    let names_target = error.to_string().contains(&target.display().to_string());
    let error = anyhow::Error::from(error);
    if names_target {
        return error.context(TargetError);
    }
    error
}

/// Returns what to convert.
fn select_source(args: &ConvertArgs, context: &mut Context) -> Result<ConvertSelection> {
    if let Some(project) = &args.project {
        let inventory = context.inventory();
        let rows = context.store.sessions(&inventory).read(&|_, _| ());
        let known = rows.iter().flatten().map(|row| &row.project);
        let known: Vec<_> = known.cloned().collect();
        let wanted = crate::context::spellings(project, known.iter());
        let sessions = inventory.sessions.into_iter().zip(rows);
        let sessions = sessions.filter(|(_, row)| {
            let row = row.as_ref();
            row.is_ok_and(|row| {
                wanted
                    .iter()
                    .any(|wanted| row.matches_project_or_earlier(wanted))
            })
        });
        let sessions: Vec<_> = sessions.map(|(files, _)| files).collect();
        if sessions.is_empty() {
            let error = super::filter::unknown(project, known.iter());
            return Err(match known.is_empty() {
                true => error.context(context.no_sessions_text()),
                false => error,
            });
        }
        return Ok(ConvertSelection::Sessions(sessions));
    }
    let what = choose::session(args.what.as_deref(), context)?;
    let what = what.as_str();
    let named = what
        .split_once(':')
        .is_some_and(|(name, _)| annals::layout::by_name(name).is_some());
    if named || jsonl::is_dir(Path::new(what))? {
        let mut roots = Root::parse(what)?;
        roots.retain(|root| roots_differ(root, &args.to));
        let mut root = match roots.len() {
            1 => roots.remove(0),
            0 => bail!("{what} has the layout {} already", args.to),
            _ => {
                let names: Vec<&str> = roots.iter().map(|root| root.layout.name()).collect();
                bail!(
                    "{what} holds several layouts; choose one: {}:{what}",
                    names.join(&format!(":{what} or "))
                );
            }
        };
        let path = std::path::absolute(&root.path)?;
        if !root.layout.root_is_file() && !jsonl::is_dir(&path)? {
            bail!("{} is not a directory", path.display());
        }
        root.path = path;
        let root = context.with_followed_links(root);
        return Ok(ConvertSelection::Root(root));
    }
    let target = context.find(what)?;
    target.refuse_agent()?;
    let Some(message) = &target.message else {
        return Ok(ConvertSelection::Sessions(vec![target.files]));
    };
    let session = Session::read(target.files)?;
    let (at, _) = input::entry(&session, 0, message)?;
    let path = session.tree().and_then(|tree| tree.path_to(at));
    let Some(path) = path else {
        bail!("`{message}` is not part of a conversation");
    };
    Ok(ConvertSelection::Conversation {
        files: Box::new(session.files),
        path,
    })
}

fn roots_differ(root: &Root, to: &str) -> bool {
    root.layout.name() != to
}

fn convert_json<'a>(
    args: &'a ConvertArgs,
    plan: &'a ConvertPlan,
    report: Option<&'a ConvertReport>,
) -> ConvertJson<'a> {
    ConvertJson {
        applied: report.is_some(),
        to: &args.to,
        into: args.into.as_deref(),
        sessions: plan.sessions.len(),
        files: plan.others.len(),
        bytes: plan.bytes,
        restores: plan.restores,
        left: &plan.left_out,
        restored_documents: &plan.documents,
        held_back: &plan.withheld,
        report: report.map(|report| ConvertedJson {
            sessions: report.sessions,
            already: report.already_converted,
            restored_files: report.restored,
            added_entries: report.added,
            differ: report
                .differing
                .iter()
                .map(|(session, why)| DifferenceJson { session, why })
                .collect(),
            said: &report.converted,
            unsaid: &report.unconverted,
            kept_as_origin: !args.no_origin,
            not_overwritten: &report.existing_files,
            damaged: &report.damaged,
            failed: report
                .failed
                .iter()
                .map(|(session, error)| FailedJson { session, error })
                .collect(),
        }),
    }
}

fn print_plan(args: &ConvertArgs, plan: &ConvertPlan, context: &mut Context) -> Result<()> {
    let sessions = pluralize(plan.sessions.len() as u64, "session");
    let others = match plan.others.len() {
        0 => String::new(),
        files => format!(" and {}", pluralize(files as u64, "other file")),
    };
    context.out.line(format_args!(
        "{}{others}, {}, to {}",
        paint(BOLD, &sessions),
        bytes(plan.bytes),
        paint(BOLD, &args.to)
    ))?;
    if plan.restores > 0 {
        let from = pluralize(plan.restores as u64, "session");
        let back = match plan.restores {
            1 => "is restored as it was",
            _ => "are restored as they were",
        };
        context
            .out
            .line(format_args!("{from} came from {} and {back}", args.to))?;
    }
    // Files other than logs are listed by name, so that the plan is complete.
    if args.into.is_none() {
        for path in &plan.documents {
            let path = path.display().to_string();
            context
                .out
                .line(format_args!("restored: {}", paint(PATH, &path)))?;
        }
    }
    for path in &plan.withheld {
        let path = path.display().to_string();
        context.out.line(format_args!(
            "{} {}: not conversation data; --also restores it",
            paint(WARNING, "held back:"),
            paint(PATH, &path)
        ))?;
    }
    for left in &plan.left_out {
        context
            .out
            .line(format_args!("{} {left}", paint(WARNING, "left out:")))?;
    }
    Ok(())
}

fn print_report(
    args: &ConvertArgs,
    plan: &ConvertPlan,
    report: &ConvertReport,
    context: &mut Context,
) -> Result<()> {
    let out = &mut context.out;
    out.line(format_args!(
        "{} {} in {}",
        paint(SUCCESS, "converted"),
        pluralize(report.sessions as u64, "session"),
        paint(PATH, &plan.target().path.display().to_string())
    ))?;
    if report.already_converted > 0 {
        let already = pluralize(report.already_converted as u64, "session");
        let left = match report.already_converted {
            1 => "left unchanged",
            _ => "left unchanged",
        };
        out.line(format_args!("{already} converted already, {left}"))?;
    }
    if report.restored > 0 {
        let whole = report.restored.saturating_sub(report.damaged.len());
        let files = pluralize(whole as u64, "file");
        match report.added {
            0 => out.line(format_args!("{files} restored byte for byte"))?,
            added => {
                let added = pluralize(added, "entry");
                out.line(format_args!("{files} restored, plus {added} written since"))?;
            }
        }
    }
    if !report.converted.is_empty() {
        out.line(format_args!(
            "written: {}",
            format_counts(&report.converted)
        ))?;
    }
    let is_member = |kind: &str| kind.starts_with(MEMBER_PREFIX);
    let mut unsaid = report.unconverted.clone();
    unsaid.retain(|kind, _| !is_member(kind));
    if !unsaid.is_empty() {
        let label = match args.no_origin {
            true => "dropped:",
            false => "kept:   ",
        };
        out.line(format_args!("{label} {}", format_counts(&unsaid)))?;
    }
    let members = report
        .unconverted
        .iter()
        .filter(|(kind, _)| is_member(kind));
    let members: Vec<String> = members
        .map(|(kind, number)| {
            format!(
                "{} {}",
                kind.trim_start_matches(MEMBER_PREFIX),
                count(*number)
            )
        })
        .collect();
    if !members.is_empty() {
        let members = members.join(", ");
        out.line(format_args!("         and members of records: {members}"))?;
    }
    for path in &report.existing_files {
        let path = path.display().to_string();
        out.line(format_args!(
            "{} {} exists already and was not overwritten",
            paint(WARNING, "kept:"),
            paint(PATH, &path)
        ))?;
    }
    for path in &report.damaged {
        let path = path.display().to_string();
        out.line(format_args!(
            "{} {} was not restored completely: its origins are damaged",
            paint(WARNING, "damaged:"),
            paint(PATH, &path)
        ))?;
    }
    for (session, why) in &report.differing {
        out.line(format_args!(
            "{} {session}: {why}; left unchanged, convert it into an empty directory",
            paint(WARNING, "exists already:")
        ))?;
    }
    for (session, error) in &report.failed {
        out.line(format_args!(
            "{} {session}: {error}",
            paint(WARNING, "failed:")
        ))?;
    }
    Ok(())
}

/// Formats counts as `12 messages, 3 notes`, largest first.
fn format_counts(kinds: &std::collections::BTreeMap<String, u64>) -> String {
    let mut kinds: Vec<(&String, &u64)> = kinds.iter().collect();
    kinds.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let words: Vec<String> = kinds
        .into_iter()
        .map(|(kind, number)| match kind.as_str() {
            "todos" => pluralize(*number, "todo list"),
            // A name that is a plural already.
            kind if kind.ends_with('s') => format!("{} {kind}", count(*number)),
            kind => pluralize(*number, kind),
        })
        .collect();
    words.join(", ")
}
