//! `annals delete`

use std::collections::BTreeSet;
use std::path::Path;

use annals::store::{SessionFiles, TrashItem};
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::Outcome;
use super::filter::retain_project;
use super::session_json::ShortIds;
use crate::context::Context;
use crate::render::command::hint;
use crate::render::size::{self, pluralize};
use crate::render::style::{BOLD, DIM, ID, PATH, SUCCESS, paint};
use crate::render::table::{Cell, Column, Table};

/// Moves sessions to the trash.
#[derive(Debug, Args)]
#[command(after_help = "\
A session goes with everything that belongs to it: sub-agents, todos, saved files, long outputs.
Nothing is moved without --apply, and everything can be put back with --undo.

Examples:
  annals delete 8c549c46                       what would be moved
  annals delete 8c549c46 --apply
  annals delete --project my-app --apply       all sessions of a project, and nothing else
  annals delete --list
  annals delete --undo 8c549c46")]
pub(crate) struct DeleteArgs {
    /// The sessions
    #[arg(value_name = "SESSION", required_unless_present_any = ["project", "list", "undo"])]
    sessions: Vec<String>,
    /// All sessions of this project: its path, its name, or its id
    #[arg(
        long,
        short,
        value_name = "PROJECT",
        allow_hyphen_values = true,
        conflicts_with = "sessions"
    )]
    project: Option<String>,
    /// Do it
    #[arg(long)]
    apply: bool,
    /// Also sessions that another program is writing to right now
    #[arg(long)]
    live: bool,
    /// Also sessions that are pinned
    #[arg(long)]
    pinned: bool,
    /// Show what is in the trash
    #[arg(long, conflicts_with_all = ["sessions", "project", "apply", "undo"])]
    list: bool,
    /// Put a deleted session back: its id, or its name in the trash
    #[arg(long, value_name = "ID", conflicts_with_all = ["sessions", "project", "apply"])]
    undo: Option<String>,
}

#[derive(Serialize)]
struct DeleteJson<'a> {
    applied: bool,
    sessions: Vec<TrashItemJson<'a>>,
    files: usize,
    bytes: u64,
    /// Sessions that could not be moved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Failed {
    session: String,
    error: String,
}

#[derive(Serialize)]
struct TrashItemJson<'a> {
    #[serde(flatten)]
    trashed: &'a TrashItem,
    bytes: u64,
}

#[derive(Serialize)]
struct TrashJson<'a> {
    trashed: Vec<TrashItemJson<'a>>,
}

impl<'a> TrashItemJson<'a> {
    fn new(trashed: &'a TrashItem) -> Self {
        TrashItemJson {
            trashed,
            bytes: total_bytes(trashed),
        }
    }
}

pub(crate) fn run(args: &DeleteArgs, context: &mut Context) -> Result<Outcome> {
    if args.list {
        return list_trash(context);
    }
    if let Some(id) = &args.undo {
        return undo(id, context);
    }
    if args.apply {
        context.put_back_removed()?;
    }
    let wanted = match &args.project {
        Some(project) => project_sessions(project, context)?,
        None => find_sessions(&args.sessions, context)?,
    };
    if !args.pinned {
        refuse_pinned(&wanted, context)?;
    }
    let now = context.clock.now;
    let named: Vec<&SessionFiles> = wanted.iter().collect();
    let groups = SessionFiles::group_by_shared_files(&named);
    let split = groups.iter().filter_map(|group| group.split_first());
    let plans: Vec<TrashItem> = split
        .map(|(first, others)| context.store.plan_delete_group(first, others, now))
        .collect::<Result<_, _>>()?;
    let (done, failed) = if args.apply {
        delete_groups(context, &groups, args.live)
    } else {
        (plans, Vec::new())
    };
    if context.json {
        let document = DeleteJson {
            applied: args.apply,
            sessions: done.iter().map(TrashItemJson::new).collect(),
            files: done.iter().map(|trashed| trashed.files.len()).sum(),
            bytes: done.iter().map(total_bytes).sum(),
            failed: failed
                .iter()
                .map(|(session, error)| Failed {
                    session: session.clone(),
                    error: error.to_string(),
                })
                .collect(),
        };
        context.out.json(&document)?;
    } else if !done.is_empty() || failed.is_empty() {
        print_deleted(args.apply, &done, context)?;
    }
    // What was moved is told first: it is in the trash whatever became of the others.
    let (moved, all) = (session_count(&done), wanted.len());
    let mut failed = failed.into_iter().map(|(_, error)| error);
    let Some(first) = failed.next() else {
        return Ok(Outcome::Ok);
    };
    for error in failed {
        context.warn(&error);
    }
    let first = anyhow::Error::new(first);
    Err(match all {
        1 => first,
        _ => first.context(format!("{moved} of {all} sessions were moved to the trash")),
    })
}

