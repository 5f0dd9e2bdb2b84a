//! `annals prices`

use annals::cost::Prices;
use annals::cost::prices::{PriceColumn as Field, PriceMatch, PriceRow};
use annals::model::{Money, ServiceTier};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::Outcome;
use crate::context::Context;
use annals_render::size;
use annals_render::style::{BOLD, DIM, PLAIN, SUCCESS, TITLE, WARNING, paint};
use annals_render::table::{Cell, Column, Table};

/// Lists prices, or explains how names get theirs.
#[derive(Debug, Args)]
#[command(after_help = "\
Prices are dollars per million tokens. Your own are in prices.csv in $ANNALS_CONFIG_DIR (else \
$XDG_CONFIG_HOME/annals, else ~/.config/annals), or in the file that --prices names. The first line \
names the columns, in any order; `model`, `input` and `output` are enough:

  model,input,output,cache_read,from
  claude-opus-4-1,10,50,1,
  our-own-model,0.5,1.5,,2026-06-01

A row replaces the built-in one of the same model, `from` (the first day, UTC), `above` (a context \
in tokens) and `pace` (batch, flex, priority, fast), or is added. A newer day replaces all rows of \
its model and pace. A row without `from` applies to all days; without `above` and `pace` too, as in \
the first row above, it replaces all built-in rows of the model, and long contexts and paces that \
your own rows do not list cost the same. Cache writes and reads \
without a price follow Anthropic's rule for its models (1.25 times the \
input, 2 for an hour, 0.1 to read), else the input price. With the column `same_as`, a row gives a \
model another name.

Examples:
  annals prices                                     the prices of today
  annals prices --provider anthropic --all          all dates, contexts, paces
  annals prices us.anthropic.claude-sonnet-4-5-v1:0 which price a name gets
  annals prices --on 2025-06-01 o3                  the price of another day
  annals prices --csv claude-opus-4-1 > prices.csv  rows to edit as your own")]
pub(crate) struct PricesArgs {
    /// Names of models, in any of the forms that logs have
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Show all dates, contexts, paces and aliases, not only prices in effect
    #[arg(long)]
    all: bool,
    /// Only models of this provider
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Show the prices of this day (UTC)
    #[arg(long, value_name = "DATE")]
    on: Option<String>,
    /// Print rows in the format of a price list
    #[arg(long)]
    csv: bool,
}

/// A row as JSON: the columns of a price list, and its file and line.
#[derive(Serialize)]
struct PriceRowJson<'a> {
    model: &'a str,
    provider: &'a str,
    from: Option<Date>,
    above: Option<u64>,
    pace: &'static str,
    input: Option<Money>,
    output: Option<Money>,
    cache_write_5m: Option<Money>,
    cache_write_1h: Option<Money>,
    cache_read: Option<Money>,
    web_search: Option<Money>,
    us_percent: Option<u32>,
    context: Option<u64>,
    same_as: Option<&'a str>,
    source: &'a str,
    file: Option<&'a str>,
    line: Option<usize>,
    /// Prices billed for columns that the row leaves out.
    #[serde(skip_serializing_if = "DerivedJson::is_empty")]
    derived: DerivedJson,
}

/// Prices that a row leaves out, derived from its others.
#[derive(Default, PartialEq, Serialize)]
struct DerivedJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_5m: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_1h: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read: Option<Money>,
}

impl DerivedJson {
    fn new(row: &PriceRow) -> Self {
        let billed = row.billed();
        let left_out =
            |said: Option<Money>, billed: Option<Money>| billed.filter(|_| said.is_none());
        DerivedJson {
            cache_write_5m: left_out(row.cache_write_5m, billed.cache_write_5m),
            cache_write_1h: left_out(row.cache_write_1h, billed.cache_write_1h),
            cache_read: left_out(row.cache_read, billed.cache_read),
        }
    }

    fn is_empty(&self) -> bool {
        *self == DerivedJson::default()
    }
}

