//! `annals statusline`: one line for the status bar of an agent.
//!
//! The totals of the session are those of its own logs, as in `show`. Session lists and `cost`
//! count each response once across sessions.

mod input;

use std::path::PathBuf;

use annals::cost::{
    BLOCK_LENGTH, BillingBlock, BudgetUsage, Charge, ContextFill, Ledger, Period, Tally, blocks,
};
use annals::model::Money;
use annals::store::{RecentQuery, Root};
use anyhow::Result;
use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use self::input::AgentInput;
use super::Outcome;
use super::cost::budget;
use super::pricing::{self, Pricer};
use crate::context::Context;
use annals_render::money;
use annals_render::size;
use annals_render::style::{DIM, PLAIN, WARNING, paint};
use annals_render::time::duration;

/// Days to look back for a five-hour gap, and then the whole history: a block depends on those
/// before it, back to such a gap.
const LOOKBACK_DAYS: [Option<i64>; 3] = [Some(3), Some(31), None];

const EXAMPLES: &str = "\
The agent passes JSON on standard input. For Claude Code, in ~/.claude/settings.json:
  \"statusLine\": {
    \"type\": \"command\", \"command\": \"annals statusline --color always\"
  }

Examples:
  annals statusline --parts session,today       only costs
  echo '{}' | annals statusline --json          without a session";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatuslineArgs {
    /// Parts to show, in order
    #[arg(
        long,
        value_name = "PART",
        value_delimiter = ',',
        default_value = "model,session,today,block,context,budget"
    )]
    parts: Vec<StatusPart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StatusPart {
    /// The model's name
    Model,
    /// Cost of the session
    Session,
    /// Cost of today, in all sessions
    Today,
    /// Cost of the active five-hour block, and the time left
    Block,
    /// How full the context window is
    Context,
    /// A budget that is nearly used up, or exceeded
    Budget,
}

#[derive(Serialize)]
struct StatusJson<'a> {
    model: Option<&'a str>,
    session: Option<CostJson>,
    today: CostJson,
    block: Option<BlockJson>,
    context: Option<ContextUsage>,
}

#[derive(Serialize)]
struct CostJson {
    requests: u64,
    tokens: u64,
    cost_usd: Option<Money>,
    unpriced: u64,
}

#[derive(Serialize)]
struct BlockJson {
    start: Timestamp,
    end: Timestamp,
    remaining_minutes: i64,
    #[serde(flatten)]
    spent: CostJson,
    cost_per_hour_usd: Option<Money>,
}

/// Fill of the context window, from the log or from the agent's input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct ContextUsage {
    tokens: Option<u64>,
    window: Option<u64>,
    percent: Option<u64>,
}

/// Data of the status line.
struct Status {
    model: Option<String>,
    session: Option<Tally>,
    today: Tally,
    block: Option<BillingBlock>,
    fill: Option<ContextUsage>,
    budgets: Vec<BudgetUsage>,
}

pub(crate) fn run(args: &StatuslineArgs, context: &mut Context) -> Result<Outcome> {
    let mut input = read_input()?;
    let pricer = Pricer::new(context)?;
    let config = &pricer.config;
    if let Some(name) = &config.zone {
        context.clock.zone = super::cost::parse_zone(name)?;
    }
    let price = |charge: &Charge| pricer.price(charge);
    let now = context.clock.now;
    let zone = context.clock.zone.clone();
    input.log = input
        .log
        .map(|log| path_in_root(context.store.roots(), log));
    let starts = config
        .budgets
        .iter()
        .map(|one| Period::containing(now, one.unit, &zone).start);
    let oldest = starts.min().unwrap_or(now);
    let (mut ledger, mut own, mut block) = (Ledger::default(), Vec::new(), None);
    for days in LOOKBACK_DAYS {
        let since =
            days.and_then(|days| now.checked_sub(SignedDuration::from_hours(days * 24)).ok());
        let since = since.unwrap_or(Timestamp::MIN).min(oldest);
        let recent = RecentQuery::new(now, since).session(input.log.as_deref());
        let spent = context.recent_ledger(&recent);
        (ledger, own) = (spent.ledger, spent.session_charges);
        let known = blocks(&ledger.charges, &price);
        block = known
            .iter()
            .rev()
            .find(|block| block.is_active(now))
            .copied();
        if is_block_certain(&ledger.charges, since, now) {
            break;
        }
    }
    let today = context.clock.now.to_zoned(zone.clone()).start_of_day()?;
    // All charges in the session's logs, whichever session they are attributed to, as in `show`.
    let status = Status {
        model: input.name.clone(),
        session: (!own.is_empty()).then(|| pricer.tally(own.iter())),
        today: pricer.tally(ledger.charges.iter().filter(|charge| {
            charge
                .time
                .is_some_and(|time| time >= today.timestamp() && time <= now)
        })),
        block,
        fill: context_usage(own.iter(), &input, &pricer),
        budgets: config
            .budgets
            .iter()
            .map(|one| one.usage(&ledger.charges, &price, &zone, now))
            .collect(),
    };
    match context.json {
        true => context.out.json(&status.to_json(now))?,
        false => {
            let parts = args
                .parts
                .iter()
                .filter_map(|part| status.part_text(*part, context));
            let line = parts.collect::<Vec<String>>();
            let between = format!(" {} ", paint(DIM, "│"));
            context.out.line(line.join(&between))?;
        }
    }
    std::mem::forget(ledger);
    Ok(Outcome::Ok)
}

