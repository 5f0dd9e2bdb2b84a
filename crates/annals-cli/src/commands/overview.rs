//! `annals` without a verb: an overview of this machine.

use std::collections::BTreeMap;
use std::path::Path;

use annals::cost::{BudgetUsage, Charge, Tally};
use annals::model::{FlawCounts, Money, Usage};
use annals::store::{Inventory, ProjectInfo, Root, SessionInfo};
use anyhow::Result;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use serde::Serialize;

use super::Outcome;
use super::cost;
use super::fit::fit_line;
use super::pricing::{self, Pricer};
use crate::context::{Context, leak};
use annals::view::{BudgetJson, ProjectCosts, ShortIds};
use annals_render::severity::flaw_line;
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, DIM, PATH, PLAIN, SUCCESS, WARNING, paint};
use annals_render::table::{Cell, Column, Table};
use annals_render::time::Clock;
use annals_render::width::{Span, push_spans, wrap};

/// Maximum number of projects and of sessions shown.
const MAX_SHOWN: usize = 5;

/// Days of warning before the agent program deletes a session.
const EXPIRY_WARNING_DAYS: i64 = 7;

#[derive(Serialize)]
struct OverviewJson<'a> {
    roots: Vec<RootJson<'a>>,
    projects: usize,
    sessions: usize,
    conversations: usize,
    messages: u64,
    bytes: u64,
    updated: Option<Timestamp>,
    last_7_days: PeriodJson,
    last_30_days: PeriodJson,
    all_time: PeriodJson,
    /// Number of sessions with errors.
    damaged_sessions: usize,
    flaws: usize,
    errors: usize,
    warnings: usize,
    deleted_within_7_days: usize,
    expired: usize,
    budgets: Vec<BudgetJson<'a>>,
}

#[derive(Serialize)]
struct RootJson<'a> {
    layout: &'a str,
    path: &'a Path,
    sessions: usize,
    bytes: u64,
}

/// Activity and cost of a period.
#[derive(Clone, Copy, Serialize)]
struct PeriodJson {
    sessions: usize,
    messages: u64,
    usage: Usage,
    cost_usd: Option<Money>,
    unpriced: u64,
    #[serde(skip)]
    tally: Tally,
}

impl PeriodJson {
    fn new(sessions: usize, messages: u64, tally: Tally) -> Self {
        PeriodJson {
            sessions,
            messages,
            usage: tally.usage,
            cost_usd: tally.priced(),
            unpriced: tally.unpriced,
            tally,
        }
    }
}

/// Charges and budgets.
struct RecentUsage {
    pricer: Pricer,
    /// Time zone of days.
    zone: TimeZone,
    /// Sum of all responses.
    all_time: Tally,
    /// Responses of the last 32 days, enough for every budget.
    charges: Vec<Charge>,
    budgets: Vec<BudgetUsage>,
}

impl RecentUsage {
    fn new(sessions: &[SessionInfo], pricer: Pricer, context: &Context) -> Result<Self> {
        const DAYS: i64 = 32;
        let zone = match &pricer.config.zone {
            Some(name) => cost::parse_zone(name)?,
            None => context.clock.zone.clone(),
        };
        let now = context.clock.now;
        let start = days_before(now, DAYS);
        let charges = sessions.iter().flat_map(|session| &session.charges);
        let all_time = pricer.tally(charges.clone());
        let lately = |charge: &&Charge| charge.time.is_some_and(|time| time >= start);
        let charges: Vec<Charge> = charges.filter(lately).cloned().collect();
        let price = |charge: &Charge| pricer.price(charge);
        let budgets = pricer.config.budgets.iter();
        let budgets = budgets
            .map(|budget| budget.usage(&charges, &price, &zone, now))
            .collect();
        Ok(RecentUsage {
            pricer,
            zone,
            all_time,
            charges,
            budgets,
        })
    }

