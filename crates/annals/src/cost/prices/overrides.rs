//! A user's rows over those of the lists below.
//!
//! Who writes down what a model costs, and no day, means the model: not what it cost before the built-in list has it
//! change, nor only short contexts at the standard pace. So a row without a day replaces, of its model:
//!
//! - as the base of the standard pace, all rows;
//! - as the base of another pace, all rows of that pace;
//! - for contexts above a size, the rows of that pace and size, whatever their day.
//!
//! A row with a day replaces the one of its day, pace and context, or is added. What the user's list itself says of
//! other days, paces and contexts always counts.

use jiff::civil::Date;

use crate::model::ServiceTier;

use super::row::PriceRow;

/// The rows of a model with a user's over them.
pub(super) fn apply_overrides(below: Vec<PriceRow>, above: &[PriceRow]) -> Vec<PriceRow> {
    let aliased = |rows: &[PriceRow]| rows.iter().any(|row| row.same_as.is_some());
    if aliased(above) || aliased(&below) {
        return above.to_vec();
    }
    let stays = |row: &&PriceRow| !above.iter().any(|own| replaces(own, row));
    let mut rows: Vec<PriceRow> = below.iter().filter(stays).cloned().collect();
    for own in above {
        let own = with_facts(own, &below, above);
        let days = later_days(&own, &rows, above);
        rows.extend(days.into_iter().map(|day| PriceRow {
            from: Some(day),
            ..own.clone()
        }));
        rows.push(own);
    }
    rows
}

/// Whether a user's row stands in the place of another row of its model.
fn replaces(own: &PriceRow, other: &PriceRow) -> bool {
    let pace = own.tier == other.tier;
    match (own.from, own.above) {
        (Some(_), _) => own.sort_key() == other.sort_key(),
        (None, Some(_)) => pace && own.above == other.above,
        (None, None) => pace || own.tier == ServiceTier::Standard,
    }
}

/// The days from which a row for long contexts must hold once more: a newer day replaces all rows of its pace, and this
/// row is meant for all days but those of which the user's list speaks itself.
fn later_days(own: &PriceRow, rows: &[PriceRow], above: &[PriceRow]) -> Vec<Date> {
    if own.from.is_some() || own.above.is_none() {
        return Vec::new();
    }
    let of_pace = |row: &&PriceRow| row.tier == own.tier;
    let named = |day: &Date| {
        let mut days = above.iter().filter(of_pace).filter_map(|row| row.from);
        days.any(|named| named == *day)
    };
    // Rows of the user's own list may be among them by now, but only on days that it names, or that were found here.
    let mut days: Vec<Date> = rows
        .iter()
        .filter(of_pace)
        .filter_map(|row| row.from)
        .filter(|day| !named(day))
        .collect();
    days.sort_unstable();
    days.dedup();
    days
}

/// A user's row with what is as true of a new price as of the old one: the model's spelling, its provider, its window,
/// and what searches and the United States cost.
fn with_facts(own: &PriceRow, below: &[PriceRow], above: &[PriceRow]) -> PriceRow {
    let mut row = own.clone();
    // Of all days that a row replaces alone, the newest is known best.
    let alone = |known: &&PriceRow| {
        let by_another = |other: &PriceRow| {
            other.sort_key() == known.sort_key() && other.sort_key() != own.sort_key()
        };
        !above.iter().any(by_another)
    };
    let known = below
        .iter()
        .filter(|known| (known.tier, known.above) == (own.tier, own.above))
        .filter(|known| replaces(own, known))
        .filter(alone)
        .max_by_key(|known| known.from);
    if let Some(known) = known.or(below.first()) {
        row.model.clone_from(&known.model);
        if row.provider.is_empty() {
            row.provider.clone_from(&known.provider);
        }
        row.context = row.context.or(known.context);
        row.web_search = row.web_search.or(known.web_search);
        row.us_percent = row.us_percent.or(known.us_percent);
    }
    row
}