/// Reads the agent's input.
fn read_input() -> Result<AgentInput> {
    let text = super::input::read_stdin("JSON of the agent")?;
    match text.trim().is_empty() {
        true => Ok(AgentInput::default()),
        false => AgentInput::parse(&text),
    }
}

/// Returns a log's path as its root spells it: agents may resolve links.
fn path_in_root(roots: &[Root], log: PathBuf) -> PathBuf {
    if roots.iter().any(|root| log.starts_with(&root.path)) {
        return log;
    }
    let Ok(real) = log.canonicalize() else {
        return log;
    };
    let spelled = roots.iter().find_map(|root| {
        let below = real.strip_prefix(root.path.canonicalize().ok()?).ok()?;
        Some(root.path.join(below))
    });
    spelled.unwrap_or(log)
}

/// Returns true if these charges determine the current block: there is a five-hour gap between
/// `since` and now.
fn is_block_certain(charges: &[Charge], since: Timestamp, now: Timestamp) -> bool {
    let mut times: Vec<Timestamp> = charges.iter().filter_map(|charge| charge.time).collect();
    times.retain(|time| *time >= since && *time <= now);
    times.sort_unstable();
    let starts = std::iter::once(since).chain(times.iter().copied());
    let ends = times.iter().copied().chain([now]);
    let mut pauses = starts.zip(ends);
    pauses.any(|(before, after)| after.duration_since(before) >= BLOCK_LENGTH)
}

/// Returns the fill of the context window after the main agent's last response, or from the agent's
/// input if the log has none.
fn context_usage<'a>(
    charges: impl Iterator<Item = &'a Charge>,
    input: &AgentInput,
    pricer: &Pricer,
) -> Option<ContextUsage> {
    let main = charges.filter(|charge| charge.source.agent.is_none() && !charge.usage.is_zero());
    let last = main.max_by_key(|charge| charge.time);
    let fill = last.and_then(|last| context_fill(last, input, pricer));
    let logged = fill.map(|fill| ContextUsage {
        tokens: Some(fill.tokens),
        window: fill.window,
        percent: fill.percent(),
    });
    let said = || ContextUsage {
        tokens: None,
        window: input.window,
        percent: input.used_percent,
    };
    logged.or_else(|| input.used_percent.map(|_| said()))
}

/// Computes the fill. The window is that of the agent's input, else that of the model it names,
/// else that of the model that answered.
fn context_fill(last: &Charge, input: &AgentInput, pricer: &Pricer) -> Option<ContextFill> {
    if input.window.is_some() {
        return ContextFill::new(&last.usage, input.window);
    }
    let named = input
        .model
        .as_deref()
        .and_then(|name| pricer.context_window(name));
    let fill = ContextFill::new(&last.usage, named).filter(|fill| fill.window.is_some());
    fill.or_else(|| pricer.context_fill(last))
}

