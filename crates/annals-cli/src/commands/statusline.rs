//! `annals statusline`: one line for the status bar of an agent.

use std::path::PathBuf;

use annals::cost::{BLOCK, Block, Charge, Ledger, Mode, Period, Prices, Spending, Tally, blocks};
use annals::index::Recent;
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Outcome;
use super::cost::budget;
use crate::context::Context;
use crate::render::money;
use crate::render::size;
use crate::render::style::{DIM, PLAIN, WARNING, paint};
use crate::render::time::duration;

/// Blocks follow from those before them, back to a pause of five hours. It is looked for this far back.
const REACH: [i64; 2] = [3, 31];

/// What the context window is taken to be where nothing tells.
const WINDOW: u64 = 200_000;

const EXAMPLES: &str = "\
The agent gives JSON on standard input. For Claude Code, in ~/.claude/settings.json:
  \"statusLine\": { \"type\": \"command\", \"command\": \"annals statusline --color always\" }

Examples:
  annals statusline --parts session,today       only what was spent
  echo '{}' | annals statusline --json          what is known without a session";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatuslineArgs {
    /// What to show, and in which order
    #[arg(
        long,
        value_name = "PART",
        value_delimiter = ',',
        default_value = "model,session,today,block,context,budget"
    )]
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The model's name
    Model,
    /// What the session cost
    Session,
    /// What today cost, in all sessions
    Today,
    /// What the running five hours cost, and how long they last
    Block,
    /// How full the context window is
    Context,
    /// A budget that is nearly used up, or exceeded
    Budget,
}

/// What the agent tells of itself; all of it may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Told {
    transcript_path: Option<PathBuf>,
    model: Model,
    context_window: Window,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Model {
    id: Option<String>,
    display_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Window {
    context_window_size: Option<u64>,
}

#[derive(Serialize)]
struct Document<'a> {
    model: Option<&'a str>,
    session: Option<Spent>,
    today: Spent,
    block: Option<BlockDocument>,
    context: Option<Fill>,
}

#[derive(Serialize)]
struct Spent {
    requests: u64,
    tokens: u64,
    cost_usd: annals::model::Money,
    unpriced: u64,
}

#[derive(Serialize)]
struct BlockDocument {
    start: Timestamp,
    end: Timestamp,
    remaining_minutes: i64,
    #[serde(flatten)]
    spent: Spent,
    cost_per_hour_usd: Option<annals::model::Money>,
}

/// How full the context window is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Fill {
    tokens: u64,
    window: u64,
    percent: u64,
}

/// What the line is made of.
struct Status {
    model: Option<String>,
    session: Option<Tally>,
    today: Tally,
    block: Option<Block>,
    fill: Option<Fill>,
    budgets: Vec<Spending>,
}

pub(crate) fn run(args: &StatuslineArgs, context: &mut Context) -> Result<Outcome> {
    let told = told()?;
    let config = context.config()?;
    if let Some(name) = &config.zone {
        context.clock.zone = super::cost::zone(name)?;
    }
    let prices = context.prices()?;
    let mode = config.mode.unwrap_or_default().mode();
    let price = |charge: &Charge| prices.cost(charge, mode);
    let now = context.clock.now;
    let zone = context.clock.zone.clone();
    let log = told.transcript_path.as_deref();
    let starts = config
        .budgets
        .iter()
        .map(|one| Period::at(now, one.unit, &zone).start);
    let oldest = starts.min().unwrap_or(now);
    let (mut ledger, mut own, mut block) = (Ledger::default(), Vec::new(), None);
    for days in REACH {
        let since = now
            .checked_sub(SignedDuration::from_hours(days * 24))
            .unwrap_or(now);
        let recent = Recent::new(now, since.min(oldest)).session(log);
        let spent = context.recent(&recent);
        (ledger, own) = (spent.ledger, spent.own);
        let known = blocks(&ledger.charges, &price);
        block = known.iter().rev().find(|block| block.active(now)).copied();
        if is_certain(&ledger.charges, since) {
            break;
        }
    }
    let today = context.clock.now.to_zoned(zone.clone()).start_of_day()?;
    // What stands in its logs, whoever pays for it: as `show` tells.
    let session = (!own.is_empty()).then(|| sum(own.iter(), &prices, mode));
    let status = Status {
        model: told
            .model
            .display_name
            .clone()
            .or_else(|| told.model.id.clone()),
        session,
        today: sum(
            ledger.charges.iter().filter(|charge| {
                charge
                    .time
                    .is_some_and(|time| time >= today.timestamp() && time <= now)
            }),
            &prices,
            mode,
        ),
        block,
        fill: fill(own.iter(), &told, &prices),
        budgets: config
            .budgets
            .iter()
            .map(|one| one.spending(&ledger.charges, &price, &zone, now))
            .collect(),
    };
    match context.json {
        true => context.out.json(&status.document(now))?,
        false => {
            let parts = args
                .parts
                .iter()
                .filter_map(|part| status.part(*part, context));
            let line = parts.collect::<Vec<String>>();
            let between = format!(" {} ", paint(DIM, "│"));
            context.out.line(line.join(&between))?;
        }
    }
    std::mem::forget(ledger);
    Ok(Outcome::Fine)
}

