//! `annals restore`

use std::path::{Path, PathBuf};

use annals::archive::{Pack, RestoreOutcome, RestoreSources, Restored, RestoredFile};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Serialize;

use super::Outcome;
use crate::context::Context;
use crate::render::size::{self, pluralize};
use crate::render::style::{BOLD, ERROR, PATH, SUCCESS, WARNING, paint};
use crate::render::table::{Cell, Column, Table};

/// Puts archived sessions back.
#[derive(Debug, Args)]
#[command(after_help = "\
Every file comes back byte for byte with its mode and time, to where it was or, with --to, to another
root. Owners, extended attributes (user.*) and the modes of directories that are made anew come back
where that is allowed; what cannot be restored is listed. Nothing that is there is written over: if another file is in the place of any, nothing is
changed; only documents of a session whose log is there, as todos are, may be others, and stay.
The archive keeps what it has. What a session that lives lost comes back where it looks for it,
also if its folder was renamed since. Settings and other configuration come back only with --also.
Without --apply nothing changes.

A pack that is not in the archive, named by its path, needs --to. Only conversation data comes back
from it unless --also names more, as files that only you can read.

Examples:
  annals restore 8c549c46                      what would be put back
  annals restore 8c549c46 --apply
  annals restore 8c549c46 --to /tmp/look --apply
  annals archive --list 8c549c46               which earlier versions of its files there are
  annals restore 8c549c46 --earlier 2 --to /tmp/look --apply
  annals restore 8c549c46 --salvage --apply    what can be read of a damaged archive
  annals restore root --apply                  what belongs to no session, where it is missing
  annals restore root --also settings.json --apply")]
pub(crate) struct RestoreArgs {
    /// The archived session: a beginning of its id, the path of its log, or that of its pack; `root` for
    /// what belongs to no session
    #[arg(value_name = "SESSION")]
    session: String,
    /// Put it into this root instead of its own
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Do it
    #[arg(long)]
    apply: bool,
    /// With an earlier version of one of its files: its number in `annals archive --list SESSION`, else
    /// the last one that was replaced
    #[arg(long, value_name = "N", num_args = 0..=1)]
    earlier: Option<Option<usize>>,
    /// From a damaged archive, put back what can be read: whole files, and of logs what is left
    #[arg(long)]
    salvage: bool,
    /// Also put back this file, or all below this directory: a path within the root that is held back
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
    /// What is wrong with the archive itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<&'a str>,
}

pub(crate) fn run(args: &RestoreArgs, context: &mut Context) -> Result<Outcome> {
    let to = args.to.as_deref().map(std::path::absolute).transpose();
    let to = to.context("--to names no directory")?;
    if args.apply {
        context.put_back_removed()?;
    }
    let session = context.resolve_latest_id(&args.session)?;
    let roots = context.only_roots();
    let (mut found, damage) = match args.salvage {
        false => (context.store.find_restore_sources(&session, roots)?, None),
        true => {
            let found = context.store.archive()?.find_salvageable(&session, roots)?;
            (RestoreSources::from(found.pack), found.damage)
        }
    };
    found.pack = found.pack.restore_also(&args.also)?;
    if let Some(number) = args.earlier {
        found.pack = with_earlier_version(&found.pack, number)?;
    }
    let to = to.as_deref();
    let restored = match (args.apply, args.salvage) {
        (true, false) => found.restore(to)?,
        (false, false) => found.plan_restore(to)?,
        (true, true) => found.pack.restore_salvaged(to)?,
        (false, true) => found.pack.plan_salvage(to)?,
    };
    if context.json {
        context.out.json(&RestoreJson {
            applied: args.apply,
            restored: &restored,
            bytes: restored.bytes(),
            damage: damage.as_deref(),
        })?;
    } else {
        print_restored(args.apply, &restored, context)?;
        print_not_restored(args.apply, &restored, context)?;
        print_damage(&found.pack.path, damage.as_deref(), &restored, context)?;
    }
    let sound = damage.is_none() && restored.damaged().next().is_none();
    Ok(match sound && restored.conflicts().next().is_none() {
        true => Outcome::Ok,
        false => Outcome::NotFound,
    })
}

