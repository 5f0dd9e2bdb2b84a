//! `annals keep`

use annals::archive::{ArchiveAllOptions, ArchiveAllReport};
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::{Outcome, archive};
use crate::context::Context;
use crate::render::progress::Progress;
use crate::render::size::{self, pluralize};
use crate::render::style::{ERROR, PLAIN, SUCCESS, paint};

/// Mirrors everything into the archive and checks it.
#[derive(Debug, Args)]
#[command(after_help = "\
Sessions that have not changed cost a look at their files. What is written is read back at once;
older archives are read back in turn, all of them about once in 30 days. Nothing is ever removed.
Exit code 1 says that something in the archive is damaged, 2 that something could not be archived or
looked at. What is damaged in the archive and sound in its root is taken from there by the next run.
docs/KEEP.md has timers for systemd, launchd and cron.

Examples:
  annals keep                 mirror, check, say what was done
  annals keep -q              the same, silent if there is nothing to say
  annals keep --verify-all    read the whole archive back")]
pub(crate) struct KeepArgs {
    /// Say nothing unless something was archived or is wrong; with --json the document comes all the same
    #[arg(long, short)]
    quiet: bool,
    /// Read the whole archive back, not only the part whose turn it is
    #[arg(long)]
    verify_all: bool,
}

#[derive(Serialize)]
struct KeepJson<'a> {
    ok: bool,
    #[serde(flatten)]
    kept: &'a ArchiveAllReport,
}

pub(crate) fn run(args: &KeepArgs, context: &mut Context) -> Result<Outcome> {
    let inventory = context.inventory_without_archive();
    let progress = Progress::new("archiving");
    let told = |done, total| progress.set(done, total);
    let options = ArchiveAllOptions {
        verify_all: args.verify_all,
    };
    let now = context.clock.now;
    let kept = context.store.archive_all(&inventory, options, now, &told);
    drop(progress);
    let kept = kept?;
    let sound = kept.damaged().is_empty();
    if context.json {
        context.out.json(&KeepJson {
            ok: kept.is_ok(),
            kept: &kept,
        })?;
    } else if !args.quiet || !kept.is_noop() {
        print_report(&kept, context)?;
    }
    archive::warn_unread(kept.damaged(), context);
    for failed in &kept.failed {
        let text = format!("{} was not archived: {}", failed.session, failed.error);
        context.warn(&annals::Error::refused(text));
    }
    // Those of the inventory are told already.
    for trouble in kept.troubles.iter().skip(inventory.errors.len()) {
        context.warn(&annals::Error::refused(trouble.clone()));
    }
    if !inventory.errors.is_empty() {
        // Elsewhere a root that is not there is as good as an empty one; who keeps it wants it kept.
        bail!(match inventory.errors.len() {
            1 => "something could not be looked at, and is not archived".to_owned(),
            count => format!("{count} places could not be looked at, and are not archived"),
        });
    }
    Ok(match sound {
        true => Outcome::Ok,
        false => Outcome::NotFound,
    })
}

fn print_report(kept: &ArchiveAllReport, context: &mut Context) -> Result<()> {
    archive::print_damage(kept.damaged(), context)?;
    let mark = match kept.is_ok() {
        true => paint(SUCCESS, "✓"),
        false => paint(ERROR, "✗"),
    };
    let archived = kept.archived.iter().map(|it| it.sessions.len() as u64);
    let mut parts = vec![format!(
        "{} archived ({} added), {} unchanged",
        pluralize(archived.sum(), "session"),
        size::bytes(kept.added),
        size::count(kept.unchanged as u64)
    )];
    if kept.verified.packs > 0 {
        parts.push(format!(
            "{} read back",
            pluralize(kept.verified.packs as u64, "older pack")
        ));
    }
    if !kept.damaged().is_empty() {
        parts.push(format!(
            "{} found",
            pluralize(kept.damaged().len() as u64, "fault")
        ));
    }
    if !kept.failed.is_empty() {
        parts.push(format!("{} failed", kept.failed.len()));
    }
    if !kept.troubles.is_empty() {
        parts.push(pluralize(kept.troubles.len() as u64, "trouble"));
    }
    let text = parts.join(", ");
    context
        .out
        .line(format_args!("{mark} {}", paint(PLAIN, &text)))?;
    Ok(())
}