    /// Sums the charges since `start`.
    fn tally_since(&self, start: Timestamp) -> Tally {
        let since = |charge: &&Charge| charge.time.is_some_and(|time| time >= start);
        self.pricer.tally(self.charges.iter().filter(since))
    }

    /// Returns the cost of each day in millionths of a dollar, precise enough for a bar.
    fn cost_by_day(&self) -> BTreeMap<Date, u64> {
        let mut days: BTreeMap<Date, Money> = BTreeMap::new();
        for charge in &self.charges {
            if let Some((time, cost)) = charge.time.zip(self.pricer.price(charge)) {
                let day = time.to_zoned(self.zone.clone()).date();
                *days.entry(day).or_default() += cost;
            }
        }
        let micro = |cost: Money| cost.pico().saturating_add(999_999) / 1_000_000;
        let micro = |cost| u64::try_from(micro(cost).max(0)).unwrap_or(u64::MAX);
        days.into_iter()
            .map(|(day, cost)| (day, micro(cost)))
            .collect()
    }
}

fn days_before(now: Timestamp, days: i64) -> Timestamp {
    let length = SignedDuration::from_hours(days * 24);
    now.checked_sub(length).unwrap_or(now)
}

pub(crate) fn run(context: &mut Context) -> Result<Outcome> {
    let pricer = Pricer::new(context)?;
    let inventory = context.inventory();
    let sessions = context.sessions(&inventory);
    let spent = RecentUsage::new(&sessions, pricer, context)?;
    if context.json {
        let roots = context.store.roots().to_vec();
        let document = overview_json(context, &roots, &inventory, &sessions, &spent);
        context.out.json(&document)?;
    } else if sessions.is_empty() {
        print_nothing(context, false, "session")?;
    } else {
        print_overview(context, &inventory, &sessions, &spent)?;
    }
    let outcome = match sessions.is_empty() {
        true => Outcome::NotFound,
        false => Outcome::Ok,
    };
    leak((inventory, sessions));
    Ok(outcome)
}

/// Prints that nothing was found, and what to try next.
pub(crate) fn print_nothing(context: &mut Context, filtered: bool, what: &str) -> Result<()> {
    if filtered {
        context.out.line(format_args!(
            "No {what} matches. `annals {what}s` lists all of them."
        ))?;
        return Ok(());
    }
    let roots: Vec<String> = context
        .store
        .roots()
        .iter()
        .map(|root| root.path.display().to_string())
        .collect();
    if roots.is_empty() {
        let places = context.default_root_names().join(", ");
        let sentence = [
            Span::new("No agent history was found in ", PLAIN),
            Span::new(&places, PATH),
            Span::new(".", PLAIN),
        ];
        print_wrapped(context, &sentence)?;
    } else {
        context.out.line(format_args!(
            "No {what}s in {}.",
            paint(PATH, &roots.join(", "))
        ))?;
    }
    context.out.blank()?;
    context
        .out
        .line("  annals demo                 creates a sample history")?;
    context
        .out
        .line("  annals --root PATH          reads another root")?;
    context
        .out
        .line("  annals new --cwd DIR        creates a session")?;
    Ok(())
}

/// Prints `text` if nothing was found among sessions; if there are none, prints what to try next.
pub(crate) fn print_none(context: &mut Context, inventory: &Inventory, text: &str) -> Result<()> {
    match inventory.sessions.is_empty() {
        true => print_nothing(context, false, "session"),
        false => Ok(context.out.line(text)?),
    }
}

/// Prints that the roots have no sessions, and how many are in the archive.
pub(crate) fn print_no_live_sessions(context: &mut Context) -> Result<()> {
    let archived = context.inventory().sessions.len();
    if archived == 0 {
        return print_nothing(context, false, "session");
    }
    let roots = context.store.roots().iter();
    let roots: Vec<String> = roots.map(|root| root.path.display().to_string()).collect();
    context.out.line(format_args!(
        "No sessions in {}. The archive has {}: `annals archive --list`",
        paint(PATH, &roots.join(", ")),
        pluralize(archived as u64, "session")
    ))?;
    Ok(())
}