/// A pin says that a session is not to go; who wants it gone says so too.
fn refuse_pinned(wanted: &[SessionFiles], context: &Context) -> Result<()> {
    let pins = context.store.pins()?;
    let pinned = wanted.iter().filter(|files| pins.contains_files(files));
    let pinned: Vec<&str> = pinned.map(|files| files.id.as_str()).collect();
    match pinned.as_slice() {
        [] => Ok(()),
        [only] => bail!("session {only} is pinned; add --pinned to delete it all the same"),
        [first, rest @ ..] => bail!(
            "session {first} and {} are pinned; add --pinned to delete them all the same",
            pluralize(rest.len() as u64, "other")
        ),
    }
}

/// Moves one session after the other, those that share files together; one that cannot be moved does
/// not keep the others.
fn delete_groups(
    context: &Context,
    groups: &[Vec<&SessionFiles>],
    live: bool,
) -> (Vec<TrashItem>, Vec<(String, annals::Error)>) {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (first, others) in groups.iter().filter_map(|group| group.split_first()) {
        let mut all = std::iter::once(first).chain(others);
        let free = match live {
            true => Ok(()),
            false => all.try_for_each(|files| context.store.ensure_not_in_use(files)),
        };
        let moved = free.and_then(|()| {
            let now = context.clock.now;
            context.store.delete_group(first, others, now)
        });
        match moved {
            Ok(trashed) => done.push(trashed),
            Err(error) => failed.push((first.id.to_string(), error)),
        }
    }
    (done, failed)
}

fn session_count(trashed: &[TrashItem]) -> usize {
    trashed
        .iter()
        .map(|trashed| trashed.sessions().count())
        .sum()
}

fn print_deleted(applied: bool, done: &[TrashItem], context: &mut Context) -> Result<()> {
    print_trash(context, done)?;
    context.out.blank()?;
    let files: usize = done.iter().map(|trashed| trashed.files.len()).sum();
    let sum = format!(
        "{}, {}, {}",
        pluralize(session_count(done) as u64, "session"),
        pluralize(files as u64, "file"),
        size::bytes(done.iter().map(total_bytes).sum())
    );
    if !applied {
        context.out.line(format_args!(
            "{} {sum}",
            paint(BOLD, "Would be moved to the trash:")
        ))?;
        context
            .out
            .line("Nothing was changed; add --apply to do it.")?;
        return Ok(());
    }
    context.out.line(format_args!(
        "{} moved to the trash: {sum}",
        paint(SUCCESS, "✓")
    ))?;
    print_still_archived(done.iter(), context)?;
    match done {
        [only] if only.others.is_empty() => context.out.line(format_args!(
            "{} puts it back",
            hint("annals delete --undo=", &only.session, "")
        ))?,
        _ => context
            .out
            .line("`annals delete --list` shows them, `--undo ID` puts one back")?,
    }
    Ok(())
}

/// Says so where sessions are gone from their roots, or from the trash, and not from the archive.
pub(super) fn print_still_archived<'a>(
    gone: impl Iterator<Item = &'a TrashItem>,
    context: &mut Context,
) -> Result<()> {
    let archive = context.store.archive()?;
    let still: Vec<&str> = gone
        .flat_map(|trashed| trashed.sessions().map(move |session| (trashed, session)))
        .filter(|(it, session)| archive.has_session(&it.layout, &it.root, session))
        .map(|(_, session)| session)
        .collect();
    match still.as_slice() {
        [] => Ok(()),
        [only] => Ok(context.out.line(format_args!(
            "{} is still in the archive, and listed from there; {} removes it there too",
            paint(ID, only),
            hint("annals archive --forget", only, "--apply")
        ))?),
        many => Ok(context.out.line(format_args!(
            "{} of them are still in the archive, and listed from there; `annals archive --forget ID --apply` removes one there too",
            many.len()
        ))?),
    }
}

pub(super) fn find_sessions(ids: &[String], context: &mut Context) -> Result<Vec<SessionFiles>> {
    let inventory = context.inventory();
    let mut found: Vec<SessionFiles> = Vec::new();
    for id in ids {
        let id = &context.resolve_latest(&inventory, id, false)?.into_owned();
        let target = context.store.find(&inventory, id)?;
        target.refuse_agent()?;
        if target.message.is_some() {
            bail!("`{id}` names a message; only whole sessions can be deleted");
        }
        if !found
            .iter()
            .any(|files| is_same_session(files, &target.files))
        {
            found.push(target.files);
        }
    }
    Ok(found)
}

