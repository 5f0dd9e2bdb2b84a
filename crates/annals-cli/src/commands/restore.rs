//! `annals restore`

use std::path::PathBuf;

use annals::archive::{ArchivedSession, RestoreOutcome, Restored, RestoredFile};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Serialize;

use super::{Outcome, choose};
use crate::context::{Context, is_unknown_archived};
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, ERROR, PATH, SUCCESS, WARNING, paint};
use annals_render::table::{Cell, Column, Table};

/// Restores archived sessions.
#[derive(Debug, Args)]
#[command(after_help = "\
Every file is restored byte for byte with its mode and time, to its old path or, with --to, to another \
root. Owners, extended attributes (user.*) and the modes of new directories are restored \
if permitted; what cannot be restored is listed. No existing file is overwritten: if one differs, \
nothing is changed. If a session's log is there already, its todos and the like stay as they are. \
The archive is not changed. Files that a live session lost come back where its program looks for \
them, even if the folder was renamed. Settings and other configuration are restored only with --also. \
Without --apply nothing changes, unlike `annals delete --undo`: files may get another path or root, an \
earlier version, or only their readable parts.

A session of another archive, named by the path of its compressed log, needs --to. Only conversation \
data is restored from it unless --also names more, as files that only you can read.

Examples:
  annals restore 8c549c46                    what would be restored
  annals restore 8c549c46 --apply
  annals restore 8c549c46 --to /tmp/look --apply
  annals archive --list 8c549c46             list earlier versions of its files
  annals restore 8c549c46 --earlier 2 --to /tmp/look --apply
  annals restore 8c549c46 --salvage --apply  what is readable of damaged files
  annals restore root --apply                files that belong to no session
  annals restore root --also settings.json --apply")]
pub(crate) struct RestoreArgs {
    /// The archived session: a prefix of its id, the path of its log, or that of its compressed log;
    /// `root` for files that belong to no session
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Restore into this root instead of its own
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Do it; without this, only the plan is shown
    #[arg(long)]
    apply: bool,
    /// Restore an earlier version of one file: its number in `annals archive --list SESSION`, else
    /// the one that was replaced last
    #[arg(long, value_name = "N", num_args = 0..=1)]
    earlier: Option<Option<usize>>,
    /// Restore what is readable of damaged files: whole files, and parts of logs
    #[arg(long)]
    salvage: bool,
    /// Also restore this file, or all below this directory: a path within the root that is held back
    /// otherwise
    #[arg(long, value_name = "PATH")]
    also: Vec<PathBuf>,
}

#[derive(Serialize)]
struct RestoreJson<'a> {
    applied: bool,
    #[serde(flatten)]
    restored: &'a Restored,
    bytes: u64,
}

pub(crate) fn run(args: &RestoreArgs, context: &mut Context) -> Result<Outcome> {
    let to = args.to.as_deref().map(std::path::absolute).transpose();
    let to = to.context("--to names no directory")?;
    let name = choose::archived_session(args.session.as_deref(), context)?;
    if args.apply {
        context.put_back_removed()?;
    }
    let mut found = find_session(&name, context)?.restore_also(&args.also)?;
    if let Some(number) = args.earlier {
        found = with_earlier_version(&found, number)?;
    }
    if !args.salvage {
        for damage in found.missing_data() {
            context.store.failures().report(damage.into());
        }
    }
    let to = to.as_deref();
    let restored = match (args.apply, args.salvage) {
        (true, false) => found.restore(to)?,
        (false, false) => found.plan_restore(to)?,
        (true, true) => found.restore_salvaged(to)?,
        (false, true) => found.plan_salvage(to)?,
    };
    if context.json {
        context.out.json(&RestoreJson {
            applied: args.apply,
            restored: &restored,
            bytes: restored.bytes(),
        })?;
    } else {
        print_restored(args.apply, &restored, context)?;
        print_not_restored(args.apply, &restored, context)?;
        print_damage(&restored, context)?;
    }
    let sound = restored.damaged().next().is_none();
    Ok(match sound && restored.conflicts().next().is_none() {
        true => Outcome::Ok,
        false => Outcome::NotFound,
    })
}

/// Finds what is archived of a session.
fn find_session(name: &str, context: &mut Context) -> Result<ArchivedSession> {
    let session = context.latest_archived_id(name)?;
    let find = |session: &str, context: &Context| {
        let found = context.store.find_to_restore(session, context.only_roots());
        found.map_err(anyhow::Error::from)
    };
    let error = match find(&session, context) {
        Err(error) if is_unknown_archived(&error) => error,
        found => return found,
    };
    let titled = context.archived_by_title(&session)?;
    if titled != session {
        return find(&titled, context);
    }
    Err(match context.deleted_session(name) {
        Some(deleted) => deleted.into(),
        None => error,
    })
}

/// Returns the session with an earlier version of a file in place of the newest.
fn with_earlier_version(found: &ArchivedSession, number: Option<usize>) -> Result<ArchivedSession> {
    let count = found.earlier.len();
    if count == 0 {
        bail!("no earlier versions of its files are archived");
    }
    let Some(earlier) = found.with_earlier_version(number.unwrap_or(count)) else {
        bail!(
            "there {} archived; `annals archive --list SESSION` shows them",
            match count {
                1 => "is 1 earlier version".to_owned(),
                _ => format!("are {count} earlier versions"),
            }
        );
    };
    Ok(earlier)
}

