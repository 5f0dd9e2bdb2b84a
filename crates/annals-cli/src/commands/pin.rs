//! `annals pin`

use annals::Error;
use annals::retain::{Pin, Pins};
use annals::store::{Inventory, SessionFiles};
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::Outcome;
use super::row::Short;
use crate::context::Context;
use crate::render::size::plural;
use crate::render::style::{DIM, ID, PATH, SUCCESS, paint};
use crate::render::table::{Cell, Column, Table};

/// Keeps sessions whatever their age.
#[derive(Debug, Args)]
#[command(after_help = "\
`annals clean` never moves a pinned session and never removes one from the trash; `annals delete`
wants --pinned for it. Its own program knows nothing of pins, and deletes it when it always would.

Examples:
  annals pin                       what is pinned
  annals pin 8c549c46 b731f4c2
  annals pin --remove 8c549c46")]
pub(crate) struct PinArgs {
    /// The sessions; without any, what is pinned is listed
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Unpin them
    #[arg(long, requires = "sessions")]
    remove: bool,
    /// List what is pinned
    #[arg(long, conflicts_with_all = ["sessions", "remove"])]
    list: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    pins: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    pin: &'a Pin,
    /// Whether the session is where it was.
    present: bool,
}

pub(crate) fn run(args: &PinArgs, context: &mut Context) -> Result<Outcome> {
    if args.sessions.is_empty() {
        let pins = context.store.pins()?;
        let pins: Vec<&Pin> = pins.iter().collect();
        return list(&pins, context);
    }
    let inventory = context.inventory();
    let (changed, verb) = match args.remove {
        false => {
            let found = named(&args.sessions, &inventory, context)?;
            let found: Vec<&SessionFiles> = found.iter().collect();
            (context.store.pin(&found, context.clock.now)?, "pinned")
        }
        true => {
            let pins = context.store.pins()?;
            let mut meant: Vec<Pin> = Vec::new();
            for id in &args.sessions {
                meant.push(pin_of(id, &pins, &inventory, context)?);
            }
            (context.store.unpin(&meant)?, "unpinned")
        }
    };
    if context.json {
        let pins: Vec<&Pin> = changed.iter().collect();
        return document(&pins, &inventory, context).map(|()| Outcome::Fine);
    }
    let mark = paint(SUCCESS, "✓");
    for pin in &changed {
        let id = paint(ID, &pin.session);
        context.out.line(format_args!("{mark} {verb} {id}"))?;
    }
    let before = args.sessions.len().saturating_sub(changed.len());
    if before > 0 {
        let count = plural(before as u64, "session");
        context
            .out
            .line(format_args!("{count} {verb} before, or named twice"))?;
    }
    Ok(Outcome::Fine)
}

fn named(
    ids: &[String],
    inventory: &Inventory,
    context: &mut Context,
) -> Result<Vec<SessionFiles>> {
    let mut found = Vec::new();
    for id in ids {
        let target = context.find_to_write_in(inventory, id)?;
        target.refuse_agent()?;
        if target.message.is_some() {
            bail!("`{id}` names a message; only whole sessions can be pinned");
        }
        found.push(target.files);
    }
    Ok(found)
}

/// The pin that is meant: of a session that is there, or of one that is gone.
fn pin_of(id: &str, pins: &Pins, inventory: &Inventory, context: &mut Context) -> Result<Pin> {
    let fits = pins.iter();
    let fits: Vec<&Pin> = fits
        .filter(|pin| !id.is_empty() && pin.session.starts_with(id))
        .collect();
    let exact = fits.iter().filter(|pin| pin.session == id);
    match (
        exact.copied().collect::<Vec<_>>().as_slice(),
        fits.as_slice(),
    ) {
        ([only], _) | ([], [only]) => return Ok((*only).clone()),
        ([], []) => {}
        _ => {
            let names = fits.iter();
            let names = names.map(|pin| format!("{}  {}", pin.session, pin.root.display()));
            return Err(Error::Ambiguous {
                what: "pinned session",
                id: id.to_owned(),
                candidates: names.collect(),
            }
            .into());
        }
    }
    // The path of a log, the name behind a time, or `latest`.
    let files = context.find_to_write_in(inventory, id)?.files;
    let found = pins.iter().find(|pin| pin.matches_files(&files)).cloned();
    found.ok_or_else(|| {
        Error::NotFound {
            what: "pinned session",
            id: id.to_owned(),
        }
        .into()
    })
}

fn list(pins: &[&Pin], context: &mut Context) -> Result<Outcome> {
    let inventory = context.inventory();
    if context.json {
        document(pins, &inventory, context)?;
    } else if pins.is_empty() {
        context.out.line("No session is pinned.")?;
    } else {
        let short = Short::of(pins.iter().map(|pin| pin.session.as_str()));
        let mut table = Table::new([
            Column::new("SESSION").style(ID),
            Column::new("PINNED").style(DIM),
            Column::new("LAYOUT"),
            Column::new("ROOT").min(8).middle().style(PATH),
            Column::new("").style(DIM),
        ]);
        for pin in pins {
            table.row([
                Cell::new(short.get(&pin.session)),
                Cell::new(context.clock.ago(pin.pinned)),
                Cell::new(&pin.layout),
                Cell::new(pin.root.display().to_string()),
                Cell::new(match is_there(pin, &inventory) {
                    true => "",
                    false => "not there",
                }),
            ]);
        }
        context.out.text(table.render(context.out.width()))?;
    }
    Ok(match pins.is_empty() {
        true => Outcome::Nothing,
        false => Outcome::Fine,
    })
}

fn document(pins: &[&Pin], inventory: &Inventory, context: &mut Context) -> Result<()> {
    let rows = pins.iter().map(|pin| Row {
        present: is_there(pin, inventory),
        pin,
    });
    let document = Document {
        pins: rows.collect(),
    };
    context.out.json(&document)?;
    Ok(())
}

fn is_there(pin: &Pin, inventory: &Inventory) -> bool {
    let mut sessions = inventory.sessions.iter();
    sessions.any(|files| pin.matches_files(files))
}
