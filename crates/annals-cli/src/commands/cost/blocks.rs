//! Five-hour blocks: gaps between them, and a projection of the active one.

use annals::cost::{CostReport, ReportRow};
use jiff::{SignedDuration, Timestamp};

use annals_render::money;
use annals_render::size;
use annals_render::style::PLAIN;
use annals_render::time::{Clock, duration};
use annals_render::width::Span;

/// Returns the note about the active block.
pub(super) fn active_block_line(report: &CostReport, clock: &Clock) -> Option<Span> {
    let mut blocks = report.rows.iter().filter_map(ReportRow::block);
    let block = blocks.find(|block| block.is_active(clock.now))?;
    let end = clock.hour_minute(block.end);
    let mut line = format!(
        "The active block ends at {end}, in {}",
        duration(block.remaining(clock.now))
    );
    let (rate, comes) = (block.burn_rate(clock.now), block.projection(clock.now));
    let tokens = (
        size::compact(rate.tokens_per_minute),
        size::compact(comes.tokens),
    );
    line += &match block.tally.priced() {
        Some(_) => format!(
            " · {} an hour, {} tokens a minute · at this pace {} and {} tokens at the end",
            money::cents(rate.cost_per_hour),
            tokens.0,
            money::cents(comes.cost),
            tokens.1,
        ),
        // The cost is unknown.
        None => format!(
            " · {} tokens a minute · at this pace {} tokens at the end",
            tokens.0, tokens.1
        ),
    };
    Some(Span::new(&line, PLAIN))
}

/// Returns the gap between two blocks, if there is one.
pub(super) fn gap_between(before: &ReportRow, after: &ReportRow) -> Option<SignedDuration> {
    let (before, after) = (before.block()?, after.block()?);
    let idle = |from: Timestamp, to: Timestamp| to.duration_since(from);
    let idle = idle(before.end, after.start);
    (idle > SignedDuration::ZERO).then_some(idle)
}
