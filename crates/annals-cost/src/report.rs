//! Cost reports: sums of responses by day, model or other dimensions.

mod grouping;
mod sums;

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use annals_layouts::model::Money;

use super::{BillingBlock, Charge, Dimension, Ledger, Tally};
use grouping::Grouping;
use sums::{ABSENT, Sums, Texts};

/// Returns the cost of a response; `None` if it has no price.
pub type PriceFn<'a> = &'a dyn Fn(&Charge) -> Option<Money>;

/// Returns the conversation of a response.
pub type BranchFn<'a> = &'a dyn Fn(&Charge) -> Option<BranchName>;

/// Returns the kind of the sub-agent that received a response.
pub type AgentKindFn<'a> = &'a dyn Fn(&Charge) -> Option<Arc<str>>;

/// Name of a conversation in reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BranchName {
    /// `SESSION@LEAF`.
    pub key: Arc<str>,
    /// Title, or the first prompt.
    pub label: Option<Arc<str>>,
}

impl BranchName {
    /// Creates a name without a title.
    pub fn new(key: impl Into<Arc<str>>) -> Self {
        BranchName {
            key: key.into(),
            label: None,
        }
    }
}

/// Filter, order and prices of a report.
#[derive(Clone)]
#[non_exhaustive]
pub struct ReportOptions<'a> {
    /// Time zone of the calendar periods.
    pub(crate) zone: TimeZone,
    /// Earliest time, inclusive.
    pub since: Option<Timestamp>,
    /// Latest time, inclusive.
    pub until: Option<Timestamp>,
    /// Price function.
    pub(crate) price: PriceFn<'a>,
    /// Conversation function; needed only to group by branch.
    pub branch: Option<BranchFn<'a>>,
    /// Kind of a sub-agent; needed only to group by agent.
    pub agent_kind: Option<AgentKindFn<'a>>,
    /// Filter of responses, in addition to the time.
    pub filter: Option<&'a dyn Fn(&Charge) -> bool>,
    /// Row order. By default by time if the first dimension is a period, else by cost.
    pub sort: Option<Sort>,
    /// Reverses the row order.
    pub reverse: bool,
    /// Maximum number of rows: the largest by the sort value, or by cost.
    pub top: Option<usize>,
}

impl<'a> ReportOptions<'a> {
    /// Creates options that include all responses.
    pub fn new(zone: TimeZone, price: PriceFn<'a>) -> Self {
        ReportOptions {
            zone,
            since: None,
            until: None,
            price,
            branch: None,
            agent_kind: None,
            filter: None,
            sort: None,
            reverse: false,
            top: None,
        }
    }

    /// Returns true if a response is included. With a time limit, a response without a time is not.
    pub fn includes(&self, charge: &Charge) -> bool {
        let since = self.since;
        let since = since.is_none_or(|since| charge.time.is_some_and(|time| time >= since));
        let until = self.until;
        let until = until.is_none_or(|until| charge.time.is_some_and(|time| time <= until));
        since && until && self.filter.is_none_or(|keep| keep(charge))
    }
}

/// Row order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sort {
    /// By key: oldest first, or by name.
    Key,
    /// Highest cost first.
    Cost,
    /// Most tokens first.
    Tokens,
    /// Most requests first.
    Requests,
}

/// Cost report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CostReport {
    /// Dimensions of the rows.
    pub by: Vec<Dimension>,
    /// Rows, in the requested order.
    pub rows: Vec<ReportRow>,
    /// Sum of all rows, including those left out.
    pub total: Tally,
    /// Number and sum of the rows left out by [`ReportOptions::top`].
    pub left_out: Option<(usize, Tally)>,
    /// Models that had requests without a price, most tokens first.
    pub unpriced: Vec<Unpriced>,
    /// Time of the first response included.
    pub first: Option<Timestamp>,
    /// Time of the last response included.
    pub last: Option<Timestamp>,
}

/// Row of a report.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReportRow {
    /// Values of the row, one per dimension.
    pub parts: Vec<RowPart>,
    /// Sum of the row.
    pub tally: Tally,
    /// Sums by model, highest cost first.
    pub models: Vec<ModelTally>,
    /// Time of the first response.
    pub first: Option<Timestamp>,
    /// Time of the last response.
    pub last: Option<Timestamp>,
}

