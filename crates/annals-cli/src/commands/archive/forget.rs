//! `annals archive --forget`: deletes archived sessions permanently.

use annals::archive::ArchiveRemoval;
use anyhow::{Result, bail};
use serde::Serialize;

use super::list::session_label;
use super::{ArchiveArgs, Failed};
use crate::commands::Outcome;
use crate::context::Context;
use annals::view::ShortIds;
use annals_render::command::styled_command;
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, ERROR, ID, PATH, PLAIN, SUCCESS, paint};
use annals_render::table::{Cell, Column, Table};

#[derive(Serialize)]
struct ForgetJson<'a> {
    applied: bool,
    forgotten: &'a [ArchiveRemoval],
    files: usize,
    bytes: u64,
    packed: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Failed>,
}

pub(super) fn run(args: &ArchiveArgs, named: &[String], context: &mut Context) -> Result<Outcome> {
    let archive = context.store.archive()?;
    let mut plans = archive.plan_removals(named, context.only_roots())?;
    refuse_pinned(args, &plans, context)?;
    let mut failed = Vec::new();
    if args.apply {
        plans.retain(|plan| match archive.remove_session(plan) {
            Ok(()) => true,
            Err(error) => {
                failed.push((plan.pack.display().to_string(), error));
                false
            }
        });
    }
    if context.json {
        let failed = failed.iter().map(|(session, error)| Failed {
            session: session.clone(),
            error: error.to_string(),
        });
        context.out.json(&ForgetJson {
            applied: args.apply,
            forgotten: &plans,
            files: plans.iter().map(|plan| plan.files).sum(),
            bytes: plans.iter().map(|plan| plan.bytes).sum(),
            packed: plans.iter().map(|plan| plan.packed).sum(),
            failed: failed.collect(),
        })?;
    } else if !plans.is_empty() {
        print_removals(args.apply, &plans, context)?;
    }
    let mut failed = failed.into_iter().map(|(_, error)| error);
    let Some(first) = failed.next() else {
        return Ok(Outcome::Ok);
    };
    failed.for_each(|error| context.warn(&error));
    Err(first.into())
}

/// Returns an error if a session is pinned.
fn refuse_pinned(args: &ArchiveArgs, plans: &[ArchiveRemoval], context: &Context) -> Result<()> {
    if args.pinned {
        return Ok(());
    }
    let pins = context.store.retention().pins()?;
    for plan in plans {
        let (Some(layout), Some(root)) = (&plan.layout, &plan.root) else {
            continue;
        };
        let mut sessions = plan.sessions.iter();
        if let Some(pinned) = sessions.find(|session| pins.contains(layout, root, session)) {
            bail!("session {pinned} is pinned; add --pinned to forget it anyway");
        }
    }
    Ok(())
}

fn print_removals(applied: bool, plans: &[ArchiveRemoval], context: &mut Context) -> Result<()> {
    let short = ShortIds::new(
        plans
            .iter()
            .flat_map(|it| it.sessions.iter().map(String::as_str)),
    );
    let mut table = Table::new([
        Column::new("SESSION").style(ID),
        Column::new("FILES").right(),
        Column::new("EARLIER").right(),
        Column::new("SIZE").right(),
        Column::new("PACKED").right(),
        Column::new("OTHER COPY"),
        Column::new("ARCHIVE FILE").min(20).cut_middle().style(PATH),
    ]);
    for plan in plans {
        let names: Vec<&str> = plan.sessions.iter().map(|id| short.get(id)).collect();
        table.row([
            match &plan.damaged {
                None => Cell::new(session_label(&names)),
                Some(_) => Cell::styled(format!("{} (damaged)", session_label(&names)), ERROR),
            },
            Cell::new(size::count(plan.files as u64)),
            Cell::new(size::count(plan.earlier as u64)),
            Cell::new(size::bytes(plan.bytes)),
            Cell::new(size::bytes(plan.packed)),
            match plan.only {
                0 if plan.repeated == 0 => Cell::new("in its root"),
                0 if plan.repeated == plan.files => Cell::new("in the archive"),
                0 => Cell::new("in its root and the archive"),
                only if only == plan.files => Cell::styled("none", ERROR),
                only => {
                    let files = pluralize(only as u64, "file");
                    Cell::styled(format!("none for {files}"), ERROR)
                }
            },
            Cell::new(plan.pack.display().to_string()),
        ]);
    }
    context.out.text(table.render(context.out.width()))?;
    context.out.blank()?;
    let sum = format!(
        "{}, {}",
        pluralize(plans.len() as u64, "archived session"),
        size::bytes(plans.iter().map(|plan| plan.packed).sum())
    );
    if applied {
        let mark = paint(SUCCESS, "✓");
        context
            .out
            .line(format_args!("{mark} deleted permanently: {sum}"))?;
        if plans
            .iter()
            .any(|plan| plan.only + plan.repeated < plan.files)
        {
            context
                .out
                .line("`annals keep` archives the files again that are still in their root")?;
        }
        return Ok(());
    }
    for plan in plans.iter().filter(|plan| plan.only > 0) {
        let names: Vec<&str> = plan.sessions.iter().map(String::as_str).collect();
        let names = session_label(&names);
        let copies = match plan.only == plan.files {
            true => "this is the only copy".to_owned(),
            false => format!("this is the only copy of {} of its files", plan.only),
        };
        context.out.line(format_args!(
            "{}: {}",
            paint(ID, &names),
            paint(PLAIN, &copies)
        ))?;
    }
    for plan in plans {
        if let Some(wrong) = plan.damaged.as_deref() {
            let pack = plan.pack.display().to_string();
            context.out.line(format_args!(
                "{}: {}; {} restores what can be read",
                paint(PATH, &pack),
                paint(PLAIN, wrong),
                styled_command("annals restore", &pack, "--salvage")
            ))?;
        }
    }
    let heading = paint(BOLD, "Would be deleted permanently:");
    context.out.line(format_args!("{heading} {sum}"))?;
    context
        .out
        .line("Nothing was changed; add --apply to do it. This cannot be undone.")?;
    Ok(())
}
