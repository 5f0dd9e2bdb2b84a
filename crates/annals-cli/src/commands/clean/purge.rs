//! `annals clean --purge`: the only command that permanently deletes files of other programs.

use annals::Error;
use annals::retain::Term;
use annals::store::{Purgeable, TrashItem};
use anyhow::Result;
use jiff::Timestamp;
use serde::Serialize;

use crate::commands::{Outcome, delete};
use crate::context::Context;
use annals::view::ShortIds;
use annals_render::command::quoted_command;
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, DIM, ID, PATH, PLAIN, SUCCESS, paint};
use annals_render::table::{Cell, Column, Table};

#[derive(Serialize)]
struct PurgeJson<'a> {
    applied: bool,
    trashed: Vec<PurgeableJson<'a>>,
    files: u64,
    bytes: u64,
    /// Interrupted deletions; the files they moved stay in the trash.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unfinished: Vec<UnfinishedJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct UnfinishedJson<'a> {
    #[serde(flatten)]
    row: PurgeableJson<'a>,
    /// A file that is still in its root.
    left: &'a std::path::Path,
    advice: String,
}

#[derive(Serialize)]
struct PurgeableJson<'a> {
    /// Name in the trash.
    id: &'a str,
    sessions: Vec<&'a str>,
    layout: Option<&'a str>,
    root: Option<&'a std::path::Path>,
    deleted: Option<Timestamp>,
    files: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Failed {
    id: String,
    error: String,
}

impl<'a> PurgeableJson<'a> {
    fn new(item: &'a Purgeable) -> Self {
        let trashed = item.trashed.as_ref();
        PurgeableJson {
            id: &item.name,
            sessions: trashed.iter().flat_map(|it| it.sessions()).collect(),
            layout: trashed.map(|trashed| trashed.layout.as_str()),
            root: trashed.map(|trashed| trashed.root.as_path()),
            deleted: trashed.map(|trashed| trashed.deleted),
            files: item.files,
            bytes: item.bytes,
        }
    }
}

/// Purges what was deleted before the term, or everything without one. Pinned sessions stay in the
/// trash.
pub(super) fn run(term: Option<Term>, apply: bool, context: &mut Context) -> Result<Outcome> {
    let cutoff = match &term {
        None => None,
        // A cutoff that cannot be represented matches nothing.
        Some(term) => Some(term.cutoff(&context.clock.now()).unwrap_or(Timestamp::MIN)),
    };
    if apply {
        context.put_back_removed()?;
    }
    let pins = context.store.retention().pins()?;
    let look = context.store.trash().contents()?;
    for trouble in &look.errors {
        context.warn(trouble);
    }
    let old = |item: &Purgeable| cutoff.is_none_or(|cutoff| item.is_older_than(cutoff));
    let pinned = |item: &Purgeable| {
        let holds = |trashed: &TrashItem| {
            let mut sessions = trashed.sessions();
            sessions.any(|session| pins.contains(&trashed.layout, &trashed.root, session))
        };
        item.trashed.as_ref().is_some_and(holds)
    };
    let (kept, mut items): (Vec<Purgeable>, Vec<Purgeable>) =
        look.purgeable.into_iter().filter(old).partition(pinned);
    let cut_off: Vec<Purgeable> = items
        .extract_if(.., |item| item.unfinished.is_some())
        .collect();
    let mut failed: Vec<(String, Error)> = Vec::new();
    if apply {
        items.retain(|item| match context.store.trash().purge(item) {
            Ok(()) => true,
            Err(error) => {
                failed.push((item.name.clone(), error));
                false
            }
        });
    }
    let (files, bytes) = (
        items.iter().map(|item| item.files).sum(),
        items.iter().map(|item| item.bytes).sum(),
    );
    if context.json {
        let failed = failed.iter().map(|(id, error)| Failed {
            id: id.clone(),
            error: error.to_string(),
        });
        context.out.json(&PurgeJson {
            applied: apply,
            trashed: items.iter().map(PurgeableJson::new).collect(),
            files,
            bytes,
            unfinished: cut_off
                .iter()
                .filter_map(UnfinishedJson::from_item)
                .collect(),
            failed: failed.collect(),
        })?;
    } else {
        print_unfinished(&cut_off, context)?;
        print_purged(apply, &items, &kept, (files, bytes), context)?;
    }
    let mut failed = failed.into_iter().map(|(_, error)| error);
    let Some(first) = failed.next() else {
        return Ok(Outcome::Ok);
    };
    failed.for_each(|error| context.warn(&error));
    Err(super::state_dir_error(first, context))
}