fn overview_json<'a>(
    context: &Context,
    roots: &'a [Root],
    inventory: &Inventory,
    sessions: &[SessionInfo],
    spent: &'a RecentUsage,
) -> OverviewJson<'a> {
    let now = context.clock.now;
    let flaws = flaw_counts(sessions);
    OverviewJson {
        roots: roots
            .iter()
            .map(|root| RootJson {
                layout: root.layout.name(),
                path: &root.path,
                sessions: sessions
                    .iter()
                    .filter(|session| is_in_root(session, root))
                    .count(),
                bytes: root_bytes(inventory, root),
            })
            .collect(),
        projects: ProjectInfo::from_sessions(sessions.iter()).len(),
        sessions: sessions.len(),
        conversations: sessions.iter().map(|session| session.conversations).sum(),
        messages: sessions.iter().map(|session| session.messages).sum(),
        bytes: sessions.iter().map(|session| session.bytes).sum(),
        updated: sessions.iter().filter_map(|session| session.updated).max(),
        last_7_days: recent_json(context, sessions, spent, 7),
        last_30_days: recent_json(context, sessions, spent, 30),
        all_time: all_time_json(sessions, spent),
        damaged_sessions: sessions
            .iter()
            .filter(|session| session.flaw_counts().errors > 0)
            .count(),
        flaws: sessions.iter().map(|session| session.flaws).sum(),
        errors: flaws.errors,
        warnings: flaws.warnings,
        deleted_within_7_days: expiring_sessions(sessions, now).len(),
        expired: sessions
            .iter()
            .filter(|session| is_overdue(session, now))
            .count(),
        budgets: spent.budgets.iter().map(cost::budget::json).collect(),
    }
}

fn print_overview(
    context: &mut Context,
    inventory: &Inventory,
    sessions: &[SessionInfo],
    spent: &RecentUsage,
) -> Result<()> {
    let projects = ProjectInfo::from_sessions(sessions.iter());
    for root in context.store.roots() {
        let count = sessions
            .iter()
            .filter(|session| is_in_root(session, root))
            .count();
        let line = format!(
            "{}  {}  {}, {}",
            paint(BOLD, root.layout.name()),
            paint(PATH, &root.path.display().to_string()),
            pluralize(count as u64, "session"),
            size::bytes(root_bytes(inventory, root)),
        );
        context.out.line(line)?;
    }
    context.out.blank()?;
    let conversations: usize = sessions.iter().map(|session| session.conversations).sum();
    let messages: u64 = sessions.iter().map(|session| session.messages).sum();
    let agents: usize = sessions.iter().map(|session| session.agents).sum();
    let newest = sessions.iter().filter_map(|session| session.updated).max();
    let facts = [
        pluralize(projects.len() as u64, "project"),
        pluralize(sessions.len() as u64, "session"),
        pluralize(conversations as u64, "conversation"),
        pluralize(messages, "message"),
        pluralize(agents as u64, "sub-agent"),
    ];
    context.out.line(facts.join(" · "))?;
    if let Some(newest) = newest {
        context.out.line(format_args!(
            "{} {}",
            paint(DIM, "last activity"),
            context.clock.ago(newest)
        ))?;
    }
    context.out.blank()?;
    print_activity(context, sessions, spent)?;
    print_budgets(context, spent)?;
    print_health(context, sessions)?;
    context.out.blank()?;
    let shown = projects
        .get(..projects.len().min(MAX_SHOWN))
        .unwrap_or_default();
    let price = |charge: &Charge| spent.pricer.price(charge);
    let costs = ProjectCosts::new(sessions, &price);
    let table = super::projects::table(shown, context, &costs);
    context.out.text(table)?;
    print_more(context, projects.len() - shown.len(), "projects")?;
    context.out.blank()?;
    let short = ShortIds::new(sessions.iter().map(|session| session.id.as_str()));
    let lively: Vec<SessionInfo> = sessions
        .iter()
        .filter(|session| session.messages > 0)
        .take(MAX_SHOWN)
        .cloned()
        .collect();
    let pins = context.pins_or_none();
    let table = super::sessions::table(&lively, context, &short, &spent.pricer, &pins);
    context.out.text(table)?;
    print_more(context, sessions.len() - lively.len(), "sessions")?;
    if cfg!(feature = "browse") && context.out.is_terminal() {
        context.out.blank()?;
        let text = "annals browse searches and reads all of this";
        context.out.line(paint(DIM, text))?;
    }
    Ok(())
}

