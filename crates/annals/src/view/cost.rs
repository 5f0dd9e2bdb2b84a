//! Cost reports as JSON.

use annals_layouts::model::Money;
use jiff::Timestamp;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::CostLabels;
use crate::cost::{
    BillingBlock, BudgetUsage, CostReport, Dimension, ModelTally, ReportRow, RowPart, Tally,
};

#[cfg(feature = "schema")]
mod schema;

/// Maximum number of unpriced models that are listed; the rows have them all.
const MAX_NAMES: usize = 1000;

/// What a report as JSON has besides the report.
#[derive(Debug)]
pub struct CostDetails<'a> {
    /// Name of the time zone of days.
    pub zone: String,
    /// Earliest time asked for.
    pub since: Option<Timestamp>,
    /// Latest time asked for.
    pub until: Option<Timestamp>,
    /// The current time.
    pub now: Timestamp,
    /// Labels of the sessions.
    pub labels: &'a CostLabels,
    /// Whether each row has the tallies of its models.
    pub breakdown: bool,
    /// Number of records that could not be read completely.
    pub uncounted: u64,
    /// Use of the user's budgets.
    pub budgets: Vec<BudgetJson<'a>>,
}

/// A cost report as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostJson<'a> {
    by: Vec<&'static str>,
    zone: String,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    #[cfg_attr(feature = "schema", schemars(with = "Vec<schema::RowSchema>"))]
    rows: Vec<RowJson<'a>>,
    #[cfg_attr(feature = "schema", schemars(with = "schema::TallySchema"))]
    total: TallyJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<LeftOut<'a>>,
    unpriced_models: Vec<Option<&'a str>>,
    unpriced_model_count: usize,
    #[serde(skip_serializing_if = "is_zero")]
    overflowed: u64,
    /// Number of records that could not be read completely; their costs may be missing.
    #[serde(skip_serializing_if = "is_zero")]
    uncounted: u64,
    budgets: Vec<BudgetJson<'a>>,
}

/// Sum of the rows beyond the limit.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct LeftOut<'a> {
    rows: usize,
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(with = "schema::TallySchema"))]
    sums: TallyJson<'a>,
}

#[derive(Debug)]
struct RowJson<'a> {
    row: &'a ReportRow,
    by: &'a [Dimension],
    labels: &'a CostLabels,
    breakdown: bool,
    now: Timestamp,
}

#[derive(Debug)]
struct TallyJson<'a>(&'a Tally);

#[derive(Debug)]
struct ModelJson<'a>(&'a ModelTally);

/// The use of a budget as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetJson<'a> {
    period: &'a str,
    limit_usd: Money,
    spent_usd: Money,
    share: f64,
    projected_usd: Money,
    start: Timestamp,
    end: Timestamp,
    unpriced: u64,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct BurnRateJson {
    tokens_per_minute: u64,
    cost_per_hour_usd: Option<Money>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ProjectionJson {
    tokens: u64,
    cost_usd: Option<Money>,
}

impl<'a> CostJson<'a> {
    /// Converts a report.
    pub fn new(report: &'a CostReport, details: CostDetails<'a>) -> Self {
        let row = |row| RowJson {
            row,
            by: &report.by,
            labels: details.labels,
            breakdown: details.breakdown,
            now: details.now,
        };
        let left_out = report.left_out.as_ref();
        let named = report.unpriced.iter().take(MAX_NAMES);
        CostJson {
            by: report.by.iter().map(|by| by.name()).collect(),
            zone: details.zone,
            since: details.since,
            until: details.until,
            rows: report.rows.iter().map(row).collect(),
            total: TallyJson(&report.total),
            left_out: left_out.map(|(rows, tally)| LeftOut {
                rows: *rows,
                sums: TallyJson(tally),
            }),
            unpriced_models: named.map(|one| one.model.as_deref()).collect(),
            unpriced_model_count: report.unpriced.len(),
            overflowed: report.total.overflowed,
            uncounted: details.uncounted,
            budgets: details.budgets,
        }
    }
}

impl<'a> BudgetJson<'a> {
    /// Converts the use of a budget; `period` is its name.
    pub fn new(spending: &BudgetUsage, period: &'a str) -> Self {
        let limit = spending.budget.limit.dollars();
        let share = spending.tally.cost.dollars() / limit;
        BudgetJson {
            period,
            limit_usd: spending.budget.limit,
            spent_usd: spending.tally.cost,
            // Rounded for display; the amounts are exact.
            share: (share * 10_000.0).round() / 10_000.0,
            projected_usd: spending.projected,
            start: spending.period.start,
            end: spending.period.end,
            unpriced: spending.tally.unpriced,
        }
    }
}

impl Serialize for RowJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = self.row;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("key", &row.key())?;
        for part in &row.parts {
            map.serialize_entry(part.dimension.member(), &part.value.as_deref())?;
            if part.dimension == Dimension::Session {
                self.label(&mut map, part)?;
            }
        }
        serialize_tally(&mut map, &row.tally)?;
        match row.block() {
            Some(block) => self.block(&mut map, &block)?,
            None => {
                map.serialize_entry("first", &row.first)?;
                map.serialize_entry("last", &row.last)?;
            }
        }
        if self.breakdown {
            let models: Vec<ModelJson<'_>> = row.models.iter().map(ModelJson).collect();
            map.serialize_entry("models", &models)?;
        } else if self.adds_models() {
            let models = row.models.iter().map(|one| one.model.as_deref());
            map.serialize_entry("models", &models.collect::<Vec<_>>())?;
        }
        map.end()
    }
}

