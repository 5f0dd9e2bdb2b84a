//! `annals pin`

use std::collections::BTreeSet;

use annals::Error;
use annals::Subject;
use annals::retain::{Pin, Pins};
use annals::store::{Inventory, SessionFiles};
use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Outcome;
use crate::command_errors::CandidateDetails;
use crate::context::{Context, whole_session};
use annals::view::ShortIds;
use annals_render::size::pluralize;
use annals_render::style::{DIM, ID, PATH, SUCCESS, paint};
use annals_render::table::{Cell, Column, Table};

/// Protects sessions from clean-up.
#[derive(Debug, Args)]
#[command(after_help = "\
`annals clean` never moves a pinned session and never removes one from the trash; `annals delete` \
needs --pinned for it. The agent program knows nothing of pins, and still deletes sessions at their age.

Examples:
  annals pin                       list pinned sessions
  annals pin 8c549c46 b731f4c2
  annals pin --remove 8c549c46")]
pub(crate) struct PinArgs {
    /// The sessions; without any, list pinned sessions
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Unpin them
    #[arg(long, requires = "sessions")]
    remove: bool,
    /// List pinned sessions
    #[arg(long, conflicts_with_all = ["sessions", "remove"])]
    list: bool,
}

#[derive(Serialize)]
struct PinsJson<'a> {
    pins: Vec<PinJson<'a>>,
}

#[derive(Serialize)]
struct PinJson<'a> {
    #[serde(flatten)]
    pin: &'a Pin,
    /// True if the session still exists.
    present: bool,
}

pub(crate) fn run(args: &PinArgs, context: &mut Context) -> Result<Outcome> {
    if args.sessions.is_empty() {
        let pins = context.store.retention().pins()?;
        let pins: Vec<&Pin> = pins.iter().collect();
        return list_pins(&pins, context);
    }
    let inventory = context.inventory();
    let (changed, unchanged, verb) = match args.remove {
        false => {
            let found = find_sessions(&args.sessions, &inventory, context)?;
            let found: Vec<&SessionFiles> = found.iter().collect();
            let distinct: BTreeSet<_> = found.iter().map(|it| (&it.root.path, &it.id)).collect();
            let pinned = context.store.retention().pin(&found, context.clock.now)?;
            let before = distinct.len().saturating_sub(pinned.len());
            (pinned, before, "pinned")
        }
        true => {
            let pins = context.store.retention().pins()?;
            let mut meant: Vec<Pin> = Vec::new();
            for id in &args.sessions {
                meant.push(find_pin(id, &pins, &inventory, context)?);
            }
            (context.store.retention().unpin(&meant)?, 0, "unpinned")
        }
    };
    if context.json {
        let pins: Vec<&Pin> = changed.iter().collect();
        return print_json(&pins, &inventory, context).map(|()| Outcome::Ok);
    }
    let mark = paint(SUCCESS, "✓");
    for pin in &changed {
        let id = paint(ID, &pin.session);
        context.out.line(format_args!("{mark} {verb} {id}"))?;
    }
    if unchanged > 0 {
        let count = pluralize(unchanged as u64, "session");
        let verb = if unchanged == 1 { "was" } else { "were" };
        context
            .out
            .line(format_args!("{count} {verb} pinned before"))?;
    }
    Ok(Outcome::Ok)
}

fn find_sessions(
    ids: &[String],
    inventory: &Inventory,
    context: &mut Context,
) -> Result<Vec<SessionFiles>> {
    let mut found = Vec::new();
    for id in ids {
        found.push(whole_session(context.find_to_write_in(inventory, id)?, id)?);
    }
    Ok(found)
}

/// Finds a pin of an existing session, or of one that no longer exists.
fn find_pin(id: &str, pins: &Pins, inventory: &Inventory, context: &mut Context) -> Result<Pin> {
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
            let roots = fits.iter().map(|pin| pin.root.display().to_string());
            let details = CandidateDetails(roots.collect());
            let error = Error::Ambiguous {
                what: Subject::PinnedSession,
                id: id.to_owned(),
                candidates: fits.iter().map(|pin| pin.session.clone()).collect(),
            };
            return Err(anyhow::Error::from(error).context(details));
        }
    }
    // The id may be the path of a log, the name after a time, `latest`, or a part of the title.
    let files = context.find_to_write_in(inventory, id)?.files;
    let found = pins.iter().find(|pin| pin.matches_files(&files)).cloned();
    found.ok_or_else(|| {
        Error::NotFound {
            what: Subject::PinnedSession,
            id: id.to_owned(),
        }
        .into()
    })
}

fn list_pins(pins: &[&Pin], context: &mut Context) -> Result<Outcome> {
    let inventory = context.inventory();
    if context.json {
        print_json(pins, &inventory, context)?;
    } else if pins.is_empty() {
        context.out.line("No session is pinned.")?;
    } else {
        let short = ShortIds::new(pins.iter().map(|pin| pin.session.as_str()));
        let mut table = Table::new([
            Column::new("SESSION").style(ID),
            Column::new("PINNED").style(DIM),
            Column::new("LAYOUT"),
            Column::new("ROOT").min(8).cut_middle().style(PATH),
            Column::new("").style(DIM),
        ]);
        for pin in pins {
            table.row([
                Cell::new(short.get(&pin.session)),
                Cell::new(context.clock.ago(pin.pinned)),
                Cell::new(&pin.layout),
                Cell::new(pin.root.display().to_string()),
                Cell::new(match session_exists(pin, &inventory) {
                    true => "",
                    false => "missing",
                }),
            ]);
        }
        context.out.text(table.render(context.out.width()))?;
    }
    Ok(match pins.is_empty() {
        true => Outcome::NotFound,
        false => Outcome::Ok,
    })
}

fn print_json(pins: &[&Pin], inventory: &Inventory, context: &mut Context) -> Result<()> {
    let rows = pins.iter().map(|pin| PinJson {
        present: session_exists(pin, inventory),
        pin,
    });
    let document = PinsJson {
        pins: rows.collect(),
    };
    context.out.json(&document)?;
    Ok(())
}

fn session_exists(pin: &Pin, inventory: &Inventory) -> bool {
    let mut sessions = inventory.sessions.iter();
    sessions.any(|files| pin.matches_files(files))
}
