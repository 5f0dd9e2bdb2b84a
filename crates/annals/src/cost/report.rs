//! Reports: what responses come to, by day, by model, by whatever is asked for.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::model::Money;

use super::axis::Axis;
use super::{Block, Charge, Dimension, Ledger, Tally};

/// Says what a response cost; `None` if it has no price.
pub type Pricing<'a> = &'a dyn Fn(&Charge) -> Option<Money>;

/// Says which conversation a response belongs to.
pub type Branching<'a> = &'a dyn Fn(&Charge) -> Option<BranchName>;

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
pub struct Options<'a> {
    /// Whose days, weeks and months they are.
    pub zone: TimeZone,
    /// Not before this.
    pub since: Option<Timestamp>,
    /// Not after this.
    pub until: Option<Timestamp>,
    /// What responses cost.
    pub price: Pricing<'a>,
    /// Which conversations they belong to; needed only to tell those apart.
    pub branch: Option<Branching<'a>>,
    /// Which responses count, besides their time.
    pub keep: Option<&'a dyn Fn(&Charge) -> bool>,
    /// The order of the rows. Left open, it is by time where the first dimension says when, else by cost.
    pub sort: Option<Sort>,
    /// The other way round.
    pub reverse: bool,
    /// Only so many rows, the largest by what they are sorted by, or by cost.
    pub top: Option<usize>,
}

impl<'a> Options<'a> {
    /// Everything, priced like that.
    pub fn new(zone: TimeZone, price: Pricing<'a>) -> Self {
        Options {
            zone,
            since: None,
            until: None,
            price,
            branch: None,
            keep: None,
            sort: None,
            reverse: false,
            top: None,
        }
    }

