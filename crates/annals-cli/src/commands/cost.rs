//! `annals cost`

mod blocks;
mod branch;
pub(crate) mod budget;
mod csv;
mod keys;
mod plot;
mod table;

use std::collections::BTreeSet;

use annals::cost::{
    Account, BudgetUsage, Charge, CostReport, Dimension, Ledger, PriceFn, PriceMode, ReportOptions,
    Sort,
};
use annals::view::{CostDetails, CostJson, CostLabels, accounts_of_rows, accounts_with_agents};
use anyhow::{Result, bail};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Outcome;
use super::filter::{Period, warn_unknown_project};
use crate::config::PriceModeArg;
use crate::context::{Context, spellings};
use crate::terminal::suggest::suggest;
use annals_render::size::{self, pluralize};
use annals_render::style::{PLAIN, WARNING, paint};
use annals_render::time::Clock;
use annals_render::width::{Span, push_spans, wrap};

/// Reports token usage and cost.
#[derive(Debug, Args)]
#[command(after_help = "\
Each response is counted once, however many files repeat it, for the session that had it first. \
Sub-agents count for their session. Sums are exact; they are rounded only to be shown.

Examples:
  annals cost                                  day by day, with a total
  annals cost --by month                       month by month
  annals cost --by project,model --since 30d   by project and model
  annals cost --by session --top 10            the most expensive sessions
  annals cost --by block                       five-hour blocks, with a forecast
  annals cost --agents -p my-app               sub-agents in rows of their own
  annals cost --zone America/New_York          days of another time zone
  annals cost --since 30d --plot cost.svg      as a chart
  annals cost --json | jq -r '.total.cost_usd'

Budgets are set in config.toml in $ANNALS_CONFIG_DIR (else $XDG_CONFIG_HOME/annals, else \
~/.config/annals): `daily = 20`, `weekly = 75.50`, `monthly = 200`, in dollars. A line under the \
table warns when they run out. `zone` and `mode` can be set there too.")]
pub(crate) struct CostArgs {
    /// Dimension of the rows; several make finer rows (project,model)
    #[arg(
        long,
        value_name = "WHAT",
        value_delimiter = ',',
        default_value = "day",
        help_heading = "Selection"
    )]
    by: Vec<DimensionArg>,
    #[command(flatten, next_help_heading = "Selection")]
    period: Period,
    /// Time zone of days, weeks and months, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Only this project: its path, its name, or its id
    #[arg(long, short, value_name = "PROJECT", allow_hyphen_values = true)]
    project: Option<String>,
    /// Only this model (a part of its name is enough)
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Only this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Separate rows for sub-agents
    #[arg(long)]
    agents: bool,
    /// Source of costs
    #[arg(long, value_name = "MODE")]
    mode: Option<PriceModeArg>,
    #[command(flatten, next_help_heading = "Display")]
    look: DisplayArgs,
    #[command(flatten, next_help_heading = "Chart")]
    plot: plot::PlotArgs,
}

/// Display options of a report.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DisplayArgs {
    /// A line for each model under each row
    #[arg(long)]
    breakdown: bool,
    /// Order of the rows: largest first, or by key [default: by time, else by cost]
    #[arg(long, value_name = "BY")]
    sort: Option<SortArg>,
    /// Reverse the order
    #[arg(long)]
    reverse: bool,
    /// Only the N largest rows; 0 shows all
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Show all digits of tokens and money
    #[arg(long)]
    exact: bool,
    /// Print comma-separated values, exact, for spreadsheets
    #[arg(long)]
    csv: bool,
}

/// A dimension as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DimensionArg(Dimension);