impl<'a> PriceRowJson<'a> {
    fn new(row: &'a PriceRow) -> Self {
        PriceRowJson {
            model: &row.model,
            provider: &row.provider,
            from: row.from,
            above: row.above,
            pace: row.tier.name(),
            input: row.input,
            output: row.output,
            cache_write_5m: row.cache_write_5m,
            cache_write_1h: row.cache_write_1h,
            cache_read: row.cache_read,
            web_search: row.web_search,
            us_percent: row.us_percent,
            context: row.context,
            same_as: row.same_as.as_deref(),
            source: &row.source,
            file: row.file.as_deref(),
            // Line numbers of the built-in list are of no use.
            line: row.file.is_some().then_some(row.line),
            derived: DerivedJson::new(row),
        }
    }
}

#[derive(Serialize)]
struct PriceListJson<'a> {
    prices: Vec<PriceRowJson<'a>>,
}

#[derive(Serialize)]
struct MatchesJson<'a> {
    matches: Vec<MatchJson<'a>>,
}

/// Match of a name; without a model, there is none.
#[derive(Serialize)]
struct MatchJson<'a> {
    asked: &'a str,
    model: Option<&'a str>,
    provider: Option<&'a str>,
    /// True for a name that is not a model and costs nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    free: bool,
    steps: Vec<&'a str>,
    context: Option<u64>,
    /// Row in effect on the day, at the standard pace for a short context.
    holds: Option<PriceRowJson<'a>>,
    rows: Vec<PriceRowJson<'a>>,
    nearest: Vec<String>,
}

pub(crate) fn run(args: &PricesArgs, context: &mut Context) -> Result<Outcome> {
    if args.csv && context.json {
        bail!("--csv and --json cannot be used together");
    }
    let prices = context.prices()?;
    let on = price_day(args, context)?;
    if args.names.is_empty() {
        print_list(args, &prices, on, context)
    } else {
        explain_names(args, &prices, on, context)
    }
}

/// Returns the day whose prices apply.
fn price_day(args: &PricesArgs, context: &Context) -> Result<Date> {
    match &args.on {
        Some(text) => context.clock.now().parse_day(text).with_context(|| {
            format!("`{text}` is not a day; write it as 2026-01-31, yesterday or 6mo")
        }),
        None => Ok(context.clock.now.to_zoned(TimeZone::UTC).date()),
    }
}

fn print_list(
    args: &PricesArgs,
    prices: &Prices,
    on: Date,
    context: &mut Context,
) -> Result<Outcome> {
    let rows = prices.rows();
    // An alias has the provider of its model.
    let provider = |row: &PriceRow| match &row.same_as {
        Some(_) => prices.find(&row.model).map(|found| found.provider),
        None => Some(row.provider.clone()),
    };
    let wanted = |row: &PriceRow| match &args.provider {
        Some(wanted) => provider(row).is_some_and(|name| name.eq_ignore_ascii_case(wanted)),
        None => true,
    };
    let rows: Vec<PriceRow> = rows.into_iter().filter(wanted).collect();
    if args.csv {
        write_csv(rows.iter(), context)?;
    } else if args.all {
        if context.json {
            let prices = rows.iter().map(PriceRowJson::new).collect();
            context.out.json(&PriceListJson { prices })?;
        } else if !rows.is_empty() {
            let table = full_table(&rows, context);
            context.out.text(table)?;
            print_derived_note(&rows, context)?;
        }
    } else {
        let models: Vec<PriceMatch> = rows
            .chunk_by(|a, b| a.model == b.model)
            .filter_map(|rows| prices.find(&rows.first()?.model))
            .collect();
        // An alias is listed only by its model.
        let held = |found: &PriceMatch| found.row(Some(on), ServiceTier::Standard, 0).cloned();
        let listed: Vec<(PriceRow, &PriceMatch)> = models
            .iter()
            .filter(|found| found.asked == found.model)
            .filter_map(|found| Some((held(found)?, found)))
            .collect();
        if context.json {
            let prices = listed
                .iter()
                .map(|(row, _)| PriceRowJson::new(row))
                .collect();
            context.out.json(&PriceListJson { prices })?;
        } else if !listed.is_empty() {
            let table = short_table(&listed, on, context);
            context.out.text(table)?;
            print_derived_note(listed.iter().map(|(row, _)| row), context)?;
        }
    }
    if rows.is_empty() {
        let provider = args.provider.as_deref().unwrap_or_default();
        if !context.json && !args.csv {
            let text = format!("No model of `{provider}` has a price.");
            context.out.line(paint(PLAIN, &text))?;
        }
        return Ok(Outcome::NotFound);
    }
    Ok(Outcome::Ok)
}

