//! Running sums of a report.
//!
//! A log may name a million models, so the state per row and per model of a row is small, and rows
//! that are not requested never become [`ReportRow`]s.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use jiff::Timestamp;

use super::grouping::Grouping;
use super::{CostReport, ModelTally, PriceFn, ReportRow, RowPart, Sort, Unpriced, order, size};
use crate::{Charge, Dimension, Tally};

/// Numbers texts in order of first appearance.
#[derive(Default)]
pub(crate) struct Texts {
    texts: Vec<Arc<str>>,
    /// Numbers, hashed by their text.
    numbers: HashTable<u32>,
    state: RandomState,
    /// Last text looked up. Each log has its own copy, so the pointer may differ from that in
    /// `texts`.
    last: Option<(Arc<str>, u32)>,
}

/// Number for a value that the log does not have.
pub(crate) const ABSENT: u32 = u32::MAX;

impl Texts {
    pub(crate) fn number(&mut self, text: Option<&Arc<str>>) -> u32 {
        let Some(text) = text else { return ABSENT };
        // Consecutive charges mostly share one text.
        if let Some((last, number)) = &self.last
            && Arc::ptr_eq(last, text)
        {
            return *number;
        }
        let (texts, state) = (&self.texts, &self.state);
        let get = |number: u32| texts.get(number as usize);
        let hash = state.hash_one(text);
        let known = self
            .numbers
            .find(hash, |known| get(*known).is_some_and(|known| known == text));
        let number = match known {
            Some(number) => *number,
            None => {
                let next = u32::try_from(texts.len()).unwrap_or(ABSENT);
                let hash_of = |known: &u32| get(*known).map_or(0, |known| state.hash_one(known));
                self.numbers.insert_unique(hash, next, hash_of);
                self.texts.push(Arc::clone(text));
                next
            }
        };
        self.last = Some((Arc::clone(text), number));
        number
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Arc<str>> {
        self.texts.get(number as usize)
    }
}

/// Running sum of a row.
struct Sum {
    numbers: Box<[u32]>,
    tally: Tally,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    /// Sums by model; empty if the rows are grouped by model.
    models: Vec<(u32, Tally)>,
}

/// Running sums of all rows.
pub(super) struct Sums<'a> {
    axes: Vec<Grouping<'a>>,
    /// Index of the axis that groups by model.
    model_axis: Option<usize>,
    rows: Vec<Sum>,
    /// Row of the last charge.
    row: usize,
    /// Group numbers of the current charge.
    numbers: Vec<u32>,
    /// Trie edges from (node, number) to the next node, one level per dimension.
    steps: HashMap<(u32, u32), u32>,
    /// Rows by leaf node of the trie.
    places: HashMap<u32, u32>,
    models: Texts,
    /// Positions of models in rows, by (row, model).
    cells: HashMap<(u32, u32), u32>,
    total: Tally,
    /// Last row and model, and its position.
    recent: Option<(usize, u32, usize)>,
}

impl<'a> Sums<'a> {
    pub(super) fn new(axes: Vec<Grouping<'a>>) -> Self {
        let is_model = |axis: &Grouping<'_>| axis.dimension() == Dimension::Model;
        Sums {
            model_axis: axes.iter().position(is_model),
            axes,
            rows: Vec::new(),
            row: 0,
            numbers: Vec::new(),
            steps: HashMap::new(),
            places: HashMap::new(),
            models: Texts::default(),
            cells: HashMap::new(),
            total: Tally::default(),
            recent: None,
        }
    }

    /// Adds one charge.
    pub(super) fn add(&mut self, charge: &Charge, price: PriceFn<'_>) {
        let cost = price(charge);
        let overflowed = self.total.overflowed;
        self.total.add(&charge.usage, cost);
        // The rows must add up to the total.
        if self.total.overflowed > overflowed {
            return;
        }
        let at = self.row(charge);
        let cell = self.model_axis.is_none().then(|| {
            let model = self.models.number(charge.source.model.as_ref());
            self.cell(at, model)
        });
        let Some(row) = self.rows.get_mut(at) else {
            return;
        };
        row.tally.add(&charge.usage, cost);
        if let Some((_, tally)) = cell.and_then(|cell| row.models.get_mut(cell)) {
            tally.add(&charge.usage, cost);
        }
        if let Some(time) = charge.time {
            row.first = Some(row.first.map_or(time, |first| first.min(time)));
            row.last = Some(row.last.map_or(time, |last| last.max(time)));
        }
    }

    fn row(&mut self, charge: &Charge) -> usize {
        self.numbers.clear();
        let axes = self.axes.iter_mut();
        self.numbers.extend(axes.map(|axis| axis.number(charge)));
        // Consecutive charges mostly belong to the same row.
        if let Some(row) = self.rows.get(self.row)
            && *row.numbers == *self.numbers
        {
            return self.row;
        }
        let mut way = 0;
        for &number in &self.numbers {
            let next = u32::try_from(self.steps.len() + 1).unwrap_or(u32::MAX);
            way = *self.steps.entry((way, number)).or_insert(next);
        }
        let next = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let row = *self.places.entry(way).or_insert(next);
        if row == next {
            self.rows.push(Sum {
                numbers: self.numbers.as_slice().into(),
                tally: Tally::default(),
                first: None,
                last: None,
                models: Vec::new(),
            });
        }
        self.row = row as usize;
        self.row
    }

