//! Keeps the largest series and bars and adds up the rest.

use std::collections::HashMap;

use super::super::size;
use super::scene::Color;
use super::{Bar, Chart};

/// Most series with their own colour.
const MAX_SERIES: usize = 8;
/// Most names with their own bar.
pub(super) const MAX_NAMES: usize = 20;

/// Colours that are distinguishable with colour blindness (Okabe and Ito). Their yellow and black,
/// too close to white and to text, are replaced with two of Tol's.
const PALETTE: [Color; MAX_SERIES] = [
    Color(0x0072b2),
    Color(0xe69f00),
    Color(0x009e73),
    Color(0xd55e00),
    Color(0x56b4e9),
    Color(0xcc79a7),
    Color(0x332288),
    Color(0x999933),
];
/// The colour of the remaining series.
pub(super) const REST_COLOR: Color = Color(0xb4b8be);

/// A series that is drawn.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) color: Color,
    pub(super) total: i128,
}

/// A bar that is drawn.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    pub(super) label: String,
    pub(super) detail: Option<String>,
    /// The amount of every series.
    pub(super) parts: Vec<i128>,
    pub(super) total: i128,
    /// Whether it is the sum of the bars that are not drawn.
    pub(super) is_rest: bool,
}

impl Stack {
    fn new(label: String, parts: Vec<i128>) -> Self {
        Stack {
            total: sum(parts.iter().copied()),
            label,
            detail: None,
            parts,
            is_rest: false,
        }
    }
}

/// The series that are drawn, largest first.
pub(super) struct FoldedSeries {
    pub(super) series: Vec<Series>,
    /// Index of the drawn series for each series of the chart.
    series_index: HashMap<usize, usize>,
}

impl FoldedSeries {
    pub(super) fn new(chart: &Chart) -> Self {
        let mut totals: HashMap<usize, i128> = HashMap::new();
        for (series, amount) in chart.bars.iter().flat_map(|bar| &bar.parts) {
            let total = totals.entry(*series).or_default();
            *total = total.saturating_add((*amount).max(0));
        }
        let name = |series: usize| chart.series.get(series).map_or("", String::as_str);
        let mut order: Vec<(usize, i128)> =
            totals.into_iter().filter(|(_, total)| *total > 0).collect();
        order.sort_by(|a, b| {
            b.1.cmp(&a.1)
                .then_with(|| name(a.0).cmp(name(b.0)))
                .then(a.0.cmp(&b.0))
        });
        let rest = match order.len() > MAX_SERIES {
            true => order.split_off(MAX_SERIES),
            false => Vec::new(),
        };
        let mut places = HashMap::new();
        let mut series = Vec::new();
        for ((at, total), color) in order.into_iter().zip(PALETTE) {
            places.insert(at, series.len());
            series.push(Series {
                name: name(at).to_owned(),
                color,
                total,
            });
        }
        if let Some((first, _)) = rest.first() {
            places.extend(rest.iter().map(|(at, _)| (*at, series.len())));
            series.push(Series {
                name: match rest.len() {
                    1 => name(*first).to_owned(),
                    many => others_label(many),
                },
                color: REST_COLOR,
                total: sum(rest.iter().map(|(_, total)| *total)),
            });
        }
        FoldedSeries {
            series,
            series_index: places,
        }
    }

    /// The amounts of a bar for each drawn series.
    pub(super) fn stack(&self, bar: &Bar) -> Stack {
        let mut parts = vec![0i128; self.series.len()];
        for (series, amount) in &bar.parts {
            let place = self
                .series_index
                .get(series)
                .and_then(|at| parts.get_mut(*at));
            if let Some(part) = place {
                *part = part.saturating_add((*amount).max(0));
            }
        }
        Stack {
            detail: bar.detail.clone(),
            ..Stack::new(bar.label.clone(), parts)
        }
    }

    /// The `most` largest bars, and the rest as one.
    pub(super) fn largest_bars(&self, bars: &[Bar], most: usize) -> Vec<Stack> {
        let mut stacks: Vec<Stack> = bars.iter().map(|bar| self.stack(bar)).collect();
        stacks.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.label.cmp(&b.label)));
        if stacks.len() > most + 1 {
            let rest = stacks.split_off(most);
            let mut parts = vec![0i128; self.series.len()];
            for stack in &rest {
                for (part, more) in parts.iter_mut().zip(&stack.parts) {
                    *part = part.saturating_add(*more);
                }
            }
            stacks.push(Stack {
                is_rest: true,
                ..Stack::new(others_label(rest.len()), parts)
            });
        }
        stacks
    }
}

fn others_label(count: usize) -> String {
    size::pluralize(count as u64, "other")
}

fn sum(amounts: impl Iterator<Item = i128>) -> i128 {
    amounts.fold(0, i128::saturating_add)
}