/// Renders one line per model, with the prices in effect.
fn short_table(listed: &[(PriceRow, &PriceMatch)], on: Date, context: &Context) -> String {
    let mut table = Table::new([
        Column::new("PROVIDER").style(DIM).priority(50),
        Column::new("MODEL").min(30).style(TITLE),
        Column::new("FROM").style(DIM).priority(30),
        Column::new("IN").right(),
        Column::new("OUT").right(),
        Column::new("5M").right().priority(80),
        Column::new("1H").right().priority(70),
        Column::new("READ").right().priority(90),
        Column::new("NOTE").min(16).style(DIM).priority(40),
    ]);
    for (row, found) in listed {
        let cache = cache_cells(row);
        table.row([
            Cell::new(&row.provider),
            Cell::new(&row.model),
            Cell::new(row.field(Field::From)),
            Cell::new(row.field(Field::Input)),
            Cell::new(row.field(Field::Output)),
            cache(Field::CacheWrite5m),
            cache(Field::CacheWrite1h),
            cache(Field::CacheRead),
            Cell::new(model_note(found, row, on)),
        ]);
    }
    table.render(context.out.width())
}

/// Returns notes on a model: its contexts, paces and coming prices.
fn model_note(found: &PriceMatch, held: &PriceRow, on: Date) -> String {
    let mut notes = Vec::new();
    for row in found.rows.iter().filter(|row| is_in_effect(found, row, on)) {
        if row.tier == ServiceTier::Standard
            && let Some(above) = row.above
        {
            let (input, output) = (row.field(Field::Input), row.field(Field::Output));
            notes.push(format!("{input}/{output} above {}", format_tokens(above)));
        }
    }
    for pace in ServiceTier::ALL {
        let paced = |row: &&PriceRow| {
            row.tier == pace && row.above.is_none() && is_in_effect(found, row, on)
        };
        if pace != ServiceTier::Standard && found.rows.iter().any(|row| paced(&row)) {
            notes.push(pace.name().to_owned());
        }
    }
    let coming = found
        .rows
        .iter()
        .filter(|row| row.tier == ServiceTier::Standard)
        .filter_map(|row| row.from)
        .find(|from| *from > on);
    notes.extend(coming.map(|from| format!("changes {from}")));
    if held.file.is_some() {
        notes.push("your own".to_owned());
    }
    notes.join(", ")
}

/// Renders one line per row.
fn full_table(rows: &[PriceRow], context: &Context) -> String {
    let mut table = Table::new([
        Column::new("PROVIDER").style(DIM).priority(40),
        Column::new("MODEL").min(30).style(TITLE),
        Column::new("FROM").style(DIM),
        Column::new("ABOVE").right().style(DIM),
        Column::new("PACE").style(DIM),
        Column::new("IN").right(),
        Column::new("OUT").right(),
        Column::new("5M").right().priority(80),
        Column::new("1H").right().priority(70),
        Column::new("READ").right().priority(90),
        Column::new("SOURCE").min(10).style(DIM).priority(30),
    ]);
    for row in rows {
        let name = match &row.same_as {
            Some(model) => format!("{} = {model}", row.model),
            None => row.model.clone(),
        };
        let cache = cache_cells(row);
        table.row([
            Cell::new(&row.provider),
            Cell::new(name),
            Cell::new(row.field(Field::From)),
            Cell::new(row.above.map(format_tokens).unwrap_or_default()),
            Cell::new(row.field(Field::Tier)),
            Cell::new(row.field(Field::Input)),
            Cell::new(row.field(Field::Output)),
            cache(Field::CacheWrite5m),
            cache(Field::CacheWrite1h),
            cache(Field::CacheRead),
            Cell::new(row_source(row)),
        ]);
    }
    table.render(context.out.width())
}