fn print_more(context: &mut Context, left: usize, verb: &str) -> Result<()> {
    if left > 0 {
        let text = format!("… {} more: annals {verb}", size::count(left as u64));
        context.out.line(paint(DIM, &text))?;
    }
    Ok(())
}

/// Prints usage by period, with a spark line of the cost per day, or of messages if nothing has a
/// cost.
fn print_activity(
    context: &mut Context,
    sessions: &[SessionInfo],
    spent: &RecentUsage,
) -> Result<()> {
    let mut by_day = spent.cost_by_day();
    let mut zone = spent.zone.clone();
    let free = by_day.values().all(|cost| *cost == 0);
    if free {
        zone = TimeZone::UTC;
        for (day, count) in sessions.iter().flat_map(|session| &session.messages_by_day) {
            *by_day.entry(*day).or_default() += count;
        }
    }
    let today = context.clock.now.to_zoned(zone).date();
    let days = (0..30)
        .rev()
        .filter_map(|back: i64| today.checked_sub(back.days()).ok());
    let counts: Vec<u64> = days
        .map(|day| by_day.get(&day).copied().unwrap_or(0))
        .collect();
    let mut table = Table::new([
        Column::new("").style(DIM),
        Column::new("SESSIONS").right(),
        Column::new("MESSAGES").right(),
        Column::new("TOKENS OUT").right(),
        Column::new("TOKENS IN").right().priority(60),
        Column::new("COST").right().priority(90),
    ]);
    for (name, period) in [
        ("last 7 days", recent_json(context, sessions, spent, 7)),
        ("last 30 days", recent_json(context, sessions, spent, 30)),
        ("all time", all_time_json(sessions, spent)),
    ] {
        table.row([
            Cell::new(name),
            Cell::new(size::count(period.sessions as u64)),
            Cell::new(size::count(period.messages)),
            Cell::new(size::compact(period.usage.output)),
            Cell::new(size::compact(period.usage.context())),
            pricing::cost_cell(&period.tally),
        ]);
    }
    let table = table.render(context.out.width());
    context.out.text(table)?;
    if counts.iter().any(|count| *count > 0) {
        let what = if free { "messages" } else { "cost" };
        let line = format!("{}  {what} per day, up to today", size::spark(&counts));
        context.out.line(fit_line(&line, context))?;
    }
    context.out.blank()?;
    Ok(())
}

fn print_health(context: &mut Context, sessions: &[SessionInfo]) -> Result<()> {
    let flawed = sessions
        .iter()
        .filter(|session| session.flaw_counts().worst().is_some())
        .count();
    let place = format!(" in {}: annals check", pluralize(flawed as u64, "session"));
    let line = flaw_line(flaw_counts(sessions), &place);
    let line = line.unwrap_or_else(|| {
        format!(
            "{} no errors in session logs; `annals check` checks all files",
            paint(SUCCESS, "✓")
        )
    });
    context.out.line(line)?;
    let now = context.clock.now;
    let leaving = expiring_sessions(sessions, now);
    if !leaving.is_empty() {
        let text = format!(
            "! the agent program will delete {} within {EXPIRY_WARNING_DAYS} days",
            pluralize(leaving.len() as u64, "session")
        );
        context.out.line(paint(WARNING, &text))?;
    }
    let expired = sessions
        .iter()
        .filter(|session| is_overdue(session, now))
        .count();
    if expired > 0 {
        let text = format!(
            "! the agent program may delete {} at its next start: past its retention period",
            pluralize(expired as u64, "session")
        );
        context.out.line(paint(WARNING, &text))?;
    }
    Ok(())
}

