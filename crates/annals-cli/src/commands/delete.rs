//! `annals delete`

use std::collections::BTreeSet;
use std::path::Path;

use annals::Subject;
use annals::store::{SessionFiles, TrashItem};
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::filter::retain_project;
use super::fit::fit_title;
use super::{Outcome, choose};
use crate::context::{Context, whole_session};
use annals::view::{ShortIds, TrashRow};
use annals_render::command::styled_command;
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, DIM, ID, PATH, SUCCESS, paint};
use annals_render::table::{Cell, Column, Table};

/// Moves sessions to the trash.
#[derive(Debug, Args)]
#[command(after_help = "\
A session is moved with everything that belongs to it: sub-agents, todos, saved files, long outputs. \
Nothing is moved without --apply. --undo restores a session and needs no --apply: it overwrites \
nothing, and the session can be deleted again.

Examples:
  annals delete 8c549c46                       what would be moved
  annals delete 8c549c46 --apply
  annals delete --project my-app --apply       all sessions of a project
  annals delete --list
  annals delete --undo 8c549c46")]
pub(crate) struct DeleteArgs {
    /// The sessions
    #[arg(value_name = "SESSION")]
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
    /// Do it; without this, only the plan is shown
    #[arg(long)]
    apply: bool,
    /// Also sessions that another program is writing to right now
    #[arg(long)]
    live: bool,
    /// Also pinned sessions
    #[arg(long)]
    pinned: bool,
    /// List the trash
    #[arg(long, conflicts_with_all = ["sessions", "project", "apply", "undo"])]
    list: bool,
    /// Restore a deleted session, by id or by name in the trash
    #[arg(long, value_name = "ID", conflicts_with_all = ["sessions", "project"])]
    undo: Option<String>,
}

#[derive(Serialize)]
struct DeleteJson {
    applied: bool,
    sessions: Vec<TrashRow>,
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
struct TrashJson<'a> {
    trashed: &'a [TrashRow],
}

pub(crate) fn run(args: &DeleteArgs, context: &mut Context) -> Result<Outcome> {
    if args.list {
        return list_trash(context);
    }
    if let Some(id) = &args.undo {
        return undo(id, context);
    }
    let picked = match (&args.project, args.sessions.is_empty()) {
        (None, true) => Some(choose::session(None, context)?),
        _ => None,
    };
    if args.apply {
        context.put_back_removed()?;
    }
    let wanted = match (&args.project, &picked) {
        (Some(project), _) => project_sessions(project, context)?,
        (None, Some(picked)) => find_sessions(std::slice::from_ref(picked), context)?,
        (None, None) => find_sessions(&args.sessions, context)?,
    };
    if !args.pinned {
        refuse_pinned(&wanted, context)?;
    }
    let now = context.clock.now;
    let named: Vec<&SessionFiles> = wanted.iter().collect();
    let groups = SessionFiles::group_by_shared_files(&named);
    let split = groups.iter().filter_map(|group| group.split_first());
    let plans: Vec<TrashItem> = split
        .map(|(first, others)| context.store.trash().plan_group(first, others, now))
        .collect::<Result<_, _>>()?;
    let (done, failed) = if args.apply {
        delete_groups(context, &groups, args.live)
    } else {
        (plans, Vec::new())
    };
    if context.json {
        let document = DeleteJson {
            applied: args.apply,
            sessions: done.iter().cloned().map(TrashRow::new).collect(),
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
    // Moved sessions are printed before errors: they are in the trash even if others failed.
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

/// Returns an error if a session is pinned.
fn refuse_pinned(wanted: &[SessionFiles], context: &Context) -> Result<()> {
    let pins = context.store.retention().pins()?;
    let pinned = wanted.iter().filter(|files| pins.contains_files(files));
    let pinned: Vec<&str> = pinned.map(|files| files.id.as_str()).collect();
    match pinned.as_slice() {
        [] => Ok(()),
        [only] => bail!("session {only} is pinned; add --pinned to delete it anyway"),
        [first, rest @ ..] => bail!(
            "session {first} and {} are pinned; add --pinned to delete them anyway",
            pluralize(rest.len() as u64, "other")
        ),
    }
}

/// Moves sessions one by one, those that share files together. A failure does not stop the others.
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
            false => all.try_for_each(|files| files.ensure_not_in_use()),
        };
        let moved = free.and_then(|()| {
            let now = context.clock.now;
            context.store.trash().move_group_in(first, others, now)
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
            "{} restores it",
            styled_command("annals delete --undo=", &only.session, "")
        ))?,
        _ => context
            .out
            .line("`annals delete --list` shows them, `--undo ID` restores one")?,
    }
    Ok(())
}