impl RowJson<'_> {
    /// Returns true if rows of sessions show their project without being grouped by it.
    fn adds_project(&self) -> bool {
        self.by.contains(&Dimension::Session) && !self.by.contains(&Dimension::Project)
    }

    /// Returns true if rows of sessions name their models, which are no keys.
    fn adds_models(&self) -> bool {
        self.by.contains(&Dimension::Session) && !self.by.contains(&Dimension::Model)
    }

    /// Adds the title and the project of a session.
    fn label<M: serde::ser::SerializeMap>(
        &self,
        map: &mut M,
        session: &RowPart,
    ) -> Result<(), M::Error> {
        let label = self.labels.get(session);
        let title = label.and_then(|label| label.title.as_deref());
        map.serialize_entry("title", &title)?;
        if self.adds_project() {
            map.serialize_entry("project", &label.map(|label| label.project.as_str()))?;
        }
        Ok(())
    }

    fn block<M: serde::ser::SerializeMap>(
        &self,
        map: &mut M,
        block: &BillingBlock,
    ) -> Result<(), M::Error> {
        let active = block.is_active(self.now);
        let priced = block.tally.priced().is_some();
        let rate = block.burn_rate(self.now);
        let rate = BurnRateJson {
            tokens_per_minute: rate.tokens_per_minute,
            cost_per_hour_usd: priced.then_some(rate.cost_per_hour),
        };
        let comes = active.then(|| block.projection(self.now));
        let comes = comes.map(|comes| ProjectionJson {
            tokens: comes.tokens,
            cost_usd: priced.then_some(comes.cost),
        });
        let left = active.then(|| block.remaining(self.now).as_mins());
        map.serialize_entry("start", &block.start)?;
        map.serialize_entry("end", &block.end)?;
        map.serialize_entry("first", &block.first)?;
        map.serialize_entry("last", &block.last)?;
        map.serialize_entry("active", &active)?;
        map.serialize_entry("burn_rate", &rate)?;
        map.serialize_entry("projection", &comes)?;
        map.serialize_entry("remaining_minutes", &left)
    }
}

impl Serialize for TallyJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        serialize_tally(&mut map, self.0)?;
        map.end()
    }
}

impl Serialize for ModelJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &self.0.model.as_deref())?;
        serialize_tally(&mut map, &self.0.tally)?;
        map.end()
    }
}

fn serialize_tally<M: serde::ser::SerializeMap>(
    map: &mut M,
    tally: &Tally,
) -> Result<(), M::Error> {
    let usage = &tally.usage;
    map.serialize_entry("requests", &tally.requests)?;
    map.serialize_entry("input", &usage.input)?;
    map.serialize_entry("output", &usage.output)?;
    map.serialize_entry("cache_write_5m", &usage.cache_write_5m)?;
    map.serialize_entry("cache_write_1h", &usage.cache_write_1h)?;
    map.serialize_entry("cache_read", &usage.cache_read)?;
    map.serialize_entry("web_searches", &usage.web_searches)?;
    map.serialize_entry("cost_usd", &tally.priced())?;
    map.serialize_entry("unpriced", &tally.unpriced)
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}
