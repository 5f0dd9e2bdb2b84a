//! Cost tables and their notes.

use std::path::Path;

use annals::cost::{CostReport, Dimension, ModelTally, PriceMode, Tally, Unpriced};
use anstyle::Style;
use jiff::ToSpan as _;
use jiff::civil::Date;

use super::keys::{KeyColumns, short_model};
use super::{CostOutput, DisplayArgs, blocks, format_count};
use crate::commands::pricing;
use annals_render::bar::bar;
use annals_render::money;
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, DIM, PLAIN, SUCCESS, WARNING};
use annals_render::table::{Cell, Column, Table};
use annals_render::time::{Clock, duration};
use annals_render::width::{Span, truncate_middle};

/// Maximum number of models named in a row.
const MAX_MODELS: usize = 3;
/// Maximum number of model lines per row, unless all are asked for.
const MAX_BREAKDOWN: usize = 50;

/// Maximum number of unpriced models named in the note.
const MAX_UNPRICED: usize = 5;
/// Maximum width of a model's name in the note.
const MAX_NAME_WIDTH: usize = 60;

/// Renders the rows, the rest, and the total.
pub(super) fn table(output: &CostOutput<'_>, clock: &Clock, width: Option<usize>) -> String {
    let report = output.report;
    let keys = KeyColumns::new(output, clock, width);
    let mut columns: Vec<Column> = report
        .by
        .iter()
        .flat_map(|&dimension| keys.columns(dimension))
        .collect();
    let about = columns.len();
    let models = !report.by.contains(&Dimension::Model);
    let shape = OptionalColumns {
        // A breakdown has a line for each model instead.
        has_models: models && !output.look.breakdown,
        has_searches: report.total.usage.web_searches > 0,
    };
    columns.extend(sum_columns(shape));
    let mut table = Table::new(columns);
    let largest = report.rows.iter().map(|row| row.tally.cost.pico()).max();
    let largest = largest.unwrap_or(0);
    let lines = LineBuilder {
        look: output.look,
        key_columns: about,
        largest,
        optional: shape,
    };
    let gaps =
        report.by == [Dimension::Block] && output.look.sort.is_none() && !output.look.reverse;
    let mut last = None;
    for row in &report.rows {
        if let Some(idle) = last
            .and_then(|last| blocks::gap_between(last, row))
            .filter(|_| gaps)
        {
            let text = format!("… {} gap", duration(idle));
            table.row([Cell::styled(text, DIM)]);
        }
        last = Some(row);
        let cells = row.parts.iter().flat_map(|part| keys.cells(part)).collect();
        table.row(lines.cells(cells, &row.models, &row.tally, PLAIN));
        if output.look.breakdown && models {
            for (name, tally) in breakdown(&row.models, output.look) {
                let name = Cell::styled(format!("  {name}"), DIM);
                table.row(lines.cells(vec![name], &[], &tally, DIM));
            }
        }
    }
    if let Some((rows, tally)) = &report.left_out {
        let name = format!("… {} more", size::count(*rows as u64));
        let name = Cell::styled(name, DIM);
        table.row(lines.cells(vec![name], &[], tally, DIM));
    }
    let name = Cell::styled("TOTAL", BOLD);
    table.row(lines.cells(vec![name], &[], &report.total, BOLD));
    table.render(width)
}

fn sum_columns(shape: OptionalColumns) -> impl Iterator<Item = Column> {
    let models = Column::new("MODELS").style(DIM).min(10).max(40);
    let models = shape.has_models.then_some(models.priority(30));
    let tokens = [
        Column::new("REQUESTS").right().priority(60),
        Column::new("INPUT").right().priority(50),
        Column::new("OUTPUT").right().priority(70),
        Column::new("CACHE WRITE").right().priority(40),
        Column::new("CACHE READ").right().priority(40),
    ];
    let searches = Column::new("SEARCHES").right().priority(10);
    let searches = shape.has_searches.then_some(searches);
    let cost = [
        Column::new("COST").right().priority(255),
        Column::new("").style(SUCCESS).priority(35),
    ];
    let columns = models.into_iter().chain(tokens);
    columns.chain(searches).chain(cost)
}

/// Optional columns.
#[derive(Clone, Copy)]
struct OptionalColumns {
    /// True if models are not shown otherwise.
    has_models: bool,
    /// True if there were web searches.
    has_searches: bool,
}