/// Formats a context size, short if it is round.
fn format_tokens(n: u64) -> String {
    match n.is_multiple_of(1000) {
        true => format!("{}k", size::count(n / 1000)),
        false => size::count(n),
    }
}

/// Returns true if a row is in effect on a day, for its context and pace.
fn is_in_effect(found: &PriceMatch, row: &PriceRow, on: Date) -> bool {
    let context = row.above.map_or(0, |above| above.saturating_add(1));
    found.row(Some(on), row.tier, context) == Some(row)
}

/// Returns the file and line of a row, or the source of a built-in one.
fn row_source(row: &PriceRow) -> String {
    match &row.file {
        Some(file) => format!("{file}:{}", row.line),
        None => row.source.clone(),
    }
}

fn explain_names(
    args: &PricesArgs,
    prices: &Prices,
    on: Date,
    context: &mut Context,
) -> Result<Outcome> {
    let found: Vec<(&String, Option<PriceMatch>)> = args
        .names
        .iter()
        .map(|name| (name, prices.find(name)))
        .collect();
    let known =
        |(name, found): &(&String, Option<PriceMatch>)| found.is_some() || Prices::is_free(name);
    let outcome = match found.iter().all(known) {
        true => Outcome::Ok,
        false => Outcome::NotFound,
    };
    if args.csv {
        let mut models: Vec<&PriceMatch> = found
            .iter()
            .filter_map(|(_, found)| found.as_ref())
            .collect();
        models.sort_by(|a, b| a.model.cmp(&b.model));
        models.dedup_by(|a, b| a.model == b.model);
        write_csv(models.iter().flat_map(|found| &found.rows), context)?;
    } else if context.json {
        let matches = found
            .iter()
            .map(|(name, found)| match_json(name, found.as_ref(), prices, on))
            .collect();
        context.out.json(&MatchesJson { matches })?;
    } else {
        for (at, (name, found)) in found.iter().enumerate() {
            if at > 0 {
                context.out.blank()?;
            }
            match found {
                Some(found) => print_match(found, on, context)?,
                None if Prices::is_free(name) => print_why_free(name, context)?,
                None => print_unknown(name, prices, context)?,
            }
        }
    }
    Ok(outcome)
}

fn match_json<'a>(
    asked: &'a str,
    found: Option<&'a PriceMatch>,
    prices: &Prices,
    on: Date,
) -> MatchJson<'a> {
    let Some(found) = found else {
        let free = Prices::is_free(asked);
        return MatchJson {
            asked,
            model: None,
            provider: None,
            free,
            steps: Vec::new(),
            context: None,
            holds: None,
            rows: Vec::new(),
            nearest: match free {
                true => Vec::new(),
                false => prices.suggest(asked),
            },
        };
    };
    let held = found.row(Some(on), ServiceTier::Standard, 0);
    MatchJson {
        asked,
        model: Some(&found.model),
        provider: Some(&found.provider),
        free: false,
        steps: found.steps.iter().map(String::as_str).collect(),
        context: found.context(),
        holds: held.map(PriceRowJson::new),
        rows: found.rows.iter().map(PriceRowJson::new).collect(),
        nearest: Vec::new(),
    }
}