/// Prints what is damaged or lost, so that an incomplete file is not taken for a whole one.
fn print_damage(restored: &Restored, context: &mut Context) -> Result<()> {
    for file in restored.damaged() {
        if let Some(then) = file.earlier {
            let path = file.path.display().to_string();
            let then = context.clock.full(then);
            context.out.line(format_args!(
                "{} {}: changes since {then}; the readable version is of that time",
                paint(ERROR, "lost"),
                paint(PATH, &path)
            ))?;
        }
        if file.lost.is_empty() {
            continue;
        }
        let stretches = file.lost.iter().map(|(at, len)| match len {
            len if *len == file.bytes => "all of it".to_owned(),
            len => format!("{} from byte {at}", size::bytes(*len)),
        });
        let stretches: Vec<String> = stretches.collect();
        let path = file.path.display().to_string();
        context.out.line(format_args!(
            "{} {}: {}",
            paint(ERROR, "lost"),
            paint(PATH, &path),
            stretches.join(", ")
        ))?;
    }
    if restored
        .damaged()
        .any(|file| file.fate == RestoreOutcome::Partial)
    {
        context
            .out
            .line("`annals repair` repairs the lines that were cut by the loss")?;
    }
    Ok(())
}

/// Prints attributes of files and directories that are not restored.
fn print_not_restored(applied: bool, restored: &Restored, context: &mut Context) -> Result<()> {
    let files = restored.files.iter();
    let files = files.map(|file| (&file.path, &file.not_restored));
    let dirs = restored.dirs.iter();
    let all = files.chain(dirs.map(|dir| (&dir.path, &dir.not_restored)));
    let label = match applied {
        true => "not restored",
        false => "cannot be restored",
    };
    for (path, left) in all.filter(|(_, left)| !left.is_empty()) {
        let path = path.display().to_string();
        context.out.line(format_args!(
            "{} {}: {}",
            paint(WARNING, label),
            paint(PATH, &path),
            left.join(", ")
        ))?;
    }
    Ok(())
}

fn print_restored(applied: bool, restored: &Restored, context: &mut Context) -> Result<()> {
    let mut table = Table::new([
        Column::new("SIZE").right(),
        Column::new("STATE"),
        Column::new("FILE").min(20).cut_middle().style(PATH),
    ]);
    for file in &restored.files {
        table.row([
            Cell::new(size::bytes(file.bytes)),
            Cell::new(match (file.fate, applied) {
                (RestoreOutcome::New, true) => "restored",
                (RestoreOutcome::New, false) => "to be restored",
                (RestoreOutcome::Same, _) => "exists already",
                (RestoreOutcome::Grown, _) => "exists, and has grown",
                (RestoreOutcome::Different, _) => "a different file exists",
                (RestoreOutcome::Left, _) => "a different file exists, and stays",
                (RestoreOutcome::Earlier, true) => "restored, earlier version",
                (RestoreOutcome::Earlier, false) => "to be restored, earlier version",
                (RestoreOutcome::Partial, true) => "restored in part",
                (RestoreOutcome::Partial, false) => "to be restored in part",
                (RestoreOutcome::Held, _) => "held back; --also restores it",
                (RestoreOutcome::Lost, _) => "lost",
            }),
            Cell::new(file.path.display().to_string()),
        ]);
    }
    context.out.text(table.render(context.out.width()))?;
    context.out.blank()?;
    let root = paint(PATH, &restored.root.display().to_string()).to_string();
    let is_there =
        |file: &RestoredFile| matches!(file.fate, RestoreOutcome::Same | RestoreOutcome::Grown);
    if restored.files.iter().all(is_there) {
        let bytes = restored.files.iter().map(|file| file.bytes).sum();
        let files = pluralize(restored.files.len() as u64, "file");
        let sum = format!("{files}, {}", size::bytes(bytes));
        return Ok(context
            .out
            .line(format_args!("Everything is in {root} already: {sum}"))?);
    }
    let stays = |file: &RestoredFile| {
        is_there(file) || matches!(file.fate, RestoreOutcome::Left | RestoreOutcome::Held)
    };
    let is_held = |file: &RestoredFile| file.fate == RestoreOutcome::Held;
    if restored.files.iter().all(stays) && restored.files.iter().any(is_held) {
        return Ok(context
            .out
            .line("Nothing else is missing. --also PATH restores what is held back.")?);
    }
    if restored.files.iter().all(stays) {
        return Ok(context
            .out
            .line("Nothing is missing. --to DIR restores differing files into another root.")?);
    }
    if restored.is_lost() {
        return Ok(context
            .out
            .line("Nothing is readable, so nothing can be restored.")?);
    }
    if restored
        .files
        .iter()
        .any(|file| file.fate == RestoreOutcome::Left)
    {
        context.out.line(
            "Existing files that differ stay. --to DIR restores the archived ones into another root.",
        )?;
    }
    let put = |file: &&RestoredFile| file.is_restored();
    let sum = format!(
        "{}, {}",
        pluralize(restored.files.iter().filter(put).count() as u64, "file"),
        size::bytes(restored.bytes())
    );
    if applied {
        let cut = |file: &RestoredFile| {
            matches!(
                file.fate,
                RestoreOutcome::Partial | RestoreOutcome::Lost | RestoreOutcome::Earlier
            )
        };
        let mark = match restored.files.iter().any(cut) {
            true => paint(ERROR, "✗ not everything was"),
            false => paint(SUCCESS, "✓"),
        };
        return Ok(context
            .out
            .line(format_args!("{mark} restored to {root}: {sum}"))?);
    }
    if restored.conflicts().next().is_some() {
        return Ok(context.out.line(
            "Cannot restore: different files exist at its paths. --to DIR restores into another root.",
        )?);
    }
    context.out.line(format_args!(
        "{} {root}: {sum}",
        paint(BOLD, "Would be restored to")
    ))?;
    context
        .out
        .line("Nothing was changed; add --apply to do it.")?;
    Ok(())
}
