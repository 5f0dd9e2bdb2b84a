//! Computes the price of a response from the rows of a model.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use annals_layouts::model::{BillingTerms, Money, ServiceTier, Usage};

use super::row::PriceRow;

/// Token prices are per million tokens.
const MILLION: i128 = 1_000_000;

/// Prices of one model, ready for use.
#[derive(Clone, Debug)]
pub(super) struct Tariff {
    rates: Vec<Rates>,
}

/// Prices of one row, per token.
#[derive(Clone, Debug)]
struct Rates {
    tier: ServiceTier,
    /// First day, counted from 1970.
    from: i64,
    above: Option<u64>,
    input: Money,
    output: Money,
    cache_write_5m: Money,
    cache_write_1h: Money,
    cache_read: Money,
    web_search: Option<Money>,
    us_percent: u32,
}

impl Tariff {
    /// Creates a tariff from rows sorted by [`PriceRow::sort_key`].
    pub(super) fn new(rows: &[PriceRow]) -> Self {
        Tariff {
            rates: rows.iter().filter_map(Rates::from_row).collect(),
        }
    }

    /// Returns the cost of these tokens; `None` if no row is in effect.
    pub(super) fn cost(
        &self,
        usage: &Usage,
        terms: BillingTerms,
        time: Option<Timestamp>,
    ) -> Option<Money> {
        let day = time.map_or(i64::MAX, day_of);
        let place = |rates: &Rates| (rates.tier, rates.from, rates.above);
        let rates = row_in_effect(&self.rates, place, day, terms.tier, usage.context())?;
        rates.cost(usage, terms.us_only)
    }
}

impl Rates {
    fn from_row(row: &PriceRow) -> Option<Self> {
        let each = |many: Money| Money::from_pico(many.pico() / MILLION);
        let billed = row.billed();
        Some(Rates {
            tier: row.tier,
            from: row.from.map_or(i64::MIN, first_day),
            above: row.above,
            input: each(billed.input?),
            output: each(billed.output?),
            cache_write_5m: each(billed.cache_write_5m?),
            cache_write_1h: each(billed.cache_write_1h?),
            cache_read: each(billed.cache_read?),
            web_search: row
                .web_search
                .map(|thousand| Money::from_pico(thousand.pico() / 1_000)),
            us_percent: row.us_percent.unwrap_or(100),
        })
    }

    /// Returns the cost; `None` if there are web searches without a price.
    fn cost(&self, usage: &Usage, us_only: bool) -> Option<Money> {
        let tokens = self.input * usage.input
            + self.output * usage.output
            + self.cache_write_5m * usage.cache_write_5m
            + self.cache_write_1h * usage.cache_write_1h
            + self.cache_read * usage.cache_read;
        let tokens = match us_only && self.us_percent != 100 {
            true => percentage(tokens, i128::from(self.us_percent)),
            false => tokens,
        };
        // The surcharge for the United States does not apply to searches.
        let searches = match usage.web_searches {
            0 => Money::ZERO,
            searches => self.web_search? * searches,
        };
        Some(tokens + searches)
    }
}

impl PriceRow {
    /// Returns the row with the missing cache prices filled in, as they are billed.
    ///
    /// For Anthropic's models they follow from the input price by Anthropic's rule. Other providers
    /// bill cache writes and reads like input; a longer cache lifetime costs no less than a shorter
    /// one.
    pub fn billed(&self) -> PriceRow {
        let mut row = self.clone();
        let Some(input) = row.input else { return row };
        // The price of a token is a whole number of pico-dollars.
        let rule = |percent: i128| match row.provider.as_str() {
            "anthropic" => {
                let token = percentage(Money::from_pico(input.pico() / MILLION), percent);
                Some(Money::from_pico(token.pico().saturating_mul(MILLION)))
            }
            _ => None,
        };
        let short = row.cache_write_5m.or_else(|| rule(125)).unwrap_or(input);
        let long = row.cache_write_1h.or_else(|| rule(200)).unwrap_or(short);
        let read = row.cache_read.or_else(|| rule(10)).unwrap_or(input);
        row.cache_write_5m = Some(short);
        row.cache_write_1h = Some(long);
        row.cache_read = Some(read);
        row
    }
}

/// Returns the row in effect on a day; `rows` must be sorted. It is the newest row of the service
/// tier and, among rows of its day, the one with the highest context limit that is exceeded. If the
/// tier has none, the standard tier is used.
///
/// The whole context determines the price of all tokens of a response: no vendor bills the first
/// tokens at the lower price.
pub(super) fn row_in_effect<T>(
    rows: &[T],
    place: impl Fn(&T) -> (ServiceTier, i64, Option<u64>),
    day: i64,
    pace: ServiceTier,
    context: u64,
) -> Option<&T> {
    let of = |wanted: ServiceTier| {
        rows.iter().rev().find(|row| {
            let (pace, from, above) = place(row);
            pace == wanted && from <= day && above.is_none_or(|above| context > above)
        })
    };
    of(pace).or_else(|| of(ServiceTier::Standard))
}

/// Returns the UTC day of a time, counted from 1970.
fn day_of(time: Timestamp) -> i64 {
    time.as_second().div_euclid(86_400)
}

/// Returns the number of a day, counted from 1970.
pub(super) fn first_day(date: Date) -> i64 {
    let zoned = date.to_zoned(TimeZone::UTC);
    zoned.map_or(i64::MAX, |zoned| day_of(zoned.timestamp()))
}

/// Returns a percentage of an amount, rounded half up to pico-dollars.
fn percentage(whole: Money, percent: i128) -> Money {
    Money::from_pico((whole.pico().saturating_mul(percent).saturating_add(50)) / 100)
}
