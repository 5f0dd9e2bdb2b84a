//! `annals keep`

use annals::archive::{ArchiveAllOptions, ArchiveAllReport};
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::overview::print_no_live_sessions;
use super::{Outcome, archive};
use crate::context::Context;
use crate::terminal::progress::Progress;
use annals_render::size::{self, pluralize};
use annals_render::style::{ERROR, PLAIN, SUCCESS, paint};

/// Mirrors everything into the archive and checks it.
#[derive(Debug, Args)]
#[command(after_help = "\
Unchanged sessions are only looked at, not read. What is written is verified at once; \
older ones are verified in turn, each about once in 30 days. Nothing is ever removed. \
Exit code 1: something in the archive is damaged. 2: something could not be archived or \
read. A damaged file in the archive is replaced by the next run if it is intact in its root. \
docs/KEEP.md has timers for systemd, launchd and cron.

Examples:
  annals keep                 copy, verify, report
  annals keep -q              the same, silent if nothing happened
  annals keep --verify-all    verify the whole archive")]
pub(crate) struct KeepArgs {
    /// Print nothing unless something was archived or is wrong; --json always prints
    #[arg(long, short)]
    quiet: bool,
    /// Verify the whole archive, not only the part that is due
    #[arg(long)]
    verify_all: bool,
}

#[derive(Serialize)]
struct KeepJson<'a> {
    ok: bool,
    #[serde(flatten)]
    kept: &'a ArchiveAllReport,
    #[cfg(feature = "hub")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pushed: Option<super::push::PushJson>,
}

pub(crate) fn run(args: &KeepArgs, context: &mut Context) -> Result<Outcome> {
    context.try_put_back_removed_in(context.store.roots().to_vec());
    let inventory = context.inventory_without_archive();
    let progress = Progress::new("archiving");
    let set_progress = |done, total| progress.set(done, total);
    let options = ArchiveAllOptions {
        verify_all: args.verify_all,
    };
    let now = context.clock.now;
    let kept = context
        .store
        .archive_all(&inventory, options, now, &set_progress);
    drop(progress);
    let kept = kept?;
    let sound = kept.damaged().is_empty();
    let has_sessions = inventory.sessions.len() > kept.in_databases;
    #[cfg(feature = "hub")]
    let pushed = super::push::push_kept(&inventory, context)?;
    if context.json {
        context.out.json(&KeepJson {
            ok: kept.is_ok() && has_sessions,
            kept: &kept,
            #[cfg(feature = "hub")]
            pushed: pushed.as_ref().map(super::push::HubPush::json),
        })?;
    } else if !kept.is_ok() || (has_sessions && !(args.quiet && kept.is_noop())) {
        print_report(&kept, context)?;
    }
    #[cfg(feature = "hub")]
    if let Some(pushed) = pushed.filter(|_| !context.json) {
        pushed.print(args.quiet, context)?;
    }
    archive::warn_unread(kept.damaged(), context);
    for failed in &kept.failed {
        let text = format!("{} was not archived: {}", failed.session, failed.error);
        context.warn(&annals::Error::refused(text));
    }
    // Errors of the inventory were reported already.
    for trouble in kept.troubles.iter().skip(inventory.errors.len()) {
        context.warn(&annals::Error::refused(trouble.clone()));
    }
    if !inventory.errors.is_empty() {
        // Other commands treat a missing root as empty; here it means that sessions are not
        // archived.
        bail!(match inventory.errors.len() {
            1 => "1 place could not be read and is not archived".to_owned(),
            count => format!("{count} places could not be read and are not archived"),
        });
    }
    if !has_sessions && kept.in_databases > 0 && !context.json {
        let sessions = pluralize(kept.in_databases as u64, "session");
        context.out.line(format_args!(
            "Nothing was archived: {sessions} in databases of their programs, which annals does not copy. \
             `annals export` and `annals convert` copy them."
        ))?;
    } else if !has_sessions && !context.json {
        // A timer must report that the sessions vanished, so this is printed with --quiet too.
        print_no_live_sessions(context)?;
    }
    Ok(match sound && has_sessions {
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
    if kept.in_databases > 0 {
        parts.push(format!("{} in databases not archived", kept.in_databases));
    }
    if kept.verified.packs > 0 {
        parts.push(format!(
            "{} verified",
            pluralize(kept.verified.packs as u64, "older session")
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
        parts.push(pluralize(kept.troubles.len() as u64, "error"));
    }
    let text = parts.join(", ");
    context
        .out
        .line(format_args!("{mark} {}", paint(PLAIN, &text)))?;
    Ok(())
}