impl ValueEnum for DimensionArg {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [DimensionArg; Dimension::ALL.len()] = {
            let mut all = [DimensionArg(Dimension::Hour); Dimension::ALL.len()];
            let mut at = 0;
            while at < all.len() {
                all[at] = DimensionArg(Dimension::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (also, help) = match self.0 {
            Dimension::Hour => ("hourly", "The hour"),
            Dimension::Day => ("daily", "The day"),
            Dimension::Week => ("weekly", "The week, from Monday to Sunday"),
            Dimension::Month => ("monthly", "The month"),
            Dimension::Block => ("blocks", "The five-hour billing block"),
            Dimension::Session => ("sessions", "The session, with its sub-agents"),
            Dimension::Project => ("projects", "The directory that sessions ran in"),
            Dimension::Model => ("models", "The model that answered"),
            Dimension::Agent => ("agents", "The type of agent (main, Explore)"),
            Dimension::AgentId => ("agent_id", "The agent: main, or a sub-agent's id"),
            Dimension::Branch => ("conversation", "The conversation, if a session branches"),
            Dimension::GitBranch => ("git_branch", "The git branch that was checked out"),
            _ => ("layouts", "The agent program: the log's layout"),
        };
        let value = PossibleValue::new(self.0.name()).alias(also).help(help);
        Some(match self.0 {
            Dimension::Layout => value.alias("agent-program"),
            _ => value,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortArg {
    /// The most expensive first
    Cost,
    /// The most tokens first
    Tokens,
    /// The most requests first
    Requests,
    /// The oldest first, or by name
    Key,
}

impl SortArg {
    fn sort(self) -> Sort {
        match self {
            SortArg::Cost => Sort::Cost,
            SortArg::Tokens => Sort::Tokens,
            SortArg::Requests => Sort::Requests,
            SortArg::Key => Sort::Key,
        }
    }
}

/// Maximum number of table rows without --top.
const MAX_TABLE_ROWS: usize = 1000;

/// A report and the data printed with it.
struct CostOutput<'a> {
    report: &'a CostReport,
    labels: &'a CostLabels,
    look: &'a DisplayArgs,
    mode: PriceMode,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    budgets: Vec<BudgetUsage>,
    /// Number of records that could not be read completely.
    uncounted: u64,
    /// True if rows were left out without --top.
    is_capped: bool,
}

impl CostOutput<'_> {
    /// Returns true if rows of sessions show their project without being grouped by it.
    fn adds_project(&self) -> bool {
        self.has_sessions() && !self.report.by.contains(&Dimension::Project)
    }

    /// Returns true if rows of sessions name their models, which are no keys.
    fn adds_models(&self) -> bool {
        let names_models = self.look.breakdown || self.report.by.contains(&Dimension::Model);
        self.has_sessions() && !names_models
    }

    fn has_sessions(&self) -> bool {
        self.report.by.contains(&Dimension::Session)
    }

    fn json_details(&self, clock: &Clock) -> CostDetails<'_> {
        CostDetails {
            zone: clock.zone_name(),
            since: self.since,
            until: self.until,
            now: clock.now,
            labels: self.labels,
            breakdown: self.look.breakdown,
            uncounted: self.uncounted,
            budgets: self.budgets.iter().map(budget::json).collect(),
        }
    }
}

pub(crate) fn run(args: &CostArgs, context: &mut Context) -> Result<Outcome> {
    if args.look.csv && context.json {
        bail!("--csv and --json cannot be used together");
    }
    let config = context.config()?;
    if let Some(name) = args.zone.as_ref().or(config.zone.as_ref()) {
        context.clock.zone = parse_zone(name)?;
    }
    let (since, until) = args.period.resolve(context)?;
    if since.zip(until).is_some_and(|(since, until)| since > until) {
        bail!("--since is later than --until");
    }
    let plot = args.plot.plot(args.look.csv, context)?;
    let by = args.dimensions();
    let ledger = context.ledger();
    let wanted = args.charge_filter(&ledger, context)?;
    let keep = |charge: &Charge| wanted.matches(charge);
    let prices = context.prices()?;
    let mode = args.mode.or(config.mode).unwrap_or_default().mode();
    let price = |charge: &Charge| prices.cost(charge, mode);
    let price: PriceFn<'_> = &price;
    let mut options = ReportOptions::new(context.clock.zone.clone(), price);
    options.since = since;
    options.until = until;
    options.filter = Some(&keep);
    options.sort = args.look.sort.map(SortArg::sort);
    options.reverse = args.look.reverse;
    let table = plot.is_none() && !context.json && !args.look.csv;
    let (top, capped) = args.row_limit(&by, table);
    options.top = top;
    let payers = match by.contains(&Dimension::Branch) {
        true => branch::read(context, &ledger, &options),
        false => branch::BranchAttributions::default(),
    };
    let branch = |charge: &Charge| payers.branch(charge, &ledger);
    options.branch = Some(&branch);
    let mut labels = CostLabels::default();
    if by.contains(&Dimension::Agent) {
        let accounts = accounts_with_agents(&ledger, &options);
        read_labels(&mut labels, accounts, &ledger, context);
    }
    let agent_kind = |charge: &Charge| labels.agent_kind(charge);
    options.agent_kind = Some(&agent_kind);
    let report = CostReport::new(&ledger, &by, &options);
    if by.contains(&Dimension::Session) && plot.is_none() {
        read_labels(&mut labels, accounts_of_rows(&report), &ledger, context);
    }
    let now = context.clock.now;
    let spent = config.budgets.iter();
    let spent = spent.map(|one| one.usage(&ledger.charges, price, &context.clock.zone, now));
    let output = CostOutput {
        report: &report,
        labels: &labels,
        look: &args.look,
        mode,
        since,
        until,
        budgets: spent.collect(),
        uncounted: ledger.uncounted,
        is_capped: capped,
    };
    if let Some(plot) = plot.filter(|_| !report.rows.is_empty()) {
        plot.write(&report, context)?;
    } else if context.json {
        let details = output.json_details(&context.clock);
        context.out.json(&CostJson::new(&report, details))?;
    } else if args.look.csv {
        csv::write(&output, &mut context.out)?;
    } else if report.rows.is_empty() {
        print_nothing(&output, &ledger, &wanted, context)?;
    } else {
        print_report(&output, context)?;
    }
    let outcome = match report.total.requests {
        0 => Outcome::NotFound,
        _ => Outcome::Ok,
    };
    // The process is about to exit; dropping the rows would only take time.
    std::mem::forget(ledger);
    Ok(outcome)
}

fn read_labels(
    labels: &mut CostLabels,
    accounts: BTreeSet<usize>,
    ledger: &Ledger,
    context: &mut Context,
) {
    if labels.has_all(&accounts) {
        return;
    }
    // Its errors were reported when the ledger was built.
    let inventory = context.inventory();
    let mut read = |wanted: &[usize]| context.session_labels(&inventory, wanted);
    labels.read(accounts, ledger, &inventory, &mut read);
}

impl CostArgs {
    /// Returns the dimensions of the rows, each once.
    fn dimensions(&self) -> Vec<Dimension> {
        let mut by: Vec<Dimension> = Vec::new();
        let agents = self.agents.then_some(Dimension::Agent);
        let asked = self.by.iter().map(|by| by.0);
        for dimension in asked.chain(agents) {
            if !by.contains(&dimension) {
                by.push(dimension);
            }
        }
        by
    }

    /// Returns the maximum number of rows, and whether it is the default of tables. Rows by time
    /// only are not limited.
    fn row_limit(&self, by: &[Dimension], table: bool) -> (Option<usize>, bool) {
        match self.look.top {
            Some(0) => (None, false),
            Some(top) => (Some(top), false),
            None if table && !by.iter().all(|by| by.is_time()) => (Some(MAX_TABLE_ROWS), true),
            None => (None, false),
        }
    }

    fn charge_filter(&self, ledger: &Ledger, context: &mut Context) -> Result<ChargeFilter> {
        let mut accounts = None;
        if self.project.is_some() || self.session.is_some() {
            let recorded = || ledger.accounts.iter().map(|account| &account.project);
            let project = self.project.as_deref();
            let project = project.map(|wanted| spellings(wanted, recorded()));
            let is_in = |account: &Account, dirs: &[String]| {
                dirs.iter().any(|dir| account.matches_project(dir))
            };
            if let (Some(wanted), Some(dirs)) = (&self.project, &project)
                && !ledger.accounts.iter().any(|account| is_in(account, dirs))
            {
                warn_unknown_project(wanted, recorded(), context);
            }
            let session = match &self.session {
                Some(id) => Some(context.find_session_to_read(id)?),
                None => None,
            };
            let session = session.as_ref().map(|files| files.accounts(ledger));
            let is_wanted = |(number, account): (usize, &Account)| {
                let in_project = project.as_deref().is_none_or(|dirs| is_in(account, dirs));
                in_project && session.as_ref().is_none_or(|own| own.contains(&number))
            };
            accounts = Some(ledger.accounts.iter().enumerate().map(is_wanted).collect());
        }
        Ok(ChargeFilter {
            accounts,
            model: self.model.clone(),
        })
    }
}

/// Filter of responses.
struct ChargeFilter {
    accounts: Option<Vec<bool>>,
    model: Option<String>,
}

impl ChargeFilter {
    fn matches(&self, charge: &Charge) -> bool {
        let account = self.accounts.as_ref();
        let account = account.is_none_or(|wanted| wanted.get(charge.account) == Some(&true));
        let model = self.model.as_deref().is_none_or(|wanted| {
            let model = charge.source.model.as_deref();
            model.is_some_and(|model| model.contains(wanted))
        });
        account && model
    }

    fn is_set(&self) -> bool {
        self.accounts.is_some() || self.model.is_some()
    }
}

pub(super) fn parse_zone(name: &str) -> Result<TimeZone> {
    let Err(error) = TimeZone::get(name) else {
        return Ok(TimeZone::get(name)?);
    };
    let known: Vec<String> = jiff::tz::db()
        .available()
        .map(|name| name.as_str().to_owned())
        .collect();
    if known.is_empty() {
        return Err(error.into());
    }
    let close = suggest(name, known.iter().map(String::as_str), 3);
    let hint = match close.as_slice() {
        [] => "zones are named like Europe/Berlin, America/New_York or UTC".to_owned(),
        close => format!("did you mean {}?", close.join(" or ")),
    };
    bail!("unknown time zone `{name}`; {hint}");
}

/// Prints that nothing matches, and the period that has responses.
fn print_nothing(
    output: &CostOutput<'_>,
    ledger: &Ledger,
    wanted: &ChargeFilter,
    context: &mut Context,
) -> Result<()> {
    let Some((first, last)) = ledger.span() else {
        if ledger.charges.is_empty() && output.uncounted > 0 {
            let line = uncounted_note(output.uncounted);
            return Ok(context.out.line(paint(WARNING, &line))?);
        }
        if ledger.charges.is_empty() {
            return super::overview::print_nothing(context, false, "response");
        }
        let line = "No response has a time; leave out --since and --until to see them.";
        return Ok(context.out.line(line)?);
    };
    let clock = &context.clock;
    let day = |time: Timestamp| clock.date(time);
    let asked = match (output.since, output.until) {
        (Some(since), Some(until)) => {
            format!(" from {} to {}", clock.full(since), clock.full(until))
        }
        (Some(since), None) => format!(" since {}", clock.full(since)),
        (None, Some(until)) => format!(" until {}", clock.full(until)),
        (None, None) => String::new(),
    };
    let fits = if wanted.is_set() { " matches" } else { "" };
    let count = pluralize(ledger.charges.len() as u64, "response");
    let line = format!(
        "No response{asked}{fits}; there are {count} from {} to {}.",
        day(first),
        day(last)
    );
    Ok(context.out.line(line)?)
}

fn print_report(output: &CostOutput<'_>, context: &mut Context) -> Result<()> {
    let width = context.out.width();
    let table = table::table(output, &context.clock, width);
    context.out.text(table)?;
    let notes = footnotes(output, context);
    if !notes.is_empty() {
        context.out.blank()?;
    }
    for note in notes {
        for line in wrap(&[note], width) {
            let mut text = String::new();
            push_spans(&mut text, &line);
            context.out.line(text)?;
        }
    }
    Ok(())
}

/// Returns the notes under a table.
fn footnotes(output: &CostOutput<'_>, context: &Context) -> Vec<Span> {
    let report = output.report;
    let clock = &context.clock;
    let mut notes = Vec::new();
    match report.by.as_slice() {
        [Dimension::Day] => notes.extend(table::recent_days_line(report, clock)),
        [Dimension::Block] => notes.extend(blocks::active_block_line(report, clock)),
        _ => {}
    }
    if let Some((rows, _)) = report.left_out.filter(|_| output.is_capped) {
        let text = format!(
            "These are the {} largest of {} rows; --top 0 shows all, as --csv and --json do",
            size::count(report.rows.len() as u64),
            size::count((report.rows.len() + rows) as u64)
        );
        notes.push(Span::new(&text, PLAIN));
    }
    notes.extend(table::unpriced_note(output, &context.prices_file()));
    if report.total.overflowed > 0 {
        let count = pluralize(report.total.overflowed, "response");
        let text = format!("! {count} could not be added: the sums would overflow");
        notes.push(Span::new(&text, WARNING));
    }
    if output.uncounted > 0 {
        notes.push(Span::new(&uncounted_note(output.uncounted), WARNING));
    }
    let budgets = output.budgets.iter();
    notes.extend(budgets.filter_map(|one| budget::warning_line(one, clock)));
    notes
}

fn uncounted_note(records: u64) -> String {
    let count = pluralize(records, "record");
    format!(
        "! {count} could not be read completely, so some costs may be missing; `annals check` lists them"
    )
}

/// Formats a count: short, or all digits with --exact.
fn format_count(n: u64, look: &DisplayArgs) -> String {
    match (n, look.exact) {
        (0, _) => String::new(),
        (_, true) => size::count(n),
        (_, false) => size::compact(n),
    }
}