/// Data that all lines of a table share.
struct LineBuilder<'a> {
    look: &'a DisplayArgs,
    /// Number of key columns.
    key_columns: usize,
    /// The highest cost of a row.
    largest: i128,
    optional: OptionalColumns,
}

impl LineBuilder<'_> {
    fn cells(
        &self,
        mut cells: Vec<Cell>,
        models: &[ModelTally],
        tally: &Tally,
        style: Style,
    ) -> Vec<Cell> {
        cells.resize(self.key_columns, Cell::new(""));
        let usage = &tally.usage;
        let writes = usage.cache_write_5m.saturating_add(usage.cache_write_1h);
        let tokens = [usage.input, usage.output, writes, usage.cache_read];
        if self.optional.has_models {
            cells.push(Cell::new(model_names(models)));
        }
        cells.push(Cell::styled(size::count(tally.requests), style));
        cells.extend(tokens.map(|n| Cell::styled(format_count(n, self.look), style)));
        if self.optional.has_searches {
            cells.push(Cell::styled(
                format_count(usage.web_searches, self.look),
                style,
            ));
        }
        cells.push(self.cost_cell(tally, style));
        // The total needs no bar: it is always the largest.
        let drawn = style == PLAIN;
        cells.push(Cell::new(match drawn {
            true => bar(tally.cost.pico(), self.largest),
            false => String::new(),
        }));
        cells
    }

    fn cost_cell(&self, tally: &Tally, style: Style) -> Cell {
        let amount = match self.look.exact {
            true => money::exact,
            false => money::cents,
        };
        pricing::styled_cost_cell(tally, style, amount)
    }
}

fn model_name(one: &ModelTally) -> &str {
    one.model.as_deref().map_or("unknown", short_model)
}

/// Returns the names of a row's models, most expensive first.
fn model_names(models: &[ModelTally]) -> String {
    let mut named: Vec<&str> = Vec::new();
    for one in models.iter().take(MAX_MODELS * 4) {
        let name = model_name(one);
        if !named.contains(&name) && named.len() < MAX_MODELS {
            named.push(name);
        }
    }
    let more = models.len().saturating_sub(named.len());
    match models.len() > MAX_MODELS {
        true => format!("{} +{more}", named.join(", ")),
        false => named.join(", "),
    }
}

/// Returns the models of a row up to a limit, and the sum of the rest.
fn breakdown(models: &[ModelTally], look: &DisplayArgs) -> Vec<(String, Tally)> {
    let most = match look.top {
        Some(0) => usize::MAX,
        _ => MAX_BREAKDOWN,
    };
    let (shown, rest) = models.split_at(models.len().min(most));
    let shown = shown
        .iter()
        .map(|one| (model_name(one).to_owned(), one.tally));
    let mut lines: Vec<(String, Tally)> = shown.collect();
    if !rest.is_empty() {
        let mut sum = Tally::default();
        rest.iter().for_each(|one| sum.merge(&one.tally));
        let name = format!("… {} more (--top 0: all)", size::count(rest.len() as u64));
        lines.push((name, sum));
    }
    lines
}

/// Renders the last days as a spark line: their cost, or their tokens if nothing has a price.
pub(super) fn recent_days_line(report: &CostReport, clock: &Clock) -> Option<Span> {
    const DAYS: i64 = 30;
    let day = |row: &annals::cost::ReportRow| -> Option<Date> {
        row.part(Dimension::Day)?.value.as_deref()?.parse().ok()
    };
    let tallies: std::collections::HashMap<Date, &Tally> = report
        .rows
        .iter()
        .filter_map(|row| Some((day(row)?, &row.tally)))
        .collect();
    // A spark line needs all rows and at least three days.
    if report.left_out.is_some() || tallies.len() < 3 {
        return None;
    }
    let newest = tallies.keys().max()?;
    let days = (0..DAYS).rev();
    let days: Vec<Date> = days
        .filter_map(|back| newest.checked_sub(back.days()).ok())
        .skip_while(|day| !tallies.contains_key(day))
        .collect();
    let mut total = Tally::default();
    let shown = days.iter().filter_map(|day| tallies.get(day));
    shown.for_each(|tally| total.merge(tally));
    // Bars need no more than millionths of a dollar.
    let micro = |pico: i128| pico.max(0).saturating_add(999_999) / 1_000_000;
    let bar = |tally: &Tally| match total.priced() {
        Some(_) => u64::try_from(micro(tally.cost.pico())).unwrap_or(u64::MAX),
        None => tally.tokens(),
    };
    let bars = days.iter();
    let bars: Vec<u64> = bars
        .map(|day| tallies.get(day).map_or(0, |tally| bar(tally)))
        .collect();
    let sum = match total.priced() {
        Some(_) => pricing::cost_text_or_zero(&total),
        None => format!("{} unpriced tokens", size::compact(total.tokens())),
    };
    let today = clock.format(clock.now, "%Y-%m-%d") == newest.to_string();
    let until = match today {
        true => "today".to_owned(),
        false => newest.strftime("%-d %b").to_string(),
    };
    let line = format!(
        "{}  {sum} in the {} to {until}",
        size::spark(&bars),
        pluralize(days.len() as u64, "day"),
    );
    Some(Span::new(&line, PLAIN))
}