    /// Whether a response counts. Where a time is asked for, one that has none does not.
    pub fn wants(&self, charge: &Charge) -> bool {
        let since = self.since;
        let since = since.is_none_or(|since| charge.time.is_some_and(|time| time >= since));
        let until = self.until;
        let until = until.is_none_or(|until| charge.time.is_some_and(|time| time <= until));
        since && until && self.keep.is_none_or(|keep| keep(charge))
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
pub struct Report {
    /// What tells the rows apart.
    pub by: Vec<Dimension>,
    /// The rows, in the order asked for.
    pub rows: Vec<Row>,
    /// All rows together, those left out included.
    pub total: Tally,
    /// The rows beyond those asked for: how many, and what they come to.
    pub left_out: Option<(usize, Tally)>,
    /// The models that had requests without a price, with those requests; the most tokens first.
    pub unpriced: Vec<ModelTally>,
    /// The first response that counts.
    pub first: Option<Timestamp>,
    /// The last one.
    pub last: Option<Timestamp>,
}

/// One row of a report.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Row {
    /// What it is about: one part for each dimension.
    pub parts: Vec<Part>,
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
pub struct Part {
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

impl Part {
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

impl Row {
    /// Its name: the keys of its parts.
    pub fn key(&self) -> String {
        let parts: Vec<&str> = self.parts.iter().map(Part::key).collect();
        parts.join(" · ")
    }

    /// Its part in a dimension.
    pub fn part(&self, dimension: Dimension) -> Option<&Part> {
        self.parts.iter().find(|part| part.dimension == dimension)
    }

    /// Its billing block, with the responses of this row alone.
    pub fn block(&self) -> Option<Block> {
        let (start, end) = self.part(Dimension::Block)?.period?;
        Some(Block {
            start,
            end,
            first: self.first?,
            last: self.last?,
            tally: self.tally,
        })
    }
}

impl Report {
    /// Sums up the responses of a ledger. Without dimensions all of them are one row.
    pub fn make(ledger: &Ledger, by: &[Dimension], options: &Options<'_>) -> Self {
        let mut axes: Vec<Axis<'_>> = by
            .iter()
            .map(|&dimension| Axis::new(dimension, ledger, options))
            .collect();
        let mut sums = Sums::default();
        for charge in ledger.charges.iter().filter(|one| options.wants(one)) {
            sums.add(charge, &mut axes, options.price);
        }
        let mut report = sums.report(by, &axes);
        report.sort(options);
        report
    }

    fn sort(&mut self, options: &Options<'_>) {
        let timely = self.by.first().is_some_and(|first| first.is_time());
        let natural = if timely { Sort::Key } else { Sort::Cost };
        let sort = options.sort.unwrap_or(natural);
        self.rows.sort_by_cached_key(order);
        if let Some(top) = options.top {
            self.keep_largest(top, sort);
        }
        if sort != Sort::Key {
            self.rows.sort_by_key(|row| Reverse(size(&row.tally, sort)));
        }
        if options.reverse {
            self.rows.reverse();
        }
    }
}

impl Report {
    /// Leaves out all but the largest rows; the others stay in their order.
    fn keep_largest(&mut self, top: usize, sort: Sort) {
        if top >= self.rows.len() {
            return;
        }
        let sizes = self.rows.iter().map(|row| size(&row.tally, sort));
        let mut ranks: Vec<_> = sizes.enumerate().collect();
        // Of equal rows the first stay.
        ranks.sort_by_key(|(_, size)| Reverse(*size));
        let largest: HashSet<usize> = ranks.into_iter().take(top).map(|(at, _)| at).collect();
        let mut rest = Tally::default();
        let mut at = 0;
        self.rows.retain(|row| {
            let keep = largest.contains(&at);
            at += 1;
            if !keep {
                rest.merge(&row.tally);
            }
            keep
        });
        self.left_out = Some((at - self.rows.len(), rest));
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
fn order(row: &Row) -> Vec<(bool, Option<Timestamp>, Arc<str>)> {
    let parts = row.parts.iter().map(|part| {
        (
            part.value.is_none(),
            part.period.map(|(start, _)| start),
            part.value.clone().unwrap_or_default(),
        )
    });
    parts.collect()
}

/// Numbers texts in the order in which they come.
#[derive(Default)]
pub(super) struct Texts {
    pub(super) texts: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    last: Option<u32>,
}

/// Stands for what the log does not tell.
pub(super) const ABSENT: u32 = u32::MAX;

impl Texts {
    pub(super) fn number(&mut self, text: Option<&Arc<str>>) -> u32 {
        let Some(text) = text else { return ABSENT };
        // Charges in a row mostly share one text.
        let last = self.last.and_then(|last| self.texts.get(last as usize));
        if let (Some(last), Some(number)) = (last, self.last)
            && Arc::ptr_eq(last, text)
        {
            return number;
        }
        let number = match self.numbers.get(text) {
            Some(&number) => number,
            None => {
                let next = u32::try_from(self.texts.len()).unwrap_or(ABSENT);
                self.numbers.insert(Arc::clone(text), next);
                self.texts.push(Arc::clone(text));
                next
            }
        };
        self.last = Some(number);
        number
    }

    pub(super) fn get(&self, number: u32) -> Option<&Arc<str>> {
        self.texts.get(number as usize)
    }
}

/// A row under way.
struct Sum {
    numbers: Vec<u32>,
    tally: Tally,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

#[derive(Default)]
struct Sums {
    rows: Vec<Sum>,
    /// The row of the last charge.
    row: usize,
    /// What the present charge is about.
    numbers: Vec<u32>,
    /// The way to a row, one step for each dimension.
    steps: HashMap<(u32, u32), u32>,
    places: HashMap<u32, usize>,
    models: Texts,
    by_model: Vec<(usize, u32, Tally)>,
    cells: HashMap<(usize, u32), usize>,
    unpriced: HashMap<u32, Tally>,
    total: Tally,
    /// The last row and model, and their cell.
    recent: Option<(usize, u32, usize)>,
}

impl Sums {
    fn add(&mut self, charge: &Charge, axes: &mut [Axis<'_>], price: Pricing<'_>) {
        let cost = price(charge);
        let overflowed = self.total.overflowed;
        self.total.add(&charge.usage, cost);
        // Rows must not hold what the total could not.
        if self.total.overflowed > overflowed {
            return;
        }
        let row = self.row(charge, axes);
        let model = self.models.number(charge.model.as_ref());
        let cell = self.cell(row, model);
        if let Some((_, _, tally)) = self.by_model.get_mut(cell) {
            tally.add(&charge.usage, cost);
        }
        if let Some(row) = self.rows.get_mut(row) {
            row.tally.add(&charge.usage, cost);
            if let Some(time) = charge.time {
                row.first = Some(row.first.map_or(time, |first| first.min(time)));
                row.last = Some(row.last.map_or(time, |last| last.max(time)));
            }
        }
        if cost.is_none() {
            let tally = self.unpriced.entry(model).or_default();
            tally.add(&charge.usage, None);
        }
    }

    fn row(&mut self, charge: &Charge, axes: &mut [Axis<'_>]) -> usize {
        self.numbers.clear();
        self.numbers
            .extend(axes.iter_mut().map(|axis| axis.number(charge)));
        // Charges in a row mostly belong to one row.
        if let Some(row) = self.rows.get(self.row)
            && row.numbers == self.numbers
        {
            return self.row;
        }
        let mut way = 0;
        for &number in &self.numbers {
            let next = u32::try_from(self.steps.len() + 1).unwrap_or(u32::MAX);
            way = *self.steps.entry((way, number)).or_insert(next);
        }
        let next = self.rows.len();
        self.row = *self.places.entry(way).or_insert(next);
        if self.row == next {
            self.rows.push(Sum {
                numbers: self.numbers.clone(),
                tally: Tally::default(),
                first: None,
                last: None,
            });
        }
        self.row
    }

    fn cell(&mut self, row: usize, model: u32) -> usize {
        if let Some((known, name, cell)) = self.recent
            && (known, name) == (row, model)
        {
            return cell;
        }
        let next = self.by_model.len();
        let cell = *self.cells.entry((row, model)).or_insert(next);
        if cell == next {
            self.by_model.push((row, model, Tally::default()));
        }
        self.recent = Some((row, model, cell));
        cell
    }

    fn report(self, by: &[Dimension], axes: &[Axis<'_>]) -> Report {
        let mut rows: Vec<Row> = self
            .rows
            .into_iter()
            .map(|sum| Row {
                parts: axes
                    .iter()
                    .zip(sum.numbers)
                    .map(|(axis, number)| axis.part(number))
                    .collect(),
                tally: sum.tally,
                models: Vec::new(),
                first: sum.first,
                last: sum.last,
            })
            .collect();
        for (row, model, tally) in self.by_model {
            if let Some(row) = rows.get_mut(row) {
                let model = self.models.get(model).cloned();
                row.models.push(ModelTally { model, tally });
            }
        }
        for row in &mut rows {
            row.models.sort_by(|a, b| {
                let size = |one: &ModelTally| Reverse(size(&one.tally, Sort::Cost));
                size(a).cmp(&size(b)).then_with(|| a.model.cmp(&b.model))
            });
        }
        let mut unpriced: Vec<ModelTally> = self
            .unpriced
            .into_iter()
            .map(|(model, tally)| ModelTally {
                model: self.models.get(model).cloned(),
                tally,
            })
            .collect();
        unpriced.sort_by(|a, b| {
            let size = |one: &ModelTally| Reverse(one.tally.tokens());
            size(a).cmp(&size(b)).then_with(|| a.model.cmp(&b.model))
        });
        Report {
            by: by.to_vec(),
            first: rows.iter().filter_map(|row| row.first).min(),
            last: rows.iter().filter_map(|row| row.last).max(),
            rows,
            total: self.total,
            left_out: None,
            unpriced,
        }
    }
}

#[cfg(test)]
mod tests;
