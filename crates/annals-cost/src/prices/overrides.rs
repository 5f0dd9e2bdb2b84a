//! Applies a user's price rows to the rows of lower-priority lists.
//!
//! A user row without a day applies to all days, not only until the first price change in the
//! built-in list. It replaces these rows of its model:
//!
//! - with the standard service tier and no context: all rows;
//! - with another tier and no context: all rows of that tier;
//! - for contexts above a size: the rows of that tier and size, on any day.
//!
//! A row with a day replaces the row of the same day, tier and context, or is added. Other rows of
//! the user's list are always kept.

use jiff::civil::Date;

use annals_layouts::model::ServiceTier;

use super::row::PriceRow;

/// Returns the rows of a model with a user's rows applied.
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

/// Returns true if a user's row replaces another row of its model.
fn replaces(own: &PriceRow, other: &PriceRow) -> bool {
    let pace = own.tier == other.tier;
    match (own.from, own.above) {
        (Some(_), _) => own.sort_key() == other.sort_key(),
        (None, Some(_)) => pace && own.above == other.above,
        (None, None) => pace || own.tier == ServiceTier::Standard,
    }
}

/// Returns the days on which a row for long contexts must be repeated. A row with a newer day hides
/// all older rows of its tier, but this row applies to all days, except those in the user's list.
fn later_days(own: &PriceRow, rows: &[PriceRow], above: &[PriceRow]) -> Vec<Date> {
    if own.from.is_some() || own.above.is_none() {
        return Vec::new();
    }
    let of_pace = |row: &&PriceRow| row.tier == own.tier;
    let named = |day: &Date| {
        let mut days = above.iter().filter(of_pace).filter_map(|row| row.from);
        days.any(|named| named == *day)
    };
    // `rows` may already contain rows of the user's list, but only on days named there or found
    // here.
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

/// Returns a user's row completed with facts that do not depend on the price: the model's spelling,
/// provider and context window, and the prices for searches and the United States.
fn with_facts(own: &PriceRow, below: &[PriceRow], above: &[PriceRow]) -> PriceRow {
    let mut row = own.clone();
    // Of the rows that only this row replaces, the newest has the best data.
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