/// Several sessions may share a file, and several files a session's id.
pub(super) fn is_same_session(one: &SessionFiles, other: &SessionFiles) -> bool {
    one.id == other.id && one.main_path() == other.main_path()
}

/// Sessions whose present directory is the project's. A name that fits several projects is refused.
pub(super) fn project_sessions(wanted: &str, context: &mut Context) -> Result<Vec<SessionFiles>> {
    let inventory = context.inventory_without_archive();
    let mut sessions = context.sessions(&inventory);
    retain_project(wanted, &mut sessions)?;
    let files: BTreeSet<(&str, &Path)> = sessions
        .iter()
        .map(|session| (session.id.as_str(), session.file.as_path()))
        .collect();
    let keep = |found: &&SessionFiles| files.contains(&(found.id.as_str(), found.main_path()));
    Ok(inventory.sessions.iter().filter(keep).cloned().collect())
}

fn list_trash(context: &mut Context) -> Result<Outcome> {
    let trashed = context.store.trash_items()?;
    for trouble in &context.store.inspect_trash()?.errors {
        context.warn(trouble);
    }
    if context.json {
        context.out.json(&TrashJson {
            trashed: trashed.iter().map(TrashItemJson::new).collect(),
        })?;
    } else if trashed.is_empty() {
        context.out.line("The trash is empty.")?;
    } else {
        let short = ShortIds::new(trashed.iter().flat_map(TrashItem::sessions));
        let mut table = Table::new([
            Column::new("SESSION").style(ID),
            Column::new("DELETED").style(DIM),
            Column::new("FILES").right(),
            Column::new("SIZE").right(),
            Column::new("ROOT").min(8).cut_middle().style(PATH),
            Column::new("NAME")
                .min(12)
                .cut_middle()
                .priority(40)
                .style(DIM),
        ]);
        for row in &trashed {
            table.row([
                Cell::new(session_names(row, &short)),
                Cell::new(context.clock.ago(row.deleted)),
                Cell::new(size::count(row.files.len() as u64)),
                Cell::new(size::bytes(total_bytes(row))),
                Cell::new(row.root.display().to_string()),
                Cell::new(&row.id),
            ]);
        }
        context.out.text(table.render(context.out.width()))?;
    }
    Ok(if trashed.is_empty() {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

fn undo(id: &str, context: &mut Context) -> Result<Outcome> {
    if id.is_empty() {
        return Err(annals::Error::NotFound {
            what: "deleted session",
            id: String::new(),
        }
        .into());
    }
    let back = context.store.undelete(id)?;
    if context.json {
        let document = DeleteJson {
            applied: true,
            sessions: vec![TrashItemJson::new(&back)],
            files: back.files.len(),
            bytes: total_bytes(&back),
            failed: Vec::new(),
        };
        context.out.json(&document)?;
    } else {
        print_trash(context, std::slice::from_ref(&back))?;
        context.out.blank()?;
        context.out.line(format_args!(
            "{} put back into {}",
            paint(SUCCESS, "✓"),
            paint(PATH, &back.root.display().to_string())
        ))?;
    }
    Ok(Outcome::Ok)
}

fn print_trash(context: &mut Context, all: &[TrashItem]) -> Result<()> {
    let short = ShortIds::new(all.iter().flat_map(TrashItem::sessions));
    let mut table = Table::new([
        Column::new("SESSION").style(ID),
        Column::new("SIZE").right(),
        Column::new("FILE").min(20).cut_middle().style(PATH),
    ]);
    for trashed in all {
        if trashed.files.is_empty() && !trashed.is_folder() {
            // A session that only a session list named.
            let row = trashed.rows.first().map(|row| row.path.display());
            let row = row.map(|path| path.to_string()).unwrap_or_default();
            let name = Cell::new(session_names(trashed, &short));
            table.row([name, Cell::new(size::bytes(0)), Cell::new(row)]);
        }
        for (at, file) in trashed.files.iter().enumerate() {
            table.row([
                Cell::new(match at {
                    0 => session_names(trashed, &short),
                    _ => String::new(),
                }),
                Cell::new(size::bytes(file.bytes)),
                Cell::new(file.path.display().to_string()),
            ]);
        }
    }
    let table = table.render(context.out.width());
    context.out.text(table)?;
    Ok(())
}

fn session_names(trashed: &TrashItem, short: &ShortIds) -> String {
    let names: Vec<&str> = trashed
        .sessions()
        .map(|session| short.get(session))
        .collect();
    names.join(", ")
}

fn total_bytes(trashed: &TrashItem) -> u64 {
    trashed.files.iter().map(|file| file.bytes).sum()
}