/// What the agent says. What it says of no use here may be anything.
fn told() -> Result<Told> {
    let text = super::input::stdin("the JSON that an agent gives to its status line")?;
    if text.trim().is_empty() {
        return Ok(Told::default());
    }
    serde_json::from_str(&text).context(
        "standard input is not the JSON that an agent gives to its status line; `annals statusline --help` shows how to set it up",
    )
}

/// Whether blocks can be told from these charges: there is a pause of five hours after `since`.
fn is_certain(charges: &[Charge], since: Timestamp) -> bool {
    let mut times: Vec<Timestamp> = charges.iter().filter_map(|charge| charge.time).collect();
    times.retain(|time| *time >= since);
    times.sort_unstable();
    let starts = std::iter::once(since).chain(times.iter().copied());
    let mut pairs = starts.zip(&times);
    times.is_empty() || pairs.any(|(before, after)| after.duration_since(before) >= BLOCK)
}

fn sum<'a>(charges: impl Iterator<Item = &'a Charge>, prices: &Prices, mode: Mode) -> Tally {
    let mut tally = Tally::default();
    charges.for_each(|charge| tally.add(&charge.usage, prices.cost(charge, mode)));
    tally
}

/// What stood in the context window after the main agent's last response.
fn fill<'a>(
    charges: impl Iterator<Item = &'a Charge>,
    told: &Told,
    prices: &Prices,
) -> Option<Fill> {
    let main = charges.filter(|charge| charge.agent.is_none() && !charge.usage.is_zero());
    let last = main.max_by_key(|charge| charge.time)?;
    let tokens = last.usage.context().saturating_add(last.usage.output);
    let named = told.model.id.as_deref().or(last.model.as_deref());
    let window = told.context_window.context_window_size;
    let window = window
        .or_else(|| prices.context_window(named?))
        .unwrap_or(WINDOW)
        .max(1);
    Some(Fill {
        tokens,
        window,
        percent: (u128::from(tokens) * 100 / u128::from(window)) as u64,
    })
}

impl Status {
    /// A part for people; `None` if there is nothing to say.
    fn part(&self, part: Part, context: &Context) -> Option<String> {
        let now = context.clock.now;
        match part {
            Part::Model => Some(paint(PLAIN, self.model.as_deref()?).to_string()),
            Part::Session => Some(format!("{} session", cost(&self.session?))),
            Part::Today => Some(format!("{} today", cost(&self.today))),
            Part::Block => {
                let block = self.block?;
                let left = duration(block.remaining(now));
                let pace = block
                    .burn_rate()
                    .map(|rate| format!(", {}/h", money::cents(rate.cost_per_hour)));
                let pace = pace.unwrap_or_default();
                Some(format!("{} block, {left} left{pace}", cost(&block.tally)))
            }
            Part::Context => {
                let fill = self.fill?;
                let text = format!("{} % of {}", fill.percent, size::compact(fill.window));
                let style = if fill.percent >= 80 { WARNING } else { PLAIN };
                Some(paint(style, &text).to_string())
            }
            Part::Budget => {
                let mut near = self.budgets.iter().filter(|spent| spent.near());
                let worst = near.next()?;
                let text = format!(
                    "{} % of the {} budget",
                    worst.percent(),
                    budget::name(worst)
                );
                Some(paint(WARNING, &text).to_string())
            }
        }
    }

    fn document(&self, now: Timestamp) -> Document<'_> {
        Document {
            model: self.model.as_deref(),
            session: self.session.as_ref().map(spent),
            today: spent(&self.today),
            block: self.block.map(|block| BlockDocument {
                start: block.start,
                end: block.end,
                remaining_minutes: block.remaining(now).as_mins(),
                spent: spent(&block.tally),
                cost_per_hour_usd: block.burn_rate().map(|rate| rate.cost_per_hour),
            }),
            context: self.fill,
        }
    }
}

fn spent(tally: &Tally) -> Spent {
    Spent {
        requests: tally.requests,
        tokens: tally.tokens(),
        cost_usd: tally.cost,
        unpriced: tally.unpriced,
    }
}

/// A sum for people; what has no price is told apart from what costs nothing.
fn cost(tally: &Tally) -> String {
    let priced = money::cents(tally.cost);
    match tally.unpriced {
        0 => priced,
        all if all == tally.requests => "unpriced".to_owned(),
        _ => format!("≥{priced}"),
    }
}