/// Prints how a name was matched, and the prices of its model.
fn print_match(found: &PriceMatch, on: Date, context: &mut Context) -> Result<()> {
    let out = &mut context.out;
    out.line(paint(BOLD, &found.asked))?;
    for step in &found.steps {
        out.line(format_args!("  {} {}", paint(DIM, "→"), paint(PLAIN, step)))?;
    }
    let mut is = vec![found.model.clone()];
    is.extend(Some(format!("of {}", found.provider)).filter(|_| !found.provider.is_empty()));
    let is = is.join(" ");
    let window = match found.context() {
        Some(tokens) => format!(", with a context of {} tokens", size::count(tokens)),
        None => String::new(),
    };
    out.line(format_args!(
        "  {} {}",
        paint(SUCCESS, "is"),
        paint(PLAIN, &format!("{is}{window}"))
    ))?;
    if found.row(Some(on), ServiceTier::Standard, 0).is_none() {
        let text = format!("has no price on {on}");
        out.line(format_args!("  {}", paint(WARNING, &text)))?;
    }
    out.blank()?;
    let mut table = Table::new([
        Column::new("").style(SUCCESS),
        Column::new("FROM").style(DIM),
        Column::new("ABOVE").right(),
        Column::new("PACE"),
        Column::new("IN").right(),
        Column::new("OUT").right(),
        Column::new("5M").right().priority(80),
        Column::new("1H").right().priority(70),
        Column::new("READ").right().priority(90),
        Column::new("SEARCH").right().priority(20),
        Column::new("US").right().priority(10),
        Column::new("SOURCE").min(10).style(DIM).priority(60),
    ]);
    for row in &found.rows {
        let cache = cache_cells(row);
        let us = row.us_percent.map(|percent| format!("{percent}%"));
        table.row([
            Cell::new(if is_in_effect(found, row, on) {
                "*"
            } else {
                ""
            }),
            Cell::new(row.field(Field::From)),
            Cell::new(row.above.map(format_tokens).unwrap_or_default()),
            Cell::new(row.tier.name()),
            Cell::new(row.field(Field::Input)),
            Cell::new(row.field(Field::Output)),
            cache(Field::CacheWrite5m),
            cache(Field::CacheWrite1h),
            cache(Field::CacheRead),
            Cell::new(row.field(Field::WebSearch)),
            Cell::new(us.unwrap_or_default()),
            Cell::new(row_source(row)),
        ]);
    }
    let table = table.render(context.out.width());
    context.out.text(table)?;
    let legend =
        format!("* in effect on {on}; dollars per million tokens, or per thousand searches");
    context.out.line(paint(DIM, &legend))?;
    print_derived_note(&found.rows, context)?;
    Ok(())
}

/// Returns the cells of cache prices; derived prices are marked.
fn cache_cells(row: &PriceRow) -> impl Fn(Field) -> Cell {
    let billed = row.billed();
    move |column| match (row.field(column), billed.field(column)) {
        (said, billed) if said.is_empty() && !billed.is_empty() => {
            Cell::styled(format!("~{billed}"), DIM)
        }
        (said, _) => Cell::new(said),
    }
}

/// Prints the meaning of the mark, if there is one.
fn print_derived_note<'a>(
    rows: impl IntoIterator<Item = &'a PriceRow>,
    context: &mut Context,
) -> Result<()> {
    let mut rows = rows.into_iter();
    if rows.any(|row| !DerivedJson::new(row).is_empty()) {
        let rule = "~ derived from the other prices; see `annals prices --help`";
        context.out.line(paint(DIM, rule))?;
    }
    Ok(())
}

/// Prints why a name costs nothing.
fn print_why_free(name: &str, context: &mut Context) -> Result<()> {
    let out = &mut context.out;
    out.line(paint(BOLD, name))?;
    out.line(format_args!(
        "  {} {}",
        paint(SUCCESS, "is free"),
        paint(PLAIN, "of charge: written by the client, not by a model")
    ))?;
    Ok(())
}

/// Prints what to do about a name without a price.
fn print_unknown(name: &str, prices: &Prices, context: &mut Context) -> Result<()> {
    let file = context.prices_file().display().to_string();
    let nearest = prices.suggest(name);
    let out = &mut context.out;
    out.line(paint(BOLD, name))?;
    out.line(format_args!("  {}", paint(WARNING, "has no price")))?;
    if !nearest.is_empty() {
        let names = format!("similar: {}", nearest.join(", "));
        out.line(format_args!("  {}", paint(PLAIN, &names)))?;
    }
    let advice = format!("to give it one, add a row to {file}:");
    out.line(format_args!("  {}", paint(PLAIN, &advice)))?;
    for line in ["model,input,output".to_owned(), format!("{name},3,15")] {
        out.line(format_args!("    {}", paint(DIM, &line)))?;
    }
    Ok(())
}

fn write_csv<'a>(rows: impl Iterator<Item = &'a PriceRow>, context: &mut Context) -> Result<()> {
    let columns = Field::ALL.map(Field::name).join(",");
    context.out.line(columns)?;
    for row in rows {
        context.out.line(paint(PLAIN, &row.to_csv()))?;
    }
    Ok(())
}