impl ContextUsage {
    fn text(&self) -> Option<String> {
        match (self.percent, self.window, self.tokens) {
            (Some(percent), Some(window), _) => {
                Some(format!("{percent} % of {}", size::compact(window)))
            }
            (Some(percent), None, _) => Some(format!("{percent} % of the context")),
            (None, _, tokens) => Some(format!("context {}", size::compact(tokens?))),
        }
    }
}

/// Returns the cost per hour of a block; `None` if nothing has a price.
fn burn_rate(block: &BillingBlock, now: Timestamp) -> Option<Money> {
    block.tally.priced()?;
    Some(block.burn_rate(now).cost_per_hour)
}

impl Status {
    /// Returns the text of a part; `None` if there is nothing to show.
    fn part_text(&self, part: StatusPart, context: &Context) -> Option<String> {
        let now = context.clock.now;
        match part {
            StatusPart::Model => Some(paint(PLAIN, self.model.as_deref()?).to_string()),
            StatusPart::Session => Some(format!(
                "{} session",
                pricing::cost_text_or_zero(&self.session?)
            )),
            StatusPart::Today => Some(format!("{} today", pricing::cost_text_or_zero(&self.today))),
            StatusPart::Block => {
                let block = self.block?;
                let left = duration(block.remaining(now));
                let pace = burn_rate(&block, now).map(money::cents);
                let pace = pace.map(|pace| match block.tally.unpriced {
                    0 => format!(", {pace}/h"),
                    _ => format!(", {}/h", money::at_least(&pace)),
                });
                let sum = pricing::cost_text_or_zero(&block.tally);
                Some(format!(
                    "{sum} block, {left} left{}",
                    pace.unwrap_or_default()
                ))
            }
            StatusPart::Context => {
                let fill = self.fill?;
                let full = fill.percent.is_some_and(|percent| percent >= 80);
                let style = if full { WARNING } else { PLAIN };
                Some(paint(style, &fill.text()?).to_string())
            }
            StatusPart::Budget => {
                let near = self.budgets.iter().filter(|spent| spent.is_near_limit());
                // Of equal budgets, the one for the shorter period is shown.
                let worst = near.rev().max_by_key(|spent| spent.percent())?;
                let text = format!(
                    "{} % of the {} budget",
                    worst.percent(),
                    budget::name(worst)
                );
                Some(paint(WARNING, &text).to_string())
            }
        }
    }

    fn to_json(&self, now: Timestamp) -> StatusJson<'_> {
        StatusJson {
            model: self.model.as_deref(),
            session: self.session.as_ref().map(cost_json),
            today: cost_json(&self.today),
            block: self.block.map(|block| BlockJson {
                start: block.start,
                end: block.end,
                remaining_minutes: block.remaining(now).as_mins(),
                spent: cost_json(&block.tally),
                cost_per_hour_usd: burn_rate(&block, now),
            }),
            context: self.fill,
        }
    }
}

fn cost_json(tally: &Tally) -> CostJson {
    CostJson {
        requests: tally.requests,
        tokens: tally.tokens(),
        cost_usd: tally.priced(),
        unpriced: tally.unpriced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn block_is_certain_after_a_five_hour_gap() {
        let certain = |times: &[&str]| {
            let charge = |text: &&str| {
                let mut charge = Charge::new(0);
                charge.time = Some(time(text));
                charge
            };
            let charges: Vec<Charge> = times.iter().map(charge).collect();
            let (since, now) = ("2026-11-15T00:00:00Z", "2026-11-15T12:00:00Z");
            is_block_certain(&charges, time(since), time(now))
        };
        assert!(certain(&[]));
        assert!(certain(&["2026-11-15T05:00:00Z", "2026-11-15T08:00:00Z"]));
        assert!(!certain(&["2026-11-15T04:00:00Z", "2026-11-15T08:00:00Z"]));
        assert!(certain(&["2026-11-15T04:00:00Z", "2026-11-15T09:00:00Z"]));
        // Charges before `since` or after now make no gap.
        assert!(!certain(&[
            "2026-11-14T04:00:00Z",
            "2026-11-15T04:00:00Z",
            "2026-11-15T08:00:00Z",
            "2026-11-16T08:00:00Z"
        ]));
        assert!(certain(&["2026-11-15T04:00:00Z"]));
    }
}