impl<'a> UnfinishedJson<'a> {
    fn from_item(item: &'a Purgeable) -> Option<Self> {
        Some(UnfinishedJson {
            row: PurgeableJson::new(item),
            left: item.unfinished.as_deref()?,
            advice: recovery_hint(item.trashed.as_ref()?),
        })
    }
}

/// Returns the commands that resolve an interrupted deletion.
fn recovery_hint(trashed: &TrashItem) -> String {
    let TrashItem { session, id, .. } = trashed;
    let again = quoted_command("annals delete", session, "");
    let undo = quoted_command("annals delete --undo=", id, "");
    format!("run {again} again, or {undo}")
}

/// Prints interrupted deletions, whose sessions still exist in part.
fn print_unfinished(items: &[Purgeable], context: &mut Context) -> Result<()> {
    for item in items.iter().filter_map(UnfinishedJson::from_item) {
        let session = item.row.sessions.join(", ");
        let left = item.left.display();
        let why = format!(
            "its deletion was interrupted, {left} still exists; {}",
            item.advice
        );
        let (id, why) = (paint(ID, &session), paint(PLAIN, &why));
        context
            .out
            .line(format_args!("{id} stays in the trash: {why}"))?;
    }
    if !items.is_empty() {
        context.out.blank()?;
    }
    Ok(())
}

fn print_purged(
    applied: bool,
    items: &[Purgeable],
    kept: &[Purgeable],
    (files, bytes): (u64, u64),
    context: &mut Context,
) -> Result<()> {
    if !items.is_empty() {
        let table = table(items, context);
        context.out.text(table)?;
        context.out.blank()?;
    }
    if !kept.is_empty() {
        let count = pluralize(kept.len() as u64, "deleted session");
        let stay = if kept.len() == 1 { "stays" } else { "stay" };
        let line = format!("{count} {stay} in the trash: pinned");
        context.out.line(line)?;
        context.out.blank()?;
    }
    let sum = format!("{}, {}", pluralize(files, "file"), size::bytes(bytes));
    if items.is_empty() {
        context.out.line("There is nothing to remove.")?;
    } else if applied {
        let mark = paint(SUCCESS, "✓");
        context
            .out
            .line(format_args!("{mark} deleted permanently: {sum}"))?;
        let gone = items.iter().filter_map(|item| item.trashed.as_ref());
        delete::print_still_archived(gone, context)?;
    } else {
        let heading = paint(BOLD, "Would be deleted permanently:");
        context.out.line(format_args!("{heading} {sum}"))?;
        context
            .out
            .line("Nothing was changed; add --apply to do it. This cannot be undone.")?;
    }
    Ok(())
}

fn table(items: &[Purgeable], context: &Context) -> String {
    let sessions = items.iter().filter_map(|item| item.trashed.as_ref());
    let short = ShortIds::new(sessions.flat_map(TrashItem::sessions));
    let mut table = Table::new([
        Column::new("SESSION").style(ID),
        Column::new("DELETED").style(DIM),
        Column::new("FILES").right(),
        Column::new("SIZE").right(),
        Column::new("ROOT").min(8).cut_middle().style(PATH),
    ]);
    for item in items {
        let trashed = item.trashed.as_ref();
        let names: Vec<&str> = trashed
            .iter()
            .flat_map(|trashed| trashed.sessions())
            .map(|session| short.get(session))
            .collect();
        table.row([
            match trashed {
                Some(_) => Cell::new(names.join(", ")),
                None => Cell::styled("(left by an earlier purge)", DIM),
            },
            Cell::new(
                trashed
                    .map(|trashed| context.clock.ago(trashed.deleted))
                    .unwrap_or_default(),
            ),
            Cell::new(size::count(item.files)),
            Cell::new(size::bytes(item.bytes)),
            Cell::new(
                trashed
                    .map(|trashed| trashed.root.display().to_string())
                    .unwrap_or_default(),
            ),
        ]);
    }
    table.render(context.out.width())
}
