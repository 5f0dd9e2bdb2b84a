//! Reports: what responses come to, by day, by model, by whatever is asked for.

mod sums;

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::model::Money;

use super::grouping::Grouping;
use super::{BillingBlock, Charge, Dimension, Ledger, Tally};
use sums::Sums;
pub(super) use sums::{ABSENT, Texts};

/// Says what a response cost; `None` if it has no price.
pub type PriceFn<'a> = &'a dyn Fn(&Charge) -> Option<Money>;

/// Says which conversation a response belongs to.
pub type BranchFn<'a> = &'a dyn Fn(&Charge) -> Option<BranchName>;

/// A conversation as reports name it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BranchName {
    /// `SESSION@LEAF`.
    pub key: Arc<str>,
    /// Its title, or the prompt that it begins with.
    pub label: Option<Arc<str>>,
}

impl BranchName {
    /// A conversation without a title.
    pub fn new(key: impl Into<Arc<str>>) -> Self {
        BranchName {
            key: key.into(),
            label: None,
        }
    }
}

/// What goes into a report, and in which order it comes.
#[derive(Clone)]
#[non_exhaustive]
pub struct ReportOptions<'a> {
    /// Whose days, weeks and months they are.
    pub zone: TimeZone,
    /// Not before this.
    pub since: Option<Timestamp>,
    /// Not after this.
    pub until: Option<Timestamp>,
    /// What responses cost.
    pub price: PriceFn<'a>,
    /// Which conversations they belong to; needed only to tell those apart.
    pub branch: Option<BranchFn<'a>>,
    /// Which responses count, besides their time.
    pub filter: Option<&'a dyn Fn(&Charge) -> bool>,
    /// The order of the rows. Left open, it is by time where the first dimension says when, else by cost.
    pub sort: Option<Sort>,
    /// The other way round.
    pub reverse: bool,
    /// Only so many rows, the largest by what they are sorted by, or by cost.
    pub top: Option<usize>,
}

impl<'a> ReportOptions<'a> {
    /// Everything, priced like that.
    pub fn new(zone: TimeZone, price: PriceFn<'a>) -> Self {
        ReportOptions {
            zone,
            since: None,
            until: None,
            price,
            branch: None,
            filter: None,
            sort: None,
            reverse: false,
            top: None,
        }
    }

    /// Whether a response counts. Where a time is asked for, one that has none does not.
    pub fn includes(&self, charge: &Charge) -> bool {
        let since = self.since;
        let since = since.is_none_or(|since| charge.time.is_some_and(|time| time >= since));
        let until = self.until;
        let until = until.is_none_or(|until| charge.time.is_some_and(|time| time <= until));
        since && until && self.filter.is_none_or(|keep| keep(charge))
    }
}

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sort {
    /// By what they are about: the oldest first, or by name.
    Key,
    /// The most expensive first.
    Cost,
    /// The most tokens first.
    Tokens,
    /// The most requests first.
    Requests,
}

/// What responses come to, row by row.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CostReport {
    /// What tells the rows apart.
    pub by: Vec<Dimension>,
    /// The rows, in the order asked for.
    pub rows: Vec<ReportRow>,
    /// All rows together, those left out included.
    pub total: Tally,
    /// The rows beyond those asked for: how many, and what they come to.
    pub left_out: Option<(usize, Tally)>,
    /// The models that had requests without a price; the most tokens first.
    pub unpriced: Vec<Unpriced>,
    /// The first response that counts.
    pub first: Option<Timestamp>,
    /// The last one.
    pub last: Option<Timestamp>,
}

/// One row of a report.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReportRow {
    /// What it is about: one part for each dimension.
    pub parts: Vec<RowPart>,
    /// What it comes to.
    pub tally: Tally,
    /// The same by model, the most expensive first.
    pub models: Vec<ModelTally>,
    /// Its first response.
    pub first: Option<Timestamp>,
    /// Its last response.
    pub last: Option<Timestamp>,
}

/// What a row is about, in one dimension.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RowPart {
    /// The dimension.
    pub dimension: Dimension,
    /// Its value; `None` if the log does not tell it.
    pub value: Option<Arc<str>>,
    /// Words for people, where the value is not.
    pub label: Option<Arc<str>>,
    /// From when to when it lasts, if it says when; the end is not part of it.
    pub period: Option<(Timestamp, Timestamp)>,
}

/// What the responses of one model come to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelTally {
    /// The model; `None` if the log names none.
    pub model: Option<Arc<str>>,
    /// What they come to.
    pub tally: Tally,
}

/// A model that had requests without a price.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unpriced {
    /// The model; `None` if the log names none.
    pub model: Option<Arc<str>>,
    /// How many requests have no price.
    pub requests: u64,
    /// Their tokens.
    pub tokens: u64,
}

impl RowPart {
    /// The value, or a word for its absence.
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
    /// Its name: the keys of its parts.
    pub fn key(&self) -> String {
        let parts: Vec<&str> = self.parts.iter().map(RowPart::key).collect();
        parts.join(" · ")
    }

    /// Its part in a dimension.
    pub fn part(&self, dimension: Dimension) -> Option<&RowPart> {
        self.parts.iter().find(|part| part.dimension == dimension)
    }

    /// Its billing block, with the responses of this row alone.
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
    /// Sums up the responses of a ledger. Without dimensions all of them are one row.
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
            let rows = &mut report.rows;
            rows.sort_by_key(|row| Reverse(size(&row.tally, sort)));
        }
        if options.reverse {
            report.rows.reverse();
        }
        report
    }
}

/// By what rows are compared. Keys have no size, so there the cost decides.
fn size(tally: &Tally, sort: Sort) -> (i128, i128) {
    let tokens = i128::from(tally.tokens());
    match sort {
        Sort::Key | Sort::Cost => (tally.cost.pico(), tokens),
        Sort::Tokens => (tokens, 0),
        Sort::Requests => (i128::from(tally.requests), tokens),
    }
}

/// The order of the keys; what is not told comes last.
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