/// Returns the note about models without a price, with advice.
pub(super) fn unpriced_note(output: &CostOutput<'_>, prices: &Path) -> Option<Span> {
    let report = output.report;
    let total = &report.total;
    if total.unpriced == 0 {
        return None;
    }
    // The name comes from a log and may be very long.
    let name = |one: &Unpriced| {
        let name = one.model.as_deref().unwrap_or("unknown");
        truncate_middle(name, MAX_NAME_WIDTH)
    };
    let names: Vec<String> = report
        .unpriced
        .iter()
        .take(MAX_UNPRICED)
        .map(name)
        .collect();
    let more = match report.unpriced.len() - names.len() {
        0 => String::new(),
        more => format!(" … and {} more", size::count(more as u64)),
    };
    let have = if total.unpriced == 1 { "has" } else { "have" };
    let place = prices.display();
    let prices = format!("see `annals prices NAME`, or add a price to {place}");
    let (lack, advice) = match output.mode {
        PriceMode::Recorded => (
            "no recorded cost",
            "--mode auto computes it from tokens".to_owned(),
        ),
        PriceMode::Tokens if total.unpriced_tokens == 0 => (
            "no tokens, only a recorded cost",
            "--mode auto uses it".to_owned(),
        ),
        PriceMode::Tokens => (
            "no price",
            format!("{prices}; --mode auto uses costs recorded in the log"),
        ),
        _ => ("no price", prices),
    };
    let tokens = match total.unpriced_tokens {
        0 => String::new(),
        tokens => format!(" ({} tokens)", size::compact(tokens)),
    };
    let text = format!(
        "! {}{tokens} of {} {have} {lack}: {}{more}; {advice}",
        pluralize(total.unpriced, "request"),
        pluralize(report.unpriced.len() as u64, "model"),
        names.join(", "),
    );
    Some(Span::new(&text, WARNING))
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals::cost::{Charge, Ledger, ReportOptions};
    use annals::model::Money;
    use annals::view::CostLabels;
    use anstream::adapter::strip_str;
    use insta::assert_snapshot;
    use jiff::tz::TimeZone;

    fn clock() -> Clock {
        Clock {
            now: "2026-11-15T12:00:00Z".parse().unwrap(),
            zone: TimeZone::UTC,
        }
    }

    fn charge(time: &str, model: &str, counts: [u64; 4]) -> Charge {
        let mut charge = Charge::new(0);
        charge.time = time.parse().ok();
        charge.source_mut().model = Some(model.into());
        let [input, output, write, read] = counts;
        charge.usage.input = input;
        charge.usage.output = output;
        charge.usage.cache_write_5m = write;
        charge.usage.cache_read = read;
        charge
    }

    fn ledger() -> Ledger {
        let opus = "claude-opus-4-1-20250805";
        let charges = vec![
            charge(
                "2026-11-12T10:00:00Z",
                opus,
                [4_000, 31_000, 250_000, 9_000_000],
            ),
            charge(
                "2026-11-12T11:00:00Z",
                "gpt-5-codex",
                [150_000, 8_000, 0, 2_000],
            ),
            charge("2026-11-13T10:00:00Z", "odd", [100, 50, 0, 0]),
            charge("2026-11-15T10:00:00Z", "claude-haiku-4-5", [7, 1, 0, 0]),
            charge(
                "2026-11-15T10:30:00Z",
                opus,
                [12, 1_234_567, 80_000, 1_000_000_000],
            ),
            charge("2026-11-15T10:30:00Z", "odd", [12, 0, 0, 0]),
        ];
        let id = annals::model::SessionId::new("0a1b2c3d-0000-4000-8000-000000000000").unwrap();
        let mut account = annals::cost::Account::new("claude-code", "/root", id);
        account.project.path = "/work/analytical-engine-of-ada".to_owned();
        Ledger::new(vec![account], charges)
    }

    fn price(charge: &Charge) -> Option<Money> {
        let known = charge.source.model.as_deref() != Some("odd");
        known.then(|| Money::from_pico(1_000_000) * charge.usage.total())
    }

    fn drawn(by: &[Dimension], look: &DisplayArgs, width: Option<usize>) -> String {
        let options = ReportOptions::new(TimeZone::UTC, &price);
        let report = CostReport::new(&ledger(), by, &options);
        let output = CostOutput {
            report: &report,
            labels: &CostLabels::default(),
            look,
            mode: PriceMode::Auto,
            since: None,
            until: None,
            budgets: Vec::new(),
            uncounted: 0,
            is_capped: false,
        };
        let table = table(&output, &clock(), width);
        let fits = |line: &str| width.is_none_or(|max| annals_render::width::width(line) <= max);
        let plain = strip_str(&table).to_string();
        assert!(plain.lines().all(fits), "{plain}");
        plain
    }

    #[test]
    fn tables_fit_the_terminal_width() {
        let look = DisplayArgs::default();
        let widths = [
            None,
            Some(140),
            Some(100),
            Some(80),
            Some(60),
            Some(40),
            Some(30),
        ];
        let tables = |by: &[Dimension], look: &DisplayArgs| -> String {
            let tables = widths.iter().map(|width| drawn(by, look, *width));
            tables.collect::<Vec<_>>().join("\n")
        };
        assert_snapshot!("widths_day", tables(&[Dimension::Day], &look));
        assert_snapshot!("widths_block", tables(&[Dimension::Block], &look));
        let by = [Dimension::Day, Dimension::Model];
        assert_snapshot!("widths_models", tables(&by, &look));
        let by = [Dimension::Project, Dimension::Model];
        assert_snapshot!("widths_project_model", tables(&by, &look));
        let look = DisplayArgs {
            breakdown: true,
            ..look
        };
        assert_snapshot!("widths_breakdown", tables(&[Dimension::Project], &look));
        let look = DisplayArgs {
            exact: true,
            ..look
        };
        assert_snapshot!(
            "widths_exact",
            tables(&[Dimension::Week, Dimension::Agent], &look)
        );
    }

    #[test]
    fn table_names_a_project_once() {
        let options = ReportOptions::new(TimeZone::UTC, &price);
        let mut ledger = ledger();
        ledger.accounts[0].project.path = "/work/rocket".to_owned();
        let head = |by: &[Dimension]| -> Vec<String> {
            let report = CostReport::new(&ledger, by, &options);
            let look = DisplayArgs::default();
            let output = CostOutput {
                report: &report,
                labels: &CostLabels::default(),
                look: &look,
                mode: PriceMode::Auto,
                since: None,
                until: None,
                budgets: Vec::new(),
                uncounted: 0,
                is_capped: false,
            };
            let table = strip_str(&table(&output, &clock(), None)).to_string();
            assert_eq!(table.matches("rocket").count(), 1, "{table}");
            let head = table.lines().next().unwrap_or_default();
            head.split_whitespace().take(3).map(str::to_owned).collect()
        };
        let (project, session) = (Dimension::Project, Dimension::Session);
        assert_eq!(head(&[project, session]), ["PROJECT", "SESSION", "TITLE"]);
        assert_eq!(head(&[session, project]), ["SESSION", "TITLE", "PROJECT"]);
        assert_eq!(head(&[session]), ["SESSION", "TITLE", "PROJECT"]);
    }

    #[test]
    fn recent_days_line_has_no_gaps() {
        let options = ReportOptions::new(TimeZone::UTC, &price);
        let report = CostReport::new(&ledger(), &[Dimension::Day], &options);
        let line = Span::new("▂▁▁█  ≥$1,010.76 in the 4 days to today", PLAIN);
        assert_eq!(recent_days_line(&report, &clock()), Some(line));
        // Without prices, tokens are shown: the cost is unknown, not zero.
        let options = ReportOptions::new(TimeZone::UTC, &|_: &Charge| None);
        let report = CostReport::new(&ledger(), &[Dimension::Day], &options);
        let line = Span::new("▂▂▁█  1.0B unpriced tokens in the 4 days to today", PLAIN);
        assert_eq!(recent_days_line(&report, &clock()), Some(line));
    }
}