/// Prints which deleted or purged sessions are still in the archive.
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
            "{} is still in the archive and listed from there; {} deletes it there too",
            paint(ID, only),
            styled_command("annals archive --forget", only, "--apply")
        ))?),
        many => Ok(context.out.line(format_args!(
            "{} of them are still in the archive and listed from there; `annals archive --forget ID --apply` deletes one there too",
            many.len()
        ))?),
    }
}

pub(super) fn find_sessions(ids: &[String], context: &mut Context) -> Result<Vec<SessionFiles>> {
    let inventory = context.inventory();
    let mut found: Vec<SessionFiles> = Vec::new();
    for id in ids {
        let session = whole_session(context.find_to_write_in(&inventory, id)?, id)?;
        if !found.iter().any(|files| is_same_session(files, &session)) {
            found.push(session);
        }
    }
    Ok(found)
}

/// Compares both id and log: sessions may share a file, and files may share an id.
pub(super) fn is_same_session(one: &SessionFiles, other: &SessionFiles) -> bool {
    one.id == other.id && one.main_path() == other.main_path()
}

/// Returns the sessions whose current directory is the project's. A name that matches several
/// projects is an error.
pub(super) fn project_sessions(wanted: &str, context: &mut Context) -> Result<Vec<SessionFiles>> {
    let inventory = context.inventory_without_archive();
    let mut sessions = context.sessions(&inventory);
    retain_project(wanted, &mut sessions)
        .map_err(|error| context.explain_empty_home(&inventory, error))?;
    let files: BTreeSet<(&str, &Path)> = sessions
        .iter()
        .map(|session| (session.id.as_str(), session.file.as_path()))
        .collect();
    let keep = |found: &&SessionFiles| files.contains(&(found.id.as_str(), found.main_path()));
    Ok(inventory.sessions.iter().filter(keep).cloned().collect())
}

fn list_trash(context: &mut Context) -> Result<Outcome> {
    let trashed = TrashRow::list(&context.store)?;
    for trouble in &context.store.trash().contents()?.errors {
        context.warn(trouble);
    }
    if context.json {
        context.out.json(&TrashJson { trashed: &trashed })?;
    } else if trashed.is_empty() {
        context.out.line("The trash is empty.")?;
    } else {
        let short = ShortIds::new(trashed.iter().flat_map(|row| row.item.sessions()));
        let mut table = Table::new([
            Column::new("SESSION").style(ID),
            Column::new("DELETED").style(DIM),
            Column::new("TITLE").min(12).max(40),
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
                Cell::new(session_names(&row.item, &short)),
                Cell::new(context.clock.ago(row.item.deleted)),
                Cell::new(fit_title(
                    row.title.as_deref().unwrap_or_default(),
                    0,
                    context,
                )),
                Cell::new(size::count(row.item.files.len() as u64)),
                Cell::new(size::bytes(row.bytes)),
                Cell::new(row.item.root.display().to_string()),
                Cell::new(&row.item.id),
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
            what: Subject::DeletedSession,
            id: String::new(),
        }
        .into());
    }
    context.put_back_removed()?;
    let back = context
        .store
        .trash()
        .restore(&context.resolve_deleted(id)?)?;
    if context.json {
        let document = DeleteJson {
            applied: true,
            sessions: vec![TrashRow::new(back.clone())],
            files: back.files.len(),
            bytes: total_bytes(&back),
            failed: Vec::new(),
        };
        context.out.json(&document)?;
    } else {
        print_trash(context, std::slice::from_ref(&back))?;
        context.out.blank()?;
        context.out.line(format_args!(
            "{} restored to {}",
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
            // A session that exists only in a session list.
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
