//! The chart of a cost report.

use std::collections::{BTreeSet, HashMap};

use annals::cost::{CostReport, Dimension, ReportRow, RowPart, Tally};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{Axis, Bar, Chart, Step, Unit};
use crate::size::{self, pluralize};

impl Chart {
    /// Builds the chart of a report: the first dimension is the axis, the second the series. With one
    /// dimension, the models are the series.
    pub fn from_report(report: &CostReport, zone: &TimeZone) -> Self {
        let (unit, why) = match report.total.priced() {
            None => (Unit::Tokens, " (no prices known)"),
            Some(cost) if cost.pico() <= 0 => (Unit::Tokens, " (free of charge)"),
            Some(_) => (Unit::Dollars, ""),
        };
        let first = report.by.first().copied();
        let axis = match first {
            Some(Dimension::Hour) => Axis::Time(Step::Hour),
            Some(Dimension::Block) => Axis::Time(Step::Block(5)),
            Some(Dimension::Day) => Axis::Time(Step::Day),
            Some(Dimension::Week) => Axis::Time(Step::Week),
            Some(Dimension::Month) => Axis::Time(Step::Month),
            _ => Axis::Names,
        };
        let mut bars = BarBuilder {
            unit,
            zone,
            has_time_axis: axis != Axis::Names,
            names: Names::new(report),
            series: TextIndex::default(),
            bar_indexes: HashMap::new(),
            bars: Vec::new(),
            undated: Tally::default(),
        };
        for row in &report.rows {
            bars.add(row);
        }
        let mut notes = chart_notes(report);
        if bars.undated.requests > 0 {
            let amount = unit.exact(amount(unit, &bars.undated));
            notes.push(format!(
                "{} without a time ({amount}) {} not drawn.",
                pluralize(bars.undated.requests, "request"),
                is_or_are(bars.undated.requests)
            ));
        }
        if let Some((rows, rest)) = &report.left_out {
            let amount = unit.exact(amount(unit, rest));
            notes.push(format!(
                "{} more ({amount}) {} not drawn.",
                size::count(*rows as u64),
                is_or_are(*rows as u64)
            ));
        }
        let by: Vec<&str> = report.by.iter().map(|one| dimension_noun(*one)).collect();
        let what = match unit {
            Unit::Dollars => "Cost",
            Unit::Tokens => "Tokens",
        };
        Chart {
            title: match by.is_empty() {
                true => format!("{what}{why}"),
                false => format!("{what} by {}{why}", by.join(" and ")),
            },
            total: format_total(report, unit),
            subtitle: subtitle(report, zone),
            unit,
            axis,
            legend: capitalize(
                report
                    .by
                    .get(1)
                    .map_or("model", |second| dimension_noun(*second)),
            ),
            series: bars.series.texts,
            bars: bars.bars,
            notes,
        }
    }
}

/// Builds bars from rows.
struct BarBuilder<'a> {
    unit: Unit,
    zone: &'a TimeZone,
    has_time_axis: bool,
    names: Names,
    series: TextIndex,
    bar_indexes: HashMap<(Option<Timestamp>, String), usize>,
    bars: Vec<Bar>,
    undated: Tally,
}

impl BarBuilder<'_> {
    fn add(&mut self, row: &ReportRow) {
        let first = row.parts.first();
        let begin = first.and_then(|part| part.period).map(|(begin, _)| begin);
        if self.has_time_axis && begin.is_none() {
            self.undated.merge(&row.tally);
            return;
        }
        let key = first.map_or_else(|| "all".to_owned(), |part| part.key().to_owned());
        let next = self.bars.len();
        let place = *self.bar_indexes.entry((begin, key)).or_insert(next);
        if place == next {
            self.bars.push(Bar {
                label: first.map_or_else(|| "all".to_owned(), |part| self.names.short(part)),
                detail: first.filter(|_| !self.has_time_axis).map(full_name),
                time: begin.map(|begin| begin.to_zoned(self.zone.clone()).datetime()),
                parts: Vec::new(),
            });
        }
        let parts: Vec<(usize, i128)> = match (row.parts.get(1), first) {
            (Some(second), _) => {
                let series = self.series.index_of(self.names.short(second));
                vec![(series, amount(self.unit, &row.tally))]
            }
            // The models are the bars themselves.
            (None, Some(part)) if part.dimension == Dimension::Model => {
                let series = self.series.index_of(String::new());
                vec![(series, amount(self.unit, &row.tally))]
            }
            (None, _) => {
                let models = row.models.iter().map(|one| {
                    let model = one.model.as_deref().unwrap_or("unknown");
                    let series = self.series.index_of(model.to_owned());
                    (series, amount(self.unit, &one.tally))
                });
                models.collect()
            }
        };
        if let Some(bar) = self.bars.get_mut(place) {
            bar.parts.extend(parts);
        }
    }
}