    /// Returns the position of a model in a row; adds it if missing.
    fn cell(&mut self, at: usize, model: u32) -> usize {
        if let Some((known, name, cell)) = self.recent
            && (known, name) == (at, model)
        {
            return cell;
        }
        let Some(row) = self.rows.get_mut(at) else {
            return usize::MAX;
        };
        let next = u32::try_from(row.models.len()).unwrap_or(u32::MAX);
        let key = (u32::try_from(at).unwrap_or(u32::MAX), model);
        let cell = *self.cells.entry(key).or_insert(next);
        if cell == next {
            row.models.push((model, Tally::default()));
        }
        let cell = cell as usize;
        self.recent = Some((at, model, cell));
        cell
    }

    /// Builds the report from the largest rows, unsorted.
    pub(super) fn report(mut self, by: &[Dimension], top: Option<usize>, sort: Sort) -> CostReport {
        // The lookup tables are no longer needed, and may be large.
        self.steps = HashMap::new();
        self.places = HashMap::new();
        self.cells = HashMap::new();
        let unpriced = self.unpriced();
        let firsts = self.rows.iter().filter_map(|row| row.first);
        let lasts = self.rows.iter().filter_map(|row| row.last);
        let (first, last) = (firsts.min(), lasts.max());
        let left_out = top.and_then(|top| self.keep_largest(top, sort));
        let sums = std::mem::take(&mut self.rows).into_iter();
        CostReport {
            by: by.to_vec(),
            rows: sums.map(|sum| self.finish(sum)).collect(),
            total: self.total,
            left_out,
            unpriced,
            first,
            last,
        }
    }

    fn parts(&self, numbers: &[u32]) -> Vec<RowPart> {
        let parts = self.axes.iter().zip(numbers);
        parts.map(|(axis, number)| axis.part(*number)).collect()
    }

    /// Returns the name of a model number.
    fn model(&self, number: u32) -> Option<Arc<str>> {
        match self.model_axis.and_then(|at| self.axes.get(at)) {
            Some(axis) => axis.part(number).value,
            None => self.models.get(number).cloned(),
        }
    }

    fn finish(&self, sum: Sum) -> ReportRow {
        let models = match self.model_axis.and_then(|at| sum.numbers.get(at)) {
            Some(&model) => vec![(model, sum.tally)],
            None => sum.models,
        };
        let mut models: Vec<ModelTally> = models
            .into_iter()
            .map(|(model, tally)| ModelTally {
                model: self.model(model),
                tally,
            })
            .collect();
        models.sort_by(|a, b| {
            let size = |one: &ModelTally| Reverse(size(&one.tally, Sort::Cost));
            size(a).cmp(&size(b)).then_with(|| a.model.cmp(&b.model))
        });
        ReportRow {
            parts: self.parts(&sum.numbers),
            tally: sum.tally,
            models,
            first: sum.first,
            last: sum.last,
        }
    }

    /// Returns the models that had requests without a price.
    fn unpriced(&self) -> Vec<Unpriced> {
        let mut counts: HashMap<u32, (u64, u64)> = HashMap::new();
        let mut add = |model: u32, tally: &Tally| {
            if tally.unpriced > 0 {
                let (requests, tokens) = counts.entry(model).or_default();
                *requests += tally.unpriced;
                *tokens = tokens.saturating_add(tally.unpriced_tokens);
            }
        };
        for row in &self.rows {
            match self.model_axis.and_then(|at| row.numbers.get(at)) {
                Some(&model) => add(model, &row.tally),
                None => row
                    .models
                    .iter()
                    .for_each(|(model, tally)| add(*model, tally)),
            }
        }
        let mut unpriced: Vec<Unpriced> = counts
            .into_iter()
            .map(|(model, (requests, tokens))| Unpriced {
                model: self.model(model),
                requests,
                tokens,
            })
            .collect();
        unpriced.sort_by(|a, b| {
            let largest = b.tokens.cmp(&a.tokens);
            largest.then_with(|| a.model.cmp(&b.model))
        });
        unpriced
    }

    /// Removes all but the largest rows; returns the number and the sum of those removed. Among
    /// equal rows the first by key are kept.
    fn keep_largest(&mut self, top: usize, sort: Sort) -> Option<(usize, Tally)> {
        if top >= self.rows.len() {
            return None;
        }
        let mut largest = BinaryHeap::new();
        for (at, row) in self.rows.iter().enumerate() {
            let size = Reverse(size(&row.tally, sort));
            let is_less = |(least, _, _): &(Reverse<_>, _, _)| size > *least;
            if largest.len() == top && largest.peek().is_none_or(is_less) {
                continue;
            }
            // Keys are texts, so they are built only for candidates.
            largest.push((size, order(&self.parts(&row.numbers)), at));
            if largest.len() > top {
                largest.pop();
            }
        }
        let largest: HashSet<usize> = largest.into_iter().map(|(_, _, at)| at).collect();
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
        Some((at - largest.len(), rest))
    }
}
