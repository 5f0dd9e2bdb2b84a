//! Five-hour blocks: the breaks between them, and where the current one is going.

use annals::cost::{Report, Row};
use jiff::{SignedDuration, Timestamp};

use crate::render::money;
use crate::render::size;
use crate::render::style::PLAIN;
use crate::render::time::{Clock, duration};
use crate::render::width::Span;

/// What people want to know of the block that is running.
pub(super) fn active(report: &Report, clock: &Clock) -> Option<Span> {
    let mut blocks = report.rows.iter().filter_map(Row::block);
    let block = blocks.find(|block| block.active(clock.now))?;
    let end = clock.hour_minute(block.end);
    let mut line = format!(
        "The active block ends at {end}, in {}",
        duration(block.remaining(clock.now))
    );
    if let Some((rate, comes)) = block.burn_rate().zip(block.projection(clock.now)) {
        line += &format!(
            " · {} an hour, {} tokens a minute · at this pace {} and {} tokens in the end",
            money::cents(rate.cost_per_hour),
            size::compact(rate.tokens_per_minute),
            money::cents(comes.cost),
            size::compact(comes.tokens),
        );
    }
    Some(Span::new(&line, PLAIN))
}

/// The break between two blocks, if there is one.
pub(super) fn gap(before: &Row, after: &Row) -> Option<SignedDuration> {
    let (before, after) = (before.block()?, after.block()?);
    let idle = |from: Timestamp, to: Timestamp| to.duration_since(from);
    let idle = idle(before.end, after.start);
    (idle > SignedDuration::ZERO).then_some(idle)
}