/// Distinct texts, numbered in order of appearance.
#[derive(Default)]
struct TextIndex {
    texts: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl TextIndex {
    fn index_of(&mut self, text: String) -> usize {
        if let Some(&number) = self.numbers.get(&text) {
            return number;
        }
        let number = self.texts.len();
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }
}

/// Short names that stand for more than one value.
struct Names {
    ambiguous: BTreeSet<String>,
}

impl Names {
    fn new(report: &CostReport) -> Self {
        let mut meant: HashMap<(Dimension, String), &str> = HashMap::new();
        let mut ambiguous = BTreeSet::new();
        for part in report.rows.iter().flat_map(|row| &row.parts) {
            let name = short_name(part);
            match meant.insert((part.dimension, name.clone()), part.key()) {
                Some(other) if other != part.key() => _ = ambiguous.insert(name),
                _ => {}
            }
        }
        Names { ambiguous }
    }

    fn short(&self, part: &RowPart) -> String {
        let name = short_name(part);
        match self.ambiguous.contains(&name) {
            true => part.key().to_owned(),
            false => name,
        }
    }
}

/// Returns the short name of a value.
fn short_name(part: &RowPart) -> String {
    let label = part.label.as_deref().filter(|label| !label.is_empty());
    match (part.dimension, label) {
        (Dimension::Session, Some(label)) => {
            let id: String = part.key().chars().take(8).collect();
            format!("{label} · {id}")
        }
        (_, Some(label)) => label.to_owned(),
        (_, None) => part.key().to_owned(),
    }
}

/// Returns the label with the full value.
fn full_name(part: &RowPart) -> String {
    match part.label.as_deref() {
        Some(label) if !label.is_empty() && label != part.key() => {
            format!("{label} ({})", part.key())
        }
        _ => part.key().to_owned(),
    }
}

fn amount(unit: Unit, tally: &Tally) -> i128 {
    match unit {
        Unit::Dollars => tally.cost.pico(),
        Unit::Tokens => i128::from(tally.tokens()),
    }
}

fn format_total(report: &CostReport, unit: Unit) -> String {
    let total = unit.exact(amount(unit, &report.total));
    match unit {
        Unit::Dollars => total,
        Unit::Tokens => format!("{total} tokens"),
    }
}

fn subtitle(report: &CostReport, zone: &TimeZone) -> String {
    let mut parts = Vec::new();
    if let (Some(first), Some(last)) = (report.first, report.last) {
        parts.push(format_days(first, last, zone));
    }
    parts.push(pluralize(report.total.requests, "request"));
    parts.join(" · ")
}

/// Formats a range of days: `28 October to 15 November 2026`.
fn format_days(first: Timestamp, last: Timestamp, zone: &TimeZone) -> String {
    let day = |time: Timestamp| time.to_zoned(zone.clone()).date();
    let (first, last) = (day(first), day(last));
    let end = last.strftime("%-d %B %Y");
    let begin = match () {
        () if first == last => return end.to_string(),
        () if first.first_of_month() == last.first_of_month() => first.strftime("%-d"),
        () if first.year() == last.year() => first.strftime("%-d %B"),
        () => first.strftime("%-d %B %Y"),
    };
    format!("{begin} to {end}")
}

/// Returns notes about requests that the bars do not show.
fn chart_notes(report: &CostReport) -> Vec<String> {
    const MAX_NAMED: usize = 3;
    let mut notes = Vec::new();
    let unpriced = report.total.unpriced;
    if unpriced > 0 {
        let models = report.unpriced.iter();
        let models: Vec<&str> = models
            .map(|one| one.model.as_deref().unwrap_or("unknown"))
            .collect();
        let named = models.iter().take(MAX_NAMED).copied().collect::<Vec<_>>();
        let more = match models.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {}", pluralize(more as u64, "other")),
        };
        notes.push(format!(
            "{} of {} {} no price: {}{more}.",
            pluralize(unpriced, "request"),
            pluralize(models.len() as u64, "model"),
            if unpriced == 1 { "has" } else { "have" },
            named.join(", ")
        ));
    }
    if report.total.overflowed > 0 {
        notes.push(format!(
            "{} with overflowing counts {} left out.",
            pluralize(report.total.overflowed, "request"),
            is_or_are(report.total.overflowed)
        ));
    }
    notes
}