/// Value of a row in one dimension.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RowPart {
    /// Dimension.
    pub dimension: Dimension,
    /// Value; `None` if the log does not have it.
    pub value: Option<Arc<str>>,
    /// Readable name, where the value is not readable.
    pub label: Option<Arc<str>>,
    /// Start and end of the period (end exclusive), if the dimension is a time.
    pub period: Option<(Timestamp, Timestamp)>,
    /// Index in [`Ledger::accounts`], if the dimension is the session.
    pub account: Option<usize>,
}

/// Sum of the responses of one model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelTally {
    /// Model; `None` if the log names none.
    pub model: Option<Arc<str>>,
    /// Sum of the responses.
    pub tally: Tally,
}

/// Model that had requests without a price.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unpriced {
    /// Model; `None` if the log names none.
    pub model: Option<Arc<str>>,
    /// Number of requests without a price.
    pub(crate) requests: u64,
    /// Tokens of those requests.
    pub(crate) tokens: u64,
}

impl RowPart {
    /// Returns the value, or a placeholder if it is missing.
    pub fn key(&self) -> &str {
        let absent = match self.dimension {
            dimension if dimension.is_time() => "undated",
            Dimension::GitBranch => "no branch",
            _ => "unknown",
        };
        self.value.as_deref().unwrap_or(absent)
    }
}

impl ReportRow {
    /// Returns the name of the row: the keys of its parts.
    pub fn key(&self) -> String {
        let parts: Vec<&str> = self.parts.iter().map(RowPart::key).collect();
        parts.join(" · ")
    }

    /// Returns the part for a dimension.
    pub fn part(&self, dimension: Dimension) -> Option<&RowPart> {
        self.parts.iter().find(|part| part.dimension == dimension)
    }

    /// Returns the billing block of the row, with only the responses of this row.
    pub fn block(&self) -> Option<BillingBlock> {
        let (start, end) = self.part(Dimension::Block)?.period?;
        Some(BillingBlock {
            start,
            end,
            first: self.first?,
            last: self.last?,
            tally: self.tally,
        })
    }
}

impl CostReport {
    /// Sums the responses of a ledger. Without dimensions there is one row.
    pub fn new(ledger: &Ledger, by: &[Dimension], options: &ReportOptions<'_>) -> Self {
        let axes = by.iter();
        let axes = axes.map(|&dimension| Grouping::new(dimension, ledger, options));
        let mut sums = Sums::new(axes.collect());
        for charge in ledger.charges.iter().filter(|one| options.includes(one)) {
            sums.add(charge, options.price);
        }
        let timely = by.first().is_some_and(|first| first.is_time());
        let natural = if timely { Sort::Key } else { Sort::Cost };
        let sort = options.sort.unwrap_or(natural);
        let mut report = sums.report(by, options.top, sort);
        report.rows.sort_by_cached_key(|row| order(&row.parts));
        if sort != Sort::Key {
            report
                .rows
                .sort_by_key(|row| Reverse(size(&row.tally, sort)));
        }
        if options.reverse {
            report.rows.reverse();
        }
        report
    }
}

/// Sort value of a row. For `Sort::Key` it is the cost, which decides what `top` keeps.
fn size(tally: &Tally, sort: Sort) -> (i128, i128) {
    let tokens = i128::from(tally.tokens());
    match sort {
        Sort::Key | Sort::Cost => (tally.cost.pico(), tokens),
        Sort::Tokens => (tokens, 0),
        Sort::Requests => (i128::from(tally.requests), tokens),
    }
}

/// Sort key of a row; missing values are last.
fn order(parts: &[RowPart]) -> Vec<(bool, Option<Timestamp>, Arc<str>)> {
    let parts = parts.iter().map(|part| {
        (
            part.value.is_none(),
            part.period.map(|(start, _)| start),
            part.value.clone().unwrap_or_default(),
        )
    });
    parts.collect()
}

#[cfg(test)]
mod tests;