/// The pack with an earlier version of a file in the newest one's place.
fn with_earlier_version(pack: &Pack, number: Option<usize>) -> Result<Pack> {
    let count = pack.earlier_versions().len();
    if count == 0 {
        bail!("no earlier versions of its files are archived");
    }
    let Some(earlier) = pack.with_earlier_version(number.unwrap_or(count)) else {
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

/// Says what is not as it was archived, so that nothing is taken for whole that is not.
fn print_damage(
    pack: &Path,
    damage: Option<&str>,
    restored: &Restored,
    context: &mut Context,
) -> Result<()> {
    if let Some(damage) = damage {
        let pack = pack.display().to_string();
        context.out.line(format_args!(
            "{} {}: {damage}; what it still holds is listed above",
            paint(ERROR, "damaged"),
            paint(PATH, &pack)
        ))?;
    }
    for file in restored.damaged() {
        if let Some(then) = file.earlier {
            let path = file.path.display().to_string();
            let then = context.clock.full(then);
            context.out.line(format_args!(
                "{} {}: what was added or changed since {then}; what can be read is of then",
                paint(ERROR, "lost"),
                paint(PATH, &path)
            ))?;
        }
        if file.lost.is_empty() {
            continue;
        }
        let stretches = file.lost.iter().map(|(at, len)| match len {
            len if *len == file.bytes => "all of it".to_owned(),
            len => format!("{} from byte {at} on", size::bytes(*len)),
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
            .line("`annals repair` mends the lines that were cut where something is lost")?;
    }
    Ok(())
}

/// Prints what beside the content of files does not come back.
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
                (RestoreOutcome::New, true) => "put back",
                (RestoreOutcome::New, false) => "to be put back",
                (RestoreOutcome::Same, _) => "there already",
                (RestoreOutcome::Grown, _) => "there, and went on since",
                (RestoreOutcome::Different, _) => "another is there",
                (RestoreOutcome::Left, _) => "another is there, and stays",
                (RestoreOutcome::Earlier, true) => "put back as it was earlier",
                (RestoreOutcome::Earlier, false) => "to be put back as it was earlier",
                (RestoreOutcome::Partial, true) => "put back in part",
                (RestoreOutcome::Partial, false) => "to be put back in part",
                (RestoreOutcome::Held, _) => "held back; --also puts it back",
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
            .line(format_args!("All of it is in {root} already: {sum}"))?);
    }
    let stays = |file: &RestoredFile| {
        is_there(file) || matches!(file.fate, RestoreOutcome::Left | RestoreOutcome::Held)
    };
    let is_held = |file: &RestoredFile| file.fate == RestoreOutcome::Held;
    if restored.files.iter().all(stays) && restored.files.iter().any(is_held) {
        return Ok(context
            .out
            .line("Nothing else is missing there. --also PATH puts back what is held back.")?);
    }
    if restored.files.iter().all(stays) {
        return Ok(context
            .out
            .line("Nothing is missing there. --to DIR puts what differs into another root.")?);
    }
    if restored.is_lost() {
        return Ok(context
            .out
            .line("Nothing of it can be read any more, so nothing can be put back.")?);
    }
    if restored
        .files
        .iter()
        .any(|file| file.fate == RestoreOutcome::Left)
    {
        context.out.line(
            "Files that are there and differ stay; the archive keeps the others. --to DIR puts those elsewhere.",
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
            true => paint(ERROR, "✗ not all of it was"),
            false => paint(SUCCESS, "✓"),
        };
        return Ok(context
            .out
            .line(format_args!("{mark} put back into {root}: {sum}"))?);
    }
    if restored.conflicts().next().is_some() {
        return Ok(context.out.line(
            "It cannot be put back there: other files are in its place. --to DIR puts it elsewhere.",
        )?);
    }
    context.out.line(format_args!(
        "{} {root}: {sum}",
        paint(BOLD, "Would be put back into")
    ))?;
    context
        .out
        .line("Nothing was changed; add --apply to do it.")?;
    Ok(())
}