fn is_or_are(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn dimension_noun(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::AgentId => "agent id",
        Dimension::GitBranch => "git branch",
        Dimension::Block => "five-hour block",
        other => other.name(),
    }
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use annals::cost::{Charge, Ledger, ReportOptions};
    use annals::model::Money;

    use super::*;

    /// Builds a response of a model with a number of tokens.
    fn charge(time: &str, model: &str, output: u64) -> Charge {
        let mut charge = Charge::new(0);
        charge.time = time.parse().ok();
        charge.source_mut().model = Some(model.into());
        charge.usage.output = output;
        charge
    }

    /// Draws a chart at one dollar a token; the model `odd` has no price.
    fn drawn(charges: Vec<Charge>, by: &[Dimension]) -> Chart {
        drawn_top(charges, by, None)
    }

    fn drawn_top(charges: Vec<Charge>, by: &[Dimension], top: Option<usize>) -> Chart {
        let price = |charge: &Charge| {
            let odd = charge.source.model.as_deref() == Some("odd");
            (!odd).then(|| Money::from_pico(1_000_000_000_000) * charge.usage.output)
        };
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let mut options = ReportOptions::new(zone.clone(), &price);
        options.top = top;
        let ledger = Ledger::dedupe(Vec::new(), charges);
        Chart::from_report(&CostReport::new(&ledger, by, &options), &zone)
    }

    /// Formats each bar with its dollars by series.
    fn bars(chart: &Chart) -> Vec<String> {
        let one = |bar: &Bar| {
            let name = bar
                .time
                .map_or(bar.label.clone(), |time| time.date().to_string());
            let parts = bar.parts.iter().map(|(series, amount)| {
                let amount = chart.unit.exact(*amount);
                format!(" {}={amount}", chart.series[*series])
            });
            name + &parts.collect::<String>()
        };
        chart.bars.iter().map(one).collect()
    }

    #[test]
    fn day_bars_are_stacked_by_model_in_the_time_zone() {
        let chart = drawn(
            vec![
                charge("2026-10-31T22:59:00Z", "a", 1),
                charge("2026-10-31T23:01:00Z", "a", 2),
                charge("2026-10-31T23:02:00Z", "b", 4),
            ],
            &[Dimension::Day],
        );
        assert_eq!(
            (chart.title.as_str(), chart.total.as_str()),
            ("Cost by day", "$7.00")
        );
        assert_eq!(chart.subtitle, "31 October to 1 November 2026 · 3 requests");
        assert_eq!(chart.axis, Axis::Time(Step::Day));
        assert_eq!(
            bars(&chart),
            ["2026-10-31 a=$1.00", "2026-11-01 b=$4.00 a=$2.00"]
        );
        assert!(chart.notes.is_empty());
    }

    #[test]
    fn second_dimension_becomes_the_series() {
        let mut other = charge("2026-03-03T10:00:00Z", "a", 5);
        other.source_mut().git_branch = Some("fix".into());
        let charges = vec![charge("2026-03-02T10:00:00Z", "a", 1), other];
        let chart = drawn(charges, &[Dimension::Model, Dimension::GitBranch]);
        assert_eq!(chart.title, "Cost by model and git branch");
        assert_eq!(chart.legend, "Git branch");
        assert_eq!(bars(&chart), ["a fix=$5.00 no branch=$1.00"]);
        assert!(chart.subtitle.contains("2 to 3 March 2026"));
    }

    #[test]
    fn model_bars_have_no_legend() {
        let charges = vec![
            charge("2026-03-02T10:00:00Z", "a", 1),
            charge("2025-03-02T10:00:00Z", "b", 2),
        ];
        let chart = drawn(charges, &[Dimension::Model]);
        assert_eq!(chart.series, [""]);
        assert_eq!(bars(&chart), ["b =$2.00", "a =$1.00"]);
        assert!(chart.subtitle.contains("2 March 2025 to 2 March 2026"));
    }

    #[test]
    fn notes_report_what_is_not_drawn() {
        let charges = vec![
            charge("2026-03-02T10:00:00Z", "a", 9),
            charge("2026-03-03T10:00:00Z", "a", 1),
            charge("2026-03-02T10:00:00Z", "odd", 70),
            charge("when?", "a", 2),
        ];
        let chart = drawn_top(charges, &[Dimension::Day], Some(2));
        assert_eq!(bars(&chart), ["2026-03-02 a=$9.00 odd=$0.00"]);
        assert_eq!(
            chart.notes,
            [
                "1 request of 1 model has no price: odd.",
                "1 request without a time ($2.00) is not drawn.",
                "1 more ($1.00) is not drawn."
            ]
        );
    }

    #[test]
    fn chart_shows_tokens_without_prices() {
        let charges = vec![charge("2026-03-02T10:00:00Z", "odd", 1234)];
        let chart = drawn(charges, &[Dimension::Month]);
        assert_eq!(chart.title, "Tokens by month (no prices known)");
        assert_eq!(chart.total, "1,234 tokens");
        assert_eq!(chart.subtitle, "2 March 2026 · 1 request");
        assert_eq!(bars(&chart), ["2026-03-01 odd=1,234"]);
        let charges = vec![charge("2026-03-02T10:00:00Z", "a", 0)];
        let chart = drawn(charges, &[Dimension::Day]);
        assert_eq!(chart.title, "Tokens by day (free of charge)");
    }
}
