//! Column charts over time.

use super::calendar::AxisLabels;
use super::fold::{FoldedSeries, Series, Stack};
use super::frame::{BASE, DrawAmount as _, FONT_SLACK, Frame, GRID, GROUP, LABEL, TICK};
use super::scene::{Anchor, Area, Draw, Item, Scene};
use super::time::{Step, TimeAxis};
use super::{Chart, Size};

/// The least visible height.
const MIN_HEIGHT: f64 = 1.0;

pub(super) fn lay_out(chart: &Chart, step: Step, size: Size) -> Scene {
    // A column is at least about a point wide, regardless of the legend.
    let columns = usize::from(size.width) * 2 / 3;
    let most = match step {
        Step::Block(_) => columns * 3,
        _ => columns,
    };
    let line = TimeAxis::new(&chart.bars, step, most);
    let fold = FoldedSeries::new(chart);
    let stacks: Vec<Stack> = line
        .columns
        .iter()
        .map(|column| fold.stack(&column.bar))
        .collect();
    let notes: Vec<&str> = line
        .note
        .iter()
        .chain(&chart.notes)
        .map(String::as_str)
        .collect();
    let Frame { mut scene, room } = Frame::new(chart, &fold.series, &notes, size);

    let most = stacks.iter().map(|stack| stack.total).max().unwrap_or(0);
    let ticks = chart.unit.ticks(most);
    let top = ticks.last().map_or(1, |tick| tick.amount);
    let labels = ticks
        .iter()
        .map(|tick| TICK.width(&tick.label) * FONT_SLACK);
    let plot = Area {
        left: room.left + labels.fold(0.0, f64::max) + 12.0,
        bottom: room.bottom - 44.0,
        ..room
    };
    let height = |amount: i128| plot.height() * (amount as f64 / top as f64);
    for tick in &ticks {
        let y = plot.bottom - height(tick.amount);
        let color = if tick.amount == 0 { BASE } else { GRID };
        if tick.amount > 0 {
            scene.line((plot.left, y), (plot.right, y), 1.0, color);
        }
        scene.text((plot.left - 12.0, y + 4.0), &tick.label, TICK, Anchor::End);
    }

    let place = plot.width() / line.slots.len().max(1) as f64;
    let amounts: Vec<String> = stacks
        .iter()
        .map(|stack| chart.unit.short(stack.total))
        .collect();
    let room_for_amounts = amounts.iter().zip(&line.columns).all(|(amount, column)| {
        LABEL.width(amount) * FONT_SLACK + 8.0 <= place * column.slots as f64
    });
    for ((column, stack), amount) in line.columns.iter().zip(&stacks).zip(&amounts) {
        let begin = plot.left + place * column.slot as f64;
        let slot = Area {
            left: begin,
            right: begin + place * column.slots as f64,
            ..plot
        };
        let mut items = bar(stack, &fold.series, column_area(slot), height);
        if room_for_amounts {
            let y = plot.bottom - height(stack.total) - 7.0;
            items.amount(((slot.left + slot.right) / 2.0, y), amount, Anchor::Middle);
        }
        scene.put(Item::Group {
            title: tooltip(chart, stack, &fold.series),
            near: slot,
            items,
        });
    }
    scene.line(
        (plot.left, plot.bottom),
        (plot.right, plot.bottom),
        1.0,
        BASE,
    );
    time_axis(&mut scene, &AxisLabels::new(&line, plot.left, place), plot);
    scene.description = describe(chart, &stacks, &scene.description);
    scene
}

/// The area of the column within its slot.
fn column_area(slot: Area) -> Area {
    const MAX_WIDTH: f64 = 96.0;
    let place = slot.width();
    let gap = match place {
        24.0.. => place * 0.28,
        8.0.. => place * 0.22,
        4.0.. => place * 0.18,
        _ => 0.0,
    };
    let gap = gap.max(place - MAX_WIDTH);
    // Rounds edges to half points to keep them sharp, except for narrow columns with gaps, which
    // would get unequal widths.
    let edge = |x: f64| match place {
        4.0..6.0 => x,
        _ => (x * 2.0).round() / 2.0,
    };
    Area {
        left: edge(slot.left + gap / 2.0),
        right: edge(slot.right - gap / 2.0),
        ..slot
    }
}

/// The parts of a column, the largest series at the bottom.
fn bar(stack: &Stack, series: &[Series], area: Area, height: impl Fn(i128) -> f64) -> Vec<Item> {
    let mut items = Vec::new();
    if stack.total <= 0 {
        return items;
    }
    let top = area.bottom - height(stack.total).max(MIN_HEIGHT);
    let mut below: i128 = 0;
    for (part, series) in stack
        .parts
        .iter()
        .zip(series)
        .filter(|(part, _)| **part > 0)
    {
        let bottom = area.bottom - height(below);
        below = below.saturating_add(*part);
        let last = below == stack.total;
        let part = Area {
            top: if last {
                top
            } else {
                area.bottom - height(below)
            },
            bottom,
            ..area
        };
        // A thin white gap separates neighbours whose colours look alike to some people.
        let gap = match part.height() > 3.0 && area.width() > 4.0 && !last {
            true => 1.0,
            false => 0.0,
        };
        items.rect(
            Area {
                top: part.top + gap,
                ..part
            },
            series.color,
        );
    }
    items
}

fn time_axis(scene: &mut Scene, marks: &AxisLabels, plot: Area) {
    for mark in &marks.upper {
        if let Some(x) = mark.tick {
            scene.line((x, plot.bottom), (x, plot.bottom + 6.0), 1.0, BASE);
        }
        scene.text(
            (mark.at, plot.bottom + 18.0),
            &mark.label,
            TICK,
            mark.anchor,
        );
    }
    for mark in &marks.lower {
        if let Some(x) = mark.tick {
            // Interrupts the line where a label is.
            match marks.upper.iter().any(|near| near.covers(x)) {
                true => {
                    scene.line((x, plot.bottom), (x, plot.bottom + 6.0), 1.0, GRID);
                    scene.line((x, plot.bottom + 24.0), (x, plot.bottom + 40.0), 1.0, GRID);
                }
                false => scene.line((x, plot.bottom), (x, plot.bottom + 40.0), 1.0, GRID),
            }
        }
        scene.text(
            (mark.at, plot.bottom + 38.0),
            &mark.label,
            GROUP,
            mark.anchor,
        );
    }
}

/// Exact amounts of a bar and its parts.
pub(super) fn tooltip(chart: &Chart, stack: &Stack, series: &[Series]) -> String {
    let label = super::scene::make_visible(stack.detail.as_ref().unwrap_or(&stack.label));
    let mut text = format!("{label}: {}", chart.unit.exact(stack.total));
    let parts = stack
        .parts
        .iter()
        .zip(series)
        .filter(|(part, _)| **part > 0);
    for (part, series) in parts.filter(|(_, series)| !series.name.is_empty()) {
        let name = super::scene::make_visible(&series.name);
        text.push_str(&format!("\n{name}: {}", chart.unit.exact(*part)));
    }
    text
}

/// A text description of the chart, for screen readers.
pub(super) fn describe(chart: &Chart, stacks: &[Stack], subtitle: &str) -> String {
    let largest = stacks
        .iter()
        .filter(|stack| !stack.is_rest)
        .max_by_key(|stack| stack.total);
    match largest {
        Some(stack) => format!(
            "{subtitle}. The largest is {} with {}.",
            super::scene::make_visible(&stack.label),
            chart.unit.exact(stack.total)
        ),
        None => subtitle.to_owned(),
    }
}
