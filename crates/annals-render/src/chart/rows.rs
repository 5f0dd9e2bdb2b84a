//! Bars by name, largest first.

use super::columns::{describe, tooltip};
use super::fold::{FoldedSeries, MAX_NAMES, REST_COLOR, Series, Stack};
use super::frame::{BASE, DrawAmount as _, FONT_SLACK, Frame, GRID, LABEL, PAPER, TICK};
use super::scene::{Anchor, Area, Draw, Item, Scene, make_visible};
use super::{Chart, Size};

/// Height of the axis labels.
const AXIS_HEIGHT: f64 = 24.0;
const NARROWEST_ROW: f64 = 17.0;
const WIDEST_ROW: f64 = 100.0;
const WIDEST_BAR: f64 = 40.0;
const MIN_LENGTH: f64 = 1.0;

pub(super) fn lay_out(chart: &Chart, size: Size) -> Scene {
    let fold = FoldedSeries::new(chart);
    let notes: Vec<&str> = chart.notes.iter().map(String::as_str).collect();
    let Frame { mut scene, room } = Frame::new(chart, &fold.series, &notes, size);

    let high = room.height() - AXIS_HEIGHT;
    let fit = (high / NARROWEST_ROW) as usize;
    let stacks = fold.largest_bars(&chart.bars, MAX_NAMES.min(fit.saturating_sub(1)));
    // Labels take the width they need, up to 38 %.
    let most = room.width() * 0.38 / FONT_SLACK;
    let labels: Vec<String> = stacks
        .iter()
        .map(|stack| LABEL.cut(&make_visible(&stack.label), most))
        .collect();
    let amounts: Vec<String> = stacks
        .iter()
        .map(|stack| chart.unit.exact(stack.total))
        .collect();
    let widest = |texts: &[String]| {
        let widths = texts.iter().map(|text| LABEL.width(text) * FONT_SLACK);
        widths.fold(0.0, f64::max)
    };
    let row = (high / stacks.len().max(1) as f64).min(WIDEST_ROW);
    let plot = Area {
        left: room.left + widest(&labels) + 14.0,
        top: room.top,
        right: room.right - widest(&amounts) - 8.0,
        bottom: room.top + row * stacks.len() as f64,
    };

    // The scale ignores the rest, which may be larger than all named bars and would dwarf them.
    let named = stacks.iter().filter(|stack| !stack.is_rest);
    let largest = named.map(|stack| stack.total).max().unwrap_or(0);
    let ticks = chart.unit.ticks(largest);
    let top = ticks.last().map_or(1, |tick| tick.amount);
    let length = |amount: i128| plot.width() * (amount as f64 / top as f64);
    let room_for_ticks = ticks
        .iter()
        .map(|tick| TICK.width(&tick.label) * FONT_SLACK + 12.0)
        .fold(0.0, f64::max);
    let every = (room_for_ticks * ticks.len() as f64 / plot.width())
        .ceil()
        .max(1.0) as usize;
    for (at, tick) in ticks.iter().enumerate() {
        let x = plot.left + length(tick.amount);
        if tick.amount > 0 {
            scene.line((x, plot.top), (x, plot.bottom + 4.0), 1.0, GRID);
        }
        if at % every == 0 {
            scene.text((x, plot.bottom + 20.0), &tick.label, TICK, Anchor::Middle);
        }
    }
    for (at, stack) in stacks.iter().enumerate() {
        let y = plot.top + row * at as f64;
        let slot = Area {
            left: room.left,
            top: y,
            right: room.right,
            bottom: y + row,
        };
        let thick = (row * 0.7).min(WIDEST_BAR);
        let middle = y + row / 2.0;
        let edge = |y: f64| (y * 2.0).round() / 2.0;
        let area = Area {
            left: plot.left,
            top: edge(middle - thick / 2.0),
            right: plot.right,
            bottom: edge(middle + thick / 2.0),
        };
        let mut items = Vec::new();
        let base = middle + 4.5;
        items.text((plot.left - 14.0, base), &labels[at], LABEL, Anchor::End);
        let end = bar(&mut items, stack, &fold.series, area, length);
        items.amount((end + 8.0, base), &amounts[at], Anchor::Start);
        scene.put(Item::Group {
            title: tooltip(chart, stack, &fold.series),
            near: slot,
            items,
        });
    }
    scene.line(
        (plot.left, plot.top),
        (plot.left, plot.bottom + 4.0),
        1.0,
        BASE,
    );
    scene.description = describe(chart, &stacks, &scene.description);
    scene
}

/// Draws the parts of a bar, and returns where it ends.
fn bar(
    items: &mut Vec<Item>,
    stack: &Stack,
    series: &[Series],
    area: Area,
    length: impl Fn(i128) -> f64,
) -> f64 {
    if stack.total <= 0 {
        return area.left;
    }
    let whole = length(stack.total).max(MIN_LENGTH);
    // A bar that does not fit is compressed and drawn broken.
    let press = (area.width() / whole).min(1.0);
    let end = area.left + whole * press;
    let plain = series.len() == 1;
    let mut before: i128 = 0;
    for (part, series) in stack
        .parts
        .iter()
        .zip(series)
        .filter(|(part, _)| **part > 0)
    {
        let left = area.left + length(before) * press;
        before = before.saturating_add(*part);
        let last = before == stack.total;
        let right = if last {
            end
        } else {
            area.left + length(before) * press
        };
        let gap = if right - left > 3.0 && !last {
            1.0
        } else {
            0.0
        };
        items.rect(
            Area {
                left,
                right: right - gap,
                ..area
            },
            if stack.is_rest && plain {
                REST_COLOR
            } else {
                series.color
            },
        );
    }
    if press < 1.0 {
        for at in [0.80, 0.815] {
            let x = area.left + area.width() * at;
            items.line(
                (x - 4.0, area.bottom + 3.0),
                (x + 4.0, area.top - 3.0),
                4.0,
                PAPER,
            );
        }
    }
    end
}