/// Sums the errors and warnings of all sessions.
pub(super) fn flaw_counts(sessions: &[SessionInfo]) -> FlawCounts {
    let kinds = sessions.iter().flat_map(|session| &session.flaw_kinds);
    kinds.map(|(kind, count)| (*kind, *count)).collect()
}

/// Returns true if the agent program may delete a session at its next start.
pub(super) fn is_overdue(session: &SessionInfo, now: Timestamp) -> bool {
    session.expires.is_some_and(|expires| expires < now)
}

/// Returns the sessions that the agent program will delete soon.
pub(super) fn expiring_sessions(sessions: &[SessionInfo], now: Timestamp) -> Vec<&SessionInfo> {
    let soon = now
        .checked_add(SignedDuration::from_hours(EXPIRY_WARNING_DAYS * 24))
        .unwrap_or(now);
    let leaves = |session: &&SessionInfo| {
        session
            .expires
            .is_some_and(|expires| expires >= now && expires < soon)
    };
    sessions.iter().filter(leaves).collect()
}

/// Warns about budgets that are nearly used up.
fn print_budgets(context: &mut Context, spent: &RecentUsage) -> Result<()> {
    let clock = Clock {
        now: context.clock.now,
        zone: spent.zone.clone(),
    };
    let lines = spent.budgets.iter();
    let lines = lines.filter_map(|one| cost::budget::warning_line(one, &clock));
    let lines: Vec<Span> = lines.collect();
    lines
        .into_iter()
        .try_for_each(|line| print_wrapped(context, &[line]))
}

/// Prints a text, wrapped at the width of the terminal.
fn print_wrapped(context: &mut Context, text: &[Span]) -> Result<()> {
    for line in wrap(text, context.out.width()) {
        let mut text = String::new();
        push_spans(&mut text, &line);
        context.out.line(text)?;
    }
    Ok(())
}

fn recent_json(
    context: &Context,
    sessions: &[SessionInfo],
    spent: &RecentUsage,
    days: i64,
) -> PeriodJson {
    let start = days_before(context.clock.now, days);
    let first = start.to_zoned(TimeZone::UTC).date();
    let mut recent = PeriodJson::new(0, 0, spent.tally_since(start));
    for session in sessions {
        let messages: u64 = session
            .messages_by_day
            .range(first..)
            .map(|(_, count)| count)
            .sum();
        recent.messages += messages;
        recent.sessions += usize::from(messages > 0);
    }
    recent
}

fn all_time_json(sessions: &[SessionInfo], spent: &RecentUsage) -> PeriodJson {
    let messages = sessions.iter().map(|session| session.messages).sum();
    PeriodJson::new(sessions.len(), messages, spent.all_time)
}

/// Compares layouts too: one directory may hold the trees of two.
pub(super) fn is_in_root(session: &SessionInfo, root: &Root) -> bool {
    session.layout == root.layout.name() && session.root == root.path
}

pub(super) fn root_bytes(inventory: &Inventory, root: &Root) -> u64 {
    let is_it = |other: &Root| other.layout.name() == root.layout.name() && other.path == root.path;
    let sessions = inventory.sessions.iter();
    let sessions = sessions.filter(|files| is_it(&files.root));
    let others = inventory.others.iter().filter(|(other, _)| is_it(other));
    sessions.map(|files| files.bytes()).sum::<u64>()
        + others.map(|(_, file)| file.id.len).sum::<u64>()
}
